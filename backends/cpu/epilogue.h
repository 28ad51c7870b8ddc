/* epilogue.h: a launch that reads the result of a product or a convolution, and
 * that runs for each part of the result as soon as the part is finished
 * (extension "epilogue"). The part is then still in the cache of the core that
 * computed it, and no second pass over the threads is needed. */
#ifndef TN_CPU_EPILOGUE_H
#define TN_CPU_EPILOGUE_H

#include "cpu.h"

/* A result is addressed by up to four ranges, each over one dimension of the
 * result or over several adjacent ones. */
#define TN_CPU_EPILOGUE_RANGES 4

typedef struct tn_cpu_epilogue {
    tn_queue *queue;
    const tn_epilogue_args *args;
    uint32_t ndim; /* dimensions of the launch */
    /* The dimensions of the launch from ranges[r] up to but not including
     * ranges[r + 1] are those of range r. */
    uint32_t ranges[TN_CPU_EPILOGUE_RANGES + 1];
    int64_t elements; /* of the result */
    bool taken;       /* the work runs the launch for each part of its result */
    atomic_int failed; /* the status of the first launch that failed */
} tn_cpu_epilogue;

/* Describes the launch of an epilogue. */
void tn__cpu_epilogue_open(tn_cpu_epilogue *e, tn_queue *queue,
                           const tn_epilogue_args *args);

/* The functions below accept NULL for e: there is no launch. */

/* Called by the work before its tasks: the work will call tn__cpu_epilogue_run for
 * all parts of the result, in `tasks` tasks. first[r] is the first dimension of
 * the result that belongs to range r, for `count` ranges. Returns false if the
 * launch is better run on its own afterwards. */
bool tn__cpu_epilogue_take(tn_cpu_epilogue *e, const uint32_t *first,
                           uint32_t count, int64_t tasks);
/* Runs the launch for the elements with indices from[r] <= i < end[r] in each
 * range r. The index in a range of several dimensions is row-major. Uses the
 * scratch memory of the thread. Does nothing if the launch was not taken. */
void tn__cpu_epilogue_run(tn_cpu_epilogue *e, const int64_t *from,
                          const int64_t *end);
/* Called after the work, with its status: runs the launch if it was not taken.
 * Returns the status of both. */
tn_status tn__cpu_epilogue_close(tn_cpu_epilogue *e, tn_status status);

#endif
