/* <tenon/torch_file.h>: files of torch.save: .pt and .pth. Part of
 * libtenon-media.
 *
 *     tn_torch_file *file = tn_torch_file_open("checkpoint.pt");
 *     for (int i = 0; i < tn_torch_file_count(file); i++)
 *         puts(tn_torch_file_name(file, i));         // model.fc1.weight ...
 *     tn_tensor *w = tn_torch_file_tensor(file, "model.fc1.weight");
 *     int64_t epoch = 0;
 *     tn_torch_file_int(file, "epoch", &epoch);
 *     tn_torch_file_load_module(file, net, .prefix = "model.");
 *
 * A file of torch.save contains a pickle, which is a program. Tenon reads it
 * without running anything: it understands the instructions that a state_dict or
 * a checkpoint needs, and a fixed table of names that they may refer to. These
 * are the names that torch.load(weights_only=True) allows (tensors, storages,
 * dtypes, devices, layouts, Parameter, torch.Size, OrderedDict, Counter, set,
 * bytearray, complex), without sparse, quantized and meta tensors; and
 * defaultdict, frozenset and NumPy's scalars (bools, integers, float16 to
 * float64). Everything else is rejected (TN_ERR_UNSUPPORTED) with its name and
 * its position. To read such a file in Python, load it where you trust it and
 * save its model.state_dict().
 *
 * Two formats are read: the zip archive of PyTorch 1.6 and later, and the older
 * sequence of pickles. TorchScript archives and the tar files of PyTorch 0.1 are
 * rejected.
 *
 * The object in a file is a tensor or a tree: dicts, lists, tuples, tensors,
 * numbers, strings, bools and None. A defaultdict is a dict, a scalar of NumPy
 * a number, and a complex number a list of two numbers. Each value has a path:
 * the keys and the positions that lead to it, joined by dots:
 * "optimizer.param_groups.0.lr". The path of the outermost object is "". A file
 * in which two values have the same path is rejected.
 *
 * Limits: a tree is at most 64 levels deep and has at most 2^20 values. The
 * pickle has at most 64 MiB, and its values take at most 512 MiB and at most 512
 * times its size. Deflated members, which torch.save does not write, may
 * unpack to tn_unpack_limit bytes together (io.h).
 *
 * Source: torch/serialization.py and torch/_utils.py of PyTorch 2.15, and
 * Lib/pickletools.py of Python 3.13 for the instructions.
 *
 * While an error is pending (error.h), functions that return a status do
 * nothing and return TN_ERR_STATE. Others work as usual, and the first error
 * stays.
 *
 * Threads: A tn_torch_file does not change. Any thread may read from it.
 */
#ifndef TENON_TORCH_FILE_H
#define TENON_TORCH_FILE_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_torch_file tn_torch_file;

/* Opens a file and reads its tree, but not the elements of its tensors. The file
 * stays open until the result is freed. The open scope owns the result. Returns
 * NULL with TN_ERR_IO if the file cannot be read, TN_ERR_FORMAT if it is
 * malformed, TN_ERR_UNSUPPORTED if it contains something that Tenon does not
 * read, or TN_ERR_MEMORY if memory runs out. */
TN_API tn_torch_file *tn_torch_file_open(const char *path);
/* Like tn_torch_file_open, from a file in memory, which is copied. */
TN_API tn_torch_file *tn_torch_file_open_memory(const void *data,
                                                size_t bytes);
/* Returns the path as it was opened, or "memory". The string is valid while
 * file lives. Cannot fail. */
TN_API const char *tn_torch_file_path(const tn_torch_file *file);

/* ---- tensors -------------------------------------------------------------- */

/* Return the number of tensors, and the path of tensor i in the order of the
 * tree, or NULL if i is out of range. The path is valid while file lives. Cannot
 * fail. */
TN_API int tn_torch_file_count(const tn_torch_file *file);
TN_API const char *tn_torch_file_name(const tn_torch_file *file, int i);
/* Returns whether there is a tensor of that path. Cannot fail. */
TN_API bool tn_torch_file_has(const tn_torch_file *file, const char *name);

/* Return the dtype, number of dimensions and shape of a tensor, without reading
 * its elements. uint16 and uint32 count as int32 and int64, uint64 as int64,
 * because tn_torch_file_tensor converts them. The dtype is TN_DTYPE_NONE for
 * one that Tenon does not have. If file has no tensor of that path, the calls
 * return TN_DTYPE_NONE, 0 and NULL. The shape is valid while file lives. Cannot
 * fail. */
TN_API tn_dtype tn_torch_file_dtype(const tn_torch_file *file,
                                    const char *name);
TN_API int tn_torch_file_ndim(const tn_torch_file *file, const char *name);
TN_API const int64_t *tn_torch_file_shape(const tn_torch_file *file,
                                          const char *name);
/* Returns whether two tensors shared a storage when they were saved, as tied
 * weights do. Cannot fail. */
TN_API bool tn_torch_file_is_alias(const tn_torch_file *file, const char *a,
                                   const char *b);

/* Reads the tensor of that path to the current device: a contiguous copy, which
 * shares no memory with other tensors, even if it did when it was saved. It is
 * a leaf that requires no gradient. The open scope owns the result. Returns NULL
 * with TN_ERR_ARGUMENT if there is no tensor of that path, TN_ERR_DTYPE if Tenon
 * does not have its dtype or a uint64 is above 2^63 - 1, TN_ERR_FORMAT if its
 * storage is missing, too small or damaged, TN_ERR_IO if the file cannot be read
 * or was written to since it was opened, or TN_ERR_MEMORY if memory runs out. */
TN_API tn_tensor *tn_torch_file_tensor(tn_torch_file *file, const char *name);

/* ---- other values --------------------------------------------------------- */

/* Kinds of values. */
enum {
    TN_TORCH_ABSENT = 0, /* there is no such path */
    TN_TORCH_TENSOR = 1,
    TN_TORCH_NONE = 2,
    TN_TORCH_BOOL = 3,
    TN_TORCH_INT = 4,
    TN_TORCH_REAL = 5,
    TN_TORCH_TEXT = 6,  /* a string, a dtype ("torch.float32"), a layout
                           ("torch.strided") or a device */
    TN_TORCH_BYTES = 7,
    TN_TORCH_LIST = 8,  /* a list, tuple, set, torch.Size or complex number */
    TN_TORCH_DICT = 9
};

/* Return the number of values that are not tensors, lists and dicts included,
 * and the path of value i in the order of the tree, or NULL if i is out of
 * range. The path is valid while file lives. Cannot fail. */
TN_API int tn_torch_file_value_count(const tn_torch_file *file);
TN_API const char *tn_torch_file_value_name(const tn_torch_file *file, int i);
/* Return the kind of the value at a path, and its length: the number of items
 * of a list or dict, or of bytes of a string (of other values: 0). Cannot
 * fail. */
TN_API int tn_torch_file_kind(const tn_torch_file *file, const char *name);
TN_API int64_t tn_torch_file_length(const tn_torch_file *file,
                                    const char *name);

/* Store the number at a path in *out. tn_torch_file_int reads integers and
 * bools, tn_torch_file_real reads floating-point numbers, too. On failure *out
 * is unchanged. Fail with TN_ERR_ARGUMENT if there is no such path, or
 * TN_ERR_DTYPE if the value has another kind. */
TN_API tn_status tn_torch_file_int(const tn_torch_file *file,
                                   const char *name, int64_t *out);
TN_API tn_status tn_torch_file_real(const tn_torch_file *file,
                                    const char *name, double *out);
/* Returns the string or the bytes at a path, followed by a NUL;
 * tn_torch_file_length returns their length, since they may contain NULs. Valid
 * while file lives. Returns NULL with TN_ERR_ARGUMENT if there is no such path,
 * or TN_ERR_DTYPE if the value has another kind. */
TN_API const char *tn_torch_file_text(const tn_torch_file *file,
                                      const char *name);

/* ---- modules -------------------------------------------------------------- */

/* Reads parameters and buffers into the existing tensors of module, as
 * tn_module_load (nn.h) does for safetensors files.
 *
 *   prefix   only tensors whose paths begin with prefix are used, without it:
 *            "model." for the state_dict under the key "model"
 *   strict, rename, report   as for tn_module_load
 *
 *     tn_torch_file_load_module(file, net, .prefix = "state_dict.",
 *                               .rename = (tn_rename[]){{"module.", ""},
 *                                                       {NULL, NULL}});
 *
 * On failure nothing is changed. Errors are those of tn_module_load and
 * tn_torch_file_tensor. TN_ERR_ARGUMENT also if no path begins with prefix. The
 * tensors are collected in host memory first, so it must have space for a copy
 * of them. */
#define TN_TORCH_FILE_LOAD_MODULE_OPTIONS_LIST(X)                             \
    X(const char *, prefix, "")                                               \
    X(bool, strict, true)                                                     \
    X(const tn_rename *, rename, NULL)                                        \
    X(tn_module_report **, report, NULL)
TN_OPTIONS_STRUCT(tn_torch_file_load_module,
                  TN_TORCH_FILE_LOAD_MODULE_OPTIONS_LIST);
#define TN_TORCH_FILE_LOAD_MODULE_OPTIONS                                     \
    TN_OPTIONS_DEFAULTS(tn_torch_file_load_module,                            \
                        TN_TORCH_FILE_LOAD_MODULE_OPTIONS_LIST)
TN_API tn_status tn_torch_file_load_module_with(
    tn_torch_file *file, tn_module *module,
    const tn_torch_file_load_module_options *options);

#ifndef __cplusplus
#define tn_torch_file_load_module(...)                                        \
    TN_CALL_2(tn_torch_file_load_module, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_2(tn_status, tn_torch_file_load_module, tn_torch_file *,
              tn_module *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
