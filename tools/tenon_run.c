/* tenon_run.c: the command `tenon run`: starts the processes of a job on this
 * machine, passes on what they print, and ends all when one of them fails.
 *
 * Each process leads a process group of its own, so that what it started ends
 * with it, and is killed by the kernel if this program is. When one fails, the
 * others have a few seconds to report which rank is missing, before they are
 * ended.
 *
 * On other hosts mpirun or srun starts the processes (tenon_run_hosts.c): it is
 * then the only child here, and starts this program again for each rank, as
 * `tenon run --one PROGRAM`, which does all of the above for that rank. */
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

/* A line that is longer than LONGEST bytes is printed as several. */
enum { MOST = 256, LINE = 4096, LONGEST = 1 << 24 };

/* One of the two outputs of a rank: what has come of an unfinished line. */
typedef struct stream {
    int pipe; /* -1: at its end */
    size_t used, room;
    char *line; /* owned */
} stream;

typedef struct rank {
    pid_t process; /* 0: ended */
    stream out[2]; /* stdout and stderr */
} rank;

enum { LOCAL, HOSTS, ONE };

typedef struct job {
    int mode;           /* LOCAL ... */
    int ranks;          /* of the job */
    int count, running; /* processes that are started here */
    int first;          /* the rank of the first of them, for prefixes */
    int threads;        /* of each process; 0: what the variables say */
    int restart;        /* 0: the first run */
    bool prefix;
    double grace;       /* seconds that the others have after a failure */
    char name[40], token[65];
    char **program;
    int status;         /* of the first that failed; 0 */
    int lost;           /* ranks that were ended by a signal, before we did */
    bool interrupted;   /* by a signal to this program */
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
    if (j->mode == LOCAL) {
        forget_launchers();
        set_number("TENON_RANK", i);
        set_number("TENON_SIZE", j->ranks);
        set_number("TENON_LOCAL_SIZE", j->ranks);
        setenv("TENON_JOB", j->name, 1);
    }
    if (j->mode != ONE) {
        setenv("TENON_TOKEN", j->token, 1);
        set_number("TENON_RESTART", j->restart);
    }
    /* The processes share the processors. */
    if (j->threads && !getenv("TENON_NUM_THREADS"))
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
    if (j->prefix && j->mode != HOSTS)
        fprintf(file, "[%d] ", j->first + i);
    fwrite(line, 1, length, file);
    if (!length || line[length - 1] != '\n')
        fputc('\n', file);
    fflush(file);
}

/* Makes room for more of a line. Without it what has come is printed. */
static bool make_room(job *j, int i, int which)
{
    stream *s = &j->rank[i].out[which];
    if (s->used < s->room)
        return true;
    const size_t room = s->room ? 2 * s->room : LINE;
    char *line = room <= LONGEST ? realloc(s->line, room) : NULL;
    if (line) {
        s->line = line;
        s->room = room;
    } else if (s->used) {
        print_line(j, i, which, s->line, s->used);
        s->used = 0;
    }
    return s->used < s->room;
}

static void end_stream(job *j, int i, int which)
{
    stream *s = &j->rank[i].out[which];
    close(s->pipe);
    if (s->used)
        print_line(j, i, which, s->line, s->used);
    free(s->line);
    *s = (stream){.pipe = -1};
}

/* Reads what there is, and prints the lines that are complete. */
static void pass_on(job *j, int i, int which)
{
    stream *s = &j->rank[i].out[which];
    if (!make_room(j, i, which))
        return;
    ssize_t got = read(s->pipe, s->line + s->used, s->room - s->used);
    if (got < 0 && errno == EINTR)
        return;
    if (got <= 0) {
        end_stream(j, i, which);
        return;
    }
    s->used += (size_t)got;
    char *begin = s->line, *end;
    while ((end = memchr(begin, '\n', s->used))) {
        print_line(j, i, which, begin, (size_t)(end + 1 - begin));
        s->used -= (size_t)(end + 1 - begin);
        begin = end + 1;
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
    const bool ours = j->interrupted ||
                      (j->terminate_at > 0 && now() > j->terminate_at);
    j->lost += WIFSIGNALED(status) && !ours;
    if (code && !j->status) {
        j->status = code;
        char what[32] = "mpirun or srun";
        if (j->mode != HOSTS)
            snprintf(what, sizeof what, "rank %d", j->first + i);
        if (WIFSIGNALED(status))
            fprintf(stderr, "tenon run: %s (process %ld) was ended by signal "
                    "%d (%s)\n", what, (long)r->process, WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
        else
            fprintf(stderr, "tenon run: %s (process %ld) failed with status "
                    "%d\n", what, (long)r->process, code);
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
        j->interrupted = true;
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

/* Writes random bytes as digits. */
static bool set_random(char *out, size_t bytes)
{
    unsigned char random[32];
    if (getrandom(random, bytes, 0) != (ssize_t)bytes)
        return false;
    for (size_t i = 0; i < bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", random[i]);
    return true;
}

/* A rank of another launcher has failed: that one ends the others at once when it
 * sees this process fail, so it is shown a little later. */
static void give_grace(job *j, int signals)
{
    const double end = now() + j->grace;
    while (j->mode == ONE && j->status && !j->interrupted && now() < end) {
        struct pollfd wait = {signals, POLLIN, 0};
        poll(&wait, 1, 100);
        read_signals(j, signals);
    }
}

static int run_job(job *j)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGQUIT);
    sigprocmask(SIG_BLOCK, &mask, &j->before);
    int signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    j->rank = calloc((size_t)j->count, sizeof *j->rank);
    memcpy(j->name, "run-", 5);
    j->status = j->running = j->lost = 0;
    j->terminate_at = j->kill_at = 0;
    if (signals < 0 || !j->rank || !set_random(j->name + 4, 8) ||
        !set_random(j->token, 32)) {
        fprintf(stderr, "tenon run: %s\n", strerror(errno));
        free(j->rank);
        return 1;
    }
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
    give_grace(j, signals);
    remove_memory(j);
    close(signals);
    sigprocmask(SIG_SETMASK, &j->before, NULL);
    free(j->rank);
    return j->status;
}

/* ---- restarts ------------------------------------------------------------- */

/* The largest of the allowed numbers ("4,2,1"; NULL: any) that is at most n; 0 if
 * there is none, -1 if the text is wrong. */
static int allowed(const char *sizes, int n)
{
    int best = sizes ? 0 : n;
    for (char *end; sizes; sizes = *end ? end + 1 : NULL) {
        const long size = strtol(sizes, &end, 10);
        if (end == sizes || (*end && *end != ',') || size < 1 || size > 65536)
            return -1;
        best = size <= n && size > best ? (int)size : best;
    }
    return best;
}

static void set_threads(job *j)
{
    j->threads = tn_num_threads() / j->ranks;
    j->threads = j->threads > 1 ? j->threads : 1;
}

/* Runs the job, again and again with what is left of it. */
static int run_with_restarts(job *j, tenon_run_hosts *hosts, int restarts,
                             const char *sizes)
{
    for (;;) {
        if (j->mode == HOSTS) {
            j->program = tenon_run_hosts_command(hosts, j->ranks, j->prefix,
                                                 j->grace);
            if (!j->program)
                return 1;
        } else {
            j->count = j->ranks;
            set_threads(j);
        }
        const int status = run_job(j);
        if (!status || j->interrupted || j->restart == restarts)
            return status;
        int left = j->ranks - j->lost;
        if (j->mode == HOSTS)
            left = tenon_run_hosts_left(hosts);
        const int next = allowed(sizes, left < j->ranks ? left : j->ranks);
        if (next < 1) {
            fprintf(stderr, "tenon run: %d ranks are left, too few to go on\n",
                    left);
            return status;
        }
        j->ranks = next;
        j->restart++;
        fprintf(stderr, "tenon run: restart %d of %d with %d ranks\n", j->restart,
                restarts, next);
    }
}

static bool read_count(const char *text, double most, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && *out >= 0 && *out <= most;
}

/* `tenon run --one`: a rank that mpirun or srun has started. */
static int run_one(job *j)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                        "PMI_RANK", "SLURM_PROCID"};
    const char *number = NULL;
    for (size_t i = 0; !number && i < sizeof names / sizeof *names; i++)
        number = getenv(names[i]);
    if (!number) {
        fprintf(stderr, "tenon run: --one is for processes that mpirun or srun "
                "starts\n");
        return 1;
    }
    j->first = atoi(number);
    j->count = 1;
    return run_job(j);
}

/* Says what is wrong with the options, before the usage. */
static int refuse(const char *what, const char *value, const char *why)
{
    fprintf(stderr, "tenon run: %s%s%s: %s\n", what, value ? " " : "",
            value ? value : "", why);
    return -1;
}

int tenon_run(int count, char **argument)
{
    job j = {.prefix = true, .grace = 3};
    tenon_run_hosts hosts = {.count = 0};
    const char *list = NULL, *sizes = NULL;
    int i = 0, restarts = 0;
    double number;
    for (; i < count && argument[i][0] == '-'; i++) {
        const char *name = argument[i], *value = i + 1 < count ? argument[i + 1]
                                                               : NULL;
        if (strcmp(name, "--") == 0) {
            i++;
            break;
        }
        if (strcmp(name, "--no-prefix") == 0)
            j.prefix = false;
        else if (strcmp(name, "--one") == 0)
            j.mode = ONE;
        else if (strcmp(name, "-n") == 0 && value &&
                 read_count(value, 65536, &number) && number >= 1 &&
                 number == (int)number)
            j.ranks = (int)number, i++;
        else if (strcmp(name, "--grace") == 0 && value &&
                 read_count(value, 1e6, &number))
            j.grace = number, i++;
        else if (strcmp(name, "--restarts") == 0 && value &&
                 read_count(value, 1e6, &number) && number == (int)number)
            restarts = (int)number, i++;
        else if (strcmp(name, "--sizes") == 0 && value && allowed(value, 1) >= 0)
            sizes = value, i++;
        else if (strcmp(name, "--hosts") == 0 && value)
            list = value, j.mode = HOSTS, i++;
        else
            return refuse(name, value, "no such option, or not with this value");
    }
    if (i >= count)
        return refuse("PROGRAM", NULL, "it is missing");
    if (j.mode == ONE && (j.ranks || list))
        return refuse("--one", NULL, "not with -n or --hosts");
    if (sizes && !restarts)
        return refuse("--sizes", sizes, "it needs --restarts");
    j.program = argument + i;
    if (j.mode == ONE)
        return run_one(&j);
    if (list && !tenon_run_hosts_read(&hosts, list, argument + i))
        return refuse("--hosts", list, "expected names, as in a,b:4");
    if (list && !j.ranks)
        j.ranks = tenon_run_hosts_slots(&hosts);
    if (!j.ranks)
        return refuse("-n", NULL, "it is missing");
    if (!list && j.ranks > MOST)
        return refuse("-n", NULL, "at most 256 processes on this machine");
    j.count = 1;
    int status = run_with_restarts(&j, &hosts, restarts, sizes);
    tenon_run_hosts_fini(&hosts);
    return status;
}
