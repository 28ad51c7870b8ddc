/* statements.c: prints instructions as statements: loads, stores, loops, and
 * the definitions of all other values. */
#include <stdio.h>

#include <source/program/printer.h>

/* ---- loads and stores -------------------------------------------------- */

static void print_indexed_load(tn__printer *p, uint32_t i)
{
    const tn_kernel_ins *ins = &p->ins[i];
    uint32_t k = (uint32_t)ins->imm.i;
    const uint32_t index[3] = {ins->a, ins->b, ins->c};
    const char *storage = tn__source_dtype(p->program->operand[k].dtype);
    bool faults = tn__ins_faults(ins);
    char at[256];
    int length = snprintf(at, sizeof at, "at%u", k);
    if (p->live[i])
        tn__print_line(p, "tk_%s v%u = 0;", tn__source_dtype(ins->dtype), i);
    const char *before = "";
    for (uint32_t d = 0; d < 3; d++) {
        if (index[d] == TN_NONE)
            continue;
        uint32_t bound = p->words.index_extent[k] + d;
        tn__print_line(p, "%sif (v%u < 0 || v%u >= TK_WORD(%u))%s", before,
                       index[d], index[d], bound, faults ? "" : " {");
        if (faults)
            tn__print_line(p,
                           "    fault = tk_fault_at(fault, %s, %u, %u, v%u, "
                           "TK_WORD(%u));",
                           p->position, p->order_index, 4 * k + d, index[d],
                           bound);
        before = faults ? "else " : "} else ";
        length += snprintf(at + length, sizeof at - (size_t)length,
                           " + (tk_idx)v%u * (tk_idx)TK_WORD(%u)", index[d],
                           p->words.index_stride[k] + d);
    }
    if (p->live[i])
        tn__print_line(p, faults ? "else" : "} else {");
    if (p->live[i])
        tn__print_line(p, "    v%u = tk_from_%s(p%u[%s]);", i, storage, k, at);
    if (!faults)
        tn__print_line(p, "}");
}

/* Writes a C expression for the current element of operand k to `out`. */
static void element_text(const tn__printer *p, uint32_t k, char out[32])
{
    if (p->vectors >> k & 1)
        snprintf(out, 32, "x%u.e[l]", k);
    else if (p->local >> k & 1)
        snprintf(out, 32, "local%u[here%u]", k, k);
    else
        snprintf(out, 32, "p%u[at%u]", k, k);
}

static void print_load(tn__printer *p, uint32_t i)
{
    char element[32];
    const tn_kernel_ins *ins = &p->ins[i];
    uint32_t k = (uint32_t)ins->imm.i;
    element_text(p, k, element);
    if (ins->a != TN_NONE || ins->b != TN_NONE || ins->c != TN_NONE)
        print_indexed_load(p, i);
    else
        tn__print_line(p, "tk_%s v%u = tk_from_%s(%s);",
                       tn__source_dtype(ins->dtype), i,
                       tn__source_dtype(p->program->operand[k].dtype), element);
}

/* Prints a store. All work-items of a team compute the same values per row, and
 * one of them stores. */
static void print_store(tn__printer *p, const tn_kernel_ins *ins)
{
    uint32_t k = (uint32_t)ins->imm.i;
    const char *guard = p->in_row_part && !p->chunked ? "if (writes) " : "";
    char element[32];
    element_text(p, k, element);
    tn__print_line(p, "%s%s = tk_to_%s(v%u);", guard, element,
                   tn__source_dtype(p->program->operand[k].dtype), ins->a);
}

/* ---- lists of instructions --------------------------------------------- */

static uint32_t number_at(const uint32_t *order, uint32_t i)
{
    return order ? order[i] : i;
}

/* Prints the loop whose LOOP instruction is order[first]. Returns the index of
 * its ENDLOOP. The code computes all new values of the loop's variables before
 * it sets any of them, since one variable's new value may be another's old
 * value. */
static uint32_t print_loop(tn__printer *p, const uint32_t *order,
                           uint32_t first)
{
    uint32_t loop = number_at(order, first), end = first, body = first + 1;
    const tn_kernel_ins *ins = p->ins;
    while (number_at(order, end) != (uint32_t)ins[loop].imm.i)
        end++;
    if (!p->live[loop])
        return end;
    for (; ins[number_at(order, body)].op == TN_K_CARRY; body++) {
        uint32_t i = number_at(order, body);
        if (p->live[i])
            tn__print_line(p, "tk_%s v%u = v%u;",
                           tn__source_dtype(ins[i].dtype), i, ins[i].a);
    }
    tn__print_line(p, "for (tk_i64 v%u = 0; v%u < v%u; v%u++) {", loop, loop,
                   ins[loop].a, loop);
    p->depth++;
    tn__print_statements(p, order, body, end);
    for (uint32_t c = first + 1; c < body; c++) {
        uint32_t i = number_at(order, c);
        if (p->live[i])
            tn__print_line(p, "tk_%s n%u = v%u;",
                           tn__source_dtype(ins[i].dtype), i, ins[i].b);
    }
    for (uint32_t c = first + 1; c < body; c++) {
        uint32_t i = number_at(order, c);
        if (p->live[i])
            tn__print_line(p, "v%u = n%u;", i, i);
    }
    p->depth--;
    tn__print_line(p, "}");
    return end;
}

void tn__print_statements(tn__printer *p, const uint32_t *order, uint32_t first,
                          uint32_t end)
{
    char value[256];
    for (uint32_t at = first; at < end; at++) {
        uint32_t i = number_at(order, at);
        const tn_kernel_ins *ins = &p->ins[i];
        p->order_index = at;
        if (ins->op == TN_K_LOOP) {
            at = print_loop(p, order, at);
        } else if (ins->op == TN_K_REDUCE) {
            if (p->live[i])
                tn__print_reduce(p, i);
        } else if (ins->op == TN_K_WHILE) {
            tn__print_line(p, "if (!v%u)", ins->a);
            tn__print_line(p, "    break;");
        } else if (ins->op == TN_K_STORE && !p->live[i]) {
            continue; /* the store belongs to another launch of the program */
        } else if (ins->op == TN_K_STORE) {
            /* Another work-item of the team may have yet to read what this
             * store overwrites, so a barrier comes first. */
            if (p->in_row_part && !p->chunked &&
                tn__launch_class_team(&p->class) > 1 &&
                (at == first ||
                 p->ins[number_at(order, at - 1)].op != TN_K_STORE))
                tn__print_line(p, "TK_BARRIER();");
            print_store(p, ins);
        } else if (ins->op == TN_K_LOAD &&
                   (p->live[i] || tn__ins_faults(ins))) {
            print_load(p, i);
        } else if (i == p->saved && p->live[i] &&
                   p->local_stage > p->saved_stage) {
            element_text(p, p->saved_operand, value);
            tn__print_line(p, "tk_%s v%u = %s;", tn__source_dtype(ins->dtype),
                           i, value);
        } else if (p->live[i]) {
            tn__print_value(p, value, sizeof value, i);
            tn__print_line(p, "tk_%s v%u = %s;", tn__source_dtype(ins->dtype),
                           i, value);
            if (i == p->saved && p->local_stage == p->saved_stage)
                tn__print_line(p, "local%u[here%u] = v%u;", p->saved_operand,
                               p->saved_operand, i);
        }
    }
}

void tn__print_elem_statements(tn__printer *p, const char *position)
{
    const tn_kernel_stage *stage = &p->program->stage[0];
    p->position = position;
    p->live = p->stage_live;
    tn__print_statements(p, p->program->order, stage->elem_first,
                         stage->elem_first + stage->elem_count);
}
