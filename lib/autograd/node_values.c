/* node_values.c: the functions by which gradient functions read a node: saved
 * values, shapes and arguments of the recorded call. */
#include <base/context.h>

#include <autograd/walk.h>

bool tn__node_wants(const tn__node *node, int port)
{
    return port < node->port_count && node->port[port].node &&
           (!tn__me.walk_asked ||
            tn__node_set_has(tn__me.walk_asked, node->port[port].node));
}

/* Returns a saved value. Under create_graph the value becomes output `index` of
 * the node `maker` again, so that the gradient can be differentiated. */
static tn_tensor *unpack(const tn__node *node, const tn__port *port,
                         tn__node *maker, uint32_t index)
{
    tn_tensor *saved = tn__saved_value_get(&port->saved, tn__node_name(node));
    if (!saved || !maker || !tn_grad_mode())
        return saved;
    tn_tensor *tracked = tn__tensor_alias(saved);
    if (!tracked)
        return NULL;
    if (tn__tensor_set_node(tracked, maker, index) < 0) {
        tn__unref(tracked);
        return NULL;
    }
    return tn__scope_own(tracked);
}

tn_tensor *tn__node_input(const tn__node *node, int port)
{
    const tn__port *p = &node->port[port];
    return unpack(node, p, p->node, p->index);
}

tn_tensor *tn__node_output(const tn__node *node, int out)
{
    bool floats =
        tn_dtype_is_floating(node->port[node->port_count + out].dtype);
    return unpack(node, &node->port[node->port_count + out],
                  floats ? (tn__node *)node : NULL, (uint32_t)out);
}

tn_tensor *tn__node_saved(const tn__node *node, int i)
{
    const tn__port *p = &node->port[node->port_count + node->out_count + i];
    if (p->ndim < 0)
        return NULL;
    return p->output < 0
               ? unpack(node, p, p->node, p->index)
               : unpack(node, p, (tn__node *)node, (uint32_t)p->output);
}

tn_dims_list tn__node_shape(const tn__node *node, int port)
{
    const tn__port *p = &node->port[port];
    tn_dims_list list = {p->ndim, {0}};
    for (int d = 0; d < p->ndim; d++)
        list.dim[d] = p->shape[d];
    return list;
}

int tn__node_ndim(const tn__node *node, int port)
{
    return node->port[port].ndim;
}

int64_t tn__node_size(const tn__node *node, int port, int dim)
{
    return node->port[port].shape[dim];
}

bool tn__node_is_transposed(const tn__node *node, int port)
{
    return node->port[port].transposed;
}

tn_dtype tn__node_dtype(const tn__node *node, int port)
{
    return node->port[port].dtype;
}

tn_device *tn__node_device(const tn__node *node, int port)
{
    return node->port[port].device;
}

int tn__node_port_count(const tn__node *node)
{
    return node->port_count;
}

const tn_value *tn__node_value(const tn__node *node, int i)
{
    return &node->value[i];
}

int tn__node_dim(const tn__node *node, int i, int port)
{
    return tn__shape_dim(node->port[port].ndim, node->value[i].of.i);
}

const int64_t *tn__node_strides(const tn__node *node)
{
    return node->layout->stride;
}

int64_t tn__node_offset(const tn__node *node)
{
    return node->layout->offset;
}
