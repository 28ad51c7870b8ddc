/* template_lex.c: splits a template into tokens. It also removes blanks around
 * blocks: those that a "-" removes, the newline after a block, and the blanks
 * between the beginning of a line and a block. */
#include <lm/template/template.h>

#include <json/json.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/base.h>

typedef struct lexer {
    tn__jinja *j;
    const char *text;
    size_t bytes, at;
    tn__jinja_token *token;
    size_t count, room;
} lexer;

static void add(lexer *l, tn__jinja_token_kind kind, size_t at,
                const char *text, size_t bytes, const tn__jinja_value *value)
{
    if (l->count == l->room) {
        const size_t room = 2 * l->room + 64;
        tn__jinja_token *more = tn__jinja_allocate(l->j, room, sizeof *more);
        if (l->count)
            memcpy(more, l->token, l->count * sizeof *more);
        l->token = more;
        l->room = room;
    }
    char *copy = tn__jinja_allocate(l->j, bytes + 1, 1);
    if (bytes)
        memcpy(copy, text, bytes);
    l->token[l->count++] = (tn__jinja_token){kind, at, copy, value};
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool looking_at(const lexer *l, const char *word)
{
    const size_t bytes = strlen(word);
    return l->bytes - l->at >= bytes &&
           memcmp(l->text + l->at, word, bytes) == 0;
}

static void skip_blanks(lexer *l)
{
    while (l->at < l->bytes && is_blank(l->text[l->at]))
        l->at++;
}

static void skip_newline(lexer *l)
{
    if (l->at < l->bytes && l->text[l->at] == '\n')
        l->at++;
}

/* ---- constants ----------------------------------------------------------- */

static void read_number(lexer *l)
{
    const size_t begin = l->at;
    const bool after_dot =
        l->count && strcmp(l->token[l->count - 1].text, ".") == 0;
    bool real = false;
    char digits[64];
    size_t n = 0;
    while (l->at < l->bytes) {
        const char c = l->text[l->at];
        const char after = l->at + 1 < l->bytes ? l->text[l->at + 1] : '\0';
        const char later = l->at + 2 < l->bytes ? l->text[l->at + 2] : '\0';
        if (c == '_' && is_digit(after)) {
            l->at++;
            continue;
        }
        const bool exponent =
            (c == 'e' || c == 'E') &&
            (is_digit(after) ||
             ((after == '+' || after == '-') && is_digit(later)));
        if (!is_digit(c) && (after_dot || !(c == '.' && is_digit(after))) &&
            (after_dot || !exponent))
            break;
        real |= !is_digit(c);
        if (n + 3 >= sizeof digits)
            tn__jinja_fail(l->j, TN_ERR_FORMAT, "a number is too long");
        digits[n++] = c;
        l->at++;
        if (exponent && !is_digit(after)) {
            digits[n++] = after;
            l->at++;
        }
    }
    digits[n] = '\0';
    if (l->at < l->bytes && is_letter(l->text[l->at]))
        tn__jinja_fail(l->j, TN_ERR_FORMAT, "a number ends with a letter");
    errno = 0;
    const tn__jinja_value *v =
        real ? tn__jinja_real(l->j, tn__json_parse_real(digits, NULL))
             : tn__jinja_int(l->j, strtoll(digits, NULL, 10));
    if (errno)
        tn__jinja_fail(l->j, TN_ERR_FORMAT, "%s is out of range", digits);
    add(l, TN__JINJA_T_CONSTANT, begin, digits, n, v);
}

static int hex(char c)
{
    return is_digit(c)              ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static size_t write_character(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const size_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(first[more] | (c >> (6 * more)));
    for (size_t i = 1; i <= more; i++)
        out[i] = (char)(0x80 | ((c >> (6 * (more - i))) & 0x3f));
    return more + 1;
}

/* Reads an escape sequence after a backslash, as Python does. */
static size_t read_escape(lexer *l, char *out)
{
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    if (l->at >= l->bytes)
        tn__jinja_fail(l->j, TN_ERR_FORMAT, "a string has no closing quote");
    const char c = l->text[l->at++];
    const char *known = memchr(from, c, sizeof from - 1);
    if (known) {
        *out = to[known - from];
        return 1;
    }
    if (c == '\n') /* an escaped end of line adds nothing */
        return 0;
    uint32_t code = 0;
    int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (!digits && c >= '0' && c <= '7') {
        code = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && l->at < l->bytes && l->text[l->at] >= '0' &&
                        l->text[l->at] <= '7'; i++)
            code = 8 * code + (uint32_t)(l->text[l->at++] - '0');
        return write_character(out, code);
    }
    if (!digits) {
        out[0] = '\\';
        out[1] = c;
        return 2;
    }
    for (; digits; digits--) {
        const int digit = l->at < l->bytes ? hex(l->text[l->at]) : -1;
        if (digit < 0)
            tn__jinja_fail(l->j, TN_ERR_FORMAT, "\\%c lacks a digit", c);
        code = 16 * code + (uint32_t)digit;
        l->at++;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        tn__jinja_fail(l->j, TN_ERR_FORMAT, "\\%c does not encode a valid "
                       "character", c);
    return write_character(out, code);
}

static void read_text(lexer *l)
{
    const size_t begin = l->at;
    const char quote = l->text[l->at++];
    const char *end = l->text + l->at;
    while (end < l->text + l->bytes && *end != quote)
        end += *end == '\\' ? 2 : 1;
    if (end >= l->text + l->bytes)
        tn__jinja_fail(l->j, TN_ERR_FORMAT, "a string has no closing quote");
    char *text =
        tn__jinja_allocate(l->j, (size_t)(end - l->text) - l->at + 5, 1);
    size_t n = 0;
    while (l->text[l->at] != quote) {
        const char c = l->text[l->at++];
        if (c == '\\')
            n += read_escape(l, text + n);
        else
            text[n++] = c;
    }
    l->at++;
    add(l, TN__JINJA_T_CONSTANT, begin, "a string", 8,
        tn__jinja_text_of(l->j, text, n));
}

static void read_operator(lexer *l)
{
    static const char *const operators[] = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~",
        "[",  "]",  "(",  ")",  "{",  "}",  ">", "<", "=", ".", ":", "|", ","};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (looking_at(l, operators[i])) {
            const size_t bytes = strlen(operators[i]);
            add(l, TN__JINJA_T_OPERATOR, l->at, operators[i], bytes, NULL);
            l->at += bytes;
            return;
        }
    const unsigned char c = (unsigned char)l->text[l->at];
    tn__jinja_fail(l->j, TN_ERR_FORMAT,
                   c > ' ' && c < 0x7f ? "'%c' is not expected"
                                       : "the byte 0x%02x is not expected",
                   c);
}

/* ---- blocks -------------------------------------------------------------- */

/* Reads the end of a block ("%}") or of a print statement ("}}"), and the
 * blanks after it that must be removed. */
static bool read_close(lexer *l, bool block)
{
    const char *const end = block ? "%}" : "}}";
    const size_t begin = l->at;
    const bool strip = looking_at(l, block ? "-%}" : "-}}");
    const bool plain = block && looking_at(l, "+%}");
    if (!strip && !plain && !looking_at(l, end))
        return false;
    l->at += strip || plain ? 3 : 2;
    if (strip)
        skip_blanks(l);
    else if (block && !plain)
        skip_newline(l);
    add(l, TN__JINJA_T_CLOSE, begin, end, 2, NULL);
    return true;
}

static void read_inside(lexer *l, bool block)
{
    int open = 0; /* number of open brackets: inside them "}}" may end two
                     dictionaries */
    for (;;) {
        skip_blanks(l);
        l->j->at = l->at;
        if (l->at >= l->bytes)
            tn__jinja_fail(l->j, TN_ERR_FORMAT, "%s is missing",
                           block ? "%}" : "}}");
        if (open <= 0 && read_close(l, block))
            return;
        const char c = l->text[l->at];
        if (is_digit(c)) {
            read_number(l);
        } else if (is_letter(c)) {
            const size_t begin = l->at;
            while (l->at < l->bytes &&
                   (is_letter(l->text[l->at]) || is_digit(l->text[l->at])))
                l->at++;
            add(l, TN__JINJA_T_NAME, begin, l->text + begin, l->at - begin,
                NULL);
        } else if (c == '\'' || c == '"') {
            read_text(l);
        } else {
            open += (strchr("([{", c) != NULL) - (strchr(")]}", c) != NULL);
            read_operator(l);
        }
    }
}

static void read_comment(lexer *l)
{
    const size_t begin = l->at;
    while (l->at < l->bytes && !looking_at(l, "#}"))
        l->at++;
    if (l->at >= l->bytes) {
        l->j->at = begin;
        tn__jinja_fail(l->j, TN_ERR_FORMAT, "a comment does not end");
    }
    const char before = l->at > begin ? l->text[l->at - 1] : ' ';
    l->at += 2;
    if (before == '-')
        skip_blanks(l);
    else if (before != '+')
        skip_newline(l);
}

/* Returns whether a tag begins at `at`: "{%", an optional sign, blanks, the
 * word, an optional sign of `signs`, and "%}". Sets *end to the position after
 * the tag, and *left and *right to the signs, or 0. */
static bool is_block_of(const lexer *l, size_t at, const char *word,
                        const char *signs, size_t *end, char *left, char *right)
{
    lexer p = *l;
    p.at = at;
    if (!looking_at(&p, "{%"))
        return false;
    p.at += 2;
    *left = looking_at(&p, "-") || looking_at(&p, "+") ? p.text[p.at++] : '\0';
    skip_blanks(&p);
    if (!looking_at(&p, word))
        return false;
    p.at += strlen(word);
    skip_blanks(&p);
    *right = p.at < p.bytes && p.text[p.at] && strchr(signs, p.text[p.at])
                 ? p.text[p.at++]
                 : '\0';
    *end = p.at + 2;
    return looking_at(&p, "%}");
}

/* Returns how many bytes of data stay before a tag: blanks may be removed. */
static size_t kept(const char *data, size_t bytes, char sign, bool print,
                   bool line_begins)
{
    size_t end = bytes;
    if (sign == '-') {
        while (end && is_blank(data[end - 1]))
            end--;
        return end;
    }
    if (sign == '+' || print)
        return bytes;
    while (end && data[end - 1] != '\n') {
        if (!is_blank(data[end - 1]))
            return bytes;
        end--;
    }
    return end || line_begins ? end : bytes;
}

/* Reads a block from {% raw %} to {% endraw %} as plain text. Returns false if
 * no such block begins here. */
static bool read_raw(lexer *l)
{
    size_t begin, end;
    char left, right;
    if (!is_block_of(l, l->at, "raw", "-", &begin, &left, &right))
        return false;
    lexer p = *l; /* "-%}" removes the blanks that follow */
    p.at = begin;
    if (right == '-')
        skip_blanks(&p);
    begin = p.at;
    size_t at = begin;
    while (at < l->bytes &&
           !is_block_of(l, at, "endraw", "-+", &end, &left, &right))
        at++;
    if (at >= l->bytes)
        tn__jinja_fail(l->j, TN_ERR_FORMAT,
                       "the block raw has no {%% endraw %%}");
    const size_t bytes = kept(l->text + begin, at - begin, left, false,
                              l->text[begin - 1] == '\n');
    if (bytes)
        add(l, TN__JINJA_T_DATA, begin, "text", 4,
            tn__jinja_text_of(l->j, l->text + begin, bytes));
    l->at = end;
    if (right == '-')
        skip_blanks(l);
    else if (right != '+')
        skip_newline(l);
    return true;
}

tn__jinja_token *tn__jinja_lex(tn__jinja *j)
{
    lexer l = {.j = j, .text = j->source, .bytes = j->source_bytes};
    while (l.at < l.bytes) {
        const size_t begin = l.at;
        const bool line_begins = !begin || l.text[begin - 1] == '\n';
        while (l.at < l.bytes && !looking_at(&l, "{{") &&
               !looking_at(&l, "{%") && !looking_at(&l, "{#"))
            l.at++;
        const bool tag = l.at < l.bytes;
        const char kind = tag ? l.text[l.at + 1] : '\0';
        const char sign = tag && l.at + 2 < l.bytes ? l.text[l.at + 2] : '\0';
        const size_t bytes = !tag ? l.at - begin
                                  : kept(l.text + begin, l.at - begin, sign,
                                         kind == '{', line_begins);
        if (bytes)
            add(&l, TN__JINJA_T_DATA, begin, "text", 4,
                tn__jinja_text_of(j, l.text + begin, bytes));
        if (!tag)
            break;
        const size_t at = j->at = l.at;
        if (kind == '%' && read_raw(&l))
            continue;
        l.at += sign == '-' || sign == '+' ? 3 : 2;
        if (kind == '#') {
            read_comment(&l);
            continue;
        }
        add(&l, kind == '{' ? TN__JINJA_T_PRINT : TN__JINJA_T_BLOCK, at,
            kind == '{' ? "{{" : "{%", 2, NULL);
        read_inside(&l, kind == '%');
    }
    add(&l, TN__JINJA_T_END, l.bytes, "the end", 7, NULL);
    return l.token;
}
