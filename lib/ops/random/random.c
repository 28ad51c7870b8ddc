/* random.c: the random generator of each thread. Its state is a seed and the
 * number of calls so far. Kernels compute random numbers from the state and
 * from the row-major index of the element. */
#include <base/context.h>
#include <device/recorder.h>
#include <ops/random/random.h>
#include <stdatomic.h>
#include <stdbool.h>

static _Atomic uint64_t next_seed; /* the seed of the next thread that starts
                                      its generator */

static tn_rng_state generator(void)
{
    if (!tn__me.random.started)
        tn_manual_seed(atomic_fetch_add(&next_seed, 1));
    return (tn_rng_state){tn__me.random.seed, tn__me.random.call};
}

void tn_manual_seed(uint64_t seed)
{
    tn_rng_restore((tn_rng_state){seed, 0});
}

tn_rng_state tn_rng_snapshot(void)
{
    return generator();
}

void tn_rng_restore(tn_rng_state state)
{
    tn__me.random.seed = state.seed;
    tn__me.random.call = state.call;
    tn__me.random.started = true;
}

tn_rng_state tn__random_draw(void)
{
    const tn_rng_state drawn = generator();
    tn__me.random.call++;
    if (TN__UNLIKELY(tn__me.recording != NULL))
        tn__record_drew(drawn.seed, drawn.call);
    return drawn;
}
