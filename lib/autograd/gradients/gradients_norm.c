/* gradients_norm.c: gradients of layer_norm, group_norm and rms_norm.
 *
 * A row is the set of elements that are normalized together. Each row is
 * normalized, multiplied by a weight and added to a bias. The gradient is
 * limited by memory bandwidth, so its time depends on how many kernels read x
 * and the gradient of the result. Different kernels are used, depending on the
 * dimensions along which weight and bias are constant. */
#include <autograd/autograd.h>
#include <ops/table.h>
#include <tenon/ops.h>

/* Returns the dimensions that are normalized together. */
static const tn_dims_list *row_dims(const tn__node *node)
{
    enum { DIM = TN__ARG_NORMALIZE_ROWS_AFFINE_DIM };
    _Static_assert(TN__ARG_RMS_NORM_ROWS_AFFINE_DIM == (int)DIM,
                   "the same argument");
    return tn__node_value(node, DIM)->of.dims;
}

/* Reshapes x, which has one element per row, so that it broadcasts over the
 * elements of a row. */
static tn_tensor *with_dims(const tn__node *node, tn_tensor *x)
{
    const tn_dims_list *dims = row_dims(node);
    tn_dims_list shape = tn__node_shape(node, 0);
    for (int i = 0; i < dims->count; i++)
        shape.dim[tn__shape_dim(shape.count, dims->dim[i])] = 1;
    return x ? tn_reshape(x, shape) : NULL;
}

/* The saved values that the gradient functions use. */
typedef struct rows {
    tn_tensor *x, *weight, *mean, *rstd;
    const tn_dims_list *dims;
} rows;

/* Computes the gradient by separate operators. This is used under create_graph,
 * or if the outputs mean, var or rstd have a gradient. The formula is that of
 * the operator normalize_rows_each_back. */
static tn_status by_operators(const tn__node *node, const rows *of,
                              tn_tensor *const *g, tn_tensor **out)
{
    tn_tensor *r = of->rstd, *d = tn_sub(of->x, of->mean);
    tn_tensor *g0 = g[0] ? g[0] : tn_zeros_like(of->x);
    tn_tensor *q = tn_mul(g0, of->weight), *cube = tn_mul(tn_mul(r, r), r);
    tn_dims_list dims = tn__marked(*of->dims);
    tn_tensor *a = tn_mul(r, tn_mean(q, .dims = dims, .keepdim = true));
    tn_tensor *b = tn_mul(cube, tn_mean(tn_mul(q, d), .dims = dims,
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

/* Calls the operator whose index in the operator table is `id`. */
static tn_status run_row(int id, const tn_value *value, int count,
                         tn_tensor **out, int outputs)
{
    return tn__op_run(&tn__op_table[id], value, count, out, outputs) < 0
               ? tn_error_code()
               : TN_OK;
}

/* Returns the normalized dimensions as a mask. */
static uint32_t row_bits(const rows *of)
{
    uint32_t bits = 0;
    for (int i = 0; i < of->dims->count; i++)
        bits |= 1u << tn__shape_dim(of->x->ndim, of->dims->dim[i]);
    return bits;
}

/* Returns the dimensions of x along which an input (weight or bias) has size 1,
 * as a mask. */
static uint32_t single_bits(const rows *of, const tn__node *node, int port)
{
    const tn_dims_list y = tn__node_shape(node, port);
    const int lead = of->x->ndim - y.count;
    uint32_t bits = 0;
    for (int d = 0; d < of->x->ndim; d++)
        if (d < lead || y.dim[d - lead] == 1)
            bits |= 1u << d;
    return bits;
}

static tn_dims_list dims_of(uint32_t bits)
{
    tn_dims_list dims = {0, {0}};
    for (int d = 0; bits >> d; d++)
        if (bits >> d & 1)
            dims.dim[dims.count++] = d;
    return dims;
}

/* Computes the gradients if all elements of a row have the same weight. One
 * kernel suffices, because all gradients can be computed from sums over a
 * row. */
static tn_status by_rows(const rows *of, tn_tensor *g, tn_tensor **out)
{
    const tn_value value[] = {
        tn__value_tensor(g), tn__value_tensor(of->x),
        tn__value_tensor(of->mean), tn__value_tensor(of->rstd),
        tn__value_tensor(of->weight), tn__value_dims(of->dims),
        tn__value_bool(true)};
    return run_row(TN__OP_ID_NORMALIZE_ROWS_BY_BACK, value, 7, out, 3);
}

/* Computes the gradients if each element of a row has its own weight, which is
 * the same for all rows, as in layer_norm. */
static tn_status by_elements(const tn__node *node, const rows *of, tn_tensor *g,
                             uint32_t single, tn_tensor **out)
{
    const tn_dims_list dims = dims_of(single);
    const tn_value row[] = {
        tn__value_tensor(g), tn__value_tensor(of->x),
        tn__value_tensor(of->mean), tn__value_tensor(of->rstd),
        tn__value_tensor(of->weight), tn__value_dims(of->dims)};
    const tn_value column[] = {row[0], row[1], row[2], row[3],
                               tn__value_dims(&dims), tn__value_bool(true)};
    if (tn__node_wants(node, 0) &&
        run_row(TN__OP_ID_NORMALIZE_ROWS_EACH_BACK, row, 6, out, 1) < 0)
        return tn_error_code();
    if (!tn__node_wants(node, 1) && !tn__node_wants(node, 2))
        return TN_OK;
    return run_row(TN__OP_ID_NORMALIZE_WEIGHTS_BACK, column, 6, out + 1, 2);
}

/* Computes the gradients if a row consists of planes with one weight each (the
 * channels in group_norm). One kernel reads x and g to sum over each plane. A
 * second kernel reads them again and computes the gradient from these sums. */
static tn_status by_planes(const tn__node *node, const rows *of, tn_tensor *g,
                           uint32_t plane, uint32_t single, tn_tensor **out)
{
    const tn_dims_list dims = dims_of(plane), outer = dims_of(single);
    const tn_value keep = tn__value_bool(true);
    const tn_value read[] = {tn__value_tensor(g), tn__value_tensor(of->x),
                             tn__value_tensor(of->mean), tn__value_dims(&dims),
                             keep};
    tn_tensor *sum[2], *part[3];
    if (run_row(TN__OP_ID_PLANE_SUMS, read, 5, sum, 2) < 0)
        return tn_error_code();
    const tn_value s = tn__value_tensor(sum[0]), p = tn__value_tensor(sum[1]);
    const tn_value rstd = tn__value_tensor(of->rstd);
    if (tn__node_wants(node, 0)) {
        const int64_t count = of->rstd->numel;
        const tn_value row[] = {
            s, p, tn__value_tensor(of->weight), rstd, tn__value_dims(of->dims),
            keep,
            tn__value_number_of(
                count ? (double)(of->x->numel / count) : 1)};
        if (run_row(TN__OP_ID_PLANE_ROWS, row, 7, part, 3) < 0)
            return tn_error_code();
        const tn_value all[] = {read[0], read[1], read[2],
                                tn__value_tensor(part[0]),
                                tn__value_tensor(part[1]),
                                tn__value_tensor(part[2])};
        if (run_row(TN__OP_ID_NORMALIZE_PLANES_BACK, all, 6, out, 1) < 0)
            return tn_error_code();
    }
    if (!tn__node_wants(node, 1) && !tn__node_wants(node, 2))
        return TN_OK;
    const tn_value weights[] = {s, p, rstd, tn__value_dims(&outer), keep};
    return run_row(TN__OP_ID_PLANE_WEIGHTS, weights, 5, out + 1, 2);
}

TN__GRADIENT(tn__grad_normalize_rows_affine)
{
    const rows of = {
        tn__node_input(node, 0), tn__node_input(node, 1),
        with_dims(node, tn__node_output(node, 1)),
        with_dims(node, tn__node_output(node, 3)), row_dims(node)};
    if (!of.x || !of.weight || !of.mean || !of.rstd)
        return tn_error_code();
    if (tn_grad_mode() || !of.x->numel || !g[0] || g[1] || g[2] || g[3])
        return by_operators(node, &of, g, out);
    const uint32_t row = row_bits(&of), single = single_bits(&of, node, 1);
    const uint32_t both = single & single_bits(&of, node, 2);
    if (!(row & ~both))
        return by_rows(&of, g[0], out);
    if (both != single || !both)
        return by_operators(node, &of, g, out);
    return row & both ? by_planes(node, &of, g[0], row & both, both, out)
                      : by_elements(node, &of, g[0], both, out);
}

/* ---- rms_norm ----------------------------------------------------------- */

static tn_status rms_by_operators(const tn__node *node, const rows *of,
                                  tn_tensor *const *g, tn_tensor **out)
{
    tn_tensor *r = of->rstd;
    tn_tensor *g0 = g[0] ? g[0] : tn_zeros_like(of->x);
    tn_tensor *q = tn_mul(g0, of->weight);
    tn_tensor *b = tn_mean(tn_mul(q, of->x), .dims = tn__marked(*of->dims),
                           .keepdim = true);
    if (g[1]) {
        double count = r ? (double)r->numel : 0;
        double length = count > 0 ? (double)of->x->numel / count : 1;
        b = tn_add(b, tn_div_scalar(with_dims(node, g[1]), length));
    }
    /* The factors are multiplied one by one, because r^3 may overflow float32
     * although the product does not. */
    b = tn_mul(r, tn_mul(r, tn_mul(r, b)));
    out[0] = tn_sub(tn_mul(r, q), tn_mul(of->x, b));
    out[1] = tn_mul(tn_mul(g0, of->x), r);
    return out[0] && out[1] ? TN_OK : tn_error_code();
}

TN__GRADIENT(tn__grad_rms_norm_rows_affine)
{
    const rows of = {tn__node_input(node, 0), tn__node_input(node, 1), NULL,
                     with_dims(node, tn__node_output(node, 1)),
                     row_dims(node)};
    if (!of.x || !of.weight || !of.rstd)
        return tn_error_code();
    const uint32_t single = single_bits(&of, node, 1);
    if (tn_grad_mode() || !of.x->numel || !g[0] || g[1] || !single ||
        (single & row_bits(&of)))
        return rms_by_operators(node, &of, g, out);
    const tn_dims_list dims = dims_of(single);
    const tn_value row[] = {tn__value_tensor(g[0]), tn__value_tensor(of.x),
                            tn__value_tensor(of.rstd),
                            tn__value_tensor(of.weight),
                            tn__value_dims(of.dims)};
    const tn_value column[] = {row[0], row[1], row[2], tn__value_dims(&dims),
                               tn__value_bool(true)};
    if (tn__node_wants(node, 0) &&
        run_row(TN__OP_ID_RMS_NORM_ROWS_BACK, row, 5, out, 1) < 0)
        return tn_error_code();
    return tn__node_wants(node, 1)
               ? run_row(TN__OP_ID_RMS_NORM_WEIGHTS_BACK, column, 5, out + 1, 1)
               : TN_OK;
}
