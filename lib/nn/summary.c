/* summary.c: a table of the calls that one forward of a module makes.
 *
 * The module runs once, on zeros. While it runs, a watcher (callbacks for this
 * thread's module calls, module_call.c) adds a row to the table for each
 * call. */
#include <nn/tree.h>

#include <inttypes.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>

/* Compile for size: nearly all time is spent in operators, not in this file. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

typedef struct row {
    tn_object object;
    struct row *next; /* counted reference */
    int depth;
    const char *name; /* owned by the parent */
    const char *type;
    char shape[96]; /* shape of the output as text */
    int64_t parameters, multiply_adds;
} row;

static void row_release(void *object)
{
    tn_drop(((row *)object)->next);
}

static const tn_object_class row_class = {sizeof row_class, "summary row",
                                          sizeof(row), row_release};

typedef struct summary {
    tn__nn_watcher base;
    row *first, *last;               /* list; counted reference to first */
    row *open[TN__NN_MAX_DEPTH + 1]; /* rows of the nested running calls */
    int depth;
    bool failed;
    tn_summary_totals totals;
} summary;

/* ---- multiply-adds ------------------------------------------------------- */

/* How to count the multiply-adds of a weight. The count is the weight's number
 * of elements times the number of positions at which it is used. That number
 * is: */
enum rule {
    OUT,      /* numel(output) / size of dimension 0 of the weight */
    IN,       /* numel(input) / size of dimension 0 of the weight */
    FEATURES, /* numel(output) / last size of the output */
};

/* Returns the shape of a parameter, which may be computed; none for another
 * entry. */
static tn_dims_list shape_of(const tn__nn_entry *e)
{
    if (e->kind == TN__NN_COMPUTED)
        return ((const tn__nn_source *)e->value)->shape;
    return e->kind == TN__NN_PARAMETER
               ? tn_dims_from_array(tn_tensor_shape(e->value),
                                    tn_tensor_ndim(e->value))
               : TN_SCALAR;
}

static int64_t weights_of(const tn_module *module, enum rule rule,
                          const tn_tensor *in, const tn_tensor *out)
{
    int64_t total = 0;
    for (const tn__nn_entry *e = module->tree->first; e; e = e->next) {
        const tn_dims_list shape = shape_of(e);
        int64_t size =
            rule == FEATURES ? tn_tensor_size(out, -1) : shape.dim[0];
        int64_t numel = tn_tensor_numel(rule == IN ? in : out);
        if (shape.count < 2 || size <= 0)
            continue;
        numel /= size;
        for (int d = 0; d < shape.count; d++)
            numel *= shape.dim[d];
        total += numel;
    }
    return total;
}

static int64_t multiply_adds(const tn_module *module, tn_tensor *const *in,
                             int in_count, const tn_tensor *out)
{
    static const struct {
        const char *type; /* class name or a prefix of it */
        enum rule rule;
    } table[] = {{"Linear", OUT},   {"ConvTranspose", IN}, {"Conv", OUT},
                 {"Bilinear", OUT}, {"RNN", FEATURES},     {"GRU", FEATURES},
                 {"LSTM", FEATURES}};
    const char *type = module->type->name;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strncmp(type, table[i].type, strlen(table[i].type)) == 0)
            return weights_of(module, table[i].rule, in[0], out);
    return tn__nn_attention_multiply_adds(module, in, in_count);
}

/* ---- watching ------------------------------------------------------------ */

static void begins(tn__nn_watcher *watcher, const tn_module *module)
{
    summary *s = (summary *)watcher;
    int depth = s->depth++;
    tn_scope *scope = tn_scope_open();
    row *r = depth <= TN__NN_MAX_DEPTH ? tn_object_new(&row_class, 0) : NULL;
    if (!r) {
        s->failed = true;
    } else {
        r->depth = depth;
        r->name = module->tree->name;
        r->type = module->type->name;
        s->open[depth] = r;
        *(s->last ? &s->last->next : &s->first) = tn_keep(r);
        s->last = r;
    }
    tn_scope_close(scope);
}

static void ended(tn__nn_watcher *watcher, const tn_module *module,
                  tn_tensor *const *in, int in_count, tn_tensor *const *out,
                  int out_count)
{
    summary *s = (summary *)watcher;
    int depth = --s->depth;
    if (s->failed || !out[0])
        return;
    row *r = s->open[depth];
    size_t at = 0;
    for (int i = 0; i < out_count && at < sizeof r->shape; i++) {
        char text[TN__NN_SHAPE_TEXT];
        at += (size_t)snprintf(r->shape + at, sizeof r->shape - at, "%s%s",
                               i ? ", " : "", tn__nn_shape_text(text, out[i]));
    }
    for (const tn__nn_entry *e = module->tree->first; e; e = e->next)
        if (e->kind == TN__NN_PARAMETER)
            r->parameters += tn_tensor_numel(e->value);
    r->multiply_adds = multiply_adds(module, in, in_count, out[0]);
    s->totals.multiply_adds += r->multiply_adds;
    if (r == s->last) /* the module called no other module */
        s->totals.output_bytes +=
            tn_tensor_numel(out[0]) *
            (int64_t)tn_dtype_bytes(tn_tensor_dtype(out[0]));
}

/* ---- running ------------------------------------------------------------- */

static void count_tensors(tn_module *module, tn_summary_totals *t)
{
    tn_parameter_list *own = tn_parameters(module);
    tn_parameter_list *all = tn_module_state(module);
    int64_t bytes[2] = {0};
    for (int which = 0; which < 2; which++) {
        tn_parameter_list *list = which ? all : own;
        for (int i = 0; i < tn_parameters_count(list); i++) {
            const tn_tensor *x = tn_parameters_at(list, i);
            int64_t count = tn_tensor_numel(x);
            bytes[which] += count * (int64_t)tn_dtype_bytes(tn_tensor_dtype(x));
            t->parameters += which ? 0 : count;
            t->trainable += !which && tn_tensor_requires_grad(x) ? count : 0;
        }
    }
    t->parameter_bytes = bytes[0];
    t->buffer_bytes = bytes[1] - bytes[0];
}

/* The saved training modes of all modules, in the order of tn_module_walk. */
typedef struct modes {
    tn_object object;
    size_t at;
    bool restoring;
    bool training[];
} modes;

static const tn_object_class modes_class = {sizeof modes_class, "modes",
                                            sizeof(modes), NULL};

static void count_one(tn_module *module, const char *path, void *context)
{
    (void)module, (void)path;
    ++*(size_t *)context;
}

static void store_mode(tn_module *module, const char *path, void *context)
{
    (void)path;
    modes *m = context;
    if (m->restoring)
        module->training = m->training[m->at++];
    else
        m->training[m->at++] = module->training;
}

/* Runs module in evaluation mode without recording, then restores the modes. */
static bool run(summary *s, tn_module *module, tn_tensor *const *inputs,
                int count)
{
    size_t modules = 0;
    tn_module_walk(module, count_one, &modules);
    modes *m = tn_object_new(&modes_class, modules);
    if (!m)
        return false;
    tn_module_walk(module, store_mode, m);
    tn_module_eval(module);
    tn__nn_watcher *before = tn__nn_watch(&s->base);
    tn_tensor *out;
    bool fine = false;
    TN_NO_GRAD
    {
        fine = tn_forward_list(module, inputs, count, &out, 1) == TN_OK;
    }
    tn__nn_watch(before);
    m->at = 0;
    m->restoring = true;
    tn_module_walk(module, store_mode, m);
    return fine && !s->failed;
}

static void print_line(FILE *file, const int width[2], const char *name,
                       const char *shape, const char *parameters,
                       const char *multiply_adds)
{
    fprintf(file, "%-*s  %-*s  %12s  %15s\n", width[0], name, width[1], shape,
            parameters, multiply_adds);
}

static void name_of(char text[256], const row *r)
{
    snprintf(text, 256, "%*s%s%s%s", 2 * r->depth, "",
             r->depth && r->name ? r->name : "",
             r->depth && r->name ? ": " : "", r->type);
}

static void print(FILE *file, const summary *s)
{
    int width[2] = {5, 12};
    char name[256], parameters[24], operations[24];
    for (const row *r = s->first; r; r = r->next) {
        name_of(name, r);
        int wide[2] = {(int)strlen(name), (int)strlen(r->shape)};
        for (int i = 0; i < 2; i++)
            width[i] = wide[i] > width[i] ? wide[i] : width[i];
    }
    print_line(file, width, "Layer", "Output shape", "Parameters",
               "Multiply-adds");
    for (const row *r = s->first; r; r = r->next) {
        name_of(name, r);
        snprintf(parameters, sizeof parameters, "%" PRId64, r->parameters);
        snprintf(operations, sizeof operations, "%" PRId64, r->multiply_adds);
        print_line(file, width, name, r->shape, r->parameters ? parameters : "",
                   r->multiply_adds ? operations : "");
    }
    const tn_summary_totals *t = &s->totals;
    fprintf(file,
            "Parameters: %" PRId64 " (%" PRId64 " trainable), %.2f MB; "
            "buffers: %.2f MB\nOutputs: %.2f MB; multiply-adds: %" PRId64 "\n",
            t->parameters, t->trainable, (double)t->parameter_bytes / 1e6,
            (double)t->buffer_bytes / 1e6, (double)t->output_bytes / 1e6,
            t->multiply_adds);
}

TN_OPTIONS_TYPE(tn_summary, "summary", "file, module, shape",
                TN_SUMMARY_OPTIONS_LIST)

tn_status tn_summary_with(FILE *file, tn_module *module, tn_dims_list shape,
                          const tn_summary_options *options)
{
    tn_summary_options o;
    if (tn_error())
        return TN_ERR_STATE;
    if (tn_options_take(tn_summary_type(), &o, options) < 0)
        return tn_error_code();
    if (!tn__nn_not_null(file ? (void *)file : o.totals, "summary", "file") ||
        !tn__nn_module(module, "summary"))
        return TN_ERR_ARGUMENT;
    const tn_option_need need = {"dtype", !o.inputs, "beside inputs",
                                 "give inputs of that dtype"};
    if (tn_options_check_needs(tn_summary_type(), &o, &need, 1) < 0)
        return tn_error_code();
    tn_scope *scope = tn_scope_open();
    summary s = {.base = {begins, ended}};
    s.totals.size = sizeof s.totals;
    count_tensors(module, &s.totals);
    tn_tensor *like = tn_parameters_at(tn_parameters(module), 0);
    tn_tensor *zeros =
        o.inputs ? NULL
                 : tn_zeros(shape,
                            .dtype = o.dtype ? o.dtype : tn_tensor_dtype(like),
                            .device = tn_tensor_device(like));
    bool fine =
        (o.inputs || zeros) && run(&s, module, o.inputs ? o.inputs : &zeros,
                                   o.inputs ? o.input_count : 1);
    if (fine && file)
        print(file, &s);
    if (fine && o.totals)
        *o.totals = s.totals;
    tn_drop(s.first);
    tn_scope_close(scope);
    if (!fine)
        return tn_error_code();
    return file && ferror(file) ? tn_error_refuse_argument(TN_ERR_IO, "summary",
                                                           NULL, "cannot write")
                                : TN_OK;
}
