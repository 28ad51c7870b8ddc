/* parameters.c: lists of a model's parameters, and functions that change all
 * tensors of a model: move, convert, freeze. */
#include <nn/tree.h>

#include <string.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>

/* A list is one allocation: the struct, the items, then their names. */
typedef struct item {
    tn_tensor *tensor; /* counted reference */
    const char *name;  /* stored in the list's allocation */
} item;

struct tn_parameter_list {
    tn_object object;
    int count;
    item item[];
};

static void list_release(void *object)
{
    tn_parameter_list *list = object;
    for (int i = 0; i < list->count; i++)
        tn_drop(list->item[i].tensor);
}

static const tn_object_class list_class = {
    sizeof list_class, "parameter list", sizeof(tn_parameter_list),
    list_release};

typedef struct gather {
    tn_parameter_list *list; /* NULL in the first pass, which adds up sizes */
    int count;
    size_t name_bytes;
    char *name;              /* position at which the next name is written */
} gather;

static bool is_listed(const tn_parameter_list *list, const tn_tensor *x)
{
    for (int i = 0; i < list->count; i++) {
        if (list->item[i].tensor == x)
            return true;
    }
    return false;
}

static tn_status gather_one(tn_tensor *x, const char *path, void *context)
{
    gather *g = context;
    if (!g->list) {
        g->count++;
        g->name_bytes += strlen(path) + 1;
    } else if (!is_listed(g->list, x)) { /* a shared tensor is listed once */
        item *to = &g->list->item[g->list->count++];
        to->tensor = tn_keep(x);
        to->name = strcpy(g->name, path);
        g->name += strlen(path) + 1;
    }
    return TN_OK;
}

static tn_parameter_list *list_of(tn_module *module, unsigned kinds,
                                  const char *what)
{
    if (!tn__nn_module(module, what))
        return NULL;
    gather g = {0};
    if (tn__nn_walk_tensors(module, kinds, gather_one, &g) != TN_OK)
        return NULL;
    g.list = tn_object_new(&list_class, (size_t)g.count * sizeof(item) +
                                            g.name_bytes);
    if (!g.list)
        return NULL;
    g.name = (char *)&g.list->item[g.count];
    tn__nn_walk_tensors(module, kinds, gather_one, &g);
    return g.list;
}

tn_parameter_list *tn_parameters(tn_module *module)
{
    return list_of(module, 1u << TN__NN_PARAMETER, "parameters");
}

tn_parameter_list *tn_module_state(tn_module *module)
{
    return list_of(module, 1u << TN__NN_PARAMETER | 1u << TN__NN_BUFFER,
                   "module_state");
}

tn_parameter_list *tn_parameters_from(tn_tensor *const *tensors, int count)
{
    if (count < 0 || (count && !tensors)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "parameters_from", "tensors",
                                 "tensors is NULL");
        return NULL;
    }
    enum { NAME_BYTES = 12 };
    for (int i = 0; i < count; i++) {
        char argument[32];
        snprintf(argument, sizeof argument, "tensors[%d]", i);
        if (!tn__nn_tensor(tensors[i], "parameters_from", argument))
            return NULL;
        if (!tn_tensor_is_leaf(tensors[i]) ||
            !tn_tensor_requires_grad(tensors[i])) {
            tn_error_refuse_argument(TN_ERR_STATE, "parameters_from", "tensors",
                                     "tensors[%d] is not a leaf that requires "
                                     "a gradient: call tn_requires_grad on it",
                                     i);
            return NULL;
        }
        for (int k = 0; k < i; k++)
            if (tensors[k] == tensors[i]) {
                const tn_given given = {"tensors", tensors[i]};
                tn_error_refuse(TN_ERR_ARGUMENT, "parameters_from", &given, 1,
                                "tensors[%d] and tensors[%d] are one tensor: "
                                "an optimizer would step it twice", k, i);
                return NULL;
            }
    }
    tn_parameter_list *list =
        tn_object_new(&list_class, (size_t)count * (sizeof(item) + NAME_BYTES));
    if (!list)
        return NULL;
    char *name = (char *)&list->item[count];
    for (int i = 0; i < count; i++, name += NAME_BYTES) {
        snprintf(name, NAME_BYTES, "%d", i);
        list->item[i] = (item){tn_keep(tensors[i]), name};
    }
    list->count = count;
    return list;
}

/* Checks the arguments of a function that reads an attribute. A list that is
 * NULL returns false without an error. */
static bool has_index(const tn_parameter_list *list, int i, const char *what)
{
    return list && tn_object_check(list, &list_class, what, "list") &&
           i >= 0 && i < list->count;
}

int tn_parameters_count(const tn_parameter_list *list)
{
    return list && tn_object_check(list, &list_class, "parameters_count",
                                   "list")
               ? list->count
               : 0;
}

tn_tensor *tn_parameters_at(const tn_parameter_list *list, int i)
{
    return has_index(list, i, "parameters_at") ? list->item[i].tensor : NULL;
}

const char *tn_parameters_name(const tn_parameter_list *list, int i)
{
    return has_index(list, i, "parameters_name") ? list->item[i].name : NULL;
}

/* ---- operations on all tensors ------------------------------------------ */

static tn_status forget_gradient(tn_tensor *x, const char *path,
                                 void *context)
{
    (void)path, (void)context;
    return tn_tensor_grad(x) ? tn_tensor_set_grad(x, NULL) : TN_OK;
}

void tn_module_zero_grad(tn_module *module)
{
    if (tn__nn_module(module, "module_zero_grad"))
        tn__nn_walk_tensors(module, 1u << TN__NN_PARAMETER, forget_gradient,
                            NULL);
}

static tn_status add_numel(tn_tensor *x, const char *path, void *context)
{
    (void)path;
    *(int64_t *)context += tn_tensor_numel(x);
    return TN_OK;
}

int64_t tn_module_parameter_count(const tn_module *module)
{
    int64_t total = 0;
    tn_module *here = tn__nn_module(module, "module_parameter_count");
    if (here)
        tn__nn_walk_tensors(here, 1u << TN__NN_PARAMETER, add_numel, &total);
    return total;
}

/* ---- moving ------------------------------------------------------------- */

/* Moved or converted copies of all tensors. All are made before the first
 * replaces its original, so that the model is unchanged if device memory runs
 * out. */
typedef struct copies {
    tn_object object;
    tn_device *device; /* target, or NULL to stay on the same device */
    tn_dtype dtype;    /* target, or TN_DTYPE_NONE to keep the dtype */
    size_t count, placed;
    tn_tensor *copy[]; /* owned by the open scope */
} copies;

static const tn_object_class copies_class = {
    sizeof copies_class, "copies", sizeof(copies), NULL};

static tn_status count_one(tn_tensor *x, const char *path, void *context)
{
    (void)x, (void)path;
    ++*(size_t *)context;
    return TN_OK;
}

static tn_status copy_one(tn_tensor *x, const char *path, void *context)
{
    copies *c = context;
    tn_tensor *copy = x;
    if (c->dtype && tn_dtype_is_floating(tn_tensor_dtype(x)) &&
        tn_tensor_dtype(x) != c->dtype)
        copy = tn_to_dtype(x, c->dtype);
    if (c->device)
        copy = tn_to(copy, c->device);
    if (copy && copy != x && !tn_tensor_is_leaf(x)) {
        tn_error_refuse(TN_ERR_STATE, "module_to", &(tn_given){"module", x}, 1,
                        "%s is the result of a recorded operator: make it "
                        "without recording, or tn_detach it",
                        path);
        copy = NULL;
    }
    c->copy[c->count++] = copy;
    return copy ? TN_OK : tn_error_code();
}

static tn_status place_one(tn_tensor *x, const char *path, void *context)
{
    (void)path;
    copies *c = context;
    tn_tensor *copy = c->copy[c->placed++];
    return copy == x ? TN_OK : tn_tensor_set_data(x, copy);
}

TN_OPTIONS_TYPE(tn_module_to, "module_to", "module", TN_MODULE_TO_OPTIONS_LIST)

void *tn_module_to_with(tn_module *module, const tn_module_to_options *options)
{
    tn_module_to_options o;
    if (tn_options_take(tn_module_to_type(), &o, options) < 0 ||
        !tn__nn_module(module, "module_to") || tn_error())
        return NULL;
    if (!o.device && !o.dtype) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "module_to", "device",
                                 "device is NULL: give .device or .dtype");
        return NULL;
    }
    if (o.dtype && !tn_dtype_is_floating(o.dtype)) {
        tn_error_refuse_argument(TN_ERR_DTYPE, "module_to", "dtype",
                                 "dtype is %s: expected a floating-point dtype",
                                 tn_dtype_name(o.dtype));
        return NULL;
    }
    const unsigned all = 1u << TN__NN_PARAMETER | 1u << TN__NN_BUFFER;
    size_t count = 0;
    tn_status status = tn__nn_walk_tensors(module, all, count_one, &count);
    tn_scope *scope = tn_scope_open();
    copies *c = status == TN_OK ? tn_object_new(&copies_class,
                                                count * sizeof(tn_tensor *))
                                : NULL;
    if (c) {
        c->device = o.device;
        c->dtype = o.dtype;
        TN_NO_GRAD {
            status = tn__nn_walk_tensors(module, all, copy_one, c);
        }
        if (status == TN_OK)
            status = tn__nn_walk_tensors(module, all, place_one, c);
    }
    tn_scope_close(scope);
    return c && status == TN_OK ? module : NULL;
}

/* ---- freezing ----------------------------------------------------------- */

static tn_status set_requires_grad(tn_tensor *x, const char *path,
                                   void *context)
{
    (void)path;
    return tn_tensor_set_requires_grad(x, *(bool *)context);
}

void *tn_module_set_requires_grad(tn_module *module, bool on)
{
    return tn__nn_module(module, "module_set_requires_grad") &&
                   tn__nn_walk_tensors(module, 1u << TN__NN_PARAMETER,
                                       set_requires_grad, &on) == TN_OK
               ? module
               : NULL;
}
