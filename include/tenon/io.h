/* <tenon/io.h>: tensors in files.
 *
 * Weights are stored in safetensors files: a JSON header and raw data, no code.
 * Opening a file reads its header only; a tensor is read when it is needed.
 *
 *     tn_safetensors *file = tn_safetensors_open("model.safetensors");
 *     tn_tensor *w = tn_safetensors_tensor(file, "fc1.weight");
 *
 * Only regular files are read. FIFOs, devices, sockets and folders are rejected
 * (TN_ERR_IO) without waiting. Files are not memory-mapped, so a file that
 * shrinks while it is read is an error, not a SIGBUS.
 *
 * Saving is atomic. The new file is written next to the old one as
 * "<file>.tmp-<machine>-<process>-<number>", synced, and renamed. If the
 * process is killed meanwhile, the old file is intact, and the next save to the
 * same path removes the temporary file. A symbolic link is followed: its target
 * is replaced or created. The new file has the mode of the old one, and its
 * owner and group if the system allows that. If there is no old file, the mode
 * is 0666 less the umask. A path to anything but a regular file is rejected
 * (TN_ERR_IO).
 *
 * Threads: A tn_safetensors does not change; any thread may read tensors from
 * it. The limit of tn_unpack_limit_set applies to all threads.
 */
#ifndef TENON_IO_H
#define TENON_IO_H

#include <tenon/options.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- safetensors ------------------------------------------------------ */

typedef struct tn_safetensors tn_safetensors;

/* Opens a file and checks its whole header: sizes, offsets without gap or
 * overlap, known dtypes, unique names. The file stays open until the result is
 * freed. The open scope owns the result. Returns NULL with TN_ERR_IO if the
 * file cannot be read, TN_ERR_FORMAT if the header is invalid (the message has
 * the mistake and its position), or TN_ERR_MEMORY if memory runs out. Source:
 * the safetensors format description, version 0.4. */
TN_API tn_safetensors *tn_safetensors_open(const char *path);

/* Makes a tn_safetensors whose data is not in one file. header is the JSON of a
 * safetensors file's header, whose tensors cover exactly data_bytes bytes; it is
 * copied and checked as that of a file. path is a name for messages. type is
 * copied. Reading a tensor calls read(context, offset, out, bytes), which puts
 * the bytes at offset of the data into out, or sets an error and returns a
 * negative status; any thread may call it. release(context) is called when the
 * result is freed; it may be NULL. The open scope owns the result. Returns NULL
 * as tn_safetensors_open does; context is then still yours. */
typedef struct tn_safetensors_class {
    size_t size; /* sizeof(tn_safetensors_class) */
    tn_status (*read)(void *context, int64_t offset, void *out, size_t bytes);
    void (*release)(void *context);
} tn_safetensors_class;
TN_API tn_safetensors *tn_safetensors_new(const char *path, const char *header,
                                          int64_t data_bytes,
                                          const tn_safetensors_class *type,
                                          void *context);

/* Returns an object with those tensors and metadata of file whose names begin
 * with prefix, which is removed from their names. This separates objects that
 * were saved in one file. The result holds a reference to file. The open scope
 * owns the result. */
TN_API tn_safetensors *tn_safetensors_part(tn_safetensors *file,
                                           const char *prefix);
/* Returns the path as it was opened. The string is valid while file lives.
 * Cannot fail. */
TN_API const char *tn_safetensors_path(const tn_safetensors *file);
/* Returns the descriptor of the open file, for programs that map it. Stores in
 * *out_data the byte offset at which the elements begin; out_data may be NULL.
 * The descriptor belongs to file: do not close it. Returns -1 if file is NULL or
 * of tn_safetensors_new. Cannot fail otherwise. */
TN_API int tn_safetensors_descriptor(const tn_safetensors *file,
                                     int64_t *out_data);

/* Return the number of tensors, and the name of tensor i, or NULL if i is out
 * of range. Tensors are in the order of their data in the file. The name is
 * valid while file lives. Cannot fail. */
TN_API int tn_safetensors_count(const tn_safetensors *file);
TN_API const char *tn_safetensors_name(const tn_safetensors *file, int i);
/* Returns whether there is a tensor of that name. Cannot fail. */
TN_API bool tn_safetensors_has(const tn_safetensors *file, const char *name);
/* Returns the string that key has in the file's metadata, or NULL if there is
 * none. The string is valid while file lives. */
TN_API const char *tn_safetensors_metadata(const tn_safetensors *file,
                                           const char *key);
/* Returns key i of the metadata, or NULL if i is out of range. The string is
 * valid while file lives. Cannot fail. */
TN_API const char *tn_safetensors_metadata_key(const tn_safetensors *file,
                                               int i);

/* Return the dtype, number of dimensions and shape of a tensor, without reading
 * its elements. The dtype is TN_DTYPE_NONE if Tenon does not have it. If file
 * has no tensor of that name, the calls return TN_DTYPE_NONE, 0 and NULL. The
 * shape is valid while file lives. Cannot fail. */
TN_API tn_dtype tn_safetensors_dtype(const tn_safetensors *file,
                                     const char *name);
TN_API int tn_safetensors_ndim(const tn_safetensors *file, const char *name);
TN_API const int64_t *tn_safetensors_shape(const tn_safetensors *file,
                                           const char *name);

/* Reads the tensor of that name to the current device. The open scope owns the
 * result. Returns NULL with TN_ERR_ARGUMENT if there is no tensor of that name,
 * TN_ERR_DTYPE if Tenon does not have its dtype, TN_ERR_IO if the file cannot
 * be read or was written to since it was opened, or TN_ERR_MEMORY if memory
 * runs out. */
TN_API tn_tensor *tn_safetensors_tensor(tn_safetensors *file,
                                        const char *name);
/* Reads the elements of a tensor to out, in row-major order. bytes is the size
 * of out. Fails with TN_ERR_ARGUMENT if bytes is not numel * element size.
 * Works for dtypes that Tenon does not have, too. After a failure the contents
 * of out are unspecified. */
TN_API tn_status tn_safetensors_read(tn_safetensors *file, const char *name,
                                     void *out, size_t bytes);

/* Writes count tensors with their names, and metadata_count pairs of key and
 * string (0 and NULL for none). On failure the old file is unchanged. Fails
 * with TN_ERR_ARGUMENT if a name is repeated or not UTF-8, TN_ERR_IO if the
 * file cannot be written, TN_ERR_STATE while an error is pending, or
 * TN_ERR_MEMORY if memory runs out. */
TN_API tn_status tn_safetensors_save(const char *path,
                                     const char *const *names,
                                     tn_tensor *const *tensors, int count,
                                     const char *const (*metadata)[2],
                                     int metadata_count);

/* ---- compressed files ----------------------------------------------------
 * IDX, CSV and text files may be gzipped. A gzip file that is truncated,
 * damaged or followed by other data is rejected (TN_ERR_IO). */

/* The largest size in bytes that a gzipped file may unpack to, for all threads.
 * 0 means no limit. At first it is TENON_UNPACK_LIMIT ("4G", or "0"), or else 1
 * GiB. A larger file is rejected (TN_ERR_IO) before it uses more memory. Files
 * that are not gzipped have no limit. tn_unpack_limit returns the limit, or a
 * negative status (TN_ERR_ARGUMENT) if TENON_UNPACK_LIMIT is invalid.
 * tn_unpack_limit_set fails with TN_ERR_ARGUMENT if bytes is negative. */
TN_API int64_t tn_unpack_limit(void);
TN_API tn_status tn_unpack_limit_set(int64_t bytes);

/* ---- files of your own formats -------------------------------------------
 * For code that reads or writes another format. call is the name of your
 * function, with which error messages begin. */

/* Reads a whole regular file, unpacked if it is gzipped, into memory from
 * malloc, which you free. Stores the memory in *out_data and its size in
 * *out_bytes; after a failure both are unchanged. Fails with TN_ERR_IO if the
 * file cannot be read or unpacks to more than tn_unpack_limit bytes, and with
 * TN_ERR_MEMORY if memory runs out. */
TN_API tn_status tn_file_read(const char *path, const char *call,
                              void **out_data, size_t *out_bytes);

/* Replaces the file at path atomically, as described above under "Saving".
 * produce(context, file) writes the contents by tn_file_write, and returns
 * TN_OK or, with an error set, a negative status. The old file is replaced only
 * if produce and every write succeeded. Fails with produce's status, with
 * TN_ERR_IO if the file cannot be written, TN_ERR_STATE while an error is
 * pending, or TN_ERR_MEMORY.
 *
 *     static tn_status put(void *context, tn_file *file)
 *     {
 *         return tn_file_write(file, context, strlen(context));
 *     }
 *     tn_file_replace("note.txt", "note_save", put, text);
 */
typedef struct tn_file tn_file;
typedef tn_status (*tn_file_producer)(void *context, tn_file *file);
TN_API tn_status tn_file_replace(const char *path, const char *call,
                                 tn_file_producer produce, void *context);
/* Appends bytes to the new contents. Fails with TN_ERR_IO. */
TN_API tn_status tn_file_write(tn_file *file, const void *data, size_t bytes);

/* ---- IDX ---------------------------------------------------------------- */

/* Loads the tensor in an IDX file, which may be gzipped: uint8, int8, int16,
 * int32, float32 or float64, as the file says. The tensor is on the current
 * device, and the open scope owns it. Returns NULL with TN_ERR_IO if the file
 * cannot be read, TN_ERR_FORMAT if it is not a valid IDX file, or TN_ERR_MEMORY
 * if memory runs out. Source: Y. LeCun's description of the MNIST files. */
TN_API tn_tensor *tn_idx_load(const char *path);

/* ---- comma-separated values ---------------------------------------------
 * The format is RFC 4180. A quoted cell ("a ""b"", c") may contain delimiters,
 * doubled quotes and ends of lines. Lines end in LF, CR LF or CR. Empty lines,
 * a UTF-8 byte order mark, and blanks and tabs around a cell are ignored.
 *
 * A cell is a number as strtod reads it in the C locale: "1", "-2.5e3", "inf",
 * "nan", "0x1p4". A number that a floating-point dtype cannot represent exactly
 * is rounded once (float16 and narrower types: from float64). A number out of
 * range, or a fraction for an integer dtype, is rejected: 300 and 1.5 as uint8,
 * 1e999 as float32. */

/* Codes for the strings of a column: the first distinct string has code 0, the
 * next one 1, and so on (as in pandas.factorize). The same object may be used
 * for several files, one after another: a string keeps its code, and new
 * strings get the next codes.
 *
 *     tn_categories *kinds = tn_categories_new();
 *     tn_tensor *x = tn_csv_load("iris.csv", .category = -1,
 *                                .categories = kinds);
 *     puts(tn_categories_name(kinds, 0));
 */
typedef struct tn_categories tn_categories;
/* Makes an empty set of categories, which the open scope owns. Returns NULL on
 * failure (TN_ERR_MEMORY). */
TN_API tn_categories *tn_categories_new(void);
/* Return the number of strings, and string i, or NULL if i is out of range. The
 * string is valid while categories lives. Cannot fail. */
TN_API int64_t tn_categories_count(const tn_categories *categories);
TN_API const char *tn_categories_name(const tn_categories *categories,
                                      int64_t i);

/* Options of tn_csv_load:
 *   skip_rows    number of lines to skip, such as a header
 *   empty        value of an empty cell; without it, empty cells are rejected
 *   category     index of a column of strings; -1 is the last column
 *   categories   receives the strings of that column; lent */
#define TN_CSV_LOAD_OPTIONS_LIST(X)                                           \
    X(char, delimiter, ',')                                                   \
    X(int, skip_rows, 0)                                                      \
    X(tn_dtype, dtype, TN_F32)                                                \
    X(double, empty, TN_NONE_FLOAT)                                           \
    X(int64_t, category, TN_NONE_INT)                                         \
    X(tn_categories *, categories, NULL)
TN_OPTIONS_STRUCT(tn_csv_load, TN_CSV_LOAD_OPTIONS_LIST);
#define TN_CSV_LOAD_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_csv_load, TN_CSV_LOAD_OPTIONS_LIST)

/* Loads the numbers of a CSV file, which may be gzipped, as a tensor of shape
 * (rows, columns). The tensor is on the current device, and the open scope owns
 * it. Returns NULL with TN_ERR_IO if the file cannot be read, TN_ERR_FORMAT
 * (with line and column) if its contents are invalid, or TN_ERR_MEMORY if
 * memory runs out. After a failure categories is unchanged. options may be
 * NULL. */
TN_API tn_tensor *tn_csv_load_with(const char *path,
                                   const tn_csv_load_options *options);

#ifndef __cplusplus
#define tn_csv_load(...) TN_CALL_1(tn_csv_load, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_1(tn_tensor *, tn_csv_load, const char *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
