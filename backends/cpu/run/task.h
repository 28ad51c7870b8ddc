/* task.h: between the files that run launches. */
#ifndef TN_CPU_TASK_H
#define TN_CPU_TASK_H

#include "../cpu.h"

/* Takes the calling thread's scratch memory for a task of plan; false, with
 * plan->failed set, when memory runs out. */
bool tn__cpu_task_init(cpu_task *task, cpu_plan *plan);
/* Elements of a block of elementwise code, so that its slots stay in L1. */
int64_t tn__cpu_block_size(const cpu_code *code);
/* Turns the task to a group: its rows and, with columns, its views. */
void tn__cpu_task_group(cpu_task *task, int64_t group);
/* Runs a stage's elem part over elements [first, end) of the group's rows and
 * leaves the reductions in task->fold. */
void tn__cpu_task_stream(cpu_task *task, const cpu_stage *stage,
                         int64_t first, int64_t end);

/* Rows that lie in lines (lines.c): elements of a line, if stages of machine code
 * may go over such lines of rows whose operands have runs of so many points, else
 * 0; the code for it; whether what is written may go past the caches so. */
#define TN_CPU_LEAST_RUN 512 /* points that are worth a block of their own */
int64_t tn__cpu_row_lines(const cpu_plan *plan, int64_t run);
const cpu_code *tn__cpu_lined_code(const tn_built *built);
bool tn__cpu_lines_go_past(const cpu_plan *plan);

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

/* Sums of taps (taps_blocks.c): finds out whether a program is one; whether blocks of
 * plan share tables, points of a block, bytes of a task's tables, and where these
 * lie; runs a block, false if nothing was done. */
void tn__cpu_taps_init(tn_built *built, const tn_program *program);
bool tn__cpu_taps_shared(const cpu_plan *plan);
int64_t tn__cpu_taps_block(const tn_built *built);
size_t tn__cpu_taps_bytes(const cpu_plan *plan);
void tn__cpu_taps_place(cpu_task *task, void *memory);
bool tn__cpu_run_taps(cpu_task *task);
/* The offsets and, a step apart, weights of each tap, for a list of points. How
 * many of n of these, from `at` on, have all their offsets within `most`
 * elements; and the entry of n points. */
typedef struct cpu_tap_lists {
    const int64_t *where[TN_CPU_TAPS];
    const float *weight[TN_CPU_TAPS];
    int64_t step[TN_CPU_TAPS];
    int count;
} cpu_tap_lists;
int64_t tn__cpu_tap_near(const cpu_tap_lists *lists, int64_t at, int64_t n,
                         int64_t most);
void tn__cpu_tap_fill(tn_cpu_tap *tap, const cpu_tap_lists *lists, int64_t at,
                      int64_t n);
/* Those whose indices hang on one dimension alone (taps_along.c), and rows that
 * are such sums; false if nothing was done. */
#define TN_CPU_LEAST_POINTS 4096 /* that are worth what goes before them */
bool tn__cpu_launch_taps_along(const tn_built *built,
                               const tn_launch *launch);
bool tn__cpu_launch_row_taps(tn_built *built, const tn_launch *launch,
                             tn_status *status);

/* Few long rows: all threads work on one (split_rows.c). */
bool tn__cpu_wants_split(cpu_plan *plan);
void tn__cpu_run_split(cpu_plan *plan);

/* One instruction over operands without gaps (direct.c); false if the launch
 * is not of this kind, and then nothing was done. */
bool tn__cpu_launch_direct(const tn_built *built, const tn_launch *launch);
/* Finds out whether a program is of one instruction. */
void tn__cpu_direct_init(tn_built *built, const tn_program *program);
/* A loop that stores one value in each of `count` elements, or in a part of
 * them (fill.c). */
tn_cpu_run *tn__cpu_fill_for(const tn_cpu_routines *routines, int64_t bytes,
                             int64_t count);

/* Copies of views (copy.c), likewise. */
bool tn__cpu_launch_copy(const tn_built *built, const tn_launch *launch);
/* Loads by indices that follow each other (runs.c), likewise. */
bool tn__cpu_launch_runs(const tn_built *built, const tn_launch *launch);
void tn__cpu_runs_init(tn_built *built, const tn_program *program);
/* Gathers by one index (take.c), likewise; status: of what was done. */
bool tn__cpu_launch_take(const tn_built *built, const tn_launch *launch,
                         tn_status *status);
void tn__cpu_take_init(tn_built *built, const tn_program *program);
void tn__cpu_copy_init(tn_built *built, const tn_program *program);

#endif
