/* compile_program.h: the state of the compiler that turns a program's
 * instructions into block operations. emit.c adds operations and slots,
 * compile_program.c compiles instructions, compile_loops.c loops. mark_ops.c
 * sets flags of the finished operations. code.h explains slots, stages and
 * parts. */
#ifndef TN_CPU_COMPILE_H
#define TN_CPU_COMPILE_H

#include "code.h"

/* The instructions that are being compiled: those of the program, or of a
 * function that is inlined. A value is the result of an instruction and has the
 * same index. */
typedef struct frame {
    const tn_kernel_ins *ins;
    uint32_t *narrow; /* narrow[value]: the slot of its scalar (for the launch
                       * or per row), or NONE */
    uint32_t *wide;   /* wide[value]: the slot of its block (one scalar per
                       * element), or NONE */
    bool *done; /* done[number]: an earlier part has compiled the instruction,
                   and its value is still in its slot */
    const uint32_t *argument; /* slots of the function's arguments */
} frame;

/* A loop of kernel instructions. A CARRY is a variable that each iteration
 * updates. */
typedef struct loop {
    uint32_t end;       /* index of the ENDLOOP instruction */
    uint32_t operation; /* index of the loop's CPU_LOOP operation in body */
    /* The index of the first CARRY instruction, and the number of CARRYs. */
    uint32_t first_carry, carry_count;
    uint32_t index, mask, bound; /* slots of the iteration number, of the mask
                                    of active elements and of the upper bound */
} loop;

#define MAX_LOOPS 8

typedef struct op_list {
    cpu_op *op; /* owned */
    uint32_t count;
    size_t room; /* allocated items */
} op_list;

typedef struct compiler {
    const tn_program *program;
    const tn_cpu_routines *routines;
    bool keep; /* a block is a whole group of rows, so a later stage finds the
                * values of the earlier ones in their slots */
    cpu_code *code;
    frame main;
    /* The operations of the current part (cpu_part): of the code for elements,
     * for rows or for scalars that is being compiled. The prologue holds
     * broadcasts and runs before the body. */
    op_list prologue, body;
    size_t op_room, slot_room, reduce_room, constant_room; /* allocated items */
    /* spread[slot]: the block to which a slot with one scalar was broadcast
     * (its ELEM slot), or NONE. */
    uint32_t *spread;
    /* wanted[slot]: the slot holds a broadcast, and at least one operation
     * cannot read one scalar per row instead. */
    bool *wanted;
    /* filled[slot]: the slot with one scalar per row (ROW) to which the scalar
     * was broadcast, or NONE. */
    uint32_t *filled;
    /* producer[slot]: 1 + the index in body of the operation that computes the
     * slot, or 0 if the current part does not compute it. */
    uint32_t *producer;
    size_t spread_room, filled_room, producer_room, wanted_room;
    uint8_t level; /* what the current part computes values for: CPU_UNIFORM
                      for the launch, CPU_ROW for rows, CPU_ELEM for elements */
    loop loop[MAX_LOOPS];
    uint32_t depth; /* number of open loops */
    tn_status status;
} compiler;

uint8_t tn__cpu_type_of(tn_dtype dtype);

/* Makes space in an array for at least count + 1 items of `bytes` bytes
 * (emit.c). items_pointer is the address of the array's pointer. *room is the
 * number of allocated items. Returns false and sets c->status if out of
 * memory. */
bool tn__cpu_grow(compiler *c, void *items_pointer, size_t *room, size_t count,
                  size_t bytes);
/* Adds a slot (memory for a value) of the given space (CPU_ROW ...) whose
 * scalars have `bytes` bytes. Returns the slot's index. If out of memory,
 * returns 0 and sets c->status. */
uint32_t tn__cpu_slot_add(compiler *c, unsigned space, unsigned bytes);
/* Adds a slot with the value of a CONST instruction. Returns the slot's
 * index. */
uint32_t tn__cpu_slot_constant(compiler *c, const tn_kernel_ins *ins);
/* Appends an operation of kind `code`, with no operands yet, to the list. */
cpu_op *tn__cpu_op_add(compiler *c, op_list *list, unsigned code);
/* Adds a CPU_RUN that calls `run` to the body. a, b and `third` are its
 * operands a, b and c. `scalar` is the cpu_op field of that name. */
void tn__cpu_run_add(compiler *c, uint32_t out, tn_cpu_run *run, uint32_t a,
                     uint32_t b, uint32_t third, unsigned scalar);
/* Returns the slot (memory) from which the current part reads a value. If the
 * part computes elements, this is the value's ELEM slot (one scalar per
 * element) if it has one. Otherwise it is the CONSTANT, UNIFORM or ROW slot. */
uint32_t tn__cpu_value_slot(const compiler *c, const frame *f, uint32_t value);
/* Sets the slot that holds a value. The current part (compiler.level) computes
 * the value. */
void tn__cpu_value_set(const compiler *c, frame *f, uint32_t value,
                       uint32_t slot);
/* Returns a slot that holds the value of `slot` for each row or element that
 * the current part processes. If `slot` holds fewer scalars, adds a broadcast.
 * by_rows is true if the reader accepts one scalar per row when rows are
 * long. */
uint32_t tn__cpu_whole(compiler *c, uint32_t slot, bool by_rows);
/* Returns a slot with the whole block of value `value`, by tn__cpu_whole with
 * by_rows = false. */
uint32_t tn__cpu_whole_value(compiler *c, const frame *f, uint32_t value);

/* Compiles the LOOP instruction list[at] and the CARRYs (loop variables) that
 * follow it (compile_loops.c). Returns the number of CARRYs. */
uint32_t tn__cpu_compile_loop(compiler *c, frame *f, const uint32_t *list,
                              uint32_t at, uint32_t count);
/* Compiles the ENDLOOP of the innermost open loop. */
void tn__cpu_compile_end(compiler *c, frame *f);

/* Sets the LOAD_FOLDED, LOAD_LENT and LOAD_SINGLE flags of each load. They say
 * whether the operations that read the loaded value can read it from the
 * tensor's memory. Sets the `lent` bits of these operations. */
void tn__cpu_mark_loads(compiler *c);
/* Sets `hoistable` of the operations whose result does not depend on a gather
 * (a load by an index). A store is never hoistable, because it runs for each
 * block. Returns whether code for blocks that share indices (hoist.c) is
 * useful: the program has a gather whose indices are hoistable, is small, and
 * has no loops. */
bool tn__cpu_mark_hoistable(compiler *c);

#endif
