/* <tenon/safetensors_shards.h>: the weights of a large model in several
 * safetensors files and an index, as Hugging Face stores them. Part of
 * libtenon-media.
 *
 *     tn_safetensors_shards_save("llama/model", names, tensors, count,
 *                                .max_shard_bytes = 2000000000);
 *     // llama/model-00001-of-00003.safetensors ...
 *     // llama/model.safetensors.index.json
 *     tn_safetensors_shards *shards =
 *         tn_safetensors_shards_open("llama/model.safetensors.index.json");
 *     tn_tensor *w = tn_safetensors_shards_tensor(shards, "lm_head.weight");
 *
 * While an error is pending (error.h), functions that return a status do
 * nothing and return TN_ERR_STATE. Others work as usual, and the first error
 * stays.
 *
 * Threads: A tn_safetensors_shards does not change. Any thread may read from it.
 */
#ifndef TENON_SAFETENSORS_SHARDS_H
#define TENON_SAFETENSORS_SHARDS_H

#include <tenon/io.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options of tn_safetensors_shards_save:
 *   max_shard_bytes   the most bytes of elements in one file, 5 GB by default.
 *                     A larger tensor gets a file of its own */
#define TN_SAFETENSORS_SHARDS_SAVE_OPTIONS_LIST(X)                            \
    X(int64_t, max_shard_bytes, 5000000000)
TN_OPTIONS_STRUCT(tn_safetensors_shards_save,
                  TN_SAFETENSORS_SHARDS_SAVE_OPTIONS_LIST);
#define TN_SAFETENSORS_SHARDS_SAVE_OPTIONS                                    \
    TN_OPTIONS_DEFAULTS(tn_safetensors_shards_save,                           \
                        TN_SAFETENSORS_SHARDS_SAVE_OPTIONS_LIST)

/* Writes count tensors, in their order, to STEM-00001-of-0000N.safetensors and
 * so on, and STEM.safetensors.index.json with the file of each name and the sum
 * of the bytes (metadata.total_size). Each file has the metadata "format": "pt",
 * which transformers requires. If one file is enough, writes
 * STEM.safetensors and no index.
 *
 * Each file is replaced atomically, and the index is written last. Files of an
 * older save with the same stem that are not part of the new one (shards of
 * another count, an index that is no longer needed) are removed at the end. A
 * program that reads the folder meanwhile may find old and new files mixed: save
 * to a new folder and rename it to avoid that.
 *
 * Fails with TN_ERR_ARGUMENT if max_shard_bytes is less than 1 or more than
 * 99999 files were needed, or as tn_safetensors_save does. options may be
 * NULL. */
TN_API tn_status tn_safetensors_shards_save_with(
    const char *stem, const char *const *names, tn_tensor *const *tensors,
    int count, const tn_safetensors_shards_save_options *options);

typedef struct tn_safetensors_shards tn_safetensors_shards;

/* Opens an index and the files that it names, which must be in its folder.
 * Checks the header of each file, and that each name of the index is in its
 * file. The open scope owns the result. Returns NULL with TN_ERR_IO if a file
 * cannot be read, TN_ERR_FORMAT if the index or a file is invalid, or
 * TN_ERR_MEMORY if memory runs out. */
TN_API tn_safetensors_shards *tn_safetensors_shards_open(const char *path);

/* Return the number of tensors, and the name of tensor i in the order of the
 * index, or NULL if i is out of range. The name is valid while shards lives.
 * Cannot fail. */
TN_API int tn_safetensors_shards_count(const tn_safetensors_shards *shards);
TN_API const char *
tn_safetensors_shards_name(const tn_safetensors_shards *shards, int i);
/* Returns the file that holds a tensor, or NULL if there is no tensor of that
 * name. tn_safetensors_dtype, _shape, _tensor and _read (io.h) read from it.
 * The result is lent: valid while shards lives. Cannot fail. */
TN_API tn_safetensors *
tn_safetensors_shards_of(const tn_safetensors_shards *shards, const char *name);
/* Return the number of files, and file i, or NULL if i is out of range, for
 * programs that read one file after the other:
 *
 *     for (int i = 0; i < tn_safetensors_shards_file_count(shards); i++)
 *         tn_module_load(net, tn_safetensors_path(
 *                                 tn_safetensors_shards_file(shards, i)),
 *                        .strict = false);
 *
 * The file is lent: valid while shards lives. Cannot fail. */
TN_API int
tn_safetensors_shards_file_count(const tn_safetensors_shards *shards);
TN_API tn_safetensors *
tn_safetensors_shards_file(const tn_safetensors_shards *shards, int i);

/* Reads the tensor of that name to the current device. The open scope owns the
 * result. Returns NULL with TN_ERR_ARGUMENT if there is no tensor of that name,
 * or as tn_safetensors_tensor does. */
TN_API tn_tensor *tn_safetensors_shards_tensor(tn_safetensors_shards *shards,
                                               const char *name);

#ifndef __cplusplus
#define tn_safetensors_shards_save(...)                                       \
    TN_CALL_4(tn_safetensors_shards_save, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_4(tn_status, tn_safetensors_shards_save, const char *,
              const char *const *, tn_tensor *const *, int)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
