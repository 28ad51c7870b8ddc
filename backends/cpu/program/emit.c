/* emit.c: adds slots and operations to the code that is being compiled. If an
 * operation on a block reads one scalar, or one scalar per row, a broadcast is
 * added where the operation needs a whole block. */
#include <stdlib.h>
#include <string.h>

#include "compile_program.h"

uint8_t tn__cpu_type_of(tn_dtype dtype)
{
    switch (dtype) {
    case TN_F32:
        return CPU_F32;
    case TN_F64:
        return CPU_F64;
    case TN_I32:
        return CPU_I32;
    case TN_I64:
        return CPU_I64;
    default:
        return CPU_BOOL;
    }
}

/* ---- growing lists ------------------------------------------------------- */

bool tn__cpu_grow(compiler *c, void *items_pointer, size_t *room, size_t count,
                 size_t bytes)
{
    if (count < *room)
        return true;
    void *items;
    memcpy(&items, items_pointer, sizeof items);
    size_t wanted = *room ? 2 * *room : 32;
    void *grown = realloc(items, wanted * bytes);
    if (!grown) {
        c->status = tn__cpu_host->fail(TN_ERR_MEMORY,
                                       "program: out of memory while building");
        return false;
    }
    memcpy(items_pointer, &grown, sizeof grown);
    *room = wanted;
    return true;
}

cpu_op *tn__cpu_op_add(compiler *c, op_list *list, unsigned code)
{
    static cpu_op nowhere; /* callers write here if memory has run out */
    if (!tn__cpu_grow(c, &list->op, &list->room, list->count, sizeof *list->op))
        return &nowhere;
    cpu_op *op = &list->op[list->count++];
    *op = (cpu_op){.code = (uint8_t)code, .out = TN_CPU_NONE,
                   .a = TN_CPU_NONE, .b = TN_CPU_NONE, .c = TN_CPU_NONE,
                   .where = TN_CPU_NONE};
    return op;
}

uint32_t tn__cpu_slot_add(compiler *c, unsigned space, unsigned bytes)
{
    cpu_code *code = c->code;
    uint32_t n = code->slot_count;
    if (!tn__cpu_grow(c, &code->slot, &c->slot_room, n, sizeof *code->slot) ||
        !tn__cpu_grow(c, &c->spread, &c->spread_room, n, sizeof *c->spread) ||
        !tn__cpu_grow(c, &c->filled, &c->filled_room, n, sizeof *c->filled) ||
        !tn__cpu_grow(c, &c->producer, &c->producer_room, n,
                      sizeof *c->producer) ||
        !tn__cpu_grow(c, &c->wanted, &c->wanted_room, n, sizeof *c->wanted))
        return 0;
    code->slot_count++;
    cpu_slot *slot = &code->slot[n];
    *slot = (cpu_slot){.space = (uint8_t)space, .bytes = (uint8_t)bytes};
    c->spread[n] = c->filled[n] = TN_CPU_NONE;
    c->producer[n] = 0;
    c->wanted[n] = false;
    if (space == CPU_UNIFORM) {
        slot->offset = code->uniform_bytes;
        code->uniform_bytes += 8;
    } else if (space == CPU_ROW) {
        slot->offset = code->row_bytes;
        code->row_bytes += bytes;
    }
    return n;
}

uint32_t tn__cpu_slot_constant(compiler *c, const tn_kernel_ins *ins)
{
    cpu_code *code = c->code;
    uint8_t type = tn__cpu_type_of(ins->dtype);
    uint32_t slot = tn__cpu_slot_add(c, CPU_CONSTANT, tn__cpu_type_bytes[type]);
    if (!tn__cpu_grow(c, &code->constant, &c->constant_room,
              (size_t)code->constant_bytes + 8, 1) ||
        c->status < 0)
        return slot;
    code->slot[slot].offset = code->constant_bytes;
    tn__cpu_number_store(code->constant + code->constant_bytes, type,
                         (tn_number){.i = ins->imm.i});
    code->constant_bytes += 8;
    return slot;
}

/* ---- operands ------------------------------------------------------------ */

uint32_t tn__cpu_value_slot(const compiler *c, const frame *f, uint32_t value)
{
    if (c->level == CPU_ELEM && f->wide[value] != TN_CPU_NONE)
        return f->wide[value];
    return f->narrow[value];
}

void tn__cpu_value_set(const compiler *c, frame *f, uint32_t value,
                      uint32_t slot)
{
    if (c->level == CPU_ELEM)
        f->wide[value] = slot;
    else
        f->narrow[value] = slot;
}

uint32_t tn__cpu_whole(compiler *c, uint32_t slot, bool by_rows)
{
    if (slot == TN_CPU_NONE || c->status < 0)
        return slot;
    unsigned space = c->code->slot[slot].space;
    unsigned bytes = c->code->slot[slot].bytes;
    if (c->level == CPU_UNIFORM || space == c->level)
        return slot;
    uint32_t *known = c->level == CPU_ELEM ? c->spread : c->filled;
    if (known[slot] != TN_CPU_NONE) {
        c->wanted[known[slot]] |= !by_rows;
        return known[slot];
    }
    uint32_t out = tn__cpu_slot_add(c, c->level, bytes);
    cpu_op *op = tn__cpu_op_add(c, &c->prologue,
                                space == CPU_ROW ? CPU_BROADCAST : CPU_FILL);
    op->out = out;
    op->a = slot;
    op->type = bytes == 1 ? CPU_BOOL : bytes == 4 ? CPU_I32 : CPU_I64;
    op->run = c->routines->fill[op->type];
    if (c->status < 0)
        return out;
    c->wanted[out] = !by_rows;
    known = c->level == CPU_ELEM ? c->spread : c->filled;
    return known[slot] = out;
}

uint32_t tn__cpu_whole_value(compiler *c, const frame *f, uint32_t value)
{
    return value == TN_NONE
               ? TN_CPU_NONE
               : tn__cpu_whole(c, tn__cpu_value_slot(c, f, value), false);
}

void tn__cpu_run_add(compiler *c, uint32_t out, tn_cpu_run *run, uint32_t a,
                    uint32_t b, uint32_t third, unsigned scalar)
{
    cpu_op *op = tn__cpu_op_add(c, &c->body, CPU_RUN);
    op->out = out;
    op->run = run;
    op->a = a;
    op->b = b;
    op->c = third;
    op->scalar = (uint8_t)scalar;
}
