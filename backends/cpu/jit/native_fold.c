/* native_fold.c: generates the code of folds: sums, products, minima and maxima
 * of a value over a row. A copy is a row or chunk that is processed at the same
 * time as others. Each fold of each copy accumulates in its own vector
 * register. The lanes of that register are combined at the end of the row. */
#include "native_code.h"

/* Returns the register of a fold of the current copy. Each vector of a step has
 * a register of its own. */
static unsigned fold_register(const emitter *m, uint32_t fold, uint32_t half)
{
    uint32_t each = m->native->fold_count;
    return m->target->registers - 1 -
           ((m->copy * each + fold) * tn__jit_halves(m) + half);
}

/* Generates acc = acc op by. In an incomplete vector, only in its lanes. */
static void fold_op(emitter *m, unsigned kind, unsigned acc, unsigned by,
                    bool tail)
{
    bool minmax = kind == TN_REDUCE_MAX || kind == TN_REDUCE_MIN;
    unsigned to = minmax || tail ? SCRATCH : acc;
    if (minmax)
        tn__jit_minmax(m, to, acc, tn__jit_in(by), kind == TN_REDUCE_MAX);
    else
        tn__jit_emit(m, tn__jit_floats(m, kind == TN_REDUCE_SUM ? 0x58 : 0x59),
                     to, acc, tn__jit_in(by), X86_NO_IMM);
    if (tail)
        tn__jit_blend(m, acc, acc, tn__jit_in(to), tn__jit_tail_mask(m));
    else
        tn__jit_move(m, acc, to);
}

/* Returns the neutral element of a reduction. */
static x86_source neutral(emitter *m, unsigned kind)
{
    static const uint32_t bits[] = {0x80000000, 0x3f800000, 0xff800000,
                                    0x7f800000};
    return tn__jit_constant(m, bits[kind]);
}

void tn__jit_make_fold(emitter *m, uint32_t fold, const uint32_t keep[3])
{
    unsigned by = tn__jit_need(m, m->native->fold[fold], keep);
    uint32_t half = (uint32_t)(m->disp / tn__jit_lanes(m)) % tn__jit_halves(m);
    fold_op(m, m->native->fold_kind[fold], fold_register(m, fold, half), by,
            m->tail);
}

void tn__jit_begin_folds(emitter *m)
{
    for (m->copy = 0; m->copy < m->options->copies; m->copy++)
        for (uint32_t i = 0; i < m->native->fold_count; i++)
            for (uint32_t half = 0; half < tn__jit_halves(m); half++) {
                unsigned to = fold_register(m, i, half);
                m->pinned[to] = true;
                tn__jit_broadcast(m, to, neutral(m, m->native->fold_kind[i]));
            }
}

/* Combines the 16 lanes of each fold by halves: lane i with lane i + 8, then
 * with lane i + 4, i + 2 and i + 1. With AVX2, lane i + 8 is in another
 * register. */
void tn__jit_end_folds(emitter *m)
{
    typedef struct {
        uint8_t map, prefix, opcode, imm;
        bool two;
    } turning;
    static const turning turns[] = {{3, 1, 0x43, 0x0e, true}, /* VSHUFI32X4 */
                                    {3, 1, 0x43, 0x01, true},
                                    {1, 1, 0x70, 0x0e, false}, /* VPSHUFD */
                                    {1, 1, 0x70, 0x01, false}};
    static const turning swap = {3, 1, 0x46, 0x01, true}; /* VPERM2I128 */
    const cpu_native *n = m->native;
    unsigned other = FIRST_VALUE; /* holds no value after the loop */
    for (m->copy = 0; m->copy < m->options->copies; m->copy++)
        for (uint32_t i = 0; i < n->fold_count; i++) {
            unsigned to = fold_register(m, i, 0);
            if (m->target->vex)
                fold_op(m, n->fold_kind[i], to, fold_register(m, i, 1), false);
            for (int half = m->target->vex; half < 4; half++) {
                const turning *turn =
                    m->target->vex && half == 1 ? &swap : &turns[half];
                x86_op op = {turn->map, turn->prefix, turn->opcode, false};
                tn__jit_emit(m, op, other, turn->two ? to : 0, tn__jit_in(to),
                             turn->imm);
                fold_op(m, n->fold_kind[i], to, other, false);
            }
            x86_source out = {
                .is_memory = true,
                .memory = {(uint8_t)tn__jit_pointer(
                               m, m->copy, n->operand_count + m->results + i),
                           X86_NO_INDEX, 1, 0}};
            x86_form form = {0, X86_128, false, 4};
            tn__x86_vector(&m->x, (x86_op){1, 2, 0x11, false}, form, to, 0,
                           &out, X86_NO_IMM); /* VMOVSS */
        }
}
