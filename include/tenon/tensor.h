/* <tenon/tensor.h>: n-dimensional arrays.
 *
 * A tensor is a view (dtype, shape, strides, offset) on a counted storage on
 * one device. Several tensors may share a storage. Operators are in
 * <tenon/ops.h>; here is how tensors are made from and read back into C.
 *
 *     float data[] = {1, 2, 3, 4, 5, 6};
 *     tn_tensor *x = tn_tensor_from_array(data, TN_F32, tn_dims(2, 3));
 *     tn_print(tn_sum(x));                       // tensor(21.)
 *
 * Threads: Several threads may read one tensor at once, as operators' inputs
 * too. While a thread changes it (in place, tn_tensor_set_array,
 * tn_tensor_set_maker), no other may use it or a tensor on the same memory.
 * What a call returns belongs to the scope of the calling thread.
 */
#ifndef TENON_TENSOR_H
#define TENON_TENSOR_H

#include <stdio.h>
#include <tenon/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_tensor tn_tensor;

/* ---- from and to C --------------------------------------------------- */

/* Copies numel elements of dtype, row-major, from data to a new tensor on the
 * current device. The open scope owns the result. */
TN_API tn_tensor *tn_tensor_from_array(const void *data, tn_dtype dtype,
                                       tn_dims_list shape);

/* A tensor over memory of yours, on the cpu: nothing is copied. data must stay
 * until release(context) is called (once, when the last tensor that shares
 * it is gone); release may be NULL. TN_ERR_DEVICE if the current device is
 * not one whose memory the CPU can use. */
TN_API tn_tensor *tn_tensor_wrap(void *data, tn_dtype dtype,
                                 tn_dims_list shape,
                                 void (*release)(void *context),
                                 void *context);

/* Copies x, row-major, into out, which has room for `bytes`; TN_ERR_ARGUMENT
 * if that is not numel * element size. Waits for the device. */
TN_API tn_status tn_tensor_to_array(const tn_tensor *x, void *out,
                                    size_t bytes);

/* Copies numel elements, row-major, from data into x (in place). */
TN_API tn_status tn_tensor_set_array(tn_tensor *x, const void *data,
                                     size_t bytes);

/* The only element of x, converted; NAN (INT64_MIN) and an error if there is
 * not exactly one. Waits for the device. */
TN_API double tn_item(const tn_tensor *x);
TN_API int64_t tn_item_int(const tn_tensor *x);

/* The address of element 0 where the CPU can use the device's memory, after
 * waiting for the device; else NULL (TN_ERR_DEVICE). Lent: good while x
 * lives. Writing through it is yours to answer for. */
TN_API void *tn_tensor_data(tn_tensor *x);

/* ---- attributes: cannot fail, 0 or NULL for a NULL tensor ------------- */

TN_API int tn_tensor_ndim(const tn_tensor *x);
TN_API const int64_t *tn_tensor_shape(const tn_tensor *x);   /* lent */
TN_API const int64_t *tn_tensor_strides(const tn_tensor *x); /* lent */
/* Size of one dimension; dim may be negative. -1 if there is no such one. */
TN_API int64_t tn_tensor_size(const tn_tensor *x, int dim);
TN_API int64_t tn_tensor_numel(const tn_tensor *x);
TN_API tn_dtype tn_tensor_dtype(const tn_tensor *x);
TN_API tn_device *tn_tensor_device(const tn_tensor *x);
TN_API bool tn_tensor_is_contiguous(const tn_tensor *x);
/* Do they share memory? */
TN_API bool tn_tensor_is_alias(const tn_tensor *a, const tn_tensor *b);

/* ---- transfers ------------------------------------------------------- */

/* input on device: input itself if it is there, else a copy (differentiable).
 * The only way data moves between devices. */
TN_API tn_tensor *tn_to(tn_tensor *input, tn_device *device);

/* ---- printing -------------------------------------------------------- */

/* Writes x as PyTorch prints it, and a newline, to stdout. */
TN_API void tn_print(const tn_tensor *x);
TN_API tn_status tn_fprint(FILE *file, const tn_tensor *x);
/* The same text in malloc'ed memory (yours to free); NULL on failure. */
TN_API char *tn_tensor_text(const tn_tensor *x);

/* ---- for code that is built on Tenon: layers, data sets ----------------- */

/* A tensor that such code was given, and as which argument. Closed. */
typedef struct tn_given {
    const char *argument;
    const tn_tensor *tensor; /* NULL: no tensor, or none was given */
} tn_given;

/* tn_error_set for what `name` was given: the message begins with "name: ",
 * and tn_error_info tells of name as it does of an operator: called and op are
 * name, its tensors those of `given`, the argument at fault the first of them.
 * The texts of name and given are lent while the error is pending: string
 * constants. Returns code. */
TN_API tn_status tn_error_refuse(tn_status code, const char *name,
                                 const tn_given *given, int count,
                                 const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 5, 6)))
#endif
    ;

/* The same where no tensor is at fault: argument is a number, a text, an option
 * by its name without the dot; NULL: none alone. A string constant too. */
TN_API tn_status tn_error_refuse_argument(tn_status code, const char *name,
                                          const char *argument,
                                          const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

/* The pending error, where it is one of the call `from`, becomes that of
 * `call`, which made that call: "safetensors_open: ..." becomes
 * "module_load: ...", and tn_error_info's op and called likewise. argument is
 * call's that is at fault; NULL: it has the name that it has in from. String
 * constants. Nothing changes where no error is pending, or another call's.
 * TN_ERR_ARGUMENT if from or call is NULL. */
TN_API void tn_error_rename(const char *from, const char *call,
                            const char *argument);

/* Makes name what errors tell as made_by of x, which else is the operator that
 * made it: layers give their parameters their own. Each name is kept for ever:
 * few are wanted; NULL and "" change nothing. */
TN_API void tn_tensor_set_maker(tn_tensor *x, const char *name);

#ifdef __cplusplus
}
#endif
#endif
