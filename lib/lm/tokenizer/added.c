/* added.c: finds added tokens in a text. Encoding does this before all other
 * steps. If several added tokens begin at the same position, the longest one
 * counts. */
#include <lm/tokenizer/pipeline.h>

#include <stdlib.h>
#include <string.h>

/* Finds the next token at or after *at in text[*at, end). */
static bool find_next(const tn__trie *trie, const unsigned char *text,
                      size_t *at, size_t end, size_t *stop, int32_t *index)
{
    for (size_t begin = *at; begin < end; begin++) {
        uint32_t node = trie->first[text[begin]];
        if (!node)
            continue;
        *index = -1;
        for (size_t i = begin + 1;; i++) {
            if (trie->node[node].id >= 0) {
                *index = trie->node[node].id;
                *stop = i;
            }
            if (i == end || !(node = tn__trie_step(trie, node, text[i])))
                break;
        }
        if (*index >= 0) {
            *at = begin;
            return true;
        }
    }
    return false;
}

static bool is_in_before(const tn__set *set, const unsigned char *text,
                         size_t begin, size_t at)
{
    if (at <= begin)
        return false;
    size_t before = tn__utf8_before(text, at);
    return tn__set_has(set, tn__utf8_take(text, &before));
}

static bool is_in_after(const tn__set *set, const unsigned char *text,
                        size_t at, size_t end)
{
    return at < end && tn__set_has(set, tn__utf8_take(text, &at));
}

static bool split_piece(const tn_tokenizer *t, tn__work *work,
                        const tn__trie *trie, bool special, tn__piece piece,
                        tn__pieces *out)
{
    const unsigned char *text = work->text.bytes;
    size_t done = piece.begin, at = piece.begin, stop;
    int32_t index;
    for (; find_next(trie, text, &at, piece.end, &stop, &index); at = stop) {
        const tn__added *added = &t->added[index];
        size_t begin = at, end = stop;
        if (added->special && !special)
            continue;
        if (added->single_word &&
            (is_in_before(t->word_set, text, piece.begin, begin) ||
             is_in_after(t->word_set, text, end, piece.end)))
            continue;
        while (added->lstrip && begin > done &&
               is_in_before(t->space_set, text, done, begin))
            begin = tn__utf8_before(text, begin);
        while (added->rstrip &&
               is_in_after(t->space_set, text, end, piece.end))
            end += tn__utf8_length(text[end]);
        /* as in Hugging Face's tokenizers: white space that rstrip of the
         * previous token has removed may still be an added token itself */
        if ((done < begin && !tn__pieces_add(out, done, begin, -1)) ||
            !tn__pieces_add(out, begin, end, added->id))
            return false;
        done = end;
    }
    return done == piece.end || tn__pieces_add(out, done, piece.end, -1);
}

bool tn__added_split(const tn_tokenizer *tokenizer, tn__work *work,
                     const tn__trie *trie, bool special)
{
    if (!trie->node)
        return true;
    tn__pieces *out = &work->spare_pieces;
    out->count = 0;
    for (size_t i = 0; i < work->pieces.count; i++) {
        const tn__piece piece = work->pieces.piece[i];
        if (!(piece.id < 0 ? split_piece(tokenizer, work, trie, special, piece,
                                         out)
                           : tn__pieces_add(out, piece.begin, piece.end,
                                            piece.id)))
            return false;
    }
    const tn__pieces pieces = work->pieces;
    work->pieces = work->spare_pieces;
    work->spare_pieces = pieces;
    return true;
}

/* ---- making the tables --------------------------------------------------- */

/* Sets the text by which an added token is found in normalized text: its
 * content, normalized. */
static bool normalize_content(tn_tokenizer *t, tn__work *work, tn__added *a)
{
    a->normal = a->content;
    a->normal_bytes = a->content_bytes;
    if (!a->normalized || !t->normalizer.first)
        return true;
    if (!tn__work_begin(work) ||
        !tn__buffer_add(work, &work->text, a->content, a->content_bytes,
                        (tn__origin){0, 0}) ||
        !tn__pieces_add(&work->pieces, 0, a->content_bytes, -1) ||
        !tn__steps_run(&t->normalizer, work))
        return false;
    a->normal = tn__own_text(&t->arena, (char *)work->text.bytes,
                               work->text.count);
    a->normal_bytes = work->text.count;
    return a->normal != NULL;
}

static bool build_trie(tn_tokenizer *t, bool normalized, tn__trie *trie)
{
    tn__trie_word *word = malloc((t->added_count + 1) * sizeof *word);
    size_t count = 0;
    if (!word)
        return tn_error_set(TN_ERR_MEMORY, "tokenizer_open: out of memory "
                            "for %zu added tokens", t->added_count), false;
    for (size_t i = 0; i < t->added_count; i++) {
        const tn__added *a = &t->added[i];
        if (a->normalized == normalized && a->normal_bytes)
            word[count++] = (tn__trie_word){a->normal,
                                            (uint32_t)a->normal_bytes,
                                            (int32_t)i};
    }
    const bool good = !count || tn__trie_build(trie, &t->arena, word, count);
    free(word);
    return good;
}

bool tn__added_index(tn_tokenizer *t)
{
    tn__work work = {0};
    tn__ranges ranges = {0};
    int32_t next = t->model.vocab.count;
    bool good = tn__vocab_init(&t->added_vocab, &t->arena,
                               (int32_t)t->added_count + 1);
    /* Added tokens that the model does not have get new ids, in the order of
     * the file. added_vocab maps texts to indices into `added`. */
    for (size_t i = 0; good && i < t->added_count; i++) {
        tn__added *a = &t->added[i];
        const int32_t before =
            tn__vocab_find(&t->added_vocab, a->content, a->content_bytes);
        a->id = before >= 0 ? t->added[before].id
                            : tn__vocab_find(&t->model.vocab, a->content,
                                             a->content_bytes);
        if (a->id < 0)
            a->id = next++;
        tn__vocab_add(&t->added_vocab, (int32_t)i, a->content,
                      a->content_bytes);
        if (before >= 0) { /* a later token with the same text replaces it */
            t->added[before].content_bytes = 0;
            t->added[before].normal_bytes = 0;
        }
        good = normalize_content(t, &work, a);
    }
    tn__work_free(&work);
    t->id_end = t->model.vocab.id_end > next ? t->model.vocab.id_end : next;
    if (good) {
        t->added_of = tn__own_array(&t->arena, (size_t)t->id_end + 1,
                                      sizeof *t->added_of);
        good = t->added_of != NULL;
    }
    for (int32_t i = 0; good && i < t->id_end; i++)
        t->added_of[i] = -1;
    for (size_t i = 0; good && i < t->added_count; i++)
        if (t->added[i].content_bytes)
            t->added_of[t->added[i].id] = (int32_t)i;
    tn__ranges_add_word(&ranges);
    tn__ranges_add(&ranges, 0x200c, 0x200d); /* as Rust's \w */
    good = good && (t->word_set = tn__set_new(&t->arena, &ranges)) &&
           (t->space_set = tn__set_of_categories(&t->arena, 0, 0));
    tn__ranges_free(&ranges);
    return good && build_trie(t, false, &t->raw_trie) &&
           build_trie(t, true, &t->normal_trie);
}
