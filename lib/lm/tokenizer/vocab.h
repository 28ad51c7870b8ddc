/* vocab.h: the vocabulary of a model, which maps tokens to ids and ids to
 * tokens; and a trie, which finds the tokens that are prefixes of a text. */
#ifndef TN_LIB_LM_TOKENIZER_VOCAB_H
#define TN_LIB_LM_TOKENIZER_VOCAB_H

#include <lm/tokenizer/memory.h>

/* Ids are below this limit. The table of tokens is indexed by id, so without a
 * limit a small file with one large id would take much memory. */
enum { TN__MOST_IDS = 1 << 22 };

typedef struct tn__token {
    const char *text; /* NULL if no token has this id; ends with a NUL if it
                         was copied */
    uint32_t bytes;
    float score;
} tn__token;

typedef struct tn__vocab_slot {
    uint32_t hash;
    int32_t id; /* -1: free */
} tn__vocab_slot;

typedef struct tn__vocab {
    tn__token *token; /* by id */
    int32_t id_end;   /* the largest id plus 1 */
    int32_t count;    /* number of different texts */
    tn__vocab_slot *slot;
    size_t mask;
    uint64_t seed; /* seed of the hash, from the clock and addresses, so that
                      nobody can make a file whose tokens all collide */
} tn__vocab;

uint64_t tn__hash(uint64_t seed, const void *data, size_t bytes);

/* Makes an empty vocabulary with room for ids below id_end. */
bool tn__vocab_init(tn__vocab *vocab, tn__own *arena, int32_t id_end);
/* Adds a token, whose text is not copied. If the text has an id already,
 * tn__vocab_find will return the new one; the old id keeps its text. */
void tn__vocab_add(tn__vocab *vocab, int32_t id, const char *text,
                   size_t bytes);
/* Returns the id of a text, or -1. */
int32_t tn__vocab_find(const tn__vocab *vocab, const void *text,
                       size_t bytes);
/* The two halves of a look-up. tn__vocab_prefetch returns the hash, which
 * tn__vocab_find_hash takes. The caller begins several look-ups before it ends
 * the first, so that their cache misses overlap. */
uint64_t tn__vocab_prefetch(const tn__vocab *vocab, const void *text,
                            size_t bytes);
int32_t tn__vocab_find_hash(const tn__vocab *vocab, uint64_t hash,
                            const void *text, size_t bytes);

/* ---- prefixes ------------------------------------------------------------ */

typedef struct tn__trie_node {
    int32_t id;         /* token that ends here, or -1 */
    uint32_t child;     /* index of the first child; children are contiguous
                           and sorted by byte */
    uint16_t count;     /* number of children */
    uint8_t byte;
} tn__trie_node;

typedef struct tn__trie {
    tn__trie_node *node; /* node[0] is the root; NULL: the trie is empty */
    uint32_t count;
    uint32_t first[256]; /* children of the root by byte; 0: none */
} tn__trie;

typedef struct tn__trie_word {
    const char *text;
    uint32_t bytes;
    int32_t id;
} tn__trie_word;

/* Builds a trie of the words; sorts the array. If a word occurs several times,
 * its last id counts. Empty words are ignored. */
bool tn__trie_build(tn__trie *trie, tn__own *arena, tn__trie_word *word,
                    size_t count);

/* Returns the child of a node for a byte, or 0 if there is none. */
static inline uint32_t tn__trie_step(const tn__trie *trie, uint32_t node,
                                     unsigned char byte)
{
    if (!node)
        return trie->node ? trie->first[byte] : 0;
    const tn__trie_node *n = &trie->node[node];
    uint32_t low = n->child, high = n->child + n->count;
    while (high - low > 4) {
        const uint32_t middle = (low + high) / 2;
        if (trie->node[middle].byte <= byte)
            low = middle;
        else
            high = middle;
    }
    for (; low < high; low++)
        if (trie->node[low].byte == byte)
            return low;
    return 0;
}

#endif
