/* tenon/plugin_program.h: kernel programs, which a device executes. It is part
 * of <tenon/plugin.h>, which includes this header.
 *
 * A program is a fused kernel. It runs over an iteration space of outer and row
 * dimensions. A row consists of all elements that have the same coordinates in
 * the outer dimensions, in row-major order of the row dimensions: element k of
 * the row is the k-th of these. A value has one of three levels:
 *   uniform  one value for the whole launch (constants, parameters),
 *   row      one value per row (results of reductions, loads of row operands),
 *   elem     one value per element.
 *
 * Instructions are in SSA form. An operand is the index of an earlier
 * instruction; only the carried value of a loop refers to a later instruction.
 * Each instruction has one register type: F32 F64 I32 I64 BOOL. LOAD widens
 * narrower storage types, and STORE narrows to them (f16 bf16 f8 <-> F32, i8
 * i16 u8 <-> I32).
 *
 * A program is a list of stages. Each row executes the stages in order. A stage
 * executes its elem instructions for every element of the row, with its
 * reductions. Then it executes its row instructions once. `order` lists the
 * instructions of each part:
 *   - A REDUCE is in the elem part of its stage, after its operand. Its value
 *     is available in the row part.
 *   - A region (a loop, from LOOP to ENDLOOP) is listed whole, without the
 *     instructions that were moved out of it.
 *   - An elem instruction may be in several stages. An executor recomputes its
 *     value there, or stores it if it prefers.
 *   - A STORE or a REDUCE is in one stage.
 * Without row dimensions (row_ndim 0) every row has one element. A program
 * without a REDUCE and without results of level ROW has one stage, whose elem
 * part does all the work.
 *
 * Total semantics: every instruction is defined for every input. */
#ifndef TENON_PLUGIN_PROGRAM_H
#define TENON_PLUGIN_PROGRAM_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_buffer tn_buffer; /* memory of a device */

#define TN_NONE 0xffffffffu /* marks an absent operand of an instruction */

/* Each row has an instruction's name, its number of operands, and its meaning.
 * T is the result's register type. x, y and z are the values of the operands a,
 * b and c, which have type T unless stated otherwise. */
#define TN_KERNEL_MAP(X)                                                      \
    X(CONST, 0, "imm.f for F32 (rounded to f32) and F64, imm.i for others")   \
    X(PARAM, 0, "launch parameter number imm.i, rounded to T")                \
    X(ARG, 0, "argument number imm.i of the function (in tn_kernel_fn)")      \
    X(LOAD, 3, "the element of operand imm.i at this element (row); a, b, "   \
               "c, where not TN_NONE, are I64 indices: index k times "        \
               "index_stride[k] is added to the offset. An index outside "    \
               "[0, index_extent) reads 0, and raises the index fault of "    \
               "the queue unless sub has TN_LOAD_ZERO")                       \
    X(OFFSET, 0, "I64: the operand's offset plus the sum of coordinate * "    \
                 "stride of operand imm.i, which needs no buffer. It "        \
                 "computes coordinates and element numbers")                  \
    X(ROWLEN, 0, "I64, uniform: the number of elements of a row")             \
    X(STORE, 1, "writes a, narrowed as by NARROW, to operand imm.i at this "  \
                "element (row)")                                              \
    X(CALL, 3, "the result of function imm.i of the program for the "         \
               "arguments a, b, c")                                           \
    X(REDUCE, 1, "row value: the reduction, of kind sub, of a over the row")  \
    X(CAST, 1, "a (any type) converted to T: to a float, round to nearest "   \
               "even; float to integer, truncate, saturate, NaN to 0; "       \
               "integer to integer, wrap; to BOOL, x != 0 (NaN is true); "    \
               "from BOOL, 0 or 1")                                           \
    X(BITCAST, 1, "same bits: F32 <-> I32, F64 <-> I64. Every NaN becomes "   \
                  "0x7fc00000 or 0x7ff8000000000000; with "                   \
                  "TN_BITCAST_ANY_NAN in sub, the executor may also keep "    \
                  "the bits of the NaN")                                      \
    X(NARROW, 1, "the value that a store of a as dtype sub and a load of it " \
                 "would give: f16, bf16, f8 round to nearest even; f8 also "  \
                 "saturates at the largest finite value (f8e5m2 keeps "       \
                 "infinities), NaN stays NaN; i8, i16, u8 wrap")              \
    X(SELECT, 3, "a (BOOL) ? b : c")                                          \
    X(ADD, 2, "x + y; integers wrap; BOOL: or")                               \
    X(SUB, 2, "x - y; integers wrap")                                         \
    X(MUL, 2, "x * y; integers wrap; BOOL: and")                              \
    X(DIV, 2, "float: correctly rounded x / y; integer: toward zero, x / 0 "  \
              "is 0, MIN / -1 is MIN")                                        \
    X(REM, 2, "x - y * trunc(x / y), exact, sign of x; float: C's fmod; "     \
              "integer: x % 0 is 0, MIN % -1 is 0")                           \
    X(FMA, 3, "float: x * y + z rounded once")                                \
    X(NEG, 1, "-x; integers wrap; float: the sign bit flips")                 \
    X(ABS, 1, "|x|; MIN stays MIN; float: the sign bit is cleared")           \
    X(MIN, 2, "the lesser; -0 < +0; if one is NaN, NaN; BOOL: and")           \
    X(MAX, 2, "the greater; -0 < +0; if one is NaN, NaN; BOOL: or")           \
    X(SQRT, 1, "float: correctly rounded; of x < 0: NaN; of -0: -0")          \
    X(FLOOR, 1, "float: largest integral value <= x; keeps the sign of 0")    \
    X(CEIL, 1, "float: smallest integral value >= x; keeps the sign of 0")    \
    X(TRUNC, 1, "float: toward zero; keeps the sign of 0")                    \
    X(RINT, 1, "float: nearest, ties to even; keeps the sign of 0")           \
    X(EQ, 2, "BOOL: x == y; NaN: false")                                      \
    X(NE, 2, "BOOL: x != y; NaN: true")                                       \
    X(LT, 2, "BOOL: x < y; NaN: false; integers signed")                      \
    X(LE, 2, "BOOL: x <= y; NaN: false; integers signed")                     \
    X(AND, 2, "integer or BOOL: bitwise and")                                 \
    X(OR, 2, "integer or BOOL: bitwise or")                                   \
    X(XOR, 2, "integer or BOOL: bitwise exclusive or")                        \
    X(NOT, 1, "integer: all bits flipped; BOOL: not")                         \
    X(SHL, 2, "integer: x << y; y outside [0, width): 0")                     \
    X(SHR, 2, "integer: arithmetic x >> y; y outside [0, width): x < 0 ? -1 " \
              ": 0")                                                          \
    X(SHRL, 2, "integer: logical x >> y; y outside [0, width): 0")            \
    X(MULHI, 2, "I32: high half of the unsigned 32 x 32 bit product")         \
    X(PHILOX, 3, "I32: word (a & 3) of Philox4x32-10 with counter words "     \
                 "(lo, hi) of a >> 2 (logical), (lo, hi) of c and key words " \
                 "(lo, hi) of b; a, b, c I64")                                \
    X(LOOP, 1, "I64: the number i of this iteration, from 0. Starts a "       \
               "region that ends at instruction imm.i, its ENDLOOP. The "     \
               "region runs at most max(0, a) times (a is I64, uniform)")     \
    X(CARRY, 2, "a value carried from iteration to iteration. It is a in "    \
                "the first one. In each later one, it is what b was at the "  \
                "end of the one before. After the region it is the last "     \
                "value. b is any value that is available at the end of the "  \
                "region; if b is another CARRY, its value in that iteration " \
                "is used. Directly follows LOOP or CARRY")                    \
    X(WHILE, 1, "if a (BOOL) is false, the loop ends for this element, "      \
                "whose carried values stay as they were at the start of "     \
                "this iteration")                                             \
    X(ENDLOOP, 0, "the end of the region")

enum {
#define TN_KERNEL_ENUM(name, operands, text) TN_K_##name,
    TN_KERNEL_MAP(TN_KERNEL_ENUM)
#undef TN_KERNEL_ENUM
    TN_K_END
};

/* Values of `sub` in a REDUCE: the kind of reduction. SUM and PROD have a fixed
 * order. Element k of the row is in chunk k / TN_CHUNK, and there in lane
 * k % TN_LANES.
 *   1. Each lane combines its elements in order of rising k.
 *   2. The lanes of a chunk are combined by halves: lane i with lane
 *      i + TN_LANES/2, then with lane i + TN_LANES/4, and so on.
 *   3. The chunks are combined pairwise by index: chunk 2j with 2j + 1, then 4j
 *      with 4j + 2, and so on.
 * Absent elements, lanes and chunks are skipped, and not replaced by a neutral
 * element. (A lane filled with -0.0 for SUM, or with 1.0 for PROD, gives the
 * same bits.) The other kinds do not depend on the order. Empty rows: SUM 0,
 * PROD 1, MAX the lowest value (-inf, or false), MIN the highest, ARGMAX and
 * ARGMIN 0. */
enum {
    TN_REDUCE_SUM,
    TN_REDUCE_PROD,
    TN_REDUCE_MAX, /* NaN if an element is NaN; for BOOL, true if any is */
    TN_REDUCE_MIN, /* NaN if an element is NaN; for BOOL, true if all are */
    TN_REDUCE_ARGMAX, /* I64: k of the first maximum; -0 equals +0; k of the
                       * first NaN if there is one */
    TN_REDUCE_ARGMIN, /* I64: k of the first minimum; -0 equals +0; k of the
                       * first NaN if there is one */
    TN_REDUCE_END
};
#define TN_CHUNK 1024
#define TN_LANES 16

/* The level of a value or operand: one for the launch, per row, or per
 * element. */
enum { TN_LEVEL_UNIFORM, TN_LEVEL_ROW, TN_LEVEL_ELEM };
enum { TN_LOAD_ZERO = 1 }; /* in `sub` of a LOAD: an index out of range reads 0
                              and is not a fault */
/* In `sub` of a SELECT, a hint: the SELECT computes weighted(x, w) = (w == 0 ?
 * 0 : x * w), with w == 0 as a, 0 as b and x * w as c. Interpolations and
 * adaptive pools are sums of weighted(x, w), which an executor may compute by a
 * routine of its own. Executors may ignore the hint. */
enum { TN_SELECT_WEIGHTED = 1 };
enum { TN_BITCAST_ANY_NAN = 1 }; /* in `sub` of a BITCAST in a function: the
                                    function's result does not depend on the
                                    bits of a NaN */

typedef struct tn_kernel_ins {
    uint8_t op;    /* TN_K_... */
    uint8_t dtype; /* register type of the result, or of a in a STORE */
    uint8_t level; /* TN_LEVEL_... of the result */
    uint8_t sub;   /* kind of a REDUCE, flags of a LOAD or BITCAST, dtype of a
                      NARROW, hint of a SELECT */
    uint32_t a, b, c;
    union {
        int64_t i;
        double f;
    } imm;
} tn_kernel_ins;

/* A function of one to three arguments, computed per element: exp, erf, ...
 * An executor runs the body, or its own routine for this hash, whose results
 * must be bit-identical. Bodies contain no LOAD, STORE, OFFSET, PARAM or
 * REDUCE. They may CALL functions with a lower index. */
typedef struct tn_kernel_fn {
    const char *name; /* "exp_f32" */
    uint64_t hash;    /* hash of the body and of the functions that it calls */
    uint32_t arg_count, ins_count;
    uint8_t arg_dtype[4]; /* register type of each argument */
    uint32_t result;      /* index of the instruction whose value is returned */
    uint32_t dtype;       /* register type of the result */
    const tn_kernel_ins *ins;
} tn_kernel_fn;

/* What a program does with an operand. It loads (READ) or stores (WRITE) the
 * elements, or only computes their offsets. An OFFSET operand has strides, but
 * no buffer. */
enum { TN_OPERAND_READ, TN_OPERAND_WRITE, TN_OPERAND_OFFSET };
typedef struct tn_kernel_operand {
    uint8_t dtype;  /* dtype in memory; 0 for TN_OPERAND_OFFSET */
    uint8_t access; /* TN_OPERAND_... */
    uint8_t level;  /* TN_LEVEL_ELEM, or TN_LEVEL_ROW if its strides over the
                       row dimensions are 0 */
    uint8_t index_count; /* number of indices of its LOADs, 0 to 3 */
} tn_kernel_operand;

/* The instructions of a stage, as ranges of order[]. */
typedef struct tn_kernel_stage {
    uint32_t elem_first, elem_count; /* run for every element of a row */
    uint32_t row_first, row_count;   /* then run once for the row */
} tn_kernel_stage;

typedef struct tn_program {
    uint32_t size;
    uint32_t ins_count, operand_count, param_count;
    uint32_t fn_count, stage_count, order_count;
    uint32_t uniform_count; /* order[0 .. uniform_count) runs once per launch */
    const tn_kernel_ins *ins;
    const tn_kernel_operand *operand;
    const uint8_t *param_dtype; /* register type of each parameter */
    const tn_kernel_fn *fn;
    const tn_kernel_stage *stage;
    const uint32_t *order;
    uint64_t key[2]; /* hash of all other fields */
} tn_program;

/* Returns 1 if this header has all instructions and reductions of the program,
 * else 0. Plugins that execute programs themselves call it in program_build. A
 * device that compiles the core's source does not need it, because the core
 * prints only what it knows. */
static inline int tn_program_is_known(const tn_program *program)
{
    for (uint32_t i = 0; i < program->ins_count; i++)
        if (program->ins[i].op >= TN_K_END ||
            (program->ins[i].op == TN_K_REDUCE &&
             program->ins[i].sub >= TN_REDUCE_END))
            return 0;
    for (uint32_t f = 0; f < program->fn_count; f++)
        for (uint32_t i = 0; i < program->fn[f].ins_count; i++)
            if (program->fn[f].ins[i].op >= TN_K_END)
                return 0;
    return 1;
}

/* The value of a parameter. */
typedef union tn_number {
    double f;  /* if the register type is F32 or F64 */
    int64_t i; /* if the register type is I32, I64 or BOOL */
} tn_number;

typedef struct tn_launch_operand {
    tn_buffer *buffer;
    int64_t offset;               /* offset of element 0, in elements */
    const int64_t *stride;        /* outer_ndim + row_ndim strides */
    const int64_t *index_stride;  /* index_count strides of the indices */
    const int64_t *index_extent;  /* index_count bounds of the indices */
} tn_launch_operand;

/* A flag, which is a hint: the outputs are read again at once and should stay
 * in the cache. */
enum { TN_LAUNCH_SOON = 1 };
typedef struct tn_launch {
    uint32_t size, outer_ndim, row_ndim, flags; /* TN_LAUNCH_... */
    const int64_t *extent; /* outer_ndim, then row_ndim sizes; a size may be 0;
                              their product is at most 2^56 */
    const tn_launch_operand *operand;
    const tn_number *param;
    uint64_t tag; /* tn_fault has this tag if the launch fails */
} tn_launch;

/* The first failure on a queue, in the queue's order, since the last sync. If
 * several launches failed, it is the failure of the launch that was submitted
 * first. If one launch has several index faults, it is the index fault at the
 * lowest position. An index fault does not stop a queue: the launch still
 * writes its outputs, and later work runs. After any other failure, work
 * submitted later may be left undone until the sync. */
typedef struct tn_fault {
    uint32_t size;
    tn_status code;
    uint64_t tag;       /* tag of the launch or primitive. For a failure other
                         * than TN_ERR_INDEX it is 0 if the device cannot
                         * determine it */
    /* The fields below are set for TN_ERR_INDEX. */
    uint32_t operand;   /* index of the operand; 0 for a scatter */
    uint32_t dim;       /* which of the LOAD's indices it is, from 0 */
    int64_t index;      /* value of the index */
    int64_t extent;     /* bound of the index */
    int64_t position;   /* row-major position of the element in the iteration
                         * space; the lowest one if there are several */
} tn_fault;

#ifdef __cplusplus
}
#endif

#endif
