/* template.c: templates, which say where the special tokens around a text or a
 * pair of texts are. The post-processors of tokenizer.json define them. */
#include <lm/tokenizer/pipeline.h>

#include <string.h>

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

/* ---- post-processors ----------------------------------------------------- */

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

/* Checks that the ids of the templates are those of tokens. */
static bool check_ids(const tn_tokenizer *t, const tn__reader *reader)
{
    const tn__template *const both[] = {&t->single, &t->pair};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < both[k]->count; i++)
            if (both[k]->item[i].id >= t->id_end)
                return tn__refuse(reader, TN_ERR_FORMAT, "no token has the "
                                  "id %d", (int)both[k]->item[i].id);
    return true;
}

bool tn__template_parse(tn_tokenizer *t, tn__reader *reader,
                        const tn__json_value *value)
{
    bool has_template = false;
    reader->key = "post_processor";
    return read_post(t, reader, value, 0, &has_template) &&
           (has_template || tn__template_plain(t)) && check_ids(t, reader);
}
