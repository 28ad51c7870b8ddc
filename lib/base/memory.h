/* memory.h: allocates host memory. All code of the library uses these
 * functions, so that tests can make the n-th allocation fail and count the
 * blocks that were not freed. */
#ifndef TN_LIB_BASE_MEMORY_H
#define TN_LIB_BASE_MEMORY_H

#include <base/size.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Allocate memory. If memory runs out, record TN_ERR_MEMORY and return NULL.
 * For 0 bytes, return a pointer that can be freed. tn__calloc zeroes the
 * memory. */
void *tn__alloc(size_t bytes);
void *tn__calloc(size_t count, size_t bytes);
void *tn__realloc(void *old, size_t bytes);
/* Allocates `count` elements of `each` bytes. Fails if count is negative or the
 * product overflows (size.h), so sizes that come from the program must use this
 * function. */
void *tn__alloc_many(int64_t count, size_t each);
char *tn__strdup(const char *text);
void tn__free(void *pointer); /* accepts NULL */

/* Grows an array so that it can hold count + 1 items. items_pointer is the
 * address of the pointer to the array, and *room is the number of items for
 * which memory is allocated. Returns false and leaves the array unchanged if
 * memory runs out. */
bool tn__grow(void *items_pointer, size_t *room, size_t count,
              size_t item_bytes);

/* A pool of small blocks of one size. Each thread has a free list for each
 * pool, so taking and giving back a block is fast. A thread may give back a
 * block that another thread took. */
typedef struct tn__pool {
    const char *name;
    size_t bytes;
    _Atomic int index; /* index of the pool, from 1; 0 until it is first used */
} tn__pool;
/* Takes a block, which is not zeroed. Returns NULL with TN_ERR_MEMORY recorded
 * if memory runs out. */
void *tn__pool_take(tn__pool *pool);
void tn__pool_give(tn__pool *pool, void *block); /* block may be NULL */
/* Take and give back a block for an object, a struct that begins with a
 * tn__object. A freed object stays in a queue (the quarantine, object.h) for
 * some time before its memory is reused. */
void *tn__pool_take_object(tn__pool *pool);
void tn__pool_give_object(tn__pool *pool, void *object);

/* For tests: makes the n-th allocation from now on fail, counted over all
 * threads. 1 is the next allocation; 0 means that none fails. Only that one
 * allocation fails. The environment variable TENON_TEST_FAIL_ALLOC=n, read
 * once, has the same effect. */
void tn__memory_fail_at(int64_t n);
/* Return the number of allocations since the start, and the number of blocks
 * that were not freed yet. */
int64_t tn__memory_count(void);
int64_t tn__memory_live(void);
/* Returns the largest size in bytes that was requested since the last call with
 * reset = true. */
size_t tn__memory_largest(bool reset);

#endif
