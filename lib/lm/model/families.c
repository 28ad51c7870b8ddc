/* families.c: the list of families. */
#include <lm/model/spec.h>

#define FAMILIES(X)                                                            \
    X(llama)                                                                   \
    X(mistral)                                                                 \
    X(qwen2) X(qwen3) X(qwen3_moe) X(gemma3) X(phi3) X(gpt2) X(gptneox)        \
        X(bert) X(roberta) X(mpnet) X(distilbert)

#define DECLARE(name) extern const tn__lm_family tn__lm_##name;
FAMILIES(DECLARE)

#define ROW(name) &tn__lm_##name,
const tn__lm_family *const tn__lm_families[] = {FAMILIES(ROW) NULL};
