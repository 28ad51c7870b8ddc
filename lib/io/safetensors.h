/* safetensors.h: a checked header, used by reading and writing. */
#ifndef TN_LIB_IO_SAFETENSORS_H
#define TN_LIB_IO_SAFETENSORS_H

#include <tenon/io.h>

/* The format's dtypes: name, bytes per element, Tenon's dtype (TN_DTYPE_NONE:
 * none). */
#define TN__SAFETENSORS_DTYPE_MAP(X)                                          \
    X("F64", 8, TN_F64)                                                       \
    X("F32", 4, TN_F32)                                                       \
    X("F16", 2, TN_F16)                                                       \
    X("BF16", 2, TN_BF16)                                                     \
    X("F8_E4M3", 1, TN_F8E4M3)                                                \
    X("F8_E5M2", 1, TN_F8E5M2)                                                \
    X("I64", 8, TN_I64)                                                       \
    X("I32", 4, TN_I32)                                                       \
    X("I16", 2, TN_I16)                                                       \
    X("I8", 1, TN_I8)                                                         \
    X("U8", 1, TN_U8)                                                         \
    X("BOOL", 1, TN_BOOL)                                                     \
    X("U16", 2, TN_DTYPE_NONE)                                                \
    X("U32", 4, TN_DTYPE_NONE)                                                \
    X("U64", 8, TN_DTYPE_NONE)                                                \
    X("C64", 8, TN_DTYPE_NONE)

typedef struct tn__safetensors_entry {
    char *name;        /* owned */
    const char *type;  /* the format's name of the dtype; static */
    tn_dtype dtype;    /* Tenon's dtype, or TN_DTYPE_NONE */
    int ndim;
    int64_t shape[TN_MAX_NDIM];
    uint64_t begin, end; /* in bytes, from the start of the data */
} tn__safetensors_entry;

typedef struct tn__safetensors_header {
    tn__safetensors_entry *entry; /* owned; in order of their data */
    size_t count;
    size_t *by_name;              /* owned; indices of entries, sorted by
                                     name */
    char **metadata;              /* owned; key, text, key, text ... */
    size_t metadata_count;        /* pairs */
} tn__safetensors_header;

/* Parses the JSON header and checks it against the size of the data that
 * follows it. Accesses nothing else, so a fuzzer can drive it. text is
 * overwritten, including one byte after its end. where: the file's name for
 * messages. */
tn_status tn__safetensors_parse(tn__safetensors_header *header, char *text,
                                size_t bytes, uint64_t data_bytes,
                                const char *where);
/* The entries and metadata whose names begin with prefix, with the prefix
 * removed. */
tn_status tn__safetensors_select(tn__safetensors_header *part,
                                 const tn__safetensors_header *whole,
                                 const char *prefix);
void tn__safetensors_release(tn__safetensors_header *header);
/* Entry of that name, or NULL. */
const tn__safetensors_entry *
tn__safetensors_find(const tn__safetensors_header *header, const char *name);

#endif
