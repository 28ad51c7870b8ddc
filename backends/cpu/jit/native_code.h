/* native_code.h: the state of the JIT compiler while it generates the code of
 * one variant. native_code.c (the loop), native_nodes.c (instructions) and
 * native_registers.c (register allocation) share it.
 *
 * Pinned registers hold one value during the whole loop. A single value is one
 * value for all elements of a row: a constant or an operand of
 * cpu_native_options.single. */
#ifndef TN_CPU_NATIVE_CODE_H
#define TN_CPU_NATIVE_CODE_H

#include "native_body.h"
#include "x86.h"

enum {
    /* zmm0 to zmm28 hold values; zmm29 to zmm31 are scratch registers. */
    VECTORS = 29,
    SCRATCH = 29,
    MASKS = 5, /* k1 to k5 hold values of type BOOL */
    SCRATCH_MASK = 6,
    TAIL = 7, /* k7: the lanes of the last, incomplete vector */
    /* The first 16 bytes of the constant pool, in entries of 4 bytes: bytes of
     * 1. */
    POOL_ONES = 4,
    EXP_NUMBERS = 14, /* number of constants that exp reads */
    NO_REGISTER = 0xff,
    NO_SPILL = -1
};

/* General registers: INDEX is the current element, COUNT the number of
 * elements, ARGUMENTS the address of the cpu_native_call. */
enum {
    INDEX = RAX,
    COUNT = RSI,
    ARGUMENTS = RDI,
    SCRATCH_POINTER = RDX,
    POOL = R11,
    PREFETCH_AT = R15, /* the next address to prefetch */
    /* Number of registers for cpu_native_call.at; R15 is the last of them. */
    POINTERS = 9
};
extern const uint8_t tn__jit_pointer_register[POINTERS];
enum { LOAD = 0x8b, LEA = 0x8d, ADD = 0x03, ADD_TO = 0x01 };

/* One computation of exp. Vectors with a rare argument (|x| > 87 or NaN) jump
 * to code after the loop and back. */
typedef struct rare_exp {
    /* Positions in the code: of the jump to the code after the loop, and where
     * that code returns to. */
    size_t there, back;
    uint8_t to, from;
} rare_exp;

typedef struct emitter {
    const cpu_native *native;
    const cpu_native_options *options;
    x86 x;
    /* last[node]: the last node that reads it; node_count if it is a result or
     * a fold; TN_NONE if nothing reads it. */
    uint32_t *last;
    uint8_t *reg; /* reg[node]: the register of its value, or NO_REGISTER */
    /* spill[node]: offset of its value on the stack, or NO_SPILL. */
    int32_t *spill;
    uint8_t *pin; /* pin[copy][node]: its pinned register, or NO_REGISTER */
    bool *fixed;  /* fixed[node]: it has one value for a whole row */
    /* turn[node]: with turns == 2, whether it computes the first (0) or the
     * second vector (1). */
    uint8_t *turn;
    uint64_t *pool; /* owned: the constants, one lane for each */
    uint32_t pool_count, pool_room;
    rare_exp *rare; /* owned: the rare cases of exp */
    uint32_t rare_count, rare_room;
    /* holder[r]: the node in vector register r. The masks follow: mask k is at
     * VECTORS + k. */
    uint32_t holder[VECTORS + MASKS + 1];
    bool pinned[VECTORS];
    uint32_t at; /* the node whose code is being generated */
    uint32_t copy, pins, pointers;
    /* Number of vectors that the nodes compute at once, 1 or 2. */
    uint32_t turns;
    uint32_t results; /* number of results of one vector */
    /* Distance of the current vector from INDEX in elements. */
    int32_t disp;
    int32_t stack; /* bytes of stack that spilled values use */
    /* exp_pin[i]: the pinned register of constant i of exp, or NO_REGISTER. */
    uint8_t exp_pin[EXP_NUMBERS];
    bool tail, wide, spilled, hoists;
} emitter;

/* ---- native_registers.c -------------------------------------------------- */

const cpu_node *tn__jit_node_of(const emitter *m, uint32_t node);
bool tn__jit_is_mask(const emitter *m, uint32_t node);
/* Returns whether a node is a single value, which an instruction may broadcast
 * from memory. */
bool tn__jit_is_single(const emitter *m, uint32_t node);
/* Returns whether instruction n reads `node`. */
bool tn__jit_reads(const cpu_node *n, uint32_t node);

/* per_copy() returns the number of pointers of a copy in cpu_native_call.at.
 * argument() returns the address of pointer `number` of a copy. */
uint32_t tn__jit_per_copy(const emitter *m);
x86_memory tn__jit_argument(const emitter *m, uint32_t copy, uint32_t number);
/* Returns the register that holds a pointer. If the pointer has no register of
 * its own, loads it to SCRATCH_POINTER. */
unsigned tn__jit_pointer(emitter *m, uint32_t copy, uint32_t number);
/* Sources of instructions. block() is the current vector of operand or result
 * `number` in memory, constant() an entry of the constant pool, single_of() the
 * memory of a single value, and in() a register. */
x86_source tn__jit_block(emitter *m, uint32_t number, unsigned type);
x86_source tn__jit_constant(emitter *m, uint64_t bits);
x86_source tn__jit_single_of(emitter *m, uint32_t node);
x86_source tn__jit_in(unsigned reg);

/* Instructions by opcode. floats() has the suffix PS or PD, packed() has the
 * prefix 66. EVEX.W is set as the width of the body requires. */
x86_op tn__jit_floats(const emitter *m, unsigned opcode);
x86_op tn__jit_packed(const emitter *m, unsigned map, unsigned opcode);
void tn__jit_emit(emitter *m, x86_op op, unsigned to, unsigned second,
                  x86_source source, int imm);
void tn__jit_emit_masked(emitter *m, x86_op op, unsigned mask, bool zero,
                         unsigned to, unsigned second, x86_source source,
                         int imm);
void tn__jit_move(emitter *m, unsigned to, unsigned from);
void tn__jit_broadcast(emitter *m, unsigned to, x86_source source);
enum { UNORDERED = 3 };
void tn__jit_compare(emitter *m, unsigned mask, unsigned a, x86_source b,
                     int predicate);
/* to = max(a, b) if greater, else min(a, b), with -0 < +0. NaN propagates. to
 * must differ from a and b. */
void tn__jit_minmax(emitter *m, unsigned to, unsigned a, x86_source b,
                    bool greater);

/* Allocates a register for a node. If none is free, evicts the value whose next
 * use is furthest away. The registers of the nodes in keep are not evicted. */
unsigned tn__jit_take(emitter *m, uint32_t node, const uint32_t keep[3]);
/* need() returns a register with the node's value and loads it if necessary.
 * source_of() returns the memory of a single value that has no register,
 * otherwise such a register. */
unsigned tn__jit_need(emitter *m, uint32_t node, const uint32_t keep[3]);
x86_source tn__jit_source_of(emitter *m, uint32_t node, const uint32_t keep[3]);
/* Frees a node's register if the current node is its last reader. */
void tn__jit_release(emitter *m, uint32_t node);

/* ---- native_fold.c ------------------------------------------------------- */

/* begin() initialises the folds of a row, make() adds a vector to one of them,
 * end() combines the lanes and stores the folds. */
void tn__jit_begin_folds(emitter *m);
void tn__jit_make_fold(emitter *m, uint32_t fold, const uint32_t keep[3]);
void tn__jit_end_folds(emitter *m);

/* ---- native_nodes.c, native_exp.c ---------------------------------------- */

/* Generates the code of node m->at. */
void tn__jit_make_node(emitter *m);
void tn__jit_make_exp(emitter *m, unsigned to, unsigned from);
/* Returns constant i of exp, as the bits of a float. */
uint32_t tn__jit_exp_number(int i);
/* Generates the code of rare arguments of exp, which follows the loop. */
void tn__jit_make_rare(emitter *m);

#endif
