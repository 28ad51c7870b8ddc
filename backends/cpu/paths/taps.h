/* taps.h: sums of a few taps: loads by an index times weights (taps_blocks.c,
 * taps_along.c). */
#ifndef TN_CPU_TAPS_H
#define TN_CPU_TAPS_H

#include "../run/plan.h"

/* Does a program compute such sums, directly or one for each row (taps_find.c)?
 * If so, fills built->taps or built->row_taps. */
bool tn__cpu_find_taps(tn_built *built, const tn_program *program);
bool tn__cpu_find_row_taps(tn_built *built, const tn_program *program);

/* Tables that blocks of a plan share (taps_blocks.c): whether they do; points
 * of a block; bytes of a task's tables; where these are placed. Runs a block;
 * false: nothing was done. */
bool tn__cpu_taps_shared(const cpu_plan *plan);
int64_t tn__cpu_taps_block(const tn_built *built);
size_t tn__cpu_taps_bytes(const cpu_plan *plan);
void tn__cpu_taps_place(cpu_task *task, void *memory);
bool tn__cpu_run_taps(cpu_task *task);

/* Offsets and weights (a step apart) of each tap, for a list of points.
 * tap_span: how many of n points from `at` on have all offsets within `most`
 * elements. tap_fill: the table entry of n points. */
typedef struct cpu_tap_lists {
    const int64_t *where[TN_CPU_TAPS];
    const float *weight[TN_CPU_TAPS];
    int64_t step[TN_CPU_TAPS];
    int count;
} cpu_tap_lists;
int64_t tn__cpu_tap_span(const cpu_tap_lists *lists, int64_t at, int64_t n,
                         int64_t most);
void tn__cpu_tap_fill(tn_cpu_tap *tap, const cpu_tap_lists *lists, int64_t at,
                      int64_t n);

#define TN_CPU_LEAST_POINTS 4096 /* points that are worth the set-up */

#endif
