/* cpu_program.h: builds small kernel programs by hand, for the tests of this
 * folder. */
#ifndef TN_TESTS_CPU_PROGRAM_H
#define TN_TESTS_CPU_PROGRAM_H

#include <tenon/plugin.h>

enum { NONE = -1, MAX_INS = 32 };

typedef struct builder {
    tn_kernel_ins ins[MAX_INS];
    tn_kernel_operand operand[8];
    tn_kernel_stage stage[4];
    uint32_t order[64];
    tn_program program;
} builder;

static uint32_t add(builder *b, unsigned op, tn_dtype dtype, int x, int y,
                    int64_t imm, unsigned sub)
{
    uint32_t n = b->program.ins_count++;
    b->ins[n] = (tn_kernel_ins){
        .op = (uint8_t)op, .dtype = (uint8_t)dtype, .sub = (uint8_t)sub,
        .level = TN_LEVEL_ELEM, .a = (uint32_t)x, .b = (uint32_t)y,
        .c = TN_NONE, .imm.i = imm};
    return n;
}

static void operand(builder *b, tn_dtype dtype, unsigned access,
                    unsigned level, unsigned index_count)
{
    b->operand[b->program.operand_count++] = (tn_kernel_operand){
        .dtype = (uint8_t)dtype, .access = (uint8_t)access,
        .level = (uint8_t)level, .index_count = (uint8_t)index_count};
}

/* Appends a stage (one pass over the elements) with these lists of nodes, each
 * of which ends with NONE. */
static void stage(builder *b, const int *elem, const int *row)
{
    tn_program *p = &b->program;
    tn_kernel_stage *s = &b->stage[p->stage_count++];
    s->elem_first = p->order_count;
    for (; *elem != NONE; elem++)
        b->order[p->order_count++] = (uint32_t)*elem;
    s->elem_count = p->order_count - s->elem_first;
    s->row_first = p->order_count;
    for (; *row != NONE; row++)
        b->order[p->order_count++] = (uint32_t)*row;
    s->row_count = p->order_count - s->row_first;
}

static const tn_program *finish(builder *b)
{
    b->program.size = sizeof b->program;
    b->program.ins = b->ins;
    b->program.operand = b->operand;
    b->program.stage = b->stage;
    b->program.order = b->order;
    return &b->program;
}

#endif
