/* conv_winograd.c: conv2d with windows of 3 x 3 and 1 x 3, and the gradient in
 * its images, with fewer multiplications by Winograd's method.
 *
 * A tile of 2 x 2 pixels reads a window of 4 x 4 pixels. It takes 16
 * multiplications per channel instead of 36 (Winograd's F(2 x 2, 3 x 3): Lavin
 * and Gray, arXiv:1509.09308). For 1 x 3, two adjacent pixels of a row read a
 * window of 4 pixels and take 4 multiplications instead of 6:
 *
 *     Y = A^T [(G g G^T) * (B^T d B)] A        y = A^T [(G g) * (B^T d)]
 *
 * where g is the filter, d the window and * is elementwise. Each of the 16 (4)
 * elements in brackets is summed over channels. That is a matrix product for
 * each element, which the routine `tiles` of convolution computes.
 *
 * Filters are transformed once per call, unless they are prepared. A task
 * transforms the windows of a block of tiles, with tiles as lanes. The windows
 * stay in an outer cache while the products read them. A result depends only on
 * its own window, so a NaN affects only the results whose windows contain it.
 * Sums over channels are cut into parts short enough that their error is no
 * larger than that of direct convolution (docs/performance.md). */
#include <string.h>

#include "conv_winograd.h"
#include "../../cpu_device.h"

enum {
    /* number of filters that are transformed together and stored next to each
     * other */
    STRIP = 8,
    /* number of channels that are summed before their sum is added to the
     * result */
    DEPTH = 64,
    /* number of channels of the result that are computed at a time */
    RESULTS = 32,
    BLOCK_ELEMENTS = 262144, /* elements of a block's windows: 1 MiB */
    /* Maximum number of tiles of a block if a tile has two rows (2 x 2 pixels).
     * If a tile has one row (2 pixels), a block has up to twice as many. */
    MAX_TILES = 128,
    /* minimum number of tiles of a block */
    MIN_TILES = 32,
    /* Blocks are made smaller until there are MIN_BLOCKS of them, as long as
     * each has MIN_WORK multiply-adds, about 10 us. */
    MIN_BLOCKS = 16,
    MIN_WORK = 524288,
    /* If the transformed filters have fewer elements than this, one thread
     * transforms all of them. Starting several threads would take longer. */
    FILTERS_WORK = 65536,
    MAX_CHANNELS = 65536,
    /* The estimated costs of transforms. The unit is a quarter of the time of a
     * multiply-add of vectors. COST_ROW is for each row of tiles of a channel,
     * COST_TILES for each four tiles of such a row, COST_FILTER for a filter,
     * COST_TAPS for the gradient of a filter. */
    COST_ROW = 160,
    COST_TILES = 60,
    COST_FILTER = 60,
    COST_TAPS = 16,
    /* If the transformed filters have at least LARGE elements (8 MiB), a block
     * of tiles reads them from memory: COST_LARGE for each 16 elements. 512 to
     * 512 channels on 7 x 7 take 2.3 ms with one image, and 1.2 directly. */
    LARGE = 2097152,
    COST_LARGE = 112,
    /* If tiles have one row, all costs except COST_ROW are divided by this. */
    COST_PART = 4
};

/* Transforms strip i of the filters. A strip is STRIP adjacent filters of a
 * group, and their indices count over all groups. */
static void transform_filters(void *context, int64_t i)
{
    const winograd *w = context;
    int64_t strips = (w->to_channels + STRIP - 1) / STRIP;
    int64_t group = i / strips, first = i % strips * STRIP;
    int64_t count = tn__cpu_min(STRIP, w->to_channels - first);
    const float *from =
        w->weight + group * w->weight_group + first * w->weight_to;
    float *to = w->filters + group * w->elements * w->plane +
                first * w->from_channels;
    _Alignas(64) float taps[9 * STRIP] = {0};
    unsigned fpu = tn__cpu_fpu_set();
    for (int64_t c = 0; c < w->from_channels; c++, to += STRIP) {
        w->general->transpose[4](taps, STRIP, from + c * w->weight_from,
                                 w->weight_to, count, w->taps, 0);
        w->routines->filters(to, w->plane,
                             w->flipped ? taps + (w->taps - 1) * STRIP : taps,
                             w->flipped ? -STRIP : STRIP);
    }
    tn__cpu_fpu_restore(fpu);
}

/* Transforms the sums of tiles [first, end) to pixels and writes them to one
 * channel of the result. */
static void write_channel(const winograd *w, int64_t channel, int64_t first,
                          int64_t end, const float *sums, int64_t plane)
{
    const conv_images *to = &w->to;
    float bias = w->bias ? w->bias[channel * w->bias_stride] : 0;
    float *out = (float *)to->memory + channel * to->stride[1];
    for (int64_t t = first; t < end;) {
        tile_run run = winograd_tile_run(w, t, end);
        int64_t row = w->high * run.row, column = 2 * run.column;
        w->routines->results(
            out + run.image * to->stride[0] + row * to->stride[2] + column,
            to->stride[2], tn__cpu_min(w->high, to->size[0] - row),
            tn__cpu_min(2 * run.count, to->size[1] - column),
            sums + t - first, plane, bias);
        t += run.count;
    }
}

/* For each element of the transformed windows, multiplies the filters of
 * channels [first, first + count) of the result with the windows. Stores the
 * products at sums[element][channel][tile]. */
static void multiply(const winograd *w, const float *filters, int64_t first,
                     int64_t count, const winograd_windows *windows,
                     float *sums, int64_t sums_plane)
{
    const int64_t tiles = windows->end - windows->first;
    const int64_t step = windows->step;
    const float *v = windows->v;
    const int64_t lanes = w->products->lanes;
    const void *x[RESULTS];
    int64_t at[DEPTH];
    for (int64_t p = 0; p < DEPTH; p++)
        at[p] = p * STRIP;
    for (int64_t e = 0; e < w->elements;
         e++, v += windows->plane, filters += w->plane, sums += sums_plane)
        for (int64_t r = 0; r < count; r += RESULTS)
            for (int64_t p = 0; p < w->from_channels; p += DEPTH) {
                int64_t depth = tn__cpu_min(DEPTH, w->from_channels - p);
                int64_t rows = tn__cpu_min(RESULTS, count - r);
                for (int64_t i = 0; i < rows; i++) {
                    int64_t o = first + r + i, strip = o / STRIP * STRIP;
                    x[i] = filters + strip * w->from_channels + p * STRIP + o -
                           strip;
                }
                for (int64_t q = 0; q < tiles; q += 2 * lanes)
                    w->products->tiles(rows, tiles - q > lanes ? 2 : 1, depth,
                                       x, at, v + p * step + q, step,
                                       sums + r * w->block + q, w->block, 1,
                                       p > 0 ? TN_CPU_TILE_ADD : 0);
            }
}

static void run_task(void *context, int64_t i)
{
    winograd *w = context;
    int64_t group = i / w->blocks, first = i % w->blocks * w->block;
    int64_t end = tn__cpu_min(first + w->block, w->total);
    int64_t step = w->block + WINOGRAD_BEYOND;
    int64_t plane = winograd_plane(w->from_channels * step);
    int64_t sums_plane =
        winograd_plane(tn__cpu_min(w->results, w->to_channels) * w->block);
    int64_t frame = winograd_max_frame(w);
    float *v = tn__cpu_scratch(
        (size_t)(w->elements * (plane + sums_plane) + frame +
                 WINOGRAD_BEYOND) *
        sizeof *v);
    if (!v) {
        atomic_store(&w->failed, 1);
        return;
    }
    float *sums = v + w->elements * plane;
    float *rows = sums + w->elements * sums_plane + WINOGRAD_BEYOND;
    unsigned fpu = tn__cpu_fpu_set();
    const winograd_windows windows = {.channel = group * w->from_channels,
                                      .channels = w->from_channels,
                                      .first = first,
                                      .end = end,
                                      .frame = rows,
                                      .v = v,
                                      .step = step,
                                      .plane = plane};
    tn__cpu_winograd_windows(w, &windows);
    for (int64_t o = 0; o < w->to_channels; o += w->results) {
        int64_t count = tn__cpu_min(w->results, w->to_channels - o);
        multiply(w, w->filters + group * w->elements * w->plane, o, count,
                 &windows, sums, sums_plane);
        for (int64_t c = 0; c < count; c++)
            write_channel(w, group * w->to_channels + o + c, first, end,
                          sums + c * w->block, sums_plane);
    }
    for (int64_t t = first; w->then && t < end;) {
        const tile_run run = winograd_tile_run(w, t, end);
        tn__cpu_epilogue_image(w->then, run.image, run.count);
        t += run.count;
    }
    tn__cpu_fpu_restore(fpu);
}

/* Chooses the number of tiles in a block. */
static void cut(winograd *w)
{
    int64_t most =
        BLOCK_ELEMENTS / (w->elements * w->from_channels) / MIN_TILES;
    double work = (double)(w->elements * w->from_channels * w->to_channels);
    w->block = tn__cpu_min(most < 1 ? MIN_TILES : most * MIN_TILES,
                           2 / w->high * MAX_TILES);
    while (w->block > MIN_TILES && w->total < MIN_BLOCKS * w->block &&
           work * (double)w->block > MIN_WORK)
        w->block = conv_round_up(w->block / 2, MIN_TILES);
    w->blocks = (w->total + w->block - 1) / w->block;
    /* The windows of a block that are larger than L2 are read once: then the
     * sums of many channels are stored. */
    const int64_t windows = w->elements * w->from_channels * w->block;
    w->results = RESULTS;
    if (windows > BLOCK_ELEMENTS / 2)
        w->results = BLOCK_ELEMENTS / (w->elements * w->block) / RESULTS *
                     RESULTS;
    w->results = w->results < RESULTS ? RESULTS : w->results;
}

/* Returns whether Winograd's method is estimated to be cheaper than direct
 * convolution. The unit of both costs is a quarter of the time of a
 * multiply-add of vectors. */
static bool pays(const winograd *w, uint32_t kind)
{
    const double lanes = (double)w->products->lanes;
    double pairs = (double)(w->from_channels * w->to_channels);
    double channels = (double)(w->from_channels + w->to_channels);
    double tiles = (double)w->total;
    double rows = tiles / (double)w->tiles[1];
    double fours = (double)((w->tiles[1] + 3) / 4);
    double part = w->high == 2 ? 1 : 1.0 / COST_PART;
    /* number of multiply-adds of a tile for one pair of channels */
    double pixels = (double)(2 * w->high * w->taps);
    double direct = 4 * pixels * pairs * tiles / lanes;
    double whole = (double)conv_round_up(w->total, w->products->lanes);
    double here = 4 * (double)w->elements * pairs * whole / lanes +
                  rows * channels * (COST_ROW + part * COST_TILES * fours) +
                  part * (kind == TN_CONV_WEIGHT ? COST_TAPS : COST_FILTER) *
                      pairs;
    const double filters = (double)w->elements * pairs;
    if (kind != TN_CONV_WEIGHT && filters * (double)w->groups >= LARGE)
        here += (double)w->blocks * filters * COST_LARGE / 16;
    return here < 0.9 * direct;
}

static bool suits(const tn_conv_args *args)
{
    bool line = args->kernel[0] == 1 && args->pad[0] == 0;
    bool good =
        args->in.stride[3] == 1 && args->out.stride[3] == 1 &&
        args->weight.stride[3] == 1 && args->kernel[1] == 3 &&
        (line || (args->kernel[0] == 3 && args->weight.stride[2] == 3)) &&
        args->in_channels / args->groups <= MAX_CHANNELS && args->count > 0;
    for (int a = 0; a < 2; a++)
        good = good && args->stride[a] == 1 && args->dilation[a] == 1 &&
               args->in_size[a] > 0 && args->out_size[a] > 0;
    return good;
}

static void set_up(winograd *w, const tn_conv_args *args)
{
    bool forward = args->kind != TN_CONV_INPUT;
    conv_images in = tn__cpu_conv_images(&args->in, args->in_size, 4);
    conv_images out = tn__cpu_conv_images(&args->out, args->out_size, 4);
    int64_t in_channels = args->in_channels / args->groups;
    int64_t out_channels = args->out_channels / args->groups;
    const int64_t *stride = args->weight.stride;
    w->from = forward ? in : out;
    w->to = forward ? out : in;
    w->groups = args->groups;
    w->from_channels = forward ? in_channels : out_channels;
    w->to_channels = forward ? out_channels : in_channels;
    w->weight = (const float *)tn__cpu_at(args->weight.buffer,
                                          args->weight.offset, 4);
    w->weight_from = forward ? stride[1] : stride[0];
    w->weight_to = forward ? stride[0] : stride[1];
    w->weight_group = out_channels * stride[0];
    w->flipped = !forward;
    if (args->kind == TN_CONV_FORWARD && args->bias.buffer) {
        w->bias = (const float *)tn__cpu_at(args->bias.buffer,
                                            args->bias.offset, 4);
        w->bias_stride = args->bias.stride[0];
    }
    for (int a = 0; a < 2; a++)
        w->pad[a] = forward ? args->pad[a] : args->kernel[a] - 1 - args->pad[a];
    w->tiles[0] = (w->to.size[0] + w->high - 1) / w->high;
    w->tiles[1] = (w->to.size[1] + 1) / 2;
    w->total = args->count * w->tiles[0] * w->tiles[1];
    w->plane = winograd_plane(conv_round_up(w->to_channels, STRIP) *
                        w->from_channels);
}

/* Fills in *w, if this method computes the call. */
static bool describe(winograd *w, const tn_conv_args *args,
                     const tn_cpu_routines *routines, conv_choice choice)
{
    if (choice == CONV_DIRECT || !routines->winograd[0] || !suits(args))
        return false;
    const bool line = args->kernel[0] == 1;
    *w = (winograd){.general = routines, .routines = routines->winograd[!line],
                    .products = routines->conv[CPU_F32], .high = line ? 1 : 2,
                    .elements = line ? 4 : 16, .taps = line ? 3 : 9};
    set_up(w, args);
    cut(w);
    return choice != CONV_BY_COST || pays(w, args->kind);
}

static int64_t filters_bytes(const winograd *w)
{
    return w->groups * w->elements * w->plane * (int64_t)sizeof *w->filters;
}

static void transform_all_filters(winograd *w)
{
    int64_t strips = w->groups * ((w->to_channels + STRIP - 1) / STRIP);
    bool serial = w->groups * w->elements * w->plane < FILTERS_WORK;
    for (int64_t i = 0; serial && i < strips; i++)
        transform_filters(w, i);
    if (!serial)
        tn__cpu_host->parallel_for(strips, transform_filters, w);
}

bool tn__cpu_conv_prepared_alloc(tn_prepared *to, int64_t bytes)
{
    to->bytes = (uint64_t)bytes;
    to->memory = tn__cpu_pages(to->bytes);
    return to->memory != NULL;
}

bool tn__cpu_conv_winograd_prepare(const tn_conv_args *args,
                                   const tn_cpu_routines *routines,
                                   conv_choice choice, tn_prepared *to)
{
    winograd w;
    if (!describe(&w, args, routines, choice))
        return false;
    to->layout = CONV_WINOGRAD_FILTERS;
    if (!tn__cpu_conv_prepared_alloc(to, filters_bytes(&w)))
        return true;
    w.filters = (float *)(void *)to->memory;
    transform_all_filters(&w);
    return true;
}

bool tn__cpu_conv_winograd(const tn_conv_args *args,
                           const tn_cpu_routines *routines,
                           conv_choice choice, tn_cpu_epilogue *then,
                           tn_status *status)
{
    winograd w;
    if (!describe(&w, args, routines, choice))
        return false;
    if (args->kind == TN_CONV_WEIGHT) {
        *status = tn__cpu_winograd_weight(&w, args);
        return true;
    }
    w.then = tn__cpu_epilogue_take_images(
                 then, args->count, w.tiles[0] * w.tiles[1] * w.groups)
                 ? then
                 : NULL;
    w.filters = (float *)(void *)conv_prepared(args, CONV_WINOGRAD_FILTERS);
    float *own = NULL;
    if (!w.filters) {
        w.filters = own = tn__cpu_memory_acquire((size_t)filters_bytes(&w));
        if (own)
            transform_all_filters(&w);
    }
    if (w.filters)
        tn__cpu_host->parallel_for(w.groups * w.blocks, run_task, &w);
    bool good = w.filters && !atomic_load(&w.failed);
    tn__cpu_memory_release(own);
    *status = good ? TN_OK
                   : tn__cpu_host->fail(TN_ERR_MEMORY, "conv: out of memory "
                                        "for transformed windows");
    return true;
}
