/* wire.h: walks messages in the wire format of protobuf, in place. */
#ifndef TN_ONNX_READER_WIRE_H
#define TN_ONNX_READER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tn__onnx_span {
    const uint8_t *p, *end;
} tn__onnx_span;

enum { /* wire types; groups (3 and 4) are not in ONNX */
    TN__WIRE_VARINT = 0, TN__WIRE_64 = 1, TN__WIRE_BYTES = 2, TN__WIRE_32 = 5
};

typedef struct tn__onnx_item {
    uint32_t field;
    int wire;
    uint64_t number;     /* not for TN__WIRE_BYTES */
    tn__onnx_span bytes; /* for TN__WIRE_BYTES */
} tn__onnx_item;

static inline size_t tn__onnx_span_bytes(tn__onnx_span s)
{
    return (size_t)(s.end - s.p);
}

/* Reads a varint and moves s behind it. Returns false if it is malformed. */
bool tn__onnx_varint(tn__onnx_span *s, uint64_t *out);
/* Reads the next field of a message: 1, 0 at its end, or -1 if it is
 * malformed. */
int tn__onnx_next(tn__onnx_span *s, tn__onnx_item *item);

/* Reads elements of a repeated number, which may be packed. Sets *item to the
 * number and returns 1; 0 at the end; -1 if it is malformed. `packed` is a
 * packed list that is being read. width: TN__WIRE_... of an element. */
typedef struct tn__onnx_list {
    tn__onnx_span message, packed;
    uint32_t field;
    int width;
} tn__onnx_list;
int tn__onnx_list_next(tn__onnx_list *list, uint64_t *number);

#endif
