/* patterns.h: the regular expressions of published pre-tokenizers. GGUF files
 * ("llama-bpe") and tiktoken ("cl100k_base") contain only their names. */
#ifndef TN_LIB_LM_TOKENIZER_PATTERNS_H
#define TN_LIB_LM_TOKENIZER_PATTERNS_H

#include <stdbool.h>
#include <stdint.h>

enum { TN__MOST_PATTERNS = 6 };

typedef struct tn__pattern {
    const char *names;   /* separated by blanks */
    bool whole_words;    /* a word that is itself a token is not split, even if
                            no merges lead to it */
    bool add_bos;        /* default of the file's add_bos_token */
    const char *regex[TN__MOST_PATTERNS]; /* applied one after another; NULL
                                             after the last one */
} tn__pattern;

/* Returns NULL if no pattern has this name. */
const tn__pattern *tn__pattern_find(const char *name);

typedef struct tn__known_special {
    const char *encoding; /* name of tiktoken's encoding */
    const char *token;
    int32_t id;
} tn__known_special;

/* Special tokens of tiktoken's encodings, which their files do not hold. The
 * last one has no name. */
extern const tn__known_special tn__known_special_table[];

#endif
