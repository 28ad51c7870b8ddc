/* cnn.c: a convolutional network learns handwritten digits.
 *
 *     cnn [DATA.csv.gz [EPOCHS]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

struct net {
    tn_module base;
    tn_module *conv1, *norm1, *conv2, *norm2, *dropout, *fc;
};

static tn_tensor *net_forward(tn_module *self, tn_tensor *x)
{
    struct net *net = (struct net *)self;
    x = tn_relu(tn_forward(net->norm1, tn_forward(net->conv1, x)));
    x = tn_relu(tn_forward(net->norm2, tn_forward(net->conv2, x)));
    x = tn_flatten(tn_max_pool2d(x, tn_dims(2)), .start_dim = 1);
    return tn_forward(net->fc, tn_forward(net->dropout, x));
}

static const tn_module_class net_class =
    TN_MODULE_CLASS(struct net, "Net", .forward = net_forward);

static tn_module *net_new(void)
{
    struct net *net = tn_module_new(&net_class);
    TN_MODULE_ADD(net, conv1, tn_nn_conv2d(1, 16, 3, .padding = 1));
    TN_MODULE_ADD(net, norm1, tn_nn_batch_norm2d(16));
    TN_MODULE_ADD(net, conv2, tn_nn_conv2d(16, 32, 3, .padding = 1));
    TN_MODULE_ADD(net, norm2, tn_nn_batch_norm2d(32));
    TN_MODULE_ADD(net, dropout, tn_nn_dropout(0.25));
    TN_MODULE_ADD(net, fc, tn_nn_linear(32 * 4 * 4, 10));
    return (tn_module *)net;
}

static double train(tn_module *net, tn_optim *optim, tn_loader *loader)
{
    double total = 0;
    tn_module_train(net, true);
    TN_EACH_BATCH(batch, loader) {
        tn_tensor *loss = tn_cross_entropy(tn_forward(net, batch.x), batch.y);
        tn_optim_zero_grad(optim);
        tn_backward(loss);
        tn_optim_step(optim);
        total += tn_item(loss);
    }
    return total / (double)tn_loader_count(loader);
}

static double accuracy(tn_module *net, tn_loader *loader)
{
    int64_t right = 0, count = 0;
    tn_module_eval(net);
    TN_NO_GRAD {
        TN_EACH_BATCH(batch, loader) {
            tn_tensor *guess = tn_argmax(tn_forward(net, batch.x), .dim = 1);
            right += tn_item_int(tn_sum(tn_eq(guess, batch.y)));
            count += batch.count;
        }
    }
    return (double)right / (double)count;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "data/digits.csv.gz";
    int epochs = argc > 2 ? atoi(argv[2]) : 10;
    tn_manual_seed(1);
    tn_tensor *table = tn_csv_load(path);
    tn_tensor *x = tn_div_scalar(tn_narrow(table, 1, 0, 64), 16);
    tn_tensor *y = tn_to_dtype(tn_select(table, 1, 64), TN_I64);
    tn_dataset *data =
        tn_dataset_from_tensors(tn_reshape(x, tn_dims(-1, 1, 8, 8)), y);
    tn_dataset *part[2] = {NULL};
    tn_dataset_random_split(data, (double[]){0.8, 0.2}, 2, 1, part);
    tn_loader *loader =
        tn_loader_new(part[0], .batch_size = 32, .shuffle = true);
    tn_loader *test = tn_loader_new(part[1], .batch_size = 256);

    tn_module *net = net_new();
    tn_optim *optim = tn_optim_adamw(tn_parameters(net), .lr = 2e-3);
    tn_schedule *schedule = tn_schedule_cosine_annealing_lr(optim, epochs);
    for (int epoch = 1; epoch <= epochs && !tn_error(); epoch++) {
        double loss = train(net, optim, loader);
        printf("epoch %d: loss %.4f, test accuracy %.4f\n", epoch, loss,
               accuracy(net, test));
        tn_schedule_step(schedule);
    }
    if (tn_error())
        return fprintf(stderr, "cnn: %s\n", tn_error()), 1;
}
