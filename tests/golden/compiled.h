/* compiled.h: compares a compiled function with the function itself, by bits
 * (run -c). */
#ifndef TN_TESTS_GOLDEN_COMPILED_H
#define TN_TESTS_GOLDEN_COMPILED_H

#include "golden.h"

enum {
    COMPILED_CAPTURES = 2,  /* calls that are recorded */
    COMPILED_MOST_STATE = 256
};

/* A function that is called by itself and compiled, on equal inputs. The
 * callbacks' context is one of the two below: each way has its own tensors. */
typedef struct subject {
    const char *name;
    tn_compile_fn fn;
    void *plain, *compiled; /* contexts of the two ways */
    int in_count, out_count;
    int calls;
    bool no_grad; /* call within TN_NO_GRAD */
    bool freeze;  /* of tn_compile */
    /* Makes the inputs of a call in new memory. */
    bool (*inputs)(void *context, int call, tn_tensor **in);
    /* Does what follows the call, such as an optimizer's step. May be NULL. */
    void (*after)(void *context);
    /* Returns the number of tensors that the function may change, and stores
     * them in state[], NULL where there is none, such as a gradient. May be
     * NULL. */
    int (*state)(void *context, tn_tensor **state);
} subject;

typedef enum outcome {
    COMPILED_SAME,    /* equal bits in all calls; the last ones were replays */
    COMPILED_REFUSED, /* a call was rejected that the function itself accepts */
    COMPILED_UNFIT,   /* the function itself rejects the inputs */
    COMPILED_WRONG    /* all else */
} outcome;

/* Calls both ways. The first calls of the compiled way are captures, the others
 * replays. Compares results, inputs, state and the random generator after each
 * call. If the outcome is not COMPILED_SAME, writes the reason into text. */
outcome compiled_compare(const subject *s, char *text, size_t room);

/* Adds an outcome to the verdict. A sample may be refused only if compiled.def or
 * host.def has the operator or layer. */
void compiled_count(verdict *v, const char *name, size_t sample, outcome found,
                    const char *text);
/* Prints how many samples were refused, by reason. With `all`, which means that
 * all samples were compared, returns false if a line of compiled.def is not
 * needed. */
bool compiled_print_refused(bool all);

/* As the functions of golden.h without "_compiled". Of an operator's samples,
 * every `every`th is compared. */
verdict op_file_compiled(tn_safetensors *file, size_t every);
verdict module_file_compiled(tn_safetensors *file);
verdict training_file_compiled(tn_safetensors *file, const char *name,
                               size_t every);

#endif
