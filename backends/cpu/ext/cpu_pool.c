/* cpu_pool.c: the extension `pool`: the greatest and the mean of windows, and what
 * flows back through them. A plane (one channel of one image) goes through the
 * loops a band of rows at a time, element by element of the window: the
 * outputs whose window has that element within the image are a rectangle, so
 * that nothing is tested inside. Sums keep the fixed order of a reduction
 * (plugin.h), over the elements of a window: bits are those of the primitives.
 */
#include <stdlib.h>
#include <string.h>

#include "../cpu.h"
#include "../cpu_device.h"

enum {
    BAND = 2048,       /* outputs of a band: they and what they read, in L1 */
    TASK_WORK = 65536, /* elements read, about 10 us */
    MAX_AREA = 1024,   /* elements of a window: one chunk of the order */
    MIN_WINDOWS = 4    /* of a row that are worth a vector */
};

typedef struct pooling {
    const tn_pool_args *args;
    const tn_cpu_pool_routines *routines;
    const tn_cpu_conv_routines *more; /* join */
    const tn_cpu_routines *all;
    int64_t bytes;
    unsigned type; /* CPU_F32, CPU_F64 */
    int64_t planes, planes_per_task;
    /* What is written and read, as planes: strides of n, c, h; of w it is 1. */
    int64_t band;       /* rows of what is written */
    int64_t *count[2];  /* mean: of each window, along each axis */
    int32_t *place;     /* greatest: of each window of a band, from its first */
    int32_t *first;     /* and for each column: first_inside */
    const void *lowest; /* the lowest number */
    atomic_int failed;
    atomic_int *outside; /* an index beyond its plane was met */
} pooling;

static char *plane_of(const pooling *p, const tn_strided *view, int64_t plane,
                      int64_t bytes)
{
    int64_t n = plane / p->args->channels, c = plane % p->args->channels;
    return tn__cpu_at(view->buffer, view->offset, (size_t)bytes) +
           (n * view->stride[0] + c * view->stride[1]) * bytes;
}

static int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The windows i in [first, end) whose element k lies within the image;
 * element k of window i is at i * step + at. */
typedef struct window_range {
    int64_t first, end, at;
} window_range;

/* Those among [low, high) along axis a; false: there are none. */
static bool windows_inside(const tn_pool_args *args, int a, int64_t k,
                           int64_t low, int64_t high, window_range *r)
{
    int64_t step = args->stride[a];
    r->at = k * args->dilation[a] - args->pad[a];
    int64_t begin = r->at < 0 ? (-r->at + step - 1) / step : 0;
    int64_t room = args->in_size[a] - 1 - r->at;
    int64_t last = room < 0 ? -1 : room / step;
    r->first = max_i64(low, begin);
    r->end = tn__cpu_min(high, last + 1);
    return r->first < r->end;
}

/* Lines without gaps, one after the other? */
static bool is_contiguous(const tn_strided *view, const int64_t *size)
{
    return view->stride[3] == 1 && view->stride[2] == size[1];
}

/* Wide windows side by side, none cut off: an element of all of them at a time
 * would be far apart. */
static bool has_wide_windows(const pooling *p)
{
    const tn_pool_args *args = p->args;
    const int64_t *kernel = args->kernel, *windows = args->out_size;
    return p->type == CPU_F32 && kernel[1] >= TN_CPU_WIDE &&
           args->stride[1] == kernel[1] &&
           windows[1] * kernel[1] >= TN_CPU_WIDE_LEAST &&
           args->dilation[0] == 1 && args->dilation[1] == 1 &&
           args->pad[0] == 0 && args->pad[1] == 0 &&
           windows[1] * kernel[1] <= args->in_size[1] &&
           (windows[0] - 1) * args->stride[0] + kernel[0] <=
               args->in_size[0];
}

/* ---- the greatest ----------------------------------------------------------------- */

/* Where the first element of a window within the image is. */
static int64_t first_inside(const tn_pool_args *args, int a, int64_t i)
{
    int64_t at = i * args->stride[a] - args->pad[a], d = args->dilation[a];
    return at >= 0 ? at : at + (-at + d - 1) / d * d;
}

/* What is the same for all planes: p->place, p->first. */
static void find_places(const pooling *p)
{
    const tn_pool_args *args = p->args;
    int64_t columns = args->out_size[1];
    for (int64_t i = 0, k = 0; i < p->band; i++)
        for (int64_t j = 0; j < columns; j++, k++)
            p->place[k] = (int32_t)(i * args->stride[0] * args->in_size[1] +
                                    j * args->stride[1]);
    for (int64_t j = 0; j < columns; j++)
        p->first[j] = (int32_t)first_inside(args, 1, j);
}

/* What max_plane works on: for each output of a band, */
typedef struct max_work {
    char *element; /* one element of all windows of the band */
    int32_t *at;   /* index of the greatest */
} max_work;

/* One element of the windows in rows y and columns x, without gaps between
 * rows. Columns whose element lies outside the image get the lowest number,
 * which no maximum takes. */
static void read_element(const pooling *p, const char *in,
                         const window_range *y, const window_range *x,
                         char *out)
{
    const tn_pool_args *args = p->args;
    int64_t columns = args->out_size[1], in_row = args->in.stride[2];
    int64_t rows = y->end - y->first;
    int64_t top = y->first * args->stride[0] + y->at;
    int64_t left = x->first * args->stride[1] + x->at;
    if (x->first > 0)
        p->routines->copy(out, columns, 1, p->lowest, 0, 0, rows, x->first, 0);
    p->routines->copy(out + x->first * p->bytes, columns, 1,
                      in + (top * in_row + left) * p->bytes,
                      args->stride[0] * in_row, args->stride[1], rows,
                      x->end - x->first, 0);
    if (x->end < columns)
        p->routines->copy(out + x->end * p->bytes, columns, 1, p->lowest, 0, 0,
                          rows, columns - x->end, 0);
}

static void max_band(const pooling *p, const char *in, char *out,
                     int64_t *index, const max_work *work, int64_t low,
                     int64_t high)
{
    const tn_pool_args *args = p->args;
    int64_t columns = args->out_size[1], width = args->in_size[1];
    window_range y, x;
    for (int64_t i = low; i < high; i++) {
        int32_t row = (int32_t)(first_inside(args, 0, i) * width);
        p->all->op[TN_K_ADD][CPU_I32](work->at + (i - low) * columns,
                                      p->first, &row, NULL, columns, 2);
    }
    p->routines->copy(out, columns, 1, p->lowest, 0, 0, high - low, columns, 0);
    for (int64_t k = 0; k < args->kernel[0]; k++) {
        if (!windows_inside(args, 0, k, low, high, &y))
            continue;
        for (int64_t l = 0; l < args->kernel[1]; l++) {
            if (!windows_inside(args, 1, l, 0, columns, &x))
                continue;
            int64_t top = y.first * args->stride[0] + y.at;
            int64_t from = (y.first - low) * columns;
            read_element(p, in, &y, &x, work->element);
            p->routines->max_update(
                out + from * p->bytes, work->at + from, work->element, p->place,
                (int32_t)(top * width + x.at), (y.end - y.first) * columns);
        }
    }
    p->all->cast[CPU_I32][CPU_I64](index, work->at, NULL, NULL,
                                   (high - low) * columns, 0);
}

/* Of such the greatest of each column, as the lines lie; then the columns, turned
 * over, are merged. index: NULL if nobody wants to know. */
static bool max_wide(const pooling *p, const float *in, float *out,
                     int64_t *index)
{
    const tn_pool_args *args = p->args;
    const int64_t rows = args->out_size[0], columns = args->out_size[1];
    const int64_t width = args->kernel[1], n = columns * width;
    const int64_t in_row = args->in.stride[2];
    const int64_t most = tn__cpu_min(max_i64(BAND / n, 1), p->band);
    float *best = tn__cpu_scratch((size_t)(4 * most * n) * sizeof *best);
    if (!best)
        return false;
    float *turned = best + most * n;
    int32_t *at = (int32_t *)(turned + most * n), *of = at + most * n;
    for (int64_t low = 0; low < rows; low += most) {
        int64_t high = tn__cpu_min(low + most, rows);
        int64_t count = (high - low) * columns;
        float *to = out + low * columns;
        for (int64_t i = 0; i < high - low; i++)
            p->all->windows->max_columns(
                best + i * n, at + i * n,
                in + (low + i) * args->stride[0] * in_row, in_row,
                args->kernel[0], (int32_t)args->in_size[1], n);
        p->all->transpose[4](turned, count, best, width, count, width, 0);
        p->all->transpose[4](of, count, at, width, count, width, 0);
        memcpy(to, turned, (size_t)count * sizeof *to);
        for (int64_t l = 1; l < width; l++)
            p->all->windows->merge_max(to, of, turned + l * count,
                                       of + l * count, (int32_t)l, count);
        if (!index)
            continue;
        int32_t first = (int32_t)(low * args->stride[0] * args->in_size[1]);
        p->all->op[TN_K_ADD][CPU_I32](of, of, p->place, NULL, count, 0);
        p->all->op[TN_K_ADD][CPU_I32](of, of, &first, NULL, count, 2);
        p->all->cast[CPU_I32][CPU_I64](index + low * columns, of, NULL, NULL,
                                       count, 0);
    }
    return true;
}

/* Windows beside each other, or one between, a vector of them at a time. For
 * two or three elements what goes before them costs more, unless their numbers
 * are wanted, too. */
static bool by_windows(const pooling *p)
{
    const int64_t area = p->args->kernel[0] * p->args->kernel[1];
    return (area > 3 || p->args->kind == TN_POOL_MAX) && p->type == CPU_F32 &&
           p->all->windows->max_windows && p->args->stride[1] <= 2 &&
           p->args->in.stride[2] > 0 && p->args->out_size[1] >= MIN_WINDOWS;
}

/* How many elements of a view there are before a plane, at least. */
static int64_t planes_before(const tn_strided *view, const tn_pool_args *args,
                             int64_t plane)
{
    return view->stride[0] < 0 || view->stride[1] < 0
               ? 0
               : plane / args->channels * view->stride[0] +
                     plane % args->channels * view->stride[1];
}

static bool max_windows(const pooling *p, int64_t plane, bool indexed)
{
    const tn_pool_args *args = p->args;
    const float *in = (float *)plane_of(p, &args->in, plane, 4);
    float *out = (float *)plane_of(p, &args->out, plane, 4);
    int64_t *index =
        indexed ? (int64_t *)plane_of(p, &args->index, plane, 8) : NULL;
    const int64_t rows = args->out_size[0], columns = args->out_size[1];
    const int64_t in_row = args->in.stride[2], width = args->in_size[1];
    tn_cpu_pool_row row = {
        .in = in, .low = -planes_before(&args->in, args, plane),
        .there = (args->in_size[0] - 1) * in_row + width +
                 planes_before(&args->in, args, p->planes - 1) -
                 planes_before(&args->in, args, plane),
        .in_row = args->dilation[0] * in_row,
        .line_places = args->dilation[0] * width, .width = args->kernel[1],
        .apart = args->dilation[1], .step = args->stride[1],
        .column = -args->pad[1], .size = width, .n = columns,
        .first = p->first};
    const int64_t apart = args->dilation[0];
    for (int64_t i = 0; i < rows; i++, out += columns) {
        int64_t y = i * args->stride[0] - args->pad[0];
        row.lines = args->kernel[0];
        for (; y < 0; y += apart)
            row.lines--;
        while (y + (row.lines - 1) * apart >= args->in_size[0])
            row.lines--;
        row.from = y * in_row - args->pad[1];
        row.row = (int32_t)(y * width);
        row.place = (int32_t)(y * width - args->pad[1]);
        p->all->windows->max_windows(out, index ? index + i * columns : NULL,
                                     &row);
    }
    return true;
}

static bool max_plane(const pooling *p, int64_t plane)
{
    const tn_pool_args *args = p->args;
    if (by_windows(p))
        return max_windows(p, plane, true);
    if (has_wide_windows(p))
        return max_wide(p, (float *)plane_of(p, &args->in, plane, 4),
                        (float *)plane_of(p, &args->out, plane, 4),
                        (int64_t *)plane_of(p, &args->index, plane, 8));
    int64_t rows = args->out_size[0], columns = args->out_size[1];
    int64_t numel = p->band * columns;
    char *memory = tn__cpu_scratch((size_t)(numel * (p->bytes + 4)));
    if (!memory)
        return false;
    max_work work = {.element = memory,
                     .at = (int32_t *)(memory + numel * p->bytes)};
    const char *in = plane_of(p, &args->in, plane, p->bytes);
    char *out = plane_of(p, &args->out, plane, p->bytes);
    int64_t *index = (int64_t *)plane_of(p, &args->index, plane, 8);
    for (int64_t low = 0; low < rows; low += p->band)
        max_band(p, in, out + low * columns * p->bytes,
                 index + low * columns, &work, low,
                 tn__cpu_min(low + p->band, rows));
    return true;
}

/* No more than the greatest: by the routine of MAX. The first element of all
 * windows is made where the result lies. */
static void greatest_band(const pooling *p, const char *in, char *out,
                          char *element, int64_t low, int64_t high)
{
    const tn_pool_args *args = p->args;
    const int64_t columns = args->out_size[1];
    window_range y, x;
    bool made = false;
    for (int64_t k = 0; k < args->kernel[0]; k++) {
        if (!windows_inside(args, 0, k, low, high, &y))
            continue;
        for (int64_t l = 0; l < args->kernel[1]; l++) {
            if (!windows_inside(args, 1, l, 0, columns, &x))
                continue;
            bool first = !made && y.first == low && y.end == high;
            if (!made && !first)
                p->routines->copy(out, columns, 1, p->lowest, 0, 0, high - low,
                                  columns, 0);
            read_element(p, in, &y, &x, first ? out : element);
            char *to = out + (y.first - low) * columns * p->bytes;
            if (!first)
                p->all->op[TN_K_MAX][p->type](to, to, element, NULL,
                                              (y.end - y.first) * columns, 0);
            made = true;
        }
    }
}

static bool greatest_plane(const pooling *p, int64_t plane)
{
    const tn_pool_args *args = p->args;
    if (by_windows(p))
        return max_windows(p, plane, false);
    if (has_wide_windows(p))
        return max_wide(p, (float *)plane_of(p, &args->in, plane, 4),
                        (float *)plane_of(p, &args->out, plane, 4), NULL);
    int64_t rows = args->out_size[0], line = args->out_size[1] * p->bytes;
    char *element = tn__cpu_scratch((size_t)(p->band * line));
    if (!element)
        return false;
    char *out = plane_of(p, &args->out, plane, p->bytes);
    for (int64_t low = 0; low < rows; low += p->band)
        greatest_band(p, plane_of(p, &args->in, plane, p->bytes),
                      out + low * line, element, low,
                      tn__cpu_min(low + p->band, rows));
    return true;
}

static bool max_back_plane(const pooling *p, int64_t plane)
{
    const tn_pool_args *args = p->args;
    char *in = plane_of(p, &args->in, plane, p->bytes);
    const int64_t *index =
        (const int64_t *)plane_of(p, &args->index, plane, 8);
    int64_t area = args->in_size[0] * args->in_size[1];
    int64_t numel = args->out_size[0] * args->out_size[1];
    if (p->all->outside(index, area, numel)) {
        atomic_store(p->outside, 1);
        return true;
    }
    memset(in, 0, (size_t)(area * p->bytes));
    p->routines->scatter_add(in, plane_of(p, &args->out, plane, p->bytes),
                             index, numel);
    return true;
}

/* ---- the mean --------------------------------------------------------------------- */

/* Sums of a window's elements, lane by lane: lane k % 16 of the fixed order is
 * a plane of its own. Folds them into the first. */
static void fold_lanes(const pooling *p, char *lane, int64_t lanes,
                       int64_t numel)
{
    for (int64_t half = TN_LANES / 2; half > 0; half /= 2) {
        for (int64_t i = 0; i < half && i + half < lanes; i++)
            p->more->add_to(lane + i * numel * p->bytes,
                            lane + (i + half) * numel * p->bytes, numel);
        lanes = tn__cpu_min(lanes, half);
    }
}

/* Windows side by side whose width is a part of the lanes: a line of the image,
 * as it lies, has for each window that many lanes next to each other; and the
 * line so many further the same ones. Lines left to right are what vectors want:
 * an element of all windows at a time has steps between them. */
static bool by_lines(const tn_pool_args *args)
{
    int64_t width = args->kernel[1];
    return TN_LANES % width == 0 && args->stride[1] == width &&
           args->pad[1] == 0 &&
           args->out_size[1] * width <= args->in_size[1] &&
           args->kernel[0] * width > TN_LANES;
}

/* The same, one or two wide and so few lines that each has lanes of its own; none
 * is cut off. */
static bool by_narrow_windows(const tn_pool_args *args)
{
    const int64_t *kernel = args->kernel, *windows = args->out_size;
    return kernel[1] <= 2 && kernel[0] * kernel[1] <= TN_LANES &&
           args->stride[1] == kernel[1] && args->pad[0] == 0 &&
           args->pad[1] == 0 &&
           windows[1] * kernel[1] <= args->in_size[1] &&
           (windows[0] - 1) * args->stride[0] + kernel[0] <=
               args->in_size[0];
}

static int64_t lane_count(const tn_pool_args *args)
{
    return tn__cpu_min(args->kernel[0] * args->kernel[1], TN_LANES);
}

/* Sums of the windows in rows [low, high), as lanes. */
static void sum_elements(const pooling *p, const char *in, char *lane,
                         int64_t low, int64_t high)
{
    const tn_pool_args *args = p->args;
    int64_t columns = args->out_size[1], in_row = args->in.stride[2];
    int64_t bytes = p->bytes, numel = (high - low) * columns;
    window_range y, x;
    for (int64_t k = 0; k < args->kernel[0]; k++) {
        if (!windows_inside(args, 0, k, low, high, &y))
            continue;
        for (int64_t l = 0; l < args->kernel[1]; l++) {
            if (!windows_inside(args, 1, l, 0, columns, &x))
                continue;
            int64_t number = k * args->kernel[1] + l;
            int64_t top = y.first * args->stride[0] + y.at;
            int64_t left = x.first * args->stride[1] + x.at;
            p->routines->copy(lane + (number % TN_LANES * numel +
                                      (y.first - low) * columns + x.first) *
                                         bytes,
                              columns, 1, in + (top * in_row + left) * bytes,
                              args->stride[0] * in_row, args->stride[1],
                              y.end - y.first, x.end - x.first,
                              number >= TN_LANES);
        }
    }
}

/* The same where by_lines: line holds the lanes of a line of each window, from
 * lane 0 on, then those of the next line. Folds them into the first and leaves
 * these as lanes; returns how many. Lines are met in leaps, which the processor
 * does not foresee: those of the next plane are asked for in between. */
static int64_t sum_lines(const pooling *p, const char *in, char *line,
                         char *lane, int64_t low, int64_t high)
{
    const tn_pool_args *args = p->args;
    int64_t columns = args->out_size[1], in_row = args->in.stride[2];
    int64_t width = args->kernel[1], lines = TN_LANES / width;
    int64_t row = columns * width, rows = high - low;
    window_range y;
    const char *next = in + (low * args->stride[0] + args->in_size[0]) *
                                in_row * p->bytes;
    int64_t some = rows * in_row * p->bytes;
    if (has_wide_windows(p))
        for (int64_t i = 0; i < rows; i++)
            p->all->windows->sum_columns(
                (float *)line + i * row,
                (const float *)in + (low + i) * args->stride[0] * in_row,
                in_row, args->kernel[0], lines, row);
    for (int64_t k = 0; k < args->kernel[0] && !has_wide_windows(p);
         k++, next += some) {
        for (int64_t at = 0; at < some; at += 64)
            __builtin_prefetch(next + at, 0, 2);
        if (windows_inside(args, 0, k, low, high, &y))
            p->routines->copy(
                line + (k % lines * rows + y.first - low) * row * p->bytes, row,
                1, in + (y.first * args->stride[0] + y.at) * in_row * p->bytes,
                args->stride[0] * in_row, 1, y.end - y.first, row, k >= lines);
    }
    if (!has_wide_windows(p))
        fold_lanes(p, line, lines, rows * row);
    p->all->transpose[p->bytes](lane, rows * columns, line, width,
                                rows * columns, width, 0);
    return width;
}

/* One window, which is the plane: a row as any other. */
static bool is_whole(const tn_pool_args *args)
{
    return args->out_size[0] == 1 && args->out_size[1] == 1 &&
           args->kernel[0] == args->in_size[0] &&
           args->kernel[1] == args->in_size[1] && args->pad[0] == 0 &&
           args->pad[1] == 0 && is_contiguous(&args->in, args->in_size);
}

static bool avg_plane(const pooling *p, int64_t plane)
{
    const tn_pool_args *args = p->args;
    int64_t columns = args->out_size[1], bytes = p->bytes;
    bool lines = by_lines(args);
    int64_t most = lines ? args->kernel[1] : lane_count(args);
    const char *in = plane_of(p, &args->in, plane, bytes);
    char *out = plane_of(p, &args->out, plane, bytes);
    if (is_whole(args)) {
        const int64_t count = args->kernel[0] * args->kernel[1];
        p->all->fold[TN_REDUCE_SUM][p->type](out, in, count, 1, 0, 0);
        p->routines->divide(out, 1, out, 1, 1, 1, p->count[0], p->count[1]);
        return true;
    }
    if (by_narrow_windows(args)) {
        char *room = tn__cpu_scratch((size_t)(args->kernel[0] *
                                              args->kernel[1] * columns *
                                              bytes));
        if (room)
            p->routines->mean(out, in, args->in.stride[2],
                              args->stride[0] * args->in.stride[2],
                              args->kernel[0], args->kernel[1],
                              args->out_size[0], columns, room,
                              p->count[0][0] * p->count[1][0]);
        return room != NULL;
    }
    int64_t all = (most + (lines ? TN_LANES : 0)) * p->band * columns * bytes;
    char *lane = tn__cpu_scratch((size_t)all);
    if (!lane)
        return false;
    for (int64_t low = 0; low < args->out_size[0]; low += p->band) {
        int64_t high = tn__cpu_min(low + p->band, args->out_size[0]);
        int64_t numel = (high - low) * columns, lanes = most;
        char *line = lane + most * numel * bytes;
        memset(lines ? line : lane, 0,
               (size_t)((lines ? TN_LANES : most) * numel * bytes));
        if (lines)
            lanes = sum_lines(p, in, line, lane, low, high);
        else
            sum_elements(p, in, lane, low, high);
        fold_lanes(p, lane, lanes, numel);
        p->routines->divide(out + low * columns * bytes, columns, lane,
                            columns, high - low, columns, p->count[0] + low,
                            p->count[1]);
    }
    return true;
}

/* Windows that lie apart: an element has one share at most, and the lines of a
 * window are alike. It is added to 0, as a sum of absent ones with it would:
 * -0 becomes 0. */
static void spread_disjoint(const pooling *p, const char *share, char *in)
{
    const tn_pool_args *args = p->args;
    int64_t columns = args->in_size[1], bytes = p->bytes;
    window_range y, x;
    const int64_t *windows = args->out_size;
    memset(in, 0, (size_t)(args->in_size[0] * columns * bytes));
    for (int64_t k = 0; k < args->kernel[0]; k++) {
        if (!windows_inside(args, 0, k, 0, windows[0], &y))
            continue;
        int64_t first =
            k == 0 ? y.end : y.first; /* the first that has a line above */
        if (k > 0 && y.first * args->stride[0] + y.at == 0)
            first++;
        for (int64_t l = 0; l < args->kernel[1] && first > y.first; l++)
            if (windows_inside(args, 1, l, 0, windows[1], &x))
                p->routines->copy(
                    in + ((y.first * args->stride[0] + y.at) * columns +
                          x.first * args->stride[1] + x.at) *
                             bytes,
                    args->stride[0] * columns, args->stride[1],
                    share + (y.first * windows[1] + x.first) * bytes,
                    windows[1], 1, first - y.first, x.end - x.first,
                    args->kernel[0] * args->kernel[1] > 1);
        for (int64_t i = first; i < y.end; i++) {
            char *line = in + (i * args->stride[0] + y.at) * columns * bytes;
            memcpy(line, line - columns * bytes, (size_t)(columns * bytes));
        }
    }
}

/* Each element sums the shares of the windows it lies in, by the number it has
 * in them. */
static bool avg_back_plane(const pooling *p, int64_t plane)
{
    const tn_pool_args *args = p->args;
    int64_t columns = args->in_size[1], lanes = lane_count(args);
    int64_t windows[2] = {args->out_size[0], args->out_size[1]};
    int64_t bytes = p->bytes, numel = args->in_size[0] * columns;
    window_range y, x;
    bool apart = args->kernel[0] <= args->stride[0] &&
                 args->kernel[1] <= args->stride[1];
    if (args->stride[0] == args->kernel[0] &&
        args->stride[1] == args->kernel[1] && args->pad[0] == 0 &&
        args->pad[1] == 0 &&
        windows[0] * args->kernel[0] == args->in_size[0] &&
        windows[1] * args->kernel[1] == columns && !is_whole(args)) {
        p->routines->mean_backward(plane_of(p, &args->in, plane, bytes),
                                   args->kernel[0], args->kernel[1],
                                   plane_of(p, &args->out, plane, bytes),
                                   args->out.stride[2], windows[0], windows[1],
                                   p->count[0][0] * p->count[1][0]);
        return true;
    }
    lanes = apart ? 0 : lanes;
    char *share = tn__cpu_scratch(
        (size_t)((windows[0] * windows[1] + lanes * numel) * bytes));
    char *lane = share + windows[0] * windows[1] * bytes;
    if (!share)
        return false;
    p->routines->divide(share, windows[1],
                        plane_of(p, &args->out, plane, bytes),
                        args->out.stride[2], windows[0], windows[1],
                        p->count[0], p->count[1]);
    if (is_whole(args)) {
        double value = 0; /* room for either type; 0 as in spread_disjoint */
        p->more->add_to(&value, share, 1);
        p->all->fill[p->type](plane_of(p, &args->in, plane, bytes),
                              numel > 1 ? (char *)&value : share, NULL, NULL,
                              numel, 1);
        return true;
    }
    if (apart) {
        spread_disjoint(p, share, plane_of(p, &args->in, plane, bytes));
        return true;
    }
    memset(lane, 0, (size_t)(lanes * numel * bytes));
    for (int64_t k = 0; k < args->kernel[0]; k++) {
        if (!windows_inside(args, 0, k, 0, windows[0], &y))
            continue;
        for (int64_t l = 0; l < args->kernel[1]; l++) {
            if (!windows_inside(args, 1, l, 0, windows[1], &x))
                continue;
            int64_t number = k * args->kernel[1] + l;
            int64_t top = y.first * args->stride[0] + y.at;
            int64_t left = x.first * args->stride[1] + x.at;
            p->routines->copy(
                lane +
                    (number % TN_LANES * numel + top * columns + left) * bytes,
                args->stride[0] * columns, args->stride[1],
                share + (y.first * windows[1] + x.first) * bytes, windows[1], 1,
                y.end - y.first, x.end - x.first, number >= TN_LANES);
        }
    }
    fold_lanes(p, lane, lanes, numel);
    memcpy(plane_of(p, &args->in, plane, bytes), lane,
           (size_t)(numel * bytes));
    return true;
}

/* ---- the call ------------------------------------------------------------------------ */

static void run_task(void *context, int64_t i)
{
    static bool (*const of[])(const pooling *, int64_t) = {
        max_plane, max_back_plane, avg_plane, avg_back_plane, greatest_plane};
    pooling *p = context;
    int64_t end = tn__cpu_min((i + 1) * p->planes_per_task, p->planes);
    unsigned fpu = tn__cpu_fpu_set();
    for (int64_t plane = i * p->planes_per_task; plane < end; plane++)
        if (!of[p->args->kind](p, plane))
            atomic_store(&p->failed, 1);
    tn__cpu_fpu_restore(fpu);
}

/* By how many elements a window divides: those within the image, or between
 * the ends of its padding; all axes' in one where the divisor is given. */
static void count_elements(const tn_pool_args *args, int a, int64_t *count)
{
    int64_t pad = args->pad[a], low = args->count_pad ? -pad : 0;
    int64_t high = args->in_size[a] + (args->count_pad ? pad : 0);
    for (int64_t i = 0; i < args->out_size[a]; i++) {
        int64_t start = i * args->stride[a] - pad;
        int64_t end = tn__cpu_min(start + args->kernel[a], high);
        count[i] = args->divisor ? (a == 0 ? args->divisor : 1)
                                 : end - max_i64(start, low);
    }
}

static tn_status declined(const char *why)
{
    return tn__cpu_host->fail(TN_ERR_UNSUPPORTED, "pool: %s", why);
}

static tn_status run(tn_queue *queue, const tn_pool_args *args)
{
    bool back =
        args->kind == TN_POOL_MAX_BACK || args->kind == TN_POOL_AVG_BACK;
    bool indexed = args->kind == TN_POOL_MAX || args->kind == TN_POOL_MAX_BACK;
    bool max = indexed || args->kind == TN_POOL_GREATEST;
    int64_t area = args->kernel[0] * args->kernel[1];
    if (args->kind > TN_POOL_GREATEST)
        return declined("it knows the greatest and the mean");
    if (args->in.dtype != TN_F32 && args->in.dtype != TN_F64)
        return declined("it takes float32 and float64");
    if (!max && area > MAX_AREA)
        return declined("means of windows of up to 1024 elements alone");
    if (args->in_size[0] * args->in_size[1] > INT32_MAX)
        return declined("planes of up to 2^31 elements alone");
    if (args->in.stride[3] != 1 || !is_contiguous(&args->out, args->out_size) ||
        (back && !is_contiguous(&args->in, args->in_size)) ||
        (indexed && !is_contiguous(&args->index, args->out_size)))
        return declined("it takes lines without gaps");
    unsigned type = args->in.dtype == TN_F32 ? CPU_F32 : CPU_F64;
    atomic_int outside = 0;
    pooling p = {.args = args, .routines = queue->routines->pool[type],
                 .outside = &outside,
                 .more = queue->routines->conv[type],
                 .all = queue->routines,
                 .bytes = type == CPU_F32 ? 4 : 8,
                 .type = type,
                 .planes = args->count * args->channels};
    static const float lowest_f32 = -__builtin_inff();
    static const double lowest_f64 = -__builtin_inf();
    p.lowest = type == CPU_F32 ? (const void *)&lowest_f32 : &lowest_f64;
    int64_t rows = args->out_size[0], columns = args->out_size[1];
    p.band = tn__cpu_min(
        max_i64(BAND / (max ? 1 : lane_count(args)) / columns, 1), rows);
    int64_t work =
        max_i64(args->in_size[0] * args->in_size[1], rows * columns * area);
    p.planes_per_task = TASK_WORK / work + 1;
    size_t table = 0;
    if (args->kind == TN_POOL_MAX)
        table = (size_t)((p.band + 1) * columns) * sizeof *p.place;
    else if (!max)
        table = (size_t)(rows + columns) * sizeof *p.count[0];
    void *owned = table > 0 ? malloc(table) : NULL;
    if (table > 0 && !owned)
        return tn__cpu_host->fail(TN_ERR_MEMORY, "pool: out of memory");
    if (args->kind == TN_POOL_MAX) {
        p.place = owned;
        p.first = p.place + p.band * columns;
        find_places(&p);
    } else if (!max) {
        p.count[0] = owned;
        p.count[1] = p.count[0] + rows;
        for (int a = 0; a < 2; a++)
            count_elements(args, a, p.count[a]);
    }
    int64_t tasks = (p.planes + p.planes_per_task - 1) / p.planes_per_task;
    if (tasks == 1)
        run_task(&p, 0);
    else
        tn__cpu_host->parallel_for(tasks, run_task, &p);
    free(owned);
    if (atomic_load(&outside)) /* the general way says which */
        return declined("an index lies outside its plane");
    return atomic_load(&p.failed)
               ? tn__cpu_host->fail(TN_ERR_MEMORY, "pool: out of memory")
               : TN_OK;
}

const tn_pool_extension tn__cpu_pool_extension = {
    .size = sizeof(tn_pool_extension), .run = run};
