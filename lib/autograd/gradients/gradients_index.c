/* gradients_index.c: gradients of gather, scatter, embedding, sorting and
 * prefix scans. The gradient of a gather is a scatter and vice versa. */
#include <autograd/autograd.h>
#include <base/error.h>
#include <base/memory.h>
#include <ops/table.h>
#include <tenon/ops.h>

/* Makes zeros of the shape of input `port`, to which elements of g can be
 * added. */
static tn_tensor *zeros_of(const tn__node *node, int port, const tn_tensor *g)
{
    return g ? tn__zeros_expanded(tn__node_shape(node, port), g->dtype,
                                  tn__node_device(node, port))
             : NULL;
}

/* Sets *out to x. Returns the pending error if x is NULL. */
static tn_status set_result(tn_tensor **out, tn_tensor *x)
{
    *out = x;
    return x ? TN_OK : tn_error_code();
}

/* Returns the gradient of a scatter's source. `part`, which has the shape of
 * index, is the gradient of the elements that were scattered. It is padded with
 * zeros to the shape of the source, which may be larger than index. */
static tn_tensor *pad_to_source(const tn__node *node, tn_tensor *part)
{
    tn_dims_list shape = tn__node_shape(node, 2), pad = {2 * shape.count, {0}};
    bool reached = true;
    for (int d = 0; d < shape.count && part; d++) {
        int64_t beyond = shape.dim[d] - part->shape[d];
        pad.dim[2 * (shape.count - d) - 1] = beyond;
        reached = reached && !beyond;
    }
    return reached ? part : tn_constant_pad_nd(part, pad, 0);
}

/* Returns the elements of a scatter's source that are scattered: those within
 * the shape of index. */
static tn_tensor *narrow_to_index(tn_tensor *source, const tn_tensor *index)
{
    for (int d = 0; source && d < source->ndim; d++)
        if (source->shape[d] != index->shape[d])
            source = tn_narrow(source, d, 0, index->shape[d]);
    return source;
}

/* gather and the scatter functions have the arguments (input, dim, index,
 * source). DIM is an argument index. INDEX and SOURCE are indices of inputs of
 * the node, which count only tensor arguments. */
enum { DIM = 1, INDEX = 1, SOURCE = 2 };

TN__GRADIENT(tn__grad_gather)
{
    tn_tensor *wide = tn__widen_half(g[0]);
    return set_result(out, tn_scatter_add(zeros_of(node, 0, wide),
                                          tn__node_value(node, DIM)->of.i,
                                          tn__node_input(node, INDEX), wide));
}

TN__GRADIENT(tn__grad_scatter)
{
    int64_t dim = tn__node_value(node, DIM)->of.i;
    tn_tensor *index = tn__node_input(node, INDEX);
    const tn_value *reduce = tn__node_value(node, 4);
    tn_status status = TN_OK;
    bool adds = reduce->kind != TN_VALUE_NONE;
    if (adds && reduce->of.string[0] != 'a')
        return tn__fail(TN_ERR_UNSUPPORTED, "scatter: no gradient with "
                        "{reduce} \"%s\": gather, multiply and scatter the "
                        "products", reduce->of.string);
    if (tn__node_wants(node, 0) && adds)
        status = set_result(&out[0], g[0]);
    else if (tn__node_wants(node, 0))
        status = set_result(&out[0], tn_scatter_scalar(g[0], dim, index, 0));
    if (status >= 0 && tn__node_wants(node, SOURCE))
        status = set_result(&out[SOURCE],
                            pad_to_source(node, tn_gather(g[0], dim, index)));
    return status;
}

TN__GRADIENT(tn__grad_scatter_add)
{
    out[0] = g[0];
    if (!tn__node_wants(node, SOURCE))
        return TN_OK;
    tn_tensor *part = tn_gather(g[0], tn__node_value(node, DIM)->of.i,
                                tn__node_input(node, INDEX));
    return set_result(&out[SOURCE], pad_to_source(node, part));
}

TN__GRADIENT(tn__grad_index_select)
{
    int64_t dim = tn__node_value(node, DIM)->of.i;
    tn_tensor *index = tn__node_input(node, INDEX);
    tn_tensor *wide = tn__widen_half(g[0]);
    return set_result(out,
                      tn_index_add(zeros_of(node, 0, wide), dim, index, wide));
}

/* Divides row i of part (N, D) by the number of times that index[i] occurs in
 * index (N). */
static tn_tensor *divide_by_counts(tn_tensor *part, tn_tensor *index,
                                   int64_t rows)
{
    tn_tensor *one = tn_ones_like(index);
    tn_tensor *zeros = tn_zeros(tn_dims(rows), .dtype = TN_I64,
                                .device = tn_tensor_device(part));
    tn_tensor *count = tn_gather(
        tn_scatter_add(zeros, 0, index, tn_to_dtype(one, TN_I64)), 0, index);
    return tn_div(part, tn_to_dtype(tn_unsqueeze(count, 1), part->dtype));
}

/* Computes the gradient of an embedding's weight. Gradients for the same row of
 * the weight are added in the order of the indices. `scale` is the index of the
 * argument scale_grad_by_freq. */
static tn_status embedding(const tn__node *node, int scale,
                           tn_tensor *const *g, tn_tensor **out)
{
    tn_tensor *index = tn__node_input(node, 0);
    if (!index)
        return tn_error_code();
    int64_t rows = tn__node_size(node, 1, 0), width = tn__node_size(node, 1, 1);
    index = tn_reshape(index, tn_dims(index->numel));
    tn_tensor *part = tn_reshape(tn__widen_half(g[0]),
                                 tn_dims(index ? index->numel : 0, width));
    const tn_value *padding = tn__node_value(node, 2);
    if (padding->kind != TN_VALUE_NONE) {
        int64_t row = padding->of.i < 0 ? padding->of.i + rows : padding->of.i;
        tn_tensor *is_padding = tn_unsqueeze(tn_eq_scalar(index, row), 1);
        part = tn_masked_fill_scalar(part, is_padding, 0);
    }
    if (part && tn__node_value(node, scale)->of.i)
        part = divide_by_counts(part, index, rows);
    return set_result(&out[1],
                      tn_index_add(zeros_of(node, 1, part), 0, index, part));
}

TN__GRADIENT(tn__grad_embedding)
{
    return embedding(node, TN__ARG_EMBEDDING_SCALE_GRAD_BY_FREQ, g, out);
}

TN__GRADIENT(tn__grad_embedding_renorm)
{
    return embedding(node, TN__ARG_EMBEDDING_RENORM_SCALE_GRAD_BY_FREQ, g,
                     out);
}

/* pick selects one element of each row along the last dimension. Its gradient
 * adds g to these elements. A row whose index is the ignored one gets 0. */
TN__GRADIENT(tn__grad_pick)
{
    tn_tensor *index = tn__node_input(node, 1);
    tn_tensor *ignored = tn_eq_scalar(index, tn__node_value(node, 2)->of.i);
    index = tn_masked_fill_scalar(index, ignored, 0);
    tn_tensor *part = tn_masked_fill_scalar(g[0], ignored, 0);
    return set_result(out, tn_scatter_add(zeros_of(node, 0, part), -1,
                                          tn_unsqueeze(index, -1),
                                          tn_unsqueeze(part, -1)));
}

/* ---- sorting and prefix scans ------------------------------------------- */

/* Computes the gradient of an operator that returns elements of its input and,
 * as output 1, their indices along dim: adds g to the elements at these
 * indices. */
static tn_status scatter_back(const tn__node *node, tn_tensor *const *g,
                              tn_tensor **out)
{
    tn_tensor *wide = tn__widen_half(g[0]);
    return set_result(out, tn_scatter_add(zeros_of(node, 0, wide),
                                          tn__node_value(node, DIM)->of.i,
                                          tn__node_output(node, 1), wide));
}

TN__GRADIENT(tn__grad_sort_first)
{
    return scatter_back(node, g, out);
}

TN__GRADIENT(tn__grad_cummax)
{
    return scatter_back(node, g, out);
}

TN__GRADIENT(tn__grad_cummin)
{
    return scatter_back(node, g, out);
}

TN__GRADIENT(tn__grad_window_max)
{
    return scatter_back(node, g, out);
}

static tn_tensor *reverse_cumsum(tn_tensor *x, int64_t dim)
{
    return tn_flip(tn_cumsum(tn_flip(x, tn_dims(dim)), dim), tn_dims(dim));
}

TN__GRADIENT(tn__grad_scan_sum)
{
    return set_result(out,
                      reverse_cumsum(g[0], tn__node_value(node, DIM)->of.i));
}

/* Shifts x by `by` elements towards the front along dim. Sets the last `by`
 * elements to value. */
static tn_tensor *shift(tn_tensor *x, int64_t dim, int64_t by, double value)
{
    tn_dims_list pad = {2 * x->ndim, {0}};
    pad.dim[2 * (x->ndim - 1 - dim) + 1] = by;
    x = tn_narrow(x, dim, by, x->shape[dim] - by);
    return x ? tn_constant_pad_nd(x, pad, value) : NULL;
}

/* Computes the gradient of cumprod without a division, so that it can be
 * differentiated where elements are 0. The gradient of x[k] is
 * x[0] ... x[k - 1] * s[k], where s[k] = g[k] + x[k + 1] * s[k + 1]. This
 * recurrence is solved as a parallel scan in log2(size) steps, as in Hillis
 * and Steele, Comm. ACM 29 (1986). */
static tn_tensor *scan_prod_by_operators(tn_tensor *x, tn_tensor *g,
                                         int64_t dim)
{
    int64_t size = x->ndim ? x->shape[dim] : 1;
    if (size < 2)
        return g;
    tn_dims_list front = {2 * x->ndim, {0}};
    front.dim[2 * (x->ndim - 1 - dim)] = 1;
    tn_tensor *before = tn_narrow(x, dim, 0, size - 1);
    before = tn_cumprod(before ? tn_constant_pad_nd(before, front, 1) : NULL,
                        dim);
    tn_tensor *factor = shift(x, dim, 1, 0), *sum = g;
    for (int64_t by = 1; by < size && factor && sum; by *= 2) {
        sum = tn_add(sum, tn_mul(factor, shift(sum, dim, by, 0)));
        factor = tn_mul(factor, shift(factor, dim, by, 0));
    }
    return tn_mul(before, sum);
}

/* The gradient of cumprod, where y = cumprod(x). Before the first 0 along dim,
 * the gradient of x[k] is the sum of g[j] * y[j] over j >= k, divided by x[k].
 * The gradient of the first 0 itself is computed without a division, from
 * products with 1 in its place. After the first 0 all products and all
 * gradients are 0. */
TN__GRADIENT(tn__grad_scan_prod)
{
    int64_t dim = tn__node_dim(node, DIM, 0);
    tn_tensor *x = tn__node_input(node, 0);
    if (!x)
        return tn_error_code();
    if (tn_grad_mode())
        return set_result(out, scan_prod_by_operators(x, g[0], dim));
    tn_tensor *zero = tn_eq_scalar(x, 0);
    tn_tensor *seen = tn_cumsum(zero, dim);
    tn_tensor *first = tn_logical_and(zero, tn_eq_scalar(seen, 1));
    tn_tensor *safe = tn_masked_fill_scalar(x, first, 1);
    tn_tensor *part = tn_mul(g[0], tn_cumprod(x, dim));
    tn_tensor *plain = tn_div(reverse_cumsum(part, dim), x);
    part = tn_mul(g[0], tn_cumprod(safe, dim));
    part = tn_masked_fill_scalar(part, tn_eq_scalar(seen, 0), 0);
    tn_tensor *at_zero = reverse_cumsum(part, dim);
    plain = tn_masked_fill_scalar(plain, tn_gt_scalar(seen, 0), 0);
    return set_result(out, tn_where(first, at_zero, plain));
}

/* ---- parts of matrices, joined tensors ---------------------------------- */

TN__GRADIENT(tn__grad_tril)
{
    int64_t diagonal = tn__node_value(node, 1)->of.i;
    return set_result(out, tn_tril(g[0], .diagonal = diagonal));
}

TN__GRADIENT(tn__grad_triu)
{
    int64_t diagonal = tn__node_value(node, 1)->of.i;
    return set_result(out, tn_triu(g[0], .diagonal = diagonal));
}

TN__GRADIENT(tn__grad_cat)
{
    int ndim = g[0]->ndim;
    int dim = tn__shape_dim(ndim, tn__node_value(node, 1)->of.i);
    int64_t at = 0;
    for (int p = 0; p < tn__node_port_count(node); p++) {
        if (tn__node_ndim(node, p) != ndim)
            continue; /* an empty 1-d tensor, which cat accepts with tensors of
                         any shape, as PyTorch does */
        int64_t size = tn__node_size(node, p, dim);
        if (tn__node_wants(node, p) &&
            set_result(&out[p], tn_narrow(g[0], dim, at, size)) < 0)
            return tn_error_code();
        at += size;
    }
    return TN_OK;
}

/* ---- scatter reductions ------------------------------------------------- */

/* Computes the gradient of scatter_reduce with "amax" or "amin". If several
 * elements are equal to the result, each of them gets an equal share of the
 * result's gradient. */
static tn_status share_among_ties(const tn__node *node, tn_tensor *g,
                                  tn_tensor **out)
{
    int64_t dim = tn__node_value(node, DIM)->of.i;
    tn_tensor *input = tn__node_input(node, 0);
    tn_tensor *index = tn__node_input(node, INDEX);
    tn_tensor *source = tn__node_input(node, SOURCE);
    tn_tensor *result = tn__node_output(node, 0);
    if (!input || !index || !source || !result)
        return tn_error_code();
    source = narrow_to_index(source, index);
    tn_dtype dtype = g->dtype;
    tn_tensor *from_input = tn_to_dtype(tn_eq(input, result), dtype);
    tn_tensor *from_source = tn_to_dtype(
        tn_eq(source, tn_gather(result, dim, index)), dtype);
    tn_tensor *equals = tn_scatter_add(from_input, dim, index, from_source);
    tn_tensor *share = tn_div(g, equals);
    tn_status status = TN_OK;
    if (tn__node_wants(node, 0))
        status = set_result(&out[0], tn_mul(from_input, share));
    if (status >= 0 && tn__node_wants(node, SOURCE))
        status = set_result(
            &out[SOURCE],
            pad_to_source(node,
                          tn_mul(from_source, tn_gather(share, dim, index))));
    return status;
}

static tn_tensor *scatter_prod(tn_tensor *x, int64_t dim, tn_tensor *index,
                               tn_tensor *source)
{
    const tn_value value[] = {tn__value_tensor(x), tn__value_int(dim),
                              tn__value_tensor(index),
                              tn__value_tensor(source),
                              tn__value_string("prod")};
    return x && source
               ? tn__op_run1(&tn__op_table[TN__OP_ID_SCATTER_FOLD], value, 5)
               : NULL;
}

/* Computes the gradient of scatter_reduce with "prod". The gradient of a factor
 * is the product of the other factors, computed by dividing the whole product
 * by the factor. Factors that are 0 are replaced by 1 before the division. */
static tn_status scatter_prod_gradient(const tn__node *node, tn_tensor *g,
                                       tn_tensor **out)
{
    int64_t dim = tn__node_value(node, DIM)->of.i;
    tn_tensor *input = tn__node_input(node, 0);
    tn_tensor *index = tn__node_input(node, INDEX);
    tn_tensor *source = tn__node_input(node, SOURCE);
    if (!input || !index || !source)
        return tn_error_code();
    source = narrow_to_index(source, index);
    tn_status status = TN_OK;
    if (tn__node_wants(node, 0)) {
        tn_tensor *ones = tn_ones_like(input);
        tn_tensor *others = scatter_prod(ones, dim, index, source);
        status = set_result(&out[0], tn_mul(g, others));
    }
    if (status < 0 || !tn__node_wants(node, SOURCE))
        return status;
    tn_tensor *zero = tn_eq_scalar(source, 0);
    tn_tensor *zeros = tn_scatter_add(
        tn_zeros_like(input), dim, index, tn_to_dtype(zero, g->dtype));
    tn_tensor *only = tn_logical_and(
        zero, tn_eq_scalar(tn_gather(zeros, dim, index), 1));
    tn_tensor *filled = tn_masked_fill_scalar(source, zero, 1);
    tn_tensor *product = tn_mul(g, scatter_prod(input, dim, index, filled));
    /* `part`, the product divided by the element, is the gradient of a 0 that
     * is the only 0 among the factors of its product, and of all factors of a
     * product without a 0. All other gradients are 0. */
    tn_tensor *part = tn_div(tn_gather(product, dim, index), filled);
    if (tn_grad_mode()) { /* a gradient that is 0 may have a derivative that is
                             not 0, so it is computed from source here */
        tn_tensor *none = tn_zeros_like(input);
        tn_tensor *pair = tn_scatter_add(none, dim, index,
                                         tn_where_scalar(zero, source, 0));
        pair = tn_sub(tn_gather(pair, dim, index), source);
        tn_tensor *whole = tn_mul(g, scatter_prod(input, dim, index, source));
        whole = tn_div(tn_gather(whole, dim, index), filled);
        tn_tensor *two = tn_eq_scalar(tn_gather(zeros, dim, index), 2);
        pair = tn_where_scalar(two, tn_mul(part, pair), 0);
        part = tn_where(zero, tn_where(only, part, pair), whole);
        return set_result(&out[SOURCE], pad_to_source(node, part));
    }
    tn_tensor *none = tn_eq_scalar(tn_gather(zeros, dim, index), 0);
    part = tn_where_scalar(tn_logical_or(only, none), part, 0);
    return set_result(&out[SOURCE], pad_to_source(node, part));
}

TN__GRADIENT(tn__grad_scatter_fold)
{
    return tn__node_value(node, 4)->of.string[0] == 'p'
               ? scatter_prod_gradient(node, g[0], out)
               : share_among_ties(node, g[0], out);
}
