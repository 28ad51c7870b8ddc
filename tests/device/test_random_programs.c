/* Random programs give identical bits on a plugin and on the interpreter, for
 * every instruction set that it offers and any number of threads.
 *
 *   TENON_TEST_PLUGIN    a plugin's name, or "name:1" for another device of
 *                        it; unset: cpu and reference
 *   TENON_TEST_THREADS   the number of threads (runs with 1, with 2 and with 7)
 *   TENON_TEST_PROGRAMS  the number of programs (2000)
 *   TENON_TEST_SEED      seed of the first program (1); the n-th one adds n - 1
 *   TENON_TEST_GROUP     most work-items in a work-group, for tests with long
 *                        rows: on devices that compile source, several groups
 *                        of 16 share a row of four chunks
 *
 * Each combination of these runs in a process of its own, since a plugin is
 * never unloaded. So a crash is only one failed check. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tools/check/random_program.h"
#include "../../tools/check/run_case.h"
#include "../tap.h"
#include "by_name.h"
#include "kernel/kernel.h"
#include <tenon/base.h>

static uint64_t first_seed = 1;
static int64_t program_count = 2000;
static int64_t left_out; /* programs with dtypes that the device does not
                          * support */

static bool check_program(const by_hand *h, uint64_t seed)
{
    random_case *c = by_name_group ? random_case_of_chunks(seed)
                                   : random_case_new(seed);
    if (!c)
        bail_out("out of memory");
    char why[512];
    bool fits = run_case_fits(h, c);
    left_out += !fits;
    bool same = !fits || run_case(h, c, why, sizeof why);
    if (!same) {
        note("%s", why);
        random_case_print(c, stdout);
    }
    random_case_free(c);
    return same;
}

/* ---- running a plugin ---------------------------------------------------- */

enum { SAME, DIFFERS };

static int run_all(const char *name, const char *isa, int threads)
{
    by_hand h;
    /* With "0" all stores are non-temporal. */
    by_name_stream = threads == 2 ? "0" : NULL;
    if (!by_name_open(&h, name, isa)) {
        note("%s", by_hand_failure());
        return DIFFERS;
    }
    tn_set_num_threads(threads);
    int64_t different = 0;
    for (int64_t i = 0; i < program_count && different < 3; i++)
        different += !check_program(&h, first_seed + (uint64_t)i);
    by_hand_close(&h);
    if (by_name_group)
        note("of %" PRId64 " programs groups share rows", by_hand_shared());
    if (left_out > 0)
        note("%s lacks types that %" PRId64 " of them use", name, left_out);
    const bool meant = !by_name_group || by_hand_shared() > 0;
    return different || left_out == program_count || !meant ? DIFFERS : SAME;
}

/* Returns whether the system permits executable memory. */
static bool may_run_memory(void)
{
    const size_t bytes = 4096;
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool may = page != MAP_FAILED &&
               mprotect(page, bytes, PROT_READ | PROT_EXEC) == 0;
    if (page != MAP_FAILED)
        munmap(page, bytes);
    return may;
}

static bool machine_has(const char *isa)
{
    if (!isa || strcmp(isa, "generic") == 0)
        return true;
    if (!strstr(isa, "-nojit") && !may_run_memory())
        return false;
#if defined(__x86_64__)
    if (strncmp(isa, "v3", 2) == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strncmp(isa, "v4", 2) == 0)
        return __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#endif
    return false;
}

static void test_plugin(const char *name, const char *isa, int threads)
{
    if (!machine_has(isa)) {
        skip(1, "this machine lacks the instruction set");
        return;
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int result = run_all(name, isa, threads);
        fflush(stdout);
        _exit(result);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child)
        bail_out("cannot run a process");
    if (WIFSIGNALED(status))
        note("ended by signal %d", WTERMSIG(status));
    ok(WIFEXITED(status) && WEXITSTATUS(status) == SAME,
       "%s%s%s, %d threads: %" PRId64 " programs have the interpreter's bits",
       name, isa ? ", " : "", isa ? isa : "", threads, program_count);
}

int main(void)
{
    static const char *const isas[] = {"generic", "v3-nojit", "v3",
                                       "v4-nojit", "v4"};
    static const int threads[] = {1, 2, 7};
    const char *name = getenv("TENON_TEST_PLUGIN");
    if (getenv("TENON_TEST_SEED"))
        first_seed = strtoull(getenv("TENON_TEST_SEED"), NULL, 0);
    if (getenv("TENON_TEST_PROGRAMS"))
        program_count = atoll(getenv("TENON_TEST_PROGRAMS"));
    if (getenv("TENON_TEST_GROUP"))
        by_name_group = (uint32_t)atoi(getenv("TENON_TEST_GROUP"));

    plan_later();
    note("%" PRId64 " programs from seed %" PRIu64, program_count, first_seed);
    ok(tn__math_fn_count() > 0, "functions of the language take part");
    if (!name || strcmp(name, "reference") == 0)
        test_plugin("reference", NULL, 1);
    const char *only = getenv("TENON_TEST_THREADS");
    for (int t = 0; t < 3; t++) {
        if (only && threads[t] != atoi(only))
            continue;
        if (name && strcmp(name, "cpu") != 0) {
            if (strcmp(name, "reference") != 0)
                test_plugin(name, NULL, threads[t]);
            continue;
        }
        for (size_t i = 0; i < sizeof isas / sizeof *isas; i++)
            test_plugin("cpu", isas[i], threads[t]);
    }
    return done_testing();
}
