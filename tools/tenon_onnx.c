/* tenon_onnx.c: `tenon onnx info|check|run|bench|diff`. */
#include "tenon_onnx.h"
#include "tenon_lm.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <tenon/io.h>
#include <tenon/onnx.h>
#include <tenon/ops.h>
#include <tenon/random.h>
#include <time.h>

enum { SIZES = 64 };

typedef struct options {
    const char *in, *out;
    const char *size[SIZES]; /* "NAME=N" */
    int size_count;
    int64_t seed, runs;
    double tolerance;
    bool nodes;
} options;

static double read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

/* ---- info and check ------------------------------------------------------ */

static void print_value(const char *what, const tn_onnx_value_info *v)
{
    printf("%-14s%s: %s", what, v->name, v->type);
    if (v->ndim < 0)
        fputs(" of any shape", stdout);
    for (int i = 0; i < v->ndim; i++) {
        fputs(i ? ", " : " (", stdout);
        if (v->shape[i] >= 0)
            printf("%" PRId64, v->shape[i]);
        else
            fputs(v->dim_name[i] ? v->dim_name[i] : "?", stdout);
    }
    puts(v->ndim > 0 ? v->is_optional ? "), optional" : ")"
                     : v->is_optional ? ", optional" : "");
}

static int info(const char *path)
{
    tn_onnx_sizes s = {.size = sizeof s};
    tn_module *net = tn_onnx_open(path);
    if (!net || tn_onnx_info(net, &s) < 0)
        return lm_complain();
    printf("%-14s%s\n", "graph", s.graph);
    printf("%-14s%s\n", "producer", s.producer);
    printf("%-14s%" PRId64 ", IR version %" PRId64 "\n", "opset", s.opset,
           s.ir_version);
    printf("%-14s%" PRId64 ", %" PRId64
           " of them computed when it was opened\n",
           "nodes", s.nodes, s.folded_nodes);
    printf("%-14s%" PRId64 ", %.1f MB; constants %.1f MB\n", "parameters",
           s.parameters, (double)s.parameter_bytes * 1e-6,
           (double)s.constant_bytes * 1e-6);
    tn_onnx_value_info v = {.size = sizeof v};
    for (int i = 0; i < tn_onnx_input_count(net); i++)
        if (tn_onnx_input(net, i, &v) == TN_OK)
            print_value("input", &v);
    for (int i = 0; i < tn_onnx_output_count(net); i++)
        if (tn_onnx_output(net, i, &v) == TN_OK)
            print_value("output", &v);
    return tn_error() ? lm_complain() : 0;
}

static void print_problem(const tn_onnx_node_info *node, void *context)
{
    (void)context;
    printf("%s%s%s \"%s\": %s\n", node->domain, *node->domain ? "::" : "",
           node->op, node->name, node->problem);
}

static int check(const char *path)
{
    const int64_t problems = tn_onnx_check(path, print_problem, NULL);
    if (problems < 0)
        return lm_complain();
    if (problems)
        printf("%" PRId64 " not supported\n", problems);
    else
        puts("everything is supported");
    return problems != 0;
}

/* Prints the operators as the Markdown table of docs/onnx.md. */
static int list_ops(void)
{
    tn_onnx_op_info op = {.size = sizeof op};
    puts("| operator | opsets | attributes |\n|---|---|---|");
    for (int i = 0; tn_onnx_op(i, &op); i++)
        printf("| %s%s%s | %d to %d | %s |\n", op.domain,
               *op.domain ? "::" : "", op.name, op.since, op.until,
               op.attributes);
    return tn_error() ? lm_complain() : 0;
}

/* ---- inputs -------------------------------------------------------------- */

typedef struct values {
    int in_count, out_count;
    tn_tensor **in, **out;
} values;

/* Returns the size of the dynamic dimension of this name: the one that --size
 * sets, or 1. Sets used[i] if it is that of o->size[i]. */
static int64_t dynamic_size(const options *o, const char *name, bool *used)
{
    const size_t length = name ? strlen(name) : 0;
    for (int i = 0; i < o->size_count && name; i++)
        if (strncmp(o->size[i], name, length) == 0 &&
            o->size[i][length] == '=') {
            used[i] = true;
            return strtoll(o->size[i] + length + 1, NULL, 10);
        }
    return 1;
}

static tn_tensor *random_input(const options *o, const tn_onnx_value_info *v,
                               bool *used)
{
    int64_t size[TN_MAX_NDIM];
    const int ndim = v->ndim < 0 ? 0 : v->ndim;
    if (ndim > TN_MAX_NDIM)
        return NULL;
    for (int i = 0; i < ndim; i++)
        size[i] = v->shape[i] >= 0 ? v->shape[i]
                                   : dynamic_size(o, v->dim_name[i], used);
    const tn_dims_list shape = tn_dims_from_array(size, ndim);
    if (tn_dtype_is_floating(v->dtype))
        return tn_to_dtype(tn_randn(shape, .dtype = TN_F32), v->dtype);
    /* integer inputs are ids and masks, for which 0 and 1 are valid */
    return tn_to_dtype(tn_randint(0, 2, shape, .dtype = TN_I64), v->dtype);
}

/* Loads the inputs from the file of -i or, without -i, makes random ones. */
static bool read_inputs(const options *o, tn_module *net, values *v)
{
    bool used[SIZES] = {false};
    tn_safetensors *file = o->in ? tn_safetensors_open(o->in) : NULL;
    v->in_count = tn_onnx_input_count(net);
    v->out_count = tn_onnx_output_count(net);
    v->in = calloc((size_t)(v->in_count + v->out_count) + 1, sizeof *v->in);
    v->out = v->in + v->in_count;
    if (!v->in || tn_error())
        return false;
    tn_manual_seed((uint64_t)o->seed);
    for (int i = 0; i < v->in_count; i++) {
        tn_onnx_value_info info = {.size = sizeof info};
        char name[1024];
        if (tn_onnx_input(net, i, &info) < 0)
            return false;
        snprintf(name, sizeof name, "in.%s", info.name);
        const char *found = tn_safetensors_has(file, name)        ? name
                            : tn_safetensors_has(file, info.name) ? info.name
                                                                  : NULL;
        if (found)
            v->in[i] = tn_safetensors_tensor(file, found);
        else if (file && !info.is_optional)
            tn_error_set(TN_ERR_ARGUMENT,
                         "%s has no tensor \"in.%s\" or \"%s\" for this input",
                         o->in, info.name, info.name);
        else if (!info.is_optional)
            v->in[i] = random_input(o, &info, used);
    }
    for (int i = 0; i < o->size_count; i++)
        if (!used[i])
            tn_error_set(TN_ERR_ARGUMENT,
                         "--size %s: no random input has a dynamic dimension "
                         "of this name",
                         o->size[i]);
    return !tn_error();
}

/* ---- run ----------------------------------------------------------------- */

static int save(const options *o, tn_module *net, const values *v)
{
    char **name = calloc((size_t)v->out_count + 1, sizeof *name);
    bool fine = name != NULL;
    for (int i = 0; i < v->out_count && fine; i++) {
        tn_onnx_value_info info = {.size = sizeof info};
        fine = tn_onnx_output(net, i, &info) == TN_OK;
        const size_t room = strlen(info.name) + 5;
        name[i] = malloc(room);
        fine = fine && name[i];
        if (fine)
            snprintf(name[i], room, "out.%s", info.name);
    }
    fine = fine && tn_safetensors_save(o->out, (const char *const *)name,
                                       v->out, v->out_count, NULL, 0) == TN_OK;
    for (int i = 0; i < v->out_count && name; i++)
        free(name[i]);
    free(name);
    return fine ? 0 : lm_complain();
}

static int run(const options *o, const char *path)
{
    values v = {0};
    tn_module *net = tn_onnx_open(path);
    int status = 1;
    if (!net || !read_inputs(o, net, &v) ||
        tn_onnx_run(net, v.in, v.in_count, v.out, v.out_count) < 0) {
        status = lm_complain();
    } else if (o->out) {
        status = save(o, net, &v);
    } else {
        for (int i = 0; i < v.out_count; i++) {
            tn_onnx_value_info info = {.size = sizeof info};
            tn_onnx_output(net, i, &info);
            printf("%s = ", info.name);
            tn_print(v.out[i]);
        }
        status = tn_error() ? lm_complain() : 0;
    }
    free(v.in);
    return status;
}

/* ---- bench --------------------------------------------------------------- */

enum { KINDS = 256 };

typedef struct kind {
    char op[64];
    double seconds;
    int64_t calls;
} kind;

typedef struct kinds {
    double last;
    int count;
    kind of[KINDS];
} kinds;

static void add_time(const tn_onnx_node_info *node, tn_tensor *const *outputs,
                     void *context)
{
    kinds *k = context;
    (void)outputs;
    tn_device_synchronize(NULL);
    const double at = now();
    int i = 0;
    while (i < k->count && strcmp(k->of[i].op, node->op) != 0)
        i++;
    if (i == k->count && k->count < KINDS)
        snprintf(k->of[k->count++].op, sizeof k->of[0].op, "%s", node->op);
    if (i < KINDS) {
        k->of[i].seconds += at - k->last;
        k->of[i].calls++;
    }
    k->last = now();
}

static int by_time(const void *a, const void *b)
{
    const double x = ((const kind *)a)->seconds,
                 y = ((const kind *)b)->seconds;
    return x < y ? 1 : x > y ? -1 : 0;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Runs the model once. Stores the seconds that it took, and the CPU seconds of
 * all threads. */
static bool one_run(tn_module *net, values *v, double *seconds, double *cpu)
{
    bool fine = true;
    TN_SCOPE(scope) {
        const double begin = read_clock(CLOCK_PROCESS_CPUTIME_ID);
        const double start = now();
        fine = tn_onnx_run(net, v->in, v->in_count, v->out, v->out_count) ==
                   TN_OK &&
               tn_device_synchronize(NULL) == TN_OK;
        *seconds = now() - start;
        *cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID) - begin;
    }
    return fine;
}

static int bench(const options *o, const char *path)
{
    values v = {0};
    const double start = now();
    tn_module *net = tn_onnx_open(path);
    const double open = now() - start;
    double *seconds = calloc((size_t)o->runs + 1, sizeof *seconds), first = 0;
    double cpu = 0, least_cpu = INFINITY;
    kinds *k = calloc(1, sizeof *k);
    bool fine = net && seconds && k && read_inputs(o, net, &v) &&
                one_run(net, &v, &first, &cpu);
    for (int64_t i = 0; i < o->runs && fine; i++) {
        fine = one_run(net, &v, &seconds[i], &cpu);
        least_cpu = cpu < least_cpu ? cpu : least_cpu;
    }
    if (fine) {
        qsort(seconds, (size_t)o->runs, sizeof *seconds, by_value);
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        printf("%-14s%.2f ms\n%-14s%.3f ms\n", "open", open * 1e3, "first run",
               first * 1e3);
        printf("%-14s%.3f ms median, %.3f ms least, of %" PRId64 "\n", "run",
               seconds[o->runs / 2] * 1e3, seconds[0] * 1e3, o->runs);
        if (o->runs)
            printf("%-14s%.3f ms of CPU time at least\n", "", least_cpu * 1e3);
        printf("%-14s%.1f MB of the process at most\n", "memory",
               (double)usage.ru_maxrss / 1024);
    }
    if (fine && o->nodes) {
        tn_onnx_observe(net, add_time, k);
        for (int64_t i = 0; i < o->runs && fine; i++) {
            k->last = now();
            fine = one_run(net, &v, &first, &cpu);
        }
        tn_onnx_observe(net, NULL, NULL);
        qsort(k->of, (size_t)k->count, sizeof k->of[0], by_time);
        for (int i = 0; i < k->count && fine; i++)
            printf("  %-28s%10.4f ms in %" PRId64 " nodes\n", k->of[i].op,
                   k->of[i].seconds * 1e3 / (double)o->runs,
                   k->of[i].calls / o->runs);
    }
    free(seconds);
    free(k);
    free(v.in);
    return fine ? 0 : lm_complain();
}

/* ---- diff ---------------------------------------------------------------- */

/* Returns the largest difference between elements of x and y, divided by the
 * largest finite magnitude in y. Returns infinity if shapes, dtypes or the
 * positions of NaN differ. */
static double difference(tn_tensor *x, tn_tensor *y)
{
    if (!x || !y || tn_tensor_dtype(x) != tn_tensor_dtype(y) ||
        tn_tensor_ndim(x) != tn_tensor_ndim(y))
        return INFINITY;
    for (int i = 0; i < tn_tensor_ndim(x); i++)
        if (tn_tensor_size(x, i) != tn_tensor_size(y, i))
            return INFINITY;
    if (tn_tensor_numel(x) == 0)
        return 0;
    double worst = INFINITY, scale = 0;
    TN_SCOPE(scope) {
        tn_tensor *a = tn_to_dtype(x, TN_F64), *b = tn_to_dtype(y, TN_F64);
        /* two equal infinities, or two NaN, have the difference 0 */
        tn_tensor *same = tn_logical_or(
            tn_eq(a, b), tn_logical_and(tn_isnan(a), tn_isnan(b)));
        tn_tensor *d = tn_abs(tn_sub(a, b));
        d = tn_where(same, tn_zeros_like(d), d);
        worst = tn_item(tn_amax(d));
        scale = tn_item(tn_amax(tn_nan_to_num(tn_abs(b), .posinf = 0)));
    }
    if (isnan(worst))
        return INFINITY;
    return scale > 0 ? worst / scale : worst;
}

/* The outputs of the nodes of one model, stored by name, so that the outputs of
 * the other model's nodes can be compared with them. */
typedef struct recorded {
    char **name;
    tn_tensor **value;
    size_t count, room;
    double tolerance;
    bool differs;
} recorded;

static void record(const tn_onnx_node_info *node, tn_tensor *const *outputs,
                   void *context)
{
    recorded *r = context;
    for (int i = 0; i < node->output_count; i++) {
        if (!outputs[i])
            continue;
        if (r->count == r->room) {
            const size_t room = r->room ? 2 * r->room : 64;
            char **name = realloc(r->name, room * sizeof *name);
            r->name = name ? name : r->name;
            tn_tensor **value = realloc(r->value, room * sizeof *value);
            r->value = value ? value : r->value;
            if (!name || !value)
                return;
            r->room = room;
        }
        r->name[r->count] = strdup(node->output[i]);
        r->value[r->count++] = tn_keep(outputs[i]);
    }
}

static void compare(const tn_onnx_node_info *node, tn_tensor *const *outputs,
                    void *context)
{
    recorded *r = context;
    for (int i = 0; i < node->output_count; i++)
        for (size_t j = 0; j < r->count && outputs[i]; j++) {
            if (!r->name[j] || strcmp(r->name[j], node->output[i]) != 0)
                continue;
            const double d = difference(outputs[i], r->value[j]);
            if (!(d <= r->tolerance))
                printf("  %s \"%s\" %s differs by %.3g\n", node->op, node->name,
                       node->output[i], d);
            break;
        }
}

/* Compares the outputs of the model with those in the file or, if other_path is
 * not NULL, node by node with those of the other model. Returns the exit
 * status. */
static int diff(const options *o, const char *path, const char *other_path)
{
    values v = {0}, w = {0};
    recorded r = {.tolerance = o->tolerance};
    tn_module *net = tn_onnx_open(path);
    tn_module *other = other_path ? tn_onnx_open(other_path) : NULL;
    tn_safetensors *file = o->in ? tn_safetensors_open(o->in) : NULL;
    bool fine = net && (!other_path || other) && read_inputs(o, net, &v);
    int compared = 0;
    if (fine && other) {
        tn_onnx_observe(other, record, &r);
        fine =
            read_inputs(o, other, &w) &&
            tn_onnx_run(other, w.in, w.in_count, w.out, w.out_count) == TN_OK;
        tn_onnx_observe(net, compare, &r);
    }
    fine = fine &&
           tn_onnx_run(net, v.in, v.in_count, v.out, v.out_count) == TN_OK;
    for (int i = 0; i < v.out_count && fine; i++) {
        tn_onnx_value_info info = {.size = sizeof info};
        char name[1024];
        fine = tn_onnx_output(net, i, &info) == TN_OK;
        snprintf(name, sizeof name, "out.%s", info.name);
        tn_tensor *want = NULL;
        if (other)
            want = i < w.out_count ? w.out[i] : NULL;
        else if (tn_safetensors_has(file, name))
            want = tn_safetensors_tensor(file, name);
        if (!want && !tn_error()) {
            printf("%s: not compared, because there is no reference output of "
                   "this name\n", info.name);
            continue;
        }
        const double d = difference(v.out[i], want);
        compared++;
        printf("%s differs by %.3g\n", info.name, d);
        r.differs = r.differs || !(d <= o->tolerance);
    }
    if (fine && !compared && !tn_error())
        tn_error_set(TN_ERR_ARGUMENT, "no output was compared");
    for (size_t i = 0; i < r.count; i++) {
        tn_drop(r.value[i]);
        free(r.name[i]);
    }
    free(r.name);
    free(r.value);
    free(v.in);
    free(w.in);
    return !fine || tn_error() ? lm_complain() : r.differs;
}

/* ---- the command --------------------------------------------------------- */

/* Returns whether text is NAME=N with a number N. */
static bool is_size(const char *text)
{
    const char *number = strrchr(text, '=');
    char *end = NULL;
    if (!number || number == text || number[1] < '0' || number[1] > '9')
        return false;
    errno = 0;
    strtoll(number + 1, &end, 10);
    return *end == '\0' && errno == 0;
}

int tenon_onnx(int count, char **argument)
{
    options o = {.runs = 20, .tolerance = 1e-4};
    const char *size = NULL;
    /* --size may be repeated, which lm_read_options does not support, so it is
     * read here */
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(argument[i], "--size") == 0 && i + 1 < count &&
            o.size_count < SIZES && is_size(argument[i + 1]))
            o.size[o.size_count++] = argument[++i];
        else
            argument[kept++] = argument[i];
    }
    const lm_option table[] = {{"-i", .text = &o.in},
                               {"-o", .text = &o.out},
                               {"--seed", .whole = &o.seed},
                               {"-n", .whole = &o.runs},
                               {"--tolerance", .real = &o.tolerance},
                               {"--nodes", .flag = &o.nodes},
                               {NULL, .text = &size}};
    const int left = lm_read_options(kept, argument, table);
    const char *what = left > 0 ? argument[0] : "";
    if (left == 1 && strcmp(what, "ops") == 0)
        return list_ops();
    if (o.runs < 1 || left < 2)
        return 2;
    if (left == 3 && strcmp(what, "diff") == 0)
        return diff(&o, argument[1], argument[2]);
    if (left != 2)
        return 2;
    if (strcmp(what, "info") == 0)
        return info(argument[1]);
    if (strcmp(what, "check") == 0)
        return check(argument[1]);
    if (strcmp(what, "run") == 0)
        return run(&o, argument[1]);
    if (strcmp(what, "bench") == 0)
        return bench(&o, argument[1]);
    return strcmp(what, "diff") == 0 && o.in ? diff(&o, argument[1], NULL) : 2;
}
