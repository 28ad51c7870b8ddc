/* native_nodes.c: generates the x86 instructions of each node of a body. */
#include "native_code.h"

/* ---- nodes --------------------------------------------------------------- */

/* Binary operations. real is the opcode for floats, whole the opcode for 4-byte
 * integers, whole_wide the opcode for 8-byte integers. An opcode of 0 means
 * that there is no such instruction. map is the opcode map of the integer
 * instructions. turned is set if the operation is commutative. */
static const struct binary {
    uint8_t op, real, map, whole, whole_wide;
    bool turned;
} binaries[] = {
    {TN_K_ADD, 0x58, 1, 0xfe, 0xd4, true},
    {TN_K_SUB, 0x5c, 1, 0xfa, 0xfb, false},
    {TN_K_MUL, 0x59, 2, 0x40, 0x40, true},
    {TN_K_DIV, 0x5e, 0, 0, 0, false},
    {TN_K_MIN, 0, 2, 0x39, 0x39, true},
    {TN_K_MAX, 0, 2, 0x3d, 0x3d, true},
    {TN_K_AND, 0, 1, 0xdb, 0xdb, true},
    {TN_K_OR, 0, 1, 0xeb, 0xeb, true},
    {TN_K_XOR, 0, 1, 0xef, 0xef, true},
    {TN_K_SHL, 0, 2, 0x47, 0x47, false},
    {TN_K_SHR, 0, 2, 0x46, 0x46, false},
    {TN_K_SHRL, 0, 2, 0x45, 0x45, false},
};
enum { BINARIES = sizeof binaries / sizeof *binaries };

static const struct binary *binary_of(unsigned op)
{
    for (int i = 0; i < BINARIES; i++)
        if (binaries[i].op == op)
            return &binaries[i];
    return NULL;
}

/* Returns the immediate of VCMPPS or VPCMPD for a comparison, or -1 for other
 * operations. Floats and integers have the same immediates, except LT and LE:
 * for floats these are the quiet forms, which raise no exception for NaN. */
static int predicate_of(unsigned op, bool real)
{
    switch (op) {
    case TN_K_EQ:
        return 0;
    case TN_K_NE:
        return 4;
    case TN_K_LT:
        return real ? 0x11 : 1;
    case TN_K_LE:
        return real ? 0x12 : 2;
    default:
        return -1;
    }
}

/* Returns the immediate of VRNDSCALE for FLOOR, CEIL, TRUNC or RINT, or -1 for
 * other operations. These immediates also suppress the inexact exception. */
static int rounding_of(unsigned op)
{
    switch (op) {
    case TN_K_FLOOR:
        return 9;
    case TN_K_CEIL:
        return 10;
    case TN_K_TRUNC:
        return 11;
    case TN_K_RINT:
        return 8;
    default:
        return -1;
    }
}

static bool is_real(unsigned type)
{
    return type == CPU_F32 || type == CPU_F64;
}

static bool is_whole(unsigned type)
{
    return type == CPU_I32 || type == CPU_I64;
}

bool tn__cpu_native_supports(unsigned op, unsigned type, unsigned from)
{
    const struct binary *binary = binary_of(op);
    switch (op) {
    case TN_K_SELECT:
    case TN_K_EQ:
    case TN_K_NE:
    case TN_K_LT:
    case TN_K_LE:
    case TN_K_MIN:
    case TN_K_MAX:
        return true;
    case TN_K_NOT:
        return !is_real(type);
    case TN_K_BITCAST:
        return type != CPU_BOOL && from != CPU_BOOL;
    case TN_K_CAST:
        /* Supported casts: from a type to itself, from and to BOOL, between F32
         * and I32, and from I64 to F64. */
        return type == from || type == CPU_BOOL || from == CPU_BOOL ||
               (type == CPU_F32 && from == CPU_I32) ||
               (type == CPU_I32 && from == CPU_F32) ||
               (type == CPU_F64 && from == CPU_I64);
    case TN_K_NEG:
    case TN_K_ABS:
        return type != CPU_BOOL;
    case TN_K_FMA:
    case TN_K_SQRT:
    case TN_K_FLOOR:
    case TN_K_CEIL:
    case TN_K_TRUNC:
    case TN_K_RINT:
        return is_real(type);
    default:
        if (!binary)
            return false;
        return is_real(type) ? binary->real != 0
               : is_whole(type)
                   ? binary->map != 0
                   : op != TN_K_SUB && op != TN_K_SHL && op != TN_K_SHR &&
                         op != TN_K_SHRL && op != TN_K_DIV;
    }
}

static uint64_t sign_bit(const emitter *m)
{
    return m->wide ? UINT64_C(1) << 63 : UINT64_C(1) << 31;
}

/* Returns whether the current node may overwrite the register of its operand a.
 * This requires that no later node reads a, and that a is not also operand b or
 * c. */
static bool ends(const emitter *m, uint32_t a, uint32_t b, uint32_t c)
{
    return a != b && a != c && m->last[a] <= m->at &&
           m->reg[a] != NO_REGISTER && !m->pinned[m->reg[a]];
}

/* Generates a fused multiply-add. The result uses the register of an operand
 * that no later node reads. An operand that has one value for a whole row may
 * be read from memory. */
static void make_fma(emitter *m, const cpu_node *n)
{
    enum { BY_132 = 0x98, BY_213 = 0xa8, BY_231 = 0xb8 };
    uint32_t x = tn__jit_is_single(m, n->a) ? n->b : n->a;
    uint32_t y = x == n->a ? n->b : n->a, z = n->c;
    const uint32_t keep[3] = {x, y, z};
    unsigned rx = tn__jit_need(m, x, keep), to;
    bool z_single = tn__jit_is_single(m, z), y_single = tn__jit_is_single(m, y);
    if (!z_single)
        tn__jit_need(m, z, keep);
    if (!y_single || z_single)
        tn__jit_need(m, y, keep);
    if (ends(m, z, x, y)) {
        to = m->reg[z];
        tn__jit_emit(m, tn__jit_packed(m, 2, BY_231), to, rx,
                     tn__jit_source_of(m, y, keep), X86_NO_IMM);
    } else if (ends(m, x, y, z) && m->reg[y] != NO_REGISTER) {
        to = rx;
        tn__jit_emit(m, tn__jit_packed(m, 2, BY_213), to, m->reg[y],
                     tn__jit_source_of(m, z, keep), X86_NO_IMM);
    } else if (ends(m, y, x, z)) {
        to = m->reg[y];
        tn__jit_emit(m, tn__jit_packed(m, 2, BY_213), to, rx,
                     tn__jit_source_of(m, z, keep), X86_NO_IMM);
    } else if (ends(m, x, y, z)) {
        to = rx;
        tn__jit_emit(m, tn__jit_packed(m, 2, BY_132), to,
                     tn__jit_need(m, z, keep), tn__jit_source_of(m, y, keep),
                     X86_NO_IMM);
    } else {
        bool is_number = z_single && m->reg[z] == NO_REGISTER;
        unsigned rz = is_number ? 0 : tn__jit_need(m, z, keep);
        x86_source factor = tn__jit_source_of(m, y, keep);
        to = tn__jit_take(m, m->at, keep);
        if (is_number)
            tn__jit_broadcast(m, to, tn__jit_single_of(m, z));
        else
            tn__jit_move(m, to, rz);
        tn__jit_emit(m, tn__jit_packed(m, 2, BY_231), to, rx, factor,
                     X86_NO_IMM);
        for (int i = 0; i < 3; i++)
            tn__jit_release(m, keep[i]);
        return;
    }
    for (int i = 0; i < 3; i++)
        tn__jit_release(m, keep[i]);
    m->holder[to] = m->at;
    m->reg[m->at] = (uint8_t)to;
}

static void make_cast(emitter *m, const cpu_node *n, const uint32_t keep[3])
{
    unsigned from = tn__jit_need(m, n->a, keep);
    unsigned to = tn__jit_take(m, m->at, keep);
    x86_source zero = tn__jit_constant(m, 0);
    if (n->type == n->from && n->type == CPU_BOOL) {
        tn__jit_logic(m, KOR, to, from, from);
    } else if (n->type == n->from) {
        tn__jit_move(m, to, from);
    } else if (n->type == CPU_BOOL && is_real(n->from)) {
        tn__jit_compare(m, to, from, zero, predicate_of(TN_K_NE, true));
    } else if (n->type == CPU_BOOL) {
        tn__jit_compare_whole(m, to, from, zero, predicate_of(TN_K_NE, false));
    } else if (n->from == CPU_BOOL) {
        uint64_t one = n->type == CPU_F32   ? 0x3f800000
                       : n->type == CPU_F64 ? UINT64_C(0x3ff0) << 48
                                            : 1;
        tn__jit_pick(m, to, from, one);
    } else if (n->type == CPU_F32) {
        tn__jit_emit(m, (x86_op){1, 0, 0x5b, false}, to, 0, tn__jit_in(from),
                     X86_NO_IMM);
    } else if (n->type == CPU_F64 &&
               tn__jit_make_wide(m, n->op, to, from, tn__jit_in(from))) {
        return;
    } else if (n->type == CPU_F64) {
        tn__jit_emit(m, (x86_op){1, 2, 0xe6, true}, to, 0, tn__jit_in(from),
                     X86_NO_IMM);
    } else {
        /* F32 to I32. The instruction returns INT32_MIN for NaN and for values
         * out of range. The code after it replaces this by INT32_MAX for values
         * above the range, and by 0 for NaN. */
        tn__jit_emit(m, (x86_op){1, 2, 0x5b, false}, to, 0, tn__jit_in(from),
                     X86_NO_IMM);
        unsigned mask = m->target->scratch_mask;
        tn__jit_compare(m, mask, from, tn__jit_constant(m, 0x4f000000), 0x1d);
        tn__jit_blend(m, to, to, tn__jit_constant(m, INT32_MAX), mask);
        tn__jit_compare(m, mask, from, tn__jit_in(from), UNORDERED);
        tn__jit_clear(m, to, mask);
    }
}

/* Generates an instruction with one operand. */
static void make_unary(emitter *m, const cpu_node *n)
{
    const uint32_t keep[3] = {n->a, TN_NONE, TN_NONE};
    unsigned from = tn__jit_need(m, n->a, keep), to;
    bool real = is_real(n->type);
    if (n->op == TN_K_BITCAST && is_real(n->from) &&
        n->sub != TN_BITCAST_ANY_NAN) {
        to = tn__jit_take(m, m->at, keep);
        x86_source nan =
            tn__jit_constant(m, m->wide ? UINT64_C(0x7ff8) << 48 : 0x7fc00000);
        unsigned mask = m->target->scratch_mask;
        tn__jit_compare(m, mask, from, tn__jit_in(from), UNORDERED);
        tn__jit_blend(m, to, from, nan, mask);
        tn__jit_release(m, n->a);
        return;
    }
    tn__jit_release(m, n->a);
    to = tn__jit_take(m, m->at, keep); /* may be the same register as the
                                        * operand */
    if (n->op == TN_K_BITCAST)
        tn__jit_move(m, to, from);
    else if (n->op == TN_K_NEG && real)
        tn__jit_emit(m, tn__jit_packed(m, 1, 0xef), to, from,
                     tn__jit_constant(m, sign_bit(m)), X86_NO_IMM);
    else if (n->op == TN_K_ABS && real)
        tn__jit_emit(m, tn__jit_packed(m, 1, 0xdb), to, from,
                     tn__jit_constant(m, sign_bit(m) - 1), X86_NO_IMM);
    else if (n->op == TN_K_NEG) { /* -x = ~x + 1 = (x ^ -1) - (-1) */
        x86_source ones =
            tn__jit_constant(m, m->wide ? UINT64_MAX : UINT32_MAX);
        tn__jit_emit(m, tn__jit_packed(m, 1, 0xef), to, from, ones, X86_NO_IMM);
        tn__jit_emit(m, tn__jit_packed(m, 1, m->wide ? 0xfb : 0xfa), to, to,
                     ones, X86_NO_IMM);
    } else if (n->op == TN_K_ABS &&
               tn__jit_make_wide(m, n->op, to, from, tn__jit_in(from)))
        return;
    else if (n->op == TN_K_ABS)
        tn__jit_emit(m, tn__jit_packed(m, 2, m->wide ? 0x1f : 0x1e), to, 0,
                     tn__jit_in(from), X86_NO_IMM);
    else if (n->op == TN_K_NOT)
        tn__jit_emit(m, tn__jit_packed(m, 1, 0xef), to, from,
                     tn__jit_constant(m, m->wide ? UINT64_MAX : UINT32_MAX),
                     X86_NO_IMM);
    else if (n->op == TN_K_SQRT)
        tn__jit_emit(m, tn__jit_floats(m, 0x51), to, 0, tn__jit_in(from),
                     X86_NO_IMM);
    else
        tn__jit_emit(m, tn__jit_packed(m, 3, m->wide ? 0x09 : 0x08), to, 0,
                     tn__jit_in(from), rounding_of(n->op));
}

/* Generates an operation on BOOL operands, which are masks. */
static void make_logic(emitter *m, const cpu_node *n)
{
    const uint32_t keep[3] = {n->a, n->b, n->c};
    unsigned a = tn__jit_need(m, n->a, keep);
    unsigned b = n->b == TN_NONE ? a : tn__jit_need(m, n->b, keep);
    unsigned c = n->op == TN_K_SELECT ? tn__jit_need(m, n->c, keep) : b;
    unsigned to;
    if (n->op == TN_K_SELECT) {
        tn__jit_logic(m, KANDN, m->target->scratch_mask, a, c);
        to = tn__jit_take(m, m->at, keep);
        tn__jit_logic(m, KAND, to, a, b);
        tn__jit_logic(m, KOR, to, to, m->target->scratch_mask);
        for (int i = 0; i < 3; i++)
            tn__jit_release(m, keep[i]);
        return;
    }
    to = tn__jit_take(m, m->at, keep);
    switch (n->op) {
    case TN_K_NOT:
        tn__jit_logic(m, KNOT, to, 0, a);
        break;
    case TN_K_AND:
    case TN_K_MUL:
    case TN_K_MIN:
        tn__jit_logic(m, KAND, to, a, b);
        break;
    case TN_K_XOR:
    case TN_K_NE:
        tn__jit_logic(m, KXOR, to, a, b);
        break;
    case TN_K_EQ:
        tn__jit_logic(m, KXNOR, to, a, b);
        break;
    case TN_K_LT:
        tn__jit_logic(m, KANDN, to, a, b);
        break;
    case TN_K_LE: /* a <= b as not (b < a) */
        tn__jit_logic(m, KANDN, to, b, a);
        tn__jit_logic(m, KNOT, to, 0, to);
        break;
    default:
        tn__jit_logic(m, KOR, to, a, b);
    }
    tn__jit_release(m, n->a);
    tn__jit_release(m, n->b);
}

static void make_binary(emitter *m, const cpu_node *n)
{
    const struct binary *how = binary_of(n->op);
    bool real = is_real(n->type);
    unsigned opcode = how->real;
    if (real && n->sub == CPU_SECOND)
        opcode = n->op == TN_K_MAX ? 0x5f : 0x5d;
    uint32_t a = n->a, b = n->b;
    bool turned = how->turned && n->sub != CPU_SECOND;
    if (turned && tn__jit_is_single(m, a) && !tn__jit_is_single(m, b)) {
        a = n->b;
        b = n->a;
    }
    const uint32_t keep[3] = {a, b, TN_NONE};
    unsigned first = tn__jit_need(m, a, keep);
    x86_source second = tn__jit_source_of(m, b, keep);
    if (real && opcode == 0) {
        tn__jit_minmax(m, tn__jit_take(m, m->at, keep), first, second,
                       n->op == TN_K_MAX);
        tn__jit_release(m, a);
        tn__jit_release(m, b);
        return;
    }
    tn__jit_release(m, a);
    tn__jit_release(m, b);
    unsigned to = tn__jit_take(m, m->at, keep);
    if (!real && tn__jit_make_wide(m, n->op, to, first, second))
        return;
    tn__jit_emit(m,
                 real ? tn__jit_floats(m, opcode)
                      : tn__jit_packed(m, how->map,
                                       m->wide ? how->whole_wide : how->whole),
                 to, first, second, X86_NO_IMM);
}

void tn__jit_make_node(emitter *m)
{
    const cpu_node *n = tn__jit_node_of(m, m->at);
    const uint32_t keep[3] = {n->a, n->b, n->c};
    if (n->op == TN_K_CALL) {
        unsigned from = tn__jit_need(m, n->a, keep);
        tn__jit_make_exp(m, tn__jit_take(m, m->at, keep), from);
        tn__jit_release(m, n->a);
    } else if (n->op == TN_K_FMA) {
        make_fma(m, n);
    } else if (n->op == TN_K_CAST) {
        make_cast(m, n, keep);
        tn__jit_release(m, n->a);
    } else if (n->type == CPU_BOOL &&
               (n->from == CPU_BOOL || n->op == TN_K_SELECT)) {
        make_logic(m, n);
    } else if (n->op == TN_K_SELECT) { /* VBLENDM */
        unsigned mask = tn__jit_need(m, n->a, keep);
        unsigned otherwise = tn__jit_need(m, n->c, keep);
        x86_source chosen = tn__jit_source_of(m, n->b, keep);
        for (int i = 0; i < 3; i++)
            tn__jit_release(m, keep[i]);
        tn__jit_blend(m, tn__jit_take(m, m->at, keep), otherwise, chosen, mask);
    } else if (n->type == CPU_BOOL) {
        unsigned a = tn__jit_need(m, n->a, keep);
        x86_source b = tn__jit_source_of(m, n->b, keep);
        unsigned to = tn__jit_take(m, m->at, keep);
        if (is_real(n->from))
            tn__jit_compare(m, to, a, b, predicate_of(n->op, true));
        else
            tn__jit_compare_whole(m, to, a, b, predicate_of(n->op, false));
        tn__jit_release(m, n->a);
        tn__jit_release(m, n->b);
    } else if (n->b == TN_NONE) {
        make_unary(m, n);
    } else {
        make_binary(m, n);
    }
}
