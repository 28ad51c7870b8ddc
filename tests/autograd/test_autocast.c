/* test_autocast.c: tests operators under autocast: the dtype that each operator
 * uses, gradients, and that parameters are converted once.
 *
 * tests/golden/autocast.c runs every operator under autocast. This file checks
 * the operators that PyTorch 2.15 names in its autocast lists
 * (ATen/autocast_mode.h and the registrations of AutocastCUDA and AutocastCPU),
 * and how autocast is switched. */
#include <base/memory.h>
#include <ops/engine/ops.h>
#include <pthread.h>
#include <tenon/tenon.h>

#include "../tap.h"

/* ---- autocast lists ------------------------------------------------------ */

static const struct list {
    const char *word;
    int autocast;
    const char *names; /* names in PyTorch, separated by spaces */
} lists[] = {
    {"the half type", TN__AUTOCAST_LOWER,
     "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
     "prelu addmm addmv addr matmul einsum mm mv linalg.vecdot "
     "nn.functional.linear addbmm baddbmm bmm chain_matmul linalg.multi_dot "
     "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell "
     "nn.functional.scaled_dot_product_attention"},
    {"float32", TN__AUTOCAST_F32,
     "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt "
     "sinh tan pow nn.functional.softplus nn.functional.layer_norm "
     "nn.functional.rms_norm nn.functional.group_norm "
     "nn.functional.cosine_similarity nn.functional.poisson_nll_loss "
     "nn.functional.cosine_embedding_loss nn.functional.nll_loss "
     "nn.functional.hinge_embedding_loss nn.functional.kl_div "
     "nn.functional.l1_loss nn.functional.smooth_l1_loss "
     "nn.functional.huber_loss nn.functional.mse_loss "
     "nn.functional.margin_ranking_loss nn.functional.multilabel_margin_loss "
     "nn.functional.soft_margin_loss nn.functional.triplet_margin_loss "
     "nn.functional.multi_margin_loss "
     "nn.functional.binary_cross_entropy_with_logits dist "
     "nn.functional.pdist cdist renorm logsumexp prod softmax log_softmax "
     "cumprod cumsum linalg.vector_norm linalg.matrix_norm sum norm "
     "linalg.inv linalg.solve linalg.cholesky linalg.qr linalg.svd quantile "
     "trace nn.functional.cross_entropy"},
    {"float32, or none", TN__AUTOCAST_F32_NOT_F16,
     "nn.functional.binary_cross_entropy"},
    {"the widest", TN__AUTOCAST_WIDEST,
     "addcdiv addcmul atan2 nn.functional.bilinear cross dot vdot tensordot "
     "index_put scatter_add cat stack index_copy"},
    {"what comes", TN__AUTOCAST_NONE,
     "relu add mul nn.functional.gelu sigmoid tanh max mean where "
     "nn.functional.batch_norm nn.functional.dropout nn.functional.embedding "
     "max_pool2d transpose reshape clone"},
};

static void check_lists(void)
{
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char names[2000], *rest = NULL;
        snprintf(names, sizeof names, "%s", lists[i].names);
        for (char *name = strtok_r(names, " ", &rest); name;
             name = strtok_r(NULL, " ", &rest)) {
            const tn_op *op = tn_op_find(name);
            if (!op || op->autocast != lists[i].autocast)
                ok(false, "%s runs in %s", name, lists[i].word);
        }
        ok(true, "all of a list take %s", lists[i].word);
    }
}

/* ---- switching ----------------------------------------------------------- */

static tn_dtype dtype_of_product(void)
{
    tn_tensor *x = tn_ones(tn_dims(2, 2));
    return tn_tensor_dtype(tn_matmul(x, x));
}

static void *elsewhere(void *context)
{
    *(tn_dtype *)context = dtype_of_product();
    return NULL;
}

static void check_switch(void)
{
    ok(tn_autocast_dtype() == TN_DTYPE_NONE, "autocast is off at the start");
    ok(dtype_of_product() == TN_F32, "where it is off, a product is as given");
    TN_AUTOCAST(TN_BF16) {
        ok(dtype_of_product() == TN_BF16,
           "with autocast on, the result is in the half type");
        TN_AUTOCAST(TN_F16)
            ok(dtype_of_product() == TN_F16, "scopes nest");
        TN_AUTOCAST(TN_DTYPE_NONE)
            ok(dtype_of_product() == TN_F32, "off within on");
        ok(tn_autocast_dtype() == TN_BF16,
           "and each region restores the outer mode");
        tn_dtype other = TN_DTYPE_NONE;
        pthread_t thread;
        pthread_create(&thread, NULL, elsewhere, &other);
        pthread_join(thread, NULL);
        ok(other == TN_F32, "another thread's mode does not change");
        TN_AUTOCAST(TN_F64)
            ok(tn_autocast_dtype() == TN_BF16, "a wrong dtype changes nothing");
        is_int(tn_error_code(), TN_ERR_DTYPE, "and is refused");
        is_str(tn_error(), "autocast: the dtype is float64; "
                           "expected TN_F16 or TN_BF16, or "
                           "TN_DTYPE_NONE to turn it off", "by name");
        tn_error_clear();
        ok(tn_autocast_dtype() == TN_BF16, "nor when it is left");
    }
    ok(tn_autocast_dtype() == TN_DTYPE_NONE, "off again");
}

/* ---- dtypes of results --------------------------------------------------- */

#define IS(call, dtype, what) ok(tn_tensor_dtype(call) == (dtype), what)

static void check_dtypes(void)
{
    tn_tensor *x = tn_full(tn_dims(2, 2), 0.5), *half = tn_to_dtype(x, TN_F16),
              *wide = tn_to_dtype(x, TN_F64),
              *whole = tn_ones(tn_dims(2, 2), .dtype = TN_I64);
    tn_tensor *both[] = {half, x};
    TN_AUTOCAST(TN_F16) {
        IS(tn_matmul(x, half), TN_F16, "operands of two dtypes meet");
        IS(tn_matmul(wide, wide), TN_F64, "float64 stays");
        IS(tn_matmul(whole, whole), TN_I64, "whole numbers stay");
        IS(tn_softmax(half, 1), TN_F32, "softmax of halves is float32");
        IS(tn_softmax(half, 1, .dtype = TN_F16), TN_F16,
           "unless a dtype is given");
        IS(tn_relu(half), TN_F16, "relu takes what comes");
        IS(tn_cat(both, 2, 0), TN_F32, "cat takes the widest");
        IS(tn_linalg_inv(tn_add(half, tn_eye(2, .dtype = TN_F16))), TN_F32,
           "what LAPACK computes is float32");
        IS(tn_einsum("ij,jk->ik", both, 2), TN_F16, "lists are converted");
        tn_tensor *z = tn_zeros(tn_dims(2, 2), .dtype = TN_F16);
        ok(tn_exp_(z) && tn_tensor_dtype(z) == TN_F16,
           "an in-place call runs in its tensor's dtype");
        ok(!tn_error(), "no error: %s", tn_error() ? tn_error() : "none");
        ok(!tn_binary_cross_entropy(half, half, NULL),
           "a loss of a sigmoid is refused in float16");
        is_int(tn_error_code(), TN_ERR_DTYPE, "for its dtype");
        ok(tn_error() && strstr(tn_error(),
                                "binary_cross_entropy: with autocast in "
                                "float16 its gradient would overflow"),
           "with the reason: %s", tn_error());
        tn_error_clear();
        ok(!tn_matmul(x, tn_ones(tn_dims(3, 3))), "a wrong shape is refused");
        is_str(tn_error(),
               "matmul: inner sizes differ: input (2, 2) x other "
               "(3, 3)",
               "as without autocast");
        tn_error_clear();
    }
    TN_AUTOCAST(TN_BF16)
        IS(tn_binary_cross_entropy(x, x, NULL), TN_F32, "in bfloat16 it is float32");
}

/* ---- gradients ----------------------------------------------------------- */

static bool same(tn_tensor *a, tn_tensor *b)
{
    return a && b && tn_item_int(tn_to_dtype(tn_equal(a, b), TN_I64)) == 1;
}

static void check_gradient(void)
{
    tn_manual_seed(3);
    tn_tensor *x = tn_randn(tn_dims(5, 4)),
              *w = tn_requires_grad(tn_randn(tn_dims(4, 3)));
    TN_AUTOCAST(TN_BF16)
        tn_backward(tn_sum(tn_square(tn_matmul(x, w))));
    tn_tensor *got = tn_clone(tn_tensor_grad(w));
    ok(tn_tensor_dtype(got) == TN_F32, "a parameter's gradient is float32");
    tn_tensor_set_grad(w, NULL);
    tn_tensor *y = tn_matmul(tn_to_dtype(x, TN_BF16), tn_to_dtype(w, TN_BF16));
    tn_backward(tn_sum(tn_to_dtype(tn_square(y), TN_F32)));
    ok(same(got, tn_tensor_grad(w)), "with the bits of explicit conversions");
    tn_tensor_set_grad(w, NULL);
    tn_tensor *root = NULL;
    TN_AUTOCAST(TN_BF16)
        root = tn_sum(tn_square(tn_matmul(x, w)));
    tn_backward(root);
    ok(same(got, tn_tensor_grad(w)), "the walk may begin outside");
}

/* The following functions compare a minimal network with the results of torch
 * 2.15.0 on the CPU: h = relu(linear(x, w1, b1)); z = linear(h, w2, b2);
 * cross_entropy(z, y) under torch.autocast("cpu", torch.bfloat16). */
static tn_tensor *numbers(int count, int modulus, int factor, tn_dims_list shape)
{
    float value[32];
    for (int i = 0; i < count; i++)
        value[i] = (float)(i * factor % modulus - modulus / 2) / 16;
    return tn_tensor_from_array(value, TN_F32, shape);
}

static bool near(tn_tensor *x, const float *want, int count, double step)
{
    float got[32];
    bool good = !tn_tensor_to_array(x, got, (size_t)count * sizeof *got);
    for (int i = 0; good && i < count; i++) {
        good = fabs(got[i] - want[i]) <= step * fabs(want[i]);
        if (!good)
            note("element %d is %.9g, PyTorch's %.9g", i, got[i], want[i]);
    }
    return good;
}

static void check_pytorch(void)
{
    tn_tensor *x = numbers(12, 23, 7, tn_dims(3, 4));
    tn_tensor *w1 = tn_requires_grad(numbers(20, 29, 11, tn_dims(5, 4))),
              *b1 = tn_requires_grad(numbers(5, 7, 3, tn_dims(5))),
              *w2 = tn_requires_grad(numbers(15, 31, 13, tn_dims(3, 5))),
              *b2 = tn_requires_grad(numbers(3, 5, 2, tn_dims(3)));
    const int64_t label[] = {2, 0, 1};
    tn_tensor *y = tn_tensor_from_array(label, TN_I64, tn_dims(3));
    tn_tensor *z = NULL, *loss = NULL;
    TN_AUTOCAST(TN_BF16) {
        tn_tensor *h = tn_relu(tn_linear(x, w1, b1));
        z = tn_linear(h, w2, b2);
        loss = tn_cross_entropy(z, y);
    }
    tn_backward(loss);
    static const float logits[] = {0.259765625f,   0.6015625f,
                                   -0.0864257812f, 0.30859375f,
                                   0.94140625f,    -0.45703125f,
                                   -0.33984375f,   -0.0615234375f,
                                   0.215820312f};
    static const float by_w1[] = {
        0.0270996094f,    0.0202636719f,    0.0133056641f,   -0.068359375f,
        -0.000709533691f, 0.00427246094f,   -0.00708007812f, -0.00213623047f,
        -0.283203125f,    -0.110351562f,    0.0625f,         0.2890625f,
        -0.000709533691f, 0.00427246094f,   -0.00708007812f, -0.00213623047f,
        0.0275878906f,    0.0205078125f,    0.0134277344f,   -0.0693359375f};
    static const float by_b2[] = {-0.0444335938f, 0.11328125f, -0.0688476562f};
    ok(tn_tensor_dtype(z) == TN_BF16 && near(tn_to_dtype(z, TN_F32), logits, 9, 0),
       "a network's results in bfloat16 are PyTorch's");
    ok(fabs(tn_item(loss) - 1.27152264) < 1e-6, "and its loss, in float32");
    ok(near(tn_tensor_grad(w1), by_w1, 20, 0x1p-7) &&
           near(tn_tensor_grad(b2), by_b2, 3, 0x1p-7),
       "and gradients, to a step of the half type");
    ok(!tn_error(), "no error: %s", tn_error() ? tn_error() : "none");
}

/* ---- parameters converted once ------------------------------------------- */

/* Returns the number of storages allocated so far. */
static int64_t storages(void)
{
    tn_memory_stats stats = {.size = sizeof stats};
    tn_memory(NULL, &stats);
    return stats.allocation_count;
}

/* As in PyTorch, a parameter is converted only at its first use, but an
 * operator's result is converted at each use. */
static void check_conversions(void)
{
    tn_tensor *x = tn_ones(tn_dims(2, 2), .dtype = TN_BF16),
              *w = tn_requires_grad(tn_ones(tn_dims(2, 2))),
              *made = tn_mul_scalar(w, 2);
    TN_AUTOCAST(TN_BF16) {
        tn_matmul(x, tn_requires_grad(tn_ones(tn_dims(2, 2))));
        int64_t start = storages();
        tn_matmul(x, w);
        int64_t first = storages() - start;
        tn_matmul(x, w);
        is_int(storages() - start - first, first - 1,
               "the second use of a parameter converts nothing");
        start = storages();
        tn_matmul(x, made);
        tn_matmul(x, made);
        is_int(storages() - start, 2 * first,
               "the result of an operator is converted each time");
    }
}

static void check_stored(void)
{
    tn_tensor *x = tn_ones(tn_dims(2, 2)),
              *w = tn_requires_grad(tn_ones(tn_dims(2, 2)));
    TN_AUTOCAST(TN_BF16) {
        tn_tensor *y = tn_add(tn_matmul(x, w), tn_matmul(x, w));
        tn_backward(tn_sum(y));
        ok(tn_item(tn_select(tn_select(tn_tensor_grad(w), 0, 0), 0, 0)) == 4,
           "a parameter used twice gets both gradients");
        tn_tensor_set_grad(w, NULL);
        ok(!tn_backward(tn_sum(tn_matmul(x, w))),
           "after a walk it serves another");
        tn_tensor_set_grad(w, NULL);
        TN_NO_GRAD {
            tn_matmul(x, w);
            tn_mul_scalar_(w, 3);
        }
        y = tn_matmul(x, w);
        ok(tn_item(tn_sum(y)) == 24, "a changed parameter is converted again");
        ok(!tn_backward(tn_sum(y)) && tn_tensor_grad(w),
           "and recorded, though it was not before");
        tn_tensor_set_grad(w, NULL);
        tn_tensor_set_data(w, tn_full(tn_dims(2, 2), 5.0));
        ok(tn_item(tn_sum(tn_matmul(x, w))) == 40, "other data too");
        tn_tensor_set_data(w, x);
        for (int i = 0; i < 200; i++) /* more than the initial capacity of the
                                       * cache */
            tn_matmul(x, tn_requires_grad(tn_ones(tn_dims(2, 2))));
        ok(!tn_error(), "no error: %s", tn_error() ? tn_error() : "none");
    }
}

/* The first round compiles kernels, which stay cached. */
static void check_leaks(void)
{
    int64_t live = 0;
    for (int round = 0; round < 2; round++) {
        live = tn__memory_live();
        tn_scope *scope = tn_scope_open();
        check_stored();
        tn_scope_close(scope);
    }
    is_int(tn__memory_live(), live, "and no memory is left");
}

static tn_status two_products(tn_tensor *const *in, int count, tn_tensor **out,
                              int out_count, void *w)
{
    (void)count, (void)out_count;
    out[0] = tn_matmul(tn_relu(tn_matmul(in[0], w)), w);
    return out[0] ? TN_OK : tn_error_code();
}

static void check_recompute(void)
{
    tn_manual_seed(9);
    tn_tensor *x = tn_randn(tn_dims(6, 6)), *y = NULL,
              *w = tn_requires_grad(tn_randn(tn_dims(6, 6)));
    TN_AUTOCAST(TN_BF16)
        two_products(&x, 1, &y, 1, w);
    tn_backward(tn_sum(y));
    tn_tensor *want = tn_clone(tn_tensor_grad(w));
    tn_tensor_set_grad(w, NULL);
    TN_AUTOCAST(TN_BF16)
        tn_recompute(two_products, w, &x, 1, &y, 1);
    ok(tn_tensor_dtype(y) == TN_BF16 && !tn_backward(tn_sum(y)),
       "a function runs again in the dtypes of the first run");
    ok(same(tn_tensor_grad(w), want), "with the same gradients");
    ok(tn_autocast_dtype() == TN_DTYPE_NONE, "outside all is as it was");
}

int main(void)
{
    plan_later();
    check_lists();
    static const char *const devices[] = {"reference", "cpu", "opencl"};
    for (int d = 0; d < 3; d++) {
        tn_device *device = tn_device_open(devices[d]);
        if (!device) {
            skip(1, tn_error());
            tn_error_clear();
            continue;
        }
        note("on %s", tn_device_name(device));
        tn_device_set(device);
        tn_scope *scope = tn_scope_open();
        if (d == 1) {
            check_switch();
            check_dtypes();
            check_recompute();
        }
        check_gradient();
        check_pytorch();
        check_conversions();
        check_leaks();
        tn_scope_close(scope);
    }
    return done_testing();
}
