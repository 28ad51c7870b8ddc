/* index.c: elements by their number: indexed loads, scatters, and what joins
 * tensors. An index operand takes the coordinate's place: the operand that it
 * points into has stride 0 there, and the index its stride. */
#include <ops/engine/late.h>
#include <ops/engine/native.h>
#include <device/work.h>

static tn__shape shape_of(const tn_tensor *x)
{
    tn__shape shape = {.ndim = x->ndim};
    for (int d = 0; d < x->ndim; d++)
        shape.dim[d] = x->shape[d];
    return shape;
}

static tn_status check_index(const char *name, const char *argument,
                             const tn_tensor *index)
{
    if (!tn_dtype_is_floating(index->dtype) && index->dtype != TN_BOOL)
        return TN_OK;
    return tn__fail(TN_ERR_DTYPE, "%s: {%s} is %s; convert it to int64 with "
                    "tn_to_dtype", name, argument,
                    tn_dtype_name(index->dtype));
}

/* The kernel of a formula over an indexed tensor and its index. */
static const tn__kernel *indexed(tn__formula *formula, const tn_tensor *x,
                                 const tn_tensor *index)
{
    const tn_dtype dtype[] = {x->dtype, index->dtype};
    return tn__formula_kernel(formula, dtype);
}

static tn__formula take = TN__FORMULA("take(x, i) = x[i]");

/* out[p] = x[coordinates, index at p]: the operands' strides over out's
 * dimensions, index 0 of x along dimension `dim` of x; argument: the name of
 * index. */
static tn_status take_into(const char *name, const char *argument, tn_tensor *x,
                           const int64_t *x_stride, int dim, tn_tensor *index,
                           const int64_t *index_stride, tn_tensor *out)
{
    if (TN__UNLIKELY(out->numel == 0 && index->numel != 0))
        /* of slices without elements none is read */
        return tn__check_indices(tn__op_outer(name), argument, -1, index, 0,
                                 x->shape[dim]);
    const tn__kernel *kernel = indexed(&take, x, index);
    if (!kernel)
        return tn_error_code();
    tn__shape shape = shape_of(out);
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    tn__operand *from = tn__space_add_bare(&space, x);
    for (int d = 0; d < out->ndim; d++)
        from->stride[d] = x_stride[d];
    from->index_stride[0] = x->stride[dim];
    from->index_extent[0] = x->shape[dim];
    tn__operand *at = tn__space_add_bare(&space, index);
    for (int d = 0; d < out->ndim; d++)
        at->stride[d] = index_stride[d];
    tn__space_add_out(&space, &shape, 0, false, false, out);
    return tn__kernel_launch(out->storage->device, kernel, &space, NULL, name);
}

/* ---- gathers ------------------------------------------------------------------ */

/* gather and scatter: index lies within `other` in all dimensions but dim. */
static tn_status check_within(const char *name, const tn_tensor *index,
                              const char *other_name, const tn_tensor *other,
                              int dim)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    bool fits = index->ndim == other->ndim;
    for (int d = 0; d < index->ndim && fits; d++)
        fits = d == dim || index->shape[d] <= other->shape[d];
    if (fits || index->numel == 0)
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {index} %s reaches beyond {%s} %s in a "
                    "dimension other than %d", name,
                    tn__shape_text(a, index->ndim, index->shape), other_name,
                    tn__shape_text(b, other->ndim, other->shape), dim);
}

/* A 0-d tensor counts as 1-d where a dimension is named. */
static tn_tensor *at_least_1d(tn_tensor *x)
{
    return x && x->ndim == 0 ? tn_reshape(x, tn_dims(1)) : x;
}

tn_status tn__run_gather(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_GATHER_INPUT);
    tn_tensor *index = tn__call_tensor(call, TN__ARG_GATHER_INDEX);
    int dim = tn__call_dim(call, TN__ARG_GATHER_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    tn_status status = check_index("gather", "index", index);
    if (status < 0)
        return status;
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, index->ndim,
                                    index->shape, "gather");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    tn_scope *scope = tn_scope_open();
    x = scope ? at_least_1d(x) : NULL;
    index = at_least_1d(index);
    out = at_least_1d(out);
    status = x && index && out ? check_within("gather", index, "input", x, dim)
                               : tn_error_code();
    if (status >= 0) {
        int64_t stride[TN_MAX_NDIM];
        for (int d = 0; d < x->ndim; d++)
            stride[d] = d == dim ? 0 : x->stride[d];
        status = take_into("gather", "index", x, stride, dim, index,
                           index->stride, out);
    }
    tn_scope_close(scope);
    return status;
}

tn_status tn__run_index_select(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_INDEX_SELECT_INPUT);
    tn_tensor *index = tn__call_tensor(call, TN__ARG_INDEX_SELECT_INDEX);
    char text[TN__SHAPE_TEXT];
    int dim = tn__call_dim(call, TN__ARG_INDEX_SELECT_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    tn_status status = check_index("index_select", "index", index);
    if (status < 0)
        return status;
    if (index->ndim > 1)
        return tn__fail(TN_ERR_SHAPE, "index_select: {index} %s is no list",
                        tn__shape_text(text, index->ndim, index->shape));
    if (!x->ndim && index->numel != 1)
        return tn__fail(TN_ERR_SHAPE, "index_select: {index} %s into an "
                        "{input} without dimensions: one number is wanted",
                        tn__shape_text(text, index->ndim, index->shape));
    tn__shape shape = shape_of(x);
    if (x->ndim)
        shape.dim[dim] = index->numel;
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, shape.ndim,
                                    shape.dim, "index_select");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    tn_scope *scope = tn_scope_open();
    x = scope ? at_least_1d(x) : NULL;
    out = at_least_1d(out);
    status = x && out ? TN_OK : tn_error_code();
    if (status >= 0) {
        int64_t stride[TN_MAX_NDIM], index_stride[TN_MAX_NDIM];
        for (int d = 0; d < x->ndim; d++) {
            stride[d] = d == dim ? 0 : x->stride[d];
            index_stride[d] = d == dim && index->ndim ? index->stride[0] : 0;
        }
        status = take_into("index_select", "index", x, stride, dim, index,
                               index_stride, out);
    }
    tn_scope_close(scope);
    return status;
}

tn_status tn__run_embedding(tn__call *call)
{
    tn_tensor *index = tn__call_tensor(call, TN__ARG_EMBEDDING_INPUT);
    tn_tensor *w = tn__call_tensor(call, TN__ARG_EMBEDDING_WEIGHT);
    char text[TN__SHAPE_TEXT];
    tn_status status = check_index("embedding", "input", index);
    if (status < 0)
        return status;
    if (w->ndim != 2)
        return tn__fail(TN_ERR_SHAPE, "embedding: {weight} %s is no matrix",
                        tn__shape_text(text, w->ndim, w->shape));
    if (index->ndim == TN_MAX_NDIM)
        return tn__fail(TN_ERR_SHAPE, "embedding: %d dimensions; at most %d",
                        index->ndim + 1, TN_MAX_NDIM);
    if (tn__call_has(call, TN__ARG_EMBEDDING_PADDING_IDX)) {
        int64_t at = tn__call_int(call, TN__ARG_EMBEDDING_PADDING_IDX);
        if (at < -w->shape[0] || at >= w->shape[0])
            return tn__fail_outside(
                TN_ERR_INDEX,
                (tn__error_index){true, at, -w->shape[0], w->shape[0], 0, {0}},
                "embedding: {padding_idx} %lld is outside [%lld, %lld)",
                (long long)at, (long long)-w->shape[0], (long long)w->shape[0]);
    }
    tn__shape shape = shape_of(index);
    shape.dim[shape.ndim++] = w->shape[1];
    tn_tensor *out = tn__tensor_new(w->storage->device, w->dtype, shape.ndim,
                                    shape.dim, "embedding");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    int64_t stride[TN_MAX_NDIM] = {0}, index_stride[TN_MAX_NDIM] = {0};
    for (int d = 0; d < index->ndim; d++)
        index_stride[d] = index->stride[d];
    stride[index->ndim] = w->stride[1];
    return take_into("embedding", "input", w, stride, 0, index, index_stride,
                     out);
}

/* One number for each row of w: by what it is multiplied so that its norm is at
 * most max_norm, 1 where index does not name it. */
static tn_tensor *row_scales(tn_tensor *w, tn_tensor *index, double max_norm,
                             double p)
{
    tn_tensor *wide =
        tn_dtype_bytes(w->dtype) < 4 ? tn_to_dtype(w, TN_F32) : w;
    tn_tensor *norm = tn_pow_scalar(
        tn_sum(tn_pow_scalar(tn_abs(wide), p), .dim = 1), 1 / p);
    if (!norm)
        return NULL;
    tn_tensor *named = tn_zeros(tn_dims(w->shape[0]), .dtype = TN_BOOL,
                                .device = w->storage->device);
    named = tn_scatter_scalar(named, 0, tn_reshape(index, tn_dims(-1)), 1);
    named = tn_logical_and(named, tn_gt_scalar(norm, max_norm));
    tn_tensor *scale = tn_mul_scalar(
        tn_reciprocal(tn_add_scalar(norm, 1e-7)), max_norm);
    scale = tn_where_scalar(named, scale, 1);
    return tn_unsqueeze(scale, 1);
}

/* What is written is no step of the graph: as in PyTorch, gradients are taken
 * at the scaled rows. */
tn_status tn__run_embedding_renorm(tn__call *call)
{
    tn_tensor *index = tn__call_tensor(call, TN__ARG_EMBEDDING_RENORM_INPUT);
    tn_tensor *w = tn__call_tensor(call, TN__ARG_EMBEDDING_RENORM_WEIGHT);
    char text[TN__SHAPE_TEXT];
    if (w->ndim != 2 || !tn_dtype_is_floating(w->dtype))
        return tn__fail(TN_ERR_SHAPE, "embedding: {weight} %s of %s is no "
                        "matrix of a floating dtype",
                        tn__shape_text(text, w->ndim, w->shape),
                        tn_dtype_name(w->dtype));
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    tn_tensor *scale = row_scales(
        w, index, tn__call_float(call, TN__ARG_EMBEDDING_RENORM_MAX_NORM),
        tn__call_float(call, TN__ARG_EMBEDDING_RENORM_NORM_TYPE));
    tn_tensor *out = NULL;
    if (scale && tn_mul_(w, scale))
        out = tn__ref(tn__row(TN__OP_ID_EMBEDDING, call->value, 3));
    tn_scope_close(scope);
    return tn__give(call, out);
}

tn_status tn__run_pick(tn__call *call)
{
    static tn__formula pick = TN__FORMULA(
        "pick(x, i; ignore: i64) = let gone = i64(i) == ignore;"
        "where(gone, like(0, x), x[where(gone, 0, i64(i))])");
    tn_tensor *x = tn__call_tensor(call, TN__ARG_PICK_INPUT);
    tn_tensor *index = tn__call_tensor(call, TN__ARG_PICK_INDEX);
    const char *name = tn__op_outer("pick");
    int last = x->ndim - 1;
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    tn_status status = check_index(name, "index", index);
    if (status < 0)
        return status;
    if (last < 0 || !tn__shape_equal(last, x->shape, index->ndim, index->shape))
        return tn__fail(TN_ERR_SHAPE, "%s: {index:%s} %s names no class of "
                        "each row of {input} %s (classes last)", name,
                        strcmp(name, "pick") == 0 ? "index" : "target",
                        tn__shape_text(a, index->ndim, index->shape),
                        tn__shape_text(b, x->ndim, x->shape));
    const tn__kernel *kernel = indexed(&pick, x, index);
    if (!kernel)
        return tn_error_code();
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, last,
                                    index->shape, name);
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    tn__shape shape = shape_of(out);
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    tn__operand *from = tn__space_add_bare(&space, x);
    for (int d = 0; d < last; d++)
        from->stride[d] = x->stride[d];
    from->index_stride[0] = x->stride[last];
    from->index_extent[0] = x->shape[last];
    tn__space_add(&space, &shape, 0, index);
    tn__space_add_out(&space, &shape, 0, false, false, out);
    tn_number param = {.i = tn__call_int(call, TN__ARG_PICK_IGNORE_INDEX)};
    return tn__kernel_launch(out->storage->device, kernel, &space, &param,
                             name);
}

/* ---- scatters ----------------------------------------------------------------- */

static tn_strided strided(const tn_tensor *x)
{
    tn_strided view = {.buffer = tn__tensor_buffer(x),
                       .offset = tn__tensor_buffer_offset(x),
                       .dtype = x->dtype, .ndim = x->ndim};
    for (int d = 0; d < x->ndim; d++)
        view.stride[d] = x->stride[d];
    return view;
}

/* No index is right where there is nothing to write to: told of the first one,
 * since there may be more of them, of strides 0, than can be looked at. */
static tn_status fail_no_place(const char *name, const tn_tensor *index)
{
    tn_tensor *first = tn__tensor_view(index, index->dtype, 0, NULL, NULL,
                                       index->offset);
    tn_fault fault = {.size = sizeof fault,
                      .index = first ? tn_item_int(first) : 0};
    tn__unref(first);
    return tn__fail_index(name, "index", &fault, index->ndim,
                                    index->shape);
}

tn_status tn__scatter_into(const char *name, tn_tensor *dst, int dim,
                           tn_tensor *index, tn_tensor *src, double number,
                           uint32_t reduce)
{
    tn_status status = check_index(name, "index", index);
    if (status < 0)
        return status;
    if (index->dtype != TN_I64) /* what the primitive takes */
        index = tn_to_dtype(index, TN_I64);
    if (!index)
        return tn_error_code();
    dst = at_least_1d(dst);
    index = at_least_1d(index);
    if (!dst || !index)
        return tn_error_code();
    status = check_within(name, index, "input", dst, dim);
    if (status >= 0 && src) {
        status = tn__check_same_dtype(name, dst, "input", src, "src");
        src = at_least_1d(src);
        if (status >= 0)
            status = src ? check_within(name, index, "src", src, -1)
                         : tn_error_code();
    }
    if (status >= 0 && index->numel && dst->shape[dim] == 0)
        status = fail_no_place(name, index);
    tn_tensor *one = NULL;
    if (status >= 0 && !src) {
        one = tn__tensor_new(dst->storage->device, dst->dtype, 0, NULL, name);
        status = one ? tn__fill(one, number, name) : tn_error_code();
    }
    if (status >= 0 && index->numel) {
        tn_scatter_args args = {.size = sizeof args,
                                .ndim = index->ndim, .dim = (uint32_t)dim,
                                .reduce = reduce,
                                .dst_extent = dst->shape[dim],
                                .dst = strided(dst), .index = strided(index),
                                .src = strided(src ? src : one)};
        args.src.ndim = index->ndim; /* of one element: strides 0 */
        for (int d = 0; d < index->ndim; d++)
            args.extent[d] = index->shape[d];
        tn_fault fault = {.size = sizeof fault};
        tn__late late;
        tn_device *device = dst->storage->device;
        status = tn__device_work(
            device, TN__WORK_SCATTER, &args, name,
            device->synchronous ? NULL : tn__late_of_index(&late, index),
            &fault);
        if (status == TN_ERR_INDEX)
            status = tn__fail_index(name, "index", &fault, index->ndim,
                                    index->shape);
    }
    tn__unref(one);
    return status;
}

/* A contiguous copy of x to be scattered into, one reference. */
static tn_tensor *copy_of(tn_tensor *x, const char *name)
{
    tn_tensor *copy = tn__tensor_new(x->storage->device, x->dtype, x->ndim,
                                     x->shape, name);
    if (copy && tn__copy_for_update(copy, x, name) < 0) {
        tn__unref(copy);
        return NULL;
    }
    return copy;
}

/* scatter and scatter_add have the same arguments. */
static tn_status run_scatter(tn__call *call, uint32_t reduce)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SCATTER_INPUT);
    const tn_value *src = &call->value[TN__ARG_SCATTER_SRC];
    const char *name = call->op->name;
    int dim = tn__call_dim(call, TN__ARG_SCATTER_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    tn_tensor *out = copy_of(x, name);
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    tn_scope *scope = tn_scope_open();
    tn_status status =
        !scope ? TN_ERR_MEMORY
               : tn__scatter_into(
                     name, out, dim,
                     tn__call_tensor(call, TN__ARG_SCATTER_INDEX),
                     tn__call_tensor(call, TN__ARG_SCATTER_SRC),
                     src->kind == TN_VALUE_NUMBER
                         ? tn__call_float(call, TN__ARG_SCATTER_SRC)
                         : 0,
                     reduce);
    tn_scope_close(scope);
    return status;
}

tn_status tn__run_scatter(tn__call *call)
{
    if (!tn__call_has(call, TN__ARG_SCATTER_REDUCE))
        return run_scatter(call, TN_SCATTER_SET);
    const char *reduce = call->value[TN__ARG_SCATTER_REDUCE].of.string;
    if (strcmp(reduce, "add") == 0)
        return run_scatter(call, TN_SCATTER_ADD);
    if (strcmp(reduce, "multiply") == 0)
        return run_scatter(call, TN_SCATTER_MUL);
    return tn__fail(TN_ERR_ARGUMENT, "scatter: {reduce} \"%s\" is neither "
                    "\"add\" nor \"multiply\"", reduce);
}

tn_status tn__run_scatter_add(tn__call *call)
{
    return run_scatter(call, TN_SCATTER_ADD);
}

tn_status tn__run_scatter_fold(tn__call *call)
{
    static const struct {
        const char *name;
        uint32_t reduce;
    } folds[] = {{"prod", TN_SCATTER_MUL},
                 {"amin", TN_SCATTER_MIN},
                 {"amax", TN_SCATTER_MAX}};
    const char *reduce = call->value[TN__ARG_SCATTER_FOLD_REDUCE].of.string;
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
        if (strcmp(reduce, folds[i].name) == 0)
            return run_scatter(call, folds[i].reduce);
    return tn__fail(TN_ERR_ARGUMENT, "scatter_fold: {reduce} \"%s\"", reduce);
}

/* ---- parts of matrices ---------------------------------------------------------- */

static tn_status run_triangle(tn__call *call, tn__formula *formula)
{
    tn_tensor *x = tn__call_tensor(call, 0);
    const char *name = call->op->name;
    if (x->ndim < 2)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has %d dimensions, a matrix "
                        "has 2", name, x->ndim);
    const tn_dtype dtype[] = {x->dtype, 0, 0};
    const tn__kernel *kernel = tn__formula_kernel(formula, dtype);
    tn_tensor *out = kernel ? tn__tensor_new(x->storage->device, x->dtype,
                                             x->ndim, x->shape, name)
                            : NULL;
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    tn__shape shape = shape_of(x);
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
                        "dimensions; fewer are wanted", x->ndim);
    tn__shape shape = shape_of(x);
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

/* ---- joining -------------------------------------------------------------------- */

/* The part of dst along dim that starts at `start`: only the view is filled. */
static void set_part(tn_tensor *part, const tn_tensor *dst, int dim,
                     int64_t start, int64_t step, int64_t size)
{
    part->storage = dst->storage;
    part->dtype = dst->dtype;
    part->ndim = dst->ndim;
    part->offset = dst->offset + start * dst->stride[dim];
    for (int d = 0; d < dst->ndim; d++) {
        part->shape[d] = d == dim ? size : dst->shape[d];
        part->stride[d] = d == dim && size > 1 ? dst->stride[d] * step
                                               : dst->stride[d];
    }
}

/* A list of zero elements joins with anything, as in PyTorch. */
static bool is_empty_list(const tn_tensor *x)
{
    return x->ndim == 1 && x->shape[0] == 0;
}

static tn_status fail_cat(tn_tensor *const *x, int at, int k, int dim)
{
    char first[TN__SHAPE_TEXT], other[TN__SHAPE_TEXT];
    const tn_tensor *a = x[at], *b = x[k];
    return tn__fail(TN_ERR_SHAPE, "cat: {tensors[%d]} %s differs from "
                    "{tensors[%d]} %s outside {dim} %d", k,
                    tn__shape_text(other, b->ndim, b->shape), at,
                    tn__shape_text(first, a->ndim, a->shape), dim);
}

tn_status tn__run_cat(tn__call *call)
{
    tn_tensor *const *x = call->value[TN__ARG_CAT_TENSORS].of.tensors;
    int count = call->value[TN__ARG_CAT_TENSORS].count;
    if (count < 1)
        return tn__fail(TN_ERR_ARGUMENT, "cat: no {tensors}");
    int first = 0; /* the first that is no void list */
    tn_dtype dtype = x[0]->dtype;
    for (int k = 0; k < count; k++) {
        if (is_empty_list(x[first]))
            first = k;
        if (x[k]->ndim == 0)
            return tn__fail(TN_ERR_SHAPE, "cat: {tensors[%d]} has no "
                            "dimension; use tn_stack", k);
        tn_dtype both = tn_dtype_promote(dtype, x[k]->dtype);
        if (!both)
            return tn__fail(TN_ERR_DTYPE, "cat: {tensors[%d]} is %s, which has "
                            "no common dtype with %s of those before it; "
                            "convert it with tn_to_dtype", k,
                            tn_dtype_name(x[k]->dtype), tn_dtype_name(dtype));
        dtype = both;
    }
    const tn_tensor *like = x[first];
    int dim = tn__call_dim(call, TN__ARG_CAT_DIM, like->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    tn__shape shape = shape_of(like);
    shape.dim[dim] = 0;
    for (int k = 0; k < count; k++) {
        if (is_empty_list(x[k]) && like->ndim != 1)
            continue;
        if (x[k]->ndim != like->ndim)
            return fail_cat(x, first, k, dim);
        for (int d = 0; d < like->ndim; d++)
            if (d != dim && x[k]->shape[d] != like->shape[d])
                return fail_cat(x, first, k, dim);
        shape.dim[dim] = tn__size_add(shape.dim[dim], x[k]->shape[dim]);
    }
    tn_tensor *out = tn__tensor_new(x[0]->storage->device, dtype, shape.ndim,
                                    shape.dim, "cat");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    int64_t at = 0;
    for (int k = 0; k < count; k++) {
        if (is_empty_list(x[k]))
            continue;
        tn_tensor part;
        set_part(&part, out, dim, at, 1, x[k]->shape[dim]);
        tn_status status = tn__copy_into(&part, x[k], "cat");
        if (status < 0)
            return status;
        at += x[k]->shape[dim];
    }
    return TN_OK;
}

/* Is x what start and step choose of dim of a tensor of this size? */
static bool is_slice(const tn_tensor *x, const tn_dims_list *size, int dim,
                     int64_t start, int64_t step)
{
    bool is = x->ndim == size->count && start >= 0 && step >= 1;
    for (int d = 0; is && d < x->ndim; d++)
        is = d == dim || x->shape[d] == size->dim[d];
    if (!is || x->shape[dim] == 0)
        return is && start <= size->dim[dim];
    return start < size->dim[dim] &&
           x->shape[dim] - 1 <= (size->dim[dim] - 1 - start) / step;
}

tn_status tn__run_slice_backward(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SLICE_BACKWARD_INPUT);
    const tn_dims_list *size =
        call->value[TN__ARG_SLICE_BACKWARD_SIZE].of.dims;
    int64_t start = tn__call_int(call, TN__ARG_SLICE_BACKWARD_START);
    int64_t step = tn__call_int(call, TN__ARG_SLICE_BACKWARD_STEP);
    int dim = tn__call_dim(call, TN__ARG_SLICE_BACKWARD_DIM, size->count);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    if (!is_slice(x, size, dim, start, step)) {
        char part[TN__SHAPE_TEXT], whole[TN__SHAPE_TEXT];
        return tn__fail(TN_ERR_SHAPE, "slice_backward: {input} %s is no slice, "
                        "from %lld by %lld, of {dim} %d of %s",
                        tn__shape_text(part, x->ndim, x->shape),
                        (long long)start, (long long)step, dim,
                        tn__shape_text(whole, size->count, size->dim));
    }
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, size->count,
                                    size->dim, "slice_backward");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    tn_status status = tn__fill(out, 0, "slice_backward");
    if (status < 0)
        return status;
    tn_tensor part;
    set_part(&part, out, dim, start, step, x->shape[dim]);
    return tn__copy_into(&part, x, "slice_backward");
}
