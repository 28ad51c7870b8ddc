/* native_run.h: machine code on the blocks of a task. */
#ifndef TN_CPU_NATIVE_RUN_H
#define TN_CPU_NATIVE_RUN_H

#include "../run/task.h"

/* Runs the machine code of a segment on the current block. native_folds()
 * returns whether that code also computes the segment's reductions, which is so
 * where operations run row by row. */
void tn__cpu_run_native(cpu_task *task, const cpu_op *op);
bool tn__cpu_native_folds(const cpu_task *task);
/* Returns whether all stages of a program can read the contiguous subrows of a
 * row in place, without copying them to a block. */
bool tn__cpu_native_takes_subrows(const cpu_code *code);
/* Bytes of cpu_task.subrows.chunks: 8 operands of 4 chunks of floats. */
#define TN_CPU_CHUNKS_BYTES (4 * 8 * TN_CHUNK * 4)

#endif
