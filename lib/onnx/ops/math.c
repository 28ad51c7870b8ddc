/* math.c: element-wise arithmetic, comparison and conversion. */
#include <onnx/ops/ops.h>

#include <string.h>

static bool is_float(const tn_tensor *x)
{
    return tn_dtype_is_floating(tn_tensor_dtype(x));
}

static tn_tensor *add(tn_tensor *a, tn_tensor *b)
{
    return tn_add_with(a, b, NULL);
}
static tn_tensor *sub(tn_tensor *a, tn_tensor *b)
{
    return tn_sub_with(a, b, NULL);
}
/* Integer division truncates, as in C. */
static tn_tensor *divide(tn_tensor *a, tn_tensor *b)
{
    return is_float(a) ? tn_div_with(a, b, NULL)
                       : tn_div(a, b, .rounding_mode = "trunc");
}

static void mod(tn__onnx_call *c)
{
    const bool fmod = tn__onnx_int(c, 0) != 0;
    if (!fmod && is_float(c->x[0])) {
        tn__onnx_refuse(c, TN_ERR_DTYPE, "attribute \"fmod\" must be 1 for %s",
                        tn_dtype_name(tn_tensor_dtype(c->x[0])));
        return;
    }
    c->y[0] = fmod ? tn_fmod(c->x[0], c->x[1]) : tn_remainder(c->x[0], c->x[1]);
}

/* The result has the dtype of the base, not the promoted one. */
static void power(tn__onnx_call *c)
{
    const tn_dtype dtype = tn_tensor_dtype(c->x[0]);
    double exponent;
    c->y_type[0] = c->x_type[0];
    /* tn_pow_scalar computes squares and roots without a general power */
    if (is_float(c->x[0]) && c->value[1]->fixed && c->value[1]->host &&
        tn_tensor_numel(c->x[1]) == 1 &&
        tn_tensor_ndim(c->x[1]) <= tn_tensor_ndim(c->x[0]) &&
        tn__onnx_floats(c, 1, &exponent, 1) == 1)
        c->y[0] = tn_to_dtype(tn_pow_scalar(c->x[0], exponent), dtype);
    else
        c->y[0] = tn_to_dtype(tn_pow(c->x[0], c->x[1]), dtype);
}

/* Max, Min and Sum: applies a binary operator from the first input to the
 * last. */
static void chain(tn__onnx_call *c)
{
    tn_tensor *y = c->x[0];
    for (int i = 1; i < c->in_count; i++)
        y = c->node->row->binary(y, c->x[i]);
    c->y[0] = y;
}

static void mean(tn__onnx_call *c)
{
    chain(c);
    c->y[0] = tn_div_scalar(c->y[0], (double)c->in_count);
}

static void bit_shift(tn__onnx_call *c)
{
    const char *direction = tn__onnx_string(c, 0);
    if (strcmp(direction, "LEFT") == 0)
        c->y[0] = tn_bitwise_left_shift(c->x[0], c->x[1]);
    else if (strcmp(direction, "RIGHT") == 0)
        c->y[0] = tn_bitwise_right_shift(c->x[0], c->x[1]);
    else
        tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                        "direction is \"%s\"; it must be LEFT or "
                        "RIGHT",
                        direction);
}

static tn_tensor *bitwise_not(tn_tensor *x)
{
    return tn_bitwise_not(x);
}

static void is_inf(tn__onnx_call *c)
{
    const bool negative = tn__onnx_int(c, 0), positive = tn__onnx_int(c, 1);
    if (negative && positive)
        c->y[0] = tn_isinf(c->x[0]);
    else if (negative || positive)
        c->y[0] = negative ? tn_isneginf(c->x[0]) : tn_isposinf(c->x[0]);
    else
        c->y[0] = tn_zeros_like(c->x[0], .dtype = TN_BOOL);
}

static tn_tensor *as_scalar(tn_tensor *x)
{
    return x && tn_tensor_ndim(x) > 0 ? tn_reshape(x, TN_SCALAR) : x;
}

static void clip(tn__onnx_call *c)
{
    tn_tensor *low = as_scalar(tn__onnx_x(c, 1)),
              *high = as_scalar(tn__onnx_x(c, 2));
    c->y[0] = low || high ? tn_clamp(c->x[0], low, high) : c->x[0];
}

static void clip_attr(tn__onnx_call *c)
{
    c->y[0] = tn_clamp_scalars(c->x[0], tn__onnx_float(c, 0),
                               tn__onnx_float(c, 1));
}

static void where(tn__onnx_call *c)
{
    c->y[0] = tn_where(c->x[0], c->x[1], c->x[2]);
    c->y_type[0] = c->x_type[1];
}

/* ---- conversion ---------------------------------------------------------- */

static tn_tensor *convert(tn__onnx_call *c, tn_tensor *x, int type,
                          bool saturates)
{
    const tn__onnx_type to = tn__onnx_type_of(type);
    const tn_dtype dtype = to.dtype;
    if (!dtype) {
        tn__onnx_refuse(c, TN_ERR_UNSUPPORTED, "dtype %s (%d) is not supported",
                        to.name, type);
        return NULL;
    }
    c->y_type[0] = type;
    if (to.bits == 4) { /* the low 4 bits */
        x = tn_bitwise_and_scalar(tn_to_dtype(x, TN_I32), 15);
        if (type == TN__ONNX_INT4)
            x = tn_sub_scalar(tn_bitwise_xor_scalar(x, 8), 8);
        return tn_to_dtype(x, dtype);
    }
    if (dtype == TN_F8E4M3 && saturates)
        x = tn_clamp_scalars(tn_to_dtype(x, TN_F32), -448.0, 448.0);
    if (dtype == TN_F8E5M2 && saturates)
        x = tn_clamp_scalars(tn_to_dtype(x, TN_F32), -57344.0, 57344.0);
    return tn__onnx_wrap(tn_to_dtype(x, dtype), type);
}

static void cast(tn__onnx_call *c)
{
    const int64_t to = tn__onnx_int(c, 0);
    c->y[0] = convert(c, c->x[0], to > 0 && to < 1000 ? (int)to : 0, true);
}
static void cast_saturate(tn__onnx_call *c)
{
    const int64_t to = tn__onnx_int(c, 0);
    c->y[0] = convert(c, c->x[0], to > 0 && to < 1000 ? (int)to : 0,
                      tn__onnx_int(c, 1) != 0);
}
static void cast_like(tn__onnx_call *c)
{
    c->y[0] = convert(c, c->x[0], c->x_type[1], true);
}
static void cast_like_saturate(tn__onnx_call *c)
{
    c->y[0] = convert(c, c->x[0], c->x_type[1], tn__onnx_int(c, 0) != 0);
}

/* ---- prefix sums --------------------------------------------------------- */

static void cumsum(tn__onnx_call *c)
{
    int64_t axis = 0;
    tn_tensor *x = c->x[0];
    const tn_dtype dtype = tn_tensor_dtype(x);
    if (tn__onnx_ints(c, 1, &axis, 1) != 1 ||
        (axis = tn__onnx_axis(c, axis, tn_tensor_ndim(x))) < 0)
        return;
    const bool exclusive = tn__onnx_int(c, 0), reverse = tn__onnx_int(c, 1);
    if (reverse)
        x = tn_flip(x, tn_dims(axis));
    tn_tensor *y = tn_cumsum(x, axis, .dtype = dtype);
    if (exclusive) {
        const int64_t size = tn_tensor_size(x, (int)axis);
        if (size > 0)
            y = tn_cat((tn_tensor *[]){tn_zeros_like(tn_narrow(y, axis, 0, 1)),
                                       tn_narrow(y, axis, 0, size - 1)},
                       2, axis);
    }
    c->y[0] = reverse ? tn_flip(y, tn_dims(axis)) : y;
}

/* ---- rows ---------------------------------------------------------------- */

#define UNARY(label, first, call)                                              \
    {.name = label, .since = first, .min_in = 1, .max_in = 1, .max_out = 1,    \
     .run = tn__onnx_unary, .unary = call}
#define BINARY(label, first, call, ...)                                        \
    {.name = label, .since = first, .min_in = 2, .max_in = 2, .max_out = 1,    \
     .run = tn__onnx_binary, .binary = call, __VA_ARGS__}
#define CHAIN(label, first, function, call)                                    \
    {.name = label, .since = first, .min_in = 1, .max_in = -1, .max_out = 1,   \
     .run = function, .binary = call, .wraps = true}

static const tn__onnx_op rows[] = {
    UNARY("Abs", 6, tn_abs),
    UNARY("Acos", 7, tn_acos),
    UNARY("Acosh", 9, tn_acosh),
    UNARY("Asin", 7, tn_asin),
    UNARY("Asinh", 9, tn_asinh),
    UNARY("Atan", 7, tn_atan),
    UNARY("Atanh", 9, tn_atanh),
    UNARY("Ceil", 6, tn_ceil),
    UNARY("Cos", 7, tn_cos),
    UNARY("Cosh", 9, tn_cosh),
    UNARY("Det", 11, tn_linalg_det),
    UNARY("Erf", 9, tn_erf),
    UNARY("Exp", 6, tn_exp),
    UNARY("Floor", 6, tn_floor),
    UNARY("IsNaN", 9, tn_isnan),
    UNARY("Log", 6, tn_log),
    UNARY("Neg", 6, tn_neg),
    UNARY("Not", 1, tn_logical_not),
    UNARY("Reciprocal", 6, tn_reciprocal),
    UNARY("Round", 11, tn_round),
    UNARY("Sign", 9, tn_sign),
    UNARY("Sin", 7, tn_sin),
    UNARY("Sinh", 9, tn_sinh),
    UNARY("Sqrt", 6, tn_sqrt),
    UNARY("Tan", 7, tn_tan),
    {.name = "BitwiseNot", .since = 18, .min_in = 1, .max_in = 1, .max_out = 1,
     .run = tn__onnx_unary, .unary = bitwise_not, .wraps = true},
    BINARY("Add", 7, add, .wraps = true),
    BINARY("Sub", 7, sub, .wraps = true, .scales = true),
    BINARY("Mul", 7, tn_mul, .wraps = true, .scales = true),
    BINARY("Div", 7, divide, .wraps = true, .scales = true),
    BINARY("And", 7, tn_logical_and, .wraps = false),
    BINARY("Or", 7, tn_logical_or, .wraps = false),
    BINARY("Xor", 7, tn_logical_xor, .wraps = false),
    BINARY("Equal", 7, tn_eq, .wraps = false),
    BINARY("Greater", 7, tn_gt, .wraps = false),
    BINARY("GreaterOrEqual", 12, tn_ge, .wraps = false),
    BINARY("Less", 7, tn_lt, .wraps = false),
    BINARY("LessOrEqual", 12, tn_le, .wraps = false),
    BINARY("BitwiseAnd", 18, tn_bitwise_and, .wraps = false),
    BINARY("BitwiseOr", 18, tn_bitwise_or, .wraps = false),
    BINARY("BitwiseXor", 18, tn_bitwise_xor, .wraps = false),
    {.name = "BitShift", .since = 11, .min_in = 2, .max_in = 2, .max_out = 1,
     .attributes = "direction:string!", .run = bit_shift, .wraps = true},
    {.name = "Mod", .since = 10, .min_in = 2, .max_in = 2, .max_out = 1,
     .attributes = "fmod:int=0", .run = mod},
    {.name = "Pow", .since = 7, .min_in = 2, .max_in = 2, .max_out = 1,
     .run = power, .wraps = true},
    CHAIN("Max", 6, chain, tn_maximum),
    CHAIN("Min", 6, chain, tn_minimum),
    CHAIN("Sum", 6, chain, add),
    CHAIN("Mean", 6, mean, add),
    {.name = "IsInf", .since = 10, .min_in = 1, .max_in = 1, .max_out = 1,
     .attributes = "detect_negative:int=1 detect_positive:int=1",
     .run = is_inf},
    {.name = "Clip", .since = 6, .until = 10, .min_in = 1, .max_in = 1,
     .max_out = 1,
     .attributes = "min:float=-3.402823466e38 max:float=3.402823466e38",
     .run = clip_attr},
    {.name = "Clip", .since = 11, .min_in = 1, .max_in = 3, .max_out = 1,
     .run = clip},
    {.name = "Where", .since = 9, .min_in = 3, .max_in = 3, .max_out = 1,
     .run = where},
    {.name = "Cast", .since = 6, .until = 18, .min_in = 1, .max_in = 1,
     .max_out = 1, .attributes = "to:int!", .run = cast, .scales = true},
    {.name = "Cast", .since = 19, .min_in = 1, .max_in = 1, .max_out = 1,
     .attributes = "to:int! saturate:int=1", .run = cast_saturate,
     .scales = true},
    {.name = "CastLike", .since = 15, .until = 18, .min_in = 2, .max_in = 2,
     .max_out = 1, .run = cast_like},
    {.name = "CastLike", .since = 19, .min_in = 2, .max_in = 2, .max_out = 1,
     .attributes = "saturate:int=1", .run = cast_like_saturate},
    {.name = "CumSum", .since = 11, .min_in = 2, .max_in = 2, .max_out = 1,
     .attributes = "exclusive:int=0 reverse:int=0", .run = cumsum, .host = 2},
};
const tn__onnx_family tn__onnx_math = TN__ONNX_FAMILY(rows);
