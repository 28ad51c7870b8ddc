/* nn_hooks.c: runs the user's hooks around a module's forward and backward, and
 * recomputes forwards in the backward pass (gradient checkpointing).
 *
 * If a module has backward hooks, its first input and first output pass through
 * identity views: the view of the input is the first operator of a call, the
 * view of the output the last. The gradient of such a view is the gradient of
 * this call alone, because other uses of the input or output tensor do not go
 * through the view. Hooks on the gradients of the views call the user's
 * hooks. */
#include <tenon/ops.h>
#include <tenon/recompute.h>

#include <nn/tree.h>

enum kind {
    BEFORE,
    AFTER,
    GRADIENT_BEFORE,
    GRADIENT,
    LIST_BEFORE, /* as BEFORE and AFTER, for list hooks */
    LIST_AFTER
};

static const char *const kind_names[] = {
    [BEFORE] = "register_forward_pre_hook",
    [AFTER] = "register_forward_hook",
    [GRADIENT_BEFORE] = "register_full_backward_pre_hook",
    [GRADIENT] = "register_full_backward_hook",
    [LIST_BEFORE] = "register_forward_pre_list_hook",
    [LIST_AFTER] = "register_forward_list_hook"};

struct tn__nn_hook {
    tn_hook base;
    struct tn__nn_hook *next; /* counted reference */
    enum kind kind;
    tn_module_hook run;
    tn_module_list_hook run_list; /* used instead of run by LIST_ kinds */
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

/* Appends a hook to the list, which the module owns. A removed hook leaves the
 * list, but keeps its pointer to the next hook, since a call may be running
 * it. */
static tn_hook *add(tn_module *any, enum kind kind, tn_module_hook run,
                    tn_module_list_hook run_list, void *context)
{
    tn_module *module = tn__nn_module(any, kind_names[kind]);
    if (!module)
        return NULL;
    if (!run && !run_list) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, kind_names[kind], "hook",
                                 "hook is NULL");
        return NULL;
    }
    struct tn__nn_hook *hook = tn_object_new(&hook_class, 0);
    if (!hook)
        return NULL;
    hook->kind = kind;
    hook->run = run;
    hook->run_list = run_list;
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
    return add(module, BEFORE, hook, NULL, context);
}

tn_hook *tn_module_register_forward_hook(tn_module *module, tn_module_hook hook,
                                         void *context)
{
    return add(module, AFTER, hook, NULL, context);
}

tn_hook *tn_module_register_full_backward_pre_hook(tn_module *module,
                                                   tn_module_hook hook,
                                                   void *context)
{
    return add(module, GRADIENT_BEFORE, hook, NULL, context);
}

tn_hook *tn_module_register_full_backward_hook(tn_module *module,
                                               tn_module_hook hook,
                                               void *context)
{
    return add(module, GRADIENT, hook, NULL, context);
}

tn_hook *tn_module_register_forward_pre_list_hook(tn_module *module,
                                                  tn_module_list_hook hook,
                                                  void *context)
{
    return add(module, LIST_BEFORE, NULL, hook, context);
}

tn_hook *tn_module_register_forward_list_hook(tn_module *module,
                                              tn_module_list_hook hook,
                                              void *context)
{
    return add(module, LIST_AFTER, NULL, hook, context);
}

/* The tensors that hooks get and may replace. */
typedef struct values {
    tn_tensor **input, **output;
    int input_count, output_count;
} values;

/* Replaces the first input by `other`, and with it all inputs that are the same
 * tensor. */
static void replace_input(const values *v, tn_tensor *other)
{
    tn_tensor *given = v->input[0];
    for (int i = 0; i < v->input_count; i++)
        if (v->input[i] == given)
            v->input[i] = other;
}

static bool run_one(tn_module *module, const struct tn__nn_hook *hook,
                    const values *v)
{
    bool of_input = hook->kind == BEFORE || hook->kind == GRADIENT;
    tn_tensor *other =
        hook->run(module, v->input[0], v->output[0], hook->context);
    if (other)
        tn__nn_tensor(other, kind_names[hook->kind], "the hook's result");
    if (tn_error())
        return false;
    if (other && of_input)
        replace_input(v, other);
    else if (other)
        v->output[0] = other;
    return true;
}

static bool run_list(tn_module *module, const struct tn__nn_hook *hook,
                     const values *v)
{
    const char *name = kind_names[hook->kind];
    bool before = hook->kind == LIST_BEFORE;
    tn_status status =
        hook->run_list(module, v->input, v->input_count, v->output,
                       v->output_count, hook->context);
    if (status < 0 && !tn_error())
        tn_error_refuse_argument(TN_ERR_STATE, name, NULL,
                                 "the hook failed without an error");
    for (int i = 0; before && i < v->input_count; i++)
        if (v->input[i] || i < module->tree->required)
            tn__nn_tensor(v->input[i], name, "an input");
    for (int i = 0; i < v->output_count; i++)
        tn__nn_tensor(v->output[i], name, "an output");
    return !tn_error();
}

/* Runs the hooks of two kinds, `kind` and `list`, in the order of registration.
 * Returns false if a hook failed. */
static bool run_hooks(tn_module *module, enum kind kind, enum kind list,
                      const values *v)
{
    bool fine = true;
    struct tn__nn_hook *hook = tn_keep(module->tree->hook);
    while (hook) {
        if (fine && !is_removed(hook) &&
            (hook->kind == kind || hook->kind == list))
            fine = hook->run ? run_one(module, hook, v)
                             : run_list(module, hook, v);
        struct tn__nn_hook *next = tn_keep(hook->next);
        tn_drop(hook);
        hook = next;
    }
    return fine;
}

/* ---- gradients of a module's input and output --------------------------- */

/* One recorded call of a module with backward hooks. The recorded graph holds a
 * reference to this struct. Under create_graph, grad_output may in turn refer
 * to that graph. This reference cycle is broken when the backward pass reaches
 * the input, since grad_output is then dropped. */
struct tn__nn_passage {
    tn_object object;
    tn_module *module;      /* counted reference */
    bool has_input;         /* whether the input requires a gradient */
    tn_tensor *grad_output; /* kept from when the backward pass reaches the
                               output until it reaches the input */
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
    tn_tensor *output = passage->grad_output;
    bool fine = run_hooks(passage->module, GRADIENT, GRADIENT,
                          &(values){&grad, &output, 1, 1});
    tn_drop(passage->grad_output);
    passage->grad_output = NULL;
    return fine ? grad : NULL;
}

static tn_tensor *grad_at_output(tn_tensor *grad, void *context)
{
    struct tn__nn_passage *passage = context;
    tn_tensor *input = NULL;
    const values v = {&input, &grad, 1, 1};
    if (!run_hooks(passage->module, GRADIENT_BEFORE, GRADIENT_BEFORE, &v))
        return NULL;
    if (passage->has_input) {
        tn_drop(passage->grad_output);
        passage->grad_output = tn_keep(grad);
    } else if (run_hooks(passage->module, GRADIENT, GRADIENT, &v) && input) {
        tn_error_refuse_argument(
            TN_ERR_STATE, passage->module->type->name, NULL,
            "a full backward hook returned a gradient, but the module's input "
            "requires none: return NULL");
    }
    return grad;
}

/* Makes an identity view of x and registers hook on its gradient. */
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
    tn_tensor *none = NULL;
    const values v = {inputs, &none, count, 0};
    if (!run_hooks(module, BEFORE, LIST_BEFORE, &v))
        return false;
    if (!wants_gradients(module))
        return true;
    call->passage = passage_new(module);
    if (!call->passage)
        return false;
    call->passage->has_input = tn_tensor_requires_grad(inputs[0]);
    if (call->passage->has_input)
        replace_input(&v, watch(inputs[0], call->passage, grad_at_input));
    return inputs[0];
}

bool tn__nn_hooks_after(tn_module *module, const tn_module_call *call,
                        tn_tensor **outputs, int count)
{
    const values v = {call->inputs, outputs, call->count, count};
    if (!run_hooks(module, AFTER, LIST_AFTER, &v))
        return false;
    if (call->passage && tn_tensor_requires_grad(outputs[0]))
        outputs[0] = watch(outputs[0], call->passage, grad_at_output);
    return outputs[0];
}

/* ---- recomputing -------------------------------------------------------- */

static void forward(tn_module *module, tn_tensor *const *inputs,
                    tn_tensor **outputs, int out_count)
{
    const tn_module_class *type = module->type;
    tn_module *self = tn__nn_materialize(module, false);
    if (!self)
        return;
    if (type->forward)
        outputs[0] = type->forward(self, inputs[0]);
    else
        type->forward_list(self, inputs, module->tree->inputs, outputs,
                           out_count);
    tn__nn_release(module, self);
}

/* The state for running a module again in the backward pass. The graph holds
 * it. */
typedef struct rerun {
    tn_object object;
    tn_module *module; /* counted reference */
    unsigned given;    /* bit i is set if input i was given */
} rerun;

static void rerun_release(void *object)
{
    tn_drop(((rerun *)object)->module);
}

static const tn_object_class rerun_class = {sizeof rerun_class, "module run",
                                            sizeof(rerun), rerun_release};

static tn_status forward_again(tn_tensor *const *inputs, int count,
                               tn_tensor **outputs, int out_count,
                               void *context)
{
    const rerun *again = context;
    tn_tensor *in[TN_MODULE_VALUES];
    (void)count;
    for (int i = 0; i < again->module->tree->inputs; i++)
        in[i] = again->given >> i & 1 ? *inputs++ : NULL;
    for (int i = 0; i < out_count; i++)
        outputs[i] = NULL;
    forward(again->module, in, outputs, out_count);
    for (int i = 0; i < out_count; i++)
        if (!outputs[i] && tn_error())
            return tn_error_code();
    return TN_OK;
}

void tn__nn_forward(tn_module *module, tn_tensor *const *inputs,
                    tn_tensor **outputs, int out_count)
{
    if (!module->tree->recompute || !tn_grad_mode()) {
        forward(module, inputs, outputs, out_count);
        return;
    }
    tn_tensor *given[TN_MODULE_VALUES];
    int count = 0;
    rerun *again = tn_object_new(&rerun_class, 0);
    if (!again)
        return;
    again->module = tn_keep(module);
    for (int i = 0; i < module->tree->inputs; i++)
        if (inputs[i]) {
            given[count++] = inputs[i];
            again->given |= 1u << i;
        }
    tn_recompute(forward_again, tn_keep(again), given, count, outputs,
                 out_count, .release = tn_drop);
}

void *tn_module_set_recompute(tn_module *any, bool on)
{
    tn_module *module = tn__nn_module(any, "module_set_recompute");
    if (module)
        module->tree->recompute = on;
    return module;
}
