/* block.h: operations of a part over one block, by the file that runs them. */
#ifndef TN_CPU_BLOCK_H
#define TN_CPU_BLOCK_H

#include "plan.h"

/* A block of values for the operation's level. */
typedef struct cpu_span {
    const cpu_view *view;
    int64_t at, n;
    unsigned level;
} cpu_span;

/* block_load.c: LOAD. */
void tn__cpu_run_load(cpu_task *t, const cpu_op *op, const cpu_span *s);
/* Lines of a streamed row: where the first one begins, and elements from each to
 * the next (cpu_launch.c has seen to it that there are such). */
char *tn__cpu_find_subrow(const cpu_task *t, const cpu_view *view, int64_t at,
                          int64_t *step);

/* block_reduce.c: REDUCE. */
void tn__cpu_run_reduce(cpu_task *t, const cpu_op *op);
/* Does a reduction take what the operations before it are of? */
bool tn__cpu_reduce_takes_operands(const cpu_task *t, const cpu_op *op);

#endif
