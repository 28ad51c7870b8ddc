/* conv3d.c: 3-d convolution and transposed convolution (PyTorch's conv3d and
 * conv_transpose3d), composed of the 2-d operators.
 *
 * For conv3d, the windows along the depth become channels. A volume becomes a
 * batch of images, one for each output depth, with C * kD channels, and conv2d
 * computes the rest. For conv_transpose3d, conv_transpose2d returns O * kD
 * channels for each input depth, which are summed along the depth. */
#include <ops/engine/native.h>

enum { DEPTH, HEIGHT, WIDTH, AXES };

/* Reads argument arg, a list of three numbers for depth, height and width, or
 * of one number for all of them. Rejects numbers below `least`. */
static tn_status take_list(const tn__call *call, int arg, int64_t least,
                           int64_t list[AXES])
{
    const tn_dims_list *given = call->value[arg].of.dims;
    char text[TN__SHAPE_TEXT];
    if (given->count != 1 && given->count != AXES)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} %s is neither one number "
                        "nor three", call->op->name, call->op->arg[arg].name,
                        tn__shape_text(text, given->count, given->dim));
    for (int a = 0; a < AXES; a++) {
        list[a] = given->dim[given->count > 1 ? a : 0];
        if (list[a] < least || list[a] > INT32_MAX)
            return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} %lld is outside [%lld, "
                            "2^31)", call->op->name, call->op->arg[arg].name,
                            (long long)list[a], (long long)least);
    }
    return TN_OK;
}

static tn_status check_volumes(const tn__call *call, const tn_tensor *x,
                               const tn_tensor *w)
{
    char text[TN__SHAPE_TEXT];
    if (x->ndim != 4 && x->ndim != 5)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} %s is neither (N, C, D, H, "
                        "W) nor (C, D, H, W)", call->op->name,
                        tn__shape_text(text, x->ndim, x->shape));
    if (w->ndim != 5)
        return tn__fail(TN_ERR_SHAPE, "%s: {weight} %s does not have 5 "
                        "dimensions", call->op->name,
                        tn__shape_text(text, w->ndim, w->shape));
    return TN_OK;
}

/* Returns x as (N, C, D, H, W), where N is 1 if x has no batch dimension. */
static tn_tensor *batch_of(tn_tensor *x)
{
    return x->ndim == 5 ? x : tn_unsqueeze(x, 0);
}

static tn_status give_batch(tn__call *call, tn_tensor *y, const tn_tensor *x)
{
    return tn__give(call,
                    y && x->ndim == 4 ? tn_squeeze(y, .dim = 0) : y);
}

/* ---- conv3d -------------------------------------------------------------- */

typedef struct volumes {
    int64_t stride[AXES], dilation[AXES];
    int64_t low[AXES], high[AXES]; /* padding before and after the volume, in
                                      elements */
} volumes;

/* Reads the argument padding, which is a list of numbers or a name. If "same"
 * needs an odd number of elements, the smaller half is before the volume. */
static tn_status take_padding(const tn__call *call, const tn_tensor *w,
                              volumes *v)
{
    const tn_value *given = &call->value[TN__ARG_CONV3D_PADDING];
    const char *rule = given->of.string;
    if (given->kind != TN_VALUE_STRING) {
        tn_status status =
            take_list(call, TN__ARG_CONV3D_PADDING, 0, v->low);
        memcpy(v->high, v->low, sizeof v->high);
        return status;
    }
    bool same = strcmp(rule, "same") == 0;
    if (!same && strcmp(rule, "valid") != 0)
        return tn__fail(TN_ERR_ARGUMENT, "conv3d: {padding} \"%s\" is neither "
                        "\"same\" nor \"valid\"", rule);
    for (int a = 0; a < AXES; a++) {
        int64_t all = same ? v->dilation[a] * (w->shape[2 + a] - 1) : 0;
        if (same && v->stride[a] != 1)
            return tn__fail(TN_ERR_ARGUMENT, "conv3d: {padding} \"same\" "
                            "requires {stride} 1, not %lld",
                            (long long)v->stride[a]);
        v->low[a] = all / 2;
        v->high[a] = all - all / 2;
    }
    return TN_OK;
}

/* Pads x along the depth. If the padding before and after differs along height
 * or width, also pads both of these, since conv2d pads both sides equally.
 * Returns the padded x, and sets in *v the padding that conv2d still
 * applies. */
static tn_tensor *padded(tn_tensor *x, volumes *v)
{
    bool even = v->low[HEIGHT] == v->high[HEIGHT] &&
                v->low[WIDTH] == v->high[WIDTH];
    if (even && !v->low[DEPTH] && !v->high[DEPTH])
        return x;
    const tn_dims_list pad =
        tn_dims(even ? 0 : v->low[WIDTH], even ? 0 : v->high[WIDTH],
                even ? 0 : v->low[HEIGHT], even ? 0 : v->high[HEIGHT],
                v->low[DEPTH], v->high[DEPTH]);
    if (!even)
        v->low[HEIGHT] = v->low[WIDTH] = 0;
    return tn_constant_pad_nd(x, pad, 0);
}

/* Returns x (N, C, D, H, W) as images (N * windows, C * kD, H, W). `windows` is
 * the number of windows along the depth, and size is kD. */
static tn_tensor *depth_as_channels(tn_tensor *x, int64_t size,
                                    const volumes *v)
{
    const tn_value value[] = {
        tn__value_tensor(x), tn__value_int(2), tn__value_int(size),
        tn__value_int(v->stride[DEPTH]), tn__value_int(v->dilation[DEPTH])};
    tn_tensor *view = x ? tn__row(TN__OP_ID_WINDOWS, value, 5) : NULL;
    if (!view)
        return NULL;
    const int64_t *s = view->shape; /* s is the shape (N, C, windows, H, W,
                                       kD) */
    return tn_reshape(tn_permute(view, tn_dims(0, 2, 1, 5, 3, 4)),
                      tn_dims(s[0] * s[2], s[1] * size, s[3], s[4]));
}

tn_status tn__run_conv3d(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CONV3D_INPUT);
    tn_tensor *w = tn__call_tensor(call, TN__ARG_CONV3D_WEIGHT);
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    volumes v;
    if (check_volumes(call, x, w) < 0 ||
        take_list(call, TN__ARG_CONV3D_STRIDE, 1, v.stride) < 0 ||
        take_list(call, TN__ARG_CONV3D_DILATION, 1, v.dilation) < 0 ||
        take_padding(call, w, &v) < 0)
        return tn_error_code();
    int64_t size = w->shape[2], groups = tn__call_int(call, TN__ARG_CONV3D_GROUPS);
    tn_tensor *batch = padded(batch_of(x), &v);
    if (!batch)
        return tn_error_code();
    if (size < 1 ||
        v.dilation[DEPTH] * (size - 1) + 1 > batch->shape[2] ||
        batch->shape[1] != tn__size_mul(w->shape[1], groups))
        return tn__fail(TN_ERR_SHAPE, "conv3d: {input} has shape %s, {weight} "
                        "%s and {groups} is %lld; expected a dilated "
                        "kernel no deeper than the padded {input}, and as "
                        "many channels as the second size of {weight} times "
                        "{groups}",
                        tn__shape_text(a, x->ndim, x->shape),
                        tn__shape_text(b, w->ndim, w->shape),
                        (long long)groups);
    int64_t places = (batch->shape[2] - v.dilation[DEPTH] * (size - 1) - 1) /
                         v.stride[DEPTH] + 1;
    tn_tensor *flat = tn_reshape(w, tn_dims(w->shape[0], w->shape[1] * size,
                                            w->shape[3], w->shape[4]));
    const tn_dims_list stride = tn_dims(v.stride[HEIGHT], v.stride[WIDTH]);
    const tn_dims_list pad = tn_dims(v.low[HEIGHT], v.low[WIDTH]);
    const tn_dims_list dilation =
        tn_dims(v.dilation[HEIGHT], v.dilation[WIDTH]);
    tn_tensor *images = depth_as_channels(batch, size, &v);
    if (!images || !flat)
        return tn_error_code();
    const tn_value value[] = {
        tn__value_tensor(images), tn__value_tensor(flat),
        call->value[TN__ARG_CONV3D_BIAS], tn__value_dims(&stride),
        tn__value_dims(&pad), tn__value_dims(&dilation),
        tn__value_int(groups)};
    tn_tensor *y = tn__row(TN__OP_ID_CONV2D, value, 7);
    if (!y)
        return tn_error_code();
    y = tn_reshape(y, tn_dims(batch->shape[0], places, y->shape[1],
                              y->shape[2], y->shape[3]));
    return give_batch(call, tn_contiguous(tn_transpose(y, 1, 2)), x);
}

/* ---- conv_transpose3d ---------------------------------------------------- */

typedef struct transposed {
    int64_t stride[AXES], pad[AXES], more[AXES], dilation[AXES], groups;
} transposed;

static tn_status check_transposed(const tn__call *call, const tn_tensor *x,
                                  const tn_tensor *w, const transposed *t)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (t->groups < 1 || x->shape[1] != w->shape[0] ||
        x->shape[1] % t->groups)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has shape %s and {weight} "
                        "%s with %lld {groups}; expected {weight} (C, O / "
                        "{groups}, kernel), where C is the channels of "
                        "{input} and a multiple of {groups}", call->op->name,
                        tn__shape_text(a, x->ndim, x->shape),
                        tn__shape_text(b, w->ndim, w->shape),
                        (long long)t->groups);
    for (int k = 0; k < AXES; k++) {
        int64_t size = (x->shape[2 + k] - 1) * t->stride[k] - 2 * t->pad[k] +
                       t->dilation[k] * (w->shape[2 + k] - 1) + t->more[k] + 1;
        if (t->more[k] >= t->stride[k] && t->more[k] >= t->dilation[k])
            return tn__fail(TN_ERR_ARGUMENT, "%s: {output_padding} %lld is not "
                            "below {stride} %lld or {dilation} %lld",
                            call->op->name, (long long)t->more[k],
                            (long long)t->stride[k],
                            (long long)t->dilation[k]);
        if (size < 1)
            return tn__fail(TN_ERR_SHAPE, "%s: the output would have %lld "
                            "elements in a dimension; expected at least 1",
                            call->op->name, (long long)size);
    }
    return TN_OK;
}

/* Returns the result (N, O, D', H, W) of a transposed convolution from y (N *
 * D, O * kD, H, W), by summing the windows that overlap along the depth. */
static tn_tensor *sum_depth(tn_tensor *y, const tn_tensor *x,
                            const tn_tensor *w, const transposed *t)
{
    if (!y)
        return NULL;
    int64_t depth = x->shape[2], size = w->shape[2];
    int64_t length = (depth - 1) * t->stride[DEPTH] +
                     t->dilation[DEPTH] * (size - 1) + 1;
    y = tn_reshape(y, tn_dims(x->shape[0], depth, w->shape[1] * t->groups,
                              size, y->shape[2], y->shape[3]));
    const tn_value value[] = {
        tn__value_tensor(tn_permute(y, tn_dims(0, 2, 1, 4, 5, 3))),
        tn__value_int(2), tn__value_int(length),
        tn__value_int(t->stride[DEPTH]), tn__value_int(t->dilation[DEPTH])};
    y = tn__row(TN__OP_ID_WINDOWS_BACKWARD, value, 5);
    int64_t low = -t->pad[DEPTH], high = t->more[DEPTH] - t->pad[DEPTH];
    return y && (low || high)
               ? tn_constant_pad_nd(y, tn_dims(0, 0, 0, 0, low, high), 0)
               : y;
}

tn_status tn__run_conv_transpose3d(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CONV_TRANSPOSE3D_INPUT);
    tn_tensor *w = tn__call_tensor(call, TN__ARG_CONV_TRANSPOSE3D_WEIGHT);
    tn_tensor *bias = tn__call_tensor(call, TN__ARG_CONV_TRANSPOSE3D_BIAS);
    transposed t = {
        .groups = tn__call_int(call, TN__ARG_CONV_TRANSPOSE3D_GROUPS)};
    char text[TN__SHAPE_TEXT];
    if (check_volumes(call, x, w) < 0 ||
        take_list(call, TN__ARG_CONV_TRANSPOSE3D_STRIDE, 1, t.stride) < 0 ||
        take_list(call, TN__ARG_CONV_TRANSPOSE3D_PADDING, 0, t.pad) < 0 ||
        take_list(call, TN__ARG_CONV_TRANSPOSE3D_OUTPUT_PADDING, 0, t.more) <
            0 ||
        take_list(call, TN__ARG_CONV_TRANSPOSE3D_DILATION, 1, t.dilation) < 0)
        return tn_error_code();
    tn_dtype dtype = x->dtype;
    bool half = tn_dtype_bytes(dtype) == 2 && w->dtype == dtype;
    tn_tensor *batch = batch_of(half ? tn_to_dtype(x, TN_F32) : x);
    w = half ? tn_to_dtype(w, TN_F32) : w; /* half types are computed in
                                              float32 */
    if (!batch || !w || check_transposed(call, batch, w, &t) < 0)
        return tn_error_code();
    const int64_t *s = batch->shape;
    if (bias && (bias->ndim != 1 || bias->shape[0] != w->shape[1] * t.groups))
        return tn__fail(TN_ERR_SHAPE, "conv_transpose3d: {bias} %s; expected "
                        "(%lld)", tn__shape_text(text, bias->ndim, bias->shape),
                        (long long)(w->shape[1] * t.groups));
    const tn_dims_list stride = tn_dims(t.stride[HEIGHT], t.stride[WIDTH]);
    const tn_dims_list pad = tn_dims(t.pad[HEIGHT], t.pad[WIDTH]);
    const tn_dims_list more = tn_dims(t.more[HEIGHT], t.more[WIDTH]);
    const tn_dims_list dilation =
        tn_dims(t.dilation[HEIGHT], t.dilation[WIDTH]);
    tn_tensor *images = tn_reshape(tn_transpose(batch, 1, 2),
                                   tn_dims(s[0] * s[2], s[1], s[3], s[4]));
    tn_tensor *flat = tn_reshape(w, tn_dims(w->shape[0],
                                            w->shape[1] * w->shape[2],
                                            w->shape[3], w->shape[4]));
    if (!images || !flat)
        return tn_error_code();
    const tn_value value[] = {
        tn__value_tensor(images), tn__value_tensor(flat), tn__value_none(),
        tn__value_dims(&stride), tn__value_dims(&pad), tn__value_dims(&more),
        tn__value_int(t.groups), tn__value_dims(&dilation)};
    tn_tensor *y = sum_depth(tn__row(TN__OP_ID_CONV_TRANSPOSE2D, value, 8),
                             batch, w, &t);
    if (y && bias)
        y = tn_add(y, tn_reshape(bias, tn_dims(-1, 1, 1, 1)));
    if (y && y->dtype != dtype)
        y = tn_to_dtype(y, dtype);
    return give_batch(call, y, x);
}
