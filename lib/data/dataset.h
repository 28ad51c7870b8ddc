/* dataset.h: data sets as loaders see them. A sample consists of fields,
 * usually x and y; fields[] has one tensor for each. A kind of data set is a
 * table of functions. */
#ifndef TN_LIB_DATA_DATASET_H
#define TN_LIB_DATA_DATASET_H

#include <base/object.h>
#include <tenon/data.h>

/* Largest number of samples in an epoch or a batch. The size in bytes of an
 * array of their indices fits size_t. */
#define TN__DATA_MAX (INT64_C(1) << 48)
/* Records an error if count is greater than TN__DATA_MAX. The message names the
 * call, its argument and what was counted (`what`). */
tn_status tn__data_check(const char *name, const char *argument,
                         const char *what, int64_t count);

typedef struct tn__stream tn__stream;

/* A kind of data set: rows of tensors, a user's class, a range or a selection
 * of another set's samples, several sets in a row, windows of a text, or a
 * stream. */
typedef struct tn__dataset_kind {
    /* Stores the stacked samples index[0 .. count - 1] in fields[]. Returns the
     * number of fields, or a negative status. */
    int (*batch)(tn_dataset *set, const int64_t *index, int64_t count,
                 tn_tensor **fields);
    /* Releases the data that this kind of set stores in set->of, but not set
     * itself. */
    void (*release)(tn_dataset *set);
    /* Stores the fields of sample i, without a batch dimension. If NULL, a
     * batch of one sample is made and its rows are used. */
    int (*sample)(tn_dataset *set, int64_t i, tn_tensor **fields);
} tn__dataset_kind;

struct tn_dataset {
    tn__object object;
    const tn__dataset_kind *kind;
    int64_t count;
    union {
        struct {
            tn_tensor *field[TN_MAX_FIELDS]; /* counted references */
            int count;
        } tensors;
        struct {
            tn_dataset_class type;
            void *context;
        } user;
        struct {
            tn_dataset *base; /* counted reference */
            int64_t begin;
        } range;
        struct {
            tn_dataset *base; /* counted reference */
            int64_t *index;   /* owned; indices of samples of base */
        } choice;
        struct {
            tn_dataset **set; /* owned array of counted references */
            int count;
        } concat;
        tn__stream *stream; /* owned; a data set without indices (stream.h) */
        struct {
            tn_text *text;    /* counted reference */
            int64_t length;   /* number of ids in a sample */
        } windows;
    } of;
};

/* Returns whether the argument "set" is a data set. If not, records an
 * error. */
bool tn__dataset_check(const tn_dataset *set, const char *call);
/* Like tn__dataset_check, for an argument of another name. */
bool tn__dataset_check_as(const tn_dataset *set, const char *call,
                          const char *argument);
/* Makes a data set of a kind. The caller fills its union `of`, which is zero.
 * No scope owns the set yet. */
tn_dataset *tn__dataset_new(const tn__dataset_kind *kind, int64_t count);

/* ---- collate.c: a batch of single samples ------------------------------- */

/* Samples from which a batch is made. */
typedef struct tn__samples {
    tn_tensor **tensor; /* owned array; tensor[i * field_count + f] is field f
                           of sample i */
    int64_t *index;     /* owned array; index of each sample, for messages */
    int64_t count;
    int field_count;
} tn__samples;

/* Makes an empty list with space for count samples. */
tn_status tn__samples_make(tn__samples *samples, int64_t count);
void tn__samples_free(tn__samples *samples);
/* Adds a sample. Fails with TN_ERR_ARGUMENT if it does not have as many fields
 * as the first one. */
tn_status tn__samples_add(tn__samples *samples, int64_t index, int field_count,
                          tn_tensor *const *fields);
/* Adds samples index[0 .. count - 1] of a set. With TN_ON_ERROR_SKIP, samples
 * that fail are logged and left out, unless memory runs out or the device fails.
 * Returns the number of fields, or a negative status. */
int tn__samples_fetch(tn__samples *samples, tn_dataset *set,
                      const int64_t *index, int64_t count,
                      tn_on_error on_error);
/* Makes a batch: calls collate, or stacks each field if collate is NULL.
 * Returns the number of fields, or a negative status. */
int tn__samples_collate(const tn__samples *samples, tn_collate collate,
                        void *context, tn_tensor **fields);

/* Stores the fields of sample i in fields[]. Returns their number, or a
 * negative status. */
int tn__dataset_sample(tn_dataset *set, int64_t i, tn_tensor **fields);
/* Makes a batch by stacking single samples. */
int tn__dataset_stack(tn_dataset *set, const int64_t *index, int64_t count,
                      tn_tensor **fields);

#endif
