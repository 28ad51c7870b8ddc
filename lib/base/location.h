/* location.h: which operator and which module a thread is running. Error
 * messages name them, and tensors and blocks of memory record them as their
 * origin.
 *
 * Entering an operator or a module changes two pointers, so it costs almost
 * nothing. */
#ifndef TN_LIB_BASE_LOCATION_H
#define TN_LIB_BASE_LOCATION_H

#include <tenon/error.h>

/* An operator that is running, in a list from the innermost to the outermost.
 * The struct is the first member of tn__call (lib/ops), so a pointer to it can
 * be converted to a pointer to the call. */
typedef struct tn__running_op {
    const char *name; /* the operator's name, of static lifetime */
    const struct tn__running_op *outer;
} tn__running_op;

struct tn__location {
    const tn__running_op *running; /* the innermost operator that is running;
                                    * NULL if none is */
    const tn_path *path;    /* path of the module that is running; NULL if none
                             * is */
};

/* Returns the name of the outermost running operator, which is the one that the
 * program called. Returns NULL if no operator is running. */
const char *tn__outermost_op(void);

#endif
