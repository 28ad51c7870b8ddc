/* own_module.c: two modules that the program defines itself. One has buffers,
 * the other one several inputs.
 *
 * The module Attend finds the row of a memory that resembles a query most. The
 * elements of the rows have a mean far from 0 and a variance far from 1. The
 * module Standardize learns both, so that Attend can compare rows.
 *
 *     own_module [EPOCHS] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

enum { SAMPLES = 2048, ROWS = 6, FEATURES = 8 };

/* Subtracts a running mean and divides by a running standard deviation. */
struct standardize {
    tn_module base;
    tn_tensor *mean, *var;
    double momentum;
};

static tn_tensor *standardize_forward(tn_module *self, tn_tensor *x)
{
    struct standardize *layer = (struct standardize *)self;
    if (self->training) {
        TN_NO_GRAD_HERE;
        tn_tensor *rows = tn_reshape(x, tn_dims(-1, tn_tensor_size(x, -1)));
        tn_tensor *mean = tn_mean(rows, .dim = 0);
        tn_tensor *var = tn_var(rows, .dim = 0);
        tn_lerp_scalar_(layer->mean, mean, layer->momentum);
        tn_lerp_scalar_(layer->var, var, layer->momentum);
    }
    tn_tensor *deviation = tn_sqrt(tn_add_scalar(layer->var, 1e-5));
    return tn_div(tn_sub(x, layer->mean), deviation);
}

static void standardize_describe(const tn_module *self, char *text, size_t room)
{
    const struct standardize *layer = (const struct standardize *)self;
    tn_format(text, room, "momentum=%g", layer->momentum);
}

static const tn_module_class standardize_class = TN_MODULE_CLASS(
    struct standardize, "Standardize", .forward = standardize_forward,
    .describe = standardize_describe);

static tn_module *standardize_new(int64_t features, double momentum)
{
    struct standardize *layer = tn_module_new(&standardize_class);
    if (layer)
        layer->momentum = momentum;
    TN_MODULE_ADD_BUFFER(layer, mean, tn_zeros(tn_dims(features)));
    TN_MODULE_ADD_BUFFER(layer, var, tn_ones(tn_dims(features)));
    return (tn_module *)layer;
}

/* Maps a query (N, F), a memory (N, R, F) and a mask (N, R) to scores (N,
 * R). */
struct attend {
    tn_module base;
    tn_module *norm, *query, *key;
    tn_tensor *scale;
};

static void attend_forward(tn_module *self, tn_tensor *const *in, int in_count,
                           tn_tensor **out, int out_count)
{
    struct attend *net = (struct attend *)self;
    tn_tensor *q = tn_forward(net->query, tn_forward(net->norm, in[0]));
    tn_tensor *k = tn_forward(net->key, tn_forward(net->norm, in[1]));
    tn_tensor *dots = tn_squeeze(tn_matmul(k, tn_unsqueeze(q, 2)), .dim = 2);
    out[0] = tn_mul(dots, net->scale);
    if (in[2])
        out[0] = tn_masked_fill_scalar(out[0], in[2], -INFINITY);
    (void)in_count, (void)out_count;
}

static const tn_module_class attend_class =
    TN_MODULE_CLASS(struct attend, "Attend", .forward_list = attend_forward,
                    .signature = "query, memory, mask? -> scores");

static tn_module *attend_new(int64_t features)
{
    struct attend *net = tn_module_new(&attend_class);
    TN_MODULE_ADD(net, norm, standardize_new(features, 0.1));
    TN_MODULE_ADD(net, query, tn_nn_linear(features, features));
    TN_MODULE_ADD(net, key, tn_nn_linear(features, features));
    TN_MODULE_ADD_PARAMETER(net, scale,
                            tn_scalar_tensor(1 / sqrt((double)features)));
    return (tn_module *)net;
}

/* Returns a dataset with four fields: queries, memories, masks and rows. A
 * query is a noisy copy of one row of its memory. The field `row` is the index
 * of that row, which the network must find. */
static tn_dataset *make_data(void)
{
    tn_tensor *memory = tn_randn(tn_dims(SAMPLES, ROWS, FEATURES));
    memory = tn_add_scalar(tn_mul_scalar(memory, 5), 20);
    tn_tensor *row = tn_randint(0, ROWS, tn_dims(SAMPLES));
    tn_tensor *at[] = {tn_arange(0, SAMPLES, 1), row};
    tn_tensor *query = tn_index(memory, at, 2);
    query = tn_add(query, tn_randn(tn_dims(SAMPLES, FEATURES)));
    tn_tensor *mask = tn_lt_scalar(tn_rand(tn_dims(SAMPLES, ROWS)), 0.2);
    tn_tensor *others = tn_ne(tn_unsqueeze(row, 1), tn_arange(0, ROWS, 1));
    mask = tn_logical_and(mask, others);
    return tn_dataset_from_fields((tn_tensor *[]){query, memory, mask, row}, 4);
}

int main(int argc, char **argv)
{
    int epochs = argc > 1 ? atoi(argv[1]) : 10;
    tn_manual_seed(1);
    tn_loader *loader =
        tn_loader_new(make_data(), .batch_size = 64, .shuffle = true);
    tn_module *net = attend_new(FEATURES);
    tn_module_print(stdout, net);
    tn_optim *optim = tn_optim_adam(tn_parameters(net), .lr = 1e-2);
    for (int epoch = 1; epoch <= epochs && !tn_error(); epoch++) {
        double value = 0;
        TN_EACH_BATCH(batch, loader) {
            tn_tensor **f = batch.field;
            tn_tensor *scores = tn_forward(net, f[0], f[1], f[2]);
            tn_tensor *loss = tn_cross_entropy(scores, f[3]);
            tn_optim_zero_grad(optim);
            tn_backward(loss);
            tn_optim_step(optim);
            value = tn_item(loss);
        }
        printf("epoch %d: loss %.4f\n", epoch, value);
    }

    tn_module_save(net, "own_module.safetensors");
    tn_module *other = attend_new(FEATURES);
    tn_module_load(other, "own_module.safetensors");
    tn_module_eval(other);
    tn_metric *accuracy = tn_metric_accuracy();
    TN_NO_GRAD {
        TN_EACH_BATCH(batch, loader) {
            tn_tensor *scores = tn_forward(other, batch.x, batch.y);
            tn_metric_update(accuracy, scores, batch.field[3]);
        }
    }
    printf("accuracy %.3f, running mean %.1f\n", tn_metric_value(accuracy),
           tn_item(tn_mean(tn_module_buffer(other, "norm.mean"))));
    if (tn_error())
        return fprintf(stderr, "own_module: %s\n", tn_error()), 1;
}
