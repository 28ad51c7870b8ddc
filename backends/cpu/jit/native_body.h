/* native_body.h: a JIT compiler for elementwise expressions. It generates
 * AVX2 or AVX-512 code that computes several operations of a program in one
 * loop, as torch.compile does for pointwise kernels.
 *
 * A body is the computation of one such loop: a list of nodes in SSA form. A
 * node loads an operand, is a constant, or is an instruction of TN_KERNEL_MAP.
 * All values of a body have one width: F32 and I32, or F64 and I64. BOOL is
 * allowed with either width. The code has all values of an element in registers
 * and stores each result once. Each instruction rounds as its routine
 * (routines.h) does, so results are bit-identical.
 *
 * A fold is a reduction of a node's value over a row: a sum, product, maximum
 * or minimum. A copy is one of several rows, or chunks of TN_CHUNK elements,
 * that the code processes at the same time. A variant is the code of a body for
 * one set of options. */
#ifndef TN_CPU_NATIVE_H
#define TN_CPU_NATIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../simd/routines.h"

enum {
    TN_CPU_NATIVE_OPERANDS = 24, /* maximum number of operands */
    TN_CPU_NATIVE_RESULTS = 24,  /* maximum number of results and folds
                                  * (reductions of a row) */
    TN_CPU_NATIVE_POINTERS = TN_CPU_NATIVE_OPERANDS + TN_CPU_NATIVE_RESULTS,
    TN_CPU_NATIVE_COPIES = 4,  /* maximum number of copies (rows or chunks that
                                * the loop processes at the same time) */
    TN_CPU_NATIVE_FOLDS = 4,   /* maximum number of folds */
    TN_CPU_NATIVE_NODES = 1024 /* maximum number of nodes (SSA instructions) of
                                * a body */
};

/* A value of cpu_node.sub for MIN and MAX of floats. It selects the semantics
 * of MINPS and MAXPS: the result is the second operand if the operands are
 * equal or one is NaN. */
enum { CPU_SECOND = 1 };

/* The instruction set of the generated code. */
enum { CPU_NATIVE_NONE, CPU_NATIVE_AVX2, CPU_NATIVE_AVX512 };

typedef struct cpu_node {
    /* The instruction, one of TN_K_... (plugin_program.h). A LOAD reads operand
     * `number`. A CALL calls exp, the only supported function. */
    uint8_t op;
    /* Register types (CPU_F32 ...) of the value and of operand a. */
    uint8_t type, from;
    /* In a BITCAST, TN_BITCAST_ANY_NAN or 0. In MIN and MAX, CPU_SECOND or
     * 0. */
    uint8_t sub;
    uint32_t a, b, c; /* operands: indices of earlier nodes, or TN_NONE */
    uint32_t number;
    uint64_t bits; /* the value of a CONST node */
} cpu_node;

/* The argument of the generated code, which computes results and folds
 * (reductions of a row) from operands. The code runs `lines` iterations, and
 * each iteration processes `copies` rows of n elements. n and lines are at
 * least 1.
 *
 * at[copy * w + i] points to the current row of operand i. The operands are
 * followed by the results, then by the folds, so w = operands + results +
 * folds. A fold has one float for each row. next[i] is the stride in bytes from
 * one iteration to the next. The code changes at[] and lines.
 *
 * With the option `parts`, the argument is an array of cpu_native_call. call[p]
 * describes range p of the same rows, and the code stores the folds after the
 * last range. call[p].lines is the number of entries from call[p] to the end.
 * In all entries but the last, n is a multiple of 64 bytes of values. */
typedef struct cpu_native_call {
    int64_t n, lines;
    /* Memory to prefetch. The code prefetches 64 bytes of it for each step of
     * its loop (native_code.h). */
    const char *prefetch;
    /* Distance in bytes from the last prefetch of one row to the first prefetch
     * of the next row. */
    int64_t prefetch_next;
    int64_t next[TN_CPU_NATIVE_POINTERS];
    char *at[TN_CPU_NATIVE_COPIES * TN_CPU_NATIVE_POINTERS];
} cpu_native_call;
typedef void cpu_native_run(cpu_native_call *call);

/* The options for which a variant is generated. */
typedef struct cpu_native_options {
    uint32_t single; /* bit i: operand i has one value for a whole row */
    /* Bit i: result i is written by non-temporal stores. Its rows begin at
     * multiples of 64 bytes. */
    uint32_t streamed;
    /* Number of rows (or chunks of a row) that the code processes at the same
     * time. */
    uint8_t copies;
    /* Whether the code computes the folds (reductions of a row). It then does
     * not store results that only folds read. */
    bool folds;
    /* Bit i: the code prefetches operand i. Bit operand_count + i: the code
     * prefetches result i. */
    uint64_t prefetch_operands;
    int32_t ahead; /* distance of these prefetches, in bytes */
    /* whether the code prefetches the memory at cpu_native_call.prefetch */
    bool prefetch;
    /* whether the argument is an array of cpu_native_call; requires `folds` */
    bool parts;
} cpu_native_options;

typedef struct cpu_native_variant {
    struct cpu_native_variant *next;
    cpu_native_run *run;
    /* The executable memory that holds the code, and its size in bytes. */
    void *pages;
    size_t bytes;
    cpu_native_options options;
} cpu_native_variant;

typedef struct cpu_native {
    cpu_node *node; /* owned: node_count nodes */
    uint32_t node_count;
    uint32_t operand_count, result_count, fold_count;
    uint32_t result[TN_CPU_NATIVE_RESULTS]; /* the node of each result */
    /* folded[i]: whether result i is only the input of folds (reductions of a
     * row). Code that computes the folds does not store such a result. */
    bool folded[TN_CPU_NATIVE_RESULTS];
    /* fold[i]: the F32 node whose value row reduction i reduces */
    uint32_t fold[TN_CPU_NATIVE_FOLDS];
    uint8_t fold_kind[TN_CPU_NATIVE_FOLDS]; /* TN_REDUCE_SUM to TN_REDUCE_MIN */
    bool wide;                              /* values have 8 bytes, not 4 */
    uint8_t set; /* the instruction set: CPU_NATIVE_AVX2 or _AVX512 */
    /* linked list of all generated variants, owned; entries are added and never
     * removed */
    _Atomic(cpu_native_variant *) variants;
} cpu_native;

/* Returns how many rows or chunks code that computes the folds (reductions of a
 * row) processes at the same time, because of the number of registers. */
uint32_t tn__cpu_native_copies(const cpu_native *native);
/* Returns whether the processor is x86-64 and the system allows written memory
 * to be made executable. */
bool tn__cpu_native_available(void);
/* Returns whether the JIT compiler supports an instruction whose result has
 * register type `type` and whose first operand has type `from`. */
bool tn__cpu_native_supports(unsigned op, unsigned type, unsigned from);
/* Returns the code of the loop `native` for these options, and generates it on
 * first use. Returns NULL if out of memory. */
cpu_native_run *tn__cpu_native_get(cpu_native *native,
                                   cpu_native_options options);
void tn__cpu_native_release(cpu_native *native);

/* Generates the code of variant->options (native_code.c). Returns false if out
 * of memory. */
bool tn__cpu_native_make(const cpu_native *native, cpu_native_variant *variant);

#endif
