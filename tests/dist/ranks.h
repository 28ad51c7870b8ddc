/* ranks.h: runs a case of a test program as several processes of one job. Each
 * test program starts itself again, as `PROGRAM CASE` with TENON_RANK and so on
 * set, and has a deadline: processes that still run then are killed, and the
 * check fails.
 *
 * With TENON_TEST_MPIRUN, the name of an mpirun, that starts the processes. It
 * ends all ranks if one fails, and mixes what they print. So it starts relays, as
 * `PROGRAM --relay FOLDER CASE`: each starts a rank whose output goes to a pipe of
 * the folder, stores its end there, and stays until all ranks have ended. */
#ifndef TN_TESTS_DIST_RANKS_H
#define TN_TESTS_DIST_RANKS_H

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MOST = 8, RANKS_OUTPUT = 8192 };

typedef struct ranks {
    int count;
    pid_t process[RANKS_MOST];
    int pipe[RANKS_MOST];
    bool ended[RANKS_MOST];
    int status[RANKS_MOST];           /* exit status, or 128 + signal */
    char output[RANKS_MOST][RANKS_OUTPUT];
    size_t used[RANKS_MOST];
    double end[RANKS_MOST];           /* seconds from the start to its end */
    double begin;
    bool late;
    pid_t launcher;                   /* mpirun, or 0 */
    char folder[64];                  /* of the relays */
} ranks;

static inline double ranks_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- below mpirun --------------------------------------------------------- */

static inline void ranks_path(char *path, const char *folder, const char *what,
                              int rank)
{
    snprintf(path, 128, "%s/%s.%d", folder, what, rank);
}

/* Stores a number in a file that appears with it. */
static inline void ranks_store(const char *folder, const char *what, int rank,
                               int number)
{
    char path[128], draft[160];
    ranks_path(path, folder, what, rank);
    snprintf(draft, sizeof draft, "%s.draft", path);
    FILE *file = fopen(draft, "w");
    if (file) {
        fprintf(file, "%d\n", number);
        fclose(file);
        rename(draft, path);
    }
}

/* Waits for such a file until a deadline. */
static inline int ranks_load(const char *folder, const char *what, int rank,
                             double deadline)
{
    char path[128];
    int number = -1;
    ranks_path(path, folder, what, rank);
    for (;;) {
        FILE *file = fopen(path, "r");
        if (file) {
            if (fscanf(file, "%d", &number) != 1)
                number = -1;
            fclose(file);
            return number;
        }
        if (ranks_now() > deadline)
            return -1;
        usleep(1000);
    }
}

/* PROGRAM --relay FOLDER CASE */
static inline int ranks_relay(const char *folder, const char *name)
{
    const bool open_mpi = getenv("OMPI_COMM_WORLD_RANK");
    const char *rank = getenv(open_mpi ? "OMPI_COMM_WORLD_RANK" : "PMI_RANK"),
               *size = getenv(open_mpi ? "OMPI_COMM_WORLD_SIZE" : "PMI_SIZE");
    if (!rank || !size)
        return 9;
    const int number = atoi(rank);
    char path[128];
    setenv("TENON_RANK", rank, 1);
    setenv("TENON_SIZE", size, 1);
    ranks_path(path, folder, "output", number);
    int out = open(path, O_WRONLY | O_CLOEXEC);
    pid_t child = fork();
    if (child == 0) {
        dup2(out, 1);
        dup2(out, 2);
        execl("/proc/self/exe", "rank", name, (char *)NULL);
        _exit(127);
    }
    close(out);
    int status = 0;
    ranks_store(folder, "process", number, (int)child);
    waitpid(child, &status, 0);
    ranks_store(folder, "status", number,
                WIFEXITED(status) ? WEXITSTATUS(status)
                                  : 128 + WTERMSIG(status));
    ranks_load(folder, "over", 0, ranks_now() + 60);
    _exit(0);
}

static inline void ranks_launch(ranks *r, const char *mpirun, const char *name)
{
    char path[128], size[16], self[4096] = "";
    snprintf(r->folder, sizeof r->folder, "/tmp/tenon-ranks-XXXXXX");
    if (!mkdtemp(r->folder) || readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        bail_out("%s: %s", r->folder, strerror(errno));
    for (int i = 0; i < r->count; i++) {
        ranks_path(path, r->folder, "output", i);
        if (mkfifo(path, 0600) ||
            (r->pipe[i] = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) < 0)
            bail_out("%s: %s", path, strerror(errno));
    }
    snprintf(size, sizeof size, "%d", r->count);
    ranks_path(path, r->folder, "mpirun", 0);
    fflush(stdout);
    r->launcher = fork();
    if (r->launcher == 0) {
        int out = open(path, O_WRONLY | O_CREAT, 0600);
        dup2(open("/dev/null", O_RDONLY), 0);
        dup2(out, 1);
        dup2(out, 2);
        /* For Open MPI: it may be root's, and more ranks than processors. */
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
        setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
        setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
        execlp(mpirun, mpirun, "-n", size, self, "--relay", r->folder, name,
               (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < r->count; i++)
        r->process[i] = ranks_load(r->folder, "process", i, r->begin + 15);
}

/* All ranks have ended: so do the relays, and mpirun. */
static inline void ranks_land(ranks *r)
{
    char path[128];
    ranks_store(r->folder, "over", 0, 1);
    for (int i = 0; i < 1000 && waitpid(r->launcher, NULL, WNOHANG) == 0; i++) {
        if (i == 900)
            kill(r->launcher, SIGKILL);
        usleep(10000);
    }
    r->launcher = 0;
    static const char *const what[] = {"output", "process", "status"};
    for (int i = 0; i < r->count; i++)
        for (int k = 0; k < 3; k++) {
            ranks_path(path, r->folder, what[k], i);
            unlink(path);
        }
    ranks_path(path, r->folder, "over", 0);
    unlink(path);
    ranks_path(path, r->folder, "mpirun", 0);
    unlink(path);
    rmdir(r->folder);
}

/* ---- starting ------------------------------------------------------------- */

static inline void ranks_start(ranks *r, int count, const char *name)
{
    static int jobs;
    memset(r, 0, sizeof *r);
    r->count = count;
    r->begin = ranks_now();
    char job[64];
    snprintf(job, sizeof job, "test-%ld-%d", (long)getpid(), jobs++);
    const char *mpirun = getenv("TENON_TEST_MPIRUN");
    if (mpirun && count > 1) {
        setenv("TENON_JOB", job, 1);
        setenv("TENON_NUM_THREADS", "1", 1);
        ranks_launch(r, mpirun, name);
        return;
    }
    for (int i = 0; i < count; i++) {
        int ends[2];
        if (pipe(ends))
            bail_out("pipe: %s", strerror(errno));
        fcntl(ends[0], F_SETFD, FD_CLOEXEC);
        r->pipe[i] = ends[0];
        fflush(stdout);
        r->process[i] = fork();
        if (r->process[i] < 0)
            bail_out("fork: %s", strerror(errno));
        if (r->process[i] == 0) {
            char number[16];
            snprintf(number, sizeof number, "%d", i);
            setenv("TENON_RANK", number, 1);
            snprintf(number, sizeof number, "%d", count);
            setenv("TENON_SIZE", number, 1);
            setenv("TENON_JOB", job, 1);
            setenv("TENON_NUM_THREADS", "1", 1);
            dup2(ends[1], 1);
            dup2(ends[1], 2);
            close(ends[1]);
            execl("/proc/self/exe", "rank", name, (char *)NULL);
            _exit(127);
        }
        close(ends[1]);
    }
}

static inline void ranks_read(ranks *r, int i)
{
    size_t room = RANKS_OUTPUT - 1 - r->used[i];
    char lost[512];
    ssize_t got = room ? read(r->pipe[i], r->output[i] + r->used[i], room)
                       : read(r->pipe[i], lost, sizeof lost);
    if (got > 0) {
        if (room)
            r->used[i] += (size_t)got;
        return;
    }
    if (got < 0 && errno == EAGAIN)
        return;
    close(r->pipe[i]);
    r->pipe[i] = -1;
    int status = 0;
    if (r->launcher) {
        r->status[i] = ranks_load(r->folder, "status", i, ranks_now() + 2);
    } else {
        waitpid(r->process[i], &status, 0);
        r->status[i] = WIFEXITED(status) ? WEXITSTATUS(status)
                                         : 128 + WTERMSIG(status);
    }
    r->ended[i] = true;
    r->end[i] = ranks_now() - r->begin;
}

static inline void ranks_kill(ranks *r, int i)
{
    if (r->process[i] > 0)
        kill(r->process[i], SIGKILL);
    else if (r->launcher)
        kill(r->launcher, SIGTERM);
}

/* Waits until all but `skip` (-1: none) have ended, at most `seconds`. */
static inline void ranks_wait(ranks *r, double seconds, int skip)
{
    for (;;) {
        struct pollfd poll_of[RANKS_MOST];
        int which[RANKS_MOST], n = 0;
        for (int i = 0; i < r->count; i++)
            if (!r->ended[i] && i != skip) {
                which[n] = i;
                poll_of[n++] = (struct pollfd){r->pipe[i], POLLIN, 0};
            }
        if (!n) {
            if (r->launcher && skip < 0)
                ranks_land(r);
            return;
        }
        double left = r->begin + seconds - ranks_now();
        if (left <= 0 && !r->late) {
            r->late = true;
            for (int i = 0; i < n; i++)
                ranks_kill(r, which[i]);
            left = 5;
        }
        if (left < -10 && r->late && r->launcher) { /* it never began */
            for (int i = 0; i < n; i++)
                r->ended[which[i]] = true;
            continue;
        }
        poll(poll_of, (nfds_t)n, left > 0 ? (int)(left * 1000) + 1 : 1);
        for (int i = 0; i < n; i++)
            if (poll_of[i].revents)
                ranks_read(r, which[i]);
    }
}

/* The case that a process of the test is to run, or NULL. A relay does not
 * return. */
static inline const char *ranks_case(int argc, char **argv)
{
    if (argc > 3 && !strcmp(argv[1], "--relay"))
        _exit(ranks_relay(argv[2], argv[3]));
    return argc > 1 ? argv[1] : NULL;
}

static inline void ranks_show(const ranks *r)
{
    for (int i = 0; i < r->count; i++) {
        note("rank %d: status %d after %.2f s", i, r->status[i], r->end[i]);
        char copy[RANKS_OUTPUT];
        memcpy(copy, r->output[i], sizeof copy);
        char *rest = NULL;
        for (char *line = strtok_r(copy, "\n", &rest); line;
             line = strtok_r(NULL, "\n", &rest))
            note("  %s", line);
    }
}

/* Runs a case, and passes if all ranks end with 0 in time. */
static inline bool ranks_pass(int count, const char *name, const char *what)
{
    static ranks r;
    ranks_start(&r, count, name);
    ranks_wait(&r, 60, -1);
    bool good = !r.late;
    for (int i = 0; i < count; i++)
        good = good && r.status[i] == 0;
    if (!ok(good, "%d ranks: %s", count, what))
        ranks_show(&r);
    return good;
}

#endif
