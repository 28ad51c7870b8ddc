/* test_needs.c: tests options that have an effect only together with another
 * option or in one mode. There is a line for each such option. Without the
 * other option they must be rejected, with a message that has the call, the
 * option, the reason and what to write instead; with it they must be accepted.
 * Also tests numbers and words that PyTorch rejects. The test fails for each
 * line "needs" or "bounds" of the operator table for which it has caused no
 * error. */
#include <limits.h>
#include <ops/engine/ops.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "tap.h"

/* The messages of all rejected calls. */
static char seen[256][256];
static int seen_count;

/* Returns whether a message begins with `begin` and contains these words after
 * it. */
static bool was_seen(const char *begin, const char *words)
{
    size_t length = strlen(begin);
    for (int i = 0; i < seen_count; i++)
        if (strncmp(seen[i], begin, length) == 0 &&
            strstr(seen[i] + length, words))
            return true;
    return false;
}

/* Checks that the pending error rejects this option of the call, in the message
 * and in the error details; then clears it. */
static void is_refusal(const char *call, const char *option, const char *words)
{
    const tn_error_details *e = tn_error_info();
    char begin[128];
    snprintf(begin, sizeof begin, "%s: ", call);
    const char *said = e ? e->message : "nothing";
    ok(e && e->code == TN_ERR_ARGUMENT && strstr(said, begin) == said &&
           strstr(said, words),
       "%s", said);
    is_str(e ? e->op : NULL, call, "%s: the call", call);
    is_str(e ? e->argument : NULL, option, "%s: the option", call);
    if (seen_count < 256)
        snprintf(seen[seen_count++], sizeof seen[0], "%s", said);
    tn_error_clear();
}

static void is_idle(const char *call, const char *option)
{
    char words[128];
    snprintf(words, sizeof words, ".%s has no effect ", option);
    is_refusal(call, option, words);
}

/* Like is_refusal, for an option that excludes another one. */
static void is_clash(const char *call, const char *option)
{
    char words[128];
    snprintf(words, sizeof words, "%s: both .%s and ", call, option);
    is_refusal(call, option, words);
}

#define REFUSED(call, option, check, without, with)                           \
    do {                                                                      \
        ok((without) == NULL, "%s: .%s is refused", call, option);            \
        check(call, option);                                                  \
        ok((with) != NULL, "%s: .%s where it counts%s%s", call, option,       \
           tn_error() ? ": " : "", tn_error() ? tn_error() : "");             \
        tn_error_clear();                                                     \
    } while (0)
/* Checks that the option is rejected in the call `without`, and accepted in
 * `with`. */
#define NEEDS(call, option, without, with)                                    \
    REFUSED(call, option, is_idle, without, with)
#define CLASH(call, option, both, alone)                                      \
    REFUSED(call, option, is_clash, both, alone)

/* ---- operators ----------------------------------------------------------- */

static void *first_of(int count, tn_tensor **out)
{
    return count > 0 ? out[0] : NULL;
}

static void test_tables(void)
{
    tn_tensor *w = tn_ones(tn_dims(3, 2));
    tn_tensor *i = tn_zeros(tn_dims(2, 2), .dtype = TN_I64);
    tn_tensor *each = tn_ones(tn_dims(2, 2));
    NEEDS("embedding_bag", "norm_type",
          tn_embedding_bag(i, w, NULL, .norm_type = 1),
          tn_embedding_bag(i, w, NULL, .norm_type = 1, .max_norm = 1));
    NEEDS("embedding_bag", "scale_grad_by_freq",
          tn_embedding_bag(i, w, NULL, .mode = "max",
                           .scale_grad_by_freq = true),
          tn_embedding_bag(i, w, NULL, .mode = "sum",
                           .scale_grad_by_freq = true));
    NEEDS("embedding_bag", "per_sample_weights",
          tn_embedding_bag(i, w, NULL, .per_sample_weights = each),
          tn_embedding_bag(i, w, NULL, .mode = "sum",
                           .per_sample_weights = each));
    NEEDS("embedding_bag", "sparse",
          tn_embedding_bag(i, w, NULL, .mode = "max", .sparse = true),
          tn_embedding_bag(i, w, NULL, .sparse = true));
    ok(tn_embedding_bag(i, w, NULL, .norm_type = 2) != NULL,
       "a default may be written, since it requests nothing");
}

/* The option sparse does not change the values. */
static void test_sparse(void)
{
    tn_tensor *i = tn_zeros(tn_dims(2, 2), .dtype = TN_I64);
    tn_tensor *grad[4];
    for (int k = 0; k < 4; k++) {
        tn_tensor *w = tn_requires_grad(tn_ones(tn_dims(3, 2)));
        bool sparse = k % 2;
        tn_tensor *y = k < 2 ? tn_embedding(i, w, .sparse = sparse)
                             : tn_embedding_bag(i, w, NULL, .sparse = sparse);
        tn_backward(tn_sum(tn_square(y)));
        grad[k] = tn_tensor_grad(w);
    }
    for (int k = 0; k < 4; k += 2)
        ok(tn_item(tn_max(tn_abs(tn_sub(grad[k], grad[k + 1])))) == 0 &&
               tn_item(tn_sum(grad[k])) > 0,
           "%s: the gradient of .sparse", k ? "embedding_bag" : "embedding");
}

static void test_images(void)
{
    tn_tensor *x = tn_ones(tn_dims(1, 1, 4, 4)), *v = tn_ones(tn_dims(1, 4));
    CLASH("interpolate", "scale_factor",
          tn_interpolate(x, tn_dims(2), .scale_factor = 2),
          tn_interpolate(x, TN_SCALAR, .scale_factor = 2));
    NEEDS("interpolate", "recompute_scale_factor",
          tn_interpolate(x, tn_dims(2), .recompute_scale_factor = true),
          tn_interpolate(x, TN_SCALAR, .scale_factor = 2,
                         .recompute_scale_factor = true));
    NEEDS("interpolate", "align_corners",
          tn_interpolate(x, tn_dims(2), .align_corners = true),
          tn_interpolate(x, tn_dims(2), .align_corners = true,
                         .mode = "bilinear"));
    NEEDS("interpolate", "antialias",
          tn_interpolate(x, tn_dims(2), .antialias = true, .mode = "area"),
          tn_interpolate(x, tn_dims(2), .antialias = true,
                         .mode = "bicubic"));
    CLASH("upsample_nearest", "scale_factor",
          tn_upsample_nearest(x, tn_dims(2), .scale_factor = 2),
          tn_upsample_nearest(x, TN_SCALAR, .scale_factor = 2));
    CLASH("upsample_bilinear", "scale_factor",
          tn_upsample_bilinear(x, tn_dims(2), .scale_factor = 2),
          tn_upsample_bilinear(x, TN_SCALAR, .scale_factor = 2));
    NEEDS("pad", "value", tn_pad(v, tn_dims(1, 1), .mode = "reflect",
                                 .value = 3),
          tn_pad(v, tn_dims(1, 1), .value = 3));
    static const double half[] = {0.5};
    tn_value ratio[] = {{.kind = TN_VALUE_TENSOR, .of.tensor = x},
                        {.kind = TN_VALUE_INT, .of.i = 2},
                        {.kind = TN_VALUE_INT, .of.i = 2},
                        {.kind = TN_VALUE_FLOATS, .count = 1,
                         .of.floats = half}};
    tn_tensor *out[2];
    for (int d = 2; d <= 3; d++) {
        const char *name = d == 2 ? "fractional_max_pool2d"
                                  : "fractional_max_pool3d";
        const tn_op *op = tn_op_find(name);
        if (d == 3)
            ratio[0].of.tensor = tn_ones(tn_dims(1, 1, 4, 4, 4));
        ratio[2].kind = TN_VALUE_INT;
        int wrong = tn_op_call(op, ratio, 4, out, 2);
        ok(wrong < 0, "%s: .output_ratio beside output_size", name);
        is_clash(name, "output_ratio");
        ratio[2].kind = TN_VALUE_NONE;
        ok(first_of(tn_op_call(op, ratio, 4, out, 2), out) != NULL,
           "%s: .output_ratio alone", name);
    }
}

static void test_numbers(void)
{
    tn_tensor *x = tn_ones(tn_dims(2, 4)), *v = tn_ones(tn_dims(4));
    tn_tensor *s, *t, *mean = tn_zeros(tn_dims(4));
    CLASH("trapezoid", "dx", tn_trapezoid(x, v, .dx = 2),
          tn_trapezoid(x, NULL, .dx = 2));
    CLASH("cumulative_trapezoid", "dx",
          tn_cumulative_trapezoid(x, v, .dx = 2),
          tn_cumulative_trapezoid(x, NULL, .dx = 2));
    NEEDS("poisson_nll_loss", "eps", tn_poisson_nll_loss(x, x, .eps = 1e-3),
          tn_poisson_nll_loss(x, x, .eps = 1e-3, .log_input = false));
    NEEDS("svd", "some", tn_svd(x, &s, &t, .some = false, .compute_uv = false),
          tn_svd(x, &s, &t, .some = false));
    NEEDS("batch_norm", "momentum",
          tn_batch_norm(x, NULL, NULL, NULL, NULL, .training = true,
                        .momentum = 0.5),
          tn_batch_norm(x, mean, v, NULL, NULL, .training = true,
                        .momentum = 0.5));
    NEEDS("instance_norm", "momentum",
          tn_instance_norm(tn_unsqueeze(x, 0), NULL, NULL, NULL, NULL,
                           .momentum = 0.5),
          tn_instance_norm(tn_unsqueeze(x, 0), tn_zeros(tn_dims(2)),
                           tn_ones(tn_dims(2)), NULL, NULL, .momentum = 0.5));
    tn_tensor *q = tn_ones(tn_dims(1, 2, 4));
    tn_tensor *mask = tn_ones(tn_dims(2, 2), .dtype = TN_BOOL);
    CLASH("scaled_dot_product_attention", "is_causal",
          tn_scaled_dot_product_attention(q, q, q, mask, .is_causal = true),
          tn_scaled_dot_product_attention(q, q, q, NULL, .is_causal = true));
    ok(!tn_cross_entropy(x, x, .ignore_index = -1),
       "ignore_index with probabilities");
    is_refusal("cross_entropy", "ignore_index", "ignore_index is -1");
}

/* ---- layers -------------------------------------------------------------- */

static void test_layers(void)
{
    NEEDS("nn_rnn", "dropout", tn_nn_rnn(2, 2, .dropout = 0.5),
          tn_nn_rnn(2, 2, .dropout = 0.5, .num_layers = 2));
    NEEDS("nn_gru", "dropout", tn_nn_gru(2, 2, .dropout = 0.5),
          tn_nn_gru(2, 2, .dropout = 0.5, .num_layers = 2));
    NEEDS("nn_lstm", "dropout", tn_nn_lstm(2, 2, .dropout = 0.5),
          tn_nn_lstm(2, 2, .dropout = 0.5, .num_layers = 2));
    NEEDS("nn_lstm", "relu", tn_nn_lstm(2, 2, .relu = true),
          tn_nn_rnn(2, 2, .relu = true));
    NEEDS("nn_gru", "proj_size", tn_nn_gru(2, 2, .proj_size = 1),
          tn_nn_lstm(2, 2, .proj_size = 1));
    NEEDS("nn_gru_cell", "relu", tn_nn_gru_cell(2, 2, .relu = true),
          tn_nn_rnn_cell(2, 2, .relu = true));
    NEEDS("nn_conv1d", "output_padding",
          tn_nn_conv1d(1, 1, 3, .output_padding = 1),
          tn_nn_conv_transpose1d(1, 1, 3, .stride = 2, .output_padding = 1));
    NEEDS("nn_conv3d", "output_paddings",
          tn_nn_conv3d(1, 1, 3, .output_paddings = tn_dims(0, 0, 0)),
          tn_nn_conv_transpose3d(1, 1, 3,
                                 .output_paddings = tn_dims(0, 0, 0)));
    NEEDS("nn_transformer_encoder_layer", "final_norm",
          tn_nn_transformer_encoder_layer(4, 2, .final_norm = true),
          tn_nn_transformer_encoder(4, 2, 1, .final_norm = true));
    NEEDS("nn_transformer_decoder_layer", "final_norm",
          tn_nn_transformer_decoder_layer(4, 2, .final_norm = true),
          tn_nn_transformer_decoder(4, 2, 1, .final_norm = true));
    NEEDS("nn_batch_norm1d", "momentum",
          tn_nn_batch_norm1d(2, .momentum = 0.5, .cumulative = true),
          tn_nn_batch_norm1d(2, .momentum = 0.5));
    NEEDS("nn_batch_norm2d", "momentum",
          tn_nn_batch_norm2d(2, .momentum = 0.5, .track_running_stats = false),
          tn_nn_batch_norm2d(2, .momentum = 0.5));
    NEEDS("nn_batch_norm3d", "cumulative",
          tn_nn_batch_norm3d(2, .cumulative = true,
                             .track_running_stats = false),
          tn_nn_batch_norm3d(2, .cumulative = true));
    NEEDS("nn_instance_norm2d", "momentum",
          tn_nn_instance_norm2d(2, .momentum = 0.5),
          tn_nn_instance_norm2d(2, .momentum = 0.5,
                                .track_running_stats = true));
    NEEDS("nn_embedding_bag", "norm_type",
          tn_nn_embedding_bag(3, 2, .norm_type = 1),
          tn_nn_embedding_bag(3, 2, .norm_type = 1, .max_norm = 1));
    NEEDS("nn_embedding_bag", "scale_grad_by_freq",
          tn_nn_embedding_bag(3, 2, .scale_grad_by_freq = true, .mode = "max"),
          tn_nn_embedding_bag(3, 2, .scale_grad_by_freq = true));
    tn_tensor *w = tn_zeros(tn_dims(2, 3));
    NEEDS("init_kaiming_uniform", "a",
          tn_init_kaiming_uniform(w, .a = 1, .nonlinearity = "relu"),
          tn_init_kaiming_uniform(w, .a = 1));
    NEEDS("init_kaiming_normal", "a",
          tn_init_kaiming_normal(w, .a = 1, .nonlinearity = "tanh"),
          tn_init_kaiming_normal(w, .a = 1));
    NEEDS("nn_upsample", "align_corners",
          tn_nn_upsample(2, .align_corners = true),
          tn_nn_upsample(2, .align_corners = true, .mode = "bilinear"));
}

/* Sets two options with the same meaning, which is an error. */
static void test_both(void)
{
    ok(!tn_nn_conv2d(1, 1, 3, .kernel_sizes = tn_dims(2, 3)),
       "a kernel_size beside .kernel_sizes");
    is_refusal("nn_conv2d", "kernel_sizes", "not both");
    ok(!tn_nn_conv_transpose1d(1, 1, 3, .kernel_sizes = tn_dims(2)),
       "in the other convolutions too");
    is_refusal("nn_conv_transpose1d", "kernel_sizes", "not both");
    ok(tn_nn_conv2d(1, 1, TN_NONE_INT, .kernel_sizes = tn_dims(2, 3)) != NULL,
       ".kernel_sizes with TN_NONE_INT");
    ok(!tn_nn_conv3d(1, 1, TN_NONE_INT), "neither of them");
    is_refusal("nn_conv3d", "kernel_size",
               "expected kernel_size or .kernel_sizes");
    ok(!tn_nn_conv2d(1, 1, 3, .padding_same = true, .padding = 1),
       "padding beside padding_same");
    is_refusal("nn_conv2d", "padding_same", "not both");
    ok(!tn_nn_upsample(2, .output_size = 4), "scale_factor and output_size");
    is_refusal("nn_upsample", "output_size", "not both");
}

/* ---- optimizers and schedules -------------------------------------------- */

static tn_parameter_list *list(void)
{
    return tn_parameters(tn_nn_linear(2, 2));
}

static tn_optim *sgd(void)
{
    return tn_optim_sgd(list(), .momentum = 0.9);
}

static void test_optim(void)
{
    NEEDS("optim_sgd", "dampening", tn_optim_sgd(list(), .dampening = 0.5),
          tn_optim_sgd(list(), .dampening = 0.5, .momentum = 0.9));
    NEEDS("optim_sgd", "nesterov", tn_optim_sgd(list(), .nesterov = true),
          tn_optim_sgd(list(), .nesterov = true, .momentum = 0.9));
    ok(tn_optim_sgd(list(), .momentum = 0, .dampening = 0, .nesterov = false) !=
           NULL,
       "options that a program passes on may be the defaults");
    tn_optim_sgd_options o = TN_OPTIM_SGD_OPTIONS;
    o.dampening = 0.5;
    ok(!tn_optim_sgd_with(list(), &o), "a struct in place of a call");
    is_idle("optim_sgd", "dampening");
    NEEDS("schedule_cyclic_lr", "gamma",
          tn_schedule_cyclic_lr(sgd(), 0.1, 1, .gamma = 0.5),
          tn_schedule_cyclic_lr(sgd(), 0.1, 1, .gamma = 0.5,
                                .mode = TN_CYCLE_EXP_RANGE));
    NEEDS("schedule_cyclic_lr", "base_momentum",
          tn_schedule_cyclic_lr(sgd(), 0.1, 1, .base_momentum = 0.5,
                                .cycle_momentum = false),
          tn_schedule_cyclic_lr(sgd(), 0.1, 1, .base_momentum = 0.5));
    NEEDS("schedule_cyclic_lr", "max_momentum",
          tn_schedule_cyclic_lr(sgd(), 0.1, 1, .max_momentum = 0.95,
                                .cycle_momentum = false),
          tn_schedule_cyclic_lr(sgd(), 0.1, 1, .max_momentum = 0.95));
    NEEDS("schedule_one_cycle_lr", "base_momentum",
          tn_schedule_one_cycle_lr(sgd(), 1, 10, .base_momentum = 0.5,
                                   .cycle_momentum = false),
          tn_schedule_one_cycle_lr(sgd(), 1, 10, .base_momentum = 0.5));
    NEEDS("schedule_one_cycle_lr", "max_momentum",
          tn_schedule_one_cycle_lr(sgd(), 1, 10, .max_momentum = 0.9,
                                   .cycle_momentum = false),
          tn_schedule_one_cycle_lr(sgd(), 1, 10, .max_momentum = 0.9));
}

/* ---- data ---------------------------------------------------------------- */

static void test_loader(void)
{
    static const double weight[] = {1, 2, 3, 4};
    tn_dataset *set = tn_dataset_from_tensors(tn_ones(tn_dims(4, 2)), NULL);
    tn_loader *loader = tn_loader_new(set, .shuffle = false, .seed = 7);
    ok(loader && tn_loader_snapshot(loader).seed == 7,
       "a seed is taken, and reported, whether samples are drawn or not");
    NEEDS("loader_new", "sample_count", tn_loader_new(set, .sample_count = 2),
          tn_loader_new(set, .sample_count = 2, .replacement = true));
    NEEDS("loader_new", "distinct",
          tn_loader_new(set, .distinct = true, .shuffle = true),
          tn_loader_new(set, .distinct = true, .weights = weight,
                        .weight_count = 4));
}

static void test_tables_of_text(void)
{
    char path[64];
    snprintf(path, sizeof path, "needs-test-%ld.tmp", (long)getpid());
    FILE *file = fopen(path, "w");
    if (!file)
        bail_out("cannot write %s", path);
    fputs("1,a\n", file);
    fclose(file);
    tn_categories *names = tn_categories_new();
    NEEDS("csv_load", "category", tn_csv_load(path, .category = 1),
          tn_csv_load(path, .category = 1, .categories = names));
    NEEDS("csv_load", "categories", tn_csv_load(path, .categories = names),
          tn_csv_load(path, .category = 1, .categories = names));
    unlink(path);
}

/* ---- numbers that PyTorch refuses ---------------------------------------- */

#define BOUNDS(call, argument, outside, inside)                               \
    do {                                                                      \
        ok((outside) == NULL, "%s: %s outside", call, argument);              \
        is_refusal(call, argument, "; it must ");                             \
        ok((inside) != NULL, "%s: %s at its bound", call, argument);          \
    } while (0)

static void test_bounds(void)
{
    tn_tensor *x = tn_ones(tn_dims(2, 3));
    tn_tensor *i = tn_zeros(tn_dims(2), .dtype = TN_I64);
    tn_tensor *q = tn_ones(tn_dims(1, 2, 4)), *wave = tn_ones(tn_dims(16));
    BOUNDS("celu", "alpha", tn_celu(x, .alpha = 0),
           tn_celu(x, .alpha = -1e-9));
    BOUNDS("celu", "alpha", tn_forward(tn_nn_celu(0), x),
           tn_forward(tn_nn_celu(1), x));
    BOUNDS("softshrink", "lambd", tn_softshrink(x, .lambd = -1e-9),
           tn_softshrink(x, .lambd = 0));
    BOUNDS("hardtanh", "min_val", tn_hardtanh(x, .min_val = 2),
           tn_hardtanh(x, .min_val = 1));
    BOUNDS("triplet_margin_loss", "margin",
           tn_triplet_margin_loss(x, x, x, .margin = 0),
           tn_triplet_margin_loss(x, x, x, .margin = 1e-9));
    BOUNDS("fft_rfft", "n", tn_fft_rfft(x, .n = 0), tn_fft_rfft(x, .n = 1));
    BOUNDS("fft_irfft", "n", tn_fft_irfft(x, .n = 0, .dim = 0),
           tn_fft_irfft(tn_ones(tn_dims(3, 2)), .n = 1));
    BOUNDS("stft", "n_fft", tn_stft(wave, 0, .hop_length = 1),
           tn_stft(wave, 1, .hop_length = 1));
    BOUNDS("stft", "hop_length", tn_stft(wave, 4, .hop_length = 0),
           tn_stft(wave, 4, .hop_length = 1));
    BOUNDS("stft", "win_length", tn_stft(wave, 4, .win_length = 0),
           tn_stft(wave, 4, .win_length = 1));
    BOUNDS("stft", "win_length", tn_stft(wave, 4, .win_length = 5),
           tn_stft(wave, 4, .win_length = 4));
    BOUNDS("one_hot", "num_classes", tn_one_hot(i, .num_classes = -2),
           tn_one_hot(i, .num_classes = -1));
    BOUNDS("scaled_dot_product_attention", "dropout_p",
           tn_scaled_dot_product_attention(q, q, q, NULL, .dropout_p = -0.1),
           tn_scaled_dot_product_attention(q, q, q, NULL, .dropout_p = 0));
    BOUNDS("scaled_dot_product_attention", "dropout_p",
           tn_scaled_dot_product_attention(q, q, q, NULL, .dropout_p = 1.5),
           tn_scaled_dot_product_attention(q, q, q, NULL, .dropout_p = 1));
}

/* ---- words that PyTorch refuses ------------------------------------------ */

/* An invalid word is reported before an option that needs another one. */
static void test_words(void)
{
    tn_tensor *x = tn_ones(tn_dims(1, 1, 4, 4));
    tn_tensor *w = tn_ones(tn_dims(3, 2));
    tn_tensor *i = tn_zeros(tn_dims(2, 2), .dtype = TN_I64);
    ok(!tn_interpolate(x, tn_dims(2), .mode = "nearst", .align_corners = true),
       "a misspelt mode");
    is_refusal("interpolate", "mode",
               "mode is \"nearst\"; it must be nearest, nearest-exact, linear, "
               "bilinear, trilinear, bicubic or area");
    ok(!tn_embedding_bag(i, w, NULL, .mode = "mx", .sparse = true),
       "of bags");
    is_refusal("embedding_bag", "mode",
               "mode is \"mx\"; it must be sum, mean or max");
    ok(!tn_pad(x, tn_dims(1, 1), .mode = "constnt", .value = 1), "of edges");
    is_refusal("pad", "mode", "mode is \"constnt\"; it must be constant, "
                              "reflect, replicate or circular");
    const char *norms = "norm is \"orto\"; it must be backward, ortho or forward";
    ok(!tn_fft_rfft(x, .norm = "orto"), "of a transform");
    is_refusal("fft_rfft", "norm", norms);
    ok(!tn_fft_irfft(tn_ones(tn_dims(3, 2)), .norm = "orto"), "of its inverse");
    is_refusal("fft_irfft", "norm", norms);
    tn_tensor *wave = tn_ones(tn_dims(16));
    ok(!tn_stft(wave, 4, .pad_mode = "mirror"), "of windows");
    is_refusal("stft", "pad_mode", "pad_mode is \"mirror\"; it must be constant, "
                                   "reflect, replicate or circular");
    NEEDS("stft", "pad_mode",
          tn_stft(wave, 4, .center = false, .pad_mode = "constant"),
          tn_stft(wave, 4, .pad_mode = "constant"));
    ok(!tn_pad(x, tn_dims(1, 1), .mode = ""), "an empty one");
    is_refusal("pad", "mode", "mode is \"\"; it must be ");
    tn_tensor *blocks = tn_zeros(tn_dims(3, 34), .dtype = TN_U8);
    ok(!tn_dequantize_blocks(blocks, "Q8"), "of blocks");
    is_refusal("dequantize_blocks", "format",
               "format is \"Q8\"; it must be Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
               "Q4_K, Q5_K or Q6_K");
    ok(!tn_quantized_linear(tn_ones(tn_dims(2, 32)), blocks, "q8_0", NULL),
       "of a weight in blocks");
    is_refusal("quantized_linear", "format",
               "format is \"q8_0\"; it must be Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
               "Q4_K, Q5_K or Q6_K");
    tn_dims_list pad = tn_dims(1, 1);
    const tn_value value[] = {
        {.kind = TN_VALUE_TENSOR, .of.tensor = x},
        {.kind = TN_VALUE_DIMS, .of.dims = &pad},
        {.kind = TN_VALUE_STRING, .of.string = "constant"}};
    const char *const inner[] = {"pad_edges", "pad_edges_backward"};
    tn_tensor *out;
    for (int k = 0; k < 2; k++) {
        ok(tn_op_call(tn_op_find(inner[k]), value, 3, &out, 1) < 0,
           "%s: no edge is read", inner[k]);
        is_refusal(inner[k], "mode", "mode is \"constant\"; it must be reflect, "
                                     "replicate or circular");
    }
}

/* ---- every line of the table is tested ----------------------------------- */

/* Writes "a, b or c" for the list "a|b|c". */
static const char *listed(char *out, size_t room, const char *words)
{
    size_t n = 0;
    out[0] = 0;
    for (const char *w = words; *w && n < room; w++) {
        bool last = *w == '|' && !strchr(w + 1, '|');
        n += (size_t)snprintf(out + n, room - n, "%.*s",
                              *w != '|' ? 1 : INT_MAX,
                              *w != '|' ? w
                              : last    ? " or "
                                        : ", ");
    }
    return out;
}

/* Returns whether a message rejected a value for this line of the table. */
static bool need_was_seen(const tn_op *op, const tn__op_need *need)
{
    const char *option = op->arg[need->option].name;
    const char *other = need->other >= 0 ? op->arg[need->other].name : NULL;
    char begin[128], words[160], list[128];
    const char *const bound[] = {[TN__NEED_ABOVE] = "above",
                                 [TN__NEED_AT_LEAST] = "at least",
                                 [TN__NEED_AT_MOST] = "at most",
                                 [TN__NEED_OTHER] = "not be"};
    snprintf(begin, sizeof begin, "%s: .%s has no effect ", op->name, option);
    switch (need->how) {
    case TN__NEED_GIVEN:
        snprintf(words, sizeof words, "without %s: give %s,", other, other);
        break;
    case TN__NEED_VALUE:
        snprintf(words, sizeof words, "unless %s is %s: change %s,", other,
                 listed(list, sizeof list, need->value), other);
        break;
    case TN__NEED_ABSENT:
        snprintf(begin, sizeof begin, "%s: both .%s and %s are given: ",
                 op->name, option, other);
        snprintf(words, sizeof words, "give one of them");
        break;
    default:
        snprintf(begin, sizeof begin, "%s: %s is ", op->name, option);
        if (need->how == TN__NEED_WORD)
            snprintf(words, sizeof words, "; it must be %s",
                     listed(list, sizeof list, need->value));
        else if (other)
            snprintf(words, sizeof words, "%s %s, which is ",
                     bound[need->how], other);
        else
            snprintf(words, sizeof words, "%s %g", bound[need->how],
                     need->bound);
    }
    return was_seen(begin, words);
}

static void test_table(void)
{
    int count = 0;
    for (int i = 0; i < tn_op_count(); i++) {
        const tn_op *op = tn_op_at(i);
        for (int k = 0; k < op->need_count; k++, count++)
            ok(need_was_seen(op, &op->rare->need[k]), "%s: line %d, of %s, is tried",
               op->name, k, op->arg[op->rare->need[k].option].name);
    }
    ok(count > 20, "%d lines of the table", count);
}

/* ---- options of a custom function ---------------------------------------- */

#define OWN_OPTIONS_LIST(X)                                                   \
    X(bool, decays, false)                                                    \
    X(double, gamma, 0.5)                                                     \
    X(const char *, name, NULL)                                               \
    X(const char *, mode, "linear")                                           \
    X(double, shift, 0)                                                       \
    X(tn_dims_list, sizes, TN_NONE_DIMS)
TN_OPTIONS_STRUCT(own, OWN_OPTIONS_LIST);
TN_OPTIONS_TYPE(own, "own", "", OWN_OPTIONS_LIST)

static tn_status own_with(const own_options *options)
{
    own_options o;
    tn_status status = tn_options_take(own_type(), &o, options);
    const tn_option_need need[] = {
        {"gamma", o.decays, "without decays", "give decays"},
        {"name", o.decays, "without decays", "give decays"},
        {"mode", o.decays, "without decays", "give decays"},
        {"shift", o.decays, "without decays", "give decays"},
        {"sizes", o.decays, "without decays", "give decays"}};
    return status < 0 ? status
                      : tn_options_check_needs(own_type(), &o, need, 5);
}
#define own(...) TN_CALL_0(own, __VA_ARGS__)

static void test_own(void)
{
    is_int(own_with(NULL), TN_OK, "nothing given");
    is_int(own(.gamma = 0.5), TN_OK, "a default that is written");
    is_int(own(.gamma = 0), TN_ERR_ARGUMENT, "zero is a value");
    is_str(tn_error(),
           "own: .gamma has no effect without decays: give decays, or leave "
           ".gamma out", "the message");
    tn_error_clear();
    is_int(own(.name = ""), TN_ERR_ARGUMENT, "a string");
    is_idle("own", "name");
    const char linear[] = "linear"; /* a string with the same characters at
                                     * another address */
    is_int(own(.mode = linear), TN_OK, "the default's words");
    is_int(own(.mode = "cubic"), TN_ERR_ARGUMENT, "other words");
    is_idle("own", "mode");
    is_int(own(.shift = -0.0), TN_OK, "-0 is the default 0");
    is_int(own(.shift = 1e-300), TN_ERR_ARGUMENT, "another number");
    is_idle("own", "shift");
    is_int(own(.sizes = tn_dims(1)), TN_ERR_ARGUMENT, "a list");
    is_idle("own", "sizes");
    is_int(own(.sizes = tn_dims(1), .decays = true), TN_OK, "with decays");
    is_int(tn_options_check_needs(own_type(), NULL, NULL, 0), TN_ERR_ARGUMENT,
           "own is NULL");
    tn_error_clear();
    const own_options o = TN_OPTIONS_DEFAULTS(own, OWN_OPTIONS_LIST);
    const tn_option_need none = {"gone", true, "", ""};
    is_int(tn_options_check_needs(own_type(), &o, &none, 1), TN_ERR_ARGUMENT,
           "a need of no option");
    is_str(tn_error(), "options_check_needs: need[0]: own has no option .gone",
           "says so");
    tn_error_clear();
}

int main(void)
{
    tn_scope *scope = tn_scope_open();
    plan_later();
    test_tables();
    test_sparse();
    test_images();
    test_numbers();
    test_layers();
    test_both();
    test_optim();
    test_loader();
    test_tables_of_text();
    test_bounds();
    test_words();
    test_table();
    test_own();
    tn_scope_close(scope);
    return done_testing();
}
