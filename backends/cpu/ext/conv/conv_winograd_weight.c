/* conv_winograd_weight.c: the gradient of conv2d's weights for windows of 3 x 3
 * and 1 x 3, by Winograd's method:
 *
 *     dg = G^T [sum over tiles of (A dY A^T) * (B^T d B)] G
 *
 * A tile is 2 x 2 pixels of the result (or 2 pixels of a row), d the window of
 * pixels that it reads, and dY the gradient of its pixels. A dY A^T is called a
 * cotangent. conv_winograd.c explains the other symbols. Each of the 16 (4)
 * elements of the sum is a matrix product over tiles: window[channel][tile]
 * times cotangent[tile][channel].
 *
 * Blocks of tiles are divided into shares. Each share has its own sums, which
 * are added in order at the end. The channels of `in` are divided into ranges.
 * A task computes one range of one share. */
#include <string.h>

#include "conv_winograd.h"
#include "../../cpu_device.h"

enum {
    /* Number of tiles that are summed before their sum is added to the result.
     * Short sums keep the rounding error small. */
    SUMMED = 32,
    RANGE = 64, /* number of channels of `in` in a range */
    /* approximate number of elements of a block's windows and cotangents */
    BLOCK_ELEMENTS = 262144,
    /* Minimum number of tiles of a block. With smaller blocks, the sums would
     * be read and written more often. */
    MIN_TILES = 64,
    /* Maximum number of tiles of a block if tiles have one row. If they have
     * two rows, the number is half as large. */
    MAX_TILES = 256,
    TASK_WORK = 2097152, /* multiply-adds of a task */
    MAX_TASKS = 64,
    /* Blocks are divided among shares, and each share has its own sums. This is
     * the maximum number of elements of all these sums but the first. It limits
     * the number of shares. */
    SHARES_ELEMENTS = 2097152
};

typedef struct gradient {
    const winograd *w;
    const tn_conv_args *args;
    /* width is the number of channels of the sums, rounded up to whole vectors.
     * panel is the number of channels in a panel, a part of the sums. */
    int64_t width, panel;
    /* shares is the number of sets of blocks that have their own sums. range is
     * the number of channels of `in` in a range, ranges the number of ranges.
     */
    int64_t shares, range, ranges;
    /* dimensions: [share][group][range][element][channel][width] */
    float *sums;
    atomic_int failed;
} gradient;

static float *sums_of(const gradient *g, int64_t share, int64_t group,
                      int64_t range)
{
    int64_t at = (share * g->w->groups + group) * g->ranges + range;
    return g->sums + at * g->w->elements * g->range * g->width;
}

/* Copies the pixels of adjacent tiles to pixels[row][pixel][channel], for
 * channels [o, o + width). Pixels outside the image are zeros. */
static void gather_run(const gradient *g, const tile_run *run, int64_t group,
                       int64_t o, int64_t width, float *pixels)
{
    const conv_images *to = &g->w->to;
    const int64_t high = g->w->high;
    int64_t row = high * run->row, column = 2 * run->column;
    int64_t rows = tn__cpu_min(high, to->size[0] - row);
    int64_t count = tn__cpu_min(2 * run->count, to->size[1] - column);
    float *in = (float *)to->memory + run->image * to->stride[0] +
                row * to->stride[2] + column +
                (group * g->w->to_channels + o) * to->stride[1];
    if (rows < high || count < 2 * run->count)
        memset(pixels, 0,
               (size_t)(2 * high * run->count * width) * sizeof *pixels);
    for (int64_t i = 0; i < rows; i++)
        tn__cpu_conv_gather(&(conv_transfer){
            .routines = g->w->general,
            .bytes = sizeof *in,
            .channels = tn__cpu_min(width, g->w->to_channels - o),
            .rows = 1,
            .columns = count,
            .images = (char *)(in + i * to->stride[2]),
            .channel = to->stride[1],
            .step = 1,
            .pixels = (char *)(pixels + i * 2 * run->count * width),
            .width = width});
}

/* Multiplies element e of a block's transformed windows with element e of its
 * transformed gradients. Adds the products to sums[channel][..], or stores them
 * if add is false. */
static void multiply(const gradient *g, const winograd_windows *v, int64_t e,
                     const float *y, float *sums, bool add)
{
    const int64_t channels = v->channels, tiles = v->end - v->first;
    const tn_cpu_conv_routines *products = g->w->products;
    const void *x[RANGE];
    int64_t at[MAX_TILES];
    for (int64_t t = 0; t < tiles; t++)
        at[t] = t;
    for (int64_t c = 0; c < channels; c++)
        x[c] = v->v + e * v->plane + c * v->step;
    for (int64_t o = 0; o < g->width; o += g->panel) {
        int64_t width = tn__cpu_min(g->panel, g->width - o);
        for (int64_t t = 0; t < tiles; t += SUMMED)
            products->tiles(channels, width / products->lanes,
                            tn__cpu_min(SUMMED, tiles - t), x, at + t,
                            y + o * g->w->block + t * width, width, sums + o,
                            g->width, 1,
                            add || t > 0 ? TN_CPU_TILE_ADD : 0);
    }
}

static void run_task(void *context, int64_t i)
{
    gradient *g = context;
    const winograd *w = g->w;
    int64_t range = i % g->ranges, share = i / g->ranges % g->shares;
    int64_t group = i / g->ranges / g->shares, c = range * g->range;
    int64_t channels = tn__cpu_min(g->range, w->from_channels - c);
    int64_t each = (w->blocks + g->shares - 1) / g->shares;
    int64_t step = w->block + WINOGRAD_BEYOND;
    int64_t plane = winograd_plane(channels * step);
    int64_t y_plane = winograd_plane(g->width * w->block);
    float *v = tn__cpu_scratch((size_t)(w->elements * (plane + y_plane) +
                                        winograd_max_frame(w) +
                                        2 * w->high * w->block * g->panel) *
                               sizeof *v);
    if (!v) {
        atomic_store(&g->failed, 1);
        return;
    }
    float *y = v + w->elements * plane;
    float *pixels = y + w->elements * y_plane;
    float *frame = pixels + 2 * w->high * w->block * g->panel;
    float *sums = sums_of(g, share, group, range);
    unsigned fpu = tn__cpu_fpu_set();
    int64_t last = tn__cpu_min((share + 1) * each, w->blocks);
    for (int64_t b = share * each; b < last; b++) {
        int64_t first = b * w->block;
        int64_t end = tn__cpu_min(first + w->block, w->total);
        const winograd_windows windows = {.channel =
                                              group * w->from_channels + c,
                                          .channels = channels,
                                          .first = first,
                                          .end = end,
                                          .frame = frame,
                                          .v = v,
                                          .step = step,
                                          .plane = plane};
        tn__cpu_winograd_windows(w, &windows);
        for (int64_t o = 0; o < g->width; o += g->panel)
            for (int64_t t = first; t < end;) {
                tile_run run = winograd_tile_run(w, t, end);
                int64_t width = tn__cpu_min(g->panel, g->width - o);
                gather_run(g, &run, group, o, width, pixels);
                w->routines->cotangents(
                    y + o * w->block + (t - first) * width, y_plane, pixels,
                    2 * run.count * width, width, run.count);
                t += run.count;
            }
        for (int64_t e = 0; e < w->elements; e++)
            multiply(g, &windows, e, y + e * y_plane,
                     sums + e * g->range * g->width, b > share * each);
    }
    tn__cpu_fpu_restore(fpu);
}

/* Adds up the sums of all shares (sets of blocks, each with its own sums) for
 * one channel of a group, transforms the result to the gradient of the filters
 * and writes it. */
static void write_channel(void *context, int64_t i)
{
    gradient *g = context;
    const winograd *w = g->w;
    int64_t group = i / w->from_channels, c = i % w->from_channels;
    int64_t plane = g->range * g->width, at = c % g->range * g->width;
    float *taps = tn__cpu_scratch((size_t)(w->taps * g->width) * sizeof *taps);
    if (!taps) {
        atomic_store(&g->failed, 1);
        return;
    }
    float *sums = sums_of(g, 0, group, c / g->range) + at;
    unsigned fpu = tn__cpu_fpu_set();
    for (int64_t s = 1; s < g->shares; s++) {
        const float *more = sums_of(g, s, group, c / g->range) + at;
        for (int64_t e = 0; e < w->elements; e++)
            w->products->add_to(sums + e * plane, more + e * plane, g->width);
    }
    w->routines->taps(taps, g->width, sums, plane);
    float *out = (float *)tn__cpu_at(g->args->weight.buffer,
                                     g->args->weight.offset, 4);
    w->general->transpose[4](out + group * w->weight_group + c * w->weight_from,
                             w->weight_to, taps, g->width, w->taps,
                             w->to_channels, 0);
    tn__cpu_fpu_restore(fpu);
}

tn_status tn__cpu_winograd_weight(winograd *w, const tn_conv_args *args)
{
    gradient g = {.w = w, .args = args, .panel = 2 * w->products->lanes,
                  .width = conv_round_up(w->to_channels, w->products->lanes),
                  .range = tn__cpu_min(w->from_channels, RANGE)};
    g.ranges = (w->from_channels + g.range - 1) / g.range;
    w->block = BLOCK_ELEMENTS / w->elements / (g.range + g.width) / MIN_TILES *
               MIN_TILES;
    w->block = w->block < MIN_TILES
                   ? MIN_TILES
                   : tn__cpu_min(w->block, MAX_TILES / w->high);
    w->blocks = (w->total + w->block - 1) / w->block;
    double each = (double)(w->elements * w->from_channels * g.width);
    double tasks = each * (double)w->total / TASK_WORK;
    double shares = (tasks < MAX_TASKS ? tasks : MAX_TASKS) / (double)g.ranges;
    double room = SHARES_ELEMENTS / (each * (double)w->groups) + 1;
    shares = shares < room ? shares : room;
    g.shares = tn__cpu_min(shares < 1 ? 1 : (int64_t)shares, w->blocks);
    int64_t blocks = (w->blocks + g.shares - 1) / g.shares;
    /* Rounding `blocks` up may leave the last shares without blocks. Drops
     * these shares. */
    g.shares = (w->blocks + blocks - 1) / blocks;
    g.sums = tn__cpu_memory_acquire((size_t)(g.shares * w->groups * g.ranges *
                                             w->elements * g.range * g.width) *
                                    sizeof *g.sums);
    if (g.sums) {
        tn__cpu_host->parallel_for(g.shares * w->groups * g.ranges, run_task,
                                   &g);
        tn__cpu_host->parallel_for(w->groups * w->from_channels,
                                   write_channel, &g);
    }
    bool good = g.sums && !atomic_load(&g.failed);
    tn__cpu_memory_release(g.sums);
    return good ? TN_OK
                : tn__cpu_host->fail(TN_ERR_MEMORY,
                                     "conv: out of memory for the gradient of "
                                     "the weights");
}
