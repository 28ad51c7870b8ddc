/* native_runner.h: the state of one run of a segment's machine code over a
 * block. Also the functions that native_run.c and native_run_folds.c both use
 * to prepare a call of the code. */
#ifndef TN_CPU_NATIVE_RUNNER_H
#define TN_CPU_NATIVE_RUNNER_H

#include "../run/plan.h"
#include "native_run.h"

enum { COPIES = TN_CPU_NATIVE_COPIES };
enum {
    PIECE = 1024
}; /* number of elements that are processed between two
                        * prefetches */

/* A block as `count` rows of `length` elements, as the machine code of a
 * segment (operations compiled together) processes it. at[], next[] and bytes[]
 * have one entry for each operand, followed by one for each result. */
typedef struct row_layout {
    char *at[TN_CPU_NATIVE_POINTERS];     /* address of the first row */
    int64_t next[TN_CPU_NATIVE_POINTERS]; /* stride of rows in bytes */
    /* Element size in bytes, or 0 if the operand has one value for a row. */
    int64_t bytes[TN_CPU_NATIVE_POINTERS];
    /* pointers is the number of operands and results. single, stored and
     * streamed are options of the code (cpu_native_options). Bit i of single is
     * set if operand i has one value for a whole row. Bit i of streamed is set
     * if result i is written by non-temporal stores. */
    uint32_t pointers, single, stored, streamed;
    int64_t count, length;
    /* The index of the block's first element in its subrow, if rows consist of
     * subrows. next[] then holds strides from subrow to subrow. */
    int64_t first;
    /* The index of the operand whose next row is prefetched, or TN_CPU_NONE. */
    uint32_t prefetch;
} row_layout;

typedef struct runner {
    cpu_task *t;
    const cpu_segment *s;
    const row_layout *l;
    /* `one` is the machine code for one row (or chunk of a row) at a time,
     * `some` that for `copies` of them at a time. */
    cpu_native_run *one, *some;
    /* Code like `some` that can also process a part of a chunk and continue
     * later (cpu_native_options.parts). May be NULL. */
    cpu_native_run *parts;
    uint32_t copies; /* at most COPIES */
    bool prefetch;
    /* Rows may consist of subrows (contiguous parts). This is the length of a
     * subrow in elements, or 0 if subrows are adjacent in memory or do not
     * exist. */
    int64_t line;
    int64_t first; /* chunk at which the current batch of chunks begins */
} runner;

/* Sets the pointers of a call so that the j-th row that it processes is row
 * line + j, beginning with element `element`. `each` is the number of pointers
 * for one row. */
static inline void point(cpu_native_call *call, const row_layout *l,
                         uint32_t each, int64_t copies, int64_t line,
                         int64_t element)
{
    for (uint32_t i = 0; i < l->pointers; i++) {
        call->next[i] = copies * l->next[i];
        for (int64_t j = 0; j < copies; j++)
            call->at[j * each + i] =
                l->at[i] + (line + j) * l->next[i] + element * l->bytes[i];
    }
}

/* Of the memory ranges that the next block reads, returns the one with the most
 * bytes left to prefetch, or NULL if nothing is left. */
static inline cpu_prefetch_range *most_ahead(cpu_task *t)
{
    cpu_prefetch_range *most = NULL;
    for (int i = 0; t->plan->traffic.ahead && i < TN_CPU_PREFETCH_RANGES; i++) {
        cpu_prefetch_range *ahead = &t->ahead[i];
        if (ahead->at < ahead->end &&
            (!most || ahead->end - ahead->at > most->end - most->at))
            most = ahead;
    }
    return most;
}

/* Sets up a call so that its code prefetches memory of the next block, and
 * marks that memory as prefetched. If nothing is left to prefetch, the code
 * prefetches its first operand, which does no harm, because it reads this
 * memory. */
static inline void point_prefetch(cpu_task *t, const cpu_segment *s,
                                  cpu_native_call *call, int64_t copies)
{
    enum { VECTOR = 64 };
    cpu_prefetch_range *ahead = most_ahead(t);
    call->prefetch = call->at[0];
    call->prefetch_next = 0;
    if (!ahead)
        return;
    call->prefetch = ahead->at;
    ahead->at +=
        call->n / (s->native.wide ? 8 : 16) * copies * call->lines * VECTOR;
    if (ahead->at > ahead->end)
        ahead->at = ahead->end;
}

/* Returns whether rows are processed PIECE elements at a time, with prefetches
 * between the pieces. This is faster for updates in place that read more
 * streams than the hardware prefetcher follows. It is slower for other
 * programs, and for those of several stages. */
static inline bool is_chunked(const cpu_task *t)
{
    return t->plan->traffic.bytes_per_op > 0 && t->plan->traffic.ahead &&
           t->plan->in_place && t->code->stage_count == 1;
}

/* If is_chunked(), prefetches part of the next block and issues deferred
 * stores. The number of bytes is the size of the `elements` elements that were
 * just processed, divided by the number of stages. */
static inline void work_beside(cpu_task *t, int64_t elements)
{
    enum { BYTES = 4, LINE = 64 };
    if (is_chunked(t))
        tn__cpu_overlap_memory(
            t,
            (elements * BYTES / t->code->stage_count + LINE - 1) / LINE * LINE);
}

/* Returns how many of `left` rows one call processes. */
static inline int64_t some_lines(const cpu_task *t, const row_layout *l,
                                 int64_t left)
{
    int64_t some = is_chunked(t) ? PIECE / l->length : left;
    return tn__cpu_min(some > 1 ? some : 1, left);
}

/* Both functions run code that reduces rows (native_run_folds.c). fold_rows()
 * requires whole rows of at most TN_CHUNK elements. fold_chunks() also accepts
 * rows of several chunks (TN_CHUNK elements each), and blocks that hold a part
 * of a longer row. */
void tn__cpu_native_fold_rows(const runner *f);
void tn__cpu_native_fold_chunks(runner *f);

#endif
