/* location.h: the operator and the module that a thread is running. Errors
 * report it, and tensors and blocks of memory record it as their origin.
 *
 * Both are pointers that are pushed and popped: two stores for each
 * operator. */
#ifndef TN_LIB_BASE_LOCATION_H
#define TN_LIB_BASE_LOCATION_H

#include <tenon/error.h>

/* An operator that is running. It is the first member of tn__call (ops), so
 * that a pointer to it can be converted to the call. */
typedef struct tn__running_op {
    const char *name; /* static lifetime */
    const struct tn__running_op *outer;
} tn__running_op;

struct tn__location {
    const tn__running_op *running; /* the innermost; NULL: none */
    const tn_path *path;    /* of the module that runs; NULL: none */
};

/* Name of the outermost running operator, which is the one that the program
 * called; NULL if none is running. */
const char *tn__outermost_op(void);

#endif
