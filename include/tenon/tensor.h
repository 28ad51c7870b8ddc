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

/* Makes a contiguous tensor of dtype and shape on the current device, and
 * copies its elements from data, which holds them in row-major order. The open
 * scope owns the result. Returns NULL with TN_ERR_DTYPE if dtype is invalid,
 * TN_ERR_SHAPE if shape is invalid, TN_ERR_ARGUMENT if data is NULL,
 * TN_ERR_MEMORY if memory runs out, or the error of opening the device. */
TN_API tn_tensor *tn_tensor_from_array(const void *data, tn_dtype dtype,
                                       tn_dims_list shape);

/* Makes a tensor that uses your memory without a copy. The current device must
 * be one whose memory the CPU can use (TN_ERR_DEVICE). data is row-major and
 * must stay valid until release(context) is called: once, when the last tensor
 * that shares it is freed. release may be NULL. The open scope owns the result.
 * Returns NULL on failure. */
TN_API tn_tensor *tn_tensor_wrap(void *data, tn_dtype dtype,
                                 tn_dims_list shape,
                                 void (*release)(void *context),
                                 void *context);

/* Copies the elements of x, in row-major order, to out. bytes is the size of
 * out. Fails with TN_ERR_ARGUMENT if bytes is not numel * element size. Waits
 * for the device. */
TN_API tn_status tn_tensor_to_array(const tn_tensor *x, void *out,
                                    size_t bytes);

/* Copies elements in row-major order from data into x, in place. bytes is the
 * size of data. Fails with TN_ERR_ARGUMENT if bytes is not numel * element
 * size. */
TN_API tn_status tn_tensor_set_array(tn_tensor *x, const void *data,
                                     size_t bytes);

/* Returns the single element of x, converted to double or int64. Returns NAN or
 * INT64_MIN if x does not have exactly one element (TN_ERR_SHAPE) or the device
 * fails. Waits for the device. */
TN_API double tn_item(const tn_tensor *x);
TN_API int64_t tn_item_int(const tn_tensor *x);

/* Returns the address of element 0, or NULL (TN_ERR_DEVICE) if the CPU cannot
 * use the device's memory. Waits for the device. The memory belongs to x and is
 * valid while x lives. Autograd does not notice what is written through the
 * address. */
TN_API void *tn_tensor_data(tn_tensor *x);

/* ---- attributes: cannot fail; 0 or NULL for a NULL tensor ------------- */

/* Returns the number of dimensions. */
TN_API int tn_tensor_ndim(const tn_tensor *x);
/* Return an array of ndim sizes, and one of ndim strides, counted in elements.
 * The arrays belong to x and are valid while x lives. */
TN_API const int64_t *tn_tensor_shape(const tn_tensor *x);
TN_API const int64_t *tn_tensor_strides(const tn_tensor *x);
/* Returns the size of dimension dim, or -1 if there is no such dimension. A
 * negative dim counts from the end. */
TN_API int64_t tn_tensor_size(const tn_tensor *x, int dim);
/* Returns the number of elements. */
TN_API int64_t tn_tensor_numel(const tn_tensor *x);
/* Return the dtype (TN_F32 ...), or TN_DTYPE_NONE for NULL, and the device,
 * which lives until the process ends. */
TN_API tn_dtype tn_tensor_dtype(const tn_tensor *x);
TN_API tn_device *tn_tensor_device(const tn_tensor *x);
/* Returns whether the elements are contiguous in row-major order. */
TN_API bool tn_tensor_is_contiguous(const tn_tensor *x);
/* Returns whether a and b share a storage. */
TN_API bool tn_tensor_is_alias(const tn_tensor *a, const tn_tensor *b);

/* ---- transfers ------------------------------------------------------- */

/* Returns input if it is on device already, else a copy of it on device.
 * Differentiable. No other call moves data between devices. */
TN_API tn_tensor *tn_to(tn_tensor *input, tn_device *device);

/* ---- printing -------------------------------------------------------- */

/* Writes x as PyTorch prints it, and a newline, to stdout or to file. Waits for
 * the device. tn_fprint fails with TN_ERR_IO if the file cannot be written. */
TN_API void tn_print(const tn_tensor *x);
TN_API tn_status tn_fprint(FILE *file, const tn_tensor *x);
/* Returns the string that tn_print writes, in memory from malloc, which you
 * free. Returns NULL on failure. */
TN_API char *tn_tensor_text(const tn_tensor *x);

/* ---- for code built on Tenon: layers, data sets ------------------------- */

/* A tensor argument of a call, and its name. Closed: the struct never
 * changes. */
typedef struct tn_given {
    const char *argument;
    const tn_tensor *tensor; /* NULL if it is absent or not a tensor */
} tn_given;

/* Records an error as an operator does, and returns code. The message begins
 * with "name: ". In tn_error_info, called and op are name, tensor[] are the
 * count tensors of given, and argument is the first of their names. name and
 * the names in given must be string constants, because they are read while the
 * error is pending. */
TN_API tn_status tn_error_refuse(tn_status code, const char *name,
                                 const tn_given *given, int count,
                                 const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 5, 6)))
#endif
    ;

/* Like tn_error_refuse, for an error that no tensor causes. argument names a
 * number, a string, or an option (without the dot). It is NULL if no single
 * argument is wrong. It must be a string constant, too. */
TN_API tn_status tn_error_refuse_argument(tn_status code, const char *name,
                                          const char *argument,
                                          const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

/* Renames the pending error of call `from` to an error of `call`, which has
 * called it: "safetensors_open: ..." becomes "module_load: ...". op and called
 * in tn_error_info change, too. argument names the argument of `call` that is
 * wrong. If it is NULL, the argument that the error names stays. All three are
 * string constants. Does nothing if no error is pending, or if the pending
 * error is not one of `from`. Records TN_ERR_ARGUMENT if from or call is
 * NULL. */
TN_API void tn_error_rename(const char *from, const char *call,
                            const char *argument);

/* Sets the maker of x in errors (made_by in error.h) to name, in place of the
 * operator that made x. Layers set it for their parameters. The library stores
 * each different name until the process ends, so use few. NULL and "" change
 * nothing. */
TN_API void tn_tensor_set_maker(tn_tensor *x, const char *name);

#ifdef __cplusplus
}
#endif
#endif
