/* <tenon/data.h>: data sets, loaders, and a progress bar.
 *
 *     tn_dataset *train = tn_dataset_from_tensors(x, y);
 *     tn_loader *loader = tn_loader_new(train, .batch_size = 32,
 *                                       .shuffle = true, .seed = 1);
 *     for (int epoch = 0; epoch < 10; epoch++)
 *         TN_EACH_BATCH(batch, loader) {
 *             ... batch.x, batch.y ...
 *         }
 *
 * Threads: A data set is shared: any thread may take batches from it. A
 * loader's workers do so, so a data set of your own must allow several calls at
 * once. A loader, its batches and a progress bar belong to one thread at a
 * time, the one that runs the loop. A tn_text does not change and is shared.
 */
#ifndef TENON_DATA_H
#define TENON_DATA_H

#include <tenon/options.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- data sets ---------------------------------------------------------- */

#define TN_MAX_FIELDS 8

typedef struct tn_dataset tn_dataset;

/* A data set whose sample i is row i of x and row i of y. Their first sizes are
 * equal (TN_ERR_SHAPE); y may be NULL. Keeps both, without a copy. Owned by the
 * open scope, as all data sets below. */
TN_API tn_dataset *tn_dataset_from_tensors(tn_tensor *x, tn_tensor *y);
/* The same for 1 .. TN_MAX_FIELDS tensors. */
TN_API tn_dataset *tn_dataset_from_fields(tn_tensor *const *fields,
                                          int count);

/* A data set of your own, with `count` samples. get sets fields[] to the
 * tensors of sample i, owned by the open scope, and returns their number, or a
 * negative status with the error set. Samples are stacked into batches. The
 * error's message then begins with the sample: "dataset_batch: sample 17: ...".
 * release(context) is called when the data set is freed; it may be NULL. A
 * loader with workers calls get from several threads at once. Random operators
 * in get use a generator that depends only on the loader's seed, the epoch and
 * the batch. */
typedef struct tn_dataset_class {
    size_t size;
    int64_t count;
    int (*get)(void *context, int64_t i, tn_tensor **fields);
    void (*release)(void *context);
} tn_dataset_class;
TN_API tn_dataset *tn_dataset_new(const tn_dataset_class *type, void *context);

/* A data set without indices: samples come one after another, from a socket or
 * a file that is too long to be indexed. tn_dataset_count is 0. Only a loader
 * reads it: it accepts .batch_size, .drop_last, .workers, .collate, .device,
 * .num_replicas, .rank and .drop_uneven; a shuffled order would need all
 * samples.
 *
 *   begin    starts the samples of an epoch, counted from 0. Returns TN_OK, or a
 *            negative status with the error set.
 *   next     sets fields[] to the tensors of the next sample, owned by the open
 *            scope, and returns their number: 0 after the last sample, or a
 *            negative status with the error set.
 *   release  is called when the data set is freed; it may be NULL.
 *
 * Sharding: begin and next are called by one thread at a time, and batches are
 * taken in their order, so that the samples do not depend on the number of
 * workers. Workers overlap only what follows: collating and copying. Work that
 * should run in parallel belongs into .collate. With .num_replicas, sample i is
 * in the batches of rank i % num_replicas; each loader calls next for all of
 * them. A snapshot restores the position by calling begin, then next for the
 * samples before it. A stream has one loop at a time. Source: IterableDataset. */
typedef struct tn_stream_class {
    size_t size;
    tn_status (*begin)(void *context, uint64_t epoch);
    int (*next)(void *context, tn_tensor **fields);
    void (*release)(void *context);
} tn_stream_class;
TN_API tn_dataset *tn_dataset_from_stream(const tn_stream_class *type,
                                          void *context);

/* A data set from a CSV file, which may be gzipped. The last column is the
 * label, int64; a value that is no integer (1.7) is rejected. The other columns
 * are features, float32 unless .dtype says otherwise. options as in
 * tn_csv_load; .category = -1 for labels that are texts. NULL as for
 * tn_csv_load. */
struct tn_csv_load_options;
TN_API tn_dataset *tn_dataset_from_csv(const char *path,
                                       const struct tn_csv_load_options *options);

/* Samples begin .. end - 1 of set; keeps set. NULL: TN_ERR_ARGUMENT if
 * they are not within the set. */
TN_API tn_dataset *tn_dataset_range(tn_dataset *set, int64_t begin,
                                    int64_t end);

/* The samples of set in a random order that depends on seed only; keeps set. */
TN_API tn_dataset *tn_dataset_shuffle(tn_dataset *set, uint64_t seed);

/* The samples index[0] .. index[count - 1] of set, in that order; an index may
 * be repeated. Copies index, keeps set. NULL: TN_ERR_INDEX. */
TN_API tn_dataset *tn_dataset_subset(tn_dataset *set, const int64_t *index,
                                     int64_t count);

/* The samples of several sets, one set after another; keeps the sets. A batch
 * with samples of two sets stacks them, so their shapes must be equal. Source:
 * ConcatDataset. */
TN_API tn_dataset *tn_dataset_concat(tn_dataset *const *sets, int count);

/* Splits set into count random parts, which depend on seed only, and stores them
 * in out_parts[]. lengths are numbers of samples whose sum is the set's count,
 * or fractions whose sum is 1; samples that are left over by fractions go to the
 * first parts, one each. TN_ERR_ARGUMENT for other lengths. Source:
 * random_split. */
TN_API tn_status tn_dataset_random_split(tn_dataset *set, const double *lengths,
                                         int count, uint64_t seed,
                                         tn_dataset **out_parts);

#define TN_DATASET_K_FOLD_OPTIONS_LIST(X)                                     \
    X(bool, shuffle, false) /* otherwise a fold is a range */                 \
    X(uint64_t, seed, 0)
TN_OPTIONS_STRUCT(tn_dataset_k_fold, TN_DATASET_K_FOLD_OPTIONS_LIST);
#define TN_DATASET_K_FOLD_OPTIONS                                             \
    TN_OPTIONS_DEFAULTS(tn_dataset_k_fold, TN_DATASET_K_FOLD_OPTIONS_LIST)
/* Cross-validation: fold number `fold` of `folds` is the test set, the other
 * samples are the training set. The first count % folds folds have one sample
 * more than the others. TN_ERR_ARGUMENT if folds is below 2 or above the set's
 * count, or fold is out of range. Source: sklearn.model_selection.KFold. */
TN_API tn_status tn_dataset_k_fold_with(tn_dataset *set, int folds, int fold,
                                        tn_dataset **out_train,
                                        tn_dataset **out_test,
                                        const tn_dataset_k_fold_options *options);

/* The number of samples; 0 for NULL. Cannot fail. */
TN_API int64_t tn_dataset_count(const tn_dataset *set);

/* Stacks the samples index[0] .. index[count - 1]: sets fields[] to tensors of
 * shape (count, ...), owned by the open scope, and returns their number.
 * Negative on failure. */
TN_API int tn_dataset_batch(tn_dataset *set, const int64_t *index,
                            int64_t count, tn_tensor **fields);

/* ---- texts ------------------------------------------------------------------
 * A text as token ids, for language models. The vocabulary is the sorted list
 * of the characters in the text; the id of a character is its position there.
 *
 *     tn_text *text = tn_text_load("shakespeare.txt");
 *     tn_dataset *set = tn_dataset_from_text(text, 128);
 */

typedef struct tn_text tn_text;

#define TN_TEXT_LOAD_OPTIONS_LIST(X)                                          \
    X(bool, bytes, false) /* ids of bytes, not of characters */
TN_OPTIONS_STRUCT(tn_text_load, TN_TEXT_LOAD_OPTIONS_LIST);
#define TN_TEXT_LOAD_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_text_load, TN_TEXT_LOAD_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_text_from_string, TN_TEXT_LOAD_OPTIONS_LIST);
#define TN_TEXT_FROM_STRING_OPTIONS                                           \
    TN_OPTIONS_DEFAULTS(tn_text_from_string, TN_TEXT_LOAD_OPTIONS_LIST)

/* Reads a file, which may be gzipped, as UTF-8, or as any bytes with .bytes.
 * Owned by the open scope. NULL: TN_ERR_IO; TN_ERR_FORMAT if it is empty or not
 * UTF-8. */
TN_API tn_text *tn_text_load_with(const char *path,
                                  const tn_text_load_options *options);
/* The same for a string, which is copied. */
TN_API tn_text *tn_text_from_string_with(const char *string,
                                         const tn_text_from_string_options *options);

/* The number of ids in the text; the number of different ids. 0 for NULL.
 * Cannot fail. */
TN_API int64_t tn_text_count(const tn_text *text);
TN_API int tn_text_vocabulary(const tn_text *text);

/* The ids of the whole text: (count), int64. Owned by the open scope. */
TN_API tn_tensor *tn_text_ids(const tn_text *text);
/* The ids of a string: (characters), int64. Owned by the open scope. NULL:
 * TN_ERR_ARGUMENT for a character that is not in the vocabulary. */
TN_API tn_tensor *tn_text_encode(const tn_text *text, const char *string);
/* The string of ids (any shape, an integer dtype, read row-major), in memory
 * from malloc, which you free. NULL: TN_ERR_INDEX, TN_ERR_DTYPE. */
TN_API char *tn_text_decode(const tn_text *text, const tn_tensor *ids);

/* All subsequences of `length` ids, each with the subsequence that begins one
 * id later. Sample i is x = ids[i .. i + length), y = ids[i + 1 .. i + length +
 * 1), both int64. Keeps text. NULL (TN_ERR_ARGUMENT) if the text has at most
 * length ids. */
TN_API tn_dataset *tn_dataset_from_text(tn_text *text, int64_t length);

#ifndef __cplusplus
#define tn_dataset_k_fold(...) TN_CALL_5(tn_dataset_k_fold, __VA_ARGS__, )
#define tn_text_load(...) TN_CALL_1(tn_text_load, __VA_ARGS__, )
#define tn_text_from_string(...) TN_CALL_1(tn_text_from_string, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_5(tn_status, tn_dataset_k_fold, tn_dataset *, int, int,
              tn_dataset **, tn_dataset **)
TN_OVERLOAD_1(tn_text *, tn_text_load, const char *)
TN_OVERLOAD_1(tn_text *, tn_text_from_string, const char *)
extern "C" {
#endif

/* ---- loaders ------------------------------------------------------------ */

typedef struct tn_loader tn_loader;

/* Makes a batch: sets fields[] to its tensors, owned by the open scope, and
 * returns their number, 1 .. TN_MAX_FIELDS, or a negative status with the error
 * set. Field f of sample i is samples[i * field_count + f], lent. Workers call
 * it from several threads at once. */
typedef int (*tn_collate)(tn_tensor *const *samples, int64_t count,
                          int field_count, void *context, tn_tensor **fields);
/* A tn_collate that extends the first dimension of each field to that of the
 * longest sample, at its end, then stacks. context points to a double for each
 * field, the value of the added elements; NULL: 0. Fields without dimensions are
 * stacked. TN_ERR_SHAPE if other dimensions differ. */
TN_API int tn_collate_pad(tn_tensor *const *samples, int64_t count,
                          int field_count, void *context, tn_tensor **fields);

/* The order of samples in an epoch. PyTorch's samplers correspond to:
 *
 *   SequentialSampler        no option
 *   RandomSampler            .shuffle; with .replacement each sample is drawn
 *                            from the whole set; .sample_count of them
 *   SubsetRandomSampler      .order with .shuffle
 *   a sampler of your own    .order
 *   WeightedRandomSampler    .weights, .sample_count; .distinct draws no
 *                            sample twice
 *   DistributedSampler       any of these with .num_replicas and .rank
 *   batches of like lengths  any of these with .lengths
 *
 * The samples drawn depend only on the seed, the epoch number and the position
 * in the epoch. They are the same on every machine, for any number of workers,
 * and for a loader that starts in the middle of an epoch. */

/*   shuffle          a new random order in each epoch
 *   seed             seeds the orders, and the random numbers in a data set of
 *                    your own
 *   drop_last        omits the last batch if it is not full
 *   order            a fixed order: order_count sample indices; copied
 *   workers          threads that make batches in advance; 0: each batch is
 *                    made when it is needed. The batches, their order and their
 *                    bits do not depend on it.
 *   replacement      each sample is drawn from the whole set
 *   weights          draws sample i with probability proportional to
 *                    weights[i], which is 0 or more; weight_count is the set's
 *                    count; copied
 *   distinct         with weights: draws no sample twice in an epoch
 *   sample_count     samples per epoch; none: the set's count. If it is larger
 *                    and samples are shuffled, shuffled orders are concatenated
 *   num_replicas     splits the order among so many loaders; this one is number
 *                    rank, from 0. It has the positions rank,
 *                    rank + num_replicas ...
 *   drop_uneven      makes the loaders' shares equal by omitting the last
 *                    samples; otherwise the first samples are repeated
 *   lengths          the length of each sample; length_count is the set's
 *                    count; copied. The samples of a batch, and of the batches
 *                    that replicas make at the same time, get similar lengths,
 *                    so that padding is short: within every bucket_batches
 *                    batches (of all replicas) samples are sorted by descending
 *                    length. With shuffle, the batches are shuffled afterwards
 *   bucket_batches   1 or more: small for a random order, large for equal
 *                    lengths
 *   collate          makes a batch of single samples, with collate_context; NULL
 *                    stacks them
 *   device           copies batches to this device (tn_to of each field). With
 *                    workers, and an asynchronous device with events (CUDA,
 *                    OpenCL), a batch is copied while the device computes on
 *                    the batch before, from page-locked memory if the device
 *                    has it. A field that the program keeps is not overwritten.
 *                    NULL: batches stay where they are made */
#define TN_LOADER_NEW_OPTIONS_LIST(X)                                         \
    X(int64_t, batch_size, 1)                                                 \
    X(bool, shuffle, false)                                                   \
    X(uint64_t, seed, 0)                                                      \
    X(bool, drop_last, false)                                                 \
    X(const int64_t *, order, NULL)                                           \
    X(int64_t, order_count, 0)                                                \
    X(int, workers, 0)                                                        \
    X(bool, replacement, false)                                               \
    X(const double *, weights, NULL)                                          \
    X(int64_t, weight_count, 0)                                               \
    X(int64_t, sample_count, TN_NONE_INT)                                     \
    X(bool, distinct, false)                                                  \
    X(int, num_replicas, 1)                                                   \
    X(int, rank, 0)                                                           \
    X(bool, drop_uneven, false)                                               \
    X(tn_device *, device, NULL)                                              \
    X(const int64_t *, lengths, NULL)                                         \
    X(int64_t, length_count, 0)                                               \
    X(int64_t, bucket_batches, 50)                                            \
    X(tn_collate, collate, NULL)                                              \
    X(void *, collate_context, NULL)
TN_OPTIONS_STRUCT(tn_loader_new, TN_LOADER_NEW_OPTIONS_LIST);
#define TN_LOADER_NEW_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_loader_new, TN_LOADER_NEW_OPTIONS_LIST)

/* Owned by the open scope; keeps set. NULL: TN_ERR_ARGUMENT for options that
 * are out of range or contradict each other; TN_ERR_INDEX for an order with an
 * index outside of the set. */
TN_API tn_loader *tn_loader_new_with(tn_dataset *set,
                                     const tn_loader_new_options *options);
/* The number of batches in an epoch; 0 for NULL and for a stream, whose end is
 * not known. Cannot fail. */
TN_API int64_t tn_loader_count(const tn_loader *loader);

/* The position of a loader: the next batch, and the values that another loader
 * must share for the position to be valid. sample_count is the number of this
 * loader's samples per epoch. Loaders of all ranks are at the same batch.
 * Closed. */
typedef struct tn_loader_state {
    uint64_t seed, epoch;
    int64_t batch;
    int64_t batch_size, sample_count;
} tn_loader_state;

/* The position of loader; in the body of a loop, the batch after this one.
 * Zeros for NULL. Cannot fail. */
TN_API tn_loader_state tn_loader_snapshot(const tn_loader *loader);
/* Sets the position and the seed: the next loop starts there, perhaps in the
 * middle of an epoch, and gets the same batches as the loader of the snapshot.
 * TN_ERR_STATE during a loop; TN_ERR_ARGUMENT if batch_size or sample_count
 * differ from this loader's, or batch is out of range. */
TN_API tn_status tn_loader_restore(tn_loader *loader, tn_loader_state state);

typedef struct tn_batch {
    size_t size;                       /* of this struct */
    tn_tensor *x, *y;                  /* fields 0 and 1 */
    tn_tensor *field[TN_MAX_FIELDS];
    int field_count;
    int64_t index;                     /* of the batch in the epoch, from 0 */
    uint64_t epoch;                    /* of the loader, from 0 */
    int64_t count;                     /* samples in the batch */
    tn_loader *loader;                 /* kept during the loop; NULL after it */
    tn_scope *scope;                   /* open while the body runs */
} tn_batch;

/* Begins a loop over one epoch of loader, before its first batch. If loader is
 * NULL or was freed (an error), or an error is pending, the loop has ended
 * already. A loader has one loop at a time: beginning a second one ends the
 * first, whose next batch is TN_ERR_STATE. */
static inline tn_batch tn_batch_begin(tn_loader *loader);
/* The same for a struct in which only size is set. */
TN_API void tn_batch_begin_with(tn_batch *batch, tn_loader *loader);
/* Closes the scope of the previous batch, opens one for the next batch and
 * reads it. False if the loop has ended: after the epoch, or because an error
 * is pending. An error in a worker is reported for the batch that it was
 * making. */
TN_API bool tn_batch_next(tn_batch *batch);
/* Ends the loop and closes the scope, for a loop that is left early. Does
 * nothing for NULL or after the end. */
TN_API void tn_batch_end(tn_batch *batch);

/* Runs the statement that follows for each batch of one epoch, each time in a
 * scope of its own. loader is evaluated once. The loop may be left by break,
 * continue, return and goto, but not by longjmp. (gcc and clang; with other
 * compilers call the three functions.) */
#if defined(__GNUC__)
#define TN_EACH_BATCH(batch, loader)                                          \
    for (__attribute__((cleanup(tn_batch_end))) tn_batch batch =              \
             tn_batch_begin(loader);                                          \
         tn_batch_next(&batch);)
#endif
static inline tn_batch tn_batch_begin(tn_loader *loader)
{
    tn_batch batch;
    batch.size = sizeof batch;
    tn_batch_begin_with(&batch, loader);
    return batch;
}

#ifndef __cplusplus
#define tn_loader_new(...) TN_CALL_1(tn_loader_new, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_1(tn_loader *, tn_loader_new, tn_dataset *)
extern "C" {
#endif

/* ---- progress ----------------------------------------------------------- */

/* A progress bar: it is redrawn on a terminal; elsewhere each stage writes one
 * line at its end. It is the only part of the library that writes to a file on
 * its own. Closed; its members are for the library's use. */
typedef struct tn_progress {
    FILE *file;
    int64_t total, done;
    bool terminal;
    double start_s, drawn_s;
    char label[64];
} tn_progress;

/* Begins a stage of `total` steps with a label, "epoch 3/10". */
TN_API void tn_progress_begin(tn_progress *progress, FILE *file,
                              int64_t total, const char *label);
/* Counts one step. note ("loss 0.41") is shown after the bar. */
TN_API void tn_progress_step(tn_progress *progress, const char *note);
/* Ends the stage with a final line. */
TN_API void tn_progress_end(tn_progress *progress, const char *note);

#ifdef __cplusplus
}
#endif
#endif
