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
 * same number. */
typedef struct frame {
    const tn_kernel_ins *ins;
    uint32_t *narrow; /* narrow[value]: its CONSTANT, UNIFORM or ROW slot, or
                         NONE */
    uint32_t *wide;   /* wide[value]: its ELEM slot, or NONE */
    bool *done; /* done[number]: an earlier part has compiled the instruction,
                   and its value is still in its slot */
    const uint32_t *argument; /* slots of the function's arguments */
} frame;

/* A loop of kernel instructions. A CARRY is a variable that each iteration
 * updates. */
typedef struct loop {
    uint32_t end;       /* instruction number of the ENDLOOP */
    uint32_t operation; /* position of the CPU_LOOP in body */
    /* The instruction number of the first CARRY, and the number of CARRYs. */
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
    bool keep; /* a block is a whole group, so later parts reuse earlier
                  values */
    cpu_code *code;
    frame main;
    /* Operations of the current part. The prologue holds broadcasts and runs
     * before the body. */
    op_list prologue, body;
    size_t op_room, slot_room, reduce_room, constant_room; /* allocated items */
    /* spread[slot]: the ELEM slot to which the slot was broadcast, or NONE. */
    uint32_t *spread;
    /* wanted[slot]: the slot holds a broadcast, and at least one operation
     * needs all of it because it cannot read one scalar per row. */
    bool *wanted;
    /* filled[slot]: the ROW slot to which the slot was broadcast, or NONE. */
    uint32_t *filled;
    /* producer[slot]: 1 + the position in body of the operation that computes
     * the slot, or 0 if the current part does not compute it. */
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
/* Adds a slot of the given space (CPU_ROW ...) whose scalars have `bytes`
 * bytes. Returns the slot's number. Returns 0 and sets c->status if out of
 * memory. */
uint32_t tn__cpu_slot_add(compiler *c, unsigned space, unsigned bytes);
/* Adds a slot with the value of a CONST instruction. Returns its number. */
uint32_t tn__cpu_slot_constant(compiler *c, const tn_kernel_ins *ins);
/* Adds an operation without operands at the end of the list. */
cpu_op *tn__cpu_op_add(compiler *c, op_list *list, unsigned code);
/* Adds a CPU_RUN that calls `run` to the body. a, b and `third` are its
 * operands a, b and c. `scalar` is the cpu_op field of that name. */
void tn__cpu_run_add(compiler *c, uint32_t out, tn_cpu_run *run, uint32_t a,
                     uint32_t b, uint32_t third, unsigned scalar);
/* Returns the slot from which the current part reads a value. In an elem part
 * this is the value's ELEM slot if it has one, else its CONSTANT, UNIFORM or
 * ROW slot. */
uint32_t tn__cpu_value_slot(const compiler *c, const frame *f, uint32_t value);
/* Sets the slot of a value that the current part computes. */
void tn__cpu_value_set(const compiler *c, frame *f, uint32_t value,
                       uint32_t slot);
/* Returns a slot that holds the value of `slot` for each row or element that
 * the current part processes. If `slot` holds fewer scalars, adds a broadcast.
 * by_rows is true if the reader accepts one scalar per row when rows are
 * long. */
uint32_t tn__cpu_whole(compiler *c, uint32_t slot, bool by_rows);
/* Calls tn__cpu_whole for the slot of value number `value`. The reader needs a
 * whole block, so by_rows is false. */
uint32_t tn__cpu_whole_value(compiler *c, const frame *f, uint32_t value);

/* Compiles the LOOP instruction list[at] and the CARRYs that follow it
 * (compile_loops.c). Returns the number of CARRYs. */
uint32_t tn__cpu_compile_loop(compiler *c, frame *f, const uint32_t *list,
                              uint32_t at, uint32_t count);
/* Compiles the ENDLOOP of the innermost open loop. */
void tn__cpu_compile_end(compiler *c, frame *f);

/* Sets the LOAD_FOLDED, LOAD_LENT and LOAD_SINGLE flags of each load, according
 * to the operations that read the loaded value. Sets the `lent` bits of these
 * operations. */
void tn__cpu_mark_loads(compiler *c);
/* Sets `hoistable` of the operations whose result does not depend on a gather
 * (a load by an index). A store is never hoistable, because it runs for each
 * block. Returns whether hoisted code is useful: the program has a gather whose
 * indices are hoistable, is small, and has no loops. */
bool tn__cpu_mark_hoistable(compiler *c);

#endif
