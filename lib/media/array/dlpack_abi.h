/* dlpack_abi.h: the structs of DLPack 1.3, as its specification lays them out.
 *
 * This text is our own, so that no header of others is needed. Source:
 * https://dmlc.github.io/dlpack/latest/c_api.html. */
#ifndef TN_MEDIA_ARRAY_DLPACK_ABI_H
#define TN_MEDIA_ARRAY_DLPACK_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { TN__DL_MAJOR = 1, TN__DL_MINOR = 3 };

enum { /* codes of dtypes */
    TN__DL_INT = 0, TN__DL_UINT = 1, TN__DL_FLOAT = 2, TN__DL_BFLOAT = 4,
    TN__DL_BOOL = 6, TN__DL_F8E4M3FN = 10, TN__DL_F8E5M2 = 12
};

enum { TN__DL_CPU = 1 }; /* type of a device */

enum { /* flags */
    TN__DL_READ_ONLY = 1, TN__DL_IS_COPIED = 2
};

typedef struct tn__dl_version {
    uint32_t major, minor;
} tn__dl_version;

typedef struct tn__dl_tensor { /* DLTensor */
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL for row-major before version 1.2 */
    uint64_t byte_offset;
} tn__dl_tensor;

struct DLManagedTensor {
    tn__dl_tensor tensor;
    void *context;
    void (*deleter)(struct DLManagedTensor *self); /* may be NULL */
};

struct DLManagedTensorVersioned {
    tn__dl_version version;
    void *context;
    void (*deleter)(struct DLManagedTensorVersioned *self); /* may be NULL */
    uint64_t flags;
    tn__dl_tensor tensor;
};

struct DLPackExchangeAPI {
    tn__dl_version version;
    struct DLPackExchangeAPI *previous;
    int (*managed_tensor_allocator)(
        tn__dl_tensor *prototype, struct DLManagedTensorVersioned **out,
        void *error_context,
        void (*set_error)(void *error_context, const char *kind,
                          const char *message));
    int (*managed_tensor_from_py_object_no_sync)(
        void *object, struct DLManagedTensorVersioned **out);
    int (*managed_tensor_to_py_object_no_sync)(
        struct DLManagedTensorVersioned *managed, void **out_object);
    int (*dltensor_from_py_object_no_sync)(void *object, tn__dl_tensor *out);
    int (*current_work_stream)(int32_t device_type, int32_t device_id,
                               void **out_stream);
};

#endif
