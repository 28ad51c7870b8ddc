/* clone.c: copies of modules, either with copies of all tensors
 * (tn_module_clone) or with given tensors in place of parameters
 * (tn_module_substitute).
 *
 * An instance holds plain pointers to its children and parameters. The copy of
 * an instance is a copy of its bytes in which each pointer to an object that is
 * registered somewhere in the module is replaced by one to the object's
 * copy. */
#include <nn/tree.h>

#include <string.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>

/* Compile for size: nearly all time is spent in operators, not in this file. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

typedef struct pair {
    const void *from;
    void *to; /* owned by the open scope */
} pair;

/* The modules and tensors below a module, each listed once, with their copies.
 * Pairs of modules come first, pairs of tensors are at the end of the array. */
typedef struct copies {
    tn_object object;
    int most, modules, tensors;
    pair pair[];
} copies;

static const tn_object_class copies_class = {
    sizeof copies_class, "copies of a module", sizeof(copies), NULL};

static pair *tensor_pairs(copies *c)
{
    return c->pair + c->most - c->tensors;
}

static pair *find(pair *list, int count, const void *from)
{
    for (int i = 0; i < count; i++)
        if (list[i].from == from)
            return &list[i];
    return NULL;
}

static bool is_module(const tn__nn_entry *e)
{
    return e->kind == TN__NN_CHILD || e->kind == TN__NN_COMPUTED;
}

static int count_objects(const tn_module *module)
{
    int count = 1;
    for (const tn__nn_entry *e = module->tree->first; e; e = e->next)
        count += is_module(e) ? count_objects(e->value) : 1;
    return count;
}

/* Lists module, the modules below it and their tensors, parents first. */
static void list_objects(copies *c, const tn_module *module)
{
    if (find(c->pair, c->modules, module))
        return;
    c->pair[c->modules++].from = module;
    for (const tn__nn_entry *e = module->tree->first; e; e = e->next) {
        if (is_module(e)) {
            list_objects(c, e->value);
        } else if (!find(tensor_pairs(c), c->tensors, e->value)) {
            c->tensors++;
            *tensor_pairs(c) = (pair){e->value, NULL};
        }
    }
}

static copies *copies_of(const tn_module *module)
{
    int most = count_objects(module);
    copies *c = tn_object_new(&copies_class, (size_t)most * sizeof(pair));
    if (!c)
        return NULL;
    c->most = most;
    list_objects(c, module);
    for (int i = 0; i < c->modules; i++) {
        const tn_module_class *type = ((tn_module *)c->pair[i].from)->type;
        if (type->release && !(TN__NN_HAS(type, clone) && type->clone)) {
            tn_error_refuse_argument(
                TN_ERR_UNSUPPORTED, "module_clone", "module",
                "the class %s has a release but no clone, so its instances "
                "cannot be copied",
                type->name);
            return NULL;
        }
    }
    return c;
}

/* Returns the copy of the object at `from`. Returns NULL if no object of the
 * module is there. */
static void *copy_of(copies *c, const void *from)
{
    pair *p = find(c->pair, c->modules, from);
    p = p ? p : find(tensor_pairs(c), c->tensors, from);
    return p ? p->to : NULL;
}

/* Copies the members of an instance, which follow its tn_module. */
static tn_status copy_members(copies *c, const pair *p)
{
    const tn_module *from = p->from;
    tn_module *to = p->to;
    size_t bytes = from->tree->bytes;
    const char *old = p->from;
    memcpy(to + 1, from + 1, bytes - sizeof *from);
    for (size_t at = sizeof *from; at + sizeof(char *) <= bytes;
         at += sizeof(char *)) {
        const char *word;
        memcpy(&word, old + at, sizeof word);
        char *other = copy_of(c, word);
        /* The member points into the instance itself, so the member of the copy
         * must point into the copy. */
        if (!other && (uintptr_t)word > (uintptr_t)old &&
            (uintptr_t)word < (uintptr_t)old + bytes)
            other = (char *)to + (word - old);
        if (other)
            memcpy((char *)to + at, &other, sizeof other);
    }
    if (!TN__NN_HAS(from->type, clone) || !from->type->clone)
        return TN_OK;
    tn_status status = from->type->clone(to, from);
    if (status < 0) /* release is called with a zeroed instance */
        memset(to + 1, 0, bytes - sizeof *from);
    return status;
}

/* Copies all listed modules, after all tensors have been copied. Returns the
 * copy of the first one. */
static tn_module *copy_modules(copies *c)
{
    for (int i = 0; i < c->modules; i++) {
        const tn_module *from = c->pair[i].from;
        tn_module *to = c->pair[i].to = tn__nn_module_like(from);
        if (!to)
            return NULL;
        to->training = from->training;
        to->tree->recompute = from->tree->recompute;
    }
    for (int i = 0; i < c->modules; i++) {
        const tn_module *from = c->pair[i].from;
        for (const tn__nn_entry *e = from->tree->first; e; e = e->next)
            if (!tn__nn_add_entry(c->pair[i].to, e->name, e->kind,
                                  copy_of(c, e->value)))
                return NULL;
        if (copy_members(c, &c->pair[i]) < 0)
            return NULL;
    }
    return c->pair[0].to;
}

/* ---- with copies of the tensors ------------------------------------------ */

static tn_tensor *copy_tensor(tn_tensor *x)
{
    tn_tensor *copy = NULL;
    TN_NO_GRAD {
        copy = tn_clone(x);
    }
    if (copy && tn_tensor_is_leaf(x) && tn_tensor_requires_grad(x))
        copy = tn_requires_grad(copy);
    return copy;
}

void *tn_module_clone(const tn_module *module)
{
    if (!tn__nn_module(module, "module_clone") || tn_error())
        return NULL;
    tn_scope *scope = tn_scope_open();
    copies *c = copies_of(module);
    bool fine = c;
    for (int i = 0; fine && i < c->tensors; i++) {
        pair *p = &tensor_pairs(c)[i];
        p->to = copy_tensor((tn_tensor *)(uintptr_t)p->from);
        fine = p->to;
    }
    tn_module *copy = fine ? copy_modules(c) : NULL;
    for (int i = 0; copy && i < c->modules; i++) {
        const tn_module *m = c->pair[i].to;
        for (const tn__nn_entry *e = m->tree->first; e; e = e->next)
            if (e->kind == TN__NN_PARAMETER)
                tn_tensor_set_maker(e->value, m->type->name);
    }
    return tn_scope_result(scope, copy);
}

/* ---- with other tensors -------------------------------------------------- */

static bool same_shape(const tn_tensor *x, const tn_tensor *y)
{
    return tn_tensor_ndim(x) == tn_tensor_ndim(y) &&
           memcmp(tn_tensor_shape(x), tn_tensor_shape(y),
                  (size_t)tn_tensor_ndim(x) * sizeof(int64_t)) == 0;
}

static bool substitute(copies *c, tn_parameter_list *list,
                       tn_tensor *const *values, int count,
                       const char *const *names)
{
    const char *what = "module_substitute";
    for (int i = 0; i < count; i++) {
        int k = i;
        if (names) {
            k = names[i] ? 0 : -1;
            while (k >= 0 && k < tn_parameters_count(list) &&
                   strcmp(tn_parameters_name(list, k), names[i]) != 0)
                k++;
        }
        const char *name = tn_parameters_name(list, k);
        if (!name) {
            tn_error_refuse_argument(
                TN_ERR_ARGUMENT, what, "names",
                "the module has no parameter or buffer \"%s\"",
                names[i] ? names[i] : "");
            return false;
        }
        tn_tensor *x = tn_parameters_at(list, k);
        if (!same_shape(x, values[i])) {
            char is[TN__NN_SHAPE_TEXT], wanted[TN__NN_SHAPE_TEXT];
            tn_error_refuse(TN_ERR_SHAPE, what,
                            &(tn_given){"values", values[i]}, 1,
                            "the value of \"%s\" %s does not have its shape %s",
                            name, tn__nn_shape_text(is, values[i]),
                            tn__nn_shape_text(wanted, x));
            return false;
        }
        find(tensor_pairs(c), c->tensors, x)->to = values[i];
    }
    return true;
}

TN_OPTIONS_TYPE(tn_module_substitute, "module_substitute",
                "module, values, count", TN_MODULE_SUBSTITUTE_OPTIONS_LIST)

tn_module *
tn_module_substitute_with(tn_module *module, tn_tensor *const *values,
                          int count,
                          const tn_module_substitute_options *options)
{
    const char *what = "module_substitute";
    tn_module_substitute_options o;
    if (tn_options_take(tn_module_substitute_type(), &o, options) < 0 ||
        !tn__nn_module(module, what) ||
        !tn__nn_not_null(values, what, "values") || tn_error())
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_parameter_list *list =
        o.names ? tn_module_state(module) : tn_parameters(module);
    int most = tn_parameters_count(list);
    for (int i = 0; i < count && i < most; i++)
        if (!tn__nn_tensor(values[i], what, "values"))
            return tn_scope_result(scope, NULL);
    bool counted = list && (o.names ? count >= 0 && count <= most
                                    : count == most);
    if (list && !counted)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, what, "count",
                                 "count is %d, but the module has %d %s",
                                 count, most,
                                 o.names ? "parameters and buffers"
                                         : "parameters");
    copies *c = counted ? copies_of(module) : NULL;
    bool fine = c && substitute(c, list, values, count, o.names);
    for (int i = 0; fine && i < c->tensors; i++) {
        pair *p = &tensor_pairs(c)[i];
        if (!p->to)
            p->to = (tn_tensor *)(uintptr_t)p->from;
    }
    tn_module *other = fine ? copy_modules(c) : NULL;
    for (int i = 0; other && i < c->modules; i++)
        ((tn_module *)c->pair[i].to)->tree->hook =
            tn_keep(((tn_module *)c->pair[i].from)->tree->hook);
    return tn_scope_result(scope, other);
}
