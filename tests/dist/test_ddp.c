/* test_ddp.c: data parallel training: the same bits for every number of ranks,
 * the gradients of one process, and what is refused. */
#include "ranks.h"

#include <tenon/parallel.h>
#include <tenon/tenon.h>

enum { STEPS = 6, ROWS = 24 };

/* ---- models --------------------------------------------------------------- */

/* A convolution with batch norm, dropout, and a layer that is not always
 * used. */
typedef struct net {
    tn_module base;
    tn_module *conv, *norm, *fc, *rare, *drop, *never;
} net;
static int64_t net_step;

static tn_tensor *net_forward(tn_module *self, tn_tensor *x)
{
    net *n = (net *)self;
    x = tn_relu(tn_forward(n->norm, tn_forward(n->conv, x)));
    x = tn_forward(n->drop, tn_flatten(x, .start_dim = 1));
    tn_tensor *y = tn_forward(n->fc, x);
    return net_step % 2 ? tn_add(y, tn_forward(n->rare, x)) : y;
}
static const tn_module_class net_class =
    TN_MODULE_CLASS(net, "Net", .forward = net_forward);

static tn_module *net_new(void)
{
    net *n = tn_module_new(&net_class);
    TN_MODULE_ADD(n, conv, tn_nn_conv2d(1, 4, 3));
    TN_MODULE_ADD(n, norm, tn_nn_batch_norm2d(4));
    TN_MODULE_ADD(n, fc, tn_nn_linear(64, 3));
    TN_MODULE_ADD(n, rare, tn_nn_linear(64, 3));
    TN_MODULE_ADD(n, drop, tn_nn_dropout(0.25));
    TN_MODULE_ADD(n, never, tn_nn_linear(64, 3));
    return (tn_module *)n;
}

/* The rows of a shard of a batch that the step determines. */
static tn_tensor *rows(int64_t step, int64_t shard, int64_t shards)
{
    tn_rng_state before = tn_rng_snapshot();
    tn_manual_seed(1000 + (uint64_t)step);
    tn_tensor *all = tn_randn(tn_dims(ROWS, 1, 6, 6));
    tn_rng_restore(before);
    int64_t n = ROWS / shards;
    return tn_narrow(all, 0, shard * n, n);
}

static tn_tensor *loss_of(tn_module *model, tn_tensor *x)
{
    return tn_mean(tn_square(tn_forward(model, x)));
}

static uint64_t hash_of(const void *data, size_t bytes, uint64_t h)
{
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return h;
}

/* Parameters, buffers, losses and the random generator of a training. */
static uint64_t hash_model(tn_module *model, uint64_t h)
{
    tn_parameter_list *state = tn_module_state(model);
    for (int i = 0; i < tn_parameters_count(state); i++) {
        tn_tensor *x = tn_parameters_at(state, i);
        h = hash_of(tn_tensor_data(x),
                    (size_t)tn_tensor_numel(x) * tn_dtype_bytes(tn_tensor_dtype(x)),
                    h);
    }
    return h;
}

/* ---- ranks ---------------------------------------------------------------- */

static int fail_with(const char *what)
{
    printf("%s: %s\n", what, tn_error() ? tn_error() : "wrong");
    return 1;
}

/* Trains, and prints a hash of everything. */
static int train(int64_t shards, int64_t bucket_bytes, tn_dtype dtype)
{
    tn_manual_seed(7 + (uint64_t)tn_dist_rank()); /* rank 0's counts */
    tn_module *model = tn_module_to(net_new(), .dtype = dtype);
    tn_ddp *ddp = tn_ddp_new(model, tn_dist_world(), .shards = shards,
                             .bucket_bytes = bucket_bytes);
    tn_manual_seed(3);
    tn_optim *opt = tn_optim_adam(tn_parameters(model), .lr = 0.01,
                                  .weight_decay = 0.1);
    uint64_t h = 0xcbf29ce484222325u;
    for (net_step = 0; net_step < STEPS; net_step++)
        TN_SCOPE(scope) {
            while (tn_ddp_next(ddp)) {
                tn_tensor *x = rows(net_step, tn_ddp_shard(ddp),
                                    tn_ddp_shards(ddp));
                tn_tensor *loss = loss_of(model, tn_to_dtype(x, dtype));
                tn_backward(loss);
                tn_ddp_note(ddp, loss);
            }
            const double mean = tn_ddp_loss(ddp);
            h = hash_of(&mean, sizeof mean, h);
            if (tn_tensor_grad(tn_module_parameter(model, "never.weight")))
                return fail_with("a parameter that no shard uses has a gradient");
            if (!tn_tensor_grad(tn_module_parameter(model, "rare.weight")) !=
                !(net_step % 2))
                return fail_with("a parameter that is used now and then");
            tn_optim_step(opt);
        }
    tn_rng_state now = tn_rng_snapshot();
    h = hash_of(&now, sizeof now, h);
    h = hash_model(model, h);
    if (tn_error())
        return fail_with("training");
    printf("hash %016llx\n", (unsigned long long)h);
    return 0;
}

/* Two shards against the mean of two backward passes without tn_ddp. */
static int compare(void)
{
    tn_manual_seed(1);
    tn_module *model = tn_nn_sequential(tn_nn_linear(36, 8), tn_nn_tanh(),
                                        tn_nn_linear(8, 1));
    tn_ddp *ddp = tn_ddp_new(model, tn_dist_world(), .shards = 4);
    tn_parameter_list *list = tn_parameters(model);
    tn_tensor *want[8];
    tn_tensor *all = NULL;
    for (int s = 0; s < 4; s++) {
        tn_tensor *loss = loss_of(model, tn_flatten(rows(0, s, 4), .start_dim = 1));
        all = all ? tn_add(all, loss) : loss;
    }
    tn_backward(tn_mul_scalar(all, 0.25)); /* outside of a step */
    for (int i = 0; i < tn_parameters_count(list); i++)
        want[i] = tn_clone(tn_tensor_grad(tn_parameters_at(list, i)));
    while (tn_ddp_next(ddp))
        tn_backward(loss_of(model, tn_flatten(rows(0, tn_ddp_shard(ddp), 4),
                                              .start_dim = 1)));
    for (int i = 0; i < tn_parameters_count(list) && !tn_error(); i++) {
        tn_tensor *got = tn_tensor_grad(tn_parameters_at(list, i));
        double far = tn_item(tn_amax(tn_abs(tn_sub(got, want[i]))));
        /* Another order of the same float32 sums. */
        if (!(far <= 1e-6))
            return fail_with(tn_parameters_name(list, i));
    }
    return tn_error() ? fail_with("compare") : 0;
}

/* Rank 1 has another model. */
static int differ(void)
{
    tn_module *model = tn_nn_sequential(
        tn_nn_linear(4, tn_dist_rank() == 1 ? 5 : 6), tn_nn_linear(6, 1));
    tn_ddp_new(model, tn_dist_world());
    printf("%s\n", tn_error() ? tn_error() : "no error");
    return tn_error() && strstr(tn_error(), "0.weight") ? 0 : 1;
}

static int refuse(void)
{
    tn_module *model = tn_nn_linear(3, 1);
    const int size = tn_dist_size();
    int bad = 0;
    if (tn_ddp_new(model, tn_dist_world(), .shards = size * 2 + 1) ||
        !strstr(tn_error(), "expected a multiple"))
        bad = fail_with("shards") && size > 1;
    tn_error_clear();
    if (tn_ddp_new(tn_nn_relu(), tn_dist_world()) ||
        !strstr(tn_error(), "no parameter of net requires"))
        bad |= fail_with("no parameters");
    tn_error_clear();
    tn_ddp *ddp = tn_ddp_new(model, tn_dist_world());
    tn_ddp_note(ddp, tn_ones(TN_SCALAR));
    if (!tn_error() || !strstr(tn_error(), "no shard was begun"))
        bad |= fail_with("a loss outside of a shard");
    tn_error_clear();
    tn_dist_barrier(tn_dist_world()); /* what follows ends the job */
    tn_tensor *x = tn_ones(tn_dims(2, 3));
    while (tn_ddp_next(ddp)) {
        tn_backward(tn_sum(tn_forward(model, x)));
        tn_backward(tn_sum(tn_forward(model, x)));
    }
    if (!tn_error() || !strstr(tn_error(), "call tn_backward once"))
        bad |= fail_with("a second backward");
    tn_error_clear();
    return bad;
}

static int run(const char *name)
{
    int64_t shards = 0, bytes = 1 << 20;
    char what[16] = "", dtype[16] = "float32";
    sscanf(name, "%15[a-z]:%" SCNd64 ":%" SCNd64 ":%15s", what, &shards, &bytes,
           dtype);
    if (tn_dist_init() < 0)
        return fail_with("init");
    int status = !strcmp(what, "train")
                     ? train(shards, bytes, tn_dtype_from_name(dtype))
                 : !strcmp(what, "compare") ? compare()
                 : !strcmp(what, "differ")  ? differ()
                                            : refuse();
    fflush(stdout);
    tn_dist_close();
    return status;
}

/* ---- the judge ------------------------------------------------------------ */

/* The hash that all ranks print, or "" if they do not. */
static const char *hash_from(int count, const char *name)
{
    static ranks r;
    static char hash[32];
    ranks_start(&r, count, name);
    ranks_wait(&r, 60, -1);
    bool good = !r.late && sscanf(r.output[0], "hash %31s", hash) == 1;
    for (int i = 0; i < count; i++)
        good = good && r.status[i] == 0 && !strcmp(r.output[i], r.output[0]);
    if (!good) {
        ranks_show(&r);
        hash[0] = 0;
    }
    return hash;
}

static void same_bits(const char *name, const int *counts, const char *what)
{
    char first[32] = "";
    bool good = true;
    for (int i = 0; counts[i]; i++) {
        const char *hash = hash_from(counts[i], name);
        if (i == 0)
            snprintf(first, sizeof first, "%s", hash);
        else if (strcmp(first, hash))
            note("%d ranks: %s, %d: %s", counts[0], first, counts[i], hash);
        good = good && *hash && !strcmp(first, hash);
    }
    ok(good, "%s", what);
}

int main(int argc, char **argv)
{
    const char *name = ranks_case(argc, argv);
    if (name)
        return run(name);
    plan_later();
    same_bits("train:8:1048576", (const int[]){1, 2, 4, 8, 0},
              "8 shards: the same bits on 1, 2, 4 and 8 ranks");
    same_bits("train:6:1048576", (const int[]){1, 2, 3, 6, 0},
              "6 shards: the same bits on 1, 2, 3 and 6 ranks");
    same_bits("train:4:1048576:bfloat16", (const int[]){1, 2, 4, 0},
              "bfloat16: the same bits on 1, 2 and 4 ranks");
    char large[32];
    snprintf(large, sizeof large, "%s", hash_from(2, "train:4:1048576"));
    const char *small = hash_from(2, "train:4:1");
    ok(*small && !strcmp(small, large), "the size of buckets changes no bit");
    ranks_pass(1, "compare", "the mean of the gradients");
    ranks_pass(4, "compare", "the mean of the gradients");
    ranks_pass(3, "differ", "another model is named by its parameter");
    ranks_pass(2, "refuse", "what is refused");
    return done_testing();
}
