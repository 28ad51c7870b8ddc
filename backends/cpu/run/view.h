/* view.h: views of operands, like PyTorch's strided views. The elements of a
 * view have indices in row-major order. "Point p" is the element with index p.
 * Blocks load and store ranges of points. */
#ifndef TN_CPU_VIEW_H
#define TN_CPU_VIEW_H

#include "../cpu.h"

/* Point p has the coordinates c[] whose row-major index in extent[] is p. Its
 * element is base[sum over d of c[d] * stride[d]]. Offsets and strides are in
 * elements. */
typedef struct cpu_view {
    char *base;
    int64_t offset; /* offset of the first element, used if base is NULL because
                       the program only computes offsets (CPU_OFFSET) */
    uint32_t ndim;  /* number of dimensions after merging; 0 for one element */
    uint8_t dtype, bytes;
    int64_t extent[TN_MAX_NDIM], stride[TN_MAX_NDIM];
} cpu_view;

/* Makes a view of one element, the first one of the operand. */
void tn__cpu_view_init(cpu_view *view, const tn_kernel_operand *operand,
                       const tn_launch_operand *given);
/* Moves the view by `offset` elements in memory. */
void tn__cpu_view_move(cpu_view *view, int64_t offset);
/* Adds an innermost dimension, or merges it with the current innermost
 * dimension if their strides allow it. */
void tn__cpu_view_push(cpu_view *view, int64_t extent, int64_t stride);
/* Returns the address of points [p, p + n) if they are contiguous in memory.
 * Otherwise returns NULL. */
char *tn__cpu_view_flat(const cpu_view *view, int64_t p, int64_t n);
/* tn__cpu_view_load converts points [p, p + n) to their register type and
 * writes them to out. tn__cpu_view_store converts the values of `in` back and
 * writes them to these points. */
void tn__cpu_view_load(const cpu_view *view, const tn_cpu_routines *routines,
                       int64_t p, int64_t n, void *out);
void tn__cpu_view_store(const cpu_view *view, const tn_cpu_routines *routines,
                        int64_t p, int64_t n, const void *in);
/* Writes the memory offsets, in elements, of elements p, ..., p + n - 1 to
 * out. */
void tn__cpu_view_offsets(const cpu_view *view,
                          const tn_cpu_routines *routines, int64_t p,
                          int64_t n, int64_t *out);

/* Returns the address of the one element that points [p, p + n) have if all
 * their strides are 0, else NULL. */
char *tn__cpu_view_single(const cpu_view *view, int64_t p, int64_t n);

#endif
