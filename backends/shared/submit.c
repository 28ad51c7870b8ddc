/* submit.c: plans the steps of programs, primitives and extensions, by calling
 * the core's planning functions, and makes copies row by row. */
#include "shared.h"

tn_status tn__next_program(const tn_target *target, const tn_program *program,
                           const void *args, tn_plan *plan)
{
    return tn__host->plan_program(target, program, args, plan);
}

/* Primitives and extensions have no program. */
#define NEXT(function, plan_slot)                                             \
    tn_status function(const tn_target *target, const tn_program *program,    \
                       const void *args, tn_plan *plan)                       \
    {                                                                         \
        (void)program;                                                        \
        return tn__host->plan_slot(target, args, plan);                       \
    }
NEXT(tn__next_matmul, plan_matmul)
NEXT(tn__next_scatter, plan_scatter)
NEXT(tn__next_scan, plan_scan)
NEXT(tn__next_sort, plan_sort)
NEXT(tn__next_conv, plan_conv)
NEXT(tn__next_attention, plan_attention)

bool tn__copy_is_flat(const tn_copy_args *c)
{
    return c->rows == 1 ||
           (c->dst_pitch == c->bytes && c->src_pitch == c->bytes);
}

int tn__copy_rows(tn_queue *queue, const tn_copy_args *c, tn_copy_flat *flat)
{
    int error = 0;
    const uint64_t host_pitch =
        c->direction == TN_COPY_TO_HOST ? c->dst_pitch : c->src_pitch;
    for (uint64_t row = 0; row < c->rows && !error; row++)
        error =
            flat(queue, c, c->host ? (char *)c->host + row * host_pitch : NULL,
                 c->dst_offset + row * c->dst_pitch,
                 c->src_offset + row * c->src_pitch, c->bytes);
    return error;
}
