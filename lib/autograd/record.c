/* record.c: the functions by which operators record their calls for backward,
 * and the autograd attributes of tensors (requires_grad, grad, grad_fn). */
#include <ctype.h>
#include <string.h>
#include <base/context.h>
#include <tenon/ops.h>

#include <autograd/node.h>

static bool is_leaf(const tn_tensor *x)
{
    return !x->grad || !x->grad->node->op;
}

/* ---- hooks -------------------------------------------------------------- */

/* Updates the nodes of the call's input tensors after in-place changes. Sets
 * *any to whether one of them requires a gradient. */
static tn_status refresh_inputs(const tn__call *call, bool *any)
{
    *any = false;
    for (int i = 0; i < call->op->arg_count; i++) {
        const tn_value *value = &call->value[i];
        tn_tensor *const *list = &value->of.tensor;
        int count = value->kind == TN_VALUE_TENSOR;
        if (value->kind == TN_VALUE_TENSORS) {
            list = value->of.tensors;
            count = value->count;
        }
        for (int k = 0; k < count; k++) {
            if (TN__UNLIKELY(atomic_load_explicit(&list[k]->storage->history,
                                                  memory_order_relaxed) &&
                             tn__tensor_refresh(list[k]) < 0))
                return tn_error_code();
            *any |= list[k]->requires_grad;
        }
    }
    return TN_OK;
}

static tn_status set_outputs(tn__call *call, tn__node *node)
{
    if (call->op->inplace)
        return tn__history_write(call->out[0], node);
    tn_status status = TN_OK;
    for (int o = 0; o < call->out_count && status >= 0; o++)
        if (tn_dtype_is_floating(call->out[o]->dtype))
            status = tn__tensor_set_node(call->out[o], node, (uint32_t)o);
    return status;
}

static tn_status record(tn__call *call)
{
    if (!call->out_count)
        return TN_OK; /* a split of an empty tensor may have no outputs */
    bool any;
    tn_status status = refresh_inputs(call, &any);
    if (status < 0 || !any)
        return status;
    const tn__plan *plan = tn__plan_find(call->op, call->kernel);
    if (!plan)
        return TN_ERR_MEMORY;
    tn__node *node = tn__node_record(plan, call);
    if (!node)
        return tn_error_code();
    status = set_outputs(call, node);
    tn__unref(node);
    return status;
}

/* Returns an error for an in-place change of x that gradients could not take
 * into account. */
static tn_status refuse_inplace(const tn_op *op, tn_tensor *x,
                                bool requires_grad)
{
    const char *name = op->arg[0].name;
    if (tn__tensor_refresh(x) < 0)
        return tn_error_code();
    if (x->requires_grad && is_leaf(x))
        return tn__fail(TN_ERR_STATE,
                        "%s: {%s} is a leaf that requires a gradient: change "
                        "it under TN_NO_GRAD, or change a tn_clone() of it",
                        op->name, name);
    if (x->requires_grad && !op->differentiable)
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "%s: {%s} requires a gradient, but %s has no "
                        "derivative: apply it to tn_detach() of {%s}", op->name,
                        name, op->name, name);
    if (!requires_grad || !tn__tensor_is_shared(x))
        return TN_OK;
    if (x->storage->has_leaf || tn__tensor_views_leaf(x))
        return tn__fail(TN_ERR_STATE,
                        "%s: {%s} shares its memory with a leaf that requires "
                        "a gradient: change it under TN_NO_GRAD, or change a "
                        "tn_clone() of it",
                        op->name, name);
    if (x->apart)
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "%s: {%s} shares its memory with a tensor from which "
                        "it was detached, or of which it was made a view while "
                        "nothing was recorded: change a tn_clone() of it",
                        op->name, name);
    return TN_OK;
}

static tn_status check_inplace(const tn_op *op, tn_tensor *x,
                               bool requires_grad)
{
    if (!tn__me.modes.not_recording && refuse_inplace(op, x, requires_grad) < 0)
        return tn_error_code();
    x->storage->changed_by = op->name;
    return TN_OK;
}

static tn_status keep_original(tn__call *call)
{
    const tn__plan *plan = tn__plan_find(call->op, call->kernel);
    if (!plan)
        return TN_ERR_MEMORY;
    tn_tensor *x = call->value[0].of.tensor;
    uint32_t wanted = 0, same = 0, inputs, outputs;
    for (int p = 0; p < plan->port_count; p++) {
        const tn_tensor *y = tn__call_tensor(call, plan->port_arg[p]);
        wanted |= (uint32_t)(y && tn__tensor_tracks(y)) << p;
        same |= (uint32_t)(y == x) << p;
    }
    tn_status status = tn__plan_saves(plan, wanted, &inputs, &outputs);
    if (status < 0 || !(inputs & same))
        return status;
    tn_scope *scope = tn_scope_open();
    bool mode = tn_grad_mode_set(false);
    call->original = scope ? tn__ref(tn_clone(x)) : NULL;
    tn_grad_mode_set(mode);
    tn_scope_close(scope);
    return call->original ? TN_OK : tn_error_code();
}

/* Writes the name of x's gradient function as PyTorch prints it: "AddBackward"
 * for an output of add. */
static void grad_fn(tn_tensor *x, char *text)
{
    *text = '\0';
    if (tn__tensor_refresh(x) < 0 || is_leaf(x) || !x->requires_grad)
        return;
    size_t at = 0;
    bool upper = true;
    for (const char *c = tn__node_name(x->grad->node);
         *c && at + sizeof "Backward" < TN__GRAD_FN_BYTES; c++) {
        if (*c != '_')
            text[at++] = (char)(upper ? toupper((unsigned char)*c) : *c);
        upper = *c == '_';
    }
    memcpy(text + at, "Backward", sizeof "Backward");
}

/* lib/ops calls autograd only through these function pointers, so that lib/ops
 * can be linked without autograd. */
__attribute__((constructor)) static void install_hooks(void)
{
    tn__hooks.recording = tn_grad_mode;
    tn__hooks.is_leaf = tn_tensor_is_leaf;
    tn__hooks.record = record;
    tn__hooks.keep_original = keep_original;
    tn__hooks.check_inplace = check_inplace;
    tn__tensor_hook.release_grad = tn__grad_meta_release;
    tn__tensor_hook.release_history = tn__history_release;
    tn__tensor_hook.grad_fn = grad_fn;
}

/* ---- attributes --------------------------------------------------------- */

/* Returns the node that accumulates the gradient of leaf x, and makes it on
 * first use. */
static tn__node *leaf_of(tn_tensor *x)
{
    if (x->grad)
        return x->grad->node;
    tn__node *node = tn__node_leaf();
    if (!node)
        return NULL;
    bool requires_grad = x->requires_grad;
    tn_status status = tn__tensor_set_node(x, node, 0);
    tn__unref(node);
    x->requires_grad = requires_grad;
    return status < 0 ? NULL : node;
}

tn_status tn_tensor_set_requires_grad(tn_tensor *x, bool on)
{
    if (!tn__tensor_check(x, "requires_grad", "x"))
        return tn_error_code();
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (tn__tensor_refresh(x) < 0)
        return tn_error_code();
    if (!is_leaf(x))
        return on ? TN_OK
                  : tn__fail(TN_ERR_STATE,
                             "requires_grad: {x} was made by %s from inputs "
                             "that require a gradient: use tn_detach(x) for a "
                             "tensor without a gradient",
                             tn__node_name(x->grad->node));
    if (on && !tn_dtype_is_floating(x->dtype))
        return tn__fail(TN_ERR_DTYPE,
                        "requires_grad: {x} is %s: only floating-point tensors "
                        "have gradients",
                        tn_dtype_name(x->dtype));
    if (on && !leaf_of(x))
        return TN_ERR_MEMORY;
    x->requires_grad = on;
    x->storage->has_leaf = on;
    return TN_OK;
}

tn_tensor *tn_requires_grad(tn_tensor *x)
{
    if (!tn__tensor_check(x, "requires_grad", "x"))
        return NULL;
    if (!is_leaf(x) && !tn__error_pending())
        return tn__fail_null(TN_ERR_STATE,
                             "requires_grad: {x} was made by %s and is not a "
                             "leaf: mark its inputs, or tn_detach(x)",
                             tn__node_name(x->grad->node));
    return tn_tensor_set_requires_grad(x, true) < 0 ? NULL : x;
}

bool tn_tensor_requires_grad(const tn_tensor *x)
{
    return tn__tensor_has(x, "tensor_requires_grad") && tn__tensor_tracks(x);
}

bool tn_tensor_is_leaf(const tn_tensor *x)
{
    return tn__tensor_has(x, "tensor_is_leaf") && is_leaf(x) &&
           (x->requires_grad || !tn__tensor_tracks(x));
}

tn_tensor *tn_tensor_grad(const tn_tensor *x)
{
    if (!tn__tensor_has(x, "tensor_grad") || !x->grad)
        return NULL;
    return x->grad->retained ? tn__hook_retained(x->grad->retained)
                             : x->grad->node->grad;
}

static tn_status check_grad(const tn_tensor *x, const tn_tensor *grad)
{
    if (!tn__shape_equal(x->ndim, x->shape, grad->ndim, grad->shape)) {
        tn__text text = {0};
        tn__text_add(&text, "{grad} has shape ");
        tn__text_add_shape(&text, grad->ndim, grad->shape);
        tn__text_add(&text, ", {x} ");
        tn__text_add_shape(&text, x->ndim, x->shape);
        char *message = tn__text_finish(&text);
        if (message)
            tn__fail_marked(TN_ERR_SHAPE, "set_grad", message);
        tn__free(message);
        return tn_error_code();
    }
    if (grad->dtype != x->dtype)
        return tn__fail(TN_ERR_DTYPE, "set_grad: {grad} is %s, but {x} is %s: "
                        "convert it with tn_to_dtype",
                        tn_dtype_name(grad->dtype), tn_dtype_name(x->dtype));
    if (grad->storage->device != x->storage->device)
        return tn__fail(TN_ERR_DEVICE,
                        "set_grad: {grad} is on %s, but {x} is on %s: move it "
                        "with tn_to()", grad->storage->device->name,
                        x->storage->device->name);
    return TN_OK;
}

tn_status tn_tensor_set_grad(tn_tensor *x, tn_tensor *grad)
{
    if (!tn__tensor_check(x, "set_grad", "x") ||
        (grad && !tn__tensor_check(grad, "set_grad", "grad")))
        return tn_error_code();
    if (tn__error_pending())
        return TN_ERR_STATE;
    bool retains = tn_tensor_retains_grad(x);
    if (!is_leaf(x) && !retains)
        return tn__fail(TN_ERR_STATE,
                        "set_grad: {x} was made by %s: only leaves and tensors "
                        "marked by tn_tensor_retain_grad() store a gradient",
                        tn__node_name(x->grad->node));
    if (!grad && !x->grad)
        return TN_OK;
    if (grad &&
        (check_grad(x, grad) < 0 || tn__grad_check_cycle(x, grad) < 0))
        return tn_error_code();
    if (retains) {
        tn__hook_set_retained(x->grad->retained, grad);
        return TN_OK;
    }
    tn__node *leaf = leaf_of(x);
    if (!leaf)
        return TN_ERR_MEMORY;
    tn__leaf_lock();
    tn_tensor *old = leaf->grad;
    leaf->grad = tn__ref(grad);
    tn__leaf_unlock();
    tn__unref(old);
    return TN_OK;
}
