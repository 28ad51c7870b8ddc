/* tenon/plugin_primitives.h: the primitives besides kernel programs: matrix
 * product, scatter, scan, sort and copy. It is part of <tenon/plugin.h>, which
 * includes this header. Each primitive takes one struct of arguments. A result
 * in a half type or f8 is rounded as by NARROW (plugin_program.h). */
#ifndef TENON_PLUGIN_PRIMITIVES_H
#define TENON_PLUGIN_PRIMITIVES_H

#include <tenon/plugin_program.h>
#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor operand with ndim dimensions. offset and stride count elements. */
typedef struct tn_strided {
    tn_buffer *buffer;
    int64_t offset;
    uint32_t dtype, ndim;
    int64_t stride[TN_MAX_NDIM];
} tn_strided;

/* c[b.., m, n] = alpha * sum_k a[b.., m, k] * b[b.., k, n] + beta * c. Each of
 * a, b and c has the strides of the batch dimensions and then the row and
 * column stride of the matrix, so a transposed matrix only has other strides.
 * a, b and c have the same dtype. f16 and bf16 sum in f32 and round once.
 * Integers wrap; alpha and beta are converted to int64. For bool, the product
 * is "and", the sum is "any", and alpha and beta mean "is not 0". k = 0 gives
 * beta * c. beta = 0 never reads c. The device chooses the order of the sum
 * over k. plan_matmul and the reference plugin use the plain order, and so give
 * identical bits: start at 0, add each product in order of rising k by one fma;
 * then compute alpha * sum + (beta * c) and round each operation. */
typedef struct tn_matmul_args {
    uint32_t size, batch_ndim;
    int64_t batch[TN_MAX_NDIM];
    int64_t m, n, k;
    tn_strided a, b, c;
    double alpha, beta;
    uint64_t tag;
    uint64_t flags; /* TN_MATMUL_...; a device may ignore all of them */
} tn_matmul_args;
/* bf16 products may round sums as the device's dot products do, and take
 * subnormal numbers as 0. The result of a row of a must not depend on m. */
#define TN_MATMUL_RELAXED 1

/* For every point p of extent, in row-major order: let q be p with its
 * coordinate `dim` replaced by index[p]. Then dst[q] = reduce(dst[q], src[p]).
 * index is I64. An index outside [0, dst_extent) raises the index fault and is
 * skipped. Elements of src with the same destination are combined in the order
 * of p. dst does not overlap index or src. */
enum {
    TN_SCATTER_SET,
    TN_SCATTER_ADD,
    TN_SCATTER_MUL,
    TN_SCATTER_MIN,
    TN_SCATTER_MAX,
    TN_SCATTER_END
};
typedef struct tn_scatter_args {
    uint32_t size, ndim, dim, reduce;
    int64_t extent[TN_MAX_NDIM];
    int64_t dst_extent; /* size of dimension dim of dst */
    tn_strided dst, index, src; /* dst and src have the same dtype */
    uint64_t tag;
} tn_scatter_args;

/* Returns 1 if this header has the reduction, else 0. */
static inline int tn_scatter_is_known(const tn_scatter_args *args)
{
    return args->reduce < TN_SCATTER_END;
}

/* Inclusive scan along the last dimension: prefix sum, product, maximum or
 * minimum. Half types are computed in f32 and rounded at each store. MAX and
 * MIN may also write the I64 index of the running maximum or minimum: the last
 * one of equal elements, as in PyTorch's cummax. After a NaN the result stays
 * NaN; only another NaN changes the index.
 *
 * Floating-point SUM has its own fixed order, which can be computed with SIMD
 * and with several chunks at a time. A line is one sequence along the last
 * dimension. A sequence x is summed by blocks as follows:
 *   1. x is cut into blocks of TN_LANES elements. For h = 1, 2, 4, 8 in turn,
 *      each element whose position j in its block has bit h set becomes
 *      x[(j & ~(2 * h - 1)) + h - 1] + x[j].
 *   2. In block after block, except the first, each element becomes last + x,
 *      where last is the final element of the block before.
 * A line is summed as follows:
 *   1. The line is cut into chunks of TN_CHUNK elements, and each chunk is
 *      summed by blocks.
 *   2. The final elements of all chunks are summed by blocks, as one sequence.
 *   3. In each chunk except the first, each element becomes before + x, where
 *      before is the result of step 2 for the chunk before.
 * Elements beyond a line's end are skipped, and not replaced by a neutral
 * element (-0.0 gives the same bits).
 *
 * Floating-point PROD multiplies in rising order. In the order of SUM, the
 * elements after a 0 could overflow to inf before they are multiplied by it,
 * and 0 * inf is NaN instead of 0. The results of the other cases do not depend
 * on the order. */
typedef struct tn_scan_args {
    /* kind is TN_REDUCE_SUM, PROD, MAX or MIN. flags is 0. */
    uint32_t size, ndim, kind, flags;
    int64_t extent[TN_MAX_NDIM];
    tn_strided in, out, out_index; /* out_index.buffer is NULL if indices are
                                    * not requested */
    uint64_t tag;
} tn_scan_args;

/* Returns 1 if this header has the kind and all flags, else 0. */
static inline int tn_scan_is_known(const tn_scan_args *args)
{
    return args->kind <= TN_REDUCE_MIN && args->flags == 0;
}

/* Stable sort along the last dimension. NaN is the largest value, and -0 equals
 * +0. If keep is below the size of the last dimension, only the first keep
 * elements in sorted order are written (top-k). out_index (I64) holds indices
 * along the last dimension of the input. With TN_SORT_LAST the core reads only
 * element keep - 1 of the result, so a device need not compute the others. */
enum { TN_SORT_DESCENDING = 1, TN_SORT_LAST = 2 };
typedef struct tn_sort_args {
    uint32_t size, ndim, flags, reserved;
    int64_t extent[TN_MAX_NDIM];
    int64_t keep;
    tn_strided in, out, out_index; /* the buffer of out or out_index may be
                                    * NULL */
    uint64_t tag;
} tn_sort_args;

/* Returns 1 if this header has all flags, else 0. */
static inline int tn_sort_is_known(const tn_sort_args *args)
{
    return args->flags <= (TN_SORT_DESCENDING | TN_SORT_LAST);
}

/* The direction of a copy. */
enum {
    TN_COPY_TO_DEVICE,
    TN_COPY_TO_HOST,
    TN_COPY_ON_DEVICE,
    TN_COPY_PEER /* src is a buffer of another device of the plugin, whose work
                  * on it is done; the queue belongs to dst's device. Only with
                  * TN_CAP_PEER */
};
/* Copies `rows` rows of `bytes` bytes each. Offsets and pitches (distances
 * between rows) are in bytes. */
typedef struct tn_copy_args {
    uint32_t size, direction;
    tn_buffer *dst, *src; /* NULL for the side that is host memory */
    void *host;           /* an asynchronous device may use this memory until
                           * the next sync of the queue */
    uint64_t dst_offset, src_offset, bytes;
    uint64_t rows, dst_pitch, src_pitch;  /* pitches are unused if rows is 1 */
    uint64_t tag;
} tn_copy_args;

/* Returns 1 if this header has the direction, else 0. */
static inline int tn_copy_is_known(const tn_copy_args *args)
{
    return args->direction <= TN_COPY_PEER;
}

#ifdef __cplusplus
}
#endif

#endif
