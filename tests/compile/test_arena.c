/* Tests the places of temporary values. Values that live in the same step must
 * not overlap, and the arena may be at most 5 % larger than the values that
 * live at the same time. */
#include <compile/arena.h>

#include "../tap.h"

enum { VALUES = 200, STEPS = 120, ROUNDS = 300 };

static uint64_t state = 7;

static unsigned draw(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

int main(void)
{
    plan_later();
    tn__lifetime value[VALUES];
    int overlaps = 0, misaligned = 0, below = 0;
    double worst = 0, sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const unsigned most = 1 + draw(12);
        for (int v = 0; v < VALUES; v++) {
            const unsigned first = draw(STEPS);
            value[v] = (tn__lifetime){
                .bytes = draw(10) ? 64 * (1 + draw(1000)) - draw(64) : 0,
                .first = first,
                .last = first + draw(most)};
        }
        uint64_t arena, bound;
        if (!tn__arena_plan(value, VALUES, 64, &arena, &bound))
            bail_out("no memory");
        overlaps += tn__arena_overlaps(value, VALUES);
        for (int v = 0; v < VALUES; v++)
            misaligned += value[v].place % 64 != 0 ||
                          value[v].place + value[v].bytes > arena;
        below += arena < bound;
        const double ratio = (double)arena / (double)bound;
        worst = ratio > worst ? ratio : worst;
        sum += ratio;
    }
    is_int(overlaps, 0, "no two living values overlap");
    is_int(misaligned, 0, "all places are aligned and within the arena");
    is_int(below, 0, "no arena is smaller than what lives at the same time");
    ok(sum / ROUNDS < 1.05, "the arena is %.3f times what lives at the same "
       "time on average, at most %.3f", sum / ROUNDS, worst);
    value[0] = (tn__lifetime){.bytes = 100, .first = 0, .last = 2};
    value[1] = (tn__lifetime){.bytes = 100, .first = 2, .last = 3};
    ok(tn__arena_overlaps(value, 2), "the check finds two values at one place");
    return done_testing();
}
