/* curves.c: sets of curves, and reading them from event files, CSV files and
 * folders. */
#include <media/run/curves.h>

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/io.h>
#include <tenon/ops.h>

enum { MAX_DEPTH = 16 };

static const char call[] = "curves_add";

struct tn_curves {
    tn_object object;
    tn__curve_list list;
};

static void release(void *object)
{
    tn__curve_list_free(&((tn_curves *)object)->list);
}

static const tn_object_class curves_class = {.size = sizeof curves_class,
                                             .name = "curves",
                                             .bytes = sizeof(tn_curves),
                                             .release = release};

tn_curves *tn_curves_new(void)
{
    return tn_object_new(&curves_class, 0);
}

const tn__curve_list *tn__curves_list(const tn_curves *curves,
                                      const char *caller)
{
    return tn_object_check(curves, &curves_class, caller, "curves")
               ? &curves->list
               : NULL;
}

/* Adds all points of `more` to list. */
static bool join(tn__curve_list *list, const tn__curve_list *more)
{
    for (int i = 0; i < more->count; i++) {
        const tn__curve *c = &more->curve[i];
        for (int64_t k = 0; k < c->count; k++)
            if (!tn__curve_list_add(list, c->run, c->tag, strlen(c->tag),
                                    c->step[k], c->value[k], c->time[k]))
                return false;
    }
    return true;
}

/* ---- CSV ----------------------------------------------------------------- */

static tn_status no_memory(void)
{
    return tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL,
                                    "out of memory");
}

/* Takes the next name from a line of names, and stores it in out, which has
 * room for the line and a NUL. A name may be between quotes, where a comma
 * belongs to it and two quotes stand for one. Returns false if a quote is not
 * closed. */
static bool take_name(const char **at, const char *end, char *out)
{
    const char *p = *at;
    char *const begin = out;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    const bool quoted = p < end && *p == '"';
    bool open = quoted;
    for (p += quoted; p < end && (open || *p != ','); p++) {
        const bool pair = open && p + 1 < end && *p == '"' && p[1] == '"';
        p += pair;
        if (quoted && *p == '"' && !pair)
            open = false;
        else
            *out++ = *p;
    }
    while (out > begin && strchr(" \t\r", out[-1]))
        out--;
    *out = 0;
    *at = p < end ? p + 1 : end;
    return !open;
}

static bool has_tag(const tn__curve_list *list, const char *tag)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->curve[i].tag, tag) == 0)
            return true;
    return false;
}

/* Takes the name of column k. */
static tn_status take_tag(const tn__curve_list *list, const char *path,
                          int64_t k, const char **at, const char *end,
                          char *out)
{
    const char *wrong = !take_name(at, end, out) ? "has a quote that is not closed"
                        : k && !*out             ? "has no name"
                        : k && has_tag(list, out)
                            ? "has the name of another column"
                            : NULL;
    return wrong ? tn_error_refuse_argument(TN_ERR_FORMAT, call, "path",
                                            "%s: line 1: column %lld %s", path,
                                            (long long)k + 1, wrong)
                 : TN_OK;
}

/* list is empty: a CSV file has a run of its own. cell has the rows of the
 * table, name has room for the names of all columns. */
static tn_status add_columns(tn__curve_list *list, const char *run,
                             const char *path, const char *names,
                             const char *names_end, const double *cell,
                             int64_t rows, int64_t columns, char *name)
{
    const char *at = names;
    for (int64_t k = 0; k < columns; k++) {
        const tn_status status =
            take_tag(list, path, k, &at, names_end, name);
        if (status < 0)
            return status;
        for (int64_t r = 0; k && r < rows; r++) {
            const double *row = cell + r * columns;
            if (!isnan(row[k]) &&
                !tn__curve_list_add(list, run, name, strlen(name), row[0],
                                    row[k], 0))
                return no_memory();
        }
    }
    if (at == names_end)
        return TN_OK;
    return tn_error_refuse_argument(TN_ERR_FORMAT, call, "path",
                                    "%s: line 1 has more names than the %lld "
                                    "columns of the lines below", path,
                                    (long long)columns);
}

static tn_status add_table(tn__curve_list *list, const char *run,
                           const char *path, const char *names,
                           const char *names_end, tn_tensor *table)
{
    const size_t bytes = (size_t)tn_tensor_numel(table) * sizeof(double);
    double *cell = malloc(bytes + 1);
    char *name = malloc((size_t)(names_end - names) + 1);
    tn_status status = cell && name ? tn_tensor_to_array(table, cell, bytes)
                                    : no_memory();
    if (status == TN_OK)
        status = add_columns(list, run, path, names, names_end, cell,
                             tn_tensor_size(table, 0), tn_tensor_size(table, 1),
                             name);
    free(name);
    free(cell);
    return status;
}

static tn_status read_csv(tn__curve_list *list, const char *run,
                          const char *path, const char *data, size_t bytes)
{
    const char *line_end = memchr(data, '\n', bytes);
    if (!line_end || memchr(data, 0, (size_t)(line_end - data)) ||
        !memchr(data, ',', (size_t)(line_end - data)))
        return tn_error_refuse_argument(
            TN_ERR_FORMAT, call, "path",
            "%s: expected an event file, or a CSV file whose first line names "
            "at least two columns", path);
    if (bytes >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        data += 3;
    tn_scope *scope = tn_scope_open();
    tn_tensor *table = tn_csv_load(path, .skip_rows = 1, .dtype = TN_F64,
                                   .empty = (double)NAN);
    tn_error_rename("csv_load", call, "path");
    const tn_status status =
        table ? add_table(list, run, path, data, line_end, table)
              : tn_error_code();
    tn_scope_close(scope);
    return status;
}

/* ---- files and folders --------------------------------------------------- */

/* An event file may be empty, because the program that writes it has not
 * written its first record yet. */
static bool is_event_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strstr(slash ? slash : path, "tfevents") != NULL;
}

static tn_status read_file(tn__curve_list *list, const char *run,
                           const char *path)
{
    void *data;
    size_t bytes;
    tn_status status = tn_file_read(path, call, &data, &bytes);
    if (status < 0)
        return status;
    status = is_event_name(path) || tn__curves_are_events(data, bytes)
                 ? tn__curves_read_events(list, run, path, data, bytes)
                 : read_csv(list, run, path, data, bytes);
    free(data);
    return status;
}

/* Leaves out what cannot be part of a run: hidden files, and other files than
 * folders and event files. */
static int is_part(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static char *join_path(const char *folder, const char *name)
{
    char *path = malloc(strlen(folder) + strlen(name) + 2);
    if (path)
        sprintf(path, "%s/%s", folder, name);
    return path;
}

static tn_status read_folder(tn__curve_list *list, const char *run,
                             const char *folder, int depth)
{
    struct dirent **entry;
    if (depth > MAX_DEPTH)
        return tn_error_refuse_argument(TN_ERR_FORMAT, call, "path",
                                        "%s: folders are nested more than %d "
                                        "deep", folder,
                                        MAX_DEPTH);
    const int count = scandir(folder, &entry, is_part, alphasort);
    if (count < 0)
        return tn_error_refuse_argument(
            errno == ENOMEM ? TN_ERR_MEMORY : TN_ERR_IO, call, "path", "%s: %s",
            folder, strerror(errno));
    tn_status status = TN_OK;
    for (int i = 0; i < count; i++) {
        const char *name = entry[i]->d_name;
        char *path = status == TN_OK ? join_path(folder, name) : NULL;
        struct stat info;
        if (status == TN_OK && !path)
            status = no_memory();
        if (path && lstat(path, &info) == 0) {
            if (S_ISDIR(info.st_mode)) {
                char *inner = join_path(run, name);
                status = inner ? read_folder(list, inner, path, depth + 1)
                               : no_memory();
                free(inner);
            } else if (is_event_name(name) && S_ISREG(info.st_mode)) {
                status = read_file(list, run, path);
            }
        }
        free(path);
        free(entry[i]);
    }
    free(entry);
    return status;
}

tn_status tn_curves_add(tn_curves *curves, const char *path, const char *run)
{
    struct stat info;
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn__curves_list(curves, call))
        return tn_error_code();
    if (!path)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path",
                                        "path is NULL");
    if (stat(path, &info) < 0)
        return tn_error_refuse_argument(TN_ERR_IO, call, "path", "%s: %s", path,
                                        strerror(errno));
    tn__curve_list more = {0};
    if (!run)
        run = path;
    tn_status status = S_ISDIR(info.st_mode) ? read_folder(&more, run, path, 0)
                                             : read_file(&more, run, path);
    if (status == TN_OK && more.count == 0)
        status = tn_error_refuse_argument(TN_ERR_FORMAT, call, "path",
                                          "%s: there are no scalars", path);
    if (status == TN_OK) {
        /* Points are added to a copy, so that a failure changes nothing. */
        tn__curve_list all = {0};
        if (join(&all, &curves->list) && join(&all, &more)) {
            tn__curve_list_free(&curves->list);
            curves->list = all;
        } else {
            tn__curve_list_free(&all);
            status = no_memory();
        }
    }
    tn__curve_list_free(&more);
    return status;
}

/* ---- attributes ---------------------------------------------------------- */

static bool is_curves(const tn_curves *curves, const char *own)
{
    return curves && tn_object_check(curves, &curves_class, own, "curves");
}

/* Returns curve i, or NULL. own is the public call. */
static const tn__curve *at(const tn_curves *curves, int i, const char *own)
{
    return is_curves(curves, own) && i >= 0 && i < curves->list.count
               ? &curves->list.curve[i]
               : NULL;
}

int tn_curves_count(const tn_curves *curves)
{
    return is_curves(curves, "curves_count") ? curves->list.count : 0;
}

const char *tn_curves_run(const tn_curves *curves, int i)
{
    const tn__curve *c = at(curves, i, "curves_run");
    return c ? c->run : NULL;
}

const char *tn_curves_tag(const tn_curves *curves, int i)
{
    const tn__curve *c = at(curves, i, "curves_tag");
    return c ? c->tag : NULL;
}

int64_t tn_curves_length(const tn_curves *curves, int i)
{
    const tn__curve *c = at(curves, i, "curves_length");
    return c ? c->count : 0;
}

const double *tn_curves_steps(const tn_curves *curves, int i)
{
    const tn__curve *c = at(curves, i, "curves_steps");
    return c ? c->step : NULL;
}

const double *tn_curves_values(const tn_curves *curves, int i)
{
    const tn__curve *c = at(curves, i, "curves_values");
    return c ? c->value : NULL;
}

const double *tn_curves_times(const tn_curves *curves, int i)
{
    const tn__curve *c = at(curves, i, "curves_times");
    return c ? c->time : NULL;
}
