/* host.h: elements in host memory: their memory, byte order and conversion, and
 * tensors made of them. */
#ifndef TN_MEDIA_ARRAY_HOST_H
#define TN_MEDIA_ARRAY_HOST_H

#include <tenon/tensor.h>

/* Records that memory ran out and returns TN_ERR_MEMORY. */
tn_status tn__array_no_memory(const char *call);

/* Returns memory for elements, aligned to 64 bytes as kernels prefer, which the
 * caller frees with free. Records an error and returns NULL on failure. */
void *tn__array_alloc(uint64_t bytes, const char *call);

/* How the elements of a file are converted to a dtype. */
typedef enum tn__array_widen {
    TN__ARRAY_AS_IS,
    TN__ARRAY_U16, /* uint16, to int32 */
    TN__ARRAY_U32, /* uint32, to int64 */
    TN__ARRAY_U64  /* uint64, to int64, if the numbers fit */
} tn__array_widen;

/* Describes the elements of an array in a file. They are in row-major order. */
typedef struct tn__array_elements {
    tn_dtype dtype;        /* of the tensor */
    tn__array_widen widen;
    unsigned item;         /* bytes of an element in the file */
    bool swapped;          /* not in the byte order of this machine */
    const char *what;      /* the file or its member, for messages */
} tn__array_elements;

/* Makes a tensor on the current device from elements in the byte order of the
 * file. Takes ownership of raw, which malloc allocated, also on failure. */
tn_tensor *tn__array_tensor(void *raw, const tn__array_elements *elements,
                            tn_dims_list shape, const char *call);

/* Reverses the bytes of each element. */
void tn__array_swap(void *data, uint64_t numel, unsigned item);
bool tn__array_is_little_endian(void);

/* Copies elements from column-major to row-major order, or back. It runs on the
 * host and copies bytes, so the bits do not change. */
void tn__array_reorder(const void *from, void *to, const int64_t *shape,
                       int ndim, size_t item, bool to_row_major);

/* Multiplies sizes. Returns false if a size is negative or the product exceeds
 * INT64_MAX. If a size is 0 the product is 0, but the product of the other
 * sizes must still be at most INT64_MAX. */
bool tn__array_numel(const int64_t *shape, int ndim, int64_t *out);

/* Makes `device cpu` the current device and returns it, and stores the previous
 * one in *out_was. Returns NULL with an error on failure. */
tn_device *tn__array_use_cpu(tn_device **out_was);

#endif
