/* row_split.c: lets several work-groups share a row. If there are only few long
 * rows, one work-group for each row would leave most of the device idle. Each
 * row is cut into shares of 2^j chunks, and a work-group processes one share.
 * The plan then has several launches, called steps:
 *
 *   - One step for each stage that loops over elements. A work-group first
 *     combines the partial results of earlier steps for the whole row, and
 *     computes the earlier instructions per row again. Then it runs the stage's
 *     instructions per element on its share, and writes the partial results of
 *     its reductions to scratch memory.
 *   - If the program stores values per row, a last step that stores them. It
 *     has one work-group for each row (or for a few rows).
 *
 * Results are bit-identical to those of one work-group. A reduction combines
 * all chunks of a row pairwise, as a binary tree. A full share of 2^j chunks is
 * a node of that tree at level j, and the last share is what remains. The
 * shares are then combined pairwise in their order, as in the tree.
 *
 * Every work-group of a later step computes the instructions per row again, so
 * their loads must read the same values each time. For that, values per row are
 * stored only in the last step. Stores per element change no operand per row,
 * since the two never share memory. Programs that may report faults are not
 * split, since repeated loads would report a fault several times. */
#include <source/plan/class.h>
#include <source/plan/launch_space.h>

/* A row is split only if it has at least LEAST_SPANS spans, where a span is the
 * chunks that a team reduces at once. A shorter row is finished before a
 * further launch could begin: a span takes a work-group about 10 us (estimated
 * from the latency of its loads, not measured). */
#define LEAST_SPANS 4
/* A row is split only if the device has enough work-groups to give each row at
 * least this many. Otherwise there are nearly as many rows as work-groups, so
 * whole rows keep most of the device busy. */
#define LEAST_SHARES 4
/* Largest number of steps (launches of a plan) that tn__launch_class_pack can
 * store. */
#define MOST_STEPS 31

static bool part_has(const tn_program *program, uint32_t first, uint32_t count,
                     unsigned op)
{
    for (uint32_t at = first; at < first + count; at++)
        if (program->ins[program->order[at]].op == op)
            return true;
    return false;
}

static bool elem_part_has_effect(const tn_kernel_stage *stage,
                                 const tn_program *program)
{
    return part_has(program, stage->elem_first, stage->elem_count,
                    TN_K_REDUCE) ||
           part_has(program, stage->elem_first, stage->elem_count, TN_K_STORE);
}

static bool row_part_stores(const tn_kernel_stage *stage,
                            const tn_program *program)
{
    return part_has(program, stage->row_first, stage->row_count, TN_K_STORE);
}

uint32_t tn__split_stage(const tn_program *program, uint32_t step)
{
    for (uint32_t s = 0; s < program->stage_count; s++)
        if (elem_part_has_effect(&program->stage[s], program) && step-- == 0)
            return s;
    return program->stage_count;
}

uint32_t tn__split_steps(const tn_program *program)
{
    const uint32_t last = program->stage_count - 1;
    uint32_t steps = row_part_stores(&program->stage[last], program) ? 1 : 0;
    for (uint32_t s = 0; s <= last; s++)
        steps += elem_part_has_effect(&program->stage[s], program);
    return steps;
}

uint32_t tn__split_reduce_index(const tn_program *program, uint32_t reduce)
{
    uint32_t number = 0;
    const uint32_t *order = program->order;
    for (uint32_t at = program->uniform_count;
         at < program->order_count && order[at] != reduce; at++)
        number += program->ins[order[at]].op == TN_K_REDUCE;
    return number;
}

static uint32_t append_instructions(const tn_program *program, uint32_t first,
                                    uint32_t count, bool stores,
                                    uint32_t *order)
{
    uint32_t listed = 0;
    for (uint32_t at = first; at < first + count; at++)
        if (stores || program->ins[program->order[at]].op != TN_K_STORE)
            order[listed++] = program->order[at];
    return listed;
}

uint32_t tn__split_order(const tn_program *program, uint32_t stage,
                         uint32_t *order)
{
    const bool stores = stage == program->stage_count;
    uint32_t n =
        append_instructions(program, 0, program->uniform_count, false, order);
    for (uint32_t s = 0; s < stage; s++)
        n +=
            append_instructions(program, program->stage[s].row_first,
                                program->stage[s].row_count, stores, order + n);
    if (!stores)
        n += append_instructions(program, program->stage[stage].elem_first,
                                 program->stage[stage].elem_count, true,
                                 order + n);
    return n;
}

static bool may_split(const tn_program *program)
{
    const uint32_t last = program->stage_count - 1;
    for (uint32_t s = 0; s < last; s++)
        if (row_part_stores(&program->stage[s], program))
            return false;
    return tn__split_stage(program, 0) <= last &&
           tn__split_steps(program) <= MOST_STEPS &&
           !tn__program_may_fault(program);
}

int64_t tn__split_share(const tn_program *program,
                        const tn__launch_class *class, int64_t groups,
                        int64_t count, int64_t length)
{
    const uint32_t team = tn__launch_class_team(class);
    const int64_t span = (int64_t)class->slots * TN_CHUNK;
    const int64_t spans = tn__divide_up(length, span);
    const int64_t blocks = tn__divide_up(count, class->group / team);
    if (count == 0 || spans < LEAST_SPANS || blocks * LEAST_SHARES > groups ||
        !may_split(program))
        return 0;
    const int64_t most = tn__min_i64(groups / blocks, TN__SPLIT_RUN * team);
    int64_t each = 1;
    while (tn__divide_up(spans, each) > most)
        each *= 2;
    return each * span;
}
