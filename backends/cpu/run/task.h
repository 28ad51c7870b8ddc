/* task.h: one thread's work on a launch. */
#ifndef TN_CPU_TASK_H
#define TN_CPU_TASK_H

#include "../program/program.h"
#include "fold_rows.h"
#include "view.h"

typedef struct cpu_plan cpu_plan;

/* Values of task.step: the slot has one value, or one value for each element of
 * columns. */
#define TN_CPU_ONE_VALUE INT64_MIN
#define TN_CPU_ONE_EACH (INT64_MIN + 1)

/* What is already computed of an operation in hoisted code. */
enum { CPU_KNOWN = 1 /* its values */, CPU_PLACED /* LOAD: its offsets */ };

/* Memory that the next block reads and that is not prefetched yet. */
typedef struct cpu_prefetch_range {
    const char *at, *end;
} cpu_prefetch_range;
#define TN_CPU_PREFETCH_RANGES 4 /* operands that are tracked */

/* A block of results whose non-temporal stores are deferred: some of them are
 * issued between later operations, so that memory also writes while the core
 * computes. */
typedef struct cpu_stream_block {
    char *at, *end, *to; /* [at, end) is still to be stored to `to` */
    char *room;          /* memory for such blocks */
} cpu_stream_block;
#define TN_CPU_STREAM_BLOCKS 8

/* The table that blocks of one size share (taps_blocks.c), for one position of
 * the dimensions that they do not share. */
typedef struct cpu_tap_table {
    tn_cpu_tap *tap;
    int64_t outer, entries;
} cpu_tap_table;

/* One thread's work on a plan. A block is `count` elements of `rows` rows: row
 * after row, or with `columns` element k of all rows, then k + 1. */
typedef struct cpu_task {
    cpu_plan *plan;
    const cpu_code *code;
    const tn_cpu_routines *routines;
    char **slot;          /* current address of each slot's values */
    char **home;          /* the slot's own memory (a load may point
                             elsewhere) */
    char **stream_to;     /* where the operation that makes a slot's values
                             stores them by non-temporal stores; NULL: it does
                             not */
    char **base;          /* of a GROUP slot: where the group's values begin, in
                             its own memory or in an operand's */
    int64_t *step;        /* of a slot from a FOLDED load: stride between
                             elements of a column. From a LENT load: stride
                             between rows, or between elements of columns, or
                             between subrows; or TN_CPU_ONE_... Of a result in
                             subrows: stride between them */
    const cpu_view *view; /* of each operand, for elem parts */
    cpu_view *own_view;   /* the group's views, for columns and tiles; else
                             NULL */
    char *temporary;      /* 8 bytes for each element of a block */
    struct cpu_fold *fold;
    int64_t first_row, rows;       /* of the group */
    int64_t at, count;             /* first point of the block in view;
                                      points */
    int64_t first_elem;            /* of the block, within its row */
    int64_t group_at, group_count; /* first point of the group; points */
    bool columns;
    bool by_rows;        /* rows are long: operations run row by row */
    bool across_columns; /* columns are many: operations run element by
                            element */
    struct {
        int64_t length;     /* streamed row: length of the subrows of which the
                               block consists. The first and the last may be
                               cut. 0: there are none */
        int64_t next_row;   /* bytes from this row to the next one in that
                               slot's operand */
        uint32_t next_slot; /* a slot that was loaded; with next_row 0: none */
        char *chunks;       /* memory for chunks that span two subrows
                               (native_run.c) */
    } subrows;
    bool rereads; /* an earlier stage has just read what is loaded */
    struct {
        const uint8_t *skip;  /* of each operation: what is already computed;
                                 NULL */
        int64_t outer, count; /* the blocks for which it is valid (hoist.c) */
    } shared;
    cpu_tap_table taps[2];        /* made from it by taps_blocks.c */
    struct {
        int64_t at, step[2], width; /* position of a tile's element i: at + i /
                                       width * step[0] + i % width * step[1] */
    } tile;
    cpu_prefetch_range ahead[TN_CPU_PREFETCH_RANGES];
    struct {
        /* A ring of traffic.blocks blocks. */
        cpu_stream_block block[TN_CPU_STREAM_BLOCKS];
        uint32_t made, sent; /* numbers of the next block to make and to
                                store */
        uint32_t slot;       /* slot that is made in such a block;
                                TN_CPU_NONE */
    } deferred;
    uint32_t loops;          /* loops that are running */
    struct {
        int64_t round;
        uint32_t mask; /* slot */
    } loop[8];
} cpu_task;

/* Runs a part: over the elements of the block, over the rows of the group
 * (CPU_ROW), or once (CPU_UNIFORM). */
void tn__cpu_run_part(cpu_task *task, cpu_part part, unsigned level);
/* traffic.c: notes that a block at `flat` is read or written in place. The next
 * block's memory is `distance` bytes further. */
void tn__cpu_prefetch_next_block(cpu_task *t, const cpu_op *op,
                                 const char *flat, int64_t bytes,
                                 int64_t distance);
/* Lets a slot's values be made in a block whose stores are deferred. False:
 * there is no block that large. */
bool tn__cpu_stream_defer(cpu_task *t, uint32_t slot, int64_t bytes);
/* Called between operations and between chunks of one: prefetches for the next
 * block and issues deferred stores, up to `bytes` of each. */
void tn__cpu_overlap_memory(cpu_task *task, int64_t bytes);
/* Issues all deferred stores. */
void tn__cpu_task_finish(cpu_task *task);

/* Takes the calling thread's scratch memory for a task of plan. False: out of
 * memory, and plan->failed is set. */
bool tn__cpu_task_init(cpu_task *task, cpu_plan *plan);
/* Sets the task to a group: its rows and, with columns, its views. */
void tn__cpu_task_group(cpu_task *task, int64_t group);
/* Runs a stage's elem part over elements [first, end) of the group's rows. The
 * reductions stay in task->fold. */
void tn__cpu_task_stream(cpu_task *task, const cpu_stage *stage,
                         int64_t first, int64_t end);

#endif
