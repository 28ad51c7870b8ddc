/* mistakes.h: the wording of what callers get wrong. Each returns its status
 * with the message recorded, the arguments in it marked (tn__fail). */
#ifndef TN_LIB_OPS_MISTAKES_H
#define TN_LIB_OPS_MISTAKES_H

#include <base/error.h>
#include <ops/engine/ops.h>

/* "(2, 3)" in a buffer of the caller's; returns it. */
#define TN__SHAPE_TEXT 320
const char *tn__shape_text(char text[TN__SHAPE_TEXT], int ndim,
                           const int64_t *shape);

/* "softmax: dim 3 is outside [-2, 1]"; argument: "dim", or "dims:dim" for one
 * of dims. */
TN__COLD tn_status tn__fail_dim(const char *name, const char *argument,
                                int64_t dim, int ndim);
/* Tensors on two devices: each with its shape and device, and the tn_to. */
TN__COLD tn_status tn__fail_devices(const tn_op *op, const tn_value *value);
/* x, argument i (of a list its tensor k, else -1), is gone or no tensor. */
TN__COLD tn_status tn__fail_dead(const tn_op *op, int i, int k,
                                 const tn_tensor *x);
/* Numbers alone, where the result takes its shape from a tensor. */
TN__COLD tn_status tn__fail_numbers(const tn_op *op);
/* A value of a kind that the argument does not take. */
TN__COLD tn_status tn__fail_kind(const tn_op *op, int i, const tn_value *v);
/* Dtypes for which a row's kernel is not defined, whose message is pending: that
 * speaks of a text the caller did not write, this of the arguments. */
TN__COLD tn_status tn__fail_dtypes(const tn_op *op, const tn_value *value);
/* An optional argument left out while an error is pending. */
TN__COLD tn_status tn__fail_left_out(const tn_op *op, int i);
/* An option that has another value than its default, and no effect; a number out
 * of bounds: op's needs (values in their final kinds). TN_OK if there is none. */
tn_status tn__check_needs(const tn_op *op, const tn_value *value);
/* Shapes that do not broadcast: the operands' names and shapes. */
TN__COLD tn_status tn__fail_broadcast(const char *name, int count,
                                      const char *const *names,
                                      tn_tensor *const *tensor);
/* An index fault. argument: whose elements the fault counts, in the shape
 * `extent`; NULL: it counts those of the iteration space, and where in what the
 * caller gave that is remains to be found. */
TN__COLD tn_status tn__fail_index(const char *name, const char *argument,
                                  const tn_fault *fault, int ndim,
                                  const int64_t *extent);
/* A kernel's guard that found an input's element bad: which, and where; the
 * words end in `suffix`. */
TN__COLD tn_status tn__fail_guard(const char *name, const tn__kernel *kernel,
                                  const tn_fault *fault, int ndim,
                                  const int64_t *extent, const char *suffix);

/* Are all elements of x, integers, in [low, bound)? Else the index error:
 * "take: index 7 at position (0, 1) is outside [0, 3)"; number: which of a list
 * the argument is, or -1. Reads back. */
tn_status tn__check_indices(const char *name, const char *argument, int number,
                            tn_tensor *x, int64_t low, int64_t bound);

/* An index error that arose within the call, of the indices that the caller gave:
 * tn__check_indices, whose words take the place of the pending ones where it
 * finds one. For rows that make others of them. Returns the pending code. */
tn_status tn__report_indices(const tn__call *call, const char *name,
                             const char *argument, tn_tensor *x, int64_t low,
                             int64_t bound);

/* An error leaves this call (of count values, as far as they are known): fills
 * in what is known of it besides its words. Nothing where it came from outside
 * of the call. */
void tn__call_failed(const tn__call *call, const tn_value *value, int count);

#endif
