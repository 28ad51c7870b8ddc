/* indexed_copy.c: copies by indices that form contiguous ranges, such as pad
 * and unfold.
 *
 * A row of the output then consists of a few runs. A run is a range of elements
 * that is contiguous in the source, or all 0. Adjacent rows have the same runs,
 * so each run is copied for many rows at once.
 *
 * An index is either an affine function of the coordinates or a table (a loaded
 * operand). The last two dimensions are called rows and columns. Along each of
 * them at most one index may vary. If this index is a table, it must vary along
 * that dimension only. Along the outer dimensions any index may vary. */
#include <string.h>

#include "../program/program.h"
#include "../run/view.h"

#define TASK_BYTES (128 << 10) /* bytes of output that one task writes */
/* The rows that are copied together have at most this many bytes, so that they
 * and their source fit in L1. */
#define NEAR (16 << 10)
#define MAX_RUNS 32 /* largest number of runs (ranges that are copied at once)
                     * along one dimension */
/* Minimum average length of a run, in elements. For shorter runs the general
 * code in run/ is faster. */
#define MIN_RUN 8

/* Returns whether the program is a LOAD by affine indices or tables, and a
 * STORE of the loaded value. Sets built->indexed_copy. */
static bool recognise(tn_built *built, const tn_program *program)
{
    const tn_kernel_ins *load = NULL, *store = NULL;
    uint32_t others = 0;
    cpu_indexed_copy copy = {.count = 0};
    if (built->has_rows)
        return false;
    for (uint32_t i = 0; i < program->ins_count; i++) {
        const tn_kernel_ins *ins = &program->ins[i];
        if (ins->op == TN_K_STORE && !store)
            store = ins;
        else if (ins->op == TN_K_LOAD && ins->a != TN_NONE && !load)
            load = ins;
        else
            others++;
    }
    if (!load || !store || &program->ins[store->a] != load)
        return false;
    const uint32_t index[] = {load->a, load->b, load->c};
    for (; copy.count < 3 && index[copy.count] != TN_NONE;
         copy.count++) {
        const tn_kernel_ins *ins = &program->ins[index[copy.count]];
        uint32_t operand = (uint32_t)ins->imm.i;
        bool affine = ins->op == TN_K_OFFSET;
        if (!affine && (ins->op != TN_K_LOAD || ins->a != TN_NONE ||
                        program->operand[operand].dtype != TN_I64))
            return false;
        copy.index[copy.count].operand = operand;
        copy.index[copy.count].affine = affine;
    }
    copy.in = (uint32_t)load->imm.i;
    copy.out = (uint32_t)store->imm.i;
    copy.zero = load->sub & TN_LOAD_ZERO;
    uint8_t dtype = program->operand[copy.in].dtype;
    built->indexed_copy = copy;
    /* A load of a bool changes every value but 0 to 1, so bits may change. */
    return copy.count > 0 && others == copy.count &&
           dtype != TN_BOOL && dtype == program->operand[copy.out].dtype;
}

/* A dimension of the launch. in, out and index[] are the strides, in elements,
 * of the source, the output and the indices. */
typedef struct dimension {
    int64_t extent, in, out, index[3];
} dimension;

/* A run covers coordinates [at, at + count) of a dimension. The output element
 * at coordinate at + i is source element from + i * step, or 0 if `zero` is
 * set. */
typedef struct run {
    int64_t at, count, from, step;
    bool zero;
} run;

/* The runs (ranges of elements that are copied, or set to 0) along one of the
 * last two dimensions. */
typedef struct axis {
    /* which index varies along this dimension, or TN_CPU_NONE */
    uint32_t index;
    uint32_t run_count;
    run run[MAX_RUNS];
} axis;

typedef struct work {
    const tn_built *built;
    const tn_launch *launch;
    const tn_cpu_routines *routines;
    const char *in;
    char *out;
    int64_t bytes; /* element size in bytes */
    dimension dim[TN_MAX_NDIM * 2];
    uint32_t ndim; /* number of dimensions, at least 2 */
    /* The runs (ranges that are copied at once) along the last two dimensions.
     * run_count is 0 if the index is affine. The runs are then found for each
     * point of the outer dimensions. */
    axis rows, columns;
    /* A piece is a few rows that are copied together. piece is the number of
     * its rows. pieces is the number of pieces at each point of the outer
     * dimensions. */
    int64_t piece, pieces;
    /* count is the number of all pieces. per_task is the number of pieces that
     * one task copies. */
    int64_t count, per_task;
    bool stream; /* whether to use non-temporal stores, through a buffer */
    /* Whether rows of one long run with single elements before or after it
     * (copy_edged) use non-temporal stores, without a buffer. Such stores are
     * used if the output has at least half of stream_bytes. */
    bool streams_edged;
} work;

/* Returns the second last dimension. */
static const dimension *rows_of(const work *w)
{
    return &w->dim[w->ndim - 2];
}

/* Returns the last dimension. */
static const dimension *columns_of(const work *w)
{
    return &w->dim[w->ndim - 1];
}

/* Returns the operand that holds an index. */
static const tn_launch_operand *operand_of(const work *w, uint32_t index)
{
    return &w->launch->operand[w->built->indexed_copy.index[index].operand];
}

static const tn_launch_operand *source(const work *w)
{
    return &w->launch->operand[w->built->indexed_copy.in];
}

static bool is_affine(const work *w, uint32_t index)
{
    return w->built->indexed_copy.index[index].affine;
}

/* Returns the value of an index at offset `at` from its first element. */
static int64_t value(const work *w, uint32_t index, int64_t at)
{
    const tn_launch_operand *of = operand_of(w, index);
    return is_affine(w, index)
               ? of->offset + at
               : *((const int64_t *)tn__cpu_at(of->buffer, of->offset, 8) + at);
}

/* Returns whether a value of the index is out of range. */
static bool is_outside(const work *w, uint32_t index, int64_t value)
{
    return (uint64_t)value >= (uint64_t)source(w)->index_extent[index];
}

/* Finds the runs (ranges that are copied, or set to 0) of a dimension along
 * which an affine index varies. `first` is the offset of the index's element at
 * coordinate 0 of the dimension. */
static void find_affine_runs(const work *w, const dimension *d, axis *l,
                             int64_t first)
{
    const uint32_t k = l->index;
    const int64_t step = d->index[k], last = source(w)->index_extent[k] - 1;
    const int64_t stride = source(w)->index_stride[k];
    int64_t from = value(w, k, first);
    /* from + i * step is in [0, last] for i in [low, high) */
    int64_t low = from < 0 ? (-from + step - 1) / step : 0;
    int64_t high = from > last ? 0 : (last - from) / step + 1;
    low = tn__cpu_min(low, d->extent);
    high = tn__cpu_min(high < low ? low : high, d->extent);
    l->run_count = 0;
    if (low < high)
        l->run[l->run_count++] =
            (run){low, high - low, (from + low * step) * stride + low * d->in,
                  step * stride + d->in, false};
    if (low > 0)
        l->run[l->run_count++] = (run){.count = low, .zero = true};
    if (high < d->extent)
        l->run[l->run_count++] =
            (run){.at = high, .count = d->extent - high, .zero = true};
}

/* Finds the runs (ranges that are copied at once) of a dimension along which
 * the index is a table. Along columns the elements of a run must be contiguous.
 * Returns false if the dimension is long, if there are more than MAX_RUNS runs,
 * or if an index is out of range. The general code in run/ then runs the
 * launch. It also reports an index that is out of range. */
static bool find_table_runs(const work *w, const dimension *d, axis *l,
                            bool is_columns)
{
    const uint32_t k = l->index;
    const int64_t stride = source(w)->index_stride[k];
    if (d->extent > NEAR)
        return false;
    l->run_count = 0;
    for (int64_t i = 0; i < d->extent; i++) {
        int64_t at = value(w, k, i * d->index[k]);
        bool zero = is_outside(w, k, at);
        int64_t from = zero ? 0 : at * stride + i * d->in;
        run *r = l->run_count ? &l->run[l->run_count - 1] : NULL;
        int64_t step = r ? from - r->from - (r->count - 1) * r->step : 0;
        bool goes_on = r && r->zero == zero &&
                       (zero || (r->count > 1 ? step == r->step
                                 : !is_columns || step == 1));
        if (zero && !w->built->indexed_copy.zero)
            return false;
        if (goes_on) {
            r->step = zero ? 0 : step;
            r->count++;
        } else if (l->run_count == MAX_RUNS) {
            return false;
        } else {
            l->run[l->run_count++] = (run){i, 1, from, 0, zero};
        }
    }
    return true;
}

/* Moves the longest run (range that is copied at once) to the front. Copying it
 * first loads most of the cache lines that the other runs need. */
static void longest_first(axis *l)
{
    for (uint32_t i = 1; i < l->run_count; i++)
        if (l->run[i].count > l->run[0].count) {
            run first = l->run[0];
            l->run[0] = l->run[i];
            l->run[i] = first;
        }
}

/* Finds the index that varies along dimension d. Unless it is affine, also
 * finds the runs (ranges that are copied at once) along d. Returns false if
 * more than one index varies along d, if a table that varies along d varies
 * along another dimension too, or if there are too many runs. */
static bool find_axis(const work *w, uint32_t d, axis *l, bool is_columns)
{
    const dimension *x = &w->dim[d];
    l->index = TN_CPU_NONE;
    for (uint32_t k = 0; k < w->built->indexed_copy.count; k++) {
        if (x->index[k] == 0)
            continue;
        if (l->index != TN_CPU_NONE)
            return false;
        l->index = k;
    }
    if (l->index == TN_CPU_NONE) {
        l->run_count = 1;
        l->run[0] = (run){0, x->extent, 0, x->in, false};
    } else if (is_affine(w, l->index)) {
        l->run_count = 0;
        return x->index[l->index] > 0;
    } else {
        for (uint32_t other = 0; other < w->ndim; other++)
            if (other != d && w->dim[other].index[l->index] != 0)
                return false;
        if (!find_table_runs(w, x, l, is_columns))
            return false;
    }
    longest_first(l);
    return true;
}

/* Finds the runs (ranges that are copied at once) along the last dimension.
 * Returns false if the elements of a run are not contiguous, or if runs are
 * shorter than MIN_RUN on average. */
static bool find_columns(work *w)
{
    axis *l = &w->columns;
    const dimension *d = columns_of(w);
    if (d->out != 1 || d->extent < MIN_RUN ||
        !find_axis(w, w->ndim - 1, l, true))
        return false;
    if (l->index == TN_CPU_NONE)
        return d->in == 1;
    if (l->run_count > 0)
        return l->run_count * MIN_RUN <= d->extent;
    return d->in + d->index[l->index] * source(w)->index_stride[l->index] == 1;
}

/* Finds the runs (ranges that are copied at once) along the last two
 * dimensions. Returns false if this file does not support the launch. */
static bool find_runs(work *w)
{
    const cpu_indexed_copy *copy = &w->built->indexed_copy;
    bool counts = false;
    for (uint32_t k = 0; k < copy->count; k++)
        counts = counts || is_affine(w, k);
    if (!find_columns(w) || (w->columns.index == TN_CPU_NONE && !counts) ||
        !find_axis(w, w->ndim - 2, &w->rows, false))
        return false; /* take.c is faster: it copies whole rows */
    for (uint32_t k = 0; k < copy->count && !copy->zero; k++)
        if (is_affine(w, k) || (k != w->rows.index && k != w->columns.index))
            /* The file checks only indices that vary along rows or columns.
             * Another table could be out of range. */
            return false;
    return w->rows.index == TN_CPU_NONE || w->rows.index != w->columns.index;
}

/* Stores `rows` rows of zeros, each of `bytes` bytes. */
static void zero_rows(const work *w, char *to, int64_t to_step, int64_t rows,
                      int64_t bytes)
{
    static const char zeros[256];
    for (int64_t n; bytes > 0; bytes -= n, to += n) {
        n = tn__cpu_min(bytes, sizeof zeros);
        w->routines->copy_rows(to, to_step, zeros, 0, rows, n);
    }
}

/* `count` rows of the output (to) and their sources (from). to_step and
 * from_step are the strides between rows, in bytes. */
typedef struct rows_at {
    char *to;
    const char *from;
    int64_t to_step, from_step, count;
} rows_at;

/* Copies one range of columns in each of the given rows. */
static void copy_run(const work *w, const run *r, const rows_at *rows)
{
    char *to = rows->to + r->at * w->bytes;
    const char *from = rows->from + r->from * w->bytes;
    if (r->zero)
        zero_rows(w, to, rows->to_step, rows->count, r->count * w->bytes);
    else
        w->routines->copy_rows(to, rows->to_step, from, rows->from_step,
                               rows->count, r->count * w->bytes);
}

/* Copies edged rows. An edged row is one long run with a single element before
 * it, after it, or both, as in padding by 1. The whole row is copied in one
 * pass: in a second pass its cache lines would no longer be in the cache. */
static void copy_edged(const work *w, const axis *columns, bool streamed,
                       const rows_at *r)
{
    static const char zero[4];
    const run *first = &columns->run[0];
    tn_cpu_edge edge[2];
    const tn_cpu_edge *before = NULL, *after = NULL;
    for (uint32_t k = 0; k < 2; k++) {
        const run *edge_run = &columns->run[columns->run_count > 2 ? 1 + k : 1];
        edge[k] = (tn_cpu_edge){
            (edge_run->at - first->at) * w->bytes,
            edge_run->zero ? zero : r->from + edge_run->from * w->bytes,
            edge_run->zero ? 0 : r->from_step};
        *(edge_run->at < first->at ? &before : &after) = &edge[k];
    }
    const char *from = r->from + first->from * w->bytes;
    if (streamed)
        w->routines->stream_edged(r->to, from, r->from_step, r->count,
                                  first->count, before, after);
    else
        w->routines->copy_edged(r->to + first->at * w->bytes, r->to_step, from,
                                r->from_step, r->count, first->count * w->bytes,
                                edge);
}

/* Returns whether the rows are edged: one long run with a single element before
 * it, after it, or both, as in padding by 1. */
static bool is_edged(const work *w, const axis *columns)
{
    const run *r = columns->run;
    return w->bytes == 4 &&
           (columns->run_count == 2 || columns->run_count == 3) && !r[0].zero &&
           r[0].count >= 4 && r[1].count == 1 &&
           (columns->run_count == 2 || r[2].count == 1);
}

/* Returns whether edged rows (one long run with single elements before or after
 * it) can use non-temporal stores. This requires at most one single element on
 * each side. */
static bool can_stream_edged(const work *w, const axis *columns)
{
    const run *r = columns->run;
    return w->streams_edged && is_edged(w, columns) && r[0].count >= 16 &&
           (columns->run_count == 2 ||
            (r[1].at < r[0].at) != (r[2].at < r[0].at));
}

/* The rows of the output at one combination of the outer coordinates. */
typedef struct point_rows {
    const axis *rows, *columns;
    bool streamed; /* whether rows of one long run with single elements use
                    * non-temporal stores */
    /* the first source element of these rows, or NULL if all results are 0 */
    const char *in;
} point_rows;

/* Stores rows [low, high) of the output at one combination of the outer
 * coordinates. */
static void copy_point(const work *w, const point_rows *p, char *out,
                       int64_t out_step, int64_t low, int64_t high)
{
    const int64_t length = columns_of(w)->extent * w->bytes;
    for (uint32_t i = 0; i < p->rows->run_count; i++) {
        const run *r = &p->rows->run[i];
        int64_t from = r->at > low ? r->at : low;
        int64_t count = tn__cpu_min(r->at + r->count, high) - from;
        char *to = out + (from - low) * out_step;
        if (count <= 0)
            continue;
        if (r->zero || !p->in) {
            zero_rows(w, to, out_step, count, length);
            continue;
        }
        const rows_at rows = {
            .to = to,
            .to_step = out_step,
            .from = p->in + (r->from + (from - r->at) * r->step) * w->bytes,
            .from_step = r->step * w->bytes,
            .count = count};
        if (is_edged(w, p->columns)) {
            copy_edged(w, p->columns, p->streamed, &rows);
            continue;
        }
        for (uint32_t k = 0; k < p->columns->run_count; k++)
            copy_run(w, &p->columns->run[k], &rows);
    }
}

/* Returns the address of the source at one combination of the outer
 * coordinates, whose row-major index is `point`. Sets *out to the address of
 * the output, and first[k] to the offset of the first element of index k.
 * Returns NULL if an index that is the same for all these rows is out of range.
 */
static const char *point_begin(const work *w, int64_t point, char **out,
                               int64_t first[3])
{
    const cpu_indexed_copy *copy = &w->built->indexed_copy;
    int64_t in = 0, to = 0;
    memset(first, 0, 3 * sizeof *first);
    for (uint32_t d = w->ndim - 2; d-- > 0;) {
        const dimension *x = &w->dim[d];
        int64_t at = point % x->extent;
        point /= x->extent;
        in += at * x->in;
        to += at * x->out;
        for (uint32_t k = 0; k < copy->count; k++)
            first[k] += at * x->index[k];
    }
    *out = w->out + to * w->bytes;
    for (uint32_t k = 0; k < copy->count; k++) {
        if (k == w->rows.index || k == w->columns.index)
            continue;
        int64_t at = value(w, k, first[k]);
        if (is_outside(w, k, at))
            return NULL;
        in += at * source(w)->index_stride[k];
    }
    return w->in + in * w->bytes;
}

/* Copies the pieces (a few rows each) of task i. */
static void run_task(void *context, int64_t i)
{
    const work *w = context;
    const dimension *d = rows_of(w);
    const int64_t length = columns_of(w)->extent * w->bytes;
    const int64_t end = tn__cpu_min((i + 1) * w->per_task, w->count);
    _Alignas(64) char block[NEAR];
    axis rows = w->rows, columns = w->columns;
    for (int64_t k = i * w->per_task; k < end; k++) {
        int64_t first[3], low = k % w->pieces * w->piece;
        int64_t high = tn__cpu_min(low + w->piece, d->extent);
        char *out;
        const char *in = point_begin(w, k / w->pieces, &out, first);
        if (w->rows.run_count == 0)
            find_affine_runs(w, d, &rows, first[rows.index]);
        if (w->columns.run_count == 0)
            find_affine_runs(w, columns_of(w), &columns, first[columns.index]);
        out += low * d->out * w->bytes;
        const point_rows p = {&rows, &columns, can_stream_edged(w, &columns),
                              in};
        if (p.streamed || !w->stream) {
            copy_point(w, &p, out, d->out * w->bytes, low, high);
            continue;
        }
        copy_point(w, &p, block, length, low, high);
        w->routines->stream(out, block, (high - low) * length, 0);
    }
    if (w->stream || w->streams_edged)
        w->routines->fence();
}

/* Merges adjacent dimensions if the strides of all operands allow it, but
 * leaves at least two dimensions. Returns the number of elements of the output,
 * or 0 if it has fewer than two dimensions. */
static int64_t merge_dimensions(work *w)
{
    const tn_launch *l = w->launch;
    const cpu_indexed_copy *copy = &w->built->indexed_copy;
    int64_t total = 1;
    w->ndim = 0;
    for (uint32_t d = 0; d < l->outer_ndim + l->row_ndim; d++) {
        dimension x = {.extent = l->extent[d],
                       .in = source(w)->stride[d],
                       .out = l->operand[copy->out].stride[d]};
        dimension *o = &w->dim[w->ndim ? w->ndim - 1 : 0];
        total *= x.extent;
        if (x.extent == 1)
            continue;
        if (total == 0)
            return 0;
        for (uint32_t k = 0; k < copy->count; k++)
            x.index[k] = operand_of(w, k)->stride[d];
        bool merges = w->ndim > 0 && o->in == x.in * x.extent &&
                      o->out == x.out * x.extent;
        for (uint32_t k = 0; k < copy->count && merges; k++)
            merges = o->index[k] == x.index[k] * x.extent;
        x.extent *= merges ? o->extent : 1;
        w->ndim -= merges;
        w->dim[w->ndim++] = x;
    }
    if (w->ndim == 1) {
        w->dim[1] = w->dim[0];
        w->dim[0] = (dimension){.extent = 1};
        w->ndim = 2;
    }
    return w->ndim < 2 ? 0 : total;
}

static bool launch_runs(tn_built *built, const tn_launch *launch,
                        tn_status *status)
{
    (void)status;
    /* Left uninitialised, because clearing all of it takes as long as a small
     * copy. */
    work w;
    w.built = built;
    w.launch = launch;
    w.routines = built->routines;
    int64_t total = merge_dimensions(&w);
    if (total == 0 || !find_runs(&w))
        return false;
    const tn_launch_operand *to = &launch->operand[built->indexed_copy.out];
    w.bytes =
        tn__cpu_dtype_bytes[built->operand[built->indexed_copy.out].dtype];
    w.in = tn__cpu_at(source(&w)->buffer, source(&w)->offset, (size_t)w.bytes);
    w.out = tn__cpu_at(to->buffer, to->offset, (size_t)w.bytes);
    int64_t length = columns_of(&w)->extent * w.bytes;
    w.piece = tn__cpu_min(length < NEAR ? NEAR / length : 1,
                          rows_of(&w)->extent);
    w.pieces = (rows_of(&w)->extent + w.piece - 1) / w.piece;
    w.count = total / columns_of(&w)->extent / rows_of(&w)->extent * w.pieces;
    w.per_task = TASK_BYTES / (w.piece * length);
    w.per_task = w.per_task > 0 ? w.per_task : 1;
    /* Padded images of 13 MiB in all take 480 us by ordinary and 370 us by
     * non-temporal stores (Zen 5, 2026-11). */
    w.streams_edged = total * w.bytes >= built->stream_bytes / 2 &&
                      rows_of(&w)->out * w.bytes == length &&
                      w.routines->stream_edged;
    w.stream = total * w.bytes >= built->stream_bytes && length <= NEAR &&
               rows_of(&w)->out * w.bytes == length;
    int64_t tasks = (w.count + w.per_task - 1) / w.per_task;
    if (tasks == 1)
        run_task(&w, 0);
    else
        tn__cpu_host->parallel_for(tasks, run_task, &w);
    return true;
}

const cpu_path tn__cpu_path_indexed_copy = {
    .name = "runs", .recognise = recognise, .launch = launch_runs};
