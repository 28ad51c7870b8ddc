/* x86.c: encodes instructions. Vector instructions have EVEX or VEX prefixes,
 * mask instructions VEX prefixes, and the few integer instructions REX
 * prefixes. */
#include "x86.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void tn__x86_byte(x86 *x, unsigned byte)
{
    if (x->failed)
        return;
    if (x->count == x->room) {
        size_t room = x->room ? 2 * x->room : 1024;
        uint8_t *grown = realloc(x->at, room);
        if (!grown) {
            x->failed = true;
            return;
        }
        x->at = grown;
        x->room = room;
    }
    x->at[x->count++] = (uint8_t)byte;
}

void tn__x86_word(x86 *x, uint32_t word)
{
    for (int i = 0; i < 4; i++)
        tn__x86_byte(x, word >> 8 * i & 255);
}

/* Emits the bytes of a memory operand: ModRM, SIB and displacement. The
 * displacement is one byte if it is a multiple of `unit` bytes between -128 and
 * 127 units. Otherwise it is four bytes. */
static void address(x86 *x, unsigned reg, const x86_memory *m, unsigned unit)
{
    static const uint8_t log[] = {0, 0, 1, 0, 2, 0, 0, 0, 3};
    bool has_index = m->index != X86_NO_INDEX;
    bool sib = has_index || (m->base & 7) == RSP;
    int32_t units = m->disp / (int32_t)unit;
    bool is_short =
        units * (int32_t)unit == m->disp && units >= -128 && units < 128;
    unsigned mod = m->disp == 0 && (m->base & 7) != RBP ? 0 : is_short ? 1 : 2;
    tn__x86_byte(x, mod << 6 | (reg & 7) << 3 | (sib ? 4 : m->base & 7u));
    if (sib)
        tn__x86_byte(x, (unsigned)log[m->scale] << 6 |
                            (has_index ? m->index & 7u : 4u) << 3 |
                            (m->base & 7u));
    if (mod == 1)
        tn__x86_byte(x, (unsigned)units & 255);
    else if (mod == 2)
        tn__x86_word(x, (uint32_t)m->disp);
}

/* Returns bit W of a VEX prefix. Most instructions ignore it, but valgrind stops at
 * some of them if it is set. */
static unsigned vex_wide(x86_op op)
{
    const bool counts =
        op.map == 1   ? op.opcode == 0x6e || op.opcode == 0x7e /* VMOVQ */
        : op.map == 2 ? op.opcode >= 0x45 /* shifts by vectors, FMA, gathers */
                      : op.opcode <= 0x01 /* VPERMQ, VPERMPD */;
    return op.wide && counts;
}

void tn__x86_vector(x86 *x, x86_op op, x86_form form, unsigned first,
                    unsigned second, const x86_source *source, int imm)
{
    const x86_memory *m = &source->memory;
    unsigned b = source->reg >> 3 & 1, high = source->reg >> 4 & 1;
    if (source->is_memory) {
        b = m->base >> 3 & 1;
        high = m->index != X86_NO_INDEX ? m->index >> 3 & 1 : 0;
    }
    bool broadcast = source->is_memory && source->is_broadcast;
    tn__x86_byte(x, x->vex ? 0xc4 : 0x62);
    const unsigned wide = x->vex ? vex_wide(op) : op.wide;
    unsigned last = wide << 7 | (~second & 15) << 3 | op.prefix;
    if (x->vex) {
        assert(!form.mask && !broadcast && first < 16 && second < 16);
        if (!source->is_memory)
            high = 0;
        tn__x86_byte(x, (~first >> 3 & 1) << 7 | (high ^ 1) << 6 |
                            (b ^ 1) << 5 | op.map);
        tn__x86_byte(x, last | (unsigned)form.length << 2);
        form.unit = 1;
    } else {
        tn__x86_byte(x, (~first >> 3 & 1) << 7 | (high ^ 1) << 6 |
                            (b ^ 1) << 5 | (~first >> 4 & 1) << 4 | op.map);
        tn__x86_byte(x, last | 4);
        tn__x86_byte(x, (unsigned)form.zero << 7 | (unsigned)form.length << 5 |
                            (unsigned)broadcast << 4 | (~second >> 4 & 1) << 3 |
                            form.mask);
    }
    tn__x86_byte(x, op.opcode);
    if (source->is_memory)
        address(x, first, m, broadcast ? (op.wide ? 8 : 4) : form.unit);
    else
        tn__x86_byte(x, 0xc0 | (first & 7) << 3 | (source->reg & 7u));
    if (imm != X86_NO_IMM)
        tn__x86_byte(x, (unsigned)imm & 255);
}

/* Emits the two-byte VEX prefix for opcode map 0F without a mandatory
 * prefix. */
static void vex(x86 *x, unsigned second, unsigned length)
{
    tn__x86_byte(x, 0xc5);
    tn__x86_byte(x, 0x80 | (~second & 15) << 3 | length << 2);
}

void tn__x86_mask(x86 *x, unsigned opcode, unsigned first, unsigned second,
                  unsigned third)
{
    enum { KNOT = 0x44 };
    vex(x, opcode == KNOT ? 0 : second, opcode != KNOT);
    tn__x86_byte(x, opcode);
    tn__x86_byte(x, 0xc0 | first << 3 | third);
}

void tn__x86_mask_load(x86 *x, unsigned mask, const x86_memory *from)
{
    vex(x, 0, 0);
    tn__x86_byte(x, 0x90);
    address(x, mask, from, 1);
}

void tn__x86_mask_store(x86 *x, unsigned mask, const x86_memory *to)
{
    vex(x, 0, 0);
    tn__x86_byte(x, 0x91);
    address(x, mask, to, 1);
}

void tn__x86_mask_of(x86 *x, unsigned mask, unsigned from)
{
    vex(x, 0, 0);
    tn__x86_byte(x, 0x92);
    tn__x86_byte(x, 0xc0 | mask << 3 | from);
}

void tn__x86_mask_test(x86 *x, unsigned mask)
{
    vex(x, 0, 0);
    tn__x86_byte(x, 0x98); /* KORTESTW */
    tn__x86_byte(x, 0xc0 | mask << 3 | mask);
}

void tn__x86_prefetch(x86 *x, x86_fetch fetch, const x86_memory *m)
{
    bool to_write = fetch == X86_TO_WRITE;
    tn__x86_byte(x, 0x40 | (m->index >> 3 & 1u) << 1 | (m->base >> 3 & 1u));
    tn__x86_byte(x, 0x0f);
    tn__x86_byte(x, to_write ? 0x0d : 0x18);
    address(x, fetch == X86_SECOND ? 2 : 1, m, 1);
}

void tn__x86_memory(x86 *x, unsigned opcode, unsigned reg, const x86_memory *m)
{
    unsigned index = m->index != X86_NO_INDEX ? m->index : 0;
    tn__x86_byte(x, 0x48 | (reg >> 3) << 2 | (index >> 3) << 1 |
                        (m->base >> 3 & 1u));
    tn__x86_byte(x, opcode);
    address(x, reg, m, 1);
}

void tn__x86_add(x86 *x, unsigned to, int32_t number)
{
    tn__x86_byte(x, 0x48 | to >> 3);
    tn__x86_byte(x, 0x81);
    tn__x86_byte(x, 0xc0 | (to & 7));
    tn__x86_word(x, (uint32_t)number);
}

void tn__x86_alu(x86 *x, unsigned opcode, unsigned to, unsigned from)
{
    tn__x86_byte(x, 0x48 | (from >> 3) << 2 | to >> 3);
    tn__x86_byte(x, opcode);
    tn__x86_byte(x, 0xc0 | (from & 7) << 3 | (to & 7));
}

void tn__x86_push(x86 *x, unsigned reg)
{
    tn__x86_byte(x, 0x40 | reg >> 3);
    tn__x86_byte(x, 0x50 | (reg & 7));
}

void tn__x86_pop(x86 *x, unsigned reg)
{
    tn__x86_byte(x, 0x40 | reg >> 3);
    tn__x86_byte(x, 0x58 | (reg & 7));
}

size_t tn__x86_jump(x86 *x, unsigned opcode)
{
    if (opcode != 0xe9)
        tn__x86_byte(x, 0x0f);
    tn__x86_byte(x, opcode);
    tn__x86_word(x, 0);
    return x->count;
}

void tn__x86_jump_here(x86 *x, size_t jump)
{
    uint32_t distance = (uint32_t)(x->count - jump);
    if (!x->failed)
        memcpy(x->at + jump - 4, &distance, sizeof distance);
}

void tn__x86_jump_back(x86 *x, unsigned opcode, size_t to)
{
    size_t end = tn__x86_jump(x, opcode);
    uint32_t distance = (uint32_t)(to - end);
    if (!x->failed)
        memcpy(x->at + end - 4, &distance, sizeof distance);
}
