/* Tests wrong calls of operators, with the exact error messages. A message
 * names the operator, the argument, the values, and the remedy if there is
 * one. */
#include <tap.h>
#include <tenon/ops.h>
#include <tenon/random.h>

/* Checks that the call returned NULL and the error has this message. */
static void refused(const void *got, tn_status code, const char *want)
{
    bool told = got == NULL && tn_error_code() == code;
    is_str(told ? tn_error() : got ? "(a result)" : tn_error(), want, "%s",
           want);
    if (!told && tn_error())
        note("%s", tn_status_name(tn_error_code()));
    tn_error_clear();
}

/* Like rejected, for calls that return a status. */
static void refused_status(tn_status got, const char *want)
{
    ok(got < 0, "a negative status");
    is_str(tn_error(), want, "%s", want);
    tn_error_clear();
}

static tn_tensor *x, *v, *i, *img, *w;

/* Calls slice_backward, an operator that gradients use, by its name. */
static tn_tensor *slice_into(int64_t count, int64_t whole, int64_t start,
                             int64_t step)
{
    const tn_dims_list size = tn_dims(whole);
    const tn_value value[] = {
        {.kind = TN_VALUE_TENSOR, .of.tensor = tn_ones(tn_dims(count))},
        {.kind = TN_VALUE_DIMS, .of.dims = &size},
        {.kind = TN_VALUE_INT},
        {.kind = TN_VALUE_INT, .of.i = start},
        {.kind = TN_VALUE_INT, .of.i = step}};
    tn_tensor *out = NULL;
    tn_op_call(tn_op_find("slice_backward"), value, 5, &out, 1);
    return out;
}

static void check_slices(void)
{
    ok(slice_into(2, 4, 2, 1), "a slice of the last two of four");
    ok(slice_into(2, 4, 1, 2), "a slice from 1 with step 2");
    ok(slice_into(0, 4, 4, 1), "an empty slice at the end");
    refused(slice_into(3, 4, 2, 1), TN_ERR_SHAPE,
            "slice_backward: input has shape (3,), which is not that of the "
            "slice from 2 in steps of 1 along dim 0 of a tensor (4,)");
    refused(slice_into(2, 4, 2, 2), TN_ERR_SHAPE,
            "slice_backward: input has shape (2,), which is not that of the "
            "slice from 2 in steps of 2 along dim 0 of a tensor (4,)");
    refused(slice_into(1, 4, 4, 1), TN_ERR_SHAPE,
            "slice_backward: input has shape (1,), which is not that of the "
            "slice from 4 in steps of 1 along dim 0 of a tensor (4,)");
    refused(slice_into(0, 4, 5, 1), TN_ERR_SHAPE,
            "slice_backward: input has shape (0,), which is not that of the "
            "slice from 5 in steps of 1 along dim 0 of a tensor (4,)");
}

static void check_shapes(void)
{
    refused(tn_add(x, tn_ones(tn_dims(2))), TN_ERR_SHAPE,
            "add: shapes do not broadcast: input (2, 3), other (2,)");
    refused(tn_where(tn_gt_scalar(x, 0), x, tn_ones(tn_dims(4))), TN_ERR_SHAPE,
            "where: shapes do not broadcast: condition (2, 3), input (2, 3), "
            "other (4,)");
    refused(tn_matmul(x, x), TN_ERR_SHAPE,
            "matmul: inner sizes differ: input (2, 3) x other (2, 3)");
    refused(tn_matmul(x, tn_ones(TN_SCALAR)), TN_ERR_SHAPE,
            "matmul: an operand has no dimension: input (2, 3) x other ()");
    refused(tn_mm(x, v), TN_ERR_SHAPE,
            "mm: expected two matrices: input (2, 3) x mat2 (3,)");
    refused(tn_linear(x, tn_ones(tn_dims(4, 5)), NULL), TN_ERR_SHAPE,
            "linear: the last sizes differ: input (2, 3) x weight (4, 5)");
    refused(tn_reshape(x, tn_dims(4, 2)), TN_ERR_SHAPE,
            "reshape: shape (2, 3) with 6 elements does not fit shape (4, 2)");
    refused(tn_reshape(x, tn_dims(-1, -1)), TN_ERR_SHAPE,
            "reshape: shape (2, 3) with 6 elements does not fit shape (-1, "
            "-1)");
    refused(tn_view(tn_t(x), tn_dims(6)), TN_ERR_SHAPE,
            "view: no strides view the memory of (3, 2) as (6,); use "
            "tn_reshape, which copies");
    refused(tn_expand(x, tn_dims(2, 4)), TN_ERR_SHAPE,
            "expand: input (2, 3) does not expand to size (2, 4)");
    refused(tn_cat(((tn_tensor *[]){x, v}), 2, 0), TN_ERR_SHAPE,
            "cat: tensors[1] (3,) differs from tensors[0] (2, 3) in a "
            "dimension other than dim 0");
    refused(tn_stack(((tn_tensor *[]){x, v}), 2, 0), TN_ERR_SHAPE,
            "stack: tensors[1] (3,) does not have the shape of tensors[0] (2, "
            "3)");
    refused(tn_max_pool2d(img, TN_SCALAR), TN_ERR_ARGUMENT,
            "max_pool2d: kernel_size () is neither one number nor two");
    refused(tn_conv2d(v, w, NULL), TN_ERR_SHAPE,
            "conv2d: input (3,) is neither (N, C, H, W) nor (C, H, W)");
    refused(tn_conv2d(img, tn_ones(tn_dims(4, 3, 3, 3)), NULL), TN_ERR_SHAPE,
            "conv2d: input (1, 2, 4, 4) has 2 channels, but weight (4, 3, 3, "
            "3) with groups 1 takes 3: both must be equal, and groups must "
            "divide the channels of the input and of the output");
    refused(tn_conv2d(img, tn_ones(tn_dims(1, 2, 5, 5)), NULL), TN_ERR_SHAPE,
            "conv2d: the kernel spans 5 elements, but the padded input has "
            "only 4");
    refused(tn_conv2d(img, w, v), TN_ERR_SHAPE,
            "conv2d: bias has shape (3,); expected (2,)");
    refused(tn_max_pool2d(img, tn_dims(5)), TN_ERR_SHAPE,
            "max_pool2d: kernel_size spans 5 elements, but the padded input "
            "has only 4");
    refused(tn_cross_entropy(x, i), TN_ERR_SHAPE,
            "cross_entropy: target has shape (3,) for input (2, 3); expected "
            "one class index for each sample, which is shape (2,)");
    refused(tn_zeros(tn_dims(2, -1)), TN_ERR_SHAPE,
            "zeros: size -1 of dimension 1 is negative");
    refused(tn_zeros(tn_dims(1LL << 40, 1LL << 40)), TN_ERR_SHAPE,
            "zeros: shape (1099511627776, 1099511627776) has more than 2^62 "
            "bytes");
    refused(tn_expand(tn_ones(TN_SCALAR), tn_dims(1LL << 40, 1LL << 40)),
            TN_ERR_SHAPE, "expand: a view of shape (1099511627776, 1099511627776) has "
            "more than 2^63 elements");
    refused(tn_as_strided(x, tn_dims(3), tn_dims(INT64_MAX)), TN_ERR_ARGUMENT,
            "as_strided: size (3,) and stride (9223372036854775807,) reach "
            "beyond 2^63 elements");
    refused(tn_eye(1LL << 32), TN_ERR_SHAPE, "eye: shape (4294967296, "
            "4294967296) has more than 2^62 bytes");
    refused(tn_max_pool2d(img, tn_dims(INT64_MAX)), TN_ERR_ARGUMENT,
            "max_pool2d: kernel_size 9223372036854775807 is outside (-2^31, 2^31)");
    refused(tn_conv2d(img, w, NULL, .padding = INT64_MAX), TN_ERR_ARGUMENT,
            "conv2d: padding 9223372036854775807 is outside (-2^31, 2^31)");
    refused(tn_amax(tn_zeros(tn_dims(2, 0))), TN_ERR_SHAPE,
            "amax: a dimension of size 0 has no element to select");
    refused(tn_tril(v), TN_ERR_SHAPE,
            "tril: input has 1 dimensions; expected at least 2");
}

static void check_losses(void)
{
    tn_tensor *p = tn_zeros(tn_dims(5, 2, 4)), *t = tn_full(tn_dims(2, 3), 1);
    tn_tensor *two = tn_full(tn_dims(2), 2), *one = tn_full(tn_dims(1), 2);
    refused(tn_ctc_loss(v, t, two, two), TN_ERR_SHAPE,
            "ctc_loss: log_probs has shape (3,); expected (T, N, C) or (T, C)");
    refused(tn_ctc_loss(t, t, two, two), TN_ERR_DTYPE,
            "ctc_loss: log_probs is int64; expected a floating-point dtype; "
            "convert it with tn_to_dtype");
    refused(tn_ctc_loss(p, x, two, two), TN_ERR_DTYPE,
            "ctc_loss: targets is float32; convert it to int64 with "
            "tn_to_dtype");
    refused(tn_ctc_loss(p, tn_t(t), two, two), TN_ERR_SHAPE,
            "ctc_loss: targets has shape (3, 2); expected a 1-d tensor, or (N, "
            "S) with the N of log_probs (T, N, C), which has shape (5, 2, 4)");
    refused(tn_ctc_loss(p, t, one, two), TN_ERR_SHAPE,
            "ctc_loss: input_lengths has shape (1,); expected one number for "
            "each of the 2 sequences");
    refused(tn_ctc_loss(p, t, two, x), TN_ERR_DTYPE,
            "ctc_loss: target_lengths is float32; convert it to int64 with "
            "tn_to_dtype");
    refused(tn_ctc_loss(p, t, two, two, .blank = 4), TN_ERR_ARGUMENT,
            "ctc_loss: blank 4 is outside [0, 4)");
    refused(tn_ctc_loss(p, t, two, two, .reduction = "some"), TN_ERR_ARGUMENT,
            "ctc_loss: reduction \"some\" is neither \"mean\" nor \"sum\" nor "
            "\"none\"");
    refused(tn_ctc_loss(p, tn_full(tn_dims(3), 1), two, two), TN_ERR_SHAPE,
            "ctc_loss: target_lengths, from 2 to 2, add up to 4; targets has 3 "
            "elements");
    refused(tn_ctc_loss(p, t, tn_full(tn_dims(2), 6), two), TN_ERR_INDEX,
            "ctc_loss: input_lengths 6 at position (0,) is outside [0, 6)");
    refused(tn_ctc_loss(p, t, two, tn_full(tn_dims(2), 4)), TN_ERR_INDEX,
            "ctc_loss: target_lengths 4 at position (0,) is outside [0, 4)");
    refused(tn_ctc_loss(p, t, two, tn_full(tn_dims(2), -1)), TN_ERR_INDEX,
            "ctc_loss: target_lengths -1 at position (0,) is outside [0, 4)");
    refused(tn_ctc_loss(p, tn_full(tn_dims(2, 3), 4), two, two), TN_ERR_INDEX,
            "ctc_loss: targets 4 at position (0, 0) is outside [0, 4)");

    refused(tn_embedding_bag(i, x, NULL), TN_ERR_SHAPE,
            "embedding_bag: input has shape (3,); expected (bags, length), or "
            "a 1-d one with offsets");
    refused(tn_embedding_bag(t, x, two), TN_ERR_SHAPE,
            "embedding_bag: input has shape (2, 3); expected a 1-d tensor, "
            "because offsets are given");
    refused(tn_embedding_bag(t, v, NULL), TN_ERR_SHAPE,
            "embedding_bag: weight has shape (3,); expected (num_embeddings, "
            "embedding_dim)");
    refused(tn_embedding_bag(t, x, NULL, .mode = "median"), TN_ERR_ARGUMENT,
            "embedding_bag: mode is \"median\"; it must be sum, mean or max");
    refused(tn_embedding_bag(t, x, NULL, .per_sample_weights = x),
            TN_ERR_ARGUMENT, "embedding_bag: .per_sample_weights has no effect "
            "unless mode is sum: change mode, or leave .per_sample_weights out");
    refused(tn_embedding_bag(t, x, NULL, .mode = "sum",
                             .per_sample_weights = v),
            TN_ERR_SHAPE, "embedding_bag: per_sample_weights has shape (3,); "
                          "expected the shape of input, (2, 3)");
    refused(tn_embedding_bag(t, x, NULL, .mode = "sum",
                             .per_sample_weights = tn_to_dtype(x, TN_F64)),
            TN_ERR_DTYPE, "embedding_bag: dtypes differ: per_sample_weights is "
            "float64, weight is float32; convert one with tn_to_dtype");
    refused(tn_embedding_bag(t, x, NULL, .mode = "max",
                             .scale_grad_by_freq = true),
            TN_ERR_ARGUMENT, "embedding_bag: .scale_grad_by_freq has no effect "
            "unless mode is sum or mean: change mode, or leave "
            ".scale_grad_by_freq out");
    refused(tn_embedding_bag(t, x, NULL, .padding_idx = 2),
            TN_ERR_INDEX,
            "embedding_bag: padding_idx 2 is outside [-2, 2)");
    refused(tn_embedding_bag(i, x, x), TN_ERR_SHAPE,
            "embedding_bag: offsets (2, 3) is not a list with the start of each "
            "bag");
    refused(tn_embedding_bag(i, x, one, .include_last_offset = true),
            TN_ERR_SHAPE, "embedding_bag: offsets (1,) is not a list with the "
            "start of each bag and the end of the last");
    refused(tn_embedding_bag(i, x, v), TN_ERR_DTYPE,
            "embedding_bag: offsets is float32; convert it to int64 with "
            "tn_to_dtype");
    refused(tn_embedding_bag(i, tn_ones(tn_dims(9, 2)),
                             tn_full(tn_dims(1), 4)),
            TN_ERR_INDEX,
            "embedding_bag: offsets 4 at position (0,) is outside [0, 4)");
    refused(tn_embedding_bag(i, tn_ones(tn_dims(9, 2)), one), TN_ERR_INDEX,
            "embedding_bag: offsets 2 at position (0,) is outside [0, 1)");

    tn_tensor *w4 = tn_ones(tn_dims(4, 3));
    refused(tn_linear_cross_entropy(x, tn_ones(tn_dims(4, 2)), two),
            TN_ERR_SHAPE, "linear_cross_entropy: input has shape (2, 3) and "
                          "linear_weight (4, 2); expected (N, D) or (D), and "
                          "(C, ..., D)");
    refused(tn_linear_cross_entropy(i, w4, two), TN_ERR_DTYPE,
            "linear_cross_entropy: input is int64; expected a floating-point "
            "dtype; convert it with tn_to_dtype");
    refused(tn_linear_cross_entropy(x, tn_to_dtype(w4, TN_F64), two),
            TN_ERR_DTYPE, "linear_cross_entropy: dtypes differ: input is "
            "float32, linear_weight is float64; convert one with tn_to_dtype");
    refused(tn_linear_cross_entropy(x, w4, two, .linear_bias = v),
            TN_ERR_SHAPE, "linear_cross_entropy: linear_bias has shape (3,); "
                          "expected the shape of linear_weight (4, 3) without "
                          "its last dimension");
    refused(tn_linear_cross_entropy(x, w4, two, .weight = v), TN_ERR_SHAPE,
            "linear_cross_entropy: weight (3,) does not have one number for "
            "each of the 4 classes");
    refused(tn_linear_cross_entropy(x, w4, i), TN_ERR_SHAPE,
            "linear_cross_entropy: target has shape (3,); expected class "
            "indices of shape (2,), or floating-point class probabilities");
    refused(tn_linear_cross_entropy(x, w4, tn_ones(tn_dims(2))), TN_ERR_DTYPE,
            "linear_cross_entropy: target is float32; convert classes to int64 "
            "with tn_to_dtype");
    refused(tn_linear_cross_entropy(x, w4, two, .label_smoothing = 2),
            TN_ERR_ARGUMENT, "linear_cross_entropy: label_smoothing 2 is "
            "outside [0, 1]");
    refused(tn_linear_cross_entropy(x, w4, tn_full(tn_dims(2), 4)),
            TN_ERR_INDEX, "linear_cross_entropy: target 4 at position (0,) is "
            "outside [0, 4)");
}

static void check_dtypes(void)
{
    refused(tn_matmul(x, tn_ones(tn_dims(3, 2), .dtype = TN_F64)),
            TN_ERR_DTYPE,
            "matmul: dtypes differ: input is float32, other is float64; "
            "convert one with tn_to_dtype");
    refused(tn_mean(i), TN_ERR_DTYPE,
            "mean: input is int64; give a floating-point .dtype or convert it "
            "with tn_to_dtype");
    refused(tn_gelu(i), TN_ERR_DTYPE,
            "gelu: input is int64; expected a floating-point dtype; convert it "
            "with tn_to_dtype");
    refused(tn_add_scalar_(i, 0.5), TN_ERR_DTYPE,
            "add_: a result of float32 cannot be written into a tensor of "
            "int64; convert the inputs with tn_to_dtype");
    refused(tn_gather(x, 1, x), TN_ERR_DTYPE,
            "gather: index is float32; convert it to int64 with tn_to_dtype");
    refused(tn_zeros(tn_dims(2), .dtype = 99), TN_ERR_DTYPE,
            "zeros: dtype: 99 is not a dtype");
    refused(tn_pow_scalar(i, -1), TN_ERR_ARGUMENT,
            "pow: exponent -1 is negative and input has integers; convert "
            "input to a floating-point dtype with tn_to_dtype");
    tn_tensor *truth = tn_gt_scalar(v, 1);
    refused(tn_sub(truth, truth), TN_ERR_DTYPE,
            "sub: input is bool, other is bool: '-' is not defined for bool; "
            "convert with tn_to_dtype");
}

/* Numbers that an integer dtype does not have are refused where they become
 * elements of it. */
static void check_stored(void)
{
    static const struct {
        tn_dtype dtype;
        double number; /* the nearest one that does not fit */
        double fits;
        const char *text;
    } row[] = {
        {TN_U8, 256, 255, "256, but uint8 holds only 0 to 255"},
        {TN_U8, -1, 0, "-1, but uint8 holds only 0 to 255"},
        {TN_I8, 128, 127, "128, but int8 holds only -128 to 127"},
        {TN_I8, -129, -128, "-129, but int8 holds only -128 to 127"},
        {TN_I16, 32768, 32767,
         "32768, but int16 holds only -32768 to 32767"},
        {TN_I32, -2147483649.0, -2147483648.0,
         "-2147483649, but int32 holds only -2147483648 to 2147483647"},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        const tn_dtype dtype = row[k].dtype;
        const int64_t n = (int64_t)row[k].number, fits = (int64_t)row[k].fits;
        tn_tensor *y = tn_zeros(tn_dims(1, 2), .dtype = dtype);
        tn_tensor *mask = tn_ones(tn_dims(1, 2), .dtype = TN_BOOL);
        tn_tensor *at = tn_zeros(tn_dims(1, 2), .dtype = TN_I64);
        tn_tensor *slices = tn_zeros(tn_dims(1), .dtype = TN_I64);
        char want[160];
#define STORED(call, name)                                                    \
    (snprintf(want, sizeof want, name " is %s", row[k].text),                 \
     refused(call, TN_ERR_ARGUMENT, want))
        STORED(tn_full(tn_dims(1), n, .dtype = dtype), "full: fill_value");
        STORED(tn_full_like(y, n), "full_like: fill_value");
        STORED(tn_new_full(y, tn_dims(1), n), "new_full: fill_value");
        STORED(tn_scalar_tensor(n, .dtype = dtype),
               "scalar_tensor: fill_value");
        STORED(tn_fill_scalar(y, n), "fill: value");
        STORED(tn_fill_scalar_(y, n), "fill_: value");
        STORED(tn_masked_fill_scalar(y, mask, n), "masked_fill: value");
        STORED(tn_masked_fill_scalar_(y, mask, n), "masked_fill_: value");
        STORED(tn_index_fill_scalar(y, 0, slices, n), "index_fill: value");
        STORED(tn_scatter_scalar(y, 0, at, n), "scatter: src");
        STORED(tn_scatter_scalar(y, 0, at, n, .reduce = "add"),
               "scatter: src");
        STORED(tn_constant_pad_nd(y, tn_dims(1, 1), n),
               "constant_pad_nd: value");
        STORED(tn_pad(y, tn_dims(1, 1), .value = row[k].number),
               "pad: value");
        STORED(tn_where_scalar(mask, y, n), "where: other");
        STORED(tn_where_scalar_first(mask, n, y), "where: input");
        STORED(tn_threshold(y, 0, n), "threshold: value");
        STORED(tn_threshold(y, n, 0), "threshold: threshold");
        ok(tn_item_int(tn_select(tn_view(y, tn_dims(2)), 0, 0)) == 0,
           "the tensor is as it was");
        is_int(tn_item_int(tn_full(tn_dims(1), fits, .dtype = dtype)), fits,
               "full with %s %lld", tn_dtype_name(dtype), (long long)fits);
        is_int(tn_item_int(tn_max(tn_scatter_scalar(
                   tn_full_like(y, fits), 0, at, fits))), fits, "scatter");
        is_int(tn_item_int(tn_min(tn_constant_pad_nd(
                   tn_full_like(y, fits), tn_dims(1, 1), fits))), fits,
               "constant_pad_nd");
        is_int(tn_item_int(tn_max(tn_masked_fill_scalar(y, mask, fits))), fits,
               "masked_fill");
    }
    tn_tensor *y = tn_zeros(tn_dims(1), .dtype = TN_I64);
    refused(tn_fill_scalar(y, 1e20), TN_ERR_ARGUMENT,
            "fill: value is 1e+20, but int64 holds only -9223372036854775808 "
            "to 9223372036854775807");
    refused(tn_fill_scalar(y, 0x1p63), TN_ERR_ARGUMENT,
            "fill: value is 9.223372036854776e+18, but int64 holds only "
            "-9223372036854775808 to 9223372036854775807");
    refused(tn_fill_scalar(y, (double)NAN), TN_ERR_ARGUMENT,
            "fill: value is nan, but int64 holds only -9223372036854775808 to "
            "9223372036854775807");
    refused(tn_full(tn_dims(1), (double)-INFINITY, .dtype = TN_I8),
            TN_ERR_ARGUMENT, "full: fill_value is -inf, but int8 holds only "
            "-128 to 127");
    is_int(tn_item_int(tn_full(tn_dims(1), -0x1p63, .dtype = TN_I64)),
           INT64_MIN, "the smallest int64 as a double");
    is_int(tn_item_int(tn_full(tn_dims(1), 255.9, .dtype = TN_U8)), 255,
           "255.9 is truncated to 255");
    is_int(tn_item_int(tn_full(tn_dims(1), -0.9, .dtype = TN_U8)), 0,
           "-0.9 is truncated to 0");
    is_int(tn_item_int(tn_full(tn_dims(1), 300, .dtype = TN_BOOL)), 1,
           "bool has no limits");
    const int64_t big = (INT64_C(1) << 53) + 1;
    is_int(tn_item_int(tn_max(tn_scatter_scalar(y, 0, y, big))), big,
           "scatter keeps all bits of an int64");
    is_int(tn_item_int(tn_max(tn_constant_pad_nd(y, tn_dims(1, 0), big))), big,
           "constant_pad_nd, too");
    refused(tn_arange(0, 300, 1, .dtype = TN_U8), TN_ERR_ARGUMENT,
            "arange: the last number is 299, but uint8 holds only 0 to 255");
    refused(tn_arange(-1, 3, 1, .dtype = TN_U8), TN_ERR_ARGUMENT,
            "arange: the first number is -1, but uint8 holds only 0 to 255");
    is_int(tn_item_int(tn_max(tn_arange(0, 256, 1, .dtype = TN_U8))), 255,
           "arange fills uint8");
    is_int(tn_item_int(tn_max(tn_arange(INT64_MAX - 2, INT64_MAX, 1))),
           INT64_MAX - 1, "and goes to the end of int64");
    is_int(tn_tensor_numel(tn_arange(300, 300, 1, .dtype = TN_U8)), 0,
           "an empty range may begin anywhere");
    refused(tn_linspace(0, 300, 2, .dtype = TN_U8), TN_ERR_ARGUMENT,
            "linspace: the last number is 300, but uint8 holds only 0 to 255");
    refused(tn_logspace(0, 3, 4, 10, .dtype = TN_U8), TN_ERR_ARGUMENT,
            "logspace: the last number is 1000, but uint8 holds only 0 to 255");
    refused(tn_randperm(257, .dtype = TN_U8), TN_ERR_ARGUMENT,
            "randperm: the last number is 256, but uint8 holds only 0 to 255");
    is_int(tn_item_int(tn_max(tn_randperm(256, .dtype = TN_U8))), 255,
           "randperm fills uint8");
    tn_tensor *eight = tn_full(tn_dims(1), 5, .dtype = TN_I8);
    is_int(tn_item_int(tn_hardtanh(eight, .min_val = -1000, .max_val = 1000)),
           5, "hardtanh: bounds beyond int8 change nothing");
    is_int(tn_item_int(tn_hardtanh(eight, .min_val = -1e9, .max_val = 3.5)), 3,
           "hardtanh: doubles are truncated");
    refused(tn_hardtanh(eight, .min_val = 200, .max_val = 300),
            TN_ERR_ARGUMENT, "hardtanh: min_val is 200, but int8 holds only "
            "-128 to 127");
}

static void check_values(void)
{
    refused(tn_softmax(x, 3), TN_ERR_ARGUMENT,
            "softmax: dim 3 is outside [-2, 1]");
    refused(tn_sum(x, .dims = tn_dims(0, -2)), TN_ERR_ARGUMENT,
            "sum: dim 0 is given twice");
    refused(tn_permute(x, tn_dims(0)), TN_ERR_ARGUMENT,
            "permute: dims (0,) for an input of 2 dimensions; expected each "
            "of them once");
    refused(tn_permute(x, tn_dims(1, -1)), TN_ERR_ARGUMENT,
            "permute: dims (1, -1) have 1 twice; expected each of input's 2 "
            "dimensions once");
    refused(tn_select(x, 1, 3), TN_ERR_INDEX,
            "select: index 3 is outside [-3, 3) of dim 1");
    refused(tn_narrow(x, 1, 2, 2), TN_ERR_INDEX,
            "narrow: length 2 is outside [0, 1] for start 2 in a dimension "
            "of size 3");
    refused(tn_gather(x, 1, tn_full(tn_dims(1, 4), 7)), TN_ERR_INDEX,
            "gather: index 7 at position (0, 0) is outside [0, 3)");
    refused(tn_embedding(i, x), TN_ERR_INDEX,
            "embedding: input 2 at position (2,) is outside [0, 2)");
    refused(tn_scatter_add(v, 0, tn_full(tn_dims(2), -1), v), TN_ERR_INDEX,
            "scatter_add: index -1 at position (0,) is outside [0, 3)");
    refused(tn_cross_entropy(x, tn_full(tn_dims(2), 12)), TN_ERR_INDEX,
            "cross_entropy: target 12 at position (0,) is outside [0, 3)");
    refused(tn_one_hot(i, .num_classes = 2), TN_ERR_INDEX,
            "one_hot: input 2 at position (2,) is outside [0, 2)");
    refused(tn_dropout(x, 1.5, true), TN_ERR_ARGUMENT,
            "dropout: p 1.5 is outside [0, 1]");
    check_stored();
    tn_tensor *small = tn_full(tn_dims(1), 5, .dtype = TN_I8);
    is_int(tn_item_int(tn_clamp_scalars(small, -1000, 1000)), 5,
           "clamp: bounds beyond int8 change nothing");
    is_int(tn_item_int(tn_clamp_max_scalar(small, 3)), 3,
           "clamp_max: a bound within int8 does");
    refused(tn_clamp_min_scalar(small, 300), TN_ERR_ARGUMENT,
            "clamp_min: min is 300, but int8 holds only -128 to 127");
    refused(tn_clamp_max_scalar(tn_full(tn_dims(1), 5, .dtype = TN_U8), -1),
            TN_ERR_ARGUMENT,
            "clamp_max: max is -1, but uint8 holds only 0 to 255");
    refused(tn_clamp_scalars(x, tn_none, tn_none), TN_ERR_ARGUMENT,
            "clamp: neither min nor max is given");
    refused(tn_arange(0, 5, -1), TN_ERR_ARGUMENT,
            "arange: step -1 leads from start 0 away from end 5: change its "
            "sign");
    refused(tn_randint(3, 3, tn_dims(2)), TN_ERR_ARGUMENT,
            "randint: low is 3 and high 3; expected low below high");
    refused(tn_max_pool2d(img, tn_dims(2), .padding = 2), TN_ERR_ARGUMENT,
            "max_pool2d: padding 2 is not between 0 and half of kernel_size "
            "2");
    refused(tn_conv2d(img, w, NULL, .strides = tn_dims(1, 2, 3)),
            TN_ERR_ARGUMENT,
            "conv2d: stride (1, 2, 3) is neither one number nor two");
    refused(tn_conv2d(img, w, NULL, .padding_rule = "full"), TN_ERR_ARGUMENT,
            "conv2d: padding \"full\" is neither \"same\" nor \"valid\"");
    refused(tn_conv2d(img, w, NULL, .padding_rule = "same", .stride = 2),
            TN_ERR_ARGUMENT,
            "conv2d: padding \"same\" with stride 2; it needs stride 1");
    refused(tn_mse_loss(x, x, .reduction = "avg"), TN_ERR_ARGUMENT,
            "mse_loss: reduction \"avg\" is neither \"mean\" nor \"sum\" nor "
            "\"none\"");
    refused(tn_div(x, x, .rounding_mode = "up"), TN_ERR_ARGUMENT,
            "div: rounding_mode \"up\" is neither \"trunc\" nor \"floor\"");
    refused(tn_gelu(x, .approximate = "erf"), TN_ERR_ARGUMENT,
            "gelu: approximate \"erf\" is neither \"none\" nor \"tanh\"");
    refused(tn_as_strided(v, tn_dims(2, 2), tn_dims(2, 1)), TN_ERR_INDEX,
            "as_strided: offsets 0 to 3 are outside a storage of 3");
}

/* Positions in messages refer to the tensor that the caller passed. */
static void check_positions(void)
{
    const int64_t numbers[] = {0, 1, 9, 1, -9, 0};
    tn_tensor *at = tn_tensor_from_array(numbers, TN_I64, tn_dims(2, 2));
    tn_tensor *list = tn_tensor_from_array(numbers, TN_I64, tn_dims(3));
    tn_tensor *back = tn_tensor_from_array(numbers + 3, TN_I64, tn_dims(3));
    tn_tensor *column = tn_tensor_from_array(numbers + 3, TN_I64,
                                             tn_dims(3, 1));
    tn_tensor *square = tn_ones(tn_dims(3, 3));
    refused(tn_embedding(at, x), TN_ERR_INDEX,
            "embedding: input 9 at position (1, 0) is outside [0, 2)");
    refused(tn_embedding(tn_t(at), x), TN_ERR_INDEX,
            "embedding: input 9 at position (0, 1) is outside [0, 2)");
    refused(tn_index_select(x, 1, list), TN_ERR_INDEX,
            "index_select: index 9 at position (2,) is outside [0, 3)");
    refused(tn_index_select(tn_ones(TN_SCALAR), 0,
                            tn_zeros(tn_dims(0), .dtype = TN_I64)),
            TN_ERR_SHAPE, "index_select: index has shape (0,); expected one "
                          "element, because input has no dimensions");
    refused(tn_index_add(square, 0, list, square), TN_ERR_INDEX,
            "index_add: index 9 at position (2,) is outside [0, 3)");
    refused(tn_index_copy(square, 1, list, square), TN_ERR_INDEX,
            "index_copy: index 9 at position (2,) is outside [0, 3)");
    refused(tn_index_reduce(square, 0, list, square, "amax"), TN_ERR_INDEX,
            "index_reduce: index 9 at position (2,) is outside [0, 3)");
    refused(tn_take(x, column), TN_ERR_INDEX,
            "take: index -9 at position (1, 0) is outside [-6, 6)");
    refused(tn_put(x, column, v, false), TN_ERR_INDEX,
            "put: index -9 at position (1, 0) is outside [-6, 6)");
    refused(tn_index_fill_scalar(x, 0, back, 1), TN_ERR_INDEX,
            "index_fill: index -9 at position (1,) is outside [-2, 2)");
    refused(tn_take_along_dim(square, column, .dim = 1),
            TN_ERR_INDEX,
            "take_along_dim: indices -9 at position (1, 0) is outside [-3, "
            "3)");
    refused(tn_index(square, ((tn_tensor *[]){i, column}), 2), TN_ERR_INDEX,
            "index: indices[1] -9 at position (1, 0) is outside [-3, 3)");
    refused(tn_index(x, ((tn_tensor *[]){tn_gt_scalar(v, 1)}), 1),
            TN_ERR_SHAPE,
            "index: indices[0] is a bool mask of shape (3,); expected the "
            "sizes starting at dimension 0 of input, which has shape (2, 3)");
    refused(tn_scatter(square, 1, at, square), TN_ERR_INDEX,
            "scatter: index 9 at position (1, 0) is outside [0, 3)");
    refused(tn_cross_entropy(tn_ones(tn_dims(2, 3, 2)), at), TN_ERR_INDEX,
            "cross_entropy: target 9 at position (1, 0) is outside [0, 3)");
    refused(tn_nll_loss(square, list), TN_ERR_INDEX,
            "nll_loss: target 9 at position (2,) is outside [0, 3)");
    refused(tn_multi_margin_loss(square, list), TN_ERR_INDEX,
            "multi_margin_loss: target 9 at position (2,) is outside [0, 3)");
    refused(tn_embedding_bag(at, square, NULL), TN_ERR_INDEX,
            "embedding_bag: input 9 at position (1, 0) is outside [0, 3)");
}

/* Errors in composite operators name the operator that was called, and its
 * arguments. */
static void check_composites(void)
{
    tn_tensor *four = tn_ones(tn_dims(4)), *q = tn_ones(tn_dims(2, 5, 8));
    tn_tensor *k = tn_ones(tn_dims(2, 3, 8));
    refused(tn_mse_loss(x, four), TN_ERR_SHAPE,
            "mse_loss: shapes do not broadcast: input (2, 3), target (4,)");
    refused(tn_huber_loss(x, four), TN_ERR_SHAPE,
            "huber_loss: shapes do not broadcast: input (2, 3), target (4,)");
    refused(tn_l1_loss(x, four), TN_ERR_SHAPE,
            "l1_loss: shapes do not broadcast: input (2, 3), target (4,)");
    refused(tn_binary_cross_entropy(x, four, NULL), TN_ERR_SHAPE,
            "binary_cross_entropy: shapes do not broadcast: input (2, 3), "
            "target (4,)");
    refused(tn_gaussian_nll_loss(x, four, x), TN_ERR_SHAPE,
            "gaussian_nll_loss: shapes do not broadcast: input (2, 3), target "
            "(4,), var (2, 3)");
    refused(tn_cross_entropy(x, v), TN_ERR_SHAPE,
            "cross_entropy: target has shape (3,) for input (2, 3); expected "
            "one class index for each sample, which is shape (2,)");
    refused(tn_cross_entropy(x, tn_ones(tn_dims(2))), TN_ERR_DTYPE,
            "cross_entropy: target is float32; convert it to int64 with "
            "tn_to_dtype");
    refused(tn_embedding(x, x), TN_ERR_DTYPE,
            "embedding: input is float32; convert it to int64 with "
            "tn_to_dtype");
    refused(tn_linear(x, tn_ones(tn_dims(4, 3)), v), TN_ERR_SHAPE,
            "linear: bias has shape (3,); expected one number for each output "
            "feature, the first size of weight (4, 3)");
    refused(tn_hstack(((tn_tensor *[]){x, x, tn_ones(tn_dims(3, 3))}), 3),
            TN_ERR_SHAPE, "hstack: tensors[2] (3, 3) differs from "
            "tensors[0] (2, 3) in a dimension other than dim 1");
    refused(tn_scaled_dot_product_attention(q, k, k, x), TN_ERR_SHAPE,
            "scaled_dot_product_attention: attn_mask has shape (2, 3); "
            "expected one that broadcasts to (..., queries, keys), here (2, 5, "
            "3)");
    refused(tn_scaled_dot_product_attention(q, k, k, i), TN_ERR_DTYPE,
            "scaled_dot_product_attention: attn_mask is int64; expected bool, "
            "or a floating-point mask that is added: convert it with "
            "tn_to_dtype");
    refused(tn_scaled_dot_product_attention(q, k, q, NULL), TN_ERR_SHAPE,
            "scaled_dot_product_attention: value has shape (2, 5, 8) and key "
            "(2, 3, 8); expected the same length (dim -2), and batch "
            "dimensions that broadcast");
    refused(tn_scaled_dot_product_attention(q, tn_ones(tn_dims(3, 3, 8)), q,
                                            NULL),
            TN_ERR_SHAPE, "scaled_dot_product_attention: key has shape (3, 3, "
                          "8) and query (2, 5, 8); expected batch dimensions "
                          "(all but the last two) that broadcast");
    refused(tn_scaled_dot_product_attention(q, tn_to_dtype(k, TN_F64), k,
                                            NULL),
            TN_ERR_DTYPE, "scaled_dot_product_attention: dtypes differ: query "
            "is float32, key is float64; convert one with tn_to_dtype");
    refused(tn_where(x, x, x), TN_ERR_DTYPE,
            "where: condition is float32; convert it to bool with "
            "tn_to_dtype");
    refused(tn_masked_fill_scalar(x, x, 0), TN_ERR_DTYPE,
            "masked_fill: mask is float32; convert it to bool with "
            "tn_to_dtype");
    refused(tn_masked_fill_scalar_(x, x, 0), TN_ERR_DTYPE,
            "masked_fill_: mask is float32; convert it to bool with "
            "tn_to_dtype");
    refused(tn_einsum("ij,jk->ik", ((tn_tensor *[]){x, x}), 2), TN_ERR_SHAPE,
            "einsum: index j of the equation has size 3 in one of the "
            "operands, 2 in another");
}

static void check_null_and_names(void)
{
    refused(tn_relu(NULL), TN_ERR_ARGUMENT, "relu: input is NULL");
    refused(tn_add(x, NULL), TN_ERR_ARGUMENT, "add: other is NULL");
    refused(tn_cat(((tn_tensor *[]){x, NULL}), 2, 0), TN_ERR_ARGUMENT,
            "cat: tensors[1] is NULL");
    refused(tn_softmax(tn_reshape(tn_relu(NULL), tn_dims(2)), 7),
            TN_ERR_ARGUMENT, "relu: input is NULL");
    refused(tn_call("sofmax", x), TN_ERR_ARGUMENT,
            "call: no operator is named sofmax");

    tn_relu(NULL);
    ok(tn_linear(x, tn_ones(tn_dims(2, 3)), NULL) == NULL,
       "a bias left out while an error is pending is refused");
    refused(NULL, TN_ERR_ARGUMENT, "relu: input is NULL");

    tn_tensor *out = NULL;
    const tn_op *softmax = tn_op_find("softmax");
    tn_value value[3] = {{TN_VALUE_TENSOR, 0, {.tensor = x}},
                         {TN_VALUE_STRING, 0, {.string = "last"}}};
    refused_status(tn_op_call(softmax, value, 2, &out, 1),
                   "softmax: dim takes an int, not a string");
    refused_status(tn_op_call(softmax, value, 1, &out, 1),
                   "softmax: dim is missing");
    value[1] = (tn_value){TN_VALUE_INT, 0, {.i = 1}};
    tn_value many[4] = {value[0], value[1], {TN_VALUE_NONE, 0, {.i = 0}},
                        {TN_VALUE_INT, 0, {.i = 0}}};
    refused_status(tn_op_call(softmax, many, 4, &out, 1),
                   "softmax: 4 arguments are given; expected 3: softmax(input, "
                   "dim, dtype=None)");
    refused(tn_op_define("relu(x) = max(x, 0)"), TN_ERR_ARGUMENT,
            "op_define: an operator named relu exists already; choose another "
            "name");
    refused(tn_op_define("own_none(; p) = p"), TN_ERR_ARGUMENT,
            "own_none: an operator must have a tensor argument");
    refused(tn_op_define("own_cast(x; t: type) = t(x)"), TN_ERR_UNSUPPORTED,
            "own_cast: operators of a program have no `type` parameters; write "
            "the dtype in the source, as in f32(x)");
}

/* Writes results into existing tensors. Each of the tensors must fit, not only
 * the first. */
static void check_writes_of_two(void)
{
    const tn_op *op = tn_op_find("max_dim");
    tn_tensor *whole = tn_arange(0, 9, 1), *square;
    square = tn_reshape(whole, tn_dims(3, 3));
    const tn_value of[] = {{TN_VALUE_TENSOR, 0, {.tensor = square}},
                           {TN_VALUE_INT, 0, {.i = 1}}};
    tn_tensor *most = tn_zeros(tn_dims(3), .dtype = TN_I64);
    tn_tensor *into[] = {most, tn_zeros(tn_dims(3), .dtype = TN_U8)};
    refused_status(tn_op_call_into(op, of, 2, into, 2),
                   "max_dim: result 1 is int64, but the tensor to write it "
                   "into is uint8");
    refused_status(tn_op_call_into(op, of, 2, into, 1),
                   "max_dim: the operator has 2 results, but 1 output tensors "
                   "are given");
    into[1] = most;
    refused_status(tn_op_call_into(op, of, 2, into, 2),
                   "max_dim: results 0 and 1 would be written into the same "
                   "memory");
    into[1] = tn_select(square, 0, 0);
    refused_status(tn_op_call_into(op, of, 2, into, 2),
                   "max_dim: the output tensor partly overlaps an input; pass "
                   "a tn_clone() of the input");
    into[1] = tn_tensor_from_array((int64_t[]){7, 7, 7}, TN_I64, tn_dims(3));
    ok(tn_op_call_into(op, of, 2, into, 2) == TN_OK &&
           tn_item_int(tn_sum(into[1])) == 6,
       "two results into two tensors");
}

/* Passes argument values of an unknown kind, as a language binding might. */
static void check_given_values(void)
{
    const tn_op *add = tn_op_find("add");
    tn_tensor *out;
    tn_value of[] = {{TN_VALUE_TENSOR, 0, {.tensor = x}}, {77, 0, {.i = 0}}};
    refused_status(tn_op_call(add, of, 2, &out, 1),
                   "add: other: 77 is not a kind of value");
    refused_status(tn_op_call(add, NULL, 2, &out, 1),
                   "add: values is NULL, count 2");
    refused_status(tn_op_call(add, of, 1, &out, 1), "add: other is missing");
    of[1] = of[0];
    refused_status(tn_op_call(add, of, 2, NULL, 1), "add: out is NULL");
    refused_status(tn_op_call(add, of, 2, &out, 0),
                   "add: 1 results do not fit into an output array of 0");
    of[0] = (tn_value){TN_VALUE_TENSORS, 2, {.tensors = NULL}};
    refused_status(tn_op_call(tn_op_find("cat"), of, 1, &out, 1),
                   "cat: tensors is NULL");
    of[0] = of[1];
    of[1] = (tn_value){TN_VALUE_DIMS, 0, {.dims = NULL}};
    refused_status(tn_op_call(tn_op_find("reshape"), of, 2, &out, 1),
                   "reshape: shape is NULL");
    refused(tn_op_apply(add, NULL, NULL), TN_ERR_ARGUMENT,
            "add: tensors is NULL");
}

static void check_writes(void)
{
    refused(tn_add_(tn_expand(v, tn_dims(2, 3)), x), TN_ERR_STATE,
            "add_: several elements of the output tensor, (2, 3), share "
            "memory; pass its tn_clone() instead");
    refused(tn_add_(tn_narrow(v, 0, 0, 2), tn_narrow(v, 0, 1, 2)),
            TN_ERR_STATE,
            "add_: the output tensor partly overlaps an input; pass a "
            "tn_clone() of the input");
    refused(tn_add_(v, x), TN_ERR_SHAPE,
            "add_: the result has shape (2, 3), but the tensor to write it "
            "into has (3,)");
    tn_tensor *out = tn_zeros(tn_dims(2, 2));
    const tn_value two[] = {{TN_VALUE_TENSOR, 0, {.tensor = x}},
                            {TN_VALUE_TENSOR, 0, {.tensor = x}}};
    refused_status(tn_op_call_into(tn_op_find("mul"), two, 2, &out, 1),
                   "mul: the result has shape (2, 3), but the tensor to write "
                   "it into has (2, 2)");
    refused_status(tn_op_call_into(tn_op_find("matmul"), two, 2, &out, 1),
                   "matmul: results cannot be written into given tensors; "
                   "copy them with tn_copy_");
    refused_status(tn_op_call_into(tn_op_find("zeros_like"), two, 1, &out, 1),
                   "zeros_like: results cannot be written into given tensors; "
                   "copy them with tn_copy_");
    refused_status(tn_op_call_into(tn_op_find("mul_"), two, 2, &out, 1),
                   "mul_: writes into input; call it with tn_op_call");
    refused_status(tn_op_call_into(tn_op_find("mul"), two, 2, NULL, 1),
                   "mul: out is NULL");
    check_writes_of_two();

    tn_relu(NULL);
    ok(tn_add_(v, v) == NULL, "in place is refused while an error is pending");
    refused(NULL, TN_ERR_ARGUMENT, "relu: input is NULL");
    ok(tn_item(tn_sum(v)) == 6, "and has changed nothing");
}

static void check_devices(void)
{
    tn_device *cpu = tn_device_open("cpu");
    if (!cpu) {
        skip(1, tn_error());
        tn_error_clear();
        return;
    }
    tn_device_set(cpu);
    tn_tensor *y = tn_ones(tn_dims(2, 3));
    tn_device_set(tn_device_open("reference"));
    const tn_value both[] = {{TN_VALUE_TENSOR, 0, {.tensor = x}},
                             {TN_VALUE_TENSOR, 0, {.tensor = x}}};
    refused_status(tn_op_call_into(tn_op_find("add"), both, 2, &y, 1),
                   "add: the output tensor is on cpu:0, the inputs are on "
                   "reference:0: create it there, or move the inputs with "
                   "tn_to()");
    char want[200];
    snprintf(want, sizeof want,
             "add: input (2, 3) is on %s, other (2, 3) is on %s; move one "
             "with tn_to(other, tn_device_open(\"%s\"))",
             tn_device_name(tn_tensor_device(x)),
             tn_device_name(cpu), tn_device_name(tn_tensor_device(x)));
    refused(tn_add(x, y), TN_ERR_DEVICE, want);
    tn_tensor *moved = tn_to(y, tn_tensor_device(x));
    ok(tn_item(tn_sum(tn_add(x, moved))) == 27, "the call it names mends it");
    ok(tn_to(x, tn_tensor_device(x)) == x,
       "a tensor that is already there is returned");
}

static void check_scopes(void)
{
    tn_scope *scope = tn_scope_open();
    tn_relu(v);
    tn_scope_close(scope);
    tn_scope *outer = tn_scope_open();
    tn_scope_open();
    tn_tensor *kept = tn_keep(tn_relu(v));
    tn_scope_close(outer);
    ok(tn_error() == NULL, "closing a scope closes those inside");
    ok(tn_item(tn_sum(kept)) == 6, "a kept tensor outlives them");
    tn_drop(kept);
}

int main(void)
{
    plan_later();
    tn_device *device = tn_device_open("reference");
    if (!device)
        bail_out("%s", tn_error());
    tn_device_set(device);
    const float x_data[] = {1, 2, 3, 4, 5, 6};
    x = tn_tensor_from_array(x_data, TN_F32, tn_dims(2, 3));
    v = tn_tensor_from_array(x_data, TN_F32, tn_dims(3));
    i = tn_arange(0, 3, 1);
    img = tn_ones(tn_dims(1, 2, 4, 4));
    w = tn_ones(tn_dims(2, 2, 3, 3));
    check_shapes();
    check_slices();
    check_losses();
    check_dtypes();
    check_values();
    check_positions();
    check_composites();
    check_null_and_names();
    check_given_values();
    check_writes();
    check_devices();
    check_scopes();
    return done_testing();
}
