/* image.c: convolutions in one dimension (PyTorch's conv1d), transposed
 * convolutions (conv_transpose1d and 2d), pixel_shuffle, channel_shuffle and
 * bilinear. The convolutions are composed of conv2d and of conv2d_input, the
 * gradient of conv2d with respect to its input. */
#include <ops/nn/window.h>

/* ---- conv1d -------------------------------------------------------------- */

/* Reads argument arg, a list of one number for L. Sets *list to (first,
 * number), the list for images of height 1. */
static tn_status along(const tn__call *call, int arg, int64_t first,
                       tn_dims_list *list)
{
    const tn_dims_list *given = call->value[arg].of.dims;
    if (given->count != 1)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} has %d numbers; expected "
                        "one", call->op->name, call->op->arg[arg].name,
                        given->count);
    *list = tn_dims(first, given->dim[0]);
    return TN_OK;
}

/* Checks that x is (N, C, L) or (C, L) and that weight has 3 dimensions. */
static tn_status check_sequences(const tn__call *call, const tn_tensor *x,
                                 const tn_tensor *weight)
{
    char text[TN__SHAPE_TEXT];
    if (x->ndim != 2 && x->ndim != 3)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} %s is neither (N, C, L) nor "
                        "(C, L)", call->op->name,
                        tn__shape_text(text, x->ndim, x->shape));
    if (weight->ndim != 3)
        return tn__fail(TN_ERR_SHAPE, "%s: {weight} %s does not have 3 "
                        "dimensions", call->op->name,
                        tn__shape_text(text, weight->ndim, weight->shape));
    return TN_OK;
}

static tn_status check_channels(const tn__call *call, const tn_tensor *x,
                                const tn_tensor *weight, int64_t groups)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    int64_t channels = x->shape[x->ndim - 2];
    if (groups >= 1 && channels % groups == 0 &&
        weight->shape[1] == channels / groups)
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {input} %s has %lld channels, but "
                    "{weight} %s with {groups} %lld takes %lld: both must be "
                    "equal, and {groups} must divide the channels of the "
                    "input and of the output", call->op->name,
                    tn__shape_text(a, x->ndim, x->shape), (long long)channels,
                    tn__shape_text(b, weight->ndim, weight->shape),
                    (long long)groups,
                    (long long)tn__size_mul(weight->shape[1], groups));
}

tn_status tn__run_conv1d(tn__call *call)
{
    enum {
        bias = TN__ARG_CONV1D_BIAS,
        stride = TN__ARG_CONV1D_STRIDE,
        padding = TN__ARG_CONV1D_PADDING,
        dilation = TN__ARG_CONV1D_DILATION,
        groups = TN__ARG_CONV1D_GROUPS
    };
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CONV1D_INPUT);
    tn_tensor *weight = tn__call_tensor(call, TN__ARG_CONV1D_WEIGHT);
    tn_dims_list strides, pads, dilations;
    bool rule = call->value[padding].kind == TN_VALUE_STRING;
    if (check_sequences(call, x, weight) < 0 ||
        check_channels(call, x, weight, tn__call_int(call, groups)) < 0 ||
        along(call, stride, 1, &strides) < 0 ||
        along(call, dilation, 1, &dilations) < 0 ||
        (!rule && along(call, padding, 0, &pads) < 0))
        return tn_error_code();
    const tn_value value[] = {
        tn__value_tensor(tn_unsqueeze(x, -2)),
        tn__value_tensor(tn_unsqueeze(weight, -2)),
        call->value[bias],
        tn__value_dims(&strides),
        rule ? call->value[padding] : tn__value_dims(&pads),
        tn__value_dims(&dilations),
        call->value[groups]};
    tn_tensor *y = tn__row(TN__OP_ID_CONV2D, value, 7);
    return tn__give(call, y ? tn_squeeze(y, .dim = -2) : NULL);
}

/* ---- transposed convolutions --------------------------------------------- */

typedef struct transposed {
    tn_tensor *x, *weight, *bias; /* x is (N, C, H, W) */
    int64_t stride[2], pad[2], more[2], dilation[2], groups;
} transposed;

/* Computes a transposed convolution by conv2d_input, since a transposed
 * convolution is the gradient of a convolution with respect to its input. */
static tn_tensor *transpose(transposed *t)
{
    tn_dtype dtype = t->x->dtype;
    bool half = tn_dtype_bytes(dtype) == 2 && dtype == t->weight->dtype;
    if (half) { /* half types stay in float32 until the bias is added */
        t->x = tn_to_dtype(t->x, TN_F32);
        t->weight = tn_to_dtype(t->weight, TN_F32);
        if (!t->x || !t->weight)
            return NULL;
    }
    const tn_dims_list pad = tn_dims(t->pad[0], t->pad[1]);
    const tn_dims_list stride = tn_dims(t->stride[0], t->stride[1]);
    const tn_dims_list dilation = tn_dims(t->dilation[0], t->dilation[1]);
    tn_dims_list size = {2, {0}};
    for (int a = 0; a < 2; a++) {
        size.dim[a] = (t->x->shape[2 + a] - 1) * stride.dim[a] -
                      2 * pad.dim[a] +
                      dilation.dim[a] * (t->weight->shape[2 + a] - 1) +
                      t->more[a] + 1;
        if (size.dim[a] < 1) {
            tn__fail(TN_ERR_SHAPE, "%s: the output would have %lld elements "
                     "in a dimension; expected at least 1",
                     tn__op_outer("conv_transpose2d"), (long long)size.dim[a]);
            return NULL;
        }
    }
    const tn_value value[] = {
        tn__value_tensor(t->x),     tn__value_tensor(t->weight),
        tn__value_dims(&size),      tn__value_dims(&stride),
        tn__value_dims(&pad),       tn__value_dims(&dilation),
        tn__value_int(t->groups)};
    tn_tensor *y = tn__row(TN__OP_ID_CONV2D_INPUT, value, 7);
    if (y && t->bias)
        y = tn_add(y, tn_reshape(t->bias,
                                 tn_dims(t->groups * t->weight->shape[1], 1,
                                         1)));
    return y && half ? tn_to_dtype(y, dtype) : y;
}

static tn_status check_transposed(const tn__call *call, const transposed *t)
{
    const char *name = call->op->name;
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    const tn_tensor *x = t->x, *w = t->weight;
    if (tn__check_same_dtype(name, x, "input", w, "weight") < 0)
        return TN_ERR_DTYPE;
    if (x->ndim != 4 || w->ndim != 4 || t->groups < 1 ||
        x->shape[1] != w->shape[0] || x->shape[1] % t->groups)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has shape %s and {weight} "
                        "%s with %lld {groups}; expected {weight} (C, O / "
                        "{groups}, kernel), where C is the channels of "
                        "{input} and a multiple of {groups}", name,
                        tn__shape_text(a, x->ndim, x->shape),
                        tn__shape_text(b, w->ndim, w->shape),
                        (long long)t->groups);
    if (t->bias && (t->bias->ndim != 1 ||
                    t->bias->shape[0] != w->shape[1] * t->groups))
        return tn__fail(TN_ERR_SHAPE, "%s: {bias} %s; expected (%lld)", name,
                        tn__shape_text(a, t->bias->ndim, t->bias->shape),
                        (long long)(w->shape[1] * t->groups));
    for (int i = 0; i < 2; i++) {
        if (t->stride[i] < 1 || t->dilation[i] < 1 || t->pad[i] < 0 ||
            t->more[i] < 0 ||
            (t->more[i] >= t->stride[i] && t->more[i] >= t->dilation[i]))
            return tn__fail(TN_ERR_ARGUMENT, "%s: {stride} is %lld, {padding} "
                            "%lld, {output_padding} %lld and {dilation} %lld; "
                            "expected at least 1, 0, 0 and 1, and "
                            "{output_padding} below {stride} or {dilation}",
                            name, (long long)t->stride[i], (long long)t->pad[i],
                            (long long)t->more[i], (long long)t->dilation[i]);
    }
    return TN_OK;
}

tn_status tn__run_conv_transpose2d(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CONV_TRANSPOSE2D_INPUT);
    bool batched = x->ndim != 3;
    transposed t = {
        .x = batched ? x : tn_unsqueeze(x, 0),
        .weight = tn__call_tensor(call, TN__ARG_CONV_TRANSPOSE2D_WEIGHT),
        .bias = tn__call_tensor(call, TN__ARG_CONV_TRANSPOSE2D_BIAS),
        .groups = tn__call_int(call, TN__ARG_CONV_TRANSPOSE2D_GROUPS)};
    if (!t.x ||
        tn__window_pair(call, TN__ARG_CONV_TRANSPOSE2D_STRIDE, t.stride) < 0 ||
        tn__window_pair(call, TN__ARG_CONV_TRANSPOSE2D_PADDING, t.pad) < 0 ||
        tn__window_pair(call, TN__ARG_CONV_TRANSPOSE2D_OUTPUT_PADDING,
                        t.more) < 0 ||
        tn__window_pair(call, TN__ARG_CONV_TRANSPOSE2D_DILATION,
                        t.dilation) < 0 ||
        check_transposed(call, &t) < 0)
        return tn_error_code();
    tn_tensor *y = transpose(&t);
    return tn__give(call, y && !batched ? tn_squeeze(y, .dim = 0)
                                        : y);
}

tn_status tn__run_conv_transpose1d(tn__call *call)
{
    enum {
        stride = TN__ARG_CONV_TRANSPOSE1D_STRIDE,
        padding = TN__ARG_CONV_TRANSPOSE1D_PADDING,
        more = TN__ARG_CONV_TRANSPOSE1D_OUTPUT_PADDING,
        dilation = TN__ARG_CONV_TRANSPOSE1D_DILATION
    };
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CONV_TRANSPOSE1D_INPUT);
    tn_tensor *weight =
        tn__call_tensor(call, TN__ARG_CONV_TRANSPOSE1D_WEIGHT);
    tn_dims_list strides, pads, mores, dilations;
    if (check_sequences(call, x, weight) < 0 ||
        along(call, stride, 1, &strides) < 0 ||
        along(call, padding, 0, &pads) < 0 ||
        along(call, more, 0, &mores) < 0 ||
        along(call, dilation, 1, &dilations) < 0)
        return tn_error_code();
    const tn_value value[] = {
        tn__value_tensor(tn_unsqueeze(x, -2)),
        tn__value_tensor(tn_unsqueeze(weight, -2)),
        call->value[TN__ARG_CONV_TRANSPOSE1D_BIAS],
        tn__value_dims(&strides),
        tn__value_dims(&pads),
        tn__value_dims(&mores),
        call->value[TN__ARG_CONV_TRANSPOSE1D_GROUPS],
        tn__value_dims(&dilations)};
    tn_tensor *y = tn__row(TN__OP_ID_CONV_TRANSPOSE2D, value, 8);
    return tn__give(call, y ? tn_squeeze(y, .dim = -2) : NULL);
}

/* ---- pixel_shuffle, channel_shuffle, bilinear ---------------------------- */

tn_status tn__run_pixel_shuffle(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_PIXEL_SHUFFLE_INPUT);
    int64_t r = tn__call_int(call, TN__ARG_PIXEL_SHUFFLE_UPSCALE_FACTOR);
    int lead = x->ndim - 3;
    char text[TN__SHAPE_TEXT];
    if (lead < 0 || x->ndim + 2 > TN_MAX_NDIM || r < 1 || r > 1 << 20 ||
        x->shape[lead] % (r * r))
        return tn__fail(TN_ERR_SHAPE, "pixel_shuffle: {input} has shape %s; "
                        "expected (..., C * r * r, H, W), where the "
                        "{upscale_factor} r is %lld and must be at least 1",
                        tn__shape_text(text, x->ndim, x->shape), (long long)r);
    tn_dims_list split = {lead + 5, {0}}, order = split, out = {x->ndim, {0}};
    for (int d = 0; d < lead; d++) {
        split.dim[d] = out.dim[d] = x->shape[d];
        order.dim[d] = d;
    }
    int64_t c = x->shape[lead] / (r * r);
    const int64_t parts[] = {c, r, r, x->shape[lead + 1], x->shape[lead + 2]};
    static const int64_t places[] = {0, 3, 1, 4, 2};
    for (int i = 0; i < 5; i++) {
        split.dim[lead + i] = parts[i];
        order.dim[lead + i] = lead + places[i];
    }
    out.dim[lead] = c;
    out.dim[lead + 1] = parts[3] * r;
    out.dim[lead + 2] = parts[4] * r;
    return tn__give(call,
                    tn_reshape(tn_permute(tn_reshape(x, split), order), out));
}

tn_status tn__run_pixel_unshuffle(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_PIXEL_UNSHUFFLE_INPUT);
    int64_t r = tn__call_int(call, TN__ARG_PIXEL_UNSHUFFLE_DOWNSCALE_FACTOR);
    int lead = x->ndim - 3;
    char text[TN__SHAPE_TEXT];
    if (lead < 0 || x->ndim + 2 > TN_MAX_NDIM || r < 1 || r > INT32_MAX ||
        x->shape[lead + 1] % r || x->shape[lead + 2] % r)
        return tn__fail(TN_ERR_SHAPE, "pixel_unshuffle: {input} has shape %s; "
                        "expected (..., C, H * r, W * r), where the "
                        "{downscale_factor} r is %lld and must be at least 1",
                        tn__shape_text(text, x->ndim, x->shape), (long long)r);
    tn_dims_list split = {lead + 5, {0}}, order = split, out = {x->ndim, {0}};
    for (int d = 0; d < lead; d++) {
        split.dim[d] = out.dim[d] = x->shape[d];
        order.dim[d] = d;
    }
    int64_t h = x->shape[lead + 1] / r, w = x->shape[lead + 2] / r;
    const int64_t parts[] = {x->shape[lead], h, r, w, r};
    static const int64_t places[] = {0, 2, 4, 1, 3};
    for (int i = 0; i < 5; i++) {
        split.dim[lead + i] = parts[i];
        order.dim[lead + i] = lead + places[i];
    }
    out.dim[lead] = x->shape[lead] * r * r;
    out.dim[lead + 1] = h;
    out.dim[lead + 2] = w;
    return tn__give(call,
                    tn_reshape(tn_permute(tn_reshape(x, split), order), out));
}

tn_status tn__run_channel_shuffle(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CHANNEL_SHUFFLE_INPUT);
    int64_t groups = tn__call_int(call, TN__ARG_CHANNEL_SHUFFLE_GROUPS);
    char text[TN__SHAPE_TEXT];
    if (x->ndim < 3 || x->ndim == TN_MAX_NDIM || groups < 1 ||
        x->shape[1] % groups)
        return tn__fail(TN_ERR_SHAPE, "channel_shuffle: {groups} is %lld; "
                        "expected a divisor of the channels C of {input} (N, "
                        "C, L, ...), which has shape %s", (long long)groups,
                        tn__shape_text(text, x->ndim, x->shape));
    tn_dims_list split = {x->ndim + 1, {0}}, out = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++)
        out.dim[d] = split.dim[d + (d > 1)] = x->shape[d];
    split.dim[1] = groups;
    split.dim[2] = x->shape[1] / groups;
    tn_tensor *dealt = tn_transpose(tn_reshape(x, split), 1, 2);
    return tn__give(call, tn_reshape(dealt, out));
}

tn_status tn__run_bilinear(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_BILINEAR_INPUT1);
    tn_tensor *b = tn__call_tensor(call, TN__ARG_BILINEAR_INPUT2);
    tn_tensor *w = tn__call_tensor(call, TN__ARG_BILINEAR_WEIGHT);
    tn_tensor *bias = tn__call_tensor(call, TN__ARG_BILINEAR_BIAS);
    char s[TN__SHAPE_TEXT], t[TN__SHAPE_TEXT], u[TN__SHAPE_TEXT];
    bool fits = w->ndim == 3 && a->ndim > 0 && a->ndim == b->ndim &&
                tn__shape_equal(a->ndim - 1, a->shape, b->ndim - 1, b->shape);
    if (!fits || a->shape[a->ndim - 1] != w->shape[1] ||
        b->shape[b->ndim - 1] != w->shape[2])
        return tn__fail(TN_ERR_SHAPE, "bilinear: {input1} %s, {input2} %s and "
                        "{weight} %s do not fit: expected (..., I), (..., J) "
                        "and (O, I, J)", tn__shape_text(s, a->ndim, a->shape),
                        tn__shape_text(t, b->ndim, b->shape),
                        tn__shape_text(u, w->ndim, w->shape));
    tn_dims_list wide = {a->ndim + 1, {0}};
    for (int d = 0; d + 1 < a->ndim; d++)
        wide.dim[d] = a->shape[d];
    wide.dim[a->ndim - 1] = w->shape[0];
    wide.dim[a->ndim] = w->shape[2];
    /* The bilinear form is sum over i, j of a[i] * w[o][i][j] * b[j]. The
     * product of a (..., I) and w as (I, O * J) is reshaped to (..., O, J). It
     * is then multiplied by b and summed over J. */
    tn_tensor *rows = tn_reshape(tn_permute(w, tn_dims(1, 0, 2)),
                                 tn_dims(w->shape[1],
                                         w->shape[0] * w->shape[2]));
    tn_tensor *y = tn_mul(tn_reshape(tn_matmul(a, rows), wide),
                          tn_unsqueeze(b, -2));
    y = y ? tn_sum(y, .dim = -1, .dtype = y->dtype) : NULL;
    return tn__give(call, y && bias ? tn_add(y, bias) : y);
}
