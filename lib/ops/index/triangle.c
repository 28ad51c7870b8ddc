/* triangle.c: operators whose kernels compare the coordinates of an element:
 * the triangles of matrices (PyTorch's tril and triu) and one_hot. */
#include <ops/engine/native.h>

static tn_status run_triangle(tn__call *call, tn__formula *formula)
{
    tn_tensor *x = tn__call_tensor(call, 0);
    const char *name = call->op->name;
    if (x->ndim < 2)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has %d dimensions; "
                        "expected at least 2", name, x->ndim);
    const tn_dtype dtype[] = {x->dtype, 0, 0};
    const tn__kernel *kernel = tn__formula_kernel(formula, dtype);
    tn_tensor *out = kernel ? tn__tensor_new(x->storage->device, x->dtype,
                                             x->ndim, x->shape, name)
                            : NULL;
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    tn__shape shape = tn__shape_of(x);
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    tn__space_add(&space, &shape, 0, x);
    tn__space_add_bare(&space, NULL)->stride[x->ndim - 2] = 1;
    tn__space_add_bare(&space, NULL)->stride[x->ndim - 1] = 1;
    tn__space_add_out(&space, &shape, 0, false, false, out);
    tn_number param = {.i = tn__call_int(call, TN__ARG_TRIL_DIAGONAL)};
    return tn__kernel_launch(out->storage->device, kernel, &space, &param,
                             name);
}

tn_status tn__run_tril(tn__call *call)
{
    static tn__formula tril = TN__FORMULA(
        "tril(x, r: offset, c: offset; k: i64) = "
        "where(c - r <= k, x, like(0, x))");
    return run_triangle(call, &tril);
}

tn_status tn__run_triu(tn__call *call)
{
    static tn__formula triu = TN__FORMULA(
        "triu(x, r: offset, c: offset; k: i64) = "
        "where(c - r >= k, x, like(0, x))");
    return run_triangle(call, &triu);
}

tn_status tn__run_one_hot_draw(tn__call *call)
{
    static tn__formula one_hot =
        TN__FORMULA("one_hot(x, c: offset) = i64(i64(x) == c)");
    tn_tensor *x = tn__call_tensor(call, TN__ARG_ONE_HOT_DRAW_INPUT);
    const tn_dtype dtype[] = {x->dtype, 0};
    const tn__kernel *kernel = tn__formula_kernel(&one_hot, dtype);
    if (!kernel)
        return tn_error_code();
    if (x->ndim == TN_MAX_NDIM)
        return tn__fail(TN_ERR_SHAPE, "one_hot_draw: {input} has %d "
                        "dimensions; expected fewer", x->ndim);
    tn__shape shape = tn__shape_of(x);
    shape.dim[shape.ndim++] =
        tn__call_int(call, TN__ARG_ONE_HOT_DRAW_NUM_CLASSES);
    tn_tensor *out = tn__tensor_new(x->storage->device, TN_I64, shape.ndim,
                                    shape.dim, "one_hot");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    tn__operand *from = tn__space_add_bare(&space, x);
    for (int d = 0; d < x->ndim; d++)
        from->stride[d] = x->stride[d];
    tn__space_add_bare(&space, NULL)->stride[x->ndim] = 1;
    tn__space_add_out(&space, &shape, 0, false, false, out);
    return tn__kernel_launch(out->storage->device, kernel, &space, NULL,
                             "one_hot");
}
