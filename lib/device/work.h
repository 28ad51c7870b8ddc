/* work.h: the kinds of device work other than launches of programs and copies.
 * A primitive, such as the matrix product, is a function that every plugin has.
 * An extension, such as convolution, is optional. */
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
    TN__WORK_QUANTISED_PRODUCT,
    TN__WORK_EPILOGUE,
    TN__WORK_KINDS,
    /* Launches and copies have functions of their own, so they are not in the
     * table. */
    TN__WORK_LAUNCH = TN__WORK_KINDS,
    TN__WORK_COPY
};

/* One kind of work. In its functions, args is the argument struct of the kind,
 * such as tn_matmul_args. */
typedef struct tn__work_kind {
    const char *extension; /* name of the extension that contains it; NULL for a
                            * primitive */
    size_t bytes, tag;     /* size of the argument struct, and offset of its
                            * field `tag`, in bytes */
    /* Returns the device's function table for this kind, which is then passed
     * to `run`. Returns NULL if the device has none. */
    const void *(*find)(const tn_device *device);
    tn_status (*run)(tn_device *device, const void *found, void *args);
    void (*tally)(tn_device *device, const void *args);
    bool declines; /* true if the plugin may decline the work; other operators
                    * then do it */
    bool recorded; /* true if the device can capture the work in a graph */
} tn__work_kind;
extern const tn__work_kind tn__work_kinds[TN__WORK_KINDS];
/* The kind of work of each kind of epilogue (TN_EPILOGUE_...). */
extern const uint8_t tn__epilogue_work[TN_EPILOGUE_END];

#endif
