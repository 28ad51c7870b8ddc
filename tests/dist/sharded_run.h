/* sharded_run.h: a training run for the tests of sharded checkpoints, a hash of
 * all its state, and a state that is spread over the ranks. */
#ifndef TN_TESTS_DIST_SHARDED_RUN_H
#define TN_TESTS_DIST_SHARDED_RUN_H

#include "ranks.h"

#include <inttypes.h>
#include <tenon/sharded.h>
#include <tenon/tenon.h>

/* 24 shards: 1, 2, 3, 4 and 8 ranks divide them. 5 steps are an epoch. */
enum { SHARDS = 24, SAMPLES = 100, SAVE = 3, END = 7 };

static uint64_t hash_of(const void *data, size_t bytes, uint64_t h)
{
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return h;
}

static int fail_with(const char *what)
{
    printf("%s: %s\n", what, tn_error() ? tn_error() : "wrong");
    return 1;
}

/* ---- a state that is spread ----------------------------------------------- */

/* A matrix in flat ranges, and one in blocks of columns; this rank has elements
 * i, whose values are i + step, as numbers that say which they are. */
typedef struct spread {
    int rank, ranks;
    int64_t step;
    tn_tensor *flat, *block; /* kept */
} spread;

static const int64_t flat_shape[] = {10, 7}, block_shape[] = {6, 8};

static int64_t part(int64_t whole, int rank, int size)
{
    return whole * rank / size;
}

static bool spread_each(spread *s, bool (*visit)(const tn_piece *piece,
                                                 void *context),
                        void *context)
{
    const int64_t from = part(70, s->rank, s->ranks);
    const int64_t column[] = {0, part(8, s->rank, s->ranks)};
    const tn_piece piece[] = {
        {"other.flat", 2, flat_shape, &from, true, s->flat},
        {"other.block", 2, block_shape, column, false, s->block}};
    return visit(&piece[0], context) && visit(&piece[1], context);
}

static void spread_make(spread *s, int rank, int size)
{
    *s = (spread){rank, size, 0, NULL, NULL};
    s->flat = tn_zeros(
        tn_dims(part(70, rank + 1, size) - part(70, rank, size)));
    s->block = tn_zeros(
        tn_dims(6, part(8, rank + 1, size) - part(8, rank, size)));
}

/* The value of an element of this rank. */
static double spread_value(const spread *s, bool flat, int64_t i)
{
    const int64_t begin = part(8, s->rank, s->ranks);
    const int64_t columns = part(8, s->rank + 1, s->ranks) - begin;
    return (double)(s->step +
                    (flat ? part(70, s->rank, s->ranks) + i
                          : i / columns * 8 + begin + i % columns));
}

static void spread_fill(spread *s, int64_t step)
{
    s->step = step;
    for (int k = 0; k < 2; k++) {
        float *data = tn_tensor_data(k ? s->block : s->flat);
        const int64_t n = tn_tensor_numel(k ? s->block : s->flat);
        for (int64_t i = 0; i < n; i++)
            data[i] = (float)spread_value(s, !k, i);
    }
}

static bool spread_is(spread *s, int64_t step)
{
    bool good = s->step == step;
    for (int k = 0; k < 2; k++) {
        const float *data = tn_tensor_data(k ? s->block : s->flat);
        const int64_t n = tn_tensor_numel(k ? s->block : s->flat);
        for (int64_t i = 0; i < n; i++)
            good = good && data[i] == (float)spread_value(s, !k, i);
    }
    return good;
}

typedef struct visiting {
    tn_piece_visit visit;
    void *context;
} visiting;

static bool visit_piece(const tn_piece *piece, void *context)
{
    visiting *v = context;
    v->visit(piece, v->context);
    return true;
}

static char *spread_pieces(void *object, tn_piece_visit visit, void *context)
{
    spread *s = object;
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, s->step);
    spread_each(s, visit_piece, &(visiting){visit, context});
    return strdup(text);
}

static bool read_piece(const tn_piece *piece, void *context)
{
    return tn_sharded_read(context, piece) == TN_OK;
}

static tn_status spread_load(void *object, const char *text, tn_sharded *saved)
{
    spread *s = object;
    s->step = atoll(text);
    spread_each(s, read_piece, saved);
    return tn_error_code();
}

static tn_sharded_state spread_state(spread *s)
{
    return (tn_sharded_state){sizeof(tn_sharded_state), "other.", spread_pieces,
                              spread_load, s};
}

/* ---- a training run ------------------------------------------------------- */

typedef struct run {
    tn_checkpoint all;
    tn_optim *optim;   /* all.optim, or one whose state is divided (zero) */
    bool zero;
    double value[2];
    tn_ddp *ddp;
    spread other;
} run;

static void run_make(run *r, tn_group *group, bool zero)
{
    const int rank = tn_group_rank(group), size = tn_group_size(group);
    tn_manual_seed(7);
    tn_module *net = tn_nn_sequential(
        tn_nn_conv2d(1, 2, 3), tn_nn_batch_norm2d(2), tn_nn_tanh(),
        tn_nn_flatten(), tn_nn_dropout(0.25), tn_nn_linear(32, 3));
    tn_tensor *x = tn_randn(tn_dims(SAMPLES, 1, 6, 6));
    tn_tensor *y = tn_randint(0, 3, tn_dims(SAMPLES));
    *r = (run){.value = {0.5, 0.25}};
    r->ddp = tn_ddp_new(net, group, .shards = SHARDS);
    tn_manual_seed(3);
    r->all = (tn_checkpoint){
        .size = sizeof r->all, .module = net,
        .loader = tn_loader_new(tn_dataset_from_tensors(x, y), .shuffle = true,
                                .seed = 4, .num_replicas = size, .rank = rank,
                                .shards = SHARDS),
        .scaler = tn_grad_scaler_new(), .average = tn_average_new(net),
        .values = r->value, .value_count = 2};
    r->zero = zero;
    r->optim = tn_optim_adam(tn_parameters(net), .lr = 0.01);
    if (zero)
        r->optim = tn_optim_sharded(r->optim, group);
    else
        r->all.optim = r->optim;
    r->all.schedule = tn_schedule_exponential_lr(r->optim, 0.9);
    spread_make(&r->other, rank, size);
}

/* Trains up to step `end`; calls at_step after each. */
static void run_train(run *r, int64_t end, void (*at_step)(run *r, void *context),
                      void *context)
{
    const int64_t own = SHARDS / tn_dist_size();
    while (r->all.step < end && !tn_error())
        TN_EACH_BATCH(batch, r->all.loader) {
            tn_ddp_next(r->ddp);
            tn_tensor *loss = tn_cross_entropy(
                tn_forward(r->all.module, batch.x), batch.y);
            tn_backward(loss);
            tn_ddp_note(r->ddp, loss);
            if ((batch.index + 1) % own)
                continue;
            tn_ddp_next(r->ddp);
            tn_optim_step(r->optim);
            tn_schedule_step(r->all.schedule);
            tn_average_update(r->all.average);
            r->value[0] += tn_ddp_loss(r->ddp);
            r->all.step++;
            spread_fill(&r->other, r->all.step);
            if (at_step)
                at_step(r, context);
            if (r->all.step == end || tn_error())
                break;
        }
}

static void hash_tensor(const char *name, tn_tensor *x, void *context)
{
    uint64_t *h = context;
    *h = hash_of(name, strlen(name), *h);
    *h = hash_of(tn_tensor_data(x), (size_t)tn_tensor_numel(x) *
                                        tn_dtype_bytes(tn_tensor_dtype(x)), *h);
}

/* What this rank has alone. */
static tn_sharded_state run_state(run *r)
{
    return r->zero ? tn_optim_sharded_state(r->optim) : spread_state(&r->other);
}

/* A hash of all state that does not depend on the number of ranks. That of a
 * divided optimizer shows in the steps that follow. */
static uint64_t run_hash(run *r)
{
    uint64_t h = 0xcbf29ce484222325u;
    TN_SCOPE(scope) {
        tn_parameter_list *state = tn_module_state(r->all.module);
        for (int i = 0; i < tn_parameters_count(state); i++)
            hash_tensor(tn_parameters_name(state, i), tn_parameters_at(state, i),
                        &h);
        for (int i = 0; i < tn_average_count(r->all.average); i++)
            hash_tensor("average", tn_average_at(r->all.average, i), &h);
        char *text = r->zero ? NULL
                             : tn_optim_state(r->optim, hash_tensor, &h);
        h = hash_of(text, text ? strlen(text) : 0, h);
        free(text);
    }
    const int64_t updates = tn_average_updates(r->all.average);
    const tn_loader_position at = tn_loader_tell(r->all.loader);
    const tn_schedule_state schedule = tn_schedule_snapshot(r->all.schedule);
    const tn_grad_scaler_state scaler = tn_grad_scaler_snapshot(r->all.scaler);
    const tn_rng_state random = tn_rng_snapshot();
    h = hash_of(&updates, sizeof updates, h);
    h = hash_of(&at, sizeof at, h);
    h = hash_of(&schedule.steps, sizeof schedule.steps, h);
    h = hash_of(&scaler.scale, sizeof scaler.scale, h);
    h = hash_of(&random, sizeof random, h);
    h = hash_of(&r->all.step, sizeof r->all.step, h);
    return hash_of(r->value, sizeof r->value, h);
}

#endif
