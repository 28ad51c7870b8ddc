/* thread.h: the one pool of threads. Lent to plugins by the host table.
 *
 * A partition depends on the shape alone, so bits do not depend on the number
 * of threads; a thread takes its share of the parts in rising order, and then
 * what is left of others'. */
#ifndef TN_LIB_BASE_THREAD_H
#define TN_LIB_BASE_THREAD_H

#include <stdint.h>

/* body(context, i) for i in [0, count); returns when all are done. Runs in the
 * caller alone when count is 1, when nested, or with one thread. Obeys
 * affinity and cgroup quota; a child after fork starts its own threads. */
void tn__parallel_for(int64_t count, void (*body)(void *context, int64_t i),
                      void *context);

#endif
