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
        tn_nn_max_pool2d(2),                            /* 16 x 4 x 4 */
        tn_nn_conv2d(16, 32, 3, .padding = 1), tn_nn_relu(),
        tn_nn_max_pool2d(2),                            /* 32 x 2 x 2 */
        tn_nn_flatten(), tn_nn_linear(128, 64), tn_nn_relu(),
        tn_nn_linear(64, 10));
}

/* Pixels 0..16 as (N, 1, 8, 8) in [0, 1], on device. */
static tn_tensor *images(const tn_batch *batch, tn_device *device)
{
    tn_tensor *x = tn_to(batch->x, device);
    return tn_reshape(tn_mul_scalar(x, 1.0 / 16), tn_dims(-1, 1, 8, 8));
}

/* Trains for one pass over the training set. Returns the mean loss. */
static double train(tn_module *net, tn_optim *opt, tn_loader *loader,
                    tn_device *device, const char *label)
{
    tn_progress bar;
    tn_progress_begin(&bar, stdout, tn_loader_count(loader), label);
    double total = 0;
    char note[40] = "";
    TN_EACH_BATCH(batch, loader) {
        tn_tensor *y = tn_to(batch.y, device);
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
    return total / (double)tn_loader_count(loader);
}

/* The accuracy: the share of samples whose greatest output is their label. */
static double accuracy(tn_module *net, tn_loader *loader, tn_device *device)
{
    int64_t right = 0, count = 0;
    TN_NO_GRAD {
        TN_EACH_BATCH(batch, loader) {
            tn_tensor *y = tn_to(batch.y, device);
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
                                    .batch_size = 256);
    tn_loader *loader = tn_loader_new(
        tn_dataset_range(mixed, held, tn_dataset_count(all)),
        .batch_size = BATCH, .shuffle = true, .seed = SEED);

    tn_module *net = tn_module_to(network(), .device = device);
    tn_optim *opt =
        tn_optim_sgd(tn_parameters(net), .lr = 0.03, .momentum = 0.9);
    for (int epoch = 1; epoch <= EPOCHS && !tn_error(); epoch++) {
        if (epoch == SLOW_FROM)
            tn_optim_set_lr(opt, 0.003);
        char label[32];
        snprintf(label, sizeof label, "epoch %2d/%d", epoch, EPOCHS);
        train(net, opt, loader, device, label);
    }
    double share = accuracy(tn_module_eval(net), test, device);
    if (tn_error())
        return fprintf(stderr, "digits: %s\n", tn_error()), 1;
    printf("test accuracy: %.4f\n", share);
    return 0;
}
