/* memory.h: host memory. All of the library's allocations pass here, so that
 * tests can make the n-th of them fail and count what is left. */
#ifndef TN_LIB_BASE_MEMORY_H
#define TN_LIB_BASE_MEMORY_H

#include <base/size.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL with TN_ERR_MEMORY recorded when memory runs out; bytes 0 gives a
 * pointer that may be freed. tn__calloc zeroes. */
void *tn__alloc(size_t bytes);
void *tn__calloc(size_t count, size_t bytes);
void *tn__realloc(void *old, size_t bytes);
/* Of count elements of so many bytes each: the one way from a size that a
 * caller gave to memory (size.h). Refuses what is negative or does not fit. */
void *tn__alloc_many(int64_t count, size_t each);
char *tn__strdup(const char *text);
void tn__free(void *pointer); /* NULL is welcome */

/* Grows an array so that count + 1 items fit; items_pointer is the address of
 * the pointer to it, *room how many fit now. False: *items is as it was. */
bool tn__grow(void *items_pointer, size_t *room, size_t count,
              size_t item_bytes);

/* Small objects of one size from per-thread free lists. A block may be freed
 * by another thread than the one that took it. */
typedef struct tn__pool {
    const char *name;
    size_t bytes;
    _Atomic int index; /* 0: not registered yet */
} tn__pool;
void *tn__pool_take(tn__pool *pool); /* not zeroed; NULL as tn__alloc */
void tn__pool_give(tn__pool *pool, void *block); /* NULL is welcome */
/* The same for what begins with a tn__object: dead ones wait in a queue, as
 * object.h says. */
void *tn__pool_take_object(tn__pool *pool);
void tn__pool_give_object(tn__pool *pool, void *object);

/* For tests: the n-th allocation from now fails (1: the next; 0: none), in
 * all threads; those after it succeed again. Environment twin:
 * TENON_TEST_FAIL_ALLOC, read once. */
void tn__memory_fail_at(int64_t n);
/* Allocations made since start; blocks now live. */
int64_t tn__memory_count(void);
int64_t tn__memory_live(void);
/* The most bytes that one call of the above asked for since `again`. */
size_t tn__memory_largest(bool again);

#endif
