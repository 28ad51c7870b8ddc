/* random.h: how a random operator takes its state from the random generator of
 * its thread. */
#ifndef TN_LIB_OPS_RANDOM_H
#define TN_LIB_OPS_RANDOM_H

#include <tenon/random.h>

/* Returns the state (the seed, and the number of calls before this one) for one
 * call of an operator, and advances the generator. */
tn_rng_state tn__random_draw(void);

#endif
