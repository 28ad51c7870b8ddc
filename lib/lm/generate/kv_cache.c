/* kv_cache.c: the memory for the keys and values of sequences. */
#include <lm/generate/kv_cache.h>

#include <inttypes.h>
#include <stdlib.h>
#include <tenon/ops.h>

static void clear(tn_lm_cache *cache, tn__lm_sequence *s)
{
    for (int64_t i = 0; s->kv && i < cache->lm->spec.layers; i++) {
        tn_drop(s->kv[i].key);
        tn_drop(s->kv[i].value);
    }
    free(s->kv);
    *s = (tn__lm_sequence){0};
}

static void release(void *object)
{
    tn_lm_cache *cache = object;
    for (int i = 0; cache->sequence && i < cache->count; i++)
        clear(cache, &cache->sequence[i]);
    free(cache->sequence);
    tn_drop(cache->lm);
}

static const tn_object_class cache_class = {.size = sizeof cache_class,
                                            .name = "key-value cache",
                                            .bytes = sizeof(tn_lm_cache),
                                            .release = release};

bool tn__lm_is_cache(const tn_lm_cache *cache, const char *call)
{
    return tn_object_check(cache, &cache_class, call, "cache");
}

bool tn__lm_can_decode(const tn_lm *lm, const char *call)
{
    const tn__lm_spec *s = &lm->spec;
    if (s->encoder) {
        tn_error_refuse_argument(TN_ERR_UNSUPPORTED, call, "lm",
                                 "%s is an encoder, which cannot predict a "
                                 "next token",
                                 s->family->type);
        return false;
    }
    if (lm->base.training && (s->embed_dropout > 0 || s->hidden_dropout > 0 ||
                              s->attention_dropout > 0)) {
        tn_error_refuse_argument(
            TN_ERR_STATE, call, "lm",
            "the model is in training mode and has dropout: call "
            "tn_module_eval(tn_lm_module(lm)) first");
        return false;
    }
    return true;
}

TN_OPTIONS_TYPE(tn_lm_cache_new, "lm_cache_new", "lm, sequences",
                TN_LM_CACHE_NEW_OPTIONS_LIST)

tn_lm_cache *tn_lm_cache_new_with(tn_lm *lm, int sequences,
                                  const tn_lm_cache_new_options *options)
{
    static const char call[] = "lm_cache_new";
    tn_lm_cache_new_options o;
    if (tn_options_take(tn_lm_cache_new_type(), &o, options) < 0 ||
        !tn__lm_is_model(lm, call) || !tn__lm_can_decode(lm, call))
        return NULL;
    if (sequences < 1 || sequences > 65536) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "sequences",
                                 "sequences is %d; expected 1 to 65536",
                                 sequences);
        return NULL;
    }
    if (o.dtype && o.dtype != TN_F32 && o.dtype != TN_F16 &&
        o.dtype != TN_BF16) {
        tn_error_refuse_argument(TN_ERR_DTYPE, call, "dtype",
                                 "dtype is %s; expected float32, float16 or "
                                 "bfloat16",
                                 tn_dtype_name(o.dtype));
        return NULL;
    }
    tn_lm_cache *cache = tn_object_new(&cache_class, 0);
    if (!cache)
        return NULL;
    cache->lm = tn_keep(lm);
    cache->dtype = o.dtype ? o.dtype : tn__lm_dtype(lm);
    cache->sequence = calloc((size_t)sequences, sizeof *cache->sequence);
    cache->count = sequences;
    if (cache->sequence)
        return cache;
    tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
    return NULL;
}

static tn__lm_sequence *sequence_of(tn_lm_cache *cache, int i, const char *call)
{
    if (!tn__lm_is_cache(cache, call))
        return NULL;
    if (i >= 0 && i < cache->count)
        return &cache->sequence[i];
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "i",
                             "i is %d; the cache has sequences 0 to %d", i,
                             cache->count - 1);
    return NULL;
}

/* Reserves the memory of a sequence. It is zeroed, because attention multiplies
 * the values after the end of the sequence by 0, and 0 * NaN would be NaN. */
static bool reserve(tn_lm_cache *cache, tn__lm_sequence *s, const char *call)
{
    const tn__lm_spec *spec = &cache->lm->spec;
    tn_device *device = tn__lm_device(cache->lm);
    const tn_dims_list shape =
        tn_dims(spec->kv_heads, s->room, spec->head_dim);
    s->kv = calloc((size_t)spec->layers, sizeof *s->kv);
    if (!s->kv) {
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
        return false;
    }
    tn_scope *scope = tn_scope_open();
    bool fine = true;
    for (int64_t i = 0; fine && i < spec->layers; i++) {
        s->kv[i].key =
            tn_keep(tn_zeros(shape, .dtype = cache->dtype, .device = device));
        s->kv[i].value =
            tn_keep(tn_zeros(shape, .dtype = cache->dtype, .device = device));
        fine = s->kv[i].key && s->kv[i].value;
    }
    tn_scope_close(scope);
    return fine;
}

/* Checks the sizes for a new sequence and stores them in *out. */
static bool read_sizes(const tn_lm_cache *cache, int64_t positions,
                       int64_t prompt, tn__lm_sequence *out, const char *call)
{
    const tn__lm_spec *spec = &cache->lm->spec;
    const int64_t most = spec->position_rows ? spec->positions : INT32_MAX;
    if (positions < 1 || positions > most) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, "positions",
            "positions is %" PRId64 "; the model allows 1 to %" PRId64,
            positions, most);
        return false;
    }
    if (prompt < 0 || prompt > positions) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, "prompt",
            "prompt is %" PRId64 "; expected 0 to the %" PRId64 " positions",
            prompt, positions);
        return false;
    }
    *out = (tn__lm_sequence){.room = (positions + TN__LM_BLOCK - 1) /
                                     TN__LM_BLOCK * TN__LM_BLOCK,
                             .limit = positions,
                             .prompt = prompt};
    return true;
}

tn_status tn_lm_cache_begin(tn_lm_cache *cache, int i, int64_t positions,
                            int64_t prompt)
{
    static const char call[] = "lm_cache_begin";
    tn__lm_sequence *s = sequence_of(cache, i, call), sizes;
    if (!s || !read_sizes(cache, positions, prompt, &sizes, call))
        return tn_error_code();
    clear(cache, s);
    *s = sizes;
    if (reserve(cache, s, call))
        return TN_OK;
    clear(cache, s);
    return tn_error_code();
}

/* ---- tokens that two sequences share ------------------------------------- */

/* Zeroes the keys and values of positions from `first` to `end` - 1, or copies
 * them from another sequence. */
static bool copy_rows(const tn_lm_cache *cache, const tn__lm_sequence *to,
                      const tn__lm_sequence *from, int64_t first, int64_t end)
{
    const int64_t count = end - first;
    bool fine = true;
    tn_scope *scope = tn_scope_open();
    tn_tensor *zero = from ? NULL
                           : tn_zeros(tn_dims(1), .dtype = cache->dtype,
                                      .device = tn__lm_device(cache->lm));
    TN_NO_GRAD
    {
        for (int64_t i = 0; fine && count && i < cache->lm->spec.layers; i++)
            for (int value = 0; fine && value < 2; value++) {
                const tn__lm_kv *kv = &to->kv[i];
                const tn__lm_kv *old = from ? &from->kv[i] : NULL;
                tn_tensor *rows = zero;
                if (old)
                    rows = tn_narrow(value ? old->value : old->key, 1, first,
                                     count);
                fine = tn_copy_(tn_narrow(value ? kv->value : kv->key, 1, first,
                                          count),
                                rows) != NULL;
            }
    }
    tn_scope_close(scope);
    return fine;
}

bool tn__lm_cache_fits(const tn_lm_cache *cache, int from, int64_t length,
                       int64_t prompt)
{
    const tn__lm_sequence *s = &cache->sequence[from];
    if (prompt == s->prompt)
        return true;
    const int64_t longest = length > s->prompt ? length : s->prompt;
    for (int i = 0; i < 2; i++) {
        const tn__lm_rope *rope = &cache->lm->spec.rope[i];
        if (!tn__lm_rope_same(rope, s->prompt, prompt) ||
            !tn__lm_rope_same(rope, longest, prompt))
            return false;
    }
    return true;
}

static bool check_fork(tn_lm_cache *cache, int from, int64_t length,
                       const tn__lm_sequence *sizes, const char *call)
{
    const tn__lm_sequence *source = &cache->sequence[from];
    if (!source->kv)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "from",
                                 "sequence %d has not begun", from);
    else if (length < 0 || length > source->length || length > sizes->limit)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "length",
                                 "length is %" PRId64 "; sequence %d holds "
                                 "%" PRId64 " tokens, and there is room for "
                                 "%" PRId64,
                                 length, from, source->length, sizes->limit);
    else if (sizes->prompt != source->prompt && sizes->prompt < length)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "prompt",
                                 "prompt is %" PRId64 "; expected at least the "
                                 "length, %" PRId64 ", or the prompt of "
                                 "sequence %d, %" PRId64,
                                 sizes->prompt, length, from, source->prompt);
    else if (!tn__lm_cache_fits(cache, from, length, sizes->prompt))
        tn_error_refuse_argument(
            TN_ERR_UNSUPPORTED, call, "prompt",
            "prompt is %" PRId64 ", but sequence %d has a prompt of %" PRId64
            " tokens, and the rotary embedding is scaled by this length",
            sizes->prompt, from, source->prompt);
    else
        return true;
    return false;
}

tn_status tn_lm_cache_fork(tn_lm_cache *cache, int i, int from, int64_t length,
                           int64_t positions, int64_t prompt)
{
    static const char call[] = "lm_cache_fork";
    tn__lm_sequence *s = sequence_of(cache, i, call), sizes;
    if (!s || tn_error() || !sequence_of(cache, from, call) ||
        !read_sizes(cache, positions, prompt, &sizes, call) ||
        !check_fork(cache, from, length, &sizes, call))
        return tn_error_code();
    const tn__lm_sequence *source = &cache->sequence[from];
    const bool same_room = s->kv && s->room == sizes.room;
    if (same_room && i == from) {
        if (!copy_rows(cache, s, NULL, length, s->length))
            return tn_error_code();
    } else if (same_room && s->length == 0) {
        if (!copy_rows(cache, s, source, 0, length))
            return tn_error_code();
    } else {
        if (!reserve(cache, &sizes, call) ||
            !copy_rows(cache, &sizes, source, 0, length)) {
            clear(cache, &sizes);
            return tn_error_code();
        }
        tn__lm_kv *kv = sizes.kv;
        clear(cache, s);
        s->kv = kv;
    }
    s->room = sizes.room;
    s->limit = sizes.limit;
    s->prompt = sizes.prompt;
    s->length = length;
    return TN_OK;
}

tn_status tn_lm_cache_end(tn_lm_cache *cache, int i)
{
    tn__lm_sequence *s = sequence_of(cache, i, "lm_cache_end");
    if (!s)
        return tn_error_code();
    clear(cache, s);
    return TN_OK;
}

tn_status tn_lm_cache_cut(tn_lm_cache *cache, int i, int64_t length)
{
    static const char call[] = "lm_cache_cut";
    tn__lm_sequence *s = sequence_of(cache, i, call);
    if (!s)
        return tn_error_code();
    if (length < 0 || length > s->length)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "length",
                                        "length is %" PRId64 "; expected 0 to "
                                        "the %" PRId64 " tokens of sequence %d",
                                        length, s->length, i);
    if (!copy_rows(cache, s, NULL, length, s->length))
        return tn_error_code();
    s->length = length;
    return TN_OK;
}

int64_t tn_lm_cache_length(const tn_lm_cache *cache, int i)
{
    return cache && tn__lm_is_cache(cache, "lm_cache_length") && i >= 0 &&
                   i < cache->count
               ? cache->sequence[i].length
               : 0;
}
