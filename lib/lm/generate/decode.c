/* decode.c: appends tokens to sequences and runs the model on all of them in
 * one flat pass (lib/lm/model/layers.h). */
#include <lm/generate/kv_cache.h>

#include <inttypes.h>
#include <stdlib.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>

static const char call[] = "lm_decode";

bool tn__lm_check_ids(const tn_lm *lm, const int64_t *ids, int64_t count,
                      const char *name)
{
    if (!ids || count < 1) {
        if (ids)
            tn_error_refuse_argument(
                TN_ERR_ARGUMENT, name, "count",
                "count is %" PRId64 ": expected at least one token", count);
        else
            tn_error_refuse_argument(TN_ERR_ARGUMENT, name, "ids",
                                     "ids is NULL");
        return false;
    }
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= lm->spec.vocab) {
            tn_error_refuse_argument(TN_ERR_INDEX, name, "ids",
                                     "ids[%" PRId64 "] is %" PRId64
                                     ": the vocabulary has %" PRId64 " tokens",
                                     i, ids[i], lm->spec.vocab);
            return false;
        }
    return true;
}

tn_tensor *tn__lm_mask(int64_t rows, int64_t position, int64_t key,
                       int64_t keys, int64_t window)
{
    bool *seen = calloc((size_t)(rows * keys) + 1, sizeof *seen);
    if (!seen) {
        tn_error_set(TN_ERR_MEMORY, "lm_decode: out of memory");
        return NULL;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < keys; j++) {
            int64_t back = position + i - (key + j);
            seen[i * keys + j] = back >= 0 && (!window || back < window);
        }
    tn_tensor *mask = tn_tensor_from_array(seen, TN_BOOL, tn_dims(rows, keys));
    free(seen);
    return mask;
}

/* The arrays of one call of tn_lm_decode. */
typedef struct work {
    tn_lm_cache *cache;
    int64_t rows, selected, group_count;
    int64_t *ids, *positions, *lengths, *learned, *select; /* one allocation */
    tn__lm_group *group[2];                                /* one allocation */
} work;

/* ---- checks -------------------------------------------------------------- */

static bool check_one(tn_lm_cache *cache, const tn_lm_tokens *t, int i)
{
    tn__lm_sequence *s = t->sequence >= 0 && t->sequence < cache->count
                             ? &cache->sequence[t->sequence]
                             : NULL;
    const char *why = NULL;
    if (!s || !s->kv)
        why = "has not begun";
    else if (s->listed)
        why = "is listed twice";
    if (why) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "list",
                                 "list[%d]: sequence %d %s", i, t->sequence,
                                 why);
        return false;
    }
    if (!tn__lm_check_ids(cache->lm, t->ids, t->count, call))
        return false;
    if (s->length + t->count > s->limit) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "list",
                                 "list[%d]: sequence %d holds %" PRId64
                                 " of %" PRId64 " tokens: %" PRId64
                                 " more do not fit",
                                 i, t->sequence, s->length, s->limit, t->count);
        return false;
    }
    s->listed = true;
    return true;
}

static bool check_list(tn_lm_cache *cache, const tn_lm_tokens *list, int count)
{
    bool fine = true;
    if (!list || count < 1) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, list ? "count" : "list",
                                 "%s; expected at least one sequence",
                                 list ? "count is below 1" : "list is NULL");
        return false;
    }
    for (int i = 0; fine && i < count; i++)
        fine = check_one(cache, &list[i], i);
    for (int i = 0; i < cache->count; i++)
        cache->sequence[i].listed = false;
    return fine;
}

/* ---- groups -------------------------------------------------------------- */

/* Returns how many blocks of TN__LM_BLOCK positions overlap [from, from +
 * count). */
static int64_t blocks_of(int64_t from, int64_t count)
{
    return (from + count - 1) / TN__LM_BLOCK - from / TN__LM_BLOCK + 1;
}

static bool take_memory(work *w, const tn_lm_tokens *list, int count)
{
    for (int i = 0; i < count; i++) {
        w->rows += list[i].count;
        w->selected += list[i].all_logits ? list[i].count : 1;
        w->group_count += blocks_of(w->cache->sequence[list[i].sequence].length,
                                    list[i].count);
    }
    const size_t rows = (size_t)w->rows;
    w->ids = malloc((4 * rows + (size_t)w->selected) * sizeof *w->ids);
    w->group[0] = calloc((size_t)(2 * w->group_count), sizeof **w->group);
    if (!w->ids || !w->group[0]) {
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
        return false;
    }
    w->positions = w->ids + rows;
    w->lengths = w->positions + rows;
    w->learned = w->lengths + rows;
    w->select = w->learned + rows;
    w->group[1] = w->group[0] + w->group_count;
    return true;
}

/* Fills the elements of the arrays that belong to one sequence, from `row`
 * on. */
static void fill_rows(work *w, const tn_lm_tokens *t, int64_t row)
{
    const tn__lm_sequence *s = &w->cache->sequence[t->sequence];
    for (int64_t i = 0; i < t->count; i++) {
        const int64_t at = s->length + i;
        w->ids[row + i] = t->ids[i];
        w->positions[row + i] = at;
        w->lengths[row + i] = at < s->prompt ? s->prompt : at + 1;
    }
    tn__lm_position_rows(w->cache->lm, t->ids, t->count, s->length,
                         w->learned + row);
}

/* Makes the groups (tn__lm_group) of one sequence: for layers with full
 * attention if kind is 0, for sliding layers if it is 1. */
static bool fill_groups(work *w, const tn_lm_tokens *t, int64_t row, int kind,
                        int64_t *at)
{
    const tn__lm_sequence *s = &w->cache->sequence[t->sequence];
    const int64_t window = kind ? w->cache->lm->spec.window : 0;
    for (int64_t done = 0; done < t->count;) {
        const int64_t position = s->length + done;
        const int64_t block = position / TN__LM_BLOCK;
        int64_t count = (block + 1) * TN__LM_BLOCK - position, key = 0;
        if (count > t->count - done)
            count = t->count - done;
        if (window && block * TN__LM_BLOCK >= window)
            key = (block * TN__LM_BLOCK - window + 1) / TN__LM_BLOCK *
                  TN__LM_BLOCK;
        const int64_t keys = (block + 1) * TN__LM_BLOCK - key;
        tn_tensor *mask = tn__lm_mask(count, position, key, keys, window);
        if (!mask)
            return false;
        w->group[kind][(*at)++] =
            (tn__lm_group){s->kv, row + done, count, position, key, keys, mask};
        done += count;
    }
    return true;
}

static bool fill(work *w, const tn_lm_tokens *list, int count)
{
    const bool slides = w->cache->lm->spec.window > 0;
    int64_t row = 0, selected = 0, at[2] = {0, 0};
    for (int i = 0; i < count; i++) {
        const tn_lm_tokens *t = &list[i];
        fill_rows(w, t, row);
        for (int64_t j = t->all_logits ? 0 : t->count - 1; j < t->count; j++)
            w->select[selected++] = row + j;
        if (!fill_groups(w, t, row, 0, &at[0]) ||
            (slides && !fill_groups(w, t, row, 1, &at[1])))
            return false;
        row += t->count;
    }
    return true;
}

/* ---- the pass ------------------------------------------------------------ */

static tn_tensor *index_of(const int64_t *values, int64_t count)
{
    return tn_tensor_from_array(values, TN_I64, tn_dims(count));
}

static tn_tensor *run(work *w)
{
    tn_lm *lm = w->cache->lm;
    tn__lm_pass pass = {
        .flat = true,
        .rows = w->rows,
        .group = {w->group[0], w->group[1]},
        .group_count = {(int)w->group_count, (int)w->group_count}};
    if (!tn__lm_pass_tables(lm, &pass, w->positions, w->lengths, w->rows))
        return NULL;
    tn_tensor *positions =
        lm->embed_position ? index_of(w->learned, w->rows) : NULL;
    tn_tensor *x = tn__lm_body(lm, index_of(w->ids, w->rows), positions, NULL,
                               &pass, NULL);
    if (x && w->selected < w->rows)
        x = tn_index_select(x, 0, index_of(w->select, w->selected));
    return tn__lm_logits(lm, x);
}

tn_tensor *tn_lm_decode(tn_lm_cache *cache, const tn_lm_tokens *list, int count)
{
    if (!tn__lm_is_cache(cache, call) || tn_error() ||
        !tn__lm_can_decode(cache->lm, call) || !check_list(cache, list, count))
        return NULL;
    tn_device *before = tn_device_current();
    tn_device *device =
        tn__lm_device(cache->lm);
    if (!before || tn_device_set(device) < 0)
        return NULL;
    work w = {.cache = cache};
    tn_tensor *logits = NULL;
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD
    {
        if (take_memory(&w, list, count) && fill(&w, list, count))
            logits = run(&w);
    }
    logits = tn_scope_result(scope, logits);
    free(w.ids);
    free(w.group[0]);
    tn_device_set(before);
    for (int i = 0; logits && i < count; i++)
        cache->sequence[list[i].sequence].length += list[i].count;
    return logits;
}
