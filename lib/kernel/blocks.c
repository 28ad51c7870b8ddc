/* blocks.c: unpacks, dequantises and multiplies blocks of quantised numbers, in
 * plain C. The results define what devices with the extension
 * "quantised-product" must compute, to the bit.
 *
 * The formats are defined by the reference implementations in ggml
 * (ggml-quants) and gguf-py. This file uses their names: qs are the low bits of
 * the elements, and qh the high bits. */
#include <kernel/blocks.h>

#include <kernel/narrow_float.h>
#include <math.h>
#include <string.h>

static float half_at(const uint8_t *at)
{
    return tn__narrow_decode(TN_F16, (uint32_t)(at[0] | at[1] << 8));
}

/* ---- blocks of 32 elements ----------------------------------------------- */

/* Unpacks 16 bytes of 4-bit elements: element i is the low half of byte i,
 * element i + 16 its high half. Bit i of high, if used, is the fifth bit of
 * element i. */
static void unpack_nibbles(const uint8_t *qs, uint32_t high, int zero,
                           tn__unpacked *out)
{
    for (int i = 0; i < 16; i++) {
        int fifth = (int)(high >> i & 1) << 4;
        int sixth = (int)(high >> (i + 16) & 1) << 4;
        out->q[i] = (int8_t)(((qs[i] & 15) | fifth) - zero);
        out->q[i + 16] = (int8_t)(((qs[i] >> 4) | sixth) - zero);
    }
}

static uint32_t high_bits(const uint8_t *qh)
{
    return qh[0] | (uint32_t)qh[1] << 8 | (uint32_t)qh[2] << 16 |
           (uint32_t)qh[3] << 24;
}

static void begin(const uint8_t *block, const uint8_t *min, tn__unpacked *out)
{
    out->d = half_at(block);
    out->e = min ? half_at(min) : 0;
    out->scale[0] = 1;
    out->min[0] = min ? 1 : 0;
}

static void unpack_q8_0(const uint8_t *block, tn__unpacked *out)
{
    begin(block, NULL, out);
    memcpy(out->q, block + 2, 32);
}

static void unpack_q4_0(const uint8_t *block, tn__unpacked *out)
{
    begin(block, NULL, out);
    unpack_nibbles(block + 2, 0, 8, out);
}

static void unpack_q4_1(const uint8_t *block, tn__unpacked *out)
{
    begin(block, block + 2, out);
    unpack_nibbles(block + 4, 0, 0, out);
}

static void unpack_q5_0(const uint8_t *block, tn__unpacked *out)
{
    begin(block, NULL, out);
    unpack_nibbles(block + 6, high_bits(block + 2), 16, out);
}

static void unpack_q5_1(const uint8_t *block, tn__unpacked *out)
{
    begin(block, block + 2, out);
    unpack_nibbles(block + 8, high_bits(block + 4), 0, out);
}

/* ---- blocks of 256 elements ---------------------------------------------- */

/* Unpacks 8 scales and 8 minima of 6 bits each from 12 bytes. */
static void unpack_scales(const uint8_t *in, tn__unpacked *out)
{
    for (int p = 0; p < 4; p++) {
        out->scale[p] = in[p] & 63;
        out->min[p] = in[p + 4] & 63;
        out->scale[p + 4] = (in[p + 8] & 15) | in[p] >> 6 << 4;
        out->min[p + 4] = in[p + 8] >> 4 | in[p + 4] >> 6 << 4;
    }
}

/* Unpacks a block of Q4_K, or of Q5_K if qh is not NULL. Each 32 bytes of qs
 * hold two parts: the first in the low halves, the second in the high
 * halves. */
static void unpack_k(const uint8_t *block, const uint8_t *qh, const uint8_t *qs,
                     tn__unpacked *out)
{
    out->d = half_at(block);
    out->e = -half_at(block + 2);
    unpack_scales(block + 4, out);
    for (int i = 0; i < 256; i++) {
        const int part = i / 32, byte = part / 2 * 32 + i % 32;
        int low = part % 2 ? qs[byte] >> 4 : qs[byte] & 15;
        int fifth = qh ? (qh[i % 32] >> part & 1) << 4 : 0;
        out->q[i] = (int8_t)(low | fifth);
    }
}

static void unpack_q4_k(const uint8_t *block, tn__unpacked *out)
{
    unpack_k(block, NULL, block + 16, out);
}

static void unpack_q5_k(const uint8_t *block, tn__unpacked *out)
{
    unpack_k(block, block + 16, block + 48, out);
}

static void unpack_q6_k(const uint8_t *block, tn__unpacked *out)
{
    out->d = half_at(block + 208);
    out->e = 0;
    for (int p = 0; p < 16; p++) {
        out->scale[p] = (int8_t)block[192 + p];
        out->min[p] = 0;
    }
    for (int i = 0; i < 256; i++) {
        const int half = i / 128, quarter = i % 128 / 32;
        const uint8_t *ql = block + 64 * half, *qh = block + 128 + 32 * half;
        const int byte = ql[i % 32 + 32 * (quarter % 2)];
        const int low = quarter < 2 ? byte & 15 : byte >> 4;
        const int high = qh[i % 32] >> 2 * quarter & 3;
        out->q[i] = (int8_t)((low | high << 4) - 32);
    }
}

static const tn__block_format formats[] = {
    {"Q4_0", TN_BLOCK + 2, 32, 18, 1, 0, unpack_q4_0},
    {"Q4_1", TN_BLOCK + 3, 32, 20, 1, 1, unpack_q4_1},
    {"Q5_0", TN_BLOCK + 6, 32, 22, 1, 0, unpack_q5_0},
    {"Q5_1", TN_BLOCK + 7, 32, 24, 1, 1, unpack_q5_1},
    {"Q8_0", TN_BLOCK + 8, 32, 34, 1, 0, unpack_q8_0},
    {"Q4_K", TN_BLOCK + 12, 256, 144, 8, 1, unpack_q4_k},
    {"Q5_K", TN_BLOCK + 13, 256, 176, 8, 1, unpack_q5_k},
    {"Q6_K", TN_BLOCK + 14, 256, 210, 16, 0, unpack_q6_k},
};

const tn__block_format *tn__block_format_find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

/* ---- dequantisation ------------------------------------------------------ */

void tn__blocks_dequantize(const tn__block_format *format,
                           const uint8_t *blocks, int64_t count, float *out)
{
    const int length = format->elements / format->parts;
    tn__unpacked b;
    for (; count > 0; count--, blocks += format->bytes) {
        format->unpack(blocks, &b);
        for (int p = 0; p < format->parts; p++, out += length) {
            const int8_t *q = b.q + p * length;
            const float scale = b.d * (float)b.scale[p];
            const float min = b.e * (float)b.min[p];
            /* A format without minima skips this addition, because adding 0
             * would change -0 to 0. */
            if (format->has_min)
                for (int i = 0; i < length; i++)
                    out[i] = scale * (float)q[i] + min;
            else
                for (int i = 0; i < length; i++)
                    out[i] = scale * (float)q[i];
        }
    }
}

/* ---- products ------------------------------------------------------------ */

/* Rounds a block to 8-bit integers and returns its scale. Compares magnitudes
 * by their bits, because a comparison of floats would ignore a NaN. As
 * integers, the bits of a NaN are greater than the bits of infinity. */
static float round_block(const float *x, int count, int8_t *r)
{
    uint32_t bits, top = 0;
    for (int i = 0; i < count; i++) {
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffff;
        top = bits > top ? bits : top;
    }
    if (!top || top >= 0x7f800000) {
        for (int i = 0; i < count; i++)
            r[i] = 0;
        return top ? NAN : 0;
    }
    float most;
    memcpy(&most, &top, sizeof most);
    const float by = most < 0x1p-100f ? 0x1p100f : 1;
    const float inverse = 127 / (most * by);
    for (int i = 0; i < count; i++)
        r[i] = (int8_t)rintf(x[i] * by * inverse);
    return most / 127;
}

void tn__row_round(const tn__block_format *format, const float *x, int64_t k,
                   tn__rounded_row *out)
{
    const int length = format->elements;
    for (int64_t b = 0; b < k / length; b++)
        out->s[b] = round_block(x + b * length, length, out->r + b * length);
}

float tn__row_product(const tn__block_format *format, const uint8_t *blocks,
                      const tn__rounded_row *row, int64_t k)
{
    const int length = format->elements / format->parts;
    const int8_t *r = row->r;
    tn__unpacked w;
    float sum = 0;
    for (int64_t b = 0; b < k / format->elements; b++) {
        int32_t dot = 0, minus = 0;
        format->unpack(blocks + b * format->bytes, &w);
        for (int p = 0; p < format->parts; p++, r += length) {
            const int8_t *q = w.q + p * length;
            int32_t products = 0, all = 0;
            for (int i = 0; i < length; i++) {
                products += q[i] * r[i];
                all += r[i];
            }
            dot += w.scale[p] * products;
            minus += w.min[p] * all;
        }
        float value = w.d * row->s[b] * (float)dot;
        if (format->has_min)
            value += w.e * row->s[b] * (float)minus;
        sum += value;
    }
    return sum;
}
