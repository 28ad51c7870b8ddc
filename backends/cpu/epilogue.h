/* epilogue.h: a launch that reads the result of a product or a convolution, and
 * that runs for each block of the result as soon as the block is finished
 * (extension "epilogue"). The block is then still in the caches, and the threads
 * need not meet in between.
 *
 * A block is finished by one or several tasks. It is cut so that the launch reads
 * long contiguous runs: a launch over a few columns of many rows would take
 * longer than a second pass over all rows. */
#ifndef TN_CPU_EPILOGUE_H
#define TN_CPU_EPILOGUE_H

#include "cpu.h"

/* A result is addressed by up to three ranges, each over one dimension of the
 * result or over several adjacent ones. */
#define TN_CPU_EPILOGUE_RANGES 3

typedef struct tn_cpu_epilogue {
    tn_queue *queue;
    const tn_epilogue_args *args;
    bool taken; /* the work runs the launch for each block of its result */
    /* The launch, if it is taken. Dimensions of a range are merged where the
     * operands allow it. Those from range[r] up to but not including range[r + 1]
     * are those of range r. */
    uint32_t ndim, row_ndim;
    uint32_t range[TN_CPU_EPILOGUE_RANGES + 1];
    int64_t extent[TN_MAX_NDIM];
    int64_t stride[TN_CPU_MAX_OPERANDS][TN_MAX_NDIM];
    atomic_int *left; /* left[b]: how many parts of block b are not finished;
                       * owned; NULL if each block is one part */
    atomic_int failed; /* the status of a launch that failed */
} tn_cpu_epilogue;

/* How a work cuts its result for the launch. */
typedef struct tn_cpu_epilogue_cut {
    int64_t blocks, parts; /* number of blocks, and of parts of each block */
    uint32_t ranges;       /* number of ranges */
    uint32_t first[TN_CPU_EPILOGUE_RANGES]; /* first dimension of the result of
                                             * each range */
    uint32_t whole; /* a block contains all elements of the ranges from this one
                     * on, so that the launch may reduce them */
} tn_cpu_epilogue_cut;

/* Describes the launch of an epilogue. */
void tn__cpu_epilogue_open(tn_cpu_epilogue *e, tn_queue *queue,
                           const tn_epilogue_args *args);
/* Called by a work before its tasks. Returns true if the launch is to run block
 * by block: the work then calls the two functions below. If not, or if e is NULL,
 * returns false; the launch then runs after the work. */
bool tn__cpu_epilogue_take(tn_cpu_epilogue *e, const tn_cpu_epilogue_cut *cut);
/* Says that `count` more parts of a block are finished. Returns whether they were
 * the last ones. */
bool tn__cpu_epilogue_part(tn_cpu_epilogue *e, int64_t block, int64_t count);
/* Runs the launch for the elements with indices from[r] <= i < end[r] in each
 * range r. The index in a range of several dimensions is row-major. Uses the
 * scratch memory of the thread. */
void tn__cpu_epilogue_run(tn_cpu_epilogue *e, const int64_t *from,
                          const int64_t *end);
/* For a work that writes `count` images, dimension 0 of the result, whose parts are
 * pixels or groups of pixels: a block is an image. tn__cpu_epilogue_image counts
 * parts of an image, and runs the launch for it after the last one. */
bool tn__cpu_epilogue_take_images(tn_cpu_epilogue *e, int64_t count,
                                  int64_t parts);
void tn__cpu_epilogue_image(tn_cpu_epilogue *e, int64_t image, int64_t parts);

/* Called after the work, with its status: runs the launch if it was not taken.
 * Returns the status of both. */
tn_status tn__cpu_epilogue_close(tn_cpu_epilogue *e, tn_status status);

#endif
