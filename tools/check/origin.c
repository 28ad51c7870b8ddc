/* origin.c: finds out whether the plugin or a library of its vendor starts a
 * thread or changes the environment, by interposing the C library's functions
 * and reading the call stack. */
#include "origin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include "check.h"
#include "process.h"

#if defined(__GLIBC__) && !defined(HAS_SANITIZER)
#include <execinfo.h>

/* ---- what was seen ------------------------------------------------------ */

enum { VENDORS = 8 };
typedef struct deeds {
    char file[64];
    int threads;
    char variables[128]; /* names of the environment variables that this library
                          * changed, separated by ", " */
} deeds;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static origin_counts counts;
static deeds seen[VENDORS];
static int seen_count;

/* ---- whose call is it? -------------------------------------------------- */

/* Returns whether a file is a library of the C, C++ or OpenMP runtime, which
 * acts on behalf of its caller. */
static bool is_runtime(const char *file)
{
    static const char *const runtime[] = {
        "libc.so", "libpthread.so", "ld-linux", "libgcc_s.so", "libstdc++.so",
        "libc++.so", "libgomp.so", "libomp.so", "libiomp5.so"};
    for (size_t i = 0; i < sizeof runtime / sizeof *runtime; i++)
        if (strncmp(file, runtime[i], strlen(runtime[i])) == 0)
            return true;
    return false;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Returns whether the file is in the plugin's folder. */
static bool is_beside_plugin(const char *path)
{
    size_t folder = (size_t)(name_of(options.path) - options.path);
    return (size_t)(name_of(path) - path) == folder &&
           strncmp(path, options.path, folder) == 0;
}

/* Returns the path of the vendor's library that called the interposed function,
 * or NULL if the plugin called it. Stack frames 0 and 1 are functions of this
 * file. */
static __attribute__((noinline)) const char *vendor(void)
{
    enum { FRAMES = 32 };
    void *frame[FRAMES];
    Dl_info kit, at;
    int count = backtrace(frame, FRAMES);
    if (!dladdr(seen, &kit))
        return NULL;
    for (int i = 2; i < count; i++) {
        /* Looks up the byte before the return address, because the return
         * address may already belong to the next function. */
        if (!dladdr((char *)frame[i] - 1, &at) ||
            is_runtime(name_of(at.dli_fname)))
            continue;
        bool own = at.dli_fbase == kit.dli_fbase ||
                   is_beside_plugin(at.dli_fname);
        return own ? NULL : at.dli_fname;
    }
    return NULL;
}

/* ---- recording what a library does -------------------------------------- */

/* Returns the entry of a library, and adds one if there is none. The caller
 * holds the lock. If there are too many libraries, the last entry is used for
 * all others. */
static deeds *deeds_of(const char *path)
{
    const char *file = name_of(path);
    for (int i = 0; i < seen_count; i++)
        if (strncmp(seen[i].file, file, sizeof seen[i].file - 1) == 0)
            return &seen[i];
    if (seen_count == VENDORS)
        return &seen[VENDORS - 1];
    snprintf(seen[seen_count].file, sizeof seen->file, "%s", file);
    return &seen[seen_count++];
}

static void note_thread(const char *path)
{
    pthread_mutex_lock(&lock);
    if (path) {
        counts.vendor_threads++;
        deeds_of(path)->threads++;
    } else {
        counts.threads++;
    }
    pthread_mutex_unlock(&lock);
}

/* Records that a library changed the variable whose name is the first `length`
 * characters of name. */
static void note_variable(const char *path, const char *name, size_t length)
{
    char *all = deeds_of(path)->variables;
    size_t used = strlen(all);
    snprintf(all + used, sizeof seen->variables - used, "%s%.*s",
             used ? ", " : "", (int)length, name);
}

bool origin_is_known(void)
{
    return true;
}

void origin_watch(void)
{
    void *frame[1];
    backtrace(frame, 1); /* the first call loads a library and allocates
                            memory, so it is made before anything is counted */
}

origin_counts origin_read(void)
{
    pthread_mutex_lock(&lock);
    origin_counts now = counts;
    pthread_mutex_unlock(&lock);
    return now;
}

bool origin_vendors(char *text, size_t room)
{
    size_t used = 0;
    *text = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < seen_count && used < room; i++) {
        const deeds *d = &seen[i];
        char threads[40] = "";
        if (d->threads)
            snprintf(threads, sizeof threads, " started %d thread%s",
                     d->threads, d->threads > 1 ? "s" : "");
        used += (size_t)snprintf(
            text + used, room - used, "%s%s%s%s%s%s", i ? "; " : "", d->file,
            threads, d->threads && *d->variables ? "," : "",
            *d->variables ? " set " : "", d->variables);
    }
    pthread_mutex_unlock(&lock);
    return *text != 0;
}

/* ---- replacements of functions of the C library
 * ------------------------------------------ */

/* Marks a function that replaces one of the C library. It must be exported, so
 * that libraries opened later call it. The build hides symbols by default. */
#define IN_FRONT __attribute__((visibility("default")))

/* Sets `real` to the C library's function. ISO C does not allow converting an
 * object pointer to a function pointer, but POSIX guarantees that copying its
 * bytes works. */
#define BEHIND(name)                                                           \
    static __typeof__(name) *real;                                             \
    if (!real) {                                                               \
        void *symbol = dlsym(RTLD_NEXT, #name);                                \
        memcpy(&real, &symbol, sizeof real);                                   \
    }

IN_FRONT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                            void *(*start)(void *), void *argument)
{
    BEHIND(pthread_create)
    int failed = real(thread, attributes, start, argument);
    if (!failed)
        note_thread(vendor());
    return failed;
}

IN_FRONT int thrd_create(thrd_t *thread, thrd_start_t start, void *argument)
{
    BEHIND(thrd_create)
    int result = real(thread, start, argument);
    if (result == thrd_success)
        note_thread(vendor());
    return result;
}

/* Defines the replacement of a function that changes an environment variable.
 * If a vendor's library calls it, records the variable and the difference that
 * it makes to process_environment(). */
#define CHANGES(name, declared, passed, variable)                              \
    IN_FRONT int name declared                                                 \
    {                                                                          \
        BEHIND(name)                                                           \
        const char *path = vendor();                                           \
        if (!path)                                                             \
            return real passed;                                                \
        pthread_mutex_lock(&lock);                                             \
        unsigned long before = process_environment();                          \
        int failed = real passed;                                              \
        unsigned long change = process_environment() - before;                 \
        counts.vendor_environment += change;                                   \
        if (change)                                                            \
            note_variable(path, variable, strcspn(variable, "="));             \
        pthread_mutex_unlock(&lock);                                           \
        return failed;                                                         \
    }
CHANGES(setenv, (const char *name, const char *value, int replace),
        (name, value, replace), name)
CHANGES(unsetenv, (const char *name), (name), name)
CHANGES(putenv, (char *pair), (pair), pair)

#else

bool origin_is_known(void)
{
    return false;
}

void origin_watch(void) {}

origin_counts origin_read(void)
{
    return (origin_counts){0};
}

bool origin_vendors(char *text, size_t room)
{
    (void)room;
    *text = 0;
    return false;
}

#endif
