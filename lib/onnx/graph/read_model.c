/* read_model.c: reads ModelProto: the opsets that it imports, its functions,
 * and its graph. */
#include <onnx/graph/scope.h>

#include <stdio.h>
#include <string.h>

enum { /* fields of ModelProto */
    IR_VERSION = 1, PRODUCER_NAME = 2, PRODUCER_VERSION = 3, GRAPH = 7,
    OPSET_IMPORT = 8, FUNCTIONS = 25
};

bool tn__onnx_build(tn__onnx_builder *b)
{
    const tn__onnx_file *file = &b->reader.file;
    tn__onnx_span all = {file->memory,
                         file->memory ? file->memory + file->bytes : NULL};
    tn__onnx_span s = all, graph = {0};
    tn__onnx_item item;
    tn__onnx_model *m = b->model;
    const char *producer = "", *version = "";
    int found;
    while ((found = tn__onnx_next(&s, &item)) > 0) {
        const bool bytes = item.wire == TN__WIRE_BYTES;
        if (item.field == IR_VERSION)
            m->ir_version = (int64_t)item.number;
        if ((item.field == PRODUCER_NAME &&
             !(producer = tn__onnx_text(&b->reader, &item))) ||
            (item.field == PRODUCER_VERSION &&
             !(version = tn__onnx_text(&b->reader, &item))))
            return false;
        if (item.field == GRAPH && bytes)
            graph = item.bytes;
        if (item.field == OPSET_IMPORT &&
            (!bytes ||
             !tn__onnx_import_read(b, item.bytes, &b->imports)))
            return tn_error() ? false
                              : tn__onnx_malformed(&b->reader,
                                                   "the imports of opsets are "
                                                   "malformed");
        if (item.field == FUNCTIONS &&
            (!bytes || !tn__onnx_function_add(b, item.bytes)))
            return tn_error() ? false
                              : tn__onnx_malformed(&b->reader,
                                                   "a function is malformed");
    }
    if (found < 0)
        return tn__onnx_malformed(
            &b->reader, "the file is not an ONNX model, or is truncated or "
                        "damaged");
    if (!graph.p)
        return tn__onnx_malformed(&b->reader,
                                  "the file is not an ONNX model: it has no "
                                  "graph");
    if (!b->imports.count)
        return tn__onnx_malformed(&b->reader, "the model imports no opset");
    const size_t room = strlen(producer) + strlen(version) + 2;
    char *text = tn__onnx_alloc(&m->arena, room, 1);
    if (!text)
        return false;
    snprintf(text, room, "%s%s%s", producer, *version ? " " : "", version);
    m->producer = text;
    for (int i = 0; i < b->imports.count; i++)
        if (!*b->imports.opset[i].domain)
            m->opset = b->imports.opset[i].version;
    b->read_graph = tn__onnx_graph_read;
    b->read_node = tn__onnx_node_read;
    m->graph = tn__onnx_graph_read(b, NULL, graph, 0);
    return m->graph != NULL;
}
