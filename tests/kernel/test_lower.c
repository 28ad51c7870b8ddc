/* Tests how a kernel is divided into stages: which stage computes a value, that
 * every value is computed before it is read, and that results are right. */
#include <tenon/base.h>

#include "../tap.h"
#include "base/memory.h"
#include "run.h"

static const tn__kernel *kernel_of(const char *text)
{
    const tn_dtype dtypes[] = {TN_F64, TN_F64, TN_F64, TN_F64};
    tn__def *def = tn__def_parse(text, "t");
    const tn__kernel *k = def ? tn__def_kernel(def, dtypes) : NULL;
    if (!k)
        bail_out("'%s': %s", text, tn_error());
    return k;
}

/* ---- order of instructions ----------------------------------------------- */

typedef struct checker {
    const tn_program *p;
    const char *text;
    bool *ready; /* whether each value is computed: uniform and row values, and
                  * elem values of the current loop */
    int *stores;
    bool good;
} checker;

static void wrong(checker *c, uint32_t i, const char *what)
{
    if (c->good) {
        char *listing = tn__program_text(c->p);
        note("%s: instruction %u %s\n%s", c->text, (unsigned)i, what, listing);
        tn__free(listing);
    }
    c->good = false;
}

static void check_part(checker *c, uint32_t first, uint32_t count, int level)
{
    const tn_program *p = c->p;
    for (uint32_t n = first; n < first + count; n++) {
        uint32_t i = p->order[n];
        const tn_kernel_ins *ins = &p->ins[i];
        const uint32_t operand[3] = {ins->a, ins->b, ins->c};
        for (int k = 0; k < 3; k++)
            /* the next value of a carried one is computed later in the loop */
            if (operand[k] != TN_NONE && !c->ready[operand[k]] &&
                !(ins->op == TN_K_CARRY && k == 1))
                wrong(c, i, "reads what is not there yet");
        if (ins->op != TN_K_REDUCE && ins->level != level)
            wrong(c, i, "is in a part of another level");
        if (ins->op == TN_K_STORE)
            c->stores[ins->imm.i]++;
        /* a reduction's result exists only after all elements of the row */
        if (ins->op != TN_K_REDUCE)
            c->ready[i] = true;
    }
}

static void check_program(const char *text, const tn_program *p)
{
    checker c = {p, text, calloc(p->ins_count + 1, sizeof(bool)),
                 calloc(p->operand_count + 1, sizeof(int)), true};
    if (!c.ready || !c.stores)
        bail_out("no memory");
    check_part(&c, 0, p->uniform_count, TN_LEVEL_UNIFORM);
    for (uint32_t s = 0; s < p->stage_count; s++) {
        const tn_kernel_stage *stage = &p->stage[s];
        for (uint32_t i = 0; i < p->ins_count; i++)
            if (p->ins[i].level == TN_LEVEL_ELEM)
                c.ready[i] = false;
        check_part(&c, stage->elem_first, stage->elem_count, TN_LEVEL_ELEM);
        for (uint32_t n = 0; n < stage->elem_count; n++)
            if (p->ins[p->order[stage->elem_first + n]].op == TN_K_REDUCE)
                c.ready[p->order[stage->elem_first + n]] = true;
        check_part(&c, stage->row_first, stage->row_count, TN_LEVEL_ROW);
    }
    for (uint32_t i = 0; i < p->operand_count; i++)
        if (p->operand[i].access == TN_OPERAND_WRITE && c.stores[i] != 1)
            wrong(&c, i, "is an output that is not stored once");
    for (uint32_t i = 0; i < p->fn_count; i++)
        for (uint32_t n = 0; n < p->fn[i].ins_count; n++)
            if (p->fn[i].ins[n].op == TN_K_CALL &&
                p->fn[i].ins[n].imm.i >= (int64_t)i)
                wrong(&c, i, "is a function that calls a later one");
    ok(c.good, "'%s': every value is computed before it is read", text);
    free(c.ready);
    free(c.stores);
}

static const char *const texts[] = {
    "f(x) = x",
    "f(x) = 1",
    "f(; p) = p",
    "f(x) = (x, 2)",
    "f(x) = exp(x) + sigmoid(x)",
    "f(x) = rsum(1)",
    "f(x) = (rsum(x), 3, x)",
    "f(x) = let e = exp(x - rmax(x)); e / rsum(e)",
    "f(x, w: row, b; eps) = let d = x - rmean(x);"
    " d * rsqrt(rmean(d * d) + eps) * w + b",
    "f(x) = rsum(rsum(x) * x)",
    "f(x) = rsum(rsum(x))",
    "f(x: row) = x * 2",
    "f(x, y: row) = x * y",
    "f(x, y: row) = (x * y, y + 1)",
    "f(x, y: row) = rsum(y) * x",
    "f(x) = (x - rmean(x), rmean(x))",
    "f(x, y) = (x + rsum(y), rsum(rsum(x) * y))",
    "f(x; n: i64) = loop(i < n; a = x, b = 1) (b, a * float(i))",
    "f(x) = loop(i < 3; a = rsum(x)) while a < 10: (a * 2)",
    "f(x) = x + loop(i < 3; a = rsum(x)) (a * 2)",
    "f(x) = let m = rmax(x); loop(i < 3; a = 0.0) (a + exp(x) * m)",
    "f(x) = loop(i < 3; a = 1) (a * 2)",
    "f(x) = let s = loop(i < 3; a = x) (loop(j < 2; b = a) (b + x * 2));"
    " s / rsum(s)",
    "f(x, j: offset) = x[j; 0] + rsum(x)",
    "f(x) = stop(x) + x",
};

/* Counts the loops over elements, one for each stage. There must be no more of
 * them than the dependences between reductions require. */
static void test_looks(void)
{
    static const struct {
        const char *text;
        uint32_t looks;
    } of[] = {
        {"f(g, x, m: row) = (rsum(g), rsum(g * (x - m)))", 1},
        {"f(g, x, m: row) = rsum(g) * x - rsum(g * (x - m)) * g", 2},
        {"f(g, x, m: row) = rsum(rsum(g) * (x - m)) * x", 3},
        {"f(g, x, m: row) = rsum(g) * m * x", 2},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const tn_program *p = tn__kernel_program(kernel_of(of[i].text));
        uint32_t looks = 0;
        for (uint32_t s = 0; s < p->stage_count; s++)
            looks += p->stage[s].elem_count > 0;
        is_int(looks, of[i].looks, "'%s' reads its elements %u times",
               of[i].text, (unsigned)of[i].looks);
        check_program(of[i].text, p);
    }
}

static void test_programs(void)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const tn__kernel *k = kernel_of(texts[i]);
        const tn_program *p = tn__kernel_program(k);
        if (!ok(p != NULL, "'%s' has a program", texts[i]))
            continue;
        check_program(texts[i], p);
        ok(tn__kernel_program(k) == p, "the program is made once");
        int used[TN__KERNEL_MAX_INPUTS];
        bool zero;
        for (int wrt = 0; wrt < k->input_count; wrt++) {
            const tn__kernel *g = tn__kernel_gradient(k, wrt, used, &zero);
            tn_error_clear();
            if (g)
                check_program(g->name, tn__kernel_program(g));
        }
    }
}

/* ---- program layout ------------------------------------------------------ */

static void test_layout(void)
{
    const tn__kernel *k = kernel_of("f(x) = let e = exp(x - rmax(x));"
                                    " e / rsum(e)");
    char *text = tn__program_text(tn__kernel_program(k));
    is_str(text,
           "  operand 0: read f64 elem\n"
           "  operand 1: write f64 elem\n"
           "  v0 = load 0 : f64 elem\n"
           "  v1 = rmax v0 : f64 row\n"
           "  v2 = sub v0 v1 : f64 elem\n"
           "  v3 = call exp_f64 v2 : f64 elem\n"
           "  v4 = rsum v3 : f64 row\n"
           "  v5 = div v3 v4 : f64 elem\n"
           "  v6 = store 1 v5 : f64 elem\n"
           "  uniform:\n"
           "  stage 0 elem: 0 1\n"
           "  stage 0 row:\n"
           "  stage 1 elem: 0 2 3 4\n"
           "  stage 1 row:\n"
           "  stage 2 elem: 0 2 3 5 6\n"
           "  stage 2 row:\n",
           "softmax in three stages");
    tn__free(text);

    const tn_program *p = tn__kernel_program(kernel_of("f(x, y: row) = x * y"));
    is_int(p->stage_count, 1, "without a reduction there is one stage");
    is_int(p->stage[0].row_count, 0, "whose elem part computes everything");

    /* y1 could be stored in stage 1, but its memory may be that of x, which
     * stage 2 reads */
    p = tn__kernel_program(
        kernel_of("f(x) = let m = rmax(x); (x - m, x * rsum(x * m))"));
    is_int(p->stage_count, 3, "two reductions, three stages");
    uint32_t stores = 0;
    for (uint32_t i = 0; i < p->stage[2].elem_count; i++)
        stores += p->ins[p->order[p->stage[2].elem_first + i]].op == TN_K_STORE;
    is_int(stores, 2, "both outputs are stored in the last");

    k = kernel_of("f(x) = loop(i < 3; a = 0.0) (a + exp(x) * 2)");
    uint32_t loop = 0, calls = 0;
    while (k->ins[loop].op != TN_K_LOOP)
        calls += k->ins[loop++].op == TN_K_CALL;
    is_int(calls, 1, "a loop invariant is before the loop");
}

/* ---- results ----------------------------------------------------------- */

static void run_one(const char *text, const double *x, double *out,
                    const tn_number *param)
{
    const tn__kernel *k = kernel_of(text);
    double input[CELLS];
    memcpy(input, x, sizeof input);
    void *data[2] = {input, out};
    ok(run_kernel(k, data, param) == TN_OK, "'%s' runs", text);
    tn_error_clear();
}

static void test_results(void)
{
    double x[CELLS], out[CELLS];
    for (int i = 0; i < CELLS; i++)
        x[i] = (i * 7) % 11;
    run_one("f(x) = x - rmean(x)", x, out, NULL);
    double sum = x[5] + x[6] + x[7] + x[8] + x[9];
    is_double_near(out[7], x[7] - sum / 5, 1e-15, "the mean of row 1");
    run_one("f(x) = rmax(x) * 10 + float(rargmin(x))", x, out, NULL);
    is_double_near(out[0], 10 * 10 + 0, 0, "a result for each row");
    is_double_near(out[2], 10 * 10 + 1, 0, "and for the last");
    run_one("f(x) = x[4; 0] + x[5; 0]", x, out, NULL);
    is_double_near(out[1], x[4], 0, "outside reads 0");

    /* the largest common divisor, which takes a different number of rounds for
     * each element */
    run_one("f(x) = let (a, b) = loop(i < 64; a = i64(x), b = i64(12))"
            " while b != 0: (b, a % b); f64(a)",
            x, out, NULL);
    static const int gcd[12] = {12, 1, 2, 3, 4, 1, 6, 1, 4, 3, 2, 1};
    for (int i = 0; i < CELLS; i++)
        if (!is_double_near(out[i], gcd[(int)x[i]], 0, "gcd(%g, 12)", x[i]))
            break;
    /* the first value is uniform, but the condition depends on the element */
    run_one("f(x) = loop(i < 8; s = 1.0) while s < x: (s * 2)", x, out, NULL);
    static const int power[11] = {1, 1, 2, 4, 4, 8, 8, 8, 8, 16, 16};
    for (int i = 0; i < CELLS; i++)
        if (!is_double_near(out[i], power[(int)x[i]], 0,
                            "the least power of two from %g on", x[i]))
            break;
    tn_number n = {.i = 5};
    run_one("f(x; n: i64) = let (a, b) = loop(i < n; a = 0.0, b = 1.0)"
            " (b, a + b); a + x * 0",
            x, out, &n);
    is_double_near(out[3], 5, 0, "two values trade places in a round");
    n.i = 0;
    run_one("f(x; n: i64) = loop(i < n; a = x) (a + 1)", x, out, &n);
    is_double_near(out[4], x[4], 0,
                   "a loop of no rounds returns the first value");
}

/* ---- functions ----------------------------------------------------------- */

static int place_of(const tn_program *p, const char *name)
{
    for (uint32_t i = 0; i < p->fn_count; i++)
        if (!strcmp(p->fn[i].name, name))
            return (int)i;
    return -1;
}

/* The order of functions depends only on the program, not on kernels that the
 * process compiled before. Otherwise two processes would make different
 * sources, and the cache would have an entry for each. */
static void test_functions(void)
{
    const tn_program *one =
        tn__kernel_program(kernel_of("f(x) = erf(x) + tan(x)"));
    const tn_program *other =
        tn__kernel_program(kernel_of("f(x) = tan(x) + erf(x)"));
    if (!one || !other)
        bail_out("%s", tn_error());
    ok(place_of(one, "erf_f64") >= 0 &&
           place_of(one, "erf_f64") < place_of(one, "tan_f64"),
       "the function that is called first comes first");
    ok(place_of(other, "tan_f64") >= 0 &&
           place_of(other, "tan_f64") < place_of(other, "erf_f64"),
       "in the other order, too");
}

int main(void)
{
    plan_later();
    test_programs();
    test_looks();
    test_functions();
    test_layout();
    test_results();
    return done_testing();
}
