/* cpu_pool.h: types and functions that the files of pooling share. A plane is
 * one channel of one image. A band is a few rows of the output of a plane,
 * which are computed together. */
#ifndef TN_CPU_POOL_H
#define TN_CPU_POOL_H

#include "../cpu.h"

enum {
    /* Number of output elements of a band. They and their inputs fit in L1. */
    POOL_BAND = 2048
};

typedef struct pooling {
    const tn_pool_args *args;
    const tn_cpu_pool_routines *routines;
    const tn_cpu_conv_routines *more; /* the loops of convolution; pooling uses
                                       * more->add_to */
    const tn_cpu_routines *all;
    int64_t bytes;
    unsigned type; /* CPU_F32 or CPU_F64 */
    /* planes is the number of all planes. planes_per_task is the number of
     * planes that one task computes. */
    int64_t planes, planes_per_task;
    int64_t band; /* number of output rows of a band */
    /* For means: the divisor of window (i, j) is count[0][i] * count[1][j]. */
    int64_t *count[2];
    /* For maxima with indices: place[k] is the index in the plane of the first
     * element of window k of a band, relative to the band's first window. */
    int32_t *place;
    /* For maxima with indices: first[j] is the first column of window j that is
     * within the image. */
    int32_t *first;
    const void *lowest; /* the lowest value of the dtype, -inf */
    atomic_int failed;
    /* set to 1 if an index that max pooling's gradient reads is outside its
     * plane */
    atomic_int *outside;
} pooling;

/* The windows in [first, end) along one axis, of which element k is within the
 * image. In window i this element has the coordinate i * step + at, where step
 * is the stride of the windows. */
typedef struct window_range {
    int64_t first, end, at;
} window_range;

/* Along axis a, finds the windows in [low, high) of which element k is within
 * the image. Returns false if there are none. */
bool tn__cpu_pool_windows_inside(const tn_pool_args *args, int a, int64_t k,
                                 int64_t low, int64_t high, window_range *r);
/* Returns whether windows are wide, adjacent and all within the image. Special
 * loops compute such windows, because reading element k of all windows would be
 * a strided access. */
bool tn__cpu_pool_has_wide_windows(const pooling *p);

/* Each of these computes one plane: of max pooling with indices, of max pooling
 * without indices, and of the gradient of max pooling (cpu_pool_max.c). They
 * return false if out of memory. */
bool tn__cpu_pool_max(const pooling *p, int64_t plane);
bool tn__cpu_pool_max_only(const pooling *p, int64_t plane);
bool tn__cpu_pool_max_backward(const pooling *p, int64_t plane);
/* Fills the tables p->place and p->first, which are the same for all planes. */
void tn__cpu_pool_find_places(const pooling *p);

/* Each of these computes one plane: of average pooling, and of its gradient
 * (cpu_pool_mean.c). They return false if out of memory. */
bool tn__cpu_pool_mean(const pooling *p, int64_t plane);
/* Computes the means of planes [first, end) if each plane has one window, the
 * whole plane, and planes are at equal distances. The sums of several planes
 * hide each other's latency. Returns false without doing so for others. */
bool tn__cpu_pool_mean_planes(const pooling *p, int64_t first, int64_t end);
bool tn__cpu_pool_mean_backward(const pooling *p, int64_t plane);
/* Returns how many partial sums receive an element of a window. Reductions add
 * element k to partial sum k % TN_LANES (plugin_program.h). */
int64_t tn__cpu_pool_lane_count(const tn_pool_args *args);

/* Returns the address of a plane. A view has any strides for n, c and h, and
 * stride 1 for w. */
static inline char *pool_plane(const pooling *p, const tn_strided *view,
                               int64_t plane, int64_t bytes)
{
    int64_t n = plane / p->args->channels, c = plane % p->args->channels;
    return tn__cpu_at(view->buffer, view->offset, (size_t)bytes) +
           (n * view->stride[0] + c * view->stride[1]) * bytes;
}

static inline int64_t pool_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns whether rows are contiguous and follow each other without gaps. */
static inline bool pool_is_contiguous(const tn_strided *view,
                                      const int64_t *size)
{
    return view->stride[3] == 1 && view->stride[2] == size[1];
}

#endif
