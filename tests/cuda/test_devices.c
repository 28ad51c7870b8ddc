/* Tests a program with two GPUs of the simulated driver: their names, the
 * memory that an open one takes, which tensors may be combined, copies between
 * them, training on one GPU and on both with the same losses as on the cpu, and
 * calls of a child process whose parent has opened a GPU. */
#include <tenon/tenon.h>

#include "on_sim.h"

/* ---- names -------------------------------------------------------------- */

static const char *wanted;

static void print_name(void)
{
    tn_log_set(NULL, NULL);
    tn_device *device = tn_device_open(wanted);
    printf("%s", device ? tn_device_name(device) : tn_error());
}

static const char *named(const char *name)
{
    wanted = name;
    return in_child(print_name);
}

static void test_names(void)
{
    is_str(named("cuda"), "cuda:0",
           "a name without a number is the first device");
    is_str(named("cuda:1"), "cuda:1", "name:1 is the second device");
    is_str(named("cuda:GPU-5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a01"), "cuda:1",
           "a device is found by its UUID, as nvidia-smi prints it");
    is_str(named("cuda:5a5a5a5a5a01"), "cuda:1",
           "a device is found by a part of its UUID");
    is_str(named("cuda:GPU 1"), "cuda:1",
           "a device is found by a part of its name");
    const char *text = named("cuda:2");
    ok(strstr(text, "there is no device 2: the plugin has 2"), "%s", text);
    text = named("cuda:GPU-77");
    ok(strstr(text, "GPU-77"), "%s", text);
    setenv("TENON_SIM_MIG", "1", 1);
    is_str(named("cuda:MIG-3c3c3c3c-3c3c-3c3c-3c3c-3c3c3c3c3c01"), "cuda:1",
           "a part of a GPU by its own UUID");
    unsetenv("TENON_SIM_MIG");
}

static void print_memory(void)
{
    int (*info)(size_t *left, size_t *total);
    int (*retain)(void **context, int device), (*set)(void *context);
    size_t left = 0, total = 0;
    void *context;
    tn_log_set(NULL, NULL);
    on_sim_find("cuMemGetInfo_v2", &info);
    on_sim_find("cuDevicePrimaryCtxRetain", &retain);
    on_sim_find("cuCtxSetCurrent", &set);
    if (tn_device_set(tn_device_open("cuda")) >= 0 && !retain(&context, 0) &&
        !set(context))
        info(&left, &total);
    printf("%zu", total ? total - left : SIZE_MAX);
}

static void test_memory(void)
{
    double bytes = strtod(in_child(print_memory), NULL);
    ok(bytes <= 16 << 20, "an open device takes %.0f bytes before any tensor",
       bytes);
}

/* ---- tensors ------------------------------------------------------------ */

static void print_meeting(void)
{
    tn_log_set(NULL, NULL);
    tn_device *one = tn_device_open("cuda:0"), *two = tn_device_open("cuda:1");
    tn_device_set(one);
    tn_tensor *x = tn_arange(0, 6, 1);
    tn_device_set(two);
    tn_tensor *y = tn_ones(tn_dims(6));
    tn_add(x, y);
    printf("%s", tn_error());
    tn_error_clear();
    /* copies to the other device and back, also from a non-contiguous tensor */
    tn_tensor *sum = tn_add(tn_to(x, two), y);
    tn_tensor *turned = tn_transpose(tn_reshape(sum, tn_dims(2, 3)), 0, 1);
    tn_tensor *back = tn_to(tn_contiguous(tn_to(turned, one)), one);
    tn_device_synchronize(NULL);
    printf("; %s %.0f %.0f %.0f", tn_device_name(tn_tensor_device(back)),
           tn_item(tn_sum(back)), tn_item(tn_narrow(tn_flatten(back), 0, 1, 1)),
           tn_item(tn_sum(tn_to(x, tn_device_open("cpu")))));
    if (tn_error())
        printf("; %s", tn_error());
}

static void test_tensors(void)
{
    const char *text = in_child(print_meeting);
    ok(strstr(text, "add: ") == text && strstr(text, "cuda:0") &&
           strstr(text, "cuda:1"),
       "tensors of two GPUs do not meet: %s", text);
    ok(strstr(text, "; cuda:0 21 4 15") != NULL,
       "copies from one device to the other are right");
}

/* ---- training ----------------------------------------------------------- */

enum { STEPS = 24, BATCH = 32 };

static const char *const *on;
static int on_count, steps;

/* Returns the network of examples/digits.c. */
static tn_module *network(void)
{
    return tn_nn_sequential(
        tn_nn_conv2d(1, 16, 3, .padding = 1), tn_nn_relu(),
        tn_nn_max_pool2d(2), tn_nn_conv2d(16, 32, 3, .padding = 1),
        tn_nn_relu(), tn_nn_max_pool2d(2), tn_nn_flatten(),
        tn_nn_linear(128, 64), tn_nn_relu(), tn_nn_linear(64, 10));
}

/* Returns the mean loss of one share of a batch, scaled by the share's fraction
 * of the batch. */
static tn_tensor *loss_of(tn_module *net, const tn_batch *batch,
                          tn_device *device, int share)
{
    const int64_t count = BATCH / on_count, from = share * count;
    tn_tensor *x = tn_to(tn_narrow(batch->x, 0, from, count), device);
    tn_tensor *y = tn_to(tn_narrow(batch->y, 0, from, count), device);
    x = tn_reshape(tn_mul_scalar(x, 1.0 / 16), tn_dims(-1, 1, 8, 8));
    return tn_mul_scalar(tn_cross_entropy(tn_forward(net, x), y),
                         1.0 / on_count);
}

/* Copies the first network's weights to all devices, or sums the gradients of
 * all devices. */
static void share(tn_parameter_list **weights, tn_device **device,
                  bool gradients)
{
    TN_NO_GRAD {
        for (int i = 1; i < on_count; i++)
            for (int p = 0; p < tn_parameters_count(weights[0]); p++) {
                tn_tensor *first = tn_parameters_at(weights[0], p);
                tn_tensor *w = tn_parameters_at(weights[i], p);
                if (gradients)
                    tn_add_(tn_tensor_grad(first),
                            tn_to(tn_tensor_grad(w), device[0]));
                else
                    tn_copy_(w, tn_to(first, device[i]));
            }
    }
}

static void print_losses(void)
{
    char path[4096];
    tn_device *device[2];
    tn_module *net[2];
    tn_parameter_list *weights[2];
    const char *source = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/data/digits.csv.gz", source ? source : ".");
    tn_log_set(NULL, NULL);
    tn_device_set(tn_device_open("cpu"));
    tn_manual_seed(1);
    tn_loader *loader =
        tn_loader_new(tn_dataset_from_csv(path, NULL), .batch_size = BATCH,
                      .shuffle = true, .seed = 1);
    for (int i = 0; i < on_count; i++) {
        device[i] = tn_device_open(on[i]);
        net[i] = tn_module_to(network(), .device = device[i]);
        weights[i] = tn_parameters(net[i]);
    }
    share(weights, device, false);
    tn_optim *opt = tn_optim_sgd(weights[0], .lr = 0.1, .momentum = 0.9);
    TN_EACH_BATCH(batch, loader) {
        tn_tensor *loss[2];
        double sum = 0;
        if (batch.index == steps)
            break;
        for (int i = 0; i < on_count; i++) {
            tn_module_zero_grad(net[i]);
            loss[i] = loss_of(net[i], &batch, device[i], i);
            tn_backward(loss[i]);
        }
        share(weights, device, true);
        tn_optim_step(opt);
        share(weights, device, false);
        for (int i = 0; i < on_count; i++)
            sum += tn_item(loss[i]);
        printf("%.6f ", sum);
    }
    if (tn_error())
        printf("%s", tn_error());
}

static const char *losses(const char *const *devices, int count, int how_many)
{
    on = devices;
    on_count = count;
    steps = how_many;
    return in_child(print_losses);
}

/* Returns the largest difference of `count` numbers; infinity if some are
 * missing. */
static double apart(const char *got, const char *want, int count)
{
    double greatest = 0;
    for (int i = 0; i < count; i++) {
        char *got_end, *want_end;
        double d = fabs(strtod(got, &got_end) - strtod(want, &want_end));
        if (got_end == got || want_end == want)
            return INFINITY;
        greatest = d > greatest ? d : greatest;
        got = got_end;
        want = want_end;
    }
    return greatest;
}

static void test_training(void)
{
    static const char *const gpus[] = {"cuda:0", "cuda:1"};
    static const char *const cpu[] = {"cpu"};
    char *want = strdup(losses(cpu, 1, STEPS));
    note("cpu:  %s", want);
    const char *got = losses(gpus, 1, STEPS);
    note("cuda: %s", got);
    ok(apart(got, want, STEPS) < 1e-4 && strtod(want, NULL) > 2,
       "%d steps of the digits network have the cpu's losses (%.1e apart)",
       STEPS, apart(got, want, STEPS));
    got = losses(gpus, 2, 6);
    ok(apart(got, want, 6) < 1e-4, "so have 6 steps on two (%.1e apart): %s",
       apart(got, want, 6), got);
    free(want);
}

/* ---- after a fork ------------------------------------------------------- */

#define FORKED                                                                \
    "the process was forked after CUDA was initialised; open devices in the " \
    "child only, or start it with exec"

static tn_tensor *before; /* a tensor that the parent made */

static void print_child(void)
{
    tn_tensor *x = tn_exp(before);
    printf("%s %s", x ? "something" : "nothing", tn_error());
    tn_error_clear();
    tn_item(before);
    printf("; %s", tn_error());
    tn_error_clear();
    printf("; %s", tn_device_open("cuda:1") ? "open" : tn_error());
    tn_error_clear();
    tn_device_set(tn_device_open("cpu"));
    printf("; %.0f", tn_item(tn_sum(tn_ones(tn_dims(7)))));
    tn_drop(before); /* frees the child's copy, which has no memory on the
                      * device */
}

static void test_fork(void)
{
    tn_log_set(NULL, NULL);
    tn_device_set(tn_device_open("cuda:0"));
    before = tn_keep(tn_ones(tn_dims(1)));
    is_str(in_child(print_child),
           "nothing exp: cuda:0: Simulated GPU 0 (sm_75): " FORKED
           "; copy to the host: cuda:0: Simulated GPU 0 (sm_75): " FORKED
           "; device_open: cuda: " FORKED "; 7",
           "a child of fork hears of it, and has the cpu");
    ok(tn_item(tn_exp(before)) > 2.7 && !tn_error(),
       "nothing has changed for the parent");
    tn_drop(before);
}

int main(int argc, char **argv)
{
    (void)argc;
    plan_later();
    on_sim(argv);
    if (!on_sim_ready(in_child(on_sim_print_reason)))
        return done_testing();
    setenv("TENON_SIM_DEVICES", "2", 1);
    test_names();
    test_memory();
    test_tensors();
    test_training();
    test_fork(); /* runs last, because it opens a device in this process */
    return done_testing();
}
