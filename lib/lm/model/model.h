/* model.h: a language model, and the functions that run it. */
#ifndef TN_LIB_LM_MODEL_MODEL_H
#define TN_LIB_LM_MODEL_MODEL_H

#include <lm/model/layers.h>

enum { TN__LM_MAX_EOS = 16 };

struct tn_lm {
    tn_module base;
    tn__lm_spec spec;
    tn_module *embed, *embed_position, *embed_type, *embed_norm;   /* or NULL */
    tn_module *distance_bias, *layers, *last_norm, *pooler, *head; /* or NULL */
    int64_t eos[TN__LM_MAX_EOS]; /* tokens that end a text */
    int eos_count;
    int pooling; /* TN__LM_POOL_..., the default of tn_lm_embed, read from the
                    folder */
    bool normalize;
    char *folder; /* owned; where it was opened; NULL for a GGUF file */
    char *config; /* owned; the text of config.json */
    size_t config_bytes;
    int64_t block_numel, block_bytes; /* of weights in blocks */
};

enum {
    TN__LM_POOL_MEAN,
    TN__LM_POOL_CLS,
    TN__LM_POOL_MAX,
    TN__LM_POOL_LAST,
    TN__LM_POOLS
};

/* Makes the model that spec describes. prefix precedes most names ("" for
 * none). */
tn_lm *tn__lm_model_make(tn__lm_maker *maker, const tn__lm_spec *spec,
                         const char *prefix);
bool tn__lm_is_model(const tn_lm *lm, const char *call);
/* Return the dtype in which a model computes, and the device of its weights. */
tn_dtype tn__lm_dtype(const tn_lm *lm);
tn_device *tn__lm_device(const tn_lm *lm);

/* Fills cos and sin of a pass for `count` positions. */
bool tn__lm_pass_tables(const tn_lm *lm, tn__lm_pass *pass,
                        const int64_t *positions, const int64_t *lengths,
                        int64_t count);
/* Computes each token's row in the learned position embedding: its position, or
 * for spec.positions_skip_pad a number that skips padding. ids[0] is at
 * position `from`. */
void tn__lm_position_rows(const tn_lm *lm, const int64_t *ids, int64_t count,
                          int64_t from, int64_t *out);
/* Returns the relative position bias of MPNet for `time` positions, (heads,
 * time, time). */
tn_tensor *tn__lm_distance_bias(tn_lm *lm, int64_t time);
/* Runs the embedding, the layers and the last norm. positions and types may be
 * NULL if the model does not use them. hidden, if not NULL, receives layers + 1
 * tensors: the inputs of all layers and the result. */
tn_tensor *tn__lm_body(tn_lm *lm, tn_tensor *ids, tn_tensor *positions,
                       tn_tensor *types, const tn__lm_pass *pass,
                       tn_tensor **hidden);
/* Returns the logits of hidden states. */
tn_tensor *tn__lm_logits(tn_lm *lm, tn_tensor *x);

#endif
