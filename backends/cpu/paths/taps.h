/* taps.h: sums of a few loads by an index, each times a weight (taps_blocks.c,
 * taps_along.c). */
#ifndef TN_CPU_TAPS_H
#define TN_CPU_TAPS_H

#include "../run/plan.h"

/* Is a program such a sum, of its own or in each of its rows (taps_find.c)? Then
 * built->taps or built->row_taps says of what. */
bool tn__cpu_find_taps(tn_built *built, const tn_program *program);
bool tn__cpu_find_row_taps(tn_built *built, const tn_program *program);

/* Do blocks of plan share tables? Points of a block; bytes of a task's tables, and
 * where these lie; runs a block, false if nothing was done (taps_blocks.c). */
bool tn__cpu_taps_shared(const cpu_plan *plan);
int64_t tn__cpu_taps_block(const tn_built *built);
size_t tn__cpu_taps_bytes(const cpu_plan *plan);
void tn__cpu_taps_place(cpu_task *task, void *memory);
bool tn__cpu_run_taps(cpu_task *task);

/* The offsets and, a step apart, weights of each tap, for a list of points. How
 * many of n of these, from `at` on, have all their offsets within `most`
 * elements; and the entry of n points. */
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

#define TN_CPU_LEAST_POINTS 4096 /* that are worth what goes before them */

#endif
