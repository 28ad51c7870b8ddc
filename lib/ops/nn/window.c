/* window.c: iteration spaces over the windows of images. A tap is one of the
 * kH * kW positions of a window. Without padding, the address of a tap is a sum
 * of coordinates times strides, so a kernel reads the image by strides. With
 * padding, the kernel computes the row and the column of the tap and reads by
 * index. */
#include <base/memory.h>
#include <ops/nn/window.h>

bool tn__window_is_inside(const tn__window *w)
{
    for (int a = 0; a < 2; a++)
        if (w->pad[a] != 0 ||
            (w->out[a] - 1) * w->stride[a] +
                    (w->kernel[a] - 1) * w->dilation[a] >=
                w->in[a])
            return false;
    return true;
}

tn_status tn__window_divisor(const tn__call *call, int arg, int64_t *divisor)
{
    *divisor = tn__call_has(call, arg) ? tn__call_int(call, arg) : 0;
    if (tn__call_has(call, arg) && *divisor == 0)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {divisor_override} is 0; "
                        "expected any other number", call->op->name);
    return TN_OK;
}

/* Returns the coordinate along axis a of the first position of window i that is
 * not before the start of the image. */
static int64_t first_tap(const tn__window *w, int a, int64_t i)
{
    int64_t at = i * w->stride[a] - w->pad[a], step = w->dilation[a];
    return at < 0 ? at + (step - 1 - at) / step * step : at;
}

bool tn__window_all_padding(const tn__window *w)
{
    for (int a = 0; a < 2; a++)
        for (int64_t i = 0; w->dilation[a] > w->in[a] && i < w->out[a] &&
                            i * w->stride[a] < w->pad[a]; i++)
            if (first_tap(w, a, i) >= w->in[a])
                return true;
    return false;
}

tn_status tn__window_visible(const tn__window *w, tn_device *device,
                             tn_tensor **shows, tn_tensor **first)
{
    const tn_dims_list size = {2, {w->out[0], w->out[1]}};
    tn_tensor *tap[2];
    for (int a = 0; a < 2; a++) {
        int64_t *list = tn__alloc_many(w->out[a], sizeof *list);
        if (!list)
            return TN_ERR_MEMORY;
        for (int64_t i = 0; i < w->out[a]; i++)
            list[i] = first_tap(w, a, i);
        tap[a] = tn__number_table(list, TN_I64, TN_I64, tn_dims(w->out[a]),
                                  device);
        tn__free(list);
    }
    tap[0] = tn_unsqueeze(tap[0], 1);
    *shows = tn_logical_and(tn_lt_scalar(tap[0], tn_scalar_int(w->in[0])),
                            tn_lt_scalar(tap[1], tn_scalar_int(w->in[1])));
    *first = tn_add(tn_mul_scalar(tap[0], tn_scalar_int(w->in[1])), tap[1]);
    *shows = tn_expand(*shows, size);
    return *shows && *first ? TN_OK : tn_error_code();
}

tn_status tn__window_pair(const tn__call *call, int arg, int64_t pair[2])
{
    const tn_dims_list *dims = call->value[arg].of.dims;
    char text[TN__SHAPE_TEXT];
    if (dims->count < 1 || dims->count > 2)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} %s is neither one number "
                        "nor two", call->op->name, call->op->arg[arg].name,
                        tn__shape_text(text, dims->count, dims->dim));
    /* The limit keeps sums of products from overflowing. */
    for (int i = 0; i < dims->count; i++)
        if (dims->dim[i] > INT32_MAX || dims->dim[i] < -INT32_MAX)
            return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} %lld is outside (-2^31, 2^31)",
                            tn__op_outer(call->op->name), call->op->arg[arg].name,
                            (long long)dims->dim[i]);
    pair[0] = dims->dim[0];
    pair[1] = dims->dim[dims->count - 1];
    return TN_OK;
}

tn_status tn__images_of(const char *name, tn_tensor *x, tn__images *images)
{
    char text[TN__SHAPE_TEXT];
    if (x->ndim != 3 && x->ndim != 4)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} %s is neither (N, C, H, W) "
                        "nor (C, H, W)", name,
                        tn__shape_text(text, x->ndim, x->shape));
    int at = x->ndim - 3;
    *images = (tn__images){
        .tensor = x, .count = at ? x->shape[0] : 1, .channels = x->shape[at],
        .count_stride = at ? x->stride[0] : 0, .channel_stride = x->stride[at],
        .stride = {x->stride[at + 1], x->stride[at + 2]}};
    return TN_OK;
}

/* Sets *out to the index of the dimension oH in the space, and *kernel to the
 * index of kH. The dimensions oW and kW follow them. */
static void places(const tn__space *space, int *out, int *kernel)
{
    *out = space->row_ndim ? 2 : 4;
    *kernel = space->row_ndim ? 4 : 2;
}

void tn__window_space(tn__space *space, const tn__window *w,
                      const tn__images *x, bool in_row)
{
    space->outer_ndim = in_row ? 4 : 6;
    space->row_ndim = in_row ? 2 : 0;
    space->operand_count = 0;
    space->flags = 0;
    int out, kernel;
    places(space, &out, &kernel);
    space->extent[0] = x->count;
    space->extent[1] = x->channels;
    for (int a = 0; a < 2; a++) {
        space->extent[out + a] = w->out[a];
        space->extent[kernel + a] = w->kernel[a];
    }
}

void tn__window_add_strided(tn__space *space, const tn__window *w,
                            const tn__images *x)
{
    int out, kernel;
    places(space, &out, &kernel);
    tn__operand *operand = tn__space_add_bare(space, x->tensor);
    operand->stride[0] = x->count_stride;
    operand->stride[1] = x->channel_stride;
    for (int a = 0; a < 2; a++) {
        operand->stride[out + a] = w->stride[a] * x->stride[a];
        operand->stride[kernel + a] = w->dilation[a] * x->stride[a];
    }
}

void tn__window_add_indexed(tn__space *space, const tn__window *w,
                            const tn__images *x)
{
    tn__operand *operand = tn__space_add_bare(space, x->tensor);
    operand->stride[0] = x->count_stride;
    operand->stride[1] = x->channel_stride;
    for (int a = 0; a < 2; a++) {
        operand->index_stride[a] = x->stride[a];
        operand->index_extent[a] = w->in[a];
    }
}

void tn__window_add_coordinate(tn__space *space, const tn__window *w, int axis)
{
    int out, kernel;
    places(space, &out, &kernel);
    tn__operand *operand = tn__space_add_bare(space, NULL);
    operand->offset = -w->pad[axis];
    operand->stride[out + axis] = w->stride[axis];
    operand->stride[kernel + axis] = w->dilation[axis];
}
