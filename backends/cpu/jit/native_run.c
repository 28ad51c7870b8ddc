/* native_run.c: runs a segment's machine code over a block. The code runs row
 * by row if an operand has one value for each row, or if all rows of an operand
 * are the same memory. Code that reduces rows processes COPIES rows, or COPIES
 * chunks of one row, at once, which hides the latency of the additions. A
 * reduction that machine code computes is called a fold.
 *
 * A chunk is TN_CHUNK consecutive elements of a row, which a fold reduces to
 * one partial result. Subrows are the contiguous pieces of equal length of
 * which a row may consist. A chunk that spans subrows is processed in parts,
 * one for each subrow. */
#include <string.h>

#include "../run/plan.h"
#include "native_run.h"

enum { COPIES = TN_CPU_NATIVE_COPIES };
enum { PIECE = 1024 }; /* elements processed between two prefetches */

/* The block of a segment as `count` rows of `length` elements. The first three
 * arrays are indexed by operand, followed by the results. */
typedef struct row_layout {
    char *at[TN_CPU_NATIVE_POINTERS];     /* address of the first row */
    int64_t next[TN_CPU_NATIVE_POINTERS]; /* stride of rows in bytes */
    /* Element size in bytes; 0 if there is one value for a row. */
    int64_t bytes[TN_CPU_NATIVE_POINTERS];
    /* pointers is the number of operands and results. The options of the code
     * are single and streamed (cpu_native_options). */
    uint32_t pointers, single, streamed;
    int64_t count, length;
    /* Used with subrows: the position of the block's first element within its
     * subrow. next[] is then the stride of subrows. */
    int64_t first;
    /* The operand whose next row is prefetched, or TN_CPU_NONE. */
    uint32_t prefetch;
} row_layout;

bool tn__cpu_native_folds(const cpu_task *t)
{
    return !t->columns && t->by_rows;
}

/* Returns whether machine code can run a stage over subrows in place: it reads
 * operands from their memory, writes each result directly to its destination,
 * and computes all reductions. */
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
        if (!able || (s && folds &&
                      (s->native.fold_count == 0 ||
                       s->native.operand_count > OPERANDS)))
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

static bool lies_across(const cpu_task *t, const cpu_segment *s)
{
    for (uint32_t i = 0; i < s->native.operand_count; i++)
        if (s->operand[i].lent && t->step[s->operand[i].wide] != t->rows)
            return true;
    return false;
}

static void add_operand(const cpu_task *t, const cpu_native_operand *operand,
                        row_layout *l)
{
    uint32_t i = l->pointers++;
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
        l->count = t->count / t->subrows.length;
    else if (t->columns && t->across_columns && lies_across(t, s))
        l->count = t->count / t->rows;
    else if (!t->columns && t->by_rows)
        l->count = t->rows;
    l->length = t->count / l->count;
    l->first = t->subrows.length > 0 ? t->first_elem % t->subrows.length : 0;
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

/* Sets the pointers of a call so that copy j processes row line + j, beginning
 * at element `element`. `each` is the number of pointers of a copy. */
static void point(cpu_native_call *call, const row_layout *l, uint32_t each,
                  int64_t copies, int64_t line, int64_t element)
{
    for (uint32_t i = 0; i < l->pointers; i++) {
        call->next[i] = copies * l->next[i];
        for (int64_t j = 0; j < copies; j++)
            call->at[j * each + i] =
                l->at[i] + (line + j) * l->next[i] + element * l->bytes[i];
    }
}

/* Of the memory ranges that the next block reads, returns the one with the most
 * bytes left to prefetch, or NULL if nothing is left. */
static cpu_prefetch_range *most_ahead(cpu_task *t)
{
    cpu_prefetch_range *most = NULL;
    for (int i = 0; t->plan->traffic.ahead && i < TN_CPU_PREFETCH_RANGES; i++) {
        cpu_prefetch_range *ahead = &t->ahead[i];
        if (ahead->at < ahead->end &&
            (!most || ahead->end - ahead->at > most->end - most->at))
            most = ahead;
    }
    return most;
}

/* Makes the code of a call prefetch memory of the next block, and marks that
 * memory as prefetched. If nothing is left to prefetch, the code prefetches an
 * operand that it reads anyway. */
static void point_prefetch(cpu_task *t, const cpu_segment *s,
                           cpu_native_call *call, int64_t copies)
{
    enum { VECTOR = 64 };
    cpu_prefetch_range *ahead = most_ahead(t);
    call->prefetch = call->at[0];
    call->prefetch_next = 0;
    if (!ahead)
        return;
    call->prefetch = ahead->at;
    ahead->at +=
        call->n / (s->native.wide ? 8 : 16) * copies * call->lines * VECTOR;
    if (ahead->at > ahead->end)
        ahead->at = ahead->end;
}

/* Returns whether rows are processed PIECE elements at a time, with prefetches
 * between the pieces. This pays for updates in place that read more streams
 * than the hardware prefetcher follows. Other programs become slower: rms_norm
 * of 2048 x 512 takes 160 us with these prefetches and 112 us without (Zen
 * 5). */
static bool is_chunked(const cpu_task *t)
{
    return t->plan->traffic.bytes_per_op > 0 && t->plan->traffic.ahead &&
           t->plan->in_place;
}

/* Returns whether the code prefetches the next rows. If several stages run over
 * rows, only the first stage reads memory; the others read caches, and memory
 * would idle without prefetches. softmax of 4096 x 4096 takes 7.1 ms without
 * and 4.9 ms with prefetches, layer_norm 4.7 and 3.6 ms.
 *
 * Unless results use non-temporal stores, the code prefetches only if a vector
 * takes it longer than the last-level cache needs for a cache line. softmax of
 * 2048 x 512 with its gradients, alternating with other work, then takes 520
 * instead of 725 us. If all code prefetched, layer_norm alone would take 177
 * instead of 165 us (Zen 5).
 *
 * The prefetches are part of the code. Between calls of the code, they would
 * have to be issued too many at once. */
static bool wants_prefetch(cpu_task *t, const cpu_segment *s)
{
    enum { LONG = 16 };
    return (t->plan->traffic.stream || s->work >= LONG) &&
           t->code->stage_count > 1 && most_ahead(t);
}

/* If is_chunked(), prefetches part of the next block: as many bytes as the
 * `elements` that were just processed have, divided by the number of stages. */
static void work_beside(cpu_task *t, int64_t elements)
{
    enum { BYTES = 4, LINE = 64 };
    if (is_chunked(t))
        tn__cpu_overlap_memory(
            t,
            (elements * BYTES / t->code->stage_count + LINE - 1) / LINE * LINE);
}

/* Returns how many of `left` rows one call processes. */
static int64_t some_lines(const cpu_task *t, const row_layout *l, int64_t left)
{
    int64_t some = is_chunked(t) ? PIECE / l->length : left;
    return tn__cpu_min(some > 1 ? some : 1, left);
}

typedef struct runner {
    cpu_task *t;
    const cpu_segment *s;
    const row_layout *l;
    /* one: code for one copy; some: for COPIES copies */
    cpu_native_run *one, *some;
    /* Code for COPIES copies with the option `parts`, or NULL. */
    cpu_native_run *parts;
    bool prefetch;
    /* Number of elements of a subrow if subrows are not adjacent, else 0. */
    int64_t line;
    int64_t first; /* chunk at which the current batch of chunks begins */
} runner;

/* Makes the code of a call prefetch the next row, which has the same layout as
 * the current row. Memory is then read while results are stored. batch_norm of
 * 8 x 64 x 56 x 56 with cold caches takes 0.37 ms with and 0.40 ms without
 * these prefetches (Zen 5). */
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
            call.n =
                some > 1 ? l->length : tn__cpu_min(chunk, l->length - k);
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

/* ---- folds --------------------------------------------------------------- */

static const cpu_reduce *reduce_of(const runner *f, uint32_t fold)
{
    return &f->t->code->reduce[f->s->reduce[fold]];
}

/* Reduces whole rows of at most TN_CHUNK elements. */
static void fold_rows(const runner *f)
{
    const row_layout *l = f->l;
    uint32_t folds = f->s->native.fold_count, each = l->pointers + folds;
    for (int64_t line = 0, some; line < l->count; line += some) {
        int64_t copies = l->count - line >= COPIES ? COPIES : 1;
        some = some_lines(f->t, l, l->count - line) / copies;
        cpu_native_call call; /* initialised only as far as needed */
        call.n = l->length;
        call.lines = some > 1 ? some : 1;
        some = call.lines * copies;
        point(&call, l, each, copies, line, 0);
        for (uint32_t i = 0; i < folds; i++) {
            char *out = f->t->slot[reduce_of(f, i)->out];
            call.next[l->pointers + i] = copies * (int64_t)sizeof(float);
            for (int64_t j = 0; j < copies; j++)
                call.at[j * each + l->pointers + i] =
                    out + (line + j) * (int64_t)sizeof(float);
        }
        if (f->prefetch)
            point_prefetch(f->t, f->s, &call, copies);
        (copies == COPIES ? f->some : f->one)(&call);
        work_beside(f->t, some * l->length);
    }
}

enum { BATCH = TN_CPU_FOLD_BATCH };

/* Copies n consecutive elements of a row, which span several subrows, to
 * contiguous memory. The first of them is element `first` of the subrow at
 * `line`. Subrows have `length` elements of `bytes` bytes, and their stride is
 * `next` bytes. */
static void join_chunk(char *to, const char *line, int64_t next, int64_t bytes,
                       int64_t first, int64_t n, int64_t length)
{
    for (int64_t some; n > 0; n -= some, first = 0, line += next) {
        some = tn__cpu_min(n, length - first);
        memcpy(to, line + first * bytes, (size_t)(some * bytes));
        to += some * bytes;
    }
}

/* Sets the pointers of copy j of a call to the n elements of chunk `chunk` of a
 * row, and returns 0. If the chunk spans subrows, its elements are first copied
 * to contiguous memory.
 *
 * With `parts` there is an exception: if the chunk spans two subrows and the
 * first one ends at a vector boundary, the chunk is processed in two parts
 * without a copy. The function then returns the number of elements of the first
 * part. */
static int64_t point_chunk(cpu_native_call *call, const runner *f, uint32_t j,
                           int64_t row, int64_t chunk, int64_t n, bool parts)
{
    enum { LANES = 16 };
    const row_layout *l = f->l;
    uint32_t each = l->pointers + f->s->native.fold_count;
    char **at = &call->at[j * each];
    int64_t first = chunk * TN_CHUNK, length = f->line, line = row;
    /* line becomes the index of the subrow with the chunk's first element. */
    if (length > 0) {
        line = (l->first + first) / length;
        first = (l->first + first) % length;
    }
    for (uint32_t i = 0; i < l->pointers; i++)
        at[i] = l->at[i] + line * l->next[i] + first * l->bytes[i];
    if (length == 0 || first + n <= length)
        return 0;
    if (parts && (length - first) % LANES == 0 && first + n <= 2 * length)
        return length - first;
    const uint32_t operands = f->s->native.operand_count;
    for (uint32_t i = 0; i < operands; i++) {
        if (l->bytes[i] == 0)
            continue;
        char *to = f->t->subrows.chunks + (j * operands + i) * TN_CHUNK * 4;
        join_chunk(to, l->at[i] + line * l->next[i], l->next[i], l->bytes[i],
                   first, n, length);
        at[i] = to;
    }
    return 0;
}

/* Runs the code with the option `parts` on COPIES chunks, some of which
 * continue in the next subrow. cut[j] is the number of elements of chunk j that
 * are in its first subrow, or 0 if the whole chunk is in one subrow. All chunks
 * are cut into parts at each of these positions. */
static void run_parts(const runner *f, cpu_native_call part[COPIES + 1],
                      const int64_t cut[COPIES])
{
    const row_layout *l = f->l;
    uint32_t each = l->pointers + f->s->native.fold_count;
    const int64_t n = part[0].n, length = f->line;
    int64_t count = 0;
    for (int64_t from = 0, end; from < n; from = end) {
        end = n;
        for (uint32_t j = 0; j < COPIES; j++)
            if (cut[j] > from && cut[j] < end)
                end = cut[j];
        for (uint32_t j = 0; from > 0 && j < COPIES; j++) {
            char **to = &part[count].at[j * each], **at = &part[0].at[j * each];
            bool over = cut[j] > 0 && cut[j] <= from;
            for (uint32_t i = 0; i < l->pointers; i++)
                to[i] = at[i] + from * l->bytes[i] +
                        (over ? l->next[i] - length * l->bytes[i] : 0);
            for (uint32_t i = l->pointers; i < each; i++)
                to[i] = at[i];
        }
        part[count++].n = end - from;
    }
    for (int64_t p = 0; p < count; p++)
        part[p].lines = count - p;
    f->parts(part);
}

/* Returns how many calls of COPIES chunks can be combined into one call with
 * several iterations, and sets that call's strides. The first call begins with
 * chunk c of row r. The chunks of the combined call are adjacent in one row, or
 * are all chunks of adjacent rows. */
static int64_t join_calls(const runner *f, cpu_native_call *call, int64_t r,
                          int64_t count, int64_t c, int64_t from, int64_t to)
{
    const row_layout *l = f->l;
    int64_t rows = 0, chunks = COPIES, end = to, calls;
    if (f->line == 0 && c == from && COPIES % (to - from) == 0) {
        rows = COPIES / (to - from);
        chunks = 0;
        calls = (count - r) / rows;
    } else {
        if (f->line > 0) {
            int64_t at = (l->first + c * TN_CHUNK) % f->line;
            end = c + (f->line - at) / TN_CHUNK;
        }
        calls = (tn__cpu_min(end, to) - c) / COPIES;
    }
    if (calls <= 1 || is_chunked(f->t))
        return 1;
    for (uint32_t i = 0; i < l->pointers; i++)
        call->next[i] = rows * l->next[i] + chunks * TN_CHUNK * l->bytes[i];
    for (uint32_t i = 0; i < f->s->native.fold_count; i++)
        call->next[l->pointers + i] =
            (chunks * count + rows) * (int64_t)sizeof(float);
    return calls;
}

/* Reduces chunks [from, to) of `count` rows, COPIES chunks at a time. All
 * chunks have n elements. If fewer than COPIES chunks remain, the call
 * processes the last of them several times, unless the code also stores
 * results, which might overwrite its operands. value[fold][(c - f->first) *
 * count + r] is the result for chunk c of row r. */
static void fold_like(const runner *f, int64_t line, int64_t count,
                      int64_t from, int64_t to, int64_t n, float value[][BATCH])
{
    uint32_t folds = f->s->native.fold_count, each = f->l->pointers + folds;
    cpu_native_call part[COPIES + 1], *call = part;
    const int64_t span = to - from, all = span * count;
    bool writes = false;
    for (uint32_t i = 0; i < f->s->native.result_count; i++)
        writes = writes || !f->s->native.folded[i];
    for (uint32_t i = 0; i < each; i++)
        call->next[i] = 0;
    for (int64_t k = 0, some; k < all; k += some) {
        int64_t r = k / span, c = from + k % span, left = all - k;
        uint32_t copies = left >= COPIES || (left > 1 && !writes) ? COPIES : 1;
        some = tn__cpu_min(left, copies);
        call->n = n;
        call->lines =
            some == COPIES ? join_calls(f, call, r, count, c, from, to) : 1;
        int64_t cut[COPIES], cuts = 0;
        for (uint32_t j = 0; j < copies; j++) {
            cut[j] = point_chunk(call, f, j, line + r, c, n,
                                 copies > 1 && f->parts);
            cuts += cut[j];
            for (uint32_t i = 0; i < folds; i++)
                call->at[j * each + f->l->pointers + i] =
                    (char *)&value[i][(c - f->first) * count + r];
            if (j + 1 < some && ++c == to) {
                c = from;
                r++;
            }
        }
        some *= call->lines;
        if (f->prefetch)
            point_prefetch(f->t, f->s, call, copies);
        if (cuts > 0)
            run_parts(f, part, cut);
        else
            (copies > 1 ? f->some : f->one)(call);
        work_beside(f->t, some * n);
    }
}

/* Reduces rows of several chunks, or the current block of a longer row. */
static void fold_chunks(runner *f)
{
    float value[TN_CPU_NATIVE_FOLDS][BATCH];
    const row_layout *l = f->l;
    const int64_t whole = l->length / TN_CHUNK, rest = l->length % TN_CHUNK;
    const int64_t chunks = whole + (rest > 0);
    const bool kept = f->t->plan->kept;
    int64_t some = chunks < BATCH && kept ? BATCH / chunks : 1;
    for (int64_t line = 0; line < l->count; line += some) {
        some = tn__cpu_min(some, l->count - line);
        for (uint32_t i = 0; kept && i < f->s->native.fold_count; i++)
            tn__cpu_fold_begin(&f->t->fold[f->s->reduce[i]]);
        for (int64_t n; f->first < chunks; f->first += n) {
            n = tn__cpu_min(BATCH / some, chunks - f->first);
            int64_t end = f->first + n, full = tn__cpu_min(end, whole);
            fold_like(f, line, some, f->first, full, TN_CHUNK, value);
            fold_like(f, line, some, full, end, rest, value);
            for (uint32_t i = 0; i < f->s->native.fold_count; i++)
                tn__cpu_fold_push(&f->t->fold[f->s->reduce[i]], some, value[i],
                                  n);
        }
        f->first = 0;
        for (uint32_t i = 0; kept && i < f->s->native.fold_count; i++)
            tn__cpu_fold_end(&f->t->fold[f->s->reduce[i]], some,
                             f->t->slot[reduce_of(f, i)->out] +
                                 line * (int64_t)sizeof(float));
    }
}

/* Returns a bit for each operand that the code reads in place, without a copy,
 * and that has different memory for each row. */
static uint32_t streams_of(const cpu_segment *s, const row_layout *l)
{
    uint32_t streams = 0;
    for (uint32_t i = 0; i < s->native.operand_count; i++)
        if (s->operand[i].lent && l->bytes[i] > 0 &&
            (l->count == 1 || l->next[i] != 0))
            streams |= 1u << i;
    return streams;
}

/* Chooses what the code prefetches.
 *
 * Code with several stages or results prefetches the memory of its results,
 * because a store to a cache line that is not cached waits for memory, and the
 * hardware prefetcher follows fewer streams of stores than of loads. layer_norm
 * of 4096 x 1024 with cold caches takes 0.90 ms if it prefetches 2048 bytes
 * ahead and 1.05 ms with 3584. A single result of a single stage needs no
 * prefetch: exp of 16 MiB takes 0.65 ms without and 0.69 ms with it.
 *
 * Updates in place prefetch their operands, which they then overwrite. SGD with
 * momentum and Adam on four tensors of 4 MiB take 1.19 and 1.65 ms if they
 * prefetch 4096 bytes ahead, 1.21 and 1.65 ms with 3072, 1.27 and 1.89 ms with
 * 6144. They take 1.28 and 1.81 ms if they prefetch their results 3584 bytes
 * ahead (Zen 5).
 *
 * With non-temporal stores the hardware may prefetch a single input stream too
 * late. simd/family.c has the distances for that case. */
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
 * adjacent in memory, returns 0, and the code processes them as one row.
 * Otherwise returns their length. */
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
    options.copies = COPIES;
    f.some = folds && f.one ? tn__cpu_native_get(&s->native, options) : f.one;
    options.parts = true;
    if (folds && f.line % TN_CHUNK != 0)
        f.parts = tn__cpu_native_get(&s->native, options);
    if (!f.one || !f.some)
        atomic_store(&t->plan->failed, TN_ERR_MEMORY);
    else if (folds && t->plan->kept && l.length <= TN_CHUNK)
        fold_rows(&f);
    else if (folds)
        fold_chunks(&f);
    else
        run_lines(&f);
}
