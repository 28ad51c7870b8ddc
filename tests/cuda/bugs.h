/* bugs.h: the common part of programs that make deliberate mistakes in driver
 * calls: a context, streams, and blocks of memory that are restored before each
 * mistake. */
#ifndef TN_TESTS_BUGS_H
#define TN_TESTS_BUGS_H

#include "calls.h"

static tn_cu_context context, second; /* contexts of devices 0 and 1 */
static tn_cu_stream stream, other;    /* streams of device 0 */
static tn_cu_stream far;              /* stream of device 1 */
/* Blocks of 64 bytes: block is initialized, blank uninitialized, freed has been
 * freed, and remote is an initialized block on device 1. */
static tn_cu_pointer block, blank, freed, remote;
static uint64_t eight[8]; /* host memory */

static inline tn_cu_result end(tn_cu_stream of)
{
    return cuStreamSynchronize(of);
}

/* Restores the blocks before a test. */
static inline void begin(void)
{
    char said[4096];
    sim_mend();
    MUST(cuMemFree_v2(blank));
    MUST(cuMemAlloc_v2(&blank, 64));
    MUST(cuMemcpyHtoDAsync_v2(block, eight, 64, stream));
    MUST(end(stream));
    sim_reports(said, sizeof said);
}

static inline bool is_found(tn_cu_result got, tn_cu_result want,
                            const char *says, char *said, size_t room)
{
    sim_reports(said, room);
    return got == want && (says ? strstr(said, says) != NULL : !*said);
}

static inline void open_all(void)
{
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&second, 1));
    MUST(cuCtxSetCurrent(second));
    MUST(cuStreamCreate(&far, TN_CU_NON_BLOCKING));
    MUST(cuMemAlloc_v2(&remote, 64));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, TN_CU_NON_BLOCKING));
    MUST(cuStreamCreate(&other, TN_CU_NON_BLOCKING));
    MUST(cuMemAlloc_v2(&block, 64));
    MUST(cuMemAlloc_v2(&blank, 64));
    MUST(cuMemAlloc_v2(&freed, 64));
    MUST(cuMemFree_v2(freed));
}

#endif
