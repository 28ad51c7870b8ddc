/* taps_along.c: interpolation along one dimension, as in interpolate (resizing
 * an image). A result is a weighted sum of a few elements, and a tap is one
 * term of the sum. The indices and weights depend on one dimension only, called
 * the tap dimension.
 *
 * The indices are checked once. There are two cases:
 * - If contiguous dimensions follow the tap dimension, a row of results is a
 *   weighted sum of whole rows of the input.
 * - If the tap dimension is the last one, all rows use the same table of
 *   offsets and weights (taps_blocks.c). An entry of the table stays in
 *   registers while the routine computes its results in all rows.
 *
 * A unit is a few rows of results that one call of a routine computes. */
#include "taps.h"

#define UNIT 4096 /* largest number of results in a unit (16 KiB, fits in L1) */
/* Largest number of input elements of the rows of a unit, if a table is used.
 * The rows of this unit and the prefetched rows of the next one must fit in L1
 * together. */
#define MAX_ROW_INPUT 2048
#define MIN_LINE 4  /* minimum length of a row of results (first case) */
#define TASK 131072 /* results that one task computes */
/* With fewer rows, making a table takes longer than it saves (second case). */
#define MIN_ROWS 4
/* Results of at least this many bytes are prefetched for writing, because L1
 * and L2 do not hold them yet. */
#define PREFETCH_OUT_BYTES (4 << 20)

typedef struct along {
    const tn_built *built;
    const float *in;
    float *out;
    /* number of dimensions other than rows and columns; dimension 0 is the
     * outermost */
    uint32_t ndim;
    int64_t extent[2 * TN_MAX_NDIM];
    int64_t in_stride[2 * TN_MAX_NDIM], out_stride[2 * TN_MAX_NDIM];
    tn_cpu_tap_rows rows;    /* the rows at one index of the other dimensions */
    int64_t unit_rows;       /* number of rows of a unit */
    /* number of units at one index of the other dimensions */
    int64_t parts;
    /* units is the number of all units. per_task is the number of units that
     * one task computes. */
    int64_t units, per_task;
    /* number of entries of the table, each for up to a vector of results; 0 for
     * sums of whole rows */
    int64_t entries;
    tn_cpu_tap *tap; /* the table, tap[entry][tap number] */
    /* at[] and weight[]: the offset in `in` and the weight of each tap. In the
     * first case the taps differ from row to row, in the second case from
     * result to result of a row. Both arrays and the table are one
     * allocation. */
    int64_t *at;
    float *weight;
    bool stream;         /* whether to write results by non-temporal stores */
    bool prefetches_out; /* whether to prefetch results for writing */
} along;

/* Returns the product of the extents of the dimensions other than the rows and
 * columns (a->rows). */
static int64_t product_of(const along *a)
{
    return tn__cpu_numel(a->extent, a->ndim);
}

/* Adds an innermost dimension, or merges it with the current innermost
 * dimension if the strides allow it. */
static void push(along *a, int64_t extent, int64_t in, int64_t out)
{
    const uint32_t last = a->ndim - 1;
    if (a->ndim > 0 && a->in_stride[last] == in * extent &&
        a->out_stride[last] == out * extent) {
        extent *= a->extent[last];
        a->ndim--;
    }
    a->extent[a->ndim] = extent;
    a->in_stride[a->ndim] = in;
    a->out_stride[a->ndim++] = out;
}

/* Returns the index of the only dimension on which indices and weights depend.
 * Returns the number of dimensions if there is none or more than one. */
static uint32_t find_own(const cpu_taps *taps, const tn_launch *launch)
{
    const uint32_t ndim = launch->outer_ndim + launch->row_ndim;
    uint32_t own = ndim;
    for (uint32_t d = 0; d < ndim; d++) {
        bool is_own = false;
        for (uint32_t t = 0; t < taps->count; t++)
            is_own |= launch->operand[taps->index[t]].stride[d] != 0 ||
                      launch->operand[taps->weight[t]].stride[d] != 0;
        if (!is_own || launch->extent[d] == 1)
            continue;
        if (own != ndim)
            return ndim;
        own = d;
    }
    return own;
}

/* Finds the rows and the dimensions outside of the rows. `own` is the dimension
 * on which indices and weights depend. Returns false if the layout is neither
 * of the two cases. */
static bool find_rows(along *a, const tn_launch *launch, uint32_t own)
{
    const cpu_taps *taps = &a->built->taps;
    const tn_launch_operand *in = &launch->operand[taps->in];
    const tn_launch_operand *out = &launch->operand[taps->out];
    const uint32_t ndim = launch->outer_ndim + launch->row_ndim;
    a->in = (const float *)(const void *)tn__cpu_at(in->buffer, in->offset, 4);
    a->out = (float *)(void *)tn__cpu_at(out->buffer, out->offset, 4);
    if (own == ndim || in->stride[own] != 0 || (const float *)a->out == a->in)
        return false;
    int64_t line = 1;
    for (uint32_t d = ndim; d-- > own + 1;) {
        if (launch->extent[d] != 1 &&
            (in->stride[d] != line || out->stride[d] != line))
            return false;
        line *= launch->extent[d];
    }
    for (uint32_t d = 0; d < own; d++)
        if (launch->extent[d] != 1)
            push(a, launch->extent[d], in->stride[d], out->stride[d]);
    if (line > 1) {
        a->rows = (tn_cpu_tap_rows){.count = launch->extent[own], .n = line,
                                    .out_step = out->stride[own]};
        return line >= MIN_LINE;
    }
    if (a->ndim == 0 || a->extent[a->ndim - 1] < MIN_ROWS ||
        in->index_stride[0] != 1 || out->stride[own] != 1)
        return false;
    a->ndim--;
    a->entries = 1; /* a table is used; fill_entries counts its entries */
    a->rows = (tn_cpu_tap_rows){.count = a->extent[a->ndim],
                                .n = launch->extent[own],
                                .from = in->index_extent[0],
                                .out_step = a->out_stride[a->ndim],
                                .in_step = a->in_stride[a->ndim]};
    return true;
}

/* Stores the offsets of the terms (taps) in at[] and their weights in weight[],
 * in the same layout. n is the extent of the dimension on which they depend,
 * count the number of taps. With a table the layout is [tap][result], at[t * n
 * + k]. For sums of whole rows it is [row][tap], at[k * count + t]. Returns
 * false if an index is out of range. */
static bool read_tables(along *a, const tn_launch *launch, uint32_t own)
{
    const cpu_taps *taps = &a->built->taps;
    const tn_launch_operand *in = &launch->operand[taps->in];
    const int64_t count = taps->count, n = launch->extent[own];
    for (int64_t t = 0; t < count; t++) {
        const tn_launch_operand *i = &launch->operand[taps->index[t]];
        const tn_launch_operand *w = &launch->operand[taps->weight[t]];
        const int64_t *index =
            (const int64_t *)(const void *)tn__cpu_at(i->buffer, i->offset, 8);
        const float *factor =
            (const float *)(const void *)tn__cpu_at(w->buffer, w->offset, 4);
        for (int64_t k = 0; k < n; k++) {
            const int64_t from = index[k * i->stride[own]];
            const int64_t to = a->entries ? t * n + k : k * count + t;
            if ((uint64_t)from >= (uint64_t)in->index_extent[0])
                return false;
            a->at[to] = from * in->index_stride[0];
            a->weight[to] = factor[k * w->stride[own]];
        }
    }
    return true;
}

/* Returns the maximum number of entries of a row's table. */
static int64_t max_entries(const along *a)
{
    return 3 * (a->rows.n / a->built->routines->tap_points + 1);
}

/* Makes the table of a row. The last entry may overlap the previous entry, so
 * that it too is a whole vector of results. Returns false if the table would
 * have so many entries that it is slower than no table (max_entries). */
static bool fill_entries(along *a)
{
    const int64_t n = a->rows.n, lanes = a->built->routines->tap_points;
    cpu_tap_lists lists = {.count = (int)a->built->taps.count};
    for (int t = 0; t < lists.count; t++) {
        lists.where[t] = a->at + t * n;
        lists.weight[t] = a->weight + t * n;
        lists.step[t] = 1;
    }
    a->entries = 0;
    for (int64_t k = 0, unit_rows; k < n; k += unit_rows) {
        unit_rows =
            tn__cpu_tap_span(&lists, k, tn__cpu_min(lanes, n - k), 2 * lanes);
        if (unit_rows == 0 || a->entries == max_entries(a))
            return false;
        if (k + unit_rows == n && n >= lanes &&
            tn__cpu_tap_span(&lists, n - lanes, lanes, 2 * lanes) == lanes) {
            k = n - lanes;
            unit_rows = lanes;
        }
        tn__cpu_tap_fill(a->tap + a->entries * lists.count, &lists, k,
                         unit_rows);
        a->entries++;
    }
    return true;
}

/* Returns the rows of results of which unit `unit` consists. */
static tn_cpu_tap_rows find_unit(const along *a, int64_t unit)
{
    const int64_t first = unit % a->parts * a->unit_rows;
    tn_cpu_tap_rows rows = a->rows;
    rows.count = tn__cpu_min(a->unit_rows, rows.count - first);
    rows.in = a->in + first * rows.in_step;
    rows.out = a->out + first * rows.out_step;
    unit /= a->parts;
    for (uint32_t d = a->ndim; d-- > 0; unit /= a->extent[d]) {
        rows.in += unit % a->extent[d] * a->in_stride[d];
        rows.out += unit % a->extent[d] * a->out_stride[d];
    }
    rows.end = rows.in + rows.from;
    if (rows.in_step > 0)
        rows.end += (rows.count - 1) * rows.in_step;
    return rows;
}

/* Computes the results of a unit (a few rows of results). */
static void run_unit(const along *a, tn_cpu_tap_rows rows, int64_t unit)
{
    const cpu_taps *taps = &a->built->taps;
    const tn_cpu_routines *routines = a->built->routines;
    const int64_t first = unit % a->parts * a->unit_rows;
    float room[UNIT], *to = rows.out;
    if (a->stream)
        rows.out = room;
    if (a->entries)
        routines->taps(&rows, a->tap, a->entries, taps->depth, taps->leaves);
    else
        routines->tap_lines(&rows, a->at + first * taps->count,
                            a->weight + first * taps->count, taps->depth,
                            taps->leaves);
    if (a->stream)
        routines->stream(to, room, rows.count * rows.n * (int64_t)sizeof *to,
                         0);
}

/* Computes the units (a few rows of results each) of task `task`. */
static void run_units(void *context, int64_t task)
{
    const along *a = context;
    const unsigned fpu = tn__cpu_fpu_set();
    const int64_t first = task * a->per_task;
    const int64_t end = tn__cpu_min(first + a->per_task, a->units);
    tn_cpu_tap_rows rows, next = find_unit(a, first);
    for (int64_t unit = first; unit < end; unit++) {
        rows = next;
        if (unit + 1 < end) {
            next = find_unit(a, unit + 1);
            rows.next = next.in;
            rows.next_out = a->prefetches_out ? next.out : NULL;
        }
        run_unit(a, rows, unit);
    }
    if (a->stream)
        a->built->routines->fence();
    tn__cpu_fpu_restore(fpu);
}

/* Cuts the rows into units and the units into tasks, and runs the tasks. */
static void run_all(along *a)
{
    a->unit_rows =
        a->entries ? MAX_ROW_INPUT /
                         (a->rows.n > a->rows.from ? a->rows.n : a->rows.from)
                   : UNIT / a->rows.n;
    a->unit_rows =
        a->unit_rows < 1 ? 1 : tn__cpu_min(a->unit_rows, a->rows.count);
    a->parts = (a->rows.count + a->unit_rows - 1) / a->unit_rows;
    a->units = product_of(a) * a->parts;
    a->per_task = TASK / (a->unit_rows * a->rows.n) + 1;
    const int64_t bytes =
        product_of(a) * a->rows.count * a->rows.n * (int64_t)sizeof *a->out;
    a->stream = a->rows.out_step == a->rows.n && a->built->routines->stream &&
                a->unit_rows * a->rows.n <= UNIT &&
                bytes >= a->built->stream_bytes;
    a->prefetches_out = !a->stream && bytes >= PREFETCH_OUT_BYTES;
    const int64_t tasks = (a->units + a->per_task - 1) / a->per_task;
    if (tasks == 1)
        run_units(a, 0);
    else
        tn__cpu_host->parallel_for(tasks, run_units, a);
}

static bool launch_along(tn_built *built, const tn_launch *launch,
                         tn_status *status)
{
    (void)status;
    along a = {.built = built};
    const uint32_t own = find_own(&built->taps, launch);
    if (!find_rows(&a, launch, own))
        return false;
    if (product_of(&a) * a.rows.count * a.rows.n < TN_CPU_LEAST_POINTS)
        return false;
    const int64_t count = built->taps.count,
                  total = launch->extent[own] * count;
    const int64_t taps = a.entries ? max_entries(&a) * count : 0;
    a.tap = tn__cpu_memory_acquire((size_t)taps * sizeof *a.tap +
                                   (size_t)total *
                                       (sizeof *a.at + sizeof *a.weight));
    a.at = (int64_t *)(void *)(a.tap + taps);
    a.weight = (float *)(void *)(a.at + total);
    bool able = a.tap && read_tables(&a, launch, own) &&
                (a.entries == 0 || fill_entries(&a));
    if (able)
        run_all(&a);
    tn__cpu_memory_release(a.tap);
    return able;
}

const cpu_path tn__cpu_path_taps_along = {.name = "taps along a dimension",
                                          .recognise = tn__cpu_find_taps,
                                          .launch = launch_along};
