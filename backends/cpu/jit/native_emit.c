/* native_emit.c: generates single instructions: where operands and constants are in
 * memory, and the encoding for the target's vectors. */
#include <stdlib.h>

#include "native_code.h"
#include "../cpu.h"

const uint8_t tn__jit_pointer_register[POINTERS] = {R8,  R9,  R10, RBX, RBP,
                                                    R12, R13, R14, R15};

/* ---- memory -------------------------------------------------------------- */

uint32_t tn__jit_per_copy(const emitter *m)
{
    const cpu_native *n = m->native;
    return n->operand_count + m->results + n->fold_count;
}

x86_memory tn__jit_argument(const emitter *m, uint32_t copy, uint32_t number)
{
    uint32_t which = copy * tn__jit_per_copy(m) + number;
    return (x86_memory){ARGUMENTS, X86_NO_INDEX, 1,
                        (int32_t)(offsetof(cpu_native_call, at) + 8 * which)};
}

unsigned tn__jit_pointer(emitter *m, uint32_t copy, uint32_t number)
{
    uint32_t which = copy * tn__jit_per_copy(m) + number;
    if (which < m->pointers)
        return tn__jit_pointer_register[which];
    x86_memory from = tn__jit_argument(m, copy, number);
    tn__x86_memory(&m->x, LOAD, SCRATCH_POINTER, &from);
    return SCRATCH_POINTER;
}

bool tn__jit_is_stored(const emitter *m, uint32_t number)
{
    return number < m->native->operand_count &&
           (m->options->stored >> number & 1);
}

static int32_t lane_bytes(const emitter *m, uint32_t number, unsigned type)
{
    if (tn__jit_is_stored(m, number))
        return (int32_t)tn__cpu_dtype_bytes[m->native->stored[number]];
    return type == CPU_BOOL ? 1 : m->wide ? 8 : 4;
}

x86_source tn__jit_block(emitter *m, uint32_t number, unsigned type)
{
    int32_t bytes = lane_bytes(m, number, type);
    return (x86_source){.is_memory = true,
                        .memory = {(uint8_t)tn__jit_pointer(m, m->copy, number),
                                   INDEX, (uint8_t)bytes, m->disp * bytes}};
}

x86_source tn__jit_constant(emitter *m, uint64_t bits)
{
    uint32_t i = 0;
    while (i < m->pool_count && m->pool[i] != bits)
        i++;
    if (i == m->pool_count) {
        if (i == m->pool_room) {
            uint64_t *grown = realloc(m->pool, 2 * i * sizeof *grown);
            if (!grown) {
                m->x.failed = true;
                i = 0;
            } else {
                m->pool = grown;
                m->pool_room = 2 * i;
            }
        }
        if (!m->x.failed)
            m->pool[m->pool_count++] = bits;
    }
    uint32_t entry = m->target->entry ? m->target->entry : m->wide ? 8 : 4;
    return (x86_source){.is_memory = true,
                        .is_broadcast = !m->target->vex,
                        .memory = {POOL, X86_NO_INDEX, 1,
                                   (int32_t)(m->target->pool + i * entry)}};
}

x86_source tn__jit_in(unsigned reg)
{
    return (x86_source){.reg = (uint8_t)reg};
}

/* ---- instructions -------------------------------------------------------- */

x86_op tn__jit_floats(const emitter *m, unsigned opcode)
{
    return (x86_op){1, m->wide, (uint8_t)opcode, m->wide};
}

x86_op tn__jit_packed(const emitter *m, unsigned map, unsigned opcode)
{
    return (x86_op){(uint8_t)map, 1, (uint8_t)opcode, m->wide};
}

void tn__jit_emit(emitter *m, x86_op op, unsigned to, unsigned second,
                  x86_source source, int imm)
{
    tn__jit_emit_masked(m, op, 0, false, to, second, source, imm);
}

void tn__jit_emit_masked(emitter *m, x86_op op, unsigned mask, bool zero,
                         unsigned to, unsigned second, x86_source source,
                         int imm)
{
    x86_form form = {(uint8_t)mask, m->target->length, zero, m->target->bytes};
    tn__x86_vector(&m->x, op, form, to, second, &source, imm);
}

void tn__jit_move(emitter *m, unsigned to, unsigned from)
{
    if (to != from)
        tn__jit_emit(m, (x86_op){1, 0, 0x28, false}, to, 0, tn__jit_in(from),
                     X86_NO_IMM);
}

void tn__jit_broadcast(emitter *m, unsigned to, x86_source source)
{
    source.is_broadcast = false; /* VBROADCASTSS reads one element by itself, so
                                  * it needs no EVEX broadcast */
    x86_form form = {0, m->target->length, false, (uint8_t)(m->wide ? 8 : 4)};
    x86_op op = {2, 1, m->wide ? 0x19 : 0x18, m->wide && !m->target->vex};
    tn__x86_vector(&m->x, op, form, to, 0, &source, X86_NO_IMM);
}
