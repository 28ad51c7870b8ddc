/* conv_grid.c: pixels, the taps they are met by, and the blocks they are cut
 * into. */
#include <string.h>

#include "conv.h"

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
        /* Blocks of like sizes. */
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

/* Rows (columns) of the images that a block's pixels reach. */
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

/* What a block reaches over: rows and columns, and which of them lie in the
 * images, from `start` there and from `skip` in the frame. */
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
    if (r.size[0] == 0 || r.size[1] == 0) /* zeros alone */
        r.size[0] = r.skip[0] = r.skip[1] = r.size[1] = 0;
    return r;
}

/* The channels of one image, planes as they lie there. */
static void frame_planes(const reached *r, const conv_images *from,
                         int64_t count, size_t bytes,
                         const tn_cpu_routines *routines, const char *at,
                         char *to)
{
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

static void frame_channels_last(const reached *r, const conv_images *from,
                                int64_t count, size_t bytes,
                                const tn_cpu_routines *routines,
                                const char *at, char *to)
{
    int64_t row = r->room[1] * count * (int64_t)bytes;
    if (r->size[0] < r->room[0] || r->size[1] < r->room[1])
        memset(to, 0, (size_t)(r->room[0] * row));
    to += r->skip[0] * row + r->skip[1] * count * (int64_t)bytes;
    for (int64_t i = 0; i < r->size[0]; i++)
        tn__cpu_conv_gather(routines, bytes, to + i * row, count,
                            at + i * from->stride[2] * (int64_t)bytes,
                            from->stride[1], from->stride[3], count,
                            r->size[1]);
}

conv_view tn__cpu_conv_view(const conv_grid *grid, const conv_block *block,
                            const conv_images *from, int64_t first,
                            int64_t count, conv_order order, size_t bytes,
                            const tn_cpu_routines *routines, char *frame)
{
    const int64_t *stride = from->stride;
    reached r = reach_over(grid, block, from);
    const char *at = from->memory +
                     (block->first[0] * stride[0] + first * stride[1] +
                      r.start[0] * stride[2] + r.start[1] * stride[3]) *
                         (int64_t)bytes;
    bool last = order == CONV_CHANNELS_LAST;
    if (!grid->framed && !last)
        return (conv_view){at, {stride[0], stride[1], stride[2], stride[3]}};
    int64_t plane = r.room[0] * r.room[1];
    for (int64_t n = 0; n < block->size[0]; n++)
        (last ? frame_channels_last : frame_planes)(
            &r, from, count, bytes, routines,
            at + n * stride[0] * (int64_t)bytes,
            frame + n * count * plane * (int64_t)bytes);
    return last ? (conv_view){frame, {count * plane, 1, r.room[1] * count,
                                      count}}
                : (conv_view){frame, {count * plane, plane, r.room[1], 1}};
}

static conv_prefetch_state prefetch_state_of(const conv_images *images,
                                             const conv_block *block,
                                             int64_t row, int64_t rows,
                                             int64_t first, int64_t count,
                                             size_t bytes)
{
    const int64_t *stride = images->stride, size = (int64_t)bytes;
    conv_prefetch_state a = {.channels = count,
                             .images = block->size[0],
                             .count = count,
                             .bytes = rows * stride[2] * size,
                             .channel = stride[1] * size,
                             .image = stride[0] * size};
    if (rows < 1 || stride[3] != 1 || stride[2] != images->size[1])
        return a;
    a.at = images->memory + block->first[0] * a.image + first * a.channel +
           row * stride[2] * size;
    a.end = a.at + a.bytes;
    a.lines = a.images * count * (a.bytes / 64 + 1);
    return a;
}

conv_prefetch_state tn__cpu_conv_ahead(const conv_grid *grid, int64_t number,
                                       const conv_images *from, int64_t first,
                                       int64_t count, size_t bytes)
{
    if (number >= grid->block_count)
        return (conv_prefetch_state){0};
    conv_block block = tn__cpu_conv_block(grid, number);
    reached r = reach_over(grid, &block, from);
    return prefetch_state_of(from, &block, r.start[0], r.size[0], first, count,
                             bytes);
}

conv_prefetch_state tn__cpu_conv_ahead_pixels(const conv_grid *grid,
                                              int64_t number,
                                              const conv_images *images,
                                              int64_t first, int64_t count,
                                              size_t bytes)
{
    if (number >= grid->block_count)
        return (conv_prefetch_state){0};
    conv_block block = tn__cpu_conv_block(grid, number);
    return prefetch_state_of(images, &block, block.first[1], block.size[1],
                             first, count, bytes);
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
        if (--a->channels == 0) { /* the first of the next image */
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

void tn__cpu_conv_visit_rows(const conv_block *block, const conv_images *images,
                             const int64_t *first, const int64_t *step,
                             size_t bytes, conv_visit *visit, void *context)
{
    conv_rows r = {.row = step[0] * images->stride[2],
                   .step = step[1] * images->stride[3],
                   .rows = block->size[1], .columns = block->size[2]};
    const int64_t at = block->first[0] * images->stride[0] +
                       first[0] * images->stride[2] +
                       first[1] * images->stride[3] +
                       block->first[1] * r.row + block->first[2] * r.step;
    r.memory = images->memory + at * (int64_t)bytes;
    /* Rows that follow one another are one. */
    if (r.rows == 1 || r.row == r.columns * r.step) {
        r.columns *= r.rows;
        r.rows = 1;
    }
    for (int64_t n = 0; n < block->size[0]; n++) {
        visit(context, &r);
        r.memory += images->stride[0] * (int64_t)bytes;
        r.pixel += r.rows * r.columns;
    }
}

void tn__cpu_conv_gather(const tn_cpu_routines *routines, size_t bytes,
                         char *out, int64_t width, const char *in,
                         int64_t channel, int64_t step, int64_t channels,
                         int64_t count)
{
    if (step != 1) {
        routines->conv[conv_type(bytes)]->gather(out, width, in, channel, step,
                                                 channels, count);
        return;
    }
    routines->transpose[bytes](out, width, in, channel, channels, count, 0);
    for (int64_t p = 0; p < count && channels < width; p++)
        memset(out + (size_t)(p * width + channels) * bytes, 0,
               (size_t)(width - channels) * bytes);
}

/* Pixels apart: some rows of some channels are turned over, and then moved. */
static void scatter_strided(const tn_cpu_routines *routines, size_t bytes,
                            char *out, int64_t channel, int64_t row,
                            int64_t step, const char *in, int64_t in_row,
                            int64_t channels, int64_t rows, int64_t columns,
                            const char *bias, int64_t bias_step)
{
    enum { CHANNELS = 16, PIXELS = 128 };
    _Alignas(64) double room[CHANNELS * PIXELS];
    const unsigned type = conv_type(bytes);
    const int64_t size = (int64_t)bytes;
    const int64_t wide = tn__cpu_min(PIXELS, columns), high = PIXELS / wide;
    for (int64_t i = 0; i < rows; i += high)
        for (int64_t j = 0; j < columns; j += wide)
            for (int64_t o = 0; o < channels; o += CHANNELS) {
                const int64_t m = tn__cpu_min(high, rows - i);
                const int64_t n = tn__cpu_min(wide, columns - j);
                const int64_t some = tn__cpu_min(CHANNELS, channels - o);
                char *to = out + (o * channel + i * row + j * step) * size;
                routines->transpose[bytes](
                    room, PIXELS, in + ((i * columns + j) * in_row + o) * size,
                    in_row, m * n, some, 0);
                for (int64_t k = 0; k < some; k++) {
                    char *from = (char *)room + k * PIXELS * size;
                    if (bias)
                        routines->op[TN_K_ADD][type](
                            from, from, bias + (o + k) * bias_step * size,
                            from, m * n, 2);
                    routines->pool[type]->copy(to + k * channel * size, row,
                                               step, from, n, 1, m, n, 0);
                }
            }
}

void tn__cpu_conv_scatter(const tn_cpu_routines *routines, size_t bytes,
                          char *out, int64_t channel, int64_t row, int64_t step,
                          const char *in, int64_t in_row, int64_t channels,
                          int64_t rows, int64_t columns, const char *bias,
                          int64_t bias_step)
{
    const int64_t size = (int64_t)bytes;
    if (step != 1) {
        scatter_strided(routines, bytes, out, channel, row, step, in, in_row,
                        channels, rows, columns, bias, bias_step);
        return;
    }
    for (; rows > 0; rows--, out += row * size, in += columns * in_row * size) {
        routines->transpose[bytes](out, channel, in, in_row, columns, channels,
                                   0);
        for (int64_t o = 0; bias && o < channels; o++) {
            char *to = out + o * channel * size;
            routines->op[TN_K_ADD][conv_type(bytes)](
                to, to, bias + o * bias_step * size, to, columns, 2);
        }
    }
}
