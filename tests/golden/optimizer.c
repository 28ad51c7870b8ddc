/* optimizer.c: creates Tenon's optimizers from the arguments of PyTorch's
 * constructors. */
#include "optimizer.h"

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

tn_optim *optimizer_make(const char *name, tn_parameter_list *list,
                         const json_t *args)
{
    arguments a = {.json = args};
    tn_optim *optim = NULL;
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        if (strcmp(optimizers[i].name, name) == 0)
            optim = optimizers[i].make(list, &a);
    }
    return a.taken == json_object_size(args) ? optim : NULL;
}
