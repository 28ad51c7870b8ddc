/* test_states.c: tests a training run with each optimizer, each schedule, a
 * gradient scaler, averaged weights and each kind of loader. It is stopped,
 * restored into new objects and continued. Its last checkpoint must equal, byte
 * for byte, the checkpoint of a run without interruption. */
#include <tenon/tenon.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tap.h"

static char stopped[] = "/tmp/tenon-test-states-a-XXXXXX";
static char straight[] = "/tmp/tenon-test-states-b-XXXXXX";
static char resumed[] = "/tmp/tenon-test-states-c-XXXXXX";

/* ---- optimizers --------------------------------------------------------- */

#define OPTIMIZERS(X)                                                         \
    X(sgd, .lr = 0.1, .momentum = 0.9)                                        \
    X(adam, .lr = 0.01, .amsgrad = true)                                      \
    X(adamw, .lr = 0.01)                                                      \
    X(rmsprop, .momentum = 0.5, .centered = true)                             \
    X(adagrad, .lr_decay = 0.1)                                               \
    X(adadelta, .lr = 1)                                                      \
    X(adamax, .lr = 0.01)                                                     \
    X(nadam, .lr = 0.01)                                                      \
    X(radam, .lr = 0.01)                                                      \
    X(asgd, .t0 = 2)                                                          \
    X(rprop, .lr = 0.01)                                                      \
    X(muon, .lr = 0.01)                                                       \
    X(lbfgs, .lr = 0.1, .max_iter = 2, .history_size = 3)                     \
    X(adafactor, .lr = 0.1)                                                   \
    X(lion, .lr = 0.01)                                                       \
    X(lars, .lr = 1)                                                          \
    X(lamb, .lr = 0.01)

#define MAKE(name, ...)                                                       \
    static tn_optim *make_##name(tn_parameter_list *list)                     \
    {                                                                         \
        return tn_optim_##name(list, __VA_ARGS__);                            \
    }
OPTIMIZERS(MAKE)

static const struct {
    const char *name;
    tn_optim *(*make)(tn_parameter_list *list);
} optimizers[] = {
#define NAMED(name, ...) {#name, make_##name},
    OPTIMIZERS(NAMED)
};
enum { OPTIMIZER_COUNT = sizeof optimizers / sizeof *optimizers };

/* ---- schedules ---------------------------------------------------------- */

static double fall(int64_t step, int group, void *context)
{
    (void)group, (void)context;
    return 1 / (1 + 0.1 * (double)step);
}

enum { SCHEDULES = 14, PLATEAU = 13 };

static tn_schedule *make_schedule(int kind, tn_optim *optim)
{
    static const int64_t milestones[] = {1, 5};
    tn_schedule *two[2];
    switch (kind) {
    case 0: return tn_schedule_step_lr(optim, 2);
    case 1: return tn_schedule_multi_step_lr(optim, milestones, 2);
    case 2: return tn_schedule_exponential_lr(optim, 0.9);
    case 3: return tn_schedule_constant_lr(optim);
    case 4: return tn_schedule_linear_lr(optim);
    case 5: return tn_schedule_polynomial_lr(optim, .total_iters = 9);
    case 6: return tn_schedule_cosine_annealing_lr(optim, 3);
    case 7: return tn_schedule_cosine_annealing_warm_restarts(optim, 3);
    case 8:
        return tn_schedule_cyclic_lr(optim, 0.01, 0.1, .step_size_up = 2,
                                     .cycle_momentum = false);
    case 9:
        return tn_schedule_one_cycle_lr(optim, 0.1, 20,
                                        .cycle_momentum = false);
    case 10: return tn_schedule_lambda_lr(optim, fall, NULL);
    case 11:
        two[0] = tn_schedule_multiplicative_lr(optim, fall, NULL);
        two[1] = tn_schedule_linear_lr(optim);
        return tn_schedule_chained(two, 2);
    case 12:
        two[0] = tn_schedule_linear_lr(optim);
        two[1] = tn_schedule_cosine_annealing_lr(optim, 4);
        return tn_schedule_sequential_lr(optim, two, 2, (int64_t[]){3});
    default:
        return tn_schedule_reduce_lr_on_plateau(optim, .patience = 0,
                                                .cooldown = 1, .factor = 0.7);
    }
}

/* ---- loaders ------------------------------------------------------------ */

enum { WIDTH = 3, SAMPLES = 24 };

static tn_status begin(void *context, uint64_t epoch)
{
    *(int64_t *)context = (int64_t)epoch * 1000;
    return TN_OK;
}

static int next(void *context, tn_tensor **fields)
{
    const int64_t i = (*(int64_t *)context)++;
    if (i % 1000 == SAMPLES)
        return 0;
    fields[0] = tn_randn(tn_dims(WIDTH));
    fields[1] = tn_mul_scalar(tn_ones(tn_dims(2)), (double)(i % 5) / 5);
    return fields[1] ? 2 : tn_error_code();
}

static int64_t place;

static tn_loader *make_loader(int kind)
{
    static const tn_stream_class stream = {sizeof stream, begin, next, NULL};
    int64_t lengths[SAMPLES];
    double weights[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        lengths[i] = i * 5 % 7;
        weights[i] = 1 + i % 3;
    }
    tn_manual_seed(77);
    tn_tensor *x = tn_randn(tn_dims(SAMPLES, WIDTH));
    tn_dataset *set =
        tn_dataset_from_tensors(x, tn_rand(tn_dims(SAMPLES, 2)));
    switch (kind % 4) {
    case 0:
        return tn_loader_new(set, .batch_size = 4, .shuffle = true, .seed = 3,
                             .workers = 2);
    case 1:
        return tn_loader_new(set, .batch_size = 4, .shuffle = true, .seed = 3,
                             .lengths = lengths, .length_count = SAMPLES,
                             .collate = tn_collate_pad);
    case 2:
        return tn_loader_new(set, .batch_size = 4, .seed = 3,
                             .weights = weights, .weight_count = SAMPLES);
    default:
        return tn_loader_new(tn_dataset_from_stream(&stream, &place),
                             .batch_size = 4, .seed = 3, .workers = 1);
    }
}

/* ---- a training run ------------------------------------------------------ */

typedef struct run {
    tn_checkpoint all;
    bool evaluates, watches; /* evaluates: for LBFGS, which needs a closure;
                              * watches: for a schedule that reacts to the
                              * loss */
    tn_batch *batch;
} run;

static run make_run(int k, uint64_t seed)
{
    tn_manual_seed(seed);
    tn_module *net = tn_nn_sequential(
        tn_nn_linear(WIDTH, 5, .bias = false), tn_nn_dropout(0.25),
        tn_nn_tanh(), tn_nn_linear(5, 2, .bias = false));
    run r = {.all = {sizeof r.all, .module = net}};
    r.all.optim = optimizers[k].make(tn_parameters(net));
    r.all.loader = make_loader(k);
    r.all.schedule = make_schedule(k % SCHEDULES, r.all.optim);
    r.all.scaler = tn_grad_scaler_new(.init_scale = 64, .growth_interval = 3);
    r.all.average = tn_average_new(net, .decay = 0.9);
    r.evaluates = strcmp(optimizers[k].name, "lbfgs") == 0;
    r.watches = k % SCHEDULES == PLATEAU;
    tn_manual_seed(seed + 1);
    return r;
}

static double evaluate(void *context)
{
    run *r = context;
    tn_optim_zero_grad(r->all.optim);
    tn_tensor *loss =
        tn_mse_loss(tn_forward(r->all.module, r->batch->x), r->batch->y);
    tn_backward(r->evaluates ? loss
                             : tn_grad_scaler_scale(r->all.scaler, loss));
    return tn_item(loss);
}

/* Saves a checkpoint within the loop, after step `stop`, and at the end. */
static void train(run *r, int64_t stop, int64_t until, const char *end)
{
    while (r->all.step < until && !tn_error())
        TN_EACH_BATCH(batch, r->all.loader) {
            double loss;
            r->batch = &batch;
            if (r->evaluates) {
                loss = tn_optim_step_closure(r->all.optim, evaluate, r);
            } else {
                loss = evaluate(r);
                tn_grad_scaler_step(r->all.scaler, r->all.optim);
                tn_grad_scaler_update(r->all.scaler);
            }
            tn_average_update(r->all.average);
            if (r->watches)
                tn_schedule_step_metric(r->all.schedule, loss);
            else
                tn_schedule_step(r->all.schedule);
            if (++r->all.step == stop)
                tn_checkpoint_save(stopped, &r->all);
            if (r->all.step < until)
                continue;
            tn_checkpoint_save(end, &r->all);
            break;
        }
}

static bool same_files(const char *a, const char *b)
{
    FILE *x = fopen(a, "rb"), *y = fopen(b, "rb");
    if (!x || !y)
        bail_out("cannot read %s", x ? b : a);
    int c, d, count = 0;
    do {
        c = fgetc(x);
        d = fgetc(y);
        count++;
    } while (c == d && c != EOF);
    fclose(x);
    fclose(y);
    return c == d && count > 1000;
}

static void test_run(int k, int64_t stop)
{
    tn_scope *scope = tn_scope_open();
    run one = make_run(k, 11);
    train(&one, stop, stop + 5, straight);
    run two = make_run(k, 99);
    tn_checkpoint_load(stopped, &two.all);
    train(&two, 0, stop + 5, resumed);
    ok(!tn_error() && same_files(straight, resumed),
       "%s, schedule %d, loader %d, stopped after step %d: the same bytes%s%s",
       optimizers[k].name, k % SCHEDULES, k % 4, (int)stop,
       tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    tn_error_clear();
    tn_scope_close(scope);
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    close(mkstemp(stopped));
    close(mkstemp(straight));
    close(mkstemp(resumed));
    for (int k = 0; k < OPTIMIZER_COUNT; k++) {
        test_run(k, 1);
        test_run(k, 4);
        test_run(k, 8);
    }
    unlink(stopped);
    unlink(straight);
    unlink(resumed);
    return done_testing();
}
