/* routines.h: the table of loops over blocks of elements, one table for each
 * instruction set.
 *
 * All tables are compiled from the same sources (routines_*.c) with different
 * flags. Their results are bit-identical, except those of products,
 * convolutions, attention and factorisations, whose sums use fma where the set
 * has it. A symbol of these files ends in two underscores and the name of the
 * set: tn__cpu_arith__v3. An output may be the same memory as an operand unless
 * a comment says otherwise. Where a set has no non-temporal stores, loops use
 * ordinary stores instead.
 *
 * routines_conv.h has the loops of products and convolution, routines_pool.h
 * those of pooling. A tap is one element of a weighted sum over a window, as in
 * convolution and interpolation: its position in the window and its weight. A
 * plane is one channel of one image. */
#ifndef TN_CPU_ROUTINES_H
#define TN_CPU_ROUTINES_H

#include <stdint.h>
#include <tenon/plugin.h>

#include "routines_conv.h"
#include "routines_pool.h"
#include "routines_quantised.h"

/* A matrix product of floats sums up to this many products a[i][k] * b[k][j] in
 * registers, then adds the sum to c (float_product.c). */
#define TN_CPU_DEPTH 192

/* Register types: the types in which blocks of values are computed. Loads
 * convert the storage types (tn_dtype) to them. */
enum { CPU_F32, CPU_F64, CPU_I32, CPU_I64, CPU_BOOL, CPU_TYPE_COUNT };

/* out[i] = f(a[i], b[i], c[i]). If bit 0, 1 or 2 of `scalar` is set, operand a,
 * b or c is one value for all i. tn__cpu_scalar_allowed says which bits an
 * operation accepts. A BOOL is one byte, 0 or 1. */
typedef void tn_cpu_run(void *out, const void *a, const void *b,
                        const void *c, int64_t n, unsigned scalar);

/* A mathematical function. Its C code is generated from its definition. out
 * must not overlap an operand. */
typedef void tn_cpu_math(void *out, const void *a, const void *b,
                         const void *c, int64_t n);

/* Two draws of the random generator: out[i] = PHILOX(a[i], b, c) and next[i] =
 * PHILOX(a[i] + 1, b, c). b (the key) and c are one value each. */
typedef void tn_cpu_pair(void *out, void *next, const void *a, const void *b,
                         const void *c, int64_t n);

/* tn_cpu_load copies n elements from memory to a block, tn_cpu_store from a
 * block to memory. Memory has the storage type and a stride in elements. A
 * block has the register type and is contiguous. */
typedef void tn_cpu_load(void *out, const void *memory, int64_t stride,
                         int64_t n);
typedef void tn_cpu_store(void *memory, const void *in, int64_t stride,
                          int64_t n);
/* Loads a tile: out[i * columns + j] = memory[i * row + j * column]. Reads
 * memory column by column, which is faster if the stride of rows is smaller
 * than that of columns. */
typedef void tn_cpu_load_tile(void *out, const void *memory, int64_t rows,
                              int64_t columns, int64_t row, int64_t column);
/* Loads by offset: out[i] = memory[offset[i]], or 0 if offset[i] is
 * TN_CPU_OUTSIDE. */
typedef void tn_cpu_gather(void *out, const void *memory,
                           const int64_t *offset, int64_t n);
#define TN_CPU_OUTSIDE INT64_MIN
/* Applies one index of a gather: where[i] += index[i] * stride, where where[i]
 * is the offset of element i. It becomes TN_CPU_OUTSIDE if index[i] is not in
 * [0, extent), and stays TN_CPU_OUTSIDE if it was that before. Returns whether
 * an index is not in [0, extent). */
typedef int tn_cpu_place(int64_t *where, const int64_t *index, int64_t stride,
                         int64_t extent, int64_t n);
/* Transposes a matrix: out[j * out_step + i] = memory[i * in_step + j] for i <
 * rows, j < columns. If stream is not 0, uses non-temporal stores. */
typedef void tn_cpu_transpose(void *out, int64_t out_step, const void *memory,
                              int64_t in_step, int64_t rows, int64_t columns,
                              int stream);
/* An edge is one 4-byte element before or after each row of a copy, as in
 * padding by 1. `at` is its offset in bytes from the beginning of the row.
 * `from` is its source for the first row. `step` is the stride in bytes from
 * one row's source to the next. */
typedef struct tn_cpu_edge {
    int64_t at;
    const char *from;
    int64_t step;
} tn_cpu_edge;
/* Copies a block to memory by non-temporal stores. Prefetches the source
 * `later` bytes ahead, or not at all if later is 0. A fence must follow
 * (tn_cpu_routines.fence) before another thread may read the memory. */
typedef void tn_cpu_stream(void *memory, const void *block, int64_t bytes,
                           int64_t later);

/* out[i] = reduction of the n elements that begin at x[i * stride], for i <
 * count. n is between 1 and TN_CHUNK. The elements are combined in the order
 * that plugin_program.h defines, with TN_LANES partial results. Prefetches x
 * `ahead` bytes ahead. */
typedef void tn_cpu_fold(void *out, const void *x, int64_t n, int64_t count,
                         int64_t stride, int64_t ahead);
/* One factor of a dot product (tn_cpu_fold_products). Element k of sequence i
 * is
 *     at[i * step + k] - center[i * center_step]
 * If center is NULL, nothing is subtracted. */
typedef struct tn_cpu_factor {
    const void *at, *center;
    int64_t step, center_step;
} tn_cpu_factor;
/* Dot products: out[i] = sum over k < n of x(i, k) * y(i, k), for i < count.
 * x(i, k) is element k of sequence i of factor[0], y(i, k) that of factor[1].
 * Each product is rounded before it is added. */
typedef void tn_cpu_fold_products(void *out, const tn_cpu_factor *factor,
                                  int64_t n, int64_t count);
/* The input of a sum of products over columns (adjacent rows,
 * x[element][column]). Element i of column c is
 *     (x[i * x_step + c] - center[i * center_step]) *
 *         y[i * y_step + c] * scale[i * scale_step] */
typedef struct tn_cpu_column_products {
    const void *x, *y, *center, *scale;
    int64_t x_step, y_step, center_step, scale_step;
} tn_cpu_column_products;
/* Adds n more elements of each column of products to the column's TN_LANES
 * partial sums: for i < n and c < rows, lanes[(open + i) % TN_LANES][c] +=
 * element i of column c. `open` is the number of elements that were added
 * before. The first TN_LANES elements are stored instead of added. */
typedef void tn_cpu_columns_products(void *lanes,
                                     const tn_cpu_column_products *lines,
                                     int64_t open, int64_t n, int64_t rows);
/* Reduces columns: `rows` adjacent rows whose elements of equal index are
 * contiguous. Element k of row r is x[k * step + r]. Each row has TN_LANES
 * partial results. Combines n more elements of each row with them: element k of
 * row r with lanes[k % TN_LANES][r]. `open` is the number of elements that were
 * combined before, a multiple of TN_LANES. */
typedef void tn_cpu_columns(void *lanes, const void *x, int64_t step,
                            int64_t open, int64_t n, int64_t rows);
/* out = prefix sums of in[0 .. n), plus *before unless `before` is NULL.
 * plugin_primitives.h defines the order of the additions, by blocks of TN_LANES
 * elements. If n is a multiple of TN_LANES, *total becomes the last sum without
 * *before. If stream is not 0 and out is aligned, uses non-temporal stores. */
typedef void tn_cpu_scan(void *out, const void *in, int64_t n,
                         const void *before, void *total, int stream);
/* Arguments of tn_cpu_scan_rows, which computes prefix sums of n adjacent
 * sequences, as for a cumsum over the rows of a matrix. Row k of `in` and of
 * `out` holds element k of all sequences. A call computes four rows, k to k +
 * 3, where k is a multiple of 4. n is a number of whole vectors. The arrays
 * below have one element for each sequence:
 *
 * - low: the sums of the preceding four elements, or -0.0
 * - high: the sums of the preceding eight elements, or -0.0
 * - carry: the sums of all preceding blocks of TN_LANES elements
 * - first: values that are added to all sums of the sequence
 * - keep: receives low + the sum of the four elements or, if `whole` is 1,
 *   carry + high + low + that sum, for later calls */
typedef struct tn_cpu_scan_kept {
    const void *low, *high, *carry, *first;
    void *keep;
    int whole;
    /* strides in bytes from these four rows to the next four */
    int64_t in_next, out_next;
} tn_cpu_scan_kept;
typedef void tn_cpu_scan_rows(void *const *out, const void *const *in,
                              const tn_cpu_scan_kept *kept, int64_t n);
/* Part of a running maximum or minimum (torch.cummax, torch.cummin). *extreme
 * is the maximum or minimum so far, and `at` is its index. Processes elements,
 * beginning with x[0], in whole vectors, as long as they do not change
 * *extreme: sets x[i] = *extreme and place[i] = at. Returns the number of
 * elements processed. */
typedef int64_t tn_cpu_scan_unchanged(void *x, int64_t *place, int64_t n,
                                      const void *extreme, int64_t at);
/* Updates an argmax or argmin with n elements: if one of them is larger
 * (argmax) or smaller (argmin) than best[0], it becomes best[0], and its index
 * becomes *place. x[0] has index k. If fresh is not 0, best[0] holds no value
 * yet. */
typedef void tn_cpu_arg(void *best, int64_t *place, const void *x, int64_t n,
                        int64_t k, int fresh);
/* Updates the argmax or argmin of n adjacent rows with one element of each row:
 * x[i] is element k of row i. best[i] and place[i] belong to row i. */
typedef void tn_cpu_arg_columns(void *best, int64_t *place, const void *x,
                                int64_t n, int64_t k, int fresh);

/* c = alpha * a @ b + beta * c with a of m x k, b of k x n and c of m x n
 * elements, each with a stride for rows and one for columns. Sums run over
 * rising k, in the register type. */
typedef void tn_cpu_gemm(int64_t m, int64_t n, int64_t k, const void *a,
                         int64_t a_row, int64_t a_column, const void *b,
                         int64_t b_row, int64_t b_column, void *c,
                         int64_t c_row, int64_t c_column, const void *alpha,
                         const void *beta);

/* Attention scores of `rows` queries and `width` keys: s[query * row + key],
 * where row is a multiple of 16. Query i attends to the keys before key first +
 * i. Its scores for other keys are ignored and become 0. */
typedef struct tn_cpu_scores {
    float *s;
    int64_t row, rows, width, first;
} tn_cpu_scores;

/* The loops of attention (scaled_dot_product_attention), for float32. */
typedef struct tn_cpu_attention_routines {
    /* Applies an attention mask. If is_bool, s[j] = -inf where mask[j * step]
     * is false. Otherwise s[j] += mask[j * step]. */
    void (*apply_mask)(float *s, const void *mask, int64_t step, int is_bool,
                       int64_t n);
    /* Online softmax, for each query i: most[i] = max(most[i], max of its
     * scores), s = exp(s - most[i]). Rescales sum[i] and row i of out, which
     * has `values` elements, to the new most[i]. Then adds the new s to
     * sum[i]. */
    void (*softmax_block)(const tn_cpu_scores *scores, float *most, float *sum,
                          float *out, int64_t out_row, int64_t values);
    /* out[i][..] /= sum[i], or = 0 if sum[i] is 0 */
    void (*normalize)(float *out, int64_t out_row, int64_t rows, int64_t values,
                      const float *sum);
    /* Gradient of the softmax, for each query i: s = exp(s - lse[i]), then d =
     * s * (d - mean[i]). */
    void (*softmax_backward)(const tn_cpu_scores *scores, float *d,
                             const float *lse, const float *mean);
    /* out[i] = sum over j < n of x[i][j] * y[i][j] */
    void (*row_dots)(const float *x, int64_t x_row, const float *y,
                     int64_t y_row, int64_t rows, int64_t n, float *out);
} tn_cpu_attention_routines;

/* Factorisations of small matrices, one matrix in each lane of a vector.
 * plugin_extensions.h defines the operations. Element (i, j) of all matrices is
 * the vector at[i * row + j * column]. Pivot i of the matrix in a lane is
 * pivots[i][lane], counted from 0. */
typedef struct tn_cpu_lanes {
    void *at;
    int64_t row, column;
} tn_cpu_lanes;
typedef struct tn_cpu_lapack_work {
    uint32_t kind, flags; /* TN_LAPACK_... */
    int m, n, sides;
    tn_cpu_lanes a, b, c;
    /* `values` has n vectors of eigenvalues or singular values. `room` is
     * scratch space: min(m, n) vectors for QR and SVD, n x n vectors for EIGH
     * with VECTORS. */
    void *values, *room;
    int32_t *pivots, *info;
} tn_cpu_lapack_work;
typedef void tn_cpu_lapack(const tn_cpu_lapack_work *work);
#define TN_CPU_LAPACK_MOST 32 /* maximum number of rows or columns */

typedef struct tn_cpu_math_entry {
    /* Hash of the definition from which the routine was generated. */
    uint64_t hash;
    const char *name;
    tn_cpu_math *run;
} tn_cpu_math_entry;

/* The routines for sort keys (firsts, place_at) divide a sequence into this
 * many interleaved parts (routines_order.c). */
#define TN_CPU_PARTS 64

/* Maximum number of taps, terms weight * x[index], in a weighted sum. */
#define TN_CPU_TAPS 12
/* Maximum depth of the binary tree in which the taps of a sum are added. A tree
 * of this depth has 16 leaves. */
#define TN_CPU_TAP_DEPTH 4
/* One tap of each of `points` adjacent weighted sums, as in interpolation. The
 * tap of sum i is in[low + at[i]] * weight[i]. There are at most as many sums
 * as a vector has elements. Only the elements in[low] to in[low + there - 1]
 * may be read, and `there` is at most two vectors. All taps of a sum have the
 * same low, there and points. */
typedef struct tn_cpu_tap {
    float weight[16];
    uint8_t at[16];
    int64_t low, points;
    uint32_t there;
} tn_cpu_tap;
/* Rows of weighted sums: `count` rows of n sums each. An input row has `from`
 * elements. in_step and out_step are strides of rows in elements. Memory before
 * `end` may be read. The routines prefetch the `count` input rows that begin at
 * `next`, unless `next` is NULL, and the `count` output rows that begin at
 * `next_out`, unless `next_out` is NULL. */
typedef struct tn_cpu_tap_rows {
    float *out;
    const float *in, *end, *next, *next_out;
    int64_t count, n, out_step, in_step, from;
} tn_cpu_tap_rows;

/* Constants that depend on the processor family (family.c). Distances are in
 * bytes; 0 means no prefetch. */
typedef struct tn_cpu_family {
    const char *name;
    /* Whether sums and products of two operands use 64-byte vectors if the set
     * has them. */
    int wide;
    /* Whether programs of one stage (pass) prefetch their operands if they
     * update a tensor in place. */
    int prefetches_in_place;
    int prefetches_columns; /* whether reductions of columns prefetch */
    int64_t reduce_ahead;   /* prefetch distance of reductions of rows */
    /* Prefetch distance of reductions of rows that exceed the last-level
     * cache. */
    int64_t reduce_far_ahead;
    /* Prefetch distance of copies by non-temporal stores. */
    int64_t copy_ahead;
    /* Prefetch distance of machine code with one input stream and non-temporal
     * stores, for which the hardware prefetches too late. */
    int64_t stream_ahead;
    /* Prefetch distance of products of a few rows with a weight. */
    int64_t weight_ahead;
} tn_cpu_family;
const tn_cpu_family *tn__cpu_family_here(void);

typedef struct tn_cpu_routines {
    /* Many fields are arrays with an entry for each register type. A comment
     * such as "F32, F64" lists the types that have an entry. The entries of
     * other types are NULL. */
    const char *isa;
    /* The instruction set for which the JIT compiler generates machine code
     * (native_body.h), or CPU_NATIVE_NONE. */
    uint8_t native;
    const tn_cpu_family *family;
    /* true if the processor has fast string instructions (ERMS) */
    int strings;
    /* op[operation][type of the operands]. */
    tn_cpu_run *op[TN_K_END][CPU_TYPE_COUNT];
    /* pair[0 for F32, 1 for F64][first][second]: two operations in one pass.
     * `first` computes t as a + b, a - b or a * b, and `second` computes t + c,
     * t - c, c - t or t * c. Each of a, b and c may be one value. */
    tn_cpu_run *const (*pair[2])[4];
    tn_cpu_run *cast[CPU_TYPE_COUNT][CPU_TYPE_COUNT]; /* cast[from][to] */
    tn_cpu_pair *philox_pair;
    tn_cpu_run *narrow[TN_DTYPE_END];
    tn_cpu_run *fill[CPU_TYPE_COUNT]; /* out[i] = *a */
    tn_cpu_load *load[TN_DTYPE_END];
    tn_cpu_store *store[TN_DTYPE_END];
    /* NULL for dtypes without such a loop; callers then use `load`. */
    tn_cpu_load_tile *load_tile[TN_DTYPE_END];
    tn_cpu_gather *gather[TN_DTYPE_END];
    tn_cpu_place *place;
    /* Computes weighted sums in rows that all use the same taps. An entry is a
     * vector of adjacent sums. tap[entry] has one tn_cpu_tap for each bit of
     * `leaves` that is set. The taps of a sum are added in a binary tree of the
     * given depth, and bit i of `leaves` says whether leaf i is a tap or
     * absent. Each entry begins where the preceding entry ends, but the last
     * entry ends where the row ends. */
    void (*taps)(const tn_cpu_tap_rows *rows, const tn_cpu_tap *tap,
                 int64_t entries, int depth, uint32_t leaves);
    /* Computes weighted sums of whole rows: tap t of row r is the row that
     * begins at in[at[r * taps + t]], times weight[r * taps + t]. taps is the
     * number of bits of `leaves` that are set. */
    void (*tap_lines)(const tn_cpu_tap_rows *rows, const int64_t *at,
                      const float *weight, int depth, uint32_t leaves);
    /* Number of adjacent sums that an entry of taps() computes, or 0 if the set
     * has no such routines. */
    int64_t tap_points;
    /* Returns whether one of n indices is not in [0, extent). */
    int (*outside)(const int64_t *index, int64_t extent, int64_t n);
    /* Copies rows of `bytes` bytes. Steps are strides in bytes. */
    void (*copy_rows)(char *to, int64_t to_step, const char *from,
                      int64_t from_step, int64_t rows, int64_t bytes);
    /* Copies rows of at least 16 bytes, and the two edges of each row (the
     * single elements before and after it). */
    void (*copy_edged)(char *to, int64_t to_step, const char *from,
                       int64_t from_step, int64_t rows, int64_t bytes,
                       const tn_cpu_edge edge[2]);
    /* Writes contiguous rows by non-temporal stores. A row consists of the edge
     * `before`, `count` floats (at least 16) and the edge `after`. `before` or
     * `after` may be NULL. The function pointer is NULL if the instruction set
     * has no such loop. */
    void (*stream_edged)(char *to, const char *from, int64_t from_step,
                         int64_t rows, int64_t count,
                         const tn_cpu_edge *before, const tn_cpu_edge *after);
    /* transpose[b] is for elements of b bytes: 1, 2, 4 or 8. */
    tn_cpu_transpose *transpose[9];
    tn_cpu_stream *stream; /* NULL if the set has no non-temporal stores */
    void (*fence)(void);
    /* Computes sort keys of n floats or int32: signed integers in the order of
     * the values. NaN has the largest key, and -0 has the same key as +0. The
     * keys are XORed with flip. n is a multiple of TN_CPU_PARTS. */
    void (*keys)(int32_t *key, const void *block, int64_t n, int is_float,
                 int32_t flip);
    /* Collects from n keys all those that may be among the `wanted` smallest.
     * Writes an item for each of them: the key, with its highest bit flipped,
     * in the upper 32 bits and its index in the lower 32 bits. Returns the
     * number of items, which is at least `wanted`. n is a multiple of
     * TN_CPU_PARTS, and wanted < TN_CPU_PARTS. */
    int64_t (*firsts)(uint64_t *items, const int32_t *key, int64_t n,
                      int32_t wanted);
    /* Returns the index of the element with rank `rank` (counted from 0) in the
     * stable order of n keys. n is a multiple of TN_CPU_PARTS. room[] has space
     * for 2 * n keys. */
    int64_t (*place_at)(const int32_t *key, int64_t n, int64_t rank,
                        int32_t *room);
    /* Writes the indices of the bytes that are not 0, or with is_zero of the
     * bytes that are 0. Stops after `room` indices. Returns the number of
     * indices written. */
    int64_t (*places)(int64_t *out, int64_t room, const uint8_t *x, int64_t n,
                      int is_zero);
    /* out[i] = first + i * step */
    void (*ramp)(int64_t *out, int64_t first, int64_t step, int64_t n);
    tn_cpu_fold *fold[TN_REDUCE_END][CPU_TYPE_COUNT];
    tn_cpu_fold_products *fold_products[CPU_TYPE_COUNT]; /* F32, F64 */
    tn_cpu_columns_products *columns_products; /* F32 */
    tn_cpu_columns *columns[TN_REDUCE_END][CPU_TYPE_COUNT];
    tn_cpu_scan *scan[CPU_TYPE_COUNT];           /* F32, F64 */
    tn_cpu_scan_rows *scan_rows[CPU_TYPE_COUNT]; /* F32, F64 */
    /* unchanged[0] is for MAX, unchanged[1] for MIN. NULL if not available. */
    tn_cpu_scan_unchanged *unchanged[2][CPU_TYPE_COUNT];
    tn_cpu_arg *arg[TN_REDUCE_END][CPU_TYPE_COUNT];
    tn_cpu_arg_columns *arg_columns[TN_REDUCE_END][CPU_TYPE_COUNT];
    tn_cpu_gemm *gemm[CPU_TYPE_COUNT]; /* I32, I64, BOOL */
    const tn_cpu_product_routines *product[CPU_TYPE_COUNT]; /* F32, F64 */
    tn_cpu_rows *rows[TN_DTYPE_END]; /* F32, F16, BF16 */
    /* Relaxed products of BF16, or NULL if the processor has no instruction for
     * them. */
    tn_cpu_bf16_rows *bf16_rows;
    const tn_cpu_conv_routines *conv[CPU_TYPE_COUNT]; /* F32, F64 */
    /* Transforms for convolutions of float32. winograd[0] is for tiles of 2
     * adjacent pixels, winograd[1] for tiles of 2 x 2 pixels. NULL if the
     * instruction set has none. */
    const tn_cpu_winograd_routines *winograd[2];
    const tn_cpu_pool_routines *pool[CPU_TYPE_COUNT]; /* F32, F64 */
    const tn_cpu_window_routines *windows;
    const tn_cpu_attention_routines *attention;
    const tn_cpu_quantised_routines *quantised;
    tn_cpu_lapack *lapack[CPU_TYPE_COUNT]; /* F32, F64; NULL if not available */
    int64_t lapack_lanes[CPU_TYPE_COUNT];  /* number of matrices (lanes) that
                                            * one call processes */
    const tn_cpu_math_entry *math;
    uint32_t math_count;
    /* The table of a narrower instruction set, for functions that this set does
     * not have, or NULL. */
    const struct tn_cpu_routines *narrower;
} tn_cpu_routines;

/* Declares the functions of one instruction set. Each fills the table's entries
 * with the loops of its file. */
#define TN_CPU_ISA(isa)                                                       \
    void tn__cpu_arith__##isa(tn_cpu_routines *table);                        \
    void tn__cpu_random__##isa(tn_cpu_routines *table);                       \
    void tn__cpu_convert__##isa(tn_cpu_routines *table);                      \
    void tn__cpu_move__##isa(tn_cpu_routines *table);                         \
    void tn__cpu_reduce__##isa(tn_cpu_routines *table);                       \
    void tn__cpu_gemm__##isa(tn_cpu_routines *table);                         \
    void tn__cpu_rows__##isa(tn_cpu_routines *table);                         \
    void tn__cpu_conv__##isa(tn_cpu_routines *table);                         \
    void tn__cpu_winograd__##isa(tn_cpu_routines *table);                     \
    void tn__cpu_pool__##isa(tn_cpu_routines *table);                         \
    void tn__cpu_pair__##isa(tn_cpu_routines *table);                         \
    void tn__cpu_scan__##isa(tn_cpu_routines *table);                         \
    void tn__cpu_attention__##isa(tn_cpu_routines *table);                    \
    void tn__cpu_order__##isa(tn_cpu_routines *table);                        \
    void tn__cpu_lapack__##isa(tn_cpu_routines *table);                       \
    void tn__cpu_quantised__##isa(tn_cpu_routines *table);                    \
    tn_cpu_lapack tn__cpu_lapack_f64__##isa;
TN_CPU_ISA(generic)
TN_CPU_ISA(v3)
TN_CPU_ISA(v4)

/* Returns the routines of an instruction set by its name, or of the best set of
 * this machine if name is NULL. If the set is not available, reports the reason
 * through the host and returns NULL (isa.c). */
const tn_cpu_routines *tn__cpu_routines_for(const char *name);

/* Returns the function whose definition has this hash, or NULL. */
const tn_cpu_math_entry *tn__cpu_math_find(const tn_cpu_routines *routines,
                                           uint64_t hash);

/* Returns which operands of an operation may be one value for all elements
 * (tn_cpu_run). Bit 0 is for a, bit 1 for b, bit 2 for c. */
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
        return 1 | 2; /* a or b may be one value, but not both at once */
    case TN_K_FMA:
    case TN_K_SELECT:
        return 2 | 4; /* b, c, or both may be one value */
    case TN_K_PHILOX:
        return 2 | 4;
    default:
        return 0;
    }
}

#endif
