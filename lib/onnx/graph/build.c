/* build.c: reads GraphProto. Names of values become numbers of slots, and each
 * node gets its row of the operator table. ONNX demands that nodes are in
 * topological order, so a graph that is read has no cycles. */
#include <onnx/graph/build.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { /* fields of GraphProto */
    NODE = 1, NAME = 2, INITIALIZER = 5, INPUT = 11, OUTPUT = 12,
    SPARSE_INITIALIZER = 15
};
enum { /* fields of NodeProto */
    NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, OP_TYPE = 4, ATTRIBUTE = 5,
    NODE_DOMAIN = 7, OVERLOAD = 8
};

/* Bits: how the nodes use a slot. */
enum { USED_ON_HOST = 1, USED_AS_BUFFER = 2 };

/* ---- problems ------------------------------------------------------------ */

static void *out_of_memory(void)
{
    tn_error_set(TN_ERR_MEMORY, "onnx_open: out of memory");
    return NULL;
}

static bool node_malformed(tn__onnx_builder *b, const tn__onnx_node *node,
                           const char *what)
{
    tn_error_refuse_argument(TN_ERR_FORMAT, b->reader.call, "path",
                             "%s: node \"%.80s\" (%.60s): %s", b->reader.path,
                             node->name, node->op, what);
    return false;
}

static bool value_malformed(tn__onnx_builder *b, const char *name,
                            const char *what)
{
    tn_error_refuse_argument(TN_ERR_FORMAT, b->reader.call, "path",
                             "%s: value \"%.120s\": %s", b->reader.path, name,
                             what);
    return false;
}

/* ---- slots --------------------------------------------------------------- */

typedef struct scope {
    tn__onnx_names names; /* must be the first member: capture() casts a pointer
                             to names to its scope */
    unsigned char *use;
    int *from; /* for each slot, the slot of the enclosing graph that it
                  captures, or -1 */
    int room;
    int capture_room;
    tn__onnx_tensor *initial; /* initialisers */
    int *initial_slot;
    int initial_count;
} scope;

/* Makes a slot and returns its number, or -1 with an error. name is NULL for a
 * slot without a name. */
static int new_slot(tn__onnx_builder *b, scope *s, const char *name)
{
    tn__onnx_graph *g = s->names.graph;
    if (g->slot_count >= TN__ONNX_MAX_NODES) {
        tn__onnx_malformed(&b->reader,
                           "the graph has more than a million values");
        return -1;
    }
    if (g->slot_count == s->room) {
        const int room = s->room ? s->room * 2 : 64;
        const char **text =
            tn__onnx_alloc(b->reader.arena, (size_t)room, sizeof *text);
        unsigned char *use = realloc(s->use, (size_t)room);
        s->use = use ? use : s->use;
        int *from = realloc(s->from, (size_t)room * sizeof *from);
        s->from = from ? from : s->from;
        if (!text || !use || !from) {
            out_of_memory();
            return -1;
        }
        if (g->slot_count) /* memcpy does not allow NULL, which the lists are at
                              first */
            memcpy(text, g->slot_name, (size_t)g->slot_count * sizeof *text);
        memset(use + s->room, 0, (size_t)(room - s->room));
        g->slot_name = text;
        s->use = use;
        s->room = room;
    }
    if (tn__onnx_names_find(&s->names, name) >= 0) {
        value_malformed(b, name, "two nodes or tensors have this name");
        return -1;
    }
    if (!tn__onnx_names_add(&s->names, name, g->slot_count))
        return -1;
    g->slot_name[g->slot_count] = name;
    s->from[g->slot_count] = -1;
    return g->slot_count++;
}

/* Finds a value in the enclosing graphs, and makes a slot for it in this
 * graph. */
static int capture(tn__onnx_builder *b, scope *s, const char *name)
{
    scope *parent = (scope *)s->names.parent;
    if (!parent)
        return -1;
    int from = tn__onnx_names_find(&parent->names, name);
    if (from < 0)
        from = capture(b, parent, name);
    if (from < 0)
        return -1;
    tn__onnx_graph *g = s->names.graph;
    if (g->capture_count == s->capture_room) {
        const int room = s->capture_room ? s->capture_room * 2 : 16;
        int *to = tn__onnx_alloc(b->reader.arena, (size_t)room, sizeof *to);
        int *source = tn__onnx_alloc(b->reader.arena, (size_t)room,
                                     sizeof *source);
        if (!to || !source)
            return -1;
        if (g->capture_count) {
            memcpy(to, g->capture, (size_t)g->capture_count * sizeof *to);
            memcpy(source, g->capture_from,
                   (size_t)g->capture_count * sizeof *source);
        }
        g->capture = to;
        g->capture_from = source;
        s->capture_room = room;
    }
    const int slot = new_slot(b, s, name);
    if (slot < 0)
        return -1;
    g->capture[g->capture_count] = slot;
    g->capture_from[g->capture_count++] = from;
    s->from[slot] = from;
    return slot;
}

static int find_slot(tn__onnx_builder *b, scope *s, const char *name)
{
    const int slot = tn__onnx_names_find(&s->names, name);
    return slot >= 0 ? slot : capture(b, s, name);
}

/* Records how a slot is used. If the slot captures a value of an enclosing
 * graph, records it there too. */
static void note_use(scope *s, int slot, unsigned char use)
{
    s->use[slot] |= use;
    if (s->from[slot] >= 0)
        note_use((scope *)s->names.parent, s->from[slot], use);
}

/* ---- nodes --------------------------------------------------------------- */

static int64_t opset_of(const tn__onnx_builder *b, const char *domain)
{
    for (int i = 0; i < b->opset_count; i++)
        if (strcmp(b->opset[i].domain, domain) == 0)
            return b->opset[i].version;
    return -1;
}

static bool read_name(tn__onnx_builder *b, const tn__onnx_item *item,
                      const char **out)
{
    *out = tn__onnx_text(&b->reader, item);
    return *out != NULL;
}

/* Finds the row of a node, and puts its attributes in the row's order. */
static bool find_row(tn__onnx_builder *b, tn__onnx_node *node,
                     const char *const *in_name)
{
    char text[256];
    bool known = false;
    node->version = opset_of(b, node->domain);
    if (node->version < 0) {
        snprintf(text, sizeof text,
                 "the model imports no opset of domain \"%.60s\"",
                 node->domain);
        return node_malformed(b, node, text);
    }
    node->row = tn__onnx_op_find(node->domain, node->op, node->version, &known);
    if (!node->row) {
        snprintf(text, sizeof text,
                 known ? "the operator is not supported in opset %lld"
                       : "the operator is not supported",
                 (long long)node->version);
        return tn__onnx_problem(b, node, text);
    }
    const tn__onnx_op *row = node->row;
    if (node->in_count < row->min_in ||
        (row->max_in >= 0 && node->in_count > row->max_in) ||
        (row->max_out >= 0 && node->out_count > row->max_out)) {
        char most[24] = " or more", outputs[24] = "any number of";
        if (row->max_in == row->min_in)
            *most = '\0';
        else if (row->max_in >= 0)
            snprintf(most, sizeof most, " to %d", row->max_in);
        if (row->max_out >= 0)
            snprintf(outputs, sizeof outputs, "at most %d", row->max_out);
        snprintf(text, sizeof text,
                 "it has %d inputs and %d outputs; in opset %lld it takes %d%s "
                 "inputs and %s outputs",
                 node->in_count, node->out_count, (long long)node->version,
                 row->min_in, most, outputs);
        return node_malformed(b, node, text);
    }
    for (int i = 0; i < row->min_in; i++)
        if (!*in_name[i]) {
            snprintf(text, sizeof text, "input %d is left out", i);
            return node_malformed(b, node, text);
        }
    const char *why = tn__onnx_bind(b, node, text, sizeof text);
    if (!why)
        return true;
    node->row = NULL;
    return tn__onnx_problem(b, node, why);
}

/* Replaces the names of a node's inputs by slots, and appends the values that
 * its subgraphs capture. */
static bool connect(tn__onnx_builder *b, scope *s, tn__onnx_node *node,
                    const char *const *in_name)
{
    char text[256];
    int captures = 0;
    for (int i = 0; i < node->attr_count; i++)
        if (node->attrs[i].graph)
            captures += node->attrs[i].graph->capture_count;
    node->in = tn__onnx_alloc(b->reader.arena,
                              (size_t)(node->in_count + captures),
                              sizeof *node->in);
    if (!node->in)
        return false;
    for (int i = 0; i < node->in_count; i++) {
        const tn__onnx_op *row = node->row;
        if (!*in_name[i]) {
            if (row && i < row->min_in && !(row->optional >> i & 1))
                return node_malformed(b, node, "a required input is left out");
            node->in[i] = -1;
            continue;
        }
        const int slot = node->in[i] = find_slot(b, s, in_name[i]);
        if (slot < 0) {
            snprintf(text, sizeof text,
                     "no earlier node makes input \"%.120s\": nodes must be in "
                     "topological order, without cycles",
                     in_name[i]);
            return tn_error() ? false : node_malformed(b, node, text);
        }
        if (row && i < 32 && row->host >> i & 1)
            note_use(s, slot, USED_ON_HOST);
        if (row && i < 32 && row->buffer >> i & 1)
            note_use(s, slot, USED_AS_BUFFER);
    }
    for (int i = 0; i < node->attr_count; i++) {
        const tn__onnx_graph *g = node->attrs[i].graph;
        for (int j = 0; g && j < g->capture_count; j++)
            node->in[node->in_count + node->capture_count++] =
                g->capture_from[j];
    }
    return true;
}

static bool read_node(tn__onnx_builder *b, scope *s, tn__onnx_span message,
                      int depth, tn__onnx_node *node)
{
    tn__onnx_item item;
    tn__onnx_span at = message;
    int found, in = 0, out = 0, attrs = 0;
    *node = (tn__onnx_node){.name = "", .op = "", .domain = ""};
    if (++b->model->nodes > TN__ONNX_MAX_NODES)
        return tn__onnx_malformed(&b->reader,
                                  "the graph has more than a million nodes");
    while ((found = tn__onnx_next(&at, &item)) > 0) {
        in += item.field == NODE_INPUT;
        out += item.field == NODE_OUTPUT;
        attrs += item.field == ATTRIBUTE;
        if ((item.field == NODE_NAME && !read_name(b, &item, &node->name)) ||
            (item.field == OP_TYPE && !read_name(b, &item, &node->op)) ||
            (item.field == NODE_DOMAIN && !read_name(b, &item, &node->domain)))
            return false;
    }
    if (found < 0 || !*node->op)
        return node_malformed(b, node, "the node is malformed");
    if (in > TN__ONNX_MAX_LIST || out > TN__ONNX_MAX_LIST ||
        attrs > TN__ONNX_MAX_ATTRS)
        return node_malformed(b, node,
                              "the node has too many inputs, outputs or "
                              "attributes");
    if (strcmp(node->domain, "ai.onnx") == 0)
        node->domain = "";
    tn__onnx_arena *arena = b->reader.arena;
    const char **in_name = tn__onnx_alloc(arena, (size_t)in, sizeof *in_name);
    node->out = tn__onnx_alloc(arena, (size_t)out, sizeof *node->out);
    node->out_name = tn__onnx_alloc(arena, (size_t)out, sizeof *node->out_name);
    node->attrs = tn__onnx_alloc(arena, (size_t)attrs, sizeof *node->attrs);
    if (!in_name || !node->out || !node->out_name || !node->attrs)
        return false;
    while (tn__onnx_next(&message, &item) > 0) {
        if (item.field == NODE_INPUT &&
            !read_name(b, &item, &in_name[node->in_count++]))
            return false;
        if (item.field == NODE_OUTPUT &&
            !read_name(b, &item, &node->out_name[node->out_count++]))
            return false;
        if (item.field == ATTRIBUTE) {
            if (item.wire != TN__WIRE_BYTES)
                return node_malformed(b, node, "an attribute is malformed");
            if (!tn__onnx_read_attribute(b, &s->names, item.bytes, depth,
                                         &node->attrs[node->attr_count]))
                return false;
            node->attr_count++;
        }
    }
    /* some exporters write an empty name for each optional input at the end */
    while (node->in_count && !*in_name[node->in_count - 1])
        node->in_count--;
    if (!find_row(b, node, in_name) || !connect(b, s, node, in_name))
        return false;
    for (int i = 0; i < node->out_count; i++) {
        node->out[i] = -1;
        if (*node->out_name[i] &&
            (node->out[i] = new_slot(b, s, node->out_name[i])) < 0)
            return false;
    }
    return true;
}

/* For each node, lists the slots that no later node uses. */
static bool find_lifetimes(tn__onnx_builder *b, tn__onnx_graph *g)
{
    tn__onnx_arena *arena = b->reader.arena;
    g->slot_used = tn__onnx_alloc(arena, (size_t)g->slot_count, 1);
    if (!g->slot_used)
        return false;
    int *last = malloc(((size_t)g->slot_count + 1) * sizeof *last);
    if (!last)
        return out_of_memory();
    for (int i = 0; i < g->slot_count; i++)
        last[i] = -1;
    for (int i = 0; i < g->node_count; i++) {
        const tn__onnx_node *n = &g->node[i];
        for (int j = 0; j < n->in_count + n->capture_count; j++)
            if (n->in[j] >= 0) {
                last[n->in[j]] = i;
                g->slot_used[n->in[j]] = true;
            }
        for (int j = 0; j < n->out_count; j++)
            if (n->out[j] >= 0)
                last[n->out[j]] = i;
    }
    for (int i = 0; i < g->output_count; i++)
        if (g->output[i].slot >= 0) {
            last[g->output[i].slot] = -1;
            g->slot_used[g->output[i].slot] = true;
        }
    for (int i = 0; i < g->slot_count; i++)
        if (last[i] >= 0)
            g->node[last[i]].dead_count++;
    bool fine = true;
    for (int i = 0; i < g->node_count && fine; i++) {
        tn__onnx_node *n = &g->node[i];
        n->dead = tn__onnx_alloc(arena, (size_t)n->dead_count, sizeof *n->dead);
        fine = n->dead != NULL;
        n->dead_count = 0;
    }
    for (int i = 0; i < g->slot_count && fine; i++)
        if (last[i] >= 0) {
            tn__onnx_node *n = &g->node[last[i]];
            n->dead[n->dead_count++] = i;
        }
    free(last);
    return fine;
}

/* ---- initialisers -------------------------------------------------------- */

static tn_tensor *make_on(tn__onnx_builder *b, const tn__onnx_tensor *t,
                          tn_device *device)
{
    tn_device *before = tn_device_current();
    tn_tensor *x = NULL;
    if (tn_device_set(device) < 0)
        return NULL;
    TN_SCOPE(own) {
        x = tn_keep(tn__onnx_tensor_make(&b->reader, t));
    }
    tn_device_set(before);
    return x;
}

/* Constants of at most this many elements are also stored on the host, because
 * shape arithmetic runs there. */
enum { SMALL = 1024 };

static void add_weight(tn__onnx_builder *b, scope *s, int slot,
                       const char *name, tn_tensor *x, int type)
{
    tn__onnx_graph *g = s->names.graph;
    tn__onnx_model *m = b->model;
    g->constant[g->constant_count++] =
        (tn__onnx_constant){slot, m->weight_count};
    m->weight[m->weight_count++] = (tn__onnx_weight){
        .name = name, .tensor = x,
        .is_buffer = s->use[slot] & USED_AS_BUFFER};
    g->value[slot].type = type;
    g->value[slot].fixed_shape = true;
}

/* Turns Constant nodes with floating-point numbers into parameters, as some
 * exporters write weights in this way. A Constant of one element stays a
 * constant, because it is usually part of a formula. */
static bool take_weights(tn__onnx_builder *b, scope *s)
{
    tn__onnx_graph *g = s->names.graph;
    for (int i = 0; i < g->node_count && !g->parent; i++) {
        tn__onnx_node *n = &g->node[i];
        if (!n->row || strcmp(n->op, "Constant") != 0 || n->attr_count != 1 ||
            n->out_count != 1 || n->out[0] < 0)
            continue;
        tn__onnx_value *v = &n->attrs[0].tensor;
        tn_tensor *x = v->host;
        if (!tn_dtype_is_floating(tn_tensor_dtype(x)) ||
            tn_tensor_numel(x) < 2 || s->use[n->out[0]] & USED_ON_HOST)
            continue;
        if (b->model->device != b->model->host) {
            TN_SCOPE(own) {
                x = tn_keep(tn_to(x, b->model->device));
            }
            if (!x)
                return false;
            tn_drop(v->host);
        }
        v->host = NULL; /* the weight owns the tensor now */
        add_weight(b, s, n->out[0], n->out_name[0], x, v->type);
        n->is_folded = true;
    }
    return true;
}

static bool read_initialiser(tn__onnx_builder *b, scope *s,
                             const tn__onnx_tensor *t, int slot)
{
    tn__onnx_graph *g = s->names.graph;
    tn__onnx_model *m = b->model;
    const tn__onnx_type type = tn__onnx_type_of(t->type);
    const bool is_weight = tn_dtype_is_floating(type.dtype) && !g->parent &&
                           !(s->use[slot] & USED_ON_HOST);
    tn__onnx_value *v = &g->value[slot];
    if (is_weight) {
        tn_tensor *x = make_on(b, t, m->device);
        if (x)
            add_weight(b, s, slot, t->name, x, t->type);
        return x != NULL;
    }
    v->type = t->type;
    g->constant[g->constant_count++] = (tn__onnx_constant){slot, -1};
    v->fixed = v->fixed_shape = true;
    m->constant_bytes += tn__onnx_tensor_bytes(t);
    if (m->host != m->device && t->numel <= SMALL) {
        v->host = make_on(b, t, m->host);
        return v->host != NULL;
    }
    v->device = make_on(b, t, m->device);
    if (m->host == m->device)
        v->host = tn_keep(v->device);
    return v->device != NULL;
}

/* ---- a graph ------------------------------------------------------------- */

static bool count_parts(tn__onnx_builder *b, scope *s, tn__onnx_span message)
{
    tn__onnx_graph *g = s->names.graph;
    tn__onnx_item item;
    tn__onnx_arena *arena = b->reader.arena;
    int64_t node = 0, initial = 0, input = 0, output = 0;
    int found;
    while ((found = tn__onnx_next(&message, &item)) > 0) {
        if (item.field == NAME && !read_name(b, &item, &g->name))
            return false;
        if (item.field == SPARSE_INITIALIZER &&
            !tn__onnx_value_problem(b, "sparse_initializer",
                                    "sparse tensors are not supported"))
            return false;
        if (item.wire != TN__WIRE_BYTES)
            continue;
        node += item.field == NODE;
        initial += item.field == INITIALIZER;
        input += item.field == INPUT;
        output += item.field == OUTPUT;
    }
    if (found < 0)
        return tn__onnx_malformed(&b->reader,
                                  "the graph is truncated or damaged");
    if (node > TN__ONNX_MAX_NODES || initial > TN__ONNX_MAX_NODES ||
        input > TN__ONNX_MAX_NODES || output > TN__ONNX_MAX_LIST)
        return tn__onnx_malformed(&b->reader,
                                  "the graph has more than a million values");
    g->node = tn__onnx_alloc(arena, (size_t)node, sizeof *g->node);
    g->node_room = g->node ? (int)node : 0;
    g->input = tn__onnx_alloc(arena, (size_t)input, sizeof *g->input);
    g->output = tn__onnx_alloc(arena, (size_t)output, sizeof *g->output);
    /* a Constant node may become a parameter, so it counts as one here */
    const size_t constants = (size_t)(initial + node);
    g->constant = tn__onnx_alloc(arena, constants, sizeof *g->constant);
    s->initial = calloc((size_t)initial + 1, sizeof *s->initial);
    s->initial_slot = calloc((size_t)initial + 1, sizeof *s->initial_slot);
    if (!s->initial || !s->initial_slot)
        return out_of_memory();
    if (!g->parent) {
        b->model->weight =
            tn__onnx_alloc(arena, constants, sizeof *b->model->weight);
        if (!b->model->weight)
            return false;
    }
    return g->node && g->input && g->output && g->constant;
}

static bool read_input(tn__onnx_builder *b, scope *s, tn__onnx_span message)
{
    tn__onnx_graph *g = s->names.graph;
    tn__onnx_port port;
    if (!tn__onnx_port_read(b, message, &port))
        return false;
    /* initialisers have the first slots */
    port.slot = tn__onnx_names_find(&s->names, port.name);
    port.has_default = port.slot >= 0 && port.slot < s->initial_count;
    /* before IR version 4, every initialiser had to be an input too */
    if (port.has_default && (g->parent || b->model->ir_version < 4))
        return true;
    if (!port.has_default && (port.slot = new_slot(b, s, port.name)) < 0)
        return false;
    g->input[g->input_count++] = port;
    return true;
}

static bool read_output(tn__onnx_builder *b, scope *s, tn__onnx_span message)
{
    tn__onnx_port port;
    if (!tn__onnx_port_read(b, message, &port))
        return false;
    port.slot = find_slot(b, s, port.name);
    if (port.slot < 0)
        return tn_error()
                   ? false
                   : value_malformed(b, port.name, "no node makes this output");
    s->names.graph->output[s->names.graph->output_count++] = port;
    return true;
}

/* Calls `read` in order for all parts of a graph that have the same field
 * number. */
static bool read_parts(tn__onnx_builder *b, scope *s, tn__onnx_span message,
                       uint32_t field, int depth)
{
    tn__onnx_graph *g = s->names.graph;
    tn__onnx_item item;
    while (tn__onnx_next(&message, &item) > 0) {
        if (item.field != field || item.wire != TN__WIRE_BYTES)
            continue;
        bool fine = true;
        if (field == INITIALIZER) {
            tn__onnx_tensor *t = &s->initial[s->initial_count];
            fine = tn__onnx_tensor_read(&b->reader, item.bytes, t);
            if (!fine && b->checks && tn_error_code() == TN_ERR_UNSUPPORTED) {
                fine = tn__onnx_value_problem(b, t->name, tn_error());
                tn_error_clear();
            }
            fine = fine && (s->initial_slot[s->initial_count] =
                                new_slot(b, s, t->name)) >= 0;
            s->initial_count++;
        } else if (field == INPUT) {
            fine = read_input(b, s, item.bytes);
        } else if (field == NODE) {
            fine = read_node(b, s, item.bytes, depth,
                             &g->node[g->node_count]);
            g->node_count += fine;
        } else {
            fine = read_output(b, s, item.bytes);
        }
        if (!fine)
            return false;
    }
    return true;
}

tn__onnx_graph *tn__onnx_read_graph(tn__onnx_builder *b, tn__onnx_names *parent,
                                    tn__onnx_span message, int depth)
{
    if (depth > TN__ONNX_MAX_DEPTH) {
        tn__onnx_malformed(&b->reader, "subgraphs are nested too deeply");
        return NULL;
    }
    tn__onnx_graph *g = tn__onnx_alloc(b->reader.arena, 1, sizeof *g);
    if (!g)
        return NULL;
    scope s = {.names = {.parent = parent, .graph = g}};
    g->name = "";
    g->next = b->model->graphs;
    b->model->graphs = g;
    g->parent = parent ? parent->graph : NULL;
    bool fine = count_parts(b, &s, message) &&
                read_parts(b, &s, message, INITIALIZER, depth) &&
                read_parts(b, &s, message, INPUT, depth) &&
                read_parts(b, &s, message, NODE, depth) &&
                read_parts(b, &s, message, OUTPUT, depth) &&
                find_lifetimes(b, g);
    if (fine) {
        g->value = tn__onnx_alloc(b->reader.arena, (size_t)g->slot_count,
                                  sizeof *g->value);
        fine = g->value != NULL;
    }
    for (int i = 0; i < s.initial_count && fine && !b->checks; i++)
        fine = read_initialiser(b, &s, &s.initial[i], s.initial_slot[i]);
    fine = fine && (b->checks || take_weights(b, &s));
    tn__onnx_names_free(&s.names);
    free(s.use);
    free(s.from);
    free(s.initial);
    free(s.initial_slot);
    return fine ? g : NULL;
}
