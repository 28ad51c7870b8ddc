/* memory.h: allocates host memory. All allocations of the library use these
 * functions, so that tests can make the n-th allocation fail and count the live
 * blocks. */
#ifndef TN_LIB_BASE_MEMORY_H
#define TN_LIB_BASE_MEMORY_H

#include <base/size.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Allocate memory; NULL with TN_ERR_MEMORY recorded if memory runs out. For 0
 * bytes the result is a pointer that can be freed. tn__calloc zeroes the
 * memory. */
void *tn__alloc(size_t bytes);
void *tn__calloc(size_t count, size_t bytes);
void *tn__realloc(void *old, size_t bytes);
/* Allocates `count` elements of `each` bytes. Sizes from callers must use this
 * function, since it fails if count is negative or the product overflows
 * (size.h). */
void *tn__alloc_many(int64_t count, size_t each);
char *tn__strdup(const char *text);
void tn__free(void *pointer); /* pointer may be NULL */

/* Grows an array to hold count + 1 items. items_pointer is the address of the
 * pointer to the array, and *room the array's capacity in items. Returns false
 * if memory runs out; the array is then unchanged. */
bool tn__grow(void *items_pointer, size_t *room, size_t count,
              size_t item_bytes);

/* A pool of small blocks of one size, which come from per-thread free lists. A
 * thread may free a block that another thread took. */
typedef struct tn__pool {
    const char *name;
    size_t bytes;
    _Atomic int index; /* number of the pool; 0 if not registered yet */
} tn__pool;
void *tn__pool_take(tn__pool *pool); /* Takes a block, which is not zeroed; NULL
                                      * with TN_ERR_MEMORY recorded. */
void tn__pool_give(tn__pool *pool, void *block); /* block may be NULL */
/* These functions are for structs that begin with a tn__object. A dead object
 * goes to a quarantine first (object.h). */
void *tn__pool_take_object(tn__pool *pool);
void tn__pool_give_object(tn__pool *pool, void *object);

/* For tests: makes the n-th allocation from now on, of all threads, fail (1 is
 * the next, 0 none). Later allocations succeed. TENON_TEST_FAIL_ALLOC=n in the
 * environment, read once, does the same. */
void tn__memory_fail_at(int64_t n);
/* Return the number of allocations since the start, and of live blocks. */
int64_t tn__memory_count(void);
int64_t tn__memory_live(void);
/* Returns the largest request, in bytes, since the last call with `reset`. */
size_t tn__memory_largest(bool reset);

#endif
