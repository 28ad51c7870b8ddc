/* model.c: WordPiece and Unigram, the call that runs any model (BPE is in
 * bpe.c), and the cache of words and their ids. */
#include <lm/tokenizer/pipeline.h>

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- WordPiece ----------------------------------------------------------- */

/* WordPiece: takes the longest token at each position. If no token matches at
 * some position, the whole word becomes the unknown token. */
static bool wordpiece_run(const tn__model *model, tn__work *work, size_t begin,
                       size_t end)
{
    const unsigned char *text = work->text.bytes;
    const size_t first_id = work->id_count;
    int64_t chars = 0;
    for (size_t at = begin; at < end; at += tn__utf8_length(text[at]))
        chars++;
    size_t at = chars > model->most_chars ? end + 1 : begin;
    while (at < end) {
        uint32_t node = 0;
        bool from_root = true;
        if (at > begin && model->prefix_bytes) {
            node = model->trie_prefix;
            from_root = false;
        }
        int32_t best = -1;
        size_t best_end = at;
        if (from_root || node)
            for (size_t i = at; i < end;) {
                node = tn__trie_step(&model->trie, node, text[i++]);
                if (!node)
                    break;
                /* only in a malicious file can a token end within a
                 * character */
                if (model->trie.node[node].id >= 0 &&
                    (i == end || (text[i] & 0xc0) != 0x80)) {
                    best = model->trie.node[node].id;
                    best_end = i;
                }
            }
        if (best < 0)
            break;
        if (!tn__work_add_id(work, best, at, best_end))
            return false;
        at = best_end;
    }
    if (at == end)
        return true;
    work->id_count = first_id;
    if (model->unk >= 0)
        return tn__work_add_id(work, model->unk, begin, end);
    tn_error_set(TN_ERR_STATE, "tokenizer_encode: the word \"%.*s\" has no "
                 "tokens, and the vocabulary has no unknown token",
                 (int)(end - begin < 60 ? end - begin : 60), text + begin);
    return false;
}

static bool wordlevel_run(const tn__model *model, tn__work *work, size_t begin,
                          size_t end)
{
    const unsigned char *text = work->text.bytes;
    int32_t id = tn__vocab_find(&model->vocab, text + begin, end - begin);
    if (id < 0)
        id = model->unk;
    if (id >= 0)
        return tn__work_add_id(work, id, begin, end);
    tn_error_set(TN_ERR_STATE, "tokenizer_encode: the word \"%.*s\" is not "
                 "a token, and the vocabulary has no unknown token",
                 (int)(end - begin < 60 ? end - begin : 60), text + begin);
    return false;
}

/* ---- Unigram ------------------------------------------------------------- */

typedef struct best_end {
    double score;
    int32_t id;
    uint32_t begin; /* where the token that ends here begins; UINT32_MAX if no
                       token ends here */
} best_end;

/* Unigram: finds the segmentation into tokens with the highest sum of scores,
 * by the Viterbi algorithm over the positions where tokens can end. A character
 * that is not a token becomes the unknown token, whose score is the lowest
 * score minus 10. T. Kudo, "Subword Regularization", 2018. */
static bool unigram_run(const tn__model *model, tn__work *work, size_t begin,
                     size_t end)
{
    const size_t count = end - begin;
    const unsigned char *text = work->text.bytes + begin;
    if (!tn__array_grow(&work->scratch, &work->scratch_room,
                        (count + 1) * sizeof(best_end), 1))
        return false;
    best_end *best = work->scratch;
    for (size_t i = 0; i <= count; i++)
        best[i] = (best_end){0, -1, UINT32_MAX};
    const double unk_score = model->least_score - 10;
    for (size_t at = 0; at < count;) {
        const size_t next = at + tn__utf8_length(text[at]);
        const double here = best[at].score;
        bool single = false;
        uint32_t node = 0;
        for (size_t i = at; i < count;) {
            node = tn__trie_step(&model->trie, node, text[i++]);
            if (!node)
                break;
            const int32_t id = model->trie.node[node].id;
            if (id < 0 || (i < count && (text[i] & 0xc0) == 0x80))
                continue;
            const double score = model->score[id] + here;
            if (best[i].begin == UINT32_MAX || score > best[i].score)
                best[i] = (best_end){score, id, (uint32_t)at};
            single |= i == next;
        }
        if (!single) {
            const double score = unk_score + here;
            if (best[next].begin == UINT32_MAX || score > best[next].score) {
                if (model->unk < 0) {
                    tn_error_set(TN_ERR_STATE, "tokenizer_encode: the "
                                 "character \"%.*s\" is not a token, and "
                                 "the file has no \"unk_id\"",
                                 (int)(next - at), text + at);
                    return false;
                }
                best[next] = (best_end){score, model->unk, (uint32_t)at};
            }
        }
        at = next;
    }
    const size_t first_id = work->id_count;
    for (size_t at = count; at > 0;) {
        size_t from = best[at].begin;
        if (best[at].id == model->unk) /* consecutive unknown characters become
                                          one token */
            while (from > 0 && best[from].id == model->unk)
                from = best[from].begin;
        bool bytes = best[at].id == model->unk && model->byte_fallback;
        for (size_t i = from; bytes && i < at; i++)
            bytes = model->byte_id[text[i]] >= 0;
        int32_t id = best[at].id;
        if (id == model->unk) { /* their joined text may be a token after all */
            const int32_t whole =
                tn__vocab_find(&model->vocab, text + from, at - from);
            if (whole >= 0) {
                id = whole;
                bytes = false;
            }
        }
        if (bytes) { /* backwards, as all */
            for (size_t i = at; i > from; i--)
                if (!tn__work_add_id(work, model->byte_id[text[i - 1]],
                                     begin + from, begin + at))
                    return false;
        } else if (!tn__work_add_id(work, id, begin + from, begin + at)) {
            return false;
        }
        at = from;
    }
    for (size_t i = first_id, j = work->id_count; i + 1 < j; i++) {
        j--;
        const int32_t id = work->id[i];
        const tn__piece span = work->span[i];
        work->id[i] = work->id[j];
        work->span[i] = work->span[j];
        work->id[j] = id;
        work->span[j] = span;
    }
    return true;
}

/* ---- the cache ----------------------------------------------------------- */

enum { CACHE_SLOTS = 1 << 16, CACHE_PROBES = 4 };

/* A word and its ids. An entry is not changed after it is in the table, because
 * other threads read it. */
typedef struct cached {
    uint64_t hash;
    uint8_t bytes, count;
    /* then count ids, count ends (bytes from the word's begin), the word */
    int32_t id[];
} cached;

struct tn__cache {
    _Atomic(cached *) slot[CACHE_SLOTS];
};

static struct tn__cache *cache_new(void)
{
    return calloc(1, sizeof(struct tn__cache));
}

void tn__cache_free(struct tn__cache *cache)
{
    for (size_t i = 0; cache && i < CACHE_SLOTS; i++)
        free(atomic_load_explicit(&cache->slot[i], memory_order_relaxed));
    free(cache);
}

static const uint8_t *ends_of(const cached *c)
{
    return (const uint8_t *)(c->id + c->count);
}

static bool cache_find(struct tn__cache *cache, uint64_t hash, tn__work *work,
                    size_t begin, size_t end, bool *found)
{
    *found = false;
    for (size_t k = 0; k < CACHE_PROBES; k++) {
        const cached *c = atomic_load_explicit(
            &cache->slot[(hash + k) % CACHE_SLOTS], memory_order_acquire);
        if (!c)
            return true;
        const uint8_t *ends = ends_of(c);
        if (c->hash != hash || c->bytes != end - begin ||
            memcmp(ends + c->count, work->text.bytes + begin, c->bytes))
            continue;
        *found = true;
        size_t at = begin;
        for (size_t i = 0; i < c->count; i++) {
            if (!tn__work_add_id(work, c->id[i], at, begin + ends[i]))
                return false;
            at = begin + ends[i];
        }
        return true;
    }
    return true;
}

static void cache_add(struct tn__cache *cache, uint64_t hash,
                   const tn__work *work, size_t begin, size_t end,
                   size_t first_id)
{
    const size_t count = work->id_count - first_id, bytes = end - begin;
    size_t at = begin;
    if (count > TN__CACHE_WORD)
        return;
    for (size_t i = 0; i < count; i++) { /* only words whose tokens cover them
                                            without gaps are cached */
        const tn__piece *span = &work->span[first_id + i];
        if (span->begin != at)
            return;
        at = span->end;
    }
    cached *c = malloc(sizeof *c + count * sizeof *c->id + count + bytes);
    if (!c)
        return; /* encoding works without the cache, so this is not an error */
    c->hash = hash;
    c->bytes = (uint8_t)bytes;
    c->count = (uint8_t)count;
    uint8_t *ends = (uint8_t *)(c->id + count);
    for (size_t i = 0; i < count; i++) {
        c->id[i] = work->id[first_id + i];
        ends[i] = (uint8_t)(work->span[first_id + i].end - begin);
    }
    memcpy(ends + count, work->text.bytes + begin, bytes);
    for (size_t k = 0; k < CACHE_PROBES; k++) {
        cached *none = NULL;
        if (atomic_compare_exchange_strong_explicit(
                &cache->slot[(hash + k) % CACHE_SLOTS], &none, c,
                memory_order_release, memory_order_relaxed))
            return;
    }
    /* All slots that this word may use are occupied. Entries are not replaced,
     * because words that occur early are usually the frequent ones. */
    free(c);
}

/* ---- any model ----------------------------------------------------------- */

typedef bool (*model_run)(const tn__model *model, tn__work *work, size_t begin,
                          size_t end);

static const model_run run_table[] = {
    [TN__BPE] = tn__bpe_run,           [TN__RANKS] = tn__bpe_run,
    [TN__SCORES] = tn__bpe_run,        [TN__WORDPIECE] = wordpiece_run,
    [TN__WORDLEVEL] = wordlevel_run,   [TN__UNIGRAM] = unigram_run,
};

static bool run_word(const tn__model *model, tn__work *work, size_t begin,
                     size_t end)
{
    if (begin == end)
        return true;
    if (!model->cache || end - begin > TN__CACHE_WORD)
        return run_table[model->kind](model, work, begin, end);
    const uint64_t hash = tn__hash(model->vocab.seed, work->text.bytes + begin,
                                   end - begin);
    bool found;
    if (!cache_find(model->cache, hash, work, begin, end, &found))
        return false;
    if (found)
        return true;
    const size_t first_id = work->id_count;
    if (!run_table[model->kind](model, work, begin, end))
        return false;
    cache_add(model->cache, hash, work, begin, end, first_id);
    return true;
}

static const unsigned char space_text[3] = {0xe2, 0x96, 0x81}; /* U+2581 */

bool tn__model_run(const tn__model *model, tn__work *work,
                   const tn__piece *piece)
{
    const unsigned char *text = work->text.bytes;
    size_t begin = piece->begin;
    if (model->before_space)
        for (size_t at = begin + 1; at + 3 < piece->end; at++) {
            const unsigned char *found =
                memchr(text + at, space_text[0], piece->end - 3 - at);
            if (!found)
                break;
            at = (size_t)(found - text);
            if (memcmp(found, space_text, 3))
                continue;
            size_t before = tn__utf8_before(text, at);
            if (tn__set_has(model->before_space,
                            tn__utf8_take(text, &before)))
                continue;
            if (!run_word(model, work, begin, at))
                return false;
            begin = at;
        }
    return run_word(model, work, begin, piece->end);
}

static bool find_before_space(tn__model *model, tn__own *arena)
{
    tn__ranges ranges = {0};
    for (int32_t id = 0; id < model->vocab.id_end; id++) {
        const tn__token *t = &model->vocab.token[id];
        const unsigned char *text = (const unsigned char *)t->text;
        for (size_t at = 1; t->text && at + 3 <= t->bytes; at++) {
            const unsigned char *found =
                memchr(text + at, space_text[0], t->bytes - at - 2);
            if (!found)
                break;
            at = (size_t)(found - text);
            /* a token of a malicious GGUF file need not be UTF-8 */
            size_t before = tn__utf8_before(text, at);
            const int32_t c = tn__utf8_read(text, at, &before);
            if (memcmp(found, space_text, 3) == 0 && c >= 0)
                tn__ranges_add(&ranges, c, c);
        }
    }
    const tn__set *set = tn__set_new(arena, &ranges);
    tn__ranges_free(&ranges);
    /* a byte token such as "<0x0A>" stands for the byte, not for these
     * characters */
    if (set && !(model->byte_fallback && tn__set_has(set, '>')))
        model->before_space = set;
    return set != NULL;
}

bool tn__model_index(tn__model *model, tn__own *arena)
{
    for (int c = 0; c < 128; c++) {
        const char one = (char)c;
        model->char_id[c] = tn__vocab_find(&model->vocab, &one, 1);
    }
    for (int b = 0; b < 256; b++) {
        char name[8];
        const char one = (char)b;
        snprintf(name, sizeof name, "<0x%02X>", b);
        model->byte_id[b] =
            model->kind == TN__RANKS
                ? tn__vocab_find(&model->vocab, &one, 1)
                : tn__vocab_find(&model->vocab, name, strlen(name));
    }
    if (model->kind == TN__WORDPIECE || model->kind == TN__UNIGRAM) {
        const size_t most = (size_t)model->vocab.id_end;
        tn__trie_word *word = malloc((most + 1) * sizeof *word);
        if (!word) {
            tn_error_set(TN_ERR_MEMORY, "tokenizer_open: out of memory for "
                         "%zu tokens", most);
            return false;
        }
        size_t count = 0;
        for (size_t i = 0; i < most; i++) {
            const tn__token *t = &model->vocab.token[i];
            if (t->text && t->bytes)
                word[count++] =
                    (tn__trie_word){t->text, t->bytes, (int32_t)i};
        }
        const bool good = tn__trie_build(&model->trie, arena, word, count);
        free(word);
        if (!good)
            return false;
        for (size_t i = 0; i < model->prefix_bytes; i++) {
            model->trie_prefix =
                tn__trie_step(&model->trie, model->trie_prefix,
                              (unsigned char)model->prefix[i]);
            if (!model->trie_prefix)
                break;
        }
    }
    if ((model->kind == TN__BPE || model->kind == TN__SCORES) &&
        !model->prefix && !model->suffix &&
        tn__vocab_find(&model->vocab, space_text, 3) >= 0 &&
        !find_before_space(model, arena))
        return false;
    model->cache = model->kind == TN__WORDLEVEL ? NULL : cache_new();
    return true;
}
