/* mark_ops.c: marks the operations of a compiled program by what reads their
 * results: loads that need no copy, and operations that need not run again for
 * each block. */
#include <string.h>

#include "compile_program.h"
#include "../run/plan.h"

/* Returns the number of operands that an operation reads. A binary operation
 * ignores slot c. */
static int operands(const cpu_op *op)
{
    return op->code == CPU_RUN && op->allowed == 3 ? 2 : 3;
}

void tn__cpu_mark_loads(compiler *c)
{
    /* Bits for the kinds of operations that read a loaded value, distinct from
     * the LOAD_... flags.
     * - BY_FOLD: a reduction.
     * - BY_RUN: a routine, machine code, or a reduction that reads the value as
     *   one of two factors.
     * - AS_BLOCK, with BY_RUN: a routine that accepts no scalar.
     * - AS_TYPE: anything but machine code that converts the value.
     * - BY_OTHER: any other operation. */
    enum { BY_FOLD = 1 << 16, BY_RUN = 2 << 16, BY_OTHER = 4 << 16,
           AS_BLOCK = 8 << 16, AS_TYPE = 16 << 16 };
    cpu_code *code = c->code;
    /* use[slot] is a mask of the kinds of operations that read the slot.
     * Operations are visited backwards. At the load that fills the slot,
     * use[slot] becomes the flags of this load. */
    uint32_t *use = c->producer;
    if (code->slot_count > 0)
        memset(use, 0, code->slot_count * sizeof *use);
    code->folds_loads = code->folds_columns = true;
    for (uint32_t i = 0; i < code->op_count; i++) {
        const cpu_op *op = &code->op[i];
        const uint32_t read[3] = {op->a, op->b, op->c};
        for (int j = 0; j < operands(op); j++)
            if (read[j] != TN_CPU_NONE)
                use[read[j]] |= op->code == CPU_REDUCE && j == 0 ? BY_FOLD
                                : op->code == CPU_REDUCE ? BY_RUN
                                : op->code != CPU_RUN      ? BY_OTHER
                                : op->allowed >> j & 1     ? BY_RUN
                                                       : BY_RUN | AS_BLOCK;
        for (int j = 0; j < 3; j++)
            if (read[j] != TN_CPU_NONE)
                use[read[j]] |= AS_TYPE;
        const cpu_segment *s =
            op->code == CPU_NATIVE ? code->segment[op->index] : NULL;
        for (uint32_t j = 0; s && j < s->native.operand_count; j++)
            if (s->operand[j].wide != TN_CPU_NONE)
                use[s->operand[j].wide] |=
                    s->native.stored[j] ? BY_RUN : BY_RUN | AS_TYPE;
    }
    for (uint32_t i = 0; i < code->op_count; i++) {
        cpu_op *op = &code->op[i];
        bool elem = op->out != TN_CPU_NONE &&
                    code->slot[op->out].space == CPU_ELEM;
        bool plain = elem && op->code == CPU_LOAD && op->a == TN_CPU_NONE &&
                     op->b == TN_CPU_NONE && op->c == TN_CPU_NONE;
        unsigned by = plain ? use[op->out] : 0;
        bool stored = by == BY_RUN;
        by &= ~(unsigned)AS_TYPE;
        unsigned also = by & ~(unsigned)AS_BLOCK;
        unsigned flag = by == BY_FOLD                 ? LOAD_FOLDED
                        : also == (BY_FOLD | BY_RUN)  ? LOAD_FOLDED | LOAD_LENT
                        : by == BY_RUN                ? LOAD_LENT | LOAD_SINGLE
                        : by == (BY_RUN | AS_BLOCK) ? LOAD_LENT
                                                      : 0;
        op->flags |= (uint16_t)(stored ? flag | LOAD_STORED : flag);
        if (elem)
            use[op->out] = flag;
        if (elem && flag != LOAD_FOLDED)
            code->folds_loads = false;
        if (elem && !plain && !(op->code == CPU_RUN && op->flags & RUN_COLUMNS))
            code->folds_columns = false;
        const uint32_t read[3] = {op->a, op->b, op->c};
        for (int j = 0; j < operands(op); j++) {
            if (read[j] == TN_CPU_NONE ||
                code->slot[read[j]].space != CPU_ELEM)
                continue;
            if (op->code == CPU_REDUCE && j == 0)
                op->flags = (uint16_t)(use[read[j]] & LOAD_FOLDED);
            else if ((op->code == CPU_RUN || op->code == CPU_REDUCE) &&
                     (use[read[j]] & LOAD_LENT))
                op->lent |= (uint8_t)(1 << j);
        }
        cpu_segment *s =
            op->code == CPU_NATIVE ? code->segment[op->index] : NULL;
        for (uint32_t j = 0; s && j < s->native.operand_count; j++)
            s->operand[j].lent = s->operand[j].wide != TN_CPU_NONE &&
                                 (use[s->operand[j].wide] & LOAD_LENT);
        if (s)
            code->folds_loads = code->folds_columns = false;
    }
}

bool tn__cpu_mark_hoistable(compiler *c)
{
    cpu_code *code = c->code;
    /* from_index[slot]: whether the slot's value depends on a gather (a load by
     * an index). */
    uint32_t *from_index = c->producer;
    bool found = false;
    if (code->slot_count > 0)
        memset(from_index, 0, code->slot_count * sizeof *from_index);
    for (uint32_t i = 0; i < code->op_count; i++) {
        cpu_op *op = &code->op[i];
        const uint32_t read[3] = {op->a, op->b, op->c};
        bool hoistable = op->out != TN_CPU_NONE;
        for (int j = 0; j < 3; j++)
            hoistable =
                hoistable && (read[j] == TN_CPU_NONE || !from_index[read[j]]);
        op->hoistable = hoistable;
        bool indexed = op->code == CPU_LOAD && op->a != TN_CPU_NONE;
        found = found || (indexed && hoistable);
        if (op->out != TN_CPU_NONE)
            from_index[op->out] = !hoistable || indexed;
        if (op->code == CPU_STORE && !from_index[op->a])
            op->flags &= (uint16_t)~STORE_DIRECT;
    }
    return found && code->op_count <= TN_CPU_HOIST_OPS &&
           code->slot_count <= TN_CPU_HOIST_SLOTS && code->loop_depth == 0;
}
