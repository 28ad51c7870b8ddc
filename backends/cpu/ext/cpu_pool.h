/* cpu_pool.h: shared by the parts of pooling: a call, and the windows that an
 * element of the image belongs to. */
#ifndef TN_CPU_POOL_H
#define TN_CPU_POOL_H

#include "../cpu.h"

enum {
    POOL_BAND = 2048
}; /* outputs of a band: they and their inputs fit in L1 */

typedef struct pooling {
    const tn_pool_args *args;
    const tn_cpu_pool_routines *routines;
    const tn_cpu_conv_routines *more; /* for add_to */
    const tn_cpu_routines *all;
    int64_t bytes;
    unsigned type; /* CPU_F32, CPU_F64 */
    int64_t planes, planes_per_task;
    /* Planes that are read and written have strides of n, c and h; that of w is
     * 1. */
    int64_t band;       /* rows of the output */
    int64_t *count[2];  /* mean: elements of each window, along each axis */
    int32_t *place;     /* maximum: for each window of a band, its index from
                           that of the first one */
    int32_t *first;     /* for each column: first_inside */
    const void *lowest; /* the lowest number */
    atomic_int failed;
    atomic_int *outside; /* an index beyond its plane was found */
} pooling;

/* The windows i in [first, end) whose element k is within the image; element k
 * of window i is at i * step + at. */
typedef struct window_range {
    int64_t first, end, at;
} window_range;

/* Finds those among [low, high) along axis a; false: there are none. */
bool tn__cpu_pool_windows_inside(const tn_pool_args *args, int a, int64_t k,
                                 int64_t low, int64_t high, window_range *r);
/* Wide adjacent windows, none cut off: an element of all of them at a time
 * would be far apart. */
bool tn__cpu_pool_has_wide_windows(const pooling *p);

/* cpu_pool_max.c: each processes one plane. False: out of memory. */
bool tn__cpu_pool_max(const pooling *p, int64_t plane);
bool tn__cpu_pool_max_only(const pooling *p, int64_t plane);
bool tn__cpu_pool_max_backward(const pooling *p, int64_t plane);
/* Fills p->place and p->first, which are the same for all planes. */
void tn__cpu_pool_find_places(const pooling *p);

/* cpu_pool_mean.c: likewise. */
bool tn__cpu_pool_mean(const pooling *p, int64_t plane);
bool tn__cpu_pool_mean_backward(const pooling *p, int64_t plane);
/* Lanes of the fixed order that a window fills. */
int64_t tn__cpu_pool_lane_count(const tn_pool_args *args);

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

/* Contiguous rows, one after the other? */
static inline bool pool_is_contiguous(const tn_strided *view,
                                      const int64_t *size)
{
    return view->stride[3] == 1 && view->stride[2] == size[1];
}

#endif
