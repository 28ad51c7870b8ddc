/* thread.h: the thread pool. Plugins use it through the host table.
 *
 * Callers must partition work by the shape only, so that results do not depend
 * on the number of threads. A thread runs the parts of its share in rising
 * order, then remaining parts of other shares. */
#ifndef TN_LIB_BASE_THREAD_H
#define TN_LIB_BASE_THREAD_H

#include <stdint.h>

/* Calls body(context, i) for each i in [0, count); returns when all are done.
 * Runs on the calling thread only if count is 1, if nested, or with one thread.
 * Respects CPU affinity and the cgroup quota. After a fork the child starts its
 * own threads. */
void tn__parallel_for(int64_t count, void (*body)(void *context, int64_t i),
                      void *context);

#endif
