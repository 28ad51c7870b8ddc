/* report.c: prints the table, and writes all measurements as JSON. The "work"
 * of the JSON object has one line for each workload, so that chart.awk can read
 * it line by line. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "report.h"

const char *const bench_who_name[BENCH_WHO] = {
    [BENCH_TENON] = "tenon",       [BENCH_LIMIT] = "limit",
    [BENCH_TORCH] = "torch",       [BENCH_TUNED] = "tuned",
    [BENCH_COMPILED] = "compiled", [BENCH_LIBTORCH] = "libtorch"};

void bench_add(bench_figure *figure, double ns)
{
    if (ns >= 0 && figure->count < BENCH_ROUNDS)
        figure->ns[figure->count++] = ns;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct summary {
    double low, median, high; /* quartiles; 0 if there were no rounds */
} summary;

static summary sum_up(const bench_figure *figure)
{
    bench_figure sorted = *figure;
    int count = figure->count;
    if (count == 0)
        return (summary){0, 0, 0};
    qsort(sorted.ns, (size_t)count, sizeof *sorted.ns, ascending);
    return (summary){sorted.ns[count / 4], sorted.ns[count / 2],
                     sorted.ns[(count - 1) - count / 4]};
}

/* ---- JSON ---------------------------------------------------------------- */

static void write_text(FILE *json, const char *name, const char *text)
{
    fprintf(json, "  \"%s\": ", name);
    if (!text) {
        fprintf(json, "null,\n");
        return;
    }
    fputc('"', json);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', json);
        if ((unsigned char)*text >= ' ')
            fputc(*text, json);
    }
    fprintf(json, "\",\n");
}

static void write_figure(FILE *json, const char *name,
                         const bench_figure *figure)
{
    summary s = sum_up(figure);
    fprintf(json, ", \"%s\": ", name);
    if (figure->count == 0) {
        fprintf(json, "null");
        return;
    }
    fprintf(json,
            "{\"median_ns\": %.1f, \"low_ns\": %.1f, \"high_ns\": %.1f, "
            "\"rounds_ns\": [",
            s.median, s.low, s.high);
    for (int r = 0; r < figure->count; r++)
        fprintf(json, "%s%.1f", r ? ", " : "", figure->ns[r]);
    fprintf(json, "]}");
}

static void write_line(bench_report *report, const bench_line *line,
                       const char *label)
{
    FILE *json = report->json;
    fprintf(json,
            "%s\n    {\"group\": \"%s\", \"name\": \"%s\", \"calls\": %lld",
            report->line_count ? "," : "", line->group, label,
            (long long)line->calls);
    for (int i = 0; i < BENCH_WHO; i++)
        write_figure(json, bench_who_name[i], &line->figure[i]);
    if (line->figure[BENCH_LIMIT].count)
        fprintf(json, ", \"memory_ns\": %.1f, \"multiply_ns\": %.1f, \"any_ns\": %.1f",
                line->bound.memory_ns, line->bound.multiply_ns,
                line->bound.any_ns);
    fprintf(json, "}");
}

/* ---- the machine --------------------------------------------------------- */

/* Writes the name of the processor, such as "AMD EPYC 9554 64-Core Processor",
 * or "" if the system does not report it. */
static void processor_name(char *name, size_t room)
{
    char text[256];
    snprintf(name, room, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(text, sizeof text, file)) {
        char *colon = strchr(text, ':');
        if (strncmp(text, "model name", 10) != 0 || !colon)
            continue;
        colon[strcspn(colon, "\n")] = 0;
        snprintf(name, room, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (file)
        fclose(file);
}

/* Prints the head of the table: two lines of column names. */
static void print_head(const bench_report *report)
{
    for (int l = 0; l < 2; l++) {
        printf("%s%-32s %19s", l ? "" : "\n", l ? "workload" : "",
               l ? "median  spread" : "Tenon");
        for (int i = BENCH_TORCH; i < BENCH_WHO; i++)
            if (report->has[i])
                printf(" %19s", l ? "median  spread" : bench_who_name[i]);
        for (int i = BENCH_TORCH; i < BENCH_WHO; i++)
            if (report->has[i])
                printf(" %8s", l ? "/Tenon" : bench_who_name[i]);
        printf(" %8s %s\n", l ? "limit" : "of the", l ? "of" : "");
    }
}

bool bench_report_begin(bench_report *report, const char *json_path,
                        const char *torch, const bool has[BENCH_WHO],
                        bool quick, bool sorted)
{
    struct utsname host;
    char processor[200], date[32], system[200];
    time_t now = time(NULL);
    struct tm day;
    *report = (bench_report){.json_path = json_path, .sorted = sorted};
    memcpy(report->has, has, sizeof report->has);
    if (json_path && !(report->json = fopen(json_path, "w"))) {
        fprintf(stderr, "compare: %s: %s\n", json_path, strerror(errno));
        return false;
    }
    uname(&host);
    processor_name(processor, sizeof processor);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &day));
    snprintf(system, sizeof system, "%.60s %.60s %.60s", host.sysname,
             host.release, host.machine);
    const char *device = tn_device_description(tn_device_current());

    printf("%s, %d thread%s, Tenon %s on %s (%s)\n", processor,
           tn_num_threads(), tn_num_threads() == 1 ? "" : "s", tn_version(),
           tn_device_name(tn_device_current()), device);
    if (torch)
        printf("PyTorch %s, torch: eager; all others: %s\n", torch,
               bench_peer_tuning);
    else
        printf("PyTorch is not measured: set TENON_BENCH_PYTHON to a Python "
               "that has torch\n");
    print_head(report);

    if (report->json) {
        fprintf(report->json, "{\n");
        write_text(report->json, "date", date);
        write_text(report->json, "host", host.nodename);
        write_text(report->json, "system", system);
        write_text(report->json, "cpu", processor);
        write_text(report->json, "tenon", tn_version());
        write_text(report->json, "device", device);
        write_text(report->json, "torch", torch);
        write_text(report->json, "tuned", bench_peer_tuning);
        fprintf(report->json, "  \"threads\": %d,\n  \"quick\": %s,\n",
                tn_num_threads(), quick ? "true" : "false");
        fprintf(report->json, "  \"work\": [");
    }
    return true;
}

/* ---- the table ----------------------------------------------------------- */

/* Prints a time and its spread, such as "12.34 ms  +-5 %". */
static void print_figure(const bench_figure *figure)
{
    static const char *const unit[] = {"ns", "us", "ms", "s"};
    summary s = sum_up(figure);
    int u = 0;
    if (figure->count == 0) {
        printf(" %19s", "-");
        return;
    }
    double scaled = s.median;
    for (; u < 3 && scaled >= 1000; u++)
        scaled /= 1000;
    printf(" %10.*f %-2s %3.0f %%", scaled < 100 ? 2 : 1, scaled, unit[u],
           50 * (s.high - s.low) / s.median);
}

static void print_ratio(const bench_figure *other, double ours, double scale,
                        int digits, const char *unit)
{
    int width = 8 - (int)strlen(unit);
    if (other->count == 0)
        printf(" %8s", "-");
    else
        printf(" %*.*f%s", width, digits,
               scale * sum_up(other).median / ours, unit);
}

/* ---- the table by the ratio ---------------------------------------------- */

/* A row of the table that is sorted by ratio. On a machine with other load, the
 * fastest round is the least disturbed one. The ratio of the quartiles shows
 * whether the ratio of the fastest rounds is an accident. */
typedef struct bench_rank {
    char label[96];
    double tenon, torch, ratio, quartiles;
} bench_rank;

static double fastest(const bench_figure *figure)
{
    double least = figure->ns[0];
    for (int r = 1; r < figure->count; r++)
        least = figure->ns[r] < least ? figure->ns[r] : least;
    return least;
}

/* Adds a row for a workload. If PyTorch ran in several ways, uses the way with
 * the fastest round. */
static void keep_rank(bench_report *report, const bench_line *line,
                      const char *label)
{
    bench_rank *all = realloc(
        report->rank, ((size_t)report->line_count + 1) * sizeof *all);
    if (!all)
        return;
    report->rank = all;
    const bench_figure *ours = &line->figure[BENCH_TENON];
    bench_rank rank = {.tenon = fastest(ours)};
    snprintf(rank.label, sizeof rank.label, "%s %s", line->group, label);
    for (int i = BENCH_TORCH; i < BENCH_WHO; i++) {
        const bench_figure *other = &line->figure[i];
        if (other->count == 0)
            continue;
        double ns = fastest(other);
        if (rank.torch == 0 || ns < rank.torch) {
            rank.torch = ns;
            rank.quartiles = sum_up(other).low / sum_up(ours).low;
        }
    }
    rank.ratio = rank.torch / rank.tenon;
    all[report->line_count] = rank;
}

static int by_ratio(const void *a, const void *b)
{
    const bench_rank *x = a, *y = b;
    return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

static void print_ranks(bench_report *report)
{
    qsort(report->rank, (size_t)report->line_count, sizeof *report->rank,
          by_ratio);
    printf("\nby PyTorch/Tenon of the fastest rounds%24s %12s %8s %9s\n",
           "Tenon us", "PyTorch us", "/Tenon", "quartiles");
    for (int i = 0; i < report->line_count; i++) {
        const bench_rank *r = &report->rank[i];
        printf("%-48s %12.2f %12.2f %8.2f %9.2f\n", r->label, r->tenon / 1e3,
               r->torch / 1e3, r->ratio, r->quartiles);
    }
    free(report->rank);
}

void bench_report_line(bench_report *report, const bench_line *line)
{
    char label[64];
    int used = snprintf(label, sizeof label, "%s", line->work->name);
    for (int i = 0; i < 3 && line->work->size[i] > 0; i++)
        used += snprintf(label + used, sizeof label - (size_t)used, "%s%lld",
                         i ? "x" : " ", (long long)line->work->size[i]);
    const bench_figure *figure = line->figure;
    double ours = sum_up(&figure[BENCH_TENON]).median;
    printf("%-9s %-22s", line->group, label);
    print_figure(&figure[BENCH_TENON]);
    for (int i = BENCH_TORCH; i < BENCH_WHO; i++)
        if (report->has[i])
            print_figure(&figure[i]);
    for (int i = BENCH_TORCH; i < BENCH_WHO; i++)
        if (report->has[i])
            print_ratio(&figure[i], ours, 1, 2, "");
    print_ratio(&figure[BENCH_LIMIT], ours, 100, 0, " %");
    printf(" %s\n", figure[BENCH_LIMIT].count ? bench_bound_name(line->bound)
                                              : "");
    fflush(stdout);
    if (report->json)
        write_line(report, line, label);
    if (report->sorted)
        keep_rank(report, line, label);
    report->line_count++;
}

bool bench_report_end(bench_report *report)
{
    if (report->rank)
        print_ranks(report);
    if (!report->json)
        return true;
    fprintf(report->json, "\n  ]\n}\n");
    bool good = !ferror(report->json);
    good = fclose(report->json) == 0 && good;
    if (!good)
        fprintf(stderr, "compare: %s could not be written\n",
                report->json_path);
    return good;
}
