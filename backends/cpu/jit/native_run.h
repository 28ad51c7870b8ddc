/* native_run.h: machine code on the blocks of a task. */
#ifndef TN_CPU_NATIVE_RUN_H
#define TN_CPU_NATIVE_RUN_H

#include "../run/task.h"

/* Runs a segment. Does it compute its reductions too (native_run.c)? */
void tn__cpu_run_native(cpu_task *task, const cpu_op *op);
bool tn__cpu_native_folds(const cpu_task *task);
/* Can all stages of code process the subrows of a row in place? */
bool tn__cpu_native_takes_subrows(const cpu_code *code);
#define TN_CPU_CHUNKS_BYTES (4 * 8 * TN_CHUNK * 4) /* of cpu_task.chunks: the
                                                      chunks of a call, for so
                                                      many operands */

#endif
