/* prune.c: parameters with elements set to 0. NAME becomes a computed entry
 * whose source multiplies NAME_orig by NAME_mask (computed.c). */
#include <nn/tree.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

/* ---- the source ---------------------------------------------------------- */

enum { ORIG, MASK };
static const char *const suffixes[] = {"_orig", "_mask"};

static tn_tensor *compute(tn__nn_source *pruned)
{
    tn_tensor *orig = pruned->original[ORIG];
    return tn_mul(
        tn_to_dtype(pruned->original[MASK], tn_tensor_dtype(orig)), orig);
}

static tn_tensor *no_forward(tn_module *self, tn_tensor *input)
{
    (void)self;
    return input;
}

static const tn_module_class pruned_class = {.size = sizeof pruned_class,
                                             .name = "pruned parameter",
                                             .bytes = sizeof(tn__nn_source),
                                             .forward = no_forward};

/* Returns the source of a pruned entry, else NULL. */
static tn__nn_source *pruned_of(const tn__nn_entry *entry)
{
    tn__nn_source *source = entry->value;
    return entry->kind == TN__NN_COMPUTED && source->compute == compute
               ? source
               : NULL;
}

/* ---- what to prune ------------------------------------------------------- */

enum method {
    RANDOM_UNSTRUCTURED,
    L1_UNSTRUCTURED,
    RANDOM_STRUCTURED,
    LN_STRUCTURED,
    CUSTOM_FROM_MASK,
    METHODS
};
static const char *const method_names[] = {
    "random_unstructured", "l1_unstructured", "random_structured",
    "ln_structured", "custom_from_mask"};

typedef struct pruning {
    const char *what; /* name of the public function, for messages */
    const char *module_argument, *name_argument;
    enum method method;
    tn_prune_options o;
    int count; /* number of parameters */
    tn_module *const *modules;
    const char *const *names;
    tn_tensor *const *scores; /* arguments of that function: importance scores
                                 or masks, or NULL */
} pruning;

static bool is_structured(const pruning *p)
{
    return p->method == RANDOM_STRUCTURED || p->method == LN_STRUCTURED;
}

static bool refuse(const pruning *p, const char *argument, const char *wrong)
{
    tn_error_refuse_argument(TN_ERR_ARGUMENT, p->what, argument, "%s", wrong);
    return false;
}

static bool find_method(pruning *p, const char *name, int methods)
{
    int i = 0;
    while (i < methods && strcmp(method_names[i], name) != 0)
        i++;
    p->method = (enum method)i;
    if (i < methods)
        return true;
    tn_error_refuse_argument(
        TN_ERR_ARGUMENT, p->what, "method", "method \"%s\" is none of %s", name,
        methods < METHODS
            ? "random_unstructured, l1_unstructured"
            : "random_unstructured, l1_unstructured, random_structured, "
              "ln_structured, custom_from_mask");
    return false;
}

static bool check_amount(const pruning *p)
{
    bool amount = !tn_is_none_float(p->o.amount);
    bool count = p->o.count != TN_NONE_INT;
    if (p->method == CUSTOM_FROM_MASK)
        return true;
    if (amount == count)
        return refuse(p, "amount",
                      amount ? "both amount and count are given; expected one "
                               "of them"
                             : "neither amount nor count is given; expected "
                               "one of them");
    if (amount && !(p->o.amount >= 0 && p->o.amount <= 1))
        return tn_error_refuse_argument(
                   TN_ERR_ARGUMENT, p->what, "amount",
                   "amount is %g; expected a fraction in [0, 1]", p->o.amount),
               false;
    if (count && p->o.count < 0)
        return tn_error_refuse_argument(
                   TN_ERR_ARGUMENT, p->what, "count",
                   "count is %" PRId64 "; expected at least 0", p->o.count),
               false;
    return true;
}

/* Returns how many of `left` elements or slices to prune, or -1 with an
 * error. */
static int64_t number_of(const pruning *p, int64_t left)
{
    if (p->o.count == TN_NONE_INT)
        return (int64_t)nearbyint(p->o.amount * (double)left);
    if (p->o.count <= left)
        return p->o.count;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, p->what, "count",
                             "count is %" PRId64 ", but only %" PRId64
                             " %s are left",
                             p->o.count, left,
                             is_structured(p) ? "slices" : "elements");
    return -1;
}

/* Returns mask, with zeros in those slices along dim that have the lowest
 * scores. Slices where `left` is 0 have been pruned before and are not
 * considered. scores and left are 1-d. */
static tn_tensor *without_lowest(const pruning *p, tn_tensor *mask, int64_t dim,
                                 tn_tensor *scores, tn_tensor *left)
{
    left = tn_ne_scalar(left, 0);
    tn_tensor *index, *total = tn_sum(tn_to_dtype(left, TN_I64));
    int64_t number = total && scores ? number_of(p, tn_item_int(total)) : -1;
    if (number <= 0)
        return number < 0 ? NULL : mask;
    if (!tn_topk(tn_where_scalar(left, scores, INFINITY), number, 0, false, true,
                 &index))
        return NULL;
    return tn_index_fill_scalar(mask, dim, index, 0);
}

/* Returns the new mask. x contains the values or importance scores, or for
 * CUSTOM_FROM_MASK the mask that the caller passed. */
static tn_tensor *new_mask(const pruning *p, tn_tensor *x, tn_tensor *mask)
{
    if (p->method == CUSTOM_FROM_MASK)
        return tn_mul(mask, tn_to_dtype(x, tn_tensor_dtype(mask)));
    if (!is_structured(p)) {
        tn_tensor *flat = tn_flatten(mask);
        bool random = p->method == RANDOM_UNSTRUCTURED;
        return without_lowest(
            p, flat, 0, tn_flatten(random ? tn_rand_like(x) : tn_abs(x)), flat);
    }
    const int ndim = tn_tensor_ndim(x);
    int64_t dim = p->o.dim + (p->o.dim < 0 ? ndim : 0);
    if (p->o.dim == TN_NONE_INT || ndim < 2 || dim < 0 || dim >= ndim) {
        if (p->o.dim == TN_NONE_INT)
            return refuse(p, "dim", "structured pruning needs dim"), NULL;
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, p->what, "dim",
            ndim < 2 ? "dim is %" PRId64 " and the parameter has %d "
                       "dimension(s); structured pruning needs at least 2"
                     : "dim is %" PRId64 "; the parameter has %d dimensions",
            p->o.dim, ndim);
        return NULL;
    }
    tn_dims_list others = TN_SCALAR;
    for (int d = 0; d < ndim; d++)
        if (d != dim)
            others.dim[others.count++] = d;
    tn_tensor *scores =
        p->method == RANDOM_STRUCTURED
            ? tn_rand(tn_dims(tn_tensor_size(x, (int)dim)),
                      .device = tn_tensor_device(x))
            : tn_vector_norm(x, .ord = p->o.n, .dims = others);
    return without_lowest(p, mask, dim, scores, tn_sum(mask, .dims = others));
}

/* ---- registering --------------------------------------------------------- */

/* Returns the entry of parameter i, or NULL with an error if it cannot be
 * pruned. */
static tn__nn_entry *entry_of(const pruning *p, int i)
{
    const char *name = p->names[i];
    if (!tn_object_check(p->modules[i], &tn__nn_module_class, p->what,
                         p->module_argument) ||
        !tn__nn_not_null(name, p->what, p->name_argument))
        return NULL;
    const tn_module *module = tn__nn_module(p->modules[i], p->what);
    if (!module)
        return NULL;
    tn__nn_entry *entry = tn__nn_tensor_entry(module, name, p->what);
    if (!entry || pruned_of(entry))
        return entry;
    if (entry->kind == TN__NN_PARAMETER)
        return tn__nn_can_bind(module, entry, p->what) ? entry : NULL;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, p->what, "name",
                             "\"%s\" of %s is %s", name, module->type->name,
                             entry->kind == TN__NN_BUFFER
                                 ? "a buffer; expected a parameter"
                                 : "parametrized: remove its "
                                   "parametrizations first");
    return NULL;
}

static tn__nn_entry *part_of(const tn_module *module, const tn__nn_entry *entry,
                             int part)
{
    char name[TN__NN_PATH_BYTES];
    snprintf(name, sizeof name, "%s%s", entry->name, suffixes[part]);
    return tn__nn_find(module, name, strlen(name));
}

/* Registers NAME_orig and NAME_mask, and makes NAME computed. */
static bool start(tn_module *module, tn__nn_entry *entry, tn_tensor *mask)
{
    tn_tensor *const part[] = {entry->value, mask};
    tn__nn_source *source = tn_module_new(&pruned_class);
    if (!source)
        return false;
    source->compute = compute;
    source->shape =
        tn_dims_from_array(tn_tensor_shape(mask), tn_tensor_ndim(mask));
    for (int i = 0; i < 2; i++) {
        char name[TN__NN_PATH_BYTES];
        snprintf(name, sizeof name, "%s%s", entry->name, suffixes[i]);
        source->original[i] = part[i];
        if (!tn__nn_add_entry(module, name,
                              i == ORIG ? TN__NN_PARAMETER : TN__NN_BUFFER,
                              part[i])) {
            if (i == MASK)
                tn__nn_unlink(module, module->tree->last, false);
            return false;
        }
    }
    tn__nn_bind(module, entry, source);
    return true;
}

/* The parameters that one call prunes: their entries, shapes, masks and
 * scores. */
typedef struct parts {
    tn_object object;
    struct part {
        tn__nn_entry *entry;
        tn_tensor *value; /* the present value */
    } *part;
    tn_tensor **mask, **score;
} parts;

static const tn_object_class parts_class = {sizeof parts_class, "parameters",
                                            sizeof(parts), NULL};

static parts *parts_new(size_t count)
{
    parts *all =
        tn_object_new(&parts_class, count * (sizeof(struct part) +
                                             2 * sizeof(tn_tensor *)));
    if (all) {
        all->part = (struct part *)(all + 1);
        all->mask = (tn_tensor **)(all->part + count);
        all->score = all->mask + count;
    }
    return all;
}

static bool gather(parts *all, const pruning *p)
{
    const char *argument =
        p->method == CUSTOM_FROM_MASK ? "mask" : "importance_scores";
    for (int i = 0; i < p->count; i++) {
        tn__nn_entry *entry = entry_of(p, i);
        tn_tensor *score = p->scores ? p->scores[i] : NULL;
        if (!entry || !tn__nn_tensor_or_null(score, p->what, argument))
            return false;
        tn_tensor *value = tn__nn_value_of(entry);
        const tn__nn_source *source = pruned_of(entry);
        tn_module *module = p->modules[i]->tree->self;
        char text[TN__NN_SHAPE_TEXT], wanted[TN__NN_SHAPE_TEXT];
        tn__nn_shape_text(text, score);
        tn__nn_shape_text(wanted, value);
        if (score && strcmp(text, wanted) != 0)
            tn_error_refuse(TN_ERR_SHAPE, p->what, &(tn_given){argument, score},
                            1, "%s has shape %s; expected the shape %s of "
                               "\"%s\"",
                            argument, text, wanted, entry->name);
        for (int k = 0; k < i; k++)
            if (all->part[k].entry == entry)
                refuse(p, "names", "a parameter is given twice");
        for (int k = 0; k < 2 && !source; k++)
            if (part_of(module, entry, k))
                refuse(p, "name", "the module already has a tensor NAME_orig "
                       "or NAME_mask");
        all->part[i] = (struct part){entry, value};
        all->mask[i] = source ? source->original[MASK] : tn_ones_like(value);
        all->score[i] = score ? score : value;
        if (p->count > 1) {
            all->mask[i] = tn_flatten(all->mask[i]);
            all->score[i] = tn_flatten(all->score[i]);
        }
        if (tn_error())
            return false;
    }
    return true;
}

/* Computes one mask for all parameters, and gives each of them its part. */
static bool apply(parts *all, const pruning *p)
{
    bool one = p->count == 1;
    tn_tensor *mask = one ? all->mask[0] : tn_cat(all->mask, p->count, 0);
    tn_tensor *score = one ? all->score[0] : tn_cat(all->score, p->count, 0);
    int64_t at = 0;
    if (!mask || !score)
        return false;
    mask = tn_flatten(new_mask(p, score, mask));
    for (int i = 0; i < p->count; i++) {
        const tn_tensor *x = all->part[i].value;
        tn_tensor *part = tn_narrow(mask, 0, at, tn_tensor_numel(x));
        part = tn_reshape(part, tn_dims_from_array(tn_tensor_shape(x),
                                                   tn_tensor_ndim(x)));
        all->mask[i] = tn_clone(tn_to_dtype(part, tn_tensor_dtype(x)));
        at += tn_tensor_numel(x);
    }
    for (int i = 0; i < p->count && !tn_error(); i++) {
        tn__nn_entry *entry = all->part[i].entry;
        const tn__nn_source *source = pruned_of(entry);
        if (source)
            tn_tensor_set_data(source->original[MASK], all->mask[i]);
        else
            start(p->modules[i]->tree->self, entry, all->mask[i]);
    }
    return !tn_error();
}

static bool prune(const pruning *p)
{
    bool fine = false;
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD
    {
        parts *all = parts_new((size_t)p->count);
        fine = all && gather(all, p) && check_amount(p) && apply(all, p);
    }
    tn_scope_close(scope);
    return fine;
}

TN_OPTIONS_TYPE(tn_prune, "prune", "module, name, method",
                TN_PRUNE_OPTIONS_LIST)

void *tn_prune_with(tn_module *module, const char *name, const char *method,
                    const tn_prune_options *options)
{
    pruning p = {.what = "prune",
                 .module_argument = "module",
                 .name_argument = "name",
                 .count = 1,
                 .modules = &module,
                 .names = &name};
    if (tn_error() || tn_options_take(tn_prune_type(), &p.o, options) < 0 ||
        !tn__nn_not_null(method, p.what, "method") ||
        !find_method(&p, method, METHODS))
        return NULL;
    bool mask = p.method == CUSTOM_FROM_MASK, norm = p.method == LN_STRUCTURED;
    const tn_option_need need[] = {
        {"amount", !mask, "with a mask", "change method"},
        {"count", !mask, "with a mask", "change method"},
        {"dim", is_structured(&p), "unless method is structured",
         "change method"},
        {"n", norm, "unless method is ln_structured", "change method"},
        {"mask", mask, "unless method is custom_from_mask", "change method"},
        {"importance_scores", norm || p.method == L1_UNSTRUCTURED,
         "with this method", "change method"}};
    if (tn_options_check_needs(tn_prune_type(), &p.o, need, 6) < 0 ||
        (norm && tn_is_none_float(p.o.n) && !refuse(&p, "n", "expected n")) ||
        (mask && !tn__nn_tensor(p.o.mask, p.what, "mask")))
        return NULL;
    p.scores = mask ? &p.o.mask : &p.o.importance_scores;
    return prune(&p) ? module->tree->self : NULL;
}

TN_OPTIONS_TYPE(tn_prune_global_unstructured, "prune_global_unstructured",
                "modules, names, parameter_count, method",
                TN_PRUNE_GLOBAL_UNSTRUCTURED_OPTIONS_LIST)

tn_status tn_prune_global_unstructured_with(
    tn_module *const *modules, const char *const *names, int parameter_count,
    const char *method, const tn_prune_global_unstructured_options *options)
{
    tn_prune_global_unstructured_options o;
    pruning p = {.what = "prune_global_unstructured",
                 .module_argument = "modules",
                 .name_argument = "names",
                 .o = TN_PRUNE_OPTIONS,
                 .count = parameter_count,
                 .modules = modules,
                 .names = names};
    if (tn_error())
        return TN_ERR_STATE;
    if (tn_options_take(tn_prune_global_unstructured_type(), &o, options) < 0 ||
        !tn__nn_not_null(modules, p.what, "modules") ||
        !tn__nn_not_null(names, p.what, "names") ||
        !tn__nn_not_null(method, p.what, "method") ||
        !find_method(&p, method, RANDOM_STRUCTURED))
        return tn_error_code();
    const tn_option_need need = {"importance_scores",
                                 p.method == L1_UNSTRUCTURED,
                                 "with this method", "change method"};
    if (tn_options_check_needs(tn_prune_global_unstructured_type(), &o, &need,
                               1) < 0 ||
        (parameter_count < 1 &&
         !refuse(&p, "parameter_count", "parameter_count must be at least 1")))
        return tn_error_code();
    p.o.amount = o.amount;
    p.o.count = o.count;
    p.scores = o.importance_scores;
    prune(&p);
    return tn_error_code();
}

/* ---- removing ------------------------------------------------------------ */

void *tn_prune_remove(tn_module *any, const char *name)
{
    static const char what[] = "prune_remove";
    tn_module *module = tn_error() ? NULL : tn__nn_module(any, what);
    if (!module || !tn__nn_not_null(name, what, "name"))
        return NULL;
    tn__nn_entry *entry = tn__nn_tensor_entry(module, name, what);
    tn__nn_source *source = entry ? pruned_of(entry) : NULL;
    if (!source) {
        if (entry)
            tn_error_refuse_argument(TN_ERR_ARGUMENT, what, "name",
                                     "\"%s\" of %s is not pruned", name,
                                     module->type->name);
        return NULL;
    }
    tn_tensor *orig = tn_keep(source->original[ORIG]);
    tn_scope *scope = tn_scope_open();
    bool fine = false;
    TN_NO_GRAD
    {
        tn_tensor *value = compute(source);
        fine = value && tn_tensor_set_data(orig, value) == TN_OK;
    }
    if (fine) {
        for (int i = 0; i < 2; i++)
            tn__nn_unlink(module, part_of(module, entry, i), false);
        tn__nn_unbind(module, entry, TN__NN_PARAMETER, orig);
    }
    tn_drop(orig);
    tn_scope_close(scope);
    return fine ? module : NULL;
}

static void look(tn_module *module, const char *path, void *context)
{
    (void)path;
    for (const tn__nn_entry *e = module->tree->first; e; e = e->next)
        if (pruned_of(e))
            *(bool *)context = true;
}

bool tn_prune_is_pruned(const tn_module *module)
{
    bool pruned = false;
    if (module && tn__nn_module(module, "prune_is_pruned"))
        tn_module_walk((tn_module *)(uintptr_t)module, look, &pruned);
    return pruned;
}
