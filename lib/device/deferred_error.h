/* deferred_error.h: data about a launch that reads by indices or has guards
 * (base/guard.h), for an error that an asynchronous device reports after the
 * launch. It has numbers and texts of static lifetime only. The room that
 * launches fills it and writes the message; launch.c stores it by the launch's
 * tag. */
#ifndef TN_LIB_DEVICE_DEFERRED_ERROR_H
#define TN_LIB_DEVICE_DEFERRED_ERROR_H

#include <tenon/error.h>
#include <tenon/plugin.h>

typedef struct tn__deferred_error tn__deferred_error;
struct tn__deferred_error {
    /* Records the error of operator `name`; the message ends in `suffix`. */
    tn_status (*report)(const tn__deferred_error *error, const tn_fault *fault,
                      const char *name, const char *suffix);
    uint64_t tag;         /* tag and path are set by launch.c */
    const tn_path *path;
    const void *kernel;   /* static lifetime; NULL: of no kernel */
    int ndim;             /* of the iteration space, */
    int64_t extent[TN_MAX_NDIM]; /* and its shape */
    /* The index tensor, if the argument that it comes from is known. */
    const char *op;       /* the operator of the argument; NULL: not known */
    const char *argument;
    const char *device;
    tn_dtype dtype;
    int of_ndim;
    int64_t of_shape[TN_MAX_NDIM], of_stride[TN_MAX_NDIM];
    int64_t low;          /* least valid index; below 0: counted from the end */
    /* The index for a point of the space is element base + sum(coordinate *
     * step) of that argument's memory. */
    bool is_placed;
    int64_t base, step[TN_MAX_NDIM];
};

#endif
