/* kv_cache.h: caches the keys and values of running sequences. */
#ifndef TN_LIB_LM_GENERATE_KV_CACHE_H
#define TN_LIB_LM_GENERATE_KV_CACHE_H

#include <lm/model/model.h>

typedef struct tn__lm_sequence {
    tn__lm_kv *kv;  /* owned array, one for each layer; NULL: the sequence has
                       not begun */
    int64_t room;   /* positions for which memory is reserved, a multiple of
                       TN__LM_BLOCK */
    int64_t limit;  /* maximum length, given by the caller */
    int64_t length; /* number of cached tokens */
    int64_t prompt; /* length of the prompt */
    bool listed;    /* used by tn_lm_decode to find sequences that are listed
                       twice */
} tn__lm_sequence;

struct tn_lm_cache {
    tn_object object;
    tn_lm *lm; /* kept */
    tn_dtype dtype;
    int count;
    tn__lm_sequence *sequence; /* owned */
};

bool tn__lm_is_cache(const tn_lm_cache *cache, const char *call);
/* Returns whether the model can generate: it must be a decoder, and no dropout
 * may be active. If not, records an error of `call`. */
bool tn__lm_can_decode(const tn_lm *lm, const char *call);
bool tn__lm_check_ids(const tn_lm *lm, const int64_t *ids, int64_t count,
                      const char *call);

/* Returns whether the keys of the first `length` tokens of sequence `from` are
 * also valid for a prompt of `prompt` tokens. They may not be if the scale of
 * the rotary embedding depends on the length of the prompt. */
bool tn__lm_cache_fits(const tn_lm_cache *cache, int from, int64_t length,
                       int64_t prompt);

/* Frees the cache memory of requests that have ended (batch.c). */
void tn__lm_batch_trim(tn_lm_batch *batch);

/* Makes a mask (rows, keys) for queries that begin at `position` and keys that
 * begin at `key`: true where the query may read the key. A query does not read
 * keys after its own position. If window is not 0, it reads only the last
 * `window` keys up to its position. */
tn_tensor *tn__lm_mask(int64_t rows, int64_t position, int64_t key,
                       int64_t keys, int64_t window);

#endif
