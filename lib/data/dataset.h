/* dataset.h: what a loader needs of a data set. */
#ifndef TN_LIB_DATA_DATASET_H
#define TN_LIB_DATA_DATASET_H

#include <base/object.h>
#include <tenon/data.h>

/* Greatest number of samples in an epoch or a batch. Their indices, eight bytes
 * each, still have a size that fits size_t. */
#define TN__DATA_MAX (INT64_C(1) << 48)
/* Records an error about `what`, a number in argument `argument` of call
 * `name`, if count is greater. */
tn_status tn__data_check(const char *name, const char *argument,
                         const char *what, int64_t count);

typedef struct tn__stream tn__stream;

/* The kinds of data set: rows of tensors, a user's class, a range or a
 * selection of another set's samples, several sets in a row, windows of a text,
 * a stream. */
typedef struct tn__dataset_kind {
    /* Stores the stacked samples of index in fields[]; returns the number of
     * fields, or a negative status. */
    int (*batch)(tn_dataset *set, const int64_t *index, int64_t count,
                 tn_tensor **fields);
    /* Releases what the kind owns; not set itself. */
    void (*release)(tn_dataset *set);
    /* The fields of sample i, not stacked. NULL: rows of a batch of one. */
    int (*sample)(tn_dataset *set, int64_t i, tn_tensor **fields);
} tn__dataset_kind;

struct tn_dataset {
    tn__object object;
    const tn__dataset_kind *kind;
    int64_t count;
    union {
        struct {
            tn_tensor *field[TN_MAX_FIELDS]; /* one reference each */
            int count;
        } tensors;
        struct {
            tn_dataset_class type;
            void *context;
        } user;
        struct {
            tn_dataset *base; /* one reference */
            int64_t begin;
        } range;
        struct {
            tn_dataset *base; /* one reference */
            int64_t *index;   /* owned; count samples of base */
        } choice;
        struct {
            tn_dataset **set; /* owned array; one reference each */
            int count;
        } concat;
        tn__stream *stream; /* owned */
        struct {
            tn_text *text;    /* one reference */
            int64_t length;   /* of a sample */
        } windows;
    } of;
};

/* Is the argument "set" a data set? If not, records an error. */
bool tn__dataset_check(const tn_dataset *set, const char *call);
/* The same for an argument of another name. */
bool tn__dataset_check_as(const tn_dataset *set, const char *call,
                          const char *argument);
/* An empty set of that kind, not owned by a scope yet. */
tn_dataset *tn__dataset_new(const tn__dataset_kind *kind, int64_t count);

/* ---- collate.c: a batch of single samples ------------------------------- */

/* Samples to be made a batch. */
typedef struct tn__samples {
    tn_tensor **tensor; /* owned array; field f of sample i: i * field_count +
                           f */
    int64_t *index;     /* owned array; numbers of the samples, for messages */
    int64_t count;
    int field_count;
} tn__samples;

/* An empty list with space for count samples. */
tn_status tn__samples_make(tn__samples *samples, int64_t count);
void tn__samples_free(tn__samples *samples);
/* TN_ERR_ARGUMENT if the number of fields differs from that of the first. */
tn_status tn__samples_add(tn__samples *samples, int64_t index, int field_count,
                          tn_tensor *const *fields);
/* Adds samples of a set. Returns the number of fields, or a negative status. */
int tn__samples_fetch(tn__samples *samples, tn_dataset *set,
                      const int64_t *index, int64_t count);
/* Stacks each field, or calls collate unless it is NULL. Returns the number of
 * fields, or a negative status. */
int tn__samples_collate(const tn__samples *samples, tn_collate collate,
                        void *context, tn_tensor **fields);

/* The fields of one sample. Returns their number, or a negative status. */
int tn__dataset_sample(tn_dataset *set, int64_t i, tn_tensor **fields);
/* A batch by stacking single samples. */
int tn__dataset_stack(tn_dataset *set, const int64_t *index, int64_t count,
                      tn_tensor **fields);

#endif
