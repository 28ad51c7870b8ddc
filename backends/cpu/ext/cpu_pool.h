/* cpu_pool.h: types and functions that the files of pooling share. A plane is
 * one channel of one image. */
#ifndef TN_CPU_POOL_H
#define TN_CPU_POOL_H

#include "../cpu.h"

enum {
    /* outputs that are computed at a time (a band of rows): they and their
     * inputs fit in L1 */
    POOL_BAND = 2048
};

typedef struct pooling {
    const tn_pool_args *args;
    const tn_cpu_pool_routines *routines;
    const tn_cpu_conv_routines *more; /* its add_to is used */
    const tn_cpu_routines *all;
    int64_t bytes;
    unsigned type; /* CPU_F32 or CPU_F64 */
    /* number of planes, and planes of a task */
    int64_t planes, planes_per_task;
    /* Planes have strides for n, c and h, and stride 1 for w. */
    int64_t band;       /* rows of the output in a band */
    /* for means: the number of elements of each window, along each axis */
    int64_t *count[2];
    /* for maxima: the offset of each window of a band in its plane, relative to
     * the band's first window */
    int32_t *place;
    int32_t *first;     /* for maxima: first_inside() for each column */
    const void *lowest; /* the lowest value of the dtype, -inf */
    atomic_int failed;
    atomic_int *outside; /* set if an index is outside its plane */
} pooling;

/* The windows i in [first, end) whose element k is within the image. That
 * element is at position i * step + at along the axis. */
typedef struct window_range {
    int64_t first, end, at;
} window_range;

/* Finds the windows in [low, high) whose element k is within the image along
 * axis a. Returns false if there are none. */
bool tn__cpu_pool_windows_inside(const tn_pool_args *args, int a, int64_t k,
                                 int64_t low, int64_t high, window_range *r);
/* Returns true if windows are wide, adjacent and all within the image. Then one
 * element of all windows at a time would be a strided access. */
bool tn__cpu_pool_has_wide_windows(const pooling *p);

/* Compute one plane of max pooling: with indices, without them, and the
 * gradient (cpu_pool_max.c). They return false if there is no memory. */
bool tn__cpu_pool_max(const pooling *p, int64_t plane);
bool tn__cpu_pool_max_only(const pooling *p, int64_t plane);
bool tn__cpu_pool_max_backward(const pooling *p, int64_t plane);
/* Fills p->place and p->first, which are the same for all planes. */
void tn__cpu_pool_find_places(const pooling *p);

/* Compute one plane of average pooling and of its gradient (cpu_pool_mean.c).
 * They return false if there is no memory. */
bool tn__cpu_pool_mean(const pooling *p, int64_t plane);
bool tn__cpu_pool_mean_backward(const pooling *p, int64_t plane);
/* The number of lanes that a window fills, of the TN_LANES lanes in plugin.h's
 * order of summation. */
int64_t tn__cpu_pool_lane_count(const tn_pool_args *args);

/* The address of a plane. */
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

/* Returns true if rows are contiguous and follow each other without gaps. */
static inline bool pool_is_contiguous(const tn_strided *view,
                                      const int64_t *size)
{
    return view->stride[3] == 1 && view->stride[2] == size[1];
}

#endif
