/* memory.h: host memory. All allocations of the library use these functions, so
 * that tests can make the n-th one fail and count the live blocks. */
#ifndef TN_LIB_BASE_MEMORY_H
#define TN_LIB_BASE_MEMORY_H

#include <base/size.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL with TN_ERR_MEMORY recorded if memory runs out. For 0 bytes the result
 * is a pointer that can be freed. tn__calloc zeroes. */
void *tn__alloc(size_t bytes);
void *tn__calloc(size_t count, size_t bytes);
void *tn__realloc(void *old, size_t bytes);
/* count elements of `each` bytes. Sizes from callers must use this (size.h): it
 * fails if count is negative or the product overflows. */
void *tn__alloc_many(int64_t count, size_t each);
char *tn__strdup(const char *text);
void tn__free(void *pointer); /* NULL is welcome */

/* Grows an array to hold count + 1 items. items_pointer is the address of the
 * pointer to the array, *room its capacity. False if memory runs out; the array
 * is then unchanged. */
bool tn__grow(void *items_pointer, size_t *room, size_t count,
              size_t item_bytes);

/* Small blocks of one size from per-thread free lists. A thread may free a
 * block that another thread took. */
typedef struct tn__pool {
    const char *name;
    size_t bytes;
    _Atomic int index; /* 0: not registered yet */
} tn__pool;
void *tn__pool_take(tn__pool *pool); /* not zeroed; NULL as tn__alloc */
void tn__pool_give(tn__pool *pool, void *block); /* NULL is welcome */
/* The same for structs that begin with a tn__object: dead ones go to a
 * quarantine first (object.h). */
void *tn__pool_take_object(tn__pool *pool);
void tn__pool_give_object(tn__pool *pool, void *object);

/* For tests: the n-th allocation from now on, of all threads, fails (1: the
 * next; 0: none); later ones succeed. TENON_TEST_FAIL_ALLOC=n in the
 * environment, read once, does the same. */
void tn__memory_fail_at(int64_t n);
/* Allocations since start; live blocks. */
int64_t tn__memory_count(void);
int64_t tn__memory_live(void);
/* The largest request, in bytes, since the last call with `reset`. */
size_t tn__memory_largest(bool reset);

#endif
