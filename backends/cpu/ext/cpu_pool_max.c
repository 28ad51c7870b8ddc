/* cpu_pool_max.c: max_pool2d with and without indices, and its gradient. */
#include <string.h>

#include "cpu_pool.h"

/* minimum number of windows in a row for max_windows() */
enum { MIN_WINDOWS = 4 };

/* Padding may put the first elements of a window outside the image. Returns the
 * coordinate along axis a of the first element of window i that is within the
 * image. */
static int64_t first_inside(const tn_pool_args *args, int a, int64_t i)
{
    int64_t at = i * args->stride[a] - args->pad[a], d = args->dilation[a];
    return at >= 0 ? at : at + (-at + d - 1) / d * d;
}

/* Fills the tables p->place and p->first, which are the same for all planes. */
void tn__cpu_pool_find_places(const pooling *p)
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

/* Scratch memory for a band (a few rows of the output). */
typedef struct max_work {
    char *element; /* one element of each window of the band */
    int32_t *at;   /* at[window]: the index of the maximum */
} max_work;

/* Copies one element of each window in rows y and columns x to out, without
 * gaps between rows. Windows in other columns, of which this element is outside
 * the image, get the lowest value, which never becomes a maximum. */
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

/* Computes rows [low, high) of the output, with indices. */
static void max_band(const pooling *p, const char *in, char *out,
                     int64_t *index, const max_work *work, int64_t low,
                     int64_t high)
{
    const tn_pool_args *args = p->args;
    int64_t columns = args->out_size[1], width = args->in_size[1];
    window_range y, x;
    for (int64_t i = low; i < high; i++) {
        int32_t row = (int32_t)(first_inside(args, 0, i) * width);
        p->all->op[TN_K_ADD][CPU_I32](work->at + (i - low) * columns, p->first,
                                      &row, NULL, columns, 2);
    }
    p->routines->copy(out, columns, 1, p->lowest, 0, 0, high - low, columns, 0);
    for (int64_t k = 0; k < args->kernel[0]; k++) {
        if (!tn__cpu_pool_windows_inside(args, 0, k, low, high, &y))
            continue;
        for (int64_t l = 0; l < args->kernel[1]; l++) {
            if (!tn__cpu_pool_windows_inside(args, 1, l, 0, columns, &x))
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

/* Computes a plane of wide windows. First computes the maximum of each column
 * over the rows of a window. Then transposes these maxima, so that the columns
 * of a window become rows, and computes the maximum of these rows. index is
 * NULL if indices are not requested. */
static bool max_wide(const pooling *p, const float *in, float *out,
                     int64_t *index)
{
    const tn_pool_args *args = p->args;
    const int64_t rows = args->out_size[0], columns = args->out_size[1];
    const int64_t width = args->kernel[1], n = columns * width;
    const int64_t in_row = args->in.stride[2];
    const int64_t most = tn__cpu_min(pool_max_i64(POOL_BAND / n, 1), p->band);
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

/* Returns whether max_windows() can compute the plane, a vector of windows at a
 * time. Windows must begin at every column or at every second column. Small
 * windows without indices are faster in other ways. */
static bool by_windows(const pooling *p)
{
    const int64_t area = p->args->kernel[0] * p->args->kernel[1];
    return (area > 3 || p->args->kind == TN_POOL_MAX) && p->type == CPU_F32 &&
           p->all->windows->max_windows && p->args->stride[1] <= 2 &&
           p->args->in.stride[2] > 0 && p->args->out_size[1] >= MIN_WINDOWS;
}

/* Returns how many elements of the view are in memory before a plane. They
 * belong to other planes and may be read. */
static int64_t planes_before(const tn_strided *view, const tn_pool_args *args,
                             int64_t plane)
{
    return view->stride[0] < 0 || view->stride[1] < 0
               ? 0
               : plane / args->channels * view->stride[0] +
                     plane % args->channels * view->stride[1];
}

/* Computes the maxima of a plane, a vector of windows at a time. */
static bool max_windows(const pooling *p, int64_t plane, bool indexed)
{
    const tn_pool_args *args = p->args;
    const float *in = (float *)pool_plane(p, &args->in, plane, 4);
    float *out = (float *)pool_plane(p, &args->out, plane, 4);
    int64_t *index =
        indexed ? (int64_t *)pool_plane(p, &args->index, plane, 8) : NULL;
    const int64_t rows = args->out_size[0], columns = args->out_size[1];
    const int64_t in_row = args->in.stride[2], width = args->in_size[1];
    tn_cpu_pool_row row = {.in = in,
                           .low = -planes_before(&args->in, args, plane),
                           .there =
                               (args->in_size[0] - 1) * in_row + width +
                               planes_before(&args->in, args, p->planes - 1) -
                               planes_before(&args->in, args, plane),
                           .in_row = args->dilation[0] * in_row,
                           .line_places = args->dilation[0] * width,
                           .width = args->kernel[1],
                           .apart = args->dilation[1],
                           .step = args->stride[1],
                           .column = -args->pad[1],
                           .size = width,
                           .n = columns,
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

bool tn__cpu_pool_max(const pooling *p, int64_t plane)
{
    const tn_pool_args *args = p->args;
    if (by_windows(p))
        return max_windows(p, plane, true);
    if (tn__cpu_pool_has_wide_windows(p))
        return max_wide(p, (float *)pool_plane(p, &args->in, plane, 4),
                        (float *)pool_plane(p, &args->out, plane, 4),
                        (int64_t *)pool_plane(p, &args->index, plane, 8));
    int64_t rows = args->out_size[0], columns = args->out_size[1];
    int64_t numel = p->band * columns;
    char *memory = tn__cpu_scratch((size_t)(numel * (p->bytes + 4)));
    if (!memory)
        return false;
    max_work work = {.element = memory,
                     .at = (int32_t *)(memory + numel * p->bytes)};
    const char *in = pool_plane(p, &args->in, plane, p->bytes);
    char *out = pool_plane(p, &args->out, plane, p->bytes);
    int64_t *index = (int64_t *)pool_plane(p, &args->index, plane, 8);
    for (int64_t low = 0; low < rows; low += p->band)
        max_band(p, in, out + low * columns * p->bytes, index + low * columns,
                 &work, low, tn__cpu_min(low + p->band, rows));
    return true;
}

/* Computes rows [low, high) of the output, without indices. For each element of
 * the window in turn, updates the maxima of all windows by the routine of
 * TN_K_MAX. The first element is copied to the output instead, if it is within
 * the image for all rows of windows. */
static void greatest_band(const pooling *p, const char *in, char *out,
                          char *element, int64_t low, int64_t high)
{
    const tn_pool_args *args = p->args;
    const int64_t columns = args->out_size[1];
    window_range y, x;
    bool made = false;
    for (int64_t k = 0; k < args->kernel[0]; k++) {
        if (!tn__cpu_pool_windows_inside(args, 0, k, low, high, &y))
            continue;
        for (int64_t l = 0; l < args->kernel[1]; l++) {
            if (!tn__cpu_pool_windows_inside(args, 1, l, 0, columns, &x))
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

bool tn__cpu_pool_max_only(const pooling *p, int64_t plane)
{
    const tn_pool_args *args = p->args;
    if (by_windows(p))
        return max_windows(p, plane, false);
    if (tn__cpu_pool_has_wide_windows(p))
        return max_wide(p, (float *)pool_plane(p, &args->in, plane, 4),
                        (float *)pool_plane(p, &args->out, plane, 4), NULL);
    int64_t rows = args->out_size[0], line = args->out_size[1] * p->bytes;
    char *element = tn__cpu_scratch((size_t)(p->band * line));
    if (!element)
        return false;
    char *out = pool_plane(p, &args->out, plane, p->bytes);
    for (int64_t low = 0; low < rows; low += p->band)
        greatest_band(p, pool_plane(p, &args->in, plane, p->bytes),
                      out + low * line, element, low,
                      tn__cpu_min(low + p->band, rows));
    return true;
}

bool tn__cpu_pool_max_backward(const pooling *p, int64_t plane)
{
    const tn_pool_args *args = p->args;
    char *in = pool_plane(p, &args->in, plane, p->bytes);
    const int64_t *index =
        (const int64_t *)pool_plane(p, &args->index, plane, 8);
    int64_t area = args->in_size[0] * args->in_size[1];
    int64_t numel = args->out_size[0] * args->out_size[1];
    if (p->all->outside(index, area, numel)) {
        atomic_store(p->outside, 1);
        return true;
    }
    memset(in, 0, (size_t)(area * p->bytes));
    p->routines->scatter_add(in, pool_plane(p, &args->out, plane, p->bytes),
                             index, numel);
    return true;
}
