/* malloc_faults.h: replaces malloc in the program, so that a test can make chosen
 * calls fail. With MALLOC_FAULTS_IN_LIBRARIES, also calls of shared libraries
 * fail, among them plugins and drivers. A program includes it in one file. It
 * does nothing under sanitizers, which replace malloc, too. */
#ifndef TN_TESTS_MALLOC_FAULTS_H
#define TN_TESTS_MALLOC_FAULTS_H

#include <base/platform.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes malloc_many calls in sequence fail, the first of which is the n-th from
 * now (1: the next; 0: none). */
static _Atomic int64_t malloc_made, malloc_first, malloc_many = 1;
static _Atomic int64_t malloc_blocks; /* that have not been freed */
static _Atomic int64_t malloc_bytes, malloc_most; /* of them, now and at most */

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

/* Returns by how many bytes the memory in use has grown, at its largest, since
 * malloc_watch. */
static int64_t malloc_watched;
static inline void malloc_watch(void)
{
    malloc_watched = atomic_load(&malloc_bytes);
    atomic_store(&malloc_most, malloc_watched);
}

static inline int64_t malloc_growth(void)
{
    return atomic_load(&malloc_most) - malloc_watched;
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
    const int64_t bytes = (int64_t)malloc_usable_size(block);
    const int64_t now = atomic_fetch_add(&malloc_bytes, bytes) + bytes;
    int64_t most = atomic_load(&malloc_most);
    while (now > most &&
           !atomic_compare_exchange_weak(&malloc_most, &most, now))
        continue;
    atomic_fetch_add(&malloc_blocks, block != NULL);
    return block;
}

static void malloc_uncounted(int64_t blocks, size_t bytes)
{
    atomic_fetch_sub(&malloc_blocks, blocks);
    atomic_fetch_sub(&malloc_bytes, (int64_t)bytes);
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
    if (malloc_refuses())
        return NULL;
    const size_t was = malloc_usable_size(old);
    void *block = __libc_realloc(old, bytes);
    if (block || !bytes)
        malloc_uncounted(1, was);
    return malloc_counted(block);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return malloc_refuses() ? NULL
                            : malloc_counted(__libc_memalign(align, bytes));
}

void free(void *block)
{
    malloc_uncounted(block != NULL, malloc_usable_size(block));
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
