/* Every row of the operator table, on each device that is here: what it gives
 * for small tensors, as the text that PyTorch 2.x prints for the same call. */
#include <string.h>
#include <tap.h>
#include <tenon/autograd.h>
#include <tenon/device.h>
#include <tenon/ops.h>
#include <tenon/random.h>

static const char *device_name;

/* What the text says of the device is left out: it is the same on all. */
static void drop_device(char *text)
{
    char *at = strstr(text, "device='");
    if (!at)
        return;
    char *end = strchr(at + strlen("device='"), '\'') + 1;
    while (at > text && strchr(", \n", at[-1]))
        at--;
    memmove(at, end, strlen(end) + 1);
}

static void check(const char *name, tn_tensor *got, const char *want)
{
    char *text = got ? tn_tensor_text(got) : NULL;
    if (text)
        drop_device(text);
    is_str(text ? text : tn_error(), want, "%s: %s", device_name, name);
    free(text);
    tn_error_clear();
}

static tn_tensor *indices_of(tn_tensor *x)
{
    tn_tensor *indices = NULL;
    tn_max_dim(x, 1, &indices);
    return indices;
}

/* The gradient of the sum of y by x. */
static tn_tensor *gradient(tn_tensor *y, tn_tensor *x)
{
    return y && tn_backward(tn_sum(y)) >= 0 ? tn_tensor_grad(x) : NULL;
}

static void check_bags(void)
{
    const int64_t row[] = {0, 1, 3, 2, 3, 1}, start[] = {0, 3, 5, 6};
    const int64_t few[] = {0, 3, 3, 3};
    tn_tensor *w = tn_reshape(tn_arange(0, 12, 1, .dtype = TN_F32),
                              tn_dims(4, 3));
    tn_tensor *i = tn_tensor_from_array(row, TN_I64, tn_dims(6));
    tn_tensor *at = tn_tensor_from_array(start, TN_I64, tn_dims(4));
    tn_tensor *j = tn_tensor_from_array(few, TN_I64, tn_dims(2, 2));
    check("embedding_bag: sums without the padding",
          tn_embedding_bag(i, w, at, .mode = "sum", .padding_idx = tn_dims(1),
                           .include_last_offset = true),
          "tensor([[ 9., 11., 13.],\n"
          "        [15., 17., 19.],\n"
          "        [ 0.,  0.,  0.]])");
    check("embedding_bag: means",
          tn_embedding_bag(i, w, at, .padding_idx = tn_dims(-3),
                           .include_last_offset = true),
          "tensor([[4.5000, 5.5000, 6.5000],\n"
          "        [7.5000, 8.5000, 9.5000],\n"
          "        [0.0000, 0.0000, 0.0000]])");
    check("embedding_bag: the greatest",
          tn_embedding_bag(i, w, at, .mode = "max", .padding_idx = tn_dims(1),
                           .include_last_offset = true),
          "tensor([[ 9., 10., 11.],\n"
          "        [ 9., 10., 11.],\n"
          "        [ 0.,  0.,  0.]])");
    check("embedding_bag: bags of one length",
          tn_embedding_bag(j, w, NULL, .mode = "max"),
          "tensor([[ 9., 10., 11.],\n"
          "        [ 9., 10., 11.]])");
    tn_tensor *leaf = tn_requires_grad(tn_clone(w));
    check("embedding_bag: gradients by frequency",
          gradient(tn_embedding_bag(j, leaf, NULL, .scale_grad_by_freq = true),
                   leaf),
          "tensor([[0.5000, 0.5000, 0.5000],\n"
          "        [0.0000, 0.0000, 0.0000],\n"
          "        [0.0000, 0.0000, 0.0000],\n"
          "        [0.5000, 0.5000, 0.5000]])");
    leaf = tn_requires_grad(tn_clone(w));
    check("embedding: gradients by frequency",
          gradient(tn_embedding(j, leaf, .scale_grad_by_freq = true), leaf),
          "tensor([[1., 1., 1.],\n"
          "        [0., 0., 0.],\n"
          "        [0., 0., 0.],\n"
          "        [1., 1., 1.]])");
}

static void check_losses(void)
{
    const float p[] = {0.1f, 0.6f, 0.3f, 0.2f, 0.5f, 0.3f, 0.7f, 0.2f, 0.1f};
    const float x_data[] = {1, -2, 3, 4, 5, -6};
    const int64_t label[] = {1, 2}, class[] = {2, 0};
    tn_tensor *x = tn_tensor_from_array(p, TN_F32, tn_dims(3, 3));
    x = tn_requires_grad(tn_detach(tn_unsqueeze(tn_log(x), 1)));
    tn_tensor *target = tn_tensor_from_array(label, TN_I64, tn_dims(1, 2));
    tn_tensor *three = tn_full(tn_dims(1), 3), *two = tn_full(tn_dims(1), 2);
    tn_tensor *loss = tn_ctc_loss(x, target, three, two, .reduction = "sum");
    check("ctc_loss", tn_detach(loss), "tensor(1.6555)");
    check("ctc_loss: the gradient is that of log_softmax's input",
          gradient(loss, x),
          "tensor([[[ 0.0738, -0.3738,  0.3000]],\n\n"
          "        [[ 0.1372,  0.3168, -0.4539]],\n\n"
          "        [[ 0.0403,  0.2000, -0.2403]]])");
    check("ctc_loss of what does not fit",
          tn_ctc_loss(tn_detach(x), target, tn_full(tn_dims(1), 1), two),
          "tensor(inf)");
    check("ctc_loss of what does not fit, as 0",
          tn_ctc_loss(tn_detach(x), target, tn_full(tn_dims(1), 1), two,
                      .zero_infinity = true),
          "tensor(0.)");
    check("linear_cross_entropy",
          tn_linear_cross_entropy(
              tn_tensor_from_array(x_data, TN_F32, tn_dims(2, 3)), tn_eye(3),
              tn_tensor_from_array(class, TN_I64, tn_dims(2)),
              .label_smoothing = 0.3),
          "tensor(1.5231)");
}

static bool close_to(tn_tensor *x, tn_tensor *y)
{
    return tn_item(tn_allclose(x, y, .rtol = 1e-4, .atol = 1e-7)) == 1;
}

/* More rows than a block has: the results never stand in memory as a whole, and
 * the gradient is the plain way's. */
static void check_blocks(tn_device *device)
{
    enum { N = 1000, C = 17000, D = 4 };
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_manual_seed(1);
    tn_tensor *x = tn_requires_grad(tn_randn(tn_dims(N, D)));
    tn_tensor *w = tn_requires_grad(tn_randn(tn_dims(C, D)));
    tn_tensor *y = tn_requires_grad(tn_detach(x));
    tn_tensor *v = tn_requires_grad(tn_detach(w));
    tn_tensor *target = tn_arange(0, N, 1);
    tn_memory(device, &before);
    tn_memory_reset_peak(device);
    tn_tensor *a = tn_linear_cross_entropy(x, w, target);
    bool fine = a && tn_backward(a) >= 0;
    tn_memory(device, &after);
    int64_t most = after.peak_bytes - before.allocated_bytes;
    ok(fine && most < (int64_t)N * C * 4 * 3 / 4,
       "linear_cross_entropy of %d by %d: at most %lld bytes at once", N, C,
       (long long)most);
    tn_tensor *b = tn_cross_entropy(tn_linear(y, v, NULL), target);
    ok(b && tn_backward(b) >= 0 && close_to(a, b), "the loss of blocks");
    ok(close_to(tn_tensor_grad(x), tn_tensor_grad(y)),
       "the input's gradient, block after block");
    ok(close_to(tn_tensor_grad(w), tn_tensor_grad(v)),
       "the weight's gradient, summed over blocks");
    ok(!tn_error(), "no error%s%s", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    tn_error_clear();
}

static void check_rows(void)
{
    const float x_data[] = {1, -2, 3, 4, 5, -6};
    const float y_data[] = {2, 2, 2, 0.5f, -1, 3};
    const float p_data[] = {0.5f, 1, 2, 3, 0.25f, 4};
    const int64_t i_data[] = {3, -4, 5, 7, 0, -2}, k_data[] = {2, 0};
    const bool b_data[] = {true, false, true, false, false, true};
    const float v_data[] = {1, 2, 3}, bias_data[] = {0.5f, -0.5f};
    tn_tensor *x = tn_tensor_from_array(x_data, TN_F32, tn_dims(2, 3));
    tn_tensor *y = tn_tensor_from_array(y_data, TN_F32, tn_dims(2, 3));
    tn_tensor *p = tn_tensor_from_array(p_data, TN_F32, tn_dims(2, 3));
    tn_tensor *i = tn_tensor_from_array(i_data, TN_I64, tn_dims(2, 3));
    tn_tensor *b = tn_tensor_from_array(b_data, TN_BOOL, tn_dims(2, 3));
    tn_tensor *k = tn_tensor_from_array(k_data, TN_I64, tn_dims(2));
    tn_tensor *v = tn_tensor_from_array(v_data, TN_F32, tn_dims(3));
    tn_tensor *bias = tn_tensor_from_array(bias_data, TN_F32, tn_dims(2));
    tn_tensor *img = tn_reshape(tn_arange(0, 32, 1, .dtype = TN_F32),
                                tn_dims(1, 2, 4, 4));
    tn_tensor *w = tn_div_scalar(
        tn_sub_scalar(tn_reshape(tn_arange(0, 36, 1), tn_dims(2, 2, 3, 3)),
                      17),
        8);

    check("empty has its size",
          tn_reshape(tn_zeros_like(tn_empty(tn_dims(2, 2))), tn_dims(4)),
          "tensor([0., 0., 0., 0.])");
    check("zeros",
          tn_zeros(tn_dims(2, 3)),
          "tensor([[0., 0., 0.],\n"
          "        [0., 0., 0.]])");
    check("ones of int32",
          tn_ones(tn_dims(2), .dtype = TN_I32),
          "tensor([1, 1], dtype=torch.int32)");
    check("full of a whole number",
          tn_full(tn_dims(2), 7),
          "tensor([7, 7])");
    check("full of a fraction",
          tn_full(tn_dims(2), 0.5),
          "tensor([0.5000, 0.5000])");
    check("zeros_like keeps the dtype",
          tn_zeros_like(i),
          "tensor([[0, 0, 0],\n"
          "        [0, 0, 0]])");
    check("ones_like",
          tn_ones_like(x),
          "tensor([[1., 1., 1.],\n"
          "        [1., 1., 1.]])");
    check("full_like",
          tn_full_like(x, 2),
          "tensor([[2., 2., 2.],\n"
          "        [2., 2., 2.]])");
    check("arange of whole numbers",
          tn_arange(0, 5, 1),
          "tensor([0, 1, 2, 3, 4])");
    check("arange backwards",
          tn_arange(5, 0, -2),
          "tensor([5, 3, 1])");
    check("arange of fractions",
          tn_arange(0, 1, 0.25),
          "tensor([0.0000, 0.2500, 0.5000, 0.7500])");
    check("eye",
          tn_eye(2, .m = tn_dims(3)),
          "tensor([[1., 0., 0.],\n"
          "        [0., 1., 0.]])");
    check("neg",
          tn_neg(x),
          "tensor([[-1.,  2., -3.],\n"
          "        [-4., -5.,  6.]])");
    check("abs",
          tn_abs(x),
          "tensor([[1., 2., 3.],\n"
          "        [4., 5., 6.]])");
    check("sign",
          tn_sign(x),
          "tensor([[ 1., -1.,  1.],\n"
          "        [ 1.,  1., -1.]])");
    check("exp",
          tn_exp(x),
          "tensor([[2.7183e+00, 1.3534e-01, 2.0086e+01],\n"
          "        [5.4598e+01, 1.4841e+02, 2.4788e-03]])");
    check("square",
          tn_square(x),
          "tensor([[ 1.,  4.,  9.],\n"
          "        [16., 25., 36.]])");
    check("sin",
          tn_sin(x),
          "tensor([[ 0.8415, -0.9093,  0.1411],\n"
          "        [-0.7568, -0.9589,  0.2794]])");
    check("cos",
          tn_cos(x),
          "tensor([[ 0.5403, -0.4161, -0.9900],\n"
          "        [-0.6536,  0.2837,  0.9602]])");
    check("tanh",
          tn_tanh(x),
          "tensor([[ 0.7616, -0.9640,  0.9951],\n"
          "        [ 0.9993,  0.9999, -1.0000]])");
    check("sigmoid",
          tn_sigmoid(x),
          "tensor([[0.7311, 0.1192, 0.9526],\n"
          "        [0.9820, 0.9933, 0.0025]])");
    check("erf",
          tn_erf(x),
          "tensor([[ 0.8427, -0.9953,  1.0000],\n"
          "        [ 1.0000,  1.0000, -1.0000]])");
    check("floor",
          tn_floor(x),
          "tensor([[ 1., -2.,  3.],\n"
          "        [ 4.,  5., -6.]])");
    check("ceil",
          tn_ceil(x),
          "tensor([[ 1., -2.,  3.],\n"
          "        [ 4.,  5., -6.]])");
    check("trunc",
          tn_trunc(x),
          "tensor([[ 1., -2.,  3.],\n"
          "        [ 4.,  5., -6.]])");
    check("relu",
          tn_relu(x),
          "tensor([[1., 0., 3.],\n"
          "        [4., 5., 0.]])");
    check("isnan",
          tn_isnan(x),
          "tensor([[False, False, False],\n"
          "        [False, False, False]])");
    check("logical_not",
          tn_logical_not(x),
          "tensor([[False, False, False],\n"
          "        [False, False, False]])");
    check("reciprocal",
          tn_reciprocal(x),
          "tensor([[ 1.0000, -0.5000,  0.3333],\n"
          "        [ 0.2500,  0.2000, -0.1667]])");
    check("clone",
          tn_clone(x),
          "tensor([[ 1., -2.,  3.],\n"
          "        [ 4.,  5., -6.]])");
    check("log",
          tn_log(p),
          "tensor([[-0.6931,  0.0000,  0.6931],\n"
          "        [ 1.0986, -1.3863,  1.3863]])");
    check("sqrt",
          tn_sqrt(p),
          "tensor([[0.7071, 1.0000, 1.4142],\n"
          "        [1.7321, 0.5000, 2.0000]])");
    check("rsqrt",
          tn_rsqrt(p),
          "tensor([[1.4142, 1.0000, 0.7071],\n"
          "        [0.5774, 2.0000, 0.5000]])");
    check("log of what is below 0",
          tn_log(x),
          "tensor([[0.0000,    nan, 1.0986],\n"
          "        [1.3863, 1.6094,    nan]])");
    check("neg of whole numbers",
          tn_neg(i),
          "tensor([[-3,  4, -5],\n"
          "        [-7,  0,  2]])");
    check("exp of whole numbers is float32",
          tn_exp(i),
          "tensor([[2.0086e+01, 1.8316e-02, 1.4841e+02],\n"
          "        [1.0966e+03, 1.0000e+00, 1.3534e-01]])");
    check("gelu",
          tn_gelu(bias),
          "tensor([ 0.3457, -0.1543])");
    check("gelu by tanh",
          tn_gelu(x, .approximate = "tanh"),
          "tensor([[ 0.8412, -0.0454,  2.9964],\n"
          "        [ 3.9999,  5.0000, -0.0000]])");
    check("silu",
          tn_silu(x),
          "tensor([[ 0.7311, -0.2384,  2.8577],\n"
          "        [ 3.9281,  4.9665, -0.0148]])");
    check("add",
          tn_add(x, y),
          "tensor([[ 3.0000,  0.0000,  5.0000],\n"
          "        [ 4.5000,  4.0000, -3.0000]])");
    check("sub",
          tn_sub(x, y),
          "tensor([[-1.0000, -4.0000,  1.0000],\n"
          "        [ 3.5000,  6.0000, -9.0000]])");
    check("mul",
          tn_mul(x, y),
          "tensor([[  2.,  -4.,   6.],\n"
          "        [  2.,  -5., -18.]])");
    check("div",
          tn_div(x, y),
          "tensor([[ 0.5000, -1.0000,  1.5000],\n"
          "        [ 8.0000, -5.0000, -2.0000]])");
    check("maximum",
          tn_maximum(x, y),
          "tensor([[2., 2., 3.],\n"
          "        [4., 5., 3.]])");
    check("minimum",
          tn_minimum(x, y),
          "tensor([[ 1.0000, -2.0000,  2.0000],\n"
          "        [ 0.5000, -1.0000, -6.0000]])");
    check("eq",
          tn_eq(x, y),
          "tensor([[False, False, False],\n"
          "        [False, False, False]])");
    check("ne",
          tn_ne(x, y),
          "tensor([[True, True, True],\n"
          "        [True, True, True]])");
    check("lt",
          tn_lt(x, y),
          "tensor([[ True,  True, False],\n"
          "        [False, False,  True]])");
    check("le",
          tn_le(x, y),
          "tensor([[ True,  True, False],\n"
          "        [False, False,  True]])");
    check("gt",
          tn_gt(x, y),
          "tensor([[False, False,  True],\n"
          "        [ True,  True, False]])");
    check("ge",
          tn_ge(x, y),
          "tensor([[False, False,  True],\n"
          "        [ True,  True, False]])");
    check("fmod",
          tn_fmod(x, y),
          "tensor([[1., -0., 1.],\n"
          "        [0., 0., -0.]])");
    check("remainder",
          tn_remainder(x, y),
          "tensor([[1., -0., 1.],\n"
          "        [0., 0., -0.]])");
    check("floor_divide",
          tn_floor_divide(x, y),
          "tensor([[ 0., -1.,  1.],\n"
          "        [ 8., -5., -2.]])");
    check("add with alpha",
          tn_add(x, y, .alpha = 2),
          "tensor([[5., 2., 7.],\n"
          "        [5., 3., 0.]])");
    check("add with alpha 0",
          tn_add(x, y, .has_alpha = true),
          "tensor([[ 1., -2.,  3.],\n"
          "        [ 4.,  5., -6.]])");
    check("sub of a row",
          tn_sub(x, v),
          "tensor([[ 0., -4.,  0.],\n"
          "        [ 3.,  3., -9.]])");
    check("mul of a column",
          tn_mul(x, tn_unsqueeze(bias, 1)),
          "tensor([[ 0.5000, -1.0000,  1.5000],\n"
          "        [-2.0000, -2.5000,  3.0000]])");
    check("int64 plus a whole number stays int64",
          tn_add_scalar(i, 2),
          "tensor([[ 5, -2,  7],\n"
          "        [ 9,  2,  0]])");
    check("int64 plus a fraction is float32",
          tn_add_scalar(i, 0.5),
          "tensor([[ 3.5000, -3.5000,  5.5000],\n"
          "        [ 7.5000,  0.5000, -1.5000]])");
    check("bool plus a whole number is int64",
          tn_add_scalar(b, 1),
          "tensor([[2, 1, 2],\n"
          "        [1, 1, 2]])");
    check("int64 plus float32 is float32",
          tn_add(i, x),
          "tensor([[ 4., -6.,  8.],\n"
          "        [11.,  5., -8.]])");
    check("int64 over int64 is float32",
          tn_div_scalar(i, 2),
          "tensor([[ 1.5000, -2.0000,  2.5000],\n"
          "        [ 3.5000,  0.0000, -1.0000]])");
    check("div rounded to zero",
          tn_div_scalar(i, 2, .rounding_mode = "trunc"),
          "tensor([[ 1, -2,  2],\n"
          "        [ 3,  0, -1]])");
    check("div rounded down",
          tn_div_scalar(i, 2, .rounding_mode = "floor"),
          "tensor([[ 1, -2,  2],\n"
          "        [ 3,  0, -1]])");
    check("remainder of whole numbers",
          tn_remainder_scalar(i, 3),
          "tensor([[0, 2, 2],\n"
          "        [1, 0, 1]])");
    check("a 0-d float64 does not widen float32",
          tn_add(x, tn_ones(TN_SCALAR, .dtype = TN_F64)),
          "tensor([[ 2., -1.,  4.],\n"
          "        [ 5.,  6., -5.]])");
    check("a 0-d float32 makes int64 float32",
          tn_add(i, tn_ones(TN_SCALAR)),
          "tensor([[ 4., -3.,  6.],\n"
          "        [ 8.,  1., -1.]])");
    check("pow",
          tn_pow_scalar(x, 3),
          "tensor([[   1.,   -8.,   27.],\n"
          "        [  64.,  125., -216.]])");
    check("pow of tensors",
          tn_pow(p, y),
          "tensor([[ 0.2500,  1.0000,  4.0000],\n"
          "        [ 1.7321,  4.0000, 64.0000]])");
    check("pow of a number",
          tn_pow_scalar_first(2, x),
          "tensor([[2.0000e+00, 2.5000e-01, 8.0000e+00],\n"
          "        [1.6000e+01, 3.2000e+01, 1.5625e-02]])");
    check("pow of whole numbers",
          tn_pow_scalar(i, 3),
          "tensor([[ 27, -64, 125],\n"
          "        [343,   0,  -8]])");
    check("clamp",
          tn_clamp_scalars(x, -1, 3),
          "tensor([[ 1., -1.,  3.],\n"
          "        [ 3.,  3., -1.]])");
    check("clamp below alone",
          tn_clamp_scalars(x, 0, tn_none),
          "tensor([[1., 0., 3.],\n"
          "        [4., 5., 0.]])");
    check("clamp by tensors",
          tn_clamp(x, tn_neg(tn_abs(y)), tn_abs(y)),
          "tensor([[ 1.0000, -2.0000,  2.0000],\n"
          "        [ 0.5000,  1.0000, -3.0000]])");
    check("where",
          tn_where(b, x, y),
          "tensor([[ 1.0000,  2.0000,  3.0000],\n"
          "        [ 0.5000, -1.0000, -6.0000]])");
    check("where of numbers",
          tn_where_scalars(b, 1, 0.5),
          "tensor([[1.0000, 0.5000, 1.0000],\n"
          "        [0.5000, 0.5000, 1.0000]])");
    check("masked_fill",
          tn_masked_fill_scalar(x, b, 9),
          "tensor([[ 9., -2.,  9.],\n"
          "        [ 4.,  5.,  9.]])");
    check("logical_and",
          tn_logical_and(b, i),
          "tensor([[ True, False,  True],\n"
          "        [False, False,  True]])");
    check("logical_or",
          tn_logical_or(b, i),
          "tensor([[ True,  True,  True],\n"
          "        [ True, False,  True]])");
    check("to_dtype truncates",
          tn_to_dtype(tn_div_scalar(x, 4), TN_I32),
          "tensor([[ 0,  0,  0],\n"
          "        [ 1,  1, -1]], dtype=torch.int32)");
    check("to_dtype to bfloat16",
          tn_to_dtype(tn_div_scalar(v, 3), TN_BF16),
          "tensor([0.3340, 0.6680, 1.0000], dtype=torch.bfloat16)");
    check("sum",
          tn_sum(x),
          "tensor(5.)");
    check("mean",
          tn_mean(x),
          "tensor(0.8333)");
    check("prod",
          tn_prod(x),
          "tensor(720.)");
    check("max",
          tn_max(x),
          "tensor(5.)");
    check("min",
          tn_min(x),
          "tensor(-6.)");
    check("argmax",
          tn_argmax(x),
          "tensor(4)");
    check("argmin",
          tn_argmin(x),
          "tensor(5)");
    check("all",
          tn_all(x),
          "tensor(True)");
    check("any",
          tn_any(x),
          "tensor(True)");
    check("var",
          tn_var(x),
          "tensor(17.3667)");
    check("std",
          tn_std(x),
          "tensor(4.1673)");
    check("amax",
          tn_amax(x, .dim = tn_dims(1)),
          "tensor([3., 5.])");
    check("amin",
          tn_amin(x, .dim = tn_dims(0), .keepdim = true),
          "tensor([[ 1., -2., -6.]])");
    check("sum of columns",
          tn_sum(x, .dim = tn_dims(0)),
          "tensor([ 5.,  3., -3.])");
    check("sum of rows, kept",
          tn_sum(x, .dim = tn_dims(-1), .keepdim = true),
          "tensor([[2.],\n"
          "        [3.]])");
    check("sum along both",
          tn_sum(x, .dim = tn_dims(0, 1)),
          "tensor(5.)");
    check("sum of bool is int64",
          tn_sum(b),
          "tensor(3)");
    check("sum in float64",
          tn_sum(x, .dtype = TN_F64),
          "tensor(5., dtype=torch.float64)");
    check("sum of a transposed tensor",
          tn_sum(tn_t(x), .dim = tn_dims(0)),
          "tensor([2., 3.])");
    check("sum of nothing",
          tn_sum(tn_zeros(tn_dims(2, 0)), .dim = tn_dims(1)),
          "tensor([0., 0.])");
    check("mean of columns",
          tn_mean(x, .dim = tn_dims(0)),
          "tensor([ 2.5000,  1.5000, -1.5000])");
    check("prod along dim",
          tn_prod(x, .dim = tn_dims(1)),
          "tensor([  -6., -120.])");
    check("max along dim: values",
          tn_max_dim(x, 1, NULL),
          "tensor([3., 5.])");
    check("max along dim: indices",
          indices_of(x),
          "tensor([2, 1])");
    check("argmax along dim",
          tn_argmax(x, .dim = tn_dims(0)),
          "tensor([1, 1, 0])");
    check("any along dim",
          tn_any(b, .dim = tn_dims(0)),
          "tensor([ True, False,  True])");
    check("var without correction",
          tn_var(x, .dim = tn_dims(1), .has_correction = true),
          "tensor([ 4.2222, 24.6667])");
    check("logsumexp",
          tn_logsumexp(x, tn_dims(1)),
          "tensor([3.1328, 5.3133])");
    check("softmax",
          tn_softmax(x, 1),
          "tensor([[1.1850e-01, 5.8998e-03, 8.7560e-01],\n"
          "        [2.6894e-01, 7.3105e-01, 1.2210e-05]])");
    check("softmax of columns",
          tn_softmax(x, 0),
          "tensor([[4.7426e-02, 9.1105e-04, 9.9988e-01],\n"
          "        [9.5257e-01, 9.9909e-01, 1.2339e-04]])");
    check("log_softmax",
          tn_log_softmax(x, -1),
          "tensor([[ -2.1328,  -5.1328,  -0.1328],\n"
          "        [ -1.3133,  -0.3133, -11.3133]])");
    check("reshape with -1",
          tn_reshape(x, tn_dims(3, -1)),
          "tensor([[ 1., -2.],\n"
          "        [ 3.,  4.],\n"
          "        [ 5., -6.]])");
    check("reshape of a transposed tensor",
          tn_reshape(tn_t(x), tn_dims(2, 3)),
          "tensor([[ 1.,  4., -2.],\n"
          "        [ 5.,  3., -6.]])");
    check("view",
          tn_view(x, tn_dims(6)),
          "tensor([ 1., -2.,  3.,  4.,  5., -6.])");
    check("flatten",
          tn_flatten(img, .start_dim = 2),
          "tensor([[[ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
          "          14., 15.],\n"
          "         [16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27., 28., 29.,\n"
          "          30., 31.]]])");
    check("transpose",
          tn_transpose(x, 0, 1),
          "tensor([[ 1.,  4.],\n"
          "        [-2.,  5.],\n"
          "        [ 3., -6.]])");
    check("t",
          tn_t(x),
          "tensor([[ 1.,  4.],\n"
          "        [-2.,  5.],\n"
          "        [ 3., -6.]])");
    check("permute",
          tn_permute(tn_unsqueeze(x, 0), tn_dims(2, 0, 1)),
          "tensor([[[ 1.,  4.]],\n"
          "\n"
          "        [[-2.,  5.]],\n"
          "\n"
          "        [[ 3., -6.]]])");
    check("unsqueeze",
          tn_unsqueeze(v, -1),
          "tensor([[1.],\n"
          "        [2.],\n"
          "        [3.]])");
    check("squeeze",
          tn_squeeze(tn_unsqueeze(v, 0)),
          "tensor([1., 2., 3.])");
    check("expand",
          tn_expand(v, tn_dims(2, -1)),
          "tensor([[1., 2., 3.],\n"
          "        [1., 2., 3.]])");
    check("select",
          tn_select(x, 1, -1),
          "tensor([ 3., -6.])");
    check("narrow",
          tn_narrow(x, 1, 1, 2),
          "tensor([[-2.,  3.],\n"
          "        [ 5., -6.]])");
    check("slice",
          tn_slice(x, 1, 0, 3, 2),
          "tensor([[ 1.,  3.],\n"
          "        [ 4., -6.]])");
    check("detach",
          tn_detach(x),
          "tensor([[ 1., -2.,  3.],\n"
          "        [ 4.,  5., -6.]])");
    check("as_strided",
          tn_as_strided(x, tn_dims(2, 2), tn_dims(1, 2)),
          "tensor([[ 1.,  3.],\n"
          "        [-2.,  4.]])");
    check("contiguous",
          tn_contiguous(tn_t(x)),
          "tensor([[ 1.,  4.],\n"
          "        [-2.,  5.],\n"
          "        [ 3., -6.]])");
    check("cat",
          tn_cat(((tn_tensor *[]){x, y}), 2, 1),
          "tensor([[ 1.0000, -2.0000,  3.0000,  2.0000,  2.0000,  2.0000],\n"
          "        [ 4.0000,  5.0000, -6.0000,  0.5000, -1.0000,  3.0000]])");
    check("cat of two dtypes",
          tn_cat(((tn_tensor *[]){x, i}), 2, 0),
          "tensor([[ 1., -2.,  3.],\n"
          "        [ 4.,  5., -6.],\n"
          "        [ 3., -4.,  5.],\n"
          "        [ 7.,  0., -2.]])");
    check("stack",
          tn_stack(((tn_tensor *[]){x, y}), 2, 1),
          "tensor([[[ 1.0000, -2.0000,  3.0000],\n"
          "         [ 2.0000,  2.0000,  2.0000]],\n"
          "\n"
          "        [[ 4.0000,  5.0000, -6.0000],\n"
          "         [ 0.5000, -1.0000,  3.0000]]])");
    check("matmul",
          tn_matmul(x, tn_t(y)),
          "tensor([[  4.0000,  11.5000],\n"
          "        [  6.0000, -21.0000]])");
    check("matmul of a matrix and a vector",
          tn_matmul(x, v),
          "tensor([ 6., -4.])");
    check("matmul of a vector and a matrix",
          tn_matmul(v, tn_t(x)),
          "tensor([ 6., -4.])");
    check("matmul of vectors",
          tn_matmul(v, v),
          "tensor(14.)");
    check("matmul of batches that broadcast",
          tn_matmul(tn_unsqueeze(x, 0), tn_expand(tn_t(y), tn_dims(2, 3, 2))),
          "tensor([[[  4.0000,  11.5000],\n"
          "         [  6.0000, -21.0000]],\n"
          "\n"
          "        [[  4.0000,  11.5000],\n"
          "         [  6.0000, -21.0000]]])");
    check("matmul over nothing",
          tn_matmul(tn_zeros(tn_dims(2, 0)), tn_zeros(tn_dims(0, 2))),
          "tensor([[0., 0.],\n"
          "        [0., 0.]])");
    check("mm",
          tn_mm(x, tn_t(y)),
          "tensor([[  4.0000,  11.5000],\n"
          "        [  6.0000, -21.0000]])");
    check("bmm",
          tn_bmm(tn_unsqueeze(x, 0), tn_unsqueeze(tn_t(y), 0)),
          "tensor([[[  4.0000,  11.5000],\n"
          "         [  6.0000, -21.0000]]])");
    check("linear",
          tn_linear(x, y, bias),
          "tensor([[  4.5000,  11.0000],\n"
          "        [  6.5000, -21.5000]])");
    check("linear without bias",
          tn_linear(x, y, NULL),
          "tensor([[  4.0000,  11.5000],\n"
          "        [  6.0000, -21.0000]])");
    check("conv2d",
          tn_conv2d(img, w, bias),
          "tensor([[[[-147.6250, -166.7500],\n"
          "          [-224.1250, -243.2500]],\n"
          "\n"
          "         [[ 377.8750,  399.2500],\n"
          "          [ 463.3750,  484.7500]]]])");
    check("conv2d with stride and padding",
          tn_conv2d(img, w, bias, .stride = 2, .paddings = tn_dims(1, 0)),
          "tensor([[[[ -55.5000],\n"
          "          [-224.1250]],\n"
          "\n"
          "         [[ 240.5000],\n"
          "          [ 463.3750]]]])");
    check("conv2d with dilation",
          tn_conv2d(img, tn_narrow(tn_narrow(w, 2, 0, 2), 3, 0, 2), NULL, .dilation = 2),
          "tensor([[[[ -94.0000, -104.5000],\n"
          "          [-136.0000, -146.5000]],\n"
          "\n"
          "         [[ 140.0000,  147.5000],\n"
          "          [ 170.0000,  177.5000]]]])");
    check("conv2d with groups",
          tn_conv2d(img, tn_narrow(w, 1, 0, 1), NULL, .groups = 2),
          "tensor([[[[ -63.3750,  -78.0000],\n"
          "          [-121.8750, -136.5000]],\n"
          "\n"
          "         [[ 127.8750,  133.5000],\n"
          "          [ 150.3750,  156.0000]]]])");
    check("conv2d padded to the same size",
          tn_conv2d(img, tn_narrow(w, 3, 0, 2), NULL, .padding_rule = "same"),
          "tensor([[[[ -39.5000,  -47.0000,  -54.5000,  -32.5000],\n"
          "          [-102.3750, -115.8750, -129.3750,  -73.8750],\n"
          "          [-156.3750, -169.8750, -183.3750, -102.3750],\n"
          "          [-155.0000, -165.5000, -176.0000,  -96.0000]],\n"
          "\n"
          "         [[ 149.5000,  160.0000,  170.5000,   84.5000],\n"
          "          [ 235.1250,  248.6250,  262.1250,  128.6250],\n"
          "          [ 289.1250,  302.6250,  316.1250,  154.1250],\n"
          "          [ 178.0000,  185.5000,  193.0000,   93.0000]]]])");
    check("conv2d of one image",
          tn_conv2d(tn_select(img, 0, 0), w, NULL),
          "tensor([[[-148.1250, -167.2500],\n"
          "         [-224.6250, -243.7500]],\n"
          "\n"
          "        [[ 378.3750,  399.7500],\n"
          "         [ 463.8750,  485.2500]]])");
    check("max_pool2d",
          tn_max_pool2d(img, tn_dims(2)),
          "tensor([[[[ 5.,  7.],\n"
          "          [13., 15.]],\n"
          "\n"
          "         [[21., 23.],\n"
          "          [29., 31.]]]])");
    check("max_pool2d with padding",
          tn_max_pool2d(img, tn_dims(3), .stride = 2, .padding = 1),
          "tensor([[[[ 5.,  7.],\n"
          "          [13., 15.]],\n"
          "\n"
          "         [[21., 23.],\n"
          "          [29., 31.]]]])");
    check("max_pool2d with dilation",
          tn_max_pool2d(img, tn_dims(2), .stride = 1, .dilation = 2),
          "tensor([[[[10., 11.],\n"
          "          [14., 15.]],\n"
          "\n"
          "         [[26., 27.],\n"
          "          [30., 31.]]]])");
    check("max_pool2d rounded up",
          tn_max_pool2d(img, tn_dims(3), .stride = 2, .ceil_mode = true),
          "tensor([[[[10., 11.],\n"
          "          [14., 15.]],\n"
          "\n"
          "         [[26., 27.],\n"
          "          [30., 31.]]]])");
    check("avg_pool2d",
          tn_avg_pool2d(img, tn_dims(2)),
          "tensor([[[[ 2.5000,  4.5000],\n"
          "          [10.5000, 12.5000]],\n"
          "\n"
          "         [[18.5000, 20.5000],\n"
          "          [26.5000, 28.5000]]]])");
    check("avg_pool2d with padding",
          tn_avg_pool2d(img, tn_dims(3), .stride = 2, .padding = 1),
          "tensor([[[[ 1.1111,  2.6667],\n"
          "          [ 5.6667, 10.0000]],\n"
          "\n"
          "         [[ 8.2222, 13.3333],\n"
          "          [16.3333, 26.0000]]]])");
    check("avg_pool2d without counting padding",
          tn_avg_pool2d(img, tn_dims(3), .stride = 2, .padding = 1, .no_count_include_pad = true),
          "tensor([[[[ 2.5000,  4.0000],\n"
          "          [ 8.5000, 10.0000]],\n"
          "\n"
          "         [[18.5000, 20.0000],\n"
          "          [24.5000, 26.0000]]]])");
    check("avg_pool2d over a given number",
          tn_avg_pool2d(img, tn_dims(2), .divisor_override = 2),
          "tensor([[[[ 5.,  9.],\n"
          "          [21., 25.]],\n"
          "\n"
          "         [[37., 41.],\n"
          "          [53., 57.]]]])");
    check("mse_loss",
          tn_mse_loss(x, y),
          "tensor(24.5417)");
    check("mse_loss, summed",
          tn_mse_loss(x, y, .reduction = "sum"),
          "tensor(147.2500)");
    check("nll_loss",
          tn_nll_loss(x, k),
          "tensor(-3.5000)");
    check("nll_loss of weighted classes",
          tn_nll_loss(x, k, .weight = v),
          "tensor(-3.2500)");
    check("cross_entropy",
          tn_cross_entropy(x, k),
          "tensor(0.7231)");
    check("cross_entropy of each row",
          tn_cross_entropy(x, k, .reduction = "none"),
          "tensor([0.1328, 1.3133])");
    check("cross_entropy ignores a class",
          tn_cross_entropy(x, k, .has_ignore_index = true),
          "tensor(0.1328)");
    check("cross_entropy of smoothed labels",
          tn_cross_entropy(x, k, .label_smoothing = 0.1, .weight = v),
          "tensor(0.7908)");
    check("cross_entropy of probabilities",
          tn_cross_entropy(x, tn_softmax(y, 1)),
          "tensor(6.4252)");
    check("cross_entropy of one row",
          tn_cross_entropy(v, tn_select(k, 0, 0)),
          "tensor(0.4076)");
    check("cross_entropy of places",
          tn_cross_entropy(tn_narrow(tn_narrow(img, 2, 0, 1), 3, 0, 2), tn_ones(tn_dims(1, 1, 2), .dtype = TN_I64)),
          "tensor(1.1921e-07)");
    check("index_select",
          tn_index_select(x, 1, k),
          "tensor([[ 3.,  1.],\n"
          "        [-6.,  4.]])");
    check("gather",
          tn_gather(x, 1, tn_unsqueeze(k, 1)),
          "tensor([[3.],\n"
          "        [4.]])");
    check("scatter",
          tn_scatter(x, 1, tn_unsqueeze(k, 1), tn_neg(x)),
          "tensor([[ 1., -2., -1.],\n"
          "        [-4.,  5., -6.]])");
    check("scatter of a number",
          tn_scatter_scalar(x, 1, tn_unsqueeze(k, 1), 9),
          "tensor([[ 1., -2.,  9.],\n"
          "        [ 9.,  5., -6.]])");
    check("scatter_add",
          tn_scatter_add(x, 1, tn_zeros(tn_dims(2, 3), .dtype = TN_I64), y),
          "tensor([[ 7.0000, -2.0000,  3.0000],\n"
          "        [ 6.5000,  5.0000, -6.0000]])");
    check("index_add",
          tn_index_add(x, 1, k, tn_narrow(y, 1, 0, 2), .alpha = 2),
          "tensor([[ 5., -2.,  7.],\n"
          "        [ 2.,  5., -5.]])");
    check("embedding",
          tn_embedding(k, tn_t(x)),
          "tensor([[ 3., -6.],\n"
          "        [ 1.,  4.]])");
    check("one_hot",
          tn_one_hot(k),
          "tensor([[0, 0, 1],\n"
          "        [1, 0, 0]])");
    check("tril",
          tn_tril(x),
          "tensor([[1., 0., 0.],\n"
          "        [4., 5., 0.]])");
    check("triu",
          tn_triu(x, .diagonal = 1),
          "tensor([[ 0., -2.,  3.],\n"
          "        [ 0.,  0., -6.]])");
    check("dropout while not training",
          tn_dropout(x, 0.5, false),
          "tensor([[ 1., -2.,  3.],\n"
          "        [ 4.,  5., -6.]])");
    check("dropout of all",
          tn_dropout(x, 1, true),
          "tensor([[0., -0., 0.],\n"
          "        [0., 0., -0.]])");
}

/* Random rows: the same numbers everywhere, within their bounds. */
static void check_random(void)
{
    tn_manual_seed(7);
    tn_tensor *u = tn_rand(tn_dims(1000)), *n = tn_randn(tn_dims(1000));
    tn_tensor *r = tn_randint(-3, 4, tn_dims(1000));
    tn_manual_seed(7);
    tn_tensor *again = tn_rand(tn_dims(1000));
    ok(tn_item(tn_all(tn_eq(u, again))) == 1, "%s: one seed, one stream",
       device_name);
    ok(tn_item(tn_min(u)) >= 0 && tn_item(tn_max(u)) < 1,
       "%s: rand lies in [0, 1)", device_name);
    is_double_near(tn_item(tn_mean(u)), 0.5, 0.05, "%s: rand's mean",
                   device_name);
    is_double_near(tn_item(tn_mean(n)), 0, 0.15, "%s: randn's mean",
                   device_name);
    is_double_near(tn_item(tn_std(n)), 1, 0.1, "%s: randn's deviation",
                   device_name);
    is_int(tn_item_int(tn_min(r)), -3, "%s: randint begins at low",
           device_name);
    is_int(tn_item_int(tn_max(r)), 3, "%s: randint ends before high",
           device_name);
    tn_tensor *d = tn_dropout(tn_ones(tn_dims(1000)), 0.25, true);
    double kept = tn_item(tn_sum(tn_ne_scalar(d, 0)));
    is_double_near(kept, 750, 60, "%s: dropout keeps three of four",
                   device_name);
    is_double_near(tn_item(tn_max(d)), 1 / 0.75, 1e-6,
                   "%s: dropout scales what it keeps", device_name);
}

/* Random numbers depend on the seed alone. */
static tn_tensor *stream(const char *device)
{
    if (tn_device_set(tn_device_open(device)) < 0)
        return NULL;
    tn_manual_seed(3);
    return tn_randn(tn_dims(64), .dtype = TN_F64);
}

int main(void)
{
    plan_later();
    static const char *const devices[] = {"reference", "cpu",
                                          "opencl"};
    for (int d = 0; d < 3; d++) {
        device_name = devices[d];
        tn_device *device = tn_device_open(device_name);
        if (!device) {
            skip(1, tn_error());
            tn_error_clear();
            continue;
        }
        tn_device_set(device);
        tn_scope *scope = tn_scope_open();
        check_rows();
        check_bags();
        check_losses();
        check_random();
        if (strcmp(device_name, "cpu") == 0) /* reference takes seconds */
            check_blocks(device);
        tn_scope_close(scope);
    }
    if (tn_is_available("reference") && tn_is_available("cpu")) {
        double a[64], b[64];
        tn_tensor_to_array(stream("reference"), a, sizeof a);
        tn_tensor_to_array(stream("cpu"), b, sizeof b);
        ok(memcmp(a, b, sizeof a) == 0 && !tn_error(),
           "reference and cpu draw the same bits");
    }
    return done_testing();
}
