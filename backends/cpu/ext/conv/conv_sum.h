/* conv_sum.h: conv2d (FORWARD) and its gradient in the images (INPUT) as sums
 * over taps, the elements of the window. Describes which pixels use which taps,
 * how the pixels are cut into tasks, and how the weights are packed. */
#ifndef TN_CPU_CONV_SUM_H
#define TN_CPU_CONV_SUM_H

#include "cpu_conv.h"

#define TN_CPU_CONV_CLASSES 64 /* maximum number of pixel classes (below) */

/* Pixels that use the same elements of the window (taps). In the gradient of
 * the input (INPUT), two pixels are in one class if their rows are equal modulo
 * stride[0] and their columns modulo stride[1]. The forward convolution
 * (FORWARD) has one class. */
typedef struct pixel_class {
    conv_grid grid;
    int64_t first[2]; /* row and column of the class's pixel (0, 0) in the
                       * images */
    /* index of the first task of the class */
    int64_t first_task;
    /* Index of the leftmost of the three taps of a window row that
     * filter_rows() processes at a time: 0, or 2 if taps go from right to left.
     * -1 if filter_rows() does not compute the class. */
    int64_t line;
    /* The weights, packed as panels[group][panel][tap][channel read][channel
     * written]. A panel has the weights of some of the channels written. */
    char *panels;
} pixel_class;

typedef struct convolution {
    const tn_cpu_routines *general;
    const tn_cpu_conv_routines *routines;
    size_t bytes; /* bytes of an element */
    conv_images from, to;
    /* groups is the number of groups. from_channels and to_channels are the
     * numbers of channels of one group in the images that are read and
     * written. */
    int64_t groups, from_channels, to_channels;
    /* distance between pixels of a class in `to`, along each axis */
    int64_t step[2];
    const char *weight;
    /* Strides of the weights in elements: weight_from between channels that are
     * read, weight_to between channels that are written, weight_group between
     * groups. */
    int64_t weight_from, weight_to, weight_group;
    const char *bias;
    int64_t bias_stride;
    /* true if vectors hold pixels, false if they hold channels */
    bool by_pixels;
    /* Whether `to` is set to zero first. Pixels without taps, whose result is
     * 0, then have no tasks. */
    bool cleared;
    /* Number of written channels in a panel of weights: as many as two vectors
     * hold, or 4 if vectors hold pixels. */
    int64_t panel;
    /* Number of channels of the sums: to_channels rounded up to whole vectors,
     * or exactly to_channels if vectors hold pixels. */
    int64_t width;
    /* If there are few blocks, as with one small image, a task computes only
     * some of the channels: `share` of them, a whole number of panels. shares
     * is the number of tasks for one block and one group. */
    int64_t share, shares;
    int64_t class_count, tasks;
    pixel_class class[TN_CPU_CONV_CLASSES];
    tn_cpu_epilogue *then; /* a launch over each image, or NULL */
    atomic_int failed;
} convolution;

/* Fills in *c for the forward convolution (FORWARD) or the gradient of the
 * input (INPUT), and cuts the work into tasks. The caller has set general,
 * routines, bytes and groups, and provides space in tap[] for kernel[0] *
 * kernel[1] taps. */
void tn__cpu_conv_describe(convolution *c, const tn_conv_args *args,
                           conv_tap *tap);
/* Returns the bytes of the packed weights of a class of pixels. */
int64_t tn__cpu_conv_panels_bytes(const convolution *c,
                                  const pixel_class *class);
/* Packs panel i of the weights. `context` is the convolution. The indices of
 * panels are in the order [class][group][panel]. */
void tn__cpu_conv_pack_panel(void *context, int64_t i);

#endif
