/* <tenon/tensor.h>: n-dimensional arrays.
 *
 * A tensor is a view (dtype, shape, strides, offset) of a storage on one
 * device. Several tensors may share a storage, which is freed with the last of
 * them. This header makes tensors from C arrays and reads them back; the
 * operators are in <tenon/ops.h>.
 *
 *     float data[] = {1, 2, 3, 4, 5, 6};
 *     tn_tensor *x = tn_tensor_from_array(data, TN_F32, tn_dims(2, 3));
 *     tn_print(tn_sum(x));                       // tensor(21.)
 *
 * Threads: Several threads may read one tensor at once, also as an input of
 * operators. While a thread changes a tensor (in place, tn_tensor_set_array,
 * tn_tensor_set_maker), no other thread may use it or a tensor that shares its
 * memory. What a call returns belongs to a scope of the calling thread.
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

/* A new contiguous tensor of dtype and shape on the current device, with
 * elements copied from data, which holds them in row-major order. Owned by the
 * open scope. NULL:
 * TN_ERR_DTYPE, TN_ERR_SHAPE, TN_ERR_ARGUMENT (data is NULL), TN_ERR_MEMORY, or
 * the device cannot be opened. */
TN_API tn_tensor *tn_tensor_from_array(const void *data, tn_dtype dtype,
                                       tn_dims_list shape);

/* A tensor that uses your memory without a copy; the current device must be one
 * whose memory the CPU can use (TN_ERR_DEVICE). data is row-major and must stay
 * valid until release(context) is called: once, when the last tensor that
 * shares it is freed. release may be NULL. Owned by the open scope. */
TN_API tn_tensor *tn_tensor_wrap(void *data, tn_dtype dtype,
                                 tn_dims_list shape,
                                 void (*release)(void *context),
                                 void *context);

/* Copies the elements of x, in row-major order, to out. bytes is the size of
 * out. TN_ERR_ARGUMENT if it is not numel * element size. Waits for the
 * device. */
TN_API tn_status tn_tensor_to_array(const tn_tensor *x, void *out,
                                    size_t bytes);

/* Copies elements in row-major order from data into x, in place. bytes is the
 * size of data. TN_ERR_ARGUMENT if it is not numel * element size. */
TN_API tn_status tn_tensor_set_array(tn_tensor *x, const void *data,
                                     size_t bytes);

/* The single element of x, converted. If x does not have exactly one element
 * (TN_ERR_SHAPE) or the device fails: NAN for tn_item, INT64_MIN for
 * tn_item_int. Waits for the device. */
TN_API double tn_item(const tn_tensor *x);
TN_API int64_t tn_item_int(const tn_tensor *x);

/* The address of element 0. Waits for the device. NULL (TN_ERR_DEVICE) if the
 * CPU cannot use the device's memory. Lent: valid while x lives. Autograd does
 * not notice what is written through it. */
TN_API void *tn_tensor_data(tn_tensor *x);

/* ---- attributes: cannot fail; 0 or NULL for a NULL tensor ------------- */

/* The number of dimensions. */
TN_API int tn_tensor_ndim(const tn_tensor *x);
/* ndim sizes; ndim strides, counted in elements. Lent: valid while x lives. */
TN_API const int64_t *tn_tensor_shape(const tn_tensor *x);
TN_API const int64_t *tn_tensor_strides(const tn_tensor *x);
/* Size of dimension dim; a negative dim counts from the end. -1 if there is no
 * such dimension. */
TN_API int64_t tn_tensor_size(const tn_tensor *x, int dim);
/* The number of elements. */
TN_API int64_t tn_tensor_numel(const tn_tensor *x);
/* The dtype (TN_F32 ...; TN_DTYPE_NONE for NULL) and the device, lent. */
TN_API tn_dtype tn_tensor_dtype(const tn_tensor *x);
TN_API tn_device *tn_tensor_device(const tn_tensor *x);
/* Whether the elements are dense in row-major order. */
TN_API bool tn_tensor_is_contiguous(const tn_tensor *x);
/* Whether a and b share a storage. */
TN_API bool tn_tensor_is_alias(const tn_tensor *a, const tn_tensor *b);

/* ---- transfers ------------------------------------------------------- */

/* input on device: input itself if it is there already, else a copy.
 * Differentiable. No other call moves data between devices. */
TN_API tn_tensor *tn_to(tn_tensor *input, tn_device *device);

/* ---- printing -------------------------------------------------------- */

/* Writes x as PyTorch prints it, and a newline: to stdout, or to file
 * (TN_ERR_IO if that fails). Waits for the device. */
TN_API void tn_print(const tn_tensor *x);
TN_API tn_status tn_fprint(FILE *file, const tn_tensor *x);
/* The same text in memory from malloc, which you free. NULL on failure. */
TN_API char *tn_tensor_text(const tn_tensor *x);

/* ---- for code built on Tenon: layers, data sets ------------------------- */

/* A tensor argument of a call, and its name. Closed. */
typedef struct tn_given {
    const char *argument;
    const tn_tensor *tensor; /* NULL: absent, or not a tensor */
} tn_given;

/* Records an error as an operator does. The message begins with "name: ". In
 * tn_error_info, called and op are name, tensor[] is `given` (count of them),
 * and argument is the first of these. name and the names in given must be
 * string constants: they are read while the error is pending. Returns code. */
TN_API tn_status tn_error_refuse(tn_status code, const char *name,
                                 const tn_given *given, int count,
                                 const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 5, 6)))
#endif
    ;

/* The same where no tensor is wrong. argument names a number, a text, or an
 * option (without the dot); NULL: no single argument. It is a string constant,
 * too. */
TN_API tn_status tn_error_refuse_argument(tn_status code, const char *name,
                                          const char *argument,
                                          const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

/* Renames the pending error of call `from`, which `call` called, to an error of
 * call: "safetensors_open: ..." becomes "module_load: ...". tn_error_info's op
 * and called change, too. argument names the argument of call that is wrong;
 * NULL: its name in from. All are string constants. Does nothing if no error is
 * pending, or that of another call. TN_ERR_ARGUMENT if from or call is NULL. */
TN_API void tn_error_rename(const char *from, const char *call,
                            const char *argument);

/* Sets made_by of x in errors (error.h) to name, in place of the operator that
 * made it; layers set it for their parameters. The library stores each
 * different name until the process ends, so use few. NULL and "" change
 * nothing. */
TN_API void tn_tensor_set_maker(tn_tensor *x, const char *name);

#ifdef __cplusplus
}
#endif
#endif
