/* space.h: lays operands out over an iteration space, one at a time: inputs in
 * the kernel's order, then outputs. */
#ifndef TN_LIB_OPS_SPACE_H
#define TN_LIB_OPS_SPACE_H

#include <ops/engine/ops.h>

/* Starts the space of a broadcast shape. The dimensions in `rows` are the row.
 * has_row: the kernel reduces, so there is a row even if rows is 0. */
void tn__space_begin(tn__space *space, const tn__shape *shape, uint32_t rows,
                     bool has_row);
int64_t tn__space_row_numel(const tn__space *space);

/* Adds the next operand: x, broadcast to shape. */
void tn__space_add(tn__space *space, const tn__shape *shape, uint32_t rows,
                   tn_tensor *x);
/* The same for an operand that is read by `indices` indices. They address its
 * last dimensions; the others broadcast. */
void tn__space_add_indexed(tn__space *space, const tn__shape *shape,
                           uint32_t rows, tn_tensor *x, int indices);
/* The same for an operand that a guard reads (kernel.h). */
void tn__space_add_guarded(tn__space *space, const tn__shape *shape,
                           uint32_t rows, tn_tensor *x);
/* Adds an operand of element numbers: in the shape of the whole space, or
 * within the row. */
void tn__space_add_number(tn__space *space, const tn__shape *shape,
                          uint32_t rows, bool within_row);
/* Adds an operand with strides of 0, which the caller sets. */
tn__operand *tn__space_add_bare(tn__space *space, tn_tensor *x);

/* The shape of an output: shape without the dimensions of rows, or with size 1
 * in their place. */
void tn__space_out_shape(const tn__shape *shape, uint32_t rows, bool keep,
                         tn__shape *out);
/* Adds an output of that shape. */
void tn__space_add_out(tn__space *space, const tn__shape *shape, uint32_t rows,
                       bool is_row, bool keep, tn_tensor *out);

/* Checks that a shape has no more elements than an operator can iterate over
 * (size.h). what: the argument, "input"; NULL: the operands together. */
tn_status tn__space_check(const char *name, const char *what, int ndim,
                          const int64_t *shape);

/* Do the two share memory, other than as the same view? */
bool tn__tensor_overlaps(const tn_tensor *written, const tn_tensor *read);

#endif
