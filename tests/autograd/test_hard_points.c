/* Tests first and second derivatives of every differentiable operator at hard
 * points: at 0, next to it, where exp overflows, at infinity, for constants,
 * for rows of zeros. hard_points.txt has the calls and the right values, made
 * by hard_points.py. hard_differs.def lists known differences, with reasons.
 * The test also fails for an entry that no longer differs, and for a
 * differentiable operator that no call reaches. It runs on the current device
 * and on reference.
 *
 *     test_hard_points [NAME]    only that operator's calls */
#include <base/memory.h>
#include <math.h>
#include <tenon/autograd.h>
#include "words.h"

/* The largest allowed number of NaN derivatives in each dtype, counted where
 * PyTorch's are NaN as well or hard_differs.def lists them. Lower a limit when
 * the count falls. */
#define MOST_NANS_F32 17887
#define MOST_NANS_F64 17767

/* Known differences: the elements of a call that differ, such as "g0[3 5-7]",
 * over all derivatives and leaves, by dtype. */
static const struct differs {
    const char *call, *f32, *f64, *reason; /* call: "name variant arguments" */
} differs[] = {
#include "hard_differs.def"
};
enum { DIFFERS = sizeof differs / sizeof differs[0] };
static bool met[DIFFERS];

/* Operators that no call of the file uses, and the reason. */
static const struct {
    const char *op, *why;
} unreached[] = {
#include "hard_unreached.def"
};
enum { UNREACHED = sizeof unreached / sizeof unreached[0] };

static struct {
    int cases, numbers, nans[2], listed;
} counts;

/* ---- the file ----------------------------------------------------------- */

struct variant {
    char name[16];
    double number[64];
    int count;
};
static struct variant variants[16];
static int variant_count;

static char *file, *at; /* at: start of the next line */

static void open_file(void)
{
    char path[1024];
    const char *top = getenv("top_builddir");
    snprintf(path, sizeof path, "%s/tests/autograd/hard_points.txt",
             top ? top : ".");
    FILE *f = fopen(path, "rb");
    if (!f)
        bail_out("%s: cannot be read", path);
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    rewind(f);
    file = malloc(size + 1);
    if (!file || fread(file, 1, size, f) != size)
        bail_out("%s: cannot be read", path);
    file[size] = '\0';
    fclose(f);
    at = file;
}

/* Returns the next line without its newline, or NULL at the end of the file. */
static char *next_line(void)
{
    if (!*at)
        return NULL;
    char *line = at;
    at += strcspn(at, "\n");
    if (*at)
        *at++ = '\0';
    return line;
}

static int read_numbers(const char *text, double *number, int room)
{
    int count = 0;
    char *end;
    for (double v; v = strtod(text, &end), end != text; text = end) {
        if (count == room)
            bail_out("more than %d numbers: %.40s", room, text);
        number[count++] = v;
    }
    return count;
}

static void read_variant(char *line)
{
    struct variant *v = &variants[variant_count++];
    char *space = strchr(line, ' ');
    *space = '\0';
    snprintf(v->name, sizeof v->name, "%s", line);
    v->count = read_numbers(space + 1, v->number,
                            sizeof v->number / sizeof *v->number);
}

static const struct variant *find_variant(const char *name)
{
    for (int i = 0; i < variant_count; i++)
        if (strcmp(variants[i].name, name) == 0)
            return &variants[i];
    return NULL;
}

/* ---- leaves -------------------------------------------------------------- */

/* Returns element i of a leaf as hard_points.py fills it: with all pairs of
 * hard points, or with the points in order. */
static double number_of(const struct call *call, int leaf, int64_t i,
                        int64_t count, double drawn)
{
    enum { SHIFT = 3, THREE = 125 };
    const struct variant *v = call->context;
    if (strcmp(v->name, "plain") == 0)
        return drawn;
    if (strncmp(v->name, "cross", 5) != 0)
        return v->number[(i + (strcmp(v->name, "equal") ? SHIFT * leaf : 0)) %
                         v->count];
    if (count == THREE)
        v = find_variant("cross3");
    for (; leaf > 0; leaf--)
        i /= v->count;
    return v->number[i % v->count];
}

/* Returns a tensor of x's shape and dtype that repeats the given weights. */
static tn_tensor *weights_like(tn_tensor *x, const double *weight, int count)
{
    double number[4 * MOST_NUMBERS];
    int64_t numel = tn_tensor_numel(x);
    for (int64_t i = 0; i < numel; i++)
        number[i] = weight[i % count];
    tn_dims_list shape = {tn_tensor_ndim(x), {0}};
    for (int d = 0; d < shape.count; d++)
        shape.dim[d] = tn_tensor_size(x, d);
    return tn_to_dtype(tn_tensor_from_array(number, TN_F64, shape),
                       tn_tensor_dtype(x));
}

/* A library may return a singular vector or its negative. Gives each vector the
 * sign that LAPACK's result has. */
static tn_tensor *signs_of_lapack(const struct call *call, tn_tensor *y)
{
    static const struct {
        const char *op;
        int output, rows;
        double sign[3];
    } vectors[] = {{"linalg_eigh", 1, 3, {-1, -1, -1}},
                   {"linalg_svd", 0, 3, {-1, -1, -1}},
                   {"linalg_svd", 0, 4, {-1, 1}}};
    for (size_t i = 0; y && i < sizeof vectors / sizeof *vectors; i++)
        if (strcmp(tn_op_name(call->op), vectors[i].op) == 0 &&
            call->output == vectors[i].output &&
            tn_tensor_size(y, -2) == vectors[i].rows) {
            tn_tensor *first = tn_select(tn_detach(y), -2, 0);
            y = tn_mul(y, tn_mul(tn_sign(first),
                                 weights_like(first, vectors[i].sign, 3)));
        }
    return y;
}

/* Computes first derivatives, and as second derivatives those of a weighted sum
 * of the first ones with respect to the leaves and then to the gradients of the
 * output. */
static tn_status differentiate(const struct call *call, bool twice,
                               tn_tensor **first, tn_tensor **second)
{
    static const double weights[] = {1, 0.5, -2, 0.75, 1.25};
    static const double again[] = {1, -0.5, 2, 1.5};
    tn_tensor *y = run(call->leaf, call->leaf_count, (void *)call);
    y = signs_of_lapack(call, y);
    if (!y || !tn_tensor_requires_grad(y))
        return tn_error_code();
    if (tn_tensor_numel(y) > 4 * MOST_NUMBERS)
        return TN_ERR_SHAPE;
    tn_tensor *along = tn_requires_grad(weights_like(y, weights, 5));
    tn_status status =
        tn_grad(tn_sum(tn_mul(y, along)), call->leaf, call->leaf_count, first,
                .create_graph = true, .allow_unused = true);
    tn_tensor *sum = NULL, *leaf[ROOM + 1];
    for (int i = 0; i < call->leaf_count && status >= 0; i++) {
        leaf[i] = call->leaf[i];
        if (!first[i] || !tn_tensor_requires_grad(first[i]))
            continue;
        tn_tensor *part =
            tn_sum(tn_mul(first[i], weights_like(first[i], again, 4)));
        sum = sum ? tn_add(sum, part) : part;
    }
    leaf[call->leaf_count] = along;
    if (status >= 0 && sum && twice)
        status = tn_grad(sum, leaf, call->leaf_count + 1, second,
                         .allow_unused = true);
    return status;
}

/* ---- the comparison ------------------------------------------------------ */

/* Where PyTorch's result is NaN, any result passes. */
static bool is_near(double got, double want, double scale, tn_dtype dtype)
{
    double relative = dtype == TN_F32 ? 2e-4 : 1e-7;
    double absolute = dtype == TN_F32 ? 4e-6 : 1e-13;
    if (dtype == TN_F32)
        want = (double)(float)want;
    if (isnan(want) || isnan(got))
        return isnan(want); /* PyTorch's result is NaN, so ours may be any
                             * number */
    if (isinf(want) || isinf(got))
        return got == want;
    return fabs(got - want) <= relative * fabs(want) + absolute * scale;
}

static void add_places(char *text, size_t room, const bool *differs_at,
                       int count)
{
    size_t length = strlen(text);
    const char *between = "";
    for (int i = 0; i < count; i++) {
        int last = i;
        if (!differs_at[i])
            continue;
        while (last + 1 < count && differs_at[last + 1])
            last++;
        length += (size_t)snprintf(text + length, room - length,
                                   *between ? " %d" : "%d", i);
        if (last > i)
            length +=
                (size_t)snprintf(text + length, room - length, "-%d", last);
        between = " ";
        i = last;
        if (length + 64 > room)
            return;
    }
}

/* Appends to text the indices at which got differs from want. */
static void compare(const struct call *call, tn_tensor *got, const double *want,
                    int count, bool pointwise, const char *what, char *text,
                    size_t room)
{
    double number[MOST_NUMBERS], scale = 1;
    bool other[MOST_NUMBERS], any = false;
    memset(number, 0, sizeof number);
    if (got && (tn_tensor_numel(got) != count ||
                tn_tensor_to_array(tn_to_dtype(tn_detach(got), TN_F64), number,
                                   sizeof *number * (size_t)count) < 0)) {
        snprintf(text + strlen(text), room - strlen(text), "%s[?]", what);
        return;
    }
    for (int i = 0; i < count && !pointwise; i++)
        if (isfinite(want[i]) && fabs(want[i]) > scale)
            scale = fabs(want[i]);
    for (int i = 0; i < count; i++) {
        other[i] = !is_near(number[i], want[i], scale, call->dtype);
        any |= other[i];
        counts.numbers++;
        counts.nans[call->dtype == TN_F64] += isnan(number[i]);
    }
    if (!any)
        return;
    for (int i = 0; i < count && getenv("TN_HARD_NOTES"); i++)
        if (other[i])
            note("  %s %s[%d]: %.9g, not %.9g",
                 call->dtype == TN_F32 ? "f32" : "f64", what, i, number[i],
                 want[i]);
    snprintf(text + strlen(text), room - strlen(text), "%s[", what);
    add_places(text, room, other, count);
    snprintf(text + strlen(text), room - strlen(text), "]");
}

static void check_case(const char *name, const struct variant *variant,
                       const char *words,
                       double want[2][ROOM + 1][MOST_NUMBERS],
                       int size[2][ROOM + 1], const int count[2])
{
    char title[160], text[2][600] = {"", ""};
    bool pointwise = strcmp(variant->name, "points") == 0 ||
                     strcmp(variant->name, "cross") == 0;
    snprintf(title, sizeof title, "%s %s %s", name, variant->name, words);
    for (char *c = title; *c; c++)
        *c = *c == '@' ? ':' : *c;
    char op[64];
    snprintf(op, sizeof op, "%s", name);
    for (char *c = op; *c; c++)
        *c = *c == '@' ? ' ' : *c;
    const struct sample sample = {op, words};
    for (int t = 0; t < 2; t++) {
        tn_scope *scope = tn_scope_open();
        struct call call = {.dtype = t ? TN_F64 : TN_F32,
                            .fill = number_of,
                            .context = variant};
        read_call(&call, &sample);
        tn_tensor *derivative[2][ROOM + 1] = {{NULL}};
        tn_status status = call.op ? differentiate(&call, count[1] > 0,
                                                   derivative[0], derivative[1])
                                   : TN_ERR_ARGUMENT;
        if (status < 0) {
            snprintf(text[t], sizeof text[t], "refused");
            note("%s: %s", title, tn_error() ? tn_error() : "no message");
        }
        for (int order = 0; order < 2; order++)
            for (int i = 0; i < count[order] && status >= 0; i++) {
                char what[16];
                snprintf(what, sizeof what, "%c%d", "gh"[order], i);
                compare(&call, derivative[order][i], want[order][i],
                        size[order][i], pointwise, what, text[t],
                        sizeof text[t]);
            }
        tn_error_clear();
        tn_scope_close(scope);
    }
    counts.cases++;
    const struct differs *entry = NULL;
    for (int i = 0; i < DIFFERS && !entry; i++)
        if (strcmp(differs[i].call, title) == 0) {
            entry = &differs[i];
            met[i] = true;
        }
    const char *f32 = entry ? entry->f32 : "";
    const char *f64 = entry && entry->f64 ? entry->f64 : f32;
    bool good = strcmp(text[0], f32) == 0 && strcmp(text[1], f64) == 0;
    counts.listed += entry != NULL;
    if (!good || entry)
        ok(good, "derivatives of %s%s%s", title, entry ? ": " : "",
           entry ? entry->reason : "");
    if (!good)
        note("{\"%s\", \"%s\", \"%s\", \"\"},", title, text[0], text[1]);
}

/* ---- operators that were reached ----------------------------------------- */

static bool reached[4096];
static tn_status (*record)(tn__call *call);

static tn_status watch(tn__call *call)
{
    /* An id of -1 means that the operator has no row in the table. */
    if (call->op->id >= 0 && call->op->id < 4096)
        reached[call->op->id] = true;
    return record(call);
}

static void check_reached(void)
{
    for (int i = 0; i < tn_op_count(); i++) {
        const tn_op *op = tn_op_at(i);
        if (!tn_op_is_differentiable(op) || op->inplace)
            continue;
        const char *why = NULL;
        for (int k = 0; k < UNREACHED; k++)
            if (strcmp(unreached[k].op, tn_op_name(op)) == 0)
                why = unreached[k].why;
        bool of_devices = why && strncmp(why, "of devices", 10) == 0;
        if (of_devices || reached[op->id] == !why)
            continue;
        ok(false, "%s: %s", tn_op_name(op),
           why ? "is reached, take it out of hard_unreached.def"
               : "has no call in hard_points.txt (see hard_points.py)");
    }
}

/* ---- the calls of the file ----------------------------------------------- */

/* Runs the calls of the operator `only`, or all calls if it is NULL. */
static void run_all(const char *only)
{
    long number = 0;
    static double want[2][ROOM + 1][MOST_NUMBERS];
    static int size[2][ROOM + 1];
    char *line = next_line();
    while (line) {
        if (strncmp(line, "variant ", 8) == 0) {
            read_variant(line + 8);
            line = next_line();
            continue;
        }
        if (strncmp(line, "case ", 5) != 0) {
            line = next_line(); /* a comment line */
            continue;
        }
        char *name = line + 5, *variant = strchr(name, ' ');
        *variant++ = '\0';
        char *words = strchr(variant, ' ');
        *words++ = '\0';
        int leaves[2] = {0, 0};
        while ((line = next_line()) && (*line == 'g' || *line == 'h')) {
            int order = *line == 'h';
            size[order][leaves[order]] = read_numbers(
                line + 1, want[order][leaves[order]], MOST_NUMBERS);
            leaves[order]++;
        }
        char op[64];
        snprintf(op, sizeof op, "%.*s", (int)strcspn(name, "@"), name);
        if (!in_part(number++) || (only && strcmp(only, op) != 0))
            continue;
        const tn_op *row = find_row(op);
        if (!ok(row != NULL, "%s is in the table", op) ||
            !ok(find_variant(variant) != NULL, "%s is a variant", variant))
            continue;
        reached[row->id] = true;
        check_case(name, find_variant(variant), words, want, size, leaves);
    }
}

static void run_on(tn_device *device, const char *only)
{
    if (!device || tn_device_set(device) < 0)
        bail_out("%s", tn_error());
    memset(&counts, 0, sizeof counts);
    memset(reached, 0, sizeof reached);
    variant_count = 0;
    open_file();
    run_all(only);
    free(file);
    if (!only && !getenv("TENON_TEST_PART")) {
        check_reached();
        /* The counts are upper limits: where PyTorch's result is NaN, ours may
         * be a number. */
        ok(counts.nans[0] <= MOST_NANS_F32 && counts.nans[1] <= MOST_NANS_F64,
           "%d and %d derivatives are NaN, no more than ever", counts.nans[0],
           counts.nans[1]);
    }
    note("%s: %d calls in two dtypes, %d derivatives, of which %d and %d are "
         "NaN; %d calls differ somewhere, as listed",
         tn_device_name(device), counts.cases, counts.numbers, counts.nans[0],
         counts.nans[1], counts.listed);
}

int main(int count, char **arguments)
{
    plan_later();
    const char *only = count > 1 ? arguments[1] : NULL;
    record = tn__hooks.record;
    tn__hooks.record = watch;
    tn_device *device = tn_device_current();
    run_on(device, only);
    const bool parted = getenv("TENON_TEST_PART") != NULL;
    const bool all = !only && !parted;
    if (parted)
        skip(1, "rows that have no call and totals, which need all cases");
    for (int i = 0; i < DIFFERS && all; i++)
        if (!met[i])
            ok(false, "%s: no such call, take it out of hard_differs.def",
               differs[i].call);
    if (device && strncmp(tn_device_name(device), "reference", 9) != 0)
        run_on(tn_device_open("reference"), only);
    tn__hooks.record = record;
    return done_testing();
}
