/* tenon/plugin_extensions.h: the optional extensions of <tenon/plugin.h>, which
 * includes this header. A plugin without extensions need not read it. */
#ifndef TENON_PLUGIN_EXTENSIONS_H
#define TENON_PLUGIN_EXTENSIONS_H

#include <tenon/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------
 * An extension is an operation that a device may execute faster than by
 * primitives. plugin->extension(name, version) returns the extension's struct,
 * which is valid until the process ends, or NULL. A call of an extension may
 * decline: it returns TN_ERR_UNSUPPORTED with the reason through host->fail,
 * and must not have written anything. The core then does the work by
 * primitives.
 * ---------------------------------------------------------------------- */

/* All extensions, each with its identifier and its name. All have version 1. */
#define TN_EXTENSION_MAP(X)                                                   \
    X(conv, "conv") X(pool, "pool") X(graph_replay, "graph-replay")           \
    X(attention, "attention") X(product, "product") X(lapack, "lapack")       \
    X(quantised_product, "quantised-product") X(epilogue, "epilogue")         \
    X(launch_list, "launch-list")

/* Names reserved for later versions (docs/abi.md describes them). A plugin
 * returns NULL for them today, and must not give them another meaning. */
#define TN_EXTENSION_RESERVED_MAP(X)                                          \
    X(fft, "fft") X(native_stream, "native-stream")

/* "conv", version 1: the cross-correlation of images with filters,
 *
 *     out[n, o, i, j] = bias[o] + sum over c, k, l of
 *         in[n, C * g + c, i * stride[0] + k * dilation[0] - pad[0],
 *                          j * stride[1] + l * dilation[1] - pad[1]] *
 *         weight[o, c, k, l]
 *
 * with C = in_channels / groups and g = o / (out_channels / groups). in is 0
 * outside of its extent. Each kind writes one of the three tensors and reads
 * the others:
 *   FORWARD  writes out.
 *   INPUT    writes in, the gradient of the input: for each element, the sum of
 *            out * weight over all (o, i, j, k, l) that use the element.
 *   WEIGHT   writes weight, the gradient of the weight: the sum of out * in
 *            over n, i, j.
 * If a device declines a call with bias, the core calls it again without bias
 * and adds the bias itself. All tensors have the same floating-point dtype.
 * Half types accumulate in f32 and round once. The device chooses the order of
 * summation, which must not depend on the number of threads.
 *
 * A weight that is used by many calls can be prepared, that is, copied once to
 * the layout in which the device reads it, such as packed panels or Winograd's
 * transforms (see prepare). */
typedef struct tn_prepared tn_prepared; /* the plugin's own */
enum { TN_CONV_FORWARD, TN_CONV_INPUT, TN_CONV_WEIGHT };
typedef struct tn_conv_args {
    uint32_t size, kind; /* TN_CONV_... */
    int64_t count, in_channels, out_channels, groups;
    int64_t in_size[2], kernel[2], out_size[2]; /* (height, width) */
    int64_t stride[2], dilation[2];
    int64_t pad[2]; /* padding before the first element of each axis */
    tn_strided in;     /* (count, in_channels, h, w) */
    tn_strided weight; /* (out_channels, in_channels / groups, h, w) */
    tn_strided out;    /* (count, out_channels, h, w) */
    tn_strided bias;   /* (out_channels), in FORWARD; its buffer is NULL if
                          there is no bias */
    uint64_t tag;
    /* What prepare has made of weight for args that are equal except for
     * buffers, offsets and strides of in, out and bias; NULL if the weight is
     * not prepared. weight is still an operand with the same elements. */
    tn_prepared *prepared;
} tn_conv_args;

/* Returns 1 if this header has the kind, else 0. */
static inline int tn_conv_is_known(const tn_conv_args *args)
{
    return args->kind <= TN_CONV_WEIGHT;
}

typedef struct tn_conv_extension {
    uint32_t size, reserved;
    tn_status (*run)(tn_queue *queue, const tn_conv_args *args);
    /* Optional, both or none. prepare makes a prepared weight for later calls
     * of run with these args, kind FORWARD, and stores it in *prepared, and the
     * memory that it needs in *bytes. It reads the elements of weight; work
     * that writes them has been submitted before to the device's first queue.
     * No other buffer is accessed. The results of run have the same bits with
     * and without it. Several runs may use it at the same time. prepare
     * declines, and the weight is then not prepared, if a copy would not save
     * time. prepared_free frees it; as with buffer_free, work that was
     * submitted before may still use it. The elements of weight do not change
     * between prepare and the last run that uses the prepared weight. */
    tn_status (*prepare)(tn_plugin_device *device, const tn_conv_args *args,
                         tn_prepared **prepared, uint64_t *bytes);
    void (*prepared_free)(tn_plugin_device *device, tn_prepared *prepared);
} tn_conv_extension;

/* "pool", version 1: windows over each plane (channel of an image). Element
 * (k, l) of window (i, j) is at row i * stride[0] + k * dilation[0] - pad[0]
 * and column j * stride[1] + l * dilation[1] - pad[1].
 *   MAX       out = the maximum of the elements within the plane (NaN if one is
 *             NaN);
 *             index = its position, row * in_size[1] + column, the first of
 *             equal elements
 *   MAX_BACK  the gradient of MAX: in = 0, then in[index] += out in rising
 *             order of windows
 *   AVG       out = the sum of the window, with elements outside of the plane
 *             as 0, divided by divisor. If divisor is 0, it is divided by the
 *             number of elements within the plane, or, with count_pad, within
 *             the plane and its padding
 *   AVG_BACK  the gradient of AVG: in = the sum of out / (the same divisor)
 *             over all windows that contain the element
 *   GREATEST  MAX without index, used when no gradient is recorded
 * A sum has the order of REDUCE over the elements of a window, in row-major
 * order. For AVG_BACK it is the order over the windows that contain the
 * element, by the element's position (k, l) in the window, with 0 for positions
 * without a window. Each term is rounded to the dtype, and then the sum. in and
 * out have the same floating-point dtype. Windows of AVG and AVG_BACK have
 * dilation 1. Each window of MAX and GREATEST contains an element of the plane.
 * A plugin declines a kind that its header does not have. */
enum {
    TN_POOL_MAX,
    TN_POOL_MAX_BACK,
    TN_POOL_AVG,
    TN_POOL_AVG_BACK,
    TN_POOL_GREATEST
};
typedef struct tn_pool_args {
    uint32_t size, kind; /* TN_POOL_... */
    uint32_t count_pad, reserved;
    int64_t count, channels;
    int64_t in_size[2], kernel[2], out_size[2]; /* (height, width) */
    int64_t stride[2], dilation[2];
    int64_t pad[2]; /* padding before the first element of each axis */
    int64_t divisor;
    tn_strided in, out; /* (count, channels, h, w) */
    tn_strided index;   /* I64, the shape of out; for MAX and MAX_BACK only */
    uint64_t tag;
} tn_pool_args;

/* Returns 1 if this header has the kind, else 0. */
static inline int tn_pool_is_known(const tn_pool_args *args)
{
    return args->kind <= TN_POOL_GREATEST;
}

typedef struct tn_pool_extension {
    uint32_t size, reserved;
    tn_status (*run)(tn_queue *queue, const tn_pool_args *args);
} tn_pool_extension;

/* "graph-replay", version 1: records a sequence of launches, primitives, copies
 * on the device, and runs of "attention", "conv", "product",
 * "quantised-product" and "epilogue", and submits it as one. Between begin and end, work given
 * to the queue is recorded and not executed. Meanwhile nothing waits for the
 * queue, no event is recorded on it, and host memory is not copied. The core
 * has run the same work before, so kernels are compiled. run submits the
 * recorded work to the queue in its order, with its buffers, offsets and
 * scalars. Index faults are reported like the faults of a launch with tag 0. */
typedef struct tn_recorded tn_recorded;
typedef struct tn_graph_replay_extension {
    uint32_t size, reserved;
    tn_status (*begin)(tn_queue *queue);
    /* Ends the recording that begin started, also on failure. After a failure
     * nothing is recorded, and *recorded is unchanged. */
    tn_status (*end)(tn_queue *queue, tn_recorded **recorded);
    tn_status (*run)(tn_queue *queue, tn_recorded *recorded, uint64_t tag);
    /* Called when no run of recorded is in progress. */
    void (*release)(tn_plugin_device *device, tn_recorded *recorded);
    /* Optional: like end, but replaces the contents of recorded. Called when no
     * run of recorded is in progress. After a failure recorded is unchanged. */
    tn_status (*end_into)(tn_queue *queue, tn_recorded *recorded);
    /* Optional, all three or none: work that changes from run to run.
     *
     * Between begin and end, vary(queue, 1) says that the work which follows
     * may change, up to vary(queue, 0). The latter returns TN_ERR_UNSUPPORTED if
     * the device cannot change that work; the core then gives up the recording.
     *
     * After change, the core makes the calls of the recording that may change,
     * in their order. Their buffers, offsets, parameters, seeds and call
     * numbers may differ from those of the recording, and nothing else. The
     * calls are not executed, but replace the recorded ones in later runs; runs
     * that were submitted before keep the old ones. changed ends this, also on
     * failure; recorded cannot be run after a failure. */
    tn_status (*vary)(tn_queue *queue, uint32_t varies);
    tn_status (*change)(tn_queue *queue, tn_recorded *recorded);
    tn_status (*changed)(tn_queue *queue, tn_recorded *recorded);
} tn_graph_replay_extension;

/* "attention", version 1: scaled dot-product attention. For head h of q, head
 * t = h / (heads / kv_heads) of k and v, and each element of the batch:
 *
 *     s[i, j] = scale * sum over e of q[i, e] * k[j, e], + mask[i, j]
 *     lse[i]  = log of the sum over j of exp(s[i, j])
 *     w[i, j] = exp(s[i, j] - lse[i]), 0 for all j where lse[i] is -inf
 *     out[i, e] = sum over j of d(w[i, j]) * v[j, e]
 *
 * s is -inf where a BOOL mask is false, and, with TN_ATTENTION_CAUSAL, where
 * j > i. d is dropout: d(x) is 0 if a random number is below dropout, else
 * x / (1 - dropout). The random number of element
 * ((b * heads + h) * queries + i) * keys + j is
 * (PHILOX(element, seed, call) >> 8, logically) / 2^24.
 *
 * FORWARD writes out and lse. BACKWARD reads them and g, the gradient of out,
 * and writes dq, dk and dv, the gradients of q, k and v. All have the same
 * floating-point dtype, except lse, which is F32, contiguous, (batch, heads,
 * queries), and mask, which is BOOL, F32 or of that dtype. For half types,
 * sums, exp and log are F32. The device chooses the order of summation, which
 * must be the same in each run. */
enum { TN_ATTENTION_FORWARD, TN_ATTENTION_BACKWARD };
enum { TN_ATTENTION_CAUSAL = 1 };
typedef struct tn_attention_args {
    uint32_t size, kind;      /* TN_ATTENTION_... */
    uint32_t flags, reserved; /* TN_ATTENTION_CAUSAL */
    int64_t batch, heads, kv_heads, queries, keys;
    int64_t features, values; /* length of a row of q and k, and of v and out */
    double scale, dropout;
    int64_t seed, call;
    tn_strided q, k, v; /* (batch, heads or kv_heads, length, features) */
    tn_strided mask;    /* (batch, heads, queries, keys); its buffer is NULL if
                           there is no mask */
    tn_strided out, lse;
    tn_strided g, dq, dk, dv; /* in BACKWARD; shapes of out, q, k, v */
    uint64_t tag;
} tn_attention_args;

/* Returns 1 if this header has the kind and the flags, else 0. */
static inline int tn_attention_is_known(const tn_attention_args *args)
{
    return args->kind <= TN_ATTENTION_BACKWARD &&
           args->flags <= TN_ATTENTION_CAUSAL;
}

typedef struct tn_attention_extension {
    uint32_t size, reserved;
    /* Returns TN_OK if the device supports these args, forward and backward.
     * Computes nothing and reads no buffer. */
    tn_status (*fits)(tn_plugin_device *device, const tn_attention_args *args);
    tn_status (*run)(tn_queue *queue, const tn_attention_args *args);
} tn_attention_extension;

/* "product", version 1: the product of the primitive matmul, with an epilogue,
 * which is work on the result before it is stored. With
 *
 *     s[b.., m, n] = alpha * scale_a * scale_b *
 *                    sum over k of a[b.., m, k] * b[b.., k, n]
 *
 * the result is c = s, changed by these bits of `epilogue`:
 *   BIAS       adds bias: c = s + bias[n], before an activation.
 *   RELU       applies the activation max(s, 0).
 *   GELU       applies the activation s * Phi(s), where Phi is the distribution
 *              function of the normal distribution.
 *   GELU_TANH  applies the approximation of GELU by tanh (arXiv:1606.08415).
 *              There is at most one activation.
 *   KEEP       with an activation, also writes aux, which the derivative of the
 *              activation needs.
 *   BACK       with an activation and without BIAS, computes c = s times the
 *              derivative of the activation, from the aux that KEEP has
 *              written.
 *   SUMS       without any of the bits above, also writes bias[m] = sum over k
 *              of a[m, k]. There are then no batch dimensions.
 * For GELU and GELU_TANH, aux is the argument of the activation, (b.., m, n),
 * in c's dtype. For RELU it is U8 in a format of the device's choice, with
 * TN_PRODUCT_MASK(n) bytes for each row of c. The core only passes it from KEEP
 * to BACK of the same device.
 *
 * Either a and b have the same dtype, one of F64, F32, F16 and BF16, and c and
 * bias have it, too. Or each of a and b is F8E4M3 or F8E5M2, and c and bias are
 * F32, F16 or BF16. Types narrower than F32 accumulate in F32 and round once,
 * after the epilogue. The scales, for f8 only, are one F32 each in the device's
 * memory. A scale whose buffer is NULL is 1. The device chooses the order of
 * summation. c, aux and sums do not overlap the other tensors. */
enum {
    TN_PRODUCT_BIAS = 1,
    TN_PRODUCT_RELU = 2,
    TN_PRODUCT_GELU = 4,
    TN_PRODUCT_GELU_TANH = 8,
    TN_PRODUCT_KEEP = 16,
    TN_PRODUCT_BACK = 32,
    TN_PRODUCT_SUMS = 64
};
/* Bytes per row of RELU's aux: one bit per column, padded to 16 bytes. */
#define TN_PRODUCT_MASK(n) (((n) + 127) / 128 * 16)

typedef struct tn_product_args {
    uint32_t size, epilogue; /* TN_PRODUCT_... */
    uint32_t batch_ndim, reserved;
    int64_t batch[TN_MAX_NDIM];
    int64_t m, n, k;
    tn_strided a, b, c;            /* strides as for matmul */
    tn_strided bias;               /* one dimension */
    tn_strided aux;                /* the shape of c */
    tn_strided scale_a, scale_b;   /* one element, no dimensions */
    double alpha;
    uint64_t tag;
} tn_product_args;

/* Returns 1 if this header has all bits of epilogue, else 0. */
static inline int tn_product_is_known(const tn_product_args *args)
{
    return args->epilogue < 2 * TN_PRODUCT_SUMS;
}

typedef struct tn_product_extension {
    uint32_t size, reserved;
    tn_status (*run)(tn_queue *queue, const tn_product_args *args);
} tn_product_extension;

/* "lapack", version 1: factorisations of each of `batch` matrices, in place.
 * Matrices are column-major, as in LAPACK: strides are (between matrices,
 * between columns, 1). a is m x n unless stated otherwise. All but pivots and
 * info have the same dtype, F32 or F64. If a is symmetric or triangular, only
 * its lower triangle is read, or with the flag UPPER only the upper one.
 *
 *   CHOLESKY  a (n x n) becomes L with L L^T = a, or with UPPER it becomes U
 *             with U^T U = a. The other triangle is unchanged.
 *   LU        a becomes L, without its unit diagonal, and U, with a = P L U.
 *             pivots, I32, receives min(m, n) row indices, counted from 1:
 *             pivot i is the row with which row i was exchanged, in this order.
 *   SOLVE     b (n x sides) becomes X with a X = b, or with TURNED a^T X = b.
 *             a (n x n) and pivots are results of LU.
 *   TRIANGLE  b (sides x n) becomes X with X a = b, or with TURNED X a^T = b. a
 *             (n x n) is triangular. With UNIT its diagonal is not read and
 *             counts as ones.
 *   QR        The upper triangle of a becomes R, the rest of a is unspecified.
 *             b (m x sides) becomes the first columns of Q. sides is 0, or from
 *             min(m, n) to m.
 *   EIGH      values (n) becomes the eigenvalues of the symmetric a (n x n) in
 *             rising order. With VECTORS a becomes the eigenvectors, otherwise
 *             it is unspecified.
 *   SVD       values (n) becomes the singular values in falling order; m >= n.
 *             With VECTORS b (m x sides) becomes the first columns of U, where
 *             sides is n or m, and c (n x n) becomes V^T. a is unspecified.
 *
 * info, one I32 for each matrix, is written by all but SOLVE and TRIANGLE. It
 * is 0, or the value that LAPACK returns: which leading minor is not positive,
 * which pivot is 0, or how many values did not converge. No size is 0, except
 * sides of QR. */
enum {
    TN_LAPACK_CHOLESKY,
    TN_LAPACK_LU,
    TN_LAPACK_SOLVE,
    TN_LAPACK_TRIANGLE,
    TN_LAPACK_QR,
    TN_LAPACK_EIGH,
    TN_LAPACK_SVD
};
enum {
    TN_LAPACK_UPPER = 1,
    TN_LAPACK_UNIT = 2,
    TN_LAPACK_TURNED = 4,
    TN_LAPACK_VECTORS = 8,
    TN_LAPACK_ALONE = 16 /* CHOLESKY and QR write zeros to the other triangle
                            of a; only for devices with BY_ROWS */
};
typedef struct tn_lapack_args {
    uint32_t size, kind; /* TN_LAPACK_CHOLESKY ... */
    uint32_t flags, reserved; /* bits TN_LAPACK_UPPER ... */
    int64_t batch, m, n, sides;
    tn_strided a, b, c;
    tn_strided values, pivots; /* (batch, n), (batch, min(m, n)) */
    tn_strided info;           /* (batch) */
    uint64_t tag;
} tn_lapack_args;

/* Returns 1 if this header has the kind and the flags, else 0. */
static inline int tn_lapack_is_known(const tn_lapack_args *args)
{
    return args->kind <= TN_LAPACK_SVD && args->flags < 2 * TN_LAPACK_ALONE;
}

/* A flag of the extension: a, b and c may also be row-major. Their strides are
 * then (between matrices, 1, between rows). */
enum { TN_LAPACK_BY_ROWS = 1 };

typedef struct tn_lapack_extension {
    uint32_t size, flags; /* TN_LAPACK_BY_ROWS */
    /* Returns TN_OK if run supports all kinds of TN_LAPACK_... on each queue of
     * the device, except calls that `takes` declines. */
    tn_status (*fits)(tn_plugin_device *device);
    tn_status (*run)(tn_queue *queue, const tn_lapack_args *args);
    /* Optional. Returns TN_OK if run supports args, of which kind, VECTORS,
     * batch, m, n, sides and a's dtype are set. The answer for SOLVE also
     * applies to the LU that computes its operands. */
    tn_status (*takes)(tn_plugin_device *device, const tn_lapack_args *args);
} tn_lapack_extension;

/* "quantised-product", version 1: c = a times the transpose of b, where b is in
 * blocks of a format of TN_BLOCK_MAP. The arithmetic is defined to the bit: a
 * result is the same for every device, every m and any number of threads.
 *
 * A block of b represents the numbers
 *
 *     d * scale[p] * q + e * min[p]
 *
 * with integers q, scale and min, and float32 numbers d and e. Part p is one of
 * the block's parts, each with its scale and min. Formats with blocks of 32
 * elements have one part, of scale 1; e is the format's minimum with min 1, or
 * 0. Of the formats with 256 elements, Q4_K and Q5_K have 8 parts, and e is
 * minus the block's dmin. Q6_K has 16 parts, and e is 0.
 *
 * Each block of elements x of a, as long as a block of b, is rounded to 8 bits.
 * All operations are float32, rounded to nearest even after each operation,
 * without fma:
 *
 *     most = the maximum of abs(x)
 *     by   = most < 2^-100 ? 2^100 : 1
 *     r    = rounded to an integer (ties to even): x * by * (127 / (most * by))
 *     s    = most / 127
 *
 * If most is 0, r and s are 0. If an element is infinite or NaN, s is NaN and
 * all r are 0. Then each block adds its value to the result, which begins with
 * 0, in rising order of blocks:
 *
 *     dot   = the sum over p of scale[p] * (the sum over part p of q * r)
 *     minus = the sum over p of min[p] * (the sum over part p of r)
 *     value = d * s * float(dot)                          if e is always 0
 *             d * s * float(dot) + e * s * float(minus)   otherwise
 *     c     = c + value
 *
 * dot and minus are exact integers, which fit in int32.
 *
 * If a has no buffer, the call dequantises b instead: each element of c is
 * d * scale[p] * q + e * min[p]. The products d * scale[p] and e * min[p] are
 * rounded first. Formats whose e is always 0 have no second term. A plugin may
 * decline to dequantise. The core does not request it for devices whose memory
 * the CPU can use. */
typedef struct tn_quantised_product_args {
    uint32_t size, format; /* a code of TN_BLOCK_MAP */
    int64_t m, n, k;       /* k is a multiple of the block's elements */
    tn_strided a;          /* F32, (m, k); the last stride is 1. To dequantise
                              b: no buffer, and m is 0 */
    tn_strided b;          /* U8, (n, bytes of a row); the last stride is 1 */
    tn_strided c;          /* F32, (m, n), or (n, k) to dequantise b; the last
                              stride is 1 */
    uint64_t tag;
} tn_quantised_product_args;

/* Returns 1 if this header has the format, else 0. */
static inline int
tn_quantised_product_is_known(const tn_quantised_product_args *args)
{
#define TN_BLOCK_IS(name, code, text, elements, bytes) args->format == code ||
    return TN_BLOCK_MAP(TN_BLOCK_IS) 0;
#undef TN_BLOCK_IS
}

typedef struct tn_quantised_product_extension {
    uint32_t size, reserved;
    /* Returns TN_OK if run supports the format. Computes nothing. */
    tn_status (*takes)(tn_plugin_device *device, uint32_t format);
    tn_status (*run)(tn_queue *queue, const tn_quantised_product_args *args);
} tn_quantised_product_extension;

/* "epilogue", version 1: one call for work (a product, a convolution or an
 * attention) and for the launch that reads its result, such as bias,
 * activation, scale and shift, the sum with another tensor, or a normalization
 * of rows. run does what two calls would do, with the same bits:
 *
 *   1. the work: what the plugin's function for this kind does with `work`. The
 *      result is rounded to its dtype and stored;
 *   2. the launch: what plugin->launch(queue, built, launch) does.
 *
 * The plugin may launch a part of the iteration space as soon as the work is
 * done for this part, while the result is in registers or in a cache. The core
 * guarantees that the bits are then the same:
 *   - The result is operand `operand` of the launch: c of MATMUL, PRODUCT and
 *     QUANTISED_PRODUCT, out of ATTENTION and CONV, which are FORWARD. The
 *     operand has the result's buffer, and its strides lead to each element of
 *     the result once.
 *   - The dimensions of the launch are those of the result, (batch.., m, n),
 *     (batch, heads, queries, values) or (count, out_channels, h, w), in their
 *     order, without some of size 1. A dimension of the result may be several
 *     dimensions of the launch: dimension d of the launch is a part of
 *     dimension of[d] of the result. of[] never decreases.
 *   - The launch writes no memory that the work reads. Its other operands share
 *     no memory with what the work writes, unless they are the result itself,
 *     element for element.
 *   - The launch has no operand with indices, so it has no index faults.
 *
 * work and launch have the tag of the call. run declines as the function for
 * this kind does. If the work succeeds, the launch is not declined. */
enum {
    TN_EPILOGUE_MATMUL, /* the primitive matmul */
    TN_EPILOGUE_CONV,
    TN_EPILOGUE_PRODUCT,
    TN_EPILOGUE_ATTENTION,
    TN_EPILOGUE_QUANTISED_PRODUCT,
    TN_EPILOGUE_END
};
typedef struct tn_epilogue_args {
    uint32_t size, kind; /* TN_EPILOGUE_... */
    const void *work;    /* tn_matmul_args, tn_conv_args and so on, by kind */
    const tn_program *program; /* of which `built` was made */
    tn_built *built;
    const tn_launch *launch;
    uint32_t operand, reserved;
    uint8_t of[TN_MAX_NDIM]; /* for each dimension of the launch */
    uint64_t tag;
} tn_epilogue_args;

/* Returns 1 if this header has the kind, else 0. */
static inline int tn_epilogue_is_known(const tn_epilogue_args *args)
{
    return args->kind < TN_EPILOGUE_END;
}

typedef struct tn_epilogue_extension {
    uint32_t size, reserved;
    /* Returns TN_OK if run supports this kind of work on each queue of the
     * device. Computes nothing. */
    tn_status (*takes)(tn_plugin_device *device, uint32_t kind);
    tn_status (*run)(tn_queue *queue, const tn_epilogue_args *args);
} tn_epilogue_extension;

/* "launch-list", version 1: launches that are run many times, in one call.
 *
 * prepare plans `count` launches, at least 1. No launch writes what another one
 * reads or writes, so a device may run them at the same time or in any order.
 * Each result has the same bits as that of plugin->launch. Nothing is
 * computed.
 *
 * Until release, the launches, with all that they point to, stay at their
 * addresses. Before each run the core may change, in place, the buffer and the
 * offset of operands, and the values of parameters; nothing else. Whether an
 * operand begins at the address of another operand of its launch does not
 * change.
 *
 * An index fault is reported like that of plugin->launch, with the run's tag;
 * the tags of the launches are not used. If several launches have index faults,
 * it is that of one of them. All launches are still done.
 *
 * One run of a list is in progress at a time, and none during release. Work
 * that an earlier run submitted may still be in progress. */
typedef struct tn_launch_item {
    tn_built *built;
    const tn_launch *launch;
} tn_launch_item; /* closed */
typedef struct tn_launch_list tn_launch_list;
typedef struct tn_launch_list_extension {
    uint32_t size, reserved;
    /* Copies item[0 .. count). After a failure *list is unchanged. */
    tn_status (*prepare)(tn_queue *queue, const tn_launch_item *item,
                         uint32_t count, tn_launch_list **list);
    tn_status (*run)(tn_queue *queue, tn_launch_list *list, uint64_t tag);
    void (*release)(tn_plugin_device *device, tn_launch_list *list);
} tn_launch_list_extension;

/* The minimum sizes of these structs. They never change (see plugin.h). */
#define TN_CONV_ARGS_SIZE_1_0 TN_END(tn_conv_args, tag)
#define TN_CONV_EXTENSION_SIZE_1_0 TN_END(tn_conv_extension, run)
#define TN_POOL_ARGS_SIZE_1_0 TN_END(tn_pool_args, tag)
#define TN_POOL_EXTENSION_SIZE_1_0 TN_END(tn_pool_extension, run)
#define TN_GRAPH_REPLAY_EXTENSION_SIZE_1_0                                    \
    TN_END(tn_graph_replay_extension, release)
#define TN_ATTENTION_ARGS_SIZE_1_0 TN_END(tn_attention_args, tag)
#define TN_ATTENTION_EXTENSION_SIZE_1_0 TN_END(tn_attention_extension, run)
#define TN_PRODUCT_ARGS_SIZE_1_0 TN_END(tn_product_args, tag)
#define TN_PRODUCT_EXTENSION_SIZE_1_0 TN_END(tn_product_extension, run)
#define TN_LAPACK_ARGS_SIZE_1_0 TN_END(tn_lapack_args, tag)
#define TN_LAPACK_EXTENSION_SIZE_1_0 TN_END(tn_lapack_extension, run)
#define TN_QUANTISED_PRODUCT_ARGS_SIZE_1_0                                    \
    TN_END(tn_quantised_product_args, tag)
#define TN_QUANTISED_PRODUCT_EXTENSION_SIZE_1_0                               \
    TN_END(tn_quantised_product_extension, run)
#define TN_EPILOGUE_ARGS_SIZE_1_0 TN_END(tn_epilogue_args, tag)
#define TN_EPILOGUE_EXTENSION_SIZE_1_0 TN_END(tn_epilogue_extension, run)
#define TN_LAUNCH_LIST_EXTENSION_SIZE_1_0                                     \
    TN_END(tn_launch_list_extension, release)

#ifdef __cplusplus
}
#endif
#endif
