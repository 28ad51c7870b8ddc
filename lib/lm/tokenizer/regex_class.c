/* regex_class.c: reads parts of a pattern: fixed texts, and what matches one
 * character, which is an escape such as \p{L} or a class such as [^a-z]. */
#include <lm/tokenizer/regex_parse.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *tn__regex_fail(tn__regex_parser *p, const char *format, ...)
{
    if (!*p->error) {
        va_list args;
        va_start(args, format);
        const int n = vsnprintf(p->error, p->error_room, format, args);
        va_end(args);
        for (char *c = p->error; *c; c++) /* names in the message may contain
                                             any bytes */
            if ((unsigned char)*c < ' ' || *c == 0x7f)
                *c = '?';
        if (n >= 0 && (size_t)n < p->error_room)
            snprintf(p->error + n, p->error_room - (size_t)n, " at byte %zu",
                     p->at);
    }
    return NULL;
}

bool tn__regex_next(const tn__regex_parser *p, const char *text)
{
    const size_t n = strlen(text);
    return p->bytes - p->at >= n && memcmp(p->text + p->at, text, n) == 0;
}

bool tn__regex_skip(tn__regex_parser *p, const char *text)
{
    const bool found = tn__regex_next(p, text);
    if (found)
        p->at += strlen(text);
    return found;
}

/* ---- escapes and classes ------------------------------------------------- */

/* Reads 1 to `most` hexadecimal digits. Returns -1 if there is none, or the
 * character is beyond Unicode. */
static int32_t read_hex(tn__regex_parser *p, int most)
{
    int32_t value = 0;
    int n = 0;
    for (; n < most && p->at < p->bytes; n++, p->at++) {
        const int c = p->text[p->at];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            break;
        value = value << 4 | digit;
        if (value >= TN__UNICODE_END)
            return -1;
    }
    return n ? value : -1;
}

/* Reads \p{name}, whose "p" has been read. */
static bool read_property(tn__regex_parser *p, bool negative, tn__ranges *to)
{
    const unsigned char *name = p->text + p->at;
    size_t bytes = 1;
    if (p->at == p->bytes)
        return tn__regex_fail(p, "\\p needs the name of a property");
    if (tn__regex_skip(p, "{")) {
        name++;
        const unsigned char *end = memchr(name, '}', p->bytes - p->at);
        if (!end)
            return tn__regex_fail(p, "\\p{ needs a }");
        bytes = (size_t)(end - name);
        p->at += bytes;
        if (bytes && *name == '^') {
            negative = !negative;
            name++;
            bytes--;
        }
    }
    p->at++;
    tn__ranges set = {0};
    const bool known = tn__regex_property(&set, (const char *)name, bytes);
    if (known && negative)
        tn__ranges_negate(&set);
    tn__ranges_add_all(to, &set);
    tn__ranges_free(&set);
    if (!known)
        tn__regex_fail(p, "unknown property \\p{%.*s}",
                       bytes < 40 ? (int)bytes : 40, (const char *)name);
    return known;
}

static void add_named(tn__ranges *to, const char *name, bool negative)
{
    tn__ranges set = {0};
    tn__regex_property(&set, name, strlen(name));
    if (negative)
        tn__ranges_negate(&set);
    tn__ranges_add_all(to, &set);
    tn__ranges_free(&set);
}

int32_t tn__regex_escape(tn__regex_parser *p, tn__ranges *to)
{
    if (p->at == p->bytes) {
        tn__regex_fail(p, "the pattern ends in a backslash");
        return -2;
    }
    static const struct {
        char letter;
        const char *name;
        bool negative;
    } class[] = {{'d', "digit", false},  {'D', "digit", true},
                 {'s', "space", false},  {'S', "space", true},
                 {'w', "word", false},   {'W', "word", true},
                 {'h', "xdigit", false}, {'H', "xdigit", true}};
    static const char letter[] = "nrtfvae", means[] = "\n\r\t\f\v\a\033";
    const size_t at = p->at;
    const int32_t c = tn__utf8_take(p->text, &p->at);
    for (size_t i = 0; i < sizeof class / sizeof *class; i++)
        if (c == class[i].letter) {
            add_named(to, class[i].name, class[i].negative);
            return -1;
        }
    const char *plain = c && c < 0x80 ? strchr(letter, c) : NULL;
    if (plain)
        return means[plain - letter];
    if (c == 'p' || c == 'P')
        return read_property(p, c == 'P', to) ? -1 : -2;
    if (c == 'x' || c == 'u') {
        const bool braced = c == 'x' && tn__regex_skip(p, "{");
        const int32_t code = read_hex(p, braced ? 8 : c == 'x' ? 2 : 4);
        if (code < 0 || (braced && !tn__regex_skip(p, "}"))) {
            tn__regex_fail(p, "\\%c needs hexadecimal digits of a character",
                           (char)c);
            return -2;
        }
        return code;
    }
    if (c == '0')
        return 0;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
        (c >= '1' && c <= '9')) {
        p->at = at;
        tn__regex_fail(p, "\\%c is not supported", (char)c);
        return -2;
    }
    return c;
}

/* Reads [:name:], whose "[:" is next, if it is one. */
static bool read_posix(tn__regex_parser *p, tn__ranges *to, bool *found)
{
    const unsigned char *name = p->text + p->at + 2;
    const size_t left = p->bytes - p->at - 2;
    const unsigned char *end = memchr(name, ':', left);
    *found = end && end + 1 < p->text + p->bytes && end[1] == ']';
    if (!*found)
        return true;
    const bool negative = *name == '^';
    name += negative;
    tn__ranges set = {0};
    const bool known =
        tn__regex_property(&set, (const char *)name, (size_t)(end - name));
    if (known && negative)
        tn__ranges_negate(&set);
    tn__ranges_add_all(to, &set);
    tn__ranges_free(&set);
    if (!known)
        tn__regex_fail(p, "unknown class [:%.*s:]",
                       end - name < 40 ? (int)(end - name) : 40,
                       (const char *)name);
    p->at = (size_t)(end + 2 - p->text);
    return known;
}

/* Reads a member of a class: a character, a range, or a class. */
static bool read_member(tn__regex_parser *p, tn__ranges *to)
{
    bool posix = false;
    if (tn__regex_next(p, "[:") && (!read_posix(p, to, &posix) || posix))
        return posix && !*p->error;
    if (tn__regex_next(p, "["))
        return tn__regex_class(p, to);
    int32_t first = tn__utf8_take(p->text, &p->at);
    if (first == '\\') {
        if (tn__regex_next(p, "b")) { /* a backspace in a class */
            first = '\b';
            p->at++;
        } else if ((first = tn__regex_escape(p, to)) < 0) {
            return first == -1;
        }
    }
    int32_t last = first;
    if (p->at + 1 < p->bytes && p->text[p->at] == '-' &&
        p->text[p->at + 1] != ']' &&
        !(p->text[p->at + 1] == '[' || tn__regex_next(p, "-&&"))) {
        const size_t dash = p->at++;
        last = tn__utf8_take(p->text, &p->at);
        tn__ranges class = {0};
        if (last == '\\')
            last = tn__regex_escape(p, &class);
        tn__ranges_free(&class);
        if (last == -2)
            return false;
        if (last == -1) { /* [a-\d]: the dash is a member */
            last = first;
            p->at = dash;
            tn__ranges_add(to, '-', '-');
            p->at++;
        } else if (last < first) {
            tn__regex_fail(p, "a range of characters is in reverse order");
            return false;
        }
    }
    tn__ranges_add(to, first, last);
    return true;
}

bool tn__regex_class(tn__regex_parser *p, tn__ranges *to)
{
    if (++p->depth > TN__REGEX_MOST_DEPTH)
        return tn__regex_fail(p, "groups and classes are nested deeper than %d",
                              TN__REGEX_MOST_DEPTH);
    p->at++;
    const bool negative = tn__regex_skip(p, "^");
    tn__ranges all = {0}, part = {0};
    bool good = true, met = false;
    if (tn__regex_next(p, "]")) { /* literal at the beginning */
        p->at++;
        tn__ranges_add(&part, ']', ']');
    }
    for (;;) {
        const bool end = p->at == p->bytes || p->text[p->at] == ']';
        if (end || tn__regex_next(p, "&&")) {
            if (p->ignore_case)
                tn__ranges_fold(&part);
            if (met)
                tn__ranges_intersect(&all, &part);
            else
                tn__ranges_add_all(&all, &part);
            tn__ranges_free(&part);
            met = true;
            if (end)
                break;
            p->at += 2;
        } else if (!(good = read_member(p, &part))) {
            break;
        }
    }
    if (good && p->at == p->bytes)
        good = tn__regex_fail(p, "a class needs a ]");
    p->at++;
    if (negative)
        tn__ranges_negate(&all);
    tn__ranges_add_all(to, &all);
    tn__ranges_free(&all);
    tn__ranges_free(&part);
    p->depth--;
    return good;
}
