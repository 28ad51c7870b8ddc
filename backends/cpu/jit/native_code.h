/* native_code.h: machine code in the making, between native_code.c (the loop),
 * native_nodes.c (what is in it) and native_registers.c (where values are). */
#ifndef TN_CPU_NATIVE_CODE_H
#define TN_CPU_NATIVE_CODE_H

#include "native_body.h"
#include "x86.h"

enum {
    VECTORS = 29, /* registers for values; three are for passing needs */
    SCRATCH = 29,
    MASKS = 5, /* masks 1 to 5 */
    SCRATCH_MASK = 6,
    TAIL = 7,         /* mask of the last elements */
    POOL_ONES = 4,    /* words of the pool that are bytes of 1 */
    EXP_NUMBERS = 14, /* that an exponential is made with */
    NO_REGISTER = 0xff,
    NO_SPILL = -1
};

/* Registers: INDEX counts elements; ARGUMENTS points to the call. */
enum {
    INDEX = RAX,
    COUNT = RSI,
    ARGUMENTS = RDI,
    SCRATCH_POINTER = RDX,
    POOL = R11,
    PREFETCH_AT = R15, /* where code asks for memory */
    POINTERS = 9       /* R15 the last */
};
extern const uint8_t tn__jit_pointer_register[POINTERS];
enum { LOAD = 0x8b, LEA = 0x8d, ADD = 0x03, ADD_TO = 0x01 };

/* An exponential whose rare arguments are looked after behind the code. */
typedef struct rare_exp {
    size_t there, back; /* places of the jump, and to go on at */
    uint8_t to, from;
} rare_exp;

typedef struct emitter {
    const cpu_native *native;
    const cpu_native_options *options;
    x86 x;
    uint32_t *last; /* of each node: the last that reads it; node_count: a
                         result or a fold; TN_NONE: nobody */
    uint8_t *reg;   /* where its value is; NO_REGISTER */
    int32_t *spill; /* on the stack; NO_SPILL */
    uint8_t *pin;   /* copies x nodes: registers for the whole loop */
    bool *fixed;    /* of each node: it is one value for all elements */
    uint8_t *turn;  /* of each node: of which vector, the first or the next */
    uint64_t *pool; /* owned; constants, in words of a lane */
    uint32_t pool_count, pool_room;
    rare_exp *rare; /* owned */
    uint32_t rare_count, rare_room;
    uint32_t holder[VECTORS + MASKS + 1]; /* nodes; masks behind vectors */
    bool pinned[VECTORS];
    uint32_t at; /* the node at hand */
    uint32_t copy, pins, pointers;
    uint32_t turns; /* vectors that the nodes are of: 1, or 2 side by side */
    uint32_t results; /* of a vector */
    int32_t disp;                 /* elements from INDEX */
    int32_t stack;                /* bytes for what is spilled */
    uint8_t exp_pin[EXP_NUMBERS]; /* registers; NO_REGISTER */
    bool tail, wide, spilled, hoists;
} emitter;

/* ---- native_registers.c -------------------------------------------------- */

const cpu_node *tn__jit_node_of(const emitter *m, uint32_t node);
bool tn__jit_is_mask(const emitter *m, uint32_t node);
/* A number that an instruction may read from memory. */
bool tn__jit_is_single(const emitter *m, uint32_t node);
/* Is it an operand of the instruction? */
bool tn__jit_reads(const cpu_node *n, uint32_t node);

/* Pointers of a copy, and where the call has one. */
uint32_t tn__jit_per_copy(const emitter *m);
x86_memory tn__jit_argument(const emitter *m, uint32_t copy, uint32_t number);
/* The register that holds a pointer: its own, or one for passing needs. */
unsigned tn__jit_pointer(emitter *m, uint32_t copy, uint32_t number);
/* The elements at hand of operand or result `number`. */
x86_source tn__jit_block(emitter *m, uint32_t number, unsigned type);
x86_source tn__jit_constant(emitter *m, uint64_t bits);
x86_source tn__jit_single_of(emitter *m, uint32_t node);
x86_source tn__jit_in(unsigned reg);

/* Opcodes of floats, PS or PD, and with prefix 66 and W for the width. */
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
/* to = the greater or lesser of a and b, none of which it is: -0 < +0, and a
 * NaN where there is one. */
void tn__jit_minmax(emitter *m, unsigned to, unsigned a, x86_source b,
                    bool greater);

/* A register for node; keep: nodes whose registers stay theirs. */
unsigned tn__jit_take(emitter *m, uint32_t node, const uint32_t keep[3]);
/* The value of a node in a register; or read as one value by the instruction
 * itself. */
unsigned tn__jit_need(emitter *m, uint32_t node, const uint32_t keep[3]);
x86_source tn__jit_source_of(emitter *m, uint32_t node, const uint32_t keep[3]);
/* What the node at hand is the last to read leaves its register. */
void tn__jit_release(emitter *m, uint32_t node);

/* ---- native_fold.c -------------------------------------------------------- */

/* Ahead of the elements of a line, for a vector, and behind all of them. */
void tn__jit_begin_folds(emitter *m);
void tn__jit_make_fold(emitter *m, uint32_t fold, const uint32_t keep[3]);
void tn__jit_end_folds(emitter *m);

/* ---- native_nodes.c, native_exp.c ---------------------------------------- */

/* Code of the node at hand. */
void tn__jit_make_node(emitter *m);
void tn__jit_make_exp(emitter *m, unsigned to, unsigned from);
/* One of its numbers. */
uint32_t tn__jit_exp_number(int i);
/* What stands behind the code. */
void tn__jit_make_rare(emitter *m);

#endif
