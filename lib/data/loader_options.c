/* loader_options.c: reads and checks the options of tn_loader_new. */
#include <data/dataset.h>
#include <data/loader_options.h>
#include <data/order.h>
#include <data/stream.h>

#include <base/error.h>
#include <math.h>

enum { MAX_WORKERS = 256 };

static tn_status check_order(const tn_dataset *set,
                             const tn_loader_new_options *options)
{
    if (options->order_count < 0)
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_new: {order_count} is %lld; expected at least "
                        "0",
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
                        "loader_new: {num_replicas} is %d; expected at least 1",
                        replicas);
    if (options->rank < 0 || options->rank >= replicas)
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_new: {rank} is %d; expected at least 0 and "
                        "below num_replicas, %d",
                        options->rank, replicas);
    if (options->shards < 0 || options->shards % replicas)
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_new: {shards} is %lld; expected a multiple of "
                        "num_replicas, %d",
                        (long long)options->shards, replicas);
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
                        "loader_new: {bucket_batches} is %lld; expected at "
                        "least 1",
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
                       : all->shards      ? "shards"
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
                        "loader_new: {batch_size} is %lld; expected at least 1",
                        (long long)all->batch_size);
    if (all->workers < 0 || all->workers > MAX_WORKERS)
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_new: {workers} is %d; expected 0 to %d",
                        all->workers, MAX_WORKERS);
    if (all->on_error != TN_ON_ERROR_FAIL && all->on_error != TN_ON_ERROR_SKIP)
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_new: {on_error} is %d; expected "
                        "TN_ON_ERROR_FAIL or TN_ON_ERROR_SKIP",
                        (int)all->on_error);
    tn_status status = check_lists(all);
    if (status == TN_OK)
        status = check_needs(all);
    if (status == TN_OK && tn__dataset_stream(set))
        status = check_stream(all);
    if (status == TN_OK && tn__dataset_stream(set) && all->on_error)
        return tn__fail(TN_ERR_ARGUMENT,
                        "loader_new: {on_error} is TN_ON_ERROR_SKIP for a "
                        "stream: let its next() leave such samples out");
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
                        "loader_new: {sample_count} is %lld; expected at least "
                        "1",
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

tn_status tn__loader_options_take(const tn_dataset *set,
                                  const tn_loader_new_options *options,
                                  tn_loader_new_options *all)
{
    tn_status status = tn_options_take(tn_loader_new_type(), all, options);
    return status < 0 ? status : check(set, all);
}
