/* message.c: writes protocol buffer messages into memory. */
#include <media/run/message.h>

#include <stdlib.h>
#include <string.h>

/* How a field is stored: the low 3 bits of its key. */
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static void add(tn__message *m, const void *data, size_t count)
{
    if (m->failed || count == 0)
        return;
    if (count > m->room - m->count) {
        size_t room = m->room ? m->room : 256;
        while (room - m->count < count) {
            if (room > SIZE_MAX / 2) {
                m->failed = true;
                return;
            }
            room *= 2;
        }
        unsigned char *grown = realloc(m->data, room);
        if (!grown) {
            m->failed = true;
            return;
        }
        m->data = grown;
        m->room = room;
    }
    memcpy(m->data + m->count, data, count);
    m->count += count;
}

static void add_varint(tn__message *m, uint64_t value)
{
    unsigned char bytes[10];
    size_t count = 0;
    do {
        bytes[count] = (unsigned char)(value & 127);
        value >>= 7;
        if (value)
            bytes[count] |= 128;
        count++;
    } while (value);
    add(m, bytes, count);
}

static void add_fixed(tn__message *m, uint64_t bits, size_t count)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(bits >> 8 * i);
    add(m, bytes, count);
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void add_key(tn__message *m, unsigned field, unsigned wire)
{
    add_varint(m, (uint64_t)field << 3 | wire);
}

void tn__message_whole(tn__message *m, unsigned field, uint64_t value)
{
    add_key(m, field, WIRE_VARINT);
    add_varint(m, value);
}

void tn__message_double(tn__message *m, unsigned field, double value)
{
    add_key(m, field, WIRE_64);
    add_fixed(m, bits_of(value), 8);
}

void tn__message_float(tn__message *m, unsigned field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_key(m, field, WIRE_32);
    add_fixed(m, bits, 4);
}

void tn__message_bytes(tn__message *m, unsigned field, const void *data,
                       size_t count)
{
    add_key(m, field, WIRE_BYTES);
    add_varint(m, count);
    add(m, data, count);
}

void tn__message_text(tn__message *m, unsigned field, const char *text)
{
    tn__message_bytes(m, field, text, strlen(text));
}

void tn__message_doubles(tn__message *m, unsigned field, const double *values,
                         size_t count)
{
    add_key(m, field, WIRE_BYTES);
    add_varint(m, 8 * (uint64_t)count);
    for (size_t i = 0; i < count; i++)
        add_fixed(m, bits_of(values[i]), 8);
}

void tn__message_put(tn__message *m, unsigned field, tn__message *inner)
{
    m->failed = m->failed || inner->failed;
    tn__message_bytes(m, field, inner->data, inner->count);
    tn__message_free(inner);
}

void tn__message_free(tn__message *m)
{
    free(m->data);
    *m = (tn__message){0};
}
