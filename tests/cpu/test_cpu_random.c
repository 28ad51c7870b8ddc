/* The cpu plugin's random words equal those of lib/kernel/philox.h for every
 * instruction set, whether consecutive elements share a Philox counter or
 * not. */
#include "../tap.h"
#include <tenon/base.h>

#include "../../backends/cpu/simd/routines.h"
#include "isa_here.h"
#include "kernel/philox.h"

enum { COUNT = 300 };

static const struct kind {
    const char *name;
    uint64_t first, step; /* counters first, first + step, ...; step 0:
                           * arbitrary counters */
} kinds[] = {
    {"neighbours", 0, 1},         {"neighbours from 3", 3, 1},
    {"even numbers", 0, 2},       {"odd numbers", 1, 2},
    {"even numbers from 6", 6, 2}, {"every third", 5, 3},
    {"one number", 7, 0},         {"neighbours across 2^34", 0x3fffffff9, 1},
    {"even numbers across 2^64", (uint64_t)-40, 2},
};

static uint32_t word_of(uint64_t a, uint64_t key, uint64_t call)
{
    return tn__philox(a >> 2, call, key, (unsigned)(a & 3));
}

static void test_kind(const tn_cpu_routines *r, const char *isa,
                      const struct kind *kind)
{
    static uint64_t a[COUNT], key[COUNT], call[COUNT];
    static uint32_t got[COUNT + 1], next[COUNT + 1];
    int64_t wrong = 0, wrong_pairs = 0, wrong_each = 0, beyond = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        a[i] = kind->first + i * kind->step;
        key[i] = 0x9e3779b97f4a7c15u + i / 100;
        call[i] = 0xf00000000u + i / 50;
    }
    a[200]++; /* leaves out a counter */
    for (int64_t n = 0; n <= COUNT; n += n < 80 ? 1 : 55) {
        got[n] = next[n] = 1234;
        r->op[TN_K_PHILOX][CPU_I64](got, a, key, call, n, 6);
        for (int64_t i = 0; i < n; i++)
            wrong += got[i] != word_of(a[i], key[0], call[0]);
        r->philox_pair(got, next, a, key, call, n);
        for (int64_t i = 0; i < n; i++)
            wrong_pairs += got[i] != word_of(a[i], key[0], call[0]) ||
                           next[i] != word_of(a[i] + 1, key[0], call[0]);
        r->op[TN_K_PHILOX][CPU_I64](got, a, key, call, n,
                                    2 * (unsigned)(n % 3));
        for (int64_t i = 0; i < n; i++)
            wrong_each += got[i] != word_of(a[i], key[n % 3 & 1 ? 0 : i],
                                            call[n % 3 & 2 ? 0 : i]);
        beyond += got[n] != 1234 || next[n] != 1234;
    }
    is_int(wrong, 0, "%s on %s are philox.h's", kind->name, isa);
    is_int(wrong_pairs, 0, "numbers that are generated in pairs are the same");
    is_int(wrong_each, 0,
           "so are those with a key or a call number for each element");
    is_int(beyond, 0, "and nothing is written beyond");
}

static void test_set(const char *isa, void (*fill)(tn_cpu_routines *))
{
    tn_cpu_routines r = {0};
    if (!is_here(isa)) {
        skip(1, "this machine cannot run the set");
        return;
    }
    fill(&r);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        test_kind(&r, isa, &kinds[k]);
}

int main(void)
{
    plan_later();
    test_set("generic", tn__cpu_random__generic);
#if defined(__x86_64__)
    test_set("v3", tn__cpu_random__v3);
    test_set("v4", tn__cpu_random__v4);
#endif
    return done_testing();
}
