/* test_options.c: tests options of layers: zero is a value, not "default"; an
 * option that is left out has PyTorch's default; an option that would be
 * ignored is an error. */
#include <math.h>
#include <tenon/tenon.h>
#include "tap.h"

/* Checks that `made` is NULL and the error has this message. */
static void refused(const void *made, const char *message)
{
    ok(!made, "refused: %s", message);
    is_int(tn_error_code(), TN_ERR_ARGUMENT, "a wrong argument");
    is_str(tn_error(), message, "the message");
    tn_error_clear();
}

static void is_near(tn_tensor *x, const double *want, int count,
                    const char *fact)
{
    float got[32] = {0};
    if (!ok(x && tn_tensor_numel(x) == count, "%s: %d numbers", fact, count))
        return;
    tn_tensor_to_array(x, got, (size_t)count * sizeof *got);
    for (int i = 0; i < count; i++)
        is_double_near((double)got[i], want[i], 1e-6, "%s: element %d", fact,
                       i);
}

/* ---- zero is a value ---------------------------------------------------- */

/* Returns numbers so small that the default eps would change the result:
 * without eps they are normalized to 1 and -1. */
static tn_tensor *small(tn_dims_list shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape.count; i++)
        count *= shape.dim[i];
    tn_tensor *x = tn_arange(0, (double)count, 1);
    x = tn_sub_scalar(tn_mul_scalar(tn_remainder_scalar(x, 2), -2), -1);
    return tn_reshape(tn_mul_scalar(x, 1e-3), shape);
}

static void test_eps(void)
{
    const double one[] = {1, -1};
    tn_module *layer = tn_nn_layer_norm(tn_dims(2), .eps = 0);
    is_near(tn_forward(layer, small(tn_dims(2))), one, 2, "LayerNorm's eps");
    layer = tn_nn_rms_norm(tn_dims(2), .eps = 0);
    is_near(tn_forward(layer, tn_mul_scalar(small(tn_dims(2)), 0.1)), one, 2,
            "RMSNorm's eps");
    layer = tn_nn_group_norm(1, 1, .eps = 0);
    is_near(tn_forward(layer, small(tn_dims(1, 1, 2))), one, 2,
            "GroupNorm's eps");
    layer = tn_nn_instance_norm1d(1, .eps = 0);
    is_near(tn_forward(layer, small(tn_dims(1, 1, 2))), one, 2,
            "InstanceNorm1d's eps");
    layer = tn_module_eval(tn_nn_batch_norm1d(1, .eps = 0));
    TN_NO_GRAD {
        tn_mul_scalar_(tn_module_buffer(layer, "running_var"), 1e-6);
    }
    is_near(tn_forward(layer, small(tn_dims(2, 1))), one, 2,
            "BatchNorm1d's eps");
    layer = tn_nn_transformer_encoder_layer(
        2, 1, .dim_feedforward = 1, .layer_norm_eps = 0, .dropout = 0);
    tn_tensor *y = tn_forward(layer, small(tn_dims(3, 2)));
    is_double_near(tn_item(tn_min(tn_abs(y))), 1, 1e-6,
                   "a transformer's layer_norm_eps");

    refused(tn_nn_layer_norm(tn_dims(2), .eps = -1),
            "nn_layer_norm: eps is -1; expected at least 0");
    refused(tn_nn_rms_norm(tn_dims(2), .eps = -1),
            "nn_rms_norm: eps is -1; expected at least 0");
    refused(tn_nn_rms_norm(tn_dims(2), .eps = NAN) ? layer : NULL,
            "nn_rms_norm: eps is nan; expected at least 0");
    refused(tn_nn_batch_norm2d(2, .eps = -1),
            "nn_batch_norm2d: eps is -1; expected at least 0");
}

static void test_momentum(void)
{
    tn_module *batch = tn_nn_batch_norm1d(1, .momentum = 0);
    tn_module *instance = tn_nn_instance_norm1d(1, .momentum = 0,
                                                .track_running_stats = true);
    tn_tensor *x = tn_add_scalar(small(tn_dims(2, 1, 2)), 5);
    tn_forward(batch, x);
    tn_forward(instance, x);
    is_double_near(tn_item(tn_module_buffer(batch, "running_mean")), 0, 0,
                   "a BatchNorm1d with momentum 0 keeps the running mean");
    is_double_near(tn_item(tn_module_buffer(batch, "running_var")), 1, 0,
                   "and variance");
    is_double_near(tn_item(tn_module_buffer(instance, "running_mean")), 0, 0,
                   "InstanceNorm1d too");
    batch = tn_nn_batch_norm1d(1, .momentum = 1);
    tn_forward(batch, x);
    is_double_near(tn_item(tn_module_buffer(batch, "running_mean")), 5, 1e-6,
                   "momentum 1 copies the batch's");
    batch = tn_nn_batch_norm1d(1, .cumulative = true);
    tn_forward(batch, x);
    tn_forward(batch, tn_sub_scalar(x, 4));
    is_double_near(tn_item(tn_module_buffer(batch, "running_mean")), 3, 1e-6,
                   "cumulative is the mean of all");
    refused(tn_nn_batch_norm1d(1, .cumulative = true, .momentum = 0),
            "nn_batch_norm1d: .momentum has no effect where cumulative is "
            "given: leave cumulative out, or leave .momentum out");
}

/* Returns whether two runs of a module in training give the same result. */
static bool is_steady(tn_module *module, tn_tensor *x)
{
    tn_tensor *once = tn_forward(module, x), *again = tn_forward(module, x);
    return once && again &&
           tn_item(tn_sum(tn_abs(tn_sub(once, again)))) == 0;
}

static void test_dropout(void)
{
    tn_tensor *x = tn_randn(tn_dims(16, 2, 8));
    ok(is_steady(tn_nn_transformer_encoder_layer(8, 2, .dropout = 0), x),
       "a transformer with dropout 0 drops nothing");
    ok(!is_steady(tn_nn_transformer_encoder_layer(8, 2), x),
       "by default it drops");
    ok(is_steady(tn_nn_transformer_decoder(8, 2, 2, .dropout = 0), x),
       "a decoder neither");
    ok(is_steady(tn_nn_multihead_attention(8, 2, .dropout = 0), x),
       "nor does attention");
    ok(!is_steady(tn_nn_multihead_attention(8, 2, .dropout = 0.5), x),
       "with 0.5 it does");
    ok(is_steady(tn_nn_lstm(8, 8, .num_layers = 2, .dropout = 0), x),
       "nor an LSTM of two layers");
    ok(!is_steady(tn_nn_gru(8, 8, .num_layers = 2, .dropout = 0.5), x),
       "with 0.5 a GRU does");
    refused(tn_nn_transformer(8, 2, 1, 1, .dropout = -0.5),
            "nn_transformer: dropout is -0.5; expected a probability in [0, 1]");
    refused(tn_nn_multihead_attention(8, 2, .dropout = 2),
            "nn_multihead_attention: dropout is 2; expected a probability in "
            "[0, 1]");
    refused(tn_nn_lstm(8, 8, .dropout = 0.5),
            "nn_lstm: .dropout has no effect in one layer, as it applies "
            "between layers: give num_layers, or leave .dropout out");
}

static void test_rows(void)
{
    static const int64_t row[] = {0, 3, -1, -4};
    for (int i = 0; i < 4; i++) {
        int64_t at = row[i] < 0 ? row[i] + 4 : row[i];
        tn_module *table = tn_nn_embedding(4, 2, .padding_idx = row[i]);
        tn_module *bag = tn_nn_embedding_bag(4, 2, .padding_idx = row[i]);
        tn_tensor *zeros[] = {
            tn_eq_scalar(tn_module_parameter(table, "weight"), 0),
            tn_eq_scalar(tn_module_parameter(bag, "weight"), 0)};
        for (int k = 0; k < 2; k++)
            ok(tn_item(tn_sum(zeros[k])) == 2 &&
                   tn_item(tn_sum(tn_select(zeros[k], 0, at))) == 2,
               "padding_idx %d is row %d alone", (int)row[i], (int)at);
    }
    tn_module *table = tn_nn_embedding(4, 2, .padding_idx = TN_NONE_INT);
    is_double_near(
        tn_item(tn_sum(tn_eq_scalar(tn_module_parameter(table, "weight"), 0))),
        0, 0, "without padding_idx no row is padding");
    refused(tn_nn_embedding(4, 2, .padding_idx = 4),
            "nn_embedding: padding_idx 4 is outside [-4, 4)");
    tn_module *bag = tn_nn_embedding_bag(4, 2, .max_norm = 0);
    const int64_t id[] = {0, 1};
    tn_tensor *ids = tn_tensor_from_array(id, TN_I64, tn_dims(1, 2));
    is_near(tn_forward(bag, ids), (double[]){0, 0}, 2,
            "a max_norm of 0 leaves nothing");
}

/* An option that must be positive rejects 0, which does not mean the
 * default. */
static void test_positive(void)
{
    refused(tn_nn_conv1d(2, 2, 3, .stride = 0),
            "nn_conv1d: stride is 0; expected at least 1");
    refused(tn_nn_conv2d(2, 2, 3, .stride = 0),
            "nn_conv2d: stride is 0; expected at least 1");
    refused(tn_nn_conv2d(2, 2, 3, .strides = tn_dims(1, 0)),
            "nn_conv2d: strides[1] is 0; expected at least 1");
    refused(tn_nn_conv2d(2, 2, 3, .strides = TN_SCALAR),
            "nn_conv2d: strides has 0 numbers; expected one for each of 2 "
            "dimensions");
    refused(tn_nn_conv2d(2, 2, 3, .paddings = tn_dims(1)),
            "nn_conv2d: paddings has 1 number; expected one for each of 2 "
            "dimensions");
    refused(tn_nn_conv_transpose3d(2, 2, 3, .strides = tn_dims(1, 2)),
            "nn_conv_transpose3d: strides has 2 numbers; expected one for each "
            "of 3 dimensions");
    refused(tn_nn_conv3d(2, 2, 3, .dilation = 0),
            "nn_conv3d: dilation is 0; expected at least 1");
    refused(tn_nn_conv2d(2, 2, 3, .groups = 0),
            "nn_conv2d: in_channels 2, out_channels 2, groups 0: expected "
            "positive numbers");
    refused(tn_nn_conv_transpose2d(2, 2, 3, .groups = 0),
            "nn_conv_transpose2d: in_channels 2, out_channels 2, groups 0: "
            "expected positive numbers");
    refused(tn_nn_max_pool2d(2, .stride = 0),
            "nn_max_pool2d: stride is 0; expected at least 1");
    refused(tn_nn_max_pool2d(2, .dilation = 0),
            "nn_max_pool2d: dilation is 0; expected at least 1");
    refused(tn_nn_avg_pool2d(2, .stride = 0),
            "nn_avg_pool2d: stride is 0; expected at least 1");
    refused(tn_nn_avg_pool2d(2, .divisor_override = 0),
            "nn_avg_pool2d: divisor_override is 0; expected any other number");
    refused(tn_nn_rnn(2, 3, .num_layers = 0),
            "nn_rnn: input_size 2, hidden_size 3, num_layers 0, proj_size 0: "
            "expected positive numbers, and a proj_size below hidden_size");
    refused(tn_nn_multihead_attention(4, 2, .kdim = 0),
            "nn_multihead_attention: embed_dim 4, num_heads 2, kdim 0, vdim "
            "4: expected positive numbers, and embed_dim a multiple of "
            "num_heads");
    refused(tn_nn_transformer_encoder(4, 2, 1, .dim_feedforward = 0),
            "nn_transformer_encoder: dim_feedforward is 0; expected at least 1");
}

/* ---- options that would be ignored ---------------------------------------
 *
 * ../options/test_needs.c tests options that need another option. */

static void test_ignored(void)
{
    refused(tn_nn_conv2d(1, 1, 3, .padding_same = true, .padding = 1),
            "nn_conv2d: give padding or padding_same, not both");
    refused(tn_nn_conv2d(1, 1, 3, .stride = 2, .strides = tn_dims(1, 2)),
            "nn_conv2d: give .stride or .strides, not both");
    refused(tn_nn_conv_transpose1d(1, 1, 3, .output_padding = 1,
                                   .output_paddings = tn_dims(1)),
            "nn_conv_transpose1d: give .output_padding or .output_paddings, "
            "not both");
    refused(tn_nn_embedding_bag(4, 2, .mode = NULL),
            "nn_embedding_bag: .mode is NULL");
    refused(tn_nn_upsample(2, .mode = "nearby"),
            "nn_upsample: mode \"nearby\" is none of nearest, nearest-exact, "
            "linear, bilinear, trilinear, bicubic, area");
    refused(tn_nn_upsample(2, .output_size = 4),
            "nn_upsample: give scale_factor or output_size, not both: "
             "pass TN_NONE_FLOAT for no scale_factor");
    refused(tn_nn_upsample(TN_NONE_FLOAT),
            "nn_upsample: expected scale_factor or output_size");
    refused(tn_nn_upsample(0),
            "nn_upsample: scale_factor is 0; expected a finite number above 0");
}

/* ---- values without a name ----------------------------------------------- */

/* Passes options by position, as in tn_nn_conv2d(1, 1, 3, 2), which compilers
 * warn about. */
static void test_unnamed(void)
{
    tn_nn_conv2d_options o = TN_NN_CONV2D_OPTIONS;
    o.given = "2";
    refused(tn_nn_conv2d_with(1, 1, 3, &o),
            "nn_conv2d: \"2\" is not an option: write options by name, as in "
            "tn_nn_conv2d(in_channels, out_channels, kernel_size, .stride "
            "= 2)");
    o.given = NULL;
    refused(tn_nn_conv2d_with(1, 1, 3, &o),
            "nn_conv2d: the options are not initialised: begin with the call's "
            "TN_..._OPTIONS, or tn_options_init(\"nn_conv2d\", &options, sizeof options)");
    tn_nn_gru_options gru = TN_NN_GRU_OPTIONS;
    gru.given = ".num_layers = 2, true";
    refused(tn_nn_gru_with(1, 1, &gru),
            "nn_gru: \"true\" is not an option: write options by name, as in "
            "tn_nn_gru(input_size, hidden_size, .num_layers = true)");
    tn_nn_attention_masks masks = TN_NN_ATTENTION_MASKS;
    masks.given = NULL;
    tn_tensor *x = tn_ones(tn_dims(3, 4));
    refused(tn_nn_transformer_encoder_forward_with(
                tn_nn_transformer_encoder(4, 2, 1), x, &masks),
            "nn_transformer_encoder_forward: the options are not initialised: "
            "begin with the call's TN_..._OPTIONS, or "
            "tn_options_init(\"nn_transformer_encoder_forward\", "
            "&options, sizeof options)");
}

/* ---- defaults ----------------------------------------------------------- */

/* Checks that the default is PyTorch's, and that tn_options_init sets the same
 * value. tn_options_init supports only the calls that are linked into the
 * program, so `linked` makes the linker include this call. */
#define DEFAULT(call, CALL, name, value)                                      \
    do {                                                                      \
        tn_nn_##call##_options mine = TN_NN_##CALL##_OPTIONS, theirs;         \
        void (*volatile linked)(void) = (void (*)(void))tn_nn_##call##_with;  \
        (void)linked;                                                         \
        is_int(tn_options_init("nn_" #call, &theirs, sizeof theirs), TN_OK,   \
               "tn_options_init(nn_" #call ")");                              \
        ok(mine.name == value && theirs.name == value,                        \
           #call "'s " #name " is " #value " by default");                    \
    } while (0)

static void test_defaults(void)
{
    DEFAULT(linear, LINEAR, bias, true);
    DEFAULT(conv2d, CONV2D, stride, 1);
    DEFAULT(conv2d, CONV2D, strides.count, -1);
    DEFAULT(conv2d, CONV2D, padding, 0);
    DEFAULT(conv2d, CONV2D, dilation, 1);
    DEFAULT(conv2d, CONV2D, groups, 1);
    DEFAULT(conv2d, CONV2D, bias, true);
    DEFAULT(conv_transpose3d, CONV_TRANSPOSE3D, output_padding, 0);
    DEFAULT(max_pool2d, MAX_POOL2D, stride, TN_NONE_INT);
    DEFAULT(max_pool2d, MAX_POOL2D, ceil_mode, false);
    DEFAULT(avg_pool2d, AVG_POOL2D, count_include_pad, true);
    DEFAULT(avg_pool2d, AVG_POOL2D, divisor_override, TN_NONE_INT);
    DEFAULT(batch_norm2d, BATCH_NORM2D, eps, 1e-5);
    DEFAULT(batch_norm2d, BATCH_NORM2D, momentum, 0.1);
    DEFAULT(batch_norm2d, BATCH_NORM2D, affine, true);
    DEFAULT(batch_norm2d, BATCH_NORM2D, track_running_stats, true);
    DEFAULT(instance_norm2d, INSTANCE_NORM2D, affine, false);
    DEFAULT(instance_norm2d, INSTANCE_NORM2D, track_running_stats, false);
    DEFAULT(layer_norm, LAYER_NORM, eps, 1e-5);
    DEFAULT(layer_norm, LAYER_NORM, elementwise_affine, true);
    DEFAULT(rms_norm, RMS_NORM, elementwise_affine, true);
    DEFAULT(group_norm, GROUP_NORM, affine, true);
    DEFAULT(embedding, EMBEDDING, padding_idx, TN_NONE_INT);
    DEFAULT(embedding_bag, EMBEDDING_BAG, norm_type, 2);
    DEFAULT(lstm, LSTM, num_layers, 1);
    DEFAULT(lstm, LSTM, dropout, 0);
    DEFAULT(gru_cell, GRU_CELL, bias, true);
    DEFAULT(multihead_attention, MULTIHEAD_ATTENTION, dropout, 0);
    DEFAULT(transformer, TRANSFORMER, dim_feedforward, 2048);
    DEFAULT(transformer, TRANSFORMER, dropout, 0.1);
    DEFAULT(transformer, TRANSFORMER, final_norm, true);
    DEFAULT(transformer_encoder, TRANSFORMER_ENCODER, final_norm, false);
    tn_nn_rms_norm_options rms = TN_NN_RMS_NORM_OPTIONS;
    tn_nn_embedding_bag_options bag = TN_NN_EMBEDDING_BAG_OPTIONS;
    ok(tn_is_none_float(rms.eps) && tn_is_none_float(bag.max_norm),
       "RMSNorm's eps and EmbeddingBag's max_norm are none");
    is_str(bag.mode, "mean", "EmbeddingBag's mode");
}

/* Passes NULL for the options, and a computed struct. */
static void test_structs(void)
{
    tn_module *linear = tn_nn_linear_with(2, 2, NULL);
    ok(tn_module_parameter(linear, "bias") != NULL, "NULL is the defaults");
    tn_nn_linear_options o = TN_NN_LINEAR_OPTIONS;
    o.bias = false;
    linear = tn_nn_linear_with(2, 2, &o);
    ok(!tn_module_parameter(linear, "bias"), "a struct's own value");
    tn_error_clear();
    tn_module *conv = tn_nn_conv2d(1, 1, TN_NONE_INT,
                                   .kernel_sizes = tn_dims(2, 3));
    tn_tensor *weight = tn_module_parameter(conv, "weight");
    ok(tn_tensor_size(weight, 2) == 2 && tn_tensor_size(weight, 3) == 3,
       "kernel_sizes hold in place of kernel_size");
    tn_module *up = tn_nn_upsample(TN_NONE_FLOAT, .output_size = 4);
    tn_tensor *y = tn_forward(up, tn_ones(tn_dims(1, 1, 2, 2)));
    ok(y && tn_tensor_numel(y) == 16, "one output_size is for both axes");
    up = tn_nn_upsample(TN_NONE_FLOAT, .output_sizes = tn_dims(4, 3));
    y = tn_forward(up, tn_ones(tn_dims(1, 1, 2, 2)));
    ok(y && tn_tensor_numel(y) == 12, "output_sizes are one for each");
    tn_module *net =
        tn_nn_transformer(4, 2, 1, 1, .dim_feedforward = 4,
                          .final_norm = false);
    ok(!tn_module_child(net, "encoder.norm"), "a transformer without norms");
    tn_error_clear();
    /* A later call does not change earlier results: state is not shared. */
    net = tn_nn_transformer_encoder(4, 2, 2, .dim_feedforward = 4,
                                    .dropout = 0);
    tn_tensor *x = tn_randn(tn_dims(5, 4)), *other = tn_clone(x);
    TN_NO_GRAD {
        tn_mul_scalar_(tn_select(other, 0, 4), -1);
    }
    tn_tensor *way[] = {
        tn_nn_transformer_encoder_forward(net, x, .is_causal = true),
        tn_nn_transformer_encoder_forward(net, other, .is_causal = true)};
    ok(tn_item(tn_allclose(tn_narrow(way[0], 0, 0, 4),
                           tn_narrow(way[1], 0, 0, 4))) == 1,
       "an encoder with its masks by name");
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    test_eps();
    test_momentum();
    test_dropout();
    test_rows();
    test_positive();
    test_ignored();
    test_unnamed();
    test_defaults();
    test_structs();
    ok(tn_error() == NULL, "no error is left%s%s", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    return done_testing();
}
