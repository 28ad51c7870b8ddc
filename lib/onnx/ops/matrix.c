/* matrix.c: products of matrices. */
#include <onnx/ops/ops.h>

static tn_tensor *last_two(tn_tensor *x, bool transpose)
{
    return transpose ? tn_transpose(x, -2, -1) : x;
}

static void gemm(tn__onnx_call *c)
{
    const double alpha = tn__onnx_float(c, 0), beta = tn__onnx_float(c, 1);
    tn_tensor *a = last_two(c->x[0], tn__onnx_int(c, 2) != 0),
              *b = last_two(c->x[1], tn__onnx_int(c, 3) != 0);
    tn_tensor *addend = tn__onnx_x(c, 2);
    const tn_dtype dtype = tn_tensor_dtype(c->x[0]);
    if (addend && beta != 0 && tn_dtype_is_floating(dtype)) {
        c->y[0] = tn_addmm(addend, a, b, .beta = beta,
                           .alpha = alpha);
        return;
    }
    tn_tensor *y = tn_matmul(a, b);
    if (alpha != 1)
        y = tn_to_dtype(tn_mul_scalar(y, alpha), dtype);
    if (addend && beta != 0)
        y = tn_add(y, beta != 1
                          ? tn_to_dtype(tn_mul_scalar(addend, beta), dtype)
                          : addend);
    c->y[0] = y;
}

static void einsum(tn__onnx_call *c)
{
    /* sums of integers keep their dtype */
    tn_tensor *y = tn_einsum(tn__onnx_string(c, 0), c->x, c->in_count);
    c->y[0] = tn_to_dtype(y, tn_tensor_dtype(c->x[0]));
}

/* com.microsoft: transBatchA and transBatchB move the first dimension before
 * the last one. */
static void fused_matmul(tn__onnx_call *c)
{
    if (tn__onnx_int(c, 3) || tn__onnx_int(c, 4)) {
        tn__onnx_refuse(c, TN_ERR_UNSUPPORTED,
                        "transBatchA and transBatchB are not supported");
        return;
    }
    tn_tensor *y = tn_matmul(last_two(c->x[0], tn__onnx_int(c, 1) != 0),
                             last_two(c->x[1], tn__onnx_int(c, 2) != 0));
    const double alpha = tn__onnx_float(c, 0);
    c->y[0] = alpha == 1 ? y : tn_mul_scalar(y, alpha);
}

static const tn__onnx_op rows[] = {
    {.name = "MatMul", .since = 1, .min_in = 2, .max_in = 2, .max_out = 1,
     .run = tn__onnx_binary, .binary = tn_matmul, .wraps = true},
    {.name = "Gemm", .since = 7, .min_in = 2, .max_in = 3, .max_out = 1,
     .attributes = "alpha:float=1 beta:float=1 transA:int=0 transB:int=0",
     .run = gemm, .wraps = true},
    {.name = "Einsum", .since = 12, .min_in = 1, .max_in = -1, .max_out = 1,
     .attributes = "equation:string!", .run = einsum, .wraps = true},
    {.domain = "com.microsoft", .name = "FusedMatMul", .since = 1, .min_in = 2,
     .max_in = 2, .max_out = 1,
     .attributes = "alpha:float=1 transA:int=0 transB:int=0 transBatchA:int=0 "
                   "transBatchB:int=0",
     .run = fused_matmul},
};
const tn__onnx_family tn__onnx_matrix = TN__ONNX_FAMILY(rows);
