/* read_events.c: reads the scalars of an event file. The data is not trusted. */
#include <media/run/curves.h>
#include <media/run/event_file.h>

#include <math.h>
#include <string.h>

/* ---- messages ------------------------------------------------------------ */

/* A part of the data that is read from its start. */
typedef struct span {
    const unsigned char *at, *end;
} span;

typedef struct field {
    unsigned number, wire;
    uint64_t whole; /* of a varint or fixed field */
    span bytes;     /* of a field with a length */
} field;

static bool take_varint(span *s, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 70 && s->at < s->end; shift += 7) {
        const unsigned char byte = *s->at++;
        if (shift == 63 && byte > 1)
            return false;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

static uint64_t whole_at(const unsigned char *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* Takes the next field of a message. Sets *bad if the message is malformed.
 * Returns false at its end. */
static bool take_field(span *s, field *f, bool *bad)
{
    uint64_t key, length = 0;
    if (s->at == s->end || *bad)
        return false;
    *bad = true;
    if (!take_varint(s, &key) || key >> 3 == 0 || key >> 3 > 536870911)
        return false;
    *f = (field){.number = (unsigned)(key >> 3), .wire = (unsigned)(key & 7)};
    const size_t left = (size_t)(s->end - s->at);
    switch (f->wire) {
    case 0:
        if (!take_varint(s, &f->whole))
            return false;
        break;
    case 1:
    case 5:
        length = f->wire == 1 ? 8 : 4;
        if (length > left)
            return false;
        f->whole = whole_at(s->at, (size_t)length);
        s->at += length;
        break;
    case 2:
        if (!take_varint(s, &length) || length > (size_t)(s->end - s->at))
            return false;
        f->bytes = (span){s->at, s->at + length};
        s->at += length;
        break;
    default:
        return false;
    }
    *bad = false;
    return true;
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double float_of(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

/* ---- scalars ------------------------------------------------------------- */

/* Reads a tensor with one floating-point element, as TensorFlow 2 writes
 * scalars. Returns false for other tensors. */
static bool tensor_scalar(span tensor, double *value, bool *bad)
{
    field f;
    uint64_t dtype = 0;
    int found = 0;
    span content = {0};
    while (take_field(&tensor, &f, bad)) {
        const bool packed = f.wire == 2;
        if (f.number == TENSOR_DTYPE && f.wire == 0)
            dtype = f.whole;
        if (f.number == TENSOR_CONTENT && packed)
            content = f.bytes;
        if ((f.number == TENSOR_FLOAT_VAL || f.number == TENSOR_DOUBLE_VAL)) {
            const size_t each = f.number == TENSOR_FLOAT_VAL ? 4 : 8;
            found++;
            if (packed && (size_t)(f.bytes.end - f.bytes.at) != each)
                found = 2;
            else if (packed)
                f.whole = whole_at(f.bytes.at, each);
            *value = each == 4 ? float_of(f.whole) : double_of(f.whole);
        }
    }
    const size_t bytes = content.at ? (size_t)(content.end - content.at) : 0;
    if (!found && dtype == DT_FLOAT && bytes == 4) {
        *value = float_of(whole_at(content.at, 4));
        found = 1;
    }
    if (!found && dtype == DT_DOUBLE && bytes == 8) {
        *value = double_of(whole_at(content.at, 8));
        found = 1;
    }
    return found == 1 && (dtype == DT_FLOAT || dtype == DT_DOUBLE);
}

typedef struct event {
    tn__curve_list *list;
    const char *run;
    double time, step;
    bool bad, no_memory;
} event;

static void read_value(event *e, span value)
{
    field f;
    span tag = {0};
    double number = NAN;
    bool is_scalar = false;
    while (take_field(&value, &f, &e->bad)) {
        if (f.number == VALUE_TAG && f.wire == 2)
            tag = f.bytes;
        if (f.number == VALUE_SIMPLE_VALUE && f.wire == 5) {
            number = float_of(f.whole);
            is_scalar = true;
        }
        if (f.number == VALUE_TENSOR && f.wire == 2)
            is_scalar = tensor_scalar(f.bytes, &number, &e->bad);
    }
    const size_t bytes = tag.at ? (size_t)(tag.end - tag.at) : 0;
    if (e->bad || !is_scalar || !bytes)
        return;
    e->bad = memchr(tag.at, 0, bytes) != NULL;
    if (!e->bad && !tn__curve_list_add(e->list, e->run, (const char *)tag.at,
                                       bytes, e->step, number, e->time))
        e->no_memory = true;
}

/* The field `step` may come after the summary, so the message is read twice. */
static void read_event(event *e, span message)
{
    field f;
    e->time = e->step = 0;
    for (span s = message; take_field(&s, &f, &e->bad);) {
        if (f.number == EVENT_WALL_TIME && f.wire == 1)
            e->time = double_of(f.whole);
        if (f.number == EVENT_STEP && f.wire == 0)
            e->step = (double)(int64_t)f.whole;
    }
    for (span s = message; take_field(&s, &f, &e->bad);) {
        if (f.number != EVENT_SUMMARY || f.wire != 2)
            continue;
        field inner;
        for (span v = f.bytes; take_field(&v, &inner, &e->bad);)
            if (inner.number == SUMMARY_VALUE && inner.wire == 2 &&
                !e->no_memory)
                read_value(e, inner.bytes);
    }
}

bool tn__curves_are_events(const unsigned char *data, size_t bytes)
{
    return bytes >= TN__RECORD_HEAD &&
           whole_at(data + 8, 4) == tn__record_checksum(data, 8);
}

tn_status tn__curves_read_events(tn__curve_list *list, const char *run,
                                 const char *path, const unsigned char *data,
                                 size_t bytes)
{
    static const char call[] = "curves_add";
    event e = {.list = list, .run = run};
    size_t at = 0;
    while (bytes - at >= TN__RECORD_HEAD) {
        const unsigned char *record = data + at;
        const uint64_t length = whole_at(record, 8);
        const char *wrong = NULL;
        if (whole_at(record + 8, 4) != tn__record_checksum(record, 8))
            wrong = "the checksum of a record's length is wrong";
        else if (length > bytes - at - TN__RECORD_HEAD ||
                 bytes - at - TN__RECORD_HEAD - length < TN__RECORD_TAIL)
            break; /* incomplete */
        else if (whole_at(record + TN__RECORD_HEAD + length, 4) !=
                 tn__record_checksum(record + TN__RECORD_HEAD, (size_t)length))
            wrong = "the checksum of a record is wrong";
        if (!wrong) {
            read_event(&e, (span){record + TN__RECORD_HEAD,
                                  record + TN__RECORD_HEAD + length});
            wrong = e.bad ? "a record is no Event message" : NULL;
        }
        if (wrong)
            return tn_error_refuse_argument(TN_ERR_FORMAT, call, "path",
                                            "%s: byte %zu: %s", path, at,
                                            wrong);
        if (e.no_memory)
            return tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL,
                                            "out of memory");
        at += TN__RECORD_HEAD + (size_t)length + TN__RECORD_TAIL;
    }
    return TN_OK;
}
