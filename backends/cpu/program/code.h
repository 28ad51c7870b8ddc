/* code.h: the compiled form of a program (a fused kernel): a flat list of
 * operations, each of which processes a whole block of elements.
 *
 * Words used here and in run/:
 * - A row is one point of the outer dimensions, with all elements of the
 *   dimensions that the program reduces. Reductions have one result per row.
 * - A group is the set of adjacent rows that a thread processes together. A
 *   block is the set of elements that one operation processes at once: a whole
 *   group, or a piece of a row.
 * - Columns are adjacent rows whose elements of equal index are contiguous in
 *   memory, as in a sum over the first dimension of a matrix.
 * - A register type is a type in which programs compute: CPU_F32, CPU_F64,
 *   CPU_I32, CPU_I64 or CPU_BOOL.
 * - A value is the result of one instruction of the program: one scalar for the
 *   launch, one scalar per row, or one scalar per element. A slot stores a
 *   value. An operand is a tensor that the program loads or stores.
 * - A stage is one pass over the rows. Its elem part holds the operations on
 *   elements, including reductions. Its row part then computes scalars per row
 *   from the reductions' results. The uniform part runs once per launch.
 * - A segment is a sequence of operations compiled to one piece of machine
 *   code.
 * - Hoisted code lets blocks with equal indices reuse the values that the first
 *   of these blocks has computed from the indices (run/hoist.c). */
#ifndef TN_CPU_CODE_H
#define TN_CPU_CODE_H

#include "../cpu.h"
#include "../jit/native_body.h"

/* The space of a slot: how many scalars it holds. */
enum {
    CPU_CONSTANT, /* one scalar, stored in the compiled code */
    CPU_UNIFORM,  /* one scalar for the launch */
    CPU_ROW,      /* one scalar for each row of the group */
    CPU_ELEM,     /* one scalar for each element of the block */
    CPU_GROUP     /* one scalar for each element of the group, because a later
                     stage reads the value */
};

typedef struct cpu_slot {
    uint8_t space, bytes; /* CPU_CONSTANT ...; bytes of one scalar */
    /* Where the slot begins in the memory of its space. A CONSTANT or UNIFORM
     * slot begins at base + offset. A ROW slot begins at base + offset * rows,
     * an ELEM or GROUP slot at base + offset * elements. */
    uint32_t offset;
} cpu_slot;

/* What an operation does. out, a, b, c, where, index and jump are fields of
 * cpu_op. */
enum {
    CPU_RUN,  /* calls the routine run(out, a, b, c) */
    CPU_MATH, /* calls the generated mathematical function math(out, a, b, c) */
    CPU_PAIR, /* two results of the random generator Philox:
                 out = PHILOX(a, b, c) and where = PHILOX(a + 1, b, c), where b
                 and c are scalars */
    CPU_BROADCAST, /* out[element] = a[row of the element] */
    CPU_FILL,      /* out[i] = the scalar in slot a */
    CPU_PARAM,     /* out = launch parameter number `index` */
    CPU_ROWLEN,    /* out = the number of elements of a row */
    CPU_LOAD,      /* out = the elements of operand number `index`. If a, b, c
                      are present, they are the I64 indices of the elements (a
                      gather) */
    CPU_OFFSET,    /* out = the offset of each element of operand number
                      `index`: an affine function of its coordinates */
    CPU_STORE,     /* writes slot a to operand number `index` */
    CPU_REDUCE,    /* reduces slot a; `index` is the number of the reduction.
                      If slot a holds products of two factors, a reduction of
                      contiguous rows may read the factors from slots b and c
                      instead of slot a. It then subtracts the scalars per row
                      in slot narrow[1] from b and in slot narrow[2] from c, if
                      these slots are present. If column_form is set, a
                      reduction of columns may read the operands of the
                      preceding operations instead of slot a */
    CPU_LOOP,      /* begins a loop: out = the iteration number, a = the upper
                      bound, b = the mask of active elements. If the bound is
                      not positive, `jump` operations are skipped */
    CPU_WHILE,     /* b &= a. If no element is active, `jump` operations are
                      skipped */
    CPU_END,       /* ends an iteration: goes `jump` operations back */
    CPU_NATIVE,    /* runs segment number `index` (native_body.h) */
    CPU_NOP        /* a removed operation: nothing reads the result */
};

/* Flags of an operation. A value is read "in place" if its slot points to the
 * operand's memory, so that nothing is copied. */
enum {
    /* The load reads 0 for an index that is out of range. This is no error. */
    LOAD_ZERO = 1 << 0,
    /* Only reductions read the loaded value. They read it in place, because
     * they accept columns with any stride. */
    LOAD_FOLDED = 1 << 1,
    /* The load is "lent": its value may be read in place, because all
     * operations that read it can run row by row. The rows may have any stride,
     * and a stride of 0 if all rows are the same memory. With LOAD_FOLDED,
     * reductions also read the value, and read columns in place. */
    LOAD_LENT = 1 << 2,
    /* The load is lent, and all operations that read it also accept a scalar.
     * If the value is the same for the whole block, its slot points to that one
     * element. */
    LOAD_SINGLE = 1 << 3,
    /* The operation that computes the stored value may write it directly to the
     * destination of this STORE. It belongs to the same part. */
    STORE_DIRECT = 1 << 4,
    /* In addition to STORE_DIRECT: a mathematical function computes the value.
     * It runs in small chunks, which may use non-temporal stores. */
    STORE_CHUNKED = 1 << 5,
    /* In addition to STORE_DIRECT: machine code computes the value. It may use
     * non-temporal stores if every row begins at a vector boundary. */
    STORE_STREAMED = 1 << 6,
    /* Only one reduction reads the result of this RUN: the REDUCE that is
     * `jump` operations later. With RUN_FACTORS, the RUN is skipped if that
     * reduction reads rows as products of factors. With RUN_COLUMNS, it is
     * skipped if that reduction reads columns as the RUN's operands. */
    RUN_FACTORS = 1 << 7,
    RUN_COLUMNS = 1 << 8,
    /* At least one operation that reads the result of this BROADCAST needs the
     * whole block, because it cannot read one scalar per row. */
    BROADCAST_NEEDED = 1 << 9
};

/* Values of column_form: the expression that the operation before a REDUCE (or
 * the two operations before it) computes from its operands. */
enum {
    CPU_PRODUCT = 1,    /* a * b */
    CPU_CENTERED,       /* (a - b) * c */
    CPU_TRIPLE,         /* (a * b) * c */
    CPU_CENTERED_SCALED /* (a - b) * c * scale: two operations */
};

typedef struct cpu_op {
    uint8_t code;   /* CPU_RUN ... */
    uint8_t scalar; /* bits 0, 1, 2: slot a, b, c holds one scalar */
    uint8_t type;   /* register type (CPU_F32 ...) of the result */
    uint16_t flags; /* LOAD_..., STORE_..., RUN_..., BROADCAST_... */
    /* Bits 0, 1, 2: slot a, b, c is a broadcast of scalars per row. Where rows
     * are long, the operation reads the scalars from narrow[] instead. */
    uint8_t row;
    uint8_t lent;    /* bits 0, 1, 2: slot a, b, c comes from a lent load */
    uint8_t allowed; /* bits 0, 1, 2: the routine accepts a scalar as a, b, c */
    uint8_t column_form; /* in a REDUCE, CPU_PRODUCT ..., or 0 */
    /* In hoisted code: whether the result does not depend on a gather (a load
     * by an index). For a gather itself: whether its indices do not depend on
     * another gather. */
    bool hoistable;
    uint8_t kernel; /* in a RUN, the kernel instruction, TN_K_... */
    uint8_t from;   /* in a RUN, the register type of a */
    /* In a PAIR, the slot of the second result. In a gather of hoisted code,
     * the slot that keeps the offsets of the elements in the operand. */
    uint32_t where;
    uint32_t out, a, b, c; /* slots, or TN_CPU_NONE */
    /* narrow[0], [1], [2]: the slot of a, b, c before a broadcast expanded it
     * to a block. CPU_REDUCE describes its own use of them. */
    uint32_t narrow[3];
    /* The number of the operand (LOAD, OFFSET, STORE), parameter (PARAM),
     * reduction (REDUCE), segment (NATIVE) or program function (MATH). In
     * operations of loops, the nesting depth. */
    uint32_t index;
    /* In operations of loops, the number of operations to jump. In a RUN with
     * RUN_... flags, the distance to its REDUCE. In a REDUCE, 1 + the number of
     * the segment that computes the reduction where rows are long, or 0 if
     * there is none. */
    uint32_t jump;
    tn_cpu_run *run;
    tn_cpu_math *math;
} cpu_op;

typedef struct cpu_part {
    uint32_t first, count; /* range of op[] */
} cpu_part;

typedef struct cpu_reduce {
    uint8_t kind, type; /* TN_REDUCE_..., and register type of the input */
    uint32_t in, out;   /* slots of the input and of the result */
} cpu_reduce;

typedef struct cpu_stage {
    cpu_part elem, row;
    uint32_t reduce_first, reduce_count; /* range of reduce[] */
} cpu_stage;

/* An input of a segment. */
typedef struct cpu_native_operand {
    /* The slot of a block, or NONE if the input is a scalar. */
    uint32_t wide;
    /* The slot of a scalar, or of one scalar per row, or NONE if there is only
     * a block. Where rows are long, the code reads the scalars per row instead
     * of the block. */
    uint32_t narrow;
    uint8_t bytes; /* bytes of one element */
    bool lent;     /* the block comes from a lent load */
} cpu_native_operand;

/* Several operations that run as one piece of machine code. */
typedef struct cpu_segment {
    cpu_native native;
    cpu_native_operand operand[TN_CPU_NATIVE_OPERANDS];
    uint32_t result[TN_CPU_NATIVE_RESULTS]; /* slots of its results */
    uint32_t reduce[TN_CPU_NATIVE_FOLDS]; /* numbers of its reductions */
    uint32_t work; /* approximate number of instructions for one vector */
} cpu_segment;

typedef struct cpu_code {
    cpu_op *op;
    cpu_slot *slot;
    cpu_stage *stage;
    cpu_reduce *reduce;
    cpu_segment **segment; /* the array and its entries are owned */
    uint8_t *constant;     /* memory of CONSTANT slots */
    uint32_t op_count, slot_count, stage_count, reduce_count, segment_count;
    /* Number of operations that run for one element. A mathematical function
     * counts as several. */
    uint32_t work;
    uint32_t *group_slot; /* the slots of space CPU_GROUP */
    uint32_t group_slot_count;
    /* Total bytes of the slots of each space. row_bytes is per row, elem_bytes
     * and group_bytes are per element. */
    uint32_t constant_bytes, uniform_bytes, row_bytes, elem_bytes,
        group_bytes;
    bool folds_loads; /* the elem parts only load values and reduce them */
    /* The elem parts only load values, reduce them, and compute expressions
     * whose operands reductions of columns can read (column_form). */
    bool folds_columns;
    bool hoisted; /* this is hoisted code: hoistable values keep their memory
                     from block to block */
    uint32_t loop_depth; /* deepest nesting of loops */
    cpu_part uniform;    /* operations that run once per launch */
} cpu_code;

/* Compiles a program (compile_program.c). With `keep`, a block is a whole
 * group, so later stages reuse the values of earlier ones. Without it, every
 * stage computes again what it needs. With `hoisted`, makes hoisted code, which
 * is empty if the program has no suitable loads by an index. */
tn_status tn__cpu_compile(const tn_program *program,
                          const tn_cpu_routines *routines, bool keep,
                          bool hoisted, cpu_code *code);
void tn__cpu_code_release(cpu_code *code);
/* Fuses pairs of operations where this saves a pass over a block (fuse.c). */
tn_status tn__cpu_fuse(const tn_cpu_routines *routines, cpu_code *code);
/* Replaces operations that can run as machine code by segments
 * (native_find.c). */
tn_status tn__cpu_find_native(const tn_program *program,
                              const tn_cpu_routines *routines, bool keep,
                              cpu_code *code);
/* Assigns memory to ELEM slots, like a register allocator (place_slots.c).
 * Slots with disjoint lifetimes share memory. ELEM slots that a later stage
 * reads become GROUP slots. */
tn_status tn__cpu_place_slots(cpu_code *code);

#endif
