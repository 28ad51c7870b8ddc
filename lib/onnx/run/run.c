/* run.c: runs the nodes of a graph. Nodes call Tenon's operators, so gradients
 * are recorded as usual. If all inputs of a node are on the host, the node runs
 * there: this is how the arithmetic of shapes avoids the device. A value is
 * freed after the last node that uses it. */
#include <base/library_lock.h>
#include <onnx/run/shape_cache.h>

#include <stdlib.h>
#include <string.h>
#include <tenon/trace.h>

/* ---- values -------------------------------------------------------------- */

static void clear(tn__onnx_value *v)
{
    if (!v->lends_device)
        tn_drop(v->device);
    if (!v->lends_host)
        tn_drop(v->host);
    *v = (tn__onnx_value){0};
}

tn__onnx_value tn__onnx_lend(const tn__onnx_run *run, tn_tensor *x, int type)
{
    tn__onnx_value v = {.type = type, .lends_device = true, .lends_host = true};
    tn_device *device = tn_tensor_device(x);
    v.host = device == run->host ? x : NULL;
    v.device = device == run->device ? x : NULL;
    return v;
}

/* Stores a result in a slot. The open scope owns the result. */
static void take(const tn__onnx_run *run, tn__onnx_value *v, tn_tensor *x)
{
    tn_device *device = tn_tensor_device(x);
    if (device == run->device)
        v->device = tn_keep(x);
    if (device == run->host)
        v->host = tn_keep(x);
}

/* Returns v on the device of the run. Copies it there if it is on the host. */
static tn_tensor *on_device(tn__onnx_run *run, const tn__onnx_graph *g,
                            int slot, tn__onnx_value *v)
{
    if (v->device && tn_tensor_device(v->device) == run->device)
        return v->device;
    tn_tensor *x = NULL;
    TN_SCOPE(scope) {
        x = tn_keep(tn_to(tn__onnx_tensor_of(v), run->device));
    }
    if (!x)
        return NULL;
    /* constants and recorded results are copied to the device once, for all
     * runs */
    tn__onnx_value *own = &g->value[slot];
    if (run->cached && !g->parent && own->host != v->host)
        own = &run->cached->value[slot];
    const bool shared = own->host && own->host == v->host;
    if (shared && run->device == run->model->device) {
        tn__library_lock();
        if (!own->device)
            own->device = x;
        const bool stored = own->device == x;
        tn__library_unlock();
        v->device = x;
        v->lends_device = stored;
        return x;
    }
    if (!v->lends_device)
        tn_drop(v->device);
    v->device = x;
    v->lends_device = false;
    return x;
}

tn__onnx_value *tn__onnx_slots_new(tn__onnx_run *run, const tn__onnx_graph *g)
{
    tn__onnx_value *slot =
        malloc(((size_t)g->slot_count + 1) * sizeof *slot);
    if (!slot) {
        tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
        return NULL;
    }
    tn__library_lock();
    memcpy(slot, g->value, (size_t)g->slot_count * sizeof *slot);
    tn__library_unlock();
    const tn__onnx_shape_cache *cached = g->parent ? NULL : run->cached;
    for (int i = 0; i < g->slot_count; i++) {
        if (cached && cached->value[i].type)
            slot[i] = cached->value[i];
        slot[i].lends_device = slot[i].lends_host = true;
    }
    for (int i = 0; i < g->constant_count; i++) {
        const tn__onnx_constant *c = &g->constant[i];
        if (c->parameter >= 0 && run->weight) {
            const int type = slot[c->slot].type;
            slot[c->slot] = tn__onnx_lend(run, run->weight[c->parameter], type);
            slot[c->slot].fixed_shape = true;
        }
    }
    return slot;
}

void tn__onnx_slots_free(const tn__onnx_graph *g, tn__onnx_value *slot)
{
    for (int i = 0; i < g->slot_count && slot; i++)
        clear(&slot[i]);
    free(slot);
}

/* ---- a node -------------------------------------------------------------- */

enum { FEW = 16 }; /* at most this many inputs and outputs need no allocation */

typedef struct io {
    tn_tensor **x, **y;
    int *x_type, *y_type;
    tn__onnx_value **value;
    tn_tensor *few[2 * FEW];
    int few_types[2 * FEW];
    tn__onnx_value *few_values[FEW];
    void *memory;
} io;

static bool io_init(io *at, int in, int out)
{
    memset(at->few, 0, sizeof at->few);
    memset(at->few_types, 0, sizeof at->few_types);
    at->memory = NULL;
    at->x = at->few;
    at->y = at->few + FEW;
    at->x_type = at->few_types;
    at->y_type = at->few_types + FEW;
    at->value = at->few_values;
    if (in <= FEW && out <= FEW)
        return true;
    const size_t n = (size_t)in + (size_t)out;
    char *memory = calloc(n, 3 * sizeof(void *));
    at->memory = memory;
    if (!memory) {
        tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
        return false;
    }
    at->x = (tn_tensor **)(void *)memory;
    at->y = at->x + in;
    at->value = (tn__onnx_value **)(void *)(at->x + n);
    at->x_type = (int *)(void *)(at->x + 2 * n);
    at->y_type = at->x_type + in;
    return true;
}

static void name_error(const tn__onnx_node *n)
{
    if (*n->name)
        tn_error_prefix("%s \"%.60s\"", n->op, n->name);
    else
        tn_error_prefix("%s", n->op);
}

/* Stores the results of a node in its output slots. */
static bool store(tn__onnx_run *run, const tn__onnx_graph *g,
                  tn__onnx_value *slot, tn__onnx_call *c, bool fixed,
                  bool fixed_shape)
{
    const tn__onnx_node *n = c->node;
    for (int i = 0; i < n->out_count; i++) {
        if (n->out[i] < 0)
            continue;
        if (!c->y[i] && !tn_error()) {
            /* an optional result may be missing if nothing uses it */
            if (i > 0 && !g->slot_used[n->out[i]])
                continue;
            tn__onnx_refuse(c, TN_ERR_UNSUPPORTED,
                            "output %d of this operator is not supported", i);
        }
        if (tn_error())
            return false;
        tn_tensor *y = c->y[i];
        int type = c->y_type[i];
        if (!type)
            type = c->in_count > 0 && c->x[0] &&
                           tn_tensor_dtype(c->x[0]) == tn_tensor_dtype(y)
                       ? c->x_type[0]
                       : tn__onnx_type_from_dtype(tn_tensor_dtype(y));
        if (n->row->wraps)
            y = tn__onnx_wrap(y, type);
        tn__onnx_value *v = &slot[n->out[i]];
        *v = (tn__onnx_value){
            .type = type, .fixed = fixed, .fixed_shape = fixed_shape};
        take(run, v, y);
        if (!tn__onnx_tensor_of(v))
            return false;
    }
    return true;
}

static bool run_node(tn__onnx_run *run, const tn__onnx_graph *g,
                     tn__onnx_value *slot, const tn__onnx_node *n)
{
    io at;
    const int all = n->in_count + n->capture_count;
    if (!io_init(&at, all, n->out_count))
        return false;
    bool fixed = !n->row->random, fixed_shape = !n->row->by_data,
         on_host = run->host != run->device && n->in_count > 0;
    for (int i = 0; i < all; i++) {
        tn__onnx_value *v = n->in[i] >= 0 ? &slot[n->in[i]] : NULL;
        at.value[i] = v;
        if (!v)
            continue;
        fixed = fixed && (n->row->of_shape ? v->fixed_shape : v->fixed);
        fixed_shape = fixed_shape && v->fixed_shape;
        on_host = on_host && i < n->in_count && v->host;
        at.x_type[i] = v->type;
    }
    tn_scope *scope = tn_scope_open();
    bool fine = scope != NULL;
    for (int i = 0; i < n->in_count && fine; i++) {
        tn__onnx_value *v = at.value[i];
        if (!v)
            continue;
        /* inputs that the function reads on the host need no copy on the
         * device */
        const bool host =
            on_host || (i < 32 && n->row->host >> i & 1 && v->host);
        at.x[i] = host ? v->host : on_device(run, g, n->in[i], v);
        fine = at.x[i] != NULL;
    }
    if (run->host != run->device)
        tn_device_set(on_host ? run->host : run->device);
    tn__onnx_call c = {
        .node = n, .attr = n->attr, .in_count = n->in_count,
        .out_count = n->out_count, .x = at.x, .x_type = at.x_type, .y = at.y,
        .y_type = at.y_type, .device = on_host ? run->host : run->device,
        .training = run->training, .folds = run->folds, .run = run,
        .value = at.value};
    if (fine)
        n->row->run(&c);
    fine = fine && !tn_error() &&
           store(run, g, slot, &c, fixed, fixed_shape && !c.reads);
    if (!fine && !run->folds)
        name_error(n);
    if (fine && run->observe) {
        const tn_onnx_node_info info = {
            .size = sizeof info, .name = n->name, .op = n->op,
            .domain = n->domain, .output = n->out_name,
            .output_count = n->out_count};
        for (int i = 0; i < n->out_count; i++)
            at.y[i] = n->out[i] < 0 ? NULL
                                    : tn__onnx_tensor_of(&slot[n->out[i]]);
        run->observe(&info, at.y, run->context);
    }
    tn_scope_close(scope);
    free(at.memory);
    return fine;
}

bool tn__onnx_run_graph(tn__onnx_run *run, const tn__onnx_graph *g,
                        tn__onnx_value *slot)
{
    tn__onnx_shape_cache *record = g->parent ? NULL : run->record;
    const tn__onnx_shape_cache *cached = g->parent ? NULL : run->cached;
    for (int i = 0; i < g->node_count; i++) {
        const tn__onnx_node *n = &g->node[i];
        if (n->is_folded)
            continue;
        if (!cached || !cached->skip[i]) {
            tn_trace_push(*n->name ? n->name : n->op);
            const bool fine = run_node(run, g, slot, n);
            tn_trace_pop();
            if (!fine)
                return false;
        }
        if (record)
            tn__onnx_shape_cache_add(record, n, i, slot);
        for (int j = 0; j < n->dead_count; j++)
            clear(&slot[n->dead[j]]);
    }
    return true;
}

/* ---- subgraphs ----------------------------------------------------------- */

bool tn__onnx_iterate(tn__onnx_call *c)
{
    if (c->run->iterations-- > 0)
        return true;
    tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                    "the run needs more loop iterations than .max_iterations "
                    "of tn_onnx_open allows");
    return false;
}

bool tn__onnx_subgraph(tn__onnx_call *c, const tn__onnx_attr *attr,
                       tn_tensor *const *in, const int *in_type, int in_count,
                       tn_tensor **out, int *out_type, int out_count)
{
    const tn__onnx_graph *g = attr->graph;
    tn__onnx_run *run = c->run;
    if (in_count != g->input_count || out_count != g->output_count) {
        tn__onnx_refuse(c, TN_ERR_FORMAT,
                        "its subgraph has %d inputs and %d outputs, but the "
                        "operator needs %d and %d",
                        g->input_count, g->output_count, in_count, out_count);
        return false;
    }
    tn__onnx_value *slot = tn__onnx_slots_new(run, g);
    if (!slot)
        return false;
    int at = c->in_count; /* index of the first value that this subgraph
                             captures */
    for (int i = 0; &c->node->attrs[i] != attr; i++)
        if (c->node->attrs[i].graph)
            at += c->node->attrs[i].graph->capture_count;
    for (int i = 0; i < g->capture_count; i++) {
        tn__onnx_value *v = &slot[g->capture[i]];
        *v = *c->value[at + i];
        v->lends_device = v->lends_host = true;
    }
    for (int i = 0; i < in_count; i++)
        slot[g->input[i].slot] = tn__onnx_lend(run, in[i], in_type[i]);
    bool fine = tn__onnx_run_graph(run, g, slot);
    /* the nodes of the subgraph may have run on the other device */
    if (run->host != run->device)
        tn_device_set(c->device);
    for (int i = 0; i < out_count && fine; i++) {
        const tn__onnx_value *v = &slot[g->output[i].slot];
        tn_tensor *x = tn__onnx_tensor_of(v);
        out[i] = tn_scope_adopt(tn_keep(x));
        if (out_type)
            out_type[i] = v->type;
        fine = out[i] != NULL;
    }
    tn__onnx_slots_free(g, slot);
    return fine;
}

/* ---- folding ------------------------------------------------------------- */

static bool can_fold(const tn__onnx_graph *g, const tn__onnx_node *n)
{
    bool fine = !n->row->random && !n->row->by_data;
    for (int i = 0; i < n->attr_count; i++)
        fine = fine && !n->attrs[i].graph;
    for (int i = 0; i < n->in_count && fine; i++)
        fine = n->in[i] < 0 || g->value[n->in[i]].fixed;
    return fine;
}

/* A constant that a subgraph captures is a constant there, too. */
static void inherit_constants(tn__onnx_graph *g)
{
    for (int i = 0; i < g->capture_count && g->parent; i++) {
        const tn__onnx_value *from = &g->parent->value[g->capture_from[i]];
        tn__onnx_value *v = &g->value[g->capture[i]];
        if (!from->fixed || v->type)
            continue;
        *v = *from;
        tn_keep(v->device);
        tn_keep(v->host);
    }
}

/* For each slot, counts the inputs of nodes that use it. Outputs of the graph,
 * and inputs with a default, count as used, too. Returns NULL if memory runs
 * out. */
static int *count_uses(const tn__onnx_graph *g)
{
    int *uses = calloc((size_t)g->slot_count + 1, sizeof *uses);
    if (!uses)
        return NULL;
    for (int i = 0; i < g->node_count; i++) {
        const tn__onnx_node *n = &g->node[i];
        for (int j = 0; j < n->in_count + n->capture_count; j++)
            if (n->in[j] >= 0)
                uses[n->in[j]]++;
    }
    for (int i = 0; i < g->output_count; i++)
        uses[g->output[i].slot]++;
    for (int i = 0; i < g->input_count; i++)
        uses[g->input[i].slot]++;
    return uses;
}

/* Calls row->prepare of a node, if its inputs are constants. A node that fails
 * here is not prepared: the run will report the error. */
static void prepare(tn__onnx_run *run, tn__onnx_graph *g, tn__onnx_node *n)
{
    tn_tensor *x[32] = {NULL}, *out[2] = {NULL};
    int types[32] = {0};
    bool fine = n->in_count <= 32;
    TN_SCOPE(scope) {
        for (int i = 0; i < n->in_count && fine; i++) {
            tn__onnx_value *v = n->in[i] >= 0 ? &g->value[n->in[i]] : NULL;
            if (!v || !(n->row->prepares >> i & 1))
                continue;
            fine = v->fixed && (x[i] = on_device(run, g, n->in[i], v));
            types[i] = v->type;
        }
        tn_device_set(run->device);
        tn__onnx_call c = {.node = n, .attr = n->attr, .in_count = n->in_count,
                           .out_count = n->out_count, .x = x, .x_type = types,
                           .device = run->device, .folds = true, .run = run};
        if (fine)
            n->row->prepare(&c, out);
        for (int i = 0; i < 2 && !tn_error(); i++)
            n->prepared[i] = tn_keep(out[i]);
    }
    tn_error_clear();
}

/* Computes all nodes whose inputs are constants, and frees constants that no
 * other node uses. A node that fails here is not folded: the run will report
 * the error. */
static void fold(tn__onnx_run *run, tn__onnx_graph *g)
{
    inherit_constants(g);
    int *uses = count_uses(g);
    tn__onnx_value *slot = g->value;
    for (int i = 0; i < g->node_count && uses && !tn_error(); i++) {
        tn__onnx_node *n = &g->node[i];
        if (n->is_folded || !can_fold(g, n))
            continue;
        n->is_folded = run_node(run, g, slot, n);
        run->model->folded += n->is_folded;
        for (int j = 0; j < n->out_count; j++)
            if (n->out[j] >= 0 && (!n->is_folded || !uses[n->out[j]]))
                clear(&slot[n->out[j]]);
        for (int j = 0; j < n->in_count && n->is_folded; j++)
            if (n->in[j] >= 0 && --uses[n->in[j]] == 0)
                clear(&slot[n->in[j]]);
        if (!n->is_folded)
            tn_error_clear();
    }
    free(uses);
    for (int i = 0; i < g->node_count && !tn_error(); i++)
        if (!g->node[i].is_folded && g->node[i].row->prepare)
            prepare(run, g, &g->node[i]);
}

/* Adds up the bytes of the constants of a graph. Those that it captures belong
 * to the enclosing graph. */
static int64_t constant_bytes(const tn__onnx_graph *g)
{
    int64_t bytes = 0;
    for (int i = 0; i < g->slot_count; i++)
        if (tn__onnx_tensor_of(&g->value[i]))
            bytes += tn__onnx_bytes_of(tn__onnx_tensor_of(&g->value[i]));
    for (int i = 0; i < g->capture_count; i++) {
        const tn__onnx_value *v = &g->value[g->capture[i]];
        if (tn__onnx_tensor_of(v))
            bytes -= tn__onnx_bytes_of(tn__onnx_tensor_of(v));
    }
    for (int i = 0; i < g->node_count; i++)
        for (int j = 0; j < 2; j++)
            if (g->node[i].prepared[j])
                bytes += tn__onnx_bytes_of(g->node[i].prepared[j]);
    return bytes;
}

/* Graphs are listed from the last to the first that was read. A graph is read
 * before its subgraphs, and must be folded before them. */
static void fold_from_last(tn__onnx_run *run, tn__onnx_graph *g)
{
    int count = 0;
    for (const tn__onnx_graph *p = g; p; p = p->next)
        count++;
    tn__onnx_graph **order = malloc(((size_t)count + 1) * sizeof *order);
    for (int i = count; i-- > 0 && order; g = g->next)
        order[i] = g;
    for (int i = 0; i < count && order; i++)
        fold(run, order[i]);
    free(order);
}

void tn__onnx_fold(tn__onnx_model *m)
{
    tn__onnx_run run = {.model = m, .device = m->device, .host = m->host,
                        .folds = true};
    tn_device *before = tn_device_current();
    fold_from_last(&run, m->graphs);
    tn_device_set(before);
    for (tn__onnx_graph *g = m->graphs; g; g = g->next)
        m->constant_bytes += constant_bytes(g);
}
