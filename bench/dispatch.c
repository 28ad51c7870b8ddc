/* dispatch.c: measures the overhead of a call, by operators on one element,
 * with and without recording for gradients. Also measures the time from the
 * start of a process to its first result. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static void open_one(bench_state *s)
{
    s->a = tn_ones(tn_dims(1));
    s->b = tn_ones(tn_dims(1));
}

static void open_recorded(bench_state *s)
{
    open_one(s);
    s->a = tn_requires_grad(s->a);
}

static void add(bench_state *s)
{
    tn_add(s->a, s->b);
}

static void matmul(bench_state *s)
{
    tn_matmul(s->a, s->b);
}

static void relu(bench_state *s)
{
    tn_relu(s->a);
}

static void sum(bench_state *s)
{
    tn_sum(s->a);
}

/* Prepares a chain of size[0] operators on 16 elements, which runs forward and
 * backward. */
static void open_chain(bench_state *s)
{
    s->a = tn_requires_grad(tn_rand(tn_dims(16)));
    s->b = tn_rand(tn_dims(16));
}

static void chain(bench_state *s)
{
    tn_tensor *y = s->a;
    for (int64_t i = 0; i < s->size[0]; i += 2)
        y = tn_add(tn_mul(y, s->b), s->b);
    tn_tensor_set_grad(s->a, NULL);
    tn_backward(tn_sum(y));
}

static void open_nothing(bench_state *s)
{
    (void)s;
}

/* Measures the time from fork to the end of a process that adds two numbers. */
static void start(bench_state *s)
{
    (void)s;
    pid_t child = fork();
    if (child == 0) {
        execl(bench_program, bench_program, "--first-result", (char *)NULL);
        _exit(127);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
        tn_error_set(TN_ERR_IO, "dispatch.start: %s cannot be run", bench_program);
}

int bench_first_result(void)
{
    tn_tensor *one = tn_ones(tn_dims(1));
    return tn_item(tn_add(one, one)) == 2 ? 0 : 1;
}

#define ONE(name, open, call)                                                 \
    {name, {1}, open, call, BENCH_UNKNOWN, 100}

static const bench_work work[] = {
    ONE("add", open_one, add),
    ONE("add_recorded", open_recorded, add),
    ONE("matmul", open_one, matmul),
    ONE("relu", open_one, relu),
    ONE("sum", open_one, sum),
    {"chain", {100}, open_chain, chain, BENCH_UNKNOWN, 0},
    {"start", {0}, open_nothing, start, BENCH_UNKNOWN, 0},
    {.name = NULL},
};
const bench_group bench_dispatch = {"dispatch", work};
