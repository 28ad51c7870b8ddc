/* routines_conv.h: the types of the loops of float products and convolution.
 * routines.h has the table. A tap is one element of a convolution's window, a
 * plane one channel of one image. */
#ifndef TN_CPU_ROUTINES_CONV_H
#define TN_CPU_ROUTINES_CONV_H

#include <stdint.h>

/* Loops of matrix products of floats, for one type (float_product.c). Products
 * also use tn_cpu_conv_routines.tiles. If beta is 0, c is not read. */
typedef struct tn_cpu_product_routines {
    /* c[j * c_step] = alpha * (sum over p < k of x[p] * rows[j * row + p]) +
     * beta * c[j * c_step], for j < count */
    void (*dots)(int64_t count, int64_t k, const void *x, const void *rows,
                 int64_t row, void *c, int64_t c_step, double alpha,
                 double beta);
    /* c[i * c_row + j] = sums[i * sums_row + j] + beta * c[i * c_row + j] */
    void (*store)(void *c, int64_t c_row, const void *sums, int64_t sums_row,
                  int64_t rows, int64_t columns, double beta);
    /* sums[j] += sum over p < k of x[p * x_step] * rows[p * row + j], for j <
     * count, added in the same order as by the tiles. NULL for float64. */
    void (*add_rows)(int64_t count, int64_t k, const void *x, int64_t x_step,
                     const void *rows, int64_t row, void *sums);
} tn_cpu_product_routines;

/* c[i * c_row + j] = sum over p < k of a[i * a_row + p] * b[j * b_row + p], for
 * i < m and j < n. b has the dtype of the entry in the table. routines_rows.c
 * defines the order of the sums. */
typedef void tn_cpu_rows(int64_t m, int64_t n, int64_t k, const float *a,
                         int64_t a_row, const void *b, int64_t b_row, float *c,
                         int64_t c_row);
/* The same for bfloat16 a and b, with the machine's dot products
 * (rows_bf16.inc). */
typedef void tn_cpu_bf16_rows(int64_t m, int64_t n, int64_t k, const void *a,
                              int64_t a_row, const void *b, int64_t b_row,
                              float *c, int64_t c_row);
enum { TN_CPU_ROW_DEPTH = 1024 };

/* Flags of tiles(). With ADD, it adds to the sums instead of overwriting them.
 * With PREFETCH, it prefetches the sums, because they are not in the caches. */
enum { TN_CPU_TILE_ADD = 1, TN_CPU_TILE_PREFETCH = 2 };

/* The loops of convolution, for one type (cpu_conv.c uses them). A pixel's sums
 * are `vectors` (1 or 2) vectors of `lanes` elements, and so are the weights
 * that are multiplied with one input element. Steps and rows are strides in
 * elements. "(+)=" overwrites or, with `add` or TN_CPU_TILE_ADD, adds. */
typedef struct tn_cpu_conv_routines {
    int64_t lanes;
    /* Number of pixels that loops with one pixel in each lane compute at a
     * time. */
    int64_t strip;
    /* Computes tiles of a matrix product, for i < count:
     *     sums[i][..] (+)= alpha * sum over p < depth of x[i][at[p]] * w[p][..]
     * w_row and sums_row are the strides of w and sums in elements. */
    void (*tiles)(int64_t count, int64_t vectors, int64_t depth,
                  const void *const *x, const int64_t *at, const void *w,
                  int64_t w_row, void *sums, int64_t sums_row, double alpha,
                  int how);
    /* For windows of three columns, and pixels that are adjacent in memory. The
     * channels of a pixel are one vector. Computes, for q < count, with i = 3 *
     * r * depth + p:
     *     sums[q][..] = sum over r < rows, p < depth and t < 3 of
     *         x[at[i] + q + t] * w[i * lanes + t * tap ..]
     * tap is the stride of the three taps in w. count is at least min_columns.
     * NULL for float64 and the generic set, where the loop would be large and
     * gain little. */
    void (*filter_rows)(int64_t count, int64_t rows, int64_t depth,
                        const void *x, const int64_t *at, const void *w,
                        int64_t tap, void *sums);
    int64_t min_columns;
    /* The gradient of filter_rows in its weights. Computes, for i < count and
     * t < 3:
     *     sums[i * lanes + t * tap ..] (+)=
     *         sum over r < rows and q < columns of
     *         x[i][at[r] + q + t] * w[(r * columns + q) * lanes ..]
     * columns is at least 2. NULL where filter_rows is NULL. */
    void (*correlate_rows)(int64_t count, int64_t rows, int64_t columns,
                           const void *const *x, const int64_t *at,
                           const void *w, int64_t tap, void *sums, int add);
    /* For windows of three columns. Each lane holds one pixel of a plane.
     * Computes, for q < count:
     *     out[q] = bias + sum over i < rows and j < 3 of
     *         x[q + i * row + j] * w[3 * i + j]
     * The products for j = 0 and j = 2 are added only where the bits of
     * mask[j * mask_step + q + j] are set. Reads up to 5 vectors beyond the end
     * of x, and one vector before the beginning of mask. NULL if the set has no
     * such loop. */
    void (*filter_plane)(int64_t count, int64_t rows, int64_t row,
                         const void *x, const void *w, const void *mask,
                         int64_t mask_step, void *out, double bias);
    /* The gradient of filter_plane in its weights. Computes
     *     sums[3 * i + j] += sum over p < count of x[p + i * row] * y[p - j]
     * where the bits of mask[j * mask_step + p] are set (elsewhere y is 0).
     * Reads whole vectors, so the last one may exceed count. Each sum is a
     * vector, whose lanes the caller must add up. sums has space for `rows`
     * rounded up to a multiple of three. NULL where filter_plane is NULL. */
    void (*correlate_plane)(int64_t count, int64_t rows, int64_t row,
                            const void *x, const void *y, const void *mask,
                            int64_t mask_step, void *sums);
    /* Each lane holds one pixel. Computes, for v < vectors <= 4 and q < count:
     *     sums[v * next + q] = bias[v * bias_step] +
     *         sum over p < depth of x[q + at[p]] * w[p * vectors + v]
     * bias may be NULL. count is a multiple of strip. */
    void (*filter_strip)(int64_t count, int64_t vectors, int64_t depth,
                         const void *x, const int64_t *at, const void *w,
                         void *sums, int64_t next, const void *bias,
                         int64_t bias_step);
    /* The gradient of filter_strip in its weights, for t < taps:
     *     sums[t * sums_step] += sum over q < count of x[q + at[t]] * y[q]
     * where the bits of mask[q] are set. Elsewhere y[q] is 0 and x may be
     * anything. count is a multiple of lanes. */
    void (*correlate_strip)(int64_t taps, int64_t count, const void *x,
                            const int64_t *at, const void *y, const void *mask,
                            void *sums, int64_t sums_step);
    /* out[p][o] = in[o * channel + p * step]; 0 for o in [channels, width). */
    void (*gather)(void *out, int64_t width, const void *in, int64_t channel,
                   int64_t step, int64_t channels, int64_t count);
    void (*add_to)(void *a, const void *b, int64_t n); /* a[i] += b[i] */
} tn_cpu_conv_routines;

/* The transforms of Winograd convolution (conv_winograd.c). A tile has two
 * pixels of one row, or 2 x 2 pixels. Its transform has 4 or 16 elements. They
 * are stored in as many planes: plane p holds element p of all tiles. `plane`
 * is the stride of planes in elements. */
typedef struct tn_cpu_winograd_routines {
    /* Splits rows into even and odd columns. With k = first + j:
     *     out[2 * half * i + half * (k % 2) + k / 2] = in[i][j] */
    void (*split)(float *out, int64_t half, const float *in, int64_t in_row,
                  int64_t rows, int64_t columns, int64_t first);
    /* Transforms the windows (4 or 4 x 4 elements of split rows) of `count`
     * adjacent tiles, the input of a Winograd convolution. May read and write
     * up to 15 tiles beyond the last one. */
    void (*windows)(float *out, int64_t plane, const float *in, int64_t half,
                    int64_t count);
    /* Transforms tiles back to rows x columns elements of out and adds bias.
     * `rows` is at most the number of rows of a tile. May read up to 15 tiles
     * beyond the last one. */
    void (*results)(float *out, int64_t out_row, int64_t rows,
                    int64_t columns, const float *in, int64_t plane,
                    float bias);
    /* Transforms the weights of eight adjacent filters to the planes of `out`.
     * The input weight t of filter f is in[t * step + f]. */
    void (*filters)(float *out, int64_t plane, const float *in, int64_t step);
    /* Transforms the gradients of the results. `in` holds the rows of `count`
     * tiles: 2 * count pixels with `width` channels each. width is a multiple
     * of the vector length. The result is out[p * plane + tile * width +
     * channel]. */
    void (*cotangents)(float *out, int64_t plane, const float *in,
                       int64_t in_row, int64_t width, int64_t count);
    /* Transforms sums of products to the gradients of the weights of `width`
     * filters: weight t of filter f is out[t * width + f]. */
    void (*taps)(float *out, int64_t width, const float *in, int64_t plane);
} tn_cpu_winograd_routines;

#endif
