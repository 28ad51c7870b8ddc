/* elements.c: where operands lie at a point, and the loop of a printed program
 * without rows.
 *
 * TN_TARGET_CHUNKED: a work-item has neighbouring elements; a compiler makes
 * vectors of the innermost loop. Else: neighbouring work-items have
 * neighbouring elements, or neighbouring vectors where memory allows it. */
#include <stdio.h>
#include <string.h>

#include <source/print.h>

/* ---- places ----------------------------------------------------------------- */

/* Which operands order[first .. end) has a place of. */
uint32_t tn__device_operands_of(const tn__device_printer *p, const bool *live,
                                uint32_t first, uint32_t end)
{
    uint32_t used = 0;
    for (uint32_t at = first; at < end; at++) {
        uint32_t i = p->program->order[at];
        const tn_kernel_ins *ins = &p->ins[i];
        if ((ins->op == TN_K_LOAD || ins->op == TN_K_OFFSET ||
             ins->op == TN_K_STORE) &&
            live[i])
            used |= 1u << ins->imm.i;
    }
    return used;
}

static bool is_offset(const tn__device_printer *p, uint32_t k)
{
    return p->program->operand[k].access == TN_OPERAND_OFFSET;
}

const char *tn__device_offset_type(const tn__device_printer *p, uint32_t k)
{
    return is_offset(p, k) ? "tk_i64" : "tk_idx";
}

/* " + index * stride" for dimension d of operand k; nothing where the stride
 * is 0 for the whole class. */
static void add_term(tn__device_printer *p, char *out, size_t room, uint32_t k,
                     uint32_t d, const char *index)
{
    const tn_kernel_operand *operand = &p->program->operand[k];
    bool inner = d + 1 == p->class.outer + p->class.row;
    size_t length = strlen(out);
    if (p->class.is_rows && d >= p->class.outer &&
        operand->level == TN_LEVEL_ROW)
        return;
    bool unit = inner && p->class.is_unit && !is_offset(p, k);
    if (unit && p->class.zero >> k & 1)
        return;
    p->used_dims |= 1u << d;
    if (unit) {
        snprintf(out + length, room - length, " + %s", index);
        return;
    }
    snprintf(out + length, room - length, " + %s * (%s)TK_WORD(%u)", index,
             tn__device_offset_type(p, k), p->words.stride[k] + d);
}

/* Coordinates c<d> of the dimensions first .. first + ndim from a number; of
 * those that `wanted` has. */
static void print_coordinates(tn__device_printer *p, const char *number,
                              uint32_t first, uint32_t ndim, uint32_t wanted)
{
    char rest[32];
    snprintf(rest, sizeof rest, "%s", number);
    for (uint32_t d = first + ndim; d-- > first && wanted;) {
        uint32_t word = p->words.extent + d;
        if (d == first) {
            tn__device_line(p, "const tk_idx c%u = %s;", d, rest);
            return;
        }
        if (wanted >> d & 1)
            tn__device_line(p, "const tk_idx c%u = %s %% (tk_idx)TK_WORD(%u);",
                            d, rest, word);
        wanted &= ~(1u << d);
        if (wanted)
            tn__device_line(p, "const tk_idx q%u = %s / (tk_idx)TK_WORD(%u);",
                            d, rest, word);
        snprintf(rest, sizeof rest, "q%u", d);
    }
}

/* name<k> = start<k> + the terms of dimensions first .. end, at c<d>. start
 * NULL: the operand's offset. */
void tn__device_offsets(tn__device_printer *p, uint32_t used, const char *name,
                        const char *start, uint32_t first, uint32_t end)
{
    for (uint32_t k = 0; k < p->program->operand_count; k++) {
        char offset[480], coordinate[16];
        if (!(used >> k & 1))
            continue;
        if (start)
            snprintf(offset, sizeof offset, "%s%u", start, k);
        else
            snprintf(offset, sizeof offset, "(%s)TK_WORD(%u)",
                     tn__device_offset_type(p, k), p->words.offset[k]);
        for (uint32_t d = first; d < end; d++) {
            snprintf(coordinate, sizeof coordinate, "c%u", d);
            add_term(p, offset, sizeof offset, k, d, coordinate);
        }
        tn__device_line(p, "const %s %s%u = %s;", tn__device_offset_type(p, k),
                        name, k, offset);
    }
}

/* The places at point `number` of the dimensions first .. first + ndim, after
 * the coordinates that they hang on, and those in `wanted`. */
void tn__device_point_offsets(tn__device_printer *p, const char *number,
                              uint32_t used, const char *name,
                              const char *start, uint32_t first, uint32_t ndim,
                              uint32_t wanted)
{
    tn__text before = p->body;
    p->body = (tn__text){.data = NULL};
    p->used_dims = wanted;
    tn__device_offsets(p, used, name, start, first, first + ndim);
    tn__text offsets = p->body;
    p->body = before;
    print_coordinates(p, number, first, ndim, p->used_dims);
    if (offsets.length > 0)
        tn__text_add_bytes(&p->body, offsets.data, offsets.length);
    p->body.failed = p->body.failed || offsets.failed;
    tn__text_release(&offsets);
}

void tn__device_open(tn__device_printer *p, const char *head)
{
    tn__device_line(p, "%s{", head);
    p->depth++;
}

void tn__device_close(tn__device_printer *p)
{
    p->depth--;
    tn__device_line(p, "}");
}

/* ---- elements ----------------------------------------------------------------- */

/* This work-item's share [first, end) of `count` things. */
void tn__device_share(tn__device_printer *p)
{
    tn__device_line(p, "const tk_idx items = TK_GROUPS * TK_GROUP_SIZE;");
    if (p->class.is_rows)
        tn__device_line(p, "const tk_idx share = (count + items - 1) / items;");
    else /* whole vectors */
        tn__device_line(p, "const tk_idx share = "
                           "((count + items - 1) / items + 15) / 16 * 16;");
    tn__device_line(p, "tk_idx first = share * "
                       "(TK_GROUP * TK_GROUP_SIZE + TK_LOCAL);");
    tn__device_line(p, "const tk_idx end = "
                       "first + share < count ? first + share : count;");
}

void tn__device_elem_statements(tn__device_printer *p, const char *position)
{
    const tn_kernel_stage *stage = &p->program->stage[0];
    p->position = position;
    p->live = p->stage_live;
    tn__device_statements(p, p->program->order, stage->elem_first,
                          stage->elem_first + stage->elem_count);
}

/* at<k> = from<k> + number * the stride of the innermost dimension */
static void print_steps(tn__device_printer *p, uint32_t used,
                        const char *number)
{
    for (uint32_t k = 0; k < p->program->operand_count; k++) {
        char offset[128];
        if (!(used >> k & 1))
            continue;
        snprintf(offset, sizeof offset, "from%u", k);
        add_term(p, offset, sizeof offset, k, p->class.outer + p->class.row - 1,
                 number);
        tn__device_line(p, "const %s at%u = %s;", tn__device_offset_type(p, k),
                        k, offset);
    }
}

/* Runs along the innermost dimension: the inner loop has no division. */
static void print_runs(tn__device_printer *p, uint32_t used)
{
    uint32_t last = p->class.outer - 1;
    tn__device_open(p, "while (first < end) ");
    tn__device_point_offsets(p, "first", used, "from", NULL, 0, last + 1,
                             1u << last);
    tn__device_line(p, "tk_idx run = (tk_idx)TK_WORD(%u) - c%u;",
                    p->words.extent + last, last);
    tn__device_line(p, "run = run < end - first ? run : end - first;");
    tn__device_open(p, "for (tk_idx j = 0; j < run; j++) ");
    print_steps(p, used, "j");
    tn__device_elem_statements(p, "(tk_i64)first + j");
    tn__device_close(p);
    tn__device_line(p, "first += run;");
    tn__device_close(p);
}

/* Structs of one alignment, which OpenCL C and CUDA C both load and store as a
 * whole. */
void tn__device_vector_types(tn__device_printer *p, uint32_t operands)
{
    bool known[TN_DTYPE_END] = {false};
    for (uint32_t k = 0; k < p->program->operand_count; k++) {
        unsigned dtype = p->program->operand[k].dtype;
        if (!(operands >> k & 1) || known[dtype])
            continue;
        known[dtype] = true;
        tn__device_line(p, "typedef struct __attribute__((aligned(%u))) {",
                        p->class.vector *
                            (unsigned)tn_dtype_bytes((tn_dtype)dtype));
        tn__device_line(p, "    tk_s_%s e[%u];", tn__device_dtype(dtype),
                        p->class.vector);
        tn__device_line(p, "} tk_v_%s;", tn__device_dtype(dtype));
    }
}

/* A work-item's vector of each operand: x<k>, read before its elements are
 * computed, written after. */
static void print_vectors(tn__device_printer *p, bool reads)
{
    for (uint32_t k = 0; k < p->program->operand_count; k++) {
        const tn_kernel_operand *operand = &p->program->operand[k];
        const char *dtype = tn__device_dtype(operand->dtype);
        if (!(p->vectors >> k & 1))
            continue;
        if (p->cached >> k & 1) {
            if (reads)
                tn__device_line(p,
                                "const tk_v_%s x%u = "
                                "*(TK_S const tk_v_%s *)(local%u + here%u);",
                                dtype, k, dtype, k, k);
        } else if (!reads && operand->access == TN_OPERAND_WRITE)
            tn__device_line(p, "*(TK_G tk_v_%s *)(p%u + from%u) = x%u;", dtype,
                            k, k, k);
        else if (reads && operand->access == TN_OPERAND_WRITE)
            tn__device_line(p, "tk_v_%s x%u;", dtype, k);
        else if (reads)
            tn__device_line(p,
                            "const tk_v_%s x%u = "
                            "*(TK_G const tk_v_%s *)(p%u + from%u);",
                            dtype, k, dtype, k, k);
    }
}

uint32_t tn__device_vectors_of(const tn__device_printer *p, uint32_t used)
{
    uint32_t vectors = 0;
    for (uint32_t k = 0; p->class.vector > 1 && k < p->program->operand_count;
         k++)
        if (used >> k & 1 && tn__device_is_contiguous(p->program, &p->class, k))
            vectors |= 1u << k;
    return vectors;
}

void tn__device_vectors_open(tn__device_printer *p, uint32_t used)
{
    char head[80];
    print_vectors(p, true);
    tn__text_add(&p->body, "#pragma unroll\n");
    snprintf(head, sizeof head, "for (tk_i32 l = 0; l < %u; l++) ",
             p->class.vector);
    tn__device_open(p, head);
    print_steps(p, used & ~p->vectors, "l");
}

void tn__device_vectors_close(tn__device_printer *p)
{
    tn__device_close(p);
    print_vectors(p, false);
    p->vectors = 0;
}

/* A work-item takes class.vector elements at once. */
static void print_by_vectors(tn__device_printer *p, uint32_t used)
{
    uint32_t size = p->class.vector;
    char head[160];
    p->vectors = tn__device_vectors_of(p, used);
    tn__device_vector_types(p, p->vectors);
    snprintf(head, sizeof head,
             "for (tk_idx i = %u * (TK_GROUP * TK_GROUP_SIZE + TK_LOCAL); "
             "i < count; i += %u * (TK_GROUPS * TK_GROUP_SIZE)) ",
             size, size);
    tn__device_open(p, head);
    tn__device_point_offsets(p, "i", used, "from", NULL, 0, p->class.outer, 0);
    tn__device_vectors_open(p, used);
    tn__device_elem_statements(p, "(tk_i64)i + l");
    tn__device_vectors_close(p);
    tn__device_close(p);
}

void tn__device_elements(tn__device_printer *p)
{
    const tn_kernel_stage *stage = &p->program->stage[0];
    uint32_t used =
        tn__device_operands_of(p, p->stage_live, stage->elem_first,
                               stage->elem_first + stage->elem_count);
    tn__device_line(p, "const tk_idx count = (tk_idx)TK_WORD(%u);",
                    p->words.count);
    if (p->chunked)
        tn__device_share(p);
    if (p->chunked && p->class.outer > 1) {
        print_runs(p, used);
        return;
    }
    if (p->class.tile) {
        tn__device_tiles(p, used);
        return;
    }
    if (p->class.vector > 1) {
        print_by_vectors(p, used);
        return;
    }
    if (p->chunked)
        tn__device_open(p, "for (tk_idx i = first; i < end; i++) ");
    else
        tn__device_open(p,
                        "for (tk_idx i = TK_GROUP * TK_GROUP_SIZE + TK_LOCAL; "
                        "i < count; i += TK_GROUPS * TK_GROUP_SIZE) ");
    tn__device_point_offsets(p, "i", used, "at", NULL, 0, p->class.outer, 0);
    tn__device_elem_statements(p, "(tk_i64)i");
    tn__device_close(p);
}
