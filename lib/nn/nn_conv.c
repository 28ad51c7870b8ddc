/* nn_conv.c: convolutions and transposed convolutions over sequences, images
 * and volumes. */
#include <nn/init.h>

#include <inttypes.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

typedef struct conv {
    tn_module base;
    tn_tensor *weight, *bias; /* bias may be NULL */
    int64_t in_channels, out_channels, groups;
    tn_dims_list kernel, stride, padding, output_padding, dilation;
    tn_dims_list sides; /* amounts for tn_pad; empty if it is not needed */
    const char *mode;   /* mode of tn_pad, or NULL for zeros */
} conv;

#define FORWARD(function, ...)                                                 \
    static tn_tensor *function##_forward(tn_module *self, tn_tensor *input)    \
    {                                                                          \
        conv *c = (conv *)self;                                                \
        if (!tn__nn_check_dtype(input, "input", c->weight, #function))         \
            return NULL;                                                       \
        if (c->sides.count)                                                    \
            input = tn_pad(input, c->sides,                                    \
                           .mode = c->mode ? c->mode : "constant");            \
        return tn_##function(input, c->weight, c->bias, .strides = c->stride,  \
                             .paddings = c->padding, .dilations = c->dilation, \
                             __VA_ARGS__);                                     \
    }
FORWARD(conv1d, .groups = c->groups)
FORWARD(conv2d, .groups = c->groups)
FORWARD(conv3d, .groups = c->groups)
FORWARD(conv_transpose1d, .groups = c->groups,
        .output_paddings = c->output_padding)
FORWARD(conv_transpose2d, .groups = c->groups,
        .output_paddings = c->output_padding)
FORWARD(conv_transpose3d, .groups = c->groups,
        .output_paddings = c->output_padding)

/* Appends ", name=(1, 2)" to text, unless all numbers are `usual`. */
static size_t add_list(char *text, size_t room, size_t at, const char *name,
                       const tn_dims_list *list, int64_t usual)
{
    bool shown = false;
    for (int i = 0; i < list->count; i++)
        shown = shown || list->dim[i] != usual;
    for (int i = 0; i < list->count && shown && at < room; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%s%s%" PRId64, ", ",
                               i ? "" : name, i ? "" : "=(", list->dim[i]);
    return shown && at < room
               ? at + (size_t)snprintf(text + at, room - at, "%s",
                                       list->count > 1 ? ")" : ",)")
               : at;
}

static void describe(const tn_module *self, char *text, size_t room)
{
    const conv *c = (const conv *)self;
    tn_dims_list padding = c->padding;
    for (int i = 0; i < c->sides.count; i += 2)
        padding.dim[padding.count - 1 - i / 2] = c->sides.dim[i];
    size_t at = (size_t)snprintf(text, room, "%" PRId64 ", %" PRId64,
                                 c->in_channels, c->out_channels);
    at = add_list(text, room, at, "kernel_size", &c->kernel, 0);
    at = add_list(text, room, at, "stride", &c->stride, 0);
    at = add_list(text, room, at, "padding", &padding, 0);
    at = add_list(text, room, at, "dilation", &c->dilation, 1);
    at = add_list(text, room, at, "output_padding", &c->output_padding, 0);
    if (at < room && c->groups != 1)
        at += (size_t)snprintf(text + at, room - at, ", groups=%" PRId64,
                               c->groups);
    if (at < room && !c->bias)
        at += (size_t)snprintf(text + at, room - at, ", bias=False");
    if (at < room && c->mode)
        snprintf(text + at, room - at, ", padding_mode=%s", c->mode);
}

/* The options that all of these layers share. */
TN_OPTIONS_STRUCT(conv, TN_NN_CONV_OPTIONS_LIST);

static bool configure_padding(conv *c, const char *name, const conv_options *o);

static bool configure(conv *c, const char *name, int axes, int64_t kernel_size,
                      const conv_options *o)
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
    return configure_padding(c, name, o);
}

/* Stores the string constant that equals mode, or NULL for "zeros", in *to,
 * because the caller's string may be freed. Returns false with an error for an
 * unknown mode. */
static bool take_mode(const char **to, const char *mode, const char *name)
{
    static const char *const modes[] = {"reflect", "replicate", "circular"};
    *to = NULL;
    if (strcmp(mode, "zeros") == 0)
        return true;
    for (int i = 0; i < 3; i++)
        if (strcmp(modes[i], mode) == 0)
            return *to = modes[i], true;
    tn_error_refuse_argument(
        TN_ERR_ARGUMENT, name, "padding_mode",
        "padding_mode \"%s\" is none of zeros, reflect, replicate, circular",
        mode);
    return false;
}

/* Configures padding_same and padding modes other than zeros. Padding that the
 * operator does not support is done by tn_pad before it. */
static bool configure_padding(conv *c, const char *name, const conv_options *o)
{
    bool even = true;
    if (!take_mode(&c->mode, o->padding_mode, name))
        return false;
    for (int i = 0; i < c->stride.count && o->padding_same; i++)
        if (c->stride.dim[i] != 1) {
            tn_error_refuse_argument(TN_ERR_ARGUMENT, name, "padding_same",
                                     "padding_same with a stride of %" PRId64
                                     ": only 1 keeps the size",
                                     c->stride.dim[i]);
            return false;
        }
    if (o->padding_same && (o->padding != 0 || o->paddings.count >= 0)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, name, "padding_same",
                                 "give padding or padding_same, not both");
        return false;
    }
    tn_dims_list sides = TN_SCALAR;
    for (int i = c->kernel.count - 1; i >= 0; i--) {
        int64_t after = c->padding.dim[i];
        if (o->padding_same) {
            int64_t all =
                tn__nn_product(c->dilation.dim[i], c->kernel.dim[i] - 1);
            c->padding.dim[i] = all / 2;
            after = all - all / 2;
            even = even && all % 2 == 0;
        }
        sides.dim[sides.count++] = c->padding.dim[i];
        sides.dim[sides.count++] = after;
    }
    if (c->mode || !even) {
        c->sides = sides;
        memset(c->padding.dim, 0, (size_t)c->padding.count * sizeof(int64_t));
    }
    return true;
}

static bool make_parameters(conv *c, bool transposed, bool bias)
{
    tn_dims_list shape =
        transposed ? tn_dims(c->in_channels, c->out_channels / c->groups)
                   : tn_dims(c->out_channels, c->in_channels / c->groups);
    int64_t fan_in = shape.dim[1];
    for (int i = 0; i < c->kernel.count; i++)
        fan_in =
            tn__nn_product(fan_in, shape.dim[shape.count++] = c->kernel.dim[i]);
    c->weight = tn_module_add_parameter(&c->base, "weight",
                                        tn__nn_init_fan_in(shape, fan_in));
    if (bias)
        c->bias = tn_module_add_parameter(
            &c->base, "bias",
            tn__nn_init_fan_in(tn_dims(c->out_channels), fan_in));
    return c->weight && (c->bias || !bias);
}

/* The properties in which the layers of this file differ. */
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
    const char *why_not = "in a transposed convolution";
    const char *instead = "make an nn_conv1d, 2d or 3d";
    const tn_option_need need[] = {
        {"output_padding", kind->transposed, why, mend},
        {"output_paddings", kind->transposed, why, mend},
        {"padding_same", !kind->transposed, why_not, instead},
        {"padding_mode", !kind->transposed, why_not, instead}};
    if (tn_options_take(kind->options, &o, options) < 0 ||
        tn_options_check_needs(kind->options, &o, need, 4) < 0 ||
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

/* All layers share one description of their options, which takes 1 KB, because
 * their option structs have the same members. */
typedef conv_options tn__options_here;
static const conv_options shared_defaults =
    TN_OPTIONS_DEFAULTS(conv, TN_NN_CONV_OPTIONS_LIST);
static const tn_option shared_option[] = {
    TN_NN_CONV_OPTIONS_LIST(TN__OPTION_ROW)};

#define CONV(function, class_name, axes, transposed, forward_function)                  \
    static const tn_options_type function##_type = {                           \
        sizeof(tn_options_type),                                               \
        "nn_" #function,                                                       \
        "in_channels, out_channels, kernel_size",                              \
        &shared_defaults,                                                      \
        sizeof shared_defaults,                                                \
        shared_option,                                                         \
        sizeof shared_option / sizeof *shared_option};                         \
    TN_OPTIONS_LISTED(function##_type);                                        \
    tn_module *tn_nn_##function##_with(                                        \
        int64_t in_channels, int64_t out_channels, int64_t kernel_size,        \
        const tn_nn_##function##_options *options)                             \
    {                                                                          \
        static const tn_module_class type = {                                  \
            .size = sizeof type,                                               \
            .name = class_name,                                                \
            .bytes = sizeof(conv),                                             \
            .forward = forward_function,                                       \
            .describe = describe};                                             \
        const conv_kind kind = {&type, &function##_type, axes, transposed};    \
        return make_conv(&kind, in_channels, out_channels, kernel_size,        \
                         options);                                             \
    }
CONV(conv1d, "Conv1d", 1, false, conv1d_forward)
CONV(conv_transpose1d, "ConvTranspose1d", 1, true, conv_transpose1d_forward)
CONV(conv_transpose2d, "ConvTranspose2d", 2, true, conv_transpose2d_forward)
CONV(conv2d, "Conv2d", 2, false, conv2d_forward)
CONV(conv3d, "Conv3d", 3, false, conv3d_forward)
CONV(conv_transpose3d, "ConvTranspose3d", 3, true, conv_transpose3d_forward)
