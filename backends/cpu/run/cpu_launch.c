/* cpu_launch.c: launches a compiled program. The iteration space is cut into
 * groups of rows (cut_plan.c). A task runs several groups, and the threads run
 * the tasks. */
#include <stdlib.h>

#include "../paths/taps.h"
#include "plan.h"

/* Runs all stages over a group of rows that fits one block. */
static void run_group_kept(cpu_task *task)
{
    const cpu_plan *plan = task->plan;
    task->block.at = task->group.at;
    task->block.count = task->group.count;
    for (uint32_t s = 0; s < plan->code->stage_count; s++) {
        const cpu_stage *stage = &plan->code->stage[s];
        if (task->block.count > 0)
            tn__cpu_run_part(task, stage->elem, CPU_ELEM);
        else
            for (uint32_t i = 0; i < stage->reduce_count; i++) {
                const cpu_reduce *reduce =
                    &plan->code->reduce[stage->reduce_first + i];
                cpu_fold *fold = &task->fold[stage->reduce_first + i];
                tn__cpu_fold_begin(fold);
                tn__cpu_fold_end(fold, task->group.rows,
                                 task->slot[reduce->out]);
            }
        tn__cpu_run_part(task, stage->row, CPU_ROW);
    }
}

/* Runs stage after stage over a group of rows, each of them block by block. */
static void run_group_streamed(cpu_task *task)
{
    const cpu_plan *plan = task->plan;
    for (uint32_t s = 0; s < plan->code->stage_count; s++) {
        const cpu_stage *stage = &plan->code->stage[s];
        tn__cpu_task_stream(task, stage, 0, plan->row_length);
        for (uint32_t i = 0; i < stage->reduce_count; i++) {
            uint32_t number = stage->reduce_first + i;
            const cpu_reduce *reduce = &plan->code->reduce[number];
            tn__cpu_fold_end(&task->fold[number], task->group.rows,
                             task->slot[reduce->out]);
        }
        tn__cpu_run_part(task, stage->row, CPU_ROW);
    }
}

/* Runs the groups of rows of task i. */
static void run_task(void *context, int64_t i)
{
    cpu_plan *plan = context;
    cpu_task task;
    unsigned fpu = tn__cpu_fpu_set();
    if (tn__cpu_task_init(&task, plan)) {
        int64_t first = i * plan->groups.per_task;
        int64_t end =
            tn__cpu_min(first + plan->groups.per_task, plan->groups.count);
        for (int64_t g = first; g < end; g++) {
            if (plan->tiled || plan->hoist) {
                (plan->hoist ? tn__cpu_task_shared : tn__cpu_task_tile)(&task,
                                                                        g);
                if (!plan->taps || !tn__cpu_run_taps(&task))
                    tn__cpu_run_part(&task, plan->code->stage[0].elem,
                                     CPU_ELEM);
                continue;
            }
            if (!plan->built->has_rows) {
                int64_t in_run = g % plan->run.blocks * plan->block;
                task.block.at =
                    g / plan->run.blocks * plan->run.length + in_run;
                task.block.count =
                    tn__cpu_min(plan->block, plan->run.length - in_run);
                if (plan->subrow > 0) {
                    task.layout.columns = task.layout.across_columns = true;
                    task.group.rows = plan->subrow;
                }
                tn__cpu_run_part(&task, plan->code->stage[0].elem, CPU_ELEM);
                continue;
            }
            tn__cpu_task_group(&task, g);
            if (plan->kept)
                run_group_kept(&task);
            else
                run_group_streamed(&task);
        }
        tn__cpu_task_finish(&task);
    }
    tn__cpu_fpu_restore(fpu);
}

/* ---- the launch ---------------------------------------------------------- */

static tn_status run_plan(cpu_plan *plan)
{
    char small[4096], *big = NULL;
    size_t slots = plan->code->slot_count + 1u;
    size_t bytes = slots * sizeof(char *) + plan->code->uniform_bytes;
    if (bytes > sizeof small && !(big = malloc(bytes)))
        return tn__cpu_host->fail(TN_ERR_MEMORY,
                                  "launch: out of memory for %zu bytes", bytes);
    char *memory = big ? big : small;
    plan->uniform = memory + slots * sizeof(char *);
    cpu_task task = {.plan = plan,
                     .code = plan->code,
                     .routines = plan->routines,
                     .group.rows = 1,
                     .slot = (char **)memory,
                     .home = (char **)memory};
    for (uint32_t s = 0; s < plan->code->slot_count; s++) {
        const cpu_slot *slot = &plan->code->slot[s];
        /* NULL for slots of rows and elements. The operations on scalars, which
         * run first, do not use them. */
        char *at = NULL;
        if (slot->space == CPU_CONSTANT)
            at = (char *)plan->code->constant + slot->offset;
        else if (slot->space == CPU_UNIFORM)
            at = plan->uniform + slot->offset;
        task.slot[s] = at;
    }
    tn__cpu_run_part(&task, plan->code->uniform, CPU_UNIFORM);

    if (plan->groups.per_task < 1)
        plan->groups.per_task = 1;
    int64_t tasks = (plan->groups.count + plan->groups.per_task - 1) /
                    plan->groups.per_task;
    if (tn__cpu_wants_split(plan))
        tn__cpu_run_split(plan);
    else if (tasks == 1)
        run_task(plan, 0);
    else
        tn__cpu_host->parallel_for(tasks, run_task, plan);
    free(big);
    if (atomic_load(&plan->failed))
        return tn__cpu_host->fail(TN_ERR_MEMORY,
                                  "launch: out of memory for a thread's "
                                  "blocks or for machine code");
    return plan->fault.first.code == TN_OK
               ? TN_OK
               : tn__cpu_fault_raise(&plan->fault.first);
}

tn_status tn__cpu_run(tn_built *built, const tn_launch *launch)
{
    cpu_plan plan;
    cpu_hoist hoist;
    plan.built = built;
    plan.launch = launch;
    plan.routines = built->routines;
    plan.shared_rows = NULL;
    plan.hoist = NULL;
    plan.columns = plan.tiled = plan.taps = false;
    plan.groups.column_extent = 1;
    plan.row_count = tn__cpu_numel(launch->extent, launch->outer_ndim);
    plan.row_length =
        tn__cpu_numel(launch->extent + launch->outer_ndim, launch->row_ndim);
    if (plan.row_count == 0 || (!built->has_rows && plan.row_length == 0))
        return TN_OK;
    tn__cpu_plan_cut(&plan, &hoist);
    unsigned fpu = tn__cpu_fpu_set();
    tn_status status = run_plan(&plan);
    tn__cpu_fpu_restore(fpu);
    return status;
}
