/* routines_rows.c: products of rows of a with rows of b, which are contiguous,
 * such as the tokens and the weights of a layer (prim/row_product.c).
 *
 * The sums of an element run along 16 lanes: lane l adds the products whose
 * index is l modulo 16, in rising order, by one fma each. The lanes are then
 * added in pairs, l and l + 8, l and l + 4, l and l + 2, l and l + 1. Every
 * TN_CPU_ROW_DEPTH products make such a sum, and these are added in order. So
 * the bits depend neither on the number of rows nor on the instruction set, as
 * long as it has fma. Nothing is packed, and b is read in the order of memory.
 *
 * A tile of TILE_A rows of a and TILE_B rows of b keeps its lanes in registers.
 * The rows of b are far apart: while a product goes on, each is followed by the
 * one below it, so the processor sees TILE_B long streams. It prefetches these
 * well, and adjacent short rows badly (2048 x 768 float16: 24 GB/s against 9 on
 * Zen 4, memory read by a plain loop 17). */
#include <string.h>

#include "isa.h"
#include "routines.h"
#include "vector.h"
#include "vector_square.h"

enum {
    LANES = 16,
    L = TN_CPU_VECTOR / 4,
    PARTS = LANES / L, /* vectors that hold the lanes of a sum */
#if defined(__AVX512F__)
    TILE_A = 4,
    TILE_B = 4
#elif defined(TN_CPU_PLAIN)
    TILE_A = 1, /* 16 registers, and four for each sum */
    TILE_B = 3
#else
    TILE_A = 2,
    TILE_B = 3
#endif
};

typedef float quad __attribute__((vector_size(16)));
typedef int32_t quad_i32 __attribute__((vector_size(16)));

/* The types of b's elements. Where there are instructions for it, elements of
 * the half types are converted when they are loaded if a has fewer than MANY
 * rows. Otherwise TILE_B rows are converted first. */
enum { WIDE, HALF, BRAIN };
#if defined(__F16C__) || defined(__aarch64__)
enum { MANY = 4 };
#else
enum { MANY = 1 };
static tn_cpu_load *convert[3]; /* the table's */
#endif

static inline __attribute__((always_inline)) vec_f32 load(int type,
                                                          const void *at)
{
#if defined(__AVX512F__)
    if (type == HALF)
        return _mm512_cvtph_ps(_mm256_loadu_si256(at));
    if (type == BRAIN)
        return _mm512_castsi512_ps(_mm512_slli_epi32(
            _mm512_cvtepu16_epi32(_mm256_loadu_si256(at)), 16));
#elif defined(__F16C__)
    if (type == HALF)
        return _mm256_cvtph_ps(_mm_loadu_si128(at));
    if (type == BRAIN)
        return _mm256_castsi256_ps(_mm256_slli_epi32(
            _mm256_cvtepu16_epi32(_mm_loadu_si128(at)), 16));
#elif defined(__aarch64__)
    if (type == HALF)
        return vcvt_f32_f16(vld1_f16(at));
    if (type == BRAIN)
        return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(at), 16));
#endif
    (void)type;
    return (vec_f32) * (const loose_f32 *)at;
}

/* Adds the lanes of a sum, until four are left. */
static inline __attribute__((always_inline)) quad fold(const vec_f32 *s)
{
#if defined(__AVX512F__)
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(*s),
                                      _mm512_extractf32x8_ps(*s, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half),
                      _mm256_extractf128_ps(half, 1));
#elif defined(__AVX__)
    const __m256 half = s[0] + s[1];
    return _mm_add_ps(_mm256_castps256_ps128(half),
                      _mm256_extractf128_ps(half, 1));
#else
    return (s[0] + s[2]) + (s[1] + s[3]);
#endif
}

/* Returns the sums of all lanes of `each` sums. */
static inline __attribute__((always_inline)) quad add_lanes(const int each,
                                                           vec_f32 s[][PARTS])
{
#if defined(__AVX512F__)
    if (each == 4) { /* the same order, with fewer instructions */
        const __m512 a = *s[0], b = *s[1], c = *s[2], d = *s[3];
        const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44),
                                        _mm512_shuffle_f32x4(a, b, 0xee));
        const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44),
                                        _mm512_shuffle_f32x4(c, d, 0xee));
        __m512 all = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88),
                                   _mm512_shuffle_f32x4(ab, cd, 0xdd));
        all = _mm512_add_ps(all, _mm512_permute_ps(all, 0x4e));
        all = _mm512_add_ps(all, _mm512_permute_ps(all, 0xb1));
        const __m512i firsts = _mm512_castsi128_si512(
            _mm_set_epi32(12, 8, 4, 0));
        return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, all));
    }
#endif
    quad row[4] = {{0}};
    for (int j = 0; j < each; j++)
        row[j] = fold(s[j]);
    SQUARE_4(quad, quad_i32)
    return (row[0] + row[2]) + (row[1] + row[3]);
}

/* Stores the sums of one row of c, or adds them to it. */
static inline __attribute__((always_inline)) void
finish(const int each, vec_f32 s[][PARTS], float *c, int64_t c_step, int add)
{
    const quad sum = add_lanes(each, s);
    for (int j = 0; j < each; j++)
        c[j * c_step] = add ? c[j * c_step] + sum[j] : sum[j];
}

/* Computes, or adds to c, the products of k <= TN_CPU_ROW_DEPTH elements.
 * `many` rows of a, `each` rows of b and type are constants where this is
 * inlined. b_row is in bytes. */
static inline __attribute__((always_inline)) void
tile(const int many, const int each, const int type, int64_t k, const float *a,
     int64_t a_row, const char *b, int64_t b_row, float *c, int64_t c_row,
     int64_t c_step, int add)
{
    const int64_t bytes = type == WIDE ? 4 : 2;
    const int64_t whole = k / LANES * LANES;
    vec_f32 s[TILE_A][TILE_B][PARTS];
    for (int i = 0; i < many; i++)
        for (int j = 0; j < each; j++)
            for (int q = 0; q < PARTS; q++)
                s[i][j][q] = (vec_f32){0};
    for (int64_t p = 0; p < whole; p += LANES)
        _Pragma("GCC unroll 4") for (int q = 0; q < PARTS; q++)
        {
            vec_f32 x[TILE_A];
            _Pragma("GCC unroll 4") for (int i = 0; i < many; i++)
                x[i] = load(WIDE, a + i * a_row + p + q * L);
            _Pragma("GCC unroll 4") for (int j = 0; j < each; j++)
            {
                const vec_f32 y =
                    load(type, b + j * b_row + (p + q * L) * bytes);
                _Pragma("GCC unroll 4") for (int i = 0; i < many; i++)
                    s[i][j][q] = TN_CPU_FMA_F32(x[i], y, s[i][j][q]);
            }
        }
    if (whole < k) { /* the last lanes, with zeros in the others */
        const size_t rest = (size_t)(k - whole);
        float x[TILE_A][LANES] = {{0}};
        char y[TILE_B][LANES * 4] = {{0}};
        for (int i = 0; i < many; i++)
            memcpy(x[i], a + i * a_row + whole, rest * 4);
        for (int j = 0; j < each; j++)
            memcpy(y[j], b + j * b_row + whole * bytes, rest * (size_t)bytes);
        for (int i = 0; i < many; i++)
            for (int j = 0; j < each; j++)
                for (int q = 0; q < PARTS; q++)
                    s[i][j][q] = TN_CPU_FMA_F32(
                        load(WIDE, x[i] + q * L),
                        load(type, y[j] + q * L * bytes), s[i][j][q]);
    }
    for (int i = 0; i < many; i++)
        finish(each, s[i], c + i * c_row, c_step, add);
}

/* Converts k elements to float32. */
static inline __attribute__((always_inline)) void widen(int type, float *to,
                                                       const void *from,
                                                       int64_t k)
{
#if defined(__F16C__) || defined(__aarch64__)
    const char *at = from;
    int64_t p = 0;
    for (; p + L <= k; p += L)
        *(loose_f32 *)(to + p) = load(type, at + p * 2);
    if (p < k) {
        char rest[2 * L] = {0};
        memcpy(rest, at + p * 2, (size_t)(k - p) * 2);
        const vec_f32 last = load(type, rest);
        memcpy(to + p, &last, (size_t)(k - p) * 4);
    }
#else
    convert[type](to, from, 1, k);
#endif
}

/* Multiplies m rows of a by `each` rows of b for at most TN_CPU_ROW_DEPTH
 * elements. */
static inline __attribute__((always_inline)) void
part(const int each, const int type, int64_t m, int64_t k, const float *a,
     int64_t a_row, const char *b, int64_t b_row, float *c, int64_t c_row,
     int64_t c_step, int add)
{
    int64_t i = 0;
    if (type == WIDE && each > 1 && TILE_A > 1)
        for (; i + TILE_A <= m; i += TILE_A)
            tile(TILE_A, each, type, k, a + i * a_row, a_row, b, b_row,
                 c + i * c_row, c_row, c_step, add);
    for (; i < m; i++)
        tile(1, each, type, k, a + i * a_row, a_row, b, b_row, c + i * c_row,
             c_row, c_step, add);
}

/* part() of float32, compiled once for all types. */
#define PART(name, each)                                                      \
    static __attribute__((noinline)) void name(                               \
        int64_t m, int64_t k, const float *a, int64_t a_row, const char *b,   \
        int64_t b_row, float *c, int64_t c_row, int64_t c_step, int add)      \
    {                                                                         \
        part(each, WIDE, m, k, a, a_row, b, b_row, c, c_row, c_step, add);    \
    }
PART(part_one, 1)
PART(part_tile, TILE_B)

/* Multiplies each row of a by `each` rows of b, which give columns of c that
 * are c_step apart. */
static inline __attribute__((always_inline)) void
columns(const int each, const int type, int64_t m, int64_t k, const float *a,
        int64_t a_row, const char *b, int64_t b_row, float *c, int64_t c_row,
        int64_t c_step)
{
    float wide[TILE_B][TN_CPU_ROW_DEPTH];
    for (int64_t p = 0; p < k; p += TN_CPU_ROW_DEPTH) {
        const int64_t depth =
            k - p < TN_CPU_ROW_DEPTH ? k - p : TN_CPU_ROW_DEPTH;
        const char *from = b + p * (type == WIDE ? 4 : 2);
        int64_t step = b_row;
        if (type != WIDE && m < MANY) {
            part(each, type, m, depth, a + p, a_row, from, step, c, c_row,
                 c_step, p > 0);
            continue;
        }
        if (type != WIDE) {
            for (int j = 0; j < each; j++)
                widen(type, wide[j], from + j * b_row, depth);
            from = (const char *)wide;
            step = sizeof *wide;
        }
        (each == 1 ? part_one : part_tile)(m, depth, a + p, a_row, from, step,
                                           c, c_row, c_step, p > 0);
    }
}

#define ROWS(name, type)                                                      \
    static void name(int64_t m, int64_t n, int64_t k, const float *a,         \
                     int64_t a_row, const void *b, int64_t b_row, float *c,   \
                     int64_t c_row)                                           \
    {                                                                         \
        const int64_t step = b_row * (type == WIDE ? 4 : 2);                  \
        const int64_t apart = n / TILE_B;                                     \
        const char *row = b;                                                  \
        for (int64_t j = 0; j < apart; j++)                                   \
            columns(TILE_B, type, m, k, a, a_row, row + j * step,             \
                    apart * step, c + j, c_row, apart);                       \
        for (int64_t j = apart * TILE_B; j < n; j++)                          \
            columns(1, type, m, k, a, a_row, row + j * step, 0, c + j, c_row, \
                    0);                                                       \
    }
ROWS(rows_f32, WIDE)
ROWS(rows_f16, HALF)
ROWS(rows_bf16, BRAIN)

void TN_CPU_NAME(tn__cpu_rows)(tn_cpu_routines *table)
{
#if !defined(__F16C__) && !defined(__aarch64__)
    convert[HALF] = table->load[TN_F16];
    convert[BRAIN] = table->load[TN_BF16];
#endif
    table->rows[TN_F32] = rows_f32;
    table->rows[TN_F16] = rows_f16;
    table->rows[TN_BF16] = rows_bf16;
}
