/* nn_loss.c: losses with parameters, and a triplet loss with the caller's
 * distance. */
#include <nn/init.h>
#include <nn/layer.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

/* Returns the string constant that equals name, because the caller's string may
 * be freed. Returns NULL with an error for an unknown reduction. */
TN__NN_SMALL static const char *find_reduction(const char *name,
                                               const char *layer)
{
    static const char *const known[] = {"none", "mean", "sum"};
    for (int i = 0; i < 3; i++)
        if (strcmp(known[i], name) == 0)
            return known[i];
    tn_error_refuse_argument(TN_ERR_ARGUMENT, layer, "reduction",
                             "reduction is \"%s\"; expected one of "
                             "none/mean/sum",
                             name);
    return NULL;
}

TN__NN_SMALL static bool check_sizes(const char *layer, const char *a,
                                     int64_t n, const char *b, int64_t m)
{
    if (n >= 1 && m >= 1)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, layer, n < 1 ? a : b,
                             "%s is %" PRId64 "; expected at least 1",
                             n < 1 ? a : b, n < 1 ? n : m);
    return false;
}

/* ---- triplets with a distance of the caller ----------------------------- */

typedef struct triplet {
    tn_module base;
    tn_nn_distance distance; /* NULL for pairwise_distance */
    void *context;           /* not owned */
    double margin;
    bool swap;
    const char *reduction;
} triplet;

TN__NN_SMALL static tn_tensor *distance(const triplet *t, tn_tensor *a,
                                        tn_tensor *b)
{
    return t->distance ? t->distance(a, b, t->context)
                       : tn_pairwise_distance(a, b);
}

TN__NN_SMALL static void run_triplet(tn_module *self, tn_tensor *const *in,
                                     int in_count, tn_tensor **out,
                                     int out_count)
{
    (void)in_count, (void)out_count;
    const triplet *t = (const triplet *)self;
    tn_tensor *anchor = in[0], *positive = in[1], *negative = in[2];
    tn_tensor *near = distance(t, anchor, positive);
    tn_tensor *far = distance(t, anchor, negative);
    if (t->swap)
        far = tn_minimum(far, distance(t, positive, negative));
    tn_tensor *loss =
        tn_clamp_min_scalar(tn_add_scalar(tn_sub(near, far), t->margin), 0);
    out[0] = strcmp(t->reduction, "sum") == 0    ? tn_sum(loss)
             : strcmp(t->reduction, "mean") == 0 ? tn_mean(loss)
                                                 : loss;
}

static const tn_module_class triplet_class = {
    .size = sizeof triplet_class,
    .name = "TripletMarginWithDistanceLoss",
    .bytes = sizeof(triplet),
    .forward_list = run_triplet,
    .signature = "anchor, positive, negative -> loss"};

TN_OPTIONS_TYPE(tn_nn_triplet_margin_with_distance_loss,
                "nn_triplet_margin_with_distance_loss", "",
                TN_NN_TRIPLET_DISTANCE_OPTIONS_LIST)

TN__NN_SMALL tn_module *tn_nn_triplet_margin_with_distance_loss_with(
    const tn_nn_triplet_margin_with_distance_loss_options *options)
{
    const tn_options_type *type =
        tn_nn_triplet_margin_with_distance_loss_type();
    tn_nn_triplet_margin_with_distance_loss_options o;
    if (tn_options_take(type, &o, options) < 0)
        return NULL;
    const char *reduction = find_reduction(o.reduction, type->name);
    if (!reduction)
        return NULL;
    if (!(o.margin > 0)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, type->name, "margin",
                                 "margin is %g; expected a number greater "
                                 "than 0",
                                 o.margin);
        return NULL;
    }
    triplet *t = tn_module_new(&triplet_class);
    if (t) {
        t->distance = o.distance_function;
        t->context = o.context;
        t->margin = o.margin;
        t->swap = o.swap;
        t->reduction = reduction;
    }
    return (tn_module *)t;
}

/* ---- a linear layer and cross entropy ----------------------------------- */

typedef struct linear_loss {
    tn_module base;
    tn_module *linear;
    tn_tensor *weight;  /* weights of classes, or NULL */
    tn_dims_list shape; /* linear's weight as (C, d1, ..., in_features) */
    const char *reduction;
    int64_t ignore_index;
    double label_smoothing;
    bool bias;
} linear_loss;

TN__NN_SMALL static void run_linear_loss(tn_module *self, tn_tensor *const *in,
                                         int in_count, tn_tensor **out,
                                         int out_count)
{
    (void)in_count, (void)out_count;
    const linear_loss *l = (const linear_loss *)self;
    tn_dims_list bias_shape = l->shape;
    bias_shape.count--;
    tn_tensor *bias =
        l->bias ? tn_reshape(tn_module_parameter(l->linear, "bias"), bias_shape)
                : NULL;
    tn_tensor *weight =
        tn_reshape(tn_module_parameter(l->linear, "weight"), l->shape);
    if (tn_error())
        return;
    out[0] = tn_linear_cross_entropy(
        in[0], weight, in[1], .linear_bias = bias, .weight = l->weight,
        .reduction = l->reduction, .ignore_index = l->ignore_index,
        .label_smoothing = l->label_smoothing);
}

static const tn_module_class linear_loss_class = {
    .size = sizeof linear_loss_class,
    .name = "LinearCrossEntropyLoss",
    .bytes = sizeof(linear_loss),
    .forward_list = run_linear_loss,
    .signature = "input, target -> loss"};

TN_OPTIONS_TYPE(tn_nn_linear_cross_entropy_loss, "nn_linear_cross_entropy_loss",
                "in_features, num_classes",
                TN_NN_LINEAR_CROSS_ENTROPY_LOSS_OPTIONS_LIST)

TN__NN_SMALL tn_module *tn_nn_linear_cross_entropy_loss_with(
    int64_t in_features, int64_t num_classes,
    const tn_nn_linear_cross_entropy_loss_options *options)
{
    const tn_options_type *type = tn_nn_linear_cross_entropy_loss_type();
    tn_nn_linear_cross_entropy_loss_options o;
    if (tn_options_take(type, &o, options) < 0)
        return NULL;
    const char *reduction = find_reduction(o.reduction, type->name);
    if (!reduction || (!o.weight && tn_error()) ||
        !tn__nn_check_probability(o.label_smoothing, type->name,
                                  "label_smoothing") ||
        !check_sizes(type->name, "in_features", in_features, "num_classes",
                     num_classes))
        return NULL;
    tn_dims_list shape = tn_dims(num_classes);
    int64_t out = num_classes;
    for (int i = 0; i < o.out_features.count && shape.count < TN_MAX_NDIM - 1;
         i++) {
        int64_t size = o.out_features.dim[i];
        if (!check_sizes(type->name, "out_features", size, "", 1))
            return NULL;
        shape.dim[shape.count++] = size;
        out = tn__nn_product(out, size);
    }
    shape.dim[shape.count++] = in_features;
    tn_scope *scope = tn_scope_open();
    linear_loss *l = tn_module_new(&linear_loss_class);
    bool made = false;
    if (l) {
        l->shape = shape;
        l->reduction = reduction;
        l->ignore_index = o.ignore_index;
        l->label_smoothing = o.label_smoothing;
        l->bias = o.bias;
        l->linear = tn_module_add(
            &l->base, "linear", tn_nn_linear(in_features, out, .bias = o.bias));
        made = l->linear != NULL;
        if (o.weight)
            made = (l->weight =
                        tn_module_add_buffer(&l->base, "weight", o.weight)) &&
                   made;
    }
    return tn_scope_result(scope, made ? &l->base : NULL);
}

/* ---- adaptive softmax --------------------------------------------------- */

typedef struct adaptive {
    tn_module base;
    tn_module *head, *tail[TN_MAX_NDIM];
    tn_dims_list cut; /* the cutoffs, then the number of classes */
} adaptive;

TN__NN_SMALL static int cluster_count(const adaptive *a)
{
    return a->cut.count - 1;
}

/* Returns the log-probabilities of all classes. */
TN__NN_SMALL static tn_tensor *all_classes(const adaptive *a, tn_tensor *input)
{
    tn_tensor *part[TN_MAX_NDIM + 1];
    tn_tensor *head = tn_log_softmax(tn_forward(a->head, input), -1);
    part[0] = tn_narrow(head, -1, 0, a->cut.dim[0]);
    for (int i = 0; i < cluster_count(a); i++)
        part[1 + i] = tn_add(tn_log_softmax(tn_forward(a->tail[i], input), -1),
                             tn_narrow(head, -1, a->cut.dim[0] + i, 1));
    return tn_cat(part, 1 + cluster_count(a), -1);
}

TN__NN_SMALL static bool check_batch(const adaptive *a, tn_tensor *input,
                                     tn_tensor *target)
{
    char text[2][TN__NN_SHAPE_TEXT];
    int ndim = tn_tensor_ndim(target);
    const tn_given given[] = {{"input", input}, {"target", target}};
    bool fine =
        (ndim == 0 || ndim == 1) && tn_tensor_ndim(input) == ndim + 1 &&
        tn_tensor_dtype(target) == TN_I64 &&
        (!ndim || tn_tensor_size(input, 0) == tn_tensor_size(target, 0));
    if (!fine) {
        tn_error_refuse(TN_ERR_SHAPE, a->base.type->name, given, 2,
                        "input %s and target %s: expected (N, features) and "
                        "int64 (N), or (features) and ()",
                        tn__nn_shape_text(text[0], input),
                        tn__nn_shape_text(text[1], target));
        return false;
    }
    int64_t classes = a->cut.dim[cluster_count(a)];
    tn_tensor *outside =
        tn_logical_or(tn_lt_scalar(target, 0), tn_ge_scalar(target, classes));
    int64_t count = tn_item_int(tn_sum(outside));
    if (count > 0)
        tn_error_refuse(TN_ERR_ARGUMENT, a->base.type->name, &given[1], 1,
                        "%" PRId64 " targets are outside [0, %" PRId64 ")",
                        count, classes);
    return count == 0 && !tn_error();
}

/* Handles the targets in cluster i: writes their log-probabilities within the
 * cluster into *output, and the index of the cluster in the head's output into
 * *entry. */
TN__NN_SMALL static bool run_cluster(const adaptive *a, int i, tn_tensor *input,
                                     tn_tensor *target, tn_tensor **output,
                                     tn_tensor **entry)
{
    int64_t low = a->cut.dim[i], high = a->cut.dim[i + 1];
    tn_tensor *rows = NULL;
    tn_tensor *inside =
        tn_logical_and(tn_ge_scalar(target, low), tn_lt_scalar(target, high));
    if (tn_nonzero(inside, &rows, 1) < 0)
        return false;
    rows = tn_reshape(rows, tn_dims(-1));
    if (!rows || tn_tensor_numel(rows) == 0)
        return rows;
    tn_tensor *local = tn_sub_scalar(tn_index_select(target, 0, rows), low);
    tn_tensor *scores = tn_log_softmax(
        tn_forward(a->tail[i], tn_index_select(input, 0, rows)), 1);
    tn_tensor *found = tn_gather(scores, 1, tn_unsqueeze(local, 1));
    *output = tn_index_copy(*output, 0, rows, tn_squeeze(found, .dim = 1));
    *entry = tn_masked_fill_scalar(*entry, inside, a->cut.dim[0] + i);
    return *output && *entry;
}

TN__NN_SMALL static tn_tensor *run_adaptive(const adaptive *a, tn_tensor *input,
                                            tn_tensor *target,
                                            tn_tensor **out_loss)
{
    if (!check_batch(a, input, target))
        return NULL;
    bool single = tn_tensor_ndim(target) == 0;
    if (single) {
        input = tn_unsqueeze(input, 0);
        target = tn_unsqueeze(target, 0);
    }
    tn_tensor *output = tn_zeros(tn_dims(tn_tensor_size(target, 0)),
                                 .dtype = tn_tensor_dtype(input),
                                 .device = tn_tensor_device(input));
    tn_tensor *entry = target;
    for (int i = 0; i < cluster_count(a); i++)
        if (!run_cluster(a, i, input, target, &output, &entry))
            return NULL;
    tn_tensor *head = tn_log_softmax(tn_forward(a->head, input), 1);
    tn_tensor *chosen = tn_gather(head, 1, tn_unsqueeze(entry, 1));
    output = tn_add(output, tn_squeeze(chosen, .dim = 1));
    *out_loss = tn_neg(tn_mean(output));
    return single ? tn_squeeze(output, .dim = 0) : output;
}

static void adaptive_forward(tn_module *self, tn_tensor *const *in,
                             int in_count, tn_tensor **out, int out_count)
{
    (void)in_count;
    const adaptive *a = (const adaptive *)self;
    tn_tensor *loss = NULL;
    out[0] = in[1] ? run_adaptive(a, in[0], in[1], &loss)
                   : all_classes(a, in[0]);
    if (out_count > 1)
        out[1] = loss;
}

static const tn_module_class adaptive_class = {
    .size = sizeof adaptive_class,
    .name = "AdaptiveLogSoftmaxWithLoss",
    .bytes = sizeof(adaptive),
    .forward_list = adaptive_forward,
    .signature = "input, target? -> output, loss"};

TN__NN_SMALL tn_tensor *tn_nn_adaptive_log_softmax_forward(tn_module *module,
                                                           tn_tensor *input,
                                                           tn_tensor *target,
                                                           tn_tensor **out_loss)
{
    const char *what = "nn_adaptive_log_softmax_forward";
    tn_tensor *const in[] = {input, target};
    tn_tensor *out[2];
    if (!tn__nn_is_kind(module, &adaptive_class, NULL, what) ||
        !tn__nn_tensor(input, what, "input") ||
        !tn__nn_tensor(target, what, "target") ||
        tn_forward_list(module, in, 2, out, 2) < 0)
        return NULL;
    if (out_loss)
        *out_loss = out[1];
    return out[0];
}

TN__NN_SMALL static bool check_cutoffs(const char *layer, int64_t n_classes,
                                       const tn_dims_list *cut)
{
    bool fine = cut->count > 0 && cut->count < TN_MAX_NDIM;
    for (int i = 0; i < cut->count && fine; i++)
        fine =
            cut->dim[i] > (i ? cut->dim[i - 1] : 0) && cut->dim[i] < n_classes;
    if (!fine)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, layer, "cutoffs",
                                 "cutoffs: expected 1 to %d increasing numbers "
                                 "in [1, %" PRId64 "]",
                                 TN_MAX_NDIM - 1, n_classes - 1);
    return fine;
}

/* Makes the module list of the clusters, which gives them PyTorch's names. */
TN__NN_SMALL static tn_module *make_tail(adaptive *a, int64_t in_features,
                                         double div_value)
{
    tn_module *tail = tn_nn_module_list();
    double divisor = div_value;
    for (int i = 0; i < cluster_count(a) && tail; i++, divisor *= div_value) {
        char name[12];
        int64_t inner = (int64_t)floor((double)in_features / divisor);
        snprintf(name, sizeof name, "%d", i);
        a->tail[i] = tn_nn_sequential(
            tn_nn_linear(in_features, inner, .bias = false),
            tn_nn_linear(inner, a->cut.dim[i + 1] - a->cut.dim[i],
                         .bias = false));
        if (!tn_module_add(tail, name, a->tail[i]))
            return NULL;
    }
    return tail;
}

TN_OPTIONS_TYPE(tn_nn_adaptive_log_softmax_with_loss,
                "nn_adaptive_log_softmax_with_loss",
                "in_features, n_classes, cutoffs",
                TN_NN_ADAPTIVE_LOG_SOFTMAX_OPTIONS_LIST)

TN__NN_SMALL tn_module *tn_nn_adaptive_log_softmax_with_loss_with(
    int64_t in_features, int64_t n_classes, tn_dims_list cutoffs,
    const tn_nn_adaptive_log_softmax_with_loss_options *options)
{
    const tn_options_type *type = tn_nn_adaptive_log_softmax_with_loss_type();
    tn_nn_adaptive_log_softmax_with_loss_options o;
    if (tn_options_take(type, &o, options) < 0 ||
        !check_sizes(type->name, "in_features", in_features, "n_classes",
                     n_classes) ||
        !check_cutoffs(type->name, n_classes, &cutoffs))
        return NULL;
    /* The last cluster projects to the fewest features, at least 1. */
    double smallest = (double)in_features / pow(o.div_value, cutoffs.count);
    if (!(o.div_value >= 1) || smallest < 1) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, type->name, "div_value",
            "div_value is %g: expected at least 1, and at most %g for %d "
            "clusters of %" PRId64 " in_features",
            o.div_value, pow((double)in_features, 1.0 / cutoffs.count),
            (int)cutoffs.count, in_features);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    adaptive *a = tn_module_new(&adaptive_class);
    bool made = false;
    if (a) {
        a->cut = cutoffs;
        a->cut.dim[a->cut.count++] = n_classes;
        a->head = tn_module_add(&a->base, "head",
                                tn_nn_linear(in_features,
                                             cutoffs.dim[0] + cutoffs.count,
                                             .bias = o.head_bias));
        made = a->head && tn_module_add(&a->base, "tail",
                                        make_tail(a, in_features, o.div_value));
    }
    return tn_scope_result(scope, made ? &a->base : NULL);
}
