/* vae.c: a variational autoencoder learns to draw handwritten digits.
 *
 *     vae [DATA.csv.gz [EPOCHS]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

enum { PIXELS = 64, HIDDEN = 128, LATENT = 8 };

/* A variational autoencoder of images (N, 64). Each image gets a random code of
 * 8 numbers. The outputs are the logits of the reconstructed images (N, 64),
 * and the means and the logarithms of the standard deviations of the codes, (N,
 * 8). */
struct vae {
    tn_module base;
    tn_module *encoder, *mean, *log_std, *decoder;
};

static void vae_forward(tn_module *self, tn_tensor *const *in, int in_count,
                        tn_tensor **out, int out_count)
{
    struct vae *vae = (struct vae *)self;
    tn_tensor *h = tn_forward(vae->encoder, in[0]);
    out[1] = tn_forward(vae->mean, h);
    out[2] = tn_forward(vae->log_std, h);
    tn_tensor *noise = tn_randn_like(out[1]);
    tn_tensor *code = tn_add(out[1], tn_mul(noise, tn_exp(out[2])));
    out[0] = tn_forward(vae->decoder, code);
    (void)in_count, (void)out_count;
}

static const tn_module_class vae_class =
    TN_MODULE_CLASS(struct vae, "VAE", .forward_list = vae_forward,
                    .signature = "x -> logits, mean, log_std");

static tn_module *vae_new(void)
{
    struct vae *vae = tn_module_new(&vae_class);
    TN_MODULE_ADD(vae, encoder,
                  tn_nn_sequential(tn_nn_linear(PIXELS, HIDDEN), tn_nn_relu()));
    TN_MODULE_ADD(vae, mean, tn_nn_linear(HIDDEN, LATENT));
    TN_MODULE_ADD(vae, log_std, tn_nn_linear(HIDDEN, LATENT));
    TN_MODULE_ADD(vae, decoder,
                  tn_nn_sequential(tn_nn_linear(LATENT, HIDDEN), tn_nn_relu(),
                                   tn_nn_linear(HIDDEN, PIXELS)));
    return (tn_module *)vae;
}

/* Returns the negative evidence lower bound (ELBO) of a batch. */
static tn_tensor *loss_of(tn_module *vae, tn_tensor *x)
{
    tn_tensor *out[3];
    tn_forward_list(vae, &x, 1, out, 3);
    tn_tensor *bce = tn_binary_cross_entropy_with_logits(out[0], x, NULL,
                                                         .reduction = "sum");
    tn_distribution *q = tn_distribution_normal(out[1], tn_exp(out[2]));
    tn_distribution *prior =
        tn_distribution_normal(tn_zeros(TN_SCALAR), tn_ones(TN_SCALAR));
    tn_tensor *kl = tn_sum(tn_distribution_kl(q, prior));
    return tn_div_scalar(tn_add(bce, kl), tn_tensor_size(x, 0));
}

static void draw(tn_tensor *image)
{
    float pixel[PIXELS];
    if (tn_tensor_to_array(image, pixel, sizeof pixel) < 0)
        return;
    for (int i = 0; i < PIXELS; i++) {
        char c = " .:-=+*#%@"[(int)(9.99f * pixel[i])];
        printf("%c%c%s", c, c, i % 8 == 7 ? "\n" : "");
    }
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "data/digits.csv.gz";
    int epochs = argc > 2 ? atoi(argv[2]) : 30;
    tn_manual_seed(1);
    tn_tensor *x = tn_narrow(tn_csv_load(path), 1, 0, PIXELS);
    tn_dataset *data = tn_dataset_from_tensors(tn_div_scalar(x, 16), NULL);
    tn_loader *loader = tn_loader_new(data, .batch_size = 64, .shuffle = true);

    tn_module *vae = vae_new();
    tn_optim *optim = tn_optim_adam(tn_parameters(vae), .lr = 2e-3);
    for (int epoch = 1; epoch <= epochs && !tn_error(); epoch++) {
        double total = 0;
        TN_EACH_BATCH(batch, loader) {
            tn_tensor *loss = loss_of(vae, batch.x);
            tn_optim_zero_grad(optim);
            tn_backward(loss);
            tn_optim_step(optim);
            total += tn_item(loss);
        }
        total /= (double)tn_loader_count(loader);
        printf("epoch %d: loss %.3f\n", epoch, total);
    }
    TN_NO_GRAD {
        tn_tensor *code = tn_randn(tn_dims(3, LATENT));
        tn_tensor *images = tn_forward(tn_module_child(vae, "decoder"), code);
        for (int i = 0; i < 3; i++)
            draw(tn_sigmoid(tn_select(images, 0, i)));
    }
    if (tn_error())
        return fprintf(stderr, "vae: %s\n", tn_error()), 1;
}
