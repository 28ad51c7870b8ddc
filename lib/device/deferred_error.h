/* deferred_error.h: what is known of a launch that reads by indices or asks whether it
 * may go on, for an error that is told when the launch has long been over:
 * numbers, and texts that live for ever. Filled by who launches, and by that
 * room put into words; kept here by the launch's tag. */
#ifndef TN_LIB_DEVICE_DEFERRED_ERROR_H
#define TN_LIB_DEVICE_DEFERRED_ERROR_H

#include <tenon/error.h>
#include <tenon/plugin.h>

typedef struct tn__deferred_error tn__deferred_error;
struct tn__deferred_error {
    /* Records the error of operator name, in words that end in `suffix`. */
    tn_status (*report)(const tn__deferred_error *error, const tn_fault *fault,
                      const char *name, const char *suffix);
    uint64_t tag;         /* set, as the path of the module, when it is kept */
    const tn_path *path;
    const void *kernel;   /* lent for ever; NULL: of no kernel */
    int ndim;             /* of the space of the launch, */
    int64_t extent[TN_MAX_NDIM]; /* and its shape */
    /* The indices, where it is known who gave them. */
    const char *op;       /* whose argument they are; NULL: not known */
    const char *argument;
    const char *device;
    tn_dtype dtype;
    int of_ndim;
    int64_t of_shape[TN_MAX_NDIM], of_stride[TN_MAX_NDIM];
    int64_t low;          /* below 0: those from low on count from the end */
    /* In memory, the index of a point of the space is element base + the sum of
     * coordinate * step of that argument. */
    bool is_placed;
    int64_t base, step[TN_MAX_NDIM];
};

#endif
