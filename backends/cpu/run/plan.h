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
    char *shared_rows; /* row slots of all tasks on a split row, or NULL */
    int64_t row_count, row_length;
    int64_t group_rows, block;  /* most rows of a group, elements of a block */
    int64_t column_extent;      /* neighbouring rows that a group may take */
    uint32_t box_first; /* a group takes the outer dimensions from here on
                           whole; outer_ndim: columns of the last one */
    int64_t groups_per_task, group_count;
    struct {
        uint32_t dim[2];   /* the two dimensions of tiles, */
        int64_t extent[2]; /* most elements along them */
    } tile;
    struct cpu_hoist *hoist; /* blocks that share indices; or NULL */
    bool columns, tiled;
    bool taps;     /* blocks that share indices go by taps_blocks.c */
    bool in_place; /* something is written where it was read */
    bool overlap;  /* and is read after that: loads are copies */
    bool kept;   /* a block is a whole group */
    struct {
        bool stream;     /* stores pass the caches by */
        bool stream_subrows; /* those to lines (below) do as they are made */
        bool ahead;    /* more is read than lies in a cache near the core */
        int64_t bytes_per_op; /* bytes asked for before an operation, of each operand */
        uint32_t blocks; /* that may be on their way past the caches, */
        int64_t block_bytes; /* of so many bytes */
    } traffic;           /* with memory (traffic.c) */
    int64_t run, run_blocks; /* elementwise: no block goes beyond a run of so
                                many points; blocks of each */
    int64_t subrow;    /* elementwise: a block is lines of so many points, or 0;
                     streamed rows: stages go over such lines where they lie */
    atomic_int failed; /* a status */
    atomic_flag fault_lock;
    tn_fault fault;    /* code 0: none */
    cpu_view view[TN_CPU_MAX_OPERANDS], row_view[TN_CPU_MAX_OPERANDS];
};

/* plan->built, launch, routines, row_count and row_length are known: cuts the
 * space; hoist is for plan->hoist. */
struct cpu_hoist;
void tn__cpu_plan_cut(cpu_plan *plan, struct cpu_hoist *hoist);
/* All of a launch by blocks (cpu_launch.c). */
tn_status tn__cpu_run(tn_built *built, const tn_launch *launch);
/* An index of operand lies outside; the lowest position wins
 * (plan_fault.c). */
void tn__cpu_plan_fault(cpu_plan *plan, uint32_t operand, uint32_t dim,
                        int64_t index, int64_t position);

/* Bytes of an element's slots; whole: with those that stay for a group. Elements
 * of a block of code, so that they stay in L1. */
int64_t tn__cpu_slot_bytes(const cpu_code *code, bool whole);
int64_t tn__cpu_block_size(const cpu_code *code, bool whole);

/* Rows that lie in lines (subrows.c): elements of a line, if stages of machine code
 * may go over such lines of rows whose operands have runs of so many points, else
 * 0; the code for it; whether what is written may go past the caches so. */
#define TN_CPU_MIN_RUN 512 /* points that are worth a block of their own */
int64_t tn__cpu_subrow_length(const cpu_plan *plan, int64_t run);
const cpu_code *tn__cpu_subrow_code(const tn_built *built);
bool tn__cpu_subrows_can_stream(const cpu_plan *plan);

/* Elementwise work over operands that lie across each other: groups become
 * tiles (tile.c). False if there are none such. */
bool tn__cpu_cut_tiles(cpu_plan *plan);
/* Turns the task to a tile: its views, its block. */
void tn__cpu_task_tile(cpu_task *task, int64_t group);

/* Elementwise work with indices that are the same along some dimensions
 * (hoist.c). */
#define TN_CPU_HOIST_OPS 96   /* most operations, */
#define TN_CPU_HOIST_SLOTS 160 /* slots of hoisted code */
typedef struct cpu_hoist {
    uint32_t ndim; /* dimensions, merged: 0 outermost */
    uint32_t dim[2 * TN_MAX_NDIM]; /* of the launch: the innermost of each */
    int64_t extent[2 * TN_MAX_NDIM];
    int64_t number[2 * TN_MAX_NDIM]; /* from one to the next, in row-major
                                        order */
    uint32_t box_dim;  /* a block has `box` of this one, the inner ones whole */
    int64_t box, chunks;
    uint32_t shared;   /* bits: dimensions along which indices are the same */
    int64_t shared_count; /* blocks along those */
    uint8_t skip[TN_CPU_HOIST_OPS]; /* what the first of those leaves there */
} cpu_hoist;
/* Blocks for plan->hoist; false if there is nothing to share. */
bool tn__cpu_cut_shared(cpu_plan *plan, cpu_hoist *hoist);
/* Turns the task to a block: its views, and what is left to do. */
void tn__cpu_task_shared(cpu_task *task, int64_t group);

/* Few long rows: all threads work on one (split_rows.c). */
bool tn__cpu_wants_split(cpu_plan *plan);
void tn__cpu_run_split(cpu_plan *plan);

#endif
