/* gguf_parse.h: the parsed metadata and list of tensors of a GGUF file. */
#ifndef TN_LIB_LM_GGUF_PARSE_H
#define TN_LIB_LM_GGUF_PARSE_H

#include <tenon/gguf.h>

#include <lm/gguf/gguf_types.h>

enum {
    TN__GGUF_MAX_NAME = 65535, /* maximum bytes of a key or a tensor's name */
    TN__GGUF_MAX_DEPTH = 8     /* maximum depth of lists of lists */
};

/* A key with its value. */
typedef struct tn__gguf_value {
    char *key;            /* owned */
    tn_gguf_kind kind;    /* type of the value */
    tn_gguf_kind item;    /* type of a list's items, else kind */
    int64_t count;        /* number of a list's items, else 1 */
    const unsigned char *at; /* pointer to the first number in the file */
    tn_gguf_bytes *texts; /* owned: `count` strings, if item is TN_GGUF_TEXT */
    char *text;           /* owned: the text, if kind is TN_GGUF_TEXT */
} tn__gguf_value;

typedef struct tn__gguf_entry {
    char *name; /* owned */
    const tn__gguf_type *type;
    int ndim;
    int64_t shape[TN_MAX_NDIM]; /* in PyTorch's order */
    uint64_t offset, bytes; /* offset of the data from the file's beginning */
} tn__gguf_entry;

typedef struct tn__gguf_header {
    tn__gguf_value *value;   /* owned; in the order of the file */
    tn__gguf_value **by_key; /* owned: all values, sorted by key */
    int64_t value_count;
    tn__gguf_entry *entry;    /* owned; in the order of the file */
    tn__gguf_entry **by_name; /* owned: all entries, sorted by name */
    int64_t entry_count;
} tn__gguf_header;

/* Parses and checks a file of `bytes` bytes. *header must be all 0; afterwards
 * it points into data. Uses only its arguments, so that a fuzzer can call it.
 * `where` is the name of the file, for messages. The caller must call
 * tn__gguf_release, also after a failure. */
tn_status tn__gguf_parse(tn__gguf_header *header, const void *data,
                         uint64_t bytes, const char *where);
void tn__gguf_release(tn__gguf_header *header);

/* Return the value of a key and the entry of a name, or NULL if there is
 * none. */
const tn__gguf_value *tn__gguf_value_find(const tn__gguf_header *header,
                                          const char *key);
const tn__gguf_entry *tn__gguf_entry_find(const tn__gguf_header *header,
                                          const char *name);

/* Returns the bytes of a number of this type, or 0 for strings and lists. */
unsigned tn__gguf_number_bytes(tn_gguf_kind kind);
/* Returns the name of a type: "u32". */
const char *tn__gguf_kind_name(tn_gguf_kind kind);

#endif
