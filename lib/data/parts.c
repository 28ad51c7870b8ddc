/* parts.c: data sets made of other data sets: concatenations, random splits,
 * and the folds of a cross-validation. */
#include <data/dataset.h>
#include <data/order.h>

#include <base/error.h>
#include <base/memory.h>
#include <math.h>
#include <string.h>

/* ---- several sets in a row ---------------------------------------------- */

/* Returns which set contains sample *i, and sets *i to the index within that
 * set. */
static int locate(const tn_dataset *set, int64_t *i)
{
    int at = 0;
    while (*i >= set->of.concat.set[at]->count)
        *i -= set->of.concat.set[at++]->count;
    return at;
}

static int concat_sample(tn_dataset *set, int64_t i, tn_tensor **fields)
{
    const int at = locate(set, &i);
    return tn__dataset_sample(set->of.concat.set[at], i, fields);
}

/* Makes a batch. If all samples are from one set, that set makes it; otherwise
 * single samples are stacked. */
static int concat_batch(tn_dataset *set, const int64_t *index, int64_t count,
                        tn_tensor **fields)
{
    int64_t *own = tn__alloc_many(count, sizeof *own);
    if (!own)
        return TN_ERR_MEMORY;
    int at = 0;
    bool one = true;
    for (int64_t i = 0; i < count; i++) {
        own[i] = index[i];
        const int here = locate(set, &own[i]);
        at = i ? at : here;
        one = one && here == at;
    }
    int got;
    if (one) {
        tn_dataset *base = set->of.concat.set[at];
        got = base->kind->batch(base, own, count, fields);
    } else {
        got = tn__dataset_stack(set, index, count, fields);
    }
    tn__free(own);
    return got;
}

static void concat_release(tn_dataset *set)
{
    for (int k = 0; k < set->of.concat.count; k++)
        tn__unref(set->of.concat.set[k]);
    tn__free(set->of.concat.set);
}

static const tn__dataset_kind concat_kind = {concat_batch, concat_release,
                                             concat_sample};

tn_dataset *tn_dataset_concat(tn_dataset *const *sets, int count)
{
    if (!sets || count < 1)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "dataset_concat: {%s:}%d data sets; expected at "
                             "least 1",
                             sets ? "count" : "sets", sets ? count : 0);
    int64_t total = 0;
    for (int k = 0; k < count; k++) {
        char name[32];
        snprintf(name, sizeof name, "sets[%d]", k);
        if (!tn__dataset_check_as(sets[k], "dataset_concat", name) ||
            tn__data_check("dataset_concat", "sets", "their count",
                           total += sets[k]->count) < 0)
            return NULL;
    }
    tn_dataset *all = tn__dataset_new(&concat_kind, total);
    if (!all)
        return NULL;
    all->of.concat.set = tn__alloc_many(count, sizeof *all->of.concat.set);
    if (!all->of.concat.set) {
        tn__unref(all);
        return NULL;
    }
    for (int k = 0; k < count; k++)
        all->of.concat.set[k] = tn__ref(sets[k]);
    all->of.concat.count = count;
    return tn__scope_own(all);
}

/* ---- random parts ------------------------------------------------------- */

/* Returns the sum of the lengths, or a negative number if a length is
 * invalid. */
static double sum_of(const double *lengths, int count)
{
    double sum = 0;
    for (int k = 0; k < count; k++) {
        if (!(lengths[k] >= 0))
            return -1;
        sum += lengths[k];
    }
    return sum;
}

/* Computes the sizes of the parts from counts or fractions of samples.
 * Fractions are rounded down, and each of the first parts gets one of the
 * remaining samples, as in PyTorch. */
static tn_status sizes_of(int64_t total, const double *lengths, int count,
                          int64_t *sizes)
{
    const double sum = sum_of(lengths, count);
    const bool fractions = fabs(sum - 1) <= 1e-9;
    int64_t left = total;
    bool whole = sum >= 0;
    for (int k = 0; k < count && whole; k++) {
        const double size =
            fractions ? floor((double)total * lengths[k]) : lengths[k];
        whole = size == floor(size) && size <= (double)left;
        sizes[k] = whole ? (int64_t)size : 0;
        left -= sizes[k];
    }
    for (int k = 0; fractions && left > 0; k = (k + 1) % count, left--)
        sizes[k]++;
    if (whole && left == 0)
        return TN_OK;
    return tn__fail(TN_ERR_ARGUMENT,
                    "dataset_random_split: {lengths:}the lengths' sum is %g; "
                    "expected integers of at least 0 with the sum %lld, "
                    "the set's count, or fractions with the sum 1",
                    sum, (long long)total);
}

tn_status tn_dataset_random_split(tn_dataset *set, const double *lengths,
                                  int count, uint64_t seed,
                                  tn_dataset **out_parts)
{
    if (!tn__dataset_check(set, "dataset_random_split"))
        return tn_error_code();
    if (!lengths || !out_parts || count < 1)
        return tn__fail(TN_ERR_ARGUMENT, "dataset_random_split: {%s} is %s",
                        !lengths     ? "lengths"
                        : !out_parts ? "out_parts"
                                     : "count",
                        lengths && out_parts ? "less than 1" : "NULL");
    int64_t *sizes = tn__alloc_many(count, sizeof *sizes);
    tn_dataset **part = tn__alloc_many(count, sizeof *part);
    tn_status status = sizes && part
                           ? sizes_of(set->count, lengths, count, sizes)
                           : TN_ERR_MEMORY;
    tn_dataset *mixed = status == TN_OK ? tn_dataset_shuffle(set, seed) : NULL;
    int64_t begin = 0;
    for (int k = 0; k < count && mixed && status == TN_OK; k++) {
        part[k] = tn_dataset_range(mixed, begin, begin + sizes[k]);
        begin += sizes[k];
        status = part[k] ? TN_OK : tn_error_code();
    }
    if (status == TN_OK && !mixed)
        status = tn_error_code();
    if (status == TN_OK)
        memcpy(out_parts, part, (size_t)count * sizeof *part);
    else if (mixed)
        tn_error_rename("dataset_range", "dataset_random_split", NULL);
    tn__free(sizes);
    tn__free(part);
    return status;
}

/* ---- cross-validation --------------------------------------------------- */

TN_OPTIONS_TYPE(tn_dataset_k_fold, "dataset_k_fold",
                "set, folds, fold, out_train, out_test",
                TN_DATASET_K_FOLD_OPTIONS_LIST)

tn_status tn_dataset_k_fold_with(tn_dataset *set, int folds, int fold,
                                 tn_dataset **out_train, tn_dataset **out_test,
                                 const tn_dataset_k_fold_options *options)
{
    tn_dataset_k_fold_options o;
    if (!tn__dataset_check(set, "dataset_k_fold") ||
        tn_options_take(tn_dataset_k_fold_type(), &o, options) < 0)
        return tn_error_code();
    const tn_option_need need[] = {
        {"seed", o.shuffle, "without shuffle", "give shuffle"}};
    if (tn_options_check_needs(tn_dataset_k_fold_type(), &o, need, 1) < 0)
        return tn_error_code();
    if (!out_train || !out_test)
        return tn__fail(TN_ERR_ARGUMENT, "dataset_k_fold: {%s} is NULL",
                        out_train ? "out_test" : "out_train");
    const int64_t count = set->count;
    if (folds < 2 || folds > count)
        return tn__fail(TN_ERR_ARGUMENT,
                        "dataset_k_fold: {folds} is %d; expected 2 to %lld, "
                        "the set's count",
                        folds, (long long)count);
    if (fold < 0 || fold >= folds)
        return tn__fail(TN_ERR_ARGUMENT,
                        "dataset_k_fold: {fold} is %d, outside [0, %d), the "
                        "range of folds",
                        fold, folds);
    if (tn__data_check("dataset_k_fold", "set", "the set's count", count) < 0)
        return tn_error_code();
    /* The first count % folds parts have one sample more. */
    const int64_t size = count / folds, more = count % folds;
    const int64_t begin = fold * size + (fold < more ? fold : more);
    const int64_t end = begin + size + (fold < more);
    int64_t *order = tn__alloc_many(2 * count, sizeof *order);
    if (!order)
        return TN_ERR_MEMORY;
    if (o.shuffle)
        tn__order_shuffle(order, count, o.seed, 0);
    else
        for (int64_t i = 0; i < count; i++)
            order[i] = i;
    int64_t *rest = order + count;
    memcpy(rest, order, (size_t)begin * sizeof *rest);
    memcpy(rest + begin, order + end, (size_t)(count - end) * sizeof *rest);
    tn_dataset *train = tn_dataset_subset(set, rest, count - (end - begin));
    tn_dataset *test =
        train ? tn_dataset_subset(set, order + begin, end - begin) : NULL;
    tn__free(order);
    if (!test) {
        tn_error_rename("dataset_subset", "dataset_k_fold", NULL);
        return tn_error_code();
    }
    *out_train = train;
    *out_test = test;
    return TN_OK;
}
