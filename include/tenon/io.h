/* <tenon/io.h>: tensors in files.
 *
 * Weights live in safetensors files: a JSON header and plain bytes, no code.
 * Files are mapped, so opening one of many gigabytes takes milliseconds and
 * only what is touched is read.
 *
 *     tn_safetensors *file = tn_safetensors_open("model.safetensors");
 *     tn_tensor *w = tn_safetensors_tensor(file, "fc1.weight");
 *
 * Threads: A file that was opened does not change, and any thread may read
 * tensors from it. The other calls share nothing but the file system.
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

/* Maps a file and checks its header from end to end: sizes, offsets without
 * gap or overlap, known dtypes, no name twice. The open scope owns the result.
 * NULL: TN_ERR_IO (cannot be read), TN_ERR_FORMAT (what is wrong, and where).
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

/* The tensor of that name on the current device. Where the device uses host
 * memory it is a view on the mapped file (changing it in place changes this
 * process's copy alone); it stays good after the file's object is gone.
 * NULL: TN_ERR_ARGUMENT (no such name), TN_ERR_DTYPE (a dtype we have not). */
TN_API tn_tensor *tn_safetensors_tensor(tn_safetensors *file,
                                        const char *name);

/* Writes tensors under names, with `metadata_count` pairs of key and text (may
 * be 0, NULL). Atomic: written beside path, synced, then renamed. Refused
 * while an error is pending. */
TN_API tn_status tn_safetensors_save(const char *path,
                                     const char *const *names,
                                     tn_tensor *const *tensors, int count,
                                     const char *const (*metadata)[2],
                                     int metadata_count);

/* ---- IDX ---------------------------------------------------------------- */

/* The tensor in an IDX file, which may be gzipped: uint8, int8, int16, int32,
 * float32 or float64, as the file says. NULL: TN_ERR_IO, TN_ERR_FORMAT.
 * Source: Y. LeCun's description of the MNIST files. */
TN_API tn_tensor *tn_idx_load(const char *path);

/* ---- comma-separated values --------------------------------------------- */

#define TN_CSV_LOAD_OPTIONS_LIST(X)                                           \
    X(char, delimiter, ',')                                                   \
    X(int, skip_rows, 0) /* lines before the data, such as a header */        \
    X(tn_dtype, dtype, TN_F32)
TN_OPTIONS_STRUCT(tn_csv_load, TN_CSV_LOAD_OPTIONS_LIST);
#define TN_CSV_LOAD_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_csv_load, TN_CSV_LOAD_OPTIONS_LIST)

/* A (rows, columns) tensor of the numbers in a text file, which may be
 * gzipped. Empty lines are passed over. NULL: TN_ERR_IO, TN_ERR_FORMAT with
 * line and column. options may be NULL. */
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
