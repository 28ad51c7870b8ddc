/* space.h: builds the iteration space of a kernel (tn__space): its sizes, and
 * the strides of the operands, as PyTorch's TensorIterator does. Operands are
 * added one at a time: the inputs in the kernel's order, then the outputs.
 *
 * Arguments that the functions share: `shape` is the shape to which the inputs
 * broadcast, and bit d of `rows` marks its dimension d as a row dimension. */
#ifndef TN_LIB_OPS_SPACE_H
#define TN_LIB_OPS_SPACE_H

#include <ops/engine/ops.h>

/* Starts a space of this shape without operands. has_row says that the kernel
 * reduces or scans. Such a space has a row dimension, of size 1, even if `rows`
 * is 0. */
void tn__space_begin(tn__space *space, const tn__shape *shape, uint32_t rows,
                     bool has_row);
/* Returns the number of elements of a row. */
int64_t tn__space_row_numel(const tn__space *space);

/* Adds x, broadcast to shape, as the next operand. */
void tn__space_add(tn__space *space, const tn__shape *shape, uint32_t rows,
                   tn_tensor *x);
/* Adds x as an operand that the kernel reads by index. The kernel's indices
 * address the last `indices` dimensions of x. The other dimensions of x
 * broadcast to shape. */
void tn__space_add_indexed(tn__space *space, const tn__shape *shape,
                           uint32_t rows, tn_tensor *x, int indices);
/* Adds x, broadcast to shape, as an operand that the kernel reads through a
 * guard, a check that rejects invalid elements (kernel.h). */
void tn__space_add_guarded(tn__space *space, const tn__shape *shape,
                           uint32_t rows, tn_tensor *x);
/* Adds an offset operand (ops.h) whose value at a point is the row-major index
 * of the point in shape. If within_row is true, the value is the point's index
 * within its row. */
void tn__space_add_number(tn__space *space, const tn__shape *shape,
                          uint32_t rows, bool within_row);
/* Adds an operand whose strides are all 0 and returns it, so that the caller
 * can set its strides. */
tn__operand *tn__space_add_bare(tn__space *space, tn_tensor *x);

/* Sets *out to shape without the dimensions in `rows`. If keep is true, those
 * dimensions stay, with size 1. */
void tn__space_out_shape(const tn__shape *shape, uint32_t rows, bool keep,
                         tn__shape *out);
/* Adds the tensor `out` as an output. If is_row is true, it has one value per
 * row and the shape that tn__space_out_shape gives for `rows` and `keep`. Else
 * it has the shape `shape`. */
void tn__space_add_out(tn__space *space, const tn__shape *shape, uint32_t rows,
                       bool is_row, bool keep, tn_tensor *out);

/* Checks that a shape has no more elements than an operator can iterate over,
 * 2^56 (size.h). `name` is the operator. `what` is the argument that has this
 * shape, or NULL if it is the broadcast shape of all operands. */
tn_status tn__space_check(const char *name, const char *what, int ndim,
                          const int64_t *shape);

/* Returns whether the two tensors share an element in memory without being the
 * same view. */
bool tn__tensor_overlaps(const tn_tensor *written, const tn_tensor *read);

#endif
