/* unet.c: a U-Net (arXiv:1505.04597) finds discs and squares in noisy images.
 *
 *     unet [STEPS]                                          unet 200
 *
 * The images are generated: 32 x 32 pixels with a disc and a square. The class
 * of each pixel is 0 (background), 1 (disc) or 2 (square).
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

enum { SIDE = 32, BATCH = 16, CLASSES = 3 };

struct unet {
    tn_module base;
    tn_module *down1, *down2, *bottom, *grow2, *up2, *grow1, *up1, *head;
};

/* Maps images (N, 1, H, W) to scores (N, CLASSES, H, W). */
static tn_tensor *unet_forward(tn_module *self, tn_tensor *x)
{
    struct unet *net = (struct unet *)self;
    tn_tensor *fine = tn_forward(net->down1, x);
    tn_tensor *half = tn_forward(net->down2, tn_max_pool2d(fine, tn_dims(2)));
    x = tn_forward(net->bottom, tn_max_pool2d(half, tn_dims(2)));
    x = tn_cat((tn_tensor *[]){half, tn_forward(net->grow2, x)}, 2, 1);
    x = tn_forward(net->up2, x);
    x = tn_cat((tn_tensor *[]){fine, tn_forward(net->grow1, x)}, 2, 1);
    return tn_forward(net->head, tn_forward(net->up1, x));
}

static const tn_module_class unet_class =
    TN_MODULE_CLASS(struct unet, "UNet", .forward = unet_forward);

static tn_module *convolutions(int64_t in, int64_t out)
{
    return tn_nn_sequential(tn_nn_conv2d(in, out, 3, .padding = 1),
                            tn_nn_batch_norm2d(out), tn_nn_relu(),
                            tn_nn_conv2d(out, out, 3, .padding = 1),
                            tn_nn_batch_norm2d(out), tn_nn_relu());
}

static tn_module *unet_new(int64_t width)
{
    struct unet *net = tn_module_new(&unet_class);
    TN_MODULE_ADD(net, down1, convolutions(1, width));
    TN_MODULE_ADD(net, down2, convolutions(width, 2 * width));
    TN_MODULE_ADD(net, bottom, convolutions(2 * width, 4 * width));
    TN_MODULE_ADD(net, grow2,
                  tn_nn_conv_transpose2d(4 * width, 2 * width, 2, .stride = 2));
    TN_MODULE_ADD(net, up2, convolutions(4 * width, 2 * width));
    TN_MODULE_ADD(net, grow1,
                  tn_nn_conv_transpose2d(2 * width, width, 2, .stride = 2));
    TN_MODULE_ADD(net, up1, convolutions(2 * width, width));
    TN_MODULE_ADD(net, head, tn_nn_conv2d(width, CLASSES, 1));
    return (tn_module *)net;
}

/* Returns, for each pixel of each image, its distance from a line of the grid.
 * The line's coordinate is in row i of `place`. */
static tn_tensor *distance(tn_tensor *axis, tn_tensor *place, int i)
{
    return tn_abs(tn_sub(axis, tn_select(place, 0, i)));
}

/* Returns random images (count, 1, SIDE, SIDE), and the class of each pixel in
 * *out_classes. */
static tn_tensor *shapes(int64_t count, tn_tensor **out_classes)
{
    tn_tensor *x = tn_arange(0, SIDE, 1), *y = tn_unsqueeze(x, 1);
    tn_tensor *place = tn_randint(6, SIDE - 6, tn_dims(4, count, 1, 1));
    tn_tensor *size = tn_randint(3, 7, tn_dims(2, count, 1, 1));
    tn_tensor *disc = tn_le(tn_add(tn_square(distance(x, place, 0)),
                                   tn_square(distance(y, place, 1))),
                            tn_square(tn_select(size, 0, 0)));
    tn_tensor *square =
        tn_le(tn_maximum(distance(x, place, 2), distance(y, place, 3)),
              tn_select(size, 0, 1));
    tn_tensor *classes =
        tn_where_scalar_first(square, 2, tn_to_dtype(disc, TN_I64));
    *out_classes = classes;
    tn_tensor *noise = tn_randn(tn_dims(count, SIDE, SIDE));
    return tn_unsqueeze(
        tn_add(tn_gt_scalar(classes, 0), tn_mul_scalar(noise, 0.2)), 1);
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 200;
    tn_manual_seed(1);
    tn_module *net = unet_new(8);
    tn_optim *opt = tn_optim_adam(tn_parameters(net), .lr = 1e-2);
    tn_schedule *schedule = tn_schedule_cosine_annealing_lr(opt, steps);
    for (int step = 1; step <= steps && !tn_error(); step++)
        TN_SCOPE(scope) {
            tn_tensor *classes, *images = shapes(BATCH, &classes);
            tn_tensor *loss =
                tn_cross_entropy(tn_forward(net, images), classes);
            tn_optim_zero_grad(opt);
            tn_backward(loss);
            tn_optim_step(opt);
            tn_schedule_step(schedule);
            if (step % 50 == 0)
                printf("step %d: loss %.4f\n", step, tn_item(loss));
        }

    /* Prints the intersection over union of each class on new images. */
    tn_module_eval(net);
    TN_NO_GRAD_HERE;
    tn_tensor *classes, *images = shapes(128, &classes);
    tn_tensor *guess = tn_argmax(tn_forward(net, images), .dim = 1);
    for (int kind = 1; kind < CLASSES && !tn_error(); kind++) {
        tn_tensor *a = tn_eq_scalar(guess, kind);
        tn_tensor *b = tn_eq_scalar(classes, kind);
        double both = tn_item(tn_sum(tn_logical_and(a, b)));
        double either = tn_item(tn_sum(tn_logical_or(a, b)));
        printf("%s: IoU %.4f\n", kind == 1 ? "disc" : "square", both / either);
    }
    if (tn_error())
        return fprintf(stderr, "unet: %s\n", tn_error()), 1;
}
