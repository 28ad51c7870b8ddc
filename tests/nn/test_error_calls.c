/* Error details (tn_error_info) of calls that are not operators: layers,
 * optimizers, schedules, loaders, files and options report the call, its
 * argument and, for a dimension or an index, the number and its limits. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>
#include "tap.h"

/* Checks that the pending error has this call and this argument (NULL: none),
 * and that its message begins with the call's name; then clears it. */
static void refused(bool failed, tn_status code, const char *call,
                    const char *argument)
{
    const tn_error_details *e = tn_error_info();
    char begin[80];
    snprintf(begin, sizeof begin, "%s: ", call);
    if (ok(failed && e && e->code == code, "refused: %s",
           e ? e->message : "nothing") && e) {
        is_str(e->op, call, "%s: op", call);
        is_str(e->called, call, "%s: called", call);
        is_str(e->argument, argument, "%s: argument", call);
        ok(strncmp(e->message, begin, strlen(begin)) == 0,
           "%s: the message begins with it", call);
    }
    tn_error_clear();
}
#define WRONG(made, call, argument)                                           \
    refused((made) == NULL, TN_ERR_ARGUMENT, call, argument)
#define FAILS(status, code, call, argument)                                   \
    refused((status) < 0, code, call, argument)

static void test_layers(void)
{
    WRONG(tn_nn_linear(-1, 2), "nn_linear", "in_features");
    WRONG(tn_nn_linear(1, -2), "nn_linear", "out_features");
    WRONG(tn_nn_conv2d(1, 1, 3, .stride = 0), "nn_conv2d", "stride");
    WRONG(tn_nn_conv2d(1, 1, 3, .strides = tn_dims(1, 2, 3)), "nn_conv2d",
          "strides");
    WRONG(tn_nn_conv1d(1, 1, 3, .paddings = tn_dims(-1)), "nn_conv1d",
          "paddings");
    WRONG(tn_nn_conv2d(1, 1, 3, .padding_mode = "none"), "nn_conv2d",
          "padding_mode");
    WRONG(tn_nn_conv2d(3, 2, 3, .groups = 2), "nn_conv2d", "groups");
    WRONG(tn_nn_conv2d(0, 2, 3), "nn_conv2d", "in_channels");
    WRONG(tn_nn_conv1d(1, 0, 3), "nn_conv1d", "out_channels");
    WRONG(tn_nn_max_pool2d(2, .padding = 2), "nn_max_pool2d", "padding");
    WRONG(tn_nn_dropout(2), "nn_dropout", "p");
    WRONG(tn_nn_layer_norm(tn_dims(2), .eps = -1), "nn_layer_norm", "eps");
    WRONG(tn_nn_group_norm(2, 3), "nn_group_norm", "num_groups");
    WRONG(tn_nn_group_norm(2, 0), "nn_group_norm", "num_channels");
    WRONG(tn_nn_embedding(4, 2, .padding_idx = 4), "nn_embedding",
          "padding_idx");
    WRONG(tn_nn_lstm(2, 3, .proj_size = 3), "nn_lstm", "proj_size");
    WRONG(tn_nn_multihead_attention(4, 2, .kdim = 0), "nn_multihead_attention",
          "kdim");
    WRONG(tn_nn_transformer_encoder_layer(4, 2, .activation = "none"),
          "nn_transformer_encoder_layer", "activation");
    tn_module *net = tn_nn_linear(2, 2);
    WRONG(tn_module_parameter(net, "none"), "module_parameter", "path");
    FAILS(tn_module_load(net, NULL), TN_ERR_ARGUMENT, "module_load", "path");
    FAILS(tn_module_load(net, "/nonexistent"), TN_ERR_IO, "module_load",
          "path");
    FAILS(tn_module_save(net, "/nonexistent/x"), TN_ERR_IO, "module_save",
          "path");
}

static tn_parameter_list *list(void)
{
    return tn_parameters(tn_nn_linear(2, 2));
}

static void test_optimizers(void)
{
    tn_parameter_list *p = list();
    WRONG(tn_optim_sgd(p, .lr = -1), "optim_sgd", "lr");
    WRONG(tn_optim_sgd(p, .nesterov = true, .momentum = 1, .dampening = 1),
          "optim_sgd", "nesterov");
    WRONG(tn_optim_adam(p, .beta1 = 1), "optim_adam", "beta1");
    WRONG(tn_optim_adamw(p, .beta2 = 1), "optim_adamw", "beta2");
    WRONG(tn_optim_rmsprop(p, .alpha = -1), "optim_rmsprop", "alpha");
    WRONG(tn_optim_adagrad(p, .lr_decay = -1), "optim_adagrad", "lr_decay");
    WRONG(tn_optim_adadelta(p, .rho = 1), "optim_adadelta", "rho");
    WRONG(tn_optim_adamax(p, .eps = -1), "optim_adamax", "eps");
    WRONG(tn_optim_nadam(p, .momentum_decay = -1), "optim_nadam",
          "momentum_decay");
    WRONG(tn_optim_radam(p, .weight_decay = -1), "optim_radam",
          "weight_decay");
    WRONG(tn_optim_asgd(p, .t0 = -1), "optim_asgd", "t0");
    WRONG(tn_optim_rprop(p, .eta_plus = 1), "optim_rprop", "eta_plus");
    WRONG(tn_optim_lbfgs(p, .max_iter = 0), "optim_lbfgs", "max_iter");
    refused(!tn_optim_muon(p), TN_ERR_SHAPE, "optim_muon", "parameters");
    tn_optim *sgd = tn_optim_sgd(p, .lr = 0.1, .momentum = 0.9);
    FAILS(tn_optim_add_group(sgd, p), TN_ERR_ARGUMENT, "optim_add_group",
          "parameters");
    FAILS(tn_optim_set_lr(sgd, -1), TN_ERR_ARGUMENT, "optim_set_lr", "lr");
    FAILS(tn_optim_group_set_lr(sgd, 1, 0), TN_ERR_ARGUMENT,
          "optim_group_set_lr", "group");
    FAILS(tn_optim_load(sgd, NULL), TN_ERR_ARGUMENT, "optim_load", "path");
    FAILS(tn_optim_load(sgd, "/nonexistent"), TN_ERR_IO, "optim_load",
          "path");
    FAILS(tn_optim_save(sgd, "/nonexistent/x"), TN_ERR_IO, "optim_save",
          "path");
    tn_checkpoint all = {.size = sizeof all, .optim = sgd};
    FAILS(tn_checkpoint_load("/nonexistent", &all), TN_ERR_IO,
          "checkpoint_load", "path");
    FAILS(tn_checkpoint_save("/nonexistent/x", &all), TN_ERR_IO,
          "checkpoint_save", "path");
    tn_optim *lbfgs = tn_optim_lbfgs(p);
    FAILS(tn_optim_step(lbfgs), TN_ERR_ARGUMENT, "optim_step", "optim");
    FAILS(tn_optim_add_group(lbfgs, list()), TN_ERR_UNSUPPORTED,
          "optim_add_group", "optim");
    WRONG(tn_schedule_step_lr(sgd, 0), "schedule_step_lr", "step_size");
    WRONG(tn_schedule_multi_step_lr(sgd, NULL, 1), "schedule_multi_step_lr",
          "milestones");
    WRONG(tn_schedule_exponential_lr(sgd, -1), "schedule_exponential_lr",
          "gamma");
    WRONG(tn_schedule_constant_lr(sgd, .factor = 2), "schedule_constant_lr",
          "factor");
    WRONG(tn_schedule_linear_lr(sgd, .end_factor = 2), "schedule_linear_lr",
          "end_factor");
    WRONG(tn_schedule_polynomial_lr(sgd, .power = -1),
          "schedule_polynomial_lr", "power");
    WRONG(tn_schedule_cosine_annealing_lr(sgd, 0),
          "schedule_cosine_annealing_lr", "T_max");
    WRONG(tn_schedule_cosine_annealing_warm_restarts(sgd, 0),
          "schedule_cosine_annealing_warm_restarts", "T_0");
    WRONG(tn_schedule_cyclic_lr(sgd, 0.1, -1), "schedule_cyclic_lr", "max_lr");
    WRONG(tn_schedule_one_cycle_lr(tn_optim_sgd(list()), 1, 3),
          "schedule_one_cycle_lr", "cycle_momentum");
    tn_schedule *once = tn_schedule_one_cycle_lr(sgd, 1, 1);
    tn_schedule_step(once);
    FAILS(tn_schedule_step(once), TN_ERR_STATE, "schedule_step", NULL);
    FAILS(tn_schedule_set_steps(once, -1), TN_ERR_ARGUMENT,
          "schedule_set_steps", "steps");
    WRONG(tn_grad_scaler_new(.init_scale = -1), "grad_scaler_new",
          "init_scale");
    tn_grad_scaler_state state = {1, 1, 0.5, 1, 0};
    FAILS(tn_grad_scaler_restore(tn_grad_scaler_new(), state),
          TN_ERR_ARGUMENT, "grad_scaler_restore", "state");
    WRONG(tn_average_new(tn_nn_linear(2, 2), .decay = 2), "average_new",
          "decay");
}

static void test_data(void)
{
    static const int64_t order[] = {0, 4};
    tn_tensor *x = tn_ones(tn_dims(4, 2)), *field[] = {x, tn_ones(tn_dims(3))};
    tn_dataset *set = tn_dataset_from_tensors(x, NULL);
    WRONG(tn_loader_new(set, .batch_size = 0), "loader_new", "batch_size");
    WRONG(tn_loader_new(set, .workers = -1), "loader_new", "workers");
    WRONG(tn_loader_new(set, .rank = 1), "loader_new", "rank");
    WRONG(tn_loader_new(set, .order_count = 1), "loader_new", "order");
    WRONG(tn_loader_new(NULL), "loader_new", "set");
    refused(!tn_dataset_from_fields(field, 2), TN_ERR_SHAPE,
            "dataset_from_fields", "fields");
    WRONG(tn_dataset_from_fields(field, 0), "dataset_from_fields", "fields");
    WRONG(tn_dataset_range(set, 3, 5), "dataset_range", "end");
    WRONG(tn_dataset_range(set, -1, 2), "dataset_range", "begin");
    WRONG(tn_dataset_subset(set, NULL, 1), "dataset_subset", "index");
    FAILS(tn_dataset_batch(set, order, 0, field), TN_ERR_ARGUMENT,
          "dataset_batch", "count");
    ok(!tn_loader_new(set, .order = order, .order_count = 2), "a place beyond");
    const tn_error_details *e = tn_error_info();
    ok(e->has_index && e->index == 4 && e->index_low == 0 &&
           e->index_bound == 4 && e->position[0] == 1,
       "the index, its limits and its position");
    refused(true, TN_ERR_INDEX, "loader_new", "order");
    refused(!tn_text_from_string(""), TN_ERR_FORMAT, "text_from_string",
            "string");
    WRONG(tn_dataset_from_text(tn_text_from_string("abc"), 3),
          "dataset_from_text", "length");
    WRONG(tn_text_encode(tn_text_from_string("abc"), "d"), "text_encode",
          "string");
}

static const char *write_file(const char *text)
{
    static char path[] = "error_calls.tmp";
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
    return path;
}

static void test_files(void)
{
    refused(!tn_csv_load(write_file("1,x\n")), TN_ERR_FORMAT, "csv_load",
            "path");
    refused(!tn_idx_load(write_file("none")), TN_ERR_FORMAT, "idx_load",
            "path");
    refused(!tn_safetensors_open(write_file("none")), TN_ERR_FORMAT,
            "safetensors_open", "path");
    refused(!tn_text_load(write_file("")), TN_ERR_FORMAT, "text_load", "path");
    refused(!tn_dataset_from_csv(write_file("1\n"), NULL), TN_ERR_FORMAT,
            "dataset_from_csv", "path");
    refused(!tn_dataset_from_csv(write_file("1,x\n"), NULL), TN_ERR_FORMAT,
            "dataset_from_csv", "path");
    tn_csv_load_options skip = TN_CSV_LOAD_OPTIONS;
    skip.skip_rows = -1;
    WRONG(tn_dataset_from_csv("none", &skip), "dataset_from_csv", "skip_rows");
    FAILS(tn_module_load(tn_nn_linear(1, 1), write_file("none")),
          TN_ERR_FORMAT, "module_load", "path");
    remove("error_calls.tmp");
    refused(!tn_csv_load("/nonexistent"), TN_ERR_IO, "csv_load", "path");
    refused(!tn_dataset_from_csv("/nonexistent", NULL), TN_ERR_IO,
            "dataset_from_csv", "path");
    ok(!tn_csv_load("/nonexistent"), "an error of before");
    tn_dataset_from_csv("/nonexistent", NULL);
    refused(true, TN_ERR_IO, "csv_load", "path");
    refused(!tn_idx_load("/nonexistent"), TN_ERR_IO, "idx_load", "path");
    refused(!tn_text_load("/nonexistent"), TN_ERR_IO, "text_load", "path");
    WRONG(tn_csv_load("none", .skip_rows = -1), "csv_load", "skip_rows");
    tn_tensor *x = tn_ones(tn_dims(1));
    const char *const names[] = {"x", "x"};
    tn_tensor *const both[] = {x, x};
    FAILS(tn_safetensors_save("none", names, both, 2, NULL, 0),
          TN_ERR_ARGUMENT, "safetensors_save", "names");
    FAILS(tn_safetensors_save("/nonexistent/x", names, both, 1, NULL, 0),
          TN_ERR_IO, "safetensors_save", "path");
}

/* An error inside a call gets the name of the function that the program
 * called. */
static void test_renamed(void)
{
    tn_error_rename("inner", "outer", "x");
    ok(!tn_error(), "no error is pending: none becomes so");
    tn_error_refuse_argument(TN_ERR_SHAPE, "inner", "x", "x is %d", 3);
    tn_error_rename("inne", "outer", "y");
    tn_error_rename(NULL, "outer", "y");
    tn_error_rename("inner", NULL, "y");
    is_str(tn_error(), "inner: x is 3", "another call's is kept");
    tn_error_rename("inner", "outer", NULL);
    is_str(tn_error(), "outer: x is 3", "the words");
    refused(true, TN_ERR_SHAPE, "outer", "x");
    tn_error_refuse_argument(TN_ERR_SHAPE, "inner", "x", "x is %d", 3);
    tn_error_rename("inner", "outer", "file");
    refused(true, TN_ERR_SHAPE, "outer", "file");
    tn_add(tn_ones(tn_dims(2)), tn_ones(tn_dims(3)));
    tn_error_rename("add", "outer", NULL);
    is_str(tn_error_info()->op, "outer", "an operator's, too");
    is_str(tn_error_info()->argument, "input", "with its argument");
    tn_error_clear();
    const tn_path *before = tn_path_enter(tn_path_join(NULL, "encoder"));
    tn_error_refuse_argument(TN_ERR_SHAPE, "inner", "x", "x is %d", 3);
    tn_error_rename("inner", "outer", NULL);
    is_str(tn_error(), "encoder: outer: x is 3", "behind the path");
    tn_path_enter(before);
    tn_error_clear();
}

static void test_options(void)
{
    tn_nn_conv2d_options o = TN_NN_CONV2D_OPTIONS;
    tn_module *(*conv)(int64_t, int64_t, int64_t,
                       const tn_nn_conv2d_options *) = tn_nn_conv2d_with;
    o.given = ".strid = 2";
    WRONG(conv(1, 1, 1, &o), "nn_conv2d", "strid");
    o.given = ".stride = 1, .stride = 2";
    WRONG(conv(1, 1, 1, &o), "nn_conv2d", "stride");
    o.given = "*";
    o.padding_mode = NULL;
    WRONG(conv(1, 1, 1, &o), "nn_conv2d", "padding_mode");
    o.padding_mode = "zeros";
    o.groups = TN_NONE_INT;
    WRONG(conv(1, 1, 1, &o), "nn_conv2d", "groups");
    WRONG(tn_nn_conv2d(1, 1, 1, .stride = 2, .strides = tn_dims(1, 1)),
          "nn_conv2d", "stride");
    tn_tensor *x = tn_ones(tn_dims(2, 2));
    WRONG(tn_sum(x, .dim = 0, .dims = tn_dims(1)), "sum", "dim");
    FAILS(tn_options_init(NULL, &o, sizeof o), TN_ERR_ARGUMENT,
          "options_init", "name");
}

/* Checks the error of a dimension that the tensor does not have: the number
 * passed, and the limits. */
static void outside(const void *made, const char *call, const char *argument,
                    int64_t dim, int64_t ndim)
{
    const tn_error_details *e = tn_error_info();
    ok(!made && e && e->has_index && e->index == dim && e->index_low == -ndim &&
           e->index_bound == ndim && e->position_ndim == 0,
       "%s: %lld, outside [%lld, %lld)", call, (long long)dim,
       (long long)-ndim, (long long)ndim);
    refused(true, TN_ERR_ARGUMENT, call, argument);
}

static void test_dims(void)
{
    tn_tensor *x = tn_ones(tn_dims(2, 3)), *one = tn_ones(TN_SCALAR);
    outside(tn_softmax(x, 2), "softmax", "dim", 2, 2);
    outside(tn_softmax(x, -3), "softmax", "dim", -3, 2);
    outside(tn_softmax(one, 1), "softmax", "dim", 1, 1);
    outside(tn_sum(x, .dim = 5), "sum", "dim", 5, 2);
    outside(tn_sum(x, .dims = tn_dims(0, 5)), "sum", "dim", 5, 2);
    outside(tn_cumsum(x, 4), "cumsum", "dim", 4, 2);
    outside(tn_cat((tn_tensor *[]){x, x}, 2, 3), "cat", "dim", 3, 2);
    outside(tn_unsqueeze(x, 3), "unsqueeze", "dim", 3, 3);
    outside(tn_flip(x, tn_dims(2)), "flip", "dims", 2, 2);
    outside(tn_linalg_cross(x, x, .dim = 2), "linalg_cross", "dim", 2, 2);
    outside(tn_flatten(x, .start_dim = 2), "flatten", "start_dim", 2, 2);
    outside(tn_transpose(x, 0, 2), "transpose", "dim1", 2, 2);
}

/* Errors within a layer have the name of the layer's operator and the layer's
 * argument. */
static void test_dtypes(void)
{
    tn_tensor *whole = tn_ones(tn_dims(2, 4), .dtype = TN_I64);
    tn_tensor *wide = tn_ones(tn_dims(2, 4), .dtype = TN_F64);
    tn_tensor *x = tn_ones(tn_dims(2, 4)), *h = tn_ones(tn_dims(1, 4));
    tn_tensor *wide_h = tn_to_dtype(h, TN_F64);
    tn_tensor *narrow = tn_ones(tn_dims(2, 3));
#define TRIES(X)                                                               \
    X(tn_forward(tn_nn_linear(4, 2), whole),                                   \
      "linear: input is int64, but the layer's weight is float32: convert "    \
      "input with tn_to_dtype")                                                \
    X(tn_forward(tn_nn_linear(4, 2), wide),                                    \
      "linear: input is float64, but the layer's weight is float32: convert "  \
      "input with tn_to_dtype, or the layer with tn_module_to")                \
    X(tn_forward(tn_nn_sequential(tn_nn_linear(4, 2), tn_nn_relu()), whole),   \
      "0: linear: input is int64, but the layer's weight is float32: convert " \
      "input with tn_to_dtype")                                                \
    X(tn_forward(tn_nn_sequential(tn_nn_linear(4, 2), tn_nn_relu()), narrow),  \
      "0: linear: the last sizes differ: input (2, 3) x weight (2, 4)")        \
    X(tn_forward(tn_nn_bilinear(4, 4, 2, true), x, whole),                     \
      "bilinear: input2 is int64, but the layer's weight is float32: convert " \
      "input2 with tn_to_dtype")                                               \
    X(tn_forward(tn_nn_embedding_bag(4, 2), x),                                \
      "embedding_bag: input is float32: convert it to int64 with tn_to_dtype") \
    X(tn_forward(tn_nn_lstm(4, 4), whole),                                     \
      "LSTM: input is int64, but the layer's weight is float32: convert "      \
      "input with tn_to_dtype")                                                \
    X(tn_forward(tn_nn_gru(4, 4), x, wide_h),                                  \
      "GRU: h0 is float64, but the layer's weight is float32: convert h0 "     \
      "with tn_to_dtype, or the layer with tn_module_to")                      \
    X(tn_forward(tn_nn_rnn_cell(4, 4), whole),                                 \
      "RNNCell: input is int64, but the layer's weight is float32: convert "   \
      "input with tn_to_dtype")                                                \
    X(tn_forward(tn_nn_lstm_cell(4, 4), h, h, wide_h),                         \
      "LSTMCell: c is float64, but the layer's weight is float32: convert c "  \
      "with tn_to_dtype, or the layer with tn_module_to")                      \
    X(tn_forward(tn_nn_multihead_attention(4, 2), x, wide, x),                 \
      "MultiheadAttention: key is float64, but the layer's weight is "         \
      "float32: convert key with tn_to_dtype, or the layer with tn_module_to") \
    X(tn_forward(tn_nn_transformer_encoder_layer(4, 2), whole),                \
      "self_attn: MultiheadAttention: query is int64, but the layer's weight " \
      "is float32: convert query with tn_to_dtype")
#define TRY(call, message)                                                     \
    ok(!(call), "refused: %s", message);                                       \
    is_str(tn_error(), message, "the message");                                \
    tn_error_clear();
    TRIES(TRY)
    tn_forward(tn_nn_linear(4, 2), whole);
    const tn_error_details *e = tn_error_info();
    ok(e && e->code == TN_ERR_DTYPE && strcmp(e->op, "linear") == 0 &&
           strcmp(e->argument, "input") == 0 && e->tensor_count == 2,
       "as data: linear's input, beside its weight");
    tn_error_clear();
    TN_AUTOCAST(TN_BF16)
    {
        ok(tn_forward(tn_nn_linear(4, 2), wide) ||
               !strstr(tn_error(), "layer's weight"),
           "autocast converts floating inputs");
        tn_error_clear();
        ok(tn_forward(tn_nn_lstm(4, 4), tn_to_dtype(x, TN_BF16)) != NULL,
           "autocast: an LSTM of half inputs: %s",
           tn_error() ? tn_error() : "");
        tn_error_clear();
    }
}

int main(void)
{
    plan_later();
    tn_scope *scope = tn_scope_open();
    test_layers();
    test_optimizers();
    test_data();
    test_files();
    test_renamed();
    test_options();
    test_dims();
    tn_scope_close(scope);
    test_dtypes();
    return done_testing();
}
