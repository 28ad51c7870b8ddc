/* template_parts.c: methods of strings in chat templates that find, split, join
 * and pad parts of a string. They behave as in Python. */
#include <lm/template/template_methods.h>

#include <string.h>

typedef tn__jinja_value value;

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
        while ((n = tn__jinja_blank(self->text + at, self->bytes - at)))
            at += n;
        if (at == self->bytes)
            return list;
        if (most-- == 0) {
            tn__jinja_append(
                j, list,
                tn__jinja_strip(j,
                      tn__jinja_text_of(j, self->text + at, self->bytes - at),
                      NULL, false, true));
            return list;
        }
        for (begin = at; at < self->bytes && !tn__jinja_blank(self->text + at,
                                                    self->bytes - at);)
            at += tn__jinja_character_bytes(self->text + at, self->bytes - at);
        tn__jinja_append(j, list,
                         tn__jinja_text_of(j, self->text + begin, at - begin));
    }
}

static const value *m_split(tn__jinja *j, const value *self, const value **a)
{
    const value *by = tn__jinja_text_argument(j, a[0], "split");
    int64_t most = count_argument(j, a[1]);
    if (!by)
        return split_blanks(j, self, most);
    if (!by->bytes)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the separator of split is empty");
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
    const value *old = tn__jinja_text_argument(j, a[0], "replace");
    const value *new = tn__jinja_text_argument(j, a[1], "replace");
    int64_t most = count_argument(j, a[2]);
    tn__jinja_text text = {0};
    if (!old || !new)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the method replace needs two strings as arguments");
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
            const size_t n =
                tn__jinja_character_bytes(self->text + at, self->bytes - at);
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

/* Like Python's startswith and endswith, takes a string or a list of
 * strings. */
static const value *has_any_end(tn__jinja *j, const value *self,
                                const value *part, bool front)
{
    if (!part || part->kind != TN__JINJA_LIST) {
        const value *text =
            tn__jinja_text_argument(j, part, "startswith or endswith");
        if (!text)
            tn__jinja_fail(j, TN_ERR_ARGUMENT,
                           "%s needs a string or a list of strings as its "
                           "argument", front ? "startswith" : "endswith");
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
    part = tn__jinja_text_argument(j, part, "removeprefix or removesuffix");
    if (!part)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "%s needs a string as its argument",
                       front ? "removeprefix" : "removesuffix");
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
                               "splitlines supports only the line ends \\n and "
                               "\\r");
        tn__jinja_append(j, list,
                         tn__jinja_text_of(j, self->text + begin, at - begin));
        at += at + 1 < self->bytes && self->text[at] == '\r' &&
              self->text[at + 1] == '\n';
        at += at < self->bytes;
    }
    return list;
}

/* Returns how often a string occurs in another. */
static const value *m_count(tn__jinja *j, const value *self, const value **a)
{
    const value *part = tn__jinja_text_argument(j, a[0], "count");
    int64_t count = 0;
    if (!part || !part->bytes)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the argument of count is missing or empty; expected a "
                       "string of at least one character");
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
    part = tn__jinja_text_argument(j, part, name);
    if (!part)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the method %s needs a string as its argument", name);
    const int64_t at = place_in(j, self, part, *name == 'r');
    if (at < 0 && strstr(name, "index"))
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s does not find the string %.60s",
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
    by = tn__jinja_text_argument(j, by, "partition");
    if (!by || !by->bytes)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the separator of partition is missing or empty");
    const int64_t characters = place_in(j, self, by, from_right);
    size_t end = 0;
    for (int64_t i = 0; i < characters; i++)
        end += tn__jinja_character_bytes(self->text + end, self->bytes - end);
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

/* Splits at the last occurrences of a string first. */
static const value *m_rsplit(tn__jinja *j, const value *self, const value **a)
{
    int64_t most = count_argument(j, a[1]);
    if (!tn__jinja_text_argument(j, a[0], "rsplit"))
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
    const value *by = a[1] ? tn__jinja_text_argument(j, a[1], "a fill") : NULL;
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
        const value *item = tn__jinja_text_argument(j, list->item[i], "join");
        if (!item)
            tn__jinja_fail(j, TN_ERR_ARGUMENT,
                           "join needs strings, but an item is none");
        if (i)
            tn__jinja_add(j, &text, self->text, self->bytes);
        tn__jinja_add(j, &text, item->text, item->bytes);
    }
    return tn__jinja_text_end(j, &text);
}

/* ---- the table ----------------------------------------------------------- */

const tn__jinja_method_row tn__jinja_part_methods[] = {
    {TN__JINJA_TEXT, "center", "width fillchar", m_center},
    {TN__JINJA_TEXT, "count", "sub", m_count},
    {TN__JINJA_TEXT, "endswith", "suffix", m_endswith},
    {TN__JINJA_TEXT, "find", "sub", m_find},
    {TN__JINJA_TEXT, "index", "sub", m_index},
    {TN__JINJA_TEXT, "join", "iterable", m_join},
    {TN__JINJA_TEXT, "ljust", "width fillchar", m_ljust},
    {TN__JINJA_TEXT, "partition", "sep", m_partition},
    {TN__JINJA_TEXT, "removeprefix", "prefix", m_removeprefix},
    {TN__JINJA_TEXT, "removesuffix", "suffix", m_removesuffix},
    {TN__JINJA_TEXT, "replace", "old new count", m_replace},
    {TN__JINJA_TEXT, "rfind", "sub", m_rfind},
    {TN__JINJA_TEXT, "rindex", "sub", m_rindex},
    {TN__JINJA_TEXT, "rjust", "width fillchar", m_rjust},
    {TN__JINJA_TEXT, "rpartition", "sep", m_rpartition},
    {TN__JINJA_TEXT, "rsplit", "sep maxsplit", m_rsplit},
    {TN__JINJA_TEXT, "split", "sep maxsplit", m_split},
    {TN__JINJA_TEXT, "splitlines", "", m_splitlines},
    {TN__JINJA_TEXT, "startswith", "prefix", m_startswith},
    {TN__JINJA_TEXT, "zfill", "width", m_zfill},
    {0},
};
