/* fault_sweep.h: makes each allocation of a function fail in turn, those of the
 * library, its plugins and the libraries that they use included. The function
 * must report each failure as TN_ERR_MEMORY and leak nothing, and the next call
 * must work.
 *
 *     static bool try_load(void)
 *     {
 *         return tn_image_load("cat.png");
 *     }
 *     fails_in_turn(try_load, "image_load");
 *
 * A program includes it in one file, before other headers. It calls
 * tn_set_num_threads(1) first, and skips its checks unless MALLOC_FAULTS. */
#ifndef TN_TESTS_FAULT_SWEEP_H
#define TN_TESTS_FAULT_SWEEP_H

#define MALLOC_FAULTS_IN_LIBRARIES
#include "malloc_faults.h"
#include "tap.h"

#include <tenon/tenon.h>

typedef struct sweep_counts {
    int tried, refused, wrong, objects;
    bool done; /* the last call made fewer allocations than were to fail */
} sweep_counts;

static sweep_counts sweep(bool (*run)(void), const char *name)
{
    enum { MOST = 20000 };
    sweep_counts c = {0};
    /* The first round also compiles kernels, which stay cached. */
    for (int n = 0; n <= MOST && !c.done; n++) {
        const int64_t before = tn_scope_count();
        tn_scope *scope = tn_scope_open();
        const int64_t made = malloc_count();
        malloc_fail_at(n);
        const bool fine = run();
        malloc_fail_at(0);
        const bool wrong =
            fine ? tn_error() != NULL : tn_error_code() != TN_ERR_MEMORY;
        if (wrong)
            note("%s, allocation %d: %s", name, n,
                 tn_error() ? tn_error() : "no error");
        c.refused += !fine;
        c.wrong += wrong;
        c.tried = n;
        c.done = n > 0 && malloc_count() - made < n;
        tn_error_clear();
        tn_scope_close(scope);
        c.objects += tn_scope_count() != before;
    }
    return c;
}

/* Runs two sweeps. The first one fills caches, so memory that the second one
 * leaves over is a leak. */
static void sweep_twice(bool (*run)(void), const char *name)
{
    /* lib/base keeps this many freed objects of a kind for reuse */
    enum { QUEUE = 64 };
    sweep(run, name);
    for (int i = 0; i < QUEUE; i++)
        TN_SCOPE(scope) run();
    const int64_t before = malloc_live();
    const sweep_counts c = sweep(run, name);
    const int64_t after = malloc_live();
    ok(c.done && c.tried > 1 && (c.refused > 0 || malloc_many == 1),
       "%s: %d of %d failures were errors, then it worked", name, c.refused,
       c.tried);
    is_int(c.wrong, 0, "%s: each failure was an error of memory", name);
    is_int(c.objects, 0, "%s: no object was left over", name);
    is_int(after - before, 0, "%s: no memory was left over", name);
}

/* A single failure may have no effect, because the library frees cached memory
 * and tries again. So there is a second round, in which all later allocations
 * fail, too. */
static void fails_in_turn(bool (*run)(void), const char *name)
{
    char what[128];
    malloc_many = 1;
    sweep_twice(run, name);
    malloc_many = INT64_MAX;
    snprintf(what, sizeof what, "%s, all from then on", name);
    sweep_twice(run, what);
}

#endif
