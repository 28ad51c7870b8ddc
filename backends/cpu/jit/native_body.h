/* native_body.h: a JIT compiler for elementwise expressions. It generates
 * AVX-512 code that computes several operations of a program in one loop, as
 * torch.compile does for pointwise kernels.
 *
 * A body is a list of nodes in SSA form. A node loads an operand, is a
 * constant, or is an instruction of TN_KERNEL_MAP. All values of a body have
 * one width: F32 and I32, or F64 and I64. BOOL is allowed with either width.
 * The code keeps all values of an element in registers and stores each result
 * once. Each instruction rounds as its routine (routines.h) does, so results
 * have the same bits.
 *
 * A fold is a reduction of a node's value over a row: a sum, product, maximum
 * or minimum. A copy is one of the rows, or chunks of TN_CHUNK elements, that
 * the code processes at the same time. A variant is the code of a body for one
 * set of options. */
#ifndef TN_CPU_NATIVE_H
#define TN_CPU_NATIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../simd/routines.h"

enum {
    TN_CPU_NATIVE_OPERANDS = 24, /* maximum number of operands */
    TN_CPU_NATIVE_RESULTS = 24,  /* maximum number of results and folds */
    TN_CPU_NATIVE_POINTERS = TN_CPU_NATIVE_OPERANDS + TN_CPU_NATIVE_RESULTS,
    TN_CPU_NATIVE_COPIES = 4,  /* maximum number of copies */
    TN_CPU_NATIVE_FOLDS = 4,   /* maximum number of folds */
    TN_CPU_NATIVE_NODES = 1024 /* maximum number of nodes of a body */
};

/* cpu_node.sub of MIN and MAX of floats: the instruction returns the second
 * operand if neither is less, that is for equal operands and for NaN (MINPS,
 * MAXPS). */
enum { CPU_SECOND = 1 };

typedef struct cpu_node {
    /* The instruction, TN_K_.... For LOAD, `number` is the operand. The only
     * function that CALL may call is exp. */
    uint8_t op;
    /* CPU_...: register types of the value and of operand a. */
    uint8_t type, from;
    /* BITCAST: the instruction's `sub`. MIN and MAX: CPU_SECOND or 0. */
    uint8_t sub;
    uint32_t a, b, c; /* operands: indices of earlier nodes, or TN_NONE */
    uint32_t number;
    uint64_t bits; /* value of a CONST */
} cpu_node;

/* The argument of the code. The code runs `lines` iterations. An iteration
 * processes `copies` rows of n elements. n and lines are at least 1.
 *
 * With w = operands + results + folds, at[copy * w + i] points to the current
 * row of operand i, then of the results, then of the folds, which are one float
 * for each row. next[i] is the stride in bytes from one iteration to the next.
 * The code changes at[] and lines.
 *
 * With the option `parts`, the argument is an array of calls that describe
 * consecutive ranges of the same rows. The folds are stored after the last
 * range. call[p].lines is the number of calls from p on. In all calls but the
 * last, n is a multiple of the lanes of a vector. */
typedef struct cpu_native_call {
    int64_t n, lines;
    const char *prefetch; /* memory to prefetch, 64 bytes for each vector */
    /* Bytes from the end of one row's prefetches to the beginning of the next
     * row's. */
    int64_t prefetch_next;
    int64_t next[TN_CPU_NATIVE_POINTERS];
    char *at[TN_CPU_NATIVE_COPIES * TN_CPU_NATIVE_POINTERS];
} cpu_native_call;
typedef void cpu_native_run(cpu_native_call *call);

/* The options of a variant. */
typedef struct cpu_native_options {
    uint32_t single; /* bit i: operand i has one value for a whole row */
    /* Bit i: result i is written by non-temporal stores. Its rows begin at
     * multiples of 64 bytes. */
    uint32_t streamed;
    /* Number of rows or chunks that the code processes at the same time. */
    uint8_t copies;
    /* The code computes the folds. It does not store results that only folds
     * read. */
    bool folds;
    /* Bits: which operands, then which results, the code prefetches. */
    uint64_t prefetch_operands;
    int32_t ahead; /* distance of these prefetches in bytes */
    /* The code prefetches cpu_native_call.prefetch. */
    bool prefetch;
    /* With folds: the argument is an array of calls (see cpu_native_call). */
    bool parts;
} cpu_native_options;

typedef struct cpu_native_variant {
    struct cpu_native_variant *next;
    cpu_native_run *run;
    /* The memory of the code, and its size. */
    void *pages;
    size_t bytes;
    cpu_native_options options;
} cpu_native_variant;

typedef struct cpu_native {
    cpu_node *node; /* owned */
    uint32_t node_count;
    uint32_t operand_count, result_count, fold_count;
    uint32_t result[TN_CPU_NATIVE_RESULTS]; /* the node of each result */
    /* Whether only folds read the result. */
    bool folded[TN_CPU_NATIVE_RESULTS];
    uint32_t fold[TN_CPU_NATIVE_FOLDS];     /* the node of each fold, an F32 */
    uint8_t fold_kind[TN_CPU_NATIVE_FOLDS]; /* TN_REDUCE_SUM .. MIN */
    bool wide;                              /* values have 8 bytes, not 4 */
    _Atomic(cpu_native_variant *) variants; /* owned; only added to */
} cpu_native;

/* Returns whether the system is x86-64 and allows memory that is made
 * executable after it was written. */
bool tn__cpu_native_available(void);
/* Returns whether the compiler has code for this instruction with a result of
 * `type` and a first operand of type `from`. */
bool tn__cpu_native_supports(unsigned op, unsigned type, unsigned from);
/* Returns the code of a body for these options and generates it if it does not
 * exist yet. Returns NULL if out of memory. */
cpu_native_run *tn__cpu_native_get(cpu_native *native,
                                   cpu_native_options options);
void tn__cpu_native_release(cpu_native *native);

/* Generates the code of variant->options (native_code.c). Returns false if out
 * of memory. */
bool tn__cpu_native_make(const cpu_native *native, cpu_native_variant *variant);

#endif
