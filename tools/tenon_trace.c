/* tenon_trace.c: the command `tenon trace`. Runs a program and records a trace,
 * or summarizes a trace in a table.
 *
 * An event of a trace is one call. The own time of an event is its duration
 * minus the durations of the events within it, so that each microsecond is
 * counted once. Bytes and operations are counted in the same way. Time that a
 * device reports belongs to the innermost event that submitted the work. */
#include "tenon_trace.h"

#include <json/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct event {
    const char *name, *category, *module, *shapes; /* owned by the parsed
                                                      JSON */
    double begin, took;      /* start time and duration in microseconds */
    double bytes, operations;
    double device; /* device time in microseconds */
    long long thread;
    bool given; /* the event is device work; begin and thread say when and in
                 * which thread it was submitted */
} event;

/* A line of the table: the sums over all events with the same key. */
typedef struct line {
    char *key; /* owned */
    double took, device, bytes, operations;
    long long calls;
} line;

typedef struct table {
    line *line;
    size_t count, room;
} table;

static int complain(const char *path, const char *why)
{
    fprintf(stderr, "tenon trace: %s: %s\n", path, why);
    return 1;
}

/* ---- reading ------------------------------------------------------------- */

/* Reads the file, with space for a closing bracket at its end. Returns NULL if
 * the file cannot be read. */
static char *read_text(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    size_t room = 1 << 20, used = 0, n;
    char *text = malloc(room);
    while (text && (n = fread(text + used, 1, room - used - 2, file)) > 0) {
        used += n;
        if (used + 2 < room)
            continue;
        char *more = realloc(text, room *= 2);
        if (!more)
            free(text);
        text = more;
    }
    bool fine = text && !ferror(file);
    fclose(file);
    if (!fine) {
        free(text);
        return NULL;
    }
    *length = used;
    text[used] = 0;
    return text;
}

/* Parses a trace. If the traced program was killed, the closing bracket is
 * missing. Then parse truncates the trace after its last complete line and adds
 * the bracket. Parsing overwrites the text. */
static const tn__json_value *parse(tn__json *json, char *text, size_t length)
{
    char *whole = malloc(length + 1);
    if (!whole) {
        *json->error = '\0';
        return NULL;
    }
    memcpy(whole, text, length + 1);
    const tn__json_value *events = tn__json_read(json, text, length);
    char *last = events || !*json->error ? NULL : strrchr(whole, '\n');
    if (last) {
        tn__json_free(json);
        length = (size_t)(last - whole);
        if (length && whole[length - 1] == ',')
            length--;
        memcpy(text, whole, length);
        text[length] = ']';
        events = tn__json_read(json, text, length + 1);
    }
    free(whole);
    return events;
}

static double number(const tn__json_value *object, const char *name)
{
    double value = 0;
    (void)tn__json_real(tn__json_get(object, name), &value);
    return value;
}

static long long integer(const tn__json_value *object, const char *name)
{
    const tn__json_value *value = tn__json_get(object, name);
    return tn__json_is(value, TN__JSON_INTEGER) ? value->integer : 0;
}

static const char *string(const tn__json_value *object, const char *name)
{
    const char *text = tn__json_text(tn__json_get(object, name));
    return text ? text : "";
}

/* Returns an array of *count events, which the caller frees. Returns NULL if
 * memory runs out. */
static event *take_events(const tn__json_value *events, size_t *count)
{
    event *list = calloc(events->count + 1, sizeof *list);
    *count = 0;
    TN__JSON_EACH(e, list ? events : NULL) {
        const tn__json_value *args = tn__json_get(e, "args");
        if (strcmp(string(e, "ph"), "X") != 0)
            continue;
        event *x = &list[(*count)++];
        *x = (event){
            string(e, "name"),
            string(e, "cat"),
            string(args, "module"),
            string(args, "shapes"),
            number(e, "ts"),
            number(e, "dur"),
            number(args, "bytes"),
            number(args, "operations"),
            0,
            integer(e, "tid"),
            strcmp(string(e, "cat"), "device") == 0,
        };
        if (x->given) {
            x->device = x->took;
            x->took = 0;
            x->begin = number(args, "given");
            x->thread = integer(args, "thread");
        }
    }
    return list;
}

/* Compares events for qsort: by thread, then by start time. An event comes
 * before the events within it. */
static int by_time(const void *a, const void *b)
{
    const event *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->took > y->took ? -1 : x->took < y->took;
}

/* Subtracts from each event the time, bytes and operations of the events within
 * it. Returns the total host time in microseconds and sets *device to the total
 * device time. Device work that was submitted outside of all events gets a line
 * of its own in the table. */
static double take_own(event *list, size_t count, double *device)
{
    enum { DEPTH = 1024 };
    size_t open[DEPTH];
    int depth = 0;
    double all = 0;
    *device = 0;
    for (size_t i = 0; i < count; i++) {
        double begin = list[i].begin, took = list[i].took;
        double bytes = list[i].bytes, operations = list[i].operations;
        static double end[DEPTH];
        while (depth > 0 && (list[open[depth - 1]].thread != list[i].thread ||
                             begin >= end[depth - 1]))
            depth--;
        *device += list[i].device;
        if (list[i].given) {
            if (depth > 0) {
                list[open[depth - 1]].device += list[i].device;
                list[i].device = 0;
            }
            continue;
        }
        if (depth > 0) {
            event *outer = &list[open[depth - 1]];
            outer->took -= took;
            outer->bytes -= bytes;
            outer->operations -= operations;
        } else {
            all += took;
        }
        if (depth < DEPTH) {
            open[depth] = i;
            end[depth++] = begin + took;
        }
    }
    return all;
}

/* ---- the table ----------------------------------------------------------- */

static const char *const columns[] = {"op", "module", "shapes"};

static void key_of(char *key, size_t room, const event *e, const char *by)
{
    bool back = strcmp(e->category, "backward") == 0;
    if (strcmp(by, "module") == 0)
        snprintf(key, room, "%s", *e->module ? e->module : "-");
    else if (strcmp(by, "shapes") == 0)
        snprintf(key, room, "%s%s %s", e->name, back ? " backward" : "",
                 e->shapes);
    else
        snprintf(key, room, "%s%s", e->name, back ? " backward" : "");
}

static bool add(table *t, const char *key, const event *e)
{
    size_t i = 0;
    while (i < t->count && strcmp(t->line[i].key, key) != 0)
        i++;
    if (i == t->room) {
        size_t room = t->room ? t->room * 2 : 64;
        line *more = realloc(t->line, room * sizeof *more);
        if (!more)
            return false;
        t->line = more;
        t->room = room;
    }
    if (i == t->count) {
        t->line[i] = (line){.key = strdup(key)};
        if (!t->line[i].key)
            return false;
        t->count++;
    }
    t->line[i].took += e->took;
    t->line[i].device += e->device;
    t->line[i].bytes += e->bytes;
    t->line[i].operations += e->operations;
    t->line[i].calls++;
    return true;
}

/* Compares lines for qsort: by device time, then by host time, the longest
 * first. */
static int by_took(const void *a, const void *b)
{
    const line *x = a, *y = b;
    if (x->device != y->device)
        return x->device > y->device ? -1 : 1;
    return x->took > y->took ? -1 : x->took < y->took;
}

/* Prints the table. `all` is the total host time and `device` the total device
 * time, in microseconds; `device` is 0 if no device reports times. */
static void print(const table *t, const char *by, double all, double device,
                  const tn__json_value *limits)
{
    double bytes = number(limits, "bytes_per_second") * 1e-6;
    double operations = number(limits, "operations_per_second") * 1e-6;
    printf("%.3f ms", all * 1e-3);
    if (device > 0)
        printf(", %.3f ms of the device", device * 1e-3);
    if (bytes > 0)
        printf("; limits of %s: %.1f GB/s, %.1f Gop/s",
               string(limits, "device"), bytes * 1e-3, operations * 1e-3);
    printf("\n\n%10s ", "own ms");
    if (device > 0)
        printf("%10s ", "device ms");
    printf("%7s %8s %10s %8s %8s %6s  %s\n", "share", "calls", "each us", "GB/s",
           "Gop/s", "limit", by);
    for (size_t i = 0; i < t->count; i++) {
        const line *l = &t->line[i];
        /* A line without device time, such as a wait, uses the host time. */
        double mine = l->device > 0 ? l->device : l->took;
        double took = mine > 1e-3 ? mine : 1e-3;
        printf("%10.3f ", l->took * 1e-3);
        if (device > 0)
            printf("%10.3f ", l->device * 1e-3);
        printf("%5.1f %% %8lld %10.2f",
               device > 0 ? 100 * l->device / device : 100 * l->took / all,
               l->calls, mine / (double)l->calls);
        if (l->bytes > 0 || l->operations > 0)
            printf(" %8.2f %8.2f", l->bytes / took * 1e-3,
                   l->operations / took * 1e-3);
        else
            printf(" %8s %8s", "-", "-");
        double least = bytes > 0 ? l->bytes / bytes : 0;
        if (bytes > 0 && l->operations / operations > least)
            least = l->operations / operations;
        if (least > 0)
            printf(" %4.0f %%", 100 * least / took);
        else
            printf(" %6s", "-");
        printf("  %s\n", l->key);
    }
}

static int summary(const char *path, const char *by)
{
    size_t length = 0, count = 0;
    char *text = read_text(path, &length);
    if (!text)
        return complain(path, "cannot be read");
    tn__json json = {.take = malloc, .give = free};
    const tn__json_value *events = parse(&json, text, length);
    const tn__json_value *first = tn__json_at(events, 0);
    if (strcmp(string(first, "name"), "tenon") != 0) {
        const char *why = events        ? "is not a trace of Tenon"
                          : *json.error ? json.error
                                        : "out of memory";
        tn__json_free(&json);
        free(text);
        return complain(path, why);
    }
    event *list = take_events(events, &count);
    table t = {NULL, 0, 0};
    bool fine = list;
    if (fine) {
        qsort(list, count, sizeof *list, by_time);
        double device, all = take_own(list, count, &device);
        for (size_t i = 0; i < count && fine; i++) {
            char key[640];
            if (list[i].given && list[i].device <= 0)
                continue;
            key_of(key, sizeof key, &list[i], by);
            fine = add(&t, key, &list[i]);
        }
        if (fine) {
            if (t.count)
                qsort(t.line, t.count, sizeof *t.line, by_took);
            print(&t, by, all, device, tn__json_get(first, "args"));
        }
    }
    for (size_t i = 0; i < t.count; i++)
        free(t.line[i].key);
    free(t.line);
    free(list);
    tn__json_free(&json);
    free(text);
    return fine ? 0 : complain(path, "out of memory");
}

/* ---- the command --------------------------------------------------------- */

static int run_program(const char *path, char **program)
{
    if (setenv("TENON_TRACE", path, 1) < 0)
        return complain(path, "out of memory");
    execvp(program[0], program);
    return complain(program[0], "cannot be run; check that the file exists and is "
                                "executable");
}

int tenon_trace(int count, char **argument)
{
    const char *by = columns[0];
    if (count >= 2 && strcmp(argument[0], "--summary") == 0) {
        if (count == 4 && strcmp(argument[2], "--by") == 0)
            by = argument[3];
        else if (count != 2)
            return 2;
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
            if (strcmp(by, columns[i]) == 0)
                return summary(argument[1], by);
        return 2;
    }
    const char *path = "trace.json";
    if (count >= 2 && strcmp(argument[0], "-o") == 0) {
        path = argument[1];
        argument += 2;
        count -= 2;
    }
    if (count < 1 || argument[0][0] == '-')
        return 2;
    return run_program(path, argument);
}
