/* npy_header.h: the header of a .npy file: magic, version, and a Python literal
 * with the dtype, order and shape. */
#ifndef TN_MEDIA_ARRAY_NPY_HEADER_H
#define TN_MEDIA_ARRAY_NPY_HEADER_H

#include <media/array/host.h>

/* The longest header that is read. NumPy's are 128 bytes; those of structured
 * dtypes, which are rejected, may be longer. */
enum { TN__NPY_MOST_HEADER = 1 << 20, TN__NPY_PREFIX = 12 };

typedef struct tn__npy_header {
    tn__array_elements elements;
    bool fortran;
    int ndim;
    int64_t shape[TN_MAX_NDIM];
    int64_t numel;
    uint64_t at;    /* where the elements begin */
    uint64_t bytes; /* of the elements in the file */
} tn__npy_header;

/* Returns how many bytes the header takes, from the first TN__NPY_PREFIX bytes
 * of a file (or all of them, if it has less), or 0 with an error. `have` is the
 * number of bytes at `prefix`, and `total` the size of the file. */
uint64_t tn__npy_header_bytes(const uint8_t *prefix, size_t have,
                              uint64_t total, const char *what,
                              const char *call);

/* Parses the header, whose size is header_bytes, and checks that the elements
 * are the rest of the file. view is the dtype of raw bytes, or TN_DTYPE_NONE. */
tn_status tn__npy_header_parse(tn__npy_header *header, const uint8_t *data,
                               uint64_t header_bytes, uint64_t total,
                               tn_dtype view, const char *what,
                               const char *call);

/* Writes the header of x in `version` (1 to 3) to out, which has room for
 * TN__NPY_WRITE_ROOM bytes. Returns its size. */
enum { TN__NPY_WRITE_ROOM = 512 };
size_t tn__npy_header_write(uint8_t *out, const tn_tensor *x, bool fortran,
                            int version);

#endif
