/* scaler.c: scales a loss before the backward pass and divides the gradients by
 * the scale afterwards (torch.amp.GradScaler).
 *
 * A round is the time between two updates of a scaler. Each round has a number
 * that is unique among all scalers. An optimizer stores the round in which it
 * was unscaled and the one in which it stepped, so a scaler needs no list of
 * optimizers. scaler_round.c does rounds within recorded work. */
#include <optim/scaler.h>

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <tenon/autograd.h>
#include <tenon/graph.h>
#include <tenon/ops.h>

static const tn_object_class scaler_class = {
    sizeof scaler_class, "gradient scaler", sizeof(tn_grad_scaler),
    tn__scaler_release};

/* ---- making ------------------------------------------------------------- */

/* Checks the numbers of a scaler's state. state is the name of the argument
 * that holds them, or NULL if each is an option of its own. */
static tn_status check_state(const char *call, const char *state,
                             const tn_grad_scaler_state *s)
{
    if (!(s->scale > 0 && isfinite(s->scale)))
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, state ? state : "init_scale",
            "the scale is %g; expected more than 0", s->scale);
    if (s->scale < TN__SCALER_MIN || s->scale > (double)FLT_MAX)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, state ? state : "init_scale",
            "the scale is %g; expected %g to %g, where the scale and its "
            "reciprocal are both float32",
            s->scale, TN__SCALER_MIN, (double)FLT_MAX);
    if (!(s->growth_factor > 1 && isfinite(s->growth_factor)))
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, state ? state : "growth_factor",
            "growth_factor is %g; expected more than 1", s->growth_factor);
    if (!(s->backoff_factor > 0 && s->backoff_factor < 1))
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, state ? state : "backoff_factor",
            "backoff_factor is %g; expected between 0 and 1",
            s->backoff_factor);
    if (s->growth_interval < 1 || s->growth_tracker < 0)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, state ? state : "growth_interval",
            "growth_interval is %lld, growth_tracker %lld; expected at least 1 "
            "and at least 0",
            (long long)s->growth_interval, (long long)s->growth_tracker);
    return TN_OK;
}

TN_OPTIONS_TYPE(tn_grad_scaler_new, "grad_scaler_new", "",
                TN_GRAD_SCALER_NEW_OPTIONS_LIST)

tn_grad_scaler *
tn_grad_scaler_new_with(const tn_grad_scaler_new_options *options)
{
    tn_grad_scaler_new_options o;
    if (tn_options_take(tn_grad_scaler_new_type(), &o, options) < 0)
        return NULL;
    tn_grad_scaler_state state = {o.init_scale, o.growth_factor,
                                  o.backoff_factor, o.growth_interval, 0};
    if (check_state("grad_scaler_new", NULL, &state) < 0)
        return NULL;
    tn_grad_scaler *scaler = tn_object_new(&scaler_class, 0);
    if (!scaler)
        return NULL;
    scaler->state = state;
    scaler->disabled = o.disabled;
    tn__scaler_begin_round(scaler);
    return scaler;
}

static tn_status check_call(const char *call, const tn_grad_scaler *scaler)
{
    if (tn_error())
        return TN_ERR_STATE;
    return tn_object_check(scaler, &scaler_class, call, "scaler")
               ? TN_OK
               : tn_error_code();
}

/* ---- a round ------------------------------------------------------------ */

tn_tensor *tn_grad_scaler_scale(tn_grad_scaler *scaler, tn_tensor *loss)
{
    if (!tn_object_check(scaler, &scaler_class, "grad_scaler_scale",
                         "scaler") ||
        !tn_object_check_kind(loss, "tensor", "grad_scaler_scale", "loss"))
        return NULL;
    if (scaler->disabled)
        return loss;
    const bool records = tn_graph_is_recording();
    if ((records ? tn__scaler_record(scaler) : tn__scaler_settle(scaler)) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *wide = tn_dtype_bytes(tn_tensor_dtype(loss)) < 4
                          ? tn_to_dtype(loss, TN_F32)
                          : loss;
    return tn_scope_result(
        scope, records ? tn__scaler_record_scale(scaler, wide)
                       : tn_mul_scalar(wide, scaler->state.scale));
}

/* Multiplies g by number in place. Returns a bool tensor, owned by the scope:
 * whether an element of the product is infinite or NaN. */
static tn_tensor *unscale(tn_tensor *g, const double *number)
{
    static const tn_op *op;
    if (!tn_op_define_once("optim_unscale(grad; number) = "
                           "let y = like(grad * number, grad); "
                           "(y, rany(!(abs(float(y)) < inf)))", &op))
        return NULL;
    int ndim = tn_tensor_ndim(g);
    tn_dims_list rows = {ndim > 0 ? ndim - 1 : 0, {0}};
    for (int d = 0; d + 1 < ndim; d++)
        rows.dim[d] = tn_tensor_shape(g)[d];
    tn_tensor *out[] = {g, tn_zeros(rows, .dtype = TN_BOOL,
                                    .device = tn_tensor_device(g))};
    const tn_value value[] = {
        {.kind = TN_VALUE_TENSOR, .of.tensor = g},
        tn__optim_number(number)};
    if (!out[1] || tn_op_call_into(op, value, 2, out, 2) < 0)
        return NULL;
    return tn_any(out[1]);
}

/* Unscales all gradients of optim, and sets *found_inf to whether one of them is
 * infinite or NaN. The flags of the gradients are combined on the device and read
 * only when the device changes, because each read waits for the device. While work
 * is recorded, none is read: the last one is stored in optim->found. */
static tn_status unscale_all(tn_grad_scaler *scaler, tn_optim *optim,
                             bool *found_inf)
{
    tn_tensor *any = NULL;
    for (tn__optim_group *g = optim->first; g; g = g->next) {
        for (int i = 0; i < tn_parameters_count(g->parameters); i++) {
            tn_tensor *grad = tn_tensor_grad(tn_parameters_at(g->parameters,
                                                              i));
            if (!grad)
                continue;
            if (tn_tensor_dtype(grad) == TN_F16)
                return tn_error_refuse_argument(
                    TN_ERR_DTYPE, "grad_scaler_unscale", "optim",
                    "the gradient of \"%s\" is float16: keep parameters in "
                    "float32, and use TN_AUTOCAST",
                    tn_parameters_name(g->parameters, i));
            tn_tensor *next = unscale(grad, &scaler->inverse);
            bool here = any && next &&
                        tn_tensor_device(any) == tn_tensor_device(next);
            if (any && !here)
                *found_inf |= tn_item_int(any) != 0;
            any = here ? tn_logical_or(any, next) : next;
            if (!any)
                return tn_error_code();
        }
    }
    if (!any)
        return tn_error_refuse_argument(TN_ERR_STATE, "grad_scaler_unscale",
                                        "optim",
                                        "no parameter of the optimizer has a "
                                        "gradient: call tn_backward first");
    if (tn_graph_is_recording())
        return tn__scaler_record_found(scaler, optim, any);
    *found_inf |= tn_item_int(any) != 0;
    return tn_error() ? tn_error_code() : TN_OK;
}

static tn_status unscale_optim(tn_grad_scaler *scaler, tn_optim *optim)
{
    bool found_inf = false;
    tn_status status = tn_graph_is_recording() ? tn__scaler_record(scaler)
                                               : tn__scaler_settle(scaler);
    if (status < 0)
        return status;
    tn__scaler_set_numbers(scaler);
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD {
        status = unscale_all(scaler, optim, &found_inf);
    }
    tn_scope_close(scope);
    if (status < 0)
        return status;
    optim->unscaled = scaler->round;
    optim->found_inf = found_inf;
    scaler->has_unscaled = true;
    scaler->found_inf |= optim->found_inf;
    return TN_OK;
}

tn_status tn_grad_scaler_unscale(tn_grad_scaler *scaler, tn_optim *optim)
{
    tn_status status = check_call("grad_scaler_unscale", scaler);
    if (status < 0)
        return status;
    if (!tn__optim_is(optim, "grad_scaler_unscale"))
        return tn_error_code();
    if (scaler->disabled)
        return TN_OK;
    if (optim->unscaled == scaler->round)
        return tn_error_refuse_argument(TN_ERR_STATE, "grad_scaler_unscale",
                                        "optim",
                                        "the gradients were unscaled already "
                                        "since the last tn_grad_scaler_update");
    return unscale_optim(scaler, optim);
}

int tn_grad_scaler_step(tn_grad_scaler *scaler, tn_optim *optim)
{
    tn_status status = check_call("grad_scaler_step", scaler);
    if (status < 0)
        return status;
    if (!tn__optim_is(optim, "grad_scaler_step"))
        return tn_error_code();
    if (!scaler->disabled && optim->stepped == scaler->round)
        return tn_error_refuse_argument(TN_ERR_STATE, "grad_scaler_step",
                                        "optim",
                                        "the optimizer has stepped already "
                                        "since the last tn_grad_scaler_update");
    if (!scaler->disabled && optim->unscaled != scaler->round)
        status = unscale_optim(scaler, optim);
    bool steps = scaler->disabled || !optim->found_inf;
    if (tn_graph_is_recording() && !scaler->disabled)
        optim->skip = optim->found;
    if (status == TN_OK && steps)
        status = tn_optim_step(optim);
    optim->skip = NULL;
    if (status < 0)
        return status;
    optim->stepped = scaler->round;
    return steps;
}

tn_status tn_grad_scaler_update(tn_grad_scaler *scaler)
{
    tn_status status = check_call("grad_scaler_update", scaler);
    if (status < 0 || scaler->disabled)
        return status;
    if (!tn_graph_is_recording() && (status = tn__scaler_settle(scaler)) < 0)
        return status;
    if (!scaler->has_unscaled)
        return tn_error_refuse_argument(
            TN_ERR_STATE, "grad_scaler_update", NULL,
            "no step since the last update: call tn_grad_scaler_step first");
    if (tn_graph_is_recording())
        status = tn__scaler_record_update(scaler);
    else
        tn__scaler_update(scaler);
    tn__scaler_begin_round(scaler);
    return status;
}

/* ---- state -------------------------------------------------------------- */

/* Checks the argument of a function that reads an attribute, and reads the result
 * of the last replay. NULL returns false without an error. */
static bool is_scaler(const tn_grad_scaler *scaler, const char *call)
{
    return scaler && tn_object_check(scaler, &scaler_class, call, "scaler") &&
           tn__scaler_settle((tn_grad_scaler *)scaler) >= 0;
}

double tn_grad_scaler_factor(const tn_grad_scaler *scaler)
{
    return !is_scaler(scaler, "grad_scaler_factor") ? 0
           : scaler->disabled                       ? 1
                                                    : scaler->state.scale;
}

tn_grad_scaler_state tn_grad_scaler_snapshot(const tn_grad_scaler *scaler)
{
    return is_scaler(scaler, "grad_scaler_snapshot")
               ? scaler->state
               : (tn_grad_scaler_state){0};
}

tn_status tn_grad_scaler_restore(tn_grad_scaler *scaler,
                                   tn_grad_scaler_state state)
{
    tn_status status = check_call("grad_scaler_restore", scaler);
    if (status == TN_OK)
        status = check_state("grad_scaler_restore", "state", &state);
    if (status >= 0)
        status = tn__scaler_settle(scaler);
    if (status < 0)
        return status;
    scaler->state = state;
    tn__scaler_begin_round(scaler);
    return TN_OK;
}
