/* test_modes.c: tests that process-wide settings do not change what libtenon
 * computes, prints, reads and writes (modes.h). */
#include <tenon/op_register.h>

#include "../kernel/printed.h"
#include "../modes.h"

/* ---- compared results ---------------------------------------------------- */

static void texts(void)
{
    int rows = 0;
    printed_list list = {0};
    const tn_target target = printed_target(TN_TARGET_F64);
    printed_rows(&list, &target, &rows);
    printed_primitives(&list, &target);
    uint64_t all = 0;
    for (int i = 0; i < list.count; i++) {
        record_text("kernel texts", list.item[i].text);
        all = all * 31 + results[--record_count].hash;
    }
    printed_release(&list);
    record_bytes("kernel texts", &all, sizeof all);
}

static void definitions(void)
{
    tn_tensor *x = tn_linspace(-3, 3, 101);
    const tn_op *op =
        tn_op_define("modes(x; a) = x * a + 1.1e-3 / (2.7 + x * x)");
    record_tensor("an operator of its own",
               tn_op_apply(op, &x, (double[]){0.3}));
    record_tensor("composites", tn_add(tn_logspace(-2, 1.5, 101, 10),
                                    tn_celu(x, .alpha = 0.7)));
    record_tensor("constants", tn_arange(0, 10.1, 0.1));
    record_tensor("quantiles", tn_quantile_scalar(x, 0.37));
    record_tensor("distances", tn_cdist(tn_reshape(tn_narrow(x, 0, 0, 20),
                                                tn_dims(10, 2)),
                                     tn_reshape(tn_narrow(x, 0, 20, 20),
                                                tn_dims(10, 2))));
    record_tensor("images", tn_interpolate(
        tn_reshape(tn_narrow(x, 0, 0, 100), tn_dims(1, 1, 10, 10)),
        tn_dims(7, 13), .mode = "bicubic"));
}

static void printing(void)
{
    char *text = tn_tensor_text(tn_mul_scalar(tn_randn(tn_dims(5, 7)), 1e3));
    record_text("tensors in print", text);
    free(text);
    tn_module *net = tn_nn_sequential(
        tn_nn_linear(4, 8), tn_nn_batch_norm1d(8, .momentum = 0.25),
        tn_nn_leaky_relu(0.125), tn_nn_dropout(0.5),
        tn_nn_layer_norm(tn_dims(8), .eps = 1.5e-5));
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    tn_module_print(file, net);
    fclose(file);
    record_text("modules in print", text);
    free(text);
    if (tn_error()) /* the following calls clear the error */
        bail_out("%s", tn_error());
    tn_dropout(tn_ones(tn_dims(2)), 1.5, true);
    record_text("errors of operators", tn_error());
    tn_error_clear();
    tn_nn_dropout(1.5);
    record_text("errors of layers", tn_error());
    tn_error_clear();
    tn_empty(tn_dims(INT64_C(1) << 50)); /* the rest of the message depends on
                                          * how much memory is free */
    char sizes[200];
    snprintf(sizes, sizeof sizes, "%s", tn_error() ? tn_error() : "");
    char *rest = strstr(sizes, " requested");
    if (rest)
        *rest = '\0';
    record_text("sizes in errors", sizes);
    tn_error_clear();
}

static tn_status fill_forward(tn_op_context *call, tn_tensor **out)
{
    out[0] = tn_add_scalar(tn_op_context_tensor(call, 0),
                           tn_op_context_value(call, 1).of.f);
    return out[0] ? TN_OK : tn_error_code();
}

/* Registers an operator whose signature has a default that is no integer. */
static void signatures(void)
{
    tn_op_register(&(tn_op_rule){
        .size = sizeof(tn_op_rule),
        .signature = "modes_fill(x; fill: float = 0.3) -> y",
        .forward = fill_forward});
    record_tensor("a registered operator",
               tn_call("modes_fill", tn_zeros(tn_dims(3))));
}

static void reading(void)
{
    write_file("1.5,2.25,0\n-0.1,1e-3,1\n16777217.5,3.3333333333333333,1\n");
    tn_tensor *x = tn_csv_load(scratch_file);
    record_tensor("numbers of a CSV file", x);
}

/* Computes random numbers and the initial values of layers. */
static void initial_values(void)
{
    static const char *const names[] = {"conv2d", "lstm", "embedding",
                                        "an encoder layer"};
    tn_module *net[] = {tn_nn_conv2d(3, 4, 3), tn_nn_lstm(3, 5),
                        tn_nn_embedding(7, 3),
                        tn_nn_transformer_encoder_layer(8, 2)};
    for (int i = 0; i < 4; i++)
        record_tensor(names[i], tn_parameters_at(tn_parameters(net[i]), 0));
    record_tensor("normal", tn_normal(tn_zeros(tn_dims(99)), tn_ones(tn_dims(99))));
    record_tensor("bernoulli", tn_bernoulli(tn_full(tn_dims(99), 0.3)));
    record_tensor("randperm", tn_randperm(99));
    record_tensor("dropout", tn_dropout(tn_ones(tn_dims(99)), 0.3, true));
}

typedef struct fit {
    tn_optim *optim;
    tn_module *net;
    tn_tensor *x, *y;
} fit;

static double closure(void *context)
{
    const fit *f = context;
    tn_optim_zero_grad(f->optim);
    tn_tensor *loss = tn_mse_loss(tn_forward(f->net, f->x), f->y);
    tn_backward(loss);
    return tn_item(loss);
}

static void quasi_newton(void)
{
    tn_module *net = tn_nn_sequential(tn_nn_linear(4, 6), tn_nn_tanh(),
                                      tn_nn_linear(6, 1));
    tn_parameter_list *parameters = tn_parameters(net);
    fit f = {tn_optim_lbfgs(parameters, .lr = 0.3, .max_iter = 6), net,
             tn_randn(tn_dims(20, 4)), tn_randn(tn_dims(20, 1))};
    for (int i = 0; i < 2; i++)
        tn_optim_step_closure(f.optim, closure, &f);
    record_tensor("a training by LBFGS", tn_parameters_at(parameters, 0));
}

static void training(void)
{
    tn_module *net = tn_nn_sequential(
        tn_nn_linear(8, 16), tn_nn_batch_norm1d(16), tn_nn_gelu(),
        tn_nn_dropout(0.2), tn_nn_layer_norm(tn_dims(16)),
        tn_nn_linear(16, 3));
    tn_parameter_list *parameters = tn_parameters(net);
    tn_optim *optim[] = {
        tn_optim_sgd(parameters, .lr = 0.1, .momentum = 0.9,
                     .weight_decay = 1e-3),
        tn_optim_adam(parameters, .lr = 1e-2),
        tn_optim_adamw(parameters, .lr = 1e-2),
        tn_optim_rmsprop(parameters, .lr = 1e-2),
        tn_optim_nadam(parameters, .lr = 1e-2)};
    tn_tensor *x = tn_randn(tn_dims(32, 8));
    tn_tensor *y = tn_randint(0, 3, tn_dims(32));
    tn_average *average = tn_average_new(net, .decay = 0.99);
    for (size_t o = 0; o < sizeof optim / sizeof *optim; o++) {
        tn_schedule *schedule = tn_schedule_cosine_annealing_lr(optim[o], 10);
        for (int i = 0; i < 4; i++) {
            tn_optim_zero_grad(optim[o]);
            tn_backward(tn_cross_entropy(tn_forward(net, x), y));
            tn_clip_grad_norm(parameters, 0.7);
            tn_optim_step(optim[o]);
            tn_schedule_step(schedule);
            tn_average_update(average);
        }
        record_tensor("a training", tn_parameters_at(parameters, 0));
    }
    tn_checkpoint checkpoint = {.size = sizeof checkpoint, .module = net,
                                .optim = optim[1], .average = average,
                                .scaler = tn_grad_scaler_new()};
    tn_checkpoint_save(scratch_file, &checkpoint);
    record_file("a checkpoint");
    if (tn_checkpoint_load(scratch_file, &checkpoint) < 0)
        record_text("its loading", tn_error());
}

static void compute(void)
{
    texts();
    definitions();
    printing();
    signatures();
    reading();
    initial_values();
    quasi_newton();
    training();
}

int main(void)
{
    plan_later();
    test_modes(compute);
    return done_testing();
}
