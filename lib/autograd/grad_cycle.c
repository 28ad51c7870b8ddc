/* grad_cycle.c: rejects a gradient that would own a reference to its own
 * tensor, because such a reference cycle could never be freed.
 *
 * A tensor owns its gradient. A gradient with a graph owns the nodes of that
 * graph. The node of a leaf owns the leaf's gradient, and any node owns the
 * gradients that its hooks retain. The search follows these references and
 * fails if they lead back to the tensor. If the graph only reaches the tensor's
 * node, as with create_graph, there is no such cycle: the node releases its
 * gradient when the tensor is freed. */
#include <autograd/node.h>
#include <autograd/walk.h>

typedef struct search {
    const tn_tensor *x;
    tn__node_set seen;
    const tn__node **todo; /* nodes still to be searched; this array is owned */
    size_t count, room;
    bool found;
} search;

static bool visit_node(search *s, const tn__node *node)
{
    if (!node || tn__node_set_has(&s->seen, node))
        return true;
    if (!tn__node_set_add(&s->seen, node) ||
        !tn__grow(&s->todo, &s->room, s->count, sizeof *s->todo))
        return false;
    s->todo[s->count++] = node;
    return true;
}

static bool visit_tensor(search *s, const tn_tensor *t)
{
    s->found |= t == s->x;
    return !t || !t->grad || visit_node(s, t->grad->node);
}

static bool expand(search *s, const tn__node *node)
{
    bool fine = node->op || visit_tensor(s, node->grad);
    for (int i = 0; fine && node->hook; i++) {
        const tn_tensor *kept = tn__hooks_retained_grad(node, i);
        if (!kept)
            break;
        fine = visit_tensor(s, kept);
    }
    int ports = node->op ? node->port_count + node->out_count +
                               node->save_count
                         : 0;
    for (int i = 0; fine && i < ports; i++)
        fine = visit_node(s, node->port[i].node);
    return fine;
}

tn_status tn__grad_check_cycle(tn_tensor *x, tn_tensor *grad)
{
    search s = {.x = x};
    if (!grad->grad && grad != x)
        return TN_OK;
    bool fine = visit_tensor(&s, grad);
    while (fine && !s.found && s.count)
        fine = expand(&s, s.todo[--s.count]);
    tn__free(s.todo);
    tn__node_set_release(&s.seen);
    if (!fine)
        return TN_ERR_MEMORY;
    return !s.found
               ? TN_OK
               : tn__fail(TN_ERR_STATE,
                          "set_grad: grad %s, so that no scope could free "
                          "either: set tn_clone(tn_detach(grad))",
                          grad == x ? "is x itself"
                                    : "holds x, by a gradient stored in its "
                                      "graph");
}
