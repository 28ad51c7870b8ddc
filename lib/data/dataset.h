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

/* The kinds of data set: rows of tensors, a user's class, a range or a
 * selection of another set's samples, windows of a text. */
typedef struct tn__dataset_kind {
    /* Stores the stacked samples of index in fields[]; returns the number of
     * fields, or a negative status. */
    int (*batch)(tn_dataset *set, const int64_t *index, int64_t count,
                 tn_tensor **fields);
    /* Releases what the kind owns; not set itself. */
    void (*release)(tn_dataset *set);
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
            tn_text *text;    /* one reference */
            int64_t length;   /* of a sample */
        } windows;
    } of;
};

/* Is the argument a data set? If not, records an error. */
bool tn__dataset_check(const tn_dataset *set, const char *call);
/* An empty set of that kind, not owned by a scope yet. */
tn_dataset *tn__dataset_new(const tn__dataset_kind *kind, int64_t count);

#endif
