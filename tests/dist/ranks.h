/* ranks.h: runs a case of a test program as several processes of one job. Each
 * test program starts itself again, as `PROGRAM CASE` with TENON_RANK and so on
 * set, and has a deadline: processes that still run then are killed, and the
 * check fails. */
#ifndef TN_TESTS_DIST_RANKS_H
#define TN_TESTS_DIST_RANKS_H

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
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
} ranks;

static inline double ranks_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline void ranks_start(ranks *r, int count, const char *name)
{
    static int jobs;
    memset(r, 0, sizeof *r);
    r->count = count;
    r->begin = ranks_now();
    char job[64];
    snprintf(job, sizeof job, "test-%ld-%d", (long)getpid(), jobs++);
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
    close(r->pipe[i]);
    r->pipe[i] = -1;
    int status = 0;
    waitpid(r->process[i], &status, 0);
    r->status[i] = WIFEXITED(status) ? WEXITSTATUS(status)
                                     : 128 + WTERMSIG(status);
    r->ended[i] = true;
    r->end[i] = ranks_now() - r->begin;
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
        if (!n)
            return;
        double left = r->begin + seconds - ranks_now();
        if (left <= 0 && !r->late) {
            r->late = true;
            for (int i = 0; i < n; i++)
                kill(r->process[which[i]], SIGKILL);
            left = 5;
        }
        poll(poll_of, (nfds_t)n, left > 0 ? (int)(left * 1000) + 1 : 1);
        for (int i = 0; i < n; i++)
            if (poll_of[i].revents)
                ranks_read(r, which[i]);
    }
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
