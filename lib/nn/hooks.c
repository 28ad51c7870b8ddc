/* hooks.c: functions of the user's around a module's forward, and forwards that
 * run again instead of keeping their activations. */
#include <tenon/recompute.h>

#include "tree.h"

struct tn__nn_hook {
    tn_hook base;
    struct tn__nn_hook *next; /* kept */
    bool before;              /* gets the input alone */
    tn_module_hook run;
    void *context;
};

static void hook_release(void *object)
{
    tn_drop(((struct tn__nn_hook *)object)->next);
}

static const tn_object_class hook_class = {
    sizeof hook_class, "module hook", sizeof(struct tn__nn_hook),
    hook_release};

/* Behind those that are there; the module keeps it. */
static tn_hook *add(tn_module *module, bool before, tn_module_hook run,
                    void *context, const char *name)
{
    if (!module)
        return NULL;
    if (!run) {
        tn_error_set(TN_ERR_ARGUMENT, "%s: hook is NULL", name);
        return NULL;
    }
    struct tn__nn_hook *hook = tn_object_new(&hook_class, 0);
    if (!hook)
        return NULL;
    hook->before = before;
    hook->run = run;
    hook->context = context;
    struct tn__nn_hook **link = &module->tree->hook;
    while (*link)
        link = &(*link)->next;
    *link = tn_keep(hook);
    return &hook->base;
}

tn_hook *tn_module_register_forward_pre_hook(void *module, tn_module_hook hook,
                                             void *context)
{
    return add(module, true, hook, context, "register_forward_pre_hook");
}

tn_hook *tn_module_register_forward_hook(void *module, tn_module_hook hook,
                                         void *context)
{
    return add(module, false, hook, context, "register_forward_hook");
}

/* Runs the hooks of one kind; what the last that gave something gave, else x,
 * NULL where one failed. */
static tn_tensor *run_hooks(tn_module *module, bool before, tn_tensor *input,
                            tn_tensor *output)
{
    for (struct tn__nn_hook *hook = module->tree->hook; hook;
         hook = hook->next) {
        if (hook->before != before || hook->base.removed)
            continue;
        tn_tensor *other = hook->run(module, input, output, hook->context);
        if (tn_error())
            return NULL;
        if (other && before)
            input = other;
        else if (other)
            output = other;
    }
    return before ? input : output;
}

/* ---- running --------------------------------------------------------------- */

static tn_status forward(tn_tensor *const *inputs, int count,
                         tn_tensor **outputs, int out_count, void *context)
{
    (void)count, (void)out_count;
    tn_module *module = context;
    outputs[0] = module->type->forward(module, inputs[0]);
    return outputs[0] || !tn_error() ? TN_OK : tn_error_code();
}

/* A graph that is to run it again keeps the module. */
static tn_tensor *forward_again(tn_module *module, tn_tensor *input)
{
    tn_tensor *output = NULL;
    tn_recompute(forward, tn_keep(module), &input, 1, &output, 1,
                 .release = tn_drop);
    return output;
}

tn_tensor *tn__nn_forward(tn_module *module, tn_tensor *input)
{
    if (module->tree->hook)
        input = run_hooks(module, true, input, NULL);
    if (!input)
        return NULL;
    tn_tensor *output = module->tree->recompute && tn_grad_mode()
                            ? forward_again(module, input)
                            : module->type->forward(module, input);
    return output && module->tree->hook
               ? run_hooks(module, false, input, output)
               : output;
}

void *tn_module_set_recompute(void *any, bool on)
{
    tn_module *module = any;
    if (module)
        module->tree->recompute = on;
    return module;
}
