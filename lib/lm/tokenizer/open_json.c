/* open_json.c: reads tokenizer.json. The vocabulary points to strings in the
 * file's contents, which stay in memory as long as the tokenizer. */
#include <lm/tokenizer/pipeline.h>

#include <stdlib.h>
#include <string.h>

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
    tn__json json = {.take = tn__take_large, .give = free};
    const tn__json_value *root = tn__json_read(&json, text, bytes);
    bool good = false;
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
    good = tn__model_parse(t, reader, root) && read_added(t, reader, root) &&
           tn__template_parse(t, reader,
                              tn__json_get(root, "post_processor")) &&
           read_padding(t, reader, root);
end:
    tn__json_free(&json);
    return good;
}
