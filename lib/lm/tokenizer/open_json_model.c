/* open_json_model.c: reads the member "model" of tokenizer.json: the
 * vocabulary, scores and merges. */
#include <lm/tokenizer/pipeline.h>

#include <stdlib.h>
#include <string.h>

static bool refuse_key(const tn__reader *reader, const char *key,
                       const char *why)
{
    tn__reader at = *reader;
    at.key = key;
    return tn__refuse(&at, TN_ERR_FORMAT, "%s", why);
}

/* ---- vocabularies -------------------------------------------------------- */

/* {"token": id, ..} */
static bool read_vocab(tn_tokenizer *t, const tn__reader *reader,
                       const tn__json_value *model)
{
    const tn__json_value *vocab = tn__json_get(model, "vocab");
    int64_t id_end = 0;
    if (!tn__json_is(vocab, TN__JSON_OBJECT))
        return refuse_key(reader, "model.vocab", "is not an object");
    TN__JSON_EACH(v, vocab)
    {
        if (v->kind != TN__JSON_INTEGER || v->integer < 0 ||
            v->integer >= TN__MOST_IDS) {
            tn__reader at = *reader;
            at.key = "model.vocab";
            return tn__refuse(&at, TN_ERR_FORMAT,
                              "the id of \"%.60s\" is not an integer below %d",
                              v->key, (int)TN__MOST_IDS);
        }
        if (v->integer >= id_end)
            id_end = v->integer + 1;
    }
    if (!tn__vocab_init(&t->model.vocab, &t->arena, (int32_t)id_end))
        return false;
    TN__JSON_EACH(v, vocab)
        tn__vocab_add(&t->model.vocab, (int32_t)v->integer, v->key,
                      v->key_bytes);
    return true;
}

/* [["token", score], ..] */
static bool read_scores(tn_tokenizer *t, const tn__reader *reader,
                        const tn__json_value *model)
{
    const tn__json_value *vocab = tn__json_get(model, "vocab");
    if (!tn__json_is(vocab, TN__JSON_LIST) || vocab->count >= TN__MOST_IDS)
        return refuse_key(reader, "model.vocab",
                          "is not a list of tokens and scores");
    t->model.score =
        tn__own_array(&t->arena, vocab->count + 1, sizeof(double));
    if (!t->model.score ||
        !tn__vocab_init(&t->model.vocab, &t->arena, (int32_t)vocab->count))
        return false;
    int32_t id = 0;
    t->model.least_score = __builtin_inf();
    TN__JSON_EACH(v, vocab)
    {
        const tn__json_value *token = tn__json_at(v, 0);
        double score;
        if (!tn__json_is(token, TN__JSON_TEXT) ||
            !tn__json_real(tn__json_at(v, 1), &score)) {
            tn__reader at = *reader;
            at.key = "model.vocab";
            return tn__refuse(&at, TN_ERR_FORMAT,
                              "item %d is not a token and its score", (int)id);
        }
        t->model.score[id] = score;
        if (score < t->model.least_score)
            t->model.least_score = score;
        tn__vocab_add(&t->model.vocab, id++, token->text, token->bytes);
    }
    return true;
}

/* ---- merges -------------------------------------------------------------- */

enum { TOGETHER = 16 }; /* number of merges whose look-ups are prefetched
                           together */

typedef struct text_merge {
    const char *part[3]; /* left, right, both */
    size_t bytes[3];
    uint64_t hash[3];
    uint32_t rank;
} text_merge;

/* Looks up the tokens of up to TOGETHER merges and adds the merges. Each level
 * of the look-ups is prefetched for all of them before the next level is
 * read. */
static bool add_merges(tn_tokenizer *t, const tn__reader *reader,
                       text_merge *m, size_t count)
{
    tn__vocab *vocab = &t->model.vocab;
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < 3; k++)
            m[i].hash[k] =
                tn__vocab_prefetch(vocab, m[i].part[k], m[i].bytes[k]);
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < 3; k++) {
            const int32_t id =
                vocab->slot[m[i].hash[k] & vocab->mask].id;
            if (id >= 0)
                __builtin_prefetch(&vocab->token[id]);
        }
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < 3; k++) {
            const int32_t id =
                vocab->slot[m[i].hash[k] & vocab->mask].id;
            if (id >= 0)
                __builtin_prefetch(vocab->token[id].text);
        }
    int32_t ids[TOGETHER][3];
    for (size_t i = 0; i < count; i++) {
        int32_t *id = ids[i];
        for (int k = 0; k < 3; k++) {
            id[k] = tn__vocab_find_hash(vocab, m[i].hash[k], m[i].part[k],
                                        m[i].bytes[k]);
            if (id[k] < 0) {
                tn__reader at = *reader;
                at.key = "model.merges";
                return tn__refuse(&at, TN_ERR_FORMAT,
                                  "merge %u: \"%.*s\" is not in the "
                                  "vocabulary", m[i].rank,
                                  (int)(m[i].bytes[k] < 60 ? m[i].bytes[k]
                                                           : 60),
                                  m[i].part[k]);
            }
        }
        tn__merges_prefetch(&t->model, id[0], id[1]);
    }
    for (size_t i = 0; i < count; i++)
        tn__merges_add(&t->model, ids[i][0], ids[i][1], m[i].rank, ids[i][2]);
    return true;
}

/* Splits a merge, "a b" or ["a", "b"], into its two tokens. */
static bool split_merge(const tn__json_value *v, text_merge *m)
{
    if (v->kind == TN__JSON_TEXT) {
        const char *space = memchr(v->text, ' ', v->bytes);
        if (!space)
            return false;
        m->part[0] = v->text;
        m->bytes[0] = (size_t)(space - v->text);
        m->part[1] = space + 1;
        m->bytes[1] = v->bytes - m->bytes[0] - 1;
        return !memchr(m->part[1], ' ', m->bytes[1]);
    }
    if (v->kind != TN__JSON_LIST || v->count != 2)
        return false;
    for (int k = 0; k < 2; k++) {
        const tn__json_value *part = tn__json_at(v, (size_t)k);
        if (part->kind != TN__JSON_TEXT)
            return false;
        m->part[k] = part->text;
        m->bytes[k] = part->bytes;
    }
    return true;
}

static bool read_merges(tn_tokenizer *t, const tn__reader *reader,
                        const tn__json_value *model)
{
    const tn__json_value *merges = tn__json_get(model, "merges");
    if (!tn__json_is(merges, TN__JSON_LIST) || merges->count >= UINT32_MAX)
        return refuse_key(reader, "model.merges", "is not a list");
    if (!tn__merges_init(&t->model, &t->arena, merges->count))
        return false;
    text_merge few[TOGETHER];
    size_t count = 0, both_room = 0, used = 0;
    char *both = NULL; /* the concatenated texts of the merges in few[] */
    uint32_t rank = 0;
    bool good = true;
    TN__JSON_EACH(v, merges)
    {
        text_merge *m = &few[count];
        if (!(good = split_merge(v, m))) {
            tn__reader at = *reader;
            at.key = "model.merges";
            tn__refuse(&at, TN_ERR_FORMAT, "merge %u is not two tokens", rank);
            break;
        }
        m->rank = rank++;
        /* the right token loses its prefix (as "##") when it is merged */
        const size_t prefix = m->bytes[1] >= t->model.prefix_bytes
                                  ? t->model.prefix_bytes
                                  : 0;
        m->bytes[2] = m->bytes[0] + m->bytes[1] - prefix;
        if (used + m->bytes[2] > both_room && count) {
            if (!(good = add_merges(t, reader, few, count)))
                break;
            few[0] = *m;
            m = &few[0];
            count = used = 0;
        }
        /* growing may move the array, so it grows only while no element of
         * few[] points into it */
        if (used + m->bytes[2] > both_room &&
            !(good = tn__array_grow(&both, &both_room, m->bytes[2] + 4096, 1)))
            break;
        char *to = both + used;
        memcpy(to, m->part[0], m->bytes[0]);
        memcpy(to + m->bytes[0], m->part[1] + prefix, m->bytes[1] - prefix);
        m->part[2] = to;
        used += m->bytes[2];
        if (++count == TOGETHER) {
            if (!(good = add_merges(t, reader, few, count)))
                break;
            count = used = 0;
        }
    }
    good = good && add_merges(t, reader, few, count);
    free(both);
    return good;
}

/* ---- models -------------------------------------------------------------- */

/* Reads unk_token. The model's unk is -1 if the file has none, or if it is not
 * in the vocabulary. */
static bool read_unk(tn_tokenizer *t, const tn__reader *reader,
                     const tn__json_value *model)
{
    const char *unk;
    size_t bytes;
    if (!tn__member_text(reader, model, "unk_token", NULL, &unk, &bytes))
        return false;
    t->model.unk = unk ? tn__vocab_find(&t->model.vocab, unk, bytes) : -1;
    if (unk && t->model.unk < 0)
        t->model.unk_missing = unk;
    return true;
}

static bool read_affix(const tn__reader *reader, const tn__json_value *model,
                       const char *name, const char **text, size_t *bytes)
{
    if (!tn__member_text(reader, model, name, NULL, text, bytes))
        return false;
    if (*bytes > 255)
        return tn__refuse(reader, TN_ERR_FORMAT,
                          "\"%s\" is longer than 255 bytes", name);
    if (!*bytes)
        *text = NULL;
    return true;
}

static bool read_bpe(tn_tokenizer *t, const tn__reader *reader,
                     const tn__json_value *model)
{
    double dropout = 0;
    const tn__json_value *d = tn__json_get(model, "dropout");
    if (d && d->kind != TN__JSON_NULL &&
        (!tn__json_real(d, &dropout) || dropout != 0))
        return refuse_key(reader, "model.dropout",
                          "random merges are not supported: set it to null");
    t->model.kind = TN__BPE;
    return read_affix(reader, model, "continuing_subword_prefix",
                      &t->model.prefix, &t->model.prefix_bytes) &&
           read_affix(reader, model, "end_of_word_suffix", &t->model.suffix,
                      &t->model.suffix_bytes) &&
           tn__member_bool(reader, model, "fuse_unk", false,
                           &t->model.fuse_unk) &&
           tn__member_bool(reader, model, "byte_fallback", false,
                           &t->model.byte_fallback) &&
           tn__member_bool(reader, model, "ignore_merges", false,
                           &t->model.whole_words) &&
           read_vocab(t, reader, model) && read_unk(t, reader, model) &&
           read_merges(t, reader, model);
}

static bool read_wordpiece(tn_tokenizer *t, const tn__reader *reader,
                           const tn__json_value *model)
{
    t->model.kind = TN__WORDPIECE;
    return tn__member_text(reader, model, "continuing_subword_prefix", "##",
                           &t->model.prefix, &t->model.prefix_bytes) &&
           tn__member_integer(reader, model, "max_input_chars_per_word", 100,
                              &t->model.most_chars) &&
           read_vocab(t, reader, model) && read_unk(t, reader, model);
}

static bool read_wordlevel(tn_tokenizer *t, const tn__reader *reader,
                           const tn__json_value *model)
{
    t->model.kind = TN__WORDLEVEL;
    return read_vocab(t, reader, model) && read_unk(t, reader, model);
}

static bool read_unigram(tn_tokenizer *t, const tn__reader *reader,
                         const tn__json_value *model)
{
    int64_t unk;
    t->model.kind = TN__UNIGRAM;
    if (!tn__member_bool(reader, model, "byte_fallback", false,
                         &t->model.byte_fallback) ||
        !tn__member_integer(reader, model, "unk_id", -1, &unk) ||
        !read_scores(t, reader, model))
        return false;
    if (unk >= t->model.vocab.id_end)
        return refuse_key(reader, "model.unk_id",
                          "is not below the number of tokens");
    t->model.unk = (int32_t)unk;
    return true;
}

static const struct {
    const char *name;
    bool (*read)(tn_tokenizer *t, const tn__reader *reader,
                 const tn__json_value *model);
} model_table[] = {
    {"BPE", read_bpe},
    {"WordPiece", read_wordpiece},
    {"WordLevel", read_wordlevel},
    {"Unigram", read_unigram},
};

/* Older files do not contain the type of the model. Returns it from the members
 * that are present. */
static const char *guess_model(const tn__json_value *model)
{
    return tn__json_get(model, "merges") ? "BPE"
           : tn__json_is(tn__json_get(model, "vocab"), TN__JSON_LIST)
               ? "Unigram"
           : tn__json_get(model, "continuing_subword_prefix") ? "WordPiece"
                                                              : "WordLevel";
}

bool tn__model_parse(tn_tokenizer *t, tn__reader *reader,
                     const tn__json_value *root)
{
    const tn__json_value *model = tn__json_get(root, "model");
    const char *type = tn__json_text(tn__json_get(model, "type"));
    reader->key = "model";
    if (!tn__json_is(model, TN__JSON_OBJECT))
        return tn__refuse(reader, TN_ERR_FORMAT, "is missing");
    if (!type)
        type = guess_model(model);
    for (size_t i = 0; i < sizeof model_table / sizeof *model_table; i++)
        if (strcmp(type, model_table[i].name) == 0)
            return model_table[i].read(t, reader, model) &&
                   tn__model_index(&t->model, &t->arena);
    return tn__refuse(reader, TN_ERR_FORMAT, "the type \"%.60s\" is unknown",
                      type);
}
