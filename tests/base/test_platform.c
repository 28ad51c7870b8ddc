/* test_platform.c: the number of processors that a process may use: its
 * affinity mask, and the CPU quotas of its cgroup and the enclosing ones. A
 * child process runs in its own mount namespace, where /sys/fs/cgroup and
 * /proc/self/cgroup are files that the test writes. SKIP if namespaces are not
 * available. */
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "base/platform.h"
#include "tap.h"

#if defined(__linux__)
#include <sys/mount.h>

enum { NOT_HERE = 200 };

/* Runs the function `ask` in a child process and returns the exit status. */
static int in_child(int (*ask)(const void *), const void *argument)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(ask(argument));
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- affinity ------------------------------------------------------------ */

/* Restricts the process to the first `count` processors of its affinity mask.
 * Returns false if there are fewer. */
static bool pin(int count)
{
    cpu_set_t all, some;
    CPU_ZERO(&some);
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return false;
    for (int i = 0; i < CPU_SETSIZE && count > 0; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &some);
            count--;
        }
    return count == 0 && sched_setaffinity(0, sizeof some, &some) == 0;
}

static int count_pinned(const void *count)
{
    return pin(*(const int *)count) ? tn__processor_count() : NOT_HERE;
}

static int threads_pinned(const void *count)
{
    return pin(*(const int *)count) ? tn_num_threads() : NOT_HERE;
}

static void test_affinity(void)
{
    for (int count = 1; count <= 2; count++) {
        int found = in_child(count_pinned, &count);
        if (found == NOT_HERE) {
            skip(2, "affinity to so many processors is not available");
            continue;
        }
        is_int(found, count, "a process that is pinned to %d may use as many",
               count);
        is_int(in_child(threads_pinned, &count), count,
               "and has as many threads");
    }
}

/* ---- quotas -------------------------------------------------------------- */

typedef struct quota {
    const char *what;
    const char *groups;                 /* contents of /proc/self/cgroup */
    struct {
        const char *path, *text;        /* files below /sys/fs/cgroup, and their
                                         * contents */
    } file[4];
    int count; /* expected count; 0 if the affinity mask decides */
} quota;

static const quota quotas[] = {
    {"a group's quota",
     "0::/inner\n",
     {{"inner/cpu.max", "100000 100000\n"}},
     1},
    {"half a processor is one",
     "0::/inner\n",
     {{"inner/cpu.max", "50000 100000\n"}},
     1},
    {"one and a half are two",
     "0::/inner\n",
     {{"inner/cpu.max", "150000 100000\n"}},
     2},
    {"the quota of a group around it",
     "0::/outer/inner\n",
     {{"outer/inner/cpu.max", "max 100000\n"},
      {"outer/cpu.max", "100000 100000\n"}},
     1},
    {"the root's, where a container has no path to its group",
     "0::/docker/abc\n",
     {{"cpu.max", "100000 100000\n"}},
     1},
    {"no quota",
     "0::/inner\n",
     {{"inner/cpu.max", "max 100000\n"}},
     0},
    {"the quota of a group of version 1",
     "5:memory:/other\n4:cpu,cpuacct:/inner\n",
     {{"cpu/inner/cpu.cfs_quota_us", "100000\n"},
      {"cpu/inner/cpu.cfs_period_us", "100000\n"}},
     1},
    {"no quota of version 1",
     "4:cpu,cpuacct:/inner\n",
     {{"cpu/inner/cpu.cfs_quota_us", "-1\n"},
      {"cpu/inner/cpu.cfs_period_us", "100000\n"}},
     0},
    {"the quota of version 2 beside a controller of version 1",
     "5:memory:/inner\n0::/inner\n",
     {{"inner/cpu.max", "100000 100000\n"}},
     1},
};

static char root[64]; /* temporary folder of this test */

/* Writes a file and creates the folders on its path. */
static bool put(const char *path, const char *text)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/'));
         slash++) {
        *slash = 0;
        mkdir(full, 0755);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    return file && fputs(text, file) >= 0 && fclose(file) == 0;
}

static bool pretend(void)
{
    char groups[96], mounted[96];
    snprintf(groups, sizeof groups, "%s/groups", root);
    snprintf(mounted, sizeof mounted, "%s/mounted", root);
    return (unshare(CLONE_NEWNS) == 0 ||
            unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
           mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount(mounted, "/sys/fs/cgroup", NULL, MS_BIND, NULL) == 0 &&
           mount(groups, "/proc/self/cgroup", NULL, MS_BIND, NULL) == 0;
}

static int count_limited(const void *unused)
{
    (void)unused;
    return pretend() ? tn__processor_count() : NOT_HERE;
}

static void test_quota(const quota *of, int processors)
{
    char command[128];
    snprintf(root, sizeof root, "/tmp/tenon-test-XXXXXX");
    if (!mkdtemp(root) || !put("groups", of->groups) ||
        !put("mounted/none", "")) {
        skip(1, "no folder can be made");
        return;
    }
    for (int i = 0; i < 4 && of->file[i].path; i++) {
        char path[96];
        snprintf(path, sizeof path, "mounted/%s", of->file[i].path);
        put(path, of->file[i].text);
    }
    int found = in_child(count_limited, NULL);
    int wanted = of->count ? of->count : processors;
    if (found == NOT_HERE)
        skip(1, "no mount namespace is available");
    else if (processors < 2)
        skip(1, "one processor is all there is");
    else
        is_int(found, wanted, "obeyed: %s", of->what);
    snprintf(command, sizeof command, "rm -r '%s'", root);
    if (system(command) != 0)
        note("%s is left", root);
}

static int count_affinity(void)
{
    cpu_set_t all;
    return sched_getaffinity(0, sizeof all, &all) == 0 ? CPU_COUNT(&all) : 0;
}
#endif

int main(void)
{
    unsetenv("TENON_NUM_THREADS");
    plan_later();
    ok(tn__processor_count() >= 1, "there is a processor");
#if defined(__linux__)
    test_affinity();
    for (size_t i = 0; i < sizeof quotas / sizeof *quotas; i++)
        test_quota(&quotas[i], count_affinity());
#else
    skip(1, "affinity and quotas are Linux's");
#endif
    return done_testing();
}
