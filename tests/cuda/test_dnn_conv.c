/* On a GPU with cuDNN, its convolutions and their gradients have no larger
 * errors than sums in their dtype, compared with float64 on the cpu: no TF32
 * and no less accurate transform is used. SKIP without such a GPU. */
#include "../plugins/folder.h"
#include <tenon/tenon.h>

#include <math.h>

typedef struct sizes {
    tn_dtype dtype;
    int64_t count, in, out, size[2], kernel[2], stride[2], pad[2], dilation[2],
        groups;
    bool last[2];  /* channels-last layout of the input and of the weight */
    bool expanded; /* the output's gradient is broadcast: one number for each
                    * channel */
} sizes;

#define SQUARE(dtype, n, in, out, size, kernel, stride, pad)                  \
    {dtype, n, in, out, {size, size}, {kernel, kernel}, {stride, stride},     \
     {pad, pad}, {1, 1}, 1, {false, false}, false}

static const sizes all[] = {
    /* layers of ResNets for images of 32 x 32 and of 224 x 224 */
    SQUARE(TN_F32, 32, 3, 16, 32, 3, 1, 1),
    SQUARE(TN_F32, 32, 16, 16, 32, 3, 1, 1),
    SQUARE(TN_F32, 32, 16, 32, 32, 3, 2, 1),
    SQUARE(TN_F32, 32, 16, 32, 32, 1, 2, 0),
    SQUARE(TN_F32, 32, 32, 32, 16, 3, 1, 1),
    SQUARE(TN_F32, 32, 32, 64, 16, 3, 2, 1),
    SQUARE(TN_F32, 32, 32, 64, 16, 1, 2, 0),
    SQUARE(TN_F32, 32, 64, 64, 8, 3, 1, 1),
    SQUARE(TN_F32, 2, 3, 64, 224, 7, 2, 3),
    SQUARE(TN_F32, 2, 64, 256, 56, 1, 1, 0),
    SQUARE(TN_F32, 2, 256, 256, 14, 3, 1, 1),
    SQUARE(TN_F32, 4, 8, 8, 28, 5, 1, 2),
    SQUARE(TN_F64, 4, 8, 12, 17, 3, 1, 1),
    SQUARE(TN_F16, 8, 64, 64, 14, 3, 1, 1),
    SQUARE(TN_BF16, 8, 64, 64, 14, 3, 1, 1),
    SQUARE(TN_F16, 4, 3, 64, 56, 7, 2, 3),
    SQUARE(TN_BF16, 3, 5, 7, 13, 3, 2, 1),
    /* depthwise convolutions, dilated windows, long windows */
    {TN_F32, 4, 32, 32, {20, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 32,
     {false, false}, false},
    {TN_BF16, 4, 6, 4, {9, 14}, {3, 2}, {3, 3}, {1, 1}, {1, 2}, 2,
     {false, false}, false},
    {TN_F32, 3, 6, 9, {19, 23}, {3, 3}, {1, 2}, {2, 2}, {2, 2}, 3,
     {false, false}, false},
    {TN_F32, 2, 4, 6, {1, 200}, {1, 9}, {1, 1}, {0, 4}, {1, 1}, 1,
     {false, false}, false},
    /* the last window ends before the padding does */
    {TN_F32, 2, 6, 4, {8, 8}, {4, 4}, {3, 3}, {2, 2}, {1, 1}, 1,
     {false, false}, false},
    {TN_BF16, 2, 6, 4, {8, 10}, {4, 4}, {3, 3}, {2, 2}, {1, 1}, 2,
     {false, false}, false},
    /* channels-last layout of both, of the input alone, of the weight alone */
    {TN_F32, 4, 16, 24, {15, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1,
     {true, true}, false},
    {TN_F32, 4, 16, 24, {15, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1,
     {true, false}, false},
    {TN_F16, 4, 16, 24, {15, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1,
     {true, true}, false},
    {TN_F16, 4, 16, 24, {15, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1,
     {true, false}, false},
    {TN_BF16, 4, 16, 24, {15, 15}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 1,
     {false, true}, false},
    {TN_F32, 4, 16, 24, {15, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1,
     {false, false}, true},
    {TN_F16, 4, 16, 24, {15, 15}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1,
     {false, false}, true},
};
enum { CASES = sizeof all / sizeof *all, RESULTS = 3 };

static int taken; /* number of convolutions that cuDNN computed, from the log */

static void look(int level, const char *line, void *context)
{
    (void)level;
    (void)context;
    if (strstr(line, ": cuDNN ") && !strstr(line, "attention")) {
        taken += strstr(line, "computes") != NULL;
        note("%s", line);
    }
}

/* Returns the same numbers each time, rounded to the dtype, as float64 on the
 * cpu. */
static tn_tensor *some(const sizes *s, int64_t a, int64_t b, const int64_t *c)
{
    return tn_to_dtype(tn_to_dtype(tn_randn(tn_dims(a, b, c[0], c[1])),
                                   s->dtype),
                       TN_F64);
}

static tn_tensor *laid(tn_tensor *x, bool last)
{
    return last ? tn_permute(tn_contiguous(tn_permute(x, tn_dims(0, 2, 3, 1))),
                             tn_dims(0, 3, 1, 2))
                : x;
}

/* Computes the result and the gradients of input and weight, as float64 on the
 * cpu. If g is NULL, only the result, for its shape. */
static void run(const sizes *s, tn_tensor *x, tn_tensor *w, tn_tensor *g,
                tn_tensor *out[RESULTS])
{
    tn_device *cpu = tn_device_open("cpu");
    tn_tensor *in[] = {tn_requires_grad(x), tn_requires_grad(w)};
    out[0] = tn_conv2d(x, w, NULL, .strides = tn_dims(s->stride[0], s->stride[1]),
                       .paddings = tn_dims(s->pad[0], s->pad[1]),
                       .dilations = tn_dims(s->dilation[0], s->dilation[1]),
                       .groups = s->groups);
    if (g)
        tn_grad(out[0], in, 2, out + 1, .gradient = g);
    for (int i = 0; i < (g ? RESULTS : 1); i++)
        out[i] = out[i] ? tn_to_dtype(tn_to(tn_detach(out[i]), cpu), TN_F64)
                        : NULL;
}

/* Returns the largest error relative to the sum of absolute values, in units of
 * half an ulp of 1 in the dtype of the sum, minus the possible rounding when
 * the result is stored. */
static double worst(const sizes *s, tn_tensor *got, tn_tensor *want,
                    tn_tensor *scale)
{
    const double unit = s->dtype == TN_F64 ? 0x1p-53 : 0x1p-24;
    const double store = s->dtype == TN_F16    ? 0x1p-11
                         : s->dtype == TN_BF16 ? 0x1p-8
                                               : 0;
    tn_tensor *error = tn_abs(tn_sub(got, want));
    error = tn_sub(error, tn_mul_scalar(tn_abs(want), 1.01 * store));
    if (s->dtype == TN_F16) /* the spacing of subnormal float16 numbers is
                             * 2^-24, so rounding a small result may add an
                             * error of 2^-25 */
        error = tn_sub_scalar(error, 0x1p-25);
    return tn_item(tn_max(tn_div(tn_relu(error),
                                 tn_add_scalar(tn_mul_scalar(scale, unit),
                                               1e-300))));
}

static void check(const sizes *s, tn_device *device)
{
    static const char *const names[] = {"result", "input", "weight"};
    tn_device *cpu = tn_device_open("cpu");
    tn_tensor *got[RESULTS], *want[RESULTS], *scale[RESULTS];
    tn_device_set(cpu);
    tn_manual_seed(7);
    tn_tensor *x = some(s, s->count, s->in, s->size);
    tn_tensor *w = some(s, s->out, s->in / s->groups, s->kernel);
    run(s, tn_detach(x), tn_detach(w), NULL, want);
    tn_tensor *g = s->expanded
                       ? tn_expand_as(tn_to_dtype(tn_to_dtype(
                                       tn_randn(tn_dims(1, s->out, 1, 1)),
                                       s->dtype), TN_F64),
                                      want[0])
                       : tn_to_dtype(tn_to_dtype(tn_randn_like(want[0]),
                                                 s->dtype), TN_F64);
    run(s, tn_detach(x), tn_detach(w), g, want);
    run(s, tn_detach(tn_abs(x)), tn_detach(tn_abs(w)), tn_abs(g), scale);
    const int before = taken;
    tn_tensor *one = tn_to_dtype(tn_to(x, device), s->dtype);
    tn_tensor *two = tn_to_dtype(tn_to(w, device), s->dtype);
    tn_tensor *back = tn_to_dtype(
        tn_to(s->expanded ? tn_narrow(tn_narrow(tn_narrow(g, 0, 0, 1), 2, 0, 1),
                                      3, 0, 1)
                          : g,
              device),
        s->dtype);
    tn_device_set(device);
    if (s->expanded)
        back = tn_expand(back, tn_dims(s->count, s->out,
                                       tn_tensor_size(want[0], 2),
                                       tn_tensor_size(want[0], 3)));
    run(s, tn_detach(laid(one, s->last[0])), tn_detach(laid(two, s->last[1])),
        back, got);
    tn_device_set(cpu);
    /* The number of products in each sum. TF32 would cause errors of 10^4 /
     * sqrt(terms) units. cuDNN's engine for 3 x 3 weight gradients, which
     * transforms tiles, causes up to 650 / sqrt(terms) + 9 units. */
    const double outs = (double)tn_tensor_numel(want[0]) / (double)s->out;
    const double taps = (double)(s->kernel[0] * s->kernel[1]);
    const double terms[] = {taps * (double)(s->in / s->groups),
                            taps * (double)(s->out / s->groups), outs};
    note("%s (%d, %d, %d x %d) to %d by %d x %d, %d groups: cuDNN took %d",
         tn_dtype_name(s->dtype), (int)s->count, (int)s->in, (int)s->size[0],
         (int)s->size[1], (int)s->out, (int)s->kernel[0], (int)s->kernel[1],
         (int)s->groups, taken - before);
    for (int i = 0; i < RESULTS; i++) {
        double by = got[i] && want[i] ? worst(s, got[i], want[i], scale[i])
                                      : NAN;
        double limit = s->dtype == TN_F32 ? 16 + 800 / sqrt(terms[i])
                                          : 8 + 256 / sqrt(terms[i]);
        ok(by <= limit, "%s is off by %.3g units of %.3g%s%s", names[i], by,
           limit, tn_error() ? ": " : "", tn_error() ? tn_error() : "");
        tn_error_clear();
    }
}

int main(void)
{
    plan_later();
    setenv("TENON_LOG", "3", 1);
    tn_log_set(look, NULL);
    tn_device *device = tn_device_open("cuda");
    for (int c = 0; c < CASES && device; c++) {
        tn_scope *scope = tn_scope_open();
        check(&all[c], device);
        tn_scope_close(scope);
        if (!taken && !getenv("TN_TEST_OWN_CONV"))
            break; /* cuDNN is not installed */
    }
    if (!taken)
        skip(1, device ? "cuDNN is not here" : tn_error());
    return done_testing();
}
