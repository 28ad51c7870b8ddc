/* cpu_conv.h: types and functions that the files of convolution share.
 *
 * There are three kinds of work. FORWARD is conv2d. INPUT and WEIGHT are its
 * gradients in the images and in the weights. `in` and `out` are the images
 * that FORWARD reads and writes.
 *
 * A pixel is one position (n, h, w) of a batch of images, with all its
 * channels. A tap is one element of the window: its position relative to a
 * pixel, and its weights. A grid is the set of pixels to compute, with their
 * taps. A block is a part of a grid that one task computes. A frame is a copy
 * of the pixels that a block reads, padded with zeros. */
#ifndef TN_CPU_CONV_H
#define TN_CPU_CONV_H

#include "../../cpu.h"
#include "../../epilogue.h"

/* A batch of images in memory. size[] is the height and width. stride[] has the
 * strides of n, c, h and w in elements. */
typedef struct conv_images {
    char *memory;
    int64_t size[2];
    int64_t stride[4];
} conv_images;

/* One element of the window. at[] is its row and column relative to a pixel's
 * start in the images that are read. weight is the offset of its first weight
 * in elements. */
typedef struct conv_tap {
    int64_t at[2];
    int64_t weight;
} conv_tap;

/* Pixels that use the same taps. Pixel (i, j) starts at (i, j) * step in the
 * images that are read. */
typedef struct conv_grid {
    int64_t count; /* number of images */
    int64_t size[2], step[2];
    const conv_tap *tap;
    /* number of taps */
    int64_t taps;
    /* low is the lowest position along each axis of an element of the window (a
     * tap), relative to the pixel. span is the distance from the lowest to the
     * highest position. */
    int64_t low[2], span[2];
    /* True if the window of some pixel reaches outside the images. The pixels
     * that a block reads are then copied to a frame, a buffer padded with
     * zeros. */
    bool framed;
    /* The size of a block, and the number of blocks along each axis. The axes
     * are images, rows and columns. */
    int64_t block[3], blocks[3];
    int64_t block_count;
} conv_grid;

/* tn__cpu_conv_grid_init computes low, span and framed. `from` is the batch of
 * images that the convolution reads. Then tn__cpu_conv_grid_cut cuts the grid
 * into blocks of about `pixels` pixels. */
void tn__cpu_conv_grid_init(conv_grid *grid, const conv_images *from);
void tn__cpu_conv_grid_cut(conv_grid *grid, int64_t pixels);

/* Returns whether the elements of the window (taps) come in groups of three
 * that are adjacent in a row, as the function of the inner loop for three taps
 * requires. The result is the index of the leftmost tap of a group: 0, or 2 if
 * taps go from right to left. It is -1 if there are no such groups, or if the
 * pixels of a row are not adjacent. */
int64_t tn__cpu_conv_row_taps(const conv_grid *grid, const conv_images *from);
/* Returns the number of columns of the narrowest block, which is the last one
 * of a row. */
int64_t tn__cpu_conv_min_columns(const conv_grid *grid);

typedef struct conv_block {
    /* The block's first image, row and column, and its number of images, rows
     * and columns. */
    int64_t first[3], size[3];
    int64_t pixels;
} conv_block;

/* Returns block `number` of a grid. */
conv_block tn__cpu_conv_block(const conv_grid *grid, int64_t number);

/* The images that a convolution reads, restricted to channels [first, first +
 * count). */
typedef struct conv_source {
    const tn_cpu_routines *routines;
    const conv_images *images;
    int64_t first, count;
    size_t bytes; /* bytes of an element */
} conv_source;

/* The memory that a block reads, with strides of n, c, h and w in elements.
 * base is the address that the block's first pixel reads at the lowest
 * coordinates of a tap (conv_grid.low). */
typedef struct conv_view {
    const char *base;
    int64_t stride[4];
} conv_view;

/* The layout of a view. In CONV_PLANES each channel is a plane, and images are
 * read in place if no tap is outside them. In CONV_CHANNELS_LAST the channels
 * of a pixel are adjacent, because sums over channels would otherwise read
 * another cache line at each step. */
typedef enum conv_order { CONV_PLANES, CONV_CHANNELS_LAST } conv_order;

/* Returns the number of elements of a block's frame (the copy, padded with
 * zeros, of the pixels that the block reads) for `channels` channels. Returns 0
 * if the block reads the images in place. */
int64_t tn__cpu_conv_frame_size(const conv_grid *grid, const conv_block *block,
                                int64_t channels, conv_order order);
/* Returns a view of the source's channels for a block. The view refers to the
 * images themselves, or to `frame`, to which the function copies the pixels. */
conv_view tn__cpu_conv_view(const conv_grid *grid, const conv_block *block,
                            const conv_source *source, conv_order order,
                            char *frame);
/* tn__cpu_conv_pixels stores in at[pixel] the offset, in elements from
 * view->base, of each pixel of a block. tn__cpu_conv_taps stores in
 * at[tap][channel] the offset of each channel of each element of the window. */
void tn__cpu_conv_pixels(const conv_grid *grid, const conv_block *block,
                         const conv_view *view, int64_t *at);
void tn__cpu_conv_taps(const conv_grid *grid, const conv_view *view,
                       int64_t channels, int64_t *at);

/* While a block is computed, the memory that the next block reads is
 * prefetched, because the channels are far apart and the hardware prefetcher
 * predicts few of these accesses. This struct says how far the prefetching has
 * come. */
typedef struct conv_prefetch_state {
    /* at is the next address to prefetch, or NULL after the last one. end is
     * the end of the current channel. */
    const char *at, *end;
    /* channels is the number of channels that remain in the current image,
     * images the number of images that remain. */
    int64_t channels, images;
    /* count is the number of channels in an image, bytes the size of a
     * channel. */
    int64_t count, bytes;
    /* channel is the stride in bytes from channel to channel, image the stride
     * from image to image. */
    int64_t channel, image;
    /* approximate number of cache lines to prefetch in all */
    int64_t lines;
} conv_prefetch_state;

/* tn__cpu_conv_ahead returns the state for prefetching what block `number`
 * reads, tn__cpu_conv_ahead_pixels the state for its own pixels. Nothing is
 * prefetched if there is no such block or rows are not contiguous. */
conv_prefetch_state tn__cpu_conv_ahead(const conv_grid *grid, int64_t number,
                                       const conv_source *source);
conv_prefetch_state tn__cpu_conv_ahead_pixels(const conv_grid *grid,
                                              int64_t number,
                                              const conv_source *source);
/* Prefetches up to `lines` more cache lines, and advances the state. */
void tn__cpu_conv_prefetch(conv_prefetch_state *ahead, int64_t lines);

/* Calls visit for a block's pixels in each image.
 *
 * conv_placement describes the memory of the pixels: the images that contain
 * them, the position first[2] of pixel (0, 0), and the distance step[2] between
 * pixels. conv_rows is the argument of visit. It has the address of channel 0
 * of the first pixel, the strides in elements between rows (row) and between
 * pixels (step), the index of the first pixel in the block (pixel), and the
 * number of rows and columns. Contiguous rows are joined to one row. */
typedef struct conv_placement {
    const conv_images *images;
    const int64_t *first, *step;
    size_t bytes; /* bytes of an element */
} conv_placement;

typedef struct conv_rows {
    char *memory;
    int64_t row, step, pixel, rows, columns;
} conv_rows;

typedef void conv_visit(void *context, const conv_rows *rows);
void tn__cpu_conv_visit_rows(const conv_block *block,
                             const conv_placement *placement, conv_visit *visit,
                             void *context);

/* A strip is the pixels of a block as one sequence, for routines with one pixel
 * in each lane (conv_strip.c). Pixel (n, i, j) is element n * plane + i *
 * room[1] + j of the sequence. The elements between rows and images are gaps,
 * which no pixel uses. */
typedef struct conv_strip {
    /* room is the number of rows and columns of an image in the frame, the
     * padded copy of the pixels that the block reads. plane is the number of
     * elements of these rows. */
    int64_t room[2], plane;
    /* The frame stores rows (columns) of an image by their remainder modulo the
     * stride of the convolution, so that adjacent pixels read adjacent
     * elements. phases[axis] is the number of remainders that occur. */
    int64_t phases[2];
    /* Number of elements of the strip, including gaps, rounded up to a multiple
     * of tn_cpu_conv_routines.strip */
    int64_t pixels;
    int64_t elements; /* number of elements of the padded copy (frame) */
} conv_strip;

/* Returns the layout of a block's strip (its pixels as one sequence) for
 * `channels` channels. */
conv_strip tn__cpu_conv_strip(const conv_grid *grid, const conv_block *block,
                              int64_t channels,
                              const tn_cpu_conv_routines *routines);
/* tn__cpu_conv_strip_fill copies the pixels that a block reads from the
 * source's channels to the strip's frame. tn__cpu_conv_strip_taps stores the
 * offsets in the frame of the elements that pixel 0 reads: at[tap][channel]. */
void tn__cpu_conv_strip_fill(const conv_grid *grid, const conv_block *block,
                             const conv_strip *s, const conv_source *source,
                             char *frame);
void tn__cpu_conv_strip_taps(const conv_grid *grid, const conv_block *block,
                             const conv_strip *s, int64_t channels,
                             int64_t *at);
/* tn__cpu_conv_strip_copy copies one channel of a block's pixels from images to
 * a strip, or back. tn__cpu_conv_strip_mask sets all bits of mask[i] if element
 * i of the strip is a pixel, and clears them if it is a gap. */
void tn__cpu_conv_strip_copy(const conv_block *block, const conv_strip *s,
                             const conv_placement *placement,
                             const tn_cpu_routines *routines, char *strip,
                             bool back);
void tn__cpu_conv_strip_mask(const conv_block *block, const conv_strip *s,
                             size_t bytes, char *mask);

/* Arguments for tn__cpu_conv_gather, which copies pixels so that their channels
 * are adjacent, and for tn__cpu_conv_scatter, which copies them back. gather
 * computes
 *     pixels[p * width + o] = images[o * channel + p * step]
 * and stores 0 for o in [channels, width). scatter also adds bias[o *
 * bias_step], unless bias is NULL. Square blocks are transposed in registers.
 * With step != 1, gather copies element by element. */
typedef struct conv_transfer {
    const tn_cpu_routines *routines;
    size_t bytes; /* bytes of an element */
    int64_t channels, rows, columns;
    char *images;               /* the element of channel 0 and pixel 0 */
    int64_t channel, row, step; /* strides of images, in elements */
    char *pixels;               /* pixels whose channels are adjacent */
    int64_t width;              /* stride of pixels in pixels[], in elements */
} conv_transfer;
void tn__cpu_conv_gather(const conv_transfer *t);
void tn__cpu_conv_scatter(const conv_transfer *t, const char *bias,
                          int64_t bias_step);

static inline unsigned conv_type(size_t bytes)
{
    return bytes == 4 ? CPU_F32 : CPU_F64;
}

/* Computes WEIGHT, the gradient of the weights (conv_weight.c). */
tn_status tn__cpu_conv_weight(const tn_conv_args *args,
                              const tn_cpu_routines *routines, size_t bytes);

/* Computes FORWARD and INPUT for windows of 1 x 1 (conv_point.c). Returns
 * false, and does nothing, if the channels are too few or the strides not those
 * of this method. Otherwise sets *status. */
bool tn__cpu_conv_point(const tn_conv_args *args,
                        const tn_cpu_routines *routines, size_t bytes,
                        tn_cpu_epilogue *then, tn_status *status);

/* Computes depthwise convolutions of float32 (conv_plane.c). Returns false, and
 * does nothing, if the arguments do not suit this method. Otherwise sets
 * *status. */
bool tn__cpu_conv_plane(const tn_conv_args *args,
                        const tn_cpu_conv_routines *routines,
                        tn_cpu_epilogue *then, tn_status *status);

/* Computes float32 convolutions with windows of 3 x 3 and 1 x 3 by Winograd's
 * transforms (conv_winograd.c). Returns false, and does nothing, if the
 * arguments do not suit this method or it would not be faster. Otherwise sets
 * *status. */
bool tn__cpu_conv_winograd(const tn_conv_args *args,
                           const tn_cpu_routines *routines,
                           conv_choice choice, tn_cpu_epilogue *then,
                           tn_status *status);

/* A prepared weight: the weights in the layout that a method reads. */
struct tn_prepared {
    enum { CONV_WINOGRAD_FILTERS, CONV_PANELS } layout;
    uint64_t bytes;
    char *memory; /* owned, aligned to 64 bytes */
};

/* Returns the weights of a call that are prepared in this layout, or NULL. */
static inline char *conv_prepared(const tn_conv_args *args, unsigned layout)
{
    const bool has = TN_HAS(tn_conv_args, args, prepared) && args->prepared &&
                     args->prepared->layout == layout;
    return has ? args->prepared->memory : NULL;
}

/* Return whether the functions above that compute convolutions with windows of
 * 1 x 1 and depthwise convolutions support a call. */
bool tn__cpu_conv_point_suits(const tn_conv_args *args);
bool tn__cpu_conv_plane_suits(const tn_conv_args *args,
                              const tn_cpu_conv_routines *routines);
/* Fills in *to with the weights as tn__cpu_conv_winograd reads them. Returns
 * false, and does nothing, if that function does not compute this call.
 * to->memory is NULL if memory runs out. */
bool tn__cpu_conv_winograd_prepare(const tn_conv_args *args,
                                   const tn_cpu_routines *routines,
                                   conv_choice choice, tn_prepared *to);
/* Stores `bytes` of new memory in *to. Returns false if memory runs out. */
bool tn__cpu_conv_prepared_alloc(tn_prepared *to, int64_t bytes);

/* Describes a tensor (n, c, h, w) as images. size is (h, w). */
conv_images tn__cpu_conv_images(const tn_strided *view, const int64_t *size,
                                size_t bytes);
/* Sets *grid to the grid of FORWARD: the pixels of args->out, each with a
 * window in args->in and weights in args->weight. tap has space for kernel[0] *
 * kernel[1] taps. */
void tn__cpu_conv_forward_grid(conv_grid *grid, const tn_conv_args *args,
                               conv_tap *tap);

/* Returns whether the lanes of vectors should hold pixels instead of channels,
 * because the channels are too few to fill vectors. */
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
