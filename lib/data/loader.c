/* loader.c: the loader. It decides which samples form a batch and in which
 * order, keeps the position in an epoch, and opens a scope for each batch. An
 * order is an array of sample indices. */
#include <data/dataset.h>
#include <data/order.h>
#include <data/stream.h>
#include <data/upload.h>
#include <data/workers.h>

#include <base/error.h>
#include <base/memory.h>
#include <math.h>
#include <string.h>
#include <tenon/data.h>
#include <tenon/random.h>
#include <tenon/trace.h>

enum { MAX_WORKERS = 256 };

struct tn_loader {
    tn__object object;
    tn_dataset *set;   /* counted reference */
    int64_t batch_size;
    bool shuffle, replacement, drop_last;
    int workers;
    double *sums;      /* owned; prefix sums of the weights, for draws with
                          replacement; else NULL */
    double *weights;   /* owned; the weights, for draws without replacement */
    double *tree;      /* owned; space that tn__order_draw_distinct needs */
    int64_t *base_order; /* owned; the option order; NULL for the whole set */
    int64_t base_count;  /* samples in base_order, or in the set */
    int64_t drawn_count; /* samples of an epoch, over all replicas */
    int num_replicas, rank;
    int64_t *lengths;  /* owned; the option lengths; NULL if not given */
    tn__order_length *bucket; /* owned; space for one bucket */
    int64_t bucket_count;     /* samples in a bucket: bucket_batches batches */
    tn_collate collate; /* NULL if samples are stacked */
    void *collate_context; /* not owned */
    tn__stream *stream; /* owned by the set; NULL if it has indices */
    tn__stream_share share;
    uint64_t stream_loop;
    int64_t *order;    /* owned; this replica's samples in the current epoch */
    int64_t order_count;
    uint64_t seed;
    uint64_t epoch;    /* the current epoch; between loops the next one */
    int64_t next;      /* number of the next batch in the epoch */
    bool running;      /* a loop has begun the epoch and not ended it */
    tn_device *device; /* device to copy batches to, or NULL */
    tn__upload *upload; /* owned; made in the first epoch that has workers and a
                           device */
    tn__team *team;    /* owned; NULL if no batches are prefetched */
};

static void destroy(tn__object *object)
{
    tn_loader *loader = (tn_loader *)object;
    tn__team_stop(loader->team);
    tn__upload_free(loader->upload);
    tn__unref(loader->set);
    tn__free(loader->sums);
    tn__free(loader->weights);
    tn__free(loader->tree);
    tn__free(loader->base_order);
    tn__free(loader->lengths);
    tn__free(loader->bucket);
    tn__free(loader->order);
    tn__object_free(loader, sizeof *loader);
}

static const tn__class loader_class = {.name = "loader",
                                       .destroy = destroy};

/* ---- making ------------------------------------------------------------- */

static tn_status check_order(const tn_dataset *set,
                             const tn_loader_new_options *options)
{
    if (options->order_count < 0)
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_new: {order_count} is %lld; expected 0 or more",
                        (long long)options->order_count);
    if (tn__data_check("loader_new", "order_count", "order_count",
                       options->order_count) < 0)
        return tn_error_code();
    for (int64_t i = 0; i < options->order_count; i++) {
        if (options->order[i] < 0 || options->order[i] >= set->count)
            return tn__fail_outside(
                TN_ERR_INDEX,
                (tn__error_index){
                    true, options->order[i], 0, set->count, 1, {i}},
                "loader_new: {order}[%lld] is %lld, outside the set's [0, "
                "%lld)",
                (long long)i, (long long)options->order[i],
                (long long)set->count);
    }
    return TN_OK;
}

static bool has_count(const tn_loader_new_options *all)
{
    return all->sample_count != TN_NONE_INT;
}

static tn_status check_weights(const tn_dataset *set,
                               const tn_loader_new_options *options)
{
    if (options->weight_count != set->count)
        return tn__fail(
            TN_ERR_ARGUMENT,
            "loader_new: {weight_count:}%lld weights for a set of %lld "
            "samples; expected one for each",
            (long long)options->weight_count,
            (long long)set->count);
    double sum = 0;
    int64_t positive = 0,
            wanted = has_count(options) ? options->sample_count : set->count;
    for (int64_t i = 0; i < options->weight_count; i++) {
        positive += options->weights[i] > 0;
        if (!(options->weights[i] >= 0) || isinf(options->weights[i]))
            return tn__fail(
                TN_ERR_ARGUMENT,
                "loader_new: {weights}[%lld] is %g; expected a finite number "
                "of at least 0",
                (long long)i, options->weights[i]);
        sum += options->weights[i];
    }
    if (!(sum > 0) || isinf(sum))
        return tn__fail(
            TN_ERR_ARGUMENT,
            "loader_new: {weights:}the weights' sum is %g; expected a finite "
            "number above 0",
            sum);
    if (options->distinct && wanted > positive)
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_new: {sample_count:}%lld samples without "
                        "replacement, but %lld of "
                        "the weights are above 0: give a smaller sample_count",
                        (long long)wanted, (long long)positive);
    return TN_OK;
}

static tn_status check_replicas(const tn_loader_new_options *options)
{
    int replicas = options->num_replicas;
    if (replicas < 1)
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_new: {num_replicas} is %d; expected 1 or more",
                        replicas);
    if (options->rank < 0 || options->rank >= replicas)
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_new: {rank} is %d, outside [0, %d), the "
                        "num_replicas",
                        options->rank, replicas);
    return TN_OK;
}

/* Checks that at most one option that chooses samples is given; only order and
 * shuffle may be combined. */
static tn_status check_choice(const tn_loader_new_options *options)
{
    struct {
        bool given;
        const char *name;
    } way[] = {{options->order, "order"},
               {options->shuffle, "shuffle"},
               {options->replacement, "replacement"},
               {options->weights, "weights"}};
    const char *first = NULL;
    if (options->order && options->shuffle)
        way[0].given = false;
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        if (way[i].given && first)
            return tn__fail(TN_ERR_ARGUMENT,
                            "loader_new: both {%s} and {%s} are given: give "
                            "one of them", first, way[i].name);
        if (way[i].given)
            first = way[i].name;
    }
    return TN_OK;
}

TN_OPTIONS_TYPE(tn_loader_new, "loader_new", "set", TN_LOADER_NEW_OPTIONS_LIST)

static tn_status check_needs(const tn_loader_new_options *all)
{
    bool drawn = all->shuffle || all->replacement || all->weights;
    const tn_option_need need[] = {
        {"sample_count", drawn, "without shuffle, replacement or weights",
         "give one of them"},
        {"distinct", all->weights != NULL, "without weights", "give weights"},
        {"bucket_batches", all->lengths != NULL, "without lengths",
         "give lengths"},
        {"collate_context", all->collate != NULL, "without collate",
         "give collate"}};
    return tn_options_check_needs(tn_loader_new_type(), all, need, 4);
}

/* Rejects a list that is NULL although its count is given: making it has
 * failed. */
static tn_status check_lists(const tn_loader_new_options *options)
{
    const struct {
        const void *list;
        int64_t count;
        const char *name, *count_name;
    } all[] = {
        {options->order, options->order_count, "order", "order_count"},
        {options->weights, options->weight_count, "weights", "weight_count"},
        {options->lengths, options->length_count, "lengths", "length_count"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].list && all[i].count != 0)
            return tn__fail(TN_ERR_ARGUMENT,
                            "loader_new: {%s} is NULL, but %s is %lld",
                            all[i].name, all[i].count_name,
                            (long long)all[i].count);
    }
    return TN_OK;
}

static tn_status check_lengths(const tn_dataset *set,
                               const tn_loader_new_options *all)
{
    if (all->lengths && all->length_count != set->count)
        return tn__fail(
            TN_ERR_ARGUMENT,
            "loader_new: {length_count:}%lld lengths for a set of %lld "
            "samples; expected one for each",
            (long long)all->length_count, (long long)set->count);
    if (all->bucket_batches < 1)
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_new: {bucket_batches} is %lld; expected 1 or "
                        "more",
                        (long long)all->bucket_batches);
    return TN_OK;
}

/* Rejects options that need indices if the data set is a stream. */
static tn_status check_stream(const tn_loader_new_options *all)
{
    const char *name = all->shuffle       ? "shuffle"
                       : all->order       ? "order"
                       : all->replacement ? "replacement"
                       : all->weights     ? "weights"
                       : all->lengths     ? "lengths"
                                          : NULL;
    return name ? tn__fail(TN_ERR_ARGUMENT,
                           "loader_new: {%s} is given for a stream, whose "
                           "samples come in their own order",
                           name)
                : TN_OK;
}

static tn_status check(const tn_dataset *set, const tn_loader_new_options *all)
{
    bool drawn = all->replacement || all->weights;
    if (all->batch_size < 1)
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_new: {batch_size} is %lld; expected 1 or more",
                        (long long)all->batch_size);
    if (all->workers < 0 || all->workers > MAX_WORKERS)
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_new: {workers} is %d; 0 to %d are allowed",
                        all->workers, MAX_WORKERS);
    tn_status status = check_lists(all);
    if (status == TN_OK)
        status = check_needs(all);
    if (status == TN_OK && tn__dataset_stream(set))
        status = check_stream(all);
    if (status == TN_OK)
        status = check_lengths(set, all);
    if (status == TN_OK)
        status = check_choice(all);
    if (status == TN_OK && all->order)
        status = check_order(set, all);
    if (status == TN_OK)
        status = check_replicas(all);
    if (status < 0)
        return status;
    if (has_count(all) && all->sample_count < 1)
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_new: {sample_count} is %lld; expected 1 or "
                        "more",
                        (long long)all->sample_count);
    if ((has_count(all) &&
         tn__data_check("loader_new", "sample_count", "sample_count",
                        all->sample_count) < 0) ||
        tn__data_check("loader_new", "set", "the set's count", set->count) < 0)
        return tn_error_code();
    if (all->weights && check_weights(set, all) < 0)
        return tn_error_code();
    int64_t count = all->order ? all->order_count : set->count;
    if ((drawn || has_count(all)) && !count)
        return tn__fail(
            TN_ERR_ARGUMENT,
            "loader_new: {set:}samples cannot be drawn from an empty set");
    return TN_OK;
}

static void *copy_of(const void *list, int64_t count, size_t bytes)
{
    void *copy = tn__alloc_many(count, bytes);
    if (copy && count)
        memcpy(copy, list, (size_t)count * bytes);
    return copy;
}

/* Returns the number of samples that all replicas together use for one
 * batch. */
static int64_t unit_of(const tn_loader *loader)
{
    int64_t unit;
    return __builtin_mul_overflow(loader->batch_size,
                                  (int64_t)loader->num_replicas, &unit)
               ? INT64_MAX
               : unit;
}

static bool take_lengths(tn_loader *loader, const tn_loader_new_options *all)
{
    int64_t run;
    if (__builtin_mul_overflow(unit_of(loader), all->bucket_batches, &run) ||
        run > loader->drawn_count)
        run = loader->drawn_count;
    loader->bucket_count = run > 0 ? run : 1;
    loader->lengths =
        copy_of(all->lengths, all->length_count, sizeof *loader->lengths);
    loader->bucket =
        tn__alloc_many(loader->bucket_count, sizeof *loader->bucket);
    return loader->lengths && loader->bucket;
}

/* Copies the lists of checked options. False if memory runs out. */
static bool take_lists(tn_loader *loader, const tn_loader_new_options *all)
{
    /* Space for the larger of two numbers of samples: all drawn ones, or equal
     * shares of all replicas. A shuffled order also needs space to complete its
     * last permutation. */
    int64_t room = loader->order_count * loader->num_replicas;
    if (room < loader->drawn_count)
        room = loader->drawn_count;
    room += loader->shuffle ? loader->base_count : 0;
    loader->order = tn__alloc_many(room, sizeof *loader->order);
    if (!loader->order)
        return false;
    if (all->order &&
        !(loader->base_order = copy_of(all->order, all->order_count,
                                       sizeof *loader->base_order)))
        return false;
    if (all->lengths && !take_lengths(loader, all))
        return false;
    if (!all->weights)
        return true;
    double *copy = copy_of(all->weights, all->weight_count, sizeof *copy);
    if (!copy)
        return false;
    if (all->distinct) {
        loader->weights = copy;
        loader->tree = tn__alloc_many(tn__order_tree_size(all->weight_count),
                                      sizeof *loader->tree);
        return loader->tree;
    }
    loader->sums = copy;
    for (int64_t i = 1; i < all->weight_count; i++)
        copy[i] += copy[i - 1];
    return true;
}

tn_loader *tn_loader_new_with(tn_dataset *set,
                              const tn_loader_new_options *options)
{
    if (!tn__dataset_check(set, "loader_new"))
        return NULL;
    tn_loader_new_options all;
    if (tn_options_take(tn_loader_new_type(), &all, options) < 0)
        return NULL;
    if (check(set, &all) < 0)
        return NULL;
    tn_loader *loader = tn__calloc(1, sizeof *loader);
    if (!loader)
        return NULL;
    tn__object_init(&loader->object, &loader_class);
    loader->set = tn__ref(set);
    loader->batch_size = all.batch_size;
    loader->shuffle = all.shuffle;
    loader->replacement = all.replacement;
    loader->drop_last = all.drop_last;
    loader->workers = all.workers;
    loader->device = all.device;
    loader->seed = all.seed;
    loader->collate = all.collate;
    loader->collate_context = all.collate_context;
    loader->stream = tn__dataset_stream(set);
    loader->share = (tn__stream_share){all.num_replicas, all.rank,
                                       all.drop_uneven};
    loader->base_count = all.order ? all.order_count : set->count;
    loader->drawn_count =
        has_count(&all) ? all.sample_count : loader->base_count;
    loader->num_replicas = all.num_replicas;
    loader->rank = all.rank;
    /* Rounded up, so that each replica has a sample if there is one. */
    loader->order_count =
        (loader->drawn_count +
         (all.drop_uneven ? 0 : loader->num_replicas - 1)) /
        loader->num_replicas;
    if (!take_lists(loader, &all)) {
        tn__unref(loader);
        return NULL;
    }
    return tn__scope_own(loader);
}

int64_t tn_loader_count(const tn_loader *loader)
{
    if (!tn__object_has(loader, &loader_class, "loader_count", "loader"))
        return 0;
    int64_t full = loader->order_count / loader->batch_size;
    bool rest = loader->order_count % loader->batch_size != 0;
    return full + (rest && !loader->drop_last);
}

/* Returns the number of batches in the epoch, unbounded for a stream. */
static int64_t end_of(const tn_loader *loader)
{
    return loader->stream ? INT64_MAX : tn_loader_count(loader);
}

/* ---- position ----------------------------------------------------------- */

tn_loader_state tn_loader_snapshot(const tn_loader *loader)
{
    tn_loader_state none = {0};
    if (!tn__object_has(loader, &loader_class, "loader_snapshot", "loader"))
        return none;
    return (tn_loader_state){.seed = loader->seed,
                             .epoch = loader->epoch,
                             .batch = loader->next,
                             .batch_size = loader->batch_size,
                             .sample_count = loader->order_count};
}

tn_status tn_loader_restore(tn_loader *loader, tn_loader_state state)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (!tn__object_check(loader, &loader_class, "loader_restore", "loader"))
        return tn_error_code();
    if (loader->running)
        return tn__fail(
            TN_ERR_STATE,
            "loader_restore: {loader:}a loop over the loader is running: end "
            "it first");
    if (state.batch_size != loader->batch_size ||
        state.sample_count != loader->order_count)
        return tn__fail(
            TN_ERR_ARGUMENT,
            "loader_restore: {state:}the state is of %lld samples in batches "
            "of %lld, but the loader has %lld in batches of %lld; "
            "expected the same", (long long)state.sample_count,
            (long long)state.batch_size,
            (long long)loader->order_count,
            (long long)loader->batch_size);
    if (state.batch < 0 || state.batch > end_of(loader))
        return tn__fail(
            TN_ERR_ARGUMENT,
            "loader_restore: {state:}batch %lld is outside the epoch's "
            "[0, %lld]",
            (long long)state.batch, (long long)end_of(loader));
    loader->seed = state.seed;
    loader->epoch = state.epoch;
    loader->next = state.batch;
    return TN_OK;
}

/* ---- batches ------------------------------------------------------------ */

static int64_t batch_samples(const tn_loader *loader, int64_t k)
{
    int64_t left = loader->order_count - k * loader->batch_size;
    return left < loader->batch_size ? left : loader->batch_size;
}

static void seed_batch(const tn_loader *loader, int64_t k)
{
    tn_rng_restore((tn_rng_state){
        tn__order_batch_seed(k, loader->seed, loader->epoch), 0});
}

/* Adds the samples of batch k to s; none after the end of a stream. */
static tn_status take_samples(const tn_loader *loader, int64_t k,
                              tn__samples *s)
{
    if (loader->stream)
        return tn__stream_take(loader->stream, loader->stream_loop, k,
                               loader->batch_size, &loader->share, s);
    return tn__samples_fetch(s, loader->set,
                             loader->order + k * loader->batch_size,
                             batch_samples(loader, k)) < 0
               ? tn_error_code()
               : TN_OK;
}

/* Makes a batch of single samples, for a stream or a collate function. */
static int collate_batch(const tn_loader *loader, int64_t k, tn_tensor **fields)
{
    tn__samples s;
    const int64_t count = loader->stream ? loader->batch_size
                                         : batch_samples(loader, k);
    if (tn__error_pending() || tn__samples_make(&s, count) < 0) {
        if (loader->stream)
            tn__stream_fail(loader->stream, loader->stream_loop, k);
        return tn_error_code();
    }
    int got = take_samples(loader, k, &s);
    const bool none = s.count == 0 ||
                      (loader->drop_last && s.count < loader->batch_size);
    if (got >= 0)
        got = none ? 0
                   : tn__samples_collate(&s, loader->collate,
                                         loader->collate_context, fields);
    tn__samples_free(&s);
    return got;
}

/* Makes batch k of the current epoch; returns 0 fields after the end of a
 * stream. Does not change the loader, because workers call it at the same
 * time. */
static int make_batch(void *context, int64_t k, tn_tensor **fields)
{
    tn_loader *loader = context;
    seed_batch(loader, k);
    int got = loader->collate || loader->stream
                  ? collate_batch(loader, k, fields)
                  : tn_dataset_batch(loader->set,
                                     loader->order + k * loader->batch_size,
                                     batch_samples(loader, k), fields);
    if (got >= 0 && tn__error_pending())
        return tn_error_code();
    if (got == 0)
        return 0;
    if (loader->upload)
        return tn__upload_send(loader->upload, k, fields, got);
    for (int f = 0; loader->device && f < got; f++)
        if (!(fields[f] = tn_to(fields[f], loader->device)))
            return tn_error_code();
    return got;
}

/* Makes batch k in the caller's thread, without changing its random numbers. */
static int make_here(tn_loader *loader, int64_t k, tn_tensor **fields)
{
    tn_rng_state own = tn_rng_snapshot();
    int got = make_batch(loader, k, fields);
    tn_rng_restore(own);
    return got;
}

static void end_epoch(tn_loader *loader)
{
    tn__team_stop(loader->team);
    loader->team = NULL;
    loader->running = false;
    loader->epoch++;
    loader->next = 0;
}

/* Draws the order of the epoch and selects this replica's samples. */
static void choose_samples(tn_loader *loader)
{
    int64_t *order = loader->order, count = loader->drawn_count;
    int64_t base = loader->base_count;
    uint64_t seed = loader->seed, epoch = loader->epoch;
    if (loader->replacement)
        tn__order_draw(order, count, base, seed, epoch);
    else if (loader->sums)
        tn__order_draw_weighted(order, count, loader->sums, base, seed, epoch);
    else if (loader->weights)
        tn__order_draw_distinct(order, count, loader->weights, base,
                                loader->tree, seed, epoch);
    else if (loader->shuffle) /* an epoch larger than the set consists of
                                 several permutations, each with a seed of its
                                 own */
        for (int64_t at = 0, part = 0; at < count; at += base, part++)
            tn__order_shuffle(order + at, base,
                              seed + (uint64_t)part * 0x9e3779b97f4a7c15u,
                              epoch);
    else
        for (int64_t i = 0; i < count; i++)
            order[i] = i;
    for (int64_t i = 0; loader->base_order && i < count; i++)
        order[i] = loader->base_order[order[i]];
    if (loader->lengths && count > 0)
        tn__order_bucket(order, count, loader->lengths, loader->bucket_count,
                         unit_of(loader), loader->shuffle, loader->bucket, seed,
                         epoch);
    if (loader->num_replicas > 1)
        tn__order_shard(order, count, loader->order_count, loader->num_replicas,
                        loader->rank);
}

/* Begins an epoch of a stream, and skips the batches before the loader's
 * position. */
static tn_status begin_stream(tn_loader *loader)
{
    const tn_rng_state own = tn_rng_snapshot();
    loader->stream_loop = tn__stream_begin(loader->stream, loader->epoch);
    tn_status status = tn__error_pending() ? tn_error_code() : TN_OK;
    for (int64_t k = 0; k < loader->next && status == TN_OK; k++) {
        tn_scope *scope = tn_scope_open();
        tn__samples s;
        seed_batch(loader, k);
        status = tn__samples_make(&s, loader->batch_size);
        if (status == TN_OK) {
            status = take_samples(loader, k, &s);
            tn__samples_free(&s);
        }
        tn_scope_close(scope);
    }
    tn_rng_restore(own);
    return status;
}

static tn_status begin_epoch(tn_loader *loader)
{
    if (loader->running)
        end_epoch(loader); /* the last loop was left without tn_batch_end */
    if (loader->stream && begin_stream(loader) < 0)
        return tn_error_code();
    if (!loader->stream)
        choose_samples(loader);
    int64_t end = end_of(loader);
    if (loader->workers && loader->next < end) {
        if (loader->device && !loader->upload)
            loader->upload = tn__upload_new(
                loader->device, tn__team_ahead(loader->workers));
        if (loader->device && (!loader->upload ||
                               tn__upload_restart(loader->upload) < 0))
            return tn_error_code();
        loader->team = tn__team_start(loader->workers, loader->next, end,
                                      make_batch, loader);
        if (!loader->team && tn__error_pending())
            return tn_error_code();
    }
    loader->running = true;
    return TN_OK;
}

static void close_scope(tn_batch *batch)
{
    if (batch->scope) {
        tn_scope_close(batch->scope);
        batch->scope = NULL;
        batch->x = batch->y = NULL;
        batch->field_count = 0;
    }
}

/* Returns whether this loop began the loader's current epoch. */
static bool owns_epoch(const tn_batch *batch)
{
    return batch->loader->running && batch->epoch == batch->loader->epoch;
}

void tn_batch_end(tn_batch *batch)
{
    if (!batch)
        return;
    close_scope(batch);
    if (batch->loader) {
        if (owns_epoch(batch))
            end_epoch(batch->loader);
        tn__unref(batch->loader);
        batch->loader = NULL;
    }
}

/* Returns whether the caller's struct is large enough for what this library
 * writes. */
static bool check_batch(const tn_batch *batch, const char *call)
{
    if (!batch)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {batch} is NULL", call), false;
    if (batch->size < offsetof(tn_batch, scope) + sizeof batch->scope)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {batch}'s size is %zu: begin "
                        "with tn_batch_begin()", call, batch->size),
               false;
    return true;
}

void tn_batch_begin_with(tn_batch *batch, tn_loader *loader)
{
    if (!check_batch(batch, "batch_begin"))
        return;
    *batch = (tn_batch){.size = batch->size, .index = -1};
    if (!tn__object_check(loader, &loader_class, "batch_begin", "loader") ||
        tn__error_pending() || begin_epoch(loader) < 0)
        return;
    batch->loader = tn__ref(loader);
    batch->epoch = loader->epoch;
    batch->index = loader->next;
}

static bool fill(tn_batch *batch, tn_loader *loader, const void *caller)
{
    batch->index = loader->next++;
    batch->scope = tn__scope_open_at(caller);
    if (!batch->scope)
        return false;
    int got = loader->team ? tn__team_take(loader->team, batch->field)
                           : make_here(loader, batch->index, batch->field);
    if (got >= 0 && loader->upload &&
        tn__upload_taken(loader->upload, batch->index) < 0)
        return false;
    if (got <= 0)
        return false;
    batch->count = loader->stream
                       ? tn__stream_batch_count(loader->stream, batch->index,
                                                loader->batch_size)
                       : batch_samples(loader, batch->index);
    batch->field_count = got;
    batch->x = batch->field[0];
    batch->y = got > 1 ? batch->field[1] : NULL;
    return true;
}

bool tn_batch_next(tn_batch *batch)
{
    if (!check_batch(batch, "batch_next"))
        return false;
    close_scope(batch);
    tn_loader *loader = batch->loader;
    bool more = loader && !tn__error_pending();
    if (more && !owns_epoch(batch)) {
        tn__fail(TN_ERR_STATE,
                 "batch_next: {batch:}another loop over the loader has "
                 "begun, which ended this one");
        more = false;
    }
    tn_trace_push("batch_next");
    more = more && loader->next < end_of(loader) &&
           fill(batch, loader, __builtin_return_address(0));
    tn_trace_pop();
    if (!more)
        tn_batch_end(batch);
    return more;
}
