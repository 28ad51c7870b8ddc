/* utf8.h: decodes and encodes UTF-8. */
#ifndef TN_LIB_BASE_UTF8_H
#define TN_LIB_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { TN__NOT_UTF8 = -1, TN__UNICODE_COUNT = 0x110000 };

/* Decodes the UTF-8 character at data[*at] and advances *at past it. Returns
 * TN__NOT_UTF8 if the character is truncated, longer than necessary, a UTF-16
 * surrogate, or beyond Unicode. */
static inline int32_t tn__utf8_next(const unsigned char *data, size_t count,
                                    size_t *at)
{
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = data[*at];
    int length = first < 0x80             ? 1
                 : (first & 0xe0) == 0xc0 ? 2
                 : (first & 0xf0) == 0xe0 ? 3
                 : (first & 0xf8) == 0xf0 ? 4
                                          : 0;
    if (!length || count - *at < (size_t)length)
        return TN__NOT_UTF8;
    int32_t code = length == 1 ? first : first & (0x7f >> length);
    for (int i = 1; i < length; i++) {
        unsigned char next = data[*at + (size_t)i];
        if ((next & 0xc0) != 0x80)
            return TN__NOT_UTF8;
        code = code << 6 | (next & 0x3f);
    }
    if (code < least[length] || code >= TN__UNICODE_COUNT ||
        (code >= 0xd800 && code < 0xe000))
        return TN__NOT_UTF8;
    *at += (size_t)length;
    return code;
}

/* Encodes a character as UTF-8 and returns the number of bytes, at most
 * four. */
static inline size_t tn__utf8_put(char *out, int32_t code)
{
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    const int rest = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    out[0] = (char)(lead[rest] | code >> 6 * rest);
    for (int i = 1; i <= rest; i++)
        out[i] = (char)(0x80 | (code >> 6 * (rest - i) & 0x3f));
    return (size_t)rest + 1;
}

static inline bool tn__utf8_is(const char *text)
{
    size_t count = strlen(text), at = 0;
    while (at < count)
        if (tn__utf8_next((const unsigned char *)text, count, &at) ==
            TN__NOT_UTF8)
            return false;
    return true;
}

#endif
