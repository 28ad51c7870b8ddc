/* native_variants.c: caches the machine code of a loop (cpu_native): one
 * variant for each set of options. A variant is generated when it is first
 * needed. The file also tests whether the system allows generated code. */
#include "native_body.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

bool tn__cpu_native_available(void)
{
#if defined(__x86_64__)
    /* A system may forbid executable memory, so this tries to make a page
     * executable. */
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return false;
    bool may = mprotect(page, bytes, PROT_READ | PROT_EXEC) == 0;
    munmap(page, bytes);
    return may;
#else
    return false;
#endif
}

/* Held while a variant is generated. fork() first takes this lock and releases
 * it in parent and child, so that the child can generate code. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void make_begin(void)
{
    pthread_mutex_lock(&making);
}

static void make_end(void)
{
    pthread_mutex_unlock(&making);
}

static void watch_forks(void)
{
    pthread_atfork(make_begin, make_end, make_end);
}

static cpu_native_run *find(const cpu_native *native,
                            cpu_native_options options)
{
    const cpu_native_variant *v =
        atomic_load_explicit(&native->variants, memory_order_acquire);
    while (v && (v->options.single != options.single ||
                 v->options.stored != options.stored ||
                 v->options.streamed != options.streamed ||
                 v->options.copies != options.copies ||
                 v->options.folds != options.folds ||
                 v->options.prefetch_operands != options.prefetch_operands ||
                 v->options.ahead != options.ahead ||
                 v->options.prefetch != options.prefetch ||
                 v->options.parts != options.parts))
        v = v->next;
    return v ? v->run : NULL;
}

cpu_native_run *tn__cpu_native_get(cpu_native *native,
                                   cpu_native_options options)
{
    cpu_native_run *run = find(native, options);
    if (run)
        return run;
    pthread_once(&fork_once, watch_forks);
    make_begin();
    run = find(native, options);
    cpu_native_variant *made = run ? NULL : malloc(sizeof *made);
    if (made) {
        *made =
            (cpu_native_variant){.next = atomic_load_explicit(
                                     &native->variants, memory_order_relaxed),
                                 .options = options};
        if (tn__cpu_native_make(native, made)) {
            run = made->run;
            atomic_store_explicit(&native->variants, made,
                                  memory_order_release);
        } else {
            free(made);
        }
    }
    make_end();
    return run;
}

void tn__cpu_native_release(cpu_native *native)
{
    cpu_native_variant *v = atomic_load(&native->variants), *next;
    for (; v; v = next) {
        next = v->next;
        munmap(v->pages, v->bytes);
        free(v);
    }
    free(native->node);
}
