/* vocab.c: a hash table of tokens, and a trie. */
#include <lm/tokenizer/vocab.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t mix(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    const wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Hashes 16 bytes at a time by multiplying their halves, as wyhash does. */
uint64_t tn__hash(uint64_t seed, const void *data, size_t bytes)
{
    static const uint64_t k0 = 0xa0761d6478bd642f, k1 = 0xe7037ed1a0b428db;
    const unsigned char *p = data;
    uint64_t a = 0, b = 0, h = seed ^ k0;
    size_t left = bytes;
    for (; left > 16; left -= 16, p += 16) {
        memcpy(&a, p, 8);
        memcpy(&b, p + 8, 8);
        h = mix(a ^ k1, b ^ h);
    }
    if (left >= 8) {
        memcpy(&a, p, 8);
        memcpy(&b, p + left - 8, 8);
    } else if (left >= 4) {
        uint32_t low, high;
        memcpy(&low, p, 4);
        memcpy(&high, p + left - 4, 4);
        a = low;
        b = high;
    } else if (left) {
        a = (uint64_t)p[0] << 16 | (uint64_t)p[left / 2] << 8 | p[left - 1];
        b = 0;
    } else {
        a = b = 0;
    }
    return mix(mix(a ^ k1, b ^ h), (uint64_t)bytes ^ k1);
}

bool tn__vocab_init(tn__vocab *vocab, tn__own *arena, int32_t id_end)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    vocab->seed = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15u ^
                  (uint64_t)(uintptr_t)&now ^ (uint64_t)(uintptr_t)arena << 20;
    size_t slots = 16;
    while (slots < (size_t)id_end * 2)
        slots *= 2;
    vocab->mask = slots - 1;
    vocab->token =
        tn__own_array(arena, (size_t)id_end + 1, sizeof *vocab->token);
    vocab->slot = tn__own_array(arena, slots, sizeof *vocab->slot);
    if (!vocab->token || !vocab->slot)
        return false;
    memset(vocab->slot, 0xff, slots * sizeof *vocab->slot);
    vocab->id_end = id_end;
    return true;
}

int32_t tn__vocab_find_hash(const tn__vocab *vocab, uint64_t hash,
                            const void *text, size_t bytes)
{
    if (!vocab->slot)
        return -1;
    for (size_t i = hash & vocab->mask;; i = (i + 1) & vocab->mask) {
        const tn__vocab_slot *s = &vocab->slot[i];
        if (s->id < 0)
            return -1;
        if (s->hash == (uint32_t)(hash >> 32)) {
            const tn__token *t = &vocab->token[s->id];
            if (t->bytes == bytes && memcmp(t->text, text, bytes) == 0)
                return s->id;
        }
    }
}

uint64_t tn__vocab_prefetch(const tn__vocab *vocab, const void *text,
                            size_t bytes)
{
    const uint64_t hash = tn__hash(vocab->seed, text, bytes);
    __builtin_prefetch(&vocab->slot[hash & vocab->mask]);
    return hash;
}

int32_t tn__vocab_find(const tn__vocab *vocab, const void *text, size_t bytes)
{
    return tn__vocab_find_hash(vocab, tn__hash(vocab->seed, text, bytes),
                               text, bytes);
}

void tn__vocab_add(tn__vocab *vocab, int32_t id, const char *text,
                   size_t bytes)
{
    const uint64_t hash = tn__hash(vocab->seed, text, bytes);
    size_t i = hash & vocab->mask;
    vocab->token[id].text = text;
    vocab->token[id].bytes = (uint32_t)bytes;
    for (;; i = (i + 1) & vocab->mask) {
        tn__vocab_slot *s = &vocab->slot[i];
        if (s->id < 0) {
            *s = (tn__vocab_slot){(uint32_t)(hash >> 32), id};
            vocab->count++;
            return;
        }
        const tn__token *t = &vocab->token[s->id];
        if (s->hash == (uint32_t)(hash >> 32) && t->bytes == bytes &&
            memcmp(t->text, text, bytes) == 0) {
            s->id = id;
            return;
        }
    }
}

/* ---- the trie ------------------------------------------------------------ */

typedef struct trie_todo {
    size_t low, high; /* words with the same prefix */
    uint32_t node, depth;
} trie_todo;

static int compare_words(const void *left, const void *right)
{
    const tn__trie_word *a = left, *b = right;
    const size_t least = a->bytes < b->bytes ? a->bytes : b->bytes;
    const int order = memcmp(a->text, b->text, least);
    return order              ? order
           : a->bytes != b->bytes ? (a->bytes < b->bytes ? -1 : 1)
                                  : (a->id > b->id) - (a->id < b->id);
}

bool tn__trie_build(tn__trie *trie, tn__own *arena, tn__trie_word *word,
                    size_t count)
{
    /* Count the nodes. In sorted order, a word adds one node for each byte
     * after the prefix that it shares with the previous word. */
    qsort(word, count, sizeof *word, compare_words);
    size_t nodes = 1;
    for (size_t i = 0; i < count; i++) {
        size_t same = 0;
        if (i)
            while (same < word[i].bytes && same < word[i - 1].bytes &&
                   word[i].text[same] == word[i - 1].text[same])
                same++;
        nodes += word[i].bytes - same;
    }
    trie_todo *todo = NULL;
    size_t todo_count = 0, todo_room = 0;
    bool good = nodes < UINT32_MAX &&
                (trie->node = tn__own_array(arena, nodes,
                                              sizeof *trie->node)) &&
                tn__array_grow(&todo, &todo_room, 1, sizeof *todo);
    if (good) {
        trie->node[0].id = -1;
        trie->count = 1;
        todo[todo_count++] = (trie_todo){0, count, 0, 0};
    }
    while (good && todo_count) {
        const trie_todo t = todo[--todo_count];
        tn__trie_node *node = &trie->node[t.node];
        size_t at = t.low;
        node->child = trie->count;
        for (; at < t.high && word[at].bytes == t.depth; at++)
            if (t.depth)
                node->id = word[at].id;
        while (at < t.high) {
            const unsigned char byte = (unsigned char)word[at].text[t.depth];
            size_t end = at;
            while (end < t.high &&
                   (unsigned char)word[end].text[t.depth] == byte)
                end++;
            const uint32_t child = trie->count++;
            trie->node[child].id = -1;
            trie->node[child].byte = byte;
            node->count++;
            if (!t.node)
                trie->first[byte] = child;
            if (!(good = tn__array_grow(&todo, &todo_room, todo_count + 1,
                                        sizeof *todo)))
                break;
            todo[todo_count++] = (trie_todo){at, end, child, t.depth + 1};
            at = end;
        }
    }
    free(todo);
    return good;
}
