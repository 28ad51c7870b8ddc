/* native_exp.c: generates code for exp of float32. The code computes exp(x) as
 * 2^n * exp(r). If all results of a vector are normal numbers, as is usual, it
 * multiplies by 2^n by adding n to the exponent, which takes half the
 * instructions. Otherwise it jumps to slower code after the loop, and back. The
 * results are bit-identical to those of the routine for exp (math_table.c). */
#include <stdlib.h>

#include "native_code.h"

/* Constants as the bits of floats, except FRACTION_BITS, which is an
 * integer. */
enum {
    LOG2_E = 0x3fb8aa3b,
    /* 1.5 * 2^23: adding this number to a float rounds it to an integer. */
    ROUNDER = 0x4b400000,
    MINUS_LN_2 = (int)0xbf317218,
    LN_2_REST = 0x3102e308,
    HALF = 0x3f000000,
    ONE = 0x3f800000,
    WIDEST = 0x42ae0000,      /* 87: the fast code needs |x| <= 87 */
    LOWEST = (int)0xc2d00000, /* -104: exp(x) is 0 for smaller x */
    HIGHEST = 0x42b20000,     /* 89: exp(x) is infinite for larger x */
    FRACTION_BITS = 23
};
enum {
    ADDS = 0x58,
    MULS = 0x59,
    SUBS = 0x5c,
    ANDS = 0xdb,
    SUBD = 0xfa,
    ADDD = 0xfe,
    BY_132 = 0x98,
    BY_213 = 0xa8,
    BY_231 = 0xb8
};
/* Scratch registers. With VEX, RESULT is also the scratch mask. The code below
 * uses the mask only while RESULT holds no value. */
enum { SCALE = SCRATCH, OTHER, RESULT };

/* The constants of the fast code. They are in registers if enough are free. */
static const uint32_t usual[EXP_NUMBERS] = {
    INT32_MAX,  WIDEST,     ROUNDER,    LOG2_E,       (uint32_t)MINUS_LN_2,
    LN_2_REST,  0x394f0614, 0x3ab6a1b9, 0x3c088983,   0x3d2aaa78,
    0x3e2aaaaa, HALF,       ONE,        FRACTION_BITS};
/* usual[FIRST] to usual[LAST] are coefficients of the polynomial for exp, the
 * highest power first. The last two coefficients are 1. */
enum { FIRST = 6, LAST = 11 };

uint32_t tn__jit_exp_number(int i)
{
    return usual[i];
}

static x86_source number(emitter *m, uint32_t bits)
{
    for (int i = 0; i < EXP_NUMBERS; i++)
        if (usual[i] == bits && m->exp_pin[i] != NO_REGISTER)
            return tn__jit_in(m->exp_pin[i]);
    return tn__jit_constant(m, bits);
}

static void load(emitter *m, unsigned to, uint32_t bits)
{
    x86_source from = number(m, bits);
    if (from.is_memory)
        tn__jit_broadcast(m, to, from);
    else
        tn__jit_move(m, to, from.reg);
}

static void floats(emitter *m, unsigned opcode, unsigned to, unsigned a,
                   x86_source b)
{
    tn__jit_emit(m, tn__jit_floats(m, opcode), to, a, b, X86_NO_IMM);
}

static void multiply_add(emitter *m, unsigned opcode, unsigned to, unsigned a,
                         x86_source b)
{
    tn__jit_emit(m, tn__jit_packed(m, 2, opcode), to, a, b, X86_NO_IMM);
}

static void whole(emitter *m, unsigned opcode, unsigned to, unsigned a,
                  x86_source b)
{
    tn__jit_emit(m, tn__jit_packed(m, 1, opcode), to, a, b, X86_NO_IMM);
}

static void shift(emitter *m, unsigned opcode, unsigned to, unsigned a,
                  uint32_t by)
{
    tn__jit_emit(m, tn__jit_packed(m, 2, opcode), to, a, number(m, by),
                 X86_NO_IMM);
}

/* Generates exp(r), where x = n ln 2 + r and n is an integer. Before, register
 * `to` holds x. After, `to` holds r, RESULT holds exp(r), and the low bits of
 * SCALE are n (SCALE is ROUNDER + n as a float). */
static void make_polynomial(emitter *m, unsigned to)
{
    x86_source rest = tn__jit_in(to);
    load(m, OTHER, ROUNDER);
    tn__jit_move(m, SCALE, to);
    multiply_add(m, BY_132, SCALE, OTHER, number(m, LOG2_E));
    floats(m, SUBS, OTHER, SCALE, tn__jit_in(OTHER));
    multiply_add(m, BY_231, to, OTHER, number(m, (uint32_t)MINUS_LN_2));
    multiply_add(m, BY_231, to, OTHER, number(m, LN_2_REST));
    load(m, OTHER, usual[FIRST]);
    for (int i = FIRST + 1; i <= LAST; i++)
        multiply_add(m, BY_213, OTHER, to, number(m, usual[i]));
    floats(m, MULS, RESULT, to, rest);
    multiply_add(m, BY_213, RESULT, OTHER, rest);
    floats(m, ADDS, RESULT, RESULT, number(m, ONE));
}

static void add_rare(emitter *m, size_t there, unsigned to, unsigned from)
{
    if (m->rare_count == m->rare_room) {
        uint32_t room = m->rare_room ? 2 * m->rare_room : 16;
        rare_exp *grown = realloc(m->rare, room * sizeof *grown);
        if (!grown) {
            m->x.failed = true;
            return;
        }
        m->rare = grown;
        m->rare_room = room;
    }
    m->rare[m->rare_count++] =
        (rare_exp){there, m->x.count, (uint8_t)to, (uint8_t)from};
}

void tn__jit_make_exp(emitter *m, unsigned to, unsigned from)
{
    enum { NOT_LESS_EQUAL = 6, LEFT = 0x47 };
    unsigned mask = m->target->scratch_mask;
    whole(m, ANDS, SCALE, from, number(m, INT32_MAX));
    tn__jit_compare(m, mask, SCALE, number(m, WIDEST), NOT_LESS_EQUAL);
    size_t there = tn__jit_jump_if_any(m, mask);
    tn__jit_move(m, to, from);
    make_polynomial(m, to);
    shift(m, LEFT, SCALE, SCALE, FRACTION_BITS);
    whole(m, ADDD, to, RESULT, tn__jit_in(SCALE));
    add_rare(m, there, to, from);
}

/* Generates exp of any x as exp(r) times 2^n. 2^n may be outside the range of
 * normal numbers, so exp(r) is multiplied by two factors whose product is
 * 2^n. */
static void make_any(emitter *m, unsigned to, unsigned from)
{
    enum { LESS = 0x11, GREATER = 0x1e, LEFT = 0x47, RIGHT = 0x45 };
    unsigned mask = m->target->scratch_mask;
    tn__jit_move(m, to, from);
    tn__jit_compare(m, mask, from, number(m, (uint32_t)LOWEST), LESS);
    tn__jit_clear(m, to, mask);
    tn__jit_compare(m, mask, from, number(m, HIGHEST), GREATER);
    tn__jit_blend(m, to, to, number(m, HIGHEST), mask);
    make_polynomial(m, to);
    whole(m, SUBD, SCALE, SCALE, number(m, ROUNDER - 2 * 127));
    shift(m, RIGHT, OTHER, SCALE, 1);
    whole(m, SUBD, SCALE, SCALE, tn__jit_in(OTHER));
    shift(m, LEFT, OTHER, OTHER, FRACTION_BITS);
    shift(m, LEFT, SCALE, SCALE, FRACTION_BITS);
    floats(m, MULS, to, RESULT, tn__jit_in(OTHER));
    floats(m, MULS, to, to, tn__jit_in(SCALE));
    tn__jit_compare(m, mask, from, number(m, (uint32_t)LOWEST), LESS);
    tn__jit_clear(m, to, mask);
}

void tn__jit_make_rare(emitter *m)
{
    enum { JMP = 0xe9 };
    for (uint32_t i = 0; i < m->rare_count; i++) {
        tn__x86_jump_here(&m->x, m->rare[i].there);
        make_any(m, m->rare[i].to, m->rare[i].from);
        tn__x86_jump_back(&m->x, JMP, m->rare[i].back);
    }
}
