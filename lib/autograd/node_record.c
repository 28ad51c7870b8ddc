/* node_record.c: makes the node of a finished call and saves the values that
 * its gradient needs. */
#include <base/context.h>
#include <ops/engine/register.h>
#include <string.h>

#include <autograd/node.h>

/* Number of the next call. All threads share this counter, and the backward
 * pass visits nodes in descending order of these numbers. */
static _Atomic uint64_t next_sequence = 1;

/* Returns the current position in a memory block and advances it by `bytes`,
 * rounded up to a multiple of 8. */
static void *carve(char **at, size_t bytes)
{
    char *piece = *at;
    *at += (bytes + 7) & ~(size_t)7;
    return piece;
}

static size_t padded(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

/* Returns the size of the array or string that an argument points to. The node
 * must copy it, because the caller's copy is valid only during the call. */
static size_t copied_bytes(const tn_value *value)
{
    switch (value->kind) {
    case TN_VALUE_DIMS:
        return padded(sizeof(tn_dims_list));
    case TN_VALUE_FLOATS:
        return padded((size_t)value->count * sizeof(double));
    case TN_VALUE_STRING:
        return padded(strlen(value->of.string) + 1);
    default:
        return 0;
    }
}

static void copy_value(tn_value *to, const tn_value *from, char **at)
{
    *to = *from;
    switch (from->kind) {
    case TN_VALUE_DIMS:
        to->of.dims = memcpy(carve(at, sizeof(tn_dims_list)), from->of.dims,
                             sizeof(tn_dims_list));
        break;
    case TN_VALUE_FLOATS: {
        size_t bytes = (size_t)from->count * sizeof(double);
        to->of.floats = memcpy(carve(at, bytes), from->of.floats, bytes);
        break;
    }
    case TN_VALUE_STRING: {
        size_t bytes = strlen(from->of.string) + 1;
        to->of.string = memcpy(carve(at, bytes), from->of.string, bytes);
        break;
    }
    default:
        break;
    }
}

/* Sets *list to the tensors of one argument and returns their number. An
 * omitted tensor counts as one, which is NULL. */
static int tensors_of(const tn_value *value, tn_tensor *const **list)
{
    if (value->kind == TN_VALUE_TENSORS) {
        *list = value->of.tensors;
        return value->count;
    }
    static tn_tensor *const none = NULL;
    *list = value->kind == TN_VALUE_TENSOR ? &value->of.tensor : &none;
    return 1;
}

struct sizes {
    size_t ports, dims, copied, layout;
};

/* Returns the first input tensor if its strides and offset must be recorded:
 * the call returned a view of it, or the gradient needs its layout. Otherwise
 * returns NULL. */
static const tn_tensor *layout_source(const tn__plan *plan,
                                      const tn__call *call, bool *is_view)
{
    *is_view = false;
    if (!plan->gradient || call->op->inplace)
        return NULL;
    const tn_tensor *x = tn__call_tensor(call, plan->port_arg[0]);
    *is_view = x && call->out[0]->storage == x->storage;
    return *is_view || plan->saves_layout ? x : NULL;
}

/* The iteration space of a kernel call. It is call->shape, or the output's
 * shape if call->shape is NULL because all operands have the same shape. */
struct extent {
    int ndim;
    const int64_t *dim;
};

static struct extent shape_of(const tn__call *call)
{
    if (call->shape)
        return (struct extent){call->shape->ndim, call->shape->dim};
    return (struct extent){call->out[0]->ndim, call->out[0]->shape};
}

static struct sizes measure(const tn__plan *plan, const tn__call *call)
{
    struct sizes sizes = {0, 0, 0, 0};
    bool is_view;
    const tn_tensor *x = layout_source(plan, call, &is_view);
    if (x)
        sizes.layout = (1 + (size_t)x->ndim) * sizeof(int64_t);
    for (int p = 0; p < plan->port_count; p++) {
        tn_tensor *const *list;
        int count = tensors_of(&call->value[plan->port_arg[p]], &list);
        sizes.ports += (size_t)count;
        for (int i = 0; i < count; i++)
            sizes.dims += list[i] ? list[i]->ndim : 0;
    }
    for (int o = 0; o < call->out_count; o++)
        sizes.dims += call->out[o]->ndim;
    if (plan->gradient)
        for (int i = 0; i < call->op->arg_count; i++)
            sizes.copied += copied_bytes(&call->value[i]);
    else
        sizes.dims += (size_t)shape_of(call).ndim;
    return sizes;
}

static void describe(tn__port *port, const tn_tensor *x, char **at)
{
    memset(port, 0, sizeof *port);
    port->ndim = -1;
    if (!x)
        return;
    port->ndim = (int8_t)x->ndim;
    port->dtype = x->dtype;
    port->transposed = !x->contiguous && x->ndim >= 2 &&
                       x->stride[x->ndim - 2] == 1 &&
                       x->stride[x->ndim - 1] == x->shape[x->ndim - 2];
    port->device = x->storage->device;
    int64_t *shape = carve(at, x->ndim * sizeof *shape);
    for (int d = 0; d < x->ndim; d++) /* a memcpy call would take longer for so
                                         few elements */
        shape[d] = x->shape[d];
    port->shape = shape;
}

static void connect(tn__port *port, const tn_tensor *x)
{
    if (!x || !x->requires_grad || !x->grad)
        return;
    port->node = tn__ref(x->grad->node);
    port->index = x->grad->index;
}

static uint32_t version_of(const tn_tensor *x)
{
    return atomic_load_explicit(&x->storage->version, memory_order_relaxed);
}

/* Saves the inputs and outputs that the gradients will need. An in-place call
 * has already overwritten its first argument, so call->original, a copy made
 * before, is saved instead. Other inputs that share the overwritten memory have
 * lost their values. They are saved with the previous version number, so that
 * backward reports an error when it needs them. */
static tn_status save_values(tn__node *node, const tn__plan *plan,
                             const tn__call *call)
{
    uint32_t wanted = 0, inputs, outputs;
    for (int p = 0; p < node->port_count && p < 32; p++)
        if (node->port[p].node)
            wanted |= 1u << p;
    tn_status status = tn__plan_saves(plan, wanted, &inputs, &outputs);
    if (status < 0 || !(inputs | outputs))
        return status;
    const tn__storage *written = NULL;
    if (call->op->inplace)
        written = call->out[0]->storage;
    for (int p = 0; p < plan->port_count; p++) {
        if (!(inputs & 1u << p))
            continue;
        const tn_value *value = &call->value[plan->port_arg[p]];
        if (value->kind != TN_VALUE_TENSOR)
            continue;
        tn_tensor *x = value->of.tensor;
        if (written && x == call->out[0] && call->original)
            x = call->original;
        uint32_t version = version_of(x) - (x->storage == written);
        if (!tn__saved_value_set(&node->port[p].saved, x, version))
            return TN_ERR_MEMORY;
    }
    for (int o = 0; o < node->out_count; o++)
        if (outputs & 1u << o &&
            !tn__saved_value_set(&node->port[node->port_count + o].saved,
                                 call->out[o], version_of(call->out[o])))
            return TN_ERR_MEMORY;
    return TN_OK;
}

static void fill_ports(tn__node *node, const tn__plan *plan,
                       const tn__call *call, char **at)
{
    tn__port *port = node->port;
    for (int p = 0; p < plan->port_count; p++) {
        tn_tensor *const *list;
        int count = tensors_of(&call->value[plan->port_arg[p]], &list);
        for (int i = 0; i < count; i++, port++) {
            describe(port, list[i], at);
            connect(port, list[i]);
        }
    }
    for (int o = 0; o < call->out_count; o++, port++)
        describe(port, call->out[o], at);
    for (int i = 0; i < node->save_count; i++, port++)
        describe(port, NULL, at);
}

static void fill_layout(tn__node *node, const tn__plan *plan,
                        const tn__call *call, tn__layout *layout)
{
    const tn_tensor *x = layout_source(plan, call, &node->is_view);
    layout->offset = x->offset;
    for (int d = 0; d < x->ndim; d++)
        layout->stride[d] = x->stride[d];
    node->layout = layout;
}

static void fill_values(tn__node *node, const tn__plan *plan,
                        const tn__call *call, char **at)
{
    for (int i = 0; i < node->value_count; i++)
        copy_value(&node->value[i], &call->value[i], at);
    int64_t port = 0;
    for (int p = 0; p < plan->port_count; p++) {
        tn_value *value = &node->value[plan->port_arg[p]];
        if (value->kind == TN_VALUE_TENSOR || value->kind == TN_VALUE_TENSORS)
            value->of.i = port;
        port += value->kind == TN_VALUE_TENSORS ? value->count : 1;
    }
}

tn__node *tn__node_record(const tn__plan *plan, tn__call *call)
{
    struct sizes sizes = measure(plan, call);
    size_t saves = call->context ? (size_t)call->context->save_count : 0;
    size_t ports = sizes.ports + (size_t)call->out_count + saves;
    size_t values = plan->gradient ? (size_t)call->op->arg_count : 0;
    size_t params = plan->gradient ? 0 : (size_t)call->param_count;
    tn__node *node = tn__node_alloc(
        padded(sizeof *node) + padded(ports * sizeof(tn__port)) +
        sizes.dims * sizeof(int64_t) + values * sizeof(tn_value) +
        params * sizeof(tn_number) + sizes.copied + sizes.layout);
    if (!node)
        return NULL;
    char *at = (char *)node + padded(sizeof *node);
    node->op = call->op;
    node->made_in = tn__me.location.path;
    node->plan = plan;
    node->sequence =
        atomic_fetch_add_explicit(&next_sequence, 1, memory_order_relaxed);
    node->port = carve(&at, ports * sizeof(tn__port));
    node->port_count = (uint16_t)sizes.ports;
    node->out_count = (uint16_t)call->out_count;
    node->save_count = (uint16_t)saves;
    fill_ports(node, plan, call, &at);
    if (sizes.layout)
        fill_layout(node, plan, call, carve(&at, sizes.layout));
    node->ndim = -1;
    if (plan->gradient) {
        node->value_count = (uint16_t)values;
        node->value = carve(&at, values * sizeof(tn_value));
        fill_values(node, plan, call, &at);
    } else {
        struct extent shape = shape_of(call);
        size_t bytes = (size_t)shape.ndim * sizeof(int64_t);
        node->ndim = shape.ndim;
        node->shape = memcpy(carve(&at, bytes), shape.dim, bytes);
        node->row_dims = call->row_dims;
        bytes = params * sizeof(tn_number);
        if (params)
            node->param = memcpy(carve(&at, bytes), call->param, bytes);
    }
    if (save_values(node, plan, call) < 0 ||
        (call->context && tn__registered_save(node, call) < 0)) {
        tn__unref(node);
        return NULL;
    }
    return node;
}
