/* native_target.c: what AVX-512 and AVX2 do differently. AVX-512 has mask
 * registers, 32 vector registers and operands that are broadcast from memory.
 * With AVX2, a mask is a vector whose lanes have all bits 0 or all bits 1,
 * constants are stored as whole vectors, and a few operations on 8-byte
 * integers take several instructions. */
#include "native_code.h"

static const jit_target avx512 = {.length = X86_512,
                                  .bytes = 64,
                                  .registers = 32,
                                  .scratch_mask = 6,
                                  .pins = 18,
                                  .pool = 16};
static const jit_target avx2 = {.vex = true,
                                .length = X86_256,
                                .bytes = 32,
                                .registers = 16,
                                .scratch_mask = SCRATCH + 2,
                                .pins = 8,
                                .buffer = 32,
                                .ones = 128,
                                .pool = 160,
                                .entry = 32};

const jit_target *tn__jit_target_of(unsigned set)
{
    return set == CPU_NATIVE_AVX2 ? &avx2 : &avx512;
}

int32_t tn__jit_lanes(const emitter *m)
{
    return m->target->bytes / (m->wide ? 8 : 4);
}

uint32_t tn__jit_halves(const emitter *m)
{
    return STEP / m->target->bytes;
}

uint32_t tn__cpu_native_copies(const cpu_native *native)
{
    /* With AVX2, a fold has two registers for each copy. Of 13 registers, eight
     * are for folds, because an instruction needs up to four others. */
    if (native->set == CPU_NATIVE_AVX2 && native->fold_count > 1)
        return native->fold_count > 2 ? 1 : 2;
    return TN_CPU_NATIVE_COPIES;
}

/* ---- masks --------------------------------------------------------------- */

void tn__jit_compare(emitter *m, unsigned mask, unsigned a, x86_source b,
                     int predicate)
{
    tn__jit_emit(m, tn__jit_floats(m, 0xc2), mask, a, b, predicate);
}

/* Generates to = ~from for vectors. */
static void invert(emitter *m, unsigned to, unsigned from)
{
    uint64_t ones = m->wide ? UINT64_MAX : UINT32_MAX;
    tn__jit_emit(m, tn__jit_packed(m, 1, 0xef), to, from,
                 tn__jit_constant(m, ones), X86_NO_IMM);
}

/* Generates to = a > b for integers. */
static void greater_whole(emitter *m, unsigned to, unsigned a, x86_source b)
{
    tn__jit_emit(m, tn__jit_packed(m, m->wide ? 2 : 1, m->wide ? 0x37 : 0x66),
                 to, a, b, X86_NO_IMM);
}

/* Returns a register with the vector `source`: its own, or `to`. */
static unsigned in_register(emitter *m, unsigned to, x86_source source)
{
    if (!source.is_memory)
        return source.reg;
    tn__jit_emit(m, (x86_op){1, 0, 0x28, false}, to, 0, source, X86_NO_IMM);
    return to;
}

void tn__jit_compare_whole(emitter *m, unsigned mask, unsigned a, x86_source b,
                           int predicate)
{
    enum { EQ, LT, LE, NE = 4 };
    if (!m->target->vex) {
        tn__jit_emit(m, tn__jit_packed(m, 3, 0x1f), mask, a, b, predicate);
        return;
    }
    if (predicate == LT)
        greater_whole(m, mask, in_register(m, SCRATCH, b), tn__jit_in(a));
    else if (predicate == LE)
        greater_whole(m, mask, a, b);
    else
        tn__jit_emit(m,
                     tn__jit_packed(m, m->wide ? 2 : 1, m->wide ? 0x29 : 0x76),
                     mask, a, b, X86_NO_IMM);
    if (predicate == LE || predicate == NE)
        invert(m, mask, mask);
}

void tn__jit_logic(emitter *m, unsigned op, unsigned to, unsigned a, unsigned b)
{
    if (!m->target->vex) {
        tn__x86_mask(&m->x, op, to, a, b);
        return;
    }
    static const uint8_t vector[] = {[KAND - KAND] = 0xdb,
                                     [KANDN - KAND] = 0xdf,
                                     [KOR - KAND] = 0xeb,
                                     [KXNOR - KAND] = 0xef,
                                     [KXOR - KAND] = 0xef};
    if (op == KNOT)
        invert(m, to, b);
    else
        tn__jit_emit(m, tn__jit_packed(m, 1, vector[op - KAND]), to, a,
                     tn__jit_in(b), X86_NO_IMM);
    if (op == KXNOR)
        invert(m, to, to);
}

size_t tn__jit_jump_if_any(emitter *m, unsigned mask)
{
    enum { JNE = 0x85 };
    if (m->target->vex) /* VPTEST */
        tn__jit_emit(m, (x86_op){2, 1, 0x17, false}, mask, 0, tn__jit_in(mask),
                     X86_NO_IMM);
    else
        tn__x86_mask_test(&m->x, mask);
    return tn__x86_jump(&m->x, JNE);
}

void tn__jit_blend(emitter *m, unsigned to, unsigned otherwise,
                   x86_source chosen, unsigned mask)
{
    if (m->target->vex) /* VBLENDVPS */
        tn__jit_emit(m, (x86_op){3, 1, 0x4a, false}, to, otherwise, chosen,
                     (int)mask << 4);
    else /* VPBLENDM */
        tn__jit_emit_masked(m, tn__jit_packed(m, 2, 0x65), mask, false, to,
                            otherwise, chosen, X86_NO_IMM);
}

void tn__jit_clear(emitter *m, unsigned to, unsigned mask)
{
    if (m->target->vex)
        tn__jit_logic(m, KANDN, to, mask, to);
    else
        tn__jit_emit_masked(m, tn__jit_packed(m, 1, 0xef), mask, false, to, to,
                            tn__jit_in(to), X86_NO_IMM);
}

void tn__jit_pick(emitter *m, unsigned to, unsigned mask, uint64_t number)
{
    x86_source source = tn__jit_constant(m, number);
    if (m->target->vex) {
        tn__jit_emit(m, tn__jit_packed(m, 1, 0xdb), to, mask, source,
                     X86_NO_IMM);
        return;
    }
    source.is_broadcast = false;
    x86_form form = {(uint8_t)mask, X86_512, true, (uint8_t)(m->wide ? 8 : 4)};
    tn__x86_vector(&m->x, tn__jit_packed(m, 2, m->wide ? 0x19 : 0x18), form, to,
                   0, &source, X86_NO_IMM);
}

/* ---- arithmetic ---------------------------------------------------------- */

void tn__jit_minmax(emitter *m, unsigned to, unsigned a, x86_source b,
                    bool greater)
{
    enum { AND = 0xdb, OR = 0xeb, ADDS = 0x58, MINS = 0x5d, MAXS = 0x5f };
    unsigned mask = m->target->scratch_mask;
    if (!m->target->vex) {
        tn__jit_emit(m, tn__jit_packed(m, 3, 0x50), to, a, b,
                     greater ? 5 : 4); /* VRANGE */
        tn__jit_compare(m, mask, a, b, UNORDERED);
        tn__jit_emit_masked(m, tn__jit_floats(m, ADDS), mask, false, to, a, b,
                            X86_NO_IMM);
        return;
    }
    /* MAXPS returns its second operand if the operands are zeros of different
     * sign, so the bits of max(a, b) and max(b, a) are combined. */
    x86_op op = tn__jit_floats(m, greater ? MAXS : MINS);
    unsigned sum = SCRATCH + 1, rb = in_register(m, sum, b);
    tn__jit_emit(m, op, to, a, tn__jit_in(rb), X86_NO_IMM);
    tn__jit_emit(m, op, mask, rb, tn__jit_in(a), X86_NO_IMM);
    tn__jit_emit(m, tn__jit_packed(m, 1, greater ? AND : OR), to, to,
                 tn__jit_in(mask), X86_NO_IMM);
    tn__jit_compare(m, mask, a, tn__jit_in(rb), UNORDERED);
    tn__jit_emit(m, tn__jit_floats(m, ADDS), sum, a, tn__jit_in(rb),
                 X86_NO_IMM);
    tn__jit_blend(m, to, to, tn__jit_in(sum), mask);
}

enum { T1 = SCRATCH + 1, T2 = SCRATCH + 2 };

static void packed(emitter *m, unsigned map, unsigned opcode, unsigned to,
                   unsigned a, x86_source b)
{
    tn__jit_emit(m, tn__jit_packed(m, map, opcode), to, a, b, X86_NO_IMM);
}

/* Generates T1 = a < 0. */
static void sign_of(emitter *m, unsigned a)
{
    packed(m, 1, 0xef, T1, T1, tn__jit_in(T1));
    greater_whole(m, T1, T1, tn__jit_in(a));
}

/* Generates a conversion of 8-byte integers to floats, rounded once. The upper
 * 16 and the lower 48 bits become the fractions of two numbers, 3 * 2^67 and
 * 2^52, which are then subtracted. Only the last addition rounds. */
static void make_f64_of_i64(emitter *m, unsigned to, unsigned a)
{
    enum { ADDQ = 0xd4, ADDS = 0x58, SUBS = 0x5c };
    const x86_op shift = {2, 1, 0x46, false}; /* VPSRAVD */
    const x86_op pick = {3, 1, 0x0e, false};  /* VPBLENDW */
    const uint64_t sixteen = UINT64_C(16) << 32 | 16;
    tn__jit_emit(m, shift, T1, a, tn__jit_constant(m, sixteen), X86_NO_IMM);
    tn__jit_emit(m, pick, T1, T1, tn__jit_constant(m, 0), 0x33);
    packed(m, 1, ADDQ, T1, T1, tn__jit_constant(m, UINT64_C(0x44380) << 44));
    tn__jit_emit(m, pick, T2, a, tn__jit_constant(m, UINT64_C(0x433) << 52),
                 0x88);
    tn__jit_emit(m, tn__jit_floats(m, SUBS), T1, T1,
                 tn__jit_constant(m, UINT64_C(0x44380010) << 32), X86_NO_IMM);
    tn__jit_emit(m, tn__jit_floats(m, ADDS), to, T1, tn__jit_in(T2),
                 X86_NO_IMM);
}

bool tn__jit_make_wide(emitter *m, unsigned op, unsigned to, unsigned a,
                       x86_source b)
{
    enum { SUBQ = 0xfb, ADDQ = 0xd4, XOR = 0xef, MULUDQ = 0xf4, SWAP = 0xb1 };
    if (!m->wide || !m->target->vex)
        return false;
    const x86_op swap = {1, 1, 0x70, false}; /* VPSHUFD */
    switch (op) {
    case TN_K_MUL: /* the low half of the cross products, times 2^32 */
        tn__jit_emit(m, swap, T1, 0, b, SWAP);
        packed(m, 2, 0x40, T1, T1, tn__jit_in(a)); /* VPMULLD */
        tn__jit_emit(m, swap, T2, 0, tn__jit_in(T1), SWAP);
        tn__jit_emit(m, (x86_op){1, 1, 0xfe, false}, T1, T1, tn__jit_in(T2),
                     X86_NO_IMM);
        packed(m, 2, 0x47, T1, T1, tn__jit_constant(m, 32));
        packed(m, 1, MULUDQ, to, a, b);
        packed(m, 1, ADDQ, to, to, tn__jit_in(T1));
        return true;
    case TN_K_SHR: /* of the complement, if a is negative */
        sign_of(m, a);
        packed(m, 1, XOR, T2, T1, tn__jit_in(a));
        packed(m, 2, 0x45, T2, T2, b);
        packed(m, 1, XOR, to, T2, tn__jit_in(T1));
        return true;
    case TN_K_MIN:
    case TN_K_MAX:
        greater_whole(m, T1, a, b);
        if (op == TN_K_MAX)
            invert(m, T1, T1);
        tn__jit_blend(m, to, a, b, T1);
        return true;
    case TN_K_ABS:
        sign_of(m, a);
        packed(m, 1, XOR, T2, T1, tn__jit_in(a));
        packed(m, 1, SUBQ, to, T2, tn__jit_in(T1));
        return true;
    case TN_K_CAST:
        make_f64_of_i64(m, to, a);
        return true;
    default:
        return false;
    }
}

/* ---- memory -------------------------------------------------------------- */

/* With AVX2, RCX is the address of the tail's masks: as many bytes of 255 as
 * the elements left have, followed by zeros. */
void tn__jit_begin_tail(emitter *m)
{
    enum { SUB = 0x29, XOR = 0x31 };
    if (m->target->vex) {
        x86_memory masks = {POOL, RCX, m->wide ? 8 : 4, m->target->ones / 2};
        tn__x86_alu(&m->x, XOR, RCX, RCX);
        tn__x86_alu(&m->x, SUB, RCX, COUNT);
        tn__x86_memory(&m->x, LEA, RCX, &masks);
        return;
    }
    static const uint8_t bits[] = {
        0xba, 0xff, 0xff, 0xff, 0xff,  /* mov edx, -1 */
        0xc4, 0xe2, 0x48, 0xf5, 0xd2}; /* bzhi edx, edx, esi */
    for (size_t i = 0; i < sizeof bits; i++)
        tn__x86_byte(&m->x, bits[i]);
    tn__x86_mask_of(&m->x, TAIL, RDX);
}

/* Loads the mask of the current vector in the tail (AVX2). */
static void load_tail_mask(emitter *m, unsigned to)
{
    x86_source mask = {
        .is_memory = true,
        .memory = {RCX, X86_NO_INDEX, 1, m->disp * (m->wide ? 8 : 4)}};
    tn__jit_emit(m, (x86_op){1, 0, 0x10, false}, to, 0, mask, X86_NO_IMM);
}

unsigned tn__jit_tail_mask(emitter *m)
{
    if (!m->target->vex)
        return TAIL;
    load_tail_mask(m, SCRATCH + 1);
    return SCRATCH + 1;
}

void tn__jit_load(emitter *m, unsigned to, x86_source from)
{
    if (m->target->vex && m->tail) {
        load_tail_mask(m, to); /* then VMASKMOV */
        tn__jit_emit(m, (x86_op){2, 1, m->wide ? 0x2d : 0x2c, false}, to, to,
                     from, X86_NO_IMM);
    } else {
        tn__jit_emit_masked(m, tn__jit_floats(m, 0x10), m->tail ? TAIL : 0,
                            m->tail, to, 0, from, X86_NO_IMM);
    }
}

void tn__jit_store(emitter *m, unsigned from, x86_source to, bool streamed)
{
    if (m->target->vex && m->tail) {
        load_tail_mask(m, SCRATCH);
        tn__jit_emit(m, (x86_op){2, 1, m->wide ? 0x2f : 0x2e, false}, from,
                     SCRATCH, to, X86_NO_IMM);
    } else {
        unsigned opcode = streamed && !m->tail ? 0x2b : 0x11;
        tn__jit_emit_masked(m, tn__jit_floats(m, opcode), m->tail ? TAIL : 0,
                            false, from, 0, to, X86_NO_IMM);
    }
}

/* The stack buffer as an operand (AVX2). */
static x86_source buffer_of(void)
{
    return (x86_source){.is_memory = true, .memory = {RSP, X86_NO_INDEX, 1, 0}};
}

/* Generates code that copies the current vector's elements of one byte between
 * an operand or result and the buffer on the stack. Used in the tail, where
 * AVX2 has no masked access to bytes. */
static void copy_tail(emitter *m, const x86_memory *memory, bool out)
{
    enum { JBE = 0x86, CMP = 0x39, MOV = 0x89, SAVED = 3 * 8 };
    x86 *x = &m->x;
    int32_t lanes = tn__jit_lanes(m);
    x86_memory buffer = {RSP, X86_NO_INDEX, 1, SAVED};
    tn__x86_push(x, RSI);
    tn__x86_push(x, RDI);
    tn__x86_push(x, RCX);
    x86_memory left = {COUNT, X86_NO_INDEX, 1, -m->disp};
    tn__x86_memory(x, LEA, RCX, &left);
    tn__x86_memory(x, LEA, out ? RDI : RSI, memory);
    tn__x86_memory(x, LEA, out ? RSI : RDI, &buffer);
    tn__x86_memory(x, LEA, RDX, &(x86_memory){RCX, X86_NO_INDEX, 1, -lanes});
    tn__x86_alu(x, 0x85, RDX, RDX);     /* test */
    size_t few = tn__x86_jump(x, 0x8e); /* jle */
    tn__x86_alu(x, 0x29, RCX, RDX);
    tn__x86_jump_here(x, few);
    tn__x86_byte(x, 0xf3); /* rep movsb */
    tn__x86_byte(x, 0xa4);
    tn__x86_pop(x, RCX);
    tn__x86_pop(x, RDI);
    tn__x86_pop(x, RSI);
}

void tn__jit_load_bool(emitter *m, unsigned to, const cpu_node *n)
{
    const jit_target *target = m->target;
    x86_source from = tn__jit_block(m, n->number, CPU_BOOL);
    bool single = m->options->single >> n->number & 1;
    bool masked = m->tail && !target->vex;
    x86_form form = {masked ? TAIL : 0, target->length, masked,
                     (uint8_t)tn__jit_lanes(m)};
    if (single) { /* VPBROADCASTB copies one byte to all 16 */
        from.memory.index = X86_NO_INDEX;
        from.memory.disp = 0;
        x86_form one = {0, X86_128, false, 1};
        tn__x86_vector(&m->x, (x86_op){2, 1, 0x78, false}, one, SCRATCH, 0,
                       &from, X86_NO_IMM);
        from = tn__jit_in(SCRATCH);
        form = (x86_form){0, target->length, false, 1};
    } else if (m->tail && target->vex) {
        copy_tail(m, &from.memory, false);
        from = buffer_of();
    }
    tn__x86_vector(&m->x, (x86_op){2, 1, m->wide ? 0x32 : 0x31, false}, form,
                   SCRATCH, 0, &from, X86_NO_IMM); /* VPMOVZXBD or VPMOVZXBQ */
    if (target->vex)
        greater_whole(m, to, SCRATCH, tn__jit_constant(m, 0));
    else
        tn__jit_emit(m, tn__jit_packed(m, 2, 0x27), to, SCRATCH,
                     tn__jit_in(SCRATCH), X86_NO_IMM);
}

/* Generates SCRATCH = the mask as BOOL bytes, in the low bytes. */
static void narrow_mask(emitter *m, unsigned from)
{
    const x86_op by_dwords = {1, 1, 0x6b, false}; /* VPACKSSDW */
    const x86_op by_words = {1, 1, 0x63, false};  /* VPACKSSWB */
    x86_form form = {0, X86_256, false, 1};
    x86_source high = tn__jit_in(SCRATCH), first = tn__jit_in(SCRATCH);
    tn__x86_vector(&m->x, (x86_op){3, 1, 0x39, false}, form, from, 0, &high,
                   1); /* VEXTRACTI128 */
    form.length = X86_128;
    tn__x86_vector(&m->x, by_dwords, form, SCRATCH, from, &high, X86_NO_IMM);
    if (m->wide)
        tn__x86_vector(&m->x, by_dwords, form, SCRATCH, SCRATCH, &first,
                       X86_NO_IMM);
    tn__x86_vector(&m->x, by_words, form, SCRATCH, SCRATCH, &first, X86_NO_IMM);
    x86_source ones = {.is_memory = true,
                       .memory = {POOL, X86_NO_INDEX, 1, m->target->ones}};
    tn__x86_vector(&m->x, (x86_op){1, 1, 0xdb, false}, form, SCRATCH, SCRATCH,
                   &ones, X86_NO_IMM); /* VPAND */
}

void tn__jit_store_bool(emitter *m, unsigned from, x86_source to)
{
    const x86_op move = {1, 0, 0x11, false};   /* VMOVUPS: 16 bytes */
    const x86_op move_8 = {1, 1, 0xd6, true};  /* VMOVQ */
    const x86_op move_4 = {1, 1, 0x7e, false}; /* VMOVD */
    x86_form form = {0, X86_128, false, (uint8_t)tn__jit_lanes(m)};
    if (m->target->vex) {
        narrow_mask(m, from);
        if (m->tail) {
            x86_source buffer = buffer_of();
            tn__x86_vector(&m->x, move, form, SCRATCH, 0, &buffer, X86_NO_IMM);
            copy_tail(m, &to.memory, true);
            return;
        }
    } else {
        x86_form masked = {(uint8_t)from, X86_128, true, 16};
        x86_source ones = {.is_memory = true,
                           .memory = {POOL, X86_NO_INDEX, 1, 0}};
        tn__x86_vector(&m->x, (x86_op){1, 3, 0x6f, false}, masked, SCRATCH, 0,
                       &ones, X86_NO_IMM); /* VMOVDQU8 */
        if (m->tail) {
            masked = (x86_form){TAIL, X86_128, false, 16};
            tn__x86_vector(&m->x, (x86_op){1, 3, 0x7f, false}, masked, SCRATCH,
                           0, &to, X86_NO_IMM);
            return;
        }
    }
    tn__x86_vector(&m->x,
                   form.unit == 16  ? move
                   : form.unit == 8 ? move_8
                                    : move_4,
                   form, SCRATCH, 0, &to, X86_NO_IMM);
}

void tn__jit_pool_begin(emitter *m)
{
    for (int i = 0; i < m->target->pool; i++)
        tn__x86_byte(&m->x, i < m->target->ones / 2 ? 0xff
                            : i < m->target->ones   ? 0
                                                    : 1);
}
