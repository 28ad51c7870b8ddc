/* conv_strip.c: the layout of convolution with pixels as lanes, for channels
 * that are too few to fill vectors.
 *
 * The pixels of a block form one sequence, a strip. It includes gaps between
 * rows, so that each tap (element of the window) has one offset for all pixels.
 * The results at gaps are discarded. If pixels have a stride s, the frame is
 * split into s x s planes, its phases. Phase (i, j) has the rows and columns
 * congruent to (i, j) mod s, and within it adjacent pixels are adjacent
 * elements. */
#include <string.h>

#include "cpu_conv.h"

conv_strip tn__cpu_conv_strip(const conv_grid *grid, const conv_block *block,
                              int64_t channels,
                              const tn_cpu_conv_routines *routines)
{
    conv_strip s;
    for (int a = 0; a < 2; a++) {
        s.phases[a] = tn__cpu_min(grid->step[a], grid->span[a] + 1);
        s.room[a] = block->size[1 + a] + grid->span[a] / grid->step[a];
    }
    s.plane = s.room[0] * s.room[1];
    s.pixels = conv_round_up((block->size[0] - 1) * s.plane +
                                 (block->size[1] - 1) * s.room[1] +
                                 block->size[2],
                             routines->strip);
    s.elements = s.phases[0] * s.phases[1] * channels * block->size[0] *
                     s.plane + routines->strip;
    return s;
}

/* The rows (or columns) of an image in one phase: those with the same remainder
 * modulo the stride of the convolution. skip is the index of the first one in
 * the frame (the padded copy), start its index in the image, and count is how
 * many there are. */
typedef struct places {
    int64_t skip, start, count;
} places;

/* Returns the rows (or columns) of a phase (one remainder modulo the stride)
 * that are within the images. low is the index in the images of the frame's
 * first row. room and size are the numbers of rows in the frame and in the
 * images. */
static places places_of(int64_t low, int64_t step, int64_t room, int64_t size)
{
    int64_t skip = low < 0 ? (step - 1 - low) / step : 0;
    int64_t start = low + skip * step;
    int64_t count = start < size ? (size - start + step - 1) / step : 0;
    return (places){skip, start, tn__cpu_min(count, room - skip)};
}

/* Copies one phase (the rows and columns with one pair of remainders modulo the
 * strides) of a block's images to to[channel][image][plane]. */
static void fill_phase(const conv_grid *grid, const conv_block *block,
                       const conv_strip *s, const int64_t *phase,
                       const conv_source *source, const char *at, char *to)
{
    const conv_images *from = source->images;
    const size_t bytes = source->bytes;
    places p[2];
    for (int a = 0; a < 2; a++)
        p[a] = places_of(block->first[1 + a] * grid->step[a] + grid->low[a] +
                             phase[a],
                         grid->step[a], s->room[a], from->size[a]);
    if (p[0].count <= 0 || p[1].count <= 0)
        return;
    at += (p[0].start * from->stride[2] + p[1].start * from->stride[3]) *
          (int64_t)bytes;
    to += (p[0].skip * s->room[1] + p[1].skip) * (int64_t)bytes;
    for (int64_t c = 0; c < source->count; c++)
        for (int64_t n = 0; n < block->size[0]; n++)
            source->routines->pool[conv_type(bytes)]->copy(
                to + (c * block->size[0] + n) * s->plane * (int64_t)bytes,
                s->room[1], 1,
                at + ((block->first[0] + n) * from->stride[0] +
                      c * from->stride[1]) *
                         (int64_t)bytes,
                grid->step[0] * from->stride[2],
                grid->step[1] * from->stride[3], p[0].count, p[1].count, 0);
}

void tn__cpu_conv_strip_fill(const conv_grid *grid, const conv_block *block,
                             const conv_strip *s, const conv_source *source,
                             char *frame)
{
    const conv_images *from = source->images;
    const int64_t bytes = (int64_t)source->bytes;
    const char *at = from->memory + source->first * from->stride[1] * bytes;
    memset(frame, 0, (size_t)(s->elements * bytes));
    for (int64_t i = 0; i < s->phases[0]; i++)
        for (int64_t j = 0; j < s->phases[1]; j++) {
            const int64_t phase[2] = {i, j};
            fill_phase(grid, block, s, phase, source, at, frame);
            frame += source->count * block->size[0] * s->plane * bytes;
        }
}

void tn__cpu_conv_strip_taps(const conv_grid *grid, const conv_block *block,
                             const conv_strip *s, int64_t channels,
                             int64_t *at)
{
    for (int64_t t = 0; t < grid->taps; t++) {
        int64_t row = grid->tap[t].at[0] - grid->low[0];
        int64_t column = grid->tap[t].at[1] - grid->low[1];
        int64_t phase = row % grid->step[0] * s->phases[1] +
                        column % grid->step[1];
        int64_t first = row / grid->step[0] * s->room[1] +
                        column / grid->step[1];
        for (int64_t c = 0; c < channels; c++)
            *at++ = (phase * channels + c) * block->size[0] * s->plane + first;
    }
}

void tn__cpu_conv_strip_copy(const conv_block *block, const conv_strip *s,
                             const conv_placement *placement,
                             const tn_cpu_routines *routines, char *strip,
                             bool back)
{
    const conv_images *images = placement->images;
    const int64_t *first = placement->first, *step = placement->step;
    const size_t bytes = placement->bytes;
    const int64_t *stride = images->stride;
    char *memory = images->memory +
                   (block->first[0] * stride[0] +
                    (first[0] + block->first[1] * step[0]) * stride[2] +
                    (first[1] + block->first[2] * step[1]) * stride[3]) *
                       (int64_t)bytes;
    int64_t row = step[0] * stride[2], column = step[1] * stride[3];
    for (int64_t n = 0; n < block->size[0]; n++) {
        if (back)
            routines->pool[conv_type(bytes)]->copy(
                memory, row, column, strip, s->room[1], 1, block->size[1],
                block->size[2], 0);
        else
            routines->pool[conv_type(bytes)]->copy(
                strip, s->room[1], 1, memory, row, column, block->size[1],
                block->size[2], 0);
        memory += stride[0] * (int64_t)bytes;
        strip += s->plane * (int64_t)bytes;
    }
}

void tn__cpu_conv_strip_mask(const conv_block *block, const conv_strip *s,
                             size_t bytes, char *mask)
{
    memset(mask, 0, (size_t)s->pixels * bytes);
    for (int64_t n = 0; n < block->size[0]; n++)
        for (int64_t i = 0; i < block->size[1]; i++)
            memset(mask + (size_t)(n * s->plane + i * s->room[1]) * bytes,
                   0xff, (size_t)block->size[2] * bytes);
}
