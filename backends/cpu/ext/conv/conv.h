/* conv.h: shared by the sums of a convolution: images, the pixels to compute,
 * and blocks of pixels. */
#ifndef TN_CPU_CONV_H
#define TN_CPU_CONV_H

#include "../../cpu.h"

/* Images in memory. Strides of n, c, h, w count elements. */
typedef struct conv_images {
    char *memory;
    int64_t size[2];
    int64_t stride[4];
} conv_images;

/* A tap: a position in the window. at: in the images that are read, relative to
 * the pixel's start. weight: in the weights. */
typedef struct conv_tap {
    int64_t at[2];
    int64_t weight;
} conv_tap;

/* Pixels that use the same taps: pixel (i, j) starts at (i, j) * step of the
 * images that are read. */
typedef struct conv_grid {
    int64_t count; /* of images */
    int64_t size[2], step[2];
    const conv_tap *tap;
    int64_t taps;
    int64_t low[2], span[2];     /* the lowest position of a tap; the distance
                                    to the highest */
    bool framed;                 /* some tap lies outside: blocks are copied
                                    into a frame of zeros */
    int64_t block[3], blocks[3]; /* size of a block: images, rows, columns;
                                    number of blocks along each */
    int64_t block_count;
} conv_grid;

/* Computes low, span and framed; then cuts blocks of about that many pixels. */
void tn__cpu_conv_grid_init(conv_grid *grid, const conv_images *from);
void tn__cpu_conv_grid_cut(conv_grid *grid, int64_t pixels);

/* Groups of three adjacent taps, for adjacent pixels: the number, 0 or 2, of a
 * group's leftmost tap. -1: the taps do not form such groups. */
int64_t tn__cpu_conv_row_taps(const conv_grid *grid, const conv_images *from);
/* Columns of the narrowest block: the last one of a row. */
int64_t tn__cpu_conv_min_columns(const conv_grid *grid);

typedef struct conv_block {
    int64_t first[3], size[3]; /* images, rows, columns */
    int64_t pixels;
} conv_block;

conv_block tn__cpu_conv_block(const conv_grid *grid, int64_t number);

/* Channels [first, first + count) of images that are read. */
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

/* Layout of the channels under a block: as planes, in place if nothing is
 * outside the images; or with the channels of a pixel adjacent, for sums over
 * channels, which would otherwise read another line at each step. */
typedef enum conv_order { CONV_PLANES, CONV_CHANNELS_LAST } conv_order;

/* Elements of a block's frame for that many channels. */
int64_t tn__cpu_conv_frame_size(const conv_grid *grid, const conv_block *block,
                                int64_t channels, conv_order order);
/* Returns the source's channels under a block, in place or in the frame. */
conv_view tn__cpu_conv_view(const conv_grid *grid, const conv_block *block,
                            const conv_source *source, conv_order order,
                            char *frame);
/* Offsets in a view: of pixels; and of channels under taps, (tap, channel). */
void tn__cpu_conv_pixels(const conv_grid *grid, const conv_block *block,
                         const conv_view *view, int64_t *at);
void tn__cpu_conv_taps(const conv_grid *grid, const conv_view *view,
                       int64_t channels, int64_t *at);

/* The images under the next block, prefetched while the current one is
 * computed: channels are apart, and the hardware predicts little of them. */
typedef struct conv_prefetch_state {
    const char *at, *end;     /* within a channel; NULL: done */
    int64_t channels, images; /* remaining */
    int64_t count, bytes;     /* channels of an image; bytes of a channel */
    int64_t channel, image;   /* strides in bytes */
    int64_t lines;            /* cache lines of all, about */
} conv_prefetch_state;

/* The state for block `number`, empty if there is none or rows are not
 * contiguous: for the images under the block, or for its pixels themselves. */
conv_prefetch_state tn__cpu_conv_ahead(const conv_grid *grid, int64_t number,
                                       const conv_source *source);
conv_prefetch_state tn__cpu_conv_ahead_pixels(const conv_grid *grid,
                                              int64_t number,
                                              const conv_source *source);
void tn__cpu_conv_prefetch(conv_prefetch_state *ahead, int64_t lines);

/* Calls visit for a block's pixels in each image. placement: the images that
 * hold the pixels, the position first[2] of pixel (0, 0) and the distance
 * step[2] between pixels there. conv_rows: the address of channel 0 of the
 * first pixel, strides between rows and pixels, and the pixel's number in the
 * block. Contiguous rows are joined to one. */
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

/* A block's pixels as one sequence, for vectors of them: pixel (n, i, j) is
 * element n * plane + i * room[1] + j (conv_strip.c). */
typedef struct conv_strip {
    int64_t room[2], plane;
    int64_t phases[2];
    int64_t pixels;   /* with gaps, in whole tiles */
    int64_t elements; /* of a frame for them */
} conv_strip;

conv_strip tn__cpu_conv_strip(const conv_grid *grid, const conv_block *block,
                              int64_t channels,
                              const tn_cpu_conv_routines *routines);
/* Fills a frame with the source's channels under a block; the offsets in it of
 * pixel 0's channels under taps, (tap, channel). */
void tn__cpu_conv_strip_fill(const conv_grid *grid, const conv_block *block,
                             const conv_strip *s, const conv_source *source,
                             char *frame);
void tn__cpu_conv_strip_taps(const conv_grid *grid, const conv_block *block,
                             const conv_strip *s, int64_t channels,
                             int64_t *at);
/* Copies one channel of a block's pixels from memory, or back. The mask of
 * pixels: all bits of an element are set if it is a pixel, none in gaps. */
void tn__cpu_conv_strip_copy(const conv_block *block, const conv_strip *s,
                             const conv_placement *placement,
                             const tn_cpu_routines *routines, char *strip,
                             bool back);
void tn__cpu_conv_strip_mask(const conv_block *block, const conv_strip *s,
                             size_t bytes, char *mask);

/* gather: pixels[p * width + o] = images[o * channel + p * step], 0 for o in
 * [channels, width). scatter: the reverse, plus bias[o * bias_step] if bias is
 * not NULL. Both transpose squares in registers, except that gather with a step
 * copies one by one. */
typedef struct conv_transfer {
    const tn_cpu_routines *routines;
    size_t bytes; /* of an element */
    int64_t channels, rows, columns;
    char *images;               /* element of channel 0 and pixel 0 */
    int64_t channel, row, step; /* strides of images, in elements */
    char *pixels;               /* the channels of a pixel are adjacent */
    int64_t width;              /* stride between pixels there */
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

/* FORWARD and INPUT with windows of one pixel (conv_point.c). False: the
 * arguments do not suit it. */
bool tn__cpu_conv_point(const tn_conv_args *args,
                        const tn_cpu_routines *routines, size_t bytes,
                        tn_status *status);

/* Depthwise convolutions (conv_plane.c). False: the arguments do not suit it,
 * or elements are not floats. */
bool tn__cpu_conv_plane(const tn_conv_args *args,
                        const tn_cpu_conv_routines *routines,
                        tn_status *status);

/* Windows of 3 x 3 and 1 x 3, of float32, by Winograd's transforms
 * (conv_winograd.c). False: as above. */
bool tn__cpu_conv_winograd(const tn_conv_args *args,
                           const tn_cpu_routines *routines,
                           conv_choice choice, tn_status *status);

conv_images tn__cpu_conv_images(const tn_strided *view, const int64_t *size,
                                size_t bytes);
/* The grid of FORWARD: a window over in, with taps of args->weight. tap: space
 * for all of them. */
void tn__cpu_conv_forward_grid(conv_grid *grid, const tn_conv_args *args,
                               conv_tap *tap);

/* Are channels so few that pixels fill vectors better? */
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
