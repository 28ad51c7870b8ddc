/* Tests the fusion of two kernels: the results of a composed kernel are
 * bit-identical to running its two kernels in sequence. */
#include <tenon/base.h>

#include "../tap.h"
#include "base/memory.h"
#include "run.h"

enum { CELL_BYTES = 8 };
typedef unsigned char cells[CELLS * CELL_BYTES];

/* A producer and a consumer. Both read inputs of type `in`; the producer's
 * results have type `middle`. */
typedef struct pair {
    const char *consumer;
    int at;
    const char *producer;
    int from;
    tn_dtype in, middle;
    int same[3];
    const char *refused; /* the error message if the kernels cannot be composed;
                          * otherwise NULL */
} pair;

static const pair pairs[] = {
    {"c(y) = y * 2", 0, "p(x) = x + 1", 0, TN_F32, TN_F32, {-1}, NULL},
    {"c(y, z) = y * z",
     0,
     "p(x) = f16(x * 1.1)",
     0,
     TN_F32,
     TN_F16,
     {-1},
     NULL},
    {"c(z, y) = z - exp(y)",
     1,
     "p(x) = bf16(x * 1.1)",
     0,
     TN_F32,
     TN_BF16,
     {-1},
     NULL},
    {"c(z, y) = z - y",
     1,
     "p(x) = x * 1.1",
     0,
     TN_F32,
     TN_F32,
     {0, 1, -1},
     NULL},
    {"c(y) = y / 3", 0, "p(x) = i8(x * 100)", 0, TN_F32, TN_I8, {-1}, NULL},
    {"c(y; a) = y * a", 0, "p(x; b) = x + b", 0, TN_F32, TN_F32, {-1}, NULL},
    {"c(y) = y + y", 0, "p(x) = (x, x * x)", 1, TN_F32, TN_F32, {-1}, NULL},
    /* a row kernel with a pointwise producer */
    {"c(y) = let e = exp(y - rmax(y)); e / rsum(e)",
     0,
     "p(x, z) = f16(x * z)",
     0,
     TN_F32,
     TN_F16,
     {-1},
     NULL},
    {"c(z, y: row) = z * rsum(z) * y",
     1,
     "p(x; b) = x * b",
     0,
     TN_F32,
     TN_F32,
     {-1},
     NULL},
    /* pointwise consumers of a row kernel, by element and by row */
    {"c(y, z) = (y * z, y)",
     0,
     "p(x) = f16(x - rmean(x))",
     0,
     TN_F32,
     TN_F16,
     {-1},
     NULL},
    {"c(y; a) = sqrt(y + a)",
     0,
     "p(x) = rmean(x * x)",
     0,
     TN_F32,
     TN_F32,
     {-1},
     NULL},
    {"c(z, y) = z + y", 1, "p(x) = rmax(x)", 0, TN_F32, TN_F32, {-1}, NULL},
    /* two row kernels that reduce the same rows */
    {"c(y) = y - rmean(y)",
     0,
     "p(x) = x * rsum(x)",
     0,
     TN_F32,
     TN_F32,
     {-1},
     NULL},
    {"c(y: row, z) = z - y",
     0,
     "p(x) = rmean(x)",
     0,
     TN_F32,
     TN_F32,
     {0, 1, -1},
     NULL},
    {"c(y) = loop(i < 3; a = y) (a * y + 1)",
     0,
     "p(x) = loop(i < 2; b = x) (b * 0.5)",
     0,
     TN_F32,
     TN_F32,
     {-1},
     NULL},
    /* kernels that cannot be composed */
    {"c(y) = y * 2",
     0,
     "p(x) = x + 1",
     0,
     TN_F32,
     TN_F64,
     {-1},
     "c cannot be composed with p: the dtypes differ"},
    {"c(y, i: offset) = y[i]",
     0,
     "p(x) = x + 1",
     0,
     TN_F32,
     TN_F32,
     {-1},
     "c cannot be composed with p: an input loaded by an index has to be a "
     "tensor"},
    {"c(y) = y - rmean(y)",
     0,
     "p(x) = rsum(x)",
     0,
     TN_F32,
     TN_F32,
     {-1},
     "c cannot be composed with p: both have rows, at different levels"},
};

static const tn__kernel *kernel_of(const char *text, tn_dtype all, int at,
                                   tn_dtype of_at)
{
    tn_dtype dtypes[TN__KERNEL_MAX_INPUTS];
    for (int i = 0; i < TN__KERNEL_MAX_INPUTS; i++)
        dtypes[i] = i == at ? of_at : all;
    tn__def *def = tn__def_parse(text, "t");
    return def ? tn__def_kernel(def, dtypes) : NULL;
}

/* Returns a pointwise kernel whose inputs are one value for each row, as the
 * composed kernel uses it. */
static const tn__kernel *per_row(const char *text, tn_dtype all, int at,
                                 tn_dtype of_at)
{
    char marked[256];
    size_t n = 0;
    const char *c = text;
    bool head = true;
    for (; *c && n + 8 < sizeof marked; c++) {
        if (head && (*c == ',' || *c == ';' || *c == ')')) {
            n += (size_t)snprintf(marked + n, sizeof marked - n, ": row");
            head = *c == ',';
        }
        marked[n++] = *c;
    }
    marked[n] = '\0';
    return kernel_of(marked, all, at, of_at);
}

static void check(const pair *t, int number)
{
    const tn__kernel *c = kernel_of(t->consumer, t->in, t->at, t->middle);
    const tn__kernel *p = kernel_of(t->producer, t->in, -1, 0);
    if (!ok(c && p, "%d: '%s' and '%s' have types", number, t->consumer,
            t->producer))
        return;
    const tn__kernel *both = tn__kernel_compose(c, t->at, p, t->from, t->same);
    if (t->refused) {
        is_str(both ? "composed" : tn_error(), t->refused,
               "'%s' of '%s' is refused", t->consumer, t->producer);
        is_int(tn_error_code(), TN_ERR_UNSUPPORTED, "its code");
        tn_error_clear();
        return;
    }
    if (!ok(both != NULL, "'%s' of '%s'", t->consumer, t->producer)) {
        note("%s", tn_error());
        tn_error_clear();
        return;
    }
    ok(tn__kernel_compose(c, t->at, p, t->from, t->same) == both,
       "it is made once");
    if (!c->has_row && p->has_row && p->out[t->from].level == TN_LEVEL_ROW)
        c = per_row(t->consumer, t->in, t->at, t->middle);
    if (!p->has_row && c->input[t->at].level == TN_LEVEL_ROW)
        p = per_row(t->producer, t->in, -1, 0);

    static cells input[8], middle[TN__KERNEL_MAX_OUTPUTS];
    static cells want[TN__KERNEL_MAX_OUTPUTS], got[TN__KERNEL_MAX_OUTPUTS];
    tn_number param[2] = {{.f = 1.5}, {.f = 0.25}};
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < CELLS; k++)
            ((float *)input[i])[k] =
                (float)((i * 31 + k * 17) % 23) * 0.037f + 0.01f;
    void *data[TN__KERNEL_MAX_INPUTS + TN__KERNEL_MAX_OUTPUTS];
    int others = c->input_count - 1, n = 0;
    bool merged = t->same[0] >= 0;
    for (int i = 0; i < p->input_count; i++)
        data[n++] = merged && others + i == t->same[1] ? input[t->same[0]]
                                                       : input[others + i];
    for (int i = 0; i < p->output_count; i++)
        data[n++] = middle[i];
    is_int(run_kernel(p, data, param + c->param_count), TN_OK,
           "the producer runs");
    n = 0;
    for (int i = 0; i < c->input_count; i++)
        data[n++] = i == t->at ? middle[t->from] : input[i - (i > t->at)];
    for (int i = 0; i < c->output_count; i++)
        data[n++] = want[i];
    is_int(run_kernel(c, data, param), TN_OK, "the consumer runs");
    is_int(both->input_count, others + p->input_count - merged,
           "inputs of the composed");
    is_int(both->param_count, c->param_count + p->param_count,
           "parameters of the composed");
    n = 0;
    for (int i = 0; i < both->input_count; i++)
        data[n++] = input[i];
    for (int i = 0; i < both->output_count; i++)
        data[n++] = got[i];
    is_int(run_kernel(both, data, param), TN_OK, "the composed runs");
    for (int i = 0; i < both->output_count; i++) {
        size_t bytes = tn_dtype_bytes(both->out[i].dtype) *
                       (both->out[i].level == TN_LEVEL_ROW ? ROWS : CELLS);
        is_int(both->out[i].level, c->out[i].level, "output %d: its level", i);
        ok(!memcmp(want[i], got[i], bytes), "output %d: the same bits", i);
    }
}

/* Replaces the inputs that are one number for each row by inputs that are read
 * at each element. */
static void test_without_rows(void)
{
    const tn__kernel *k =
        kernel_of("g(x, m: row, r: row; a) = (x - m) * r * a", TN_F32, -1, 0);
    static const tn__kernel *flat; /* kernels live as long as the process */
    flat = k ? tn__kernel_without_rows(k) : NULL;
    if (!ok(k && k->has_row && flat && !flat->has_row,
            "a kernel that loads numbers of rows, without rows"))
        return;
    static float x[CELLS], row[2][ROWS], elem[2][CELLS], want[CELLS],
        got[CELLS];
    for (int i = 0; i < CELLS; i++) {
        x[i] = (float)(i * 37 % 19) * 0.3f;
        for (int j = 0; j < 2; j++)
            elem[j][i] = row[j][i / LENGTH] =
                (float)(i / LENGTH + 5 * j) * 0.7f;
    }
    tn_number a = {.f = 1.3};
    is_int(run_kernel(k, (void *[]){x, row[0], row[1], want}, &a), TN_OK,
           "it runs with rows");
    is_int(run_kernel(flat, (void *[]){x, elem[0], elem[1], got}, &a), TN_OK,
           "and without");
    ok(!memcmp(want, got, sizeof want), "the same bits");
    static const char *const folds[] = {"s(x, m: row) = (x - m) * rsum(x)",
                                        "l(x, m: row) = (x - m) / rlen()",
                                        "r(m: row) = m * 2"};
    for (int i = 0; i < 3; i++) {
        k = kernel_of(folds[i], TN_F32, -1, 0);
        ok(k && !tn__kernel_without_rows(k) && !tn_error(), "not %s",
           folds[i]);
    }
}

int main(void)
{
    plan_later();
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        check(&pairs[i], (int)i);
    test_without_rows();
    return done_testing();
}
