/* dataset.c: data sets: rows of tensors, a user's callback, CSV files, and
 * parts of other sets. */
#include <data/dataset.h>
#include <data/order.h>

#include <base/error.h>
#include <base/memory.h>
#include <stdlib.h>
#include <io/csv.h>
#include <string.h>
#include <tenon/io.h>
#include <tenon/ops.h>
#include <tensor/tensor.h>

static void destroy(tn__object *object)
{
    tn_dataset *set = (tn_dataset *)object;
    set->kind->release(set);
    tn__object_free(set, sizeof *set);
}

static const tn__class dataset_class = {.name = "dataset",
                                        .destroy = destroy};

bool tn__dataset_check(const tn_dataset *set, const char *call)
{
    return tn__dataset_check_as(set, call, "set");
}

bool tn__dataset_check_as(const tn_dataset *set, const char *call,
                          const char *argument)
{
    return tn__object_check(set, &dataset_class, call, argument);
}

tn_dataset *tn__dataset_new(const tn__dataset_kind *kind, int64_t count)
{
    tn_dataset *set = tn__calloc(1, sizeof *set);
    if (!set)
        return NULL;
    tn__object_init(&set->object, &dataset_class);
    set->kind = kind;
    set->count = count;
    return set;
}

tn_status tn__data_check(const char *name, const char *argument,
                         const char *what, int64_t count)
{
    if (count <= TN__DATA_MAX)
        return TN_OK;
    return tn__fail(TN_ERR_ARGUMENT,
                    "%s: {%s:}%s is %lld; expected at most %lld",
                    name, argument, what, (long long)count,
                    (long long)TN__DATA_MAX);
}

/* ---- rows of tensors ---------------------------------------------------- */

/* Returns whether index is consecutive. Then a batch is a view of the
 * tensor. */
static bool is_consecutive(const int64_t *index, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        if (index[i] != index[0] + i)
            return false;
    }
    return count > 0;
}

static int tensors_batch(tn_dataset *set, const int64_t *index, int64_t count,
                         tn_tensor **fields)
{
    tn_tensor *rows = NULL;
    bool consecutive = is_consecutive(index, count);
    for (int f = 0; f < set->of.tensors.count; f++) {
        tn_tensor *all = set->of.tensors.field[f];
        if (consecutive) {
            fields[f] = tn_narrow(all, 0, index[0], count);
        } else {
            if (!rows)
                rows = tn_to(tn_tensor_from_array(index, TN_I64,
                                                  tn_dims(count)),
                             tn_tensor_device(all));
            fields[f] = tn_index_select(all, 0, rows);
        }
        if (!fields[f])
            return tn_error_code();
    }
    return set->of.tensors.count;
}

static void tensors_release(tn_dataset *set)
{
    for (int f = 0; f < set->of.tensors.count; f++)
        tn__unref(set->of.tensors.field[f]);
}

static const tn__dataset_kind tensors_kind = {tensors_batch, tensors_release,
                                              NULL};

static tn_status check_fields(tn_tensor *const *fields, int count)
{
    const char *call = "dataset_from_fields";
    if (!fields || count < 1 || count > TN_MAX_FIELDS)
        return tn__fail(TN_ERR_ARGUMENT,
                        "%s: {fields:}%d fields; expected 1 to %d", call,
                        fields ? count : 0, TN_MAX_FIELDS);
    for (int f = 0; f < count; f++) {
        char name[16];
        snprintf(name, sizeof name, "fields[%d]", f);
        if (!tn__tensor_check(fields[f], call, name))
            return tn_error_code();
        if (tn_tensor_ndim(fields[f]) == 0)
            return tn__fail(TN_ERR_SHAPE,
                            "%s: {fields[%d]} has no dimensions; expected one "
                            "whose rows are samples",
                            call, f);
        if (tn_tensor_size(fields[f], 0) != tn_tensor_size(fields[0], 0))
            return tn__fail(TN_ERR_SHAPE,
                            "%s: {fields[%d]} has %lld samples (its first "
                            "size), but fields[0] has %lld; expected the same "
                            "number", call, f,
                            (long long)tn_tensor_size(fields[f], 0),
                            (long long)tn_tensor_size(fields[0], 0));
    }
    return TN_OK;
}

tn_dataset *tn_dataset_from_fields(tn_tensor *const *fields, int count)
{
    if (check_fields(fields, count) < 0)
        return NULL;
    tn_dataset *set =
        tn__dataset_new(&tensors_kind, tn_tensor_size(fields[0], 0));
    if (!set)
        return NULL;
    set->of.tensors.count = count;
    for (int f = 0; f < count; f++)
        set->of.tensors.field[f] = tn__ref(fields[f]);
    return tn__scope_own(set);
}

tn_dataset *tn_dataset_from_tensors(tn_tensor *x, tn_tensor *y)
{
    if (!tn__tensor_check(x, "dataset_from_tensors", "x") ||
        (y && !tn__tensor_check(y, "dataset_from_tensors", "y")))
        return NULL;
    if (!y && tn__error_pending())
        return NULL; /* y is NULL due to an error, not because there are no
                        labels */
    tn_tensor *fields[] = {x, y};
    return tn_dataset_from_fields(fields, y ? 2 : 1);
}

/* ---- a user's class ----------------------------------------------------- */

static int user_sample(tn_dataset *set, int64_t i, tn_tensor **fields)
{
    const int got = set->of.user.type.get(set->of.user.context, i, fields);
    if (got < 0 && tn_error()) {
        tn__error_prefix("dataset_batch: sample %lld", (long long)i);
        return got;
    }
    if (got < 0)
        return tn__fail(got, "dataset_batch: {set:}get(%lld) failed with %s",
                        (long long)i, tn_status_name(got));
    if (got < 1 || got > TN_MAX_FIELDS)
        return tn__fail(
            TN_ERR_ARGUMENT,
            "dataset_batch: {set:}get(%lld) returned %d fields; expected 1 to "
            "%d",
            (long long)i, got, TN_MAX_FIELDS);
    for (int f = 0; f < got; f++) {
        char name[64];
        snprintf(name, sizeof name, "field %d of get(%lld)", f, (long long)i);
        if (!tn__tensor_check(fields[f], "dataset_batch", name))
            return tn_error_code();
    }
    return got;
}

static void user_release(tn_dataset *set)
{
    if (set->of.user.type.release)
        set->of.user.type.release(set->of.user.context);
}

static const tn__dataset_kind user_kind = {tn__dataset_stack, user_release,
                                           user_sample};

tn_dataset *tn_dataset_new(const tn_dataset_class *type, void *context)
{
    if (!type)
        return tn__fail_null(TN_ERR_ARGUMENT, "dataset_new: {type} is NULL");
    if (!type->get)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "dataset_new: {type:}get is NULL");
    if (type->count < 0)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "dataset_new: {type:}count is %lld; expected at "
                             "least 0", (long long)type->count);
    tn_dataset *set = tn__dataset_new(&user_kind, type->count);
    if (!set)
        return NULL;
    size_t known = type->size && type->size < sizeof set->of.user.type
                       ? type->size
                       : sizeof set->of.user.type;
    memcpy(&set->of.user.type, type, known);
    set->of.user.context = context;
    return tn__scope_own(set);
}

/* ---- a range of another set --------------------------------------------- */

static int range_batch(tn_dataset *set, const int64_t *index, int64_t count,
                       tn_tensor **fields)
{
    int64_t *shifted = tn__alloc_many(count, sizeof *shifted);
    if (!shifted)
        return TN_ERR_MEMORY;
    for (int64_t i = 0; i < count; i++)
        shifted[i] = index[i] + set->of.range.begin;
    tn_dataset *base = set->of.range.base;
    int got = base->kind->batch(base, shifted, count, fields);
    tn__free(shifted);
    return got;
}

static int range_sample(tn_dataset *set, int64_t i, tn_tensor **fields)
{
    return tn__dataset_sample(set->of.range.base, i + set->of.range.begin,
                              fields);
}

static void range_release(tn_dataset *set)
{
    tn__unref(set->of.range.base);
}

static const tn__dataset_kind range_kind = {range_batch, range_release,
                                            range_sample};

tn_dataset *tn_dataset_range(tn_dataset *set, int64_t begin, int64_t end)
{
    if (!tn__dataset_check(set, "dataset_range"))
        return NULL;
    if (begin < 0 || begin > end || end > set->count)
        return tn__fail_null(
            TN_ERR_ARGUMENT,
            "dataset_range: {%s:}[%lld, %lld) is not within the "
            "set's [0, %lld)",
            begin < 0 || begin > set->count ? "begin" : "end",
            (long long)begin, (long long)end, (long long)set->count);
    tn_dataset *range = tn__dataset_new(&range_kind, end - begin);
    if (!range)
        return NULL;
    range->of.range.base = tn__ref(set);
    range->of.range.begin = begin;
    return tn__scope_own(range);
}

/* ---- chosen samples of another set -------------------------------------- */

static int choice_batch(tn_dataset *set, const int64_t *index, int64_t count,
                        tn_tensor **fields)
{
    int64_t *mapped = tn__alloc_many(count, sizeof *mapped);
    if (!mapped)
        return TN_ERR_MEMORY;
    for (int64_t i = 0; i < count; i++)
        mapped[i] = set->of.choice.index[index[i]];
    tn_dataset *base = set->of.choice.base;
    int got = base->kind->batch(base, mapped, count, fields);
    tn__free(mapped);
    return got;
}

static int choice_sample(tn_dataset *set, int64_t i, tn_tensor **fields)
{
    return tn__dataset_sample(set->of.choice.base, set->of.choice.index[i],
                              fields);
}

static void choice_release(tn_dataset *set)
{
    tn__unref(set->of.choice.base);
    tn__free(set->of.choice.index);
}

static const tn__dataset_kind choice_kind = {choice_batch, choice_release,
                                             choice_sample};

/* Makes a selection of count samples of base. The caller fills its index. */
static tn_dataset *choice_new(tn_dataset *base, int64_t count)
{
    tn_dataset *set = tn__dataset_new(&choice_kind, count);
    if (!set)
        return NULL;
    set->of.choice.base = tn__ref(base);
    set->of.choice.index =
        tn__alloc_many(count, sizeof *set->of.choice.index);
    if (!set->of.choice.index) {
        tn__unref(set);
        return NULL;
    }
    return set;
}

tn_dataset *tn_dataset_shuffle(tn_dataset *set, uint64_t seed)
{
    if (!tn__dataset_check(set, "dataset_shuffle") ||
        tn__data_check("dataset_shuffle", "set", "the set's count",
                       set->count) < 0)
        return NULL;
    tn_dataset *mixed = choice_new(set, set->count);
    if (!mixed)
        return NULL;
    tn__order_shuffle(mixed->of.choice.index, set->count, seed, 0);
    return tn__scope_own(mixed);
}

tn_dataset *tn_dataset_subset(tn_dataset *set, const int64_t *index,
                              int64_t count)
{
    if (!tn__dataset_check(set, "dataset_subset"))
        return NULL;
    if (count < 0)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "dataset_subset: {count} is %lld; expected at "
                             "least 0",
                             (long long)count);
    if (count && !index)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "dataset_subset: {index} is NULL");
    if (tn__data_check("dataset_subset", "count", "count", count) < 0)
        return NULL;
    for (int64_t i = 0; i < count; i++) {
        if (index[i] < 0 || index[i] >= set->count) {
            tn__fail_outside(
                TN_ERR_INDEX,
                (tn__error_index){true, index[i], 0, set->count, 1, {i}},
                "dataset_subset: {index}[%lld] is %lld, outside the set's "
                "[0, %lld)",
                (long long)i, (long long)index[i], (long long)set->count);
            return NULL;
        }
    }
    tn_dataset *chosen = choice_new(set, count);
    if (!chosen)
        return NULL;
    if (count)
        memcpy(chosen->of.choice.index, index, (size_t)count * sizeof *index);
    return tn__scope_own(chosen);
}

/* ---- CSV files and common calls ----------------------------------------- */

TN_OPTIONS_TYPE(tn_csv_load, "dataset_from_csv", "path",
                TN_CSV_LOAD_OPTIONS_LIST)

tn_dataset *tn_dataset_from_csv(const char *path,
                                const tn_csv_load_options *options)
{
    if (!path)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "dataset_from_csv: {path} is NULL");
    tn_csv_load_options o;
    tn__csv_table table;
    bool first = !tn__error_pending();
    if (tn_options_take(tn_csv_load_type(), &o, options) < 0 ||
        tn__csv_read(&table, tn_csv_load_type(), path, &o, true) < 0) {
        if (first)
            tn_error_rename("csv_load", "dataset_from_csv", NULL);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn__csv_tensor(&table, o.dtype);
    tn_tensor *y =
        tn_tensor_from_array(table.label, TN_I64, tn_dims(table.rows));
    tn__csv_release(&table);
    tn_dataset *set = x && y ? tn_dataset_from_tensors(x, y) : NULL;
    return tn_scope_result(scope, set);
}

int64_t tn_dataset_count(const tn_dataset *set)
{
    return tn__object_has(set, &dataset_class, "dataset_count", "set")
               ? set->count
               : 0;
}

int tn_dataset_batch(tn_dataset *set, const int64_t *index, int64_t count,
                     tn_tensor **fields)
{
    if (!tn__dataset_check(set, "dataset_batch"))
        return tn_error_code();
    if (!index || !fields)
        return tn__fail(TN_ERR_ARGUMENT, "dataset_batch: {%s} is NULL",
                        index ? "fields" : "index");
    if (count < 1)
        return tn__fail(TN_ERR_ARGUMENT,
                        "dataset_batch: {count} is %lld; expected at least 1",
                        (long long)count);
    if (tn__data_check("dataset_batch", "count", "count", count) < 0)
        return tn_error_code();
    for (int64_t i = 0; i < count; i++) {
        if (index[i] < 0 || index[i] >= set->count)
            return tn__fail_outside(
                TN_ERR_INDEX,
                (tn__error_index){true, index[i], 0, set->count, 1, {i}},
                "dataset_batch: {index} %lld at position %lld is outside [0, "
                "%lld)",
                (long long)index[i], (long long)i, (long long)set->count);
    }
    return set->kind->batch(set, index, count, fields);
}
