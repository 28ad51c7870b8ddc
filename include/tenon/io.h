/* <tenon/io.h>: tensors in files.
 *
 * Weights live in safetensors files: a JSON header and plain bytes, no code.
 * Opening one of many gigabytes reads its header alone, and a tensor is read
 * when it is asked for.
 *
 *     tn_safetensors *file = tn_safetensors_open("model.safetensors");
 *     tn_tensor *w = tn_safetensors_tensor(file, "fc1.weight");
 *
 * Reading takes regular files. FIFOs, devices, sockets and folders are refused
 * (TN_ERR_IO) and never waited for. No file is mapped: one that becomes shorter
 * while it is read is an error, and no SIGBUS.
 *
 * Saving is atomic: the new file is written beside the old one under the name
 * "<file>.tmp-<machine>-<process>-<number>", synced, and renamed. A process
 * that is killed meanwhile leaves the old file whole, and that other one, which
 * the next call that saves to the same path removes. A symbolic link is
 * followed: the file that it leads to is replaced, or made. The new file has
 * the old one's mode, and its owner and group where the system allows that;
 * where there was none, 0666 less the umask. What is no regular file is
 * refused.
 *
 * Threads: A tn_safetensors does not change, and any thread may read tensors
 * from it. The other calls share the file system, and tn_unpack_limit_set.
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

/* Opens a file and checks its header from end to end: sizes, offsets without
 * gap or overlap, known dtypes, no name twice. It stays open as long as the
 * result, which the open scope owns. NULL: TN_ERR_IO (cannot be read),
 * TN_ERR_FORMAT (what is wrong, and where), TN_ERR_MEMORY.
 * Source: the safetensors format description, version 0.4. */
TN_API tn_safetensors *tn_safetensors_open(const char *path);

/* The tensors and metadata of file whose names begin with prefix, under the
 * rest of their names: what was put into one file from several places comes
 * apart again. Keeps file; owned by the open scope. */
TN_API tn_safetensors *tn_safetensors_part(tn_safetensors *file,
                                           const char *prefix);
/* As it was opened. Lent. Cannot fail. */
TN_API const char *tn_safetensors_path(const tn_safetensors *file);

/* How many tensors; name i in the order of their data (lent, good while the
 * file is open; NULL outside). Cannot fail. */
TN_API int tn_safetensors_count(const tn_safetensors *file);
TN_API const char *tn_safetensors_name(const tn_safetensors *file, int i);
/* Is there a tensor of that name? Cannot fail. */
TN_API bool tn_safetensors_has(const tn_safetensors *file, const char *name);
/* The text under key in the file's metadata; NULL if there is none. Lent. */
TN_API const char *tn_safetensors_metadata(const tn_safetensors *file,
                                           const char *key);

/* Dtype, number of dimensions and sizes (lent, good while the file is open) of
 * the tensor of that name, without reading it. TN_DTYPE_NONE if there is none
 * of that name, or it has a dtype we have not; 0 and NULL if there is none.
 * Cannot fail. */
TN_API tn_dtype tn_safetensors_dtype(const tn_safetensors *file,
                                     const char *name);
TN_API int tn_safetensors_ndim(const tn_safetensors *file, const char *name);
TN_API const int64_t *tn_safetensors_shape(const tn_safetensors *file,
                                           const char *name);

/* The tensor of that name, read to the current device; owned by the open
 * scope. NULL: TN_ERR_ARGUMENT (no such name), TN_ERR_DTYPE (a dtype we have
 * not), TN_ERR_IO (cannot be read, or the file was written to since it was
 * opened), TN_ERR_MEMORY. */
TN_API tn_tensor *tn_safetensors_tensor(tn_safetensors *file,
                                        const char *name);
/* The same elements, row-major, into out, which has room for `bytes`:
 * TN_ERR_ARGUMENT if that is not numel * element size. A dtype that we have not
 * can be read so. Errors leave out unspecified. */
TN_API tn_status tn_safetensors_read(tn_safetensors *file, const char *name,
                                     void *out, size_t bytes);

/* Writes tensors under names, with `metadata_count` pairs of key and text (may
 * be 0, NULL). On failure the old file is as it was: TN_ERR_ARGUMENT (a name
 * that is given twice or is no UTF-8), TN_ERR_IO, TN_ERR_MEMORY. Refused while
 * an error is pending (TN_ERR_STATE). */
TN_API tn_status tn_safetensors_save(const char *path,
                                     const char *const *names,
                                     tn_tensor *const *tensors, int count,
                                     const char *const (*metadata)[2],
                                     int metadata_count);

/* ---- compressed files ----------------------------------------------------
 * IDX, CSV and text files may be gzipped. One that is cut off, damaged or
 * followed by something else is refused (TN_ERR_IO). */

/* The most bytes that one gzipped file may unpack to, for all threads from now
 * on; 0: no limit. At first that is TENON_UNPACK_LIMIT ("4G"; 0), or else 1
 * GiB. A longer one is refused (TN_ERR_IO) before it takes more memory. Plain
 * files have no limit. TN_ERR_ARGUMENT if bytes is negative. tn_unpack_limit
 * gives it; negative, with TN_ERR_ARGUMENT, if TENON_UNPACK_LIMIT is no number
 * of bytes. */
TN_API int64_t tn_unpack_limit(void);
TN_API tn_status tn_unpack_limit_set(int64_t bytes);

/* ---- IDX ---------------------------------------------------------------- */

/* The tensor in an IDX file, which may be gzipped: uint8, int8, int16, int32,
 * float32 or float64, as the file says. NULL: TN_ERR_IO, TN_ERR_FORMAT.
 * Source: Y. LeCun's description of the MNIST files. */
TN_API tn_tensor *tn_idx_load(const char *path);

/* ---- comma-separated values ---------------------------------------------
 * As RFC 4180 has it: a cell may stand in quotes ("a ""b"", c"), and then hold
 * delimiters, quotes (doubled) and ends of lines. Lines end in LF, CR LF or CR;
 * empty ones are passed over, and so is a byte order mark of UTF-8. Blanks and
 * tabs around a cell do not count.
 *
 * A cell is a number as strtod reads it in the C locale: "1", "-2.5e3", "inf",
 * "nan", "0x1p4". It is exact, or rounded once where dtype has not all of its
 * digits; what dtype has no room for is refused: 300 and 1.5 as uint8, 1e999 as
 * float32. (float16 and narrower ones are rounded from float64.) */

/* Texts as numbers, for a column of them: the text that appears first is 0, the
 * next other one 1, and so on (as in pandas.factorize). The same categories may
 * be given for several files, one after the other: a name has one number in all
 * of them, and new names come behind.
 *
 *     tn_categories *kinds = tn_categories_new();
 *     tn_tensor *x = tn_csv_load("iris.csv", .category = -1,
 *                                .categories = kinds);
 *     puts(tn_categories_name(kinds, 0));
 */
typedef struct tn_categories tn_categories;
/* None yet. The open scope owns it. */
TN_API tn_categories *tn_categories_new(void);
/* How many; name i (lent, good while the categories live; NULL outside). Cannot
 * fail. */
TN_API int64_t tn_categories_count(const tn_categories *categories);
TN_API const char *tn_categories_name(const tn_categories *categories,
                                      int64_t i);

#define TN_CSV_LOAD_OPTIONS_LIST(X)                                           \
    X(char, delimiter, ',')                                                   \
    X(int, skip_rows, 0) /* lines before the data, such as a header */        \
    X(tn_dtype, dtype, TN_F32)                                                \
    X(double, empty, TN_NONE_FLOAT) /* an empty cell's value; none: refused */ \
    X(int64_t, category, TN_NONE_INT) /* a column of texts; -1: the last */   \
    X(tn_categories *, categories, NULL) /* takes the names; lent */
TN_OPTIONS_STRUCT(tn_csv_load, TN_CSV_LOAD_OPTIONS_LIST);
#define TN_CSV_LOAD_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_csv_load, TN_CSV_LOAD_OPTIONS_LIST)

/* A (rows, columns) tensor of the numbers in a text file, which may be
 * gzipped. NULL: TN_ERR_IO, TN_ERR_FORMAT with line and column, TN_ERR_MEMORY;
 * categories are as they were then. options may be NULL. */
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
