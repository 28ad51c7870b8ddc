/* native_code.h: the state of the JIT compiler while it generates code for one
 * body. native_body.h defines body, node, fold and copy. native_code.c (the
 * loop), native_uses.c (which nodes the loop needs), native_nodes.c
 * (instructions) and native_registers.c (register allocation) share the state.
 *
 * A pinned register holds the same value during the whole loop. A single value
 * is one value for all elements of a row: a constant, or an operand in
 * cpu_native_options.single. */
#ifndef TN_CPU_NATIVE_CODE_H
#define TN_CPU_NATIVE_CODE_H

#include "native_body.h"
#include "x86.h"

enum {
    /* Registers zmm0 to zmm28 hold values. zmm29 to zmm31 are scratch
     * registers. */
    VECTORS = 29,
    SCRATCH = 29,
    MASKS = 5, /* BOOL values are in mask registers k1 to k5 */
    SCRATCH_MASK = 6,
    TAIL = 7, /* k7 selects the lanes of the last, incomplete vector */
    /* Number of 4-byte entries at the start of the constant pool whose bytes
     * are all 1. They turn a mask into BOOL bytes, which are 0 or 1. */
    POOL_ONES = 4,
    EXP_NUMBERS = 14, /* number of constants that exp reads */
    NO_REGISTER = 0xff,
    NO_SPILL = -1
};

/* General registers. INDEX holds the index of the current element, COUNT the
 * number of elements, ARGUMENTS the address of the cpu_native_call. */
enum {
    INDEX = RAX,
    COUNT = RSI,
    ARGUMENTS = RDI,
    SCRATCH_POINTER = RDX,
    POOL = R11,
    PREFETCH_AT = R15, /* holds the next address to prefetch */
    /* Number of registers that hold pointers of cpu_native_call.at. The last of
     * them is R15, unless prefetching needs it as PREFETCH_AT. */
    POINTERS = 9
};
extern const uint8_t tn__jit_pointer_register[POINTERS];
enum { LOAD = 0x8b, LEA = 0x8d, ADD = 0x03, ADD_TO = 0x01 };

/* One computation of exp in the loop. If a vector contains a rare argument (|x|
 * > 87 or NaN), the code jumps to slower code after the loop. The slower code
 * jumps back when it is done. */
typedef struct rare_exp {
    /* there: offset in the code of the jump to the slower code. back: the
     * offset to which the slower code returns. */
    size_t there, back;
    uint8_t to, from;
} rare_exp;

typedef struct emitter {
    const cpu_native *native;
    const cpu_native_options *options;
    x86 x;
    /* last[node] is the index of the last node that reads this node. It is
     * node_count if the node is a result or the input of a fold, and TN_NONE if
     * nothing reads the node. */
    uint32_t *last;
    uint8_t *reg; /* reg[node]: the register of its value, or NO_REGISTER */
    /* spill[node]: offset of the node's value on the stack, or NO_SPILL. */
    int32_t *spill;
    uint8_t *pin; /* pin[copy][node]: its pinned register, or NO_REGISTER */
    bool *fixed;  /* fixed[node]: the node has one value for a whole row */
    /* The loop may compute two vectors at a time (turns is 2). turn[node] is 0
     * if the node computes the first of them, 1 if it computes the second. All
     * are 0 if turns is 1. */
    uint8_t *turn;
    uint64_t *pool; /* the constant pool, one constant per entry; owned */
    uint32_t pool_count, pool_room;
    rare_exp *rare; /* all computations of exp in the loop; owned */
    uint32_t rare_count, rare_room;
    /* holder[r] is the node whose value is in vector register r, holder[VECTORS
     * + k] the node in mask register k. */
    uint32_t holder[VECTORS + MASKS + 1];
    bool pinned[VECTORS];
    uint32_t at; /* the node whose code is being generated */
    uint32_t copy, pins, pointers;
    /* Number of vectors of each row that the loop computes at a time: 1 or 2 */
    uint32_t turns;
    uint32_t results; /* number of results that the code stores */
    /* The current vector begins at element INDEX + disp. */
    int32_t disp;
    int32_t stack; /* bytes of stack for spilled values */
    /* exp_pin[i]: the pinned register of constant i of exp, or NO_REGISTER. */
    uint8_t exp_pin[EXP_NUMBERS];
    bool tail, wide, spilled, hoists;
} emitter;

/* ---- native_registers.c -------------------------------------------------- */

const cpu_node *tn__jit_node_of(const emitter *m, uint32_t node);
bool tn__jit_is_mask(const emitter *m, uint32_t node);
/* Returns whether a node is a single value: one value for all elements of a
 * row. Instructions may broadcast it from memory. */
bool tn__jit_is_single(const emitter *m, uint32_t node);
/* Returns whether instruction n reads `node`. */
bool tn__jit_reads(const cpu_node *n, uint32_t node);

/* The loop may process several rows at the same time (copies). per_copy()
 * returns how many entries of cpu_native_call.at belong to one of them.
 * argument() returns the memory operand that is entry `number` of a row. */
uint32_t tn__jit_per_copy(const emitter *m);
x86_memory tn__jit_argument(const emitter *m, uint32_t copy, uint32_t number);
/* Returns the register that holds a pointer. If the pointer has no register of
 * its own, loads it to SCRATCH_POINTER. */
unsigned tn__jit_pointer(emitter *m, uint32_t copy, uint32_t number);
/* Each returns a source operand for an instruction: block() the current vector
 * of operand or result `number` in memory, constant() an entry of the constant
 * pool, single_of() the memory of a value that is the same for a whole row,
 * in() a register. */
x86_source tn__jit_block(emitter *m, uint32_t number, unsigned type);
x86_source tn__jit_constant(emitter *m, uint64_t bits);
x86_source tn__jit_single_of(emitter *m, uint32_t node);
x86_source tn__jit_in(unsigned reg);

/* Each returns the encoding of an instruction with the given opcode: floats()
 * of an instruction with the suffix PS or PD, packed() of one with the
 * mandatory prefix 66. They set EVEX.W if the values of the body have 8 bytes.
 */
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
/* Generates to = greater ? max(a, b) : min(a, b), where -0 < +0. If a or b is
 * NaN, the result is NaN. Register `to` must differ from a and b. */
void tn__jit_minmax(emitter *m, unsigned to, unsigned a, x86_source b,
                    bool greater);

/* Allocates a register for a node. If no register is free, evicts the value
 * whose next use is furthest away. Never evicts the values of the nodes in
 * keep[]. */
unsigned tn__jit_take(emitter *m, uint32_t node, const uint32_t keep[3]);
/* need() returns a register with the node's value. If the value has no
 * register, need() allocates one and generates a load. source_of() returns the
 * memory of a value that is the same for a whole row and has no register. For
 * any other node it returns the register from need(). */
unsigned tn__jit_need(emitter *m, uint32_t node, const uint32_t keep[3]);
x86_source tn__jit_source_of(emitter *m, uint32_t node, const uint32_t keep[3]);
/* Frees a node's register if the node whose code is being generated is its last
 * reader. */
void tn__jit_release(emitter *m, uint32_t node);

/* ---- native_uses.c ------------------------------------------------------- */

/* Finds the last reader of each node, from which registers are freed. Nodes
 * without readers get no code. */
void tn__jit_find_last(emitter *m);
/* Returns whether the code stores a result. It does not store results that are
 * only reduced. */
bool tn__jit_is_made(const emitter *m, uint32_t result);
/* Finds the nodes that have one value for a whole row: constants and operands
 * with one value for the row, and, if m->hoists, instructions that read only
 * such nodes. These instructions run once for each row. Masks are never among
 * these nodes. */
void tn__jit_find_fixed(emitter *m);
/* Returns whether a node is computed once for each row, before the loop over
 * elements. */
bool tn__jit_is_ahead(const emitter *m, uint32_t node);
/* Returns whether the loop over elements needs the node's value: an instruction
 * in the loop reads it, or it is a result or the input of a row reduction. */
bool tn__jit_is_wanted(const emitter *m, uint32_t node);
/* Builds a body (`both`) that computes two vectors of `one`. Each instruction
 * appears twice in succession, for the first and for the second vector, so that
 * the two hide each other's latency. Nodes with one value for a row appear
 * once. map has space for two entries for each node of `one`. */
void tn__jit_pair(emitter *m, cpu_native *both, const cpu_native *one,
                  uint32_t *map);

/* ---- native_fold.c ------------------------------------------------------- */

/* begin_folds() generates the code that initialises all reductions of a row,
 * make_fold() the code that adds a vector to one reduction, and end_folds() the
 * code that combines the lanes of each and stores the results. */
void tn__jit_begin_folds(emitter *m);
void tn__jit_make_fold(emitter *m, uint32_t fold, const uint32_t keep[3]);
void tn__jit_end_folds(emitter *m);

/* ---- native_nodes.c, native_exp.c ---------------------------------------- */

/* Generates the instructions that compute node m->at. */
void tn__jit_make_node(emitter *m);
void tn__jit_make_exp(emitter *m, unsigned to, unsigned from);
/* Returns constant i of exp, as the bits of a float. */
uint32_t tn__jit_exp_number(int i);
/* Generates the slower versions of exp that follow the loop (see rare_exp). */
void tn__jit_make_rare(emitter *m);

#endif
