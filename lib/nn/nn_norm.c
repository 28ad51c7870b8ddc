/* nn_norm.c: normalisation layers. */
#include <nn/init.h>
#include <nn/tree.h>

#include <inttypes.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

typedef struct norm {
    tn_module base;
    tn_tensor *weight, *bias;         /* NULL if the layer has none */
    tn_tensor *running_mean, *running_var, *tracked; /* NULL if it has none */
    tn_dims_list shape;               /* (features), or normalized_shape */
    int64_t groups;
    int ndim, other_ndim;             /* the two allowed numbers of dimensions
                                         of an input */
    double eps; /* in rms_norm, TN_NONE_FLOAT means the dtype's epsilon */
    double momentum;
    bool cumulative;
} norm;

static bool add_affine(norm *n, bool affine, bool bias)
{
    if (affine)
        n->weight =
            tn_module_add_parameter(&n->base, "weight", tn_ones(n->shape));
    if (n->weight && bias)
        n->bias = tn_module_add_parameter(&n->base, "bias", tn_zeros(n->shape));
    return !affine || (n->weight && (n->bias || !bias));
}

static bool add_running(norm *n)
{
    n->running_mean =
        tn_module_add_buffer(&n->base, "running_mean", tn_zeros(n->shape));
    n->running_var =
        tn_module_add_buffer(&n->base, "running_var", tn_ones(n->shape));
    n->tracked = tn_module_add_buffer(&n->base, "num_batches_tracked",
                                      tn_zeros(TN_SCALAR, .dtype = TN_I64));
    return n->running_mean && n->running_var && n->tracked;
}

static const char *truth(const void *x)
{
    return x ? "True" : "False";
}

static bool check_shape(const norm *n, const char *name)
{
    bool fine = n->shape.count > 0;
    for (int i = 0; i < n->shape.count; i++)
        fine = fine && n->shape.dim[i] > 0;
    if (!fine)
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, name, NULL,
            "normalized_shape is empty or has a size below 1; expected sizes "
            "of at least 1");
    return fine;
}

/* ---- statistics per channel --------------------------------------------- */

/* Checks the shape of input, whose channels are dimension `at`. */
static bool check_input(const norm *n, tn_tensor *input, int at)
{
    char text[TN__NN_SHAPE_TEXT];
    int ndim = tn_tensor_ndim(input);
    bool fine = ndim == n->ndim || ndim == n->other_ndim;
    if (n->weight || n->running_mean)
        fine = fine && tn_tensor_size(input, at) == n->shape.dim[0];
    if (!fine)
        tn_error_refuse(TN_ERR_SHAPE, n->base.type->name,
                        &(tn_given){"input", input}, 1,
                        "input %s: expected %d dimensions, with %" PRId64
                        " channels in the second",
                        tn__nn_shape_text(text, input), n->ndim,
                        n->shape.dim[0]);
    return fine;
}

/* Returns the weight of the current batch in the running statistics. */
static double batch_momentum(const norm *n)
{
    return n->cumulative ? 1 / (1 + (double)tn_item_int(n->tracked))
                         : n->momentum;
}

/* Adds 1 to num_batches_tracked if the operator succeeded. Returns y. */
static tn_tensor *count_batch(norm *n, tn_tensor *y)
{
    if (!y || !n->base.training || !n->running_mean)
        return y;
    return tn_add_scalar_(n->tracked, 1) ? y : NULL;
}

static tn_tensor *batch_forward(tn_module *self, tn_tensor *input)
{
    norm *n = (norm *)self;
    if (tn_error() || !check_input(n, input, 1))
        return NULL;
    bool use_batch = self->training || !n->running_mean;
    double momentum = use_batch ? batch_momentum(n) : 0;
    return count_batch(n,
                       tn_batch_norm(input, n->running_mean, n->running_var,
                                     n->weight, n->bias, .training = use_batch,
                                     .momentum = momentum, .eps = n->eps));
}

static tn_tensor *instance_forward(tn_module *self, tn_tensor *input)
{
    norm *n = (norm *)self;
    if (tn_error() || !check_input(n, input, tn_tensor_ndim(input) == n->ndim))
        return NULL;
    bool use_batch = self->training || !n->running_mean;
    tn_tensor *batch = tn_tensor_ndim(input) == n->ndim
                           ? input
                           : tn_unsqueeze(input, 0);
    tn_tensor *y = tn_instance_norm(
        batch, n->running_mean, n->running_var, n->weight, n->bias,
        .use_input_stats = use_batch, .momentum = n->momentum, .eps = n->eps);
    /* num_batches_tracked stays 0, as in PyTorch. */
    return batch == input ? y : tn_squeeze(y, .dim = 0);
}

static void channels_describe(const tn_module *self, char *text, size_t room)
{
    const norm *n = (const norm *)self;
    char momentum[32] = "None";
    if (!n->cumulative)
        tn_format(momentum, sizeof momentum, "%g", n->momentum);
    tn_format(text, room,
             "%" PRId64 ", eps=%g, momentum=%s, affine=%s, bias=%s, "
             "track_running_stats=%s",
             n->shape.dim[0], n->eps, momentum, truth(n->weight),
             truth(n->bias), truth(n->running_mean));
}

/* Parts of the message about options that require running statistics. */
static const char untracked[] = "without track_running_stats";
static const char track[] = "give track_running_stats = true";

/* The options of batch_norm1d to 3d. */
TN_OPTIONS_STRUCT(batch_norm, TN_NN_BATCH_NORM_OPTIONS_LIST);

static tn_module *make_batch_norm(const tn_module_class *type,
                                  const tn_options_type *option_type,
                                  int64_t num_features, int ndim,
                                  int other_ndim, const void *options)
{
    const char *name = option_type->name;
    batch_norm_options o;
    if (tn_options_take(option_type, &o, options) < 0 ||
        !tn__nn_check_eps(o.eps, name, "eps"))
        return NULL;
    const tn_option_need need[] = {
        {"momentum", o.track_running_stats, untracked, track},
        {"cumulative", o.track_running_stats, untracked, track},
        {"momentum", !o.cumulative, "where cumulative is given",
         "leave cumulative out"},
        {"bias", o.affine, "without affine", "give affine"}};
    if (tn_options_check_needs(option_type, &o, need, 4) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    norm *n = tn_module_new(type);
    bool made = false;
    if (n) {
        n->shape = tn_dims(num_features);
        n->ndim = ndim;
        n->other_ndim = other_ndim;
        n->eps = o.eps;
        n->momentum = o.momentum;
        n->cumulative = o.cumulative;
        made = check_shape(n, name) &&
               add_affine(n, o.affine, o.bias) &&
               (!o.track_running_stats || add_running(n));
    }
    return tn_scope_result(scope, made ? &n->base : NULL);
}

#define BATCH_NORM(n, ndim, other_ndim)                                        \
    TN_OPTIONS_TYPE(tn_nn_batch_norm##n##d, "nn_batch_norm" #n "d",            \
                    "num_features", TN_NN_BATCH_NORM_OPTIONS_LIST)             \
    tn_module *tn_nn_batch_norm##n##d_with(                                    \
        int64_t num_features, const tn_nn_batch_norm##n##d_options *options)   \
    {                                                                          \
        static const tn_module_class type = {.size = sizeof type,              \
                                             .name = "BatchNorm" #n "d",       \
                                             .bytes = sizeof(norm),            \
                                             .forward = batch_forward,         \
                                             .describe = channels_describe};   \
        return make_batch_norm(&type, tn_nn_batch_norm##n##d_type(),           \
                               num_features, ndim, other_ndim, options);       \
    }
BATCH_NORM(1, 3, 2)
BATCH_NORM(2, 4, 4)
BATCH_NORM(3, 5, 5)

TN_OPTIONS_STRUCT(instance_norm, TN_NN_INSTANCE_NORM_OPTIONS_LIST);

static tn_module *make_instance_norm(const tn_module_class *type,
                                     const tn_options_type *option_type,
                                     int64_t num_features, int ndim,
                                     const void *options)
{
    const char *name = option_type->name;
    instance_norm_options o;
    if (tn_options_take(option_type, &o, options) < 0 ||
        !tn__nn_check_eps(o.eps, name, "eps"))
        return NULL;
    const tn_option_need need[] = {
        {"momentum", o.track_running_stats, untracked, track},
        {"bias", o.affine, "without affine", "give affine"}};
    if (tn_options_check_needs(option_type, &o, need, 2) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    norm *n = tn_module_new(type);
    bool made = false;
    if (n) {
        n->shape = tn_dims(num_features);
        n->ndim = ndim;
        n->other_ndim = ndim - 1; /* of an input without batch */
        n->eps = o.eps;
        n->momentum = o.momentum;
        made = check_shape(n, name) &&
               add_affine(n, o.affine, o.bias) &&
               (!o.track_running_stats || add_running(n));
    }
    return tn_scope_result(scope, made ? &n->base : NULL);
}

#define INSTANCE_NORM(n)                                                       \
    TN_OPTIONS_TYPE(tn_nn_instance_norm##n##d, "nn_instance_norm" #n "d",      \
                    "num_features", TN_NN_INSTANCE_NORM_OPTIONS_LIST)          \
    tn_module *tn_nn_instance_norm##n##d_with(                                 \
        int64_t num_features,                                                  \
        const tn_nn_instance_norm##n##d_options *options)                      \
    {                                                                          \
        static const tn_module_class type = {.size = sizeof type,              \
                                             .name = "InstanceNorm" #n "d",    \
                                             .bytes = sizeof(norm),            \
                                             .forward = instance_forward,      \
                                             .describe = channels_describe};   \
        return make_instance_norm(&type, tn_nn_instance_norm##n##d_type(),     \
                                  num_features, n + 2, options);               \
    }
INSTANCE_NORM(1)
INSTANCE_NORM(2)
INSTANCE_NORM(3)

static tn_tensor *group_forward(tn_module *self, tn_tensor *input)
{
    norm *n = (norm *)self;
    if (tn_error())
        return NULL;
    return tn_group_norm(input, n->groups, n->weight, n->bias, .eps = n->eps);
}

static void group_describe(const tn_module *self, char *text, size_t room)
{
    const norm *n = (const norm *)self;
    tn_format(text, room,
              "%" PRId64 ", %" PRId64 ", eps=%g, affine=%s, bias=%s", n->groups,
              n->shape.dim[0], n->eps, truth(n->weight), truth(n->bias));
}

TN_OPTIONS_TYPE(tn_nn_group_norm, "nn_group_norm", "num_groups, num_channels",
                TN_NN_GROUP_NORM_OPTIONS_LIST)

tn_module *tn_nn_group_norm_with(int64_t num_groups, int64_t num_channels,
                                 const tn_nn_group_norm_options *options)
{
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "GroupNorm",
                                         .bytes = sizeof(norm),
                                         .forward = group_forward,
                                         .describe = group_describe};
    tn_nn_group_norm_options o;
    if (tn_options_take(tn_nn_group_norm_type(), &o, options) < 0 ||
        !tn__nn_check_eps(o.eps, "nn_group_norm", "eps"))
        return NULL;
    const tn_option_need need = {"bias", o.affine, "without affine",
                                 "give affine"};
    if (tn_options_check_needs(tn_nn_group_norm_type(), &o, &need, 1) < 0)
        return NULL;
    if (num_groups < 1 || num_channels < 1 || num_channels % num_groups) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "nn_group_norm",
                                 num_groups >= 1 && num_channels < 1
                                     ? "num_channels"
                                     : "num_groups",
                                 "%" PRId64
                                 " num_channels do not divide into %" PRId64
                                 " num_groups",
                                 num_channels, num_groups);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    norm *n = tn_module_new(&type);
    bool made = false;
    if (n) {
        n->shape = tn_dims(num_channels);
        n->groups = num_groups;
        n->eps = o.eps;
        made = add_affine(n, o.affine, o.bias);
    }
    return tn_scope_result(scope, made ? &n->base : NULL);
}

/* ---- statistics over the last dimensions -------------------------------- */

static tn_tensor *layer_forward(tn_module *self, tn_tensor *input)
{
    norm *n = (norm *)self;
    if (tn_error())
        return NULL;
    return tn_layer_norm(input, n->shape, n->weight, n->bias, .eps = n->eps);
}

static tn_tensor *rms_forward(tn_module *self, tn_tensor *input)
{
    norm *n = (norm *)self;
    if (tn_error())
        return NULL;
    return tn_rms_norm(input, n->shape, n->weight, .eps = n->eps);
}

static void last_describe(const tn_module *self, char *text, size_t room)
{
    const norm *n = (const norm *)self;
    size_t at = (size_t)snprintf(text, room, "(");
    for (int i = 0; i < n->shape.count && at < room; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%" PRId64,
                               i ? ", " : "", n->shape.dim[i]);
    char eps[32] = "None";
    if (!tn_is_none_float(n->eps))
        tn_format(eps, sizeof eps, "%g", n->eps);
    if (at < room)
        at += (size_t)snprintf(text + at, room - at,
                               "%s), eps=%s, elementwise_affine=%s",
                               n->shape.count == 1 ? "," : "", eps,
                               truth(n->weight));
    if (at < room && self->type->forward == layer_forward)
        snprintf(text + at, room - at, ", bias=%s", truth(n->bias));
}

TN_OPTIONS_TYPE(tn_nn_layer_norm, "nn_layer_norm", "normalized_shape",
                TN_NN_LAYER_NORM_OPTIONS_LIST)

tn_module *tn_nn_layer_norm_with(tn_dims_list normalized_shape,
                                 const tn_nn_layer_norm_options *options)
{
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "LayerNorm",
                                         .bytes = sizeof(norm),
                                         .forward = layer_forward,
                                         .describe = last_describe};
    tn_nn_layer_norm_options o;
    if (tn_options_take(tn_nn_layer_norm_type(), &o, options) < 0 ||
        !tn__nn_check_eps(o.eps, "nn_layer_norm", "eps"))
        return NULL;
    const tn_option_need need = {"bias", o.elementwise_affine,
                                 "without elementwise_affine",
                                 "give elementwise_affine"};
    if (tn_options_check_needs(tn_nn_layer_norm_type(), &o, &need, 1) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    norm *n = tn_module_new(&type);
    bool made = false;
    if (n) {
        n->shape = normalized_shape;
        n->eps = o.eps;
        made = check_shape(n, "nn_layer_norm") &&
               add_affine(n, o.elementwise_affine, o.bias);
    }
    return tn_scope_result(scope, made ? &n->base : NULL);
}

TN_OPTIONS_TYPE(tn_nn_rms_norm, "nn_rms_norm", "normalized_shape",
                TN_NN_RMS_NORM_OPTIONS_LIST)

tn_module *tn_nn_rms_norm_with(tn_dims_list normalized_shape,
                               const tn_nn_rms_norm_options *options)
{
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "RMSNorm",
                                         .bytes = sizeof(norm),
                                         .forward = rms_forward,
                                         .describe = last_describe};
    tn_nn_rms_norm_options o;
    if (tn_options_take(tn_nn_rms_norm_type(), &o, options) < 0 ||
        (!tn_is_none_float(o.eps) &&
         !tn__nn_check_eps(o.eps, "nn_rms_norm", "eps")))
        return NULL;
    tn_scope *scope = tn_scope_open();
    norm *n = tn_module_new(&type);
    bool made = false;
    if (n) {
        n->shape = normalized_shape;
        n->eps = o.eps;
        made = check_shape(n, "nn_rms_norm") &&
               add_affine(n, o.elementwise_affine, false);
    }
    return tn_scope_result(scope, made ? &n->base : NULL);
}
