/* block.h: functions that run a single operation over one block. block.c runs
 * all operations of a part of a program. */
#ifndef TN_CPU_BLOCK_H
#define TN_CPU_BLOCK_H

#include "plan.h"

/* The points that an operation processes: [at, at + n) of the views. level is
 * CPU_ELEM if a point is an element of a block, CPU_ROW if it is a row of a
 * group, CPU_UNIFORM for one scalar. */
typedef struct cpu_span {
    const cpu_view *view;
    int64_t at, n;
    unsigned level;
} cpu_span;

/* Runs a LOAD: points its slot to the tensor's memory, or copies the elements
 * to the slot's own memory (block_load.c). */
void tn__cpu_run_load(cpu_task *t, const cpu_op *op, const cpu_span *s);
/* Returns the address of the operand's subrow (contiguous piece of a row) that
 * contains point `at`. Stores in *step the stride from one subrow to the next,
 * in elements. The operand must consist of subrows (subrows.c). */
char *tn__cpu_find_subrow(const cpu_task *t, const cpu_view *view, int64_t at,
                          int64_t *step);

/* Runs a REDUCE: reduces the rows of a block. If rows are longer than a block,
 * adds the block to their partial result (block_reduce.c). */
void tn__cpu_run_reduce(cpu_task *t, const cpu_op *op);
/* Returns whether the reduction itself computes the preceding operations, as in
 * a sum of products (fuse.c). These operations are then skipped. */
bool tn__cpu_reduce_takes_operands(const cpu_task *t, const cpu_op *op);

#endif
