/* routines.h: the loops over blocks, once for each instruction set.
 *
 * All are compiled from the same sources (routines_*.c) with other flags and
 * give the same bits, but for products and convolutions, whose sums are by fma
 * where there is one. Names that leave such a file end in two underscores and
 * the set: tn__cpu_arith__v3. Blocks may be written where an operand lies
 * (element for element), unless said otherwise. */
#ifndef TN_CPU_ROUTINES_H
#define TN_CPU_ROUTINES_H

#include <stdint.h>
#include <tenon/plugin.h>

/* Products of a sum that are added up before they join those before them. */
#define TN_CPU_DEPTH 192

/* Register types, dense. */
enum { CPU_F32, CPU_F64, CPU_I32, CPU_I64, CPU_BOOL, CPU_TYPE_COUNT };

/* out[i] = f(a[i], b[i], c[i]). Bit 0, 1, 2 of scalar: a, b, c is one value
 * (which of them an operation takes so is for tn__cpu_scalar_allowed). A BOOL
 * is one byte, 0 or 1. */
typedef void tn_cpu_run(void *out, const void *a, const void *b,
                        const void *c, int64_t n, unsigned scalar);

/* A function printed from its definition; out overlaps nothing. */
typedef void tn_cpu_math(void *out, const void *a, const void *b,
                         const void *c, int64_t n);

/* PHILOX of a, and of a + 1 to next; b and c are one value each. */
typedef void tn_cpu_pair(void *out, void *next, const void *a, const void *b,
                         const void *c, int64_t n);

/* Between a register block and memory with a stride, in elements. */
typedef void tn_cpu_load(void *out, const void *memory, int64_t stride,
                         int64_t n);
typedef void tn_cpu_store(void *memory, const void *in, int64_t stride,
                          int64_t n);
/* out[i * columns + j] = memory[i * row + j * column], read column by column:
 * for memory that is denser that way. */
typedef void tn_cpu_load_tile(void *out, const void *memory, int64_t rows,
                              int64_t columns, int64_t row, int64_t column);
/* out[i] = memory[offset[i]], 0 where that is TN_CPU_OUTSIDE. */
typedef void tn_cpu_gather(void *out, const void *memory,
                           const int64_t *offset, int64_t n);
#define TN_CPU_OUTSIDE INT64_MIN
/* where[i] += index[i] * stride; OUTSIDE where index[i] is not below extent.
 * Returns whether there is such an index. */
typedef int tn_cpu_place(int64_t *where, const int64_t *index, int64_t stride,
                         int64_t extent, int64_t n);
/* out[j * out_step + i] = memory[i * in_step + j] for i < rows, j < columns.
 * stream: past the caches where it can be had. */
typedef void tn_cpu_transpose(void *out, int64_t out_step, const void *memory,
                              int64_t in_step, int64_t rows, int64_t columns,
                              int stream);
/* Four bytes beside a copied row, counted from where that begins; where the first
 * row's are from, and how far the next one's are from there. */
typedef struct tn_cpu_edge {
    int64_t at;
    const char *from;
    int64_t step;
} tn_cpu_edge;
/* Copies a block to memory past the caches, and asks for what lies `later`
 * bytes behind it; 0: the block was made, and nothing does. A fence must follow
 * before another thread may look (tn_cpu_routines.fence). */
typedef void tn_cpu_stream(void *memory, const void *block, int64_t bytes,
                           int64_t later);

/* out[i] = fold of x[i * stride .. + n), 0 < n <= TN_CHUNK, by lanes, for
 * count sequences. Memory is asked for so many bytes ahead. */
typedef void tn_cpu_fold(void *out, const void *x, int64_t n, int64_t count,
                         int64_t stride, int64_t ahead);
/* A factor of products: at[i * step + k], less center[i * center_step] where
 * that is not NULL. */
typedef struct tn_cpu_factor {
    const void *at, *center;
    int64_t step, center_step;
} tn_cpu_factor;
/* The same, by sum, of products of two factors, each rounded. */
typedef void tn_cpu_fold_products(void *out, const tn_cpu_factor *factor,
                                  int64_t n, int64_t count);
/* Lines of columns: of line i and column c ((x - less) * y) * scale, x[i *
 * x_step + c] and y likewise, less[i * center_step] and scale likewise. */
typedef struct tn_cpu_column_products {
    const void *x, *y, *center, *scale;
    int64_t x_step, y_step, center_step, scale_step;
} tn_cpu_column_products;
/* As tn_cpu_columns, by sum, of n lines of products. */
typedef void tn_cpu_columns_products(void *lanes,
                                     const tn_cpu_column_products *lines,
                                     int64_t open, int64_t n, int64_t rows);
/* The lanes of `rows` neighbouring rows, TN_LANES x rows values, take n more
 * elements of each: element k of row r is x[k * step + r]. open: elements
 * that they hold already, a multiple of TN_LANES. */
typedef void tn_cpu_columns(void *lanes, const void *x, int64_t step,
                            int64_t open, int64_t n, int64_t rows);
/* out = the prefix sums of in[0 .. n) by blocks (plugin.h), *before added to
 * each (NULL: none). *total: the last of them, without *before, where n is
 * a multiple of TN_LANES. stream: out passes the caches by, if it is aligned. */
typedef void tn_cpu_scan(void *out, const void *in, int64_t n,
                         const void *before, void *total, int stream);
/* The same of lines side by side, n of them in whole vectors: the elements k to
 * k + 3 of each, k a multiple of 4, are four rows. What they lack of the order
 * is in rows kept: low, of the four before; high, of the eight before; carry, of
 * all blocks before; first, to add to all. A row is made for those that follow:
 * the final one with low, and with high and carry too where whole is 1. */
typedef struct tn_cpu_scan_kept {
    const void *low, *high, *carry, *first;
    void *keep;
    int whole;
    int64_t in_next, out_next; /* bytes to the next four rows */
} tn_cpu_scan_kept;
typedef void tn_cpu_scan_rows(void *const *out, const void *const *in,
                              const tn_cpu_scan_kept *kept, int64_t n);
/* How many of x[0 .. n), whole vectors from the first on, stay behind *extreme, a
 * running one: these become it, and their places at. */
typedef int64_t tn_cpu_scan_unchanged(void *x, int64_t *place, int64_t n,
                                      const void *extreme, int64_t at);
/* Better than best[0]? Then best and *place (position of x[0] is k). fresh:
 * there is no best yet. */
typedef void tn_cpu_arg(void *best, int64_t *place, const void *x, int64_t n,
                        int64_t k, int fresh);
/* The same for n neighbouring rows, element k of each. */
typedef void tn_cpu_arg_columns(void *best, int64_t *place, const void *x,
                                int64_t n, int64_t k, int fresh);

/* c[m, n] = alpha * a[m, k] b[k, n] + beta * c, each with two strides; k
 * rises for every element, sums are kept in the register type. */
typedef void tn_cpu_gemm(int64_t m, int64_t n, int64_t k, const void *a,
                         int64_t a_row, int64_t a_column, const void *b,
                         int64_t b_row, int64_t b_column, void *c,
                         int64_t c_row, int64_t c_column, const void *alpha,
                         const void *beta);

/* The loops of products of floats, of one type (float_product.c): tiles are those of
 * convolution. Where beta is 0, c is not read. */
typedef struct tn_cpu_product_routines {
    /* c[j * c_step] = alpha * (sum over p < k of x[p] * rows[j * row + p]) +
     * beta * c[j * c_step], for j < count */
    void (*dots)(int64_t count, int64_t k, const void *x, const void *rows,
                 int64_t row, void *c, int64_t c_step, double alpha,
                 double beta);
    /* c[i * c_row + j] = sums[i * sums_row + j] + beta * c[..] */
    void (*store)(void *c, int64_t c_row, const void *sums, int64_t sums_row,
                  int64_t rows, int64_t columns, double beta);
} tn_cpu_product_routines;

/* TN_CPU_TILE_PREFETCH: sums are not in the caches, and are asked for before they
 * are wanted. */
enum { TN_CPU_TILE_ADD = 1, TN_CPU_TILE_PREFETCH = 2 };

/* The loops of convolution, of one type (cpu_conv.c says what they serve). Sums
 * and panels are rows of `vectors` (1 or 2) vectors of `lanes` elements. */
typedef struct tn_cpu_conv_routines {
    int64_t lanes;
    int64_t strip; /* pixels of a tile with pixels as lanes */
    /* sums[i][..] (TN_CPU_TILE_ADD: plus) alpha times the sum over p < depth of
     * x[i][at[p]] * w[p][..] for i < count; w_row and sums_row are from row to
     * row, in elements. */
    void (*tiles)(int64_t count, int64_t vectors, int64_t depth,
                  const void *const *x, const int64_t *at, const void *w,
                  int64_t w_row, void *sums, int64_t sums_row, double alpha,
                  int how);
    /* sums[q][..] = the sum over r < rows, p < depth and t < 3 of
     * x[at[i] + q + t] * w[i * lanes + t * tap ..] with i = 3 r depth + p, for
     * q < count, at least `line`: pixels side by side, one vector each. NULL for
     * float64 and plain sets, which are not worth its size. */
    void (*filter_rows)(int64_t count, int64_t rows, int64_t depth,
                        const void *x, const int64_t *at, const void *w,
                        int64_t tap, void *sums);
    int64_t min_columns;
    /* Its adjoint, or NULL: sums[i * lanes + t * tap ..] (add: plus) the sum over r < rows
     * and q < columns, at least 2, of x[i][at[r] + q + t] * w[(r * columns + q)
     * * lanes ..], for i < count and t < 3. */
    void (*correlate_rows)(int64_t count, int64_t rows, int64_t columns,
                           const void *const *x, const int64_t *at,
                           const void *w, int64_t tap, void *sums, int add);
    /* Pixels of a plane as lanes, or NULL: out[q] = bias plus the sum over i <
     * rows and j < 3 of x[q + i * row + j] * w[3 * i + j], for j = 0 and 2 only
     * where the bits of mask[j * mask_step + q + j] are set, for q < count. x is
     * read up to 5 vectors beyond, mask one vector before as well. */
    void (*filter_plane)(int64_t count, int64_t rows, int64_t row,
                         const void *x, const void *w, const void *mask,
                         int64_t mask_step, void *out, double bias);
    /* Its adjoint, or NULL: sums[3 * i + j] += the sum over p < count, in
     * vectors, of x[p + i * row] * y[p - j] where the bits of
     * mask[j * mask_step + p] are set (0: y is 0). Each is a vector, which the
     * caller sums up; there are rows of them in whole threes. */
    void (*correlate_plane)(int64_t count, int64_t rows, int64_t row,
                            const void *x, const void *y, const void *mask,
                            int64_t mask_step, void *sums);
    /* Pixels as lanes: sums[v * next + q] = bias[v * bias_step] (NULL: 0) plus
     * the sum over p < depth of x[q + at[p]] * w[p * vectors + v], for v <
     * vectors, at most 4, and q < count, a multiple of strip. */
    void (*filter_strip)(int64_t count, int64_t vectors, int64_t depth,
                         const void *x, const int64_t *at, const void *w,
                         void *sums, int64_t next, const void *bias,
                         int64_t bias_step);
    /* sums[t * sums_step] += the sum over q < count, a multiple of lanes, of
     * x[q + at[t]] * y[q] where the bits of mask[q] are set (0: y[q] is 0, and
     * x[..] may be anything). */
    void (*correlate_strip)(int64_t taps, int64_t count, const void *x,
                            const int64_t *at, const void *y, const void *mask,
                            void *sums, int64_t sums_step);
    /* out[p][o] = in[o * channel + p * step]; 0 for o in [channels, width). */
    void (*gather)(void *out, int64_t width, const void *in, int64_t channel,
                   int64_t step, int64_t channels, int64_t count);
    void (*add_to)(void *a, const void *b, int64_t n); /* a[i] += b[i] */
} tn_cpu_conv_routines;

/* The transforms of conv_winograd.c, of tiles of one row or of two. A plane is one
 * of the four or sixteen elements of all tiles, in elements from one to the
 * next. */
typedef struct tn_cpu_winograd_routines {
    /* Rows whose even and odd columns are halves: out[2 * half * i + half * (k %
     * 2) + k / 2] = in[i][j] for k = first + j. */
    void (*split)(float *out, int64_t half, const float *in, int64_t in_row,
                  int64_t rows, int64_t columns, int64_t first);
    /* The windows, of 4 x 4 or of 4, of `count` tiles side by side, from split
     * rows: up to 15 more are read and written. */
    void (*windows)(float *out, int64_t plane, const float *in, int64_t half,
                    int64_t count);
    /* rows (at most a tile's) x columns of out, plus bias; as many more are
     * read. */
    void (*results)(float *out, int64_t out_row, int64_t rows,
                    int64_t columns, const float *in, int64_t plane,
                    float bias);
    /* Eight filters, side by side; step: from tap to tap. */
    void (*filters)(float *out, int64_t plane, const float *in, int64_t step);
    /* A tile's rows of 2 * count pixels of `width` channels, in whole vectors,
     * as count tiles of so many. */
    void (*cotangents)(float *out, int64_t plane, const float *in,
                       int64_t in_row, int64_t width, int64_t count);
    /* The gradients of the taps of `width` filters, a row each. */
    void (*taps)(float *out, int64_t width, const float *in, int64_t plane);
} tn_cpu_winograd_routines;

/* The loops of pooling, of one type, over rows x columns of a plane. */
typedef struct tn_cpu_pool_routines {
    /* Where in[j] is greater than best[j] (or the first NaN), it and its
     * index first + place[j]; MAX of the two where they are equal. */
    void (*max_update)(void *best, int32_t *at, const void *in,
                       const int32_t *place, int32_t first, int64_t n);
    /* out[..] = in[..], or += */
    void (*copy)(void *out, int64_t out_row, int64_t out_step, const void *in,
                 int64_t in_row, int64_t in_step, int64_t rows,
                 int64_t columns, int add);
    /* out[i][j] = in[i][j] / (row_count[i] * column_count[j]) */
    void (*divide)(void *out, int64_t out_row, const void *in, int64_t in_row,
                   int64_t rows, int64_t columns, const int64_t *row_count,
                   const int64_t *column_count);
    /* The means of rows x columns windows of `lines` lines, one or two wide,
     * which begin in_step after those of the row above and have all of `count`
     * elements; room: for as many lines. */
    void (*mean)(void *out, const void *in, int64_t in_row, int64_t in_step,
                 int64_t lines, int64_t width, int64_t rows, int64_t columns,
                 void *room, int64_t count);
    /* And what flows back, all of out, which has no others; of any width. */
    void (*mean_backward)(void *out, int64_t lines, int64_t width,
                          const void *in, int64_t in_row, int64_t rows,
                          int64_t columns, int64_t count);
    /* out[at[i]] += in[i] */
    void (*scatter_add)(void *out, const void *in, const int64_t *at,
                        int64_t n);
} tn_cpu_pool_routines;

/* Windows of float32 whose lines have at least WIDE elements; all of them side by
 * side have at least WIDE_LEAST, a vector of each set. */
#define TN_CPU_WIDE 4
#define TN_CPU_WIDE_LEAST 16
/* Windows side by side of a plane, around which may be read from `low` up to
 * `there`: element k, l of window j is at from + k * in_row + j * step +
 * l * apart. Its column is that of the first, `column`, and as many further; it
 * is within the image from 0 up to size. */
typedef struct tn_cpu_pool_row {
    const float *in; /* the plane */
    int64_t low, there, from, in_row, lines, line_places, width, apart;
    int64_t step; /* 1 or 2 */
    int64_t column, size, n;
    const int32_t *first; /* of each window, its first element within */
    int32_t row, place;   /* of the row that is in; and of element 0, 0 */
} tn_cpu_pool_row;
typedef struct tn_cpu_window_routines {
    /* out[j] = the greatest of window j, index[j] = where it stands (NULL: nobody
     * wants to know). NULL: there is no such loop. */
    void (*max_windows)(float *out, int64_t *index, const tn_cpu_pool_row *row);
    /* best[j] = the greatest of column j of so many lines; at[j] = the number of
     * the first that has it, times step */
    void (*max_columns)(float *best, int32_t *at, const float *in,
                        int64_t in_row, int64_t lines, int32_t step, int64_t n);
    /* The same of these and of others, whose places are place[j] + first. */
    void (*merge_max)(float *best, int32_t *at, const float *in,
                      const int32_t *place, int32_t first, int64_t n);
    /* out[j] = the sum of column j, whose line k is of lane k % lanes */
    void (*sum_columns)(float *out, const float *in, int64_t in_row,
                        int64_t lines, int64_t lanes, int64_t n);
} tn_cpu_window_routines;

/* Scores of `rows` queries and `width` keys, `row` elements from one query to
 * the next, a multiple of 16. Query i looks at the first `first + i` keys. */
typedef struct tn_cpu_scores {
    float *s;
    int64_t row, rows, width, first;
} tn_cpu_scores;

/* The loops of attention, of float32: rows of scores, `row` elements from one to
 * the next, a multiple of 16. Row i looks at the first `first + i` of `width`
 * keys; what lies behind them counts for nothing and is 0 then. */
typedef struct tn_cpu_attention_routines {
    /* s[j] is -inf where mask[j * step] is false (is_bool), or mask[j * step] is
     * added to it. */
    void (*apply_mask)(float *s, const void *mask, int64_t step, int is_bool,
                       int64_t n);
    /* most[i] = the greatest of it and the row, s = exp(s - most[i]); sum[i] and
     * the row of out, which are of most[i] as it was, follow it; s adds to
     * sum[i]. */
    void (*softmax_block)(const tn_cpu_scores *scores, float *most, float *sum,
                          float *out, int64_t out_row, int64_t values);
    /* out /= sum; 0 where that is. */
    void (*normalize)(float *out, int64_t out_row, int64_t rows, int64_t values,
                      const float *sum);
    /* s = exp(s - lse), d = s * (d - mean) */
    void (*softmax_backward)(const tn_cpu_scores *scores, float *d,
                             const float *lse, const float *mean);
    /* out[i] = the sum over j < n of x[i][j] * y[i][j] */
    void (*row_dots)(const float *x, int64_t x_row, const float *y,
                     int64_t y_row, int64_t rows, int64_t n, float *out);
} tn_cpu_attention_routines;

/* Factorisations of small matrices, a vector's lanes of them at once: matrices
 * of vectors, with both steps in vectors. What they mean plugin.h says; of
 * pivots, from 0 here, and info lane after lane is told. */
typedef struct tn_cpu_lanes {
    void *at;
    int64_t row, column;
} tn_cpu_lanes;
typedef struct tn_cpu_lapack_work {
    uint32_t kind, flags; /* TN_LAPACK_... */
    int m, n, sides;
    tn_cpu_lanes a, b, c;
    void *values, *room; /* n; n x n, of EIGH with VECTORS */
    int32_t *pivots, *info;
} tn_cpu_lapack_work;
typedef void tn_cpu_lapack(const tn_cpu_lapack_work *work);
#define TN_CPU_LAPACK_MOST 32 /* rows and columns */

typedef struct tn_cpu_math_entry {
    uint64_t hash; /* of the definition that the routine was printed from */
    const char *name;
    tn_cpu_math *run;
} tn_cpu_math_entry;

#define TN_CPU_PARTS 64 /* of a line of keys */

/* What one tap of a sum has for up to a vector of points (taps_blocks.c): point i takes
 * in[low + at[i]] times weight[i]; `there` elements are to be read from low on,
 * two vectors at most. Low, there and the number of points are those of all its
 * taps. */
#define TN_CPU_TAPS 12     /* most of a sum: of as many, 26 operands */
#define TN_CPU_TAP_DEPTH 4 /* of additions one above the other: 16 leaves */
typedef struct tn_cpu_tap {
    float weight[16];
    uint8_t at[16];
    int64_t low, points;
    uint32_t there;
} tn_cpu_tap;
/* Rows of n sums each, of rows of `from` elements; steps in elements. Before
 * `end` all may be read. Meanwhile as many rows from `next` on are asked for, and
 * those they go to from `next_out` on, unless NULL. */
typedef struct tn_cpu_tap_rows {
    float *out;
    const float *in, *end, *next, *next_out;
    int64_t count, n, out_step, in_step, from;
} tn_cpu_tap_rows;

typedef struct tn_cpu_routines {
    const char *isa;
    int native; /* machine code is made for this one (native_body.h) */
    int double_pumped; /* 64 bytes pass through the processor as two halves (isa.c) */
    int strings; /* its string instructions are fast (ERMS) */
    tn_cpu_run *op[TN_K_END][CPU_TYPE_COUNT]; /* by type of the operands */
    /* [F32, F64][a + b, a - b, a * b][that + c, - c, c - that, * c]; each of
     * the three may be one value. */
    tn_cpu_run *const (*pair[2])[4];
    tn_cpu_run *cast[CPU_TYPE_COUNT][CPU_TYPE_COUNT]; /* from, to */
    tn_cpu_pair *philox_pair;
    tn_cpu_run *narrow[TN_DTYPE_END];
    tn_cpu_run *fill[CPU_TYPE_COUNT]; /* out[i] = *a */
    tn_cpu_load *load[TN_DTYPE_END];
    tn_cpu_store *store[TN_DTYPE_END];
    tn_cpu_load_tile *load_tile[TN_DTYPE_END]; /* NULL: go run by run */
    tn_cpu_gather *gather[TN_DTYPE_END];
    tn_cpu_place *place;
    /* The sums of rows, all by the same entries, one after the other but for the
     * last, which ends where a row does. Their taps, one after the other, are
     * those leaves of a tree of additions that have bits. tap_points: of a
     * vector; 0: there are no such routines. */
    void (*taps)(const tn_cpu_tap_rows *rows, const tn_cpu_tap *tap,
                 int64_t entries, int depth, uint32_t leaves);
    /* The same where row r takes whole lines, from in + at[r * count + t] on,
     * times weight[r * count + t]. */
    void (*tap_lines)(const tn_cpu_tap_rows *rows, const int64_t *at,
                      const float *weight, int depth, uint32_t leaves);
    int64_t tap_points;
    /* Is any of n indices none of [0, extent)? */
    int (*outside)(const int64_t *index, int64_t extent, int64_t n);
    /* Rows of so many bytes, each a step further than the one before. */
    void (*copy_rows)(char *to, int64_t to_step, const char *from,
                      int64_t from_step, int64_t rows, int64_t bytes);
    /* The same of at least 16 bytes, with two edges. */
    void (*copy_edged)(char *to, int64_t to_step, const char *from,
                       int64_t from_step, int64_t rows, int64_t bytes,
                       const tn_cpu_edge edge[2]);
    /* Past the caches, rows of an element or none, `count` floats, at least 16,
     * and an element or none, one after the other; NULL: cannot be had. */
    void (*stream_edged)(char *to, const char *from, int64_t from_step,
                         int64_t rows, int64_t count,
                         const tn_cpu_edge *before, const tn_cpu_edge *after);
    tn_cpu_transpose *transpose[9]; /* by the bytes of an element: 1, 2, 4, 8 */
    tn_cpu_stream *stream; /* NULL: cannot be had */
    void (*fence)(void);
    /* Keys of n floats or int32, n a multiple of TN_CPU_PARTS: signed numbers in
     * their order, NaN greatest, -0 as +0; flip turns their bits over. */
    void (*keys)(int32_t *key, const void *block, int64_t n, int is_float,
                 int32_t flip);
    /* Of n keys, a multiple of TN_CPU_PARTS, all that may be among the first
     * `wanted`, fewer than TN_CPU_PARTS: for each, the key with its highest bit
     * turned over and below it its place. Returns how many, at least wanted. */
    int64_t (*firsts)(uint64_t *items, const int32_t *key, int64_t n,
                      int32_t wanted);
    /* Where the one stands that is at rank in the stable order of n keys, a
     * multiple of TN_CPU_PARTS; room: for twice as many. */
    int64_t (*place_at)(const int32_t *key, int64_t n, int64_t rank,
                        int32_t *room);
    /* Where n bytes are not 0, or are: the first `room` places at most. Returns
     * how many. */
    int64_t (*places)(int64_t *out, int64_t room, const uint8_t *x, int64_t n,
                      int is_zero);
    void (*ramp)(int64_t *out, int64_t first, int64_t step, int64_t n);
    tn_cpu_fold *fold[TN_REDUCE_END][CPU_TYPE_COUNT];
    tn_cpu_fold_products *fold_products[CPU_TYPE_COUNT]; /* F32, F64 */
    tn_cpu_columns_products *columns_products; /* F32 */
    tn_cpu_columns *columns[TN_REDUCE_END][CPU_TYPE_COUNT];
    tn_cpu_scan *scan[CPU_TYPE_COUNT];           /* F32, F64 */
    tn_cpu_scan_rows *scan_rows[CPU_TYPE_COUNT]; /* F32, F64 */
    tn_cpu_scan_unchanged *unchanged[2][CPU_TYPE_COUNT]; /* [of MAX, of MIN]; NULL: none */
    tn_cpu_arg *arg[TN_REDUCE_END][CPU_TYPE_COUNT];
    tn_cpu_arg_columns *arg_columns[TN_REDUCE_END][CPU_TYPE_COUNT];
    tn_cpu_gemm *gemm[CPU_TYPE_COUNT]; /* I32, I64, BOOL */
    const tn_cpu_product_routines *product[CPU_TYPE_COUNT]; /* F32, F64 */
    const tn_cpu_conv_routines *conv[CPU_TYPE_COUNT]; /* F32, F64 */
    const tn_cpu_winograd_routines *winograd[2]; /* of F32, by rows - 1, or NULL */
    const tn_cpu_pool_routines *pool[CPU_TYPE_COUNT]; /* F32, F64 */
    const tn_cpu_window_routines *windows;
    const tn_cpu_attention_routines *attention;
    tn_cpu_lapack *lapack[CPU_TYPE_COUNT]; /* F32, F64; NULL: none; */
    int64_t lapack_lanes[CPU_TYPE_COUNT];  /* matrices that it takes */
    const tn_cpu_math_entry *math;
    uint32_t math_count;
    const struct tn_cpu_routines *narrower; /* has functions that are not here;
                                               NULL */
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

/* The routines for a set by name (NULL: the best of this machine). NULL, with
 * the reason recorded through the host, where it cannot be had (isa.c). */
const tn_cpu_routines *tn__cpu_routines_for(const char *name);

/* The function of a definition; NULL: there is none. */
const tn_cpu_math_entry *tn__cpu_math_find(const tn_cpu_routines *routines,
                                           uint64_t hash);

/* Which operands may be one value at once, as bits. */
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
        return 2 | 4; /* each of them */
    case TN_K_PHILOX:
        return 2 | 4;
    default:
        return 0;
    }
}

#endif
