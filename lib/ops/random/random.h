/* random.h: the state that a random operator takes from its thread's
 * generator. */
#ifndef TN_LIB_OPS_RANDOM_H
#define TN_LIB_OPS_RANDOM_H

#include <tenon/random.h>

/* Returns the state for one call and advances the generator. */
tn_rng_state tn__random_draw(void);

#endif
