/* layer.c: creates Tenon's layers from the arguments of PyTorch's
 * constructors. */
#include "layer.h"

#include <string.h>

/* ---- arguments ----------------------------------------------------------- */

static int64_t whole(const json_t *args, const char *name, int64_t fallback)
{
    const json_t *value = json_object_get(args, name);
    if (json_is_array(value))
        value = json_array_get(value, 0);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

static double number(const json_t *args, const char *name, double fallback)
{
    const json_t *value = json_object_get(args, name);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

static bool truth(const json_t *args, const char *name, bool fallback)
{
    const json_t *value = json_object_get(args, name);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

static const char *text(const json_t *args, const char *name)
{
    return json_string_value(json_object_get(args, name));
}

static const char *word(const json_t *args, const char *name,
                        const char *fallback)
{
    const char *value = text(args, name);
    return value ? value : fallback;
}

/* Returns a list of sizes; a number becomes a list of one element, a missing
 * argument an empty list, and null in a list 0. */
static tn_dims_list dims(const json_t *args, const char *name)
{
    const json_t *value = json_object_get(args, name);
    tn_dims_list list = {0, {0}};
    if (json_is_integer(value))
        list = tn_dims(json_integer_value(value));
    for (size_t i = 0; i < json_array_size(value) && i < TN_MAX_NDIM; i++)
        list.dim[list.count++] = json_integer_value(json_array_get(value, i));
    return list;
}

/* Returns element i of output_size; a number applies to all axes. */
static int64_t axis(const json_t *args, int count, int i)
{
    const json_t *value = json_object_get(args, "output_size");
    if (json_is_array(value) && count > 1)
        value = json_array_get(value, (size_t)i);
    if (json_is_array(value))
        value = json_array_get(value, 0);
    return json_is_integer(value) ? json_integer_value(value) : TN_NONE_INT;
}

/* Returns a tensor of ones with the shape of {"shape": [2, 3]}; its values are
 * loaded with the state later. */
static tn_tensor *ones(const json_t *args, const char *name)
{
    const json_t *shape = json_object_get(json_object_get(args, name), "shape");
    tn_dims_list list = TN_SCALAR;
    for (size_t i = 0; i < json_array_size(shape) && i < TN_MAX_NDIM; i++)
        list.dim[list.count++] = json_integer_value(json_array_get(shape, i));
    return shape ? tn_ones(list) : NULL;
}

/* ---- activations --------------------------------------------------------- */

#define PLAIN(function)                                                       \
    static tn_module *make_##function(const json_t *args)                     \
    {                                                                         \
        (void)args;                                                           \
        return tn_nn_##function();                                            \
    }
PLAIN(relu)
PLAIN(tanh)
PLAIN(sigmoid)
PLAIN(silu)
PLAIN(mish)
PLAIN(selu)
PLAIN(relu6)
PLAIN(hardswish)
PLAIN(hardsigmoid)
PLAIN(logsigmoid)
PLAIN(softsign)
PLAIN(tanhshrink)

static tn_module *make_gelu(const json_t *args)
{
    const char *approximate = text(args, "approximate");
    return approximate && strcmp(approximate, "tanh") == 0 ? tn_nn_gelu_tanh()
                                                           : tn_nn_gelu();
}

static tn_module *make_prelu(const json_t *args)
{
    return tn_nn_prelu(whole(args, "num_parameters", 1),
                       number(args, "init", 0.25));
}

/* ---- linear, convolution, pooling ---------------------------------------- */

static tn_module *make_linear(const json_t *args)
{
    return tn_nn_linear(whole(args, "in_features", 0),
                        whole(args, "out_features", 0),
                        .bias = truth(args, "bias", true));
}

/* PyTorch accepts a number for all axes or a list; Tenon has an option for
 * each. The unused option keeps its default. */
static bool is_list(const json_t *args, const char *name)
{
    return json_is_array(json_object_get(args, name));
}

static int64_t number_only(const json_t *args, const char *name,
                           int64_t fallback)
{
    return is_list(args, name) ? fallback : whole(args, name, fallback);
}

static tn_dims_list list_only(const json_t *args, const char *name)
{
    if (!is_list(args, name))
        return (tn_dims_list)TN_NONE_DIMS;
    tn_dims_list list = dims(args, name);
    return tn_dims_from_array(list.dim, list.count);
}

#define CONV(function)                                                        \
    static tn_module *make_##function(const json_t *args)                     \
    {                                                                         \
        const char *rule = text(args, "padding");                             \
        if (rule && strcmp(rule, "same") != 0 && strcmp(rule, "valid") != 0)  \
            return NULL;                                                      \
        return tn_nn_##function(                                              \
            whole(args, "in_channels", 0), whole(args, "out_channels", 0),    \
            number_only(args, "kernel_size", TN_NONE_INT),                    \
            .stride = number_only(args, "stride", 1),                         \
            .padding = number_only(args, "padding", 0),                       \
            .dilation = number_only(args, "dilation", 1),                     \
            .groups = whole(args, "groups", 1),                               \
            .output_padding = number_only(args, "output_padding", 0),         \
            .kernel_sizes = list_only(args, "kernel_size"),                   \
            .strides = list_only(args, "stride"),                             \
            .paddings = list_only(args, "padding"),                           \
            .dilations = list_only(args, "dilation"),                         \
            .output_paddings = list_only(args, "output_padding"),             \
            .padding_same = rule && strcmp(rule, "same") == 0,                \
            .padding_mode = word(args, "padding_mode", "zeros"),              \
            .bias = truth(args, "bias", true));                               \
    }
CONV(conv1d)
CONV(conv2d)
CONV(conv_transpose1d)
CONV(conv_transpose2d)
CONV(conv3d)
CONV(conv_transpose3d)

static tn_module *make_upsample(const json_t *args)
{
    double factors[3];
    int count = is_list(args, "scale_factor")
                    ? (int)json_array_size(json_object_get(args, "scale_factor"))
                    : 0;
    for (int i = 0; i < count && i < 3; i++)
        factors[i] = json_number_value(json_array_get(
            json_object_get(args, "scale_factor"), (size_t)i));
    return tn_nn_upsample(number(args, "scale_factor", TN_NONE_FLOAT),
                          .scale_factors = count ? factors : NULL,
                          .scale_factor_count = count,
                          .output_size = number_only(args, "size",
                                                     TN_NONE_INT),
                          .output_sizes = list_only(args, "size"),
                          .mode = word(args, "mode", "nearest"),
                          .align_corners = truth(args, "align_corners", false));
}

/* ---- embedding ----------------------------------------------------------- */

static tn_module *make_embedding(const json_t *args)
{
    return tn_nn_embedding(
        whole(args, "num_embeddings", 0), whole(args, "embedding_dim", 0),
        .padding_idx = whole(args, "padding_idx", TN_NONE_INT),
        .max_norm = number(args, "max_norm", TN_NONE_FLOAT),
        .norm_type = number(args, "norm_type", 2),
        .scale_grad_by_freq = truth(args, "scale_grad_by_freq", false));
}

static tn_module *make_embedding_bag(const json_t *args)
{
    return tn_nn_embedding_bag(
        whole(args, "num_embeddings", 0), whole(args, "embedding_dim", 0),
        .mode = word(args, "mode", "mean"),
        .padding_idx = whole(args, "padding_idx", TN_NONE_INT),
        .max_norm = number(args, "max_norm", TN_NONE_FLOAT),
        .norm_type = number(args, "norm_type", 2),
        .scale_grad_by_freq = truth(args, "scale_grad_by_freq", false));
}

static tn_module *make_bilinear(const json_t *args)
{
    return tn_nn_bilinear(whole(args, "in1_features", 0),
                          whole(args, "in2_features", 0),
                          whole(args, "out_features", 0),
                          truth(args, "bias", true));
}

static int run_bilinear(tn_module *module, tn_tensor **in, tn_tensor **out)
{
    out[0] = tn_nn_bilinear_forward(module, in[0], in[1]);
    return out[0] ? 1 : 0;
}

/* ---- normalisation ------------------------------------------------------- */

static bool cumulative(const json_t *args)
{
    return json_is_null(json_object_get(args, "momentum"));
}

#define BATCH_NORM(function)                                                  \
    static tn_module *make_##function(const json_t *args)                     \
    {                                                                         \
        return tn_nn_##function(                                              \
            whole(args, "num_features", 0), .eps = number(args, "eps", 1e-5), \
            .momentum = number(args, "momentum", 0.1),                        \
            .cumulative = cumulative(args),                                   \
            .affine = truth(args, "affine", true),                            \
            .bias = truth(args, "bias", true),                                \
            .track_running_stats = truth(args, "track_running_stats", true)); \
    }
BATCH_NORM(batch_norm1d)
BATCH_NORM(batch_norm2d)
BATCH_NORM(batch_norm3d)

#define INSTANCE_NORM(function)                                               \
    static tn_module *make_##function(const json_t *args)                     \
    {                                                                         \
        return tn_nn_##function(                                              \
            whole(args, "num_features", 0), .eps = number(args, "eps", 1e-5), \
            .momentum = number(args, "momentum", 0.1),                        \
            .affine = truth(args, "affine", false),                           \
            .bias = truth(args, "bias", true),                                \
            .track_running_stats =                                            \
                truth(args, "track_running_stats", false));                   \
    }
INSTANCE_NORM(instance_norm1d)
INSTANCE_NORM(instance_norm2d)
INSTANCE_NORM(instance_norm3d)

static tn_module *make_layer_norm(const json_t *args)
{
    return tn_nn_layer_norm(dims(args, "normalized_shape"),
                            .eps = number(args, "eps", 1e-5),
                            .elementwise_affine =
                                truth(args, "elementwise_affine", true),
                            .bias = truth(args, "bias", true));
}

static tn_module *make_rms_norm(const json_t *args)
{
    return tn_nn_rms_norm(dims(args, "normalized_shape"),
                          .eps = number(args, "eps", TN_NONE_FLOAT),
                          .elementwise_affine =
                              truth(args, "elementwise_affine", true));
}

static tn_module *make_group_norm(const json_t *args)
{
    return tn_nn_group_norm(whole(args, "num_groups", 0),
                            whole(args, "num_channels", 0),
                            .eps = number(args, "eps", 1e-5),
                            .affine = truth(args, "affine", true),
                            .bias = truth(args, "bias", true));
}

/* ---- recurrent ----------------------------------------------------------- */

#define RNN(function)                                                         \
    static tn_module *make_##function(const json_t *args)                     \
    {                                                                         \
        const char *kind = text(args, "nonlinearity");                        \
        return tn_nn_##function(                                              \
            whole(args, "input_size", 0), whole(args, "hidden_size", 0),      \
            .num_layers = (int)whole(args, "num_layers", 1),                  \
            .bidirectional = truth(args, "bidirectional", false),             \
            .batch_first = truth(args, "batch_first", false),                 \
            .bias = truth(args, "bias", true),                                \
            .relu = kind && strcmp(kind, "relu") == 0,                        \
            .dropout = number(args, "dropout", 0),                            \
            .proj_size = whole(args, "proj_size", 0));                        \
    }
RNN(rnn)
RNN(gru)
RNN(lstm)

#define CELL(function)                                                        \
    static tn_module *make_##function(const json_t *args)                     \
    {                                                                         \
        const char *kind = text(args, "nonlinearity");                        \
        return tn_nn_##function(                                              \
            whole(args, "input_size", 0), whole(args, "hidden_size", 0),      \
            .bias = truth(args, "bias", true),                                \
            .relu = kind && strcmp(kind, "relu") == 0);                       \
    }
CELL(rnn_cell)
CELL(gru_cell)
CELL(lstm_cell)

static int run_rnn(tn_module *module, tn_tensor **in, tn_tensor **out)
{
    out[0] = tn_nn_rnn_forward(module, in[0], in[1], &out[1]);
    return out[0] ? 2 : 0;
}

static int run_lstm(tn_module *module, tn_tensor **in, tn_tensor **out)
{
    out[0] =
        tn_nn_lstm_forward(module, in[0], in[1], in[2], &out[1], &out[2]);
    return out[0] ? 3 : 0;
}

static int run_rnn_cell(tn_module *module, tn_tensor **in, tn_tensor **out)
{
    out[0] = tn_nn_rnn_cell_forward(module, in[0], in[1]);
    return out[0] ? 1 : 0;
}

static int run_lstm_cell(tn_module *module, tn_tensor **in, tn_tensor **out)
{
    out[0] = tn_nn_lstm_cell_forward(module, in[0], in[1], in[2], &out[1]);
    return out[0] ? 2 : 0;
}

/* ---- attention ----------------------------------------------------------- */

static tn_module *make_attention(const json_t *args)
{
    return tn_nn_multihead_attention(
        whole(args, "embed_dim", 0), whole(args, "num_heads", 0),
        .kdim = whole(args, "kdim", TN_NONE_INT),
        .vdim = whole(args, "vdim", TN_NONE_INT),
        .dropout = number(args, "dropout", 0),
        .batch_first = truth(args, "batch_first", false),
        .bias = truth(args, "bias", true),
        .add_bias_kv = truth(args, "add_bias_kv", false),
        .add_zero_attn = truth(args, "add_zero_attn", false));
}

static int run_attention(tn_module *module, tn_tensor **in, tn_tensor **out)
{
    out[0] = tn_nn_multihead_attention_forward(module, in[0], in[1], in[2],
                                               &out[1],
                                               .key_padding_mask = in[3],
                                               .attn_mask = in[4]);
    return out[0] ? 2 : 0;
}

#define TRANSFORMER_OPTIONS(args)                                             \
    .dim_feedforward = whole(args, "dim_feedforward", 2048),                  \
    .dropout = number(args, "dropout", 0.1),                                  \
    .activation = word(args, "activation", "relu"),                           \
    .layer_norm_eps = number(args, "layer_norm_eps", 1e-5),                   \
    .batch_first = truth(args, "batch_first", false),                         \
    .norm_first = truth(args, "norm_first", false),                           \
    .bias = truth(args, "bias", true)

static tn_module *make_encoder_layer(const json_t *args)
{
    return tn_nn_transformer_encoder_layer(whole(args, "d_model", 0),
                                           whole(args, "nhead", 0),
                                           TRANSFORMER_OPTIONS(args));
}

static tn_module *make_decoder_layer(const json_t *args)
{
    return tn_nn_transformer_decoder_layer(whole(args, "d_model", 0),
                                           whole(args, "nhead", 0),
                                           TRANSFORMER_OPTIONS(args));
}

static tn_module *make_transformer(const json_t *args)
{
    return tn_nn_transformer(whole(args, "d_model", 512),
                             whole(args, "nhead", 8),
                             (int)whole(args, "num_encoder_layers", 6),
                             (int)whole(args, "num_decoder_layers", 6),
                             TRANSFORMER_OPTIONS(args));
}

static tn_module *make_encoder(const json_t *args)
{
    return tn_nn_transformer_encoder(
        whole(args, "d_model", 0), whole(args, "nhead", 0),
        (int)whole(args, "num_layers", 1), TRANSFORMER_OPTIONS(args),
        .final_norm = truth(args, "final_norm", false));
}

static tn_module *make_decoder(const json_t *args)
{
    return tn_nn_transformer_decoder(
        whole(args, "d_model", 0), whole(args, "nhead", 0),
        (int)whole(args, "num_layers", 1), TRANSFORMER_OPTIONS(args),
        .final_norm = truth(args, "final_norm", false));
}

static int run_decoder(tn_module *module, tn_tensor **in, tn_tensor **out)
{
    out[0] = tn_nn_transformer_decoder_forward_with(module, in[0], in[1],
                                                    NULL, NULL);
    return out[0] ? 1 : 0;
}

static int run_transformer(tn_module *module, tn_tensor **in,
                           tn_tensor **out)
{
    out[0] = tn_nn_transformer_forward_with(module, in[0], in[1], NULL, NULL,
                                            NULL);
    return out[0] ? 1 : 0;
}

/* ---- losses of nn_loss.h ------------------------------------------------- */

static tn_module *make_dropout(const json_t *args)
{
    return tn_nn_dropout(number(args, "p", 0.5));
}

static tn_module *make_triplet_distance(const json_t *args)
{
    return tn_nn_triplet_margin_with_distance_loss(
        .margin = number(args, "margin", 1), .swap = truth(args, "swap", false),
        .reduction = word(args, "reduction", "mean"));
}

static tn_module *make_linear_loss(const json_t *args)
{
    return tn_nn_linear_cross_entropy_loss(
        whole(args, "in_features", 0), whole(args, "num_classes", 0),
        .out_features = list_only(args, "out_features"),
        .bias = truth(args, "bias", false), .weight = ones(args, "weight"),
        .reduction = word(args, "reduction", "mean"),
        .ignore_index = whole(args, "ignore_index", -100),
        .label_smoothing = number(args, "label_smoothing", 0));
}

static tn_module *make_adaptive_softmax(const json_t *args)
{
    return tn_nn_adaptive_log_softmax_with_loss(
        whole(args, "in_features", 0), whole(args, "n_classes", 0),
        dims(args, "cutoffs"), .div_value = number(args, "div_value", 4),
        .head_bias = truth(args, "head_bias", false));
}

static int run_adaptive_softmax(tn_module *module, tn_tensor **in,
                                tn_tensor **out)
{
    out[0] = tn_nn_adaptive_log_softmax_forward(module, in[0], in[1], &out[1]);
    return out[0] ? 2 : 0;
}

/* ---- layers of lib/nn/layers.def ----------------------------------------- */

/* Calls a layer with as many inputs as the sample has. */
static int run_row(tn_module *module, tn_tensor **in, tn_tensor **out)
{
    int count = 0;
    while (count < LAYER_MOST && in[count])
        count++;
    return tn_forward_list(module, in, count, out, 1) < 0 ? 0 : 1;
}

#include <golden/layers.inc>

/* ---- table of layers ----------------------------------------------------- */

static const layer layers[] = {
    {"ReLU", make_relu, NULL},
    {"Tanh", make_tanh, NULL},
    {"Sigmoid", make_sigmoid, NULL},
    {"SiLU", make_silu, NULL},
    {"Mish", make_mish, NULL},
    {"SELU", make_selu, NULL},
    {"ReLU6", make_relu6, NULL},
    {"Hardswish", make_hardswish, NULL},
    {"Hardsigmoid", make_hardsigmoid, NULL},
    {"LogSigmoid", make_logsigmoid, NULL},
    {"Softsign", make_softsign, NULL},
    {"Tanhshrink", make_tanhshrink, NULL},
    {"GELU", make_gelu, NULL},
    {"PReLU", make_prelu, NULL},
    {"Linear", make_linear, NULL},
    {"Conv1d", make_conv1d, NULL},
    {"Conv2d", make_conv2d, NULL},
    {"ConvTranspose1d", make_conv_transpose1d, NULL},
    {"ConvTranspose2d", make_conv_transpose2d, NULL},
    {"Conv3d", make_conv3d, NULL},
    {"ConvTranspose3d", make_conv_transpose3d, NULL},
    {"Upsample", make_upsample, NULL},
    {"Embedding", make_embedding, NULL},
    {"EmbeddingBag", make_embedding_bag, NULL},
    {"Bilinear", make_bilinear, run_bilinear},
    {"BatchNorm1d", make_batch_norm1d, NULL},
    {"BatchNorm2d", make_batch_norm2d, NULL},
    {"BatchNorm3d", make_batch_norm3d, NULL},
    {"InstanceNorm1d", make_instance_norm1d, NULL},
    {"InstanceNorm2d", make_instance_norm2d, NULL},
    {"InstanceNorm3d", make_instance_norm3d, NULL},
    {"LayerNorm", make_layer_norm, NULL},
    {"RMSNorm", make_rms_norm, NULL},
    {"GroupNorm", make_group_norm, NULL},
    {"RNN", make_rnn, run_rnn},
    {"GRU", make_gru, run_rnn},
    {"LSTM", make_lstm, run_lstm},
    {"RNNCell", make_rnn_cell, run_rnn_cell},
    {"GRUCell", make_gru_cell, run_rnn_cell},
    {"LSTMCell", make_lstm_cell, run_lstm_cell},
    {"MultiheadAttention", make_attention, run_attention},
    {"TransformerEncoderLayer", make_encoder_layer, NULL},
    {"TransformerDecoderLayer", make_decoder_layer, run_decoder},
    {"Transformer", make_transformer, run_transformer},
    {"TransformerEncoder", make_encoder, NULL},
    {"TransformerDecoder", make_decoder, run_decoder},
    {"Dropout", make_dropout, NULL},
    {"TripletMarginWithDistanceLoss", make_triplet_distance, run_row},
    {"LinearCrossEntropyLoss", make_linear_loss, run_row},
    {"AdaptiveLogSoftmaxWithLoss", make_adaptive_softmax, run_adaptive_softmax},
    {"Parametrized", parametrized_make, parametrized_run},
    LAYER_ROWS
};

const layer *layer_find(const char *name)
{
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        if (strcmp(layers[i].name, name) == 0)
            return &layers[i];
    }
    return NULL;
}
