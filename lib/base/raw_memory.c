/* raw_memory.c: allocates memory like malloc, but fails when a test has
 * requested it. Records no error and counts no blocks. */
#include <base/memory.h>
#include <base/platform.h>
#include <base/state.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

_Atomic int64_t tn__memory_countdown;
static pthread_once_t env_once = PTHREAD_ONCE_INIT;

static void env_read(void)
{
    const char *text = tn__env("TENON_TEST_FAIL_ALLOC");
    if (text)
        atomic_store(&tn__memory_countdown, strtoll(text, NULL, 10));
}

void tn__memory_fail_at(int64_t n)
{
    pthread_once(&env_once, env_read);
    atomic_store(&tn__memory_countdown, n < 0 ? 0 : n);
}

bool tn__memory_fails(void)
{
    int64_t left = atomic_load(&tn__memory_countdown);
    while (left > 0)
        if (atomic_compare_exchange_weak(&tn__memory_countdown, &left,
                                         left - 1))
            return left == 1;
    return false;
}

void *tn__memory_take(size_t bytes, bool zeroed)
{
    pthread_once(&env_once, env_read);
    if (tn__memory_fails() || bytes > PTRDIFF_MAX)
        return NULL;
    return zeroed ? calloc(1, bytes ? bytes : 1) : malloc(bytes ? bytes : 1);
}
