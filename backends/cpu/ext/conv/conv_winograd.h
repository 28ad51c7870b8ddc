/* conv_winograd.h: types that the files of Winograd's convolution share
 * (conv_winograd.c).
 *
 * A tile is 2 x 2 pixels of the result, and its window is the 4 x 4 pixels that
 * it reads. For filters of 1 x 3 a tile is 2 adjacent pixels of a row, and its
 * window is 4 pixels. An element is one of the 16 (or 4) values of a window or
 * of a transformed filter. */
#ifndef TN_CPU_CONV_WINOGRAD_H
#define TN_CPU_CONV_WINOGRAD_H

#include "cpu_conv.h"

enum {
    WINOGRAD_BEYOND = 16 /* number of elements that vectors access beyond the
                          * end of a row */
};

typedef struct winograd {
    const tn_cpu_routines *general;
    const tn_cpu_winograd_routines *routines;
    const tn_cpu_conv_routines *products;
    conv_images from, to;
    /* groups is the number of groups. from_channels and to_channels are the
     * numbers of channels of one group in the images that are read and
     * written. */
    int64_t groups, from_channels, to_channels;
    int64_t high; /* rows of a tile: 2 or 1 */
    /* elements is the size of a window, 16 or 4. taps is the number of weights
     * of a filter, 9 or 3. */
    int64_t elements, taps;
    /* number of rows and columns of zeros before an image */
    int64_t pad[2];
    /* rows and columns of tiles in an image, and the number of tiles in all
     * images */
    int64_t tiles[2], total;
    const float *weight;
    /* Strides of the weights in elements: weight_from is the stride between
     * channels that are read, weight_to between channels that are written,
     * weight_group between groups. */
    int64_t weight_from, weight_to, weight_group;
    /* true for the gradient of the input, which rotates filters by 180
     * degrees */
    bool flipped;
    const float *bias;
    int64_t bias_stride;
    /* block is the number of tiles in a block. blocks is the number of
     * blocks. */
    int64_t block, blocks;
    /* number of channels of the result whose sums are stored at a time */
    int64_t results;
    /* Number of elements of a plane of transformed filters. A plane is laid out
     * as [strip][channel][STRIP]. */
    int64_t plane;
    float *filters; /* transformed filters: [group][element][plane] */
    tn_cpu_epilogue *then; /* a launch over each image, or NULL */
    atomic_int failed;
} winograd;

/* Returns the stride between arrays of `elements` floats, rounded up to a whole
 * number of 4096-byte pages plus 256 bytes. Arrays whose distance is a multiple
 * of 4096 bytes would map to the same L1 cache sets and evict each other. */
static inline int64_t winograd_plane(int64_t elements)
{
    return conv_round_up(elements, 1024) + 64;
}

/* A sequence of adjacent tiles in one row of tiles: the image, row and column
 * of its first tile, and its number of tiles. */
typedef struct tile_run {
    int64_t image, row, column, count;
} tile_run;

static inline tile_run winograd_tile_run(const winograd *w, int64_t tile,
                                         int64_t end)
{
    int64_t line = tile / w->tiles[1];
    tile_run run = {line / w->tiles[0], line % w->tiles[0],
                    tile % w->tiles[1], 0};
    run.count = tn__cpu_min(w->tiles[1] - run.column, end - tile);
    return run;
}

/* Returns whether a row of tiles has more tiles than a block. Windows are then
 * computed for a part of a row at a time, otherwise for whole rows. */
static inline bool winograd_is_wide(const winograd *w)
{
    return w->tiles[1] > w->block;
}

/* Returns the number of elements of one channel's frame. A frame is a copy of
 * the pixels that `rows` rows of tiles read, with even and odd columns
 * separated. */
static inline int64_t winograd_frame(const winograd *w, int64_t rows)
{
    const int64_t columns = tn__cpu_min(w->tiles[1], w->block) + 1;
    return (w->high * rows + 2 * (w->high - 1)) * 2 * columns +
           2 * WINOGRAD_BEYOND;
}

/* Returns the largest number of elements of a frame (a copy of the pixels that
 * tiles read). Frames are made for parts of a block: a part is within one
 * image, or within one row of tiles if winograd_is_wide(). */
static inline int64_t winograd_max_frame(const winograd *w)
{
    int64_t rows = winograd_is_wide(w)
                       ? 1
                       : tn__cpu_min(w->tiles[0], w->block / w->tiles[1] + 2);
    return conv_round_up(winograd_frame(w, rows), 16);
}

/* Arguments for the function that transforms the windows of channels [channel,
 * channel + channels) and tiles [first, end). It stores element e of the window
 * of channel c and tile t at
 *     v[e * plane + c * step + t - first] */
typedef struct winograd_windows {
    int64_t channel, channels, first, end;
    float *frame; /* scratch memory of winograd_max_frame elements */
    float *v;
    int64_t step, plane;
} winograd_windows;
void tn__cpu_winograd_windows(const winograd *w,
                              const winograd_windows *windows);

/* Computes the gradient of the weights (conv_winograd_weight.c).
 * conv_winograd.c has filled w. */
tn_status tn__cpu_winograd_weight(winograd *w, const tn_conv_args *args);

#endif
