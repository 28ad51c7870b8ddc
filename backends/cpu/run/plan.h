/* plan.h: how a launch is cut into groups, tasks and blocks. */
#ifndef TN_CPU_PLAN_H
#define TN_CPU_PLAN_H

#include "task.h"

struct cpu_plan {
    const tn_built *built;
    const tn_launch *launch;
    const cpu_code *code;
    const tn_cpu_routines *routines;
    char *uniform;
    char *shared_rows; /* row slots that all tasks on a split row share, or
                          NULL */
    int64_t row_count, row_length;
    int64_t group_rows, block; /* most rows of a group; elements of a block */
    int64_t column_extent;     /* columns: adjacent rows that one dimension, or
                                  the box, has */
    uint32_t box_first;        /* columns: a group takes the outer dimensions
                                  from here on whole; outer_ndim: rows of the
                                  last one */
    int64_t groups_per_task, group_count;
    struct {
        uint32_t dim[2];   /* the dimensions along which tiles are cut */
        int64_t extent[2]; /* most elements of a tile along them */
    } tile;
    struct cpu_hoist *hoist; /* blocks that share indices; or NULL */
    bool columns, tiled;
    bool taps;     /* blocks that share indices run by taps_blocks.c */
    bool in_place; /* an output has the memory of an input */
    bool overlap;  /* and that input is read after the write: loads must copy */
    bool kept;     /* a block is a whole group */
    struct {
        bool stream;     /* results go out by non-temporal stores */
        bool stream_subrows; /* so do those of subrows, as they are made */
        bool ahead;    /* the launch reads more than an L2 holds */
        int64_t bytes_per_op; /* bytes to prefetch before an operation, of each
                                 operand */
        uint32_t blocks; /* blocks of results whose stores are deferred, */
        int64_t block_bytes; /* and the bytes of each */
    } traffic;           /* memory traffic (traffic.c) */
    int64_t run, run_blocks; /* elementwise: points of a run, which no block
                                crosses; blocks of a run */
    int64_t subrow;    /* elementwise: a block consists of rows of this many
                          points, or 0; streamed rows: length of their subrows,
                          or 0 */
    atomic_int failed; /* a tn_status */
    atomic_flag fault_lock;
    tn_fault fault;    /* code TN_OK: none */
    cpu_view view[TN_CPU_MAX_OPERANDS], row_view[TN_CPU_MAX_OPERANDS];
};

/* Cuts the space. built, launch, routines, row_count and row_length are set.
 * hoist: memory for plan->hoist. */
struct cpu_hoist;
void tn__cpu_plan_cut(cpu_plan *plan, struct cpu_hoist *hoist);
/* Runs a launch by blocks (cpu_launch.c). */
tn_status tn__cpu_run(tn_built *built, const tn_launch *launch);
/* Records that an index of operand is out of range. The lowest position wins
 * (plan_fault.c). */
void tn__cpu_plan_fault(cpu_plan *plan, uint32_t operand, uint32_t dim,
                        int64_t index, int64_t position);

/* Bytes of an element's slots; whole: including those of the group. And the
 * block size in elements, chosen so that slots stay in L1. */
int64_t tn__cpu_slot_bytes(const cpu_code *code, bool whole);
int64_t tn__cpu_block_size(const cpu_code *code, bool whole);

/* Subrows (subrows.c) are the contiguous parts of a row, such as the planes of
 * a channel. Their length if machine code can process the rows subrow by
 * subrow, else 0; run: the shortest run of all operands. The code for that.
 * Whether its results may use non-temporal stores. */
#define TN_CPU_MIN_RUN 512 /* points that are worth a block of their own */
int64_t tn__cpu_subrow_length(const cpu_plan *plan, int64_t run);
const cpu_code *tn__cpu_subrow_code(const tn_built *built);
bool tn__cpu_subrows_can_stream(const cpu_plan *plan);

/* Elementwise work on operands of which one is dense along another dimension:
 * cuts the space into tiles (tile.c). False: there is no such operand. */
bool tn__cpu_cut_tiles(cpu_plan *plan);
/* Sets the task to a tile: its views and its block. */
void tn__cpu_task_tile(cpu_task *task, int64_t group);

/* Elementwise work whose indices are the same along some dimensions
 * (hoist.c). */
#define TN_CPU_HOIST_OPS 96   /* most operations */
#define TN_CPU_HOIST_SLOTS 160 /* and slots of hoisted code */
typedef struct cpu_hoist {
    uint32_t ndim;                 /* dimensions after merging; 0 is the
                                      outermost */
    uint32_t dim[2 * TN_MAX_NDIM]; /* the launch's dimension of each: its
                                      innermost one */
    int64_t extent[2 * TN_MAX_NDIM];
    int64_t number[2 * TN_MAX_NDIM]; /* row-major strides of the merged
                                        dimensions */
    uint32_t box_dim;                /* a block has `box` of this dimension and
                                        the inner ones whole */
    int64_t box, chunks;
    uint32_t shared;                /* bits: dimensions along which indices are
                                       the same */
    int64_t shared_count;           /* blocks along those */
    uint8_t skip[TN_CPU_HOIST_OPS]; /* of each operation: CPU_KNOWN, CPU_PLACED
                                       once the first block ran */
} cpu_hoist;
/* Cuts blocks for plan->hoist; false: nothing is shared. */
bool tn__cpu_cut_shared(cpu_plan *plan, cpu_hoist *hoist);
/* Sets the task to a block: its views, and which operations to skip. */
void tn__cpu_task_shared(cpu_task *task, int64_t group);

/* A few long rows: all threads work on one (split_rows.c). */
bool tn__cpu_wants_split(cpu_plan *plan);
void tn__cpu_run_split(cpu_plan *plan);

#endif
