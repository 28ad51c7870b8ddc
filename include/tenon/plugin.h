/* <tenon/plugin.h>: the device plugin ABI, major version 1. A plugin includes
 * no other header of Tenon and links nothing of Tenon. It exports one symbol:
 *
 *     const tn_plugin *tenon_plugin_v1(const tn_host *host);
 *
 * The function returns the plugin's table, which is static and valid until the
 * process ends. To fail, it calls host->fail(code, "why") and returns NULL. It
 * fails if the host has another major version. plugins/reference is the
 * smallest complete plugin and is meant to be copied. tenon-plugin-check checks
 * whether a plugin keeps the rules below.
 *
 * Rules
 *
 * Structs
 *  - Structs grow only at their end. A struct that crosses the interface begins
 *    with `size`: the number of bytes that the side which made it knows. Read a
 *    field only if TN_HAS says that it is present. Ignore fields beyond those
 *    that you know. Treat an absent slot (function pointer) as NULL.
 *  - TN_..._SIZE_1_0 is the minimum size of a struct. The fields that it covers
 *    are always present. Read all other fields only after TN_HAS; in the host
 *    table these are the fields after `extension`.
 *  - Never copy or write such a struct whole, by assignment or sizeof: the
 *    other side's may be shorter than yours. tn_struct_copy copies what both
 *    sides know.
 *  - A struct to be filled arrives with its size set. The rest of tn_fault and
 *    tn_source is 0. The rest of tn_device_info may hold anything: write all of
 *    it. The side that fills a struct writes no byte beyond that size, leaves
 *    `size` unchanged, and writes 0 to fields that it does not know.
 *  - Later versions add values of kinds, flags and directions. A plugin refuses
 *    values that its header does not have: it returns TN_ERR_UNSUPPORTED,
 *    passes a reason to host->fail, and writes nothing. tn_scatter_is_known and
 *    similar functions check each struct for this. A core that uses a new value
 *    works without it where a plugin refuses it. The flags of a launch are
 *    hints: ignore those that you do not know. The fields that a longer struct
 *    adds never change the meaning of its older fields.
 *  - A struct without `size` is closed: it does not change within major 1.
 *    These are tn_kernel_ins, tn_kernel_fn, tn_kernel_operand, tn_kernel_stage,
 *    tn_number, tn_launch_operand and tn_strided. A later version extends a
 *    closed struct by a new field of the struct that contains it or points to
 *    it.
 *
 * Behaviour
 *  - A call reports an error by its status and passes the text to host->fail.
 *    The text belongs to the calling thread. So call `fail` before the call
 *    returns, on the calling thread or within host->parallel_for. On a thread
 *    that the plugin started, the text is lost: store the failure with the
 *    queue, and pass its text to `fail` in the queue_sync that reports it.
 *  - A plugin never aborts, exits, or writes to stdout or stderr (use
 *    host->log). It never changes the locale, the environment, the current
 *    folder, the caller's floating-point state or a signal handler.
 *  - A plugin starts no thread before a device is opened: not while its file is
 *    loaded, and not in tenon_plugin_v1, device_count or device_info. These
 *    four steps may run in a child process. Threads that a plugin starts block
 *    all signals.
 *  - A plugin is not responsible for what a library of its vendor does
 *    independently. Such a library may start threads in any call (CUDA's driver
 *    does so when it lists devices) and set environment variables (PoCL does).
 *    A plugin is responsible for all libraries in the folder of its file, and
 *    for what a language's runtime, such as libstdc++ or OpenMP, does for it.
 *  - device_count and device_info create no context and open no heavy library.
 *    Zero devices is a success: device_count returns TN_OK, and passes the
 *    reason to host->fail as a note.
 *  - Arithmetic rounds to nearest even, and supports subnormals as operands and
 *    as results, whatever mode the calling thread has set. A new thread
 *    inherits the mode of the thread that started it. So set the mode in each
 *    thread that computes, including those of host->parallel_for.
 *
 * Life
 *  - A plugin's file is never closed. An open device, its first queue and what
 *    was built for it exist until the process ends. No function is called at
 *    the process's end. Threads that still run then must not need what exit
 *    handlers destroy. The core calls device_close only if opening failed after
 *    device_open, and it need not call program_free. Both functions must work:
 *    tenon-plugin-check calls them, and checks what they leave behind.
 *  - What a call points to belongs to the caller, which may overwrite it as
 *    soon as the call returns: descriptors, and a launch with its extents,
 *    operands, strides and parameters. A device that executes later copies
 *    them. Three things stay valid longer: a tn_program until program_free,
 *    host memory in a copy until the next sync of that queue, and the host
 *    memory of buffer_wrap until buffer_free.
 *  - An object is closed or freed once. No other call uses it at that time or
 *    later. Work submitted before is still done. queue_close waits for it.
 *    buffer_free, program_free and event_close may be called while such work
 *    uses the object: they wait for the work, or free the object later. After
 *    that nothing is left of the object. All objects of a device are closed or
 *    freed before device_close.
 *
 * Order
 *  - Work on a queue executes in order. A synchronous device (without
 *    TN_CAP_ASYNC) completes it before the call returns.
 *  - Work on different queues has no order, except that of queue_wait.
 *
 * Threads
 *  - Calls come from any thread of the program, also from threads that start
 *    later. An object belongs to no thread: one thread makes it, others use it,
 *    another frees it. Set what a vendor's library stores per thread (a current
 *    context) anew in each call.
 *  - One at a time over all plugins: loading the file, tenon_plugin_v1,
 *    device_count, device_open with the device's first queue_open, and
 *    device_close.
 *  - One at a time for each queue of an asynchronous device: launch, copy and
 *    the other primitives, the work of an extension on the queue, event_record,
 *    queue_wait, queue_sync and queue_close. So nothing is submitted to a queue
 *    while queue_sync waits for it. Other queues continue.
 *  - One at a time for each event: event_open, event_record and event_close.
 *    queue_wait, event_query and event_elapsed may run concurrently, but not
 *    during these three.
 *  - All other calls may run concurrently, also on one device: buffer_...,
 *    host_..., device_info, program_build, program_free, queue_open, extension,
 *    all calls on the queue of a synchronous device, calls on different queues,
 *    and any of these during a queue_sync. Only while an object is closed or
 *    freed does no other call use it (see Life).
 *  - The thread that gives up the last reference to an object closes or frees
 *    it. A thread that needs memory may also free a buffer. This may happen
 *    while the thread ends, after the destructors of its thread-specific data
 *    (pthread_key_create) have run.
 *
 * Operands
 *  - Strides, offsets and extents count elements. Sizes named bytes count
 *    bytes. Strides may be 0 or negative. The core has checked that everything
 *    that a launch accesses is inside its buffers. Indexed loads and scatters
 *    check their own index against its extent.
 *  - An output may share memory with an input only element for element: with
 *    the same offset, strides and width. Otherwise they never overlap.
 *  - The core passes only operands with dtypes in the device's storage_types,
 *    and only programs that compute in its register_types.
 */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H

#include <string.h>
#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_ABI_MAJOR 1u
#define TN_ABI_MINOR 0u
#define TN_END(T, f) ((uint32_t)(offsetof(T, f) + sizeof(((T *)0)->f)))
#define TN_HAS(T, p, f) ((p)->size >= TN_END(T, f))

/* Copies the fields that both sides know of a struct that begins with `size`.
 * Sets the rest of *to to 0. Leaves the size of *to unchanged, and writes
 * nothing beyond it. */
static inline void tn_struct_copy(void *to, const void *from)
{
    uint32_t room, known;
    memcpy(&room, to, sizeof room);
    memcpy(&known, from, sizeof known);
    if (known > room)
        known = room;
    if (known < sizeof known)
        return;
    memcpy((char *)to + sizeof room, (const char *)from + sizeof known,
           known - sizeof known);
    memset((char *)to + known, 0, room - known);
}

typedef struct tn_plugin_device tn_plugin_device; /* an open device */
typedef struct tn_buffer tn_buffer;
typedef struct tn_queue tn_queue;
typedef struct tn_event tn_event;
typedef struct tn_built tn_built; /* a program, built for a device */

/* ------------------------------------------------------------------------
 * Kernel programs
 *
 * A program runs over `outer` dimensions x `row` dimensions. A row is one
 * point of the outer dimensions with all points of the row dimensions, in
 * row-major order: element k of the row is the k-th of these points. Values are
 *   uniform  one for the whole launch (constants, parameters),
 *   row      one per row (results of reductions, loads of row operands),
 *   elem     one per element.
 *
 * Instructions are in SSA form. An operand is the number of an earlier
 * instruction; only a loop's carried value names a later one. Each instruction
 * has one register type: F32 F64 I32 I64 BOOL. LOAD widens narrower storage
 * types, and STORE narrows to them (f16 bf16 f8 <-> F32, i8 i16 u8 <-> I32).
 *
 * A program is a list of stages. Each row executes the stages in order. A stage
 * executes its elem instructions for every element of the row, with its
 * reductions. Then it executes its row instructions once. `order` lists the
 * instructions of each part:
 *   - A REDUCE is in the elem part of its stage, after its operand. Its value
 *     is available in the row part.
 *   - A region is listed whole, from LOOP to ENDLOOP, without the instructions
 *     that were moved out of it.
 *   - An elem instruction may be in several stages. An executor recomputes its
 *     value there, or stores it if it prefers.
 *   - A STORE or a REDUCE is in one stage.
 * Without row dimensions (row_ndim 0) every row has one element. A program
 * without a REDUCE and without results of level ROW has one stage, whose elem
 * part does all the work.
 *
 * Total semantics: every instruction is defined for every input.
 * ---------------------------------------------------------------------- */

#define TN_NONE 0xffffffffu

/* name, operands, text. T is the result's register type; x, y, z are values
 * of the operands a, b, c, which have type T unless said otherwise. */
#define TN_KERNEL_MAP(X)                                                      \
    X(CONST, 0, "imm.f for F32 (rounded to f32) and F64, imm.i for others")   \
    X(PARAM, 0, "launch parameter number imm.i, rounded to T")                \
    X(ARG, 0, "argument number imm.i of the function (in tn_kernel_fn)")      \
    X(LOAD, 3, "operand imm.i at this element (row); a, b, c, where not "     \
               "TN_NONE, are I64 indices 0, 1, 2 added as index * "           \
               "index_stride. An index outside [0, index_extent) reads 0; "   \
               "without TN_LOAD_ZERO in sub it also raises the queue's "      \
               "index fault")                                                 \
    X(OFFSET, 0, "I64: sum of coordinate * stride of operand imm.i (no "      \
                 "buffer needed, the operand's offset added): coordinates "   \
                 "and element numbers")                                       \
    X(ROWLEN, 0, "I64, uniform: the number of elements of a row")             \
    X(STORE, 1, "operand imm.i at this element (row) = a; narrowed as "       \
                "NARROW does")                                                \
    X(CALL, 3, "function imm.i of the program applied to a, b, c")            \
    X(REDUCE, 1, "row value: fold of a over the row by kind sub")             \
    X(CAST, 1, "a (any type) converted to T: to a float, round to nearest "   \
               "even; float to integer, truncate, saturate, NaN to 0; "       \
               "integer to integer, wrap; to BOOL, x != 0 (NaN is true); "    \
               "from BOOL, 0 or 1")                                           \
    X(BITCAST, 1, "same bits: F32 <-> I32, F64 <-> I64; every NaN gives "     \
                  "0x7fc00000 or 0x7ff8000000000000, or its own bits with "   \
                  "TN_BITCAST_ANY_NAN in sub, as the executor likes")         \
    X(NARROW, 1, "a as it would read back after a store as dtype sub: f16 "   \
                 "bf16 round to nearest even; f8 too, saturating at the "     \
                 "largest finite value (f8e5m2 keeps infinities), NaN stays " \
                 "NaN; i8 i16 u8 wrap")                                       \
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
                 "(lo, hi) of a >> 2 (logical), (lo, hi) of c and key "       \
                 "words (lo, hi) of b; a, b, c I64")                          \
    X(LOOP, 1, "I64: the number i of this round. Starts a region that ends "  \
               "at instruction imm.i, its ENDLOOP; at most max(0, a) rounds " \
               "(a I64, uniform)")                                            \
    X(CARRY, 2, "a value carried round to round: a before the first, b (any " \
                "value there at the region's end, also another's carried "    \
                "one, as it was in this round) after each; after the "        \
                "region, its last value. Directly follows LOOP or CARRY")     \
    X(WHILE, 1, "a (BOOL) false: this element is done and keeps its carried " \
                "values of this round's start")                               \
    X(ENDLOOP, 0, "end of the region")

enum {
#define TN_KERNEL_ENUM(name, operands, text) TN_K_##name,
    TN_KERNEL_MAP(TN_KERNEL_ENUM)
#undef TN_KERNEL_ENUM
    TN_K_END
};

/* sub of REDUCE. SUM and PROD have a fixed order. Element k of the row is in
 * chunk k / TN_CHUNK, and there in lane k % TN_LANES.
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
    TN_REDUCE_MAX, /* as MAX: NaN wins; BOOL: any */
    TN_REDUCE_MIN, /* as MIN: NaN wins; BOOL: all */
    TN_REDUCE_ARGMAX, /* I64: k of the first maximum; -0 equals +0; the first
                       * NaN wins */
    TN_REDUCE_ARGMIN, /* I64: k of the first minimum, likewise */
    TN_REDUCE_END
};
#define TN_CHUNK 1024
#define TN_LANES 16

enum { TN_LEVEL_UNIFORM, TN_LEVEL_ROW, TN_LEVEL_ELEM };
enum { TN_LOAD_ZERO = 1 }; /* sub of LOAD: outside reads 0, without a fault */
/* sub of SELECT, a hint: the select is weighted(x, w), where a is w == 0, b is
 * 0 and c is x * w. Interpolations and adaptive pools are sums of such terms,
 * which an executor may compute by a routine of its own. Executors may ignore
 * the hint. */
enum { TN_SELECT_WEIGHTED = 1 };
enum { TN_BITCAST_ANY_NAN = 1 }; /* sub of BITCAST, in functions: the result
                                    does not depend on the bits of a NaN */

typedef struct tn_kernel_ins {
    uint8_t op;    /* TN_K_... */
    uint8_t dtype; /* register type of the result; of a for STORE */
    uint8_t level; /* TN_LEVEL_... */
    uint8_t sub;   /* reduction kind; dtype of NARROW; flags of LOAD and BITCAST;
                      hint of SELECT */
    uint32_t a, b, c;
    union {
        int64_t i;
        double f;
    } imm;
} tn_kernel_ins;

/* A function of one to three arguments, computed per element: exp, erf, ...
 * An executor runs the body, or its own routine for this hash, which must
 * return the same bits. Bodies contain no LOAD, STORE, OFFSET, PARAM or REDUCE.
 * They may CALL functions with a lower number. */
typedef struct tn_kernel_fn {
    const char *name; /* "exp_f32" */
    uint64_t hash;    /* of the body, including the functions it calls */
    uint32_t arg_count, ins_count;
    uint8_t arg_dtype[4]; /* register types */
    uint32_t result;      /* the instruction whose value is returned */
    uint32_t dtype;       /* its register type */
    const tn_kernel_ins *ins;
} tn_kernel_fn;

enum { TN_OPERAND_READ, TN_OPERAND_WRITE, TN_OPERAND_OFFSET };
typedef struct tn_kernel_operand {
    uint8_t dtype;  /* of storage; 0 for TN_OPERAND_OFFSET */
    uint8_t access; /* TN_OPERAND_...; OFFSET has strides but no buffer */
    uint8_t level;  /* ELEM; or ROW: its strides over row dimensions are 0 */
    uint8_t index_count; /* number of indices of its LOADs, 0..3 */
} tn_kernel_operand;

typedef struct tn_kernel_stage {
    uint32_t elem_first, elem_count; /* ranges of order[] */
    uint32_t row_first, row_count;
} tn_kernel_stage;

typedef struct tn_program {
    uint32_t size;
    uint32_t ins_count, operand_count, param_count;
    uint32_t fn_count, stage_count, order_count;
    uint32_t uniform_count; /* order[0 .. uniform_count): once per launch */
    const tn_kernel_ins *ins;
    const tn_kernel_operand *operand;
    const uint8_t *param_dtype; /* register types */
    const tn_kernel_fn *fn;
    const tn_kernel_stage *stage;
    const uint32_t *order;
    uint64_t key[2]; /* hash of all of the above */
} tn_program;

/* For program_build of plugins that execute programs themselves. A device that
 * compiles the core's source does not need this check: the core prints only
 * what it knows. */
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

typedef union tn_number {
    double f; /* F32 and F64 parameters */
    int64_t i; /* the others */
} tn_number;

typedef struct tn_launch_operand {
    tn_buffer *buffer;
    int64_t offset;               /* of element 0, in elements */
    const int64_t *stride;        /* outer_ndim + row_ndim of them */
    const int64_t *index_stride;  /* index_count of them */
    const int64_t *index_extent;
} tn_launch_operand;

/* A hint: the outputs are read again at once and should stay in the cache. */
enum { TN_LAUNCH_SOON = 1 };
typedef struct tn_launch {
    uint32_t size, outer_ndim, row_ndim, flags; /* TN_LAUNCH_... */
    const int64_t *extent; /* outer_ndim, then row_ndim of them; 0 is legal;
                              their product is at most 2^56 */
    const tn_launch_operand *operand;
    const tn_number *param;
    uint64_t tag; /* returned in tn_fault when this launch fails */
} tn_launch;

/* The first failure on a queue, in its order, since the last sync. Of several
 * launches that failed, it is the one submitted first. Of several index faults
 * of one launch, it is the one at the lowest position. An index fault does not
 * stop a queue: the launch still writes its outputs, and later work runs. After
 * any other failure, work submitted later may be left undone until the sync. */
typedef struct tn_fault {
    uint32_t size;
    tn_status code;
    uint64_t tag;       /* of the launch or primitive. For a failure other than
                         * ERR_INDEX: 0 if the device cannot determine it */
    /* for ERR_INDEX: */
    uint32_t operand;   /* number of the operand (scatter: 0) */
    uint32_t dim;       /* which of its indices */
    int64_t index;      /* value of the index */
    int64_t extent;     /* its bound */
    int64_t position;   /* element of the iteration space: the lowest one in
                         * row-major order */
} tn_fault;

/* ------------------------------------------------------------------------
 * The other primitives. Descriptors are flat. A result in a half type or f8 is
 * rounded as by NARROW.
 * ---------------------------------------------------------------------- */

/* A strided operand: ndim dimensions, element strides. */
typedef struct tn_strided {
    tn_buffer *buffer;
    int64_t offset;
    uint32_t dtype, ndim;
    int64_t stride[TN_MAX_NDIM];
} tn_strided;

/* c[b.., m, n] = alpha * sum_k a[b.., m, k] * b[b.., k, n] + beta * c.
 * Strides: batch dimensions, then the two of the matrix (so a transposition
 * is a stride). All three have one dtype. f16 and bf16 sum in f32 and round
 * once. Integers wrap; alpha and beta are converted to int64. For bool, the
 * product is "and", the sum is "any", and alpha and beta mean "is not 0".
 * k = 0 gives beta * c. beta = 0 never reads c. The device chooses the order of
 * the sum over k. plan_matmul and the reference plugin use the plain order, and
 * so have the same bits: start at 0, add each product in order of rising k by
 * one fma; then compute alpha * sum + (beta * c) and round each operation. */
typedef struct tn_matmul_args {
    uint32_t size, batch_ndim;
    int64_t batch[TN_MAX_NDIM];
    int64_t m, n, k;
    tn_strided a, b, c;
    double alpha, beta;
    uint64_t tag;
} tn_matmul_args;

/* For every point p of extent (in row-major order): let q be p with its
 * coordinate `dim` replaced by index[p]; dst[q] = reduce(dst[q], src[p]).
 * index is I64. An index outside [0, dst_extent) raises the index fault and is
 * skipped. Elements of src with the same destination are combined in the order
 * of p. dst does not overlap index or src. */
enum {
    TN_SCATTER_SET,
    TN_SCATTER_ADD,
    TN_SCATTER_MUL,
    TN_SCATTER_MIN,
    TN_SCATTER_MAX,
    TN_SCATTER_END
};
typedef struct tn_scatter_args {
    uint32_t size, ndim, dim, reduce;
    int64_t extent[TN_MAX_NDIM];
    int64_t dst_extent; /* of dimension dim in dst */
    tn_strided dst, index, src; /* dst and src share their dtype */
    uint64_t tag;
} tn_scatter_args;

static inline int tn_scatter_is_known(const tn_scatter_args *args)
{
    return args->reduce < TN_SCATTER_END;
}

/* Inclusive scan along the last dimension: prefix sum, product, maximum or
 * minimum. Half types are computed in f32 and rounded at each store. MAX and
 * MIN may also write the I64 position of the running maximum or minimum: the
 * last one of equal elements, as in PyTorch's cummax. After a NaN the result
 * stays NaN; only another NaN changes the position.
 *
 * Floating SUM has its own fixed order, in which the elements of a vector and
 * the chunks of a line need not wait for each other. A line is one sequence
 * along the last dimension. A sequence x is summed by blocks as follows:
 *   1. x is cut into blocks of TN_LANES elements. For h = 1, 2, 4, 8 in turn,
 *      each element whose position j in its block has bit h set becomes
 *      x[(j & ~(2 * h - 1)) + h - 1] + x[j].
 *   2. In block after block, except the first, each element becomes last + x,
 *      where last is the final element of the block before.
 * A line is summed as follows:
 *   1. The line is cut into chunks of TN_CHUNK elements, and each chunk is
 *      summed by blocks.
 *   2. The final elements of all chunks are summed by blocks, as one sequence.
 *   3. In each chunk except the first, each element becomes before + x, where
 *      before is the result of step 2 for the chunk before.
 * Elements beyond a line's end are skipped, and not replaced by a neutral
 * element (-0.0 gives the same bits).
 *
 * Floating PROD multiplies in rising order: in blocks, the product of a part
 * could overflow where a 0 before it makes the line 0, and 0 * inf is NaN. The
 * other cases do not depend on the order. */
typedef struct tn_scan_args {
    uint32_t size, ndim, kind, flags; /* kind: TN_REDUCE_SUM .. MIN */
    int64_t extent[TN_MAX_NDIM];
    tn_strided in, out, out_index; /* out_index.buffer NULL: not requested */
    uint64_t tag;
} tn_scan_args;

static inline int tn_scan_is_known(const tn_scan_args *args)
{
    return args->kind <= TN_REDUCE_MIN && args->flags == 0;
}

/* Stable sort along the last dimension; NaN is greatest, -0 equals +0.
 * If keep is below the extent of the last dimension, only the first keep
 * elements in sorted order are written (top-k). out_index (I64) holds positions
 * in the input. TN_SORT_LAST: the core reads only the last one of these keep
 * elements. The others may be anything, so a device need not sort them. */
enum { TN_SORT_DESCENDING = 1, TN_SORT_LAST = 2 };
typedef struct tn_sort_args {
    uint32_t size, ndim, flags, reserved;
    int64_t extent[TN_MAX_NDIM];
    int64_t keep;
    tn_strided in, out, out_index; /* either out's buffer may be NULL */
    uint64_t tag;
} tn_sort_args;

static inline int tn_sort_is_known(const tn_sort_args *args)
{
    return args->flags <= (TN_SORT_DESCENDING | TN_SORT_LAST);
}

enum {
    TN_COPY_TO_DEVICE,
    TN_COPY_TO_HOST,
    TN_COPY_ON_DEVICE,
    TN_COPY_PEER /* TN_CAP_PEER: src is a buffer of another device of the
                  * plugin, whose work is done; the queue belongs to dst's
                  * device */
};
typedef struct tn_copy_args {
    uint32_t size, direction;
    tn_buffer *dst, *src; /* the one on the host side is NULL */
    void *host;           /* an asynchronous device may use it until the next
                           * sync of the queue */
    uint64_t dst_offset, src_offset, bytes;   /* bytes: of one row */
    uint64_t rows, dst_pitch, src_pitch;      /* rows 1: pitches unused */
    uint64_t tag;
} tn_copy_args;

static inline int tn_copy_is_known(const tn_copy_args *args)
{
    return args->direction <= TN_COPY_PEER;
}

/* ------------------------------------------------------------------------
 * Programs and primitives as source
 *
 * A plugin whose device compiles source (OpenCL C 1.2 and later, CUDA C
 * through NVRTC, C11) contains no kernels. The core prints their text. For each
 * launch it says which text to run, with how many work-items, and with which
 * arguments. All five primitives work the same way:
 *
 *     tn_plan plan = {.size = sizeof plan};
 *     do {
 *         host->plan_program(&target, program, launch, &plan);
 *         if (plan.group_count == 0)
 *             continue;                        // nothing to do
 *         kernel = kernels_find(plan.key);     // else, once:
 *             host->print(&target, program, &plan, &source);
 *             ... build source.text, take source.kernel out of it ...
 *             host->print_free(&source);
 *         set the arguments; run plan.group_count work-groups
 *             of plan.group_size work-items
 *     } while (++plan.step < plan.step_count);
 *
 * The text depends only on structure, dtypes and a few classes (dimensions
 * after merging, unit strides, vectors, 32-bit indexing), never on extents,
 * strides or scalars. Equal keys mean equal text. Everything is
 * one-dimensional.
 *
 * The kernel's arguments, in this order:
 *   1. buffer[0 .. buffer_count): one global pointer each, to the buffer's
 *      first byte (offsets are inside the argument words). The pointer is a
 *      multiple of 16 bytes and may be NULL;
 *   2. with TN_PLAN_SCRATCH, a buffer of scratch_bytes, the same for all
 *      steps, its content undefined;
 *   3. with TN_PLAN_FAULTS, the queue's fault buffer;
 *   4. the argument words: one struct by value of argument_bytes, or, with
 *      TN_PLAN_WORDS_IN_BUFFER, a global pointer to them.
 *
 * In plain C (TN_TARGET_C) source.kernel names a tn_kernel_c, the only function
 * of the text that is not static. It receives these pointers as an array, and
 * plan.argument unchanged. It runs a range of work-groups. Several threads may
 * run ranges of one launch concurrently. Any C11 compiler with <math.h> and
 * <stdatomic.h> builds the text, so this is the shortest way to a device with
 * its own kernels. The text has the reference plugin's bits if it is compiled
 * by `cc -std=c11 -O2 -ffp-contract=off -fno-strict-aliasing -fPIC -shared ...
 * -lm`, opened by dlopen and dlsym, and run in the floating-point mode that
 * Behaviour requires. tests/plugins/compiled.c is such a device.
 *
 * A queue's fault buffer has TN_FAULT_BYTES(fault_room) and starts as zeros. A
 * launch with an index fault writes to it only if no earlier launch on that
 * queue has. After a sync its first 4 bytes are 0 exactly if no launch failed.
 * Otherwise copy the buffer to the host: fault_read converts it to the tn_fault
 * (tag, operand, dim, index, extent, lowest position). Then fill the buffer
 * with zeros again. Only the core knows its format.
 * ---------------------------------------------------------------------- */

enum {
    TN_TARGET_F64 = 1,        /* has double precision; without it, a program
                               * that needs it is refused
                               * (TN_ERR_UNSUPPORTED) */
    TN_TARGET_CHUNKED = 2,    /* a work-item processes adjacent elements and
                               * whole rows (CPUs, where a work-group is a
                               * loop); without it, adjacent work-items process
                               * adjacent elements, and a work-group processes
                               * a row or, if there are few long rows, a part
                               * of one */
    TN_TARGET_EXACT_DIVIDE = 4, /* f32 division and square root are correctly
                                * rounded: always in CUDA C built with
                                * --prec-div=true --prec-sqrt=true; in OpenCL C
                                * with -cl-fp32-correctly-rounded-divide-sqrt
                                * if the device supports it. Without the flag,
                                * they are computed in double or in integers */
    TN_TARGET_MMA = 8,         /* CUDA C for compute capability 8.0 and later:
                                * mma.sync multiplies half types */
    TN_TARGET_PLAIN = 16,      /* C11; only with the rest of TN_TARGET_C */
    TN_TARGET_C = TN_TARGET_PLAIN | TN_TARGET_F64 | TN_TARGET_CHUNKED |
                  TN_TARGET_EXACT_DIVIDE /* plain C; a work-group is one
                                * work-item */
};

/* The device for which the core prints texts and plans launches. A device's
 * flags never change. */
typedef struct tn_target {
    uint32_t size, flags;
    uint32_t units;         /* compute units */
    uint32_t group_limit;   /* maximum work-items of a work-group */
    uint32_t argument_room; /* bytes of by-value arguments, including the
                             * pointers to buffers: 1024 in OpenCL, 4096 in
                             * CUDA */
    uint32_t fault_room;    /* number of records of a fault buffer, and so the
                             * maximum number of work-groups of a launch that
                             * may fault; at least 4096, 65536 is plenty */
    uint32_t local_bytes;   /* local (shared) memory of a work-group */
    uint32_t reserved;
} tn_target;

enum {
    TN_PLAN_SCRATCH = 1,
    TN_PLAN_FAULTS = 2,
    TN_PLAN_WORDS_IN_BUFFER = 4
};
#define TN_PLAN_BUFFERS 32
#define TN_PLAN_WORDS 1024
#define TN_FAULT_BYTES(room) (8 + 40 * (uint64_t)(room))

/* One launch of one kernel. The caller sets size, and step: 0 at first. */
typedef struct tn_plan {
    uint32_t size, step, step_count, flags;
    uint64_t key[2];  /* of the text, for this target's flags */
    uint64_t variant; /* private to the core: `print` reads it */
    uint64_t group_count;
    uint32_t group_size, buffer_count;
    tn_buffer *buffer[TN_PLAN_BUFFERS];
    uint64_t scratch_bytes;
    uint32_t argument_bytes, reserved;
    uint64_t argument[TN_PLAN_WORDS];
} tn_plan;

/* A kernel in plain C. Runs work-groups first .. end - 1 of `count`, which is
 * plan.group_count. pointer[]: buffers, scratch memory and fault buffer, as far
 * as the plan has them. word: plan.argument. */
typedef void tn_kernel_c(void *const *pointer, const uint64_t *word,
                         uint64_t first, uint64_t end, uint64_t count);

typedef struct tn_source {
    uint32_t size, reserved;
    const char *text;   /* the whole translation unit, ended by 0 */
    uint64_t text_bytes; /* without that 0 */
    const char *kernel; /* name of its only kernel */
} tn_source;

/* ------------------------------------------------------------------------
 * The two tables
 * ---------------------------------------------------------------------- */

enum { TN_KIND_CPU, TN_KIND_GPU, TN_KIND_ACCELERATOR, TN_KIND_SIMULATED };
enum {
    TN_CAP_HOST_VISIBLE = 1, /* buffer_map returns a pointer for the CPU */
    TN_CAP_ASYNC = 2,
    TN_CAP_BIT_EXACT = 4, /* programs have the reference plugin's bits */
    TN_CAP_PEER = 8 /* copies between the plugin's devices: TN_COPY_PEER */
};

/* device_info writes all `size` bytes, whatever they were: 0 where it has no
 * value or knows no field. The core calls it before it opens the device, and
 * later at any time to read memory_free. */
typedef struct tn_device_info {
    uint32_t size, kind, caps;
    uint32_t align; /* of buffers, in bytes: a power of two up to 65536 */
    /* Masks of one bit (1 << dtype) for each dtype. Programs compute in the
     * register_types. Buffers contain elements of the storage_types: every
     * program and primitive loads, stores and computes these as this header
     * says, and the core makes no tensor of another dtype. F32 is in both
     * masks. register_types contains the register type (TN_DTYPE_MAP) of each
     * of the storage_types. */
    uint32_t register_types;
    uint32_t storage_types;
    uint64_t memory_total, memory_free; /* bytes; 0: unknown */
    char name[64]; /* "AMD EPYC 9554, 2 threads, avx512" */
    char uid[64];  /* PCI address, serial number; the same in each run */
    char note[128]; /* why unusable, or why not bit-exact */
} tn_device_info;

struct tn_attention_args;
struct tn_conv_args;

/* What the core provides to a plugin, valid until the process ends. Any thread
 * may call all of its functions. */
typedef struct tn_host {
    uint32_t size, abi_major, abi_minor, reserved;
    const char *plugin_path; /* this plugin's file */
    /* Records the text for the calling thread and returns code. The core reads
     * only the text of a thread on which it called: see Behaviour. */
    tn_status (*fail)(tn_status code, const char *format, ...)
#if defined(__GNUC__)
        __attribute__((format(printf, 2, 3)))
#endif
        ;
    /* Writes to the log, if its level (TENON_LOG) is at least `level`. */
    void (*log)(int level, const char *format, ...)
#if defined(__GNUC__)
        __attribute__((format(printf, 2, 3)))
#endif
        ;
    /* Calls body(context, i) for i in [0, count) on the core's threads.
     * Returns when all calls are done. Partition by the shape, never by the
     * number of threads. Do not nest calls: a nested call runs serially. Each
     * thread has its own floating-point state. */
    void (*parallel_for)(int64_t count, void (*body)(void *context, int64_t i),
                         void *context);
    /* Runs a program over host memory with the reference interpreter.
     * memory[k] is what the buffer of operand k points to. On an index fault,
     * returns TN_ERR_INDEX and fills *fault up to the size that is set in
     * it. */
    tn_status (*interpret)(const tn_program *program, const tn_launch *launch,
                           void *const *memory, tn_fault *fault);
    /* The value of TENON_<PLUGIN>_<key>, or of "key=value" after the device's
     * name; NULL if it is not set. Copy it: the program may change its
     * environment. */
    const char *(*option)(const char *key);
    const void *(*extension)(const char *name, uint32_t version);
    /* Programs and primitives as source: see above. */
    tn_status (*plan_program)(const tn_target *target,
                              const tn_program *program,
                              const tn_launch *launch, tn_plan *plan);
    tn_status (*plan_matmul)(const tn_target *target,
                             const tn_matmul_args *matmul, tn_plan *plan);
    tn_status (*plan_scatter)(const tn_target *target,
                              const tn_scatter_args *scatter, tn_plan *plan);
    tn_status (*plan_scan)(const tn_target *target, const tn_scan_args *scan,
                           tn_plan *plan);
    tn_status (*plan_sort)(const tn_target *target, const tn_sort_args *sort,
                           tn_plan *plan);
    /* Prints the text of a plan's kernel. program is NULL if the plan is that
     * of a primitive. */
    tn_status (*print)(const tn_target *target, const tn_program *program,
                       const tn_plan *plan, tn_source *source);
    void (*print_free)(tn_source *source);
    /* TN_OK: no launch failed. Otherwise returns TN_ERR_INDEX and fills *fault
     * up to the size that is set in it. */
    tn_status (*fault_read)(const void *buffer, uint32_t fault_room,
                            tn_fault *fault);
    /* An on-disk cache of the output of the device's compiler. The key contains
     * everything on which the value depends: the plugin, the device, its
     * driver's version, options, the whole text. cache_read passes the value to
     * `take` and returns its result; 0 if there is no value, or no cache. It
     * removes a damaged value, and one for which `take` returns 0.
     * cache_write stores a value; a failure is not reported. */
    uint32_t (*cache_read)(const void *key, uint64_t key_bytes,
                           uint32_t (*take)(void *context, const void *value,
                                            uint64_t value_bytes),
                           void *context);
    void (*cache_write)(const void *key, uint64_t key_bytes, const void *value,
                        uint64_t value_bytes);
    /* Locks the key until cache_release. Waits while another thread holds it,
     * in any process with the same cache. Returns the argument of cache_release
     * (-1 if nothing is locked: there is no cache, or the file cannot be
     * locked). A text that is compiled under the lock is
     * compiled once, and compilers with files of their own never compile the
     * same text concurrently. A thread holds at most one key. */
    int32_t (*cache_hold)(const void *key, uint64_t key_bytes);
    void (*cache_release)(int32_t hold);
    /* The steps of the extension "attention" as source, like those of
     * primitives. TN_ERR_UNSUPPORTED, with the reason: there is no kernel for
     * these arguments. */
    tn_status (*plan_attention)(const tn_target *target,
                                const struct tn_attention_args *attention,
                                tn_plan *plan);
    /* The same for the extension "conv", on devices without TN_TARGET_CHUNKED.
     * The bits are those of the core's method by columns (im2col) with
     * plan_matmul, except for a gradient of weights over more than 1024 images,
     * or over more columns than that method makes at once. */
    tn_status (*plan_conv)(const tn_target *target,
                           const struct tn_conv_args *conv, tn_plan *plan);
} tn_host;

typedef struct tn_plugin {
    uint32_t size, abi_major, abi_minor, reserved;
    const char *name, *version;

    /* required */
    tn_status (*device_count)(uint32_t *count);
    tn_status (*device_info)(uint32_t i, tn_device_info *info);
    tn_status (*device_open)(uint32_t i, tn_plugin_device **device);
    void (*device_close)(tn_plugin_device *device);
    tn_status (*buffer_alloc)(tn_plugin_device *device, uint64_t bytes,
                              tn_buffer **buffer);
    void (*buffer_free)(tn_plugin_device *device, tn_buffer *buffer);
    tn_status (*queue_open)(tn_plugin_device *device, tn_queue **queue);
    void (*queue_close)(tn_queue *queue);
    /* Waits for all work submitted to the queue. Returns the first failure
     * since the last sync and fills *fault with it (see tn_fault); or returns
     * TN_OK and leaves *fault unchanged. Pass the text of a failure to
     * host->fail here. The core writes the text of TN_ERR_INDEX itself. */
    tn_status (*queue_sync)(tn_queue *queue, tn_fault *fault);
    tn_status (*copy)(tn_queue *queue, const tn_copy_args *copy);
    /* *program stays unchanged, at the same address, until program_free of
     * what was built. */
    tn_status (*program_build)(tn_plugin_device *device,
                               const tn_program *program, tn_built **built);
    void (*program_free)(tn_plugin_device *device, tn_built *built);
    /* The five compute primitives. queue_sync reports an index fault. A
     * synchronous device also returns TN_ERR_INDEX at once. The calling thread
     * then reads the details of that call by queue_sync; the calls of other
     * threads do not see them. */
    tn_status (*launch)(tn_queue *queue, tn_built *built,
                        const tn_launch *launch);
    tn_status (*matmul)(tn_queue *queue, const tn_matmul_args *matmul);
    tn_status (*scatter)(tn_queue *queue, const tn_scatter_args *scatter);
    tn_status (*scan)(tn_queue *queue, const tn_scan_args *scan);
    tn_status (*sort)(tn_queue *queue, const tn_sort_args *sort);

    /* optional: NULL means that the core works without it */
    tn_status (*buffer_map)(tn_plugin_device *device, tn_buffer *buffer,
                            void **pointer); /* TN_CAP_HOST_VISIBLE */
    /* Makes a buffer over the caller's host memory, which stays valid until
     * buffer_free. */
    tn_status (*buffer_wrap)(tn_plugin_device *device, void *host,
                             uint64_t bytes, tn_buffer **buffer);
    /* Events: all five slots, or none. An event marks a position in a queue:
     * the end of the work submitted to that queue before the event's last
     * event_record.
     *   event_query  *done = 1 if all of that work is done, else 0.
     *   queue_wait   work submitted to this queue afterwards starts when the
     *                event's work, on whichever queue, is done. It captures the
     *                last record made before it: a later one does not move it.
     *                The calling thread does not wait.
     * An event that was never recorded is done, and queue_wait then waits for
     * nothing. A new record replaces the one before: event_query then reports
     * only the new one. event_close may be called while a record or a wait is
     * pending: they stay in force. Threads says which calls may run
     * concurrently. */
    tn_status (*event_open)(tn_plugin_device *device, tn_event **event);
    void (*event_close)(tn_event *event);
    tn_status (*event_record)(tn_queue *queue, tn_event *event);
    tn_status (*event_query)(tn_event *event, uint32_t *done);
    tn_status (*queue_wait)(tn_queue *queue, tn_event *event);
    const void *(*extension)(const char *name, uint32_t version);
    /* Both or none. Page-locked host memory, which the device's copies read and
     * write independently, while other queues work. A device with events whose
     * copies run independently from any memory needs neither function: its
     * batches come from ordinary memory. When host_free is called, no copy uses
     * the memory any more. */
    tn_status (*host_alloc)(tn_plugin_device *device, uint64_t bytes,
                            void **memory);
    void (*host_free)(tn_plugin_device *device, void *memory);
    /* Like event_open, for an event that stores the time when it was reached.
     * Such events may cost more. */
    tn_status (*event_open_timed)(tn_plugin_device *device, tn_event **event);
    /* The device's time from one such event to another, in nanoseconds. Both
     * were recorded on queues of one device, and are done. Otherwise the call
     * fails and leaves *ns unchanged. Present with event_open_timed and the
     * five event slots above, or not at all. */
    tn_status (*event_elapsed)(tn_event *from, tn_event *to, double *ns);
} tn_plugin;

/* The minimum sizes, fixed for ever; tests/device/test_abi.c has the numbers.
 * Those of extensions are in plugin_extensions.h. */
#define TN_PROGRAM_SIZE_1_0 TN_END(tn_program, key)
#define TN_LAUNCH_SIZE_1_0 TN_END(tn_launch, tag)
#define TN_FAULT_SIZE_1_0 TN_END(tn_fault, position)
#define TN_MATMUL_ARGS_SIZE_1_0 TN_END(tn_matmul_args, tag)
#define TN_SCATTER_ARGS_SIZE_1_0 TN_END(tn_scatter_args, tag)
#define TN_SCAN_ARGS_SIZE_1_0 TN_END(tn_scan_args, tag)
#define TN_SORT_ARGS_SIZE_1_0 TN_END(tn_sort_args, tag)
#define TN_COPY_ARGS_SIZE_1_0 TN_END(tn_copy_args, tag)
#define TN_TARGET_SIZE_1_0 TN_END(tn_target, reserved)
#define TN_PLAN_SIZE_1_0 TN_END(tn_plan, argument)
#define TN_SOURCE_SIZE_1_0 TN_END(tn_source, kernel)
#define TN_DEVICE_INFO_SIZE_1_0 TN_END(tn_device_info, note)
#define TN_HOST_SIZE_1_0 TN_END(tn_host, extension)
#define TN_PLUGIN_SIZE_1_0 TN_END(tn_plugin, extension)

TN_API const tn_plugin *tenon_plugin_v1(const tn_host *host);

#ifdef __cplusplus
}
#endif

#include <tenon/plugin_extensions.h>
#endif
