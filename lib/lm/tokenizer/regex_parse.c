/* regex_parse.c: parses a pattern into a syntax tree. */
#include <lm/tokenizer/regex_parse.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 100, MOST_REPEAT = 1000 };

typedef struct parser {
    tn__own *arena;
    const unsigned char *text;
    size_t bytes, at;
    char *error;
    size_t error_room;
    int depth;
    bool ignore_case, dot_all, extended; /* (?i) (?m) (?x) */
} parser;

__attribute__((format(printf, 2, 3))) static void *
fail(parser *p, const char *format, ...)
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

static tn__regex_node *node_new(parser *p, tn__regex_kind kind)
{
    tn__regex_node *node = tn__own_take(p->arena, sizeof *node);
    if (node)
        node->kind = kind;
    return node;
}

static void node_add(tn__regex_node *parent, tn__regex_node *child)
{
    if (parent->last)
        parent->last->next = child;
    else
        parent->child = child;
    parent->last = child;
}

/* Makes a node that matches a character of the ranges, and frees the ranges. */
static tn__regex_node *node_set(parser *p, tn__ranges *ranges)
{
    tn__regex_node *node = NULL;
    tn__ranges_sort(ranges);
    if (!ranges->failed && (node = node_new(p, TN__NODE_SET))) {
        tn__range *copy = tn__own_array(p->arena, ranges->count + 1,
                                          sizeof *copy);
        if (!copy) {
            node = NULL;
        } else {
            if (ranges->count)
                memcpy(copy, ranges->range, ranges->count * sizeof *copy);
            node->range = copy;
            node->range_count = ranges->count;
        }
    }
    tn__ranges_free(ranges);
    return node;
}

static bool is_next(const parser *p, const char *text)
{
    const size_t n = strlen(text);
    return p->bytes - p->at >= n && memcmp(p->text + p->at, text, n) == 0;
}

static bool skip(parser *p, const char *text)
{
    const bool found = is_next(p, text);
    if (found)
        p->at += strlen(text);
    return found;
}

/* ---- escapes and classes ------------------------------------------------- */

/* Reads 1 to `most` hexadecimal digits. Returns -1 if there is none, or the
 * character is beyond Unicode. */
static int32_t read_hex(parser *p, int most)
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
static bool read_property(parser *p, bool negative, tn__ranges *to)
{
    const unsigned char *name = p->text + p->at;
    size_t bytes = 1;
    if (p->at == p->bytes)
        return fail(p, "\\p needs the name of a property");
    if (skip(p, "{")) {
        name++;
        const unsigned char *end =
            memchr(name, '}', p->bytes - p->at);
        if (!end)
            return fail(p, "\\p{ needs a }");
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
        fail(p, "unknown property \\p{%.*s}",
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

/* Reads the escape whose backslash has been read. Returns its character, or -1
 * after adding a class to *to, or -2 after a failure. */
static int32_t read_escape(parser *p, tn__ranges *to)
{
    if (p->at == p->bytes) {
        fail(p, "the pattern ends in a backslash");
        return -2;
    }
    static const struct {
        char letter;
        const char *name;
        bool negative;
    } class[] = {{'d', "digit", false}, {'D', "digit", true},
                 {'s', "space", false}, {'S', "space", true},
                 {'w', "word", false},  {'W', "word", true},
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
        const bool braced = c == 'x' && skip(p, "{");
        const int32_t code = read_hex(p, braced ? 8 : c == 'x' ? 2 : 4);
        if (code < 0 || (braced && !skip(p, "}"))) {
            fail(p, "\\%c needs hexadecimal digits of a character", (char)c);
            return -2;
        }
        return code;
    }
    if (c == '0')
        return 0;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
        (c >= '1' && c <= '9')) {
        p->at = at;
        fail(p, "\\%c is not supported", (char)c);
        return -2;
    }
    return c;
}

static bool read_class(parser *p, tn__ranges *to);

/* Reads [:name:], whose "[:" is next, if it is one. */
static bool read_posix(parser *p, tn__ranges *to, bool *found)
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
        fail(p, "unknown class [:%.*s:]",
             end - name < 40 ? (int)(end - name) : 40, (const char *)name);
    p->at = (size_t)(end + 2 - p->text);
    return known;
}

/* Reads a member of a class: a character, a range, or a class. */
static bool read_member(parser *p, tn__ranges *to)
{
    bool posix = false;
    if (is_next(p, "[:") && (!read_posix(p, to, &posix) || posix))
        return posix && !*p->error;
    if (is_next(p, "["))
        return read_class(p, to);
    int32_t first = tn__utf8_take(p->text, &p->at);
    if (first == '\\') {
        if (is_next(p, "b")) { /* a backspace in a class */
            first = '\b';
            p->at++;
        } else if ((first = read_escape(p, to)) < 0) {
            return first == -1;
        }
    }
    int32_t last = first;
    if (p->at + 1 < p->bytes && p->text[p->at] == '-' &&
        p->text[p->at + 1] != ']' &&
        !(p->text[p->at + 1] == '[' || is_next(p, "-&&"))) {
        const size_t dash = p->at++;
        last = tn__utf8_take(p->text, &p->at);
        tn__ranges class = {0};
        if (last == '\\')
            last = read_escape(p, &class);
        tn__ranges_free(&class);
        if (last == -2)
            return false;
        if (last == -1) { /* [a-\d]: the dash is a member */
            last = first;
            p->at = dash;
            tn__ranges_add(to, '-', '-');
            p->at++;
        } else if (last < first) {
            fail(p, "a range of characters is in reverse order");
            return false;
        }
    }
    tn__ranges_add(to, first, last);
    return true;
}

/* Reads the class whose "[" is next. */
static bool read_class(parser *p, tn__ranges *to)
{
    if (++p->depth > MOST_DEPTH)
        return fail(p, "groups and classes are nested deeper than %d",
                    MOST_DEPTH);
    p->at++;
    const bool negative = skip(p, "^");
    tn__ranges all = {0}, part = {0};
    bool good = true, met = false;
    if (is_next(p, "]")) { /* literal at the beginning */
        p->at++;
        tn__ranges_add(&part, ']', ']');
    }
    for (;;) {
        const bool end = p->at == p->bytes || p->text[p->at] == ']';
        if (end || is_next(p, "&&")) {
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
        good = fail(p, "a class needs a ]");
    p->at++;
    if (negative)
        tn__ranges_negate(&all);
    tn__ranges_add_all(to, &all);
    tn__ranges_free(&all);
    tn__ranges_free(&part);
    p->depth--;
    return good;
}

/* ---- expressions --------------------------------------------------------- */

static tn__regex_node *parse_alternatives(parser *p);

static tn__regex_node *parse_assert(parser *p, tn__regex_op op, bool negative)
{
    tn__regex_node *node = node_new(p, TN__NODE_ASSERT);
    if (node) {
        node->op = (uint8_t)op;
        node->negative = negative;
    }
    return node;
}

/* Reads the options of (?imx-imx. Returns false if there is something else. */
static bool read_options(parser *p)
{
    bool on = true;
    for (; p->at < p->bytes; p->at++)
        switch (p->text[p->at]) {
        case 'i':
            p->ignore_case = on;
            break;
        case 'm':
            p->dot_all = on;
            break;
        case 'x':
            p->extended = on;
            break;
        case '-':
            on = false;
            break;
        case ':':
        case ')':
            return true;
        default:
            return fail(p, "an option of (? other than i, m and x");
        }
    return fail(p, "a group needs a )");
}

/* Reads the group whose "(" has been read, up to its ")". */
static tn__regex_node *parse_group(parser *p)
{
    const bool ignore_case = p->ignore_case, dot_all = p->dot_all,
               extended = p->extended;
    tn__regex_node *outer = NULL;
    bool rest = false; /* (?i) applies to the rest of the enclosing group */
    if (++p->depth > MOST_DEPTH)
        return fail(p, "groups and classes are nested deeper than %d",
                    MOST_DEPTH);
    if (skip(p, "?#")) {
        while (p->at < p->bytes && p->text[p->at] != ')')
            p->at++;
        if (!skip(p, ")"))
            return fail(p, "a group needs a )");
        p->depth--;
        return node_new(p, TN__NODE_EMPTY);
    } else if (is_next(p, "?=") || is_next(p, "?!") || is_next(p, "?<=") ||
               is_next(p, "?<!")) {
        outer = node_new(p, TN__NODE_LOOK);
        if (!outer)
            return NULL;
        outer->behind = p->text[p->at + 1] == '<';
        p->at += outer->behind ? 3 : 2;
        outer->negative = p->text[p->at - 1] == '!';
    } else if (skip(p, "?>")) {
        outer = node_new(p, TN__NODE_ATOMIC);
        if (!outer)
            return NULL;
    } else if (is_next(p, "?<") || is_next(p, "?P<")) { /* the group's name is
                                                           ignored */
        while (p->at < p->bytes && p->text[p->at] != '>')
            p->at++;
        p->at += p->at < p->bytes;
    } else if (skip(p, "?")) {
        if (!read_options(p))
            return NULL;
        rest = p->text[p->at] == ')';
        p->at += !rest;
    }
    tn__regex_node *inner;
    if (rest) {
        if (p->at == p->bytes)
            return fail(p, "a group needs a )");
        p->at++;
        p->depth--;
        /* The options apply to the rest of the enclosing group, so the rest
         * becomes the child of this node. */
        inner = parse_alternatives(p);
        p->ignore_case = ignore_case;
        p->dot_all = dot_all;
        p->extended = extended;
        return inner;
    }
    inner = parse_alternatives(p);
    if (!inner)
        return NULL;
    if (!skip(p, ")"))
        return fail(p, "a group needs a )");
    p->ignore_case = ignore_case;
    p->dot_all = dot_all;
    p->extended = extended;
    p->depth--;
    if (!outer)
        return inner;
    node_add(outer, inner);
    return outer;
}

static tn__regex_node *parse_atom(parser *p)
{
    tn__ranges set = {0};
    int32_t c = tn__utf8_take(p->text, &p->at);
    switch (c) {
    case '(':
        return parse_group(p);
    case '^':
        return parse_assert(p, TN__REGEX_LINE_BEGIN, false);
    case '$':
        return parse_assert(p, TN__REGEX_LINE_END, false);
    case '.':
        if (!p->dot_all)
            tn__ranges_add(&set, '\n', '\n');
        tn__ranges_negate(&set);
        return node_set(p, &set);
    case '[':
        p->at--;
        if (!read_class(p, &set)) {
            tn__ranges_free(&set);
            return NULL;
        }
        return node_set(p, &set);
    case '*':
    case '+':
    case '?':
        p->at--;
        return fail(p, "there is nothing that %c repeats", (char)c);
    case '\\':
        if (skip(p, "b"))
            return parse_assert(p, TN__REGEX_WORD_BOUNDARY, false);
        if (skip(p, "B"))
            return parse_assert(p, TN__REGEX_WORD_BOUNDARY, true);
        if (skip(p, "A"))
            return parse_assert(p, TN__REGEX_BEGIN, false);
        if (skip(p, "z"))
            return parse_assert(p, TN__REGEX_END, false);
        if (skip(p, "Z"))
            return parse_assert(p, TN__REGEX_LAST_LINE_END, false);
        c = read_escape(p, &set);
        if (c == -2) {
            tn__ranges_free(&set);
            return NULL;
        }
        if (c == -1) {
            return node_set(p, &set);
        }
        break;
    default:
        break;
    }
    tn__ranges_add(&set, c, c);
    if (p->ignore_case)
        tn__ranges_fold(&set);
    return node_set(p, &set);
}

static bool read_count(parser *p, int32_t *out)
{
    const size_t begin = p->at;
    int32_t value = 0;
    while (p->at < p->bytes && p->text[p->at] >= '0' &&
           p->text[p->at] <= '9') {
        if (value <= MOST_REPEAT)
            value = value * 10 + (p->text[p->at] - '0');
        p->at++;
    }
    *out = value;
    return p->at > begin;
}

/* Reads a quantifier. Returns 1 on success, 0 if there is none, or -1 after a
 * failure. As in Oniguruma, a "{" that does not begin a quantifier is a literal
 * character. */
static int read_quantifier(parser *p, tn__regex_node *repeat)
{
    const size_t begin = p->at;
    bool braces = false;
    repeat->max = TN__REGEX_NO_LIMIT;
    if (skip(p, "*")) {
        repeat->min = 0;
    } else if (skip(p, "+")) {
        repeat->min = 1;
    } else if (skip(p, "?")) {
        repeat->min = 0;
        repeat->max = 1;
    } else if (skip(p, "{")) {
        braces = true;
        const bool low = read_count(p, &repeat->min);
        if (skip(p, ",")) {
            const bool high = read_count(p, &repeat->max);
            if (!high)
                repeat->max = TN__REGEX_NO_LIMIT;
            if (!low && !high)
                goto none;
        } else if (low) {
            repeat->max = repeat->min;
        } else {
            goto none;
        }
        if (!skip(p, "}"))
            goto none;
        if (repeat->min > MOST_REPEAT ||
            (repeat->max != TN__REGEX_NO_LIMIT && repeat->max > MOST_REPEAT)) {
            fail(p, "a part repeats more than %d times", MOST_REPEAT);
            return -1;
        }
        if (repeat->max < repeat->min) {
            fail(p, "a repeat's minimum is above its maximum");
            return -1;
        }
    } else {
        return 0;
    }
    /* in Ruby, {n}? makes {n} optional, and {n,m}+ repeats {n,m} */
    const bool fixed = braces && repeat->min == repeat->max;
    if (!fixed && skip(p, "?"))
        repeat->mode = TN__REGEX_LAZY;
    else if (!braces && skip(p, "+"))
        repeat->mode = TN__REGEX_POSSESSIVE;
    return 1;
none:
    p->at = begin;
    return 0;
}

static void skip_extended(parser *p)
{
    while (p->extended && p->at < p->bytes) {
        if (strchr(" \t\n\r\f\v", p->text[p->at]) && p->text[p->at])
            p->at++;
        else if (p->text[p->at] == '#')
            while (p->at < p->bytes && p->text[p->at] != '\n')
                p->at++;
        else
            return;
    }
}

static tn__regex_node *parse_sequence(parser *p)
{
    tn__regex_node *sequence = node_new(p, TN__NODE_CAT);
    if (!sequence)
        return NULL;
    for (;;) {
        skip_extended(p);
        if (p->at == p->bytes || p->text[p->at] == '|' ||
            p->text[p->at] == ')')
            return sequence;
        tn__regex_node *item = parse_atom(p);
        if (!item)
            return NULL;
        for (int n = 0;; n++) {
            skip_extended(p);
            tn__regex_node repeat = {.kind = TN__NODE_REPEAT};
            const int found = read_quantifier(p, &repeat);
            if (found < 0)
                return NULL;
            if (!found)
                break;
            if (n == MOST_DEPTH)
                return fail(p, "more than %d repeats of one part", MOST_DEPTH);
            tn__regex_node *outer = node_new(p, TN__NODE_REPEAT);
            if (!outer)
                return NULL;
            *outer = repeat;
            node_add(outer, item);
            item = outer;
        }
        node_add(sequence, item);
    }
}

static tn__regex_node *parse_alternatives(parser *p)
{
    if (++p->depth > 2 * MOST_DEPTH)
        return fail(p, "groups and classes are nested deeper than %d",
                    MOST_DEPTH);
    tn__regex_node *first = parse_sequence(p), *all = first;
    if (first && is_next(p, "|")) {
        all = node_new(p, TN__NODE_ALT);
        if (!all)
            return NULL;
        node_add(all, first);
        while (skip(p, "|")) {
            tn__regex_node *next = parse_sequence(p);
            if (!next)
                return NULL;
            node_add(all, next);
        }
    }
    p->depth--;
    return all;
}

tn__regex_node *tn__regex_parse(tn__own *arena, const char *pattern,
                                size_t bytes, char *error, size_t error_room)
{
    parser p = {.arena = arena,
                .text = (const unsigned char *)pattern,
                .bytes = bytes,
                .error = error,
                .error_room = error_room};
    *error = '\0';
    for (size_t at = 0; at < bytes;) {
        if (tn__utf8_read(p.text, bytes, &at) < 0) {
            p.at = at;
            return fail(&p, "bytes that are not UTF-8");
        }
    }
    tn__regex_node *root = parse_alternatives(&p);
    if (root && p.at < bytes)
        return fail(&p, "a ) without a (");
    return root;
}
