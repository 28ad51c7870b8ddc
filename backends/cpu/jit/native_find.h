/* native_find.h: a segment of machine code under construction, shared by
 * native_find.c (which operations join) and native_find_nodes.c (their
 * nodes). */
#ifndef TN_CPU_NATIVE_FIND_H
#define TN_CPU_NATIVE_FIND_H

#include "../program/compile_program.h"

typedef struct native_finder {
    cpu_code *code;
    const tn_program *program;
    cpu_op *rebuilt; /* the new list of operations */
    uint32_t rebuilt_count;
    uint32_t *maker;                  /* of each slot: 1 + the operation that
                                         broadcasts or fills it */
    uint32_t *node;                   /* of each slot that a segment computes */
    uint32_t *segment;                /* of each slot: 1 + its segment */
    bool *deferred;                   /* of each slot: computed behind the
                                         current segment */
    uint32_t *joined, joined_count;   /* operations, in order */
    uint32_t *waiting, waiting_count; /* operations behind it */
    cpu_segment *current;
    size_t node_room;
    uint64_t exp;  /* hash of the function that has its own code; 0 */
    uint8_t width; /* bytes of the segment's registers; 0: unknown */
    bool keep;     /* code for groups of whole rows */
    tn_status status;
} native_finder;

void tn__cpu_find_no_memory(native_finder *f);
/* Is a value of this type as wide as the others of the segment? */
bool tn__cpu_find_fits(native_finder *f, unsigned type);
/* The nodes of a slot's value, an instruction and a call; TN_NONE: there is no
 * code for it, or out of memory. */
uint32_t tn__cpu_find_slot_node(native_finder *f, unsigned type, uint32_t slot);
uint32_t tn__cpu_find_instruction_node(native_finder *f, unsigned op,
                                       unsigned type, unsigned from,
                                       const uint32_t operand[3]);
uint32_t tn__cpu_find_function_node(native_finder *f, const tn_kernel_fn *fn,
                                    const uint32_t argument[3]);
/* The number of operands of an instruction; the type of an operation's
 * operand. */
uint32_t tn__cpu_find_operand_count(unsigned op);
unsigned tn__cpu_find_operand_type(const native_finder *f, const cpu_op *op,
                                   uint32_t i);

#endif
