/* block.h: functions that run single operations over one block. block.c runs a
 * whole part. */
#ifndef TN_CPU_BLOCK_H
#define TN_CPU_BLOCK_H

#include "plan.h"

/* What an operation processes: points [at, at + n) of the views. level:
 * CPU_ELEM for the elements of a block, CPU_ROW for the rows of a group,
 * CPU_UNIFORM for one scalar. */
typedef struct cpu_span {
    const cpu_view *view;
    int64_t at, n;
    unsigned level;
} cpu_span;

/* Runs a LOAD (block_load.c). */
void tn__cpu_run_load(cpu_task *t, const cpu_op *op, const cpu_span *s);
/* Returns the address of the operand's subrow that contains point `at`. Stores
 * in *step the stride from one subrow to the next, in elements. The operand
 * must consist of subrows (subrows.c). */
char *tn__cpu_find_subrow(const cpu_task *t, const cpu_view *view, int64_t at,
                          int64_t *step);

/* Runs a REDUCE (block_reduce.c). */
void tn__cpu_run_reduce(cpu_task *t, const cpu_op *op);
/* Does the reduction read the operands of the operations before it, so that
 * these are skipped (fuse.c)? */
bool tn__cpu_reduce_takes_operands(const cpu_task *t, const cpu_op *op);

#endif
