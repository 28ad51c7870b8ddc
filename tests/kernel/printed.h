/* printed.h: the texts that tests of printed kernels compile, each once: those
 * of every row of the operator table and its gradients, of random programs and
 * of the primitives, for CPUs and GPUs. */
#ifndef TN_TESTS_PRINTED_H
#define TN_TESTS_PRINTED_H

#include <stdbool.h>
#include <tenon/plugin.h>

typedef struct printed {
    uint64_t key[2];
    uint32_t flags;     /* of the target: TN_TARGET_... */
    const char *kernel; /* its name in the text */
    char *text;         /* owned */
    char *what;         /* owned: its origin, for messages */
} printed;

typedef struct printed_list {
    printed *item;
    int count, room;
    int asked;  /* plans that needed a text, new or known */
    int failed; /* plans or texts that could not be made */
} printed_list;

/* A device to print for: TN_TARGET_... */
tn_target printed_target(uint32_t flags);

/* Add texts that are not there yet. */
void printed_rows(printed_list *list, const tn_target *target, int *rows);
void printed_random(printed_list *list, const tn_target *target,
                    uint64_t first_seed, int count);
/* For a device with work-groups so small that several share a row of some
 * chunks. */
void printed_shared(printed_list *list, const tn_target *target,
                    uint64_t first_seed, int count);
void printed_primitives(printed_list *list, const tn_target *target);
void printed_release(printed_list *list);

#endif
