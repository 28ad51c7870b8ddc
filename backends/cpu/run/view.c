/* view.c: copies the elements of a tensor with any strides to a contiguous
 * block, converted to their register type, and back. */
#include <stdlib.h>
#include <string.h>

#include "view.h"

void tn__cpu_view_init(cpu_view *view, const tn_kernel_operand *operand,
                       const tn_launch_operand *given)
{
    view->ndim = 0;
    view->dtype = operand->dtype;
    view->bytes = tn__cpu_dtype_bytes[operand->dtype];
    view->base = tn__cpu_at(given->buffer, given->offset, view->bytes);
    view->offset = given->buffer ? 0 : given->offset;
}

void tn__cpu_view_move(cpu_view *view, int64_t offset)
{
    if (view->base)
        view->base += offset * view->bytes;
    else
        view->offset += offset;
}

void tn__cpu_view_push(cpu_view *view, int64_t extent, int64_t stride)
{
    if (extent == 1)
        return;
    uint32_t d = view->ndim;
    if (d > 0 && view->stride[d - 1] == extent * stride) {
        view->extent[d - 1] *= extent;
        view->stride[d - 1] = stride;
        return;
    }
    view->extent[d] = extent;
    view->stride[d] = stride;
    view->ndim++;
}

/* The state of an iteration over the elements of a view: the coordinates of the
 * current element, and its offset in elements. */
typedef struct walk {
    int64_t coordinate[TN_MAX_NDIM];
    int64_t offset;
} walk;

/* Sets the iteration to element p. */
static void walk_begin(walk *w, const cpu_view *view, int64_t p)
{
    w->offset = 0;
    for (uint32_t d = view->ndim; d-- > 0;) {
        w->coordinate[d] = p % view->extent[d];
        p /= view->extent[d];
        w->offset += w->coordinate[d] * view->stride[d];
    }
}

/* Returns how many elements are left up to the end of the innermost dimension,
 * but at most n. */
static int64_t walk_run(const walk *w, const cpu_view *view, int64_t n)
{
    uint32_t d = view->ndim - 1;
    return tn__cpu_min(n, view->extent[d] - w->coordinate[d]);
}

/* Advances by `run` elements, which must not go beyond the end of the innermost
 * dimension. */
static void walk_advance(walk *w, const cpu_view *view, int64_t run)
{
    uint32_t d = view->ndim - 1;
    w->coordinate[d] += run;
    w->offset += run * view->stride[d];
    while (d > 0 && w->coordinate[d] == view->extent[d]) {
        w->offset -= w->coordinate[d] * view->stride[d];
        w->coordinate[d] = 0;
        d--;
        w->coordinate[d]++;
        w->offset += view->stride[d];
    }
}

char *tn__cpu_view_flat(const cpu_view *view, int64_t p, int64_t n)
{
    int64_t bytes = view->bytes;
    if (view->ndim == 0)
        return n == 1 ? view->base : NULL;
    if (view->stride[view->ndim - 1] != 1)
        return NULL;
    if (view->ndim == 1)
        return view->base + p * bytes;
    walk w;
    walk_begin(&w, view, p);
    return walk_run(&w, view, n) == n ? view->base + w.offset * bytes : NULL;
}

char *tn__cpu_view_single(const cpu_view *view, int64_t p, int64_t n)
{
    if (view->ndim == 0)
        return view->base;
    if (view->stride[view->ndim - 1] != 0)
        return NULL;
    walk w;
    walk_begin(&w, view, p);
    return walk_run(&w, view, n) == n ? view->base + w.offset * view->bytes
                                      : NULL;
}

/* Loads n elements that begin at `offset` and are `stride` apart. */
static void load_run(const cpu_view *view, const tn_cpu_routines *routines,
                     int64_t offset, int64_t stride, int64_t n, char *out)
{
    const char *memory = view->base + offset * view->bytes;
    if (stride != 0 || n == 1) {
        routines->load[view->dtype](out, memory, stride, n);
        return;
    }
    uint64_t one;
    routines->load[view->dtype](&one, memory, 1, 1);
    routines->fill[tn__cpu_register_type[view->dtype]](out, &one, NULL, NULL,
                                                       n, 0);
}

void tn__cpu_view_load(const cpu_view *view, const tn_cpu_routines *routines,
                       int64_t p, int64_t n, void *out)
{
    uint32_t ndim = view->ndim;
    if (ndim <= 1) {
        int64_t stride = ndim ? view->stride[0] : 0;
        load_run(view, routines, p * stride, stride, n, out);
        return;
    }
    if (ndim == 2 && view->stride[0] == 1 &&
        tn__cpu_type_bytes[tn__cpu_register_type[view->dtype]] == view->bytes &&
        view->dtype != TN_BOOL && n == view->extent[0] * view->extent[1]) {
        routines->transpose[view->bytes](out, view->extent[1], view->base,
                                         view->stride[1], view->extent[1],
                                         view->extent[0], 0);
        return;
    }
    if (ndim == 2 && routines->load_tile[view->dtype] &&
        n == view->extent[0] * view->extent[1] &&
        llabs(view->stride[0]) < llabs(view->stride[1])) {
        routines->load_tile[view->dtype](out, view->base, view->extent[0],
                                         view->extent[1], view->stride[0],
                                         view->stride[1]);
        return;
    }
    int64_t bytes = tn__cpu_type_bytes[tn__cpu_register_type[view->dtype]];
    walk w;
    walk_begin(&w, view, p);
    for (char *to = out; n > 0;) {
        int64_t run = walk_run(&w, view, n);
        load_run(view, routines, w.offset, view->stride[ndim - 1], run, to);
        to += run * bytes;
        n -= run;
        walk_advance(&w, view, run);
    }
}

void tn__cpu_view_store(const cpu_view *view, const tn_cpu_routines *routines,
                        int64_t p, int64_t n, const void *in)
{
    uint32_t ndim = view->ndim;
    tn_cpu_store *store = routines->store[view->dtype];
    if (ndim <= 1) {
        int64_t stride = ndim ? view->stride[0] : 0;
        store(view->base + p * stride * view->bytes, in, stride, n);
        return;
    }
    int64_t bytes = tn__cpu_type_bytes[tn__cpu_register_type[view->dtype]];
    walk w;
    walk_begin(&w, view, p);
    for (const char *from = in; n > 0;) {
        int64_t run = walk_run(&w, view, n);
        store(view->base + w.offset * view->bytes, from,
              view->stride[ndim - 1], run);
        from += run * bytes;
        n -= run;
        walk_advance(&w, view, run);
    }
}

void tn__cpu_view_offsets(const cpu_view *view,
                          const tn_cpu_routines *routines, int64_t p,
                          int64_t n, int64_t *out)
{
    uint32_t ndim = view->ndim;
    if (ndim <= 1) {
        int64_t stride = ndim ? view->stride[0] : 0;
        routines->ramp(out, view->offset + p * stride, stride, n);
        return;
    }
    walk w;
    walk_begin(&w, view, p);
    while (n > 0) {
        int64_t run = walk_run(&w, view, n);
        routines->ramp(out, view->offset + w.offset, view->stride[ndim - 1],
                       run);
        out += run;
        n -= run;
        walk_advance(&w, view, run);
    }
}
