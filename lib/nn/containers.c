/* containers.c: lists and dicts of modules, lists of parameters, and children
 * and parameters by index. */
#include <nn/tree.h>

#include <stdio.h>
#include <tenon/nn_container.h>

/* Compile for size: nearly all time is spent in operators, not in this file. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

/* ---- access by index ----------------------------------------------------- */

/* Returns entry i of one kind (children or parameters). A negative i counts
 * from the end. */
static const tn__nn_entry *entry_at(const tn_module *module,
                                    enum tn__nn_kind kind, int i,
                                    const char *what)
{
    if (!module || !tn__nn_module(module, what))
        return NULL;
    if (i < 0) {
        int count = 0;
        for (const tn__nn_entry *e = module->tree->first; e; e = e->next)
            count += e->kind == kind;
        i = i < -count ? -1 : i + count;
    }
    for (const tn__nn_entry *e = module->tree->first; e && i >= 0; e = e->next)
        if (e->kind == kind && i-- == 0)
            return e;
    return NULL;
}

static int count_of(const tn_module *module, enum tn__nn_kind kind)
{
    int count = 0;
    for (const tn__nn_entry *e = module->tree->first; e; e = e->next)
        count += e->kind == kind;
    return count;
}

int tn_module_child_count(const tn_module *module)
{
    return module && tn__nn_module(module, "module_child_count")
               ? count_of(module, TN__NN_CHILD)
               : 0;
}

tn_module *tn_module_child_at(const tn_module *module, int i)
{
    const tn__nn_entry *e =
        entry_at(module, TN__NN_CHILD, i, "module_child_at");
    return e ? e->value : NULL;
}

const char *tn_module_child_name(const tn_module *module, int i)
{
    const tn__nn_entry *e =
        entry_at(module, TN__NN_CHILD, i, "module_child_name");
    return e ? e->name : NULL;
}

tn_tensor *tn_module_parameter_at(const tn_module *module, int i)
{
    const tn__nn_entry *e =
        entry_at(module, TN__NN_PARAMETER, i, "module_parameter_at");
    return e ? e->value : NULL;
}

/* ---- appending ----------------------------------------------------------- */

void *tn_module_append(tn_module *module, tn_module *child)
{
    char name[12];
    if (!tn__nn_module(module, "module_append") ||
        !tn_object_check_kind(child, "module", "module_append", "child"))
        return NULL;
    snprintf(name, sizeof name, "%d", count_of(module, TN__NN_CHILD));
    return tn_module_add(module, name, child);
}

tn_tensor *tn_module_append_parameter(tn_module *module, tn_tensor *value)
{
    char name[12];
    if (!tn__nn_module(module, "module_append_parameter") ||
        !tn__nn_tensor(value, "module_append_parameter", "value"))
        return NULL;
    snprintf(name, sizeof name, "%d", count_of(module, TN__NN_PARAMETER));
    return tn_module_add_parameter(module, name, value);
}

/* ---- making -------------------------------------------------------------- */

static tn_tensor *no_forward(tn_module *self, tn_tensor *input)
{
    (void)input;
    tn_error_refuse_argument(TN_ERR_UNSUPPORTED, self->type->name, NULL,
                             "this container has no forward: run its children");
    return NULL;
}

static const tn_module_class list_class = {.size = sizeof list_class,
                                           .name = "ModuleList",
                                           .bytes = sizeof(tn_module),
                                           .forward = no_forward};
static const tn_module_class dict_class = {.size = sizeof dict_class,
                                           .name = "ModuleDict",
                                           .bytes = sizeof(tn_module),
                                           .forward = no_forward};
static const tn_module_class parameters_class = {.size =
                                                     sizeof parameters_class,
                                                 .name = "ParameterList",
                                                 .bytes = sizeof(tn_module),
                                                 .forward = no_forward};

/* Makes a module that holds `objects`, all modules (kind "module") or all
 * parameters (kind "tensor"). */
tn_module *tn__nn_holder(const tn_module_class *type, void *const *objects,
                         int count, const char *kind, const char *what,
                         const char *argument)
{
    if (count < 0 || (count && !objects)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, what, argument, "%s is NULL",
                                 argument);
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s[%d]", argument, i);
        if (!tn_object_check_kind(objects[i], kind, what, name))
            return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn_module *holder = tn_module_new(type);
    bool made = holder;
    for (int i = 0; made && i < count; i++)
        made = *kind == 'm'
                   ? tn_module_append(holder, objects[i]) != NULL
                   : tn_module_append_parameter(holder, objects[i]) != NULL;
    return tn_scope_result(scope, made ? holder : NULL);
}

tn_module *tn_nn_module_list_with(tn_module *const *modules, int count)
{
    return tn__nn_holder(&list_class, (void *const *)modules, count, "module",
                         "nn_module_list", "modules");
}

tn_module *tn_nn_module_dict(void)
{
    return tn_module_new(&dict_class);
}

tn_module *tn_nn_parameter_list_with(tn_tensor *const *values, int count)
{
    return tn__nn_holder(&parameters_class, (void *const *)values, count,
                         "tensor", "nn_parameter_list", "values");
}

/* ---- identity ------------------------------------------------------------ */

static tn_tensor *identity_forward(tn_module *self, tn_tensor *input)
{
    (void)self;
    return input;
}

tn_module *tn_nn_identity(void)
{
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "Identity",
                                         .bytes = sizeof(tn_module),
                                         .forward = identity_forward};
    return tn_module_new(&type);
}
