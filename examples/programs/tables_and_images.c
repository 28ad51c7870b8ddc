/* tables_and_images.c: a network learns from a table and a folder of images.
 *
 *     tables_and_images FOLDER [EPOCHS]            (see digit_images.awk)
 *
 * FOLDER/labels.csv has a line for each image: its number, three measurements
 * and the name of its class. The images are FOLDER/0.pgm and so on. Worker
 * threads read them during training. A fifth of the images is held out for the
 * test. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

enum { SEED = 1, SIDE = 8, MEASURED = 3, BATCH = 32 };

/* Reads a binary PGM file as a tensor (1, SIDE, SIDE) in [0, 1]. */
static tn_tensor *read_image(const char *path)
{
    unsigned char pixels[SIDE * SIDE];
    FILE *file = fopen(path, "rb");
    if (!file)
        return tn_error_set(TN_ERR_IO, "%s: %s", path, strerror(errno)), NULL;
    int width = 0, height = 0;
    bool good = fscanf(file, "P5 %d %d 255", &width, &height) == 2 &&
                width == SIDE && height == SIDE && fgetc(file) != EOF &&
                fread(pixels, sizeof pixels, 1, file) == 1;
    fclose(file);
    if (!good)
        return tn_error_set(TN_ERR_FORMAT,
                            "%s is not a PGM image of %d x %d bytes", path, SIDE,
                            SIDE),
               NULL;
    tn_tensor *x = tn_tensor_from_array(pixels, TN_U8, tn_dims(1, SIDE, SIDE));
    return tn_mul_scalar(tn_to_dtype(x, TN_F32), 1.0 / 255);
}

/* The context of the dataset: the folder, and a table whose rows have the
 * index, measurements and class of an image. */
struct table {
    const char *folder;
    tn_tensor *rows;
};

/* Sets fields[] to the image, class and measurements of sample i. Returns the
 * number of fields. */
static int sample(void *context, int64_t i, tn_tensor **fields)
{
    struct table *table = context;
    tn_tensor *row = tn_select(table->rows, 0, i);
    char path[4096];
    snprintf(path, sizeof path, "%s/%.0f.pgm", table->folder,
             tn_item(tn_select(row, 0, 0)));
    fields[0] = read_image(path);
    fields[1] = tn_to_dtype(tn_select(row, 0, -1), TN_I64);
    fields[2] = tn_narrow(row, 0, 1, MEASURED);
    return tn_error() ? tn_error_code() : 3;
}

struct net {
    tn_module base;
    tn_module *features, *hidden, *head;
};

static void net_forward(tn_module *self, tn_tensor *const *in, int in_count,
                        tn_tensor **out, int out_count)
{
    (void)in_count, (void)out_count;
    struct net *net = (struct net *)self;
    tn_tensor *seen = tn_forward(net->features, in[0]);
    tn_tensor *both = tn_cat((tn_tensor *[]){seen, in[1]}, 2, 1);
    out[0] = tn_forward(net->head, tn_relu(tn_forward(net->hidden, both)));
}

static const tn_module_class net_class =
    TN_MODULE_CLASS(struct net, "Net", .forward_list = net_forward,
                    .signature = "images, measurements -> scores");

static tn_module *net_new(int64_t classes)
{
    struct net *net = tn_module_new(&net_class);
    TN_MODULE_ADD(net, features,
                  tn_nn_sequential(tn_nn_conv2d(1, 16, 3, .padding = 1),
                                   tn_nn_relu(), tn_nn_max_pool2d(2),
                                   tn_nn_conv2d(16, 32, 3, .padding = 1),
                                   tn_nn_relu(), tn_nn_max_pool2d(2),
                                   tn_nn_flatten()));
    TN_MODULE_ADD(net, hidden, tn_nn_linear(128 + MEASURED, 64));
    TN_MODULE_ADD(net, head, tn_nn_linear(64, classes));
    return (tn_module *)net;
}

static tn_tensor *forward(tn_module *net, const tn_batch *batch, void *context)
{
    (void)context;
    return tn_forward(net, batch->x, batch->field[2]);
}

static tn_tensor *loss(tn_tensor *out, const tn_batch *batch, void *context)
{
    (void)context;
    return tn_cross_entropy(out, batch->y);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return fprintf(stderr, "usage: tables_and_images FOLDER [EPOCHS]\n"), 2;
    int epochs = argc > 2 ? atoi(argv[2]) : 5;
    char path[4096];
    snprintf(path, sizeof path, "%s/labels.csv", argv[1]);
    tn_manual_seed(SEED);
    tn_categories *names = tn_categories_new();
    struct table table = {
        argv[1],
        tn_csv_load(path, .skip_rows = 1, .category = -1, .categories = names)};
    if (tn_error())
        return fprintf(stderr, "tables_and_images: %s\n", tn_error()), 1;

    tn_dataset_class samples = {.size = sizeof samples,
                                .count = tn_tensor_size(table.rows, 0),
                                .get = sample};
    tn_dataset *part[2];
    tn_dataset_random_split(tn_dataset_new(&samples, &table),
                            (double[]){0.8, 0.2}, 2, SEED, part);
    tn_loader *loader = tn_loader_new(part[0], .batch_size = BATCH,
                                      .shuffle = true, .workers = 2);
    tn_loader *test = tn_loader_new(part[1], .batch_size = 256, .workers = 2);
    int64_t classes = tn_categories_count(names);
    tn_module *net = net_new(classes);
    tn_optim *opt = tn_optim_adam(tn_parameters(net), .lr = 3e-3);
    tn_train(net, opt, loader, .epochs = epochs, .forward = forward,
             .loss = loss, .log = stdout);

    tn_metric *accuracy = tn_metric_accuracy();
    tn_metric *confusion = tn_metric_confusion(classes);
    double share =
        tn_evaluate(net, test, .forward = forward,
                    .metrics = (tn_metric *[]){accuracy, confusion, NULL});
    tn_tensor *right = tn_diagonal(tn_metric_matrix(confusion));
    tn_tensor *all = tn_sum(tn_metric_matrix(confusion), .dim = 1);
    for (int64_t i = 0; i < classes && !tn_error(); i++)
        printf("%-8s %lld of %lld\n", tn_categories_name(names, i),
               (long long)tn_item_int(tn_select(right, 0, i)),
               (long long)tn_item_int(tn_select(all, 0, i)));
    if (tn_error())
        return fprintf(stderr, "tables_and_images: %s\n", tn_error()), 1;
    printf("test accuracy: %.4f\n", share);
}
