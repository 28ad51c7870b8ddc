/* hash.h: a 128-bit hash of a sequence of 64-bit words, which are added one at
 * a time. It mixes them as MurmurHash3_x64_128 (A. Appleby, public domain). The
 * same words give the same hash on every machine, because the hash names the
 * files of compiled programs. */
#ifndef TN_LIB_BASE_HASH_H
#define TN_LIB_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t tn__hash_rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static inline void tn__hash_word(uint64_t h[2], uint64_t word)
{
    const uint64_t c1 = 0x87c37b91114253d5u, c2 = 0x4cf5ad432745937fu;
    h[0] ^= tn__hash_rotate(word * c1, 31) * c2;
    h[0] = (tn__hash_rotate(h[0], 27) + h[1]) * 5 + 0x52dce729u;
    h[1] ^= tn__hash_rotate(word * c2, 33) * c1;
    h[1] = (tn__hash_rotate(h[1], 31) + h[0]) * 5 + 0x38495ab5u;
}

static inline uint64_t tn__hash_final_mix(uint64_t k)
{
    k = (k ^ k >> 33) * 0xff51afd7ed558ccdu;
    k = (k ^ k >> 33) * 0xc4ceb9fe1a85ec53u;
    return k ^ k >> 33;
}

static inline void tn__hash_finish(uint64_t h[2])
{
    h[0] += h[1];
    h[1] += h[0];
    h[0] = tn__hash_final_mix(h[0]);
    h[1] = tn__hash_final_mix(h[1]);
    h[0] += h[1];
    h[1] += h[0];
}

/* Adds bytes to the hash, followed by their count. */
static inline void tn__hash_bytes(uint64_t h[2], const void *data,
                                  size_t bytes)
{
    const unsigned char *at = data;
    size_t left = bytes;
    for (; left >= sizeof(uint64_t); left -= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        tn__hash_word(h, word);
        at += sizeof word;
    }
    uint64_t last = 0;
    memcpy(&last, at, left);
    tn__hash_word(h, last);
    tn__hash_word(h, bytes);
}

#endif
