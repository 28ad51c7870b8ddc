/* ddp.c: data parallel training: <tenon/parallel.h>.
 *
 * A hook of each parameter copies its gradient into a vector that it shares with
 * others (a pack), as soon as the gradient is complete. In the last shard of a
 * rank a pack is sent when all its gradients are there, while the backward pass
 * goes on. Packs are sent in the order of their numbers, which all ranks have in
 * common. It is at first the parameters from the last to the first, as most
 * backward passes find them, then the order in which the gradients of rank 0
 * arrived in the first step (order.c). Two more packs follow: the buffers, and a
 * few numbers about the step. */
#include <parallel/parallel.h>

#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>

/* ---- packs ---------------------------------------------------------------- */

static bool is_last(const tn_ddp *ddp)
{
    return ddp->shard == ddp->shards.first + ddp->shards.own - 1;
}

/* Multiplies the shard's vector by its weight. A weight of 0 counts nothing, also
 * where the shard has made infinity or NaN. */
static tn_status weigh(tn_ddp *ddp, tn__bucket *bucket)
{
    tn_status status = TN_OK;
    TN_NO_GRAD TN_SCOPE(scope) {
        tn_tensor *leaf = tn__bucket_leaf(bucket, ddp->shard);
        if (!(ddp->weight == 0 ? tn_copy_(leaf, tn_full_like(leaf, 0))
                               : tn_mul_scalar_(leaf, ddp->weight)))
            status = tn_error_code();
    }
    return status;
}

static tn_status close_bucket(tn_ddp *ddp, tn__bucket *bucket, bool weighed)
{
    if (weighed && ddp->weight != 1 && weigh(ddp, bucket) != TN_OK)
        return tn_error_code();
    if (tn__bucket_add(bucket, ddp->shard) != TN_OK)
        return tn_error_code();
    return is_last(ddp) ? tn__bucket_send(bucket) : TN_OK;
}

/* Closes the packs of gradients that are complete; all of them at the end of a
 * shard, when what is missing is 0. */
static tn_status close_packs(tn_ddp *ddp, bool all)
{
    for (; ddp->next < ddp->gradient_packs; ddp->next++) {
        tn__ddp_pack *p = &ddp->pack[ddp->next];
        if (p->missing && !all)
            return TN_OK;
        for (int k = p->first; p->missing && k < p->first + p->count; k++) {
            tn__ddp_entry *e = &ddp->entry[ddp->order[k]];
            if (!e->fired && tn__ddp_put(e, NULL) != TN_OK)
                return tn_error_code();
        }
        if (close_bucket(ddp, &p->bucket, true) != TN_OK)
            return tn_error_code();
    }
    return TN_OK;
}

/* Makes progress for what was sent. */
static void poll_packs(tn_ddp *ddp)
{
    for (int i = 0; i < ddp->next; i++)
        if (ddp->pack[i].bucket.work && !tn_work_is_done(ddp->pack[i].bucket.work))
            return;
}

static tn_status take_gradient(tn_tensor *x, void *context)
{
    tn__ddp_entry *e = context;
    tn_ddp *ddp = e->ddp;
    if (ddp->shard < 0)
        return TN_OK; /* a backward pass of its own, outside of a step */
    if (e->fired)
        return tn_error_set(
            TN_ERR_STATE, "ddp_next: a second gradient of %s in one shard: add "
            "the losses, and call tn_backward once", e->name);
    if (!tn_tensor_grad(x))
        return tn_error_set(
            TN_ERR_STATE, "ddp_next: the gradient of %s was taken by another hook, "
            "perhaps of a second tn_ddp of the same model", e->name);
    if (tn__ddp_put(e, tn_tensor_grad(x)) != TN_OK ||
        tn_tensor_set_grad(x, NULL) < 0)
        return tn_error_code();
    e->fired = ddp->has_gradient = true;
    e->used = ddp->weight != 0;
    if (!ddp->ordered && e->arrived == INT_MAX)
        e->arrived = ddp->arrivals++;
    ddp->pack[e->pack].missing--;
    tn_status status = close_packs(ddp, false);
    if (is_last(ddp))
        poll_packs(ddp);
    return status;
}

/* ---- shards --------------------------------------------------------------- */

/* A seed of its own for each step and shard (splitmix64 of the three). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static tn_status begin_shard(tn_ddp *ddp, int64_t shard)
{
    ddp->shard = shard;
    ddp->weight = 1;
    ddp->has_gradient = false;
    ddp->next = 0;
    for (int i = 0; i < ddp->packs; i++)
        ddp->pack[i].missing = ddp->pack[i].count;
    for (int i = 0; i < ddp->entries; i++)
        ddp->entry[i].fired = ddp->entry[i].used = false;
    memset(ddp->fact, 0, sizeof *ddp->fact * (size_t)(ddp->entries + 3));
    tn_rng_restore((tn_rng_state){
        .seed = mix(ddp->seed + mix(ddp->step + mix((uint64_t)shard)))});
    return shard > ddp->shards.first ? tn__ddp_copy_buffers(ddp, true)
                                       : TN_OK;
}

static tn_status begin_step(tn_ddp *ddp)
{
    ddp->before = tn_rng_snapshot();
    for (int i = 0; i < ddp->packs; i++)
        tn__bucket_clear(&ddp->pack[i].bucket);
    tn__bucket_clear(&ddp->facts);
    for (int i = 0; i < ddp->parameters; i++)
        if (tn_tensor_set_grad(ddp->entry[i].tensor, NULL) < 0)
            return tn_error_code();
    if (tn__ddp_copy_buffers(ddp, false) != TN_OK)
        return tn_error_code();
    return begin_shard(ddp, ddp->shards.first);
}

static tn_status end_shard(tn_ddp *ddp)
{
    if (close_packs(ddp, true) != TN_OK || tn__ddp_put_buffers(ddp) != TN_OK)
        return tn_error_code();
    for (int i = ddp->gradient_packs; i < ddp->packs; i++)
        if (close_bucket(ddp, &ddp->pack[i].bucket, !ddp->first_buffers) != TN_OK)
            return tn_error_code();
    double *loss = &ddp->fact[ddp->entries], *weight = loss + 1;
    for (int i = 0; i < ddp->entries; i++)
        ddp->fact[i] = ddp->entry[i].used &&
                       (ddp->weight != 0 || ddp->first_buffers);
    *loss = ddp->weight == 0 ? 0 : *loss * ddp->weight;
    weight[0] = ddp->weight;
    weight[1] = ddp->weight != 1;
    tn_tensor *leaf = tn__bucket_leaf(&ddp->facts, ddp->shard);
    const size_t bytes = sizeof *ddp->fact * (size_t)(ddp->entries + 3);
    if (tn_tensor_set_array(leaf, ddp->fact, bytes) < 0)
        return tn_error_code();
    return close_bucket(ddp, &ddp->facts, false);
}

/* Takes the mean of a pack to the gradients or buffers of its entries. divisor: the
 * weight of all shards. */
static tn_status take_mean(tn_ddp *ddp, tn__ddp_pack *p, double divisor)
{
    tn_tensor *sum = tn__bucket_sum(&p->bucket);
    tn_status status = sum ? TN_OK : tn_error_code();
    if (status != TN_OK || divisor == 0)
        return status;
    TN_NO_GRAD TN_SCOPE(scope) {
        tn_tensor *mean = divisor == 1 ? sum : tn_mul_scalar_(sum, 1.0 / divisor);
        for (int k = p->first; mean && k < p->first + p->count; k++) {
            tn__ddp_entry *e = &ddp->entry[ddp->order[k]];
            if (ddp->fact[ddp->order[k]] == 0)
                continue;
            tn_tensor *own = tn__ddp_part(e, mean);
            if (!e->hook)
                tn_copy_(e->tensor, own);
            else
                tn_tensor_set_grad(
                    e->tensor, tn_to_dtype(own, tn_tensor_dtype(e->tensor)));
        }
        status = tn_error() ? tn_error_code() : TN_OK;
    }
    return status;
}

static tn_status end_step(tn_ddp *ddp)
{
    tn_tensor *facts = tn__bucket_sum(&ddp->facts);
    const size_t bytes = sizeof *ddp->fact * (size_t)(ddp->entries + 3);
    if (!facts || tn_tensor_to_array(facts, ddp->fact, bytes) < 0)
        return tn_error_code();
    const double loss = ddp->fact[ddp->entries];
    const double weight = ddp->fact[ddp->entries + 1];
    for (int i = 0; i < ddp->packs; i++) {
        const bool first = i >= ddp->gradient_packs && ddp->first_buffers;
        if (take_mean(ddp, &ddp->pack[i], first ? 1 : weight) != TN_OK)
            return tn_error_code();
    }
    if (tn__ddp_end_buffers(ddp) != TN_OK || tn__ddp_learn_order(ddp) != TN_OK)
        return tn_error_code();
    ddp->loss = loss / weight; /* NAN if no shard counts */
    ddp->step++;
    return TN_OK;
}

/* ---- making it ------------------------------------------------------------ */

static void release(void *object)
{
    tn_ddp *ddp = object;
    for (int i = 0; i < ddp->entries; i++) {
        if (ddp->entry[i].hook)
            tn_hook_remove(ddp->entry[i].hook);
        tn_drop(ddp->entry[i].hook);
        tn_drop(ddp->entry[i].tensor);
    }
    for (int i = 0; i < ddp->packs; i++)
        tn__bucket_fini(&ddp->pack[i].bucket);
    if (ddp->has_facts)
        tn__bucket_fini(&ddp->facts);
    for (int i = 0; i < ddp->saves; i++) {
        tn_drop(ddp->saved[i].tensor);
        tn_drop(ddp->saved[i].before);
        tn_drop(ddp->saved[i].after);
    }
    free(ddp->entry);
    free(ddp->order);
    free(ddp->pack);
    free(ddp->saved);
    free(ddp->fact);
    tn_drop(ddp->state);
    tn_drop(ddp->group);
}

static const tn_object_class ddp_class = {.size = sizeof ddp_class,
                                          .name = "data parallel model",
                                          .bytes = sizeof(tn_ddp),
                                          .release = release};

/* Fills the entries: parameters from the last to the first, then buffers. */
static tn_status find_entries(tn_ddp *ddp, tn_module *net)
{
    tn_parameter_list *parameters = tn_parameters(net);
    const int count = tn_parameters_count(ddp->state);
    for (int i = count; i-- > 0;) {
        tn_tensor *x = tn_parameters_at(ddp->state, i);
        if (!tn__ddp_is_listed(parameters, x) || !tn_tensor_requires_grad(x))
            continue;
        tn__ddp_entry *e = tn__ddp_add_entry(
            ddp, x, tn_parameters_name(ddp->state, i));
        e->hook = tn_keep(
            tn_tensor_register_post_accumulate_grad_hook(x, take_gradient, e));
        if (!e->hook)
            return tn_error_code();
    }
    ddp->parameters = ddp->entries;
    if (ddp->parameters)
        return tn__ddp_find_buffers(ddp, parameters);
    return tn_error_refuse_argument(TN_ERR_ARGUMENT, "ddp_new", "net",
                                    "no parameter of net requires a gradient");
}

static tn_status make_facts(tn_ddp *ddp)
{
    tn_device *cpu = tn_device_open("cpu");
    ddp->has_facts = true;
    return cpu ? tn__bucket_init(&ddp->facts, ddp->group, &ddp->shards, cpu,
                                 TN_F64, ddp->entries + 3, "facts of the step",
                                 false)
               : tn_error_code();
}

/* Gives all ranks rank 0's values of tensor i of the model. Ranks that train other
 * parameters would add gradients of different ones: the label says which it
 * trains, and labels are compared. */
static tn_status agree_on(tn_ddp *ddp, int i)
{
    char label[64];
    tn_tensor *x = tn_parameters_at(ddp->state, i);
    const char *name = tn_parameters_name(ddp->state, i);
    const size_t length = strlen(name), most = 45;
    if (length > most)
        name += length - most; /* the end of a path says more */
    snprintf(label, sizeof label, "%s%s", name,
             tn_tensor_requires_grad(x) ? "" : " without gradient");
    return tn_dist_broadcast(x, 0, ddp->group, .staging = ddp->staging,
                             .label = label);
}

/* All ranks get what rank 0 has, and its seed. They must have the same number of
 * shards, and treat buffers alike. */
static tn_status agree(tn_ddp *ddp)
{
    char label[64];
    snprintf(label, sizeof label, "seed, .shards = %" PRId64 ", .buffers = \"%s\"",
             ddp->shards.count, ddp->first_buffers ? "first" : "mean");
    tn_status status = TN_OK;
    TN_NO_GRAD TN_SCOPE(scope) {
        for (int i = 0; i < tn_parameters_count(ddp->state) && status == TN_OK;
             i++)
            status = agree_on(ddp, i);
        int64_t seed = (int64_t)tn_rng_snapshot().seed;
        tn_device *before = tn_device_current();
        tn_device_set(tn_device_open("cpu"));
        tn_tensor *x = tn_tensor_from_array(&seed, TN_I64, tn_dims(1));
        tn_device_set(before);
        if (status == TN_OK)
            status = tn_dist_broadcast(x, 0, ddp->group, .label = label);
        if (status == TN_OK)
            status = tn_tensor_to_array(x, &seed, sizeof seed);
        ddp->seed = (uint64_t)seed;
    }
    return status;
}

TN_OPTIONS_TYPE(tn_ddp_new, "ddp_new", "net, group", TN_DDP_NEW_OPTIONS_LIST)

static bool check_options(const tn_ddp_new_options *o, tn_group *group)
{
    const int size = tn_group_size(group);
    if (size && (o->shards < 0 || o->shards > 65536 || o->shards % size))
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "ddp_new", "shards", ".shards is %" PRId64
            ": expected a multiple of the %d ranks, at most 65536", o->shards,
            size);
    else if (o->bucket_bytes < 1)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "ddp_new", "bucket_bytes",
                                 ".bucket_bytes is %" PRId64
                                 ": expected at least 1", o->bucket_bytes);
    else if (o->reduce_dtype != TN_DTYPE_NONE && o->reduce_dtype != TN_BF16 &&
             o->reduce_dtype != TN_F16)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "ddp_new", "reduce_dtype",
                                 ".reduce_dtype is %s: expected bfloat16 or "
                                 "float16", tn_dtype_name(o->reduce_dtype));
    else if (strcmp(o->buffers, "mean") && strcmp(o->buffers, "first"))
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "ddp_new", "buffers",
                                 ".buffers is \"%s\": expected mean or first",
                                 o->buffers);
    else
        return true;
    return false;
}

static tn_status build(tn_ddp *ddp, tn_module *net)
{
    ddp->state = tn_keep(tn_module_state(net));
    const size_t room = (size_t)tn_parameters_count(ddp->state) + 3;
    ddp->entry = calloc(room, sizeof *ddp->entry);
    ddp->order = calloc(room, sizeof *ddp->order);
    ddp->pack = calloc(room, sizeof *ddp->pack);
    ddp->saved = calloc(room, sizeof *ddp->saved);
    ddp->fact = calloc(room, sizeof *ddp->fact);
    if (!ddp->state || !ddp->entry || !ddp->order || !ddp->pack || !ddp->saved ||
        !ddp->fact)
        return tn_error_set(TN_ERR_MEMORY, "ddp_new: out of memory");
    tn_status status = agree(ddp);
    if (status == TN_OK)
        status = find_entries(ddp, net);
    if (status == TN_OK)
        status = tn__ddp_make_packs(ddp);
    return status == TN_OK ? make_facts(ddp) : status;
}

tn_ddp *tn_ddp_new_with(tn_module *net, tn_group *group,
                        const tn_ddp_new_options *options)
{
    tn_ddp_new_options o;
    if (tn_options_take(tn_ddp_new_type(), &o, options) < 0 ||
        !tn_object_check_kind(net, "module", "ddp_new", "net"))
        return NULL;
    if (!tn_group_size(group)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "ddp_new", "group",
                                 "group is %s", group ? "no group" : "NULL");
        return NULL;
    }
    if (!check_options(&o, group))
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_ddp *ddp = tn_object_new(&ddp_class, 0);
    if (!ddp) {
        tn_scope_close(scope);
        return NULL;
    }
    ddp->group = tn_keep(group);
    ddp->staging = o.staging;
    ddp->first_buffers = strcmp(o.buffers, "first") == 0;
    ddp->reduce_dtype = o.reduce_dtype;
    ddp->bucket_bytes = o.bucket_bytes;
    ddp->shard = -1;
    ddp->loss = NAN;
    tn__shards_init(&ddp->shards, o.shards ? o.shards : tn_group_size(group),
                    group);
    if (build(ddp, net) != TN_OK)
        ddp = NULL;
    return tn_scope_result(scope, ddp);
}

/* ---- the loop ------------------------------------------------------------- */

/* Leaves the step. If it has failed, the barrier is refused, and tells the other
 * ranks why. */
static bool leave(tn_ddp *ddp)
{
    if (tn_error())
        (void)tn_dist_barrier(ddp->group);
    if (ddp->shard >= 0)
        tn_rng_restore(ddp->before);
    ddp->shard = -1;
    return false;
}

bool tn_ddp_next(tn_ddp *ddp)
{
    if (!tn_object_check(ddp, &ddp_class, "ddp_next", "ddp"))
        return false;
    if (tn_error())
        return leave(ddp);
    bool more = false;
    TN_SCOPE(scope) {
        if (ddp->shard < 0)
            more = begin_step(ddp) == TN_OK;
        else if (end_shard(ddp) == TN_OK && !is_last(ddp))
            more = begin_shard(ddp, ddp->shard + 1) == TN_OK;
        else if (!tn_error())
            end_step(ddp);
    }
    return more ? true : leave(ddp);
}

bool tn__ddp_counters(tn_ddp *ddp, uint64_t *seed, uint64_t *step)
{
    *seed = ddp->seed;
    *step = ddp->step;
    return ddp->shard < 0;
}

void tn__ddp_set_counters(tn_ddp *ddp, uint64_t seed, uint64_t step)
{
    ddp->seed = seed;
    ddp->step = step;
}

bool tn__ddp_check(const tn_ddp *ddp, const char *call)
{
    return tn_object_check(ddp, &ddp_class, call, "ddp");
}

int64_t tn_ddp_shard(const tn_ddp *ddp)
{
    return tn_object_is(ddp, &ddp_class) ? ddp->shard : -1;
}

int64_t tn_ddp_shards(const tn_ddp *ddp)
{
    return tn_object_is(ddp, &ddp_class) ? ddp->shards.count : 0;
}

tn_status tn_ddp_weigh(tn_ddp *ddp, double weight)
{
    static const char call[] = "ddp_weigh";
    if (!tn_object_check(ddp, &ddp_class, call, "ddp"))
        return tn_error_code();
    if (!(weight >= 0 && weight <= DBL_MAX))
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "weight",
                                        "weight is %g: expected a finite number, "
                                        "at least 0", weight);
    if (ddp->shard < 0 || ddp->has_gradient)
        return tn_error_refuse_argument(
            TN_ERR_STATE, call, NULL,
            ddp->shard < 0 ? "no shard was begun: call it after tn_ddp_next has "
                             "returned true"
                           : "a gradient of this shard has arrived, and may have "
                             "been sent: call it before tn_backward");
    ddp->weight = weight;
    return TN_OK;
}

bool tn_ddp_join(tn_ddp *ddp, bool has_batch)
{
    static const char call[] = "ddp_join";
    if (!tn_object_check(ddp, &ddp_class, call, "ddp"))
        return false;
    if (ddp->shard >= 0) {
        tn_error_refuse_argument(TN_ERR_STATE, call, NULL,
                                 "a step is not at its end: call it when "
                                 "tn_ddp_next has returned false");
        return false;
    }
    int64_t any = has_batch;
    tn_status status = TN_OK;
    TN_NO_GRAD TN_SCOPE(scope) {
        tn_tensor *x = tn_full(tn_dims(1), any, .dtype = TN_I64,
                               .device = tn_device_open("cpu"));
        status = tn_dist_all_reduce(x, ddp->group, .reduce = "max",
                                    .label = "tn_ddp_join");
        if (status == TN_OK)
            status = tn_tensor_to_array(x, &any, sizeof any);
    }
    return status == TN_OK && any;
}

tn_status tn_ddp_note(tn_ddp *ddp, tn_tensor *loss)
{
    if (!tn_object_check(ddp, &ddp_class, "ddp_note", "ddp") ||
        !tn_object_check_kind(loss, "tensor", "ddp_note", "loss"))
        return tn_error_code();
    if (ddp->shard < 0)
        return tn_error_refuse_argument(TN_ERR_STATE, "ddp_note", NULL,
                                        "no shard was begun: call it after "
                                        "tn_ddp_next has returned true");
    if (tn_tensor_numel(loss) != 1)
        return tn_error_refuse_argument(
            TN_ERR_SHAPE, "ddp_note", "loss", "loss has %" PRId64
            " elements: expected one, such as a mean", tn_tensor_numel(loss));
    const bool pending = tn_error() != NULL;
    double value = tn_item(loss);
    if (tn_error() && !pending)
        return tn_error_code();
    ddp->fact[ddp->entries] += value;
    return TN_OK;
}

double tn_ddp_loss(const tn_ddp *ddp)
{
    return tn_object_is(ddp, &ddp_class) ? ddp->loss : NAN;
}
