/* function.c: functions that a model defines (FunctionProto). A node that calls
 * one is replaced by the nodes of the function. These nodes can use the inputs
 * of the function and their own results, but no other values of the graph. */
#include <onnx/graph/scope.h>

#include <stdio.h>
#include <string.h>

enum { /* fields of FunctionProto */
    NAME = 1, INPUT = 4, OUTPUT = 5, NODE = 7, OPSET_IMPORT = 9,
    DOMAIN_NAME = 10, OVERLOAD = 13
};

/* Limits, because functions that call each other can make a huge graph from a
 * small file. */
enum {
    MAX_FUNCTIONS = 1 << 16,
    MAX_DEPTH = 16,          /* of calls within functions */
    MAX_NODES = 1 << 17,     /* of functions, over all calls */
    MAX_BYTES = 1 << 28      /* of functions in the file, over all calls */
};

/* Returns the key of a function in b->function_names, or NULL with an error. A
 * newline separates its parts, as names do not contain one. */
static const char *make_key(tn__onnx_arena *arena, const char *domain,
                            const char *name, const char *overload)
{
    if (strcmp(domain, "ai.onnx") == 0)
        domain = "";
    const size_t room =
        strlen(domain) + strlen(name) + strlen(overload) + 3;
    char *key = tn__onnx_alloc(arena, room, 1);
    if (key)
        snprintf(key, room, "%s\n%s\n%s", domain, name, overload);
    return key;
}

bool tn__onnx_function_add(tn__onnx_builder *b, tn__onnx_span message)
{
    const char *name = "", *domain = "", *overload = "";
    tn__onnx_span s = message;
    tn__onnx_item item;
    tn__onnx_arena *arena = b->reader.arena;
    int found;
    while ((found = tn__onnx_next(&s, &item)) > 0)
        if ((item.field == NAME &&
             !(name = tn__onnx_text(&b->reader, &item))) ||
            (item.field == DOMAIN_NAME &&
             !(domain = tn__onnx_text(&b->reader, &item))) ||
            (item.field == OVERLOAD &&
             !(overload = tn__onnx_text(&b->reader, &item))))
            return false;
    if (found < 0 || !*name || b->function_count == MAX_FUNCTIONS)
        return tn__onnx_malformed(&b->reader, "a function is malformed");
    if ((b->function_count & (b->function_count + 1)) == 0) {
        /* full: the capacity is a power of two minus 1 */
        const size_t room = 2 * (size_t)b->function_count + 1;
        tn__onnx_function *larger = tn__onnx_alloc(arena, room, sizeof *larger);
        if (!larger)
            return false;
        if (b->function_count)
            memcpy(larger, b->function,
                   (size_t)b->function_count * sizeof *larger);
        b->function = larger;
    }
    const char *key = make_key(arena, domain, name, overload);
    if (!key)
        return false;
    if (tn__onnx_names_find(&b->function_names, key) >= 0)
        return tn__onnx_value_malformed(b, name,
                                        "two functions have this name");
    b->function[b->function_count] = (tn__onnx_function){name, message};
    return tn__onnx_names_add(&b->function_names, key, b->function_count++);
}

const tn__onnx_function *tn__onnx_function_find(const tn__onnx_builder *b,
                                                const char *domain,
                                                const char *op,
                                                const char *overload)
{
    if (!b->function_count)
        return NULL;
    const char *key = make_key(b->reader.arena, domain, op, overload);
    const int i = key ? tn__onnx_names_find(&b->function_names, key) : -1;
    return i >= 0 ? &b->function[i] : NULL;
}

/* Gives the inputs of the function the slots of the inputs of the call. */
static bool bind_input(tn__onnx_builder *b, tn__onnx_scope *outer,
                       tn__onnx_scope *inner, const tn__onnx_node *node,
                       const char *const *in_name, int i, const char *name)
{
    char text[200];
    int slot = TN__ONNX_LEFT_OUT;
    if (i < node->in_count && *in_name[i]) {
        slot = tn__onnx_slot_find(b, outer, in_name[i]);
        if (slot == -1) {
            snprintf(text, sizeof text,
                     "no earlier node makes input \"%.120s\"", in_name[i]);
            return tn_error() ? false : tn__onnx_node_malformed(b, node, text);
        }
    }
    if (tn__onnx_names_find(&inner->names, name) != -1)
        return tn__onnx_value_malformed(b, name,
                                        "two inputs of a function have this "
                                        "name");
    return tn__onnx_names_add(&inner->names, name, slot);
}

/* Gives output i of the call the slot of the output of the function. */
static bool bind_output(tn__onnx_builder *b, tn__onnx_scope *outer,
                        tn__onnx_scope *inner, const tn__onnx_node *node, int i,
                        const char *name)
{
    if (i >= node->out_count || !*node->out_name[i])
        return true;
    const int slot = tn__onnx_names_find(&inner->names, name);
    if (slot < 0)
        return tn__onnx_value_malformed(b, name,
                                        "no node makes this output of a "
                                        "function");
    if (tn__onnx_names_find(&outer->names, node->out_name[i]) != -1)
        return tn__onnx_value_malformed(b, node->out_name[i],
                                        "two nodes or tensors have this name");
    return tn__onnx_names_add(&outer->names, node->out_name[i], slot);
}

/* Reads the fields of the function in the order: imports, inputs, nodes,
 * outputs. */
static bool read_body(tn__onnx_builder *b, tn__onnx_scope *outer,
                      tn__onnx_scope *inner, const tn__onnx_node *node,
                      const char *const *in_name, int depth)
{
    static const uint32_t order[] = {OPSET_IMPORT, INPUT, NODE, OUTPUT};
    char text[120];
    for (int pass = 0; pass < 4; pass++) {
        tn__onnx_span s = inner->function->message;
        tn__onnx_item item;
        int count = 0;
        while (tn__onnx_next(&s, &item) > 0) {
            if (item.field != order[pass])
                continue;
            const bool named = order[pass] == INPUT || order[pass] == OUTPUT;
            const char *name = named ? tn__onnx_text(&b->reader, &item) : "";
            if (!name || item.wire != TN__WIRE_BYTES)
                return tn_error() ? false
                                  : tn__onnx_node_malformed(
                                        b, node, "its function is malformed");
            bool fine = true;
            if (order[pass] == OPSET_IMPORT)
                fine = tn__onnx_import_read(b, item.bytes, &b->imports);
            else if (order[pass] == INPUT)
                fine = bind_input(b, outer, inner, node, in_name, count, name);
            else if (order[pass] == NODE)
                fine = (++b->called_nodes <= MAX_NODES ||
                        tn__onnx_node_malformed(
                            b, node, "the calls of functions make more than "
                                     "131072 nodes")) &&
                       b->read_node(b, inner, item.bytes, depth);
            else
                fine = bind_output(b, outer, inner, node, count, name);
            if (!fine)
                return false;
            count++;
        }
        const int given = order[pass] == INPUT    ? node->in_count
                          : order[pass] == OUTPUT ? node->out_count
                                                  : 0;
        if (given > count) {
            snprintf(text, sizeof text,
                     "it has %d %s, but its function has only %d", given,
                     order[pass] == INPUT ? "inputs" : "outputs", count);
            return tn__onnx_node_malformed(b, node, text);
        }
    }
    return true;
}

bool tn__onnx_function_call(tn__onnx_builder *b, tn__onnx_scope *s,
                            const tn__onnx_node *node,
                            const char *const *in_name,
                            const tn__onnx_function *f, int depth)
{
    if (b->function_depth == MAX_DEPTH)
        return tn__onnx_node_malformed(b, node,
                                       "functions call each other too deeply");
    b->called_bytes += tn__onnx_span_bytes(f->message);
    if (b->called_bytes > MAX_BYTES)
        return tn__onnx_node_malformed(b, node,
                                       "the nodes of all calls of functions "
                                       "take more than 256 MB");
    tn__onnx_scope inner = {.names.graph = s->names.graph, .slots = s->slots,
                            .function = f, .call = node};
    const tn__onnx_imports outside = b->imports;
    b->imports = (tn__onnx_imports){0};
    b->function_depth++;
    const bool fine = read_body(b, s, &inner, node, in_name, depth);
    b->function_depth--;
    b->imports = outside;
    tn__onnx_names_free(&inner.names);
    return fine;
}
