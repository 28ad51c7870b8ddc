/* mistakes.h: error messages about mistakes of callers. Each tn__fail_ function
 * records an error and returns its status. The names of arguments are marked in
 * the message, as "{input}" (tn__fail). In all functions `name` is the operator
 * that the message names. */
#ifndef TN_LIB_OPS_MISTAKES_H
#define TN_LIB_OPS_MISTAKES_H

#include <base/error.h>
#include <ops/engine/ops.h>

/* Writes a shape, as "(2, 3)", into text and returns text. */
#define TN__SHAPE_TEXT 320
const char *tn__shape_text(char text[TN__SHAPE_TEXT], int ndim,
                           const int64_t *shape);

/* Reports that a dimension does not exist: "softmax: dim 3 is outside [-2, 1]".
 * `argument` is "dim", or "dims:dim" for an element of the argument dims. */
TN__COLD tn_status tn__fail_dim(const char *name, const char *argument,
                                int64_t dim, int ndim);
/* Reports that the tensors of a call are on several devices. The message names
 * each tensor with its shape and device, and the call of tn_to that moves
 * one. */
TN__COLD tn_status tn__fail_devices(const tn_op *op, const tn_value *value);
/* Reports that x, argument i of op, is NULL or a freed tensor. If the argument
 * is a list of tensors, x is element k of the list. Else k is -1. */
TN__COLD tn_status tn__fail_dead(const tn_op *op, int i, int k,
                                 const tn_tensor *x);
/* Reports that all operands are numbers, so no tensor determines the shape of
 * the result. */
TN__COLD tn_status tn__fail_numbers(const tn_op *op);
/* Reports that v, the value of argument i, has a kind (TN_VALUE_...) that the
 * argument does not accept. */
TN__COLD tn_status tn__fail_kind(const tn_op *op, int i, const tn_value *v);
/* Reports that the operator's kernel is not defined for the dtypes of these
 * values. Replaces the pending message, which is about the kernel's source, by
 * a message about the arguments, since the caller did not write the text. */
TN__COLD tn_status tn__fail_dtypes(const tn_op *op, const tn_value *value);
/* Reports that the optional argument i is absent while an error is pending. The
 * caller may have passed the NULL that a failed function returned. */
TN__COLD tn_status tn__fail_left_out(const tn_op *op, int i);
/* Argument i is a late number (tn_late_number), which the operator cannot read
 * again at each replay. */
TN__COLD tn_status tn__fail_late(const tn_op *op, int i);
/* Checks the lines `needs` and `bounds` that op has in the table: an option
 * that has no effect in this call must have its default value, and numbers must
 * be within their bounds. The values have been converted to the kinds of the
 * arguments. */
tn_status tn__check_needs(const tn_op *op, const tn_value *value);
/* Reports that the shapes of the operands do not broadcast. names[k] and
 * tensor[k] are the name and the tensor of operand k. */
TN__COLD tn_status tn__fail_broadcast(const char *name, int count,
                                      const char *const *names,
                                      tn_tensor *const *tensor);
/* Reports an index that is out of range. fault->position is a row-major
 * position in the shape extent[ndim]. `argument` is the name of the argument
 * that has this shape, or NULL if the shape is that of the iteration space and
 * the argument is not known yet. */
TN__COLD tn_status tn__fail_index(const char *name, const char *argument,
                                  const tn_fault *fault, int ndim,
                                  const int64_t *extent);
/* Reports that a guard in the kernel, which is a check of input elements such
 * as divisor != 0, rejected an element. The message names the input and the
 * position of the element, and ends in `suffix`. */
TN__COLD tn_status tn__fail_guard(const char *name, const tn__kernel *kernel,
                                  const tn_fault *fault, int ndim,
                                  const int64_t *extent, const char *suffix);

/* Checks that all elements of the integer tensor x are in [low, bound). If not,
 * records an error as "take: index 7 at position (0, 1) is outside [0, 3)".
 * `number` is the index of x if the argument is a list of tensors, else -1. The
 * check waits for the device, because it reads values back. */
tn_status tn__check_indices(const char *name, const char *argument, int number,
                            tn_tensor *x, int64_t low, int64_t bound);

/* Replaces a pending index error of this call by the error of
 * tn__check_indices, if x has an element outside of [low, bound). Operators
 * call it if they compute other indices from the caller's indices x. Returns
 * the code of the pending error. */
tn_status tn__report_indices(const tn__call *call, const char *name,
                             const char *argument, tn_tensor *x, int64_t low,
                             int64_t bound);

/* Completes the details (tn_error_info) of the pending error when it leaves
 * this call. value[] holds the first `count` arguments of the call. Does
 * nothing if the error arose outside of the call. */
void tn__call_failed(const tn__call *call, const tn_value *value, int count);

#endif
