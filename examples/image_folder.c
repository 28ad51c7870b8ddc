/* image_folder.c: a convolutional network learns the classes of a folder of
 * images, FOLDER/CLASS/....jpg, and shows its mistakes.
 *
 *     image_folder FOLDER [EPOCHS [RUN]]
 *     tenon plot RUN
 *
 * A random fifth of the images, chosen by the seed, is held out. The folder RUN
 * (run) gets the curves of the training, and mistakes.png: a grid of the held-out
 * images that are classified wrongly. */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/events.h>
#include <tenon/image.h>
#include <tenon/tenon.h>
#include <tenon/transform.h>

enum { SEED = 1, SIDE = 32, SHOWN = 64 };

static const double mean[] = {0.5, 0.5, 0.5}, deviation[] = {0.25, 0.25, 0.25};

/* Runs in the loader's workers. */
static tn_tensor *augment(tn_tensor *image, void *context)
{
    (void)context;
    image = tn_image_random_resized_crop(image, SIDE, SIDE, .scale_min = 0.5);
    image = tn_image_random_flip(image);
    image = tn_image_color_jitter(image, .brightness = 0.2, .contrast = 0.2);
    return tn_image_normalize(image, mean, deviation, 3);
}

static tn_tensor *prepare(tn_tensor *image, void *context)
{
    (void)context;
    return tn_image_prepare(image, .resize = SIDE, .crop = SIDE, .mean = mean,
                            .deviation = deviation);
}

static tn_module *network(int64_t classes)
{
    return tn_nn_sequential(
        tn_nn_conv2d(3, 16, 3, .padding = 1), tn_nn_relu(),
        tn_nn_max_pool2d(2), tn_nn_conv2d(16, 32, 3, .padding = 1),
        tn_nn_relu(), tn_nn_max_pool2d(2), tn_nn_flatten(),
        tn_nn_linear(32 * (SIDE / 4) * (SIDE / 4), 64), tn_nn_relu(),
        tn_nn_linear(64, classes));
}

static tn_tensor *loss(tn_tensor *out, const tn_batch *batch, void *context)
{
    (void)context;
    return tn_cross_entropy(out, batch->y);
}

static void write_curves(tn_train_state *state, void *events)
{
    tn_events_epoch(events, state);
}

/* Adds the images of a batch that net classifies wrongly to wrong[], the first
 * SHOWN of all. Returns how many there are so far. */
static int collect(tn_module *net, const tn_batch *batch,
                   const tn_image_folder *folder, tn_tensor **wrong, int count)
{
    tn_tensor *guess = tn_argmax(tn_forward(net, batch->x), .dim = 1);
    for (int64_t i = 0; i < batch->count; i++) {
        const int64_t is = tn_item_int(tn_select(batch->y, 0, i));
        const int64_t seems = tn_item_int(tn_select(guess, 0, i));
        if (is == seems || tn_error())
            continue;
        if (count < 5)
            printf("taken for %s: a %s\n",
                   tn_image_folder_class_name(folder, seems),
                   tn_image_folder_class_name(folder, is));
        if (count < SHOWN)
            wrong[count] = tn_keep(tn_select(batch->x, 0, i));
        count++;
    }
    return count;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return fputs("usage: image_folder FOLDER [EPOCHS [RUN]]\n", stderr), 2;
    const int epochs = argc > 2 ? atoi(argv[2]) : 10;
    const char *run = argc > 3 ? argv[3] : "run";
    char path[4096];
    snprintf(path, sizeof path, "%s/mistakes.png", run);
    tn_events *events = tn_events_open(run);
    tn_device *device = tn_device_current();
    tn_manual_seed(SEED);
    tn_image_folder *folder = tn_image_folder_open(argv[1]);
    const int64_t count = tn_image_folder_count(folder), held = count / 5;
    const int64_t classes = tn_image_folder_class_count(folder);
    printf("%lld images of %lld classes\n", (long long)count,
           (long long)classes);

    /* Both sets have the same random order. min_side lets large JPEG files be
     * decoded at a fraction of their size. */
    tn_dataset *train = tn_dataset_shuffle(
        tn_dataset_from_image_folder(folder, .transform = augment,
                                     .min_side = 2 * SIDE), SEED);
    tn_dataset *test = tn_dataset_shuffle(
        tn_dataset_from_image_folder(folder, .transform = prepare,
                                     .min_side = SIDE), SEED);
    tn_loader *loader = tn_loader_new(
        tn_dataset_range(train, held, count), .batch_size = 32, .shuffle = true,
        .seed = SEED, .workers = 2, .device = device);
    tn_loader *test_loader =
        tn_loader_new(tn_dataset_range(test, 0, held), .batch_size = 64,
                      .workers = 2, .device = device);

    tn_module *net = tn_module_to(network(classes), .device = device);
    tn_optim *opt = tn_optim_adam(tn_parameters(net), .lr = 1e-3);
    tn_train(net, opt, loader, .epochs = epochs, .loss = loss, .log = stdout,
             .validation = test_loader, .on_epoch_end = write_curves,
             .context = events);

    tn_tensor *wrong[SHOWN];
    int wrong_count = 0;
    tn_module_eval(net);
    TN_NO_GRAD
        TN_EACH_BATCH(batch, test_loader)
            wrong_count = collect(net, &batch, folder, wrong, wrong_count);
    const int shown = wrong_count < SHOWN ? wrong_count : SHOWN;
    if (shown > 0) {
        tn_tensor *grid = tn_image_grid(tn_stack(wrong, shown, 0),
                                        .normalize = true, .each = true);
        tn_events_image(events, "mistakes", grid, epochs);
        tn_image_save(path, grid);
    }
    for (int i = 0; i < shown; i++)
        tn_drop(wrong[i]);
    if (tn_error())
        return fprintf(stderr, "image_folder: %s\n", tn_error()), 1;
    printf("%d of %lld held out are wrong%s%s\n", wrong_count, (long long)held,
           wrong_count ? ": see " : "", wrong_count ? path : "");
    return 0;
}
