/* open_json.c: reads tokenizer.json. The vocabulary points to the texts in the
 * memory that holds the file, which lives as long as the tokenizer. */
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
                              "the id of \"%.60s\" is not a whole number "
                              "below %d", v->key, (int)TN__MOST_IDS);
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

static bool read_model(tn_tokenizer *t, tn__reader *reader,
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

/* ---- added tokens -------------------------------------------------------- */

static bool read_added(tn_tokenizer *t, tn__reader *reader,
                       const tn__json_value *root)
{
    const tn__json_value *list = tn__json_get(root, "added_tokens");
    reader->key = "added_tokens";
    if (list && list->kind == TN__JSON_LIST) {
        t->added = tn__own_array(&t->arena, list->count + 1,
                                   sizeof *t->added);
        if (!t->added)
            return false;
        TN__JSON_EACH(v, list)
        {
            tn__added *a = &t->added[t->added_count];
            if (!tn__json_is(v, TN__JSON_OBJECT) ||
                !tn__json_is(tn__json_get(v, "content"), TN__JSON_TEXT))
                return tn__refuse(reader, TN_ERR_FORMAT, "token %zu has no "
                                  "\"content\"", t->added_count);
            if (!tn__member_text(reader, v, "content", "", &a->content,
                                 &a->content_bytes) ||
                !tn__member_bool(reader, v, "special", false, &a->special) ||
                !tn__member_bool(reader, v, "single_word", false,
                                 &a->single_word) ||
                !tn__member_bool(reader, v, "lstrip", false, &a->lstrip) ||
                !tn__member_bool(reader, v, "rstrip", false, &a->rstrip) ||
                !tn__member_bool(reader, v, "normalized", !a->special,
                                 &a->normalized))
                return false;
            if (a->content_bytes > TN__MOST_ADDED)
                return tn__refuse(reader, TN_ERR_FORMAT, "token %zu is longer "
                                  "than %d bytes", t->added_count,
                                  (int)TN__MOST_ADDED);
            t->added_count += a->content_bytes != 0;
        }
    } else if (list && list->kind != TN__JSON_NULL) {
        return tn__refuse(reader, TN_ERR_FORMAT, "is not a list");
    }
    return tn__added_index(t);
}

/* ---- post-processors ----------------------------------------------------- */

static bool template_add(tn_tokenizer *t, tn__template *to, int32_t id,
                      int64_t type)
{
    tn__template_item *item =
        tn__own_array(&t->arena, to->count + 1, sizeof *item);
    if (!item)
        return false;
    if (to->count)
        memcpy(item, to->item, to->count * sizeof *item);
    item[to->count] = (tn__template_item){id, (int32_t)type};
    to->item = item;
    to->count++;
    return true;
}

bool tn__template_plain(tn_tokenizer *t)
{
    return tn__template_around(t, -1, -1);
}

bool tn__template_around(tn_tokenizer *t, int32_t bos, int32_t eos)
{
    t->single.count = t->pair.count = 0;
    for (int k = 0; k < 3; k++) { /* k is 0 for the single text, 1 and 2 for the
                                     two of a pair */
        tn__template *to = k ? &t->pair : &t->single;
        const int type = k == 2;
        if ((bos >= 0 && !template_add(t, to, bos, type)) ||
            !template_add(t, to, k == 2 ? -2 : -1, type) ||
            (eos >= 0 && !template_add(t, to, eos, type)))
            return false;
    }
    return true;
}

/* Reads the template "single" or "pair" of TemplateProcessing. */
static bool read_template(tn_tokenizer *t, const tn__reader *reader,
                          const tn__json_value *value, const char *name,
                          tn__template *to)
{
    const tn__json_value *list = tn__json_get(value, name);
    if (!tn__json_is(list, TN__JSON_LIST) || list->count > 1000)
        return tn__refuse(reader, TN_ERR_FORMAT, "\"%s\" is not a list of at "
                          "most 1000 items", name);
    to->count = 0;
    TN__JSON_EACH(v, list)
    {
        const tn__json_value *special = tn__json_get(v, "SpecialToken");
        const tn__json_value *text = tn__json_get(v, "Sequence");
        const tn__json_value *item = special ? special : text;
        const tn__json_value *id = tn__json_get(item, "id");
        int64_t type;
        if (!tn__json_is(id, TN__JSON_TEXT))
            return tn__refuse(reader, TN_ERR_FORMAT, "an item of \"%s\" is "
                              "neither SpecialToken nor Sequence", name);
        if (!tn__member_integer(reader, item, "type_id", 0, &type))
            return false;
        if (type > INT32_MAX)
            return tn__refuse(reader, TN_ERR_FORMAT, "\"type_id\" is too "
                              "large");
        if (!special) {
            const bool a = strcmp(id->text, "A") == 0;
            if (!a && strcmp(id->text, "B"))
                return tn__refuse(reader, TN_ERR_FORMAT, "a Sequence of "
                                  "\"%s\" is neither A nor B", name);
            if (!template_add(t, to, a ? -1 : -2, type))
                return false;
            continue;
        }
        const tn__json_value *token =
            tn__json_get(tn__json_get(value, "special_tokens"), id->text);
        const tn__json_value *ids = tn__json_get(token, "ids");
        if (!tn__json_is(ids, TN__JSON_LIST) || ids->count > 1000)
            return tn__refuse(reader, TN_ERR_FORMAT, "\"special_tokens\" has "
                              "no ids of \"%.60s\"", id->text);
        TN__JSON_EACH(one, ids)
        {
            if (one->kind != TN__JSON_INTEGER || one->integer < 0 ||
                one->integer >= TN__MOST_IDS)
                return tn__refuse(reader, TN_ERR_FORMAT, "an id of \"%.60s\" "
                                  "is not a token's", id->text);
            if (!template_add(t, to, (int32_t)one->integer, type))
                return false;
        }
    }
    return true;
}

static bool process_template(tn_tokenizer *t, const tn__reader *reader,
                             const tn__json_value *value)
{
    return read_template(t, reader, value, "single", &t->single) &&
           read_template(t, reader, value, "pair", &t->pair);
}

/* ["[SEP]", 102] */
static bool read_pair(const tn__reader *reader, const tn__json_value *value,
                      const char *name, int32_t *id)
{
    const tn__json_value *v = tn__json_at(tn__json_get(value, name), 1);
    if (!tn__json_is(v, TN__JSON_INTEGER) || v->integer < 0 ||
        v->integer >= TN__MOST_IDS)
        return tn__refuse(reader, TN_ERR_FORMAT, "\"%s\" is not a token and "
                          "its id", name);
    *id = (int32_t)v->integer;
    return true;
}

/* Makes the templates: cls A sep; and for pairs cls A sep B sep, or cls A sep
 * sep B sep. */
static bool process_bert(tn_tokenizer *t, const tn__reader *reader,
                         const tn__json_value *value, bool roberta)
{
    int32_t sep = 0, cls = 0;
    const int32_t type = roberta ? 0 : 1;
    t->single.count = t->pair.count = 0;
    return read_pair(reader, value, "sep", &sep) &&
           read_pair(reader, value, "cls", &cls) &&
           template_add(t, &t->single, cls, 0) &&
           template_add(t, &t->single, -1, 0) &&
           template_add(t, &t->single, sep, 0) &&
           template_add(t, &t->pair, cls, 0) &&
           template_add(t, &t->pair, -1, 0) &&
           template_add(t, &t->pair, sep, 0) &&
           (!roberta || template_add(t, &t->pair, sep, 0)) &&
           template_add(t, &t->pair, -2, type) &&
           template_add(t, &t->pair, sep, type);
}

static bool read_post(tn_tokenizer *t, tn__reader *reader,
                      const tn__json_value *value, int depth,
                      bool *has_template)
{
    const char *type = tn__json_text(tn__json_get(value, "type"));
    if (!value || value->kind == TN__JSON_NULL)
        return true;
    if (!type)
        return tn__refuse(reader, TN_ERR_FORMAT, "an object with \"type\" is "
                          "expected");
    if (strcmp(type, "Sequence") == 0) {
        if (depth == 16)
            return tn__refuse(reader, TN_ERR_FORMAT, "a Sequence is nested "
                              "deeper than 16");
        TN__JSON_EACH(v, tn__json_get(value, "processors"))
            if (!read_post(t, reader, v, depth + 1, has_template))
                return false;
        return true;
    }
    const bool roberta = strcmp(type, "RobertaProcessing") == 0;
    const bool byte_level = strcmp(type, "ByteLevel") == 0;
    if (byte_level || roberta) {
        bool trim;
        if (!tn__member_bool(reader, value, "trim_offsets", true, &trim) ||
            !tn__member_bool(reader, value, "add_prefix_space", true,
                             &t->trim_prefix_space))
            return false;
        t->trim_offsets |= trim;
        if (byte_level)
            return true;
    }
    if (*has_template)
        return tn__refuse(reader, TN_ERR_FORMAT, "two templates in a Sequence "
                          "are not supported");
    *has_template = true;
    if (roberta || strcmp(type, "BertProcessing") == 0)
        return process_bert(t, reader, value, roberta);
    if (strcmp(type, "TemplateProcessing") == 0)
        return process_template(t, reader, value);
    return tn__refuse(reader, TN_ERR_FORMAT, "the type \"%.60s\" is unknown",
                      type);
}

static bool read_template_ids(const tn_tokenizer *t, const tn__reader *reader)
{
    const tn__template *const both[] = {&t->single, &t->pair};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < both[k]->count; i++)
            if (both[k]->item[i].id >= t->id_end)
                return tn__refuse(reader, TN_ERR_FORMAT, "no token has the "
                                  "id %d", (int)both[k]->item[i].id);
    return true;
}

/* ---- padding, and all ---------------------------------------------------- */

static bool read_padding(tn_tokenizer *t, tn__reader *reader,
                         const tn__json_value *root)
{
    const tn__json_value *padding = tn__json_get(root, "padding");
    const tn__json_value *cut = tn__json_get(root, "truncation");
    int64_t id, type;
    const char *direction;
    size_t bytes;
    reader->key = "padding";
    if (tn__json_is(padding, TN__JSON_OBJECT)) {
        if (!tn__member_integer(reader, padding, "pad_id", 0, &id) ||
            !tn__member_integer(reader, padding, "pad_type_id", 0, &type) ||
            !tn__member_text(reader, padding, "direction", "Right",
                             &direction, &bytes))
            return false;
        if (id >= TN__MOST_IDS || type > INT32_MAX)
            return tn__refuse(reader, TN_ERR_FORMAT, "\"pad_id\" is not "
                              "the id of a token");
        t->pad_id = (int32_t)id;
        t->pad_type = (int32_t)type;
        t->pad_left = strcmp(direction, "Left") == 0;
    }
    reader->key = "truncation";
    return !tn__json_is(cut, TN__JSON_OBJECT) ||
           tn__member_integer(reader, cut, "max_length", INT64_MAX,
                              &t->most_ids);
}

/* Returns whether there is a Metaspace with prepend_scheme "first". It needs to
 * know where in the original text a piece begins. */
static bool asks_origin(const tn_tokenizer *t)
{
    for (const tn__step *s = t->pretokenizer.first; s; s = s->next)
        if (s->prepend == TN__PREPEND_FIRST)
            return true;
    return false;
}

bool tn__open_json(tn_tokenizer *t, tn__reader *reader, char *text,
                   size_t bytes)
{
    tn__json json = {.take = malloc, .give = free};
    const tn__json_value *root = tn__json_read(&json, text, bytes);
    bool good = false, has_template = false;
    if (!root) {
        if (*json.error)
            tn__refuse(reader, TN_ERR_FORMAT, "line %zu, column %zu: %s",
                       json.line, json.column, json.error);
        else
            tn_error_set(TN_ERR_MEMORY, "tokenizer_open: %s: out of memory "
                         "for its JSON", reader->path);
        goto end;
    }
    reader->key = "normalizer";
    if (!tn__normalizer_parse(reader, tn__json_get(root, "normalizer"),
                              &t->normalizer))
        goto end;
    reader->key = "pre_tokenizer";
    if (!tn__pretokenizer_parse(reader, tn__json_get(root, "pre_tokenizer"),
                                &t->pretokenizer))
        goto end;
    t->needs_origin = asks_origin(t);
    reader->key = "decoder";
    const tn__json_value *decoder = tn__json_get(root, "decoder");
    t->has_decoder = decoder && decoder->kind != TN__JSON_NULL;
    if (!tn__decoder_parse(reader, decoder, &t->decoder))
        goto end;
    for (const tn__step *s = t->decoder.first; s; s = s->next)
        t->decoder_has_regex |= s->regex != NULL;
    if (!read_model(t, reader, root) || !read_added(t, reader, root))
        goto end;
    reader->key = "post_processor";
    if (!read_post(t, reader, tn__json_get(root, "post_processor"), 0,
                   &has_template))
        goto end;
    if (!has_template && !tn__template_plain(t))
        goto end;
    good = read_template_ids(t, reader) && read_padding(t, reader, root);
end:
    tn__json_free(&json);
    return good;
}
