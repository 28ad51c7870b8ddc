/* gradients_norm.c: rows normalized, then times one number of the row's plus
 * another. */
#include <autograd/autograd.h>
#include <ops/table.h>
#include <tenon/ops.h>

/* x, one number a row, with the dimensions of a row as ones. */
static tn_tensor *with_dims(const tn__node *node, tn_tensor *x)
{
    const tn_dims_list *dims =
        tn__node_value(node, TN__ARG_NORMALIZE_ROWS_BY_DIM)->of.dims;
    tn_dims_list shape = tn__node_shape(node, 0);
    for (int i = 0; i < dims->count; i++)
        shape.dim[tn__shape_dim(shape.count, dims->dim[i])] = 1;
    return x ? tn_reshape(x, shape) : NULL;
}

/* What the gradient works on; g as given. */
typedef struct rows {
    tn_tensor *x, *weight, *mean, *rstd;
    const tn_dims_list *dims;
} rows;

/* By operators: to be differentiated, or from mean, var and rstd, too. The same
 * as the table has it for normalize_rows_affine. */
static tn_status by_operators(const tn__node *node, const rows *of,
                              tn_tensor *const *g, tn_tensor **out)
{
    tn_tensor *r = of->rstd, *d = tn_sub(of->x, of->mean);
    tn_tensor *g0 = g[0] ? g[0] : tn_zeros_like(of->x);
    tn_tensor *q = tn_mul(g0, of->weight), *cube = tn_mul(tn_mul(r, r), r);
    tn_tensor *a = tn_mul(r, tn_mean(q, .dim = *of->dims, .keepdim = true));
    tn_tensor *b = tn_mul(cube, tn_mean(tn_mul(q, d), .dim = *of->dims,
                                        .keepdim = true));
    double count = r ? (double)r->numel : 0;
    double length = count > 0 ? (double)of->x->numel / count : 1;
    if (g[1])
        a = tn_sub(a, tn_div_scalar(with_dims(node, g[1]), length));
    if (g[2])
        b = tn_sub(b, tn_div_scalar(with_dims(node, g[2]), length / 2));
    if (g[3])
        b = tn_add(b, tn_div_scalar(tn_mul(with_dims(node, g[3]), cube),
                                    length));
    out[0] = tn_sub(tn_sub(tn_mul(r, q), a), tn_mul(d, b));
    out[1] = tn_mul(tn_mul(g0, d), r);
    out[2] = g0;
    return out[0] && out[1] ? TN_OK : tn_error_code();
}

TN__GRADIENT(normalize_rows_by)
{
    const rows of = {
        tn__node_input(node, 0), tn__node_input(node, 1),
        with_dims(node, tn__node_output(node, 1)),
        with_dims(node, tn__node_output(node, 3)),
        tn__node_value(node, TN__ARG_NORMALIZE_ROWS_BY_DIM)->of.dims};
    if (!of.x || !of.weight || !of.mean || !of.rstd)
        return tn_error_code();
    if (tn_grad_mode() || !g[0] || g[1] || g[2] || g[3])
        return by_operators(node, &of, g, out);
    const tn_value value[] = {
        tn__value_tensor(g[0]), tn__value_tensor(of.x),
        tn__value_tensor(of.mean), tn__value_tensor(of.rstd),
        tn__value_tensor(of.weight), tn__value_dims(of.dims),
        tn__value_bool(true)};
    return tn__op_run(&tn__op_table[TN__OP_ID_NORMALIZE_ROWS_BY_BACK], value,
                      7, out, 3) < 0
               ? tn_error_code()
               : TN_OK;
}
