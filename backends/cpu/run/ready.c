/* ready.c: launches that are planned once and run many times. The plan, the
 * slots of scalars and, if there is only one task, the task's state stay from
 * run to run. A run sets the addresses of the operands and computes. */
#include <stdlib.h>

#include "plan.h"
#include "ready_code.h"

struct cpu_ready {
    cpu_plan plan;
    cpu_hoist hoist;
    bool empty;           /* the launch has no elements */
    bool split;           /* it runs by split_rows.c */
    int64_t tasks;
    cpu_task scalars;     /* computes the scalars of the launch */
    cpu_ready_code *code; /* owned: the whole launch as one call, or NULL */
    cpu_task *task;       /* owned: the state of the only task, or NULL. Its
                           * memory follows it */
    char *memory;         /* owned: views and scalars */
};

static size_t round_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* The views are needed to cut the plan, and only then the size of the scalars
 * is known, so they are two allocations that become one pointer each. */
static bool place(cpu_ready *r)
{
    char *scalars = malloc(tn__cpu_scalars_bytes(&r->plan));
    if (!scalars)
        return false;
    tn__cpu_place_scalars(&r->plan, &r->scalars, scalars);
    r->split = tn__cpu_wants_split(&r->plan);
    r->tasks = tn__cpu_plan_tasks(&r->plan);
    r->code = tn__cpu_ready_code_make(&r->plan, &r->scalars);
    /* Blocks that share indices keep values from block to block, which would be
     * wrong in the next run. */
    if (r->code || r->split || r->tasks != 1 || r->plan.hoist || r->plan.taps)
        return true;
    const size_t head = round_up(sizeof *r->task);
    r->task = aligned_alloc(
        TN_CPU_ALIGN, head + round_up(tn__cpu_task_bytes(&r->plan)));
    if (r->task)
        tn__cpu_task_place(r->task, &r->plan, (char *)r->task + head);
    return r->task != NULL;
}

cpu_ready *tn__cpu_ready_make(tn_built *built, const tn_launch *launch)
{
    cpu_ready *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->memory = malloc((2 * (size_t)built->operand_count + 1) *
                       sizeof(cpu_view));
    if (r->memory)
        r->empty = !tn__cpu_plan_make(&r->plan, built, launch,
                                      (cpu_view *)(void *)r->memory,
                                      &r->hoist);
    if (!r->memory || (!r->empty && !place(r))) {
        tn__cpu_ready_free(r);
        return NULL;
    }
    return r;
}

void tn__cpu_ready_free(cpu_ready *r)
{
    if (!r)
        return;
    free(r->scalars.slot);
    free(r->code);
    free(r->task);
    free(r->memory);
    free(r);
}

int64_t tn__cpu_ready_tasks(const cpu_ready *r, int64_t *elements)
{
    const int64_t all = r->plan.row_count * r->plan.row_length;
    *elements = r->tasks > 0 ? all / r->tasks : 0;
    return r->split ? 0 : r->tasks;
}

/* Sets the addresses of the views to those of the launch's operands. */
static void point_views(cpu_plan *plan)
{
    for (uint32_t k = 0; k < plan->built->operand_count; k++) {
        const tn_launch_operand *from = &plan->launch->operand[k];
        cpu_view *view = &plan->view[k], *rows = &plan->row_view[k];
        view->base = tn__cpu_at(from->buffer, from->offset, view->bytes);
        view->offset = from->buffer ? 0 : from->offset;
        if (plan->built->has_rows) {
            rows->base = view->base;
            rows->offset = view->offset;
        }
    }
}

void tn__cpu_ready_begin(cpu_ready *r)
{
    if (r->empty)
        return;
    if (!r->code) {
        atomic_store_explicit(&r->plan.failed, TN_OK, memory_order_relaxed);
        r->plan.fault.first.code = TN_OK;
        point_views(&r->plan);
    }
    if (r->plan.code->uniform.count == 0)
        return;
    unsigned fpu = tn__cpu_fpu_set();
    tn__cpu_run_part(&r->scalars, r->plan.code->uniform, CPU_UNIFORM);
    tn__cpu_fpu_restore(fpu);
}

void tn__cpu_ready_task(cpu_ready *r, int64_t i)
{
    if (!r->code && !r->task) {
        tn__cpu_run_task(&r->plan, i);
        return;
    }
    unsigned fpu = tn__cpu_fpu_set();
    if (r->code)
        tn__cpu_ready_code_run(r->code, r->plan.launch);
    else
        tn__cpu_run_groups(r->task, i);
    tn__cpu_fpu_restore(fpu);
}

tn_status tn__cpu_ready_end(cpu_ready *r)
{
    return r->empty || r->code ? TN_OK : tn__cpu_plan_end(&r->plan);
}

static void run_task(void *context, int64_t i)
{
    tn__cpu_ready_task(context, i);
}

tn_status tn__cpu_ready_run(cpu_ready *r)
{
    tn__cpu_ready_begin(r);
    if (r->split)
        tn__cpu_run_split(&r->plan);
    else if (r->tasks == 1)
        tn__cpu_ready_task(r, 0);
    else if (r->tasks > 1)
        tn__cpu_host->parallel_for(r->tasks, run_task, r);
    return tn__cpu_ready_end(r);
}
