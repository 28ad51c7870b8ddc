/* native_body.h: machine code, made at run time, for pointwise values of a block.
 *
 * A body is a list of nodes in SSA form: operands, constants, instructions of
 * TN_KERNEL_MAP on registers of one width (F32 and I32, or F64 and I64, with
 * BOOL). Its code takes all values of an element through registers and writes
 * each result once; each instruction rounds as its routine does, so no bit
 * changes. There is a variant for each set of operands that are one value. */
#ifndef TN_CPU_NATIVE_H
#define TN_CPU_NATIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../simd/routines.h"

enum {
    TN_CPU_NATIVE_OPERANDS = 24, /* most */
    TN_CPU_NATIVE_RESULTS = 24,  /* most, with folds */
    TN_CPU_NATIVE_POINTERS = TN_CPU_NATIVE_OPERANDS + TN_CPU_NATIVE_RESULTS,
    TN_CPU_NATIVE_COPIES = 4,  /* most rows or chunks side by side */
    TN_CPU_NATIVE_FOLDS = 4,   /* most */
    TN_CPU_NATIVE_NODES = 1024 /* most that are found for one body */
};

enum { CPU_SECOND = 1 }; /* of floats: the second, where neither is less */

typedef struct cpu_node {
    uint8_t op;         /* TN_K_...; LOAD: operand `number`; CALL: exp */
    uint8_t type, from; /* CPU_...: of the value; of a */
    uint8_t sub;        /* BITCAST: of the instruction; MIN, MAX: CPU_SECOND */
    uint32_t a, b, c;   /* nodes before it; TN_NONE */
    uint32_t number;
    uint64_t bits; /* CONST: its value */
} cpu_node;

/* What code is called with, for lines of n elements, at least one. at[] has the
 * operands, the results and the folds of the first copy, then those of the next
 * one; next[]: bytes to those of the next line. A fold is one value a line. The
 * code moves at[] and counts lines down. In parts, it is what is in all of
 * `lines` calls, one behind the other in memory, of which all but the last have
 * whole vectors, and lines to come. */
typedef struct cpu_native_call {
    int64_t n, lines;
    const char
        *prefetch; /* what is asked for: 64 bytes for each whole vector */
    int64_t prefetch_next; /* and from the end of a line to where the next one asks */
    int64_t next[TN_CPU_NATIVE_POINTERS];
    char *at[TN_CPU_NATIVE_COPIES * TN_CPU_NATIVE_POINTERS];
} cpu_native_call;
typedef void cpu_native_run(cpu_native_call *call);

/* How the code goes. */
typedef struct cpu_native_options {
    uint32_t single; /* bits: operands that are one value */
    uint32_t streamed; /* bits: results that go past the caches; lines of theirs
                        begin where a vector may */
    uint8_t copies;
    bool folds; /* it makes the folds, and no results that they alone read */
    uint64_t prefetch_operands; /* bits: operands, and behind them results, that it asks for
                       ahead of where it is, */
    int32_t ahead;  /* by so many bytes */
    bool prefetch;  /* it asks for what will be read: the call's */
    bool parts; /* folds: a call is the first of several */
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
    bool folded[TN_CPU_NATIVE_RESULTS];     /* result: for folds alone */
    uint32_t fold[TN_CPU_NATIVE_FOLDS];     /* nodes, F32 */
    uint8_t fold_kind[TN_CPU_NATIVE_FOLDS]; /* TN_REDUCE_SUM .. MIN */
    bool wide;                              /* registers of 8 bytes */
    _Atomic(cpu_native_variant *) variants; /* owned; only ever more */
} cpu_native;

/* Can this processor and this system have such code? */
bool tn__cpu_native_available(void);
/* Is there code for this instruction? from: the type of its first operand. */
bool tn__cpu_native_supports(unsigned op, unsigned type, unsigned from);
/* The variant, made now if there is none yet; NULL without memory for it. */
cpu_native_run *tn__cpu_native_get(cpu_native *native,
                                   cpu_native_options options);
void tn__cpu_native_release(cpu_native *native);

/* native_code.c: makes the code of a variant. False without memory. */
bool tn__cpu_native_make(const cpu_native *native, cpu_native_variant *variant);

#endif
