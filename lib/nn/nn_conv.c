/* nn_conv.c: convolution over images, and max pooling. */
#include <nn/init.h>
#include <nn/tree.h>

#include <inttypes.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

typedef struct conv2d {
    tn_module base;
    tn_tensor *weight; /* (out, in / groups, kernel h, kernel w) */
    tn_tensor *bias;   /* (out) or NULL */
    int64_t in_channels, out_channels, groups;
    int64_t kernel[2], stride[2], dilation[2];
    int64_t padding[2], after[2]; /* before and after each dimension */
    const char *mode; /* padding mode; NULL: zeros */
} conv2d;

static tn_tensor *forward(tn_module *self, tn_tensor *input)
{
    conv2d *c = (conv2d *)self;
    tn_dims_list paddings = tn_dims(c->padding[0], c->padding[1]);
    bool even = c->padding[0] == c->after[0] && c->padding[1] == c->after[1];
    if (c->mode) {
        input = tn_pad(input, tn_dims(c->padding[1], c->after[1],
                                      c->padding[0], c->after[0]),
                       .mode = c->mode);
        paddings = tn_dims(0, 0);
    } else if (!even) {
        return tn_conv2d(input, c->weight, c->bias, .padding_rule = "same",
                         .dilations = tn_dims(c->dilation[0], c->dilation[1]),
                         .groups = c->groups);
    }
    return tn_conv2d(input, c->weight, c->bias,
                     .strides = tn_dims(c->stride[0], c->stride[1]),
                     .paddings = paddings,
                     .dilations = tn_dims(c->dilation[0], c->dilation[1]),
                     .groups = c->groups);
}

static void describe(const tn_module *self, char *text, size_t room)
{
    const conv2d *c = (const conv2d *)self;
    snprintf(text, room,
             "%" PRId64 ", %" PRId64 ", kernel_size=(%" PRId64 ", %" PRId64
             "), stride=(%" PRId64 ", %" PRId64 ")",
             c->in_channels, c->out_channels, c->kernel[0], c->kernel[1],
             c->stride[0], c->stride[1]);
    size_t at = strlen(text);
    if ((c->padding[0] || c->padding[1]) && at < room)
        snprintf(text + at, room - at, ", padding=(%" PRId64 ", %" PRId64 ")",
                 c->padding[0], c->padding[1]);
    at = strlen(text);
    if (c->groups != 1 && at < room)
        snprintf(text + at, room - at, ", groups=%" PRId64, c->groups);
    at = strlen(text);
    if (!c->bias && at < room)
        snprintf(text + at, room - at, ", bias=False");
    at = strlen(text);
    if (c->mode && at < room)
        snprintf(text + at, room - at, ", padding_mode=%s", c->mode);
}

static const tn_module_class conv2d_class = {.size = sizeof conv2d_class,
                                             .name = "Conv2d",
                                             .bytes = sizeof(conv2d),
                                             .forward = forward,
                                             .describe = describe};

static bool take_pair(int64_t to[2], const tn__nn_axes_option *option)
{
    tn_dims_list both;
    if (!tn__nn_take_axes(&both, 2, option, "nn_conv2d"))
        return false;
    to[0] = both.dim[0];
    to[1] = both.dim[1];
    return true;
}

/* Stores the library's own copy of the name; NULL for "zeros". False, with an
 * error, for an unknown name. */
static bool take_mode(const char **to, const char *name)
{
    static const char *const modes[] = {"reflect", "replicate", "circular"};
    *to = NULL;
    if (strcmp(name, "zeros") == 0)
        return true;
    for (int i = 0; i < 3; i++)
        if (strcmp(modes[i], name) == 0)
            return *to = modes[i], true;
    tn_error_refuse_argument(
        TN_ERR_ARGUMENT, "nn_conv2d", "padding_mode",
        "padding_mode \"%s\" is none of zeros, reflect, replicate, circular",
        name);
    return false;
}

static bool configure(conv2d *c, int64_t kernel_size,
                      const tn_nn_conv2d_options *o)
{
    const tn__nn_axes_option option[] = {
        {"kernel_size", "kernel_sizes", kernel_size, &o->kernel_sizes, 1},
        {"stride", "strides", o->stride, &o->strides, 1},
        {"padding", "paddings", o->padding, &o->paddings, 0},
        {"dilation", "dilations", o->dilation, &o->dilations, 1}};
    int64_t *const to[] = {c->kernel, c->stride, c->padding, c->dilation};
    c->groups = o->groups;
    if (!tn__nn_check_channels("nn_conv2d", c->in_channels, c->out_channels,
                               c->groups) ||
        !tn__nn_check_kernel(kernel_size, &o->kernel_sizes, "nn_conv2d"))
        return false;
    for (int i = 0; i < 4; i++)
        if (!take_pair(to[i], &option[i]))
            return false;
    if (!take_mode(&c->mode, o->padding_mode))
        return false;
    if (o->padding_same && (c->stride[0] != 1 || c->stride[1] != 1)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "nn_conv2d", "padding_same",
                                 "padding_same with a stride of %" PRId64
                                 ", %" PRId64 ": only 1 keeps the size",
                                 c->stride[0], c->stride[1]);
        return false;
    }
    if (o->padding_same && (o->padding != 0 || o->paddings.count >= 0)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "nn_conv2d", "padding_same",
                                 "give padding or padding_same, not both");
        return false;
    }
    for (int i = 0; i < 2; i++) {
        int64_t all = c->dilation[i] * (c->kernel[i] - 1);
        if (o->padding_same)
            c->padding[i] = all / 2;
        c->after[i] = o->padding_same ? all - all / 2 : c->padding[i];
    }
    return true;
}

static bool make_parameters(conv2d *c, bool bias)
{
    int64_t inner = c->in_channels / c->groups;
    int64_t fan_in = tn__nn_product(tn__nn_product(inner, c->kernel[0]),
                                    c->kernel[1]);
    c->weight = tn_module_add_parameter(
        &c->base, "weight",
        tn__nn_init_fan_in(
            tn_dims(c->out_channels, inner, c->kernel[0], c->kernel[1]),
            fan_in));
    if (bias)
        c->bias = tn_module_add_parameter(
            &c->base, "bias",
            tn__nn_init_fan_in(tn_dims(c->out_channels), fan_in));
    return c->weight && (c->bias || !bias);
}

TN_OPTIONS_TYPE(tn_nn_conv2d, "nn_conv2d",
                "in_channels, out_channels, kernel_size",
                TN_NN_CONV2D_OPTIONS_LIST)

tn_module *tn_nn_conv2d_with(int64_t in_channels, int64_t out_channels,
                             int64_t kernel_size,
                             const tn_nn_conv2d_options *options)
{
    tn_nn_conv2d_options o;
    if (tn_options_take(tn_nn_conv2d_type(), &o, options) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    conv2d *c = tn_module_new(&conv2d_class);
    if (c) {
        c->in_channels = in_channels;
        c->out_channels = out_channels;
    }
    bool made =
        c && configure(c, kernel_size, &o) && make_parameters(c, o.bias);
    return tn_scope_result(scope, made ? &c->base : NULL);
}

/* ---- pooling ------------------------------------------------------------ */

typedef struct max_pool2d {
    tn_module base;
    int64_t kernel_size, stride, padding, dilation;
    bool ceil_mode;
} max_pool2d;

static tn_tensor *pool_forward(tn_module *self, tn_tensor *input)
{
    max_pool2d *p = (max_pool2d *)self;
    return tn_max_pool2d(input, tn_dims(p->kernel_size, p->kernel_size),
                         .stride = p->stride, .padding = p->padding,
                         .dilation = p->dilation, .ceil_mode = p->ceil_mode);
}

static void pool_describe(const tn_module *self, char *text, size_t room)
{
    const max_pool2d *p = (const max_pool2d *)self;
    snprintf(text, room,
             "kernel_size=%" PRId64 ", stride=%" PRId64 ", padding=%" PRId64
             ", dilation=%" PRId64 ", ceil_mode=%s",
             p->kernel_size, p->stride, p->padding, p->dilation,
             p->ceil_mode ? "True" : "False");
}

static const tn_module_class max_pool2d_class = {.size =
                                                     sizeof max_pool2d_class,
                                                 .name = "MaxPool2d",
                                                 .bytes = sizeof(max_pool2d),
                                                 .forward = pool_forward,
                                                 .describe = pool_describe};

TN_OPTIONS_TYPE(tn_nn_max_pool2d, "nn_max_pool2d", "kernel_size",
                TN_NN_MAX_POOL2D_OPTIONS_LIST)

tn_module *tn_nn_max_pool2d_with(int64_t kernel_size,
                                 const tn_nn_max_pool2d_options *options)
{
    tn_nn_max_pool2d_options o;
    if (tn_options_take(tn_nn_max_pool2d_type(), &o, options) < 0)
        return NULL;
    if (o.stride == TN_NONE_INT)
        o.stride = kernel_size;
    if (kernel_size < 1 || o.stride < 1 || o.padding < 0 || o.dilation < 1 ||
        o.padding > kernel_size / 2) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "nn_max_pool2d",
                                 kernel_size < 1  ? "kernel_size"
                                 : o.stride < 1   ? "stride"
                                 : o.dilation < 1 ? "dilation"
                                                  : "padding",
                                 "kernel_size %" PRId64 ", stride %" PRId64
                                 ", padding %" PRId64 ", dilation %" PRId64
                                 ": positive numbers are wanted, and padding "
                                 "of at most half the kernel_size",
                                 kernel_size, o.stride, o.padding, o.dilation);
        return NULL;
    }
    max_pool2d *p = tn_module_new(&max_pool2d_class);
    if (!p)
        return NULL;
    p->kernel_size = kernel_size;
    p->stride = o.stride;
    p->padding = o.padding;
    p->dilation = o.dilation;
    p->ceil_mode = o.ceil_mode;
    return &p->base;
}
