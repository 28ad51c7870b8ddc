/* memory.h: an arena for the memory of a tokenizer, which is freed as a whole,
 * and arrays that grow while a text is encoded. */
#ifndef TN_LIB_LM_TOKENIZER_MEMORY_H
#define TN_LIB_LM_TOKENIZER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tn__own {
    struct tn__own_block *blocks;
} tn__own;

/* Allocates zeroed memory, aligned for any type. Returns NULL and records
 * TN_ERR_MEMORY if memory runs out. */
void *tn__own_take(tn__own *arena, size_t bytes);
/* Allocates an array like tn__own_take. Returns NULL also if count * bytes
 * overflows. */
void *tn__own_array(tn__own *arena, size_t count, size_t bytes);
/* Copies a text and appends a NUL. */
char *tn__own_text(tn__own *arena, const char *text, size_t bytes);
void tn__own_free(tn__own *arena);

/* Works as malloc. Several megabytes get huge pages where the system has them:
 * a vocabulary of 128000 tokens is spread over 10000 small pages, whose first
 * accesses took a fifth of the time to open it. */
void *tn__take_large(size_t bytes);

/* Makes room for `need` items of `bytes` each in *array, which has room for
 * *room. Returns false and records TN_ERR_MEMORY if memory runs out; the array
 * is then unchanged. */
bool tn__array_grow(void *array, size_t *room, size_t need, size_t bytes);

#endif
