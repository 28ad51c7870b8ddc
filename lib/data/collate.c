/* collate.c: makes a batch of single samples: stacks them, pads them, or calls
 * the loader's collate function. */
#include <data/dataset.h>

#include <base/error.h>
#include <base/memory.h>
#include <limits.h>
#include <tenon/ops.h>
#include <tensor/tensor.h>

int tn__dataset_sample(tn_dataset *set, int64_t i, tn_tensor **fields)
{
    if (set->kind->sample)
        return set->kind->sample(set, i, fields);
    const int got = set->kind->batch(set, &i, 1, fields);
    for (int f = 0; f < got; f++) {
        fields[f] = tn_select(fields[f], 0, 0);
        if (!fields[f])
            return tn_error_code();
    }
    return got;
}

tn_status tn__samples_make(tn__samples *s, int64_t count)
{
    *s = (tn__samples){0};
    if (count > INT_MAX / TN_MAX_FIELDS)
        return tn__fail(TN_ERR_ARGUMENT,
                        "dataset_batch: {count} is %lld; expected at most %d",
                        (long long)count, INT_MAX / TN_MAX_FIELDS);
    s->tensor =
        tn__calloc((size_t)count * TN_MAX_FIELDS + 1, sizeof *s->tensor);
    s->index = tn__alloc_many(count, sizeof *s->index);
    if (s->tensor && s->index)
        return TN_OK;
    tn__samples_free(s);
    return TN_ERR_MEMORY;
}

void tn__samples_free(tn__samples *s)
{
    tn__free(s->tensor);
    tn__free(s->index);
}

tn_status tn__samples_add(tn__samples *s, int64_t index, int field_count,
                          tn_tensor *const *fields)
{
    if (s->count == 0)
        s->field_count = field_count;
    if (field_count != s->field_count)
        return tn__fail(TN_ERR_ARGUMENT,
                        "dataset_batch: {set:}sample %lld has %d fields; "
                        "sample %lld has %d",
                        (long long)index, field_count, (long long)s->index[0],
                        s->field_count);
    for (int f = 0; f < field_count; f++)
        s->tensor[s->count * field_count + f] = fields[f];
    s->index[s->count++] = index;
    return TN_OK;
}

/* Like tn__dataset_sample, but returns 0 for a sample that is left out. */
static int sample_or_none(tn_dataset *set, int64_t i, tn_tensor **fields)
{
    tn__error before, error;
    tn__error_hide(&before);
    int got = tn__dataset_sample(set, i, fields);
    tn__error_take(&error);
    tn__error_restore(&before);
    if (got >= 0)
        return got;
    if (error.code == TN_ERR_MEMORY || error.code == TN_ERR_DEVICE) {
        tn__error_put(&error);
        return got;
    }
    tn__log(1, "batch_next: sample %lld is skipped: %s", (long long)i,
            error.text);
    return 0;
}

int tn__samples_fetch(tn__samples *s, tn_dataset *set, const int64_t *index,
                      int64_t count, tn_on_error on_error)
{
    tn_status status = TN_OK;
    for (int64_t i = 0; i < count && status == TN_OK; i++) {
        tn_tensor *fields[TN_MAX_FIELDS];
        const int got = on_error == TN_ON_ERROR_SKIP
                            ? sample_or_none(set, index[i], fields)
                            : tn__dataset_sample(set, index[i], fields);
        if (got != 0)
            status = got < 0 ? (tn_status)got
                             : tn__samples_add(s, index[i], got, fields);
    }
    return status < 0 ? (int)status : s->field_count;
}

/* Checks that sample i has the shape, dtype and device of the first one, to
 * name the sample in the message. tn_stack would not name it. */
static tn_status check_same(const tn__samples *s, int64_t i, int f)
{
    const tn_tensor *first = s->tensor[f];
    const tn_tensor *x = s->tensor[i * s->field_count + f];
    bool same = tn_tensor_ndim(x) == tn_tensor_ndim(first);
    for (int d = 0; same && d < tn_tensor_ndim(x); d++)
        same = tn_tensor_shape(x)[d] == tn_tensor_shape(first)[d];
    if (same)
        return TN_OK;
    tn__text shapes = {0};
    tn__text_add_shape(&shapes, tn_tensor_ndim(x), tn_tensor_shape(x));
    tn__text_add(&shapes, ", of sample %lld ", (long long)s->index[0]);
    tn__text_add_shape(&shapes, tn_tensor_ndim(first), tn_tensor_shape(first));
    char *text = tn__text_finish(&shapes);
    if (text)
        tn__fail(TN_ERR_SHAPE,
                 "dataset_batch: {set:}field %d of sample %lld is %s: only "
                 "equal shapes can be stacked; .collate = tn_collate_pad pads "
                 "them",
                 f, (long long)s->index[i], text);
    tn__free(text);
    return tn_error_code();
}

static int stack(const tn__samples *s, tn_tensor **fields)
{
    tn_tensor **column = tn__alloc_many(s->count, sizeof *column);
    if (!column)
        return TN_ERR_MEMORY;
    tn_status status = TN_OK;
    for (int f = 0; f < s->field_count && status == TN_OK; f++) {
        for (int64_t i = 0; i < s->count && status == TN_OK; i++) {
            status = check_same(s, i, f);
            column[i] = s->tensor[i * s->field_count + f];
        }
        if (status == TN_OK)
            fields[f] = tn_stack(column, (int)s->count, 0);
        if (status == TN_OK && !fields[f])
            status = tn_error_code();
    }
    tn__free(column);
    return status < 0 ? (int)status : s->field_count;
}

int tn__dataset_stack(tn_dataset *set, const int64_t *index, int64_t count,
                      tn_tensor **fields)
{
    tn__samples s;
    if (tn__samples_make(&s, count) < 0)
        return tn_error_code();
    int got = tn__samples_fetch(&s, set, index, count, TN_ON_ERROR_FAIL);
    if (got > 0)
        got = stack(&s, fields);
    tn__samples_free(&s);
    return got;
}

int tn__samples_collate(const tn__samples *s, tn_collate collate, void *context,
                        tn_tensor **fields)
{
    if (!collate)
        return stack(s, fields);
    const int got =
        collate(s->tensor, s->count, s->field_count, context, fields);
    if (got < 0)
        return tn_error() ? got
                          : tn__fail(got,
                                     "batch_next: {loader:}collate failed with "
                                     "%s",
                                     tn_status_name(got));
    if (got < 1 || got > TN_MAX_FIELDS)
        return tn__fail(TN_ERR_ARGUMENT,
                        "batch_next: {loader:}collate returned %d fields; "
                        "expected 1 to %d",
                        got, TN_MAX_FIELDS);
    for (int f = 0; f < got; f++) {
        char name[40];
        snprintf(name, sizeof name, "field %d of collate", f);
        if (!tn__tensor_check(fields[f], "batch_next", name))
            return tn_error_code();
    }
    return got;
}

/* ---- padding ------------------------------------------------------------ */

static tn_tensor *pad_to(tn_tensor *x, int64_t length, double value)
{
    const int ndim = tn_tensor_ndim(x);
    tn_dims_list pad = {2 * ndim, {0}};
    if (ndim == 0 || tn_tensor_size(x, 0) == length)
        return x;
    pad.dim[2 * ndim - 1] = length - tn_tensor_size(x, 0);
    return tn_constant_pad_nd(x, pad, value);
}

int tn_collate_pad(tn_tensor *const *samples, int64_t count, int field_count,
                   void *context, tn_tensor **fields)
{
    const double *value = context;
    if (!samples || !fields || count < 1 || field_count < 1 ||
        field_count > TN_MAX_FIELDS)
        return samples && fields
                   ? tn__fail(TN_ERR_ARGUMENT,
                              "collate_pad: {count:}%lld samples of %d fields; "
                              "expected at least 1 of 1 to %d fields",
                              (long long)count, field_count, TN_MAX_FIELDS)
                   : tn__fail(TN_ERR_ARGUMENT, "collate_pad: {%s} is NULL",
                              samples ? "fields" : "samples");
    tn__samples s;
    if (tn__samples_make(&s, count) < 0)
        return TN_ERR_MEMORY;
    tn_status status = TN_OK;
    for (int64_t i = 0; i < count && status == TN_OK; i++)
        status = tn__samples_add(&s, i, field_count, samples + i * field_count);
    for (int f = 0; f < field_count && status == TN_OK; f++) {
        int64_t longest = 0;
        for (int64_t i = 0; i < count && status == TN_OK; i++) {
            const tn_tensor *x = s.tensor[i * field_count + f];
            if (!tn__tensor_check(x, "collate_pad", "samples"))
                status = tn_error_code();
            else if (tn_tensor_ndim(x) > TN_MAX_NDIM / 2)
                status =
                    tn__fail(TN_ERR_SHAPE,
                             "collate_pad: {samples:}sample %lld has %d "
                             "dimensions; expected at most %d",
                             (long long)i, tn_tensor_ndim(x), TN_MAX_NDIM / 2);
            else if (tn_tensor_ndim(x) && tn_tensor_size(x, 0) > longest)
                longest = tn_tensor_size(x, 0);
        }
        for (int64_t i = 0; i < count && status == TN_OK; i++) {
            tn_tensor **x = &s.tensor[i * field_count + f];
            *x = pad_to(*x, longest, value ? value[f] : 0);
            if (!*x)
                status = tn_error_code();
        }
    }
    const int got = status < 0 ? (int)status : stack(&s, fields);
    tn__samples_free(&s);
    return got;
}
