/* module_call.c: calling a module: its path, its scope, and its hooks. */
#include <nn/tree.h>

#include <stdio.h>
#include <string.h>
#include <tenon/graph.h>
#include <tenon/trace.h>

/* The state of this thread's module calls. It is one struct, so that a call
 * looks up its address only once: in a shared library, each access to a
 * thread-local variable is a function call. */
typedef struct thread_state {
    const tn_module *running;
    tn__nn_watcher *watcher;
    int depth; /* number of nested tn_forward calls */
} thread_state;
static _Thread_local thread_state here;

tn__nn_watcher *tn__nn_watch(tn__nn_watcher *other)
{
    tn__nn_watcher *before = here.watcher;
    here.watcher = other;
    return before;
}

bool tn__nn_is_watched(void)
{
    return here.watcher;
}

/* Returns the path of names from the running module, or from the root, to
 * module. A module list is not run itself, so its name becomes part of this
 * path. */
static const tn_path *find_path_here(const tn_module *module)
{
    char names[TN__NN_PATH_BYTES];
    size_t at = sizeof names - 1;
    names[at] = '\0';
    for (const tn_module *m = module; m != here.running && m->tree->name;
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

/* Begins a call. If the arguments were found invalid, fine is false. */
static tn_module_call begin(tn_module *module, tn_tensor **inputs, int count,
                            bool fine)
{
    tn_module_call call = {.running = here.running, .path = tn_path_current()};
    tn_path_enter(path_here(module));
    here.running = module;
    /* Intermediate results of forward are freed when it returns. */
    call.scope = tn_scope_open();
    if (call.scope)
        tn_trace_push(module->type->name);
    if (here.watcher)
        here.watcher->begins(here.watcher, module);
    fine = fine && call.scope && inputs[0];
    if (fine && module->tree->hook)
        fine = tn__nn_hooks_before(module, &call, inputs, count);
    for (int i = 0; i < count && !fine; i++)
        inputs[i] = NULL;
    call.inputs = inputs;
    call.count = count;
    call.self = module;
    return call;
}

tn_module_call tn_module_begin(tn_module *any, tn_tensor **inputs, int count)
{
    tn_module *module = tn__nn_module(any, "module_begin");
    if (!module || !tn__nn_not_null(inputs, "module_begin", "inputs")) {
        for (int i = 0; i < count && inputs; i++)
            inputs[i] = NULL;
        return (tn_module_call){.running = here.running,
                                .path = tn_path_current(),
                                .self = any};
    }
    bool fine = true;
    for (int i = 0; i < count && fine; i++)
        fine = tn__nn_tensor_or_null(inputs[i], "module_begin", "an input");
    tn_module_call call = begin(module, inputs, count, fine);
    tn_module *self =
        count > 0 && inputs[0] ? tn__nn_materialize(module, false) : module;
    for (int i = 0; i < count && !self; i++)
        inputs[i] = NULL;
    if (self)
        call.self = self;
    return call;
}

/* Ends a call and moves its outputs to the caller's scope. */
static bool end(tn_module *module, tn_module_call *call, tn_tensor **out,
                int count)
{
    bool fine = module;
    for (int i = 0; i < count; i++)
        fine = fine && out[i];
    if (fine && module->tree->hook)
        fine = tn__nn_hooks_after(module, call, out, count);
    for (int i = 0; i < count; i++)
        out[i] = fine ? tn_keep(out[i]) : NULL;
    if (here.watcher && module)
        here.watcher->ended(here.watcher, module, call->inputs, call->count,
                            out, count);
    if (call->scope)
        tn_trace_pop();
    tn_scope_close(call->scope);
    for (int i = 0; i < count; i++)
        tn_scope_adopt(out[i]);
    tn_path_enter(call->path);
    here.running = call->running;
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
    if (module)
        tn__nn_release(module, call->self);
    return end(module, call, out, count);
}

/* ---- inputs and outputs -------------------------------------------------- */

/* Checks the inputs that were given and stores them in `in`, which has an
 * element for each input of the signature. */
static bool take_inputs(const tn_module *module, tn_tensor *const *given,
                        int count, tn_tensor **in)
{
    const struct tn_module_tree *tree = module->tree;
    const char *what = tree->inputs == 1 ? "forward" : module->type->name;
    for (int i = 0; i < count && i < tree->inputs; i++) {
        in[i] = given[i];
        if (!in[i] && i >= tree->required
                ? tn_error() != NULL
                : !tn__nn_tensor(in[i], what, tree->input_name[i]))
            return false; /* NULL due to an error is not an omitted input */
    }
    if (count < tree->required || count > tree->inputs) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, module->type->name, NULL,
                                 "%d input%s, but its signature is \"%s\"",
                                 count,
                                 count == 1 ? " is given" : "s are given",
                                 tn__nn_signature(module->type));
        return false;
    }
    for (int i = count; i < tree->inputs; i++)
        in[i] = NULL;
    return true;
}

/* Returns whether all outputs are live tensors; if not, an error is
 * recorded. */
static bool check_outputs(const tn_module *module, tn_tensor *const *out,
                          int count)
{
    const char *name = module->type->name;
    for (int i = 0; i < count; i++) {
        if (out[i] && !tn__nn_tensor(out[i], name, "its forward's result"))
            return false;
        if (!out[i] && !tn_error() && i == 0)
            tn_error_refuse_argument(TN_ERR_ARGUMENT, name, NULL,
                                     "its forward returned NULL");
        else if (!out[i] && !tn_error())
            tn_error_refuse_argument(
                TN_ERR_ARGUMENT, name, NULL, "its forward set no output \"%s\"",
                tn__nn_name(strstr(tn__nn_signature(module->type), "->") + 2,
                            i));
        if (!out[i])
            return false;
    }
    return true;
}

bool tn__nn_run(tn_module *module, tn_tensor **in, tn_tensor **out,
                int out_count)
{
    /* A module with several parents may be nested deeper in one of them than
     * tn_module_add checked. */
    if (here.depth >= TN__NN_MAX_DEPTH) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "forward", NULL,
                                 "modules are nested more than %d deep",
                                 TN__NN_MAX_DEPTH);
        return false;
    }
    here.depth++;
    tn_module_call call = begin(module, in, module->tree->inputs, true);
    bool fine = in[0];
    if (fine) {
        tn__nn_forward(module, in, out, out_count);
        fine = check_outputs(module, out, out_count);
    }
    if (!fine)
        out[0] = NULL;
    fine = end(module, &call, out, out_count);
    here.depth--;
    return fine;
}

/* Runs a module. On failure returns false and sets all outputs to NULL. */
static bool run(tn_module *module, tn_tensor *const *given, int count,
                tn_tensor **out, int out_count)
{
    tn_tensor *in[TN_MODULE_VALUES];
    bool taken = take_inputs(module, given, count, in);
    for (int i = 0; i < out_count; i++) /* not earlier: out may be the same
                                           array as given */
        out[i] = NULL;
    if (!taken)
        return false;
    /* While work is recorded, a compiled module becomes a part of it. */
    return module->tree->compiled && !tn_graph_is_recording()
               ? module->tree->compiled->run(module, in, out, out_count)
               : tn__nn_run(module, in, out, out_count);
}

tn_tensor *(tn_forward)(tn_module *any, tn_tensor *input)
{
    tn_module *module = tn__nn_module(any, "forward");
    tn_tensor *output;
    return module && run(module, &input, 1, &output, 1) ? output : NULL;
}

tn_tensor *tn_forward_inputs(tn_module *any, tn_tensor *const *inputs)
{
    tn_module *module = tn__nn_module(any, "forward");
    tn_tensor *output;
    int count = 0;
    if (!module || !tn__nn_not_null(inputs, "forward", "inputs"))
        return NULL;
    while (count <= TN_MODULE_VALUES && inputs[count] != TN_INPUTS_END)
        count++;
    return run(module, inputs, count, &output, 1) ? output : NULL;
}

tn_status tn_forward_list(tn_module *any, tn_tensor *const *inputs, int count,
                          tn_tensor **out, int out_count)
{
    tn_module *module = tn__nn_module(any, "forward_list");
    bool fine = module && tn__nn_not_null(inputs, "forward_list", "inputs") &&
                tn__nn_not_null(out, "forward_list", "out");
    int outputs = module ? module->tree->outputs : TN_MODULE_VALUES;
    if (fine && (out_count < 1 || out_count > outputs)) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "forward_list", "out_count",
            "out_count is %d, but the signature of %s is \"%s\"", out_count,
            module->type->name, tn__nn_signature(module->type));
        fine = false;
    }
    if (!fine) {
        for (int i = 0; out && i < out_count && i < outputs; i++)
            out[i] = NULL;
        return TN_ERR_ARGUMENT;
    }
    return run(module, inputs, count, out, out_count) ? TN_OK
           : tn_error()                               ? tn_error_code()
                                                      : TN_ERR_ARGUMENT;
}
