/* wire.c: the wire format of protobuf. Source: protobuf.dev, Encoding. */
#include <onnx/reader/wire.h>

#include <string.h>

bool tn__onnx_varint(tn__onnx_span *s, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (s->p == s->end)
            return false;
        const uint8_t byte = *s->p++;
        if (shift == 63 && byte > 1)
            return false;
        value |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128)) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool fixed(tn__onnx_span *s, int bytes, uint64_t *out)
{
    if (s->end - s->p < bytes)
        return false;
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)s->p[i] << (8 * i);
    s->p += bytes;
    *out = value;
    return true;
}

static bool number(tn__onnx_span *s, int wire, uint64_t *out)
{
    switch (wire) {
    case TN__WIRE_VARINT:
        return tn__onnx_varint(s, out);
    case TN__WIRE_64:
        return fixed(s, 8, out);
    case TN__WIRE_32:
        return fixed(s, 4, out);
    default:
        return false;
    }
}

int tn__onnx_next(tn__onnx_span *s, tn__onnx_item *item)
{
    uint64_t key, length;
    if (s->p == s->end)
        return 0;
    if (!tn__onnx_varint(s, &key) || key >> 3 == 0 || key >> 32)
        return -1;
    *item = (tn__onnx_item){.field = (uint32_t)(key >> 3), .wire = key & 7};
    if (item->wire != TN__WIRE_BYTES)
        return number(s, item->wire, &item->number) ? 1 : -1;
    if (!tn__onnx_varint(s, &length) || length > tn__onnx_span_bytes(*s))
        return -1;
    item->bytes = (tn__onnx_span){s->p, s->p + length};
    s->p += length;
    return 1;
}

int tn__onnx_list_next(tn__onnx_list *list, uint64_t *out)
{
    tn__onnx_item item;
    while (list->packed.p == list->packed.end) {
        const int found = tn__onnx_next(&list->message, &item);
        if (found <= 0)
            return found;
        if (item.field != list->field)
            continue;
        if (item.wire == list->width) {
            *out = item.number;
            return 1;
        }
        if (item.wire != TN__WIRE_BYTES)
            return -1;
        list->packed = item.bytes;
    }
    return number(&list->packed, list->width, out) ? 1 : -1;
}
