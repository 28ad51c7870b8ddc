/* wire.h: reads messages in the wire format of protobuf, without copying. */
#ifndef TN_ONNX_READER_WIRE_H
#define TN_ONNX_READER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tn__onnx_span {
    const uint8_t *p, *end;
} tn__onnx_span;

enum { /* wire types; ONNX does not use groups (3 and 4) */
    TN__WIRE_VARINT = 0, TN__WIRE_64 = 1, TN__WIRE_BYTES = 2, TN__WIRE_32 = 5
};

typedef struct tn__onnx_item {
    uint32_t field;
    int wire;
    uint64_t number;     /* for all types except TN__WIRE_BYTES */
    tn__onnx_span bytes; /* for TN__WIRE_BYTES */
} tn__onnx_item;

static inline size_t tn__onnx_span_bytes(tn__onnx_span s)
{
    return (size_t)(s.end - s.p);
}

/* Reads a varint and moves s past it. Returns false if it is malformed. */
bool tn__onnx_varint(tn__onnx_span *s, uint64_t *out);
/* Reads the next field of a message. Returns 1, or 0 at the end of the message,
 * or -1 if the field is malformed. */
int tn__onnx_next(tn__onnx_span *s, tn__onnx_item *item);

/* Reads the elements of a repeated number, which may be packed. `width` is the
 * wire type of an element. `packed` is the rest of the packed list that is
 * being read. The reading function sets *item to the next number and returns 1,
 * or returns 0 at the end, or -1 if the list is malformed. */
typedef struct tn__onnx_list {
    tn__onnx_span message, packed;
    uint32_t field;
    int width;
} tn__onnx_list;
int tn__onnx_list_next(tn__onnx_list *list, uint64_t *number);

#endif
