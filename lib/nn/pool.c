/* pool.c: mean pooling, and pixels out of channels. */
#include "init.h"
#include "tree.h"

#include <inttypes.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

/* ---- over windows ------------------------------------------------------------------ */

typedef struct avg_pool2d {
    tn_module base;
    int64_t kernel;
    tn_nn_avg_pool2d_options o;
} avg_pool2d;

static tn_tensor *forward(tn_module *self, tn_tensor *input)
{
    avg_pool2d *p = (avg_pool2d *)self;
    return tn_avg_pool2d(input, tn_dims(p->kernel, p->kernel),
                         .stride = p->o.stride, .padding = p->o.padding,
                         .ceil_mode = p->o.ceil_mode,
                         .no_count_include_pad = p->o.no_count_include_pad,
                         .divisor_override = p->o.divisor_override);
}

static void describe(const tn_module *self, char *text, size_t room)
{
    const avg_pool2d *p = (const avg_pool2d *)self;
    snprintf(text, room,
             "kernel_size=%" PRId64 ", stride=%" PRId64 ", padding=%" PRId64,
             p->kernel, p->o.stride, p->o.padding);
}

tn_module *tn_nn_avg_pool2d_with(int64_t kernel_size,
                                 const tn_nn_avg_pool2d_options *options)
{
    static const tn_module_class type = {
        sizeof type, "AvgPool2d", sizeof(avg_pool2d), forward, describe, NULL};
    tn_nn_avg_pool2d_options o = {.size = sizeof o};
    tn__nn_take_options(&o, sizeof o, options);
    if (kernel_size < 1 || o.stride < 0 || o.padding < 0 ||
        2 * o.padding > kernel_size) {
        tn_error_set(TN_ERR_ARGUMENT,
                     "nn_avg_pool2d: kernel_size %" PRId64 ", stride %" PRId64
                     ", padding %" PRId64 ": positive numbers are wanted, and "
                     "padding of at most half the kernel_size",
                     kernel_size, o.stride, o.padding);
        return NULL;
    }
    avg_pool2d *p = tn_module_new(&type);
    if (!p)
        return NULL;
    p->kernel = kernel_size;
    p->o = o;
    p->o.stride = o.stride ? o.stride : kernel_size;
    return &p->base;
}

/* ---- to a size ---------------------------------------------------------------------- */

typedef struct adaptive {
    tn_module base;
    int64_t size[2];
} adaptive;

/* Part i of n along dim is from i size / n down to (i + 1) size / n up. */
static tn_tensor *shrink(tn_tensor *x, int dim, int64_t n)
{
    int64_t size = tn_tensor_size(x, dim);
    tn_tensor *out = NULL;
    if (size == n)
        return x;
    for (int64_t i = 0; i < n; i++) {
        int64_t from = i * size / n, to = ((i + 1) * size + n - 1) / n;
        tn_tensor *part = tn_mean(tn_narrow(x, dim, from, to - from),
                                  .dim = tn_dims(dim), .keepdim = true);
        out = out ? tn_cat((tn_tensor *[]){out, part}, 2, dim) : part;
        if (!out)
            return NULL;
    }
    return out;
}

static tn_tensor *adaptive_forward(tn_module *self, tn_tensor *input)
{
    const adaptive *a = (const adaptive *)self;
    int ndim = tn_tensor_ndim(input);
    if (ndim != 3 && ndim != 4) {
        char text[TN__NN_SHAPE_TEXT];
        tn_error_refuse(TN_ERR_SHAPE, self->type->name,
                        &(tn_given){"input", input}, 1,
                        "input %s: (N, C, H, W) or (C, H, W) is wanted",
                        tn__nn_shape_text(text, input));
        return NULL;
    }
    int64_t have[2], want[2];
    for (int i = 0; i < 2; i++) {
        have[i] = tn_tensor_size(input, i - 2);
        want[i] = a->size[i] ? a->size[i] : have[i];
    }
    if (have[0] > 0 && have[1] > 0 && have[0] % want[0] == 0 &&
        have[1] % want[1] == 0)
        return tn_avg_pool2d(input,
                             tn_dims(have[0] / want[0], have[1] / want[1]));
    tn_tensor *x = shrink(input, -2, want[0]);
    return x ? shrink(x, -1, want[1]) : NULL;
}

static void adaptive_describe(const tn_module *self, char *text, size_t room)
{
    const adaptive *a = (const adaptive *)self;
    snprintf(text, room, "output_size=(%" PRId64 ", %" PRId64 ")", a->size[0],
             a->size[1]);
}

tn_module *tn_nn_adaptive_avg_pool2d(int64_t height, int64_t width)
{
    static const tn_module_class type = {
        sizeof type,      "AdaptiveAvgPool2d", sizeof(adaptive),
        adaptive_forward, adaptive_describe,   NULL};
    if (height < 0 || width < 0) {
        tn_error_set(TN_ERR_ARGUMENT,
                     "nn_adaptive_avg_pool2d: height %" PRId64 ", width "
                     "%" PRId64 ": sizes are positive, or 0 to keep one",
                     height, width);
        return NULL;
    }
    adaptive *a = tn_module_new(&type);
    if (!a)
        return NULL;
    a->size[0] = height;
    a->size[1] = width;
    return &a->base;
}

/* ---- pixels out of channels ------------------------------------------------------------ */

typedef struct shuffle {
    tn_module base;
    int64_t factor;
} shuffle;

static tn_tensor *shuffle_forward(tn_module *self, tn_tensor *input)
{
    return tn_pixel_shuffle(input, ((shuffle *)self)->factor);
}

static void shuffle_describe(const tn_module *self, char *text, size_t room)
{
    snprintf(text, room, "upscale_factor=%" PRId64,
             ((const shuffle *)self)->factor);
}

tn_module *tn_nn_pixel_shuffle(int64_t upscale_factor)
{
    static const tn_module_class type = {
        sizeof type,     "PixelShuffle",   sizeof(shuffle),
        shuffle_forward, shuffle_describe, NULL};
    if (upscale_factor < 1) {
        tn_error_set(TN_ERR_ARGUMENT,
                     "nn_pixel_shuffle: upscale_factor %" PRId64
                     "; at least 1 is wanted",
                     upscale_factor);
        return NULL;
    }
    shuffle *s = tn_module_new(&type);
    if (s)
        s->factor = upscale_factor;
    return (tn_module *)s;
}

/* ---- stretching ---------------------------------------------------------- */

typedef struct upsample {
    tn_module base;
    double factor;
    tn_dims_list size;
    bool align_corners;
    char mode[16];
} upsample;

static tn_tensor *upsample_forward(tn_module *self, tn_tensor *input)
{
    upsample *u = (upsample *)self;
    return tn_interpolate(input, u->size, .scale_factor = u->factor,
                          .mode = u->mode, .align_corners = u->align_corners);
}

static void upsample_describe(const tn_module *self, char *text, size_t room)
{
    const upsample *u = (const upsample *)self;
    snprintf(text, room, "scale_factor=%g, mode='%s'", u->factor, u->mode);
}

tn_module *tn_nn_upsample_with(double scale_factor,
                               const tn_nn_upsample_options *options)
{
    static const tn_module_class type = {
        sizeof type,      "Upsample",        sizeof(upsample),
        upsample_forward, upsample_describe, NULL};
    tn_nn_upsample_options o = {.size = sizeof o};
    tn__nn_take_options(&o, sizeof o, options);
    const char *mode = o.mode ? o.mode : "nearest";
    if (!(scale_factor >= 0) || (scale_factor > 0) == (o.output_size.count > 0)
        || strlen(mode) >= sizeof((upsample *)0)->mode) {
        tn_error_set(TN_ERR_ARGUMENT,
                     "nn_upsample: scale_factor %g, %d sizes, mode \"%s\": "
                     "either a factor or sizes are wanted, and a mode of "
                     "tn_interpolate", scale_factor, o.output_size.count,
                     mode);
        return NULL;
    }
    upsample *u = tn_module_new(&type);
    if (u) {
        u->factor = scale_factor;
        u->size = o.output_size;
        u->align_corners = o.align_corners;
        snprintf(u->mode, sizeof u->mode, "%s", mode);
    }
    return (tn_module *)u;
}
