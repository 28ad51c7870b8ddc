/* plan.h: how a launch is cut into tasks for threads. Rows form groups, a task
 * is several groups, and a group consists of blocks. program/code.h defines
 * rows, groups, blocks, columns and slots. */
#ifndef TN_CPU_PLAN_H
#define TN_CPU_PLAN_H

#include "task.h"

struct cpu_plan {
    const tn_built *built;
    const tn_launch *launch;
    /* the compiled form of `built` that the launch runs */
    const cpu_code *code;
    const tn_cpu_routines *routines;
    char *uniform; /* memory of UNIFORM slots, which hold one scalar for the
                    * launch */
    /* If all tasks work on the same rows (split_rows.c): memory of ROW slots,
     * which hold one scalar per row. Otherwise NULL. */
    char *shared_rows;
    /* number of rows, and of elements of a row */
    int64_t row_count, row_length;
    int64_t block; /* largest number of elements of a block */
    struct {
        int64_t rows; /* largest number of rows of a group */
        /* number of groups in a task, and in the launch */
        int64_t per_task, count;
        /* If `columns` is set: the number of adjacent rows from which groups
         * are cut. These rows are all points of the innermost outer dimensions
         * that can be merged to one, or of the box (box_first). */
        int64_t column_extent;
        /* If `columns` is set: the first dimension of the box. The box is the
         * set of outer dimensions from box_first on, and a group has some or
         * all of its points. If box_first is outer_ndim, there is no box, and
         * groups are cut from the innermost outer dimension. */
        uint32_t box_first;
    } groups;
    struct {
        uint32_t dim[2];   /* the two dimensions that tiles are cut from */
        int64_t extent[2]; /* largest number of elements along each of them */
    } tile;
    /* How blocks share indices (hoist.c), or NULL if they do not. */
    struct cpu_hoist *hoist;
    /* If columns is set, a group is a set of columns (rows that are adjacent in
     * memory). If tiled is set, a group is a tile of two dimensions
     * (tile.c). */
    bool columns, tiled;
    bool taps;     /* the program computes weighted sums of loads by an index,
                      which taps_blocks.c runs */
    /* An output other than scalars per row has the same memory as an input. */
    bool in_place;
    /* An output has the same memory as an input that is read after the output is
     * written, so loads must copy. */
    bool overlap;
    /* Bit k: operand k has scalars per row that the program updates in place. Its
     * loads must copy. */
    uint32_t copied;
    bool kept;     /* a block is a whole group, so each value is computed
                      once */
    /* How traffic.c accesses memory during computation. */
    struct {
        bool stream;         /* results use non-temporal stores */
        bool stream_subrows; /* results of subrows (contiguous parts of rows)
                              * are written from registers directly to memory by
                              * non-temporal stores */
        bool ahead;          /* each block prefetches the input of the next
                                one, because it is not in L2 */
        /* Before each operation: the number of bytes of each operand to
         * prefetch, and of deferred stores to issue. */
        int64_t bytes_per_op;
        /* The number of buffers for blocks of results whose stores are
         * deferred, and the bytes of one buffer. */
        uint32_t blocks;
        int64_t block_bytes;
    } traffic;
    /* A run is a sequence of points along which each operand has one stride. In
     * elementwise programs no block crosses the end of a run. If rows are
     * streamed (a block is a piece of a row), this also holds for stages
     * without reductions. */
    struct {
        int64_t length, blocks; /* elements and blocks of a run */
    } run;
    /* Number of elements of a subrow, or 0 if there are no subrows. Subrows are
     * the contiguous parts of a streamed row, or of a block of an elementwise
     * program. */
    int64_t subrow;
    atomic_int failed; /* TN_OK, or the status of a task that failed */
    struct {
        atomic_flag lock; /* held to read or write `first` */
        tn_fault first;   /* the index out of range with the lowest position;
                             its code is TN_OK if there is none */
    } fault;
    /* view[operand] is the view over all elements of an operand,
     * row_view[operand] the view over one element per row. The arrays belong to
     * the caller of tn__cpu_plan_cut. */
    cpu_view *view, *row_view;
};

/* Decides how to cut the iteration space: sets all fields but built, launch,
 * routines, row_count, row_length, view and row_view, which are inputs. If
 * blocks share indices, *hoist receives how, and plan->hoist points to it. */
struct cpu_hoist;
void tn__cpu_plan_cut(cpu_plan *plan, struct cpu_hoist *hoist);
/* Runs a launch by blocks (cpu_launch.c). */
tn_status tn__cpu_run(tn_built *built, const tn_launch *launch);

/* The parts of tn__cpu_run. plan_make() fills *plan with a cut launch, and
 * returns false if the launch has no elements. views has 2 * operand_count
 * entries. place_scalars() prepares the task that computes the scalars of the
 * launch; memory has scalars_bytes() bytes. run_groups() runs task i with a
 * thread's state. plan_end() returns the status of the launch. */
bool tn__cpu_plan_make(cpu_plan *plan, tn_built *built,
                       const tn_launch *launch, cpu_view *views,
                       struct cpu_hoist *hoist);
size_t tn__cpu_scalars_bytes(const cpu_plan *plan);
void tn__cpu_place_scalars(cpu_plan *plan, cpu_task *task, char *memory);
int64_t tn__cpu_plan_tasks(const cpu_plan *plan);
void tn__cpu_run_groups(cpu_task *task, int64_t i);
void tn__cpu_run_task(void *plan, int64_t i);
tn_status tn__cpu_plan_end(cpu_plan *plan);

/* A launch that is planned once and run many times (ready.c). Before each run,
 * buffers, offsets and parameters of the launch may have changed. begin() reads
 * them. Then each of the `tasks` tasks runs once, on any thread; end() returns
 * the status. run() does all of this. */
typedef struct cpu_ready cpu_ready;
/* Returns NULL if out of memory. */
cpu_ready *tn__cpu_ready_make(tn_built *built, const tn_launch *launch);
void tn__cpu_ready_free(cpu_ready *ready);
/* Sets *elements to the number of elements of a task. */
int64_t tn__cpu_ready_tasks(const cpu_ready *ready, int64_t *elements);
void tn__cpu_ready_begin(cpu_ready *ready);
void tn__cpu_ready_task(cpu_ready *ready, int64_t i);
tn_status tn__cpu_ready_end(cpu_ready *ready);
tn_status tn__cpu_ready_run(cpu_ready *ready);
/* Records that an index of operand `operand` is out of range (plan_fault.c).
 * position is the row-major index of the element in the iteration space. If
 * several indices are out of range, the one with the lowest position is
 * reported. */
void tn__cpu_plan_fault(cpu_plan *plan, uint32_t operand, uint32_t dim,
                        int64_t index, int64_t position);

/* Returns the number of bytes that the values of one element need (the ELEM
 * slots and, with `whole`, the GROUP slots). The result is at least 1. */
int64_t tn__cpu_slot_bytes(const cpu_code *code, bool whole);
/* Returns how many elements a block may have so that its values (ELEM slots
 * and, with `whole`, GROUP slots) fit in L1. */
int64_t tn__cpu_block_size(const cpu_code *code, bool whole);

/* Subrows are the contiguous pieces of which a row consists, such as the planes
 * x[n][c] of channel c in a batch of images (subrows.c). */

/* A run is a sequence of points in which every operand has one stride. Runs of
 * fewer elements do not become blocks, because the overhead of each block would
 * be too large. */
#define TN_CPU_MIN_RUN 512
/* Returns the length of the subrows in elements if machine code can process the
 * rows subrow by subrow, else 0. `run` is the length of the shortest sequence
 * of points in which an operand has one stride. */
int64_t tn__cpu_subrow_length(const cpu_plan *plan, int64_t run);
/* Returns the compiled program for rows that are processed subrow by subrow. */
const cpu_code *tn__cpu_subrow_code(const tn_built *built);
/* Returns whether the results of subrows may use non-temporal stores. */
bool tn__cpu_subrows_can_stream(const cpu_plan *plan);

/* Cuts the iteration space into tiles and returns true if an operand of an
 * elementwise program is contiguous along another dimension than the innermost
 * one, such as b in a + b.T (tile.c). Returns false if not, or if there are few
 * elements. */
bool tn__cpu_cut_tiles(cpu_plan *plan);
/* Sets the task's views and block to tile `group`. */
void tn__cpu_task_tile(cpu_task *task, int64_t group);

/* Elementwise work with loads by an index is cut into blocks that share
 * indices, if the indices are the same along some dimensions (hoist.c). */

/* Programs with more operations or slots are not compiled for blocks that share
 * indices (hoisted code). */
#define TN_CPU_HOIST_OPS 96
#define TN_CPU_HOIST_SLOTS 160
/* How the iteration space is cut into blocks that share indices. */
typedef struct cpu_hoist {
    uint32_t ndim; /* dimensions after merging; 0 is the outermost */
    /* dim[d]: the innermost of the launch's dimensions that were merged to
     * dimension d. */
    uint32_t dim[2 * TN_MAX_NDIM];
    int64_t extent[2 * TN_MAX_NDIM];
    int64_t number[2 * TN_MAX_NDIM]; /* row-major stride of each merged
                                        dimension, in elements */
    /* A block spans `box` coordinates of dimension box_dim and the whole of all
     * inner dimensions. Dimension box_dim is cut into `chunks` boxes. */
    uint32_t box_dim;
    int64_t box, chunks;
    uint32_t shared;      /* bit d: all indices are constant along dimension
                             d */
    int64_t shared_count; /* number of blocks that share the same indices */
    /* skip[operation]: what later blocks need not compute again: CPU_KNOWN (the
     * result), CPU_PLACED (the offsets of a load by an index) or 0. */
    uint8_t skip[TN_CPU_HOIST_OPS];
} cpu_hoist;
/* Cuts the iteration space into blocks that share indices, describes the cut in
 * *hoist, sets plan->hoist and returns true. Returns false if too few blocks
 * would share them. */
bool tn__cpu_cut_shared(cpu_plan *plan, cpu_hoist *hoist);
/* Sets the task to block `group`: its views, and the operations to skip. */
void tn__cpu_task_shared(cpu_task *task, int64_t group);

/* Returns whether the launch has a few very long rows. Then tn__cpu_run_split
 * lets all threads work on one row at a time (split_rows.c). */
bool tn__cpu_wants_split(cpu_plan *plan);
void tn__cpu_run_split(cpu_plan *plan);

#endif
