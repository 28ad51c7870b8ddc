/* hoist.c: elementwise work with loads by an index (gathers), where the indices
 * are constant along some dimensions. In grid_sample the indices are the same
 * for all channels, in interpolate for all images and channels.
 *
 * Blocks that differ only in these dimensions run one after another. The first
 * block computes the indices, the values computed from indices, and the offsets
 * of the elements to load. The later blocks use these results and skip the
 * operations.
 *
 * A block is a box: all points of some inner dimensions, and `box` coordinates
 * of the next outer dimension. Therefore offsets relative to the block's first
 * element are the same in each block. */
#include "../paths/taps.h"
#include "plan.h"

#define LEAST_SHARED 4    /* minimum number of blocks that share indices */
#define LEAST_POINTS 4096 /* minimum number of elements of a launch */

/* Merges the launch's adjacent dimensions where the strides of all operands
 * allow it. */
static void merge(const cpu_plan *plan, cpu_hoist *h)
{
    const tn_launch *launch = plan->launch;
    h->ndim = 0;
    for (uint32_t d = 0; d < launch->outer_ndim + launch->row_ndim; d++) {
        if (launch->extent[d] == 1)
            continue;
        bool merged = h->ndim > 0;
        for (uint32_t k = 0; merged && k < plan->built->operand_count; k++) {
            const int64_t *stride = launch->operand[k].stride;
            merged = stride[h->dim[h->ndim - 1]] ==
                     stride[d] * launch->extent[d];
        }
        uint32_t at = merged ? h->ndim - 1 : h->ndim++;
        h->extent[at] =
            merged ? h->extent[at] * launch->extent[d] : launch->extent[d];
        h->dim[at] = d;
    }
    int64_t number = 1;
    for (uint32_t d = h->ndim; d-- > 0; number *= h->extent[d])
        h->number[d] = number;
}

/* Returns a mask of the dimensions along which an operand's stride is not 0. */
static uint32_t own_dims(const cpu_plan *plan, const cpu_hoist *h,
                         uint32_t operand)
{
    const int64_t *stride = plan->launch->operand[operand].stride;
    uint32_t dims = 0;
    for (uint32_t d = 0; d < h->ndim; d++)
        dims |= (uint32_t)(stride[h->dim[d]] != 0) << d;
    return dims;
}

/* Returns dims[slot], or 0 if the operation has no such operand. */
static uint32_t dims_of(const uint32_t *dims, uint32_t slot)
{
    return slot == TN_CPU_NONE ? 0 : dims[slot];
}

/* Sets op_dims[operation] to a bit mask of the dimensions along which the
 * operation's result varies. For a load by an index, these are the dimensions
 * along which its indices vary. Returns the dimensions along which any index
 * varies. */
static uint32_t find_dims(const cpu_plan *plan, const cpu_hoist *h,
                          uint32_t *op_dims)
{
    const cpu_code *code = &plan->built->hoisted;
    uint32_t dims[TN_CPU_HOIST_SLOTS] = {0}, indexed = 0;
    for (uint32_t i = 0; i < code->op_count; i++) {
        const cpu_op *op = &code->op[i];
        uint32_t of = dims_of(dims, op->a) | dims_of(dims, op->b) |
                      dims_of(dims, op->c);
        bool reads = op->code == CPU_LOAD || op->code == CPU_OFFSET;
        uint32_t own = reads ? own_dims(plan, h, op->index) : 0;
        bool is_indexed = reads && op->a != TN_CPU_NONE;
        if (is_indexed && op->hoistable)
            indexed |= of;
        op_dims[i] = is_indexed ? of : of | own;
        if (op->out != TN_CPU_NONE)
            dims[op->out] = of | own;
    }
    return indexed;
}

bool tn__cpu_cut_shared(cpu_plan *plan, cpu_hoist *h)
{
    const cpu_code *code = &plan->built->hoisted;
    uint32_t op_dims[TN_CPU_HOIST_OPS];
    if (code->op_count == 0 ||
        plan->row_count * plan->row_length < LEAST_POINTS)
        return false;
    merge(plan, h);
    uint32_t indexed = find_dims(plan, h, op_dims), outer = 0;
    /* The values of a block may exceed L1 and stay in L2. That costs little,
     * because the shared values are computed for few blocks only. unfold of 16
     * x 16 x 32 x 32 takes 0.65 ms with this block size, 0.76 ms with half of
     * it and 0.98 ms with twice as much (Zen 5, 2026-11). */
    int64_t block = plan->built->taps.count > 0
                        ? tn__cpu_taps_block(plan->built)
                        : 2 * tn__cpu_block_size(code, false);
    int64_t box = 1;
    uint32_t d = h->ndim;
    while (d > 0 && box * h->extent[d - 1] <= block)
        box *= h->extent[--d];
    if (d-- == 0)
        return false; /* the launch is one block, so no other block could share
                       * its indices */
    h->box_dim = d;
    h->box = block / box;
    h->chunks = (h->extent[d] + h->box - 1) / h->box;
    /* All boxes (ranges of coordinates of the dimension that is cut) have about
     * the same length. */
    h->box = (h->extent[d] + h->chunks - 1) / h->chunks;
    h->shared_count = 1;
    for (uint32_t k = 0; k <= d; k++) {
        outer |= 1u << k;
        if (!(indexed >> k & 1))
            h->shared_count *= k == d ? h->chunks : h->extent[k];
    }
    h->shared = outer & ~indexed;
    if (h->shared_count < LEAST_SHARED)
        return false;
    for (uint32_t i = 0; i < code->op_count; i++)
        h->skip[i] = !code->op[i].hoistable || (op_dims[i] & h->shared) ? 0
                     : code->op[i].where != TN_CPU_NONE ? CPU_PLACED
                                                        : CPU_KNOWN;
    plan->hoist = h;
    plan->code = code;
    plan->block = h->box * box;
    plan->groups.count = h->chunks;
    for (uint32_t k = 0; k < d; k++)
        plan->groups.count *= h->extent[k];
    return true;
}

/* Computes the coordinates point[] from `number`, their row-major index. With
 * `shared`, these are the coordinates along the dimensions in which all indices
 * are constant, otherwise those along the other dimensions. */
static void decompose(const cpu_hoist *h, int64_t number, bool shared,
                      int64_t *point)
{
    for (uint32_t d = h->box_dim + 1; d-- > 0;) {
        bool is_box = d == h->box_dim;
        if ((h->shared >> d & 1) != shared)
            continue;
        int64_t count = is_box ? h->chunks : h->extent[d];
        point[d] = number % count * (is_box ? h->box : 1);
        number /= count;
    }
}

void tn__cpu_task_shared(cpu_task *task, int64_t group)
{
    const cpu_plan *plan = task->plan;
    const cpu_hoist *h = plan->hoist;
    const tn_launch *launch = plan->launch;
    int64_t point[2 * TN_MAX_NDIM];
    int64_t outer = group / h->shared_count;
    decompose(h, outer, false, point);
    decompose(h, group % h->shared_count, true, point);
    uint32_t b = h->box_dim;
    int64_t box = tn__cpu_min(h->box, h->extent[b] - point[b]);
    int64_t count = box * h->number[b];
    bool known = task->shared.outer == outer && count <= task->shared.count;
    bool same = known && count == task->block.count;
    task->tile.at = 0;
    for (uint32_t d = 0; d <= b; d++)
        task->tile.at += point[d] * h->number[d];
    for (uint32_t k = 0; k < plan->built->operand_count; k++) {
        const tn_launch_operand *given = &launch->operand[k];
        cpu_view *view = &task->own_view[k];
        int64_t offset = 0;
        for (uint32_t d = 0; d <= b; d++)
            offset += point[d] * given->stride[h->dim[d]];
        if (same) {
            view->base = tn__cpu_at(given->buffer, given->offset + offset,
                                    view->bytes);
            view->offset = given->buffer ? 0 : given->offset + offset;
            continue;
        }
        tn__cpu_view_init(view, &plan->built->operand[k], given);
        tn__cpu_view_move(view, offset);
        tn__cpu_view_push(view, box, given->stride[h->dim[b]]);
        for (uint32_t d = b + 1; d < h->ndim; d++)
            tn__cpu_view_push(view, h->extent[d], given->stride[h->dim[d]]);
    }
    task->shared.skip = known ? h->skip : NULL;
    if (!known) {
        task->shared.outer = outer;
        task->shared.count = count;
    }
    task->view = task->own_view;
    task->block.at = 0;
    task->block.count = count;
}
