/* test_loader.c: tests the batches of a loader, their order, and the scope
 * around each batch. */
#include <tenon/tenon.h>

#include "../tap.h"

enum { COUNT = 10 };

static tn_dataset *numbers(void)
{
    tn_tensor *x = tn_reshape(tn_arange(0, COUNT, 1, .dtype = TN_F32),
                              tn_dims(COUNT, 1));
    return tn_dataset_from_tensors(x, tn_arange(0, COUNT, 1,
                                                .dtype = TN_I64));
}

/* Stores the samples of an epoch in order and returns their number. */
static int epoch(tn_loader *loader, int64_t *seen)
{
    int count = 0;
    TN_EACH_BATCH(batch, loader) {
        int64_t y[COUNT];
        tn_tensor_to_array(batch.y, y, (size_t)batch.count * sizeof *y);
        for (int64_t i = 0; i < batch.count && count < COUNT; i++)
            seen[count++] = y[i];
    }
    return count;
}

static bool is_permutation(const int64_t *seen)
{
    int times[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) {
        if (seen[i] < 0 || seen[i] >= COUNT || times[seen[i]]++)
            return false;
    }
    return true;
}

static void test_order(tn_dataset *set)
{
    tn_loader *plain = tn_loader_new(set, .batch_size = 4);
    is_int(tn_loader_count(plain), 3, "ten samples are three batches of four");
    int64_t seen[COUNT];
    is_int(epoch(plain, seen), COUNT, "and all of them come");
    bool rising = true;
    for (int i = 0; i < COUNT; i++)
        rising = rising && seen[i] == i;
    ok(rising, "in order");
    tn_loader *full = tn_loader_new(set, .batch_size = 4, .drop_last = true);
    is_int(tn_loader_count(full), 2, "drop_last leaves the short one out");
    is_int(epoch(full, seen), 8, "eight samples come");

    int64_t first[COUNT], second[COUNT], again[COUNT];
    tn_loader *mixed = tn_loader_new(set, .batch_size = 3, .shuffle = true,
                                     .seed = 5);
    epoch(mixed, first);
    epoch(mixed, second);
    ok(is_permutation(first) && is_permutation(second),
       "each sample is in an epoch once");
    ok(memcmp(first, second, sizeof first) != 0, "epochs differ");
    tn_loader *same = tn_loader_new(set, .batch_size = 7, .shuffle = true,
                                    .seed = 5);
    epoch(same, again);
    ok(memcmp(first, again, sizeof first) == 0,
       "the order depends on the seed, not on the batch size");

    int64_t order[] = {9, 0, 9};
    tn_loader *fixed =
        tn_loader_new(set, .batch_size = 2, .order = order, .order_count = 3);
    is_int(epoch(fixed, seen), 3, "an order of one's own, repeats allowed");
    ok(seen[0] == 9 && seen[1] == 0 && seen[2] == 9, "the given order is kept");
}

/* ---- samplers ----------------------------------------------------------- */

static void test_draws(tn_dataset *set)
{
    enum { DRAWN = 4000 };
    int times[COUNT] = {0};
    double weights[COUNT] = {0, 1, 0, 0, 2, 0, 0, 0, 1, 0};
    tn_loader *loader =
        tn_loader_new(set, .batch_size = 100, .weights = weights,
                      .weight_count = COUNT, .sample_count = DRAWN);
    is_int(tn_loader_count(loader), 40, "as many samples as requested");
    int64_t y[100], first[2][100];
    TN_EACH_BATCH(batch, loader) {
        tn_tensor_to_array(batch.y, y, sizeof y);
        for (int i = 0; i < 100; i++)
            times[y[i]]++;
    }
    /* Of 4000 draws with probabilities 1/2 and 1/4, five standard deviations
     * are 158 and 137. */
    ok(abs(times[4] - 2000) < 158 && abs(times[1] - 1000) < 137,
       "samples come as often as their weights say");
    is_int(times[1] + times[4] + times[8], DRAWN,
           "a sample of weight 0 is never drawn");

    for (int k = 0; k < 2; k++) {
        tn_loader *again =
            tn_loader_new(set, .batch_size = 100, .replacement = true,
                          .sample_count = 1000, .seed = (uint64_t)k);
        int64_t count = 0;
        TN_EACH_BATCH(batch, again) {
            tn_tensor_to_array(batch.y, y, sizeof y);
            if (batch.index == 0)
                memcpy(first[k], y, sizeof y);
            for (int i = 0; i < 100; i++)
                count += y[i] == 7;
        }
        /* Of 1000 draws with probability 1/10, five standard deviations are
         * 47. */
        ok(llabs(count - 100) < 47, "drawn from the whole set each time");
    }
    ok(memcmp(first[0], first[1], sizeof first[0]) != 0,
       "and differently for another seed");
    is_int(tn_loader_count(tn_loader_new(set, .replacement = true)), COUNT,
           "by default as many samples as the set has");

    int64_t seen[COUNT];
    tn_dataset *some = tn_dataset_subset(set, (int64_t[]){7, 7, 2}, 3);
    is_int(tn_dataset_count(some), 3, "a subset has the samples named");
    epoch(tn_loader_new(some, .batch_size = 2), seen);
    ok(seen[0] == 7 && seen[1] == 7 && seen[2] == 2, "in their order");
    is_int(tn_dataset_count(tn_dataset_subset(set, NULL, 0)), 0,
           "or none at all");
}

static void test_scopes(tn_dataset *set)
{
    tn_loader *loader = tn_loader_new(set, .batch_size = 2);
    int64_t before = tn_scope_count();
    TN_EACH_BATCH(batch, loader)
        tn_mul_scalar(batch.x, 2);
    is_int(tn_scope_count(), before,
           "tensors of the loop's body are freed with their batch");
    TN_EACH_BATCH(batch, loader) {
        tn_mul_scalar(batch.x, 2);
        if (batch.index == 1)
            break;
    }
    is_int(tn_scope_count(), before, "also when the loop is left by break");
    int bodies = 0;
    TN_EACH_BATCH(batch, loader) {
        bodies++;
        tn_error_set(TN_ERR_ARGUMENT, "enough");
    }
    is_int(bodies, 1, "an error ends the loop");
    TN_EACH_BATCH(batch, loader)
        bodies++;
    is_int(bodies, 1, "and lets none begin");
    is_str(tn_error(), "enough", "the first message is kept");
    tn_error_clear();
}

/* A data set of this test: sample i is i squared; sample 7 fails. */
static int released;

static int square(void *context, int64_t i, tn_tensor **fields)
{
    if (i == 7)
        return tn_error_set(TN_ERR_IO, "sample 7 is torn");
    fields[0] = tn_full(tn_dims(2), (double)(i * i + *(int *)context));
    return fields[0] ? 1 : tn_error_code();
}

static void release(void *context)
{
    released += *(int *)context;
}

static void test_own(void)
{
    static int offset = 1;
    tn_scope *scope = tn_scope_open();
    tn_dataset_class type = {sizeof type, COUNT, square, release};
    tn_dataset *set = tn_dataset_new(&type, &offset);
    tn_loader *loader = tn_loader_new(set, .batch_size = 3);
    int batches = 0;
    double last = 0;
    TN_EACH_BATCH(batch, loader) {
        is_int(tn_tensor_size(batch.x, 0), 3, "samples are stacked");
        last = tn_item(tn_select(tn_select(batch.x, 0, 2), 0, 0));
        batches++;
    }
    is_int(batches, 2, "a sample that fails ends the epoch");
    ok(last == 26, "5 * 5 + 1");
    is_str(tn_error(), "dataset_batch: sample 7: sample 7 is torn", "and its error is the caller's");
    tn_error_clear();
    tn_scope_close(scope);
    is_int(released, 1, "its context is released once");
}

static void mistake(const void *result, const char *message)
{
    ok(!result, "refused: %s", message);
    is_str(tn_error(), message, "and the message says so");
    tn_error_clear();
}

static void test_mistakes(tn_dataset *set)
{
    tn_tensor *three = tn_zeros(tn_dims(3, 2)), *four = tn_zeros(tn_dims(4));
    mistake(tn_dataset_from_tensors(three, four),
            "dataset_from_fields: fields[1] has 4 samples (its first size), "
            "but fields[0] has 3; expected the same number");
    mistake(tn_dataset_from_tensors(tn_zeros(TN_SCALAR), NULL),
            "dataset_from_fields: fields[0] has no dimensions; expected one "
            "whose rows are samples");
    mistake(tn_dataset_range(set, 5, 11),
            "dataset_range: [5, 11) is not within the set's [0, 10)");
    mistake(tn_loader_new(set, .batch_size = -1),
            "loader_new: batch_size is -1; expected at least 1");
    int64_t order[] = {0, 10};
    mistake(tn_loader_new(set, .order = order, .order_count = 2),
            "loader_new: order[1] is 10, outside the set's [0, 10)");
    mistake(tn_loader_new(set, .order = order, .order_count = 1,
                          .replacement = true),
            "loader_new: both order and replacement are given: give one of "
            "them");
    mistake(tn_loader_new(set, .order = NULL, .order_count = 4),
            "loader_new: order is NULL, but order_count is 4");
    mistake(tn_loader_new(set, .weights = NULL, .weight_count = 4),
            "loader_new: weights is NULL, but weight_count is 4");
    mistake(tn_dataset_subset(set, order, 2),
            "dataset_subset: index[1] is 10, outside the set's [0, 10)");
    mistake(tn_dataset_subset(set, NULL, 2),
            "dataset_subset: index is NULL");
    double weights[COUNT] = {0};
    mistake(tn_loader_new(set, .weights = weights, .weight_count = 9),
            "loader_new: 9 weights for a set of 10 samples; expected one for "
            "each");
    mistake(tn_loader_new(set, .weights = weights, .weight_count = COUNT),
            "loader_new: the weights' sum is 0; expected a finite number "
            "above 0");
    weights[3] = -0.5;
    mistake(tn_loader_new(set, .weights = weights, .weight_count = COUNT),
            "loader_new: weights[3] is -0.5; expected a finite number of at "
            "least 0");
    mistake(tn_loader_new(set, .weights = weights, .weight_count = COUNT,
                          .replacement = true),
            "loader_new: both replacement and weights are given: give one of "
            "them");
    mistake(tn_loader_new(set, .sample_count = 3),
            "loader_new: .sample_count has no effect without shuffle, "
            "replacement or weights: give one of them, or leave .sample_count "
            "out");
    mistake(tn_loader_new(tn_dataset_subset(set, NULL, 0),
                          .replacement = true),
            "loader_new: samples cannot be drawn from an empty set");
    tn_tensor *fields[TN_MAX_FIELDS];
    int64_t wrong = -1;
    is_int(tn_dataset_batch(set, &wrong, 1, fields), TN_ERR_INDEX,
           "an index outside is refused");
    is_str(tn_error(), "dataset_batch: index -1 at position 0 is outside "
                       "[0, 10)", "with its value, position and bound");
    tn_error_clear();
    mistake(tn_loader_new(NULL), "loader_new: set is NULL");
}

int main(void)
{
    plan_later();
    tn_dataset *set = numbers();
    if (!ok(set != NULL, "a set of rows of tensors"))
        bail_out("%s", tn_error());
    is_int(tn_dataset_count(set), COUNT, "has as many samples as rows");
    test_order(set);
    test_order(tn_dataset_range(set, 0, COUNT));
    test_draws(set);
    test_scopes(set);
    test_own();
    test_mistakes(set);
    tn_dataset *mixed = tn_dataset_shuffle(set, 3);
    int64_t seen[COUNT];
    epoch(tn_loader_new(mixed, .batch_size = 4), seen);
    ok(is_permutation(seen), "a shuffled set has each sample once");
    return done_testing();
}
