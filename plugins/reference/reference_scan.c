/* reference_scan.c: the primitive scan: cumsum, cumprod, cummax and cummin
 * along the last dimension. A row is scanned from its first element to the
 * last. Only sums of floats are added in another order, which
 * <tenon/plugin_primitives.h> defines. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>

/* Returns whether element x replaces `best` as the running minimum or maximum,
 * so that its index is reported. An element that equals `best` replaces it, and
 * -0 equals +0. A NaN is replaced only by another NaN. */
static bool is_new_best(unsigned kind, tn_dtype dtype, tn_number x,
                        tn_number best)
{
    if (!reference_is_float(dtype))
        return kind == TN_REDUCE_MAX ? x.i >= best.i : x.i <= best.i;
    if (isnan(x.f) || isnan(best.f))
        return isnan(x.f);
    return kind == TN_REDUCE_MAX ? x.f >= best.f : x.f <= best.f;
}

/* Replaces the n numbers x[] by their prefix sums. In each block of TN_LANES
 * elements, prefix sums over groups of h elements are turned into prefix sums
 * over groups of 2 h elements, by adding the last sum of the left group to each
 * sum of the right group. Then the last sum of the preceding block is added to
 * each sum of the block. */
static void sum_in_blocks(tn_dtype dtype, tn_number *x, int64_t n)
{
    for (int64_t first = 0; first < n; first += TN_LANES) {
        tn_number *block = x + first;
        int64_t size = n - first < TN_LANES ? n - first : TN_LANES;
        for (int64_t h = 1; h < TN_LANES; h *= 2)
            for (int64_t j = 0; j < size; j++)
                if (j & h)
                    block[j] = reference_combine(
                        TN_REDUCE_SUM, dtype,
                        block[(j & ~(2 * h - 1)) + h - 1], block[j]);
        for (int64_t j = 0; first > 0 && j < size; j++)
            block[j] = reference_combine(TN_REDUCE_SUM, dtype, block[-1],
                                         block[j]);
    }
}

/* Replaces a row by its prefix sums. They are first computed within each chunk
 * of TN_CHUNK elements. Then the sum of all preceding chunks is added to each
 * element. The sums of preceding chunks are the prefix sums of the chunks'
 * totals. */
static void sum_row(tn_dtype dtype, tn_number *x, int64_t n, tn_number *total)
{
    int64_t chunks = (n + TN_CHUNK - 1) / TN_CHUNK;
    for (int64_t c = 0; c < chunks; c++) {
        int64_t first = c * TN_CHUNK;
        int64_t size = n - first < TN_CHUNK ? n - first : TN_CHUNK;
        sum_in_blocks(dtype, x + first, size);
        total[c] = x[first + size - 1];
    }
    sum_in_blocks(dtype, total, chunks);
    for (int64_t k = TN_CHUNK; k < n; k++)
        x[k] = reference_combine(TN_REDUCE_SUM, dtype,
                                 total[k / TN_CHUNK - 1], x[k]);
}

static tn_status sum_rows(const tn_scan_args *s)
{
    uint32_t last = s->ndim - 1;
    int64_t point[TN_MAX_NDIM] = {0}, n = s->extent[last];
    tn_number *x = malloc((size_t)(n + n / TN_CHUNK + 1) * sizeof *x);
    if (!x)
        return reference_host->fail(TN_ERR_MEMORY,
                                    "scan: out of memory for a row of "
                                    "%lld elements",
                                    (long long)n);
    do {
        int64_t in = reference_offset(&s->in, point, last);
        int64_t out = reference_offset(&s->out, point, last);
        for (int64_t k = 0; k < n; k++)
            x[k] = reference_load(&s->in, in + k * s->in.stride[last]);
        sum_row(s->in.dtype, x, n, x + n);
        for (int64_t k = 0; k < n; k++)
            reference_store(&s->out, out + k * s->out.stride[last], x[k]);
    } while (reference_next(point, s->extent, last));
    free(x);
    return TN_OK;
}

tn_status reference_scan(const tn_scan_args *s)
{
    uint32_t last = s->ndim - 1;
    int64_t point[TN_MAX_NDIM] = {0};
    if (reference_numel(s->extent, s->ndim) == 0)
        return TN_OK;
    if (s->kind == TN_REDUCE_SUM && reference_is_float(s->in.dtype))
        return sum_rows(s);
    do {
        int64_t in = reference_offset(&s->in, point, last);
        int64_t out = reference_offset(&s->out, point, last);
        int64_t out_index = reference_offset(&s->out_index, point, last);
        tn_number fold = reference_load(&s->in, in), best_at = {.i = 0};
        for (int64_t k = 0; k < s->extent[last]; k++) {
            tn_number x = reference_load(&s->in, in + k * s->in.stride[last]);
            if (s->out_index.buffer) {
                if (is_new_best(s->kind, s->in.dtype, x, fold))
                    best_at.i = k;
                reference_store(&s->out_index,
                                out_index + k * s->out_index.stride[last],
                                best_at);
            }
            if (k > 0)
                fold = reference_combine(s->kind, s->in.dtype, fold, x);
            reference_store(&s->out, out + k * s->out.stride[last], fold);
        }
    } while (reference_next(point, s->extent, last));
    return TN_OK;
}
