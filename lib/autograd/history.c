/* history.c: gradients of tensors that share memory, when one of them is
 * changed in place.
 *
 * The base of a storage is the tensor of which all others are views. The first
 * in-place change gives the storage a history, which describes the base's shape
 * and strides and refers to the node of the call that made the base's values.
 *
 * A change of a part of the base, such as x[0] += w, is recorded as
 * as_strided_scatter, which writes the new values of x[0] into the base. Its
 * gradient passes the part of the base's gradient that belongs to x[0] on to
 * the addition. If a tensor's node is older than the last change, the tensor
 * gets a new node when it is next used, which records it as an as_strided view
 * of the base. Unlike in PyTorch, a view does not refer to a base tensor, so
 * views cost nothing until one is written to.
 *
 * as_strided and as_strided_scatter are only recorded for backward. They
 * compute nothing in the forward pass. */
#include <base/lock.h>
#include <ops/table.h>
#include <string.h>

#include <autograd/history.h>
#include <autograd/node.h>

/* Guards the fields of all histories except `count`. One lock is enough,
 * because few storages have a history. */
static tn__lock lock = TN__LOCK_INIT;
static uint64_t last_count;

void tn__history_release(tn__history *history)
{
    tn__unref(history->node);
    tn__free(history);
}

bool tn__tensor_is_shared(const tn_tensor *x)
{
    const tn__storage *storage = x->storage;
    return atomic_load_explicit(&storage->references, memory_order_relaxed) -
               atomic_load_explicit(&storage->saved, memory_order_relaxed) >
           1;
}

/* ---- places ------------------------------------------------------------- */

static void place_of(struct tn__place *place, const tn_tensor *x)
{
    place->ndim = x->ndim;
    place->offset = x->offset;
    memcpy(place->shape, x->shape, x->ndim * sizeof x->shape[0]);
    memcpy(place->stride, x->stride, x->ndim * sizeof x->stride[0]);
}

static bool is_place_of(const struct tn__place *place, const tn_tensor *x)
{
    return place->offset == x->offset &&
           tn__shape_equal(place->ndim, place->shape, x->ndim, x->shape) &&
           tn__shape_equal(place->ndim, place->stride, x->ndim, x->stride);
}

/* Follows the recorded view calls from x back to the tensor of which x is a
 * view. Returns the node that made this tensor, or NULL if there is none. Sets
 * *place to the tensor's place (offset, shape and strides) in the storage, and
 * *index to the index of the node's output. */
static tn__node *find_base(const tn_tensor *x, struct tn__place *place,
                           uint32_t *index)
{
    place_of(place, x);
    tn__node *node = x->grad ? x->grad->node : NULL;
    *index = node ? x->grad->index : 0;
    while (node && node->is_view) {
        const tn__port *port = &node->port[0];
        size_t bytes = (size_t)port->ndim * sizeof(int64_t);
        place->ndim = port->ndim;
        place->offset = node->layout->offset;
        memcpy(place->shape, port->shape, bytes);
        memcpy(place->stride, node->layout->stride, bytes);
        *index = port->index;
        node = port->node;
    }
    return node;
}

bool tn__tensor_views_leaf(const tn_tensor *x)
{
    struct tn__place place;
    uint32_t index;
    const tn__node *base = find_base(x, &place, &index);
    return base && !base->op;
}

/* ---- recording ---------------------------------------------------------- */

/* Makes a tensor at the given place in x's storage and, unless node is NULL,
 * makes it output `index` of node. The caller owns one reference. */
static tn_tensor *stand_in(const tn_tensor *x, const struct tn__place *place,
                           tn__node *node, uint32_t index)
{
    tn_tensor *base = tn__tensor_view(x, x->dtype, place->ndim, place->shape,
                                      place->stride, place->offset);
    if (base && node && tn__tensor_set_node(base, node, index) < 0) {
        tn__unref(base);
        return NULL;
    }
    return base;
}

static tn_dims_list list_of(int ndim, const int64_t *dim)
{
    tn_dims_list list = {ndim, {0}};
    memcpy(list.dim, dim, (size_t)ndim * sizeof dim[0]);
    return list;
}

/* Makes a node for a call of operator `id` that is not executed. The call's
 * arguments are the given tensors, then size, stride and offset of x. Its
 * output is out. */
static tn__node *record(int id, tn_tensor *const *tensor, int tensors,
                        const tn_tensor *x, tn_tensor *out)
{
    tn_dims_list size = list_of(x->ndim, x->shape);
    tn_dims_list stride = list_of(x->ndim, x->stride);
    tn_value value[5];
    for (int i = 0; i < tensors; i++)
        value[i] = tn__value_tensor(tensor[i]);
    value[tensors] = tn__value_dims(&size);
    value[tensors + 1] = tn__value_dims(&stride);
    value[tensors + 2] = tn__value_int(x->offset);
    tn__call call = {.op = &tn__op_table[id], .value = value, .out_count = 1,
                     .out = &out};
    const tn__plan *plan = tn__plan_find(call.op, NULL);
    return plan ? tn__node_record(plan, &call) : NULL;
}

/* Returns the new node of the base after the call of `node` has written x, a
 * part of the base. base_node is the base's old node, or NULL. The caller owns
 * one reference. */
static tn__node *scatter_into(const struct tn__place *base, tn__node *base_node,
                              uint32_t index, const tn_tensor *x,
                              tn__node *node)
{
    struct tn__place part;
    place_of(&part, x);
    tn_tensor *tensor[2] = {stand_in(x, base, base_node, index),
                            stand_in(x, &part, node, 0)};
    tn_tensor *out = stand_in(x, base, NULL, 0);
    tn__node *made = NULL;
    if (tensor[0] && tensor[1] && out)
        made = record(TN__OP_ID_AS_STRIDED_SCATTER, tensor, 2, x, out);
    tn__unref(tensor[0]);
    tn__unref(tensor[1]);
    tn__unref(out);
    return made;
}

/* Makes a node that records x as a view of the base. The caller owns one
 * reference. */
static tn__node *view_of(const tn__history *history, tn_tensor *x)
{
    tn_tensor *base = stand_in(x, &history->base, history->node,
                               history->index);
    tn__node *made =
        base ? record(TN__OP_ID_AS_STRIDED, &base, 1, x, x) : NULL;
    tn__unref(base);
    return made;
}

/* ---- writing and using shared memory ------------------------------------ */

/* Returns whether x contiguously covers all of its storage, so that it can be
 * the base. */
static bool is_whole(const tn_tensor *x)
{
    return x->contiguous && x->offset == 0 &&
           (uint64_t)x->numel * tn_dtype_bytes(x->dtype) == x->storage->bytes;
}

/* Makes the history of x's storage before the first in-place change is
 * recorded. history->node is the node that made the base, or NULL. */
static tn__history *history_new(const tn_tensor *x)
{
    tn__history *history = tn__calloc(1, sizeof *history);
    if (!history)
        return NULL;
    history->dtype = (tn_dtype)x->dtype;
    history->node =
        tn__ref(find_base(x, &history->base, &history->index));
    if (!history->node && !is_whole(x)) {
        /* No recorded call made the base, so its values are constants. Use a
         * 1-d tensor over the whole storage as the base. */
        int64_t count = (int64_t)(x->storage->bytes / tn_dtype_bytes(x->dtype));
        history->base =
            (struct tn__place){.ndim = 1, .shape = {count}, .stride = {1}};
    }
    return history;
}

static tn_status write_shared(tn_tensor *x, tn__node *node)
{
    tn__history *history = tn__history_of(x);
    bool first = !history;
    if (first && !(history = history_new(x)))
        return TN_ERR_MEMORY;
    tn__node *made;
    uint32_t index = 0;
    if (is_place_of(&history->base, x))
        made = tn__ref(node);
    else
        made = scatter_into(&history->base, history->node, history->index, x,
                            node);
    if (!made) {
        if (first)
            tn__history_release(history);
        return TN_ERR_MEMORY;
    }
    tn__unref(history->node);
    history->node = made;
    history->index = index;
    atomic_store_explicit(&history->count, ++last_count,
                          memory_order_relaxed);
    if (first)
        atomic_store_explicit(&x->storage->history, history,
                              memory_order_release);
    return TN_OK;
}

tn_status tn__history_write(tn_tensor *x, tn__node *node)
{
    if (!tn__tensor_is_shared(x)) {
        tn__history *old = atomic_exchange(&x->storage->history, NULL);
        if (old)
            tn__history_release(old);
        return tn__tensor_set_node(x, node, 0);
    }
    tn__lock_take(&lock);
    tn_status status = write_shared(x, node);
    tn__lock_give(&lock);
    return status < 0 ? status : tn__tensor_set_node(x, node, 0);
}

static tn_status set_from(const tn__history *history, tn_tensor *x)
{
    if (is_place_of(&history->base, x))
        return tn__tensor_set_node(x, history->node, history->index);
    tn__node *node = view_of(history, x);
    tn_status status = node ? tn__tensor_set_node(x, node, 0) : TN_ERR_MEMORY;
    tn__unref(node);
    return status;
}

tn_status tn__tensor_refresh(tn_tensor *x)
{
    tn__history *history = tn__history_of(x);
    if (!history || x->dtype != history->dtype ||
        (x->grad && x->grad->seen == tn__history_count(x)))
        return TN_OK;
    if (x->apart) {
        if (!x->grad || !x->grad->node->op)
            return TN_OK;
        return tn__fail(TN_ERR_STATE,
                        "the output of %s was changed in place through another "
                        "tensor that shares its memory, and its gradient does "
                        "not include that: change a tn_clone() of the other "
                        "tensor instead",
                        tn__node_name(x->grad->node));
    }
    tn__lock_take(&lock);
    tn_status status = TN_OK;
    if (!x->grad || x->grad->seen != tn__history_count(x))
        status = set_from(history, x);
    tn__lock_give(&lock);
    return status;
}
