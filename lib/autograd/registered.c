/* registered.c: gradients of operators that a program wrote in C, like
 * torch.autograd.Function in PyTorch. node->port[] holds the inputs, then the
 * outputs, then the values that the operator's forward function saved. */
#include <base/error.h>
#include <ops/engine/register.h>
#include <string.h>

#include <autograd/node.h>

static const tn__node *node_of(const tn_op_context *context)
{
    return context->node;
}

/* Returns the first port (input tensor) of argument i, or -1 if the argument is
 * not a tensor. */
static int port_of(const tn__plan *plan, int i)
{
    for (int p = 0; p < plan->port_count; p++)
        if (plan->port_arg[p] == i)
            return p;
    return -1;
}

/* Returns argument i of the recorded call, for the tn_op_context_ functions. A
 * tensor argument is NULL: only the values saved by forward are available. */
static tn_value value_of(const void *kept, int i)
{
    const tn__node *node = kept;
    tn_value value = node->value[i];
    if (value.kind == TN_VALUE_TENSOR)
        value.of.tensor = NULL;
    return value;
}

bool tn_op_context_needs_grad(const tn_op_context *context, int i)
{
    if (!tn__op_context_is(context, "op_context_needs_grad"))
        return false;
    const tn_tensor *x = tn_op_context_tensor(context, i);
    if (x)
        return tn_grad_mode() && tn__tensor_tracks(x);
    const tn__node *node = context ? node_of(context) : NULL;
    int p = node ? port_of(node->plan, i) : -1;
    return p >= 0 && tn__node_wants(node, p);
}

tn_tensor *tn_op_context_saved(const tn_op_context *context, int i)
{
    if (!tn__op_context_is(context, "op_context_saved"))
        return NULL;
    const tn__node *node = node_of(context);
    if (!node || i < 0 || i >= node->save_count)
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "saved value %d does not exist: forward saved %d "
                             "values, with indices from 0", i,
                             node ? node->save_count : 0);
    return tn__node_saved(node, i);
}

/* ---- the gradient ------------------------------------------------------- */

/* Checks that x is a valid gradient of input p: the input's shape can be
 * broadcast to x's shape. */
static tn_status check_result(const tn__node *node, int p, const tn_tensor *x)
{
    const tn__port *port = &node->port[p];
    tn__shape shape = {.ndim = port->ndim};
    for (int d = 0; d < port->ndim; d++)
        shape.dim[d] = port->shape[d];
    if (tn__shape_broadcast(&shape, x->ndim, x->shape) &&
        tn__shape_equal(shape.ndim, shape.dim, x->ndim, x->shape) &&
        x->storage->device == port->device)
        return TN_OK;
    tn__text text = {0};
    const tn_op *op = node->op;
    tn__text_add(&text, "backward returned a gradient of shape ");
    tn__text_add_shape(&text, x->ndim, x->shape);
    tn__text_add(&text, " on %s for %s, which has shape ",
                 x->storage->device->name,
                 op->arg[node->plan->port_arg[p]].name);
    tn__text_add_shape(&text, port->ndim, port->shape);
    tn__text_add(&text, " on %s", port->device->name);
    char *message = tn__text_finish(&text);
    if (message)
        tn__fail(TN_ERR_SHAPE, "%s", message);
    tn__free(message);
    return tn_error_code();
}

tn_status tn__registered_gradient(const tn__node *node, tn_tensor *const *g,
                                  tn_tensor **out)
{
    tn_tensor *result[TN__OP_MAX_ARGS] = {NULL};
    tn_status status =
        tn__op_rule(node->op)->backward(node->context, g, result);
    if (status >= 0 && tn__error_pending())
        status = tn_error_code();
    if (status < 0 && !tn__error_pending())
        tn__fail(status, "backward failed without an error");
    for (int p = 0; p < node->port_count && status >= 0; p++) {
        tn_tensor *x = result[node->plan->port_arg[p]];
        if (!x || !tn__node_wants(node, p))
            continue;
        status = check_result(node, p, x);
        out[p] = x;
    }
    return status;
}

/* ---- what forward saved ------------------------------------------------- */

/* If the saved value x is an input or an output of the call, connects it to the
 * node that made it, so that it can be differentiated under create_graph. */
static void connect(tn__node *node, const tn__call *call, tn__port *port,
                    const tn_tensor *x)
{
    for (int p = 0; p < node->port_count; p++)
        if (tn__call_tensor(call, node->plan->port_arg[p]) == x) {
            port->node = tn__ref(node->port[p].node);
            port->index = node->port[p].index;
        }
    port->output = -1;
    for (int o = 0; o < node->out_count; o++)
        if (call->out[o] == x && tn_dtype_is_floating((tn_dtype)x->dtype))
            port->output = (int8_t)o;
}

tn_status tn__registered_save(tn__node *node, const tn__call *call)
{
    tn_op_context *context = call->context;
    tn__port *port = node->port + node->port_count + node->out_count;
    for (int i = 0; i < context->save_count; i++) {
        tn_tensor *x = context->save[i];
        if (!x)
            continue;
        port[i].ndim = (int8_t)x->ndim;
        connect(node, call, &port[i], x);
        uint32_t version = atomic_load_explicit(&x->storage->version,
                                                memory_order_relaxed);
        if (!tn__saved_value_set(&port[i].saved, x, version))
            return TN_ERR_MEMORY;
    }
    for (int i = 0; i < context->save_count; i++)
        tn__unref(context->save[i]);
    context->save_count = 0;
    context->node = node;
    context->node_value = value_of;
    node->context = tn__ref(context);
    return TN_OK;
}
