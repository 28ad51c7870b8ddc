/* printed.h: collects the different kernel sources that tests compile: those of
 * every operator and its gradients, of random programs and of the primitives,
 * for CPUs and GPUs. */
#ifndef TN_TESTS_PRINTED_H
#define TN_TESTS_PRINTED_H

#include <stdbool.h>
#include <tenon/plugin.h>

typedef struct printed {
    uint64_t key[2];
    uint32_t flags;     /* flags of the target: TN_TARGET_... */
    const char *kernel; /* name of the kernel in its source */
    char *text;         /* the source, owned */
    char *what;         /* its origin, for messages; owned */
} printed;

typedef struct printed_list {
    printed *item;
    int count, room;
    int asked;  /* number of plans that need a source, new or known */
    int failed; /* number of plans or sources that could not be made */
} printed_list;

/* Returns a device with these flags (TN_TARGET_...) to print for. */
tn_target printed_target(uint32_t flags);

/* These functions add the sources that the list does not have yet. */
void printed_rows(printed_list *list, const tn_target *target, int *rows);
void printed_random(printed_list *list, const tn_target *target,
                    uint64_t first_seed, int count);
/* Adds sources for a device with work-groups so small that several share a
 * row. */
void printed_shared(printed_list *list, const tn_target *target,
                    uint64_t first_seed, int count);
void printed_primitives(printed_list *list, const tn_target *target);
void printed_release(printed_list *list);

#endif
