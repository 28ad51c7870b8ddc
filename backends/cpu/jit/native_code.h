/* native_code.h: machine code under construction, shared by native_code.c (the
 * loop), native_nodes.c (the instructions) and native_registers.c (where values
 * are). */
#ifndef TN_CPU_NATIVE_CODE_H
#define TN_CPU_NATIVE_CODE_H

#include "native_body.h"
#include "x86.h"

enum {
    VECTORS = 29, /* registers for values; three more are scratch */
    SCRATCH = 29,
    MASKS = 5, /* masks 1 to 5 */
    SCRATCH_MASK = 6,
    TAIL = 7,         /* mask of the last elements */
    POOL_ONES = 4,    /* entries of the constant pool that hold bytes of 1 */
    EXP_NUMBERS = 14, /* constants of an exponential */
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
    PREFETCH_AT = R15, /* address to prefetch */
    POINTERS = 9       /* R15 is the last one */
};
extern const uint8_t tn__jit_pointer_register[POINTERS];
enum { LOAD = 0x8b, LEA = 0x8d, ADD = 0x03, ADD_TO = 0x01 };

/* An exponential. Its rare arguments are handled behind the code. */
typedef struct rare_exp {
    size_t there, back; /* positions of the jump there, and of the return */
    uint8_t to, from;
} rare_exp;

typedef struct emitter {
    const cpu_native *native;
    const cpu_native_options *options;
    x86 x;
    uint32_t *last; /* of each node: its last reader; node_count: a result or a
                       fold; TN_NONE: none */
    uint8_t *reg;   /* register of its value; NO_REGISTER */
    int32_t *spill; /* stack offset; NO_SPILL */
    uint8_t *pin;   /* copies x nodes: registers reserved for the whole loop */
    bool *fixed;    /* of each node: one value for all elements */
    uint8_t *turn;  /* of each node: its vector, the first or the next */
    uint64_t *pool; /* owned; constants, one lane each */
    uint32_t pool_count, pool_room;
    rare_exp *rare; /* owned */
    uint32_t rare_count, rare_room;
    uint32_t holder[VECTORS + MASKS + 1]; /* node in each register; masks follow
                                             vectors */
    bool pinned[VECTORS];
    uint32_t at; /* the current node */
    uint32_t copy, pins, pointers;
    uint32_t turns;               /* vectors that the nodes compute at once: 1
                                     or 2 */
    uint32_t results;             /* of a vector */
    int32_t disp;                 /* elements from INDEX */
    int32_t stack;                /* bytes of spilled values */
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

/* Pointers of a copy, and their place in the call. */
uint32_t tn__jit_per_copy(const emitter *m);
x86_memory tn__jit_argument(const emitter *m, uint32_t copy, uint32_t number);
/* The register of a pointer: its own, or a scratch register. */
unsigned tn__jit_pointer(emitter *m, uint32_t copy, uint32_t number);
/* The current elements of operand or result `number`. */
x86_source tn__jit_block(emitter *m, uint32_t number, unsigned type);
x86_source tn__jit_constant(emitter *m, uint64_t bits);
x86_source tn__jit_single_of(emitter *m, uint32_t node);
x86_source tn__jit_in(unsigned reg);

/* Opcodes of floats (PS or PD), and with prefix 66 and W for the width. */
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
/* to = the maximum or minimum of a and b; to is neither. -0 < +0, and NaN
 * wins. */
void tn__jit_minmax(emitter *m, unsigned to, unsigned a, x86_source b,
                    bool greater);

/* Allocates a register for node; keep: nodes whose registers must not be
 * taken. */
unsigned tn__jit_take(emitter *m, uint32_t node, const uint32_t keep[3]);
/* The value of a node in a register; or a source that the instruction reads as
 * one value. */
unsigned tn__jit_need(emitter *m, uint32_t node, const uint32_t keep[3]);
x86_source tn__jit_source_of(emitter *m, uint32_t node, const uint32_t keep[3]);
/* Frees a node's register if the current node is its last reader. */
void tn__jit_release(emitter *m, uint32_t node);

/* ---- native_fold.c ------------------------------------------------------- */

/* Code ahead of a row's elements, for a vector, and behind all of them. */
void tn__jit_begin_folds(emitter *m);
void tn__jit_make_fold(emitter *m, uint32_t fold, const uint32_t keep[3]);
void tn__jit_end_folds(emitter *m);

/* ---- native_nodes.c, native_exp.c ---------------------------------------- */

/* Code of the current node. */
void tn__jit_make_node(emitter *m);
void tn__jit_make_exp(emitter *m, unsigned to, unsigned from);
/* Constant i of an exponential. */
uint32_t tn__jit_exp_number(int i);
/* Code behind the loop: rare exponentials. */
void tn__jit_make_rare(emitter *m);

#endif
