/* task.c: initialises a thread's task with scratch memory, sets the task to a
 * group of rows, and runs a stage over a long row block by block. */
#include <stdlib.h>

#include "../jit/native_run.h"
#include "../paths/taps.h"
#include "plan.h"
#include "tuning.h"

static size_t round_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Returns the prefetch distance of reductions, in bytes: 0 in programs of
 * several stages (passes over the rows), which prefetch between operations
 * instead (traffic.c). */
static int64_t fold_ahead(const cpu_plan *plan)
{
    enum { LAST_CACHE = 12 << 20 };
    const tn_cpu_family *family = plan->routines->family;
    int64_t bytes = 0;
    for (uint32_t k = 0; k < plan->built->operand_count; k++)
        if (plan->built->operand[k].access == TN_OPERAND_READ)
            bytes += plan->view[k].bytes;
    if (plan->code->stage_count > 1)
        return 0;
    return bytes * plan->row_count * plan->row_length > LAST_CACHE
               ? family->reduce_far_ahead
               : family->reduce_ahead;
}

/* The parts of a task's memory, in bytes or elements. */
typedef struct parts {
    size_t slots, block, group, rows, folds, views, fold_bytes, later_bytes,
        taps_bytes, chunks;
} parts;

static parts parts_of(const cpu_plan *plan)
{
    const cpu_code *code = plan->code;
    const size_t group =
        round_up((size_t)(plan->groups.rows * plan->row_length));
    return (parts){
        .slots = code->slot_count + 1u,
        .block = round_up((size_t)plan->block),
        .group = code->group_bytes > 0 ? group : 0,
        .rows = round_up((size_t)plan->groups.rows),
        .folds = code->reduce_count,
        .views = plan->columns || plan->tiled || plan->hoist
                     ? plan->built->operand_count
                     : 0,
        .fold_bytes =
            tn__cpu_fold_bytes(code, plan->groups.rows, plan->columns),
        .later_bytes = round_up((size_t)plan->traffic.block_bytes),
        .taps_bytes = round_up(tn__cpu_taps_bytes(plan)),
        .chunks = code->reduce_count > 0 && plan->subrow > 0
                      ? TN_CPU_CHUNKS_BYTES
                      : 0};
}

size_t tn__cpu_task_bytes(const cpu_plan *plan)
{
    const parts p = parts_of(plan);
    const cpu_code *code = plan->code;
    return round_up(5 * p.slots * sizeof(char *)) +
           round_up(p.folds * sizeof(cpu_fold)) +
           round_up(p.views * sizeof(cpu_view)) + 8 * p.block +
           p.block * code->elem_bytes + p.group * code->group_bytes +
           p.rows * code->row_bytes + round_up(p.fold_bytes) +
           plan->traffic.blocks * p.later_bytes + p.taps_bytes + p.chunks;
}

void tn__cpu_task_place(cpu_task *task, cpu_plan *plan, char *memory)
{
    const cpu_code *code = plan->code;
    const parts p = parts_of(plan);
    *task = (cpu_task){.plan = plan,
                       .code = code,
                       .routines = plan->routines,
                       .view = plan->view,
                       .layout.columns = plan->columns,
                       .group.rows = 1,
                       .deferred.slot = TN_CPU_NONE,
                       .shared.outer = -1};
    task->slot = (char **)memory;
    task->home = task->slot + p.slots;
    task->stream_to = task->home + p.slots;
    task->base = task->stream_to + p.slots;
    task->step = (int64_t *)(task->base + p.slots);
    memory += round_up(5 * p.slots * sizeof(char *));
    task->fold = (cpu_fold *)memory;
    memory += round_up(p.folds * sizeof(cpu_fold));
    if (p.views > 0)
        task->own_view = (cpu_view *)memory;
    memory += round_up(p.views * sizeof(cpu_view));
    task->temporary = memory;
    memory += 8 * p.block;
    task->subrows.chunks = memory;
    memory += p.chunks;
    tn__cpu_taps_place(task, memory);
    memory += p.taps_bytes;
    char *elem = memory, *whole = elem + p.block * code->elem_bytes;
    char *row = whole + p.group * code->group_bytes;
    char *fold = row + p.rows * code->row_bytes;
    if (p.folds > 0)
        tn__cpu_fold_place(task->fold, code, plan->routines, plan->groups.rows,
                           plan->columns, fold_ahead(plan), fold);
    for (uint32_t i = 0; i < plan->traffic.blocks; i++)
        task->deferred.block[i].room =
            fold + round_up(p.fold_bytes) + i * p.later_bytes;
    if (plan->shared_rows)
        row = plan->shared_rows;
    for (uint32_t s = 0; s < code->slot_count; s++) {
        const cpu_slot *slot = &code->slot[s];
        char *at = NULL;
        if (slot->space == CPU_CONSTANT)
            at = (char *)code->constant + slot->offset;
        else if (slot->space == CPU_UNIFORM)
            at = plan->uniform + slot->offset;
        else if (slot->space == CPU_ROW)
            at = row + slot->offset * p.rows;
        else if (slot->space == CPU_ELEM)
            at = elem + slot->offset * p.block;
        else if (slot->space == CPU_GROUP)
            at = whole + slot->offset * p.group;
        task->slot[s] = task->home[s] = task->base[s] = at;
        task->stream_to[s] = NULL;
    }
}

bool tn__cpu_task_init(cpu_task *task, cpu_plan *plan)
{
    char *memory = tn__cpu_scratch(tn__cpu_task_bytes(plan));
    if (!memory)
        atomic_store(&plan->failed, TN_ERR_MEMORY);
    else
        tn__cpu_task_place(task, plan, memory);
    return memory != NULL;
}

void tn__cpu_task_group(cpu_task *task, int64_t group)
{
    cpu_plan *plan = task->plan;
    if (!plan->columns) {
        task->group.first_row = group * plan->groups.rows;
        task->group.rows = tn__cpu_min(plan->groups.rows,
                                       plan->row_count - task->group.first_row);
        task->layout.by_rows =
            task->group.rows == 1 || plan->row_length >= TN_CPU_LONG_ROW;
        task->group.at = task->group.first_row * plan->row_length;
        task->group.count = task->group.rows * plan->row_length;
        return;
    }
    int64_t tiles = (plan->groups.column_extent + plan->groups.rows - 1) /
                    plan->groups.rows;
    int64_t column = group % tiles * plan->groups.rows;
    task->group.rows =
        tn__cpu_min(plan->groups.rows, plan->groups.column_extent - column);
    task->layout.across_columns = task->group.rows >= TN_CPU_LONG_ROW;
    task->group.first_row = group / tiles * plan->groups.column_extent + column;
    task->group.at = 0;
    task->group.count = task->group.rows * plan->row_length;

    const tn_launch *launch = plan->launch;
    uint32_t outer = launch->outer_ndim, inner = outer;
    while (inner > 0 && launch->extent[inner - 1] == 1)
        inner--;
    for (uint32_t k = 0; k < plan->built->operand_count; k++) {
        const int64_t *stride = launch->operand[k].stride;
        cpu_view *view = &task->own_view[k];
        tn__cpu_view_init(view, &plan->built->operand[k],
                          &launch->operand[k]);
        int64_t left = task->group.first_row, offset = 0;
        for (uint32_t d = outer; d-- > 0; left /= launch->extent[d])
            offset += left % launch->extent[d] * stride[d];
        tn__cpu_view_move(view, offset);
        for (uint32_t d = outer; d < outer + launch->row_ndim; d++)
            tn__cpu_view_push(view, launch->extent[d], stride[d]);
        for (uint32_t d = plan->groups.box_first; d < outer; d++)
            tn__cpu_view_push(view, launch->extent[d], stride[d]);
        if (plan->groups.box_first == outer)
            tn__cpu_view_push(view, task->group.rows, stride[inner - 1]);
    }
    task->view = task->own_view;
}

/* Returns the length of the subrows if elements [k, end) of a streamed row can
 * be processed subrow by subrow, else 0. Stages with reductions accept
 * incomplete subrows at both ends, other stages do not. If the results of a
 * stage use non-temporal stores, machine code must be able to issue the stores
 * itself. */
static int64_t subrow_at(const cpu_plan *plan, const cpu_stage *stage,
                         int64_t k, int64_t end)
{
    bool able =
        stage->reduce_count > 0 ||
        ((!plan->traffic.stream || plan->traffic.stream_subrows) &&
         plan->subrow > 0 && k % plan->subrow == 0 && end - k >= plan->subrow);
    return able ? plan->subrow : 0;
}

void tn__cpu_task_stream(cpu_task *task, const cpu_stage *stage,
                         int64_t first, int64_t end)
{
    const cpu_plan *plan = task->plan;
    int64_t step =
        plan->columns ? plan->block / plan->groups.rows : plan->block;
    /* Stages without reductions: a block ends where a run ends (a sequence of
     * points in which every operand has one stride), because an operand may
     * have one scalar for each run, such as a channel's bias. Stages with
     * reductions: a block must consist of whole chunks, so it ignores runs. */
    int64_t run = stage->reduce_count > 0 ? end : plan->run.length;
    int64_t pieces = (run + step - 1) / step;
    if (run < plan->row_length && stage->reduce_count == 0)
        step = ((run + pieces - 1) / pieces + 15) / 16 * 16;
    task->rereads =
        stage != plan->code->stage && plan->row_length < TN_CPU_REREAD;
    for (uint32_t i = 0; i < stage->reduce_count; i++)
        tn__cpu_fold_begin(&task->fold[stage->reduce_first + i]);
    for (int64_t k = first, n; k < end && stage->elem.count > 0; k += n) {
        n = tn__cpu_min(step, tn__cpu_min(end, (k / run + 1) * run) - k);
        task->subrows.length = subrow_at(plan, stage, k, end);
        if (task->subrows.length > 0)
            n = stage->reduce_count > 0
                    ? end - k
                    : (end - k) / task->subrows.length * task->subrows.length;
        task->block.first_elem = k;
        task->block.at = task->group.at + k * task->group.rows;
        task->block.count = n * task->group.rows;
        tn__cpu_run_part(task, stage->elem, CPU_ELEM);
    }
    task->subrows.length = 0;
}
