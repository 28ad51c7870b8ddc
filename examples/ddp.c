/* ddp.c: digits.c's network, trained by several processes.
 *
 *     ddp DATA.csv.gz                        one process
 *     tenon run -n 4 ddp DATA.csv.gz         four; the same losses, in every bit
 *     tenon run -n 2 ddp DATA.csv.gz FOLDER  saves each epoch in FOLDER, and goes
 *                                            on from there, with any number
 *
 * A batch of 64 images is cut into 8 shards. Each process computes 8 / n of
 * them; the gradients are added in the same order for every n that divides 8.
 * Lines for several processes are marked with (*). */
#include <stdio.h>
#include <tenon/sharded.h> /* (*) */
#include <tenon/tenon.h>

enum { SEED = 1, EPOCHS = 6, BATCH = 64, SHARDS = 8, TEST = 359 };

static tn_module *network(void)
{
    return tn_nn_sequential(
        tn_nn_conv2d(1, 16, 3, .padding = 1), tn_nn_batch_norm2d(16),
        tn_nn_relu(), tn_nn_max_pool2d(2),
        tn_nn_conv2d(16, 32, 3, .padding = 1), tn_nn_relu(),
        tn_nn_max_pool2d(2), tn_nn_flatten(), tn_nn_dropout(0.1),
        tn_nn_linear(128, 10));
}

/* Rows begin .. begin + count of a random order, or of the order they have. */
static tn_tensor *rows(tn_tensor *all, tn_tensor *order, int64_t begin,
                       int64_t count)
{
    return tn_index_select(all, 0, tn_narrow(order, 0, begin, count));
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "data/digits.csv.gz";
    tn_dist_init();                                     /* (*) */
    tn_group *world = tn_dist_world();                  /* (*) */
    const bool speaks = tn_dist_rank() == 0;            /* (*) */

    /* All images as (N, 1, 8, 8) in [0, 1], and their labels. */
    tn_dataset *mixed = tn_dataset_shuffle(tn_dataset_from_csv(path, NULL), SEED);
    const int64_t count = tn_dataset_count(mixed);
    tn_loader *loader = tn_loader_new(mixed, .batch_size = count);
    tn_tensor *x = NULL, *y = NULL;
    TN_EACH_BATCH(batch, loader) {
        x = tn_mul_scalar(batch.x, 1.0 / 16);
        x = tn_keep(tn_reshape(x, tn_dims(-1, 1, 8, 8)));
        y = tn_keep(batch.y);
    }

    tn_manual_seed(SEED);
    tn_module *net = network();
    tn_ddp *ddp = tn_ddp_new(net, world, .shards = SHARDS); /* (*) */
    tn_optim *opt =
        tn_optim_sgd(tn_parameters(net), .lr = 0.05, .momentum = 0.9);
    const int64_t part = BATCH / SHARDS;
    tn_checkpoint all = {sizeof all, .module = net, .optim = opt};
    if (argc > 2)
        tn_sharded_load(argv[2], &all, world, .ddp = ddp, .optional = true);
    while (all.step < EPOCHS && !tn_error()) {
        double sum = 0;
        int steps = 0;
        tn_scope *scope = tn_scope_open();
        tn_tensor *order = tn_add_scalar(tn_randperm(count - TEST), TEST);
        for (int64_t at = 0; at + BATCH <= count - TEST; at += BATCH, steps++)
            TN_SCOPE(step) {
                while (tn_ddp_next(ddp)) {                    /* (*) */
                    int64_t begin = at + tn_ddp_shard(ddp) * part;
                    tn_tensor *out =
                        tn_forward(net, rows(x, order, begin, part));
                    tn_tensor *loss =
                        tn_cross_entropy(out, rows(y, order, begin, part));
                    tn_backward(loss);
                    tn_ddp_note(ddp, loss);                   /* (*) */
                }
                tn_optim_step(opt);
                sum += tn_ddp_loss(ddp);                      /* (*) */
            }
        tn_scope_close(scope);
        all.step++;
        if (argc > 2)
            tn_sharded_save(argv[2], &all, world, .ddp = ddp);
        if (speaks && !tn_error())
            printf("epoch %d: loss %.9g\n", (int)all.step, sum / steps);
    }

    TN_NO_GRAD if (speaks && !tn_error()) {
        tn_module_train(net, false);
        tn_tensor *found = tn_argmax(tn_forward(net, tn_narrow(x, 0, 0, TEST)),
                                     .dim = 1);
        tn_tensor *right = tn_eq(found, tn_narrow(y, 0, 0, TEST));
        printf("test accuracy: %.4f\n",
               tn_item(tn_mean(tn_to_dtype(right, TN_F32))));
    }
    if (tn_error())
        return fprintf(stderr, "ddp: %s\n", tn_error()), 1;
    tn_drop(x);
    tn_drop(y);
    tn_dist_close();                                          /* (*) */
    return 0;
}
