/* hook_register.c: the public functions that register hooks on tensors and
 * retain gradients. */
#include <tenon/hook.h>

#include <autograd/hooks.h>

/* Returns the autograd data of x. Records an error and returns NULL if x does
 * not require a gradient. */
static tn__grad_meta *data_of(tn_tensor *x, const char *name)
{
    if (tn__error_pending())
        return NULL;
    if (tn__tensor_refresh(x) < 0)
        return NULL;
    if (!x->requires_grad)
        return tn__fail_null(TN_ERR_STATE,
                             "%s: {x} does not require a gradient: mark it, or "
                             "its inputs, with tn_requires_grad()",
                             name);
    return x->grad;
}

/* ---- registering -------------------------------------------------------- */

static struct tn__grad_hook *register_hook(tn_tensor *x, tn_grad_hook hook,
                                           void *context)
{
    if (!tn__tensor_check(x, "register_hook", "x"))
        return NULL;
    if (!hook)
        return tn__fail_null(TN_ERR_ARGUMENT, "register_hook: {hook} is NULL");
    tn__grad_meta *data = data_of(x, "register_hook");
    struct tn__grad_hook *made =
        data ? tn__hook_new(TN__HOOK_GRAD, data->index, context) : NULL;
    if (!made)
        return NULL;
    made->run = hook;
    tn__hook_append(data->node, tn__ref(made));
    return made;
}

TN_OPTIONS_TYPE(tn_tensor_register_hook, "tensor_register_hook",
                "x, hook, context", TN_TENSOR_REGISTER_HOOK_OPTIONS_LIST)

tn_hook *tn_tensor_register_hook_with(
    tn_tensor *x, tn_grad_hook hook, void *context,
    const tn_tensor_register_hook_options *options)
{
    tn_tensor_register_hook_options o;
    if (tn_options_take(tn_tensor_register_hook_type(), &o, options) < 0)
        return NULL;
    struct tn__grad_hook *made = register_hook(x, hook, context);
    if (made)
        made->release = o.release;
    else if (o.release)
        o.release(context);
    return made ? &made->base : NULL;
}

tn_hook *tn_tensor_register_post_accumulate_grad_hook(tn_tensor *x,
                                                      tn_accumulated_hook hook,
                                                      void *context)
{
    static const char name[] = "register_post_accumulate_grad_hook";
    if (!tn__tensor_check(x, name, "x"))
        return NULL;
    if (!hook)
        return tn__fail_null(TN_ERR_ARGUMENT, "%s: {hook} is NULL", name);
    tn__grad_meta *data = data_of(x, name);
    if (data && data->node->op)
        return tn__fail_null(TN_ERR_STATE,
                             "%s: {x} was made by %s: only leaves accumulate "
                             "gradients; use tn_tensor_register_hook",
                             name, tn__node_name(data->node));
    struct tn__grad_hook *made =
        data ? tn__hook_new(TN__HOOK_POST_ACCUMULATE, 0, context) : NULL;
    if (!made)
        return NULL;
    made->accumulated = hook;
    made->x = x;
    made->meta = data;
    tn__hook_append(data->node, tn__ref(made));
    return &made->base;
}

/* ---- retained gradients ------------------------------------------------- */

tn_status tn_tensor_retain_grad(tn_tensor *x)
{
    if (!tn__tensor_check(x, "retain_grad", "x"))
        return tn_error_code();
    tn__grad_meta *data = data_of(x, "retain_grad");
    if (!data)
        return tn_error_code();
    if (!data->node->op || data->retained)
        return TN_OK;
    tn_scope *scope = tn_scope_open();
    struct tn__grad_hook *made =
        scope ? tn__hook_new(TN__HOOK_RETAIN, data->index, NULL) : NULL;
    if (made) {
        tn__hook_append(data->node, tn__ref(made));
        data->retained = tn__ref(made);
    }
    tn_scope_close(scope);
    return made ? TN_OK : TN_ERR_MEMORY;
}

bool tn_tensor_retains_grad(const tn_tensor *x)
{
    return tn__tensor_has(x, "tensor_retains_grad") && x->grad &&
           x->grad->retained;
}
