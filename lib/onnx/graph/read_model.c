/* read_model.c: reads ModelProto: the opsets that it imports, and its graph. */
#include <onnx/graph/build.h>

#include <stdio.h>
#include <string.h>

enum { /* fields of ModelProto */
    IR_VERSION = 1, PRODUCER_NAME = 2, PRODUCER_VERSION = 3, GRAPH = 7,
    OPSET_IMPORT = 8, FUNCTIONS = 25
};

static bool read_opset(tn__onnx_builder *b, tn__onnx_span message)
{
    tn__onnx_opset o = {"", 0};
    tn__onnx_item item;
    int found;
    char text[160];
    while ((found = tn__onnx_next(&message, &item)) > 0) {
        if (item.field == 1 && !(o.domain = tn__onnx_text(&b->reader, &item)))
            return false;
        if (item.field == 2)
            o.version = (int64_t)item.number;
    }
    if (found < 0 || b->opset_count == TN__ONNX_MAX_OPSETS)
        return tn__onnx_malformed(&b->reader,
                                  "the imports of opsets are malformed");
    if (strcmp(o.domain, "ai.onnx") == 0)
        o.domain = "";
    if (!*o.domain) {
        b->model->opset = o.version;
        if (o.version < TN__ONNX_FIRST_OPSET ||
            o.version > TN__ONNX_LAST_OPSET) {
            snprintf(text, sizeof text,
                     "opset %lld is not supported; opsets %d to %d are "
                     "supported",
                     (long long)o.version, TN__ONNX_FIRST_OPSET,
                     TN__ONNX_LAST_OPSET);
            tn_error_refuse_argument(TN_ERR_UNSUPPORTED, b->reader.call, "path",
                                     "%s: %s", b->reader.path, text);
            return false;
        }
    }
    b->opset[b->opset_count++] = o;
    return true;
}

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
            (!bytes || !read_opset(b, item.bytes)))
            return tn_error() ? false
                              : tn__onnx_malformed(&b->reader,
                                                   "the imports of opsets are "
                                                   "malformed");
    }
    if (found < 0)
        return tn__onnx_malformed(
            &b->reader, "the file is not an ONNX model, or is truncated or "
                        "damaged");
    if (!graph.p)
        return tn__onnx_malformed(&b->reader,
                                  "the file is not an ONNX model: it has no "
                                  "graph");
    if (!b->opset_count)
        return tn__onnx_malformed(&b->reader, "the model imports no opset");
    const size_t room = strlen(producer) + strlen(version) + 2;
    char *text = tn__onnx_alloc(&m->arena, room, 1);
    if (!text)
        return false;
    snprintf(text, room, "%s%s%s", producer, *version ? " " : "", version);
    m->producer = text;
    b->read_graph = tn__onnx_read_graph;
    m->graph = tn__onnx_read_graph(b, NULL, graph, 0);
    return m->graph != NULL;
}
