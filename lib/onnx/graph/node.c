/* node.c: reads NodeProto. Names of values become indices of slots, and each
 * node gets its row of the operator table. */
#include <onnx/graph/scope.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { /* fields of NodeProto */
    INPUT = 1, OUTPUT = 2, NAME = 3, OP_TYPE = 4, ATTRIBUTE = 5,
    DOMAIN_NAME = 7, OVERLOAD = 8
};

static bool read_name(tn__onnx_builder *b, const tn__onnx_item *item,
                      const char **out)
{
    *out = tn__onnx_text(&b->reader, item);
    return *out != NULL;
}

/* Finds the row of a node, and puts its attributes in the row's order. */
static bool find_row(tn__onnx_builder *b, tn__onnx_node *node)
{
    char text[256];
    bool known = false;
    node->version = tn__onnx_import_version(b, node->domain);
    if (node->version < 0) {
        snprintf(text, sizeof text,
                 "the model imports no opset of domain \"%.60s\"",
                 node->domain);
        return tn__onnx_node_malformed(b, node, text);
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
        return tn__onnx_node_malformed(b, node, text);
    }
    const char *why = tn__onnx_bind(b, node, text, sizeof text);
    if (!why)
        return true;
    node->row = NULL;
    return tn__onnx_problem(b, node, why);
}

/* Replaces the names of a node's inputs by slots, and appends the values that
 * its subgraphs capture. */
static bool connect(tn__onnx_builder *b, tn__onnx_scope *s, tn__onnx_node *node,
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
        const int slot = node->in[i] =
            *in_name[i] ? tn__onnx_slot_find(b, s, in_name[i])
                        : TN__ONNX_LEFT_OUT;
        if (slot == TN__ONNX_LEFT_OUT) {
            if (row && i < row->min_in && !(row->optional >> i & 1)) {
                snprintf(text, sizeof text, "input %d is left out", i);
                return tn__onnx_node_malformed(b, node, text);
            }
            node->in[i] = -1;
            continue;
        }
        if (slot < 0) {
            snprintf(text, sizeof text,
                     "no earlier node makes input \"%.120s\": nodes must be in "
                     "topological order, without cycles",
                     in_name[i]);
            return tn_error() ? false : tn__onnx_node_malformed(b, node, text);
        }
        if (row && i < 32)
            tn__onnx_slot_note(
                s->slots, slot,
                (unsigned char)((row->host >> i & 1) * TN__ONNX_USED_ON_HOST |
                                (row->buffer >> i & 1) *
                                    TN__ONNX_USED_AS_BUFFER |
                                (row->constant >> i & 1) *
                                    TN__ONNX_USED_AS_CONSTANT));
    }
    for (int i = 0; i < node->attr_count; i++) {
        const tn__onnx_graph *g = node->attrs[i].graph;
        for (int j = 0; g && j < g->capture_count; j++)
            node->in[node->in_count + node->capture_count++] =
                g->capture_from[j];
    }
    return true;
}

/* Reads the fields of a NodeProto. *in_name receives the names of the inputs.
 * On failure the attributes that were read belong to the caller, too. */
static bool read_fields(tn__onnx_builder *b, tn__onnx_scope *s,
                        tn__onnx_span message, int depth, tn__onnx_node *node,
                        const char ***in_name)
{
    tn__onnx_item item;
    tn__onnx_span at = message;
    int found, in = 0, out = 0, attrs = 0;
    while ((found = tn__onnx_next(&at, &item)) > 0) {
        in += item.field == INPUT;
        out += item.field == OUTPUT;
        attrs += item.field == ATTRIBUTE;
        if ((item.field == NAME && !read_name(b, &item, &node->name)) ||
            (item.field == OP_TYPE && !read_name(b, &item, &node->op)) ||
            (item.field == DOMAIN_NAME &&
             !read_name(b, &item, &node->domain)) ||
            (item.field == OVERLOAD && !read_name(b, &item, &node->overload)))
            return false;
    }
    if (found < 0 || !*node->op)
        return tn__onnx_node_malformed(b, node, "the node is malformed");
    if (in > TN__ONNX_MAX_LIST || out > TN__ONNX_MAX_LIST ||
        attrs > TN__ONNX_MAX_ATTRS)
        return tn__onnx_node_malformed(b, node,
                                       "the node has too many inputs, outputs "
                                       "or attributes");
    if (strcmp(node->domain, "ai.onnx") == 0)
        node->domain = "";
    tn__onnx_arena *arena = b->reader.arena;
    *in_name = tn__onnx_alloc(arena, (size_t)in, sizeof **in_name);
    node->out = tn__onnx_alloc(arena, (size_t)out, sizeof *node->out);
    node->out_name = tn__onnx_alloc(arena, (size_t)out, sizeof *node->out_name);
    node->attrs = tn__onnx_alloc(arena, (size_t)attrs, sizeof *node->attrs);
    if (!*in_name || !node->out || !node->out_name || !node->attrs)
        return false;
    while (tn__onnx_next(&message, &item) > 0) {
        if (item.field == INPUT &&
            !read_name(b, &item, &(*in_name)[node->in_count++]))
            return false;
        if (item.field == OUTPUT &&
            !read_name(b, &item, &node->out_name[node->out_count++]))
            return false;
        if (item.field == ATTRIBUTE) {
            if (item.wire != TN__WIRE_BYTES)
                return tn__onnx_node_malformed(b, node,
                                               "an attribute is malformed");
            tn__onnx_attr *a = &node->attrs[node->attr_count];
            if (!tn__onnx_attribute_read(b, s, item.bytes, depth, a))
                return false;
            node->attr_count += a->name != NULL;
        }
    }
    /* some exporters write an empty name for each optional input at the end */
    while (node->in_count && !*(*in_name)[node->in_count - 1])
        node->in_count--;
    return true;
}

/* If an input of a node holds quantised weights, its other inputs are their
 * scales and zero points, which are constants, and its result holds the
 * weights. */
static void note_scales(tn__onnx_scope *s, const tn__onnx_node *node)
{
    unsigned char *use = s->slots->use;
    bool any = false;
    for (int i = 0; i < node->in_count; i++)
        any = any || (node->in[i] >= 0 &&
                      use[node->in[i]] & TN__ONNX_QUANTISED);
    if (!any || !node->row || !node->row->scales)
        return;
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0)
            tn__onnx_slot_note(s->slots, node->in[i],
                               TN__ONNX_USED_AS_CONSTANT);
    for (int i = 0; i < node->out_count; i++)
        if (node->out[i] >= 0)
            use[node->out[i]] |= TN__ONNX_QUANTISED;
}

/* Adds a node to the graph of the scope. */
static bool append(tn__onnx_builder *b, tn__onnx_scope *s,
                   const tn__onnx_node *node)
{
    tn__onnx_graph *g = s->names.graph;
    if (g->node_count == g->node_room) {
        const int room = g->node_room ? 2 * g->node_room : 16;
        tn__onnx_node *larger =
            tn__onnx_alloc(b->reader.arena, (size_t)room, sizeof *larger);
        if (!larger)
            return false;
        if (g->node_count)
            memcpy(larger, g->node, (size_t)g->node_count * sizeof *larger);
        g->node = larger;
        g->node_room = room;
    }
    g->node[g->node_count++] = *node;
    return true;
}

bool tn__onnx_node_read(tn__onnx_builder *b, tn__onnx_scope *s,
                        tn__onnx_span message, int depth)
{
    tn__onnx_node node = {.name = "", .op = "", .domain = "", .overload = "",
                          .is_inlined = s->function != NULL};
    const char **in_name = NULL;
    if (++b->model->nodes > TN__ONNX_MAX_NODES)
        return tn__onnx_malformed(&b->reader,
                                  "the graph has more than a million nodes");
    bool fine = read_fields(b, s, message, depth, &node, &in_name);
    const tn__onnx_function *f =
        fine ? tn__onnx_function_find(b, node.domain, node.op, node.overload)
             : NULL;
    if (f) {
        fine = tn__onnx_function_call(b, s, &node, in_name, f, depth);
    } else {
        fine = fine && find_row(b, &node) &&
               connect(b, s, &node, in_name);
        for (int i = 0; i < node.out_count && fine; i++) {
            node.out[i] = -1;
            if (*node.out_name[i])
                fine = (node.out[i] = tn__onnx_slot_new(
                            b, s, node.out_name[i])) >= 0;
        }
        if (fine)
            note_scales(s, &node);
        fine = fine && append(b, s, &node);
    }
    /* the graph owns the tensors of its nodes, but no call is in the graph */
    for (int i = 0; i < node.attr_count && (f || !fine); i++)
        tn_drop(node.attrs[i].tensor.host);
    return fine;
}

bool tn__onnx_lifetimes_find(tn__onnx_builder *b, tn__onnx_graph *g)
{
    tn__onnx_arena *arena = b->reader.arena;
    g->slot_used = tn__onnx_alloc(arena, (size_t)g->slot_count, 1);
    if (!g->slot_used)
        return false;
    int *last = malloc(((size_t)g->slot_count + 1) * sizeof *last);
    if (!last)
        return tn__onnx_no_memory();
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
