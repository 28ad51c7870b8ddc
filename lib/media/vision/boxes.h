/* boxes.h: declarations that the files of this folder share. Host code works on
 * copies of tensors as float64; device code consists of public operators and of
 * definitions in the kernel language. */
#ifndef TN_MEDIA_BOXES_H
#define TN_MEDIA_BOXES_H

#include <tenon/autograd.h>
#include <tenon/op_register.h>
#include <tenon/ops.h>
#include <tenon/vision.h>

/* The dtypes that an argument may have. */
enum { TN__ANY_NUMBER, TN__FLOATING, TN__INTEGER };

/* An argument of a call, and the shape and dtype that it must have. */
typedef struct tn__box_rule {
    const char *argument;
    tn_tensor *tensor;
    int kind;         /* TN__FLOATING ... */
    int ndim;         /* -1: at least 1; -2: any */
    int64_t last;     /* size of the last dimension; -1: any */
} tn__box_rule;
/* Checks the arguments, in this order, and that all are on one device. Returns
 * false with an error. */
bool tn__box_check(const char *call, const tn__box_rule *rule, int count);

/* Converts x to the dtype in which torchvision computes with boxes: half types
 * to float32, small integers to int32. */
tn_tensor *tn__box_upcast(tn_tensor *x);
/* Copies the elements of x to the host as float64, in memory from malloc.
 * Returns NULL with an error. The memory has at least one element. */
double *tn__box_read(tn_tensor *x);
/* Returns the elements of an integer tensor as int64, likewise. */
int64_t *tn__box_read_int(tn_tensor *x);
/* Makes a tensor of host elements on device. */
tn_tensor *tn__box_tensor(const void *data, tn_dtype dtype, tn_dims_list shape,
                          tn_device *device);
/* Stores the indices 0 ... n - 1 in out by descending score. Equal scores stay
 * in order; NaN counts as larger than all numbers. Returns false if memory runs
 * out (with an error). */
bool tn__box_order(const double *score, int64_t n, int64_t *out);
/* Defines the operator at the first call; then applies it. */
tn_tensor *tn__box_apply(const char *text, const tn_op **op,
                         tn_tensor *const *in, const double *numbers);
/* Reduces x as the string says: "none", "mean" or "sum". Returns NULL with an
 * error for another string. The mean of no elements is 0. */
tn_tensor *tn__box_reduce(const char *call, tn_tensor *x,
                          const char *reduction);
/* Returns whether the string is the name of a reduction; if not, sets an
 * error. */
bool tn__box_reduction_is_known(const char *call, const char *reduction);

#endif
