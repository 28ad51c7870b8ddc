/* taps.h: short weighted sums, as in interpolation: out = sum over t of
 * in[index[t]] * weight[t]. A tap is one of these terms. */
#ifndef TN_CPU_TAPS_H
#define TN_CPU_TAPS_H

#include "../run/plan.h"

/* Does the program compute such sums for each element, or one for each row
 * (taps_find.c)? If so, fill built->taps or built->row_taps. */
bool tn__cpu_find_taps(tn_built *built, const tn_program *program);
bool tn__cpu_find_row_taps(tn_built *built, const tn_program *program);

/* Blocks that share indices and weights (taps_blocks.c). Do the plan's blocks
 * share them? */
bool tn__cpu_taps_shared(const cpu_plan *plan);
/* Returns the number of results of a block. */
int64_t tn__cpu_taps_block(const tn_built *built);
/* Returns the bytes of a task's tables. */
size_t tn__cpu_taps_bytes(const cpu_plan *plan);
/* Gives the task memory for its tables. */
void tn__cpu_taps_place(cpu_task *task, void *memory);
/* Computes the task's current block by the table. Returns false, with nothing
 * done, if the table does not exist or does not suit. */
bool tn__cpu_run_taps(cpu_task *task);

/* Offsets and weights of the taps of a list of results (points): tap t of point
 * i has the offset where[t][i] and the weight weight[t][i * step[t]]. */
typedef struct cpu_tap_lists {
    const int64_t *where[TN_CPU_TAPS];
    const float *weight[TN_CPU_TAPS];
    int64_t step[TN_CPU_TAPS]; /* 1, or 0 if all weights are equal */
    int count;                 /* number of taps */
} cpu_tap_lists;
/* Returns how many of the n points from point `at` on have all their offsets
 * within a range of `most` elements. */
int64_t tn__cpu_tap_span(const cpu_tap_lists *lists, int64_t at, int64_t n,
                         int64_t most);
/* Fills one table entry, tap[0 .. count), for n points from point `at` on. */
void tn__cpu_tap_fill(tn_cpu_tap *tap, const cpu_tap_lists *lists, int64_t at,
                      int64_t n);

#define TN_CPU_LEAST_POINTS 4096 /* least results that are worth the set-up */

#endif
