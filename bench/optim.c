/* optim.c: measures optimizer steps for many small parameters and for a few
 * large ones. */
#include "bench.h"

/* size[] is the number of parameters, and the number of elements of each. */
static tn_parameter_list *parameters(bench_state *s)
{
    tn_tensor *list[64];
    int count = (int)s->size[0];
    for (int i = 0; i < count; i++) {
        list[i] = tn_requires_grad(tn_rand(tn_dims(s->size[1])));
        tn_tensor_set_grad(list[i], tn_rand(tn_dims(s->size[1])));
    }
    return tn_parameters_from(list, count);
}

#define OPEN(rule, ...)                                                       \
    static void open_##rule(bench_state *s)                                   \
    {                                                                         \
        s->optim = tn_optim_##rule(parameters(s), __VA_ARGS__);               \
    }
OPEN(sgd, .lr = 1e-3, .momentum = 0.9)
OPEN(adam, .lr = 1e-3)
OPEN(adamw, .lr = 1e-3)
OPEN(rmsprop, .lr = 1e-3)
OPEN(adagrad, .lr = 1e-3)
OPEN(nadam, .lr = 1e-3)

static void step(bench_state *s)
{
    tn_optim_step(s->optim);
}

/* A step reads a parameter, its gradient and its states, and writes all of
 * these except the gradient. */
#define SIZES(rule, states)                                                   \
    {#rule, {64, 4096}, open_##rule, step,                                    \
     BENCH_UPDATE(64 * 4096 * (2 + (states)), 64 * 4096 * (1 + (states))), 0},\
    {#rule, {4, 1 << 20}, open_##rule, step,                                  \
     BENCH_UPDATE((4 << 20) * (2 + (states)), (4 << 20) * (1 + (states))), 0}

static const bench_work work[] = {
    SIZES(sgd, 1),
    SIZES(adam, 2),
    SIZES(adamw, 2),
    SIZES(rmsprop, 1),
    SIZES(adagrad, 1),
    SIZES(nadam, 2),
    {.name = NULL},
};
const bench_group bench_optim = {"optim", work};
