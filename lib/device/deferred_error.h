/* deferred_error.h: the data that is stored with a launch for the message of an
 * error that the device reports later. An asynchronous device (a GPU) reports
 * an index out of range long after the launch, when the tensors may be freed.
 * Only launches that read by index or check values (base/guard.h) need this
 * data. It contains numbers and strings of static lifetime, so copying it is
 * safe. The operators (lib/ops) fill it and write the message; launch.c stores
 * it. */
#ifndef TN_LIB_DEVICE_DEFERRED_ERROR_H
#define TN_LIB_DEVICE_DEFERRED_ERROR_H

#include <tenon/error.h>
#include <tenon/plugin.h>

typedef struct tn__deferred_error tn__deferred_error;
struct tn__deferred_error {
    /* Records the error of the operator `name`. The message ends in
     * `suffix`. */
    tn_status (*report)(const tn__deferred_error *error, const tn_fault *fault,
                      const char *name, const char *suffix);
    uint64_t tag; /* tag: sequence number of the launch. launch.c sets tag and
                   * path */
    const tn_path *path;
    const void *kernel;   /* the kernel launched, of static lifetime; NULL if
                           * there is none */
    int ndim;             /* number of dimensions of the iteration space */
    int64_t extent[TN_MAX_NDIM]; /* shape of the iteration space */
    /* The fields below describe the index tensor of the launch. They are set if
     * it is known which operator's argument that tensor is. */
    const char *op;       /* operator that has the argument, such as "gather";
                           * NULL if it is not known */
    const char *argument;
    const char *device;
    tn_dtype dtype;
    int of_ndim;
    int64_t of_shape[TN_MAX_NDIM], of_stride[TN_MAX_NDIM];
    int64_t low;          /* smallest valid index, such as -n if negative
                           * indices count from the end */
    /* If is_placed is set, the launch reads the index for a point of the
     * iteration space from this element of the index tensor's memory: base +
     * sum over d of coordinate[d] * step[d]. */
    bool is_placed;
    int64_t base, step[TN_MAX_NDIM];
};

#endif
