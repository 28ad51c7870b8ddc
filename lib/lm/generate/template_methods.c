/* template_methods.c: methods of texts and dictionaries in chat templates, as
 * Python has them; and the arguments of all calls. */
#include <lm/generate/template.h>

#include <string.h>

typedef tn__jinja_value value;
typedef const value *(*method)(tn__jinja *j, const value *self,
                               const value **a);

/* ---- arguments ----------------------------------------------------------- */

/* The place of a name in "a b c", or -1. */
static int place_of(const char *parameters, const char *name)
{
    const size_t bytes = strlen(name);
    int place = 0;
    for (const char *at = parameters; *at; place++) {
        const size_t length = strcspn(at, " ");
        if (length == bytes && memcmp(at, name, bytes) == 0)
            return place;
        at += length;
        at += strspn(at, " ");
    }
    return -1;
}

static size_t count_of(const char *parameters)
{
    size_t count = *parameters != '\0';
    for (const char *at = parameters; *at; at++)
        count += *at == ' ';
    return count;
}

void tn__jinja_bind(tn__jinja *j, const char *what, const char *parameters,
                    const tn__jinja_arguments *given, const value **out)
{
    const size_t most = count_of(parameters);
    if (given->count > most)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s takes %zu arguments, not %zu",
                       what, most, given->count);
    for (size_t i = 0; i < TN__JINJA_MOST_ARGUMENTS; i++)
        out[i] = i < given->count ? given->item[i] : NULL;
    for (size_t i = 0; i < given->named_count; i++) {
        const int place = place_of(parameters, given->name[i]);
        if (place < 0 || out[place])
            tn__jinja_fail(j, place < 0 ? TN_ERR_UNSUPPORTED : TN_ERR_ARGUMENT,
                           place < 0 ? "%s: the argument %.60s is not supported"
                                     : "%s gets %.60s twice",
                           what, given->name[i]);
        out[place] = given->named[i];
    }
}

/* ---- characters ---------------------------------------------------------- */

/* The bytes of a blank character at the beginning of a text, by Python's
 * str.isspace, or 0. */
static size_t blank(const char *text, size_t bytes)
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

static size_t width(const char *text, size_t bytes)
{
    size_t n = 1;
    while (n < bytes && ((unsigned char)text[n] & 0xc0) == 0x80)
        n++;
    return n;
}

/* Whether the character is to be stripped: a blank, or one of `set`. Returns its
 * bytes, or 0. */
static size_t strips(const char *text, size_t bytes, const value *set)
{
    if (!set)
        return blank(text, bytes);
    const size_t n = bytes ? width(text, bytes) : 0;
    return n && memmem(set->text, set->bytes, text, n) ? n : 0;
}

static const value *text_argument(tn__jinja *j, const value *v,
                                  const char *what)
{
    if (!v || v->kind == TN__JINJA_NONE)
        return NULL;
    if (v->kind != TN__JINJA_TEXT)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s gets %s, not a text", what,
                       tn__jinja_kind_name(v));
    return v;
}

static const value *strip(tn__jinja *j, const value *self, const value *set,
                          bool left, bool right)
{
    size_t begin = 0, end = self->bytes;
    set = text_argument(j, set, "strip");
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
    return strip(j, self, a[0], true, true);
}

static const value *m_lstrip(tn__jinja *j, const value *self, const value **a)
{
    return strip(j, self, a[0], true, false);
}

static const value *m_rstrip(tn__jinja *j, const value *self, const value **a)
{
    return strip(j, self, a[0], false, true);
}

/* ---- letters ------------------------------------------------------------- */

enum { UPPER, LOWER, CAPITAL, TITLE };

/* Changes the case of ASCII letters. Other letters are refused: their case is not
 * known here. */
static const value *change_case(tn__jinja *j, const value *self, int to)
{
    const value *out = tn__jinja_text_of(j, self->text, self->bytes);
    char *text = (char *)(uintptr_t)out->text;
    bool within = false; /* a word, or for CAPITAL the text */
    for (size_t i = 0; i < out->bytes; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c >= 0x80)
            tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                           "the case of characters beyond ASCII is not "
                           "supported");
        const bool small = c >= 'a' && c <= 'z', large = c >= 'A' && c <= 'Z';
        const bool up = to == UPPER || (to >= CAPITAL && !within);
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

static const value *m_lower(tn__jinja *j, const value *self, const value **a)
{
    (void)a;
    return change_case(j, self, LOWER);
}

static const value *m_capitalize(tn__jinja *j, const value *self,
                                 const value **a)
{
    (void)a;
    return change_case(j, self, CAPITAL);
}

static const value *m_title(tn__jinja *j, const value *self, const value **a)
{
    (void)a;
    return change_case(j, self, TITLE);
}

/* ---- parts --------------------------------------------------------------- */

static int64_t count_argument(tn__jinja *j, const value *v)
{
    if (!v)
        return -1;
    if (v->kind != TN__JINJA_INT)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "a count is %s",
                       tn__jinja_kind_name(v));
    return v->integer;
}

static const value *split_blanks(tn__jinja *j, const value *self, int64_t most)
{
    value *list = tn__jinja_list(j);
    for (size_t at = 0;;) {
        size_t n, begin;
        while ((n = blank(self->text + at, self->bytes - at)))
            at += n;
        if (at == self->bytes)
            return list;
        if (most-- == 0) {
            tn__jinja_append(
                j, list,
                strip(j,
                      tn__jinja_text_of(j, self->text + at, self->bytes - at),
                      NULL, false, true));
            return list;
        }
        for (begin = at; at < self->bytes && !blank(self->text + at,
                                                    self->bytes - at);)
            at += width(self->text + at, self->bytes - at);
        tn__jinja_append(j, list,
                         tn__jinja_text_of(j, self->text + begin, at - begin));
    }
}

static const value *m_split(tn__jinja *j, const value *self, const value **a)
{
    const value *by = text_argument(j, a[0], "split");
    int64_t most = count_argument(j, a[1]);
    if (!by)
        return split_blanks(j, self, most);
    if (!by->bytes)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "split by an empty text");
    value *list = tn__jinja_list(j);
    tn__jinja_step(j, self->bytes / 64);
    for (size_t at = 0;;) {
        const char *found = most-- == 0 ? NULL
                                        : memmem(self->text + at,
                                                 self->bytes - at, by->text,
                                                 by->bytes);
        const size_t end =
            found ? (size_t)(found - self->text) : self->bytes;
        tn__jinja_append(j, list,
                         tn__jinja_text_of(j, self->text + at, end - at));
        if (!found)
            return list;
        at = end + by->bytes;
    }
}

static const value *m_replace(tn__jinja *j, const value *self, const value **a)
{
    const value *old = text_argument(j, a[0], "replace");
    const value *new = text_argument(j, a[1], "replace");
    int64_t most = count_argument(j, a[2]);
    tn__jinja_text text = {0};
    if (!old || !new)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "replace needs two texts");
    tn__jinja_step(j, self->bytes / 64);
    for (size_t at = 0; at <= self->bytes;) {
        const char *found = most-- == 0 ? NULL
                                        : memmem(self->text + at,
                                                 self->bytes - at, old->text,
                                                 old->bytes);
        size_t end = found ? (size_t)(found - self->text) : self->bytes;
        tn__jinja_add(j, &text, self->text + at, end - at);
        if (!found)
            break;
        tn__jinja_add(j, &text, new->text, new->bytes);
        tn__jinja_step(j, 1);
        at = end + old->bytes;
        if (!old->bytes) { /* between all characters */
            if (at == self->bytes)
                break;
            const size_t n = width(self->text + at, self->bytes - at);
            tn__jinja_add(j, &text, self->text + at, n);
            at += n;
        }
    }
    return tn__jinja_text_end(j, &text);
}

static bool has_end(const value *self, const value *part, bool front)
{
    return part->bytes <= self->bytes &&
           memcmp(self->text + (front ? 0 : self->bytes - part->bytes),
                  part->text, part->bytes) == 0;
}

/* The argument is a text, or a list of texts. */
static const value *has_any_end(tn__jinja *j, const value *self,
                                const value *part, bool front)
{
    if (!part || part->kind != TN__JINJA_LIST) {
        const value *text = text_argument(j, part, "startswith or endswith");
        if (!text)
            tn__jinja_fail(j, TN_ERR_ARGUMENT, "startswith needs a text");
        return tn__jinja_bool(has_end(self, text, front));
    }
    for (size_t i = 0; i < part->count; i++)
        if (tn__jinja_truth(has_any_end(j, self, part->item[i], front)))
            return &tn__jinja_true;
    return &tn__jinja_false;
}

static const value *m_startswith(tn__jinja *j, const value *self,
                                 const value **a)
{
    return has_any_end(j, self, a[0], true);
}

static const value *m_endswith(tn__jinja *j, const value *self, const value **a)
{
    return has_any_end(j, self, a[0], false);
}

static const value *without_end(tn__jinja *j, const value *self,
                                const value *part, bool front)
{
    part = text_argument(j, part, "removeprefix or removesuffix");
    if (!part)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "removeprefix needs a text");
    const size_t n = has_end(self, part, front) ? part->bytes : 0;
    return tn__jinja_text_of(j, self->text + (front ? n : 0), self->bytes - n);
}

static const value *m_removeprefix(tn__jinja *j, const value *self,
                                   const value **a)
{
    return without_end(j, self, a[0], true);
}

static const value *m_removesuffix(tn__jinja *j, const value *self,
                                   const value **a)
{
    return without_end(j, self, a[0], false);
}

/* Whether Python ends a line there, too: vertical tabs, U+0085, U+2028 ... */
static bool is_odd_end(const char *text, size_t bytes)
{
    const unsigned char c = (unsigned char)*text;
    return c == 0x0b || c == 0x0c || (c >= 0x1c && c <= 0x1e) ||
           (bytes >= 2 && memcmp(text, "\xc2\x85", 2) == 0) ||
           (bytes >= 3 && (memcmp(text, "\xe2\x80\xa8", 3) == 0 ||
                           memcmp(text, "\xe2\x80\xa9", 3) == 0));
}

/* Lines without their ends. */
static const value *m_splitlines(tn__jinja *j, const value *self,
                                 const value **a)
{
    value *list = tn__jinja_list(j);
    (void)a;
    for (size_t at = 0; at < self->bytes;) {
        const size_t begin = at;
        for (; at < self->bytes && self->text[at] != '\n' &&
               self->text[at] != '\r';
             at++)
            if (is_odd_end(self->text + at, self->bytes - at))
                tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                               "splitlines of a text with other ends of lines "
                               "than \\n and \\r");
        tn__jinja_append(j, list,
                         tn__jinja_text_of(j, self->text + begin, at - begin));
        at += at + 1 < self->bytes && self->text[at] == '\r' &&
              self->text[at + 1] == '\n';
        at += at < self->bytes;
    }
    return list;
}

/* How often a part occurs. */
static const value *m_count(tn__jinja *j, const value *self, const value **a)
{
    const value *part = text_argument(j, a[0], "count");
    int64_t count = 0;
    if (!part || !part->bytes)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "count needs a text");
    tn__jinja_step(j, self->bytes / 64);
    for (size_t at = 0;; count++) {
        const char *found = memmem(self->text + at, self->bytes - at,
                                   part->text, part->bytes);
        if (!found)
            return tn__jinja_int(j, count);
        at = (size_t)(found - self->text) + part->bytes;
    }
}

/* The place of a part, in characters, or -1. */
static const value *m_find(tn__jinja *j, const value *self, const value **a)
{
    const value *part = text_argument(j, a[0], "find");
    if (!part)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "find needs a text");
    tn__jinja_step(j, self->bytes / 64);
    const char *found =
        memmem(self->text, self->bytes, part->text, part->bytes);
    return tn__jinja_int(
        j, found ? tn__jinja_length(
                       j, tn__jinja_text_of(j, self->text,
                                            (size_t)(found - self->text)))
                 : -1);
}

static const value *m_join(tn__jinja *j, const value *self, const value **a)
{
    tn__jinja_text text = {0};
    if (!a[0])
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "join needs a list");
    const value *list = tn__jinja_items(j, a[0]);
    for (size_t i = 0; i < list->count; i++) {
        const value *item = text_argument(j, list->item[i], "join");
        if (!item)
            tn__jinja_fail(j, TN_ERR_ARGUMENT, "join gets none");
        if (i)
            tn__jinja_add(j, &text, self->text, self->bytes);
        tn__jinja_add(j, &text, item->text, item->bytes);
    }
    return tn__jinja_text_end(j, &text);
}

static const value *m_isdigit(tn__jinja *j, const value *self, const value **a)
{
    (void)a;
    (void)j;
    for (size_t i = 0; i < self->bytes; i++)
        if (self->text[i] < '0' || self->text[i] > '9')
            return &tn__jinja_false;
    return tn__jinja_bool(self->bytes > 0);
}

/* ---- dictionaries -------------------------------------------------------- */

static const value *m_get(tn__jinja *j, const value *self, const value **a)
{
    if (!a[0])
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "get needs a key");
    const value *v = tn__jinja_get(j, self, a[0]);
    return v ? v : a[1] ? a[1] : &tn__jinja_none;
}

static const value *m_items(tn__jinja *j, const value *self, const value **a)
{
    value *list = tn__jinja_list(j);
    (void)a;
    for (size_t i = 0; i < self->count; i++) {
        value *pair = tn__jinja_list(j);
        pair->is_tuple = true;
        tn__jinja_append(j, pair, self->key[i]);
        tn__jinja_append(j, pair, self->item[i]);
        tn__jinja_append(j, list, pair);
    }
    return list;
}

static const value *m_keys(tn__jinja *j, const value *self, const value **a)
{
    (void)a;
    return tn__jinja_items(j, self);
}

static const value *m_values(tn__jinja *j, const value *self, const value **a)
{
    value *list = tn__jinja_list(j);
    (void)a;
    for (size_t i = 0; i < self->count; i++)
        tn__jinja_append(j, list, self->item[i]);
    return list;
}

/* ---- all of them --------------------------------------------------------- */

static const struct {
    tn__jinja_kind of;
    const char *name, *parameters;
    method call;
} methods[] = {
    {TN__JINJA_TEXT, "capitalize", "", m_capitalize},
    {TN__JINJA_TEXT, "count", "sub", m_count},
    {TN__JINJA_TEXT, "endswith", "suffix", m_endswith},
    {TN__JINJA_TEXT, "find", "sub", m_find},
    {TN__JINJA_TEXT, "isdigit", "", m_isdigit},
    {TN__JINJA_TEXT, "join", "iterable", m_join},
    {TN__JINJA_TEXT, "lower", "", m_lower},
    {TN__JINJA_TEXT, "lstrip", "chars", m_lstrip},
    {TN__JINJA_TEXT, "removeprefix", "prefix", m_removeprefix},
    {TN__JINJA_TEXT, "removesuffix", "suffix", m_removesuffix},
    {TN__JINJA_TEXT, "replace", "old new count", m_replace},
    {TN__JINJA_TEXT, "rstrip", "chars", m_rstrip},
    {TN__JINJA_TEXT, "split", "sep maxsplit", m_split},
    {TN__JINJA_TEXT, "splitlines", "", m_splitlines},
    {TN__JINJA_TEXT, "startswith", "prefix", m_startswith},
    {TN__JINJA_TEXT, "strip", "chars", m_strip},
    {TN__JINJA_TEXT, "title", "", m_title},
    {TN__JINJA_TEXT, "upper", "", m_upper},
    {TN__JINJA_DICT, "get", "key default", m_get},
    {TN__JINJA_DICT, "items", "", m_items},
    {TN__JINJA_DICT, "keys", "", m_keys},
    {TN__JINJA_DICT, "values", "", m_values},
};
enum { METHODS = sizeof methods / sizeof *methods };

static int find_method(const value *self, const char *name)
{
    for (int i = 0; i < METHODS; i++)
        if (methods[i].of == self->kind && strcmp(methods[i].name, name) == 0)
            return i;
    return -1;
}

bool tn__jinja_has_method(const value *self, const char *name)
{
    return find_method(self, name) >= 0;
}

const value *tn__jinja_method(tn__jinja *j, const value *self, const char *name,
                              const tn__jinja_arguments *given)
{
    const value *a[TN__JINJA_MOST_ARGUMENTS];
    const int i = find_method(self, name);
    tn__jinja_bind(j, name, methods[i].parameters, given, a);
    return methods[i].call(j, self, a);
}
