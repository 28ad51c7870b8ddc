/* reference_scatter.c: the primitive scatter: stores at computed indices, with
 * or without a reduction (scatter, scatter_add, index_add and others). Source
 * elements are visited in row-major order. So elements with the same
 * destination are combined in that order. */
#include "reference.h"

tn_status reference_scatter(const tn_scatter_args *s, tn_fault *fault)
{
    static const uint8_t kind[] = {[TN_SCATTER_ADD] = TN_REDUCE_SUM,
                                   [TN_SCATTER_MUL] = TN_REDUCE_PROD,
                                   [TN_SCATTER_MIN] = TN_REDUCE_MIN,
                                   [TN_SCATTER_MAX] = TN_REDUCE_MAX};
    int64_t point[TN_MAX_NDIM] = {0}, position = 0;
    tn_status status = TN_OK;
    if (reference_numel(s->extent, s->ndim) == 0)
        return TN_OK;
    do {
        int64_t at = reference_offset(&s->index, point, s->ndim);
        int64_t index = reference_load(&s->index, at).i;
        if (index < 0 || index >= s->dst_extent) {
            if (status == TN_OK)
                *fault = (tn_fault){.size = sizeof *fault,
                                    .code = TN_ERR_INDEX,
                                    .tag = s->tag,
                                    .index = index,
                                    .extent = s->dst_extent,
                                    .position = position};
            status = TN_ERR_INDEX;
            continue;
        }
        int64_t to = reference_offset(&s->dst, point, s->ndim) +
                     (index - point[s->dim]) * s->dst.stride[s->dim];
        tn_number x =
            reference_load(&s->src, reference_offset(&s->src, point, s->ndim));
        if (s->reduce != TN_SCATTER_SET)
            x = reference_combine(kind[s->reduce], s->dst.dtype,
                                  reference_load(&s->dst, to), x);
        reference_store(&s->dst, to, x);
    } while (position++, reference_next(point, s->extent, s->ndim));
    return status;
}
