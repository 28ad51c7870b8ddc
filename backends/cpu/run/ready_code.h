/* ready_code.h: a call of machine code that is the whole of an elementwise
 * launch. */
#ifndef TN_CPU_READY_CODE_H
#define TN_CPU_READY_CODE_H

#include "plan.h"

typedef struct cpu_ready_code cpu_ready_code;

/* Returns the call if the launch is one block whose operands machine code reads
 * and writes in place, else NULL. The plan's scalars have their memory. */
cpu_ready_code *tn__cpu_ready_code_make(const cpu_plan *plan,
                                        const cpu_task *scalars);
/* Runs the call on the launch's buffers and offsets. */
void tn__cpu_ready_code_run(cpu_ready_code *ready, const tn_launch *launch);

#endif
