/* packs.c: which entries share a vector, and in which order vectors are sent. */
#include <parallel/parallel.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/ops.h>

bool tn__ddp_is_listed(const tn_parameter_list *list, const tn_tensor *x)
{
    for (int i = 0; i < tn_parameters_count(list); i++)
        if (tn_parameters_at(list, i) == x)
            return true;
    return false;
}

tn__ddp_entry *tn__ddp_add_entry(tn_ddp *ddp, tn_tensor *x, const char *name)
{
    tn__ddp_entry *e = &ddp->entry[ddp->entries];
    *e = (tn__ddp_entry){.ddp = ddp, .tensor = tn_keep(x), .name = name,
                         .numel = tn_tensor_numel(x), .arrived = INT_MAX};
    ddp->order[ddp->entries] = ddp->entries;
    ddp->entries++;
    return e;
}

tn_tensor *tn__ddp_part(const tn__ddp_entry *e, tn_tensor *vector)
{
    const tn_dims_list shape = tn_dims_from_array(tn_tensor_shape(e->tensor),
                                                  tn_tensor_ndim(e->tensor));
    return tn_view(tn_narrow(vector, 0, e->offset, e->numel), shape);
}

tn_status tn__ddp_put(tn__ddp_entry *e, tn_tensor *values)
{
    tn_ddp *ddp = e->ddp;
    tn_status status = TN_OK;
    TN_NO_GRAD TN_SCOPE(scope) {
        tn__bucket *bucket = &ddp->pack[e->pack].bucket;
        tn_tensor *to = tn__ddp_part(e, tn__bucket_leaf(bucket, ddp->shard));
        if (!tn_copy_(to, values ? values : tn_full_like(to, 0)))
            status = tn_error_code();
    }
    return status;
}

/* ---- the division --------------------------------------------------------- */

/* Sums of half types are float32, on all ranks and within one. */
static tn_dtype sum_dtype(const tn_tensor *x)
{
    return tn_tensor_dtype(x) == TN_F64 ? TN_F64 : TN_F32;
}

/* Whether the k-th entry goes into the pack of the one before it. */
static bool joins(const tn_ddp *ddp, const tn__ddp_pack *p, int k)
{
    const tn__ddp_entry *e = &ddp->entry[ddp->order[k]];
    const tn__bucket *b = &p->bucket;
    return k != ddp->parameters && b->device == tn_tensor_device(e->tensor) &&
           b->dtype == sum_dtype(e->tensor) &&
           (b->numel + e->numel) * (int64_t)tn_dtype_bytes(b->dtype) <=
               ddp->bucket_bytes;
}

static tn_status begin_pack(tn_ddp *ddp, int k)
{
    const tn__ddp_entry *e = &ddp->entry[ddp->order[k]];
    char label[64];
    snprintf(label, sizeof label, "bucket %d (%.40s)", ddp->packs, e->name);
    tn__ddp_pack *p = &ddp->pack[ddp->packs++];
    *p = (tn__ddp_pack){.first = k};
    tn_status status = tn__bucket_init(
        &p->bucket, ddp->group, &ddp->shards, tn_tensor_device(e->tensor),
        sum_dtype(e->tensor), 0, label, ddp->staging);
    if (k < ddp->parameters) {
        ddp->gradient_packs = ddp->packs;
        if (ddp->reduce_dtype != TN_DTYPE_NONE)
            p->bucket.wire = ddp->reduce_dtype;
    }
    return status;
}

tn_status tn__ddp_make_packs(tn_ddp *ddp)
{
    ddp->packs = 0;
    for (int k = 0; k < ddp->entries; k++) {
        const bool joined = ddp->packs &&
                            joins(ddp, &ddp->pack[ddp->packs - 1], k);
        if (!joined && begin_pack(ddp, k) != TN_OK)
            return tn_error_code();
        tn__ddp_entry *e = &ddp->entry[ddp->order[k]];
        tn__ddp_pack *p = &ddp->pack[ddp->packs - 1];
        e->pack = ddp->packs - 1;
        e->offset = p->bucket.numel;
        p->bucket.numel += e->numel;
        p->count++;
    }
    return TN_OK;
}

/* ---- the order ------------------------------------------------------------ */

/* Sets order[0 .. parameters) to the parameters in their order of arrival; those
 * that have none keep theirs, and follow. */
static void sort(const tn_ddp *ddp, int64_t *order)
{
    for (int i = 0; i < ddp->parameters; i++)
        order[i] = -1;
    int count = 0;
    for (int i = 0; i < ddp->parameters; i++)
        if (ddp->entry[i].arrived != INT_MAX) {
            order[ddp->entry[i].arrived] = i;
            count++;
        }
    for (int i = 0; i < ddp->parameters; i++)
        if (ddp->entry[i].arrived == INT_MAX)
            order[count++] = i;
}

static tn_status broadcast_order(tn_ddp *ddp, int64_t *order)
{
    const size_t bytes = sizeof *order * (size_t)ddp->parameters;
    tn_status status = TN_OK;
    TN_NO_GRAD TN_SCOPE(scope) {
        tn_tensor *x = tn_zeros(tn_dims(ddp->parameters), .dtype = TN_I64,
                                .device = tn_device_open("cpu"));
        status = tn_tensor_set_array(x, order, bytes);
        if (status == TN_OK)
            status = tn_dist_broadcast(x, 0, ddp->group,
                                       .label = "order of gradients");
        if (status == TN_OK)
            status = tn_tensor_to_array(x, order, bytes);
    }
    return status;
}

/* Changes the order to that of rank 0, and divides the entries anew. */
static tn_status reorder(tn_ddp *ddp)
{
    if (ddp->gradient_packs < 2)
        return TN_OK;
    int64_t *order = malloc(sizeof *order * (size_t)ddp->parameters);
    if (!order)
        return tn_error_refuse_argument(TN_ERR_MEMORY, "ddp_next", NULL,
                                        "out of memory");
    sort(ddp, order);
    tn_status status = broadcast_order(ddp, order);
    bool same = true;
    for (int k = 0; k < ddp->parameters && status == TN_OK; k++) {
        same = same && ddp->order[k] == order[k];
        ddp->order[k] = (int)order[k];
    }
    free(order);
    if (status != TN_OK || same)
        return status;
    /* Gradients are views of the vectors of this step, and keep them. */
    for (int i = 0; i < ddp->packs; i++)
        tn__bucket_fini(&ddp->pack[i].bucket);
    return tn__ddp_make_packs(ddp);
}

/* The memory that the engine moves without copies is taken when the vectors are
 * final, so that it is not taken twice. */
tn_status tn__ddp_learn_order(tn_ddp *ddp)
{
    if (ddp->ordered)
        return TN_OK;
    ddp->ordered = true;
    tn_status status = reorder(ddp);
    for (int i = 0; i < ddp->packs && status == TN_OK; i++)
        status = tn__bucket_share(&ddp->pack[i].bucket);
    return status;
}
