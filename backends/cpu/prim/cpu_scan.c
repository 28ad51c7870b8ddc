/* cpu_scan.c: cumsum, cumprod, cummax and cummin: inclusive prefix reductions
 * along the last dimension.
 *
 * A line is one sequence of elements along that dimension. A task computes
 * whole lines. Sums of floats are computed in chunks, in the order that
 * plugin_primitives.h fixes (scan_sums.c). In all other reductions each element
 * depends on the element before. Computing several lines at a time hides the
 * latency of that dependency. If the dtype needs no conversion, there are two
 * ways. If element i of one line is next to element i of the next line in
 * memory, a vector holds several lines. If the elements of a line are
 * contiguous, several lines are interleaved. All other lines run one by one, in
 * blocks that are converted to the register type. */
#include <string.h>

#include "../cpu_device.h"
#include "../simd/scalar.h"
#include "scan_sums.h"

#define BLOCK TN_CHUNK
#define TASK_POINTS 32768

/* Replaces x[0 .. n) by its prefix reductions. `fold` is the reduction of all
 * elements of the sequence before x[0]. k is the index of x[0] in the sequence.
 */
#define FOLD_ALL(expression)                                                  \
    for (int64_t i = 0; i < n; i++)                                           \
        if (k + i > 0)                                                        \
            x[i] = fold = (expression);                                       \
        else                                                                  \
            fold = x[i];                                                      \
    break;
/* Returns whether x has an integer type. */
#define WHOLE(x) ((__typeof__(x))0.5 == 0)
/* Replaces x[0 .. n) by its prefix minima or maxima, and stores their indices
 * in place[]. Of equal values the last one determines the index. After a NaN
 * only another NaN replaces it. Elements are tested in groups of RUN, because
 * most groups do not change the minimum or maximum. If a group changes it,
 * integers update the result for every element without a branch, because the
 * branch would often be mispredicted. Floats test each element, because their
 * update takes several comparisons. */
#define FOLD_PLACED(fold_of, op, worse)                                       \
    for (int64_t i = 0, end; i < n; i = end) {                                \
        if (c->unchanged && k + i > 0)                                        \
            i += c->unchanged(x + i, place + i, n - i, &fold, at);            \
        unsigned changes = k + i == 0 || i + RUN > n;                         \
        end = i + RUN < n ? i + RUN : n;                                      \
        if (!changes)                                                         \
            for (int j = 0; j < RUN; j++)                                     \
                changes |= !(x[i + j] worse fold);                            \
        if (!changes) {                                                       \
            for (int j = 0; j < RUN; j++)                                     \
                x[i + j] = fold;                                              \
            for (int j = 0; j < RUN; j++)                                     \
                place[i + j] = at;                                            \
            continue;                                                         \
        }                                                                     \
        for (int64_t j = i; j < end; j++) {                                   \
            if (WHOLE(x[j]) || k + j == 0 || !(x[j] worse fold)) {            \
                bool takes = k + j == 0 || x[j] op fold || x[j] != x[j];      \
                at = takes ? k + j : at;                                      \
                fold = k + j == 0 ? x[j] : fold_of(fold, x[j]);               \
            }                                                                 \
            x[j] = fold;                                                      \
            place[j] = at;                                                    \
        }                                                                     \
    }                                                                         \
    break;
enum { RUN = 8 };
/* TN_REDUCE_... + PLACED is the same reduction with indices, as in cummax. */
enum { PLACED = TN_REDUCE_END };
#define SCAN(suffix, T, U, member, sums)                                      \
    static void scan_##suffix(unsigned kind, void *block, int64_t *place,     \
                              int64_t n, int64_t k, carry *c)                 \
    {                                                                         \
        T *x = block, fold = c->fold.member;                                  \
        int64_t at = c->place;                                                \
        switch (place ? kind + PLACED : kind) {                               \
            sums                                                              \
        case TN_REDUCE_PROD:                                                  \
            FOLD_ALL((T)((U)fold * (U)x[i]))                                  \
        case TN_REDUCE_MAX:                                                   \
            FOLD_ALL(max_##suffix(fold, x[i]))                                \
        case TN_REDUCE_MIN:                                                   \
            FOLD_ALL(min_##suffix(fold, x[i]))                                \
        case TN_REDUCE_MAX + PLACED:                                          \
            FOLD_PLACED(max_##suffix, >=, <)                                  \
        default:                                                              \
            FOLD_PLACED(min_##suffix, <=, >)                                  \
        }                                                                     \
        c->fold.member = fold;                                                \
        c->place = at;                                                        \
    }
#define SUMS_OF(T, U)                                                         \
    case TN_REDUCE_SUM:                                                       \
        FOLD_ALL((T)((U)fold + (U)x[i]))
SCAN(f32, float, float, f32, )
SCAN(f64, double, double, f64, )
SCAN(i32, int32_t, uint32_t, i32, SUMS_OF(int32_t, uint32_t))
SCAN(i64, int64_t, uint64_t, i64, SUMS_OF(int64_t, uint64_t))

static void scan_bool(unsigned kind, void *block, int64_t *place, int64_t n,
                      int64_t k, carry *c)
{
    uint8_t *x = block, fold = c->fold.boolean;
    bool greatest = kind == TN_REDUCE_SUM || kind == TN_REDUCE_MAX;
    for (int64_t i = 0; i < n; i++) {
        bool better = k + i == 0 || x[i] == fold || x[i] == greatest;
        c->place = better ? k + i : c->place;
        x[i] = fold = k + i == 0 ? x[i] : greatest ? fold | x[i] : fold & x[i];
        if (place)
            place[i] = c->place;
    }
    c->fold.boolean = fold;
}

/* The number of lines (sequences to scan) that one loop computes, interleaved.
 * Inputs and results of 4 lines are 8 cache lines at a time. An L1 with 8 ways
 * holds these even if all of them map to the same set. */
#define TOGETHER 4
/* Defines a function that computes the prefix reductions of TOGETHER lines
 * (sequences to scan), interleaved. The elements of a line are contiguous. Line
 * j begins at in[j * in_step] and out[j * out_step]. */
#define LINES(name, T, U, op)                                                 \
    static void name(void *out, int64_t out_step, const void *in,             \
                     int64_t in_step, int64_t count)                          \
    {                                                                         \
        U fold[TOGETHER];                                                     \
        T *o = out;                                                           \
        const T *x = in;                                                      \
        for (int j = 0; j < TOGETHER; j++)                                    \
            o[j * out_step] = (T)(fold[j] = (U)x[j * in_step]);               \
        for (int64_t i = 1; i < count; i++)                                   \
            _Pragma("GCC unroll 4") for (int j = 0; j < TOGETHER; j++)        \
            {                                                                 \
                fold[j] = fold[j] op(U) x[i + j * in_step];                   \
                o[i + j * out_step] = (T)fold[j];                             \
            }                                                                 \
    }
#define LINES_OF(suffix, T, U)                                                \
    LINES(sum_lines_##suffix, T, U, +)                                        \
    LINES(prod_lines_##suffix, T, U, *)
LINES(prod_lines_f32, float, float, *)
LINES(prod_lines_f64, double, double, *)
LINES_OF(i32, int32_t, uint32_t)
LINES_OF(i64, int64_t, uint64_t)

static scan_together *const lines_of[2][CPU_TYPE_COUNT] = {
    {NULL, NULL, sum_lines_i32, sum_lines_i64, NULL},
    {prod_lines_f32, prod_lines_f64, prod_lines_i32, prod_lines_i64, NULL},
};

/* Defines a function for the prefix minimum or maximum with indices of many
 * sequences. Element i of all sequences is contiguous, so vectors hold several
 * sequences. The previous results are read from out. */
#define PLACED_COLUMNS(name, T, fold_of, op)                                  \
    static void name(const placed *p)                                         \
    {                                                                         \
        T *out = p->out;                                                      \
        const T *in = p->in;                                                  \
        int64_t *place = p->place;                                            \
        memmove(out, in, (size_t)p->lines * sizeof *out);                     \
        memset(place, 0, (size_t)p->lines * sizeof *place);                   \
        for (int64_t i = 1; i < p->count; i++) {                              \
            const T *before = out;                                            \
            const int64_t *place_before = place;                              \
            out += p->out_step;                                               \
            in += p->in_step;                                                 \
            place += p->place_step;                                           \
            for (int64_t j = 0; j < p->lines; j++) {                          \
                T x = in[j], fold = before[j];                                \
                out[j] = fold_of(fold, x);                                    \
                place[j] = ((x op fold) | (x != x)) ? i : place_before[j];    \
            }                                                                 \
        }                                                                     \
    }
#define PLACED_OF(suffix, T)                                                  \
    PLACED_COLUMNS(max_placed_##suffix, T, max_##suffix, >=)                  \
    PLACED_COLUMNS(min_placed_##suffix, T, min_##suffix, <=)
PLACED_OF(f32, float)
PLACED_OF(f64, double)
PLACED_OF(i32, int32_t)
PLACED_OF(i64, int64_t)

static scan_placed *const placed_of[2][CPU_TYPE_COUNT] = {
    {max_placed_f32, max_placed_f64, max_placed_i32, max_placed_i64, NULL},
    {min_placed_f32, min_placed_f64, min_placed_i32, min_placed_i64, NULL},
};

/* Computes the prefix reductions of one line (one sequence along the last
 * dimension), block by block. */
static void run_line(const scan_work *w, int64_t line)
{
    const tn_scan_args *s = w->s;
    uint32_t last = s->ndim - 1;
    int64_t count = s->extent[last], block[BLOCK], place[BLOCK];
    int64_t in_bytes = tn__cpu_dtype_bytes[s->in.dtype];
    int64_t out_bytes = tn__cpu_dtype_bytes[s->out.dtype];
    const char *in =
        s->in.buffer->memory + line_offset(s, &s->in, line) * in_bytes;
    char *out =
        s->out.buffer->memory + line_offset(s, &s->out, line) * out_bytes;
    bool wants_place = s->out_index.buffer && s->kind >= TN_REDUCE_MAX;
    int64_t *to = wants_place ? (int64_t *)s->out_index.buffer->memory +
                                    line_offset(s, &s->out_index, line)
                              : NULL;
    const bool flat = wants_place && s->out_index.stride[last] == 1;
    const bool stays = s->out.stride[last] == 1 &&
                       s->in.dtype == s->out.dtype &&
                       tn__cpu_is_as_stored(s->out.dtype);
    carry c = {.unchanged = wants_place ? w->unchanged : NULL};
    for (int64_t k = 0; k < count; k += BLOCK) {
        int64_t n = tn__cpu_min(BLOCK, count - k);
        char *there = out + k * s->out.stride[last] * out_bytes;
        void *x = stays ? (void *)there : block;
        w->routines->load[s->in.dtype](
            x, in + k * s->in.stride[last] * in_bytes, s->in.stride[last], n);
        w->run(s->kind, x, !wants_place ? NULL : flat ? to + k : place, n,
               k, &c);
        if (!stays)
            w->routines->store[s->out.dtype](there, block,
                                             s->out.stride[last], n);
        for (int64_t i = 0; wants_place && !flat && i < n; i++)
            to[(k + i) * s->out_index.stride[last]] = place[i];
    }
}

/* Computes the prefix reductions of lines [first, end). A line is a sequence
 * along the last dimension. Element i of all these lines is contiguous, so
 * vectors hold several lines. */
static void run_columns(const scan_work *w, int64_t first, int64_t end)
{
    const tn_scan_args *s = w->s;
    uint32_t last = s->ndim - 1;
    int64_t bytes = tn__cpu_dtype_bytes[s->in.dtype];
    int64_t in_step = s->in.stride[last] * bytes;
    int64_t out_step = s->out.stride[last] * bytes;
    const char *in =
        s->in.buffer->memory + line_offset(s, &s->in, first) * bytes;
    char *out =
        s->out.buffer->memory + line_offset(s, &s->out, first) * bytes;
    memmove(out, in, (size_t)((end - first) * bytes));
    for (int64_t k = 1; k < s->extent[last]; k++)
        w->columns(out + k * out_step, out + (k - 1) * out_step,
                   in + k * in_step, in, end - first, 0);
}

/* Computes TOGETHER lines (sequences along the last dimension), interleaved,
 * beginning with line `first`. Returns false, with nothing done, if the
 * distances between their first elements differ. */
static bool run_together(const scan_work *w, int64_t first)
{
    const tn_scan_args *s = w->s;
    int64_t bytes = tn__cpu_dtype_bytes[s->in.dtype];
    int64_t in = line_offset(s, &s->in, first);
    int64_t out = line_offset(s, &s->out, first);
    int64_t in_step = line_offset(s, &s->in, first + 1) - in;
    int64_t out_step = line_offset(s, &s->out, first + 1) - out;
    for (int64_t j = 2; j < TOGETHER; j++)
        if (line_offset(s, &s->in, first + j) != in + j * in_step ||
            line_offset(s, &s->out, first + j) != out + j * out_step)
            return false;
    w->together(s->out.buffer->memory + out * bytes, out_step,
                s->in.buffer->memory + in * bytes, in_step,
                s->extent[s->ndim - 1]);
    return true;
}

/* Computes the prefix minima or maxima, with indices, of lines [first, end). A
 * line is a sequence along the last dimension, and element i of all these lines
 * is contiguous. */
static void run_placed(const scan_work *w, int64_t first, int64_t end)
{
    const tn_scan_args *s = w->s;
    uint32_t last = s->ndim - 1;
    int64_t bytes = tn__cpu_dtype_bytes[s->in.dtype];
    w->placed(&(placed){
        .out = s->out.buffer->memory + line_offset(s, &s->out, first) * bytes,
        .in = s->in.buffer->memory + line_offset(s, &s->in, first) * bytes,
        .place = (int64_t *)s->out_index.buffer->memory +
                 line_offset(s, &s->out_index, first),
        .out_step = s->out.stride[last],
        .in_step = s->in.stride[last],
        .place_step = s->out_index.stride[last],
        .lines = end - first,
        .count = s->extent[last]});
}

static void run_lines(void *context, int64_t i)
{
    const scan_work *w = context;
    int64_t first = i * w->lines_per_task;
    int64_t end = tn__cpu_min(first + w->lines_per_task, w->lines);
    unsigned fpu = tn__cpu_fpu_set();
    while (first < end) {
        int64_t n = 1;
        if (w->sum || w->columns || w->placed) {
            n = tn__cpu_min(w->side - first % w->side, end - first);
            (w->sum_rows ? tn__cpu_scan_sum_columns
             : w->sum       ? tn__cpu_scan_sum_lines
             : w->placed    ? run_placed
                            : run_columns)(w, first, first + n);
        } else if (w->together && first + TOGETHER <= end &&
                   run_together(w, first)) {
            n = TOGETHER;
        } else {
            run_line(w, first);
        }
        first += n;
    }
    if (w->streams)
        w->routines->fence();
    tn__cpu_fpu_restore(fpu);
}

/* Chooses the functions that compute the lines (sequences along the last
 * dimension). The choice depends only on shape and layout, so that bits do not
 * depend on the number of threads. */
static void choose(scan_work *w, unsigned type)
{
    static const uint8_t op[] = {[TN_REDUCE_SUM] = TN_K_ADD,
                                 [TN_REDUCE_PROD] = TN_K_MUL,
                                 [TN_REDUCE_MAX] = TN_K_MAX,
                                 [TN_REDUCE_MIN] = TN_K_MIN};
    const tn_scan_args *s = w->s;
    uint32_t last = s->ndim - 1;
    bool plain = s->in.dtype == s->out.dtype &&
                 (s->in.dtype == TN_F32 || s->in.dtype == TN_F64 ||
                  s->in.dtype == TN_I32 || s->in.dtype == TN_I64);
    bool wants_place = s->out_index.buffer && s->kind >= TN_REDUCE_MAX;
    w->side = last > 0 ? s->extent[last - 1] : 1;
    if (s->kind == TN_REDUCE_SUM)
        w->sum = w->routines->scan[type];
    if (wants_place)
        w->unchanged = w->routines->unchanged[s->kind == TN_REDUCE_MIN][type];
    if (!plain)
        return;
    if (s->in.stride[last] == 1 && s->out.stride[last] == 1) {
        if (s->kind <= TN_REDUCE_PROD)
            w->together = lines_of[s->kind == TN_REDUCE_PROD][type];
        return;
    }
    if (w->side < 8 || s->in.stride[last - 1] != 1 ||
        s->out.stride[last - 1] != 1)
        return;
    if (w->sum)
        w->sum_rows = w->routines->scan_rows[type];
    else if (!wants_place)
        w->columns = w->routines->op[op[s->kind]][type];
    else if (s->out_index.stride[last - 1] == 1)
        w->placed = placed_of[s->kind == TN_REDUCE_MIN][type];
}

tn_status tn__cpu_scan(tn_queue *queue, const tn_scan_args *scan)
{
    scan_work w = {.s = scan, .routines = queue->routines};
    unsigned type = CPU_F32;
    if (!tn_scan_is_known(scan))
        return tn__cpu_unknown("scan");
    switch (scan->in.dtype) {
    case TN_F64:
        type = CPU_F64;
        w.run = scan_f64;
        break;
    case TN_I64:
        type = CPU_I64;
        w.run = scan_i64;
        break;
    case TN_I32:
    case TN_I16:
    case TN_I8:
    case TN_U8:
        type = CPU_I32;
        w.run = scan_i32;
        break;
    case TN_BOOL:
        type = CPU_BOOL;
        w.run = scan_bool;
        break;
    default:
        w.run = scan_f32;
    }
    int64_t count = scan->extent[scan->ndim - 1];
    w.lines = tn__cpu_numel(scan->extent, scan->ndim - 1);
    if (w.lines == 0 || count == 0)
        return TN_OK;
    choose(&w, type);
    w.streams = w.sum && !w.sum_rows && scan->in.buffer != scan->out.buffer &&
                w.lines * count * tn__cpu_dtype_bytes[scan->out.dtype] >=
                    queue->stream_bytes / 2;
    bool columns = w.sum_rows || w.columns || w.placed;
    int64_t least = columns      ? tn__cpu_min((w.side + 3) / 4, 1024)
                    : w.together ? TOGETHER
                                 : 1;
    least = least < 64 && columns ? 64 : least;
    w.lines_per_task =
        TASK_POINTS / count > least ? TASK_POINTS / count : least;
    int64_t tasks = (w.lines + w.lines_per_task - 1) / w.lines_per_task;
    if (tasks == 1)
        run_lines(&w, 0);
    else
        tn__cpu_host->parallel_for(tasks, run_lines, &w);
    return TN_OK;
}
