/* ddp_peer.c: gradients and steps of data parallel training, for comparison with
 * PyTorch's DistributedDataParallel: bench/ddp_peer.py runs this program and itself
 * on the same model, data and number of ranks.
 *
 *     tenon run -n 2 ddp_peer DIR float64
 *
 * writes to DIR the model and the data (begin.safetensors), the gradients of the
 * first step (gradients.safetensors), and the model after STEPS steps of AdamW with
 * divided state (end.safetensors). */
#include <stdio.h>
#include <string.h>
#include <tenon/parallel.h>
#include <tenon/tenon.h>

enum { STEPS = 5, ROWS = 6, CLASSES = 4 };

/* Batch statistics are those of a rank, in both. A bias before them would have a
 * gradient of rounding errors alone. */
static tn_module *network(void)
{
    return tn_nn_sequential(
        tn_nn_conv2d(2, 6, 3, .bias = false), tn_nn_batch_norm2d(6), tn_nn_tanh(),
        tn_nn_flatten(), tn_nn_linear(6 * 4 * 4, 16), tn_nn_layer_norm(tn_dims(16)),
        tn_nn_gelu(), tn_nn_linear(16, CLASSES));
}

typedef struct list {
    int count;
    const char *name[64];
    tn_tensor *tensor[64];
} list;

static void add(list *l, const char *name, tn_tensor *x)
{
    l->name[l->count] = name;
    l->tensor[l->count++] = x;
}

static void save(const char *folder, const char *file, const list *l)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, file);
    if (tn_dist_rank() == 0)
        tn_safetensors_save(path, l->name, l->tensor, l->count, NULL, 0);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    const tn_dtype dtype = tn_dtype_from_name(argc > 2 ? argv[2] : "float32");
    tn_dist_init();
    const int64_t ranks = tn_dist_size();
    tn_manual_seed(1);
    tn_module *net = tn_module_to(network(), .dtype = dtype);
    tn_ddp *ddp = tn_ddp_new(net, tn_dist_world(), .bucket_bytes = 1000);
    tn_parameter_list *parameters = tn_parameters(net);
    tn_optim *opt = tn_optim_sharded(
        tn_optim_adamw(parameters, .lr = 1e-2, .weight_decay = 0.1),
        tn_dist_world());
    tn_manual_seed(2);
    tn_tensor *x = tn_randn(tn_dims(STEPS, ranks * ROWS, 2, 6, 6), .dtype = dtype);
    tn_tensor *y = tn_randint(0, CLASSES, tn_dims(STEPS, ranks * ROWS),
                              .dtype = TN_I64);
    list begin = {0}, gradients = {0}, end = {0};
    for (int i = 0; i < tn_parameters_count(parameters); i++) {
        add(&begin, tn_parameters_name(parameters, i),
            tn_parameters_at(parameters, i));
        add(&end, tn_parameters_name(parameters, i),
            tn_parameters_at(parameters, i));
    }
    add(&begin, "x", x);
    add(&begin, "y", y);
    save(folder, "begin", &begin);
    for (int64_t step = 0; step < STEPS; step++) {
        while (tn_ddp_next(ddp)) {
            const int64_t at = tn_ddp_shard(ddp) * ROWS;
            tn_tensor *out = tn_forward(
                net, tn_narrow(tn_select(x, 0, step), 0, at, ROWS));
            tn_backward(tn_cross_entropy(
                out, tn_narrow(tn_select(y, 0, step), 0, at, ROWS)));
        }
        for (int i = 0; step == 0 && i < tn_parameters_count(parameters); i++)
            add(&gradients, tn_parameters_name(parameters, i),
                tn_tensor_grad(tn_parameters_at(parameters, i)));
        if (step == 0)
            save(folder, "gradients", &gradients);
        tn_optim_step(opt);
    }
    save(folder, "end", &end);
    if (tn_error())
        return fprintf(stderr, "ddp_peer: %s\n", tn_error()), 1;
    tn_dist_close();
    return 0;
}
