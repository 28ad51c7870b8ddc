/* mnist.c: a convolutional network learns the MNIST digits, or any images and
 * labels in IDX files.
 *
 *     mnist IMAGES LABELS [EPOCHS]
 *     mnist t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz
 *
 * A random tenth, chosen by the seed, is held out and never used in training.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

enum { SEED = 1, BATCH = 50, CLASSES = 10 };

/* Returns a network of two convolutions. A pooling after each of them halves
 * height and width. */
static tn_module *network(int64_t height, int64_t width)
{
    int64_t features = 32 * (height / 4) * (width / 4);
    return tn_nn_sequential(
        tn_nn_conv2d(1, 16, 3, .padding = 1), tn_nn_relu(),
        tn_nn_max_pool2d(2),
        tn_nn_conv2d(16, 32, 3, .padding = 1), tn_nn_relu(),
        tn_nn_max_pool2d(2), tn_nn_flatten(),
        tn_nn_linear(features, 128), tn_nn_relu(), tn_nn_dropout(0.25),
        tn_nn_linear(128, CLASSES));
}

/* The dataset has bytes (N, H, W). Returns the network's output for them as
 * images (N, 1, H, W) in [0, 1]. */
static tn_tensor *forward(tn_module *net, const tn_batch *batch, void *context)
{
    (void)context;
    tn_tensor *x = tn_mul_scalar(tn_to_dtype(batch->x, TN_F32), 1.0 / 255);
    return tn_forward(net, tn_unsqueeze(x, 1));
}

static tn_tensor *loss(tn_tensor *out, const tn_batch *batch, void *context)
{
    (void)context;
    return tn_cross_entropy(out, tn_to_dtype(batch->y, TN_I64));
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return fprintf(stderr, "usage: mnist IMAGES LABELS [EPOCHS]\n"), 2;
    int epochs = argc > 3 ? atoi(argv[3]) : 5;
    tn_device *device = tn_device_current();
    tn_manual_seed(SEED);
    tn_tensor *x = tn_idx_load(argv[1]), *y = tn_idx_load(argv[2]);
    if (x && tn_tensor_ndim(x) != 3)
        tn_error_set(TN_ERR_SHAPE, "%s has %d dimensions; a file of images has 3",
                     argv[1], tn_tensor_ndim(x));
    tn_dataset *all = tn_dataset_from_tensors(x, y);
    if (tn_error())
        return fprintf(stderr, "mnist: %s\n", tn_error()), 1;

    /* While the network trains on one batch, a worker thread prepares the next
     * ones. */
    int64_t held = tn_dataset_count(all) / 10;
    tn_dataset *mixed = tn_dataset_shuffle(all, SEED);
    tn_loader *test = tn_loader_new(tn_dataset_range(mixed, 0, held),
                                    .batch_size = 250, .device = device);
    tn_loader *loader = tn_loader_new(
        tn_dataset_range(mixed, held, tn_dataset_count(all)),
        .batch_size = BATCH, .shuffle = true, .seed = SEED, .workers = 1,
        .device = device);

    tn_module *net = tn_module_to(
        network(tn_tensor_size(x, 1), tn_tensor_size(x, 2)),
        .device = device);
    tn_optim *opt = tn_optim_adam(tn_parameters(net), .lr = 2e-3);
    tn_train(net, opt, loader, .epochs = epochs, .forward = forward,
             .loss = loss, .log = stdout);

    tn_metric *accuracy = tn_metric_accuracy();
    double share = tn_evaluate(net, test, .forward = forward,
                               .metrics = (tn_metric *[]){accuracy, NULL});
    if (tn_error())
        return fprintf(stderr, "mnist: %s\n", tn_error()), 1;
    printf("test accuracy: %.4f\n", share);
    return 0;
}
