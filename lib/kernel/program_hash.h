/* program_hash.h: hashes instructions, for the hash that identifies a kernel or
 * a program. */
#ifndef TN_LIB_KERNEL_PROGRAM_HASH_H
#define TN_LIB_KERNEL_PROGRAM_HASH_H

#include <base/hash.h>

#include <tenon/plugin.h>

/* Adds an instruction to a hash. Its level (per element, per row or once) is
 * left out, since the operands determine it. */
static inline void tn__hash_ins(uint64_t h[2], const tn_kernel_ins *ins)
{
    tn__hash_word(h, (uint64_t)ins->op | (uint64_t)ins->dtype << 8 |
                         (uint64_t)ins->sub << 16 | (uint64_t)ins->a << 32);
    tn__hash_word(h, (uint64_t)ins->b | (uint64_t)ins->c << 32);
    tn__hash_word(h, (uint64_t)ins->imm.i);
}

#endif
