/* rows.h: functions that the files which print loops over rows share. Local
 * memory is the memory that a work-group shares. */
#ifndef TN_LIB_SOURCE_ROWS_H
#define TN_LIB_SOURCE_ROWS_H

#include <source/program/printer.h>

/* What the elem part of a stage reads and writes. */
typedef struct tn__stage_use {
    const tn_kernel_stage *stage;
    const bool *live;   /* live[i]: instruction i is live in this elem part */
    uint32_t used;      /* operands whose offset is needed, one bit each */
    uint32_t cached;    /* operands that are read from local memory, one bit
                         * each */
    bool reduces, has_effect; /* has_effect: the elem part reduces, stores or
                               * may fault */
    bool needs_index;         /* the element's index k in the row is needed */
} tn__stage_use;

/* Whether several work-items share a row. */
static inline bool tn__printer_has_team(const tn__printer *p)
{
    return !p->chunked && tn__launch_class_team(&p->class) > 1;
}

/* tn__stage_find_use finds what stage s uses (liveness.c). tn__stage_elems
 * prints the stage's loop over the elements of a row (stage.c). */
tn__stage_use tn__stage_find_use(const tn__printer *p, uint32_t s);
void tn__stage_elems(tn__printer *p, const tn__stage_use *use);

/* reduce.c prints reductions. This declares the results and the trees of a
 * stage's reductions. */
void tn__reduce_sums(tn__printer *p, const tn__stage_use *use);
/* Declares and initializes the accumulators, which are scalars or arrays of
 * lanes. */
void tn__reduce_accumulators(tn__printer *p, const tn__stage_use *use);
/* Combines the accumulators of each reduction into one value, which is added to
 * the tree. */
void tn__reduce_combine(tn__printer *p, const tn__stage_use *use);
/* Sets the results of the reductions; with split rows, the results of a
 * share. */
void tn__reduce_results(tn__printer *p, const tn__stage_use *use);
/* Sets the results of a stage that earlier steps ran, from the partial values
 * of all shares. */
void tn__reduce_shares(tn__printer *p, const tn__stage_use *use);

static inline bool tn__reduce_is_arg(const tn_kernel_ins *ins)
{
    return ins->sub == TN_REDUCE_ARGMAX || ins->sub == TN_REDUCE_ARGMIN;
}

/* Declares the local memory of all live reductions. */
void tn__reduce_memory(tn__printer *p);
/* Declares pointers to the partial values of a row's shares in scratch memory,
 * for each reduction that a step writes or reads. */
void tn__reduce_parts(tn__printer *p);

/* row_cache.c: returns the operands that several stages load with a nonzero
 * stride, one bit each. */
uint32_t tn__cache_operands(const tn__printer *p);
/* Declares the local memory of the operands p->cached. */
void tn__cache_memory(tn__printer *p);
/* Prints the copy of a team's row to local memory, which waits until the whole
 * team is done with the previous row. */
void tn__cache_fill(tn__printer *p);
/* Declares here<k>, the index of element `k` of a chunk in local memory. */
void tn__cache_positions(tn__printer *p, uint32_t operands, const char *k,
                         const char *chunk);

#endif
