/* Tests that compiled training steps (tn_compile_step) are bit-identical to the
 * single calls, with each optimizer, clipping, gradient scaling and schedules.
 * Also tests steps of optimizers in recorded graphs. */
#include <tenon/tenon.h>

#include "../same_bits.h"
#include "../tap.h"

enum { STEPS = 9, CLIP = 1, SCALE = 2, CLAMP = 4 };

typedef struct job {
    tn_module *net;
    tn_optim *optim;
    tn_grad_scaler *scaler;
} job;

static tn_status loss_of(tn_tensor *const *in, int in_count, tn_tensor **out,
                         int out_count, void *context)
{
    (void)in_count;
    tn_tensor *y = tn_forward(context, in[0]);
    out[0] = tn_cross_entropy(y, in[1]);
    if (out_count > 1)
        out[1] = y;
    return tn_error() ? tn_error_code() : TN_OK;
}

/* ---- each optimizer ---------------------------------------------------------- */

static tn_optim *sgd(tn_parameter_list *p)
{
    return tn_optim_sgd(p, .lr = 0.1);
}
static tn_optim *sgd_momentum(tn_parameter_list *p)
{
    return tn_optim_sgd(p, .lr = 0.1, .momentum = 0.9, .dampening = 0.1);
}
static tn_optim *adam(tn_parameter_list *p)
{
    return tn_optim_adam(p, .lr = 0.01, .weight_decay = 0.1);
}
static tn_optim *adamw_amsgrad(tn_parameter_list *p)
{
    return tn_optim_adamw(p, .lr = 0.01, .amsgrad = true);
}
static tn_optim *rmsprop(tn_parameter_list *p)
{
    return tn_optim_rmsprop(p, .momentum = 0.5, .centered = true);
}
static tn_optim *adagrad(tn_parameter_list *p)
{
    return tn_optim_adagrad(p);
}
static tn_optim *adadelta(tn_parameter_list *p)
{
    return tn_optim_adadelta(p);
}
static tn_optim *adamax(tn_parameter_list *p)
{
    return tn_optim_adamax(p);
}
static tn_optim *nadam(tn_parameter_list *p)
{
    return tn_optim_nadam(p);
}
static tn_optim *radam(tn_parameter_list *p)
{
    return tn_optim_radam(p);
}
static tn_optim *asgd(tn_parameter_list *p)
{
    return tn_optim_asgd(p);
}
static tn_optim *rprop(tn_parameter_list *p)
{
    return tn_optim_rprop(p);
}
static tn_optim *lion(tn_parameter_list *p)
{
    return tn_optim_lion(p);
}
static tn_optim *adafactor(tn_parameter_list *p)
{
    return tn_optim_adafactor(p);
}
static tn_optim *lars(tn_parameter_list *p)
{
    return tn_optim_lars(p, .lr = 0.1);
}
static tn_optim *lamb(tn_parameter_list *p)
{
    return tn_optim_lamb(p);
}
static tn_optim *muon(tn_parameter_list *p)
{
    return tn_optim_muon(p, .lr = 0.02);
}

static const struct {
    const char *name;
    tn_optim *(*make)(tn_parameter_list *p);
} optimizers[] = {{"sgd", sgd},
                  {"sgd with momentum", sgd_momentum},
                  {"adam", adam},
                  {"adamw", adamw_amsgrad},
                  {"rmsprop", rmsprop},
                  {"adagrad", adagrad},
                  {"adadelta", adadelta},
                  {"adamax", adamax},
                  {"nadam", nadam},
                  {"radam", radam},
                  {"asgd", asgd},
                  {"rprop", rprop},
                  {"lion", lion},
                  {"adafactor", adafactor},
                  {"lars", lars},
                  {"lamb", lamb},
                  {"muon", muon}};

static job job_new(tn_optim *(*make)(tn_parameter_list *p), int how)
{
    job j = {0};
    tn_manual_seed(5);
    const bool bias = make != muon;
    j.net = tn_nn_sequential(tn_nn_linear(6, 8, .bias = bias), tn_nn_gelu(),
                             tn_nn_dropout(0.25),
                             tn_nn_linear(8, 4, .bias = bias));
    j.optim = make(tn_parameters(j.net));
    if (how & SCALE)
        j.scaler = tn_grad_scaler_new(.init_scale = 1024, .growth_interval = 3);
    return j;
}

static tn_tensor *single_calls(job *j, tn_tensor *const *in, int how)
{
    tn_tensor *out = NULL;
    tn_optim_zero_grad(j->optim);
    loss_of(in, 2, &out, 1, j->net);
    tn_backward(j->scaler ? tn_grad_scaler_scale(j->scaler, out) : out);
    if (j->scaler)
        tn_grad_scaler_unscale(j->scaler, j->optim);
    if (how & CLAMP)
        tn_clip_grad_value(tn_parameters(j->net), 0.02);
    if (how & CLIP)
        tn_clip_grad_norm(tn_parameters(j->net), 0.05);
    if (j->scaler) {
        tn_grad_scaler_step(j->scaler, j->optim);
        tn_grad_scaler_update(j->scaler);
    } else {
        tn_optim_step(j->optim);
    }
    return tn_detach(out);
}

static tn_compiled *compiled_step(job *j, int how)
{
    return tn_compile_step(loss_of, j->net, j->optim, .scaler = j->scaler,
                           .max_norm = how & CLIP ? 0.05 : TN_NONE_FLOAT,
                           .clip_value = how & CLAMP ? 0.02 : TN_NONE_FLOAT);
}

/* Trains two equal models, one by single calls, one by a compiled step. In steps 4
 * and 7 of a scaled run the gradients overflow. */
static void check_optimizer(const char *name,
                            tn_optim *(*make)(tn_parameter_list *p), int how)
{
    tn_scope *scope = tn_scope_open();
    job eager = job_new(make, how), fast = job_new(make, how);
    tn_compiled *step = compiled_step(&fast, how);
    tn_schedule *slow_rate = tn_schedule_step_lr(eager.optim, 2, .gamma = 0.5);
    tn_schedule *rate = tn_schedule_step_lr(fast.optim, 2, .gamma = 0.5);
    bool same = true;
    int at = 0;
    for (; at < STEPS && same && !tn_error(); at++) {
        tn_scope *each = tn_scope_open();
        tn_tensor *in[2] = {tn_randn(tn_dims(5, 6)),
                            tn_randint(0, 4, tn_dims(5))};
        if (how & SCALE && (at == 4 || at == 7))
            in[0] = tn_mul_scalar(in[0], 3e38);
        const tn_rng_state random = tn_rng_snapshot();
        tn_tensor *want = single_calls(&eager, in, how), *got = NULL;
        tn_rng_restore(random);
        tn_compiled_run(step, in, 2, &got, 1);
        tn_schedule_step(slow_rate);
        tn_schedule_step(rate);
        same = !tn_error() && same_bits(want, got);
        for (int i = 0; same && i < tn_parameters_count(tn_parameters(fast.net));
             i++)
            same = same_bits(
                tn_parameters_at(tn_parameters(eager.net), i),
                tn_parameters_at(tn_parameters(fast.net), i));
        if (same && eager.scaler)
            same = tn_grad_scaler_factor(eager.scaler) ==
                   tn_grad_scaler_factor(fast.scaler);
        tn_scope_close(each);
    }
    tn_compiled_counts counts = {.size = sizeof counts};
    if (!tn_error())
        tn_compiled_read_counts(step, &counts);
    ok(same && !tn_error() && counts.replays >= STEPS - 4,
       "%s%s%s%s: %d replays of a step have the bits of the single calls%s%s",
       name, how & CLIP ? ", norm" : "", how & CLAMP ? ", clamp" : "",
       how & SCALE ? ", scaled" : "", (int)counts.replays,
       tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    tn_error_clear();
    tn_scope_close(scope);
}

/* ---- state that changes between steps ------------------------------------------ */

typedef struct pair {
    job eager, fast;
    tn_compiled *step;
} pair;

static pair pair_new(void)
{
    pair p = {job_new(adam, 0), job_new(adam, 0), NULL};
    p.step = compiled_step(&p.fast, 0);
    return p;
}

static bool steps_are_same(pair *p, int count)
{
    bool same = true;
    for (int i = 0; i < count && same && !tn_error(); i++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *in[2] = {tn_randn(tn_dims(5, 6)),
                            tn_randint(0, 4, tn_dims(5))};
        const tn_rng_state random = tn_rng_snapshot();
        tn_tensor *want = single_calls(&p->eager, in, 0), *got = NULL;
        tn_rng_restore(random);
        tn_compiled_run(p->step, in, 2, &got, 1);
        same = !tn_error() && same_bits(want, got);
        tn_scope_close(scope);
    }
    return same && !tn_error();
}

static void check_changes(void)
{
    tn_scope *scope = tn_scope_open();
    const char *path = "test_step.safetensors";
    pair p = pair_new();
    ok(steps_are_same(&p, 5), "steps before a change");
    tn_optim_save(p.fast.optim, path);
    tn_optim_load(p.fast.optim, path);
    tn_optim_load(p.eager.optim, path);
    ok(steps_are_same(&p, 5), "a loaded state of the optimizer is used");
    remove(path);
    tn_optim_set_lr(p.eager.optim, 0.3);
    tn_optim_set_lr(p.fast.optim, 0.3);
    ok(steps_are_same(&p, 2), "another learning rate is used");
    tn_module_to(p.eager.net, .dtype = TN_F64);
    tn_module_to(p.eager.net, .dtype = TN_F32);
    tn_module_to(p.fast.net, .dtype = TN_F64);
    tn_module_to(p.fast.net, .dtype = TN_F32);
    ok(steps_are_same(&p, 5), "parameters with other memory are used%s%s",
       tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    tn_module_eval(p.eager.net);
    tn_module_eval(p.fast.net);
    tn_compiled_reset(p.step);
    ok(steps_are_same(&p, 4), "another mode is used after tn_compiled_reset");
    tn_error_clear();
    tn_scope_close(scope);
}

/* Freezes the first parameter of both networks, or trains it again. */
static void train_first(pair *p, bool trained)
{
    job *const both[2] = {&p->eager, &p->fast};
    for (int i = 0; i < 2; i++)
        tn_tensor_set_requires_grad(
            tn_parameters_at(tn_parameters(both[i]->net), 0), trained);
}

/* Steps that train different parameters in turn. Each set has a program. Those of
 * Adam have other numbers as soon as they have stepped differently often, so the
 * step of all is captured once more. */
static void check_sets(void)
{
    tn_scope *scope = tn_scope_open();
    pair p = pair_new();
    bool same = true;
    tn_compiled_counts early = {.size = sizeof early}, late = early;
    for (int round = 0; round < 8 && same; round++) {
        train_first(&p, round % 2 == 0);
        same = steps_are_same(&p, 3);
        tn_compiled_read_counts(p.step, round < 4 ? &early : &late);
    }
    ok(same, "steps that train different parameters in turn%s%s",
       tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    is_int(late.captures, early.captures, "nothing is captured again");
    ok(late.captures <= 6 && late.plans == 2, "%d captures, %d programs",
       (int)late.captures, (int)late.plans);
    for (int round = 0; round < 8 && same; round++) {
        train_first(&p, round % 2 == 0);
        same = steps_are_same(&p, 1);
    }
    tn_compiled_read_counts(p.step, &late);
    ok(same && late.captures == early.captures,
       "a change between any two steps: %d captures", (int)late.captures);
    tn_error_clear();
    tn_scope_close(scope);
}

/* Two groups, further outputs, gradients that are kept, and the check. */
static void check_options(void)
{
    tn_scope *scope = tn_scope_open();
    job j = job_new(adam, 0);
    tn_module *more = tn_nn_linear(6, 4);
    tn_optim_add_group(j.optim, tn_parameters(more), .lr = 0.5);
    tn_compiled *step =
        tn_compile_step(loss_of, j.net, j.optim, .keep_grads = true,
                        .check_every = 2, .max_norm = 0.1);
    bool fine = true;
    tn_tensor *weight = tn_parameters_at(tn_parameters(j.net), 0);
    for (int i = 0; i < 9 && fine; i++) {
        tn_scope *each = tn_scope_open();
        tn_tensor *in[2] = {tn_randn(tn_dims(5, 6)),
                            tn_randint(0, 4, tn_dims(5))};
        tn_tensor *out[2];
        fine = tn_compiled_run(step, in, 2, out, 2) >= 0 &&
               tn_tensor_size(out[1], 1) == 4 &&
               !tn_tensor_requires_grad(out[0]) && tn_tensor_grad(weight);
        tn_scope_close(each);
    }
    ok(fine, "two groups, two outputs, kept gradients, with check_every%s%s",
       tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    tn_compiled_counts counts = {.size = sizeof counts};
    tn_compiled_read_counts(step, &counts);
    ok(counts.checks >= 2, "%d checks", (int)counts.checks);
    tn_error_clear();
    tn_scope_close(scope);
}

static void refused(bool failed, const char *message, const char *what)
{
    ok(failed && tn_error() && strstr(tn_error(), message), "%s: %s", what,
       tn_error() ? tn_error() : "no error");
    tn_error_clear();
}

/* ---- graphs -------------------------------------------------------------------- */

typedef struct recorded {
    job j;
    tn_tensor *x, *y, *loss;
    bool twice;
} recorded;

static tn_status graph_step(void *context)
{
    recorded *r = context;
    tn_tensor *out = NULL;
    tn_optim_zero_grad(r->j.optim);
    loss_of((tn_tensor *[]){r->x, r->y}, 2, &out, 1, r->j.net);
    tn_drop(r->loss);
    r->loss = tn_keep(out);
    tn_backward(out);
    tn_status status = tn_optim_step(r->j.optim);
    return r->twice && status >= 0 ? tn_optim_step(r->j.optim) : status;
}

static void check_graph(void)
{
    tn_scope *scope = tn_scope_open();
    recorded r = {.j = job_new(adam, 0)};
    job eager = job_new(adam, 0);
    tn_module_eval(r.j.net);
    tn_module_eval(eager.net);
    tn_tensor *in[2] = {r.x = tn_randn(tn_dims(5, 6)),
                        r.y = tn_randint(0, 4, tn_dims(5))};
    tn_graph *graph = tn_graph_record(graph_step, &r);
    bool same = graph && same_bits(single_calls(&eager, in, 0), r.loss);
    for (int i = 0; i < 4 && same; i++) {
        tn_copy_(r.x, tn_randn(tn_dims(5, 6)));
        same = tn_graph_replay(graph) >= 0 &&
               same_bits(single_calls(&eager, in, 0), r.loss);
    }
    ok(same && !tn_error(), "a recorded graph contains the optimizer's step%s%s",
       tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    const char *path = "test_step_graph.safetensors";
    tn_optim_save(r.j.optim, path);
    tn_optim_load(r.j.optim, path);
    remove(path);
    refused(tn_graph_replay(graph) == TN_ERR_STATE, "tn_graph_update",
            "a replay after tn_optim_load");
    ok(tn_graph_update(graph, graph_step, &r) >= 0 &&
           tn_graph_replay(graph) >= 0,
       "tn_graph_update mends it");
    tn_error_clear();
    r.twice = true;
    refused(!tn_graph_record(graph_step, &r), "one step",
            "two steps in one recording");
    tn_drop(r.loss);
    tn_scope_close(scope);
}

/* ---- mistakes -------------------------------------------------------------------- */

static tn_status no_loss(tn_tensor *const *in, int in_count, tn_tensor **out,
                         int out_count, void *context)
{
    (void)in, (void)in_count, (void)out, (void)out_count, (void)context;
    return TN_OK;
}

static tn_status changes_rate(tn_tensor *const *in, int in_count,
                              tn_tensor **out, int out_count, void *context)
{
    tn_optim_set_lr(context, 1);
    out[0] = in[0];
    (void)in_count, (void)out_count;
    return tn_error() ? tn_error_code() : TN_OK;
}

static tn_status steps_schedule(tn_tensor *const *in, int in_count,
                                tn_tensor **out, int out_count, void *context)
{
    tn_schedule_step(context);
    out[0] = in[0];
    (void)in_count, (void)out_count;
    return tn_error() ? tn_error_code() : TN_OK;
}

static tn_status clips_on_host(tn_tensor *const *in, int in_count,
                               tn_tensor **out, int out_count, void *context)
{
    tn_clip_grad_norm(context, 1);
    out[0] = in[0];
    (void)in_count, (void)out_count;
    return tn_error() ? tn_error_code() : TN_OK;
}

static void check_mistakes(void)
{
    tn_scope *scope = tn_scope_open();
    job j = job_new(adam, 0);
    tn_parameter_list *p = tn_parameters(j.net);
    tn_tensor *x = tn_ones(tn_dims(2)), *out = NULL;
    refused(!tn_compile_step(NULL, NULL, j.optim), "fn", "fn is NULL");
    refused(!tn_compile_step(loss_of, j.net, NULL), "optim", "optim is NULL");
    refused(!tn_compile_step(loss_of, j.net, tn_optim_lbfgs(p)), "several times",
            "L-BFGS");
    refused(!tn_compile_step(loss_of, j.net, j.optim, .max_norm = -1),
            "max_norm is -1", "a negative norm");
    refused(!tn_compile_step(loss_of, j.net, j.optim, .clip_value = -1),
            "clip_value is -1", "a negative value");
    refused(!tn_compile_step(loss_of, j.net, j.optim, .plans = 0), "plans",
            "no plans");
    refused(tn_compiled_run(tn_compile_step(no_loss, NULL, j.optim), &x, 1, &out,
                            1) < 0,
            "out[0], the loss", "no loss");
    refused(tn_compiled_run(tn_compile_step(no_loss, NULL, j.optim), &x, 1,
                            NULL, 0) < 0,
            "at least 1 output", "no outputs");
    refused(tn_compiled_run(tn_compile(changes_rate, j.optim), &x, 1, &out,
                            1) < 0,
            "optim_set_lr", "a learning rate that is set in the function");
    refused(tn_compiled_run(tn_compile(steps_schedule,
                                       tn_schedule_step_lr(j.optim, 2)),
                            &x, 1, &out, 1) < 0,
            "schedule_step", "a schedule in the function");
    refused(tn_compiled_run(tn_compile(clips_on_host, p), &x, 1, &out, 1) < 0,
            "tn_clip_grad_norm_on_device", "a norm on the host");
    refused(tn_graph_on_replay(j.optim, NULL) < 0, "host", "no host functions");
    const tn_graph_host none = {.size = sizeof none};
    refused(tn_graph_on_replay(j.optim, &none) < 0, "advance",
            "host functions without advance");
    refused(!tn_clip_grad_norm_on_device(NULL, 1), "parameters",
            "no parameters");
    refused(!tn_clip_grad_norm_on_device(p, -1), "max_norm is -1",
            "a negative norm on the device");
    refused(!tn_clip_grad_norm_on_device(p, 1, .norm_type = NAN), "norm_type",
            "an order that is no number");
    tn_tensor *norm = tn_clip_grad_norm_on_device(p, 1);
    ok(norm && tn_item(norm) == 0, "no gradients have the norm 0");
    tn_scope_close(scope);
}

int main(void)
{
    plan_later();
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        check_optimizer(optimizers[i].name, optimizers[i].make, 0);
        check_optimizer(optimizers[i].name, optimizers[i].make, SCALE);
    }
    check_optimizer("adam", adam, CLIP);
    check_optimizer("adam", adam, CLAMP);
    check_optimizer("sgd", sgd, CLIP | CLAMP | SCALE);
    check_optimizer("lamb", lamb, CLIP | SCALE);
    check_changes();
    check_sets();
    check_options();
    check_graph();
    check_mistakes();
    return done_testing();
}
