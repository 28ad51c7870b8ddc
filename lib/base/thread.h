/* thread.h: the thread pool, which runs the iterations of a loop in parallel.
 * Plugins use it too.
 *
 * A caller must choose the number of iterations by the shape alone, so that
 * results do not depend on the number of threads. The iterations are divided
 * into contiguous shares, one for each thread. A thread runs its own share in
 * rising order, and then helps with the iterations that remain in other
 * shares. */
#ifndef TN_LIB_BASE_THREAD_H
#define TN_LIB_BASE_THREAD_H

#include <stdint.h>

/* Calls body(context, i) for each i in [0, count), and returns when all calls
 * are done. The calling thread makes all calls itself if count is 1, if it is
 * already inside a tn__parallel_for, or if the pool has one thread. The number
 * of threads respects CPU affinity and the cgroup quota. After a fork, the
 * child starts its own threads. */
void tn__parallel_for(int64_t count, void (*body)(void *context, int64_t i),
                      void *context);

#endif
