/* node.c: allocates and frees graph nodes.
 *
 * A node is one block of memory: the struct, then its ports, shapes, parameters
 * and copies of attributes. Blocks come from pools of a few sizes, because each
 * recorded call allocates one. */
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
        tn__saved_value_release(&node->port[i].saved);
}

static void free_block(tn__node *node)
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
    free_block(node);
}

static const tn__class node_class = {.name = "gradient node",
                                     .destroy = node_destroy};

tn__node *tn__node_alloc(size_t bytes)
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
    /* The node's sequence number is 0, so that backward reaches it after all
     * calls. */
    return tn__node_alloc(sizeof(tn__node));
}

const char *tn__node_name(const tn__node *node)
{
    return node->op ? node->op->name : "leaf";
}
