/* dlpack.h: declarations that the parts of DLPack share. */
#ifndef TN_MEDIA_ARRAY_DLPACK_H
#define TN_MEDIA_ARRAY_DLPACK_H

#include <media/array/dlpack_abi.h>
#include <tenon/dlpack.h>

/* Describes the memory of x. shape and strides are lent by x. */
tn_status tn__dlpack_describe(tn_tensor *x, tn__dl_tensor *out,
                              const char *call);
/* Returns the dtype of a description, or records that Tenon does not have it. */
tn_dtype tn__dlpack_dtype(const tn__dl_tensor *tensor, const char *call);
struct DLManagedTensorVersioned *
tn__dlpack_lend(tn_tensor *x, uint64_t flags, const char *call);
tn_tensor *tn__dlpack_take(struct DLManagedTensorVersioned *managed, bool copy,
                           const char *call);

#endif
