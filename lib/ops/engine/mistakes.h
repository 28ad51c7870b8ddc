/* mistakes.h: messages about mistakes of callers. Each function returns its
 * status with the message recorded. The arguments in it are marked
 * (tn__fail). */
#ifndef TN_LIB_OPS_MISTAKES_H
#define TN_LIB_OPS_MISTAKES_H

#include <base/error.h>
#include <ops/engine/ops.h>

/* Writes "(2, 3)" into a buffer of the caller and returns it. */
#define TN__SHAPE_TEXT 320
const char *tn__shape_text(char text[TN__SHAPE_TEXT], int ndim,
                           const int64_t *shape);

/* "softmax: dim 3 is outside [-2, 1]". argument is "dim", or "dims:dim" for an
 * element of dims. */
TN__COLD tn_status tn__fail_dim(const char *name, const char *argument,
                                int64_t dim, int ndim);
/* Tensors are on two devices: names each with its shape and device, and the
 * tn_to that fixes it. */
TN__COLD tn_status tn__fail_devices(const tn_op *op, const tn_value *value);
/* x is no live tensor. It is argument i, or element k of it (k >= 0) if that is
 * a list. */
TN__COLD tn_status tn__fail_dead(const tn_op *op, int i, int k,
                                 const tn_tensor *x);
/* All operands are numbers, so there is no tensor to give the result its
 * shape. */
TN__COLD tn_status tn__fail_numbers(const tn_op *op);
/* A value of a kind that the argument does not accept. */
TN__COLD tn_status tn__fail_kind(const tn_op *op, int i, const tn_value *v);
/* The row's kernel is not defined for these dtypes. The pending message is
 * about the kernel text, which the caller did not write; this one is about the
 * arguments. */
TN__COLD tn_status tn__fail_dtypes(const tn_op *op, const tn_value *value);
/* An optional argument is absent while an error is pending. */
TN__COLD tn_status tn__fail_left_out(const tn_op *op, int i);
/* Checks op's needs and bounds: an option without effect whose value is not the
 * default, and a number out of bounds. The values are in their final kinds. */
tn_status tn__check_needs(const tn_op *op, const tn_value *value);
/* Shapes that do not broadcast: the operands' names and shapes. */
TN__COLD tn_status tn__fail_broadcast(const char *name, int count,
                                      const char *const *names,
                                      tn_tensor *const *tensor);
/* An index out of range. argument: the tensor in whose elements the fault is
 * counted, of shape `extent`. NULL: the fault is counted in the iteration
 * space, and the tensor of the caller is not known yet. */
TN__COLD tn_status tn__fail_index(const char *name, const char *argument,
                                  const tn_fault *fault, int ndim,
                                  const int64_t *extent);
/* A kernel's guard rejected an element of an input. The message names the input
 * and the position and ends in `suffix`. */
TN__COLD tn_status tn__fail_guard(const char *name, const tn__kernel *kernel,
                                  const tn_fault *fault, int ndim,
                                  const int64_t *extent, const char *suffix);

/* Checks that all elements of the integer tensor x are in [low, bound).
 * Otherwise the index error: "take: index 7 at position (0, 1) is outside [0,
 * 3)". number: the element of a list of tensors that x is, or -1. Reads values
 * back. */
tn_status tn__check_indices(const char *name, const char *argument, int number,
                            tn_tensor *x, int64_t low, int64_t bound);

/* Replaces a pending index error of this call by that of tn__check_indices, if
 * it finds one in the indices that the caller gave. For rows that compute other
 * indices from them. Returns the pending code. */
tn_status tn__report_indices(const tn__call *call, const char *name,
                             const char *argument, tn_tensor *x, int64_t low,
                             int64_t bound);

/* An error leaves this call, which has `count` values as far as they are known.
 * Fills in the details of the error. Does nothing if the error arose outside of
 * the call. */
void tn__call_failed(const tn__call *call, const tn_value *value, int count);

#endif
