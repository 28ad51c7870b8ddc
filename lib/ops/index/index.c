/* index.c: operators that read elements by index (PyTorch's gather, take,
 * index_select, embedding and others). They run one kernel, x[i]. In its
 * iteration space the operand x has stride 0 along the indexed dimension, and
 * the index says which element along this dimension is read. */
#include <ops/index/index.h>

tn_status tn__index_check_dtype(const char *name, const char *argument,
                                const tn_tensor *index)
{
    if (!tn_dtype_is_floating(index->dtype) && index->dtype != TN_BOOL)
        return TN_OK;
    return tn__fail(TN_ERR_DTYPE, "%s: {%s} is %s; convert it to int64 with "
                    "tn_to_dtype", name, argument,
                    tn_dtype_name(index->dtype));
}

/* Returns the kernel of a formula whose inputs are an indexed tensor x and its
 * index. */
static const tn__kernel *indexed(tn__formula *formula, const tn_tensor *x,
                                 const tn_tensor *index)
{
    const tn_dtype dtype[] = {x->dtype, index->dtype};
    return tn__formula_kernel(formula, dtype);
}

/* A gather: out[p] is the element of x whose coordinate along dim is index[p].
 * Its other coordinates follow from p by x_stride. */
typedef struct gather {
    const char *name, *argument; /* names of the operator and of its index
                                    argument */
    tn_tensor *x, *index;
    int dim;                     /* the dimension of x that is indexed */
    /* The strides of x and of index along the dimensions of out. x_stride is 0
     * along the indexed dimension. */
    const int64_t *x_stride, *index_stride;
} gather;

static tn_status gather_into(const gather *g, tn_tensor *out)
{
    static tn__formula take = TN__FORMULA("take(x, i) = x[i]");
    const tn_tensor *x = g->x;
    if (TN__UNLIKELY(out->numel == 0 && g->index->numel != 0))
        /* If x has no elements, the kernel reads nothing, so the indices are
         * checked here. */
        return tn__check_indices(tn__op_outer(g->name), g->argument, -1,
                                 g->index, 0, x->shape[g->dim]);
    const tn__kernel *kernel = indexed(&take, x, g->index);
    if (!kernel)
        return tn_error_code();
    tn__shape shape = tn__shape_of(out);
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    tn__operand *from = tn__space_add_bare(&space, g->x);
    for (int d = 0; d < out->ndim; d++)
        from->stride[d] = g->x_stride[d];
    from->index_stride[0] = x->stride[g->dim];
    from->index_extent[0] = x->shape[g->dim];
    tn__operand *at = tn__space_add_bare(&space, g->index);
    for (int d = 0; d < out->ndim; d++)
        at->stride[d] = g->index_stride[d];
    tn__space_add_out(&space, &shape, 0, false, false, out);
    return tn__kernel_launch(out->storage->device, kernel, &space, NULL,
                             g->name);
}

/* ---- gather, index_select and embedding ---------------------------------- */

tn_status tn__index_check_shape(const char *name, const tn_tensor *index,
                                const char *other_name, const tn_tensor *other,
                                int dim)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    bool fits = index->ndim == other->ndim;
    for (int d = 0; d < index->ndim && fits; d++)
        fits = d == dim || index->shape[d] <= other->shape[d];
    if (fits || index->numel == 0)
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {index} has shape %s; expected as many "
                    "dimensions as {%s} %s, and no larger size except in "
                    "dimension %d", name,
                    tn__shape_text(a, index->ndim, index->shape), other_name,
                    tn__shape_text(b, other->ndim, other->shape), dim);
}

tn_tensor *tn__at_least_1d(tn_tensor *x)
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
    tn_status status = tn__index_check_dtype("gather", "index", index);
    if (status < 0)
        return status;
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, index->ndim,
                                    index->shape, "gather");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    tn_scope *scope = tn_scope_open();
    x = scope ? tn__at_least_1d(x) : NULL;
    index = tn__at_least_1d(index);
    out = tn__at_least_1d(out);
    status = x && index && out
                 ? tn__index_check_shape("gather", index, "input", x, dim)
                 : tn_error_code();
    if (status >= 0) {
        int64_t stride[TN_MAX_NDIM];
        for (int d = 0; d < x->ndim; d++)
            stride[d] = d == dim ? 0 : x->stride[d];
        const gather g = {.name = "gather", .argument = "index", .x = x,
                          .index = index, .dim = dim, .x_stride = stride,
                          .index_stride = index->stride};
        status = gather_into(&g, out);
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
    tn_status status = tn__index_check_dtype("index_select", "index", index);
    if (status < 0)
        return status;
    if (index->ndim > 1)
        return tn__fail(TN_ERR_SHAPE, "index_select: {index} has shape %s; "
                        "expected a 1-d tensor",
                        tn__shape_text(text, index->ndim, index->shape));
    if (!x->ndim && index->numel != 1)
        return tn__fail(TN_ERR_SHAPE, "index_select: {index} has shape %s; "
                        "expected one element, because {input} has no "
                        "dimensions",
                        tn__shape_text(text, index->ndim, index->shape));
    tn__shape shape = tn__shape_of(x);
    if (x->ndim)
        shape.dim[dim] = index->numel;
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, shape.ndim,
                                    shape.dim, "index_select");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    tn_scope *scope = tn_scope_open();
    x = scope ? tn__at_least_1d(x) : NULL;
    out = tn__at_least_1d(out);
    status = x && out ? TN_OK : tn_error_code();
    if (status >= 0) {
        int64_t stride[TN_MAX_NDIM], index_stride[TN_MAX_NDIM];
        for (int d = 0; d < x->ndim; d++) {
            stride[d] = d == dim ? 0 : x->stride[d];
            index_stride[d] = d == dim && index->ndim ? index->stride[0] : 0;
        }
        const gather g = {.name = "index_select", .argument = "index", .x = x,
                          .index = index, .dim = dim, .x_stride = stride,
                          .index_stride = index_stride};
        status = gather_into(&g, out);
    }
    tn_scope_close(scope);
    return status;
}

tn_status tn__run_embedding(tn__call *call)
{
    tn_tensor *index = tn__call_tensor(call, TN__ARG_EMBEDDING_INPUT);
    tn_tensor *w = tn__call_tensor(call, TN__ARG_EMBEDDING_WEIGHT);
    char text[TN__SHAPE_TEXT];
    tn_status status = tn__index_check_dtype("embedding", "input", index);
    if (status < 0)
        return status;
    if (w->ndim != 2)
        return tn__fail(TN_ERR_SHAPE, "embedding: {weight} has shape %s; "
                        "expected (num_embeddings, embedding_dim)",
                        tn__shape_text(text, w->ndim, w->shape));
    if (index->ndim == TN_MAX_NDIM)
        return tn__fail(TN_ERR_SHAPE, "embedding: the result would have %d "
                        "dimensions; expected at most %d", index->ndim + 1,
                        TN_MAX_NDIM);
    if (tn__call_has(call, TN__ARG_EMBEDDING_PADDING_IDX)) {
        int64_t at = tn__call_int(call, TN__ARG_EMBEDDING_PADDING_IDX);
        if (at < -w->shape[0] || at >= w->shape[0])
            return tn__fail_outside(
                TN_ERR_INDEX,
                (tn__error_index){true, at, -w->shape[0], w->shape[0], 0, {0}},
                "embedding: {padding_idx} %lld is outside [%lld, %lld)",
                (long long)at, (long long)-w->shape[0], (long long)w->shape[0]);
    }
    tn__shape shape = tn__shape_of(index);
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
    const gather g = {.name = "embedding", .argument = "input", .x = w,
                      .index = index, .x_stride = stride,
                      .index_stride = index_stride};
    return gather_into(&g, out);
}

/* Returns a factor for each row of w that reduces the p-norm of the row to at
 * most max_norm. The factor is 1 for rows whose index is not in `index`. */
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

/* Scales the rows of weight that are looked up, in place, to a norm of at most
 * max_norm. Autograd does not record the scaling. As in PyTorch, gradients are
 * computed at the scaled rows. */
tn_status tn__run_embedding_renorm(tn__call *call)
{
    tn_tensor *index = tn__call_tensor(call, TN__ARG_EMBEDDING_RENORM_INPUT);
    tn_tensor *w = tn__call_tensor(call, TN__ARG_EMBEDDING_RENORM_WEIGHT);
    char text[TN__SHAPE_TEXT];
    if (w->ndim != 2 || !tn_dtype_is_floating(w->dtype))
        return tn__fail(TN_ERR_SHAPE, "embedding: {weight} has shape %s and "
                        "dtype %s; expected (num_embeddings, embedding_dim) "
                        "and a floating-point dtype",
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
    tn_status status = tn__index_check_dtype(name, "index", index);
    if (status < 0)
        return status;
    if (last < 0 || !tn__shape_equal(last, x->shape, index->ndim, index->shape))
        return tn__fail(TN_ERR_SHAPE, "%s: {index:%s} has shape %s; expected "
                        "the shape of {input} %s without its last dimension",
                        name, strcmp(name, "pick") == 0 ? "index" : "target",
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
    tn__shape shape = tn__shape_of(out);
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
