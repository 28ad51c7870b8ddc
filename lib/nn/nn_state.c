/* nn_state.c: writes a model's parameters and buffers to a safetensors file. */
#include <nn/tree.h>

#include <string.h>
#include <tenon/io.h>

enum { ALL = 1u << TN__NN_PARAMETER | 1u << TN__NN_BUFFER };

static const tn_object_class state_class = {sizeof state_class, "state",
                                            sizeof(tn__nn_state), NULL};

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
    tn__nn_state *s = context;
    s->tensor[s->count] = x;
    s->name[s->count++] = strcpy(s->names, path);
    s->names += strlen(path) + 1;
    return TN_OK;
}

tn__nn_state *tn__nn_state_of(tn_module *module)
{
    sizes need = {0};
    if (tn__nn_walk_tensors(module, ALL, measure, &need) != TN_OK)
        return NULL;
    tn__nn_state *s = tn_object_new(
        &state_class, need.count * 2 * sizeof(void *) + need.name_bytes);
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
    tn__nn_state *s = tn__nn_state_of(here);
    tn_status status =
        s ? tn_safetensors_save(path, s->name, s->tensor, s->count, NULL, 0)
          : tn_error_code();
    tn_error_rename("safetensors_save", "module_save",
                    status == TN_ERR_IO ? "path" : "module");
    tn_scope_close(scope);
    return status;
}
