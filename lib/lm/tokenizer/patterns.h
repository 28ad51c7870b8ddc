/* patterns.h: the patterns of published pre-tokenizers, by the names that GGUF
 * files ("llama-bpe") and tiktoken ("cl100k_base") give them. */
#ifndef TN_LIB_LM_TOKENIZER_PATTERNS_H
#define TN_LIB_LM_TOKENIZER_PATTERNS_H

#include <stdbool.h>
#include <stdint.h>

enum { TN__MOST_PATTERNS = 6 };

typedef struct tn__pattern {
    const char *names;   /* separated by blanks */
    bool whole_words;    /* a word that is a token is not merged from parts */
    bool add_bos;        /* unless the file says otherwise */
    const char *regex[TN__MOST_PATTERNS]; /* split the text one after another;
                                             NULL at the end */
} tn__pattern;

/* Returns NULL if no pattern has this name. */
const tn__pattern *tn__pattern_find(const char *name);

typedef struct tn__known_special {
    const char *encoding; /* of tiktoken */
    const char *token;
    int32_t id;
} tn__known_special;

/* Special tokens of tiktoken's encodings, which their files do not hold. The
 * last one has no name. */
extern const tn__known_special tn__known_special_table[];

#endif
