/* native_fold.c: generates the code of folds: sums, products, minima and maxima
 * of a value over a row. A copy is a row or chunk that is processed at the same
 * time as others. Each fold of each copy accumulates in its own vector
 * register. The lanes of that register are combined at the end of the row. */
#include "native_code.h"

static unsigned fold_register(const emitter *m, uint32_t fold)
{
    return VECTORS - 1 - (m->copy * m->native->fold_count + fold);
}

static void fold_op(emitter *m, unsigned kind, unsigned to, unsigned by)
{
    if (kind == TN_REDUCE_MAX || kind == TN_REDUCE_MIN) {
        tn__jit_minmax(m, SCRATCH, to, tn__jit_in(by), kind == TN_REDUCE_MAX);
        tn__jit_move(m, to, SCRATCH);
    } else {
        tn__jit_emit(m, tn__jit_floats(m, kind == TN_REDUCE_SUM ? 0x58 : 0x59),
                     to, to, tn__jit_in(by), X86_NO_IMM);
    }
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
    unsigned kind = m->native->fold_kind[fold];
    unsigned by = tn__jit_need(m, m->native->fold[fold], keep);
    /* Lanes beyond the end of the row get the reduction's neutral element, such
     * as 0 for a sum. */
    if (m->tail) {
        unsigned passing = SCRATCH + 1;
        tn__jit_broadcast(m, passing, neutral(m, kind));
        tn__jit_emit_masked(m, tn__jit_packed(m, 2, 0x65), TAIL, false, passing,
                            passing, tn__jit_in(by), X86_NO_IMM);
        by = passing;
    }
    fold_op(m, kind, fold_register(m, fold), by);
}

void tn__jit_begin_folds(emitter *m)
{
    for (m->copy = 0; m->copy < m->options->copies; m->copy++)
        for (uint32_t i = 0; i < m->native->fold_count; i++) {
            unsigned to = fold_register(m, i);
            m->pinned[to] = true;
            tn__jit_broadcast(m, to, neutral(m, m->native->fold_kind[i]));
        }
}

/* Combines the 16 lanes of each register by halves: lane i with lane i + 8,
 * then with lane i + 4, i + 2 and i + 1. */
void tn__jit_end_folds(emitter *m)
{
    static const struct {
        uint8_t map, prefix, opcode, imm;
        bool two;
    } turn[] = {{3, 1, 0x43, 0x0e, true}, /* VSHUFI32X4 */
                {3, 1, 0x43, 0x01, true},
                {1, 1, 0x70, 0x0e, false}, /* VPSHUFD */
                {1, 1, 0x70, 0x01, false}};
    const cpu_native *n = m->native;
    unsigned other = SCRATCH + 1;
    for (m->copy = 0; m->copy < m->options->copies; m->copy++)
        for (uint32_t i = 0; i < n->fold_count; i++) {
            unsigned to = fold_register(m, i);
            for (int half = 0; half < 4; half++) {
                x86_op op = {turn[half].map, turn[half].prefix,
                             turn[half].opcode, false};
                tn__jit_emit(m, op, other, turn[half].two ? to : 0,
                             tn__jit_in(to), turn[half].imm);
                fold_op(m, n->fold_kind[i], to, other);
            }
            x86_source out = {
                .is_memory = true,
                .memory = {(uint8_t)tn__jit_pointer(m, m->copy,
                                                    n->operand_count +
                                                        m->results + i),
                           X86_NO_INDEX, 1, 0}};
            x86_form form = {0, X86_128, false, 4};
            tn__x86_vector(&m->x, (x86_op){1, 2, 0x11, false}, form, to, 0,
                           &out, X86_NO_IMM); /* VMOVSS */
        }
}
