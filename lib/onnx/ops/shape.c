/* shape.c: operators that change the shape of a tensor or the order of its
 * elements. */
#include <onnx/ops/ops.h>

#include <stdlib.h>
#include <string.h>

static void identity(tn__onnx_call *c)
{
    c->y[0] = c->x[0];
}

/* ---- sizes --------------------------------------------------------------- */

static void shape(tn__onnx_call *c)
{
    const int ndim = tn_tensor_ndim(c->x[0]);
    int64_t start = tn__onnx_int(c, 0), end = c->attr[1] ? c->attr[1]->i : ndim;
    start = start < 0 ? start + ndim : start;
    end = end < 0 ? end + ndim : end;
    start = start < 0 ? 0 : start > ndim ? ndim : start;
    end = end < start ? start : end > ndim ? ndim : end;
    tn_device *before = tn_device_current();
    tn_device *host = tn__onnx_host(c);
    if (host != before)
        tn_device_set(host); /* shape arithmetic runs on the host */
    c->y[0] = tn_tensor_from_array(
        ndim ? tn_tensor_shape(c->x[0]) + start : (int64_t[]){0}, TN_I64,
        tn_dims(end - start));
    if (host != before)
        tn_device_set(before);
    c->y_type[0] = TN__ONNX_INT64;
}

static void size(tn__onnx_call *c)
{
    tn_device *host = tn__onnx_host(c);
    c->y[0] = tn_full(TN_SCALAR, tn_tensor_numel(c->x[0]), .dtype = TN_I64,
                      .device = host);
    c->y_type[0] = TN__ONNX_INT64;
}

/* ---- reshape and the like ------------------------------------------------ */

static void reshape_to(tn__onnx_call *c, bool allow_zero)
{
    tn_dims_list to;
    if (!tn__onnx_dims(c, -1, 1, &to))
        return;
    for (int i = 0; i < to.count && !allow_zero; i++)
        if (to.dim[i] == 0) {
            if (i >= tn_tensor_ndim(c->x[0])) {
                tn__onnx_refuse(c, TN_ERR_SHAPE,
                                "shape[%d] is 0, which copies the size of the "
                                "input, but the input has no such "
                                "dimension",
                                i);
                return;
            }
            to.dim[i] = tn_tensor_size(c->x[0], i);
        }
    c->y[0] = tn_reshape(c->x[0], to);
}
static void reshape(tn__onnx_call *c) { reshape_to(c, false); }
static void reshape_14(tn__onnx_call *c)
{
    reshape_to(c, tn__onnx_int(c, 0) != 0);
}

static void transpose(tn__onnx_call *c)
{
    tn_dims_list perm;
    const int ndim = tn_tensor_ndim(c->x[0]);
    if (!tn__onnx_dims(c, 0, -1, &perm))
        return;
    if (perm.count < 0) {
        perm.count = ndim;
        for (int i = 0; i < ndim; i++)
            perm.dim[i] = ndim - 1 - i;
    }
    c->y[0] = tn_permute(c->x[0], perm);
}

static void squeeze(tn__onnx_call *c, tn_dims_list axes)
{
    tn_tensor *x = c->x[0];
    if (axes.count < 0) {
        c->y[0] = tn_squeeze_with(x, NULL);
        return;
    }
    if (!tn__onnx_axes(c, &axes, tn_tensor_ndim(x)))
        return;
    for (int i = 0; i < axes.count; i++)
        if (tn_tensor_size(x, (int)axes.dim[i]) != 1) {
            tn__onnx_refuse(c, TN_ERR_SHAPE,
                            "dimension %lld has size %lld; only dimensions of "
                            "size 1 can be squeezed",
                            (long long)axes.dim[i],
                            (long long)tn_tensor_size(x, (int)axes.dim[i]));
            return;
        }
    c->y[0] = axes.count ? tn_squeeze(x, .dims = axes) : x;
}
static void squeeze_attr(tn__onnx_call *c)
{
    tn_dims_list axes;
    if (tn__onnx_dims(c, 0, -1, &axes))
        squeeze(c, axes);
}
static void squeeze_input(tn__onnx_call *c)
{
    tn_dims_list axes;
    if (tn__onnx_dims(c, -1, 1, &axes))
        squeeze(c, axes);
}

static void unsqueeze(tn__onnx_call *c, tn_dims_list axes)
{
    tn_tensor *x = c->x[0];
    const int ndim = tn_tensor_ndim(x) + axes.count;
    if (ndim > TN_MAX_NDIM) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "the result has more than %d dimensions", TN_MAX_NDIM);
        return;
    }
    if (!tn__onnx_axes(c, &axes, ndim))
        return;
    bool is_new[TN_MAX_NDIM] = {false};
    for (int i = 0; i < axes.count; i++) {
        if (is_new[axes.dim[i]]) {
            tn__onnx_refuse(c, TN_ERR_ARGUMENT, "axes has the same axis twice");
            return;
        }
        is_new[axes.dim[i]] = true;
    }
    int64_t to[TN_MAX_NDIM];
    for (int i = 0, at = 0; i < ndim; i++)
        to[i] = is_new[i] ? 1 : tn_tensor_size(x, at++);
    c->y[0] = tn_reshape(x, tn_dims_from_array(to, ndim));
}
static void unsqueeze_attr(tn__onnx_call *c)
{
    tn_dims_list axes;
    if (tn__onnx_dims(c, 0, -1, &axes))
        unsqueeze(c, axes);
}
static void unsqueeze_input(tn__onnx_call *c)
{
    tn_dims_list axes;
    if (tn__onnx_dims(c, -1, 1, &axes))
        unsqueeze(c, axes);
}

static void flatten(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0];
    const int ndim = tn_tensor_ndim(x);
    int64_t axis = tn__onnx_int(c, 0), rows = 1, columns = 1;
    if (axis != ndim && (axis = tn__onnx_axis(c, axis, ndim)) < 0)
        return;
    for (int i = 0; i < ndim; i++) {
        if (i < axis)
            rows *= tn_tensor_size(x, i);
        else
            columns *= tn_tensor_size(x, i);
    }
    c->y[0] = tn_reshape(x, tn_dims(rows, columns));
}

/* ---- blocks of images ---------------------------------------------------- */

static bool check_blocks(tn__onnx_call *c, int64_t size)
{
    if (size > 0 && size < 1 << 20 && tn_tensor_ndim(c->x[0]) == 4)
        return true;
    tn__onnx_refuse(c, TN_ERR_SHAPE,
                    "blocksize is %lld and the input has %d dimensions; "
                    "blocksize must be positive, and the input must have 4",
                    (long long)size, tn_tensor_ndim(c->x[0]));
    return false;
}

static void depth_to_space(tn__onnx_call *c)
{
    const int64_t b = tn__onnx_int(c, 0);
    if (!check_blocks(c, b))
        return;
    const bool crd = strcmp(tn__onnx_string(c, 1), "CRD") == 0;
    const int64_t *s = tn_tensor_shape(c->x[0]);
    const int64_t n = s[0], d = s[1] / (b * b), h = s[2], w = s[3];
    tn_tensor *x =
        crd ? tn_permute(tn_reshape(c->x[0], tn_dims(n, d, b, b, h, w)),
                         tn_dims(0, 1, 4, 2, 5, 3))
            : tn_permute(tn_reshape(c->x[0], tn_dims(n, b, b, d, h, w)),
                         tn_dims(0, 3, 4, 1, 5, 2));
    c->y[0] = tn_reshape(x, tn_dims(n, d, h * b, w * b));
}

static void space_to_depth(tn__onnx_call *c)
{
    const int64_t b = tn__onnx_int(c, 0);
    if (!check_blocks(c, b))
        return;
    const int64_t *s = tn_tensor_shape(c->x[0]);
    tn_tensor *x = tn_reshape(
        c->x[0], tn_dims(s[0], s[1], s[2] / b, b, s[3] / b, b));
    x = tn_permute(x, tn_dims(0, 3, 5, 1, 2, 4));
    c->y[0] = tn_reshape(x, tn_dims(s[0], s[1] * b * b, s[2] / b, s[3] / b));
}

/* ---- triangles and sequences --------------------------------------------- */

static void trilu(tn__onnx_call *c)
{
    int64_t k = 0;
    if (tn__onnx_ints(c, 1, &k, 1) < 0)
        return;
    tn_tensor *x = c->x[0];
    const bool is_bool = tn_tensor_dtype(x) == TN_BOOL;
    x = is_bool ? tn_to_dtype(x, TN_U8) : x;
    x = tn__onnx_int(c, 0) ? tn_triu(x, .diagonal = k)
                           : tn_tril(x, .diagonal = k);
    c->y[0] = is_bool ? tn_to_dtype(x, TN_BOOL) : x;
}

/* Element t of sequence i is element lengths[i] - 1 - t of x. Elements after
 * the length of the sequence stay in place. */
static void reverse_sequence(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0];
    const int64_t time = tn__onnx_int(c, 0), batch = tn__onnx_int(c, 1);
    if (time < 0 || batch < 0 || time + batch != 1 || tn_tensor_ndim(x) < 2) {
        tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                        "time_axis and batch_axis must be 0 and 1, or 1 and 0");
        return;
    }
    tn_tensor *t = tn_arange(0, tn_tensor_size(x, (int)time), 1,
                             .dtype = TN_I64, .device = c->device);
    tn_tensor *n = c->x[1];
    t = tn_unsqueeze(t, batch);
    n = tn_unsqueeze(n, time);
    tn_tensor *from = tn_where(tn_lt(t, n), tn_sub(tn_sub_scalar(n, 1), t),
                               tn_expand_as(t, tn_add(t, n)));
    while (from && tn_tensor_ndim(from) < tn_tensor_ndim(x))
        from = tn_unsqueeze(from, -1);
    c->y[0] = tn_gather(x, time, tn_expand_as(from, x));
}

/* ---- rows ---------------------------------------------------------------- */

#define ROW(label, first, last, in_min, in_max, list, function, ...)           \
    {.name = label, .since = first, .until = last, .min_in = in_min,          \
     .max_in = in_max, .max_out = 1, .attributes = list, .run = function,     \
     __VA_ARGS__}

static const tn__onnx_op rows[] = {
    ROW("Identity", 1, 0, 1, 1, "", identity, .host = 0),
    ROW("Shape", 1, 14, 1, 1, "start:int=0 end:int", shape, .of_shape = true),
    ROW("Shape", 15, 0, 1, 1, "start:int=0 end:int", shape, .of_shape = true),
    ROW("Size", 1, 0, 1, 1, "", size, .of_shape = true),
    ROW("Reshape", 5, 13, 2, 2, "", reshape, .host = 2),
    ROW("Reshape", 14, 0, 2, 2, "allowzero:int=0", reshape_14, .host = 2),
    ROW("Transpose", 1, 0, 1, 1, "perm:ints", transpose, .host = 0),
    ROW("Squeeze", 1, 12, 1, 1, "axes:ints", squeeze_attr, .host = 0),
    ROW("Squeeze", 13, 0, 1, 2, "", squeeze_input, .host = 2),
    ROW("Unsqueeze", 1, 12, 1, 1, "axes:ints!", unsqueeze_attr, .host = 0),
    ROW("Unsqueeze", 13, 0, 2, 2, "", unsqueeze_input, .host = 2),
    ROW("Flatten", 1, 0, 1, 1, "axis:int=1", flatten, .host = 0),
    ROW("DepthToSpace", 1, 0, 1, 1, "blocksize:int! mode:string=DCR",
        depth_to_space, .host = 0),
    ROW("SpaceToDepth", 1, 0, 1, 1, "blocksize:int!", space_to_depth,
        .host = 0),
    ROW("Trilu", 14, 0, 1, 2, "upper:int=1", trilu, .host = 2),
    ROW("ReverseSequence", 10, 0, 2, 2, "time_axis:int=0 batch_axis:int=1",
        reverse_sequence, .host = 0),
};
const tn__onnx_family tn__onnx_shape_ops = TN__ONNX_FAMILY(rows);
