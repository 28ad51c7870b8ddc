/* create.c: constants, ranges and random numbers. */
#include <onnx/ops/ops.h>

#include <math.h>
#include <string.h>

/* ---- constants ----------------------------------------------------------- */

static void constant(tn__onnx_call *c)
{
    enum { VALUE, VALUE_FLOAT, VALUE_INT, VALUE_FLOATS, VALUE_INTS };
    tn_device *before = tn_device_current(), *host = tn__onnx_host(c);
    tn_tensor *x = NULL;
    tn_device_set(host);
    if (c->attr[VALUE]) {
        x = c->attr[VALUE]->tensor.host;
        c->y_type[0] = c->attr[VALUE]->tensor.type;
    } else if (c->attr[VALUE_FLOAT]) {
        x = tn_full(TN_SCALAR, (double)c->attr[VALUE_FLOAT]->f,
                    .dtype = TN_F32);
    } else if (c->attr[VALUE_INT]) {
        x = tn_full(TN_SCALAR, c->attr[VALUE_INT]->i, .dtype = TN_I64);
    } else if (c->attr[VALUE_FLOATS]) {
        const tn__onnx_attr *a = c->attr[VALUE_FLOATS];
        x = tn_tensor_from_array(a->floats, TN_F32, tn_dims(a->count));
    } else if (c->attr[VALUE_INTS]) {
        const tn__onnx_attr *a = c->attr[VALUE_INTS];
        x = tn_tensor_from_array(a->ints, TN_I64, tn_dims(a->count));
    } else {
        tn__onnx_refuse(c, TN_ERR_FORMAT,
                        "the node has no attribute with a value");
    }
    tn_device_set(before);
    /* Large constants are never shapes, so the host does not need them. */
    if (x && host != c->device && tn_tensor_numel(x) > 1024)
        x = tn_to(x, c->device);
    c->y[0] = x;
}

static void constant_of_shape(tn__onnx_call *c)
{
    tn_dims_list to;
    if (!tn__onnx_dims(c, -1, 0, &to) || !tn__onnx_may_make(c, to))
        return;
    if (!c->attr[0]) {
        c->y[0] = tn_zeros(to, .dtype = TN_F32, .device = c->device);
        c->y_type[0] = TN__ONNX_FLOAT;
        return;
    }
    tn_tensor *value = c->attr[0]->tensor.host;
    if (tn_tensor_numel(value) != 1) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "attribute \"value\" has %lld elements; expected 1",
                        (long long)tn_tensor_numel(value));
        return;
    }
    value = tn_reshape(value, TN_SCALAR);
    if (tn_tensor_device(value) != c->device)
        value = tn_to(value, c->device);
    c->y[0] = tn_contiguous(tn_expand(value, to));
    c->y_type[0] = c->attr[0]->tensor.type;
}

static void eye_like(tn__onnx_call *c)
{
    const tn_tensor *x = c->x[0];
    const int64_t k = tn__onnx_int(c, 1);
    const int64_t to = c->attr[0] ? c->attr[0]->i : c->x_type[0];
    const tn__onnx_type type =
        tn__onnx_type_of(to > 0 && to < 1000 ? (int)to : 0);
    if (tn_tensor_ndim(x) != 2 || !type.dtype) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "the input has %d dimensions and the result dtype %s; "
                        "the input must have 2, and the dtype must be "
                        "supported",
                        tn_tensor_ndim(x), type.name);
        return;
    }
    const int64_t n = tn_tensor_size(x, 0), m = tn_tensor_size(x, 1);
    tn_tensor *i = tn_arange(0, n, 1, .dtype = TN_I64, .device = c->device);
    tn_tensor *j = tn_arange(0, m, 1, .dtype = TN_I64, .device = c->device);
    c->y[0] = tn_to_dtype(tn_eq(tn_add_scalar(tn_unsqueeze(i, 1), k), j),
                          type.dtype);
    c->y_type[0] = (int)to;
}

static void range(tn__onnx_call *c)
{
    const tn_dtype dtype = tn_tensor_dtype(c->x[0]);
    if (tn_dtype_is_floating(dtype)) {
        double start, end, step;
        if (tn__onnx_floats(c, 0, &start, 1) != 1 ||
            tn__onnx_floats(c, 1, &end, 1) != 1 ||
            tn__onnx_floats(c, 2, &step, 1) != 1)
            return;
        const double count = ceil((end - start) / step);
        if (!(count < 1e15)) {
            tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                            "the range has %g elements; at most 1e15 are "
                            "allowed",
                            count);
            return;
        }
        const int64_t n = count > 0 ? (int64_t)count : 0;
        if (!tn__onnx_may_make(c, tn_dims(n)))
            return;
        tn_tensor *i = tn_arange(0, n, 1, .dtype = TN_F64, .device = c->device);
        c->y[0] = tn_to_dtype(tn_add_scalar(tn_mul_scalar(i, step), start),
                              dtype);
        return;
    }
    int64_t start, end, step, span;
    if (tn__onnx_ints(c, 0, &start, 1) != 1 ||
        tn__onnx_ints(c, 1, &end, 1) != 1 || tn__onnx_ints(c, 2, &step, 1) != 1)
        return;
    if (step == 0 || step == INT64_MIN ||
        __builtin_sub_overflow(end, start, &span)) {
        tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                        "step is %lld; expected a number other than 0, and a "
                        "distance from start to limit that fits in int64",
                        (long long)step);
        return;
    }
    int64_t n = span / step + (span % step != 0 && (span < 0) == (step < 0));
    n = (span < 0) != (step < 0) || n < 0 ? 0 : n;
    if (tn__onnx_may_make(c, tn_dims(n)))
        c->y[0] = n ? tn_arange(start, end, step, .dtype = dtype,
                                .device = c->device)
                    : tn_empty(tn_dims(0), .dtype = dtype, .device = c->device);
}

/* ---- random numbers: those of Tenon's generator -------------------------- */

/* Returns the attribute dtype, or `fallback` if it is left out. */
static tn_dtype dtype_of(tn__onnx_call *c, const tn__onnx_attr *a, int fallback)
{
    const int64_t code = a ? a->i : fallback;
    const tn__onnx_type type =
        tn__onnx_type_of(code > 0 && code < 1000 ? (int)code : 0);
    if (!type.dtype)
        tn__onnx_refuse(c, TN_ERR_UNSUPPORTED,
                        "dtype %s (%lld) is not supported", type.name,
                        (long long)code);
    c->y_type[0] = (int)code;
    return type.dtype;
}

static void random_normal(tn__onnx_call *c, tn_dims_list shape, tn_dtype dtype,
                          double mean, double scale)
{
    tn_tensor *x = tn_randn(shape, .dtype = TN_F32, .device = c->device);
    c->y[0] = tn_to_dtype(tn_add_scalar(tn_mul_scalar(x, scale), mean), dtype);
}
static void random_uniform(tn__onnx_call *c, tn_dims_list shape, tn_dtype dtype,
                           double low, double high)
{
    tn_tensor *x = tn_rand(shape, .dtype = TN_F32, .device = c->device);
    c->y[0] =
        tn_to_dtype(tn_add_scalar(tn_mul_scalar(x, high - low), low), dtype);
}

/* Attributes: dtype, two parameters of the distribution, seed, and shape. */
static void random_of_shape(tn__onnx_call *c, bool normal)
{
    tn_dims_list shape;
    const tn_dtype dtype = dtype_of(c, c->attr[0], TN__ONNX_FLOAT);
    if (!dtype || !tn__onnx_dims(c, 4, -1, &shape))
        return;
    (normal ? random_normal : random_uniform)(
        c, shape, dtype, tn__onnx_float(c, 1), tn__onnx_float(c, 2));
}
static void normal(tn__onnx_call *c) { random_of_shape(c, true); }
static void uniform(tn__onnx_call *c) { random_of_shape(c, false); }

static void random_like(tn__onnx_call *c, bool is_normal)
{
    const tn_dtype dtype = dtype_of(c, c->attr[0], c->x_type[0]);
    if (dtype)
        (is_normal ? random_normal : random_uniform)(
            c, tn__onnx_shape(c->x[0]), dtype, tn__onnx_float(c, 1),
            tn__onnx_float(c, 2));
}
static void normal_like(tn__onnx_call *c) { random_like(c, true); }
static void uniform_like(tn__onnx_call *c) { random_like(c, false); }

static void bernoulli(tn__onnx_call *c)
{
    const tn_dtype dtype = dtype_of(c, c->attr[0], c->x_type[0]);
    if (dtype)
        c->y[0] = tn_to_dtype(tn_bernoulli(c->x[0]), dtype);
}

/* The input has log-probabilities. */
static void multinomial(tn__onnx_call *c)
{
    const tn_dtype dtype = dtype_of(c, c->attr[0], TN__ONNX_INT32);
    if (dtype)
        c->y[0] = tn_to_dtype(
            tn_multinomial(tn_softmax(c->x[0], -1), tn__onnx_int(c, 1),
                           .replacement = true),
            dtype);
}

/* ---- rows ---------------------------------------------------------------- */

static const tn__onnx_op rows[] = {
    {.name = "Constant", .since = 1, .max_out = 1,
     .attributes = "value:tensor value_float:float value_int:int "
                   "value_floats:floats value_ints:ints",
     .run = constant},
    {.name = "ConstantOfShape", .since = 9, .min_in = 1, .max_in = 1,
     .max_out = 1, .attributes = "value:tensor", .run = constant_of_shape,
     .host = 1},
    {.name = "EyeLike", .since = 9, .min_in = 1, .max_in = 1, .max_out = 1,
     .attributes = "dtype:int k:int=0", .run = eye_like, .of_shape = true},
    {.name = "Range", .since = 11, .min_in = 3, .max_in = 3, .max_out = 1,
     .run = range, .host = 7},
    {.name = "RandomNormal", .since = 1, .max_out = 1,
     .attributes =
         "dtype:int mean:float=0 scale:float=1 seed:float shape:ints!",
     .run = normal, .random = true},
    {.name = "RandomUniform", .since = 1, .max_out = 1,
     .attributes = "dtype:int low:float=0 high:float=1 seed:float shape:ints!",
     .run = uniform, .random = true},
    {.name = "RandomNormalLike", .since = 1, .min_in = 1, .max_in = 1,
     .max_out = 1,
     .attributes = "dtype:int mean:float=0 scale:float=1 seed:float",
     .run = normal_like, .random = true},
    {.name = "RandomUniformLike", .since = 1, .min_in = 1, .max_in = 1,
     .max_out = 1,
     .attributes = "dtype:int low:float=0 high:float=1 seed:float",
     .run = uniform_like, .random = true},
    {.name = "Bernoulli", .since = 15, .min_in = 1, .max_in = 1, .max_out = 1,
     .attributes = "dtype:int seed:float", .run = bernoulli, .random = true},
    {.name = "Multinomial", .since = 7, .min_in = 1, .max_in = 1, .max_out = 1,
     .attributes = "dtype:int sample_size:int=1 seed:float",
     .run = multinomial, .random = true},
};
const tn__onnx_family tn__onnx_create = TN__ONNX_FAMILY(rows);
