/* compile_program.h: a program under compilation: its lists (emit.c),
 * instructions (compile_program.c) and loops (compile_loops.c). */
#ifndef TN_CPU_COMPILE_H
#define TN_CPU_COMPILE_H

#include "code.h"

/* A list of instructions under compilation: the program's or a function's. */
typedef struct frame {
    const tn_kernel_ins *ins;
    uint32_t *narrow;         /* slot of each value: constant, uniform or row */
    uint32_t *wide;           /* elem */
    bool *done;               /* keep: the instruction is in an earlier part */
    const uint32_t *argument; /* slots */
} frame;

typedef struct loop {
    uint32_t end;                      /* instruction number of the ENDLOOP */
    uint32_t operation;                /* of body[] */
    uint32_t first_carry, carry_count; /* instruction numbers */
    uint32_t index, mask, bound;       /* slots */
} loop;

#define MAX_LOOPS 8

typedef struct op_list {
    cpu_op *op; /* owned */
    uint32_t count;
    size_t room;
} op_list;

typedef struct compiler {
    const tn_program *program;
    const tn_cpu_routines *routines;
    bool keep;
    cpu_code *code;
    frame main;
    op_list prologue, body; /* of the current part */
    size_t op_room, slot_room, reduce_room, constant_room;
    uint32_t *spread;   /* of each slot: an elem slot with its broadcast value,
                           or NONE */
    bool *wanted;       /* of a broadcast slot: needed as a block, not only row
                           by row */
    uint32_t *filled;   /* likewise for row parts */
    uint32_t *producer; /* of each slot: 1 + index in body; 0: not made here */
    size_t spread_room, filled_room, producer_room, wanted_room;
    uint8_t level;      /* CPU_UNIFORM, CPU_ROW, CPU_ELEM: of the current
                           part */
    loop loop[MAX_LOOPS];
    uint32_t depth;
    tn_status status;
} compiler;

/* Bytes of a register of each type. */
extern const uint8_t tn__cpu_type_bytes[CPU_TYPE_COUNT];
uint8_t tn__cpu_type_of(tn_dtype dtype);

/* Grows a list to hold one more than count items (emit.c). False: out of
 * memory, and the status is set. */
bool tn__cpu_grow(compiler *c, void *items_pointer, size_t *room, size_t count,
                  size_t bytes);
/* Adds a slot. Out of memory: returns 0 and sets the status. The second adds a
 * slot that holds a constant. */
uint32_t tn__cpu_slot_add(compiler *c, unsigned space, unsigned bytes);
uint32_t tn__cpu_slot_constant(compiler *c, const tn_kernel_ins *ins);
/* Adds an operation without operands at the end of the list. */
cpu_op *tn__cpu_op_add(compiler *c, op_list *list, unsigned code);
/* Adds an operation to the body that runs a routine. */
void tn__cpu_run_add(compiler *c, uint32_t out, tn_cpu_run *run, uint32_t a,
                     uint32_t b, uint32_t third, unsigned scalar);
/* The slot of a value in the current part. */
uint32_t tn__cpu_value_slot(const compiler *c, const frame *f, uint32_t value);
void tn__cpu_value_set(const compiler *c, frame *f, uint32_t value,
                       uint32_t slot);
/* A slot with as many values as the part has. by_rows: the reader accepts one
 * value a row where rows are long. */
uint32_t tn__cpu_whole(compiler *c, uint32_t slot, bool by_rows);
/* The same for a value whose reader does not. */
uint32_t tn__cpu_whole_value(compiler *c, const frame *f, uint32_t value);

/* compile_loops.c: instruction list[at] is a LOOP. Returns the number of CARRYs
 * that follow it. */
uint32_t tn__cpu_compile_loop(compiler *c, frame *f, const uint32_t *list,
                              uint32_t at, uint32_t count);
/* Compiles its ENDLOOP. */
void tn__cpu_compile_end(compiler *c, frame *f);

#endif
