/* pretokenize.c: the pre-tokenizers of tokenizer.json. */
#include <lm/tokenizer/pipeline.h>

#include <stdlib.h>
#include <string.h>

/* ---- splitting ----------------------------------------------------------- */

/* Collects the parts into which a piece is split: the matches of a pattern, and
 * the text between them. */
typedef struct parts {
    tn__pieces *out;
    tn__behavior behavior;
    bool invert;
    size_t first;    /* index of the piece's first part in out */
    bool previous;   /* whether the previous part was a match */
    /* MERGED_WITH_NEXT: a match that begins at wait_begin has not been added
     * yet, because it will be merged with the next part */
    bool waits;
    size_t wait_begin;
} parts;

static bool add_part(tn__pieces *out, size_t begin, size_t end)
{
    return begin == end || tn__pieces_add(out, begin, end, -1);
}

static bool parts_add(parts *p, size_t begin, size_t end, bool matches)
{
    tn__pieces *out = p->out;
    const bool any = out->count > p->first;
    const bool previous = p->previous;
    matches ^= p->invert;
    p->previous = matches;
    if (begin == end && p->behavior != TN__MERGED_WITH_NEXT)
        return true;
    switch (p->behavior) {
    case TN__REMOVED:
        return matches || tn__pieces_add(out, begin, end, -1);
    case TN__CONTIGUOUS:
        if (any && matches == previous) {
            out->piece[out->count - 1].end = (uint32_t)end;
            return true;
        }
        return tn__pieces_add(out, begin, end, -1);
    case TN__MERGED_WITH_PREVIOUS:
        if (any && matches && !previous) {
            out->piece[out->count - 1].end = (uint32_t)end;
            return true;
        }
        return tn__pieces_add(out, begin, end, -1);
    case TN__MERGED_WITH_NEXT:
        /* Of consecutive matches, only the last one is merged with the text
         * that follows. */
        if (matches) {
            if (p->waits && !add_part(out, p->wait_begin, begin))
                return false;
            p->waits = true;
            p->wait_begin = begin;
            return true;
        }
        if (p->waits) {
            p->waits = false;
            begin = p->wait_begin;
        }
        return add_part(out, begin, end);
    default:
        return tn__pieces_add(out, begin, end, -1);
    }
}

static bool parts_end(parts *p, size_t end)
{
    return !p->waits || add_part(p->out, p->wait_begin, end);
}

static bool split_regex(const tn__step *step, tn__work *work,
                        const tn__piece *piece, tn__pieces *out)
{
    parts p = {.out = out,
               .behavior = step->behavior,
               .invert = step->invert,
               .first = out->count};
    const size_t bytes = piece->end - piece->begin;
    size_t at = 0, last = SIZE_MAX, begin, end;
    tn__regex_begin(&work->regex, work->text.bytes + piece->begin, bytes);
    int found;
    while ((found = tn__regex_find(step->regex, &work->regex, at, last,
                                   &begin, &end)) > 0) {
        if (begin > at &&
            !parts_add(&p, piece->begin + at, piece->begin + begin, false))
            return false;
        if (!parts_add(&p, piece->begin + begin, piece->begin + end, true))
            return false;
        at = last = end;
    }
    return found == 0 &&
           (at == bytes ||
            parts_add(&p, piece->begin + at, piece->end, false)) &&
           parts_end(&p, piece->end);
}

bool tn__step_split_regex(const tn__step *step, tn__work *work)
{
    return tn__split(step, work, split_regex);
}

static bool split_text(const tn__step *step, tn__work *work,
                       const tn__piece *piece, tn__pieces *out)
{
    parts p = {.out = out,
               .behavior = step->behavior,
               .invert = step->invert,
               .first = out->count};
    const unsigned char *text = work->text.bytes;
    size_t at = piece->begin;
    while (step->text_bytes && at < piece->end) {
        const unsigned char *found =
            memmem(text + at, piece->end - at, step->text, step->text_bytes);
        if (!found)
            break;
        const size_t begin = (size_t)(found - text);
        if (begin > at && !parts_add(&p, at, begin, false))
            return false;
        at = begin + step->text_bytes;
        if (!parts_add(&p, begin, at, true))
            return false;
    }
    return (at == piece->end || parts_add(&p, at, piece->end, false)) &&
           parts_end(&p, piece->end);
}

static bool run_split_text(const tn__step *step, tn__work *work)
{
    return tn__split(step, work, split_text);
}

/* Splits at characters of step->set. Each character is a separate match. */
static bool split_set(const tn__step *step, tn__work *work,
                      const tn__piece *piece, tn__pieces *out)
{
    parts p = {.out = out,
               .behavior = step->behavior,
               .first = out->count};
    const unsigned char *text = work->text.bytes;
    size_t last = piece->begin;
    for (size_t at = last; at < piece->end;) {
        const size_t begin = at;
        if (!tn__set_has(step->set, tn__utf8_take(text, &at)))
            continue;
        if ((last < begin && !parts_add(&p, last, begin, false)) ||
            !parts_add(&p, begin, at, true))
            return false;
        last = at;
    }
    return (last == piece->end || parts_add(&p, last, piece->end, false)) &&
           parts_end(&p, piece->end);
}

static bool run_split_set(const tn__step *step, tn__work *work)
{
    return tn__split(step, work, split_set);
}

static bool run_bert(const tn__step *step, tn__work *work)
{
    tn__step space = *step;
    space.set = step->space;
    space.behavior = TN__REMOVED;
    return tn__split(&space, work, split_set) &&
           tn__split(step, work, split_set);
}

static bool split_length(const tn__step *step, tn__work *work,
                         const tn__piece *piece, tn__pieces *out)
{
    size_t begin = piece->begin;
    int64_t n = 0;
    for (size_t at = begin; at < piece->end;) {
        at += tn__utf8_length(work->text.bytes[at]);
        if (++n == step->number[0] || at == piece->end) {
            if (!tn__pieces_add(out, begin, at, -1))
                return false;
            begin = at;
            n = 0;
        }
    }
    return true;
}

static bool run_length(const tn__step *step, tn__work *work)
{
    return tn__split(step, work, split_length);
}

/* Splits where the script changes. step->number[] has the indices of the
 * scripts Han, Hiragana, Katakana and Unknown; Hiragana and Katakana count as
 * Han. A blank or a character of unknown script belongs to the preceding part.
 * At the beginning of a piece, such characters are dropped, as in Hugging
 * Face's tokenizers. */
static bool split_script(const tn__step *step, tn__work *work,
                         const tn__piece *piece, tn__pieces *out)
{
    size_t begin = piece->begin;
    int last = -1;
    for (size_t at = begin; at < piece->end;) {
        const size_t here = at;
        const int32_t c = tn__utf8_take(work->text.bytes, &at);
        int script = tn__unicode_script_of(c, TN__UNICODE_MARKS);
        if (c == 0x30fc || script == step->number[1] ||
            script == step->number[2])
            script = (int)step->number[0];
        if (c == ' ' || script == step->number[3] || script == last)
            continue;
        if (last >= 0 && here > begin &&
            !tn__pieces_add(out, begin, here, -1))
            return false;
        begin = here;
        last = script;
    }
    return last < 0 || begin == piece->end ||
           tn__pieces_add(out, begin, piece->end, -1);
}

static bool run_scripts(const tn__step *step, tn__work *work)
{
    return tn__split(step, work, split_script);
}

/* ---- bytes as characters ------------------------------------------------- */

/* Returns the character that represents a byte in GPT-2's byte-level alphabet:
 * itself if it is printable, else one from U+0100 on. */
static int32_t char_of_byte(int byte)
{
    if ((byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
        byte >= 0xae)
        return byte;
    return byte < '!'    ? 0x100 + byte
           : byte < 0xa1 ? 0x100 + 0x21 + byte - 0x7f
                         : 0x143;
}

static size_t byte_char(unsigned char byte, unsigned char out[2])
{
    return tn__utf8_write(out, char_of_byte(byte));
}

int tn__char_byte(int32_t c)
{
    if (c < 0x100)
        return c >= 0 && char_of_byte((int)c) == c ? (int)c : -1;
    return c < 0x121   ? (int)c - 0x100
           : c < 0x143 ? (int)c - 0x121 + 0x7f
           : c == 0x143 ? 0xad
                        : -1;
}

static bool rewrite_bytes(const tn__step *step, tn__work *work,
                          const tn__piece *piece, tn__buffer *out)
{
    (void)step;
    const size_t most = (size_t)(piece->end - piece->begin) * 2;
    if (!tn__buffer_reserve(work, out, most))
        return false;
    const unsigned char *text = work->text.bytes;
    unsigned char *to = out->bytes + out->count;
    tn__origin *origin = work->offsets ? out->origin + out->count : NULL;
    for (size_t at = piece->begin; at < piece->end; at++) {
        size_t n = 1;
        if (text[at] >= '!' && text[at] <= '~')
            *to = text[at];
        else
            n = byte_char(text[at], to);
        to += n;
        if (origin)
            while (n--)
                *origin++ = work->text.origin[at];
    }
    out->count = (size_t)(to - out->bytes);
    return true;
}

static bool rewrite_prefix_space(const tn__step *step, tn__work *work,
                                 const tn__piece *piece, tn__buffer *out)
{
    (void)step;
    tn__origin origin = {0, 0};
    if (work->offsets)
        origin = work->text.origin[piece->begin];
    return (work->text.bytes[piece->begin] == ' ' ||
            tn__buffer_add(work, out, " ", 1, origin)) &&
           tn__buffer_copy(work, out, piece->begin, piece->end);
}

/* step->flag[0] is add_prefix_space. step->regex is NULL if use_regex is
 * false. */
bool tn__step_byte_level(const tn__step *step, tn__work *work)
{
    return (!step->flag[0] || tn__rewrite(step, work, rewrite_prefix_space)) &&
           (!step->regex || tn__split(step, work, split_regex)) &&
           tn__rewrite(step, work, rewrite_bytes);
}

/* ---- Metaspace ----------------------------------------------------------- */

/* step->text is the replacement for spaces. step->prepend says when one is
 * inserted before a piece. TN__PREPEND_FIRST needs the origin, because the
 * piece at the beginning of the buffer need not begin the original text. */
static bool rewrite_metaspace(const tn__step *step, tn__work *work,
                              const tn__piece *piece, tn__buffer *out)
{
    const unsigned char *text = work->text.bytes;
    tn__origin origin = {piece->begin, piece->begin};
    if (work->offsets)
        origin = work->text.origin[piece->begin];
    const bool starts =
        text[piece->begin] == ' ' ||
        (piece->end - piece->begin >= step->text_bytes &&
         memcmp(text + piece->begin, step->text, step->text_bytes) == 0);
    if (!starts && (step->prepend == TN__PREPEND_ALWAYS ||
                    (step->prepend == TN__PREPEND_FIRST && !origin.from)) &&
        !tn__buffer_add(work, out, step->text, step->text_bytes, origin))
        return false;
    for (size_t at = piece->begin; at < piece->end;) {
        const unsigned char *space = memchr(text + at, ' ', piece->end - at);
        const size_t end = space ? (size_t)(space - text) : piece->end;
        if (!tn__buffer_copy(work, out, at, end))
            return false;
        at = end;
        if (!space)
            break;
        if (work->offsets)
            origin = work->text.origin[at];
        if (!tn__buffer_add(work, out, step->text, step->text_bytes, origin))
            return false;
        at++;
    }
    return true;
}

static bool run_metaspace(const tn__step *step, tn__work *work)
{
    return tn__rewrite(step, work, rewrite_metaspace) &&
           (!step->flag[0] || tn__split(step, work, split_text));
}

/* ---- reading ------------------------------------------------------------- */

static bool parse_behavior(const tn__reader *reader,
                           const tn__json_value *value, const char *otherwise,
                           tn__behavior *out)
{
    static const char *const name[] = {"Removed", "Isolated",
                                       "MergedWithPrevious", "MergedWithNext",
                                       "Contiguous"};
    const char *text;
    size_t bytes;
    if (!tn__member_text(reader, value, "behavior", otherwise, &text, &bytes))
        return false;
    for (int i = 0; text && i < 5; i++)
        if (strcmp(text, name[i]) == 0) {
            *out = (tn__behavior)i;
            return true;
        }
    return tn__refuse(reader, TN_ERR_FORMAT, "\"behavior\" is unknown");
}

static bool parse_byte_level(const tn__reader *reader,
                             const tn__json_value *value, tn__step *step)
{
    static const char pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+"
                                  "| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    bool use_regex;
    step->run = tn__step_byte_level;
    step->behavior = TN__ISOLATED;
    return tn__member_bool(reader, value, "add_prefix_space", true,
                           &step->flag[0]) &&
           tn__member_bool(reader, value, "use_regex", true, &use_regex) &&
           (!use_regex || tn__compile(reader, pattern, sizeof pattern - 1,
                                      &step->regex));
}

static bool parse_split(const tn__reader *reader, const tn__json_value *value,
                        tn__step *step)
{
    if (!tn__member_pattern(reader, value, step) ||
        !parse_behavior(reader, value, NULL, &step->behavior) ||
        !tn__member_bool(reader, value, "invert", false, &step->invert))
        return false;
    step->run = step->regex ? tn__step_split_regex : run_split_text;
    return true;
}

static bool parse_metaspace(const tn__reader *reader,
                            const tn__json_value *value, tn__step *step)
{
    const char *scheme;
    size_t bytes;
    bool add;
    if (!tn__member_text(reader, value, "replacement", "\xe2\x96\x81",
                         &step->text, &step->text_bytes) ||
        !tn__member_text(reader, value, "prepend_scheme", "always", &scheme,
                         &bytes) ||
        !tn__member_bool(reader, value, "add_prefix_space", true, &add) ||
        !tn__member_bool(reader, value, "split", true, &step->flag[0]))
        return false;
    step->run = run_metaspace;
    step->behavior = TN__MERGED_WITH_NEXT;
    if (strcmp(scheme, "never") == 0 || !add)
        step->prepend = TN__PREPEND_NEVER;
    else if (strcmp(scheme, "first") == 0)
        step->prepend = TN__PREPEND_FIRST;
    else if (strcmp(scheme, "always") == 0)
        step->prepend = TN__PREPEND_ALWAYS;
    else
        return tn__refuse(reader, TN_ERR_FORMAT,
                          "\"prepend_scheme\" is unknown");
    return true;
}

static bool set_categories(const tn__reader *reader, tn__step *step,
                           const char *name, int version)
{
    step->set = tn__set_of_categories(
        reader->arena,
        name ? tn__unicode_category_mask(name, strlen(name)) : 0, version);
    step->run = run_split_set;
    return step->set != NULL;
}

static bool parse_whitespace_split(const tn__reader *reader,
                                   const tn__json_value *value, tn__step *step)
{
    (void)value;
    step->behavior = TN__REMOVED;
    return set_categories(reader, step, NULL, 0);
}

static bool parse_whitespace(const tn__reader *reader,
                             const tn__json_value *value, tn__step *step)
{
    (void)value;
    step->run = tn__step_split_regex;
    step->behavior = TN__REMOVED;
    step->invert = true;
    /* Rust's \w has the joiners U+200C and U+200D, and not the numbers of
     * Latin-1, unlike Oniguruma's */
    static const char pattern[] =
        "[\\w\\x{200c}\\x{200d}&&[^\\xb2\\xb3\\xb9\\xbc-\\xbe]]+"
        "|[[^\\w\\s\\x{200c}\\x{200d}]\\xb2\\xb3\\xb9\\xbc-\\xbe]+";
    return tn__compile(reader, pattern, sizeof pattern - 1, &step->regex);
}

static bool parse_digits(const tn__reader *reader, const tn__json_value *value,
                         tn__step *step)
{
    bool individual;
    if (!tn__member_bool(reader, value, "individual_digits", false,
                         &individual))
        return false;
    step->behavior = individual ? TN__ISOLATED : TN__CONTIGUOUS;
    return set_categories(reader, step, "N", TN__UNICODE_NEW);
}

/* Makes the set of Unicode punctuation and ASCII symbols. */
static bool set_punctuation(const tn__reader *reader, tn__step *step)
{
    tn__ranges ranges = {0};
    tn__ranges_add_categories(&ranges, tn__unicode_category_mask("P", 1),
                              TN__UNICODE_PUNCTUATION);
    tn__ranges_add(&ranges, '!', '/');
    tn__ranges_add(&ranges, ':', '@');
    tn__ranges_add(&ranges, '[', '`');
    tn__ranges_add(&ranges, '{', '~');
    /* these were punctuation (Po) in Unicode 8 */
    tn__ranges_add(&ranges, 0x166d, 0x166d);
    tn__ranges_add(&ranges, 0x111c9, 0x111c9);
    step->set = tn__set_new(reader->arena, &ranges);
    tn__ranges_free(&ranges);
    return step->set != NULL;
}

static bool parse_punctuation(const tn__reader *reader,
                              const tn__json_value *value, tn__step *step)
{
    step->run = run_split_set;
    return parse_behavior(reader, value, "Isolated", &step->behavior) &&
           set_punctuation(reader, step);
}

static bool parse_bert(const tn__reader *reader, const tn__json_value *value,
                       tn__step *step)
{
    (void)value;
    step->run = run_bert;
    step->behavior = TN__ISOLATED;
    step->space = tn__set_of_categories(reader->arena, 0, 0);
    return step->space && set_punctuation(reader, step);
}

static bool parse_delimiter(const tn__reader *reader,
                            const tn__json_value *value, tn__step *step)
{
    step->run = run_split_text;
    step->behavior = TN__REMOVED;
    return tn__member_text(reader, value, "delimiter", " ", &step->text,
                           &step->text_bytes);
}

static bool parse_scripts(const tn__reader *reader,
                          const tn__json_value *value, tn__step *step)
{
    (void)reader;
    (void)value;
    step->run = run_scripts;
    step->number[0] = tn__unicode_script_number("han");
    step->number[1] = tn__unicode_script_number("hiragana");
    step->number[2] = tn__unicode_script_number("katakana");
    step->number[3] = tn__unicode_script_number("unknown");
    return true;
}

static bool parse_length(const tn__reader *reader, const tn__json_value *value,
                         tn__step *step)
{
    step->run = run_length;
    return tn__member_integer(reader, value, "length", 5, &step->number[0]) &&
           (step->number[0] > 0 ||
            tn__refuse(reader, TN_ERR_FORMAT, "\"length\" is 0"));
}

static const tn__step_kind kind_table[] = {
    {"ByteLevel", parse_byte_level},
    {"Split", parse_split},
    {"Metaspace", parse_metaspace},
    {"Whitespace", parse_whitespace},
    {"WhitespaceSplit", parse_whitespace_split},
    {"BertPreTokenizer", parse_bert},
    {"Digits", parse_digits},
    {"Punctuation", parse_punctuation},
    {"CharDelimiterSplit", parse_delimiter},
    {"UnicodeScripts", parse_scripts},
    {"FixedLength", parse_length},
};

bool tn__pretokenizer_parse(const tn__reader *reader,
                            const tn__json_value *value, tn__steps *steps)
{
    return tn__steps_parse(reader, value, kind_table,
                           sizeof kind_table / sizeof *kind_table,
                           "pretokenizers", steps);
}
