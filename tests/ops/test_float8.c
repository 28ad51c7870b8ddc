/* test_float8.c: float8 tensors are stored, converted and moved, with identical
 * bits on every device.
 *
 * Conversion rounds to nearest, ties to even, and saturates: a finite number
 * beyond the largest one becomes that one. The test compares with a search
 * through all codes. PyTorch 2.15's Tensor.to gives the same codes, except that
 * its float8_e5m2 becomes infinite beyond the range. */
#include <tenon/tenon.h>

#include "tap.h"

enum { CODES = 256, HALVES = 1 << 16 };

/* ---- definition of the formats ------------------------------------------- */

typedef struct format {
    tn_dtype dtype;
    int mantissa_bits, bias;
    uint8_t largest; /* code of the largest finite number */
    bool infinite;   /* has infinities, whose code follows the largest finite
                      * number */
} format;

static const format formats[] = {{TN_F8E4M3, 3, 7, 0x7e, false},
                                 {TN_F8E5M2, 2, 15, 0x7b, true}};

/* Returns the value of a code; NaN if the code is not finite. */
static double value_of(const format *f, int code)
{
    int magnitude = code & 0x7f, one = 1 << f->mantissa_bits;
    if (magnitude > f->largest)
        return NAN;
    int exponent = magnitude >> f->mantissa_bits, mantissa = magnitude % one;
    double x = exponent ? ldexp(one + mantissa, exponent - f->bias)
                        : ldexp(mantissa, 1 - f->bias);
    x = ldexp(x, -f->mantissa_bits);
    return code & 0x80 ? -x : x;
}

/* Returns the values of the codes without a sign. */
static const double *values(const format *f)
{
    static double table[2][CODES / 2];
    double *value = table[f - formats];
    if (value[1] == 0)
        for (int code = 0; code < CODES / 2; code++)
            value[code] = value_of(f, code);
    return value;
}

/* Returns the code nearest to x; of two equally near codes the even one. */
static uint8_t nearest(const format *f, double x)
{
    const double *value = values(f);
    uint8_t sign = signbit(x) ? 0x80 : 0;
    if (isinf(x))
        return sign | (f->infinite ? f->largest + 1 : f->largest);
    if (fabs(x) >= value_of(f, f->largest))
        return sign | f->largest;
    uint8_t best = 0;
    for (int code = 1; code <= f->largest; code++) {
        double near = fabs(value[best] - fabs(x)),
               next = fabs(value[code] - fabs(x));
        if (next < near || (next == near && code % 2 == 0))
            best = (uint8_t)code;
    }
    return best | sign;
}

/* ---- conversions --------------------------------------------------------- */

static bool same(const format *f, uint8_t got, double x)
{
    if (isnan(x))
        return (got & 0x7f) > f->largest + f->infinite;
    return got == nearest(f, x);
}

/* Converts every midpoint between two codes, and the float32 and float64
 * numbers next to it. */
static void check_rounding(const format *f)
{
    static double x[3 * HALVES];
    static float single[3 * HALVES];
    static uint8_t got[3 * HALVES];
    static uint16_t code[HALVES];
    for (int i = 0; i < HALVES; i++)
        code[i] = (uint16_t)i;
    tn_tensor *half = tn_tensor_from_array(code, TN_F16, tn_dims(HALVES));
    tn_tensor_to_array(tn_to_dtype(half, f->dtype), got, HALVES);
    tn_tensor_to_array(tn_to_dtype(half, TN_F64), x, HALVES * sizeof *x);
    int wrong = 0;
    for (int i = 0; i < HALVES; i++)
        wrong += !same(f, got[i], x[i]);
    is_int(wrong, 0, "each float16 becomes the nearest %s",
           tn_dtype_name(f->dtype));
    for (int i = 0; i < HALVES; i++) {
        single[3 * i] = (float)x[i];
        single[3 * i + 1] = nextafterf((float)x[i], INFINITY);
        single[3 * i + 2] = nextafterf((float)x[i], -INFINITY);
    }
    tn_tensor *y = tn_tensor_from_array(single, TN_F32, tn_dims(3 * HALVES));
    tn_tensor_to_array(tn_to_dtype(y, f->dtype), got, sizeof got);
    wrong = 0;
    for (int i = 0; i < 3 * HALVES; i++)
        wrong += !same(f, got[i], single[i]);
    is_int(wrong, 0, "and each float32 beside one");
    y = tn_to_dtype(tn_to_dtype(y, TN_F64), f->dtype);
    static uint8_t again[3 * HALVES];
    tn_tensor_to_array(y, again, sizeof again);
    ok(memcmp(got, again, sizeof got) == 0, "float64 by way of float32");
    const int64_t whole[] = {3, -17, 1000000, 0};
    uint8_t few[4];
    tn_tensor_to_array(
        tn_to_dtype(tn_tensor_from_array(whole, TN_I64, tn_dims(4)), f->dtype),
        few, sizeof few);
    wrong = 0;
    for (int i = 0; i < 4; i++)
        wrong += few[i] != nearest(f, (double)whole[i]);
    is_int(wrong, 0, "whole numbers too");
}

static tn_tensor *all_codes(const format *f)
{
    uint8_t code[CODES];
    for (int i = 0; i < CODES; i++)
        code[i] = (uint8_t)i;
    return tn_tensor_from_array(code, f->dtype, tn_dims(CODES));
}

static void check_codes(const format *f)
{
    float x[CODES];
    uint8_t back[CODES];
    tn_tensor *wide = tn_to_dtype(all_codes(f), TN_F32);
    tn_tensor_to_array(wide, x, sizeof x);
    tn_tensor_to_array(tn_to_dtype(wide, f->dtype), back, sizeof back);
    int wrong = 0, changed = 0;
    for (int i = 0; i < CODES; i++) {
        int magnitude = i & 0x7f;
        bool infinity = f->infinite && magnitude == f->largest + 1;
        double want = infinity ? copysign(INFINITY, i & 0x80 ? -1 : 1)
                               : value_of(f, i);
        wrong += !(isnan(want) ? isnan(x[i])
                               : (double)x[i] == want &&
                                     !signbit(x[i]) == !signbit(want));
        changed += isnan(want) ? !same(f, back[i], NAN) : back[i] != i;
    }
    is_int(wrong, 0, "each code of %s has its value", tn_dtype_name(f->dtype));
    is_int(changed, 0, "and comes back from float32");
}

/* ---- operations on stored tensors ---------------------------------------- */

static bool holds(tn_tensor *x, const uint8_t *want, size_t count)
{
    uint8_t got[16];
    return tn_tensor_to_array(x, got, count) == TN_OK &&
           memcmp(got, want, count) == 0;
}

static void check_moves(const format *f)
{
    const uint8_t codes[] = {1, 2, 3, 4, 5, 6};
    tn_tensor *x = tn_tensor_from_array(codes, f->dtype, tn_dims(2, 3));
    ok(holds(tn_contiguous(tn_transpose(x, 0, 1)),
             (const uint8_t[]){1, 4, 2, 5, 3, 6}, 6),
       "%s is copied through a transposed view", tn_dtype_name(f->dtype));
    tn_tensor *both[] = {x, x};
    ok(holds(tn_cat(both, 2, 1),
             (const uint8_t[]){1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}, 12),
       "joined");
    const int64_t rows[] = {1, 1};
    ok(holds(tn_index_select(
                 x, 0, tn_tensor_from_array(rows, TN_I64, tn_dims(2))),
             (const uint8_t[]){4, 5, 6, 4, 5, 6}, 6),
       "read by index");
    uint8_t one = nearest(f, 1.1);
    ok(holds(tn_full(tn_dims(2), 1.1, .dtype = f->dtype),
             (const uint8_t[]){one, one}, 2),
       "filled");
    ok(tn_copy_(tn_select(x, 0, 0), tn_full(tn_dims(3), 1.1)) &&
           holds(x, (const uint8_t[]){one, one, one, 4, 5, 6}, 6),
       "written into, converted on the way");
    tn_tensor *w = tn_requires_grad(tn_full(tn_dims(2), 0.3));
    tn_tensor *stored = tn_to_dtype(w, f->dtype);
    tn_backward(tn_sum(tn_mul_scalar(tn_to_dtype(stored, TN_F32), 3)));
    float grad[2];
    tn_tensor_to_array(tn_tensor_grad(w), grad, sizeof grad);
    ok(grad[0] == 3 && grad[1] == 3, "a gradient flows through");
    ok(!tn_error(), "no error: %s", tn_error() ? tn_error() : "none");
}

static void check_mistakes(const format *f)
{
    tn_tensor *x = tn_ones(tn_dims(2), .dtype = f->dtype);
    ok(!tn_add(x, tn_ones(tn_dims(2))), "float8 plus float32 is refused");
    is_int(tn_error_code(), TN_ERR_DTYPE, "for their dtypes");
    ok(tn_error() && strstr(tn_error(), "add: input is float8") &&
           strstr(tn_error(), "convert with tn_to_dtype"),
       "with the remedy: %s", tn_error());
    tn_error_clear();
}

/* ---- products with scales ------------------------------------------------ */

/* Returns a tensor (n, 32) whose k-th element is k % turn - turn / 2. */
static tn_tensor *ramp(int64_t n, int turn, tn_dtype dtype)
{
    tn_tensor *x = tn_remainder_scalar(tn_arange(0, 32 * n, 1), turn);
    x = tn_reshape(tn_sub_scalar(x, turn / 2), tn_dims(n, 32));
    return tn_to_dtype(x, dtype);
}

static void is_row(tn_tensor *y, tn_dtype dtype, const char *want,
                   const char *text)
{
    char got[128] = "";
    for (int i = 0; i < 6 && y; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%g ",
                 tn_item(tn_to_dtype(tn_narrow(tn_narrow(y, 0, 0, 1), 1, i, 1),
                                     TN_F32)));
    is_str(got, want, "scaled_mm: %s", text);
    ok(y && tn_tensor_dtype(y) == dtype, "  and its dtype");
}

/* The expected results are those of torch._scaled_mm in PyTorch 2.15. */
static void test_scaled_mm(void)
{
    tn_tensor *a = ramp(16, 13, TN_F8E4M3), *b = tn_t(ramp(16, 7, TN_F8E5M2));
    tn_tensor *half = tn_full(TN_SCALAR, 0.5), *three = tn_full(TN_SCALAR, 3.0);
    static const char plain[] = "42 -84 115.5 -94.5 94.5 -52.5 ";
    is_row(tn_scaled_mm(a, b, half, three, NULL, .out_dtype = TN_F32), TN_F32,
           plain, "in float32");
    is_row(tn_scaled_mm(a, b, half, three, NULL), TN_F8E4M3,
           "40 -80 112 -96 96 -52 ", "in input's dtype");
    is_row(tn_scaled_mm(a, b, tn_full(tn_dims(16, 1), 0.5),
                        tn_full(tn_dims(1, 16), 3.0), NULL, .out_dtype = TN_BF16),
           TN_BF16, plain, "a scale for each row and column");
    is_row(tn_scaled_mm(a, b, half, three,
                        tn_to_dtype(tn_arange(0, 16, 1), TN_BF16),
                        .out_dtype = TN_BF16),
           TN_BF16, "42 -83 117.5 -91.5 98.5 -47.5 ", "with a bias");
    ok(!tn_scaled_mm(half, b, half, three, NULL), "no float8 is refused");
    is_str(tn_error(), "scaled_mm: input is float32; expected float8: use "
                       "tn_mm for other dtypes", "  in these words");
    tn_error_clear();
    ok(!tn_scaled_mm(a, a, half, three, NULL), "sizes that do not fit are");
    tn_error_clear();
    ok(!tn_scaled_mm(a, b, tn_full(tn_dims(1, 16), 1.0), three, NULL),
       "and so is a scale of a call that is no row");
    is_str(tn_error(), "scaled_mm: scale_a (1, 16) is neither one number nor "
                       "(16, 1)", "  in these words");
    tn_error_clear();
    ok(!tn_scaled_mm(a, b, half, three, tn_arange(0, 16, 1, .dtype = TN_I64),
                     .out_dtype = TN_BF16), "a bias of whole numbers is");
    is_str(tn_error(), "scaled_mm: bias is int64; convert it to float32 or "
                       "out_dtype with tn_to_dtype", "  in these words");
    tn_error_clear();
    tn_tensor *bias = tn_requires_grad(tn_ones(tn_dims(16)));
    tn_tensor *y = tn_scaled_mm(a, b, half, three, bias, .out_dtype = TN_F32);
    is_int(tn_backward(tn_sum(y)), TN_ERR_UNSUPPORTED, "and its gradient");
    is_str(tn_error(), "backward of scaled_mm: scaled_mm: the operator has no "
                       "gradient: use tn_linear or tn_matmul, which have one",
           "  in these words");
    ok(!tn_tensor_grad(bias), "  which it has not");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    static const char *const devices[] = {"reference", "cpu", "opencl"};
    for (int d = 0; d < 3; d++) {
        tn_device *device = tn_device_open(devices[d]);
        if (!device) {
            skip(1, tn_error());
            tn_error_clear();
            continue;
        }
        note("on %s", tn_device_name(device));
        tn_device_set(device);
        for (int k = 0; k < 2; k++) {
            tn_scope *scope = tn_scope_open();
            check_codes(&formats[k]);
            check_rounding(&formats[k]);
            check_moves(&formats[k]);
            check_mistakes(&formats[k]);
            tn_scope_close(scope);
        }
        test_scaled_mm();
    }
    return done_testing();
}
