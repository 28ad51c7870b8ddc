/* parametrize.c: registers, changes and removes parametrizations.
 *
 * The first parametrization of a parameter makes a ParametrizationList. It
 * holds the originals, the tensors that are trained, and runs the
 * parametrizations on them. computed.c runs the module with the result. */
#include <nn/tree.h>

#include <stdio.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

static const char registers[] = "module_register_parametrization";
static const char sets[] = "module_set_parametrized";
static const char removes[] = "module_remove_parametrizations";
static const char children[] = "parametrizations";

/* ---- running ------------------------------------------------------------- */

/* Runs parametrization i on the values of the previous one, or on the originals
 * if it is the first one. */
static tn_tensor *run_one(tn_module *parametrization, tn_tensor *const *in,
                          int count)
{
    tn_tensor *out;
    return tn_forward_list(parametrization, in, count, &out, 1) < 0 ? NULL
                                                                    : out;
}

static tn_tensor *compute(tn__nn_source *list)
{
    tn_tensor *value = NULL;
    tn_module *at;
    for (int i = 0; (at = tn_module_child_at(&list->base, i)); i++) {
        value = i ? run_one(at, &value, 1)
                  : run_one(at, list->original, list->count);
        if (!value)
            return NULL;
    }
    return value;
}

static tn_tensor *no_forward(tn_module *self, tn_tensor *input)
{
    (void)input;
    tn_error_refuse_argument(TN_ERR_UNSUPPORTED, self->type->name, NULL,
                             "parametrizations have no forward: call "
                             "tn_module_parameter of their module");
    return NULL;
}

static const tn_module_class list_class = {.size = sizeof list_class,
                                           .name = "ParametrizationList",
                                           .bytes = sizeof(tn__nn_source),
                                           .forward = no_forward};

/* Returns the list of a parametrized entry, else NULL. */
static tn__nn_source *list_of(const tn__nn_entry *entry)
{
    tn__nn_source *source = entry->value;
    return entry->kind == TN__NN_COMPUTED && source->compute == compute
               ? source
               : NULL;
}

bool tn_module_is_parametrized(const tn_module *any, const char *name)
{
    const tn_module *module =
        any ? tn__nn_module(any, "module_is_parametrized") : NULL;
    if (!module || !module->tree->computed)
        return false;
    for (const tn__nn_entry *e = module->tree->first; e; e = e->next)
        if (list_of(e) && (!name || strcmp(e->name, name) == 0))
            return true;
    return false;
}

/* ---- right inverses ------------------------------------------------------ */

/* Runs the right_inverse of a parametrization, and sets out[] to `count` new
 * tensors. If it has none, or has none for this value, out[0] is NULL. Returns
 * false with an error if it failed. */
static bool invert(tn_module *parametrization, tn_tensor *value,
                   tn_tensor **out, int count)
{
    const tn_module_class *type = parametrization->type;
    for (int i = 0; i < count; i++)
        out[i] = NULL;
    if (!TN__NN_HAS(type, right_inverse) || !type->right_inverse)
        return true;
    tn_status status = type->right_inverse(parametrization, value, out);
    bool none = !out[0];
    for (int i = 0; i < count && !tn_error() && !none; i++)
        out[i] = tn__nn_tensor(out[i], type->name, "the right inverse")
                     ? tn_detach(tn_clone(out[i]))
                     : NULL;
    if (status < 0 && !tn_error())
        tn_error_refuse_argument(status, type->name, NULL,
                                 "its right_inverse failed without an error");
    return !tn_error();
}

/* ---- registering --------------------------------------------------------- */

/* Adds the originals to a new list. */
static bool add_originals(tn__nn_source *list, const tn__nn_entry *entry,
                          tn_tensor *const *original)
{
    bool parameter = entry->kind == TN__NN_PARAMETER;
    bool trains = tn_tensor_requires_grad(entry->value);
    for (int i = 0; i < list->count; i++) {
        char name[24] = "original";
        tn_tensor *x = list->original[i] = original[i];
        if (list->count > 1)
            snprintf(name, sizeof name, "original%d", i);
        if (list->count > 1 && parameter && !tn_requires_grad(x))
            return false;
        if (!tn__nn_add_entry(&list->base, name, entry->kind, x) ||
            (list->count > 1 && parameter && !trains &&
             tn_tensor_set_requires_grad(x, false) < 0))
            return false;
    }
    return true;
}

/* Makes module.parametrizations.NAME the list. Returns false, and changes
 * nothing, on failure. `given` is the new data of the single original, or
 * NULL. */
static bool attach(tn_module *module, tn__nn_entry *entry, tn__nn_source *list,
                   tn_tensor *given)
{
    tn__nn_entry *held = tn__nn_find(module, children, strlen(children));
    bool is_new = !held || held->kind != TN__NN_CHILD;
    tn_module *dict = is_new ? tn_nn_module_dict() : held->value;
    if (!dict || !tn_module_add(dict, entry->name, &list->base))
        return false;
    if (is_new && !tn_module_add(module, children, dict))
        return false;
    if (given && tn_tensor_set_data(entry->value, given) < 0) {
        tn__nn_unlink(dict, tn__nn_find(dict, entry->name, strlen(entry->name)),
                      false);
        if (is_new)
            tn__nn_unlink(module,
                          tn__nn_find(module, children, strlen(children)),
                          false);
        return false;
    }
    tn__nn_bind(module, entry, list);
    return true;
}

/* Registers the first parametrization of an entry. */
static bool start(tn_module *module, tn__nn_entry *entry,
                  tn_module *parametrization, bool unsafe)
{
    tn_tensor *out[TN_MODULE_VALUES], *present = entry->value;
    int count = parametrization->tree->required;
    if (!tn__nn_can_bind(module, entry, registers) ||
        !invert(parametrization, present, out, count))
        return false;
    bool inverted = out[0];
    if (!inverted && count > 1) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, registers, "parametrization",
                                 "%s has %d inputs, but no right_inverse that "
                                 "computes them",
                                 parametrization->type->name, count);
        return false;
    }
    if (!inverted)
        out[0] = present;
    else if (count == 1 &&
             (tn_tensor_dtype(out[0]) != tn_tensor_dtype(present) ||
              tn_tensor_device(out[0]) != tn_tensor_device(present))) {
        tn_error_refuse(TN_ERR_DTYPE, registers,
                        &(tn_given){"the original", out[0]}, 1,
                        "the right_inverse of %s changes the dtype or device",
                        parametrization->type->name);
        return false;
    }
    tn_tensor *value = unsafe ? present : run_one(parametrization, out, count);
    if (!value || !tn__nn_same_kind(value, present, registers, "the value"))
        return false;
    tn__nn_source *list = tn_module_new(&list_class);
    if (!list)
        return false;
    list->compute = compute;
    list->shape =
        tn_dims_from_array(tn_tensor_shape(value), tn_tensor_ndim(value));
    list->count = count;
    list->base.training = module->training;
    bool one = count == 1;
    return add_originals(list, entry, one ? &present : out) &&
           tn_module_append(&list->base, parametrization) &&
           attach(module, entry, list, one && inverted ? out[0] : NULL);
}

/* Registers another parametrization. */
static bool extend(tn__nn_source *list, tn_module *parametrization, bool unsafe)
{
    if (parametrization->tree->required > 1) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, registers, "parametrization",
                                 "%s has %d inputs: only the first "
                                 "parametrization may have several",
                                 parametrization->type->name,
                                 parametrization->tree->required);
        return false;
    }
    if (!unsafe) {
        tn_tensor *inverse, *before = tn__nn_compute(list);
        tn_tensor *value = before ? run_one(parametrization, &before, 1) : NULL;
        if (!value ||
            !tn__nn_same_kind(value, before, registers, "the value") ||
            !invert(parametrization, value, &inverse, 1) ||
            (inverse &&
             !tn__nn_same_kind(inverse, before, registers, "the original")))
            return false;
    }
    return tn_module_append(&list->base, parametrization);
}

TN_OPTIONS_TYPE(tn_module_register_parametrization,
                "module_register_parametrization",
                "module, name, parametrization",
                TN_MODULE_REGISTER_PARAMETRIZATION_OPTIONS_LIST)

void *tn_module_register_parametrization_with(
    tn_module *any, const char *name, tn_module *parametrization,
    const tn_module_register_parametrization_options *options)
{
    tn_module_register_parametrization_options o;
    if (tn_error() || tn_options_take(tn_module_register_parametrization_type(),
                                      &o, options) < 0)
        return NULL;
    tn_module *module = tn__nn_module(any, registers);
    if (!module || !tn__nn_not_null(name, registers, "name") ||
        !tn_object_check(parametrization, &tn__nn_module_class, registers,
                         "parametrization"))
        return NULL;
    tn__nn_entry *entry = tn__nn_tensor_entry(module, name, registers);
    if (!entry)
        return NULL;
    if (entry->kind == TN__NN_COMPUTED && !list_of(entry)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, registers, "name",
                                 "\"%s\" is pruned: call tn_prune_remove first",
                                 name);
        return NULL;
    }
    bool fine = false;
    tn_module_train(parametrization, module->training);
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD
    {
        fine = list_of(entry)
                   ? extend(list_of(entry), parametrization, o.unsafe)
                   : start(module, entry, parametrization, o.unsafe);
    }
    tn_scope_close(scope);
    return fine ? module : NULL;
}

/* ---- changing and removing ----------------------------------------------- */

/* Returns the entry of a parametrized parameter, or NULL with an error. */
static tn__nn_entry *parametrized(const tn_module *module, const char *name,
                                  const char *what)
{
    if (!module || !tn__nn_not_null(name, what, "name"))
        return NULL;
    tn__nn_entry *entry = tn__nn_tensor_entry(module, name, what);
    if (entry && !list_of(entry))
        tn_error_refuse_argument(TN_ERR_ARGUMENT, what, "name",
                                 "\"%s\" of %s is not parametrized", name,
                                 module->type->name);
    return entry && list_of(entry) ? entry : NULL;
}

static bool set_value(tn__nn_source *list, tn_tensor *value)
{
    tn_tensor *out[TN_MODULE_VALUES];
    for (int i = tn_module_child_count(&list->base) - 1; i >= 0; i--) {
        tn_module *at = tn_module_child_at(&list->base, i);
        int count = i ? 1 : list->count;
        if (!invert(at, value, out, count))
            return false;
        if (!out[0]) {
            tn_error_refuse_argument(TN_ERR_UNSUPPORTED, sets, "name",
                                     "parametrization %d, %s, has no "
                                     "right_inverse",
                                     i, at->type->name);
            return false;
        }
        value = out[0];
    }
    for (int i = 0; i < list->count; i++)
        if (!tn__nn_same_kind(out[i], list->original[i], sets, "the original"))
            return false;
    for (int i = 0; i < list->count; i++)
        if (tn_tensor_set_data(list->original[i], out[i]) < 0)
            return false;
    return true;
}

void *tn_module_set_parametrized(tn_module *any, const char *name,
                                 tn_tensor *value)
{
    if (tn_error())
        return NULL;
    tn_module *module = tn__nn_module(any, sets);
    tn__nn_entry *entry = module && tn__nn_tensor(value, sets, "value")
                              ? parametrized(module, name, sets)
                              : NULL;
    if (!entry)
        return NULL;
    bool fine = false;
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD
    {
        fine = set_value(list_of(entry), value);
    }
    tn_scope_close(scope);
    return fine ? module : NULL;
}

/* Returns the parameter or buffer to register: the single original, or a new
 * tensor with the value. */
static tn_tensor *restored(const tn__nn_source *list, tn_tensor *value,
                           enum tn__nn_kind kind)
{
    tn_tensor *x = list->original[0];
    value = value ? tn_clone(value) : NULL;
    if (list->count == 1)
        return value && tn_tensor_set_data(x, value) < 0 ? NULL : x;
    bool trains = false;
    for (int i = 0; i < list->count; i++)
        trains = trains || tn_tensor_requires_grad(list->original[i]);
    return kind == TN__NN_PARAMETER && trains ? tn_requires_grad(value) : value;
}

TN_OPTIONS_TYPE(tn_module_remove_parametrizations,
                "module_remove_parametrizations", "module, name",
                TN_MODULE_REMOVE_PARAMETRIZATIONS_OPTIONS_LIST)

void *tn_module_remove_parametrizations_with(
    tn_module *any, const char *name,
    const tn_module_remove_parametrizations_options *options)
{
    tn_module_remove_parametrizations_options o;
    if (tn_error() || tn_options_take(tn_module_remove_parametrizations_type(),
                                      &o, options) < 0)
        return NULL;
    tn_module *module = tn__nn_module(any, removes);
    tn__nn_entry *entry = parametrized(module, name, removes);
    if (!entry)
        return NULL;
    tn__nn_source *list = list_of(entry);
    if (!o.leave_parametrized && list->count > 1) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, removes, "leave_parametrized",
                                 "leave_parametrized is false, but \"%s\" has "
                                 "%d originals",
                                 name, list->count);
        return NULL;
    }
    enum tn__nn_kind kind = list->base.tree->first->kind;
    tn_scope *scope = tn_scope_open();
    tn_tensor *value = NULL, *x = NULL;
    TN_NO_GRAD
    {
        value = o.leave_parametrized ? compute(list) : NULL;
        if (value || !o.leave_parametrized)
            x = restored(list, value, kind);
    }
    if (x) {
        tn__nn_entry *held = tn__nn_find(module, children, strlen(children));
        tn_module *dict = held->value;
        tn__nn_unbind(module, entry, kind, x);
        tn__nn_unlink(dict, tn__nn_find(dict, entry->name, strlen(entry->name)),
                      false);
        if (!dict->tree->first)
            tn__nn_unlink(module, held, false);
    }
    tn_scope_close(scope);
    return x ? module : NULL;
}

/* ---- of functions -------------------------------------------------------- */

typedef struct functions {
    tn_module base;
    tn_parametrize_function forward, right_inverse; /* right_inverse may be
                                                       NULL */
    void *context;                                  /* not owned */
} functions;

static tn_tensor *functions_forward(tn_module *self, tn_tensor *input)
{
    const functions *f = (functions *)self;
    return f->forward(input, f->context);
}

static tn_status functions_inverse(tn_module *self, tn_tensor *value,
                                   tn_tensor **out)
{
    const functions *f = (functions *)self;
    if (!f->right_inverse)
        return TN_OK;
    out[0] = f->right_inverse(value, f->context);
    return out[0] ? TN_OK : tn_error() ? tn_error_code() : TN_ERR_ARGUMENT;
}

tn_module *tn_nn_parametrization(tn_parametrize_function forward,
                                 tn_parametrize_function right_inverse,
                                 void *context)
{
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "Parametrization",
                                         .bytes = sizeof(functions),
                                         .forward = functions_forward,
                                         .right_inverse = functions_inverse};
    if (!forward) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "nn_parametrization",
                                 "forward", "forward is NULL");
        return NULL;
    }
    functions *f = tn_module_new(&type);
    if (f) {
        f->forward = forward;
        f->right_inverse = right_inverse;
        f->context = context;
    }
    return (tn_module *)f;
}
