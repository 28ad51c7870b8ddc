/* task.h: the state of one thread that executes a part of a launch. code.h
 * defines slots, blocks, groups and columns. */
#ifndef TN_CPU_TASK_H
#define TN_CPU_TASK_H

#include "../program/program.h"
#include "fold_rows.h"
#include "view.h"

typedef struct cpu_plan cpu_plan;

/* A special value of cpu_task.step: the slot has one scalar for the whole
 * block. */
#define TN_CPU_ONE_VALUE INT64_MIN
/* Another special value. In a block value[element][column], the slot has one
 * scalar for each element index, the same for all columns. In a block of
 * subrows (contiguous pieces of a row), it has one scalar for each subrow. */
#define TN_CPU_ONE_EACH (INT64_MIN + 1)

/* What an earlier block with the same indices has already computed for an
 * operation: the result or, for a load by an index, only the offsets of the
 * elements that it reads (hoist.c). */
enum { CPU_KNOWN = 1 /* result */, CPU_PLACED /* offsets */ };

/* Memory [at, end) that the next block reads, and that is still to be
 * prefetched. */
typedef struct cpu_prefetch_range {
    const char *at, *end;
} cpu_prefetch_range;
#define TN_CPU_PREFETCH_RANGES 4 /* largest number of prefetched operands */

/* A block of results whose non-temporal stores are deferred. Some of the stores
 * are issued between later operations, so that memory is written while the core
 * computes. */
typedef struct cpu_stream_block {
    char *at, *end, *to; /* [at, end) is still to be stored to `to` */
    char *room;          /* the memory of the block */
} cpu_stream_block;
#define TN_CPU_STREAM_BLOCKS 8 /* largest number of deferred blocks */

/* A tap is one term weight * x[index] of a weighted sum, as in interpolation.
 * The table holds the offsets and weights of a block's taps. All blocks with
 * the same indices use it (taps_blocks.c). */
typedef struct cpu_tap_table {
    tn_cpu_tap *tap; /* tap[entry][tap number] */
    /* `outer` is the index of the set of blocks that share the table, or -1 if
     * the table is not filled. `entries` is the number of entries, or 0 if no
     * table is possible. */
    int64_t outer, entries;
} cpu_tap_table;

/* The state of one thread that executes tasks of a plan. A block has
 * block.count elements, which belong to group.rows rows. Its values are stored
 * as value[row][element], or with layout.columns as value[element][row]. */
typedef struct cpu_task {
    cpu_plan *plan;
    const cpu_code *code;
    const tn_cpu_routines *routines;
    char **slot; /* slot[s]: the current address of the values of slot s */
    char **home; /* home[s]: the memory of slot s. slot[s] differs from it if a
                    load left the values in an operand's memory */
    /* stream_to[s]: where the operation that computes slot s must also write
     * the result by non-temporal stores, or NULL. */
    char **stream_to;
    /* base[s] of a GROUP slot: the address of the group's values, in the slot's
     * own memory or in an operand's. */
    char **base;
    /* step[s]: a stride of slot s in elements, or TN_CPU_ONE_VALUE or
     * TN_CPU_ONE_EACH. Loads set it. In blocks of subrows, stores set it too.
     * In value[row][element] it is the stride from row to row, in
     * value[element][row] from element to element, and in a block of subrows
     * from subrow to subrow. */
    int64_t *step;
    /* view[operand]: how operations on elements address an operand */
    const cpu_view *view;
    cpu_view *own_view;   /* memory for the views of one group, if the plan has
                             columns, tiles or shared indices, or NULL */
    /* scratch memory: 8 bytes for each element of a block */
    char *temporary;
    struct cpu_fold *fold; /* fold[reduction]: state of each reduction */
    struct {
        /* The first row of the group, and the number of its rows. */
        int64_t first_row, rows;
        /* The index of the group's first element in the views of the operands
         * (view.h), and the number of its elements. */
        int64_t at, count;
    } group;
    struct {
        /* the same two numbers for the block */
        int64_t at, count;
        int64_t first_elem; /* index of the first element in its row */
    } block;
    struct {
        bool columns;        /* blocks are value[element][row] */
        bool by_rows;        /* rows are long, so routines are called once per
                                row */
        bool across_columns; /* there are many columns, so routines are called
                                once per element index */
    } layout;
    struct {
        /* The length, in elements, of the contiguous subrows of which the
         * current block consists, or 0 if it has none. The first and the last
         * subrow may be incomplete. */
        int64_t length;
        /* One operand's next row is prefetched. next_row is the distance in
         * bytes from its current row to its next row, or 0 if not known.
         * next_slot is the slot into which the operand is loaded. */
        int64_t next_row;
        uint32_t next_slot;
        char *chunks; /* memory for chunks that span two subrows
                         (native_run.c) */
    } subrows;
    bool rereads; /* an earlier stage has just read the same row, so the caches
                     still have it */
    struct {
        /* skip[operation]: CPU_KNOWN or CPU_PLACED if an earlier block has
         * computed the result or the offsets. NULL if this block must compute
         * everything. */
        const uint8_t *skip;
        /* The results that blocks share are valid for set `outer` of blocks
         * with equal indices, and only for blocks of at most `count`
         * elements. */
        int64_t outer, count;
    } shared;
    /* taps[0] is the table for whole blocks, taps[1] the table for shorter
     * blocks */
    cpu_tap_table taps[2];
    struct {
        /* Element i of a tile has this index in the iteration space:
         * at + i / width * step[0] + i % width * step[1]. */
        int64_t at, step[2], width;
    } tile;
    cpu_prefetch_range ahead[TN_CPU_PREFETCH_RANGES];
    struct {
        /* Ring buffer of plan->traffic.blocks blocks of results whose stores
         * are deferred. */
        cpu_stream_block block[TN_CPU_STREAM_BLOCKS];
        /* number of blocks computed so far, and number
         * of those already stored */
        uint32_t made, sent;
        uint32_t slot;       /* the slot whose result is written to block
                              * `made`, or TN_CPU_NONE */
    } deferred;
    uint32_t loops; /* number of loops that are running */
    struct {
        int64_t round; /* iteration number */
        uint32_t mask; /* slot of the mask of active elements */
    } loop[8];         /* loop[nesting depth] */
} cpu_task;

/* Runs a list of operations once. level is CPU_ELEM if they compute the
 * elements of the block, CPU_ROW for scalars per row of the group, CPU_UNIFORM
 * for scalars of the launch. */
void tn__cpu_run_part(cpu_task *task, cpu_part part, unsigned level);
/* Records that an operation reads or writes the `bytes` bytes at `flat`, and
 * that the next block will need those at flat + distance, so that traffic.c
 * prefetches them. */
void tn__cpu_prefetch_next_block(cpu_task *t, const cpu_op *op,
                                 const char *flat, int64_t bytes,
                                 int64_t distance);
/* Points a slot to a free block of the ring `deferred`, so that the stores of
 * its result are deferred. Returns false if no block is free or `bytes` exceeds
 * its size. */
bool tn__cpu_stream_defer(cpu_task *t, uint32_t slot, int64_t bytes);
/* Prefetches up to `bytes` bytes of each operand for the next block, and issues
 * up to `bytes` bytes of deferred stores. Called between operations, and
 * between chunks of one operation. */
void tn__cpu_overlap_memory(cpu_task *task, int64_t bytes);
/* Issues all deferred stores. */
void tn__cpu_task_finish(cpu_task *task);

/* Initialises a task with memory of tn__cpu_task_bytes(plan) bytes, aligned to
 * 64 bytes. */
size_t tn__cpu_task_bytes(const cpu_plan *plan);
void tn__cpu_task_place(cpu_task *task, cpu_plan *plan, char *memory);
/* Initialises a task with scratch memory of the calling thread. Returns false
 * and sets plan->failed if out of memory. */
bool tn__cpu_task_init(cpu_task *task, cpu_plan *plan);
/* Sets the task to group `group`: its rows and, if the plan has columns, its
 * views. */
void tn__cpu_task_group(cpu_task *task, int64_t group);
/* Runs a stage's operations on elements, block by block, over elements [first,
 * end) of the group's rows. The state of the reductions stays in task->fold. */
void tn__cpu_task_stream(cpu_task *task, const cpu_stage *stage,
                         int64_t first, int64_t end);

#endif
