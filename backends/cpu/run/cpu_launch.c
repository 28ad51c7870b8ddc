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

void tn__cpu_run_groups(cpu_task *task, int64_t i)
{
    const cpu_plan *plan = task->plan;
    const int64_t first = i * plan->groups.per_task;
    const int64_t end =
        tn__cpu_min(first + plan->groups.per_task, plan->groups.count);
    for (int64_t g = first; g < end; g++) {
        if (plan->tiled || plan->hoist) {
            (plan->hoist ? tn__cpu_task_shared : tn__cpu_task_tile)(task, g);
            if (!plan->taps || !tn__cpu_run_taps(task))
                tn__cpu_run_part(task, plan->code->stage[0].elem, CPU_ELEM);
            continue;
        }
        if (!plan->built->has_rows) {
            int64_t in_run = g % plan->run.blocks * plan->block;
            task->block.at = g / plan->run.blocks * plan->run.length + in_run;
            task->block.count =
                tn__cpu_min(plan->block, plan->run.length - in_run);
            if (plan->subrow > 0) {
                task->layout.columns = task->layout.across_columns = true;
                task->group.rows = plan->subrow;
            }
            tn__cpu_run_part(task, plan->code->stage[0].elem, CPU_ELEM);
            continue;
        }
        tn__cpu_task_group(task, g);
        if (plan->kept)
            run_group_kept(task);
        else
            run_group_streamed(task);
    }
    tn__cpu_task_finish(task);
}

void tn__cpu_run_task(void *context, int64_t i)
{
    cpu_plan *plan = context;
    cpu_task task;
    unsigned fpu = tn__cpu_fpu_set();
    if (tn__cpu_task_init(&task, plan))
        tn__cpu_run_groups(&task, i);
    tn__cpu_fpu_restore(fpu);
}

/* ---- the launch ---------------------------------------------------------- */

size_t tn__cpu_scalars_bytes(const cpu_plan *plan)
{
    return (plan->code->slot_count + 1u) * sizeof(char *) +
           plan->code->uniform_bytes;
}

void tn__cpu_place_scalars(cpu_plan *plan, cpu_task *task, char *memory)
{
    plan->uniform = memory + (plan->code->slot_count + 1u) * sizeof(char *);
    *task = (cpu_task){.plan = plan,
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
        task->slot[s] = at;
    }
}

int64_t tn__cpu_plan_tasks(const cpu_plan *plan)
{
    return (plan->groups.count + plan->groups.per_task - 1) /
           plan->groups.per_task;
}

tn_status tn__cpu_plan_end(cpu_plan *plan)
{
    if (atomic_load_explicit(&plan->failed, memory_order_relaxed))
        return tn__cpu_host->fail(TN_ERR_MEMORY,
                                  "launch: out of memory for a thread's "
                                  "blocks or for machine code");
    return plan->fault.first.code == TN_OK
               ? TN_OK
               : tn__cpu_fault_raise(&plan->fault.first);
}

static tn_status run_plan(cpu_plan *plan)
{
    char small[4096], *big = NULL;
    const size_t bytes = tn__cpu_scalars_bytes(plan);
    if (bytes > sizeof small && !(big = malloc(bytes)))
        return tn__cpu_host->fail(TN_ERR_MEMORY,
                                  "launch: out of memory for %zu bytes", bytes);
    cpu_task task;
    tn__cpu_place_scalars(plan, &task, big ? big : small);
    tn__cpu_run_part(&task, plan->code->uniform, CPU_UNIFORM);
    const int64_t tasks = tn__cpu_plan_tasks(plan);
    if (tn__cpu_wants_split(plan))
        tn__cpu_run_split(plan);
    else if (tasks == 1)
        tn__cpu_run_task(plan, 0);
    else
        tn__cpu_host->parallel_for(tasks, tn__cpu_run_task, plan);
    free(big);
    return tn__cpu_plan_end(plan);
}

bool tn__cpu_plan_make(cpu_plan *plan, tn_built *built,
                       const tn_launch *launch, cpu_view *views,
                       cpu_hoist *hoist)
{
    plan->built = built;
    plan->launch = launch;
    plan->routines = built->routines;
    plan->shared_rows = NULL;
    plan->hoist = NULL;
    plan->columns = plan->tiled = plan->taps = false;
    plan->groups.column_extent = 1;
    plan->view = views;
    plan->row_view = views + built->operand_count;
    plan->row_count = tn__cpu_numel(launch->extent, launch->outer_ndim);
    plan->row_length =
        tn__cpu_numel(launch->extent + launch->outer_ndim, launch->row_ndim);
    if (plan->row_count == 0 || (!built->has_rows && plan->row_length == 0))
        return false;
    tn__cpu_plan_cut(plan, hoist);
    if (plan->groups.per_task < 1)
        plan->groups.per_task = 1;
    return true;
}

tn_status tn__cpu_run(tn_built *built, const tn_launch *launch)
{
    cpu_plan plan;
    cpu_view views[2 * TN_CPU_MAX_OPERANDS];
    cpu_hoist hoist;
    if (!tn__cpu_plan_make(&plan, built, launch, views, &hoist))
        return TN_OK;
    unsigned fpu = tn__cpu_fpu_set();
    tn_status status = run_plan(&plan);
    tn__cpu_fpu_restore(fpu);
    return status;
}
