/* gguf.h: an open GGUF file. */
#ifndef TN_LIB_LM_GGUF_GGUF_H
#define TN_LIB_LM_GGUF_GGUF_H

#include <lm/gguf/gguf_parse.h>

struct tn_gguf {
    tn_object object;
    char *path;     /* owned */
    void *map;      /* owned: the mapped file; NULL if it is not mapped */
    uint64_t bytes; /* size of the file */
    tn__gguf_header header;
};

/* Checks the argument `file` of a call. For NULL it records an error. */
bool tn__gguf_check(const tn_gguf *file, const char *call);
/* Like tn__gguf_check, but NULL is not an error. For calls that cannot fail. */
bool tn__gguf_is(const tn_gguf *file, const char *call);
/* Frees the memory of a tensor's data, which is read from the file again if it
 * is used. Changes of the data are lost. */
void tn__gguf_discard(const tn_gguf *file, const char *name);

#endif
