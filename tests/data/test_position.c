/* test_position.c: the position of the loaders of a job: an epoch that N loaders
 * begin and M loaders end has each sample once, and with shards the batch of a
 * shard does not depend on the number of loaders. */
#include "tap.h"

#include <tenon/tenon.h>

enum { MOST = 8, SAMPLES = 1000 };

static int64_t seen[SAMPLES];

static tn_dataset *numbers(int64_t count)
{
    return tn_dataset_from_tensors(tn_arange(0, count, 1), NULL);
}

static void see(const tn_batch *batch)
{
    for (int64_t i = 0; i < batch->count; i++)
        seen[(int64_t)tn_item(tn_select(batch->x, 0, i))]++;
}

/* Whether samples 0 .. count - 1 were seen once, but for `twice` of them. */
static bool all_once(int64_t count, int64_t twice)
{
    for (int64_t i = 0; i < count; i++) {
        if (seen[i] < 1 || seen[i] > 2)
            return false;
        twice -= seen[i] - 1;
    }
    return twice == 0;
}

/* Takes `steps` steps (-1: all) of an epoch from `at` with `size` loaders, which
 * have workers if `size` is odd. Returns the position after them, which all
 * loaders must agree about. */
static tn_loader_position take(tn_dataset *set, tn_loader_position at, int size,
                               int64_t batch_size, int64_t shards, int64_t steps,
                               bool drop)
{
    tn_loader_position now = at;
    for (int rank = 0; rank < size; rank++)
        TN_SCOPE(scope) {
            tn_loader *loader = tn_loader_new(
                set, .batch_size = batch_size, .shuffle = true, .seed = 5,
                .num_replicas = size, .rank = rank, .shards = shards,
                .drop_uneven = drop, .workers = size % 2);
            if (tn_loader_seek(loader, at) < 0)
                bail_out("%s", tn_error());
            const int64_t own = shards ? shards / size : 1;
            int64_t left = steps * own;
            tn_loader_position then = tn_loader_tell(loader);
            if (left)
                TN_EACH_BATCH(batch, loader) {
                    see(&batch);
                    then = tn_loader_tell(loader);
                    if (--left == 0)
                        break;
                }
            if (rank && (then.sample != now.sample || then.epoch != now.epoch))
                bail_out("rank %d is at %lld, rank 0 at %lld", rank,
                         (long long)then.sample, (long long)now.sample);
            now = then;
        }
    return now;
}

static void test_all_pairs(void)
{
    static const int size[] = {1, 2, 3, 4, 8};
    enum { COUNT = 241 };
    tn_dataset *set = numbers(COUNT);
    int wrong = 0, runs = 0;
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++)
            for (int64_t steps = 0; steps < 4; steps++)
                for (int drop = 0; drop < 2; drop++, runs++) {
                    memset(seen, 0, sizeof seen);
                    tn_loader_position at = {.seed = 5, .epoch = 3,
                                             .sample_count = COUNT};
                    at = take(set, at, size[a], 7, 0, steps, drop);
                    const int64_t done = at.sample, rest = COUNT - done;
                    at = take(set, at, size[b], 5, 0, -1, drop);
                    const int64_t share = rest / size[b];
                    int64_t sum = 0;
                    for (int i = 0; i < COUNT; i++)
                        sum += seen[i];
                    /* The last samples are left out, or the first repeated, so
                     * that the shares are equal. */
                    const int64_t want =
                        done + (drop || share * size[b] == rest
                                    ? share : share + 1) * size[b];
                    bool good = sum == want && at.sample == COUNT &&
                                done == steps * 7 * size[a];
                    good = good && (drop ? sum <= COUNT
                                         : all_once(COUNT, want - COUNT));
                    for (int i = 0; i < COUNT; i++)
                        good = good && (!drop || seen[i] <= 1);
                    wrong += !good;
                    if (!good)
                        note("%d to %d after %lld steps, drop %d: %lld samples, "
                             "expected %lld", size[a], size[b], (long long)steps,
                             drop, (long long)sum, (long long)want);
                }
    is_int(wrong, 0, "%d epochs begun by N and ended by M loaders", runs);
}

/* The samples of each shard of each step, as one loader of that shard has
 * them. */
static void test_shards(void)
{
    enum { COUNT = 101, SHARDS = 8, SIZE = 3 };
    tn_dataset *set = numbers(COUNT);
    static double want[SHARDS][COUNT];
    int64_t count[SHARDS] = {0}, wrong = 0;
    for (int s = 0; s < SHARDS; s++) {
        tn_loader *loader =
            tn_loader_new(set, .batch_size = SIZE, .shuffle = true, .seed = 5,
                          .num_replicas = SHARDS, .rank = s);
        TN_EACH_BATCH(batch, loader)
            for (int64_t i = 0; i < batch.count; i++)
                want[s][count[s]++] = tn_item(tn_select(batch.x, 0, i));
    }
    for (int size = 1; size <= SHARDS; size *= 2)
        for (int rank = 0; rank < size; rank++) {
            tn_loader *loader = tn_loader_new(
                set, .batch_size = SIZE, .shuffle = true, .seed = 5,
                .num_replicas = size, .rank = rank, .shards = SHARDS,
                .workers = rank % 3);
            const int own = SHARDS / size;
            int64_t taken[SHARDS] = {0}, k = 0;
            TN_EACH_BATCH(batch, loader) {
                const int s = rank * own + (int)(k++ % own);
                for (int64_t i = 0; i < batch.count; i++)
                    wrong += taken[s] >= count[s] ||
                             want[s][taken[s]++] !=
                                 tn_item(tn_select(batch.x, 0, i));
            }
            wrong += k != tn_loader_count(loader);
            for (int s = rank * own; s < (rank + 1) * own; s++)
                wrong += taken[s] != count[s];
        }
    is_int(wrong, 0, "a shard has the same batches for 1, 2, 4 and 8 loaders");
}

static void test_shard_pairs(void)
{
    enum { COUNT = 500, SHARDS = 24 };
    static const int size[] = {1, 2, 3, 4, 8};
    tn_dataset *set = numbers(COUNT);
    int wrong = 0;
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++) {
            memset(seen, 0, sizeof seen);
            tn_loader_position at = {.seed = 5, .sample_count = COUNT};
            at = take(set, at, size[a], 3, SHARDS, 2, false);
            wrong += at.sample != 2 * 3 * SHARDS || at.unit != 3 * SHARDS;
            at = take(set, at, size[b], 3, SHARDS, -1, false);
            wrong += !all_once(COUNT, (COUNT + SHARDS - 1) / SHARDS * SHARDS -
                                          COUNT);
        }
    is_int(wrong, 0, "24 shards: each sample once, for all pairs");
}

/* Random numbers of a data set's own do not depend on the number of loaders. */
static int random_sample(void *context, int64_t i, tn_tensor **fields)
{
    (void)context, (void)i;
    fields[0] = tn_rand(TN_SCALAR);
    return 1;
}

static void test_random(void)
{
    static const tn_dataset_class type = {sizeof type, 24, random_sample, NULL};
    tn_dataset *set = tn_dataset_new(&type, NULL);
    double first[4] = {0};
    int64_t wrong = 0;
    for (int size = 1; size <= 4; size *= 2)
        for (int rank = 0; rank < size; rank++) {
            tn_loader *loader =
                tn_loader_new(set, .batch_size = 2, .num_replicas = size,
                              .rank = rank, .shards = 4);
            int64_t k = 0;
            const int own = 4 / size;
            TN_EACH_BATCH(batch, loader) {
                double *is = &first[rank * own + k % own];
                const double x = tn_item(tn_sum(batch.x));
                if (k++ >= own)
                    continue;
                wrong += size > 1 && x != *is;
                *is = x;
            }
        }
    is_int(wrong, 0, "random numbers of a shard do not depend on the loaders");
}

/* After a seek between two batches, the epoch after the current one is as
 * always; the state of a single loader cannot say where it is. */
static void test_between(void)
{
    tn_dataset *set = numbers(10);
    tn_loader *loader = tn_loader_new(set, .batch_size = 4);
    tn_loader_position at = {.epoch = 2, .sample = 3, .sample_count = 10};
    ok(tn_loader_seek(loader, at) == TN_OK, "seek to sample 3");
    tn_loader_position now = tn_loader_tell(loader);
    ok(now.sample == 3 && now.epoch == 2 && now.unit == 4 &&
           now.sample_count == 10, "tell says so");
    is_int(tn_loader_snapshot(loader).batch_size, 0,
           "the state of a single loader does not fit");
    is_int(tn_loader_restore(loader, tn_loader_snapshot(loader)),
           TN_ERR_ARGUMENT, "and cannot be restored");
    tn_error_clear();
    double sum = 0;
    int64_t batches = 0;
    TN_EACH_BATCH(batch, loader) {
        sum += tn_item(tn_sum(batch.x));
        batches++;
        now = tn_loader_tell(loader);
    }
    ok(sum == 3 + 4 + 5 + 6 + 7 + 8 + 9 && batches == 2 && now.sample == 10,
       "the rest of the epoch");
    sum = 0;
    batches = 0;
    TN_EACH_BATCH(batch, loader) {
        sum += tn_item(tn_sum(batch.x));
        batches++;
    }
    ok(sum == 45 && batches == 3, "the next epoch is complete");
    is_int(tn_loader_snapshot(loader).batch_size, 4, "and has a state again");
}

static void refuse(tn_loader *loader, tn_loader_position at, const char *text)
{
    const tn_loader_position before = tn_loader_tell(loader);
    const tn_status status = tn_loader_seek(loader, at);
    const tn_loader_position after = tn_loader_tell(loader);
    ok(status == TN_ERR_ARGUMENT && tn_error() && strstr(tn_error(), text) &&
           memcmp(&before, &after, sizeof after) == 0,
       "refused: %s", tn_error() ? tn_error() : text);
    tn_error_clear();
}

static void test_refusals(void)
{
    tn_dataset *set = numbers(10);
    tn_loader *loader = tn_loader_new(set, .batch_size = 4);
    refuse(loader, (tn_loader_position){.sample = 11, .sample_count = 10},
           "11 of 10");
    refuse(loader, (tn_loader_position){.sample = -1, .sample_count = 10},
           "-1 of 10");
    refuse(loader, (tn_loader_position){.sample = 1, .sample_count = 11},
           "has 10 samples");
    int64_t lengths[10] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
    loader = tn_loader_new(set, .batch_size = 2, .lengths = lengths,
                           .length_count = 10);
    refuse(loader, (tn_loader_position){.sample = 4, .sample_count = 10,
                                        .unit = 4}, "the order depends on it");
    tn_loader_new(set, .num_replicas = 2, .shards = 3);
    ok(tn_error() && strstr(tn_error(), "multiple of num_replicas"),
       "refused: %s", tn_error());
    tn_error_clear();
    TN_EACH_BATCH(batch, loader) {
        is_int(tn_loader_seek(loader, tn_loader_tell(loader)), TN_ERR_STATE,
               "not within a loop");
        tn_error_clear();
        break;
    }
    const tn_loader_position none = tn_loader_tell(NULL);
    ok(none.sample_count == 0 && none.unit == 0, "of NULL: zeros");
}

int main(void)
{
    plan_later();
    test_all_pairs();
    test_shards();
    test_shard_pairs();
    test_random();
    test_between();
    test_refusals();
    ok(!tn_error(), "no error is left");
    return done_testing();
}
