/* task.h: one thread's work on a launch. */
#ifndef TN_CPU_TASK_H
#define TN_CPU_TASK_H

#include "../program/program.h"
#include "fold_rows.h"
#include "view.h"

typedef struct cpu_plan cpu_plan;

/* Steps, of a slot that has one value alone, or one for each line of columns. */
#define TN_CPU_ONE_VALUE INT64_MIN
#define TN_CPU_ONE_EACH (INT64_MIN + 1)

/* What of an operation may be there already. */
enum { CPU_KNOWN = 1 /* its values */, CPU_PLACED /* LOAD: its offsets */ };

/* Memory that the next block will want, as far as it is not yet on its way to
 * the cache. */
typedef struct cpu_prefetch_range {
    const char *at, *end;
} cpu_prefetch_range;
#define TN_CPU_PREFETCH_RANGES 4 /* operands for which it is known */

/* A block of results on its way past the caches: some of it goes whenever
 * something is asked for, so that memory is written beside later work too. */
typedef struct cpu_stream_block {
    char *at, *end, *to; /* [at, end) is still to go; at == end: all went */
    char *room;          /* where such blocks are made */
} cpu_stream_block;
#define TN_CPU_STREAM_BLOCKS 8

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
    char **stream_to; /* where a slot's values are to be stored past the caches by
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
    bool across_columns; /* there are many columns: it may go line by line */
    struct {
        int64_t length; /* of a streamed row: the block is lines of so many
                           elements, the first and the last of which may be cut;
                           0: it is none */
        int64_t next_row; /* bytes to what the next row reads like slot */
        uint32_t next_slot; /* this, which was loaded; 0: it reads nothing */
        char *chunks; /* room for those that are in two lines (native_run.c) */
    } subrows;
    bool rereads; /* an earlier stage has just read what is loaded */
    struct {
        const uint8_t *skip; /* of each operation: what is there already; NULL */
        int64_t outer, count; /* for which it is (hoist.c) */
    } shared;
    cpu_tap_table taps[2];        /* what taps_blocks.c makes of it */
    struct {
        int64_t at, step[2], width; /* position of a tile's element i: at + i /
                                       width * step[0] + i % width * step[1] */
    } tile;
    cpu_prefetch_range ahead[TN_CPU_PREFETCH_RANGES];
    struct {
        cpu_stream_block
            block[TN_CPU_STREAM_BLOCKS]; /* traffic.blocks of them, in turns: */
        uint32_t made, sent; /* numbers of the next one to be made and to go */
        uint32_t slot;       /* made in such a block; TN_CPU_NONE */
    } deferred;
    uint32_t loops;          /* that run */
    struct {
        int64_t round;
        uint32_t mask; /* slot */
    } loop[8];
} cpu_task;

/* Runs a part: over the elements of the block, or over the rows of the group
 * (CPU_ROW), or once (CPU_UNIFORM). */
void tn__cpu_run_part(cpu_task *task, cpu_part part, unsigned level);
/* traffic.c. A block that is read or written where it lies is followed, at that distance,
 * by that of the next one. */
void tn__cpu_prefetch_next_block(cpu_task *t, const cpu_op *op,
                                 const char *flat, int64_t bytes,
                                 int64_t distance);
/* Lets the values of a slot be made in a block that is sent off later, if there
 * is one so large. */
bool tn__cpu_stream_defer(cpu_task *t, uint32_t slot, int64_t bytes);
/* Between operations, and between pieces of one: asks for what the next block
 * reads, and sends off results, so many bytes of each. */
void tn__cpu_overlap_memory(cpu_task *task, int64_t bytes);
/* Sends off what of the results still is on its way past the caches. */
void tn__cpu_task_finish(cpu_task *task);

/* Takes the calling thread's scratch memory for a task of plan; false, with
 * plan->failed set, when memory runs out. */
bool tn__cpu_task_init(cpu_task *task, cpu_plan *plan);
/* Turns the task to a group: its rows and, with columns, its views. */
void tn__cpu_task_group(cpu_task *task, int64_t group);
/* Runs a stage's elem part over elements [first, end) of the group's rows and
 * leaves the reductions in task->fold. */
void tn__cpu_task_stream(cpu_task *task, const cpu_stage *stage,
                         int64_t first, int64_t end);

#endif
