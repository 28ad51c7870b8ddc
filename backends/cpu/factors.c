/* factors.c: a sum of products that nothing else reads takes the factors, each
 * less a number of the row where that is how it is made, as a variance's are:
 * neither products nor differences need a block. */
#include <stdlib.h>
#include <string.h>

#include "compile.h"

#define MORE UINT32_MAX /* readers than one */

/* Who reads each slot: 1 + the operation's number, 0 for none, or MORE. */
static void find_readers(const cpu_code *code, uint32_t *reader)
{
    memset(reader, 0, (code->slot_count + 1u) * sizeof *reader);
    for (uint32_t i = 0; i < code->op_count; i++) {
        const cpu_op *op = &code->op[i];
        const uint32_t read[3] = {op->a, op->b, op->c};
        for (int j = 0; j < 3; j++)
            if (read[j] != TN_CPU_NONE && reader[read[j]] != i + 1)
                reader[read[j]] = reader[read[j]] ? MORE : i + 1;
    }
}

static bool is_block(const cpu_code *code, uint32_t slot)
{
    return code->slot[slot].space == CPU_ELEM;
}

/* The operation of the part, before `end`, that makes slot; NULL: none. */
static cpu_op *maker(cpu_code *code, const cpu_part *part, const cpu_op *end,
                     uint32_t slot)
{
    for (cpu_op *op = code->op + part->first; op < end; op++)
        if (op->out == slot)
            return op;
    return NULL;
}

static bool runs(const tn_cpu_routines *routines, const cpu_op *op,
                 unsigned kind)
{
    return op && op->code == CPU_RUN &&
           (op->run == routines->op[kind][CPU_F32] ||
            op->run == routines->op[kind][CPU_F64]);
}

/* The factor itself, or what it is made of by taking from it center, a number of
 * the row; of floats alone. */
static uint32_t centered(const tn_cpu_routines *routines, cpu_code *code,
                         const cpu_part *part, const cpu_op *product,
                         uint32_t factor, const uint32_t *reader,
                         uint32_t *center)
{
    cpu_op *less = maker(code, part, product, factor);
    *center = TN_CPU_NONE;
    if (!less || less->run != routines->op[TN_K_SUB][CPU_F32] || less->scalar || less->row != 2 ||
        !is_block(code, less->a) ||
        reader[factor] != 1 + (uint32_t)(product - code->op))
        return factor;
    less->flags |= CPU_FACTORS;
    *center = less->narrow[1];
    return less->a;
}

static void take_factors(const tn_cpu_routines *routines, cpu_code *code,
                         const cpu_part *part, const uint32_t *reader)
{
    for (uint32_t i = part->first; i < part->first + part->count; i++) {
        cpu_op *op = &code->op[i];
        if (op->code != CPU_REDUCE || reader[op->a] != i + 1 ||
            code->reduce[op->index].kind != TN_REDUCE_SUM)
            continue;
        cpu_op *product = maker(code, part, op, op->a);
        if (!runs(routines, product, TN_K_MUL) || product->scalar ||
            product->row || !is_block(code, product->a) ||
            !is_block(code, product->b))
            continue;
        product->flags |= CPU_FACTORS;
        op->b = centered(routines, code, part, product, product->a, reader,
                         &op->narrow[1]);
        op->c = product->b == product->a
                    ? op->b
                    : centered(routines, code, part, product, product->b,
                               reader, &op->narrow[2]);
        if (product->b == product->a)
            op->narrow[2] = op->narrow[1];
    }
}

tn_status tn__cpu_take_factors(const tn_cpu_routines *routines, cpu_code *code)
{
    if (code->loop_depth > 0)
        return TN_OK;
    uint32_t *reader = malloc((code->slot_count + 1u) * sizeof *reader);
    if (!reader)
        return tn__cpu_host->fail(TN_ERR_MEMORY,
                                  "program: out of memory while building");
    find_readers(code, reader);
    for (uint32_t s = 0; s < code->stage_count; s++)
        take_factors(routines, code, &code->stage[s].elem, reader);
    free(reader);
    return TN_OK;
}
