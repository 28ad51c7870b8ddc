/* fine_tune.c: a network trained on the digits 0 to 4 learns 5 to 9 from a few
 * images.
 *
 *     fine_tune [DATA.csv.gz] [FILE]
 *
 * The first network is trained and saved in FILE. The second network has other
 * parameter names and a new head (its last layer). It loads the parameters that
 * fit, trains its head while the other layers are frozen, then trains all
 * layers. */
#include <stdio.h>
#include <tenon/tenon.h>

enum { SEED = 1, CLASSES = 5, FEW = 30 };

/* Returns a network of convolutions, the layer `body`, and a linear layer, the
 * layer `head`. */
static tn_module *network(const char *body, const char *head)
{
    tn_module *net = tn_nn_sequential();
    tn_module_add(net, body,
                  tn_nn_sequential(tn_nn_conv2d(1, 16, 3, .padding = 1),
                                   tn_nn_relu(), tn_nn_max_pool2d(2),
                                   tn_nn_conv2d(16, 32, 3, .padding = 1),
                                   tn_nn_relu(), tn_nn_max_pool2d(2),
                                   tn_nn_flatten()));
    tn_module_add(net, head, tn_nn_linear(128, CLASSES));
    return net;
}

/* Returns the images of CLASSES digits beginning with `first`, with labels from
 * 0 to CLASSES - 1. */
static tn_dataset *digits(tn_tensor *table, int first)
{
    tn_tensor *y = tn_sub_scalar(tn_select(table, 1, 64), first);
    tn_tensor *mask =
        tn_logical_and(tn_ge_scalar(y, 0), tn_lt_scalar(y, CLASSES));
    tn_tensor *rows = tn_index(table, ((tn_tensor *[]){mask}), 1);
    tn_tensor *x = tn_mul_scalar(tn_narrow(rows, 1, 0, 64), 1.0 / 16);
    y = tn_to_dtype(tn_masked_select(y, mask), TN_I64);
    return tn_dataset_shuffle(
        tn_dataset_from_tensors(tn_reshape(x, tn_dims(-1, 1, 8, 8)), y), SEED);
}

static tn_tensor *loss(tn_tensor *out, const tn_batch *batch, void *context)
{
    (void)context;
    return tn_cross_entropy(out, batch->y);
}

/* Trains the parameters that require gradients, and prints the accuracy on the
 * test set. */
static void train(const char *what, tn_module *net, tn_dataset *set,
                  tn_dataset *test, double lr, int epochs)
{
    tn_loader *loader = tn_loader_new(set, .batch_size = 20, .shuffle = true);
    tn_loader *test_loader = tn_loader_new(test, .batch_size = 256);
    tn_optim *opt = tn_optim_adam(tn_parameters(net), .lr = lr);
    tn_train(net, opt, loader, .epochs = epochs, .loss = loss);
    tn_metric *accuracy = tn_metric_accuracy();
    double share = tn_evaluate(net, test_loader,
                               .metrics = (tn_metric *[]){accuracy, NULL});
    if (!tn_error())
        printf("%s: accuracy %.4f\n", what, share);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "data/digits.csv.gz";
    const char *file = argc > 2 ? argv[2] : "pretrained.safetensors";
    tn_manual_seed(SEED);
    tn_tensor *table = tn_csv_load(path);
    tn_dataset *old = digits(table, 0);
    tn_module *first = network("features", "fc");
    train("digits 0 to 4", first, old, old, 2e-3, 5);
    tn_module_save(first, file);

    tn_dataset *new = digits(table, 5);
    tn_dataset *few = tn_dataset_range(new, 0, FEW);
    tn_dataset *test = tn_dataset_range(new, FEW, tn_dataset_count(new));
    tn_module *net = network("backbone", "head");
    tn_module_report *report;
    tn_module_load(net, file, .strict = false, .report = &report,
                   .rename =
                       (tn_rename[]){{"features.", "backbone."}, {NULL, NULL}});
    if (tn_error())
        return fprintf(stderr, "fine_tune: %s\n", tn_error()), 1;
    puts(tn_module_report_text(report));

    tn_module *backbone = tn_module_child(net, "backbone");
    tn_module_set_requires_grad(backbone, false);
    train("digits 5 to 9, new head", net, few, test, 1e-2, 20);
    tn_module_set_requires_grad(backbone, true);
    train("digits 5 to 9, all layers", net, few, test, 1e-3, 20);
    tn_module *fresh = network("backbone", "head");
    train("digits 5 to 9, not pretrained", fresh, few, test, 1e-3, 40);
    if (tn_error())
        return fprintf(stderr, "fine_tune: %s\n", tn_error()), 1;
}
