/* tensor.c: creates a sample's tensor with the strides that it had in
 * PyTorch. */
#include "golden.h"

#include <stdlib.h>
#include <string.h>

/* Returns the number of elements that a view of this shape and strides
 * spans. */
static int64_t span(tn_tensor *x, const int64_t *stride)
{
    int64_t last = 0;
    for (int i = 0; i < tn_tensor_ndim(x); i++) {
        if (tn_tensor_shape(x)[i] == 0)
            return 0;
        last += (tn_tensor_shape(x)[i] - 1) * stride[i];
    }
    return last + 1;
}

/* Copies row-major elements of `bytes` bytes to their positions by stride. */
static void spread(char *to, const char *from, tn_tensor *x,
                   const int64_t *stride, size_t bytes)
{
    int64_t at[TN_MAX_NDIM] = {0};
    int ndim = tn_tensor_ndim(x);
    for (int64_t i = 0; i < tn_tensor_numel(x); i++) {
        int64_t offset = 0;
        for (int d = 0; d < ndim; d++)
            offset += at[d] * stride[d];
        memcpy(to + (size_t)offset * bytes, from + (size_t)i * bytes, bytes);
        for (int d = ndim - 1; d >= 0 && ++at[d] == tn_tensor_shape(x)[d]; d--)
            at[d] = 0;
    }
}

static tn_tensor *with_strides(tn_tensor *x, const int64_t *stride)
{
    size_t bytes = tn_dtype_bytes(tn_tensor_dtype(x));
    int64_t room = span(x, stride);
    size_t numel_bytes = (size_t)tn_tensor_numel(x) * bytes;
    char *from = malloc(numel_bytes + 1);
    char *to = calloc((size_t)room + 1, bytes);
    tn_tensor *out = NULL;
    if (from && to && tn_tensor_to_array(x, from, numel_bytes) == TN_OK) {
        spread(to, from, x, stride, bytes);
        tn_tensor *base =
            tn_tensor_from_array(to, tn_tensor_dtype(x), tn_dims(room));
        tn_dims_list shape = {.count = tn_tensor_ndim(x)}, strides = shape;
        memcpy(shape.dim, tn_tensor_shape(x),
               (size_t)shape.count * sizeof(int64_t));
        memcpy(strides.dim, stride, (size_t)shape.count * sizeof(int64_t));
        TN_NO_GRAD {
            out = tn_as_strided(base, shape, strides);
        }
    }
    free(from);
    free(to);
    return out;
}

tn_tensor *golden_tensor(tn_safetensors *file, const char *key,
                         const json_t *stride)
{
    tn_tensor *x = key ? tn_safetensors_tensor(file, key) : NULL;
    if (!x || !json_is_array(stride) ||
        json_array_size(stride) != (size_t)tn_tensor_ndim(x))
        return x ? tn_clone(x) : NULL; /* a copy, so that the file's tensor does
                                        * not change */
    int64_t strides[TN_MAX_NDIM] = {0};
    for (size_t i = 0; i < json_array_size(stride); i++)
        strides[i] = json_integer_value(json_array_get(stride, i));
    return with_strides(x, strides);
}
