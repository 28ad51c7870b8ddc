/* optim_file.c: an optimizer, eight steps: parameters and losses after each.
 *
 * The problem is the same in all files: 0.5 * sum((p0 - target0)^2) +
 * mean((p1 - target1)^4). The optimizer and its arguments stand in the
 * metadata by PyTorch's names. */
#include "golden.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- PyTorch's arguments ------------------------------------------------ */

typedef struct arguments {
    const json_t *json;
    size_t taken; /* how many were understood */
} arguments;

static const json_t *take(arguments *a, const char *name)
{
    const json_t *value = json_object_get(a->json, name);
    a->taken += value != NULL;
    return value;
}

/* Each sets what is given; the option keeps its default otherwise. */
static void number(arguments *a, const char *name, double *to)
{
    const json_t *value = take(a, name);
    if (json_is_number(value))
        *to = json_number_value(value);
}

static void whole(arguments *a, const char *name, int *to)
{
    double x = *to;
    number(a, name, &x);
    *to = (int)x;
}

static void flag(arguments *a, const char *name, bool *to)
{
    const json_t *value = take(a, name);
    if (json_is_boolean(value))
        *to = json_is_true(value);
}

static void pair(arguments *a, const char *name, double *first, double *second)
{
    const json_t *values = take(a, name);
    if (!values)
        return;
    *first = json_number_value(json_array_get(values, 0));
    *second = json_number_value(json_array_get(values, 1));
}

/* ---- the optimizers ----------------------------------------------------- */

static tn_optim *make_sgd(tn_parameter_list *list, arguments *a)
{
    tn_optim_sgd_options o = TN_OPTIM_SGD_OPTIONS;
    number(a, "lr", &o.lr);
    number(a, "momentum", &o.momentum);
    number(a, "dampening", &o.dampening);
    number(a, "weight_decay", &o.weight_decay);
    flag(a, "nesterov", &o.nesterov);
    flag(a, "maximize", &o.maximize);
    return tn_optim_sgd_with(list, &o);
}

static tn_optim *make_adam(tn_parameter_list *list, arguments *a)
{
    tn_optim_adam_options o = TN_OPTIM_ADAM_OPTIONS;
    number(a, "lr", &o.lr);
    number(a, "eps", &o.eps);
    number(a, "weight_decay", &o.weight_decay);
    pair(a, "betas", &o.beta1, &o.beta2);
    flag(a, "amsgrad", &o.amsgrad);
    flag(a, "maximize", &o.maximize);
    return tn_optim_adam_with(list, &o);
}

static tn_optim *make_adamw(tn_parameter_list *list, arguments *a)
{
    tn_optim_adamw_options o = TN_OPTIM_ADAMW_OPTIONS;
    number(a, "lr", &o.lr);
    number(a, "eps", &o.eps);
    number(a, "weight_decay", &o.weight_decay);
    pair(a, "betas", &o.beta1, &o.beta2);
    flag(a, "amsgrad", &o.amsgrad);
    flag(a, "maximize", &o.maximize);
    return tn_optim_adamw_with(list, &o);
}

static tn_optim *make_rmsprop(tn_parameter_list *list, arguments *a)
{
    tn_optim_rmsprop_options o = TN_OPTIM_RMSPROP_OPTIONS;
    number(a, "lr", &o.lr);
    number(a, "alpha", &o.alpha);
    number(a, "eps", &o.eps);
    number(a, "weight_decay", &o.weight_decay);
    number(a, "momentum", &o.momentum);
    flag(a, "centered", &o.centered);
    flag(a, "maximize", &o.maximize);
    return tn_optim_rmsprop_with(list, &o);
}

static tn_optim *make_adagrad(tn_parameter_list *list, arguments *a)
{
    tn_optim_adagrad_options o = TN_OPTIM_ADAGRAD_OPTIONS;
    number(a, "lr", &o.lr);
    number(a, "lr_decay", &o.lr_decay);
    number(a, "weight_decay", &o.weight_decay);
    number(a, "initial_accumulator_value", &o.initial_accumulator_value);
    number(a, "eps", &o.eps);
    flag(a, "maximize", &o.maximize);
    return tn_optim_adagrad_with(list, &o);
}

static tn_optim *make_adadelta(tn_parameter_list *list, arguments *a)
{
    tn_optim_adadelta_options o = TN_OPTIM_ADADELTA_OPTIONS;
    number(a, "lr", &o.lr);
    number(a, "rho", &o.rho);
    number(a, "eps", &o.eps);
    number(a, "weight_decay", &o.weight_decay);
    flag(a, "maximize", &o.maximize);
    return tn_optim_adadelta_with(list, &o);
}

static tn_optim *make_adamax(tn_parameter_list *list, arguments *a)
{
    tn_optim_adamax_options o = TN_OPTIM_ADAMAX_OPTIONS;
    number(a, "lr", &o.lr);
    number(a, "eps", &o.eps);
    number(a, "weight_decay", &o.weight_decay);
    pair(a, "betas", &o.beta1, &o.beta2);
    flag(a, "maximize", &o.maximize);
    return tn_optim_adamax_with(list, &o);
}

static tn_optim *make_nadam(tn_parameter_list *list, arguments *a)
{
    tn_optim_nadam_options o = TN_OPTIM_NADAM_OPTIONS;
    number(a, "lr", &o.lr);
    number(a, "eps", &o.eps);
    number(a, "weight_decay", &o.weight_decay);
    number(a, "momentum_decay", &o.momentum_decay);
    pair(a, "betas", &o.beta1, &o.beta2);
    flag(a, "decoupled_weight_decay", &o.decoupled_weight_decay);
    flag(a, "maximize", &o.maximize);
    return tn_optim_nadam_with(list, &o);
}

static tn_optim *make_radam(tn_parameter_list *list, arguments *a)
{
    tn_optim_radam_options o = TN_OPTIM_RADAM_OPTIONS;
    number(a, "lr", &o.lr);
    number(a, "eps", &o.eps);
    number(a, "weight_decay", &o.weight_decay);
    pair(a, "betas", &o.beta1, &o.beta2);
    flag(a, "decoupled_weight_decay", &o.decoupled_weight_decay);
    flag(a, "maximize", &o.maximize);
    return tn_optim_radam_with(list, &o);
}

static tn_optim *make_asgd(tn_parameter_list *list, arguments *a)
{
    tn_optim_asgd_options o = TN_OPTIM_ASGD_OPTIONS;
    number(a, "lr", &o.lr);
    number(a, "lambd", &o.lambd);
    number(a, "alpha", &o.alpha);
    number(a, "t0", &o.t0);
    number(a, "weight_decay", &o.weight_decay);
    flag(a, "maximize", &o.maximize);
    return tn_optim_asgd_with(list, &o);
}

static tn_optim *make_rprop(tn_parameter_list *list, arguments *a)
{
    tn_optim_rprop_options o = TN_OPTIM_RPROP_OPTIONS;
    number(a, "lr", &o.lr);
    pair(a, "etas", &o.eta_minus, &o.eta_plus);
    pair(a, "step_sizes", &o.step_min, &o.step_max);
    flag(a, "maximize", &o.maximize);
    return tn_optim_rprop_with(list, &o);
}

static tn_optim *make_muon(tn_parameter_list *list, arguments *a)
{
    tn_optim_muon_options o = TN_OPTIM_MUON_OPTIONS;
    const char *adjust = json_string_value(take(a, "adjust_lr_fn"));
    o.match_rms_adamw = adjust && !strcmp(adjust, "match_rms_adamw");
    number(a, "lr", &o.lr);
    number(a, "weight_decay", &o.weight_decay);
    number(a, "momentum", &o.momentum);
    flag(a, "nesterov", &o.nesterov);
    number(a, "eps", &o.eps);
    whole(a, "ns_steps", &o.ns_steps);
    return tn_optim_muon_with(list, &o);
}

static tn_optim *make_lbfgs(tn_parameter_list *list, arguments *a)
{
    tn_optim_lbfgs_options o = TN_OPTIM_LBFGS_OPTIONS;
    const json_t *evaluations = take(a, "max_eval");
    if (json_is_integer(evaluations))
        o.max_eval = json_integer_value(evaluations);
    number(a, "lr", &o.lr);
    whole(a, "max_iter", &o.max_iter);
    number(a, "tolerance_grad", &o.tolerance_grad);
    number(a, "tolerance_change", &o.tolerance_change);
    whole(a, "history_size", &o.history_size);
    return tn_optim_lbfgs_with(list, &o);
}

static const struct {
    const char *name;
    tn_optim *(*make)(tn_parameter_list *list, arguments *a);
} optimizers[] = {
    {"SGD", make_sgd},           {"Adam", make_adam},
    {"AdamW", make_adamw},       {"RMSprop", make_rmsprop},
    {"Adagrad", make_adagrad},   {"Adadelta", make_adadelta},
    {"Adamax", make_adamax},     {"NAdam", make_nadam},
    {"RAdam", make_radam},       {"ASGD", make_asgd},
    {"Rprop", make_rprop},       {"Muon", make_muon},
    {"LBFGS", make_lbfgs},
};

/* NULL without an error: no such optimizer, or an argument it has not. */
static tn_optim *optimizer_of(tn_safetensors *file, tn_parameter_list *list)
{
    const char *name = tn_safetensors_metadata(file, "optimizer");
    const char *text = tn_safetensors_metadata(file, "args");
    json_t *json = json_loads(text ? text : "{}", 0, NULL);
    arguments a = {.json = json};
    tn_optim *optim = NULL;
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        if (strcmp(optimizers[i].name, name) == 0)
            optim = optimizers[i].make(list, &a);
    }
    bool understood = a.taken == json_object_size(json);
    json_decref(json);
    return understood ? optim : NULL;
}

/* ---- the problem -------------------------------------------------------- */

typedef struct problem {
    tn_tensor *p[2], *target[2];
    tn_optim *optim;
} problem;

static tn_tensor *loss_of(const problem *at)
{
    tn_tensor *first = tn_square(tn_sub(at->p[0], at->target[0]));
    tn_tensor *second = tn_square(tn_sub(at->p[1], at->target[1]));
    return tn_add(tn_mul_scalar(tn_sum(first), 0.5),
                  tn_mean(tn_square(second)));
}

static double closure(void *context)
{
    problem *at = context;
    tn_optim_zero_grad(at->optim);
    tn_tensor *loss = loss_of(at);
    tn_backward(loss);
    return tn_item(loss);
}

/* LBFGS builds on differences of gradients: once the loss has fallen to 1e-4 of
 * the first, they are mostly rounding, and its iterates go ways of their own
 * (PyTorch's are up to 1.4e-2 from those of the same algorithm in float64). What
 * is defined is where they lead: ours has to be as low then, to 1e-6 of the
 * first. */
static bool is_at_minimum(tn_safetensors *file, double want, double first)
{
    return strcmp(tn_safetensors_metadata(file, "optimizer"), "LBFGS") == 0 &&
           want <= 1e-4 * first;
}

static bool loss_near(double got, double want, tolerance within)
{
    if (isnan(got) || isinf(got) || isinf(want))
        return got == want;
    return fabs(got - want) <= within.absolute + within.relative * fabs(want);
}

/* One step; true if all is as PyTorch has it. */
static bool check_step(verdict *v, tn_safetensors *file, problem *at, int step,
                       double want, double first)
{
    tolerance within = tolerance_for("optimizer", TN_F32);
    double loss = tn_optim_step_closure(at->optim, closure, at);
    if (tn_error()) {
        verdict_fail(v, "step %d: %s", step, tn_error());
        return false;
    }
    bool at_minimum = is_at_minimum(file, want, first);
    if (at_minimum ? !(loss <= 2 * want + 1e-6 * first)
                   : !loss_near(loss, want, within)) {
        verdict_fail(v, "loss of step %d is %.9g, wanted %.9g", step, loss,
                     want);
        return false;
    }
    for (int i = 0; i < 2 && !at_minimum; i++) {
        char key[32], why[300];
        snprintf(key, sizeof key, "p%d.step%d", i, step);
        if (!golden_equal(at->p[i], golden_tensor(file, key, NULL), within,
                          why, sizeof why)) {
            verdict_fail(v, "%s: %s", key, why);
            return false;
        }
    }
    return true;
}

verdict optim_file_run(tn_safetensors *file)
{
    verdict v = {0};
    problem at = {.target = {golden_tensor(file, "target0", NULL),
                             golden_tensor(file, "target1", NULL)}};
    for (int i = 0; i < 2; i++)
        at.p[i] = tn_requires_grad(
            tn_clone(golden_tensor(file, i ? "p1.start" : "p0.start", NULL)));
    at.optim = optimizer_of(file, tn_parameters_from(at.p, 2));
    if (!at.optim && !tn_error()) {
        v.unsupported = 1;
        snprintf(v.detail, sizeof v.detail, "no such optimizer or argument");
        return v;
    }
    /* JSON with Infinity, which is not JSON: numbers one after another. */
    const char *losses = tn_safetensors_metadata(file, "losses");
    char *next = (char *)(losses + strspn(losses, "[ "));
    double first = strtod(next, NULL);
    bool same = true;
    for (int step = 0; same && *next && *next != ']'; step++) {
        double want = strtod(next, &next);
        same = check_step(&v, file, &at, step, want, first);
        next += strspn(next, ", ");
    }
    v.passed = !v.failed;
    return v;
}
