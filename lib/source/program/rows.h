/* rows.h: functions that are shared by the files that print loops over rows.
 * Local memory is the memory of a work-group (shared memory in CUDA). A stage
 * has two lists of instructions: per element (the elem part) and per row (the
 * row part). A lane is one of the 16 partial results of a reduction. */
#ifndef TN_LIB_SOURCE_ROWS_H
#define TN_LIB_SOURCE_ROWS_H

#include <source/program/printer.h>

/* What a stage's instructions per element use. In the bit sets, bit k is for
 * operand k. */
typedef struct tn__stage_use {
    const tn_kernel_stage *stage;
    const bool *live;   /* live[i] is true if instruction i is needed (live) */
    uint32_t used;      /* operands whose offset is needed */
    uint32_t cached;    /* operands that are read from local memory */
    bool reduces, has_effect; /* has_effect: true if the instructions reduce,
                               * store or may report a fault */
    bool needs_index;         /* true if the index k of the element in the row
                               * is needed */
} tn__stage_use;

/* Returns whether several work-items share a row. */
static inline bool tn__printer_has_team(const tn__printer *p)
{
    return !p->chunked && tn__launch_class_team(&p->class) > 1;
}

/* tn__stage_find_use finds what stage s uses (liveness.c). tn__stage_elems
 * prints the loop of a stage over the elements of a row (stage.c). */
tn__stage_use tn__stage_find_use(const tn__printer *p, uint32_t s);
void tn__stage_elems(tn__printer *p, const tn__stage_use *use);

/* Prints declarations of the results of a stage's reductions and of the trees
 * in which their chunks are combined (reduce.c; rows.cl explains the trees). */
void tn__reduce_sums(tn__printer *p, const tn__stage_use *use);
/* Prints the declarations and first values of the accumulators of reductions.
 * Each is a scalar or an array of partial results (lanes). */
void tn__reduce_accumulators(tn__printer *p, const tn__stage_use *use);
/* Prints the code that combines the accumulators of each reduction to one value
 * and adds it to the tree of the results of chunks (rows.cl). */
void tn__reduce_combine(tn__printer *p, const tn__stage_use *use);
/* Prints the code that sets the results of a stage's reductions. If several
 * work-groups share a row, these are partial results. */
void tn__reduce_results(tn__printer *p, const tn__stage_use *use);
/* If several work-groups share a row: prints the code that combines the partial
 * results of a stage which an earlier launch ran. */
void tn__reduce_shares(tn__printer *p, const tn__stage_use *use);

static inline bool tn__reduce_is_arg(const tn_kernel_ins *ins)
{
    return ins->sub == TN_REDUCE_ARGMAX || ins->sub == TN_REDUCE_ARGMIN;
}

/* Prints declarations of the local memory that the
 * program's reductions need. */
void tn__reduce_memory(tn__printer *p);
/* If several work-groups share a row, their partial results are in scratch
 * memory. Prints declarations of pointers to them, for each reduction that this
 * launch writes or reads. */
void tn__reduce_parts(tn__printer *p);

/* Returns the operands that several stages load and whose stride along the row
 * is not 0. Bit k is for operand k (row_cache.c). */
uint32_t tn__cache_operands(const tn__printer *p);
/* Prints declarations of the local memory for the rows of the operands
 * p->cached. */
void tn__cache_memory(tn__printer *p);
/* Prints the code that copies the row of a team (the work-items that share a
 * row) to local memory, after the whole team has finished with the previous
 * row. */
void tn__cache_fill(tn__printer *p);
/* Prints declarations of here<k>, the index in local memory of element `k` of a
 * chunk. */
void tn__cache_positions(tn__printer *p, uint32_t operands, const char *k,
                         const char *chunk);

#endif
