/* conv_other.c: convolution over sequences and volumes, and transposed ones. */
#include "init.h"

#include <inttypes.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

typedef struct conv {
    tn_module base;
    tn_tensor *weight, *bias; /* bias may be NULL */
    int64_t in_channels, out_channels, kernel;
    tn_nn_conv_options o;     /* with its defaults filled in */
} conv;

static tn_tensor *conv1d_forward(tn_module *self, tn_tensor *input)
{
    conv *c = (conv *)self;
    return tn_conv1d(input, c->weight, c->bias, .stride = c->o.stride,
                     .padding = c->o.padding, .dilation = c->o.dilation,
                     .groups = c->o.groups);
}

static tn_tensor *conv3d_forward(tn_module *self, tn_tensor *input)
{
    conv *c = (conv *)self;
    return tn_conv3d(input, c->weight, c->bias, .stride = c->o.stride,
                     .padding = c->o.padding, .dilation = c->o.dilation,
                     .groups = c->o.groups);
}

static tn_tensor *transpose1d_forward(tn_module *self, tn_tensor *input)
{
    conv *c = (conv *)self;
    return tn_conv_transpose1d(input, c->weight, c->bias,
                               .stride = c->o.stride, .padding = c->o.padding,
                               .output_padding = c->o.output_padding,
                               .dilation = c->o.dilation,
                               .groups = c->o.groups);
}

static tn_tensor *transpose2d_forward(tn_module *self, tn_tensor *input)
{
    conv *c = (conv *)self;
    return tn_conv_transpose2d(input, c->weight, c->bias,
                               .stride = c->o.stride, .padding = c->o.padding,
                               .output_padding = c->o.output_padding,
                               .dilation = c->o.dilation,
                               .groups = c->o.groups);
}

static tn_tensor *transpose3d_forward(tn_module *self, tn_tensor *input)
{
    conv *c = (conv *)self;
    return tn_conv_transpose3d(input, c->weight, c->bias,
                               .stride = c->o.stride, .padding = c->o.padding,
                               .output_padding = c->o.output_padding,
                               .dilation = c->o.dilation,
                               .groups = c->o.groups);
}

static void describe(const tn_module *self, char *text, size_t room)
{
    const conv *c = (const conv *)self;
    snprintf(text, room,
             "%" PRId64 ", %" PRId64 ", kernel_size=%" PRId64
             ", stride=%" PRId64 ", padding=%" PRId64 ", groups=%" PRId64,
             c->in_channels, c->out_channels, c->kernel, c->o.stride,
             c->o.padding, c->o.groups);
}

static bool check(const conv *c, const char *name)
{
    const tn_nn_conv_options *o = &c->o;
    if (c->in_channels > 0 && c->out_channels > 0 && c->kernel > 0 &&
        o->stride > 0 && o->dilation > 0 && o->padding >= 0 &&
        o->output_padding >= 0 && o->groups > 0 &&
        c->in_channels % o->groups == 0 && c->out_channels % o->groups == 0)
        return true;
    tn_error_set(TN_ERR_ARGUMENT,
                 "%s: in_channels %" PRId64 ", out_channels %" PRId64
                 ", kernel_size %" PRId64 ", stride %" PRId64
                 ", padding %" PRId64 ", dilation %" PRId64
                 ", groups %" PRId64 ": positive numbers are wanted, and "
                 "channels that divide into the groups",
                 name, c->in_channels, c->out_channels, c->kernel, o->stride,
                 o->padding, o->dilation, o->groups);
    return false;
}

static tn_module *make(const tn_module_class *type, const char *name,
                       int axes, bool transposed, int64_t in_channels,
                       int64_t out_channels, int64_t kernel_size,
                       const tn_nn_conv_options *options)
{
    tn_scope *scope = tn_scope_open();
    conv *c = tn_module_new(type);
    bool made = false;
    if (c) {
        c->o.size = sizeof c->o;
        tn__nn_take_options(&c->o, sizeof c->o, options);
        c->o.stride = c->o.stride ? c->o.stride : 1;
        c->o.dilation = c->o.dilation ? c->o.dilation : 1;
        c->o.groups = c->o.groups ? c->o.groups : 1;
        c->in_channels = in_channels;
        c->out_channels = out_channels;
        c->kernel = kernel_size;
        made = check(c, name);
    }
    if (made) {
        int64_t g = c->o.groups;
        tn_dims_list shape = transposed
                                 ? tn_dims(in_channels, out_channels / g)
                                 : tn_dims(out_channels, in_channels / g);
        int64_t fan_in = shape.dim[1];
        for (int i = 0; i < axes; i++) {
            shape.dim[shape.count++] = kernel_size;
            fan_in *= kernel_size;
        }
        c->weight = tn_module_add_parameter(
            c, "weight", tn__nn_init_fan_in(shape, fan_in));
        if (!c->o.no_bias)
            c->bias = tn_module_add_parameter(
                c, "bias", tn__nn_init_fan_in(tn_dims(out_channels), fan_in));
        made = c->weight && (c->bias || c->o.no_bias);
    }
    return tn_scope_result(scope, made ? &c->base : NULL);
}

#define CONV(function, class_name, axes, transposed, forward)                 \
    tn_module *tn_nn_##function##_with(                                       \
        int64_t in_channels, int64_t out_channels, int64_t kernel_size,       \
        const tn_nn_conv_options *options)                                    \
    {                                                                         \
        static const tn_module_class type = {sizeof type,  class_name,        \
                                             sizeof(conv), forward,           \
                                             describe,     NULL};             \
        return make(&type, "nn_" #function, axes, transposed, in_channels,    \
                    out_channels, kernel_size, options);                      \
    }
CONV(conv1d, "Conv1d", 1, false, conv1d_forward)
CONV(conv_transpose1d, "ConvTranspose1d", 1, true, transpose1d_forward)
CONV(conv_transpose2d, "ConvTranspose2d", 2, true, transpose2d_forward)
CONV(conv3d, "Conv3d", 3, false, conv3d_forward)
CONV(conv_transpose3d, "ConvTranspose3d", 3, true, transpose3d_forward)
