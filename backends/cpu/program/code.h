/* code.h: compiled code: a flat list of block operations over slots, in
 * stages. */
#ifndef TN_CPU_CODE_H
#define TN_CPU_CODE_H

#include "../cpu.h"
#include "../jit/native_body.h"

/* Where the values of a slot are stored. */
enum {
    CPU_CONSTANT, /* in the code itself: one value */
    CPU_UNIFORM,  /* one value for the launch */
    CPU_ROW,      /* one for each row of the group */
    CPU_ELEM,     /* one for each element of the block */
    CPU_GROUP     /* one for each element of the group: later stages read it */
};

typedef struct cpu_slot {
    uint8_t space, bytes;
    uint32_t offset; /* CONSTANT, UNIFORM: in bytes; others: bytes times the
                        number of values */
} cpu_slot;

enum {
    CPU_RUN,       /* run(out, a, b, c) */
    CPU_MATH,      /* math(out, a, b, c): a printed function */
    CPU_PAIR,      /* out = PHILOX of a, where = PHILOX of a + 1; b, c: one
                      value */
    CPU_BROADCAST, /* out[element] = a[row] */
    CPU_FILL,      /* out[i] = the one value of a */
    CPU_PARAM,     /* out = parameter index */
    CPU_ROWLEN,
    CPU_LOAD, /* out = operand number `index`; a, b, c: its I64 indices */
    CPU_OFFSET,
    CPU_STORE,
    CPU_REDUCE, /* reduction number `index` of a. If a is b * c, it may read
                   these factors of rows instead, each minus the row's narrow[1]
                   or narrow[2] if there is one. With column_form it may read
                   the operands of columns */
    CPU_LOOP,   /* out = the iteration, a: its bound, b: the mask of active
                   elements; bound 0 skips `jump` operations */
    CPU_WHILE,  /* b &= a; if no element is active, skips `jump` operations */
    CPU_END,    /* next iteration of the loop, `jump` operations back */
    CPU_NATIVE, /* segment number `index`: several operations as machine code
                   (native_body.h) */
    CPU_NOP     /* removed: nothing reads the result */
};

/* Flags of an operation. */
enum {
    LOAD_ZERO = 1 << 0,       /* an index out of range reads 0 and is no
                                 fault */
    LOAD_FOLDED = 1 << 1,     /* only reductions read it; they accept columns
                                 with any stride */
    LOAD_LENT = 1 << 2,       /* only operations that can run row by row read
                                 it: all rows may share one row of memory. With
                                 FOLDED: these and reductions, which read blocks
                                 of columns in place */
    LOAD_SINGLE = 1 << 3,     /* LENT, and all readers accept one value: if the
                                 value is the same for the whole block, it stays
                                 in memory */
    STORE_DIRECT = 1 << 4,    /* the operation that makes the value, in the same
                                 part, may write it to its destination */
    STORE_CHUNKED = 1 << 5,   /* DIRECT, made by a printed function, which runs
                                 chunk by chunk and may use non-temporal
                                 stores */
    STORE_STREAMED = 1 << 6,  /* DIRECT, made by machine code, which may use
                                 non-temporal stores if every row begins at a
                                 vector boundary */
    RUN_FACTORS = 1 << 7,     /* only the reduction `jump` operations later
                                 reads it; it is skipped when that reads its
                                 factors from rows, */
    RUN_COLUMNS = 1 << 8,     /* or from columns */
    BROADCAST_NEEDED = 1 << 9 /* operations that cannot read one value a row
                                 need it, too */
};

/* What the operations before a REDUCE compute: from the operands of the last
 * one, or of the second last one and a number. */
enum {
    CPU_PRODUCT = 1,    /* a * b */
    CPU_CENTERED,       /* (a - b) * c */
    CPU_TRIPLE,         /* (a * b) * c */
    CPU_CENTERED_SCALED /* (a - b) * c * number */
};

typedef struct cpu_op {
    uint8_t code;
    uint8_t scalar;        /* bits: a, b, c are one value each */
    uint8_t type;          /* register type (CPU_F32 ...) of the value */
    uint16_t flags;        /* LOAD_..., STORE_..., RUN_..., BROADCAST_... */
    uint8_t row;           /* bits: for a, b, c narrow[] has one value for each
                              row, read instead where rows are long */
    uint8_t lent;          /* bits: a, b, c come from a LENT load */
    uint8_t allowed;       /* bits: a, b, c may be one value */
    uint8_t column_form;   /* REDUCE: CPU_PRODUCT ... */
    bool hoistable;        /* hoisted code: independent of loads by an index.
                              For such a load: its indices are */
    uint8_t kernel;        /* RUN: TN_K_... */
    uint8_t from;          /* RUN: register type of a */
    uint32_t where;        /* PAIR: second result; LOAD of hoisted code: a slot
                              for the offsets */
    uint32_t out, a, b, c; /* slots */
    uint32_t narrow[3];
    uint32_t index; /* operand, parameter, reduction, loop depth; MATH: function
                       of the program */
    uint32_t jump;  /* REDUCE: 1 + the segment that computes it where rows are
                       long */
    tn_cpu_run *run;
    tn_cpu_math *math;
} cpu_op;

typedef struct cpu_part {
    uint32_t first, count; /* of ops[] */
} cpu_part;

typedef struct cpu_reduce {
    uint8_t kind, type; /* type of the values that are reduced */
    uint32_t in, out;   /* slots */
} cpu_reduce;

typedef struct cpu_stage {
    cpu_part elem, row;
    uint32_t reduce_first, reduce_count;
} cpu_stage;

/* Operations that run as one piece of machine code. */
typedef struct cpu_native_operand {
    uint32_t wide;   /* slot of a block; NONE: one value */
    uint32_t narrow; /* slot of one value, or of one for each row, read instead
                        of the block where rows are long; NONE */
    uint8_t bytes;
    bool lent;
} cpu_native_operand;
typedef struct cpu_segment {
    cpu_native native;
    cpu_native_operand operand[TN_CPU_NATIVE_OPERANDS];
    uint32_t result[TN_CPU_NATIVE_RESULTS]; /* slots */
    uint32_t reduce[TN_CPU_NATIVE_FOLDS];   /* numbers of reductions */
    uint32_t work;                          /* approximate instructions for a
                                               vector */
} cpu_segment;

typedef struct cpu_code {
    cpu_op *op;
    cpu_slot *slot;
    cpu_stage *stage;
    cpu_reduce *reduce;
    cpu_segment **segment; /* owned, as is each entry */
    uint8_t *constant;
    uint32_t op_count, slot_count, stage_count, reduce_count, segment_count;
    uint32_t work;        /* for one element: operations; a function counts as
                             several */
    uint32_t *group_slot; /* the slots of space CPU_GROUP */
    uint32_t group_slot_count;
    uint32_t constant_bytes, uniform_bytes, row_bytes, elem_bytes,
        group_bytes;
    bool folds_loads;    /* its elem parts only load and reduce */
    bool folds_columns;  /* or compute what reductions can read from columns */
    bool hoisted;        /* hoistable values keep their slots from block to
                            block */
    uint32_t loop_depth; /* deepest nesting of loops */
    cpu_part uniform;
} cpu_code;

/* Compiles one of the codes; keep: for groups of whole rows. */
tn_status tn__cpu_compile(const tn_program *program,
                          const tn_cpu_routines *routines, bool keep,
                          bool hoisted, cpu_code *code);
void tn__cpu_code_release(cpu_code *code);
/* Fuses pairs of operations where that saves a pass (fuse.c). */
tn_status tn__cpu_fuse(const tn_cpu_routines *routines, cpu_code *code);
/* Finds operations that can run as machine code (native_find.c). */
tn_status tn__cpu_find_native(const tn_program *program,
                              const tn_cpu_routines *routines, bool keep,
                              cpu_code *code);
/* Places ELEM slots so that slots with disjoint lifetimes share memory. Slots
 * that a later part reads become GROUP slots (place_slots.c). */
tn_status tn__cpu_place_slots(cpu_code *code);

#endif
