/* tenon/plugin_extensions.h: the extensions of <tenon/plugin.h>, which includes
 * it: a plugin that has none of them need not read this. */
#ifndef TENON_PLUGIN_EXTENSIONS_H
#define TENON_PLUGIN_EXTENSIONS_H

#include <tenon/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------
 * Extensions: what a device may do beside the primitives, where it is faster.
 * plugin->extension(name, version) returns the table named here, alive as
 * long as the process, or NULL. A call may decline: it returns
 * TN_ERR_UNSUPPORTED with the reason through host->fail, having written
 * nothing, and the core does the same by primitives.
 * ---------------------------------------------------------------------- */

/* All there are: as an identifier, and the name. Version 1 of each. */
#define TN_EXTENSION_MAP(X)                                                   \
    X(conv, "conv") X(pool, "pool") X(graph_replay, "graph-replay")           \
    X(attention, "attention") X(product, "product") X(lapack, "lapack")

/* "conv", version 1: the cross-correlation of images with filters,
 *
 *     out[n, o, i, j] = bias[o] + sum over c, k, l of
 *         in[n, C * g + c, i * stride[0] + k * dilation[0] - pad[0],
 *                          j * stride[1] + l * dilation[1] - pad[1]] *
 *         weight[o, c, k, l]
 *
 * with C = in_channels / groups and g = o / (out_channels / groups); in is 0
 * outside of its extent. One of the three is written, the others are read:
 * FORWARD writes out; INPUT writes in, the sum over all (o, i, j, k, l) that
 * meet an element of products of out and weight; WEIGHT writes weight, the sum
 * over n, i, j of products of out and in. A device that declines a bias is
 * asked once more without it, and it is added then. All have one floating
 * dtype; half types sum in f32 and round once. The order of sums is the
 * device's, the same for any number of threads. */
enum { TN_CONV_FORWARD, TN_CONV_INPUT, TN_CONV_WEIGHT };
typedef struct tn_conv_args {
    uint32_t size, kind; /* TN_CONV_... */
    int64_t count, in_channels, out_channels, groups;
    int64_t in_size[2], kernel[2], out_size[2]; /* (h, w) */
    int64_t stride[2], dilation[2];
    int64_t pad[2]; /* before each axis */
    tn_strided in;     /* (count, in_channels, h, w) */
    tn_strided weight; /* (out_channels, in_channels / groups, h, w) */
    tn_strided out;    /* (count, out_channels, h, w) */
    tn_strided bias;   /* (out_channels); FORWARD alone; buffer NULL: none */
    uint64_t tag;
} tn_conv_args;

typedef struct tn_conv_extension {
    uint32_t size, reserved;
    tn_status (*run)(tn_queue *queue, const tn_conv_args *args);
} tn_conv_extension;

/* "pool", version 1: windows over each plane of images, element (k, l) of
 * window (i, j) at (i * stride[0] + k * dilation[0] - pad[0], likewise).
 *   MAX       out = the greatest element within the plane (NaN wins), index =
 *             where it stands, row * in_size[1] + column, the first of equals;
 *   MAX_BACK  in = 0, then in[index] += out in rising order of windows;
 *   AVG       out = the sum of the window, elements beyond the plane being 0,
 *             over divisor, or, where that is 0, over the elements that lie
 *             within the plane (count_pad: or its padding);
 *   AVG_BACK  in = the sum, over the windows in which an element stands, of
 *             out over the same divisor;
 *   GREATEST  MAX without index: of those who record no gradient.
 * A sum has the order of REDUCE over the elements of a window, in row-major
 * order (AVG_BACK: of the numbers that the element has in its windows, 0 for
 * those that are none; each share is rounded to the dtype, then the sum). in
 * and out have one floating dtype; the windows of means have dilation 1, those
 * of MAX and GREATEST an element within the plane. A kind that a plugin does
 * not know it declines. */
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
    int64_t in_size[2], kernel[2], out_size[2]; /* (h, w) */
    int64_t stride[2], dilation[2];
    int64_t pad[2]; /* before each axis */
    int64_t divisor;
    tn_strided in, out; /* (count, channels, h, w) */
    tn_strided index;   /* I64, as out; MAX and MAX_BACK alone */
    uint64_t tag;
} tn_pool_args;

typedef struct tn_pool_extension {
    uint32_t size, reserved;
    tn_status (*run)(tn_queue *queue, const tn_pool_args *args);
} tn_pool_extension;

/* "graph-replay", version 1: a sequence of launches, primitives, copies on the
 * device and runs of "attention", "conv" and "product", given to the queue as
 * one. Between begin and end what is given to the queue is recorded and does
 * not run; nothing waits for the queue then, no event is recorded on it, and
 * memory of the host is not copied. The core has given the same work before, so
 * kernels are built. run gives the recorded work to the queue, in its order: it
 * uses the buffers, offsets and scalars of then, and index faults are told as
 * those of launches, with tag 0. */
typedef struct tn_recorded tn_recorded;
typedef struct tn_graph_replay_extension {
    uint32_t size, reserved;
    tn_status (*begin)(tn_queue *queue);
    /* Ends what begin began, in any case; after a failure nothing is
     * recorded, and *recorded is as it was. */
    tn_status (*end)(tn_queue *queue, tn_recorded **recorded);
    tn_status (*run)(tn_queue *queue, tn_recorded *recorded, uint64_t tag);
    /* No run of it is under way. */
    void (*release)(tn_plugin_device *device, tn_recorded *recorded);
    /* Optional: as end, but what was recorded takes the place of what is in
     * recorded, of which no run is under way. After a failure that is as it
     * was. */
    tn_status (*end_into)(tn_queue *queue, tn_recorded *recorded);
} tn_graph_replay_extension;

/* "attention", version 1: with head t of k and v for head h of q, t = h /
 * (heads / kv_heads), and for each of the batch
 *
 *     s[i, j] = scale * sum over e of q[i, e] * k[j, e], + mask[i, j]
 *     lse[i]  = log of the sum over j of exp(s[i, j])
 *     w[i, j] = exp(s[i, j] - lse[i]), 0 for all j where lse[i] is -inf
 *     out[i, e] = sum over j of d(w[i, j]) * v[j, e]
 *
 * s is -inf where mask is a BOOL that is false, and, with TN_ATTENTION_CAUSAL,
 * where j > i. d(x) is 0 where a random number is below dropout, else x / (1 -
 * dropout). The number is that of element ((b * heads + h) * queries + i) *
 * keys + j: (PHILOX(element, seed, call) >> 8, logically) / 2^24.
 *
 * FORWARD writes out and lse; BACKWARD reads them and g, the gradient of out,
 * and writes dq, dk and dv, those of q, k and v. All have one floating dtype
 * but lse, which is F32, contiguous, (batch, heads, queries), and mask, which
 * is BOOL, F32 or of that dtype. Sums, exp and log are F32 for half types. The
 * order of sums is the device's, the same every time. */
enum { TN_ATTENTION_FORWARD, TN_ATTENTION_BACKWARD };
enum { TN_ATTENTION_CAUSAL = 1 };
typedef struct tn_attention_args {
    uint32_t size, kind;      /* TN_ATTENTION_... */
    uint32_t flags, reserved; /* TN_ATTENTION_CAUSAL */
    int64_t batch, heads, kv_heads, queries, keys;
    int64_t features, values; /* of a row of q and k; of v and out */
    double scale, dropout;
    int64_t seed, call;
    tn_strided q, k, v; /* (batch, heads or kv_heads, length, features) */
    tn_strided mask;    /* (batch, heads, queries, keys); buffer NULL: none */
    tn_strided out, lse;
    tn_strided g, dq, dk, dv; /* BACKWARD alone; as out, q, k, v */
    uint64_t tag;
} tn_attention_args;

typedef struct tn_attention_extension {
    uint32_t size, reserved;
    /* TN_OK: the device does this, forward and backward; nothing runs. Buffers
     * are not looked at. */
    tn_status (*fits)(tn_plugin_device *device, const tn_attention_args *args);
    tn_status (*run)(tn_queue *queue, const tn_attention_args *args);
} tn_attention_extension;

/* "product", version 1: the product of `matmul`, and in the same call what
 * stands around it. With
 *
 *     s[b.., m, n] = alpha * scale_a * scale_b *
 *                    sum over k of a[b.., m, k] * b[b.., k, n]
 *
 * c is s, or what these words of `epilogue` make of it:
 *   BIAS  s + bias[n], then the activation, if there is one
 *   RELU, GELU, GELU_TANH  one of them at most: max(s, 0); s times the normal
 *         distribution's function of s; its approximation by tanh
 *         (arXiv:1606.08415)
 *   KEEP  with an activation: aux is written, what its derivative needs
 *   BACK  with an activation, without BIAS: c = s times the derivative of the
 *         activation where KEEP has written aux
 *   SUMS  without any of these: bias is written, bias[m] = sum over k of
 *         a[m, k]; there are no batch dimensions
 * aux of both GELU is what they are applied to, (b.., m, n), in c's dtype. That
 * of RELU is U8 and the device's own: rows of TN_PRODUCT_MASK bytes, one for
 * each row of c, of which the core only knows that BACK of this device reads
 * what its KEEP has written.
 *
 * a and b have one of the dtypes F64 F32 F16 BF16, which c and bias share; or
 * each is one of F8E4M3 and F8E5M2, and c and bias are F32, F16 or BF16. What
 * is narrower sums in F32 and rounds once, after the epilogue. The scales are
 * one F32 each in the device's memory, for f8 alone; buffer NULL: 1. The order
 * of sums is the device's. c, aux and sums do not overlap the others. */
enum {
    TN_PRODUCT_BIAS = 1,
    TN_PRODUCT_RELU = 2,
    TN_PRODUCT_GELU = 4,
    TN_PRODUCT_GELU_TANH = 8,
    TN_PRODUCT_KEEP = 16,
    TN_PRODUCT_BACK = 32,
    TN_PRODUCT_SUMS = 64
};
/* Bytes of a row of RELU's aux: a bit for each of n columns, 16 bytes wise. */
#define TN_PRODUCT_MASK(n) (((n) + 127) / 128 * 16)

typedef struct tn_product_args {
    uint32_t size, epilogue; /* TN_PRODUCT_... */
    uint32_t batch_ndim, reserved;
    int64_t batch[TN_MAX_NDIM];
    int64_t m, n, k;
    tn_strided a, b, c;            /* strides as those of matmul */
    tn_strided bias;               /* one dimension */
    tn_strided aux;                /* as c */
    tn_strided scale_a, scale_b;   /* no dimension */
    double alpha;
    uint64_t tag;
} tn_product_args;

typedef struct tn_product_extension {
    uint32_t size, reserved;
    tn_status (*run)(tn_queue *queue, const tn_product_args *args);
} tn_product_extension;

/* "lapack", version 1: factorisations of each of `batch` matrices, in the place
 * of what was there. Matrices lie as LAPACK has them, by columns: strides are
 * (from matrix to matrix, from column to column, 1). a is m x n unless it is
 * said otherwise; all but pivots and info have one dtype, F32 or F64.
 *
 *   CHOLESKY  a (n x n), of which the lower triangle is read (UPPER: the upper
 *             one), becomes L with L L^T = a (UPPER: U, U^T U); the rest of it
 *             is what was there
 *   LU        a = P L U: L, without its diagonal of ones, and U; pivots, I32,
 *             from 1: with which row each was exchanged in turn, min(m, n) of
 *             them
 *   SOLVE     a (n x n) and pivots from LU: b (n x sides) becomes X with a X =
 *             b (TURNED: a^T X = b)
 *   TRIANGLE  a (n x n), of which the lower triangle is read (UPPER: the upper
 *             one; UNIT: with ones on its diagonal, which is not read): b
 *             (sides x n) becomes X with X a = b (TURNED: X a^T = b)
 *   QR        R stands in the upper triangle of a, below it is the device's
 *             own; b (m x sides; 0, or from min(m, n) to m) is written: the
 *             first columns of Q
 *   EIGH      a (n x n), of which the lower triangle is read (UPPER: the upper
 *             one): values (n), rising; VECTORS: a becomes the eigenvectors,
 *             else it is lost
 *   SVD       m >= n; values (n), falling, and, with VECTORS, b (m x sides, n
 *             or m) the first columns of U and c (n x n) V^T; a is lost
 *
 * info, one I32 for each matrix, is written by all but SOLVE and TRIANGLE: 0,
 * or what LAPACK's says: which leading minor is not positive, which pivot is 0,
 * how much does not converge. No size is 0, but sides of QR. */
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
    TN_LAPACK_ALONE = 16 /* CHOLESKY, QR: zeros beside the triangle that a
                            becomes; for devices that are BY_ROWS alone */
};
typedef struct tn_lapack_args {
    uint32_t size, kind; /* TN_LAPACK_... */
    uint32_t flags, reserved;
    int64_t batch, m, n, sides;
    tn_strided a, b, c;
    tn_strided values, pivots; /* (batch, n), (batch, min(m, n)) */
    tn_strided info;           /* (batch) */
    uint64_t tag;
} tn_lapack_args;

/* Of a device: a, b and c may also lie by rows: strides are (from matrix to
 * matrix, 1, from row to row). */
enum { TN_LAPACK_BY_ROWS = 1 };

typedef struct tn_lapack_extension {
    uint32_t size, flags; /* TN_LAPACK_BY_ROWS */
    /* TN_OK: run does all of this, on each queue of the device, but for what
     * takes declines. */
    tn_status (*fits)(tn_plugin_device *device);
    tn_status (*run)(tn_queue *queue, const tn_lapack_args *args);
    /* May be absent. Does run do this? Of args kind, VECTORS, batch, m, n,
     * sides and a's dtype are known. What it says of SOLVE holds for the LU
     * before. */
    tn_status (*takes)(tn_plugin_device *device, const tn_lapack_args *args);
} tn_lapack_extension;

/* The least sizes there can be, frozen for ever (see plugin.h). */
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

#ifdef __cplusplus
}
#endif
#endif
