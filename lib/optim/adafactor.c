/* adafactor.c: Adafactor (arXiv:1804.04235), as torch.optim.Adafactor. For a
 * parameter with two dimensions or more, it stores the means of the squared
 * gradient over the rows and over the columns, and approximates the full matrix
 * of means by their product, so the state is small. */
#include <optim/optim.h>

#include <math.h>
#include <tenon/ops.h>

enum { ROW, COL, VARIANCE };

static bool slot_shape(const tn_tensor *p, int slot, tn_dims_list *shape)
{
    const int ndim = tn_tensor_ndim(p);
    if ((slot == VARIANCE) != (ndim < 2))
        return false;
    shape->count = ndim;
    for (int i = 0; i < ndim; i++)
        shape->dim[i] = tn_tensor_shape(p)[i];
    if (slot != VARIANCE)
        shape->dim[slot == ROW ? ndim - 1 : ndim - 2] = 1;
    return true;
}

enum { SHARE, RATE, KEEP };

static void numbers_of(const tn__optim_group *group, tn__optim_progress *next,
                       double *number)
{
    const tn_optim_adafactor_options *o = &group->optim->options.adafactor;
    const double steps = (double)next->steps, lr = group->rates.lr;
    number[SHARE] = pow(steps, o->beta2_decay);
    number[RATE] = fmin(lr, 1 / sqrt(steps));
    number[KEEP] = 1 - lr * group->rates.weight_decay;
}

static double eps_of(tn_dtype dtype)
{
    return dtype == TN_F64    ? 0x1p-52
           : dtype == TN_F16  ? 0x1p-10
           : dtype == TN_BF16 ? 0x1p-7
                              : 0x1p-23;
}

static tn_value tensor_value(tn_tensor *x)
{
    return (tn_value){.kind = TN_VALUE_TENSOR, .of.tensor = x};
}

static tn_value number_value(double x)
{
    return (tn_value){
        .kind = TN_VALUE_NUMBER, .count = TN_SCALAR_FLOAT, .of.f = x};
}

/* Computes the next means of squared gradients into next[]. Returns the
 * gradient divided by the root of the approximated mean. */
static tn_tensor *update_of(tn__optim_state *state, tn_scalar share, double eps,
                            double sign, tn_tensor *g, tn_tensor **next)
{
    static const tn_op *factored_op, *plain_op;
    const tn_op *factored = tn_op_define_once(
        "optim_adafactor_factored(grad, row, col, mean; eps, sign) = "
        "sign * grad / sqrt(max(row * col / max(mean, eps), eps * eps))",
        &factored_op);
    const tn_op *plain =
        tn_op_define_once("optim_adafactor_plain(grad, v; eps, sign) = "
                          "sign * grad / sqrt(max(v, eps * eps))",
                          &plain_op);
    tn_tensor *square = tn_square(g), *update = NULL;
    if (!factored || !plain)
        return NULL;
    if (state->slot[VARIANCE]) {
        next[VARIANCE] = tn_lerp_scalar(state->slot[VARIANCE], square, share);
        tn_value value[] = {tensor_value(g), tensor_value(next[VARIANCE]),
                            number_value(eps), number_value(sign)};
        return tn_op_call(plain, value, 4, &update, 1) < 0 ? NULL : update;
    }
    for (int k = ROW; k <= COL; k++)
        next[k] = tn_lerp_scalar(
            state->slot[k],
            tn_mean(square, .dim = k == ROW ? -1 : -2, .keepdim = true), share);
    tn_value value[] = {
        tensor_value(g),
        tensor_value(next[ROW]),
        tensor_value(next[COL]),
        tensor_value(tn_mean(next[ROW], .dim = -2, .keepdim = true)),
        number_value(eps),
        number_value(sign)};
    return tn_op_call(factored, value, 6, &update, 1) < 0 ? NULL : update;
}

/* Changes tensors in place only after everything that can fail has
 * succeeded. */
static tn_status step(const tn__optim_group *group, tn__optim_state *state,
                      const double *number, tn_tensor *p, tn_tensor *g)
{
    static const tn_op *apply_op;
    const tn_optim_adafactor_options *o = &group->optim->options.adafactor;
    const tn_op *apply = tn_op_define_once(
        "optim_adafactor_apply(param, u, pnorm, unorm; rate, keep, eps2, root, "
        "d) = let alpha = max(eps2, pnorm / root) * rate; "
        "let factor = alpha / max(1, unorm / (root * d)); "
        "like(keep * param - factor * u, param)",
        &apply_op);
    if (tn_tensor_numel(p) == 0)
        return TN_OK;
    const double eps1 =
        tn_is_none_float(o->eps1) ? eps_of(tn_tensor_dtype(p)) : o->eps1;
    tn_tensor *next[TN__OPTIM_SLOTS] = {NULL};
    tn_tensor *update =
        update_of(state, tn__optim_scalar(&number[SHARE]), eps1, o->maximize ? -1 : 1, g, next);
    tn_tensor *pnorm = tn__optim_norm(p), *unorm = tn__optim_norm(update);
    if (!apply || !pnorm || !unorm)
        return tn_error_code();
    tn_value value[] = {tensor_value(p),
                        tensor_value(update),
                        tensor_value(pnorm),
                        tensor_value(unorm),
                        tn__optim_number(&number[RATE]),
                        tn__optim_number(&number[KEEP]),
                        number_value(o->eps2),
                        number_value(sqrt((double)tn_tensor_numel(p))),
                        number_value(o->d)};
    if (tn_op_call_into(apply, value, 9, &p, 1) < 0)
        return tn_error_code();
    for (int k = 0; k < TN__OPTIM_SLOTS; k++) {
        if (next[k] && !tn_copy_(state->slot[k], next[k]))
            return tn_error_code();
    }
    return TN_OK;
}

static tn__optim_rule adafactor = {
    .name = "optim_adafactor",
    .slots = 3,
    .slot_name =
        {[ROW] = "row_var", [COL] = "col_var", [VARIANCE] = "variance"},
    .slot_shape = slot_shape,
    .decoupled = true,
    .numbers_of = numbers_of,
    .step = step,
};

TN_OPTIONS_TYPE(tn_optim_adafactor, "optim_adafactor", "parameters",
                TN_OPTIM_ADAFACTOR_OPTIONS_LIST)

static bool check_bounds(const tn_optim_adafactor_options *o)
{
    const char *call = "optim_adafactor";
    if (!(o->beta2_decay <= 0))
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "beta2_decay",
                                 "beta2_decay is %g; expected at most 0",
                                 o->beta2_decay);
    else if (!(o->d >= 1))
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "d",
                                 "d is %g; expected at least 1", o->d);
    return !tn_error();
}

tn_optim *tn_optim_adafactor_with(tn_parameter_list *parameters,
                                  const tn_optim_adafactor_options *options)
{
    const char *call = "optim_adafactor";
    tn_optim_adafactor_options o;
    if (tn_options_take(tn_optim_adafactor_type(), &o, options) < 0)
        return NULL;
    if (!tn__optim_check(call, "lr", o.lr, 1e300) ||
        (!tn_is_none_float(o.eps1) &&
         !tn__optim_check(call, "eps1", o.eps1, 1e300)) ||
        !tn__optim_check(call, "eps2", o.eps2, 1e300) ||
        !tn__optim_check(call, "weight_decay", o.weight_decay, 1e300) ||
        !check_bounds(&o))
        return NULL;
    tn_optim *optim =
        tn__optim_new(&adafactor, parameters, o.lr, 0, o.weight_decay);
    if (optim)
        optim->options.adafactor = o;
    return optim;
}
