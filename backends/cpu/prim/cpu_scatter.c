/* cpu_scatter.c: the primitive scatter, of which scatter, scatter_add,
 * scatter_reduce, index_add and others consist: dst[index[i]] op= src[i] along
 * dimension `dim`.
 *
 * A point is one element of src. A line is all points along dim at one
 * combination of the other coordinates. Points of different lines never have
 * the same destination. A task processes some lines, each in order of
 * increasing position. There are two faster ways:
 * - Rows. If adjacent lines have the same indices (index_add adds whole rows),
 *   their points at one position form a row, which one vector loop processes.
 * - Side by side. If lines are adjacent in memory, several are processed
 *   together: point i of all of them, then point i + 1. */
#include <stdlib.h>
#include <string.h>

#include "../cpu_device.h"
#include "../simd/scalar.h"

#define TASK_POINTS 32768 /* minimum number of elements of src in a task */
/* Lines that are processed side by side prefetch the point (element of src)
 * that comes this many points later in each line, because the points of a line
 * are then far apart in memory. A distance of 8 points is as fast (Zen 5,
 * 2026-11). */
#define ROWS_AHEAD 4
/* number of rows of src (points of adjacent lines with the same index) that are
 * processed at a time */
#define ROW_BLOCK 256
/* If two threads share the rows of src (struct half): number of elements in a
 * block of rows. */
#define HALF_POINTS 65536
/* Largest number of lines (sequences of src along dim) that are processed side
 * by side. They fill whole cache lines, and even a destination with thousands
 * of points per line still fits in L2. */
#define SIDE_BY_SIDE 64
/* If the distance between the rows of a destination is a multiple of this many
 * bytes, the rows use only a few sets of the cache and evict each other. */
#define REGULAR_STEP 1024
/* Largest number of bytes of the compact copy of a
 * destination (run_compacted). */
#define COMPACT_BYTES 262144

/* One of the two nested loops over the points (elements of src) of some lines.
 * A line is a sequence along dim. One loop goes along dim, the other from line
 * to line. If lines are processed side by side, the loop along dim is the outer
 * loop, otherwise the inner loop. */
typedef struct walk {
    /* The number of iterations, and the strides of dst, src and index in
     * elements. In the loop along dim, the stride of dst is 0, because the
     * index determines the destination. */
    int64_t count, dst, src, index;
} walk;

/* The elements of one line (sequence of src along dim), or of some lines that
 * are processed side by side. */
typedef struct line {
    char *dst;
    const char *src;
    const int64_t *index;
    /* The stride of dst along dim, in elements. */
    int64_t dst_stride;
    walk outer, inner;
    bool side_by_side;
} line;

/* The state of one of two threads that together process all rows. Thread 0
 * processes rows whose destination (dst row) has an even index, thread 1 the
 * others. The first `done` rows of src have been processed for this thread's
 * parity. */
typedef struct half {
    atomic_flag busy; /* held while rows of this parity are processed */
    int64_t done;
} half;

typedef struct work {
    const tn_scatter_args *s;
    const tn_cpu_routines *routines;
    int64_t lines, lines_per_task;
    /* The dimensions except dim, outermost first. */
    uint32_t order[TN_MAX_NDIM];
    /* Number of adjacent lines (sequences along dim) that may be processed side
     * by side, or 1 if lines are processed one by one. */
    int64_t side;
    /* If lines are processed as rows: the routine that combines a row of src
     * with its destination, or NULL for TN_SCATTER_SET, which copies rows. */
    tn_cpu_run *row_run;
    /* Number of elements of a row: the points of all adjacent lines at one
     * position along dim, which have the same index. 0 if lines are not
     * processed as rows. */
    int64_t row;
    half half[2];
    atomic_int active_halves; /* number of threads that currently execute
                               * run_half() */
    atomic_flag lock; /* held to read or write fault */
    tn_fault fault;
} work;

/* Records that an index is out of range. If there are several such indices, the
 * one with the lowest position is recorded. */
static void raise_fault(work *w, int64_t index, int64_t position)
{
    while (atomic_flag_test_and_set_explicit(&w->lock, memory_order_acquire))
        ;
    if (w->fault.code == TN_OK || position < w->fault.position)
        w->fault = (tn_fault){.size = sizeof w->fault,
                              .code = TN_ERR_INDEX,
                              .tag = w->s->tag,
                              .index = index,
                              .extent = w->s->dst_extent,
                              .position = position};
    atomic_flag_clear_explicit(&w->lock, memory_order_release);
}

/* Returns the row-major index in src of element `along` of the line (sequence
 * along dim) that contains `point`. */
static int64_t position_of(const tn_scatter_args *s, const int64_t *point,
                           int64_t along)
{
    int64_t position = 0;
    for (uint32_t d = 0; d < s->ndim; d++)
        position =
            position * s->extent[d] + (d == s->dim ? along : point[d]);
    return position;
}

/* Records that an index is out of range: the index of iteration i of the outer
 * loop and iteration j of the inner loop over a line. */
static void raise_at(work *w, const line *l, const int64_t *point, int64_t i,
                     int64_t j, int64_t index)
{
    int64_t at[TN_MAX_NDIM];
    memcpy(at, point, sizeof at);
    if (l->side_by_side)
        at[w->order[w->s->ndim - 2]] += j;
    raise_fault(w, index,
                position_of(w->s, at, l->side_by_side ? i : j));
}

/* What to prefetch while a line is processed: src and index AHEAD points ahead,
 * and the destination of the next line, which is accessed in an unpredictable
 * order. For each GROUP points, `share` bytes of that destination are
 * prefetched. If all of it were prefetched before the line begins, the core
 * would have to wait for its cache misses, and memory would idle afterwards.
 * scatter_add of 4096 x 1024 takes 2.8 ms, and 2.9 ms with AHEAD = 512 (Zen 5,
 * 2026-11). */
enum { GROUP = 16, BLOCK = 256, AHEAD = 1536 /* in elements */ };

typedef struct ahead {
    const char *dst;
    int64_t share;
} ahead;

static ahead ahead_of(const work *w, const line *l)
{
    enum { NEAR = 16 << 10 };
    const tn_scatter_args *s = w->s;
    const int64_t n = l->inner.count;
    const int64_t bytes = tn__cpu_dtype_bytes[s->dst.dtype];
    const int64_t next = s->ndim > 1 ? s->dst.stride[w->order[s->ndim - 2]] : 0;
    const int64_t most = next ? s->dst_extent * bytes : 0;
    return (ahead){l->dst + next * bytes,
                   most <= NEAR && most <= n * 64 ? most * GROUP / n : 0};
}

/* Returns how many elements, beginning with element k, are processed together.
 * Sets *plain if their indices are contiguous and all in range, and their
 * number is a multiple of GROUP. They then need no checks. */
static int64_t points_from(const work *w, const line *l, int64_t k, bool *plain)
{
    int64_t n = l->inner.count - k;
    *plain = false;
    if (l->outer.count != 1 || l->inner.index != 1 || l->inner.dst != 0 ||
        l->dst_stride != 1 || n < GROUP)
        return n;
    n = tn__cpu_min(n - n % GROUP, BLOCK);
    *plain = !w->routines->outside(l->index + k, w->s->dst_extent, n);
    return n;
}

/* Unrolls the loop over elements for the most common reductions. */
#define FOUR _Pragma("GCC unroll 4")
/* Processes elements [k, k + m) of a line (sequence along dim). If *plain was
 * set for them, their indices need no range checks. `expression` combines the
 * source x with the destination y. */
#define EACH_POINT(T, expression, times)                                      \
    for (int64_t j = 0; plain && j < m; j += GROUP) {                         \
        const int64_t *index = l->index + k + j;                              \
        const T *src = (const T *)l->src + (k + j) * inner.src;               \
        tn__cpu_prefetch(index + AHEAD, GROUP * 8);                           \
        if (inner.src == 1)                                                   \
            tn__cpu_prefetch(src + AHEAD, GROUP * (int64_t)sizeof(T));        \
        tn__cpu_prefetch(next.dst + (k + j) / GROUP * next.share, next.share);\
        times for (int64_t i = 0; i < GROUP; i++)                             \
        {                                                                     \
            T *to = (T *)l->dst + index[i];                                   \
            T x = src[i * inner.src], y = *to;                                \
            (void)y;                                                          \
            *to = (T)(expression);                                            \
        }                                                                     \
    }                                                                         \
    for (int64_t i = 0; !plain && i < outer.count; i++) {                     \
        const int64_t *index = l->index + k * inner.index + i * outer.index;  \
        const T *src = (const T *)l->src + k * inner.src + i * outer.src;     \
        T *dst = (T *)l->dst + k * inner.dst;                                 \
        if (fetches) {                                                        \
            tn__cpu_prefetch(index + ROWS_AHEAD * outer.index,                \
                             inner.count * 8);                                \
            tn__cpu_prefetch(src + ROWS_AHEAD * outer.src, src_bytes);        \
        }                                                                     \
        for (int64_t j = 0; j < m; j++) {                                     \
            int64_t at = index[j * inner.index];                              \
            if ((uint64_t)at >= extent) {                                     \
                raise_at(w, l, point, i, k + j, at);                          \
                continue;                                                     \
            }                                                                 \
            T *to = dst + at * dst_stride + j * inner.dst;                    \
            T x = src[j * inner.src], y = *to;                                \
            (void)y;                                                          \
            *to = (T)(expression);                                            \
        }                                                                     \
    }                                                                         \
    break;

/* Defines line_<suffix>, which processes the elements of a line (sequence along
 * dim) of type T. U is the unsigned type for integers, whose overflow wraps,
 * and T for other types. */
#define TYPED(suffix, T, U)                                                   \
    static void line_##suffix(work *w, const line *l, const int64_t *point)   \
    {                                                                         \
        const walk outer = l->outer, inner = l->inner;                        \
        const int64_t dst_stride = l->dst_stride;                             \
        const uint64_t extent = (uint64_t)w->s->dst_extent;                   \
        const ahead next = ahead_of(w, l);                                    \
        const bool fetches = l->side_by_side && inner.index == 1;             \
        const int64_t src_bytes =                                             \
            inner.src == 1 ? inner.count * (int64_t)sizeof(T) : 0;            \
        bool plain;                                                           \
        for (int64_t k = 0, m; k < inner.count; k += m) {                     \
            m = points_from(w, l, k, &plain);                                 \
            switch (w->s->reduce) {                                           \
            case TN_SCATTER_SET:                                              \
                EACH_POINT(T, x, FOUR)                                        \
            case TN_SCATTER_ADD:                                              \
                EACH_POINT(T, (U)y + (U)x, FOUR)                              \
            case TN_SCATTER_MUL:                                              \
                EACH_POINT(T, (U)y *(U)x, )                                   \
            case TN_SCATTER_MIN:                                              \
                EACH_POINT(T, min_##suffix(y, x), )                           \
            default:                                                          \
                EACH_POINT(T, max_##suffix(y, x), )                           \
            }                                                                 \
        }                                                                     \
    }
TYPED(f32, float, float)
TYPED(f64, double, double)
TYPED(i32, int32_t, uint32_t)
TYPED(i64, int64_t, uint64_t)

/* Processes a line (sequence along dim) whose dtype is narrower than its
 * register type. Each element is widened, combined and narrowed. */
static void line_narrow(work *w, const line *l, const int64_t *point)
{
    static const uint8_t op[] = {
        [TN_SCATTER_ADD] = TN_K_ADD,
        [TN_SCATTER_MUL] = TN_K_MUL,
        [TN_SCATTER_MIN] = TN_K_MIN,
        [TN_SCATTER_MAX] = TN_K_MAX,
    };
    uint32_t dtype = w->s->dst.dtype;
    bool is_float = dtype == TN_F16 || dtype == TN_BF16 ||
                    dtype == TN_F8E4M3 || dtype == TN_F8E5M2;
    unsigned type = is_float ? CPU_F32 : dtype == TN_BOOL ? CPU_BOOL : CPU_I32;
    tn_cpu_load *load = w->routines->load[dtype];
    tn_cpu_store *store = w->routines->store[dtype];
    int64_t bytes = tn__cpu_dtype_bytes[dtype];
    for (int64_t p = 0; p < l->outer.count * l->inner.count; p++) {
        int64_t i = p / l->inner.count, j = p % l->inner.count;
        int64_t at = l->index[i * l->outer.index + j * l->inner.index];
        if ((uint64_t)at >= (uint64_t)w->s->dst_extent) {
            raise_at(w, l, point, i, j, at);
            continue;
        }
        char *to = l->dst + (at * l->dst_stride + j * l->inner.dst) * bytes;
        uint32_t x, y;
        load(&x, l->src + (i * l->outer.src + j * l->inner.src) * bytes, 1,
             1);
        if (w->s->reduce != TN_SCATTER_SET) {
            load(&y, to, 1, 1);
            w->routines->op[op[w->s->reduce]][type](&x, &y, &x, &x, 1, 0);
        }
        store(to, &x, 1, 1);
    }
}

static void run_line(work *w, const line *l, const int64_t *point)
{
    switch (w->s->dst.dtype) {
    case TN_F32:
        line_f32(w, l, point);
        return;
    case TN_F64:
        line_f64(w, l, point);
        return;
    case TN_I32:
        line_i32(w, l, point);
        return;
    case TN_I64:
        line_i64(w, l, point);
        return;
    default:
        line_narrow(w, l, point);
    }
}

static int64_t offset_of(const tn_strided *view, const int64_t *point,
                         uint32_t ndim)
{
    int64_t offset = view->offset;
    for (uint32_t d = 0; d < ndim; d++)
        offset += point[d] * view->stride[d];
    return offset;
}

/* A row of src: its index along dim (source), and the index of its destination
 * (at). */
typedef struct entry {
    int64_t source, at;
} entry;

/* Processes rows [low, high) along dim. point[] has the coordinates of the
 * other dimensions. `of` selects rows by the parity of their destination's
 * index: bit 0 for even, bit 1 for odd. Prefetches the sources and destinations
 * of later rows. */
static void run_row_block(work *w, const int64_t *point, int64_t low,
                          int64_t high, unsigned of)
{
    enum { FETCHED = 4096 /* largest number of bytes of a row that are
                           * prefetched */ };
    const tn_scatter_args *s = w->s;
    size_t bytes = tn__cpu_dtype_bytes[s->dst.dtype];
    char *dst = tn__cpu_at(s->dst.buffer, offset_of(&s->dst, point, s->ndim),
                           bytes);
    const char *src = tn__cpu_at(
        s->src.buffer, offset_of(&s->src, point, s->ndim), bytes);
    const int64_t *index = (const int64_t *)s->index.buffer->memory +
                           offset_of(&s->index, point, s->ndim);
    const int64_t dst_step = s->dst.stride[s->dim] * (int64_t)bytes;
    const int64_t src_step = s->src.stride[s->dim] * (int64_t)bytes;
    const int64_t row = w->row * (int64_t)bytes;
    const int64_t fetched = tn__cpu_min(row, FETCHED);
    const int64_t rows_ahead = tn__cpu_min(2 * FETCHED / fetched, 16);
    entry entries[ROW_BLOCK];
    int64_t n = 0;
    for (int64_t i = low; i < high; i++) {
        entries[n] = (entry){i, index[i * s->index.stride[s->dim]]};
        n += of >> (entries[n].at & 1) & 1;
    }
    for (int64_t i = 0; i < n; i++) {
        const entry *e = &entries[i], *later = e + rows_ahead;
        if (i + rows_ahead < n &&
            (uint64_t)later->at < (uint64_t)s->dst_extent) {
            tn__cpu_prefetch(dst + later->at * dst_step, fetched);
            tn__cpu_prefetch(src + later->source * src_step, fetched);
        }
        if ((uint64_t)e->at >= (uint64_t)s->dst_extent) {
            raise_fault(w, e->at, position_of(s, point, e->source));
            continue;
        }
        char *to = dst + e->at * dst_step;
        const char *from = src + e->source * src_step;
        if (w->row_run)
            w->row_run(to, to, from, to, w->row, 0);
        else
            memcpy(to, from, (size_t)row);
    }
}

/* Processes all rows of src along dim, at one point of the other outer
 * dimensions. i is the row-major position of this point. */
static void run_rows(void *context, int64_t i)
{
    work *w = context;
    const tn_scatter_args *s = w->s;
    int64_t point[TN_MAX_NDIM] = {0};
    for (uint32_t d = s->ndim - 2; d-- > 0;) {
        point[w->order[d]] = i % s->extent[w->order[d]];
        i /= s->extent[w->order[d]];
    }
    unsigned fpu = tn__cpu_fpu_set();
    for (int64_t k = 0, end; k < s->extent[s->dim]; k = end) {
        end = tn__cpu_min(k + ROW_BLOCK, s->extent[s->dim]);
        run_row_block(w, point, k, end, 3);
    }
    tn__cpu_fpu_restore(fpu);
}

/* Processes all rows by two threads, block by block. Thread 0 adds to
 * destinations with an even index, thread 1 to those with an odd index. If only
 * one thread is running, it processes all rows of a block at once: rows of one
 * parity leave gaps in memory, and reading the gaps takes as long as reading
 * the data. */
static void run_half(void *context, int64_t own)
{
    work *w = context;
    half *mine = &w->half[own], *other = &w->half[!own];
    const int64_t point[TN_MAX_NDIM] = {0}, count = w->s->extent[w->s->dim];
    const int64_t most = 1 + HALF_POINTS / w->row;
    unsigned fpu = tn__cpu_fpu_set();
    atomic_fetch_add(&w->active_halves, 1);
    for (int64_t low = 0, high; low < count; low = high) {
        while (atomic_flag_test_and_set(&mine->busy))
            ;
        low = mine->done;
        high = tn__cpu_min(low + tn__cpu_min(most, ROW_BLOCK), count);
        bool both = atomic_load(&w->active_halves) == 1 &&
                    !atomic_flag_test_and_set(&other->busy);
        if (both && other->done != low) {
            atomic_flag_clear(&other->busy);
            both = false;
        }
        run_row_block(w, point, low, high, both ? 3 : 1u << own);
        mine->done = high;
        if (both) {
            other->done = high;
            atomic_flag_clear(&other->busy);
        }
        atomic_flag_clear(&mine->busy);
    }
    atomic_fetch_sub(&w->active_halves, 1);
    tn__cpu_fpu_restore(fpu);
}

/* Returns whether lines (sequences along dim) are processed as rows (one
 * element of each of many lines), and sets w->row and w->row_run. This requires
 * that the lines along the innermost dimension other than dim have the same
 * indices and are contiguous in dst and src. */
static bool takes_rows(work *w)
{
    static const uint8_t op[] = {[TN_SCATTER_ADD] = TN_K_ADD,
                                 [TN_SCATTER_MUL] = TN_K_MUL,
                                 [TN_SCATTER_MIN] = TN_K_MIN,
                                 [TN_SCATTER_MAX] = TN_K_MAX};
    const tn_scatter_args *s = w->s;
    if (s->ndim < 2)
        return false;
    uint32_t e = w->order[s->ndim - 2];
    unsigned type = s->dst.dtype == TN_F32   ? CPU_F32
                    : s->dst.dtype == TN_F64 ? CPU_F64
                    : s->dst.dtype == TN_I32 ? CPU_I32
                    : s->dst.dtype == TN_I64 ? CPU_I64
                                             : CPU_BOOL;
    if (type == CPU_BOOL || s->extent[e] < 8 || s->index.stride[e] != 0 ||
        s->dst.stride[e] != 1 || s->src.stride[e] != 1)
        return false;
    w->row_run = s->reduce == TN_SCATTER_SET
                     ? NULL
                     : w->routines->op[op[s->reduce]][type];
    w->row = s->extent[e];
    return true;
}

/* Returns how many adjacent lines (sequences along dim) are processed side by
 * side, or 1 to process them one by one. They are processed side by side if the
 * distance in memory between adjacent lines is smaller than the distance
 * between the points of a line, or if each line has one point. */
static int64_t lines_side_by_side(const work *w)
{
    const tn_scatter_args *s = w->s;
    if (s->ndim < 2)
        return 1;
    uint32_t e = w->order[s->ndim - 2];
    bool side =
        s->extent[e] >= 8 &&
        (s->extent[s->dim] == 1 ||
         (llabs(s->index.stride[e]) < llabs(s->index.stride[s->dim]) &&
          llabs(s->dst.stride[e]) < llabs(s->dst.stride[s->dim])));
    return side ? s->extent[e] : 1;
}

/* Processes lines (sequences along dim) that are processed side by side. If the
 * distance between the rows of their destination is a power of two, the rows
 * use only a few sets of the cache and evict each other. The destination is
 * then copied to compact memory, without gaps between rows, and back. The two
 * copies are worth their time if about as many elements are added as the
 * destination has. */
static void run_compacted(work *w, const line *l, const int64_t *point)
{
    const size_t bytes = tn__cpu_dtype_bytes[w->s->dst.dtype];
    const int64_t rows = w->s->dst_extent, columns = l->inner.count;
    const int64_t step = l->dst_stride * (int64_t)bytes;
    const size_t row = (size_t)columns * bytes;
    bool compacts = l->side_by_side && l->inner.dst == 1 && rows >= 64 &&
                    step % REGULAR_STEP == 0 && l->outer.count >= rows / 2 &&
                    rows * (int64_t)row <= COMPACT_BYTES;
    char *compacted = compacts ? tn__cpu_scratch((size_t)rows * row) : NULL;
    if (!compacted) {
        run_line(w, l, point);
        return;
    }
    line here = *l;
    here.dst = compacted;
    here.dst_stride = columns;
    for (int64_t i = 0; i < rows; i++)
        memcpy(compacted + (size_t)i * row, l->dst + i * step, row);
    run_line(w, &here, point);
    for (int64_t i = 0; i < rows; i++)
        memcpy(l->dst + i * step, compacted + (size_t)i * row, row);
}

static void run_lines(void *context, int64_t i)
{
    work *w = context;
    const tn_scatter_args *s = w->s;
    int64_t first = i * w->lines_per_task;
    int64_t end = tn__cpu_min(first + w->lines_per_task, w->lines);
    int64_t bytes = tn__cpu_dtype_bytes[s->dst.dtype];
    unsigned fpu = tn__cpu_fpu_set();
    for (int64_t n = first, lines; n < end; n += lines) {
        int64_t point[TN_MAX_NDIM] = {0}, left = n;
        for (uint32_t d = s->ndim - 1; d-- > 0;) {
            point[w->order[d]] = left % s->extent[w->order[d]];
            left /= s->extent[w->order[d]];
        }
        lines = tn__cpu_min(w->side - n % w->side, end - n);
        lines = tn__cpu_min(lines, SIDE_BY_SIDE);
        const walk along = {s->extent[s->dim], 0, s->src.stride[s->dim],
                            s->index.stride[s->dim]};
        line l = {
            .dst = s->dst.buffer->memory +
                   offset_of(&s->dst, point, s->ndim) * bytes,
            .src = s->src.buffer->memory +
                   offset_of(&s->src, point, s->ndim) * bytes,
            .index = (const int64_t *)s->index.buffer->memory +
                     offset_of(&s->index, point, s->ndim),
            .dst_stride = s->dst.stride[s->dim],
            .outer = {.count = 1},
            .inner = along,
        };
        if (lines > 1) {
            uint32_t e = w->order[s->ndim - 2];
            l.outer = along;
            l.inner = (walk){lines, s->dst.stride[e], s->src.stride[e],
                             s->index.stride[e]};
            l.side_by_side = true;
        }
        run_compacted(w, &l, point);
    }
    tn__cpu_fpu_restore(fpu);
}

tn_status tn__cpu_scatter(tn_queue *queue, const tn_scatter_args *scatter)
{
    work w = {.s = scatter, .routines = queue->routines, .lines = 1,
              .half = {{ATOMIC_FLAG_INIT, 0}, {ATOMIC_FLAG_INIT, 0}},
              .lock = ATOMIC_FLAG_INIT};
    if (!tn_scatter_is_known(scatter))
        return tn__cpu_unknown("scatter");
    int64_t count = scatter->extent[scatter->dim];
    uint32_t others = 0;
    for (uint32_t d = 0; d < scatter->ndim; d++)
        if (d != scatter->dim) {
            w.order[others++] = d;
            w.lines *= scatter->extent[d];
        }
    if (w.lines == 0 || count == 0)
        return TN_OK;
    if (takes_rows(&w)) {
        int64_t tasks = w.lines / w.row;
        if (tasks > 1)
            tn__cpu_host->parallel_for(tasks, run_rows, &w);
        else if (w.row * count < TASK_POINTS)
            run_rows(&w, 0);
        else
            tn__cpu_host->parallel_for(2, run_half, &w);
        return w.fault.code == TN_OK ? TN_OK : tn__cpu_fault_raise(&w.fault);
    }
    w.side = lines_side_by_side(&w);
    int64_t least = tn__cpu_min(w.side, SIDE_BY_SIDE);
    w.lines_per_task =
        TASK_POINTS / count > least ? TASK_POINTS / count : least;
    int64_t tasks = (w.lines + w.lines_per_task - 1) / w.lines_per_task;
    if (tasks == 1)
        run_lines(&w, 0);
    else
        tn__cpu_host->parallel_for(tasks, run_lines, &w);
    return w.fault.code == TN_OK ? TN_OK : tn__cpu_fault_raise(&w.fault);
}
