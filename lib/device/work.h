/* work.h: the kinds of work that a device is given besides programs and copies,
 * one table: primitives and extensions alike. */
#ifndef TN_LIB_DEVICE_WORK_H
#define TN_LIB_DEVICE_WORK_H

#include <device/device.h>

/* A piece of work. */
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
    TN__WORK_LAUNCH = TN__WORK_KINDS, /* these have calls of their own */
    TN__WORK_COPY
};

/* args: of the kind, tn_matmul_args and so on. */
typedef struct tn__work_kind {
    const char *extension; /* its name; NULL: a primitive */
    size_t bytes, tag;     /* of args; where their tag is */
    /* What the device has it by; NULL: nothing. */
    const void *(*find)(const tn_device *device);
    tn_status (*run)(tn_device *device, const void *found, void *args);
    void (*tally)(tn_device *device, const void *args);
    bool declines; /* may be refused, and is done by primitives then */
    bool recorded; /* may be part of what a device records itself */
} tn__work_kind;
extern const tn__work_kind tn__work_kinds[TN__WORK_KINDS];

#endif
