/* compile_loops.c: compiles loops to block operations. All elements of a block
 * iterate together. A mask marks the elements whose loop has not ended. A CARRY
 * is a variable that each iteration updates, but only where the mask is set.
 * The block leaves the loop when no element is active. */
#include "compile_program.h"

/* Begins a loop: adds operations that copy the initial values of the loop's
 * variables (CARRYs) to their slots, then the CPU_LOOP. */
uint32_t tn__cpu_compile_loop(compiler *c, frame *f, const uint32_t *list,
                             uint32_t at, uint32_t count)
{
    uint32_t number = list ? list[at] : at, carries = 0;
    const tn_kernel_ins *ins = &f->ins[number];
    if (c->depth == MAX_LOOPS) {
        c->status = tn__cpu_host->fail(
            TN_ERR_UNSUPPORTED, "program: loops are nested more than %d "
                                "deep", MAX_LOOPS);
        return 0;
    }
    loop *l = &c->loop[c->depth];
    *l = (loop){.end = (uint32_t)ins->imm.i,
                .bound = tn__cpu_value_slot(c, f, ins->a),
                .first_carry = number + 1};
    while (at + 1 + carries < count) {
        uint32_t carry = list ? list[at + 1 + carries] : at + 1 + carries;
        if (f->ins[carry].op != TN_K_CARRY)
            break;
        uint8_t type = tn__cpu_type_of(f->ins[carry].dtype);
        uint32_t from = tn__cpu_whole_value(c, f, f->ins[carry].a);
        uint32_t slot = tn__cpu_slot_add(c, c->level, tn__cpu_type_bytes[type]);
        tn__cpu_run_add(c, slot, c->routines->cast[type][type], from,
                        TN_CPU_NONE, TN_CPU_NONE, 0);
        tn__cpu_value_set(c, f, carry, slot);
        carries++;
    }
    l->carry_count = carries;
    l->index = tn__cpu_slot_add(c, c->level, 8);
    l->mask = tn__cpu_slot_add(c, c->level, 1);
    l->operation = c->body.count;
    tn__cpu_value_set(c, f, number, l->index);
    cpu_op *op = tn__cpu_op_add(c, &c->body, CPU_LOOP);
    op->out = l->index;
    op->a = l->bound;
    op->b = l->mask;
    op->c = c->depth > 0 ? c->loop[c->depth - 1].mask : TN_CPU_NONE;
    op->index = c->depth++;
    if (c->depth > c->code->loop_depth)
        c->code->loop_depth = c->depth;
    return carries;
}

/* Returns whether the value is a CARRY of this loop. */
static bool is_carry(const frame *f, const loop *l, uint32_t value)
{
    return value >= l->first_carry && value < l->first_carry + l->carry_count &&
           f->ins[value].op == TN_K_CARRY;
}

/* Ends a loop: adds the operations that update the loop's variables (CARRYs),
 * then the CPU_END. A variable gets its new value only in elements whose loop
 * has not ended. If that new value is another CARRY of the loop, its old value
 * is copied before any CARRY changes. */
void tn__cpu_compile_end(compiler *c, frame *f)
{
    loop *l = &c->loop[c->depth - 1];
    uint32_t next[256];
    if (l->carry_count > 256) {
        c->status = tn__cpu_host->fail(
            TN_ERR_UNSUPPORTED, "program: a loop has %u variables; the "
                                "limit is 256", l->carry_count);
        return;
    }
    for (uint32_t i = 0; i < l->carry_count; i++) {
        const tn_kernel_ins *carry = &f->ins[l->first_carry + i];
        next[i] = tn__cpu_whole_value(c, f, carry->b);
        if (is_carry(f, l, carry->b)) {
            uint8_t type = tn__cpu_type_of(carry->dtype);
            uint32_t aside =
                tn__cpu_slot_add(c, c->level, tn__cpu_type_bytes[type]);
            tn__cpu_run_add(c, aside, c->routines->cast[type][type], next[i],
                            TN_CPU_NONE, TN_CPU_NONE, 0);
            next[i] = aside;
        }
    }
    for (uint32_t i = 0; i < l->carry_count; i++) {
        uint8_t type = tn__cpu_type_of(f->ins[l->first_carry + i].dtype);
        uint32_t slot = tn__cpu_value_slot(c, f, l->first_carry + i);
        tn__cpu_run_add(c, slot, c->routines->op[TN_K_SELECT][type], l->mask,
                        next[i], slot, 0);
    }
    uint32_t end = c->body.count;
    cpu_op *op = tn__cpu_op_add(c, &c->body, CPU_END);
    op->out = l->index;
    op->a = l->bound;
    op->b = l->mask;
    op->index = --c->depth;
    op->jump = end - l->operation;
    if (c->status < 0)
        return;
    c->body.op[l->operation].jump = end - l->operation;
    for (uint32_t i = l->operation; i < end; i++)
        if (c->body.op[i].code == CPU_WHILE &&
            c->body.op[i].index == op->index)
            c->body.op[i].jump = end - i;
}
