/* rows.h: what the files that print loops over rows share. */
#ifndef TN_LIB_KERNEL_DEVICE_ROWS_H
#define TN_LIB_KERNEL_DEVICE_ROWS_H

#include <source/program/printer.h>

/* What the elem part of a stage has. */
typedef struct tn__stage_use {
    const tn_kernel_stage *stage;
    const bool *live;   /* by instruction, in its elem part */
    uint32_t used;      /* operands that the elem part has a place of, */
    uint32_t cached;    /*   and those that it has in local memory */
    bool reduces, has_effect; /* anything at all */
    bool needs_index;         /* the element's number k, besides */
} tn__stage_use;

/* Do several work-items share a row? */
static inline bool tn__device_has_team(const tn__device_printer *p)
{
    return !p->chunked && tn__device_team(&p->class) > 1;
}

/* stage.c: the walk of stage s; its loop over a row's elements. */
tn__stage_use tn__stage_find_use(const tn__device_printer *p, uint32_t s);
void tn__stage_elems(tn__device_printer *p, const tn__stage_use *use);

/* reduce.c: the variables of a stage's reductions: their sums and trees; */
void tn__reduce_sums(tn__device_printer *p, const tn__stage_use *use);
/* accumulators as they begin: values, or arrays of lanes; */
void tn__reduce_accumulators(tn__device_printer *p, const tn__stage_use *use);
/* from accumulators to one value each, and with them into the trees; */
void tn__reduce_combine(tn__device_printer *p, const tn__stage_use *use);
/* the values of the reductions, or of a share of each; */
void tn__reduce_results(tn__device_printer *p, const tn__stage_use *use);
/* the values of a stage that earlier steps have run, of all shares. */
void tn__reduce_shares(tn__device_printer *p, const tn__stage_use *use);

static inline bool tn__reduce_is_arg(const tn_kernel_ins *ins)
{
    return ins->sub == TN_REDUCE_ARGMAX || ins->sub == TN_REDUCE_ARGMIN;
}
/* Local memory for all reductions that are needed. */
void tn__reduce_memory(tn__device_printer *p);
/* Where the values of a row's shares are in scratch memory, for each reduction
 * that a step makes or reads. */
void tn__reduce_parts(tn__device_printer *p);

/* row_cache.c: what several stages load, as far as they need it, unless it is one
 * element. */
uint32_t tn__cache_operands(const tn__device_printer *p);
/* The local memory of p->cached. */
void tn__cache_memory(tn__device_printer *p);
/* A team's row to local memory, when all have done with the one before. */
void tn__cache_fill(tn__device_printer *p);
/* here<k> of element `k` in a chunk, for the operands */
void tn__cache_positions(tn__device_printer *p, uint32_t operands,
                         const char *k, const char *chunk);

#endif
