/* block.h: the operations of a part over one block, by file. */
#ifndef TN_CPU_BLOCK_H
#define TN_CPU_BLOCK_H

#include "plan.h"

/* A block of values at the level of an operation. */
typedef struct cpu_span {
    const cpu_view *view;
    int64_t at, n;
    unsigned level;
} cpu_span;

/* block_load.c: runs a LOAD. */
void tn__cpu_run_load(cpu_task *t, const cpu_op *op, const cpu_span *s);
/* Subrows of a streamed row: the address of the first one, and in *step the
 * stride between them. Only for operands in subrows (subrows.c). */
char *tn__cpu_find_subrow(const cpu_task *t, const cpu_view *view, int64_t at,
                          int64_t *step);

/* block_reduce.c: runs a REDUCE. */
void tn__cpu_run_reduce(cpu_task *t, const cpu_op *op);
/* Does a reduction read the operands of the operations before it? */
bool tn__cpu_reduce_takes_operands(const cpu_task *t, const cpu_op *op);

#endif
