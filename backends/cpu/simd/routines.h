/* routines.h: the loops over blocks, once for each instruction set.
 *
 * All are compiled from the same sources (routines_*.c) with different flags.
 * They return the same bits, except products and convolutions, whose sums use
 * fma where it exists. Symbols of such a file end in two underscores and the
 * set: tn__cpu_arith__v3. An output may be an operand (element for element)
 * unless stated otherwise. "Non-temporal" stores fall back to ordinary ones
 * where the set has none. */
#ifndef TN_CPU_ROUTINES_H
#define TN_CPU_ROUTINES_H

#include <stdint.h>
#include <tenon/plugin.h>

/* Products that are summed before the sum is added to the previous ones. */
#define TN_CPU_DEPTH 192

/* Register types, dense. */
enum { CPU_F32, CPU_F64, CPU_I32, CPU_I64, CPU_BOOL, CPU_TYPE_COUNT };

/* out[i] = f(a[i], b[i], c[i]). Bits 0, 1, 2 of scalar: a, b, c is one value
 * (tn__cpu_scalar_allowed says which an operation accepts). A BOOL is one byte,
 * 0 or 1. */
typedef void tn_cpu_run(void *out, const void *a, const void *b,
                        const void *c, int64_t n, unsigned scalar);

/* A function printed from its definition; out must not overlap an operand. */
typedef void tn_cpu_math(void *out, const void *a, const void *b,
                         const void *c, int64_t n);

/* out = PHILOX of a, next = PHILOX of a + 1; b and c are one value each. */
typedef void tn_cpu_pair(void *out, void *next, const void *a, const void *b,
                         const void *c, int64_t n);

/* Copies between a register block and memory with a stride in elements. */
typedef void tn_cpu_load(void *out, const void *memory, int64_t stride,
                         int64_t n);
typedef void tn_cpu_store(void *memory, const void *in, int64_t stride,
                          int64_t n);
/* out[i * columns + j] = memory[i * row + j * column], read column by column:
 * for memory that is denser along columns. */
typedef void tn_cpu_load_tile(void *out, const void *memory, int64_t rows,
                              int64_t columns, int64_t row, int64_t column);
/* out[i] = memory[offset[i]]; 0 if the offset is TN_CPU_OUTSIDE. */
typedef void tn_cpu_gather(void *out, const void *memory,
                           const int64_t *offset, int64_t n);
#define TN_CPU_OUTSIDE INT64_MIN
/* where[i] += index[i] * stride; OUTSIDE if index[i] is not in [0, extent).
 * Returns whether there is such an index. */
typedef int tn_cpu_place(int64_t *where, const int64_t *index, int64_t stride,
                         int64_t extent, int64_t n);
/* out[j * out_step + i] = memory[i * in_step + j] for i < rows, j < columns.
 * stream: use non-temporal stores. */
typedef void tn_cpu_transpose(void *out, int64_t out_step, const void *memory,
                              int64_t in_step, int64_t rows, int64_t columns,
                              int stream);
/* Four bytes beside a copied row: position relative to the row's beginning,
 * source for the first row, and stride of the source. */
typedef struct tn_cpu_edge {
    int64_t at;
    const char *from;
    int64_t step;
} tn_cpu_edge;
/* Copies a block to memory by non-temporal stores and prefetches its source
 * `later` bytes ahead; 0: no prefetch. A fence must follow before another
 * thread may read (tn_cpu_routines.fence). */
typedef void tn_cpu_stream(void *memory, const void *block, int64_t bytes,
                           int64_t later);

/* out[i] = reduction of x[i * stride .. + n), 0 < n <= TN_CHUNK, by lanes, for
 * count sequences. Prefetches x `ahead` bytes ahead. */
typedef void tn_cpu_fold(void *out, const void *x, int64_t n, int64_t count,
                         int64_t stride, int64_t ahead);
/* A factor of products: at[i * step + k], minus center[i * center_step] if
 * center is not NULL. */
typedef struct tn_cpu_factor {
    const void *at, *center;
    int64_t step, center_step;
} tn_cpu_factor;
/* Sums of products of two factors, each product rounded. */
typedef void tn_cpu_fold_products(void *out, const tn_cpu_factor *factor,
                                  int64_t n, int64_t count);
/* Products of columns: element i of column c is ((x - center) * y) * scale,
 * with x[i * x_step + c] and y likewise, center[i * center_step] and scale
 * likewise. */
typedef struct tn_cpu_column_products {
    const void *x, *y, *center, *scale;
    int64_t x_step, y_step, center_step, scale_step;
} tn_cpu_column_products;
/* Like tn_cpu_columns, for the sum of n elements of products. */
typedef void tn_cpu_columns_products(void *lanes,
                                     const tn_cpu_column_products *lines,
                                     int64_t open, int64_t n, int64_t rows);
/* Adds n more elements of `rows` adjacent rows (columns in memory) to their
 * lanes, TN_LANES x rows values: element k of row r is x[k * step + r]. open:
 * elements already in the lanes, a multiple of TN_LANES. */
typedef void tn_cpu_columns(void *lanes, const void *x, int64_t step,
                            int64_t open, int64_t n, int64_t rows);
/* out = prefix sums of in[0 .. n) by blocks (plugin.h), plus *before (NULL:
 * none). *total: the last sum without *before, if n is a multiple of TN_LANES.
 * stream: use non-temporal stores if out is aligned. */
typedef void tn_cpu_scan(void *out, const void *in, int64_t n,
                         const void *before, void *total, int stream);
/* Prefix sums of n adjacent sequences, in whole vectors: elements k to k + 3 of
 * each, k a multiple of 4, are four rows. Rows hold the partial sums: low, of
 * the four elements before; high, of the eight before; carry, of all blocks
 * before; first, a value added to all. The routine writes row keep for later
 * rows: the last element with low added, and with high and carry too if whole
 * is 1. */
typedef struct tn_cpu_scan_kept {
    const void *low, *high, *carry, *first;
    void *keep;
    int whole;
    int64_t in_next, out_next; /* bytes to the next four rows */
} tn_cpu_scan_kept;
typedef void tn_cpu_scan_rows(void *const *out, const void *const *in,
                              const tn_cpu_scan_kept *kept, int64_t n);
/* A running maximum (minimum): how many of x[0 .. n), in whole vectors from the
 * first on, do not change *extreme. These elements become *extreme, and their
 * place `at`. */
typedef int64_t tn_cpu_scan_unchanged(void *x, int64_t *place, int64_t n,
                                      const void *extreme, int64_t at);
/* Updates best[0] and *place if x holds a better value. x[0] has position k.
 * fresh: there is no best yet. */
typedef void tn_cpu_arg(void *best, int64_t *place, const void *x, int64_t n,
                        int64_t k, int fresh);
/* The same for element k of n adjacent rows. */
typedef void tn_cpu_arg_columns(void *best, int64_t *place, const void *x,
                                int64_t n, int64_t k, int fresh);

/* c[m, n] = alpha * a[m, k] b[k, n] + beta * c, each with two strides. Sums run
 * over rising k, in the register type. */
typedef void tn_cpu_gemm(int64_t m, int64_t n, int64_t k, const void *a,
                         int64_t a_row, int64_t a_column, const void *b,
                         int64_t b_row, int64_t b_column, void *c,
                         int64_t c_row, int64_t c_column, const void *alpha,
                         const void *beta);

/* The loops of float products, for one type (float_product.c). Tiles are those
 * of convolution. With beta 0, c is not read. */
typedef struct tn_cpu_product_routines {
    /* c[j * c_step] = alpha * (sum over p < k of x[p] * rows[j * row + p]) +
     * beta * c[j * c_step], for j < count */
    void (*dots)(int64_t count, int64_t k, const void *x, const void *rows,
                 int64_t row, void *c, int64_t c_step, double alpha,
                 double beta);
    /* c[i * c_row + j] = sums[i * sums_row + j] + beta * c[i * c_row + j] */
    void (*store)(void *c, int64_t c_row, const void *sums, int64_t sums_row,
                  int64_t rows, int64_t columns, double beta);
} tn_cpu_product_routines;

/* TN_CPU_TILE_PREFETCH: the sums are not in the caches; prefetch them before
 * they are needed. */
enum { TN_CPU_TILE_ADD = 1, TN_CPU_TILE_PREFETCH = 2 };

/* The loops of convolution, for one type (cpu_conv.c uses them). Sums and
 * panels are rows of `vectors` (1 or 2) vectors of `lanes` elements. */
typedef struct tn_cpu_conv_routines {
    int64_t lanes;
    int64_t strip; /* pixels of a tile when pixels are lanes */
    /* sums[i][..] (TN_CPU_TILE_ADD: +)= alpha * sum over p < depth of
     * x[i][at[p]] * w[p][..], for i < count. w_row and sums_row are row strides
     * in elements. */
    void (*tiles)(int64_t count, int64_t vectors, int64_t depth,
                  const void *const *x, const int64_t *at, const void *w,
                  int64_t w_row, void *sums, int64_t sums_row, double alpha,
                  int how);
    /* sums[q][..] = sum over r < rows, p < depth and t < 3 of x[at[i] + q + t]
     * * w[i * lanes + t * tap ..] with i = 3 r depth + p, for q < count, count
     * >= min_columns: adjacent pixels, one vector each. NULL for float64 and
     * plain sets, where it is not worth its size. */
    void (*filter_rows)(int64_t count, int64_t rows, int64_t depth,
                        const void *x, const int64_t *at, const void *w,
                        int64_t tap, void *sums);
    int64_t min_columns;
    /* Its adjoint, or NULL: sums[i * lanes + t * tap ..] (add: +)= sum over r <
     * rows and q < columns, columns >= 2, of x[i][at[r] + q + t] * w[(r *
     * columns + q) * lanes ..], for i < count and t < 3. */
    void (*correlate_rows)(int64_t count, int64_t rows, int64_t columns,
                           const void *const *x, const int64_t *at,
                           const void *w, int64_t tap, void *sums, int add);
    /* Pixels of a plane as lanes, or NULL: out[q] = bias + sum over i < rows
     * and j < 3 of x[q + i * row + j] * w[3 * i + j], for q < count. For j = 0
     * and 2 only where the bits of mask[j * mask_step + q + j] are set. Reads x
     * up to 5 vectors beyond the end, mask one vector before the beginning as
     * well. */
    void (*filter_plane)(int64_t count, int64_t rows, int64_t row,
                         const void *x, const void *w, const void *mask,
                         int64_t mask_step, void *out, double bias);
    /* Its adjoint, or NULL: sums[3 * i + j] += sum over p < count, in vectors,
     * of x[p + i * row] * y[p - j] where the bits of mask[j * mask_step + p]
     * are set (elsewhere y is 0). Each sum is a vector, whose lanes the caller
     * adds. There are rows of them rounded up to a multiple of three. */
    void (*correlate_plane)(int64_t count, int64_t rows, int64_t row,
                            const void *x, const void *y, const void *mask,
                            int64_t mask_step, void *sums);
    /* Pixels as lanes: sums[v * next + q] = bias[v * bias_step] (NULL: 0) + sum
     * over p < depth of x[q + at[p]] * w[p * vectors + v], for v < vectors <= 4
     * and q < count, a multiple of strip. */
    void (*filter_strip)(int64_t count, int64_t vectors, int64_t depth,
                         const void *x, const int64_t *at, const void *w,
                         void *sums, int64_t next, const void *bias,
                         int64_t bias_step);
    /* sums[t * sums_step] += sum over q < count, a multiple of lanes, of x[q +
     * at[t]] * y[q] where the bits of mask[q] are set (elsewhere y[q] is 0 and
     * x may be anything). */
    void (*correlate_strip)(int64_t taps, int64_t count, const void *x,
                            const int64_t *at, const void *y, const void *mask,
                            void *sums, int64_t sums_step);
    /* out[p][o] = in[o * channel + p * step]; 0 for o in [channels, width). */
    void (*gather)(void *out, int64_t width, const void *in, int64_t channel,
                   int64_t step, int64_t channels, int64_t count);
    void (*add_to)(void *a, const void *b, int64_t n); /* a[i] += b[i] */
} tn_cpu_conv_routines;

/* The transforms of conv_winograd.c, for tiles of one row or of two. A plane
 * holds one of the 4 or 16 elements of all tiles; `plane` is the stride between
 * planes in elements. */
typedef struct tn_cpu_winograd_routines {
    /* Splits rows into even and odd columns: out[2 * half * i + half * (k % 2)
     * + k / 2] = in[i][j] for k = first + j. */
    void (*split)(float *out, int64_t half, const float *in, int64_t in_row,
                  int64_t rows, int64_t columns, int64_t first);
    /* The windows, 4 x 4 or 4, of `count` adjacent tiles, from split rows.
     * Reads and writes up to 15 more. */
    void (*windows)(float *out, int64_t plane, const float *in, int64_t half,
                    int64_t count);
    /* rows (at most a tile's) x columns of out, plus bias. Reads as many
     * more. */
    void (*results)(float *out, int64_t out_row, int64_t rows,
                    int64_t columns, const float *in, int64_t plane,
                    float bias);
    /* Eight adjacent filters; step: stride between taps. */
    void (*filters)(float *out, int64_t plane, const float *in, int64_t step);
    /* A tile's rows of 2 * count pixels of `width` channels, in whole vectors,
     * as count tiles. */
    void (*cotangents)(float *out, int64_t plane, const float *in,
                       int64_t in_row, int64_t width, int64_t count);
    /* The gradients of the taps of `width` filters, one row for each tap. */
    void (*taps)(float *out, int64_t width, const float *in, int64_t plane);
} tn_cpu_winograd_routines;

/* The loops of pooling, for one type, over rows x columns of a plane. */
typedef struct tn_cpu_pool_routines {
    /* If in[j] is greater than best[j], or the first NaN, takes it and its
     * index first + place[j]. Of equal values best becomes MAX of both (+0). */
    void (*max_update)(void *best, int32_t *at, const void *in,
                       const int32_t *place, int32_t first, int64_t n);
    /* out[..] = in[..], or += with add */
    void (*copy)(void *out, int64_t out_row, int64_t out_step, const void *in,
                 int64_t in_row, int64_t in_step, int64_t rows,
                 int64_t columns, int add);
    /* out[i][j] = in[i][j] / (row_count[i] * column_count[j]) */
    void (*divide)(void *out, int64_t out_row, const void *in, int64_t in_row,
                   int64_t rows, int64_t columns, const int64_t *row_count,
                   const int64_t *column_count);
    /* The means of rows x columns windows of `lines` x width elements, width 1
     * or 2. Windows of consecutive rows are in_step apart, and all have `count`
     * elements. room: memory for as many rows. */
    void (*mean)(void *out, const void *in, int64_t in_row, int64_t in_step,
                 int64_t lines, int64_t width, int64_t rows, int64_t columns,
                 void *room, int64_t count);
    /* Its gradient, all of out, for windows of any width that cover out
     * exactly. */
    void (*mean_backward)(void *out, int64_t lines, int64_t width,
                          const void *in, int64_t in_row, int64_t rows,
                          int64_t columns, int64_t count);
    /* out[at[i]] += in[i] */
    void (*scatter_add)(void *out, const void *in, const int64_t *at,
                        int64_t n);
} tn_cpu_pool_routines;

/* Windows of float32 are wide from WIDE columns on, if all of a row together
 * have at least WIDE_LEAST columns, a vector of any set. */
#define TN_CPU_WIDE 4
#define TN_CPU_WIDE_LEAST 16
/* One row of adjacent windows of a plane. Element (k, l) of window j is at from
 * + k * in_row + j * step + l * apart. Memory may be read from `low` up to
 * `there`. The image column of window 0 is `column`; it is within the image
 * from 0 up to size. */
typedef struct tn_cpu_pool_row {
    const float *in; /* the plane */
    int64_t low, there, from, in_row, lines, line_places, width, apart;
    int64_t step; /* 1 or 2 */
    int64_t column, size, n;
    const int32_t *first; /* of each window: column of its first element within
                             the image */
    int32_t row, place;   /* index of the image row; and of element (0, 0) */
} tn_cpu_pool_row;
typedef struct tn_cpu_window_routines {
    /* out[j] = the maximum of window j, index[j] = its index (NULL: not
     * wanted). NULL: the set has no such loop. */
    void (*max_windows)(float *out, int64_t *index, const tn_cpu_pool_row *row);
    /* best[j] = the maximum of column j of `lines` rows; at[j] = the number of
     * the first row that has it, times step */
    void (*max_columns)(float *best, int32_t *at, const float *in,
                        int64_t in_row, int64_t lines, int32_t step, int64_t n);
    /* Merges these with others, whose indices are place[j] + first. */
    void (*merge_max)(float *best, int32_t *at, const float *in,
                      const int32_t *place, int32_t first, int64_t n);
    /* out[j] = the sum of column j; row k belongs to lane k % lanes */
    void (*sum_columns)(float *out, const float *in, int64_t in_row,
                        int64_t lines, int64_t lanes, int64_t n);
} tn_cpu_window_routines;

/* Scores of `rows` queries and `width` keys, `row` elements from one query to
 * the next, a multiple of 16. Query i sees the first `first + i` keys; the
 * scores of the others do not count and become 0. */
typedef struct tn_cpu_scores {
    float *s;
    int64_t row, rows, width, first;
} tn_cpu_scores;

/* The loops of attention, of float32. */
typedef struct tn_cpu_attention_routines {
    /* s[j] = -inf if mask[j * step] is false (is_bool); otherwise s[j] +=
     * mask[j * step]. */
    void (*apply_mask)(float *s, const void *mask, int64_t step, int is_bool,
                       int64_t n);
    /* Online softmax: most[i] = max(most[i], max of the row); s = exp(s -
     * most[i]). Rescales sum[i] and the row of out to the new most[i], then
     * adds the row of s to sum[i]. */
    void (*softmax_block)(const tn_cpu_scores *scores, float *most, float *sum,
                          float *out, int64_t out_row, int64_t values);
    /* out /= sum; 0 if sum is 0 */
    void (*normalize)(float *out, int64_t out_row, int64_t rows, int64_t values,
                      const float *sum);
    /* s = exp(s - lse), d = s * (d - mean) */
    void (*softmax_backward)(const tn_cpu_scores *scores, float *d,
                             const float *lse, const float *mean);
    /* out[i] = sum over j < n of x[i][j] * y[i][j] */
    void (*row_dots)(const float *x, int64_t x_row, const float *y,
                     int64_t y_row, int64_t rows, int64_t n, float *out);
} tn_cpu_attention_routines;

/* Factorisations of small matrices, one in each lane of a vector. row and
 * column are strides in vectors. plugin.h defines the operations. Pivots (here
 * from 0) and info are stored lane by lane. */
typedef struct tn_cpu_lanes {
    void *at;
    int64_t row, column;
} tn_cpu_lanes;
typedef struct tn_cpu_lapack_work {
    uint32_t kind, flags; /* TN_LAPACK_... */
    int m, n, sides;
    tn_cpu_lanes a, b, c;
    void *values, *room; /* n; and n x n, for EIGH with VECTORS */
    int32_t *pivots, *info;
} tn_cpu_lapack_work;
typedef void tn_cpu_lapack(const tn_cpu_lapack_work *work);
#define TN_CPU_LAPACK_MOST 32 /* most rows and columns */

typedef struct tn_cpu_math_entry {
    uint64_t hash; /* of the definition that the routine was printed from */
    const char *name;
    tn_cpu_math *run;
} tn_cpu_math_entry;

#define TN_CPU_PARTS 64 /* partial results of a sequence of keys */

/* One tap of a sum, for up to a vector of points (taps_blocks.c): point i reads
 * in[low + at[i]] times weight[i]. From low on `there` elements may be read, at
 * most two vectors. All taps of a sum have the same low, there and number of
 * points. */
#define TN_CPU_TAPS 12     /* most taps of a sum: 26 operands */
#define TN_CPU_TAP_DEPTH 4 /* depth of the tree of additions: 16 leaves */
typedef struct tn_cpu_tap {
    float weight[16];
    uint8_t at[16];
    int64_t low, points;
    uint32_t there;
} tn_cpu_tap;
/* Rows of n sums each, from rows of `from` elements; steps in elements. Memory
 * before `end` may be read. Prefetches as many rows from `next` on, and their
 * destinations from `next_out` on, unless NULL. */
typedef struct tn_cpu_tap_rows {
    float *out;
    const float *in, *end, *next, *next_out;
    int64_t count, n, out_step, in_step, from;
} tn_cpu_tap_rows;

/* Constants that depend on the processor family (family.c). Distances are in
 * bytes; 0: no prefetch. */
typedef struct tn_cpu_family {
    const char *name;
    int wide;                 /* sums and products of two operands use 64-byte
                                 vectors if the set has them */
    int prefetches_in_place;  /* one-stage updates in place prefetch */
    int prefetches_columns;   /* reductions of columns prefetch */
    int64_t reduce_ahead;     /* prefetch distance of reductions of rows, */
    int64_t reduce_far_ahead; /* and of those that exceed the last-level
                                 cache */
    int64_t copy_ahead;       /* of copies by non-temporal stores */
    int64_t stream_ahead;     /* of machine code with one input stream and
                                 non-temporal stores: the hardware prefetches
                                 that stream too late */
} tn_cpu_family;
const tn_cpu_family *tn__cpu_family_here(void);

typedef struct tn_cpu_routines {
    const char *isa;
    int native;                               /* machine code complements this
                                                 set (native_body.h) */
    const tn_cpu_family *family;
    int strings;                              /* it has fast string instructions
                                                 (ERMS) */
    tn_cpu_run *op[TN_K_END][CPU_TYPE_COUNT]; /* by type of the operands */
    /* [F32, F64][t = a + b, a - b, a * b][t + c, t - c, c - t, t * c]; each of
     * the three operands may be one value. */
    tn_cpu_run *const (*pair[2])[4];
    tn_cpu_run *cast[CPU_TYPE_COUNT][CPU_TYPE_COUNT]; /* from, to */
    tn_cpu_pair *philox_pair;
    tn_cpu_run *narrow[TN_DTYPE_END];
    tn_cpu_run *fill[CPU_TYPE_COUNT]; /* out[i] = *a */
    tn_cpu_load *load[TN_DTYPE_END];
    tn_cpu_store *store[TN_DTYPE_END];
    tn_cpu_load_tile *load_tile[TN_DTYPE_END]; /* NULL: load run by run */
    tn_cpu_gather *gather[TN_DTYPE_END];
    tn_cpu_place *place;
    /* Sums of taps in rows that all use the same entries. Entries follow each
     * other, except that the last one ends where a row ends. The taps of an
     * entry are the leaves of a tree of additions whose bits are set.
     * tap_points: points of a vector; 0: no such routines. */
    void (*taps)(const tn_cpu_tap_rows *rows, const tn_cpu_tap *tap,
                 int64_t entries, int depth, uint32_t leaves);
    /* The same if row r reads whole rows, from in + at[r * count + t] on, times
     * weight[r * count + t]. */
    void (*tap_lines)(const tn_cpu_tap_rows *rows, const int64_t *at,
                      const float *weight, int depth, uint32_t leaves);
    int64_t tap_points;
    /* Is one of n indices not in [0, extent)? */
    int (*outside)(const int64_t *index, int64_t extent, int64_t n);
    /* Copies rows of that many bytes; the steps are strides in bytes. */
    void (*copy_rows)(char *to, int64_t to_step, const char *from,
                      int64_t from_step, int64_t rows, int64_t bytes);
    /* The same for rows of at least 16 bytes, with two edges. */
    void (*copy_edged)(char *to, int64_t to_step, const char *from,
                       int64_t from_step, int64_t rows, int64_t bytes,
                       const tn_cpu_edge edge[2]);
    /* Non-temporal stores of contiguous rows: an element or none, `count`
     * floats, at least 16, and an element or none. NULL: not available. */
    void (*stream_edged)(char *to, const char *from, int64_t from_step,
                         int64_t rows, int64_t count,
                         const tn_cpu_edge *before, const tn_cpu_edge *after);
    tn_cpu_transpose *transpose[9]; /* by bytes of an element: 1, 2, 4, 8 */
    tn_cpu_stream *stream;          /* NULL: not available */
    void (*fence)(void);
    /* Keys of n floats or int32, n a multiple of TN_CPU_PARTS: signed integers
     * in the order of the values, NaN greatest, -0 as +0. flip: XORed to the
     * keys. */
    void (*keys)(int32_t *key, const void *block, int64_t n, int is_float,
                 int32_t flip);
    /* Of n keys, a multiple of TN_CPU_PARTS, collects all that may be among the
     * first `wanted` < TN_CPU_PARTS: for each, the key with its highest bit
     * flipped, above its index. Returns their number, at least wanted. */
    int64_t (*firsts)(uint64_t *items, const int32_t *key, int64_t n,
                      int32_t wanted);
    /* The index of the element at `rank` in the stable order of n keys, a
     * multiple of TN_CPU_PARTS; room: twice as many. */
    int64_t (*place_at)(const int32_t *key, int64_t n, int64_t rank,
                        int32_t *room);
    /* The indices of bytes that are not 0 (is_zero: are 0), at most `room`.
     * Returns their number. */
    int64_t (*places)(int64_t *out, int64_t room, const uint8_t *x, int64_t n,
                      int is_zero);
    void (*ramp)(int64_t *out, int64_t first, int64_t step, int64_t n);
    tn_cpu_fold *fold[TN_REDUCE_END][CPU_TYPE_COUNT];
    tn_cpu_fold_products *fold_products[CPU_TYPE_COUNT]; /* F32, F64 */
    tn_cpu_columns_products *columns_products; /* F32 */
    tn_cpu_columns *columns[TN_REDUCE_END][CPU_TYPE_COUNT];
    tn_cpu_scan *scan[CPU_TYPE_COUNT];           /* F32, F64 */
    tn_cpu_scan_rows *scan_rows[CPU_TYPE_COUNT]; /* F32, F64 */
    tn_cpu_scan_unchanged *unchanged[2][CPU_TYPE_COUNT]; /* [of MAX, of MIN];
                                                            NULL: not
                                                            available */
    tn_cpu_arg *arg[TN_REDUCE_END][CPU_TYPE_COUNT];
    tn_cpu_arg_columns *arg_columns[TN_REDUCE_END][CPU_TYPE_COUNT];
    tn_cpu_gemm *gemm[CPU_TYPE_COUNT]; /* I32, I64, BOOL */
    const tn_cpu_product_routines *product[CPU_TYPE_COUNT]; /* F32, F64 */
    const tn_cpu_conv_routines *conv[CPU_TYPE_COUNT]; /* F32, F64 */
    const tn_cpu_winograd_routines *winograd[2]; /* of F32, by rows of a tile -
                                                    1, or NULL */
    const tn_cpu_pool_routines *pool[CPU_TYPE_COUNT]; /* F32, F64 */
    const tn_cpu_window_routines *windows;
    const tn_cpu_attention_routines *attention;
    tn_cpu_lapack *lapack[CPU_TYPE_COUNT]; /* F32, F64; NULL: not available */
    int64_t lapack_lanes[CPU_TYPE_COUNT];  /* matrices of one call */
    const tn_cpu_math_entry *math;
    uint32_t math_count;
    const struct tn_cpu_routines *narrower; /* has functions that are not in
                                               this set; NULL */
} tn_cpu_routines;

/* Each fills its part of the table. */
#define TN_CPU_ISA(isa)                                                       \
    void tn__cpu_arith__##isa(tn_cpu_routines *table);                        \
    void tn__cpu_random__##isa(tn_cpu_routines *table);                       \
    void tn__cpu_convert__##isa(tn_cpu_routines *table);                      \
    void tn__cpu_move__##isa(tn_cpu_routines *table);                         \
    void tn__cpu_reduce__##isa(tn_cpu_routines *table);                       \
    void tn__cpu_gemm__##isa(tn_cpu_routines *table);                         \
    void tn__cpu_conv__##isa(tn_cpu_routines *table);                         \
    void tn__cpu_winograd__##isa(tn_cpu_routines *table);                     \
    void tn__cpu_pool__##isa(tn_cpu_routines *table);                         \
    void tn__cpu_pair__##isa(tn_cpu_routines *table);                         \
    void tn__cpu_scan__##isa(tn_cpu_routines *table);                         \
    void tn__cpu_attention__##isa(tn_cpu_routines *table);                    \
    void tn__cpu_order__##isa(tn_cpu_routines *table);                        \
    void tn__cpu_lapack__##isa(tn_cpu_routines *table);                       \
    tn_cpu_lapack tn__cpu_lapack_f64__##isa;
TN_CPU_ISA(generic)
TN_CPU_ISA(v3)
TN_CPU_ISA(v4)

/* The routines of a set by name; NULL: the best set of this machine. Returns
 * NULL, with the reason reported through the host, if it is not available
 * (isa.c). */
const tn_cpu_routines *tn__cpu_routines_for(const char *name);

/* The function with that definition; NULL: there is none. */
const tn_cpu_math_entry *tn__cpu_math_find(const tn_cpu_routines *routines,
                                           uint64_t hash);

/* Operands that may be one value at once, as bits. */
static inline unsigned tn__cpu_scalar_allowed(unsigned op)
{
    switch (op) {
    case TN_K_ADD:
    case TN_K_SUB:
    case TN_K_MUL:
    case TN_K_DIV:
    case TN_K_MIN:
    case TN_K_MAX:
    case TN_K_EQ:
    case TN_K_NE:
    case TN_K_LT:
    case TN_K_LE:
    case TN_K_AND:
    case TN_K_OR:
    case TN_K_XOR:
    case TN_K_SHL:
    case TN_K_SHR:
    case TN_K_SHRL:
        return 1 | 2; /* one of the two */
    case TN_K_FMA:
    case TN_K_SELECT:
        return 2 | 4; /* either or both */
    case TN_K_PHILOX:
        return 2 | 4;
    default:
        return 0;
    }
}

#endif
