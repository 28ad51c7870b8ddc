/* liveness.c: finds which instructions are live, in the whole program and in
 * each stage. An instruction is live if a store depends on it. Within a stage,
 * an instruction is also live if a live reduction depends on it. Only live
 * instructions are printed. */
#include <string.h>

#include <base/memory.h>
#include <source/program/rows.h>

static bool mark(bool *live, uint32_t i)
{
    if (i == TN_NONE || live[i])
        return false;
    return live[i] = true;
}

/* If instruction i is live, marks its operands as live. Returns true if one of
 * them was not marked before. A load that may report a fault needs its indices
 * even if nothing uses its value. */
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

/* Marks a loop as live if an instruction inside it is live. The instructions
 * that determine the number of iterations are then live, too. Returns true if
 * anything new was marked. */
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
        /* The WHILEs of an inner loop are marked when that loop is visited. */
        if (ins[i].op == TN_K_LOOP)
            i = (uint32_t)ins[i].imm.i;
        else if (ins[i].op == TN_K_WHILE)
            more |= mark(live, i);
    }
    return more;
}

/* A list of instructions. `order` has their indices; if it is NULL, the list is
 * all instructions in their order, as in a function. */
typedef struct part {
    const tn_kernel_ins *ins;
    uint32_t count;        /* number of instructions in `ins` */
    const uint32_t *order;
    uint32_t order_count;
    uint32_t available; /* instruction whose value need not be computed, because
                         * it was stored before; TN_NONE if there is none */
} part;

/* Marks in live[] the instructions of a list that are needed: its stores or,
 * for a function, its result, and all instructions on which they depend. `of`
 * has the live instructions of the whole program; the reductions of the list
 * that are live there are needed, too. `of` is NULL if the list is the whole
 * program or a function. Other instructions are not printed, since compilers
 * warn about unused variables. `listed` is scratch space of the same size as
 * `live`. */
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
    /* Repeats until nothing changes, since the variables of a loop may depend
     * on later instructions. */
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = count; i-- > 0;) {
            if (i != list->available)
                more |= mark_operands(ins, i, listed, live);
            if (ins[i].op == TN_K_LOOP)
                more |= mark_loop(ins, i, listed, live);
        }
    }
}

/* Called if several work-groups share a row, so that the program has several
 * launches: removes the marks of the instructions that do not belong to this
 * launch. Returns false if memory runs out. */
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
