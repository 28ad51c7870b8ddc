/* printed.h: the texts that a test of printed kernels compiles: those of every
 * row of the operator table, of random programs and of the primitives, for
 * CPUs and GPUs, each once. */
#ifndef TN_TESTS_PRINTED_H
#define TN_TESTS_PRINTED_H

#include <stdbool.h>
#include <tenon/plugin.h>

typedef struct printed {
    uint64_t key[2];
    bool f64;        /* the target has double precision */
    char *text;      /* owned */
    char *what;      /* owned: whose it is, for messages */
} printed;

typedef struct printed_list {
    printed *item;
    int count, room;
    int asked;  /* plans that named a text, new or known */
    int failed; /* plans or texts that could not be made */
} printed_list;

/* Adds what is not there yet. */
void printed_rows(printed_list *list, const tn_target *target, int *rows);
void printed_random(printed_list *list, const tn_target *target,
                    uint64_t first_seed, int count);
void printed_primitives(printed_list *list, const tn_target *target);
/* Attention of half types: by tensor cores where the target has them. */
void printed_attention(printed_list *list, const tn_target *target);
void printed_release(printed_list *list);

#endif
