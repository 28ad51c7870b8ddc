/* Checks which samples an epoch has, for each sampler, also if several loaders
 * share them, or if a loader resumes in the middle of an epoch. */
#include <math.h>

#include "../tap.h"
#include <tenon/tenon.h>

enum { COUNT = 10, MOST = 64 };

static tn_dataset *set;

/* Stores the remaining samples of an epoch and returns their number. */
static int epoch(tn_loader *loader, int64_t *seen)
{
    int count = 0;
    TN_EACH_BATCH(batch, loader) {
        int64_t y[MOST];
        tn_tensor_to_array(batch.x, y, (size_t)batch.count * sizeof *y);
        for (int64_t i = 0; i < batch.count && count < MOST; i++)
            seen[count++] = y[i];
    }
    return count;
}

/* Returns whether all samples are different. */
static bool is_apart(const int64_t *seen, int count)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (seen[i] == seen[k])
                return false;
    return true;
}

static void test_subset(void)
{
    const int64_t order[] = {9, 2, 7, 5, 1};
    int64_t a[MOST], b[MOST];
    tn_loader *loader = tn_loader_new(set, .order = order, .order_count = 5,
                                      .shuffle = true, .seed = 3);
    is_int(epoch(loader, a), 5, "a subset is shuffled");
    bool within = is_apart(a, 5);
    for (int i = 0; i < 5; i++)
        within = within && (a[i] == 9 || a[i] == 2 || a[i] == 7 || a[i] == 5 ||
                            a[i] == 1);
    ok(within, "each of its samples comes once");
    epoch(loader, b);
    ok(memcmp(a, b, 5 * sizeof *a) != 0, "epochs differ");
    tn_loader *again = tn_loader_new(set, .order = order, .order_count = 5,
                                     .shuffle = true, .seed = 3);
    epoch(again, b);
    ok(memcmp(a, b, 5 * sizeof *a) == 0, "the same seed gives the same");
}

static void test_counted(void)
{
    int64_t a[MOST], b[MOST];
    tn_loader *few = tn_loader_new(set, .shuffle = true, .sample_count = 4);
    is_int(epoch(few, a), 4, "some of a shuffled set");
    ok(is_apart(a, 4), "no sample twice");
    tn_loader *many = tn_loader_new(set, .shuffle = true, .sample_count = 25,
                                    .batch_size = 4);
    is_int(epoch(many, b), 25, "more than the set has");
    ok(is_apart(b, COUNT) && is_apart(b + COUNT, COUNT) &&
           is_apart(b + 2 * COUNT, 5),
       "one shuffled order after another");
    ok(memcmp(b, b + COUNT, COUNT * sizeof *b) != 0, "which differ");
    ok(memcmp(a, b, 4 * sizeof *a) == 0, "the first is that of the seed");
}

/* Draws two samples without replacement, with weights 6, 3, 1 and 0. The first
 * two samples are (0, 1) with the probability 6/10 * 3/4. */
static void test_apart(void)
{
    enum { EPOCHS = 2000 };
    double weights[COUNT] = {[2] = 6, [5] = 3, [9] = 1};
    tn_loader *loader = tn_loader_new(set, .weights = weights,
                                      .weight_count = COUNT,
                                      .sample_count = 2, .batch_size = 2,
                                      .distinct = true, .seed = 7);
    int pairs = 0;
    bool good = true;
    for (int e = 0; e < EPOCHS; e++) {
        int64_t a[MOST] = {-1, -1};
        good = epoch(loader, a) == 2 && a[0] != a[1] && weights[a[0]] > 0 &&
               weights[a[1]] > 0 && good;
        pairs += a[0] == 2 && a[1] == 5;
    }
    ok(good, "draws without replacement: none twice, none of weight 0");
    /* Five standard deviations of a count with p = 0.45. */
    double off = fabs(pairs - 0.45 * EPOCHS);
    ok(off < 5 * sqrt(0.45 * 0.55 * EPOCHS), "as often as the weights say: %d "
       "of %d", pairs, EPOCHS);
    int64_t a[MOST];
    double odd[COUNT];
    for (int i = 0; i < COUNT; i++)
        odd[i] = ldexp(1 + 0.1 * i, 40 * (i % 3) - 40);
    tn_loader *whole = tn_loader_new(set, .weights = odd,
                                     .weight_count = COUNT,
                                     .distinct = true);
    for (int e = 0; e < 50; e++)
        good = epoch(whole, a) == COUNT && is_apart(a, COUNT) && good;
    ok(good, "to the last one, whatever the sums round to");
}

static void test_replicas(bool shuffle)
{
    uint64_t seed = 2;
    int64_t whole[MOST], part[MOST];
    tn_loader *one = tn_loader_new(set, .shuffle = shuffle, .seed = seed);
    epoch(one, whole);
    bool dealt = true, even = true;
    for (int rank = 0; rank < 4; rank++) {
        tn_loader *own = tn_loader_new(set, .shuffle = shuffle, .seed = seed,
                                       .num_replicas = 4, .rank = rank);
        dealt = epoch(own, part) == 3 && dealt;
        for (int i = 0; i < 3; i++)
            dealt = dealt && part[i] == whole[(rank + 4 * i) % COUNT];
        tn_loader *less = tn_loader_new(set, .shuffle = shuffle, .seed = seed,
                                        .num_replicas = 4, .rank = rank,
                                        .drop_uneven = true, .batch_size = 2);
        even = tn_loader_count(less) == 1 && epoch(less, part) == 2 && even;
        for (int i = 0; i < 2; i++)
            even = even && part[i] == whole[rank + 4 * i];
    }
    ok(dealt, "an order%s is dealt out, its first samples twice",
       shuffle ? ", shuffled," : "");
    ok(even, "or leaves out its last samples");
    tn_loader *last = tn_loader_new(tn_dataset_range(set, 0, 2),
                                    .num_replicas = 5, .rank = 4);
    is_int(epoch(last, part), 1, "more loaders than samples");
    is_int((int)part[0], 0, "have them in turn");
    last = tn_loader_new(tn_dataset_range(set, 0, 7), .num_replicas = INT32_MAX,
                         .rank = INT32_MAX - 1);
    ok(epoch(last, part) == 1 && part[0] == (INT32_MAX - 1) % 7,
       "2^31 - 1 loaders need no more memory and time than a few");
}

/* A loader that restores another's position gives the same samples. */
static void test_resumed(const char *what, tn_loader_new_options options)
{
    options.batch_size = 2;
    options.seed = 11;
    int64_t whole[MOST], rest[MOST];
    bool same = true;
    for (int workers = 0; workers <= 2; workers += 2) {
        options.workers = workers;
        tn_loader *loader = tn_loader_new_with(set, &options);
        tn_loader *other = tn_loader_new_with(set, &options);
        epoch(loader, whole); /* skips an epoch, so that the state has a past */
        tn_loader_state state;
        TN_EACH_BATCH(batch, loader) {
            state = tn_loader_snapshot(loader);
            if (batch.index == 0)
                break;
        }
        tn_loader_state from = {.seed = state.seed, .epoch = 1, .batch = 0,
                                .batch_size = 2,
                                .sample_count = state.sample_count};
        same = tn_loader_restore(loader, from) == TN_OK && same;
        int count = epoch(loader, whole);
        same = tn_loader_restore(other, state) == TN_OK && same;
        same = epoch(other, rest) == count - 2 && same;
        same = memcmp(whole + 2, rest, (size_t)(count - 2) * sizeof *rest) ==
                   0 &&
               count > 2 && same;
    }
    ok(same && !tn_error(), "%s is taken up in the middle of an epoch", what);
}

static void test_all_resumed(void)
{
    static const int64_t order[] = {9, 2, 7, 5, 1};
    static const double weights[COUNT] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const tn_loader_new_options plain = TN_LOADER_NEW_OPTIONS;
    tn_loader_new_options o = plain;
    test_resumed("a sequence", o);
    o.order = order;
    o.order_count = 5;
    o.shuffle = true;
    test_resumed("a subset", o);
    o = plain;
    o.shuffle = true;
    o.sample_count = 23;
    test_resumed("a longer order", o);
    o = plain;
    o.replacement = true;
    o.sample_count = 7;
    test_resumed("replacement", o);
    o = plain;
    o.weights = weights;
    o.weight_count = COUNT;
    o.sample_count = 9;
    test_resumed("weights", o);
    o.sample_count = TN_NONE_INT;
    o.distinct = true;
    test_resumed("weights without replacement", o);
    o = plain;
    o.shuffle = true;
    o.num_replicas = 2;
    o.rank = 1;
    test_resumed("a replica's part", o);
}

static void mistake(const void *result, const char *message)
{
    ok(!result, "refused: %s", message);
    is_str(tn_error(), message, "and the message says so");
    tn_error_clear();
}

static void test_mistakes(void)
{
    double weights[COUNT] = {[2] = 6, [5] = 3};
    mistake(tn_loader_new(set, .num_replicas = -1),
            "loader_new: num_replicas is -1; expected at least 1");
    mistake(tn_loader_new(set, .num_replicas = 2, .rank = 2),
            "loader_new: rank is 2; expected at least 0 and below "
            "num_replicas, 2");
    mistake(tn_loader_new(set, .rank = -1),
            "loader_new: rank is -1; expected at least 0 and below "
            "num_replicas, 1");
    mistake(tn_loader_new(set, .weights = weights, .weight_count = COUNT,
                          .sample_count = 3, .distinct = true),
            "loader_new: 3 samples without replacement, but 2 of the weights are "
            "above 0: give a smaller sample_count");
    mistake(tn_loader_new(set, .shuffle = true, .sample_count = 0),
            "loader_new: sample_count is 0; expected at least 1");
    mistake(tn_loader_new(set, .shuffle = true, .sample_count = INT64_MAX),
            "loader_new: sample_count is 9223372036854775807; expected at most "
            "281474976710656");
    mistake(tn_loader_new(set, .shuffle = true, .replacement = true),
            "loader_new: both shuffle and replacement are given: give one of "
            "them");
    mistake(tn_loader_new(tn_dataset_range(set, 0, 0), .shuffle = true,
                          .sample_count = 3),
            "loader_new: samples cannot be drawn from an empty set");
}

int main(void)
{
    plan_later();
    set = tn_dataset_from_tensors(tn_arange(0, COUNT, 1, .dtype = TN_I64),
                                  NULL);
    test_subset();
    test_counted();
    test_apart();
    test_replicas(false);
    test_replicas(true);
    test_all_resumed();
    test_mistakes();
    return done_testing();
}
