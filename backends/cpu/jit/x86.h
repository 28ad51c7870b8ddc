/* x86.h: an assembler for the x86-64 instructions that the JIT compiler needs,
 * with AVX-512 F, BW, DQ and VL. Operands are in Intel's order ("SDM", volume
 * 2): the destination first. */
#ifndef TN_CPU_X86_H
#define TN_CPU_X86_H

/* The code generator is optimised for size. */
#if defined(__OPTIMIZE__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The code generated so far. After an allocation fails, `failed` is set and no
 * more bytes are added. */
typedef struct x86 {
    uint8_t *at; /* owned */
    size_t count, room;
    bool failed;
} x86;

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13,
       R14, R15, X86_NO_INDEX };

/* Memory at base + index * scale + disp. */
typedef struct x86_memory {
    uint8_t base, index, scale; /* scale: 1, 2, 4, 8 */
    int32_t disp;
} x86_memory;

/* The last source of an instruction: a register, or memory. */
typedef struct x86_source {
    /* is_broadcast: one element of memory, broadcast to all lanes. */
    bool is_memory, is_broadcast;
    uint8_t reg;
    x86_memory memory;
} x86_source;

/* An AVX-512 instruction. map 1, 2, 3 is the opcode map 0F, 0F38, 0F3A. prefix
 * 0, 1, 2, 3 is none, 66, F3, F2. wide is EVEX.W. */
typedef struct x86_op {
    uint8_t map, prefix, opcode;
    bool wide;
} x86_op;

enum { X86_128, X86_256, X86_512 };
enum { X86_NO_IMM = -1, X86_NO_REG = 0 };

/* How an instruction executes. Lanes outside `mask` (0: no mask) become 0 if
 * `zero` is set, otherwise they keep their values. length is X86_128, X86_256
 * or X86_512. unit is the scale of a short displacement in bytes. */
typedef struct x86_form {
    uint8_t mask, length;
    bool zero;
    uint8_t unit;
} x86_form;

void tn__x86_byte(x86 *x, unsigned byte);
void tn__x86_word(x86 *x, uint32_t word); /* four bytes */
/* Emits `op first, second, source, imm`. first is a vector or a mask. second is
 * X86_NO_REG and imm X86_NO_IMM if the instruction has none. */
void tn__x86_vector(x86 *x, x86_op op, x86_form form, unsigned first,
                    unsigned second, const x86_source *source, int imm);
/* Emits an instruction on 16-bit masks, such as `kandw first, second,
 * third`. */
void tn__x86_mask(x86 *x, unsigned opcode, unsigned first, unsigned second,
                  unsigned third);
/* Load a mask from memory, store it, and set it from a 32-bit register. */
void tn__x86_mask_load(x86 *x, unsigned mask, const x86_memory *from);
void tn__x86_mask_store(x86 *x, unsigned mask, const x86_memory *to);
void tn__x86_mask_of(x86 *x, unsigned mask, unsigned from);
/* Sets the zero flag if the mask is empty. */
void tn__x86_mask_test(x86 *x, unsigned mask);
/* Prefetches a cache line into L1, into L2, or for writing. */
typedef enum x86_fetch { X86_FIRST, X86_SECOND, X86_TO_WRITE } x86_fetch;
void tn__x86_prefetch(x86 *x, x86_fetch fetch, const x86_memory *memory);
/* Emits a 64-bit integer instruction with a memory operand. opcode 8B loads, 8D
 * computes the address, 03 adds memory to reg, 01 adds reg to memory. */
void tn__x86_memory(x86 *x, unsigned opcode, unsigned reg,
                    const x86_memory *memory);
void tn__x86_add(x86 *x, unsigned to, int32_t number);
void tn__x86_alu(x86 *x, unsigned opcode, unsigned to, unsigned from);
void tn__x86_push(x86 *x, unsigned reg);
void tn__x86_pop(x86 *x, unsigned reg);
/* Emits a forward jump. opcode is that of the form with a 4-byte distance,
 * without the 0F of conditional jumps. Returns the argument of jump_here, which
 * sets the destination. */
size_t tn__x86_jump(x86 *x, unsigned opcode);
void tn__x86_jump_here(x86 *x, size_t jump);
void tn__x86_jump_back(x86 *x, unsigned opcode, size_t to);

#endif
