/* deferred_error.h: data for the message of an error that an asynchronous
 * device reports after the launch. Only launches that read by indices or have
 * guards (base/guard.h) need it. The data has numbers and texts of static
 * lifetime only. The folder `ops` fills it and writes the message; launch.c
 * stores it under the launch's tag. */
#ifndef TN_LIB_DEVICE_DEFERRED_ERROR_H
#define TN_LIB_DEVICE_DEFERRED_ERROR_H

#include <tenon/error.h>
#include <tenon/plugin.h>

typedef struct tn__deferred_error tn__deferred_error;
struct tn__deferred_error {
    /* Records the error of operator `name`. The message ends in `suffix`. */
    tn_status (*report)(const tn__deferred_error *error, const tn_fault *fault,
                      const char *name, const char *suffix);
    uint64_t tag;         /* launch.c sets tag and path */
    const tn_path *path;
    const void *kernel;   /* static lifetime; NULL if there is no kernel */
    int ndim;             /* number of dimensions of the iteration space */
    int64_t extent[TN_MAX_NDIM]; /* shape of the iteration space */
    /* The index tensor. Its fields are set if the operator's argument that it
     * comes from is known. */
    const char *op;       /* operator that has the argument; NULL if the
                           * argument is not known */
    const char *argument;
    const char *device;
    tn_dtype dtype;
    int of_ndim;
    int64_t of_shape[TN_MAX_NDIM], of_stride[TN_MAX_NDIM];
    int64_t low;          /* least valid index; negative indices count from the
                           * end */
    /* If is_placed is set, the index used at a point of the iteration space is
     * element base + sum(coordinate * step) of that argument's memory. */
    bool is_placed;
    int64_t base, step[TN_MAX_NDIM];
};

#endif
