/* native_code.h: the state of the JIT compiler while it generates code for one
 * body. native_body.h defines body, node, fold and copy. native_code.c (the
 * loop), native_uses.c (which nodes the loop needs), native_nodes.c
 * (instructions), native_registers.c (register allocation) and native_target.c
 * (what AVX2 and AVX-512 do differently) share the state.
 *
 * A step of the loop computes 64 bytes of each value: one vector with AVX-512,
 * two with AVX2. The lanes of folds are therefore the same with both.
 *
 * A pinned register holds the same value during the whole loop. A single value
 * is one value for all elements of a row: a constant, or an operand in
 * cpu_native_options.single. */
#ifndef TN_CPU_NATIVE_CODE_H
#define TN_CPU_NATIVE_CODE_H

#include "native_body.h"
#include "x86.h"

enum {
    /* Vector registers 0 to 2 are scratch registers, the others hold values.
     * AVX-512 has 32 vector registers, AVX2 has 16. */
    SCRATCH = 0,
    FIRST_VALUE = 3,
    VECTORS = 32,
    /* With AVX-512, BOOL values are in mask registers k1 to k5. */
    MASKS = 5,
    TAIL = 7, /* k7 selects the lanes of the last, incomplete vector */
    STEP = 64,
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

/* What the code generator knows about an instruction set. */
typedef struct jit_target {
    /* With VEX, BOOL values are vectors whose lanes have all bits 0 or all bits
     * 1. Otherwise they are in mask registers. */
    bool vex;
    uint8_t length, bytes; /* of a vector: X86_256 or X86_512, and in bytes */
    uint8_t registers;     /* number of vector registers */
    /* The mask register for intermediate values. With VEX it is the last
     * scratch register. */
    uint8_t scratch_mask;
    uint8_t pins; /* most registers that may hold one value in the whole loop */
    /* Bytes of stack at RSP where elements of an incomplete vector are put
     * together. */
    uint8_t buffer;
    /* The constant pool begins with `ones` bytes of 0 or 255, which are masks
     * of incomplete vectors, followed by bytes of 1, which turn masks into BOOL
     * values. Its constants begin at `pool`, and each has `entry` bytes, or as
     * many as a value if entry is 0. */
    uint8_t ones, pool, entry;
} jit_target;

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
    const jit_target *target;
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
    /* Number of vectors of each row whose instructions are interleaved: 1 or
     * 2 */
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
/* Returns whether a node's value is in a mask register. */
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

/* ---- native_target.c ------------------------------------------------------ */

const jit_target *tn__jit_target_of(unsigned set);
/* Number of elements of a vector, and of vectors in a step of the loop. */
int32_t tn__jit_lanes(const emitter *m);
uint32_t tn__jit_halves(const emitter *m);
/* A mask is a mask register or, with VEX, a vector register. compare() sets it
 * from floats, compare_whole() from integers with a predicate EQ, NE, LT or LE
 * of predicate_of() (native_nodes.c). */
enum { UNORDERED = 3 };
void tn__jit_compare(emitter *m, unsigned mask, unsigned a, x86_source b,
                     int predicate);
void tn__jit_compare_whole(emitter *m, unsigned mask, unsigned a, x86_source b,
                           int predicate);
/* Generates to = a op b for masks. */
enum { KAND = 0x41, KANDN, KNOT = 0x44, KOR, KXNOR, KXOR };
void tn__jit_logic(emitter *m, unsigned op, unsigned to, unsigned a,
                   unsigned b);
/* Generates a jump that is taken if any lane of the mask is set. Returns the
 * jump's offset. */
size_t tn__jit_jump_if_any(emitter *m, unsigned mask);
/* blend() generates to = mask ? chosen : otherwise, clear() to = mask ? 0 : to,
 * and pick() to = mask ? number : 0. */
void tn__jit_blend(emitter *m, unsigned to, unsigned otherwise,
                   x86_source chosen, unsigned mask);
void tn__jit_clear(emitter *m, unsigned to, unsigned mask);
void tn__jit_pick(emitter *m, unsigned to, unsigned mask, uint64_t number);
/* Generates to = greater ? max(a, b) : min(a, b), where -0 < +0. If a or b is
 * NaN, the result is NaN. Register `to` must differ from a and b. With VEX, the
 * code changes the other scratch registers. */
void tn__jit_minmax(emitter *m, unsigned to, unsigned a, x86_source b,
                    bool greater);
/* Each generates an operation on 8-byte integers that AVX2 lacks: MUL, SHR,
 * MIN, MAX, ABS, and the conversion to F64. */
bool tn__jit_make_wide(emitter *m, unsigned op, unsigned to, unsigned a,
                       x86_source b);
/* Generates the code that prepares the masks of the last, incomplete step.
 * tail_mask() returns the mask of the current vector in it. */
void tn__jit_begin_tail(emitter *m);
unsigned tn__jit_tail_mask(emitter *m);
/* Each loads or stores the current vector of an operand or result. In an
 * incomplete vector, no memory outside the row is accessed. */
void tn__jit_load(emitter *m, unsigned to, x86_source from);
void tn__jit_store(emitter *m, unsigned from, x86_source to, bool streamed);
void tn__jit_load_bool(emitter *m, unsigned to, const cpu_node *n);
void tn__jit_store_bool(emitter *m, unsigned from, x86_source to);
/* Appends the start of the constant pool. */
void tn__jit_pool_begin(emitter *m);

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
