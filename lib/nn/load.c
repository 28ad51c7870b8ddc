/* load.c: reads a model's parameters and buffers from a safetensors file.
 *
 * All names, shapes and dtypes are compared before a tensor is read. Each
 * difference becomes a tn_load_difference in the report, and a line of the
 * error message. */
#include <nn/tree.h>

#include <stdio.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/io.h>
#include <tenon/ops.h>

/* Compile for size: nearly all time is spent in operators, not in this file. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

/* ---- the report ---------------------------------------------------------- */

typedef struct difference {
    tn_object object;
    struct difference *next; /* counted reference */
    tn_load_difference shown;
    char text[]; /* memory for the strings in shown */
} difference;

static void difference_release(void *object)
{
    tn_drop(((difference *)object)->next);
}

static const tn_object_class difference_class = {
    sizeof difference_class, "load difference", sizeof(difference),
    difference_release};

struct tn_module_report {
    tn_object object;
    difference *first; /* counted reference */
    int count;
    char text[];
};

static void report_release(void *object)
{
    tn_drop(((tn_module_report *)object)->first);
}

static const tn_object_class report_class = {sizeof report_class, "load report",
                                             sizeof(tn_module_report),
                                             report_release};

/* Checks the argument of a function that reads an attribute. NULL returns false
 * without an error. */
static bool is_report(const tn_module_report *report, const char *what)
{
    return report && tn_object_check(report, &report_class, what, "report");
}

int tn_module_report_count(const tn_module_report *report)
{
    return is_report(report, "module_report_count") ? report->count : 0;
}

const tn_load_difference *tn_module_report_at(const tn_module_report *report,
                                              int i)
{
    const difference *d =
        is_report(report, "module_report_at") && i >= 0 ? report->first : NULL;
    for (; d && i > 0; i--)
        d = d->next;
    return d ? &d->shown : NULL;
}

const char *tn_module_report_text(const tn_module_report *report)
{
    return is_report(report, "module_report_text") ? report->text : NULL;
}

/* ---- edit distance ------------------------------------------------------- */

/* Returns the number of characters to insert and delete that turns a into b (V.
 * I. Levenshtein, 1966), or `most` if there are at least `most`. A replacement
 * counts as two, so "0.weight" is nearer to "body.0.weight" than to
 * "last.weight". */
static int edit_distance(const char *a, const char *b, int most)
{
    while (*a && *a == *b)
        a++, b++;
    int m = (int)strlen(a), n = (int)strlen(b);
    while (m && n && a[m - 1] == b[n - 1])
        m--, n--;
    int row[TN__NN_PATH_BYTES];
    if (n >= TN__NN_PATH_BYTES || (m > n ? m - n : n - m) >= most)
        return most;
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 1; i <= m; i++) {
        int corner = row[0], least = row[0] = i;
        for (int j = 1; j <= n; j++) {
            int best = corner + 2 * (a[i - 1] != b[j - 1]);
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            corner = row[j];
            row[j] = best;
            least = best < least ? best : least;
        }
        if (least >= most)
            return most;
    }
    return row[n];
}

/* ---- comparing ----------------------------------------------------------- */

typedef struct load {
    tn_object object;
    tn__nn_state *state;
    tn_safetensors *file;
    tn_module_report *report; /* made at the end */
    difference *first, **last;
    int count;
    size_t bytes;   /* length of the descriptions of all differences */
    int file_count; /* tensors in the file */
    int *of_state;  /* index in the file of each module tensor, or -1 */
    int *of_file;   /* index in the module of each file tensor, -1 if it has no
                       such tensor, or LEFT_OUT if rename skips it */
    char **renamed; /* names of file tensors after renaming; owned by the open
                       scope */
} load;

typedef struct renamed_name {
    tn_object object;
    char text[];
} renamed_name;

static const tn_object_class renamed_class = {
    sizeof renamed_class, "renamed name", sizeof(renamed_name), NULL};

enum { LEFT_OUT = -2 };

static const tn_object_class load_class = {sizeof load_class, "load",
                                           sizeof(load), NULL};

static char *copy_text(char **to, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *at = memcpy(*to, text, bytes);
    *to += bytes;
    return at;
}

static bool add(load *l, int kind, const char *name, const char *in_file,
                const char *nearest, const char *text)
{
    const char *const from[] = {name, in_file, nearest, text};
    size_t bytes = 0;
    for (int i = 0; i < 4; i++)
        bytes += from[i] ? strlen(from[i]) + 1 : 0;
    difference *d = tn_object_new(&difference_class, bytes);
    if (!d)
        return false;
    char *at = d->text;
    d->shown = (tn_load_difference){.size = sizeof d->shown, .kind = kind};
    const char **const to[] = {&d->shown.name, &d->shown.in_file,
                               &d->shown.nearest, &d->shown.text};
    for (int i = 0; i < 4; i++)
        if (from[i])
            *to[i] = copy_text(&at, from[i]);
    *l->last = tn_keep(d);
    l->last = &d->next;
    l->count++;
    l->bytes += strlen(text) + 1;
    return true;
}

/* Returns the name that is most similar to `name` among the names[i] without a
 * match (other[i] is -1). Returns NULL if its edit distance exceeds two thirds
 * of the longer name's length. */
static const char *nearest(const char *name, const char *const *names,
                           const int *other, int count)
{
    const char *best = NULL;
    int least = TN__NN_PATH_BYTES;
    for (int i = 0; i < count; i++) {
        if (other[i] != -1)
            continue;
        int length = (int)(strlen(name) > strlen(names[i]) ? strlen(name)
                                                           : strlen(names[i]));
        int most = 2 * length / 3 + 1;
        most = most < least ? most : least;
        int distance = edit_distance(name, names[i], most);
        if (distance < most) {
            best = names[i];
            least = distance;
        }
    }
    return best;
}

static bool add_absent(load *l, int kind, const char *name, const char *in_file,
                       const char *similar)
{
    char text[3 * TN__NN_PATH_BYTES];
    const char *shown = name ? name : in_file;
    snprintf(text, sizeof text, "the %s has no \"%s\"%s%s%s",
             kind == TN_LOAD_MISSING ? "file" : "module", shown,
             similar ? " (nearest: \"" : "", similar ? similar : "",
             similar ? "\")" : "");
    return add(l, kind, name, in_file, similar, text);
}

static void shape_text(char *text, size_t room, int ndim, const int64_t *shape)
{
    size_t at = (size_t)snprintf(text, room, "(");
    for (int d = 0; d < ndim && at < room; d++)
        at += (size_t)snprintf(text + at, room - at, d ? ", %lld" : "%lld",
                               (long long)shape[d]);
    if (at < room)
        snprintf(text + at, room - at, ndim == 1 ? ",)" : ")");
}

/* Adds a difference if the shape or dtype of tensor i of the module and of its
 * match in the file differ. */
static bool add_unlike(load *l, int i)
{
    const char *name = l->state->name[i];
    const char *in_file = tn_safetensors_name(l->file, l->of_state[i]);
    const tn_tensor *x = l->state->tensor[i];
    int ndim = tn_safetensors_ndim(l->file, in_file);
    const int64_t *shape = tn_safetensors_shape(l->file, in_file);
    tn_dtype dtype = tn_safetensors_dtype(l->file, in_file);
    char text[2 * TN__NN_PATH_BYTES], a[200], b[200];
    bool fine = true;
    if (ndim != tn_tensor_ndim(x) ||
        (ndim && memcmp(shape, tn_tensor_shape(x),
                        (size_t)ndim * sizeof *shape) != 0)) {
        shape_text(a, sizeof a, ndim, shape);
        shape_text(b, sizeof b, tn_tensor_ndim(x), tn_tensor_shape(x));
        snprintf(text, sizeof text,
                 "\"%s\" has shape %s in the file, %s in the module", name, a,
                 b);
        fine = add(l, TN_LOAD_SHAPE, name, in_file, NULL, text);
    }
    if (dtype == tn_tensor_dtype(x) || !fine)
        return fine;
    snprintf(text, sizeof text, "\"%s\" is %s in the file, %s in the module",
             name, dtype ? tn_dtype_name(dtype) : "of an unknown dtype",
             tn_dtype_name(tn_tensor_dtype(x)));
    return add(l, TN_LOAD_DTYPE, name, in_file, NULL, text);
}

/* Applies the pairs of `rename` to a name of the file and writes the result to
 * `to`. Returns false if the tensor is to be skipped. */
static bool rename_one(const char *name, const tn_rename *pairs, char *to,
                       size_t room)
{
    for (; pairs && pairs->from; pairs++) {
        size_t length = strlen(pairs->from);
        if (strncmp(name, pairs->from, length) != 0)
            continue;
        if (pairs->to)
            snprintf(to, room, "%s%s", pairs->to, name + length);
        return pairs->to;
    }
    snprintf(to, room, "%s", name);
    return true;
}

/* Finds the tensors of file and module that have the same name. */
static tn_status match(load *l, const tn_rename *pairs)
{
    char name[2 * TN__NN_PATH_BYTES];
    for (int i = 0; i < l->state->count; i++)
        l->of_state[i] = -1;
    for (int k = 0; k < l->file_count; k++) {
        const char *in_file = tn_safetensors_name(l->file, k);
        l->of_file[k] = -1;
        if (!rename_one(in_file, pairs, name, sizeof name)) {
            l->of_file[k] = LEFT_OUT;
            continue;
        }
        renamed_name *to = tn_object_new(&renamed_class, strlen(name) + 1);
        if (!to)
            return tn_error_code();
        l->renamed[k] = strcpy(to->text, name);
        for (int i = 0; i < l->state->count; i++) {
            if (strcmp(l->state->name[i], name) != 0)
                continue;
            if (l->of_state[i] >= 0)
                return tn_error_refuse_argument(
                    TN_ERR_ARGUMENT, "module_load", "rename",
                    "\"%s\" and \"%s\" of the file both become \"%s\"",
                    tn_safetensors_name(l->file, l->of_state[i]), in_file,
                    name);
            l->of_state[i] = k;
            l->of_file[k] = i;
            break;
        }
    }
    return TN_OK;
}

static bool compare(load *l)
{
    bool fine = true;
    const char **file_names = (const char **)l->renamed;
    for (int i = 0; i < l->state->count && fine; i++)
        fine = l->of_state[i] >= 0
                   ? add_unlike(l, i)
                   : add_absent(l, TN_LOAD_MISSING, l->state->name[i], NULL,
                                nearest(l->state->name[i], file_names,
                                        l->of_file, l->file_count));
    for (int k = 0; k < l->file_count && fine; k++)
        if (l->of_file[k] == -1)
            fine = add_absent(l, TN_LOAD_UNEXPECTED, NULL,
                              tn_safetensors_name(l->file, k),
                              nearest(l->renamed[k], l->state->name,
                                      l->of_state, l->state->count));
    if (!fine)
        return false;
    l->report = tn_object_new(&report_class, l->bytes + 1);
    if (!l->report)
        return false;
    l->report->first = tn_keep(l->first);
    l->report->count = l->count;
    char *at = l->report->text;
    for (const difference *d = l->first; d; d = d->next)
        at += sprintf(at, "%s%s", d == l->first ? "" : "\n", d->shown.text);
    return true;
}

/* Records an error that lists the differences, as far as they fit beside the
 * path. Without strict, only differences of shape count. */
static tn_status judge(const load *l, bool strict, const char *path)
{
    static const tn_status codes[] = {TN_ERR_ARGUMENT, TN_ERR_ARGUMENT,
                                      TN_ERR_SHAPE, TN_ERR_DTYPE};
    char text[1600];
    size_t at = 0;
    tn_status code = TN_OK;
    int left = 0;
    for (const difference *d = l->first; d; d = d->next) {
        if (!strict && d->shown.kind != TN_LOAD_SHAPE)
            continue;
        size_t more = strlen(d->shown.text) + 2;
        if (left > 0 || (code < 0 && at + more >= sizeof text)) {
            left++;
            continue;
        }
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s",
                               code < 0 ? "; " : "", d->shown.text);
        code = code < 0 ? code : codes[d->shown.kind];
    }
    if (code == TN_OK)
        return TN_OK;
    if (left > 0)
        return tn_error_refuse_argument(code, "module_load", "path",
                                        "%s: %s; and %d more", path, text,
                                        left);
    return tn_error_refuse_argument(code, "module_load", "path", "%s: %s", path,
                                    text);
}

/* ---- loading ------------------------------------------------------------- */

static tn_status load_into(const load *l)
{
    tn_status status = TN_OK;
    TN_NO_GRAD
    {
        for (int i = 0; i < l->state->count && status == TN_OK; i++) {
            tn_tensor *x = l->state->tensor[i], *y;
            if (l->of_state[i] < 0)
                continue;
            y = tn_safetensors_tensor(
                l->file, tn_safetensors_name(l->file, l->of_state[i]));
            y = y ? tn_to(y, tn_tensor_device(x)) : NULL;
            if (!y || !tn_copy_(x, y))
                status = tn_error_code();
        }
    }
    return status;
}

static load *load_new(tn__nn_state *state, tn_safetensors *file)
{
    size_t count = (size_t)tn_safetensors_count(file);
    size_t ints = ((size_t)state->count + count) * sizeof(int);
    load *l = tn_object_new(&load_class, count * sizeof(char *) + ints);
    if (!l)
        return NULL;
    l->state = state;
    l->file = file;
    l->file_count = (int)count;
    l->last = &l->first;
    l->renamed = (char **)(l + 1);
    l->of_state = (int *)(l->renamed + count);
    l->of_file = l->of_state + state->count;
    return l;
}

TN_OPTIONS_TYPE(tn_module_load, "module_load", "module, path",
                TN_MODULE_LOAD_OPTIONS_LIST)

tn_status tn_module_load_with(tn_module *module, const char *path,
                              const tn_module_load_options *options)
{
    tn_module_load_options o;
    if (tn_error())
        return TN_ERR_STATE;
    if (tn_options_take(tn_module_load_type(), &o, options) < 0)
        return tn_error_code();
    if (o.report)
        *o.report = NULL;
    if (!tn__nn_module(module, "module_load") ||
        !tn__nn_not_null(path, "module_load", "path"))
        return TN_ERR_ARGUMENT;
    tn_scope *scope = tn_scope_open();
    tn_safetensors *file = tn_safetensors_open(path);
    tn__nn_state *state = file ? tn__nn_state_of(module) : NULL;
    load *l = state ? load_new(state, file) : NULL;
    tn_status status = l ? match(l, o.rename) : tn_error_code();
    if (status == TN_OK && !compare(l))
        status = tn_error_code();
    if (status == TN_OK)
        status = judge(l, o.strict, path);
    if (status == TN_OK)
        status = load_into(l);
    tn_error_rename("safetensors_open", "module_load", "path");
    tn_error_rename("safetensors_tensor", "module_load", "path");
    tn_module_report *report = l && o.report ? l->report : NULL;
    if (l)
        tn_drop(l->first);
    report = tn_scope_result(scope, report);
    if (o.report)
        *o.report = report;
    return status;
}
