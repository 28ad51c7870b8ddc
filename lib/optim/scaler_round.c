/* scaler_round.c: rounds of a gradient scaler, also within recorded work
 * (scaler.h). */
#include <optim/scaler.h>

#include <math.h>
#include <stdatomic.h>
#include <tenon/autograd.h>
#include <tenon/graph.h>
#include <tenon/ops.h>

void tn__scaler_release(void *object)
{
    tn_grad_scaler *scaler = object;
    tn_drop(scaler->update);
    for (tn_optim *o = scaler->scaled, *next; o; o = next) {
        next = o->next_scaled;
        o->scaler = NULL;
        o->next_scaled = NULL;
        tn_drop(o);
    }
}

void tn__scaler_set_numbers(tn_grad_scaler *scaler)
{
    scaler->scale = scaler->state.scale;
    scaler->inverse = (float)(1 / scaler->state.scale);
}

void tn__scaler_begin_round(tn_grad_scaler *scaler)
{
    static _Atomic int64_t rounds;
    scaler->round = atomic_fetch_add(&rounds, 1) + 1;
    scaler->has_unscaled = scaler->found_inf = false;
}

void tn__scaler_update(tn_grad_scaler *scaler)
{
    tn_grad_scaler_state *s = &scaler->state;
    if (scaler->found_inf) {
        float less = (float)(s->scale * s->backoff_factor);
        s->scale = (double)less < TN__SCALER_MIN ? TN__SCALER_MIN : (double)less;
        s->growth_tracker = 0;
    } else if (++s->growth_tracker == s->growth_interval) {
        float grown = (float)(s->scale * s->growth_factor);
        if (isfinite(grown))
            s->scale = grown;
        s->growth_tracker = 0;
    }
}

/* ---- settling -------------------------------------------------------------- */

tn_status tn__scaler_settle(tn_grad_scaler *scaler)
{
    if (!scaler->pending)
        return TN_OK;
    scaler->pending = false;
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD
    {
        for (tn_optim *o = scaler->scaled; o; o = o->next_scaled) {
            if (tn_item_int(o->found) <= 0)
                continue;
            tn__optim_take_back(o);
            tn_fill_scalar_(o->found, false);
            scaler->found_inf = true;
        }
    }
    tn_scope_close(scope);
    if (tn_error())
        return tn_error_code();
    scaler->has_unscaled = true;
    if (scaler->updates) {
        tn__scaler_update(scaler);
        tn__scaler_begin_round(scaler);
    }
    return TN_OK;
}

tn_status tn__optim_settle(const tn_optim *optim)
{
    return optim->scaler ? tn__scaler_settle(optim->scaler) : TN_OK;
}

/* ---- recording ------------------------------------------------------------- */

static tn_status advance(void *object)
{
    tn_grad_scaler *scaler = object;
    const tn_status status = tn__scaler_settle(scaler);
    if (status < 0)
        return status;
    tn__scaler_set_numbers(scaler);
    scaler->pending = true;
    scaler->updates = false;
    if (scaler->capturing)
        /* Flags of a recording that fails before it has set them are not of
         * this round. */
        for (tn_optim *o = scaler->scaled; o; o = o->next_scaled)
            if (!tn_fill_scalar_(o->found, false))
                return tn_error_code();
    return TN_OK;
}

static void take_back(void *object)
{
    ((tn_grad_scaler *)object)->pending = false;
}

static const tn_graph_host host = {
    .size = sizeof host, .advance = advance, .take_back = take_back};

tn_status tn__scaler_record(tn_grad_scaler *scaler)
{
    scaler->capturing = true;
    const int given = tn_graph_on_replay(scaler, &host);
    scaler->capturing = false;
    return given < 0 ? given : TN_OK;
}

/* The host part of a recorded update. It comes after that of the scaler. */
typedef struct recorded_update {
    tn_object object;
    tn_grad_scaler *scaler; /* not owned; the recording has a reference */
} recorded_update;

static const tn_object_class update_class = {
    sizeof update_class, "update of a gradient scaler",
    sizeof(recorded_update), NULL};

static tn_status advance_update(void *object)
{
    ((recorded_update *)object)->scaler->updates = true;
    return TN_OK;
}

static const tn_graph_host update_host = {.size = sizeof update_host,
                                          .advance = advance_update};

tn_status tn__scaler_record_update(tn_grad_scaler *scaler)
{
    if (!scaler->update) {
        tn_scope *scope = tn_scope_open();
        recorded_update *update = tn_object_new(&update_class, 0);
        if (update)
            update->scaler = scaler;
        scaler->update = tn_keep(update);
        tn_scope_close(scope);
    }
    const int given = scaler->update
                          ? tn_graph_on_replay(scaler->update, &update_host)
                          : tn_error_code();
    return given < 0 ? given : TN_OK;
}

tn_tensor *tn__scaler_record_scale(const tn_grad_scaler *scaler,
                                   tn_tensor *loss)
{
    tn_tensor *scale = NULL;
    TN_NO_GRAD
    {
        scale = tn_mul_scalar(tn_ones(TN_SCALAR,
                                      .dtype = tn_tensor_dtype(loss),
                                      .device = tn_tensor_device(loss)),
                              tn__optim_scalar(&scaler->scale));
    }
    return tn_mul(loss, scale);
}

/* Takes an optimizer out of its scaler's list. */
static void unlink_optim(tn_optim *optim)
{
    tn_optim **at = &optim->scaler->scaled;
    while (*at != optim)
        at = &(*at)->next_scaled;
    *at = optim->next_scaled;
    optim->next_scaled = NULL;
    optim->scaler = NULL;
    tn_drop(optim);
}

tn_status tn__scaler_record_found(tn_grad_scaler *scaler, tn_optim *optim,
                                  tn_tensor *found)
{
    if (optim->scaler && optim->scaler != scaler) {
        if (optim->scaler->pending)
            return tn_error_refuse_argument(
                TN_ERR_STATE, "grad_scaler_unscale", "optim",
                "its last step was recorded with another gradient scaler, whose "
                "result the host has not read: call tn_grad_scaler_factor with "
                "that one first");
        unlink_optim(optim);
    }
    if (!optim->found) {
        optim->found = tn_keep(tn_zeros_like(found));
        if (!optim->found)
            return tn_error_code();
    }
    if (!optim->scaler) {
        optim->scaler = scaler;
        optim->next_scaled = scaler->scaled;
        scaler->scaled = tn_keep(optim);
    }
    return tn_copy_(optim->found, found) ? TN_OK : tn_error_code();
}
