/* linear.c: linear layers, embeddings and norms with weights from a file. The
 * layers of <tenon/nn.h> are not used, because they would first allocate and
 * fill random weights. */
#include <lm/model/layers.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tenon/ops.h>
#include <tenon/relaxed.h>

const char *tn__lm_join(char *buffer, const char *path, const char *name)
{
    tn_format(buffer, TN__LM_PATH, "%s%s%s", path, *path && *name ? "." : "",
              name);
    return buffer;
}

/* Returns the child with a name, or NULL without an error. */
static tn_module *child_named(tn_module *module, const char *name)
{
    for (int i = 0; i < tn_module_child_count(module); i++)
        if (strcmp(tn_module_child_name(module, i), name) == 0)
            return tn_module_child_at(module, i);
    return NULL;
}

tn_module *tn__lm_add(tn_module *module, const char *path, tn_module *child)
{
    char name[TN__LM_PATH];
    const char *dot;
    while (module && (dot = strchr(path, '.'))) {
        tn_format(name, sizeof name, "%.*s", (int)(dot - path), path);
        tn_module *next = child_named(module, name);
        module = next ? next : tn_module_add(module, name, tn_nn_module_dict());
        path = dot + 1;
    }
    return tn_module_add(module, path, child);
}

tn_tensor *tn__lm_in_dtype(tn_tensor *x, tn_dtype dtype)
{
    return x && tn_tensor_dtype(x) == dtype ? x : tn_to_dtype(x, dtype);
}

/* ---- linear -------------------------------------------------------------- */

typedef struct linear {
    tn_module base;
    tn_tensor *weight, *bias; /* bias may be NULL */
    bool transposed, relaxed;
    char format[TN__LM_FORMAT]; /* format of a weight that is in blocks (a uint8
                                   buffer); else "" */
    int64_t in, out;
} linear;

/* On the CPU, a row of a product does not depend on the number of rows
 * (backends/cpu/prim/cpu_matmul.c). So the result for a token is bit-identical
 * in a batch and alone. */
static tn_tensor *linear_forward(tn_module *self, tn_tensor *x)
{
    const linear *l = (const linear *)self;
    if (*l->format)
        return tn_quantized_linear(x, l->weight, l->format, l->bias);
    TN_RELAXED_HERE(l->relaxed || tn_relaxed());
    if (!l->transposed)
        return tn_linear(x, l->weight, l->bias);
    x = tn_matmul(x, l->weight);
    return l->bias ? tn_add(x, l->bias) : x;
}

static void linear_describe(const tn_module *self, char *text, size_t room)
{
    const linear *l = (const linear *)self;
    snprintf(text, room,
             "in_features=%" PRId64 ", out_features=%" PRId64 ", bias=%s%s%s",
             l->in, l->out, l->bias ? "True" : "False",
             *l->format ? ", format=" : "", l->format);
}

static const tn_module_class linear_class = {.size = sizeof linear_class,
                                             .name = "Linear",
                                             .bytes = sizeof(linear),
                                             .forward = linear_forward,
                                             .describe = linear_describe};

tn_module *tn__lm_linear(tn__lm_maker *maker, const char *path, int64_t in,
                         int64_t out, bool bias, bool transposed)
{
    linear *l = tn_module_new(&linear_class);
    if (!l)
        return NULL;
    l->transposed = transposed;
    l->relaxed = maker->relaxed;
    l->in = in;
    l->out = out;
    tn_dims_list shape = transposed ? tn_dims(in, out) : tn_dims(out, in);
    tn_tensor *blocks =
        tn__lm_take_blocks(maker, path, "weight", out, in, l->format);
    if (tn_error())
        return NULL;
    l->weight =
        blocks ? tn_module_add_buffer(&l->base, "weight", blocks)
               : tn_module_add_parameter(
                     &l->base, "weight",
                     tn__lm_take(maker, path, "weight", shape, TN__LM_RANDOM));
    if (bias)
        l->bias = tn_module_add_parameter(
            &l->base, "bias",
            tn__lm_take(maker, path, "bias", tn_dims(out), TN__LM_ZEROS));
    return l->weight && (!bias || l->bias) ? &l->base : NULL;
}

/* ---- embedding ----------------------------------------------------------- */

typedef struct embedding {
    tn_module base;
    tn_tensor *weight;
    char format[TN__LM_FORMAT]; /* as in linear */
    int64_t rows, size;
} embedding;

/* Returns the rows `ids` of a weight in blocks, converted to float32. */
static tn_tensor *rows_of_blocks(const embedding *e, tn_tensor *ids)
{
    int ndim = tn_tensor_ndim(ids);
    if (!ids || ndim >= TN_MAX_NDIM)
        return NULL;
    tn_dims_list shape = tn_dims_from_array(tn_tensor_shape(ids), ndim);
    shape.dim[shape.count++] = e->size;
    tn_tensor *rows = tn_index_select(e->weight, 0, tn_flatten(ids));
    return tn_reshape(tn_dequantize_blocks(rows, e->format), shape);
}

static tn_tensor *embedding_forward(tn_module *self, tn_tensor *ids)
{
    const embedding *e = (const embedding *)self;
    return *e->format ? rows_of_blocks(e, ids) : tn_embedding(ids, e->weight);
}

static void embedding_describe(const tn_module *self, char *text, size_t room)
{
    const embedding *e = (const embedding *)self;
    snprintf(text, room, "%" PRId64 ", %" PRId64 "%s%s", e->rows, e->size,
             *e->format ? ", format=" : "", e->format);
}

static const tn_module_class embedding_class = {.size = sizeof embedding_class,
                                                .name = "Embedding",
                                                .bytes = sizeof(embedding),
                                                .forward = embedding_forward,
                                                .describe = embedding_describe};

tn_module *tn__lm_embedding(tn__lm_maker *maker, const char *path, int64_t rows,
                            int64_t size)
{
    embedding *e = tn_module_new(&embedding_class);
    if (!e)
        return NULL;
    e->rows = rows;
    e->size = size;
    tn_tensor *blocks =
        tn__lm_take_blocks(maker, path, "weight", rows, size, e->format);
    if (tn_error())
        return NULL;
    e->weight = blocks ? tn_module_add_buffer(&e->base, "weight", blocks)
                       : tn_module_add_parameter(
                             &e->base, "weight",
                             tn__lm_take(maker, path, "weight",
                                         tn_dims(rows, size), TN__LM_RANDOM));
    return e->weight ? &e->base : NULL;
}

tn_module *tn__lm_tied_linear(const tn__lm_maker *maker, tn_module *module)
{
    const embedding *e = (const embedding *)module;
    linear *l = tn_module_new(&linear_class);
    if (!l)
        return NULL;
    l->relaxed = maker->relaxed;
    l->in = e->size;
    l->out = e->rows;
    memcpy(l->format, e->format, sizeof l->format);
    l->weight = *e->format
                    ? tn_module_add_buffer(&l->base, "weight", e->weight)
                    : tn_module_add_parameter(&l->base, "weight", e->weight);
    return l->weight ? &l->base : NULL;
}

/* ---- norms --------------------------------------------------------------- */

typedef struct norm {
    tn_module base;
    tn_tensor *weight, *bias; /* bias is NULL in RMSNorm */
    int64_t size;
    double eps, offset;
} norm;

static tn_tensor *rms_forward(tn_module *self, tn_tensor *x)
{
    const norm *n = (const norm *)self;
    tn_tensor *weight =
        n->offset != 0 ? tn_add_scalar(n->weight, n->offset) : n->weight;
    return tn_rms_norm(x, tn_dims(n->size), weight, .eps = n->eps);
}

static tn_tensor *layer_forward(tn_module *self, tn_tensor *x)
{
    const norm *n = (const norm *)self;
    return tn_layer_norm(x, tn_dims(n->size), n->weight, n->bias,
                         .eps = n->eps);
}

static void norm_describe(const tn_module *self, char *text, size_t room)
{
    const norm *n = (const norm *)self;
    if (n->offset != 0)
        tn_format(text, room, "%" PRId64 ", eps=%g, offset=%g", n->size, n->eps,
                  n->offset);
    else
        tn_format(text, room, "%" PRId64 ", eps=%g", n->size, n->eps);
}

static const tn_module_class rms_class = {.size = sizeof rms_class,
                                          .name = "RMSNorm",
                                          .bytes = sizeof(norm),
                                          .forward = rms_forward,
                                          .describe = norm_describe};
static const tn_module_class layer_class = {.size = sizeof layer_class,
                                            .name = "LayerNorm",
                                            .bytes = sizeof(norm),
                                            .forward = layer_forward,
                                            .describe = norm_describe};

static tn_module *make_norm(tn__lm_maker *maker, const char *path, int64_t size,
                            bool layer, double offset, double eps)
{
    norm *n = tn_module_new(layer ? &layer_class : &rms_class);
    if (!n)
        return NULL;
    n->size = size;
    n->eps = eps;
    n->offset = offset;
    n->weight = tn_module_add_parameter(
        &n->base, "weight",
        tn__lm_take(maker, path, "weight", tn_dims(size),
                    offset == 0 ? TN__LM_ONES : TN__LM_ZEROS));
    if (layer)
        n->bias = tn_module_add_parameter(
            &n->base, "bias",
            tn__lm_take(maker, path, "bias", tn_dims(size), TN__LM_ZEROS));
    return n->weight && (!layer || n->bias) ? &n->base : NULL;
}

tn_module *tn__lm_norm_make(tn__lm_maker *maker, const char *path, int64_t size,
                            tn__lm_norm kind, double eps)
{
    return make_norm(maker, path, size, kind == TN__LM_LAYER,
                     kind == TN__LM_RMS_PLUS1 ? 1 : 0, eps);
}

TN_OPTIONS_TYPE(tn_lm_rms_norm, "lm_rms_norm", "size",
                TN_LM_RMS_NORM_OPTIONS_LIST)

tn_module *tn_lm_rms_norm_with(int64_t size,
                               const tn_lm_rms_norm_options *options)
{
    tn_lm_rms_norm_options o;
    if (tn_options_take(tn_lm_rms_norm_type(), &o, options) < 0)
        return NULL;
    if (size < 1 || !(o.eps >= 0)) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "lm_rms_norm", size < 1 ? "size" : "eps",
            "size is %" PRId64 " and eps %g; expected a size of at least 1 and "
            "an eps of at least 0", size, o.eps);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    return tn_scope_result(
        scope, make_norm(&(tn__lm_maker){0}, "", size, false, o.offset, o.eps));
}
