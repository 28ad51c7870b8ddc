/* dist_rank.c: one rank of a job of bench/dist: see dist.h. */
#include "dist.h"
#include "models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/parallel.h>
#include <time.h>

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(getenv("BENCH_CPU") ? CLOCK_PROCESS_CPUTIME_ID
                                      : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* ---- all_reduce ----------------------------------------------------------- */

/* The tensor of the last size, of ordinary and of shared memory. */
static tn_tensor *vector[2];

static double time_reduce(int64_t bytes, bool shared, int calls)
{
    tn_tensor **x = &vector[shared];
    if (!*x || tn_tensor_numel(*x) != bytes / 4) {
        tn_drop(*x);
        TN_SCOPE(scope) {
            const tn_dims_list shape = tn_dims(bytes / 4);
            tn_tensor *made = shared ? tn_dist_empty(shape, tn_dist_world())
                                     : tn_empty(shape);
            *x = tn_keep(tn_copy_(made, tn_full_like(made, 0)));
        }
    }
    tn_dist_barrier(tn_dist_world());
    const double begin = now_ns();
    for (int i = 0; i < calls; i++)
        tn_dist_all_reduce(*x, tn_dist_world());
    return (now_ns() - begin) / calls;
}

/* ---- training steps ------------------------------------------------------- */

/* The network of the last name. */
static struct {
    char name[16];
    tn_scope *scope;
    tn_module *net;
    tn_ddp *ddp;
    tn_optim *optim;
    tn_tensor *x, *y;
} model;

/* 670 k parameters, and GPT 4 x 128. The batches are those of dist.py. */
static void make_model(const char *name)
{
    if (model.scope)
        tn_scope_close(model.scope);
    snprintf(model.name, sizeof model.name, "%s", name);
    model.scope = tn_scope_open();
    tn_manual_seed(0);
    if (!strcmp(name, "mlp")) {
        model.net = tn_nn_sequential(tn_nn_linear(784, 512), tn_nn_relu(),
                                     tn_nn_linear(512, 512), tn_nn_relu(),
                                     tn_nn_linear(512, 10));
        model.x = tn_randn(tn_dims(64, 784));
        model.y = tn_randint(0, 10, tn_dims(64));
    } else {
        model.net = bench_gpt(65);
        model.x = tn_randint(0, 65, tn_dims(8, 128));
        model.y = tn_randint(0, 65, tn_dims(8 * 128));
    }
    const char *bucket = getenv("BENCH_BUCKET");
    model.ddp = tn_ddp_new(model.net, tn_dist_world(),
                           .bucket_bytes = bucket ? atoll(bucket) : 4194304);
    model.optim = tn_optim_sgd(tn_parameters(model.net), .lr = 1e-3);
}

static void pass(void)
{
    tn_tensor *out = tn_forward(model.net, model.x);
    out = tn_flatten(out, .end_dim = -2);
    tn_backward(tn_cross_entropy(out, model.y));
}

static void step(bool sync)
{
    TN_SCOPE(scope) {
        if (sync) {
            while (tn_ddp_next(model.ddp))
                pass();
        } else {
            tn_optim_zero_grad(model.optim);
            pass();
        }
        tn_optim_step(model.optim);
    }
}

static double time_step(const char *name, bool sync, int calls)
{
    if (strcmp(name, model.name))
        make_model(name);
    tn_dist_barrier(tn_dist_world());
    const double begin = now_ns();
    for (int i = 0; i < calls; i++)
        step(sync);
    return (now_ns() - begin) / calls;
}

int dist_rank(void)
{
    char line[128], name[16];
    tn_dist_init();
    tn_dist_barrier(tn_dist_world());
    printf("ready\n");
    fflush(stdout);
    while (!tn_error() && fgets(line, sizeof line, stdin)) {
        long long bytes;
        int calls, sync;
        double ns = 0;
        if (sscanf(line, "reduce %lld %d", &bytes, &calls) == 2)
            ns = time_reduce(bytes, false, calls);
        else if (sscanf(line, "shared %lld %d", &bytes, &calls) == 2)
            ns = time_reduce(bytes, true, calls);
        else if (sscanf(line, "step %15s %d %d", name, &sync, &calls) == 3)
            ns = time_step(name, sync, calls);
        else
            break;
        printf("%.0f\n", ns);
        fflush(stdout);
    }
    if (tn_error())
        return fprintf(stderr, "bench/dist: %s\n", tn_error()), 1;
    tn_drop(vector[0]);
    tn_drop(vector[1]);
    if (model.scope)
        tn_scope_close(model.scope);
    tn_dist_close();
    return 0;
}
