/* strided.c: views whose sizes and strides the caller gives (PyTorch's
 * as_strided), and copies of a tensor in which such a view has new elements
 * (as_strided_scatter). */
#include <ops/engine/native.h>
#include <tensor/tensor.h>

/* A view of the storage of x, as the arguments of a call describe it. */
typedef struct strided {
    const tn_dims_list *size;
    tn_dims_list stride; /* the strides, set to 0 in dimensions of size 0 or 1,
                            where the caller may give any stride */
    int64_t offset;    /* the position in the storage of the element at
                          coordinates 0 */
    int64_t low, high; /* the first and the last position of the view in the
                          storage. high < low if the view has no elements. */
} strided;

/* Adds (size - 1) * stride to *end. Returns false on overflow. */
static bool reach_further(int64_t size, int64_t stride, int64_t *end)
{
    int64_t reach;
    return !__builtin_mul_overflow(size - 1, stride, &reach) &&
           !__builtin_add_overflow(*end, reach, end);
}

/* Reads the arguments size, stride and storage_offset into *out. Their indices
 * are first, first + 1 and first + 2. Checks that size and stride have the same
 * length, and that the view stays within the storage of x. */
static tn_status read_strided(const tn__call *call, const tn_tensor *x,
                              int first, strided *out)
{
    const char *name = call->op->name;
    const tn_dims_list *size = call->value[first].of.dims;
    const tn_dims_list *step = call->value[first + 1].of.dims;
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (size->count != step->count)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {size} is %s and {stride} %s; "
                        "expected the same number of dimensions", name,
                        tn__shape_text(a, size->count, size->dim),
                        tn__shape_text(b, step->count, step->dim));
    for (int d = 0; d < size->count; d++)
        if (size->dim[d] < 0)
            return tn__fail(TN_ERR_SHAPE, "%s: {size} is %s; expected only "
                            "numbers of at least 0", name,
                            tn__shape_text(a, size->count, size->dim));
    int64_t offset = tn__call_has(call, first + 2)
                         ? tn__call_int(call, first + 2)
                         : x->offset;
    int64_t low = offset, high = offset;
    int64_t room = (int64_t)(x->storage->bytes / tn_dtype_bytes(x->dtype));
    bool empty = false, told = true;
    for (int d = 0; d < size->count; d++) {
        empty = empty || size->dim[d] == 0;
        if (size->dim[d])
            told = told && reach_further(size->dim[d], step->dim[d],
                                         step->dim[d] < 0 ? &low : &high);
    }
    if (!empty && !told)
        return tn__fail(TN_ERR_ARGUMENT,
                        "%s: {size} %s and {stride} %s reach beyond 2^63 "
                        "elements",
                        name, tn__shape_text(a, size->count, size->dim),
                        tn__shape_text(b, step->count, step->dim));
    if (!empty && (low < 0 || high >= room))
        return tn__fail_outside(
            TN_ERR_INDEX,
            (tn__error_index){true, low < 0 ? low : high, 0, room, 0, {0}},
            "%s: {size:}offsets %lld to %lld are outside a storage of %lld",
            name, (long long)low, (long long)high, (long long)room);
    *out = empty ? (strided){size, *step, 0, 0, -1}
                 : (strided){size, *step, offset, low, high};
    for (int d = 0; d < size->count; d++)
        if (size->dim[d] < 2)
            out->stride.dim[d] = 0;
    return TN_OK;
}

tn_status tn__run_as_strided(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_AS_STRIDED_INPUT);
    strided v;
    tn_status status = read_strided(call, x, TN__ARG_AS_STRIDED_SIZE, &v);
    if (status < 0)
        return status;
    return tn__give(call, tn__tensor_view(x, x->dtype, v.size->count,
                                          v.size->dim, v.stride.dim,
                                          v.offset));
}

/* Returns a 1-d tensor that covers the parts of x's storage which x and v use.
 * It has the elements of x where x has them, and zeros elsewhere. Sets *low to
 * the position in the storage of its element 0. */
static tn_tensor *copy_span(tn_tensor *x, const strided *v, int64_t *low)
{
    int64_t from, to;
    tn__shape_span(x->ndim, x->shape, x->stride, &from, &to);
    *low = x->offset + from;
    int64_t high = x->offset + to;
    if (v->high >= v->low) {
        *low = v->low < *low || to < from ? v->low : *low;
        high = v->high > high ? v->high : high;
    }
    int64_t count = high - *low + 1;
    tn_tensor *flat = tn_zeros(tn_dims(count), .dtype = x->dtype,
                               .device = x->storage->device);
    tn_tensor *same = flat ? tn__tensor_view(flat, x->dtype, x->ndim, x->shape,
                                             x->stride, x->offset - *low)
                           : NULL;
    tn_status status = same ? tn__copy_into(same, x, "as_strided_scatter")
                            : tn_error_code();
    if (status >= 0)
        return same;
    tn__unref(same);
    return NULL;
}

tn_status tn__run_as_strided_scatter(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_AS_STRIDED_SCATTER_INPUT);
    tn_tensor *src = tn__call_tensor(call, TN__ARG_AS_STRIDED_SCATTER_SRC);
    strided v;
    tn_status status = read_strided(call, x, TN__ARG_AS_STRIDED_SCATTER_SIZE,
                                    &v);
    if (status < 0)
        return status;
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (!tn__shape_equal(src->ndim, src->shape, v.size->count, v.size->dim))
        return tn__fail(TN_ERR_SHAPE,
                        "as_strided_scatter: {src} has shape %s and {size} is "
                        "%s; expected both to be equal",
                        tn__shape_text(a, src->ndim, src->shape),
                        tn__shape_text(b, v.size->count, v.size->dim));
    if (tn__shape_repeats(v.size->count, v.size->dim, v.stride.dim))
        return tn__fail(TN_ERR_ARGUMENT,
                        "as_strided_scatter: with {size} %s and {stride} %s "
                        "several elements of {src} would be written to the "
                        "same element of {input}",
                        tn__shape_text(a, v.size->count, v.size->dim),
                        tn__shape_text(b, v.stride.count, v.stride.dim));
    status = tn__check_same_dtype("as_strided_scatter", x, "input", src,
                                  "src");
    if (status < 0)
        return status;
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    int64_t low = 0;
    tn_tensor *out = copy_span(x, &v, &low);
    tn_tensor *part = out ? tn__tensor_view(out, x->dtype, v.size->count,
                                            v.size->dim, v.stride.dim,
                                            v.offset - low)
                          : NULL;
    status = part ? tn__copy_into(part, src, "as_strided_scatter")
                  : tn_error_code();
    tn__unref(part);
    tn_scope_close(scope);
    if (status >= 0)
        return tn__give(call, out);
    tn__unref(out);
    return status;
}
