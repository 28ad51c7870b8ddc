/* port.c: reads the inputs and outputs of a graph (ValueInfoProto), and reports
 * what is not supported. */
#include <onnx/graph/build.h>

#include <stdio.h>

/* ---- problems ------------------------------------------------------------ */

bool tn__onnx_problem(tn__onnx_builder *b, const tn__onnx_node *node,
                      const char *what)
{
    const bool is_ai = !*node->domain;
    if (b->checks) {
        const tn_onnx_node_info info = {
            .size = sizeof info, .name = node->name, .op = node->op,
            .domain = node->domain, .problem = what,
            .output = node->out_name, .output_count = node->out_count};
        if (b->report)
            b->report(&info, b->context);
        b->problems++;
        return true;
    }
    tn_error_refuse_argument(
        TN_ERR_UNSUPPORTED, b->reader.call, "path",
        "%s: node \"%.80s\" (%s%s%.60s): %s; tenon onnx check lists all "
        "unsupported nodes",
        b->reader.path, node->name, is_ai ? "" : node->domain,
        is_ai ? "" : "::", node->op, what);
    return false;
}

bool tn__onnx_value_problem(tn__onnx_builder *b, const char *name,
                            const char *what)
{
    const tn__onnx_node node = {.name = name, .op = "value", .domain = ""};
    return tn__onnx_problem(b, &node, what);
}

/* ---- inputs and outputs -------------------------------------------------- */

static bool read_shape(tn__onnx_builder *b, tn__onnx_span shape,
                       tn__onnx_port *port)
{
    tn__onnx_span s = shape, dim;
    tn__onnx_item item;
    int found, count = 0;
    while ((found = tn__onnx_next(&s, &item)) > 0)
        count += item.field == 1 && item.wire == TN__WIRE_BYTES;
    if (found < 0 || count > TN__ONNX_MAX_LIST)
        return tn__onnx_malformed(&b->reader, "a shape is malformed");
    port->ndim = count;
    port->shape = tn__onnx_alloc(b->reader.arena, (size_t)count,
                                 sizeof *port->shape);
    port->dim_name = tn__onnx_alloc(b->reader.arena, (size_t)count,
                                    sizeof *port->dim_name);
    if (!port->shape || !port->dim_name)
        return false;
    for (int i = 0; tn__onnx_next(&shape, &item) > 0;) {
        if (item.field != 1 || item.wire != TN__WIRE_BYTES)
            continue;
        port->shape[i] = -1;
        dim = item.bytes;
        while ((found = tn__onnx_next(&dim, &item)) > 0) {
            if (item.field == 1 && item.number <= INT64_MAX)
                port->shape[i] = (int64_t)item.number;
            if (item.field == 2 &&
                !(port->dim_name[i] = tn__onnx_text(&b->reader, &item)))
                return false;
        }
        if (found < 0)
            return tn__onnx_malformed(&b->reader, "a shape is malformed");
        i++;
    }
    return true;
}

/* Reads a TypeProto. */
static bool read_type(tn__onnx_builder *b, tn__onnx_span type,
                      tn__onnx_port *port)
{
    static const char *const kind[] = {
        [4] = "a sequence", [5] = "a map", [8] = "a sparse tensor",
        [9] = "an optional value"};
    tn__onnx_item item;
    int found;
    while ((found = tn__onnx_next(&type, &item)) > 0) {
        if (item.field < 10 && kind[item.field])
            return tn__onnx_value_problem(b, port->name, kind[item.field]);
        if (item.field != 1 || item.wire != TN__WIRE_BYTES)
            continue;
        tn__onnx_span tensor = item.bytes;
        while ((found = tn__onnx_next(&tensor, &item)) > 0) {
            if (item.field == 1)
                port->type = item.number < 1000 ? (int)item.number : 0;
            if (item.field == 2 && item.wire == TN__WIRE_BYTES &&
                !read_shape(b, item.bytes, port))
                return false;
        }
        if (found < 0)
            break;
        const tn__onnx_type t = tn__onnx_type_of(port->type);
        char text[64];
        snprintf(text, sizeof text, "dtype %s (%d) is not supported", t.name,
                 port->type);
        if (port->type && !t.dtype &&
            !tn__onnx_value_problem(b, port->name, text))
            return false;
    }
    return found == 0 ||
           tn__onnx_malformed(&b->reader, "the type of a value is malformed");
}

bool tn__onnx_port_read(tn__onnx_builder *b, tn__onnx_span message,
                        tn__onnx_port *port)
{
    tn__onnx_item item;
    tn__onnx_span s = message;
    int found;
    *port = (tn__onnx_port){.ndim = -1, .slot = -1};
    while ((found = tn__onnx_next(&s, &item)) > 0)
        if (item.field == 1 && !(port->name = tn__onnx_text(&b->reader, &item)))
            return false;
    if (found < 0 || !port->name)
        return tn__onnx_malformed(&b->reader,
                                  "an input or output is malformed");
    while ((found = tn__onnx_next(&message, &item)) > 0)
        if (item.field == 2 && item.wire == TN__WIRE_BYTES &&
            !read_type(b, item.bytes, port))
            return false;
    return found == 0;
}
