/* clip.c: gradient clipping, by norm and by value. */
#include <optim/optim.h>

#include <math.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>
#include <tenon/optim.h>

/* The sum of a gradient's squares, in float32 at least. */
static tn_tensor *square_sum(tn_tensor *g)
{
    if (tn_tensor_dtype(g) != TN_F64)
        g = tn_to_dtype(g, TN_F32);
    return tn_sum(tn_square(g));
}

static double item_or_zero(tn_tensor *x)
{
    return x ? tn_item(x) : 0;
}

/* The 2-norm of all gradients. Sums stay on the device and are read only when
 * the device or dtype changes: each read waits for the device. */
static double norm_of(const tn_parameter_list *parameters)
{
    double total = 0;
    tn_tensor *sum = NULL;
    for (int i = 0; i < tn_parameters_count(parameters); i++) {
        tn_tensor *g = tn_tensor_grad(tn_parameters_at(parameters, i));
        if (!g)
            continue;
        tn_tensor *next = square_sum(g);
        if (sum && tn_tensor_device(sum) == tn_tensor_device(next) &&
            tn_tensor_dtype(sum) == tn_tensor_dtype(next)) {
            sum = tn_add(sum, next);
        } else {
            total += item_or_zero(sum);
            sum = next;
        }
    }
    return sqrt(total + item_or_zero(sum));
}

/* Multiplies a gradient by factor, in place. */
static tn_status scale(tn_tensor *g, double factor)
{
    return tn_mul_scalar_(g, factor) ? TN_OK : tn_error_code();
}

/* Clamps a gradient to [-value, value], in place. */
static tn_status clamp(tn_tensor *g, double value)
{
    return tn_clamp_min_scalar_(g, -value) && tn_clamp_max_scalar_(g, value)
               ? TN_OK
               : tn_error_code();
}

static tn_status each_grad(const tn_parameter_list *parameters,
                           tn_status (*change)(tn_tensor *g, double number),
                           double number)
{
    tn_status status = TN_OK;
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD {
        for (int i = 0;
             i < tn_parameters_count(parameters) && status == TN_OK; i++) {
            tn_tensor *g = tn_tensor_grad(tn_parameters_at(parameters, i));
            if (g)
                status = change(g, number);
        }
    }
    tn_scope_close(scope);
    return status;
}

static tn_status check_limit(const char *call,
                             const tn_parameter_list *parameters,
                             const char *name, double limit)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn__optim_is_list(parameters, call))
        return tn_error_code();
    if (!(limit >= 0))
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, name,
                                        "%s is %g; it must be at least 0", name,
                                        limit);
    return TN_OK;
}

double tn_clip_grad_norm(const tn_parameter_list *parameters, double max_norm)
{
    if (check_limit("clip_grad_norm", parameters, "max_norm", max_norm) < 0)
        return NAN;
    double norm = 0;
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD {
        norm = norm_of(parameters);
    }
    tn_scope_close(scope);
    if (tn_error())
        return NAN;
    /* 1e-6 as in PyTorch, against a norm of 0. */
    double factor = max_norm / (norm + 1e-6);
    if (!(factor >= 1) && each_grad(parameters, scale, factor) < 0)
        return NAN;
    return norm;
}

tn_status tn_clip_grad_value(const tn_parameter_list *parameters, double value)
{
    tn_status status =
        check_limit("clip_grad_value", parameters, "value", value);
    return status < 0 ? status : each_grad(parameters, clamp, value);
}
