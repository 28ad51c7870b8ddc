/* native_body.h: machine code, generated at run time, for pointwise values of a
 * block.
 *
 * A body is a list of nodes in SSA form: operands, constants, and instructions
 * of TN_KERNEL_MAP on registers of one width (F32 and I32, or F64 and I64, with
 * BOOL). Its code keeps all values of an element in registers and writes each
 * result once. Each instruction rounds as its routine does, so no bit changes.
 * There is a variant for each set of operands that are one value. */
#ifndef TN_CPU_NATIVE_H
#define TN_CPU_NATIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../simd/routines.h"

enum {
    TN_CPU_NATIVE_OPERANDS = 24, /* at most */
    TN_CPU_NATIVE_RESULTS = 24,  /* at most, with folds */
    TN_CPU_NATIVE_POINTERS = TN_CPU_NATIVE_OPERANDS + TN_CPU_NATIVE_RESULTS,
    TN_CPU_NATIVE_COPIES = 4,  /* at most this many rows or chunks at once */
    TN_CPU_NATIVE_FOLDS = 4,   /* at most */
    TN_CPU_NATIVE_NODES = 1024 /* at most in one body */
};

enum { CPU_SECOND = 1 }; /* MIN and MAX of floats: returns the second where
                            neither is less */

typedef struct cpu_node {
    uint8_t op;         /* TN_K_...; LOAD: operand `number`; CALL: exp */
    uint8_t type, from; /* CPU_...: of the value; of a */
    uint8_t sub;        /* BITCAST: of the instruction; MIN, MAX: CPU_SECOND */
    uint32_t a, b, c;   /* earlier nodes; TN_NONE */
    uint32_t number;
    uint64_t bits; /* CONST: its value */
} cpu_node;

/* The argument of the code, which processes `lines` rows of n elements, at
 * least one of each. at[] holds the operands, results and folds of the first
 * copy, then of the next one. next[]: bytes to those of the next row. A fold is
 * one value a row. The code advances at[] and counts lines down. With `parts`,
 * an array of `lines` such arguments, adjacent in memory, describes one row
 * each in parts. All parts but the last consist of whole vectors; lines counts
 * the remaining parts. */
typedef struct cpu_native_call {
    int64_t n, lines;
    const char
        *prefetch; /* memory to prefetch: 64 bytes for each whole vector */
    int64_t prefetch_next; /* bytes from the end of a row's to the next row's */
    int64_t next[TN_CPU_NATIVE_POINTERS];
    char *at[TN_CPU_NATIVE_COPIES * TN_CPU_NATIVE_POINTERS];
} cpu_native_call;
typedef void cpu_native_run(cpu_native_call *call);

/* The options of a variant. */
typedef struct cpu_native_options {
    uint32_t single;   /* bits: operands that are one value */
    uint32_t streamed; /* bits: results with non-temporal stores; their rows
                          begin at vector boundaries */
    uint8_t copies;
    bool folds;                 /* computes the folds, and no results that only
                                   they read */
    uint64_t prefetch_operands; /* bits: operands, then results, that the code
                                   prefetches */
    int32_t ahead;              /* by this many bytes */
    bool prefetch;              /* prefetches the call's `prefetch` */
    bool parts;                 /* folds: a call is the first of several
                                   parts */
} cpu_native_options;

typedef struct cpu_native_variant {
    struct cpu_native_variant *next;
    cpu_native_run *run;
    void *pages;
    size_t bytes;
    cpu_native_options options;
} cpu_native_variant;

typedef struct cpu_native {
    cpu_node *node; /* owned */
    uint32_t node_count;
    uint32_t operand_count, result_count, fold_count;
    uint32_t result[TN_CPU_NATIVE_RESULTS]; /* nodes */
    bool folded[TN_CPU_NATIVE_RESULTS];     /* only folds read the result */
    uint32_t fold[TN_CPU_NATIVE_FOLDS];     /* nodes, F32 */
    uint8_t fold_kind[TN_CPU_NATIVE_FOLDS]; /* TN_REDUCE_SUM .. MIN */
    bool wide;                              /* registers of 8 bytes */
    _Atomic(cpu_native_variant *) variants; /* owned; only added to */
} cpu_native;

/* Does this processor, and this system, allow such code? */
bool tn__cpu_native_available(void);
/* Is there code for this instruction? from: type of its first operand. */
bool tn__cpu_native_supports(unsigned op, unsigned type, unsigned from);
/* Returns the variant, generated now if needed; NULL: out of memory. */
cpu_native_run *tn__cpu_native_get(cpu_native *native,
                                   cpu_native_options options);
void tn__cpu_native_release(cpu_native *native);

/* native_code.c: generates the code of a variant. False: out of memory. */
bool tn__cpu_native_make(const cpu_native *native, cpu_native_variant *variant);

#endif
