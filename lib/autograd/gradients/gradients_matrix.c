/* gradients_matrix.c: gradients of matrix products. */
#include <autograd/autograd.h>
#include <ops/table.h>
#include <tenon/ops.h>

/* For s A B the gradient of A is s G B^T, and that of B is s A^T G, where G is
 * the gradient of the result. */

static tn_tensor *matrix_transpose(tn_tensor *x)
{
    return tn_transpose(x, -1, -2);
}

/* Computes scale * a @ b. Unless sum is NULL, adds it to sum in place. */
static tn_tensor *product(tn_tensor *a, tn_tensor *b, double scale,
                          tn_tensor *sum)
{
    if (!a || !b)
        return NULL;
    if (sum) {
        const tn_value value[] = {tn__value_tensor(a), tn__value_tensor(b),
                                  tn__value_tensor(sum),
                                  tn__value_float(scale)};
        return tn__op_run1(&tn__op_table[TN__OP_ID_MATMUL_INTO], value, 4);
    }
    const tn_value value[] = {tn__value_tensor(a), tn__value_tensor(b),
                              tn__value_float(scale)};
    return scale == 1 ? tn_matmul(a, b)
                      : tn__op_run1(&tn__op_table[TN__OP_ID_MATMUL_SCALED],
                                    value, 3);
}

/* Computes scale * a @ b, the gradient of input `port`. If that input is the
 * transpose of a contiguous matrix, so is the result. */
static tn_tensor *product_for_port(const tn__node *node, int port, tn_tensor *a,
                                   tn_tensor *b, double scale, tn_tensor *sum)
{
    return a && b && !sum && tn__node_is_transposed(node, port)
               ? matrix_transpose(product(matrix_transpose(b),
                                          matrix_transpose(a), scale, NULL))
               : product(a, b, scale, sum);
}

/* Turns a 1-d operand into a matrix: a row if it is the left operand, a column
 * if it is the right one. */
static tn_tensor *as_matrix(tn_tensor *x, bool left)
{
    return x && x->ndim == 1 ? tn_unsqueeze(x, left ? 0 : 1) : x;
}

/* Restores in g, the gradient of the result, the dimensions that matmul removes
 * if an operand is 1-d. */
static tn_tensor *matrix_cotangent(const tn__node *node, tn_tensor *g)
{
    if (tn__node_ndim(node, 1) == 1)
        g = tn_unsqueeze(g, -1);
    if (tn__node_ndim(node, 0) == 1)
        g = tn_unsqueeze(g, -2);
    return g;
}

/* Computes A^T G if B is a single matrix used for the whole batch. The batch
 * dimensions are merged into the rows, so that one product replaces many
 * products and a sum. */
static tn_tensor *weight_product(const tn__node *node, tn_tensor *a,
                                 tn_tensor *g, double scale, tn_tensor *sum)
{
    a = tn_reshape(a, tn_dims(-1, a->shape[a->ndim - 1]));
    g = tn_reshape(g, tn_dims(-1, g->shape[g->ndim - 1]));
    return product_for_port(node, 1, matrix_transpose(a), g, scale, sum);
}

/* Returns whether the input was broadcast: `whole`, the gradient of the result,
 * has more matrices than the input. The backward pass then sums the gradients
 * of all these matrices. Products of 16-bit floats are computed in float32 in
 * that case, so that the sum is rounded only once. */
static bool is_summed(const tn__node *node, int port, const tn_tensor *whole)
{
    int64_t matrices = 1, batch = 1;
    for (int d = 0; d < tn__node_ndim(node, port) - 2; d++)
        matrices *= tn__node_size(node, port, d);
    for (int d = 0; d < whole->ndim - 2; d++)
        batch *= whole->shape[d];
    return batch > matrices;
}

/* Returns sum if its batch dimensions are those of `whole` (the gradient of the
 * result), so that the product can be added to it in place. Otherwise returns
 * NULL. */
static tn_tensor *usable_sum(tn_tensor *sum, const tn_tensor *whole)
{
    bool fits = sum && sum->ndim == whole->ndim;
    for (int d = 0; fits && d < whole->ndim - 2; d++)
        fits = sum->shape[d] == whole->shape[d];
    return fits ? sum : NULL;
}

static tn_status product_gradient(const tn__node *node, tn_tensor *const *g,
                                  double scale, tn_tensor **out)
{
    tn_tensor *whole = matrix_cotangent(node, g[0]);
    tn_tensor *sum[2] = {out[0], out[1]};
    out[0] = out[1] = NULL;
    if (!whole)
        return tn_error_code();
    if (tn__node_wants(node, 0)) {
        tn_tensor *b = as_matrix(tn__node_input(node, 1), false);
        out[0] = is_summed(node, 0, whole)
                     ? product(tn__widen_half(whole),
                               matrix_transpose(tn__widen_half(b)), scale, NULL)
                     : product_for_port(node, 0, whole, matrix_transpose(b),
                                        scale, usable_sum(sum[0], whole));
        if (!out[0])
            return tn_error_code();
    }
    if (tn__node_wants(node, 1)) {
        tn_tensor *a = as_matrix(tn__node_input(node, 0), true);
        if (!a)
            return tn_error_code();
        if (tn__node_ndim(node, 1) <= 2 && a->ndim > 2 && whole->numel &&
            a->numel)
            out[1] =
                weight_product(node, a, whole, scale,
                               tn__node_ndim(node, 1) == 2 ? sum[1] : NULL);
        else
            out[1] = is_summed(node, 1, whole)
                         ? product(matrix_transpose(tn__widen_half(a)),
                                   tn__widen_half(whole), scale, NULL)
                         : product_for_port(node, 1, matrix_transpose(a), whole,
                                            scale, usable_sum(sum[1], whole));
        if (tn__node_ndim(node, 1) == 1) /* input 1 was 1-d */
            out[1] = tn_squeeze(out[1], .dim = -1);
        if (!out[1])
            return tn_error_code();
    }
    return TN_OK;
}

TN__GRADIENT(tn__grad_matmul)
{
    return product_gradient(node, g, 1, out);
}

/* The addend's gradient is g. The backward pass sums it over the dimensions
 * along which the addend was broadcast. */
TN__GRADIENT(tn__grad_matmul_add)
{
    if (tn__node_wants(node, 2))
        out[2] = g[0];
    return product_gradient(node, g, 1, out);
}

/* There is no gradient, as in PyTorch, because the operands are float8 values
 * with only a few digits. */
TN__GRADIENT(tn__grad_scaled_mm)
{
    (void)node, (void)g, (void)out;
    return tn__fail(TN_ERR_UNSUPPORTED, "scaled_mm: the operator has no "
                    "gradient: use tn_linear or tn_matmul, which have one");
}

TN__GRADIENT(tn__grad_matmul_scaled)
{
    const tn_value *scale = tn__node_value(node, TN__ARG_MATMUL_SCALED_SCALE);
    return product_gradient(node, g, scale->of.f, out);
}
