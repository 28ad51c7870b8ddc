/* scan_sums.h: a scan while it runs, and its sums of floats. */
#ifndef TN_CPU_SCAN_SUMS_H
#define TN_CPU_SCAN_SUMS_H

#include "../cpu_device.h"

typedef struct carry {
    union {
        float f32;
        double f64;
        int32_t i32;
        int64_t i64;
        uint8_t boolean;
    } fold;
    int64_t place;
    tn_cpu_scan_unchanged *unchanged; /* or NULL */
} carry;

/* Adjacent sequences, with the index of each value. Steps are strides between
 * elements. */
typedef struct placed {
    void *out;
    const void *in;
    int64_t *place;
    int64_t out_step, in_step, place_step;
    int64_t lines, count;
} placed;

/* TOGETHER contiguous sequences (cpu_scan.c). */
typedef void scan_together(void *out, int64_t out_step, const void *in,
                           int64_t in_step, int64_t count);
typedef void scan_placed(const placed *p);
typedef void scan_block(unsigned kind, void *block, int64_t *place, int64_t n,
                        int64_t k, carry *c);

typedef struct scan_work {
    const tn_scan_args *s;
    const tn_cpu_routines *routines;
    scan_block *run;
    tn_cpu_scan_unchanged *unchanged; /* or NULL */
    int64_t lines, lines_per_task;
    tn_cpu_scan *sum; /* of floats. Then sum_rows, or NULL, is for adjacent
                         sequences, and the fields below are NULL */
    tn_cpu_scan_rows *sum_rows;
    scan_together *together; /* NULL: sequences run one by one */
    tn_cpu_run *columns;     /* combines vectors of sequences; NULL: not
                                adjacent */
    scan_placed *placed;     /* the same with indices */
    int64_t side;            /* adjacent sequences, a divisor of lines */
    bool streams;            /* non-temporal stores of sums: 4096 x 1024 floats
                                0.39 ms instead of 0.50 (Zen 5) */
} scan_work;

/* The offset of a sequence's first element. */
static inline int64_t line_offset(const tn_scan_args *s,
                                  const tn_strided *view, int64_t line)
{
    int64_t offset = view->offset;
    for (uint32_t d = s->ndim - 1; d-- > 0; line /= s->extent[d])
        offset += line % s->extent[d] * view->stride[d];
    return offset;
}

/* Sums of floats of sequences [first, end), a constant distance apart: one, or
 * those of one dimension. */
void tn__cpu_scan_sum_lines(const scan_work *w, int64_t first, int64_t end);
/* The same of sequences that are adjacent in memory. */
void tn__cpu_scan_sum_columns(const scan_work *w, int64_t first, int64_t end);

#endif
