/* cpu_pool_mean.c: avg_pool2d and its gradient, in the fixed order of summation
 * of plugin_program.h. That order has TN_LANES partial sums, called lanes.
 * Element k of a window is added to lane k % TN_LANES, and finally the lanes
 * are added by halves. Here each lane is an array with one value for each
 * window: lane[l][window]. */
#include <string.h>

#include "cpu_pool.h"

/* Adds the lanes of each window's sum to its first lane. */
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

/* Returns whether windows are adjacent and their width divides TN_LANES, the
 * number of partial sums (lanes) of a window. One row of a window then belongs
 * to `width` consecutive lanes, so a row of the image is added to these lanes
 * of all windows in the order in which it is in memory. Row k + TN_LANES /
 * width of a window belongs to the same lanes as row k. */
static bool by_lines(const tn_pool_args *args)
{
    int64_t width = args->kernel[1];
    return TN_LANES % width == 0 && args->stride[1] == width &&
           args->pad[1] == 0 && args->out_size[1] * width <= args->in_size[1] &&
           args->kernel[0] * width > TN_LANES;
}

/* Returns whether windows are adjacent, one or two columns wide, all within the
 * image, and have at most TN_LANES elements. Each element of a window is then a
 * partial sum (lane) of its own. */
static bool by_narrow_windows(const tn_pool_args *args)
{
    const int64_t *kernel = args->kernel, *windows = args->out_size;
    return kernel[1] <= 2 && kernel[0] * kernel[1] <= TN_LANES &&
           args->stride[1] == kernel[1] && args->pad[0] == 0 &&
           args->pad[1] == 0 && windows[1] * kernel[1] <= args->in_size[1] &&
           (windows[0] - 1) * args->stride[0] + kernel[0] <= args->in_size[0];
}

int64_t tn__cpu_pool_lane_count(const tn_pool_args *args)
{
    return tn__cpu_min(args->kernel[0] * args->kernel[1], TN_LANES);
}

/* Adds the elements of the windows in rows [low, high) of the output to
 * lane[l][window], where l is the partial sum to which the element belongs in
 * the order of plugin_program.h. */
static void sum_elements(const pooling *p, const char *in, char *lane,
                         int64_t low, int64_t high)
{
    const tn_pool_args *args = p->args;
    int64_t columns = args->out_size[1], in_row = args->in.stride[2];
    int64_t bytes = p->bytes, numel = (high - low) * columns;
    window_range y, x;
    for (int64_t k = 0; k < args->kernel[0]; k++) {
        if (!tn__cpu_pool_windows_inside(args, 0, k, low, high, &y))
            continue;
        for (int64_t l = 0; l < args->kernel[1]; l++) {
            if (!tn__cpu_pool_windows_inside(args, 1, l, 0, columns, &x))
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

/* Sums the elements of the windows in rows [low, high) of the output to
 * lane[lane][window], if by_lines(). First adds row k of all windows to line[k
 * % lines], which has `width` lanes of each window. Then adds up these arrays
 * and transposes the result. Returns the number of lanes that remain. In
 * between, prefetches rows of the next plane, because the hardware prefetcher
 * does not predict these accesses. */
static int64_t sum_lines(const pooling *p, const char *in, char *line,
                         char *lane, int64_t low, int64_t high)
{
    const tn_pool_args *args = p->args;
    int64_t columns = args->out_size[1], in_row = args->in.stride[2];
    int64_t width = args->kernel[1], lines = TN_LANES / width;
    int64_t row = columns * width, rows = high - low;
    window_range y;
    const char *next =
        in + (low * args->stride[0] + args->in_size[0]) * in_row * p->bytes;
    int64_t some = rows * in_row * p->bytes;
    if (tn__cpu_pool_has_wide_windows(p))
        for (int64_t i = 0; i < rows; i++)
            p->all->windows->sum_columns(
                (float *)line + i * row,
                (const float *)in + (low + i) * args->stride[0] * in_row,
                in_row, args->kernel[0], lines, row);
    for (int64_t k = 0;
         k < args->kernel[0] && !tn__cpu_pool_has_wide_windows(p);
         k++, next += some) {
        for (int64_t at = 0; at < some; at += 64)
            __builtin_prefetch(next + at, 0, 2);
        if (tn__cpu_pool_windows_inside(args, 0, k, low, high, &y))
            p->routines->copy(
                line + (k % lines * rows + y.first - low) * row * p->bytes, row,
                1, in + (y.first * args->stride[0] + y.at) * in_row * p->bytes,
                args->stride[0] * in_row, 1, y.end - y.first, row, k >= lines);
    }
    if (!tn__cpu_pool_has_wide_windows(p))
        fold_lanes(p, line, lines, rows * row);
    p->all->transpose[p->bytes](lane, rows * columns, line, width,
                                rows * columns, width, 0);
    return width;
}

/* Returns whether there is only one window, the whole plane. The plane is then
 * summed as one row. */
static bool is_whole(const tn_pool_args *args)
{
    return args->out_size[0] == 1 && args->out_size[1] == 1 &&
           args->kernel[0] == args->in_size[0] &&
           args->kernel[1] == args->in_size[1] && args->pad[0] == 0 &&
           args->pad[1] == 0 && pool_is_contiguous(&args->in, args->in_size);
}

/* Computes the means of whole planes, which are `next` elements apart. */
static void mean_of_planes(const pooling *p, const char *in, char *out,
                           int64_t planes, int64_t next)
{
    enum { BLOCK = 64 };
    const int64_t numel = p->args->kernel[0] * p->args->kernel[1];
    int64_t count[BLOCK];
    for (int64_t i = 0; i < BLOCK; i++)
        count[i] = p->count[1][0];
    p->all->fold[TN_REDUCE_SUM][p->type](out, in, numel, planes, next,
                                         p->all->family->reduce_ahead);
    for (int64_t some; planes > 0; planes -= some, out += some * p->bytes) {
        some = tn__cpu_min(planes, BLOCK);
        p->routines->divide(out, some, out, some, 1, some, p->count[0], count);
    }
}

bool tn__cpu_pool_mean_planes(const pooling *p, int64_t first, int64_t end)
{
    const tn_pool_args *args = p->args;
    const int64_t channels = args->channels, next = args->in.stride[1];
    const int64_t *out = args->out.stride;
    if (!is_whole(args) || out[1] != 1 || out[0] != channels ||
        (args->count > 1 && args->in.stride[0] != channels * next))
        return false;
    mean_of_planes(p, pool_plane(p, &args->in, first, p->bytes),
                   pool_plane(p, &args->out, first, p->bytes), end - first,
                   next);
    return true;
}

/* Returns whether windows are long pieces of a single row, all within the
 * image. Each is then summed as a row: avg_pool1d of 16 x 64 x 512 in windows of
 * 32 takes 0.2 ms, and 0.64 ms by element (Zen 5, 2026-11). */
static bool by_long_pieces(const tn_pool_args *args)
{
    const int64_t *kernel = args->kernel, *windows = args->out_size;
    return kernel[0] == 1 && kernel[1] >= TN_LANES && kernel[1] <= TN_CHUNK &&
           args->pad[0] == 0 && args->pad[1] == 0 &&
           (windows[0] - 1) * args->stride[0] < args->in_size[0] &&
           (windows[1] - 1) * args->stride[1] + kernel[1] <= args->in_size[1];
}

static void mean_of_pieces(const pooling *p, const char *in, char *out)
{
    const tn_pool_args *args = p->args;
    const int64_t rows = args->out_size[0], columns = args->out_size[1];
    for (int64_t y = 0; y < rows; y++)
        p->all->fold[TN_REDUCE_SUM][p->type](
            out + y * columns * p->bytes,
            in + y * args->stride[0] * args->in.stride[2] * p->bytes,
            args->kernel[1], columns, args->stride[1], 0);
    p->routines->divide(out, columns, out, columns, rows, columns, p->count[0],
                        p->count[1]);
}

bool tn__cpu_pool_mean(const pooling *p, int64_t plane)
{
    const tn_pool_args *args = p->args;
    int64_t columns = args->out_size[1], bytes = p->bytes;
    bool lines = by_lines(args);
    int64_t most = lines ? args->kernel[1] : tn__cpu_pool_lane_count(args);
    const char *in = pool_plane(p, &args->in, plane, bytes);
    char *out = pool_plane(p, &args->out, plane, bytes);
    if (is_whole(args)) {
        mean_of_planes(p, in, out, 1, 0);
        return true;
    }
    if (by_long_pieces(args)) {
        mean_of_pieces(p, in, out);
        return true;
    }
    if (by_narrow_windows(args)) {
        char *room = tn__cpu_scratch(
            (size_t)(args->kernel[0] * args->kernel[1] * columns * bytes));
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
        p->routines->divide(out + low * columns * bytes, columns, lane, columns,
                            high - low, columns, p->count[0] + low,
                            p->count[1]);
    }
    return true;
}

/* Computes the gradient for windows that do not overlap. A window's share is
 * its gradient divided by its count. The gradient of an element is the share of
 * the window that contains it, or 0 if none does. Shares are added to 0, as in
 * a sum over several windows, so -0 becomes 0. */
static void spread_disjoint(const pooling *p, const char *share, char *in)
{
    const tn_pool_args *args = p->args;
    int64_t columns = args->in_size[1], bytes = p->bytes;
    window_range y, x;
    const int64_t *windows = args->out_size;
    memset(in, 0, (size_t)(args->in_size[0] * columns * bytes));
    for (int64_t k = 0; k < args->kernel[0]; k++) {
        if (!tn__cpu_pool_windows_inside(args, 0, k, 0, windows[0], &y))
            continue;
        /* For windows with an index of at least `first`, the row above belongs
         * to the same windows and has the same values, so it is copied. */
        int64_t first = k == 0 ? y.end : y.first;
        if (k > 0 && y.first * args->stride[0] + y.at == 0)
            first++;
        for (int64_t l = 0; l < args->kernel[1] && first > y.first; l++)
            if (tn__cpu_pool_windows_inside(args, 1, l, 0, windows[1], &x))
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

/* Computes the gradient of a plane. A window's share is its gradient divided by
 * its count. The gradient of an element is the sum of the shares of all windows
 * that contain it. If the element has index i in a window, the share is added
 * in lane i % TN_LANES. */
bool tn__cpu_pool_mean_backward(const pooling *p, int64_t plane)
{
    const tn_pool_args *args = p->args;
    int64_t columns = args->in_size[1], lanes = tn__cpu_pool_lane_count(args);
    int64_t windows[2] = {args->out_size[0], args->out_size[1]};
    int64_t bytes = p->bytes, numel = args->in_size[0] * columns;
    window_range y, x;
    bool apart = args->kernel[0] <= args->stride[0] &&
                 args->kernel[1] <= args->stride[1];
    if (args->stride[0] == args->kernel[0] &&
        args->stride[1] == args->kernel[1] && args->pad[0] == 0 &&
        args->pad[1] == 0 && windows[0] * args->kernel[0] == args->in_size[0] &&
        windows[1] * args->kernel[1] == columns && !is_whole(args)) {
        p->routines->mean_backward(pool_plane(p, &args->in, plane, bytes),
                                   args->kernel[0], args->kernel[1],
                                   pool_plane(p, &args->out, plane, bytes),
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
    p->routines->divide(
        share, windows[1], pool_plane(p, &args->out, plane, bytes),
        args->out.stride[2], windows[0], windows[1], p->count[0], p->count[1]);
    if (is_whole(args)) {
        /* The gradient of one element of the mean, `share`, is added to 0, so
         * that -0 becomes 0. The variable has space for a float or a double. */
        double value = 0;
        p->more->add_to(&value, share, 1);
        p->all->fill[p->type](pool_plane(p, &args->in, plane, bytes),
                              numel > 1 ? (char *)&value : share, NULL, NULL,
                              numel, 1);
        return true;
    }
    if (apart) {
        spread_disjoint(p, share, pool_plane(p, &args->in, plane, bytes));
        return true;
    }
    memset(lane, 0, (size_t)(lanes * numel * bytes));
    for (int64_t k = 0; k < args->kernel[0]; k++) {
        if (!tn__cpu_pool_windows_inside(args, 0, k, 0, windows[0], &y))
            continue;
        for (int64_t l = 0; l < args->kernel[1]; l++) {
            if (!tn__cpu_pool_windows_inside(args, 1, l, 0, windows[1], &x))
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
    memcpy(pool_plane(p, &args->in, plane, bytes), lane,
           (size_t)(numel * bytes));
    return true;
}
