/* scaling.c: measures whether time grows in proportion to the work, and how
 * much it falls with more threads.
 *
 *     bench/scaling sizes [--quick] [--up-to MILLIONS] [NAME...]
 *     bench/scaling threads [--quick] [NAME...]
 *
 * sizes: prints nanoseconds per element of some operators for 1 M to 256 M
 * elements, and the ratio to the machine's limit for the same memory accesses
 * or instructions. Both are measured in the same rounds. (1 M elements may fit
 * in a cache.) The largest size needs 7 GB of memory. Times are medians over
 * the rounds; the limit is that of its fastest round.
 *
 * threads: prints a workload's time on one thread divided by its time on all
 * threads, and the same ratio for a raw loop: multiply-adds in registers, or
 * the minimum of reads and writes. What further threads cost on this machine
 * (lower clock frequency, shared memory) affects both ratios, so their quotient
 * should be 1. Times are the best of all rounds, since other load only makes
 * rounds slower.
 *
 * NAME is a prefix of the names of workloads. In each round all measurements
 * alternate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { ROUNDS = 9, QUICK_ROUNDS = 3 };

typedef struct options {
    bool quick;
    int64_t up_to; /* largest number of elements */
    char **name;   /* not owned */
    int name_count;
} options;

static int rounds(const options *asked)
{
    return asked->quick ? QUICK_ROUNDS : ROUNDS;
}

static double round_ns(const options *asked)
{
    return asked->quick ? 1e6 : 2e7;
}

static bool wanted(const options *asked, const char *name)
{
    for (int i = 0; i < asked->name_count; i++)
        if (strncmp(name, asked->name[i], strlen(asked->name[i])) == 0)
            return true;
    return asked->name_count == 0;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *ns, int count)
{
    qsort(ns, (size_t)count, sizeof *ns, ascending);
    return ns[count / 2];
}

static double least_of(double *ns, int count)
{
    qsort(ns, (size_t)count, sizeof *ns, ascending);
    return ns[0];
}

/* ---- sizes --------------------------------------------------------------- */

enum { COLUMNS = 1024, SIZES = 5 };
#define LEAST ((int64_t)1 << 20)

static void open_sized(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0] / COLUMNS, COLUMNS));
}

static void open_two(bench_state *s)
{
    open_sized(s);
    s->b = tn_rand(tn_dims(s->size[0] / COLUMNS, COLUMNS));
}

BENCH_CALL(add, tn_add(s->a, s->b))
BENCH_CALL(exponential, tn_exp(s->a))
BENCH_CALL(sum, tn_sum(s->a))
BENCH_CALL(softmax, tn_softmax(s->a, 1))
BENCH_CALL(cumsum, tn_cumsum(s->a, 1))
BENCH_CALL(transpose, tn_contiguous(tn_transpose(s->a, 0, 1)))
static void sort(bench_state *s)
{
    tn_tensor *places;
    tn_sort(s->a, 1, false, &places);
}
BENCH_CALL(gelu, tn_gelu(s->a))

/* The minimum work is given for one element. */
static const bench_work sizes[] = {
    {"add", {0}, open_two, add, BENCH_TRIAD(1), 0},
    {"exp", {0}, open_sized, exponential, BENCH_COPY(1), 0},
    {"sum", {0}, open_sized, sum, BENCH_READ(1), 0},
    {"softmax_rows", {0}, open_sized, softmax, BENCH_COPY(1), 0},
    {"cumsum_rows", {0}, open_sized, cumsum, BENCH_COPY(1), 0},
    {"transpose", {0}, open_sized, transpose, BENCH_COPY(1), 0},
    {"sort_rows", {0}, open_sized, sort, BENCH_UNKNOWN, 0},
};

/* Prints a cell of the table: nanoseconds per element, and the machine's limit
 * as a fraction of them. */
static void measure_size(const options *asked, bench_work work, int64_t count)
{
    double ns[ROUNDS], limit_ns[ROUNDS];
    tn_scope *scope = tn_scope_open();
    work.size[0] = count;
    bench_state state = {.size = work.size};
    work.open(&state);
    bench_least least = {work.least.reads * (double)count,
                         work.least.writes * (double)count, 0, 0, false};
    int64_t calls = bench_calls(&work, &state, round_ns(asked));
    if (least.reads > 0)
        bench_count(&work, &state, &least);
    bench_limit *limit = bench_limit_open(&least, tn_num_threads());
    for (int r = 0; r < rounds(asked) && !tn_error(); r++) {
        bench_rest();
        bench_sample(&work, &state, calls / 4 + 1);
        ns[r] = bench_sample(&work, &state, calls);
        if (!limit)
            continue;
        bench_rest();
        limit_ns[r] = bench_bound_ns(bench_limit_sample(limit, calls));
    }
    if (!tn_error()) {
        double took = median(ns, rounds(asked));
        printf(" %7.4f", took / (double)count);
        if (limit)
            printf(" %3.0f %%",
                   100 * least_of(limit_ns, rounds(asked)) / took);
        else
            printf("      ");
        fflush(stdout);
    }
    bench_limit_close(limit);
    tn_scope_close(scope);
}

static void run_sizes(const options *asked)
{
    printf("%-16s", "ns per element");
    for (int64_t k = 0, n = LEAST; k < SIZES && n <= asked->up_to; k++, n *= 4)
        printf(" %7lld M limit", (long long)(n / LEAST));
    printf("\n");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (!wanted(asked, sizes[i].name))
            continue;
        printf("%-16s", sizes[i].name);
        for (int64_t k = 0, n = LEAST; k < SIZES && n <= asked->up_to;
             k++, n *= 4)
            measure_size(asked, sizes[i], n);
        printf("\n");
    }
}

/* ---- threads ------------------------------------------------------------- */

#define RAW_FLOPS 1e9 /* takes some milliseconds */
#define IN_L2 ((int64_t)1 << 17) /* number of elements; input and output
                                  * together have a megabyte */

/* Workloads whose input and output stay in the caches of the cores. */
static const bench_work pieces[] = {
    {"exp", {IN_L2}, open_sized, exponential, BENCH_UNKNOWN, 0},
    {"gelu", {IN_L2}, open_sized, gelu, BENCH_UNKNOWN, 0},
    {.name = NULL},
};
static const bench_group in_caches = {"l2", pieces};

/* The selected workloads: those of a group whose names have this prefix and
 * whose first size is `size`. */
static const struct pick {
    const bench_group *group;
    const char *name;
    int64_t size;
} picks[] = {
    {&bench_matmul, "matmul", 256},
    {&bench_matmul, "matmul", 1024},
    {&bench_vision, "conv2d", 16},
    {&bench_sequence, "attention", 16},
    {&in_caches, "exp", IN_L2},
    {&in_caches, "gelu", IN_L2},
    {&bench_training, "mlp", 64},
    {&bench_training, "cnn28", 64},
    {&bench_training, "resnet20", 32},
    {&bench_training, "gpt", 16},
    {&bench_bandwidth, "add", 16777216},
    {&bench_bandwidth, "sum", 16777216},
    {&bench_rows, "sum_rows", 4096},
    {&bench_rows, "add_row", 4096},
    {&bench_rows, "transpose", 4096},
    {&bench_optim, "sgd", 4},
};

/* Prints the time on one thread divided by the time on `threads` threads: for
 * the workload, for a raw loop, and the quotient of both ratios. */
static void measure_threads(const options *asked, const char *label,
                            const bench_work *work, int threads)
{
    bool moves = work->least.reads > 0;
    bench_least loops = moves ? work->least
                              : (bench_least){.flops = RAW_FLOPS};
    double ns[2][ROUNDS], raw_ns[2][ROUNDS];
    bench_limit *raw[2];
    tn_scope *scope = tn_scope_open();
    bench_state state = {.size = work->size};
    work->open(&state);
    for (int k = 0; k < 2; k++)
        raw[k] = bench_limit_open(&loops, k ? threads : 1);
    int64_t calls = bench_calls(work, &state, round_ns(asked));
    for (int r = 0; r < rounds(asked) && !tn_error(); r++)
        for (int k = 0; k < 2; k++) {
            tn_set_num_threads(k ? threads : 1);
            bench_sample(work, &state, calls / 4 + 1);
            ns[k][r] = bench_sample(work, &state, calls);
            bench_rest();
            raw_ns[k][r] =
                raw[k] ? bench_bound_ns(
                             bench_limit_sample(raw[k], moves ? calls : 1))
                       : 0;
        }
    if (!tn_error() && raw[0] && raw[1]) {
        double one = least_of(ns[0], rounds(asked)) / 1e3;
        double all = least_of(ns[1], rounds(asked)) / 1e3;
        double loop = least_of(raw_ns[0], rounds(asked)) /
                      least_of(raw_ns[1], rounds(asked));
        printf("%-24s %10.1f %10.1f %8.2f %8.2f %s %8.2f\n", label, one, all,
               one / all, loop, moves ? "memory" : "fma   ",
               one / all / loop);
        fflush(stdout);
    }
    for (int k = 0; k < 2; k++)
        bench_limit_close(raw[k]);
    tn_scope_close(scope);
}

static int run_threads(const options *asked)
{
    int threads = tn_num_threads();
    if (threads == 1)
        return fprintf(stderr, "scaling: Tenon uses one thread only; set "
                               "TENON_NUM_THREADS to more\n"), 1;
    printf("%-24s %7s us %7s us %8s %15s %8s\n", "workload", "1 thread",
           "all", "ratio", "raw loop's", "quotient");
    for (size_t i = 0; i < sizeof picks / sizeof *picks; i++)
        for (const bench_work *w = picks[i].group->work; w->name; w++) {
            char label[64];
            snprintf(label, sizeof label, "%s.%s %lld", picks[i].group->name,
                     w->name, (long long)w->size[0]);
            if (w->size[0] == picks[i].size && wanted(asked, label) &&
                strncmp(w->name, picks[i].name, strlen(picks[i].name)) == 0)
                measure_threads(asked, label, w, threads);
        }
    return 0;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: scaling sizes [--quick] [--up-to MILLIONS] [NAME...]\n"
            "       scaling threads [--quick] [NAME...]\n");
    return 2;
}

int main(int argc, char **argv)
{
    options asked = {.up_to = INT64_MAX};
    bench_program = argv[0];
    if (argc < 2)
        return usage();
    int i = 2;
    for (; i < argc && argv[i][0] == '-'; i++)
        if (strcmp(argv[i], "--quick") == 0)
            asked.quick = true;
        else if (strcmp(argv[i], "--up-to") == 0 && i + 1 < argc)
            asked.up_to = atoll(argv[++i]) * LEAST;
        else
            return usage();
    asked.name = argv + i;
    asked.name_count = argc - i;
    bool by_sizes = strcmp(argv[1], "sizes") == 0;
    if ((!by_sizes && strcmp(argv[1], "threads") != 0) || asked.up_to < LEAST)
        return usage();
    if (!tn_device_current())
        return fprintf(stderr, "scaling: %s\n", tn_error()), 1;
    printf("Tenon %s on %s (%s), %d thread%s\n", tn_version(),
           tn_device_name(tn_device_current()),
           tn_device_description(tn_device_current()), tn_num_threads(),
           tn_num_threads() == 1 ? "" : "s");
    int status = 0;
    if (by_sizes)
        run_sizes(&asked);
    else
        status = run_threads(&asked);
    if (tn_error())
        return fprintf(stderr, "scaling: %s\n", tn_error()), 1;
    return status;
}
