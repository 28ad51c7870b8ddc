/* routines_quantised.c: products with block-quantised weights, in portable C.
 *
 * The loops unpack a row of the weight to integers and multiply it by all
 * tokens (rows of the input). quantised_vnni.inc has faster loops for
 * processors with VNNI. The results of all loops are bit-identical, because
 * integer sums are exact and floats are added in a fixed order. */
#include <math.h>
#include <string.h>

#include "isa.h"
#include "routines.h"

/* ---- the input ----------------------------------------------------------- */

/* Rounds a block of the input to integers and returns its scale. Magnitudes are
 * compared as integers, in which NaN is greater than infinity. */
static float round_block(const float *x, unsigned count, int8_t *r)
{
    const int32_t infinity = 0x7f800000;
    int32_t top = 0;
    for (unsigned i = 0; i < count; i++) {
        int32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffff;
        top = bits > top ? bits : top;
    }
    if (!top || top >= infinity) {
        memset(r, 0, count);
        return top ? NAN : 0;
    }
    float most;
    memcpy(&most, &top, sizeof most);
    const float by = most < 0x1p-100f ? 0x1p100f : 1;
    const float inverse = 127 / (most * by);
    /* Adding 1.5 * 2^23 rounds to an integer, ties to even. */
    for (unsigned i = 0; i < count; i++) {
        const float moved = x[i] * by * inverse + 0x1.8p23f;
        int32_t bits;
        memcpy(&bits, &moved, sizeof bits);
        r[i] = (int8_t)bits;
    }
    return most / 127;
}

static void round_token(const tn_cpu_blocks *format, const float *x, int64_t k,
                        int8_t *r, float *s, int16_t *sums)
{
    const int length = format->elements, part = format->part;
    for (int64_t b = 0; b * length < k; b++)
        s[b] = length == 32 ? round_block(x + b * 32, 32, r + b * 32)
                            : round_block(x + b * 256, 256, r + b * 256);
    for (int64_t p = 0; p * part < k; p++) {
        int sum = 0;
        for (int i = 0; i < part; i++)
            sum += r[p * part + i];
        sums[p] = (int16_t)sum;
    }
}

/* ---- unpacking ----------------------------------------------------------- */

/* A row of the weight, unpacked. An element of part p is d * scale[p] * q + e *
 * min[p]. Formats with blocks of 32 elements have no scale and no min. */
typedef struct row_parts {
    int8_t *q;
    float *d, *e;
    int16_t *scale, *min;
} row_parts;

static float half_at(const uint8_t *at)
{
    const uint32_t code = (uint32_t)(at[0] | at[1] << 8);
    const uint32_t sign = (code & 0x8000) << 16, size = code & 0x7fff;
    uint32_t bits;
    float x;
    if (size >= 0x7c00)
        bits = size > 0x7c00 ? 0x7fc00000 : 0x7f800000;
    else if (size >= 0x400)
        bits = (size << 13) + (112u << 23);
    else {
        x = (float)size * 0x1p-24f; /* a subnormal half */
        memcpy(&bits, &x, sizeof bits);
    }
    bits |= sign;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Unpacks 16 bytes to 32 elements: element i from the low half of byte i,
 * element i + 16 from its high half. */
static inline void nibbles(const uint8_t *qs, int zero, int8_t *q)
{
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)((qs[i] & 15) - zero);
        q[i + 16] = (int8_t)((qs[i] >> 4) - zero);
    }
}

/* Adds 16 to the elements whose bit in qh is set. */
static inline void fifth_bits(const uint8_t *qh, int8_t *q)
{
    uint32_t bits;
    memcpy(&bits, qh, sizeof bits); /* little-endian, like every machine here */
    for (int i = 0; i < 32; i++)
        q[i] = (int8_t)(q[i] + (int)((bits >> i & 1) << 4));
}

static void scales_of_k(const uint8_t *in, int16_t *scale, int16_t *min)
{
    for (int p = 0; p < 4; p++) {
        scale[p] = in[p] & 63;
        min[p] = in[p + 4] & 63;
        scale[p + 4] = (int16_t)((in[p + 8] & 15) | in[p] >> 6 << 4);
        min[p + 4] = (int16_t)(in[p + 8] >> 4 | in[p + 4] >> 6 << 4);
    }
}

/* Unpacks the elements of Q4_K, or of Q5_K if qh is not NULL. */
static inline void elements_of_k(const uint8_t *qs, const uint8_t *qh,
                                 int8_t *q)
{
    for (int p = 0; p < 8; p += 2, qs += 32, q += 64)
        for (int i = 0; i < 32; i++) {
            const int first = qh ? (qh[i] >> p & 1) << 4 : 0;
            const int second = qh ? (qh[i] >> (p + 1) & 1) << 4 : 0;
            q[i] = (int8_t)((qs[i] & 15) | first);
            q[i + 32] = (int8_t)(qs[i] >> 4 | second);
        }
}

static void elements_of_q6(const uint8_t *block, int8_t *q)
{
    for (int half = 0; half < 2; half++, q += 128) {
        const uint8_t *ql = block + 64 * half, *qh = block + 128 + 32 * half;
        for (int i = 0; i < 32; i++) {
            q[i] = (int8_t)(((ql[i] & 15) | (qh[i] & 3) << 4) - 32);
            q[i + 32] =
                (int8_t)(((ql[i + 32] & 15) | (qh[i] >> 2 & 3) << 4) - 32);
            q[i + 64] = (int8_t)((ql[i] >> 4 | (qh[i] >> 4 & 3) << 4) - 32);
            q[i + 96] = (int8_t)((ql[i + 32] >> 4 | qh[i] >> 6 << 4) - 32);
        }
    }
}

enum { Q4_0 = 66, Q4_1 = 67, Q5_0 = 70, Q5_1 = 71, Q8_0 = 72, Q4_K = 76,
       Q5_K = 77, Q6_K = 78 };

static inline int has_min(uint32_t code)
{
    return code == Q4_1 || code == Q5_1 || code == Q4_K || code == Q5_K;
}

static void unpack_block(uint32_t code, const uint8_t *at, int8_t *q, float *d,
                         float *e, int16_t *scale, int16_t *min)
{
    *d = half_at(code == Q6_K ? at + 208 : at);
    if (has_min(code))
        *e = half_at(at + 2);
    switch (code) {
    case Q8_0: memcpy(q, at + 2, 32); break;
    case Q4_0: nibbles(at + 2, 8, q); break;
    case Q4_1: nibbles(at + 4, 0, q); break;
    case Q5_0: nibbles(at + 6, 16, q), fifth_bits(at + 2, q); break;
    case Q5_1: nibbles(at + 8, 0, q), fifth_bits(at + 4, q); break;
    case Q4_K:
    case Q5_K:
        *e = -*e;
        scales_of_k(at + 4, scale, min);
        if (code == Q4_K)
            elements_of_k(at + 16, NULL, q);
        else
            elements_of_k(at + 48, at + 16, q);
        break;
    default:
        for (int p = 0; p < 16; p++)
            scale[p] = (int8_t)at[192 + p];
        elements_of_q6(at, q);
    }
}

static void unpack_row(const tn_cpu_blocks *format, const uint8_t *row,
                       int64_t k, const row_parts *out)
{
    const int parts = format->elements / format->part;
    for (int64_t b = 0; b * format->elements < k; b++, row += format->bytes)
        unpack_block(format->code, row, out->q + b * format->elements,
                     out->d + b, out->e + b, out->scale + b * parts,
                     out->min + b * parts);
}

/* Returns the bytes of scratch memory that a row_parts of k elements needs. */
static int64_t row_bytes_of(int64_t k)
{
    return k + k / 32 * 8 + k / 16 * 4 + 64;
}

static row_parts row_in(void *scratch, int64_t k)
{
    row_parts row = {.d = scratch};
    row.e = row.d + k / 32;
    row.scale = (int16_t *)(row.e + k / 32);
    row.min = row.scale + k / 16;
    row.q = (int8_t *)(row.min + k / 16);
    return row;
}

#ifndef TN_CPU_SPARE
/* ---- products ------------------------------------------------------------ */

static inline int32_t dot_part(const int8_t *q, const int8_t *r, int count)
{
    int32_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += q[i] * r[i];
    return sum;
}

static float multiply_32(const row_parts *w, const int8_t *r, const float *s,
                         const int16_t *sums, int64_t blocks, int min)
{
    float sum = 0;
    for (int64_t b = 0; b < blocks; b++) {
        const int32_t dot = dot_part(w->q + b * 32, r + b * 32, 32);
        float value = w->d[b] * s[b] * (float)dot;
        if (min)
            value += w->e[b] * s[b] * (float)sums[b];
        sum += value;
    }
    return sum;
}

static inline float multiply_256(const row_parts *w, const int8_t *r,
                                 const float *s, const int16_t *sums,
                                 int64_t blocks, int parts, int min)
{
    float sum = 0;
    for (int64_t b = 0; b < blocks; b++) {
        int32_t dot = 0, minus = 0;
        for (int64_t p = b * parts; p < (b + 1) * parts; p++) {
            const int64_t at = p * (256 / parts);
            dot += w->scale[p] * dot_part(w->q + at, r + at, 256 / parts);
            if (min)
                minus += w->min[p] * sums[p];
        }
        float value = w->d[b] * s[b] * (float)dot;
        if (min)
            value += w->e[b] * s[b] * (float)minus;
        sum += value;
    }
    return sum;
}

static void multiply_rows(const tn_cpu_quantised *p, int64_t first,
                          int64_t end, void *scratch)
{
    const tn_cpu_blocks *format = p->format;
    const int64_t blocks = p->k / format->elements;
    const int64_t parts = p->k / format->part;
    const row_parts row = row_in(scratch, p->k);
    const int min = has_min(format->code);
    for (int64_t j = first; j < end; j++) {
        unpack_row(format, p->w + j * p->row_bytes, p->k, &row);
        for (int64_t i = 0; i < p->m; i++) {
            const int8_t *r = p->r + i * p->k;
            const float *s = p->s + i * blocks;
            const int16_t *sums = p->sums + i * parts;
            p->out[i * p->out_step + j] =
                format->elements == 32
                    ? multiply_32(&row, r, s, sums, blocks, min)
                : format->part == 32
                    ? multiply_256(&row, r, s, sums, blocks, 8, 1)
                    : multiply_256(&row, r, s, sums, blocks, 16, 0);
        }
    }
}

static int64_t arranged_none(const tn_cpu_blocks *format, int64_t m, int64_t k)
{
    (void)format, (void)m, (void)k;
    return 0;
}

static int64_t scratch_of_row(const tn_cpu_blocks *format, int64_t m,
                              int64_t k)
{
    (void)format, (void)m;
    return row_bytes_of(k);
}
#endif

#if defined(__AVX512BW__)
#include "quantised_vnni.inc"
#include "quantised_panel.inc"
#endif

void TN_CPU_NAME(tn__cpu_quantised)(tn_cpu_routines *table)
{
#ifndef TN_CPU_SPARE
    static const tn_cpu_quantised_routines plain = {
        round_token, arranged_none, NULL, scratch_of_row, multiply_rows};
    table->quantised = &plain;
#endif
#if defined(__AVX512BW__)
    static const tn_cpu_quantised_routines vnni = {
        round_token, arranged_vnni, arrange_vnni, scratch_vnni, multiply_vnni};
    weight_ahead = table->family->weight_ahead;
    if (__builtin_cpu_supports("avx512vnni"))
        table->quantised = &vnni;
#endif
}
