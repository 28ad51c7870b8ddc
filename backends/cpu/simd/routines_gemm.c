/* routines_gemm.c: matrix products of integers and bool, and the loops of float
 * products (float_product.c). The tiles of float products are in
 * conv_loops.inc, because convolution uses them too.
 *
 * For integers, b is copied to panels of PANEL columns and at most DEPTH rows,
 * which stay in L1. The loop multiplies ROWS rows of a by a panel. The ROWS x
 * PANEL sums stay in registers. If k exceeds DEPTH, the products of several
 * panels are added to c one after the other. */
#include <string.h>

#include "isa.h"
#include "routines.h"
#include "vector.h"

enum { ROWS = 4, DEPTH = 256 };

#define PLUS(x, y) ((x) + (y))
#define TIMES(x, y) ((x) * (y))
#define EITHER(x, y) ((x) | (y))
#define BOTH(x, y) ((x) & (y))

/* TILE defines the function that multiplies ROWS rows of a by a panel (packed
 * columns of b). A panel has WIDE vectors of columns. */
#define TILE(name, T, WIDE, plus, times)                                      \
    typedef T name##_vec __attribute__((vector_size(TN_CPU_VECTOR)));         \
    enum { name##_panel = WIDE * TN_CPU_VECTOR / sizeof(T) };                 \
    static void name##_tile(int64_t k, const T *const *row, int64_t a_column, \
                            const name##_vec *b, name##_vec *sums)            \
    {                                                                         \
        name##_vec s[ROWS][WIDE] = {0};                                       \
        for (int64_t p = 0; p < k; p++, b += WIDE)                            \
            for (int i = 0; i < ROWS; i++) {                                  \
                name##_vec x = (name##_vec){0} + row[i][p * a_column];        \
                for (int v = 0; v < WIDE; v++)                                \
                    s[i][v] = plus(s[i][v], times(x, b[v]));                  \
            }                                                                 \
        memcpy(sums, s, sizeof s);                                            \
    }
#define GEMM(name, T, WIDE, plus, times)                                      \
    static void name(int64_t m, int64_t n, int64_t k, const void *pa,         \
                     int64_t a_row, int64_t a_column, const void *pb,         \
                     int64_t b_row, int64_t b_column, void *pc,               \
                     int64_t c_row, int64_t c_column, const void *palpha,     \
                     const void *pbeta)                                       \
    {                                                                         \
        enum { PANEL = name##_panel };                                        \
        name##_vec into[WIDE * DEPTH], out[ROWS * WIDE];                      \
        T *packed = (T *)into, *sums = (T *)out;                              \
        T alpha = *(const T *)palpha, beta = *(const T *)pbeta;               \
        const T *a = pa, *b = pb;                                             \
        T *c = pc;                                                            \
        for (int64_t j0 = 0; j0 < n; j0 += PANEL) {                           \
            int64_t width = n - j0 < PANEL ? n - j0 : PANEL;                  \
            for (int64_t p0 = 0; p0 == 0 || p0 < k; p0 += DEPTH) {            \
                int64_t depth = k - p0 < DEPTH ? k - p0 : DEPTH;              \
                for (int64_t p = 0; p < depth; p++)                           \
                    if (b_column == 1 && width == PANEL)                      \
                        memcpy(packed + p * PANEL,                            \
                               b + (p0 + p) * b_row + j0, PANEL * sizeof *b); \
                    else                                                      \
                        for (int64_t j = 0; j < PANEL; j++)                   \
                            packed[p * PANEL + j] =                           \
                                j < width ? b[(p0 + p) * b_row +              \
                                              (j0 + j) * b_column]            \
                                          : (T)0;                             \
                for (int64_t i0 = 0; i0 < m; i0 += ROWS) {                    \
                    const T *row[ROWS];                                       \
                    int64_t rows = m - i0 < ROWS ? m - i0 : ROWS;             \
                    /* If fewer than ROWS rows are left,
                     * repeats the last one. */                 \
                    for (int64_t i = 0; i < ROWS; i++)                        \
                        row[i] = a + p0 * a_column +                          \
                                 (i0 + (i < rows ? i : rows - 1)) * a_row;    \
                    name##_tile(depth, row, a_column, into, out);             \
                    for (int v = 0; v < ROWS * WIDE; v++)                     \
                        out[v] = times((name##_vec){0} + alpha, out[v]);      \
                    for (int64_t i = 0; i < rows; i++)                        \
                        if (c_column == 1 && width == PANEL && p0 == 0 &&     \
                            beta == 0)                                        \
                            memcpy(c + (i0 + i) * c_row + j0,                 \
                                   sums + i * PANEL, PANEL * sizeof *c);      \
                        else                                                  \
                            for (int64_t j = 0; j < width; j++) {             \
                                T *to = c + (i0 + i) * c_row +                \
                                        (j0 + j) * c_column;                  \
                                T s = sums[i * PANEL + j];                    \
                                if (p0 > 0)                                   \
                                    s = (T)plus(*to, s);                      \
                                else if (beta != 0)                           \
                                    s = (T)plus(s, times(beta, *to));         \
                                *to = s;                                      \
                            }                                                 \
                }                                                             \
            }                                                                 \
        }                                                                     \
    }
TILE(gemm_i32, uint32_t, 2, PLUS, TIMES)
TILE(gemm_i64, uint64_t, 2, PLUS, TIMES)
TILE(gemm_bool, uint8_t, 1, EITHER, BOTH)

/* Selects O2 for the code around the tiles. Vectorising it for all strides
 * would gain little. */
#if defined(__OPTIMIZE__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O2")
#endif
GEMM(gemm_i32, uint32_t, 2, PLUS, TIMES)
GEMM(gemm_i64, uint64_t, 2, PLUS, TIMES)
GEMM(gemm_bool, uint8_t, 1, EITHER, BOTH)
#if defined(__OPTIMIZE__) && !defined(__clang__)
#pragma GCC pop_options
#endif

/* Defines a function that stores rows of sums of a float product to c, plus
 * beta times the previous c. */
#define STORE(name, T)                                                        \
    static void name(void *pc, int64_t c_row, const void *psums,              \
                     int64_t sums_row, int64_t rows, int64_t columns,         \
                     double beta_)                                            \
    {                                                                         \
        T beta = (T)beta_;                                                    \
        for (int64_t i = 0; i < rows; i++) {                                  \
            T *c = (T *)pc + i * c_row;                                       \
            const T *sums = (const T *)psums + i * sums_row;                  \
            if (beta == 0)                                                    \
                memcpy(c, sums, (size_t)columns * sizeof *c);                 \
            else                                                              \
                EACH(j, columns)                                              \
                    c[j] = sums[j] + beta * c[j];                             \
        }                                                                     \
    }
STORE(store_f32, float)
STORE(store_f64, double)

/* Dot products of one vector x with rows of memory. Each sum uses four vectors.
 * The elements after the last four vectors are added one by one. If x leaves no
 * space in L1, several rows are processed at once, so that x is read less
 * often: 128 rows of 9216 floats take 50 us instead of 66 us. Otherwise one row
 * at a time is faster: 784 floats take 2.1 us instead of 3.0. */
enum {
    /* number of rows whose sums stay in registers */
    DOTS_ROWS = TN_CPU_TILE_ROWS == 8 ? 4 : 2,
    DOTS_BYTES = 16384
};

#define DOTS(name, T, VEC, LOOSE, MADD, SUM)                                  \
    static inline __attribute__((always_inline)) void name##_of(              \
        const int rows, int64_t k, const T *x, const T *row, int64_t step,    \
        T *c, int64_t c_step, T alpha, T beta)                                \
    {                                                                         \
        enum { L = TN_CPU_VECTOR / sizeof(T) };                               \
        VEC s[DOTS_ROWS][4];                                                  \
        T sum[DOTS_ROWS];                                                     \
        int64_t p = 0;                                                        \
        for (int i = 0; i < rows; i++)                                        \
            for (int v = 0; v < 4; v++)                                       \
                s[i][v] = (VEC){0};                                           \
        for (; p + 4 * L <= k; p += 4 * L)                                    \
            for (int v = 0; v < 4; v++) {                                     \
                VEC a = (VEC) * (const LOOSE *)(x + p + v * L);               \
                for (int i = 0; i < rows; i++)                                \
                    s[i][v] =                                                 \
                        MADD(a, (VEC) * (const LOOSE *)(row + i * step + p +  \
                                                        v * L), s[i][v]);     \
            }                                                                 \
        for (; p + L <= k; p += L)                                            \
            for (int i = 0; i < rows; i++)                                    \
                s[i][0] = MADD((VEC) * (const LOOSE *)(x + p),                \
                               (VEC) * (const LOOSE *)(row + i * step + p),   \
                               s[i][0]);                                      \
        for (int i = 0; i < rows; i++)                                        \
            sum[i] = SUM((s[i][0] + s[i][1]) + (s[i][2] + s[i][3]));          \
        for (int i = 0; i < rows; i++, row += step, c += c_step) {            \
            for (int64_t q = p; q < k; q++)                                   \
                sum[i] += x[q] * row[q];                                      \
            *c = alpha * sum[i] + (beta == 0 ? 0 : beta * *c);                \
        }                                                                     \
    }                                                                         \
    static void name(int64_t count, int64_t k, const void *px,                \
                     const void *prows, int64_t step, void *pc,               \
                     int64_t c_step, double alpha, double beta)               \
    {                                                                         \
        const T *row = prows;                                                 \
        T *c = pc;                                                            \
        int64_t i = 0, some = k < DOTS_BYTES / (int64_t)sizeof(T) ? 0 : count;\
        for (; i + DOTS_ROWS <= some; i += DOTS_ROWS)                         \
            name##_of(DOTS_ROWS, k, px, row + i * step, step, c + i * c_step, \
                      c_step, (T)alpha, (T)beta);                             \
        for (; i < count; i++)                                                \
            name##_of(1, k, px, row + i * step, step, c + i * c_step, c_step, \
                      (T)alpha, (T)beta);                                     \
    }
DOTS(dots_f32, float, vec_f32, loose_f32, TN_CPU_FMA_F32,
     TN_CPU_SUM_F32)
DOTS(dots_f64, double, vec_f64, loose_f64, TN_CPU_FMA_F64,
     TN_CPU_SUM_F64)

/* Products of one row x with a matrix whose rows are contiguous, such as the
 * weights of GPT-2. The sums stay in L1. The matrix is read in the order of
 * memory, four rows at a time. */
static inline __attribute__((always_inline)) void
add_some(const int some, int64_t count, const float *x, int64_t x_step,
         const float *rows, int64_t row, float *sums)
{
    enum { L = TN_CPU_VECTOR / sizeof(float) };
    vec_f32 by[4];
    int64_t j = 0;
    for (int q = 0; q < some; q++)
        by[q] = x[q * x_step] - (vec_f32){0};
    for (; j + L <= count; j += L) {
        vec_f32 s = (vec_f32) * (const loose_f32 *)(sums + j);
        for (int q = 0; q < some; q++)
            s = TN_CPU_FMA_F32(
                by[q], (vec_f32) * (const loose_f32 *)(rows + q * row + j), s);
        *(loose_f32 *)(sums + j) = s;
    }
    if (j == count)
        return;
    const size_t rest = (size_t)(count - j) * sizeof *sums;
    vec_f32 s = {0}, w = {0};
    memcpy(&s, sums + j, rest);
    for (int q = 0; q < some; q++) {
        memcpy(&w, rows + q * row + j, rest);
        s = TN_CPU_FMA_F32(by[q], w, s);
    }
    memcpy(sums + j, &s, rest);
}
static void add_rows_f32(int64_t count, int64_t k, const void *px,
                         int64_t x_step, const void *prows, int64_t row,
                         void *psums)
{
    const float *x = px, *rows = prows;
    memset(psums, 0, (size_t)count * sizeof(float));
    for (; k >= 4; k -= 4, x += 4 * x_step, rows += 4 * row)
        add_some(4, count, x, x_step, rows, row, psums);
    for (; k > 0; k--, x += x_step, rows += row)
        add_some(1, count, x, x_step, rows, row, psums);
}

void TN_CPU_NAME(tn__cpu_gemm)(tn_cpu_routines *table)
{
    static const tn_cpu_product_routines f32 = {dots_f32, store_f32,
                                                add_rows_f32};
    static const tn_cpu_product_routines f64 = {dots_f64, store_f64, NULL};
    table->gemm[CPU_I32] = gemm_i32;
    table->gemm[CPU_I64] = gemm_i64;
    table->gemm[CPU_BOOL] = gemm_bool;
    table->product[CPU_F32] = &f32;
    table->product[CPU_F64] = &f64;
}
