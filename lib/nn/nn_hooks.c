/* nn_hooks.c: runs the user's hooks around a module's forward and backward, and
 * recomputes forwards in the backward pass (gradient checkpointing).
 *
 * If a module has backward hooks, its first input and first output pass through
 * identity views: the view of the input is the first operator of a call, the
 * view of the output the last. The gradient of such a view is the gradient of
 * this call alone, because other uses of the input or output tensor do not go
 * through the view. Hooks on the gradients of the views call the user's hooks.
 *
 * List hooks need the gradients of all inputs, or outputs, together. If there are
 * some, all pass through an identity operator with a result for each, whose
 * backward calls the user's hooks. */
#include <nn/tree.h>

#include <stdio.h>
#include <string.h>
#include <tenon/op_register.h>
#include <tenon/ops.h>
#include <tenon/recompute.h>

enum kind {
    BEFORE,
    AFTER,
    LIST_BEFORE, /* kind LIST_X is kind X for list hooks */
    LIST_AFTER,
    GRADIENT_BEFORE, /* the last four need a backward pass */
    GRADIENT,
    LIST_GRADIENT_BEFORE,
    LIST_GRADIENT
};

static const char *const kind_names[] = {
    [BEFORE] = "register_forward_pre_hook",
    [AFTER] = "register_forward_hook",
    [GRADIENT_BEFORE] = "register_full_backward_pre_hook",
    [GRADIENT] = "register_full_backward_hook",
    [LIST_BEFORE] = "register_forward_pre_list_hook",
    [LIST_AFTER] = "register_forward_list_hook",
    [LIST_GRADIENT_BEFORE] = "register_full_backward_pre_list_hook",
    [LIST_GRADIENT] = "register_full_backward_list_hook"};

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

tn_hook *tn_module_register_full_backward_pre_list_hook(
    tn_module *module, tn_module_list_hook hook, void *context)
{
    return add(module, LIST_GRADIENT_BEFORE, NULL, hook, context);
}

tn_hook *tn_module_register_full_backward_list_hook(tn_module *module,
                                                    tn_module_list_hook hook,
                                                    void *context)
{
    return add(module, LIST_GRADIENT, NULL, hook, context);
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
    if (other && hook->kind == GRADIENT)
        v->input[0] = other;
    else if (other && of_input)
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
    bool forward = before || hook->kind == LIST_AFTER;
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
        if (forward || v->output[i])
            tn__nn_tensor(v->output[i], name, "an output");
    for (int i = 0; !forward && i < v->input_count; i++)
        tn__nn_tensor_or_null(v->input[i], name, "a gradient");
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

/* ---- gradients of a module's inputs and outputs -------------------------- */

/* One recorded call of a module with backward hooks. The recorded graph holds
 * references to this struct. Under create_graph, grad_output may in turn refer
 * to that graph. This reference cycle is broken when the backward pass reaches
 * the inputs, since grad_output is then dropped. */
struct tn__nn_passage {
    tn_object object;
    tn_module *module; /* counted reference */
    bool list;         /* whether there are list hooks */
    /* The number of watched inputs (inputs that require gradients), and their
     * indices in the signature. */
    int input_count, place[TN_MODULE_VALUES];
    int output_count;
    tn_tensor *grad_output[TN_MODULE_VALUES]; /* held from the time when the
                                                 backward pass reaches the
                                                 outputs until it reaches the
                                                 inputs */
};

static void keep_gradients(struct tn__nn_passage *passage,
                           tn_tensor *const *grad)
{
    for (int i = 0; i < passage->output_count; i++) {
        tn_drop(passage->grad_output[i]);
        passage->grad_output[i] = grad ? tn_keep(grad[i]) : NULL;
    }
}

static void passage_release(void *object)
{
    struct tn__nn_passage *passage = object;
    tn_drop(passage->module);
    keep_gradients(passage, NULL);
}

static const tn_object_class passage_class = {
    sizeof passage_class, "module passage", sizeof(struct tn__nn_passage),
    passage_release};

/* Returns whether module has hooks of this kind or a later one. */
static bool has_hooks(const tn_module *module, enum kind first)
{
    for (const struct tn__nn_hook *hook = module->tree->hook; hook;
         hook = hook->next)
        if (hook->kind >= first && !is_removed(hook))
            return true;
    return false;
}

/* Runs the full backward hooks. grad[] has the gradients of the watched inputs;
 * the hooks may replace them. */
static bool at_inputs(struct tn__nn_passage *passage, tn_tensor **grad)
{
    tn_tensor *input[TN_MODULE_VALUES] = {NULL};
    const values v = {input, passage->grad_output,
                      passage->list ? passage->module->tree->inputs : 1,
                      passage->output_count};
    for (int i = 0; i < passage->input_count; i++)
        input[passage->place[i]] = grad[i];
    bool fine = run_hooks(passage->module, GRADIENT, LIST_GRADIENT, &v);
    keep_gradients(passage, NULL);
    for (int i = 0; i < passage->input_count; i++) {
        grad[i] = input[passage->place[i]];
        input[passage->place[i]] = NULL;
    }
    for (int i = 0; fine && i < v.input_count; i++)
        if (input[i])
            tn_error_refuse_argument(
                TN_ERR_STATE, passage->module->type->name, NULL,
                "a full backward hook returned a gradient, but the module's "
                "input requires none: return NULL");
    return fine && !tn_error();
}

/* Runs the hooks before the backward of the module on the gradients of the
 * outputs. If no input is watched, runs the full backward hooks, too. */
static bool at_outputs(struct tn__nn_passage *passage, tn_tensor **grad)
{
    tn_tensor *none = NULL;
    const values v = {&none, grad, 0, passage->output_count};
    if (!run_hooks(passage->module, GRADIENT_BEFORE, LIST_GRADIENT_BEFORE, &v))
        return false;
    keep_gradients(passage, grad);
    return passage->input_count || at_inputs(passage, NULL);
}

static tn_tensor *grad_at_input(tn_tensor *grad, void *passage)
{
    return at_inputs(passage, &grad) ? grad : NULL;
}

static tn_tensor *grad_at_output(tn_tensor *grad, void *passage)
{
    return at_outputs(passage, &grad) ? grad : NULL;
}

/* Replaces *x by an identity view with a hook on its gradient. */
static bool watch(tn_tensor **x, struct tn__nn_passage *passage,
                  tn_grad_hook hook)
{
    *x = tn_view_as(*x, *x);
    return *x && tn_tensor_register_hook(*x, hook, tn_keep(passage),
                                         .release = tn_drop);
}

typedef struct identity {
    struct tn__nn_passage *passage; /* counted reference */
    bool of_outputs;
} identity;

static void identity_release(void *data)
{
    tn_drop(((identity *)data)->passage);
}

/* Returns the arguments as results. The last argument is the address of the
 * passage, plus 1 if the tensors are the module's outputs. */
static tn_status identity_forward(tn_op_context *call, tn_tensor **out)
{
    identity *id = tn_op_context_data(call);
    int count = 0;
    while (tn_op_context_value(call, count).kind == TN_VALUE_TENSOR) {
        out[count] = tn_op_context_tensor(call, count);
        count++;
    }
    int64_t address = tn_op_context_value(call, count).of.i;
    id->of_outputs = address & 1;
    id->passage = tn_keep((void *)(uintptr_t)(address & ~(int64_t)1));
    return TN_OK;
}

static tn_status identity_backward(tn_op_context *call, tn_tensor *const *grad,
                                   tn_tensor **out)
{
    const identity *id = tn_op_context_data(call);
    int count = id->of_outputs ? id->passage->output_count
                               : id->passage->input_count;
    memcpy(out, grad, (size_t)count * sizeof *grad);
    bool fine = id->of_outputs ? at_outputs(id->passage, out)
                               : at_inputs(id->passage, out);
    return fine ? TN_OK : tn_error_code();
}

/* Returns the identity operator for `count` tensors. */
static const tn_op *identity_op(int count)
{
    char text[TN_MODULE_VALUES * 8 + 64];
    size_t at = (size_t)sprintf(text, "module_values%d(", count);
    for (int i = 0; i < count; i++)
        at += (size_t)sprintf(text + at, "x%d, ", i);
    at += (size_t)sprintf(text + at, "passage: int) -> ");
    for (int i = 0; i < count; i++)
        at += (size_t)sprintf(text + at, "%sy%d", i ? ", " : "", i);
    char name[32];
    snprintf(name, sizeof name, "module_values%d", count);
    const tn_op *op = tn_op_find(name);
    return op ? op
              : tn_op_register(&(tn_op_rule){.size = sizeof(tn_op_rule),
                                             .signature = text,
                                             .forward = identity_forward,
                                             .backward = identity_backward,
                                             .bytes = sizeof(identity),
                                             .release = identity_release});
}

/* Replaces count tensors of x[] by the results of the identity operator. */
static bool pass(struct tn__nn_passage *passage, tn_tensor **x, int count,
                 bool of_outputs)
{
    tn_value value[TN_MODULE_VALUES + 1];
    const tn_op *op = identity_op(count);
    for (int i = 0; i < count; i++)
        value[i] = (tn_value){TN_VALUE_TENSOR, 0, {.tensor = x[i]}};
    value[count] = (tn_value){
        TN_VALUE_INT, 0, {.i = (int64_t)(uintptr_t)passage | of_outputs}};
    return op && tn_op_call(op, value, count + 1, x, count) >= 0;
}

/* ---- around a call ------------------------------------------------------ */

bool tn__nn_hooks_before(tn_module *module, tn_module_call *call,
                         tn_tensor **inputs, int count)
{
    tn_tensor *none = NULL, *given[TN_MODULE_VALUES], *made[TN_MODULE_VALUES];
    if (!run_hooks(module, BEFORE, LIST_BEFORE,
                   &(values){inputs, &none, count, 0}))
        return false;
    if (!tn_grad_mode() || !has_hooks(module, GRADIENT_BEFORE))
        return true;
    struct tn__nn_passage *passage = tn_object_new(&passage_class, 0);
    if (!passage)
        return false;
    passage->module = tn_keep(module);
    passage->list = has_hooks(module, LIST_GRADIENT_BEFORE);
    call->passage = passage;
    for (int i = 0; i < (passage->list ? count : 1); i++) {
        bool seen = !tn_tensor_requires_grad(inputs[i]);
        for (int k = 0; k < i; k++)
            seen = seen || inputs[k] == inputs[i];
        if (seen)
            continue;
        given[passage->input_count] = made[passage->input_count] = inputs[i];
        passage->place[passage->input_count++] = i;
    }
    if (passage->input_count == 0)
        return true;
    if (passage->list ? !pass(passage, made, passage->input_count, false)
                      : !watch(made, passage, grad_at_input))
        return false;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < passage->input_count; k++)
            if (inputs[i] == given[k]) {
                inputs[i] = made[k];
                break;
            }
    return true;
}

bool tn__nn_hooks_after(tn_module *module, const tn_module_call *call,
                        tn_tensor **outputs, int count)
{
    struct tn__nn_passage *passage = call->passage;
    const values v = {call->inputs, outputs, call->count, count};
    if (!run_hooks(module, AFTER, LIST_AFTER, &v))
        return false;
    if (!passage)
        return outputs[0];
    bool recorded = tn_tensor_requires_grad(outputs[0]);
    for (int i = 1; i < count && passage->list; i++)
        recorded = recorded || tn_tensor_requires_grad(outputs[i]);
    passage->output_count = passage->list ? count : 1;
    return !recorded          ? outputs[0] != NULL
           : passage->list    ? pass(passage, outputs, count, true)
                              : watch(outputs, passage, grad_at_output);
}

/* ---- recomputing -------------------------------------------------------- */

static void forward(tn_module *module, tn_tensor *const *inputs,
                    tn_tensor **outputs, int out_count)
{
    const tn_module_class *type = module->type;
    tn_module *self = tn__nn_materialize(module, false);
    if (!self)
        return;
    if (type->forward) {
        outputs[0] = type->forward(self, inputs[0]);
    } else {
        /* The function may set all outputs, also those that the caller does not
         * want. */
        tn_tensor *all[TN_MODULE_VALUES] = {NULL};
        type->forward_list(self, inputs, module->tree->inputs, all, out_count);
        for (int i = 0; i < out_count; i++)
            outputs[i] = all[i];
    }
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
