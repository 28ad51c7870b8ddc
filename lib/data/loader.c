/* loader.c: the loader. It decides which samples form a batch and in which
 * order, tracks the position in an epoch, and opens a scope for each batch. An
 * order is an array of sample indices. */
#include <data/dataset.h>
#include <data/loader_options.h>
#include <data/order.h>
#include <data/stream.h>
#include <data/upload.h>
#include <data/workers.h>

#include <base/error.h>
#include <base/memory.h>
#include <string.h>
#include <tenon/data.h>
#include <tenon/random.h>
#include <tenon/trace.h>

struct tn_loader {
    tn__object object;
    tn_dataset *set;   /* counted reference */
    int64_t batch_size;
    bool shuffle, replacement, drop_last;
    int workers;
    double *sums;      /* owned; prefix sums of the option weights, for draws
                          with replacement; NULL without them */
    double *weights;   /* owned; the weights, for draws without replacement */
    double *tree;      /* owned; space that tn__order_draw_distinct needs */
    int64_t *base_order; /* owned copy of the option order; NULL if samples are
                            in the order of the set */
    int64_t base_count;  /* samples in base_order, or in the set */
    int64_t drawn_count; /* samples of an epoch, over all replicas */
    int64_t parts;       /* parts of a step's samples: shards, or replicas */
    int64_t own, first;  /* this replica has the parts first .. first + own - 1,
                            and a batch for each of them in a step */
    bool shards;         /* the option shards was given */
    bool drop_uneven;
    int64_t base;        /* samples of the current epoch that precede batch 0:
                            not 0 after a seek to a position between batches */
    int64_t *lengths;  /* owned copy of the option lengths; NULL if not given */
    tn__order_length *bucket; /* owned; space for one bucket */
    int64_t bucket_count;     /* samples in a bucket: bucket_batches batches */
    tn_collate collate; /* NULL if samples are stacked */
    void *collate_context; /* not owned */
    tn_on_error on_error;
    int64_t *missing;  /* owned; with TN_ON_ERROR_SKIP, the number of samples left
                          out of batch k, at k % missing_room. There is space for
                          the batches that workers are ahead, and for the one
                          that the caller takes */
    int64_t missing_room;
    int64_t skipped;   /* samples left out of the epoch so far */
    tn__stream *stream; /* owned by the set; NULL if it has indices */
    tn__stream_share share;
    uint64_t stream_loop;
    int64_t *order;    /* owned; all replicas' samples in the current epoch */
    uint64_t seed;
    uint64_t epoch;    /* the current epoch; between loops the next one */
    int64_t next;      /* index of the next batch in the epoch */
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
    tn__free(loader->missing);
    tn__free(loader->order);
    tn__object_free(loader, sizeof *loader);
}

static const tn__class loader_class = {.name = "loader",
                                       .destroy = destroy};

/* ---- making ------------------------------------------------------------- */

static void *copy_of(const void *list, int64_t count, size_t bytes)
{
    void *copy = tn__alloc_many(count, bytes);
    if (copy && count)
        memcpy(copy, list, (size_t)count * bytes);
    return copy;
}

/* Returns the number of samples of a step: a batch for each part. */
static int64_t unit_of(const tn_loader *loader)
{
    int64_t unit;
    return __builtin_mul_overflow(loader->batch_size, loader->parts, &unit)
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

/* Copies the lists of checked options. Returns false if memory runs out. */
static bool take_lists(tn_loader *loader, const tn_loader_new_options *all)
{
    /* A shuffled order also needs space to complete its last permutation. */
    const int64_t room =
        loader->drawn_count + (loader->shuffle ? loader->base_count : 0);
    loader->order = tn__alloc_many(room, sizeof *loader->order);
    if (!loader->order)
        return false;
    if (all->order &&
        !(loader->base_order = copy_of(all->order, all->order_count,
                                       sizeof *loader->base_order)))
        return false;
    if (all->lengths && !take_lengths(loader, all))
        return false;
    if (all->on_error == TN_ON_ERROR_SKIP) {
        loader->missing_room = tn__team_ahead(all->workers) + 1;
        loader->missing = tn__alloc_many(loader->missing_room,
                                         sizeof *loader->missing);
        if (!loader->missing)
            return false;
    }
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
    if (tn__loader_options_take(set, options, &all) < 0)
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
    loader->on_error = all.on_error;
    loader->stream = tn__dataset_stream(set);
    loader->share = (tn__stream_share){all.num_replicas, all.rank,
                                       all.drop_uneven};
    loader->base_count = all.order ? all.order_count : set->count;
    loader->drawn_count =
        all.sample_count != TN_NONE_INT ? all.sample_count : loader->base_count;
    loader->shards = all.shards > 0;
    loader->parts = all.shards > 0 ? all.shards : all.num_replicas;
    loader->own = loader->parts / all.num_replicas;
    loader->first = loader->own * all.rank;
    loader->drop_uneven = all.drop_uneven;
    if (!take_lists(loader, &all)) {
        tn__unref(loader);
        return NULL;
    }
    return tn__scope_own(loader);
}

/* Returns the number of samples of each part in an epoch of which `base`
 * samples are left out. Rounded up, so that each part has a sample if there is
 * one. */
static int64_t part_count(const tn_loader *loader, int64_t base)
{
    return (loader->drawn_count - base +
            (loader->drop_uneven ? 0 : loader->parts - 1)) / loader->parts;
}

int64_t tn_loader_count(const tn_loader *loader)
{
    if (!tn__object_has(loader, &loader_class, "loader_count", "loader"))
        return 0;
    const int64_t count = part_count(loader, loader->base);
    const bool rest = count % loader->batch_size != 0;
    return (count / loader->batch_size + (rest && !loader->drop_last)) *
           loader->own;
}

int64_t tn_loader_skipped(const tn_loader *loader)
{
    return tn__object_has(loader, &loader_class, "loader_skipped", "loader")
               ? loader->skipped
               : 0;
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
                             .batch_size =
                                 loader->base ? 0 : loader->batch_size,
                             .sample_count =
                                 part_count(loader, 0) * loader->own};
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
    const int64_t base = loader->base;
    const int64_t count = part_count(loader, 0) * loader->own;
    loader->base = 0;
    if (state.batch_size != loader->batch_size || state.sample_count != count) {
        loader->base = base;
        return tn__fail(
            TN_ERR_ARGUMENT,
            "loader_restore: {state:}the state is of %lld samples in batches "
            "of %lld, but the loader has %lld in batches of %lld; "
            "expected the same", (long long)state.sample_count,
            (long long)state.batch_size, (long long)count,
            (long long)loader->batch_size);
    }
    if (state.batch < 0 || state.batch > end_of(loader)) {
        const int64_t end = end_of(loader);
        loader->base = base;
        return tn__fail(
            TN_ERR_ARGUMENT,
            "loader_restore: {state:}batch %lld is outside the epoch's "
            "[0, %lld]",
            (long long)state.batch, (long long)end);
    }
    loader->seed = state.seed;
    loader->epoch = state.epoch;
    loader->next = state.batch;
    return TN_OK;
}

tn_loader_position tn_loader_tell(const tn_loader *loader)
{
    tn_loader_position none = {0};
    if (!tn__object_has(loader, &loader_class, "loader_tell", "loader"))
        return none;
    const int64_t unit = unit_of(loader), step = loader->next / loader->own;
    int64_t sample;
    if (!loader->stream && loader->next >= end_of(loader))
        sample = loader->drawn_count;
    else if (__builtin_mul_overflow(step, unit, &sample))
        sample = INT64_MAX;
    else
        sample += loader->base;
    return (tn_loader_position){.seed = loader->seed, .epoch = loader->epoch,
                                .sample = sample,
                                .sample_count = loader->drawn_count,
                                .unit = unit};
}

tn_status tn_loader_seek(tn_loader *loader, tn_loader_position at)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (!tn__object_check(loader, &loader_class, "loader_seek", "loader"))
        return tn_error_code();
    if (loader->running)
        return tn__fail(TN_ERR_STATE,
                        "loader_seek: {loader:}a loop over the loader is "
                        "running: end it first");
    const int64_t unit = unit_of(loader);
    if (at.sample_count != loader->drawn_count || at.sample < 0 ||
        (!loader->stream && at.sample > loader->drawn_count))
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_seek: {position:}sample %lld of %lld, but an "
                        "epoch of the loader has %lld samples",
                        (long long)at.sample, (long long)at.sample_count,
                        (long long)loader->drawn_count);
    if ((loader->lengths && at.unit != unit) ||
        (loader->stream && at.sample % unit))
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_seek: {position:}steps of %lld samples, but "
                        "the loader has %lld; %s", (long long)at.unit,
                        (long long)unit,
                        loader->lengths
                            ? "with lengths the order depends on it"
                            : "a stream continues at whole steps");
    loader->seed = at.seed;
    loader->epoch = at.epoch;
    loader->base = 0;
    loader->next = at.sample / unit * loader->own;
    if (!loader->stream && at.sample == loader->drawn_count)
        loader->next = tn_loader_count(loader);
    else if (!loader->stream)
        loader->base = at.sample % unit;
    return TN_OK;
}

/* ---- batches ------------------------------------------------------------ */

static int64_t batch_samples(const tn_loader *loader, int64_t k)
{
    int64_t left = part_count(loader, loader->base) -
                   k / loader->own * loader->batch_size;
    return left < loader->batch_size ? left : loader->batch_size;
}

/* Returns the number of samples of the first `count` batches. */
static int64_t samples_before(const tn_loader *loader, int64_t count)
{
    const int64_t rest = count % loader->own;
    return (count - rest) * loader->batch_size +
           (rest ? rest * batch_samples(loader, count) : 0);
}

/* Returns the indices of the samples of batch k. Sample j of a part p is at
 * position p + j * parts of the order; after its end the order continues from
 * its beginning. If the samples are not neighbours, the result is in *space,
 * which the caller frees. NULL if memory runs out. */
static const int64_t *batch_indices(const tn_loader *loader, int64_t k,
                                    int64_t **space)
{
    const int64_t step = k / loader->own;
    const int64_t *order = loader->order;
    *space = NULL;
    if (loader->parts == 1)
        return order + loader->base + step * loader->batch_size;
    const int64_t count = batch_samples(loader, k);
    int64_t *index = *space = tn__alloc_many(count, sizeof *index);
    const int64_t begin = loader->base + loader->first + k % loader->own +
                          step * loader->batch_size * loader->parts;
    for (int64_t j = 0; index && j < count; j++)
        index[j] = order[(begin + j * loader->parts) % loader->drawn_count];
    return index;
}

/* With shards, the random numbers of a batch do not depend on the number of
 * replicas. */
static void seed_batch(const tn_loader *loader, int64_t k)
{
    if (loader->shards)
        k = k / loader->own * loader->parts + loader->first + k % loader->own;
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
    int64_t *space;
    const int64_t *index = batch_indices(loader, k, &space);
    const int got = index ? tn__samples_fetch(s, loader->set, index,
                                              batch_samples(loader, k),
                                              loader->on_error)
                          : -1;
    tn__free(space);
    return got < 0 ? tn_error_code() : TN_OK;
}

/* Makes batch k by stacking its samples. */
static int stack_batch(const tn_loader *loader, int64_t k, tn_tensor **fields)
{
    int64_t *space;
    const int64_t *index = batch_indices(loader, k, &space);
    const int got = index ? tn_dataset_batch(loader->set, index,
                                             batch_samples(loader, k), fields)
                          : (int)tn_error_code();
    tn__free(space);
    return got;
}

/* Makes a batch of single samples: for a stream, for a collate function, or to
 * leave out samples that fail. Returns 0 if there is no sample. */
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
    const bool none = s.count == 0 || (loader->stream && loader->drop_last &&
                                       s.count < loader->batch_size);
    if (loader->missing)
        loader->missing[k % loader->missing_room] = count - s.count;
    if (got >= 0)
        got = none ? 0
                   : tn__samples_collate(&s, loader->collate,
                                         loader->collate_context, fields);
    tn__samples_free(&s);
    return got;
}

/* Makes batch k of the current epoch; returns 0 fields after the end of a
 * stream, and for a batch whose samples were all left out. Of the loader it
 * changes missing[] only, because workers call it at the same time. */
static int make_batch(void *context, int64_t k, tn_tensor **fields)
{
    tn_loader *loader = context;
    seed_batch(loader, k);
    int got = loader->collate || loader->stream || loader->missing
                  ? collate_batch(loader, k, fields)
                  : stack_batch(loader, k, fields);
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
    loader->next = loader->base = 0;
}

/* Draws the order of the epoch, for all replicas. */
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
                                      loader->stream != NULL, make_batch,
                                      loader);
        if (!loader->team && tn__error_pending())
            return tn_error_code();
    }
    loader->running = true;
    loader->skipped = 0;
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

/* Takes the loader's next batch. Returns the number of its fields: 0 after the
 * end of a stream, and for a batch whose samples were all left out. Returns a
 * negative status on failure. */
static int fill(tn_batch *batch, tn_loader *loader, const void *caller)
{
    batch->index = loader->next++;
    batch->scope = tn__scope_open_at(caller);
    if (!batch->scope)
        return tn_error_code();
    int got = loader->team ? tn__team_take(loader->team, batch->field)
                           : make_here(loader, batch->index, batch->field);
    if (got >= 0 && loader->upload &&
        tn__upload_taken(loader->upload, batch->index) < 0)
        return tn_error_code();
    if (got < 0)
        return got;
    batch->count = batch_samples(loader, batch->index);
    if (loader->missing) {
        const int64_t missing =
            loader->missing[batch->index % loader->missing_room];
        loader->skipped += missing;
        batch->count -= missing;
    }
    if (loader->stream)
        batch->count = tn__stream_batch_count(loader->stream, batch->index,
                                              loader->batch_size);
    batch->field_count = got;
    batch->x = got > 0 ? batch->field[0] : NULL;
    batch->y = got > 1 ? batch->field[1] : NULL;
    return got;
}

/* Takes the loader's next batch that has samples. */
static bool fill_next(tn_batch *batch, tn_loader *loader, const void *caller)
{
    int got = 0;
    while (got == 0 && loader->next < end_of(loader)) {
        close_scope(batch);
        got = fill(batch, loader, caller);
        if (got == 0 && loader->stream)
            return false;
    }
    /* loader->next batches have been taken; the last may be shorter */
    if (got == 0 && loader->skipped > 0 &&
        loader->skipped >= samples_before(loader, loader->next - 1) +
                               batch_samples(loader, loader->next - 1))
        tn__fail(TN_ERR_STATE,
                 "batch_next: {loader:}all %lld samples of the epoch failed and "
                 "were skipped; the log has their errors (TENON_LOG=1)",
                 (long long)loader->skipped);
    return got > 0;
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
    more = more && fill_next(batch, loader, __builtin_return_address(0));
    tn_trace_pop();
    if (!more)
        tn_batch_end(batch);
    return more;
}
