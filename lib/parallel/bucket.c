/* bucket.c: adds vectors over the shards of a batch, in an order that depends on
 * the number of shards alone:
 *
 *     for (d = 1; d < count; d *= 2)
 *         for (g = 0; g + d < count; g += 2 * d)
 *             v[g] += v[g + d];
 *
 * A rank has neighbouring shards, and adds those whose partner it has. If their
 * number is a power of two, one vector is left, and the engine's all_reduce goes
 * on with the same tree. Otherwise a few are left, which all ranks gather and
 * add for themselves. */
#include <parallel/parallel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>

/* ---- the tree ------------------------------------------------------------- */

/* Called with each pair that can be added. Returns false to stop. */
typedef bool (*add_fn)(void *context, int64_t to, int64_t from);

/* Shard `last`, the last of 0 .. last that are here, is complete: adds it to its
 * left neighbour, the sum to the next, and so on, as long as those are here too
 * (first is the first that is here). A node without a right neighbour in the
 * batch goes up as it is. */
static bool climb(int64_t count, int64_t first, int64_t last, add_fn add,
                  void *context)
{
    int64_t at = last;
    for (int64_t d = 1; d < count; d *= 2) {
        if (at % (2 * d) == 0) {
            if (at + d < count)
                return true; /* its neighbour is yet to come */
            continue;
        }
        if (at - d < first)
            return true; /* another rank has it */
        if (!add(context, at - d, at))
            return false;
        at -= d;
    }
    return true;
}

/* For counting alone: the nodes of a rank as flags. */
static bool unflag(void *context, int64_t to, int64_t from)
{
    (void)to;
    ((bool *)context)[from] = false;
    return true;
}

static int64_t nodes_of_rank(const tn__shards *s, int64_t first)
{
    bool *there = calloc((size_t)s->count, sizeof *there);
    if (!there)
        return -1;
    int64_t nodes = 0;
    for (int64_t g = first; g < first + s->own; g++) {
        there[g] = true;
        climb(s->count, first, g, unflag, there);
    }
    for (int64_t g = first; g < first + s->own; g++)
        nodes += there[g];
    free(there);
    return nodes;
}

void tn__shards_init(tn__shards *shards, int64_t count, const tn_group *group)
{
    shards->count = count;
    shards->ranks = tn_group_size(group);
    shards->own = count / shards->ranks;
    shards->first = shards->own * tn_group_rank(group);
    shards->nodes = 1;
    for (int32_t r = 0; r < shards->ranks; r++) {
        int64_t nodes = nodes_of_rank(shards, r * shards->own);
        if (nodes > shards->nodes)
            shards->nodes = nodes;
    }
}

/* ---- memory --------------------------------------------------------------- */

tn_status tn__bucket_init(tn__bucket *b, tn_group *group,
                          const tn__shards *shards, tn_device *device,
                          tn_dtype dtype, int64_t numel, const char *label,
                          bool staging)
{
    *b = (tn__bucket){.group = group, .shards = shards, .device = device,
                      .dtype = dtype, .wire = dtype, .numel = numel, .staging = staging};
    snprintf(b->label, sizeof b->label, "%s", label);
    b->room = (int)shards->count + 1;
    b->node = calloc((size_t)shards->count, sizeof *b->node);
    b->spare = calloc((size_t)b->room, sizeof *b->spare);
    return b->node && b->spare
               ? TN_OK
               : tn_error_set(TN_ERR_MEMORY, "ddp: out of memory");
}

tn_status tn__bucket_share(tn__bucket *b)
{
    enum { SMALL = 16384 }; /* bytes: less would not be faster */
    tn_status status = TN_OK;
    if (b->shards->ranks > 1 && b->shards->nodes == 1 &&
        b->wire == b->dtype && b->device == tn_device_open("cpu") &&
        b->numel * (int64_t)tn_dtype_bytes(b->dtype) > SMALL)
        TN_SCOPE(scope) {
            b->shared = tn_keep(tn_dist_empty(tn_dims(b->numel), b->group,
                                              .dtype = b->dtype));
            status = b->shared ? TN_OK : tn_error_code();
        }
    return status;
}

void tn__bucket_fini(tn__bucket *b)
{
    tn__bucket_clear(b);
    for (int i = 0; i < b->spares; i++)
        tn_drop(b->spare[i]);
    tn_drop(b->shared);
    free(b->node);
    free(b->spare);
}

static tn_tensor *vector(const tn__bucket *b, int64_t rows)
{
    tn_device *before = tn_device_current();
    tn_device_set(b->device);
    tn_tensor *x = tn_empty(tn_dims(rows, b->numel), .dtype = b->dtype);
    tn_device_set(before);
    return x;
}

tn_tensor *tn__bucket_leaf(tn__bucket *b, int64_t shard)
{
    if (b->node[shard])
        return b->node[shard];
    if (b->shared && shard == b->shards->first)
        b->node[shard] = b->shared;
    else if (b->spares)
        b->node[shard] = b->spare[--b->spares];
    else
        TN_SCOPE(scope) {
            tn_tensor *x = vector(b, 1);
            b->node[shard] = x ? tn_keep(tn_view(x, tn_dims(b->numel))) : NULL;
        }
    return b->node[shard];
}

static void put_back(tn__bucket *b, int64_t shard)
{
    if (b->node[shard] == b->shared)
        ; /* stays where it is */
    else if (b->spares < b->room)
        b->spare[b->spares++] = b->node[shard];
    else
        tn_drop(b->node[shard]);
    b->node[shard] = NULL;
}

void tn__bucket_clear(tn__bucket *b)
{
    if (b->work)
        tn_work_wait(b->work);
    tn_drop(b->work);
    tn_drop(b->gathered);
    tn_drop(b->rounded);
    b->work = NULL;
    b->gathered = b->rounded = NULL;
    b->sent = false;
    for (int64_t g = 0; b->node && b->spare && g < b->shards->count; g++)
        if (b->node[g])
            put_back(b, g);
}

/* ---- adding --------------------------------------------------------------- */

static bool add_nodes(void *context, int64_t to, int64_t from)
{
    tn__bucket *b = context;
    bool good = false;
    TN_NO_GRAD TN_SCOPE(scope) {
        good = tn_add_(b->node[to], b->node[from]) != NULL;
    }
    put_back(b, from);
    return good;
}

tn_status tn__bucket_add(tn__bucket *b, int64_t shard)
{
    return climb(b->shards->count, b->shards->first, shard, add_nodes, b)
               ? TN_OK
               : tn_error_code();
}

/* The nodes of this rank, packed: those that other ranks will add. */
static tn_tensor *packed(tn__bucket *b)
{
    const tn__shards *s = b->shards;
    tn_tensor *all = vector(b, s->nodes);
    if (!all || !tn_copy_(all, tn_full_like(all, 0)))
        return NULL;
    int64_t at = 0;
    for (int64_t g = s->first; g < s->first + s->own; g++)
        if (b->node[g] && !tn_copy_(tn_select(all, 0, at++), b->node[g]))
            return NULL;
    return all;
}

/* Begins the exchange of the only node. */
static tn_status send_node(tn__bucket *b, tn_work **work)
{
    tn_tensor *x = b->node[b->shards->first];
    if (b->wire != b->dtype)
        x = b->rounded = tn_keep(tn_to_dtype(x, b->wire));
    return tn_dist_all_reduce(x, b->group, .label = b->label, .work = work,
                              .staging = b->staging);
}

static tn_status send_nodes(tn__bucket *b, tn_work **work)
{
    tn_tensor *own = packed(b);
    if (b->wire != b->dtype)
        own = tn_to_dtype(own, b->wire);
    b->gathered = tn_keep(tn_dist_all_gather(own, b->group, .label = b->label,
                                             .work = work,
                                             .staging = b->staging));
    return b->gathered ? TN_OK : tn_error_code();
}

tn_status tn__bucket_send(tn__bucket *b)
{
    tn_status status = TN_OK;
    b->sent = true;
    if (b->shards->ranks == 1)
        return TN_OK;
    TN_NO_GRAD TN_SCOPE(scope) {
        tn_work *work = NULL;
        status = b->shards->nodes == 1 ? send_node(b, &work)
                                       : send_nodes(b, &work);
        b->work = tn_keep(work);
    }
    return status;
}

/* Takes the gathered nodes of all ranks, and adds them. */
static tn_status add_gathered(tn__bucket *b)
{
    const tn__shards *s = b->shards;
    bool *there = calloc((size_t)s->count, sizeof *there);
    tn_status status = there ? TN_OK
                             : tn_error_set(TN_ERR_MEMORY, "ddp: out of memory");
    for (int32_t r = 0; r < s->ranks && status == TN_OK; r++) {
        const int64_t first = r * s->own;
        int64_t at = r * s->nodes;
        for (int64_t g = first; g < first + s->own; g++) {
            there[g] = true;
            climb(s->count, first, g, unflag, there);
        }
        for (int64_t g = first; g < first + s->own && status == TN_OK; g++)
            if (there[g])
                TN_NO_GRAD TN_SCOPE(scope) {
                    tn_tensor *leaf = tn__bucket_leaf(b, g);
                    status = tn_copy_(leaf, tn_select(b->gathered, 0, at++))
                                 ? TN_OK : tn_error_code();
                }
    }
    for (int64_t d = 1; d < s->count; d *= 2)
        for (int64_t g = 0; g + d < s->count && status == TN_OK; g += 2 * d)
            if (b->node[g] && b->node[g + d] && !add_nodes(b, g, g + d))
                status = tn_error_code();
    free(there);
    return status;
}

tn_tensor *tn__bucket_sum(tn__bucket *b)
{
    if (b->work && tn_work_wait(b->work) != TN_OK)
        return NULL;
    if (b->gathered && add_gathered(b) != TN_OK)
        return NULL;
    tn_tensor *sum = b->node[b->gathered ? 0 : b->shards->first];
    bool good = true;
    if (b->rounded)
        TN_NO_GRAD TN_SCOPE(scope) good = tn_copy_(sum, b->rounded) != NULL;
    return good ? sum : NULL;
}
