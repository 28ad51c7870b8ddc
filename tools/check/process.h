/* process.h: reads the process-wide state that a plugin must not change, and
 * counts the memory blocks that the process has allocated. */
#ifndef TN_CHECK_PROCESS_H
#define TN_CHECK_PROCESS_H

#include <fenv.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "origin.h"

/* HAS_SANITIZER is set if the kit is built with a sanitizer, which interposes
 * functions of the C library itself. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||     \
    __has_feature(memory_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#endif

typedef struct process_state {
    int threads;
    origin_counts origin;
    struct sigaction handler[65]; /* indexed by signal number */
    char locale[256];
    fenv_t fpu;
    int rounding;
    char folder[4096];
    mode_t mask;
    unsigned long environment;
} process_state;

void process_read(process_state *state);
/* Returns whether the plugin has left the state unchanged between before and
 * now. If it has not, writes the reason to why and returns false. Changes by
 * libraries of the device's vendor are allowed (origin.h). */
bool process_same(const process_state *before, const process_state *now,
                  char *why, size_t room);
/* Returns whether the floating-point state is unchanged. */
bool process_same_fpu(const process_state *before, const process_state *now);

int process_threads(void);
/* Returns a hash of the environment: the sum of one hash for each variable.
 * Because it is a sum, the effect of changing one variable does not depend on
 * other changes. */
unsigned long process_environment(void);

/* Returns whether this build can count allocated memory blocks. */
bool process_counts_memory(void);
/* Returns the number of memory blocks that are allocated in this process. */
long process_blocks(void);
/* Starts (true) or ends (false) a test for writes to freed memory. During the
 * test, freed blocks are filled with a pattern and not reused. The call that
 * ends it returns how many of these blocks were written to. */
long process_watch_freed(bool watch);

#endif
