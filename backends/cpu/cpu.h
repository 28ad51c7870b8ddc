/* cpu.h: what the files of this plugin share.
 *
 * A program is compiled once (build_program.c) into a flat list of block operations
 * over slots. A launch (cpu_launch.c) cuts the iteration space into groups by
 * shape alone and runs the list over each (block.c): every operation is one
 * call of a routine, a plain loop over a block of values that stays in L1.
 * The routines exist once for each instruction set (routines.h). */
#ifndef TN_CPU_H
#define TN_CPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/plugin.h>

#include "jit/native_body.h"
#include "simd/routines.h"

extern const tn_host *tn__cpu_host;

#define TN_CPU_ALIGN 64
#define TN_CPU_MAX_OPERANDS 32
#define TN_CPU_NONE 0xffffffffu

/* ---- devices, buffers, queues (cpu_device.c) ------------------------------- */

/* Windows of three columns by fewer products (conv_winograd.c): option
 * "winograd", not given, 0, 1. */
typedef enum conv_choice {
    CONV_WHERE_IT_PAYS,
    CONV_DIRECT,
    CONV_WINOGRAD
} conv_choice;

struct tn_plugin_device {
    const tn_cpu_routines *routines;
    int64_t stream_bytes; /* written from which on stores pass the caches by */
    conv_choice conv;
};

struct tn_buffer {
    char *memory; /* aligned to 64 where owned */
    uint64_t bytes;
    bool wrapped; /* memory is the program's */
};

struct tn_queue {
    const tn_cpu_routines *routines;
    int64_t stream_bytes; /* the device's */
    conv_choice conv;     /* likewise */
};

/* The first failure of the calling thread since its last queue_sync. A call
 * of this synchronous plugin may run beside others on the same queue; what it
 * failed with is asked for by the thread that made it. */
tn_status tn__cpu_fault_raise(const tn_fault *fault);
tn_status tn__cpu_fault_take(tn_fault *fault);

/* At least bytes of scratch memory that belong to the calling thread until it
 * asks again; NULL when memory runs out. */
void *tn__cpu_scratch(size_t bytes);

/* Memory for all tasks of the calling thread's call, one at a time; NULL when
 * there is none. What was lent is given back before the call returns, and the
 * next call has the same: fresh memory of the system costs a page fault for
 * each 4 KiB. */
void *tn__cpu_lend(size_t bytes);
void tn__cpu_give_back(void *memory);

/* The floating-point state that programs need (round to nearest, subnormals
 * kept); restore gives back the thread's own. */
unsigned tn__cpu_fpu_set(void);
void tn__cpu_fpu_restore(unsigned state);
/* x rounded to float in that state. */
float tn__cpu_single(double x);

static inline char *tn__cpu_at(const tn_buffer *buffer, int64_t offset,
                               size_t bytes)
{
    return buffer ? buffer->memory + offset * (int64_t)bytes : NULL;
}

static inline int64_t tn__cpu_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Memory is asked for, a line of the cache at a time; it may lie behind what is
 * there. */
static inline void tn__cpu_fetch(const void *from, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += 64)
        __builtin_prefetch((const char *)from + i, 0, 3);
}

extern const uint8_t tn__cpu_dtype_bytes[TN_DTYPE_END];

/* The row-major count of points; 1 for no dimensions. */
static inline int64_t tn__cpu_product(const int64_t *extent, uint32_t ndim)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < ndim; d++)
        count *= extent[d];
    return count;
}

/* ---- compiled programs (build_program.c) --------------------------------------- */

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
    CPU_RUN,    /* run(out, a, b, c) */
    CPU_MATH,   /* math(out, a, b, c): a printed function */
    CPU_PAIR,   /* PHILOX of a to out and of a + 1 to where; b, c: one value */
    CPU_SPREAD, /* out (elem) = a (row) for each of its elements */
    CPU_FILL,   /* out = the one value of a */
    CPU_PARAM,  /* out = parameter index */
    CPU_ROWLEN,
    CPU_LOAD,   /* out = operand index; a, b, c its I64 indices */
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
    CPU_NOTHING /* what is read no more */
};

enum {
    CPU_DIRECT = 128, /* STORE: the operation that makes the value, in the same
                         part, may write it to where it is to be stored */
    CPU_PIECES = 64, /* STORE, DIRECT: that is a function, which goes piece by
                        piece and may store past the caches as it goes */
    CPU_PAST = 32, /* STORE, DIRECT: that is machine code, which may, if lines
                      begin where a vector may */
    CPU_FOLDED = 64,  /* LOAD: for reductions alone, which take columns with
                         any step between elements */
    CPU_LENT = 32,    /* LOAD: for operations that can go row by row alone: one
                         row of memory may serve all; FOLDED too: for these and
                         for reductions, which take lines of columns alike */
    CPU_SINGLE = 16,  /* LOAD, LENT: for those alone that can take it as one
                         value: where it is one for all of a block, it is left
                         in memory */
    CPU_FACTORS = 2,  /* RUN: for the reduction `jump` operations on alone,
                         which takes the factors from rows if it can, */
    CPU_LINES = 4,    /* from columns */
    CPU_WANTED = 1    /* SPREAD: for more than those that can take rows */
};

/* What the operations before a reduction make: of the last one's operands, or
 * of the second last one's and a number. */
enum { CPU_PRODUCT = 1, /* a * b */ CPU_LESS /* (a - b) * c */,
       CPU_TRIPLE /* (a * b) * c */, CPU_SCALED /* (a - b) * c * number */ };

typedef struct cpu_op {
    uint8_t code;
    uint8_t scalar; /* bits: a, b, c are one value each */
    uint8_t type;   /* register type (CPU_F32 ...) of the value */
    uint8_t flags;  /* LOAD: its sub; CPU_... */
    uint8_t row;    /* bits: of a, b, c the slot narrow[] has one value for
                       each row, to be taken where rows are long */
    uint8_t lent;   /* bits: a, b, c is from a LENT load */
    uint8_t allowed; /* bits: a, b, c might be one value */
    uint8_t lines;  /* REDUCE: CPU_PRODUCT ... */
    bool early;     /* hoisted code: hangs on no load by an index (such a load
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
    bool folds_lines; /* or make, of columns, what folds take line by line */
    bool hoisted;     /* what is early keeps its slots from block to block */
    uint32_t loop_depth; /* most loops inside one another */
    cpu_part uniform;
} cpu_code;

/* A program of one instruction over loaded values: o = x op y. */
typedef struct cpu_direct {
    tn_cpu_run *run; /* NULL: the program is not of this kind */
    tn_cpu_run *once; /* makes the one value that run fills with, or NULL */
    bool fills;       /* with one value */
    unsigned allowed; /* operands that may be one value: bits */
    uint32_t out;      /* operand number */
    uint32_t in_count;
    struct {
        uint32_t operand; /* NONE: the parameter or constant `number` */
        bool is_param;
        uint8_t type;
        uint32_t number;
        uint64_t constant; /* its bytes, the first ones */
    } in[3];
} cpu_direct;

/* A program that is a sum of loads by an index, each times a weight (taps_blocks.c). */
typedef struct cpu_taps {
    uint32_t count;   /* 0: it is none */
    uint32_t in, out; /* operand numbers */
    uint32_t index[TN_CPU_TAPS], weight[TN_CPU_TAPS]; /* too */
    uint32_t load[TN_CPU_TAPS], weigh[TN_CPU_TAPS]; /* ops of hoisted code */
    int depth;       /* of the tree of additions, */
    uint32_t leaves; /* whose leaves with a bit are the taps, left to right */
} cpu_taps;

/* A program whose rows are such sums, and the ones in which so many taps are
 * written out, made when they are first wanted. */
typedef struct cpu_row_taps {
    bool is_row;
    uint32_t in, index, weight, out, flags; /* operands; of the load */
    _Atomic(tn_built *) written[TN_CPU_TAPS + 1];
} cpu_row_taps;

/* A program that stores what it loads by indices (runs.c). */
typedef struct cpu_runs {
    uint32_t count; /* indices; 0: it is none */
    uint32_t in, out;
    struct {
        uint32_t operand;
        bool counted; /* an OFFSET; else a plain load */
    } index[3];
    bool zero; /* an index outside is no fault */
} cpu_runs;

struct tn_built {
    const tn_cpu_routines *routines;
    int64_t stream_bytes; /* the device's */
    tn_kernel_operand *operand;
    uint32_t *late; /* of each operand that is written: bits of those that are
                       read after it is */
    uint32_t operand_count;
    bool has_rows; /* more than one stage, a reduction or a row part */
    cpu_code kept;     /* each value is computed once for a group */
    cpu_code streamed; /* rows too long to be kept: once for each stage */
    cpu_code lined;    /* the same by machine code, for rows that lie in lines;
                          may be empty */
    cpu_code hoisted;  /* elementwise, with loads by an index: kept, for
                          blocks that share their indices; may be empty */
    cpu_direct direct;
    cpu_runs runs;
    cpu_taps taps;
    cpu_row_taps row_taps;
    bool is_copy; /* stores what it loads, bits as they are */
    bool is_take; /* the same, with one index */
    bool take_zero; /* an index outside is no fault */
    uint32_t copy_in, copy_out, take_index; /* operand numbers */
};

tn_status tn__cpu_program_build(tn_plugin_device *device,
                                const tn_program *program, tn_built **built);
void tn__cpu_program_free(tn_plugin_device *device, tn_built *built);

/* Compiles one of the codes; keep: for groups of whole rows. */
tn_status tn__cpu_compile(const tn_program *program,
                          const tn_cpu_routines *routines, bool keep,
                          bool hoisted, cpu_code *code);
void tn__cpu_code_release(cpu_code *code);
/* A number as the first bytes of a register of type (8 are written). */
void tn__cpu_number_store(void *at, unsigned type, tn_number number);
/* Makes one operation of two where that saves a pass (fuse.c). */
tn_status tn__cpu_fuse(const tn_cpu_routines *routines, cpu_code *code);
/* Finds operations that can run as one (native_find.c). */
tn_status tn__cpu_find_native(const tn_program *program,
                              const tn_cpu_routines *routines, bool keep,
                              cpu_code *code);
/* Gives each ELEM slot its place, so that slots whose lives do not meet share
 * one; those that a later part reads become GROUP slots (place_slots.c). */
tn_status tn__cpu_place_slots(cpu_code *code);

/* ---- running blocks (block.c, view.c) ---------------------------------- */

/* An operand as a linear sequence: point p of extent[], in row-major order,
 * lies at base + sum of coordinate * stride. */
typedef struct cpu_view {
    char *base;
    int64_t offset; /* for OFFSET operands, which have no base */
    uint32_t ndim;  /* coalesced: 0 for one point */
    uint8_t dtype, bytes;
    int64_t extent[TN_MAX_NDIM], stride[TN_MAX_NDIM];
} cpu_view;

/* One point, where the operand begins. */
void tn__cpu_view_init(cpu_view *view, const tn_kernel_operand *operand,
                       const tn_launch_operand *given);
/* Moves the beginning by that many elements. */
void tn__cpu_view_move(cpu_view *view, int64_t offset);
/* Adds a dimension inside those there are, merged with the last if possible. */
void tn__cpu_view_push(cpu_view *view, int64_t extent, int64_t stride);
/* Memory of points [p, p + n) if it has no gaps, else NULL. */
char *tn__cpu_view_flat(const cpu_view *view, int64_t p, int64_t n);
void tn__cpu_view_load(const cpu_view *view, const tn_cpu_routines *routines,
                       int64_t p, int64_t n, void *out);
void tn__cpu_view_store(const cpu_view *view, const tn_cpu_routines *routines,
                        int64_t p, int64_t n, const void *in);
void tn__cpu_view_offsets(const cpu_view *view,
                          const tn_cpu_routines *routines, int64_t p,
                          int64_t n, int64_t *out);

/* Register blocks of this dtype are as memory is. */
static inline bool tn__cpu_is_as_stored(unsigned dtype)
{
    return dtype == TN_F32 || dtype == TN_F64 || dtype == TN_I32 ||
           dtype == TN_I64;
}

/* The one value that points [p, p + n) all are, as far as their strides tell;
 * else NULL. */
char *tn__cpu_view_single(const cpu_view *view, int64_t p, int64_t n);

typedef struct cpu_plan cpu_plan;

/* Steps, of a slot that has one value alone, or one for each line of columns. */
#define TN_CPU_ONE_VALUE INT64_MIN
#define TN_CPU_ONE_EACH (INT64_MIN + 1)

/* What of an operation may be there already. */
enum { CPU_KNOWN = 1 /* its values */, CPU_PLACED /* LOAD: its offsets */ };

/* Memory that the next block will want, as far as it is not yet on its way to
 * the cache. */
typedef struct cpu_ahead {
    const char *at, *end;
} cpu_ahead;
#define TN_CPU_AHEAD 4 /* operands for which it is known */

/* A block of results on its way past the caches: some of it goes whenever
 * something is asked for, so that memory is written beside later work too. */
typedef struct cpu_later {
    char *at, *end, *to; /* [at, end) is still to go; at == end: all went */
    char *room;          /* where such blocks are made */
} cpu_later;
#define TN_CPU_LATER 8

/* What blocks of one size share by taps_blocks.c, where the dimensions that they do not
 * share are at `outer`. */
typedef struct cpu_tap_table {
    tn_cpu_tap *tap;
    int64_t outer, entries;
} cpu_tap_table;

/* One thread's work on a plan. A block is `count` elements of `rows` rows: by
 * default row after row; with `columns`, element k of all rows, then k + 1. */
typedef struct cpu_task {
    cpu_plan *plan;
    const cpu_code *code;
    const tn_cpu_routines *routines;
    char **slot; /* where each slot's values are now */
    char **home; /* where they are by rights (a load may point to memory) */
    char **past; /* where a slot's values are to be stored past the caches by
                    the function that makes them; NULL: nowhere */
    char **base; /* where a GROUP slot's values of the group begin: home, or
                    memory without gaps */
    int64_t *step; /* of a slot from a FOLDED load: from an element to the
                      next of the same column; from a LENT one: from a row (of
                      columns, and of streamed rows, a line) to the next, or
                      TN_CPU_ONE_...; of a result that goes to such lines */
    const cpu_view *view; /* of each operand, for elem parts */
    cpu_view *own_view;   /* the group's, for columns and tiles; else NULL */
    char *temporary;      /* 8 bytes for each element of a block */
    struct cpu_fold *fold;
    int64_t first_row, rows; /* of the group */
    int64_t at, count;       /* first point of the block in view; points */
    int64_t first_elem;      /* of the block, within its row */
    int64_t group_at, group_count; /* first point of the group, points */
    bool columns;
    bool by_rows; /* rows are long: an operation goes row by row */
    bool by_lines; /* there are many columns: it may go line by line */
    int64_t line;  /* of a streamed row: the block is lines of so many elements,
                      the first and the last of which may be cut; 0: it is none */
    int64_t next_row; /* line > 0: bytes to what the next row reads like slot */
    uint32_t next_slot; /* this, which was loaded; 0: it reads nothing */
    char *chunks;  /* room for those that are in two lines (native_run.c) */
    bool again;    /* an earlier stage has just read what is loaded */
    const uint8_t *skip; /* of each operation: what is there already; NULL */
    int64_t box_outer, box_count; /* for which it is (hoist.c) */
    cpu_tap_table taps[2];        /* what taps_blocks.c makes of it */
    int64_t tile_at, tile_step[2], tile_width; /* position of a tile's element
                                                  i: at + i / width * step[0] +
                                                  i % width * step[1] */
    cpu_ahead ahead[TN_CPU_AHEAD];
    cpu_later later[TN_CPU_LATER]; /* plan->laters of them, used in turns: */
    uint32_t later_made, later_gone; /* numbers of the next one to be made and
                                        to go */
    uint32_t later_slot; /* made in such a block; TN_CPU_NONE */
    uint32_t loops;          /* that run */
    struct {
        int64_t round;
        uint32_t mask; /* slot */
    } loop[8];
} cpu_task;

/* Runs a part: over the elements of the block, or over the rows of the group
 * (CPU_ROW), or once (CPU_UNIFORM). */
void tn__cpu_run_part(cpu_task *task, cpu_part part, unsigned level);
/* A segment's, and whether it makes its reductions too (native_run.c). */
void tn__cpu_run_native(cpu_task *task, const cpu_op *op);
bool tn__cpu_native_folds(const cpu_task *task);
/* Can all stages of code go over lines of a row, where operands lie so? */
bool tn__cpu_native_takes_lines(const cpu_code *code);
#define TN_CPU_CHUNKS_BYTES (4 * 8 * TN_CHUNK * 4) /* of cpu_task.chunks: what
                                     a call has of them, of so many operands */
/* Between operations, and between pieces of one: asks for what the next block
 * reads, and sends off results, so many bytes of each. */
void tn__cpu_work_beside(cpu_task *task, int64_t bytes);
/* Sends off what of the results still is on its way past the caches. */
void tn__cpu_run_end(cpu_task *task);

/* ---- reductions (fold_rows.c) ----------------------------------------------- */

/* The state of one reduction over one row, or over `rows` columns at once. */
typedef struct cpu_fold {
    int64_t chunks; /* folded into tree; or, for ARGMAX and ARGMIN, elements */
    int64_t open;   /* elements of the chunk that is in lanes (columns) */
    int64_t ahead;  /* bytes by which what is folded is asked for */
    char *lanes;    /* columns: TN_LANES x rows values */
    char *tree;     /* levels x rows values; best for ARGMAX, ARGMIN */
    int64_t *place; /* rows; ARGMAX, ARGMIN */
} cpu_fold;

/* Bytes that the states of all reductions of code need. */
size_t tn__cpu_fold_bytes(const cpu_code *code, int64_t rows, bool columns);
/* Gives the states their memory, of that many bytes; ahead: of all. */
void tn__cpu_fold_place(cpu_fold *fold, const cpu_code *code, int64_t rows,
                        bool columns, int64_t ahead, char *memory);
void tn__cpu_fold_begin(cpu_fold *fold);
/* One more block of each row: elements from k on (a multiple of TN_CHUNK, or
 * of TN_LANES for columns, which lie step from one to the next). */
void tn__cpu_fold_block(cpu_fold *fold, const cpu_reduce *reduce,
                        const tn_cpu_routines *routines, const void *x,
                        int64_t step, int64_t k, int64_t count, int64_t rows,
                        bool columns);
/* Sums of products of two factors, of a block of one row and of whole rows. */
void tn__cpu_fold_products(cpu_fold *fold, const cpu_reduce *reduce,
                           const tn_cpu_routines *routines,
                           const tn_cpu_factor *factor, int64_t count);
void tn__cpu_fold_product_rows(cpu_fold *fold, const cpu_reduce *reduce,
                               const tn_cpu_routines *routines,
                               const tn_cpu_factor *factor, int64_t rows,
                               int64_t length, void *out);
/* One more block of columns, of products of lines. */
void tn__cpu_fold_lines(cpu_fold *fold, const cpu_reduce *reduce,
                        const tn_cpu_routines *routines, tn_cpu_lines lines,
                        int64_t count, int64_t rows);
/* The folds of the rows' next chunks, made elsewhere: of one chunk of all rows,
 * then of the next; value is written over. */
void tn__cpu_fold_push(cpu_fold *fold, const cpu_reduce *reduce,
                       const tn_cpu_routines *routines, int64_t rows,
                       void *value, int64_t chunks);
#define TN_CPU_FOLD_BATCH 64 /* most of them */
/* The fold of an aligned power of two of chunks, made elsewhere. */
void tn__cpu_fold_join(cpu_fold *fold, const cpu_reduce *reduce,
                       const tn_cpu_routines *routines, const cpu_fold *part,
                       char *part_value, int64_t rows);
/* The results, one for each row. */
void tn__cpu_fold_end(cpu_fold *fold, const cpu_reduce *reduce,
                      const tn_cpu_routines *routines, int64_t rows,
                      void *out);
/* Whole rows at once: x holds rows x length elements. */
void tn__cpu_fold_rows(cpu_fold *fold, const cpu_reduce *reduce,
                       const tn_cpu_routines *routines, const void *x,
                       int64_t step, int64_t rows, int64_t length,
                       bool columns, void *out);

/* ---- launches (cpu_launch.c) ----------------------------------------------- */

struct cpu_plan {
    const tn_built *built;
    const tn_launch *launch;
    const cpu_code *code;
    const tn_cpu_routines *routines;
    char *uniform;
    char *shared_rows; /* row slots of all tasks on a split row, or NULL */
    int64_t row_count, row_length;
    int64_t group_rows, block;  /* most rows of a group, elements of a block */
    int64_t column_extent;      /* neighbouring rows that a group may take */
    uint32_t box_first; /* a group takes the outer dimensions from here on
                           whole; outer_ndim: columns of the last one */
    int64_t groups_per_task, group_count;
    uint32_t tile_dim[2];       /* of tiles: the two dimensions, */
    int64_t tile[2];            /* most elements along them */
    struct cpu_hoist *hoist; /* blocks that share indices; or NULL */
    bool columns, tiled;
    bool taps;     /* blocks that share indices go by taps_blocks.c */
    bool in_place; /* something is written where it was read */
    bool overlap;  /* and is read after that: loads are copies */
    bool kept;   /* a block is a whole group */
    bool stream; /* stores pass the caches by */
    bool ahead;  /* more is read than lies in a cache near the core */
    int64_t piece; /* bytes asked for before an operation, of each operand */
    uint32_t laters;    /* blocks that may be on their way past the caches, */
    int64_t later_bytes; /* of so many bytes */
    int64_t run, run_blocks; /* elementwise: no block goes beyond a run of so
                                many points; blocks of each */
    int64_t line; /* elementwise: a block is lines of so many points, or 0;
                     streamed rows: stages go over such lines where they lie */
    bool past_lines; /* these go past the caches as they are made */
    atomic_int failed; /* a status */
    atomic_flag fault_lock;
    tn_fault fault;    /* code 0: none */
    cpu_view view[TN_CPU_MAX_OPERANDS], row_view[TN_CPU_MAX_OPERANDS];
};

tn_status tn__cpu_launch(tn_queue *queue, tn_built *built,
                         const tn_launch *launch);
/* An index of operand lies outside; the lowest position wins. */
void tn__cpu_plan_fault(cpu_plan *plan, uint32_t operand, uint32_t dim,
                        int64_t index, int64_t position);

#endif
