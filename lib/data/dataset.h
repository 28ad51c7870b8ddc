/* dataset.h: what a loader needs of a data set. */
#ifndef TN_LIB_DATA_DATASET_H
#define TN_LIB_DATA_DATASET_H

#include <base/object.h>
#include <tenon/data.h>

/* So many samples at most, of an epoch or a batch: their numbers, eight bytes
 * each, still have a size. */
#define TN__DATA_MAX (INT64_C(1) << 48)
/* More is refused, in words about `what`, a number of an argument of name. */
tn_status tn__data_check(const char *name, const char *argument,
                         const char *what, int64_t count);

/* The kinds behind one table: rows of tensors, a user's class, a range and a
 * choice of another set's samples, windows of a text. */
typedef struct tn__dataset_kind {
    /* Fills fields[] with the stacked samples of index; how many, or < 0. */
    int (*batch)(tn_dataset *set, const int64_t *index, int64_t count,
                 tn_tensor **fields);
    /* Frees what the kind holds; not set itself. */
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

/* An argument: else the error is recorded. */
bool tn__dataset_check(const tn_dataset *set, const char *call);
/* A set of that kind with nothing in it, not owned by a scope yet. */
tn_dataset *tn__dataset_new(const tn__dataset_kind *kind, int64_t count);

#endif
