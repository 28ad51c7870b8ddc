/* location.h: what a thread is doing and where, for whoever has to tell it: errors,
 * and the origins of tensors and of memory.
 *
 * What and where are pointers that are pushed and popped, so that knowing them
 * costs an operator two stores. */
#ifndef TN_LIB_BASE_LOCATION_H
#define TN_LIB_BASE_LOCATION_H

#include <tenon/error.h>

/* An operator that is running. Lies in the struct of its call, so that who
 * knows that struct finds it. */
typedef struct tn__running_op {
    const char *name; /* lives for ever */
    const struct tn__running_op *outer;
} tn__running_op;

struct tn__location {
    const tn__running_op *running; /* the innermost; NULL: none */
    const tn_path *path;    /* of the module that runs; NULL: none */
};

/* The outermost operator that is running: the one that the program knows; NULL
 * if none is. */
const char *tn__outermost_op(void);

#endif
