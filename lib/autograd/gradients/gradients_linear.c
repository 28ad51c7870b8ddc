/* gradients_linear.c: gradients of linear layers that a device computes in one
 * call with their activation (extension "product").
 *
 * Two such layers often follow each other: layer 2 computes
 * linear(activation(z)), where z is the result of the product in layer 1. The
 * gradient of layer 2's input is a matrix product. If nothing else needs this
 * gradient, the same device call multiplies it by the activation's derivative,
 * which gives the gradient of z. Layer 2 returns it in out[port_count]. The
 * backward pass passes it to layer 1 as the gradient of layer 1's output 1, and
 * layer 1 does not multiply it by the derivative again. */
#include <ops/table.h>
#include <tenon/ops.h>

#include <autograd/walk.h>

static tn_tensor *row(int id, const tn_value *value, int count)
{
    return tn__op_run1(&tn__op_table[id], value, count);
}

/* Returns the activation of a recorded layer as a TN_PRODUCT_ flag, or 0 if it
 * has none. */
static uint32_t activation_of(const tn__node *node)
{
    if (node->op == &tn__op_table[TN__OP_ID_LINEAR_RELU])
        return TN_PRODUCT_RELU;
    if (node->op != &tn__op_table[TN__OP_ID_LINEAR_GELU])
        return 0;
    return tn__node_value(node, TN__ARG_LINEAR_GELU_TANH)->of.i
               ? TN_PRODUCT_GELU_TANH
               : TN_PRODUCT_GELU;
}

/* Returns the gradient of the activation's input. It is g[0] multiplied by the
 * activation's derivative, plus g[1], which the next layer has already
 * multiplied by it. */
static tn_tensor *before_activation(const tn__node *node, tn_tensor *const *g)
{
    const uint32_t words = activation_of(node);
    tn_tensor *dz = g[0];
    if (dz && words) {
        tn_tensor *kept = tn__node_output(node, words != TN_PRODUCT_RELU);
        const tn_value value[] = {tn__value_tensor(dz),
                                  tn__value_tensor(kept)};
        dz = kept ? row(words == TN_PRODUCT_RELU   ? TN__OP_ID_RELU_BACK
                        : words == TN_PRODUCT_GELU ? TN__OP_ID_GELU_BACK
                                                   : TN__OP_ID_GELU_TANH_BACK,
                        value, 2)
                  : NULL;
        if (!dz)
            return NULL;
    }
    tn_tensor *other = node->out_count > 1 ? g[1] : NULL;
    return dz && other ? tn_add(dz, other) : other ? other : dz;
}

/* Returns the node of layer 1 (see above) if layer 2, the layer of `node`, may
 * compute the gradient of z without the gradient of layer 1's output. Returns
 * NULL if a hook, tn_grad or create_graph needs the gradient of that output, or
 * if no layer with an activation made layer 2's input. */
static const tn__node *skipped(const tn__node *node)
{
    const tn__port *port = &node->port[0];
    const tn__node *maker = port->node;
    return maker && maker->op && maker->out_count == 2 && port->index == 0 &&
                   activation_of(maker) && !maker->hook && !tn_grad_mode() &&
                   !tn__walk_captures()
               ? maker
               : NULL;
}

static tn_status input_gradient(const tn__node *node, tn_tensor *dz,
                                tn_tensor **out)
{
    tn_tensor *w = tn__node_input(node, 1);
    const tn__node *maker = skipped(node);
    if (!w)
        return tn_error_code();
    if (!maker) {
        out[0] = tn_matmul(dz, w);
        return out[0] ? TN_OK : tn_error_code();
    }
    const uint32_t words = activation_of(maker);
    tn_tensor *aux = tn__node_output(maker, 1);
    tn_tensor *kept = words == TN_PRODUCT_RELU ? tn__node_output(maker, 0)
                                               : aux;
    const tn_value value[] = {tn__value_tensor(dz), tn__value_tensor(w),
                              tn__value_tensor(aux), tn__value_tensor(kept),
                              tn__value_int(words)};
    if (!aux || !kept)
        return tn_error_code();
    tn_tensor **skip = &out[node->port_count];
    *skip = row(TN__OP_ID_LINEAR_BACK, value, 5);
    return *skip ? TN_OK : tn_error_code();
}

static tn_status weight_gradient(const tn__node *node, tn_tensor *dz,
                                 tn_tensor **out)
{
    tn_tensor *x = tn__node_input(node, 0);
    if (!x)
        return tn_error_code();
    if (tn__node_wants(node, 2) && !tn_grad_mode()) {
        const tn_value value[] = {tn__value_tensor(dz), tn__value_tensor(x)};
        return tn__op_run(&tn__op_table[TN__OP_ID_LINEAR_WEIGHT], value, 2,
                          &out[1], 2) < 0
                   ? tn_error_code()
                   : TN_OK;
    }
    x = tn_reshape(x, tn_dims(-1, x->shape[x->ndim - 1]));
    tn_tensor *rows = tn_reshape(dz, tn_dims(-1, dz->shape[dz->ndim - 1]));
    out[1] = tn_matmul(tn_t(rows), x);
    out[2] = tn__node_wants(node, 2) ? dz : NULL;
    return out[1] ? TN_OK : tn_error_code();
}

static tn_status linear_gradient(const tn__node *node, tn_tensor *const *g,
                                 tn_tensor **out)
{
    tn_tensor *dz = before_activation(node, g);
    tn_status status = dz ? TN_OK : tn_error_code();
    if (!status && tn__node_wants(node, 0))
        status = input_gradient(node, dz, out);
    if (!status && tn__node_wants(node, 1))
        status = weight_gradient(node, dz, out);
    else if (!status && tn__node_wants(node, 2))
        out[2] = dz;
    return status;
}

TN__GRADIENT(tn__grad_linear_product)
{
    return linear_gradient(node, g, out);
}

TN__GRADIENT(tn__grad_linear_relu)
{
    return linear_gradient(node, g, out);
}

TN__GRADIENT(tn__grad_linear_gelu)
{
    return linear_gradient(node, g, out);
}
