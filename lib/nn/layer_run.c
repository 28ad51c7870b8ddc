/* layer_run.c: layers of layers.def that call several operators: padding,
 * random layers, and norms and softmax over channels. */
#include <nn/layer.h>

#include <math.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

TN__NN_SMALL static const tn_dims_list *list_of(const tn__nn_layer *layer)
{
    return &layer->setting[0].list;
}

TN__NN_SMALL static double number_of(const tn__nn_layer *layer, int i)
{
    return layer->setting[i].value.of.f;
}

TN__NN_SMALL static bool check_ndim(const tn__nn_layer *layer, tn_tensor *input,
                                    int least, int most, const char *wanted)
{
    char text[TN__NN_SHAPE_TEXT];
    int ndim = tn_tensor_ndim(input);
    if (ndim >= least && ndim <= most)
        return true;
    tn_error_refuse(TN_ERR_SHAPE, layer->base.type->name,
                    &(tn_given){"input", input}, 1, "input %s: expected %s",
                    tn__nn_shape_text(text, input), wanted);
    return false;
}

/* ---- padding ------------------------------------------------------------ */

TN__NN_SMALL static tn_tensor *pad(const tn__nn_layer *layer, tn_tensor *input,
                                   const char *mode, double value)
{
    tn_dims_list sides = *list_of(layer);
    for (; sides.count < 2 * layer->row->axes; sides.count++)
        sides.dim[sides.count] = sides.dim[0];
    return tn_pad(input, sides, .mode = mode, .value = value);
}

TN__NN_SMALL tn_tensor *tn__nn_pad_constant(tn__nn_layer *layer,
                                            tn_tensor *input)
{
    return pad(layer, input, "constant",
               layer->count > 1 ? number_of(layer, 1) : 0);
}

TN__NN_SMALL tn_tensor *tn__nn_pad_reflect(tn__nn_layer *layer,
                                           tn_tensor *input)
{
    return pad(layer, input, "reflect", 0);
}

TN__NN_SMALL tn_tensor *tn__nn_pad_replicate(tn__nn_layer *layer,
                                             tn_tensor *input)
{
    return pad(layer, input, "replicate", 0);
}

TN__NN_SMALL tn_tensor *tn__nn_pad_circular(tn__nn_layer *layer,
                                            tn_tensor *input)
{
    return pad(layer, input, "circular", 0);
}

/* ---- over channels ------------------------------------------------------ */

TN__NN_SMALL tn_tensor *tn__nn_softmax2d(tn__nn_layer *layer, tn_tensor *input)
{
    return check_ndim(layer, input, 3, 4, "(N, C, H, W) or (C, H, W)")
               ? tn_softmax(input, -3)
               : NULL;
}

/* PyTorch computes the sum over neighbouring channels as a sliding sum: it adds
 * the square that enters the window and subtracts the one that leaves it, but
 * never subtracts that of channel 0. To give the same result, this function
 * adds the square of channel 0 to the sums of all channels whose window has
 * passed it. */
TN__NN_SMALL tn_tensor *tn__nn_cross_map(tn__nn_layer *layer, tn_tensor *input)
{
    if (!check_ndim(layer, input, 4, 4, "(N, C, H, W)"))
        return NULL;
    const int64_t size = layer->setting[0].value.of.i;
    const int64_t channels = tn_tensor_size(input, 1);
    int64_t half = (size - 1) / 2;
    half = half < channels ? half : channels;
    tn_tensor *square = tn_mul(input, input);
    tn_tensor *wide =
        tn_pad(square, tn_dims(0, 0, 0, 0, half, half), .mode = "constant");
    tn_tensor *sum = tn_sum(tn_unfold(wide, 1, 2 * half + 1, 1), .dim = -1);
    tn_tensor *behind = tn_gt_scalar(
        tn_arange(0, (double)channels, 1, .dtype = tn_tensor_dtype(input),
                  .device = tn_tensor_device(input)),
        half);
    behind = tn_reshape(behind, tn_dims(channels, 1, 1));
    sum = tn_add(sum, tn_mul(tn_narrow(square, 1, 0, 1), behind));
    sum = tn_add_scalar(tn_mul_scalar(sum, number_of(layer, 1) / (double)size),
                        number_of(layer, 3));
    return tn_mul(input, tn_pow_scalar(sum, -number_of(layer, 2)));
}

/* ---- random ------------------------------------------------------------- */

TN__NN_SMALL tn_tensor *tn__nn_rrelu(tn__nn_layer *layer, tn_tensor *input)
{
    double lower = number_of(layer, 0), upper = number_of(layer, 1);
    if (!layer->base.training)
        return tn_leaky_relu(input, .negative_slope = (lower + upper) / 2);
    tn_tensor *slope =
        tn_add_scalar(tn_mul_scalar(tn_rand_like(input), upper - lower), lower);
    return tn_where(tn_ge_scalar(input, 0), input, tn_mul(input, slope));
}

/* Returns ones with one element for each channel of each sample: (N, C, 1 ...),
 * or (C, 1 ...) without a batch. */
TN__NN_SMALL static tn_tensor *channel_ones(tn_tensor *input, bool batched)
{
    tn_dims_list shape = TN_SCALAR;
    for (int i = 0; i < tn_tensor_ndim(input); i++)
        shape.dim[shape.count++] =
            i == 0 || (i == 1 && batched) ? tn_tensor_size(input, i) : 1;
    return tn_ones(shape, .dtype = tn_tensor_dtype(input),
                   .device = tn_tensor_device(input));
}

TN__NN_SMALL tn_tensor *tn__nn_dropout_channels(tn__nn_layer *layer,
                                                tn_tensor *input)
{
    static const char *const wanted[] = {"(N, C, L) or (C, L)",
                                         "(N, C, H, W) or (N, C, L)",
                                         "(N, C, D, H, W) or (C, D, H, W)"};
    int axes = layer->row->axes;
    int ndim = tn_tensor_ndim(input);
    if (!check_ndim(layer, input, axes + 1, axes + 2, wanted[axes - 1]))
        return NULL;
    if (!layer->base.training)
        return input;
    tn_tensor *ones = channel_ones(input, axes == 2 || ndim == axes + 2);
    return tn_mul(input, tn_dropout(ones, number_of(layer, 0), true));
}

/* arXiv:1706.02515. A dropped element is set to SELU's limit for large negative
 * inputs, -lambda alpha. Then a scale and a shift restore mean 0 and variance
 * 1. */
TN__NN_SMALL tn_tensor *tn__nn_alpha_dropout(tn__nn_layer *layer,
                                             tn_tensor *input)
{
    const double limit = -1.7580993408473766, p = number_of(layer, 0);
    const bool channels = strcmp(layer->base.type->name, "AlphaDropout") != 0;
    if (channels && !check_ndim(layer, input, 2, TN_MAX_NDIM, "(N, C, ...)"))
        return NULL;
    if (!layer->base.training || p == 0)
        return input;
    if (p == 1)
        return tn_mul_scalar(input, 0.0);
    const double a = 1 / sqrt((limit * limit * p + 1) * (1 - p));
    tn_tensor *kept =
        channels ? channel_ones(input, true) : tn_ones_like(input);
    kept = tn_bernoulli(tn_mul_scalar(kept, 1 - p));
    tn_tensor *shift = tn_add_scalar(
        tn_mul_scalar(tn_add_scalar(kept, -1.0), -limit * a), -limit * a * p);
    return tn_add(tn_mul(input, tn_mul_scalar(kept, a)), shift);
}
