/* pad.c: padding by a number (PyTorch's constant_pad_nd) or by elements of the
 * input (pad with the modes reflect, replicate and circular). */
#include <math.h>

#include <base/context.h>
#include <base/memory.h>
#include <device/recorder.h>
#include <ops/engine/native.h>

/* Return the padding before and after dimension d of ndim dimensions. The list
 * pad is (before, after) for the last dimension, then (before, after) for the
 * last but one, and so on. */
static int64_t before(const tn_dims_list *pad, int ndim, int d)
{
    int k = 2 * (ndim - 1 - d);
    return k < pad->count ? pad->dim[k] : 0;
}

static int64_t after(const tn_dims_list *pad, int ndim, int d)
{
    int k = 2 * (ndim - 1 - d) + 1;
    return k < pad->count ? pad->dim[k] : 0;
}

static tn_status check_pad(const tn__call *call, const tn_tensor *x,
                           const tn_dims_list *pad, tn__shape *shape)
{
    const char *name = tn__op_outer(call->op->name);
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (pad->count % 2 || pad->count > 2 * x->ndim)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {pad} is %s for {input} %s; "
                        "expected two numbers for each dimension to pad, from "
                        "the last dimension on", name,
                        tn__shape_text(a, pad->count, pad->dim),
                        tn__shape_text(b, x->ndim, x->shape));
    shape->ndim = x->ndim;
    for (int d = 0; d < x->ndim; d++) {
        int64_t low = before(pad, x->ndim, d), high = after(pad, x->ndim, d);
        bool told =
            !__builtin_add_overflow(x->shape[d], low, &shape->dim[d]) &&
            !__builtin_add_overflow(shape->dim[d], high, &shape->dim[d]);
        if (!told || shape->dim[d] < 0)
            return tn__fail(TN_ERR_SHAPE, "%s: {pad} %s removes more elements "
                            "than there are in dimension %d of {input} %s",
                            name,
                            tn__shape_text(a, pad->count, pad->dim), d,
                            tn__shape_text(b, x->ndim, x->shape));
    }
    return TN_OK;
}

/* Narrows the view `part` of x in dimension d to `size` elements. If skip is
 * positive, the view starts `skip` elements later. */
static void cut(tn_tensor *part, const tn_tensor *x, int d, int64_t skip,
                int64_t size)
{
    if (skip > 0)
        part->offset += skip * x->stride[d];
    part->shape[d] = size;
}

static void same_view(tn_tensor *part, const tn_tensor *x)
{
    part->storage = x->storage;
    part->dtype = x->dtype;
    part->ndim = x->ndim;
    part->offset = x->offset;
    for (int d = 0; d < x->ndim; d++) {
        part->shape[d] = x->shape[d];
        part->stride[d] = x->stride[d];
    }
}

/* Launches a kernel over all elements of out. The kernel reads x by index in
 * each dimension d whose bit in `by` is set. index[d] holds the indices of
 * dimension d. If index is NULL, the index is the coordinate in out minus the
 * padding before x. */
static tn_status take_places(tn_tensor *out, tn_tensor *x, uint32_t by,
                             tn_tensor *const *index, const tn_dims_list *pad,
                             const tn__kernel *kernel, const char *name)
{
    if (!kernel)
        return tn_error_code();
    tn__shape shape = {.ndim = out->ndim};
    for (int d = 0; d < out->ndim; d++)
        shape.dim[d] = out->shape[d];
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    tn__operand *from = tn__space_add_bare(&space, x);
    for (int d = 0, k = 0; d < x->ndim; d++) {
        if (!(by >> d & 1)) {
            from->stride[d] = x->stride[d];
            continue;
        }
        from->index_stride[k] = x->stride[d];
        from->index_extent[k++] = x->shape[d];
        tn__operand *at =
            tn__space_add_bare(&space, index ? index[d] : NULL);
        if (!index)
            at->offset = -before(pad, x->ndim, d);
        at->stride[d] = 1;
    }
    tn__space_add_out(&space, &shape, 0, false, false, out);
    return tn__kernel_launch(out->storage->device, kernel, &space, NULL, name);
}

/* Writes x with zeros around it into out, by one kernel that reads 0 where an
 * index is out of range. Bit d of `edge` is set if dimension d is padded.
 * `count` is the number of padded dimensions, at most three. */
static tn_status put_among_zeros(tn_tensor *out, tn_tensor *x,
                                 const tn_dims_list *pad, uint32_t edge,
                                 int count, const char *name)
{
    static tn__formula place[] = {
        TN__FORMULA("pad(x, i: offset) = x[i; 0]"),
        TN__FORMULA("pad(x, i: offset, j: offset) = x[i, j; 0]"),
        TN__FORMULA("pad(x, i: offset, j: offset, k: offset) = x[i, j, k; 0]")};
    const tn_dtype dtype[] = {x->dtype, 0, 0, 0};
    return take_places(out, x, edge, NULL, pad,
                       tn__formula_kernel(&place[count - 1], dtype), name);
}

/* Fills out with x, padded with a number. */
static tn_status put_within(tn_tensor *out, tn_tensor *x,
                            const tn_dims_list *pad, const tn_value *number,
                            const char *name)
{
    const tn_value fill[] = {tn__value_tensor(out), *number};
    uint32_t edge = 0;
    int edges = 0;
    tn_tensor from, to;
    same_view(&from, x);
    same_view(&to, out);
    bool whole = true, empty = false;
    for (int d = 0; d < x->ndim; d++) {
        int64_t low = before(pad, x->ndim, d), high = after(pad, x->ndim, d);
        int64_t size =
            x->shape[d] + (low < 0 ? low : 0) + (high < 0 ? high : 0);
        cut(&from, x, d, -low, size);
        cut(&to, out, d, low, size);
        whole = whole && low <= 0 && high <= 0;
        empty = empty || size <= 0;
        edges += low || high;
        edge |= (uint32_t)(low || high) << d;
    }
    /* A bool is excluded because a kernel converts it to 0 or 1, while a copy
     * keeps its 8 bits. */
    if (!whole && !empty && number->of.i == 0 && edges <= 3 &&
        x->dtype != TN_BOOL) /* 0, or 0.0 but not -0.0 */
        return put_among_zeros(out, x, pad, edge, edges, name);
    if (!whole && !tn__row(TN__OP_ID_FILL_, fill, 2))
        return tn_error_code();
    return empty ? TN_OK : tn__copy_into(&to, &from, name);
}

tn_status tn__run_constant_pad_nd(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CONSTANT_PAD_ND_INPUT);
    const tn_dims_list *pad =
        call->value[TN__ARG_CONSTANT_PAD_ND_PAD].of.dims;
    const char *name = tn__op_outer("constant_pad_nd");
    tn__shape shape;
    const tn_value *number = &call->value[TN__ARG_CONSTANT_PAD_ND_VALUE];
    tn_status status = check_pad(call, x, pad, &shape);
    if (status >= 0)
        status = tn__check_fits(name, "value", number, x->dtype);
    if (status < 0)
        return status;
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, shape.ndim,
                                    shape.dim, name);
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    return put_within(out, x, pad, number, name);
}

/* ---- padding by elements of the input ------------------------------------
 *
 * The result is the input with copies of its edges around it. Along each
 * dimension, a position of the result is before, within or after the input.
 * Each combination of these cases is a part of the result. A part is a copy of
 * a view of the input with steps of 1, -1 or 0. So each element is copied once,
 * and not once for each padded dimension.
 *
 * The last three dimensions are not split into parts but copied together, by
 * index tensors for the padded ones. Separate parts would write to the same
 * cache lines of the result several times. While a graph of device work is
 * recorded for replay, these dimensions are split too, because the host makes
 * the index tensors, and its work is not replayed. */

enum { CONSTANT, REFLECT, REPLICATE, CIRCULAR };
static const char *const mode_names[] = {"constant", "reflect", "replicate",
                                         "circular"};

/* Returns the mode with this name. The operator's line `bounds` has checked
 * that the name exists. */
static int find_mode(const char *text)
{
    int mode = CONSTANT;
    while (strcmp(mode_names[mode], text) != 0)
        mode++;
    return mode;
}

/* Returns the index in the input from which element i of the padded dimension
 * is copied. i counts from element 0 of the input, and is negative in the
 * padding before it. n is the size of the input. low and high are the padding.
 * With negative padding, circular wraps around the elements that are left, as
 * in PyTorch. */
static int64_t source(int mode, int64_t i, int64_t n, int64_t low,
                      int64_t high)
{
    if (mode == REFLECT)
        return i < 0 ? -i : i >= n ? 2 * n - 2 - i : i;
    if (mode == REPLICATE)
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    int64_t first = low < 0 ? -low : 0;
    int64_t left = n - first + (high < 0 ? high : 0);
    return first + ((i - first) % left + left) % left;
}

typedef struct edges edges;
typedef tn_status edges_part(const edges *e, tn_tensor *inner,
                             tn_tensor *outer, bool is_input);

/* A tensor `inner` and its padded version `outer`. The function `part` is
 * called for each part of them (see above). In the forward pass it copies from
 * inner to outer. In the backward pass it adds from outer to inner. */
struct edges {
    int mode;
    const tn_dims_list *pad;
    const tn_tensor *inner, *outer;
    edges_part *part;
    int whole; /* the first of the dimensions that are copied as a whole, or the
                  number of dimensions if there is none */
    /* index[d], for d >= whole, holds the indices in inner from which dimension
     * d is copied. NULL if dimension d is not padded. */
    tn_tensor *index[TN_MAX_NDIM];
};

/* A range of `count` consecutive positions of a padded dimension. These
 * positions are copied from elements of inner that start at `from` and are
 * `step` apart. */
typedef struct run {
    int64_t from, count, step;
    bool is_input; /* the positions are within the input, not padding */
} run;

static run run_at(const edges *e, int d, int64_t at)
{
    int64_t n = e->inner->shape[d], low = before(e->pad, e->inner->ndim, d),
            high = after(e->pad, e->inner->ndim, d), i = at - low,
            end = e->outer->shape[d] - low;
    bool is_input = i >= 0 && i < n;
    int64_t bound = i < 0 ? 0 : is_input ? n : end;
    end = end < bound ? end : bound;
    if (is_input)
        return (run){i, end - i, 1, true};
    run r = {source(e->mode, i, n, low, high), 1, 1, false};
    for (int64_t last = r.from; i + r.count < end; r.count++) {
        int64_t next = source(e->mode, i + r.count, n, low, high);
        int64_t step = next - last;
        if (r.count == 1 ? step < -1 || step > 1 : step != r.step)
            break;
        r.step = step;
        last = next;
    }
    return r;
}

/* Calls e->part for all parts. inner and outer are already narrowed to one part
 * in the dimensions before d. This function narrows them in dimension d and the
 * later ones. */
static tn_status each_part(const edges *e, tn_tensor *inner, tn_tensor *outer,
                           int d, bool is_input)
{
    if (d == e->whole) {
        for (; d < e->inner->ndim; d++) {
            inner->shape[d] = e->inner->shape[d];
            outer->shape[d] = e->outer->shape[d];
        }
        return e->part(e, inner, outer, is_input);
    }
    tn_status status = TN_OK;
    int64_t inner_at = inner->offset, outer_at = outer->offset;
    run r;
    for (int64_t at = 0; at < e->outer->shape[d] && status >= 0;
         at += r.count) {
        r = run_at(e, d, at);
        inner->shape[d] = outer->shape[d] = r.count;
        inner->stride[d] = e->inner->stride[d] * r.step;
        inner->offset = inner_at + r.from * e->inner->stride[d];
        outer->offset = outer_at + at * e->outer->stride[d];
        status = each_part(e, inner, outer, d + 1, is_input && r.is_input);
    }
    inner->offset = inner_at;
    outer->offset = outer_at;
    return status;
}

static tn_status run_edges(const edges *e)
{
    tn_tensor inner, outer;
    same_view(&inner, e->inner);
    same_view(&outer, e->outer);
    return each_part(e, &inner, &outer, 0, true);
}

static tn_status check_edges(const tn__call *call, const tn_tensor *x,
                             const tn_dims_list *pad, int mode,
                             tn__shape *shape)
{
    tn_status status = check_pad(call, x, pad, shape);
    for (int d = 0; d < x->ndim && status >= 0; d++) {
        int64_t n = x->shape[d], low = before(pad, x->ndim, d),
                high = after(pad, x->ndim, d);
        int64_t least =
            mode == REFLECT ? n - 1 : mode == CIRCULAR ? n : INT64_MAX;
        int64_t left = n + (low < 0 ? low : 0) + (high < 0 ? high : 0);
        bool lacks = n < 1 || (mode == CIRCULAR && left < 1);
        if ((low || high) &&
            (low > least || high > least || (lacks && shape->dim[d] > 0)))
            status = tn__fail(TN_ERR_SHAPE, "pad: {pad} (%lld, %lld) with "
                              "{mode} %s is too much for dimension %d of size "
                              "%lld: reflect allows less than the size, "
                              "circular at most the size", (long long)low,
                              (long long)high, mode_names[mode], d,
                              (long long)n);
    }
    return status;
}

/* Copies a part by index: out[..., i, j] = x[..., index[i], index[j]]. One to
 * three dimensions have an index tensor. */
static tn_status take_part(tn_tensor *x, const edges *e, tn_tensor *out)
{
    static tn__formula take[] = {
        TN__FORMULA("pad(x, i) = x[i]"),
        TN__FORMULA("pad(x, i, j) = x[i, j]"),
        TN__FORMULA("pad(x, i, j, k) = x[i, j, k]")};
    const tn_dtype dtype[] = {x->dtype, TN_I64, TN_I64, TN_I64};
    uint32_t by = 0;
    int count = 0;
    for (int d = 0; d < x->ndim; d++) {
        by |= (uint32_t)(e->index[d] != NULL) << d;
        count += e->index[d] != NULL;
    }
    return take_places(out, x, by, e->index, e->pad,
                       tn__formula_kernel(&take[count - 1], dtype), "pad");
}

static tn_status copy_part(const edges *e, tn_tensor *inner, tn_tensor *outer,
                           bool is_input)
{
    (void)is_input;
    return e->whole < inner->ndim ? take_part(inner, e, outer)
                                  : tn__copy_into(outer, inner, "pad");
}

/* Returns the indices from which the positions of dimension d are copied, as a
 * tensor that the open scope owns. */
static tn_tensor *sources(const edges *e, int d)
{
    int64_t n = e->inner->shape[d], size = e->outer->shape[d];
    int64_t low = before(e->pad, e->inner->ndim, d),
            high = after(e->pad, e->inner->ndim, d);
    int64_t *from = tn__alloc_many(size + 1, sizeof *from);
    if (!from)
        return NULL;
    for (int64_t i = 0; i < size; i++)
        from[i] = source(e->mode, i - low, n, low, high);
    tn_tensor *index = tn__number_table(from, TN_I64, TN_I64, tn_dims(size),
                                        e->inner->storage->device);
    tn__free(from);
    return index;
}

/* Chooses the padded dimensions among the last three, which are copied
 * together, and makes their index tensors. */
static tn_status find_sources(edges *e)
{
    int ndim = e->inner->ndim, least = ndim > 3 ? ndim - 3 : 0;
    for (int d = ndim - 1; d >= least; d--) {
        if (before(e->pad, ndim, d) == 0 && after(e->pad, ndim, d) == 0)
            continue;
        if (!(e->index[d] = sources(e, d)))
            return tn_error_code();
        e->whole = d;
    }
    return TN_OK;
}

tn_status tn__run_pad_edges(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_PAD_EDGES_INPUT);
    const tn_dims_list *pad = call->value[TN__ARG_PAD_EDGES_PAD].of.dims;
    int mode = find_mode(call->value[TN__ARG_PAD_EDGES_MODE].of.string);
    tn__shape shape;
    tn_status status = check_edges(call, x, pad, mode, &shape);
    if (status < 0)
        return status;
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, shape.ndim,
                                    shape.dim, call->op->name);
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    if (out->numel == 0)
        return TN_OK;
    edges e = {mode, pad, x, out, copy_part, x->ndim, {NULL}};
    tn_scope *scope = tn_scope_open();
    status = scope ? find_sources(&e) : TN_ERR_MEMORY;
    if (status >= 0)
        status = run_edges(&e);
    tn_scope_close(scope);
    return status;
}

static tn_status launch_sum(tn__formula *formula, tn_tensor *a, tn_tensor *b,
                            uint32_t rows, tn_tensor *out)
{
    tn_dtype dtype[2] = {a->dtype, a->dtype};
    const tn__kernel *kernel = tn__formula_kernel(formula, dtype);
    if (!kernel)
        return tn_error_code();
    tn__shape shape = {.ndim = a->ndim};
    for (int d = 0; d < a->ndim; d++)
        shape.dim[d] = a->shape[d];
    tn__space space;
    tn__space_begin(&space, &shape, rows, rows != 0);
    tn__space_add(&space, &shape, rows, a);
    if (b)
        tn__space_add(&space, &shape, rows, b);
    tn__space_add_out(&space, &shape, rows, rows != 0, true, out);
    return tn__kernel_launch(out->storage->device, kernel, &space, NULL,
                             "pad");
}

/* Adds a part of the gradient to the elements of inner from which the part was
 * copied. If several positions of a part were copied from one element, their
 * gradients are summed first. */
static tn_status add_part(const edges *e, tn_tensor *inner, tn_tensor *outer,
                          bool is_input)
{
    static tn__formula fold = TN__FORMULA("fold(x) = like(rsum(x), x)");
    static tn__formula add = TN__FORMULA("add(x, y) = x + y");
    (void)e;
    if (is_input)
        return TN_OK;
    uint32_t rows = 0;
    tn_tensor to, *sum = NULL;
    same_view(&to, inner);
    for (int d = 0; d < inner->ndim; d++)
        if (inner->shape[d] > 1 && inner->stride[d] == 0) {
            rows |= 1u << d;
            to.shape[d] = 1;
        }
    tn_status status = TN_OK;
    if (rows) {
        sum = tn__tensor_new(outer->storage->device, outer->dtype, to.ndim,
                             to.shape, "pad");
        status = sum ? launch_sum(&fold, outer, NULL, rows, sum)
                     : tn_error_code();
    }
    if (status >= 0)
        status = launch_sum(&add, &to, sum ? sum : outer, 0, &to);
    tn__unref(sum);
    return status;
}

tn_status tn__run_pad_edges_backward(tn__call *call)
{
    tn_tensor *g = tn__call_tensor(call, TN__ARG_PAD_EDGES_BACKWARD_INPUT);
    const tn_dims_list *pad =
        call->value[TN__ARG_PAD_EDGES_BACKWARD_PAD].of.dims;
    int mode =
        find_mode(call->value[TN__ARG_PAD_EDGES_BACKWARD_MODE].of.string);
    tn_dims_list back = *pad;
    for (int k = 0; k < back.count; k++)
        back.dim[k] = tn__size_mul(back.dim[k], -1);
    tn__shape size, shape;
    tn_status status = check_pad(call, g, &back, &size);
    if (status < 0)
        return status;
    tn_tensor *out = tn__tensor_new(g->storage->device, g->dtype, size.ndim,
                                    size.dim, call->op->name);
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    const tn_value zero = tn__value_number(tn_num(0));
    status = check_edges(call, out, pad, mode, &shape);
    if (status >= 0)
        status = put_within(out, g, &back, &zero, "pad");
    return status < 0
               ? status
               : run_edges(&(edges){mode, pad, out, g, add_part, out->ndim,
                                  {NULL}});
}

tn_status tn__run_pad(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_PAD_INPUT);
    int mode = find_mode(call->value[TN__ARG_PAD_MODE].of.string);
    if (mode == CONSTANT)
        return tn__give(call, tn_constant_pad_nd(
                                  x, *call->value[TN__ARG_PAD_PAD].of.dims,
                                  tn__call_float(call, TN__ARG_PAD_VALUE)));
    return tn__give(call, tn__row(TN__OP_ID_PAD_EDGES, call->value, 3));
}
