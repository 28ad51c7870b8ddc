/* compare.c: compares the times of Tenon and PyTorch with each other and with
 * the machine's limit.
 *
 *     bench/compare [--json FILE] [--only GROUP[.NAME]] [--except GROUP,...]
 *                   [--quick] [--rounds N] [--sorted] [--beside WAY,...]
 *                   [--size N,...] [--trace FOLDER]
 *     bench/compare --losses [--only GROUP[.NAME]] [--beside WAY,...]
 *                   [--size N,...]
 *
 * Each workload is measured in rounds. In each round Tenon, PyTorch and the
 * loops for the limit run one after the other, so that a disturbance of the
 * machine affects all of them and the ratios remain valid. A round has as many
 * calls as take some milliseconds. The table has the median over the rounds and
 * the distance of the quartiles. The limit is that of the fastest round: the
 * time for the reads and writes ("memory"), the multiply-adds ("fma") or the
 * instructions of any kind ("any"), whichever is longest.
 *
 * --size replaces the sizes of the workloads; it must list as many numbers as a
 * workload has. The group large (GPT-2) needs a GPU; without a GPU it runs only
 * if --only selects it. --losses measures no times. It prints the losses of the
 * first steps of the groups training and large in Tenon and in PyTorch, from
 * the same weights and batch. They must agree. --rounds measures this many
 * rounds of each workload, however long they take. --sorted prints a table at
 * the end, which is sorted by PyTorch's time over Tenon's in their fastest
 * rounds. Both options are for machines with other load. --trace writes a
 * timeline of some additional calls of each workload to
 * FOLDER/GROUP.NAME-SIZE.json, for `tenon trace --summary`.
 *
 * The environment variable TENON_BENCH_PYTHON is a Python with torch (default:
 * python3). It runs in a separate process for each way that --beside lists:
 *
 *     torch      eager, as installed
 *     tuned      eager, with a malloc that keeps freed memory, like the next two
 *     compiled   each call through torch.compile, which compiles for seconds
 *     libtorch   from C++ (libtorch.cpp, which is compiled first)
 *
 * The default is the first two. With TENON_DEVICE=cuda torch uses the GPU too,
 * and each sample ends with a synchronisation. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "report.h"

/* How long one round and all rounds of a workload should take, and the largest
 * and smallest number of rounds. A slow workload has fewer rounds, but at least
 * `least`. */
typedef struct bench_pace {
    int rounds, least;
    double round_ns, work_ns;
} bench_pace;
static const bench_pace calm = {31, 7, 25e6, 8e9};
static const bench_pace quick = {5, 3, 1e6, 2e8};

enum { TRACED = 4 /* number of calls to trace */ };

static void trace(const char *folder, const char *group,
                  const bench_work *work, bench_state *state)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%s-%lld.json", folder, group,
             work->name, (long long)work->size[0]);
    tn_trace_start(path);
    bench_sample(work, state, TRACED);
    tn_trace_stop();
}

/* Returns whether the device is the CPU. Limits are measured by loops in C, so
 * they are known only for the CPU. */
static bool on_cpu(void)
{
    return strncmp(tn_device_name(tn_device_current()), "cpu", 3) == 0;
}

/* Returns the state that measures the machine's limit for a call, or NULL if
 * the limit is not known. */
static bench_limit *open_limit(const bench_work *work, bench_state *state)
{
    bench_least least = work->least;
    if (!on_cpu() || least.reads + least.writes + least.flops == 0)
        return NULL;
    bench_count(work, state, &least);
    return bench_limit_open(&least, tn_num_threads());
}

static void keep_least(double *least, double ns)
{
    if (*least < 0 || ns < *least)
        *least = ns;
}

static bool measure(bench_report *report, const char *of,
                    const bench_work *work, const bench_pace *pace,
                    bench_peer *const peer[BENCH_WHO], const char *traces)
{
    /* the limit is that of the fastest round, because other load slows rounds
     * down */
    bench_line line = {.group = of, .work = work, .bound = {-1, -1, -1}};
    bench_state state = {.name = work->name, .size = work->size};
    bool has_peer[BENCH_WHO] = {0};
    bench_limit *limit = NULL;
    tn_scope *scope = tn_scope_open();
    work->open(&state);
    for (int i = BENCH_TORCH; i < BENCH_WHO; i++)
        has_peer[i] = peer[i] && bench_peer_open(peer[i], of, work);
    if (!tn_error())
        line.calls = bench_calls(work, &state, pace->round_ns);
    if (!tn_error())
        limit = open_limit(work, &state);

    /* Warms up, because the caches still contain the data of the previous
     * workload. A long call needs no warm-up. */
    double begin = bench_now_ns(), ours = 0;
    int64_t warm = line.calls / 4 + 1;
    for (int r = 0; r < pace->rounds && !tn_error(); r++) {
        if (r >= pace->least && bench_now_ns() - begin > pace->work_ns)
            break;
        bench_rest();
        if (ours < BENCH_LONG_NS)
            bench_sample(work, &state, warm);
        ours = bench_sample(work, &state, line.calls);
        bench_add(&line.figure[BENCH_TENON], ours);
        if (limit) {
            bench_rest();
            bench_bound bound = bench_limit_sample(limit, line.calls);
            keep_least(&line.bound.memory_ns, bound.memory_ns);
            keep_least(&line.bound.multiply_ns, bound.multiply_ns);
            keep_least(&line.bound.any_ns, bound.any_ns);
        }
        for (int i = BENCH_TORCH; i < BENCH_WHO; i++)
            if (has_peer[i]) {
                bench_rest();
                bench_add(&line.figure[i],
                          bench_peer_sample(peer[i], line.calls));
            }
    }
    bench_limit_close(limit);
    bench_add(&line.figure[BENCH_LIMIT], bench_bound_ns(line.bound));
    if (traces && !tn_error())
        trace(traces, of, work, &state);
    tn_scope_close(scope);
    if (tn_error())
        return false;
    bench_report_line(report, &line);
    return true;
}

static const bench_group *const group[] = {
    &bench_dispatch, &bench_bandwidth, &bench_rows,      &bench_indexing,
    &bench_order,    &bench_special,   &bench_matmul,    &bench_linalg,
    &bench_vision,   &bench_window,    &bench_norm,      &bench_loss,
    &bench_sequence, &bench_training,  &bench_large,     &bench_inference,
    &bench_optim,    &bench_data,
#ifdef BENCH_TABLES
    &bench_layer,    &bench_optimizer,
#endif
};
enum { GROUPS = sizeof group / sizeof *group };

/* Returns whether --only selects the workload. `only` is NULL, a group, or a
 * group and a prefix of its workloads' names, as in "window.pad". */
static bool wanted(const char *only, const char *of, const char *name)
{
    size_t length = strlen(of);
    if (!only)
        return true;
    if (strncmp(only, of, length) != 0)
        return false;
    only += length;
    return *only == 0 ||
           (*only == '.' && strncmp(name, only + 1, strlen(only + 1)) == 0);
}

/* Returns whether a list such as "training,large" contains the group. */
static bool lists(const char *list, const char *name)
{
    for (size_t length; list && *list; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        if (strlen(name) == length && memcmp(list, name, length) == 0)
            return true;
    }
    return false;
}

/* Returns whether the group is excluded, or needs a GPU when there is none. */
static bool left_out(const char *only, const char *except,
                     const bench_group *of)
{
    if (lists(except, of->name))
        return true;
    if (of != &bench_large || only || !on_cpu())
        return false;
    printf("%s: skipped, since it needs a GPU\n", of->name);
    return true;
}

/* Returns whether --losses applies to the group. */
static bool trains(const bench_group *of)
{
    return of == &bench_training || of == &bench_large;
}

/* Returns the path of bench/ in the source tree, or TENON_BENCH_FOLDER if that
 * is set. */
static const char *source_folder(void)
{
    const char *folder = getenv("TENON_BENCH_FOLDER");
    return folder && *folder ? folder : BENCH_FOLDER;
}

static const char *script(void)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/compare.py", source_folder());
    return path;
}

/* Reads the groups whose workloads are in files. */
static bool read_tables(void)
{
#ifdef BENCH_TABLES
    return bench_layers_read(source_folder()) &&
           bench_optimizers_read(source_folder());
#else
    return true;
#endif
}

static int usage(void)
{
    fprintf(stderr, "usage: compare [--json FILE] [--only GROUP[.NAME]] "
                    "[--except GROUP,...] [--quick] [--rounds N] "
                    "[--sorted] [--losses] "
                    "[--beside WAY,...] "
                    "[--size N,...] [--trace FOLDER]\n"
                    "ways: torch tuned compiled libtorch\n"
                    "groups:");
    for (int g = 0; g < GROUPS; g++)
        fprintf(stderr, " %s", group[g]->name);
    fprintf(stderr, "\n");
    return 2;
}

/* Reads a list of ways to run PyTorch (bench_who). */
static bool read_ways(const char *list, bool way[BENCH_WHO])
{
    memset(way, 0, BENCH_WHO * sizeof *way);
    for (size_t length; *list; list += length + (list[length] == ',')) {
        int i = BENCH_TORCH;
        length = strcspn(list, ",");
        while (i < BENCH_WHO && (strlen(bench_who_name[i]) != length ||
                                 memcmp(bench_who_name[i], list, length) != 0))
            i++;
        if (i == BENCH_WHO) {
            fprintf(stderr, "compare: --beside: unknown way \"%.*s\"\n",
                    (int)length, list);
            return false;
        }
        way[i] = true;
    }
    return true;
}

/* Reads sizes such as "2,32,2", each at least 1; the others are 0. */
static bool read_sizes(const char *list, int64_t size[3])
{
    char *end;
    for (int i = 0; i < 3; i++, list = end + 1) {
        size[i] = strtoll(list, &end, 10);
        if (end == list || size[i] < 1 || (*end && *end != ','))
            break;
        if (!*end)
            return true;
    }
    fprintf(stderr, "compare: --size needs one to three numbers, such as "
                    "8,1024,12\n");
    return false;
}

static bool read_rounds(const char *text, int *rounds)
{
    char *end;
    long count = strtol(text, &end, 10);
    *rounds = (int)count;
    if (end != text && !*end && count >= 1 && count <= BENCH_ROUNDS)
        return true;
    fprintf(stderr, "compare: --rounds needs a number from 1 to %d\n",
            BENCH_ROUNDS);
    return false;
}

/* Returns whether the workload has as many sizes as --size gives. If not,
 * reports an error. */
static bool has_sizes(const bench_work *work, const int64_t size[3])
{
    int has = 0, asked = 0;
    for (int i = 0; i < 3; i++) {
        has += work->size[i] > 0;
        asked += size[i] > 0;
    }
    if (asked && has != asked)
        fprintf(stderr, "compare: --size: %s has %d sizes, not %d\n",
                work->name, has, asked);
    return !asked || has == asked;
}

/* Returns the workload with the sizes of --size. Its limit is not known. */
static bench_work sized(const bench_work *work, const int64_t size[3])
{
    bench_work copy = *work;
    if (size[0]) {
        memcpy(copy.size, size, sizeof copy.size);
        copy.least = (bench_least){0};
    }
    return copy;
}

/* Returns whether the named workloads exist and have these sizes. If not,
 * reports an error. */
static bool is_known(const char *only, const char *except, bool losses,
                     const int64_t size[3])
{
    bool known = false;
    size_t excepted = 0; /* length of the part of the list that consists of
                          * names of existing groups */
    for (int g = 0; g < GROUPS; g++) {
        const char *name = group[g]->name;
        bool is_excepted = lists(except, name);
        excepted += is_excepted ? strlen(name) + 1 : 0;
        for (const bench_work *w = group[g]->work; w->name; w++) {
            if (!wanted(only, name, w->name) || is_excepted ||
                (losses && !trains(group[g])))
                continue;
            known = true;
            if (!has_sizes(w, size))
                return false;
        }
    }
    if (except && excepted != strlen(except) + 1)
        fprintf(stderr, "compare: --except: \"%s\" contains an unknown group\n",
                except);
    else if (!known)
        fprintf(stderr, "compare: --only: no workload has the name \"%s\"\n",
                only ? only : "");
    else
        return true;
    return false;
}

int main(int argc, char **argv)
{
    bool losses = false, asked = false;
    int64_t size[3] = {0};
    const char *json = NULL, *only = NULL, *except = NULL, *traces = NULL;
    bool way[BENCH_WHO] = {[BENCH_TORCH] = true, [BENCH_TUNED] = true};
    bench_pace pace = calm;
    bool is_quick = false, sorted = false;
    int rounds = 0;
    bench_program = argv[0];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--first-result") == 0)
            return bench_first_result();
        if (strcmp(argv[i], "--quick") == 0)
            is_quick = true;
        else if (strcmp(argv[i], "--sorted") == 0)
            sorted = true;
        else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
            if (!read_rounds(argv[++i], &rounds))
                return usage();
        } else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            json = argv[++i];
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else if (strcmp(argv[i], "--except") == 0 && i + 1 < argc)
            except = argv[++i];
        else if (strcmp(argv[i], "--trace") == 0 && i + 1 < argc)
            traces = argv[++i];
        else if (strcmp(argv[i], "--losses") == 0)
            losses = true;
        else if (strcmp(argv[i], "--size") == 0 && i + 1 < argc) {
            if (!read_sizes(argv[++i], size))
                return usage();
        } else if (strcmp(argv[i], "--beside") != 0 || i + 1 == argc ||
                   !read_ways(argv[++i], way)) {
            return usage();
        } else {
            asked = true;
        }
    }
    if (losses && (json || traces))
        return usage();
    if (is_quick)
        pace = quick;
    if (rounds)
        pace.rounds = pace.least = rounds;
    if (!read_tables())
        return 1;
    if (!is_known(only, except, losses, size))
        return usage();
    if (!tn_device_current())
        return fprintf(stderr, "compare: %s\n", tn_error()), 1;

    signal(SIGPIPE, SIG_IGN);
    const char *python = getenv("TENON_BENCH_PYTHON");
    python = python && *python ? python : "python3";
    bench_peer *peer[BENCH_WHO] = {0};
    const char *version = NULL;
    bool good = true;
    for (int i = BENCH_TORCH; i < BENCH_WHO; i++) {
        if (!way[i])
            continue;
        peer[i] = bench_peer_start(python, script(), bench_who_name[i],
                                   tn_num_threads(),
                                   tn_device_name(tn_device_current()),
                                   i != BENCH_TORCH);
        if (peer[i])
            version = bench_peer_version(peer[i]);
        else if (losses && asked)
            good = fprintf(stderr, "compare: %s cannot be started\n",
                           bench_who_name[i]) < 0;
    }
    bench_report report;
    good = (losses || bench_report_begin(&report, json, version, way,
                                         is_quick, sorted)) &&
           good;
    for (int g = 0; g < GROUPS && !tn_error(); g++) {
        const bench_group *of = group[g];
        if ((losses && !trains(of)) || left_out(only, except, of))
            continue;
        for (const bench_work *w = of->work; w->name && !tn_error(); w++) {
            bench_work work = sized(w, size);
            if (!wanted(only, of->name, w->name))
                continue;
            if (losses)
                good = bench_losses(of->name, &work, peer, bench_who_name,
                                    BENCH_WHO) && good;
            else
                good = good &&
                       measure(&report, of->name, &work, &pace, peer, traces);
        }
    }
    good = (losses || bench_report_end(&report)) && good;
    for (int i = BENCH_TORCH; i < BENCH_WHO; i++)
        bench_peer_stop(peer[i]);
    if (tn_error())
        fprintf(stderr, "compare: %s\n", tn_error());
    return good ? 0 : 1;
}
