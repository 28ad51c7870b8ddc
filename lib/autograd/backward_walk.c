/* backward_walk.c: runs the backward pass from a root to the leaves.
 *
 * A loop takes the queued node of the latest call, computes the gradients of
 * the call's inputs, adds them to the output gradients of the nodes that made
 * these inputs, and releases the values that the node saved. Leaves come last.
 * Their gradients change only after everything else has succeeded, so a failed
 * backward leaves all gradients as they were. Only leaves with post-accumulate
 * hooks are updated earlier, directly after the last call that contributes to
 * their gradient.
 *
 * A port is an input tensor of a recorded call (autograd.h). */
#include <string.h>
#include <tenon/ops.h>

#include <base/context.h>
#include <base/timeline.h>
#include <device/recorder.h>

#include <autograd/backward.h>

bool tn__walk_captures(void)
{
    return tn__me.captures;
}

/* ---- adding up gradients ------------------------------------------------ */

/* Returns whether x may be overwritten: it is contiguous, and neither it nor
 * its storage has another reference. The reference of a recording does not count:
 * recorded work must be that of a call without a recording, whose bits a sum in
 * place can change (-0 + 0 is 0). */
static bool is_exclusive(const tn_tensor *x)
{
    const int references = atomic_load(&x->storage->references);
    return atomic_load(&x->object.references) == 1 && x->contiguous &&
           (references == 1 ||
            (references == 2 && TN__UNLIKELY(tn__me.recording != NULL) &&
             tn__record_keeps(x->storage)));
}

/* Adds g to *sum, which owns a reference. *sum may be NULL, which means zero.
 * Adds in place if possible. */
static tn_status add_to(struct tn__job *job, tn_tensor **sum, tn_tensor *g)
{
    if (!*sum) {
        *sum = tn__ref(g);
        return TN_OK;
    }
    if (!job->create && is_exclusive(*sum) && (*sum)->dtype == g->dtype)
        return tn_add_(*sum, g) ? TN_OK : tn_error_code();
    tn_tensor *total = tn_add(*sum, g);
    if (!total)
        return tn_error_code();
    tn__unref(*sum);
    *sum = tn__ref(total);
    return TN_OK;
}

/* Returns whether the shape of an input (port) can be broadcast to g's
 * shape. */
static bool broadcasts_to(const tn__port *port, const tn_tensor *g)
{
    int lead = g->ndim - port->ndim;
    for (int d = 0; d < port->ndim && lead >= 0; d++)
        if (port->shape[d] != 1 && port->shape[d] != g->shape[lead + d])
            return false;
    return lead >= 0;
}

static void add_tensor(tn__text *text, int ndim, const int64_t *shape,
                       int dtype, const tn_device *device)
{
    tn__text_add_shape(text, ndim, shape);
    tn__text_add(text, " of %s on %s", tn_dtype_name((tn_dtype)dtype),
                 device->name);
}

/* Records the error that gradient g does not fit the shape, dtype or device of
 * its input (port), which is a bug in a gradient function. Returns NULL. */
static tn_tensor *refuse_gradient(const tn__node *node, const tn__port *port,
                                  const tn_tensor *g)
{
    int p = (int)(port - node->port), i = 0;
    const tn__plan *plan = node->plan;
    if (p < plan->port_count)
        i = plan->port_arg[p];
    tn__text text = {0};
    tn__text_add(&text, "its rule returned a gradient ");
    add_tensor(&text, g->ndim, g->shape, g->dtype, g->storage->device);
    tn__text_add(&text, " for input %d (%s) ", p, node->op->arg[i].name);
    add_tensor(&text, port->ndim, port->shape, port->dtype, port->device);
    tn__text_add(&text, ": a bug in the library, please report it");
    char *message = tn__text_finish(&text);
    if (message)
        tn__fail(TN_ERR_INTERNAL, "%s", message);
    tn__free(message);
    return NULL;
}

/* Converts gradient g to the shape and dtype of its input (port): sums it over
 * broadcast dimensions and converts its dtype. */
static tn_tensor *match_port(const tn__node *node, const tn__port *port,
                             tn_tensor *g)
{
    if (TN__LIKELY(g->dtype == port->dtype &&
                   g->storage->device == port->device &&
                   tn__shape_equal(g->ndim, g->shape, port->ndim, port->shape)))
        return g;
    if (!broadcasts_to(port, g) || g->storage->device != port->device ||
        !tn_dtype_is_floating(g->dtype))
        return refuse_gradient(node, port, g);
    if (!tn__shape_equal(g->ndim, g->shape, port->ndim, port->shape))
        g = tn__sum_to_shape(g, port->ndim, port->shape);
    if (g && g->dtype != port->dtype)
        g = tn_to_dtype(g, port->dtype);
    return g;
}

/* Returns whether the gradient of node is needed. tn_backward needs the
 * gradients of all nodes. tn_grad needs only those of nodes that depend on one
 * of the inputs given to it. */
static bool is_needed(const struct tn__job *job, const tn__node *node)
{
    return !job->input_count || tn__node_set_has(&job->needed, node);
}

static bool any_needed(const struct tn__job *job, const tn__node *node)
{
    for (int p = 0; p < node->port_count; p++)
        if (node->port[p].node && is_needed(job, node->port[p].node))
            return true;
    return false;
}

/* Adds g, the gradient of an input (port), to the gradient of output `index` of
 * the node that made this input. */
static tn_status propagate_to(struct tn__job *job, const tn__node *node,
                              const tn__port *port, uint32_t index,
                              tn_tensor *g)
{
    if (!g || !port->node || !is_needed(job, port->node))
        return TN_OK;
    g = match_port(node, port, g);
    if (!g)
        return tn_error_code();
    tn__slot *slot = tn__walk_slot(&job->walk, port->node);
    return slot ? add_to(job, &slot->g[index], g) : TN_ERR_MEMORY;
}

/* Returns the sum of the gradients that other calls have computed so far for an
 * input (port). Returns NULL if there are none, or if tn_grad does not need the
 * input's gradient. */
static tn_tensor *pending_sum(const struct tn__job *job, const tn__port *port)
{
    if (!port->node || !is_needed(job, port->node))
        return NULL;
    const tn__slot *slot = tn__walk_find(&job->walk, port->node);
    return slot ? slot->g[port->index] : NULL;
}

/* Mask of inputs: bit p of `offered` is set if offer_sums stored a sum in
 * out[p]. Only the first 32 inputs of a call have a bit. */
#define OFFERED_PORTS 32

static bool was_offered(uint32_t offered, int port)
{
    return port < OFFERED_PORTS && offered >> port & 1;
}

/* Lets a gradient function add to existing sums in place: for each input of
 * node whose gradient sum may be overwritten, stores this sum in out[]. Returns
 * the mask of these inputs. This saves memory traffic where many calls use one
 * weight. */
static uint32_t offer_sums(const struct tn__job *job, const tn__node *node,
                           tn_tensor **out)
{
    uint32_t offered = 0;
    for (int p = 0; p < node->port_count && p < OFFERED_PORTS; p++) {
        const tn__port *port = &node->port[p];
        tn_tensor *sum = pending_sum(job, port);
        if (!sum || !is_exclusive(sum) || sum->dtype != port->dtype ||
            !tn__shape_equal(sum->ndim, sum->shape, port->ndim, port->shape))
            continue;
        out[p] = sum;
        offered |= 1u << p;
    }
    return offered;
}

/* Adds the gradients out[] of a node's inputs to the gradient sums of these
 * inputs. If bit p of `offered` is set and out[p] is still the sum that
 * offer_sums stored, the gradient function has added to this sum in place
 * already. */
static tn_status propagate(struct tn__job *job, const tn__node *node,
                           tn_tensor *const *out, uint32_t offered)
{
    tn_status status = TN_OK;
    for (int p = 0; p < node->port_count && status >= 0; p++) {
        const tn__port *port = &node->port[p];
        if (!was_offered(offered, p) || out[p] != pending_sum(job, port))
            status = propagate_to(job, node, port, port->index, out[p]);
    }
    if (status >= 0 && TN__UNLIKELY(out[node->port_count] != NULL))
        status =
            propagate_to(job, node, &node->port[0], 1, out[node->port_count]);
    return status;
}

/* ---- one node ----------------------------------------------------------- */

/* Adds the name of the operator whose gradient failed to the pending error. */
static void name_operator(const tn__node *node)
{
    const char *name = tn__node_name(node);
    tn__error_facts *facts = tn__error_within(tn__me.location.running);
    if (!tn__error_is_from("backward"))
        tn__error_prefix("backward of %s", name);
    if (facts)
        facts->called = name;
    if (!facts || facts->op)
        return;
    facts->op = name;
    const tn__error_mark *mark = tn__error_argument();
    for (int i = 0; mark && node->op && i < node->op->arg_count; i++)
        if (strcmp(node->op->arg[i].name, mark->name) == 0)
            facts->argument = node->op->arg[i].name;
}

#define FEW_PORTS 8

static tn_status run(struct tn__job *job, tn__slot *slot)
{
    tn__node *node = slot->node;
    tn_tensor *few[FEW_PORTS + 1] = {NULL}, **out = few;
    if (node->port_count > FEW_PORTS) {
        out = tn__calloc(node->port_count + 1u, sizeof(tn_tensor *));
        if (!out)
            return TN_ERR_MEMORY;
    }
    tn_status status = TN_ERR_MEMORY;
    const tn_path *path = tn_path_enter(node->made_in);
    tn__span span;
    tn__span_begin(&span);
    tn_scope *scope = tn_scope_open();
    if (scope) {
        uint32_t offered =
            node->plan->adds && !job->create ? offer_sums(job, node, out) : 0;
        const tn__node_set *before = tn__me.walk_asked;
        tn__me.walk_asked = job->input_count ? &job->needed : NULL;
        status = tn__node_run(node, slot->g, out);
        tn__me.walk_asked = before;
        if (status >= 0)
            status = tn__anomaly_check(node, slot->g, out);
        if (status >= 0)
            status = propagate(job, node, out, offered);
        tn_scope_close(scope);
    }
    tn__span_end(&span, "backward", tn__node_name(node), NULL);
    if (status < 0)
        name_operator(node);
    tn_path_enter(path);
    if (out != few)
        tn__free(out);
    if (status >= 0 && !job->retain)
        tn__node_release(node);
    return status;
}

/* ---- gradients of leaves ------------------------------------------------ */

/* Returns the leaf's new gradient: the old one plus the computed one. It is a
 * tensor of its own, which no other leaf and no program variable refers to. The
 * caller owns one reference. */
static tn_tensor *leaf_grad(struct tn__job *job, const struct pending *pending)
{
    tn_tensor *old = pending->leaf->grad, *g = pending->grad;
    if (!old && !job->create && is_exclusive(g))
        return tn__ref(g);
    tn_tensor *grad = old ? tn_add(old, g) : tn_clone(g);
    return tn__ref(grad);
}

/* Updates the gradients of `count` leaves. On failure none of them changes. */
static tn_status commit(struct tn__job *job, const struct pending *leaf,
                        size_t count)
{
    tn_tensor **grad = tn__calloc(count + 1, sizeof(tn_tensor *));
    tn_scope *scope = grad ? tn_scope_open() : NULL;
    tn_status status = scope ? TN_OK : TN_ERR_MEMORY;
    tn__leaf_lock();
    for (size_t i = 0; i < count && status >= 0; i++) {
        grad[i] = leaf_grad(job, &leaf[i]);
        if (!grad[i])
            status = tn_error_code();
    }
    for (size_t i = 0; i < count && status >= 0; i++) {
        if (!atomic_load(&leaf[i].leaf->tensors))
            continue; /* all tensors of this leaf have been freed */
        tn_tensor *old = leaf[i].leaf->grad;
        leaf[i].leaf->grad = grad[i];
        grad[i] = old;
    }
    tn__leaf_unlock();
    for (size_t i = 0; grad && i < count; i++)
        tn__unref(grad[i]);
    tn_scope_close(scope);
    tn__free(grad);
    return status;
}

/* Handles a leaf whose gradient is complete. A leaf with post-accumulate hooks
 * is updated and its hooks run now. For other leaves the gradient is stored
 * until the walk has ended. */
static tn_status reach_leaf(struct tn__job *job, tn__slot *slot)
{
    struct pending pending = {slot->node, slot->g[0]};
    slot->g[0] = NULL;
    if (!pending.grad)
        return TN_OK; /* the leaf was queued because of its hooks, but received
                       * no gradient */
    if (TN__UNLIKELY(tn__hooks_has_post_accumulate(slot->node))) {
        tn_status status = commit(job, &pending, 1);
        tn__unref(pending.grad);
        return status < 0 ? status : tn__hooks_run_post_accumulate(slot->node);
    }
    if (!tn__grow(&job->leaf, &job->leaf_room, job->leaf_count,
                  sizeof *job->leaf)) {
        tn__unref(pending.grad);
        return TN_ERR_MEMORY;
    }
    tn__ref(pending.leaf);
    job->leaf[job->leaf_count++] = pending;
    return TN_OK;
}

/* ---- the walk ----------------------------------------------------------- */

/* In tn_grad, stores the gradients of those inputs given to tn_grad that are
 * outputs of this node. */
static void capture(struct tn__job *job, const tn__slot *slot)
{
    for (int i = 0; i < job->input_count; i++) {
        const tn__grad_meta *meta = job->input[i]->grad;
        if (meta->node == slot->node && slot->g[meta->index])
            job->result[i] = tn__ref(slot->g[meta->index]);
    }
}

static tn_status run_hooks(const struct tn__job *job, tn__slot *slot)
{
    if (TN__LIKELY(!slot->node->hook) || !is_needed(job, slot->node))
        return TN_OK;
    tn_status status = TN_OK;
    const tn_path *path = tn_path_current();
    if (slot->node->op) /* a leaf belongs to no module */
        tn_path_enter(slot->node->made_in);
    for (int o = 0; o < slot->out_count && status >= 0; o++)
        if (slot->g[o])
            status = tn__hooks_run(slot->node, (uint32_t)o, &slot->g[o]);
    tn_path_enter(path);
    return status;
}

static tn_status walk(struct tn__job *job)
{
    tn_status status = TN_OK;
    for (tn__slot *slot; status >= 0 && (slot = tn__walk_next(&job->walk));) {
        status = run_hooks(job, slot);
        if (status >= 0)
            capture(job, slot);
        if (status >= 0 && slot->node->op)
            status = any_needed(job, slot->node) ? run(job, slot) : TN_OK;
        else if (status >= 0 && !job->input_count)
            status = reach_leaf(job, slot);
        tn__slot_free(slot);
    }
    return status;
}

/* ---- before the walk: which nodes lead to which ------------------------- */

static bool is_input(const struct tn__job *job, const tn__node *node)
{
    for (int i = 0; i < job->input_count; i++)
        if (job->input[i]->grad->node == node)
            return true;
    return false;
}

/* Lists root and all nodes that it depends on, latest call first. */
static tn_status list_nodes(tn__node *root, tn__node ***list, size_t *count)
{
    tn__walk walk = {0};
    size_t room = 0;
    bool fits = tn__walk_slot(&walk, root) != NULL;
    for (tn__slot *slot; fits && (slot = tn__walk_next(&walk));) {
        tn__node *node = slot->node; /* root keeps a reference to the node */
        tn__slot_free(slot);
        fits = tn__grow(list, &room, *count, sizeof **list);
        if (fits)
            (*list)[(*count)++] = node;
        for (int p = 0; fits && p < node->port_count; p++)
            if (node->port[p].node)
                fits = tn__walk_slot(&walk, node->port[p].node) != NULL;
    }
    tn__walk_release(&walk);
    return fits ? TN_OK : TN_ERR_MEMORY;
}

/* Stores in job->needed the nodes whose gradients tn_grad needs: the nodes of
 * its inputs, and all nodes that depend on one of them. The earliest calls are
 * visited first, so that a node is visited after all nodes that it depends
 * on. */
static tn_status mark_needed(struct tn__job *job, tn__node *root)
{
    tn__node **list = NULL;
    size_t count = 0;
    tn_status status = list_nodes(root, &list, &count);
    for (size_t i = count; status >= 0 && i-- > 0;)
        if (is_input(job, list[i]) || any_needed(job, list[i]))
            if (!tn__node_set_add(&job->needed, list[i]))
                status = TN_ERR_MEMORY;
    tn__free(list);
    return status;
}

/* Queues each leaf with post-accumulate hooks directly after the last call of
 * the walk that contributes to its gradient. The walk starts with the latest
 * call, so this is the earliest call that uses the leaf. */
static tn_status queue_hooked(struct tn__job *job, tn__node *root)
{
    tn__node **list = NULL;
    size_t count = 0;
    tn_status status = list_nodes(root, &list, &count);
    for (size_t i = count; status >= 0 && i-- > 0;)
        for (int p = 0; p < list[i]->port_count && status >= 0; p++) {
            tn__node *leaf = list[i]->port[p].node;
            if (leaf && !leaf->op && tn__hooks_has_post_accumulate(leaf) &&
                !tn__walk_slot_after(&job->walk, leaf, list[i]))
                status = TN_ERR_MEMORY;
        }
    tn__free(list);
    return status;
}

/* ---- a whole job -------------------------------------------------------- */

/* Sets the root's gradient and runs the walk. */
static tn_status seed_and_walk(struct tn__job *job, tn_tensor *root,
                               tn_tensor *gradient)
{
    /* Without create_graph, `gradient` is detached. If it required a gradient,
     * gradient functions would have to use operators that can be
     * differentiated, which are slower than fused kernels. */
    if (!gradient)
        gradient = tn_ones_like(root);
    else if (!job->create && tn__tensor_tracks(gradient))
        gradient = tn_detach(gradient);
    if (!gradient)
        return tn_error_code();
    tn__slot *slot = tn__walk_slot(&job->walk, root->grad->node);
    if (!slot)
        return TN_ERR_MEMORY;
    slot->g[root->grad->index] = tn__ref(gradient);
    return walk(job);
}

tn_status tn__job_run(struct tn__job *job, tn_tensor *root, tn_tensor *gradient)
{
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    bool mode = tn_grad_mode_set(job->create), captured = tn__me.captures;
    tn__me.captures = job->input_count > 0;
    /* Autocast is off during backward: gradients are computed in the dtypes of
     * the forward calls. Autocast's cache of converted parameters is cleared,
     * because this walk may release the nodes of the cached tensors. */
    tn_dtype autocast = tn__autocast_swap(TN_DTYPE_NONE);
    tn__autocast_forget();
    bool watched = tn__anomaly_begin();
    tn_status status = TN_OK;
    if (job->input_count)
        status = mark_needed(job, root->grad->node);
    else if (tn__hooks_any_post_accumulate())
        status = queue_hooked(job, root->grad->node);
    if (status >= 0)
        status = seed_and_walk(job, root, gradient);
    tn_scope_close(scope); /* before commit, so that the scope's references do
                              not make is_exclusive return false */
    if (status >= 0 && !job->input_count)
        status = commit(job, job->leaf, job->leaf_count);
    tn_grad_mode_set(mode);
    tn__me.captures = captured;
    tn__autocast_swap(autocast);
    tn__anomaly_end(watched);
    tn__walk_release(&job->walk);
    tn__node_set_release(&job->needed);
    for (size_t i = 0; i < job->leaf_count; i++) {
        tn__unref(job->leaf[i].leaf);
        tn__unref(job->leaf[i].grad);
    }
    tn__free(job->leaf);
    return status;
}
