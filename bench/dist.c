/* dist.c: collectives and data parallel training of processes of this machine,
 * beside PyTorch with gloo:
 *
 *     bench/dist [--ranks 2,4] [--rounds 21] [--only reduce,step,start]
 *                [--sizes 65536,...] [--beside ENGINE] [--bucket BYTES]
 *                [--cpu] [--alone]
 *
 * Runs jobs of as many ranks as --ranks says. In each round all sides do the
 * same, one after the other, so that the load of the machine affects them alike;
 * a round's time is that of the slowest rank. Medians are printed, with the
 * quartiles. TENON_BENCH_PYTHON names a Python with torch; without one, or with
 * --alone, there are figures of Tenon alone. TENON_ENGINE selects the engine, and
 * --beside another one, which then stands in the place of gloo. --bucket is the
 * size of Tenon's. --cpu measures processor time instead, for a machine that
 * others use. */
#include "dist.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16, ROUNDS = 1000 };

typedef struct job {
    int count;
    pid_t process[MOST];
    FILE *to[MOST], *from[MOST];
    double ready_ns; /* from the start until all ranks have passed a barrier */
} job;

static int rounds = 21;
static const char *python, *beside, *sizes;

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* ---- jobs ----------------------------------------------------------------- */

static void set(const char *name, long value)
{
    char text[32];
    snprintf(text, sizeof text, "%ld", value);
    setenv(name, text, 1);
}

/* The ranks share the processors. */
static int threads(int count)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN) / count;
    return cores > 1 ? (int)cores : 1;
}

static void become_rank(int rank, int count, bool torch, int serial, int to,
                        int from)
{
    char name[64];
    snprintf(name, sizeof name, "bench-%ld-%d", (long)getppid(), serial);
    setenv("TENON_JOB", name, 1);
    set("TENON_NUM_THREADS", threads(count));
    set(torch && !beside ? "RANK" : "TENON_RANK", rank);
    set(torch && !beside ? "WORLD_SIZE" : "TENON_SIZE", count);
    if (torch && beside)
        setenv("TENON_ENGINE", beside, 1);
    if (torch) {
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        set("MASTER_PORT", 20000 + (getppid() * 7 + serial) % 10000);
    }
    dup2(to, 0);
    dup2(from, 1);
    if (torch && !beside)
        execlp(python, python, BENCH_FOLDER "/dist.py", (char *)NULL);
    else
        execl("/proc/self/exe", "dist", "--rank", (char *)NULL);
    _exit(127);
}

static void job_stop(job *j)
{
    for (int r = 0; r < j->count; r++)
        if (j->to[r])
            fprintf(j->to[r], "quit\n"), fclose(j->to[r]), j->to[r] = NULL;
    for (int r = 0; r < j->count; r++) {
        fclose(j->from[r]);
        waitpid(j->process[r], NULL, 0);
    }
    j->count = 0;
}

/* Returns false if the ranks did not start. */
static bool job_start(job *j, int count, bool torch)
{
    static int serial;
    *j = (job){.count = count};
    const double begin = now_ns();
    serial++;
    for (int r = 0; r < count; r++) {
        int to[2], from[2];
        if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
            return perror("bench/dist"), false;
        j->process[r] = fork();
        if (j->process[r] == 0)
            become_rank(r, count, torch, serial, to[0], from[1]);
        close(to[0]);
        close(from[1]);
        j->to[r] = fdopen(to[1], "w");
        j->from[r] = fdopen(from[0], "r");
        setvbuf(j->to[r], NULL, _IOLBF, 0);
    }
    bool ready = true;
    char line[64];
    for (int r = 0; r < count; r++)
        ready = fgets(line, sizeof line, j->from[r]) && ready;
    j->ready_ns = now_ns() - begin;
    if (!ready)
        job_stop(j);
    return ready;
}

/* Sends a command, and returns the time of the slowest rank; -1 if one ended. */
static double ask(job *j, const char *command)
{
    double most = 0, ns;
    for (int r = 0; r < j->count; r++)
        fprintf(j->to[r], "%s\n", command);
    for (int r = 0; r < j->count; r++) {
        if (fscanf(j->from[r], "%lf", &ns) != 1)
            return -1;
        most = ns > most ? ns : most;
    }
    return most;
}

/* ---- figures -------------------------------------------------------------- */

typedef struct figure {
    int count;
    double ns[ROUNDS];
} figure;

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value below which `share` of the rounds lie. */
static double quantile(const figure *f, double share)
{
    figure sorted = *f;
    if (!f->count)
        return 0;
    qsort(sorted.ns, (size_t)f->count, sizeof *sorted.ns, by_size);
    return sorted.ns[(int)(share * (f->count - 1) + 0.5)];
}

static void add(figure *f, double ns)
{
    if (ns > 0 && f->count < ROUNDS)
        f->ns[f->count++] = ns;
}

static void print_figure(const char *name, const figure *f)
{
    if (f->count)
        printf("  %s %10.1f us (%.1f to %.1f)", name, quantile(f, 0.5) / 1e3,
               quantile(f, 0.25) / 1e3, quantile(f, 0.75) / 1e3);
}

/* ---- all_reduce ----------------------------------------------------------- */

/* As many calls as take about 10 ms. */
static int calls_for(job *j, const char *word, long long bytes)
{
    char command[64];
    snprintf(command, sizeof command, "%s %lld 2", word, bytes);
    ask(j, command);
    double ns = ask(j, command);
    int calls = ns > 0 ? (int)(10e6 / ns) : 1;
    return calls < 1 ? 1 : calls > 2000 ? 2000 : calls;
}

static bool is_listed(const char *list, long long value)
{
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1
                                                         : NULL)
        if (atoll(at) == value)
            return true;
    return false;
}

static void run_reduce(job *tenon, job *torch)
{
    const struct {
        const char *word, *name;
    } side[3] = {{"shared", "shared"}, {"reduce", "ordinary"},
                 {"reduce", beside ? "beside" : "gloo"}};
    printf("all_reduce of float32, %d ranks\n", tenon->count);
    for (long long bytes = 64; bytes <= 64 << 20; bytes *= 4) {
        static figure f[3];
        if (sizes && !is_listed(sizes, bytes))
            continue;
        char command[3][64];
        memset(f, 0, sizeof f);
        for (int s = 0; s < 3; s++) {
            job *j = s < 2 ? tenon : torch;
            if (j->count)
                snprintf(command[s], sizeof command[s], "%s %lld %d",
                         side[s].word, bytes, calls_for(j, side[s].word, bytes));
        }
        for (int i = 0; i < rounds; i++)
            for (int s = 0; s < 3; s++)
                if (s < 2 || torch->count)
                    add(&f[s], ask(s < 2 ? tenon : torch, command[s]));
        printf("%10lld B", bytes);
        for (int s = 0; s < 3; s++)
            print_figure(side[s].name, &f[s]);
        for (int s = 0; s < 2; s++)
            if (f[2].count && f[s].count)
                printf("  %.3f", quantile(&f[s], 0.5) / quantile(&f[2], 0.5));
        printf("\n");
        fflush(stdout);
    }
}

/* ---- steps ---------------------------------------------------------------- */

static void run_step(job *tenon, job *torch, const char *name)
{
    static figure f[4], over[2];
    memset(f, 0, sizeof f);
    memset(over, 0, sizeof over);
    char command[4][64];
    for (int s = 0; s < 4; s++) {
        job *j = s < 2 ? tenon : torch;
        if (!j->count)
            continue;
        snprintf(command[s], sizeof command[s], "step %s %d 3", name, s % 2);
        ask(j, command[s]);
        double ns = ask(j, command[s]);
        int calls = ns > 0 ? (int)(60e6 / ns) + 1 : 1;
        snprintf(command[s], sizeof command[s], "step %s %d %d", name, s % 2,
                 calls);
    }
    /* The overhead is a difference of neighbours in time. */
    for (int i = 0; i < rounds; i++)
        for (int s = 0; s < 4; s += 2)
            if (s < 2 || torch->count) {
                job *j = s < 2 ? tenon : torch;
                const int swap = i % 2;
                double a = ask(j, command[s + swap]);
                double b = ask(j, command[s + !swap]);
                add(&f[s + swap], a);
                add(&f[s + !swap], b);
                over[s / 2].ns[over[s / 2].count++] = swap ? a - b : b - a;
            }
    printf("step of %s, %d ranks\n", name, tenon->count);
    for (int s = 0; s < 4; s += 2)
        if (f[s].count) {
            printf("  %s", !s ? "tenon" : beside ? "beside" : "torch");
            print_figure("alone", &f[s]);
            print_figure("averaged", &f[s + 1]);
            print_figure("overhead", &over[s / 2]);
            printf("  speed %.3f\n",
                   quantile(&f[s], 0.5) / quantile(&f[s + 1], 0.5));
        }
    if (f[2].count)
        printf("  overhead %.3f of %s\n",
               quantile(&over[0], 0.5) / quantile(&over[1], 0.5),
               beside ? beside : "torch's");
    fflush(stdout);
}

/* ---- starting ------------------------------------------------------------- */

static void run_start(int count)
{
    static figure f[2];
    memset(f, 0, sizeof f);
    for (int i = 0; i < (rounds < 11 ? rounds : 11); i++)
        for (int s = 0; s < 2; s++) {
            job j;
            if (s && ((!python && !beside) || i > 4))
                continue;
            if (!job_start(&j, count, s == 1))
                return;
            add(&f[s], j.ready_ns);
            job_stop(&j);
        }
    printf("start of %d ranks, until all have passed a barrier\n", count);
    print_figure("tenon", &f[0]);
    print_figure("torch", &f[1]);
    printf("\n");
    fflush(stdout);
}

/* ---- main ----------------------------------------------------------------- */

static void print_load(const char *when)
{
    double load[3] = {0};
    getloadavg(load, 3);
    printf("%s: load %.1f on %ld processors%s\n", when, load[0],
           sysconf(_SC_NPROCESSORS_ONLN),
           getenv("BENCH_CPU") ? "; processor time" : "");
}

static bool wants(const char *only, const char *what)
{
    return !only || strstr(only, what);
}

static int run(const char *ranks, const char *only)
{
    print_load("before");
    for (const char *at = ranks; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1
                                                                   : NULL) {
        const int count = atoi(at);
        job tenon, torch = {0};
        if (count < 2 || count > MOST)
            return fprintf(stderr, "bench/dist: --ranks %d: expected 2 to %d\n",
                           count, MOST), 2;
        if (wants(only, "start"))
            run_start(count);
        if (!wants(only, "reduce") && !wants(only, "step"))
            continue;
        if (!job_start(&tenon, count, false))
            return 1;
        if ((python || beside) && !job_start(&torch, count, true)) {
            printf("%s does not start: figures of Tenon alone\n",
                   beside ? beside : python);
            python = beside = NULL;
        }
        if (wants(only, "reduce"))
            run_reduce(&tenon, &torch);
        if (wants(only, "step")) {
            run_step(&tenon, &torch, "mlp");
            run_step(&tenon, &torch, "gpt");
        }
        job_stop(&tenon);
        if (torch.count)
            job_stop(&torch);
    }
    print_load("after");
    return 0;
}

int main(int argc, char **argv)
{
    const char *ranks = "2", *only = NULL;
    bool alone = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--rank"))
            return dist_rank();
        if (!strcmp(argv[i], "--cpu"))
            setenv("BENCH_CPU", "1", 1);
        else if (!strcmp(argv[i], "--alone"))
            alone = true;
        else if (!strcmp(argv[i], "--ranks") && i + 1 < argc)
            ranks = argv[++i];
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
            rounds = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--beside") && i + 1 < argc)
            beside = argv[++i];
        else if (!strcmp(argv[i], "--bucket") && i + 1 < argc)
            setenv("BENCH_BUCKET", argv[++i], 1);
        else if (!strcmp(argv[i], "--sizes") && i + 1 < argc)
            sizes = argv[++i];
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            only = argv[++i];
        else
            return fprintf(stderr, "usage: bench/dist [--ranks 2,4] [--rounds N] "
                           "[--only reduce,step,start] [--sizes 65536,...] "
                           "[--beside ENGINE] [--bucket BYTES] [--cpu] "
                           "[--alone]\n"), 2;
    }
    if (rounds < 1 || rounds > ROUNDS)
        return fprintf(stderr, "bench/dist: --rounds: expected 1 to %d\n",
                       ROUNDS), 2;
    signal(SIGPIPE, SIG_IGN);
    python = getenv("TENON_BENCH_PYTHON");
    python = alone ? NULL : python ? python : "python3";
    return run(ranks, only);
}
