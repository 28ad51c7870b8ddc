/* epilogue.c: launches over parts of an iteration space. A part is cut into
 * boxes, and a box is launched like any launch: with other extents, and with
 * operands that begin at the box. So the machine code and the bits are those of
 * the whole launch. */
#include "epilogue.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_programs.h"

enum {
    /* A launch runs block by block if there are MIN_BLOCKS, so that all threads
     * are busy to the end, and a block has MIN_ELEMENTS, so that a launch takes
     * longer than its preparation (0.3 us). */
    MIN_BLOCKS = 4,
    MIN_ELEMENTS = 4096
};

void tn__cpu_epilogue_open(tn_cpu_epilogue *e, tn_queue *queue,
                           const tn_epilogue_args *args)
{
    e->queue = queue;
    e->args = args;
    e->taken = false;
    e->left = NULL;
    atomic_init(&e->failed, TN_OK);
}

/* Returns whether dimension d of the launch continues the last dimension of e, and
 * is in the same range. */
static bool continues(const tn_cpu_epilogue *e, uint32_t d, bool same_range)
{
    const tn_launch *launch = e->args->launch;
    bool same = e->ndim > 0 && same_range && d != launch->outer_ndim;
    for (uint32_t k = 0; same && k < e->args->program->operand_count; k++)
        same = e->stride[k][e->ndim - 1] ==
               launch->operand[k].stride[d] * launch->extent[d];
    return same;
}

/* Merges the dimensions of each range. */
static void merge(tn_cpu_epilogue *e, const tn_cpu_epilogue_cut *cut)
{
    const tn_launch *launch = e->args->launch;
    uint32_t r = 0;
    e->range[0] = e->ndim = e->row_ndim = 0;
    for (uint32_t d = 0; d < launch->outer_ndim + launch->row_ndim; d++) {
        const uint32_t before = r;
        while (r + 1 < cut->ranges && e->args->of[d] >= cut->first[r + 1])
            e->range[++r] = e->ndim;
        if (continues(e, d, r == before)) {
            e->extent[e->ndim - 1] *= launch->extent[d];
        } else {
            e->row_ndim += d >= launch->outer_ndim;
            e->extent[e->ndim++] = launch->extent[d];
        }
        for (uint32_t k = 0; k < e->args->program->operand_count; k++)
            e->stride[k][e->ndim - 1] = launch->operand[k].stride[d];
    }
    while (r < TN_CPU_EPILOGUE_RANGES)
        e->range[++r] = e->ndim;
}

bool tn__cpu_epilogue_take(tn_cpu_epilogue *e, const tn_cpu_epilogue_cut *cut)
{
    const tn_launch *launch = e ? e->args->launch : NULL;
    if (!e || cut->blocks < MIN_BLOCKS || cut->parts > INT_MAX ||
        e->args->program->operand_count > TN_CPU_MAX_OPERANDS ||
        tn__cpu_numel(launch->extent, launch->outer_ndim + launch->row_ndim) <
            MIN_ELEMENTS * cut->blocks)
        return false;
    merge(e, cut);
    if (e->row_ndim > 0 && e->ndim - e->row_ndim < e->range[cut->whole])
        return false;
    if (cut->parts > 1) {
        e->left = malloc((size_t)cut->blocks * sizeof *e->left);
        for (int64_t b = 0; e->left && b < cut->blocks; b++)
            atomic_init(&e->left[b], (int)cut->parts);
    }
    return e->taken = cut->parts == 1 || e->left;
}

bool tn__cpu_epilogue_part(tn_cpu_epilogue *e, int64_t block, int64_t count)
{
    return !e->left ||
           atomic_fetch_sub(&e->left[block], (int)count) == (int)count;
}

/* A box of the iteration space while it is put together, dimension by
 * dimension. */
typedef struct box {
    tn_cpu_epilogue *e;
    const int64_t *from, *end; /* the part: a range for each range of e */
    int64_t at[TN_MAX_NDIM], extent[TN_MAX_NDIM];
} box;

static tn_status launch_box(const box *b)
{
    tn_cpu_epilogue *e = b->e;
    const tn_launch *whole = e->args->launch;
    tn_launch_operand operand[TN_CPU_MAX_OPERANDS];
    tn_launch launch;
    launch.size = sizeof launch;
    tn_struct_copy(&launch, whole);
    launch.outer_ndim = e->ndim - e->row_ndim;
    launch.row_ndim = e->row_ndim;
    launch.extent = b->extent;
    launch.operand = operand;
    for (uint32_t k = 0; k < e->args->program->operand_count; k++) {
        operand[k] = whole->operand[k];
        operand[k].stride = e->stride[k];
        for (uint32_t d = 0; d < e->ndim; d++)
            operand[k].offset += b->at[d] * e->stride[k][d];
    }
    return tn__cpu_launch(e->queue, e->args->built, &launch);
}

static void cut_range(box *b, uint32_t r, uint32_t d, int64_t from,
                      int64_t end);

static void cut_next(box *b, uint32_t r)
{
    while (r < TN_CPU_EPILOGUE_RANGES &&
           b->e->range[r] == b->e->range[r + 1])
        r++;
    if (r < TN_CPU_EPILOGUE_RANGES) {
        cut_range(b, r, b->e->range[r], b->from[r], b->end[r]);
        return;
    }
    const tn_status status = launch_box(b);
    if (status)
        atomic_store(&b->e->failed, status);
}

/* Cuts the elements [from, end) of the dimensions of range r, from dimension d
 * on, into boxes: the rest of an index of dimension d, whole ones, and the
 * beginning of one. */
static void cut_range(box *b, uint32_t r, uint32_t d, int64_t from,
                      int64_t end)
{
    const int64_t *extent = b->e->extent;
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

bool tn__cpu_epilogue_take_images(tn_cpu_epilogue *e, int64_t count,
                                  int64_t parts)
{
    const tn_cpu_epilogue_cut cut = {.blocks = count, .parts = parts,
                                     .ranges = 2, .first = {0, 1}, .whole = 1};
    return tn__cpu_epilogue_take(e, &cut);
}

void tn__cpu_epilogue_image(tn_cpu_epilogue *e, int64_t image, int64_t parts)
{
    if (!tn__cpu_epilogue_part(e, image, parts))
        return;
    const int64_t from[2] = {image, 0};
    const int64_t end[2] = {
        image + 1,
        tn__cpu_numel(e->extent + e->range[1], e->ndim - e->range[1])};
    tn__cpu_epilogue_run(e, from, end);
}

/* Launches over the whole result, with as few dimensions as possible. */
static tn_status launch_whole(tn_cpu_epilogue *e)
{
    static const tn_cpu_epilogue_cut cut = {.ranges = 1};
    if (e->args->program->operand_count > TN_CPU_MAX_OPERANDS)
        return tn__cpu_launch(e->queue, e->args->built, e->args->launch);
    merge(e, &cut);
    box b = {.e = e};
    memcpy(b.extent, e->extent, sizeof b.extent);
    return launch_box(&b);
}

tn_status tn__cpu_epilogue_close(tn_cpu_epilogue *e, tn_status status)
{
    free(e->left);
    if (!status && !e->taken)
        return launch_whole(e);
    const tn_status failed = (tn_status)atomic_load(&e->failed);
    return status         ? status
           : failed       ? tn__cpu_host->fail(failed, "epilogue: out of memory "
                                               "for a part of the result")
                          : TN_OK;
}
