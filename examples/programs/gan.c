/* gan.c: a generative adversarial network (DCGAN, arXiv:1511.06434) draws
 * handwritten digits.
 *
 *     gan [DATA.csv.gz] [EPOCHS]                    gan data/digits.csv.gz 20
 *
 * The generator computes images from random numbers. The discriminator learns
 * to distinguish them from real images. The generator learns to make images
 * that the discriminator takes for real. */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

enum { BATCH = 64, NOISE = 16, SIDE = 8 };

/* Returns a network that maps noise (N, NOISE) to images (N, 1, 8, 8) in [0,
 * 1]. */
static tn_module *generator(void)
{
    return tn_nn_sequential(
        tn_nn_linear(NOISE, 64 * 2 * 2), tn_nn_unflatten(1, tn_dims(64, 2, 2)),
        tn_nn_batch_norm2d(64), tn_nn_relu(),
        tn_nn_conv_transpose2d(64, 32, 4, .stride = 2, .padding = 1),
        tn_nn_batch_norm2d(32), tn_nn_relu(),
        tn_nn_conv_transpose2d(32, 1, 4, .stride = 2, .padding = 1),
        tn_nn_sigmoid());
}

/* Returns a network that maps images to logits (N, 1), which are positive if an
 * image seems to be real. */
static tn_module *discriminator(void)
{
    return tn_nn_sequential(tn_nn_conv2d(1, 32, 4, .stride = 2, .padding = 1),
                            tn_nn_leaky_relu(0.2),
                            tn_nn_conv2d(32, 64, 4, .stride = 2, .padding = 1),
                            tn_nn_leaky_relu(0.2), tn_nn_flatten(),
                            tn_nn_linear(64 * 2 * 2, 1));
}

/* Returns the loss of the discriminator's logits. The target `real` is 1 if the
 * images should be classified as real, 0 if as generated. */
static tn_tensor *judged(tn_tensor *logits, double real)
{
    return tn_binary_cross_entropy_with_logits(
        logits, tn_full_like(logits, real), NULL);
}

/* Returns the mean distance from each image to the nearest of the digits (M,
 * 64). */
static double distance(tn_tensor *images, tn_tensor *digits)
{
    tn_tensor *apart = tn_cdist(tn_flatten(images, .start_dim = 1), digits);
    return tn_item(tn_mean(tn_amin(apart, .dim = 1)));
}

static void draw(tn_tensor *image)
{
    float pixel[SIDE][SIDE];
    if (tn_tensor_to_array(image, pixel, sizeof pixel) < 0)
        return;
    for (int i = 0; i < SIDE; i++) {
        for (int j = 0; j < SIDE; j++) {
            float dark = pixel[i][j] > 0 ? pixel[i][j] : 0; /* pixels that are
                                                             * NaN become 0 */
            printf("%c ", " .:-=+*#%@"[(int)(dark * 9.99F)]);
        }
        putchar('\n');
    }
    putchar('\n');
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "data/digits.csv.gz";
    int epochs = argc > 2 ? atoi(argv[2]) : 20;
    tn_manual_seed(1);
    tn_tensor *table = tn_csv_load(path);
    tn_tensor *digits = tn_mul_scalar(tn_narrow(table, 1, 0, 64), 1.0 / 16);
    tn_tensor *images = tn_reshape(digits, tn_dims(-1, 1, SIDE, SIDE));
    tn_loader *loader =
        tn_loader_new(tn_dataset_from_tensors(images, NULL),
                      .batch_size = BATCH, .shuffle = true, .drop_last = true);
    tn_module *make = generator(), *judge = discriminator();
    tn_optim *make_opt =
        tn_optim_adam(tn_parameters(make), .lr = 2e-3, .beta1 = 0.5);
    tn_optim *judge_opt =
        tn_optim_adam(tn_parameters(judge), .lr = 1e-3, .beta1 = 0.5);
    for (int epoch = 1; epoch <= epochs && !tn_error(); epoch++) {
        double make_sum = 0, judge_sum = 0;
        TN_EACH_BATCH(batch, loader) {
            tn_tensor *fake =
                tn_forward(make, tn_randn(tn_dims(batch.count, NOISE)));
            tn_tensor *judge_loss =
                tn_add(judged(tn_forward(judge, batch.x), 1),
                       judged(tn_forward(judge, tn_detach(fake)), 0));
            tn_optim_zero_grad(judge_opt);
            tn_backward(judge_loss);
            tn_optim_step(judge_opt);

            tn_tensor *make_loss = judged(tn_forward(judge, fake), 1);
            tn_optim_zero_grad(make_opt);
            tn_backward(make_loss);
            tn_optim_step(make_opt);
            judge_sum += tn_item(judge_loss);
            make_sum += tn_item(make_loss);
        }
        double batches = (double)tn_loader_count(loader);
        printf("epoch %2d: discriminator %.3f, generator %.3f\n", epoch,
               judge_sum / batches, make_sum / batches);
    }

    tn_module_eval(make);
    TN_NO_GRAD_HERE;
    tn_tensor *drawn = tn_forward(make, tn_randn(tn_dims(256, NOISE)));
    for (int i = 0; i < 3; i++)
        draw(tn_select(drawn, 0, i));
    double made = distance(drawn, digits);
    double random = distance(tn_rand_like(drawn), digits);
    if (tn_error())
        return fprintf(stderr, "gan: %s\n", tn_error()), 1;
    printf("distance to the nearest digit: %.2f, of noise: %.2f\n", made,
           random);
}
