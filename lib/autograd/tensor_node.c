/* tensor_node.c: connects a tensor with the graph node whose output it is. */
#include <autograd/history.h>
#include <autograd/node.h>

static tn__pool meta_pool = {"grad meta", sizeof(tn__grad_meta), 0};

/* Releases a tensor's reference to node. When the last tensor of a leaf is
 * released, frees the leaf's gradient, even if a graph still refers to the
 * leaf's node. */
static void release_tensor_node(tn__node *node)
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
    release_tensor_node(old);
    return TN_OK;
}

void tn__grad_meta_release(tn__grad_meta *meta)
{
    if (meta->node->hook)
        tn__hooks_forget(meta->node, meta);
    if (meta->retained)
        tn__hook_forget_retained(meta->retained);
    tn__unref(meta->retained);
    release_tensor_node(meta->node);
    tn__pool_give(&meta_pool, meta);
}
