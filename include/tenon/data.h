/* <tenon/data.h>: data sets, loaders, and a bar that shows how far it is.
 *
 *     tn_dataset *train = tn_dataset_from_tensors(x, y);
 *     tn_loader *loader = tn_loader_new(train, .batch_size = 32,
 *                                       .shuffle = true, .seed = 1);
 *     for (int epoch = 0; epoch < 10; epoch++)
 *         TN_EACH_BATCH(batch, loader) {
 *             ... batch.x, batch.y ...
 *         }
 *
 * Threads: A data set is shared: any thread may take batches of it, and
 * workers do, so that functions of your own must bear several calls at once. A
 * loader, its batches and a bar of progress belong to one thread at a time,
 * the one that runs the loop. A text does not change and is shared.
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

/* Rows of tensors that share their first size: sample i is row i of each
 * field. y may be NULL. Keeps both; copies nothing. NULL: TN_ERR_SHAPE. */
TN_API tn_dataset *tn_dataset_from_tensors(tn_tensor *x, tn_tensor *y);
/* The same for any number (1 .. TN_MAX_FIELDS) of fields. */
TN_API tn_dataset *tn_dataset_from_fields(tn_tensor *const *fields,
                                          int count);

/* A data set of your own: get(i) makes the fields of sample i (owned by the
 * open scope) and returns how many, or a negative status with the error set;
 * samples are stacked into batches. context is yours; release(context) is
 * called when the set goes, and may be NULL. A loader with workers calls get
 * from several threads at once. Random operators in it draw from a stream that
 * depends on the loader's seed, the epoch and the batch alone. */
typedef struct tn_dataset_class {
    size_t size;
    int64_t count;
    int (*get)(void *context, int64_t i, tn_tensor **fields);
    void (*release)(void *context);
} tn_dataset_class;
TN_API tn_dataset *tn_dataset_new(const tn_dataset_class *type, void *context);

/* A CSV file (may be gzipped): the last column is the label (int64, and exact:
 * 1.7 is refused), the others are features (of dtype, float32). options as in
 * tn_csv_load; .category = -1 for labels that are texts. */
struct tn_csv_load_options;
TN_API tn_dataset *tn_dataset_from_csv(const char *path,
                                       const struct tn_csv_load_options *options);

/* Samples [begin, end) of set; keeps it. */
TN_API tn_dataset *tn_dataset_range(tn_dataset *set, int64_t begin,
                                    int64_t end);

/* The samples of set in an order that depends on seed alone; keeps set. */
TN_API tn_dataset *tn_dataset_shuffle(tn_dataset *set, uint64_t seed);

/* The samples of set with those numbers, in that order, repeats allowed; copies
 * index, keeps set. NULL: TN_ERR_INDEX. */
TN_API tn_dataset *tn_dataset_subset(tn_dataset *set, const int64_t *index,
                                     int64_t count);

/* Samples; 0 for NULL. Cannot fail. */
TN_API int64_t tn_dataset_count(const tn_dataset *set);

/* The samples of that index, stacked: fills fields[], returns how many. The
 * open scope owns them. */
TN_API int tn_dataset_batch(tn_dataset *set, const int64_t *index,
                            int64_t count, tn_tensor **fields);

/* ---- texts ------------------------------------------------------------------
 * A text as numbers, for language models: the characters that occur in it,
 * sorted, are its vocabulary, and a character's id is its place there.
 *
 *     tn_text *text = tn_text_load("shakespeare.txt");
 *     tn_dataset *set = tn_dataset_from_text(text, 128);
 */

typedef struct tn_text tn_text;

#define TN_TEXT_LOAD_OPTIONS_LIST(X)                                          \
    X(bool, bytes, false) /* ids stand for bytes, not characters */
TN_OPTIONS_STRUCT(tn_text_load, TN_TEXT_LOAD_OPTIONS_LIST);
#define TN_TEXT_LOAD_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_text_load, TN_TEXT_LOAD_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_text_from_string, TN_TEXT_LOAD_OPTIONS_LIST);
#define TN_TEXT_FROM_STRING_OPTIONS                                           \
    TN_OPTIONS_DEFAULTS(tn_text_from_string, TN_TEXT_LOAD_OPTIONS_LIST)

/* A file of UTF-8 (of anything with .bytes), which may be gzipped. NULL:
 * TN_ERR_IO; TN_ERR_FORMAT where it is empty or no UTF-8. */
TN_API tn_text *tn_text_load_with(const char *path,
                                  const tn_text_load_options *options);
/* The same of a text in memory, which is copied. */
TN_API tn_text *tn_text_from_string_with(const char *string,
                                         const tn_text_from_string_options *options);

/* Ids in the text; different ones among them. 0 for NULL. Cannot fail. */
TN_API int64_t tn_text_count(const tn_text *text);
TN_API int tn_text_vocabulary(const tn_text *text);

/* The whole text's ids: (count), int64. */
TN_API tn_tensor *tn_text_ids(const tn_text *text);
/* The ids of a string: (characters), int64. NULL: TN_ERR_ARGUMENT for a
 * character that the vocabulary lacks. */
TN_API tn_tensor *tn_text_encode(const tn_text *text, const char *string);
/* The string that ids (any shape, whole numbers, row-major) stand for, in
 * malloc'ed memory (yours to free). NULL: TN_ERR_INDEX, TN_ERR_DTYPE. */
TN_API char *tn_text_decode(const tn_text *text, const tn_tensor *ids);

/* Every stretch of `length` ids, and the one that begins an id later: sample i
 * is x = ids[i .. i + length), y = ids[i + 1 .. i + length + 1), both int64.
 * Keeps text. NULL (TN_ERR_ARGUMENT) if the text has no more than length. */
TN_API tn_dataset *tn_dataset_from_text(tn_text *text, int64_t length);

#ifndef __cplusplus
#define tn_text_load(...) TN_CALL_1(tn_text_load, __VA_ARGS__, )
#define tn_text_from_string(...) TN_CALL_1(tn_text_from_string, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_1(tn_text *, tn_text_load, const char *)
TN_OVERLOAD_1(tn_text *, tn_text_from_string, const char *)
extern "C" {
#endif

/* ---- loaders ------------------------------------------------------------ */

typedef struct tn_loader tn_loader;

/* Which samples an epoch has, in which order. PyTorch's samplers are
 *
 *   SequentialSampler        nothing
 *   RandomSampler            .shuffle; with .replacement each sample is drawn
 *                            from the whole set; .sample_count of them
 *   SubsetRandomSampler      .order with .shuffle
 *   a sampler of your own    .order
 *   WeightedRandomSampler    .weights, .sample_count; .distinct draws no
 *                            sample twice
 *   DistributedSampler       any of these with .num_replicas and .rank
 *
 * What is drawn depends on the seed, the epoch's number and the place in the
 * epoch alone: the same on every machine, for any number of workers and for a
 * loader that begins in the middle of an epoch. */

/*   shuffle          a new order in each epoch, from seed and epoch
 *   seed             the same seed gives the same orders, everywhere, and the
 *                    same random numbers to a function of your own that makes
 *                    samples
 *   drop_last        leaves out a last batch that is not full
 *   order            a fixed order of your own, of order_count samples; copied
 *   workers          threads that make batches ahead of their use; 0: each is
 *                    made when it is asked for. Batches, their order and their
 *                    bits are the same.
 *   replacement      each sample is drawn from the whole set
 *   weights          the same, sample i as often as weights[i] (at least 0)
 *                    says; weight_count of them, one for each sample; copied
 *   distinct         by weights, but no sample twice in an epoch
 *   sample_count     drawn in an epoch; none: the set's count. Shuffled orders
 *                    of more follow each other
 *   num_replicas     the order is dealt out to so many loaders, of which this
 *                    is number rank, from 0: it has the places rank,
 *                    rank + num_replicas ...
 *   drop_uneven      all have as many by leaving out the last ones; else by
 *                    having the first ones again
 *   device           batches are copied to this device (tn_to of each field).
 *                    With workers, and a device that works by itself and has
 *                    events (CUDA, OpenCL), they are copied while it works on
 *                    the batch before, from page-locked memory where it has
 *                    such; a field that is kept stays as it is.
 *                    NULL: they stay where they are made */
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
    X(tn_device *, device, NULL)
TN_OPTIONS_STRUCT(tn_loader_new, TN_LOADER_NEW_OPTIONS_LIST);
#define TN_LOADER_NEW_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_loader_new, TN_LOADER_NEW_OPTIONS_LIST)

/* Keeps set. NULL: TN_ERR_ARGUMENT for options that contradict each other or
 * are out of range; TN_ERR_INDEX for an order with what is no sample. */
TN_API tn_loader *tn_loader_new_with(tn_dataset *set,
                                     const tn_loader_new_options *options);
/* Batches in an epoch. */
TN_API int64_t tn_loader_count(const tn_loader *loader);

/* Where a loader stands: the batch that it gives next, and the numbers that say
 * whether it means the same to another loader. sample_count is of its own
 * samples in an epoch; loaders of other ranks stand at the same batch.
 * Closed. */
typedef struct tn_loader_state {
    uint64_t seed, epoch;
    int64_t batch;
    int64_t batch_size, sample_count;
} tn_loader_state;

/* In the body of a loop: the batch after this one. Zeros for NULL. Cannot
 * fail. */
TN_API tn_loader_state tn_loader_snapshot(const tn_loader *loader);
/* The next loop begins there, in the middle of an epoch perhaps, and sees what
 * the other loader would have seen. TN_ERR_STATE while a loop is running;
 * TN_ERR_ARGUMENT if the state is of other batches. */
TN_API tn_status tn_loader_restore(tn_loader *loader, tn_loader_state state);

typedef struct tn_batch {
    size_t size;                       /* of this struct */
    tn_tensor *x, *y;                  /* fields 0 and 1 */
    tn_tensor *field[TN_MAX_FIELDS];
    int field_count;
    int64_t index;                     /* of the batch in its epoch, from 0 */
    uint64_t epoch;                    /* of the loader, from 0 */
    int64_t count;                     /* samples in it */
    tn_loader *loader;                 /* kept while the loop runs; NULL once
                                          it has ended */
    tn_scope *scope;                   /* open while the body runs */
} tn_batch;

/* Begins a loop over one epoch of loader: the batch before its first. Without a
 * loop, an ended one: for NULL or a loader that is gone, which is an error, and
 * where an error is pending. One loop at a time goes over a loader: a second
 * one that begins ends the first, whose next batch is TN_ERR_STATE. */
static inline tn_batch tn_batch_begin(tn_loader *loader);
/* The same in a struct whose size is set, and in which nothing else is. */
TN_API void tn_batch_begin_with(tn_batch *batch, tn_loader *loader);
/* Closes the scope of the batch before, opens one for the next and fills it.
 * False at the epoch's end, and when an error is pending: then the loop has
 * ended. An error in a worker is reported for the batch that it spoils. */
TN_API bool tn_batch_next(tn_batch *batch);
/* Closes the scope and ends the epoch, for a loop that is left early. Twice is
 * fine, and so is NULL. */
TN_API void tn_batch_end(tn_batch *batch);

/* Runs the statement that follows for each batch of one epoch, inside a scope
 * of its own. loader is evaluated once. May be left by break, continue, return
 * and goto, not by longjmp. (gcc and clang; others call the three
 * functions.) */
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

/* How far a long job is: a bar that is redrawn on a terminal, else a line each
 * time a stage ends. It writes to the file it is given, nothing else does.
 * Closed; what it holds is the library's. */
typedef struct tn_progress {
    FILE *file;
    int64_t total, done;
    bool terminal;
    double start_s, drawn_s;
    char label[64];
} tn_progress;

/* Begins a stage of `total` steps: "epoch 3/10". */
TN_API void tn_progress_begin(tn_progress *progress, FILE *file,
                              int64_t total, const char *label);
/* One more step is done; note ("loss 0.41") stands behind the bar. */
TN_API void tn_progress_step(tn_progress *progress, const char *note);
/* Ends the stage with one line that stays. */
TN_API void tn_progress_end(tn_progress *progress, const char *note);

#ifdef __cplusplus
}
#endif
#endif
