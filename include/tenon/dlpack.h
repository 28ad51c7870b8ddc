/* <tenon/dlpack.h>: DLPack, by which NumPy, PyTorch, JAX, CuPy and others share
 * the memory of arrays without a copy. Part of libtenon-media.
 *
 *     struct DLManagedTensorVersioned *lent = tn_dlpack_export(x);
 *     tn_tensor *y = tn_dlpack_import(lent);     // shares the memory of x
 *
 * This header declares the structs of DLPack only by name. Include the header of
 * DLPack (<dlpack/dlpack.h>) before or after it to use their members. The layout
 * is that of DLPack 1.3: https://dmlc.github.io/dlpack/latest/c_api.html.
 *
 * Tensors on the device cpu are shared (kDLCPU). Memory of other devices is not
 * exported and not imported, because Tenon does not publish addresses on a
 * device: move the tensor with tn_to(x, tn_device_open("cpu")) first.
 *
 * All dtypes of Tenon are exchanged: bool, int8 to int64, uint8, float16,
 * bfloat16, float32, float64, float8_e4m3fn, float8_e5m2. Other dtypes, and
 * vector types (lanes other than 1), are rejected (TN_ERR_DTYPE); the message
 * names them.
 *
 * While an error is pending (error.h), the functions work as usual, and the
 * first error stays.
 *
 * Threads: any thread may call these functions and the deleters. A tensor that
 * was exported is shared: while one side writes to it, the other must not use
 * it.
 */
#ifndef TENON_DLPACK_H
#define TENON_DLPACK_H

#include <tenon/options.h>
#include <tenon/tensor.h>

struct DLManagedTensor;
struct DLManagedTensorVersioned;
struct DLPackExchangeAPI;

#ifdef __cplusplus
extern "C" {
#endif

/* ---- to others ------------------------------------------------------------ */

/* Options of tn_dlpack_export:
 *   read_only   sets the flag that forbids the receiver to write */
#define TN_DLPACK_EXPORT_OPTIONS_LIST(X) X(bool, read_only, false)
TN_OPTIONS_STRUCT(tn_dlpack_export, TN_DLPACK_EXPORT_OPTIONS_LIST);
#define TN_DLPACK_EXPORT_OPTIONS                                              \
    TN_OPTIONS_DEFAULTS(tn_dlpack_export, TN_DLPACK_EXPORT_OPTIONS_LIST)

/* Lends x, with its strides. The result keeps the memory of x until its deleter
 * is called: once, by the receiver, from any thread. Returns NULL with
 * TN_ERR_DEVICE if x is not on the device cpu, TN_ERR_STATE if x requires a
 * gradient (export tn_detach(x)), or TN_ERR_MEMORY. options may be NULL. */
TN_API struct DLManagedTensorVersioned *
tn_dlpack_export_with(tn_tensor *x, const tn_dlpack_export_options *options);
/* Like tn_dlpack_export, in the struct without version and flags, for receivers
 * that support only DLPack before 1.0. */
TN_API struct DLManagedTensor *tn_dlpack_export_unversioned(tn_tensor *x);

/* ---- from others ---------------------------------------------------------- */

/* Options of tn_dlpack_import:
 *   copy   copies the elements and calls the deleter at once */
#define TN_DLPACK_IMPORT_OPTIONS_LIST(X) X(bool, copy, false)
TN_OPTIONS_STRUCT(tn_dlpack_import, TN_DLPACK_IMPORT_OPTIONS_LIST);
#define TN_DLPACK_IMPORT_OPTIONS                                              \
    TN_OPTIONS_DEFAULTS(tn_dlpack_import, TN_DLPACK_IMPORT_OPTIONS_LIST)

/* Makes a tensor on the device cpu that shares the memory of managed, with its
 * strides. Takes ownership: the deleter is called once, when the last tensor
 * that shares the memory is freed, by the thread that frees it. The open scope
 * owns the result. After a failure managed still belongs to the caller. Returns
 * NULL with
 *
 *   TN_ERR_ARGUMENT      managed is NULL
 *   TN_ERR_UNSUPPORTED   another major version; memory that is read-only, since
 *                        a tensor may be written to (give .copy = true);
 *                        negative strides; elements that are not aligned
 *   TN_ERR_DEVICE        memory of another device than the CPU
 *   TN_ERR_DTYPE         a dtype that Tenon does not have
 *   TN_ERR_SHAPE         more than TN_MAX_NDIM dimensions, or a shape or strides
 *                        that are invalid
 *   TN_ERR_MEMORY        memory runs out
 *
 * options may be NULL. */
TN_API tn_tensor *
tn_dlpack_import_with(struct DLManagedTensorVersioned *managed,
                      const tn_dlpack_import_options *options);
/* Like tn_dlpack_import, from the struct without version and flags. */
TN_API tn_tensor *
tn_dlpack_import_unversioned(struct DLManagedTensor *managed);

/* ---- the exchange table ----------------------------------------------------
 * Python types that have an attribute __dlpack_c_exchange_api__, a capsule named
 * "dlpack_exchange_api", let C code exchange their tensors without calls of
 * Python functions. Hold the GIL in these calls. */

/* Makes a tensor of a Python object (PyObject *) whose type has the table api,
 * like tn_dlpack_import. object is lent. Returns NULL like tn_dlpack_import, and
 * with TN_ERR_UNSUPPORTED if api->managed_tensor_from_py_object_no_sync fails,
 * which sets a Python error. */
TN_API tn_tensor *
tn_dlpack_import_object(const struct DLPackExchangeAPI *api, void *object);

/* For a Python binding of Tenon: returns the table of its tensor type, which is
 * valid until the process ends. The binding gives the two conversions:
 *
 *   tensor_of   returns the tensor in a Python object, lent; or NULL with a
 *               Python error set
 *   object_of   makes a Python object that holds x, which is lent: keep it with
 *               tn_keep; or returns NULL with a Python error set
 *
 * Conversions are given once in a process: returns NULL with TN_ERR_STATE if
 * others were given before, or with TN_ERR_ARGUMENT if one is NULL. A function
 * of the table that fails returns -1, and its message is in tn_error(). */
TN_API const struct DLPackExchangeAPI *
tn_dlpack_exchange_api(tn_tensor *(*tensor_of)(void *object),
                       void *(*object_of)(tn_tensor *x));

#ifndef __cplusplus
#define tn_dlpack_export(...) TN_CALL_1(tn_dlpack_export, __VA_ARGS__, )
#define tn_dlpack_import(...) TN_CALL_1(tn_dlpack_import, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_1(struct DLManagedTensorVersioned *, tn_dlpack_export, tn_tensor *)
TN_OVERLOAD_1(tn_tensor *, tn_dlpack_import, struct DLManagedTensorVersioned *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
