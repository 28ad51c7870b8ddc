/* rows.h: what the files that print loops over rows share. */
#ifndef TN_LIB_SOURCE_ROWS_H
#define TN_LIB_SOURCE_ROWS_H

#include <source/program/printer.h>

/* What the elem part of a stage uses. */
typedef struct tn__stage_use {
    const tn_kernel_stage *stage;
    const bool *live;   /* by instruction, in this elem part */
    uint32_t used;      /* operands that it needs the offset of */
    uint32_t cached;    /* operands that it reads from local memory */
    bool reduces, has_effect; /* has_effect: it reduces, stores or may fault */
    bool needs_index;         /* it needs the element's index k in the row */
} tn__stage_use;

/* Whether several work-items share a row. */
static inline bool tn__printer_has_team(const tn__printer *p)
{
    return !p->chunked && tn__launch_class_team(&p->class) > 1;
}

/* liveness.c: what stage s uses. stage.c: its loop over the elements of a
 * row. */
tn__stage_use tn__stage_find_use(const tn__printer *p, uint32_t s);
void tn__stage_elems(tn__printer *p, const tn__stage_use *use);

/* reduce.c: declares the results and the trees of a stage's reductions. */
void tn__reduce_sums(tn__printer *p, const tn__stage_use *use);
/* Declares and initializes the accumulators: values, or arrays of lanes. */
void tn__reduce_accumulators(tn__printer *p, const tn__stage_use *use);
/* Combines the accumulators into one value each and adds it to the tree. */
void tn__reduce_combine(tn__printer *p, const tn__stage_use *use);
/* Sets the results of the reductions, or of a share of each. */
void tn__reduce_results(tn__printer *p, const tn__stage_use *use);
/* Sets the results of a stage that earlier steps ran, from all shares. */
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

/* row_cache.c: operands that several stages load with a nonzero stride, one bit
 * each. */
uint32_t tn__cache_operands(const tn__printer *p);
/* Declares the local memory of p->cached. */
void tn__cache_memory(tn__printer *p);
/* Copies a team's row to local memory when the whole team is done with the row
 * before. */
void tn__cache_fill(tn__printer *p);
/* Declares here<k>, the position of element `k` of a chunk in local memory. */
void tn__cache_positions(tn__printer *p, uint32_t operands, const char *k,
                         const char *chunk);

#endif
