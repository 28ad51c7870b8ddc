/* report.h: measurements, and their output as a table and as JSON. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdio.h>

#include "bench.h"

enum { BENCH_ROUNDS = 1000 };

/* Nanoseconds per call in each round. Without rounds: not measured. */
typedef struct bench_figure {
    int count;
    double ns[BENCH_ROUNDS];
} bench_figure;

/* What is measured; from BENCH_TORCH on, the ways to run PyTorch. */
typedef enum bench_who {
    BENCH_TENON,
    BENCH_LIMIT,
    BENCH_TORCH,
    BENCH_TUNED,
    BENCH_COMPILED,
    BENCH_LIBTORCH,
    BENCH_WHO
} bench_who;
/* Its name in the table and the JSON, such as "torch". */
extern const char *const bench_who_name[BENCH_WHO];

typedef struct bench_line {
    const char *group;
    const bench_work *work;
    int64_t calls; /* in a round */
    bench_figure figure[BENCH_WHO];
    bench_bound bound; /* of the limit */
} bench_line;

typedef struct bench_report {
    FILE *json; /* owned; NULL: no JSON file is written */
    const char *json_path;
    int line_count;
    bool sorted; /* print the lines once more at the end, by the ratio */
    struct bench_rank *rank; /* if sorted: owned array with an element for each
                                line */
    bool has[BENCH_WHO]; /* whether the table has a column for it */
} bench_report;

/* Adds the time of another round; a negative time means that it failed. */
void bench_add(bench_figure *figure, double ns);

/* Prints the machine and the table's head, with a column for each of `has`.
 * torch is its version, or NULL. false if the JSON file cannot be created,
 * which is reported. */
bool bench_report_begin(bench_report *report, const char *json_path,
                        const char *torch, const bool has[BENCH_WHO],
                        bool quick, bool sorted);
void bench_report_line(bench_report *report, const bench_line *line);
/* Prints the table by the ratio, if it is wanted. false if not all could be
 * written, which is reported. */
bool bench_report_end(bench_report *report);

#endif
