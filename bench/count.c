/* count.c: counts the instructions of a call: the arithmetic of the kernel
 * programs that its operators run. Reads the counts from a trace of the call,
 * which has them for every device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static const char range[] = "\"name\":\"bench call\"";

/* Returns the number that follows `name` in a line of the trace, or 0 if the
 * name is missing. */
static double figure(const char *line, const char *name)
{
    const char *at = strstr(line, name);
    return at ? atof(at + strlen(name)) : 0;
}

static void read_figures(FILE *file, bench_least *least)
{
    char line[2048];
    while (fgets(line, sizeof line, file))
        if (strstr(line, range)) {
            /* flops counts multiply-adds, each of which is also an
             * instruction */
            least->instructions +=
                least->flops / 2 + figure(line, "\"instructions\":");
            least->flops += 2 * figure(line, "\"multiplies\":");
        }
}

void bench_count(const bench_work *work, bench_state *state, bench_least *least)
{
    char path[] = "/tmp/tenon-bench-XXXXXX";
    int made = mkstemp(path);
    FILE *file = made < 0 ? NULL : fdopen(made, "r");
    if (file && tn_trace_start(path) == TN_OK) {
        tn_trace_push("bench call");
        bench_sample(work, state, 1);
        tn_trace_pop();
        tn_trace_stop();
        read_figures(file, least);
    }
    if (file)
        fclose(file);
    unlink(path);
}
