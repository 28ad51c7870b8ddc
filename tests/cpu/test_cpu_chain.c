/* Chains of operations: that they are found, what stays within them, and that
 * each step has the bits of its operation by itself, for every instruction set,
 * at every length, and where what is kept lies where an operand did. */
#include <math.h>
#include <stdlib.h>

#include "../tap.h"
#include <tenon/base.h>

#include "../../backends/cpu/compile.h"
#include "isa_here.h"

static tn_status host_fail(tn_status code, const char *format, ...)
{
    (void)format;
    return code;
}

static const tn_host host = {.size = sizeof host, .fail = host_fail};
const tn_host *tn__cpu_host = &host;

static uint64_t random_state = 20261123;

static uint64_t random_bits(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1dull;
}

/* ---- steps ------------------------------------------------------------- */

enum { MOST = 700, PAD = 3 };

static float number(void)
{
    static const float odd[] = {0.0f, -0.0f, NAN, INFINITY, -INFINITY, 1.0f};
    uint64_t bits = random_bits();
    if (bits % 4 == 0)
        return odd[bits / 4 % 6];
    return (float)((double)(int64_t)random_bits() * 0x1p-62);
}

static float least(float x, float y, bool most)
{
    if (isnan(x) || isnan(y))
        return NAN;
    if (x == y)
        return !signbit(x) == most ? x : y;
    return (x < y) == most ? y : x;
}

/* What a step makes of x, held, and y; mask: of PICK and OTHER. */
static float apply(unsigned code, float x, float y, bool mask)
{
    switch (code) {
    case TN_CPU_STEP_ADD:
        return x + y;
    case TN_CPU_STEP_SUB:
        return x - y;
    case TN_CPU_STEP_FROM:
        return y - x;
    case TN_CPU_STEP_MUL:
        return x * y;
    case TN_CPU_STEP_DIV:
        return x / y;
    case TN_CPU_STEP_INTO:
        return y / x;
    case TN_CPU_STEP_MIN:
        return least(x, y, false);
    case TN_CPU_STEP_MAX:
        return least(x, y, true);
    case TN_CPU_STEP_PICK:
        return mask ? y : x;
    case TN_CPU_STEP_OTHER:
        return mask ? x : y;
    case TN_CPU_STEP_SQUARE:
        return x * x;
    case TN_CPU_STEP_ABS:
        return fabsf(x);
    case TN_CPU_STEP_NEG:
        return -x;
    default:
        return y;
    }
}

static bool compares(unsigned code, float x, float y)
{
    return code == TN_CPU_STEP_LT   ? x < y
           : code == TN_CPU_STEP_LE ? x <= y
           : code == TN_CPU_STEP_GT ? x > y
                                    : x >= y;
}

/* a and b are each one value for a row or one for each element; what comes of
 * it is kept where a lies if that is allowed. */
static bool step_agrees(const tn_cpu_routines *r, unsigned code, int64_t n,
                        unsigned ones, bool in_place)
{
    enum { ROWS = 2 };
    static float a[ROWS * MOST + PAD], b[ROWS * MOST], was[ROWS * MOST];
    static float own[ROWS * MOST + PAD];
    unsigned compare = TN_CPU_STEP_LT + (unsigned)(random_bits() % 4);
    for (int64_t i = 0; i < ROWS * n; i++) {
        was[i] = a[i] = number();
        b[i] = random_bits() % 3 ? number() : a[i];
    }
    for (int i = 0; i < PAD; i++)
        own[ROWS * n + i] = a[ROWS * n + i] = 7;
    float *out = in_place ? a : own;
    int64_t row = n * (int64_t)sizeof(float);
    unsigned ka = ones & 1 ? TN_CPU_STEP_ONE : TN_CPU_STEP_EACH;
    unsigned kb = ones & 2 ? TN_CPU_STEP_ONE : TN_CPU_STEP_EACH;
#define OPERAND(what, how, from)                                              \
    {.at = from, .row = row, .code = (uint8_t)(what), .kind = (uint8_t)(how)}
    tn_cpu_step step[] = {
        OPERAND(TN_CPU_STEP_LOAD, ka, a), OPERAND(compare, kb, b),
        {.code = TN_CPU_STEP_KEEP, .kind = TN_CPU_STEP_SCRATCH, .scratch = 1},
        OPERAND(TN_CPU_STEP_LOAD, ka, a),
        OPERAND(code, kb, b), OPERAND(TN_CPU_STEP_KEEP, TN_CPU_STEP_EACH, out),
        OPERAND(TN_CPU_STEP_ASK, TN_CPU_STEP_EACH, out),
        {.code = TN_CPU_STEP_END, .kind = TN_CPU_STEP_SCRATCH}};
    step[4].mask = 1;
    r->chain(step, ROWS, n);
    for (int64_t i = 0; i < ROWS * n; i++) {
        float x = was[ones & 1 ? i / n * n : i];
        float y = b[ones & 2 ? i / n * n : i];
        float want = apply(code, x, y, compares(compare, x, y));
        if (!(isnan(want) && isnan(out[i])) &&
            memcmp(&want, &out[i], sizeof want) != 0)
            return false;
    }
    return out[ROWS * n] == 7 && out[ROWS * n + PAD - 1] == 7;
}

static void test_steps(const tn_cpu_routines *r, const char *isa)
{
    bool same = true, masks = true;
    for (int64_t n = 1; n <= MOST; n += n < 150 ? 1 : 61)
        for (unsigned code = TN_CPU_STEP_LOAD; code <= TN_CPU_STEP_NEG; code++)
            for (unsigned ones = 0; ones < 4; ones++) {
                bool is_mask =
                    code >= TN_CPU_STEP_LT && code <= TN_CPU_STEP_GE;
                bool is_choice =
                    code == TN_CPU_STEP_PICK || code == TN_CPU_STEP_OTHER;
                bool alone = code >= TN_CPU_STEP_SQUARE;
                if (is_mask || (alone && ones & 2))
                    continue;
                bool right = step_agrees(r, code, n, ones,
                                         !(ones & 1) && n % 2);
                same = same && (right || is_choice);
                masks = masks && (right || !is_choice);
            }
    ok(same, "%s: each step has the bits of its operation", isa);
    ok(masks, "%s: choices by each comparison", isa);
}

/* ---- chains ------------------------------------------------------------ */

enum { X, M, M_WIDE, D, R, T, MASK, S, SLOTS };

typedef struct program {
    cpu_op op[16];
    cpu_slot slot[SLOTS];
    cpu_stage stage[1];
    cpu_reduce reduce[1];
    cpu_code code;
} program;

static cpu_op *add(program *p, unsigned code, uint32_t out, uint32_t a,
                   uint32_t b, uint32_t c)
{
    cpu_op *op = &p->op[p->code.op_count++];
    *op = (cpu_op){.code = (uint8_t)code, .out = out, .a = a, .b = b, .c = c,
                   .where = TN_CPU_NONE, .allowed = 3};
    return op;
}

static void begin(program *p)
{
    memset(p, 0, sizeof *p);
    for (int s = 0; s < SLOTS; s++)
        p->slot[s] = (cpu_slot){.space = CPU_ELEM, .bytes = 4};
    p->slot[M].space = CPU_ROW;
    p->slot[R].space = CPU_UNIFORM;
    p->slot[MASK].bytes = 1;
    p->code = (cpu_code){.op = p->op, .slot = p->slot, .stage = p->stage,
                         .reduce = p->reduce, .slot_count = SLOTS,
                         .stage_count = 1};
}

static void find(program *p, const tn_cpu_routines *r)
{
    p->stage[0].elem = (cpu_part){0, p->code.op_count};
    if (tn__cpu_find_chains(r, &p->code) != TN_OK)
        bail_out("no memory");
}

/* d = x - m, t = d * r; sum: d is summed in between. */
static void shift_and_scale(program *p, const tn_cpu_routines *r, bool sum)
{
    const uint32_t none = TN_CPU_NONE;
    begin(p);
    add(p, CPU_LOAD, X, none, none, none);
    cpu_op *op = add(p, CPU_RUN, D, X, M_WIDE, X);
    op->run = r->op[TN_K_SUB][CPU_F32];
    op->row = 2;
    op->narrow[1] = M;
    if (sum)
        add(p, CPU_REDUCE, none, D, none, none);
    op = add(p, CPU_RUN, T, D, R, D);
    op->run = r->op[TN_K_MUL][CPU_F32];
    op->scalar = 2;
    add(p, CPU_STORE, none, T, none, none)->index = 5;
    find(p, r);
}

static bool steps_are(const program *p, const cpu_op *op, const char *codes)
{
    bool same = op->steps == strlen(codes);
    for (uint32_t k = 0; same && k < op->steps; k++)
        same = p->code.step[op->index + k].code == (unsigned)(codes[k] - 'a');
    return same;
}

#define LETTER(code) (char)('a' + TN_CPU_STEP_##code)

static void test_found(const tn_cpu_routines *r)
{
    program p;
    shift_and_scale(&p, r, false);
    ok(p.op[1].chain == 2, "two operations are a chain");
    ok(p.slot[D].space == CPU_NOWHERE, "what none but they read has no block");
    ok(p.code.one_pass, "which is all that the program does");
    ok(steps_are(&p, &p.op[1],
                 (const char[]){LETTER(LOAD), LETTER(SUB), LETTER(MUL),
                                LETTER(KEEP), LETTER(END), 0}),
       "loaded, changed twice, kept");
    ok(p.code.step[p.op[1].index + 3].memory == 5,
       "the last step knows where it is stored");
    free(p.code.step);

    shift_and_scale(&p, r, true);
    ok(p.op[1].chain == 2 && p.op[2].out == T && p.op[3].code == CPU_REDUCE,
       "a sum comes after the chain");
    ok(p.slot[D].space == CPU_ELEM && !p.code.one_pass &&
           steps_are(&p, &p.op[1],
                     (const char[]){LETTER(LOAD), LETTER(SUB), LETTER(KEEP),
                                    LETTER(MUL), LETTER(KEEP), LETTER(END), 0}),
       "what it reads is kept");
    free(p.code.step);
}

/* t = m < x ? x : -x; stored: the mask is, too. */
static void choose(program *p, const tn_cpu_routines *r, bool stored)
{
    const uint32_t none = TN_CPU_NONE;
    begin(p);
    add(p, CPU_LOAD, X, none, none, none);
    cpu_op *op = add(p, CPU_RUN, MASK, M_WIDE, X, M_WIDE);
    op->run = r->op[TN_K_LT][CPU_F32];
    op->row = 1;
    op->narrow[0] = M;
    op = add(p, CPU_RUN, S, X, X, X);
    op->run = r->op[TN_K_NEG][CPU_F32];
    op->allowed = 0;
    op = add(p, CPU_RUN, T, MASK, X, S);
    op->run = r->op[TN_K_SELECT][CPU_F32];
    op->allowed = 6;
    add(p, CPU_STORE, none, T, none, none);
    if (stored)
        add(p, CPU_STORE, none, MASK, none, none);
    find(p, r);
}

static void test_masks(const tn_cpu_routines *r)
{
    program p;
    choose(&p, r, false);
    ok(p.op[1].chain == 3 && p.slot[MASK].space == CPU_NOWHERE,
       "a comparison and what is chosen by it are a chain");
    free(p.code.step);
    choose(&p, r, true);
    bool any = false;
    for (uint32_t i = 0; i < p.code.op_count; i++)
        any = any || p.op[i].chain > 0;
    ok(!any && p.slot[MASK].space == CPU_ELEM,
       "a mask that others read, too, is none of a chain");
    free(p.code.step);
}

int main(void)
{
    plan_later();
    tn_cpu_routines table;
#define TEST(isa)                                                             \
    if (is_here(#isa)) {                                                      \
        memset(&table, 0, sizeof table);                                      \
        tn__cpu_chain__##isa(&table);                                         \
        test_steps(&table, #isa);                                             \
    } else {                                                                  \
        skip(2, "this machine lacks " #isa);                                  \
    }
    TEST(generic)
#if defined(__x86_64__)
    TEST(v3)
    TEST(v4)
#endif
    memset(&table, 0, sizeof table);
    tn__cpu_arith__generic(&table);
    test_found(&table);
    test_masks(&table);
    return done_testing();
}
