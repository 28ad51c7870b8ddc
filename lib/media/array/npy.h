/* npy.h: declarations that .npy and .npz files share. */
#ifndef TN_MEDIA_ARRAY_NPY_H
#define TN_MEDIA_ARRAY_NPY_H

#include <media/array/npy_header.h>

/* Makes a tensor from a .npy file in memory. Takes ownership of `file`, which
 * tn__array_alloc allocated, also on failure. */
tn_tensor *tn__npy_tensor(void *file, uint64_t bytes, tn_dtype view,
                          const char *what, const char *call);

/* The parts of a .npy file: the header, and the elements in the order of the
 * file, little-endian. */
typedef struct tn__npy_image {
    uint8_t header[TN__NPY_WRITE_ROOM];
    size_t header_bytes;
    void *data; /* owned; free it */
    size_t data_bytes;
} tn__npy_image;
tn_status tn__npy_image_of(tn__npy_image *image, const tn_tensor *x,
                           bool fortran, int version, const char *call);

#endif
