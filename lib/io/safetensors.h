/* safetensors.h: the parsed header of a safetensors file, which lists its
 * tensors. */
#ifndef TN_LIB_IO_SAFETENSORS_H
#define TN_LIB_IO_SAFETENSORS_H

#include <tenon/io.h>

/* The dtypes of the format, each as X(name in the format, bytes per element,
 * Tenon's dtype or TN_DTYPE_NONE if Tenon does not have it). */
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
    const char *type;  /* name of the dtype in the format; a static string */
    tn_dtype dtype;    /* Tenon's dtype, or TN_DTYPE_NONE */
    int ndim;
    int64_t shape[TN_MAX_NDIM];
    uint64_t begin, end; /* the tensor's byte range, counted from the end of the
                            header */
} tn__safetensors_entry;

typedef struct tn__safetensors_header {
    tn__safetensors_entry *entry; /* owned; ordered by position */
    size_t count;
    size_t *by_name;              /* owned: the indices of all entries, sorted
                                     by their names */
    char **metadata;              /* owned: key 0, value 0, key 1, value 1
                                   * ... */
    size_t metadata_count;        /* number of pairs of key and value */
} tn__safetensors_header;

/* Parses the JSON header and checks that its tensors cover exactly the
 * data_bytes bytes that follow it in the file. Uses only its arguments, so that
 * a fuzzer can call it. Overwrites text, including one byte after its end.
 * `where` is the name of the file, for messages. */
tn_status tn__safetensors_parse(tn__safetensors_header *header, char *text,
                                size_t bytes, uint64_t data_bytes,
                                const char *where);
/* Sets *part to the entries and metadata whose names begin with prefix. The
 * prefix is removed from the names. */
tn_status tn__safetensors_select(tn__safetensors_header *part,
                                 const tn__safetensors_header *whole,
                                 const char *prefix);
void tn__safetensors_release(tn__safetensors_header *header);
/* Returns the entry with this name, or NULL if there is none. */
const tn__safetensors_entry *
tn__safetensors_find(const tn__safetensors_header *header, const char *name);

#endif
