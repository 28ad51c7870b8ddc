/* nn_hooks.c: the user's hooks around a module's forward and backward, and
 * forwards that are recomputed instead of storing activations.
 *
 * If a module has hooks on gradients, its input and output pass through
 * identity views. The view of the output is the last operator of a call and
 * that of the input the first. So a backward walk reaches them at the module's
 * end and start, each with the complete gradient, and no other use of the same
 * tensors adds to it. */
#include <tenon/ops.h>
#include <tenon/recompute.h>

#include <nn/tree.h>

enum kind { BEFORE, AFTER, GRADIENT_BEFORE, GRADIENT };

static const char *const kind_names[] = {
    [BEFORE] = "register_forward_pre_hook",
    [AFTER] = "register_forward_hook",
    [GRADIENT_BEFORE] = "register_full_backward_pre_hook",
    [GRADIENT] = "register_full_backward_hook"};

struct tn__nn_hook {
    tn_hook base;
    struct tn__nn_hook *next; /* kept */
    enum kind kind;
    tn_module_hook run;
    void *context;
};

static bool is_removed(const struct tn__nn_hook *hook)
{
    return __atomic_load_n(&hook->base.removed, __ATOMIC_ACQUIRE);
}

/* ---- registering -------------------------------------------------------- */

static void hook_release(void *object)
{
    tn_drop(((struct tn__nn_hook *)object)->next);
}

static const tn_object_class hook_class = {
    sizeof hook_class, "hook", sizeof(struct tn__nn_hook),
    hook_release};

/* Appends a hook; the module owns it. Removed hooks leave the list, but keep
 * their successor for a call that is running them. */
static tn_hook *add(tn_module *any, enum kind kind, tn_module_hook run,
                    void *context)
{
    tn_module *module = tn__nn_module(any, kind_names[kind]);
    if (!module)
        return NULL;
    if (!run) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, kind_names[kind], "hook",
                                 "hook is NULL");
        return NULL;
    }
    struct tn__nn_hook *hook = tn_object_new(&hook_class, 0);
    if (!hook)
        return NULL;
    hook->kind = kind;
    hook->run = run;
    hook->context = context;
    struct tn__nn_hook **link = &module->tree->hook;
    while (*link) {
        struct tn__nn_hook *at = *link;
        if (is_removed(at)) {
            *link = tn_keep(at->next);
            tn_drop(at);
        } else {
            link = &at->next;
        }
    }
    *link = tn_keep(hook);
    return &hook->base;
}

tn_hook *tn_module_register_forward_pre_hook(tn_module *module,
                                             tn_module_hook hook,
                                             void *context)
{
    return add(module, BEFORE, hook, context);
}

tn_hook *tn_module_register_forward_hook(tn_module *module, tn_module_hook hook,
                                         void *context)
{
    return add(module, AFTER, hook, context);
}

tn_hook *tn_module_register_full_backward_pre_hook(tn_module *module,
                                                   tn_module_hook hook,
                                                   void *context)
{
    return add(module, GRADIENT_BEFORE, hook, context);
}

tn_hook *tn_module_register_full_backward_hook(tn_module *module,
                                               tn_module_hook hook,
                                               void *context)
{
    return add(module, GRADIENT, hook, context);
}

/* Runs the hooks of one kind. Returns the input (BEFORE, GRADIENT) or the
 * output, replaced by what hooks returned; NULL if one failed. */
static tn_tensor *run_hooks(tn_module *module, enum kind kind,
                            tn_tensor *input, tn_tensor *output)
{
    bool of_input = kind == BEFORE || kind == GRADIENT;
    struct tn__nn_hook *hook = tn_keep(module->tree->hook);
    while (hook) {
        if (hook->kind == kind && !is_removed(hook)) {
            tn_tensor *other = hook->run(module, input, output, hook->context);
            if (other)
                tn__nn_tensor(other, kind_names[kind], "the hook's result");
            if (tn_error()) {
                tn_drop(hook);
                return NULL;
            }
            if (other && of_input)
                input = other;
            else if (other)
                output = other;
        }
        struct tn__nn_hook *next = tn_keep(hook->next);
        tn_drop(hook);
        hook = next;
    }
    return of_input ? input : output;
}

/* ---- gradients of a module's input and output --------------------------- */

/* One call of a module with hooks on gradients: lives as long as its graph.
 * Under create_graph, grad_output can lead back to this call; the cycle ends
 * when the gradient has passed the input. */
struct tn__nn_passage {
    tn_object object;
    tn_module *module;      /* kept */
    bool has_input;         /* the input requires a gradient */
    tn_tensor *grad_output; /* kept between the walk's passing the output and
                               its passing the input */
};

static void passage_release(void *object)
{
    struct tn__nn_passage *passage = object;
    tn_drop(passage->module);
    tn_drop(passage->grad_output);
}

static const tn_object_class passage_class = {
    sizeof passage_class, "module passage", sizeof(struct tn__nn_passage),
    passage_release};

static bool wants_gradients(const tn_module *module)
{
    for (const struct tn__nn_hook *hook = module->tree->hook; hook;
         hook = hook->next)
        if ((hook->kind == GRADIENT || hook->kind == GRADIENT_BEFORE) &&
            !is_removed(hook))
            return tn_grad_mode();
    return false;
}

static tn_tensor *grad_at_input(tn_tensor *grad, void *context)
{
    struct tn__nn_passage *passage = context;
    tn_tensor *out =
        run_hooks(passage->module, GRADIENT, grad, passage->grad_output);
    tn_drop(passage->grad_output);
    passage->grad_output = NULL;
    return out;
}

static tn_tensor *grad_at_output(tn_tensor *grad, void *context)
{
    struct tn__nn_passage *passage = context;
    grad = run_hooks(passage->module, GRADIENT_BEFORE, NULL, grad);
    if (!grad)
        return NULL;
    if (passage->has_input) {
        tn_drop(passage->grad_output);
        passage->grad_output = tn_keep(grad);
    } else if (run_hooks(passage->module, GRADIENT, NULL, grad)) {
        tn_error_refuse_argument(
            TN_ERR_STATE, passage->module->type->name, NULL,
            "a full backward hook returned a gradient, but the module's input "
            "requires none: return NULL");
    }
    return grad;
}

/* An identity view of x with this hook on its gradient. */
static tn_tensor *watch(tn_tensor *x, struct tn__nn_passage *passage,
                        tn_grad_hook hook)
{
    tn_tensor *view = tn_view_as(x, x);
    if (!view || !tn_tensor_register_hook(view, hook, tn_keep(passage),
                                          .release = tn_drop))
        return NULL;
    return view;
}

/* ---- around a call ------------------------------------------------------ */

static struct tn__nn_passage *passage_new(tn_module *module)
{
    struct tn__nn_passage *passage = tn_object_new(&passage_class, 0);
    if (passage)
        passage->module = tn_keep(module);
    return passage;
}

bool tn__nn_hooks_before(tn_module *module, tn_module_call *call,
                         tn_tensor **inputs, int count)
{
    tn_tensor *given = inputs[0];
    tn_tensor *input = run_hooks(module, BEFORE, given, NULL);
    if (input && wants_gradients(module)) {
        call->passage = passage_new(module);
        if (!call->passage)
            return false;
        call->passage->has_input = tn_tensor_requires_grad(input);
        if (call->passage->has_input)
            input = watch(input, call->passage, grad_at_input);
    }
    for (int i = 0; i < count; i++)
        if (inputs[i] == given)
            inputs[i] = input;
    return input != NULL;
}

tn_tensor *tn__nn_hooks_after(tn_module *module, const tn_module_call *call,
                              tn_tensor *output)
{
    output = run_hooks(module, AFTER, call->input, output);
    return output && call->passage && tn_tensor_requires_grad(output)
               ? watch(output, call->passage, grad_at_output)
               : output;
}

/* ---- recomputing -------------------------------------------------------- */

static tn_status forward(tn_tensor *const *inputs, int count,
                         tn_tensor **outputs, int out_count, void *context)
{
    (void)count, (void)out_count;
    tn_module *module = context;
    outputs[0] = module->type->forward(module, inputs[0]);
    return outputs[0] || !tn_error() ? TN_OK : tn_error_code();
}

/* The graph keeps the module until it is freed. */
static tn_tensor *forward_again(tn_module *module, tn_tensor *input)
{
    tn_tensor *output = NULL;
    tn_recompute(forward, tn_keep(module), &input, 1, &output, 1,
                 .release = tn_drop);
    return output;
}

tn_tensor *tn__nn_forward(tn_module *module, tn_tensor *input)
{
    return module->tree->recompute && tn_grad_mode()
               ? forward_again(module, input)
               : module->type->forward(module, input);
}

void *tn_module_set_recompute(tn_module *any, bool on)
{
    tn_module *module = tn__nn_module(any, "module_set_recompute");
    if (module)
        module->tree->recompute = on;
    return module;
}
