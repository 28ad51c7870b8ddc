/* build.c: reads GraphProto. ONNX demands that nodes are in topological order,
 * so a graph that is read has no cycles. */
#include <onnx/graph/scope.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { /* fields of GraphProto */
    NODE = 1, NAME = 2, INITIALIZER = 5, INPUT = 11, OUTPUT = 12,
    SPARSE_INITIALIZER = 15
};
/* The parts of a graph while it is read. */
typedef struct parts {
    tn__onnx_scope scope;
    tn__onnx_slots slots;
    tn__onnx_tensor *initial; /* initialisers */
    int *initial_slot;
    int initial_count;
} parts;

static bool count_parts(tn__onnx_builder *b, parts *p, tn__onnx_span message)
{
    tn__onnx_graph *g = p->scope.names.graph;
    tn__onnx_item item;
    tn__onnx_arena *arena = b->reader.arena;
    int64_t node = 0, initial = 0, input = 0, output = 0;
    int found;
    while ((found = tn__onnx_next(&message, &item)) > 0) {
        if (item.field == NAME &&
            !(g->name = tn__onnx_text(&b->reader, &item)))
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
    g->node_room = g->node ? (int)node : 0; /* calls of functions need more */
    g->input = tn__onnx_alloc(arena, (size_t)input, sizeof *g->input);
    g->output = tn__onnx_alloc(arena, (size_t)output, sizeof *g->output);
    /* a Constant node may become a parameter, so it counts as one here */
    const size_t constants = (size_t)(initial + node);
    g->constant = tn__onnx_alloc(arena, constants, sizeof *g->constant);
    p->initial = calloc((size_t)initial + 1, sizeof *p->initial);
    p->initial_slot = calloc((size_t)initial + 1, sizeof *p->initial_slot);
    if (!p->initial || !p->initial_slot)
        return tn__onnx_no_memory();
    if (!g->parent) {
        b->model->weight =
            tn__onnx_alloc(arena, constants, sizeof *b->model->weight);
        if (!b->model->weight)
            return false;
    }
    return g->node && g->input && g->output && g->constant;
}

static bool read_input(tn__onnx_builder *b, parts *p, tn__onnx_span message)
{
    tn__onnx_scope *s = &p->scope;
    tn__onnx_graph *g = s->names.graph;
    tn__onnx_port port;
    if (!tn__onnx_port_read(b, message, &port))
        return false;
    /* initialisers have the first slots */
    port.slot = tn__onnx_names_find(&s->names, port.name);
    port.has_default = port.slot >= 0 && port.slot < p->initial_count;
    /* before IR version 4, every initialiser had to be an input too */
    if (port.has_default && (g->parent || b->model->ir_version < 4))
        return true;
    if (!port.has_default &&
        (port.slot = tn__onnx_slot_new(b, s, port.name)) < 0)
        return false;
    g->input[g->input_count++] = port;
    return true;
}

static bool read_output(tn__onnx_builder *b, tn__onnx_scope *s,
                        tn__onnx_span message)
{
    tn__onnx_port port;
    if (!tn__onnx_port_read(b, message, &port))
        return false;
    port.slot = tn__onnx_slot_find(b, s, port.name);
    if (port.slot < 0)
        return tn_error() ? false
                          : tn__onnx_value_malformed(
                                b, port.name, "no node makes this output");
    s->names.graph->output[s->names.graph->output_count++] = port;
    return true;
}

/* Returns whether an initialiser holds quantised weights. A smaller one may as
 * well be a zero point. */
static bool is_quantised(const tn__onnx_tensor *t)
{
    const int bits = tn__onnx_type_of(t->type).bits;
    return bits <= 8 && t->type != TN__ONNX_BOOL && t->numel > 1024 &&
           !tn_dtype_is_floating(tn__onnx_type_of(t->type).dtype);
}

/* Reads all parts of a graph that have this field number, in order. */
static bool read_parts(tn__onnx_builder *b, parts *p, tn__onnx_span message,
                       uint32_t field, int depth)
{
    tn__onnx_scope *s = &p->scope;
    tn__onnx_item item;
    while (tn__onnx_next(&message, &item) > 0) {
        if (item.field != field || item.wire != TN__WIRE_BYTES)
            continue;
        bool fine = true;
        if (field == INITIALIZER) {
            tn__onnx_tensor *t = &p->initial[p->initial_count];
            fine = tn__onnx_tensor_read(&b->reader, item.bytes, t);
            if (!fine && b->checks && tn_error_code() == TN_ERR_UNSUPPORTED) {
                fine = tn__onnx_value_problem(b, t->name, tn_error());
                tn_error_clear();
            }
            fine = fine && (p->initial_slot[p->initial_count] =
                                tn__onnx_slot_new(b, s, t->name)) >= 0;
            if (fine && is_quantised(t))
                p->slots.use[p->initial_slot[p->initial_count]] =
                    TN__ONNX_QUANTISED;
            p->initial_count++;
        } else if (field == INPUT) {
            fine = read_input(b, p, item.bytes);
        } else if (field == NODE) {
            fine = tn__onnx_node_read(b, s, item.bytes, depth);
        } else {
            fine = read_output(b, s, item.bytes);
        }
        if (!fine)
            return false;
    }
    return true;
}

tn__onnx_graph *tn__onnx_graph_read(tn__onnx_builder *b, tn__onnx_scope *parent,
                                    tn__onnx_span message, int depth)
{
    if (depth > TN__ONNX_MAX_DEPTH) {
        tn__onnx_malformed(&b->reader, "subgraphs are nested too deeply");
        return NULL;
    }
    tn__onnx_graph *g = tn__onnx_alloc(b->reader.arena, 1, sizeof *g);
    if (!g)
        return NULL;
    parts p = {.slots.parent = parent ? parent->slots : NULL};
    p.scope = (tn__onnx_scope){
        .names = {.parent = parent ? &parent->names : NULL, .graph = g},
        .slots = &p.slots, .function = parent ? parent->function : NULL,
        .call = parent ? parent->call : NULL};
    g->name = "";
    g->next = b->model->graphs;
    b->model->graphs = g;
    g->parent = parent ? parent->names.graph : NULL;
    bool fine = count_parts(b, &p, message) &&
                read_parts(b, &p, message, INITIALIZER, depth) &&
                read_parts(b, &p, message, INPUT, depth) &&
                read_parts(b, &p, message, NODE, depth) &&
                read_parts(b, &p, message, OUTPUT, depth) &&
                tn__onnx_lifetimes_find(b, g);
    if (fine) {
        g->value = tn__onnx_alloc(b->reader.arena, (size_t)g->slot_count,
                                  sizeof *g->value);
        fine = g->value != NULL;
    }
    for (int i = 0; i < p.initial_count && fine && !b->checks; i++)
        fine = tn__onnx_initialiser_read(b, &p.scope, &p.initial[i],
                                         p.initial_slot[i]);
    fine = fine && (b->checks || tn__onnx_constants_take(b, &p.scope));
    tn__onnx_names_free(&p.scope.names);
    free(p.slots.use);
    free(p.slots.from);
    free(p.initial);
    free(p.initial_slot);
    return fine ? g : NULL;
}
