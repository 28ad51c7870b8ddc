/* gradients_grid.c: gradients of the two operators that grid_sample consists
 * of, tap_sum and tap_dots. Each output position p is a weighted sum of a few
 * input elements. One element and its weight are called a tap; t is the index
 * of a tap:
 *
 *   tap_sum:  out[n,c,p] = sum over t of x[n,c,index[n,t,p]] * w[n,t,p]
 *   tap_dots: out[n,t,p] = sum over c of x[n,c,index[n,t,p]] * g[n,c,p]
 *
 * All gradients follow from the sum over n, c, t and p of
 *
 *   g[n,c,p] * x[n,c,index[n,t,p]] * w[n,t,p]
 *
 * Its derivative with respect to g is tap_sum, with respect to w it is
 * tap_dots, and with respect to x it is scatter_taps. The sum is linear in each
 * factor, so the gradient of any of the three functions consists of the other
 * two. */
#include <autograd/autograd.h>
#include <base/error.h>
#include <ops/table.h>
#include <tenon/ops.h>

static tn_tensor *run_row(int id, tn_tensor *a, tn_tensor *b, tn_tensor *c)
{
    const tn_value value[] = {tn__value_tensor(a), tn__value_tensor(b),
                              tn__value_tensor(c)};
    return a && b && c ? tn__op_run1(&tn__op_table[id], value, 3) : NULL;
}

/* Computes zeros[n,c,index[n,t,p]] += g[n,c,p] * w[n,t,p]. A negative index
 * adds nothing. */
static tn_tensor *scatter_taps(tn_tensor *zeros, tn_tensor *g, tn_tensor *w,
                               tn_tensor *index)
{
    if (!zeros || !g || !w || !index)
        return NULL;
    int64_t n = g->shape[0], channels = g->shape[1];
    int64_t all = index->shape[1] * index->shape[2];
    tn_tensor *parts = run_row(TN__OP_ID_TAP_PARTS, tn_unsqueeze(g, 2),
                               tn_unsqueeze(w, 1), tn_unsqueeze(index, 1));
    parts = tn_reshape(parts, tn_dims(n, channels, all));
    index = tn_reshape(tn_clamp_min_scalar(index, 0), tn_dims(n, 1, all));
    return tn_scatter_add(zeros, 2,
                          tn_expand(index, tn_dims(n, channels, all)), parts);
}

static tn_tensor *zeros_of(const tn__node *node)
{
    return tn__zeros_expanded(tn__node_shape(node, 0), tn__node_dtype(node, 0),
                              tn__node_device(node, 0));
}

/* Computes the gradients of an operator with the arguments (input, index,
 * factor). `other` is the operator that computes the gradient of factor. `sum`
 * is true for tap_sum and false for tap_dots. */
static tn_status by_input_and_factor(const tn__node *node, int other, bool sum,
                                     tn_tensor *g, tn_tensor **out)
{
    tn_tensor *index = tn__node_input(node, 1);
    if (tn__node_wants(node, 0)) {
        tn_tensor *factor = tn__node_input(node, 2);
        out[0] = scatter_taps(zeros_of(node), sum ? g : factor,
                              sum ? factor : g, index);
        if (!out[0])
            return tn_error_code();
    }
    if (tn__node_wants(node, 2))
        out[2] = run_row(other, tn__node_input(node, 0), index, g);
    return !tn__node_wants(node, 2) || out[2] ? TN_OK : tn_error_code();
}

TN__GRADIENT(tn__grad_tap_sum)
{
    return by_input_and_factor(node, TN__OP_ID_TAP_DOTS, true, g[0], out);
}

TN__GRADIENT(tn__grad_tap_dots)
{
    return by_input_and_factor(node, TN__OP_ID_TAP_SUM, false, g[0], out);
}
