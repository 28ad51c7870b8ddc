/* embed.c: computes one vector for each text. Several texts run in one flat
 * pass without padding; each text attends only to itself. */
#include <lm/generate/kv_cache.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>

static const char call[] = "lm_embed";

/* Maximum number of tokens in a pass, except for a single longer text. */
enum { PASS_TOKENS = 2048 };

/* The inputs of one pass. */
typedef struct work {
    tn_lm *lm;
    const int64_t *const *ids;
    const int64_t *length;
    int count;
    int64_t rows;
    int64_t *id, *position, *total, *learned; /* one allocation */
    tn__lm_group *group[2];                   /* one allocation */
} work;

/* Makes the attention mask of a text. *mask is NULL if each token attends to
 * the whole text. */
static bool make_mask(const work *w, int64_t length, int kind, tn_tensor **mask)
{
    const tn__lm_spec *s = &w->lm->spec;
    *mask = NULL;
    if (w->lm->distance_bias)
        *mask = tn__lm_distance_bias(w->lm, length);
    else if (s->encoder)
        return true;
    else
        *mask = tn__lm_mask(length, 0, 0, length, kind ? s->window : 0);
    return *mask != NULL;
}

static bool fill(work *w)
{
    int64_t row = 0;
    for (int i = 0; i < w->count; i++) {
        const int64_t length = w->length[i];
        memcpy(w->id + row, w->ids[i], (size_t)length * sizeof *w->id);
        for (int64_t t = 0; t < length; t++) {
            w->position[row + t] = t;
            w->total[row + t] = length;
        }
        tn__lm_position_rows(w->lm, w->ids[i], length, 0, w->learned + row);
        for (int kind = 0; kind < 2; kind++) {
            tn_tensor *mask = NULL;
            if ((kind == 0 || w->lm->spec.window) &&
                !make_mask(w, length, kind, &mask))
                return false;
            w->group[kind][i] =
                (tn__lm_group){NULL, row, length, 0, 0, length, mask};
        }
        row += length;
    }
    return true;
}

static bool take_memory(work *w)
{
    for (int i = 0; i < w->count; i++)
        w->rows += w->length[i];
    w->id = malloc((size_t)(4 * w->rows) * sizeof *w->id);
    w->group[0] = calloc(2 * (size_t)w->count, sizeof **w->group);
    if (!w->id || !w->group[0]) {
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
        return false;
    }
    w->position = w->id + w->rows;
    w->total = w->position + w->rows;
    w->learned = w->total + w->rows;
    w->group[1] = w->group[0] + w->count;
    return true;
}

static tn_tensor *index_of(const int64_t *values, int64_t count)
{
    return tn_tensor_from_array(values, TN_I64, tn_dims(count));
}

/* Returns the hidden states of all tokens, (rows, hidden). */
static tn_tensor *run(work *w)
{
    tn__lm_pass pass = {.flat = true,
                        .rows = w->rows,
                        .group = {w->group[0], w->group[1]},
                        .group_count = {w->count, w->count}};
    if (!fill(w) ||
        !tn__lm_pass_tables(w->lm, &pass, w->position, w->total, w->rows))
        return NULL;
    tn_tensor *learned =
        w->lm->embed_position ? index_of(w->learned, w->rows) : NULL;
    return tn__lm_body(w->lm, index_of(w->id, w->rows), learned, NULL, &pass,
                       NULL);
}

static tn_tensor *pool(tn_tensor *x, int pooling)
{
    switch (pooling) {
    case TN__LM_POOL_CLS:
        return tn_select(x, 0, 0);
    case TN__LM_POOL_LAST:
        return tn_select(x, 0, -1);
    case TN__LM_POOL_MAX:
        return tn_amax(x, .dim = 0);
    default:
        return tn_mean(x, .dim = 0);
    }
}

/* Embeds count texts. */
static tn_tensor *embed(tn_lm *lm, const int64_t *const *ids,
                        const int64_t *lengths, int count, int pooling)
{
    work w = {.lm = lm, .ids = ids, .length = lengths, .count = count};
    tn_tensor **out = calloc((size_t)count, sizeof *out), *all = NULL;
    if (!out)
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
    tn_tensor *x = out && take_memory(&w) ? run(&w) : NULL;
    for (int64_t i = 0, row = 0; x && i < count; row += lengths[i++])
        out[i] = pool(tn_narrow(x, 0, row, lengths[i]), pooling);
    if (x)
        all = tn_stack(out, count, 0);
    free(out);
    free(w.id);
    free(w.group[0]);
    return all;
}

static bool check_texts(const tn_lm *lm, const int64_t *const *ids,
                        const int64_t *lengths, int count)
{
    if (!ids || !lengths || count < 1) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call,
                                 !ids       ? "ids"
                                 : !lengths ? "lengths"
                                            : "count",
                                 "%s; expected at least one text",
                                 !ids       ? "ids is NULL"
                                 : !lengths ? "lengths is NULL"
                                            : "count is below 1");
        return false;
    }
    const tn__lm_spec *s = &lm->spec;
    for (int i = 0; i < count; i++) {
        if (!tn__lm_check_ids(lm, ids[i], lengths[i], call))
            return false;
        if (s->position_rows && lengths[i] > s->positions) {
            tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "lengths",
                                     "text %d has %" PRId64
                                     " tokens: the model has %" PRId64
                                     " positions",
                                     i, lengths[i], s->positions);
            return false;
        }
    }
    return true;
}

static int pooling_of(const tn_lm *lm, const char *name)
{
    static const char *const names[] = {"mean", "cls", "max", "last"};
    if (!name)
        return lm->pooling;
    for (int i = 0; i < TN__LM_POOLS; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    tn_error_refuse_argument(
        TN_ERR_ARGUMENT, call, "pooling",
        "\"%.40s\": expected \"mean\", \"cls\", \"max\" or "
        "\"last\"",
        name);
    return -1;
}

TN_OPTIONS_TYPE(tn_lm_embed, "lm_embed", "lm, ids, lengths, count",
                TN_LM_EMBED_OPTIONS_LIST)

tn_tensor *tn_lm_embed_with(tn_lm *lm, const int64_t *const *ids,
                            const int64_t *lengths, int count,
                            const tn_lm_embed_options *options)
{
    tn_lm_embed_options o;
    if (tn_options_take(tn_lm_embed_type(), &o, options) < 0 ||
        !tn__lm_is_model(lm, call) || tn_error() ||
        !check_texts(lm, ids, lengths, count))
        return NULL;
    const int pooling = pooling_of(lm, o.pooling);
    if (pooling < 0)
        return NULL;
    if (o.normalize < -1 || o.normalize > 1) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "normalize",
                                 "normalize is %d; expected 0 or 1", o.normalize);
        return NULL;
    }
    const bool normalize = o.normalize < 0 ? lm->normalize : o.normalize;
    tn_device *before = tn_device_current();
    tn_device *device = tn__lm_device(lm);
    if (!before || tn_device_set(device) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *all = NULL;
    TN_NO_GRAD
    {
        for (int from = 0, to = 0; from < count && !tn_error(); from = to) {
            int64_t tokens = 0;
            while (to < count &&
                   (to == from || tokens + lengths[to] <= PASS_TOKENS))
                tokens += lengths[to++];
            tn_scope *step = tn_scope_open();
            tn_tensor *x =
                tn_scope_result(step, embed(lm, ids + from, lengths + from,
                                            to - from, pooling));
            all = all ? tn_cat((tn_tensor *[]){all, x}, 2, 0) : x;
        }
        if (normalize)
            all = tn_normalize(all, .dim = -1);
    }
    all = tn_scope_result(scope, tn_error() ? NULL : all);
    tn_device_set(before);
    return all;
}
