/* table.h: reads workloads from a file that C and Python share. Each line is a
 * workload with three columns, separated by tabs: the name, the arguments, and
 * the inputs or the network that it applies to. The arguments are a JSON
 * object, those of PyTorch's constructor. PyTorch's class is the part of the
 * name before the first "_" or ".". A line that begins with "#" is a
 * comment. */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include <jansson.h>

#include "bench.h"

typedef struct bench_row {
    char *name, *kind, *rest; /* kind: the name of PyTorch's class */
    json_t *arguments;
} bench_row;

enum { BENCH_ROWS = 256 };

typedef struct bench_table {
    const char *file; /* name of the file in the folder bench/ */
    void (*open)(bench_state *state);
    void (*call)(bench_state *state);
    int count;
    bench_row row[BENCH_ROWS];
    bench_work work[BENCH_ROWS]; /* one workload for each row; an entry whose
                                  * name is NULL follows the last one */
} bench_table;

/* Reads a table. If the file cannot be read or is malformed, prints an error
 * and returns false. The rows are never freed. */
bool bench_table_read(bench_table *table, const char *folder);
/* Returns the row of a workload. */
const bench_row *bench_table_row(const bench_table *table, const char *name);

#endif
