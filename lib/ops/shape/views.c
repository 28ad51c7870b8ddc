/* views.c: operators that return views with other shapes and strides (PyTorch's
 * view, permute, squeeze, narrow, expand and others). No kernel runs here,
 * except when reshape has to copy. */
#include <base/error.h>
#include <ops/engine/mistakes.h>
#include <ops/table.h>
#include <ops/shape/views.h>
#include <string.h>
#include <tenon/ops.h>

static tn_status give(tn__call *call, tn_tensor *out)
{
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    return TN_OK;
}

/* The shape, strides and offset of a view under construction. At first they are
 * those of the input. */
typedef struct frame {
    int ndim;
    int64_t shape[TN_MAX_NDIM], stride[TN_MAX_NDIM];
    int64_t offset;
} frame;

static frame frame_of(const tn_tensor *x)
{
    frame f = {.ndim = x->ndim, .offset = x->offset};
    for (int d = 0; d < x->ndim; d++) {
        f.shape[d] = x->shape[d];
        f.stride[d] = x->stride[d];
    }
    return f;
}

static tn_status give_view(tn__call *call, const tn_tensor *x, const frame *f)
{
    return give(call, tn__tensor_view(x, x->dtype, f->ndim, f->shape,
                                      f->stride, f->offset));
}

static void remove_dim(frame *f, int dim)
{
    f->ndim--;
    for (int d = dim; d < f->ndim; d++) {
        f->shape[d] = f->shape[d + 1];
        f->stride[d] = f->stride[d + 1];
    }
}

/* ---- view, reshape and flatten ------------------------------------------- */

/* Checks that a tensor with the number of elements of x can have the shape
 * `given`, and stores it in *shape, with the size that replaces -1. */
static tn_status resolve(const char *name, const tn_tensor *x,
                         const tn_dims_list *given, tn__shape *shape)
{
    char want[TN__SHAPE_TEXT], have[TN__SHAPE_TEXT];
    int64_t known = 1;
    int unknown = -1;
    shape->ndim = given->count;
    for (int d = 0; d < given->count; d++) {
        shape->dim[d] = given->dim[d];
        if (given->dim[d] == -1 && unknown < 0)
            unknown = d;
        else if (given->dim[d] < 0 ||
                 __builtin_mul_overflow(known, given->dim[d], &known))
            goto fail;
    }
    if (unknown >= 0) {
        if (known == 0 || x->numel % known != 0)
            goto fail;
        shape->dim[unknown] = x->numel / known;
        known *= shape->dim[unknown];
    }
    if (known == x->numel)
        return TN_OK;
fail:
    return tn__fail(TN_ERR_SHAPE, "%s: shape %s with %lld elements does not "
                    "fit {shape} %s", name,
                    tn__shape_text(have, x->ndim, x->shape),
                    (long long)x->numel,
                    tn__shape_text(want, given->count, given->dim));
}

/* Finds the strides with which the memory of x has this shape, as PyTorch's
 * view does. The shape has the same number of elements as x. Returns false if
 * there are no such strides, so that x must be copied. */
static bool view_strides(const tn_tensor *x, const tn__shape *shape,
                      int64_t *stride)
{
    if (x->contiguous || x->numel == 0) {
        tn__shape_contiguous_strides(shape->ndim, shape->dim, stride);
        return true;
    }
    /* Splits the dimensions of x into groups. The dimensions of a group are
     * contiguous relative to each other, so they can be merged to one. The
     * product of their sizes must equal the product of the sizes of some
     * adjacent dimensions of the new shape. */
    int d = x->ndim - 1, n = shape->ndim - 1;
    while (d >= 0 || n >= 0) {
        while (d >= 0 && x->shape[d] == 1)
            d--;
        if (d < 0)
            break;
        int64_t run = x->shape[d], step = x->stride[d];
        for (d--; d >= 0 && (x->shape[d] == 1 ||
                             x->stride[d] == step * run); d--)
            run *= x->shape[d];
        int64_t made = 1;
        while (n >= 0 && made * shape->dim[n] <= run) {
            stride[n] = made * step;
            made *= shape->dim[n--];
            if (made == run)
                break;
        }
        if (made != run)
            return false;
    }
    for (; n >= 0; n--)
        stride[n] = 0; /* the remaining sizes are 1 */
    return true;
}

tn_status tn__run_view(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_VIEW_INPUT);
    tn__shape shape;
    int64_t stride[TN_MAX_NDIM];
    tn_status status = resolve("view", x,
                               call->value[TN__ARG_VIEW_SIZE].of.dims, &shape);
    if (status < 0)
        return status;
    if (!view_strides(x, &shape, stride)) {
        char want[TN__SHAPE_TEXT], have[TN__SHAPE_TEXT];
        return tn__fail(TN_ERR_SHAPE,
                        "view: {input:}no strides view the memory of %s as %s; "
                        "use tn_reshape, which copies",
                        tn__shape_text(have, x->ndim, x->shape),
                        tn__shape_text(want, shape.ndim, shape.dim));
    }
    return give(call, tn__tensor_view(x, x->dtype, shape.ndim, shape.dim,
                                      stride, x->offset));
}

tn_status tn__run_reshape(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_RESHAPE_INPUT);
    tn__shape shape;
    int64_t stride[TN_MAX_NDIM];
    tn_status status =
        resolve("reshape", x, call->value[TN__ARG_RESHAPE_SHAPE].of.dims,
                &shape);
    if (status < 0)
        return status;
    if (view_strides(x, &shape, stride))
        return give(call, tn__tensor_view(x, x->dtype, shape.ndim, shape.dim,
                                          stride, x->offset));
    tn_scope *scope = tn_scope_open();
    tn_tensor *copy = scope ? tn_clone(x) : NULL, *out = NULL;
    if (copy) {
        tn__shape_contiguous_strides(shape.ndim, shape.dim, stride);
        out = tn__tensor_view(copy, x->dtype, shape.ndim, shape.dim, stride,
                              0);
    }
    tn_scope_close(scope);
    return give(call, out);
}

tn_status tn__run_contiguous(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, 0);
    if (x->contiguous)
        return give(call, tn__tensor_alias(x));
    tn_scope *scope = tn_scope_open();
    tn_tensor *out = scope ? tn__ref(tn_clone(x)) : NULL;
    tn_scope_close(scope);
    return give(call, out);
}

tn_status tn__run_flatten(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_FLATTEN_INPUT);
    int first = tn__call_dim(call, TN__ARG_FLATTEN_START_DIM, x->ndim);
    int last = tn__call_dim(call, TN__ARG_FLATTEN_END_DIM, x->ndim);
    if (first < 0 || last < 0)
        return TN_ERR_ARGUMENT;
    if (first > last)
        return tn__fail(TN_ERR_ARGUMENT,
                        "flatten: {start_dim} %d is after {end_dim} %d",
                        first, last);
    tn_dims_list shape = {0, {0}};
    for (int d = 0; d < x->ndim; d++) {
        if (d > first && d <= last)
            shape.dim[shape.count - 1] *= x->shape[d];
        else
            shape.dim[shape.count++] = x->shape[d];
    }
    if (x->ndim == 0)
        shape = (tn_dims_list){1, {1}};
    return give(call, tn_reshape(x, shape));
}

/* ---- permutations of dimensions ------------------------------------------ */

tn_status tn__run_transpose(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_TRANSPOSE_INPUT);
    int a = tn__call_dim(call, TN__ARG_TRANSPOSE_DIM0, x->ndim);
    int b = tn__call_dim(call, TN__ARG_TRANSPOSE_DIM1, x->ndim);
    if (a < 0 || b < 0)
        return TN_ERR_ARGUMENT;
    frame f = frame_of(x);
    if (x->ndim) {
        f.shape[a] = x->shape[b];
        f.stride[a] = x->stride[b];
        f.shape[b] = x->shape[a];
        f.stride[b] = x->stride[a];
    }
    return give_view(call, x, &f);
}

tn_status tn__run_t(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_T_INPUT);
    if (x->ndim > 2)
        return tn__fail(TN_ERR_SHAPE,
                        "t: {input} has %d dimensions; expected at most 2; "
                        "use tn_transpose", x->ndim);
    return give(call, x->ndim < 2 ? tn__op_run1(
                                        &tn__op_table[TN__OP_ID_ALIAS],
                                        call->value, 1)
                                  : tn_transpose(x, 0, 1));
}

tn_status tn__run_permute(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_PERMUTE_INPUT);
    const tn_dims_list *dims = call->value[TN__ARG_PERMUTE_DIMS].of.dims;
    char text[TN__SHAPE_TEXT];
    if (dims->count != x->ndim)
        return tn__fail(TN_ERR_ARGUMENT,
                        "permute: {dims} %s for an {input} of %d dimensions; "
                        "expected each of them once",
                        tn__shape_text(text, dims->count, dims->dim), x->ndim);
    frame f = frame_of(x);
    uint32_t seen = 0;
    for (int d = 0; d < x->ndim; d++) {
        int from = tn__shape_dim(x->ndim, dims->dim[d]);
        if (from < 0)
            return tn__fail_dim("permute", "dims:dim", dims->dim[d], x->ndim);
        if (seen >> from & 1)
            return tn__fail(TN_ERR_ARGUMENT,
                            "permute: {dims} %s have %d twice; expected each "
                            "of {input}'s %d dimensions once",
                            tn__shape_text(text, dims->count, dims->dim), from,
                            x->ndim);
        seen |= 1u << from;
        f.shape[d] = x->shape[from];
        f.stride[d] = x->stride[from];
    }
    return give_view(call, x, &f);
}

/* ---- unsqueeze, squeeze and expand --------------------------------------- */

tn_status tn__run_unsqueeze(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_UNSQUEEZE_INPUT);
    int dim = tn__call_dim(call, TN__ARG_UNSQUEEZE_DIM, x->ndim + 1);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    if (x->ndim == TN_MAX_NDIM)
        return tn__fail(TN_ERR_SHAPE, "unsqueeze: the result would have %d "
                        "dimensions; expected at most %d", x->ndim + 1,
                        TN_MAX_NDIM);
    frame f = frame_of(x);
    for (int d = f.ndim++; d > dim; d--) {
        f.shape[d] = f.shape[d - 1];
        f.stride[d] = f.stride[d - 1];
    }
    f.stride[dim] = dim < x->ndim ? x->shape[dim] * x->stride[dim] : 1;
    f.shape[dim] = 1;
    return give_view(call, x, &f);
}

tn_status tn__run_squeeze(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SQUEEZE_INPUT);
    uint32_t wanted = ~0u;
    if (tn__call_has(call, TN__ARG_SQUEEZE_DIM)) {
        const tn_dims_list *dims = call->value[TN__ARG_SQUEEZE_DIM].of.dims;
        wanted = 0;
        for (int i = 0; i < dims->count; i++) {
            int dim = tn__shape_dim(x->ndim, dims->dim[i]);
            if (dim < 0)
                return tn__fail_dim("squeeze", "dim", dims->dim[i], x->ndim);
            wanted |= 1u << dim;
        }
    }
    frame f = frame_of(x);
    for (int d = x->ndim - 1; d >= 0; d--)
        if (wanted >> d & 1 && x->shape[d] == 1)
            remove_dim(&f, d);
    return give_view(call, x, &f);
}

tn_status tn__run_expand(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_EXPAND_INPUT);
    const tn_dims_list *size = call->value[TN__ARG_EXPAND_SIZE].of.dims;
    int add = size->count - x->ndim;
    char have[TN__SHAPE_TEXT], want[TN__SHAPE_TEXT];
    frame f = {.ndim = size->count, .offset = x->offset};
    bool fits = add >= 0;
    for (int d = 0; d < size->count && fits; d++) {
        int64_t own = d < add ? 1 : x->shape[d - add];
        f.shape[d] = size->dim[d] == -1 && d >= add ? own : size->dim[d];
        f.stride[d] = d < add || own == 1 ? 0 : x->stride[d - add];
        if (d >= add && f.shape[d] == 1)
            f.stride[d] = x->stride[d - add];
        fits = f.shape[d] >= 0 && (own == 1 || own == f.shape[d]);
    }
    if (!fits)
        return tn__fail(TN_ERR_SHAPE, "expand: {input} %s does not expand to "
                        "{size} %s", tn__shape_text(have, x->ndim, x->shape),
                        tn__shape_text(want, size->count, size->dim));
    return give_view(call, x, &f);
}

/* ---- select, narrow and slice -------------------------------------------- */

tn_status tn__run_select(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SELECT_INPUT);
    if (x->ndim == 0)
        return tn__fail(TN_ERR_SHAPE, "select: {input} has no dimensions; "
                        "expected at least one");
    int dim = tn__call_dim(call, TN__ARG_SELECT_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    int64_t given = tn__call_int(call, TN__ARG_SELECT_INDEX);
    int64_t size = x->shape[dim], index = given < 0 ? given + size : given;
    if (index < 0 || index >= size)
        return tn__fail_outside(
            TN_ERR_INDEX, (tn__error_index){true, given, -size, size, 0, {0}},
            "select: {index} %lld is outside [%lld, %lld) of {dim} %d",
            (long long)given, (long long)-size, (long long)size, dim);
    frame f = frame_of(x);
    f.offset += index * x->stride[dim];
    remove_dim(&f, dim);
    return give_view(call, x, &f);
}

tn_status tn__run_narrow(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_NARROW_INPUT);
    if (x->ndim == 0)
        return tn__fail(TN_ERR_SHAPE, "narrow: {input} has no dimensions; "
                        "expected at least one");
    int dim = tn__call_dim(call, TN__ARG_NARROW_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    int64_t start = tn__call_int(call, TN__ARG_NARROW_START);
    int64_t length = tn__call_int(call, TN__ARG_NARROW_LENGTH);
    int64_t size = x->shape[dim];
    int64_t from = start < 0 ? start + size : start;
    if (from < 0 || from > size)
        return tn__fail_outside(
            TN_ERR_INDEX,
            (tn__error_index){true, start, -size, size + 1, 0, {0}},
            "narrow: {start} %lld is outside [%lld, %lld], a dimension of size "
            "%lld",
            (long long)start, (long long)-size, (long long)size,
            (long long)size);
    if (length < 0 || length > size - from)
        return tn__fail_outside(
            TN_ERR_INDEX,
            (tn__error_index){true, length, 0, size - from + 1, 0, {0}},
            "narrow: {length} %lld is outside [0, %lld] for {start} %lld "
            "in a dimension of size %lld",
            (long long)length, (long long)(size - from), (long long)start,
            (long long)size);
    frame f = frame_of(x);
    f.offset += from * x->stride[dim];
    f.shape[dim] = length;
    return give_view(call, x, &f);
}

tn_status tn__run_narrow_at(tn__call *call)
{
    int64_t start =
        tn_item_int(tn__call_tensor(call, TN__ARG_NARROW_AT_START));
    if (tn_error())
        return tn_error_code();
    return give(call, tn_narrow(tn__call_tensor(call, TN__ARG_NARROW_AT_INPUT),
                                tn__call_int(call, TN__ARG_NARROW_AT_DIM),
                                start,
                                tn__call_int(call, TN__ARG_NARROW_AT_LENGTH)));
}

static int64_t clamp_index(int64_t at, int64_t size)
{
    at = at < 0 ? at + size : at;
    return at < 0 ? 0 : at > size ? size : at;
}

tn_status tn__run_slice(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SLICE_INPUT);
    if (x->ndim == 0)
        return tn__fail(TN_ERR_SHAPE, "slice: {input} has no dimensions; "
                        "expected at least one");
    int dim = tn__call_dim(call, TN__ARG_SLICE_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    int64_t step = tn__call_int(call, TN__ARG_SLICE_STEP);
    if (step < 1)
        return tn__fail(TN_ERR_ARGUMENT, "slice: {step} is %lld; expected at "
                        "least 1",
                        (long long)step);
    int64_t size = x->shape[dim];
    int64_t start = clamp_index(tn__call_int(call, TN__ARG_SLICE_START), size);
    int64_t end = tn__call_has(call, TN__ARG_SLICE_END)
                      ? clamp_index(tn__call_int(call, TN__ARG_SLICE_END), size)
                      : size;
    frame f = frame_of(x);
    f.offset += start * x->stride[dim];
    f.shape[dim] = end > start ? (end - start - 1) / step + 1 : 0;
    if (f.shape[dim] > 1) /* with a size of 1 the stride does not matter */
        f.stride[dim] *= step;
    return give_view(call, x, &f);
}

tn_status tn__run_alias(tn__call *call)
{
    return give(call, tn__tensor_alias(tn__call_tensor(call, 0)));
}
