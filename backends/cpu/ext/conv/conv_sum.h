/* conv_sum.h: FORWARD and INPUT (conv.h) as sums over taps: which pixels use
 * which taps, how they are cut into tasks, and the packed weights. */
#ifndef TN_CPU_CONV_SUM_H
#define TN_CPU_CONV_SUM_H

#include "conv.h"

#define TN_CPU_CONV_CLASSES 64 /* greatest number of pixel classes */

/* Pixels that use the same taps. For INPUT with stride s, pixels h with equal h
 * mod s, along both axes, form one class. FORWARD has one class. */
typedef struct pixel_class {
    conv_grid grid;
    int64_t first[2]; /* position of the class's pixel (0, 0) in the images */
    /* index of the first task of the class */
    int64_t first_task;
    /* If the class is computed by filter_rows(), for three adjacent taps at a
     * time: the index of the leftmost of them, 0 or 2. Otherwise -1. */
    int64_t line;
    char *panels; /* packed weights: [group][panel][tap][channel][width] */
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
    /* distance between pixels of a class in `to` */
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
    /* True if `to` is set to zero first. Then classes without taps have no
     * tasks. */
    bool cleared;
    /* Number of written channels in a panel of weights: as many as two vectors
     * hold, or 4 if vectors hold pixels. */
    int64_t panel;
    /* Number of channels of the sums: to_channels rounded up to whole vectors,
     * or exactly to_channels if vectors hold pixels. */
    int64_t width;
    int64_t class_count, tasks;
    pixel_class class[TN_CPU_CONV_CLASSES];
    atomic_int failed;
} convolution;

/* Describes FORWARD or INPUT, and cuts it into tasks. general, routines, bytes
 * and groups must be set. tap has space for kernel[0] * kernel[1] taps. */
void tn__cpu_conv_describe(convolution *c, const tn_conv_args *args,
                           conv_tap *tap);
/* Returns the bytes of the packed weights of a class. */
int64_t tn__cpu_conv_panels_bytes(const convolution *c,
                                  const pixel_class *class);
/* Packs the weights of panel i of a convolution (context). i counts over
 * panels, groups and classes. */
void tn__cpu_conv_pack_panel(void *context, int64_t i);

#endif
