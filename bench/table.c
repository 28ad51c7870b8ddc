/* table.c: reads workloads from a file (table.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

static bool refuse(const bench_table *table, int line, const char *why)
{
    fprintf(stderr, "compare: %s, line %d: %s\n", table->file, line, why);
    return false;
}

/* Returns the string up to the next tab, and advances *rest beyond the tab.
 * Returns NULL at the end. */
static char *column(char **rest)
{
    char *text = *rest, *tab = strchr(text, '\t');
    if (!tab)
        return NULL;
    *tab = 0;
    *rest = tab + 1;
    return strdup(text);
}

static bool add(bench_table *table, int number, char *text)
{
    if (table->count == BENCH_ROWS - 1)
        return refuse(table, number, "the file has too many rows");
    text[strcspn(text, "\n")] = 0;
    bench_row row = {.name = column(&text)};
    char *arguments = column(&text);
    row.rest = strdup(text);
    row.kind = row.name ? strdup(row.name) : NULL;
    row.arguments = arguments ? json_loads(arguments, 0, NULL) : NULL;
    free(arguments);
    if (!row.kind || !row.rest || !json_is_object(row.arguments))
        return refuse(table, number,
                      "the line must have three columns: a name, a JSON object "
                      "and a text");
    row.kind[strcspn(row.kind, "_.")] = 0;
    table->work[table->count] = (bench_work){
        .name = row.name, .open = table->open, .call = table->call};
    table->row[table->count++] = row;
    return true;
}

bool bench_table_read(bench_table *table, const char *folder)
{
    char path[4096], line[1024];
    snprintf(path, sizeof path, "%s/%s", folder, table->file);
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "compare: %s: %s\n", path, strerror(errno));
        return false;
    }
    bool good = true;
    for (int n = 1; good && fgets(line, sizeof line, file); n++)
        good = *line == '#' || add(table, n, line);
    good = !ferror(file) && good;
    fclose(file);
    return good;
}

const bench_row *bench_table_row(const bench_table *table, const char *name)
{
    int i = 0;
    while (strcmp(table->row[i].name, name) != 0)
        i++;
    return &table->row[i];
}
