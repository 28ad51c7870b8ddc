/* Compares matmul, scatter, scan and sort with plain loops
 * (tools/check/primitives.c), on random shapes and strides and all dtypes.
 *
 *   TENON_TEST_PLUGIN  the plugin's name; unset: cpu and reference
 *   TENON_TEST_SEED    seed of the first case (1)
 *   TENON_TEST_CASES   number of cases of each primitive (300) */
#include "../../tools/check/primitives.h"
#include "../tap.h"
#include "by_name.h"

static uint64_t cases = 300;

static void test_plugin(const char *name, uint64_t seed)
{
    by_hand h;
    if (!by_name_open(&h, name, NULL)) {
        ok(false, "%s: %s", name, by_hand_failure());
        return;
    }
    for (int p = 0; p < PRIMITIVE_COUNT; p++) {
        int wrong = 0;
        for (uint64_t i = 0; i < cases; i++) {
            char why[512];
            if (!primitive_case(&h, p, seed + i, why, sizeof why) &&
                wrong++ < 3)
                note("TENON_TEST_SEED=%" PRIu64 ": %s", seed + i, why);
        }
        is_int(wrong, 0, "%s: %s is right in %" PRIu64 " cases", name,
               primitive_names[p], cases);
    }
    by_hand_close(&h);
}

int main(void)
{
    const char *name = getenv("TENON_TEST_PLUGIN");
    const char *text = getenv("TENON_TEST_SEED");
    const char *count = getenv("TENON_TEST_CASES");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 1;
    if (count)
        cases = strtoull(count, NULL, 0);
    plan_later();
    note("seed %" PRIu64, seed);
    if (name) {
        test_plugin(name, seed);
    } else {
        test_plugin("reference", seed);
        test_plugin("cpu", seed);
    }
    return done_testing();
}
