/* test_amp.c: trains on the digits data set in mixed precision.
 *
 * The same network, seed and order of batches run in float32, under autocast to
 * bfloat16, and under autocast to float16 with a gradient scaler whose initial
 * scale is far too high. The accuracy on 360 held-out images must be at most 2
 * percentage points below float32's. */
#include <tenon/tenon.h>

#include "../tap.h"

enum { EPOCHS = 6, HELD = 360 };

static tn_module *network(void)
{
    tn_manual_seed(5);
    return tn_nn_sequential(
        tn_nn_conv2d(1, 8, 3, .padding = 1), tn_nn_batch_norm2d(8),
        tn_nn_relu(), tn_nn_max_pool2d(2), tn_nn_flatten(),
        tn_nn_linear(128, 32), tn_nn_relu(), tn_nn_linear(32, 10));
}

static tn_tensor *images(tn_tensor *x)
{
    return tn_mul_scalar(tn_reshape(x, tn_dims(-1, 1, 8, 8)), 1.0 / 16);
}

static double accuracy(tn_module *net, tn_loader *loader)
{
    double right = 0;
    tn_module_eval(net);
    TN_NO_GRAD {
        TN_EACH_BATCH(batch, loader) {
            tn_tensor *z = tn_forward(net, images(batch.x));
            tn_tensor *best = tn_argmax(z, .dim = 1);
            right += tn_item(tn_sum(tn_eq(best, batch.y)));
        }
    }
    tn_module_train(net, true);
    return right / HELD;
}

typedef struct result {
    double accuracy, averaged, loss;
    int skipped;
    tn_dtype logits;
} result;

static result train(tn_dataset *digits, tn_dtype dtype)
{
    result r = {.skipped = 0};
    tn_module *net = network();
    tn_loader *loader = tn_loader_new(
        tn_dataset_range(digits, HELD, tn_dataset_count(digits)),
        .batch_size = 64, .shuffle = true, .seed = 2);
    tn_loader *test =
        tn_loader_new(tn_dataset_range(digits, 0, HELD), .batch_size = 360);
    tn_optim *opt = tn_optim_adam(tn_parameters(net), .lr = 3e-3);
    tn_grad_scaler *scaler = tn_grad_scaler_new(
        .init_scale = 0x1p30, .growth_interval = 50,
        .disabled = dtype != TN_F16);
    tn_average *average =
        tn_average_new(net, .decay = 0.95, .use_buffers = true);
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        TN_EACH_BATCH(batch, loader) {
            tn_tensor *x = images(batch.x), *loss = NULL;
            TN_AUTOCAST(dtype) {
                tn_tensor *z = tn_forward(net, x);
                r.logits = tn_tensor_dtype(z);
                loss = tn_cross_entropy(z, batch.y);
            }
            tn_optim_zero_grad(opt);
            tn_backward(tn_grad_scaler_scale(scaler, loss));
            r.skipped += tn_grad_scaler_step(scaler, opt) == 0;
            tn_grad_scaler_update(scaler);
            tn_average_update(average);
            r.loss = tn_item(loss);
        }
    r.accuracy = accuracy(net, test);
    tn_average_swap(average);
    r.averaged = accuracy(net, test);
    tn_average_swap(average);
    return r;
}

int main(void)
{
    plan_later();
    const char *top = getenv("top_srcdir");
    char path[4096];
    snprintf(path, sizeof path, "%s/data/digits.csv.gz", top ? top : ".");
    tn_dataset *digits = tn_dataset_shuffle(tn_dataset_from_csv(path, NULL), 1);
    if (!digits)
        bail_out("%s", tn_error());
    static const tn_dtype dtypes[] = {TN_DTYPE_NONE, TN_BF16, TN_F16};
    double plain = 0;
    for (int k = 0; k < 3; k++) {
        tn_scope *scope = tn_scope_open();
        result r = train(digits, dtypes[k]);
        const char *name = k ? tn_dtype_name(dtypes[k]) : "float32 alone";
        note("%s: accuracy %.4f, of the averaged weights %.4f, last loss %.4f, "
             "%d steps left out", name, r.accuracy, r.averaged, r.loss,
             r.skipped);
        if (k == 0)
            plain = r.accuracy;
        ok(!tn_error(), "%s trains: %s", name, tn_error() ? tn_error() : "");
        ok(r.accuracy > 0.95 && r.accuracy >= plain - 0.02,
           "%s learns the digits as float32 does", name);
        ok(r.averaged > 0.95 && r.averaged >= plain - 0.02,
           "%s: and so do the averaged weights", name);
        ok(r.logits == (k ? dtypes[k] : TN_F32), "%s: logits have its dtype",
           name);
        if (dtypes[k] == TN_F16)
            ok(r.skipped > 0 && r.skipped < 40,
               "steps are left out until the scale fits");
        else
            is_int(r.skipped, 0, "no step is left out");
        tn_scope_close(scope);
    }
    return done_testing();
}
