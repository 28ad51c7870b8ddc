/* conv_weight.c: the gradient of conv2d's weights, a sum over all pixels of all
 * images (cpu_conv.h defines pixel and tap).
 *
 * The blocks of pixels are divided into shares. Each share has its own sums,
 * which are added in order at the end. The channels of `in` are divided into
 * ranges. A task computes one range of one share. Shares and ranges depend on
 * the shape alone, so results do not depend on the number of threads. A panel
 * is a copy of some channels of `out` for the pixels of a block, in which the
 * channels of a pixel are adjacent. */
#include <stdlib.h>
#include <string.h>

#include "cpu_conv.h"
#include "../../cpu_device.h"

enum {
    /* Pixels of a block. A panel of `out` that is two vectors wide then takes
     * 25 KiB. */
    BLOCK_PIXELS = 200,
    /* number of rows of sums that are computed between two prefetches */
    ROWS_AT_ONCE = 48,
    /* If vectors hold pixels: approximate number of elements in a block's
     * frame, pixels of `out` and mask together. */
    STRIP_ELEMENTS = 16384,
    TASK_WORK = 2097152, /* multiply-adds of a task */
    /* Minimum number of rows of sums in a range. A row has the sums for one tap
     * and one channel. */
    MIN_ROWS = 128,
    /* The number of channels of a range is a multiple of this, so that the
     * loops compute whole tiles of rows. */
    CHANNELS = 8,
    /* Blocks are divided among shares, and each share has its own sums. This is
     * the maximum number of elements of all these sums but the first. It limits
     * the number of shares. */
    SHARES_ELEMENTS = 2097152,
    /* maximum number of elements of the panels of `out` that are packed once
     * for all ranges */
    PACKED_ELEMENTS = 1048576,
    MAX_TASKS = 64
};

typedef struct gradient {
    const tn_conv_args *args;
    const tn_cpu_routines *general;
    const tn_cpu_conv_routines *routines;
    size_t bytes;
    conv_images in, out;
    conv_grid grid;
    int64_t in_channels, out_channels; /* numbers of channels of a group */
    /* lanes of vectors hold pixels if true, channels if false */
    bool by_pixels;
    /* True if one vector holds all output channels, and the routine
     * correlate_rows sums three adjacent elements of the window in one pass. */
    bool by_rows;
    /* panel is the number of channels in a panel of `out`. width is
     * out_channels rounded up to whole vectors, the number of channels of the
     * sums. */
    int64_t panel, width;
    /* shares is the number of sets of blocks that have their own sums. ranges
     * is the number of ranges into which the channels of `in` are divided.
     * range is the number of channels in a range. */
    int64_t shares, ranges, range;
    /* dimensions: sums[share][group][range][tap][channel][width] */
    char *sums;
    /* The panels of out, packed as [group][block][panel][pixel][channel]. NULL
     * if each task packs the panels that it needs. */
    char *packed;
    /* number of elements of packed[] for one block of one group */
    int64_t packed_block;
    atomic_int failed;
} gradient;

/* Returns the number of elements of the sums of one group of channels: the size
 * of the group's weights, with padding. */
static int64_t group_sums(const gradient *w)
{
    return w->ranges * w->range * w->grid.taps * w->width;
}

static char *sums_of(const gradient *w, int64_t share, int64_t group,
                     int64_t range)
{
    int64_t at = (share * w->args->groups + group) * group_sums(w) +
                 range * w->range * w->grid.taps * w->width;
    return w->sums + at * (int64_t)w->bytes;
}

typedef struct gathering {
    const gradient *w;
    char *panel;
    /* pixels is the number of pixels in the block. The panel has `width`
     * channels, beginning with channel `first`. */
    int64_t pixels, first, width;
} gathering;

static void gather_rows(void *context, const conv_rows *r)
{
    const gathering *g = context;
    const gradient *w = g->w;
    int64_t channel = w->out.stride[1], bytes = (int64_t)w->bytes;
    char *from = r->memory + g->first * channel * bytes;
    char *to = g->panel + r->pixel * g->width * bytes;
    for (int64_t i = 0; i < r->rows; i++)
        tn__cpu_conv_gather(&(conv_transfer){
            .routines = w->general,
            .bytes = w->bytes,
            .channels = tn__cpu_min(g->width, w->out_channels - g->first),
            .rows = 1,
            .columns = r->columns,
            .images = from + i * r->row * bytes,
            .channel = channel,
            .step = r->step,
            .pixels = to + i * r->columns * g->width * bytes,
            .width = g->width});
}

/* Packs the panel that begins with channel o of a block's pixels. */
static void pack_panel(const gradient *w, const conv_block *block,
                       int64_t group, int64_t o, char *panel)
{
    static const int64_t origin[2] = {0, 0}, step[2] = {1, 1};
    conv_images out = w->out;
    out.memory += group * w->out_channels * out.stride[1] * (int64_t)w->bytes;
    gathering g = {w, panel, block->pixels, o,
                   tn__cpu_min(w->panel, w->width - o)};
    const conv_placement placement = {&out, origin, step, w->bytes};
    tn__cpu_conv_visit_rows(block, &placement, gather_rows, &g);
}

/* Returns the address of the packed panel that begins with channel o of block
 * `number`. */
static char *packed_panel(const gradient *w, const conv_block *block,
                          int64_t group, int64_t number, int64_t o)
{
    return w->packed +
           ((group * w->grid.block_count + number) * w->packed_block +
            o * block->pixels) *
               (int64_t)w->bytes;
}

static void pack_block(void *context, int64_t i)
{
    const gradient *w = context;
    int64_t group = i / w->grid.block_count, number = i % w->grid.block_count;
    conv_block block = tn__cpu_conv_block(&w->grid, number);
    for (int64_t o = 0; o < w->width; o += w->panel)
        pack_panel(w, &block, group, o,
                   packed_panel(w, &block, group, number, o));
}

/* Arguments of add_rows. A group here is three adjacent taps of one channel,
 * which have three rows of sums. The indices of groups are in the order [three
 * taps][channel]. */
typedef struct row_sums {
    int64_t channels;
    const void *const *x;
    const int64_t *at; /* at[i]: offset of row i of the block's pixels */
    const char *panel;
    char *sums;
    bool add;
} row_sums;

/* Adds a block's products to the sums of groups [first, first + count). A group
 * is three adjacent taps of one channel (struct row_sums). */
static void add_rows(const gradient *w, const conv_block *block, int64_t first,
                     int64_t count, const row_sums *r)
{
    for (int64_t i = first, some; i < first + count; i += some) {
        int64_t row = i / r->channels * 3 * r->channels + i % r->channels;
        some = tn__cpu_min(first + count - i, r->channels - i % r->channels);
        w->routines->correlate_rows(
            some, block->size[0] * block->size[1], block->size[2], r->x + row,
            r->at, r->panel, r->channels * w->width,
            r->sums + row * w->width * (int64_t)w->bytes, r->add);
    }
}

/* Adds the products of block `number` to the sums of channels [first, first +
 * channels) of a group, or stores them if add is false. Returns false if out of
 * memory. */
static bool add_block(const gradient *w, int64_t number, int64_t group,
                      int64_t first, int64_t channels, char *sums, bool add)
{
    const conv_grid *grid = &w->grid;
    conv_block block = tn__cpu_conv_block(grid, number);
    int64_t rows = grid->taps * channels, bytes = (int64_t)w->bytes;
    int64_t frame_bytes = conv_round_up(
        tn__cpu_conv_frame_size(grid, &block, channels, CONV_PLANES) * bytes,
        64);
    int64_t panel_bytes = conv_round_up(block.pixels * w->panel * bytes, 64);
    char *memory = tn__cpu_scratch(
        (size_t)(frame_bytes + panel_bytes + (2 * rows + block.pixels) * 8));
    if (!memory)
        return false;
    char *panel = memory + frame_bytes;
    int64_t *at = (int64_t *)(panel + panel_bytes);
    int64_t *row = at + block.pixels;
    const void **x = (const void **)(row + rows);
    const conv_source source = {
        w->general, &w->in, group * w->in_channels + first, channels, w->bytes};
    conv_view view =
        tn__cpu_conv_view(grid, &block, &source, CONV_PLANES, memory);
    tn__cpu_conv_pixels(grid, &block, &view, at);
    for (int64_t i = 0; i < block.pixels && w->by_rows; i += block.size[2])
        at[i / block.size[2]] = at[i]; /* keeps only the offsets of rows */
    tn__cpu_conv_taps(grid, &view, channels, row);
    for (int64_t i = 0; i < rows; i++)
        x[i] = view.base + row[i] * bytes;

    conv_prefetch_state in = tn__cpu_conv_ahead(grid, number + 1, &source);
    conv_prefetch_state next = {0};
    if (!w->packed)
        next = tn__cpu_conv_ahead_pixels(
            grid, number + 1,
            &(conv_source){w->general, &w->out, group * w->out_channels,
                           w->out_channels, w->bytes});
    int64_t calls = (w->width + w->panel - 1) / w->panel *
                    ((rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE);
    int64_t in_lines = in.lines / calls + 1,
            next_lines = next.lines / calls + 1;
    for (int64_t o = 0; o < w->width; o += w->panel) {
        int64_t width = tn__cpu_min(w->panel, w->width - o);
        if (w->packed)
            panel = packed_panel(w, &block, group, number, o);
        else
            pack_panel(w, &block, group, o, panel);
        for (int64_t i = 0; i < rows; i += ROWS_AT_ONCE) {
            int64_t some = tn__cpu_min(ROWS_AT_ONCE, rows - i);
            if (w->by_rows)
                add_rows(w, &block, i / 3, some / 3,
                         &(row_sums){channels, x, at, panel, sums, add});
            else
                w->routines->tiles(some, width / w->routines->lanes,
                                   block.pixels, x + i, at, panel, width,
                                   sums + (i * w->width + o) * bytes, w->width,
                                   1, add ? TN_CPU_TILE_ADD : 0);
            tn__cpu_conv_prefetch(&in, in_lines);
            tn__cpu_conv_prefetch(&next, next_lines);
        }
    }
    return true;
}

/* Adds the products of a block to the sums, as add_block does, but each lane of
 * a vector holds one pixel. */
static bool add_strip(const gradient *w, int64_t number, int64_t group,
                      int64_t first, int64_t channels, char *sums, bool add)
{
    static const int64_t origin[2] = {0, 0}, step[2] = {1, 1};
    const conv_grid *grid = &w->grid;
    conv_block block = tn__cpu_conv_block(grid, number);
    conv_strip strip =
        tn__cpu_conv_strip(grid, &block, channels, w->routines);
    int64_t rows = grid->taps * channels, bytes = (int64_t)w->bytes;
    int64_t frame_bytes = conv_round_up(strip.elements * bytes, 64);
    int64_t strip_bytes = strip.pixels * bytes;
    char *frame = tn__cpu_scratch(
        (size_t)(frame_bytes + 2 * strip_bytes + rows * 8));
    if (!frame)
        return false;
    char *out = frame + frame_bytes, *mask = out + strip_bytes;
    int64_t *at = (int64_t *)(mask + strip_bytes);
    const conv_source source = {
        w->general, &w->in, group * w->in_channels + first, channels, w->bytes};
    tn__cpu_conv_strip_fill(grid, &block, &strip, &source, frame);
    tn__cpu_conv_strip_taps(grid, &block, &strip, channels, at);
    tn__cpu_conv_strip_mask(&block, &strip, w->bytes, mask);
    if (!add)
        memset(sums, 0, (size_t)(rows * w->width * bytes));
    memset(out, 0, (size_t)strip_bytes);
    conv_images images = w->out;
    images.memory += group * w->out_channels * images.stride[1] * bytes;
    for (int64_t o = 0; o < w->out_channels; o++) {
        tn__cpu_conv_strip_copy(
            &block, &strip, &(conv_placement){&images, origin, step, w->bytes},
            w->general, out, false);
        w->routines->correlate_strip(rows, strip.pixels, frame, at, out, mask,
                                     sums + o * bytes, w->width);
        images.memory += images.stride[1] * bytes;
    }
    return true;
}

static void run_task(void *context, int64_t i)
{
    gradient *w = context;
    int64_t range = i % w->ranges, share = i / w->ranges % w->shares;
    int64_t group = i / w->ranges / w->shares;
    int64_t first = range * w->range;
    int64_t channels = tn__cpu_min(w->range, w->in_channels - first);
    int64_t each = (w->grid.block_count + w->shares - 1) / w->shares;
    int64_t end = tn__cpu_min((share + 1) * each, w->grid.block_count);
    unsigned fpu = tn__cpu_fpu_set();
    char *sums = sums_of(w, share, group, range);
    for (int64_t b = share * each; b < end; b++)
        if (!(w->by_pixels ? add_strip : add_block)(
                w, b, group, first, channels, sums, b > share * each)) {
            atomic_store(&w->failed, 1);
            break;
        }
    tn__cpu_fpu_restore(fpu);
}

/* Adds up the sums of all shares (sets of blocks, each with its own sums) for
 * one element of the window, one group and its range of channels. Writes the
 * result to the gradient. */
static void write_tap(void *context, int64_t i)
{
    const gradient *w = context;
    const tn_conv_args *args = w->args;
    const int64_t *stride = args->weight.stride;
    int64_t bytes = (int64_t)w->bytes, t = i % w->grid.taps;
    int64_t range = i / w->grid.taps % w->ranges;
    int64_t group = i / w->grid.taps / w->ranges;
    int64_t first = range * w->range;
    int64_t channels = tn__cpu_min(w->range, w->in_channels - first);
    int64_t at = t * channels * w->width * bytes;
    char *sums = sums_of(w, 0, group, range) + at;
    unsigned fpu = tn__cpu_fpu_set();
    for (int64_t s = 1; s < w->shares; s++)
        w->routines->add_to(sums, sums_of(w, s, group, range) + at,
                            channels * w->width);
    char *to = tn__cpu_at(args->weight.buffer, args->weight.offset, w->bytes);
    to += (group * w->out_channels * stride[0] + first * stride[1] +
           w->grid.tap[t].weight) *
          bytes;
    const conv_transfer out = {.routines = w->general,
                               .bytes = w->bytes,
                               .channels = w->out_channels,
                               .rows = 1,
                               .columns = channels,
                               .images = to,
                               .channel = stride[0],
                               .step = stride[1],
                               .pixels = sums,
                               .width = w->width};
    tn__cpu_conv_scatter(&out, NULL, 0);
    tn__cpu_fpu_restore(fpu);
}

/* Cuts the pixels into blocks, divides the blocks among shares (sets with their
 * own sums), and divides the channels of `in` into ranges. */
static void cut(gradient *w)
{
    double rows = (double)(w->grid.taps * w->in_channels);
    double work = rows * (double)w->width * (double)w->grid.count *
                  (double)(w->grid.size[0] * w->grid.size[1]);
    double tasks = work / TASK_WORK; /* number of tasks for one group */
    double room =
        SHARES_ELEMENTS / (rows * (double)w->width * (double)w->args->groups) +
        1;
    tn__cpu_conv_grid_init(&w->grid, &w->in);
    bool one = !w->by_pixels && w->width == w->routines->lanes &&
               w->routines->correlate_rows;
    tn__cpu_conv_grid_cut(&w->grid, w->by_pixels
                                        ? STRIP_ELEMENTS / (w->in_channels + 2)
                                    : one ? 2 * BLOCK_PIXELS
                                          : BLOCK_PIXELS);
    w->by_rows = one && tn__cpu_conv_min_columns(&w->grid) > 1 &&
                 w->in_channels > 2 &&
                 tn__cpu_conv_row_taps(&w->grid, &w->in) == 0;
    tasks = tasks < 1 ? 1 : tasks > MAX_TASKS ? MAX_TASKS : tasks;
    int64_t ranges = (int64_t)(rows / MIN_ROWS);
    double shares = tasks / (double)(ranges < 1 ? 1 : ranges);
    shares = shares < 1 ? 1 : shares < room ? shares : room;
    w->shares = tn__cpu_min((int64_t)shares, w->grid.block_count);
    int64_t each = (w->grid.block_count + w->shares - 1) / w->shares;
    /* Rounding `each` up may leave the last shares without blocks. Drops these
     * shares. */
    w->shares = (w->grid.block_count + each - 1) / each;
    /* With few images there are only few shares. Then the channels are divided
     * into more ranges, so that all threads have work. */
    ranges = (int64_t)(tasks / (double)w->shares);
    ranges = ranges < 1 ? 1 : tn__cpu_min(ranges, w->in_channels);
    w->range = (w->in_channels + ranges - 1) / ranges;
    w->range = tn__cpu_min(conv_round_up(w->range, CHANNELS), w->in_channels);
    w->ranges = (w->in_channels + w->range - 1) / w->range;
}

tn_status tn__cpu_conv_weight(const tn_conv_args *args,
                              const tn_cpu_routines *general, size_t bytes)
{
    const tn_cpu_conv_routines *routines = general->conv[conv_type(bytes)];
    gradient w = {.args = args, .general = general, .routines = routines,
                  .bytes = bytes,
                  .in = tn__cpu_conv_images(&args->in, args->in_size, bytes),
                  .out =
                      tn__cpu_conv_images(&args->out, args->out_size, bytes),
                  .in_channels = args->in_channels / args->groups,
                  .out_channels = args->out_channels / args->groups,
                  .panel = 2 * routines->lanes};
    w.by_pixels = conv_by_pixels(w.out_channels, routines);
    w.width = w.by_pixels ? w.out_channels
                          : conv_round_up(w.out_channels, routines->lanes);
    conv_tap *tap = malloc((size_t)(args->kernel[0] * args->kernel[1]) *
                           sizeof *tap);
    if (tap) {
        tn__cpu_conv_forward_grid(&w.grid, args, tap);
        cut(&w);
        int64_t sums = w.shares * args->groups * group_sums(&w);
        int64_t packed = args->groups * w.grid.block_count;
        w.packed_block =
            w.grid.block[0] * w.grid.block[1] * w.grid.block[2] * w.width;
        packed = w.by_pixels || w.ranges == 1 ||
                         packed > PACKED_ELEMENTS / w.packed_block
                     ? 0
                     : packed * w.packed_block;
        w.sums =
            tn__cpu_memory_acquire((size_t)((sums + packed) * (int64_t)bytes));
        w.packed = packed && w.sums ? w.sums + sums * (int64_t)bytes : NULL;
    }
    if (w.sums) {
        int64_t tasks = args->groups * w.shares * w.ranges;
        int64_t taps = args->groups * w.ranges * w.grid.taps;
        bool serial = tasks == 1;
        if (w.packed)
            tn__cpu_host->parallel_for(args->groups * w.grid.block_count,
                                       pack_block, &w);
        if (serial)
            run_task(&w, 0);
        else
            tn__cpu_host->parallel_for(tasks, run_task, &w);
        for (int64_t i = 0; serial && i < taps; i++)
            write_tap(&w, i);
        if (!serial)
            tn__cpu_host->parallel_for(taps, write_tap, &w);
    }
    bool good = w.sums && !atomic_load(&w.failed);
    tn__cpu_memory_release(w.sums);
    free(tap);
    return good ? TN_OK
                : tn__cpu_host->fail(TN_ERR_MEMORY,
                                     "conv: out of memory for the gradient of "
                                     "the weights");
}
