/* native_run.h: runs machine code on the blocks of a task (the part of a launch
 * that one thread processes). */
#ifndef TN_CPU_NATIVE_RUN_H
#define TN_CPU_NATIVE_RUN_H

#include "../run/task.h"

/* run_native() runs the machine code of segment op->index (a list of operations
 * compiled together) on the current block. native_folds() returns whether this
 * code also computes the segment's reductions, which is so if operations run
 * row by row. */
void tn__cpu_run_native(cpu_task *task, const cpu_op *op);
bool tn__cpu_native_folds(const cpu_task *task);
/* Returns whether all stages of a program can read and write subrows in place.
 * Subrows are the contiguous pieces of which a row consists. */
bool tn__cpu_native_takes_subrows(const cpu_code *code);
/* Size of cpu_task.subrows.chunks in bytes: 4 chunks of each of 8 float
 * operands. A chunk that spans several subrows is copied there. */
#define TN_CPU_CHUNKS_BYTES (4 * 8 * TN_CHUNK * 4)

#endif
