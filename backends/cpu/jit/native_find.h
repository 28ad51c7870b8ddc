/* native_find.h: the state of the search for operations that become machine
 * code. native_find.c decides which operations join a segment, and
 * native_find_nodes.c turns them into nodes.
 *
 * A segment is a list of operations that become one piece of machine code. Its
 * body (native_body.h) computes their values as a list of nodes. A slot is the
 * memory of one value of the program (program/code.h). */
#ifndef TN_CPU_NATIVE_FIND_H
#define TN_CPU_NATIVE_FIND_H

#include "../program/compile_program.h"

typedef struct native_finder {
    cpu_code *code;
    const tn_program *program;
    cpu_op *rebuilt; /* the new list of operations, in which segments replace
                      * the operations that they compute */
    uint32_t rebuilt_count;
    /* A slot is the memory of one value. maker[slot] is 1 + the index of the
     * BROADCAST or FILL operation that writes the slot, or 0 if none does. */
    uint32_t *maker;
    /* node[slot]: the index of the node that computes the slot's value. Valid
     * if segment[slot] is not 0. */
    uint32_t *node;
    /* segment[slot]: 1 + the index of the segment that computes the slot's
     * value, or 0. */
    uint32_t *segment;
    /* deferred[slot]: whether the slot's value is computed after the current
     * segment. */
    bool *deferred;
    /* Indices of the operations in the current segment, in ascending order. */
    uint32_t *joined, joined_count;
    /* Indices of the operations that must run after the current segment. */
    uint32_t *waiting, waiting_count;
    cpu_segment *current;
    size_t node_room;
    /* Hash of the kernel language's function exp_f32, for which the JIT
     * compiler generates special code. 0 if there is no such function. */
    uint64_t exp;
    uint8_t set;   /* the instruction set (native_body.h) */
    uint8_t width; /* bytes of a value in the segment; 0 if not known yet */
    bool keep;     /* true if a block holds whole rows, so that every value is
                    * computed once */
    tn_status status;
} native_finder;

void tn__cpu_find_no_memory(native_finder *f);
/* Returns whether a value of this register type has the same number of bytes as
 * the other values of the current segment. BOOL fits every segment. The first
 * value of another type sets the width of the segment. */
bool tn__cpu_find_fits(native_finder *f, unsigned type);
/* slot_node() returns the node of a slot's value, instruction_node() the node
 * of an instruction, and function_node() the node of a function's result. If
 * there is no such node (SSA instruction) yet, they add it. They return TN_NONE
 * if machine code does not support the operation, or if out of memory. */
uint32_t tn__cpu_find_slot_node(native_finder *f, unsigned type, uint32_t slot);
uint32_t tn__cpu_find_instruction_node(native_finder *f, unsigned op,
                                       unsigned type, unsigned from,
                                       const uint32_t operand[3]);
uint32_t tn__cpu_find_function_node(native_finder *f, const tn_kernel_fn *fn,
                                    const uint32_t argument[3]);
/* operand_count() returns the number of operands of an instruction.
 * operand_type() returns the register type of operand i of an operation. */
uint32_t tn__cpu_find_operand_count(unsigned op);
unsigned tn__cpu_find_operand_type(const native_finder *f, const cpu_op *op,
                                   uint32_t i);

#endif
