/* report.h: stores measurements and prints them as a table and as JSON. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdio.h>

#include "bench.h"

enum { BENCH_ROUNDS = 1000 };

/* Nanoseconds per call in each round. count is the number of rounds, 0 if
 * nothing was measured. */
typedef struct bench_figure {
    int count;
    double ns[BENCH_ROUNDS];
} bench_figure;

/* What is measured. The values from BENCH_TORCH on are the ways to run
 * PyTorch. */
typedef enum bench_who {
    BENCH_TENON,
    BENCH_LIMIT,
    BENCH_TORCH,
    BENCH_TUNED,
    BENCH_COMPILED,
    BENCH_LIBTORCH,
    BENCH_WHO
} bench_who;
/* The names of bench_who in the table and the JSON, such as "torch". */
extern const char *const bench_who_name[BENCH_WHO];

typedef struct bench_line {
    const char *group;
    const bench_work *work;
    int64_t calls; /* number of calls in a round */
    bench_figure figure[BENCH_WHO];
    bench_bound bound; /* the limit's three times */
} bench_line;

typedef struct bench_report {
    FILE *json; /* owned; NULL if no JSON file is written */
    const char *json_path;
    int line_count;
    bool sorted; /* print the lines again at the end, sorted by ratio */
    struct bench_rank *rank; /* owned array with an element for each line; used
                              * if sorted */
    bool has[BENCH_WHO]; /* has[i]: whether the table has a column for bench_who
                          * i */
} bench_report;

/* Adds the time of a round. A negative time means that the round failed, and is
 * ignored. */
void bench_add(bench_figure *figure, double ns);

/* Prints a description of the machine and the head of the table, with a column
 * for each `has`. torch is the version of PyTorch, or NULL. If the JSON file
 * cannot be created, prints an error and returns false. */
bool bench_report_begin(bench_report *report, const char *json_path,
                        const char *torch, const bool has[BENCH_WHO],
                        bool quick, bool sorted);
void bench_report_line(bench_report *report, const bench_line *line);
/* Prints the table sorted by ratio, if report->sorted. If writing failed,
 * prints an error and returns false. */
bool bench_report_end(bench_report *report);

#endif
