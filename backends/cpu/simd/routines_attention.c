/* routines_attention.c: the loops of scaled_dot_product_attention
 * (cpu_attention.c), over rows of scores that stay in L1. A row has the scores
 * of `width` keys, padded to a multiple of 16 elements, a whole number of
 * vectors in each instruction set. Loops may overwrite the padding. */
#include <math.h>

#include "routines.h"
#include "vector.h"
#include "vector_ops.h"

enum { L = TN_CPU_VECTOR / 4 };

#if defined(__FMA__) || defined(__aarch64__)
#define FUSED 1
#define MADD(x, y, z) fmaf(x, y, z)
#else
#define FUSED 0
#define MADD(x, y, z) ((x) * (y) + (z))
#endif

static inline vec_f32 splat(float x)
{
    return (vec_f32){0} + x;
}

/* Returns exp(x), or 0 if x < -87. If the set has fma, the result has results
 * that are bit-identical to exp_f32 (math_table.c). */
#if FUSED
static inline vec_f32 exp_flushed(vec_f32 x)
{
    vec_f32 t = TN_CPU_FMA_F32(x, splat(0x1.715476p+0f), splat(0x1.8p+23f));
    vec_f32 whole = t - splat(0x1.8p+23f);
    vec_f32 r = TN_CPU_FMA_F32(whole, splat(-0x1.62e43p-1f), x);
    r = TN_CPU_FMA_F32(whole, splat(0x1.05c61p-29f), r);
    vec_f32 p =
        TN_CPU_FMA_F32(splat(0x1.9e0c28p-13f), r, splat(0x1.6d4372p-10f));
    p = TN_CPU_FMA_F32(p, r, splat(0x1.111306p-7f));
    p = TN_CPU_FMA_F32(p, r, splat(0x1.5554fp-5f));
    p = TN_CPU_FMA_F32(p, r, splat(0x1.555554p-3f));
    p = TN_CPU_FMA_F32(p, r, splat(0x1p-1f));
    p = TN_CPU_FMA_F32(r * r, p, r) + 1;
    vec_i32 power = (vec_i32)(((vec_u32)t - (0x4b400000u - 127u)) << 23);
    vec_i32 tiny = (vec_i32)(x < splat(-87));
    return (vec_f32)((vec_i32)(p * (vec_f32)power) & ~tiny);
}
#else
static inline vec_f32 exp_flushed(vec_f32 x)
{
    for (int l = 0; l < L; l++)
        x[l] = x[l] < -87 ? 0 : expf(x[l]);
    return x;
}
#endif

static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns the number of keys that query i attends to. */
static inline int64_t visible_keys(int64_t i, int64_t first, int64_t width)
{
    return first + i < 0 ? 0 : min_i64(first + i, width);
}

/* Sets the scores of row i after those of its visible keys to x, up to the end
 * of a vector. Visible keys are those that the causal mask does not mask out.
 * Returns the number of vectors with visible keys. */
static inline int64_t pad_row(float *s, int64_t i, int64_t first,
                              int64_t width, float x)
{
    const int64_t seen = visible_keys(i, first, width);
    const int64_t vectors = (seen + L - 1) / L;
    for (int64_t j = seen; j < vectors * L; j++)
        s[j] = x;
    return vectors;
}

/* Sets the elements [from, width) of a row to 0. */
static inline void clear_tail(float *s, int64_t from, int64_t width)
{
    for (int64_t j = from; j < width; j++)
        s[j] = 0;
}

static inline float row_max(const float *s, int64_t vectors, float least_of)
{
    const loose_f32 *x = (const loose_f32 *)s;
    vec_f32 m = splat(least_of), other = m;
    int64_t v = 0;
    for (; v + 2 <= vectors; v += 2) {
        /* A score that is NaN does not change the maximum. exp_and_sum() later
         * makes the row's sum NaN. */
        m = greater_vec_f32(x[v], m);
        other = greater_vec_f32(x[v + 1], other);
    }
    if (v < vectors)
        m = greater_vec_f32(x[v], m);
    m = greater_vec_f32(m, other);
    m = greater_vec_f32(m, ROTATE_32(vec_f32, m, L / 2));
    m = greater_vec_f32(m, ROTATE_32(vec_f32, m, L / 4));
    m = greater_vec_f32(m, ROTATE_32(vec_f32, m, L / 8));
    m = greater_vec_f32(m, ROTATE_32(vec_f32, m, L / 16));
    return m[0];
}

/* Replaces each element s of a row by exp(s - base). Returns the sum of the new
 * elements. */
static inline float exp_and_sum(float *s, int64_t vectors, float base)
{
    loose_f32 *x = (loose_f32 *)s;
    vec_f32 sum = {0}, other = {0};
    int64_t v = 0;
    for (; v + 2 <= vectors; v += 2) {
        vec_f32 a = exp_flushed(x[v] - base), b = exp_flushed(x[v + 1] - base);
        x[v] = a;
        x[v + 1] = b;
        sum += a;
        other += b;
    }
    if (v < vectors) {
        vec_f32 a = exp_flushed(x[v] - base);
        x[v] = a;
        sum += a;
    }
    return TN_CPU_SUM_F32(sum + other);
}

static inline void apply_mask_step(float *s, const void *mask, int64_t step,
                                   int is_bool, int64_t n)
{
    const uint8_t *shown = mask;
    const float *more = mask;
    if (is_bool) {
        EACH(j, n)
            s[j] = shown[j * step] ? s[j] : -INFINITY;
    } else {
        EACH(j, n)
            s[j] += more[j * step];
    }
}

static void apply_mask(float *s, const void *mask, int64_t step, int is_bool,
                       int64_t n)
{
    if (step == 1)
        apply_mask_step(s, mask, 1, is_bool, n);
    else
        apply_mask_step(s, mask, step, is_bool, n);
}

static void softmax_block(const tn_cpu_scores *scores, float *most, float *sum,
                          float *out, int64_t out_row, int64_t values)
{
    const int64_t width = scores->width, first = scores->first;
    float *s = scores->s;
    for (int64_t i = 0; i < scores->rows;
         i++, s += scores->row, out += out_row) {
        const int64_t vectors = pad_row(s, i, first, width, -INFINITY);
        const float before = most[i], now = row_max(s, vectors, before);
        const float base = now == -INFINITY ? 0 : now;
        const float added = exp_and_sum(s, vectors, base);
        clear_tail(s, vectors * L, width);
        most[i] = now;
        if (now == before || before == -INFINITY) {
            sum[i] += added;
            continue;
        }
        const float by = exp_flushed(splat(before - base))[0];
        sum[i] = sum[i] * by + added;
        EACH(e, values)
            out[e] *= by;
    }
}

static void normalize(float *out, int64_t out_row, int64_t rows, int64_t values,
                      const float *sum)
{
    for (int64_t i = 0; i < rows; i++, out += out_row) {
        const float by = sum[i] == 0 ? 0 : 1 / sum[i];
        EACH(e, values)
            out[e] *= by;
    }
}

static void softmax_backward(const tn_cpu_scores *scores, float *d,
                             const float *lse, const float *mean)
{
    const int64_t width = scores->width, first = scores->first;
    float *s = scores->s;
    for (int64_t i = 0; i < scores->rows;
         i++, s += scores->row, d += scores->row) {
        const int64_t vectors = pad_row(s, i, first, width, -INFINITY);
        const float base = lse[i] == -INFINITY ? 0 : lse[i];
        loose_f32 *p = (loose_f32 *)s, *g = (loose_f32 *)d;
        pad_row(d, i, first, width, 0);
        for (int64_t v = 0; v < vectors; v++) {
            vec_f32 w = exp_flushed(p[v] - base);
            p[v] = w;
            g[v] = w * (g[v] - mean[i]);
        }
        /* If base is NaN, exp is NaN for masked keys too. Their elements must
         * be 0, because products with these elements follow. */
        clear_tail(s, visible_keys(i, first, width), width);
        clear_tail(d, visible_keys(i, first, width), width);
    }
}

/* Computes dot products of rows, in the same order of summation as matrix
 * products (float_product.c). Therefore the gradient of a row's scores is
 * exactly 0 if the softmax is 1 for one key and 0 for the others. Several rows
 * are summed at once. */
static void row_dots(const float *x, int64_t x_row, const float *y,
                     int64_t y_row, int64_t rows, int64_t n, float *out)
{
    enum { SIDE = 8 };
    for (int64_t i = 0; i < rows; i += SIDE) {
        const int64_t last = min_i64(SIDE, rows - i) - 1;
        const float *a[SIDE], *b[SIDE];
        float sum[SIDE] = {0};
        for (int r = 0; r < SIDE; r++) {
            a[r] = x + (i + min_i64(r, last)) * x_row;
            b[r] = y + (i + min_i64(r, last)) * y_row;
        }
        for (int64_t k = 0; k < n; k += TN_CPU_DEPTH) {
            const int64_t end = min_i64(n, k + TN_CPU_DEPTH);
            float part[SIDE] = {0};
            for (int64_t j = k; j < end; j++)
                for (int r = 0; r < SIDE; r++)
                    part[r] = MADD(a[r][j], b[r][j], part[r]);
            for (int r = 0; r < SIDE; r++)
                sum[r] += part[r];
        }
        for (int64_t r = 0; r <= last; r++)
            out[i + r] = sum[r];
    }
}

void TN_CPU_NAME(tn__cpu_attention)(tn_cpu_routines *table)
{
    static const tn_cpu_attention_routines loops = {
        apply_mask, softmax_block, normalize, softmax_backward, row_dots};
    table->attention = &loops;
}
