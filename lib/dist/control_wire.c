/* control_wire.c: messages of the control plane: see control_wire.h. Anyone can
 * send bytes to the port, so nothing is believed before it is checked. */
#include <dist/control_wire.h>

#include <string.h>

static unsigned char *put(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *at++ = (unsigned char)(value >> 8 * i);
    return at;
}

static uint64_t get(const unsigned char **at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)*(*at)++ << 8 * i;
    return value;
}

size_t tn__wire_write(const tn__wire *m, unsigned char out[TN__WIRE_MOST])
{
    const size_t bytes = TN__WIRE_FIXED + m->record_bytes + m->position_bytes +
                         m->text_bytes;
    unsigned char *at = put(out, bytes, 4);
    at = put(at, m->type, 4);
    at = put(at, m->state, 4);
    at = put(at, (uint32_t)m->rank, 4);
    at = put(at, (uint32_t)m->to, 4);
    at = put(at, m->group, 8);
    at = put(at, m->sequence, 8);
    at = put(at, m->check, 8);
    at = put(at, m->value, 8);
    at = put(at, m->silent_ns, 8);
    at = put(at, m->record_bytes, 2);
    at = put(at, m->position_bytes, 2);
    at = put(at, m->text_bytes, 2);
    memcpy(at, m->record, m->record_bytes);
    at += m->record_bytes;
    memcpy(at, m->position, m->position_bytes);
    at += m->position_bytes;
    memcpy(at, m->text, m->text_bytes);
    return bytes;
}

int tn__wire_read(const unsigned char *data, size_t bytes, tn__wire *out)
{
    if (bytes < 8)
        return 0;
    const unsigned char *at = data;
    const uint64_t length = get(&at, 4);
    out->type = (uint32_t)get(&at, 4);
    if (length < TN__WIRE_FIXED || length > TN__WIRE_MOST || out->type == 0 ||
        out->type >= TN__WIRE_END)
        return -1;
    if (bytes < length)
        return 0;
    out->state = (uint32_t)get(&at, 4);
    out->rank = (int32_t)(uint32_t)get(&at, 4);
    out->to = (int32_t)(uint32_t)get(&at, 4);
    out->group = get(&at, 8);
    out->sequence = get(&at, 8);
    out->check = get(&at, 8);
    out->value = get(&at, 8);
    out->silent_ns = get(&at, 8);
    out->record_bytes = (uint32_t)get(&at, 2);
    out->position_bytes = (uint32_t)get(&at, 2);
    out->text_bytes = (uint32_t)get(&at, 2);
    if (out->record_bytes > sizeof out->record ||
        out->position_bytes > sizeof out->position ||
        out->text_bytes >= sizeof out->text ||
        TN__WIRE_FIXED + out->record_bytes + out->position_bytes +
                out->text_bytes != length)
        return -1;
    memcpy(out->record, at, out->record_bytes);
    at += out->record_bytes;
    memcpy(out->position, at, out->position_bytes);
    at += out->position_bytes;
    for (uint32_t i = 0; i < out->text_bytes; i++) {
        if (at[i] < ' ')
            return -1;
        out->text[i] = (char)at[i];
    }
    out->text[out->text_bytes] = 0;
    return (int)length;
}

void tn__wire_set_text(tn__wire *m, const char *text)
{
    uint32_t n = 0;
    for (; text[n] && n + 1 < sizeof m->text; n++)
        m->text[n] = (unsigned char)text[n] < ' ' ? ' ' : text[n];
    m->text[n] = 0;
    m->text_bytes = n;
}

bool tn__token_is(const unsigned char *a, const unsigned char *b, size_t bytes)
{
    volatile unsigned char differs = 0;
    for (size_t i = 0; i < bytes; i++)
        differs = (unsigned char)(differs | (a[i] ^ b[i]));
    return differs == 0;
}
