/* scan_sums.h: the state of a scan (cpu_scan.c), and prefix sums of floats
 * (scan_sums.c). */
#ifndef TN_CPU_SCAN_SUMS_H
#define TN_CPU_SCAN_SUMS_H

#include "../cpu_device.h"

/* The state of a line between two blocks: the reduction of the elements so far,
 * and the index of the minimum or maximum. */
typedef struct carry {
    union {
        float f32;
        double f64;
        int32_t i32;
        int64_t i64;
        uint8_t boolean;
    } fold;
    int64_t place;
    /* finds elements that change nothing, or NULL */
    tn_cpu_scan_unchanged *unchanged;
} carry;

/* Arguments for the minimum or maximum with indices of adjacent lines. Steps
 * count elements along a line. */
typedef struct placed {
    void *out;
    const void *in;
    int64_t *place;
    int64_t out_step, in_step, place_step;
    /* number of lines, and number of elements in a line */
    int64_t lines, count;
} placed;

/* Computes TOGETHER contiguous lines (cpu_scan.c). */
typedef void scan_together(void *out, int64_t out_step, const void *in,
                           int64_t in_step, int64_t count);
/* Computes the minimum or maximum, with indices, of adjacent lines. */
typedef void scan_placed(const placed *p);
/* Replaces n values, the first of them at position k of the line, by their
 * prefix reductions. place is NULL or receives indices. */
typedef void scan_block(unsigned kind, void *block, int64_t *place, int64_t n,
                        int64_t k, carry *c);

typedef struct scan_work {
    const tn_scan_args *s;
    const tn_cpu_routines *routines;
    scan_block *run;
    /* finds elements that change nothing, or NULL */
    tn_cpu_scan_unchanged *unchanged;
    int64_t lines, lines_per_task;
    /* Sums of floats, or NULL for other reductions. If sum is set, the fields
     * from `together` to `placed` are NULL. */
    tn_cpu_scan *sum;
    /* sums of floats of adjacent lines, or NULL */
    tn_cpu_scan_rows *sum_rows;
    /* TOGETHER lines interleaved; NULL if lines run one by one */
    scan_together *together;
    /* combines a vector of elements of adjacent lines; NULL if lines are not
     * adjacent */
    tn_cpu_run *columns;
    /* minimum or maximum with indices of adjacent lines, or NULL */
    scan_placed *placed;
    int64_t side;            /* number of adjacent lines, a divisor of lines */
    /* sums are written by non-temporal stores: 4096 x 1024 floats take 0.39 ms
     * instead of 0.50 (Zen 5) */
    bool streams;
} scan_work;

/* The offset in elements of a line's first element. */
static inline int64_t line_offset(const tn_scan_args *s,
                                  const tn_strided *view, int64_t line)
{
    int64_t offset = view->offset;
    for (uint32_t d = s->ndim - 1; d-- > 0; line /= s->extent[d])
        offset += line % s->extent[d] * view->stride[d];
    return offset;
}

/* Prefix sums of floats of lines [first, end), which are a constant distance
 * apart: one line, or lines of one dimension. */
void tn__cpu_scan_sum_lines(const scan_work *w, int64_t first, int64_t end);
/* Prefix sums of floats of lines [first, end), which are adjacent in memory. */
void tn__cpu_scan_sum_columns(const scan_work *w, int64_t first, int64_t end);

#endif
