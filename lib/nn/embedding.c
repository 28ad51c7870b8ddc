/* embedding.c: tables of vectors, and a product of two inputs. */
#include "init.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

typedef struct embedding {
    tn_module base;
    tn_tensor *weight; /* (num_embeddings, embedding_dim) */
    bool has_padding_idx, sum;
    int64_t padding_idx;
} embedding;

static tn_tensor *forward(tn_module *self, tn_tensor *input)
{
    embedding *e = (embedding *)self;
    return e->has_padding_idx
               ? tn_embedding(input, e->weight,
                              .padding_idx = tn_dims(e->padding_idx))
               : tn_embedding(input, e->weight);
}

static void describe(const tn_module *self, char *text, size_t room)
{
    const embedding *e = (const embedding *)self;
    snprintf(text, room, "%" PRId64 ", %" PRId64,
             tn_tensor_size(e->weight, 0), tn_tensor_size(e->weight, 1));
    size_t at = strlen(text);
    if (e->has_padding_idx && at < room)
        snprintf(text + at, room - at, ", padding_idx=%" PRId64,
                 e->padding_idx);
}

static embedding *make(const tn_module_class *type, const char *name,
                       int64_t num_embeddings, int64_t embedding_dim)
{
    if (num_embeddings < 1 || embedding_dim < 1) {
        tn_error_set(TN_ERR_ARGUMENT,
                     "%s: num_embeddings %" PRId64 ", embedding_dim %" PRId64
                     ": positive numbers are wanted",
                     name, num_embeddings, embedding_dim);
        return NULL;
    }
    embedding *e = tn_module_new(type);
    if (e)
        e->weight = tn_module_add_parameter(
            e, "weight", tn_randn(tn_dims(num_embeddings, embedding_dim)));
    return e && e->weight ? e : NULL;
}

static bool set_padding(embedding *e, int64_t row)
{
    int64_t count = tn_tensor_size(e->weight, 0);
    e->has_padding_idx = true;
    e->padding_idx = row < 0 ? row + count : row;
    if (e->padding_idx < 0 || e->padding_idx >= count) {
        tn_error_set(TN_ERR_ARGUMENT,
                     "nn_embedding: padding_idx %" PRId64
                     " is outside [%" PRId64 ", %" PRId64 ")",
                     row, -count, count);
        return false;
    }
    tn_tensor *keep = tn_ne_scalar(tn_arange(0, count, 1), e->padding_idx);
    return tn__nn_set(e->weight,
                      tn_mul(tn_detach(e->weight), tn_unsqueeze(keep, 1)));
}

tn_module *tn_nn_embedding_with(int64_t num_embeddings, int64_t embedding_dim,
                                const tn_nn_embedding_options *options)
{
    static const tn_module_class type = {
        sizeof type, "Embedding", sizeof(embedding), forward, describe, NULL};
    tn_nn_embedding_options o = {.size = sizeof o};
    tn__nn_take_options(&o, sizeof o, options);
    tn_scope *scope = tn_scope_open();
    embedding *e =
        make(&type, "nn_embedding", num_embeddings, embedding_dim);
    if (e && o.has_padding_idx && !set_padding(e, o.padding_idx))
        e = NULL;
    return tn_scope_result(scope, e);
}

/* ---- bags ------------------------------------------------------------------------- */

static tn_tensor *bag_forward(tn_module *self, tn_tensor *input)
{
    embedding *e = (embedding *)self;
    if (tn_tensor_ndim(input) != 2) {
        tn_error_set(TN_ERR_SHAPE,
                     "EmbeddingBag: input has %d dimensions; (batch, length) "
                     "is wanted",
                     tn_tensor_ndim(input));
        return NULL;
    }
    tn_tensor *x = tn_embedding(input, e->weight);
    return e->sum ? tn_sum(x, .dim = tn_dims(1))
                  : tn_mean(x, .dim = tn_dims(1));
}

tn_module *tn_nn_embedding_bag(int64_t num_embeddings, int64_t embedding_dim,
                               const char *mode)
{
    static const tn_module_class type = {
        sizeof type, "EmbeddingBag", sizeof(embedding), bag_forward, describe,
        NULL};
    if (mode && strcmp(mode, "mean") != 0 && strcmp(mode, "sum") != 0) {
        tn_error_set(TN_ERR_ARGUMENT,
                     "nn_embedding_bag: mode \"%s\" is neither \"mean\" nor "
                     "\"sum\"",
                     mode);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    embedding *e =
        make(&type, "nn_embedding_bag", num_embeddings, embedding_dim);
    if (e)
        e->sum = mode && strcmp(mode, "sum") == 0;
    return tn_scope_result(scope, e);
}

/* ---- two inputs --------------------------------------------------------------------- */

typedef struct bilinear {
    tn_module base;
    tn_tensor *weight, *bias; /* (out, in1, in2); (out) or NULL */
} bilinear;

static tn_tensor *bilinear_forward(tn_module *self, tn_tensor *input)
{
    bilinear *b = (bilinear *)self;
    return tn_bilinear(input, input, b->weight, b->bias);
}

static const tn_module_class bilinear_class = {
    sizeof bilinear_class, "Bilinear", sizeof(bilinear), bilinear_forward,
    NULL, NULL};

tn_tensor *tn_nn_bilinear_forward(void *module, tn_tensor *input1,
                                  tn_tensor *input2)
{
    if (!module || !input1 || !input2)
        return NULL;
    bilinear *b = module;
    if (b->base.type != &bilinear_class) {
        tn_error_set(TN_ERR_ARGUMENT, "nn_bilinear_forward: the module is a %s",
                     b->base.type->name);
        return NULL;
    }
    tn_tensor *in[] = {input1, input2};
    tn_module_call at = tn_module_begin(module, in, 2);
    tn_tensor *y = tn_bilinear(in[0], in[1], b->weight, b->bias);
    tn_module_end(module, &at, &y, 1);
    return y;
}

tn_module *tn_nn_bilinear(int64_t in1_features, int64_t in2_features,
                          int64_t out_features, bool bias)
{
    if (in1_features < 1 || in2_features < 1 || out_features < 1) {
        tn_error_set(TN_ERR_ARGUMENT,
                     "nn_bilinear: in1_features %" PRId64 ", in2_features "
                     "%" PRId64 ", out_features %" PRId64
                     ": positive numbers are wanted",
                     in1_features, in2_features, out_features);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    bilinear *b = tn_module_new(&bilinear_class);
    if (b) {
        b->weight = tn_module_add_parameter(
            b, "weight",
            tn__nn_init_fan_in(
                tn_dims(out_features, in1_features, in2_features),
                in1_features));
        if (bias)
            b->bias = tn_module_add_parameter(
                b, "bias",
                tn__nn_init_fan_in(tn_dims(out_features), in1_features));
    }
    bool made = b && b->weight && (b->bias || !bias);
    return tn_scope_result(scope, made ? &b->base : NULL);
}
