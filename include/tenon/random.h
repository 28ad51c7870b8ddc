/* <tenon/random.h>: the stream of random numbers.
 *
 * Random numbers are Philox, keyed by (seed, number of the call, element): the
 * same on every device and for any number of threads. Each thread has a
 * generator of its own; the first thread starts from seed 0, every other from
 * the next one.
 *
 *     tn_manual_seed(42);
 *     tn_tensor *w = tn_randn(tn_dims(3, 3));
 *
 * Threads: The generator is the calling thread's; any thread may carry on the
 * state of another.
 */
#ifndef TENON_RANDOM_H
#define TENON_RANDOM_H

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where a generator stands: the next random operator is number `call` of the
 * stream `seed`. Closed. */
typedef struct tn_rng_state {
    uint64_t seed, call;
} tn_rng_state;

/* Starts the calling thread's stream anew. Cannot fail. */
TN_API void tn_manual_seed(uint64_t seed);
/* The calling thread's generator, to be kept and brought back. Cannot fail. */
TN_API tn_rng_state tn_rng_snapshot(void);
TN_API void tn_rng_restore(tn_rng_state state);

#ifdef __cplusplus
}
#endif
#endif
