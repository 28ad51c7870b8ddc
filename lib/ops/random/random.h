/* random.h: what a random operator takes from its thread's generator. */
#ifndef TN_LIB_OPS_RANDOM_H
#define TN_LIB_OPS_RANDOM_H

#include <tenon/random.h>

/* The state for one call; the generator moves on. */
tn_rng_state tn__random_draw(void);

#endif
