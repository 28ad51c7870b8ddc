/* conv.h: what the sums of a convolution share: images, the pixels that slide
 * over them, and blocks of those. */
#ifndef TN_CPU_CONV_H
#define TN_CPU_CONV_H

#include "../../cpu.h"

/* Images as they lie in memory. Strides of n, c, h, w count elements. */
typedef struct conv_images {
    char *memory;
    int64_t size[2];
    int64_t stride[4];
} conv_images;

/* A place in the window: of the images that are read, relative to where a
 * pixel starts, and of the weights. */
typedef struct conv_tap {
    int64_t at[2];
    int64_t weight;
} conv_tap;

/* Pixels met by the same taps: pixel (i, j) starts at (i, j) * step of the
 * images that are read. */
typedef struct conv_grid {
    int64_t count; /* of images */
    int64_t size[2], step[2];
    const conv_tap *tap;
    int64_t taps;
    int64_t low[2], span[2]; /* the lowest place of a tap; from it to the
                                highest */
    bool framed; /* some tap lies outside: blocks are copied into zeros */
    int64_t block[3], blocks[3]; /* images, rows, columns: of a block, and how
                                    many blocks */
    int64_t block_count;
} conv_grid;

/* low, span, framed; then blocks of about that many pixels. */
void tn__cpu_conv_grid_init(conv_grid *grid, const conv_images *from);
void tn__cpu_conv_grid_cut(conv_grid *grid, int64_t pixels);

/* Taps in threes side by side, for pixels side by side: the number of a three's
 * first in place. -1: they are not so. */
int64_t tn__cpu_conv_row_taps(const conv_grid *grid, const conv_images *from);
/* Columns of the narrowest block: the last one of a row. */
int64_t tn__cpu_conv_min_columns(const conv_grid *grid);

typedef struct conv_block {
    int64_t first[3], size[3]; /* images, rows, columns */
    int64_t pixels;
} conv_block;

conv_block tn__cpu_conv_block(const conv_grid *grid, int64_t number);

/* Channels [first, first + count) of images, to be read. */
typedef struct conv_source {
    const tn_cpu_routines *routines;
    const conv_images *images;
    int64_t first, count;
    size_t bytes; /* of an element */
} conv_source;

/* The images under a block: element 0 is where its first pixel has its lowest
 * tap. */
typedef struct conv_view {
    const char *base;
    int64_t stride[4];
} conv_view;

/* How the channels under a block are wanted: as planes, in place where nothing
 * lies outside the images; or the channels of a pixel side by side, for sums
 * that run over them: of planes, each step of such a sum is in another line. */
typedef enum conv_order { CONV_PLANES, CONV_CHANNELS_LAST } conv_order;

/* Elements of a block's frame, for so many channels. */
int64_t tn__cpu_conv_frame_size(const conv_grid *grid, const conv_block *block,
                                int64_t channels, conv_order order);
/* Channels [first, first + count) of the images, in place or framed. */
conv_view tn__cpu_conv_view(const conv_grid *grid, const conv_block *block,
                            const conv_source *source, conv_order order,
                            char *frame);
/* Offsets in a view: of pixels, and of channels under taps, (tap, channel). */
void tn__cpu_conv_pixels(const conv_grid *grid, const conv_block *block,
                         const conv_view *view, int64_t *at);
void tn__cpu_conv_taps(const conv_grid *grid, const conv_view *view,
                       int64_t channels, int64_t *at);

/* The images under a block, asked for while the one before it is worked on:
 * channels lie apart, and the processor foresees little of them. */
typedef struct conv_prefetch_state {
    const char *at, *end;     /* of a channel; NULL: no more */
    int64_t channels, images; /* left */
    int64_t count, bytes;     /* channels of an image; of a channel */
    int64_t channel, image;   /* steps in bytes */
    int64_t lines;            /* of all, about */
} conv_prefetch_state;

/* Of block `number`, if there is one, of images in lines without gaps: under
 * it, or its pixels themselves. */
conv_prefetch_state tn__cpu_conv_ahead(const conv_grid *grid, int64_t number,
                                       const conv_source *source);
conv_prefetch_state tn__cpu_conv_ahead_pixels(const conv_grid *grid,
                                              int64_t number,
                                              const conv_source *source);
void tn__cpu_conv_prefetch(conv_prefetch_state *ahead, int64_t lines);

/* A block's pixels in one of `images`: calls visit for each, with the address of
 * channel 0 of the first one, row and step from row to row and from pixel to
 * pixel there, and its number in the block. Whole rows without gaps are one.
 * step[2] is from pixel to pixel of the images, first[2] the place of pixel
 * (0, 0). */
typedef struct conv_placement {
    const conv_images *images;
    const int64_t *first, *step;
    size_t bytes; /* of an element */
} conv_placement;

typedef struct conv_rows {
    char *memory;
    int64_t row, step, pixel, rows, columns;
} conv_rows;

typedef void conv_visit(void *context, const conv_rows *rows);
void tn__cpu_conv_visit_rows(const conv_block *block,
                             const conv_placement *placement, conv_visit *visit,
                             void *context);

/* A block's pixels one after another, for vectors of them: pixel (n, i, j) is
 * element n * plane + i * room[1] + j (conv_strip.c). */
typedef struct conv_strip {
    int64_t room[2], plane;
    int64_t phases[2];
    int64_t pixels;   /* with their gaps, in whole tiles */
    int64_t elements; /* of a frame for them */
} conv_strip;

conv_strip tn__cpu_conv_strip(const conv_grid *grid, const conv_block *block,
                              int64_t channels,
                              const tn_cpu_conv_routines *routines);
/* Channels [first, first + count) under a block in a frame; the offsets there
 * of pixel 0's channels under taps, (tap, channel). */
void tn__cpu_conv_strip_fill(const conv_grid *grid, const conv_block *block,
                             const conv_strip *s, const conv_source *source,
                             char *frame);
void tn__cpu_conv_strip_taps(const conv_grid *grid, const conv_block *block,
                             const conv_strip *s, int64_t channels,
                             int64_t *at);
/* One channel of the images that a block's pixels are, from memory or back;
 * first and step as for tn__cpu_conv_visit_rows. The mask of pixels, all bits of an
 * element set where one stands. */
void tn__cpu_conv_strip_copy(const conv_block *block, const conv_strip *s,
                             const conv_placement *placement,
                             const tn_cpu_routines *routines, char *strip,
                             bool back);
void tn__cpu_conv_strip_mask(const conv_block *block, const conv_strip *s,
                             size_t bytes, char *mask);

/* out[p][o] = in[o * channel + p * step], 0 for o in [channels, width); and
 * back, plus bias[o]: turned over by squares in registers, but where pixels that
 * are gathered lie apart. bytes: of an element. */
typedef struct conv_transfer {
    const tn_cpu_routines *routines;
    size_t bytes; /* of an element */
    int64_t channels, rows, columns;
    char *images;               /* element of channel 0 and pixel 0 */
    int64_t channel, row, step; /* strides of images, in elements */
    char *pixels;               /* channels of a pixel side by side */
    int64_t width;              /* from pixel to pixel there */
} conv_transfer;
void tn__cpu_conv_gather(const conv_transfer *t);
void tn__cpu_conv_scatter(const conv_transfer *t, const char *bias,
                          int64_t bias_step);

static inline unsigned conv_type(size_t bytes)
{
    return bytes == 4 ? CPU_F32 : CPU_F64;
}

/* WEIGHT (conv_weight.c). */
tn_status tn__cpu_conv_weight(const tn_conv_args *args,
                              const tn_cpu_routines *routines, size_t bytes);

/* FORWARD and INPUT of windows of one pixel (conv_point.c). False: it is not
 * what suits it. */
bool tn__cpu_conv_point(const tn_conv_args *args,
                        const tn_cpu_routines *routines, size_t bytes,
                        tn_status *status);

/* Convolutions of one channel by itself (conv_plane.c). False: as above, or
 * elements of `routines` are not floats. */
bool tn__cpu_conv_plane(const tn_conv_args *args,
                        const tn_cpu_conv_routines *routines,
                        tn_status *status);

/* Windows of 3 x 3 and 1 x 3, of float32, by fewer products (conv_winograd.c).
 * False: as above. */
bool tn__cpu_conv_winograd(const tn_conv_args *args,
                           const tn_cpu_routines *routines,
                           conv_choice choice, tn_status *status);

conv_images tn__cpu_conv_images(const tn_strided *view, const int64_t *size,
                                size_t bytes);
/* The forward way of a window over in, with taps of args->weight: `tap` has
 * room for all of them. */
void tn__cpu_conv_forward_grid(conv_grid *grid, const tn_conv_args *args,
                               conv_tap *tap);

/* Are so few channels summed up that pixels fill vectors better? */
static inline bool conv_by_pixels(int64_t channels,
                                  const tn_cpu_conv_routines *routines)
{
    return 2 * channels <= routines->lanes;
}

static inline int64_t conv_round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

#endif
