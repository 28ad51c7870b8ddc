/* native.c: helpers for the C functions that run NATIVE operators: checks of
 * dtypes, copies, fills and scatters. */
#include <ops/engine/native.h>

tn_status tn__check_same_dtype(const char *name, const tn_tensor *a,
                               const char *a_name, const tn_tensor *b,
                               const char *b_name)
{
    if (a->dtype == b->dtype)
        return TN_OK;
    return tn__fail(TN_ERR_DTYPE, "%s: dtypes differ: {%s} is %s, {%s} is %s; "
                    "convert one with tn_to_dtype", name, a_name,
                    tn_dtype_name(a->dtype), b_name, tn_dtype_name(b->dtype));
}

static tn_status copy(tn_tensor *dst, tn_tensor *src, uint32_t flags,
                      const char *what)
{
    static tn__formula convert = TN__FORMULA("copy(x; to: type) = to(x)");
    const tn_dtype dtype[] = {src->dtype, dst->dtype};
    const tn__kernel *kernel = tn__formula_kernel(&convert, dtype);
    if (!kernel)
        return tn_error_code();
    tn__shape shape = {.ndim = dst->ndim};
    for (int d = 0; d < dst->ndim; d++)
        shape.dim[d] = dst->shape[d];
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    space.flags = flags;
    tn__space_add(&space, &shape, 0, src);
    tn__space_add_out(&space, &shape, 0, false, false, dst);
    return tn__kernel_launch(dst->storage->device, kernel, &space, NULL, what);
}

tn_status tn__copy_into(tn_tensor *dst, tn_tensor *src, const char *what)
{
    return copy(dst, src, 0, what);
}

tn_status tn__copy_for_update(tn_tensor *dst, tn_tensor *src, const char *what)
{
    return copy(dst, src, TN_LAUNCH_SOON, what);
}

tn_status tn__fill(tn_tensor *dst, double number, const char *what)
{
    static tn__formula fill = TN__FORMULA("fill(; x: f64, to: type) = to(x)");
    const tn_dtype dtype = dst->dtype;
    const tn__kernel *kernel = tn__formula_kernel(&fill, &dtype);
    if (!kernel)
        return tn_error_code();
    tn__shape shape = {.ndim = dst->ndim};
    for (int d = 0; d < dst->ndim; d++)
        shape.dim[d] = dst->shape[d];
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    tn__space_add_out(&space, &shape, 0, false, false, dst);
    tn_number param = {.f = number};
    return tn__kernel_launch(dst->storage->device, kernel, &space, &param,
                             what);
}
