/* clip.c: gradient clipping, by norm and by value. */
#include <optim/optim.h>

#include <math.h>
#include <stdlib.h>
#include <tenon/autograd.h>
#include <tenon/graph.h>
#include <tenon/ops.h>
#include <tenon/optim.h>

/* The norms of the single gradients, on the device of the first gradient. */
typedef struct norms {
    tn_tensor **norm; /* owned array; the scope owns the tensors */
    int *of;          /* parameter index of each norm */
    int count;
    tn_dtype dtype;   /* float64 if a gradient is float64, else float32 */
} norms;

static tn_status find_norms(norms *n, const tn_parameter_list *parameters,
                            double order)
{
    n->dtype = TN_F32;
    for (int i = 0; i < tn_parameters_count(parameters); i++) {
        tn_tensor *g = tn_tensor_grad(tn_parameters_at(parameters, i));
        if (!g || tn_tensor_numel(g) == 0)
            continue;
        const bool wide = tn_tensor_dtype(g) == TN_F64;
        tn_tensor *norm = tn_vector_norm(g, .ord = order,
                                         .dtype = wide ? TN_F64 : TN_F32);
        if (n->count)
            norm = tn_to(norm, tn_tensor_device(n->norm[0]));
        if (!norm)
            return tn_error_code();
        n->dtype = wide ? TN_F64 : n->dtype;
        n->of[n->count] = i;
        n->norm[n->count++] = norm;
    }
    return TN_OK;
}

/* Returns the norm of the norms as a tensor. */
static tn_tensor *combine(const norms *n, double order)
{
    if (n->count == 0)
        return tn_zeros(TN_SCALAR, .dtype = n->dtype);
    for (int i = 0; i < n->count; i++)
        n->norm[i] = tn_to_dtype(n->norm[i], n->dtype);
    return tn_vector_norm(tn_stack(n->norm, n->count, 0), .ord = order);
}

static void refuse_norm(const norms *n, const tn_parameter_list *parameters,
                        double total)
{
    for (int i = 0; i < n->count; i++) {
        const double norm = tn_item(n->norm[i]);
        if (tn_error())
            return;
        if (!isfinite(norm)) {
            tn_error_refuse_argument(
                TN_ERR_NAN, "clip_grad_norm", "parameters",
                "the gradient of parameter \"%s\" has norm %g: lower the "
                "learning rate, or find its cause with TN_DETECT_ANOMALY",
                tn_parameters_name(parameters, n->of[i]), norm);
            return;
        }
    }
    tn_error_refuse_argument(TN_ERR_NAN, "clip_grad_norm", "parameters",
                             "the norm of all gradients is %g, although the "
                             "norm of each gradient is finite",
                             total);
}

/* Returns max_norm / (norm + 1e-6), computed as PyTorch does: as a product with
 * the reciprocal, in the norm's dtype. */
static double factor_for(double norm, double max_norm, tn_dtype dtype)
{
    const int rounding = tn__nearest_begin();
    /* 1e-6 avoids a division by 0, as in PyTorch */
    double factor;
    if (dtype == TN_F64) {
        factor = 1 / (norm + 1e-6) * max_norm;
    } else {
        const float share = 1 / ((float)norm + 1e-6f);
        factor = (double)(share * (float)max_norm);
    }
    tn__nearest_end(&rounding);
    return factor;
}

static bool check_order(const char *call, double order)
{
    if (isnan(order))
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "norm_type",
                                 "norm_type is NaN; expected a number");
    return !isnan(order);
}

/* Allocates the lists of norms. */
static bool norms_make(const char *call, norms *n,
                       const tn_parameter_list *parameters)
{
    const size_t count = (size_t)tn_parameters_count(parameters);
    *n = (norms){.norm = calloc(count + 1, sizeof *n->norm),
                 .of = calloc(count + 1, sizeof *n->of)};
    if (n->norm && n->of)
        return true;
    tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
    return false;
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
                                        "%s is %g; expected at least 0", name,
                                        limit);
    return TN_OK;
}

TN_OPTIONS_TYPE(tn_clip_grad_norm, "clip_grad_norm", "parameters, max_norm",
                TN_CLIP_GRAD_NORM_OPTIONS_LIST)

double tn_clip_grad_norm_with(const tn_parameter_list *parameters,
                              double max_norm,
                              const tn_clip_grad_norm_options *options)
{
    if (check_limit("clip_grad_norm", parameters, "max_norm", max_norm) < 0)
        return NAN;
    tn_clip_grad_norm_options o;
    if (tn_options_take(tn_clip_grad_norm_type(), &o, options) < 0)
        return NAN;
    if (!check_order("clip_grad_norm", o.norm_type))
        return NAN;
    if (tn_graph_is_recording()) {
        tn_error_refuse_argument(TN_ERR_STATE, "clip_grad_norm", NULL,
                                 "work is being recorded, and a replay would "
                                 "not compute the norm on the host again: call "
                                 "tn_clip_grad_norm_on_device");
        return NAN;
    }
    norms n;
    double norm = 0;
    tn_scope *scope = tn_scope_open();
    if (norms_make("clip_grad_norm", &n, parameters)) TN_NO_GRAD {
        if (find_norms(&n, parameters, o.norm_type) == TN_OK)
            norm = n.count ? tn_item(combine(&n, o.norm_type)) : 0;
        if (o.error_if_nonfinite && !isfinite(norm) && !tn_error())
            refuse_norm(&n, parameters, norm);
    }
    tn_scope_close(scope);
    free(n.norm);
    free(n.of);
    if (tn_error())
        return NAN;
    const double factor = factor_for(norm, max_norm, n.dtype);
    if (!(factor >= 1) && each_grad(parameters, scale, factor) < 0)
        return NAN;
    return norm;
}

/* ---- on the device ------------------------------------------------------- */

/* Multiplies all gradients by the factor for `norm`, a tensor. */
static tn_status scale_by_norm(const norms *n,
                               const tn_parameter_list *parameters,
                               tn_tensor *norm, double max_norm)
{
    static const tn_op *factor_op, *scale_op;
    /* The steps of factor_for: a factor that is not below 1 changes nothing. */
    const tn_op *factor_of = tn_op_define_once(
        "optim_clip_factor(norm; max_norm) = "
        "let f = 1 / (norm + 1e-6) * max_norm; where(f >= 1, 1, f)",
        &factor_op);
    const tn_op *scale_by = tn_op_define_once(
        "optim_clip_scale(grad, factor) = like(grad * factor, grad)",
        &scale_op);
    tn_tensor *factor = NULL, *narrow = NULL;
    if (!factor_of || !scale_by ||
        !(factor = tn_op_apply(factor_of, &norm, &max_norm)))
        return tn_error_code();
    for (int i = 0; i < n->count; i++) {
        tn_tensor *g = tn_tensor_grad(tn_parameters_at(parameters, n->of[i]));
        const bool wide = tn_tensor_dtype(g) == TN_F64;
        if (!wide && !narrow)
            narrow = tn_to_dtype(factor, TN_F32);
        const tn_value value[] = {
            {.kind = TN_VALUE_TENSOR, .of.tensor = g},
            {.kind = TN_VALUE_TENSOR, .of.tensor = wide ? factor : narrow}};
        if (tn_op_call_into(scale_by, value, 2, &g, 1) < 0)
            return tn_error_code();
    }
    return TN_OK;
}

TN_OPTIONS_TYPE(tn_clip_grad_norm_on_device, "clip_grad_norm_on_device",
                "parameters, max_norm",
                TN_CLIP_GRAD_NORM_ON_DEVICE_OPTIONS_LIST)

tn_tensor *tn_clip_grad_norm_on_device_with(
    const tn_parameter_list *parameters, double max_norm,
    const tn_clip_grad_norm_on_device_options *options)
{
    const char *call = "clip_grad_norm_on_device";
    tn_clip_grad_norm_on_device_options o;
    if (check_limit(call, parameters, "max_norm", max_norm) < 0 ||
        tn_options_take(tn_clip_grad_norm_on_device_type(), &o, options) < 0 ||
        !check_order(call, o.norm_type))
        return NULL;
    norms n;
    tn_tensor *norm = NULL;
    tn_scope *scope = tn_scope_open();
    if (norms_make(call, &n, parameters)) TN_NO_GRAD {
        if (find_norms(&n, parameters, o.norm_type) == TN_OK)
            norm = combine(&n, o.norm_type);
        if (!norm || scale_by_norm(&n, parameters, norm, max_norm) < 0)
            norm = NULL;
    }
    free(n.norm);
    free(n.of);
    return tn_scope_result(scope, norm);
}

tn_status tn_clip_grad_value(const tn_parameter_list *parameters, double value)
{
    tn_status status =
        check_limit("clip_grad_value", parameters, "value", value);
    return status < 0 ? status : each_grad(parameters, clamp, value);
}
