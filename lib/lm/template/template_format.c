/* template_format.c: formats strings of chat templates as Python does: "%s" %
 * x, the filter format, and "{}".format(x). */
#include <lm/template/template.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tenon/base.h>

typedef tn__jinja_value value;

/* A parsed format specification. */
typedef struct spec {
    char fill;       /* ' ' or '0' */
    char align;      /* '<', '>', '^', or '=' for fill between sign and digits;
                        0: default */
    char sign;       /* '+', ' ', or 0 */
    bool alternate;  /* # */
    bool quoted;     /* format the repr of the value */
    int width;
    int precision;   /* -1: none */
    char type;       /* a conversion character of Python, or 0 */
} spec;

/* The largest width or precision that is accepted. */
enum { MOST_WIDTH = 1000 };

/* Reads a number of at most MOST_WIDTH at *at, and moves *at past it. Returns
 * `none` if there is no number. */
static int read_size(tn__jinja *j, const value *format, size_t *at, int none)
{
    int n = none;
    while (*at < format->bytes && format->text[*at] >= '0' &&
           format->text[*at] <= '9') {
        n = (n < 0 ? 0 : n) * 10 + (format->text[(*at)++] - '0');
        if (n > MOST_WIDTH)
            tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                           "a width or precision in a format is more than "
                           "%d",
                           MOST_WIDTH);
    }
    return n;
}

static void pad(tn__jinja *j, tn__jinja_text *to, char fill, int64_t count)
{
    while (count-- > 0)
        tn__jinja_add(j, to, &fill, 1);
}

/* Appends a sign and a string, with fill characters to reach s->width. */
static void add_aligned(tn__jinja *j, tn__jinja_text *to, const spec *s,
                        const char *sign, const char *text, size_t bytes,
                        char align)
{
    int64_t length = (int64_t)strlen(sign);
    for (size_t i = 0; i < bytes; i++)
        length += ((unsigned char)text[i] & 0xc0) != 0x80;
    const int64_t missing = s->width > length ? s->width - length : 0;
    const int64_t left = align == '>'   ? missing
                         : align == '^' ? missing / 2
                                        : 0;
    pad(j, to, s->fill, left);
    tn__jinja_add(j, to, sign, strlen(sign));
    if (align == '=')
        pad(j, to, s->fill, missing);
    tn__jinja_add(j, to, text, bytes);
    if (align != '=')
        pad(j, to, s->fill, missing - left);
}

static const char *sign_of(const spec *s, bool negative)
{
    return negative         ? "-"
           : s->sign == '+' ? "+"
           : s->sign == ' ' ? " "
                            : "";
}

static void add_number(tn__jinja *j, tn__jinja_text *to, const spec *s,
                       const char *sign, const char *digits)
{
    add_aligned(j, to, s, sign, digits, strlen(digits),
                s->align ? s->align : '>');
}

static void add_integer(tn__jinja *j, tn__jinja_text *to, const spec *s,
                        int64_t x)
{
    char digits[MOST_WIDTH + 80], sign[4], format[16];
    const uint64_t size = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    const char *prefix = "", *type = PRIu64;
    if (s->type == 'x' || s->type == 'X' || s->type == 'o') {
        type = s->type == 'x' ? PRIx64 : s->type == 'X' ? PRIX64 : PRIo64;
        prefix = !s->alternate      ? ""
                 : s->type == 'x' ? "0x"
                 : s->type == 'X' ? "0X"
                                  : "0o";
    }
    snprintf(format, sizeof format, "%%.*%s", type);
    snprintf(sign, sizeof sign, "%s%s", sign_of(s, x < 0), prefix);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(digits, sizeof digits, format,
             s->precision < 0 ? 1 : s->precision, size);
#pragma GCC diagnostic pop
    add_number(j, to, s, sign, digits);
}

static void add_real(tn__jinja *j, tn__jinja_text *to, const spec *s, double x)
{
    char digits[MOST_WIDTH + 400];
    const char format[] = {'%', s->alternate ? '#' : '-', '.', '*', s->type, 0};
    const int precision = s->precision < 0 ? 6 : s->precision;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    tn_format(digits, sizeof digits, format, precision, x);
#pragma GCC diagnostic pop
    const bool negative = digits[0] == '-';
    add_number(j, to, s, sign_of(s, negative), digits + negative);
}

static void add_text(tn__jinja *j, tn__jinja_text *to, const spec *s,
                     const value *v, char align)
{
    tn__jinja_text text = {0};
    tn__jinja_add_value(j, &text, v, s->quoted);
    size_t bytes = text.bytes;
    if (s->precision >= 0) { /* characters */
        int64_t left = s->precision;
        for (bytes = 0; bytes < text.bytes; bytes++)
            if (((unsigned char)text.text[bytes] & 0xc0) != 0x80 && left-- == 0)
                break;
    }
    add_aligned(j, to, s, "", text.text ? text.text : "", bytes, align);
}

static bool is_whole(const value *v)
{
    return v->kind == TN__JINJA_INT || v->kind == TN__JINJA_BOOL;
}

static int64_t whole_of(tn__jinja *j, const value *v, char type)
{
    if (is_whole(v))
        return v->kind == TN__JINJA_INT ? v->integer : v->truth;
    if (v->kind != TN__JINJA_REAL || (type != 'd' && type != 'i'))
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%%%c needs an integer, not %s",
                       type, tn__jinja_kind_name(v));
    if (!(v->real > -9.2e18 && v->real < 9.2e18))
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "an integer in a format needs more than 64 bits");
    return (int64_t)v->real;
}

/* ---- "%s" % x ------------------------------------------------------------ */

/* The values for the conversions of a format. */
typedef struct source {
    const value *const *item; /* values by position */
    size_t count, used;
    const value *names; /* a dictionary, or NULL */
} source;

static const value *next_item(tn__jinja *j, source *from)
{
    if (from->used == from->count)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "a format needs more than %zu values", from->count);
    return from->item[from->used++];
}

/* Reads the "(name)" of a conversion and returns its value. Returns NULL if
 * there is no name. */
static const value *named_item(tn__jinja *j, const value *format, size_t *at,
                               source *from)
{
    if (*at >= format->bytes || format->text[*at] != '(')
        return NULL;
    const char *name = format->text + *at + 1;
    const char *end = memchr(name, ')', format->bytes - *at - 1);
    if (!end || !from->names)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       end ? "a format with names (\"%%(name)s\") needs a "
                             "dictionary"
                           : "a name in a format has no closing parenthesis");
    const value *key = tn__jinja_text_of(j, name, (size_t)(end - name));
    const value *v = tn__jinja_get(j, from->names, key);
    if (!v)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "a format uses the name %.60s, which has no value",
                       key->text);
    *at = (size_t)(end - format->text) + 1;
    return v;
}

static void add_conversion(tn__jinja *j, tn__jinja_text *to,
                           const value *format, size_t *at, source *from)
{
    spec s = {.fill = ' ', .precision = -1};
    const value *v = named_item(j, format, at, from);
    bool left = false, zero = false;
    for (; *at < format->bytes && format->text[*at] &&
           strchr("#0- +", format->text[*at]);
         (*at)++) {
        const char c = format->text[*at];
        left |= c == '-';
        zero |= c == '0';
        s.alternate |= c == '#';
        s.sign = c == '+' || (c == ' ' && !s.sign) ? c : s.sign;
    }
    s.width = read_size(j, format, at, 0);
    if (*at < format->bytes && format->text[*at] == '.') {
        ++*at;
        s.precision = read_size(j, format, at, 0);
    }
    s.type = *at < format->bytes ? format->text[(*at)++] : '\0';
    if (s.type == '%') {
        tn__jinja_add(j, to, "%", 1);
        return;
    }
    if (!s.type || !strchr("srdiuxXofFeEgG", s.type))
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "the conversion %%%c in a format is not supported",
                       s.type > ' ' && s.type < 0x7f ? s.type : ' ');
    if (!v)
        v = next_item(j, from);
    if (zero && s.type != 's' && s.type != 'r')
        s.fill = '0';
    s.align = left ? '<' : s.fill == '0' ? '=' : '>';
    if (left)
        s.fill = ' ';
    s.quoted = s.type == 'r';
    if (s.type == 's' || s.type == 'r') {
        add_text(j, to, &s, v, s.align);
    } else if (strchr("diuxXo", s.type)) {
        const char type = s.type == 'u' ? 'd' : s.type;
        add_integer(j, to, &s, whole_of(j, v, type));
    } else {
        if (!tn__jinja_is_number(v))
            tn__jinja_fail(j, TN_ERR_ARGUMENT, "%%%c needs a number, not %s",
                           s.type, tn__jinja_kind_name(v));
        add_real(j, to, &s, tn__jinja_number(v));
    }
}

const value *tn__jinja_percent(tn__jinja *j, const value *format,
                               const value *values)
{
    const bool tuple = values->kind == TN__JINJA_LIST && values->is_tuple;
    source from = {.item = tuple ? values->item : &values,
                   .count = tuple ? values->count : 1,
                   .names = values->kind == TN__JINJA_DICT ? values : NULL};
    tn__jinja_text text = {0};
    tn__jinja_step(j, format->bytes / 64);
    for (size_t at = 0; at < format->bytes;) {
        const char *found =
            memchr(format->text + at, '%', format->bytes - at);
        const size_t end =
            found ? (size_t)(found - format->text) : format->bytes;
        tn__jinja_add(j, &text, format->text + at, end - at);
        at = end + 1;
        if (found)
            add_conversion(j, &text, format, &at, &from);
    }
    /* as in Python, a dictionary or a list need not be used */
    if (from.used < from.count && !from.names &&
        (tuple || values->kind != TN__JINJA_LIST))
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "a format uses only %zu of %zu values", from.used,
                       from.count);
    return tn__jinja_text_end(j, &text);
}

/* ---- "{}".format(x) ------------------------------------------------------ */

/* Reads "[[fill]align][sign][#][0][width][.precision][type]". */
static spec read_spec(tn__jinja *j, const value *format, size_t *at)
{
    spec s = {.fill = ' ', .precision = -1};
    const char *text = format->text;
    const size_t bytes = format->bytes;
    if (*at + 1 < bytes && text[*at] && strchr("<>^=", text[*at + 1]) &&
        text[*at + 1]) {
        s.fill = text[*at];
        s.align = text[*at + 1];
        *at += 2;
    } else if (*at < bytes && text[*at] && strchr("<>^=", text[*at])) {
        s.align = text[(*at)++];
    }
    if (*at < bytes && text[*at] && strchr("+- ", text[*at]))
        s.sign = text[(*at)++];
    if (*at < bytes && text[*at] == '#') {
        s.alternate = true;
        ++*at;
    }
    if (*at < bytes && text[*at] == '0' && !s.align) {
        s.fill = '0';
        s.align = '=';
        ++*at;
    }
    s.width = read_size(j, format, at, 0);
    if (*at < bytes && text[*at] == '.') {
        ++*at;
        s.precision = read_size(j, format, at, -1);
        if (s.precision < 0)
            tn__jinja_fail(j, TN_ERR_ARGUMENT,
                           "a precision in a format has no digits after the "
                           "point");
    }
    if (*at < bytes && text[*at] != '}')
        s.type = text[(*at)++];
    if ((s.type && !strchr("sdxXofFeEgG", s.type)) || (s.fill & 0x80))
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "the format type %c is not supported",
                       s.type > ' ' && s.type < 0x7f ? s.type : '?');
    return s;
}

static void add_field(tn__jinja *j, tn__jinja_text *to, const value *v,
                      spec s)
{
    const bool text = s.quoted || v->kind == TN__JINJA_TEXT;
    if (!s.type && !text && v->kind == TN__JINJA_INT)
        s.type = 'd';
    if (text || s.type == 's' || (!s.type && !s.width && s.precision < 0)) {
        if ((s.type && s.type != 's') || s.align == '=' || s.sign ||
            s.alternate || (!text && s.type))
            tn__jinja_fail(j, TN_ERR_ARGUMENT,
                           "this format specification does not apply to %s",
                           tn__jinja_kind_name(v));
        add_text(j, to, &s, v, s.align ? s.align : '<');
        return;
    }
    if (!s.type || !tn__jinja_is_number(v))
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "a format of %s with a width or precision, but without "
                       "a type, is not supported",
                       tn__jinja_kind_name(v));
    if (strchr("dxXo", s.type)) {
        if (!is_whole(v) || s.precision >= 0)
            tn__jinja_fail(j, TN_ERR_ARGUMENT,
                           "an integer format, or one with a precision, does "
                           "not apply to %s",
                           tn__jinja_kind_name(v));
        add_integer(j, to, &s, whole_of(j, v, s.type));
    } else {
        add_real(j, to, &s, tn__jinja_number(v));
    }
}

/* Returns the value of a field, given by its index or its name, or the next
 * value if neither is given. */
static const value *field_value(tn__jinja *j, const tn__jinja_arguments *given,
                                const char *name, size_t bytes, int64_t *next)
{
    int64_t number = 0;
    bool digits = bytes > 0 && bytes < 4;
    for (size_t i = 0; i < bytes; i++) {
        digits = digits && name[i] >= '0' && name[i] <= '9';
        number = digits ? number * 10 + (name[i] - '0') : 0;
        if (name[i] == '.' || name[i] == '[')
            tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                           "formats with members of values ({x.y} or {x[y]}) "
                           "are not supported");
    }
    if (!bytes || digits) {
        /* *next is -1 once a field has had an index */
        if (bytes ? *next > 0 : *next < 0)
            tn__jinja_fail(j, TN_ERR_ARGUMENT,
                           "a format cannot mix {} and numbered fields such as "
                           "{0}");
        if (bytes)
            *next = -1;
        else
            number = (*next)++;
        if (number < (int64_t)given->count)
            return given->item[number];
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "a format needs more than %zu values", given->count);
    }
    for (size_t i = 0; i < given->named_count; i++)
        if (strlen(given->name[i]) == bytes &&
            memcmp(given->name[i], name, bytes) == 0)
            return given->named[i];
    tn__jinja_fail(j, TN_ERR_ARGUMENT,
                   "a format uses the name %.*s, which has no value",
                   bytes < 60 ? (int)bytes : 60, name);
}

static void add_braces(tn__jinja *j, tn__jinja_text *to, const value *format,
                       const tn__jinja_arguments *given, size_t *at,
                       int64_t *next)
{
    const size_t begin = *at;
    while (*at < format->bytes && !strchr("!:{}", format->text[*at]))
        ++*at;
    const value *v = field_value(j, given, format->text + begin, *at - begin,
                                 next);
    char conversion = '\0';
    if (*at + 1 < format->bytes && format->text[*at] == '!') {
        conversion = format->text[*at + 1];
        *at += 2;
        if (conversion != 's' && conversion != 'r')
            tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                           "a format supports only the conversions !s and !r");
        if (conversion == 's')
            v = tn__jinja_string(j, v);
    }
    spec s = {.fill = ' ', .precision = -1};
    if (*at < format->bytes && format->text[*at] == ':') {
        ++*at;
        s = read_spec(j, format, at);
    }
    s.quoted = conversion == 'r';
    if (*at >= format->bytes || format->text[*at] != '}')
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "a field in a format does not end with } where it is "
                       "expected");
    ++*at;
    add_field(j, to, v, s);
}

const value *tn__jinja_braces(tn__jinja *j, const value *format,
                              const tn__jinja_arguments *given)
{
    tn__jinja_text text = {0};
    int64_t next = 0;
    tn__jinja_step(j, format->bytes / 64);
    for (size_t at = 0; at < format->bytes;) {
        const char c = format->text[at++];
        if (c != '{' && c != '}') {
            tn__jinja_add(j, &text, &c, 1);
        } else if (at < format->bytes && format->text[at] == c) {
            tn__jinja_add(j, &text, &c, 1);
            at++;
        } else if (c == '}') {
            tn__jinja_fail(j, TN_ERR_ARGUMENT,
                           "a format has a single }; write }} for the "
                           "character");
        } else {
            add_braces(j, &text, format, given, &at, &next);
        }
    }
    return tn__jinja_text_end(j, &text);
}
