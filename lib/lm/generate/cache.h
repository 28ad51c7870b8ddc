/* cache.h: the keys and values of running sequences. */
#ifndef TN_LIB_LM_GENERATE_CACHE_H
#define TN_LIB_LM_GENERATE_CACHE_H

#include <lm/model/model.h>

typedef struct tn__lm_sequence {
    tn__lm_kv *kv;  /* owned; one for each layer; NULL: has not begun */
    int64_t room;   /* positions, a multiple of TN__LM_BLOCK */
    int64_t limit;  /* positions that the caller asked for */
    int64_t length; /* tokens in it */
    int64_t prompt; /* tokens that were known at once */
    bool listed;    /* scratch of tn_lm_decode */
} tn__lm_sequence;

struct tn_lm_cache {
    tn_object object;
    tn_lm *lm; /* kept */
    tn_dtype dtype;
    int count;
    tn__lm_sequence *sequence; /* owned */
};

bool tn__lm_is_cache(const tn_lm_cache *cache, const char *call);
/* Whether the model may generate: it is a decoder, and no dropout is active. */
bool tn__lm_can_decode(const tn_lm *lm, const char *call);
bool tn__lm_check_ids(const tn_lm *lm, const int64_t *ids, int64_t count,
                      const char *call);

/* Fills mask (rows, keys) for queries from `position` on and keys from `key` on:
 * true where a query sees a key of its window (0: all before it). */
tn_tensor *tn__lm_mask(int64_t rows, int64_t position, int64_t key,
                       int64_t keys, int64_t window);

#endif
