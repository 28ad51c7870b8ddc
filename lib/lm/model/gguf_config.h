/* gguf_config.h: reads the configuration of a model from a GGUF file. */
#ifndef TN_LIB_LM_MODEL_GGUF_CONFIG_H
#define TN_LIB_LM_MODEL_GGUF_CONFIG_H

#include <lm/model/spec.h>
#include <tenon/gguf.h>

/* Returns the metadata of a GGUF file as a config.json, a string from malloc
 * that the caller frees. Returns NULL with an error that names the key or the
 * tensor. */
char *tn__lm_gguf_config(tn_gguf *file);
/* Changes the fields of a spec that differ between Hugging Face's files of a
 * family and its GGUF files. */
void tn__lm_gguf_spec(tn__lm_spec *spec);
/* Returns how a sentence embedding is computed from the token embeddings:
 * "mean", "cls" or "last"; or NULL if the file does not say it. */
const char *tn__lm_gguf_pooling(tn_gguf *file);

#endif
