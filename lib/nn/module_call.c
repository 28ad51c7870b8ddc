/* module_call.c: calling a module: its path, its scope, and its hooks. */
#include <nn/tree.h>

#include <string.h>
#include <tenon/trace.h>

/* The module that this thread is running. */
static _Thread_local const tn_module *running;

/* The path of names from the running module, or from the root, to this one. A
 * module list is not run itself, so its name is part of the path. */
static const tn_path *find_path_here(const tn_module *module)
{
    char names[TN__NN_PATH_BYTES];
    size_t at = sizeof names - 1;
    names[at] = '\0';
    for (const tn_module *m = module; m != running && m->tree->name;
         m = m->tree->parent) {
        size_t length = strlen(m->tree->name);
        bool last = names[at] == '\0';
        if (at < length + !last)
            break;
        if (!last)
            names[--at] = '.';
        at -= length;
        memcpy(names + at, m->tree->name, length);
    }
    return tn_path_join(tn_path_current(), names + at);
}

static const tn_path *path_here(const tn_module *module)
{
    struct tn_module_tree *tree = module->tree;
    const tn_path *path =
        atomic_load_explicit(&tree->path, memory_order_acquire);
    if (!tree->name)
        return tn_path_current();
    if (!path || tn_path_outer(path) != tn_path_current()) {
        path = find_path_here(module);
        atomic_store_explicit(&tree->path, path, memory_order_release);
    }
    return path;
}

/* Begins a call. fine: the arguments are valid. */
static tn_module_call begin(tn_module *module, tn_tensor **inputs, int count,
                            bool fine)
{
    tn_module_call call = {.running = running, .path = tn_path_current()};
    tn_path_enter(path_here(module));
    running = module;
    /* Intermediate results of forward are freed when it returns. */
    call.scope = tn_scope_open();
    if (call.scope)
        tn_trace_push(module->type->name);
    fine = fine && call.scope && inputs[0];
    if (fine && module->tree->hook)
        fine = tn__nn_hooks_before(module, &call, inputs, count);
    for (int i = 0; i < count && !fine; i++)
        inputs[i] = NULL;
    call.input = inputs[0];
    return call;
}

tn_module_call tn_module_begin(tn_module *any, tn_tensor **inputs, int count)
{
    tn_module *module = tn__nn_module(any, "module_begin");
    if (!module || !tn__nn_not_null(inputs, "module_begin", "inputs")) {
        for (int i = 0; i < count && inputs; i++)
            inputs[i] = NULL;
        return (tn_module_call){.running = running, .path = tn_path_current()};
    }
    bool fine = true;
    for (int i = 0; i < count && fine; i++)
        fine = tn__nn_tensor_or_null(inputs[i], "module_begin", "an input");
    return begin(module, inputs, count, fine);
}

/* Ends a call: its outputs go to the scope around it. */
static bool end(tn_module *module, tn_module_call *call, tn_tensor **out,
                int count)
{
    if (module && out[0] && module->tree->hook)
        out[0] = tn__nn_hooks_after(module, call, out[0]);
    bool fine = module;
    for (int i = 0; i < count; i++)
        fine = fine && out[i];
    for (int i = 0; i < count; i++)
        out[i] = fine ? tn_keep(out[i]) : NULL;
    if (call->scope)
        tn_trace_pop();
    tn_scope_close(call->scope);
    for (int i = 0; i < count; i++)
        tn_scope_adopt(out[i]);
    tn_path_enter(call->path);
    running = call->running;
    return fine;
}

bool tn_module_end(tn_module *any, tn_module_call *call, tn_tensor **out,
                   int count)
{
    tn_module *module = tn__nn_module(any, "module_end");
    if (!tn__nn_not_null(call, "module_end", "call") ||
        !tn__nn_not_null(out, "module_end", "out"))
        return false;
    for (int i = 0; i < count; i++)
        if (!tn__nn_tensor_or_null(out[i], "module_end", "an output"))
            out[i] = NULL;
    return end(module, call, out, count);
}

tn_tensor *tn_forward(tn_module *any, tn_tensor *input)
{
    tn_module *module = tn__nn_module(any, "forward");
    if (!module || !tn__nn_tensor(input, "forward", "input"))
        return NULL;
    /* A module with several parents may be nested deeper in one of them than
     * tn_module_add checked. */
    static _Thread_local int depth;
    if (depth >= TN__NN_MAX_DEPTH) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "forward", NULL,
                                 "modules are nested more than %d deep",
                                 TN__NN_MAX_DEPTH);
        return NULL;
    }
    depth++;
    tn_module_call call = begin(module, &input, 1, true);
    tn_tensor *output = input ? tn__nn_forward(module, input) : NULL;
    if (!output && !tn_error())
        tn_error_refuse_argument(TN_ERR_ARGUMENT, module->type->name, NULL,
                                 "its forward returned NULL");
    if (output &&
        !tn__nn_tensor(output, module->type->name, "its forward's result"))
        output = NULL;
    end(module, &call, &output, 1);
    depth--;
    return output;
}
