/* test_pool.c: compares pooling by the device's extension with pooling by
 * primitives, which a device without the extension uses: bit-identical results,
 * forward and backward, for random shapes, with NaN, equal elements and signed
 * zeros. */
#include <tenon/tenon.h>

#include "same_bits.h"
#include "tap.h"

static uint64_t state = 88172645463325252u;

static int64_t pick(int64_t low, int64_t high)
{
    state ^= state << 13; /* xorshift64: Marsaglia, 2003 */
    state ^= state >> 7;
    state ^= state << 17;
    return low + (int64_t)(state % (uint64_t)(high - low + 1));
}

typedef struct shape {
    int64_t count, channels, size[2], kernel[2], stride[2], pad[2], dilation[2];
    int64_t divisor;
    bool ceil_mode, count_pad, special, turned;
    tn_dtype dtype;
} shape;

static shape random_shape(void)
{
    static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_F32, TN_F16};
    bool whole = pick(0, 7) == 0; /* one window covers the whole plane */
    shape s = {.count = pick(1, 4), .channels = pick(1, 9),
               .divisor = pick(0, 2) ? 0 : pick(1, 7),
               .ceil_mode = pick(0, 1), .count_pad = pick(0, 1),
               .special = pick(0, 1), .turned = pick(0, 5) == 0,
               .dtype = dtypes[pick(0, 3)]};
    for (int a = 0; a < 2; a++) {
        s.kernel[a] = pick(1, 6);
        s.stride[a] = pick(1, 4);
        s.pad[a] = pick(0, s.kernel[a] / 2);
        s.dilation[a] = pick(1, 2);
        s.size[a] = s.kernel[a] * s.dilation[a] + pick(0, 40);
    }
    for (int a = 0; a < 2 && whole; a++) {
        s.size[a] = s.kernel[a] = pick(1, 33);
        s.pad[a] = 0;
        s.dilation[a] = 1;
    }
    bool beside = !whole && pick(0, 2) == 0; /* windows do not overlap */
    bool wide = pick(0, 1);
    for (int a = 0; a < 2 && beside; a++) {
        s.kernel[a] = s.stride[a] =
            a && wide ? pick(3, 19) : pick(1, a ? 2 : 17);
        s.pad[a] = 0;
        s.dilation[a] = 1;
        s.size[a] = s.kernel[a] * pick(1, a ? wide ? 9 : 40 : 5) + pick(0, 1);
    }
    if (beside && pick(0, 3) == 0)
        s.stride[0] = pick(1, 4);
    return s;
}

/* Returns few different numbers, so that windows contain equal ones. */
static tn_tensor *numbers(const shape *s, const int64_t *size)
{
    tn_dims_list dims = tn_dims(s->count, s->channels, size[0], size[1]);
    tn_tensor *x = tn_div_scalar(
        tn_to_dtype(tn_randint(-9, 9, dims), s->dtype), 7);
    static const double odd[] = {(double)NAN, -0.0};
    for (int i = 0; s->special && i < 2; i++)
        x = tn_where(tn_lt_scalar(tn_rand(dims), i ? 0.2 : 0.02),
                     tn_full(tn_dims(1), odd[i], .dtype = s->dtype), x);
    /* The columns are not adjacent in memory; the cpu plugin declines these. */
    return s->turned ? tn_transpose(tn_contiguous(tn_transpose(x, 2, 3)), 2, 3)
                     : x;
}

/* out[] gets the result, the gradient, the indices, and the result computed
 * without recording gradients. */
static void run(const shape *s, uint64_t seed, bool max, tn_tensor *out[4])
{
    tn_manual_seed(seed);
    tn_tensor *x = tn_requires_grad(tn_detach(numbers(s, s->size)));
    const tn_dims_list kernel = tn_dims(s->kernel[0], s->kernel[1]);
    const tn_dims_list stride = tn_dims(s->stride[0], s->stride[1]);
    const tn_dims_list pad = tn_dims(s->pad[0], s->pad[1]);
    const tn_dims_list dilation = tn_dims(s->dilation[0], s->dilation[1]);
    out[2] = out[3] = NULL;
    if (max) {
        out[3] = tn_max_pool2d(tn_detach(x), kernel, .strides = tn_dims_from_array(stride.dim, stride.count),
                               .paddings = tn_dims_from_array(pad.dim, pad.count), .dilations = tn_dims_from_array(dilation.dim, dilation.count),
                               .ceil_mode = s->ceil_mode);
        out[0] = tn_max_pool2d_with_indices(
            x, kernel, &out[2], .strides = tn_dims_from_array(stride.dim, stride.count), .paddings = tn_dims_from_array(pad.dim, pad.count),
            .dilations = tn_dims_from_array(dilation.dim, dilation.count), .ceil_mode = s->ceil_mode);
    } else {
        out[0] = tn_avg_pool2d(x, kernel, .strides = tn_dims_from_array(stride.dim, stride.count), .paddings = tn_dims_from_array(pad.dim, pad.count),
                               .ceil_mode = s->ceil_mode,
                               .count_include_pad = s->count_pad,
                               .divisor_override =
                                   s->divisor ? s->divisor : TN_NONE_INT);
    }
    if (!out[0])
        return;
    const int64_t *size = tn_tensor_shape(out[0]) + 2;
    tn_tensor *const inputs[] = {x};
    tn_grad(out[0], inputs, 1, &out[1], .gradient = numbers(s, size));
}

static bool agrees(const shape *s, uint64_t seed, bool max)
{
    tn_tensor *a[4], *b[4];
    tn_device_mask(NULL, NULL);
    run(s, seed, max, a);
    tn_device_mask(NULL, "pool");
    run(s, seed, max, b);
    tn_device_mask(NULL, NULL);
    bool good = !tn_error();
    if (good && same_bits(a[0], b[0]) && same_bits(a[1], b[1]) &&
        (!max || (same_bits(a[2], b[2]) && same_bits(a[0], a[3]) &&
                  same_bits(b[0], b[3]))))
        return true;
    note("%s", good ? "they differ" : tn_error());
    note("%s of (%d, %d, %d, %d) %s by %d x %d, stride %d %d, pad %d %d, "
         "dilation %d %d%s%s, divisor %d, seed %d", max ? "max" : "avg",
         (int)s->count, (int)s->channels, (int)s->size[0], (int)s->size[1],
         tn_dtype_name(s->dtype), (int)s->kernel[0], (int)s->kernel[1],
         (int)s->stride[0], (int)s->stride[1], (int)s->pad[0],
         (int)s->pad[1], (int)s->dilation[0], (int)s->dilation[1],
         s->ceil_mode ? ", ceil" : "", s->count_pad ? ", pad counts" : "",
         (int)s->divisor, (int)seed);
    tn_error_clear();
    return false;
}

/* Padding is never the maximum, even if all elements are -inf. */
static void test_least(const char *mask, const char *how)
{
    float row[4] = {0}, want[] = {0, 1, 4, 5};
    tn_device_mask(NULL, mask);
    tn_tensor *x = tn_requires_grad(
        tn_full(tn_dims(1, 1, 4, 4), -(double)INFINITY)), *index;
    tn_tensor *y = tn_max_pool2d_with_indices(
        x, tn_dims(3, 3), &index, .strides = tn_dims(2, 2),
        .paddings = tn_dims(1, 1));
    tn_tensor_to_array(tn_to_dtype(index, TN_F32), row, sizeof row);
    ok(tn_backward(tn_sum(y)) == TN_OK && memcmp(row, want, sizeof row) == 0,
       "%s: of nothing but -inf the first within the image", how);
    tn_device_mask(NULL, NULL);
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    for (int max = 0; max < 2; max++) {
        bool good = true;
        for (uint64_t i = 0; i < 100 && good; i++) {
            tn_scope *scope = tn_scope_open();
            shape s = random_shape();
            good = agrees(&s, i, max);
            tn_scope_close(scope);
        }
        ok(good, "100 random %s_pool2d: the bits of the primitives",
           max ? "max" : "avg");
    }
    test_least(NULL, "extension");
    test_least("pool", "primitives");
    shape wide = {3, 5, {70, 131}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 0,
                  false, false, true, false, TN_F32};
    ok(agrees(&wide, 1, true), "greatest of 3 x 3 in several tasks and bands");
    ok(agrees(&wide, 1, false), "means of 3 x 3 in several tasks and bands");
    static const int64_t kernels[][2] = {{8, 8}, {9, 4}, {20, 1}, {5, 16}};
    bool good = true;
    for (int i = 0; i < 8 && good; i++) {
        const int64_t *k = kernels[i / 2];
        shape lines = {.count = 2, .channels = 3, .size = {57, 70},
                       .kernel = {k[0], k[1]}, .stride = {k[0] - i % 2, k[1]},
                       .pad = {i % 2 * k[0] / 2, 0}, .dilation = {1, 1},
                       .special = true, .dtype = i % 3 ? TN_F32 : TN_F64};
        good = agrees(&lines, (uint64_t)i, false);
    }
    ok(good, "means of adjacent windows, a row at a time");
    good = true;
    for (int i = 0; i < 12 && good; i++) {
        /* more rows of windows than columns, or fewer */
        shape narrow = {.count = 2, .channels = 3,
                        .size = {i % 2 ? 26 : 7, i % 2 ? 9 : 30},
                        .kernel = {1 + i % 3, 1 + i / 3 % 2},
                        .stride = {1 + i % 2, 1 + i / 3 % 2},
                        .dilation = {1, 1}, .dtype = i % 4 ? TN_F32 : TN_F64};
        good = agrees(&narrow, (uint64_t)i, false);
    }
    ok(good, "means of adjacent windows of one or two columns");
    good = true;
    for (int i = 0; i < 60 && good; i++) {
        const int64_t step = 1 + i % 2;
        shape beside = {.count = 2, .channels = 3,
                        .size = {pick(4, 9), pick(8, 90)},
                        .kernel = {pick(1, 3), pick(1, 4)},
                        .stride = {pick(1, 3), step},
                        .dilation = {pick(1, 2), pick(1, 2)},
                        .ceil_mode = pick(0, 1), .special = i % 4 == 0,
                        .dtype = TN_F32};
        for (int a = 0; a < 2; a++)
            beside.pad[a] = pick(0, beside.kernel[a] / 2);
        good = agrees(&beside, (uint64_t)i, true);
    }
    ok(good, "maxima of adjacent windows, or of every second one");
    return done_testing();
}
