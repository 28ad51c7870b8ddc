/* quantised.c: integers with a scale and a zero point. Products of 8-bit
 * integers are exact: float32 sums at most 256 products, which stay below 2^24,
 * and int32 adds these sums. */
#include <onnx/ops/conv.h>

#include <math.h>

/* ---- types --------------------------------------------------------------- */

/* Stores the range of a quantised type. Returns false for float8 and all other
 * types. */
static bool range_of(int type, double *low, double *high)
{
    static const struct {
        int type;
        double low, high;
    } range[] = {
        {TN__ONNX_UINT8, 0, 255},   {TN__ONNX_INT8, -128, 127},
        {TN__ONNX_UINT16, 0, 65535}, {TN__ONNX_INT16, -32768, 32767},
        {TN__ONNX_UINT4, 0, 15},    {TN__ONNX_INT4, -8, 7}};
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (range[i].type == type) {
            *low = range[i].low;
            *high = range[i].high;
            return true;
        }
    return false;
}

/* Rounds x, which is already divided by the scale, adds the zero point (or
 * NULL), and clamps the result to the range of a type. */
static tn_tensor *saturate(tn__onnx_call *c, tn_tensor *x, tn_tensor *zero,
                           int type, bool saturates)
{
    const tn_dtype dtype = tn__onnx_type_of(type).dtype;
    double low, high;
    if (range_of(type, &low, &high)) {
        x = tn_round(x);
        if (zero)
            x = tn_add(x, tn_to_dtype(zero, tn_tensor_dtype(x)));
        return tn_to_dtype(tn_clamp_scalars(x, low, high), dtype);
    }
    if (dtype != TN_F8E4M3 && dtype != TN_F8E5M2) {
        tn__onnx_refuse(c, TN_ERR_UNSUPPORTED,
                        "quantisation to %s is not supported",
                        tn__onnx_type_of(type).name);
        return NULL;
    }
    const double most = dtype == TN_F8E4M3 ? 448 : 57344;
    if (zero)
        x = tn_add(x, tn_to_dtype(zero, tn_tensor_dtype(x)));
    return tn_to_dtype(saturates ? tn_clamp_scalars(x, -most, most) : x, dtype);
}

/* ---- scales -------------------------------------------------------------- */

/* Reshapes a scale or zero point so that it broadcasts against x. It has one
 * element, or one for each index along the axis, or one for each block. */
static tn_tensor *spread(tn__onnx_call *c, tn_tensor *s, const tn_tensor *x,
                         int64_t axis, int64_t block)
{
    const int ndim = tn_tensor_ndim(x);
    if (!s || tn_tensor_numel(s) == 1)
        return s ? tn_reshape(s, TN_SCALAR) : NULL;
    axis = tn__onnx_axis(c, axis, ndim);
    if (axis < 0)
        return NULL;
    const int64_t size = tn_tensor_size(x, (int)axis);
    if (tn_tensor_ndim(s) == 1 && tn_tensor_numel(s) == size) {
        tn_dims_list shape = tn__onnx_blank(ndim);
        for (int i = 0; i < ndim; i++)
            shape.dim[i] = i == axis ? size : 1;
        return tn_reshape(s, shape);
    }
    if (block > 0 && tn_tensor_ndim(s) == ndim &&
        tn_tensor_size(s, (int)axis) == (size + block - 1) / block)
        return tn_narrow(tn_repeat_interleave(s, block, .dim = axis), axis, 0,
                         size);
    tn__onnx_refuse(c, TN_ERR_SHAPE,
                    "the scale or zero point has %lld elements; expected 1, or "
                    "%lld as along axis %lld, or one for each block",
                    (long long)tn_tensor_numel(s), (long long)size,
                    (long long)axis);
    return NULL;
}

/* ---- quantising ---------------------------------------------------------- */

static void quantize(tn__onnx_call *c, int64_t axis, int64_t block, int type,
                     bool saturates)
{
    tn_tensor *x = tn_to_dtype(c->x[0], TN_F32);
    tn_tensor *scale = spread(c, c->x[1], x, axis, block);
    tn_tensor *zero = tn__onnx_x(c, 2);
    if (zero)
        type = c->x_type[2];
    zero = spread(c, zero, x, axis, block);
    type = type ? type : TN__ONNX_UINT8;
    if (tn_error())
        return;
    c->y[0] = saturate(c, tn_div(x, tn_to_dtype(scale, TN_F32)), zero, type,
                       saturates);
    c->y_type[0] = type;
}
static void quantize_10(tn__onnx_call *c)
{
    quantize(c, tn__onnx_int(c, 0), 0, 0, true);
}
static void quantize_19(tn__onnx_call *c)
{
    quantize(c, tn__onnx_int(c, 0), 0, 0, tn__onnx_int(c, 1) != 0);
}
static void quantize_21(tn__onnx_call *c)
{
    quantize(c, tn__onnx_int(c, 0), tn__onnx_int(c, 2),
             (int)tn__onnx_int(c, 3), tn__onnx_int(c, 1) != 0);
}

static void dequantize(tn__onnx_call *c, int64_t axis, int64_t block, int type)
{
    tn_tensor *x = c->x[0];
    tn_tensor *scale = spread(c, c->x[1], x, axis, block),
              *zero = spread(c, tn__onnx_x(c, 2), x, axis, block);
    if (tn_error())
        return;
    type = type ? type : c->x_type[1];
    /* int32 minus a zero point may exceed 24 bits, which float32 cannot
     * represent */
    tn_tensor *wide = tn_dtype_is_floating(tn_tensor_dtype(x))
                          ? tn_to_dtype(x, TN_F32)
                          : tn_to_dtype(x, TN_I32);
    if (zero)
        wide = tn_sub(wide, tn_to_dtype(zero, tn_tensor_dtype(wide)));
    tn_tensor *y =
        tn_mul(tn_to_dtype(wide, TN_F32), tn_to_dtype(scale, TN_F32));
    c->y[0] = tn_to_dtype(y, tn__onnx_type_of(type).dtype);
    c->y_type[0] = type;
}
static void dequantize_10(tn__onnx_call *c)
{
    dequantize(c, tn__onnx_int(c, 0), 0, 0);
}
static void dequantize_21(tn__onnx_call *c)
{
    dequantize(c, tn__onnx_int(c, 0), tn__onnx_int(c, 1), 0);
}
static void dequantize_23(tn__onnx_call *c)
{
    dequantize(c, tn__onnx_int(c, 0), tn__onnx_int(c, 1),
               (int)tn__onnx_int(c, 2));
}

/* Quantises x to uint8. The range is that of x, extended to contain 0. */
static void dynamic_quantize(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0];
    tn_tensor *high = tn_clamp_min_scalar(tn_max(x), 0.0),
              *low = tn_clamp_max_scalar(tn_min(x), 0.0);
    tn_tensor *scale = tn_div_scalar(tn_sub(high, low), 255.0);
    /* if all elements are 0, every scale is correct */
    scale = tn_where(tn_eq_scalar(scale, 0), tn_ones_like(scale), scale);
    tn_tensor *zero =
        tn_clamp_scalars(tn_round(tn_neg(tn_div(low, scale))), 0.0, 255.0);
    c->y[0] = saturate(c, tn_div(x, scale), zero, TN__ONNX_UINT8, true);
    c->y[1] = scale;
    c->y[2] = tn_to_dtype(zero, TN_U8);
    c->y_type[0] = c->y_type[2] = TN__ONNX_UINT8;
}

/* ---- products ------------------------------------------------------------ */

/* Returns x minus its zero point as float32. Its magnitude is at most 255. */
static tn_tensor *centred(tn_tensor *x, tn_tensor *zero)
{
    x = tn_to_dtype(x, TN_F32);
    return zero ? tn_sub(x, tn_to_dtype(zero, TN_F32)) : x;
}

enum { EXACT = 256 }; /* 256 products of at most 255 * 255 sum to less than
                         2^24 */

/* Returns the exact product as int32. */
static tn_tensor *product(tn_tensor *a, tn_tensor *b)
{
    const int64_t k = tn_tensor_size(a, -1);
    const int last = tn_tensor_ndim(a) - 1,
              row = tn_tensor_ndim(b) > 1 ? tn_tensor_ndim(b) - 2 : 0;
    tn_tensor *sum = NULL;
    if (k <= EXACT)
        return tn_to_dtype(tn_matmul(a, b), TN_I32);
    for (int64_t at = 0; at < k; at += EXACT) {
        const int64_t n = k - at < EXACT ? k - at : EXACT;
        tn_tensor *part = tn_to_dtype(
            tn_matmul(tn_narrow(a, last, at, n), tn_narrow(b, row, at, n)),
            TN_I32);
        sum = sum ? tn_add(sum, part) : part;
    }
    return sum;
}

/* Reshapes a zero point or scale of A: one element, or one for each row. */
static tn_tensor *by_row(tn_tensor *s)
{
    return s && tn_tensor_ndim(s) == 1 && tn_tensor_numel(s) > 1
               ? tn_unsqueeze(s, 1)
               : s;
}

static void matmul_integer(tn__onnx_call *c)
{
    c->y[0] = product(centred(c->x[0], by_row(tn__onnx_x(c, 2))),
                      centred(c->x[1], tn__onnx_x(c, 3)));
    c->y_type[0] = TN__ONNX_INT32;
}

static void qlinear_matmul(tn__onnx_call *c)
{
    tn_tensor *sum = product(centred(c->x[0], by_row(c->x[2])),
                             centred(c->x[3], c->x[5]));
    tn_tensor *scale = tn_div(
        tn_mul(tn_to_dtype(by_row(c->x[1]), TN_F32),
               tn_to_dtype(c->x[4], TN_F32)),
        tn_to_dtype(by_row(c->x[6]), TN_F32));
    c->y[0] = saturate(c, tn_mul(tn_to_dtype(sum, TN_F32), scale),
                       by_row(c->x[7]), c->x_type[7], true);
    c->y_type[0] = c->x_type[7];
}

/* Reshapes one number for each output channel to broadcast against weights
 * (channel 0) or results (channel 1) of ndim dimensions. */
static tn_tensor *by_channel(tn_tensor *s, int ndim, int channel)
{
    if (!s || tn_tensor_numel(s) == 1)
        return s ? tn_reshape(s, TN_SCALAR) : NULL;
    tn_dims_list shape = tn__onnx_blank(ndim);
    for (int i = 0; i < ndim; i++)
        shape.dim[i] = i == channel ? tn_tensor_numel(s) : 1;
    return tn_reshape(s, shape);
}

/* Returns the exact convolution as int32. */
static tn_tensor *convolution(tn__onnx_call *c, tn_tensor *x, tn_tensor *w,
                              tn_tensor *x_zero, tn_tensor *w_zero)
{
    static const int which[] = {0, 1, -1, 4, 5};
    const int ndim = tn_tensor_ndim(w);
    tn__onnx_window at;
    if (ndim != tn_tensor_ndim(x)) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "the input has %d dimensions and the weight %d; these "
                        "must be equal",
                        tn_tensor_ndim(x), ndim);
        return NULL;
    }
    if (!tn__onnx_window_read(c, which, x, tn_tensor_shape(w) + 2, &at))
        return NULL;
    int64_t terms = 1;
    for (int i = 1; i < ndim; i++)
        terms *= tn_tensor_size(w, i);
    x = centred(x, x_zero);
    w = centred(w, by_channel(w_zero, ndim, 0));
    if (terms > EXACT) {
        x = tn_to_dtype(x, TN_F64);
        w = tn_to_dtype(w, TN_F64);
    }
    return tn_to_dtype(
        tn__onnx_convolve(c, x, w, NULL, &at, tn__onnx_int(c, 2)), TN_I32);
}

static void conv_integer(tn__onnx_call *c)
{
    c->y[0] = convolution(c, c->x[0], c->x[1], tn__onnx_x(c, 2),
                          tn__onnx_x(c, 3));
    c->y_type[0] = TN__ONNX_INT32;
}

static void qlinear_conv(tn__onnx_call *c)
{
    const int ndim = tn_tensor_ndim(c->x[0]);
    tn_tensor *sum = convolution(c, c->x[0], c->x[3], c->x[2], c->x[5]);
    if (tn__onnx_has(c, 8))
        sum = tn_add(sum, by_channel(c->x[8], ndim, 1));
    tn_tensor *scale = tn_div(
        tn_mul(tn_reshape(c->x[1], TN_SCALAR), by_channel(c->x[4], ndim, 1)),
        tn_reshape(c->x[6], TN_SCALAR));
    c->y[0] = saturate(c, tn_mul(tn_to_dtype(sum, TN_F32), scale),
                       tn_reshape(c->x[7], TN_SCALAR), c->x_type[7], true);
    c->y_type[0] = c->x_type[7];
}

/* ---- rows ---------------------------------------------------------------- */

#define CONV "auto_pad:string=NOTSET dilations:ints group:int=1 "              \
             "kernel_shape:ints pads:ints strides:ints"
static const tn__onnx_op rows[] = {
    {.name = "QuantizeLinear", .since = 10, .until = 18, .min_in = 2,
     .max_in = 3, .max_out = 1, .attributes = "axis:int=1", .run = quantize_10,
     .constant = 2, .sums = true},
    {.name = "QuantizeLinear", .since = 19, .until = 20, .min_in = 2,
     .max_in = 3, .max_out = 1, .attributes = "axis:int=1 saturate:int=1",
     .run = quantize_19, .constant = 2, .sums = true},
    {.name = "QuantizeLinear", .since = 21, .min_in = 2, .max_in = 3,
     .max_out = 1,
     .attributes = "axis:int=1 saturate:int=1 block_size:int=0 "
                   "output_dtype:int=0 precision:int=0",
     .run = quantize_21, .constant = 2, .sums = true},
    {.name = "DequantizeLinear", .since = 10, .until = 20, .min_in = 2,
     .max_in = 3, .max_out = 1, .attributes = "axis:int=1",
     .run = dequantize_10, .constant = 2, .sums = true},
    {.name = "DequantizeLinear", .since = 21, .until = 22, .min_in = 2,
     .max_in = 3, .max_out = 1, .attributes = "axis:int=1 block_size:int=0",
     .run = dequantize_21, .constant = 2, .sums = true},
    {.name = "DequantizeLinear", .since = 23, .min_in = 2, .max_in = 3,
     .max_out = 1,
     .attributes = "axis:int=1 block_size:int=0 output_dtype:int=0",
     .run = dequantize_23, .constant = 2, .sums = true},
    {.name = "DynamicQuantizeLinear", .since = 11, .min_in = 1, .max_in = 1,
     .max_out = 3, .run = dynamic_quantize},
    {.name = "MatMulInteger", .since = 10, .min_in = 2, .max_in = 4,
     .max_out = 1, .run = matmul_integer},
    {.name = "QLinearMatMul", .since = 10, .min_in = 8, .max_in = 8,
     .max_out = 1, .run = qlinear_matmul},
    {.name = "ConvInteger", .since = 10, .min_in = 2, .max_in = 4, .max_out = 1,
     .attributes = CONV, .run = conv_integer, .grows = true},
    {.name = "QLinearConv", .since = 10, .min_in = 8, .max_in = 9, .max_out = 1,
     .attributes = CONV, .run = qlinear_conv, .grows = true},
};
const tn__onnx_family tn__onnx_quantised = TN__ONNX_FAMILY(rows);
