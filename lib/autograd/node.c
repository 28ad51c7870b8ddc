/* node.c: nodes, their memory, and the values they save.
 *
 * A node lies in one block: the struct, its ports, shapes, parameters and
 * copies of attributes behind each other. Blocks come from pools of a few
 * sizes, because each recorded call takes one. */
#include <base/context.h>
#include <base/lock.h>
#include <ops/engine/register.h>
#include <string.h>

#include <autograd/walk.h>

static tn__pool pools[] = {
    {"node 256", 256, 0},   {"node 384", 384, 0},   {"node 512", 512, 0},
    {"node 768", 768, 0},   {"node 1024", 1024, 0}, {"node 1536", 1536, 0},
    {"node 2048", 2048, 0},
};
enum { POOLS = sizeof pools / sizeof pools[0] };

static tn__pool meta_pool = {"grad meta", sizeof(tn__grad_meta), 0};

/* Numbers calls in their order over all threads: the walk goes by it. */
static _Atomic uint64_t next_sequence = 1;

static tn__lock leaves = TN__LOCK_INIT;

void tn__leaf_lock(void)
{
    tn__lock_take(&leaves);
}

void tn__leaf_unlock(void)
{
    tn__lock_give(&leaves);
}

static int slot_count(const tn__node *node)
{
    return node->port_count + node->out_count + node->save_count;
}

void tn__node_release(tn__node *node)
{
    for (int i = 0; i < slot_count(node); i++)
        tn__held_release(&node->port[i].saved);
}

static void give_block(tn__node *node)
{
    if (node->size_class < POOLS)
        tn__pool_give(&pools[node->size_class], node);
    else
        tn__free(node);
}

static void node_destroy(tn__object *object)
{
    tn__node *node = (tn__node *)object;
    tn__node_release(node);
    for (int i = 0; i < slot_count(node); i++)
        tn__unref(node->port[i].node);
    tn__unref(node->grad);
    tn__unref(node->hook);
    tn__unref(node->context);
    give_block(node);
}

static const tn__class node_class = {.name = "gradient node",
                                     .destroy = node_destroy};

/* A zeroed head, and `bytes` in all. */
static tn__node *node_new(size_t bytes)
{
    uint8_t size_class = 0;
    while (size_class < POOLS && pools[size_class].bytes < bytes)
        size_class++;
    tn__node *node = size_class < POOLS ? tn__pool_take(&pools[size_class])
                                        : tn__alloc(bytes);
    if (!node)
        return NULL;
    memset(node, 0, sizeof *node);
    tn__object_init(&node->object, &node_class);
    node->size_class = size_class;
    return node;
}

tn__node *tn__node_leaf(void)
{
    return node_new(sizeof(tn__node)); /* sequence 0: after all calls */
}

/* ---- recording ---------------------------------------------------------- */

/* Where the next piece of the block goes. */
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

/* The bytes behind a value's pointer that outlive the call only as a copy. */
static size_t lent_bytes(const tn_value *value)
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

/* The tensors that one argument brings. */
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
    size_t ports, dims, lent, layout;
};

/* The tensor of port 0 where the call gives a view of it, or its gradient asks
 * how it lay in memory; else NULL. */
static const tn_tensor *laid_out(const tn__plan *plan, const tn__call *call,
                                 bool *is_view)
{
    *is_view = false;
    if (!plan->gradient || call->op->inplace)
        return NULL;
    const tn_tensor *x = tn__call_tensor(call, plan->port_arg[0]);
    *is_view = x && call->out[0]->storage == x->storage;
    return *is_view || plan->saves_layout ? x : NULL;
}

/* The space of a kernel call; one over operands of one shape does not tell. */
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
    const tn_tensor *x = laid_out(plan, call, &is_view);
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
            sizes.lent += lent_bytes(&call->value[i]);
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
    port->turned = !x->contiguous && x->ndim >= 2 &&
                   x->stride[x->ndim - 2] == 1 &&
                   x->stride[x->ndim - 1] == x->shape[x->ndim - 2];
    port->device = x->storage->device;
    int64_t *shape = carve(at, x->ndim * sizeof *shape);
    for (int d = 0; d < x->ndim; d++) /* few: cheaper than memcpy's start */
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

/* Saves what the wanted ports need. A call in place has already changed its
 * first argument, of which it kept a copy; what it needed of other views on the
 * same memory is gone, and said to be so when it is asked for. */
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
        if (!tn__held_set(&node->port[p].saved, x, version))
            return TN_ERR_MEMORY;
    }
    for (int o = 0; o < node->out_count; o++)
        if (outputs & 1u << o &&
            !tn__held_set(&node->port[node->port_count + o].saved,
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
    const tn_tensor *x = laid_out(plan, call, &node->is_view);
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
    tn__node *node =
        node_new(padded(sizeof *node) + padded(ports * sizeof(tn__port)) +
                 sizes.dims * sizeof(int64_t) + values * sizeof(tn_value) +
                 params * sizeof(tn_number) + sizes.lent + sizes.layout);
    if (!node)
        return NULL;
    char *at = (char *)node + padded(sizeof *node);
    node->op = call->op;
    node->made_in = tn__me.location.path;
    node->plan = plan;
    node->sequence = atomic_fetch_add_explicit(&next_sequence, 1,
                                               memory_order_relaxed);
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

/* ---- what hangs on a tensor --------------------------------------------- */

/* A tensor less has node. A leaf's gradient goes with the last; where a graph
 * still holds the leaf, it is taken from it. */
static void leave_node(tn__node *node)
{
    if (node && !node->op &&
        atomic_fetch_sub_explicit(&node->tensors, 1, memory_order_acq_rel) ==
            1 &&
        atomic_load_explicit(&node->object.references, memory_order_acquire) >
            1) {
        tn__leaf_lock();
        tn_tensor *grad = node->grad;
        node->grad = NULL;
        tn__leaf_unlock();
        tn__unref(grad);
    }
    tn__unref(node);
}

tn_status tn__tensor_set_node(tn_tensor *x, tn__node *node, uint32_t index)
{
    if (!x->grad) {
        x->grad = tn__pool_take(&meta_pool);
        if (!x->grad)
            return TN_ERR_MEMORY;
        x->grad->node = NULL;
        x->grad->retained = NULL;
    }
    tn__node *old = x->grad->node;
    if (x->grad->retained)
        tn__hook_move(x->grad->retained, old, node, index);
    if (!node->op)
        atomic_fetch_add_explicit(&node->tensors, 1, memory_order_relaxed);
    x->grad->node = tn__ref(node);
    x->grad->index = index;
    x->grad->seen = tn__history_count(x);
    x->requires_grad = true;
    leave_node(old);
    return TN_OK;
}

void tn__grad_meta_release(tn__grad_meta *meta)
{
    if (meta->node->hook)
        tn__hooks_forget(meta->node, meta);
    if (meta->retained)
        tn__hook_forget_retained(meta->retained);
    tn__unref(meta->retained);
    leave_node(meta->node);
    tn__pool_give(&meta_pool, meta);
}

/* ---- what gradient functions ask ---------------------------------------- */

bool tn__node_wants(const tn__node *node, int port)
{
    return port < node->port_count && node->port[port].node &&
           (!tn__me.walk_asked ||
            tn__node_set_has(tn__me.walk_asked, node->port[port].node));
}

/* A saved value as a tensor that the gradient may compute with. */
static tn_tensor *unpack(const tn__node *node, const tn__port *port,
                         tn__node *maker, uint32_t index)
{
    tn_tensor *saved = tn__held_get(&port->saved, tn__node_name(node));
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
    bool floats = tn_dtype_is_floating(
        node->port[node->port_count + out].dtype);
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

bool tn__node_turned(const tn__node *node, int port)
{
    return node->port[port].turned;
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

const char *tn__node_name(const tn__node *node)
{
    return node->op ? node->op->name : "leaf";
}

const int64_t *tn__node_strides(const tn__node *node)
{
    return node->layout->stride;
}

int64_t tn__node_offset(const tn__node *node)
{
    return node->layout->offset;
}
