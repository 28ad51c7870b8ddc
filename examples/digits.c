/* digits.c: a convolutional network learns handwritten digits.
 *
 * The data are 1,797 images of 8 x 8 pixels (UCI optical digits; see
 * data/README.md). A random fifth, chosen by the seed, is held out and never
 * used in training. The same seed gives the same numbers on every machine, for
 * any number of threads.
 *
 *     digits [DATA.csv.gz]          TENON_DEVICE=cpu digits data/digits.csv.gz
 */
#include <stdio.h>
#include <tenon/tenon.h>

enum { SEED = 1, EPOCHS = 12, SLOW_FROM = 10, BATCH = 32 };

static tn_module *network(void)
{
    return tn_nn_sequential(
        tn_nn_conv2d(1, 16, 3, .padding = 1), tn_nn_relu(),
        tn_nn_max_pool2d(2),                            /* makes 16 x 4 x 4 */
        tn_nn_conv2d(16, 32, 3, .padding = 1), tn_nn_relu(),
        tn_nn_max_pool2d(2),                            /* makes 32 x 2 x 2 */
        tn_nn_flatten(), tn_nn_linear(128, 64), tn_nn_relu(),
        tn_nn_linear(64, 10));
}

/* The dataset has pixels from 0 to 16 in rows of 64. Returns the network's
 * output for them as images (N, 1, 8, 8) in [0, 1]. */
static tn_tensor *forward(tn_module *net, const tn_batch *batch, void *context)
{
    (void)context;
    tn_tensor *x = tn_mul_scalar(batch->x, 1.0 / 16);
    return tn_forward(net, tn_reshape(x, tn_dims(-1, 1, 8, 8)));
}

static tn_tensor *loss(tn_tensor *out, const tn_batch *batch, void *context)
{
    (void)context;
    return tn_cross_entropy(out, batch->y);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "data/digits.csv.gz";
    tn_device *device = tn_device_current();
    if (!device)
        return fprintf(stderr, "digits: %s\n", tn_error()), 1;
    printf("device %s: %s\n", tn_device_name(device),
           tn_device_description(device));

    /* The table stays in host memory; batches are moved to the device. */
    tn_manual_seed(SEED);
    tn_dataset *all = tn_dataset_from_csv(path, NULL);
    int64_t held = tn_dataset_count(all) / 5;
    tn_dataset *mixed = tn_dataset_shuffle(all, SEED);
    tn_loader *test = tn_loader_new(tn_dataset_range(mixed, 0, held),
                                    .batch_size = 256, .device = device);
    tn_loader *loader = tn_loader_new(
        tn_dataset_range(mixed, held, tn_dataset_count(all)),
        .batch_size = BATCH, .shuffle = true, .seed = SEED, .device = device);

    tn_module *net = tn_module_to(network(), .device = device);
    tn_optim *opt =
        tn_optim_sgd(tn_parameters(net), .lr = 0.03, .momentum = 0.9);
    tn_schedule *slower = tn_schedule_multi_step_lr(
        opt, (const int64_t[]){SLOW_FROM - 1}, 1, .gamma = 0.1);
    tn_train(net, opt, loader, .epochs = EPOCHS, .forward = forward,
             .loss = loss, .schedule = slower, .log = stdout);

    tn_metric *accuracy = tn_metric_accuracy();
    double share = tn_evaluate(net, test, .forward = forward,
                               .metrics = (tn_metric *[]){accuracy, NULL});
    if (tn_error())
        return fprintf(stderr, "digits: %s\n", tn_error()), 1;
    printf("test accuracy: %.4f\n", share);
    return 0;
}
