/* random_program.h: makes random valid kernel programs with launch arguments
 * and memory. Running them on a plugin and in the interpreter must give the
 * same results. The same seed gives the same case on every machine.
 *
 * The cases use all instructions and dtypes, pointwise programs and programs
 * with reductions, functions, loops, indexed loads (some with an index out of
 * range) and element offsets. Operands are broadcast, transposed, overlapping
 * or empty, have negative strides, or are outputs in the memory of an input. */
#ifndef TN_CHECK_RANDOM_PROGRAM_H
#define TN_CHECK_RANDOM_PROGRAM_H

#include <stdbool.h>
#include <stdio.h>
#include <tenon/plugin.h>

enum {
    RANDOM_MAX_INS = 1024,
    RANDOM_MAX_ORDER = 4096,
    RANDOM_MAX_OPERANDS = 16,
    RANDOM_MAX_PARAMS = 8,
    RANDOM_MAX_FNS = 8,
    RANDOM_MAX_STAGES = 4,
    RANDOM_MAX_NDIM = TN_MAX_NDIM
};

typedef struct random_case {
    uint64_t seed;
    tn_program program;
    tn_launch launch; /* buffers of operands are NULL; the caller sets them */

    unsigned char *data[RANDOM_MAX_OPERANDS]; /* owned: contents of each
                                                 operand's memory before the
                                                 launch, or NULL */
    size_t bytes[RANDOM_MAX_OPERANDS];        /* size of data[k] */
    uint32_t home[RANDOM_MAX_OPERANDS]; /* the operand whose data this operand
                                           uses: itself, or an input whose
                                           memory this output shares */
    bool aligned; /* operands and contiguous rows begin at multiples of 16
                     bytes */

    /* The arrays that program and launch point to. */
    tn_kernel_ins ins[RANDOM_MAX_INS];
    tn_kernel_operand operand[RANDOM_MAX_OPERANDS];
    uint8_t param_dtype[RANDOM_MAX_PARAMS];
    tn_kernel_fn fn[RANDOM_MAX_FNS];
    tn_kernel_ins fn_ins[RANDOM_MAX_FNS][RANDOM_MAX_INS];
    char fn_name[RANDOM_MAX_FNS][24];
    tn_kernel_stage stage[RANDOM_MAX_STAGES];
    uint32_t order[RANDOM_MAX_ORDER];
    int64_t extent[RANDOM_MAX_NDIM];
    tn_launch_operand launch_operand[RANDOM_MAX_OPERANDS];
    int64_t stride[RANDOM_MAX_OPERANDS][RANDOM_MAX_NDIM];
    int64_t index_stride[RANDOM_MAX_OPERANDS][3];
    int64_t index_extent[RANDOM_MAX_OPERANDS][3];
    tn_number param[RANDOM_MAX_PARAMS];
} random_case;

/* Makes the random case that the seed determines. Returns NULL only if memory
 * runs out. */
random_case *random_case_new(uint64_t seed);
/* Makes a random case with reductions over a few rows that are longer than
 * TN_CHUNK elements, the unit in which plugins reduce a row. */
random_case *random_case_of_chunks(uint64_t seed);
void random_case_free(random_case *c);
/* Completes a case whose arrays the caller has filled: sets program, its hash
 * key and launch. */
void random_case_finish(random_case *c);

/* Prints the program, its layout and its parameters as TAP comments. */
void random_case_print(const random_case *c, FILE *out);

/* Compares two versions of operand k's memory. Any NaN equals any other.
 * Returns the index of the first element in memory that differs, or -1. */
int64_t random_case_difference(const random_case *c, uint32_t k,
                               const void *got, const void *want);

/* Returns the size of an element of operand k in bytes. */
size_t random_case_element_bytes(const random_case *c, uint32_t k);

#endif
