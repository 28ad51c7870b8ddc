/* xxh64.h: XXH64 (Y. Collet, the xxHash specification, version 0.1.1), which
 * finds damage in files, not forgery. Other programs can compute it, too:
 * `xxhsum -H64`. */
#ifndef TN_LIB_PARALLEL_XXH64_H
#define TN_LIB_PARALLEL_XXH64_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct tn__xxh64 {
    uint64_t lane[4], total;
    unsigned char rest[32]; /* bytes that do not fill a block yet */
} tn__xxh64;

#define TN__XXH64_1 0x9e3779b185ebca87u
#define TN__XXH64_2 0xc2b2ae3d27d4eb4fu
#define TN__XXH64_3 0x165667b19e3779f9u
#define TN__XXH64_4 0x85ebca77c2b2ae63u
#define TN__XXH64_5 0x27d4eb2f165667c5u

static inline uint64_t tn__xxh64_turn(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

/* Reads `count` bytes as a little-endian number. */
static inline uint64_t tn__xxh64_read(const unsigned char *at, int count)
{
    uint64_t x = 0;
    for (int i = 0; i < count; i++)
        x |= (uint64_t)at[i] << 8 * i;
    return x;
}

static inline uint64_t tn__xxh64_round(uint64_t lane, uint64_t word)
{
    return tn__xxh64_turn(lane + word * TN__XXH64_2, 31) * TN__XXH64_1;
}

static inline void tn__xxh64_begin(tn__xxh64 *h)
{
    *h = (tn__xxh64){.lane = {TN__XXH64_1 + TN__XXH64_2, TN__XXH64_2, 0,
                              0 - TN__XXH64_1}};
}

static inline void tn__xxh64_block(tn__xxh64 *h, const unsigned char *at)
{
    for (int i = 0; i < 4; i++)
        h->lane[i] = tn__xxh64_round(h->lane[i], tn__xxh64_read(at + 8 * i, 8));
}

static inline void tn__xxh64_add(tn__xxh64 *h, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    size_t held = h->total % 32;
    h->total += bytes;
    if (held && bytes) {
        const size_t more = bytes < 32 - held ? bytes : 32 - held;
        memcpy(h->rest + held, at, more);
        at += more;
        bytes -= more;
        held += more;
        if (held < 32)
            return;
        tn__xxh64_block(h, h->rest);
    }
    for (; bytes >= 32; at += 32, bytes -= 32)
        tn__xxh64_block(h, at);
    if (bytes)
        memcpy(h->rest, at, bytes);
}

static inline uint64_t tn__xxh64_end(const tn__xxh64 *h)
{
    static const int turn[4] = {1, 7, 12, 18};
    uint64_t x = TN__XXH64_5;
    if (h->total >= 32) {
        x = 0;
        for (int i = 0; i < 4; i++)
            x += tn__xxh64_turn(h->lane[i], turn[i]);
        for (int i = 0; i < 4; i++)
            x = (x ^ tn__xxh64_round(0, h->lane[i])) * TN__XXH64_1 + TN__XXH64_4;
    }
    x += h->total;
    const unsigned char *at = h->rest;
    size_t left = h->total % 32;
    for (; left >= 8; at += 8, left -= 8)
        x = tn__xxh64_turn(x ^ tn__xxh64_round(0, tn__xxh64_read(at, 8)), 27) *
                TN__XXH64_1 + TN__XXH64_4;
    if (left >= 4) {
        x = tn__xxh64_turn(x ^ tn__xxh64_read(at, 4) * TN__XXH64_1, 23) *
                TN__XXH64_2 + TN__XXH64_3;
        at += 4;
        left -= 4;
    }
    for (; left; at++, left--)
        x = tn__xxh64_turn(x ^ *at * TN__XXH64_5, 11) * TN__XXH64_1;
    x = (x ^ x >> 33) * TN__XXH64_2;
    x = (x ^ x >> 29) * TN__XXH64_3;
    return x ^ x >> 32;
}

#endif
