/* process.h: the process-wide state that a plugin must not change, and how much
 * memory the process holds. */
#ifndef TN_CHECK_PROCESS_H
#define TN_CHECK_PROCESS_H

#include <fenv.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "origin.h"

/* Sanitizers interpose the C library's functions already. */
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
    struct sigaction handler[65]; /* by signal */
    char locale[256];
    fenv_t fpu;
    int rounding;
    char folder[4096];
    mode_t mask;
    unsigned long environment;
} process_state;

void process_read(process_state *state);
/* False, with why filled, if the plugin changed something between before and
 * now. What a library of its vendor changes (origin.h) is not counted. */
bool process_same(const process_state *before, const process_state *now,
                  char *why, size_t room);
/* The floating-point state alone. */
bool process_same_fpu(const process_state *before, const process_state *now);

int process_threads(void);
/* A sum of one hash for each variable, so that each change adds a value that
 * does not depend on other changes. */
unsigned long process_environment(void);

/* The number of blocks of memory that are allocated in this process.
 * process_counts_memory: whether this build can count them. */
bool process_counts_memory(void);
long process_blocks(void);
/* Between the calls with true and false, freed memory is filled and not reused.
 * Returns how many of those blocks were written to after they were freed. */
long process_watch_freed(bool watch);

#endif
