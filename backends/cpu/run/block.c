/* block.c: runs the operations of a part over one block. */
#include <string.h>

#include "../jit/native_run.h"
#include "plan.h"
#include "task.h"

/* A block of values for the operation's level. */
typedef struct span {
    const cpu_view *view;
    int64_t at, n;
    unsigned level;
} span;

/* The number of value i of the span in the whole iteration space, in row-major
 * order. */
static int64_t position(const cpu_task *t, const span *s, int64_t i)
{
    const cpu_plan *plan = t->plan;
    if (plan->hoist)
        return t->tile.at + i; /* the inner dimensions are whole */
    if (s->level == CPU_ROW)
        return (t->first_row + i) * plan->row_length;
    if (plan->tiled)
        return t->tile.at + i / t->tile.width * t->tile.step[0] +
               i % t->tile.width * t->tile.step[1];
    if (!t->columns)
        return t->at + i;
    return (t->first_row + i % t->rows) * plan->row_length + t->first_elem +
           i / t->rows;
}

/* Adds index * stride to where each element is; outside it is OUTSIDE. */
static void add_index(cpu_task *t, const cpu_op *op, const span *s,
                      uint32_t dim, const int64_t *index, int64_t *where)
{
    const tn_launch_operand *operand = &t->plan->launch->operand[op->index];
    int64_t stride = operand->index_stride[dim];
    int64_t extent = operand->index_extent[dim];
    const uint8_t *mask =
        t->loops > 0
            ? (const uint8_t *)t->slot[t->loop[t->loops - 1].mask]
            : NULL;
    int any = t->routines->place(where, index, stride, extent, s->n);
    bool is_fault = !(op->flags & LOAD_ZERO);
    for (int64_t i = 0; any && is_fault && i < s->n; i++)
        if ((uint64_t)index[i] >= (uint64_t)extent && (!mask || mask[i]))
            tn__cpu_plan_fault(t->plan, op->index, dim, index[i],
                               position(t, s, i));
}

/* Columns that reductions alone read stay where they are, whatever lies
 * between two elements of one. */
static bool load_columns(cpu_task *t, const cpu_op *op, const span *s,
                         bool may_lend)
{
    const cpu_view *view = &s->view[op->index];
    if (!may_lend || view->ndim != 2 || view->stride[1] != 1 ||
        view->extent[1] != t->rows)
        return false;
    t->step[op->out] = view->stride[0];
    t->slot[op->out] =
        view->base + s->at / t->rows * view->stride[0] * view->bytes;
    return true;
}

/* One row of memory, without gaps, that is each of the n elements' rows from
 * `at` on: of all, or of some neighbours, as those that each row of another
 * operand meets. */
static bool load_row(cpu_task *t, const cpu_op *op, const cpu_view *view,
                     int64_t at, int64_t n, bool may_lend)
{
    int64_t length = t->count / t->rows;
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

/* Lines of a streamed row: where the first one begins, and elements from each to
 * the next (cpu_launch.c has seen to it that there are such). */
static char *find_subrow(const cpu_task *t, const cpu_view *view, int64_t at,
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

/* The next row lies as this one does. */
static void prefetch_next_row(cpu_task *t, const cpu_op *op,
                              const cpu_view *view)
{
    int64_t step;
    const cpu_plan *plan = t->plan;
    if (!plan->traffic.ahead || t->subrows.next_row != 0 ||
        t->first_row + 1 == plan->row_count)
        return;
    t->subrows.next_slot = op->out;
    t->subrows.next_row =
        find_subrow(t, view, t->at + plan->row_length, &step) -
        t->slot[op->out];
}

/* Columns: a line across them is left where it lies, and so is what is one
 * value for each line: the gradient of layer_norm's weight spent a third of its
 * time copying x and its cotangent, and writing out mean and root. */
static bool load_column_block(cpu_task *t, const cpu_op *op, const span *s,
                              bool may_lend)
{
    const cpu_view *view = &s->view[op->index];
    if (!may_lend || view->ndim < 2)
        return false;
    uint32_t across = view->ndim - 2;
    const int64_t *stride = view->stride + across;
    bool is_each =
        stride[0] == 1 && stride[1] == 0 && (op->flags & LOAD_SINGLE);
    if (view->extent[across + 1] != t->rows || (!is_each && stride[1] != 1))
        return false;
    int64_t line = s->at / t->rows, offset = 0;
    if (line % view->extent[across] + s->n / t->rows > view->extent[across])
        return false;
    for (uint32_t d = across + 1; d-- > 0; line /= view->extent[d])
        offset += line % view->extent[d] * view->stride[d];
    t->step[op->out] = is_each ? TN_CPU_ONE_EACH : stride[0];
    t->slot[op->out] = view->base + offset * view->bytes;
    return true;
}

/* A number of a channel, or of whatever else goes no further than this block. */
static bool load_single(cpu_task *t, const cpu_op *op, const span *s,
                        bool may_lend)
{
    char *one = may_lend ? tn__cpu_view_single(&s->view[op->index], s->at, s->n)
                         : NULL;
    if (!one)
        return false;
    t->step[op->out] = TN_CPU_ONE_VALUE;
    t->slot[op->out] = one;
    return true;
}

/* A value that later stages read is looked for where the whole group's are. */
static bool load_group(cpu_task *t, const cpu_op *op, const cpu_view *view,
                       bool may_lend)
{
    char *flat = may_lend ? tn__cpu_view_flat(view, t->group_at, t->group_count)
                          : NULL;
    char *base = flat ? flat : t->home[op->out];
    t->base[op->out] = base;
    t->slot[op->out] = base + t->first_elem * t->code->slot[op->out].bytes;
    if (flat)
        tn__cpu_prefetch_next_block(t, op, t->slot[op->out],
                                    t->count * view->bytes,
                                    t->group_count * view->bytes);
    return flat != NULL;
}

/* Offsets of the elements that a load by an index takes. */
static void compute_offsets(cpu_task *t, const cpu_op *op, const span *s,
                            int64_t *where)
{
    const uint32_t index[3] = {op->a, op->b, op->c};
    tn__cpu_view_offsets(&s->view[op->index], t->routines, s->at, s->n,
                         where);
    for (uint32_t d = 0; d < 3; d++)
        if (index[d] != TN_CPU_NONE)
            add_index(t, op, s, d, (const int64_t *)t->slot[index[d]], where);
}

/* An index that moves nothing is there to ask whether an element may be read.
 * Where all may, which is a glance at the index, it is a load without one. */
static bool load_unmoved(cpu_task *t, const cpu_op *op, const span *s)
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

static void run_load(cpu_task *t, const cpu_op *op, const span *s)
{
    const cpu_view *view = &s->view[op->index];
    bool plain = op->a == TN_CPU_NONE && op->b == TN_CPU_NONE &&
                 op->c == TN_CPU_NONE;
    bool may_lend =
        plain && tn__cpu_is_as_stored(view->dtype) && !t->plan->overlap;
    /* Set for each load, wherever its values come to lie. */
    t->step[op->out] = op->flags & LOAD_LENT && !t->columns
                           ? t->count / t->rows
                           : t->rows;
    if (t->code->slot[op->out].space == CPU_GROUP) {
        if (load_group(t, op, view, may_lend))
            return;
        if ((op->flags & LOAD_LENT) && !(op->flags & LOAD_FOLDED) &&
            t->plan->kept && t->by_rows &&
            load_row(t, op, view, t->group_at, t->group_count, may_lend)) {
            t->base[op->out] = t->slot[op->out];
            return;
        }
        may_lend = false;
    } else if (plain) {
        t->slot[op->out] = t->home[op->out];
    }
    char *to = t->slot[op->out];
    if (t->subrows.length > 0 && !load_single(t, op, s, may_lend)) {
        t->slot[op->out] = find_subrow(t, view, t->at, &t->step[op->out]);
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
        bool across_columns = !(op->flags & LOAD_LENT) || t->across_columns;
        if (folded && t->columns && across_columns &&
            load_columns(t, op, s, may_lend))
            return;
        if ((op->flags & LOAD_LENT) && !folded && t->by_rows &&
            load_row(t, op, view, s->at, s->n, may_lend))
            return;
        if ((op->flags & LOAD_LENT) && t->across_columns &&
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
    int64_t *where = (int64_t *)(op->where == TN_CPU_NONE
                                     ? t->temporary
                                     : t->slot[op->where]);
    if (!t->shared.skip || t->shared.skip[op - t->code->op] != CPU_PLACED)
        compute_offsets(t, op, s, where);
    t->routines->gather[view->dtype](to, view->base, where, s->n);
}

/* Values of the rows, repeated for their elements. */
static void run_broadcast(cpu_task *t, const cpu_op *op, int64_t n)
{
    size_t bytes = t->code->slot[op->out].bytes;
    const char *from = t->slot[op->a];
    char *to = t->slot[op->out];
    if (t->rows == 1) {
        op->run(to, from, NULL, NULL, n, 0);
    } else if (t->columns) {
        size_t all = bytes * (size_t)t->rows;
        for (int64_t i = 0; i < n; i += t->rows, to += all)
            memcpy(to, from, all);
    } else {
        int64_t length = n / t->rows;
        for (int64_t r = 0; r < t->rows; r++)
            op->run(to + (size_t)(r * length) * bytes,
                    from + (size_t)r * bytes, NULL, NULL, length, 0);
    }
}

/* An operand of columns that lies line by line, or has one value for each. */
static bool find_column_factor(const cpu_task *t, const cpu_op *op, unsigned i,
                               bool is_each, const void **at, int64_t *step)
{
    const uint32_t slots[3] = {op->a, op->b, op->c};
    bool lent = op->lent >> i & 1;
    *at = t->slot[slots[i]];
    *step = lent ? t->step[slots[i]] : t->rows;
    bool single = (op->scalar >> i & 1) || *step == TN_CPU_ONE_VALUE;
    bool each = single || *step == TN_CPU_ONE_EACH;
    if (each)
        *step = !single;
    return each == is_each;
}

/* What the operations before a reduction would make of columns. */
static bool find_column_products(const cpu_task *t, const cpu_op *op,
                                 tn_cpu_column_products *l)
{
    static const float zero = 0, one = 1;
    const cpu_op *last = op - 1, *first = last;
    *l = (tn_cpu_column_products){.center = &zero, .scale = &one};
    if (op->column_form == CPU_CENTERED_SCALED) {
        first = last - 1;
        unsigned other = last->a == first->out;
        if (!find_column_factor(t, last, other, true, &l->scale,
                                &l->scale_step))
            return false;
    }
    bool center = op->column_form == CPU_CENTERED_SCALED ||
                  op->column_form == CPU_CENTERED;
    if (center &&
        !find_column_factor(t, first, 1, true, &l->center, &l->center_step))
        return false;
    if (op->column_form == CPU_TRIPLE &&
        !find_column_factor(t, last, 2, true, &l->scale, &l->scale_step))
        return false;
    return find_column_factor(t, first, 0, false, &l->x, &l->x_step) &&
           find_column_factor(t, first, center ? 2 : 1, false, &l->y,
                              &l->y_step);
}

/* Does a reduction take what the operations before it are of? */
static bool takes_operands(const cpu_task *t, const cpu_op *op)
{
    tn_cpu_column_products products;
    if (t->columns)
        return op->column_form != 0 && find_column_products(t, op, &products);
    return op->b != TN_CPU_NONE &&
           !((op->lent & 2) && t->step[op->b] == TN_CPU_ONE_VALUE) &&
           !((op->lent & 4) && t->step[op->c] == TN_CPU_ONE_VALUE);
}

static void run_reduce(cpu_task *t, const cpu_op *op)
{
    const cpu_reduce *reduce = &t->code->reduce[op->index];
    cpu_fold *fold = &t->fold[op->index];
    tn_cpu_column_products products;
    bool takes = takes_operands(t, op);
    if (takes && t->columns) {
        find_column_products(t, op, &products);
        if (t->plan->kept)
            tn__cpu_fold_begin(fold);
        tn__cpu_fold_column_products(fold, products, t->count / t->rows,
                                     t->rows);
        if (t->plan->kept)
            tn__cpu_fold_end(fold, t->rows, t->slot[reduce->out]);
        return;
    }
    const char *x = t->slot[op->a];
    int64_t step = op->flags & LOAD_FOLDED ? t->step[op->a] : t->rows;
    if (takes) {
        const uint32_t from[2] = {op->b, op->c};
        int64_t length = t->count / t->rows;
        tn_cpu_factor factor[2];
        for (int i = 0; i < 2; i++) {
            uint32_t center = op->narrow[i + 1];
            factor[i] = (tn_cpu_factor){
                t->slot[from[i]],
                center == TN_CPU_NONE ? NULL : t->slot[center],
                op->lent & 2 << i ? t->step[from[i]] : length, 1};
        }
        if (t->plan->kept)
            tn__cpu_fold_product_rows(fold, factor, t->rows, length,
                                      t->slot[reduce->out]);
        else
            tn__cpu_fold_products(fold, factor, t->count);
        return;
    }
    if (t->plan->kept)
        tn__cpu_fold_rows(fold, x, step, t->rows, t->plan->row_length,
                          t->columns, t->slot[reduce->out]);
    else
        tn__cpu_fold_block(fold, x, step, t->first_elem, t->count / t->rows,
                           t->rows, t->columns);
}

/* Operands of an operation that are one value for the whole block. */
static unsigned single_operands(const cpu_task *t, const cpu_op *op)
{
    const uint32_t slot[3] = {op->a, op->b, op->c};
    unsigned bits = 0;
    for (unsigned i = 0; op->lent && i < 3; i++)
        if (op->lent >> i & 1 && t->step[slot[i]] == TN_CPU_ONE_VALUE)
            bits |= 1u << i;
    return bits;
}

/* Does one of its operands lie otherwise than as a block of columns? */
static bool reads_strided(const cpu_task *t, const cpu_op *op)
{
    const uint32_t slot[3] = {op->a, op->b, op->c};
    for (unsigned i = 0; op->lent && i < 3; i++)
        if (op->lent >> i & 1 && t->step[slot[i]] != t->rows)
            return true;
    return false;
}

/* Row by row, with operands that have one value for each, or one row, or one
 * value, for all; of columns line by line. */
static void run_by_rows(cpu_task *t, const cpu_op *op, unsigned single)
{
    const uint32_t wide[3] = {op->a, op->b, op->c};
    const char *in[3];
    size_t in_bytes[3], out_bytes = t->code->slot[op->out].bytes;
    int64_t rows = t->by_rows          ? t->rows
                   : t->across_columns ? t->count / t->rows
                                       : 1;
    int64_t length = t->count / rows;
    unsigned row_bits = t->by_rows ? op->row : 0, each = row_bits;
    for (unsigned i = 0; t->across_columns && i < 3; i++)
        if (op->lent >> i & 1 && t->step[wide[i]] == TN_CPU_ONE_EACH)
            each |= 1u << i;
    unsigned scalar = op->scalar | each | single;
    /* No routine takes both, but those that take all. */
    bool is_both = (scalar & 3) == 3 && op->allowed != 7;
    for (unsigned i = 0; i < 3; i++) {
        bool row = row_bits >> i & 1;
        uint32_t slot = row ? op->narrow[i] : wide[i];
        in[i] = t->slot[slot];
        int64_t step = each >> i & 1        ? 1
                       : scalar >> i & 1    ? 0
                       : op->lent >> i & 1 ? t->step[slot]
                                            : length;
        in_bytes[i] = (size_t)step * t->code->slot[slot].bytes;
    }
    char *out = t->slot[op->out];
    unsigned type = t->code->slot[wide[0]].bytes == 8 ? CPU_F64 : CPU_F32;
    for (int64_t r = 0; r < rows; r++) {
        const char *a = in[0];
        if (is_both) {
            t->routines->fill[type](t->temporary, a, NULL, NULL, length, 0);
            a = t->temporary;
        }
        op->run(out, a, in[1], in[2], length, is_both ? scalar & ~1u : scalar);
        out += (size_t)length * out_bytes;
        for (unsigned i = 0; i < 3; i++)
            in[i] += in_bytes[i];
    }
}

/* A function takes long enough for memory to bring much: in pieces, what is
 * ahead is asked for as fast as this is used up, and what is done goes past the
 * caches where it is to. exp of 64 MiB (Sapphire Rapids): 6.4 ms in pieces of
 * 128 elements, 8.3 of 512, 11 of 1024. Where the result stays in the cache for
 * a later stage, pieces may be longer: softmax of 4096 x 4096 14.4 ms in place
 * of 16.6. */
static void run_math(cpu_task *t, const cpu_op *op, int64_t n)
{
    enum { PAST_PIECE = 128, PIECE = 256 };
    const uint32_t slot[4] = {op->out, op->a, op->b, op->c};
    char *at[4], *streamed = t->stream_to ? t->stream_to[op->out] : NULL;
    const int64_t most = streamed ? PAST_PIECE : PIECE;
    int64_t bytes = t->code->slot[op->out].bytes;
    size_t step[4];
    for (int i = 0; i < 4; i++) {
        bool has = slot[i] != TN_CPU_NONE;
        at[i] = has ? t->slot[slot[i]] : NULL;
        step[i] = has ? (size_t)most * t->code->slot[slot[i]].bytes : 0;
    }
    for (int64_t chunk; n > 0; n -= chunk) {
        chunk = n;
        if (t->plan->traffic.ahead || t->plan->traffic.stream)
            chunk = tn__cpu_min(most, n);
        op->math(at[0], at[1], at[2], at[3], chunk);
        if (streamed) {
            t->routines->stream(streamed, at[0], chunk * bytes, 0);
            streamed += chunk * bytes;
        }
        for (int i = 0; i < 4; i++)
            at[i] += step[i];
        tn__cpu_overlap_memory(t, most * bytes);
    }
}

/* Begins a loop; returns how many operations to skip. */
static uint32_t run_loop(cpu_task *t, const cpu_op *op, int64_t n)
{
    int64_t bound, zero = 0;
    memcpy(&bound, t->slot[op->a], sizeof bound);
    if (bound <= 0)
        return op->jump;
    t->loops = op->index + 1;
    t->loop[op->index].round = 0;
    t->loop[op->index].mask = op->b;
    t->routines->fill[CPU_I64](t->slot[op->out], &zero, NULL, NULL, n, 0);
    if (op->c == TN_CPU_NONE)
        memset(t->slot[op->b], 1, (size_t)n);
    else
        memcpy(t->slot[op->b], t->slot[op->c], (size_t)n);
    return 0;
}

/* May machine code store values past the caches, as it makes them? */
static bool can_stream(const cpu_task *t, const cpu_op *op, const span *s,
                       const char *flat)
{
    enum { VECTOR_BYTES = 64 };
    int64_t bytes = s->view[op->index].bytes, line = 0;
    if (t->columns)
        line = t->across_columns ? t->rows : 0;
    else if (t->by_rows)
        line = t->count / t->rows;
    return (op->flags & STORE_STREAMED) && bytes > 1 &&
           ((uintptr_t)flat | (uintptr_t)(line * bytes)) % VECTOR_BYTES == 0;
}

/* What is kept for the group is at this block; values that are to be stored
 * without a gap are made there at once. */
static void point_slots(cpu_task *t, cpu_part part, const span *s)
{
    for (uint32_t i = 0; i < t->code->group_slot_count; i++) {
        uint32_t slot = t->code->group_slot[i];
        t->slot[slot] =
            t->base[slot] + t->first_elem * t->code->slot[slot].bytes;
    }
    const cpu_op *op = t->code->op + part.first;
    t->deferred.slot = TN_CPU_NONE;
    t->subrows.next_row = 0;
    for (uint32_t i = 0; i < part.count; i++) {
        if (op[i].code != CPU_STORE || !(op[i].flags & STORE_DIRECT))
            continue;
        if (t->subrows.length > 0) {
            t->slot[op[i].a] =
                find_subrow(t, &s->view[op[i].index], t->at, &t->step[op[i].a]);
            t->stream_to[op[i].a] =
                t->plan->traffic.stream ? t->slot[op[i].a] : NULL;
            continue;
        }
        char *flat = t->plan->overlap
                         ? NULL
                         : tn__cpu_view_flat(&s->view[op[i].index], s->at,
                                             s->n);
        bool streamed = t->plan->traffic.stream && flat;
        bool pieces =
            (op[i].flags & STORE_CHUNKED) || can_stream(t, &op[i], s, flat);
        int64_t bytes = s->n * s->view[op[i].index].bytes;
        t->stream_to[op[i].a] = streamed && pieces ? flat : NULL;
        if (streamed && !pieces && tn__cpu_stream_defer(t, op[i].a, bytes))
            continue;
        t->slot[op[i].a] = flat && !streamed ? flat : t->home[op[i].a];
        /* A line is read before it is written to. */
        if (flat && !streamed && !t->plan->in_place)
            tn__cpu_prefetch_next_block(t, &op[i], flat, bytes, bytes);
    }
}

static void run_store(cpu_task *t, const cpu_op *op, const span *s)
{
    const cpu_view *view = &s->view[op->index];
    char *from = t->slot[op->a];
    if ((op->flags & STORE_DIRECT) && op->a == t->deferred.slot) {
        cpu_stream_block *later =
            &t->deferred.block[t->deferred.made++ % t->plan->traffic.blocks];
        later->at = from;
        later->end = from + s->n * view->bytes;
        later->to = tn__cpu_view_flat(view, s->at, s->n);
        t->deferred.slot = TN_CPU_NONE;
        return;
    }
    if ((op->flags & STORE_DIRECT) &&
        (from != t->home[op->a] || t->stream_to[op->a]))
        return;
    char *flat = t->plan->traffic.stream && s->level == CPU_ELEM
                     ? tn__cpu_view_flat(view, s->at, s->n)
                     : NULL;
    if (flat) {
        if (!tn__cpu_is_as_stored(view->dtype)) {
            t->routines->store[view->dtype](t->temporary, from, 1, s->n);
            from = t->temporary;
        }
        t->routines->stream(flat, from, s->n * view->bytes, 0);
        return;
    }
    tn__cpu_view_store(view, t->routines, s->at, s->n, from);
}

static void run_fill(cpu_task *t, const cpu_op *op, int64_t n)
{
    uint64_t value;
    const void *from = &value;
    if (op->code == CPU_FILL)
        from = t->slot[op->a];
    else if (op->code == CPU_PARAM)
        tn__cpu_number_store(&value, op->type,
                             t->plan->launch->param[op->index]);
    else
        memcpy(&value, &t->plan->row_length, sizeof value);
    op->run(t->slot[op->out], from, NULL, NULL, n, 0);
}

void tn__cpu_run_part(cpu_task *t, cpu_part part, unsigned level)
{
    const cpu_op *ops = t->code->op + part.first;
    char **slot = t->slot;
    span s = {.view = t->view, .at = t->at, .n = t->count, .level = level};
    if (level == CPU_ROW)
        s = (span){t->plan->row_view, t->first_row, t->rows, level};
    else if (level == CPU_UNIFORM)
        s = (span){NULL, 0, 1, level};
    else
        point_slots(t, part, &s);
    const bool overlaps = level == CPU_ELEM &&
                          t->plan->traffic.bytes_per_op > 0 &&
                          (t->plan->traffic.ahead || t->plan->traffic.stream);

    for (uint32_t i = 0; i < part.count; i++) {
        const cpu_op *op = &ops[i];
        if (t->shared.skip && t->shared.skip[part.first + i] == CPU_KNOWN)
            continue;
        if (overlaps && op->code != CPU_NATIVE)
            tn__cpu_overlap_memory(t, op->allowed == 7
                                          ? 2 * t->plan->traffic.bytes_per_op
                                          : t->plan->traffic.bytes_per_op);
        switch (op->code) {
        case CPU_RUN: {
            if ((op->flags & (t->columns ? RUN_COLUMNS : RUN_FACTORS)) &&
                takes_operands(t, op + op->jump))
                break;
            unsigned single = single_operands(t, op);
            if (single || ((op->row | op->lent) && t->by_rows) ||
                (t->across_columns && reads_strided(t, op))) {
                run_by_rows(t, op, single);
                break;
            }
            op->run(slot[op->out], slot[op->a], slot[op->b], slot[op->c],
                    s.n, op->scalar);
            break;
        }
        case CPU_MATH:
            run_math(t, op, s.n);
            break;
        case CPU_NATIVE:
            tn__cpu_run_native(t, op);
            break;
        case CPU_NOP:
            break;
        case CPU_PAIR:
            t->routines->philox_pair(slot[op->out], slot[op->where],
                                     slot[op->a], slot[op->b], slot[op->c],
                                     s.n);
            break;
        case CPU_BROADCAST:
            if (!t->by_rows || (op->flags & BROADCAST_NEEDED))
                run_broadcast(t, op, s.n);
            break;
        case CPU_FILL:
        case CPU_PARAM:
        case CPU_ROWLEN:
            run_fill(t, op, s.n);
            break;
        case CPU_LOAD:
            run_load(t, op, &s);
            break;
        case CPU_OFFSET:
            tn__cpu_view_offsets(&s.view[op->index], t->routines, s.at, s.n,
                                 (int64_t *)slot[op->out]);
            break;
        case CPU_STORE:
            run_store(t, op, &s);
            break;
        case CPU_REDUCE:
            if (op->jump == 0 || !tn__cpu_native_folds(t))
                run_reduce(t, op);
            break;
        case CPU_LOOP:
            i += run_loop(t, op, s.n);
            break;
        case CPU_WHILE: {
            uint8_t *mask = (uint8_t *)slot[op->b];
            t->routines->op[TN_K_AND][CPU_BOOL](mask, mask, slot[op->a],
                                                NULL, s.n, 0);
            if (!memchr(mask, 1, (size_t)s.n)) {
                t->loops = op->index;
                i += op->jump;
            }
            break;
        }
        default: { /* CPU_END */
            int64_t bound, round = ++t->loop[op->index].round;
            memcpy(&bound, slot[op->a], sizeof bound);
            t->loops = op->index;
            if (round < bound) {
                t->routines->fill[CPU_I64](slot[op->out], &round, NULL, NULL,
                                           s.n, 0);
                t->loops++;
                i -= op->jump;
            }
        }
        }
    }
}
