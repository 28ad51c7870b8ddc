/* cpu_conv.c: the extension `conv`: conv2d (FORWARD) and its gradients in the
 * images (INPUT) and in the weights (WEIGHT), without im2col.
 *
 * Each of the three is computed as a matrix product of two factors:
 *
 *     FORWARD  out[pixel][o]     = in[pixel + tap, c]   x  weight[tap, c][o]
 *     INPUT    in[pixel][c]      = out[pixel + tap, o]  x  weight[tap, o][c]
 *     WEIGHT   weight[tap, c][o] = in[tap, c + pixel]   x  out[pixel][o]
 *
 * A tap is one element of the window. The left factor is not stored as a
 * matrix: the loops read its element (i, p) from the images, as x[i][at[p]]. If
 * windows reach beyond the images, the images are first copied into a frame of
 * zeros. In WEIGHT, a row of the product is one channel at one tap, and the sum
 * is over pixels.
 *
 * The lanes of a vector hold channels, so one loop serves all strides and
 * dilations (routines_conv.c). If a group has few channels, the lanes hold
 * pixels instead (conv_strip.c). The right factor is packed into panels. A
 * panel holds the values of a few adjacent columns, that is, channels of the
 * result. Work is cut into blocks of pixels. The cut depends only on shapes, so
 * results do not depend on the number of threads. */
#include <stdlib.h>
#include <string.h>

#include "conv_sum.h"
#include "../../cpu_device.h"

enum {
    /* Number of rows of a panel of weights that are multiplied at a time. They
     * have at most 32 KiB and are reused for all pixels of a block. */
    DEPTH = 256,
    /* If a block has at least this many columns, each row of pixels skips the
     * taps that are outside the images. */
    MIN_COLUMNS = 8,
    /* If both the images read and the images written have at least this many
     * channels in a group, the channels of a pixel are adjacent in the
     * frame. */
    LAST_CHANNELS = 8
};

/* ---- blocks -------------------------------------------------------------- */

typedef struct scattering {
    const convolution *c;
    char *sums;
    const char *bias;
    int64_t channel; /* stride of channels in the images written, in elements */
    int64_t first, count; /* the channels of the group that are written */
} scattering;

/* Writes the sums of the rows of pixels `r` to the images, plus the bias. */
static void scatter_rows(void *context, const conv_rows *r)
{
    const scattering *s = context;
    const convolution *c = s->c;
    const conv_transfer t = {.routines = c->general,
                             .bytes = c->bytes,
                             .channels = s->count,
                             .rows = r->rows,
                             .columns = r->columns,
                             .images = r->memory + s->first * s->channel *
                                                       (int64_t)c->bytes,
                             .channel = s->channel,
                             .row = r->row,
                             .step = r->step,
                             .pixels = s->sums +
                                       (r->pixel * c->width + s->first) *
                                           (int64_t)c->bytes,
                             .width = c->width};
    tn__cpu_conv_scatter(&t,
                         s->bias ? s->bias + s->first * c->bias_stride *
                                                 (int64_t)c->bytes
                                 : NULL,
                         c->bias_stride);
}

/* The consecutive pixels [first, first + count) of a block, whose sums all have
 * the terms [from, end). Term tap * from_channels + channel is the product for
 * one tap and one channel. Pixels at the top and bottom edges of an image have
 * fewer terms, because taps outside the image are skipped. */
typedef struct pixel_run {
    int64_t first, count, from, end;
} pixel_run;

/* Sets [*from, *end) to the taps that pixels of row `row` read inside the
 * images, and not above or below them. These taps are consecutive, because taps
 * are sorted by row. */
static void find_taps(const conv_grid *grid, const conv_images *images,
                      int64_t row, int64_t *from, int64_t *end)
{
    const int64_t place = row * grid->step[0];
    const uint64_t size = (uint64_t)images->size[0];
    *from = 0;
    *end = grid->taps;
    while (*from < *end &&
           (uint64_t)(place + grid->tap[*from].at[0]) >= size)
        ++*from;
    while (*end > *from &&
           (uint64_t)(place + grid->tap[*end - 1].at[0]) >= size)
        --*end;
    if (*from == *end)
        *from = *end = 0;
}

/* Cuts a block into pixel runs, at most one for each row of pixels. Stores them
 * in run[] and returns their number. */
static int64_t find_runs(const convolution *c, const conv_grid *grid,
                         const conv_block *block, pixel_run *run)
{
    int64_t count = 0;
    for (int64_t i = 0; i < block->size[0] * block->size[1]; i++) {
        int64_t from = 0, end = grid->taps;
        if (block->size[2] >= MIN_COLUMNS)
            find_taps(grid, &c->from, block->first[1] + i % block->size[1],
                      &from, &end);
        from *= c->from_channels;
        end *= c->from_channels;
        if (count == 0 || run[count - 1].from != from ||
            run[count - 1].end != end)
            run[count++] =
                (pixel_run){i * block->size[2], 0, from, end};
        run[count - 1].count += block->size[2];
    }
    return count;
}

/* Arguments for computing the sums of one block for one group of channels. */
typedef struct block_job {
    const convolution *c;
    const pixel_class *class;
    int64_t group;
    int64_t first, end; /* channels of the group that the task computes */
    const pixel_run *run;
    int64_t runs;
    const int64_t *at; /* at[tap][channel]: offset of an input channel in the
                        * block's view, in elements */
    char *sums;
    /* state of the prefetch of the memory that the next block reads */
    conv_prefetch_state ahead;
} block_job;

/* Computes the sums of a block. x[i] is the address of the block's pixel i in
 * the images that are read. */
static void multiply(block_job *j, const void *const *x)
{
    const convolution *c = j->c;
    int64_t depth = j->class->grid.taps * c->from_channels;
    int64_t bytes = (int64_t)c->bytes;
    const char *panels = j->class->panels + j->group * depth * c->width * bytes;
    int64_t calls = (depth + DEPTH - 1) / DEPTH * j->runs *
                    ((j->end - j->first + c->panel - 1) / c->panel);
    int64_t lines = j->ahead.lines / (calls + 1) + 1;
    for (int64_t p = 0; p == 0 || p < depth; p += DEPTH)
        for (int64_t o = j->first; o < j->end; o += c->panel)
            for (int64_t i = 0; i < j->runs; i++) {
                const pixel_run *r = &j->run[i];
                int64_t width = tn__cpu_min(c->panel, c->width - o);
                int64_t from = r->from > p ? r->from : p;
                int64_t end = tn__cpu_min(r->end, p + DEPTH);
                if (from < end || (p == 0 && r->end == 0))
                    c->routines->tiles(
                        r->count, width / c->routines->lanes, end - from,
                        x + r->first, j->at + from,
                        panels + (o * depth + from * width) * bytes, width,
                        j->sums + (r->first * c->width + o) * bytes, c->width,
                        1, from > r->from ? TN_CPU_TILE_ADD : 0);
                tn__cpu_conv_prefetch(&j->ahead, lines);
            }
}

/* Computes the sums of a block row by row with filter_rows(). This requires
 * that the pixels of a row are adjacent in the view, and that the taps form
 * groups of three that are adjacent in a row. */
static void multiply_rows(block_job *j, const conv_block *block,
                          const conv_view *view)
{
    const convolution *c = j->c;
    const pixel_class *class = j->class;
    int64_t depth = class->grid.taps * c->from_channels;
    int64_t bytes = (int64_t)c->bytes, tap = c->from_channels;
    int64_t rows = block->size[1], columns = block->size[2];
    int64_t row = class->grid.step[0] * view->stride[2];
    const char *panel = class->panels + j->group * depth * c->width * bytes;
    int64_t lines = j->ahead.lines / (block->size[0] * rows) + 1;
    for (const pixel_run *r = j->run; r < j->run + j->runs; r++)
        for (int64_t i = r->first; i < r->first + r->count; i += columns) {
            int64_t n = i / columns / rows, from = r->from + class->line * tap;
            int64_t x = n * view->stride[0] + (i / columns - n * rows) * row;
            c->routines->filter_rows(columns, (r->end - r->from) / (3 * tap),
                                     tap, view->base + x * bytes, j->at + from,
                                     panel + from * c->width * bytes,
                                     (1 - class->line) * tap * c->width,
                                     j->sums + i * c->width * bytes);
            tn__cpu_conv_prefetch(&j->ahead, lines);
        }
}

/* Runs the launch for the images that a block has finished. */
static void launch_images(const convolution *c, const conv_block *block)
{
    for (int64_t i = 0; c->then && i < block->size[0]; i++)
        tn__cpu_epilogue_image(c->then, block->first[0] + i,
                               block->size[1] * block->size[2]);
}

/* Computes a share of the channels of one group for one block. Each lane of a
 * vector holds one channel. */
static void run_block(convolution *c, const pixel_class *class, int64_t group,
                      int64_t number, int64_t share)
{
    const conv_grid *grid = &class->grid;
    conv_block block = tn__cpu_conv_block(grid, number);
    int64_t depth = grid->taps * c->from_channels, bytes = (int64_t)c->bytes;
    conv_order order = class->line < 0 && c->from_channels >= LAST_CHANNELS &&
                               c->to_channels >= LAST_CHANNELS
                           ? CONV_CHANNELS_LAST
                           : CONV_PLANES;
    int64_t frame_bytes = conv_round_up(
        tn__cpu_conv_frame_size(grid, &block, c->from_channels, order) * bytes,
        64);
    int64_t sums_bytes = conv_round_up(block.pixels * c->width * bytes, 64);
    char *memory = tn__cpu_scratch(
        (size_t)(frame_bytes + sums_bytes + (2 * block.pixels + depth) * 8) +
        (size_t)(block.size[0] * block.size[1]) * sizeof(pixel_run));
    if (!memory) {
        atomic_store(&c->failed, 1);
        return;
    }
    char *sums = memory + frame_bytes;
    int64_t *pixel = (int64_t *)(sums + sums_bytes);
    int64_t *at = pixel + block.pixels;
    const void **x = (const void **)(at + depth);
    pixel_run *run = (pixel_run *)(x + block.pixels);
    const conv_source from = {c->general, &c->from, group * c->from_channels,
                              c->from_channels, c->bytes};
    conv_view view = tn__cpu_conv_view(grid, &block, &from, order, memory);
    tn__cpu_conv_taps(grid, &view, c->from_channels, at);
    block_job job = {.c = c,
                     .class = class,
                     .group = group,
                     .first = share * c->share,
                     .end = tn__cpu_min((share + 1) * c->share, c->width),
                     .run = run,
                     .runs = find_runs(c, grid, &block, run),
                     .at = at,
                     .sums = sums,
                     .ahead = tn__cpu_conv_ahead(grid, number + 1, &from)};
    if (class->line >= 0) {
        multiply_rows(&job, &block, &view);
    } else {
        tn__cpu_conv_pixels(grid, &block, &view, pixel);
        for (int64_t i = 0; i < block.pixels; i++)
            x[i] = view.base + pixel[i] * bytes;
        multiply(&job, x);
    }

    conv_images to = c->to;
    int64_t channel = group * c->to_channels;
    to.memory += channel * to.stride[1] * bytes;
    scattering s = {c, sums,
                    c->bias ? c->bias + channel * c->bias_stride * bytes : NULL,
                    to.stride[1], job.first,
                    tn__cpu_min(job.end, c->to_channels) - job.first};
    const conv_placement placement = {&to, class->first, c->step, c->bytes};
    tn__cpu_conv_visit_rows(&block, &placement, scatter_rows, &s);
    launch_images(c, &block);
}

/* Computes one block for one group of channels. Each lane of a vector holds one
 * pixel. */
static void run_strip(convolution *c, const pixel_class *class, int64_t group,
                      int64_t number)
{
    const conv_grid *grid = &class->grid;
    conv_block block = tn__cpu_conv_block(grid, number);
    conv_strip strip =
        tn__cpu_conv_strip(grid, &block, c->from_channels, c->routines);
    int64_t depth = grid->taps * c->from_channels, bytes = (int64_t)c->bytes;
    int64_t frame_bytes = conv_round_up(strip.elements * bytes, 64);
    int64_t sums_bytes = c->panel * strip.pixels * bytes;
    char *frame = tn__cpu_scratch(
        (size_t)(frame_bytes + sums_bytes + depth * 8));
    if (!frame) {
        atomic_store(&c->failed, 1);
        return;
    }
    char *sums = frame + frame_bytes;
    int64_t *at = (int64_t *)(sums + sums_bytes);
    const conv_source from = {c->general, &c->from, group * c->from_channels,
                              c->from_channels, c->bytes};
    tn__cpu_conv_strip_fill(grid, &block, &strip, &from, frame);
    tn__cpu_conv_strip_taps(grid, &block, &strip, c->from_channels, at);
    conv_images to = c->to;
    to.memory += group * c->to_channels * to.stride[1] * bytes;
    const conv_placement placement = {&to, class->first, c->step, c->bytes};
    for (int64_t o = 0; o < c->to_channels; o++) {
        int64_t of_panel = o % c->panel, channel = group * c->to_channels + o;
        if (of_panel == 0)
            c->routines->filter_strip(
                strip.pixels, tn__cpu_min(c->panel, c->to_channels - o), depth,
                frame, at,
                class->panels + (group * c->width + o) * depth * bytes, sums,
                strip.pixels,
                c->bias ? c->bias + channel * c->bias_stride * bytes : NULL,
                c->bias_stride);
        tn__cpu_conv_strip_copy(&block, &strip, &placement, c->general,
                                sums + of_panel * strip.pixels * bytes, true);
        to.memory += to.stride[1] * bytes;
    }
    launch_images(c, &block);
}

static void run_task(void *context, int64_t i)
{
    convolution *c = context;
    const pixel_class *class = c->class;
    while (class + 1 < c->class + c->class_count && class[1].first_task <= i)
        class++;
    i -= class->first_task;
    unsigned fpu = tn__cpu_fpu_set();
    const int64_t share = i % c->shares, block = i / c->shares;
    const int64_t group = block / class->grid.block_count;
    const int64_t number = block % class->grid.block_count;
    if (c->by_pixels)
        run_strip(c, class, group, number);
    else
        run_block(c, class, group, number, share);
    tn__cpu_fpu_restore(fpu);
}

static void clear_plane(void *context, int64_t i)
{
    const convolution *c = context;
    int64_t channels = c->groups * c->to_channels, n = i / channels;
    memset(c->to.memory + (n * c->to.stride[0] +
                           (i - n * channels) * c->to.stride[1]) *
                              (int64_t)c->bytes,
           0, (size_t)(c->to.size[0] * c->to.size[1]) * c->bytes);
}

static void run_all(int64_t count, void (*body)(void *, int64_t),
                    void *context, bool serial)
{
    for (int64_t i = 0; serial && i < count; i++)
        body(context, i);
    if (!serial)
        tn__cpu_host->parallel_for(count, body, context);
}

static tn_status out_of_memory(const tn_conv_args *args)
{
    return tn__cpu_host->fail(
        TN_ERR_MEMORY, "conv: out of memory for weights of (%lld, %lld, "
        "%lld, %lld)", (long long)args->out_channels,
        (long long)(args->in_channels / args->groups),
        (long long)args->kernel[0], (long long)args->kernel[1]);
}

static conv_tap *taps_alloc(const tn_conv_args *args)
{
    return malloc((size_t)(args->kernel[0] * args->kernel[1]) *
                  sizeof(conv_tap));
}

static int64_t all_panels_bytes(const convolution *c)
{
    int64_t room = 0;
    for (int64_t i = 0; i < c->class_count; i++)
        room += tn__cpu_conv_panels_bytes(c, &c->class[i]);
    return room;
}

/* Gives each class its part of `panels`. */
static void place_panels(convolution *c, char *panels)
{
    for (int64_t i = 0; i < c->class_count; i++) {
        c->class[i].panels = panels;
        panels += tn__cpu_conv_panels_bytes(c, &c->class[i]);
    }
}

static void pack_panels(convolution *c)
{
    run_all(c->class_count * c->groups * ((c->width + c->panel - 1) / c->panel),
            tn__cpu_conv_pack_panel, c, all_panels_bytes(c) < 65536);
}

static tn_status run_images(const tn_conv_args *args,
                            const tn_cpu_routines *general, size_t bytes,
                            tn_cpu_epilogue *then)
{
    const tn_cpu_conv_routines *routines = general->conv[conv_type(bytes)];
    convolution c = {.general = general, .routines = routines,
                     .bytes = bytes, .groups = args->groups};
    conv_tap *tap = taps_alloc(args);
    if (!tap)
        return out_of_memory(args);
    tn__cpu_conv_describe(&c, args, tap);
    if (tn__cpu_epilogue_take_images(
            then, args->count,
            args->out_size[0] * args->out_size[1] * args->groups * c.shares))
        c.then = then;

    char *panels = conv_prepared(args, CONV_PANELS), *own = NULL;
    if (!panels)
        panels = own =
            tn__cpu_memory_acquire((size_t)all_panels_bytes(&c));
    if (panels) {
        place_panels(&c, panels);
        if (own)
            pack_panels(&c);
        if (c.cleared)
            run_all(args->count * args->in_channels, clear_plane, &c,
                    c.tasks <= 1);
        run_all(c.tasks, run_task, &c, c.tasks == 1);
    }
    tn__cpu_memory_release(own);
    free(tap);
    return panels && !atomic_load(&c.failed) ? TN_OK : out_of_memory(args);
}

/* Returns whether the windows cover an area much larger than the images,
 * because of a large padding or dilation. The frames of zeros into which blocks
 * are copied would then be huge. */
static bool is_mostly_outside(const tn_conv_args *args)
{
    double reach = 1, image = 1;
    for (int a = 0; a < 2; a++) {
        reach *= (double)(args->out_size[a] - 1) * (double)args->stride[a] +
                 (double)(args->kernel[a] - 1) * (double)args->dilation[a] + 1;
        image *= (double)args->in_size[a];
    }
    return reach > 16 * image && reach > 1e6;
}

/* Sets *bytes to those of an element. Returns an error if no method computes
 * the call. */
static tn_status check(const tn_conv_args *args, size_t *bytes)
{
    if (!tn_conv_is_known(args))
        return tn__cpu_unknown("conv");
    if (args->out.dtype != TN_F32 && args->out.dtype != TN_F64)
        return tn__cpu_host->fail(TN_ERR_UNSUPPORTED, "conv: the dtype must be "
                                  "float32 or float64");
    *bytes = args->out.dtype == TN_F32 ? 4 : 8;
    if (is_mostly_outside(args))
        return tn__cpu_host->fail(TN_ERR_UNSUPPORTED, "conv: the windows "
                                  "are mostly outside the images");
    if (args->kind == TN_CONV_INPUT &&
        tn__cpu_min(args->stride[0], args->in_size[0]) *
                tn__cpu_min(args->stride[1], args->in_size[1]) >
            TN_CPU_CONV_CLASSES)
        return tn__cpu_host->fail(
            TN_ERR_UNSUPPORTED, "conv: gradient of the images: the product of "
                                "strides (%lld, %lld) exceeds %d",
            (long long)args->stride[0], (long long)args->stride[1],
            TN_CPU_CONV_CLASSES);
    return TN_OK;
}

tn_status tn__cpu_conv_then(tn_queue *queue, const tn_conv_args *args,
                            tn_cpu_epilogue *then)
{
    size_t bytes = 0;
    tn_status status = check(args, &bytes);
    if (status)
        return status;
    if (tn__cpu_conv_point(args, queue->routines, bytes, then, &status) ||
        tn__cpu_conv_plane(args, queue->routines->conv[conv_type(bytes)], then,
                           &status) ||
        (bytes == 4 && tn__cpu_conv_winograd(args, queue->routines,
                                             queue->conv, then, &status)))
        return status;
    return args->kind == TN_CONV_WEIGHT
               ? tn__cpu_conv_weight(args, queue->routines, bytes)
               : run_images(args, queue->routines, bytes, then);
}

static tn_status run(tn_queue *queue, const tn_conv_args *args)
{
    return tn__cpu_conv_then(queue, args, NULL);
}

/* ---- prepared weights ---------------------------------------------------- */

/* Fills in *to with the weights as run_images() reads them. */
static void prepare_panels(const tn_conv_args *args,
                           const tn_cpu_routines *general, size_t bytes,
                           tn_prepared *to)
{
    convolution c = {.general = general,
                     .routines = general->conv[conv_type(bytes)],
                     .bytes = bytes, .groups = args->groups};
    conv_tap *tap = taps_alloc(args);
    if (!tap)
        return;
    tn__cpu_conv_describe(&c, args, tap);
    to->layout = CONV_PANELS;
    if (tn__cpu_conv_prepared_alloc(to, all_panels_bytes(&c))) {
        place_panels(&c, to->memory);
        pack_panels(&c);
    }
    free(tap);
}

static void prepared_free(tn_plugin_device *device, tn_prepared *prepared)
{
    (void)device;
    free(prepared->memory);
    free(prepared);
}

static tn_status prepare(tn_plugin_device *device, const tn_conv_args *args,
                         tn_prepared **prepared, uint64_t *bytes)
{
    size_t element = 0;
    tn_status status = check(args, &element);
    if (status)
        return status;
    if (args->kind != TN_CONV_FORWARD)
        return tn__cpu_unknown("conv");
    if (tn__cpu_conv_point_suits(args) ||
        tn__cpu_conv_plane_suits(args,
                                 device->routines->conv[conv_type(element)]))
        return tn__cpu_host->fail(TN_ERR_UNSUPPORTED, "conv: these weights are "
                                  "read in place");
    tn_prepared *to = calloc(1, sizeof *to);
    if (!to)
        return out_of_memory(args);
    if (element != 4 ||
        !tn__cpu_conv_winograd_prepare(args, device->routines, device->conv,
                                       to))
        prepare_panels(args, device->routines, element, to);
    if (!to->memory) {
        free(to);
        return out_of_memory(args);
    }
    *prepared = to;
    *bytes = to->bytes;
    return TN_OK;
}

const tn_conv_extension tn__cpu_conv_extension = {
    .size = sizeof(tn_conv_extension), .run = run, .prepare = prepare,
    .prepared_free = prepared_free};
