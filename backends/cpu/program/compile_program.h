/* compile_program.h: the state of the compiler that turns a program's
 * instructions into block operations: operations and slots (emit.c),
 * instructions (compile_program.c) and loops (compile_loops.c). code.h explains
 * slots, stages and parts. */
#ifndef TN_CPU_COMPILE_H
#define TN_CPU_COMPILE_H

#include "code.h"

/* The instructions under compilation: the program's or those of a function that
 * is inlined. A value is the result of an instruction and has its number. */
typedef struct frame {
    const tn_kernel_ins *ins;
    uint32_t *narrow; /* narrow[value]: its CONSTANT, UNIFORM or ROW slot */
    uint32_t *wide;   /* wide[value]: its ELEM slot, or NONE */
    bool *done; /* done[number]: kept code has the instruction in an earlier
                   part */
    const uint32_t *argument; /* slots of the function's arguments */
} frame;

typedef struct loop {
    uint32_t end;       /* instruction number of the ENDLOOP */
    uint32_t operation; /* index in body of the CPU_LOOP */
    /* Instruction number of the first CARRY; number of CARRYs. */
    uint32_t first_carry, carry_count;
    uint32_t index, mask, bound; /* slots */
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
    bool keep; /* a block is a whole group: later parts reuse earlier values */
    cpu_code *code;
    frame main;
    /* Operations of the current part. The prologue holds broadcasts and runs
     * before the body. */
    op_list prologue, body;
    size_t op_room, slot_room, reduce_room, constant_room; /* allocated items */
    /* spread[slot]: the ELEM slot of its broadcast, or NONE. */
    uint32_t *spread;
    /* wanted[slot of a broadcast]: a reader needs the whole block and cannot
     * read one scalar per row. */
    bool *wanted;
    /* filled[slot]: the ROW slot of its broadcast, or NONE. */
    uint32_t *filled;
    /* producer[slot]: 1 + the index in body of the operation that computes the
     * slot. 0 if the current part does not compute it. */
    uint32_t *producer;
    size_t spread_room, filled_room, producer_room, wanted_room;
    uint8_t level; /* of the current part: CPU_UNIFORM, CPU_ROW or CPU_ELEM */
    loop loop[MAX_LOOPS];
    uint32_t depth; /* number of open loops */
    tn_status status;
} compiler;

/* Bytes of a value of each register type. */
extern const uint8_t tn__cpu_type_bytes[CPU_TYPE_COUNT];
uint8_t tn__cpu_type_of(tn_dtype dtype);

/* Makes room in an array for one more than `count` items of `bytes` bytes
 * (emit.c). items_pointer: address of the array pointer. Returns false and sets
 * the status if memory is out. */
bool tn__cpu_grow(compiler *c, void *items_pointer, size_t *room, size_t count,
                  size_t bytes);
/* Adds a slot. Returns 0 and sets the status if memory is out. */
uint32_t tn__cpu_slot_add(compiler *c, unsigned space, unsigned bytes);
/* Adds a slot with the value of a CONST instruction. */
uint32_t tn__cpu_slot_constant(compiler *c, const tn_kernel_ins *ins);
/* Adds an operation without operands at the end of the list. */
cpu_op *tn__cpu_op_add(compiler *c, op_list *list, unsigned code);
/* Adds a CPU_RUN to the body. */
void tn__cpu_run_add(compiler *c, uint32_t out, tn_cpu_run *run, uint32_t a,
                     uint32_t b, uint32_t third, unsigned scalar);
/* Returns the slot in which the current part reads a value: the ELEM slot in an
 * elem part if there is one, else the narrow slot. */
uint32_t tn__cpu_value_slot(const compiler *c, const frame *f, uint32_t value);
/* Sets the slot of a value that the current part computes. */
void tn__cpu_value_set(const compiler *c, frame *f, uint32_t value,
                       uint32_t slot);
/* Returns a slot with as many scalars as the current part processes. If `slot`
 * has fewer, adds a broadcast. by_rows: the reader accepts one scalar per row
 * where rows are long. */
uint32_t tn__cpu_whole(compiler *c, uint32_t slot, bool by_rows);
/* The same for a value, for a reader that needs the whole block. */
uint32_t tn__cpu_whole_value(compiler *c, const frame *f, uint32_t value);

/* Compiles the LOOP instruction list[at] and the CARRYs that follow it
 * (compile_loops.c). Returns the number of CARRYs. */
uint32_t tn__cpu_compile_loop(compiler *c, frame *f, const uint32_t *list,
                              uint32_t at, uint32_t count);
/* Compiles the ENDLOOP of the innermost open loop. */
void tn__cpu_compile_end(compiler *c, frame *f);

#endif
