/* test_calls.c: what all functions of libtenon-parallel have in common: NULL,
 * objects of another kind, a pending error, and numbers at the ends of their
 * types. Alone: a job of one rank. */
#include "tap.h"

#include <stdint.h>
#include <tenon/parallel.h>
#include <tenon/tenon.h>

static tn_group *world;
static tn_tensor *x;
static tn_module *net;
static tn_device *device;

/* ---- NULL and other kinds ------------------------------------------------- */

/* Each call with one wrong object. bad: NULL, or a scope's tensor where a group,
 * a module or a handle is expected. */
static void check_object(const char *name, bool failed)
{
    const bool named = tn_error() && strstr(tn_error(), name) == tn_error();
    ok(failed && named, "%s refuses it", name);
    if (!named)
        note("%s", tn_error() ? tn_error() : "no error");
    tn_error_clear();
}
#define REFUSES(name, call, fails)                                            \
    do {                                                                      \
        tn_error_clear();                                                     \
        check_object(name, (call)fails);                                      \
    } while (0)

static void check_bad(void *bad)
{
    tn_group *group = bad;
    REFUSES("dist_all_reduce", tn_dist_all_reduce(x, group), < 0);
    REFUSES("dist_broadcast", tn_dist_broadcast(x, 0, group), < 0);
    REFUSES("dist_reduce_scatter", tn_dist_reduce_scatter(x, group), == NULL);
    REFUSES("dist_all_gather", tn_dist_all_gather(x, group), == NULL);
    REFUSES("dist_all_to_all", tn_dist_all_to_all(x, group), == NULL);
    REFUSES("dist_send", tn_dist_send(x, 0, group), < 0);
    REFUSES("dist_recv", tn_dist_recv(x, 0, group), < 0);
    REFUSES("dist_barrier", tn_dist_barrier(group), < 0);
    REFUSES("dist_empty", tn_dist_empty(tn_dims(2), group), == NULL);
    REFUSES("group_split", tn_group_split(group, 0), == NULL);
    REFUSES("ddp_new", tn_ddp_new(net, group), == NULL);
    REFUSES("ddp_new", tn_ddp_new(bad, world), == NULL);
    REFUSES("work_wait", tn_work_wait(bad), < 0);
    REFUSES("ddp_next", tn_ddp_next(bad), == false);
    REFUSES("ddp_note", tn_ddp_note(bad, x), < 0);
    REFUSES("ddp_weigh", tn_ddp_weigh(bad, 1), < 0);
    REFUSES("ddp_join", tn_ddp_join(bad, true), == false);
    REFUSES("data_parallel", tn_data_parallel(bad, &device, 1), == NULL);
    tn_optim *optim = tn_optim_sgd(tn_parameters(net), .lr = 1);
    REFUSES("optim_sharded", tn_optim_sharded(bad, world), == NULL);
    REFUSES("optim_sharded", tn_optim_sharded(optim, group), == NULL);
    REFUSES("mesh_group", tn_mesh_group(bad, "dp"), == NULL);
    REFUSES("mesh_coordinate", tn_mesh_coordinate(bad, "dp"), == -1);
    REFUSES("mesh_size", tn_mesh_size(bad, "dp"), == 0);
    if (bad)
        REFUSES("mesh_new", tn_mesh_new(tn_dims(1), "dp", .group = bad), == NULL);
    REFUSES("dist_nn_all_reduce", tn_dist_nn_all_reduce(x, group), == NULL);
    REFUSES("dist_nn_reduce_scatter", tn_dist_nn_reduce_scatter(x, group),
            == NULL);
    REFUSES("dist_nn_all_gather", tn_dist_nn_all_gather(x, group), == NULL);
    REFUSES("dist_nn_broadcast", tn_dist_nn_broadcast(x, 0, group), == NULL);
    REFUSES("dist_nn_all_to_all", tn_dist_nn_all_to_all(x, group), == NULL);
    tn_tensor *tensor = bad == x ? (void *)net : bad;
    REFUSES("dist_all_reduce", tn_dist_all_reduce(tensor, world), < 0);
    REFUSES("dist_broadcast", tn_dist_broadcast(tensor, 0, world), < 0);
    REFUSES("dist_reduce_scatter", tn_dist_reduce_scatter(tensor, world), == NULL);
    REFUSES("dist_all_gather", tn_dist_all_gather(tensor, world), == NULL);
    REFUSES("dist_all_to_all", tn_dist_all_to_all(tensor, world), == NULL);
    REFUSES("dist_send", tn_dist_send(tensor, 0, world), < 0);
    REFUSES("dist_nn_all_reduce", tn_dist_nn_all_reduce(tensor, world), == NULL);
    REFUSES("dist_nn_all_gather", tn_dist_nn_all_gather(tensor, world), == NULL);
    REFUSES("dist_nn_broadcast", tn_dist_nn_broadcast(tensor, 0, world), == NULL);
    REFUSES("dist_recv", tn_dist_recv(tensor, 0, world), < 0);
    is_int(tn_group_rank(bad), -1, "no rank");
    is_int(tn_group_size(bad), 0, "no size");
    is_int(tn_group_world_rank(bad, 0), -1, "no rank in the job");
    ok(tn_work_is_done(bad), "nothing to wait for");
    is_int(tn_ddp_shard(bad), -1, "no shard");
    is_int(tn_ddp_shards(bad), 0, "no shards");
    ok(isnan(tn_ddp_loss(bad)), "no loss");
    ok(!tn_error(), "attributes record no error");
}

/* ---- a pending error ------------------------------------------------------ */

static void pend(void)
{
    tn_error_clear();
    tn_error_set(TN_ERR_SHAPE, "earlier");
}

static void check_pending(void)
{
    pend();
    is_int(tn_dist_all_reduce(x, world), TN_ERR_STATE, "all_reduce is refused");
    is_int(tn_dist_broadcast(x, 0, world), TN_ERR_STATE, "broadcast");
    is_int(tn_dist_barrier(world), TN_ERR_STATE, "barrier");
    is_int(tn_dist_init(), TN_ERR_STATE, "dist_init");
    ok(!tn_dist_all_gather(x, world) && !tn_dist_reduce_scatter(x, world) &&
           !tn_dist_all_to_all(x, world) && !tn_group_split(world, 0) &&
           !tn_dist_nn_all_reduce(x, world) && !tn_dist_nn_all_gather(x, world) &&
           !tn_dist_nn_broadcast(x, 0, world) &&
           !tn_dist_nn_reduce_scatter(x, world) &&
           !tn_dist_nn_all_to_all(x, world) &&
           !tn_mesh_new(tn_dims(1), "dp") &&
           !tn_data_parallel(net, &device, 1) && !tn_ddp_new(net, world) &&
           !tn_dist_empty(tn_dims(2), world),
       "makers return NULL");
    is_str(tn_error(), "earlier", "the first message stays");
    tn_error_clear();
}

/* ---- numbers -------------------------------------------------------------- */

static void check_numbers(void)
{
    static const int ends[] = {INT32_MIN, -1, 1, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        REFUSES("dist_broadcast", tn_dist_broadcast(x, ends[i], world), < 0);
        REFUSES("dist_send", tn_dist_send(x, ends[i], world), < 0);
        REFUSES("dist_recv", tn_dist_recv(x, ends[i], world), < 0);
        is_int(tn_group_world_rank(world, ends[i]), -1, "no rank %d", ends[i]);
        tn_group *one = tn_group_split(world, ends[i], .key = ends[3 - i]);
        ok(!tn_error() && !one == (ends[i] < 0), "color %d", ends[i]);
    }
    REFUSES("dist_send", tn_dist_send(x, 0, world), < 0); /* itself */
    REFUSES("dist_empty", tn_dist_empty(tn_dims(-2), world), == NULL);
    REFUSES("dist_empty", tn_dist_empty(tn_dims(INT64_MAX, 4), world), == NULL);
    REFUSES("dist_empty",
            tn_dist_empty(tn_dims(2), world, .dtype = TN_DTYPE_END), == NULL);
    tn_tensor *alone = tn_dist_empty(tn_dims(2, 3), world, .dtype = TN_I64);
    ok(alone && tn_tensor_numel(alone) == 6 && tn_tensor_dtype(alone) == TN_I64,
       "dist_empty of one rank");
    static const int64_t wide[] = {INT64_MIN + 1, -1, 65537, INT64_MAX};
    for (int i = 0; i < 4; i++) {
        REFUSES("ddp_new", tn_ddp_new(net, world, .shards = wide[i]), == NULL);
        if (wide[i] < 1) {
            REFUSES("ddp_new", tn_ddp_new(net, world, .bucket_bytes = wide[i]),
                    == NULL);
            REFUSES("optim_sharded",
                    tn_optim_sharded(tn_optim_sgd(tn_parameters(net), .lr = 1),
                                     world, .bucket_bytes = wide[i]), == NULL);
        }
        REFUSES("mesh_new", tn_mesh_new(tn_dims(wide[i] == -1 ? -2 : wide[i]), "dp"),
                == NULL);
    }
    ok(tn_ddp_new(net, world, .bucket_bytes = INT64_MAX) != NULL,
       "one bucket for all");
    ok(tn_optim_sharded(tn_optim_sgd(tn_parameters(net), .lr = 1), world,
                        .bucket_bytes = INT64_MAX) != NULL, "one round for all");
    REFUSES("ddp_new", tn_ddp_new(net, world, .reduce_dtype = TN_F32), == NULL);
    REFUSES("ddp_new", tn_ddp_new(net, world, .buffers = "last"), == NULL);
    tn_ddp *ddp = tn_ddp_new(net, world);
    REFUSES("ddp_weigh", tn_ddp_weigh(ddp, 1), < 0);
    ok(tn_ddp_next(ddp), "a shard");
    REFUSES("ddp_weigh", tn_ddp_weigh(ddp, -1), < 0);
    REFUSES("ddp_weigh", tn_ddp_weigh(ddp, NAN), < 0);
    REFUSES("ddp_weigh", tn_ddp_weigh(ddp, INFINITY), < 0);
    REFUSES("ddp_join", tn_ddp_join(ddp, true), == false);
    is_int(tn_ddp_weigh(ddp, 0), TN_OK, "no weight");
    tn_backward(tn_sum(tn_forward(net, tn_ones(tn_dims(1, 2)))));
    REFUSES("ddp_weigh", tn_ddp_weigh(ddp, 1), < 0);
    ok(!tn_ddp_next(ddp) && !tn_error() &&
           !tn_tensor_grad(tn_module_parameter(net, "weight")) &&
           isnan(tn_ddp_loss(ddp)), "a step in which no shard counts");
    ok(!tn_ddp_join(ddp, false) && tn_ddp_join(ddp, true) && !tn_error(),
       "alone, join returns its argument");
}

/* Options of a job. Each is refused before a job is opened. */
static void check_init(void)
{
    REFUSES("dist_init", tn_dist_init(.rank = 0), < 0);
    REFUSES("dist_init", tn_dist_init(.count = 1), < 0);
    REFUSES("dist_init", tn_dist_init(.rank = 1, .count = 1), < 0);
    REFUSES("dist_init", tn_dist_init(.rank = -1, .count = 2), < 0);
    REFUSES("dist_init", tn_dist_init(.rank = 0, .count = INT64_MAX), < 0);
    REFUSES("dist_init", tn_dist_init(.timeout = 0), < 0);
    REFUSES("dist_init", tn_dist_init(.timeout = -INFINITY), < 0);
    REFUSES("dist_init", tn_dist_init(.timeout = NAN), < 0);
    REFUSES("dist_init", tn_dist_init(.rank = 0, .count = 2, .engine = "none"),
            < 0);
    REFUSES("dist_init", tn_dist_init(.rank = 0, .count = 300), < 0);
    REFUSES("dist_world", tn_dist_world(), == NULL);
    is_int(tn_dist_rank(), 0, "rank 0 before");
    is_int(tn_dist_size(), 1, "of 1");
    tn_dist_close();
    ok(!tn_error(), "closing no job is allowed");
}

/* Variables "A=1 B=2": dist_init fails with these words. */
static void check_variables(const char *variables, const char *words)
{
    char copy[512], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", variables);
    for (char *v = strtok_r(copy, " ", &rest); v; v = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(v, '=');
        *value = 0;
        setenv(v, value + 1, 1);
    }
    tn_error_clear();
    const bool refused = tn_dist_init() == TN_ERR_ARGUMENT;
    if (!ok(refused && tn_error() && strstr(tn_error(), words), "%s: %s",
            variables, words))
        note("%s", tn_error() ? tn_error() : "no error");
    tn_error_clear();
    tn_dist_close();
    snprintf(copy, sizeof copy, "%s", variables);
    for (char *v = strtok_r(copy, " ", &rest); v; v = strtok_r(NULL, " ", &rest)) {
        *strchr(v, '=') = 0;
        unsetenv(v);
    }
}

/* Each launcher alone, and contradictions of each to the one before it. */
static void check_environment(void)
{
    static const struct {
        const char *rank, *size;
    } names[] = {{"TENON_RANK", "TENON_SIZE"},
                 {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                 {"PMI_RANK", "PMI_SIZE"},
                 {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                 {"RANK", "WORLD_SIZE"}};
    char text[256], words[128];
    for (int i = 0; i < 5; i++) {
        const char *r = names[i].rank, *n = names[i].size,
                   *step = i == 3 ? " SLURM_STEP_ID=0" : "";
        snprintf(text, sizeof text, "%s=0%s", r, step);
        snprintf(words, sizeof words, "%s is set without %s", r, n);
        check_variables(text, words);
        snprintf(text, sizeof text, "%s=2%s", n, step);
        snprintf(words, sizeof words, "%s is set without %s", n, r);
        check_variables(text, words);
        snprintf(text, sizeof text, "%s=2 %s=2%s", r, n, step);
        check_variables(text, "expected a rank below");
        snprintf(text, sizeof text, "%s=x %s=2%s", r, n, step);
        check_variables(text, "is \"x\": expected a number");
        snprintf(text, sizeof text, "%s=0 %s=0%s", r, n, step);
        check_variables(text, "expected a rank below");
        if (i == 0)
            continue;
        /* What comes first in the order is named first. */
        const char *before = names[i == 3 ? 0 : i - 1].rank;
        snprintf(text, sizeof text, "%s=0 %s=3%s %s=1 %s=3 SLURM_STEP_ID=0", before,
                 names[i == 3 ? 0 : i - 1].size, step, r, n);
        snprintf(words, sizeof words, "%s says rank 0 of 3, %s says rank 1 of 3",
                 before, r);
        check_variables(text, words);
    }
    check_variables("PMI_RANK=0 PMI_SIZE=1 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 "
                    "SLURM_STEP_ID=0", "--mpi=pmix");
    check_variables("RANK=0 WORLD_SIZE=2 MASTER_PORT=x", "MASTER_PORT is \"x\"");
    check_variables("TENON_TIMEOUT=0", "the timeout is 0 s");
    /* Options come before all. */
    setenv("TENON_RANK", "0", 1);
    setenv("TENON_SIZE", "2", 1);
    REFUSES("dist_init", tn_dist_init(.rank = 1, .count = 2), < 0);
    unsetenv("TENON_RANK");
    unsetenv("TENON_SIZE");
}

/* Groups and handles that outlive their job. */
static void check_closed(void)
{
    tn_group *half = tn_group_split(world, 0);
    tn_keep(world);
    tn_dist_close();
    REFUSES("dist_barrier", tn_dist_barrier(half), < 0);
    REFUSES("dist_all_reduce", tn_dist_all_reduce(x, world), < 0);
    tn_drop(world);
    is_int(tn_dist_init(), TN_OK, "a job after a job");
    REFUSES("dist_barrier", tn_dist_barrier(half), < 0);
    is_int(tn_dist_barrier(tn_dist_world()), TN_OK, "works");
    is_str(tn_dist_engine(), "", "and needs no engine");
    tn_dist_close();
}

int main(void)
{
    plan_later();
    check_init();
    check_environment();
    is_int(tn_dist_init(), TN_OK, "alone: a job of one rank");
    world = tn_dist_world();
    x = tn_ones(tn_dims(4));
    net = tn_nn_linear(2, 2);
    device = tn_device_current();
    check_bad(NULL);
    check_bad(x);
    check_pending();
    check_numbers();
    check_closed();
    return done_testing();
}
