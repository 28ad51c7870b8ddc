/* <tenon/gguf.h>: GGUF files, which hold a language model: metadata and named
 * tensors, often in block-quantised formats. Part of libtenon-lm.
 *
 *     tn_gguf *file = tn_gguf_open("model.gguf");
 *     int64_t layers = 0;
 *     tn_gguf_ints(file, "llama.block_count", &layers, 1);
 *     puts(tn_gguf_text(file, "general.architecture"));
 *     tn_tensor *norm = tn_gguf_tensor(file, "output_norm.weight");
 *     tn_tensor *embedding =
 *         tn_gguf_tensor(file, "token_embd.weight", .dtype = TN_BF16);
 *
 * A file is checked when it is opened: every count, length, offset and size,
 * before memory is taken for it. Messages name the file and the key or the
 * tensor.
 *
 * The file is mapped, not read. Opening a large file is fast, and processes
 * that open the same file share its memory. While a tn_gguf or a tensor of it
 * lives, do not truncate the file and do not write to it: a process that reads
 * a mapped page that is gone gets SIGBUS. Replace a model by renaming a new
 * file over it, as tn_safetensors_save does. A program may write to a tensor
 * of the file: it changes its own copy of the page, never the file.
 *
 * Big-endian files, and versions other than 2 and 3, are rejected. So are files
 * whose tensors overlap or leave the file.
 *
 * Source: the GGUF description, ggml/docs/gguf.md, version 3.
 *
 * Threads: A tn_gguf does not change. Any thread may read from it.
 */
#ifndef TENON_GGUF_H
#define TENON_GGUF_H

#include <tenon/options.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_gguf tn_gguf;

/* Opens a file and checks it. The open scope owns the result. Returns NULL with
 * TN_ERR_IO if the file cannot be read or mapped, TN_ERR_FORMAT if it is
 * malformed, or TN_ERR_MEMORY if memory runs out. */
TN_API tn_gguf *tn_gguf_open(const char *path);
/* Returns the path as it was opened. The string is valid while file lives.
 * Cannot fail. */
TN_API const char *tn_gguf_path(const tn_gguf *file);

/* ---- metadata --------------------------------------------------------- */

/* The types of metadata, with the numbers that files use for them. */
typedef uint32_t tn_gguf_kind;
enum {
    TN_GGUF_U8 = 0,
    TN_GGUF_I8 = 1,
    TN_GGUF_U16 = 2,
    TN_GGUF_I16 = 3,
    TN_GGUF_U32 = 4,
    TN_GGUF_I32 = 5,
    TN_GGUF_F32 = 6,
    TN_GGUF_BOOL = 7,
    TN_GGUF_TEXT = 8,
    TN_GGUF_LIST = 9,
    TN_GGUF_U64 = 10,
    TN_GGUF_I64 = 11,
    TN_GGUF_F64 = 12,
    TN_GGUF_NONE = 13 /* no such key */
};

/* A string within the file. It does not end with a NUL, and may contain NULs.
 * It is not checked for valid UTF-8. Closed: the struct never changes. */
typedef struct tn_gguf_bytes {
    const char *text;
    size_t bytes;
} tn_gguf_bytes;

/* Return the number of keys, and key i in the order of the file, or NULL if i
 * is out of range. The key is valid while file lives. Cannot fail. */
TN_API int64_t tn_gguf_key_count(const tn_gguf *file);
TN_API const char *tn_gguf_key(const tn_gguf *file, int64_t i);
/* Return the type of a key's value, the type of the items of a list (of another
 * value: its own type), and the number of items of a list (of another value:
 * 1). They return TN_GGUF_NONE and 0 if there is no such key. Cannot fail. */
TN_API tn_gguf_kind tn_gguf_kind_of(const tn_gguf *file, const char *key);
TN_API tn_gguf_kind tn_gguf_item_kind(const tn_gguf *file, const char *key);
TN_API int64_t tn_gguf_length(const tn_gguf *file, const char *key);

/* Return the value of a key that is a string or a list of strings. tn_gguf_text
 * returns one string that ends with a NUL. It fails for a string that contains
 * NULs. tn_gguf_texts also reads strings that contain NULs: it returns the
 * items of a list of strings, or the one string, in an array of tn_gguf_length
 * elements. Both results are valid while file lives. The items of a list are
 * not copied. Return NULL with TN_ERR_ARGUMENT if there is no such key, or
 * TN_ERR_DTYPE if the value has another type. */
TN_API const char *tn_gguf_text(const tn_gguf *file, const char *key);
TN_API const tn_gguf_bytes *tn_gguf_texts(const tn_gguf *file,
                                          const char *key);

/* Copy the number or the list of numbers of a key to out, which has room for
 * `count` elements. tn_gguf_ints reads integers and bools, tn_gguf_reals reads
 * floating-point numbers, too. On failure out is unchanged. Fail with
 * TN_ERR_ARGUMENT if there is no such key, count is not tn_gguf_length, or a
 * number does not fit in int64_t, or with TN_ERR_DTYPE if the value has another
 * type. */
TN_API tn_status tn_gguf_ints(const tn_gguf *file, const char *key,
                              int64_t *out, int64_t count);
TN_API tn_status tn_gguf_reals(const tn_gguf *file, const char *key,
                               double *out, int64_t count);

/* ---- tensors ---------------------------------------------------------- */

/* Return the number of tensors, and the name of tensor i in the order of the
 * file, or NULL if i is out of range. The name is valid while file lives.
 * Cannot fail. */
TN_API int64_t tn_gguf_count(const tn_gguf *file);
TN_API const char *tn_gguf_name(const tn_gguf *file, int64_t i);
/* Returns whether there is a tensor of that name. Cannot fail. */
TN_API bool tn_gguf_has(const tn_gguf *file, const char *name);

/* Return a tensor's GGUF type by name ("F32", "Q4_K"), its dtype (TN_F32, or
 * for a block format its code: TN_BLOCK plus GGUF's number of the type), its
 * number of dimensions, its shape in PyTorch's order (GGUF files store it
 * reversed), the address of its elements or blocks in row-major order, and
 * their size. Each row (the last dimension) consists of complete blocks. The
 * dtype is TN_DTYPE_NONE for types that Tenon does not read. If file has no
 * tensor of that name, the calls return NULL, TN_DTYPE_NONE or 0. The pointers
 * are valid while file lives. Cannot fail. */
TN_API const char *tn_gguf_type(const tn_gguf *file, const char *name);
TN_API tn_dtype tn_gguf_dtype(const tn_gguf *file, const char *name);
TN_API int tn_gguf_ndim(const tn_gguf *file, const char *name);
TN_API const int64_t *tn_gguf_shape(const tn_gguf *file, const char *name);
TN_API const void *tn_gguf_data(const tn_gguf *file, const char *name);
TN_API uint64_t tn_gguf_data_bytes(const tn_gguf *file, const char *name);

/* Options of tn_gguf_tensor:
 *   dtype   float32, float16 or bfloat16. Without it, tensors of blocks are
 *           float32, and others have the dtype that they have in the file */
#define TN_GGUF_TENSOR_OPTIONS_LIST(X) X(tn_dtype, dtype, TN_DTYPE_NONE)
TN_OPTIONS_STRUCT(tn_gguf_tensor, TN_GGUF_TENSOR_OPTIONS_LIST);
#define TN_GGUF_TENSOR_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_gguf_tensor, TN_GGUF_TENSOR_OPTIONS_LIST)

/* Returns the tensor of that name on the current device. On the device cpu, a
 * tensor in the dtype of the file shares the memory of the file, which stays
 * mapped while the tensor lives. Other tensors are copied. Blocks are
 * dequantised on the CPU: each weight becomes the float32 number that the
 * format defines, which is then rounded to a narrower dtype. The open scope
 * owns the result. Returns NULL with TN_ERR_ARGUMENT if there is no tensor of
 * that name, TN_ERR_DTYPE if Tenon does not read its type, or TN_ERR_MEMORY if
 * memory runs out. options may be NULL. */
TN_API tn_tensor *tn_gguf_tensor_with(tn_gguf *file, const char *name,
                                      const tn_gguf_tensor_options *options);

/* Returns the blocks of a tensor as uint8, with the bytes of a row in the last
 * dimension, on the current device. On the device cpu they share the memory of
 * the file. tn_quantized_linear multiplies them:
 *
 *     tn_tensor *weight = tn_gguf_blocks(file, "output.weight");
 *     tn_tensor *logits = tn_quantized_linear(
 *         hidden, weight, tn_gguf_type(file, "output.weight"), NULL);
 *
 * Returns NULL like tn_gguf_tensor, and with TN_ERR_DTYPE if the type has no
 * blocks. */
TN_API tn_tensor *tn_gguf_blocks(tn_gguf *file, const char *name);

#ifndef __cplusplus
#define tn_gguf_tensor(...) TN_CALL_2(tn_gguf_tensor, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_2(tn_tensor *, tn_gguf_tensor, tn_gguf *, const char *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
