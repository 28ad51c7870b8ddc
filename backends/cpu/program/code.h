/* code.h: what a program is compiled to: a flat list of block operations over
 * slots, in stages. */
#ifndef TN_CPU_CODE_H
#define TN_CPU_CODE_H

#include "../cpu.h"
#include "../jit/native_body.h"

/* Where the values of a slot lie. */
enum {
    CPU_CONSTANT, /* in the code itself: one value */
    CPU_UNIFORM,  /* one value for the launch */
    CPU_ROW,      /* one for each row of the group */
    CPU_ELEM,     /* one for each element of the block */
    CPU_GROUP     /* one for each element of the group: read by later stages */
};

typedef struct cpu_slot {
    uint8_t space, bytes;
    uint32_t offset; /* bytes for CONSTANT and UNIFORM; for the others bytes
                        for each value */
} cpu_slot;

enum {
    CPU_RUN,  /* run(out, a, b, c) */
    CPU_MATH, /* math(out, a, b, c): a printed function */
    CPU_PAIR, /* PHILOX of a to out and of a + 1 to where; b, c: one value */
    CPU_BROADCAST, /* out (elem) = a (row) for each of its elements */
    CPU_FILL,      /* out = the one value of a */
    CPU_PARAM,     /* out = parameter index */
    CPU_ROWLEN,
    CPU_LOAD, /* out = operand index; a, b, c its I64 indices */
    CPU_OFFSET,
    CPU_STORE,
    CPU_REDUCE, /* reduction number index folds a; where that is b times c, it
                   takes these from rows, each less the row's number narrow[1],
                   narrow[2] if there is one; with `lines` it takes what the
                   operations before it would make of columns */
    CPU_LOOP,   /* out = the round, a its bound, b the mask of active ones; at
                   bound 0 skips jump operations */
    CPU_WHILE,  /* b &= a; where none is left, skips jump operations */
    CPU_END,    /* the next round of the loop jump operations back */
    CPU_NATIVE, /* segment number index: several of the others (native_body.h) */
    CPU_NOP     /* what is read no more */
};

/* Flags of an operation. */
enum {
    LOAD_ZERO = 1 << 0,     /* an index outside reads 0 and is no fault */
    LOAD_FOLDED = 1 << 1,   /* for reductions alone, which take columns with any
                              step between elements */
    LOAD_LENT = 1 << 2,     /* for operations that can go row by row alone: one
                              row of memory may serve all; FOLDED too: for these
                              and for reductions, which take lines of columns
                              alike */
    LOAD_SINGLE = 1 << 3,   /* LENT, for those alone that can take it as one
                              value: where it is one for all of a block, it is
                              left in memory */
    STORE_DIRECT = 1 << 4,  /* the operation that makes the value, in the same
                              part, may write it to where it is to be stored */
    STORE_CHUNKED = 1 << 5, /* DIRECT: that is a function, which goes piece by
                              piece and may store past the caches as it goes */
    STORE_STREAMED =
        1 << 6,           /* DIRECT: that is machine code, which may, if lines
                              begin where a vector may */
    RUN_FACTORS = 1 << 7, /* for the reduction `jump` operations on alone, which
                              takes the factors from rows if it can, */
    RUN_COLUMNS = 1 << 8, /* from columns */
    BROADCAST_NEEDED = 1 << 9 /* for more than those that can take rows */
};

/* What the operations before a reduction make: of the last one's operands, or
 * of the second last one's and a number. */
enum {
    CPU_PRODUCT = 1,
    /* a * b */ CPU_CENTERED /* (a - b) * c */,
    CPU_TRIPLE /* (a * b) * c */,
    CPU_CENTERED_SCALED /* (a - b) * c * number */
};

typedef struct cpu_op {
    uint8_t code;
    uint8_t scalar; /* bits: a, b, c are one value each */
    uint8_t type;   /* register type (CPU_F32 ...) of the value */
    uint16_t flags; /* LOAD_..., STORE_..., RUN_..., SPREAD_... */
    uint8_t row;    /* bits: of a, b, c the slot narrow[] has one value for
                       each row, to be taken where rows are long */
    uint8_t lent;   /* bits: a, b, c is from a LENT load */
    uint8_t allowed; /* bits: a, b, c might be one value */
    uint8_t column_form; /* REDUCE: CPU_PRODUCT ... */
    bool hoistable; /* hoisted code: hangs on no load by an index (such a load
                       itself: its indices do not) */
    uint8_t kernel; /* RUN: TN_K_... */
    uint8_t from;   /* RUN: register type of a */
    uint32_t where; /* PAIR; LOAD of hoisted code: a slot for the offsets */
    uint32_t out, a, b, c; /* slots */
    uint32_t narrow[3];
    uint32_t index; /* operand, parameter, reduction, depth of the loop;
                       MATH: function of the program */
    uint32_t jump; /* REDUCE: 1 + the segment that makes it where rows are
                      long */
    tn_cpu_run *run;
    tn_cpu_math *math;
} cpu_op;

typedef struct cpu_part {
    uint32_t first, count; /* of ops[] */
} cpu_part;

typedef struct cpu_reduce {
    uint8_t kind, type; /* type: of what is folded */
    uint32_t in, out;   /* slots */
} cpu_reduce;

typedef struct cpu_stage {
    cpu_part elem, row;
    uint32_t reduce_first, reduce_count;
} cpu_stage;

/* Operations that run as one. */
typedef struct cpu_native_operand {
    uint32_t wide;   /* slot of a block; NONE: it is one value */
    uint32_t narrow; /* slot of one value, or of one for each row, which takes
                        the place of the block where rows are long; NONE */
    uint8_t bytes;
    bool lent;
} cpu_native_operand;
typedef struct cpu_segment {
    cpu_native native;
    cpu_native_operand operand[TN_CPU_NATIVE_OPERANDS];
    uint32_t result[TN_CPU_NATIVE_RESULTS]; /* slots */
    uint32_t reduce[TN_CPU_NATIVE_FOLDS];   /* numbers of reductions */
    uint32_t work; /* instructions for a vector, about */
} cpu_segment;

typedef struct cpu_code {
    cpu_op *op;
    cpu_slot *slot;
    cpu_stage *stage;
    cpu_reduce *reduce;
    cpu_segment **segment; /* owned, as each is */
    uint8_t *constant;
    uint32_t op_count, slot_count, stage_count, reduce_count, segment_count;
    uint32_t work; /* for an element: operations, functions for several */
    uint32_t *group_slot; /* those of space CPU_GROUP */
    uint32_t group_slot_count;
    uint32_t constant_bytes, uniform_bytes, row_bytes, elem_bytes,
        group_bytes;
    bool folds_loads; /* its elem parts only load and fold */
    bool folds_columns; /* or make, of columns, what folds take line by line */
    bool hoisted;     /* what is early keeps its slots from block to block */
    uint32_t loop_depth; /* most loops inside one another */
    cpu_part uniform;
} cpu_code;

/* Compiles one of the codes; keep: for groups of whole rows. */
tn_status tn__cpu_compile(const tn_program *program,
                          const tn_cpu_routines *routines, bool keep,
                          bool hoisted, cpu_code *code);
void tn__cpu_code_release(cpu_code *code);
/* Makes one operation of two where that saves a pass (fuse.c). */
tn_status tn__cpu_fuse(const tn_cpu_routines *routines, cpu_code *code);
/* Finds operations that can run as one (native_find.c). */
tn_status tn__cpu_find_native(const tn_program *program,
                              const tn_cpu_routines *routines, bool keep,
                              cpu_code *code);
/* Gives each ELEM slot its place, so that slots whose lives do not meet share
 * one; those that a later part reads become GROUP slots (place_slots.c). */
tn_status tn__cpu_place_slots(cpu_code *code);

#endif
