/* optimizers.c: measures a step of each optimizer on the parameters of a
 * network. The workloads are the rows of optimizers.tsv. The gradients are
 * random numbers that are the same in all steps. LBFGS gets a function to
 * evaluate; its minimum moves between two points, so that LBFGS never
 * converges. */
#include <string.h>

#include <golden/optimizer.h>

#include "models.h"
#include "table.h"

enum { MOST = 128, WORDS = 65 };

/* The state of the current workload. */
static struct {
    tn_tensor *p[MOST], *curve[MOST], *target[2][MOST];
    int count, step;
} now;

/* Computes the function for LBFGS, 0.5 * sum(curve * (p - target)^2), and its
 * gradient. */
static double move(void *context)
{
    (void)context;
    for (int i = 0; i < now.count; i++) {
        tn_tensor *g = NULL;
        TN_NO_GRAD
        g = tn_mul(now.curve[i], tn_sub(now.p[i], now.target[now.step % 2][i]));
        tn_tensor_set_grad(now.p[i], g);
    }
    return 1;
}

static void step(bench_state *s)
{
    tn_optim_step(s->optim);
}

static void step_lbfgs(bench_state *s)
{
    now.step++;
    tn_optim_step_closure(s->optim, move, NULL);
}

static void step_of(bench_state *s)
{
    (now.curve[0] ? step_lbfgs : step)(s);
}

static void open(bench_state *s);
static bench_table table = {
    .file = "optimizers.tsv", .open = open, .call = step_of};
const bench_group bench_optimizer = {"optimizer", table.work};

bool bench_optimizers_read(const char *folder)
{
    return bench_table_read(&table, folder);
}

/* Sets the parameters to those of the network that a row names. */
static void take(const char *network)
{
    tn_module *net = strcmp(network, "resnet20") == 0 ? bench_resnet20()
                                                      : bench_gpt(WORDS);
    tn_parameter_list *all = tn_parameters(net);
    const bool matrices = strcmp(network, "matrices") == 0;
    now.count = 0;
    for (int i = 0; i < tn_parameters_count(all) && now.count < MOST; i++) {
        tn_tensor *p = tn_parameters_at(all, i);
        if (!matrices || tn_tensor_ndim(p) == 2)
            now.p[now.count++] = p;
    }
}

static void open(bench_state *s)
{
    const bench_row *row = bench_table_row(&table, s->name);
    memset(&now, 0, sizeof now);
    take(row->rest);
    const bool moves = strcmp(row->kind, "LBFGS") == 0;
    for (int i = 0; i < now.count; i++) {
        tn_tensor_set_grad(now.p[i], tn_randn_like(now.p[i]));
        if (moves) {
            now.curve[i] = tn_add_scalar(tn_rand_like(now.p[i]), 0.5);
            now.target[0][i] = tn_randn_like(now.p[i]);
            now.target[1][i] = tn_randn_like(now.p[i]);
        }
    }
    s->optim = optimizer_make(row->kind, tn_parameters_from(now.p, now.count),
                              row->arguments);
    if (!s->optim)
        tn_error_set(TN_ERR_ARGUMENT, "%s: %s: there is no such optimizer",
                     table.file, row->name);
}
