/* test_average.c: tests averaged weights, and a gradient scaler and an average
 * in a checkpoint. The expected numbers are those of
 * torch.optim.swa_utils.AveragedModel (2.15) for a BatchNorm1d(2) whose weights
 * are set five times. */
#include <tenon/tenon.h>

#include <unistd.h>

#include "../tap.h"

static char path[64];

static double at(tn_tensor *x, int i)
{
    return tn_item(tn_narrow(x, 0, i, 1));
}

static void set(tn_module *m, int i)
{
    const float w[] = {(float)i * 0.75f - 1, 2.0f / (float)(i + 1)};
    const float b[] = {w[0] * 3, w[1] * 3}, mean[] = {w[0] + 1, w[1] + 1};
    const int64_t count = i * 3;
    tn_tensor_set_array(tn_module_parameter(m, "weight"), w, sizeof w);
    tn_tensor_set_array(tn_module_parameter(m, "bias"), b, sizeof b);
    tn_tensor_set_array(tn_module_buffer(m, "running_mean"), mean, sizeof mean);
    tn_tensor_set_array(tn_module_buffer(m, "num_batches_tracked"), &count,
                        sizeof count);
}

static tn_tensor *named(const tn_average *average, const char *name)
{
    for (int i = 0; i < tn_average_count(average); i++)
        if (strcmp(tn_average_name(average, i), name) == 0)
            return tn_average_at(average, i);
    return NULL;
}

static void check_figures(void)
{
    static const struct {
        const char *what;
        double decay;
        bool use_buffers;
        double want[6]; /* weight, bias, running_mean */
    } cases[] = {
        {"exponential averages", 0.9, false,
         {-0.321325034, 1.52409995, -0.963975012, 4.57229996, 3, 1.39999998}},
        {"means of all updates", TN_NONE_FLOAT, false,
         {0.5, 0.913333297, 1.5, 2.74000001, 3, 1.39999998}},
        {"with buffers", 0.9, true,
         {-0.321325034, 1.52409995, -0.963975012, 4.57229996, 0.678674996,
          2.52409983}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        tn_scope *scope = tn_scope_open();
        tn_module *m = tn_nn_batch_norm1d(2);
        tn_average *average = tn_average_new(
            m, .decay = cases[c].decay, .use_buffers = cases[c].use_buffers);
        int64_t before = tn_scope_count();
        for (int i = 0; i < 5; i++) {
            set(m, i);
            tn_average_update(average);
        }
        is_int(tn_scope_count(), before, "updates leave no object behind");
        const char *names[] = {"weight", "bias", "running_mean"};
        bool good = tn_average_updates(average) == 5;
        for (int i = 0; i < 6; i++) {
            double got = at(named(average, names[i / 2]), i % 2);
            if (fabs(got - cases[c].want[i]) > 1e-6) {
                note("%s[%d] is %.9g, PyTorch's %.9g", names[i / 2], i % 2,
                     got, cases[c].want[i]);
                good = false;
            }
        }
        ok(good, "%s are PyTorch's", cases[c].what);
        is_int(tn_item_int(named(average, "num_batches_tracked")), 12,
               "whole numbers are copied");
        tn_scope_close(scope);
    }
}

static void check_swap(void)
{
    tn_module *m = tn_nn_linear(2, 1);
    tn_tensor *w = tn_module_parameter(m, "weight");
    tn_average *average = tn_average_new(m, .decay = 0.5);
    tn_average_update(average);
    double first = tn_item(tn_sum(w));
    TN_NO_GRAD
        tn_add_scalar_(w, 1);
    tn_average_update(average);
    is_int(tn_average_swap(average), TN_OK, "averages are swapped in");
    ok(tn_average_is_swapped(average), "and it says so");
    ok(fabs(tn_item(tn_sum(w)) - (first + 1)) < 1e-6,
       "the module's tensors hold them");
    ok(tn_module_parameter(m, "weight") == w && tn_tensor_requires_grad(w),
       "as the same objects");
    tn_tensor *y = tn_forward(m, tn_ones(tn_dims(1, 2)));
    is_int(tn_backward(tn_sum(y)), TN_OK, "gradients flow to them");
    tn_average_swap(average);
    ok(fabs(tn_item(tn_sum(w)) - (first + 2)) < 1e-6 &&
           !tn_average_is_swapped(average),
       "swapped again, the weights are back");
    TN_AUTOCAST(TN_BF16) {
        tn_tensor *ones = tn_ones(tn_dims(1, 2));
        double now = tn_item(tn_forward(m, ones));
        tn_average_swap(average);
        double then = tn_item(tn_forward(m, ones));
        ok(fabs(now - then - 1) < 0.05, "autocast sees the swap");
        tn_average_swap(average);
    }
}

static tn_checkpoint make(uint64_t seed)
{
    tn_manual_seed(seed);
    tn_module *net = tn_nn_linear(3, 2);
    return (tn_checkpoint){
        sizeof(tn_checkpoint), .module = net,
        .optim = tn_optim_sgd(tn_parameters(net), .lr = 0.1),
        .scaler = tn_grad_scaler_new(.init_scale = 1000.1,
                                     .growth_interval = 7),
        .average = tn_average_new(net, .decay = 0.9)};
}

static void check_checkpoint(void)
{
    tn_checkpoint all = make(1), copy = make(2);
    for (int i = 0; i < 3; i++) {
        tn_optim_zero_grad(all.optim);
        tn_tensor *y = tn_forward(all.module, tn_ones(tn_dims(4, 3)));
        tn_backward(tn_grad_scaler_scale(all.scaler, tn_sum(tn_square(y))));
        tn_grad_scaler_step(all.scaler, all.optim);
        tn_grad_scaler_update(all.scaler);
        tn_average_update(all.average);
    }
    is_int(tn_checkpoint_save(path, &all), TN_OK, "a run is saved");
    copy.scaler = tn_grad_scaler_new();
    is_int(tn_checkpoint_load(path, &copy), TN_OK, "and taken up by another");
    tn_grad_scaler_state a = tn_grad_scaler_snapshot(all.scaler),
                         b = tn_grad_scaler_snapshot(copy.scaler);
    ok(a.scale == b.scale && b.growth_interval == 7 && b.growth_tracker == 3,
       "with its scaler, to the last digit");
    is_int(tn_average_updates(copy.average), 3, "the average continues");
    tn_tensor *x = tn_average_at(all.average, 0),
              *y = tn_average_at(copy.average, 0);
    ok(tn_item_int(tn_to_dtype(tn_equal(x, y), TN_I64)) == 1,
       "from the same tensors");
    tn_checkpoint less = all;
    less.average = NULL;
    char want[200];
    snprintf(want, sizeof want, "checkpoint_load: %s: the file has a running "
                                "average, the checkpoint has none", path);
    is_int(tn_checkpoint_load(path, &less), TN_ERR_ARGUMENT,
           "a checkpoint without an average is refused");
    is_str(tn_error(), want, "by name");
    tn_error_clear();
    tn_average_swap(all.average);
    is_int(tn_checkpoint_save(path, &all), TN_ERR_STATE,
           "nothing is saved while the module has the averages");
    tn_error_clear();
    is_int(tn_checkpoint_load(path, &all), TN_ERR_STATE, "nor loaded");
    tn_error_clear();
    tn_checkpoint old = {offsetof(tn_checkpoint, scaler),
                         .module = copy.module};
    is_int(tn_checkpoint_save(path, &old), TN_OK,
           "the struct of an older header serves");
    is_int(tn_checkpoint_load(path, &old), TN_OK, "to load too");
}

static void check_mistakes(void)
{
    tn_module *m = tn_nn_linear(2, 2);
    tn_average *average = tn_average_new(m);
    ok(!tn_average_new(NULL), "without a module there is no average");
    is_str(tn_error(), "average_new: module is NULL", "is reported");
    tn_error_clear();
    ok(!tn_average_new(m, .decay = 1), "a decay of 1 is refused");
    is_str(tn_error(), "average_new: decay is 1; expected at least 0 and below "
                       "1", "by name");
    tn_error_clear();
    ok(tn_average_update(NULL) == TN_ERR_ARGUMENT, "no average");
    is_str(tn_error(), "average_update: average is NULL", "is reported");
    ok(tn_average_update(average) == TN_ERR_STATE &&
           tn_average_swap(average) == TN_ERR_STATE &&
           tn_average_set_updates(average, 1) == TN_ERR_STATE &&
           tn_average_updates(average) == 0,
       "nothing is done while an error is pending");
    tn_error_clear();
    is_int(tn_average_set_updates(average, -1), TN_ERR_ARGUMENT,
           "a negative count");
    tn_error_clear();
    tn_average_swap(average);
    is_int(tn_average_update(average), TN_ERR_STATE, "an update while swapped");
    tn_error_clear();
    tn_average_swap(average);
    ok(!tn_average_at(average, 2) && !tn_average_at(average, -1) &&
           !tn_average_at(NULL, 0) && tn_average_count(NULL) == 0 &&
           !tn_average_name(average, 9) && tn_average_updates(NULL) == 0 &&
           !tn_average_is_swapped(NULL),
       "outside there is nothing");
    tn_device *other = tn_device_open("reference");
    tn_module_to(m, .device = other);
    is_int(tn_average_update(average), TN_ERR_DEVICE, "a module that has moved");
    ok(tn_error() && strstr(tn_error(), "make a new average"),
       "with the mend: %s", tn_error());
    tn_error_clear();
}

int main(void)
{
    plan_later();
    snprintf(path, sizeof path, "average.%d.ckpt", (int)getpid());
    if (!tn_device_current())
        bail_out("%s", tn_error());
    check_figures();
    check_swap();
    check_checkpoint();
    check_mistakes();
    unlink(path);
    ok(!tn_error(), "no error is left: %s", tn_error() ? tn_error() : "none");
    return done_testing();
}
