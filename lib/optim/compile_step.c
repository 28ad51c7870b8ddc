/* compile_step.c: makes a compiled function that runs a whole training step
 * (tn_compile_step). */
#include <optim/optim.h>

#include <math.h>
#include <stdlib.h>
#include <tenon/autograd.h>
#include <tenon/compile.h>
#include <tenon/ops.h>

typedef struct training_step {
    tn_object object;
    tn_compile_fn fn;
    void *context;
    void *kept; /* an object, counted reference; NULL without the option */
    tn_optim *optim;        /* counted reference */
    tn_grad_scaler *scaler; /* counted reference; may be NULL */
    double max_norm, norm_type, clip_value;
    bool keep_grads;
} training_step;

static void release(void *object)
{
    training_step *s = object;
    tn_drop(s->kept);
    tn_drop(s->optim);
    tn_drop(s->scaler);
}

static const tn_object_class step_class = {
    sizeof step_class, "training step", sizeof(training_step), release};

/* Returns the parameters of all groups as one list, owned by the scope. */
static tn_parameter_list *all_parameters(const tn_optim *optim)
{
    int count = 0;
    for (const tn__optim_group *g = optim->first; g; g = g->next)
        count += tn_parameters_count(g->parameters);
    tn_tensor **all = malloc((size_t)(count + 1) * sizeof *all);
    if (!all) {
        tn_error_refuse_argument(TN_ERR_MEMORY, "compiled_run", NULL,
                                 "out of memory");
        return NULL;
    }
    count = 0;
    for (const tn__optim_group *g = optim->first; g; g = g->next)
        for (int i = 0; i < tn_parameters_count(g->parameters); i++)
            all[count++] = tn_parameters_at(g->parameters, i);
    tn_parameter_list *list = tn_parameters_from(all, count);
    free(all);
    return list;
}

static tn_status clip(const training_step *s)
{
    tn_status status = TN_OK;
    for (tn__optim_group *g = s->optim->first; g && status >= 0; g = g->next)
        if (!tn_is_none_float(s->clip_value))
            status = tn_clip_grad_value(g->parameters, s->clip_value);
    if (tn_is_none_float(s->max_norm) || status < 0)
        return status;
    /* The norm is that of the gradients of all groups. */
    const tn_parameter_list *all = s->optim->first->next
                                       ? all_parameters(s->optim)
                                       : s->optim->first->parameters;
    return all && tn_clip_grad_norm_on_device(all, s->max_norm,
                                              .norm_type = s->norm_type)
               ? TN_OK
               : tn_error_code();
}

static tn_status update(const training_step *s)
{
    if (!s->scaler)
        return tn_optim_step(s->optim);
    const int stepped = tn_grad_scaler_step(s->scaler, s->optim);
    return stepped < 0 ? stepped : tn_grad_scaler_update(s->scaler);
}

static tn_status run(tn_tensor *const *in, int in_count, tn_tensor **out,
                     int out_count, void *context)
{
    const training_step *s = context;
    if (out_count < 1)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "compiled_run", "out_count",
            "out_count is %d; a training step has at least 1 output, the loss",
            out_count);
    tn_optim_zero_grad(s->optim);
    tn_status status = s->fn(in, in_count, out, out_count, s->context);
    if (status < 0)
        return status;
    if (!out[0])
        return tn_error() ? tn_error_code()
                          : tn_error_refuse_argument(
                                TN_ERR_ARGUMENT, "compiled_run", NULL,
                                "the function of a training step has not set "
                                "out[0], the loss");
    status = tn_backward(s->scaler ? tn_grad_scaler_scale(s->scaler, out[0])
                                   : out[0]);
    if (status >= 0 && s->scaler)
        status = tn_grad_scaler_unscale(s->scaler, s->optim);
    if (status >= 0)
        status = clip(s);
    if (status >= 0)
        status = update(s);
    for (int o = 0; o < out_count; o++)
        out[o] = out[o] ? tn_detach(out[o]) : NULL;
    if (!s->keep_grads)
        tn_optim_zero_grad(s->optim);
    return tn_error() ? tn_error_code() : status;
}

TN_OPTIONS_TYPE(tn_compile_step, "compile_step", "fn, context, optim",
                TN_COMPILE_STEP_OPTIONS_LIST)

/* Checks a limit, which may be infinite. */
static bool check_limit(const char *option, double limit)
{
    if (tn_is_none_float(limit) || limit >= 0)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, "compile_step", option,
                             "%s is %g; expected at least 0", option, limit);
    return false;
}

static bool check_options(const tn_compile_step_options *o)
{
    const char *call = "compile_step";
    if (isnan(o->norm_type))
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "norm_type",
                                 "norm_type is NaN; expected a number");
    return !tn_error() && check_limit("max_norm", o->max_norm) &&
           check_limit("clip_value", o->clip_value) &&
           (!o->scaler || tn_object_check_kind(o->scaler, "gradient scaler",
                                               call, "scaler"));
}

tn_compiled *tn_compile_step_with(tn_compile_fn fn, void *context,
                                  tn_optim *optim,
                                  const tn_compile_step_options *options)
{
    const char *call = "compile_step";
    tn_compile_step_options o;
    if (tn_error() || !tn__optim_is(optim, call) ||
        tn_options_take(tn_compile_step_type(), &o, options) < 0 ||
        !check_options(&o))
        return NULL;
    if (!fn || optim->rule->closure) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, fn ? "optim" : "fn",
            fn ? "a step of %s evaluates the loss several times, as often as "
                 "its values require"
               : "fn is NULL",
            optim->rule->name);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn_compiled *compiled = NULL;
    training_step *s = tn_object_new(&step_class, 0);
    if (s) {
        s->fn = fn;
        s->context = context;
        s->kept = o.keep ? tn_keep(o.keep) : NULL;
        s->optim = tn_keep(optim);
        s->scaler = o.scaler ? tn_keep(o.scaler) : NULL;
        s->max_norm = o.max_norm;
        s->norm_type = o.norm_type;
        s->clip_value = o.clip_value;
        s->keep_grads = o.keep_grads;
        compiled = tn_compile(run, s, .plans = o.plans,
                              .check_every = o.check_every, .fuse = o.fuse,
                              .memory = o.memory, .donate = o.donate,
                              .name = o.name ? o.name : "compiled step",
                              .keep = s);
    }
    return tn_scope_result(scope, compiled);
}
