/* run.c: computes the gradients of one recorded call, by its C function or by
 * gradient kernels that run over the iteration space of the forward kernel. */
#include <tenon/ops.h>

#include <autograd/node.h>

tn_tensor *tn__sum_to_shape(tn_tensor *g, int ndim, const int64_t *shape)
{
    if (!g)
        return NULL;
    tn_dims_list sum = {0, {0}}, kept = {ndim, {0}};
    int lead = g->ndim - ndim;
    for (int d = 0; d < g->ndim; d++) /* a dimension of size 1 needs no sum */
        if (g->shape[d] != 1 && (d < lead || shape[d - lead] == 1))
            sum.dim[sum.count++] = d;
    if (sum.count)
        g = tn_sum(g, .dims = tn__marked(sum), .keepdim = true);
    if (!g || lead <= 0)
        return g;
    for (int d = 0; d < ndim; d++)
        kept.dim[d] = shape[d];
    return tn_reshape(g, kept);
}

tn_tensor *tn__widen_half(tn_tensor *g)
{
    return g && tn_dtype_bytes(g->dtype) == 2 ? tn_to_dtype(g, TN_F32) : g;
}

tn_tensor *tn__zeros_expanded(tn_dims_list shape, tn_dtype dtype,
                              tn_device *device)
{
    return tn_expand(tn_zeros(TN_SCALAR, .dtype = dtype, .device = device),
                     shape);
}

/* Makes zeros of the shape of output `out`, in place of a NULL gradient. */
static tn_tensor *node_zeros(const tn__node *node, int out)
{
    const tn__port *port = &node->port[node->port_count + out];
    return tn_zeros(tn__node_shape(node, node->port_count + out),
                    .dtype = port->dtype, .device = port->device);
}

/* Inserts dimensions of size 1 into x for the dimensions that the forward
 * kernel reduced. x is an output or the gradient of an output. */
static tn_tensor *with_row_dims(const tn__node *node, tn_tensor *x)
{
    if (!x || x->ndim == node->ndim)
        return x;
    tn_dims_list shape = {0, {0}};
    for (int d = 0, from = 0; d < node->ndim; d++)
        shape.dim[shape.count++] =
            node->row_dims & 1u << d ? 1 : x->shape[from++];
    return tn_reshape(x, shape);
}

/* Returns operand u of a gradient kernel. The operands are numbered: first the
 * forward kernel's inputs, then its outputs, then the gradients of these
 * outputs. */
static tn_tensor *operand(const tn__node *node, tn_tensor *const *g, int u)
{
    const tn__plan *plan = node->plan;
    const tn__kernel *kernel = plan->kernel;
    if (u < kernel->input_count)
        return tn__node_input(node, plan->input_port[u]);
    u -= kernel->input_count;
    if (u < kernel->output_count)
        return with_row_dims(node, tn__node_output(node, u));
    u -= kernel->output_count;
    return with_row_dims(node, g[u] ? g[u] : node_zeros(node, u));
}

/* Returns the dimensions of the iteration space along which input p was
 * broadcast, as a mask. */
static uint32_t broadcast_dims(const tn__node *node, int p)
{
    const tn__port *port = &node->port[p];
    int lead = node->ndim - port->ndim;
    uint32_t dims = 0;
    for (int d = 0; d < node->ndim; d++)
        if (node->shape[d] != 1 &&
            (d < lead || port->shape[d - lead] != node->shape[d]))
            dims |= 1u << d;
    return dims;
}

static tn_tensor *kernel_gradient(const tn__node *node, tn_tensor *const *g,
                                  int p)
{
    const tn__plan *plan = node->plan;
    const tn__plan_port *port = tn__plan_port_find(plan, p);
    if (!port)
        return NULL;
    if (port->zero)
        return tn_zeros(tn__node_shape(node, p),
                        .dtype = node->port[p].dtype,
                        .device = node->port[p].device);
    if (port->failed) {
        tn__plan_port_fail(plan, p);
        return NULL;
    }
    if (port->copies_cotangent) {
        tn_tensor *same = operand(node, g, port->used[0]);
        if (!same || tn__shape_equal(same->ndim, same->shape, node->ndim,
                                     node->shape))
            return same; /* otherwise it has one element per row, and the
                            kernel expands it */
    }
    /* Under create_graph the fused kernel is not used: it would have to be
     * differentiated anew, although the derivative of the plain kernel may
     * already exist. */
    uint32_t broadcast = tn_grad_mode() ? 0 : broadcast_dims(node, p);
    bool summing = broadcast && port->summed;
    /* The gradient of a reduction is the same for all elements of a row: it is
     * computed once per row and expanded. */
    bool rowwise = !tn_grad_mode() && !broadcast && port->per_row;
    const tn__kernel *kernel = summing   ? port->summed
                               : rowwise ? port->per_row
                                         : port->kernel;
    tn_tensor *input[TN__KERNEL_MAX_INPUTS];
    for (int i = 0; i < kernel->input_count; i++) {
        input[i] = NULL;
        if (!kernel->input[i].dtype) /* an offset operand has no tensor */
            continue;
        input[i] = operand(node, g, port->used[i]);
        if (!input[i])
            return NULL;
    }
    tn_number param[TN__KERNEL_MAX_PARAMS];
    for (int i = 0; i < kernel->param_count; i++)
        param[i] = node->param[port->param[i]];
    tn__shape shape;
    shape.ndim = node->ndim;
    for (int d = 0; d < node->ndim; d++)
        shape.dim[d] = node->shape[d];
    tn_tensor *out = NULL;
    tn__apply_kernel(kernel, input, param, &shape,
                     summing ? broadcast : node->row_dims, node->op->name,
                     &out);
    if (out && rowwise)
        return tn_expand(out, tn__node_shape(node, p));
    return out && summing ? tn_reshape(out, tn__node_shape(node, p)) : out;
}

tn_status tn__node_run(const tn__node *node, tn_tensor *const *g,
                       tn_tensor **out)
{
    if (node->plan->gradient)
        return node->plan->gradient(node, g, out);
    for (int p = 0; p < node->port_count; p++) {
        if (!tn__node_wants(node, p))
            continue;
        out[p] = kernel_gradient(node, g, p);
        if (!out[p])
            return tn_error_code();
    }
    return TN_OK;
}
