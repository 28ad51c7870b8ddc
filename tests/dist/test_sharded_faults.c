/* test_sharded_faults.c: saving in two processes, of which one is killed between
 * any two changes of the file system, or both at a random moment, or whose disk
 * is full. The last complete checkpoint always loads, and is whole.
 *
 * The calls that change the file system go through functions here, which count
 * them and kill the process before or after one of them. */
#include "ranks.h"

#include <inttypes.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <tenon/sharded.h>
#include <tenon/tenon.h>

/* ---- calls that kill ------------------------------------------------------ */

static int kill_at = -1, calls; /* the call of this rank after which it ends;
                                   before it, if kill_before */
static bool kill_before, counting;

static void die_if(bool before)
{
    if (counting && before == kill_before && calls == kill_at)
        raise(SIGKILL);
}

/* The library finds these instead of those of the C library. */
#define SEEN __attribute__((visibility("default")))
#define COUNTED(call)                                                         \
    die_if(true);                                                             \
    const long result = call;                                                 \
    die_if(false);                                                            \
    calls += counting;                                                        \
    return (int)result

SEEN int rename(const char *from, const char *to)
{
    COUNTED(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

SEEN int unlink(const char *path)
{
    COUNTED(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

SEEN int unlinkat(int folder, const char *path, int flags)
{
    COUNTED(syscall(SYS_unlinkat, folder, path, flags));
}

SEEN int rmdir(const char *path)
{
    COUNTED(syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

SEEN int mkdir(const char *path, mode_t mode)
{
    COUNTED(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

/* ---- a run whose weights are its step ------------------------------------- */

static tn_checkpoint made(void)
{
    return (tn_checkpoint){sizeof(tn_checkpoint),
                           .module = tn_nn_linear(60, 40)};
}

static void set(tn_checkpoint *all, int64_t step)
{
    all->step = step;
    TN_NO_GRAD TN_SCOPE(scope) {
        tn_parameter_list *list = tn_parameters(all->module);
        for (int i = 0; i < tn_parameters_count(list); i++) {
            tn_tensor *x = tn_parameters_at(list, i);
            tn_copy_(x, tn_full_like(x, (double)step + i));
        }
    }
}

static bool is_whole(tn_checkpoint *all)
{
    bool good = true;
    tn_parameter_list *list = tn_parameters(all->module);
    for (int i = 0; i < tn_parameters_count(list); i++) {
        const tn_tensor *x = tn_parameters_at(list, i);
        const float *data = tn_tensor_data((tn_tensor *)(uintptr_t)x);
        for (int64_t k = 0; k < tn_tensor_numel(x); k++)
            good = good && data[k] == (float)(all->step + i);
    }
    return good;
}

/* ---- ranks ---------------------------------------------------------------- */

static int fail_with(const char *what)
{
    printf("%s: %s\n", what, tn_error() ? tn_error() : "wrong");
    return 1;
}

/* Saves step 1, then step 2, in which rank `who` is killed at call `at`. Prints
 * how many calls there were. */
static int crash(const char *folder, int who, int at, bool before)
{
    tn_checkpoint all = made();
    set(&all, 1);
    tn_sharded_save(folder, &all, tn_dist_world(), .keep = 1);
    set(&all, 2);
    counting = tn_dist_rank() == who;
    kill_at = at;
    kill_before = before;
    tn_sharded_save(folder, &all, tn_dist_world(), .keep = 1);
    counting = false;
    printf("calls %d\n", calls);
    return tn_error() ? fail_with("crash") : 0;
}

/* Saves steps until it is killed. */
static int loop(const char *folder)
{
    tn_checkpoint all = made();
    tn_group *world = tn_dist_world();
    if (tn_sharded_load(folder, &all, world, .optional = true) < 0)
        return fail_with("loop");
    printf("from %" PRId64 "\n", all.step);
    fflush(stdout);
    for (;;) {
        set(&all, all.step + 1);
        if (tn_sharded_save(folder, &all, world) < 0)
            return fail_with("loop");
    }
}

/* The file of rank 1 must not be large; or the disk is full. The job goes on. */
static int full(const char *folder, bool limit)
{
    tn_checkpoint all = made();
    tn_group *world = tn_dist_world();
    struct rlimit old = {0, 0};
    set(&all, 1);
    tn_sharded_save(folder, &all, world);
    set(&all, 2);
    signal(SIGXFSZ, SIG_IGN);
    if (limit && tn_dist_rank() == 1) {
        getrlimit(RLIMIT_FSIZE, &old);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){3000, old.rlim_max});
    }
    if (!limit) /* does not fit beside step 1, nor does what rank 0 has of it */
        all.module = tn_nn_linear(60, 400);
    tn_sharded_save(folder, &all, world);
    if (tn_error_code() != TN_ERR_IO ||
        !strstr(tn_error(), limit ? "sharded_save: rank 1: "
                                  : "sharded_save: rank ") ||
        !strstr(tn_error(), limit ? "File too large" : "No space left"))
        return fail_with("full");
    tn_error_clear();
    if (limit && tn_dist_rank() == 1)
        setrlimit(RLIMIT_FSIZE, &old);
    if (tn_sharded_latest(folder, NULL, 0) != 1)
        return fail_with("step 1 is there");
    all = made();
    set(&all, 3);
    tn_dist_barrier(world); /* all have looked for step 1 */
    tn_sharded_save(folder, &all, world, .keep = 1);
    tn_sharded_load(folder, &all, world);
    return tn_error() || all.step != 3 || !is_whole(&all)
               ? fail_with("what is saved after it") : 0;
}

static int run_rank(const char *name)
{
    char what[16];
    int used = 0, who = 0, at = -1, before = 0;
    if (sscanf(name, "%15[a-z]:%d:%d:%d:%n", what, &who, &at, &before,
               &used) != 4 || !used || tn_dist_init() < 0)
        return fail_with(name);
    int status = !strcmp(what, "crash")  ? crash(name + used, who, at, before)
                 : !strcmp(what, "loop") ? loop(name + used)
                                         : full(name + used, who);
    fflush(stdout);
    tn_dist_close();
    return status;
}

/* ---- the judge ------------------------------------------------------------ */

static char folder[64];

/* The step of the last complete checkpoint, if it loads and is whole. */
static int64_t good_step(const char *path)
{
    int64_t step = -1;
    TN_SCOPE(scope) {
        tn_checkpoint all = made();
        if (tn_sharded_load(path, &all, tn_dist_world()) == TN_OK &&
            is_whole(&all) &&
            tn_sharded_verify(tn_sharded_open(path)) == TN_OK)
            step = all.step;
        else
            note("%s", tn_error() ? tn_error() : "it is not whole");
    }
    tn_error_clear();
    return step;
}

/* Kills rank `who` before or after each of its calls, in turn. */
static void test_crashes(int who)
{
    static ranks r;
    int most = -1, runs = 0, wrong = 0, old = 0;
    for (int at = -1; at < most || at < 0; at++)
        for (int before = at < 0; before < 2; before++) {
            char path[128], name[200];
            snprintf(path, sizeof path, "%s/crash-%d-%d-%d", folder, who, at,
                     before);
            snprintf(name, sizeof name, "crash:%d:%d:%d:%s", who, at, before,
                     path);
            ranks_start(&r, 2, name);
            ranks_wait(&r, 20, -1);
            if (at < 0)
                sscanf(r.output[who], "calls %d", &most);
            const int64_t step = good_step(path);
            const bool good = !r.late && (step == 1 || step == 2) &&
                              r.status[who] == (at < 0 ? 0 : 128 + SIGKILL);
            if (!good) {
                note("call %d, before %d: step %lld", at, before,
                     (long long)step);
                ranks_show(&r);
            }
            wrong += !good;
            old += step == 1;
            runs++;
            /* A later run saves beside what is left, and removes it. */
            TN_SCOPE(scope) {
                tn_checkpoint all = made();
                set(&all, 2);
                tn_sharded_save(path, &all, tn_dist_world(), .keep = 1);
                wrong += good_step(path) != 2;
            }
        }
    ok(most > 0 && wrong == 0 && old > 0 && old < runs,
       "rank %d is killed before and after each of its %d calls: the last "
       "complete checkpoint loads (%d of %d times the one before)", who, most,
       old, runs);
}

static void test_random(void)
{
    static ranks r;
    enum { TIMES = 20 };
    char path[128], name[200];
    uint64_t seed = (uint64_t)getpid();
    int wrong = 0;
    int64_t last = 0;
    snprintf(path, sizeof path, "%s/random", folder);
    snprintf(name, sizeof name, "loop:0:0:0:%s", path);
    note("seed %llu", (unsigned long long)seed);
    for (int i = 0; i < TIMES; i++) {
        ranks_start(&r, 2, name);
        struct pollfd started = {r.pipe[0], POLLIN, 0};
        poll(&started, 1, 20000);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        usleep((useconds_t)(seed >> 33) % 30000);
        for (int k = 0; k < 2; k++)
            kill(r.process[k], SIGKILL);
        ranks_wait(&r, 20, -1);
        const int64_t step = access(path, F_OK) ? 0 : good_step(path);
        const bool good = !r.late && step >= last && r.used[0] > 0;
        if (!good) {
            note("time %d: step %lld after %lld", i, (long long)step,
                 (long long)last);
            ranks_show(&r);
        }
        wrong += !good;
        last = step;
    }
    ok(wrong == 0 && last > TIMES, "killed at %d random moments, it saved %lld "
       "steps", TIMES, (long long)last);
}

/* On a disk of its own, which the system lets root have in a namespace. */
static void test_disk(void)
{
    char path[128], name[200];
    snprintf(path, sizeof path, "%s/disk", folder);
    mkdir(path, 0777);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        static ranks r;
        if (unshare(CLONE_NEWNS) < 0 ||
            mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("none", path, "tmpfs", 0, "size=96k") < 0)
            _exit(77);
        snprintf(name, sizeof name, "full:0:0:0:%s", path);
        ranks_start(&r, 2, name);
        ranks_wait(&r, 20, -1);
        const bool good = !r.late && r.status[0] == 0 && r.status[1] == 0;
        if (!good)
            ranks_show(&r);
        fflush(stdout);
        _exit(good ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(1, "a disk of its own needs the rights of root");
    else
        ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
           "a full disk is an error of all ranks, and the job goes on");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return run_rank(argv[1]);
    plan_later();
    snprintf(folder, sizeof folder, "%s/faults-%ld.tmp",
             access("/dev/shm", W_OK) ? "." : "/dev/shm", (long)getpid());
    if (mkdir(folder, 0777) < 0 || tn_dist_init() < 0)
        bail_out("cannot begin in %s", folder);
    char name[200];
    snprintf(name, sizeof name, "full:1:0:0:%s/full", folder);
    ranks_pass(2, name, "a file that must not be larger is an error of all "
                        "ranks, and the job goes on");
    test_disk();
    test_crashes(0);
    test_crashes(1);
    test_random();
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ok(system(command) == 0 && !tn_error(), "the folder is removed");
    return done_testing();
}
