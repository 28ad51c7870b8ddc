/* plan.h: how a launch is cut into groups of rows, groups into blocks, and how
 * groups are assigned to tasks. program/code.h defines these words. */
#ifndef TN_CPU_PLAN_H
#define TN_CPU_PLAN_H

#include "task.h"

struct cpu_plan {
    const tn_built *built;
    const tn_launch *launch;
    const cpu_code *code; /* the form of built that the launch runs */
    const tn_cpu_routines *routines;
    char *uniform; /* memory of UNIFORM slots */
    /* Memory of ROW slots that all tasks on one split row share, or NULL. */
    char *shared_rows;
    int64_t row_count, row_length; /* number of rows; elements of a row */
    /* Most rows of a group; most elements of a block. */
    int64_t group_rows, block;
    /* With columns: how many adjacent rows one merged outer dimension has, or
     * the box of dimensions from box_first on. A group is some or all of
     * them. */
    int64_t column_extent;
    /* With columns: a group has all points of outer dimensions box_first and
     * inner. If box_first is outer_ndim, a group is cut from the innermost
     * outer dimension instead. */
    uint32_t box_first;
    int64_t groups_per_task, group_count;
    struct {
        uint32_t dim[2];   /* the two dimensions that tiles are cut from */
        int64_t extent[2]; /* most elements of a tile along each of them */
    } tile;
    /* How blocks share indices (hoist.c), or NULL if they do not. */
    struct cpu_hoist *hoist;
    /* A group is a set of columns (rows that are adjacent in memory); a group
     * is a tile of two dimensions (tile.c). */
    bool columns, tiled;
    bool taps;     /* blocks with shared indices run by taps_blocks.c */
    bool in_place; /* an output has the same memory as an input */
    bool overlap;  /* in_place, and that input is read after the output is
                      written: loads must copy */
    bool kept;     /* a block is a whole group */
    /* Memory traffic (traffic.c). */
    struct {
        bool stream;         /* results use non-temporal stores */
        bool stream_subrows; /* results of subrows go directly from registers to
                                memory by non-temporal stores */
        bool ahead;          /* prefetch: the launch reads more than an L2
                                holds */
        /* Before each operation, so many bytes of each operand are prefetched,
         * and so many bytes of deferred stores are issued. */
        int64_t bytes_per_op;
        /* Number and bytes of the buffers for blocks of results whose stores
         * are deferred. */
        uint32_t blocks;
        int64_t block_bytes;
    } traffic;
    /* Elementwise: elements of a run, and blocks per run. Along a run each
     * operand has one stride, and no block crosses its end. Streamed rows: no
     * block of a stage without reductions crosses the end of a run. */
    int64_t run, run_blocks;
    /* Elementwise: a block consists of lines of `subrow` elements. Streamed
     * rows: length of the subrows. 0 if there are none. */
    int64_t subrow;
    atomic_int failed; /* TN_OK, or the status of a task that failed */
    atomic_flag fault_lock;
    tn_fault fault; /* first index out of range; code TN_OK if there is none */
    /* Operands over all elements, and over rows only. */
    cpu_view view[TN_CPU_MAX_OPERANDS], row_view[TN_CPU_MAX_OPERANDS];
};

/* Decides how to cut the iteration space: sets all fields but built, launch,
 * routines, row_count and row_length, which are inputs. hoist: memory to which
 * plan->hoist may point. */
struct cpu_hoist;
void tn__cpu_plan_cut(cpu_plan *plan, struct cpu_hoist *hoist);
/* Runs a launch by blocks (cpu_launch.c). */
tn_status tn__cpu_run(tn_built *built, const tn_launch *launch);
/* Records that an index of operand number `operand` is out of range
 * (plan_fault.c). position: row-major position in the iteration space. Of
 * several errors, the one with the lowest position is reported. */
void tn__cpu_plan_fault(cpu_plan *plan, uint32_t operand, uint32_t dim,
                        int64_t index, int64_t position);

/* Returns the bytes that one element takes in all ELEM slots. whole: and in all
 * GROUP slots. */
int64_t tn__cpu_slot_bytes(const cpu_code *code, bool whole);
/* Returns the number of elements of a block whose slots stay in L1. */
int64_t tn__cpu_block_size(const cpu_code *code, bool whole);

/* Subrows are the contiguous pieces of which a row consists, such as the planes
 * x[n][c] of channel c in a batch of images (subrows.c). */
#define TN_CPU_MIN_RUN 512 /* elements of a run that are worth a block */
/* Returns the length of the subrows if machine code can process the rows subrow
 * by subrow, else 0. run: the shortest run of all operands. */
int64_t tn__cpu_subrow_length(const cpu_plan *plan, int64_t run);
/* Returns the compiled code for rows of subrows. */
const cpu_code *tn__cpu_subrow_code(const tn_built *built);
/* May the results of subrows use non-temporal stores? */
bool tn__cpu_subrows_can_stream(const cpu_plan *plan);

/* Elementwise work on operands of different layout: if an input is contiguous
 * along another dimension than the innermost one, cuts the iteration space into
 * tiles and returns true (tile.c). */
bool tn__cpu_cut_tiles(cpu_plan *plan);
/* Sets the task's views and block to a tile. */
void tn__cpu_task_tile(cpu_task *task, int64_t group);

/* Elementwise work with loads by an index, where the indices are the same along
 * some dimensions (hoist.c). */
#define TN_CPU_HOIST_OPS 96    /* most operations of hoisted code */
#define TN_CPU_HOIST_SLOTS 160 /* most slots of hoisted code */
typedef struct cpu_hoist {
    uint32_t ndim; /* dimensions after merging; dimension 0 is the outermost */
    /* dim[d]: the innermost of the launch's dimensions that were merged to
     * dimension d. */
    uint32_t dim[2 * TN_MAX_NDIM];
    int64_t extent[2 * TN_MAX_NDIM];
    int64_t number[2 * TN_MAX_NDIM]; /* row-major strides of the merged
                                        dimensions, in elements */
    /* A block has `box` coordinates of dimension box_dim and all of the inner
     * dimensions. Dimension box_dim is cut into `chunks` boxes. */
    uint32_t box_dim;
    int64_t box, chunks;
    uint32_t shared;      /* bits: dimensions along which all indices are
                             constant */
    int64_t shared_count; /* blocks that share their indices */
    /* skip[operation]: what later blocks need not compute again: CPU_KNOWN,
     * CPU_PLACED or 0. */
    uint8_t skip[TN_CPU_HOIST_OPS];
} cpu_hoist;
/* Cuts the iteration space into blocks that share indices, sets plan->hoist and
 * returns true. Returns false if too few blocks would share. */
bool tn__cpu_cut_shared(cpu_plan *plan, cpu_hoist *hoist);
/* Sets the task to a block: its views, and the operations to skip. */
void tn__cpu_task_shared(cpu_task *task, int64_t group);

/* Does the launch have a few very long rows? Then all threads work on one row
 * at a time (split_rows.c). */
bool tn__cpu_wants_split(cpu_plan *plan);
void tn__cpu_run_split(cpu_plan *plan);

#endif
