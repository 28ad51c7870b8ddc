/* regex_parse.c: parses a pattern into a syntax tree. */
#include <lm/tokenizer/regex_parse.h>

#include <stdlib.h>
#include <string.h>

enum { MOST_REPEAT = 1000 };

static tn__regex_node *node_new(tn__regex_parser *p, tn__regex_kind kind)
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
static tn__regex_node *node_set(tn__regex_parser *p, tn__ranges *ranges)
{
    tn__regex_node *node = NULL;
    tn__ranges_sort(ranges);
    if (!ranges->failed && (node = node_new(p, TN__NODE_SET))) {
        tn__range *copy =
            tn__own_array(p->arena, ranges->count + 1, sizeof *copy);
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

/* ---- expressions --------------------------------------------------------- */

static tn__regex_node *parse_alternatives(tn__regex_parser *p);

static tn__regex_node *parse_assert(tn__regex_parser *p, tn__regex_op op,
                                    bool negative)
{
    tn__regex_node *node = node_new(p, TN__NODE_ASSERT);
    if (node) {
        node->op = (uint8_t)op;
        node->negative = negative;
    }
    return node;
}

/* Reads the options of (?imx-imx. Returns false if there is something else. */
static bool read_options(tn__regex_parser *p)
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
            return tn__regex_fail(p, "an option of (? is not i, m or x; others "
                                  "are not supported");
        }
    return tn__regex_fail(p, "a group needs a )");
}

/* Reads the group whose "(" has been read, up to its ")". */
static tn__regex_node *parse_group(tn__regex_parser *p)
{
    const bool ignore_case = p->ignore_case, dot_all = p->dot_all,
               extended = p->extended;
    tn__regex_node *outer = NULL;
    bool rest = false; /* (?i) applies to the rest of the enclosing group */
    if (++p->depth > TN__REGEX_MOST_DEPTH)
        return tn__regex_fail(p, "groups and classes are nested deeper than %d",
                              TN__REGEX_MOST_DEPTH);
    if (tn__regex_skip(p, "?#")) {
        while (p->at < p->bytes && p->text[p->at] != ')')
            p->at++;
        if (!tn__regex_skip(p, ")"))
            return tn__regex_fail(p, "a group needs a )");
        p->depth--;
        return node_new(p, TN__NODE_EMPTY);
    } else if (tn__regex_next(p, "?=") || tn__regex_next(p, "?!") ||
               tn__regex_next(p, "?<=") || tn__regex_next(p, "?<!")) {
        outer = node_new(p, TN__NODE_LOOK);
        if (!outer)
            return NULL;
        outer->behind = p->text[p->at + 1] == '<';
        p->at += outer->behind ? 3 : 2;
        outer->negative = p->text[p->at - 1] == '!';
    } else if (tn__regex_skip(p, "?>")) {
        outer = node_new(p, TN__NODE_ATOMIC);
        if (!outer)
            return NULL;
    } else if (tn__regex_next(p, "?<") ||
               tn__regex_next(p, "?P<")) { /* the group's name is
                                                           ignored */
        while (p->at < p->bytes && p->text[p->at] != '>')
            p->at++;
        p->at += p->at < p->bytes;
    } else if (tn__regex_skip(p, "?")) {
        if (!read_options(p))
            return NULL;
        rest = p->text[p->at] == ')';
        p->at += !rest;
    }
    tn__regex_node *inner;
    if (rest) {
        if (p->at == p->bytes)
            return tn__regex_fail(p, "a group needs a )");
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
    if (!tn__regex_skip(p, ")"))
        return tn__regex_fail(p, "a group needs a )");
    p->ignore_case = ignore_case;
    p->dot_all = dot_all;
    p->extended = extended;
    p->depth--;
    if (!outer)
        return inner;
    node_add(outer, inner);
    return outer;
}

static tn__regex_node *parse_atom(tn__regex_parser *p)
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
        if (!tn__regex_class(p, &set)) {
            tn__ranges_free(&set);
            return NULL;
        }
        return node_set(p, &set);
    case '*':
    case '+':
    case '?':
        p->at--;
        return tn__regex_fail(p, "%c has nothing to repeat", (char)c);
    case '\\':
        if (tn__regex_skip(p, "b"))
            return parse_assert(p, TN__REGEX_WORD_BOUNDARY, false);
        if (tn__regex_skip(p, "B"))
            return parse_assert(p, TN__REGEX_WORD_BOUNDARY, true);
        if (tn__regex_skip(p, "A"))
            return parse_assert(p, TN__REGEX_BEGIN, false);
        if (tn__regex_skip(p, "z"))
            return parse_assert(p, TN__REGEX_END, false);
        if (tn__regex_skip(p, "Z"))
            return parse_assert(p, TN__REGEX_LAST_LINE_END, false);
        c = tn__regex_escape(p, &set);
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

static bool read_count(tn__regex_parser *p, int32_t *out)
{
    const size_t begin = p->at;
    int32_t value = 0;
    while (p->at < p->bytes && p->text[p->at] >= '0' && p->text[p->at] <= '9') {
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
static int read_quantifier(tn__regex_parser *p, tn__regex_node *repeat)
{
    const size_t begin = p->at;
    bool braces = false;
    repeat->max = TN__REGEX_NO_LIMIT;
    if (tn__regex_skip(p, "*")) {
        repeat->min = 0;
    } else if (tn__regex_skip(p, "+")) {
        repeat->min = 1;
    } else if (tn__regex_skip(p, "?")) {
        repeat->min = 0;
        repeat->max = 1;
    } else if (tn__regex_skip(p, "{")) {
        braces = true;
        const bool low = read_count(p, &repeat->min);
        if (tn__regex_skip(p, ",")) {
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
        if (!tn__regex_skip(p, "}"))
            goto none;
        if (repeat->min > MOST_REPEAT ||
            (repeat->max != TN__REGEX_NO_LIMIT && repeat->max > MOST_REPEAT)) {
            tn__regex_fail(p, "a part repeats more than %d times", MOST_REPEAT);
            return -1;
        }
        if (repeat->max < repeat->min) {
            tn__regex_fail(p, "a repeat's minimum is above its maximum");
            return -1;
        }
    } else {
        return 0;
    }
    /* in Ruby, {n}? makes {n} optional, and {n,m}+ repeats {n,m} */
    const bool fixed = braces && repeat->min == repeat->max;
    if (!fixed && tn__regex_skip(p, "?"))
        repeat->mode = TN__REGEX_LAZY;
    else if (!braces && tn__regex_skip(p, "+"))
        repeat->mode = TN__REGEX_POSSESSIVE;
    return 1;
none:
    p->at = begin;
    return 0;
}

static void skip_extended(tn__regex_parser *p)
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

static tn__regex_node *parse_sequence(tn__regex_parser *p)
{
    tn__regex_node *sequence = node_new(p, TN__NODE_CAT);
    if (!sequence)
        return NULL;
    for (;;) {
        skip_extended(p);
        if (p->at == p->bytes || p->text[p->at] == '|' || p->text[p->at] == ')')
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
            if (n == TN__REGEX_MOST_DEPTH)
                return tn__regex_fail(p, "more than %d repeats of one part",
                                      TN__REGEX_MOST_DEPTH);
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

static tn__regex_node *parse_alternatives(tn__regex_parser *p)
{
    if (++p->depth > 2 * TN__REGEX_MOST_DEPTH)
        return tn__regex_fail(p, "groups and classes are nested deeper than %d",
                              TN__REGEX_MOST_DEPTH);
    tn__regex_node *first = parse_sequence(p), *all = first;
    if (first && tn__regex_next(p, "|")) {
        all = node_new(p, TN__NODE_ALT);
        if (!all)
            return NULL;
        node_add(all, first);
        while (tn__regex_skip(p, "|")) {
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
    tn__regex_parser p = {.arena = arena,
                          .text = (const unsigned char *)pattern,
                          .bytes = bytes,
                          .error = error,
                          .error_room = error_room};
    *error = '\0';
    for (size_t at = 0; at < bytes;) {
        if (tn__utf8_read(p.text, bytes, &at) < 0) {
            p.at = at;
            return tn__regex_fail(&p, "the pattern has bytes that are not "
                                  "UTF-8");
        }
    }
    tn__regex_node *root = parse_alternatives(&p);
    if (root && p.at < bytes)
        return tn__regex_fail(&p, "a ) has no matching (");
    return root;
}
