/* scan_sums.h: the state of a scan (cpu_scan.c), and prefix sums of floats
 * (scan_sums.c). A line is one sequence of elements along the scanned
 * dimension. Lines are adjacent if their elements of equal index are contiguous
 * in memory. */
#ifndef TN_CPU_SCAN_SUMS_H
#define TN_CPU_SCAN_SUMS_H

#include "../cpu_device.h"

/* The state of the scan of one sequence after some of its blocks: the reduction
 * of the elements so far and, for minima and maxima, the index of the current
 * minimum or maximum. */
typedef struct carry {
    union {
        float f32;
        double f64;
        int32_t i32;
        int64_t i64;
        uint8_t boolean;
    } fold;
    int64_t place;
    /* A routine that returns how many of the next elements leave unchanged the
     * minimum or maximum, or NULL. */
    tn_cpu_scan_unchanged *unchanged;
} carry;

/* Arguments of a function that computes the prefix minima or maxima with
 * indices of adjacent lines (sequences whose elements of equal index are
 * contiguous). A step is the stride, in elements, between two elements of a
 * line. */
typedef struct placed {
    void *out;
    const void *in;
    int64_t *place;
    int64_t out_step, in_step, place_step;
    /* The number of lines, and of elements in a line. */
    int64_t lines, count;
} placed;

/* A function that scans TOGETHER sequences with contiguous elements
 * (cpu_scan.c). The steps are the strides from sequence to sequence in
 * elements. */
typedef void scan_together(void *out, int64_t out_step, const void *in,
                           int64_t in_step, int64_t count);
/* A function that computes the prefix minima or maxima, with indices, of
 * sequences whose elements of equal index are contiguous. */
typedef void scan_placed(const placed *p);
/* A function that replaces n values by their prefix reductions. The first value
 * is element k of its sequence. If place is not NULL, place[i] receives the
 * index of the minimum or maximum. */
typedef void scan_block(unsigned kind, void *block, int64_t *place, int64_t n,
                        int64_t k, carry *c);

typedef struct scan_work {
    const tn_scan_args *s;
    const tn_cpu_routines *routines;
    scan_block *run;
    /* A routine that returns how many of the next elements leave unchanged the
     * minimum or maximum, or NULL. */
    tn_cpu_scan_unchanged *unchanged;
    int64_t lines, lines_per_task;
    /* The routine for prefix sums of floats, or NULL for other reductions. If
     * it is set, the fields from `together` to `placed` are NULL. */
    tn_cpu_scan *sum;
    /* The routine for prefix sums of floats of adjacent sequences (element i of
     * all of them is contiguous), or NULL. */
    tn_cpu_scan_rows *sum_rows;
    /* The function that scans TOGETHER sequences at a time, or NULL to scan
     * them one by one. */
    scan_together *together;
    /* The routine that combines two rows. A row has the elements of equal index
     * of many sequences. NULL if these elements are not contiguous. */
    tn_cpu_run *columns;
    /* The function for prefix minima or maxima, with indices, of adjacent
     * sequences, or NULL. */
    scan_placed *placed;
    int64_t side; /* number of adjacent sequences, a divisor of `lines` */
    bool streams; /* whether sums are written by non-temporal stores */
} scan_work;

/* Returns the offset, in elements, of the first element of a line (sequence to
 * scan). */
static inline int64_t line_offset(const tn_scan_args *s,
                                  const tn_strided *view, int64_t line)
{
    int64_t offset = view->offset;
    for (uint32_t d = s->ndim - 1; d-- > 0; line /= s->extent[d])
        offset += line % s->extent[d] * view->stride[d];
    return offset;
}

/* Computes the prefix sums of floats of lines (sequences to scan) [first, end).
 * The distance between the first elements of adjacent lines must be constant.
 */
void tn__cpu_scan_sum_lines(const scan_work *w, int64_t first, int64_t end);
/* Computes the prefix sums of floats of lines (sequences to scan) [first, end).
 * Element i of all these lines is contiguous. */
void tn__cpu_scan_sum_columns(const scan_work *w, int64_t first, int64_t end);

#endif
