/* native_run.c: runs the machine code of a segment (several operations of a
 * program) over a block of elements.
 *
 * The code is called row by row if an operand has one value for each row, or if
 * all rows of an operand are the same memory. Code that reduces rows processes
 * several rows, or several chunks of one row, at once. This hides the latency of
 * the additions. A reduction that machine code computes is called a fold
 * (native_run_folds.c). Subrows are the contiguous pieces of equal length of
 * which a row may consist. */
#include "native_runner.h"

bool tn__cpu_native_folds(const cpu_task *t)
{
    return !t->layout.columns && t->layout.by_rows;
}

/* Returns whether machine code can run a stage directly on subrows (contiguous
 * parts of a row). It can if every operand is read from the tensor's memory,
 * every result is written to its destination, and the code computes all
 * reductions. */
static bool takes_subrows(const cpu_code *code, const cpu_stage *stage)
{
    enum { OPERANDS = TN_CPU_CHUNKS_BYTES / (4 * COPIES * TN_CHUNK) };
    const cpu_op *op = code->op + stage->elem.first;
    uint32_t results = 0, stores = 0;
    bool folds = stage->reduce_count > 0;
    for (uint32_t i = 0; i < stage->elem.count; i++) {
        const cpu_segment *s =
            op[i].code == CPU_NATIVE ? code->segment[op[i].index] : NULL;
        bool able =
            op[i].code == CPU_REDUCE  ? op[i].jump > 0
            : op[i].code == CPU_LOAD  ? (op[i].flags & LOAD_LENT) != 0
            : op[i].code == CPU_STORE ? (op[i].flags & STORE_DIRECT) && !folds
            : op[i].code == CPU_BROADCAST ? !(op[i].flags & BROADCAST_NEEDED)
                                          : s != NULL;
        stores += op[i].code == CPU_STORE;
        if (!able ||
            (s && folds &&
             (s->native.fold_count == 0 || s->native.operand_count > OPERANDS)))
            return false;
        for (uint32_t r = 0; s && r < s->native.result_count; r++)
            results += !s->native.folded[r];
    }
    return results == stores;
}

bool tn__cpu_native_takes_subrows(const cpu_code *code)
{
    bool all = code->segment_count > 0;
    for (uint32_t s = 0; all && s < code->stage_count; s++)
        all = takes_subrows(code, &code->stage[s]);
    return all;
}

/* Returns whether an operand has one value for each column. */
static bool is_of_columns(const cpu_task *t, const cpu_native_operand *operand)
{
    return t->layout.across_columns && operand->narrow != TN_CPU_NONE &&
           operand->wide != TN_CPU_NONE;
}

/* Returns whether a block of columns must be processed one element index at a
 * time: for each element index, the code runs over all columns. This is so if
 * an operand's values for consecutive element indices are not adjacent in
 * memory. */
static bool lies_across(const cpu_task *t, const cpu_segment *s)
{
    for (uint32_t i = 0; i < s->native.operand_count; i++)
        if (is_of_columns(t, &s->operand[i]) ||
            (s->operand[i].lent &&
             t->step[s->operand[i].wide] != t->group.rows))
            return true;
    return false;
}

static void add_operand(const cpu_task *t, const cpu_native_operand *operand,
                        row_layout *l)
{
    uint32_t i = l->pointers++;
    if (is_of_columns(t, operand)) { /* all columns read the same values */
        l->at[i] = t->slot[operand->narrow];
        l->bytes[i] = operand->bytes;
        l->next[i] = 0;
        return;
    }
    bool by_row = operand->narrow != TN_CPU_NONE &&
                  (operand->wide == TN_CPU_NONE || tn__cpu_native_folds(t));
    bool numbers =
        by_row && operand->wide != TN_CPU_NONE && t->subrows.length == 0;
    int64_t step = operand->lent ? t->step[operand->wide] : l->length;
    bool one = step == TN_CPU_ONE_VALUE, each = step == TN_CPU_ONE_EACH;
    l->at[i] = t->slot[by_row ? operand->narrow : operand->wide];
    if (!by_row && !one && !each) {
        l->bytes[i] = operand->bytes;
        l->next[i] = step * operand->bytes;
        return;
    }
    l->single |= 1u << i;
    l->bytes[i] = 0;
    l->next[i] = each || numbers ? operand->bytes : 0;
}

static void find_lines(const cpu_task *t, const cpu_segment *s, row_layout *l)
{
    l->count = 1;
    if (t->subrows.length > 0 && s->native.fold_count == 0)
        l->count = t->block.count / t->subrows.length;
    else if (t->layout.columns && t->layout.across_columns && lies_across(t, s))
        l->count = t->block.count / t->group.rows;
    else if (!t->layout.columns && t->layout.by_rows)
        l->count = t->group.rows;
    l->length = t->block.count / l->count;
    l->first =
        t->subrows.length > 0 ? t->block.first_elem % t->subrows.length : 0;
    l->pointers = l->single = 0;
    l->prefetch = TN_CPU_NONE;
    for (uint32_t i = 0; i < s->native.operand_count; i++) {
        add_operand(t, &s->operand[i], l);
        if (s->native.fold_count == 0 && t->subrows.length > 0 &&
            t->subrows.next_row != 0 &&
            s->operand[i].wide == t->subrows.next_slot)
            l->prefetch = i;
    }
    l->streamed = 0;
    for (uint32_t i = 0; i < s->native.result_count; i++, l->pointers++) {
        uint32_t slot = s->result[i];
        char *streamed = t->stream_to[slot];
        l->at[l->pointers] = streamed ? streamed : t->slot[slot];
        l->bytes[l->pointers] = t->code->slot[slot].bytes;
        bool subrow_length = t->subrows.length > 0 && s->native.fold_count == 0;
        l->next[l->pointers] =
            (subrow_length ? t->step[slot] : l->length) * l->bytes[l->pointers];
        l->streamed |= (uint32_t)(streamed != NULL) << i;
    }
}

/* Merges all rows into one if they are contiguous. */
static void join_lines(row_layout *l)
{
    for (uint32_t i = 0; i < l->pointers; i++)
        if (l->next[i] != l->length * l->bytes[i])
            return;
    l->length *= l->count;
    l->count = 1;
}

/* Returns whether the code prefetches memory of the next block. In a program of
 * several stages only the first stage reads memory, and the others read caches.
 * Prefetches in the other stages would use memory bandwidth without need.
 *
 * Without non-temporal stores, code prefetches only if it has at least LONG
 * instructions for each vector. In shorter code the prefetches would cost more
 * than they save, for example in layer_norm. */
static bool wants_prefetch(cpu_task *t, const cpu_segment *s)
{
    enum { LONG = 16 };
    return (t->plan->traffic.stream || s->work >= LONG) &&
           t->code->stage_count > 1 && most_ahead(t);
}

/* Sets up a call so that its code prefetches the next row while it processes
 * the current row. Both rows have the same layout. */
static void point_next_row(const runner *f, cpu_native_call *call)
{
    enum { VECTOR = 64 };
    const int64_t bytes = f->l->bytes[f->l->prefetch];
    call->prefetch = call->at[f->l->prefetch] + f->t->subrows.next_row;
    call->prefetch_next =
        call->next[f->l->prefetch] - call->n * bytes / VECTOR * VECTOR;
}

static void run_lines(const runner *f)
{
    cpu_task *t = f->t;
    const row_layout *l = f->l;
    cpu_native_call call;
    int64_t chunk = is_chunked(t) ? PIECE : l->length;
    for (int64_t line = 0, some; line < l->count; line += some) {
        some = some_lines(t, l, l->count - line);
        for (int64_t k = 0; k < l->length; k += call.n) {
            call.n = some > 1 ? l->length : tn__cpu_min(chunk, l->length - k);
            call.lines = some;
            point(&call, l, l->pointers, 1, line, k);
            if (l->prefetch != TN_CPU_NONE)
                point_next_row(f, &call);
            else if (f->prefetch)
                point_prefetch(t, f->s, &call, 1);
            f->one(&call);
            work_beside(t, some * call.n);
        }
    }
}

/* Returns a mask. Bit i is set if the code reads operand i from its tensor's
 * memory and each row of the operand has its own memory. */
static uint32_t streams_of(const cpu_segment *s, const row_layout *l)
{
    uint32_t streams = 0;
    for (uint32_t i = 0; i < s->native.operand_count; i++)
        if (s->operand[i].lent && l->bytes[i] > 0 &&
            (l->count == 1 || l->next[i] != 0))
            streams |= 1u << i;
    return streams;
}

/* Chooses which operands and results the code prefetches, and how many bytes
 * ahead.
 *
 * - Programs of several stages and code with several results prefetch the
 *   results. Otherwise a store to a cache line that is not cached waits for
 *   memory. layer_norm of 4096 x 1024 takes 0.90 ms with the distance WRITTEN
 *   and 1.05 ms with a distance of 3584 bytes.
 * - Updates in place prefetch their operands, which the results then overwrite.
 *   Adam on four tensors of 4 MiB takes 1.65 ms with IN_PLACE and 1.89 ms with
 *   6144 bytes.
 * - Code with non-temporal stores and one input stream prefetches this stream,
 *   because the hardware may do it too late. simd/family.c has the distance.
 *
 * Times are for Zen 5, 2026-11. */
static void choose_prefetch(cpu_native_options *options, const cpu_task *t,
                            const cpu_segment *s, const row_layout *l)
{
    enum { WRITTEN = 2048, IN_PLACE = 4096 };
    const bool staged = t->code->stage_count > 1;
    const uint32_t operands = s->native.operand_count;
    const uint32_t results = (1u << s->native.result_count) - 1;
    const uint32_t streams = streams_of(s, l);
    if (t->plan->traffic.ahead && t->plan->in_place && !staged) {
        options->prefetch_operands = streams;
        options->ahead = IN_PLACE;
    } else if (t->plan->traffic.ahead &&
               (staged || s->native.result_count > 1)) {
        options->prefetch_operands = (uint64_t)(results & ~l->streamed)
                                     << operands;
        options->ahead = WRITTEN;
    } else if (!staged && results && l->streamed == results &&
               !options->prefetch && (streams & (streams - 1)) == 0 &&
               t->routines->family->stream_ahead > 0) {
        options->prefetch_operands = streams;
        options->ahead = (int32_t)t->routines->family->stream_ahead;
    }
}

/* Prepares the reduction of rows that consist of subrows. If the subrows are
 * adjacent in memory, points the operands at the block's first element and
 * returns 0. The code then processes the subrows as one row. Otherwise returns
 * the length of a subrow. */
static int64_t subrow_length(const cpu_task *t, const cpu_segment *s,
                             row_layout *l)
{
    for (uint32_t i = 0; i < s->native.operand_count; i++)
        if (l->next[i] != t->subrows.length * l->bytes[i])
            return t->subrows.length;
    for (uint32_t i = 0; i < s->native.operand_count; i++)
        l->at[i] += l->first * l->bytes[i];
    return 0;
}

void tn__cpu_run_native(cpu_task *t, const cpu_op *op)
{
    cpu_segment *s = t->code->segment[op->index];
    bool folds = s->native.fold_count > 0 && tn__cpu_native_folds(t);
    row_layout l;
    find_lines(t, s, &l);
    if (!folds)
        join_lines(&l);
    runner f = {.t = t, .s = s, .l = &l};
    if (folds && t->subrows.length > 0)
        f.line = subrow_length(t, s, &l);
    cpu_native_options options = {.single = l.single,
                                  .streamed = l.streamed,
                                  .copies = 1,
                                  .folds = folds,
                                  .prefetch = l.prefetch != TN_CPU_NONE ||
                                              wants_prefetch(t, s)};
    if (t->plan->traffic.ahead || l.streamed)
        choose_prefetch(&options, t, s, &l);
    f.prefetch = options.prefetch;
    f.one = tn__cpu_native_get(&s->native, options);
    f.copies = folds ? tn__cpu_native_copies(&s->native) : 1;
    options.copies = (uint8_t)f.copies;
    f.some =
        f.copies > 1 && f.one ? tn__cpu_native_get(&s->native, options) : f.one;
    options.parts = true;
    if (f.copies > 1 && f.line % TN_CHUNK != 0)
        f.parts = tn__cpu_native_get(&s->native, options);
    if (!f.one || !f.some)
        atomic_store(&t->plan->failed, TN_ERR_MEMORY);
    else if (folds && t->plan->kept && l.length <= TN_CHUNK)
        tn__cpu_native_fold_rows(&f);
    else if (folds)
        tn__cpu_native_fold_chunks(&f);
    else
        run_lines(&f);
}
