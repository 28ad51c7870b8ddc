/* code.h: the compiled form of a program (a fused kernel). It is a flat list of
 * operations, each of which processes a whole block of elements.
 *
 * Words used here and in run/:
 * - A row has all elements of the dimensions that the program reduces, at one
 *   point of the other ("outer") dimensions. Reductions have one result per
 *   row.
 * - A group is the set of adjacent rows that a thread processes together. A
 *   block is the set of elements that one operation processes at once: a whole
 *   group, or a piece of a row.
 * - Columns are adjacent rows whose elements of equal index are contiguous in
 *   memory, as in a sum over the first dimension of a matrix.
 * - A register type is a type in which programs compute: CPU_F32, CPU_F64,
 *   CPU_I32, CPU_I64 or CPU_BOOL.
 * - A value is the result of one instruction of the program: one scalar for the
 *   launch, one scalar per row, or one scalar per element. A slot is the memory
 *   of one value. An operand is a tensor that the program loads or stores.
 * - A stage is one pass over the rows. Its elem part holds the operations on
 *   elements, including reductions. Its row part then computes scalars per row
 *   from the reductions' results. The uniform part, which computes scalars for
 *   the launch, runs once.
 * - A segment is a sequence of operations compiled to one piece of machine
 *   code.
 * - Hoisted code is for blocks with equal indices, as in grid_sample. The first
 *   of these blocks computes values from the indices, and the others reuse them
 *   (run/hoist.c). */
#ifndef TN_CPU_CODE_H
#define TN_CPU_CODE_H

#include "../cpu.h"
#include "../jit/native_body.h"

/* How many scalars a slot (the memory of one value) holds. */
enum {
    CPU_CONSTANT, /* one scalar, stored in the compiled code */
    CPU_UNIFORM,  /* one scalar for the launch */
    CPU_ROW,      /* one scalar for each row of the group */
    CPU_ELEM,     /* one scalar for each element of the block */
    CPU_GROUP     /* one scalar for each element of the group, because a later
                     stage reads the value */
};

typedef struct cpu_slot {
    uint8_t space, bytes; /* one of CPU_CONSTANT ...; bytes of one scalar */
    /* Slots of the same space share one allocation. The slot begins at offset
     * for a CONSTANT or UNIFORM slot, at offset * rows for a ROW slot, at
     * offset * elements for an ELEM or GROUP slot. */
    uint32_t offset;
} cpu_slot;

/* What an operation does. The names out, a, b, c, where, index and jump below
 * are fields of cpu_op. */
enum {
    CPU_RUN,  /* calls the routine run(out, a, b, c) */
    CPU_MATH, /* calls the generated mathematical function math(out, a, b, c) */
    CPU_PAIR, /* two results of the random generator Philox:
                 out = PHILOX(a, b, c) and where = PHILOX(a + 1, b, c), where b
                 and c are scalars */
    CPU_BROADCAST, /* out[element] = a[row of the element] */
    CPU_FILL,      /* out[i] = the scalar in slot a */
    CPU_PARAM,     /* out = launch parameter `index` */
    CPU_ROWLEN,    /* out = the number of elements of a row */
    CPU_LOAD,      /* out = the elements of operand `index`. If a, b, c are
                      present, they are the I64 indices of the elements (a
                      gather) */
    CPU_OFFSET,    /* out = the offset of each element of operand `index`: an
                      affine function of its coordinates */
    CPU_STORE,     /* writes slot a to operand `index` */
    CPU_REDUCE,    /* reduces slot a; `index` is the index of the reduction. If
                      slot a holds products of two factors, a reduction of rows
                      may instead read the factors from slots b and c. From
                      these it subtracts the scalars per row in slots narrow[1]
                      and narrow[2], if present. If column_form is set, a
                      reduction of columns may instead read the operands of the
                      preceding operation, or of the two preceding operations */
    CPU_LOOP,      /* begins a loop: out = the iteration number, a = the upper
                      bound, b = the mask of active elements. If the bound is
                      not positive, `jump` operations are skipped */
    CPU_WHILE,     /* b &= a. If no element is active, `jump` operations are
                      skipped */
    CPU_END,       /* ends an iteration: goes `jump` operations back */
    CPU_NATIVE,    /* runs segment `index`, several operations compiled to
                    * machine code (native_body.h) */
    CPU_NOP        /* a removed operation: nothing reads the result */
};

/* Flags of an operation. A value is read "in place" if its slot points to the
 * operand's memory, so that nothing is copied. */
enum {
    /* The load reads 0 for an index that is out of range. This is not an
     * error. */
    LOAD_ZERO = 1 << 0,
    /* Only reductions read the loaded value. If rows are processed as columns
     * (code.h), reductions accept any stride, so they read it in place. */
    LOAD_FOLDED = 1 << 1,
    /* The load is "lent": its value may be read in place, because all
     * operations that read it can run row by row on rows of any stride. The
     * stride is 0 if all rows are the same memory. With LOAD_FOLDED, reductions
     * of columns also read the value in place. */
    LOAD_LENT = 1 << 2,
    /* In addition to LOAD_LENT: all operations that read the value also accept
     * a scalar. If a block's elements are one broadcast element of the tensor,
     * the slot points to it. */
    LOAD_SINGLE = 1 << 3,
    /* The operation that computes the stored value is in the same list of
     * operations (part) as this STORE, and may write the value directly to the
     * operand. */
    STORE_DIRECT = 1 << 4,
    /* In addition to STORE_DIRECT: a mathematical function computes the value.
     * It runs in small chunks, which may use non-temporal stores. */
    STORE_CHUNKED = 1 << 5,
    /* In addition to STORE_DIRECT: machine code computes the value. It may use
     * non-temporal stores if every row begins at a vector boundary. */
    STORE_STREAMED = 1 << 6,
    /* Only the REDUCE that is `jump` operations later reads the result of this
     * RUN operation. A REDUCE may compute the result itself, and the RUN is
     * then skipped. With RUN_FACTORS a reduction of rows does this, with
     * RUN_COLUMNS a reduction of columns. */
    RUN_FACTORS = 1 << 7,
    RUN_COLUMNS = 1 << 8,
    /* At least one operation needs the result of this BROADCAST as a whole
     * block, because that operation cannot read one scalar per row. */
    BROADCAST_NEEDED = 1 << 9,
    /* In addition to LOAD_LENT: only machine code reads the value, and it
     * converts the dtype in memory. The value may be read in place although
     * its dtype is no register type. */
    LOAD_STORED = 1 << 10
};

/* Values of column_form: the expression that is computed by the operation
 * before a REDUCE, or by the two operations before it. */
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
    /* Bits 0, 1, 2: slot a, b, c is a broadcast of scalars per row. If rows are
     * long, the operation reads the scalars from slot narrow[0], [1], [2]
     * instead. */
    uint8_t row;
    uint8_t lent;    /* bits 0, 1, 2: slot a, b, c may be read in place
                      * (LOAD_LENT) */
    uint8_t allowed; /* bits 0, 1, 2: the routine accepts a scalar as a, b, c */
    uint8_t column_form; /* in a REDUCE, CPU_PRODUCT ..., or 0 */
    /* In hoisted code (for blocks that share indices): true if no gather (a
     * load by an index) is needed to compute the result. For a gather: true if
     * no other gather is needed to compute its indices. */
    bool hoistable;
    uint8_t kernel; /* in a RUN, the kernel instruction, TN_K_... */
    uint8_t from;   /* in a RUN, the register type of a */
    /* In a PAIR, the slot of the second result. In a gather of hoisted code,
     * the slot that stores the offsets of the loaded elements. */
    uint32_t where;
    uint32_t out, a, b, c; /* slots, or TN_CPU_NONE */
    /* narrow[0], [1], [2]: the slot of the scalars whose broadcast is in slot
     * a, b, c. A REDUCE uses narrow[1] and narrow[2] differently: see
     * CPU_REDUCE. */
    uint32_t narrow[3];
    /* The index of the operand (LOAD, OFFSET, STORE), parameter (PARAM),
     * reduction (REDUCE), segment (NATIVE) or program function (MATH). In
     * operations of loops, the nesting depth. */
    uint32_t index;
    /* In operations of loops, the number of operations to jump. In a RUN with
     * RUN_FACTORS or RUN_COLUMNS, the distance to its REDUCE. In a REDUCE, 0 if
     * no segment (a piece of JIT-compiled code) reduces long rows, else 1 + the
     * index of that segment. */
    uint32_t jump;
    tn_cpu_run *run;
    tn_cpu_math *math;
} cpu_op;

typedef struct cpu_part {
    uint32_t first, count; /* the operations op[first], ... in cpu_code */
} cpu_part;

typedef struct cpu_reduce {
    uint8_t kind, type; /* TN_REDUCE_..., and register type of the input */
    uint32_t in, out;   /* slots of the input and of the result */
} cpu_reduce;

typedef struct cpu_stage {
    cpu_part elem, row;
    /* its reductions: reduce[reduce_first], ... in cpu_code */
    uint32_t reduce_first, reduce_count;
} cpu_stage;

/* An input of a segment (operations that are compiled to machine code
 * together). */
typedef struct cpu_native_operand {
    /* The slot with one scalar for each element of a block, or NONE if the
     * input is one scalar for the launch. */
    uint32_t wide;
    /* The slot of a scalar, or of one scalar per row, or NONE. If rows are
     * long, the code reads the scalars per row from this slot instead of from
     * `wide`. */
    uint32_t narrow;
    uint8_t bytes; /* bytes of one element */
    bool lent;     /* the block may be read in place from
                    * the tensor (LOAD_LENT) */
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
    uint32_t *group_slot; /* the slots with one scalar for each element of a
                           * group (CPU_GROUP) */
    uint32_t group_slot_count;
    /* Total bytes of the slots of each kind (CPU_CONSTANT to CPU_GROUP):
     * row_bytes for one row, elem_bytes and group_bytes for one element. */
    uint32_t constant_bytes, uniform_bytes, row_bytes, elem_bytes,
        group_bytes;
    bool folds_loads; /* the operations on elements only load values and reduce
                       * them */
    /* The operations on elements only load values, reduce them, and compute the
     * expressions of column_form. A reduction of columns computes these
     * expressions itself, so it needs no other operation. */
    bool folds_columns;
    bool hoisted; /* for blocks that share indices: results of operations with
                   * `hoistable` set stay in their slots for the next block */
    uint32_t loop_depth; /* deepest nesting of loops */
    cpu_part uniform;    /* operations that run once per launch */
} cpu_code;

/* Compiles a program (compile_program.c). With `keep`, a block is a whole
 * group, so later stages reuse the values of earlier stages. Without it, every
 * stage computes all values that it needs. With `hoisted`, compiles for blocks
 * that share indices (hoist.c); the code is empty if the program has no
 * suitable gathers. */
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
/* Assigns memory to the values of a block (ELEM slots), like a register
 * allocator (place_slots.c). Values with disjoint lifetimes share memory.
 * Values that a later stage reads get memory for a whole group of rows (GROUP
 * slots). */
tn_status tn__cpu_place_slots(cpu_code *code);

#endif
