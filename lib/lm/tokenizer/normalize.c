/* normalize.c: the normalizers of tokenizer.json. normal_form.c has the normal
 * forms. */
#include <lm/tokenizer/pipeline.h>

#include <stdlib.h>
#include <string.h>

/* ---- one character at a time --------------------------------------------- */

static bool rewrite_lower(const tn__step *step, tn__work *work,
                          const tn__piece *piece, tn__buffer *out)
{
    (void)step;
    const unsigned char *text = work->text.bytes;
    for (size_t at = piece->begin; at < piece->end;) {
        const size_t begin = at;
        while (at < piece->end && text[at] < 0x80)
            at++;
        if (at > begin) {
            const size_t to = out->count;
            if (!tn__buffer_copy(work, out, begin, at))
                return false;
            for (size_t i = to; i < out->count; i++)
                if (out->bytes[i] >= 'A' && out->bytes[i] <= 'Z')
                    out->bytes[i] |= 32;
            continue;
        }
        const tn__origin origin = tn__origin_at(work, at);
        const int32_t c = tn__utf8_take(text, &at);
        /* U+0130 is the only character whose lower case is two characters */
        if (!tn__buffer_add_char(work, out,
                                 c == 0x130 ? 'i' : tn__unicode_lower(c),
                                 origin) ||
            (c == 0x130 && !tn__buffer_add_char(work, out, 0x307, origin)))
            return false;
    }
    return true;
}

static bool run_lower(const tn__step *step, tn__work *work)
{
    return tn__rewrite(step, work, rewrite_lower);
}

/* Removes the characters of step->set. */
static bool rewrite_filter(const tn__step *step, tn__work *work,
                           const tn__piece *piece, tn__buffer *out)
{
    const unsigned char *text = work->text.bytes;
    size_t begin = piece->begin;
    for (size_t at = begin; at < piece->end;) {
        const size_t here = at;
        if (!tn__set_has(step->set, tn__utf8_take(text, &at)))
            continue;
        if (!tn__buffer_copy(work, out, begin, here))
            return false;
        begin = at;
    }
    return tn__buffer_copy(work, out, begin, piece->end);
}

static bool run_filter(const tn__step *step, tn__work *work)
{
    return tn__rewrite(step, work, rewrite_filter);
}

/* Removes the characters of step->set, and replaces the characters of
 * step->space by spaces. */
static bool rewrite_clean(const tn__step *step, tn__work *work,
                          const tn__piece *piece, tn__buffer *out)
{
    const unsigned char *text = work->text.bytes;
    size_t begin = piece->begin;
    for (size_t at = begin; at < piece->end;) {
        const size_t here = at;
        const int32_t c = tn__utf8_take(text, &at);
        if (c > ' ' && c < 0x7f)
            continue;
        const bool removed = tn__set_has(step->set, c);
        if (!removed && (c == ' ' || !tn__set_has(step->space, c)))
            continue;
        if (!tn__buffer_copy(work, out, begin, here) ||
            (!removed &&
             !tn__buffer_add(work, out, " ", 1, tn__origin_at(work, here))))
            return false;
        begin = at;
    }
    return tn__buffer_copy(work, out, begin, piece->end);
}

static bool run_clean(const tn__step *step, tn__work *work)
{
    return tn__rewrite(step, work, rewrite_clean);
}

/* ---- BERT ---------------------------------------------------------------- */

static bool is_chinese(int32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static bool rewrite_chinese(const tn__step *step, tn__work *work,
                            const tn__piece *piece, tn__buffer *out)
{
    (void)step;
    const unsigned char *text = work->text.bytes;
    size_t begin = piece->begin;
    for (size_t at = begin; at < piece->end;) {
        const size_t here = at;
        if (!is_chinese(tn__utf8_take(text, &at)))
            continue;
        const tn__origin origin = tn__origin_at(work, here);
        if (!tn__buffer_copy(work, out, begin, here) ||
            !tn__buffer_add(work, out, " ", 1, origin) ||
            !tn__buffer_copy(work, out, here, at) ||
            !tn__buffer_add(work, out, " ", 1, origin))
            return false;
        begin = at;
    }
    return tn__buffer_copy(work, out, begin, piece->end);
}

static bool run_chinese(const tn__step *step, tn__work *work)
{
    return tn__rewrite(step, work, rewrite_chinese);
}

/* ---- whole pieces -------------------------------------------------------- */

/* flag: left, right */
static bool rewrite_strip(const tn__step *step, tn__work *work,
                          const tn__piece *piece, tn__buffer *out)
{
    const unsigned char *text = work->text.bytes;
    size_t begin = piece->begin, end = piece->end;
    while (step->flag[0] && begin < end) {
        size_t next = begin;
        if (!tn__set_has(step->set, tn__utf8_take(text, &next)))
            break;
        begin = next;
    }
    while (step->flag[1] && begin < end) {
        size_t before = tn__utf8_before(text, end);
        size_t at = before;
        if (!tn__set_has(step->set, tn__utf8_take(text, &at)))
            break;
        end = before;
    }
    return tn__buffer_copy(work, out, begin, end);
}

static bool run_strip(const tn__step *step, tn__work *work)
{
    return tn__rewrite(step, work, rewrite_strip);
}

static bool rewrite_prepend(const tn__step *step, tn__work *work,
                            const tn__piece *piece, tn__buffer *out)
{
    return tn__buffer_add(work, out, step->text, step->text_bytes,
                          tn__origin_at(work, piece->begin)) &&
           tn__buffer_copy(work, out, piece->begin, piece->end);
}

bool tn__step_prepend(const tn__step *step, tn__work *work)
{
    return tn__rewrite(step, work, rewrite_prepend);
}

static bool add_content(const tn__step *step, tn__work *work, size_t from,
                        size_t end, tn__buffer *out)
{
    /* as in Hugging Face's tokenizers: the replacement has the origin of the
     * last byte that it replaces */
    tn__origin origin = {0, 0};
    if (work->offsets && end > from)
        origin = work->text.origin[end - 1];
    return tn__buffer_add(work, out, step->content, step->content_bytes,
                          origin);
}

static bool rewrite_replace(const tn__step *step, tn__work *work,
                            const tn__piece *piece, tn__buffer *out)
{
    const unsigned char *text = work->text.bytes;
    size_t at = piece->begin;
    if (!step->regex) {
        while (step->text_bytes && at < piece->end) {
            const unsigned char *found = memmem(
                text + at, piece->end - at, step->text, step->text_bytes);
            if (!found)
                break;
            const size_t begin = (size_t)(found - text);
            if (!tn__buffer_copy(work, out, at, begin))
                return false;
            at = begin + step->text_bytes;
            if (!add_content(step, work, piece->begin, at, out))
                return false;
        }
        return tn__buffer_copy(work, out, at, piece->end);
    }
    size_t from = 0, last = SIZE_MAX, begin, end;
    tn__regex_begin(&work->regex, text + at, piece->end - at);
    int found;
    while ((found = tn__regex_find(step->regex, &work->regex, from, last,
                                   &begin, &end)) > 0) {
        if (!tn__buffer_copy(work, out, at, piece->begin + begin) ||
            !add_content(step, work, piece->begin, piece->begin + end, out))
            return false;
        at = piece->begin + end;
        from = last = end;
    }
    return found == 0 && tn__buffer_copy(work, out, at, piece->end);
}

bool tn__step_replace(const tn__step *step, tn__work *work)
{
    return tn__rewrite(step, work, rewrite_replace);
}

/* ---- reading ------------------------------------------------------------- */

static bool parse_form(tn__step *step, bool compatibility, bool composed)
{
    step->run = tn__step_form;
    step->flag[0] = compatibility;
    step->flag[1] = composed;
    return true;
}

#define FORM(name, compatibility, composed)                                    \
    static bool parse_##name(const tn__reader *reader,                         \
                             const tn__json_value *value, tn__step *step)      \
    {                                                                          \
        (void)reader;                                                          \
        (void)value;                                                           \
        return parse_form(step, compatibility, composed);                      \
    }
FORM(nfc, false, true)
FORM(nfd, false, false)
FORM(nfkc, true, true)
FORM(nfkd, true, false)

static bool parse_lower(const tn__reader *reader, const tn__json_value *value,
                        tn__step *step)
{
    (void)reader;
    (void)value;
    step->run = run_lower;
    return true;
}

static bool parse_strip(const tn__reader *reader, const tn__json_value *value,
                        tn__step *step)
{
    step->run = run_strip;
    step->set = tn__set_of_categories(reader->arena, 0, 0);
    return step->set &&
           tn__member_bool(reader, value, "strip_left", true,
                           &step->flag[0]) &&
           tn__member_bool(reader, value, "strip_right", true,
                           &step->flag[1]);
}

/* Makes the set of combining marks that strip_accents removes. */
static const tn__set *mark_set(const tn__reader *reader, const char *category,
                               int version)
{
    tn__ranges ranges = {0};
    tn__ranges_add_categories(
        &ranges, tn__unicode_category_mask(category, strlen(category)),
        version);
    /* characters whose category changed after that version */
    static const int32_t not_marks[] = {0x1885, 0x1886, 0xa9bd, 0x111c9};
    const bool old = version == TN__UNICODE_PUNCTUATION;
    if (old) {
        tn__ranges_add(&ranges, 0x1734, 0x1734);
        tn__ranges_add(&ranges, 0x1171e, 0x1171e);
    } else {
        tn__ranges_add(&ranges, 0x1cf2, 0x1cf3);
    }
    tn__ranges_negate(&ranges);
    for (int i = old ? 0 : 3; i < 4; i++)
        tn__ranges_add(&ranges, not_marks[i], not_marks[i]);
    tn__ranges_negate(&ranges);
    const tn__set *set = tn__set_new(reader->arena, &ranges);
    tn__ranges_free(&ranges);
    return set;
}

static bool parse_accents(const tn__reader *reader,
                          const tn__json_value *value, tn__step *step)
{
    (void)value;
    step->run = run_filter;
    step->set = mark_set(reader, "M", TN__UNICODE_MARKS);
    return step->set != NULL;
}

static bool parse_replace(const tn__reader *reader,
                          const tn__json_value *value, tn__step *step)
{
    step->run = tn__step_replace;
    return tn__member_pattern(reader, value, step) &&
           tn__member_text(reader, value, "content", "", &step->content,
                           &step->content_bytes);
}

static bool parse_prepend(const tn__reader *reader,
                          const tn__json_value *value, tn__step *step)
{
    step->run = tn__step_prepend;
    return tn__member_text(reader, value, "prepend", "", &step->text,
                           &step->text_bytes);
}

static bool parse_byte_level(const tn__reader *reader,
                             const tn__json_value *value, tn__step *step)
{
    (void)reader;
    (void)value;
    step->run = tn__step_byte_level;
    return true;
}

static bool parse_nmt(const tn__reader *reader, const tn__json_value *value,
                      tn__step *step)
{
    static const tn__range removed[] = {{1, 8},       {0xb, 0xb},
                                        {0xe, 0x1f},  {0x7f, 0x7f},
                                        {0x8f, 0x8f}, {0x9f, 0x9f}};
    static const tn__range space[] = {
        {9, 10},          {12, 13},         {0x1680, 0x1680}, {0x200b, 0x200f},
        {0x2028, 0x2029}, {0x2581, 0x2581}, {0xfeff, 0xfeff}, {0xfffd, 0xfffd}};
    tn__ranges ranges = {0};
    (void)value;
    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++)
        tn__ranges_add(&ranges, removed[i].first, removed[i].last);
    step->set = tn__set_new(reader->arena, &ranges);
    tn__ranges_free(&ranges);
    for (size_t i = 0; i < sizeof space / sizeof *space; i++)
        tn__ranges_add(&ranges, space[i].first, space[i].last);
    step->space = tn__set_new(reader->arena, &ranges);
    tn__ranges_free(&ranges);
    step->run = run_clean;
    return step->set && step->space;
}

/* clean_text: controls, NUL and U+FFFD are removed, white space becomes " ". */
static bool set_clean(const tn__reader *reader, tn__step *step)
{
    tn__ranges ranges = {0};
    const uint32_t mask = tn__unicode_category_mask("Cc", 2) |
                          tn__unicode_category_mask("Cf", 2) |
                          tn__unicode_category_mask("Co", 2) |
                          tn__unicode_category_mask("Cs", 2);
    tn__ranges_add_categories(&ranges, mask, TN__UNICODE_PUNCTUATION);
    tn__ranges_negate(&ranges);
    tn__ranges_add(&ranges, '\t', '\n');
    tn__ranges_add(&ranges, '\r', '\r');
    tn__ranges_negate(&ranges);
    tn__ranges_add(&ranges, 0xfffd, 0xfffd);
    step->set = tn__set_new(reader->arena, &ranges);
    tn__ranges_free(&ranges);
    step->space = tn__set_of_categories(reader->arena, 0, 0);
    step->run = run_clean;
    return step->set && step->space;
}

static bool run_inner(const tn__step *step, tn__work *work)
{
    for (const tn__step *s = step->inner; s; s = s->next)
        if (!s->run(s, work))
            return false;
    return true;
}

/* BertNormalizer consists of up to five steps. step->inner becomes the list of
 * those that are switched on. */
static bool parse_bert(const tn__reader *reader, const tn__json_value *value,
                       tn__step *step)
{
    bool on[4]; /* the options, in the order in which their steps run */
    tn__steps list = {NULL, NULL};
    if (!tn__member_bool(reader, value, "clean_text", true, &on[0]) ||
        !tn__member_bool(reader, value, "handle_chinese_chars", true,
                         &on[1]) ||
        !tn__member_bool(reader, value, "lowercase", true, &on[3]) ||
        !tn__member_bool(reader, value, "strip_accents", on[3], &on[2]))
        return false;
    for (int i = 0; i < 4; i++) {
        tn__step *s = on[i] ? tn__steps_add(reader->arena, &list) : NULL;
        if (!on[i])
            continue;
        if (!s)
            return false;
        if (i == 0 && !set_clean(reader, s))
            return false;
        if (i == 1)
            s->run = run_chinese;
        if (i == 2) {
            parse_form(s, false, false);
            if (!(s = tn__steps_add(reader->arena, &list)) ||
                !(s->set = mark_set(reader, "Mn", TN__UNICODE_PUNCTUATION)))
                return false;
            s->run = run_filter;
        }
        if (i == 3)
            s->run = run_lower;
    }
    step->inner = list.first;
    step->run = run_inner;
    return true;
}

bool tn__steps_bert(const tn__reader *reader, tn__steps *normalizer,
                    tn__steps *pretokenizer)
{
    /* an empty object, for which parse_bert uses the defaults */
    static const tn__json_value none = {.kind = TN__JSON_OBJECT};
    static const tn__json_value type = {.kind = TN__JSON_TEXT,
                                        .key = "type",
                                        .key_bytes = 4,
                                        .text = "BertPreTokenizer",
                                        .bytes = 16};
    static const tn__json_value bert = {
        .kind = TN__JSON_OBJECT, .first = &type, .count = 1};
    tn__step *step = tn__steps_add(reader->arena, normalizer);
    return step && parse_bert(reader, &none, step) &&
           tn__pretokenizer_parse(reader, &bert, pretokenizer);
}

static bool parse_precompiled(const tn__reader *reader,
                              const tn__json_value *value, tn__step *step)
{
    const tn__json_value *map = tn__json_get(value, "precompiled_charsmap");
    step->run = tn__step_charsmap;
    if (!tn__json_is(map, TN__JSON_TEXT))
        return tn__refuse(reader, TN_ERR_FORMAT,
                          "\"precompiled_charsmap\" is not a string");
    step->charsmap = tn__charsmap_new(reader, map->text, map->bytes);
    return step->charsmap != NULL;
}

static const tn__step_kind kind_table[] = {
    {"NFC", parse_nfc},
    {"NFD", parse_nfd},
    {"NFKC", parse_nfkc},
    {"NFKD", parse_nfkd},
    {"Lowercase", parse_lower},
    {"Strip", parse_strip},
    {"StripAccents", parse_accents},
    {"Replace", parse_replace},
    {"Prepend", parse_prepend},
    {"BertNormalizer", parse_bert},
    {"Precompiled", parse_precompiled},
    {"Nmt", parse_nmt},
    {"ByteLevel", parse_byte_level},
};

bool tn__normalizer_parse(const tn__reader *reader,
                          const tn__json_value *value, tn__steps *steps)
{
    return tn__steps_parse(reader, value, kind_table,
                           sizeof kind_table / sizeof *kind_table,
                           "normalizers", steps);
}
