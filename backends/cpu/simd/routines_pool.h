/* routines_pool.h: the types of the loops of pooling, whose table is in
 * routines.h. */
#ifndef TN_CPU_ROUTINES_POOL_H
#define TN_CPU_ROUTINES_POOL_H

#include <stdint.h>

/* The loops of pooling, for one type. `rows` and `columns` are the size of a
 * part of a plane (one channel of one image). */
typedef struct tn_cpu_pool_routines {
    /* If in[j] is greater than best[j] or is the first NaN, best[j] becomes
     * in[j] and at[j] becomes first + place[j]. Of two zeros, best[j] becomes
     * +0 if one of them is +0, as MAX does. */
    void (*max_update)(void *best, int32_t *at, const void *in,
                       const int32_t *place, int32_t first, int64_t n);
    /* out[i * out_row + j * out_step] = in[i * in_row + j * in_step], or += if
     * add is not 0. */
    void (*copy)(void *out, int64_t out_row, int64_t out_step, const void *in,
                 int64_t in_row, int64_t in_step, int64_t rows,
                 int64_t columns, int add);
    /* out[i][j] = in[i][j] / (row_count[i] * column_count[j]) */
    void (*divide)(void *out, int64_t out_row, const void *in, int64_t in_row,
                   int64_t rows, int64_t columns, const int64_t *row_count,
                   const int64_t *column_count);
    /* Computes the means of rows x columns windows of `lines` x `width`
     * elements each, where width is 1 or 2. The stride from one row of windows
     * to the next is in_step elements. The divisor is `count`. `room` has space
     * for `lines` rows of sums. */
    void (*mean)(void *out, const void *in, int64_t in_row, int64_t in_step,
                 int64_t lines, int64_t width, int64_t rows, int64_t columns,
                 void *room, int64_t count);
    /* Computes the gradient of mean(). The windows may have any width and must
     * cover out exactly. */
    void (*mean_backward)(void *out, int64_t lines, int64_t width,
                          const void *in, int64_t in_row, int64_t rows,
                          int64_t columns, int64_t count);
    /* out[at[i]] += in[i] */
    void (*scatter_add)(void *out, const void *in, const int64_t *at,
                        int64_t n);
} tn_cpu_pool_routines;

/* Windows of float32 with at least TN_CPU_WIDE columns use the loops of
 * tn_cpu_window_routines if the widths of all windows of a row add up to at
 * least TN_CPU_WIDE_LEAST, which fills a vector of every instruction set. */
#define TN_CPU_WIDE 4
#define TN_CPU_WIDE_LEAST 16
/* One row of adjacent windows of a plane. Element (k, l) of window j is in[from
 * + k * in_row + j * step + l * apart]. Elements [low, there) of `in` may be
 * read. */
typedef struct tn_cpu_pool_row {
    /* `in` is the plane. `lines` and `width` are the numbers of rows and
     * columns of a window. `line_places` is the difference of the indices of
     * the first elements of two consecutive rows of a window. */
    const float *in;
    int64_t low, there, from, in_row, lines, line_places, width, apart;
    int64_t step; /* stride of windows in elements, 1 or 2 */
    /* `column` is the column of the image at which window 0 begins. The image
     * has columns [0, size). n is the number of windows. */
    int64_t column, size, n;
    /* first[j]: the column of the first element of window j that is in the
     * image. */
    const int32_t *first;
    /* `row` is the index in the plane of the first element of the first image
     * row that the windows read. `place` is the index that the first element of
     * window 0 has in that row, or would have if it were in the image. */
    int32_t row, place;
} tn_cpu_pool_row;
typedef struct tn_cpu_window_routines {
    /* out[j] = the maximum of window j, and index[j] = its index unless index
     * is NULL. The pointer is NULL if the set has no such loop. */
    void (*max_windows)(float *out, int64_t *index, const tn_cpu_pool_row *row);
    /* best[j] = the maximum of column j of `lines` rows. at[j] = step * r,
     * where r is the first row that has this maximum. */
    void (*max_columns)(float *best, int32_t *at, const float *in,
                        int64_t in_row, int64_t lines, int32_t step, int64_t n);
    /* Merges the maxima in[j], whose indices are place[j] + first, into best[j]
     * and at[j]. Of equal values the one with the lower index is selected. */
    void (*merge_max)(float *best, int32_t *at, const float *in,
                      const int32_t *place, int32_t first, int64_t n);
    /* out[j] = the sum of column j over `lines` rows. Row k is first added to
     * partial sum k % lanes. Then the second half of the partial sums is added
     * to the first half, until one sum is left. */
    void (*sum_columns)(float *out, const float *in, int64_t in_row,
                        int64_t lines, int64_t lanes, int64_t n);
} tn_cpu_window_routines;

#endif
