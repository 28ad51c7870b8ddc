/* template_characters.c: methods of strings in chat templates that look at
 * single characters: strip, letters in another case, isalpha and its like. They
 * behave as in Python. */
#include <lm/template/template_methods.h>
#include <lm/tokenizer/unicode.h>

#include <string.h>

typedef tn__jinja_value value;

/* ---- characters ---------------------------------------------------------- */

/* Returns the bytes of the character at the beginning of a string if it is
 * blank (by Python's str.isspace), else 0. */
size_t tn__jinja_blank(const char *text, size_t bytes)
{
    static const char *const wide[] = {
        "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\xa8",
        "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    if (!bytes)
        return 0;
    const unsigned char c = (unsigned char)*text;
    if (c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f))
        return 1;
    for (int i = 0; c >= 0x80 && i < 8; i++) {
        const size_t n = strlen(wide[i]);
        if (n <= bytes && memcmp(text, wide[i], n) == 0)
            return n;
    }
    return bytes >= 3 && memcmp(text, "\xe2\x80", 2) == 0 &&
                   (unsigned char)text[2] >= 0x80 &&
                   (unsigned char)text[2] <= 0x8a
               ? 3
               : 0;
}

size_t tn__jinja_character_bytes(const char *text, size_t bytes)
{
    size_t n = 1;
    while (n < bytes && ((unsigned char)text[n] & 0xc0) == 0x80)
        n++;
    return n;
}

/* Returns the bytes of the character if strip removes it, else 0. strip removes
 * blanks, or the characters of `set`. */
static size_t strips(const char *text, size_t bytes, const value *set)
{
    if (!set)
        return tn__jinja_blank(text, bytes);
    const size_t n = bytes ? tn__jinja_character_bytes(text, bytes) : 0;
    return n && memmem(set->text, set->bytes, text, n) ? n : 0;
}

const value *tn__jinja_text_argument(tn__jinja *j, const value *v,
                                  const char *what)
{
    if (!v || v->kind == TN__JINJA_NONE)
        return NULL;
    if (v->kind != TN__JINJA_TEXT)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s gets %s, not a string", what,
                       tn__jinja_kind_name(v));
    return v;
}

const value *tn__jinja_strip(tn__jinja *j, const value *self, const value *set,
                          bool left, bool right)
{
    size_t begin = 0, end = self->bytes;
    set = tn__jinja_text_argument(j, set, "strip");
    tn__jinja_step(j, self->bytes / 64);
    for (size_t n; left && (n = strips(self->text + begin, end - begin, set));)
        begin += n;
    while (right && end > begin) {
        size_t last = end - 1;
        while (last > begin && ((unsigned char)self->text[last] & 0xc0) == 0x80)
            last--;
        if (strips(self->text + last, end - last, set) != end - last)
            break;
        end = last;
    }
    return tn__jinja_text_of(j, self->text + begin, end - begin);
}

static const value *m_strip(tn__jinja *j, const value *self, const value **a)
{
    return tn__jinja_strip(j, self, a[0], true, true);
}

static const value *m_lstrip(tn__jinja *j, const value *self, const value **a)
{
    return tn__jinja_strip(j, self, a[0], true, false);
}

static const value *m_rstrip(tn__jinja *j, const value *self, const value **a)
{
    return tn__jinja_strip(j, self, a[0], false, true);
}

/* ---- letters ------------------------------------------------------------- */

enum { UPPER, SWAP, CAPITAL, TITLE };

/* Changes the case of ASCII letters. Fails for other letters: the library has
 * no table of their case. */
static const value *change_case(tn__jinja *j, const value *self, int to)
{
    const value *out = tn__jinja_text_of(j, self->text, self->bytes);
    char *text = (char *)(uintptr_t)out->text;
    bool within = false; /* inside a word or, for CAPITAL, after the first
                            character */
    for (size_t i = 0; i < out->bytes; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c >= 0x80)
            tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                           "the case of characters beyond ASCII is not "
                           "supported");
        const bool small = c >= 'a' && c <= 'z', large = c >= 'A' && c <= 'Z';
        const bool up = to == UPPER || (to == SWAP && small) ||
                        (to >= CAPITAL && !within);
        if (small && up)
            text[i] = (char)(c - 32);
        if (large && !up)
            text[i] = (char)(c + 32);
        within = to == CAPITAL || small || large;
    }
    return out;
}

static const value *m_upper(tn__jinja *j, const value *self, const value **a)
{
    (void)a;
    return change_case(j, self, UPPER);
}

/* Converts all characters to lower case. Fails for U+0130, which becomes two
 * characters, and for U+03A3 (sigma), which depends on its position. */
static const value *m_lower(tn__jinja *j, const value *self, const value **a)
{
    tn__jinja_text text = {0};
    (void)a;
    tn__jinja_step(j, self->bytes / 64);
    for (size_t at = 0; at < self->bytes;) {
        unsigned char out[4];
        const size_t begin = at;
        const int32_t c = tn__utf8_read((const unsigned char *)self->text,
                                        self->bytes, &at);
        if (c == 0x130 || c == 0x3a3)
            tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                           "the lower case of U+%04X is not supported",
                           (unsigned)c);
        if (c < 0) /* keeps invalid UTF-8 unchanged */
            tn__jinja_add(j, &text, self->text + begin, at - begin);
        else
            tn__jinja_add(j, &text, (const char *)out,
                          tn__utf8_write(out, tn__unicode_lower(c)));
    }
    return tn__jinja_text_end(j, &text);
}

static const value *m_capitalize(tn__jinja *j, const value *self,
                                 const value **a)
{
    (void)a;
    return change_case(j, self, CAPITAL);
}

static const value *m_swapcase(tn__jinja *j, const value *self,
                               const value **a)
{
    (void)a;
    return change_case(j, self, SWAP);
}

static const value *m_title(tn__jinja *j, const value *self, const value **a)
{
    (void)a;
    return change_case(j, self, TITLE);
}

/* ---- kinds of characters ------------------------------------------------- */

enum {
    ALNUM, ALPHA, ASCII, DIGITS, SMALL, LARGE, BLANK
};

/* Returns whether all characters are of a kind. Fails for characters that are
 * not ASCII, except for blanks: the library has no table of their kinds. */
static bool all_are(tn__jinja *j, const value *self, int kind)
{
    bool cased = false;
    tn__jinja_step(j, self->bytes / 64);
    for (size_t i = 0; i < self->bytes; i++) {
        const unsigned char c = (unsigned char)self->text[i];
        const bool small = c >= 'a' && c <= 'z', large = c >= 'A' && c <= 'Z';
        const bool digit = c >= '0' && c <= '9';
        if (kind == BLANK && c >= 0x80) {
            const size_t n = tn__jinja_blank(self->text + i, self->bytes - i);
            if (!n)
                return false;
            i += n - 1;
            continue;
        }
        if (c >= 0x80 && kind != ASCII)
            tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                           "methods such as isalpha support only ASCII "
                           "characters");
        cased |= small || large;
        const bool is = kind == ALNUM    ? small || large || digit
                        : kind == ALPHA  ? small || large
                        : kind == ASCII  ? c < 0x80
                        : kind == DIGITS ? digit
                        : kind == SMALL  ? !large
                        : kind == LARGE
                            ? !small
                            : tn__jinja_blank(self->text + i, 1) > 0;
        if (!is)
            return false;
    }
    return kind == ASCII || (kind == SMALL || kind == LARGE ? cased
                                                            : self->bytes > 0);
}

#define IS(name, kind)                                                         \
    static const value *m_##name(tn__jinja *j, const value *self,             \
                                 const value **a)                             \
    {                                                                         \
        (void)a;                                                              \
        return tn__jinja_bool(all_are(j, self, kind));                        \
    }
IS(isalnum, ALNUM)
IS(isalpha, ALPHA)
IS(isascii, ASCII)
IS(isdigit, DIGITS)
IS(islower, SMALL)
IS(isupper, LARGE)
IS(isspace, BLANK)
#undef IS

/* ---- the table ----------------------------------------------------------- */

const tn__jinja_method_row tn__jinja_character_methods[] = {
    {TN__JINJA_TEXT, "capitalize", "", m_capitalize},
    {TN__JINJA_TEXT, "isalnum", "", m_isalnum},
    {TN__JINJA_TEXT, "isalpha", "", m_isalpha},
    {TN__JINJA_TEXT, "isascii", "", m_isascii},
    {TN__JINJA_TEXT, "isdecimal", "", m_isdigit},
    {TN__JINJA_TEXT, "isdigit", "", m_isdigit},
    {TN__JINJA_TEXT, "islower", "", m_islower},
    {TN__JINJA_TEXT, "isnumeric", "", m_isdigit},
    {TN__JINJA_TEXT, "isspace", "", m_isspace},
    {TN__JINJA_TEXT, "isupper", "", m_isupper},
    {TN__JINJA_TEXT, "lower", "", m_lower},
    {TN__JINJA_TEXT, "lstrip", "chars", m_lstrip},
    {TN__JINJA_TEXT, "rstrip", "chars", m_rstrip},
    {TN__JINJA_TEXT, "strip", "chars", m_strip},
    {TN__JINJA_TEXT, "swapcase", "", m_swapcase},
    {TN__JINJA_TEXT, "title", "", m_title},
    {TN__JINJA_TEXT, "upper", "", m_upper},
    {0},
};
