/* optim_file.c: checks eight steps of an optimizer: the parameters and the loss
 * after each.
 *
 * All files minimise the same function, 0.5 * sum((p0 - target0)^2) + mean((p1
 * - target1)^4). The file's metadata has the optimizer and its arguments by
 * PyTorch's names. */
#include "golden.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- PyTorch's arguments ------------------------------------------------ */

typedef struct arguments {
    const json_t *json;
    size_t taken; /* number of arguments that were recognised */
} arguments;

static const json_t *take(arguments *a, const char *name)
{
    const json_t *value = json_object_get(a->json, name);
    a->taken += value != NULL;
    return value;
}

/* These functions set an option from PyTorch's argument; without the
 * argument the option keeps its default. Two options of Tenon may be a pair
 * in PyTorch. */
static void number(arguments *a, const char *name, double *to)
{
    static const struct {
        const char *option, *pair;
        size_t at;
    } parts[] = {
        {"beta1", "betas", 0},         {"beta2", "betas", 1},
        {"eta_minus", "etas", 0},      {"eta_plus", "etas", 1},
        {"step_min", "step_sizes", 0}, {"step_max", "step_sizes", 1},
        {"eps1", "eps", 0},            {"eps2", "eps", 1},
    };
    const json_t *value = NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i].option, name) == 0)
            value = json_array_get(parts[i].at ? json_object_get(a->json,
                                                                 parts[i].pair)
                                               : take(a, parts[i].pair),
                                   parts[i].at);
    if (!value)
        value = take(a, name);
    if (json_is_number(value))
        *to = json_number_value(value);
}

static void whole(arguments *a, const char *name, int *to)
{
    const json_t *value = take(a, name);
    if (json_is_number(value))
        *to = (int)json_number_value(value);
}

static void long_whole(arguments *a, const char *name, int64_t *to)
{
    const json_t *value = take(a, name);
    if (json_is_integer(value))
        *to = json_integer_value(value);
}

static void flag(arguments *a, const char *name, bool *to)
{
    const json_t *value = take(a, name);
    if (json_is_boolean(value))
        *to = json_is_true(value);
    if (strcmp(name, "match_rms_adamw") == 0 &&
        (value = take(a, "adjust_lr_fn")))
        *to = json_is_string(value) &&
              strcmp(json_string_value(value), name) == 0;
}

/* ---- optimizers ---------------------------------------------------------- */

#define TAKE(type, name, value)                                                \
    _Generic(&o.name, double *: number, int *: whole, int64_t *: long_whole,   \
             bool *: flag)(a, #name, &o.name);

/* Each entry: PyTorch's name, Tenon's name, and the list of Tenon's options. */
#define OPTIMIZER_MAP(X)                                                       \
    X(SGD, sgd, SGD)                                                           \
    X(Adam, adam, ADAM)                                                        \
    X(AdamW, adamw, ADAMW)                                                     \
    X(RMSprop, rmsprop, RMSPROP)                                               \
    X(Adagrad, adagrad, ADAGRAD)                                               \
    X(Adadelta, adadelta, ADADELTA)                                            \
    X(Adamax, adamax, ADAMAX)                                                  \
    X(NAdam, nadam, NADAM)                                                     \
    X(RAdam, radam, RADAM)                                                     \
    X(ASGD, asgd, ASGD)                                                        \
    X(Rprop, rprop, RPROP)                                                     \
    X(Muon, muon, MUON)                                                        \
    X(LBFGS, lbfgs, LBFGS)                                                     \
    X(Adafactor, adafactor, ADAFACTOR)                                         \
    X(Lion, lion, LION)                                                        \
    X(LARS, lars, LARS)                                                        \
    X(LAMB, lamb, LAMB)

#define MAKE(theirs, ours, OPTIONS)                                            \
    static tn_optim *make_##ours(tn_parameter_list *list, arguments *a)        \
    {                                                                          \
        tn_optim_##ours##_options o = TN_OPTIM_##OPTIONS##_OPTIONS;            \
        TN_OPTIM_##OPTIONS##_OPTIONS_LIST(TAKE)                                \
        return tn_optim_##ours##_with(list, &o);                               \
    }
OPTIMIZER_MAP(MAKE)

static const struct {
    const char *name;
    tn_optim *(*make)(tn_parameter_list *list, arguments *a);
} optimizers[] = {
#define NAMED(theirs, ours, OPTIONS) {#theirs, make_##ours},
    OPTIMIZER_MAP(NAMED)
};

/* Returns NULL without an error if Tenon lacks the optimizer or one of the
 * arguments. */
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

/* ---- the minimised function ---------------------------------------------- */

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

/* LBFGS uses differences of gradients. Once the loss has fallen to 1e-4 of the
 * first loss, these are mostly rounding errors, and its iterates diverge
 * (PyTorch's differ by up to 1.4e-2 from the same algorithm in float64). Then
 * only the loss is compared, with a tolerance of 1e-6 of the first loss. */
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

/* Makes one step. Returns whether the loss and the parameters equal
 * PyTorch's. */
static bool check_step(verdict *v, tn_safetensors *file, problem *at, int step,
                       double want, double first)
{
    tolerance within = tolerance_for("optimizer", tn_tensor_dtype(at->p[0]));
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
    /* The list contains Infinity, which is not valid JSON, so its numbers are
     * parsed one by one. */
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
