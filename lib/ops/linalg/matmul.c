/* matmul.c: matrix products (PyTorch's matmul) by the device. The operands are
 * passed as batches of strided matrices. A transposed matrix has its strides
 * exchanged, and a batch dimension that broadcasts has stride 0, so nothing is
 * copied. */
#include <ops/engine/native.h>
#include <device/work.h>

/* Describes x in *view as matrices with batch_ndim batch dimensions, to which
 * the batch dimensions of x broadcast. The strides of other dimensions stay
 * uninitialised, because clearing them takes time in small products. */
static void matrices(tn_strided *view, const tn_tensor *x, int batch_ndim)
{
    view->buffer = tn__tensor_buffer(x);
    view->offset = tn__tensor_buffer_offset(x);
    view->dtype = x->dtype;
    view->ndim = (uint32_t)batch_ndim + 2;
    int own = x->ndim - 2;
    for (int d = 0; d < batch_ndim; d++) {
        int from = d - (batch_ndim - own);
        view->stride[d] =
            from < 0 || x->shape[from] == 1 ? 0 : x->stride[from];
    }
    view->stride[batch_ndim] = x->stride[own];
    view->stride[batch_ndim + 1] = x->stride[own + 1];
}

/* Returns the scale factor `by` in the form that devices require. For integer
 * tensors it is limited to the range of int64, since devices truncate it. */
static double factor(double by, tn_dtype dtype)
{
    const double most = 0x1.fffffffffffffp62; /* the largest double below
                                                 2^63 */
    if (tn_dtype_is_floating(dtype))
        return by;
    return by != by ? 0 : by > most ? most : by < -most ? -most : by;
}

/* Computes c = alpha a @ b + beta c for a (..., M, K), b (..., K, N) and c
 * (..., M, N), whose batch dimensions broadcast. */
static tn_status matmul_into(tn_tensor *a, tn_tensor *b, tn_tensor *c,
                             double alpha, double beta, const char *what)
{
    int batch = c->ndim - 2;
    tn_matmul_args args;
    if (c->numel == 0)
        return TN_OK;
    args.size = sizeof args;
    args.batch_ndim = (uint32_t)batch;
    for (int d = 0; d < batch; d++)
        args.batch[d] = c->shape[d];
    args.m = c->shape[batch];
    args.n = c->shape[batch + 1];
    args.k = a->shape[a->ndim - 1];
    args.alpha = factor(alpha, c->dtype);
    args.beta = factor(beta, c->dtype);
    args.tag = 0;
    args.flags = tn__me.modes.relaxed ? TN_MATMUL_RELAXED : 0;
    matrices(&args.a, a, batch);
    matrices(&args.b, b, batch);
    matrices(&args.c, c, batch);
    return tn__device_work(c->storage->device, TN__WORK_MATMUL, &args, what,
                           NULL, NULL);
}

/* Reports that the shapes of a and b do not fit. a is the argument input, and b
 * the argument b_name. */
static tn_status fail_shapes(const char *name, const tn_tensor *a,
                             const tn_tensor *b, const char *b_name,
                             const char *why)
{
    char first[TN__SHAPE_TEXT], second[TN__SHAPE_TEXT];
    return tn__fail(TN_ERR_SHAPE, "%s: %s: {input} %s x {%s} %s", name, why,
                    tn__shape_text(first, a->ndim, a->shape), b_name,
                    tn__shape_text(second, b->ndim, b->shape));
}

/* Sets *view to x as matrices. A 1-d tensor becomes one row if it is the left
 * operand, or one column if it is the right one. Only the fields that describe
 * a view are set, and no reference is counted. */
static void as_matrix(tn_tensor *view, const tn_tensor *x, bool left)
{
    view->storage = x->storage;
    view->offset = x->offset;
    view->dtype = x->dtype;
    view->ndim = x->ndim;
    for (int d = 0; d < x->ndim; d++) {
        view->shape[d] = x->shape[d];
        view->stride[d] = x->stride[d];
    }
    if (x->ndim == 1) {
        view->ndim = 2;
        view->shape[left] = x->shape[0];
        view->stride[left] = x->stride[0];
        view->shape[!left] = 1;
        view->stride[!left] = 0;
    }
}

/* Copies the addend, which broadcasts, into out. The product is then added to
 * it. */
static tn_status put_addend(tn_tensor *out, tn_tensor *addend, const char *name)
{
    tn__shape shape = {.ndim = out->ndim};
    for (int d = 0; d < out->ndim; d++)
        shape.dim[d] = out->shape[d];
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (!tn__shape_broadcast(&shape, addend->ndim, addend->shape) ||
        !tn__shape_equal(shape.ndim, shape.dim, out->ndim, out->shape))
        return tn__fail(TN_ERR_SHAPE, "%s: {addend:}its shape %s does not "
                        "broadcast to the product's shape %s", name,
                        tn__shape_text(a, addend->ndim, addend->shape),
                        tn__shape_text(b, out->ndim, out->shape));
    return tn__copy_for_update(out, addend, name);
}

/* Sets *a and *b to x and y as matrices, and *shape to the shape of their
 * product. */
static tn_status lay_out(const char *name, const tn_tensor *x,
                         const tn_tensor *y, tn_tensor *a, tn_tensor *b,
                         tn__shape *shape)
{
    if (x->ndim == 0 || y->ndim == 0)
        return fail_shapes(name, x, y, "other", "an operand has no dimension");
    tn_status status = tn__check_same_dtype(name, x, "input", y, "other");
    if (status < 0)
        return status;
    as_matrix(a, x, true);
    as_matrix(b, y, false);
    if (a->shape[a->ndim - 1] != b->shape[b->ndim - 2])
        return fail_shapes(name, x, y, "other", "inner sizes differ");
    shape->ndim = a->ndim - 2;
    for (int d = 0; d < a->ndim - 2; d++)
        shape->dim[d] = a->shape[d];
    if (!tn__shape_broadcast(shape, b->ndim - 2, b->shape))
        return fail_shapes(name, x, y, "other", "batches do not broadcast");
    shape->dim[shape->ndim++] = a->shape[a->ndim - 2];
    shape->dim[shape->ndim++] = b->shape[b->ndim - 1];
    return TN_OK;
}

/* Computes scale * x @ y, plus addend if it is not NULL, and adds the result to
 * the call. */
static tn_status give_product(tn__call *call, const tn_tensor *x,
                              const tn_tensor *y, double scale,
                              tn_tensor *addend)
{
    const char *name = tn__op_outer("matmul");
    tn_tensor a, b, c;
    tn__shape shape;
    tn_status status = lay_out(name, x, y, &a, &b, &shape);
    if (status < 0)
        return status;
    int batch = shape.ndim - 2;

    /* The result is allocated as matrices. Afterwards the dimensions of size 1
     * that as_matrix inserted for 1-d operands are dropped. */
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, batch + 2,
                                    shape.dim, name);
    if (!out)
        return tn_error_code();
    c.numel = out->numel;
    as_matrix(&c, out, true);
    if (y->ndim == 1)
        out->ndim--;
    if (x->ndim == 1) {
        out->ndim--;
        out->shape[batch] = shape.dim[batch + 1];
    }
    tn__shape_contiguous_strides(out->ndim, out->shape, out->stride);
    call->out[call->out_count++] = out;
    status = addend ? put_addend(out, addend, name) : TN_OK;
    return status < 0
               ? status
               : matmul_into(&a, &b, &c, scale, addend ? 1 : 0, name);
}

tn_status tn__run_matmul(tn__call *call)
{
    return give_product(call, tn__call_tensor(call, TN__ARG_MATMUL_INPUT),
                        tn__call_tensor(call, TN__ARG_MATMUL_OTHER), 1, NULL);
}

tn_status tn__run_matmul_add(tn__call *call)
{
    return give_product(call, tn__call_tensor(call, TN__ARG_MATMUL_ADD_INPUT),
                        tn__call_tensor(call, TN__ARG_MATMUL_ADD_OTHER), 1,
                        tn__call_tensor(call, TN__ARG_MATMUL_ADD_ADDEND));
}

tn_status tn__run_matmul_scaled(tn__call *call)
{
    return give_product(
        call, tn__call_tensor(call, TN__ARG_MATMUL_SCALED_INPUT),
        tn__call_tensor(call, TN__ARG_MATMUL_SCALED_OTHER),
        tn__call_float(call, TN__ARG_MATMUL_SCALED_SCALE), NULL);
}

tn_status tn__run_matmul_into(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_MATMUL_INTO_INPUT);
    tn_tensor *y = tn__call_tensor(call, TN__ARG_MATMUL_INTO_OTHER);
    tn_tensor *sum = tn__call_tensor(call, TN__ARG_MATMUL_INTO_SUM);
    const char *name = tn__op_outer("matmul");
    tn_tensor a, b;
    tn__shape shape;
    tn_status status = lay_out(name, x, y, &a, &b, &shape);
    if (status >= 0)
        status = tn__check_same_dtype(name, x, "input", sum, "sum");
    if (status < 0)
        return status;
    char text[2][TN__SHAPE_TEXT];
    if (!tn__shape_equal(shape.ndim, shape.dim, sum->ndim, sum->shape))
        return tn__fail(TN_ERR_SHAPE, "%s: {sum} has shape %s; expected the "
                        "product's shape %s", name,
                        tn__shape_text(text[0], sum->ndim, sum->shape),
                        tn__shape_text(text[1], shape.ndim, shape.dim));
    status = matmul_into(
        &a, &b, sum, tn__call_float(call, TN__ARG_MATMUL_INTO_SCALE), 1, name);
    tn__tensor_changed(sum);
    return status < 0 ? status : tn__give(call, tn__ref(sum));
}

tn_status tn__run_mm(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_MM_INPUT);
    tn_tensor *b = tn__call_tensor(call, TN__ARG_MM_MAT2);
    if (a->ndim != 2 || b->ndim != 2)
        return fail_shapes("mm", a, b, "mat2", "expected two matrices");
    return tn__give(call, tn_matmul(a, b));
}

tn_status tn__run_bmm(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_BMM_INPUT);
    tn_tensor *b = tn__call_tensor(call, TN__ARG_BMM_MAT2);
    if (a->ndim != 3 || b->ndim != 3 || a->shape[0] != b->shape[0])
        return fail_shapes("bmm", a, b, "mat2",
                           "expected (B, N, M) and (B, M, P)");
    return tn__give(call, tn_matmul(a, b));
}
