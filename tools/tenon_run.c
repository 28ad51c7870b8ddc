/* tenon_run.c: the command `tenon run`: starts the processes of a job on this
 * machine, passes on what they print, and ends all when one of them fails.
 *
 * Each process leads a process group of its own, so that what it started ends
 * with it, and is killed by the kernel if this program is. When one fails, the
 * others have a few seconds to report which rank is missing, before they are
 * ended. */
#include "tenon_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <tenon/base.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 256, LINE = 4096 };

/* One of the two outputs of a rank: what has come of an unfinished line. */
typedef struct stream {
    int pipe; /* -1: at its end */
    size_t used;
    char line[LINE];
} stream;

typedef struct rank {
    pid_t process; /* 0: ended */
    stream out[2]; /* stdout and stderr */
} rank;

typedef struct job {
    int count, running;
    int threads;        /* of each process */
    bool prefix;
    double grace;       /* seconds that the others have after a failure */
    char name[40];
    char **program;
    int status;         /* of the first that failed; 0 */
    double terminate_at, kill_at; /* when the rest is ended; 0: not yet */
    sigset_t before;    /* the signal mask that the processes get */
    rank *rank;
} job;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- starting ------------------------------------------------------------- */

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* What another launcher, in which this one runs, has set for itself. */
static void forget_launchers(void)
{
    static const char *const names[] = {
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
        "SLURM_STEP_ID", "RANK", "WORLD_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

static void become_rank(const job *j, int i, int out, int err, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    sigprocmask(SIG_SETMASK, &j->before, NULL);
    forget_launchers();
    set_number("TENON_RANK", i);
    set_number("TENON_SIZE", j->count);
    set_number("TENON_LOCAL_SIZE", j->count);
    setenv("TENON_JOB", j->name, 1);
    /* The processes share the processors. */
    if (!getenv("TENON_NUM_THREADS"))
        set_number("TENON_NUM_THREADS", j->threads);
    if (i > 0 || isatty(0)) {
        int none = open("/dev/null", O_RDONLY);
        dup2(none, 0);
        close(none);
    }
    dup2(out, 1);
    dup2(err, 2);
    execvp(j->program[0], j->program);
    dprintf(2, "tenon run: %s: %s\n", j->program[0], strerror(errno));
    _exit(127);
}

static bool start(job *j, int i)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    rank *r = &j->rank[i];
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
        return false;
    const pid_t parent = getpid();
    r->process = fork();
    if (r->process == 0)
        become_rank(j, i, out[1], err[1], parent);
    close(out[1]);
    close(err[1]);
    if (r->process < 0)
        return false;
    setpgid(r->process, r->process); /* whoever comes first */
    r->out[0].pipe = out[0];
    r->out[1].pipe = err[0];
    j->running++;
    return true;
}

/* ---- output --------------------------------------------------------------- */

static void print_line(const job *j, int i, int which, const char *line,
                       size_t length)
{
    FILE *file = which ? stderr : stdout;
    if (j->prefix)
        fprintf(file, "[%d] ", i);
    fwrite(line, 1, length, file);
    if (!length || line[length - 1] != '\n')
        fputc('\n', file);
    fflush(file);
}

/* Reads what there is, and prints the lines that are complete. */
static void pass_on(job *j, int i, int which)
{
    stream *s = &j->rank[i].out[which];
    ssize_t got = read(s->pipe, s->line + s->used, LINE - s->used);
    if (got < 0 && errno == EINTR)
        return;
    if (got <= 0) {
        close(s->pipe);
        s->pipe = -1;
        if (s->used)
            print_line(j, i, which, s->line, s->used);
        s->used = 0;
        return;
    }
    s->used += (size_t)got;
    char *begin = s->line, *end;
    while ((end = memchr(begin, '\n', s->used))) {
        print_line(j, i, which, begin, (size_t)(end + 1 - begin));
        s->used -= (size_t)(end + 1 - begin);
        begin = end + 1;
    }
    if (s->used == LINE) {
        print_line(j, i, which, begin, s->used);
        s->used = 0;
    }
    memmove(s->line, begin, s->used);
}

/* ---- ending --------------------------------------------------------------- */

static void signal_all(const job *j, int number)
{
    for (int i = 0; i < j->count; i++)
        if (j->rank[i].process > 0)
            kill(-j->rank[i].process, number);
}

static void end_in(job *j, double seconds)
{
    if (j->terminate_at > 0)
        return;
    j->terminate_at = now() + seconds;
    j->kill_at = j->terminate_at + 2;
}

static void note_end(job *j, int i, int status)
{
    rank *r = &j->rank[i];
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code && !j->status) {
        j->status = code;
        if (WIFSIGNALED(status))
            fprintf(stderr, "tenon run: rank %d (process %ld) was ended by signal "
                    "%d (%s)\n", i, (long)r->process, WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
        else
            fprintf(stderr, "tenon run: rank %d (process %ld) failed with status "
                    "%d\n", i, (long)r->process, code);
        end_in(j, j->grace);
    }
    r->process = 0;
    j->running--;
}

/* Waits for the ranks that have ended. What they have started ends with them: it
 * is killed before the number of the group can be used again. */
static void reap(job *j)
{
    for (int i = 0; i < j->count; i++) {
        pid_t process = j->rank[i].process;
        siginfo_t info = {.si_pid = 0};
        if (process <= 0 ||
            waitid(P_PID, (id_t)process, &info, WEXITED | WNOHANG | WNOWAIT) ||
            info.si_pid != process)
            continue;
        kill(-process, SIGKILL);
        int status = 0;
        if (waitpid(process, &status, 0) == process)
            note_end(j, i, status);
    }
}

/* A job that was killed while it started may leave the names of its shared
 * memory behind. */
static void remove_memory(const job *j)
{
    char prefix[80], name[300];
    int length = snprintf(prefix, sizeof prefix, "tenon-%u-%s",
                          (unsigned)geteuid(), j->name);
    DIR *folder = opendir("/dev/shm");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (strncmp(entry->d_name, prefix, (size_t)length) == 0) {
            snprintf(name, sizeof name, "/%s", entry->d_name);
            shm_unlink(name);
        }
    if (folder)
        closedir(folder);
}

/* ---- the loop ------------------------------------------------------------- */

static bool is_open(const job *j)
{
    for (int i = 0; i < j->count; i++)
        if (j->rank[i].out[0].pipe >= 0 || j->rank[i].out[1].pipe >= 0)
            return true;
    return j->running > 0;
}

static int read_signals(job *j, int signals)
{
    struct signalfd_siginfo info;
    int number = 0;
    while (read(signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            continue;
        number = (int)info.ssi_signo;
        signal_all(j, number);
        if (!j->status)
            j->status = 128 + number;
        end_in(j, j->grace);
    }
    return number;
}

static void watch(job *j, int signals)
{
    while (is_open(j)) {
        struct pollfd poll_of[2 * MOST + 1] = {{signals, POLLIN, 0}};
        int which[2 * MOST + 1], n = 1;
        for (int k = 0; k < 2 * j->count; k++)
            if (j->rank[k / 2].out[k % 2].pipe >= 0) {
                which[n] = k;
                poll_of[n++] = (struct pollfd){j->rank[k / 2].out[k % 2].pipe,
                                               POLLIN, 0};
            }
        poll(poll_of, (nfds_t)n, j->terminate_at > 0 ? 50 : -1);
        for (int k = 1; k < n; k++)
            if (poll_of[k].revents)
                pass_on(j, which[k] / 2, which[k] % 2);
        read_signals(j, signals);
        reap(j);
        if (j->terminate_at > 0 && now() > j->kill_at)
            signal_all(j, SIGKILL);
        else if (j->terminate_at > 0 && now() > j->terminate_at)
            signal_all(j, SIGTERM);
    }
}

static int run_job(job *j)
{
    unsigned char bytes[8];
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGHUP);
    sigprocmask(SIG_BLOCK, &mask, &j->before);
    int signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    j->rank = calloc((size_t)j->count, sizeof *j->rank);
    if (signals < 0 || !j->rank ||
        getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        fprintf(stderr, "tenon run: %s\n", strerror(errno));
        free(j->rank);
        return 1;
    }
    int used = snprintf(j->name, sizeof j->name, "run-");
    for (size_t i = 0; i < sizeof bytes; i++)
        used += snprintf(j->name + used, sizeof j->name - (size_t)used, "%02x",
                         bytes[i]);
    for (int i = 0; i < j->count; i++)
        j->rank[i].out[0].pipe = j->rank[i].out[1].pipe = -1;
    for (int i = 0; i < j->count && !j->status; i++)
        if (!start(j, i)) {
            fprintf(stderr, "tenon run: rank %d cannot be started: %s\n", i,
                    strerror(errno));
            j->status = 1;
            end_in(j, 0);
        }
    watch(j, signals);
    remove_memory(j);
    close(signals);
    free(j->rank);
    return j->status;
}

static bool read_count(const char *text, double most, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && *out >= 0 && *out <= most;
}

int tenon_run(int count, char **argument)
{
    job j = {.prefix = true, .grace = 3};
    int i = 0;
    double number;
    for (; i < count && argument[i][0] == '-'; i++) {
        if (strcmp(argument[i], "--") == 0) {
            i++;
            break;
        }
        if (strcmp(argument[i], "--no-prefix") == 0)
            j.prefix = false;
        else if (strcmp(argument[i], "-n") == 0 && i + 1 < count &&
                 read_count(argument[i + 1], MOST, &number) && number >= 1 &&
                 number == (int)number)
            j.count = (int)number, i++;
        else if (strcmp(argument[i], "--grace") == 0 && i + 1 < count &&
                 read_count(argument[i + 1], 1e6, &number))
            j.grace = number, i++;
        else
            return -1;
    }
    if (!j.count || i >= count)
        return -1;
    j.program = argument + i;
    j.threads = tn_num_threads() / j.count;
    j.threads = j.threads > 1 ? j.threads : 1;
    return run_job(&j);
}
