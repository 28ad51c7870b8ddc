/* Tests data sets made of other sets, batches of single samples, buckets by
 * length, and streams. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>
#include "tap.h"

/* Returns a data set whose sample i is {i + first}. */
static tn_dataset *numbers(int64_t first, int64_t count)
{
    return tn_dataset_from_tensors(
        tn_arange(first, first + count, 1), NULL);
}

static void are(tn_dataset *set, const char *name, const int64_t *want,
                int64_t count)
{
    int64_t index[64], got[64] = {0};
    is_int(tn_dataset_count(set), count, "%s: the number of samples", name);
    for (int64_t i = 0; i < count; i++)
        index[i] = i;
    tn_tensor *fields[TN_MAX_FIELDS] = {NULL};
    if (count && tn_dataset_batch(set, index, count, fields) > 0)
        tn_tensor_to_array(fields[0], got, (size_t)count * 8);
    ok(!tn_error() && memcmp(got, want, (size_t)count * 8) == 0,
       "%s: the samples%s%s", name, tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    tn_error_clear();
}
#define ARE(set, name, ...)                                                   \
    are(set, name, (int64_t[]){__VA_ARGS__},                                  \
        (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8))

#define REFUSED(make, code, text)                                             \
    do {                                                                      \
        ok(!(make), "refused: " #make);                                       \
        is_int(tn_error_code(), code, "with %s", tn_status_name(code));       \
        is_str(tn_error(), text, "and its message");                          \
        tn_error_clear();                                                     \
    } while (0)

/* ---- concatenations and subsets ------------------------------------------ */

static void test_concat(void)
{
    tn_dataset *sets[] = {numbers(0, 2), numbers(10, 0), numbers(20, 3)};
    tn_dataset *all = tn_dataset_concat(sets, 3);
    ARE(all, "ConcatDataset", 0, 1, 20, 21, 22);
    ARE(tn_dataset_range(all, 2, 5), "a batch of one set", 20, 21, 22);
    ARE(tn_dataset_subset(all, (int64_t[]){4, 0, 2}, 3), "in another order",
        22, 0, 20);
    tn_dataset *mixed[] = {sets[0], tn_dataset_from_tensors(
                                        tn_zeros(tn_dims(2, 3)), NULL)};
    tn_dataset *uneven = tn_dataset_concat(mixed, 2);
    tn_tensor *fields[TN_MAX_FIELDS];
    REFUSED(tn_dataset_batch(uneven, (int64_t[]){0, 3}, 2, fields) > 0,
            TN_ERR_SHAPE,
            "dataset_batch: field 0 of sample 3 is (3,), of sample 0 (): only "
            "equal shapes can be stacked; .collate = tn_collate_pad pads them");
    REFUSED(tn_dataset_concat(sets, 0), TN_ERR_ARGUMENT,
            "dataset_concat: 0 data sets; expected at least 1");
    sets[1] = NULL;
    REFUSED(tn_dataset_concat(sets, 3), TN_ERR_ARGUMENT,
            "dataset_concat: sets[1] is NULL");
}

static void test_random_split(void)
{
    tn_dataset *set = numbers(0, 10), *part[3] = {NULL};
    is_int(tn_dataset_random_split(set, (double[]){0.5, 0.25, 0.25}, 3, 7,
                                   part),
           TN_OK, "random_split by fractions");
    is_int(tn_dataset_count(part[0]), 6, "5, and 1 that is left over");
    is_int(tn_dataset_count(part[1]), 2, "2.5 is 2");
    bool seen[10] = {false};
    for (int k = 0; k < 3; k++) {
        TN_EACH_BATCH(batch, tn_loader_new(part[k]))
            seen[(int)tn_item(batch.x)] = true;
    }
    bool all = true;
    for (int i = 0; i < 10; i++)
        all &= seen[i];
    ok(all, "each sample is in one part");
    tn_dataset *again[2];
    is_int(tn_dataset_random_split(set, (double[]){7, 3}, 2, 7, again), TN_OK,
           "by numbers");
    is_int(tn_dataset_count(again[0]), 7, "of samples");
    REFUSED(tn_dataset_random_split(set, (double[]){7, 4}, 2, 7, again) ==
                TN_OK,
            TN_ERR_ARGUMENT,
            "dataset_random_split: the lengths' sum is 11; expected integers "
            "of at least 0 with the sum 10, the set's count, or "
            "fractions with the sum 1");
    REFUSED(tn_dataset_random_split(set, (double[]){10.5, -0.5}, 2, 7, again) ==
                TN_OK,
            TN_ERR_ARGUMENT,
            "dataset_random_split: the lengths' sum is -1; expected integers "
            "of at least 0 with the sum 10, the set's count, or "
            "fractions with the sum 1");
    REFUSED(tn_dataset_random_split(set, NULL, 2, 7, again) == TN_OK,
            TN_ERR_ARGUMENT, "dataset_random_split: lengths is NULL");
}

static void test_k_fold(void)
{
    tn_dataset *set = numbers(0, 7), *train = NULL, *test = NULL;
    is_int(tn_dataset_k_fold(set, 3, 0, &train, &test), TN_OK, "fold 0");
    ARE(test, "the first fold has one more", 0, 1, 2);
    ARE(train, "the rest", 3, 4, 5, 6);
    tn_dataset_k_fold(set, 3, 2, &train, &test);
    ARE(test, "the last fold", 5, 6);
    ARE(train, "and its rest", 0, 1, 2, 3, 4);
    int tested[7] = {0};
    for (int fold = 0; fold < 3; fold++) {
        tn_dataset_k_fold(set, 3, fold, &train, &test, .shuffle = true,
                          .seed = 3);
        TN_EACH_BATCH(batch, tn_loader_new(test))
            tested[(int)tn_item(batch.x)]++;
    }
    bool once = true;
    for (int i = 0; i < 7; i++)
        once &= tested[i] == 1;
    ok(once, "each sample is tested once, also shuffled");
    REFUSED(tn_dataset_k_fold(set, 8, 0, &train, &test) == TN_OK,
            TN_ERR_ARGUMENT,
            "dataset_k_fold: folds is 8; expected 2 to 7, the set's count");
    REFUSED(tn_dataset_k_fold(set, 3, 3, &train, &test) == TN_OK,
            TN_ERR_ARGUMENT,
            "dataset_k_fold: fold is 3, outside [0, 3), the range of folds");
    REFUSED(tn_dataset_k_fold(set, 3, 0, NULL, &test) == TN_OK,
            TN_ERR_ARGUMENT, "dataset_k_fold: out_train is NULL");
    REFUSED(tn_dataset_k_fold(set, 3, 0, &train, &test, .seed = 2) == TN_OK,
            TN_ERR_ARGUMENT,
            "dataset_k_fold: .seed has no effect without shuffle: give "
            "shuffle, or leave .seed out");
}

/* ---- collating ----------------------------------------------------------- */

/* Sample i has two fields: i + 1 numbers i, and i. */
static int growing(void *context, int64_t i, tn_tensor **fields)
{
    (void)context;
    if (i == 9)
        return tn_error_set(TN_ERR_IO, "no line 9 in the file"), TN_ERR_IO;
    fields[0] = tn_full(tn_dims(i + 1), (double)i, .dtype = TN_F32);
    fields[1] = tn_scalar_tensor((double)i, .dtype = TN_F32);
    return fields[0] && fields[1] ? 2 : tn_error_code();
}

static tn_dataset *growing_set(int64_t count)
{
    tn_dataset_class type = {sizeof type, count, growing, NULL};
    return tn_dataset_new(&type, NULL);
}

/* Collates samples to one field, which has the sum of each sample. */
static int sums(tn_tensor *const *samples, int64_t count, int field_count,
                void *context, tn_tensor **fields)
{
    tn_tensor *sum[16];
    ++*(atomic_int *)context;
    for (int64_t i = 0; i < count; i++)
        sum[i] = tn_sum(samples[i * field_count]);
    fields[0] = tn_stack(sum, (int)count, 0);
    return fields[0] ? 1 : tn_error_code();
}

static int too_many(tn_tensor *const *samples, int64_t count, int field_count,
                    void *context, tn_tensor **fields)
{
    (void)samples, (void)count, (void)field_count, (void)context, (void)fields;
    return 99;
}

static void test_collate(void)
{
    tn_dataset *set = growing_set(4);
    const double value[] = {-1, 0};
    double got[12];
    TN_EACH_BATCH(batch, tn_loader_new(set, .batch_size = 3,
                                       .collate = tn_collate_pad,
                                       .collate_context = (void *)value)) {
        if (batch.index > 0)
            continue;
        is_int(tn_tensor_size(batch.x, 1), 3, "padded to the longest");
        tn_tensor_to_array(tn_to_dtype(batch.x, TN_F64), got, 72);
        const double want[] = {0, -1, -1, 1, 1, -1, 2, 2, 2};
        ok(memcmp(got, want, 72) == 0, "by the value given, at the end");
        ok(tn_tensor_ndim(batch.y) == 1 && batch.field_count == 2,
           "scalars are stacked");
    }
    for (int workers = 0; workers < 3; workers++) {
        atomic_int calls = 0;
        double sum = 0;
        TN_EACH_BATCH(batch, tn_loader_new(set, .batch_size = 2,
                                           .collate = sums,
                                           .collate_context = &calls,
                                           .workers = workers)) {
            ok(!batch.y && batch.field_count == 1, "one field");
            sum += tn_item(tn_sum(batch.x));
        }
        is_int(calls, 2, "%d workers: a call for each batch", workers);
        is_double_near(sum, 0 + 2 + 6 + 12, 0, "of all samples");
    }
    /* a set of tensors, whose rows are collated as single samples */
    TN_EACH_BATCH(batch, tn_loader_new(numbers(5, 2), .batch_size = 2,
                                       .collate = tn_collate_pad))
        is_double_near(tn_item(tn_sum(batch.x)), 11, 0, "rows are samples");

    tn_tensor *fields[TN_MAX_FIELDS];
    REFUSED(tn_dataset_batch(set, (int64_t[]){1, 3}, 2, fields) > 0,
            TN_ERR_SHAPE,
            "dataset_batch: field 0 of sample 3 is (4,), of sample 1 (2,): only "
            "equal shapes can be stacked; .collate = tn_collate_pad pads them");
    tn_dataset *torn = tn_dataset_subset(growing_set(10), (int64_t[]){9}, 1);
    for (int workers = 0; workers < 2; workers++) {
        TN_EACH_BATCH(batch, tn_loader_new(torn, .collate = tn_collate_pad,
                                           .workers = workers))
            ok(false, "a batch of a torn sample");
        is_str(tn_error(), "dataset_batch: sample 9: no line 9 in the file",
               "an error names the sample");
        tn_error_clear();
    }
    TN_EACH_BATCH(batch, tn_loader_new(set, .collate = too_many))
        ok(false, "too many fields");
    is_str(tn_error(),
           "batch_next: collate returned 99 fields; expected 1 to 8",
           "what collate returns is checked");
    tn_error_clear();
    REFUSED(tn_loader_new(set, .collate_context = set), TN_ERR_ARGUMENT,
            "loader_new: .collate_context has no effect without collate: give "
            "collate, or leave .collate_context out");
    REFUSED(tn_collate_pad(NULL, 1, 1, NULL, fields) > 0, TN_ERR_ARGUMENT,
            "collate_pad: samples is NULL");
}

/* ---- buckets ------------------------------------------------------------- */

static void test_buckets(void)
{
    int64_t lengths[40];
    for (int i = 0; i < 40; i++)
        lengths[i] = (i * 7) % 40 + 1;
    tn_dataset *set = numbers(0, 40);
    for (int replicas = 1; replicas <= 2; replicas++) {
        int seen[40] = {0};
        int64_t widest[2][10] = {{0}}, narrowest[2][10];
        bool first_longest = true;
        for (int rank = 0; rank < replicas; rank++) {
            tn_loader *loader = tn_loader_new(
                set, .batch_size = 4 / replicas, .shuffle = true, .seed = 5,
                .lengths = lengths, .length_count = 40, .bucket_batches = 10,
                .num_replicas = replicas, .rank = rank);
            is_int(tn_loader_count(loader), 10, "ten batches");
            TN_EACH_BATCH(batch, loader) {
                int64_t low = 99, high = 0, *x = (int64_t[4]){0};
                tn_tensor_to_array(batch.x, x, (size_t)batch.count * 8);
                for (int64_t i = 0; i < batch.count; i++) {
                    const int64_t length = lengths[x[i]];
                    seen[x[i]]++;
                    low = length < low ? length : low;
                    high = length > high ? length : high;
                }
                widest[rank][batch.index] = high;
                narrowest[rank][batch.index] = low;
                if (batch.index)
                    first_longest &= widest[rank][batch.index - 1] >= high;
            }
        }
        bool near = true, once = true;
        for (int k = 0; k < 10; k++) {
            int64_t high = widest[0][k], low = narrowest[0][k];
            if (replicas == 2) {
                high = widest[1][k] > high ? widest[1][k] : high;
                low = narrowest[1][k] < low ? narrowest[1][k] : low;
            }
            near &= high - low == 3;
        }
        for (int i = 0; i < 40; i++)
            once &= seen[i] == 1;
        ok(near, "%d replicas: the samples of a step have like lengths",
           replicas);
        ok(once, "each sample occurs once");
        ok(!first_longest, "the batches are shuffled");
    }
    int64_t previous = 99;
    bool falls = true;
    TN_EACH_BATCH(batch, tn_loader_new(set, .batch_size = 7, .lengths = lengths,
                                       .length_count = 40)) {
        int64_t x[7] = {0};
        tn_tensor_to_array(batch.x, x, (size_t)batch.count * 8);
        for (int64_t i = 0; i < batch.count; i++) {
            falls &= lengths[x[i]] <= previous;
            previous = lengths[x[i]];
        }
    }
    ok(falls, "without shuffle the longest come first");
    REFUSED(tn_loader_new(set, .lengths = lengths, .length_count = 3),
            TN_ERR_ARGUMENT, "loader_new: 3 lengths for a set of 40 samples; "
                             "expected one for each");
    REFUSED(tn_loader_new(set, .lengths = lengths, .length_count = 40,
                          .bucket_batches = 0),
            TN_ERR_ARGUMENT,
            "loader_new: bucket_batches is 0; expected at least 1");
    REFUSED(tn_loader_new(set, .bucket_batches = 3), TN_ERR_ARGUMENT,
            "loader_new: .bucket_batches has no effect without lengths: give "
            "lengths, or leave .bucket_batches out");
    REFUSED(tn_loader_new(set, .length_count = 3), TN_ERR_ARGUMENT,
            "loader_new: lengths is NULL, but length_count is 3");
}

/* ---- streams ------------------------------------------------------------- */

typedef struct source {
    int64_t at, end, torn;
    uint64_t epoch;
    bool open, fails;
    int released;
} source;

static tn_status begin(void *context, uint64_t epoch)
{
    source *s = context;
    s->at = 0;
    s->epoch = epoch;
    s->open = !s->fails;
    return s->fails ? TN_ERR_IO : TN_OK;
}

/* Returns two fields: the next number and a random number. */
static int next(void *context, tn_tensor **fields)
{
    source *s = context;
    if (s->at == s->end)
        return 0;
    if (s->torn && s->at == s->torn)
        return tn_error_set(TN_ERR_IO, "the line is cut"), TN_ERR_IO;
    fields[0] = tn_scalar_tensor((double)(s->at++ + 100 * (int64_t)s->epoch),
                                 .dtype = TN_F32);
    fields[1] = tn_rand(TN_SCALAR);
    return fields[0] && fields[1] ? 2 : tn_error_code();
}

static void released(void *context)
{
    ((source *)context)->released++;
}

static const tn_stream_class stream_class = {sizeof stream_class, begin, next,
                                             released};

typedef struct heard {
    float x[400], y[400];
    int64_t count, batches;
} heard;

static void listen(tn_loader *loader, heard *h, int64_t most)
{
    TN_EACH_BATCH(batch, loader) {
        tn_tensor_to_array(batch.x, h->x + h->count, (size_t)batch.count * 4);
        tn_tensor_to_array(batch.y, h->y + h->count, (size_t)batch.count * 4);
        h->count += batch.count;
        h->batches++;
        if (h->batches == most)
            break;
    }
}

static bool same(const heard *a, const heard *b)
{
    return a->count == b->count &&
           memcmp(a->x, b->x, (size_t)a->count * 4) == 0 &&
           memcmp(a->y, b->y, (size_t)a->count * 4) == 0;
}

static void test_streams(void)
{
    static heard first, other;
    source s = {.end = 23};
    tn_scope *scope = tn_scope_open();
    tn_dataset *set = tn_dataset_from_stream(&stream_class, &s);
    is_int(tn_dataset_count(set), 0, "a stream's number is not known");
    tn_loader *loader = tn_loader_new(set, .batch_size = 5, .seed = 2);
    is_int(tn_loader_count(loader), 0, "nor that of its batches");
    listen(loader, &first, -1);
    is_int(first.batches, 5, "five batches");
    is_int(first.count, 23, "the last of three samples");
    listen(loader, &first, -1);
    is_double_near((double)first.x[23], 100, 0, "the second epoch begins anew");
    for (int workers = 1; workers < 5; workers++) {
        other = (heard){.count = 0};
        loader = tn_loader_new(set, .batch_size = 5, .seed = 2,
                               .workers = workers);
        listen(loader, &other, -1);
        listen(loader, &other, -1);
        ok(same(&first, &other), "%d workers: the same batches", workers);
    }
    /* stops in the second epoch, after each batch in turn */
    for (int stop = 1; stop < 6; stop++) {
        tn_loader *one = tn_loader_new(set, .batch_size = 5, .seed = 2);
        other = (heard){.count = 0};
        listen(one, &other, -1);
        tn_loader_state state = {0};
        TN_EACH_BATCH(batch, one) {
            tn_tensor_to_array(batch.x, other.x + other.count,
                               (size_t)batch.count * 4);
            tn_tensor_to_array(batch.y, other.y + other.count,
                               (size_t)batch.count * 4);
            other.count += batch.count;
            state = tn_loader_snapshot(one);
            if (batch.index + 1 == stop)
                break;
        }
        tn_loader *two = tn_loader_new(set, .batch_size = 5, .seed = 9,
                                       .workers = stop % 3);
        is_int(tn_loader_restore(two, state), TN_OK, "restored");
        listen(two, &other, -1);
        ok(same(&first, &other), "resumed after batch %d", stop);
    }
    loader = tn_loader_new(set, .batch_size = 5, .drop_last = true,
                           .workers = 2);
    other = (heard){.count = 0};
    listen(loader, &other, -1);
    is_int(other.count, 20, "drop_last");
    for (int drop = 0; drop < 2; drop++) {
        for (int rank = 0; rank < 4; rank++) {
            loader = tn_loader_new(set, .batch_size = 2, .num_replicas = 4,
                                   .rank = rank, .drop_uneven = drop,
                                   .workers = rank);
            other = (heard){.count = 0};
            listen(loader, &other, -1);
            is_int(other.count, drop || rank == 3 ? 5 : 6,
                   "rank %d of 4 has its share", rank);
            bool mine = true;
            for (int64_t i = 0; i < other.count; i++)
                mine &= (int64_t)other.x[i] % 4 == rank;
            ok(mine, "every fourth sample");
        }
    }
    TN_EACH_BATCH(batch, tn_loader_new(set, .batch_size = 8,
                                       .collate = tn_collate_pad))
        ok(batch.count == (batch.index < 2 ? 8 : 7), "collated");
    s.end = 0;
    TN_EACH_BATCH(batch, tn_loader_new(set, .workers = 2))
        ok(false, "a batch of an empty stream");
    ok(!tn_error(), "an empty stream has no batches");
    tn_scope_close(scope);
    is_int(s.released, 1, "a stream is released once");
}

static void test_stream_mistakes(void)
{
    source s = {.end = 30, .torn = 12};
    tn_dataset *set = tn_dataset_from_stream(&stream_class, &s);
    for (int workers = 0; workers < 4; workers++) {
        static heard h;
        h = (heard){.count = 0};
        listen(tn_loader_new(set, .batch_size = 5, .workers = workers), &h, -1);
        is_int(h.batches, 2, "%d workers: the batches before an error come",
               workers);
        is_str(tn_error(), "batch_next: sample 12: the line is cut",
               "the error names the sample");
        tn_error_clear();
    }
    s.fails = true;
    TN_EACH_BATCH(batch, tn_loader_new(set, .workers = 1))
        ok(false, "a stream that does not begin");
    is_str(tn_error(), "batch_next: begin of the stream failed with ERR_IO",
           "a failing begin");
    tn_error_clear();
    s.fails = false;
    tn_loader *one = tn_loader_new(set), *two = tn_loader_new(set);
    int batches = 0;
    TN_EACH_BATCH(batch, one) {
        if (++batches == 2)
            TN_EACH_BATCH(inner, two)
                break;
    }
    is_str(tn_error(),
           "batch_next: another loop over the stream has begun, which ended "
           "this one",
           "one loop at a time");
    tn_error_clear();
    tn_tensor *fields[TN_MAX_FIELDS];
    REFUSED(tn_dataset_batch(set, (int64_t[]){0}, 1, fields) > 0, TN_ERR_INDEX,
            "dataset_batch: index 0 at position 0 is outside [0, 0)");
    REFUSED(tn_loader_new(set, .shuffle = true), TN_ERR_ARGUMENT,
            "loader_new: shuffle is given for a stream, whose samples come in "
            "their own order");
    tn_stream_class half = {.size = sizeof half, .begin = begin};
    REFUSED(tn_dataset_from_stream(&half, NULL), TN_ERR_ARGUMENT,
            "dataset_from_stream: type has no next");
    REFUSED(tn_dataset_from_stream(NULL, NULL), TN_ERR_ARGUMENT,
            "dataset_from_stream: type is NULL");
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    test_concat();
    test_random_split();
    test_k_fold();
    test_collate();
    test_buckets();
    test_streams();
    test_stream_mistakes();
    ok(tn_error() == NULL, "no error is left%s%s", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    return done_testing();
}
