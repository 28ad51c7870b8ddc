/* buffers.c: what a step makes of a model's buffers, such as batch statistics.
 *
 * Each shard begins with the values that the step began with. Those of a
 * floating-point dtype are then entries like gradients: the step gives them the
 * mean of the shards, or the values of shard 0. Those of an integer dtype, which
 * count, have the values of the last shard that counted. */
#include <parallel/parallel.h>

#include <tenon/ops.h>

static tn_status find_buffer(tn_ddp *ddp, tn_tensor *x, const char *name)
{
    tn__ddp_saved *s = &ddp->saved[ddp->saves++];
    *s = (tn__ddp_saved){.tensor = tn_keep(x), .before = tn_keep(tn_clone(x))};
    if (!s->before)
        return tn_error_code();
    if (tn_dtype_is_floating(tn_tensor_dtype(x)))
        tn__ddp_add_entry(ddp, x, name);
    else
        s->after = tn_keep(tn_clone(x));
    return tn_error() ? tn_error_code() : TN_OK;
}

tn_status tn__ddp_find_buffers(tn_ddp *ddp, const tn_parameter_list *parameters)
{
    tn_status status = TN_OK;
    for (int i = 0; i < tn_parameters_count(ddp->state) && status == TN_OK; i++) {
        tn_tensor *x = tn_parameters_at(ddp->state, i);
        if (!tn__ddp_is_listed(parameters, x))
            status = find_buffer(ddp, x, tn_parameters_name(ddp->state, i));
    }
    return status;
}

tn_status tn__ddp_copy_buffers(tn_ddp *ddp, bool restore)
{
    tn_status status = TN_OK;
    TN_NO_GRAD
        for (int i = 0; i < ddp->saves && status == TN_OK; i++) {
            tn__ddp_saved *s = &ddp->saved[i];
            tn_tensor *to = restore ? s->tensor : s->before;
            if (!tn_copy_(to, restore ? s->before : s->tensor))
                status = tn_error_code();
            s->has_after &= restore;
        }
    return status;
}

static tn__ddp_saved *saved_of(tn_ddp *ddp, const tn__ddp_entry *e)
{
    int i = 0;
    while (ddp->saved[i].tensor != e->tensor)
        i++;
    return &ddp->saved[i];
}

/* Whether a shard changed a buffer. */
static bool is_changed(tn_ddp *ddp, const tn__ddp_entry *e)
{
    return tn_item(tn_equal(e->tensor, saved_of(ddp, e)->before)) == 0;
}

tn_status tn__ddp_put_buffers(tn_ddp *ddp)
{
    for (int i = ddp->parameters; i < ddp->entries; i++) {
        tn__ddp_entry *e = &ddp->entry[i];
        const bool counts = !ddp->first_buffers || ddp->shard == 0;
        e->used = ddp->first_buffers || is_changed(ddp, e);
        if (tn__ddp_put(e, counts ? e->tensor : NULL) != TN_OK)
            return tn_error_code();
    }
    TN_NO_GRAD for (int i = 0; i < ddp->saves && ddp->weight != 0; i++) {
        tn__ddp_saved *s = &ddp->saved[i];
        if (s->after && !tn_copy_(s->after, s->tensor))
            return tn_error_code();
        s->has_after = true;
    }
    return TN_OK;
}

/* Gives the integer buffers of all ranks the largest of their values: a rank
 * without data has counted fewer steps. One collective for all of them. */
static tn_status agree(tn_ddp *ddp)
{
    tn_device *cpu = tn_device_open("cpu");
    int64_t total = 0, at = 0;
    for (int i = 0; i < ddp->saves; i++)
        total += ddp->saved[i].after ? tn_tensor_numel(ddp->saved[i].tensor) : 0;
    if (!total)
        return TN_OK;
    tn_tensor *all = tn_empty(tn_dims(total), .dtype = TN_I64, .device = cpu);
    for (int pass = 0; pass < 2 && !tn_error(); pass++, at = 0) {
        if (pass)
            tn_dist_all_reduce(all, ddp->group, .reduce = "max",
                               .label = "integer buffers");
        for (int i = 0; i < ddp->saves; i++) {
            const tn__ddp_saved *s = &ddp->saved[i];
            if (!s->after)
                continue;
            const int64_t numel = tn_tensor_numel(s->tensor);
            tn_tensor *part = tn_narrow(all, 0, at, numel);
            tn_tensor *from = tn_reshape(s->has_after ? s->after : s->before,
                                         tn_dims(-1));
            const tn_dims_list shape = tn_dims_from_array(
                tn_tensor_shape(s->tensor), tn_tensor_ndim(s->tensor));
            if (pass == 0)
                tn_copy_(part, tn_to(from, cpu));
            else
                tn_copy_(s->tensor, tn_to(tn_view(part, shape),
                                          tn_tensor_device(s->tensor)));
            at += numel;
        }
    }
    return tn_error() ? tn_error_code() : TN_OK;
}

tn_status tn__ddp_end_buffers(tn_ddp *ddp)
{
    /* All ranks know whether one has given a weight. */
    if (ddp->fact[ddp->entries + 2] == 0)
        return TN_OK;
    tn_status status = TN_OK;
    TN_NO_GRAD TN_SCOPE(scope) {
        status = agree(ddp);
        /* A shard without weight may have changed what no other has. */
        for (int i = ddp->parameters; i < ddp->entries && status == TN_OK; i++)
            if (ddp->fact[i] == 0 &&
                !tn_copy_(ddp->entry[i].tensor,
                          saved_of(ddp, &ddp->entry[i])->before))
                status = tn_error_code();
    }
    return status;
}
