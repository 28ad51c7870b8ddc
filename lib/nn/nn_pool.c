/* nn_pool.c: average pooling, pixel shuffle, and upsampling. */
#include <nn/init.h>
#include <nn/tree.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

/* ---- over windows ------------------------------------------------------- */

typedef struct avg_pool2d {
    tn_module base;
    int64_t kernel, stride, padding, divisor; /* divisor: or TN_NONE_INT */
    bool ceil_mode, count_include_pad;
} avg_pool2d;

static tn_tensor *forward(tn_module *self, tn_tensor *input)
{
    avg_pool2d *p = (avg_pool2d *)self;
    return tn_avg_pool2d(input, tn_dims(p->kernel, p->kernel),
                         .stride = p->stride, .padding = p->padding,
                         .ceil_mode = p->ceil_mode,
                         .count_include_pad = p->count_include_pad,
                         .divisor_override = p->divisor);
}

static void describe(const tn_module *self, char *text, size_t room)
{
    const avg_pool2d *p = (const avg_pool2d *)self;
    snprintf(text, room,
             "kernel_size=%" PRId64 ", stride=%" PRId64 ", padding=%" PRId64,
             p->kernel, p->stride, p->padding);
}

TN_OPTIONS_TYPE(tn_nn_avg_pool2d, "nn_avg_pool2d", "kernel_size",
                TN_NN_AVG_POOL2D_OPTIONS_LIST)

tn_module *tn_nn_avg_pool2d_with(int64_t kernel_size,
                                 const tn_nn_avg_pool2d_options *options)
{
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "AvgPool2d",
                                         .bytes = sizeof(avg_pool2d),
                                         .forward = forward,
                                         .describe = describe};
    tn_nn_avg_pool2d_options o;
    if (tn_options_take(tn_nn_avg_pool2d_type(), &o, options) < 0)
        return NULL;
    if (o.stride == TN_NONE_INT)
        o.stride = kernel_size;
    if (o.divisor_override == 0) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "nn_avg_pool2d",
                                 "divisor_override", "divisor_override is 0");
        return NULL;
    }
    if (kernel_size < 1 || o.stride < 1 || o.padding < 0 ||
        o.padding > kernel_size / 2) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "nn_avg_pool2d",
                                 kernel_size < 1 ? "kernel_size"
                                 : o.stride < 1  ? "stride"
                                                 : "padding",
                                 "kernel_size %" PRId64 ", stride %" PRId64
                                 ", padding %" PRId64
                                 ": positive numbers are wanted, and padding "
                                 "of at most half the kernel_size",
                                 kernel_size, o.stride, o.padding);
        return NULL;
    }
    avg_pool2d *p = tn_module_new(&type);
    if (!p)
        return NULL;
    p->kernel = kernel_size;
    p->stride = o.stride;
    p->padding = o.padding;
    p->divisor = o.divisor_override;
    p->ceil_mode = o.ceil_mode;
    p->count_include_pad = o.count_include_pad;
    return &p->base;
}

/* ---- to a size ---------------------------------------------------------- */

typedef struct adaptive {
    tn_module base;
    int64_t size[2];
} adaptive;

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
    return tn_adaptive_avg_pool2d(input, tn_dims(a->size[0], a->size[1]));
}

static void adaptive_describe(const tn_module *self, char *text, size_t room)
{
    const adaptive *a = (const adaptive *)self;
    snprintf(text, room, "output_size=(%" PRId64 ", %" PRId64 ")", a->size[0],
             a->size[1]);
}

tn_module *tn_nn_adaptive_avg_pool2d(int64_t height, int64_t width)
{
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "AdaptiveAvgPool2d",
                                         .bytes = sizeof(adaptive),
                                         .forward = adaptive_forward,
                                         .describe = adaptive_describe};
    if ((height < 0 && height != TN_NONE_INT) ||
        (width < 0 && width != TN_NONE_INT)) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "nn_adaptive_avg_pool2d",
            height < 0 && height != TN_NONE_INT ? "height" : "width",
            "height %" PRId64 ", width %" PRId64
            ": sizes are 0 or more, or TN_NONE_INT to keep one",
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

/* ---- pixel shuffle ------------------------------------------------------ */

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
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "PixelShuffle",
                                         .bytes = sizeof(shuffle),
                                         .forward = shuffle_forward,
                                         .describe = shuffle_describe};
    if (upscale_factor < 1) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "nn_pixel_shuffle", "upscale_factor",
            "upscale_factor %" PRId64 "; at least 1 is wanted", upscale_factor);
        return NULL;
    }
    shuffle *s = tn_module_new(&type);
    if (s)
        s->factor = upscale_factor;
    return (tn_module *)s;
}

/* ---- upsampling --------------------------------------------------------- */

typedef struct upsample {
    tn_module base;
    double factor;     /* or TN_NONE_FLOAT */
    tn_dims_list size; /* empty if there is a factor */
    bool align_corners;
    const char *mode;
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
    size_t at = 0;
    if (u->size.count == 0)
        at = (size_t)snprintf(text, room, "scale_factor=%g", u->factor);
    for (int i = 0; i < u->size.count && at < room; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%" PRId64,
                               i ? ", " : "size=(", u->size.dim[i]);
    if (at < room)
        snprintf(text + at, room - at, "%s, mode='%s'",
                 u->size.count == 0   ? ""
                 : u->size.count == 1 ? ",)"
                                      : ")",
                 u->mode);
}

/* The library's own copy of the name; *has_corners: the mode has align_corners.
 * NULL, with an error, for an unknown name. */
static const char *find_mode(const char *name, bool *has_corners)
{
    static const char *const modes[] = {"linear", "bilinear", "trilinear",
                                        "bicubic", "nearest", "nearest-exact",
                                        "area"};
    enum { ALIGNED = 4, MODES = sizeof modes / sizeof *modes };
    int i = 0;
    while (i < MODES && strcmp(modes[i], name) != 0)
        i++;
    if (i == MODES)
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "nn_upsample", "mode",
            "mode \"%s\" is none of nearest, nearest-exact, linear, bilinear, "
            "trilinear, bicubic, area",
            name);
    *has_corners = i < ALIGNED;
    return i < MODES ? modes[i] : NULL;
}

/* One size for all dimensions, or one for each; TN_NONE_DIMS if none is
 * given. */
static tn_dims_list sizes_of(const tn_nn_upsample_options *o)
{
    return o->output_size != TN_NONE_INT ? tn_dims(o->output_size)
                                         : o->output_sizes;
}

static bool check_sizes(double scale_factor, const tn_dims_list *size)
{
    bool scaled = !tn_is_none_float(scale_factor);
    if (scaled == (size->count >= 0)) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "nn_upsample",
            scaled ? "output_size" : "scale_factor",
            scaled ? "give scale_factor or output_size, not both: "
                     "pass TN_NONE_FLOAT for no scale_factor"
                   : "scale_factor or output_size is wanted");
        return false;
    }
    bool fine = scaled ? scale_factor > 0 && scale_factor < INFINITY
                       : size->count > 0;
    for (int i = 0; i < size->count; i++)
        fine = fine && size->dim[i] > 0;
    if (!fine)
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "nn_upsample",
            scaled ? "scale_factor" : "output_size",
            "scale_factor and output_size are positive numbers");
    return fine;
}

TN_OPTIONS_TYPE(tn_nn_upsample, "nn_upsample", "scale_factor",
                TN_NN_UPSAMPLE_OPTIONS_LIST)

tn_module *tn_nn_upsample_with(double scale_factor,
                               const tn_nn_upsample_options *options)
{
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "Upsample",
                                         .bytes = sizeof(upsample),
                                         .forward = upsample_forward,
                                         .describe = upsample_describe};
    tn_nn_upsample_options o;
    if (tn_options_take(tn_nn_upsample_type(), &o, options) < 0)
        return NULL;
    tn_dims_list size = sizes_of(&o);
    bool has_corners;
    const char *mode = find_mode(o.mode, &has_corners);
    if (!mode || !check_sizes(scale_factor, &size))
        return NULL;
    const tn_option_need need = {
        "align_corners", has_corners,
        "unless mode is linear, bilinear, trilinear or bicubic", "change mode"};
    if (tn_options_check_needs(tn_nn_upsample_type(), &o, &need, 1) < 0)
        return NULL;
    upsample *u = tn_module_new(&type);
    if (u) {
        u->factor = scale_factor;
        u->size = size.count < 0 ? TN_SCALAR : size;
        u->align_corners = o.align_corners;
        u->mode = mode;
    }
    return (tn_module *)u;
}
