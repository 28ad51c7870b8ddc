/* routines_rows.c: products of rows of a with contiguous rows of b, such as the
 * tokens and the weights of a layer (prim/row_product.c).
 *
 * Order of the sums. A sum has 16 lanes. Lane l adds the products whose index
 * is l modulo 16, by increasing index, with one fma each. If fewer than 16
 * products remain at the end, the last lanes add them. Then the lanes are added
 * in pairs: l and l + 8, l and l + 4, l and l + 2, l and l + 1. Each
 * TN_CPU_ROW_DEPTH products make one such sum (the last one has up to 15 more),
 * and these sums are added in order. So results are bit-identical for any
 * number of rows and for every instruction set that has fma.
 *
 * Nothing is packed. A tile of TILE_A rows of a and TILE_B rows of b keeps
 * its lanes in registers. Without 64-byte vectors, it adds the products of
 * half of the lanes first, then those of the other half. With AVX2 on Zen 5,
 * 2048 x 128 x 128 take 101 of at most 130 GFLOP/s so, and 70 with all lanes
 * of tiles of 2 x 3, which load more vectors for each fma. For fewer rows of
 * a, each is multiplied by ROW_B rows of b, which are far apart. The next
 * tile uses the row after each of them, so the processor sees ROW_B long
 * sequential streams, which it prefetches well. It prefetches adjacent short
 * rows badly: for 2048 x 768 float16 on Zen 4, a product reads 24 GB/s from
 * distant rows, 9 GB/s from adjacent ones, and a plain read loop reaches 17
 * GB/s. For many rows of a, the rows of b are adjacent, and the tiles
 * prefetch the next ones: 128 x 768 by 2048 x 768 float32 take 235 of at
 * most 263 GFLOP/s on Zen 5, and 192 with tiles of 4 x 4 of distant rows. With
 * few rows of a, reading b takes as long as the products, so the prefetches are
 * spread over the steps of a tile: 16 x 384 by 1536 x 384 from memory take 110
 * us, and 133 if they follow the tiles, 4 rows 56 us instead of 94. */
#include <string.h>

#include "isa.h"
#include "routines.h"
#include "vector.h"
#include "vector_square.h"

#if defined(TN_CPU_PLAIN) /* the set has 16 registers, and each sum takes four */
#define TILE_ROWS 1
#else
#define TILE_ROWS 4
#endif
enum {
    LANES = 16,
    L = TN_CPU_VECTOR / 4,
    PARTS = LANES / L, /* vectors that hold the lanes of a sum */
    TILE_A = TILE_ROWS,
    TILE_B = PARTS == 1 ? 6 : 3,
    ROW_B = PARTS == 1 ? 4 : 3, /* TILE_B for a single row of a */
    MANY = 16, /* for so many rows of a, rows of b that are not aligned are
                  copied */
    NEAR = 1 << 17, /* bytes of a that stay in the caches beside b */
    LINE = 64  /* bytes of a cache line */
};

/* How many bytes ahead of the loads b is prefetched for one row of a
 * (family.c). */
static int64_t weight_ahead;

typedef float quad __attribute__((vector_size(16)));
typedef int32_t quad_i32 __attribute__((vector_size(16)));

/* The dtypes of b: float32, float16, bfloat16. Elements of the half types are
 * converted when they are loaded if there is one row of a. Otherwise, and on
 * processors that cannot load half types, the rows of a tile are converted
 * first. */
enum { WIDE, HALF, BRAIN };

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
        return vcvt_f32_f16(vld1_f16((const float16_t *)at));
    if (type == BRAIN)
        return vreinterpretq_f32_u32(
            vshll_n_u16(vld1_u16((const uint16_t *)at), 16));
#endif
    (void)type;
    return (vec_f32) * (const loose_f32 *)at;
}

/* Adds the lanes of a sum until four lanes are left. */
static inline __attribute__((always_inline)) quad add_to_four(const vec_f32 *s)
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

/* Adds the lanes of each of the first `each` sums. Element j of the result is
 * sum j. */
static inline __attribute__((always_inline)) quad add_lanes(const int each,
                                                           vec_f32 s[][PARTS])
{
#if defined(__AVX512F__)
    if (each == 4) { /* the same order of additions, with fewer instructions */
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
#elif defined(__AVX__)
    if (each == 4) {
        const __m256 a = s[0][0] + s[0][1], b = s[1][0] + s[1][1];
        const __m256 c = s[2][0] + s[2][1], d = s[3][0] + s[3][1];
        const __m256 ab = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20),
                                        _mm256_permute2f128_ps(a, b, 0x31));
        const __m256 cd = _mm256_add_ps(_mm256_permute2f128_ps(c, d, 0x20),
                                        _mm256_permute2f128_ps(c, d, 0x31));
        __m256 all = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44),
                                   _mm256_shuffle_ps(ab, cd, 0xee));
        all = _mm256_add_ps(all, _mm256_permute_ps(all, 0xb1));
        return _mm_blend_ps(_mm256_castps256_ps128(all),
                            _mm256_extractf128_ps(all, 1), 10);
    }
#endif
    quad row[4] = {{0}};
    for (int j = 0; j < each; j++)
        row[j] = add_to_four(s[j]);
    SQUARE_4(quad, quad_i32)
    return (row[0] + row[2]) + (row[1] + row[3]);
}

/* Stores the sums of a tile in c. With `add`, adds them to c. */
static inline __attribute__((always_inline)) void
finish(const int many, const int each, vec_f32 s[][PARTS], float *c,
       int64_t c_row, int64_t c_step, int add)
{
    float sum[TILE_A * TILE_B + 3];
    _Pragma("GCC unroll 8") for (int i = 0; i < many * each; i += 4)
    {
        const int some = many * each - i < 4 ? many * each - i : 4;
        const quad four = add_lanes(some, s + i);
        memcpy(sum + i, &four, sizeof four);
    }
    for (int i = 0; i < many; i++, c += c_row)
        _Pragma("GCC unroll 6") for (int j = 0; j < each; j++)
        {
            const float before = add ? c[j * c_step] : 0;
            c[j * c_step] = add ? before + sum[i * each + j]
                                : sum[i * each + j];
        }
}

/* Returns the elements of v where the mask is set, and zeros elsewhere. */
static inline __attribute__((always_inline)) vec_f32 keep(vec_f32 v,
                                                         vec_i32 mask)
{
    return (vec_f32)((vec_i32)v & mask);
}

/* Adds products to `parts` vectors of each of `many` x `each` sums, which begin
 * at lane L * first. With `last`, adds only the products whose mask is set. The
 * smaller side of the tile stays in registers. */
static inline __attribute__((always_inline)) void
add_products(const int many, const int each, const int first, const int parts,
             const int type, const int last, const int32_t *mask,
             const float *a, int64_t a_row, const char *b, int64_t b_row,
             vec_f32 s[][PARTS])
{
    const int64_t bytes = type == WIDE ? 4 : 2;
    _Pragma("GCC unroll 4") for (int r = 0; r < parts; r++)
    {
        const int q = first + r;
        vec_f32 v[TILE_A], w[TILE_B];
        vec_i32 kept = {0};
        if (last)
            memcpy(&kept, mask + q * L, sizeof kept);
        _Pragma("GCC unroll 6") for (int j = 0; many > each && j < each; j++)
        {
            w[j] = load(type, b + j * b_row + q * L * bytes);
            w[j] = last ? keep(w[j], kept) : w[j];
        }
        _Pragma("GCC unroll 4") for (int i = 0; i < many; i++)
        {
            v[i] = load(WIDE, a + i * a_row + q * L);
            v[i] = last ? keep(v[i], kept) : v[i];
            _Pragma("GCC unroll 6") for (int j = 0; many > each && j < each;
                                         j++)
                s[i * each + j][r] =
                    TN_CPU_FMA_F32(v[i], w[j], s[i * each + j][r]);
        }
        _Pragma("GCC unroll 6") for (int j = 0; many <= each && j < each; j++)
        {
            w[j] = load(type, b + j * b_row + q * L * bytes);
            w[j] = last ? keep(w[j], kept) : w[j];
            _Pragma("GCC unroll 4") for (int i = 0; i < many; i++)
                s[i * each + j][r] =
                    TN_CPU_FMA_F32(v[i], w[j], s[i * each + j][r]);
        }
    }
}

/* Computes the products of `many` rows of a and `each` rows of b. Stores them
 * in c, or with `add` adds them to c. Columns of c are c_step elements apart. k
 * is at least LANES. b_row is in bytes. Several rows prefetch next_step bytes
 * from `next` on for each LANES products, so that the processor reads the next
 * rows of b while it computes. */
#define TILE_ARGUMENTS                                                        \
    int64_t k, const float *a, int64_t a_row, const char *b, int64_t b_row,   \
        float *c, int64_t c_row, int64_t c_step, int add, const char *next,   \
        int64_t next_step
static inline __attribute__((always_inline)) void
tile(const int many, const int each, const int type, TILE_ARGUMENTS)
{
    static const int32_t mask[2 * LANES] = {[LANES] = -1, -1, -1, -1, -1, -1,
                                            -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                            -1};
    const int64_t bytes = type == WIDE ? 4 : 2, rest = k % LANES;
    /* vectors of a sum at once */
    const int parts = many == 1 || PARTS == 1 ? PARTS : PARTS / 2;
    vec_f32 all[TILE_A * TILE_B][PARTS];
    _Pragma("GCC unroll 4") for (int q = 0; q < PARTS; q += parts)
    {
        vec_f32 s[TILE_A * TILE_B][PARTS];
        _Pragma("GCC unroll 24") for (int i = 0; i < many * each; i++)
            _Pragma("GCC unroll 4") for (int r = 0; r < parts; r++)
                s[i][r] = (vec_f32){0};
        for (int64_t p = 0; p + LANES <= k; p += LANES) {
            _Pragma("GCC unroll 6") for (int j = 0; many == 1 && j < each; j++)
                if (type == WIDE || p % (2 * LANES) == 0)
                    __builtin_prefetch(b + j * b_row + p * bytes +
                                       weight_ahead);
            if (many > 1 && q == 0) {
                for (int64_t at = 0; at < next_step; at += LINE)
                    __builtin_prefetch(next + at, 0, 3);
                next += next_step;
            }
            add_products(many, each, q, parts, type, 0, NULL, a + p, a_row,
                         b + p * bytes, b_row, s);
        }
        if (rest)
            add_products(many, each, q, parts, type, 1, mask + rest,
                         a + k - LANES, a_row, b + (k - LANES) * bytes, b_row,
                         s);
        _Pragma("GCC unroll 24") for (int i = 0; i < many * each; i++)
            _Pragma("GCC unroll 4") for (int r = 0; r < parts; r++)
                all[i][q + r] = s[i][r];
        /* Without this, gcc keeps sums of one half in registers that the loop
         * of the other half needs. */
        if (parts < PARTS)
            __asm__ volatile("" : : "r"(all) : "memory");
    }
    finish(many, each, all, c, c_row, c_step, add);
}

typedef void tile_loop(TILE_ARGUMENTS);
#define TILE(name, many, each, type)                                          \
    static __attribute__((noinline)) void name(TILE_ARGUMENTS)                \
    {                                                                         \
        tile(many, each, type, k, a, a_row, b, b_row, c, c_row, c_step, add,  \
             next, next_step);                                                \
    }
#if TILE_ROWS > 1
TILE(tile_of_rows, TILE_A, TILE_B, WIDE)
#endif
TILE(tile_of_row, 1, ROW_B, WIDE)
TILE(tile_of_one, 1, 1, WIDE)

/* The functions that read b, for one dtype. widen converts elements to float32;
 * it is NULL for float32. row is NULL if elements must be converted before the
 * product. */
typedef struct kind {
    int64_t bytes;
    tile_loop *row; /* multiplies one row of a by ROW_B rows of b */
    tn_cpu_load *widen;
} kind;

#if defined(__F16C__) || defined(__aarch64__)
TILE(tile_of_half, 1, ROW_B, HALF)
TILE(tile_of_brain, 1, ROW_B, BRAIN)

#define WIDEN(name, type)                                                     \
    static void name(void *to, const void *from, int64_t step, int64_t k)     \
    {                                                                         \
        (void)step; /* 1 */                                                   \
        float *out = to;                                                      \
        const char *at = from;                                                \
        for (; k >= L; k -= L, out += L, at += 2 * L)                         \
            *(loose_f32 *)out = load(type, at);                               \
        if (k) {                                                              \
            char rest[2 * L] = {0};                                           \
            memcpy(rest, at, (size_t)k * 2);                                  \
            const vec_f32 last = load(type, rest);                            \
            memcpy(out, &last, (size_t)k * 4);                                \
        }                                                                     \
    }
WIDEN(widen_half, HALF)
WIDEN(widen_brain, BRAIN)
static const kind wide = {4, tile_of_row, NULL};
static const kind half = {2, tile_of_half, widen_half};
static const kind brain = {2, tile_of_brain, widen_brain};
#else
static const kind wide = {4, tile_of_row, NULL};
static kind half = {2, NULL, NULL}, brain = {2, NULL, NULL};
#endif

/* Compiles the loops around the tiles with O2, because O3 gains little here. */
#if defined(__OPTIMIZE__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O2")
#endif

/* How the rows are multiplied: `rows` rows of a by `each` rows of b at once. */
typedef struct tiling {
    const kind *type;
    int rows, each;
    int64_t next, apart; /* how many rows of b are between row i of a tile and
                            row i of the next one, and between rows of a tile */
} tiling;

/* Part of a product: what a tile's function needs besides a and the sums. */
typedef struct part {
    int64_t depth;
    const char *b;
    int64_t b_row; /* in bytes */
    int add;
    /* Memory that the tiles prefetch: `bytes` bytes from `next` on, or none. */
    const char *next;
    int64_t bytes;
} part;

/* Multiplies m rows of a by way->each rows of b, and stores or adds the sums. If
 * m is not a multiple of way->rows, the last tile begins within the one before
 * it, and only its new rows are stored. */
static __attribute__((noinline)) void
columns(const tiling *way, int64_t m, part p, const float *a, int64_t a_row,
        float *c, int64_t c_row)
{
    _Alignas(LINE) float converted[TILE_B][TN_CPU_ROW_DEPTH + LANES];
    const kind *type = way->type;
    const int rows = way->rows;
    tile_loop *loop = way->each == 1 ? tile_of_one
                      : type->row    ? type->row
                                     : tile_of_row;
#if TILE_ROWS > 1
    if (rows > 1)
        loop = tile_of_rows;
#endif
    /* loads from rows that are not aligned cross cache lines */
    const int copies = type->widen ? loop != type->row
                                   : m >= MANY && (uintptr_t)p.b % LINE;
    if (copies) {
        for (int j = 0; j < way->each; j++)
            if (type->widen)
                type->widen(converted[j], p.b + j * p.b_row, 1, p.depth);
            else
                memcpy(converted[j], p.b + j * p.b_row, (size_t)p.depth * 4);
        p.b = (const char *)converted;
        p.b_row = sizeof *converted;
    }
    /* bytes to prefetch for a tile, and for each step of it. A few are
     * prefetched after the tile. */
    const int64_t some = p.bytes * rows / m, most = some * LANES / p.depth;
    const int64_t step = most < LINE ? 0 : most;
    for (int64_t i = 0; i + rows <= m; i += rows, p.next += some) {
        loop(p.depth, a + i * a_row, a_row, p.b, p.b_row, c + i * c_row, c_row,
             way->apart, p.add, p.next, step);
        for (int64_t at = 0; !step && at < some; at += LINE)
            __builtin_prefetch(p.next + at, 0, 3);
    }
    if (m % rows) {
        float sums[TILE_A * TILE_B];
        loop(p.depth, a + (m - rows) * a_row, a_row, p.b, p.b_row, sums,
             TILE_B, 1, 0, p.next, step);
        for (int64_t i = m - m % rows; i < m; i++)
            for (int64_t j = 0; j < way->each; j++) {
                float *to = &c[i * c_row + j * way->apart];
                const float sum = sums[(i - m + rows) * TILE_B + j];
                *to = p.add ? *to + sum : sum;
            }
    }
}

/* Multiplies m rows of a by `count` times way->each rows of b. If a fits the
 * caches, b is read once from its beginning to its end. */
static __attribute__((noinline)) void
tiles(const tiling *way, int64_t count, int64_t m, int64_t k, const float *a,
      int64_t a_row, const char *b, int64_t b_row, float *c, int64_t c_row)
{
    const int64_t step = way->next * b_row;
    const int64_t each = m * k * 4 <= NEAR ? 1 : count; /* tiles at once */
    const int64_t bytes = way->rows == 1 ? 0 : way->each * b_row;
    for (int64_t first = 0; first < count; first += each)
        for (int64_t at = 0, depth; at < k; at += depth) {
            depth =
                k - at < TN_CPU_ROW_DEPTH + LANES ? k - at : TN_CPU_ROW_DEPTH;
            for (int64_t j = first; j < first + each; j++) {
                const char *from = b + j * step;
                part p = {depth, from + at * way->type->bytes,
                          way->apart * b_row, at > 0, from + step, 0};
                if (each == 1) { /* the next rows, in parts */
                    p.next += bytes * at / k;
                    p.bytes = bytes * depth / k;
                } else if (at == 0) {
                    p.bytes = bytes;
                }
                columns(way, m, p, a + at, a_row, c + j * way->next, c_row);
            }
        }
}

/* Multiplies m rows of a. If n is not a multiple of the rows in a tile, the last
 * tile begins within the one before it, and computes some columns again. */
static __attribute__((noinline)) void
multiply(const kind *type, int64_t m, int64_t n, int64_t k, const float *a,
         int64_t a_row, const char *b, int64_t b_row, float *c, int64_t c_row)
{
    const int rows = m < TILE_A || n < TILE_B ? 1 : TILE_A;
    const int each = rows > 1 ? TILE_B : ROW_B;
    const int64_t count = n / each;
    tiling way = {type, rows, each, each, rows > 1 ? 1 : count};
    b_row *= type->bytes;
    if (rows > 1)
        tiles(&way, count, m, k, a, a_row, b, b_row, c, c_row);
    else /* reads the streams to the end of a row before the next row */
        for (int64_t j = 0; j < count; j++)
            tiles(&way, 1, m, k, a, a_row, b + j * b_row, b_row, c + j, c_row);
    if (!count) {
        way.rows = way.each = 1;
        way.next = way.apart = 1;
        tiles(&way, n, m, k, a, a_row, b, b_row, c, c_row);
    } else if (n % each) {
        way.apart = 1;
        tiles(&way, 1, m, k, a, a_row, b + (n - each) * b_row, b_row,
              c + n - each, c_row);
    }
}

#define ROWS(name, type)                                                      \
    static void name(int64_t m, int64_t n, int64_t k, const float *a,         \
                     int64_t a_row, const void *b, int64_t b_row, float *c,   \
                     int64_t c_row)                                           \
    {                                                                         \
        multiply(&type, m, n, k, a, a_row, b, b_row, c, c_row);               \
    }
ROWS(rows_f32, wide)
ROWS(rows_f16, half)
ROWS(rows_bf16, brain)

#if defined(__AVX512F__)
#include "rows_bf16.inc"
#endif

void TN_CPU_NAME(tn__cpu_rows)(tn_cpu_routines *table)
{
#if !defined(__F16C__) && !defined(__aarch64__)
    half.widen = table->load[TN_F16];
    brain.widen = table->load[TN_BF16];
#endif
    weight_ahead = table->family->weight_ahead;
    table->rows[TN_F32] = rows_f32;
    table->rows[TN_F16] = rows_f16;
    table->rows[TN_BF16] = rows_bf16;
#if defined(__AVX512F__)
    if (__builtin_cpu_supports("avx512bf16"))
        table->bf16_rows = rows_of_dots;
#endif
}
#if defined(__OPTIMIZE__) && !defined(__clang__)
#pragma GCC pop_options
#endif
