/* products.c: products of vectors and matrices (PyTorch's inner, addmm, baddbmm
 * and others), composed of matmul. */
#include <math.h>
#include <ops/engine/native.h>

static tn_status check_ndim(const tn__call *call, int arg, int ndim)
{
    const tn_tensor *x = tn__call_tensor(call, arg);
    if (x->ndim == ndim)
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {%s} has %d dimensions; expected %d",
                    call->op->name, call->op->arg[arg].name, x->ndim, ndim);
}

tn_status tn__run_mv(tn__call *call)
{
    tn_status status = check_ndim(call, 0, 2);
    if (status >= 0)
        status = check_ndim(call, 1, 1);
    if (status < 0)
        return status;
    return tn__give(call, tn_matmul(tn__call_tensor(call, 0),
                                    tn__call_tensor(call, 1)));
}

tn_status tn__run_dot(tn__call *call)
{
    tn_status status = check_ndim(call, 0, 1);
    if (status >= 0)
        status = check_ndim(call, 1, 1);
    if (status < 0)
        return status;
    return tn__give(call, tn_matmul(tn__call_tensor(call, 0),
                                    tn__call_tensor(call, 1)));
}

/* Computes inner as one matrix product, in which the last dimension of both
 * arguments is summed and all others are merged. */
tn_status tn__run_inner(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_INNER_INPUT);
    tn_tensor *b = tn__call_tensor(call, TN__ARG_INNER_OTHER);
    char left[TN__SHAPE_TEXT], right[TN__SHAPE_TEXT];
    if (a->ndim == 0 || b->ndim == 0)
        return tn__give(call, tn_mul(a, b));
    int64_t length = a->shape[a->ndim - 1];
    if (b->shape[b->ndim - 1] != length ||
        a->ndim + b->ndim - 2 > TN_MAX_NDIM)
        return tn__fail(TN_ERR_SHAPE, "inner: {input} has shape %s and "
                        "{other} %s; expected the same size in the last "
                        "dimension", tn__shape_text(left, a->ndim, a->shape),
                        tn__shape_text(right, b->ndim, b->shape));
    tn_dims_list shape = {0, {0}};
    int64_t rows = 1, columns = 1;
    for (int d = 0; d < a->ndim - 1; d++)
        rows *= shape.dim[shape.count++] = a->shape[d];
    for (int d = 0; d < b->ndim - 1; d++)
        columns *= shape.dim[shape.count++] = b->shape[d];
    a = tn_reshape(a, tn_dims(rows, length));
    b = tn_reshape(b, tn_dims(columns, length));
    return tn__give(call,
                    tn_reshape(tn_matmul(a, tn_transpose(b, 0, 1)), shape));
}

static tn_tensor *outer(tn_tensor *a, tn_tensor *b)
{
    return tn_mul(tn_unsqueeze(a, 1), b);
}

tn_status tn__run_outer(tn__call *call)
{
    tn_status status = check_ndim(call, 0, 1);
    if (status >= 0)
        status = check_ndim(call, 1, 1);
    if (status < 0)
        return status;
    return tn__give(call, outer(tn__call_tensor(call, 0),
                                tn__call_tensor(call, 1)));
}

tn_status tn__run_kron(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_KRON_INPUT);
    tn_tensor *b = tn__call_tensor(call, TN__ARG_KRON_OTHER);
    int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    if (2 * ndim > TN_MAX_NDIM)
        return tn__fail(TN_ERR_SHAPE, "kron: the result would have %d "
                        "dimensions; expected at most %d", ndim,
                        TN_MAX_NDIM / 2);
    tn_dims_list wide_a = {2 * ndim, {0}}, wide_b = wide_a;
    tn_dims_list shape = {ndim, {0}};
    for (int d = 0; d < ndim; d++) {
        int in_a = d - (ndim - a->ndim), in_b = d - (ndim - b->ndim);
        wide_a.dim[2 * d] = in_a < 0 ? 1 : a->shape[in_a];
        wide_a.dim[2 * d + 1] = wide_b.dim[2 * d] = 1;
        wide_b.dim[2 * d + 1] = in_b < 0 ? 1 : b->shape[in_b];
        shape.dim[d] = tn__size_mul(wide_a.dim[2 * d], wide_b.dim[2 * d + 1]);
    }
    tn_tensor *product = tn_mul(tn_reshape(a, wide_a), tn_reshape(b, wide_b));
    return tn__give(call, tn_reshape(product, shape));
}

/* ---- beta * input + alpha * product ---- */

/* The indices of the arguments that the operators below have in common. */
enum { INPUT, LEFT, RIGHT, BETA, ALPHA };

static bool is_half(tn_dtype dtype)
{
    return tn_dtype_is_floating(dtype) && tn_dtype_bytes(dtype) == 2;
}

/* Returns x times a number. As in PyTorch, the number is truncated if x is an
 * integer tensor, and rounded to the dtype of x if that is a half type. */
static tn_tensor *scaled(tn_tensor *x, double by)
{
    if (!x)
        return NULL;
    if (!tn_dtype_is_floating(x->dtype))
        by = trunc(by);
    if (by == 1)
        return x;
    if (is_half(x->dtype))
        return tn_mul(x, tn_full((tn_dims_list){0}, by, .dtype = x->dtype,
                                 .device = x->storage->device));
    const tn_value value[] = {tn__value_tensor(x),
                              x->dtype == TN_BOOL ? tn__value_bool(by != 0)
                              : tn_dtype_is_floating(x->dtype)
                                  ? tn__value_float(by)
                                  : tn__value_int(tn__size_from_double(by))};
    return tn__row(TN__OP_ID_MUL, value, 2);
}

/* Returns tensor argument arg, converted to float32 if it is of a half type,
 * since results are rounded once, at the end. */
static tn_tensor *operand(const tn__call *call, int arg)
{
    tn_tensor *x = tn__call_tensor(call, arg);
    return is_half(x->dtype) ? tn_to_dtype(x, TN_F32) : x;
}

/* Computes the call's output, beta * input + alpha * product. If beta is 0, the
 * elements of input are ignored, even NaN. */
static tn_status give_sum(tn__call *call, tn_tensor *product, double alpha)
{
    tn_dtype dtype = tn__call_tensor(call, INPUT)->dtype;
    tn_tensor *x = product && product->dtype == dtype
                       ? tn__call_tensor(call, INPUT)
                       : operand(call, INPUT);
    double beta = tn__call_float(call, BETA);
    if (!product || !x)
        return tn_error_code();
    tn__shape shape = {.ndim = product->ndim};
    for (int d = 0; d < product->ndim; d++)
        shape.dim[d] = product->shape[d];
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (!tn__shape_broadcast(&shape, x->ndim, x->shape) ||
        !tn__shape_equal(shape.ndim, shape.dim, product->ndim, product->shape))
        return tn__fail(TN_ERR_SHAPE, "%s: {input} %s does not broadcast to "
                        "the product's shape %s", call->op->name,
                        tn__shape_text(a, x->ndim, x->shape),
                        tn__shape_text(b, product->ndim, product->shape));
    product = scaled(product, alpha);
    if (beta != 0)
        product = tn_add(scaled(x, beta), product);
    if (product && is_half(dtype) && product->dtype != dtype)
        product = tn_to_dtype(product, dtype);
    return tn__give(call, product);
}

/* Checks that the inner sizes of the matrix product are equal. matmul checks
 * them too, but may be called with converted tensors, so that the message of
 * matmul would not name the arguments. */
static tn_status check_inner(const tn__call *call)
{
    const tn_tensor *a = tn__call_tensor(call, LEFT);
    const tn_tensor *b = tn__call_tensor(call, RIGHT);
    char left[TN__SHAPE_TEXT], right[TN__SHAPE_TEXT];
    if (!a->ndim || !b->ndim ||
        a->shape[a->ndim - 1] == b->shape[b->ndim > 1 ? b->ndim - 2 : 0])
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: inner sizes differ: {%s} %s x {%s} %s",
                    call->op->name, call->op->arg[LEFT].name,
                    tn__shape_text(left, a->ndim, a->shape),
                    call->op->arg[RIGHT].name,
                    tn__shape_text(right, b->ndim, b->shape));
}

tn_status tn__run_addmm(tn__call *call)
{
    if (check_inner(call) < 0)
        return TN_ERR_SHAPE;
    return give_sum(call,
                    tn_matmul(operand(call, LEFT), operand(call, RIGHT)),
                    tn__call_float(call, ALPHA));
}

tn_status tn__run_addr(tn__call *call)
{
    tn_status status = check_ndim(call, LEFT, 1);
    if (status >= 0)
        status = check_ndim(call, RIGHT, 1);
    if (status < 0)
        return status;
    tn_tensor *left =
        scaled(tn__call_tensor(call, LEFT), tn__call_float(call, ALPHA));
    return give_sum(call, outer(left, tn__call_tensor(call, RIGHT)), 1);
}

tn_status tn__run_addbmm(tn__call *call)
{
    if (check_inner(call) < 0)
        return TN_ERR_SHAPE;
    tn_tensor *product = tn_matmul(operand(call, LEFT), operand(call, RIGHT));
    return give_sum(call, product ? tn_sum(product, .dim = 0,
                                           .dtype = product->dtype)
                                  : NULL,
                    tn__call_float(call, ALPHA));
}
