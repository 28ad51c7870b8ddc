/* taps.h: short weighted sums, as in interpolation: out = sum over t of
 * in[index[t]] * weight[t]. A tap is one of these terms. A point is one result.
 *
 * Blocks that share indices and weights (hoist.c) use a table. An entry of the
 * table holds the taps of up to a vector of points: which input elements to
 * read, and their weights. */
#ifndef TN_CPU_TAPS_H
#define TN_CPU_TAPS_H

#include "../run/plan.h"

/* Each function returns whether the program computes such a sum,
 * tn__cpu_find_taps for each element, tn__cpu_find_row_taps for each row
 * (taps_find.c). They set built->taps and built->row_taps. */
bool tn__cpu_find_taps(tn_built *built, const tn_program *program);
bool tn__cpu_find_row_taps(tn_built *built, const tn_program *program);

/* Returns whether blocks of the launch share indices and weights (hoist.c), so
 * that they can use tables (taps_blocks.c). */
bool tn__cpu_taps_shared(const cpu_plan *plan);
/* Returns the number of points in a block, if blocks use tables of taps. */
int64_t tn__cpu_taps_block(const tn_built *built);
/* Returns the number of bytes of the tables of one task. */
size_t tn__cpu_taps_bytes(const cpu_plan *plan);
/* Gives the task `memory` for its tables (tn__cpu_taps_bytes bytes). */
void tn__cpu_taps_place(cpu_task *task, void *memory);
/* Computes the results of the task's current block with the table. Returns
 * false, with nothing done, if the block has no table or its results are not
 * contiguous. */
bool tn__cpu_run_taps(cpu_task *task);

/* Offsets and weights of the terms (taps) of many results (points). Tap t of
 * point i has the offset where[t][i] and the weight weight[t][i * step[t]]. */
typedef struct cpu_tap_lists {
    const int64_t *where[TN_CPU_TAPS];
    const float *weight[TN_CPU_TAPS];
    /* step[t]: 1, or 0 if term t has the same weight in all results */
    int64_t step[TN_CPU_TAPS];
    int count; /* number of terms of each sum */
} cpu_tap_lists;
/* One table entry serves adjacent points whose taps read nearby elements.
 * Returns how many consecutive points, beginning with point `at` and at most n,
 * have all their offsets within a range of `most` elements. */
int64_t tn__cpu_tap_span(const cpu_tap_lists *lists, int64_t at, int64_t n,
                         int64_t most);
/* Sets tap[0 .. count), one entry of a table, to the taps of n points,
 * beginning with point `at`. */
void tn__cpu_tap_fill(tn_cpu_tap *tap, const cpu_tap_lists *lists, int64_t at,
                      int64_t n);

/* With fewer results, making a table takes longer than it saves. */
#define TN_CPU_LEAST_POINTS 4096

#endif
