/* block.c: runs a list of operations of a program (those on scalars, on rows or
 * on elements) over one block, in order. A block of rows is stored as
 * value[row][element], a block of columns as value[element][row]. */
#include <string.h>

#include "../jit/native_run.h"
#include "block.h"

/* Broadcasts the scalar of each row to the row's elements. */
static void run_broadcast(cpu_task *t, const cpu_op *op, int64_t n)
{
    size_t bytes = t->code->slot[op->out].bytes;
    const char *from = t->slot[op->a];
    char *to = t->slot[op->out];
    if (t->group.rows == 1) {
        op->run(to, from, NULL, NULL, n, 0);
    } else if (t->layout.columns) {
        size_t all = bytes * (size_t)t->group.rows;
        for (int64_t i = 0; i < n; i += t->group.rows, to += all)
            memcpy(to, from, all);
    } else {
        int64_t length = n / t->group.rows;
        for (int64_t r = 0; r < t->group.rows; r++)
            op->run(to + (size_t)(r * length) * bytes,
                    from + (size_t)r * bytes, NULL, NULL, length, 0);
    }
}

/* Returns which operands are one scalar for the whole block, as a bit mask: bit
 * 0 is a, bit 1 is b, bit 2 is c. Only operands that are read from their
 * tensor's memory are considered. */
static unsigned single_operands(const cpu_task *t, const cpu_op *op)
{
    const uint32_t slot[3] = {op->a, op->b, op->c};
    unsigned bits = 0;
    for (unsigned i = 0; op->lent && i < 3; i++)
        if (op->lent >> i & 1 && t->step[slot[i]] == TN_CPU_ONE_VALUE)
            bits |= 1u << i;
    return bits;
}

/* Returns whether the operation reads, in place, an operand whose stride from
 * element to element differs from that of a block of columns, which is the
 * number of rows of the group. */
static bool reads_strided(const cpu_task *t, const cpu_op *op)
{
    const uint32_t slot[3] = {op->a, op->b, op->c};
    for (unsigned i = 0; op->lent && i < 3; i++)
        if (op->lent >> i & 1 && t->step[slot[i]] != t->group.rows)
            return true;
    return false;
}

/* Runs an operation with one call of the routine per row, or, for columns, with
 * one call per element index. `single` has a bit for each operand that is one
 * scalar for the whole block. */
static void run_by_rows(cpu_task *t, const cpu_op *op, unsigned single)
{
    const uint32_t wide[3] = {op->a, op->b, op->c};
    const char *in[3];
    size_t in_bytes[3], out_bytes = t->code->slot[op->out].bytes;
    int64_t rows = t->layout.by_rows          ? t->group.rows
                   : t->layout.across_columns ? t->block.count / t->group.rows
                                              : 1;
    int64_t length = t->block.count / rows;
    unsigned row_bits =
        t->layout.by_rows || t->layout.across_columns ? op->row : 0;
    unsigned each = t->layout.by_rows ? row_bits : 0;
    for (unsigned i = 0; t->layout.across_columns && i < 3; i++)
        if (op->lent >> i & 1 && t->step[wide[i]] == TN_CPU_ONE_EACH)
            each |= 1u << i;
    unsigned scalar = op->scalar | each | single;
    /* Most routines do not accept scalars for both a and b, so a is then
     * broadcast to t->temporary. Fused pairs of operations accept both. */
    bool is_both = (scalar & 3) == 3 && op->allowed != 7;
    for (unsigned i = 0; i < 3; i++) {
        bool row = row_bits >> i & 1;
        uint32_t slot = row ? op->narrow[i] : wide[i];
        in[i] = t->slot[slot];
        int64_t step = each >> i & 1     ? 1
                       : row             ? 0 /* all elements have the same value */
                       : scalar >> i & 1 ? 0
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

/* Runs a mathematical function in chunks. After each chunk, as many bytes of
 * the next block are prefetched as the chunk has, because memory would
 * otherwise idle. If stream_to is set, non-temporal stores then write the
 * chunk's results. exp of 64 MiB takes 6.4 ms in chunks of 128 elements and 8.3
 * ms in chunks of 512 (Sapphire Rapids, 2026-11). If the result stays in the
 * cache for a later stage, longer chunks are better. */
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

/* Begins a loop. Returns 0, or, if the loop's bound is not positive, the number
 * of operations of the loop, which are then skipped. */
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

/* Returns whether machine code that computes the value of this STORE may write
 * it by non-temporal stores. This requires that every row begins at a vector
 * boundary. */
static bool can_stream(const cpu_task *t, const cpu_op *op, const cpu_span *s,
                       const char *flat)
{
    enum { VECTOR_BYTES = 64 };
    int64_t bytes = s->view[op->index].bytes, line = 0;
    if (t->layout.columns)
        line = t->layout.across_columns ? t->group.rows : 0;
    else if (t->layout.by_rows)
        line = t->block.count / t->group.rows;
    return (op->flags & STORE_STREAMED) && bytes > 1 &&
           ((uintptr_t)flat | (uintptr_t)(line * bytes)) % VECTOR_BYTES == 0;
}

/* Sets the addresses of slots (memory of values) before the operations on a
 * block. GROUP slots hold the whole group, so they are pointed to the elements
 * of this block. If a STORE writes a slot to contiguous memory, the slot is
 * pointed to that memory. */
static void point_slots(cpu_task *t, cpu_part part, const cpu_span *s)
{
    for (uint32_t i = 0; i < t->code->group_slot_count; i++) {
        uint32_t slot = t->code->group_slot[i];
        t->slot[slot] =
            t->base[slot] + t->block.first_elem * t->code->slot[slot].bytes;
    }
    const cpu_op *op = t->code->op + part.first;
    t->deferred.slot = TN_CPU_NONE;
    t->subrows.next_row = 0;
    for (uint32_t i = 0; i < part.count; i++) {
        if (op[i].code != CPU_STORE || !(op[i].flags & STORE_DIRECT))
            continue;
        if (t->subrows.length > 0) {
            t->slot[op[i].a] = tn__cpu_find_subrow(
                t, &s->view[op[i].index], t->block.at, &t->step[op[i].a]);
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
        /* An ordinary store first reads its cache line, so the line is
         * prefetched. */
        if (flat && !streamed && !t->plan->in_place)
            tn__cpu_prefetch_next_block(t, &op[i], flat, bytes, bytes);
    }
}

/* Runs a STORE: writes the values of a slot to the operand. Does nothing if the
 * operation that computed the values has already written them there. */
static void run_store(cpu_task *t, const cpu_op *op, const cpu_span *s)
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

/* Runs a FILL, PARAM or ROWLEN: fills the slot with one value, which is a
 * scalar, a launch parameter or the length of a row. */
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
    cpu_span s = {.view = t->view,
                  .at = t->block.at,
                  .n = t->block.count,
                  .level = level};
    if (level == CPU_ROW)
        s = (cpu_span){t->plan->row_view, t->group.first_row, t->group.rows,
                       level};
    else if (level == CPU_UNIFORM)
        s = (cpu_span){NULL, 0, 1, level};
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
            if ((op->flags & (t->layout.columns ? RUN_COLUMNS : RUN_FACTORS)) &&
                tn__cpu_reduce_takes_operands(t, op + op->jump))
                break;
            unsigned single = single_operands(t, op);
            if (single || ((op->row | op->lent) && t->layout.by_rows) ||
                (t->layout.across_columns &&
                 (op->row || reads_strided(t, op)))) {
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
            if (!(t->layout.by_rows || t->layout.across_columns) ||
                (op->flags & BROADCAST_NEEDED))
                run_broadcast(t, op, s.n);
            break;
        case CPU_FILL:
        case CPU_PARAM:
        case CPU_ROWLEN:
            run_fill(t, op, s.n);
            break;
        case CPU_LOAD:
            tn__cpu_run_load(t, op, &s);
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
                tn__cpu_run_reduce(t, op);
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
