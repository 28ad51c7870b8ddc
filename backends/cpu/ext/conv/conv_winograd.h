/* conv_winograd.h: tiles of 2 x 2 pixels and their windows of 4 x 4; for
 * windows of one row, tiles of 2 adjacent pixels and their windows of 4. */
#ifndef TN_CPU_CONV_WINOGRAD_H
#define TN_CPU_CONV_WINOGRAD_H

#include "conv.h"

enum {
    WINOGRAD_BEYOND = 16 /* elements that vectors access beyond a row */
};

typedef struct winograd {
    const tn_cpu_routines *general;
    const tn_cpu_winograd_routines *routines;
    const tn_cpu_conv_routines *products;
    conv_images from, to;
    int64_t groups, from_channels, to_channels; /* channels of a group */
    int64_t high;                               /* rows of a tile: 2 or 1 */
    int64_t elements, taps;                     /* of a tile's window, 16 or 4;
                                                   of a filter */
    int64_t pad[2];                             /* zeros before the first
                                                   window */
    int64_t tiles[2], total;                    /* of an image; of all images */
    const float *weight;
    int64_t weight_from, weight_to, weight_group; /* strides */
    bool flipped;                                 /* filters are rotated by 180
                                                     degrees */
    const float *bias;
    int64_t bias_stride;
    int64_t block, blocks; /* tiles of a block */
    int64_t plane;         /* of a group's filters: [strip][channel][STRIP] */
    float *filters;        /* [group][element][plane] */
    atomic_int failed;
} winograd;

/* The stride between the elements of a window: an odd number of lines and
 * pages, so that they do not share one cache set. */
static inline int64_t winograd_plane(int64_t elements)
{
    return conv_round_up(elements, 1024) + 64;
}

/* Adjacent tiles. */
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

/* Windows are computed for whole rows of tiles, or for parts of a row if it has
 * more tiles than a block. */
static inline bool winograd_is_wide(const winograd *w)
{
    return w->tiles[1] > w->block;
}

/* Elements of a channel's rows under `rows` rows of tiles, split into
 * halves. */
static inline int64_t winograd_frame(const winograd *w, int64_t rows)
{
    const int64_t columns = tn__cpu_min(w->tiles[1], w->block) + 1;
    return (w->high * rows + 2 * (w->high - 1)) * 2 * columns +
           2 * WINOGRAD_BEYOND;
}

/* For the part of a block within one image, or within one row of it. */
static inline int64_t winograd_max_frame(const winograd *w)
{
    int64_t rows = winograd_is_wide(w)
                       ? 1
                       : tn__cpu_min(w->tiles[0], w->block / w->tiles[1] + 2);
    return conv_round_up(winograd_frame(w, rows), 16);
}

/* The windows of `channels` channels from `channel` on of tiles [first, end):
 * v[element * plane + c * step + t - first]. */
typedef struct winograd_windows {
    int64_t channel, channels, first, end;
    float *frame; /* winograd_max_frame elements, for the tiles' rows */
    float *v;
    int64_t step, plane;
} winograd_windows;
void tn__cpu_winograd_windows(const winograd *w,
                              const winograd_windows *windows);

/* WEIGHT, set up by conv_winograd.c (conv_winograd_weight.c). */
tn_status tn__cpu_winograd_weight(winograd *w, const tn_conv_args *args);

#endif
