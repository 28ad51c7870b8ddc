/* random.c: a generator a thread: a seed and how many calls it has served. The
 * numbers themselves are made by the kernels, from these two and the element's
 * number. */
#include <device/recorder.h>
#include <ops/random/random.h>
#include <stdatomic.h>
#include <stdbool.h>

static _Thread_local tn_rng_state state;
static _Thread_local bool started;
static _Atomic uint64_t next_seed; /* so that threads differ */

static tn_rng_state *generator(void)
{
    if (!started) {
        state.seed = atomic_fetch_add(&next_seed, 1);
        state.call = 0;
        started = true;
    }
    return &state;
}

void tn_manual_seed(uint64_t seed)
{
    tn_rng_restore((tn_rng_state){seed, 0});
}

tn_rng_state tn_rng_snapshot(void)
{
    return *generator();
}

void tn_rng_restore(tn_rng_state new_state)
{
    started = true;
    state = new_state;
}

tn_rng_state tn__random_draw(void)
{
    tn_rng_state *own = generator(), drawn = *own;
    own->call++;
    if (TN__UNLIKELY(tn__recording != NULL))
        tn__record_drew(drawn.seed, drawn.call);
    return drawn;
}
