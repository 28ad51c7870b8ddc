/* test_ddp.c: data parallel training: the same bits for every number of ranks,
 * the gradients of one process, and what is refused. */
#include "ranks.h"

#include <tenon/parallel.h>
#include <tenon/tenon.h>

enum { STEPS = 50, ROWS = 24 };

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

/* A transformer with a causal mask and dropout; its position is in the tokens. */
typedef struct gpt {
    tn_module base;
    tn_module *embed, *block, *head;
} gpt;

static tn_tensor *gpt_forward(tn_module *self, tn_tensor *x)
{
    gpt *g = (gpt *)self;
    x = tn_forward(g->embed, x);
    x = tn_nn_transformer_encoder_forward(g->block, x, .is_causal = true);
    return tn_forward(g->head, x);
}
static const tn_module_class gpt_class =
    TN_MODULE_CLASS(gpt, "GPT", .forward = gpt_forward);

static tn_module *gpt_new(void)
{
    gpt *g = tn_module_new(&gpt_class);
    TN_MODULE_ADD(g, embed, tn_nn_embedding(36, 16));
    TN_MODULE_ADD(g, block,
                  tn_nn_transformer_encoder(16, 2, 2, .dim_feedforward = 32,
                                            .dropout = 0.1, .activation = "gelu",
                                            .batch_first = true,
                                            .norm_first = true));
    TN_MODULE_ADD(g, head, tn_nn_linear(16, 36));
    return (tn_module *)g;
}

/* Two layers with dropout between them, and a linear layer. */
static tn_module *lstm_new(void)
{
    return tn_nn_sequential(tn_nn_lstm(6, 8, .num_layers = 2, .dropout = 0.2,
                                       .batch_first = true),
                            tn_nn_linear(8, 3));
}

/* What a model of a kind takes: images, rows of tokens, or of features. */
static tn_tensor *input_for(const char *kind, tn_tensor *x)
{
    if (!strcmp(kind, "lstm"))
        return tn_reshape(x, tn_dims(-1, 6, 6));
    if (strcmp(kind, "gpt"))
        return x;
    x = tn_clamp_scalars(tn_mul_scalar(tn_add_scalar(x, 3), 6), 0, 35);
    return tn_to_dtype(tn_reshape(x, tn_dims(-1, 36)), TN_I64);
}

static tn_module *model_of(const char *kind)
{
    return !strcmp(kind, "gpt")    ? gpt_new()
           : !strcmp(kind, "lstm") ? lstm_new()
                                   : net_new();
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

/* Trains, and prints a hash of everything. divided: the state of the optimizer is
 * divided among the ranks. */
static int train(const char *kind, int64_t shards, int64_t bucket_bytes,
                 tn_dtype dtype, bool divided)
{
    tn_manual_seed(7 + (uint64_t)tn_dist_rank()); /* rank 0's counts */
    tn_module *model = tn_module_to(model_of(kind), .dtype = dtype);
    tn_ddp *ddp = tn_ddp_new(model, tn_dist_world(), .shards = shards,
                             .bucket_bytes = bucket_bytes);
    tn_manual_seed(3);
    tn_optim *opt = tn_optim_adam(tn_parameters(model), .lr = 0.01,
                                  .weight_decay = 0.1);
    if (divided)
        opt = tn_optim_sharded(opt, tn_dist_world(), .bucket_bytes = 1000);
    const bool rare = !strcmp(kind, "train");
    uint64_t h = 0xcbf29ce484222325u;
    for (net_step = 0; net_step < STEPS; net_step++)
        TN_SCOPE(scope) {
            while (tn_ddp_next(ddp)) {
                tn_tensor *x = rows(net_step, tn_ddp_shard(ddp),
                                    tn_ddp_shards(ddp));
                x = input_for(kind, rare ? tn_to_dtype(x, dtype) : x);
                tn_tensor *loss = loss_of(model, x);
                tn_backward(loss);
                tn_ddp_note(ddp, loss);
            }
            const double mean = tn_ddp_loss(ddp);
            h = hash_of(&mean, sizeof mean, h);
            if (rare && tn_tensor_grad(tn_module_parameter(model, "never.weight")))
                return fail_with("a parameter that no shard uses has a gradient");
            if (rare && !tn_tensor_grad(tn_module_parameter(model,
                                                            "rare.weight")) !=
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

/* ---- weights, uneven inputs, options -------------------------------------- */

static tn_module *small_new(void)
{
    tn_manual_seed(1);
    return tn_nn_sequential(tn_nn_linear(36, 8), tn_nn_tanh(),
                            tn_nn_linear(8, 1));
}

/* Rows begin .. begin + count of the batch of a step. */
static tn_tensor *some_rows(int64_t step, int64_t begin, int64_t count)
{
    return tn_narrow(tn_flatten(rows(step, 0, 1), .start_dim = 1), 0, begin, count);
}

/* Largest difference between the gradients of two models of the same kind. */
static double grad_distance(tn_module *a, tn_module *b)
{
    tn_parameter_list *p = tn_parameters(a), *q = tn_parameters(b);
    double most = 0;
    for (int i = 0; i < tn_parameters_count(p) && !tn_error(); i++) {
        double far = tn_item(tn_amax(tn_abs(
            tn_sub(tn_tensor_grad(tn_parameters_at(p, i)),
                   tn_tensor_grad(tn_parameters_at(q, i))))));
        most = far > most || isnan(far) ? far : most;
    }
    return tn_error() ? NAN : most;
}

/* Twelve shards of 0 to 4 rows, weighed by their rows, are one batch. A shard of
 * weight 0 may hold NaN. */
static int weights(void)
{
    static const int64_t count[12] = {1, 2, 0, 3, 4, 1, 1, 2, 4, 0, 3, 3};
    tn_module *model = small_new(), *alone = tn_module_clone(model);
    tn_ddp *ddp = tn_ddp_new(model, tn_dist_world(), .shards = 12);
    tn_tensor *loss = loss_of(alone, some_rows(0, 0, 24));
    tn_backward(loss);
    while (tn_ddp_next(ddp)) {
        const int64_t s = tn_ddp_shard(ddp);
        int64_t begin = 0;
        for (int64_t i = 0; i < s; i++)
            begin += count[i];
        tn_ddp_weigh(ddp, (double)count[s]);
        tn_tensor *x = count[s] ? some_rows(0, begin, count[s])
                                : tn_full(tn_dims(1, 36), NAN);
        tn_tensor *part = loss_of(model, x);
        tn_backward(part);
        tn_ddp_note(ddp, part);
    }
    /* Another order of the same float32 sums. */
    if (!(grad_distance(model, alone) <= 1e-6) ||
        !(fabs(tn_ddp_loss(ddp) - tn_item(loss)) <= 1e-6))
        return fail_with("weights");
    uint64_t h = 0xcbf29ce484222325u;
    tn_parameter_list *list = tn_parameters(model);
    for (int i = 0; i < tn_parameters_count(list); i++) {
        tn_tensor *g = tn_tensor_grad(tn_parameters_at(list, i));
        h = hash_of(tn_tensor_data(g), (size_t)tn_tensor_numel(g) * 4, h);
    }
    printf("hash %016llx\n", (unsigned long long)h);
    return 0;
}

/* Rank r has 3 + 2 r batches of one row; then it goes on without. Batch norm
 * counts its batches: all ranks agree. */
static int join_uneven(void)
{
    const int rank = tn_dist_rank(), size = tn_dist_size();
    tn_manual_seed(1);
    tn_module *model = tn_nn_sequential(tn_nn_linear(36, 8),
                                        tn_nn_batch_norm1d(8),
                                        tn_nn_linear(8, 1));
    tn_ddp *ddp = tn_ddp_new(model, tn_dist_world());
    tn_optim *opt = tn_optim_sgd(tn_parameters(model), .lr = 0.01);
    int steps = 0, own = 3 + 2 * rank;
    for (; tn_ddp_join(ddp, steps < own); steps++)
        TN_SCOPE(scope) {
            const bool has = steps < own;
            while (tn_ddp_next(ddp)) {
                /* In step 5 one rank is left: its weight is the number of ranks. */
                tn_ddp_weigh(ddp, !has ? 0 : steps == 5 ? size : 2 + rank);
                if (has)
                    tn_backward(loss_of(model, some_rows(steps, 3 * rank,
                                                         2 + rank)));
            }
            tn_optim_step(opt);
        }
    if (tn_error() || steps != 3 + 2 * (size - 1))
        return fail_with("join");
    if (tn_item_int(tn_module_buffer(model, "1.num_batches_tracked")) != steps)
        return fail_with("batches that batch norm has counted");
    printf("hash %016llx\n", (unsigned long long)hash_model(model, 1));
    return 0;
}

/* bfloat16 on the way: rounded, but added in float32, and the same everywhere. */
static int reduce_half(int64_t shards)
{
    tn_module *model = small_new(), *exact = tn_module_clone(model);
    tn_ddp *ddp = tn_ddp_new(model, tn_dist_world(), .shards = shards,
                             .reduce_dtype = TN_BF16);
    tn_ddp *wide = tn_ddp_new(exact, tn_dist_world(), .shards = shards);
    const int64_t n = tn_ddp_shards(ddp);
    while (tn_ddp_next(ddp))
        tn_backward(loss_of(model, some_rows(0, 2 * tn_ddp_shard(ddp), 2)));
    while (tn_ddp_next(wide))
        tn_backward(loss_of(exact, some_rows(0, 2 * tn_ddp_shard(wide), 2)));
    /* Two roundings, each by at most half of 2^-7 of the largest sum. */
    double most = 0;
    tn_parameter_list *list = tn_parameters(exact);
    for (int i = 0; i < tn_parameters_count(list) && !tn_error(); i++) {
        double one = tn_item(tn_amax(tn_abs(
            tn_tensor_grad(tn_parameters_at(list, i)))));
        most = one > most ? one : most;
    }
    const double far = grad_distance(model, exact);
    if (tn_error() || !(far > 0) || !(far <= most * (double)n / 64))
        return fail_with("bfloat16");
    uint64_t h = 1;
    list = tn_parameters(model);
    for (int i = 0; i < tn_parameters_count(list); i++) {
        tn_tensor *g = tn_tensor_grad(tn_parameters_at(list, i));
        h = hash_of(tn_tensor_data(g), (size_t)tn_tensor_numel(g) * 4, h);
    }
    printf("hash %016llx\n", (unsigned long long)h);
    return 0;
}

/* .buffers = "first": the batch statistics of shard 0, on all ranks. */
static int first_buffers(void)
{
    tn_manual_seed(1);
    tn_module *model = tn_nn_sequential(tn_nn_linear(36, 8),
                                        tn_nn_batch_norm1d(8));
    tn_module *alone = tn_module_clone(model);
    tn_ddp *ddp = tn_ddp_new(model, tn_dist_world(), .shards = 4,
                             .buffers = "first");
    TN_NO_GRAD tn_forward(alone, some_rows(0, 0, 5));
    while (tn_ddp_next(ddp))
        tn_backward(loss_of(model, some_rows(0, 5 * tn_ddp_shard(ddp), 5)));
    if (tn_item(tn_equal(tn_module_buffer(model, "1.running_var"),
                         tn_module_buffer(alone, "1.running_var"))) != 1)
        return fail_with("buffers of shard 0");
    return tn_error() ? fail_with("first") : 0;
}

/* The layers are registered in one order and used in another. In the second step
 * the first bucket has the gradient that arrived first in the first: the message
 * about rank 1, which has left, says so. */
typedef struct swapped {
    tn_module base;
    tn_module *used_last, *used_first;
} swapped;
static tn_tensor *swapped_forward(tn_module *self, tn_tensor *x)
{
    swapped *s = (swapped *)self;
    return tn_forward(s->used_last, tn_forward(s->used_first, x));
}
static const tn_module_class swapped_class =
    TN_MODULE_CLASS(swapped, "Swapped", .forward = swapped_forward);

static int learn_order(void)
{
    swapped *s = tn_module_new(&swapped_class);
    TN_MODULE_ADD(s, used_last, tn_nn_linear(5, 2, .bias = false));
    TN_MODULE_ADD(s, used_first, tn_nn_linear(3, 5, .bias = false));
    tn_ddp *ddp = tn_ddp_new((tn_module *)s, tn_dist_world(), .bucket_bytes = 1);
    for (int step = 0; step < 2; step++)
        while (tn_ddp_next(ddp)) {
            if (step == 1 && tn_dist_rank() == 1)
                tn_dist_barrier(tn_dist_world());
            tn_backward(tn_sum(tn_forward((tn_module *)s,
                                          tn_ones(tn_dims(2, 3)))));
        }
    printf("%s\n", tn_error() ? tn_error() : "no error");
    return tn_error() && strstr(tn_error(), "bucket 0 (used_last.weight)") ? 0 : 1;
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

/* Ranks that train other parameters of the same size, or have other shards, would
 * add what does not belong together. */
static int differ_otherwise(const char *how)
{
    const bool second = tn_dist_rank() == 1, shards = strcmp(how, "shards") == 0;
    tn_module *model = tn_nn_sequential(
        tn_nn_linear(4, 4, .bias = false), tn_nn_linear(4, 4, .bias = false),
        tn_nn_linear(4, 4, .bias = false));
    if (!shards)
        tn_tensor_set_requires_grad(
            tn_parameters_at(tn_parameters(model), second ? 0 : 1), false);
    tn_ddp *ddp = tn_ddp_new(model, tn_dist_world(),
                             .shards = shards && second ? 4 : 8);
    printf("%s\n", tn_error() ? tn_error() : "no error");
    const char *named = shards ? ".shards = 4" : "0.weight without gradient";
    return !ddp && tn_error() && strstr(tn_error(), named) ? 0 : 1;
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

/* Two tn_ddp of one model; a loss of several elements. */
static int twice(void)
{
    tn_module *model = tn_nn_linear(3, 1);
    tn_tensor *x = tn_ones(tn_dims(2, 3));
    tn_ddp *one = tn_ddp_new(model, tn_dist_world());
    tn_ddp *two = tn_ddp_new(model, tn_dist_world());
    int bad = 0;
    if (!tn_ddp_next(one) || !tn_ddp_next(two))
        return fail_with("two shards");
    if (tn_ddp_note(one, x) >= 0 ||
        !strstr(tn_error(), "ddp_note: loss has 6 elements"))
        bad = fail_with("a loss of six");
    tn_error_clear();
    tn_backward(tn_sum(tn_forward(model, x)));
    if (!tn_error() || !strstr(tn_error(), "perhaps of a second tn_ddp"))
        bad |= fail_with("two of one model");
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
    const bool divided = !strcmp(what, "zero");
    int status = divided || !strcmp(what, "train") || !strcmp(what, "gpt") ||
                         !strcmp(what, "lstm")
                     ? train(divided ? "train" : what, shards, bytes,
                             tn_dtype_from_name(dtype), divided)
                 : !strcmp(what, "compare") ? compare()
                 : !strcmp(what, "differ")  ? differ()
                 : !strcmp(what, "shards")  ? differ_otherwise(what)
                 : !strcmp(what, "trained") ? differ_otherwise(what)
                 : !strcmp(what, "weights") ? weights()
                 : !strcmp(what, "join")    ? join_uneven()
                 : !strcmp(what, "half")    ? reduce_half(shards)
                 : !strcmp(what, "first")   ? first_buffers()
                 : !strcmp(what, "order")   ? learn_order()
                 : !strcmp(what, "twice")   ? twice()
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
    same_bits("gpt:8:1048576", (const int[]){1, 2, 4, 8, 0},
              "a transformer with dropout: the same bits on 1, 2, 4 and 8 ranks");
    same_bits("lstm:8:1048576", (const int[]){1, 2, 4, 8, 0},
              "an LSTM: the same bits on 1, 2, 4 and 8 ranks");
    char whole[32];
    snprintf(whole, sizeof whole, "%s", hash_from(2, "train:8:1048576"));
    bool divided = *whole;
    for (int n = 1; n <= 8; n *= 2)
        divided = divided && !strcmp(hash_from(n, "zero:8:1048576"), whole);
    ok(divided, "a divided optimizer: the same bits on 1, 2, 4 and 8 ranks");
    same_bits("weights", (const int[]){1, 2, 3, 4, 0},
              "weights: the mean over rows, the same bits on 1 to 4 ranks");
    same_bits("join", (const int[]){3, 0}, "ranks that run out of batches");
    same_bits("half", (const int[]){4, 0}, "gradients that travel in bfloat16");
    same_bits("half:6", (const int[]){2, 0},
              "gradients of three shards that travel in bfloat16");
    ranks_pass(1, "first", "buffers of shard 0");
    ranks_pass(2, "first", "buffers of shard 0");
    ranks_pass(2, "order", "buckets in the order in which gradients arrived");
    char large[32];
    snprintf(large, sizeof large, "%s", hash_from(2, "train:4:1048576"));
    const char *small = hash_from(2, "train:4:1");
    ok(*small && !strcmp(small, large), "the size of buckets changes no bit");
    ranks_pass(1, "compare", "the mean of the gradients");
    ranks_pass(4, "compare", "the mean of the gradients");
    ranks_pass(3, "differ", "another model is named by its parameter");
    ranks_pass(2, "trained", "other trained parameters are named");
    ranks_pass(2, "shards", "another number of shards is named");
    ranks_pass(2, "refuse", "what is refused");
    ranks_pass(1, "twice", "two of one model");
    return done_testing();
}
