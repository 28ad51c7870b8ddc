/* gradients_window.c: gradients of convolution, pooling, im2col and col2im.
 * im2col (unfold in PyTorch) copies windows of an image to columns; col2im
 * (fold) adds columns to an image. Every gradient here calls operators that
 * have gradients themselves, so it can be differentiated again. */
#include <autograd/autograd.h>
#include <base/memory.h>
#include <ops/table.h>
#include <ops/nn/window.h>
#include <tenon/ops.h>

/* The windows over an image. Each list has two elements, for height and
 * width. */
typedef struct windows {
    tn_dims_list kernel, dilation, padding, stride, out;
} windows;

static tn_tensor *im2col(tn_tensor *x, const windows *w)
{
    if (!x)
        return NULL;
    const tn_value value[] = {tn__value_tensor(x), tn__value_dims(&w->kernel),
                              tn__value_dims(&w->dilation),
                              tn__value_dims(&w->padding),
                              tn__value_dims(&w->stride),
                              tn__value_dims(&w->out)};
    return tn__op_run1(&tn__op_table[TN__OP_ID_IM2COL], value, 6);
}

static tn_tensor *col2im(tn_tensor *x, tn_dims_list size, const windows *w)
{
    if (!x)
        return NULL;
    const tn_value value[] = {tn__value_tensor(x), tn__value_dims(&size),
                              tn__value_dims(&w->kernel),
                              tn__value_dims(&w->dilation),
                              tn__value_dims(&w->padding),
                              tn__value_dims(&w->stride),
                              tn__value_dims(&w->out)};
    return tn__op_run1(&tn__op_table[TN__OP_ID_COL2IM], value, 7);
}

/* Reads the lists of struct windows from the arguments `first` to first + 4 of
 * the call. im2col and col2im have them in the same order. */
static windows windows_at(const tn__node *node, int first)
{
    return (windows){*tn__node_value(node, first)->of.dims,
                     *tn__node_value(node, first + 1)->of.dims,
                     *tn__node_value(node, first + 2)->of.dims,
                     *tn__node_value(node, first + 3)->of.dims,
                     *tn__node_value(node, first + 4)->of.dims};
}

TN__GRADIENT(tn__grad_im2col)
{
    windows w = windows_at(node, 1);
    tn_dims_list size = tn_dims(tn__node_size(node, 0, 2),
                                tn__node_size(node, 0, 3));
    out[0] = col2im(g[0], size, &w);
    return out[0] ? TN_OK : tn_error_code();
}

TN__GRADIENT(tn__grad_col2im)
{
    windows w = windows_at(node, 2);
    out[0] = im2col(g[0], &w);
    return out[0] ? TN_OK : tn_error_code();
}

/* Returns an argument that is a list of one or two numbers as (h, w). Returns
 * (none, none) for a string or an empty list. */
static tn_dims_list pair(const tn_value *value, int64_t none)
{
    if (value->kind != TN_VALUE_DIMS || value->of.dims->count == 0)
        return tn_dims(none, none);
    const tn_dims_list *list = value->of.dims;
    return tn_dims(list->dim[0], list->dim[list->count > 1]);
}

/* ---- conv2d ------------------------------------------------------------- */

enum { INPUT, WEIGHT, BIAS };
enum { STRIDE = 3, PADDING, DILATION, GROUPS };

/* The parameters of a convolution, which all of its derivatives share. */
typedef struct conv_params {
    tn_dims_list stride, padding, dilation;
    int64_t groups;
} conv_params;

/* Calls the operator conv2d_out, conv2d_input or conv2d_weight. conv2d_out
 * computes the convolution, the other two its gradients. Each computes one of
 * output, input and weight from the other two, a and b. `size` is the height
 * and width of the result. */
static tn_tensor *conv_part(int id, tn_tensor *a, tn_tensor *b,
                            tn_dims_list size, const conv_params *w)
{
    if (!a || !b)
        return NULL;
    const tn_value value[] = {tn__value_tensor(a), tn__value_tensor(b),
                              tn__value_dims(&size),
                              tn__value_dims(&w->stride),
                              tn__value_dims(&w->padding),
                              tn__value_dims(&w->dilation),
                              tn__value_int(w->groups)};
    return tn__op_run1(&tn__op_table[id], value, 7);
}

/* Returns height and width of an input, its last two dimensions. */
static tn_dims_list last_two(const tn__node *node, int input)
{
    int ndim = tn__node_ndim(node, input);
    return tn_dims(tn__node_size(node, input, ndim - 2),
                   tn__node_size(node, input, ndim - 1));
}

static conv_params describe_convolution(const tn__node *node)
{
    conv_params w = {.stride = pair(tn__node_value(node, STRIDE), 1),
                     .padding = pair(tn__node_value(node, PADDING), 0),
                     .dilation = pair(tn__node_value(node, DILATION), 1),
                     .groups = tn__node_value(node, GROUPS)->of.i};
    const tn_value *rule = tn__node_value(node, PADDING);
    if (rule->kind == TN_VALUE_STRING && rule->of.string[0] == 's')
        for (int d = 0; d < 2; d++) /* padding "same" divides an odd total so
                                       that the smaller half comes first */
            w.padding.dim[d] =
                w.dilation.dim[d] * (tn__node_size(node, WEIGHT, 2 + d) - 1) /
                2;
    return w;
}

/* Adds a batch dimension to a single image (C, H, W). */
static tn_tensor *as_images(tn_tensor *x)
{
    return x && x->ndim == 3 ? tn_unsqueeze(x, 0) : x;
}

TN__GRADIENT(tn__grad_conv2d)
{
    conv_params w = describe_convolution(node);
    tn_tensor *whole = as_images(g[0]);
    if (tn__node_wants(node, INPUT))
        out[INPUT] = tn_reshape(conv_part(TN__OP_ID_CONV2D_INPUT, whole,
                                          tn__node_input(node, WEIGHT),
                                          last_two(node, INPUT), &w),
                                tn__node_shape(node, INPUT));
    if (tn__node_wants(node, WEIGHT))
        out[WEIGHT] = conv_part(TN__OP_ID_CONV2D_WEIGHT,
                                as_images(tn__node_input(node, INPUT)), whole,
                                last_two(node, WEIGHT), &w);
    if (tn__node_wants(node, BIAS))
        out[BIAS] = tn_sum(whole, .dims = tn_dims(0, 2, 3));
    for (int p = INPUT; p <= BIAS; p++)
        if (tn__node_wants(node, p) && !out[p])
            return tn_error_code();
    return TN_OK;
}

/* The gradient of one factor of conv2d_out, conv2d_input or conv2d_weight. Each
 * of these operators is linear in both of its factors a and b, and its
 * gradients are computed by the other two operators. */
typedef struct derivative {
    int id;
    tn_tensor *a, *b;
} derivative;

static tn_status part_gradient(const tn__node *node, const derivative of[2],
                               tn_tensor **out)
{
    conv_params w = {
        *tn__node_value(node, 3)->of.dims, *tn__node_value(node, 4)->of.dims,
        *tn__node_value(node, 5)->of.dims, tn__node_value(node, 6)->of.i};
    for (int p = 0; p < 2; p++)
        if (tn__node_wants(node, p) &&
            !(out[p] =
                  conv_part(of[p].id, of[p].a, of[p].b, last_two(node, p), &w)))
            return tn_error_code();
    return TN_OK;
}

/* The gradient of conv2d_out(input, weight), the forward convolution. */
TN__GRADIENT(tn__grad_conv2d_out)
{
    tn_tensor *x = tn__node_input(node, 0), *w = tn__node_input(node, 1);
    const derivative of[2] = {{TN__OP_ID_CONV2D_INPUT, g[0], w},
                              {TN__OP_ID_CONV2D_WEIGHT, x, g[0]}};
    return part_gradient(node, of, out);
}

/* The gradient of conv2d_input(output, weight). */
TN__GRADIENT(tn__grad_conv2d_input)
{
    tn_tensor *o = tn__node_input(node, 0), *w = tn__node_input(node, 1);
    const derivative of[2] = {{TN__OP_ID_CONV2D_OUT, g[0], w},
                              {TN__OP_ID_CONV2D_WEIGHT, g[0], o}};
    return part_gradient(node, of, out);
}

/* The gradient of conv2d_weight(input, output). */
TN__GRADIENT(tn__grad_conv2d_weight)
{
    tn_tensor *x = tn__node_input(node, 0), *o = tn__node_input(node, 1);
    const derivative of[2] = {{TN__OP_ID_CONV2D_INPUT, o, g[0]},
                              {TN__OP_ID_CONV2D_OUT, x, g[0]}};
    return part_gradient(node, of, out);
}

/* ---- pooling ------------------------------------------------------------ */

/* Sets the gradient and the index to 0 for each max-pooling window that covers
 * only padding. Such a window selected no element, so its index has no meaning.
 */
static tn_status mask_padding_windows(const tn__node *node,
                                      const tn_dims_list *size, tn_tensor **g,
                                      tn_tensor **index)
{
    enum { KERNEL = 1, STRIDES, PADDINGS, DILATIONS };
    const tn_dims_list kernel = pair(tn__node_value(node, KERNEL), 1);
    const tn_dims_list stride = pair(tn__node_value(node, STRIDES), 0);
    const tn_dims_list padding = pair(tn__node_value(node, PADDINGS), 0);
    const tn_dims_list dilation = pair(tn__node_value(node, DILATIONS), 1);
    tn__window w;
    for (int a = 0; a < 2; a++) {
        w.in[a] = size->dim[a];
        w.kernel[a] = kernel.dim[a];
        w.stride[a] = stride.dim[a] ? stride.dim[a] : kernel.dim[a];
        w.pad[a] = padding.dim[a];
        w.dilation[a] = dilation.dim[a];
        w.out[a] = (*index)->shape[(*index)->ndim - 2 + a];
    }
    if (!tn__window_all_padding(&w))
        return TN_OK;
    tn_tensor *shows, *first;
    tn_status status =
        tn__window_visible(&w, (*index)->storage->device, &shows, &first);
    if (status < 0)
        return status;
    tn_tensor *padding_only = tn_logical_not(shows);
    *g = tn_masked_fill_scalar(*g, padding_only, 0);
    *index = tn_masked_fill_scalar(*index, padding_only, 0);
    return *g && *index ? TN_OK : tn_error_code();
}

TN__GRADIENT(tn__grad_max_pool2d_with_indices)
{
    tn_tensor *index = tn__node_output(node, 1), *grad = g[0];
    if (!index || !grad)
        return tn_error_code();
    const tn_dims_list size = last_two(node, 0);
    if (mask_padding_windows(node, &size, &grad, &index) < 0)
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(grad), tn__value_tensor(index),
                              tn__value_dims(&size)};
    out[0] = tn__op_run1(&tn__op_table[TN__OP_ID_MAX_POOL2D_BACK], value, 3);
    return out[0] ? TN_OK : tn_error_code();
}

/* max_pool2d_back adds each element of g to the element that its window
 * selected. Its gradient gathers from these elements. */
TN__GRADIENT(tn__grad_max_pool2d_back)
{
    tn_tensor *index = tn__node_input(node, 1);
    if (!index || !g[0])
        return tn_error_code();
    int ndim = g[0]->ndim;
    int64_t images = 1, each = index->shape[ndim - 2] * index->shape[ndim - 1];
    for (int d = 0; d < ndim - 2; d++)
        images *= g[0]->shape[d];
    tn_tensor *flat = tn_gather(tn_reshape(g[0], tn_dims(images, -1)), 1,
                                tn_reshape(index, tn_dims(images, each)));
    out[0] = tn_reshape(flat, tn__node_shape(node, 0));
    return out[0] ? TN_OK : tn_error_code();
}

enum { POOL_KERNEL = 1, POOL_STRIDE, POOL_PADDING, POOL_CEIL, POOL_COUNT,
       POOL_DIVISOR };

TN__GRADIENT(tn__grad_avg_pool2d)
{
    const tn_dims_list size = last_two(node, 0);
    const tn_dims_list kernel = pair(tn__node_value(node, POOL_KERNEL), 1);
    const tn_dims_list padding = pair(tn__node_value(node, POOL_PADDING), 0);
    /* The stride of a pooling operator defaults to its kernel size. */
    const tn_value *given = tn__node_value(node, POOL_STRIDE);
    const tn_value *by = tn__node_value(node, POOL_DIVISOR);
    const bool strides = given->kind == TN_VALUE_DIMS && given->of.dims->count;
    const tn_dims_list stride = strides ? pair(given, 0) : kernel;
    if (!g[0])
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(g[0]),
                              tn__value_dims(&size),
                              tn__value_dims(&kernel),
                              tn__value_dims(&stride),
                              tn__value_dims(&padding),
                              *tn__node_value(node, POOL_CEIL),
                              *tn__node_value(node, POOL_COUNT),
                              by->kind == TN_VALUE_NONE ? tn__value_int(0)
                                                        : *by};
    out[0] = tn__op_run1(&tn__op_table[TN__OP_ID_AVG_POOL2D_BACK], value, 8);
    return out[0] ? TN_OK : tn_error_code();
}

/* avg_pool2d_back is linear, and its transpose is average pooling itself. */
TN__GRADIENT(tn__grad_avg_pool2d_back)
{
    const tn_value *by = tn__node_value(node, 7);
    if (!g[0])
        return tn_error_code();
    const tn_value value[] = {tn__value_tensor(g[0]),
                              *tn__node_value(node, 2),
                              *tn__node_value(node, 3),
                              *tn__node_value(node, 4),
                              *tn__node_value(node, 5),
                              *tn__node_value(node, 6),
                              by->of.i ? *by : tn__value_none()};
    out[0] = tn__op_run1(&tn__op_table[TN__OP_ID_AVG_POOL2D], value, 7);
    return out[0] ? TN_OK : tn_error_code();
}
