/* scan.c: the inclusive prefix fold along the last dimension. */
#include "reference.h"

#include <math.h>

/* Does x become the extreme whose position is told? The last of equals does
 * (-0 equals +0), and once there is a NaN only another. */
static bool takes_over(unsigned kind, tn_dtype dtype, tn_number x,
                       tn_number best)
{
    if (!reference_is_float(dtype))
        return kind == TN_REDUCE_MAX ? x.i >= best.i : x.i <= best.i;
    if (isnan(x.f) || isnan(best.f))
        return isnan(x.f);
    return kind == TN_REDUCE_MAX ? x.f >= best.f : x.f <= best.f;
}

tn_status reference_scan(const tn_scan_args *s)
{
    uint32_t last = s->ndim - 1;
    int64_t point[TN_MAX_NDIM] = {0};
    if (reference_numel(s->extent, s->ndim) == 0)
        return TN_OK;
    do {
        int64_t in = reference_offset(&s->in, point, last);
        int64_t out = reference_offset(&s->out, point, last);
        int64_t out_index = reference_offset(&s->out_index, point, last);
        tn_number fold = reference_load(&s->in, in), best_at = {.i = 0};
        for (int64_t k = 0; k < s->extent[last]; k++) {
            tn_number x = reference_load(&s->in, in + k * s->in.stride[last]);
            if (s->out_index.buffer) {
                if (takes_over(s->kind, s->in.dtype, x, fold))
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
