/* row_cache.c: prints code that caches a row in local memory. If several stages
 * read a row and it fits, the team first copies it there. If one stage computes
 * a value for each element that later stages use again, the value may replace
 * the row. */
#include <stdio.h>

#include <source/program/rows.h>

/* ---- saved values ------------------------------------------------------ */

static bool loads(const tn__printer *p, uint32_t s, uint32_t operand)
{
    const tn_kernel_stage *stage = &p->program->stage[s];
    const bool *live = p->stage_live + (size_t)s * p->program->ins_count;
    return tn__operands_of(p, live, stage->elem_first,
                           stage->elem_first + stage->elem_count) >>
               operand &
           1;
}

/* Returns whether stage s loads the operand after it has computed instruction
 * i. */
static bool loads_after(const tn__printer *p, uint32_t i, uint32_t s,
                        uint32_t operand)
{
    const tn_kernel_stage *stage = &p->program->stage[s];
    uint32_t at = stage->elem_first;
    const uint32_t end = at + stage->elem_count;
    while (at < end && p->program->order[at] != i)
        at++;
    for (; at < end; at++) {
        const tn_kernel_ins *ins = &p->ins[p->program->order[at]];
        if (ins->op == TN_K_LOAD && ins->imm.i == operand)
            return true;
    }
    return false;
}

/* Returns whether instruction i is in a loop. There it has another value in
 * each iteration. */
static bool is_in_loop(const tn__printer *p, uint32_t i)
{
    for (uint32_t loop = 0; loop < i; loop++)
        if (p->ins[loop].op == TN_K_LOOP && i < p->ins[loop].imm.i)
            return true;
    return false;
}

/* Returns whether the value of instruction i, computed in stage s, can replace
 * the row of `operand` in local memory. The types must be equal, stage s must
 * load the operand only before i, and later stages that read the saved value
 * must not need the operand. If so, sets in `marks` which instructions of the
 * later stages are live when they read the saved value. */
static bool can_replace(tn__printer *p, uint32_t i, uint32_t s,
                        uint32_t operand, bool *marks)
{
    const uint32_t stages = p->program->stage_count;
    bool is_free = p->program->operand[operand].dtype == p->ins[i].dtype &&
                   !loads_after(p, i, s, operand);
    for (uint32_t later = s + 1; is_free && later < stages; later++) {
        tn__liveness_stage(p, later, i, marks);
        is_free = !loads(p, later, operand);
    }
    for (uint32_t later = s + 1; !is_free && later < stages; later++)
        tn__liveness_stage(p, later, TN_NONE, marks);
    return is_free;
}

void tn__cache_find_saved(tn__printer *p, bool *marks)
{
    const tn_program *program = p->program;
    const uint32_t cached = tn__cache_candidates(program) & ~p->class.zero;
    for (uint32_t i = program->ins_count; i-- > 0;) {
        uint32_t in = 0, first = 0;
        for (uint32_t s = program->stage_count; s-- > 0;)
            if (p->stage_live[s * program->ins_count + i]) {
                in++;
                first = s;
            }
        if (p->ins[i].op != TN_K_CALL || p->ins[i].level != TN_LEVEL_ELEM ||
            in < 2 || is_in_loop(p, i) || !tn__stage_reduces(p, first))
            continue;
        for (uint32_t k = 0; k < program->operand_count; k++)
            if (cached >> k & 1 && can_replace(p, i, first, k, marks)) {
                p->saved = i;
                p->saved_stage = first;
                p->saved_operand = k;
                return;
            }
    }
}

/* ---- printing ------------------------------------------------------------ */

uint32_t tn__cache_operands(const tn__printer *p)
{
    uint32_t before = 0, cached = 0;
    for (uint32_t s = 0; p->class.cached && s < p->program->stage_count; s++) {
        const uint32_t used = tn__stage_find_use(p, s).used;
        cached |= before & used;
        before |= used;
    }
    if (p->saved != TN_NONE)
        cached |= 1u << p->saved_operand;
    return cached & tn__cache_candidates(p->program) & ~p->class.zero;
}

void tn__cache_memory(tn__printer *p)
{
    const uint32_t size =
        TN__CACHED_CHUNK * p->class.group / TN_LANES / p->class.vector;
    for (uint32_t k = 0; k < p->program->operand_count; k++) {
        const char *dtype = tn__source_dtype(p->program->operand[k].dtype);
        if (!(p->cached >> k & 1))
            continue;
        tn__print_line(p, "TK_SHARED(tk_v_%s, vectors%u, %u);", dtype, k, size);
        tn__print_line(p,
                       "TK_S tk_s_%s *const local%u = "
                       "(TK_S tk_s_%s *)vectors%u;",
                       dtype, k, dtype, k);
    }
}

void tn__cache_positions(tn__printer *p, uint32_t operands, const char *k,
                         const char *chunk)
{
    for (uint32_t o = 0; o < p->program->operand_count; o++)
        if (operands >> o & 1)
            tn__print_line(p, "const tk_i32 here%u = TK_CACHED(%s, %s);", o, k,
                           chunk);
}

void tn__cache_fill(tn__printer *p)
{
    tn__print_line(p, "TK_BARRIER();");
    const uint32_t size = p->class.vector;
    char head[120];
    snprintf(head, sizeof head,
             "for (tk_idx i = TK_ITEM * %u; i < mine; i += TK_TEAM * %u) ",
             size, size);
    tn__text_add(&p->body, "#pragma unroll 8\n");
    tn__print_open(p, head);
    tn__print_point_offsets(p, "i", p->cached, "at", "row", p->class.outer,
                            p->class.row, 0);
    tn__cache_positions(p, p->cached, "i", "i / TK_CHUNK");
    for (uint32_t k = 0; k < p->program->operand_count; k++) {
        const char *dtype = tn__source_dtype(p->program->operand[k].dtype);
        if (p->cached >> k & 1)
            tn__print_line(p,
                           "*(TK_S tk_v_%s *)(local%u + here%u) = "
                           "*(TK_G const tk_v_%s *)(p%u + at%u);",
                           dtype, k, k, dtype, k, k);
    }
    tn__print_close(p);
    tn__print_line(p, "TK_BARRIER();");
}
