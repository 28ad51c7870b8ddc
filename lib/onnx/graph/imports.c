/* imports.c: the opsets that a model or a function imports. */
#include <onnx/graph/build.h>

#include <string.h>

bool tn__onnx_import_read(tn__onnx_builder *b, tn__onnx_span message,
                          tn__onnx_imports *imports)
{
    tn__onnx_opset o = {"", 0};
    tn__onnx_item item;
    int found;
    while ((found = tn__onnx_next(&message, &item)) > 0) {
        if (item.field == 1 && !(o.domain = tn__onnx_text(&b->reader, &item)))
            return false;
        if (item.field == 2)
            o.version = (int64_t)item.number;
    }
    if (found < 0 || imports->count == TN__ONNX_MAX_OPSETS)
        return tn__onnx_malformed(&b->reader,
                                  "the imports of opsets are malformed");
    if (strcmp(o.domain, "ai.onnx") == 0)
        o.domain = "";
    if (!*o.domain && (o.version < TN__ONNX_FIRST_OPSET ||
                       o.version > TN__ONNX_LAST_OPSET)) {
        tn_error_refuse_argument(
            TN_ERR_UNSUPPORTED, b->reader.call, "path",
            "%s: opset %lld is not supported; opsets %d to %d are supported",
            b->reader.path, (long long)o.version, TN__ONNX_FIRST_OPSET,
            TN__ONNX_LAST_OPSET);
        return false;
    }
    imports->opset[imports->count++] = o;
    return true;
}

int64_t tn__onnx_import_version(const tn__onnx_builder *b, const char *domain)
{
    for (int i = 0; i < b->imports.count; i++)
        if (strcmp(b->imports.opset[i].domain, domain) == 0)
            return b->imports.opset[i].version;
    return -1;
}
