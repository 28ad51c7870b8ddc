/* restrict.c: an optimizer that has state for a part of its parameters' elements,
 * and updates these alone. Other processes update the others. */
#include <optim/optim.h>

#include <inttypes.h>
#include <stdio.h>
#include <tenon/ops.h>

tn_tensor *tn__optim_part(const tn_optim *optim, const tn__optim_state *state,
                          tn_tensor *x)
{
    if (!x || !tn__optim_is_cut(optim, state, x))
        return x;
    if (state->range.count == 0)
        return NULL;
    /* A gradient need not be contiguous; the parameter is (tn_optim_restrict), so
     * that its part is a view. */
    return tn_narrow(tn_reshape(x, tn_dims(-1)), 0, state->range.offset,
                     state->range.count);
}

bool tn_optim_is_elementwise(const tn_optim *optim)
{
    return tn__optim_is(optim, "optim_is_elementwise") &&
           !optim->rule->step && !optim->rule->closure;
}

static tn_status refuse_parameter(const tn__optim_group *g, int i,
                                  tn_status status, const char *what)
{
    return tn_error_refuse_argument(status, "optim_restrict", "ranges",
                                    "parameter \"%s\" %s",
                                    tn_parameters_name(g->parameters, i), what);
}

static tn_status check_range(const tn__optim_group *g, int i,
                             const tn_optim_range *range)
{
    const tn_tensor *p = tn_parameters_at(g->parameters, i);
    const int64_t numel = tn_tensor_numel(p);
    char what[128];
    if (range->offset < 0 || range->count < 0 || range->offset > numel ||
        range->count > numel - range->offset)
        snprintf(what, sizeof what, "has %" PRId64 " elements, but its range is "
                 "%" PRId64 " + %" PRId64, numel, range->offset, range->count);
    else if (range->count && range->count < numel && g->optim->rule->step)
        snprintf(what, sizeof what, "is cut, but %s needs whole parameters",
                 g->optim->rule->name);
    else if (!tn_tensor_is_contiguous(p))
        snprintf(what, sizeof what, "is not contiguous");
    else if (g->state[i].progress.steps)
        return refuse_parameter(g, i, TN_ERR_STATE, "has made a step already: "
                                "divide the optimizer before its first step");
    else
        return TN_OK;
    return refuse_parameter(g, i, TN_ERR_ARGUMENT, what);
}

static tn_status check(const tn_optim *optim, const tn_optim_range *ranges,
                       int count)
{
    static const char call[] = "optim_restrict";
    if (!ranges)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "ranges",
                                        "ranges is NULL");
    if (optim->rule->closure)
        return tn_error_refuse_argument(
            TN_ERR_UNSUPPORTED, call, "optim",
            "%s searches along a direction through all parameters, so its state "
            "cannot be divided", optim->rule->name);
    if (optim->after)
        return tn_error_refuse_argument(TN_ERR_STATE, call, "optim",
                                        "it is divided already");
    int at = 0;
    for (const tn__optim_group *g = optim->first; g; g = g->next)
        for (int i = 0; i < tn_parameters_count(g->parameters); i++, at++)
            if (at < count && check_range(g, i, &ranges[at]) < 0)
                return tn_error_code();
    return at == count
               ? TN_OK
               : tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "count",
                                          "count is %d, but %s has %d parameters",
                                          count, optim->rule->name, at);
}

tn_status tn_optim_restrict(tn_optim *optim, const tn_optim_range *ranges,
                            int count, tn_status (*after)(void *context),
                            void *context, void (*release)(void *context))
{
    tn_status status = TN_ERR_STATE;
    if (!tn_error())
        status = tn__optim_is(optim, "optim_restrict")
                     ? check(optim, ranges, count)
                     : tn_error_code();
    if (status < 0 || !after) {
        if (release)
            release(context);
        return status;
    }
    for (tn__optim_group *g = optim->first; g; g = g->next)
        for (int i = 0; i < tn_parameters_count(g->parameters); i++)
            g->state[i].range = *ranges++;
    optim->after = after;
    optim->context = context;
    optim->release = release;
    optim->version++;
    return TN_OK;
}
