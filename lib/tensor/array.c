/* array.c: copies between C arrays and tensors, reads single elements (item),
 * and copies whole tensors between devices. Strided views are copied on the
 * host. */
#include <base/error.h>
#include <base/memory.h>
#include <math.h>
#include <string.h>
#include <tensor/tensor.h>

/* ---- elements ------------------------------------------------------------ */

/* Returns the value of an 8-bit or 16-bit float from its bits. If `ieee` is
 * true, the highest exponent encodes infinity and NaN. If it is false
 * (float8_e4m3fn), there is no infinity, and NaN has all exponent and mantissa
 * bits set. */
static double narrow_value(uint32_t code, int exponent_bits, int mantissa_bits,
                           bool ieee)
{
    uint32_t top = (1u << exponent_bits) - 1;
    uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
    uint32_t exponent = code >> mantissa_bits & top;
    bool negative = code >> (mantissa_bits + exponent_bits) & 1;
    int bias = (int)(top >> 1);
    double x;
    if (exponent == top && ieee)
        x = mantissa ? NAN : INFINITY;
    else if (exponent == top && mantissa == (1u << mantissa_bits) - 1)
        x = NAN;
    else if (exponent == 0)
        x = ldexp(mantissa, 1 - bias - mantissa_bits);
    else
        x = ldexp(mantissa + (1u << mantissa_bits),
                  (int)exponent - bias - mantissa_bits);
    return negative ? -x : x;
}

#define READ(type)                                                            \
    type value;                                                               \
    memcpy(&value, element, sizeof value)

double tn__element_double(tn_dtype dtype, const void *element)
{
    switch (dtype) {
    case TN_F64: {
        READ(double);
        return value;
    }
    case TN_F32: {
        READ(float);
        return (double)value;
    }
    case TN_F16: {
        READ(uint16_t);
        return narrow_value(value, 5, 10, true);
    }
    case TN_BF16: {
        READ(uint16_t);
        return narrow_value(value, 8, 7, true);
    }
    case TN_F8E4M3: {
        READ(uint8_t);
        return narrow_value(value, 4, 3, false);
    }
    case TN_F8E5M2: {
        READ(uint8_t);
        return narrow_value(value, 5, 2, true);
    }
    default:
        return (double)tn__element_int(dtype, element);
    }
}

int64_t tn__element_int(tn_dtype dtype, const void *element)
{
    switch (dtype) {
    case TN_I64: {
        READ(int64_t);
        return value;
    }
    case TN_I32: {
        READ(int32_t);
        return value;
    }
    case TN_I16: {
        READ(int16_t);
        return value;
    }
    case TN_I8: {
        READ(int8_t);
        return value;
    }
    case TN_U8: {
        READ(uint8_t);
        return value;
    }
    case TN_BOOL: {
        READ(uint8_t);
        return value != 0;
    }
    default: { /* a float is converted as the CAST of kernels does: it is
                  truncated and clamped to the range, and NaN gives 0 */
        double x = tn__element_double(dtype, element);
        if (isnan(x))
            return 0;
        if (x >= 0x1p63)
            return INT64_MAX;
        if (x < -0x1p63)
            return INT64_MIN;
        return (int64_t)x;
    }
    }
}

/* ---- copying strided views on the host ----------------------------------- */

/* One case of the switch in walk_line, which copies n elements that are `step`
 * bytes apart in the view. Because the element size is a constant in each case,
 * the compiler turns memcpy into one load and store. */
#define LINE(bytes)                                                           \
    case bytes:                                                               \
        for (int64_t i = 0; i < n; i++, at += step, flat += bytes)            \
            memcpy(in ? at : flat, in ? flat : at, bytes);                    \
        return flat;
static char *walk_line(char *at, char *flat, size_t element, int64_t n,
                       int64_t step, bool in)
{
    switch (element) {
        LINE(1)
        LINE(2)
        LINE(4)
    default:
        LINE(8)
    }
}

/* Copies between a strided view, whose element 0 is at `at`, and a row-major
 * array at `flat`: into the view if `in` is true, otherwise out of it. Returns
 * the address after the last element of flat that was used. */
static char *walk(char *at, char *flat, size_t element, int ndim,
                  const int64_t *shape, const int64_t *stride, bool in)
{
    if (ndim == 0) {
        memcpy(in ? at : flat, in ? flat : at, element);
        return flat + element;
    }
    if (ndim == 1)
        return walk_line(at, flat, element, shape[0],
                         stride[0] * (int64_t)element, in);
    for (int64_t i = 0; i < shape[0]; i++)
        flat = walk(at + i * stride[0] * (int64_t)element, flat, element,
                    ndim - 1, shape + 1, stride + 1, in);
    return flat;
}

tn_status tn__host_view_open(tn__host_view *view, const tn_tensor *x)
{
    tn_device *device = x->storage->device;
    view->base = NULL;
    view->copy = NULL;
    if (tn__record_refuse_host(device, "reading elements"))
        return TN_ERR_STATE;
    if (device->host_visible) {
        if (!device->synchronous) {
            tn_status status = tn_device_synchronize(device);
            if (status < 0)
                return status;
        }
        view->base = tn__tensor_host(x);
        return TN_OK;
    }
    int64_t element = (int64_t)tn_dtype_bytes(x->dtype), low, high;
    tn__shape_span(x->ndim, x->shape, x->stride, &low, &high);
    uint64_t bytes = (uint64_t)((high - low + 1) * element);
    view->copy = tn__alloc(bytes);
    if (!view->copy)
        return TN_ERR_MEMORY;
    tn_status status = tn__device_copy_out(
        device, view->copy, x->storage->block,
        (uint64_t)((x->offset + low) * element), bytes);
    if (status < 0) {
        tn__host_view_close(view);
        return status;
    }
    view->base = (char *)view->copy - low * element;
    return TN_OK;
}

void tn__host_view_close(tn__host_view *view)
{
    tn__free(view->copy);
    view->copy = NULL;
}

/* ---- arrays -------------------------------------------------------------- */

tn_tensor *tn_tensor_from_array(const void *data, tn_dtype dtype,
                                tn_dims_list shape)
{
    tn_device *device = tn_device_current();
    if (!device)
        return NULL;
    tn_tensor *x = tn__tensor_new(device, dtype, shape.count, shape.dim,
                                  "tensor_from_array");
    if (!x)
        return NULL;
    if (!data && x->numel) {
        tn__unref(x);
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "tensor_from_array: {data} is NULL");
    }
    if (x->numel &&
        tn__device_copy_in(device, x->storage->block, 0, data,
                           x->storage->bytes) < 0) {
        tn__unref(x);
        return NULL;
    }
    return tn__scope_own(x);
}

/* Checks that `bytes` is the size of an array with the elements of x. */
static bool check_bytes(const tn_tensor *x, const void *array, size_t bytes,
                        const char *what, const char *name)
{
    size_t need = tn__size_bytes(x->numel, tn_dtype_bytes(x->dtype));
    if (need == SIZE_MAX) {
        tn__fail(TN_ERR_ARGUMENT, "%s: %lld elements of %s have more bytes "
                 "than an array can have", what, (long long)x->numel,
                 tn_dtype_name(x->dtype));
        return false;
    }
    if (bytes != need) {
        tn__fail(TN_ERR_ARGUMENT,
                 "%s: {%s:the array} has %zu bytes; expected %zu, those of "
                 "the tensor (%lld of %s)", what, name, bytes, need,
                 (long long)x->numel, tn_dtype_name(x->dtype));
        return false;
    }
    if (!array && need) {
        tn__fail(TN_ERR_ARGUMENT, "%s: {%s} is NULL", what, name);
        return false;
    }
    return true;
}

/* While this thread records work, rejects an access of the host to the elements
 * of x, with the operator that made x. */
static tn_status refuse_recorded(const tn_tensor *x, const char *what)
{
    char text[96];
    if (TN__LIKELY(!tn__me.recording))
        return TN_OK;
    snprintf(text, sizeof text, "%s of a tensor made by %s", what,
             x->made_by ? x->made_by : "the program");
    return tn__record_refuse_host(x->storage->device, text);
}

tn_status tn_tensor_to_array(const tn_tensor *x, void *out, size_t bytes)
{
    if (!tn__tensor_check(x, "tensor_to_array", "x"))
        return tn_error_code();
    if (!check_bytes(x, out, bytes, "tensor_to_array", "out"))
        return TN_ERR_ARGUMENT;
    if (x->numel == 0)
        return TN_OK;
    if (refuse_recorded(x, "tensor_to_array") < 0)
        return TN_ERR_STATE;
    size_t element = tn_dtype_bytes(x->dtype);
    if (x->contiguous)
        return tn__device_copy_out(x->storage->device, out, x->storage->block,
                                   (uint64_t)x->offset * element, bytes);
    tn__host_view view;
    tn_status status = tn__host_view_open(&view, x);
    if (status < 0)
        return status;
    walk((char *)(uintptr_t)view.base, out, element, x->ndim, x->shape,
         x->stride, false);
    tn__host_view_close(&view);
    return TN_OK;
}

tn_status tn_tensor_set_array(tn_tensor *x, const void *data, size_t bytes)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (!tn__tensor_check(x, "tensor_set_array", "x"))
        return tn_error_code();
    if (!check_bytes(x, data, bytes, "tensor_set_array", "data"))
        return TN_ERR_ARGUMENT;
    if (x->numel == 0)
        return TN_OK;
    if (refuse_recorded(x, "tensor_set_array") < 0)
        return TN_ERR_STATE;
    size_t element = tn_dtype_bytes(x->dtype);
    tn_device *device = x->storage->device;
    tn_status status;
    if (x->contiguous) {
        status = tn__device_copy_in(device, x->storage->block,
                                    (uint64_t)x->offset * element, data,
                                    bytes);
    } else {
        /* The memory between the elements of a strided view must not change. So
         * the memory from its first to its last element is read, the elements
         * are changed in it, and it is written back if it is a copy. */
        tn__host_view view;
        status = tn__host_view_open(&view, x);
        if (status < 0)
            return status;
        walk((char *)(uintptr_t)view.base, (char *)(uintptr_t)data, element,
             x->ndim, x->shape, x->stride, true);
        if (view.copy) {
            int64_t low, high;
            tn__shape_span(x->ndim, x->shape, x->stride, &low, &high);
            status = tn__device_copy_in(
                device, x->storage->block,
                (uint64_t)(x->offset + low) * element, view.copy,
                (uint64_t)(high - low + 1) * element);
        }
        tn__host_view_close(&view);
    }
    if (status >= 0)
        tn__tensor_changed(x);
    return status;
}

/* ---- numbers ------------------------------------------------------------- */

/* Copies the bytes of the only element of x to `element`. */
static tn_status read_item(const tn_tensor *x, void *element, const char *what)
{
    if (!tn__tensor_check(x, what, "x"))
        return tn_error_code();
    if (x->numel != 1)
        return tn__fail(TN_ERR_SHAPE,
                        "%s: {x:}the tensor has %lld elements; expected one",
                        what, (long long)x->numel);
    if (refuse_recorded(x, what) < 0)
        return TN_ERR_STATE;
    size_t bytes = tn_dtype_bytes(x->dtype);
    return tn__device_copy_out(x->storage->device, element, x->storage->block,
                               (uint64_t)x->offset * bytes, bytes);
}

double tn_item(const tn_tensor *x)
{
    char element[8];
    if (read_item(x, element, "item") < 0)
        return NAN;
    return tn__element_double(x->dtype, element);
}

int64_t tn_item_int(const tn_tensor *x)
{
    char element[8];
    if (read_item(x, element, "item_int") < 0)
        return INT64_MIN;
    return tn__element_int(x->dtype, element);
}

void *tn_tensor_data(tn_tensor *x)
{
    if (!tn__tensor_check(x, "tensor_data", "x"))
        return NULL;
    tn_device *device = x->storage->device;
    if (!device->host_visible)
        return tn__fail_null(TN_ERR_DEVICE,
                             "tensor_data: {x:}the CPU cannot use memory of "
                             "%s; copy it with tn_tensor_to_array",
                             device->name);
    if (tn__record_refuse_host(device, "tensor_data") ||
        tn_device_synchronize(device) < 0)
        return NULL;
    return tn__tensor_host(x);
}

/* ---- device to device ---------------------------------------------------- */

tn_status tn__tensor_transfer(tn_tensor *dst, const tn_tensor *src)
{
    size_t element = tn_dtype_bytes(src->dtype);
    uint64_t bytes = (uint64_t)src->numel * element;
    if (bytes == 0)
        return TN_OK;
    if (src->contiguous)
        return tn__device_copy(
            dst->storage->device, dst->storage->block,
            (uint64_t)dst->offset * element, src->storage->device,
            src->storage->block, (uint64_t)src->offset * element, bytes);
    tn__host_view view;
    tn_status status = tn__host_view_open(&view, src);
    if (status < 0)
        return status;
    /* Pending work may still use the memory of dst. */
    if (!dst->storage->device->synchronous &&
        (status = tn_device_synchronize(dst->storage->device)) < 0)
        return status;
    walk((char *)(uintptr_t)view.base, tn__tensor_host(dst), element,
         src->ndim, src->shape, src->stride, false);
    tn__host_view_close(&view);
    return TN_OK;
}
