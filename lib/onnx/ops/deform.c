/* deform.c: DeformConv, a convolution whose taps (positions of the kernel) are
 * displaced by offsets that the model computes. tn_grid_sample reads the
 * displaced pixels, so gradients reach images, offsets, mask and weights. */
#include <onnx/ops/conv.h>

/* The sizes of a call. */
typedef struct deform {
    int64_t images, groups, taps, height, width; /* groups: those of offsets */
    int64_t size[2];                             /* of an image */
} deform;

/* Returns the grid of tn_grid_sample (images * groups, taps * height, width,
 * 2): for each tap and output position, x and y of the pixel, from -1 (the left
 * edge of the image) to 1. */
static tn_tensor *make_grid(tn__onnx_call *c, const deform *d,
                            const tn__onnx_window *w)
{
    /* offsets (images, groups, taps, y and x, height, width) */
    tn_tensor *offset = tn_reshape(
        c->x[2], tn_dims(d->images * d->groups, d->taps, 2, d->height,
                         d->width));
    tn_tensor *axis[2];
    for (int i = 0; i < 2; i++) {
        const tn_dtype dtype = tn_tensor_dtype(c->x[0]);
        tn_tensor *tap = tn_arange(0, w->kernel[i], 1, .dtype = dtype,
                                   .device = c->device);
        tap = tn_mul_scalar(tap, w->dilation[i]);
        tap = i ? tn_tile(tap, tn_dims(w->kernel[0]))
                : tn_repeat_interleave(tap, w->kernel[1]);
        tn_tensor *place = tn_arange(0, i ? d->width : d->height, 1,
                                     .dtype = dtype, .device = c->device);
        place = tn_sub_scalar(tn_mul_scalar(place, w->stride[i]), w->before[i]);
        tn_tensor *at = tn_add(
            tn_reshape(tap, tn_dims(d->taps, 1, 1)),
            i ? place : tn_reshape(place, tn_dims(d->height, 1)));
        at = tn_add(at, tn_select(offset, 2, i));
        /* pixel p has its centre at (2 p + 1) / size - 1 */
        axis[i] = tn_sub_scalar(
            tn_div_scalar(tn_add_scalar(tn_mul_scalar(at, 2), 1),
                          (double)d->size[i]),
            1);
    }
    tn_tensor *grid = tn_stack((tn_tensor *[]){axis[1], axis[0]}, 2, -1);
    return tn_reshape(grid, tn_dims(d->images * d->groups,
                                    d->taps * d->height, d->width, 2));
}

static bool check(tn__onnx_call *c, const deform *d, int64_t groups)
{
    const tn_tensor *x = c->x[0], *weight = c->x[1];
    const int64_t channels = tn_tensor_size(x, 1);
    const int64_t cells = d->images * d->groups * d->taps * d->height *
                          d->width;
    const bool fits =
        groups > 0 && channels % groups == 0 && channels % d->groups == 0 &&
        tn_tensor_size(weight, 1) == channels / groups &&
        tn_tensor_size(weight, 0) % groups == 0 &&
        tn_tensor_numel(c->x[2]) == 2 * cells &&
        (!tn__onnx_has(c, 4) || tn_tensor_numel(c->x[4]) == cells);
    if (!fits)
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "W, offset or mask do not match %lld channels in %lld "
                        "groups, %lld groups of offsets, and results of %lld x "
                        "%lld: W must have %lld channels and offset %lld",
                        (long long)channels, (long long)groups,
                        (long long)d->groups, (long long)d->height,
                        (long long)d->width,
                        (long long)(groups > 0 ? channels / groups : 0),
                        (long long)(2 * d->groups * d->taps));
    return fits;
}

static void deform_conv(tn__onnx_call *c)
{
    enum { DILATIONS, GROUP, KERNEL, OFFSET_GROUP, PADS, STRIDES };
    static const int which[] = {-1, DILATIONS, -1, PADS, STRIDES};
    tn__onnx_window w;
    tn_tensor *x = c->x[0], *weight = c->x[1];
    const int64_t groups = tn__onnx_int(c, GROUP);
    if (tn_tensor_ndim(x) != 4 || tn_tensor_ndim(weight) != 4 ||
        tn_tensor_numel(x) == 0) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "X and W have %d and %d dimensions; both must have 4, "
                        "and X must not be empty",
                        tn_tensor_ndim(x), tn_tensor_ndim(weight));
        return;
    }
    if (!tn__onnx_window_read(c, which, x, tn_tensor_shape(weight) + 2, &w))
        return;
    deform d = {.images = tn_tensor_size(x, 0),
                .groups = tn__onnx_int(c, OFFSET_GROUP),
                .taps = w.kernel[0] * w.kernel[1]};
    int64_t out[2];
    for (int i = 0; i < 2; i++) {
        d.size[i] = tn_tensor_size(x, i + 2);
        out[i] = (d.size[i] + w.before[i] + w.after[i] -
                  (w.kernel[i] - 1) * w.dilation[i] - 1) / w.stride[i] + 1;
    }
    d.height = out[0];
    d.width = out[1];
    if (d.groups < 1 || d.height < 1 || d.width < 1 || d.taps < 1) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "offset_group is %lld and the result %lld x %lld; all "
                        "must be positive",
                        (long long)d.groups, (long long)d.height,
                        (long long)d.width);
        return;
    }
    if (!check(c, &d, groups))
        return;
    const int64_t channels = tn_tensor_size(x, 1), cells = d.height * d.width,
                  filters = tn_tensor_size(weight, 0);
    tn_tensor *y = tn_grid_sample(
        tn_reshape(x, tn_dims(d.images * d.groups, channels / d.groups,
                              d.size[0], d.size[1])),
        make_grid(c, &d, &w), .align_corners = false);
    if (tn__onnx_has(c, 4))
        y = tn_mul(y, tn_reshape(c->x[4], tn_dims(d.images * d.groups, 1,
                                                  d.taps * d.height, d.width)));
    y = tn_reshape(y, tn_dims(d.images, groups, channels / groups * d.taps,
                              cells));
    weight = tn_reshape(weight, tn_dims(groups, filters / groups,
                                        channels / groups * d.taps));
    y = tn_reshape(tn_matmul(weight, y),
                   tn_dims(d.images, filters, d.height, d.width));
    if (tn__onnx_has(c, 3))
        y = tn_add(y, tn_reshape(c->x[3], tn_dims(filters, 1, 1)));
    c->y[0] = y;
}

static const tn__onnx_op rows[] = {
    {.name = "DeformConv", .since = 19, .min_in = 3, .max_in = 5, .max_out = 1,
     .attributes = "dilations:ints group:int=1 kernel_shape:ints "
                   "offset_group:int=1 pads:ints strides:ints",
     .run = deform_conv, .grows = true},
};
const tn__onnx_family tn__onnx_deform = TN__ONNX_FAMILY(rows);
