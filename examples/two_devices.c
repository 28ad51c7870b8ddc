/* two_devices.c: trains one network on several devices at once.
 *
 * Each device has a copy of the network and a share of each batch. Its loss is
 * multiplied by its share of the batch's samples, so that the sum of the
 * devices' gradients is the gradient of the whole batch. The first device makes
 * the optimizer's step and copies the weights to the others. The output is that
 * of digits, up to the rounding of sums.
 *
 *     two_devices DEVICE DEVICE... [DATA.csv.gz]
 *     two_devices opencl:0 opencl:1 data/digits.csv.gz
 *
 * One thread submits the work of all devices. Asynchronous devices compute at
 * the same time. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

enum { SEED = 1, EPOCHS = 12, SLOW_FROM = 10, BATCH = 32, MOST = 8 };

typedef struct replica {
    tn_device *device;
    tn_module *net;
    tn_parameter_list *weights;
    tn_tensor *loss; /* mean loss of its share of this batch, times the share */
} replica;

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

/* Returns pixels 0..16 as images (N, 1, 8, 8) in [0, 1], on the device. */
static tn_tensor *images(tn_tensor *x, tn_device *device)
{
    return tn_reshape(tn_mul_scalar(tn_to(x, device), 1.0 / 16),
                      tn_dims(-1, 1, 8, 8));
}

/* Copies the first device's weights to the others. */
static void hand_on(replica *of, int count)
{
    TN_NO_GRAD {
        for (int i = 1; i < count; i++)
            for (int p = 0; p < tn_parameters_count(of->weights); p++)
                tn_copy_(tn_parameters_at(of[i].weights, p),
                         tn_to(tn_parameters_at(of->weights, p), of[i].device));
    }
}

/* Adds the other devices' gradients to the first device's. */
static void gather(replica *of, int count)
{
    TN_NO_GRAD {
        for (int i = 1; i < count; i++)
            for (int p = 0;
                 of[i].loss && p < tn_parameters_count(of->weights); p++) {
                tn_tensor *g = tn_tensor_grad(tn_parameters_at(of[i].weights, p));
                tn_add_(tn_tensor_grad(tn_parameters_at(of->weights, p)),
                        tn_to(g, of->device));
            }
    }
}

/* Returns the index of the first sample of device i's share. The first device
 * always gets at least one sample. */
static int64_t begin_of(int i, int count, int64_t samples)
{
    return (samples * i + count - 1) / count;
}

/* Trains for one pass over the training set. Returns the mean loss. */
static double train(replica *of, int count, tn_optim *opt, tn_loader *loader)
{
    double total = 0;
    TN_EACH_BATCH(batch, loader) {
        double sum = 0;
        for (int i = 0; i < count; i++) {
            replica *r = &of[i];
            const int64_t from = begin_of(i, count, batch.count);
            const int64_t share = begin_of(i + 1, count, batch.count) - from;
            tn_module_zero_grad(r->net);
            r->loss = NULL;
            if (!share)
                continue;
            tn_tensor *x = images(tn_narrow(batch.x, 0, from, share),
                                  r->device);
            tn_tensor *y = tn_to(tn_narrow(batch.y, 0, from, share),
                                 r->device);
            r->loss = tn_mul_scalar(tn_cross_entropy(tn_forward(r->net, x), y),
                                    (double)share / (double)batch.count);
            tn_backward(r->loss);
        }
        gather(of, count);
        tn_optim_step(opt);
        hand_on(of, count);
        for (int i = 0; i < count; i++)
            sum += of[i].loss ? tn_item(of[i].loss) : 0;
        total += sum;
    }
    return total / (double)tn_loader_count(loader);
}

/* Returns the accuracy: the fraction of the samples whose largest output is at
 * their label. */
static double accuracy(const replica *r, tn_loader *loader)
{
    int64_t right = 0, count = 0;
    TN_NO_GRAD {
        TN_EACH_BATCH(batch, loader) {
            tn_tensor *y = tn_to(batch.y, r->device);
            tn_tensor *guess =
                tn_argmax(tn_forward(r->net, images(batch.x, r->device)),
                          .dim = 1);
            right += tn_item_int(tn_sum(tn_eq(guess, y)));
            count += batch.count;
        }
    }
    return (double)right / (double)count;
}

int main(int argc, char **argv)
{
    const char *path = "data/digits.csv.gz";
    replica of[MOST];
    int count = 0;
    for (int i = 1; i < argc; i++) {
        if (strstr(argv[i], ".csv"))
            path = argv[i];
        else if (count < MOST)
            of[count++] = (replica){.device = tn_device_open(argv[i])};
    }
    if (!count)
        return fprintf(stderr, "two_devices DEVICE DEVICE... [DATA]\n"), 2;

    tn_manual_seed(SEED);
    tn_device_set(tn_device_open("cpu"));
    tn_dataset *all = tn_dataset_from_csv(path, NULL);
    int64_t held = tn_dataset_count(all) / 5;
    tn_dataset *mixed = tn_dataset_shuffle(all, SEED);
    tn_loader *test = tn_loader_new(tn_dataset_range(mixed, 0, held),
                                    .batch_size = 256);
    tn_loader *loader = tn_loader_new(
        tn_dataset_range(mixed, held, tn_dataset_count(all)),
        .batch_size = BATCH, .shuffle = true, .seed = SEED);

    for (int i = 0; i < count; i++) {
        of[i].net = tn_module_to(network(), .device = of[i].device);
        of[i].weights = tn_parameters(of[i].net);
    }
    hand_on(of, count);
    tn_optim *opt = tn_optim_sgd(of->weights, .lr = 0.03, .momentum = 0.9);
    for (int epoch = 1; epoch <= EPOCHS && !tn_error(); epoch++) {
        if (epoch == SLOW_FROM)
            tn_optim_set_lr(opt, 0.003);
        printf("epoch %2d/%d  loss %.4f\n", epoch, EPOCHS,
               train(of, count, opt, loader));
        fflush(stdout);
    }
    tn_module_eval(of->net);
    double share = accuracy(of, test);
    if (tn_error())
        return fprintf(stderr, "two_devices: %s\n", tn_error()), 1;
    printf("test accuracy: %.4f\n", share);
    return 0;
}
