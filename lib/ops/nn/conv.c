/* conv.c: 2-d convolution (PyTorch's conv2d) and its gradients with respect to
 * input and weight. The device computes them if it has the extension `conv`.
 * Otherwise they are matrix products: the windows of the images become columns
 * (im2col), and weight times columns is the output. Chellapilla, Puri, Simard,
 * "High performance convolutional neural networks for document processing",
 * 2006. */
#include <ops/nn/window.h>
#include <device/work.h>

/* The maximum size, in bytes, of the columns that are made at a time. The
 * columns hold as many whole images as fit. This size fits into the caches, and
 * one matrix product over it is enough work for a launch. */
#define COLUMNS_BYTES (32 << 20)

/* ---- reading the arguments ----------------------------------------------- */

typedef struct conv {
    tn__images x;
    tn__window w;
    tn_tensor *weight, *bias;
    int64_t groups, out_channels;
} conv;

static tn_status padding_by_name(const tn__call *call, tn__window *w,
                                 int64_t beyond[2])
{
    const char *name = call->value[TN__ARG_CONV2D_PADDING].of.string;
    bool same = strcmp(name, "same") == 0;
    if (!same && strcmp(name, "valid") != 0)
        return tn__fail(TN_ERR_ARGUMENT, "conv2d: {padding} \"%s\" is neither "
                        "\"same\" nor \"valid\"", name);
    for (int a = 0; a < 2; a++) {
        if (same && w->stride[a] != 1)
            return tn__fail(TN_ERR_ARGUMENT, "conv2d: {padding} \"same\" with "
                            "{stride} %lld; it needs {stride} 1",
                            (long long)w->stride[a]);
        int64_t total = same ? w->dilation[a] * (w->kernel[a] - 1) : 0;
        w->pad[a] = total / 2;
        beyond[a] = total - total / 2;
    }
    return TN_OK;
}

static tn_status take_geometry(const tn__call *call, conv *c)
{
    tn__window *w = &c->w;
    int64_t beyond[2];
    tn_status status =
        tn__window_pair(call, TN__ARG_CONV2D_STRIDE, w->stride);
    if (status >= 0)
        status = tn__window_pair(call, TN__ARG_CONV2D_DILATION, w->dilation);
    if (status < 0)
        return status;
    for (int a = 0; a < 2; a++) {
        w->in[a] = c->x.tensor->shape[c->x.tensor->ndim - 2 + a];
        w->kernel[a] = c->weight->shape[2 + a];
        if (w->stride[a] < 1 || w->dilation[a] < 1)
            return tn__fail(TN_ERR_ARGUMENT, "conv2d: {stride} is %lld and "
                            "{dilation} %lld; expected at least 1 for both",
                            (long long)w->stride[a],
                            (long long)w->dilation[a]);
    }
    if (call->value[TN__ARG_CONV2D_PADDING].kind == TN_VALUE_STRING) {
        status = padding_by_name(call, w, beyond);
    } else {
        status = tn__window_pair(call, TN__ARG_CONV2D_PADDING, w->pad);
        memcpy(beyond, w->pad, sizeof beyond);
        if (status >= 0 && (w->pad[0] < 0 || w->pad[1] < 0))
            status = tn__fail(TN_ERR_ARGUMENT, "conv2d: {padding} (%lld, %lld) "
                              "is negative", (long long)w->pad[0],
                              (long long)w->pad[1]);
    }
    if (status < 0)
        return status;
    for (int a = 0; a < 2; a++) {
        int64_t padded = w->in[a] + w->pad[a] + beyond[a];
        int64_t reach = w->dilation[a] * (w->kernel[a] - 1) + 1;
        if (padded < reach)
            return tn__fail(TN_ERR_SHAPE, "conv2d: the kernel spans %lld "
                            "elements, but the padded {input} has only %lld",
                            (long long)reach, (long long)padded);
        w->out[a] = (padded - reach) / w->stride[a] + 1;
    }
    return TN_OK;
}

static tn_status take_conv(const tn__call *call, conv *c)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CONV2D_INPUT);
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    c->weight = tn__call_tensor(call, TN__ARG_CONV2D_WEIGHT);
    c->bias = tn__call_tensor(call, TN__ARG_CONV2D_BIAS);
    c->groups = tn__call_int(call, TN__ARG_CONV2D_GROUPS);
    tn_status status = tn__images_of("conv2d", x, &c->x);
    if (status < 0)
        return status;
    if (c->weight->ndim != 4)
        return tn__fail(TN_ERR_SHAPE, "conv2d: {weight} has shape %s; "
                        "expected (O, C / {groups}, kH, kW)",
                        tn__shape_text(a, c->weight->ndim, c->weight->shape));
    c->out_channels = c->weight->shape[0];
    if (c->groups < 1 || c->x.channels % c->groups ||
        c->out_channels % c->groups ||
        c->weight->shape[1] != c->x.channels / c->groups)
        return tn__fail(TN_ERR_SHAPE, "conv2d: {input} %s has %lld channels, "
                        "but {weight} %s with {groups} %lld takes %lld: both "
                        "must be equal, and {groups} must divide the channels "
                        "of the input and of the output",
                        tn__shape_text(a, x->ndim, x->shape),
                        (long long)c->x.channels,
                        tn__shape_text(b, 4, c->weight->shape),
                        (long long)c->groups,
                        (long long)tn__size_mul(c->weight->shape[1], c->groups));
    status = tn__check_same_dtype("conv2d", x, "input", c->weight, "weight");
    if (status >= 0 && c->bias) {
        if (c->bias->ndim != 1 || c->bias->shape[0] != c->out_channels)
            return tn__fail(TN_ERR_SHAPE, "conv2d: {bias} has shape %s; "
                            "expected (%lld,)",
                            tn__shape_text(a, c->bias->ndim, c->bias->shape),
                            (long long)c->out_channels);
        status = tn__check_same_dtype("conv2d", x, "input", c->bias, "bias");
    }
    return status < 0 ? status : take_geometry(call, c);
}

/* ---- convolution by the device ------------------------------------------- */

static tn_strided strided(const tn_tensor *x, int ndim)
{
    tn_strided view = {.buffer = tn__tensor_buffer(x),
                       .offset = tn__tensor_buffer_offset(x),
                       .dtype = x->dtype, .ndim = (uint32_t)ndim};
    /* (C, H, W) becomes (1, C, H, W). */
    for (int d = 0; d < x->ndim; d++)
        view.stride[ndim - x->ndim + d] = x->stride[d];
    return view;
}

/* What a device computes: a convolution, or its gradient by input or by
 * weight. */
typedef struct device_conv {
    uint32_t kind; /* TN_CONV_..., says which of in, weight and out is
                      computed */
    const tn__window *w;
    int64_t groups;
    const tn_tensor *in, *weight, *out, *bias; /* bias may be NULL */
    const char *what; /* the name of the operator in error messages */
} device_conv;

/* Computes one of in, weight and out from the other two, as c->kind says, by
 * the device's extension `conv`. Returns TN_ERR_UNSUPPORTED, without an error
 * recorded, if the device lacks the extension or declines the call. */
static tn_status by_extension(const device_conv *c)
{
    const tn__window *w = c->w;
    const tn_tensor *in = c->in, *weight = c->weight, *out = c->out;
    tn_device *device = out->storage->device;
    if (in->numel == 0 || weight->numel == 0 || out->numel == 0)
        return TN_ERR_UNSUPPORTED;
    tn_conv_args args = {
        .size = sizeof args, .kind = c->kind, .groups = c->groups,
        .count = out->ndim == 4 ? out->shape[0] : 1,
        .in_channels = in->shape[in->ndim - 3],
        .out_channels = weight->shape[0],
        .in = strided(in, 4), .weight = strided(weight, 4),
        .out = strided(out, 4)};
    if (c->bias)
        args.bias = strided(c->bias, 1);
    for (int a = 0; a < 2; a++) {
        args.in_size[a] = w->in[a];
        args.kernel[a] = w->kernel[a];
        args.out_size[a] = w->out[a];
        args.stride[a] = w->stride[a];
        args.dilation[a] = w->dilation[a];
        args.pad[a] = w->pad[a];
    }
    return tn__device_work(device, TN__WORK_CONV, &args, c->what, NULL, NULL);
}

/* ---- convolution by columns and matrix products -------------------------- */

/* Returns how many of the `count` images are made into columns at a time. numel
 * is the number of elements of the columns of one image. */
static int64_t images_at_once(int64_t count, int64_t numel, tn_dtype dtype)
{
    int64_t bytes = numel * (int64_t)tn_dtype_bytes(dtype);
    int64_t most = bytes ? COLUMNS_BYTES / bytes : count;
    return most < 1 ? 1 : most < count ? most : count;
}

/* Computes the images [first, first + count) of out: the weight times the
 * columns of these images, of shape (count, C * kH * kW, oH * oW). */
static tn_status multiply(const conv *c, tn_tensor *columns, tn_tensor *out,
                          int64_t first, int64_t count)
{
    int64_t g = c->groups, m = c->out_channels / g;
    int64_t k = c->weight->numel / c->out_channels;
    int64_t n = c->w.out[0] * c->w.out[1];
    const int64_t *ws = c->weight->stride;
    tn_matmul_args args = {
        .size = sizeof args, .batch_ndim = 2, .batch = {count, g}, .m = m,
        .n = n, .k = k, .alpha = 1, .beta = c->bias ? 1 : 0,
        .a = {.buffer = tn__tensor_buffer(c->weight),
              .offset = tn__tensor_buffer_offset(c->weight),
              .dtype = c->weight->dtype, .ndim = 4,
              .stride = {0, m * ws[0], ws[0], 1}},
        .b = {.buffer = tn__tensor_buffer(columns),
              .offset = tn__tensor_buffer_offset(columns),
              .dtype = columns->dtype, .ndim = 4,
              .stride = {g * k * n, k * n, n, 1}},
        .c = {.buffer = tn__tensor_buffer(out),
              .offset = tn__tensor_buffer_offset(out) + first * g * m * n,
              .dtype = out->dtype, .ndim = 4,
              .stride = {g * m * n, m * n, n, 1}}};
    return tn__device_work(out->storage->device, TN__WORK_MATMUL, &args,
                           "conv2d", NULL, NULL);
}

/* Fills each channel of out with its bias. The product is added to it
 * afterwards. */
static tn_status write_bias(const conv *c, tn_tensor *out)
{
    tn_tensor view;
    view.storage = c->bias->storage;
    view.offset = c->bias->offset;
    view.dtype = c->bias->dtype;
    view.ndim = 3;
    view.shape[0] = c->out_channels;
    view.shape[1] = view.shape[2] = 1;
    view.stride[0] = c->bias->stride[0];
    view.stride[1] = view.stride[2] = 0;
    return tn__copy_into(out, &view, "conv2d");
}

static tn_status run_conv(const conv *c, tn_tensor *out)
{
    int64_t rows = c->x.channels * c->w.kernel[0] * c->w.kernel[1];
    int64_t places = c->w.out[0] * c->w.out[1];
    int64_t step =
        images_at_once(c->x.count, rows * places, c->x.tensor->dtype);
    const int64_t shape[] = {step, rows, places};
    tn_tensor *columns = tn__tensor_new(out->storage->device, out->dtype, 3,
                                        shape, "conv2d");
    if (!columns)
        return tn_error_code();
    tn_status status = c->bias ? write_bias(c, out) : TN_OK;
    /* `part` is a view of the images that one iteration processes. Only the
     * fields that describe a view are set. */
    tn_tensor part;
    part.storage = c->x.tensor->storage;
    part.dtype = c->x.tensor->dtype;
    tn__images images = c->x;
    images.tensor = &part;
    for (int64_t at = 0; at < c->x.count && status >= 0; at += step) {
        images.count = c->x.count - at < step ? c->x.count - at : step;
        part.offset = c->x.tensor->offset + at * c->x.count_stride;
        status = tn__columns_write(&images, &c->w, columns, "conv2d");
        if (status >= 0)
            status = multiply(c, columns, out, at, images.count);
    }
    tn__unref(columns);
    return status;
}

/* Computes the convolution by the device. If the device declines, calls it for
 * the convolution without bias, and adds the bias by an operator. */
static tn_status forward_device(const conv *c, tn_tensor *out)
{
    device_conv d = {.kind = TN_CONV_FORWARD, .w = &c->w, .groups = c->groups,
                     .in = c->x.tensor, .weight = c->weight, .out = out,
                     .bias = c->bias, .what = "conv2d"};
    tn_status status = by_extension(&d);
    if (status != TN_ERR_UNSUPPORTED || !c->bias)
        return status;
    d.bias = NULL;
    status = by_extension(&d);
    tn_scope *scope = status >= 0 ? tn_scope_open() : NULL;
    if (scope && !tn_add_(out, tn_reshape(c->bias,
                                          tn_dims(c->out_channels, 1, 1))))
        status = tn_error_code();
    else if (status >= 0 && !scope)
        status = TN_ERR_MEMORY;
    tn_scope_close(scope);
    return status;
}

static tn_status forward(conv *c, tn_tensor *out)
{
    tn_status status = forward_device(c, out);
    if (status != TN_ERR_UNSUPPORTED)
        return status;
    /* The matrix product needs the weights of each output channel to be
     * contiguous. */
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    c->weight = tn_contiguous(c->weight);
    status = c->weight ? run_conv(c, out) : tn_error_code();
    tn_scope_close(scope);
    return status;
}

tn_status tn__run_conv2d(tn__call *call)
{
    conv c;
    tn_status status = take_conv(call, &c);
    if (status < 0)
        return status;
    tn_tensor *x = c.x.tensor;
    bool batched = x->ndim == 4;
    const int64_t shape[] = {c.x.count, c.out_channels, c.w.out[0],
                             c.w.out[1]};
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, 3 + batched,
                                    shape + !batched, "conv2d");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    return out->numel == 0 ? TN_OK : forward(&c, out);
}

/* ---- input, weight or out from the other two ----------------------------- */

/* The operators conv2d_out, conv2d_input and conv2d_weight compute one of
 * input, weight and out from the other two. Their arguments are the two given
 * tensors, both with 4 dimensions, the last two sizes of the tensor to compute,
 * and then stride, padding, dilation and groups. */
enum { SIZE = 2, STRIDE, PADDING, DILATION, GROUPS };

typedef struct part {
    tn_tensor *input, *weight, *out; /* the tensor to compute is NULL */
    tn__window w;
    int64_t groups;
} part;

/* Returns whether the numbers of channels of the two given tensors match for
 * p->groups. */
static bool fits(const part *p)
{
    const int64_t *x = p->input ? p->input->shape : NULL,
                  *w = p->weight ? p->weight->shape : NULL,
                  *o = p->out ? p->out->shape : NULL;
    int64_t g = p->groups;
    if (g < 1 || (w && w[0] % g) || (x && x[1] % g) || (o && o[1] % g))
        return false;
    return x && w ? x[1] / g == w[1] : o && w ? o[1] == w[0] : x[0] == o[0];
}

static tn_status check_part(const tn__call *call, const part *p,
                            const int64_t *size)
{
    const tn_tensor *a = tn__call_tensor(call, 0), *b = tn__call_tensor(call, 1);
    char first[TN__SHAPE_TEXT], second[TN__SHAPE_TEXT];
    if (a->ndim != 4 || b->ndim != 4 || !fits(p))
        return tn__fail(TN_ERR_SHAPE, "%s: {%s} has shape %s and {%s} %s with "
                        "%lld {groups}; expected 4 dimensions each, and "
                        "channels that divide into the groups", call->op->name,
                        call->op->arg[0].name,
                        tn__shape_text(first, a->ndim, a->shape),
                        call->op->arg[1].name,
                        tn__shape_text(second, b->ndim, b->shape),
                        (long long)p->groups);
    for (int i = 0; i < 2; i++)
        if (size[i] < 0 || p->w.stride[i] < 1 || p->w.dilation[i] < 1 ||
            p->w.pad[i] < 0)
            return tn__fail(TN_ERR_ARGUMENT, "%s: {size} is %lld, {stride} "
                            "%lld, {dilation} %lld and {padding} %lld; "
                            "expected at least 0, 1, 1 and 0", call->op->name,
                            (long long)size[i], (long long)p->w.stride[i],
                            (long long)p->w.dilation[i],
                            (long long)p->w.pad[i]);
    return TN_OK;
}

/* Checks that the windows are within the padded input. With padding "same", the
 * padding after the input may be one element larger than the one before it. */
static tn_status check_reach(const tn__call *call, const tn__window *w)
{
    for (int a = 0; a < 2; a++) {
        int64_t room = w->in[a] + 2 * w->pad[a] + 1;
        int64_t reach =
            tn__size_add(tn__size_mul(w->out[a] - 1, w->stride[a]),
                         tn__size_mul(w->kernel[a] - 1, w->dilation[a])) + 1;
        if (w->out[a] > 0 && w->kernel[a] > 0 && reach > room)
            return tn__fail(TN_ERR_SHAPE, "%s: %lld windows of %lld elements "
                            "with {stride} %lld and {dilation} %lld do not "
                            "fit into a dimension of %lld elements padded by "
                            "%lld", call->op->name, (long long)w->out[a],
                            (long long)w->kernel[a], (long long)w->stride[a],
                            (long long)w->dilation[a], (long long)w->in[a],
                            (long long)w->pad[a]);
    }
    return TN_OK;
}

static tn_status take_part(const tn__call *call, part *p)
{
    int64_t size[2];
    tn_status status = tn__window_pair(call, SIZE, size);
    if (status >= 0)
        status = tn__window_pair(call, STRIDE, p->w.stride);
    if (status >= 0)
        status = tn__window_pair(call, PADDING, p->w.pad);
    if (status >= 0)
        status = tn__window_pair(call, DILATION, p->w.dilation);
    p->groups = tn__call_int(call, GROUPS);
    if (status >= 0)
        status = check_part(call, p, size);
    if (status < 0)
        return status;
    for (int a = 0; a < 2; a++) {
        p->w.in[a] = p->input ? p->input->shape[2 + a] : size[a];
        p->w.kernel[a] = p->weight ? p->weight->shape[2 + a] : size[a];
        p->w.out[a] = p->out ? p->out->shape[2 + a] : size[a];
    }
    return check_reach(call, &p->w);
}

static tn_dims_list two(const int64_t *pair)
{
    return tn_dims(pair[0], pair[1]);
}

/* Computes the gradient with respect to the input. With W the weight as a
 * matrix and G the gradient of the output, W^T G gives columns, which are
 * summed into images (col2im). */
static tn_tensor *input_by_columns(const part *p)
{
    const int64_t *w = p->weight->shape, *o = p->out->shape;
    int64_t area = o[2] * o[3], g = p->groups, k = w[1] * w[2] * w[3];
    tn_tensor *weight = tn_reshape(p->weight, tn_dims(g, w[0] / g, k));
    tn_tensor *out = tn_reshape(p->out, tn_dims(o[0], g, o[1] / g, area));
    tn_tensor *columns = tn_matmul(tn_transpose(weight, 1, 2), out);
    columns = tn_reshape(columns, tn_dims(o[0], g * k, area));
    const tn_dims_list list[] = {two(p->w.in), two(p->w.kernel),
                                 two(p->w.dilation), two(p->w.pad),
                                 two(p->w.stride), two(p->w.out)};
    if (!columns)
        return NULL;
    tn_value value[7] = {tn__value_tensor(columns)};
    for (int i = 0; i < 6; i++)
        value[1 + i] = tn__value_dims(&list[i]);
    return tn__row(TN__OP_ID_COL2IM, value, 7);
}

/* Computes the gradient with respect to the weight: G X^T, summed over the
 * images, where X is the columns of the input (im2col) and G the gradient of
 * the output. */
static tn_tensor *weight_by_columns(const part *p)
{
    const int64_t *x = p->input->shape, *o = p->out->shape;
    const int64_t *kernel = p->w.kernel;
    int64_t area = o[2] * o[3], g = p->groups;
    int64_t k = x[1] / g * kernel[0] * kernel[1];
    const tn_dims_list list[] = {two(kernel), two(p->w.dilation),
                                 two(p->w.pad), two(p->w.stride),
                                 two(p->w.out)};
    tn_value value[6] = {tn__value_tensor(p->input)};
    for (int i = 0; i < 5; i++)
        value[1 + i] = tn__value_dims(&list[i]);
    tn_tensor *columns = tn_reshape(tn__row(TN__OP_ID_IM2COL, value, 6),
                                    tn_dims(x[0], g, k, area));
    tn_tensor *each =
        tn_matmul(tn_reshape(p->out, tn_dims(o[0], g, o[1] / g, area)),
                  tn_transpose(columns, 2, 3));
    return tn_reshape(tn_sum(each, .dim = 0),
                      tn_dims(o[1], x[1] / g, kernel[0], kernel[1]));
}

static tn_tensor *out_by_columns(const part *p)
{
    conv c = {.w = p->w, .groups = p->groups,
              .weight = tn_contiguous(p->weight),
              .out_channels = p->weight->shape[0]};
    const int64_t shape[] = {p->input->shape[0], c.out_channels, p->w.out[0],
                             p->w.out[1]};
    if (!c.weight || tn__images_of("conv2d", p->input, &c.x) < 0)
        return NULL;
    tn_tensor *out = tn__tensor_new(p->input->storage->device,
                                    p->input->dtype, 4, shape, "conv2d");
    if (out && !tn__scope_own(out))
        return NULL;
    return out && (out->numel == 0 || run_conv(&c, out) >= 0) ? out : NULL;
}

/* Computes a gradient for a few images at a time, to limit the memory for the
 * columns. */
static tn_tensor *in_steps(const part *p, uint32_t kind)
{
    tn_tensor *(*const of)(const part *) =
        kind == TN_CONV_INPUT ? input_by_columns : weight_by_columns;
    const int64_t count = p->out->shape[0];
    const int64_t channels =
        p->input ? p->input->shape[1] : p->weight->shape[1] * p->groups;
    const int64_t step = images_at_once(
        count,
        channels * p->w.kernel[0] * p->w.kernel[1] * p->w.out[0] * p->w.out[1],
        p->out->dtype);
    tn_tensor *whole = NULL;
    if (step == count)
        return of(p);
    if (kind == TN_CONV_INPUT)
        whole = tn_empty(tn_dims(count, channels, p->w.in[0], p->w.in[1]),
                         .dtype = p->out->dtype,
                         .device = p->out->storage->device);
    for (int64_t at = 0; at < count && (whole || at == 0); at += step) {
        const int64_t some = count - at < step ? count - at : step;
        part few = *p;
        tn_scope *scope = tn_scope_open();
        few.out = tn_narrow(p->out, 0, at, some);
        few.input = p->input ? tn_narrow(p->input, 0, at, some) : NULL;
        tn_tensor *y = few.out && (few.input || !p->input) ? of(&few) : NULL;
        tn_tensor *sum = kind == TN_CONV_INPUT
                             ? tn_copy_(tn_narrow(whole, 0, at, some), y)
                         : at ? tn_add_(whole, y)
                              : y;
        if (kind == TN_CONV_WEIGHT && at == 0)
            whole = tn_scope_result(scope, sum);
        else
            tn_scope_close(scope);
        if (!sum)
            return NULL;
    }
    return whole;
}

static tn_tensor *by_columns(part *p, uint32_t kind)
{
    tn_tensor **side[] = {&p->input, &p->weight, &p->out};
    tn_dtype dtype = (p->out ? p->out : p->weight)->dtype;
    bool half = kind != TN_CONV_FORWARD && tn_dtype_bytes(dtype) == 2;
    /* Half types are computed in float32, since several products are summed. */
    for (int i = 0; i < 3 && half; i++)
        if (*side[i] && !(*side[i] = tn_to_dtype(*side[i], TN_F32)))
            return NULL;
    tn_tensor *y =
        kind == TN_CONV_FORWARD ? out_by_columns(p) : in_steps(p, kind);
    return half ? tn_to_dtype(y, dtype) : y;
}

static tn_status run_part(tn__call *call, part *p, uint32_t kind)
{
    const tn_tensor *a = tn__call_tensor(call, 0);
    tn_status status = tn__check_same_dtype(
        tn__op_outer(call->op->name), a, kind == TN_CONV_INPUT ? "g" : "input",
        tn__call_tensor(call, 1), kind == TN_CONV_WEIGHT ? "g" : "weight");
    if (status >= 0)
        status = take_part(call, p);
    if (status < 0)
        return status;
    int64_t channels = p->input ? p->input->shape[1]
                                : p->weight->shape[1] * p->groups;
    int64_t outs = p->weight ? p->weight->shape[0] : p->out->shape[1];
    const int64_t shape[3][4] = {
        {a->shape[0], outs, p->w.out[0], p->w.out[1]},
        {a->shape[0], channels, p->w.in[0], p->w.in[1]},
        {outs, channels / p->groups, p->w.kernel[0], p->w.kernel[1]}};
    tn_tensor *made = tn__tensor_new(a->storage->device, a->dtype, 4,
                                     shape[kind], call->op->name);
    if (!made)
        return tn_error_code();
    const device_conv d = {.kind = kind, .w = &p->w, .groups = p->groups,
                           .in = p->input ? p->input : made,
                           .weight = p->weight ? p->weight : made,
                           .out = p->out ? p->out : made,
                           .what = call->op->name};
    status = by_extension(&d);
    if (status == TN_ERR_UNSUPPORTED) {
        tn__unref(made);
        tn_scope *scope = tn_scope_open();
        if (!scope)
            return TN_ERR_MEMORY;
        made = by_columns(p, kind);
        status = made ? TN_OK : tn_error_code();
        if (made)
            tn__ref(made);
        tn_scope_close(scope);
    }
    if (made)
        call->out[call->out_count++] = made;
    return status;
}

tn_status tn__run_conv2d_out(tn__call *call)
{
    part p = {.input = tn__call_tensor(call, 0),
              .weight = tn__call_tensor(call, 1)};
    return run_part(call, &p, TN_CONV_FORWARD);
}

tn_status tn__run_conv2d_input(tn__call *call)
{
    part p = {.out = tn__call_tensor(call, 0),
              .weight = tn__call_tensor(call, 1)};
    return run_part(call, &p, TN_CONV_INPUT);
}

tn_status tn__run_conv2d_weight(tn__call *call)
{
    part p = {.input = tn__call_tensor(call, 0),
              .out = tn__call_tensor(call, 1)};
    return run_part(call, &p, TN_CONV_WEIGHT);
}
