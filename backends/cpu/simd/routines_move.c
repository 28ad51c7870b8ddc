/* routines_move.c: loops that only move data: transposition of matrices by
 * square blocks in registers, copies of rows, and non-temporal stores. */
#include <string.h>

#include "routines.h"
#include "vector_ops.h"
#include "vector_square.h"

#ifdef TN_CPU_STREAMS
#define PUT(to, x)                                                            \
    do {                                                                      \
        if (stream)                                                           \
            stream_vector(to, (vec_i32)(x));                                  \
        else                                                                  \
            memcpy(to, &(x), sizeof(x));                                      \
    } while (0)
#define MAY_STREAM 1
#else
#define PUT(to, x) memcpy(to, &(x), sizeof(x))
#define MAY_STREAM 0
#endif

/* pairs() interleaves two rows (apart is 0), or splits one row into its even
 * and odd elements (apart is 1), N elements of each at a time. The last vectors
 * of a row overlap the previous vectors. If rows have fewer than N elements,
 * does nothing and returns 0. It uses explicit shuffles, because a compiler
 * would generate 2 KiB of code for each such loop. */
#define LACE_4 0, 4, 1, 5
#define LACE_4_HIGH 2, 6, 3, 7
#define EVENS_4 0, 2, 4, 6
#define ODDS_4 1, 3, 5, 7
#define LACE_8 0, 8, 1, 9, 2, 10, 3, 11
#define LACE_8_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define EVENS_8 0, 2, 4, 6, 8, 10, 12, 14
#define ODDS_8 1, 3, 5, 7, 9, 11, 13, 15
#define LACE_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define LACE_16_HIGH                                                          \
    8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define EVENS_16 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODDS_16 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define PAIRS(N)                                                              \
    {                                                                         \
        typedef uint32_t few __attribute__((vector_size(4 * N)));             \
        typedef uint32_t loose                                                \
            __attribute__((vector_size(4 * N), aligned(4), may_alias));       \
        for (; i < n && n >= N; i += N) {                                     \
            i = i + N > n ? n - N : i;                                        \
            const uint32_t *a = m + (apart ? 2 * i : i);                      \
            uint32_t *to = o + (apart ? i : 2 * i);                           \
            few x = *(const loose *)a;                                        \
            few y = *(const loose *)(a + (apart ? N : step));                 \
            few low = apart ? SHUFFLE(few, few, x, y, EVENS_##N)              \
                            : SHUFFLE(few, few, x, y, LACE_##N);              \
            few high = apart ? SHUFFLE(few, few, x, y, ODDS_##N)              \
                             : SHUFFLE(few, few, x, y, LACE_##N##_HIGH);      \
            *(loose *)to = low;                                               \
            *(loose *)(to + (apart ? step : N)) = high;                       \
        }                                                                     \
    }
static inline __attribute__((always_inline)) int
pairs(uint32_t *o, const uint32_t *m, int64_t step, int64_t n, const int apart)
{
    int64_t i = 0;
#if TN_CPU_VECTOR == 64
    PAIRS(16)
#endif
#if TN_CPU_VECTOR >= 32
    PAIRS(8)
#else
    PAIRS(4)
#endif
    return i > 0;
}

/* Transposes two contiguous rows or columns. Returns 0 without doing so for
 * other shapes. */
static int transpose_pairs(uint32_t *o, int64_t out_step, const uint32_t *m,
                      int64_t in_step, int64_t rows, int64_t columns)
{
    if (rows == 2 && out_step == 2)
        return pairs(o, m, in_step, columns, 0);
    return columns == 2 && in_step == 2 && pairs(o, m, out_step, rows, 1);
}

/* Transposes a matrix by strips of N columns. A strip becomes N contiguous
 * rows, which are written in whole cache lines as non-temporal stores need. The
 * last square of a strip and the last strip overlap the previous ones. If fewer
 * than N columns remain, they are loaded as partial vectors, if the set has
 * these.
 *
 * Transpositions with non-temporal stores prefetch the next strip, because the
 * hardware prefetcher does not follow accesses to one cache line of each row.
 * Prefetches 64 rows ahead in the same strip are slower. */
#if defined(__AVX512F__)
#define HAS_PARTS 1
#define LOAD_PART(bits, V, x, m, n) x = (V)load_part_##bits(m, n)
#else
#define HAS_PARTS 0
#define LOAD_PART(bits, V, x, m, n) memcpy(&x, m, sizeof x)
#endif
#define TRANSPOSE(name, T, bits, V, N)                                        \
    static inline __attribute__((always_inline)) void name##_strip(           \
        T *o, int64_t out_step, const T *m, int64_t in_step, int64_t rows,    \
        int64_t n, const int stream)                                          \
    {                                                                         \
        (void)stream;                                                         \
        for (int64_t r = 0; r < rows; r += N) {                               \
            r = r + N > rows ? rows - N : r;                                  \
            const T *from = m + r * in_step;                                  \
            V row[N];                                                         \
            if (stream)                                                       \
                _Pragma("GCC unroll 16") for (int i = 0; i < N; i++)          \
                    __builtin_prefetch(from + i * in_step + N, 0, 2);         \
            _Pragma("GCC unroll 16") for (int i = 0; i < N; i++)              \
                LOAD_PART(bits, V, row[i], from + i * in_step, n);            \
            SQUARE_##N(V, V) _Pragma("GCC unroll 16") for (int i = 0; i < N;  \
                                                           i++) if (i < n)    \
                PUT(o + i * out_step + r, row[i]);                            \
        }                                                                     \
    }                                                                         \
    static void name(void *out, int64_t out_step, const void *memory,         \
                     int64_t in_step, int64_t rows, int64_t columns,          \
                     int stream)                                              \
    {                                                                         \
        T *o = out;                                                           \
        const T *m = memory;                                                  \
        if (bits == 32 &&                                                     \
            transpose_pairs(out, out_step, memory, in_step, rows, columns))   \
            return;                                                           \
        int some = rows >= N && (HAS_PARTS || columns >= N);                  \
        stream = stream && MAY_STREAM && (uintptr_t)out % sizeof(V) == 0 &&   \
                 out_step % N == 0 && rows % N == 0;                          \
        for (int64_t c = 0; c < columns && some; c += N) {                    \
            c = c + N > columns && columns >= N ? columns - N : c;            \
            if (stream && c + N <= columns)                                   \
                name##_strip(o + c * out_step, out_step, m + c, in_step,      \
                             rows, N, 1);                                     \
            else                                                              \
                name##_strip(o + c * out_step, out_step, m + c, in_step,      \
                             rows, columns - c < N ? columns - c : N, 0);     \
        }                                                                     \
        for (int64_t c = 0; c < columns && !some; c++)                        \
            for (int64_t r = 0; r < rows; r++)                                \
                o[c * out_step + r] = m[c + r * in_step];                     \
    }

/* Defines a transposition of elements of 1 or 2 bytes, which moves them one by
 * one. */
#define TRANSPOSE_NARROW(name, T)                                             \
    static void name(void *out, int64_t out_step, const void *memory,         \
                     int64_t in_step, int64_t rows, int64_t columns,          \
                     int stream)                                              \
    {                                                                         \
        T *o = out;                                                           \
        const T *m = memory;                                                  \
        (void)stream;                                                         \
        for (int64_t c = 0; c < columns; c += 16)                             \
            for (int64_t r = 0; r < rows; r++)                                \
                for (int64_t i = c; i < c + 16 && i < columns; i++)           \
                    o[i * out_step + r] = m[i + r * in_step];                 \
    }
TRANSPOSE_NARROW(transpose_1, uint8_t)
TRANSPOSE_NARROW(transpose_2, uint16_t)
#if TN_CPU_VECTOR == 64
TRANSPOSE(transpose_4, uint32_t, 32, vec_u32, 16)
TRANSPOSE(transpose_8, uint64_t, 64, vec_u64, 8)
#elif TN_CPU_VECTOR == 32
TRANSPOSE(transpose_4, uint32_t, 32, vec_u32, 8)
TRANSPOSE(transpose_8, uint64_t, 64, vec_u64, 4)
#else
TRANSPOSE(transpose_4, uint32_t, 32, vec_u32, 4)
TRANSPOSE(transpose_8, uint64_t, 64, vec_u64, 2)
#endif

/* maximum number of bytes of a row that is copied inline; longer rows use
 * memmove */
enum { MOVED = 1024 };

/* Copies rows of at least W bytes, W bytes at a time. The last W bytes of a row
 * may overlap the previous ones. */
#define ROWS(W)                                                               \
    if (bytes >= W) {                                                         \
        typedef char piece                                                    \
            __attribute__((vector_size(W), aligned(1), may_alias));           \
        for (; rows > 0; rows--, to += to_step, from += from_step) {          \
            for (int64_t i = 0; i < bytes - W; i += W)                        \
                *(piece *)(to + i) = *(const piece *)(from + i);              \
            *(piece *)(to + bytes - W) = *(const piece *)(from + bytes - W);  \
        }                                                                     \
        return;                                                               \
    }

static void copy_rows(char *to, int64_t to_step, const char *from,
                      int64_t from_step, int64_t rows, int64_t bytes)
{
    if (bytes == to_step && bytes == from_step) {
        bytes *= rows;
        rows = 1;
    }
    if (bytes > MOVED) {
        for (; rows > 0; rows--, to += to_step, from += from_step)
            memmove(to, from, (size_t)bytes);
        return;
    }
#if TN_CPU_VECTOR == 64
    ROWS(64)
#endif
#if TN_CPU_VECTOR >= 32
    ROWS(32)
#endif
    ROWS(16)
    ROWS(8)
    ROWS(4)
    for (; rows > 0; rows--, to += to_step, from += from_step)
        memcpy(to, from, (size_t)bytes);
}

/* Copies rows as ROWS(W) does, and in the same pass the single elements before
 * and after each row (tn_cpu_edge). A separate pass for each edge would take
 * half as long as the copy. */
#define EDGED_ROWS(W)                                                         \
    if (bytes >= W) {                                                         \
        typedef char piece                                                    \
            __attribute__((vector_size(W), aligned(1), may_alias));           \
        for (; rows > 0; rows--, to += to_step, from += from_step) {          \
            for (int64_t i = 0; i < bytes - W; i += W)                        \
                *(piece *)(to + i) = *(const piece *)(from + i);              \
            *(piece *)(to + bytes - W) = *(const piece *)(from + bytes - W);  \
            memcpy(to + a.at, a.from, 4);                                     \
            memcpy(to + b.at, b.from, 4);                                     \
            a.from += a.step;                                                 \
            b.from += b.step;                                                 \
        }                                                                     \
        return;                                                               \
    }

static void copy_edged(char *to, int64_t to_step, const char *from,
                       int64_t from_step, int64_t rows, int64_t bytes,
                       const tn_cpu_edge edge[2])
{
    tn_cpu_edge a = edge[0], b = edge[1];
#if TN_CPU_VECTOR == 64
    EDGED_ROWS(64)
#endif
#if TN_CPU_VECTOR >= 32
    EDGED_ROWS(32)
#endif
    EDGED_ROWS(16)
}

#ifdef TN_CPU_STREAMS
static void stream(void *memory, const void *block, int64_t bytes,
                   int64_t later)
{
    char *to = memory;
    const char *from = block;
    int64_t ahead = -(int64_t)((uintptr_t)to % TN_CPU_VECTOR);
    ahead = ahead < 0 ? ahead + TN_CPU_VECTOR : 0;
    ahead = ahead < bytes ? ahead : bytes;
    memcpy(to, from, (size_t)ahead);
    for (; ahead + TN_CPU_VECTOR <= bytes; ahead += TN_CPU_VECTOR) {
        vec_i32 x;
        memcpy(&x, from + ahead, sizeof x);
        if (later)
            __builtin_prefetch(from + ahead + later, 0, 3);
        stream_vector(to + ahead, x);
    }
    memcpy(to + ahead, from + ahead, (size_t)(bytes - ahead));
}

static void fence(void)
{
    _mm_sfence();
}
#endif

/* stream_edged() assembles each cache line of contiguous rows in a register.
 * The end of a row and the beginning of the next row are partial vectors. */
#ifdef TN_CPU_LOADS_BITS
enum { LANES = TN_CPU_VECTOR / 4, AHEAD = 4096 /* prefetch distance, bytes */ };

static int32_t edge_of(const tn_cpu_edge *edge, int64_t row)
{
    int32_t x;
    memcpy(&x, edge->from + row * edge->step, 4);
    return x;
}

static void stream_edged(char *memory, const char *from, int64_t from_step,
                         int64_t rows, int64_t count, const tn_cpu_edge *before,
                         const tn_cpu_edge *after)
{
    const uint32_t all = (uint32_t)((1ull << LANES) - 1);
    const int64_t a = before != NULL, b = after != NULL;
    const int64_t length = a + count + b;
    /* at is where the current cache line begins. row is where the current row
     * begins. Both are in elements, relative to the pointer `memory`. */
    int64_t at = -(int64_t)((uintptr_t)memory % TN_CPU_VECTOR / 4), row = 0;
    int32_t *to = (int32_t *)(void *)memory;
    for (int64_t r = 0; r <= rows; r++, row += length, from += from_step) {
        const int there = r < rows;
        for (int64_t i = 0; i < 4 * count; i += 64)
            __builtin_prefetch(from + AHEAD + i, 0, 3);
        for (; at < row + (there ? a : 0); at += LANES) {
            /* k is the number of elements of earlier rows in this vector. */
            const int64_t k = row - at;
            vec_i32 x = {0};
            if (r > 0 && k > 0) {
                x = load_bits(from - from_step + 4 * (count + b - k),
                              ((1u << k) - 1) >> b);
                if (b)
                    x |= bits_of(edge_of(after, r - 1), 1u << (k - 1));
            }
            if (there) {
                x |= load_bits(from - 4 * (k + a), all << (k + a) & all);
                if (a)
                    x |= bits_of(edge_of(before, r), 1u << k & all);
            }
            if ((r > 0 || k == 0) && (there || k == LANES)) {
                stream_vector(to + at, x);
                continue;
            }
            const int64_t first = r > 0 ? 0 : k, end = there ? LANES : k;
            memcpy(to + at + first, (const int32_t *)&x + first,
                   (size_t)(end - first) * 4);
        }
        for (; there && at + LANES <= row + a + count; at += LANES) {
            vec_i32 x;
            memcpy(&x, from + 4 * (at - row - a), sizeof x);
            stream_vector(to + at, x);
        }
    }
}
#endif

void TN_CPU_NAME(tn__cpu_move)(tn_cpu_routines *table)
{
#ifdef TN_CPU_STREAMS
    table->stream = stream;
    table->fence = fence;
#endif
#ifdef TN_CPU_LOADS_BITS
    table->stream_edged = stream_edged;
#endif
    table->copy_rows = copy_rows;
    table->copy_edged = copy_edged;
    table->transpose[1] = transpose_1;
    table->transpose[2] = transpose_2;
    table->transpose[4] = transpose_4;
    table->transpose[8] = transpose_8;
}
