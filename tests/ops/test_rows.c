/* Tests operators that compute numbers: constructors, elementwise operators,
 * reductions, losses, random numbers. On each available device, small results
 * print as in PyTorch 2.x. */
#include "rows.h"

static tn_tensor *indices_of(tn_tensor *x)
{
    tn_tensor *indices = NULL;
    tn_max_dim(x, 1, &indices);
    return indices;
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

/* Tests more rows than the operator processes in a block. The whole matrix of
 * intermediate results is never stored, and the gradient equals that of the
 * simple computation. */
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

static void check_creation(const rows_input *in)
{
    tn_tensor *x = in->x, *i = in->i;

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
          tn_eye(2, .m = 3),
          "tensor([[1., 0., 0.],\n"
          "        [0., 1., 0.]])");
}

static void check_elements(const rows_input *in)
{
    tn_tensor *x = in->x, *p = in->p, *i = in->i, *bias = in->bias;

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
    const double orders[] = {1, 10, 1000, 1e5, 1e6, 1e12, 1e300};
    tn_tensor *order = tn_tensor_from_array(orders, TN_F64, tn_dims(7));
    check("laguerre_polynomial_l of any order",
          tn_to_dtype(tn_laguerre_polynomial_l_scalar_first(2.5, order),
                      TN_F32),
          "tensor([-1.5000, -0.8803,  0.0737,  0.0865,     nan,     nan,  "
          "0.0000])");
    check("legendre_polynomial_p of any order",
          tn_to_dtype(tn_legendre_polynomial_p_scalar_first(0.25, order),
                      TN_F32),
          "tensor([ 0.2500,  0.2212,  0.0023, -0.0024,     nan,     nan,  "
          "0.0000])");
    check("hermite_polynomial_h of any order",
          tn_to_dtype(tn_hermite_polynomial_h_scalar_first(0.25, order),
                      TN_F32),
          "tensor([ 5.0000e-01, -1.2876e+04,         nan,         nan,"
          "         nan,\n                nan,  0.0000e+00])");
    check("dropout while not training",
          tn_dropout(x, 0.5, false),
          "tensor([[ 1., -2.,  3.],\n"
          "        [ 4.,  5., -6.]])");
    check("dropout of all",
          tn_dropout(x, 1, true),
          "tensor([[0., -0., 0.],\n"
          "        [0., 0., -0.]])");
}

static void check_pairs(const rows_input *in)
{
    tn_tensor *x = in->x, *y = in->y, *p = in->p, *i = in->i, *b = in->b,
        *v = in->v, *bias = in->bias;

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
          tn_add(x, y, .alpha = 0),
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
}

/* Returns a leaf with NaN and the numbers at which functions have corners. */
static tn_tensor *corners(void)
{
    const float at[] = {NAN, -3, -1, 0, 0.25f, 1, 3, 6};
    return tn_requires_grad(tn_tensor_from_array(at, TN_F32, tn_dims(8)));
}

/* The gradients at corners are those of PyTorch 2.15. */
static void check_corners(void)
{
    const float x_data[] = {1, NAN, 2, 3}, y_data[] = {1, 2, NAN, 1};
    tn_tensor *y = tn_tensor_from_array(y_data, TN_F32, tn_dims(4)), *x;
#define CORNER(name, call, want)                                              \
    x = corners();                                                            \
    check("the gradient of " name, gradient(call, x), want)
    CORNER("relu", tn_relu(x), "tensor([1., 0., 0., 0., 1., 1., 1., 1.])");
    CORNER("relu6", tn_relu6(x), "tensor([1., 0., 0., 0., 1., 1., 1., 0.])");
    CORNER("hardtanh", tn_hardtanh(x),
           "tensor([1., 0., 0., 1., 1., 0., 0., 0.])");
    CORNER("softshrink", tn_softshrink(x),
           "tensor([1., 1., 1., 0., 0., 1., 1., 1.])");
    CORNER("threshold", tn_threshold(x, 0.5, -9),
           "tensor([1., 0., 0., 0., 0., 1., 1., 1.])");
    CORNER("clamp", tn_clamp_scalars(x, -1, 1),
           "tensor([0., 0., 0., 1., 1., 0., 0., 0.])");
    CORNER("elu", tn_elu(x),
           "tensor([1.0000, 0.0498, 0.3679, 1.0000, 1.0000, 1.0000, 1.0000, "
           "1.0000])");
    CORNER("celu", tn_celu(x),
           "tensor([1.0000, 0.0498, 0.3679, 1.0000, 1.0000, 1.0000, 1.0000, "
           "1.0000])");
    CORNER("selu", tn_selu(x),
           "tensor([1.0507, 0.0875, 0.6468, 1.7581, 1.0507, 1.0507, 1.0507, "
           "1.0507])");
    CORNER("hardswish", tn_hardswish(x),
           "tensor([1.0000, 0.0000, 0.1667, 0.5000, 0.5833, 0.8333, 1.0000, "
           "1.0000])");
#undef CORNER
    check("threshold keeps NaN",
          tn_select(tn_detach(tn_threshold(corners(), 0.5, -9)), 0, 0),
          "tensor(nan)");
#define PAIR(name, call, want)                                                \
    x = tn_requires_grad(tn_tensor_from_array(x_data, TN_F32, tn_dims(4)));   \
    check("the gradient of " name, gradient(call, x), want)
    PAIR("fmin", tn_fmin(x, y), "tensor([0.5000, 0.0000, 1.0000, 0.0000])");
    PAIR("fmax", tn_fmax(x, y), "tensor([0.5000, 0.0000, 1.0000, 1.0000])");
    PAIR("clamp_min", tn_clamp_min(x, y),
         "tensor([0.5000, 1.0000, 1.0000, 1.0000])");
    PAIR("clamp_max", tn_clamp_max(x, y),
         "tensor([0.5000, 1.0000, 1.0000, 0.0000])");
    PAIR("logit outside [0, 1]", tn_logit(tn_mul_scalar(x, 0.25)),
         "tensor([1.3333,    nan, 1.0000, 1.3333])");
#undef PAIR
}

static void check_reductions(const rows_input *in)
{
    tn_tensor *x = in->x, *i = in->i, *b = in->b;

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
    check("all of uint8 is uint8",
          tn_all(tn_to_dtype(i, TN_U8), .dim = 1),
          "tensor([1, 0], dtype=torch.uint8)");
    check("any of uint8 too",
          tn_any(tn_to_dtype(i, TN_U8)),
          "tensor(1, dtype=torch.uint8)");
    check("var",
          tn_var(x),
          "tensor(17.3667)");
    check("std",
          tn_std(x),
          "tensor(4.1673)");
    check("amax",
          tn_amax(x, .dim = 1),
          "tensor([3., 5.])");
    check("amin",
          tn_amin(x, .dim = 0, .keepdim = true),
          "tensor([[ 1., -2., -6.]])");
    check("sum of columns",
          tn_sum(x, .dim = 0),
          "tensor([ 5.,  3., -3.])");
    check("sum of rows, kept",
          tn_sum(x, .dim = -1, .keepdim = true),
          "tensor([[2.],\n"
          "        [3.]])");
    check("sum along both",
          tn_sum(x, .dims = tn_dims(0, 1)),
          "tensor(5.)");
    check("sum of bool is int64",
          tn_sum(b),
          "tensor(3)");
    check("sum in float64",
          tn_sum(x, .dtype = TN_F64),
          "tensor(5., dtype=torch.float64)");
    check("sum of a transposed tensor",
          tn_sum(tn_t(x), .dim = 0),
          "tensor([2., 3.])");
    check("sum of nothing",
          tn_sum(tn_zeros(tn_dims(2, 0)), .dim = 1),
          "tensor([0., 0.])");
    check("mean of columns",
          tn_mean(x, .dim = 0),
          "tensor([ 2.5000,  1.5000, -1.5000])");
    check("prod along dim",
          tn_prod(x, .dim = 1),
          "tensor([  -6., -120.])");
    check("max along dim: values",
          tn_max_dim(x, 1, NULL),
          "tensor([3., 5.])");
    check("max along dim: indices",
          indices_of(x),
          "tensor([2, 1])");
    check("argmax along dim",
          tn_argmax(x, .dim = 0),
          "tensor([1, 1, 0])");
    check("any along dim",
          tn_any(b, .dim = 0),
          "tensor([ True, False,  True])");
    check("var without correction",
          tn_var(x, .dim = 1, .correction = 0),
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
}

static void check_plain_losses(const rows_input *in)
{
    tn_tensor *x = in->x, *y = in->y, *k = in->k, *v = in->v, *img = in->img;

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
          tn_cross_entropy(x, k, .ignore_index = 0),
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
}

/* Random operators give the same numbers on every device, within their
 * bounds. */
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
       "%s: rand is in [0, 1)", device_name);
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

/* Random numbers depend only on the seed. */
static tn_tensor *stream(const char *device)
{
    if (tn_device_set(tn_device_open(device)) < 0)
        return NULL;
    tn_manual_seed(3);
    return tn_randn(tn_dims(64), .dtype = TN_F64);
}

static void check_all(const rows_input *in, tn_device *device)
{
    check_creation(in);
    check_elements(in);
    check_pairs(in);
    check_reductions(in);
    check_plain_losses(in);
    check_corners();
    check_losses();
    check_random();
    if (strcmp(device_name, "cpu") == 0) /* the reference plugin needs seconds
                                          * for this */
        check_blocks(device);
}

int main(void)
{
    plan_later();
    rows_on_devices(check_all);
    if (tn_device_is_available("reference") && tn_device_is_available("cpu")) {
        double a[64], b[64];
        tn_tensor_to_array(stream("reference"), a, sizeof a);
        tn_tensor_to_array(stream("cpu"), b, sizeof b);
        ok(memcmp(a, b, sizeof a) == 0 && !tn_error(),
           "reference and cpu draw the same bits");
    }
    return done_testing();
}
