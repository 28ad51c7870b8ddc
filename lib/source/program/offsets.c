/* offsets.c: prints the code that computes the offset of each operand at a
 * point of the iteration space, as the sum of coordinate * stride over the
 * dimensions. */
#include <stdio.h>
#include <string.h>

#include <source/program/printer.h>

uint32_t tn__operands_of(const tn__printer *p, const bool *live, uint32_t first,
                         uint32_t end)
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

static bool is_offset(const tn__printer *p, uint32_t k)
{
    return p->program->operand[k].access == TN_OPERAND_OFFSET;
}

const char *tn__offset_type(const tn__printer *p, uint32_t k)
{
    return is_offset(p, k) ? "tk_i64" : "tk_idx";
}

/* Appends " + index * stride" for dimension d of operand k. Appends nothing if
 * it is known that the stride is 0. */
static void add_term(tn__printer *p, char *out, size_t room, uint32_t k,
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
             tn__offset_type(p, k), p->words.stride[k] + d);
}

/* Prints declarations of the coordinates c<d> of the dimensions d from first up
 * to first + ndim whose bits are set in `wanted`. The printed code computes the
 * coordinates from the row-major index of a point, which is the C expression
 * `number`. */
static void print_coordinates(tn__printer *p, const char *number,
                              uint32_t first, uint32_t ndim, uint32_t wanted)
{
    char rest[32];
    snprintf(rest, sizeof rest, "%s", number);
    for (uint32_t d = first + ndim; d-- > first && wanted;) {
        uint32_t word = p->words.extent + d;
        if (d == first) {
            tn__print_line(p, "const tk_idx c%u = %s;", d, rest);
            return;
        }
        if (wanted >> d & 1)
            tn__print_line(p, "const tk_idx c%u = %s %% (tk_idx)TK_WORD(%u);",
                           d, rest, word);
        wanted &= ~(1u << d);
        if (wanted)
            tn__print_line(p, "const tk_idx q%u = %s / (tk_idx)TK_WORD(%u);", d,
                           rest, word);
        snprintf(rest, sizeof rest, "q%u", d);
    }
}

/* Prints declarations of the offsets name<k> of the operands in `used`. An
 * offset is start<k> plus the sum of c<d> * stride over the dimensions d from
 * first up to but not including end. */
void tn__print_offsets(tn__printer *p, uint32_t used, const char *name,
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
                     tn__offset_type(p, k), p->words.offset[k]);
        for (uint32_t d = first; d < end; d++) {
            snprintf(coordinate, sizeof coordinate, "c%u", d);
            add_term(p, offset, sizeof offset, k, d, coordinate);
        }
        tn__print_line(p, "const %s %s%u = %s;", tn__offset_type(p, k), name, k,
                       offset);
    }
}

/* The offsets are first printed into a buffer, to find out which coordinates
 * they use. The declarations of these coordinates are printed before the
 * offsets. */
void tn__print_point_offsets(tn__printer *p, const char *number, uint32_t used,
                             const char *name, const char *start,
                             uint32_t first, uint32_t ndim, uint32_t wanted)
{
    tn__text before = p->body;
    p->body = (tn__text){.data = NULL};
    p->used_dims = wanted;
    tn__print_offsets(p, used, name, start, first, first + ndim);
    tn__text offsets = p->body;
    p->body = before;
    print_coordinates(p, number, first, ndim, p->used_dims);
    if (offsets.length > 0)
        tn__text_add_bytes(&p->body, offsets.data, offsets.length);
    p->body.failed = p->body.failed || offsets.failed;
    tn__text_release(&offsets);
}

void tn__print_step_offsets(tn__printer *p, uint32_t used, const char *number)
{
    for (uint32_t k = 0; k < p->program->operand_count; k++) {
        char offset[128];
        if (!(used >> k & 1))
            continue;
        snprintf(offset, sizeof offset, "from%u", k);
        add_term(p, offset, sizeof offset, k, p->class.outer + p->class.row - 1,
                 number);
        tn__print_line(p, "const %s at%u = %s;", tn__offset_type(p, k), k,
                       offset);
    }
}
