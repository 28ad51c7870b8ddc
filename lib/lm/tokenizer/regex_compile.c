/* regex_compile.c: compiles the syntax tree of a pattern to instructions. */
#include <lm/tokenizer/regex_parse.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits on the number of instructions and on the bytes of a pattern. While a
 * pattern is compiled, a class such as \p{L} takes about a thousand bytes of
 * memory for each of its characters in the pattern. */
enum { MOST_CODE = 20000, MOST_PATTERN = 32768 };

typedef struct set_entry {
    struct set_entry *next;
    const tn__range *range;
    size_t count;
    const tn__set *set;
} set_entry;

typedef struct compiler {
    tn__own *arena;  /* of the result */
    tn__own *tree;   /* memory that is freed after compiling */
    tn__regex *regex;
    size_t room;
    set_entry *sets;
    char *error;
    size_t error_room;
} compiler;

static bool fail(compiler *c, const char *why)
{
    if (!*c->error)
        snprintf(c->error, c->error_room, "%s", why);
    return false;
}

/* Appends an instruction. Returns its index, or UINT32_MAX on failure. */
static uint32_t emit(compiler *c, tn__regex_op op)
{
    tn__regex *r = c->regex;
    if (r->count == MOST_CODE) {
        fail(c, "the pattern is too large");
        return UINT32_MAX;
    }
    if (r->count == c->room) {
        const size_t room = c->room * 2 + 64;
        tn__regex_code *code = tn__own_array(c->arena, room, sizeof *code);
        if (!code)
            return UINT32_MAX;
        if (r->count)
            memcpy(code, r->code, r->count * sizeof *code);
        r->code = code;
        c->room = room;
    }
    r->code[r->count].op = (uint8_t)op;
    return r->count++;
}

/* Returns the set for the ranges of a node. Equal ranges share one set. */
static const tn__set *find_set(compiler *c, const tn__regex_node *node)
{
    for (const set_entry *s = c->sets; s; s = s->next)
        if (s->count == node->range_count &&
            memcmp(s->range, node->range, s->count * sizeof *s->range) == 0)
            return s->set;
    set_entry *entry = tn__own_take(c->tree, sizeof *entry);
    tn__ranges ranges = {0};
    for (size_t i = 0; i < node->range_count; i++)
        tn__ranges_add(&ranges, node->range[i].first, node->range[i].last);
    const tn__set *set = entry ? tn__set_new(c->arena, &ranges) : NULL;
    tn__ranges_free(&ranges);
    if (!set)
        return NULL;
    *entry = (set_entry){c->sets, node->range, node->range_count, set};
    c->sets = entry;
    return set;
}

/* Returns the number of characters that every match of the node has, or -1 if
 * it varies. */
static int64_t length_of(const tn__regex_node *node)
{
    int64_t length = 0;
    switch (node->kind) {
    case TN__NODE_SET:
        return 1;
    case TN__NODE_CAT:
    case TN__NODE_ATOMIC:
        for (const tn__regex_node *n = node->child; n; n = n->next) {
            const int64_t part = length_of(n);
            if (part < 0)
                return -1;
            length += part;
        }
        return length;
    case TN__NODE_ALT:
        length = length_of(node->child);
        for (const tn__regex_node *n = node->child; n; n = n->next)
            if (length_of(n) != length)
                return -1;
        return length;
    case TN__NODE_REPEAT:
        length = length_of(node->child);
        return node->min == node->max && length >= 0 ? length * node->min : -1;
    default:
        return 0;
    }
}

/* Returns whether the node can match the empty text. */
static bool is_nullable(const tn__regex_node *node)
{
    switch (node->kind) {
    case TN__NODE_SET:
        return false;
    case TN__NODE_CAT:
    case TN__NODE_ATOMIC:
        for (const tn__regex_node *n = node->child; n; n = n->next)
            if (!is_nullable(n))
                return false;
        return true;
    case TN__NODE_ALT:
        for (const tn__regex_node *n = node->child; n; n = n->next)
            if (is_nullable(n))
                return true;
        return false;
    case TN__NODE_REPEAT:
        return node->min == 0 || is_nullable(node->child);
    default:
        return true;
    }
}

static bool compile(compiler *c, const tn__regex_node *node);

static bool compile_alternatives(compiler *c, const tn__regex_node *node)
{
    uint32_t to_end = UINT32_MAX; /* jumps to the end of the alternatives,
                                     linked by their field `to` */
    for (const tn__regex_node *n = node->child; n; n = n->next) {
        if (!n->next) {
            if (!compile(c, n))
                return false;
            break;
        }
        const uint32_t split = emit(c, TN__REGEX_SPLIT);
        if (split == UINT32_MAX || !compile(c, n))
            return false;
        const uint32_t jump = emit(c, TN__REGEX_JUMP);
        if (jump == UINT32_MAX)
            return false;
        c->regex->code[jump].to = to_end;
        to_end = jump;
        c->regex->code[split].to = c->regex->count;
    }
    while (to_end != UINT32_MAX) {
        const uint32_t next = c->regex->code[to_end].to;
        c->regex->code[to_end].to = c->regex->count;
        to_end = next;
    }
    return true;
}

/* Compiles the body of a quantifier once, as optional or (with loop) as
 * repeated any number of times. */
static bool compile_choice(compiler *c, const tn__regex_node *node, bool loop,
                           uint32_t *to_end)
{
    const uint32_t split = emit(c, TN__REGEX_SPLIT);
    uint32_t jump = split;
    if (split == UINT32_MAX)
        return false;
    if (node->mode == TN__REGEX_LAZY) { /* lazy: tries to leave before it tries
                                           the body */
        jump = emit(c, TN__REGEX_JUMP);
        if (jump == UINT32_MAX)
            return false;
        c->regex->code[split].to = c->regex->count;
    }
    if (!compile(c, node->child))
        return false;
    if (loop) {
        const uint32_t back = emit(c, TN__REGEX_JUMP);
        if (back == UINT32_MAX)
            return false;
        c->regex->code[back].to = split;
    }
    c->regex->code[jump].to = *to_end;
    *to_end = jump;
    return true;
}

static bool compile_repeat(compiler *c, const tn__regex_node *node)
{
    const tn__regex_node *child = node->child;
    while (child->kind == TN__NODE_CAT && child->child && !child->child->next)
        child = child->child; /* the group has a single child */
    if (child->kind == TN__NODE_SET) {
        const uint32_t loop = emit(c, TN__REGEX_LOOP);
        if (loop == UINT32_MAX)
            return false;
        tn__regex_code *code = &c->regex->code[loop];
        code->mode = node->mode;
        code->min = node->min;
        code->max = node->max;
        return (code->set = find_set(c, child)) != NULL;
    }
    if (node->mode == TN__REGEX_POSSESSIVE) {
        const uint32_t atomic = emit(c, TN__REGEX_ATOMIC);
        tn__regex_node greedy = *node;
        greedy.mode = TN__REGEX_GREEDY;
        if (atomic == UINT32_MAX || !compile_repeat(c, &greedy) ||
            emit(c, TN__REGEX_ACCEPT) == UINT32_MAX)
            return false;
        c->regex->code[atomic].to = c->regex->count;
        return true;
    }
    if (node->max == TN__REGEX_NO_LIMIT && is_nullable(child))
        return fail(c, "a part that can match nothing is repeated without "
                    "limit");
    for (int32_t i = 0; i < node->min; i++)
        if (!compile(c, child))
            return false;
    uint32_t to_end = UINT32_MAX;
    if (node->max == TN__REGEX_NO_LIMIT) {
        if (!compile_choice(c, node, true, &to_end))
            return false;
    } else {
        for (int32_t i = node->min; i < node->max; i++)
            if (!compile_choice(c, node, false, &to_end))
                return false;
    }
    while (to_end != UINT32_MAX) {
        const uint32_t next = c->regex->code[to_end].to;
        c->regex->code[to_end].to = c->regex->count;
        to_end = next;
    }
    return true;
}

static bool compile_look(compiler *c, const tn__regex_node *node,
                         const tn__regex_node *body)
{
    const int64_t length = node->behind ? length_of(body) : 0;
    if (length < 0 || length > INT16_MAX)
        return fail(c, "a part of a lookbehind has no fixed length");
    const uint32_t look = emit(c, TN__REGEX_LOOK);
    if (look == UINT32_MAX || !compile(c, body) ||
        emit(c, TN__REGEX_ACCEPT) == UINT32_MAX)
        return false;
    c->regex->code[look].c = (int32_t)length;
    c->regex->code[look].negative = node->negative;
    c->regex->code[look].to = c->regex->count;
    return true;
}

/* Compiles a lookbehind. Alternatives of different lengths, as in (?<=a|bc),
 * become separate lookbehinds. */
static bool compile_behind(compiler *c, const tn__regex_node *node)
{
    const tn__regex_node *body = node->child;
    if (body->kind != TN__NODE_ALT || length_of(body) >= 0)
        return compile_look(c, node, body);
    if (node->negative) {
        for (const tn__regex_node *n = body->child; n; n = n->next)
            if (!compile_look(c, node, n))
                return false;
        return true;
    }
    tn__regex_node *all = tn__own_take(c->tree, sizeof *all);
    if (!all)
        return false;
    all->kind = TN__NODE_ALT;
    for (const tn__regex_node *n = body->child; n; n = n->next) {
        tn__regex_node *look = tn__own_take(c->tree, sizeof *look);
        tn__regex_node *copy = tn__own_take(c->tree, sizeof *copy);
        if (!look || !copy)
            return false;
        *copy = *n;
        copy->next = NULL;
        look->kind = TN__NODE_LOOK;
        look->behind = true;
        look->child = look->last = copy;
        if (all->last)
            all->last->next = look;
        else
            all->child = look;
        all->last = look;
    }
    return compile_alternatives(c, all);
}

static bool compile(compiler *c, const tn__regex_node *node)
{
    uint32_t at;
    switch (node->kind) {
    case TN__NODE_EMPTY:
        return true;
    case TN__NODE_SET: {
        const bool one = node->range_count == 1 &&
                         node->range[0].first == node->range[0].last;
        at = emit(c, one ? TN__REGEX_CHAR : TN__REGEX_SET);
        if (at == UINT32_MAX)
            return false;
        if (one) {
            c->regex->code[at].c = node->range[0].first;
            return true;
        }
        const tn__set *set = find_set(c, node);
        c->regex->code[at].set = set;
        return set != NULL;
    }
    case TN__NODE_CAT:
        for (const tn__regex_node *n = node->child; n; n = n->next)
            if (!compile(c, n))
                return false;
        return true;
    case TN__NODE_ALT:
        return compile_alternatives(c, node);
    case TN__NODE_REPEAT:
        return compile_repeat(c, node);
    case TN__NODE_LOOK:
        return node->behind ? compile_behind(c, node)
                            : compile_look(c, node, node->child);
    case TN__NODE_ATOMIC:
        at = emit(c, TN__REGEX_ATOMIC);
        if (at == UINT32_MAX || !compile(c, node->child) ||
            emit(c, TN__REGEX_ACCEPT) == UINT32_MAX)
            return false;
        c->regex->code[at].to = c->regex->count;
        return true;
    case TN__NODE_ASSERT:
        at = emit(c, (tn__regex_op)node->op);
        if (at == UINT32_MAX)
            return false;
        c->regex->code[at].negative = node->negative;
    }
    return true;
}

/* ---- the first byte ------------------------------------------------------ */

static void first_add(tn__regex *r, int32_t c)
{
    r->first[c >> 6] |= (uint64_t)1 << (c & 63);
}

static void first_add_set(tn__regex *r, const tn__set *set)
{
    r->first[0] |= set->bits[set->page[0]][0];
    r->first[1] |= set->bits[set->page[0]][1];
    r->first[3] = ~(uint64_t)0; /* all bytes of characters above ASCII */
}

/* Finds the bytes with which a match can begin. Sets first_known to false if a
 * match may be empty or if memory ran out. */
static void find_first(tn__regex *r)
{
    bool *seen = calloc(r->count, sizeof *seen);
    uint32_t *todo = malloc(r->count * sizeof *todo);
    uint32_t count = 0;
    const bool good = seen && todo;
    r->first_known = good;
    if (good) {
        todo[count++] = 0;
        seen[0] = true;
    }
    while (count) {
        const uint32_t pc = todo[--count];
        const tn__regex_code *code = &r->code[pc];
        uint32_t next[2], n = 0;
        switch (code->op) {
        case TN__REGEX_CHAR:
            if (code->c >= 0x80)
                r->first[3] = ~(uint64_t)0;
            else if (code->c >= 0)
                first_add(r, code->c);
            break;
        case TN__REGEX_SET:
            first_add_set(r, code->set);
            break;
        case TN__REGEX_LOOP:
            first_add_set(r, code->set);
            if (!code->min)
                next[n++] = pc + 1;
            break;
        case TN__REGEX_SPLIT:
            next[n++] = pc + 1;
            next[n++] = code->to;
            break;
        case TN__REGEX_JUMP:
        case TN__REGEX_LOOK:
            next[n++] = code->to;
            break;
        case TN__REGEX_ATOMIC: /* it can begin with its body or, if that may be
                                  empty, with what follows */
        case TN__REGEX_ACCEPT:
            r->first_known = false;
            break;
        default:
            next[n++] = pc + 1;
        }
        for (uint32_t i = 0; i < n; i++)
            if (!seen[next[i]]) {
                seen[next[i]] = true;
                todo[count++] = next[i];
            }
    }
    free(seen);
    free(todo);
}

const tn__regex *tn__regex_new(tn__own *arena, const char *pattern,
                               size_t bytes, char *error, size_t error_room)
{
    tn__own tree = {NULL};
    if (bytes > MOST_PATTERN) {
        snprintf(error, error_room, "it is longer than %d bytes",
                 (int)MOST_PATTERN);
        return NULL;
    }
    const tn__regex_node *root =
        tn__regex_parse(&tree, pattern, bytes, error, error_room);
    compiler c = {.arena = arena,
                  .tree = &tree,
                  .regex = tn__own_take(arena, sizeof *c.regex),
                  .error = error,
                  .error_room = error_room};
    const bool good = root && c.regex && compile(&c, root) &&
                      emit(&c, TN__REGEX_ACCEPT) != UINT32_MAX;
    const uint32_t fails = good ? emit(&c, TN__REGEX_CHAR) : UINT32_MAX;
    tn__own_free(&tree);
    if (fails == UINT32_MAX)
        return NULL;
    tn__regex *r = c.regex;
    r->code[fails].c = -1;
    bool word = false;
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->code[i].op == TN__REGEX_SPLIT ||
            r->code[i].op == TN__REGEX_LOOP)
            r->code[i].point = r->points++;
        word |= r->code[i].op == TN__REGEX_WORD_BOUNDARY;
    }
    if (word) {
        tn__ranges ranges = {0};
        tn__regex_property(&ranges, "word", 4);
        r->word = tn__set_new(arena, &ranges);
        tn__ranges_free(&ranges);
        if (!r->word)
            return NULL;
    }
    find_first(r);
    return r;
}
