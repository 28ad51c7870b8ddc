/* x86.h: an assembler for the x86-64 instructions that the JIT compiler needs,
 * with AVX-512 F, BW, DQ and VL, or with AVX2, FMA and F16C. Operands are in
 * Intel's order ("SDM", volume 2): the destination first. */
#ifndef TN_CPU_X86_H
#define TN_CPU_X86_H

/* The assembler runs once per program, so it is compiled for small size. */
#if defined(__OPTIMIZE__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The code generated so far. If an allocation fails, `failed` is set and later
 * calls add nothing. */
typedef struct x86 {
    uint8_t *at; /* count bytes of code in a buffer of `room` bytes; owned */
    size_t count, room;
    bool failed;
    /* Vector instructions have VEX prefixes instead of EVEX prefixes: no masks,
     * no broadcasts from memory, and 16 registers. */
    bool vex;
} x86;

enum {
    RAX,
    RCX,
    RDX,
    RBX,
    RSP,
    RBP,
    RSI,
    RDI,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    X86_NO_INDEX
};

/* The memory at address base + index * scale + disp. */
typedef struct x86_memory {
    uint8_t base, index, scale; /* scale is 1, 2, 4 or 8 */
    int32_t disp;
} x86_memory;

/* The last source operand of an instruction: memory if is_memory is set,
 * otherwise register `reg`. */
typedef struct x86_source {
    /* With is_broadcast, the instruction reads one element of memory and
     * broadcasts it to all lanes. */
    bool is_memory, is_broadcast;
    uint8_t reg;
    x86_memory memory;
} x86_source;

/* The encoding of a vector instruction. map is 1, 2 or 3 for the opcode maps
 * 0F, 0F38 and 0F3A. prefix is 0 for no mandatory prefix, and 1, 2 or 3 for 66,
 * F3 and F2. wide is the bit W of the prefix. */
typedef struct x86_op {
    uint8_t map, prefix, opcode;
    bool wide;
} x86_op;

enum { X86_128, X86_256, X86_512 };
enum { X86_NO_IMM = -1, X86_NO_REG = 0 };

/* The mask and the vector length of an instruction. mask is the index of a mask
 * register, or 0 for no mask. Lanes outside the mask become 0 if `zero` is set,
 * otherwise they keep their values. length is X86_128, X86_256 or X86_512. EVEX
 * encodes a displacement in one byte if it is a small multiple of `unit` bytes
 * (disp8*N). */
typedef struct x86_form {
    uint8_t mask, length;
    bool zero;
    uint8_t unit;
} x86_form;

void tn__x86_byte(x86 *x, unsigned byte);
/* Appends the four bytes of a word, the lowest first. */
void tn__x86_word(x86 *x, uint32_t word);
/* Emits `op first, second, source, imm`. first is a vector or a mask register.
 * second is X86_NO_REG and imm is X86_NO_IMM if the instruction has no such
 * operand. */
void tn__x86_vector(x86 *x, x86_op op, x86_form form, unsigned first,
                    unsigned second, const x86_source *source, int imm);
/* Emits an instruction on 16-bit masks, such as `kandw first, second,
 * third`. */
void tn__x86_mask(x86 *x, unsigned opcode, unsigned first, unsigned second,
                  unsigned third);
/* mask_load() loads a mask register from memory, mask_store() stores it, and
 * mask_of() sets it from a 32-bit general register. */
void tn__x86_mask_load(x86 *x, unsigned mask, const x86_memory *from);
void tn__x86_mask_store(x86 *x, unsigned mask, const x86_memory *to);
void tn__x86_mask_of(x86 *x, unsigned mask, unsigned from);
/* Emits KORTESTW, which sets the zero flag if all bits of the mask are 0. */
void tn__x86_mask_test(x86 *x, unsigned mask);
/* Kinds of prefetch instructions: into L1 (X86_FIRST), into L2 (X86_SECOND) or
 * for writing (X86_TO_WRITE). The function emits one for a cache line. */
typedef enum x86_fetch { X86_FIRST, X86_SECOND, X86_TO_WRITE } x86_fetch;
void tn__x86_prefetch(x86 *x, x86_fetch fetch, const x86_memory *memory);
/* Emits a 64-bit integer instruction with a memory operand. Opcode 8B loads
 * reg, 8D loads the address into reg, 03 adds memory to reg, 01 adds reg to
 * memory. */
void tn__x86_memory(x86 *x, unsigned opcode, unsigned reg,
                    const x86_memory *memory);
void tn__x86_add(x86 *x, unsigned to, int32_t number);
void tn__x86_alu(x86 *x, unsigned opcode, unsigned to, unsigned from);
void tn__x86_push(x86 *x, unsigned reg);
void tn__x86_pop(x86 *x, unsigned reg);
/* jump() emits a forward jump and returns its offset in the code. jump_here()
 * makes that jump lead to the code that is emitted next. jump_back() emits a
 * jump back to offset `to`. opcode is that of the form with a 4-byte distance,
 * without the 0F of conditional jumps. */
size_t tn__x86_jump(x86 *x, unsigned opcode);
void tn__x86_jump_here(x86 *x, size_t jump);
void tn__x86_jump_back(x86 *x, unsigned opcode, size_t to);

#endif
