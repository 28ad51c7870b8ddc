/* host.c: tensors of elements in host memory.
 *
 * The memory that a file was read into becomes the tensor on the device cpu; for
 * other devices it is copied. So no element is in host memory twice. */
#include <media/array/host.h>

#include <stdlib.h>
#include <string.h>

tn_status tn__array_no_memory(const char *call)
{
    return tn_error_set(TN_ERR_MEMORY, "%s: out of memory", call);
}

void *tn__array_alloc(uint64_t bytes, const char *call)
{
    void *memory = NULL;
    if (bytes < PTRDIFF_MAX - 64)
        memory = aligned_alloc(64, ((size_t)bytes + 64) / 64 * 64);
    if (!memory)
        tn_error_set(TN_ERR_MEMORY, "%s: out of memory for %llu bytes", call,
                     (unsigned long long)bytes);
    return memory;
}

bool tn__array_is_little_endian(void)
{
    const uint16_t one = 1;
    return *(const uint8_t *)&one == 1;
}

void tn__array_swap(void *data, uint64_t numel, unsigned item)
{
    uint8_t *p = data;
    for (uint64_t i = 0; i < numel; i++, p += item)
        for (unsigned a = 0, b = item - 1; a < b; a++, b--) {
            uint8_t byte = p[a];
            p[a] = p[b];
            p[b] = byte;
        }
}

void tn__array_reorder(const void *from, void *to, const int64_t *shape,
                       int ndim, size_t item, bool to_row_major)
{
    int64_t stride[TN_MAX_NDIM], index[TN_MAX_NDIM] = {0}, numel = 1;
    for (int d = 0; d < ndim; d++) {
        stride[d] = numel; /* of column-major order */
        numel *= shape[d];
    }
    int64_t column_major = 0;
    for (int64_t i = 0; i < numel; i++) {
        const int64_t in = to_row_major ? column_major : i;
        const int64_t out = to_row_major ? i : column_major;
        memcpy((char *)to + (size_t)out * item,
               (const char *)from + (size_t)in * item, item);
        for (int d = ndim - 1; d >= 0; d--) {
            column_major += stride[d];
            if (++index[d] < shape[d])
                break;
            column_major -= stride[d] * shape[d];
            index[d] = 0;
        }
    }
}

bool tn__array_numel(const int64_t *shape, int ndim, int64_t *out)
{
    int64_t numel = 1;
    bool empty = false;
    for (int d = 0; d < ndim; d++) {
        if (shape[d] < 0)
            return false;
        empty |= shape[d] == 0;
        if (shape[d] && __builtin_mul_overflow(numel, shape[d], &numel))
            return false;
    }
    *out = empty ? 0 : numel;
    return true;
}

tn_device *tn__array_use_cpu(tn_device **out_was)
{
    tn_device *was = tn_device_current();
    tn_device *cpu = was ? tn_device_open("cpu") : NULL;
    if (!cpu || (was != cpu && tn_device_set(cpu) < 0))
        return NULL;
    *out_was = was;
    return cpu;
}

/* Converts elements to wider ones in new memory, and frees the old. */
static void *widen(void *raw, const tn__array_elements *elements,
                   int64_t numel, const char *call)
{
    const bool narrow = elements->widen == TN__ARRAY_U16;
    void *out = tn__array_alloc((uint64_t)numel * (narrow ? 4 : 8), call);
    if (out && narrow)
        for (int64_t i = 0; i < numel; i++)
            ((int32_t *)out)[i] = ((const uint16_t *)raw)[i];
    else if (out)
        for (int64_t i = 0; i < numel; i++)
            ((int64_t *)out)[i] = ((const uint32_t *)raw)[i];
    free(raw);
    return out;
}

static bool fits_int64(const uint64_t *raw, int64_t numel,
                       const tn__array_elements *elements, const char *call)
{
    for (int64_t i = 0; i < numel; i++)
        if (raw[i] > INT64_MAX) {
            tn_error_refuse_argument(
                TN_ERR_DTYPE, call, NULL,
                "%s: element %lld is %llu, a uint64 above the largest int64",
                elements->what, (long long)i, (unsigned long long)raw[i]);
            return false;
        }
    return true;
}

/* Brings elements to the byte order and the dtype of the tensor. Returns the
 * memory that holds them, or NULL. */
static void *convert(void *raw, const tn__array_elements *elements,
                     int64_t numel, const char *call)
{
    if (elements->swapped)
        tn__array_swap(raw, (uint64_t)numel, elements->item);
    if (elements->dtype == TN_BOOL) /* as NumPy reads other bytes */
        for (int64_t i = 0; i < numel; i++)
            ((uint8_t *)raw)[i] = ((uint8_t *)raw)[i] != 0;
    if (elements->widen == TN__ARRAY_AS_IS)
        return raw;
    if (elements->widen != TN__ARRAY_U64)
        return widen(raw, elements, numel, call);
    if (fits_int64(raw, numel, elements, call))
        return raw;
    free(raw);
    return NULL;
}

tn_tensor *tn__array_tensor(void *raw, const tn__array_elements *elements,
                            tn_dims_list shape, const char *call)
{
    int64_t numel;
    if (!tn__array_numel(shape.dim, shape.count, &numel)) {
        tn_error_refuse_argument(TN_ERR_SHAPE, call, NULL,
                                 "%s: the shape has too many elements",
                                 elements->what);
        free(raw);
        return NULL;
    }
    void *data = convert(raw, elements, numel, call);
    tn_scope *scope = data ? tn_scope_open() : NULL;
    tn_device *was = NULL;
    tn_tensor *x = NULL;
    if (scope && tn__array_use_cpu(&was))
        x = tn_tensor_wrap(data, elements->dtype, shape, free, data);
    if (!x)
        free(data);
    if (was && tn_device_set(was) == TN_OK && x)
        x = tn_to(x, was);
    else
        x = NULL;
    return tn_scope_result(scope, x);
}
