/* block_load.c: loads an operand's elements of a block. If the layout allows,
 * the slot points to the operand's memory ("in place"). Otherwise the elements
 * are copied to the slot's own memory. Columns are adjacent rows, stored as
 * value[element][column]. Subrows are the contiguous pieces of a row.
 *
 * Each function load_... below handles one kind of layout and returns false if
 * the operand has another. The slot may point to the operand's memory only if
 * the argument may_lend is true. */
#include "block.h"

/* Returns the row-major index in the iteration space of element i of the
 * span (a range of elements or rows that is loaded). */
static int64_t position(const cpu_task *t, const cpu_span *s, int64_t i)
{
    const cpu_plan *plan = t->plan;
    if (plan->hoist)
        /* the elements are consecutive, because a block has all coordinates of
         * the inner dimensions */
        return t->tile.at + i;
    if (s->level == CPU_ROW)
        return (t->group.first_row + i) * plan->row_length;
    if (plan->tiled)
        return t->tile.at + i / t->tile.width * t->tile.step[0] +
               i % t->tile.width * t->tile.step[1];
    if (!t->layout.columns)
        return t->block.at + i;
    return (t->group.first_row + i % t->group.rows) * plan->row_length +
           t->block.first_elem + i / t->group.rows;
}

/* Adds index[i] * stride to where[i], the offset of element i. If index[i] is
 * out of range, sets where[i] to TN_CPU_OUTSIDE and records an error. No error
 * is recorded if the load has the flag LOAD_ZERO or element i is inactive in a
 * loop. */
static void add_index(cpu_task *t, const cpu_op *op, const cpu_span *s,
                      uint32_t dim, const int64_t *index, int64_t *where)
{
    const tn_launch_operand *operand = &t->plan->launch->operand[op->index];
    int64_t stride = operand->index_stride[dim];
    int64_t extent = operand->index_extent[dim];
    const uint8_t *mask =
        t->loops > 0 ? (const uint8_t *)t->slot[t->loop[t->loops - 1].mask]
                     : NULL;
    int any = t->routines->place(where, index, stride, extent, s->n);
    bool is_fault = !(op->flags & LOAD_ZERO);
    for (int64_t i = 0; any && is_fault && i < s->n; i++)
        if ((uint64_t)index[i] >= (uint64_t)extent && (!mask || mask[i]))
            tn__cpu_plan_fault(t->plan, op->index, dim, index[i],
                               position(t, s, i));
}

/* Points the slot to columns (adjacent rows) in the tensor's memory. The
 * distance between the elements of a column may be any stride, since only
 * reductions read the slot. */
static bool load_columns(cpu_task *t, const cpu_op *op, const cpu_span *s,
                         bool may_lend)
{
    const cpu_view *view = &s->view[op->index];
    if (!may_lend || view->ndim != 2 || view->stride[1] != 1 ||
        view->extent[1] != t->group.rows)
        return false;
    t->step[op->out] = view->stride[0];
    t->slot[op->out] =
        view->base + s->at / t->group.rows * view->stride[0] * view->bytes;
    return true;
}

/* Points the slot to one contiguous row of memory if the operand is broadcast
 * over rows, so that all rows in points [at, at + n) are this row. */
static bool load_row(cpu_task *t, const cpu_op *op, const cpu_view *view,
                     int64_t at, int64_t n, bool may_lend)
{
    int64_t length = t->block.count / t->group.rows;
    if (!may_lend || view->ndim < 2 || at % length != 0)
        return false;
    uint32_t across = view->ndim - 2;
    if (view->stride[across] != 0 || view->stride[across + 1] != 1 ||
        view->extent[across + 1] != length)
        return false;
    int64_t row = at / length, offset = 0;
    if (row % view->extent[across] + n / length > view->extent[across])
        return false;
    for (uint32_t d = across + 1; d-- > 0; row /= view->extent[d])
        offset += row % view->extent[d] * view->stride[d];
    t->step[op->out] = 0;
    t->slot[op->out] = view->base + offset * view->bytes;
    return true;
}

char *tn__cpu_find_subrow(const cpu_task *t, const cpu_view *view, int64_t at,
                          int64_t *step)
{
    int64_t line = at / t->subrows.length, offset = 0;
    *step = view->ndim < 2 ? t->subrows.length : view->stride[view->ndim - 2];
    if (view->ndim < 2)
        offset = line * t->subrows.length;
    for (uint32_t d = view->ndim - 1; view->ndim > 1 && d-- > 0;
         line /= view->extent[d])
        offset += line % view->extent[d] * view->stride[d];
    return view->base + offset * view->bytes;
}

/* Records the distance from the operand's current row to its next row. Machine
 * code prefetches the next row. */
static void prefetch_next_row(cpu_task *t, const cpu_op *op,
                              const cpu_view *view)
{
    int64_t step;
    const cpu_plan *plan = t->plan;
    if (!plan->traffic.ahead || t->subrows.next_row != 0 ||
        t->group.first_row + 1 == plan->row_count)
        return;
    t->subrows.next_slot = op->out;
    t->subrows.next_row =
        tn__cpu_find_subrow(t, view, t->block.at + plan->row_length, &step) -
        t->slot[op->out];
}

/* Points the slot to a block of columns (adjacent rows) in the tensor's memory.
 * This requires that, for each element index, the elements of all columns are
 * contiguous or are one scalar. Without this function, the gradient of
 * layer_norm's weight would spend a third of its time on copies and broadcasts.
 */
static bool load_column_block(cpu_task *t, const cpu_op *op, const cpu_span *s,
                              bool may_lend)
{
    const cpu_view *view = &s->view[op->index];
    if (!may_lend || view->ndim < 2)
        return false;
    uint32_t across = view->ndim - 2;
    const int64_t *stride = view->stride + across;
    bool is_each =
        stride[0] == 1 && stride[1] == 0 && (op->flags & LOAD_SINGLE);
    if (view->extent[across + 1] != t->group.rows ||
        (!is_each && stride[1] != 1))
        return false;
    int64_t line = s->at / t->group.rows, offset = 0;
    if (line % view->extent[across] + s->n / t->group.rows >
        view->extent[across])
        return false;
    for (uint32_t d = across + 1; d-- > 0; line /= view->extent[d])
        offset += line % view->extent[d] * view->stride[d];
    t->step[op->out] = is_each ? TN_CPU_ONE_EACH : stride[0];
    t->slot[op->out] = view->base + offset * view->bytes;
    return true;
}

/* Points the slot to one element if all points of the block are this element,
 * such as a channel's bias. */
static bool load_single(cpu_task *t, const cpu_op *op, const cpu_span *s,
                        bool may_lend)
{
    char *one =
        may_lend ? tn__cpu_view_single(&s->view[op->index], s->at, s->n) : NULL;
    if (!one)
        return false;
    t->step[op->out] = TN_CPU_ONE_VALUE;
    t->slot[op->out] = one;
    return true;
}

/* Loads a tensor into a GROUP slot, which holds the values of a whole group for
 * later stages. If the group is contiguous, points the slot to the tensor's
 * memory and returns true. Otherwise points the slot to its own memory and
 * returns false: the elements must still be copied. */
static bool load_group(cpu_task *t, const cpu_op *op, const cpu_view *view,
                       bool may_lend)
{
    char *flat =
        may_lend ? tn__cpu_view_flat(view, t->group.at, t->group.count) : NULL;
    char *base = flat ? flat : t->home[op->out];
    t->base[op->out] = base;
    t->slot[op->out] =
        base + t->block.first_elem * t->code->slot[op->out].bytes;
    if (flat)
        tn__cpu_prefetch_next_block(t, op, t->slot[op->out],
                                    t->block.count * view->bytes,
                                    t->group.count * view->bytes);
    return flat != NULL;
}

/* Computes the offsets where[i] of the elements that a load by an index
 * reads. */
static void compute_offsets(cpu_task *t, const cpu_op *op, const cpu_span *s,
                            int64_t *where)
{
    const uint32_t index[3] = {op->a, op->b, op->c};
    tn__cpu_view_offsets(&s->view[op->index], t->routines, s->at, s->n, where);
    for (uint32_t d = 0; d < 3; d++)
        if (index[d] != TN_CPU_NONE)
            add_index(t, op, s, d, (const int64_t *)t->slot[index[d]], where);
}

/* Runs a load by an index along a dimension with stride 0, which does not
 * change the address of the loaded element. If all indices are in range, loads
 * as if there were no index. Otherwise returns false. */
static bool load_unmoved(cpu_task *t, const cpu_op *op, const cpu_span *s)
{
    const tn_launch_operand *operand = &t->plan->launch->operand[op->index];
    if (operand->index_stride[0] != 0 || op->b != TN_CPU_NONE ||
        op->where != TN_CPU_NONE ||
        t->routines->outside((const int64_t *)t->slot[op->a],
                             operand->index_extent[0], s->n))
        return false;
    tn__cpu_view_load(&s->view[op->index], t->routines, s->at, s->n,
                      t->slot[op->out]);
    return true;
}

void tn__cpu_run_load(cpu_task *t, const cpu_op *op, const cpu_span *s)
{
    const cpu_view *view = &s->view[op->index];
    bool plain =
        op->a == TN_CPU_NONE && op->b == TN_CPU_NONE && op->c == TN_CPU_NONE;
    bool as_stored = tn__cpu_is_as_stored(view->dtype) ||
                     ((op->flags & LOAD_STORED) &&
                      t->code->slot[op->out].space == CPU_ELEM);
    bool may_lend = plain && as_stored && !t->plan->overlap &&
                    !(t->plan->copied >> op->index & 1);
    /* t->step is the stride from row to row. This is its value for copied
     * blocks; loads that read in place set another value. */
    t->step[op->out] = op->flags & LOAD_LENT && !t->layout.columns
                           ? t->block.count / t->group.rows
                           : t->group.rows;
    if (t->code->slot[op->out].space == CPU_GROUP) {
        if (load_group(t, op, view, may_lend))
            return;
        if ((op->flags & LOAD_LENT) && !(op->flags & LOAD_FOLDED) &&
            t->plan->kept && t->layout.by_rows &&
            load_row(t, op, view, t->group.at, t->group.count, may_lend)) {
            t->base[op->out] = t->slot[op->out];
            return;
        }
        may_lend = false;
    } else if (plain) {
        t->slot[op->out] = t->home[op->out];
    }
    char *to = t->slot[op->out];
    if (t->subrows.length > 0 && !load_single(t, op, s, may_lend)) {
        t->slot[op->out] =
            tn__cpu_find_subrow(t, view, t->block.at, &t->step[op->out]);
        if (view->ndim > 1 && view->stride[view->ndim - 1] == 0)
            t->step[op->out] = TN_CPU_ONE_EACH;
        else
            prefetch_next_row(t, op, view);
        return;
    }
    if (t->subrows.length > 0)
        return;
    if (plain) {
        bool folded = op->flags & LOAD_FOLDED;
        bool across_columns =
            !(op->flags & LOAD_LENT) || t->layout.across_columns;
        if (folded && t->layout.columns && across_columns &&
            load_columns(t, op, s, may_lend))
            return;
        if ((op->flags & LOAD_LENT) && !folded && t->layout.by_rows &&
            load_row(t, op, view, s->at, s->n, may_lend))
            return;
        if ((op->flags & LOAD_LENT) && t->layout.across_columns &&
            load_column_block(t, op, s, may_lend))
            return;
        if ((op->flags & LOAD_SINGLE) && load_single(t, op, s, may_lend))
            return;
        char *flat = may_lend ? tn__cpu_view_flat(view, s->at, s->n) : NULL;
        if (flat) {
            t->slot[op->out] = flat;
            if (!t->rereads)
                tn__cpu_prefetch_next_block(t, op, flat, s->n * view->bytes,
                                            s->n * view->bytes);
        } else {
            tn__cpu_view_load(view, t->routines, s->at, s->n, to);
        }
        return;
    }
    if (load_unmoved(t, op, s))
        return;
    int64_t *where = (int64_t *)(op->where == TN_CPU_NONE ? t->temporary
                                                          : t->slot[op->where]);
    if (!t->shared.skip || t->shared.skip[op - t->code->op] != CPU_PLACED)
        compute_offsets(t, op, s, where);
    t->routines->gather[view->dtype](to, view->base, where, s->n);
}
