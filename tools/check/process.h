/* process.h: what a plugin must leave as it found it, and what it holds. */
#ifndef TN_CHECK_PROCESS_H
#define TN_CHECK_PROCESS_H

#include <fenv.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "origin.h"

/* Sanitizers stand before the C library's functions already. */
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
/* False with why filled: what the plugin changed from before to now. What a
 * library of its vendor did by itself (origin.h) is none of that. */
bool process_same(const process_state *before, const process_state *now,
                  char *why, size_t room);
/* The floating-point state alone. */
bool process_same_fpu(const process_state *before, const process_state *now);

int process_threads(void);
/* A sum over the variables: each change adds to it what it adds, whatever else
 * has changed. */
unsigned long process_environment(void);

/* Blocks of memory that were allocated and not freed, by anyone in this
 * process; process_counts_memory: can they be counted here? */
bool process_counts_memory(void);
long process_blocks(void);
/* From true to false, freed memory is filled and held back. Returns how many
 * blocks of it somebody has written to. */
long process_watch_freed(bool watch);

#endif
