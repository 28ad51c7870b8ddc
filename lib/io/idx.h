/* idx.h: parses the header of an IDX file, the format of the MNIST digits. */
#ifndef TN_LIB_IO_IDX_H
#define TN_LIB_IO_IDX_H

#include <tenon/base.h>

typedef struct tn__idx {
    tn_dtype dtype;
    tn_dims_list shape;
    size_t header_bytes; /* size of the header, after which the elements follow
                            in big-endian order */
    size_t data_bytes;   /* size of all elements */
} tn__idx;

/* Parses the header of an IDX file and checks the size of the file. `bytes`
 * contains the whole file. The function uses only its arguments, so that a
 * fuzzer can call it. `where` is the name of the file, for messages. */
tn_status tn__idx_parse(tn__idx *idx, const unsigned char *bytes, size_t count,
                        const char *where);

#endif
