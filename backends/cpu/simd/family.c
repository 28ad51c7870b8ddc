/* family.c: constants that depend on the processor family, with their
 * measurements. Each family has one table. To support another family, add a
 * table. Constants for all families are in run/tuning.h and beside the loops
 * that use them. */
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "routines.h"

/* Measured on AMD EPYC 9004 (Zen 4, 32 MiB of L3), 1 thread, 2026-11. The
 * hardware prefetcher follows the streams of all loops below.
 *
 *   wide: two input streams and one output stream run at the speed of the
 *     last-level cache. With 4 MiB each they take 150 us with 32-byte vectors
 *     and 165 us with 64-byte vectors.
 *   prefetches_in_place: for four tensors of 4 MiB, SGD with momentum takes
 *     1.8 ms without prefetches and 2.45 ms with them. Adam takes 2.5 ms
 *     without prefetches and 3.8 ms with them.
 *   reduce_ahead: sums of 4 MiB in the last-level cache take 46 us without
 *     software prefetches or if only the next cache lines are prefetched, and
 *     47 to 57 us with distances of 1 to 12 KiB.
 *   weight_ahead: with 512 to 1024 bytes, products of one row with weights in
 *     blocks read at 92 to 100 % of the memory's speed (24 GB/s), with 2048
 *     bytes at 60 to 80 %. */
static const tn_cpu_family double_pumped = {
    .name = "64-byte vectors in two halves (AMD up to Zen 4)",
    .wide = 0,
    .prefetches_in_place = 0,
    .prefetches_columns = 0,
    .reduce_ahead = 128,
    .reduce_far_ahead = 128,
    .copy_ahead = 0,
    .stream_ahead = 0,
    .weight_ahead = 768,
};

/* Measured on AMD EPYC (Zen 5), 1 thread, 2026-11. Processors that were not
 * measured use this table too.
 *
 *   prefetches_columns: with prefetches, sums of 1024 columns of 4096 elements
 *     take 252 us instead of 300, minima and maxima 338 us instead of 530.
 *   reduce_ahead: sums of rows in the last-level cache take 40.5 us for 4 MiB
 *     with a distance of 6 KiB, and 41 to 43 us with 12 to 24 KiB. For 8 MiB
 *     they take 82 us with 6 KiB, and 84 to 88 us with 12 to 24 KiB.
 *   reduce_far_ahead: sums of 16 MiB, partly cached, take 184 to 192 us with
 *     distances of 12 to 24 KiB, and 212 us with 6 KiB. For 32 MiB they take
 *     601 to 615 us with 12 to 24 KiB, and 638 us with 6 KiB.
 *   copy_ahead: with prefetches, clone of 16 MiB takes 0.45 ms instead of 0.6.
 *   stream_ahead: with prefetches, adding a row to 4096 x 1024 takes 0.45 ms
 *     instead of 0.57, exp of 64 MiB 2.4 ms instead of 3.0. Programs with two
 *     input streams take the same time with and without prefetches.
 *   weight_ahead: products of one row with weights in blocks read 35 to 43 GB/s
 *     with 2560 bytes, 33 to 36 with 1536, 18 to 30 with 768. A loop that only
 *     reads reaches 44. 2048 bytes are as good there (0.99 to 1.02), and better
 *     for float32 and half types: a token of a language model takes 0.93 of its
 *     time with 1024 or 3072 bytes, and 0.88 of its time without prefetches. */
static const tn_cpu_family full_width = {
    .name = "64-byte vectors at once, and all others",
    .wide = 1,
    .prefetches_in_place = 1,
    .prefetches_columns = 1,
    .reduce_ahead = 6144,
    .reduce_far_ahead = 16384,
    .copy_ahead = 16384,
    .stream_ahead = 16384,
    .weight_ahead = 2048,
};

/* Returns the table of this processor. AMD's families 17h to 19h (up to Zen 4)
 * execute 512-bit vectors in two halves. CPUID leaf 8000001Ah has a bit for
 * full-width 512-bit units, but KVM hides it, so the family number decides. The
 * leaf's bit for 256-bit units shows that the processor is AMD's. */
const tn_cpu_family *tn__cpu_family_here(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d, widths = 0;
    if (__get_cpuid(0x8000001a, &a, &b, &c, &d))
        widths = a;
    if (!(widths & 4) || !__get_cpuid(1, &a, &b, &c, &d))
        return &full_width;
    unsigned family = (a >> 8 & 15) + (a >> 20 & 255);
    if (family >= 0x17 && family <= 0x19)
        return &double_pumped;
#endif
    return &full_width;
}
