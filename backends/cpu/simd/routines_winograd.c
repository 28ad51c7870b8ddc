/* routines_winograd.c: the transforms of Winograd convolution
 * (conv_winograd.c), with one tile of a row in each lane. Rows of tiles are
 * short, so there are loops for three vector widths. */
#include <stdbool.h>

#include "routines.h"
#include "vector.h"

#if defined(TN_CPU_EVENS) && !defined(TN_CPU_PLAIN)

typedef float loose_4
    __attribute__((vector_size(16), aligned(4), may_alias));
typedef float loose_8
    __attribute__((vector_size(32), aligned(4), may_alias));
typedef float loose_16
    __attribute__((vector_size(64), aligned(4), may_alias));

#define EVENS_4(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODDS_4(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define EVENS_8(a, b)                                                         \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODDS_8(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define EVENS_16(a, b)                                                        \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22,  \
                            24, 26, 28, 30)
#define ODDS_16(a, b)                                                         \
    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23,  \
                            25, 27, 29, 31)
#define LOW_4(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH_4(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define LOW_8(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_8(a, b)                                                          \
    __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW_16(a, b)                                                          \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,   \
                            6, 22, 7, 23)
#define HIGH_16(a, b)                                                         \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,   \
                            29, 14, 30, 15, 31)

enum { WIDEST = TN_CPU_VECTOR / sizeof(float) };

/* `left` is the number of tiles that are left in a row. width_within() returns
 * the number of lanes (16, 8 or 4) of the widest vector that they fill, and 4
 * if they fill none. width_around() returns the number of lanes of the
 * narrowest vector that holds them all, or of the widest vector if none does.
 */
static inline int64_t width_within(int64_t left)
{
    return WIDEST >= 16 && left >= 16 ? 16 : WIDEST >= 8 && left >= 8 ? 8 : 4;
}

static inline int64_t width_around(int64_t left)
{
    return left <= 4 || WIDEST == 4 ? 4 : left <= 8 || WIDEST == 8 ? 8 : 16;
}

/* Splits rows into even and odd columns. If a row ends within a vector, its
 * last vectors overlap the previous ones. */
static void split(float *out, int64_t half, const float *in, int64_t in_row,
                  int64_t rows, int64_t columns, int64_t first)
{
    float *even = out + first % 2 * half + first / 2;
    float *odd = out + (first + 1) % 2 * half + (first + 1) / 2;
    for (; rows > 0; rows--, in += in_row, even += 2 * half, odd += 2 * half) {
        int64_t j = 0;
#if TN_CPU_VECTOR >= 64
        for (; j + 32 <= columns; j += 32) {
            loose_16 a = *(const loose_16 *)(in + j);
            loose_16 b = *(const loose_16 *)(in + j + 16);
            *(loose_16 *)(even + j / 2) = EVENS_16(a, b);
            *(loose_16 *)(odd + j / 2) = ODDS_16(a, b);
        }
#endif
        for (; WIDEST >= 8 && j + 16 <= columns; j += 16) {
            loose_8 a = *(const loose_8 *)(in + j);
            loose_8 b = *(const loose_8 *)(in + j + 8);
            *(loose_8 *)(even + j / 2) = EVENS_8(a, b);
            *(loose_8 *)(odd + j / 2) = ODDS_8(a, b);
        }
        for (; columns >= 8 && j + 1 < columns; j += 8) {
            j = j + 8 > columns ? (columns - 8) & ~(int64_t)1 : j;
            loose_4 a = *(const loose_4 *)(in + j);
            loose_4 b = *(const loose_4 *)(in + j + 4);
            *(loose_4 *)(even + j / 2) = EVENS_4(a, b);
            *(loose_4 *)(odd + j / 2) = ODDS_4(a, b);
        }
        for (; j < columns; j++)
            (j % 2 ? odd : even)[j / 2] = in[j];
    }
}

/* Transforms each window d to B^T d B, where the rows of B^T are (1, 0, -1, 0),
 * (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1). A window of one row becomes d
 * B. */
#define WINDOWS(width)                                                        \
    static inline __attribute__((always_inline)) void row_##width(            \
        loose_##width h[4], const float *in, int64_t half)                    \
    {                                                                         \
        loose_##width d0 = *(const loose_##width *)in;                        \
        loose_##width d1 = *(const loose_##width *)(in + half);               \
        loose_##width d2 = *(const loose_##width *)(in + 1);                  \
        loose_##width d3 = *(const loose_##width *)(in + half + 1);           \
        h[0] = d0 - d2;                                                       \
        h[1] = d1 + d2;                                                       \
        h[2] = d2 - d1;                                                       \
        h[3] = d1 - d3;                                                       \
    }                                                                         \
    static inline __attribute__((always_inline)) void line_windows_##width(   \
        float *out, int64_t plane, const float *in, int64_t half)             \
    {                                                                         \
        loose_##width h[4];                                                   \
        row_##width(h, in, half);                                             \
        for (int j = 0; j < 4; j++, out += plane)                             \
            *(loose_##width *)out = h[j];                                     \
    }                                                                         \
    static inline __attribute__((always_inline)) void windows_##width(        \
        float *out, int64_t plane, const float *in, int64_t half)             \
    {                                                                         \
        loose_##width h[4][4];                                                \
        for (int i = 0; i < 4; i++, in += 2 * half)                           \
            row_##width(h[i], in, half);                                      \
        for (int j = 0; j < 4; j++, out += plane) {                           \
            *(loose_##width *)out = h[0][j] - h[2][j];                        \
            *(loose_##width *)(out + 4 * plane) = h[1][j] + h[2][j];          \
            *(loose_##width *)(out + 8 * plane) = h[2][j] - h[1][j];          \
            *(loose_##width *)(out + 12 * plane) = h[1][j] - h[3][j];         \
        }                                                                     \
    }

/* Transforms the sums m of a tile to its pixels A^T m A, where the rows of A^T
 * are (1, 1, 1, 0), (0, 1, -1, -1). For tiles of one row the pixels are m A. */
#define RESULTS(width)                                                        \
    static inline __attribute__((always_inline)) void pixels_##width(         \
        float *out, const loose_##width s[4], float bias)                     \
    {                                                                         \
        loose_##width a = s[0] + s[1] + s[2] + bias;                          \
        loose_##width b = s[1] - s[2] - s[3] + bias;                          \
        *(loose_##width *)out = LOW_##width(a, b);                            \
        *(loose_##width *)(out + width) = HIGH_##width(a, b);                 \
    }                                                                         \
    static inline __attribute__((always_inline)) void line_results_##width(   \
        float *out, const float *in, int64_t plane, float bias)               \
    {                                                                         \
        loose_##width s[4];                                                   \
        for (int j = 0; j < 4; j++, in += plane)                              \
            s[j] = *(const loose_##width *)in;                                \
        pixels_##width(out, s, bias);                                         \
    }                                                                         \
    static inline __attribute__((always_inline)) void results_##width(        \
        float *out, int64_t row, const float *in, int64_t plane, float bias)  \
    {                                                                         \
        loose_##width s[2][4];                                                \
        for (int j = 0; j < 4; j++, in += plane) {                            \
            loose_##width m0 = *(const loose_##width *)in;                    \
            loose_##width m1 = *(const loose_##width *)(in + 4 * plane);      \
            loose_##width m2 = *(const loose_##width *)(in + 8 * plane);      \
            loose_##width m3 = *(const loose_##width *)(in + 12 * plane);     \
            s[0][j] = m0 + m1 + m2;                                           \
            s[1][j] = m1 - m2 - m3;                                           \
        }                                                                     \
        for (int i = 0; i < 2; i++, out += row)                               \
            pixels_##width(out, s[i], bias);                                  \
    }

#define CASE_4(call, ...) call##_4(__VA_ARGS__);
WINDOWS(4)
RESULTS(4)
#if TN_CPU_VECTOR >= 32
WINDOWS(8)
RESULTS(8)
#define CASE_8(call, ...)                                                     \
    if (width == 8)                                                           \
        call##_8(__VA_ARGS__);                                                \
    else
#else
#define CASE_8(call, ...)
#endif
#if TN_CPU_VECTOR >= 64
WINDOWS(16)
RESULTS(16)
#define CASE_16(call, ...)                                                    \
    if (width == 16)                                                          \
        call##_16(__VA_ARGS__);                                               \
    else
#else
#define CASE_16(call, ...)
#endif
#define BY_WIDTH(call, ...)                                                   \
    CASE_16(call, __VA_ARGS__)                                                \
    CASE_8(call, __VA_ARGS__)                                                 \
    CASE_4(call, __VA_ARGS__)

static void windows(float *out, int64_t plane, const float *in, int64_t half,
                    int64_t count)
{
    for (int64_t q = 0, width; q < count; q += width) {
        width = width_around(count - q);
        BY_WIDTH(windows, out + q, plane, in + q, half)
    }
}

static void line_windows(float *out, int64_t plane, const float *in,
                         int64_t half, int64_t count)
{
    for (int64_t q = 0, width; q < count; q += width) {
        width = width_around(count - q);
        BY_WIDTH(line_windows, out + q, plane, in + q, half)
    }
}

/* A tile at the edge of the image may have fewer pixels: stores only the first
 * rows x columns results of `in` to out. */
static void store_some(float *out, int64_t out_row, int64_t rows,
                       int64_t columns, const float *in, int64_t in_row)
{
    for (; rows > 0; rows--, out += out_row, in += in_row)
        for (int64_t j = 0; j < columns; j++)
            out[j] = in[j];
}

static inline __attribute__((always_inline)) void
results_of(const int high, float *out, int64_t out_row, int64_t rows,
           int64_t columns, const float *in, int64_t plane, float bias)
{
    float room[2][2 * WIDEST];
    const int64_t count = (columns + 1) / 2;
    for (int64_t q = 0, width; q < count; q += width) {
        width = width_within(count - q);
        /* If less than a vector is left, computes some results of the previous
         * step again. */
        if (count - q < 4 && q > 0)
            q = count - 4;
        const int64_t left = columns - 2 * q;
        const bool whole = left >= 2 * width && rows == high;
        float *to = whole ? out + 2 * q : room[0];
        const int64_t row = whole ? out_row : 2 * WIDEST;
        if (high == 1) {
            BY_WIDTH(line_results, to, in + q, plane, bias)
        } else {
            BY_WIDTH(results, to, row, in + q, plane, bias)
        }
        if (!whole)
            store_some(out + 2 * q, out_row, rows,
                       left < 2 * width ? left : 2 * width, room[0], row);
    }
}

static void line_results(float *out, int64_t out_row, int64_t rows,
                         int64_t columns, const float *in, int64_t plane,
                         float bias)
{
    results_of(1, out, out_row, rows, columns, in, plane, bias);
}

static void results(float *out, int64_t out_row, int64_t rows,
                    int64_t columns, const float *in, int64_t plane,
                    float bias)
{
    results_of(2, out, out_row, rows, columns, in, plane, bias);
}

/* Transforms each of eight adjacent filters g of one row to G g. The rows of G
 * are (1, 0, 0), (1/2, 1/2, 1/2), (1/2, -1/2, 1/2), (0, 0, 1). */
static void line_filters(float *out, int64_t plane, const float *in,
                         int64_t step)
{
    loose_8 g0 = *(const loose_8 *)in;
    loose_8 g1 = *(const loose_8 *)(in + step);
    loose_8 g2 = *(const loose_8 *)(in + 2 * step), sum = g0 + g2;
    *(loose_8 *)out = g0;
    *(loose_8 *)(out + plane) = (sum + g1) * 0.5f;
    *(loose_8 *)(out + 2 * plane) = (sum - g1) * 0.5f;
    *(loose_8 *)(out + 3 * plane) = g2;
}

/* Transforms each of eight adjacent filters g of 3 x 3 to G g G^T. The rows of
 * G are (1, 0, 0), (1/2, 1/2, 1/2), (1/2, -1/2, 1/2), (0, 0, 1). */
static void filters(float *out, int64_t plane, const float *in, int64_t step)
{
    loose_8 h[4][3];
    for (int j = 0; j < 3; j++, in += step) {
        loose_8 g0 = *(const loose_8 *)in;
        loose_8 g1 = *(const loose_8 *)(in + 3 * step);
        loose_8 g2 = *(const loose_8 *)(in + 6 * step);
        h[0][j] = g0;
        h[1][j] = (g0 + g2 + g1) * 0.5f;
        h[2][j] = (g0 + g2 - g1) * 0.5f;
        h[3][j] = g2;
    }
    for (int i = 0; i < 4; i++, out += 4 * plane) {
        loose_8 sum = h[i][0] + h[i][2];
        *(loose_8 *)out = h[i][0];
        *(loose_8 *)(out + plane) = (sum + h[i][1]) * 0.5f;
        *(loose_8 *)(out + 2 * plane) = (sum - h[i][1]) * 0.5f;
        *(loose_8 *)(out + 3 * plane) = h[i][2];
    }
}

/* Transforms the gradients of two adjacent results, dy, to A dy, with one
 * channel in each lane. */
static void line_cotangents(float *out, int64_t plane, const float *in,
                            int64_t in_row, int64_t width, int64_t count)
{
    (void)in_row;
    for (int64_t t = 0; t < count; t++, in += width)
        for (int64_t o = 0; o < width; o += WIDEST, in += WIDEST,
                     out += WIDEST) {
            vec_f32 y0 = *(const loose_f32 *)in;
            vec_f32 y1 = *(const loose_f32 *)(in + width);
            *(loose_f32 *)out = y0;
            *(loose_f32 *)(out + plane) = y0 + y1;
            *(loose_f32 *)(out + 2 * plane) = y0 - y1;
            *(loose_f32 *)(out + 3 * plane) = -y1;
        }
}

/* Transforms the gradients of 2 x 2 results, dY, to A dY A^T, with one channel
 * in each lane. */
static void cotangents(float *out, int64_t plane, const float *in,
                       int64_t in_row, int64_t width, int64_t count)
{
    for (int64_t t = 0; t < count; t++, in += 2 * width, out += width)
        for (int64_t o = 0; o < width; o += WIDEST) {
            vec_f32 h[4][2];
            for (int j = 0; j < 2; j++) {
                const float *from = in + j * width + o;
                vec_f32 y0 = *(const loose_f32 *)from;
                vec_f32 y1 = *(const loose_f32 *)(from + in_row);
                h[0][j] = y0;
                h[1][j] = y0 + y1;
                h[2][j] = y0 - y1;
                h[3][j] = -y1;
            }
            float *to = out + o;
            for (int i = 0; i < 4; i++, to += 4 * plane) {
                *(loose_f32 *)to = h[i][0];
                *(loose_f32 *)(to + plane) = h[i][0] + h[i][1];
                *(loose_f32 *)(to + 2 * plane) = h[i][0] - h[i][1];
                *(loose_f32 *)(to + 3 * plane) = -h[i][1];
            }
        }
}

/* Computes the gradients of the weights of filters of one row, G^T s, from the
 * sums s, with one filter in each lane. Writes three rows of out. */
static void line_taps(float *out, int64_t width, const float *in,
                      int64_t plane)
{
    for (int64_t o = 0; o < width; o += WIDEST, in += WIDEST, out += WIDEST) {
        vec_f32 s1 = *(const loose_f32 *)(in + plane) * 0.5f;
        vec_f32 s2 = *(const loose_f32 *)(in + 2 * plane) * 0.5f;
        *(loose_f32 *)out = *(const loose_f32 *)in + (s1 + s2);
        *(loose_f32 *)(out + width) = s1 - s2;
        *(loose_f32 *)(out + 2 * width) =
            *(const loose_f32 *)(in + 3 * plane) + (s1 + s2);
    }
}

/* Computes the gradients of the weights of filters of 3 x 3, G^T s G, from the
 * sums s, with one filter in each lane. Writes nine rows of out. */
static void taps(float *out, int64_t width, const float *in, int64_t plane)
{
    for (int64_t o = 0; o < width; o += WIDEST) {
        const float *from = in + o;
        vec_f32 h[3][4];
        for (int j = 0; j < 4; j++, from += plane) {
            vec_f32 s1 = *(const loose_f32 *)(from + 4 * plane) * 0.5f;
            vec_f32 s2 = *(const loose_f32 *)(from + 8 * plane) * 0.5f;
            h[0][j] = *(const loose_f32 *)from + (s1 + s2);
            h[1][j] = s1 - s2;
            h[2][j] = *(const loose_f32 *)(from + 12 * plane) + (s1 + s2);
        }
        float *to = out + o;
        for (int i = 0; i < 3; i++, to += 3 * width) {
            vec_f32 s1 = h[i][1] * 0.5f, s2 = h[i][2] * 0.5f;
            *(loose_f32 *)to = h[i][0] + (s1 + s2);
            *(loose_f32 *)(to + width) = s1 - s2;
            *(loose_f32 *)(to + 2 * width) = h[i][3] + (s1 + s2);
        }
    }
}

void TN_CPU_NAME(tn__cpu_winograd)(tn_cpu_routines *table)
{
    static const tn_cpu_winograd_routines line = {
        split, line_windows, line_results, line_filters, line_cotangents,
        line_taps};
    static const tn_cpu_winograd_routines square = {
        split, windows, results, filters, cotangents, taps};
    table->winograd[0] = &line;
    table->winograd[1] = &square;
}

#else

void TN_CPU_NAME(tn__cpu_winograd)(tn_cpu_routines *table)
{
    table->winograd[0] = table->winograd[1] = NULL;
}

#endif
