/* table.h: workloads that are in a file, which C and Python read: a line for
 * each, with three columns between tabs: name, arguments, and what they are
 * applied to. A line that begins with "#" is a comment. The arguments are a
 * JSON object, those of PyTorch's constructor. The class is the name up to its
 * first "_" or ".". */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include <jansson.h>

#include "bench.h"

typedef struct bench_row {
    char *name, *kind, *rest; /* kind: PyTorch's class */
    json_t *arguments;
} bench_row;

enum { BENCH_ROWS = 256 };

typedef struct bench_table {
    const char *file; /* in the folder bench/ */
    void (*open)(bench_state *state);
    void (*call)(bench_state *state);
    int count;
    bench_row row[BENCH_ROWS];
    bench_work work[BENCH_ROWS]; /* a workload for each row, then one with name
                                    NULL */
} bench_table;

/* Reads a table. false, after a report on stderr, if it is malformed or cannot
 * be read. The rows live as long as the process. */
bool bench_table_read(bench_table *table, const char *folder);
/* The row of a workload. */
const bench_row *bench_table_row(const bench_table *table, const char *name);

#endif
