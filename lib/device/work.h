/* work.h: a table of the kinds of device work that are not launches or copies
 * of tensors: primitives, such as the matrix product, and extensions. */
#ifndef TN_LIB_DEVICE_WORK_H
#define TN_LIB_DEVICE_WORK_H

#include <device/device.h>

enum {
    TN__WORK_MATMUL,
    TN__WORK_SCATTER,
    TN__WORK_SCAN,
    TN__WORK_SORT,
    TN__WORK_CONV,
    TN__WORK_POOL,
    TN__WORK_PRODUCT,
    TN__WORK_ATTENTION,
    TN__WORK_LAPACK,
    TN__WORK_KINDS,
    TN__WORK_LAUNCH = TN__WORK_KINDS, /* launches and copies have separate
                                       * functions */
    TN__WORK_COPY
};

/* args is the argument struct of the kind, such as tn_matmul_args. */
typedef struct tn__work_kind {
    const char *extension; /* name of the extension; NULL for a primitive */
    size_t bytes, tag;     /* size of args, and offset of the tag in args */
    /* Returns the device's implementation, which is passed to `run`; NULL if
     * the device has none. */
    const void *(*find)(const tn_device *device);
    tn_status (*run)(tn_device *device, const void *found, void *args);
    void (*tally)(tn_device *device, const void *args);
    bool declines; /* the plugin may decline the work; primitives then do it */
    bool recorded; /* the device can capture the work in a replay */
} tn__work_kind;
extern const tn__work_kind tn__work_kinds[TN__WORK_KINDS];

#endif
