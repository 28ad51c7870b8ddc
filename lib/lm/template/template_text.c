/* template_text.c: growing strings, and the conversion of values to text. There
 * are two forms: the printed form, and JSON, which can also be parsed. Both use
 * Python's digits and escapes. */
#include <lm/template/template.h>

#include <inttypes.h>
#include <json/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/base.h>

typedef tn__jinja_value value;

/* ---- printing ------------------------------------------------------------ */

void tn__jinja_add(tn__jinja *j, tn__jinja_text *to, const char *text,
                   size_t bytes)
{
    if (bytes > TN__JINJA_MOST_OUTPUT - to->bytes)
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED, "a string is longer than %d MiB",
                       TN__JINJA_MOST_OUTPUT >> 20);
    if (to->room - to->bytes <= bytes) {
        const size_t room = 2 * to->room + bytes + 64;
        char *more = tn__jinja_allocate(j, room, 1);
        if (to->bytes)
            memcpy(more, to->text, to->bytes);
        to->text = more;
        to->room = room;
    }
    if (bytes)
        memcpy(to->text + to->bytes, text, bytes);
    to->bytes += bytes;
    to->text[to->bytes] = '\0';
}

static void add_word(tn__jinja *j, tn__jinja_text *to, const char *word)
{
    tn__jinja_add(j, to, word, strlen(word));
}

const value *tn__jinja_text_end(tn__jinja *j, tn__jinja_text *text)
{
    value *v = tn__jinja_new(j, TN__JINJA_TEXT);
    v->text = text->text ? text->text : "";
    v->bytes = text->bytes;
    return v;
}

/* Appends a number as Python prints it: with the fewest digits that read back
 * as the same number. */
static void add_real(tn__jinja *j, tn__jinja_text *to, double x, bool json)
{
    char digits[40], out[64];
    if (x != x || x - x != 0) {
        add_word(j, to, x != x  ? (json ? "NaN" : "nan")
                        : x > 0 ? (json ? "Infinity" : "inf")
                                : (json ? "-Infinity" : "-inf"));
        return;
    }
    for (int precision = 0; precision < 17; precision++) {
        tn_format(digits, sizeof digits, "%.*e", precision, x);
        if (tn__json_parse_real(digits, NULL) == x)
            break;
    }
    const int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16) {
        add_word(j, to, digits);
        return;
    }
    const int mantissa = (int)(strchr(digits, 'e') - digits) -
                         (x < 0 || digits[0] == '-') - 1;
    int places = mantissa > 0 ? mantissa - 1 - exponent : -exponent;
    tn_format(out, sizeof out, "%.*f", places < 1 ? 1 : places, x);
    add_word(j, to, out);
}

/* Appends a string as Python's repr prints it. */
static void add_quoted(tn__jinja *j, tn__jinja_text *to, const value *v)
{
    const bool twice = memchr(v->text, '\'', v->bytes) &&
                       !memchr(v->text, '"', v->bytes);
    const char quote = twice ? '"' : '\'';
    tn__jinja_add(j, to, &quote, 1);
    for (size_t i = 0; i < v->bytes; i++) {
        const unsigned char c = (unsigned char)v->text[i];
        char escaped[8];
        if (c == '\\' || c == (unsigned char)quote)
            snprintf(escaped, sizeof escaped, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            snprintf(escaped, sizeof escaped, "\\%c",
                     c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c < ' ' || c == 0x7f)
            snprintf(escaped, sizeof escaped, "\\x%02x", c);
        else
            snprintf(escaped, sizeof escaped, "%c", c);
        add_word(j, to, escaped);
    }
    tn__jinja_add(j, to, &quote, 1);
}

void tn__jinja_add_value(tn__jinja *j, tn__jinja_text *to, const value *v,
                         bool quoted)
{
    char number[32];
    tn__jinja_step(j, 1);
    switch (v->kind) {
    case TN__JINJA_UNDEFINED:
        add_word(j, to, quoted ? "Undefined" : "");
        break;
    case TN__JINJA_NONE:
        add_word(j, to, "None");
        break;
    case TN__JINJA_BOOL:
        add_word(j, to, v->truth ? "True" : "False");
        break;
    case TN__JINJA_INT:
        snprintf(number, sizeof number, "%" PRId64, v->integer);
        add_word(j, to, number);
        break;
    case TN__JINJA_REAL:
        add_real(j, to, v->real, false);
        break;
    case TN__JINJA_TEXT:
        if (quoted)
            add_quoted(j, to, v);
        else
            tn__jinja_add(j, to, v->text, v->bytes);
        break;
    case TN__JINJA_LIST:
    case TN__JINJA_DICT:
        tn__jinja_enter(j);
        add_word(j, to, v->is_tuple                ? "("
                        : v->kind == TN__JINJA_LIST ? "["
                                                    : "{");
        for (size_t i = 0; i < v->count; i++) {
            add_word(j, to, i ? ", " : "");
            if (v->kind == TN__JINJA_DICT) {
                tn__jinja_add_value(j, to, v->key[i], true);
                add_word(j, to, ": ");
            }
            tn__jinja_add_value(j, to, v->item[i], true);
        }
        add_word(j, to, v->is_tuple ? (v->count == 1 ? ",)" : ")")
                        : v->kind == TN__JINJA_LIST ? "]"
                                                    : "}");
        tn__jinja_leave(j);
        break;
    default:
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s cannot be printed",
                       tn__jinja_kind_name(v));
    }
}

const value *tn__jinja_string(tn__jinja *j, const value *v)
{
    tn__jinja_text text = {0};
    if (v->kind == TN__JINJA_TEXT)
        return v;
    tn__jinja_add_value(j, &text, v, false);
    return tn__jinja_text_end(j, &text);
}

/* ---- JSON ---------------------------------------------------------------- */

static void add_json_text(tn__jinja *j, tn__jinja_text *to, const value *v,
                          bool ascii)
{
    static const char from[] = "\"\\\n\r\t\b\f", out[] = "\"\\nrtbf";
    add_word(j, to, "\"");
    for (size_t i = 0; i < v->bytes;) {
        const size_t begin = i;
        const uint32_t c = tn__jinja_character(v->text, v->bytes, &i);
        const char *known =
            c && c < 0x80 ? memchr(from, (int)c, sizeof from - 1) : NULL;
        char escaped[16] = {'\\', known ? out[known - from] : '\0'};
        if (c >= 0x10000 && ascii)
            snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x",
                     (unsigned)(0xd800 + ((c - 0x10000) >> 10)),
                     (unsigned)(0xdc00 + (c & 0x3ff)));
        else if (!known && (c < ' ' || (ascii && c >= 0x7f)))
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)c);
        if (known || c < ' ' || (ascii && c >= 0x7f))
            add_word(j, to, escaped);
        else
            tn__jinja_add(j, to, v->text + begin, i - begin);
    }
    add_word(j, to, "\"");
}

static void add_line(tn__jinja *j, tn__jinja_text *to, int indent, int level)
{
    if (indent < 0)
        return;
    add_word(j, to, "\n");
    for (int i = 0; i < indent * level; i++)
        add_word(j, to, " ");
}

static void sort_keys(tn__jinja *j, const value *v, size_t *order)
{
    for (size_t i = 0; i < v->count; i++) {
        size_t at = i;
        for (; at && tn__jinja_order(j, v->key[order[at - 1]], v->key[i]) > 0;
             at--)
            order[at] = order[at - 1];
        order[at] = i;
        tn__jinja_step(j, i - at + 1);
    }
}

static void add_json_members(tn__jinja *j, tn__jinja_text *to, const value *v,
                             int indent, int level, bool sorted, bool ascii)
{
    const bool dict = v->kind == TN__JINJA_DICT;
    size_t *order = tn__jinja_allocate(j, v->count + 1, sizeof *order);
    for (size_t i = 0; i < v->count; i++)
        order[i] = i;
    if (dict && sorted)
        sort_keys(j, v, order);
    add_word(j, to, dict ? "{" : "[");
    for (size_t n = 0; n < v->count; n++) {
        const size_t i = order[n];
        add_word(j, to, !n ? "" : indent < 0 ? ", " : ",");
        add_line(j, to, indent, level + 1);
        if (dict) {
            if (v->key[i]->kind == TN__JINJA_TEXT) {
                add_json_text(j, to, v->key[i], ascii);
            } else {
                tn__jinja_text key = {0};
                tn__jinja_add_json(j, &key, v->key[i], -1, 0, false, ascii);
                add_json_text(j, to, tn__jinja_text_end(j, &key), ascii);
            }
            add_word(j, to, ": ");
        }
        tn__jinja_add_json(j, to, v->item[i], indent, level + 1, sorted, ascii);
    }
    if (v->count)
        add_line(j, to, indent, level);
    add_word(j, to, dict ? "}" : "]");
}

void tn__jinja_add_json(tn__jinja *j, tn__jinja_text *to, const value *v,
                        int indent, int level, bool sorted, bool ascii)
{
    tn__jinja_step(j, 1);
    tn__jinja_enter(j);
    if (v->kind == TN__JINJA_TEXT)
        add_json_text(j, to, v, ascii);
    else if (v->kind == TN__JINJA_NONE)
        add_word(j, to, "null");
    else if (v->kind == TN__JINJA_BOOL)
        add_word(j, to, v->truth ? "true" : "false");
    else if (v->kind == TN__JINJA_INT)
        tn__jinja_add_value(j, to, v, false);
    else if (v->kind == TN__JINJA_REAL)
        add_real(j, to, v->real, true);
    else if (v->kind == TN__JINJA_LIST || v->kind == TN__JINJA_DICT)
        add_json_members(j, to, v, indent, level, sorted, ascii);
    else
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s cannot be written as JSON",
                       tn__jinja_kind_name(v));
    tn__jinja_leave(j);
}

static const value *from_json(tn__jinja *j, const tn__json_value *from)
{
    const value *out = &tn__jinja_none;
    tn__jinja_enter(j);
    if (from->kind == TN__JSON_TRUE || from->kind == TN__JSON_FALSE)
        out = tn__jinja_bool(from->kind == TN__JSON_TRUE);
    else if (from->kind == TN__JSON_INTEGER)
        out = tn__jinja_int(j, from->integer);
    else if (from->kind == TN__JSON_REAL)
        out = tn__jinja_real(j, from->real);
    else if (from->kind == TN__JSON_TEXT)
        out = tn__jinja_text_of(j, from->text, from->bytes);
    if (from->kind == TN__JSON_LIST || from->kind == TN__JSON_OBJECT) {
        const bool list = from->kind == TN__JSON_LIST;
        value *all = list ? tn__jinja_list(j) : tn__jinja_dict(j);
        TN__JSON_EACH(member, from)
        {
            const value *item = from_json(j, member);
            if (list)
                tn__jinja_append(j, all, item);
            else
                tn__jinja_set(j, all,
                              tn__jinja_text_of(j, member->key,
                                                member->key_bytes),
                              item);
        }
        out = all;
    }
    tn__jinja_leave(j);
    return out;
}

/* The context whose arena the JSON parser allocates from. An error leaves by
 * longjmp, so only the arena can free the memory of the parser. */
static _Thread_local tn__jinja *json_context;

static void *allocate(size_t bytes)
{
    return tn__jinja_allocate(json_context, bytes, 1);
}

static void release(void *memory)
{
    (void)memory;
}

const value *tn__jinja_from_json(tn__jinja *j, const char *text,
                                 const char *what)
{
    const size_t bytes = strlen(text);
    char *copy = tn__jinja_allocate(j, bytes + 2, 1);
    memcpy(copy, text, bytes);
    tn__json json = {.take = allocate, .give = release};
    json_context = j;
    const tn__json_value *root = tn__json_read(&json, copy, bytes);
    if (!root)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "%s is not valid JSON: line %zu, column %zu: %s", what,
                       json.line, json.column, json.error);
    return from_json(j, root);
}
