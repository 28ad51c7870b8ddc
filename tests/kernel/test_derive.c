/* Compares derived gradients with finite differences in float64: first and
 * second derivatives of each expression. */
#include "run.h"
#include "../tap.h"

#include <string.h>

typedef struct sample {
    const char *text;
    double low, high; /* range of the inputs */
    double param[3];
    /* the first derivative only: the gradient compares x with the output for
     * equality, which never holds for the independent numbers of the second
     * test */
    bool once;
} sample;

static const sample samples[] = {
    {"f(x) = x", -2, 2, {0}, false},
    {"f(x) = 3 * x + 1", -2, 2, {0}, false},
    {"f(x) = -x", -2, 2, {0}, false},
    {"f(x) = x - 2 * x", -2, 2, {0}, false},
    {"f(x) = x * x * x", -2, 2, {0}, false},
    {"f(x) = 1 / x", 0.5, 2, {0}, false},
    {"f(x) = (x + 1) / (x * x + 2)", -2, 2, {0}, false},
    {"f(x) = sqrt(x)", 0.5, 2, {0}, false},
    {"f(x) = rsqrt(x)", 0.5, 2, {0}, false},
    {"f(x) = square(x) + reciprocal(x)", 0.5, 2, {0}, false},
    {"f(x) = abs(x)", 0.1, 2, {0}, false},
    {"f(x) = abs(x)", -2, -0.1, {0}, false},
    {"f(x) = fma(x, x, x)", -2, 2, {0}, false},
    {"f(x) = exp(x)", -2, 2, {0}, false},
    {"f(x) = log(x)", 0.5, 2, {0}, false},
    {"f(x) = log1p(x) * x", 0.5, 2, {0}, false},
    {"f(x) = tanh(x)", -2, 2, {0}, false},
    {"f(x) = sin(x) * cos(x)", -2, 2, {0}, false},
    {"f(x) = erf(x)", -1.5, 1.5, {0}, false},
    {"f(x) = sigmoid(x)", -2, 2, {0}, false},
    {"f(x) = softplus(x)", -2, 2, {0}, false},
    {"f(x) = 0.5 * x * (1 + erf(x * 0.70710678118654752))", -2, 2, {0}, false},
    {"f(x; b) = x * sigmoid(b * x)", -2, 2, {1.5}, false},
    {"f(x; lo, hi) = min(max(x, lo), hi)", -2, 2, {-0.77, 0.83}, false},
    {"f(x) = relu(x)", 0.1, 2, {0}, false},
    {"f(x) = relu(x)", -2, -0.1, {0}, false},
    {"f(x; s) = where(x > 0, x, s * (exp(x) - 1))", -2, 2, {1.5}, false},
    {"f(x) = floor(x) * x", 0.1, 0.9, {0}, false},
    {"f(x) = x % 0.7", 0.75, 1.35, {0}, false},
    {"f(x) = f64(f32(x) * 1.0) * 0 + x * x", -2, 2, {0}, false},
    {"f(x, y) = x + y", -2, 2, {0}, false},
    {"f(x, y) = x - y", -2, 2, {0}, false},
    {"f(x, y) = x * y", -2, 2, {0}, false},
    {"f(x, y) = x / y", 0.5, 2, {0}, false},
    {"f(x, y) = min(x, y)", -2, 2, {0}, false},
    {"f(x, y) = max(x, y)", -2, 2, {0}, false},
    {"f(x, y) = pow(x, y)", 0.5, 2, {0}, false},
    {"f(x, y) = where(x < y, x * y, x - y)", -2, 2, {0}, false},
    {"f(x, y, z) = fma(x, y, z) * z", -2, 2, {0}, false},
    {"f(x, y) = (x - y) * (x - y)", -2, 2, {0}, false},
    {"f(x) = rsum(x)", -2, 2, {0}, false},
    {"f(x) = rsum(x * x)", -2, 2, {0}, false},
    {"f(x) = rmean(x * x) * x", -2, 2, {0}, false},
    {"f(x) = rprod(x)", 0.5, 2, {0}, false},
    {"f(x) = rprod(x * x + 1)", -2, 2, {0}, false},
    {"f(x) = rmax(x)", -2, 2, {0}, true},
    {"f(x) = rmin(x) * x", -2, 2, {0}, false},
    {"f(x) = x - rmax(x)", -2, 2, {0}, false},
    {"f(x) = let e = exp(x - rmax(x)); e / rsum(e)", -2, 2, {0}, false},
    {"f(x) = let d = x - rmax(x); d - log(rsum(exp(d)))", -2, 2, {0}, false},
    {"f(x) = let m = rmax(x); m + log(rsum(exp(x - m)))", -2, 2, {0}, false},
    {"f(x) = let d = x - rmean(x); rsum(d * d) / (float(rlen()) - 1)",
     -2,
     2,
     {0},
     false},
    {"f(x; eps) = let d = x - rmean(x); d * rsqrt(rmean(d * d) + eps)",
     -2,
     2,
     {0.1},
     false},
    {"f(x, w, b; eps) = let d = x - rmean(x);"
     " d * rsqrt(rmean(d * d) + eps) * w + b",
     -2,
     2,
     {0.1},
     false},
    {"f(x) = sqrt(rsum(x * x))", 0.5, 2, {0}, false},
    {"f(x, y) = rsum(x * y) / (sqrt(rsum(x * x)) * sqrt(rsum(y * y)))",
     0.5,
     2,
     {0},
     false},
    {"f(x, m: row) = x * m", -2, 2, {0}, false},
    {"f(x, m: row) = (x - m) * (x - m)", -2, 2, {0}, false},
    {"f(x, m: row) = rsum(x * m) * m", -2, 2, {0}, false},
    {"f(x, m: row) = rsum(m) * x", -2, 2, {0}, false},
    {"f(x, m: row, s: row) = (x - m) / s", 0.5, 2, {0}, false},
    {"f(m: row) = m * m", -2, 2, {0}, false},
    {"f(x) = let m = rmean(x); let d = x - m; (d * d, m)", -2, 2, {0}, false},
    {"f(x) = (exp(x), tanh(x))", -2, 2, {0}, false},
    {"f(x) = let e = exp(x); (e / rsum(e), rsum(e), e)", -2, 2, {0}, false},
    {"f(x) = x * float(rargmax(x) + 1)", -2, 2, {0}, false},
    {"f(x) = stop(x * x) * 0 + x * x", -2, 2, {0}, false},
    {"f(x) = let (p, q) = loop(i < 3; p = 1.0, q = 0.0) (p * 0.5, q + p);"
     " q * x",
     -2,
     2,
     {0},
     false},
};

static uint64_t state;

static double between(double low, double high)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(state >> 11) * 0x1p-53;
}

typedef double cells[CELLS];

static int size_of(uint8_t level)
{
    return level == TN_LEVEL_ROW ? ROWS : CELLS;
}

/* Returns the sum of weight * output over all outputs. */
static double loss(const tn__kernel *k, cells *input, cells *weight,
                   const tn_number *param, cells *out)
{
    void *data[TN__KERNEL_MAX_INPUTS + TN__KERNEL_MAX_OUTPUTS];
    for (int i = 0; i < k->input_count; i++)
        data[i] = input[i];
    for (int o = 0; o < k->output_count; o++)
        data[k->input_count + o] = out[o];
    if (run_kernel(k, data, param) < 0)
        return NAN;
    double sum = 0;
    for (int o = 0; o < k->output_count; o++)
        for (int c = 0; c < size_of(k->out[o].level); c++)
            sum += weight[o][c] * out[o][c];
    return sum;
}

static double worst(const tn__kernel *k, const tn__kernel *g, int wrt,
                    const int *used, cells *input, cells *weight,
                    const tn_number *param)
{
    cells out[TN__KERNEL_MAX_OUTPUTS], got;
    loss(k, input, weight, param, out);
    if (g) {
        void *data[TN__KERNEL_MAX_INPUTS + 1];
        for (int i = 0; i < g->input_count; i++)
            data[i] = used[i] < k->input_count ? input[used[i]]
                      : used[i] < k->input_count + k->output_count
                          ? out[used[i] - k->input_count]
                          : weight[used[i] - k->input_count - k->output_count];
        data[g->input_count] = got;
        if (run_kernel(g, data, param) < 0)
            return NAN;
    } else {
        memset(got, 0, sizeof got);
    }
    double most = 0;
    for (int c = 0; c < size_of(k->input[wrt].level); c++) {
        const double h = 1e-5;
        double x = input[wrt][c];
        input[wrt][c] = x + h;
        double above = loss(k, input, weight, param, out);
        input[wrt][c] = x - h;
        double below = loss(k, input, weight, param, out);
        input[wrt][c] = x;
        double want = (above - below) / (2 * h);
        double error = fabs(got[c] - want) / fmax(1, fabs(want));
        most = error <= most ? most : error;
    }
    return most;
}

static void check(const tn__kernel *k, const sample *s, int depth)
{
    cells input[TN__KERNEL_MAX_INPUTS], weight[TN__KERNEL_MAX_OUTPUTS];
    tn_number param[3];
    for (int i = 0; i < 3; i++)
        param[i].f = s->param[i];
    for (int i = 0; i < k->input_count; i++)
        for (int c = 0; c < CELLS; c++)
            input[i][c] = between(s->low, s->high);
    for (int o = 0; o < k->output_count; o++)
        for (int c = 0; c < CELLS; c++)
            weight[o][c] = between(-1, 1);
    for (int wrt = 0; wrt < k->input_count; wrt++) {
        int used[TN__KERNEL_MAX_INPUTS];
        bool zero;
        const tn__kernel *g = tn__kernel_gradient(k, wrt, used, &zero);
        if (!g && !zero) {
            ok(false, "%s: %s", s->text, tn_error());
            tn_error_clear();
            continue;
        }
        double error = worst(k, g, wrt, used, input, weight, param);
        /* The error of finite differences is the squared step, 1e-10, times
         * the third derivative, some hundreds here, plus rounding of 1e-16 /
         * 1e-5. */
        if (!ok(error < 5e-7,
                "%s by %s%s agrees with differences: "
                "%.2g",
                s->text, k->input[wrt].name, depth ? ", second derivative" : "",
                error) &&
            g) {
            char *text = tn__kernel_text(g);
            note("%s", text);
            free(text);
        }
        if (g && !depth && !s->once)
            check(g, s, depth + 1);
    }
}

static void test_samples(void)
{
    const tn_dtype dtypes[] = {TN_F64, TN_F64, TN_F64};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        tn__def *def = tn__def_parse(samples[i].text, "sample");
        const tn__kernel *k = def ? tn__def_kernel(def, dtypes) : NULL;
        if (!k) {
            ok(false, "%s: %s", samples[i].text, tn_error());
            tn_error_clear();
            continue;
        }
        check(k, &samples[i], 0);
    }
}

/* ---- saved values, errors, hand-written gradients ------------------------ */

static const tn__kernel *kernel_of(const char *text, tn_dtype dtype)
{
    tn_dtype dtypes[TN__KERNEL_MAX_INPUTS];
    for (int i = 0; i < TN__KERNEL_MAX_INPUTS; i++)
        dtypes[i] = dtype;
    tn__def *def = tn__def_parse(text, "t");
    const tn__kernel *k = def ? tn__def_kernel(def, dtypes) : NULL;
    if (!k)
        bail_out("%s: %s", text, tn_error());
    return k;
}

/* A gradient saves only the values that it reads: "x", "out", "g", ... */
static void test_used(void)
{
    static const struct {
        const char *text, *used; /* used: the values that the gradient with
                                  * respect to the first input reads */
    } cases[] = {{"f(x) = exp(x)", "out g"},
                 {"f(x) = sigmoid(x)", "out g"},
                 {"f(x) = sqrt(x)", "out g"},
                 {"f(x, y) = x + y", "g"},
                 {"f(x, y) = x * y", "y g"},
                 {"f(x, y) = x / y", "y g"},
                 {"f(x) = x * x", "x g"},
                 {"f(x) = rsum(x)", "g"},
                 {"f(x) = rmean(x)", "g"},
                 {"f(x) = rmax(x)", "x out g"},
                 {"f(x) = relu(x)", "x g"},
                 {"f(x; p) = x * p", "g"},
                 {"f(x) = floor(x)", "zero"},
                 {"f(x) = x > 0", "zero"},
                 {"f(x, y) = stop(x) * y", "zero"},
                 {"f(x) = i32(x)", "zero"},
                 {"f(x, y) = y[i64(x)]", "zero"},
                 {"f(x, y) = x + y[1]", "g"},
                 {"f(x) = (exp(x), x * 2)", "out0 g0 g1"},
                 {"f(x) = (x > 0, x * 2)", "g1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tn__kernel *k = kernel_of(cases[i].text, TN_F64);
        int used[TN__KERNEL_MAX_INPUTS];
        bool zero;
        char names[128] = "";
        const tn__kernel *g = tn__kernel_gradient(k, 0, used, &zero);
        for (int n = 0; g && n < g->input_count; n++) {
            strcat(names, n ? " " : "");
            strcat(names, g->input[n].name);
        }
        is_str(zero ? "zero"
               : g  ? names
                    : tn_error(),
               cases[i].used, "the gradient of '%s' reads", cases[i].text);
        tn_error_clear();
    }
}

static void test_refused(void)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"f(x) = loop(i < 3; c = x) (c * x)",
         "the gradient of f with respect to x passes through a loop: write a "
         "gradient by hand"},
        {"f(x, y) = x[1] * y",
         "the gradient of f with respect to x passes through an indexed load: "
         "it needs a scatter"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tn__kernel *k = kernel_of(cases[i].text, TN_F64);
        int used[TN__KERNEL_MAX_INPUTS];
        bool zero;
        ok(!tn__kernel_gradient(k, 0, used, &zero) && !zero,
           "'%s' has no derived gradient", cases[i].text);
        is_str(tn_error(), cases[i].message, "and says why");
        is_int(tn_error_code(), TN_ERR_UNSUPPORTED, "its code");
        tn_error_clear();
    }
    const tn__kernel *k = kernel_of("f(x) = x * 2", TN_I32);
    int used[TN__KERNEL_MAX_INPUTS];
    bool zero = false;
    ok(!tn__kernel_gradient(k, 0, used, &zero) && zero && !tn_error(),
       "integers have none, and that is no error");
}

static void test_dtypes(void)
{
    static const tn_dtype dtypes[] = {TN_F16, TN_BF16, TN_F32, TN_F64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        const tn__kernel *k = kernel_of(
            "f(x) = let e = exp(x - rmax(x)); e / rsum(e)", dtypes[i]);
        int used[TN__KERNEL_MAX_INPUTS];
        bool zero;
        const tn__kernel *g = tn__kernel_gradient(k, 0, used, &zero);
        ok(g && g->out[0].dtype == dtypes[i] &&
               g->out[0].level == TN_LEVEL_ELEM,
           "a gradient has its input's dtype: %s", tn_dtype_name(dtypes[i]));
        ok(g == tn__kernel_gradient(k, 0, used, &zero), "it is made once");
    }
    tn__def *def = tn__def_parse("f(x, y) = x * y", "t");
    const tn_dtype mixed[] = {TN_F16, TN_F64};
    const tn__kernel *k = tn__def_kernel(def, mixed);
    int used[TN__KERNEL_MAX_INPUTS];
    bool zero;
    const tn__kernel *g = tn__kernel_gradient(k, 0, used, &zero);
    ok(g && g->out[0].dtype == TN_F16 && g->input[1].dtype == TN_F64,
       "also where the output's is wider");
}

/* Tests gradients that select a branch, at points where the other branch would
 * divide by 0. */
static void test_points(void)
{
    static const struct {
        const char *text;
        double x[LENGTH], want[LENGTH];
    } cases[] = {
        {"f(x) = relu(x)", {0, -0.0, 1, -1, 2}, {0, 0, 1, 0, 1}},
        {"f(x) = abs(x)", {0, -0.0, 1, -1, 2}, {0, 0, 1, -1, 1}},
        {"f(x) = max(x, 1)", {0, 1, 2, 1, 3}, {0, 0.5, 1, 0.5, 1}},
        {"f(x) = min(x, 1)", {0, 1, 2, 1, 3}, {1, 0.5, 0, 0.5, 0}},
        {"f(x) = rmax(x)", {3, 1, 3, 2, 3}, {1.0 / 3, 0, 1.0 / 3, 0, 1.0 / 3}},
        {"f(x) = rprod(x)", {1, 2, 3, 4, 5}, {120, 60, 40, 30, 24}},
        {"f(x) = rprod(x)", {1, 2, 0, 4, 5}, {0, 0, 40, 0, 0}},
        {"f(x) = rprod(x)", {0, 2, 0, 4, 5}, {0, 0, 0, 0, 0}},
        {"f(x) = sigmoid(x)", {-1000, 1000, 0, -800, 800}, {0, 0, 0.25, 0, 0}},
        {"f(x) = softplus(x)", {-1000, 1000, 0, -800, 800}, {0, 1, 0.5, 0, 1}},
        {"f(x) = where(x > 0, log(x), 0)",
         {-1, 0.5, 1, 2, -2},
         {0, 2, 1, 0.5, 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tn__kernel *k = kernel_of(cases[i].text, TN_F64);
        cells input[1], weight[1], out[1], got;
        for (int c = 0; c < CELLS; c++) {
            input[0][c] = cases[i].x[c % LENGTH];
            weight[0][c] = 1;
        }
        loss(k, input, weight, NULL, out);
        int used[TN__KERNEL_MAX_INPUTS];
        bool zero;
        const tn__kernel *g = tn__kernel_gradient(k, 0, used, &zero);
        void *data[4];
        int n = 0;
        for (; g && n < g->input_count; n++)
            data[n] = used[n] == 0 ? input : used[n] == 1 ? out : weight;
        data[n] = got;
        if (!ok(g && run_kernel(g, data, NULL) == TN_OK, "'%s' by x",
                cases[i].text))
            continue;
        for (int c = 0; c < LENGTH; c++)
            is_double_near(got[c], cases[i].want[c], 1e-15, "at %g",
                           cases[i].x[c]);
    }
}

/* Compares the derivative of a gradient by x at points where a product of
 * intermediate results would be 0 times infinity. */
static void test_points_again(void)
{
    static const struct {
        const char *text;
        double x[LENGTH], want[LENGTH];
    } cases[] = {
        {"g / (1 + exp(x))", {0, 800, -800, 1e300, -1e300}, {-0.25, 0, 0, 0, 0}},
        {"g / (1 + exp2(x))",
         {0, 2000, -2000, 1e300, -1e300},
         {-0.17328679513998632, 0, 0, 0, 0}},
        {"let s = 1 / (1 + exp(-x)); g * s * (1 - s)",
         {0, 40, 800, -40, -800},
         {0, -4.248354255291589e-18, 0, 4.248354255291589e-18, 0}},
        {"where(x == 0, 0, g / x)", {0, 1, 2, -1, -2}, {0, -1, -0.25, -1, -0.25}},
        {"where(x > 0, g * log(x), 0)", {0, 1, 2, -1, -2}, {0, 1, 0.5, 0, 0}},
        {"g * max(sqrt(x), 1)", {0, 0.25, 4, 16, 0}, {0, 0, 0.25, 0.125, 0}},
        {"g * min(1 / x, 1)", {0, 0.5, 2, 4, 0}, {0, 0, -0.25, -0.0625, 0}},
        {"g * sqrt(abs(x))", {4, -4, 1, -1, 16}, {0.25, -0.25, 0.5, -0.5, 0.125}},
        {"g * sqrt(abs(x))", {0, -0.0, 1, 0, 4}, {0, 0, 0.5, 0, 0.25}},
        {"let p = g * x; where(x < 3, p - stop(p), 7 * g)",
         {0, 1, 2, 3, 4},
         {1, 1, 1, 0, 0}}};
    tn__def *def = tn__def_parse("f(x) = x", "t");
    const tn_dtype dtypes[] = {TN_F64, TN_F64};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn__def *by_hand = tn__def_gradient_parse(def, 0, cases[i].text, "t/x");
        const tn__kernel *g = by_hand ? tn__def_kernel(by_hand, dtypes) : NULL;
        cells x, one, out, got;
        int used[TN__KERNEL_MAX_INPUTS], of[TN__KERNEL_MAX_INPUTS];
        int by = -1, n = 0;
        bool zero;
        void *data[5];
        for (int c = 0; c < CELLS; c++) {
            x[c] = cases[i].x[c % LENGTH];
            one[c] = 1;
        }
        int count = by_hand ? tn__def_gradient_used(by_hand, of) : 0;
        for (; n < count; n++) {
            by = of[n] == 0 ? n : by;
            data[n] = of[n] == 0 ? x : one;
        }
        data[n] = out;
        const tn__kernel *h =
            g && run_kernel(g, data, NULL) == TN_OK
                ? tn__kernel_gradient(g, by, used, &zero)
                : NULL;
        void *again[8];
        for (n = 0; h && n < h->input_count; n++)
            again[n] = used[n] < count ? data[used[n]]
                       : used[n] == count ? (void *)out
                                          : (void *)one;
        again[n] = got;
        if (!ok(h && run_kernel(h, again, NULL) == TN_OK, "'%s' by x again",
                cases[i].text))
            continue;
        for (int c = 0; c < LENGTH; c++)
            is_double_near(got[c], cases[i].want[c],
                           1e-15 * fabs(cases[i].want[c]), "at %g",
                           cases[i].x[c]);
    }
}

static void test_by_hand(void)
{
    tn__def *def =
        tn__def_parse("f(x, w: row; p) = loop(i < 3; c = x) (c * w * p)", "t");
    tn__def *g = tn__def_gradient_parse(def, 0, "g * out / x", "t/x");
    if (!ok(def && g, "a hand-written gradient is parsed"))
        return;
    int used[TN__KERNEL_MAX_INPUTS];
    is_int(tn__def_gradient_used(g, used), 3, "it reads only what it names");
    ok(used[0] == 0 && used[1] == 2 && used[2] == 3, "x, out and g");
    is_str(tn__def_input_name(g, 1), "out", "in that order");
    is_int(tn__def_param_count(g), 1, "and all parameters");
    is_str(tn__def_name(g), "f_grad_x", "its name");
    const tn_dtype dtypes[] = {TN_F64, TN_F64, TN_F64};
    const tn__kernel *k = tn__def_kernel(def, dtypes);
    const tn__kernel *gk = tn__def_kernel(g, dtypes);
    cells input[2], weight[1];
    const tn_number param[1] = {{.f = 0.75}};
    for (int c = 0; c < CELLS; c++) {
        input[0][c] = between(0.5, 2);
        input[1][c] = between(0.5, 2);
        weight[0][c] = between(-1, 1);
    }
    double error = worst(k, gk, 0, used, input, weight, param);
    ok(error < 5e-7, "it agrees with differences: %.2g", error);

    g = tn__def_gradient_parse(def, 1, "let s = g * out; rsum(3 * s / w)",
                               "t/w");
    ok(g && tn__def_gradient_used(g, used) == 3 && used[0] == 1 &&
           used[1] == 2 && used[2] == 3,
       "the gradient by w reads w, out and g");
    gk = g ? tn__def_kernel(g, dtypes) : NULL;
    ok(gk && gk->out[0].level == TN_LEVEL_ROW &&
           gk->input[0].level == TN_LEVEL_ROW &&
           gk->input[1].level == TN_LEVEL_ELEM,
       "at their levels");
    error = gk ? worst(k, gk, 1, used, input, weight, param) : NAN;
    ok(error < 5e-7, "and agrees with differences: %.2g", error);

    def = tn__def_parse("f(x) = (x - rmean(x), rmean(x))", "t");
    g = tn__def_gradient_parse(def, 0, "g0 - rmean(g0) + g1 / rlen()", "t");
    gk = g ? tn__def_kernel(g, dtypes) : NULL;
    ok(gk && gk->input[0].level == TN_LEVEL_ELEM &&
           gk->input[1].level == TN_LEVEL_ROW,
       "several cotangents have numbers, and the levels of their outputs");
    ok(!tn__def_gradient_parse(def, 0, "g0 + y", "t/y"),
       "unknown names are refused");
    is_str(tn_error(),
           "t/y:1:6: there is no 'y', only x, out0, out1, "
           "g0 and g1",
           "and the message lists the known ones");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    state = 20261121;
    note("seed %llu", (unsigned long long)state);
    test_samples();
    test_used();
    test_refused();
    test_dtypes();
    test_points();
    test_points_again();
    test_by_hand();
    return done_testing();
}
