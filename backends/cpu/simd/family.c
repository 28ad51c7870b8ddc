/* family.c: the constants that depend on the processor family, one table a
 * family. Constants that serve all families are in run/tuning.h and beside the
 * loops that use them. Each has its measurements; a new family is a row here.
 */
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "routines.h"

/* Measured on AMD EPYC 9004 (Zen 4, 32 MiB of L3), one thread. The hardware
 * prefetcher follows the streams of all loops below.
 *
 * wide: two input streams and one output run at the speed of the last-level
 * cache: 4 MiB each take 150 us with vectors of 32 bytes, 165 with 64.
 * prefetches_in_place: four tensors of 4 MiB take 1.8 ms by SGD with momentum
 * without prefetches and 2.45 with them, by Adam 2.5 and 3.8.
 * reduce_ahead: sums of 4 MiB from the last-level cache take 46 us with the
 * next lines or nothing, and 47 to 57 with 1 to 12 KiB. */
static const tn_cpu_family double_pumped = {
    .name = "64-byte vectors in two halves (AMD up to Zen 4)",
    .wide = 0,
    .prefetches_in_place = 0,
    .prefetches_columns = 0,
    .reduce_ahead = 128,
    .reduce_far_ahead = 128,
    .copy_ahead = 0,
    .stream_ahead = 0,
};

/* Measured on AMD EPYC (Zen 5), one thread. Also for processors that were not
 * measured.
 *
 * prefetches_columns: sums of 1024 columns of 4096 take 252 us instead of 300,
 * minima and maxima 338 instead of 530.
 * reduce_ahead: sums of rows in the last-level cache take 40.5 us for 4 MiB
 * with 6 KiB, 41 to 43 with 12 to 24; for 8 MiB 82 and 84 to 88.
 * reduce_far_ahead: partly cached 16 MiB take 184 to 192 us with 12 to 24 KiB
 * and 212 with 6, 32 MiB 601 to 615 and 638.
 * copy_ahead: clone of 16 MiB takes 0.45 ms, and 0.6 without.
 * stream_ahead: adding a row to 4096 x 1024 takes 0.45 ms, and 0.57 without;
 * exp of 64 MiB 2.4 and 3.0; two input streams make no difference. */
static const tn_cpu_family full_width = {
    .name = "64-byte vectors at once, and all others",
    .wide = 1,
    .prefetches_in_place = 1,
    .prefetches_columns = 1,
    .reduce_ahead = 6144,
    .reduce_far_ahead = 16384,
    .copy_ahead = 16384,
    .stream_ahead = 16384,
};

/* AMD's processors up to Zen 4, families 17h to 19h, execute 512-bit vectors in
 * halves. Leaf 8000001Ah has a bit for full-width 512-bit units, but KVM hides
 * it. Its bit for 256 bits identifies AMD's families. */
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
