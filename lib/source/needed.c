/* needed.c: which instructions a text has: those that stores and reductions
 * depend on, in the whole program and in each stage. */
#include <string.h>

#include <base/error.h>
#include <base/memory.h>
#include <source/print.h>

static bool need(bool *needed, uint32_t i)
{
    if (i == TN_NONE || needed[i])
        return false;
    return needed[i] = true;
}

/* What i makes needed besides; true if there was anything new. A faulting
 * load needs its indices even where its value is of no use. */
static bool need_operands(const tn_kernel_ins *ins, uint32_t i,
                          const bool *stands, bool *needed)
{
    bool more = false;
    const tn_kernel_ins *x = &ins[i];
    if (!stands[i] || !(needed[i] || tn__device_faults(x)))
        return false;
    more |= need(needed, x->a);
    more |= need(needed, x->b);
    more |= need(needed, x->c);
    return more;
}

/* A loop is needed with what decides its rounds if anything inside is. */
static bool need_loop(const tn_kernel_ins *ins, uint32_t loop,
                      const bool *stands, bool *needed)
{
    bool used = needed[loop], more = false;
    for (uint32_t i = loop + 1; i < ins[loop].imm.i; i++)
        used =
            used || ((needed[i] || (tn__device_faults(&ins[i]) && stands[i])) &&
                     ins[i].level >= ins[loop].level);
    if (!used)
        return false;
    more |= need(needed, loop);
    more |= need(needed, (uint32_t)ins[loop].imm.i);
    for (uint32_t i = loop + 1; i < ins[loop].imm.i; i++) {
        if (ins[i].op == TN_K_LOOP) /* its own WHILEs are its own matter */
            i = (uint32_t)ins[i].imm.i;
        else if (ins[i].op == TN_K_WHILE)
            more |= need(needed, i);
    }
    return more;
}

/* A list of instructions, and marks for each by its number; NULL: all of them,
 * as a function has them. */
typedef struct part {
    const tn_kernel_ins *ins;
    uint32_t count;        /* of ins */
    const uint32_t *order;
    uint32_t order_count;
    uint32_t given; /* an instruction whose value is there; TN_NONE: none */
} part;

/* Marks what the stores and reductions that stand in a part hang on, and (of a
 * function) its result. What nobody reads is not printed: compilers would drop
 * it, but warn. stands: room for as many marks. of: reductions that anybody
 * reads; NULL: look only for those. */
static void find_needed(const part *list, uint32_t result, const bool *of,
                        bool *stands, bool *needed)
{
    const tn_kernel_ins *ins = list->ins;
    uint32_t count = list->count;
    memset(stands, 0, count * sizeof *stands);
    for (uint32_t i = 0; i < list->order_count; i++)
        stands[list->order ? list->order[i] : i] = true;
    for (uint32_t i = 0; i < count; i++)
        needed[i] =
            (stands[i] && (ins[i].op == TN_K_STORE ||
                           (ins[i].op == TN_K_REDUCE && of && of[i]))) ||
            i == result;
    for (bool more = true; more;) { /* again where a loop carries backwards */
        more = false;
        for (uint32_t i = count; i-- > 0;) {
            if (i != list->given)
                more |= need_operands(ins, i, stands, needed);
            if (ins[i].op == TN_K_LOOP)
                more |= need_loop(ins, i, stands, needed);
        }
    }
}

/* Of the marks for the whole program, those of a step whose rows are split. */
static bool mark_step(tn__device_printer *p, bool *stands, bool *marks)
{
    const tn_program *program = p->program;
    uint32_t *order = tn__calloc((size_t)program->order_count + 1,
                                 sizeof *order);
    if (!order)
        return false;
    const uint32_t count = tn__split_order(program, p->stage, order);
    find_needed(&(part){program->ins, program->ins_count, order, count,
                        TN_NONE},
                TN_NONE, marks, stands, marks);
    tn__free(order);
    return true;
}

void tn__needed_elems(tn__device_printer *p, uint32_t s, uint32_t given,
                      bool *marks)
{
    const tn_program *program = p->program;
    const tn_kernel_stage *stage = &program->stage[s];
    const size_t count = program->ins_count;
    find_needed(&(part){program->ins, program->ins_count,
                        program->order + stage->elem_first, stage->elem_count,
                        given},
                TN_NONE, marks, marks + count * (program->stage_count + 1),
                marks + (s + 1) * count);
}

void tn__needed_function(const tn_kernel_fn *fn, bool *marks)
{
    find_needed(&(part){fn->ins, fn->ins_count, NULL, fn->ins_count, TN_NONE},
                fn->result, NULL, marks + fn->ins_count, marks);
}

bool tn__needed_program(tn__device_printer *p, bool *marks)
{
    const tn_program *program = p->program;
    size_t count = program->ins_count;
    bool *stands = marks + count * (program->stage_count + 1);
    p->ins = program->ins;
    p->needed = marks;
    p->elem_needed = marks + count;
    find_needed(&(part){program->ins, program->ins_count, program->order,
                        program->order_count, TN_NONE},
                TN_NONE, NULL, stands, marks);
    for (uint32_t s = 0; s < program->stage_count; s++)
        tn__needed_elems(p, s, TN_NONE, marks);
    if (p->class.cached)
        tn__cache_find_saved(p, marks);
    return !p->class.split || mark_step(p, stands, marks);
}
