/* conv_grid.c: cuts the pixels of a convolution into blocks, makes views of the
 * memory that a block reads, in place or as a padded copy (its frame), and
 * copies between images and pixels whose channels are adjacent. cpu_conv.h
 * defines these terms. */
#include <string.h>

#include "cpu_conv.h"

conv_images tn__cpu_conv_images(const tn_strided *view, const int64_t *size,
                                size_t bytes)
{
    conv_images images = {
        .memory = tn__cpu_at(view->buffer, view->offset, bytes),
        .size = {size[0], size[1]}};
    for (int d = 0; d < 4; d++)
        images.stride[d] = view->stride[d];
    return images;
}

void tn__cpu_conv_forward_grid(conv_grid *grid, const tn_conv_args *args,
                               conv_tap *tap)
{
    *grid = (conv_grid){.count = args->count, .tap = tap,
                        .size = {args->out_size[0], args->out_size[1]},
                        .step = {args->stride[0], args->stride[1]}};
    for (int64_t i = 0; i < args->kernel[0]; i++)
        for (int64_t j = 0; j < args->kernel[1]; j++)
            tap[grid->taps++] = (conv_tap){
                {i * args->dilation[0] - args->pad[0],
                 j * args->dilation[1] - args->pad[1]},
                i * args->weight.stride[2] + j * args->weight.stride[3]};
}

void tn__cpu_conv_grid_init(conv_grid *grid, const conv_images *from)
{
    grid->framed = false;
    for (int a = 0; a < 2; a++) {
        int64_t low = grid->taps ? INT64_MAX : 0;
        int64_t high = grid->taps ? INT64_MIN : 0;
        for (int64_t t = 0; t < grid->taps; t++) {
            int64_t at = grid->tap[t].at[a];
            low = at < low ? at : low;
            high = at > high ? at : high;
        }
        grid->low[a] = low;
        grid->span[a] = high - low;
        int64_t last = (grid->size[a] - 1) * grid->step[a] + high;
        grid->framed |= low < 0 || last >= from->size[a];
    }
}

void tn__cpu_conv_grid_cut(conv_grid *grid, int64_t pixels)
{
    const int64_t extent[3] = {grid->count, grid->size[0], grid->size[1]};
    int64_t room = pixels < 1 ? 1 : pixels;
    grid->block_count = 1;
    for (int d = 3; d-- > 0;) {
        grid->block[d] = tn__cpu_min(room, extent[d]);
        /* Recomputes the block size from the number of blocks, so that the last
         * block is about as large as the others and no thread gets a tiny
         * task. */
        grid->blocks[d] =
            (extent[d] + grid->block[d] - 1) / grid->block[d];
        grid->block[d] =
            (extent[d] + grid->blocks[d] - 1) / grid->blocks[d];
        grid->blocks[d] =
            (extent[d] + grid->block[d] - 1) / grid->block[d];
        grid->block_count *= grid->blocks[d];
        room /= extent[d];
        room = room < 1 || grid->blocks[d] > 1 ? 1 : room;
    }
}

int64_t tn__cpu_conv_min_columns(const conv_grid *grid)
{
    return grid->size[1] - (grid->blocks[2] - 1) * grid->block[2];
}

int64_t tn__cpu_conv_row_taps(const conv_grid *grid, const conv_images *from)
{
    const conv_tap *tap = grid->tap;
    if (grid->taps % 3 || grid->taps == 0 || grid->step[1] != 1 ||
        from->stride[3] != 1)
        return -1;
    int64_t apart = tap[1].at[1] - tap[0].at[1];
    bool good = apart == 1 || apart == -1;
    for (int64_t t = 0; t < grid->taps; t++)
        good = good && tap[t].at[0] == tap[t / 3 * 3].at[0] &&
               tap[t].at[1] == tap[t / 3 * 3].at[1] + t % 3 * apart;
    return good ? 1 - apart : -1;
}

conv_block tn__cpu_conv_block(const conv_grid *grid, int64_t number)
{
    const int64_t extent[3] = {grid->count, grid->size[0], grid->size[1]};
    conv_block block = {.pixels = 1};
    for (int d = 3; d-- > 0; number /= grid->blocks[d]) {
        block.first[d] = number % grid->blocks[d] * grid->block[d];
        block.size[d] =
            tn__cpu_min(grid->block[d], extent[d] - block.first[d]);
        block.pixels *= block.size[d];
    }
    return block;
}

/* Returns the number of rows (a is 0) or columns (a is 1) that a block reads,
 * including those of the padding. */
static int64_t reach_of(const conv_grid *grid, const conv_block *block, int a)
{
    return (block->size[1 + a] - 1) * grid->step[a] + grid->span[a] + 1;
}

int64_t tn__cpu_conv_frame_size(const conv_grid *grid, const conv_block *block,
                                int64_t channels, conv_order order)
{
    return grid->framed || order == CONV_CHANNELS_LAST
               ? block->size[0] * channels * reach_of(grid, block, 0) *
                     reach_of(grid, block, 1)
               : 0;
}

/* The pixels that a block reads along each axis. room is the number of rows (or
 * columns) with padding. size is the number of rows within the images, which
 * begin at row `start` of the images and at row `skip` of the frame. */
typedef struct reached {
    int64_t room[2], start[2], skip[2], size[2];
} reached;

static reached reach_over(const conv_grid *grid, const conv_block *block,
                          const conv_images *from)
{
    reached r;
    for (int a = 0; a < 2; a++) {
        int64_t low =
            block->first[1 + a] * grid->step[a] + grid->low[a];
        r.room[a] = reach_of(grid, block, a);
        r.start[a] = low < 0 ? 0 : tn__cpu_min(low, from->size[a]);
        r.skip[a] = r.start[a] - low;
        int64_t end = low + r.room[a];
        r.size[a] = tn__cpu_min(end, from->size[a]) - r.start[a];
        r.size[a] = r.size[a] < 0 ? 0 : r.size[a];
    }
    if (r.size[0] == 0 || r.size[1] == 0) /* the block reads only padding */
        r.size[0] = r.skip[0] = r.skip[1] = r.size[1] = 0;
    return r;
}

/* Copies the channels of one image to a frame, as planes. */
static void frame_planes(const reached *r, const conv_source *source,
                         const char *at, char *to)
{
    const conv_images *from = source->images;
    const tn_cpu_routines *routines = source->routines;
    const int64_t count = source->count;
    const size_t bytes = source->bytes;
    int64_t plane = r->room[0] * r->room[1] * (int64_t)bytes;
    if (r->size[0] < r->room[0] || r->size[1] < r->room[1])
        memset(to, 0, (size_t)(count * plane));
    to += (r->skip[0] * r->room[1] + r->skip[1]) * (int64_t)bytes;
    for (int64_t c = 0; c < count; c++)
        routines->pool[conv_type(bytes)]->copy(
            to + c * plane, r->room[1], 1,
            at + c * from->stride[1] * (int64_t)bytes, from->stride[2],
            from->stride[3], r->size[0], r->size[1], 0);
}

/* Copies the channels of one image to a frame in which the channels of a pixel
 * are adjacent. */
static void frame_channels_last(const reached *r, const conv_source *source,
                                const char *at, char *to)
{
    const conv_images *from = source->images;
    const int64_t count = source->count, bytes = (int64_t)source->bytes;
    int64_t row = r->room[1] * count * bytes;
    if (r->size[0] < r->room[0] || r->size[1] < r->room[1])
        memset(to, 0, (size_t)(r->room[0] * row));
    to += r->skip[0] * row + r->skip[1] * count * bytes;
    for (int64_t i = 0; i < r->size[0]; i++) {
        const conv_transfer t = {.routines = source->routines,
                                 .bytes = source->bytes,
                                 .channels = count,
                                 .rows = 1,
                                 .columns = r->size[1],
                                 .images = (char *)(uintptr_t)at +
                                           i * from->stride[2] * bytes,
                                 .channel = from->stride[1],
                                 .step = from->stride[3],
                                 .pixels = to + i * row,
                                 .width = count};
        tn__cpu_conv_gather(&t);
    }
}

conv_view tn__cpu_conv_view(const conv_grid *grid, const conv_block *block,
                            const conv_source *source, conv_order order,
                            char *frame)
{
    const int64_t *stride = source->images->stride, count = source->count;
    const int64_t bytes = (int64_t)source->bytes;
    reached r = reach_over(grid, block, source->images);
    const char *at = source->images->memory +
                     (block->first[0] * stride[0] + source->first * stride[1] +
                      r.start[0] * stride[2] + r.start[1] * stride[3]) *
                         bytes;
    bool last = order == CONV_CHANNELS_LAST;
    if (!grid->framed && !last)
        return (conv_view){at, {stride[0], stride[1], stride[2], stride[3]}};
    int64_t plane = r.room[0] * r.room[1];
    for (int64_t n = 0; n < block->size[0]; n++)
        (last ? frame_channels_last
              : frame_planes)(&r, source, at + n * stride[0] * bytes,
                              frame + n * count * plane * bytes);
    return last ? (conv_view){frame, {count * plane, 1, r.room[1] * count,
                                      count}}
                : (conv_view){frame, {count * plane, plane, r.room[1], 1}};
}

/* Returns the state for prefetching rows [row, row + rows) of the block's
 * images. */
static conv_prefetch_state prefetch_state_of(const conv_source *source,
                                             const conv_block *block,
                                             int64_t row, int64_t rows)
{
    const int64_t *stride = source->images->stride, count = source->count;
    const int64_t size = (int64_t)source->bytes;
    conv_prefetch_state a = {.channels = count,
                             .images = block->size[0],
                             .count = count,
                             .bytes = rows * stride[2] * size,
                             .channel = stride[1] * size,
                             .image = stride[0] * size};
    if (rows < 1 || stride[3] != 1 || stride[2] != source->images->size[1])
        return a;
    a.at = source->images->memory + block->first[0] * a.image +
           source->first * a.channel + row * stride[2] * size;
    a.end = a.at + a.bytes;
    a.lines = a.images * count * (a.bytes / 64 + 1);
    return a;
}

conv_prefetch_state tn__cpu_conv_ahead(const conv_grid *grid, int64_t number,
                                       const conv_source *source)
{
    if (number >= grid->block_count)
        return (conv_prefetch_state){0};
    conv_block block = tn__cpu_conv_block(grid, number);
    reached r = reach_over(grid, &block, source->images);
    return prefetch_state_of(source, &block, r.start[0], r.size[0]);
}

conv_prefetch_state tn__cpu_conv_ahead_pixels(const conv_grid *grid,
                                              int64_t number,
                                              const conv_source *source)
{
    if (number >= grid->block_count)
        return (conv_prefetch_state){0};
    conv_block block = tn__cpu_conv_block(grid, number);
    return prefetch_state_of(source, &block, block.first[1], block.size[1]);
}

void tn__cpu_conv_prefetch(conv_prefetch_state *a, int64_t lines)
{
    while (a->at && lines > 0) {
        int64_t some = tn__cpu_min((a->end - a->at + 63) / 64, lines);
        for (int64_t i = 0; i < some; i++)
            __builtin_prefetch(a->at + i * 64, 0, 2);
        lines -= some;
        a->at += some * 64;
        if (a->at < a->end)
            continue;
        a->end += a->channel;
        /* Continues with channel 0 of the next image. */
        if (--a->channels == 0) {
            a->channels = a->count;
            a->end += a->image - a->count * a->channel;
            a->images--;
        }
        a->at = a->images > 0 ? a->end - a->bytes : NULL;
    }
}

void tn__cpu_conv_pixels(const conv_grid *grid, const conv_block *block,
                         const conv_view *view, int64_t *at)
{
    int64_t row = grid->step[0] * view->stride[2];
    int64_t column = grid->step[1] * view->stride[3];
    for (int64_t n = 0; n < block->size[0]; n++)
        for (int64_t i = 0; i < block->size[1]; i++) {
            int64_t first = n * view->stride[0] + i * row;
            for (int64_t j = 0; j < block->size[2]; j++)
                *at++ = first + j * column;
        }
}

void tn__cpu_conv_taps(const conv_grid *grid, const conv_view *view,
                       int64_t channels, int64_t *at)
{
    for (int64_t t = 0; t < grid->taps; t++) {
        const conv_tap *tap = &grid->tap[t];
        int64_t first = (tap->at[0] - grid->low[0]) * view->stride[2] +
                        (tap->at[1] - grid->low[1]) * view->stride[3];
        for (int64_t c = 0; c < channels; c++)
            *at++ = first + c * view->stride[1];
    }
}

void tn__cpu_conv_visit_rows(const conv_block *block,
                             const conv_placement *placement, conv_visit *visit,
                             void *context)
{
    const conv_images *images = placement->images;
    const int64_t *first = placement->first, *step = placement->step;
    const int64_t bytes = (int64_t)placement->bytes;
    conv_rows r = {.row = step[0] * images->stride[2],
                   .step = step[1] * images->stride[3],
                   .rows = block->size[1], .columns = block->size[2]};
    const int64_t at = block->first[0] * images->stride[0] +
                       first[0] * images->stride[2] +
                       first[1] * images->stride[3] +
                       block->first[1] * r.row + block->first[2] * r.step;
    r.memory = images->memory + at * bytes;
    /* Joins contiguous rows into one. */
    if (r.rows == 1 || r.row == r.columns * r.step) {
        r.columns *= r.rows;
        r.rows = 1;
    }
    for (int64_t n = 0; n < block->size[0]; n++) {
        visit(context, &r);
        r.memory += images->stride[0] * bytes;
        r.pixel += r.rows * r.columns;
    }
}

void tn__cpu_conv_gather(const conv_transfer *t)
{
    const int64_t count = t->rows * t->columns;
    if (t->step != 1) {
        t->routines->conv[conv_type(t->bytes)]->gather(
            t->pixels, t->width, t->images, t->channel, t->step, t->channels,
            count);
        return;
    }
    t->routines->transpose[t->bytes](t->pixels, t->width, t->images, t->channel,
                                     t->channels, count, 0);
    for (int64_t p = 0; p < count && t->channels < t->width; p++)
        memset(t->pixels + (size_t)(p * t->width + t->channels) * t->bytes, 0,
               (size_t)(t->width - t->channels) * t->bytes);
}

/* Does the work of tn__cpu_conv_scatter for step != 1: transposes some rows of
 * some channels to a buffer, then copies them to the images. */
static void scatter_strided(const conv_transfer *t, const char *bias,
                            int64_t bias_step)
{
    enum { CHANNELS = 16, PIXELS = 128 };
    _Alignas(64) double room[CHANNELS * PIXELS];
    const tn_cpu_routines *routines = t->routines;
    const unsigned type = conv_type(t->bytes);
    const int64_t size = (int64_t)t->bytes;
    const int64_t wide = tn__cpu_min(PIXELS, t->columns), high = PIXELS / wide;
    for (int64_t i = 0; i < t->rows; i += high)
        for (int64_t j = 0; j < t->columns; j += wide)
            for (int64_t o = 0; o < t->channels; o += CHANNELS) {
                const int64_t m = tn__cpu_min(high, t->rows - i);
                const int64_t n = tn__cpu_min(wide, t->columns - j);
                const int64_t some = tn__cpu_min(CHANNELS, t->channels - o);
                char *to = t->images +
                           (o * t->channel + i * t->row + j * t->step) * size;
                routines->transpose[size](
                    room, PIXELS,
                    t->pixels + ((i * t->columns + j) * t->width + o) * size,
                    t->width, m * n, some, 0);
                for (int64_t k = 0; k < some; k++) {
                    char *from = (char *)room + k * PIXELS * size;
                    if (bias)
                        routines->op[TN_K_ADD][type](
                            from, from, bias + (o + k) * bias_step * size,
                            from, m * n, 2);
                    routines->pool[type]->copy(to + k * t->channel * size,
                                               t->row, t->step, from, n, 1, m,
                                               n, 0);
                }
            }
}

void tn__cpu_conv_scatter(const conv_transfer *t, const char *bias,
                          int64_t bias_step)
{
    const int64_t size = (int64_t)t->bytes;
    if (t->step != 1) {
        scatter_strided(t, bias, bias_step);
        return;
    }
    char *out = t->images, *in = t->pixels;
    for (int64_t i = 0; i < t->rows; i++) {
        t->routines->transpose[size](out, t->channel, in, t->width, t->columns,
                                     t->channels, 0);
        for (int64_t o = 0; bias && o < t->channels; o++) {
            char *to = out + o * t->channel * size;
            t->routines->op[TN_K_ADD][conv_type(t->bytes)](
                to, to, bias + o * bias_step * size, to, t->columns, 2);
        }
        out += t->row * size;
        in += t->columns * t->width * size;
    }
}
