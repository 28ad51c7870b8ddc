/* process.c: reads process-wide state and counts allocated memory blocks.
 *
 * Blocks are counted by interposing malloc. The dynamic linker searches the
 * program's symbols before those of the C library, also for libraries that are
 * opened later. With sanitizers nothing is counted, because they interpose
 * malloc themselves. */
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <locale.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* ---- state -------------------------------------------------------------- */

int process_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    if (!tasks)
        return 0; /* if /proc is missing, the result is always 0, so no thread
                   * counts as new */
    while (readdir(tasks))
        count++;
    closedir(tasks);
    return count - 2; /* without the entries . and .. */
}

unsigned long process_environment(void)
{
    unsigned long sum = 0;
    for (char **e = environ; e && *e; e++) {
        unsigned long hash = 5381;
        for (const char *c = *e; *c; c++)
            hash = hash * 33 + (unsigned char)*c;
        sum += hash;
    }
    return sum;
}

void process_read(process_state *s)
{
    memset(s, 0, sizeof *s);
    s->threads = process_threads();
    s->origin = origin_read();
    for (int n = 1; n < 65; n++)
        if (sigaction(n, NULL, &s->handler[n]) != 0)
            memset(&s->handler[n], 0, sizeof s->handler[n]);
    const char *locale = setlocale(LC_ALL, NULL);
    snprintf(s->locale, sizeof s->locale, "%s", locale ? locale : "");
    fegetenv(&s->fpu);
    s->rounding = fegetround();
    if (!getcwd(s->folder, sizeof s->folder))
        s->folder[0] = 0;
    s->mask = umask(0);
    umask(s->mask);
    s->environment = process_environment();
}

bool process_same_fpu(const process_state *before, const process_state *now)
{
    if (before->rounding != now->rounding)
        return false;
#if defined(__x86_64__)
    /* Compares the control words. Exception flags may differ. */
    const unsigned flags = 0x3f;
    return before->fpu.__control_word == now->fpu.__control_word &&
           (before->fpu.__mxcsr | flags) == (now->fpu.__mxcsr | flags);
#elif defined(__aarch64__)
    return before->fpu.__fpcr == now->fpu.__fpcr;
#else
    return true;
#endif
}

/* Checks that the plugin started no threads between before and now. Threads of
 * vendors' libraries are allowed and may have ended. If there are more threads
 * than were counted, one was started without pthread_create and counts as the
 * plugin's. */
static bool same_threads(const process_state *before, const process_state *now,
                         char *why, size_t room)
{
    int own = now->origin.threads - before->origin.threads;
    int vendors = now->origin.vendor_threads - before->origin.vendor_threads;
    int more = now->threads - before->threads;
    if (own > 0)
        snprintf(why, room, "started a thread");
    else if (more > vendors)
        snprintf(why, room, "started a thread: %d, not %d", now->threads,
                 before->threads + vendors);
    return own <= 0 && more <= vendors;
}

bool process_same(const process_state *before, const process_state *now,
                  char *why, size_t room)
{
    if (!same_threads(before, now, why, room))
        return false;
    for (int n = 1; n < 65; n++)
        if (now->handler[n].sa_handler != before->handler[n].sa_handler) {
            snprintf(why, room, "changed the handler of signal %d (%s)", n,
                     strsignal(n));
            return false;
        }
    const char *what = NULL;
    if (strcmp(now->locale, before->locale) != 0)
        what = "locale";
    else if (!process_same_fpu(before, now))
        what = "floating-point state";
    else if (strcmp(now->folder, before->folder) != 0)
        what = "current folder";
    else if (now->mask != before->mask)
        what = "mask of file modes";
    else if (now->environment - before->environment !=
             now->origin.vendor_environment - before->origin.vendor_environment)
        what = "environment";
    if (what)
        snprintf(why, room, "changed the %s", what);
    return what == NULL;
}

/* ---- memory ------------------------------------------------------------- */

static atomic_long blocks;

long process_blocks(void)
{
    return blocks;
}

#if defined(__GLIBC__) && !defined(HAS_SANITIZER)

bool process_counts_memory(void)
{
    return true;
}

/* glibc's own allocator. glibc exports its functions under these names too, for
 * programs that replace malloc. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);
extern void __libc_free(void *block);

/* Marks a function that replaces one of the C library. It must be exported, so
 * that libraries opened later call it. The build hides symbols by default. */
#define IN_FRONT __attribute__((visibility("default")))

static void *counted(void *block)
{
    if (block)
        blocks++;
    return block;
}

IN_FRONT void *malloc(size_t bytes)
{
    return counted(__libc_malloc(bytes));
}

IN_FRONT void *calloc(size_t count, size_t bytes)
{
    return counted(__libc_calloc(count, bytes));
}

IN_FRONT void *realloc(void *block, size_t bytes)
{
    if (!block)
        return malloc(bytes);
    void *moved = __libc_realloc(block, bytes);
    if (!moved && bytes == 0) /* realloc has freed the block */
        blocks--;
    return moved;
}

IN_FRONT void *memalign(size_t align, size_t bytes);
void *memalign(size_t align, size_t bytes)
{
    return counted(__libc_memalign(align, bytes));
}

IN_FRONT void *aligned_alloc(size_t align, size_t bytes)
{
    return memalign(align, bytes);
}

IN_FRONT int posix_memalign(void **out, size_t align, size_t bytes)
{
    if (align % sizeof(void *) != 0 || (align & (align - 1)) != 0 || !align)
        return EINVAL;
    void *block = memalign(align, bytes);
    if (!block)
        return ENOMEM;
    *out = block;
    return 0;
}

/* ---- freed memory, which is not reused while writes to it are detected
 * ------------------------- */

enum { HELD = 512, HELD_BYTES = 2 << 20, FREED = 0xdd };
static atomic_bool watches;
static atomic_flag held_lock = ATOMIC_FLAG_INIT;
static void *held[HELD];
static int held_count;

static bool hold(void *block)
{
    bool holds = false;
    size_t bytes = malloc_usable_size(block);
    if (bytes > HELD_BYTES)
        return false;
    while (atomic_flag_test_and_set(&held_lock))
        ;
    if (watches && held_count < HELD) {
        memset(block, FREED, bytes);
        held[held_count++] = block;
        holds = true;
    }
    atomic_flag_clear(&held_lock);
    return holds;
}

static bool is_written(const unsigned char *block)
{
    size_t bytes = malloc_usable_size((void *)block);
    for (size_t i = 0; i < bytes; i++)
        if (block[i] != FREED)
            return true;
    return false;
}

long process_watch_freed(bool watch)
{
    long written = 0;
    watches = watch;
    while (atomic_flag_test_and_set(&held_lock))
        ;
    for (; held_count > 0; held_count--) {
        void *block = held[held_count - 1];
        written += is_written(block);
        __libc_free(block);
    }
    atomic_flag_clear(&held_lock);
    return written;
}

IN_FRONT void free(void *block)
{
    if (!block)
        return;
    blocks--;
    if (!watches || !hold(block))
        __libc_free(block);
}

#else

long process_watch_freed(bool watch)
{
    (void)watch;
    return 0;
}

bool process_counts_memory(void)
{
    return false;
}

#endif
