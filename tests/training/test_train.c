/* test_train.c: tests tn_train, the training loop. test_train.sh kills and
 * resumes one. */
#include <tenon/tenon.h>

#include <unistd.h>

#include "../tap.h"

static tn_dataset *set;

static tn_tensor *loss(tn_tensor *out, const tn_batch *batch, void *context)
{
    (void)context;
    return tn_mse_loss(out, batch->y);
}

/* Ends the program, with the error and the line that asked for an object, if it
 * was not made. The checks could only fail without it. */
static void *made(void *object, const char *file, int line, const char *what)
{
    if (!object) {
        tap_print_place(file, line, what);
        tap_bail_out("%s", tn_error() ? tn_error() : "NULL without an error");
    }
    return object;
}

static tn_loader *new_loader(void)
{
    return tn_loader_new(set, .batch_size = 7, .shuffle = true, .seed = 2);
}
#define loader() ((tn_loader *)made(new_loader(), TAP_HERE, "loader()"))

static tn_module *new_net(void)
{
    tn_manual_seed(1);
    return tn_nn_sequential(tn_nn_linear(3, 8), tn_nn_tanh(),
                            tn_nn_linear(8, 1));
}
#define net() ((tn_module *)made(new_net(), TAP_HERE, "net()"))

/* Runs one of the checks below. An error that it leaves is reported here, and
 * not as failures of the checks that follow. */
#define RUN(check)                                                             \
    do {                                                                       \
        check();                                                               \
        is_str(tn_error(), NULL, #check " leaves no error");                   \
        tn_error_clear();                                                      \
    } while (0)

static bool same_weights(tn_module *a, tn_module *b)
{
    tn_parameter_list *p = tn_parameters(a), *q = tn_parameters(b);
    for (int i = 0; i < tn_parameters_count(p); i++)
        if (!tn_item_int(
                tn_all(tn_eq(tn_parameters_at(p, i), tn_parameters_at(q, i)))))
            return false;
    return true;
}

/* tn_train gives the same result as the loop in README.md. */
static void check_by_hand(void)
{
    tn_module *a = net(), *b = net();
    tn_optim *opt = tn_optim_adam(tn_parameters(a), .lr = 0.01);
    tn_loader *batches = loader();
    double total = 0, count = 0;
    for (int epoch = 0; epoch < 3; epoch++) {
        total = count = 0;
        TN_EACH_BATCH (batch, batches) {
            tn_tensor *l = tn_mse_loss(tn_forward(a, batch.x), batch.y);
            tn_optim_zero_grad(opt);
            tn_backward(l);
            tn_clip_grad_norm(tn_parameters(a), 0.5);
            tn_optim_step(opt);
            total += tn_item(l) * (double)batch.count;
            count += (double)batch.count;
        }
    }
    tn_metric *mean = tn_metric_r2();
    FILE *log = made(tmpfile(), TAP_HERE, "tmpfile()");
    is_int(tn_train(b, tn_optim_adam(tn_parameters(b), .lr = 0.01), loader(),
                    .epochs = 3, .loss = loss, .clip_norm = 0.5,
                    .metrics = (tn_metric *[]){mean, NULL}, .log = log),
           TN_OK, "tn_train runs three epochs");
    ok(same_weights(a, b), "with the bits of the loop by hand");
    char line[256] = "", want[64];
    rewind(log);
    for (int i = 0; i < 3; i++)
        ok(fgets(line, sizeof line, log) != NULL, "a line for each epoch");
    snprintf(want, sizeof want, "epoch 3/3  loss %.4f  r2 ", total / count);
    ok(strncmp(line, want, strlen(want)) == 0, "with the mean loss: %s", line);
    fclose(log);
}

/* Accumulated batches have the gradient of one large batch. */
static void check_accumulation(void)
{
    tn_module *a = net(), *b = net();
    tn_loader *small = tn_loader_new(set, .batch_size = 10);
    tn_loader *large = tn_loader_new(set, .batch_size = 30);
    tn_train(a, tn_optim_sgd(tn_parameters(a), .lr = 0.1), small, .epochs = 2,
             .loss = loss, .accumulate = 3);
    tn_train(b, tn_optim_sgd(tn_parameters(b), .lr = 0.1), large, .epochs = 2,
             .loss = loss);
    double apart = 0;
    for (int i = 0; i < 4; i++)
        apart += tn_item(
            tn_sum(tn_abs(tn_sub(tn_parameters_at(tn_parameters(a), i),
                                 tn_parameters_at(tn_parameters(b), i)))));
    is_double_near(apart, 0, 1e-5, "three batches of 10 are one of 30");
}

static int calls[4];
static void on_epoch_begin(tn_train_state *state, void *context)
{
    (void)context;
    calls[0] += state->module->training && !state->batch;
}
static void on_step_begin(tn_train_state *state, void *context)
{
    (void)context;
    calls[1] += state->batch && !state->batch_loss;
}
static void on_step_end(tn_train_state *state, void *context)
{
    calls[2]++;
    state->stop = context && calls[2] == *(int *)context;
}
static void on_epoch_end(tn_train_state *state, void *context)
{
    (void)context;
    calls[3] += !isnan(state->loss) && !isnan(state->validation_loss);
}

static void check_callbacks(void)
{
    tn_module *a = net();
    tn_optim *opt = tn_optim_sgd(tn_parameters(a), .lr = 0.1);
    int stop_at = 13; /* in the second epoch: an epoch has 9 steps */
    tn_train(a, opt, loader(), .epochs = 5, .loss = loss,
             .validation = loader(), .context = &stop_at,
             .on_epoch_begin = on_epoch_begin, .on_epoch_end = on_epoch_end,
             .on_step_begin = on_step_begin, .on_step_end = on_step_end);
    ok(calls[0] == 2 && calls[1] == 13 && calls[2] == 13 && calls[3] == 1,
       "callbacks: %d %d %d %d", calls[0], calls[1], calls[2], calls[3]);
    ok(a->training, "the module is in training mode again");
}

static int epochs_seen;
static void count_epochs(tn_train_state *state, void *context)
{
    (void)context;
    epochs_seen = (int)state->epoch + 1;
}

static void check_patience(void)
{
    char best[64];
    snprintf(best, sizeof best, "train-best.%d", (int)getpid());
    tn_module *a = net(), *b = net();
    tn_loader *ordered = tn_loader_new(set, .batch_size = 7);
    tn_train(a, tn_optim_sgd(tn_parameters(a), .lr = 0), ordered, .epochs = 50,
             .loss = loss, .patience = 3, .best = best,
             .on_epoch_end = count_epochs);
    is_int(epochs_seen, 4, "three epochs without progress end the training");
    is_int(tn_module_load(b, best), TN_OK, "the best weights are in a file");
    ok(same_weights(a, b), "and are those of the first epoch");
    unlink(best);
}

#define REFUSED(call, want, text)                                              \
    do {                                                                       \
        (void)(call);                                                          \
        is_int(tn_error_code(), want, "refused: %s",                           \
               tn_error() ? tn_error() : "nothing");                           \
        ok(tn_error() && strstr(tn_error(), text), "the message says \"%s\"",  \
           text);                                                              \
        tn_error_clear();                                                      \
    } while (0)

static tn_tensor *late_loss(tn_tensor *out, const tn_batch *batch,
                            void *context)
{
    (void)context;
    return batch->epoch == 1 && batch->index == 2
               ? tn_mse_loss(out, tn_ones(tn_dims(3, 5)))
               : tn_mse_loss(out, batch->y);
}

/* The learning rates after each epoch. */
static double rates[8];
static void note_rate(tn_train_state *state, void *context)
{
    (void)context;
    rates[state->epoch] = tn_optim_lr(state->optim);
}

static tn_tensor *constant_loss(tn_tensor *out, const tn_batch *batch,
                                void *context)
{
    (void)batch, (void)context;
    return tn_add_scalar(tn_mul_scalar(tn_mean(out), 0), 1);
}

static void check_plateau(void)
{
    const double want[] = {1, 1, 0.5, 0.5, 0.25, 0.25};
    tn_module *a = net();
    tn_optim *opt = tn_optim_sgd(tn_parameters(a), .lr = 1);
    tn_schedule *plateau = tn_schedule_reduce_lr_on_plateau(opt, .factor = 0.5,
                                                            .patience = 1);
    is_str(tn_schedule_metric_mode(plateau), "min", "its mode");
    is_int(tn_train(a, opt, loader(), .epochs = 6, .loss = constant_loss,
                    .schedule = plateau, .validation = loader(),
                    .on_epoch_end = note_rate),
           TN_OK, "ReduceLROnPlateau gets the validation loss");
    for (int i = 0; i < 6; i++)
        ok(rates[i] == want[i], "epoch %d: %g", i, rates[i]);

    tn_metric *r2 = tn_metric_r2();
    tn_metric *const metrics[] = {r2, NULL};
    tn_optim_set_lr(opt, 1e-3);
    plateau = tn_schedule_reduce_lr_on_plateau(
        opt, .mode = "max", .factor = 0.5, .patience = 0, .threshold = 1e9,
        .threshold_mode = "abs");
    is_str(tn_schedule_metric_mode(plateau), "max", "its mode");
    is_int(tn_train(a, opt, loader(), .epochs = 2, .loss = loss,
                    .schedule = plateau, .metrics = metrics, .monitor = r2,
                    .maximize = true),
           TN_OK, "or the monitored metric");
    ok(tn_optim_lr(opt) < 1e-3, "which never improves by 1e9");
    REFUSED(tn_train(a, opt, loader(), .loss = loss, .schedule = plateau),
            TN_ERR_ARGUMENT, "train: the schedule's mode is \"max\", but ");
    tn_schedule *falls = tn_schedule_reduce_lr_on_plateau(opt);
    REFUSED(tn_train(a, opt, loader(), .loss = loss, .schedule = falls,
                     .metrics = metrics, .monitor = r2, .maximize = true),
            TN_ERR_ARGUMENT, "train: the schedule's mode is \"min\", but ");
    REFUSED(tn_train(a, opt, loader(), .loss = loss, .schedule = falls,
                     .schedule_per_step = true),
            TN_ERR_ARGUMENT, "train: the schedule watches a metric");
    ok(!tn_schedule_metric_mode(NULL) &&
           !tn_schedule_metric_mode(tn_schedule_step_lr(opt, 1)) && !tn_error(),
       "another schedule has no mode");
}

static void check_details(void)
{
    tn_module *a = net();
    tn_optim *opt = tn_optim_sgd(tn_parameters(a));
    tn_train(a, opt, loader(), .loss = late_loss, .epochs = 3);
    const tn_error_details *e = tn_error_info();
    ok(e && e->op && strcmp(e->op, "mse_loss") == 0 && e->tensor_count == 2 &&
           strcmp(e->tensor[1]->argument, "target") == 0,
       "an error of a step keeps its details: %s", tn_error());
    tn_error_clear();
    tn_dataset *wide = tn_dataset_from_tensors(tn_ones(tn_dims(7, 4)),
                                               tn_ones(tn_dims(7, 1)));
    tn_train(a, opt, tn_loader_new(wide, .batch_size = 7), .loss = loss);
    e = tn_error_info();
    is_str(e->path, "0", "and the path of the module");
    ok(strstr(tn_error(), "train: epoch 1, step 1: 0: linear: ") == tn_error(),
       "%s", tn_error());
    tn_error_clear();
}

static void check_half(void)
{
    tn_module *a = net();
    tn_optim *opt = tn_optim_sgd(tn_parameters(a), .lr = 0.05);
    tn_average *average = tn_average_new(a, .decay = 0.5);
    tn_schedule *schedule = tn_schedule_exponential_lr(opt, 0.5);
    tn_grad_scaler *scaler = tn_grad_scaler_new(.init_scale = 1024);
    double before = tn_evaluate(a, loader(), .loss = loss);
    tn_module *frozen = tn_module_child(a, "0");
    tn_module_train(a, true);
    tn_module_eval(frozen);
    tn_evaluate(a, loader(), .loss = loss);
    ok(a->training && !frozen->training,
       "a layer that was in eval mode stays in it");
    tn_train(a, opt, loader(), .epochs = 2, .loss = loss, .autocast = TN_F16,
             .scaler = scaler, .schedule = schedule, .average = average,
             .schedule_per_step = true, .validation = loader());
    is_int(tn_average_updates(average), 18, "the average has every step");
    is_int(tn_schedule_steps(schedule), 18, "and so has the schedule");
    ok(!tn_average_is_swapped(average), "the weights are in the module");
    ok(tn_evaluate(a, loader(), .loss = loss) < before, "the loss fell");
}

static tn_tensor *no_loss(tn_tensor *out, const tn_batch *batch, void *context)
{
    (void)batch;
    (void)context;
    return out;
}
static tn_tensor *null_loss(tn_tensor *out, const tn_batch *batch,
                            void *context)
{
    (void)out;
    (void)batch;
    (void)context;
    return NULL;
}
static void check_mistakes(void)
{
    tn_module *a = net();
    tn_optim *opt = tn_optim_sgd(tn_parameters(a));
    tn_loader *l = loader();
    tn_metric *m = tn_metric_mean();
    const tn_status wrong = TN_ERR_ARGUMENT;
    REFUSED(tn_train(NULL, opt, l, .loss = loss), wrong, "module is NULL");
    REFUSED(tn_train(a, NULL, l, .loss = loss), wrong, "optim is NULL");
    REFUSED(tn_train(a, opt, NULL, .loss = loss), wrong, "loader is NULL");
    REFUSED(tn_train(a, opt, l), wrong, "train: loss is NULL");
    REFUSED(tn_train(a, opt, l, .loss = loss, .epochs = 0), wrong, "epochs");
    REFUSED(tn_train(a, opt, l, .loss = loss, .accumulate = 0), wrong,
            "accumulate");
    REFUSED(tn_train(a, opt, l, .loss = loss, .patience = 0), wrong,
            "patience");
    REFUSED(tn_train(a, opt, l, .loss = loss, .min_delta = 1), wrong,
            ".min_delta has no effect without patience");
    REFUSED(tn_train(a, opt, l, .loss = loss, .patience = 1, .min_delta = -1),
            wrong, "min_delta");
    REFUSED(tn_train(a, opt, l, .loss = loss, .resume = true), wrong,
            "without last");
    REFUSED(tn_train(a, opt, l, .loss = loss, .checkpoint_every = 5), wrong,
            "without last");
    REFUSED(
        tn_train(a, opt, l, .loss = loss, .checkpoint_every = 0, .last = "x"),
        wrong, "checkpoint_every");
    REFUSED(tn_train(a, opt, l, .loss = loss, .monitor = m), wrong,
            "not one of metrics");
    REFUSED(tn_train(a, opt, l, .loss = loss, .maximize = true), wrong,
            "without monitor");
    REFUSED(tn_train(a, opt, l, .loss = loss, .validation = l), wrong,
            "training loader");
    REFUSED(tn_train(a, opt, l, .loss = loss, .schedule_per_step = true), wrong,
            "without schedule");
    REFUSED(tn_train(a, opt, l, .loss = no_loss), TN_ERR_SHAPE,
            "epoch 1, step 1: the loss has 7 elements");
    REFUSED(tn_train(a, opt, loader(), .loss = null_loss), wrong,
            "loss returned NULL without an error");
    REFUSED(tn_train(a, opt, loader(), .loss = late_loss, .epochs = 3),
            TN_ERR_SHAPE, "train: epoch 2, step 12: mse_loss: ");
    REFUSED(tn_train(a, opt, loader(), .loss = loss, .last = "/none/x"),
            TN_ERR_IO, "train: epoch 1, end: checkpoint_save: ");
    REFUSED(tn_evaluate(a, l), wrong, "give loss or metrics");
    REFUSED(tn_evaluate(NULL, l, .loss = loss), wrong, "module is NULL");
    REFUSED(tn_evaluate(a, NULL, .loss = loss), wrong, "loader is NULL");
    char path[64];
    snprintf(path, sizeof path, "train-last.%d", (int)getpid());
    tn_checkpoint other = {.size = sizeof other, .module = a};
    tn_checkpoint_save(path, &other);
    REFUSED(
        tn_train(a, opt, loader(), .loss = loss, .last = path, .resume = true),
        wrong, "epoch 1, resume: checkpoint_load: ");
    double values[7] = {0};
    other.values = values;
    other.value_count = 7;
    REFUSED(tn_checkpoint_save(path, &other), wrong, "at most 6 values");
    unlink(path);
}

int main(void)
{
    plan_later();
    tn_manual_seed(5);
    tn_tensor *x = tn_randn(tn_dims(60, 3));
    set = tn_dataset_from_tensors(x,
                                  tn_sum(tn_sin(x), .dim = 1, .keepdim = true));
    made(set, TAP_HERE, "the data set");
    RUN(check_by_hand);
    RUN(check_accumulation);
    RUN(check_callbacks);
    RUN(check_patience);
    RUN(check_half);
    RUN(check_plateau);
    RUN(check_details);
    int64_t before = tn_scope_count();
    RUN(check_mistakes);
    tn_module *a = net();
    tn_optim *opt = tn_optim_sgd(tn_parameters(a));
    tn_loader *l = loader();
    before = tn_scope_count();
    tn_train(a, opt, l, .loss = loss, .epochs = 3);
    is_int(tn_scope_count(), before, "a training leaves no object behind");
    is_str(tn_error(), NULL, "no error is left");
    return done_testing();
}
