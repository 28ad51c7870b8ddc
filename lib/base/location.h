/* location.h: the operator and the module that a thread is running. Errors
 * report them, and tensors and blocks of memory record them as their origin.
 *
 * Operator and module are pointers that are pushed and popped, which costs two
 * stores for each operator. */
#ifndef TN_LIB_BASE_LOCATION_H
#define TN_LIB_BASE_LOCATION_H

#include <tenon/error.h>

/* An operator that is running. The struct is the first member of tn__call
 * (ops), so that a pointer to it can be converted to the call. */
typedef struct tn__running_op {
    const char *name; /* name of the operator, of static lifetime */
    const struct tn__running_op *outer;
} tn__running_op;

struct tn__location {
    const tn__running_op *running; /* innermost running operator; NULL if
                                    * none */
    const tn_path *path;    /* path of the module that runs; NULL if none */
};

/* Returns the name of the outermost running operator, which is the operator
 * that the program called; NULL if none is running. */
const char *tn__outermost_op(void);

#endif
