/* embedding.c: lookup tables of vectors, and bilinear forms of two inputs. */
#include <nn/init.h>
#include <nn/tree.h>

#include <inttypes.h>
#include <math.h>
#include <math.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

/* An Embedding or an EmbeddingBag. */
typedef struct embedding {
    tn_module base;
    tn_tensor *weight; /* (num_embeddings, embedding_dim) */
    const char *mode;  /* NULL for an Embedding */
    int64_t padding_idx; /* row without gradient, or TN_NONE_INT */
    double max_norm;     /* limit of the norm of used rows, or TN_NONE_FLOAT */
    double norm_type;
    bool include_last_offset, scale_grad_by_freq;
} embedding;

static tn_tensor *forward(tn_module *self, tn_tensor *input)
{
    embedding *e = (embedding *)self;
    return tn_is_none_float(e->max_norm)
               ? tn_embedding(input, e->weight, .padding_idx = e->padding_idx,
                              .scale_grad_by_freq = e->scale_grad_by_freq)
               : tn_embedding_renorm(
                     input, e->weight, .padding_idx = e->padding_idx,
                     .max_norm = e->max_norm, .norm_type = e->norm_type,
                     .scale_grad_by_freq = e->scale_grad_by_freq);
}

/* Appends ", name=number" to text. */
static void append(char *text, size_t room, const char *name, double number)
{
    size_t at = strlen(text);
    tn_format(text + at, room - at, number == floor(number) ? ", %s=%.1f"
                                                            : ", %s=%g",
              name, number);
}

static void describe(const tn_module *self, char *text, size_t room)
{
    const embedding *e = (const embedding *)self;
    char padding[48] = "", mode[24] = "";
    bool norm = !tn_is_none_float(e->max_norm);
    if (e->padding_idx != TN_NONE_INT)
        snprintf(padding, sizeof padding, ", padding_idx=%" PRId64,
                 e->padding_idx);
    if (e->mode)
        snprintf(mode, sizeof mode, ", mode='%s'", e->mode);
    snprintf(text, room, "%" PRId64 ", %" PRId64 "%s",
             tn_tensor_size(e->weight, 0), tn_tensor_size(e->weight, 1),
             e->mode ? "" : padding);
    if (norm)
        append(text, room, "max_norm", e->max_norm);
    if (norm && e->norm_type != 2)
        append(text, room, "norm_type", e->norm_type);
    size_t at = strlen(text);
    snprintf(text + at, room - at, "%s%s%s",
             e->scale_grad_by_freq ? ", scale_grad_by_freq=True" : "", mode,
             e->mode ? padding : "");
}

/* Returns a (num_embeddings, embedding_dim) tensor of standard normal
 * numbers. */
static tn_tensor *make_weight(const char *name, int64_t num_embeddings,
                              int64_t embedding_dim)
{
    if (num_embeddings >= 1 && embedding_dim >= 1)
        return tn__nn_init_normal(
            tn_dims(num_embeddings, embedding_dim));
    tn_error_refuse_argument(
        TN_ERR_ARGUMENT, name,
        num_embeddings < 1 ? "num_embeddings" : "embedding_dim",
        "num_embeddings %" PRId64 ", embedding_dim %" PRId64
        ": expected positive numbers",
        num_embeddings, embedding_dim);
    return NULL;
}

/* Sets row *row of weight to zeros. A negative *row counts from the end and is
 * replaced by the row's index. Does nothing if *row is TN_NONE_INT. Returns
 * weight. */
static tn_tensor *zero_row(const char *name, tn_tensor *weight, int64_t *row)
{
    if (*row == TN_NONE_INT || !weight)
        return weight;
    int64_t count = tn_tensor_size(weight, 0);
    if (*row < -count || *row >= count) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, name, "padding_idx",
                                 "padding_idx %" PRId64 " is outside [%" PRId64
                                 ", %" PRId64 ")",
                                 *row, -count, count);
        return NULL;
    }
    *row += *row < 0 ? count : 0;
    tn_tensor *is_padding = tn_eq_scalar(tn_arange(0, count, 1), *row);
    return tn_masked_fill_scalar(weight, tn_unsqueeze(is_padding, 1), 0);
}

TN_OPTIONS_TYPE(tn_nn_embedding, "nn_embedding",
                "num_embeddings, embedding_dim", TN_NN_EMBEDDING_OPTIONS_LIST)

tn_module *tn_nn_embedding_with(int64_t num_embeddings, int64_t embedding_dim,
                                const tn_nn_embedding_options *options)
{
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "Embedding",
                                         .bytes = sizeof(embedding),
                                         .forward = forward,
                                         .describe = describe};
    tn_nn_embedding_options o;
    if (tn_options_take(tn_nn_embedding_type(), &o, options) < 0)
        return NULL;
    const tn_option_need need = {"norm_type", !tn_is_none_float(o.max_norm),
                                 "without max_norm", "give max_norm"};
    if (tn_options_check_needs(tn_nn_embedding_type(), &o, &need, 1) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *weight =
        zero_row("nn_embedding",
                 make_weight("nn_embedding", num_embeddings, embedding_dim),
                 &o.padding_idx);
    embedding *e = weight ? tn_module_new(&type) : NULL;
    if (e) {
        e->padding_idx = o.padding_idx;
        e->max_norm = o.max_norm;
        e->norm_type = o.norm_type;
        e->scale_grad_by_freq = o.scale_grad_by_freq;
        e->weight = tn_module_add_parameter(&e->base, "weight", weight);
    }
    return tn_scope_result(scope, e && e->weight ? &e->base : NULL);
}

/* ---- bags --------------------------------------------------------------- */

static void bag_forward(tn_module *self, tn_tensor *const *in, int in_count,
                        tn_tensor **out, int out_count)
{
    (void)in_count, (void)out_count;
    const embedding *e = (embedding *)self;
    tn_dtype dtype = tn_tensor_dtype(in[0]);
    if (dtype != TN_I64 && dtype != TN_I32) {
        tn_error_refuse(TN_ERR_DTYPE, "embedding_bag",
                        &(tn_given){"input", in[0]}, 1,
                        "input is %s: convert it to int64 with tn_to_dtype",
                        tn_dtype_name(dtype));
        return;
    }
    if (!tn__nn_check_dtype(in[2], "per_sample_weights", e->weight,
                            "embedding_bag"))
        return;
    out[0] = tn_embedding_bag(
        in[0], e->weight, in[1], .max_norm = e->max_norm,
        .norm_type = e->norm_type, .scale_grad_by_freq = e->scale_grad_by_freq,
        .mode = e->mode, .per_sample_weights = in[2],
        .include_last_offset = e->include_last_offset && in[1],
        .padding_idx = e->padding_idx);
}

static const tn_module_class bag_class = {
    .size = sizeof bag_class,
    .name = "EmbeddingBag",
    .bytes = sizeof(embedding),
    .forward_list = bag_forward,
    .signature = "input, offsets?, per_sample_weights? -> output",
    .describe = describe};

tn_tensor *tn_nn_embedding_bag_forward(tn_module *module, tn_tensor *input,
                                       tn_tensor *offsets,
                                       tn_tensor *per_sample_weights)
{
    const char *what = "nn_embedding_bag_forward";
    if (!tn__nn_is_kind(module, &bag_class, NULL, what) ||
        !tn__nn_tensor(input, what, "input") ||
        !tn__nn_tensor_or_null(offsets, what, "offsets") ||
        !tn__nn_tensor_or_null(per_sample_weights, what, "per_sample_weights"))
        return NULL;
    return tn_forward(module, input, offsets, per_sample_weights);
}

/* Returns the string constant that equals name, because the caller's string may
 * be freed. Returns NULL with an error for an unknown name. */
static const char *find_mode(const char *name)
{
    static const char *const modes[] = {"mean", "sum", "max"};
    for (int i = 0; i < 3; i++)
        if (strcmp(modes[i], name) == 0)
            return modes[i];
    tn_error_refuse_argument(
        TN_ERR_ARGUMENT, "nn_embedding_bag", "mode",
        "mode \"%s\" is neither \"mean\" nor \"sum\" nor \"max\"", name);
    return NULL;
}

TN_OPTIONS_TYPE(tn_nn_embedding_bag, "nn_embedding_bag",
                "num_embeddings, embedding_dim",
                TN_NN_EMBEDDING_BAG_OPTIONS_LIST)

tn_module *tn_nn_embedding_bag_with(int64_t num_embeddings,
                                    int64_t embedding_dim,
                                    const tn_nn_embedding_bag_options *options)
{
    tn_nn_embedding_bag_options o;
    if (tn_options_take(tn_nn_embedding_bag_type(), &o, options) < 0)
        return NULL;
    const char *mode = find_mode(o.mode);
    if (!mode)
        return NULL;
    const tn_option_need need[] = {
        {"scale_grad_by_freq", strcmp(mode, "max") != 0,
         "unless mode is sum or mean", "change mode"},
        {"norm_type", !tn_is_none_float(o.max_norm), "without max_norm",
         "give max_norm"}};
    if (tn_options_check_needs(tn_nn_embedding_bag_type(), &o, need, 2) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *weight =
        zero_row("nn_embedding_bag",
                 make_weight("nn_embedding_bag", num_embeddings, embedding_dim),
                 &o.padding_idx);
    embedding *e = weight ? tn_module_new(&bag_class) : NULL;
    if (e) {
        e->weight = tn_module_add_parameter(&e->base, "weight", weight);
        e->mode = mode;
        e->padding_idx = o.padding_idx;
        e->max_norm = o.max_norm;
        e->norm_type = o.norm_type;
        e->include_last_offset = o.include_last_offset;
        e->scale_grad_by_freq = o.scale_grad_by_freq;
    }
    return tn_scope_result(scope, e && e->weight ? &e->base : NULL);
}

/* ---- two inputs --------------------------------------------------------- */

typedef struct bilinear {
    tn_module base;
    tn_tensor *weight, *bias; /* weight (out, in1, in2); bias (out) or NULL */
} bilinear;

static void bilinear_forward(tn_module *self, tn_tensor *const *in,
                             int in_count, tn_tensor **out, int out_count)
{
    (void)in_count, (void)out_count;
    bilinear *b = (bilinear *)self;
    if (tn__nn_check_dtype(in[0], "input1", b->weight, "bilinear") &&
        tn__nn_check_dtype(in[1], "input2", b->weight, "bilinear"))
        out[0] = tn_bilinear(in[0], in[1] ? in[1] : in[0], b->weight, b->bias);
}

static const tn_module_class bilinear_class = {.size = sizeof bilinear_class,
                                               .name = "Bilinear",
                                               .bytes = sizeof(bilinear),
                                               .forward_list = bilinear_forward,
                                               .signature =
                                                   "input1, input2? -> output"};

tn_tensor *tn_nn_bilinear_forward(tn_module *module, tn_tensor *input1,
                                  tn_tensor *input2)
{
    const char *what = "nn_bilinear_forward";
    if (!tn__nn_is_kind(module, &bilinear_class, NULL, what) ||
        !tn__nn_tensor(input1, what, "input1") ||
        !tn__nn_tensor(input2, what, "input2"))
        return NULL;
    return tn_forward(module, input1, input2);
}

tn_module *tn_nn_bilinear(int64_t in1_features, int64_t in2_features,
                          int64_t out_features, bool bias)
{
    if (in1_features < 1 || in2_features < 1 || out_features < 1) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "nn_bilinear",
            in1_features < 1   ? "in1_features"
            : in2_features < 1 ? "in2_features"
                               : "out_features",
            "in1_features %" PRId64 ", in2_features %" PRId64
            ", out_features %" PRId64 ": expected positive numbers",
            in1_features, in2_features, out_features);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    bilinear *b = tn_module_new(&bilinear_class);
    if (b) {
        b->weight = tn_module_add_parameter(
            &b->base, "weight",
            tn__nn_init_fan_in(
                tn_dims(out_features, in1_features, in2_features),
                in1_features));
        if (bias)
            b->bias = tn_module_add_parameter(
                &b->base, "bias",
                tn__nn_init_fan_in(tn_dims(out_features), in1_features));
    }
    bool made = b && b->weight && (b->bias || !bias);
    return tn_scope_result(scope, made ? &b->base : NULL);
}
