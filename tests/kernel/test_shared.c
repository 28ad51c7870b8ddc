/* Tests kernels when memory runs out, and when many threads need one at
 * once. */
#include <pthread.h>
#include <tenon/base.h>

#include "../tap.h"
#include "base/memory.h"
#include "kernel/kernel.h"

static const char *const texts[] = {
    "f(x) = 0.5 * x * (1 + erf(x * 0.70710678118654752))",
    ("f(x, w: row, b; e) = let d = x - rmean(x); "
     "d * rsqrt(rmean(d * d) + e) * w"),
    "f(x) = loop(i < 4; c = 0) while c < 9: (c + x * float(i))",
    "f(x) = sigmoid(x) * softplus(x)",
};
enum { TEXTS = sizeof texts / sizeof *texts };

static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_F64};

/* Builds the kernels and programs of a definition. Returns false at the first
 * failure. */
static bool make_all(const tn__def *def)
{
    const tn__kernel *k = tn__def_kernel(def, dtypes);
    if (!k || !tn__kernel_program(k))
        return false;
    char *text = tn__program_text(tn__kernel_program(k));
    if (!text)
        return false;
    tn__free(text);
    int used[TN__KERNEL_MAX_INPUTS];
    bool zero;
    const tn__kernel *g = tn__kernel_gradient(k, 0, used, &zero);
    if (!g)
        /* a loop has no derivative */
        return tn_error_code() == TN_ERR_UNSUPPORTED;
    return tn__kernel_program(g) != NULL;
}

static void test_memory(void)
{
    for (int i = 0; i < TEXTS; i++) {
        int failures = 0;
        bool done = false, silent = false;
        for (int64_t n = 1; !done && n < 100000; n++) {
            tn__memory_fail_at(n);
            tn__def *def = tn__def_parse(texts[i], "t");
            bool made = def && make_all(def);
            tn__memory_fail_at(0);
            done = made;
            failures += !made;
            silent |= !made && tn_error_code() != TN_ERR_MEMORY;
            tn_error_clear();
            ok(!def || make_all(def), "the next call works (%lld)",
               (long long)n);
            tn_error_clear();
        }
        ok(done && failures > 5 && !silent,
           "'%s': each of %d allocations that failed was reported", texts[i],
           failures);
    }
}

static tn__def *shared[TEXTS];
static const tn__kernel *seen[8][TEXTS];

static void *ask(void *context)
{
    const tn__kernel **mine = context;
    for (int i = 0; i < TEXTS; i++)
        if (make_all(shared[i]))
            mine[i] = tn__def_kernel(shared[i], dtypes);
    tn_error_clear();
    return NULL;
}

static void test_threads(void)
{
    pthread_t thread[8];
    for (int i = 0; i < TEXTS; i++)
        shared[i] = tn__def_parse(texts[i], "t");
    for (int t = 0; t < 8; t++)
        if (pthread_create(&thread[t], NULL, ask, seen[t]))
            bail_out("no thread");
    for (int t = 0; t < 8; t++)
        pthread_join(thread[t], NULL);
    bool same = true;
    for (int t = 0; t < 8; t++)
        for (int i = 0; i < TEXTS; i++)
            same &= seen[t][i] && seen[t][i] == seen[0][i];
    ok(same, "eight threads that ask at once are given the same kernels");
}

int main(void)
{
    plan_later();
    test_threads();
    test_memory();
    return done_testing();
}
