/* backward.c: the walk from a root to the leaves.
 *
 * One loop: take the pending node of the greatest sequence, run its gradient
 * inside a scope of its own, hand the results to the nodes of its inputs, give
 * back what it saved. Leaves come last (their sequence is 0) and are only
 * changed when everything before has succeeded: a failed backward leaves all
 * gradients as they were. Only leaves for which a hook waits come sooner, right
 * behind the last call that adds to them. */
#include <string.h>
#include <tenon/ops.h>

#include <base/context.h>
#include <base/timeline.h>

#include <autograd/walk.h>

/* What one call of tn_backward or tn_grad is about. */
struct job {
    bool retain, create;
    tn__walk walk;
    /* tn_grad: */
    tn_tensor *const *input;
    int input_count;
    tn_tensor **result;        /* of each input, counted */
    tn__node_set needed;       /* nodes on a way to an input */
    /* tn_backward: leaves reached, to be committed at the end */
    struct pending {
        tn__node *leaf;        /* counted */
        tn_tensor *grad;       /* counted */
    } *leaf;
    size_t leaf_count, leaf_room;
};


bool tn__walk_captures(void)
{
    return tn__me.captures;
}

/* ---- adding up ---------------------------------------------------------- */

/* May x be written? Nobody else holds it or its memory. */
static bool is_ours(const tn_tensor *x)
{
    return atomic_load(&x->object.references) == 1 &&
           atomic_load(&x->storage->references) == 1 && x->contiguous;
}

/* Adds g (counted here when kept) to *sum. */
static tn_status add_to(struct job *job, tn_tensor **sum, tn_tensor *g)
{
    if (!*sum) {
        *sum = tn__ref(g);
        return TN_OK;
    }
    if (!job->create && is_ours(*sum) && (*sum)->dtype == g->dtype)
        return tn_add_(*sum, g) ? TN_OK : tn_error_code();
    tn_tensor *total = tn_add(*sum, g);
    if (!total)
        return tn_error_code();
    tn__unref(*sum);
    *sum = tn__ref(total);
    return TN_OK;
}

/* Does the port's shape broadcast to g's? */
static bool spans(const tn__port *port, const tn_tensor *g)
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

/* A gradient rule of the library's that is wrong: nothing may be made of it. */
static tn_tensor *refuse_gradient(const tn__node *node, const tn__port *port,
                                  const tn_tensor *g)
{
    int p = (int)(port - node->port), i = 0;
    const tn__plan *plan = node->plan;
    if (p < plan->port_count)
        i = plan->port_arg[p];
    tn__text text = {0};
    tn__text_add(&text, "its rule gives a gradient ");
    add_tensor(&text, g->ndim, g->shape, g->dtype, g->storage->device);
    tn__text_add(&text, " for input %d (%s) ", p, node->op->arg[i].name);
    add_tensor(&text, port->ndim, port->shape, port->dtype, port->device);
    tn__text_add(&text, ": a fault of the library, please report it");
    char *message = tn__text_finish(&text);
    if (message)
        tn__fail(TN_ERR_INTERNAL, "%s", message);
    tn__free(message);
    return NULL;
}

/* g as the tensor at the other end of the edge would have it. */
static tn_tensor *fit(const tn__node *node, const tn__port *port, tn_tensor *g)
{
    if (TN__LIKELY(g->dtype == port->dtype &&
                   g->storage->device == port->device &&
                   tn__shape_equal(g->ndim, g->shape, port->ndim,
                                   port->shape)))
        return g;
    if (!spans(port, g) || g->storage->device != port->device ||
        !tn_dtype_is_floating(g->dtype))
        return refuse_gradient(node, port, g);
    if (!tn__shape_equal(g->ndim, g->shape, port->ndim, port->shape))
        g = tn__sum_to_shape(g, port->ndim, port->shape);
    if (g && g->dtype != port->dtype)
        g = tn_to_dtype(g, port->dtype);
    return g;
}

/* Does a way from node lead to what is asked for? */
static bool is_needed(const struct job *job, const tn__node *node)
{
    return !job->input_count || tn__node_set_has(&job->needed, node);
}

static bool any_needed(const struct job *job, const tn__node *node)
{
    for (int p = 0; p < node->port_count; p++)
        if (node->port[p].node && is_needed(job, node->port[p].node))
            return true;
    return false;
}

/* Hands g on to the maker of a port's tensor, for this output of it. */
static tn_status hand_on(struct job *job, const tn__node *node,
                         const tn__port *port, uint32_t index, tn_tensor *g)
{
    if (!g || !port->node || !is_needed(job, port->node))
        return TN_OK;
    g = fit(node, port, g);
    if (!g)
        return tn_error_code();
    tn__slot *slot = tn__walk_slot(&job->walk, port->node);
    return slot ? add_to(job, &slot->g[index], g) : TN_ERR_MEMORY;
}

/* What has come to a port's tensor; NULL: nothing, or it is not asked for. */
static tn_tensor *sum_so_far(const struct job *job, const tn__port *port)
{
    if (!port->node || !is_needed(job, port->node))
        return NULL;
    const tn__slot *slot = tn__walk_find(&job->walk, port->node);
    return slot ? slot->g[port->index] : NULL;
}

/* offered: a bit for each of a node's first ports, as many as it can name. */
#define OFFERED_PORTS 32

static bool was_offered(uint32_t offered, int port)
{
    return port < OFFERED_PORTS && offered >> port & 1;
}

/* Puts into out, for a gradient that adds to it, what has come to the inputs of
 * the node so far and may be written: a weight that many calls use would have as
 * many gradients stored and read again. Tells for which. */
static uint32_t offer_sums(const struct job *job, const tn__node *node,
                           tn_tensor **out)
{
    uint32_t offered = 0;
    for (int p = 0; p < node->port_count && p < OFFERED_PORTS; p++) {
        const tn__port *port = &node->port[p];
        tn_tensor *sum = sum_so_far(job, port);
        if (!sum || !is_ours(sum) || sum->dtype != port->dtype ||
            !tn__shape_equal(sum->ndim, sum->shape, port->ndim, port->shape))
            continue;
        out[p] = sum;
        offered |= 1u << p;
    }
    return offered;
}

/* Hands the results of a node on to those of its inputs. offered: to the sums
 * of which ports the results may already have been added. */
static tn_status deliver(struct job *job, const tn__node *node,
                         tn_tensor *const *out, uint32_t offered)
{
    tn_status status = TN_OK;
    for (int p = 0; p < node->port_count && status >= 0; p++) {
        const tn__port *port = &node->port[p];
        if (!was_offered(offered, p) || out[p] != sum_so_far(job, port))
            status = hand_on(job, node, port, port->index, out[p]);
    }
    if (status >= 0 && TN__UNLIKELY(out[node->port_count] != NULL))
        status = hand_on(job, node, &node->port[0], 1,
                         out[node->port_count]);
    return status;
}

/* ---- one node ----------------------------------------------------------- */

/* The error is about the gradient of an operator that the program called. */
static void tell(const tn__node *node)
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

static tn_status run(struct job *job, tn__slot *slot)
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
        uint32_t offered = node->plan->adds && !job->create
                               ? offer_sums(job, node, out)
                               : 0;
        const tn__node_set *before = tn__me.walk_asked;
        tn__me.walk_asked = job->input_count ? &job->needed : NULL;
        status = tn__node_run(node, slot->g, out);
        tn__me.walk_asked = before;
        if (status >= 0)
            status = tn__anomaly_check(node, slot->g, out);
        if (status >= 0)
            status = deliver(job, node, out, offered);
        tn_scope_close(scope);
    }
    tn__span_end(&span, "backward", tn__node_name(node), NULL);
    if (status < 0)
        tell(node);
    tn_path_enter(path);
    if (out != few)
        tn__free(out);
    if (status >= 0 && !job->retain)
        tn__node_release(node);
    return status;
}

/* ---- gradients of leaves ------------------------------------------------ */

/* What the leaf is to have: a tensor of its own, not one that its fellow input
 * or the caller also holds. One reference, the caller's. */
static tn_tensor *leaf_grad(struct job *job, const struct pending *pending)
{
    tn_tensor *old = pending->leaf->grad, *g = pending->grad;
    if (!old && !job->create && is_ours(g))
        return tn__ref(g);
    tn_tensor *grad = old ? tn_add(old, g) : tn_clone(g);
    return tn__ref(grad);
}

/* All leaves get theirs, or none. */
static tn_status commit(struct job *job, const struct pending *leaf,
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
            continue; /* nobody is left to ask for it */
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

/* A leaf whose gradient is whole: its hooks want it now, or it waits for the
 * others. */
static tn_status reach_leaf(struct job *job, tn__slot *slot)
{
    struct pending pending = {slot->node, slot->g[0]};
    slot->g[0] = NULL;
    if (!pending.grad)
        return TN_OK; /* queued for its hooks, and nothing came */
    if (TN__UNLIKELY(tn__hooks_wait(slot->node))) {
        tn_status status = commit(job, &pending, 1);
        tn__unref(pending.grad);
        return status < 0 ? status : tn__hooks_accumulated(slot->node);
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

/* tn_grad: keeps the cotangents of its inputs. */
static void capture(struct job *job, const tn__slot *slot)
{
    for (int i = 0; i < job->input_count; i++) {
        const tn__grad_meta *meta = job->input[i]->grad;
        if (meta->node == slot->node && slot->g[meta->index])
            job->result[i] = tn__ref(slot->g[meta->index]);
    }
}

static tn_status run_hooks(const struct job *job, tn__slot *slot)
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

static tn_status walk(struct job *job)
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

/* ---- before the walk: which nodes lead where ------------------------------ */

static bool is_input(const struct job *job, const tn__node *node)
{
    for (int i = 0; i < job->input_count; i++)
        if (job->input[i]->grad->node == node)
            return true;
    return false;
}

/* All nodes below root, in falling sequence. */
static tn_status list_nodes(tn__node *root, tn__node ***list, size_t *count)
{
    tn__walk walk = {0};
    size_t room = 0;
    bool fits = tn__walk_slot(&walk, root) != NULL;
    for (tn__slot *slot; fits && (slot = tn__walk_next(&walk));) {
        tn__node *node = slot->node; /* root holds it */
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

/* From the leaves up: a node is needed if it is an input's, or leads to one
 * that is. */
static tn_status mark_needed(struct job *job, tn__node *root)
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

/* Queues the leaves for which hooks wait, each behind the last call that leads
 * to it: the first one met in rising sequence. */
static tn_status queue_hooked(struct job *job, tn__node *root)
{
    tn__node **list = NULL;
    size_t count = 0;
    tn_status status = list_nodes(root, &list, &count);
    for (size_t i = count; status >= 0 && i-- > 0;)
        for (int p = 0; p < list[i]->port_count && status >= 0; p++) {
            tn__node *leaf = list[i]->port[p].node;
            if (leaf && !leaf->op && tn__hooks_wait(leaf) &&
                !tn__walk_slot_behind(&job->walk, leaf, list[i]))
                status = TN_ERR_MEMORY;
        }
    tn__free(list);
    return status;
}

/* ---- the two calls ------------------------------------------------------ */

static tn_status clash(const char *name, const tn_tensor *gradient,
                       const tn_tensor *root)
{
    tn__text text = {0};
    tn__text_add(&text, "{gradient} is ");
    tn__text_add(&text, "%s ", tn_dtype_name(gradient->dtype));
    tn__text_add_shape(&text, gradient->ndim, gradient->shape);
    tn__text_add(&text, " on %s, {root} %s ", gradient->storage->device->name,
                 tn_dtype_name(root->dtype));
    tn__text_add_shape(&text, root->ndim, root->shape);
    tn__text_add(&text, " on %s: they must be alike",
                 root->storage->device->name);
    char *message = tn__text_finish(&text);
    tn_status code = gradient->storage->device != root->storage->device
                         ? TN_ERR_DEVICE
                     : gradient->dtype != root->dtype ? TN_ERR_DTYPE
                                                      : TN_ERR_SHAPE;
    if (message)
        tn__fail_marked(code, name, message);
    tn__free(message);
    return tn_error_code();
}

/* May the walk start here? */
static tn_status check_root(const char *name, tn_tensor *root,
                            const tn_tensor *gradient)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (!tn__tensor_check(root, name, "root") ||
        (gradient && !tn__tensor_check(gradient, name, "gradient")))
        return tn_error_code();
    if (tn__tensor_refresh(root) < 0)
        return tn_error_code();
    if (!root->requires_grad)
        return tn__fail(TN_ERR_STATE,
                        "%s: {root} does not require a gradient: none of the "
                        "tensors it was made from does, or it was made while "
                        "recording was off",
                        name);
    if (gradient &&
        (!tn__shape_equal(gradient->ndim, gradient->shape, root->ndim,
                          root->shape) ||
         gradient->dtype != root->dtype ||
         gradient->storage->device != root->storage->device))
        return clash(name, gradient, root);
    if (!gradient && root->numel != 1) {
        tn__text text = {0};
        tn__text_add_shape(&text, root->ndim, root->shape);
        char *shape = tn__text_finish(&text);
        if (shape)
            tn__fail(TN_ERR_SHAPE,
                     "%s: {root} has shape %s and no gradient is given: reduce "
                     "it to one element (tn_sum, tn_mean), or pass .gradient",
                     name, shape);
        tn__free(shape);
        return tn_error_code();
    }
    return TN_OK;
}

/* Puts the root's cotangent in place and walks. */
static tn_status start(struct job *job, tn_tensor *root, tn_tensor *gradient)
{
    /* Whoever wants no graph of the gradients has none of this one's, either: it
     * would keep rules from kernels that have no derivative. */
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

static tn_status run_job(struct job *job, tn_tensor *root, tn_tensor *gradient)
{
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    bool mode = tn_grad_mode_set(job->create), captured = tn__me.captures;
    tn__me.captures = job->input_count > 0;
    /* Gradients have the dtypes of the calls. What was stored of parameters
     * has nodes that this walk may use up. */
    tn_dtype autocast = tn__autocast_swap(TN_DTYPE_NONE);
    tn__autocast_forget();
    bool watched = tn__anomaly_begin();
    tn_status status = TN_OK;
    if (job->input_count)
        status = mark_needed(job, root->grad->node);
    else if (tn__hooks_any_wait())
        status = queue_hooked(job, root->grad->node);
    if (status >= 0)
        status = start(job, root, gradient);
    tn_scope_close(scope); /* before commit: is_ours looks at the counts */
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

TN_OPTIONS_TYPE(tn_backward, "backward", "root", TN_BACKWARD_OPTIONS_LIST)

tn_status tn_backward_with(tn_tensor *root, const tn_backward_options *options)
{
    tn_backward_options o;
    if (tn_options_take(tn_backward_type(), &o, options) < 0)
        return TN_ERR_ARGUMENT;
    tn_status status = check_root("backward", root, o.gradient);
    if (status < 0)
        return status;
    struct job job = {.retain = o.retain_graph || o.create_graph,
                      .create = o.create_graph};
    tn__span span;
    tn__span_begin(&span);
    status = run_job(&job, root, o.gradient);
    tn__span_end(&span, "range", "backward", NULL);
    return status;
}

/* Do elements of x share memory, as those of a gradient that was spread? */
static bool is_spread(const tn_tensor *x)
{
    for (int d = 0; d < x->ndim; d++)
        if (x->stride[d] == 0 && x->shape[d] > 1)
            return true;
    return false;
}

/* A result belongs to the open scope, and to it alone: what another scope or
 * the caller owns already is given as a second tensor over the same view. Each
 * of its elements can be written. */
static tn_tensor *hand_out(tn_tensor *result)
{
    if (is_spread(result)) {
        tn_tensor *whole = tn_contiguous(result);
        tn__unref(result);
        return whole;
    }
    if (!atomic_load(&result->object.owner))
        return tn__scope_own(result);
    tn_tensor *twin = tn__tensor_alias(result);
    if (twin && result->requires_grad && result->grad &&
        tn__tensor_set_node(twin, result->grad->node, result->grad->index) <
            0) {
        tn__unref(twin);
        twin = NULL;
    }
    tn__unref(result);
    return twin ? tn__scope_own(twin) : NULL;
}

static tn_status check_inputs(tn_tensor *const *input, int count)
{
    for (int i = 0; i < count; i++) {
        char argument[32];
        snprintf(argument, sizeof argument, "inputs[%d]", i);
        if (!tn__tensor_check(input[i], "grad", argument))
            return tn_error_code();
        if (tn__tensor_refresh(input[i]) < 0)
            return tn_error_code();
        if (!input[i]->requires_grad)
            return tn__fail(TN_ERR_STATE,
                            "grad: {inputs:input} %d does not require a "
                            "gradient: mark it with tn_requires_grad() before "
                            "it is used", i);
    }
    return TN_OK;
}

/* Takes the references of all results, on failure too. */
static tn_status hand_out_all(struct job *job, tn_tensor **out,
                              bool allow_unused)
{
    tn_status status = TN_OK;
    for (int i = 0; i < job->input_count && status >= 0; i++)
        if (!job->result[i] && !allow_unused)
            status = tn__fail(TN_ERR_STATE,
                              "grad: {inputs:input} %d was not used to make "
                              "{root}: pass .allow_unused = true to get NULL "
                              "for it", i);
    for (int i = 0; i < job->input_count; i++) {
        tn_tensor *result = job->result[i];
        if (!result)
            continue;
        job->result[i] = status >= 0 ? hand_out(result) : NULL;
        if (status < 0)
            tn__unref(result);
        else if (!job->result[i])
            status = TN_ERR_MEMORY;
    }
    if (status >= 0)
        memcpy(out, job->result,
               (size_t)job->input_count * sizeof(tn_tensor *));
    return status;
}

TN_OPTIONS_TYPE(tn_grad, "grad", "root, inputs, count, out",
                TN_GRAD_OPTIONS_LIST)

tn_status tn_grad_with(tn_tensor *root, tn_tensor *const *inputs, int count,
                       tn_tensor **out, const tn_grad_options *options)
{
    tn_grad_options o;
    if (tn_options_take(tn_grad_type(), &o, options) < 0)
        return TN_ERR_ARGUMENT;
    tn_status status = check_root("grad", root, o.gradient);
    if (status < 0)
        return status;
    if (!inputs || !out)
        return tn__fail(TN_ERR_ARGUMENT, "grad: {%s} is NULL",
                        inputs ? "out" : "inputs");
    if (count < 1)
        return tn__fail(TN_ERR_ARGUMENT,
                        "grad: {count:}%d inputs: at least one is needed",
                        count);
    if (check_inputs(inputs, count) < 0)
        return tn_error_code();
    struct job job = {.retain = o.retain_graph || o.create_graph,
                      .create = o.create_graph,
                      .input = inputs,
                      .input_count = count};
    job.result = tn__calloc((size_t)count, sizeof(tn_tensor *));
    if (!job.result)
        return TN_ERR_MEMORY;
    status = run_job(&job, root, o.gradient);
    if (status >= 0)
        status = hand_out_all(&job, out, o.allow_unused);
    else
        for (int i = 0; i < count; i++)
            tn__unref(job.result[i]);
    tn__free(job.result);
    return status;
}
