/* call.c: functions that the operators share. They read lists of integers,
 * check axes, and convert values to the ranges of ONNX types. */
#include <onnx/run/run.h>

#include <stdarg.h>
#include <stdio.h>

void tn__onnx_refuse(tn__onnx_call *c, tn_status code, const char *format, ...)
{
    char text[400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    (void)c;
    tn_error_set(code, "%s", text);
}

/* ---- elements on the host ------------------------------------------------ */

/* Reads input i as dtype into out, which has room for `room` elements. Returns
 * the number of elements, 0 if the input is left out, or -1 with an error. */
static int read_input(tn__onnx_call *c, int i, tn_dtype dtype, void *out,
                      int room)
{
    if (!tn__onnx_has(c, i))
        return 0;
    const tn__onnx_value *v = c->value[i];
    tn_tensor *x = v->host ? v->host : c->x[i];
    if (!v->fixed)
        c->reads = true;
    const int64_t numel = tn_tensor_numel(x);
    if (numel > room) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "input %d has %lld elements; at most %d are allowed", i,
                        (long long)numel, room);
        return -1;
    }
    if (tn_tensor_dtype(x) != dtype)
        x = tn_to_dtype(tn_detach(x), dtype);
    if (numel && tn_tensor_to_array(x, out, (size_t)numel *
                                                tn_dtype_bytes(dtype)) < 0)
        return -1;
    return (int)numel;
}

int tn__onnx_ints(tn__onnx_call *c, int i, int64_t *out, int room)
{
    return read_input(c, i, TN_I64, out, room);
}

int tn__onnx_floats(tn__onnx_call *c, int i, double *out, int room)
{
    return read_input(c, i, TN_F64, out, room);
}

bool tn__onnx_dims(tn__onnx_call *c, int attr, int in, tn_dims_list *out)
{
    int64_t dim[TN_MAX_NDIM] = {0};
    int count = -1;
    if (attr >= 0 && c->attr[attr]) {
        const tn__onnx_attr *a = c->attr[attr];
        if (a->count > TN_MAX_NDIM) {
            tn__onnx_refuse(c, TN_ERR_SHAPE,
                            "attribute \"%s\" has more than %d elements",
                            a->name, TN_MAX_NDIM);
            return false;
        }
        count = (int)a->count;
        for (int i = 0; i < count; i++)
            dim[i] = a->ints[i];
    } else if (in >= 0 && tn__onnx_has(c, in)) {
        count = tn__onnx_ints(c, in, dim, TN_MAX_NDIM);
        if (count < 0)
            return false;
    }
    *out = tn_dims_from_array(dim, count);
    return true;
}

/* ---- axes and shapes ----------------------------------------------------- */

int tn__onnx_axis(tn__onnx_call *c, int64_t axis, int ndim)
{
    if (axis < -ndim || axis >= ndim) {
        tn__onnx_refuse(c, TN_ERR_INDEX,
                        "axis %lld is out of range for %d dimensions",
                        (long long)axis, ndim);
        return -1;
    }
    return (int)(axis < 0 ? axis + ndim : axis);
}

bool tn__onnx_axes(tn__onnx_call *c, tn_dims_list *axes, int ndim)
{
    for (int i = 0; i < axes->count; i++) {
        axes->dim[i] = tn__onnx_axis(c, axes->dim[i], ndim);
        if (axes->dim[i] < 0)
            return false;
    }
    return true;
}

tn_dims_list tn__onnx_shape(const tn_tensor *x)
{
    return tn_dims_from_array(tn_tensor_shape(x), tn_tensor_ndim(x));
}

/* The largest number of elements of a result that is computed when a model is
 * opened. */
enum { MAX_FOLDED = 1 << 16 };

bool tn__onnx_may_make(tn__onnx_call *c, tn_dims_list shape)
{
    int64_t numel = 1;
    for (int i = 0; i < shape.count; i++)
        if (shape.dim[i] < 0 ||
            __builtin_mul_overflow(numel, shape.dim[i], &numel)) {
            tn__onnx_refuse(c, TN_ERR_SHAPE,
                            "the result cannot have size %lld in dimension %d",
                            (long long)shape.dim[i], i);
            return false;
        }
    if (!c->folds || numel <= MAX_FOLDED)
        return true;
    tn__onnx_refuse(c, TN_ERR_MEMORY,
                    "the result has %lld elements; at most %d are computed in "
                    "advance, when the model is opened",
                    (long long)numel, MAX_FOLDED);
    return false;
}

bool tn__onnx_fits(tn__onnx_call *c, int64_t count)
{
    bool fits = count <= 4096;
    TN_SCOPE(trial) {
        fits = fits || tn_empty(tn_dims(count), .dtype = TN_I64,
                                .device = c->device) != NULL;
    }
    return fits;
}

tn_tensor *tn__onnx_from_ints(tn__onnx_call *c, const int64_t *x, int count)
{
    static const int64_t none[1];
    tn_tensor *y = tn_tensor_from_array(x ? x : none, TN_I64, tn_dims(count));
    return y && tn_tensor_device(y) != c->device ? tn_to(y, c->device) : y;
}

tn_device *tn__onnx_host(const tn__onnx_call *c)
{
    return c->run->host;
}

/* ---- types --------------------------------------------------------------- */

tn_tensor *tn__onnx_wrap(tn_tensor *x, int type)
{
    const int narrow = tn__onnx_type_of(type).narrow;
    if (!narrow || narrow == 64)
        return x;
    return tn_bitwise_and_scalar(x, ((int64_t)1 << narrow) - 1);
}

/* ---- what most rows call ------------------------------------------------- */

void tn__onnx_unary(tn__onnx_call *c)
{
    c->y[0] = c->node->row->unary(c->x[0]);
}

void tn__onnx_binary(tn__onnx_call *c)
{
    c->y[0] = c->node->row->binary(c->x[0], c->x[1]);
}
