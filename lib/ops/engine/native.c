/* native.c: helpers for the C functions that run NATIVE operators: checks of
 * dtypes, copies, fills and scatters. */
#include <ops/engine/native.h>

#include <base/context.h>
#include <base/hash.h>

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

/* Returns a hash that is not 0. */
static uint64_t hash_of(const void *bytes, size_t count)
{
    uint64_t h[2] = {0, 0};
    for (size_t at = 0; at < count; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, (const char *)bytes + at,
               count - at < sizeof word ? count - at : sizeof word);
        tn__hash_word(h, word);
    }
    tn__hash_finish(h);
    return h[0] ? h[0] : 1;
}

tn_tensor *tn__number_table(const void *numbers, tn_dtype dtype, tn_dtype to,
                            tn_dims_list shape, tn_device *device)
{
    struct tn__record *recording = tn__me.recording;
    tn__me.recording = NULL;
    tn_tensor *given = tn_tensor_from_array(numbers, dtype, shape), *x = given;
    if (x && to != dtype)
        x = tn_to_dtype(x, to);
    x = tn_to(x, device);
    tn__me.recording = recording;
    if (x && recording)
        x->storage->table =
            hash_of(numbers, (size_t)given->numel * tn_dtype_bytes(dtype));
    return x;
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
