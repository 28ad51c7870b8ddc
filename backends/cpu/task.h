/* task.h: between the files that run launches. */
#ifndef TN_CPU_TASK_H
#define TN_CPU_TASK_H

#include "cpu.h"

/* Takes the calling thread's scratch memory for a task of plan; false, with
 * plan->failed set, when memory runs out. */
bool tn__cpu_task_init(cpu_task *task, cpu_plan *plan);
/* Turns the task to a group: its rows and, with columns, its views. */
void tn__cpu_task_group(cpu_task *task, int64_t group);
/* Runs a stage's elem part over elements [first, end) of the group's rows and
 * leaves the reductions in task->fold. */
void tn__cpu_task_stream(cpu_task *task, const cpu_stage *stage,
                         int64_t first, int64_t end);

/* Elementwise work over operands that lie across each other: groups become
 * tiles (tile.c). False if there are none such. */
bool tn__cpu_cut_tiles(cpu_plan *plan);
/* Turns the task to a tile: its views, its block. */
void tn__cpu_task_tile(cpu_task *task, int64_t group);

/* Few long rows: all threads work on one (split.c). */
bool tn__cpu_wants_split(cpu_plan *plan);
void tn__cpu_run_split(cpu_plan *plan);

/* One instruction over operands without gaps (direct.c); false if the launch
 * is not of this kind, and then nothing was done. */
bool tn__cpu_launch_direct(const tn_built *built, const tn_launch *launch);
/* Finds out whether a program is of one instruction. */
void tn__cpu_direct_init(tn_built *built, const tn_program *program);

/* Copies of views (copy.c), likewise. */
bool tn__cpu_launch_copy(const tn_built *built, const tn_launch *launch);
/* Gathers by one index (take.c). */
tn_status tn__cpu_launch_take(const tn_built *built, const tn_launch *launch);
void tn__cpu_take_init(tn_built *built, const tn_program *program);
void tn__cpu_copy_init(tn_built *built, const tn_program *program);

#endif
