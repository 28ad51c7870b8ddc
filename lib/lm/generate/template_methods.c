/* template_methods.c: methods of texts and dictionaries in chat templates,
 * which behave as in Python. Also binds the arguments of all calls. */
#include <lm/generate/template.h>
#include <lm/tokenizer/unicode.h>

#include <string.h>

typedef tn__jinja_value value;
typedef const value *(*method)(tn__jinja *j, const value *self,
                               const value **a);

/* ---- arguments ----------------------------------------------------------- */

/* Returns the index of a name in the list "a b c", or -1. */
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

/* Returns the bytes of the character at the beginning of a text if it is blank
 * (by Python's str.isspace), else 0. */
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

/* Returns the bytes of the character if strip removes it, else 0. strip removes
 * blanks, or the characters of `set`. */
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

/* ---- parts --------------------------------------------------------------- */

static int64_t count_argument(tn__jinja *j, const value *v)
{
    if (!v)
        return -1;
    if (v->kind != TN__JINJA_INT)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "a count is %s, not an integer",
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
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "split needs a separator that is not empty");
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
        if (!old->bytes) { /* an empty `old` matches between all characters */
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

/* Like Python's startswith and endswith, takes a text or a list of texts. */
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

/* Returns whether Python also ends a line here: vertical tab, U+0085, U+2028
 * ... */
static bool is_odd_end(const char *text, size_t bytes)
{
    const unsigned char c = (unsigned char)*text;
    return c == 0x0b || c == 0x0c || (c >= 0x1c && c <= 0x1e) ||
           (bytes >= 2 && memcmp(text, "\xc2\x85", 2) == 0) ||
           (bytes >= 3 && (memcmp(text, "\xe2\x80\xa8", 3) == 0 ||
                           memcmp(text, "\xe2\x80\xa9", 3) == 0));
}

/* Returns the lines without their ends. */
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
                               "splitlines supports no other ends of lines "
                               "than \\n and \\r");
        tn__jinja_append(j, list,
                         tn__jinja_text_of(j, self->text + begin, at - begin));
        at += at + 1 < self->bytes && self->text[at] == '\r' &&
              self->text[at + 1] == '\n';
        at += at < self->bytes;
    }
    return list;
}

/* Returns how often a text occurs in another. */
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

/* Returns the position of the first or last occurrence of part, in characters.
 * Returns -1 if there is none. */
static int64_t place_in(tn__jinja *j, const value *self, const value *part,
                        bool from_right)
{
    const char *found = NULL;
    tn__jinja_step(j, self->bytes / 64);
    if (part->bytes > self->bytes)
        return -1;
    if (!from_right)
        found = memmem(self->text, self->bytes, part->text, part->bytes);
    for (size_t at = self->bytes - part->bytes + 1; from_right && at--;)
        if (memcmp(self->text + at, part->text, part->bytes) == 0) {
            found = self->text + at;
            break;
        }
    if (!found)
        return -1;
    return tn__jinja_length(
        j, tn__jinja_text_of(j, self->text, (size_t)(found - self->text)));
}

static const value *find_part(tn__jinja *j, const value *self,
                              const value *part, const char *name)
{
    part = text_argument(j, part, name);
    if (!part)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the method %s needs a text as its argument", name);
    const int64_t at = place_in(j, self, part, *name == 'r');
    if (at < 0 && strstr(name, "index"))
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s does not find the text %.60s",
                       name, part->text);
    return tn__jinja_int(j, at);
}

static const value *m_find(tn__jinja *j, const value *self, const value **a)
{
    return find_part(j, self, a[0], "find");
}

static const value *m_rfind(tn__jinja *j, const value *self, const value **a)
{
    return find_part(j, self, a[0], "rfind");
}

static const value *m_index(tn__jinja *j, const value *self, const value **a)
{
    return find_part(j, self, a[0], "index");
}

static const value *m_rindex(tn__jinja *j, const value *self, const value **a)
{
    return find_part(j, self, a[0], "rindex");
}

/* Returns the text before `by`, `by`, and the text after it. */
static const value *partition(tn__jinja *j, const value *self,
                              const value *by, bool from_right)
{
    by = text_argument(j, by, "partition");
    if (!by || !by->bytes)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "partition needs a separator that is not empty");
    const int64_t characters = place_in(j, self, by, from_right);
    size_t end = 0;
    for (int64_t i = 0; i < characters; i++)
        end += width(self->text + end, self->bytes - end);
    value *list = tn__jinja_list(j);
    const value *none = tn__jinja_text_of(j, "", 0);
    list->is_tuple = true;
    if (characters < 0) {
        tn__jinja_append(j, list, from_right ? none : self);
        tn__jinja_append(j, list, none);
        tn__jinja_append(j, list, from_right ? self : none);
        return list;
    }
    const size_t next = end + by->bytes;
    tn__jinja_append(j, list, tn__jinja_text_of(j, self->text, end));
    tn__jinja_append(j, list, by);
    tn__jinja_append(
        j, list, tn__jinja_text_of(j, self->text + next, self->bytes - next));
    return list;
}

static const value *m_partition(tn__jinja *j, const value *self,
                                const value **a)
{
    return partition(j, self, a[0], false);
}

static const value *m_rpartition(tn__jinja *j, const value *self,
                                 const value **a)
{
    return partition(j, self, a[0], true);
}

/* Splits at the last occurrences of a text first. */
static const value *m_rsplit(tn__jinja *j, const value *self, const value **a)
{
    int64_t most = count_argument(j, a[1]);
    if (!text_argument(j, a[0], "rsplit"))
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "rsplit without a separator is not supported");
    const value *backwards = tn__jinja_list(j);
    while (most-- != 0) {
        const value *parts = partition(j, self, a[0], true);
        if (!parts->item[1]->bytes)
            break;
        tn__jinja_append(j, (value *)(uintptr_t)backwards, parts->item[2]);
        self = parts->item[0];
    }
    value *list = tn__jinja_list(j);
    tn__jinja_append(j, list, self);
    for (size_t i = backwards->count; i--;)
        tn__jinja_append(j, list, backwards->item[i]);
    return list;
}

/* Adds fill characters up to a width. `left` halves of them come before the
 * text. */
static const value *fill(tn__jinja *j, const value *self, const value **a,
                         int left)
{
    const int64_t length = tn__jinja_length(j, self);
    const value *by = a[1] ? text_argument(j, a[1], "a fill") : NULL;
    const int64_t wanted = count_argument(j, a[0]);
    const int64_t missing = wanted > length ? wanted - length : 0;
    /* the centre, rounded as in Python */
    const int64_t first = left == 1 ? missing / 2 + (missing & wanted & 1)
                                    : missing * left / 2;
    tn__jinja_text text = {0};
    if (!a[0] || (a[1] && (!by || tn__jinja_length(j, by) != 1)))
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "center, ljust and rjust need a width; the fill must be "
                       "one character");
    for (int64_t i = 0; i < missing; i++) {
        if (i == first)
            tn__jinja_add(j, &text, self->text, self->bytes);
        tn__jinja_step(j, 1);
        tn__jinja_add(j, &text, by ? by->text : " ", by ? by->bytes : 1);
    }
    if (first == missing)
        tn__jinja_add(j, &text, self->text, self->bytes);
    return tn__jinja_text_end(j, &text);
}

static const value *m_center(tn__jinja *j, const value *self, const value **a)
{
    return fill(j, self, a, 1);
}

static const value *m_ljust(tn__jinja *j, const value *self, const value **a)
{
    return fill(j, self, a, 0);
}

static const value *m_rjust(tn__jinja *j, const value *self, const value **a)
{
    return fill(j, self, a, 2);
}

/* Inserts zeros after the sign. */
static const value *m_zfill(tn__jinja *j, const value *self, const value **a)
{
    const size_t sign = self->bytes && strchr("+-", *self->text) ? 1 : 0;
    const value *zero = tn__jinja_text_of(j, "0", 1);
    const value *rest =
        tn__jinja_text_of(j, self->text + sign, self->bytes - sign);
    const int64_t wanted = count_argument(j, a[0]);
    if (!a[0])
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "the method zfill needs a width");
    const value *arguments[] = {
        tn__jinja_int(j, wanted < 0 ? 0 : wanted - (int64_t)sign), zero};
    rest = fill(j, rest, arguments, 2);
    tn__jinja_text text = {0};
    tn__jinja_add(j, &text, self->text, sign);
    tn__jinja_add(j, &text, rest->text, rest->bytes);
    return tn__jinja_text_end(j, &text);
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
            tn__jinja_fail(j, TN_ERR_ARGUMENT,
                           "join needs texts, but an item is none");
        if (i)
            tn__jinja_add(j, &text, self->text, self->bytes);
        tn__jinja_add(j, &text, item->text, item->bytes);
    }
    return tn__jinja_text_end(j, &text);
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
            const size_t n = blank(self->text + i, self->bytes - i);
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
                        : kind == LARGE  ? !small
                                         : blank(self->text + i, 1) > 0;
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

/* ---- lists --------------------------------------------------------------- */

static const value *m_list_count(tn__jinja *j, const value *self,
                                 const value **a)
{
    int64_t count = 0;
    if (!a[0])
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the method count needs an argument");
    for (size_t i = 0; i < self->count; i++)
        count += tn__jinja_equal(j, self->item[i], a[0]);
    return tn__jinja_int(j, count);
}

static const value *m_list_index(tn__jinja *j, const value *self,
                                 const value **a)
{
    if (!a[0])
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the method index needs an argument");
    for (size_t i = 0; i < self->count; i++)
        if (tn__jinja_equal(j, self->item[i], a[0]))
            return tn__jinja_int(j, (int64_t)i);
    tn__jinja_fail(j, TN_ERR_ARGUMENT, "index does not find the item");
}

static const value *format_text(tn__jinja *j, const value *self,
                                const char *name,
                                const tn__jinja_arguments *given)
{
    (void)name;
    return tn__jinja_braces(j, self, given);
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

static const value *m_copy(tn__jinja *j, const value *self, const value **a)
{
    value *copy = tn__jinja_dict(j);
    (void)a;
    for (size_t i = 0; i < self->count; i++)
        tn__jinja_set(j, copy, self->key[i], self->item[i]);
    return copy;
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

/* Methods with any number of arguments. */
static const struct {
    tn__jinja_kind of;
    const char *name;
    const value *(*call)(tn__jinja *j, const value *self, const char *name,
                         const tn__jinja_arguments *given);
} variadic[] = {
    {TN__JINJA_TEXT, "format", format_text},
    {TN__JINJA_LOOP, "changed", tn__jinja_loop_call},
    {TN__JINJA_LOOP, "cycle", tn__jinja_loop_call},
};
enum { VARIADIC = sizeof variadic / sizeof *variadic };

static const struct {
    tn__jinja_kind of;
    const char *name, *parameters;
    method call;
} methods[] = {
    {TN__JINJA_TEXT, "capitalize", "", m_capitalize},
    {TN__JINJA_TEXT, "center", "width fillchar", m_center},
    {TN__JINJA_TEXT, "count", "sub", m_count},
    {TN__JINJA_TEXT, "endswith", "suffix", m_endswith},
    {TN__JINJA_TEXT, "find", "sub", m_find},
    {TN__JINJA_TEXT, "index", "sub", m_index},
    {TN__JINJA_TEXT, "isalnum", "", m_isalnum},
    {TN__JINJA_TEXT, "isalpha", "", m_isalpha},
    {TN__JINJA_TEXT, "isascii", "", m_isascii},
    {TN__JINJA_TEXT, "isdecimal", "", m_isdigit},
    {TN__JINJA_TEXT, "isdigit", "", m_isdigit},
    {TN__JINJA_TEXT, "islower", "", m_islower},
    {TN__JINJA_TEXT, "isnumeric", "", m_isdigit},
    {TN__JINJA_TEXT, "isspace", "", m_isspace},
    {TN__JINJA_TEXT, "isupper", "", m_isupper},
    {TN__JINJA_TEXT, "join", "iterable", m_join},
    {TN__JINJA_TEXT, "ljust", "width fillchar", m_ljust},
    {TN__JINJA_TEXT, "lower", "", m_lower},
    {TN__JINJA_TEXT, "lstrip", "chars", m_lstrip},
    {TN__JINJA_TEXT, "partition", "sep", m_partition},
    {TN__JINJA_TEXT, "removeprefix", "prefix", m_removeprefix},
    {TN__JINJA_TEXT, "removesuffix", "suffix", m_removesuffix},
    {TN__JINJA_TEXT, "replace", "old new count", m_replace},
    {TN__JINJA_TEXT, "rfind", "sub", m_rfind},
    {TN__JINJA_TEXT, "rindex", "sub", m_rindex},
    {TN__JINJA_TEXT, "rjust", "width fillchar", m_rjust},
    {TN__JINJA_TEXT, "rpartition", "sep", m_rpartition},
    {TN__JINJA_TEXT, "rsplit", "sep maxsplit", m_rsplit},
    {TN__JINJA_TEXT, "rstrip", "chars", m_rstrip},
    {TN__JINJA_TEXT, "split", "sep maxsplit", m_split},
    {TN__JINJA_TEXT, "splitlines", "", m_splitlines},
    {TN__JINJA_TEXT, "startswith", "prefix", m_startswith},
    {TN__JINJA_TEXT, "strip", "chars", m_strip},
    {TN__JINJA_TEXT, "swapcase", "", m_swapcase},
    {TN__JINJA_TEXT, "title", "", m_title},
    {TN__JINJA_TEXT, "upper", "", m_upper},
    {TN__JINJA_TEXT, "zfill", "width", m_zfill},
    {TN__JINJA_LIST, "count", "value", m_list_count},
    {TN__JINJA_LIST, "index", "value", m_list_index},
    {TN__JINJA_DICT, "copy", "", m_copy},
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

static int find_variadic(const value *self, const char *name)
{
    for (int i = 0; i < VARIADIC; i++)
        if (variadic[i].of == self->kind && strcmp(variadic[i].name, name) == 0)
            return i;
    return -1;
}

bool tn__jinja_has_method(const value *self, const char *name)
{
    return find_method(self, name) >= 0 || find_variadic(self, name) >= 0;
}

const value *tn__jinja_method(tn__jinja *j, const value *self, const char *name,
                              const tn__jinja_arguments *given)
{
    const value *a[TN__JINJA_MOST_ARGUMENTS];
    const int i = find_method(self, name);
    if (i < 0)
        return variadic[find_variadic(self, name)].call(j, self, name, given);
    tn__jinja_bind(j, name, methods[i].parameters, given, a);
    return methods[i].call(j, self, a);
}
