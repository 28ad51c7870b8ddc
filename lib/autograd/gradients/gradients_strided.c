/* gradients_strided.c: gradients of as_strided, which makes a view with given
 * strides, and of as_strided_scatter, which writes a tensor into such a view.
 *
 * Both gradients use a 1-d tensor, called flat, whose element i corresponds to
 * element i of the input's storage. The gradient of the result is copied to
 * flat with the strides of the input. Then the elements of the view are added
 * to flat, read from it or set to zero in it. If the input is contiguous, the
 * copy is only a reshape. */
#include <autograd/autograd.h>
#include <base/error.h>
#include <base/memory.h>
#include <ops/engine/native.h>
#include <tenon/ops.h>

/* The elements of a storage that a tensor covers. */
struct place {
    tn_dims_list shape, stride;
    int64_t offset;
};

/* The elements low, ..., high of the storage; empty if high < low. */
struct span {
    int64_t low, high;
};

/* Returns the offset, shape and strides of input 0 in its storage. */
static struct place input_place(const tn__node *node)
{
    struct place place = {tn__node_shape(node, 0), {0, {0}},
                          tn__node_offset(node)};
    const int64_t *stride = tn__node_strides(node);
    place.stride.count = place.shape.count;
    for (int d = 0; d < place.shape.count; d++)
        place.stride.dim[d] = stride[d];
    return place;
}

static struct place view_place(const tn__node *node, int first)
{
    const tn_value *offset = tn__node_value(node, first + 2);
    return (struct place){*tn__node_value(node, first)->of.dims,
                          *tn__node_value(node, first + 1)->of.dims,
                          offset->kind == TN_VALUE_NONE
                              ? tn__node_offset(node)
                              : offset->of.i};
}

static struct span span_of(const struct place *place)
{
    struct span span;
    tn__shape_span(place->shape.count, place->shape.dim, place->stride.dim,
                   &span.low, &span.high);
    if (span.high < span.low) /* the tensor has no elements */
        return span;
    span.low += place->offset;
    span.high += place->offset;
    return span;
}

/* Returns the smallest range of the storage that contains the elements of both
 * tensors. */
static struct span span_of_both(const struct place *a, const struct place *b)
{
    struct span x = span_of(a), y = span_of(b);
    if (x.high < x.low || y.high < y.low)
        return x.high < x.low ? y : x;
    return (struct span){x.low < y.low ? x.low : y.low,
                         x.high > y.high ? x.high : y.high};
}

static bool fills(const struct place *place, struct span span)
{
    return place->offset == span.low &&
           tn__shape_numel(place->shape.count, place->shape.dim) ==
               span.high - span.low + 1 &&
           tn__shape_is_contiguous(place->shape.count, place->shape.dim,
                                   place->stride.dim);
}

/* Returns a view of flat with the shape and strides of place. Element 0 of flat
 * corresponds to element span.low of the storage. */
static tn_tensor *view_of_flat(tn_tensor *flat, const struct place *place,
                               struct span span)
{
    if (!flat)
        return NULL;
    int64_t offset = flat->offset + place->offset - span.low;
    return tn_as_strided(flat, place->shape, place->stride,
                         .storage_offset = offset);
}

/* Returns a copy of flat in which the elements of place are replaced by src. */
static tn_tensor *scatter(tn_tensor *flat, tn_tensor *src,
                          const struct place *place, struct span span)
{
    if (!flat)
        return NULL;
    int64_t offset = flat->offset + place->offset - span.low;
    return tn_as_strided_scatter(flat, src, place->shape, place->stride,
                                 .storage_offset = offset);
}

/* Makes zeros with the dtype and device of `like`, which must not be written
 * to. */
static tn_tensor *zeros(tn_dims_list shape, const tn_tensor *like)
{
    return tn__zeros_expanded(shape, (tn_dtype)like->dtype,
                              like->storage->device);
}

/* ---- views whose elements share memory ---------------------------------- */

/* Returns for each element of the view its index in the span. */
static tn_tensor *element_numbers(const struct place *place, struct span span,
                                  int64_t numel, tn_device *device)
{
    int64_t *number = tn__alloc_many(numel, sizeof *number);
    if (!number)
        return NULL;
    for (int64_t i = 0; i < numel; i++) {
        int64_t left = i;
        number[i] = place->offset - span.low;
        for (int d = place->shape.count - 1; d >= 0; d--) {
            number[i] += left % place->shape.dim[d] * place->stride.dim[d];
            left /= place->shape.dim[d];
        }
    }
    tn_tensor *numbers =
        tn__number_table(number, TN_I64, TN_I64, tn_dims(numel), device);
    tn__free(number);
    return numbers;
}

static tn_tensor *scatter_add(tn_tensor *flat, tn_tensor *src,
                              const struct place *place, struct span span)
{
    tn_tensor *numbers =
        element_numbers(place, span, src->numel, src->storage->device);
    return tn_scatter_add(flat, 0, numbers,
                          tn_reshape(src, tn_dims(src->numel)));
}

static bool has_repeats(const struct place *place)
{
    return tn__shape_repeats(place->shape.count, place->shape.dim,
                             place->stride.dim);
}

/* ---- the two rows ------------------------------------------------------- */

static tn_status refuse_repeats(const tn__node *node)
{
    return tn__fail(TN_ERR_UNSUPPORTED,
                    "%s: elements of {input} share memory, which the gradient "
                    "does not support: pass tn_contiguous() of it",
                    tn__node_name(node));
}

/* Copies g to a flat tensor with the strides of place. */
static tn_tensor *to_flat(tn_tensor *g, const struct place *place,
                          struct span span)
{
    tn_dims_list count = tn_dims(span.high - span.low + 1);
    if (fills(place, span))
        return tn_contiguous(tn_reshape(g, count));
    if (has_repeats(place))
        g = tn__widen_half(g);
    if (!g)
        return NULL;
    tn_tensor *none = zeros(count, g);
    return has_repeats(place) ? scatter_add(none, g, place, span)
                              : scatter(tn_contiguous(none), g, place, span);
}

static tn_tensor *from_flat(tn_tensor *flat, const struct place *place,
                            struct span span)
{
    return fills(place, span) ? tn_reshape(flat, place->shape)
                              : view_of_flat(flat, place, span);
}

/* An element of the input may occur several times in the view. Its gradient is
 * the sum of the gradients of all these occurrences. */
TN__GRADIENT(tn__grad_as_strided)
{
    struct place input = input_place(node), view = view_place(node, 1);
    if (has_repeats(&input))
        return refuse_repeats(node);
    struct span span = span_of_both(&input, &view);
    if (tn__shape_numel(view.shape.count, view.shape.dim) == 0)
        out[0] = tn_contiguous(zeros(input.shape, g[0]));
    else
        out[0] = from_flat(to_flat(g[0], &view, span), &input, span);
    return out[0] ? TN_OK : tn_error_code();
}

/* The gradient of src consists of those elements of g, the gradient of the
 * result, that src was written to. The gradient of the input is g with these
 * elements set to zero. */
TN__GRADIENT(tn__grad_as_strided_scatter)
{
    struct place input = input_place(node), view = view_place(node, 2);
    if (has_repeats(&input))
        return refuse_repeats(node);
    struct span span = span_of_both(&input, &view);
    tn_tensor *flat = to_flat(g[0], &input, span);
    if (tn__node_wants(node, 0))
        out[0] = from_flat(scatter(flat, zeros(view.shape, g[0]), &view, span),
                           &input, span);
    if (tn__node_wants(node, 1))
        out[1] = view_of_flat(flat, &view, span);
    return tn_error() ? tn_error_code() : TN_OK;
}
