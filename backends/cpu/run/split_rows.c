/* split_rows.c: runs a launch of a few very long rows, such as a sum over a
 * whole tensor. Each row (or set of columns) is cut into segments, which the
 * threads reduce. Then the calling thread combines the results of the segments
 * in order. The number of chunks in a segment is a power of two, so the tree of
 * additions, and the result, are the same as in one pass. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* Groups with fewer elements are not split. */
#define SPLIT_LENGTH 262144
/* Minimum number of elements of a segment (the part of a row that one thread
 * reduces). */
#define SEGMENT 131072

typedef struct split {
    cpu_plan *plan;
    const cpu_stage *stage;
    /* group is the index of the current group. segment is the number of
     * elements of a row in one segment. */
    int64_t group, segment;
    /* The bytes of one segment's results, and the memory for the results of all
     * segments. */
    int64_t part_bytes;
    char *part;
} split;

static size_t round_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

bool tn__cpu_wants_split(cpu_plan *plan)
{
    return plan->built->has_rows && plan->code != &plan->built->kept &&
           plan->groups.count < 8 &&
           plan->row_length * plan->groups.rows >= SPLIT_LENGTH;
}

/* Returns the address of the results of reduction `reduce` over a segment (part
 * of a row): value[row] and, for ARGMAX and ARGMIN, index[row] after all
 * values. Each value and each index has 8 bytes. */
static char *part_at(const split *s, int64_t segment, uint32_t reduce)
{
    return s->part + segment * s->part_bytes +
           (int64_t)(reduce - s->stage->reduce_first) * 16 *
               s->plan->groups.rows;
}

/* Runs the current stage over segment i (a part of the rows) of the current
 * group of rows. */
static void run_segment(void *context, int64_t i)
{
    split *s = context;
    cpu_plan *plan = s->plan;
    cpu_task task;
    unsigned fpu = tn__cpu_fpu_set();
    if (tn__cpu_task_init(&task, plan)) {
        int64_t first = i * s->segment;
        tn__cpu_task_group(&task, s->group);
        tn__cpu_task_stream(&task, s->stage, first,
                            tn__cpu_min(first + s->segment,
                                        plan->row_length));
        for (uint32_t j = 0; j < s->stage->reduce_count; j++) {
            uint32_t n = s->stage->reduce_first + j;
            const cpu_reduce *reduce = &plan->code->reduce[n];
            char *value = part_at(s, i, n);
            char *place = value + 8 * plan->groups.rows;
            if (reduce->kind >= TN_REDUCE_ARGMAX) {
                memcpy(value, task.fold[n].tree, 8 * (size_t)task.group.rows);
                memcpy(place, task.fold[n].place, 8 * (size_t)task.group.rows);
            } else {
                tn__cpu_fold_end(&task.fold[n], task.group.rows, value);
            }
        }
        tn__cpu_task_finish(&task);
    }
    tn__cpu_fpu_restore(fpu);
}

/* Combines the segments' results of a stage, then runs the operations of the
 * stage on scalars per row. */
static void finish_stage(split *s, int64_t segments)
{
    cpu_plan *plan = s->plan;
    cpu_task task;
    if (!tn__cpu_task_init(&task, plan))
        return;
    tn__cpu_task_group(&task, s->group);
    for (uint32_t j = 0; j < s->stage->reduce_count; j++) {
        uint32_t n = s->stage->reduce_first + j;
        const cpu_reduce *reduce = &plan->code->reduce[n];
        cpu_fold *fold = &task.fold[n];
        tn__cpu_fold_begin(fold);
        for (int64_t i = 0; i < segments; i++) {
            char *value = part_at(s, i, n);
            cpu_fold part = {.tree = value,
                             .place =
                                 (int64_t *)(value + 8 * plan->groups.rows)};
            tn__cpu_fold_join(fold, &part, value, task.group.rows);
        }
        tn__cpu_fold_end(fold, task.group.rows, task.slot[reduce->out]);
    }
    tn__cpu_run_part(&task, s->stage->row, CPU_ROW);
}

void tn__cpu_run_split(cpu_plan *plan)
{
    int64_t segment = TN_CHUNK;
    while (segment * plan->groups.rows < SEGMENT)
        segment *= 2;
    int64_t segments = (plan->row_length + segment - 1) / segment;
    size_t part =
        16 * (size_t)plan->groups.rows * (plan->code->reduce_count + 1u);
    size_t row_bytes =
        round_up((size_t)plan->groups.rows) * plan->code->row_bytes + 64;
    char *memory = malloc(part * (size_t)segments + row_bytes);
    if (!memory) {
        atomic_store(&plan->failed, TN_ERR_MEMORY);
        return;
    }
    plan->shared_rows = memory;
    split s = {.plan = plan, .segment = segment,
               .part_bytes = (int64_t)part, .part = memory + row_bytes};
    for (s.group = 0; s.group < plan->groups.count; s.group++)
        for (uint32_t i = 0; i < plan->code->stage_count; i++) {
            if (atomic_load(&plan->failed))
                break;
            s.stage = &plan->code->stage[i];
            if (s.stage->elem.count > 0)
                tn__cpu_host->parallel_for(segments, run_segment, &s);
            finish_stage(&s, s.stage->elem.count > 0 ? segments : 0);
        }
    plan->shared_rows = NULL;
    free(memory);
}
