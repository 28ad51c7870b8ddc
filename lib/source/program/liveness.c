/* liveness.c: finds the live instructions, in the whole program and in each
 * stage. An instruction is live, and is printed, if a store or reduction
 * depends on it. */
#include <string.h>

#include <base/memory.h>
#include <source/program/rows.h>

static bool mark(bool *live, uint32_t i)
{
    if (i == TN_NONE || live[i])
        return false;
    return live[i] = true;
}

/* Marks the operands of instruction i if i is live. Returns true if any operand
 * was not marked before. A load that may fault needs its indices even if its
 * value is unused. */
static bool mark_operands(const tn_kernel_ins *ins, uint32_t i,
                          const bool *listed, bool *live)
{
    bool more = false;
    const tn_kernel_ins *x = &ins[i];
    if (!listed[i] || !(live[i] || tn__ins_faults(x)))
        return false;
    more |= mark(live, x->a);
    more |= mark(live, x->b);
    more |= mark(live, x->c);
    return more;
}

/* Marks a loop if anything inside is live. Then what decides the number of
 * rounds is live, too. Returns true if this marked anything new. */
static bool mark_loop(const tn_kernel_ins *ins, uint32_t loop,
                      const bool *listed, bool *live)
{
    bool used = live[loop], more = false;
    for (uint32_t i = loop + 1; i < ins[loop].imm.i; i++)
        used = used || ((live[i] || (tn__ins_faults(&ins[i]) && listed[i])) &&
                        ins[i].level >= ins[loop].level);
    if (!used)
        return false;
    more |= mark(live, loop);
    more |= mark(live, (uint32_t)ins[loop].imm.i);
    for (uint32_t i = loop + 1; i < ins[loop].imm.i; i++) {
        if (ins[i].op == TN_K_LOOP) /* the WHILEs of an inner loop are marked
                                     * when that loop is visited */
            i = (uint32_t)ins[i].imm.i;
        else if (ins[i].op == TN_K_WHILE)
            more |= mark(live, i);
    }
    return more;
}

/* A list of instructions by number. If `order` is NULL, the list has all
 * instructions in their order, as in a function. */
typedef struct part {
    const tn_kernel_ins *ins;
    uint32_t count;        /* number of instructions in ins */
    const uint32_t *order;
    uint32_t order_count;
    uint32_t available; /* an instruction whose value is already available;
                         * TN_NONE if none */
} part;

/* Marks the instructions on which the stores and reductions of a list depend
 * and, for a function, the result. Dead code is not printed, since compilers
 * warn about unused variables. `listed` is scratch space for as many marks.
 * `of` marks the live reductions of the program, of which those in the list are
 * used; NULL finds them. */
static void find_live(const part *list, uint32_t result, const bool *of,
                      bool *listed, bool *live)
{
    const tn_kernel_ins *ins = list->ins;
    uint32_t count = list->count;
    memset(listed, 0, count * sizeof *listed);
    for (uint32_t i = 0; i < list->order_count; i++)
        listed[list->order ? list->order[i] : i] = true;
    for (uint32_t i = 0; i < count; i++)
        live[i] = (listed[i] && (ins[i].op == TN_K_STORE ||
                                 (ins[i].op == TN_K_REDUCE && of && of[i]))) ||
                  i == result;
    for (bool more = true; more;) { /* repeats, since a loop's new value may
                                     * depend on later instructions */
        more = false;
        for (uint32_t i = count; i-- > 0;) {
            if (i != list->available)
                more |= mark_operands(ins, i, listed, live);
            if (ins[i].op == TN_K_LOOP)
                more |= mark_loop(ins, i, listed, live);
        }
    }
}

/* Restricts the marks of the whole program to the instructions of a step whose
 * rows are split. Returns false if memory runs out. */
static bool mark_split_step(tn__printer *p, bool *listed, bool *marks)
{
    const tn_program *program = p->program;
    uint32_t *order = tn__calloc((size_t)program->order_count + 1,
                                 sizeof *order);
    if (!order)
        return false;
    const uint32_t count = tn__split_order(program, p->stage, order);
    find_live(&(part){program->ins, program->ins_count, order, count, TN_NONE},
              TN_NONE, marks, listed, marks);
    tn__free(order);
    return true;
}

void tn__liveness_stage(tn__printer *p, uint32_t s, uint32_t available,
                        bool *marks)
{
    const tn_program *program = p->program;
    const tn_kernel_stage *stage = &program->stage[s];
    const size_t count = program->ins_count;
    find_live(&(part){program->ins, program->ins_count,
                      program->order + stage->elem_first, stage->elem_count,
                      available},
              TN_NONE, marks, marks + count * (program->stage_count + 1),
              marks + (s + 1) * count);
}

void tn__liveness_function(const tn_kernel_fn *fn, bool *marks)
{
    find_live(&(part){fn->ins, fn->ins_count, NULL, fn->ins_count, TN_NONE},
              fn->result, NULL, marks + fn->ins_count, marks);
}

bool tn__liveness_program(tn__printer *p, bool *marks)
{
    const tn_program *program = p->program;
    size_t count = program->ins_count;
    bool *listed = marks + count * (program->stage_count + 1);
    p->ins = program->ins;
    p->live = marks;
    p->stage_live = marks + count;
    find_live(&(part){program->ins, program->ins_count, program->order,
                      program->order_count, TN_NONE},
              TN_NONE, NULL, listed, marks);
    for (uint32_t s = 0; s < program->stage_count; s++)
        tn__liveness_stage(p, s, TN_NONE, marks);
    return !p->class.split || mark_split_step(p, listed, marks);
}

/* ---- stages ------------------------------------------------------------ */

tn__stage_use tn__stage_find_use(const tn__printer *p, uint32_t s)
{
    const tn_kernel_stage *stage = &p->program->stage[s];
    const bool *live = p->stage_live + (size_t)s * p->program->ins_count;
    uint32_t end = stage->elem_first + stage->elem_count;
    uint32_t operands = tn__operands_of(p, live, stage->elem_first, end);
    if (p->saved != TN_NONE && live[p->saved])
        operands |= 1u << p->saved_operand;
    tn__stage_use use = {.stage = stage,
                         .live = live,
                         .used = operands & ~p->cached,
                         .cached = operands & p->cached};
    for (uint32_t at = stage->elem_first; at < end; at++) {
        uint32_t i = p->program->order[at];
        bool reduce = p->ins[i].op == TN_K_REDUCE && p->live[i];
        use.reduces = use.reduces || reduce;
        use.needs_index = use.needs_index ||
                          (reduce && tn__reduce_is_arg(&p->ins[i])) ||
                          tn__ins_faults(&p->ins[i]);
        use.has_effect = use.has_effect || reduce ||
                         p->ins[i].op == TN_K_STORE ||
                         tn__ins_faults(&p->ins[i]);
    }
    return use;
}

bool tn__stage_reduces(const tn__printer *p, uint32_t s)
{
    return tn__stage_find_use(p, s).reduces;
}
