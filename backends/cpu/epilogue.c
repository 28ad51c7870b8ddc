/* epilogue.c: launches over parts of an iteration space. A part is cut into
 * boxes, and a box is launched like any launch: with other extents, and with
 * operands that begin at the box. So the machine code and the bits are those of
 * the whole launch. */
#include "epilogue.h"

#include <stdlib.h>

#include "cpu_programs.h"

enum {
    /* A launch runs block by block if there are MIN_BLOCKS, so that all threads
     * are busy to the end, and a block has MIN_ELEMENTS, so that a launch takes
     * longer than its preparation (0.3 us). */
    MIN_BLOCKS = 4,
    MIN_ELEMENTS = 4096,
    LAUNCH_OPERANDS = 2 * TN_CPU_MAX_OPERANDS
};

void tn__cpu_epilogue_open(tn_cpu_epilogue *e, tn_queue *queue,
                           const tn_epilogue_args *args)
{
    e->queue = queue;
    e->args = args;
    e->ndim = args->launch->outer_ndim + args->launch->row_ndim;
    e->taken = false;
    e->left = NULL;
    atomic_init(&e->failed, TN_OK);
}

bool tn__cpu_epilogue_take(tn_cpu_epilogue *e, const tn_cpu_epilogue_cut *cut)
{
    if (!e || cut->blocks < MIN_BLOCKS ||
        e->args->program->operand_count > LAUNCH_OPERANDS ||
        tn__cpu_numel(e->args->launch->extent, e->ndim) <
            MIN_ELEMENTS * cut->blocks)
        return false;
    uint32_t d = 0;
    for (uint32_t r = 0; r < cut->ranges; r++) {
        while (d < e->ndim && e->args->of[d] < cut->first[r])
            d++;
        e->range[r] = d;
    }
    for (uint32_t r = cut->ranges; r <= TN_CPU_EPILOGUE_RANGES; r++)
        e->range[r] = e->ndim;
    if (e->args->launch->row_ndim > 0 &&
        e->args->launch->outer_ndim < e->range[cut->whole])
        return false;
    if (cut->parts > 1) {
        e->left = malloc((size_t)cut->blocks * sizeof *e->left);
        for (int64_t b = 0; e->left && b < cut->blocks; b++)
            atomic_init(&e->left[b], (int)cut->parts);
    }
    return e->taken = cut->parts == 1 || e->left;
}

bool tn__cpu_epilogue_part(tn_cpu_epilogue *e, int64_t block)
{
    return !e->left || atomic_fetch_sub(&e->left[block], 1) == 1;
}

/* A box of the iteration space while it is put together, dimension by
 * dimension. */
typedef struct box {
    tn_cpu_epilogue *e;
    const int64_t *from, *end; /* the part: a range for each range of e */
    int64_t at[TN_MAX_NDIM], extent[TN_MAX_NDIM];
} box;

static void launch_box(const box *b)
{
    tn_cpu_epilogue *e = b->e;
    const tn_launch *whole = e->args->launch;
    tn_launch_operand operand[LAUNCH_OPERANDS];
    tn_launch launch;
    launch.size = sizeof launch;
    tn_struct_copy(&launch, whole);
    launch.extent = b->extent;
    launch.operand = operand;
    for (uint32_t k = 0; k < e->args->program->operand_count; k++) {
        operand[k] = whole->operand[k];
        for (uint32_t d = 0; d < e->ndim; d++)
            operand[k].offset += b->at[d] * whole->operand[k].stride[d];
    }
    tn_status status = tn__cpu_launch(e->queue, e->args->built, &launch);
    if (status)
        atomic_store(&e->failed, status);
}

static void cut_range(box *b, uint32_t r, uint32_t d, int64_t from,
                      int64_t end);

static void cut_next(box *b, uint32_t r)
{
    while (r < TN_CPU_EPILOGUE_RANGES &&
           b->e->range[r] == b->e->range[r + 1])
        r++;
    if (r == TN_CPU_EPILOGUE_RANGES)
        launch_box(b);
    else
        cut_range(b, r, b->e->range[r], b->from[r], b->end[r]);
}

/* Cuts the elements [from, end) of the dimensions of range r, from dimension d
 * on, into boxes: the rest of an index of dimension d, whole ones, and the
 * beginning of one. */
static void cut_range(box *b, uint32_t r, uint32_t d, int64_t from,
                      int64_t end)
{
    const int64_t *extent = b->e->args->launch->extent;
    const uint32_t last = b->e->range[r + 1];
    const int64_t inner = tn__cpu_numel(extent + d + 1, last - d - 1);
    while (from < end) {
        b->at[d] = from / inner;
        b->extent[d] = 1;
        const int64_t next = (b->at[d] + 1) * inner;
        if (from % inner == 0 && end >= next) {
            b->extent[d] = end / inner - b->at[d];
            for (uint32_t i = d + 1; i < last; i++) {
                b->at[i] = 0;
                b->extent[i] = extent[i];
            }
            cut_next(b, r + 1);
            from += b->extent[d] * inner;
        } else {
            cut_range(b, r, d + 1, from - b->at[d] * inner,
                      tn__cpu_min(end, next) - b->at[d] * inner);
            from = tn__cpu_min(end, next);
        }
    }
}

void tn__cpu_epilogue_run(tn_cpu_epilogue *e, const int64_t *from,
                          const int64_t *end)
{
    box b = {.e = e, .from = from, .end = end};
    cut_next(&b, 0);
}

tn_status tn__cpu_epilogue_close(tn_cpu_epilogue *e, tn_status status)
{
    free(e->left);
    if (!status && !e->taken)
        return tn__cpu_launch(e->queue, e->args->built, e->args->launch);
    const tn_status failed = (tn_status)atomic_load(&e->failed);
    return status         ? status
           : failed       ? tn__cpu_host->fail(failed, "epilogue: out of memory "
                                               "for a part of the result")
                          : TN_OK;
}
