/* <tenon/random.h>: the random generator.
 *
 * Random numbers come from Philox, a function of the seed, the index of the
 * call, and the index of the element. They are the same on every device and for
 * any number of threads. Each thread has its own generator. The first thread
 * starts with seed 0, each further thread with the next seed.
 *
 *     tn_manual_seed(42);
 *     tn_tensor *w = tn_randn(tn_dims(3, 3));
 *
 * Threads: The calls act on the calling thread's generator. A state may be
 * restored in another thread.
 */
#ifndef TENON_RANDOM_H
#define TENON_RANDOM_H

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The state of a generator: the next random operator is call `call`, counted
 * from 0, of the stream `seed`. Closed: the struct never changes. */
typedef struct tn_rng_state {
    uint64_t seed, call;
} tn_rng_state;

/* Restarts the calling thread's generator with seed. Cannot fail. */
TN_API void tn_manual_seed(uint64_t seed);
/* Return and set the state of the calling thread's generator. Cannot fail. */
TN_API tn_rng_state tn_rng_snapshot(void);
TN_API void tn_rng_restore(tn_rng_state state);

#ifdef __cplusplus
}
#endif
#endif
