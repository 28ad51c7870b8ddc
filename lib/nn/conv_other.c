/* conv_other.c: convolution over sequences and volumes, and transposed ones. */
#include <nn/init.h>

#include <inttypes.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

typedef struct conv {
    tn_module base;
    tn_tensor *weight, *bias; /* bias may be NULL */
    int64_t in_channels, out_channels, groups;
    tn_dims_list kernel, stride, padding, output_padding, dilation;
} conv;

#define FORWARD(function, ...)                                                \
    static tn_tensor *function##_forward(tn_module *self, tn_tensor *input)   \
    {                                                                         \
        conv *c = (conv *)self;                                               \
        return tn_##function(input, c->weight, c->bias,                       \
                             .strides = c->stride, .paddings = c->padding,    \
                             .dilations = c->dilation, __VA_ARGS__);          \
    }
FORWARD(conv1d, .groups = c->groups)
FORWARD(conv3d, .groups = c->groups)
FORWARD(conv_transpose1d, .groups = c->groups,
        .output_paddings = c->output_padding)
FORWARD(conv_transpose2d, .groups = c->groups,
        .output_paddings = c->output_padding)
FORWARD(conv_transpose3d, .groups = c->groups,
        .output_paddings = c->output_padding)

/* ", name=(1, 2)" */
static size_t add_list(char *text, size_t room, size_t at, const char *name,
                       const tn_dims_list *list)
{
    for (int i = 0; i < list->count && at < room; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%s%s%" PRId64,
                               i ? ", " : ", ", i ? "" : name,
                               i ? "" : "=(", list->dim[i]);
    return at < room ? at + (size_t)snprintf(text + at, room - at, "%s",
                                             list->count > 1 ? ")" : ",)")
                     : at;
}

static void describe(const tn_module *self, char *text, size_t room)
{
    const conv *c = (const conv *)self;
    size_t at = (size_t)snprintf(text, room, "%" PRId64 ", %" PRId64,
                                 c->in_channels, c->out_channels);
    at = add_list(text, room, at, "kernel_size", &c->kernel);
    at = add_list(text, room, at, "stride", &c->stride);
    at = add_list(text, room, at, "padding", &c->padding);
    if (at < room && c->groups != 1)
        snprintf(text + at, room - at, ", groups=%" PRId64, c->groups);
}

/* The options that all of these layers share. */
TN_OPTIONS_STRUCT(conv, TN_NN_CONV_OPTIONS_LIST);

static bool configure(conv *c, const char *name, int axes,
                      int64_t kernel_size, const conv_options *o)
{
    c->groups = o->groups;
    if (!tn__nn_check_channels(name, c->in_channels, c->out_channels,
                               c->groups))
        return false;
    const tn__nn_axes_option option[] = {
        {"kernel_size", "kernel_sizes", kernel_size, &o->kernel_sizes, 1},
        {"stride", "strides", o->stride, &o->strides, 1},
        {"padding", "paddings", o->padding, &o->paddings, 0},
        {"output_padding", "output_paddings", o->output_padding,
         &o->output_paddings, 0},
        {"dilation", "dilations", o->dilation, &o->dilations, 1}};
    tn_dims_list *const to[] = {&c->kernel, &c->stride, &c->padding,
                                &c->output_padding, &c->dilation};
    for (int i = 0; i < 5; i++)
        if (!tn__nn_take_axes(to[i], axes, &option[i], name))
            return false;
    return true;
}

static bool make_parameters(conv *c, bool transposed, bool bias)
{
    tn_dims_list shape =
        transposed ? tn_dims(c->in_channels, c->out_channels / c->groups)
                   : tn_dims(c->out_channels, c->in_channels / c->groups);
    int64_t fan_in = shape.dim[1];
    for (int i = 0; i < c->kernel.count; i++)
        fan_in = tn__nn_product(
            fan_in, shape.dim[shape.count++] = c->kernel.dim[i]);
    c->weight = tn_module_add_parameter(&c->base, "weight",
                                        tn__nn_init_fan_in(shape, fan_in));
    if (bias)
        c->bias = tn_module_add_parameter(
            &c->base, "bias",
            tn__nn_init_fan_in(tn_dims(c->out_channels), fan_in));
    return c->weight && (c->bias || !bias);
}

/* A layer of this file. */
typedef struct conv_kind {
    const tn_module_class *type;
    const tn_options_type *options;
    int axes;
    bool transposed;
} conv_kind;

static tn_module *make_conv(const conv_kind *kind, int64_t in_channels,
                            int64_t out_channels, int64_t kernel_size,
                            const void *options)
{
    const char *name = kind->options->name;
    conv_options o;
    const char *why = "in a convolution that is not transposed";
    const char *mend = "make an nn_conv_transpose1d, 2d or 3d";
    const tn_option_need need[] = {
        {"output_padding", kind->transposed, why, mend},
        {"output_paddings", kind->transposed, why, mend}};
    if (tn_options_take(kind->options, &o, options) < 0 ||
        tn_options_check_needs(kind->options, &o, need, 2) < 0 ||
        !tn__nn_check_kernel(kernel_size, &o.kernel_sizes, name))
        return NULL;
    tn_scope *scope = tn_scope_open();
    conv *c = tn_module_new(kind->type);
    if (c) {
        c->in_channels = in_channels;
        c->out_channels = out_channels;
    }
    bool made = c && configure(c, name, kind->axes, kernel_size, &o) &&
                make_parameters(c, kind->transposed, o.bias);
    return tn_scope_result(scope, made ? &c->base : NULL);
}

#define CONV(function, class_name, axes, transposed, run)                      \
    TN_OPTIONS_TYPE(tn_nn_##function, "nn_" #function,                         \
                    "in_channels, out_channels, kernel_size",                  \
                    TN_NN_CONV_OPTIONS_LIST)                                   \
    tn_module *tn_nn_##function##_with(                                        \
        int64_t in_channels, int64_t out_channels, int64_t kernel_size,        \
        const tn_nn_##function##_options *options)                             \
    {                                                                          \
        static const tn_module_class type = {.size = sizeof type,              \
                                             .name = class_name,               \
                                             .bytes = sizeof(conv),            \
                                             .forward = run,                   \
                                             .describe = describe};            \
        const conv_kind kind = {&type, tn_nn_##function##_type(), axes,        \
                                transposed};                                   \
        return make_conv(&kind, in_channels, out_channels, kernel_size,        \
                         options);                                             \
    }
CONV(conv1d, "Conv1d", 1, false, conv1d_forward)
CONV(conv_transpose1d, "ConvTranspose1d", 1, true, conv_transpose1d_forward)
CONV(conv_transpose2d, "ConvTranspose2d", 2, true, conv_transpose2d_forward)
CONV(conv3d, "Conv3d", 3, false, conv3d_forward)
CONV(conv_transpose3d, "ConvTranspose3d", 3, true, conv_transpose3d_forward)
