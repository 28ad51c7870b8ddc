/* fuse.c: fuses two arithmetic operations, such as a subtraction and a
 * multiplication, when only the second one reads the result of the first. That
 * saves a pass over a block. Both operations still round, so results are
 * bit-identical. */
#include <stdlib.h>
#include <string.h>

#include "compile_program.h"

#define SEVERAL UINT32_MAX /* the slot has more than one reader */

/* Returns 0 for a floating-point addition, 1 for a subtraction, 2 for a
 * multiplication and -1 for other operations. The result is an index into the
 * table tn_cpu_routines.pair. Stores the register type in *type. */
static int kind_of(const tn_cpu_routines *routines, const cpu_op *op,
                   unsigned *type)
{
    static const uint8_t of[] = {TN_K_ADD, TN_K_SUB, TN_K_MUL};
    static const uint8_t types[] = {CPU_F32, CPU_F64};
    for (int t = 0; op->code == CPU_RUN && t < 2; t++)
        for (int k = 0; k < 3; k++)
            if (op->run == routines->op[of[k]][types[t]]) {
                *type = types[t];
                return k;
            }
    return -1;
}

/* Sets reader[slot] to 1 + the index of the only operation that reads the slot.
 * Sets it to 0 if no operation reads the slot, to SEVERAL if more than one
 * does. */
static void find_readers(const cpu_code *code, uint32_t *reader)
{
    memset(reader, 0, (code->slot_count + 1u) * sizeof *reader);
    for (uint32_t i = 0; i < code->op_count; i++) {
        const cpu_op *op = &code->op[i];
        const uint32_t read[3] = {op->a, op->b, op->c};
        for (int j = 0; j < 3; j++)
            if (read[j] != TN_CPU_NONE && reader[read[j]] != i + 1)
                reader[read[j]] = reader[read[j]] ? SEVERAL : i + 1;
    }
}

/* Moves bit `from` of bits to bit `to`, and returns only that bit. */
static unsigned bit(unsigned bits, int from, int to)
{
    return (bits >> from & 1) << to;
}

/* Fuses two operations. `first` computes operand a (at is 0) or b (at is 1) of
 * `second`. `second` becomes the fused operation: its operands a and b are
 * those of `first`, and c is the remaining operand of `second`. kind[0] and
 * kind[1] are the results of kind_of for the two operations. */
static void join(const tn_cpu_routines *routines, unsigned type,
                 const int kind[2], const cpu_op *first, cpu_op *second,
                 int at)
{
    /* The last index of pair[][][] selects the second operation, where t is the
     * result of the first one: 0 is t + c, 1 is t - c, 2 is c - t, 3 is t * c.
     * Index 2 is used if t is operand b of a subtraction. */
    static const uint8_t place[] = {0, 1, 3};
    int other = 1 - at;
    unsigned how = kind[1] == 1 && at == 1 ? 2 : place[kind[1]];
    second->run = routines->pair[type][kind[0]][how];
    second->scalar = (uint8_t)((first->scalar & 3) |
                               bit(second->scalar, other, 2));
    second->row =
        (uint8_t)((first->row & 3) | bit(second->row, other, 2));
    second->narrow[2] = second->narrow[other];
    second->narrow[0] = first->narrow[0];
    second->narrow[1] = first->narrow[1];
    second->c = other ? second->b : second->a;
    second->a = first->a;
    second->b = first->b;
    second->allowed = 7;
}

/* Fuses pairs of operations within a part (a list of operations on elements, on
 * rows or on scalars). maker[slot] is 1 + the index of the operation of this
 * part that computes the slot, or 0 if there is none. find_readers has set
 * reader[]. */
static void fuse_part(const tn_cpu_routines *routines, cpu_code *code,
                      const cpu_part *part, const uint32_t *reader,
                      uint32_t *maker)
{
    for (uint32_t i = part->first; i < part->first + part->count; i++) {
        cpu_op *op = &code->op[i];
        unsigned type, of;
        int kind[2] = {0, kind_of(routines, op, &type)};
        const uint32_t read[2] = {op->a, op->b};
        for (int at = 0; kind[1] >= 0 && at < 2 && read[0] != read[1]; at++) {
            uint32_t from = maker[read[at]];
            if (from == 0 || reader[read[at]] != i + 1)
                continue;
            cpu_op *first = &code->op[from - 1];
            kind[0] = kind_of(routines, first, &of);
            if (kind[0] < 0 || of != type)
                continue;
            join(routines, type, kind, first, op, at);
            first->code = CPU_NOP;
            break;
        }
        if (op->out != TN_CPU_NONE && code->slot[op->out].space == CPU_ELEM)
            maker[op->out] = i + 1;
    }
    for (uint32_t i = part->first; i < part->first + part->count; i++)
        if (code->op[i].out != TN_CPU_NONE)
            maker[code->op[i].out] = 0; /* the next call of this function
                                         * expects zeros */
}

/* Returns whether the slot holds one scalar for each element of a block. */
static bool is_block(const cpu_code *code, uint32_t slot)
{
    return code->slot[slot].space == CPU_ELEM;
}

/* Returns the CPU_RUN that computes the slot, if it is in the same part (list
 * of operations) and precedes operation `end`. Returns NULL if there is none.
 */
static cpu_op *maker_of(cpu_code *code, const cpu_part *part,
                        const cpu_op *end, uint32_t slot)
{
    for (cpu_op *op = code->op + part->first; op < end; op++)
        if (op->out == slot && op->code == CPU_RUN)
            return op;
    return NULL;
}

/* Moves an operation to `distance` operations before the only reduction that
 * reads its result. All operations that the reduction computes itself are then
 * adjacent. Adds `flags` to the operation. */
static void move_before(cpu_op *op, cpu_op *reduction, int distance,
                        uint16_t flags)
{
    cpu_op moved = *op, *place = reduction - distance;
    memmove(op, op + 1, (size_t)(place - op) * sizeof *op);
    *place = moved;
    place->flags |= flags;
    place->jump = (uint32_t)distance;
}

/* Returns CPU_PRODUCT, CPU_CENTERED or CPU_TRIPLE if the operation computes
 * that expression, else 0. A reduction of columns can compute these expressions
 * itself. */
static unsigned column_form_of(const tn_cpu_routines *routines,
                               const cpu_op *op)
{
    return op->run == routines->op[TN_K_MUL][CPU_F32] ? CPU_PRODUCT
           : op->run == routines->pair[CPU_F32][1][3] ? CPU_CENTERED
           : op->run == routines->pair[CPU_F32][2][3] ? CPU_TRIPLE
                                                      : 0;
}

/* The arguments of fuse_reductions. */
typedef struct fusion {
    const tn_cpu_routines *routines;
    cpu_code *code;
    const cpu_part *part;
    uint32_t *reader; /* reader[slot]: the result of find_readers */
} fusion;

/* If factor = x - center, where center is one scalar per row: returns the slot
 * of x, sets *center to the slot of center and *subtract to the subtraction.
 * Otherwise returns `factor` and sets *center to TN_CPU_NONE. */
static uint32_t centered(const fusion *f, cpu_op *product, uint32_t factor,
                         uint32_t *center, cpu_op **subtract)
{
    unsigned type;
    cpu_op *op = maker_of(f->code, f->part, product, factor);
    *center = TN_CPU_NONE;
    if (!op || kind_of(f->routines, op, &type) != 1 || op->scalar ||
        op->row != 2 || !is_block(f->code, op->a) ||
        f->reader[factor] != 1 + (uint32_t)(product - f->code->op))
        return factor;
    *subtract = op;
    *center = op->narrow[1];
    return op->a;
}

/* Lets a sum of products compute the products itself if only the sum reads
 * them. The products then need no block. A reduction of rows computes
 *
 *     sum over k of (x[k] - center_x) * (y[k] - center_y)
 *
 * as in a variance. Each center is one scalar per row or absent. A reduction of
 * columns computes
 *
 *     sum over k of (x[k] - center[k]) * y[k] * scale[k]
 *
 * as in the gradient of layer_norm's weight. center and scale may be absent. */
static void fuse_reductions(const tn_cpu_routines *routines, cpu_code *code,
                            const cpu_part *part, uint32_t *reader)
{
    const fusion f = {routines, code, part, reader};
    for (uint32_t i = part->first; i < part->first + part->count; i++) {
        cpu_op *op = &code->op[i];
        if (op->code != CPU_REDUCE || reader[op->a] != i + 1 ||
            code->reduce[op->index].kind != TN_REDUCE_SUM)
            continue;
        cpu_op *product = maker_of(code, part, op, op->a);
        if (!product)
            continue;
        unsigned type;
        cpu_op *subtract[2] = {NULL, NULL}, *first = NULL;
        uint32_t in[2] = {product->a, product->b};
        bool by_rows = kind_of(routines, product, &type) == 2 &&
                       !product->scalar && !product->row &&
                       is_block(code, in[0]) && is_block(code, in[1]);
        op->column_form = (uint8_t)column_form_of(routines, product);
        if (by_rows) {
            op->b = centered(&f, product, in[0], &op->narrow[1], &subtract[0]);
            op->c = op->b;
            op->narrow[2] = op->narrow[1];
            if (in[1] != in[0])
                op->c =
                    centered(&f, product, in[1], &op->narrow[2], &subtract[1]);
        } else if (op->column_form == CPU_CENTERED && product->row == 2 &&
                   !product->scalar && is_block(code, product->a) &&
                   is_block(code, product->c)) {
            by_rows = true;
            op->b = product->a;
            op->narrow[1] = product->narrow[1];
            op->c = product->c;
        }
        bool plain =
            op->column_form == CPU_PRODUCT && !subtract[0] && !subtract[1];
        for (int k = 0; k < 2 && plain && !first; k++)
            if (reader[in[k]] == 1 + (uint32_t)(product - code->op)) {
                first = maker_of(code, part, product, in[k]);
                if (first && column_form_of(routines, first) != CPU_CENTERED)
                    first = NULL;
            }
        if (first)
            op->column_form = CPU_CENTERED_SCALED;
        if (!by_rows && !op->column_form)
            continue;
        const uint16_t flags = (uint16_t)((by_rows ? RUN_FACTORS : 0) |
                                          (op->column_form ? RUN_COLUMNS : 0));
        move_before(product, op, 1, flags);
        bool swapped = subtract[0] < subtract[1];
        for (int k = 0, n = 2; k < 2; k++)
            if (subtract[k ^ swapped])
                move_before(subtract[k ^ swapped], op, n++, RUN_FACTORS);
        if (first)
            move_before(first, op, 2, RUN_COLUMNS);
        find_readers(code, reader);
    }
}

/* Moves the part's operations in code->op[] down to index *count, without those
 * that fusion has replaced by CPU_NOP. */
static void close_gaps(cpu_code *code, cpu_part *part, uint32_t *count)
{
    uint32_t first = *count;
    for (uint32_t i = part->first; i < part->first + part->count; i++)
        if (code->op[i].code != CPU_NOP)
            code->op[(*count)++] = code->op[i];
    *part = (cpu_part){first, *count - first};
}

tn_status tn__cpu_fuse(const tn_cpu_routines *routines, cpu_code *code)
{
    if (code->loop_depth > 0) /* The operations of a loop jump by a number of
                               * operations, which removals would change. */
        return TN_OK;
    size_t slots = code->slot_count + 1u;
    uint32_t *reader = calloc(2 * slots, sizeof *reader), count = 0;
    if (!reader)
        return tn__cpu_host->fail(TN_ERR_MEMORY,
                                  "program: out of memory while building");
    find_readers(code, reader);
    for (uint32_t s = 0; s < code->stage_count; s++) {
        fuse_part(routines, code, &code->stage[s].elem, reader,
                  reader + slots);
        fuse_reductions(routines, code, &code->stage[s].elem, reader);
    }
    close_gaps(code, &code->uniform, &count);
    for (uint32_t s = 0; s < code->stage_count; s++) {
        close_gaps(code, &code->stage[s].elem, &count);
        close_gaps(code, &code->stage[s].row, &count);
    }
    code->op_count = count;
    free(reader);
    return TN_OK;
}
