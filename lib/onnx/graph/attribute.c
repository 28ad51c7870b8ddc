/* attribute.c: reads AttributeProto, and puts the attributes of a node in the
 * order of its row in the operator table. */
#include <base/plain.h>
#include <onnx/graph/scope.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { /* fields of AttributeProto */
    NAME = 1, F = 2, I = 3, S = 4, T = 5, G = 6, FLOATS = 7, INTS = 8,
    STRINGS = 9, TENSORS = 10, GRAPHS = 11, TYPE_PROTO = 14, TYPE_PROTOS = 15,
    TYPE = 20, REFERENCE = 21, SPARSE_TENSOR = 22, SPARSE_TENSORS = 23
};

static bool malformed(tn__onnx_builder *b)
{
    return tn__onnx_malformed(&b->reader, "an attribute is malformed");
}

static float float_from(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float f;
    memcpy(&f, &low, sizeof f);
    return f;
}

/* Reads the repeated numbers of `field`. */
static bool read_list(tn__onnx_builder *b, tn__onnx_span message,
                      uint32_t field, tn__onnx_attr *a)
{
    const int width = field == FLOATS ? TN__WIRE_32 : TN__WIRE_VARINT;
    tn__onnx_list list = {.message = message, .field = field, .width = width};
    uint64_t bits;
    int found;
    while ((found = tn__onnx_list_next(&list, &bits)) > 0)
        a->count++;
    if (found < 0)
        return malformed(b);
    const size_t count = (size_t)a->count;
    if (field == FLOATS)
        a->floats = tn__onnx_alloc(b->reader.arena, count, sizeof *a->floats);
    else
        a->ints = tn__onnx_alloc(b->reader.arena, count, sizeof *a->ints);
    if (!a->floats && !a->ints)
        return false;
    list = (tn__onnx_list){.message = message, .field = field, .width = width};
    for (size_t i = 0; tn__onnx_list_next(&list, &bits) > 0; i++) {
        if (field == FLOATS)
            a->floats[i] = float_from(bits);
        else
            a->ints[i] = (int64_t)bits;
    }
    return true;
}

static bool read_strings(tn__onnx_builder *b, tn__onnx_span message,
                         tn__onnx_attr *a)
{
    tn__onnx_item item;
    tn__onnx_span s = message;
    while (tn__onnx_next(&s, &item) > 0)
        a->count += item.field == STRINGS;
    a->strings = tn__onnx_alloc(b->reader.arena, (size_t)a->count,
                                sizeof *a->strings);
    if (!a->strings)
        return false;
    for (int64_t i = 0; tn__onnx_next(&message, &item) > 0;)
        if (item.field == STRINGS &&
            !(a->strings[i++] = tn__onnx_text(&b->reader, &item)))
            return false;
    return true;
}

/* Reads the tensor of an attribute. The tensor stays on the host. */
static bool read_tensor(tn__onnx_builder *b, tn__onnx_span message,
                        tn__onnx_attr *a)
{
    tn__onnx_tensor t;
    if (!tn__onnx_tensor_read(&b->reader, message, &t)) {
        /* tn_onnx_check reports this node as unsupported and continues, because
         * other nodes may be unsupported too */
        if (!b->checks || tn_error_code() != TN_ERR_UNSUPPORTED)
            return false;
        tn_error_clear();
        a->tensor.type = TN__ONNX_STRING;
        return true;
    }
    a->tensor.type = t.type;
    if (b->checks)
        return true;
    tn_device *before = tn_device_current();
    tn_device_set(b->model->host);
    TN_SCOPE(scope) {
        a->tensor.host = tn_keep(tn__onnx_tensor_make(&b->reader, &t));
    }
    tn_device_set(before);
    return a->tensor.host != NULL;
}

enum { FUNCTION_DEFAULT = 11 }; /* a field of FunctionProto */

/* Reads the default of an attribute of the scope's function, if it has one. */
static bool read_default(tn__onnx_builder *b, tn__onnx_scope *s,
                         const char *name, int depth, tn__onnx_attr *out)
{
    tn__onnx_span message = s->function->message;
    tn__onnx_item item;
    while (tn__onnx_next(&message, &item) > 0) {
        if (item.field != FUNCTION_DEFAULT || item.wire != TN__WIRE_BYTES)
            continue;
        tn__onnx_span field = item.bytes;
        tn__onnx_item part;
        while (tn__onnx_next(&field, &part) > 0)
            if (part.field == NAME && part.wire == TN__WIRE_BYTES &&
                tn__onnx_span_bytes(part.bytes) == strlen(name) &&
                memcmp(part.bytes.p, name, strlen(name)) == 0) {
                /* a default cannot refer to an attribute of the call */
                tn__onnx_scope outside = {.names = s->names, .slots = s->slots};
                return tn__onnx_attribute_read(b, &outside, item.bytes, depth,
                                               out);
            }
    }
    return true;
}

/* Replaces a, which refers to the attribute `reference` of the call, by that
 * attribute. */
static bool refer(tn__onnx_builder *b, tn__onnx_scope *s, const char *reference,
                  int depth, tn__onnx_attr *a)
{
    const tn__onnx_attr want = *a;
    if (!s->function)
        return tn__onnx_malformed(&b->reader,
                                  "an attribute outside of a function refers "
                                  "to an attribute of a call");
    *a = (tn__onnx_attr){0};
    for (int i = 0; i < s->call->attr_count; i++)
        if (strcmp(s->call->attrs[i].name, reference) == 0)
            *a = s->call->attrs[i];
    if (a->name)
        tn_keep(a->tensor.host);
    else if (!read_default(b, s, reference, depth, a))
        return false;
    if (a->name && (a->graph || (want.type && a->type != want.type))) {
        tn_drop(a->tensor.host);
        return malformed(b);
    }
    if (a->name)
        a->name = want.name;
    return true;
}

bool tn__onnx_attribute_read(tn__onnx_builder *b, tn__onnx_scope *scope,
                             tn__onnx_span message, int depth,
                             tn__onnx_attr *a)
{
    *a = (tn__onnx_attr){0};
    const char *reference = NULL;
    tn__onnx_item item;
    tn__onnx_span s = message, tensor = {0}, graph = {0};
    int found, seen = 0; /* type of the field that is present */
    while ((found = tn__onnx_next(&s, &item)) > 0) {
        const bool text = item.wire == TN__WIRE_BYTES;
        switch (item.field) {
        case NAME:
            if (!(a->name = tn__onnx_text(&b->reader, &item)))
                return false;
            break;
        case F:
            a->f = float_from(item.number);
            seen = TN__ONNX_A_FLOAT;
            break;
        case I:
            a->i = (int64_t)item.number;
            seen = TN__ONNX_A_INT;
            break;
        case S:
            if (!(a->s = tn__onnx_text(&b->reader, &item)))
                return false;
            seen = TN__ONNX_A_STRING;
            break;
        case T:
            tensor = item.bytes;
            seen = TN__ONNX_A_TENSOR;
            found = text ? 1 : -1;
            break;
        case G:
            graph = item.bytes;
            seen = TN__ONNX_A_GRAPH;
            found = text ? 1 : -1;
            break;
        case FLOATS:
            seen = TN__ONNX_A_FLOATS;
            break;
        case INTS:
            seen = TN__ONNX_A_INTS;
            break;
        case STRINGS:
            seen = TN__ONNX_A_STRINGS;
            break;
        case TENSORS: case GRAPHS: case TYPE_PROTO: case TYPE_PROTOS:
        case SPARSE_TENSOR: case SPARSE_TENSORS:
            seen = -1;
            break;
        case REFERENCE:
            if (!(reference = tn__onnx_text(&b->reader, &item)))
                return false;
            break;
        case TYPE:
            a->type = item.number < 64 ? (int)item.number : -1;
            break;
        default:
            break;
        }
        if (found < 0)
            break;
    }
    if (found < 0 || !a->name)
        return malformed(b);
    if (reference && *reference)
        return refer(b, scope, reference, depth, a);
    if (!a->type || seen < 0)
        a->type = seen;
    if (!a->s)
        a->s = "";
    switch (a->type) {
    case TN__ONNX_A_FLOATS:
        return read_list(b, message, FLOATS, a);
    case TN__ONNX_A_INTS:
        return read_list(b, message, INTS, a);
    case TN__ONNX_A_STRINGS:
        return read_strings(b, message, a);
    case TN__ONNX_A_TENSOR:
        return tensor.p ? read_tensor(b, tensor, a) : malformed(b);
    case TN__ONNX_A_GRAPH:
        if (!graph.p)
            return malformed(b);
        a->graph = b->read_graph(b, scope, graph, depth + 1);
        return a->graph != NULL;
    default:
        return true;
    }
}

/* ---- in the order of the row --------------------------------------------- */

static const char *const type_name[] = {
    "?", "float", "int", "string", "tensor", "graph", "floats", "ints",
    "strings"};

static int type_from(const char *text, size_t length)
{
    for (int i = 1; i <= TN__ONNX_A_STRINGS; i++)
        if (strlen(type_name[i]) == length &&
            strncmp(type_name[i], text, length) == 0)
            return i;
    return 0;
}

/* Makes an attribute from the default that the row of the operator gives. */
static const tn__onnx_attr *make_default(tn__onnx_builder *b, int type,
                                         const char *text, size_t length)
{
    tn__onnx_attr *a = tn__onnx_alloc(b->reader.arena, 1, sizeof *a);
    char *copy = tn__onnx_alloc(b->reader.arena, length + 1, 1);
    if (!a || !copy)
        return NULL;
    memcpy(copy, text, length);
    a->name = "";
    a->type = type;
    a->s = copy;
    a->i = strtoll(copy, NULL, 10);
    a->f = tn__read_float(copy, NULL);
    return a;
}

const char *tn__onnx_bind(tn__onnx_builder *b, tn__onnx_node *node, char *text,
                          size_t room)
{
    int count = 1;
    const char *list = node->row->attributes ? node->row->attributes : "";
    for (const char *p = list; *p; p++)
        count += *p == ' ';
    node->attr = tn__onnx_alloc(b->reader.arena, (size_t)count,
                                sizeof *node->attr);
    if (!node->attr)
        return "out of memory";
    int used = 0, i = 0;
    for (const char *p = list; *p; i++) {
        const size_t name = strcspn(p, ":");
        const char *type = p + name + 1;
        const size_t length = strcspn(type, "=! ");
        const int wanted = type_from(type, length);
        const char *end = type + strcspn(type, " ");
        for (int j = 0; j < node->attr_count; j++) {
            const tn__onnx_attr *a = &node->attrs[j];
            if (strlen(a->name) != name || strncmp(a->name, p, name) != 0)
                continue;
            if (a->type != wanted) {
                snprintf(text, room, "attribute \"%s\" must be of type %s",
                         a->name, type_name[wanted]);
                return text;
            }
            node->attr[i] = a;
            used++;
        }
        if (!node->attr[i] && type[length] == '!') {
            snprintf(text, room, "attribute \"%.*s\" is missing", (int)name, p);
            return text;
        }
        if (!node->attr[i] && type[length] == '=' &&
            !(node->attr[i] =
                  make_default(b, wanted, type + length + 1,
                               (size_t)(end - (type + length + 1)))))
            return "out of memory";
        p = *end ? end + 1 : end;
    }
    if (used == node->attr_count)
        return NULL;
    for (int j = 0; j < node->attr_count; j++) {
        bool known = false;
        for (int k = 0; k < i; k++)
            known = known || node->attr[k] == &node->attrs[j];
        if (!known) {
            snprintf(text, room, "attribute \"%.60s\" is not supported",
                     node->attrs[j].name);
            return text;
        }
    }
    return NULL;
}
