/* taps.h: short weighted sums, as in interpolation: out = sum over t of
 * in[index[t]] * weight[t]. A tap is one of these terms.
 *
 * Blocks that share indices and weights (hoist.c) use tables, which say for
 * each tap and each result which input element to read and with which weight.
 * An entry of a table holds the taps of up to a vector of results. */
#ifndef TN_CPU_TAPS_H
#define TN_CPU_TAPS_H

#include "../run/plan.h"

/* Return whether the program computes such a sum for each element (find_taps)
 * or for each row (find_row_taps). Fill built->taps or built->row_taps
 * (taps_find.c). */
bool tn__cpu_find_taps(tn_built *built, const tn_program *program);
bool tn__cpu_find_row_taps(tn_built *built, const tn_program *program);

/* Returns whether the plan's blocks share indices and weights, so that they can
 * use tables (taps_blocks.c). */
bool tn__cpu_taps_shared(const cpu_plan *plan);
/* Returns the number of results of a block that uses a table. */
int64_t tn__cpu_taps_block(const tn_built *built);
/* Returns the number of bytes of a task's tables. */
size_t tn__cpu_taps_bytes(const cpu_plan *plan);
/* Makes `memory` the memory of the task's tables. */
void tn__cpu_taps_place(cpu_task *task, void *memory);
/* Computes the results of the task's current block from its table. Returns
 * false, with nothing done, if the block has no table or its results are not
 * contiguous. */
bool tn__cpu_run_taps(cpu_task *task);

/* Offsets and weights of the taps for a list of results (points). Tap t of
 * point i has the offset where[t][i] and the weight weight[t][i * step[t]]. */
typedef struct cpu_tap_lists {
    const int64_t *where[TN_CPU_TAPS];
    const float *weight[TN_CPU_TAPS];
    /* 1, or 0 if tap t has the same weight for all points */
    int64_t step[TN_CPU_TAPS];
    int count; /* number of taps */
} cpu_tap_lists;
/* Starting with point `at`, counts the consecutive points whose taps all have
 * offsets within a range of `most` elements. Returns that number, at most n. */
int64_t tn__cpu_tap_span(const cpu_tap_lists *lists, int64_t at, int64_t n,
                         int64_t most);
/* Fills tap[0 .. count), one entry of a table, with the taps of n points from
 * point `at` on. */
void tn__cpu_tap_fill(tn_cpu_tap *tap, const cpu_tap_lists *lists, int64_t at,
                      int64_t n);

/* with fewer results, preparing a table does not pay */
#define TN_CPU_LEAST_POINTS 4096

#endif
