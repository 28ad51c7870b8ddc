/* nn_state.c: a model's parameters and buffers in a safetensors file. */
#include <nn/tree.h>

#include <string.h>
#include <tenon/autograd.h>
#include <tenon/io.h>
#include <tenon/ops.h>

enum { ALL = 1u << TN__NN_PARAMETER | 1u << TN__NN_BUFFER };

/* Tensors with their paths, as tn_safetensors_save takes them. */
typedef struct state {
    tn_object object;
    int count;
    tn_tensor **tensor;
    const char **name;
    char *names; /* where the next name goes */
} state;

static const tn_object_class state_class = {sizeof state_class, "state",
                                            sizeof(state), NULL};

typedef struct sizes {
    size_t count, name_bytes;
} sizes;

static tn_status measure(tn_tensor *x, const char *path, void *context)
{
    (void)x;
    sizes *s = context;
    s->count++;
    s->name_bytes += strlen(path) + 1;
    return TN_OK;
}

static tn_status fill(tn_tensor *x, const char *path, void *context)
{
    state *s = context;
    s->tensor[s->count] = x;
    s->name[s->count++] = strcpy(s->names, path);
    s->names += strlen(path) + 1;
    return TN_OK;
}

/* Owned by the open scope; lends the module's tensors. */
static state *state_of(tn_module *module)
{
    sizes need = {0};
    if (tn__nn_walk_tensors(module, ALL, measure, &need) != TN_OK)
        return NULL;
    state *s = tn_object_new(&state_class,
                             need.count * 2 * sizeof(void *) +
                                 need.name_bytes);
    if (!s)
        return NULL;
    s->tensor = (tn_tensor **)(s + 1);
    s->name = (const char **)(s->tensor + need.count);
    s->names = (char *)(s->name + need.count);
    tn__nn_walk_tensors(module, ALL, fill, s);
    return s;
}

tn_status tn_module_save(const tn_module *module, const char *path)
{
    if (tn_error())
        return TN_ERR_STATE;
    tn_module *here = tn__nn_module(module, "module_save");
    if (!here)
        return TN_ERR_ARGUMENT;
    if (!path)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "module_save", "path",
                                        "path is NULL");
    tn_scope *scope = tn_scope_open();
    state *s = state_of(here);
    tn_status status =
        s ? tn_safetensors_save(path, s->name, s->tensor, s->count, NULL, 0)
          : tn_error_code();
    tn_error_rename("safetensors_save", "module_save",
                    status == TN_ERR_IO ? "path" : "module");
    tn_scope_close(scope);
    return status;
}

static tn_status check_same(const char *path, const char *name, tn_tensor *x,
                            tn_tensor *y)
{
    bool same = tn_tensor_dtype(x) == tn_tensor_dtype(y) &&
                tn_tensor_ndim(x) == tn_tensor_ndim(y);
    for (int i = 0; same && i < tn_tensor_ndim(x); i++)
        same = tn_tensor_shape(x)[i] == tn_tensor_shape(y)[i];
    if (same)
        return TN_OK;
    return tn_error_refuse_argument(
        TN_ERR_SHAPE, "module_load", "path",
        "%s: \"%s\" has another shape or dtype in the file (%s, %d dimensions, "
        "%lld elements) than in the module (%s, %d, %lld)",
        path, name, tn_dtype_name(tn_tensor_dtype(y)), tn_tensor_ndim(y),
        (long long)tn_tensor_numel(y), tn_dtype_name(tn_tensor_dtype(x)),
        tn_tensor_ndim(x), (long long)tn_tensor_numel(x));
}

/* Both sides must have the same names, shapes and dtypes; else nothing is
 * loaded. */
static tn_status check_file(const state *s, tn_safetensors *file,
                            const char *path)
{
    for (int i = 0; i < s->count; i++) {
        if (!tn_safetensors_has(file, s->name[i]))
            return tn_error_refuse_argument(
                TN_ERR_ARGUMENT, "module_load", "path",
                "%s: the file has no \"%s\"", path, s->name[i]);
        tn_tensor *y = tn_safetensors_tensor(file, s->name[i]);
        tn_status status = y ? check_same(path, s->name[i], s->tensor[i], y)
                             : tn_error_code();
        if (status < 0)
            return status;
    }
    for (int k = 0; k < tn_safetensors_count(file); k++) {
        const char *name = tn_safetensors_name(file, k);
        bool known = false;
        for (int i = 0; i < s->count && !known; i++)
            known = strcmp(s->name[i], name) == 0;
        if (!known)
            return tn_error_refuse_argument(
                TN_ERR_ARGUMENT, "module_load", "path",
                "%s: the module has no \"%s\"", path, name);
    }
    return TN_OK;
}

static tn_status load_into(const state *s, tn_safetensors *file)
{
    tn_status status = TN_OK;
    TN_NO_GRAD {
        for (int i = 0; i < s->count && status == TN_OK; i++) {
            tn_tensor *y = tn_safetensors_tensor(file, s->name[i]);
            y = y ? tn_to(y, tn_tensor_device(s->tensor[i])) : NULL;
            if (!y || !tn_copy_(s->tensor[i], y))
                status = tn_error_code();
        }
    }
    return status;
}

tn_status tn_module_load(tn_module *module, const char *path)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn__nn_module(module, "module_load"))
        return TN_ERR_ARGUMENT;
    if (!path)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "module_load", "path",
                                        "path is NULL");
    tn_scope *scope = tn_scope_open();
    tn_safetensors *file = tn_safetensors_open(path);
    state *s = file ? state_of(module) : NULL;
    tn_status status = s ? check_file(s, file, path) : tn_error_code();
    if (status == TN_OK)
        status = load_into(s, file);
    tn_error_rename("safetensors_open", "module_load", "path");
    tn_error_rename("safetensors_tensor", "module_load", "path");
    tn_scope_close(scope);
    return status;
}
