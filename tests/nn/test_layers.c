/* test_layers.c: tests the layers of nn_layers.h and nn_loss.h: their printed
 * form, wrong arguments, and the distributions of the random layers.
 * tests/golden checks the values of the other layers. */
#include <math.h>
#include <stdio.h>
#include <string.h>
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

/* ---- wrong arguments ---------------------------------------------------- */

static void test_sizes(void)
{
    refused(tn_nn_max_pool1d(0),
            "nn_max_pool1d: kernel_size is 0; expected at least 1");
    refused(tn_nn_max_pool1d(TN_NONE_INT),
            "nn_max_pool1d: expected kernel_size or .kernel_sizes");
    refused(tn_nn_max_pool2d(2, .kernel_sizes = tn_dims(2, 2)),
            "nn_max_pool2d: give kernel_size or .kernel_sizes, not both: pass "
            "TN_NONE_INT for no kernel_size");
    refused(tn_nn_max_pool3d(2, .strides = tn_dims(1, 2)),
            "nn_max_pool3d: stride is a list of 2 numbers; expected one of 3");
    refused(tn_nn_max_pool3d(3, .paddings = tn_dims(1, 2, 1)),
            "nn_max_pool3d: padding is 2 with a kernel_size of 3; expected at "
            "most half of that");
    refused(tn_nn_avg_pool1d(2, .padding = -1),
            "nn_avg_pool1d: padding is -1; expected at least 0");
    refused(tn_nn_avg_pool3d(2, .divisor_override = 0),
            "nn_avg_pool3d: divisor_override is 0; expected any other number");
    refused(tn_nn_lp_pool2d(0, 2),
            "nn_lp_pool2d: norm_type is 0; expected any other number");
    refused(tn_nn_lp_pool1d(2, 2, .stride = -3),
            "nn_lp_pool1d: stride is -3; expected at least 1");
    refused(tn_nn_adaptive_max_pool3d(1, -2, 3),
            "nn_adaptive_max_pool3d: height is -2; expected at least 0 "
            "(TN_NONE_INT keeps the size)");
    refused(tn_nn_fractional_max_pool2d(2),
            "nn_fractional_max_pool2d: expected output_size or output_ratio");
    refused(tn_nn_fractional_max_pool3d(2, .output_size = 2,
                                        .output_ratio = 0.5),
            "nn_fractional_max_pool3d: give output_size or output_ratio, not "
            "both");
    refused(tn_nn_fractional_max_pool2d(2, .output_ratio = -0.5),
            "nn_fractional_max_pool2d: output_ratio is -0.5; expected a "
            "number greater than 0");
    refused(tn_nn_max_unpool2d(2, .stride = 0),
            "nn_max_unpool2d: stride is 0; expected at least 1");
    refused(tn_nn_zero_pad2d(tn_dims(1, 2)),
            "nn_zero_pad2d: padding is a list of 2 numbers; expected one "
            "number or a list of 4");
    refused(tn_nn_reflection_pad1d(tn_dims(1, -2)),
            "nn_reflection_pad1d: padding is -2; expected at least 0");
    refused(tn_nn_fold(tn_dims(3, 0), 2),
            "nn_fold: output_size is 0; expected at least 1");
    refused(tn_nn_unfold(2, .dilation = 0),
            "nn_unfold: dilation is 0; expected at least 1");
    refused(tn_nn_unflatten(1, TN_SCALAR),
            "nn_unflatten: unflattened_size is a list of 0 numbers; expected "
            "one of 1 to 12");
    refused(tn_nn_pixel_shuffle(0),
            "nn_pixel_shuffle: upscale_factor is 0; expected at least 1");
    refused(tn_nn_pixel_unshuffle(-2),
            "nn_pixel_unshuffle: downscale_factor is -2; expected at least 1");
    refused(tn_nn_channel_shuffle(0),
            "nn_channel_shuffle: groups is 0; expected at least 1");
    refused(tn_nn_upsampling_nearest2d(0),
            "nn_upsampling_nearest2d: scale_factor is 0; expected a number "
            "greater than 0");
    refused(tn_nn_upsampling_bilinear2d(2, .output_size = 3),
            "nn_upsampling_bilinear2d: give scale_factor or output_size, not "
            "both");
    refused(tn_nn_local_response_norm(0),
            "nn_local_response_norm: size is 0; expected at least 1");
    refused(tn_nn_dropout3d(NAN),
            "nn_dropout3d: p is nan; expected a probability in [0, 1]");
    refused(tn_nn_alpha_dropout(1.5),
            "nn_alpha_dropout: p is 1.5; expected a probability in [0, 1]");
}

static void test_convolutions(void)
{
    refused(tn_nn_conv1d(1, 1, 3, .padding_mode = "mirror"),
            "nn_conv1d: padding_mode \"mirror\" is none of zeros, reflect, "
            "replicate, circular");
    refused(tn_nn_conv3d(1, 1, 3, .padding_same = true, .stride = 2),
            "nn_conv3d: padding_same with a stride of 2: only 1 keeps the "
            "size");
    refused(tn_nn_conv1d(1, 1, 3, .padding_same = true, .padding = 1),
            "nn_conv1d: give padding or padding_same, not both");
    refused(tn_nn_conv_transpose2d(1, 1, 3, .padding_same = true),
            "nn_conv_transpose2d: .padding_same has no effect in a transposed "
            "convolution: make an nn_conv1d, 2d or 3d, or leave .padding_same "
            "out");
}

static void test_losses(void)
{
    refused(tn_nn_mse_loss(.reduction = "average"),
            "nn_mse_loss: reduction is \"average\"; expected one of "
            "none/mean/sum");
    refused(tn_nn_l1_loss(.reduction = "batchmean"),
            "nn_l1_loss: reduction is \"batchmean\"; expected one of "
            "none/mean/sum");
    ok(tn_nn_kl_div_loss(.reduction = "batchmean"), "batchmean of kl_div");
    refused(tn_nn_huber_loss(.delta = 0),
            "nn_huber_loss: delta is 0; expected a number greater than 0");
    refused(tn_nn_cross_entropy_loss(.label_smoothing = -1),
            "nn_cross_entropy_loss: label_smoothing is -1; expected a "
            "probability in [0, 1]");
    refused(tn_nn_triplet_margin_loss(.margin = 0),
            "nn_triplet_margin_loss: margin is 0; expected a number greater "
            "than 0");
    refused(tn_nn_triplet_margin_with_distance_loss(.margin = -1),
            "nn_triplet_margin_with_distance_loss: margin is -1; expected a "
            "number greater than 0");
    refused(tn_nn_triplet_margin_with_distance_loss(.reduction = "all"),
            "nn_triplet_margin_with_distance_loss: reduction is \"all\"; "
            "expected one of none/mean/sum");
    refused(tn_nn_linear_cross_entropy_loss(0, 3),
            "nn_linear_cross_entropy_loss: in_features is 0; expected at "
            "least 1");
    refused(tn_nn_linear_cross_entropy_loss(2, 3,
                                            .out_features = tn_dims(2, 0)),
            "nn_linear_cross_entropy_loss: out_features is 0; expected at "
            "least 1");
    refused(tn_nn_adaptive_log_softmax_with_loss(8, 10, tn_dims(5, 3)),
            "nn_adaptive_log_softmax_with_loss: cutoffs: expected 1 to 11 "
            "increasing numbers in [1, 9]");
    refused(tn_nn_adaptive_log_softmax_with_loss(8, 10, tn_dims(2, 5)),
            "nn_adaptive_log_softmax_with_loss: div_value is 4: expected at "
            "least 1, and at most 2.82843 for 2 clusters of 8 in_features");
    ok(!tn_nn_nll_loss(.weight = tn_ones(tn_dims(-1))) &&
           strncmp(tn_error(), "ones: ", 6) == 0,
       "a weight that could not be made is not left out: %s", tn_error());
    tn_error_clear();
}

static void test_inputs(void)
{
    refused(tn_nn_cross_map_lrn2d(TN_NONE_INT),
            "nn_cross_map_lrn2d: size is none; expected a number");
    tn_tensor *x = tn_randn(tn_dims(2, 3, 4)), *places = NULL;
    refused(tn_forward(tn_nn_mse_loss(), x),
            "MSELoss: 1 input is given, but its signature is \"input, target -> "
            "output\"");
    refused(tn_forward(tn_nn_triplet_margin_loss(), x, x),
            "TripletMarginLoss: 2 inputs are given, but its signature is "
            "\"anchor, positive, negative -> output\"");
    refused(tn_forward(tn_nn_softmax2d(), x, x),
            "Softmax2d: 2 inputs are given, but its signature is \"input -> "
            "output\"");
    refused(tn_forward(tn_nn_triplet_margin_with_distance_loss(), x),
            "TripletMarginWithDistanceLoss: 1 input is given, but its "
            "signature is \"anchor, positive, negative -> loss\"");
    refused(tn_forward(tn_nn_linear_cross_entropy_loss(4, 2), x),
            "LinearCrossEntropyLoss: 1 input is given, but its signature is "
            "\"input, target -> loss\"");
    refused(tn_nn_pool_forward(tn_nn_avg_pool1d(2), x, &places),
            "nn_pool_forward: the module is a AvgPool1d; expected a "
            "max-pooling layer, such as nn_max_pool2d");
    refused(tn_nn_pool_forward(tn_nn_relu(), x, &places),
            "nn_pool_forward: the module is a ReLU; expected a max-pooling "
            "layer, such as nn_max_pool2d");
    ok(!places, "no indices of those");
    ok(!tn_forward(tn_nn_adaptive_log_softmax_with_loss(4, 5, tn_dims(2)),
                    tn_randn(tn_dims(2, 4)),
                    tn_full(tn_dims(2), 5, .dtype = TN_I64)),
       "a class that there is not");
    is_str(tn_error(), "AdaptiveLogSoftmaxWithLoss: 2 targets are outside "
                       "[0, 5)", "is refused");
    tn_error_clear();
    ok(!tn_forward(tn_nn_softmax2d(), tn_ones(tn_dims(2, 2))) &&
           strstr(tn_error(), "Softmax2d: input (2, 2): expected (N, C, H, W) "
                              "or (C, H, W)"),
       "a shape is refused: %s", tn_error());
    tn_error_clear();
}

/* ---- printed form and behaviour ------------------------------------------ */

static void prints(tn_module *layer, const char *want)
{
    char text[400] = "";
    FILE *file = fmemopen(text, sizeof text, "w");
    tn_module_print(file, layer);
    fclose(file);
    text[strcspn(text, "\n")] = '\0';
    is_str(text, want, "printed as PyTorch prints it");
}

static void test_print(void)
{
    prints(tn_nn_max_pool1d(3),
           "MaxPool1d(kernel_size=3, stride=3, padding=0, dilation=1, "
           "ceil_mode=False)");
    prints(tn_nn_max_pool3d(TN_NONE_INT, .kernel_sizes = tn_dims(1, 2, 2),
                            .paddings = tn_dims(0, 1, 1)),
           "MaxPool3d(kernel_size=(1, 2, 2), stride=(1, 2, 2), padding=(0, 1, "
           "1), dilation=1, ceil_mode=False)");
    prints(tn_nn_avg_pool1d(2),
           "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))");
    prints(tn_nn_max_unpool3d(2, .stride = 3),
           "MaxUnpool3d(kernel_size=(2, 2, 2), stride=(3, 3, 3), padding=(0, "
           "0, 0))");
    prints(tn_nn_lp_pool3d(1.5, 2),
           "LPPool3d(norm_type=1.5, kernel_size=2, stride=None, "
           "ceil_mode=False)");
    prints(tn_nn_adaptive_avg_pool1d(5), "AdaptiveAvgPool1d(output_size=5)");
    prints(tn_nn_adaptive_avg_pool3d(5, TN_NONE_INT, 3),
           "AdaptiveAvgPool3d(output_size=(5, None, 3))");
    prints(tn_nn_conv1d(4, 2, 3, .padding = 2, .padding_mode = "reflect",
                        .bias = false),
           "Conv1d(4, 2, kernel_size=(3,), stride=(1,), padding=(2,), "
           "bias=False, padding_mode=reflect)");
    prints(tn_nn_conv_transpose3d(4, 2, 3, .dilation = 2, .groups = 2,
                                  .output_padding = 1),
           "ConvTranspose3d(4, 2, kernel_size=(3, 3, 3), stride=(1, 1, 1), "
           "dilation=(2, 2, 2), output_padding=(1, 1, 1), groups=2)");
    prints(tn_nn_zero_pad1d(tn_dims(2)), "ZeroPad1d((2, 2))");
    prints(tn_nn_constant_pad2d(tn_dims(1), 3.5),
           "ConstantPad2d(padding=(1, 1, 1, 1), value=3.5)");
    prints(tn_nn_fold(tn_dims(4, 5), 2),
           "Fold(output_size=(4, 5), kernel_size=2, dilation=1, padding=0, "
           "stride=1)");
    prints(tn_nn_unflatten(1, tn_dims(2, 5)),
           "Unflatten(dim=1, unflattened_size=(2, 5))");
    prints(tn_nn_flatten(), "Flatten(start_dim=1, end_dim=-1)");
    prints(tn_nn_upsampling_nearest2d(TN_NONE_FLOAT,
                                      .output_sizes = tn_dims(3, 4)),
           "UpsamplingNearest2d(size=(3, 4), mode='nearest')");
    prints(tn_nn_upsampling_bilinear2d(2),
           "UpsamplingBilinear2d(scale_factor=2.0, mode='bilinear')");
    prints(tn_nn_local_response_norm(2),
           "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)");
    prints(tn_nn_rrelu(), "RReLU(lower=0.125, upper=0.3333333333333333)");
    prints(tn_nn_softplus(1, 20), "Softplus(beta=1.0, threshold=20.0)");
    prints(tn_nn_softmax(-1), "Softmax(dim=-1)");
    prints(tn_nn_dropout2d(0.25), "Dropout2d(p=0.25, inplace=False)");
    prints(tn_nn_cross_entropy_loss(), "CrossEntropyLoss()");
}

static tn_tensor *city_block(tn_tensor *a, tn_tensor *b, void *context)
{
    ++*(int *)context;
    return tn_sum(tn_abs(tn_sub(a, b)), .dim = -1);
}

static void test_values(void)
{
    tn_tensor *x = tn_reshape(tn_arange(0, 8, 1), tn_dims(1, 1, 8)), *at = NULL;
    tn_tensor *y = tn_nn_pool_forward(tn_nn_max_pool1d(2), x, &at);
    is_double_near(tn_item(tn_sum(y)), 1 + 3 + 5 + 7, 0, "maxima of pairs");
    is_int(tn_item_int(tn_sum(at)), 1 + 3 + 5 + 7, "and where they are");
    y = tn_forward(tn_nn_max_unpool1d(2), y, at);
    is_double_near(tn_item(tn_sum(tn_mul(y, x))), 1 + 9 + 25 + 49, 0,
                   "put back there");

    int calls = 0;
    tn_module *loss = tn_nn_triplet_margin_with_distance_loss(
        .distance_function = city_block, .context = &calls, .margin = 2,
        .swap = true);
    tn_tensor *zeros = tn_zeros(tn_dims(2, 3)), *ones = tn_ones(tn_dims(2, 3));
    is_double_near(tn_item(tn_forward(loss, zeros, ones,
                                       tn_mul_scalar(ones, 2))),
                   2 + 3 - 3, 1e-6, "a distance of the caller");
    is_int(calls, 3, "is called three times");

    tn_module *soft =
        tn_nn_adaptive_log_softmax_with_loss(16, 12, tn_dims(3, 7));
    x = tn_randn(tn_dims(5, 16));
    tn_tensor *all = tn_forward(soft, x), *mean = NULL;
    tn_tensor *target = tn_arange(2, 12, 2, .dtype = TN_I64);
    tn_tensor *own =
        tn_nn_adaptive_log_softmax_forward(soft, x, target, &mean);
    tn_tensor *same = tn_squeeze(
        tn_gather(all, 1, tn_unsqueeze(target, 1)), .dim = 1);
    is_double_near(tn_item(tn_sum(tn_exp(all))), 5, 1e-5,
                   "probabilities sum to 1");
    ok(tn_item(tn_max(tn_abs(tn_sub(own, same)))) < 1e-5,
       "those of the targets are among them");
    is_double_near(tn_item(mean), -tn_item(tn_mean(own)), 1e-6,
                   "the loss is their mean");

    /* A loss keeps tensors in buffers, which move to another device and are
     * saved with it. */
    loss = tn_nn_nll_loss(.weight = tn_full(tn_dims(3), 2.0));
    ok(tn_module_buffer(loss, "weight"), "a weight is a buffer");
    TN_NO_GRAD {
        tn_mul_scalar_(tn_module_buffer(loss, "weight"), 2);
    }
    y = tn_forward(tn_nn_nll_loss(.weight = tn_full(tn_dims(3), 4.0),
                                   .reduction = "sum"),
                    tn_neg(tn_ones(tn_dims(1, 3))),
                    tn_zeros(tn_dims(1), .dtype = TN_I64));
    is_double_near(tn_item(y), 4, 0, "and weighs");
}

/* ---- random layers ------------------------------------------------------ */

/* Checks that the mean is within five standard errors of want. */
static void near(double mean, double want, double sigma, double count,
                 const char *fact)
{
    double allowed = 5 * sigma / sqrt(count) + 1e-6;
    ok(fabs(mean - want) <= allowed, "%s: %g, wanted %g +- %g", fact, mean,
       want, allowed);
}

static double mean_of(tn_tensor *x)
{
    return tn_item(tn_mean(x));
}

static double variance_of(tn_tensor *x)
{
    return tn_item(tn_var(x));
}

/* Tests dropout of whole channels: a share p of them is 0; the others are
 * constant and scaled. */
static void test_channels(tn_module *layer, tn_dims_list shape, int channel_dims,
                          double p)
{
    tn_tensor *y = tn_forward(layer, tn_ones(shape));
    int64_t channels = channel_dims == 2 ? shape.dim[0] * shape.dim[1]
                                         : shape.dim[0];
    tn_tensor *rows = tn_reshape(y, tn_dims(channels, -1));
    tn_tensor *spread =
        tn_sub(tn_amax(rows, .dim = 1), tn_amin(rows, .dim = 1));
    is_double_near(tn_item(tn_max(spread)), 0, 0, "whole channels");
    is_double_near(tn_item(tn_max(y)), 1 / (1 - p), 1e-6, "scaled by 1/(1-p)");
    tn_tensor *dropped = tn_to_dtype(tn_eq_scalar(rows, 0), TN_F32);
    near(mean_of(dropped), p, sqrt(p * (1 - p)), (double)channels,
         "the share of dropped channels");
    tn_module_eval(layer);
    is_double_near(tn_item(tn_min(tn_forward(layer, tn_ones(shape)))), 1, 0,
                   "nothing is dropped outside of training");
}

static void test_alpha(bool channels)
{
    const double p = 0.3, limit = -1.7580993408473766;
    const double a = 1 / sqrt((limit * limit * p + 1) * (1 - p));
    const double low = limit * a - limit * a * p;
    tn_module *layer = channels ? tn_nn_feature_alpha_dropout(p)
                                : tn_nn_alpha_dropout(p);
    tn_tensor *x = tn_randn(tn_dims(100, 400, 4));
    tn_tensor *y = tn_forward(layer, x);
    double count = channels ? 40000 : 160000;
    near(mean_of(y), 0, 1, count, "alpha dropout keeps the mean");
    near(variance_of(y), 1, 2, count, "and the variance");
    /* For positive inputs, only dropped elements have the minimum value. */
    y = tn_forward(layer, tn_add_scalar(tn_abs(x), 1));
    tn_tensor *dropped = tn_to_dtype(
        tn_lt_scalar(tn_abs(tn_sub_scalar(y, low)), 1e-5), TN_F32);
    near(mean_of(dropped), p, sqrt(p * (1 - p)), count,
         "the share of elements at the limit");
    tn_tensor *together = tn_sum(dropped, .dim = 2);
    tn_tensor *partly = tn_logical_and(tn_gt_scalar(together, 0),
                                       tn_lt_scalar(together, 4));
    is_int(tn_item_int(tn_sum(partly)) > 0, !channels,
           channels ? "whole channels" : "elements one by one");
    is_double_near(tn_item(tn_max(tn_abs(tn_sub(
                       tn_forward(tn_module_eval(layer), x), x)))),
                   0, 0, "nothing outside of training");
}

static void test_rrelu(void)
{
    tn_module *layer = tn_nn_rrelu(.lower = 0.1, .upper = 0.5);
    tn_tensor *slope = tn_neg(tn_forward(layer, tn_neg(tn_ones(tn_dims(90000)))));
    near(mean_of(slope), 0.3, 0.4 / sqrt(12), 90000, "mean of rrelu's slopes");
    near(variance_of(slope), 0.16 / 12, 0.16 / 12, 90000, "their variance");
    ok(tn_item(tn_min(slope)) >= 0.1f && tn_item(tn_max(slope)) <= 0.5,
       "they are in [0.1, 0.5]");
    /* The Kolmogorov-Smirnov test: the distance from the uniform distribution
     * exceeds 1.95 / sqrt(n) in one of 1000 runs. */
    tn_tensor *order, *sorted = tn_sort(slope, 0, false, &order);
    tn_tensor *want = tn_add_scalar(
        tn_mul_scalar(tn_arange(0, 90000, 1), 0.4 / 90000), 0.1);
    (void)order;
    double distance =
        tn_item(tn_max(tn_abs(tn_sub(sorted, want)))) / 0.4;
    ok(distance < 2.5 / 300, "uniform: the distance is %g", distance);
    tn_tensor *x = tn_requires_grad(tn_randn(tn_dims(50)));
    tn_tensor *y = tn_forward(layer, x);
    ok(tn_backward(tn_sum(y)) == TN_OK, "backward");
    ok(tn_item(tn_max(tn_abs(tn_sub(tn_mul(tn_tensor_grad(x), x), y)))) < 1e-6,
       "the gradient has the slopes of the forward");
}

/* Each result is the maximum of its window, and over many draws every window
 * position occurs. */
static void test_fractional(tn_module *layer, tn_dims_list shape, int axes,
                            int64_t out)
{
    int64_t n = 1;
    for (int i = 0; i < shape.count; i++)
        n *= shape.dim[i];
    tn_tensor *x = tn_reshape(tn_arange(0, (double)n, 1), shape), *at = NULL;
    tn_tensor *y = tn_nn_pool_forward(layer, x, &at);
    int64_t plane = n / (shape.dim[0] * shape.dim[1]);
    for (int i = 0; i < axes; i++)
        is_int(tn_tensor_size(y, 2 + i), out, "the size of axis %d", i);
    /* If the input increases, the last element of a window is its maximum. */
    tn_tensor *base = tn_reshape(
        tn_mul_scalar(tn_arange(0, (double)(n / plane), 1), plane),
        tn_dims(shape.dim[0], shape.dim[1], 1));
    tn_tensor *found = tn_add(
        tn_reshape(tn_to_dtype(at, TN_F32),
                   tn_dims(shape.dim[0], shape.dim[1], -1)),
        base);
    is_double_near(
        tn_item(tn_max(tn_abs(tn_sub(
            found, tn_reshape(y, tn_dims(shape.dim[0], shape.dim[1], -1)))))),
        0, 0, "the indices are those of the maxima");
    double least = tn_item(tn_min(y)), mean = mean_of(y);
    bool differs = false;
    double sum = 0;
    for (int i = 0; i < 64; i++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *again = tn_forward(layer, x);
        differs = differs || tn_item(tn_min(again)) != least ||
                  mean_of(again) != mean;
        sum += mean_of(again) / 64;
        tn_scope_close(scope);
    }
    ok(differs, "the windows are drawn anew");
    ok(sum > 0.4 * (double)n && sum < 0.75 * (double)n,
       "they cover the input evenly: the mean is %g of %lld", sum,
       (long long)n);
}

static void misshapen(const tn_tensor *made, const char *message)
{
    ok(!made, "refused: %s", message);
    is_int(tn_error_code(), TN_ERR_SHAPE, "a wrong shape");
    is_str(tn_error(), message, "the message");
    tn_error_clear();
}

/* Options with a number for each axis, and options without effect. */
static void test_more_options(void)
{
    const double ratios[] = {0.5, 0.75, 0.25}, bad[] = {0.5, -1},
                 factors[] = {2, 1.5};
    tn_tensor *x = tn_forward(
        tn_nn_fractional_max_pool2d(2, .output_ratios = ratios),
        tn_ones(tn_dims(1, 2, 8, 8)));
    ok(tn_tensor_size(x, 2) == 4 && tn_tensor_size(x, 3) == 6,
       "output_ratios has a ratio for each axis (%s)", tn_error());
    x = tn_forward(tn_nn_fractional_max_pool3d(2, .output_ratios = ratios),
                   tn_ones(tn_dims(1, 2, 8, 8, 8)));
    ok(tn_tensor_size(x, 2) == 4 && tn_tensor_size(x, 4) == 2, "also of volumes");
    refused(tn_nn_fractional_max_pool2d(2, .output_ratios = bad),
            "nn_fractional_max_pool2d: output_ratio is -1; expected a number "
            "greater than 0");
    refused(tn_nn_fractional_max_pool2d(2, .output_ratio = 0.5,
                                        .output_ratios = ratios),
            "nn_fractional_max_pool2d: give output_ratio or output_ratios, not "
            "both");
    refused(tn_nn_fractional_max_pool2d(2, .output_size = 3,
                                        .output_ratios = ratios),
            "nn_fractional_max_pool2d: give output_size or output_ratio, not "
            "both");
    tn_module *up = tn_nn_upsample(TN_NONE_FLOAT, .scale_factors = factors,
                                   .scale_factor_count = 2);
    misshapen(tn_forward(up, tn_ones(tn_dims(1, 1, 2, 3))),
            "nn_upsample: input (1, 1, 2, 3): its sizes times different "
            "scale_factors are not whole numbers: give output_sizes");
    misshapen(tn_forward(up, tn_ones(tn_dims(1, 1, 2))),
            "nn_upsample: input (1, 1, 2): expected (N, C) and a dimension for "
            "each of its scale_factors");
    refused(tn_nn_upsample(2, .scale_factors = factors,
                           .scale_factor_count = 2),
            "nn_upsample: give scale_factors, scale_factor or output_size: pass "
            "TN_NONE_FLOAT for no scale_factor");
    refused(tn_nn_upsample(TN_NONE_FLOAT, .scale_factors = factors),
            "nn_upsample: expected scale_factors and a scale_factor_count of 1 "
            "to 3");
    refused(tn_nn_upsample(TN_NONE_FLOAT, .scale_factors = bad,
                           .scale_factor_count = 2),
            "nn_upsample: scale_factors are positive numbers");
    refused(tn_nn_embedding(4, 3, .norm_type = 1),
            "nn_embedding: .norm_type has no effect without max_norm: give "
            "max_norm, or leave .norm_type out");
    refused(tn_nn_batch_norm1d(3, .affine = false, .bias = false),
            "nn_batch_norm1d: .bias has no effect without affine: give affine, "
            "or leave .bias out");
    refused(tn_nn_instance_norm2d(3, .bias = false),
            "nn_instance_norm2d: .bias has no effect without affine: give "
            "affine, or leave .bias out");
}

int main(void)
{
    const uint64_t seed = 20261127;
    tn_manual_seed(seed);
    printf("# seed %llu\n", (unsigned long long)seed);
    test_sizes();
    test_convolutions();
    test_losses();
    test_inputs();
    test_print();
    test_values();
    test_channels(tn_nn_dropout1d(0.3), tn_dims(40, 50, 6), 2, 0.3);
    test_channels(tn_nn_dropout1d(0.3), tn_dims(2000, 6), 1, 0.3);
    test_channels(tn_nn_dropout2d(0.5), tn_dims(40, 50, 2, 3), 2, 0.5);
    test_channels(tn_nn_dropout3d(0.2), tn_dims(40, 50, 2, 1, 2), 2, 0.2);
    test_channels(tn_nn_dropout3d(0.2), tn_dims(2000, 2, 1, 2), 1, 0.2);
    test_alpha(false);
    test_alpha(true);
    test_rrelu();
    test_fractional(tn_nn_fractional_max_pool2d(2, .output_size = 5),
                    tn_dims(2, 3, 12, 12), 2, 5);
    test_fractional(tn_nn_fractional_max_pool2d(2, .output_ratio = 0.6),
                    tn_dims(2, 3, 12, 12), 2, 7);
    test_fractional(tn_nn_fractional_max_pool3d(2, .output_size = 4),
                    tn_dims(2, 2, 9, 9, 9), 3, 4);
    test_more_options();
    is_str(tn_error(), NULL, "no error is left");
    return done_testing();
}
