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

/* Two convolutions, each followed by a pooling that halves the sides. */
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

/* Bytes (N, H, W) as (N, 1, H, W) in [0, 1], on device. */
static tn_tensor *images(const tn_batch *batch, tn_device *device)
{
    tn_tensor *x = tn_to_dtype(tn_to(batch->x, device), TN_F32);
    return tn_unsqueeze(tn_mul_scalar(x, 1.0 / 255), 1);
}

static void train(tn_module *net, tn_optim *opt, tn_loader *loader,
                  tn_device *device, const char *label)
{
    tn_module_train(net, true);
    tn_progress bar;
    tn_progress_begin(&bar, stdout, tn_loader_count(loader), label);
    double total = 0;
    char note[40] = "";
    TN_EACH_BATCH(batch, loader) {
        tn_tensor *y = tn_to_dtype(tn_to(batch.y, device), TN_I64);
        tn_tensor *loss = tn_cross_entropy(
            tn_forward(net, images(&batch, device)), y);
        tn_optim_zero_grad(opt);
        tn_backward(loss);
        tn_optim_step(opt);
        total += tn_item(loss);
        snprintf(note, sizeof note, "loss %.4f",
                 total / (double)(batch.index + 1));
        tn_progress_step(&bar, note);
    }
    tn_progress_end(&bar, note);
}

/* The accuracy: the share of samples whose greatest output is their label. */
static double accuracy(tn_module *net, tn_loader *loader, tn_device *device)
{
    int64_t right = 0, count = 0;
    tn_module_eval(net);
    TN_NO_GRAD {
        TN_EACH_BATCH(batch, loader) {
            tn_tensor *y = tn_to_dtype(tn_to(batch.y, device), TN_I64);
            tn_tensor *guess = tn_argmax(
                tn_forward(net, images(&batch, device)), .dim = 1);
            right += tn_item_int(tn_sum(tn_eq(guess, y)));
            count += batch.count;
        }
    }
    return (double)right / (double)count;
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
        tn_error_set(TN_ERR_SHAPE, "%s: %d dimensions; images have 3",
                     argv[1], tn_tensor_ndim(x));
    tn_dataset *all = tn_dataset_from_tensors(x, y);
    if (tn_error())
        return fprintf(stderr, "mnist: %s\n", tn_error()), 1;

    /* A worker thread prepares the next batches during training on one. */
    int64_t held = tn_dataset_count(all) / 10;
    tn_dataset *mixed = tn_dataset_shuffle(all, SEED);
    tn_loader *test = tn_loader_new(tn_dataset_range(mixed, 0, held),
                                    .batch_size = 250);
    tn_loader *loader = tn_loader_new(
        tn_dataset_range(mixed, held, tn_dataset_count(all)),
        .batch_size = BATCH, .shuffle = true, .seed = SEED, .workers = 1);

    tn_module *net = tn_module_to(
        network(tn_tensor_size(x, 1), tn_tensor_size(x, 2)),
        .device = device);
    tn_optim *opt = tn_optim_adam(tn_parameters(net), .lr = 2e-3);
    for (int epoch = 1; epoch <= epochs && !tn_error(); epoch++) {
        char label[32];
        snprintf(label, sizeof label, "epoch %d/%d", epoch, epochs);
        train(net, opt, loader, device, label);
    }
    double share = accuracy(net, test, device);
    if (tn_error())
        return fprintf(stderr, "mnist: %s\n", tn_error()), 1;
    printf("test accuracy: %.4f\n", share);
    return 0;
}
