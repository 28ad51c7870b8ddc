/* malloc_faults.h: replaces malloc in the program, so that a test can make chosen
 * calls fail. With MALLOC_FAULTS_IN_LIBRARIES, also calls of shared libraries
 * fail, among them plugins and drivers. A program includes it in one file. It
 * does nothing under sanitizers, which replace malloc, too. */
#ifndef TN_TESTS_MALLOC_FAULTS_H
#define TN_TESTS_MALLOC_FAULTS_H

#include <base/platform.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes malloc_many calls in sequence fail, the first of which is the n-th from
 * now (1: the next; 0: none). */
static _Atomic int64_t malloc_made, malloc_first, malloc_many = 1;
static _Atomic int64_t malloc_blocks; /* that have not been freed */

static inline void malloc_fail_at(int64_t n)
{
    atomic_store(&malloc_first, n ? atomic_load(&malloc_made) + n : 0);
}

/* Returns the number of blocks that have been allocated and not freed. */
static inline int64_t malloc_live(void)
{
    return atomic_load(&malloc_blocks);
}

static inline int64_t malloc_count(void)
{
    return atomic_load(&malloc_made);
}

#if defined(TN__ASAN) || defined(TN__TSAN) || !defined(__GLIBC__)
enum { MALLOC_FAULTS = 0 };
#else
enum { MALLOC_FAULTS = 1 };

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);
extern void __libc_free(void *block);

static bool malloc_refuses(void)
{
    const int64_t n = atomic_fetch_add(&malloc_made, 1) + 1;
    const int64_t first = atomic_load(&malloc_first);
    if (!first || n < first || n - first >= atomic_load(&malloc_many))
        return false;
    errno = ENOMEM;
    return true;
}

#ifdef MALLOC_FAULTS_IN_LIBRARIES
#pragma GCC visibility push(default)
#endif
static void *malloc_counted(void *block)
{
    atomic_fetch_add(&malloc_blocks, block != NULL);
    return block;
}

void *malloc(size_t bytes)
{
    return malloc_refuses() ? NULL : malloc_counted(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return malloc_refuses() ? NULL
                            : malloc_counted(__libc_calloc(count, bytes));
}

void *realloc(void *old, size_t bytes)
{
    if (!old)
        return malloc(bytes);
    return malloc_refuses() ? NULL : __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return malloc_refuses() ? NULL
                            : malloc_counted(__libc_memalign(align, bytes));
}

void free(void *block)
{
    atomic_fetch_sub(&malloc_blocks, block != NULL);
    __libc_free(block);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    if (malloc_refuses())
        return ENOMEM;
    *out = malloc_counted(__libc_memalign(align, bytes));
    return *out ? 0 : ENOMEM;
}
#ifdef MALLOC_FAULTS_IN_LIBRARIES
#pragma GCC visibility pop
#endif
#endif

#endif
