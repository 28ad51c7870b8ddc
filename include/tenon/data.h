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
 * Threads: Any thread may take batches from a data set. A loader's workers do
 * so at the same time, so the functions of your own data set must be
 * thread-safe. A loader, its batches and a progress bar belong to one thread at
 * a time, the one that runs the loop. A tn_text does not change, so threads may
 * share it. */
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

/* A data set whose sample i is row i of x and row i of y. The first sizes of x
 * and y must be equal, else the result is NULL with TN_ERR_SHAPE. y may be
 * NULL. The data set holds references to the tensors, without a copy. The open
 * scope owns it, and all data sets below. */
TN_API tn_dataset *tn_dataset_from_tensors(tn_tensor *x, tn_tensor *y);
/* A data set whose sample i consists of row i of each of 1 .. TN_MAX_FIELDS
 * tensors, its fields. Otherwise like tn_dataset_from_tensors. */
TN_API tn_dataset *tn_dataset_from_fields(tn_tensor *const *fields,
                                          int count);

/* A data set of your own, with `count` samples. type is copied, so it may be a
 * local variable. get sets fields[] to the tensors of sample i, owned by the
 * open scope, and returns their number. On failure it sets an error and returns
 * a negative status; the message then gets the prefix "dataset_batch: sample
 * 17: ". Samples are stacked into batches. release(context) is called when the
 * data set is freed; it may be NULL. A loader with workers calls get from
 * several threads at once. Random operators in get use a generator that depends
 * only on the loader's seed, the epoch and the batch. */
typedef struct tn_dataset_class {
    size_t size;
    int64_t count;
    int (*get)(void *context, int64_t i, tn_tensor **fields);
    void (*release)(void *context);
} tn_dataset_class;
TN_API tn_dataset *tn_dataset_new(const tn_dataset_class *type, void *context);

/* A data set without indices: samples come one after another, for example from
 * a socket. tn_dataset_count is 0. Only a loader can read it. That loader
 * accepts .batch_size, .drop_last, .workers, .collate, .device, .num_replicas,
 * .rank and .drop_uneven, but no option that changes the order.
 *
 *   begin    starts the samples of an epoch, counted from 0. Returns TN_OK, or
 *            a negative status with the error set.
 *   next     sets fields[] to the tensors of the next sample, owned by the open
 *            scope, and returns their number: 0 after the last sample, or a
 *            negative status with the error set.
 *   release  is called when the data set is freed; it may be NULL.
 *
 * begin and next are called by one thread at a time, and batches are read in
 * their order, so the samples do not depend on the number of workers. Workers
 * run only collating and copying in parallel, so put expensive work into
 * .collate. With .num_replicas, the loader of each rank reads all samples, and
 * selects sample i if i % num_replicas is its rank. To restore a position, the
 * loader calls begin, then next for the samples before the position. A stream
 * has one loop at a time. Source: IterableDataset. */
typedef struct tn_stream_class {
    size_t size;
    tn_status (*begin)(void *context, uint64_t epoch);
    int (*next)(void *context, tn_tensor **fields);
    void (*release)(void *context);
} tn_stream_class;
TN_API tn_dataset *tn_dataset_from_stream(const tn_stream_class *type,
                                          void *context);

/* A data set from a CSV file, which may be gzipped. The last column is the
 * label, int64; a value that is not an integer (1.7) is rejected. The other
 * columns are features, float32 unless .dtype says otherwise. options are those
 * of tn_csv_load; .category = -1 accepts labels that are strings. Fails for the
 * reasons of tn_csv_load. */
struct tn_csv_load_options;
TN_API tn_dataset *tn_dataset_from_csv(const char *path,
                                       const struct tn_csv_load_options *options);

/* A data set of the samples begin .. end - 1 of set. It holds a reference to
 * set. Returns NULL with TN_ERR_ARGUMENT if they are not within the set. */
TN_API tn_dataset *tn_dataset_range(tn_dataset *set, int64_t begin,
                                    int64_t end);

/* A data set of the samples of set in a random order that depends on seed only.
 * It holds a reference to set. */
TN_API tn_dataset *tn_dataset_shuffle(tn_dataset *set, uint64_t seed);

/* A data set of the samples index[0] .. index[count - 1] of set, in that order;
 * an index may be repeated. It has a copy of index and holds a reference to
 * set. Returns NULL with TN_ERR_INDEX if an index is out of range. */
TN_API tn_dataset *tn_dataset_subset(tn_dataset *set, const int64_t *index,
                                     int64_t count);

/* A data set of the samples of several sets, one set after another. It holds
 * references to the sets. If a batch has samples of two sets, their shapes must
 * be equal. Source: ConcatDataset. */
TN_API tn_dataset *tn_dataset_concat(tn_dataset *const *sets, int count);

/* Splits set into count random parts, which depend on seed only, and stores
 * them in out_parts[]. lengths are numbers of samples whose sum is the set's
 * count, or fractions whose sum is 1. Fractions are rounded down to numbers of
 * samples, and each of the first parts gets one of the remaining samples. Fails
 * with TN_ERR_ARGUMENT for other lengths. Source: random_split. */
TN_API tn_status tn_dataset_random_split(tn_dataset *set, const double *lengths,
                                         int count, uint64_t seed,
                                         tn_dataset **out_parts);

#define TN_DATASET_K_FOLD_OPTIONS_LIST(X)                                     \
    X(bool, shuffle, false) /* false: each fold is a range of indices */      \
    X(uint64_t, seed, 0)
TN_OPTIONS_STRUCT(tn_dataset_k_fold, TN_DATASET_K_FOLD_OPTIONS_LIST);
#define TN_DATASET_K_FOLD_OPTIONS                                             \
    TN_OPTIONS_DEFAULTS(tn_dataset_k_fold, TN_DATASET_K_FOLD_OPTIONS_LIST)
/* Cross-validation: splits the set into `folds` parts of about equal size. Part
 * `fold`, counted from 0, is the test set; the other samples are the training
 * set. With n samples, the first n % folds parts have one sample more. Fails
 * with TN_ERR_ARGUMENT if folds is below 2 or above the set's count, or fold is
 * out of range. Source: sklearn.model_selection.KFold. */
TN_API tn_status tn_dataset_k_fold_with(tn_dataset *set, int folds, int fold,
                                        tn_dataset **out_train,
                                        tn_dataset **out_test,
                                        const tn_dataset_k_fold_options *options);

/* The number of samples; 0 for NULL. Cannot fail. */
TN_API int64_t tn_dataset_count(const tn_dataset *set);

/* Stacks the samples index[0] .. index[count - 1] into a batch: sets fields[]
 * to tensors of shape (count, ...), owned by the open scope, and returns their
 * number, or a negative status on failure. */
TN_API int tn_dataset_batch(tn_dataset *set, const int64_t *index,
                            int64_t count, tn_tensor **fields);

/* ---- texts ------------------------------------------------------------------
 * A text as token ids, for language models. The vocabulary is the sorted list
 * of the characters in the text; the id of a character is its index in this
 * list.
 *
 *     tn_text *text = tn_text_load("shakespeare.txt");
 *     tn_dataset *set = tn_dataset_from_text(text, 128);
 */

typedef struct tn_text tn_text;

#define TN_TEXT_LOAD_OPTIONS_LIST(X)                                          \
    X(bool, bytes, false) /* an id for each byte, not for each character */
TN_OPTIONS_STRUCT(tn_text_load, TN_TEXT_LOAD_OPTIONS_LIST);
#define TN_TEXT_LOAD_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_text_load, TN_TEXT_LOAD_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_text_from_string, TN_TEXT_LOAD_OPTIONS_LIST);
#define TN_TEXT_FROM_STRING_OPTIONS                                           \
    TN_OPTIONS_DEFAULTS(tn_text_from_string, TN_TEXT_LOAD_OPTIONS_LIST)

/* Reads a file, which may be gzipped, as UTF-8, or as bytes with .bytes. The
 * open scope owns the result. Returns NULL with TN_ERR_IO if the file cannot be
 * read, with TN_ERR_FORMAT if it is empty or not UTF-8. */
TN_API tn_text *tn_text_load_with(const char *path,
                                  const tn_text_load_options *options);
/* Like tn_text_load, but from a string, which is copied. */
TN_API tn_text *tn_text_from_string_with(const char *string,
                                         const tn_text_from_string_options *options);

/* Return the number of ids in the text, and the number of different ids. 0 for
 * NULL. Cannot fail. */
TN_API int64_t tn_text_count(const tn_text *text);
TN_API int tn_text_vocabulary(const tn_text *text);

/* The ids of the whole text: (count), int64. Owned by the open scope. */
TN_API tn_tensor *tn_text_ids(const tn_text *text);
/* The ids of the characters of a string: (characters), int64. The open scope
 * owns the result. Returns NULL with TN_ERR_ARGUMENT for a character that is
 * not in the vocabulary. */
TN_API tn_tensor *tn_text_encode(const tn_text *text, const char *string);
/* The string that ids represent, in memory from malloc, which you free. ids has
 * an integer dtype and any shape, and is read in row-major order. Returns NULL
 * with TN_ERR_INDEX for an unknown id, with TN_ERR_DTYPE if ids are not
 * integers. */
TN_API char *tn_text_decode(const tn_text *text, const tn_tensor *ids);

/* All subsequences of `length` ids, each with the subsequence that begins one
 * id later. Sample i is x = ids[i .. i + length), y = ids[i + 1 .. i + length +
 * 1), both int64. Holds a reference to text. Returns NULL with TN_ERR_ARGUMENT
 * if the text has at most length ids. */
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

/* Makes a batch from count samples: sets fields[] to its tensors, owned by the
 * open scope, and returns their number, 1 .. TN_MAX_FIELDS. On failure it sets
 * an error and returns a negative status. Field f of sample i is samples[i *
 * field_count + f], lent. Workers call it from several threads at once. */
typedef int (*tn_collate)(tn_tensor *const *samples, int64_t count,
                          int field_count, void *context, tn_tensor **fields);
/* A tn_collate that pads each field of a sample at the end of its first
 * dimension to the length of the longest sample, then stacks the samples.
 * context points to one double for each field, the value of the padding; NULL
 * means 0. Fields without dimensions are stacked. Fails with TN_ERR_SHAPE if
 * other dimensions differ. */
TN_API int tn_collate_pad(tn_tensor *const *samples, int64_t count,
                          int field_count, void *context, tn_tensor **fields);

/* The order of samples in an epoch. PyTorch's samplers correspond to:
 *
 *   SequentialSampler        no option
 *   RandomSampler            .shuffle, .replacement and .sample_count
 *   SubsetRandomSampler      .order with .shuffle
 *   a sampler of your own    .order
 *   WeightedRandomSampler    .weights, .sample_count; .distinct draws no
 *                            sample twice
 *   DistributedSampler       any option above with .num_replicas and .rank
 *   batches of like lengths  any option above with .lengths
 *
 * The samples drawn depend only on the seed, the epoch number and the position
 * in the epoch. They are the same on every machine, for any number of workers,
 * and for a loader that starts in the middle of an epoch. */

/* What a loader does with a sample that fails. */
typedef enum tn_on_error {
    TN_ON_ERROR_FAIL = 0,
    TN_ON_ERROR_SKIP = 1
} tn_on_error;

/* Options of tn_loader_new:
 *
 *   shuffle          a new random order in each epoch
 *   seed             seeds the orders, and the random numbers in a data set of
 *                    your own
 *   drop_last        omits the last batch if it is not full
 *   order            a fixed order: order_count sample indices; copied
 *   workers          threads that make batches in advance; 0: each batch is
 *                    made when it is needed. The batches, their order and their
 *                    bits do not depend on the number of workers.
 *   replacement      draws each sample from the whole set, so samples repeat
 *   weights          draws sample i with probability proportional to
 *                    weights[i], which is 0 or more; weight_count is the set's
 *                    count; copied
 *   distinct         with weights: draws no sample twice in an epoch
 *   sample_count     samples per epoch, by default the set's count. If it is
 *                    larger and samples are shuffled, the epoch consists of
 *                    several permutations
 *   num_replicas     number of loaders among which the order is split. This
 *                    loader has the positions rank + i num_replicas for i = 0,
 *                    1, ...
 *   rank             index of this loader, from 0
 *   drop_uneven      makes the loaders' shares equal by omitting the last
 *                    samples; otherwise the first samples are repeated
 *   shards           a multiple of num_replicas: the parts of a step's samples
 *                    (tn_ddp_shards of <tenon/parallel.h>); 0: num_replicas.
 *                    This loader has shards / num_replicas neighbouring ones,
 *                    and gives a batch for each of them in turn. The batch of a
 *                    shard does not depend on num_replicas: shard s has the
 *                    positions s + i shards
 *   lengths          the length of each sample; length_count is the set's
 *                    count; copied. Samples of similar length are put into one
 *                    batch, so that padding is short: within each run of
 *                    bucket_batches batches (of all replicas together), samples
 *                    are sorted by descending length. With shuffle, the batches
 *                    are shuffled afterwards
 *   bucket_batches   1 or more. Small values keep the order more random, large
 *                    values make the lengths in a batch more equal
 *   collate          makes a batch of single samples, with collate_context.
 *                    NULL stacks them
 *   on_error         TN_ON_ERROR_FAIL: a sample that fails ends the loop with
 *                    its error. TN_ON_ERROR_SKIP: the batch has no such sample,
 *                    tn_loader_skipped counts it, and one line with its error is
 *                    logged (tn_log_set). If no sample of a batch is left, the
 *                    loop goes on with the next batch; if none of the epoch is
 *                    left, it ends with TN_ERR_STATE. TN_ERR_MEMORY and
 *                    TN_ERR_DEVICE end the loop always
 *   device           copies batches to this device (tn_to of each field). With
 *                    workers, and an asynchronous device with events (CUDA,
 *                    OpenCL), a batch is copied while the device computes on
 *                    the batch before, from page-locked memory if the device
 *                    has it. A field that the program keeps (tn_keep) is not
 *                    overwritten. NULL: batches stay where they are made */
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
    X(void *, collate_context, NULL)                                          \
    X(tn_on_error, on_error, TN_ON_ERROR_FAIL)                                \
    X(int64_t, shards, 0)
TN_OPTIONS_STRUCT(tn_loader_new, TN_LOADER_NEW_OPTIONS_LIST);
#define TN_LOADER_NEW_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_loader_new, TN_LOADER_NEW_OPTIONS_LIST)

/* Makes a loader, which the open scope owns and which holds a reference to set.
 * Returns NULL with TN_ERR_ARGUMENT for options that are out of range or
 * contradict each other, with TN_ERR_INDEX if order has an index outside of the
 * set. */
TN_API tn_loader *tn_loader_new_with(tn_dataset *set,
                                     const tn_loader_new_options *options);
/* The number of batches in the current epoch; 0 for NULL and for a stream, whose
 * end is not known. Cannot fail. */
TN_API int64_t tn_loader_count(const tn_loader *loader);
/* Returns the number of samples that .on_error = TN_ON_ERROR_SKIP omitted in the
 * current epoch up to the current batch; after a loop, in its whole epoch. After
 * tn_loader_restore, samples before the restored batch are not counted. 0 for
 * NULL. Cannot fail. */
TN_API int64_t tn_loader_skipped(const tn_loader *loader);

/* The position of a loader: its seed, the epoch and the next batch. It can be
 * restored in a loader with the same batch_size and the same sample_count, the
 * number of the loader's samples per epoch. The loaders of all ranks are at the
 * same batch. Closed. */
typedef struct tn_loader_state {
    uint64_t seed, epoch;
    int64_t batch;
    int64_t batch_size, sample_count;
} tn_loader_state;

/* Returns the position of loader. In the body of a loop, that is the batch
 * after the current one. Zeros for NULL. Cannot fail. In an epoch that
 * tn_loader_seek began between two batches, batch_size is 0, and only
 * tn_loader_tell describes the position. */
TN_API tn_loader_state tn_loader_snapshot(const tn_loader *loader);
/* Sets the position and the seed. The next loop starts there, perhaps in the
 * middle of an epoch, and gets the same batches as the loader of the snapshot.
 * Fails with TN_ERR_STATE during a loop, and with TN_ERR_ARGUMENT if batch_size
 * or sample_count differ from this loader's, or batch is out of range. */
TN_API tn_status tn_loader_restore(tn_loader *loader, tn_loader_state state);

/* The position of all loaders of a job, which share an order: `sample` samples
 * of the epoch have been taken, of `sample_count`. unit is the number of samples
 * of a step: batch_size times the number of shards, or of replicas. Closed. */
typedef struct tn_loader_position {
    uint64_t seed, epoch;
    int64_t sample, sample_count, unit;
} tn_loader_position;

/* Returns the position of the job's loaders: the first sample of the next step.
 * With shards, a step of which some shards were taken counts as not taken.
 * Zeros for NULL. Cannot fail.
 *
 *     tn_loader_seek(loader, tn_loader_tell(of_another_job));
 */
TN_API tn_loader_position tn_loader_tell(const tn_loader *loader);
/* Sets the position and the seed. The loader may have another batch_size, and
 * another number of replicas or shards, than the one of the position: the rest
 * of the epoch is divided anew, and no sample is repeated or left out, but for
 * what drop_last, drop_uneven and the last step do. Fails with TN_ERR_STATE
 * during a loop, and with TN_ERR_ARGUMENT if the number of samples in an epoch
 * differs, or if unit differs and the loader has lengths, whose order depends on
 * it, or reads a stream. */
TN_API tn_status tn_loader_seek(tn_loader *loader,
                                tn_loader_position position);

typedef struct tn_batch {
    size_t size;                       /* sizeof(tn_batch) */
    tn_tensor *x, *y;                  /* fields 0 and 1 */
    tn_tensor *field[TN_MAX_FIELDS];
    int field_count;
    int64_t index;                     /* index in the epoch, from 0 */
    uint64_t epoch;                    /* index of the epoch, from 0 */
    int64_t count;                     /* samples in the batch */
    tn_loader *loader;                 /* kept during the loop; NULL after it */
    tn_scope *scope;                   /* open while the loop body runs */
} tn_batch;

/* Begins a loop over one epoch of loader; tn_batch_next then gets the first
 * batch. The loop has no batches if loader is NULL, if it was freed (which
 * records an error), or if an error is pending. A loader has one loop at a
 * time: a second loop ends the first, whose next tn_batch_next fails with
 * TN_ERR_STATE. */
static inline tn_batch tn_batch_begin(tn_loader *loader);
/* Does the work of tn_batch_begin. The caller has set batch->size only. */
TN_API void tn_batch_begin_with(tn_batch *batch, tn_loader *loader);
/* Closes the scope of the previous batch, opens one for the next batch and
 * reads that batch. Returns false at the end of the epoch or if an error is
 * pending. An error in a worker is reported with the batch that it was
 * making. */
TN_API bool tn_batch_next(tn_batch *batch);
/* Ends the loop and closes the scope, for a loop that is left early. Does
 * nothing for NULL or after the end. */
TN_API void tn_batch_end(tn_batch *batch);

/* Runs the statement that follows for each batch of one epoch, each time in a
 * scope of its own. loader is evaluated once. The loop may be left by break,
 * continue, return and goto, but not by longjmp. (For gcc and clang; with other
 * compilers call the three functions above.) */
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

/* Shows how far a long task is, its speed and the time that is left.
 *
 *     tn_progress bar;
 *     tn_progress_begin(&bar, stderr, steps, "epoch 3/10");
 *     for (...)
 *         tn_progress_step(&bar, "loss 0.41");
 *     tn_progress_end(&bar, "loss 0.40");
 *
 * On a terminal, one line is redrawn in place, at most 20 times a second:
 *
 *     epoch 3/10 [############............]  50% 120/240, 41.2/s, 0:03 left loss 0.41
 *
 * Elsewhere (a file, a pipe) lines are written at the end of each stage, and
 * every half minute of a longer one. The struct is closed; its members are for
 * the library's use. */
typedef struct tn_progress {
    FILE *file;
    int64_t total, done;
    bool terminal;
    double start_s, shown_s; /* times of the begin and of the last line */
    int64_t shown;           /* steps done at the last line */
    double step_s;           /* moving average of the time of a step */
    char label[64];
} tn_progress;

/* Begins a stage of `total` steps with a label, "epoch 3/10". If the number of
 * steps is not known, total is 0: then only the steps done and the speed are
 * shown. file NULL means stderr. Does nothing if progress is NULL. */
TN_API void tn_progress_begin(tn_progress *progress, FILE *file,
                              int64_t total, const char *label);
/* Counts one step. note ("loss 0.41") is shown after the bar. */
TN_API void tn_progress_step(tn_progress *progress, const char *note);
/* Ends the stage with a line of its time in seconds and its speed. */
TN_API void tn_progress_end(tn_progress *progress, const char *note);

#ifdef __cplusplus
}
#endif
#endif
