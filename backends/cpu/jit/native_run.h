/* native_run.h: runs machine code on the blocks of a task (the part of a launch
 * that one thread processes). */
#ifndef TN_CPU_NATIVE_RUN_H
#define TN_CPU_NATIVE_RUN_H

#include "../run/task.h"

/* run_native() runs the machine code of the segment op->index on the current
 * block. native_folds() returns whether that code also computes the segment's
 * reductions. It does so where operations run row by row. */
void tn__cpu_run_native(cpu_task *task, const cpu_op *op);
bool tn__cpu_native_folds(const cpu_task *task);
/* Returns whether all stages of a program can process rows that consist of
 * several contiguous pieces (subrows) in place, without copying the pieces to a
 * block. */
bool tn__cpu_native_takes_subrows(const cpu_code *code);
/* Bytes of cpu_task.subrows.chunks: room for 4 chunks of each of 8 float
 * operands. */
#define TN_CPU_CHUNKS_BYTES (4 * 8 * TN_CHUNK * 4)

#endif
