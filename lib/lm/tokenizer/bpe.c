/* bpe.c: byte pair encoding. Adjacent symbols are merged until no pair can be
 * merged. Each step merges the best pair, or the leftmost of several equally
 * good pairs.
 *
 * For BPE, the file lists which pairs merge. For RANKS and SCORES, two symbols
 * merge if their concatenated text is a token; the pair with the lowest id
 * (RANKS) or the highest score (SCORES) is the best.
 *
 * For short words, each step scans all pairs for the best one. For long words,
 * the pairs are in a heap, so a word of n symbols takes O(n log n) time. */
#include <lm/tokenizer/pipeline.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_SYMBOLS = 24 };
#define NEVER UINT32_MAX

typedef struct symbol {
    int32_t id;      /* -1: the text is not a token (SCORES) */
    int32_t previous, next; /* -1: none */
    uint32_t begin, end;    /* its text in the buffer; empty after the symbol
                               was merged into another */
    uint32_t rank;   /* rank of the pair of this symbol and the next one, or
                        NEVER */
    int32_t merged;  /* id of that pair */
} symbol;

typedef struct heap_entry {
    uint32_t rank;
    int32_t at;
    uint32_t end; /* end of the pair; the entry is outdated if the pair now ends
                     elsewhere */
} heap_entry;

bool tn__merges_init(tn__model *model, tn__own *arena, size_t count)
{
    size_t slots = 16; /* at most 4/5 of the slots are used */
    while (slots < count + count / 4)
        slots *= 2;
    model->merge_mask = slots - 1;
    model->merge = tn__own_array(arena, slots, sizeof *model->merge);
    if (!model->merge)
        return false;
    for (size_t i = 0; i < slots; i++)
        model->merge[i].pair = UINT64_MAX;
    return true;
}

static size_t merge_slot(const tn__model *model, uint64_t pair)
{
    uint64_t h = (pair ^ model->vocab.seed) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
    h *= 0xe7037ed1a0b428dbu;
    return (h >> 24) & model->merge_mask;
}

void tn__merges_prefetch(const tn__model *model, int32_t left, int32_t right)
{
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    __builtin_prefetch(&model->merge[merge_slot(model, pair)]);
}

void tn__merges_add(tn__model *model, int32_t left, int32_t right,
                    uint32_t rank, int32_t id)
{
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t i = merge_slot(model, pair);
    while (model->merge[i].pair != UINT64_MAX && model->merge[i].pair != pair)
        i = (i + 1) & model->merge_mask;
    model->merge[i] = (tn__merge){pair, rank, id};
}

/* Maps scores to integers in reverse order: the highest score becomes the
 * lowest rank. */
static uint32_t rank_of_score(float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    if (isnan(score))
        return NEVER - 1;
    const uint32_t ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
    const uint32_t descending = ~ascending;
    return descending < NEVER - 1 ? descending : NEVER - 1;
}

/* Sets the rank of the pair of s and the symbol after it. */
static void rank_pair(const tn__model *model, const unsigned char *text,
                      symbol *s, const symbol *next)
{
    s->rank = NEVER;
    if (model->kind == TN__BPE) {
        if (s->id < 0 || next->id < 0)
            return;
        const uint64_t pair =
            (uint64_t)(uint32_t)s->id << 32 | (uint32_t)next->id;
        for (size_t i = merge_slot(model, pair);;
             i = (i + 1) & model->merge_mask) {
            const tn__merge *m = &model->merge[i];
            if (m->pair == pair) {
                s->rank = m->rank;
                s->merged = m->id;
                return;
            }
            if (m->pair == UINT64_MAX)
                return;
        }
    }
    const int32_t id = tn__vocab_find(&model->vocab, text + s->begin,
                                      next->end - s->begin);
    if (id < 0)
        return;
    s->merged = id;
    s->rank = model->kind == TN__RANKS
                  ? (uint32_t)id
                  : rank_of_score(model->vocab.token[id].score);
}

/* Merges s with the next symbol. */
static void merge(const tn__model *model, const unsigned char *text,
                  symbol *all, symbol *s)
{
    symbol *gone = &all[s->next];
    s->id = s->merged;
    s->end = gone->end;
    s->next = gone->next;
    gone->begin = gone->end;
    gone->rank = NEVER;
    s->rank = NEVER;
    if (s->next >= 0) {
        all[s->next].previous = (int32_t)(s - all);
        rank_pair(model, text, s, &all[s->next]);
    }
    if (s->previous >= 0)
        rank_pair(model, text, &all[s->previous], s);
}

static void merge_few(const tn__model *model, const unsigned char *text,
                      symbol *all)
{
    /* all[0] is never merged into another symbol, so the list of symbols begins
     * with it */
    for (;;) {
        uint32_t least = NEVER;
        int32_t best = -1;
        for (int32_t i = 0; i >= 0; i = all[i].next)
            if (all[i].rank < least) {
                least = all[i].rank;
                best = i;
            }
        if (best < 0)
            return;
        merge(model, text, all, &all[best]);
    }
}

/* ---- the heap ------------------------------------------------------------ */

static bool is_less(const heap_entry *a, const heap_entry *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(heap_entry *heap, size_t *count, heap_entry e)
{
    size_t i = (*count)++;
    while (i && is_less(&e, &heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = e;
}

static heap_entry heap_pop(heap_entry *heap, size_t *count)
{
    const heap_entry top = heap[0], e = heap[--*count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= *count)
            break;
        if (child + 1 < *count && is_less(&heap[child + 1], &heap[child]))
            child++;
        if (!is_less(&heap[child], &e))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = e;
    return top;
}

static void push_pair(const symbol *all, int32_t i, heap_entry *heap,
                      size_t *count)
{
    if (i >= 0 && all[i].rank != NEVER)
        heap_push(heap, count,
                  (heap_entry){all[i].rank, i, all[all[i].next].end});
}

/* Like the scan above, but with a heap. The heap has room for 3 entries per
 * symbol, because each merge pushes two. */
static void merge_many(const tn__model *model, const unsigned char *text,
                       symbol *all, int32_t count, heap_entry *heap)
{
    size_t n = 0;
    for (int32_t i = 0; i < count; i++)
        push_pair(all, i, heap, &n);
    while (n) {
        const heap_entry e = heap_pop(heap, &n);
        symbol *s = &all[e.at];
        if (s->rank != e.rank || s->begin == s->end || s->next < 0 ||
            all[s->next].end != e.end)
            continue; /* one of its symbols was merged with another */
        merge(model, text, all, s);
        push_pair(all, e.at, heap, &n);
        push_pair(all, s->previous, heap, &n);
    }
}

/* ---- symbols ------------------------------------------------------------- */

typedef struct symbols {
    symbol *all;
    int32_t count;
} symbols;

static void add_symbol(symbols *to, int32_t id, size_t begin, size_t end)
{
    symbol *s = &to->all[to->count];
    *s = (symbol){.id = id,
                  .previous = to->count - 1,
                  .next = to->count + 1,
                  .begin = (uint32_t)begin,
                  .end = (uint32_t)end,
                  .rank = NEVER};
    to->count++;
}

/* Returns the id of a character. Whether the character is at the beginning, in
 * the middle or at the end of a word decides which prefix and suffix its token
 * has. */
static int32_t find_char(const tn__model *model, const unsigned char *text,
                         size_t begin, size_t end, bool first, bool last)
{
    const bool prefix = model->prefix && !first;
    const bool suffix = model->suffix && last;
    if (!prefix && !suffix)
        return end - begin == 1 && text[begin] < 0x80
                   ? model->char_id[text[begin]]
                   : tn__vocab_find(&model->vocab, text + begin, end - begin);
    char whole[520]; /* prefix and suffix have at most 255 bytes each */
    size_t n = 0;
    if (prefix) {
        memcpy(whole, model->prefix, model->prefix_bytes);
        n = model->prefix_bytes;
    }
    memcpy(whole + n, text + begin, end - begin);
    n += end - begin;
    if (suffix) {
        memcpy(whole + n, model->suffix, model->suffix_bytes);
        n += model->suffix_bytes;
    }
    return tn__vocab_find(&model->vocab, whole, n);
}

/* Makes the symbols of a word: its characters, or for RANKS its bytes. */
static bool make_symbols(const tn__model *model, const unsigned char *text,
                         size_t begin, size_t end, symbols *to)
{
    if (model->kind == TN__RANKS) {
        for (size_t at = begin; at < end; at++)
            add_symbol(to, model->byte_id[text[at]], at, at + 1);
        return true;
    }
    bool unknown = false; /* the last symbol is the unknown token */
    for (size_t at = begin; at < end;) {
        size_t next = at + tn__utf8_length(text[at]);
        if (next > end)
            next = end;
        const int32_t id =
            find_char(model, text, at, next, at == begin, next == end);
        if (id >= 0 || model->kind == TN__SCORES) {
            add_symbol(to, id, at, next);
            unknown = false;
            at = next;
            continue;
        }
        bool bytes = model->byte_fallback;
        for (size_t i = at; bytes && i < next; i++)
            bytes = model->byte_id[text[i]] >= 0;
        if (bytes) {
            for (; at < next; at++)
                add_symbol(to, model->byte_id[text[at]], at, at + 1);
            unknown = false;
        } else if (model->unk >= 0) {
            if (unknown && model->fuse_unk)
                to->all[to->count - 1].end = (uint32_t)next;
            else
                add_symbol(to, model->unk, at, next);
            unknown = true;
        } else if (model->unk_missing) {
            tn_error_set(TN_ERR_STATE, "tokenizer_encode: the character "
                         "\"%.*s\" is not a token, and the unknown token "
                         "\"%.60s\" is not in the vocabulary",
                         (int)(next - at), text + at, model->unk_missing);
            return false;
        }
        at = next;
    }
    return true;
}

/* SCORES: appends the ids of text that is not a token: the tokens of its bytes,
 * or the unknown token. */
static bool add_unknown(const tn__model *model, tn__work *work, size_t begin,
                        size_t end)
{
    for (size_t at = begin; at < end; at++) {
        const int32_t id = model->byte_id[work->text.bytes[at]];
        if (id < 0) {
            if (model->unk >= 0)
                return tn__work_add_id(work, model->unk, begin, end);
            continue;
        }
        if (!tn__work_add_id(work, id, at, at + 1))
            return false;
    }
    return true;
}

bool tn__bpe_run(const tn__model *model, tn__work *work, size_t begin,
                 size_t end)
{
    const unsigned char *text = work->text.bytes;
    if (model->whole_words) {
        const int32_t id =
            tn__vocab_find(&model->vocab, text + begin, end - begin);
        if (id >= 0)
            return tn__work_add_id(work, id, begin, end);
    }
    const size_t most = end - begin;
    const bool few = most <= FEW_SYMBOLS;
    symbol here[FEW_SYMBOLS];
    symbols to = {here, 0};
    heap_entry *heap = NULL;
    if (!few) {
        const size_t bytes = most * sizeof(symbol);
        if (!tn__array_grow(&work->scratch, &work->scratch_room,
                            bytes + 3 * most * sizeof(heap_entry), 1))
            return false;
        to.all = work->scratch;
        heap = (heap_entry *)(void *)((char *)work->scratch + bytes);
    }
    if (!make_symbols(model, text, begin, end, &to))
        return false;
    if (!to.count)
        return true;
    to.all[to.count - 1].next = -1;
    for (int32_t i = 0; i + 1 < to.count; i++)
        rank_pair(model, text, &to.all[i], &to.all[i + 1]);
    if (few)
        merge_few(model, text, to.all);
    else
        merge_many(model, text, to.all, to.count, heap);
    for (int32_t i = 0; i >= 0; i = to.all[i].next) {
        const symbol *s = &to.all[i];
        if (!(s->id >= 0 ? tn__work_add_id(work, s->id, s->begin, s->end)
                         : add_unknown(model, work, s->begin, s->end)))
            return false;
    }
    return true;
}
