/* view.h: an operand as blocks see it. */
#ifndef TN_CPU_VIEW_H
#define TN_CPU_VIEW_H

#include "../cpu.h"

/* An operand as a linear sequence: point p of extent[], in row-major order, is
 * at base + sum of coordinate * stride. */
typedef struct cpu_view {
    char *base;
    int64_t offset; /* for OFFSET operands, which have no base */
    uint32_t ndim;  /* after merging: 0 for one point */
    uint8_t dtype, bytes;
    int64_t extent[TN_MAX_NDIM], stride[TN_MAX_NDIM];
} cpu_view;

/* One point: the operand's first element. */
void tn__cpu_view_init(cpu_view *view, const tn_kernel_operand *operand,
                       const tn_launch_operand *given);
/* Moves the first element by that many elements. */
void tn__cpu_view_move(cpu_view *view, int64_t offset);
/* Adds an innermost dimension, merged with the last one if possible. */
void tn__cpu_view_push(cpu_view *view, int64_t extent, int64_t stride);
/* Address of points [p, p + n) if they are contiguous, else NULL. */
char *tn__cpu_view_flat(const cpu_view *view, int64_t p, int64_t n);
void tn__cpu_view_load(const cpu_view *view, const tn_cpu_routines *routines,
                       int64_t p, int64_t n, void *out);
void tn__cpu_view_store(const cpu_view *view, const tn_cpu_routines *routines,
                        int64_t p, int64_t n, const void *in);
void tn__cpu_view_offsets(const cpu_view *view,
                          const tn_cpu_routines *routines, int64_t p,
                          int64_t n, int64_t *out);

/* Address of the one value of points [p, p + n) if their strides are 0, else
 * NULL. */
char *tn__cpu_view_single(const cpu_view *view, int64_t p, int64_t n);

#endif
