/* reference_sort.c: the primitive sort: a stable merge sort along the last
 * dimension, for sort, argsort and topk. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>

typedef struct item {
    tn_number x;
    int64_t at; /* the element's index in the input */
} item;

/* Returns whether x is less than y. NaN is greater than all numbers, and -0
 * equals +0. */
static bool is_less(tn_dtype dtype, tn_number x, tn_number y)
{
    if (!reference_is_float(dtype))
        return x.i < y.i;
    if (isnan(x.f) || isnan(y.f))
        return !isnan(x.f);
    return x.f < y.f;
}

static bool comes_first(const tn_sort_args *s, item a, item b)
{
    return s->flags & TN_SORT_DESCENDING ? is_less(s->in.dtype, b.x, a.x)
                                         : is_less(s->in.dtype, a.x, b.x);
}

/* Sorts the elements of `from` by merge sort. Merges pairs of sorted segments
 * of 1 element, then of 2, of 4 and so on. Each round reads one of the two
 * arrays and writes the other. Returns the array with the result. Of equal
 * elements the one of the left segment comes first, which makes the sort
 * stable. */
static item *merge_sort(const tn_sort_args *s, item *from, item *to,
                        int64_t count)
{
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t start = 0; start < count; start += 2 * width) {
            int64_t left = start, middle = start + width, out = start;
            middle = middle < count ? middle : count;
            int64_t right = middle, end = middle + width;
            end = end < count ? end : count;
            while (out < end)
                if (right == end ||
                    (left < middle && !comes_first(s, from[right], from[left])))
                    to[out++] = from[left++];
                else
                    to[out++] = from[right++];
        }
        item *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

tn_status reference_sort(const tn_sort_args *s)
{
    uint32_t last = s->ndim - 1;
    int64_t count = s->extent[last], point[TN_MAX_NDIM] = {0};
    if (reference_numel(s->extent, s->ndim) == 0)
        return TN_OK;
    item *items = calloc((size_t)count, 2 * sizeof *items);
    if (!items)
        return reference_host->fail(TN_ERR_MEMORY, "sort: out of memory");
    do {
        int64_t in = reference_offset(&s->in, point, last);
        int64_t out = reference_offset(&s->out, point, last);
        int64_t out_index = reference_offset(&s->out_index, point, last);
        for (int64_t k = 0; k < count; k++)
            items[k] =
                (item){reference_load(&s->in, in + k * s->in.stride[last]), k};
        const item *sorted = merge_sort(s, items, items + count, count);
        for (int64_t k = 0; k < count && k < s->keep; k++) {
            if (s->out.buffer)
                reference_store(&s->out, out + k * s->out.stride[last],
                                sorted[k].x);
            if (s->out_index.buffer)
                reference_store(&s->out_index,
                                out_index + k * s->out_index.stride[last],
                                (tn_number){.i = sorted[k].at});
        }
    } while (reference_next(point, s->extent, last));
    free(items);
    return TN_OK;
}
