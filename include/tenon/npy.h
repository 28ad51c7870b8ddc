/* <tenon/npy.h>: arrays of NumPy: .npy and .npz files. Part of libtenon-media.
 *
 *     tn_tensor *x = tn_npy_load("features.npy");
 *     tn_npy_save("features.npy", x);
 *
 *     tn_npz *file = tn_npz_open("data.npz");
 *     tn_tensor *labels = tn_npz_tensor(file, "labels");
 *
 * How the dtypes of NumPy are read:
 *
 *   bool, int8 to int64, uint8, float16, float32, float64   as they are
 *   uint16, uint32           as int32 and int64, which hold all their numbers
 *   uint64                   as int64; a number above 2^63 - 1 is rejected
 *   f1                       as float8_e5m2, which ml_dtypes writes so
 *   V1, V2 (raw bytes)       with .view alone. ml_dtypes writes bfloat16 and
 *                            float8_e4m3fn so, and the file does not say which
 *   complex, text, bytes, object, datetime64, timedelta64, longdouble and
 *   structured dtypes        rejected (TN_ERR_DTYPE); the message names them
 *
 * Both byte orders, C and Fortran order, and the header versions 1.0, 2.0 and
 * 3.0 are read. A tensor in Fortran order is copied to row-major order. The
 * header is parsed, never evaluated. An array has at most TN_MAX_NDIM
 * dimensions.
 *
 * How Tenon's dtypes are written: those that NumPy has, as they are. bfloat16 as
 * V2, float8_e4m3fn and float8_e5m2 as V1. In Python:
 *
 *     np.load("w.npy").view(ml_dtypes.bfloat16)
 *
 * Files are replaced atomically (io.h). Only regular files are read. Sizes in a
 * file are compared with the file's size before memory is allocated.
 *
 * Source: numpy/lib/format.py, format versions 1.0 to 3.0; APPNOTE.TXT 6.3.10
 * of PKWARE, for zip archives.
 *
 * While an error is pending (error.h), functions that return a status do
 * nothing and return TN_ERR_STATE. Others work as usual, and the first error
 * stays.
 *
 * Threads: A tn_npz does not change. Any thread may read from it.
 */
#ifndef TENON_NPY_H
#define TENON_NPY_H

#include <tenon/options.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- npy ------------------------------------------------------------------ */

/* Options of tn_npy_load:
 *   view   bfloat16, float8_e4m3fn, float8_e5m2 or another dtype: what the raw
 *          bytes of a V1, V2, V4 or V8 array are. Rejected for other arrays
 *   mmap   maps the file instead of reading it. The tensor
 *          is on the device cpu and shares the memory of the file. A program
 *          may write to it: it changes its own copy of the page, never the
 *          file. An array in Fortran order becomes a tensor with the strides of
 *          the file. Do not truncate the file and do not write to it while the
 *          tensor lives: a process that reads a mapped page that is gone gets
 *          SIGBUS. Replace the file by renaming a new one over it, as
 *          tn_npy_save does. Rejected (TN_ERR_UNSUPPORTED) if a copy would be
 *          needed: for a dtype that is converted, the other byte order, bool
 *          bytes other than 0 and 1, elements that are not aligned, and if the
 *          current device is not cpu */
#define TN_NPY_LOAD_OPTIONS_LIST(X)                                           \
    X(tn_dtype, view, TN_DTYPE_NONE)                                          \
    X(bool, mmap, false)
TN_OPTIONS_STRUCT(tn_npy_load, TN_NPY_LOAD_OPTIONS_LIST);
#define TN_NPY_LOAD_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_npy_load, TN_NPY_LOAD_OPTIONS_LIST)

/* Loads the array of a .npy file as a tensor on the current device, which the
 * open scope owns. Returns NULL with TN_ERR_IO if the file cannot be read,
 * TN_ERR_FORMAT if it is not a valid .npy file or has bytes after the array,
 * TN_ERR_DTYPE if Tenon does not have the dtype, TN_ERR_SHAPE for too many
 * dimensions, or TN_ERR_MEMORY if memory runs out. options may be NULL. */
TN_API tn_tensor *tn_npy_load_with(const char *path,
                                   const tn_npy_load_options *options);

/* Like tn_npy_load, from the bytes of a file in memory, which are copied. */
#define TN_NPY_LOAD_MEMORY_OPTIONS_LIST(X) X(tn_dtype, view, TN_DTYPE_NONE)
TN_OPTIONS_STRUCT(tn_npy_load_memory, TN_NPY_LOAD_MEMORY_OPTIONS_LIST);
#define TN_NPY_LOAD_MEMORY_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_npy_load_memory, TN_NPY_LOAD_MEMORY_OPTIONS_LIST)
TN_API tn_tensor *
tn_npy_load_memory_with(const void *data, size_t bytes,
                        const tn_npy_load_memory_options *options);

/* Options of tn_npy_save:
 *   fortran_order  writes the elements in column-major order
 *   version        1, 2 or 3: the major version of the header. NumPy reads
 *                  version 1 always, 2 since 1.9, 3 since 1.17 */
#define TN_NPY_SAVE_OPTIONS_LIST(X)                                           \
    X(bool, fortran_order, false)                                             \
    X(int, version, 1)
TN_OPTIONS_STRUCT(tn_npy_save, TN_NPY_SAVE_OPTIONS_LIST);
#define TN_NPY_SAVE_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_npy_save, TN_NPY_SAVE_OPTIONS_LIST)

/* Writes x to a .npy file. The data is little-endian and begins at a multiple
 * of 64 bytes, so that programs can map it. On failure the old file is
 * unchanged. Fails with TN_ERR_ARGUMENT for another version, TN_ERR_IO if the
 * file cannot be written, TN_ERR_STATE while an error is pending, or
 * TN_ERR_MEMORY. options may be NULL. */
TN_API tn_status tn_npy_save_with(const char *path, const tn_tensor *x,
                                  const tn_npy_save_options *options);

/* Like tn_npy_save, to memory from malloc, which you free. Stores the memory in
 * *out_data and its size in *out_bytes; after a failure both are unchanged. */
TN_OPTIONS_STRUCT(tn_npy_save_memory, TN_NPY_SAVE_OPTIONS_LIST);
#define TN_NPY_SAVE_MEMORY_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_npy_save_memory, TN_NPY_SAVE_OPTIONS_LIST)
TN_API tn_status
tn_npy_save_memory_with(const tn_tensor *x, void **out_data, size_t *out_bytes,
                        const tn_npy_save_memory_options *options);

/* ---- npz ------------------------------------------------------------------
 * A zip archive of .npy files, as numpy.savez and savez_compressed write it.
 * Members are stored or deflated; other compressions and encrypted members are
 * rejected. Members are read as the archive's directory lists them. Members
 * must not overlap, and each member's CRC is checked when it is read. Deflated
 * members of one archive may unpack to at most tn_unpack_limit bytes together
 * (io.h). Nothing is extracted to the file system, so a member's name is never
 * used as a path. */

typedef struct tn_npz tn_npz;

/* Opens an archive and checks its directory. The file stays open until the
 * result is freed. The open scope owns the result. Returns NULL with TN_ERR_IO
 * if the file cannot be read, TN_ERR_FORMAT if it is not a valid archive,
 * TN_ERR_UNSUPPORTED for a compression that Tenon does not read, TN_ERR_IO if
 * the archive unpacks to more than tn_unpack_limit, or TN_ERR_MEMORY. */
TN_API tn_npz *tn_npz_open(const char *path);
/* Like tn_npz_open, from an archive in memory, which is copied. */
TN_API tn_npz *tn_npz_open_memory(const void *data, size_t bytes);

/* Return the number of arrays, and the name of array i, without ".npy", in the
 * order of the archive, or NULL if i is out of range. Members whose names do not
 * end in ".npy" are left out. The name is valid while file lives. Cannot
 * fail. */
TN_API int tn_npz_count(const tn_npz *file);
TN_API const char *tn_npz_name(const tn_npz *file, int i);
/* Returns whether there is an array of that name. Cannot fail. */
TN_API bool tn_npz_has(const tn_npz *file, const char *name);

/* Reads the array of that name, like tn_npy_load. Returns NULL with
 * TN_ERR_ARGUMENT if there is no array of that name, TN_ERR_IO if the file
 * cannot be read or was written to since it was opened, TN_ERR_FORMAT if the
 * member is damaged, or as tn_npy_load does. */
#define TN_NPZ_TENSOR_OPTIONS_LIST(X) X(tn_dtype, view, TN_DTYPE_NONE)
TN_OPTIONS_STRUCT(tn_npz_tensor, TN_NPZ_TENSOR_OPTIONS_LIST);
#define TN_NPZ_TENSOR_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_npz_tensor, TN_NPZ_TENSOR_OPTIONS_LIST)
TN_API tn_tensor *tn_npz_tensor_with(tn_npz *file, const char *name,
                                     const tn_npz_tensor_options *options);

/* Options of tn_npz_save:
 *   compressed   deflates the arrays, as numpy.savez_compressed does */
#define TN_NPZ_SAVE_OPTIONS_LIST(X) X(bool, compressed, false)
TN_OPTIONS_STRUCT(tn_npz_save, TN_NPZ_SAVE_OPTIONS_LIST);
#define TN_NPZ_SAVE_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_npz_save, TN_NPZ_SAVE_OPTIONS_LIST)

/* Writes count tensors with their names to an archive that numpy.load reads.
 * Large members and archives get the zip64 extension. On failure the old file is
 * unchanged. Fails with TN_ERR_ARGUMENT if a name is empty, repeated or not
 * UTF-8, or otherwise as tn_npy_save does. */
TN_API tn_status tn_npz_save_with(const char *path, const char *const *names,
                                  tn_tensor *const *tensors, int count,
                                  const tn_npz_save_options *options);

#ifndef __cplusplus
#define tn_npy_load(...) TN_CALL_1(tn_npy_load, __VA_ARGS__, )
#define tn_npy_load_memory(...) TN_CALL_2(tn_npy_load_memory, __VA_ARGS__, )
#define tn_npy_save(...) TN_CALL_2(tn_npy_save, __VA_ARGS__, )
#define tn_npy_save_memory(...) TN_CALL_3(tn_npy_save_memory, __VA_ARGS__, )
#define tn_npz_tensor(...) TN_CALL_2(tn_npz_tensor, __VA_ARGS__, )
#define tn_npz_save(...) TN_CALL_4(tn_npz_save, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_1(tn_tensor *, tn_npy_load, const char *)
TN_OVERLOAD_2(tn_tensor *, tn_npy_load_memory, const void *, size_t)
TN_OVERLOAD_2(tn_status, tn_npy_save, const char *, const tn_tensor *)
TN_OVERLOAD_3(tn_status, tn_npy_save_memory, const tn_tensor *, void **,
              size_t *)
TN_OVERLOAD_2(tn_tensor *, tn_npz_tensor, tn_npz *, const char *)
TN_OVERLOAD_4(tn_status, tn_npz_save, const char *, const char *const *,
              tn_tensor *const *, int)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
