/* transformer.c: encoder and decoder layers, stacks of them, and whole
 * transformers. */
#include <nn/init.h>
#include <nn/tree.h>

#include <inttypes.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

/* An encoder layer or a decoder layer. Only a decoder layer has cross
 * (attention to memory) and norm[2]. */
typedef struct block {
    tn_module base;
    tn_module *self_attn, *cross, *linear1, *linear2, *norm[3];
    double dropout;
    bool norm_first, gelu;
} block;

/* An encoder or a decoder. */
typedef struct stack {
    tn_module base;
    tn_module *norm; /* final norm, or NULL */
    int count;
    tn_module *layer[];
} stack;

typedef struct transformer {
    tn_module base;
    tn_module *encoder, *decoder;
} transformer;

static const tn_module_class encoder_layer_class, decoder_layer_class;
static const tn_module_class encoder_class, decoder_class, transformer_class;
static const tn_nn_attention_masks no_masks = TN_NN_ATTENTION_MASKS;

/* ---- one layer ---------------------------------------------------------- */

static tn_tensor *drop(const block *b, tn_tensor *x)
{
    return b->base.training && b->dropout > 0 ? tn_dropout(x, b->dropout, true)
                                              : x;
}

static tn_tensor *feed_forward(const block *b, tn_tensor *x)
{
    if (tn__nn_linear_can_activate(b->linear1, x)) {
        x = tn__nn_linear_activate(b->linear1, x, b->gelu ? "gelu" : "relu");
    } else {
        x = tn_forward(b->linear1, x);
        x = b->gelu ? tn_gelu(x) : tn_relu(x);
    }
    x = drop(b, x);
    return drop(b, tn_forward(b->linear2, x));
}

/* The sublayers of a layer, in order: self-attention, attention to memory, and
 * the feed-forward network. */
enum part { SELF, CROSS, FEED };

static tn_tensor *run_part(const block *b, enum part part, tn_tensor *x,
                           tn_tensor *memory,
                           const tn_nn_attention_masks *masks,
                           const tn_nn_attention_masks *memory_masks)
{
    if (part == FEED)
        return feed_forward(b, x);
    if (part == SELF)
        return drop(b, tn_nn_multihead_attention_forward_with(
                           b->self_attn, x, x, x, NULL, masks));
    return drop(b, tn_nn_multihead_attention_forward_with(
                       b->cross, x, memory, memory, NULL, memory_masks));
}

static tn_tensor *run_block(const block *b, tn_tensor *x, tn_tensor *memory,
                            const tn_nn_attention_masks *masks,
                            const tn_nn_attention_masks *memory_masks)
{
    int norm = 0;
    for (enum part part = SELF; part <= FEED; part++) {
        if (part == CROSS && !b->cross)
            continue;
        tn_module *norm_of_part = b->norm[norm++];
        tn_tensor *in = b->norm_first ? tn_forward(norm_of_part, x) : x;
        tn_tensor *y = run_part(b, part, in, memory, masks, memory_masks);
        x = tn_add(x, y);
        if (!b->norm_first)
            x = tn_forward(norm_of_part, x);
    }
    return x;
}

static void forward(tn_module *self, tn_tensor *const *in, int in_count,
                    tn_tensor **out, int out_count);

#define ENCODER_SIGNATURE "src, src_mask?, src_key_padding_mask? -> output"
#define DECODER_SIGNATURE                                                      \
    "tgt, memory?, tgt_mask?, memory_mask?, tgt_key_padding_mask?, "           \
    "memory_key_padding_mask? -> output"
static const tn_module_class encoder_layer_class = {
    .size = sizeof encoder_layer_class,
    .name = "TransformerEncoderLayer",
    .bytes = sizeof(block),
    .forward_list = forward,
    .signature = ENCODER_SIGNATURE};
static const tn_module_class decoder_layer_class = {
    .size = sizeof decoder_layer_class,
    .name = "TransformerDecoderLayer",
    .bytes = sizeof(block),
    .forward_list = forward,
    .signature = DECODER_SIGNATURE};

/* ---- options ------------------------------------------------------------ */

/* The options that all of these modules share. */
TN_OPTIONS_STRUCT(layers, TN_NN_TRANSFORMER_LAYERS_OPTIONS_LIST);

static bool take_options(layers_options *o, const tn_options_type *type,
                         const void *options)
{
    const char *name = type->name;
    if (tn_options_take(type, o, options) < 0 ||
        !tn__nn_check_probability(o->dropout, name, "dropout") ||
        !tn__nn_check_eps(o->layer_norm_eps, name, "layer_norm_eps"))
        return false;
    if (o->dim_feedforward < 1) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, name, "dim_feedforward",
                                 "dim_feedforward is %" PRId64
                                 "; expected at least 1",
                                 o->dim_feedforward);
        return false;
    }
    if (strcmp(o->activation, "relu") == 0 ||
        strcmp(o->activation, "gelu") == 0)
        return true;
    tn_error_refuse_argument(
        TN_ERR_ARGUMENT, name, "activation",
        "activation \"%s\" is neither \"relu\" nor \"gelu\"", o->activation);
    return false;
}

#define LAYERS(name, arguments)                                               \
    TN_OPTIONS_TYPE(tn_nn_transformer_##name, "nn_transformer_" #name,        \
                    arguments, TN_NN_TRANSFORMER_LAYERS_OPTIONS_LIST)

static tn_module *make_block(const tn_module_class *type, int64_t d_model,
                             int64_t nhead, bool cross,
                             const layers_options *o)
{
    static const char *const name[] = {"norm1", "norm2", "norm3"};
    tn_scope *scope = tn_scope_open();
    block *b = tn_module_new(type);
    bool made = b != NULL;
    for (int i = 0; i < 1 + cross && made; i++) {
        tn_module *attention = tn_nn_multihead_attention(
            d_model, nhead, .dropout = o->dropout,
            .batch_first = o->batch_first, .bias = o->bias);
        if (i == 0)
            b->self_attn = attention;
        else
            b->cross = attention;
        made = tn_module_add(&b->base, i ? "multihead_attn" : "self_attn",
                             attention) != NULL;
    }
    if (made) {
        b->linear1 = tn_module_add(&b->base, "linear1",
                                   tn_nn_linear(d_model, o->dim_feedforward,
                                                .bias = o->bias));
        b->linear2 = tn_module_add(&b->base, "linear2",
                                   tn_nn_linear(o->dim_feedforward, d_model,
                                                .bias = o->bias));
        b->dropout = o->dropout;
        b->norm_first = o->norm_first;
        b->gelu = strcmp(o->activation, "gelu") == 0;
        made = b->linear1 && b->linear2;
    }
    for (int i = 0; i < 2 + cross && made; i++) {
        b->norm[i] = tn_module_add(&b->base, name[i],
                                   tn_nn_layer_norm(tn_dims(d_model),
                                                    .eps = o->layer_norm_eps,
                                                    .bias = o->bias));
        made = b->norm[i] != NULL;
    }
    return tn_scope_result(scope, made ? &b->base : NULL);
}

LAYERS(encoder_layer, "d_model, nhead")

tn_module *tn_nn_transformer_encoder_layer_with(
    int64_t d_model, int64_t nhead,
    const tn_nn_transformer_encoder_layer_options *options)
{
    const tn_options_type *type = tn_nn_transformer_encoder_layer_type();
    layers_options o;
    if (!take_options(&o, type, options) ||
        tn_options_check_needs(
            type, &o,
            &(tn_option_need){"final_norm", false, "in a single layer",
                              "make an nn_transformer_encoder"},
            1) < 0)
        return NULL;
    return make_block(&encoder_layer_class, d_model, nhead, false, &o);
}

LAYERS(decoder_layer, "d_model, nhead")

tn_module *tn_nn_transformer_decoder_layer_with(
    int64_t d_model, int64_t nhead,
    const tn_nn_transformer_decoder_layer_options *options)
{
    const tn_options_type *type = tn_nn_transformer_decoder_layer_type();
    layers_options o;
    if (!take_options(&o, type, options) ||
        tn_options_check_needs(
            type, &o,
            &(tn_option_need){"final_norm", false, "in a single layer",
                              "make an nn_transformer_decoder"},
            1) < 0)
        return NULL;
    return make_block(&decoder_layer_class, d_model, nhead, true, &o);
}

/* ---- stacks ------------------------------------------------------------- */

static tn_tensor *run_stack(const stack *s, tn_tensor *x, tn_tensor *memory,
                            const tn_nn_attention_masks *masks,
                            const tn_nn_attention_masks *memory_masks);

static tn_nn_attention_masks masks_of(tn_tensor *attn_mask,
                                      tn_tensor *key_padding_mask,
                                      bool is_causal)
{
    tn_nn_attention_masks m = no_masks;
    m.attn_mask = attn_mask;
    m.key_padding_mask = key_padding_mask;
    m.is_causal = is_causal;
    return m;
}

/* Runs a layer or a stack. in[] are the inputs in the order of its
 * signature. */
static tn_tensor *run(const tn_module *module, tn_tensor *const *in,
                      bool is_causal, bool memory_is_causal)
{
    const tn_module_class *type = module->type;
    bool decodes = type == &decoder_layer_class || type == &decoder_class;
    tn_tensor *memory = decodes && in[1] ? in[1] : in[0];
    const tn_nn_attention_masks m = decodes ? masks_of(in[2], in[4], is_causal)
                                            : masks_of(in[1], in[2], is_causal),
                                of_memory = decodes ? masks_of(in[3], in[5],
                                                               memory_is_causal)
                                                    : no_masks;
    return type == &encoder_layer_class || type == &decoder_layer_class
               ? run_block((const block *)module, in[0], memory, &m, &of_memory)
               : run_stack((const stack *)module, in[0], memory, &m,
                           &of_memory);
}

static void forward(tn_module *self, tn_tensor *const *in, int in_count,
                    tn_tensor **out, int out_count)
{
    (void)in_count, (void)out_count;
    out[0] = run(self, in, false, false);
}

/* Calls a layer or a stack with hooks and module path, as tn_forward does. */
static tn_tensor *call(tn_module *module, tn_tensor *x, tn_tensor *memory,
                       const tn_nn_attention_masks *m,
                       const tn_nn_attention_masks *of_memory)
{
    bool decodes = module->tree->inputs == 6;
    tn_tensor *encoded[] = {x, m->attn_mask, m->key_padding_mask}, *y = NULL;
    tn_tensor *decoded[] = {x,
                            memory,
                            m->attn_mask,
                            of_memory->attn_mask,
                            m->key_padding_mask,
                            of_memory->key_padding_mask};
    tn_tensor **in = decodes ? decoded : encoded;
    tn_module_call at = tn_module_begin(module, in, module->tree->inputs);
    if (!tn_error()) /* a mask that is NULL due to an error is not an omitted
                        one */
        y = run(at.self, in, m->is_causal, of_memory->is_causal);
    tn_module_end(module, &at, &y, 1);
    return y;
}

static tn_tensor *run_stack(const stack *s, tn_tensor *x, tn_tensor *memory,
                            const tn_nn_attention_masks *masks,
                            const tn_nn_attention_masks *memory_masks)
{
    for (int i = 0; i < s->count && x; i++)
        x = call(s->layer[i], x, memory, masks, memory_masks);
    return s->norm ? tn_forward(s->norm, x) : x;
}

static const tn_module_class encoder_class = {.size = sizeof encoder_class,
                                              .name = "TransformerEncoder",
                                              .bytes = sizeof(stack),
                                              .forward_list = forward,
                                              .signature = ENCODER_SIGNATURE};
static const tn_module_class decoder_class = {.size = sizeof decoder_class,
                                              .name = "TransformerDecoder",
                                              .bytes = sizeof(stack),
                                              .forward_list = forward,
                                              .signature = DECODER_SIGNATURE};

static tn_module *make_stack(const tn_module_class *type, int64_t d_model,
                             int64_t nhead, int count, bool decoder,
                             const layers_options *o)
{
    if (count < 1) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, type->name, "num_layers",
                                 "num_layers is %d; expected at least 1",
                                 count);
        return NULL;
    }
    if (!tn__nn_check_layers(type->name, count))
        return NULL;
    tn_scope *scope = tn_scope_open();
    stack *s = tn_module_new_with(type, (size_t)count * sizeof(tn_module *));
    tn_module *list =
        tn_module_add(&s->base, "layers", tn_nn_module_list_with(NULL, 0));
    bool made = list != NULL;
    for (int i = 0; i < count && made; i++) {
        s->layer[i] = make_block(decoder ? &decoder_layer_class
                                         : &encoder_layer_class,
                                 d_model, nhead, decoder, o);
        made = tn_module_append(list, s->layer[i]) != NULL;
        s->count++;
    }
    if (made && o->final_norm) {
        s->norm = tn_module_add(&s->base, "norm",
                                tn_nn_layer_norm(tn_dims(d_model),
                                                 .eps = o->layer_norm_eps,
                                                 .bias = o->bias));
        made = s->norm != NULL;
    }
    return tn_scope_result(scope, made ? &s->base : NULL);
}

LAYERS(encoder, "d_model, nhead, num_layers")

tn_module *tn_nn_transformer_encoder_with(
    int64_t d_model, int64_t nhead, int num_layers,
    const tn_nn_transformer_encoder_options *options)
{
    layers_options o;
    return take_options(&o, tn_nn_transformer_encoder_type(), options)
               ? make_stack(&encoder_class, d_model, nhead, num_layers, false,
                            &o)
               : NULL;
}

LAYERS(decoder, "d_model, nhead, num_layers")

tn_module *tn_nn_transformer_decoder_with(
    int64_t d_model, int64_t nhead, int num_layers,
    const tn_nn_transformer_decoder_options *options)
{
    layers_options o;
    return take_options(&o, tn_nn_transformer_decoder_type(), options)
               ? make_stack(&decoder_class, d_model, nhead, num_layers, true,
                            &o)
               : NULL;
}

/* ---- whole transformers ------------------------------------------------- */

/* Runs encoder and decoder. in[] are the inputs in the order of the
 * signature. */
static tn_tensor *run_both(const transformer *t, tn_tensor *const *in,
                           bool src_causal, bool tgt_causal, bool memory_causal)
{
    const tn_nn_attention_masks of_src = masks_of(in[2], in[5], src_causal),
                                of_tgt = masks_of(in[3], in[6], tgt_causal),
                                of_memory =
                                    masks_of(in[4], in[7], memory_causal);
    tn_tensor *memory = call(t->encoder, in[0], NULL, &of_src, &no_masks);
    return memory ? call(t->decoder, in[1] ? in[1] : in[0], memory, &of_tgt,
                         &of_memory)
                  : NULL;
}

static void transformer_forward(tn_module *self, tn_tensor *const *in,
                                int in_count, tn_tensor **out, int out_count)
{
    (void)in_count, (void)out_count;
    out[0] = run_both((transformer *)self, in, false, false, false);
}

static const tn_module_class transformer_class = {
    .size = sizeof transformer_class,
    .name = "Transformer",
    .bytes = sizeof(transformer),
    .forward_list = transformer_forward,
    .signature = "src, tgt?, src_mask?, tgt_mask?, memory_mask?, "
                 "src_key_padding_mask?, tgt_key_padding_mask?, "
                 "memory_key_padding_mask? -> output"};

/* Initialises all matrices again (xavier_uniform), as PyTorch does after it has
 * made all layers. */
static bool init_matrices(tn_module *module)
{
    tn_parameter_list *list = tn_parameters(module);
    bool fine = list != NULL;
    for (int i = 0; i < tn_parameters_count(list) && fine; i++) {
        tn_tensor *x = tn_parameters_at(list, i);
        if (tn_tensor_ndim(x) == 2)
            fine = tn__nn_set(x, tn__nn_init_xavier(tn_tensor_size(x, 0),
                                                    tn_tensor_size(x, 1)));
    }
    return fine;
}

TN_OPTIONS_TYPE(tn_nn_transformer, "nn_transformer",
                "d_model, nhead, num_encoder_layers, num_decoder_layers",
                TN_NN_TRANSFORMER_OPTIONS_LIST)

tn_module *tn_nn_transformer_with(int64_t d_model, int64_t nhead,
                                  int num_encoder_layers,
                                  int num_decoder_layers,
                                  const tn_nn_transformer_options *options)
{
    layers_options o;
    if (!take_options(&o, tn_nn_transformer_type(), options))
        return NULL;
    tn_scope *scope = tn_scope_open();
    transformer *t = tn_module_new(&transformer_class);
    bool made = false;
    if (t) {
        t->encoder = tn_module_add(&t->base, "encoder",
                                   make_stack(&encoder_class, d_model, nhead,
                                              num_encoder_layers, false, &o));
        t->decoder = tn_module_add(&t->base, "decoder",
                                   make_stack(&decoder_class, d_model, nhead,
                                              num_decoder_layers, true, &o));
        made = t->encoder && t->decoder && init_matrices(&t->base);
    }
    return tn_scope_result(scope, made ? &t->base : NULL);
}

/* ---- forward with masks ------------------------------------------------- */

/* Option structs of the calls below. */
typedef tn_nn_attention_masks tn_nn_transformer_decoder_forward_options;
typedef tn_nn_attention_masks tn_nn_transformer_forward_options;
#define MASKS(name, arguments)                                                \
    TN_OPTIONS_TYPE(tn_##name, #name, arguments, TN_NN_ATTENTION_MASKS_LIST)
MASKS(nn_transformer_encoder_forward, "encoder, src")
MASKS(nn_transformer_decoder_forward, "decoder, tgt, memory")
MASKS(nn_transformer_forward, "transformer, src, tgt")

tn_tensor *tn_nn_transformer_encoder_forward_with(
    tn_module *encoder, tn_tensor *src, const tn_nn_attention_masks *masks)
{
    const tn_options_type *type = tn_nn_transformer_encoder_forward_type();
    tn_nn_attention_masks m;
    if (tn_options_take(type, &m, masks) < 0 ||
        !tn__nn_is_kind(encoder, &encoder_layer_class, &encoder_class,
                        type->name) ||
        !tn__nn_tensor(src, type->name, "src") ||
        !tn__nn_check_masks(masks, type->name, "masks"))
        return NULL;
    return call(encoder, src, src, &m, &no_masks);
}

tn_tensor *tn_nn_transformer_decoder_forward_with(
    tn_module *decoder, tn_tensor *tgt, tn_tensor *memory,
    const tn_nn_attention_masks *masks,
    const tn_nn_attention_masks *memory_masks)
{
    const tn_options_type *type = tn_nn_transformer_decoder_forward_type();
    tn_nn_attention_masks m, of_memory;
    if (tn_options_take(type, &m, masks) < 0 ||
        tn_options_take(type, &of_memory, memory_masks) < 0 ||
        !tn__nn_is_kind(decoder, &decoder_layer_class, &decoder_class,
                        type->name) ||
        !tn__nn_tensor(tgt, type->name, "tgt") ||
        !tn__nn_tensor(memory, type->name, "memory") ||
        !tn__nn_check_masks(masks, type->name, "masks") ||
        !tn__nn_check_masks(memory_masks, type->name, "memory_masks"))
        return NULL;
    return call(decoder, tgt, memory, &m, &of_memory);
}

tn_tensor *tn_nn_transformer_forward_with(
    tn_module *module, tn_tensor *src, tn_tensor *tgt,
    const tn_nn_attention_masks *src_masks,
    const tn_nn_attention_masks *tgt_masks,
    const tn_nn_attention_masks *memory_masks)
{
    const tn_options_type *type = tn_nn_transformer_forward_type();
    tn_nn_attention_masks of_src, of_tgt, of_memory;
    if (tn_options_take(type, &of_src, src_masks) < 0 ||
        tn_options_take(type, &of_tgt, tgt_masks) < 0 ||
        tn_options_take(type, &of_memory, memory_masks) < 0 ||
        !tn__nn_is_kind(module, &transformer_class, NULL, type->name) ||
        !tn__nn_tensor(src, type->name, "src") ||
        !tn__nn_tensor(tgt, type->name, "tgt") ||
        !tn__nn_check_masks(src_masks, type->name, "src_masks") ||
        !tn__nn_check_masks(tgt_masks, type->name, "tgt_masks") ||
        !tn__nn_check_masks(memory_masks, type->name, "memory_masks"))
        return NULL;
    tn_tensor *in[] = {src,
                       tgt,
                       of_src.attn_mask,
                       of_tgt.attn_mask,
                       of_memory.attn_mask,
                       of_src.key_padding_mask,
                       of_tgt.key_padding_mask,
                       of_memory.key_padding_mask};
    tn_tensor *y = NULL;
    tn_module_call at = tn_module_begin(module, in, 8);
    if (!tn_error()) /* an error is not an omitted mask */
        y = run_both((const transformer *)at.self, in, of_src.is_causal,
                     of_tgt.is_causal, of_memory.is_causal);
    tn_module_end(module, &at, &y, 1);
    return y;
}
