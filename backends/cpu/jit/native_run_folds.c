/* native_run_folds.c: runs the machine code of a segment that reduces rows.
 * Such a reduction is called a fold.
 *
 * A chunk is TN_CHUNK consecutive elements of a row, which a fold reduces to
 * one partial result. Code processes several rows or chunks at once. Subrows are
 * the contiguous pieces of equal length of which a row may consist. A chunk
 * that spans subrows is processed in parts, one for each subrow, or copied to
 * contiguous memory first. */
#include <string.h>

#include "native_runner.h"

static const cpu_reduce *reduce_of(const runner *f, uint32_t fold)
{
    return &f->t->code->reduce[f->s->reduce[fold]];
}

void tn__cpu_native_fold_rows(const runner *f)
{
    const row_layout *l = f->l;
    uint32_t folds = f->s->native.fold_count, each = l->pointers + folds;
    for (int64_t line = 0, some; line < l->count; line += some) {
        int64_t copies = l->count - line >= f->copies ? f->copies : 1;
        some = some_lines(f->t, l, l->count - line) / copies;
        cpu_native_call call; /* Left uninitialised, because clearing all of it
                               * takes longer than a short row. */
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
        (copies > 1 ? f->some : f->one)(&call);
        work_beside(f->t, some * l->length);
    }
}

enum { BATCH = TN_CPU_FOLD_BATCH };

/* Copies n consecutive elements of a row, which span several subrows, to
 * contiguous memory. The first of these elements is element `first` of the
 * subrow at `line`. Subrows have `length` elements of `bytes` bytes, and their
 * stride is `next` bytes. */
static void join_chunk(char *to, const char *line, int64_t next, int64_t bytes,
                       int64_t first, int64_t n, int64_t length)
{
    for (int64_t some; n > 0; n -= some, first = 0, line += next) {
        some = tn__cpu_min(n, length - first);
        memcpy(to, line + first * bytes, (size_t)(some * bytes));
        to += some * bytes;
    }
}

/* Points the operands of the j-th chunk that a call processes at chunk `chunk`
 * (n elements) of a row. If the chunk spans several subrows, first copies its
 * elements to contiguous memory. Returns 0.
 *
 * With `parts`, a chunk that spans two subrows is not copied if the first of
 * them ends at a vector boundary. The function then returns the number of the
 * chunk's elements in the first subrow, and the caller processes the chunk in
 * two parts. */
static int64_t point_chunk(cpu_native_call *call, const runner *f, uint32_t j,
                           int64_t row, int64_t chunk, int64_t n, bool parts)
{
    enum { LANES = 16 };
    const row_layout *l = f->l;
    uint32_t each = l->pointers + f->s->native.fold_count;
    char **at = &call->at[j * each];
    int64_t first = chunk * TN_CHUNK, length = f->line, line = row;
    /* `line` becomes the index of the subrow that contains the chunk's first
     * element, and `first` the index of the element in it. */
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

/* Runs f->parts on f->copies chunks, some of which continue in the next subrow.
 * part[0] holds the addresses of the chunks. cut[j] is the number of elements
 * of chunk j in its first subrow, or 0 if the whole chunk is in one subrow.
 * Every chunk is cut at each of the positions cut[0], cut[1] ... that is not 0,
 * and each range between two cuts becomes one entry of part[]. */
static void run_parts(const runner *f, cpu_native_call part[COPIES + 1],
                      const int64_t cut[COPIES])
{
    const row_layout *l = f->l;
    uint32_t each = l->pointers + f->s->native.fold_count;
    const int64_t n = part[0].n, length = f->line;
    int64_t count = 0;
    for (int64_t from = 0, end; from < n; from = end) {
        end = n;
        for (uint32_t j = 0; j < f->copies; j++)
            if (cut[j] > from && cut[j] < end)
                end = cut[j];
        for (uint32_t j = 0; from > 0 && j < f->copies; j++) {
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

/* Combines several calls, each for f->copies chunks, into one call with as many
 * iterations. The first of them begins with chunk c of row r. Calls are
 * combined if their chunks are adjacent in one row, or if each call processes
 * all chunks of one or more whole rows. Returns the number of iterations. If it
 * exceeds 1, call->next[] becomes the strides from one iteration to the
 * next. */
static int64_t join_calls(const runner *f, cpu_native_call *call, int64_t r,
                          int64_t count, int64_t c, int64_t from, int64_t to)
{
    const row_layout *l = f->l;
    const int64_t copies = f->copies;
    int64_t rows = 0, chunks = copies, end = to, calls;
    if (f->line == 0 && c == from && copies % (to - from) == 0) {
        rows = copies / (to - from);
        chunks = 0;
        calls = (count - r) / rows;
    } else {
        if (f->line > 0) {
            int64_t at = (l->first + c * TN_CHUNK) % f->line;
            end = c + (f->line - at) / TN_CHUNK;
        }
        calls = (tn__cpu_min(end, to) - c) / copies;
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

/* Reduces chunks [from, to) of `count` rows, f->copies chunks at a time. All
 * chunks have n elements. The result for chunk c of row r is value[fold][(c -
 * f->first) * count + r].
 *
 * If fewer chunks remain, the last of them is processed several times. Code
 * that also stores results cannot do this, because the results might overwrite
 * its operands. It processes the remaining chunks one at a time. */
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
        uint32_t copies =
            left >= f->copies || (left > 1 && !writes) ? f->copies : 1;
        some = tn__cpu_min(left, copies);
        call->n = n;
        call->lines =
            some == f->copies ? join_calls(f, call, r, count, c, from, to) : 1;
        int64_t cut[COPIES], cuts = 0;
        for (uint32_t j = 0; j < copies; j++) {
            cut[j] =
                point_chunk(call, f, j, line + r, c, n, copies > 1 && f->parts);
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

void tn__cpu_native_fold_chunks(runner *f)
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
