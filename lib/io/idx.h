/* idx.h: the header of IDX files. */
#ifndef TN_LIB_IO_IDX_H
#define TN_LIB_IO_IDX_H

#include <tenon/base.h>

typedef struct tn__idx {
    tn_dtype dtype;
    tn_dims_list shape;
    size_t header_bytes; /* the elements follow, big-endian */
    size_t data_bytes;
} tn__idx;

/* Parses and checks the bytes of a whole file. Accesses nothing else, so a
 * fuzzer can drive it. where: the file's name for messages. */
tn_status tn__idx_parse(tn__idx *idx, const unsigned char *bytes, size_t count,
                        const char *where);

#endif
