/* optim_sharded.c: an optimizer whose state is divided among ranks (ZeRO, stage 1).
 *
 * The elements of all parameters, one after the other, are cut into as many equal
 * parts as there are ranks. Optimizers that need whole parameters get whole ones,
 * the largest first to the rank that has least. A rank steps its elements, and the
 * ranks then gather each other's, in rounds of bounded size: in a round each rank
 * gives the next `chunk` elements of its part. */
#include <parallel/parallel.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>

/* Cuts are at multiples of so many elements, a cache line of float8. */
enum { CUT = 64 };

/* Consecutive elements of a parameter that belong to one rank. */
typedef struct piece {
    tn_tensor *parameter; /* lent by the optimizer */
    int64_t offset, count;
    int64_t at;           /* in what the rank gives of this kind */
    int rank, kind;
} piece;

/* Parameters of one dtype on one device: their pieces are gathered together. */
typedef struct kind {
    tn_device *device;
    tn_dtype dtype;
    int64_t most;         /* elements of the rank that has most */
} kind;

typedef struct sharded {
    tn_group *group;      /* kept */
    piece *piece;         /* owned */
    kind *kind;           /* owned */
    int pieces, kinds;
    int64_t bucket_bytes;
    bool staging;
} sharded;

/* ---- after a step --------------------------------------------------------- */

/* Copies the elements [from, from + chunk) of what a rank gives, between row and
 * the parameters. */
static tn_status copy_row(const sharded *s, int k, int rank, int64_t from,
                          int64_t chunk, tn_tensor *row, bool to_row)
{
    for (int i = 0; i < s->pieces; i++) {
        const piece *p = &s->piece[i];
        if (p->kind != k || p->rank != rank)
            continue;
        const int64_t begin = p->at > from ? p->at : from;
        const int64_t last = p->at + p->count, limit = from + chunk;
        const int64_t end = last < limit ? last : limit;
        if (begin >= end)
            continue;
        tn_tensor *flat = tn_view(p->parameter, tn_dims(-1));
        tn_tensor *own = tn_narrow(flat, 0, p->offset + begin - p->at,
                                   end - begin);
        tn_tensor *other = tn_narrow(row, 0, begin - from, end - begin);
        if (!(to_row ? tn_copy_(other, own) : tn_copy_(own, other)))
            return tn_error_code();
    }
    return TN_OK;
}

static tn_status gather_chunk(const sharded *s, int k, int64_t from,
                              int64_t chunk)
{
    const kind *of = &s->kind[k];
    const int rank = tn_group_rank(s->group);
    tn_status status = TN_OK;
    TN_SCOPE(scope) {
        /* The end of a short part is sent as zeros. */
        tn_tensor *own = tn_zeros(tn_dims(chunk), .dtype = of->dtype,
                                  .device = of->device);
        status = copy_row(s, k, rank, from, chunk, own, true);
        /* Also after a failure: the others learn of it. */
        tn_tensor *all = tn_dist_all_gather(own, s->group,
                                            .label = "tn_optim_sharded",
                                            .staging = s->staging);
        status = all ? status : tn_error_code();
        for (int r = 0; r < tn_group_size(s->group) && status == TN_OK; r++)
            if (r != rank)
                status = copy_row(s, k, r, from, chunk,
                                  tn_narrow(all, 0, r * chunk, chunk), false);
    }
    return status;
}

static tn_status gather(void *context)
{
    const sharded *s = context;
    tn_status status = TN_OK;
    TN_NO_GRAD for (int k = 0; k < s->kinds && status >= 0; k++) {
        const int64_t bytes = (int64_t)tn_dtype_bytes(s->kind[k].dtype) *
                              tn_group_size(s->group);
        const int64_t most = s->kind[k].most;
        int64_t chunk = s->bucket_bytes / bytes;
        chunk = chunk < 1 ? 1 : chunk > most ? most : chunk;
        for (int64_t at = 0; at < most && status >= 0; at += chunk)
            status = gather_chunk(s, k, at, chunk);
    }
    return status;
}

static void release(void *context)
{
    sharded *s = context;
    if (!s)
        return;
    tn_drop(s->group);
    free(s->piece);
    free(s->kind);
    free(s);
}

/* ---- the division --------------------------------------------------------- */

/* The parameters of all groups. */
typedef struct list {
    int count;
    tn_tensor **tensor; /* owned array of lent tensors */
    int64_t total;      /* elements */
} list;

static tn_status list_parameters(list *l, const tn_optim *optim)
{
    for (int pass = 0; pass < 2; pass++) {
        if (pass && !(l->tensor = calloc((size_t)l->count + 1,
                                         sizeof *l->tensor)))
            return tn_error_refuse_argument(TN_ERR_MEMORY, "optim_sharded", NULL,
                                            "out of memory");
        l->count = 0;
        for (int g = 0; g < tn_optim_group_count(optim); g++) {
            const tn_parameter_list *of = tn_optim_parameters(optim, g);
            for (int i = 0; i < tn_parameters_count(of); i++, l->count++)
                if (pass) {
                    l->tensor[l->count] = tn_parameters_at(of, i);
                    l->total += tn_tensor_numel(l->tensor[l->count]);
                }
        }
    }
    return TN_OK;
}

static int kind_of(sharded *s, const tn_tensor *x)
{
    int k = 0;
    while (k < s->kinds && (s->kind[k].device != tn_tensor_device(x) ||
                            s->kind[k].dtype != tn_tensor_dtype(x)))
        k++;
    if (k == s->kinds)
        s->kind[s->kinds++] = (kind){tn_tensor_device(x), tn_tensor_dtype(x), 0};
    return k;
}

/* Gives a rank elements of a parameter. given[kind * ranks + rank] counts what it
 * has. */
static void give(sharded *s, tn_tensor *x, int rank, int64_t offset,
                 int64_t count, int64_t *given)
{
    const int k = kind_of(s, x);
    int64_t *at = &given[k * tn_group_size(s->group) + rank];
    s->piece[s->pieces++] = (piece){x, offset, count, *at, rank, k};
    *at += count;
    if (*at > s->kind[k].most)
        s->kind[k].most = *at;
}

/* Cuts the elements of all parameters into equal parts. */
static void cut(sharded *s, const list *l, int64_t *given)
{
    const int ranks = tn_group_size(s->group);
    const int64_t part = (l->total + ranks * CUT - 1) / (ranks * CUT) * CUT;
    int64_t before = 0;
    for (int i = 0; i < l->count; i++) {
        const int64_t numel = tn_tensor_numel(l->tensor[i]);
        for (int64_t done = 0; done < numel;) {
            const int rank = (int)((before + done) / part);
            const int64_t end = (rank + 1) * part - before;
            const int64_t count = (end < numel ? end : numel) - done;
            give(s, l->tensor[i], rank, done, count, given);
            done += count;
        }
        before += numel;
    }
}

/* Deals out whole parameters, the largest first. */
static void deal(sharded *s, const list *l, int64_t *given, int64_t *load,
                 bool *done)
{
    const int ranks = tn_group_size(s->group);
    for (int n = 0; n < l->count; n++) {
        int next = -1, rank = 0;
        for (int i = 0; i < l->count; i++)
            if (!done[i] && (next < 0 || tn_tensor_numel(l->tensor[i]) >
                                             tn_tensor_numel(l->tensor[next])))
                next = i;
        for (int r = 1; r < ranks; r++)
            if (load[r] < load[rank])
                rank = r;
        done[next] = true;
        const int64_t numel = tn_tensor_numel(l->tensor[next]);
        load[rank] += numel;
        give(s, l->tensor[next], rank, 0, numel, given);
    }
}

static tn_status divide(sharded *s, const list *l, bool elementwise)
{
    const size_t ranks = (size_t)tn_group_size(s->group);
    const size_t count = (size_t)l->count;
    int64_t *given = calloc(count * ranks + 1, sizeof *given);
    int64_t *load = calloc(ranks, sizeof *load);
    bool *done = calloc(count + 1, sizeof *done);
    s->piece = calloc(count + ranks + 1, sizeof *s->piece);
    s->kind = calloc(count + 1, sizeof *s->kind);
    tn_status status = TN_OK;
    if (!given || !load || !done || !s->piece || !s->kind)
        status = tn_error_refuse_argument(TN_ERR_MEMORY, "optim_sharded", NULL,
                                          "out of memory");
    else if (elementwise)
        cut(s, l, given);
    else
        deal(s, l, given, load, done);
    free(given);
    free(load);
    free(done);
    return status;
}

/* ---- making it ------------------------------------------------------------ */

/* Restricts optim to this rank's pieces, and takes over s. */
static tn_status restrict_to_rank(tn_optim *optim, sharded *s, const list *l)
{
    tn_optim_range *range = calloc((size_t)l->count + 1, sizeof *range);
    if (!range) {
        release(s);
        return tn_error_refuse_argument(TN_ERR_MEMORY, "optim_sharded", NULL,
                                        "out of memory");
    }
    for (int i = 0; i < s->pieces; i++)
        for (int k = 0; k < l->count; k++)
            if (s->piece[i].rank == tn_group_rank(s->group) &&
                s->piece[i].parameter == l->tensor[k])
                range[k] = (tn_optim_range){s->piece[i].offset,
                                            s->piece[i].count};
    tn_status status = tn_optim_restrict(
        optim, range, l->count, tn_group_size(s->group) > 1 ? gather : NULL, s,
        release);
    tn_error_rename("optim_restrict", "optim_sharded", "optim");
    free(range);
    return status;
}

static tn_status no_piece(const tn_optim_piece *part, void *context)
{
    (void)part, (void)context;
    return TN_OK;
}

/* Writes the optimizer's rule, and a hash of its options, such as rates. */
static tn_status describe(const tn_optim *optim, char *label, size_t room)
{
    char *text = tn_optim_state_pieces(optim, no_piece, NULL);
    if (!text)
        return tn_error_code();
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    const char *rule = strstr(text, "\"rule\":\"");
    rule = rule ? rule + strlen("\"rule\":\"") : "?";
    snprintf(label, room, "%.*s with options %08x", (int)strcspn(rule, "\""),
             rule, (unsigned)hash);
    free(text);
    return TN_OK;
}

/* Ranks whose models or optimizers differ would gather other elements than they
 * need: all are compared, as every collective compares. */
static tn_status compare(const list *l, const tn_optim *optim, tn_group *group)
{
    tn_status status = TN_OK;
    TN_SCOPE(scope) {
        tn_tensor *none = tn_zeros(tn_dims(0), .dtype = TN_I64,
                                   .device = tn_device_open("cpu"));
        for (int g = 0, at = 0; g < tn_optim_group_count(optim); g++) {
            const tn_parameter_list *of = tn_optim_parameters(optim, g);
            for (int i = 0; i < tn_parameters_count(of) && status == TN_OK;
                 i++, at++) {
                char label[64];
                snprintf(label, sizeof label, "%.36s (%" PRId64 ")",
                         tn_parameters_name(of, i),
                         tn_tensor_numel(l->tensor[at]));
                status = tn_dist_broadcast(none, 0, group, .label = label);
            }
        }
        char rule[64];
        if (status == TN_OK)
            status = describe(optim, rule, sizeof rule);
        if (status == TN_OK)
            status = tn_dist_broadcast(none, 0, group, .label = rule);
    }
    return status;
}

TN_OPTIONS_TYPE(tn_optim_sharded, "optim_sharded", "optim, group",
                TN_OPTIM_SHARDED_OPTIONS_LIST)

tn_optim *tn_optim_sharded_with(tn_optim *optim, tn_group *group,
                                const tn_optim_sharded_options *options)
{
    static const char call[] = "optim_sharded";
    tn_optim_sharded_options o;
    if (tn_options_take(tn_optim_sharded_type(), &o, options) < 0 ||
        !tn_object_check_kind(optim, "optimizer", call, "optim") ||
        !tn_object_check_kind(group, "group", call, "group") ||
        tn_error())
        return NULL;
    if (o.bucket_bytes < 1) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "bucket_bytes",
                                 ".bucket_bytes is %" PRId64
                                 ": expected at least 1", o.bucket_bytes);
        return NULL;
    }
    list l = {0};
    sharded *s = calloc(1, sizeof *s);
    if (!s)
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
    tn_status status = s ? list_parameters(&l, optim) : TN_ERR_MEMORY;
    if (status == TN_OK)
        status = compare(&l, optim, group);
    if (status == TN_OK) {
        s->group = tn_keep(group);
        s->bucket_bytes = o.bucket_bytes;
        s->staging = o.staging;
        status = divide(s, &l, tn_optim_is_elementwise(optim));
    }
    if (status == TN_OK)
        status = restrict_to_rank(optim, s, &l);
    else
        release(s);
    free(l.tensor);
    return status == TN_OK ? optim : NULL;
}
