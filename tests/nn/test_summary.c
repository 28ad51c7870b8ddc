/* test_summary.c: tests the table and the totals of tn_summary. */
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include "tap.h"

static void refused(bool did, tn_status code, const char *message)
{
    ok(!did, "refused: %s", message);
    is_int(tn_error_code(), code, "its code");
    is_str(tn_error(), message, "the message");
    tn_error_clear();
}

static void test_table(void)
{
    tn_module *net = tn_nn_sequential(
        tn_nn_conv2d(3, 4, 3, .padding = 1), tn_nn_batch_norm2d(4),
        tn_nn_relu(), tn_nn_flatten(), tn_nn_linear(4 * 8 * 8, 10),
        tn_nn_relu());
    tn_module_train(tn_module_child(net, "1"), false);
    tn_summary_totals totals;
    FILE *file = tmpfile();
    is_int(tn_summary(file, net, tn_dims(2, 3, 8, 8), .totals = &totals),
           TN_OK, "a summary: %s", tn_error() ? tn_error() : "");
    char text[2000] = "";
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    /* multiply-adds: conv has 2 * 8 * 8 * 4 outputs of 3 * 3 * 3 products;
     * linear has 2 * 10 outputs of 256 products */
    is_str(text,
           "Layer             Output shape    Parameters    Multiply-adds\n"
           "Sequential        (2, 10)                                    \n"
           "  0: Conv2d       (2, 4, 8, 8)           112            13824\n"
           "  1: BatchNorm2d  (2, 4, 8, 8)             8                 \n"
           "  2: ReLU         (2, 4, 8, 8)                               \n"
           "  3: Flatten      (2, 256)                                   \n"
           "  4: Linear       (2, 10)               2570             5120\n"
           "  5: ReLU         (2, 10)                                    \n"
           "Parameters: 2690 (2690 trainable), 0.01 MB; buffers: 0.00 MB\n"
           "Outputs: 0.01 MB; multiply-adds: 18944\n",
           "the table");
    ok(totals.size == sizeof totals && totals.parameters == 2690 &&
           totals.parameter_bytes == 4 * 2690 &&
           totals.buffer_bytes == 4 * 4 * 2 + 8,
       "the totals of parameters and buffers");
    is_int(totals.output_bytes, 4 * (4 * 512 + 2 * 20),
           "the outputs of layers");
    ok(net->training && !tn_module_child(net, "1")->training,
       "training modes are as before");
    is_double_near(tn_item(tn_module_buffer(net, "1.num_batches_tracked")), 0,
                   0, "buffers, too");
}

static int64_t multiply_adds(tn_module *net, tn_tensor **inputs, int count)
{
    tn_summary_totals totals = {0};
    tn_summary(NULL, net, TN_SCALAR, .inputs = inputs, .input_count = count,
               .totals = &totals);
    return totals.multiply_adds;
}

static void test_operations(void)
{
    tn_tensor *x = tn_ones(tn_dims(5, 2, 8)), *y = tn_ones(tn_dims(7, 2, 8));
    tn_tensor *image = tn_ones(tn_dims(2, 4, 6, 6));
    is_int(multiply_adds(tn_nn_conv2d(4, 6, 3, .groups = 2), &image, 1),
           2 * 6 * 4 * 4 * 2 * 9, "a grouped convolution");
    is_int(multiply_adds(tn_nn_conv_transpose2d(4, 6, 2, .stride = 2), &image,
                         1),
           2 * 4 * 6 * 6 * 6 * 4, "a transposed convolution");
    is_int(multiply_adds(tn_nn_lstm(8, 16), &x, 1),
           5 * 2 * 4 * 16 * (8 + 16), "an LSTM");
    is_int(multiply_adds(tn_nn_multihead_attention(8, 2),
                         (tn_tensor *[]){x, y, y}, 3),
           10 * 64 + 2 * 14 * 64 + 2 * 10 * 7 * 8 + 10 * 64,
           "attention: four projections, scores and values");
    tn_summary_totals totals;
    tn_module *words = tn_nn_sequential(tn_nn_embedding(10, 4),
                                        tn_nn_linear(4, 3));
    tn_module_set_requires_grad(tn_module_child(words, "0"), false);
    is_int(tn_summary(NULL, words, tn_dims(2, 7), .dtype = TN_I64,
                      .totals = &totals),
           TN_OK, "an embedding");
    ok(totals.multiply_adds == 14 * 12 && totals.parameters == 55 &&
           totals.trainable == 15,
       "frozen parameters are not trainable");
}

static void test_mistakes(void)
{
    tn_module *net = tn_nn_linear(2, 2);
    tn_summary_totals totals = {.parameters = -1};
    tn_tensor *x = tn_ones(tn_dims(2));
    refused(tn_summary(NULL, net, tn_dims(2)) >= 0, TN_ERR_ARGUMENT,
            "summary: file is NULL");
    refused(tn_summary(stderr, NULL, tn_dims(2)) >= 0, TN_ERR_ARGUMENT,
            "summary: module is NULL");
    ok(tn_summary(NULL, net, tn_dims(3), .totals = &totals) == TN_ERR_SHAPE,
       "a shape that does not fit: %s", tn_error());
    tn_error_clear();
    is_int(totals.parameters, -1, "the totals are not set");
    refused(tn_summary(NULL, net, tn_dims(2), .inputs = &x, .input_count = 1,
                       .dtype = TN_F64, .totals = &totals) >= 0,
            TN_ERR_ARGUMENT,
            "summary: .dtype has no effect beside inputs: give inputs of that "
            "dtype, or leave .dtype out");
    refused(tn_summary(NULL, net, tn_dims(2), .inputs = &x, .input_count = 2,
                       .totals = &totals) >= 0,
            TN_ERR_ARGUMENT, "Linear: 2 inputs are given, but its signature is "
                             "\"input -> output\"");
}

int main(void)
{
    tap_find_plugin();
    test_table();
    test_operations();
    test_mistakes();
    ok(!tn_error(), "no error is pending: %s", tn_error() ? tn_error() : "");
    return done_testing();
}
