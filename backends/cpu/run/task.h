/* task.h: the state of one thread that works on a launch. */
#ifndef TN_CPU_TASK_H
#define TN_CPU_TASK_H

#include "../program/program.h"
#include "fold_rows.h"
#include "view.h"

typedef struct cpu_plan cpu_plan;

/* Special values of cpu_task.step. */
/* The slot has one scalar for the whole block. */
#define TN_CPU_ONE_VALUE INT64_MIN
/* The slot has one scalar for each element index of columns, which all columns
 * share, or one scalar for each subrow. */
#define TN_CPU_ONE_EACH (INT64_MIN + 1)

/* What of an operation in hoisted code an earlier block has computed: its
 * result, or the offsets of a load by an index. */
enum { CPU_KNOWN = 1 /* result */, CPU_PLACED /* offsets */ };

/* Memory [at, end) that the next block reads and that is not prefetched yet. */
typedef struct cpu_prefetch_range {
    const char *at, *end;
} cpu_prefetch_range;
#define TN_CPU_PREFETCH_RANGES 4 /* most operands that are prefetched */

/* A block of results whose non-temporal stores are deferred: some of them are
 * issued between later operations, so that memory is also written while the
 * core computes. */
typedef struct cpu_stream_block {
    char *at, *end, *to; /* [at, end) is still to be stored to `to` */
    char *room;          /* the block's memory */
} cpu_stream_block;
#define TN_CPU_STREAM_BLOCKS 8 /* most such blocks of a task */

/* Indices and weights of a block's sums, prepared once for all blocks that
 * share them (taps_blocks.c). */
typedef struct cpu_tap_table {
    tn_cpu_tap *tap; /* tap[entry][tap number] */
    /* Number of the set of blocks that share the table, or -1. Number of
     * entries; 0 if no table is possible. */
    int64_t outer, entries;
} cpu_tap_table;

/* One thread's work on a plan. A block has `count` points, which belong to
 * `rows` rows. It is stored as value[row][element], or with `columns` as
 * value[element][row]. */
typedef struct cpu_task {
    cpu_plan *plan;
    const cpu_code *code;
    const tn_cpu_routines *routines;
    char **slot; /* slot[s]: where slot s has its values now */
    char **home; /* home[s]: the memory of slot s. slot[s] differs if a load
                    left the values in an operand's memory */
    /* stream_to[s]: where the operation that computes slot s puts the result by
     * non-temporal stores, or NULL. */
    char **stream_to;
    /* base[s] of a GROUP slot: where the group's values begin, in the slot's
     * own memory or in an operand's. */
    char **base;
    /* step[s]: strides of slot s, in elements, or TN_CPU_ONE_...
     * - loaded with LOAD_FOLDED: from element to element of a column;
     * - loaded with LOAD_LENT: from row to row; in columns from element to
     *   element; in subrows from subrow to subrow;
     * - a result in subrows: from subrow to subrow. */
    int64_t *step;
    const cpu_view *view; /* view[operand], for elem parts */
    cpu_view *own_view;   /* memory for views of one group, which columns, tiles
                             and shared indices need, or NULL */
    char *temporary;      /* 8 bytes for each element of a block */
    /* State of each reduction. */
    struct cpu_fold *fold;
    /* Rows of the group. */
    int64_t first_row, rows;
    /* The block: its first point in the views, and its number of points. */
    int64_t at, count;
    /* Index in the row of the block's first element. */
    int64_t first_elem;
    /* The group: its first point in the views, and its number of points. */
    int64_t group_at, group_count;
    bool columns;        /* blocks are value[element][row] */
    bool by_rows;        /* rows are long: routines are called once per row */
    bool across_columns; /* columns are many: routines are called once per
                            element index */
    struct {
        /* Length of the contiguous subrows of which the block of a streamed row
         * consists. The first and the last subrow may be incomplete. 0 if the
         * block has no subrows. */
        int64_t length;
        /* To prefetch the next row of one operand: next_slot is the slot into
         * which the operand is loaded, next_row the distance in bytes from its
         * current row to its next row (0 if not known). */
        int64_t next_row;
        uint32_t next_slot;
        char *chunks; /* memory for chunks that span two subrows
                         (native_run.c) */
    } subrows;
    bool rereads; /* an earlier stage has just read the same row, so the caches
                     still have it */
    struct {
        /* skip[operation]: what an earlier block has computed, CPU_KNOWN or
         * CPU_PLACED. NULL if this block must compute everything. */
        const uint8_t *skip;
        /* The blocks for which the computed values are valid: number of the set
         * of blocks that share indices, and most elements (hoist.c). */
        int64_t outer, count;
    } shared;
    cpu_tap_table taps[2]; /* tables for whole blocks, and for shorter ones */
    struct {
        /* Element i of a tile is at this position of the iteration space:
         * at + i / width * step[0] + i % width * step[1]. */
        int64_t at, step[2], width;
    } tile;
    cpu_prefetch_range ahead[TN_CPU_PREFETCH_RANGES];
    struct {
        /* A ring of traffic.blocks blocks. */
        cpu_stream_block block[TN_CPU_STREAM_BLOCKS];
        uint32_t made, sent; /* blocks computed so far; blocks stored so far */
        uint32_t slot;       /* slot whose result goes to block number `made`,
                                or TN_CPU_NONE */
    } deferred;
    uint32_t loops; /* loops that are running */
    struct {
        int64_t round; /* iteration number */
        uint32_t mask; /* slot of the mask of active elements */
    } loop[8];         /* by nesting depth */
} cpu_task;

/* Runs a part once. level: CPU_ELEM for the elements of the block, CPU_ROW for
 * the rows of the group, CPU_UNIFORM for one scalar. */
void tn__cpu_run_part(cpu_task *task, cpu_part part, unsigned level);
/* Notes that an operation reads or writes `bytes` bytes at `flat` in place, and
 * that the same data of the next block is `distance` bytes further, to be
 * prefetched (traffic.c). */
void tn__cpu_prefetch_next_block(cpu_task *t, const cpu_op *op,
                                 const char *flat, int64_t bytes,
                                 int64_t distance);
/* Points a slot to a block of the ring, so that the stores of its result are
 * deferred. Returns false if no block is free for so many bytes. */
bool tn__cpu_stream_defer(cpu_task *t, uint32_t slot, int64_t bytes);
/* Prefetches for the next block and issues deferred stores, up to `bytes` of
 * each. Called between operations and between chunks of one operation. */
void tn__cpu_overlap_memory(cpu_task *task, int64_t bytes);
/* Issues all deferred stores. */
void tn__cpu_task_finish(cpu_task *task);

/* Initialises a task with scratch memory of the calling thread. Returns false
 * and sets plan->failed if memory is out. */
bool tn__cpu_task_init(cpu_task *task, cpu_plan *plan);
/* Sets the task's rows to a group and, with columns, its views. */
void tn__cpu_task_group(cpu_task *task, int64_t group);
/* Runs a stage's elem part block by block over elements [first, end) of the
 * group's rows. The state of the reductions stays in task->fold. */
void tn__cpu_task_stream(cpu_task *task, const cpu_stage *stage,
                         int64_t first, int64_t end);

#endif
