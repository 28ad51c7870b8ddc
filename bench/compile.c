/* compile.c: a separate program: Tenon's networks and chains of element-wise
 * operators without and within a compiled function, beside torch.compile.
 *
 *     bench/compile [--rounds N] [--ms N] [--only GROUP[.NAME]] [--cpu]
 *
 * The ways take turns: eager, compiled and, if the Python that TENON_BENCH_PYTHON
 * names (default python3) has torch, torch.compile. A line has the median time of
 * each, the median of the ratios of one round, and how many calls of the device a
 * step makes. `capture` is the time of the first two calls and of making the
 * program, in eager calls. Set TENON_NUM_THREADS=1 on a machine that others
 * use. With --cpu the times are processor time, and PyTorch is left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

enum { MOST_ROUNDS = 101 };

static bool of_processor; /* --cpu */

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(of_processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC,
                  &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* ---- chains -------------------------------------------------------------- */

static void open_chain(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0]));
    s->b = tn_rand(tn_dims(s->size[0]));
}

/* 20 operators. compile.py has the same. */
static tn_tensor *chain(tn_tensor *x, tn_tensor *y)
{
    tn_tensor *z = x;
    for (int i = 0; i < 4; i++) {
        z = tn_add(tn_mul(z, y), x);
        z = tn_relu(tn_sub(z, y));
        z = tn_mul_scalar(z, 0.5);
    }
    return z;
}

static const bench_work chains[] = {
    {"4m", {4 << 20}, open_chain, NULL, BENCH_UNKNOWN, 0},
    {"1k", {1 << 10}, open_chain, NULL, BENCH_UNKNOWN, 0},
    {.name = NULL},
};
static const bench_group bench_chain = {"chain", chains};

/* ---- a workload in both ways --------------------------------------------- */

typedef struct way {
    const bench_work *work;
    bench_state state;
    tn_compiled *compiled; /* NULL: eager */
    bool trains;
} way;

/* The function that is compiled. */
static tn_status step(tn_tensor *const *in, int in_count, tn_tensor **out,
                      int out_count, void *context)
{
    way *w = context;
    (void)in_count, (void)out_count;
    if (w->trains) {
        w->work->call(&w->state);
        out[0] = tn_detach(w->state.loss);
    } else {
        out[0] = w->state.net ? tn_forward(w->state.net, in[0])
                              : chain(in[0], w->state.b);
    }
    return tn_error() ? tn_error_code() : TN_OK;
}

static void run(way *w)
{
    tn_tensor *in = w->state.a, *out = NULL;
    bool mode = tn_grad_mode_set(w->trains);
    if (w->compiled)
        tn_compiled_run(w->compiled, &in, 1, &out, 1);
    else
        step(&in, 1, &out, 1, w);
    tn_grad_mode_set(mode);
}

/* Runs `calls` calls. Returns nanoseconds per call. */
static double sample(way *w, int64_t calls)
{
    double begin = now_ns();
    for (int64_t i = 0; i < calls; i++) {
        tn_scope *scope = tn_scope_open();
        run(w);
        tn_scope_close(scope);
    }
    tn_device_synchronize(NULL);
    return (now_ns() - begin) / (double)calls;
}

/* ---- figures ------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *value, int count)
{
    double sorted[MOST_ROUNDS];
    memcpy(sorted, value, (size_t)count * sizeof *value);
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    return count % 2 ? sorted[count / 2]
                     : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static double median_ratio(const double *over, const double *under, int count)
{
    double ratio[MOST_ROUNDS];
    for (int i = 0; i < count; i++)
        ratio[i] = over[i] / under[i];
    return median(ratio, count);
}

static void print_line(const char *name, const double *eager,
                       const double *compiled, const double *torch, int rounds,
                       double capture, const tn_compiled_counts *counts)
{
    printf("%-20s %10.1f %10.1f %8.2f", name, median(eager, rounds) / 1e3,
           median(compiled, rounds) / 1e3,
           median_ratio(eager, compiled, rounds));
    if (torch)
        printf(" %12.1f %8.2f", median(torch, rounds) / 1e3,
               median_ratio(torch, compiled, rounds));
    else
        printf(" %12s %8s", "-", "-");
    printf(" %8.1f %6lld %6lld\n", capture, (long long)counts->recorded,
           (long long)counts->launches);
    fflush(stdout);
}

static int measure(const bench_group *group, const bench_work *work,
                   bench_peer *peer, int rounds, double round_ns)
{
    static double eager[MOST_ROUNDS], compiled[MOST_ROUNDS],
        torch[MOST_ROUNDS];
    tn_scope *scope = tn_scope_open();
    way ways[2] = {{.work = work}, {.work = work}};
    for (int w = 0; w < 2; w++) {
        tn_manual_seed(0);
        ways[w].state = (bench_state){.name = work->name, .size = work->size};
        ways[w].trains = strcmp(group->name, "training") == 0;
        work->open(&ways[w].state);
    }
    ways[1].compiled = tn_compile(step, &ways[1], .name = work->name);
    sample(&ways[0], 3);
    const double call = sample(&ways[0], 3);
    const double capture = 2 * sample(&ways[1], 2) / call;
    int64_t calls = (int64_t)(round_ns / call) + 1;
    const bool beside = peer && bench_peer_open(peer, group->name, work);
    sample(&ways[1], 2);
    for (int r = 0; r < rounds && !tn_error(); r++) {
        eager[r] = sample(&ways[0], calls);
        compiled[r] = sample(&ways[1], calls);
        bench_rest();
        if (beside)
            torch[r] = bench_peer_sample(peer, calls);
    }
    char name[64];
    snprintf(name, sizeof name, "%s.%s", group->name, work->name);
    tn_compiled_counts counts = {.size = sizeof counts};
    tn_compiled_read_counts(ways[1].compiled, &counts);
    const bool failed = tn_error() != NULL;
    if (failed)
        fprintf(stderr, "compile: %s: %s\n", name, tn_error());
    else
        print_line(name, eager, compiled, beside ? torch : NULL, rounds,
                   capture, &counts);
    tn_error_clear();
    tn_scope_close(scope);
    return failed;
}

/* ---- the command line ----------------------------------------------------- */

static bool is_selected(const char *only, const char *group, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%s", group, name);
    return !only || strncmp(full, only, strlen(only)) == 0;
}

static bench_peer *start_peer(void)
{
    const char *python = getenv("TENON_BENCH_PYTHON");
    return bench_peer_start(python ? python : "python3",
                            BENCH_FOLDER "/compile.py", "compiled",
                            tn_num_threads(),
                            tn_device_name(tn_device_current()), false);
}

int main(int count, char **argument)
{
    int rounds = 11, failed = 0;
    double round_ns = 5e7;
    const char *only = NULL;
    for (int i = 1; i < count; i += 2) {
        if (strcmp(argument[i], "--cpu") == 0) {
            of_processor = true;
            i--;
            continue;
        }
        const char *value = i + 1 < count ? argument[i + 1] : "";
        if (strcmp(argument[i], "--rounds") == 0)
            rounds = atoi(value);
        else if (strcmp(argument[i], "--ms") == 0)
            round_ns = 1e6 * atof(value);
        else if (strcmp(argument[i], "--only") == 0 && *value)
            only = value;
        else
            rounds = 0;
    }
    if (rounds < 1 || rounds > MOST_ROUNDS || round_ns <= 0)
        return fprintf(stderr, "usage: compile [--rounds N] [--ms N] [--only "
                               "GROUP[.NAME]] [--cpu]\n"), 2;
    if (!tn_device_current())
        return fprintf(stderr, "compile: %s\n", tn_error()), 1;
    bench_peer *peer = of_processor ? NULL : start_peer();
    printf("%-20s %10s %10s %8s %12s %8s %8s %6s %6s\n",
           "times in us", "eager", "compiled", "ratio", "torch.compile",
           "ratio", "capture", "calls", "replay");
    const bench_group *groups[] = {&bench_chain, &bench_inference,
                                   &bench_training};
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const bench_work *w = groups[g]->work; w->name; w++)
            if (is_selected(only, groups[g]->name, w->name))
                failed += measure(groups[g], w, peer, rounds, round_ns);
    bench_peer_stop(peer);
    return failed > 0;
}
