/* idx.h: the IDX format's header, checked. */
#ifndef TN_LIB_IO_IDX_H
#define TN_LIB_IO_IDX_H

#include <tenon/base.h>

typedef struct tn__idx {
    tn_dtype dtype;
    tn_dims_list shape;
    size_t header_bytes; /* the elements follow, highest byte first */
    size_t data_bytes;
} tn__idx;

/* Parses and checks a whole file's bytes. Pure: a fuzzer can drive it. where
 * names the file in messages. */
tn_status tn__idx_parse(tn__idx *idx, const unsigned char *bytes, size_t count,
                        const char *where);

#endif
