/* random_program.h: random valid programs with their launch and memory, for
 * comparing executors with each other. The same seed gives the same case on
 * every machine.
 *
 * A case uses all instructions, register and storage types; pointwise and
 * staged programs; functions, loops, indexed loads (some with index faults),
 * offsets; broadcast, negative, transposed and overlapping strides, empty
 * extents; outputs in the memory of an input. */
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
    tn_launch launch; /* operands' buffers are NULL: the runner's to fill */

    /* Memory of each operand: its bytes before the launch (owned; NULL for
     * offsets), and the operand whose memory it shares, or itself. */
    unsigned char *data[RANDOM_MAX_OPERANDS];
    size_t bytes[RANDOM_MAX_OPERANDS];
    uint32_t home[RANDOM_MAX_OPERANDS];
    bool aligned; /* operands, and contiguous rows, begin at multiples of 16 */

    /* What program and launch point to. */
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

/* NULL only if memory runs out. */
random_case *random_case_new(uint64_t seed);
/* A staged program over few rows of several chunks. */
random_case *random_case_of_chunks(uint64_t seed);
void random_case_free(random_case *c);
/* Completes a case made by hand: makes the program, its key and its launch from
 * the arrays. */
void random_case_finish(random_case *c);

/* Prints the program, its layout and its parameters as TAP comments. */
void random_case_print(const random_case *c, FILE *out);

/* Compares two states of operand k's memory, all NaNs equal. Returns the
 * first element (counted from the start of the memory) that differs, or -1. */
int64_t random_case_difference(const random_case *c, uint32_t k,
                               const void *got, const void *want);

/* Bytes of one element of operand k's memory. */
size_t random_case_element_bytes(const random_case *c, uint32_t k);

#endif
