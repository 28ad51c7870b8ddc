/* Tests wrong calls of padding, pooling, interpolation and 3-d operators, with
 * the exact error messages. */
#include <tap.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

static void refused(const void *got, tn_status code, const char *want)
{
    bool told = got == NULL && tn_error_code() == code;
    is_str(told ? tn_error() : got ? "(a result)" : tn_error(), want, "%s",
           want);
    tn_error_clear();
}

int main(void)
{
    plan_later();
    tn_tensor *seq = tn_ones(tn_dims(1, 2, 6)), *v = tn_ones(tn_dims(3));
    tn_tensor *img = tn_ones(tn_dims(1, 2, 4, 4));
    tn_tensor *vol = tn_ones(tn_dims(1, 2, 3, 4, 4));
    tn_tensor *w = tn_ones(tn_dims(2, 2, 2, 2, 2));

    refused(tn_pad(seq, tn_dims(1)), TN_ERR_ARGUMENT,
            "pad: pad is (1,) for input (1, 2, 6); expected two numbers for "
            "each dimension to pad, from the last dimension on");
    refused(tn_pad(seq, tn_dims(-4, -4)), TN_ERR_SHAPE,
            "pad: pad (-4, -4) removes more elements than there are in "
            "dimension 2 of input (1, 2, 6)");
    refused(tn_pad(seq, tn_dims(6, 0), .mode = "reflect"), TN_ERR_SHAPE,
            "pad: pad (6, 0) with mode reflect is too much for dimension 2 of "
            "size 6: reflect allows less than the size, circular at most the "
            "size");
    refused(tn_pad(seq, tn_dims(-6, 3), .mode = "circular"), TN_ERR_SHAPE,
            "pad: pad (-6, 3) with mode circular is too much for dimension 2 "
            "of size 6: reflect allows less than the size, circular at most "
            "the size");
    refused(tn_pad(seq, tn_dims(1, 1), .mode = "wrap"), TN_ERR_ARGUMENT,
            "pad: mode is \"wrap\"; it must be constant, reflect, replicate or "
            "circular");
    refused(tn_unfold(v, 0, 4, 1), TN_ERR_ARGUMENT,
            "unfold: size is 4 and step 1 for a dimension of 3 elements; "
            "expected windows that fit into it, and a step of at least 1");
    refused(tn_unfold(v, 0, 2, 0), TN_ERR_ARGUMENT,
            "unfold: size is 2 and step 0 for a dimension of 3 elements; "
            "expected windows that fit into it, and a step of at least 1");
    refused(tn_fold(seq, tn_dims(4, 4), tn_dims(2, 2)), TN_ERR_SHAPE,
            "fold: input (1, 2, 6); expected (N, C * 4, 9)");
    /* sums of bytes wrap as bytes, at every pixel: corners 1, edges 2, the
     * middle 4 */
    tn_tensor *image = tn_fold(tn_ones(tn_dims(1, 4, 9), .dtype = TN_U8),
                               tn_dims(4, 4), tn_dims(2, 2));
    is_int(tn_tensor_dtype(image), TN_U8, "fold of bytes gives bytes");
    is_int(tn_item_int(tn_sum(image)), 36, "and adds up all of them");
    refused(tn_max_pool1d(img, tn_dims(2)), TN_ERR_SHAPE,
            "max_pool1d: input has shape (1, 2, 4, 4); expected 2 dimensions, "
            "or 3 with a batch");
    refused(tn_max_pool3d(vol, tn_dims(4)), TN_ERR_SHAPE,
            "max_pool3d: kernel_size spans 4 elements, but the padded input "
            "has only 3");
    refused(tn_avg_pool3d(vol, tn_dims(2, 2)), TN_ERR_ARGUMENT,
            "avg_pool3d: kernel_size is (2, 2); expected one number, or 3, one "
            "for each dimension");
    refused(tn_adaptive_avg_pool1d(seq, tn_dims(-3)), TN_ERR_ARGUMENT,
            "adaptive_avg_pool1d: output_size -3 is negative; TN_NONE_INT "
            "keeps a size");
    refused(tn_max_unpool1d(seq, tn_ones(tn_dims(1, 2, 5), .dtype = TN_I64),
                            tn_dims(2)), TN_ERR_SHAPE,
            "max_unpool1d: input (1, 2, 6) and indices (1, 2, 5) differ: "
            "expected one shape");
    tn_tensor *place = tn_zeros(tn_dims(1, 2, 6), .dtype = TN_I64);
    refused(tn_max_unpool1d(seq, place, tn_dims(2), .output_sizes = tn_dims(10)),
            TN_ERR_SHAPE, "max_unpool1d: output_size is 10; sizes from 11 to "
            "13 are pooled to 6 by kernel_size 2, stride 2 and padding 0");
    refused(tn_max_unpool1d(seq, place, tn_dims(2),
                            .output_sizes = tn_dims(1, 2)),
            TN_ERR_ARGUMENT,
            "max_unpool1d: output_size is (1, 2) for input (1, 2, 6); expected "
            "one number for each dimension, or for each one that is unpooled");
    refused(tn_max_unpool1d(seq, place, tn_dims(2), .stride = -1),
            TN_ERR_ARGUMENT, "max_unpool1d: kernel_size is 2, stride -1 and "
                             "padding 0; expected at least 1, 1 and 0");
    refused(tn_max_unpool1d(seq, tn_full_like(place, 12), tn_dims(2)),
            TN_ERR_INDEX, "max_unpool1d: indices 12 at position (0, 0, 0) is "
            "outside [0, 12)");
    refused(tn_max_unpool2d(img, tn_zeros_like(img, .dtype = TN_I64),
                            tn_dims(2),
                            .output_sizes = tn_dims(INT64_MAX, INT64_MAX)),
            TN_ERR_SHAPE, "max_unpool2d: output_size is 9223372036854775807; "
            "sizes from 7 to 9 are pooled to 4 by kernel_size 2, stride 2 and "
            "padding 0");
    refused(tn_interpolate(seq, TN_SCALAR), TN_ERR_ARGUMENT,
            "interpolate: neither size nor scale_factor is given: give one of "
            "them");
    refused(tn_interpolate(seq, tn_dims(3), .mode = "bilinear"), TN_ERR_SHAPE,
            "interpolate: input has shape (1, 2, 6); for mode \"bilinear\" it "
            "must be (N, C, ...) with 4 dimensions");
    refused(tn_interpolate(seq, tn_dims(3), .mode = "best"), TN_ERR_ARGUMENT,
            "interpolate: mode is \"best\"; it must be nearest, nearest-exact, "
            "linear, bilinear, trilinear, bicubic or area");
    refused(tn_interpolate(seq, TN_SCALAR, .scale_factor = 0.1), TN_ERR_SHAPE,
            "interpolate: a dimension of 6 elements cannot be resized to 0; "
            "expected at least 1 for both");
    refused(tn_conv3d(img, w, NULL), TN_ERR_SHAPE,
            "conv3d: input has shape (1, 2, 4, 4), weight (2, 2, 2, 2, 2) and "
            "groups is 1; expected a dilated kernel no deeper than the "
            "padded input, and as many channels as the second size of weight "
            "times groups");
    refused(tn_conv3d(vol, w, NULL, .stride = 2, .padding_rule = "same"),
            TN_ERR_ARGUMENT,
            "conv3d: padding \"same\" requires stride 1, not 2");
    refused(tn_conv_transpose3d(vol, w, NULL, .output_padding = 1),
            TN_ERR_ARGUMENT,
            "conv_transpose3d: output_padding 1 is not below stride 1 or "
            "dilation 1");
    refused(tn_local_response_norm(v, 2), TN_ERR_SHAPE,
            "local_response_norm: size is 2 and input has shape (3,); expected "
            "a size of at least 1, and (N, C, ...) with at least 3 dimensions");
    refused(tn_pixel_unshuffle(img, 3), TN_ERR_SHAPE,
            "pixel_unshuffle: input has shape (1, 2, 4, 4); expected (..., C, "
            "H * r, W * r), where the downscale_factor r is 3 and must be at "
            "least 1");
    refused(tn_channel_shuffle(img, 3), TN_ERR_SHAPE,
            "channel_shuffle: groups is 3; expected a divisor of the channels "
            "C of input (N, C, L, ...), which has shape (1, 2, 4, 4)");
    refused(tn_nn_upsample(0.0), TN_ERR_ARGUMENT,
            "nn_upsample: scale_factor is 0; expected a finite number above 0");
    return done_testing();
}
