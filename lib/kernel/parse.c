/* parse.c: parses expressions of the kernel language, by recursive descent with
 * precedence climbing.
 *
 * Names are looked up while parsing, so an unknown name is reported with its
 * position. The depth of nesting is limited, so all later passes over the tree
 * may recurse. */
#include <kernel/parse.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_KIDS 16

/* Parses expr {"," expr}. */
static bool parse_values(tn__parser *parser, tn__nodes *list)
{
    do {
        if (list->count == MAX_KIDS)
            return tn__parser_fail(parser, &parser->token,
                                   "at most %d values are allowed", MAX_KIDS);
        if (!tn__node_add(parser, list,
                          tn__node_single(parser, tn__parse_expr(parser))))
            return false;
        if (parser->token.kind != ',')
            break;
    } while (tn__parser_advance(parser));
    return parser->token.kind != TN__TOKEN_BAD;
}

/* Parses expr {"," expr} close. The opening bracket has been parsed already. */
static bool parse_list(tn__parser *parser, tn__nodes *list, int close,
                       const char *expected)
{
    return parse_values(parser, list) &&
           tn__parser_take(parser, close, expected);
}

/* ---- names, calls and loads -------------------------------------------- */

/* Parses dtype(x), a conversion to the dtype of a type parameter. */
static tn__node *parse_conversion(tn__parser *parser, const tn__token *name,
                                  const tn__binding *type)
{
    if (parser->token.kind != '(') {
        tn__parser_fail(parser, name, "'%s' is a type: write %s(x)", type->name,
                        type->name);
        return NULL;
    }
    const uint32_t number = type->slot;
    if (!tn__parser_advance(parser))
        return NULL;
    tn__node *kid = tn__node_single(parser, tn__parse_expr(parser));
    if (!kid || !tn__parser_take(parser, ')', "')'"))
        return NULL;
    tn__node *node = tn__node_new(parser, TN__NODE_CONVERT, name, &kid, 1);
    if (node)
        node->slot = number;
    return node;
}

static tn__node *parse_call(tn__parser *parser, const tn__token *name)
{
    char text[64] = {0};
    memcpy(text, name->text, name->length);
    tn__nodes args = {0};
    if (!tn__parser_advance(parser)) /* skip the "(" */
        return NULL;
    if (parser->token.kind == ')') {
        if (!tn__parser_advance(parser))
            return NULL;
    } else if (!parse_list(parser, &args, ')', "',' or ')'")) {
        return NULL;
    }
    int want = -1;
    if (tn__builtin_find(text, &want) == TN__BUILTIN_END &&
        parser->find_function && !parser->find_function(text, &want)) {
        if (tn__parser_find(parser, text, name->length))
            tn__parser_fail(parser, name, "'%s' is a value, not a function",
                            text);
        else
            tn__parser_fail(parser, name, "there is no function '%s'", text);
        return NULL;
    }
    if (want >= 0 && (int)args.count != want) {
        tn__parser_fail(parser, name, "%s takes %d argument%s, not %u", text,
                        want, want == 1 ? "" : "s", (unsigned)args.count);
        return NULL;
    }
    tn__node *node =
        tn__node_new(parser, TN__NODE_CALL, name, args.node, args.count);
    if (node &&
        !(node->name = tn__arena_text(parser->arena, name->text, name->length)))
        return NULL;
    return node;
}

static tn__node *parse_load(tn__parser *parser, const tn__token *name,
                            const tn__binding *binding)
{
    if (!binding->input || binding->offset) {
        tn__parser_fail(parser, name,
                        "only inputs can be indexed, and '%s' is not one",
                        binding->name);
        return NULL;
    }
    tn__nodes index = {0};
    if (!tn__parser_advance(parser) ||
        !parse_values(parser, &index))
        return NULL;
    if (index.count > 3) {
        tn__parser_fail(parser, index.node[3], "expected at most 3 indices");
        return NULL;
    }
    bool zero = parser->token.kind == ';';
    if (zero) {
        if (!tn__parser_advance(parser))
            return NULL;
        if (parser->token.kind != TN__TOKEN_INTEGER || parser->token.integer) {
            tn__parser_expected(parser, "0, the value of elements outside");
            return NULL;
        }
        if (!tn__parser_advance(parser))
            return NULL;
    }
    if (!tn__parser_take(parser, ']', zero ? "']'" : "',', ';' or ']'"))
        return NULL;
    tn__node *node =
        tn__node_new(parser, TN__NODE_LOAD, name, index.node, index.count);
    if (node) {
        node->slot = binding->slot;
        node->op = zero;
    }
    return node;
}

static tn__node *parse_constant(tn__parser *parser, const tn__token *at,
                                double number)
{
    tn__node *node = tn__node_new(parser, TN__NODE_FLOAT, at, NULL, 0);
    if (node)
        node->number = number;
    return node && tn__parser_advance(parser) ? node : NULL;
}

/* Writes the names in scope as ", only x, w and eps", as many as fit into
 * `out`. */
static const char *list_names(const tn__parser *parser, char *out, size_t room)
{
    size_t length = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < parser->binding_count; i++) {
        const char *before = i == 0                           ? ", only "
                             : i + 1 == parser->binding_count ? " and "
                                                              : ", ";
        int more = snprintf(out + length, room - length, "%s%s", before,
                            parser->binding[i].name);
        length += (size_t)more;
        if (length >= room - 1)
            break;
    }
    return out;
}

static tn__node *parse_name(tn__parser *parser)
{
    tn__token name = parser->token;
    if (tn__parser_is_name(parser, "inf"))
        return parse_constant(parser, &name, (double)INFINITY);
    if (tn__parser_is_name(parser, "nan"))
        return parse_constant(parser, &name, (double)NAN);
    if (tn__parser_is_name(parser, "pi"))
        return parse_constant(parser, &name, 3.14159265358979323846);
    if (tn__parser_is_reserved(parser)) {
        tn__parser_expected(parser, "a value");
        return NULL;
    }
    if (!tn__parser_advance(parser))
        return NULL;
    tn__binding *binding = tn__parser_find(parser, name.text, name.length);
    if (binding && binding->type)
        return parse_conversion(parser, &name, binding);
    if (parser->token.kind == '(')
        return parse_call(parser, &name);
    if (!binding) {
        char names[128];
        tn__parser_fail(parser, &name, "there is no '%.*s'%s", (int)name.length,
                        name.text, list_names(parser, names, sizeof names));
        return NULL;
    }
    parser->used[binding->slot] = true;
    if (parser->token.kind == '[')
        return parse_load(parser, &name, binding);
    tn__node *node = tn__node_new(parser, TN__NODE_NAME, &name, NULL, 0);
    if (node)
        node->slot = binding->slot;
    return node;
}

/* ---- let and loop ------------------------------------------------------ */

static bool parse_let(tn__parser *parser, tn__nodes *into)
{
    tn__token at = parser->token;
    if (!tn__parser_advance(parser))
        return false;
    /* A name is in scope only after its own expression. But its slot (index)
     * must be lower than the slots of names inside the expression. So the names
     * are bound first, and hidden while the expression is parsed. */
    bool list = parser->token.kind == '(';
    uint32_t first = parser->binding_count, slot = parser->slot_count;
    if (list && !tn__parser_advance(parser))
        return false;
    if (!tn__parser_bind(parser, "a name", NULL))
        return false;
    while (list && parser->token.kind == ',')
        if (!tn__parser_advance(parser) ||
            !tn__parser_bind(parser, "a name", NULL))
            return false;
    uint32_t count = parser->binding_count - first;
    if ((list && !tn__parser_take(parser, ')', "',' or ')'")) ||
        !tn__parser_take(parser, '=', "'='"))
        return false;
    tn__binding hidden[TN__KERNEL_MAX_OUTPUTS];
    if (count > TN__KERNEL_MAX_OUTPUTS)
        return tn__parser_fail(parser, &at, "a loop carries at most %d values",
                               TN__KERNEL_MAX_OUTPUTS);
    memcpy(hidden, &parser->binding[first], count * sizeof *hidden);
    parser->binding_count = first;
    tn__node *value = tn__parse_expr(parser);
    if (!value)
        return false;
    if (tn__node_values(value) != (int)count)
        return tn__parser_fail(parser, &at, "%u name%s for %d value%s",
                               (unsigned)count, count == 1 ? "" : "s",
                               tn__node_values(value),
                               tn__node_values(value) == 1 ? "" : "s");
    memcpy(&parser->binding[first], hidden, count * sizeof *hidden);
    parser->binding_count = first + count;
    if (!tn__parser_take(parser, ';', "';' after what let names"))
        return false;
    tn__node *node = tn__node_new(parser, TN__NODE_LET, &at, &value, 1);
    if (!node)
        return false;
    node->slot = slot;
    node->integer = count;
    return tn__node_add(parser, into, node);
}

static tn__node *parse_block(tn__parser *parser,
                             tn__node *(*parse_value)(tn__parser *))
{
    tn__token at = parser->token;
    uint32_t scope = parser->binding_count;
    tn__nodes list = {0};
    while (tn__parser_is_name(parser, "let"))
        if (!parse_let(parser, &list))
            return NULL;
    tn__node *value = parse_value(parser);
    parser->binding_count = scope;
    if (!list.count || !value)
        return value;
    return tn__node_add(parser, &list, value)
               ? tn__node_new(parser, TN__NODE_BLOCK, &at, list.node,
                              list.count)
               : NULL;
}

/* Parses {let} ["while" expr ":"] {let} "(" expr {"," expr} ")". */
static tn__node *parse_loop_body(tn__parser *parser, int64_t carried)
{
    tn__token at = parser->token;
    uint32_t scope = parser->binding_count;
    tn__nodes list = {0};
    bool seen_while = false;
    for (;;) {
        if (tn__parser_is_name(parser, "let")) {
            if (!parse_let(parser, &list))
                return NULL;
        } else if (!seen_while && tn__parser_is_name(parser, "while")) {
            tn__token while_at = parser->token;
            if (!tn__parser_advance(parser))
                return NULL;
            tn__node *kid = tn__node_single(parser, tn__parse_expr(parser));
            if (!kid ||
                !tn__parser_take(parser, ':', "':' after while's condition"))
                return NULL;
            kid = tn__node_new(parser, TN__NODE_WHILE, &while_at, &kid, 1);
            if (!tn__node_add(parser, &list, kid))
                return NULL;
            seen_while = true;
        } else {
            break;
        }
    }
    tn__nodes values = {0};
    tn__token values_at = parser->token;
    if (!tn__parser_take(parser, '(', "'(' before the new values of a loop") ||
        !parse_list(parser, &values, ')', "',' or ')'"))
        return NULL;
    if (values.count != (uint32_t)carried) {
        tn__parser_fail(parser, &values_at,
                        "the loop carries %d value%s, not %u", (int)carried,
                        carried == 1 ? "" : "s", (unsigned)values.count);
        return NULL;
    }
    parser->binding_count = scope;
    tn__node *value = tn__node_new(parser, TN__NODE_LIST, &values_at,
                                   values.node, values.count);
    return tn__node_add(parser, &list, value)
               ? tn__node_new(parser, TN__NODE_BLOCK, &at, list.node,
                              list.count)
               : NULL;
}

static tn__node *parse_loop(tn__parser *parser)
{
    tn__token at = parser->token;
    if (parser->loops == TN__MAX_LOOPS) {
        tn__parser_fail(parser, &at, "loops nest at most %d deep",
                        TN__MAX_LOOPS);
        return NULL;
    }
    uint32_t scope = parser->binding_count, slot = parser->slot_count;
    tn__nodes list = {0};
    tn__binding *index;
    if (!tn__parser_advance(parser) ||
        !tn__parser_take(parser, '(', "'(' after loop") ||
        !tn__parser_bind(parser, "the name of the loop's index", &index) ||
        !tn__parser_take(parser, '<', "'<' and the loop's bound"))
        return NULL;
    /* the names of the loop's variables are not in scope in the bound and in
     * the first values */
    tn__binding hidden[1 + TN__KERNEL_MAX_OUTPUTS] = {*index};
    parser->binding_count = scope;
    if (!tn__node_add(parser, &list,
                      tn__node_single(parser, tn__parse_expr(parser))) ||
        !tn__parser_take(parser, ';', "';' after the loop's bound"))
        return NULL;
    uint32_t carried = 0;
    for (;;) {
        if (carried == TN__KERNEL_MAX_OUTPUTS) {
            tn__parser_fail(parser, &parser->token,
                            "a loop carries at most %d "
                            "values",
                            TN__KERNEL_MAX_OUTPUTS);
            return NULL;
        }
        /* the names are in scope here only so that a duplicate is reported */
        memcpy(&parser->binding[scope], hidden, (1 + carried) * sizeof *hidden);
        parser->binding_count = scope + 1 + carried;
        tn__token carry_at = parser->token;
        tn__binding *carry;
        if (!tn__parser_bind(parser, "the name of a carried value", &carry) ||
            !tn__parser_take(parser, '=', "'=' and a first value"))
            return NULL;
        hidden[++carried] = *carry;
        parser->binding_count = scope;
        tn__node *first = tn__node_single(parser, tn__parse_expr(parser));
        if (!first)
            return NULL;
        tn__node *let =
            tn__node_new(parser, TN__NODE_LET, &carry_at, &first, 1);
        if (!tn__node_add(parser, &list, let))
            return NULL;
        let->slot = hidden[carried].slot;
        let->integer = 1;
        if (parser->token.kind != ',')
            break;
        if (!tn__parser_advance(parser))
            return NULL;
    }
    if (!tn__parser_take(parser, ')', "',' or ')'"))
        return NULL;
    memcpy(&parser->binding[scope], hidden, (1 + carried) * sizeof *hidden);
    parser->binding_count = scope + 1 + carried;
    parser->loops++;
    tn__node *body = parse_loop_body(parser, carried);
    parser->loops--;
    parser->binding_count = scope;
    if (!tn__node_add(parser, &list, body))
        return NULL;
    tn__node *node =
        tn__node_new(parser, TN__NODE_LOOP, &at, list.node, list.count);
    if (node) {
        node->slot = slot;
        node->integer = carried;
    }
    return node;
}

/* ---- operators --------------------------------------------------------- */

static tn__node *parse_primary(tn__parser *parser)
{
    tn__token at = parser->token;
    tn__node *node;
    switch (at.kind) {
    case TN__TOKEN_INTEGER:
        node = tn__node_new(parser, TN__NODE_INTEGER, &at, NULL, 0);
        if (!node)
            return NULL;
        node->integer = at.integer;
        return tn__parser_advance(parser) ? node : NULL;
    case TN__TOKEN_FLOAT:
        return parse_constant(parser, &at, at.number);
    case TN__TOKEN_NAME:
        return tn__parser_is_name(parser, "loop") ? parse_loop(parser)
                                                  : parse_name(parser);
    case '(':
        if (!tn__parser_advance(parser) || !(node = tn__parse_expr(parser)) ||
            !tn__parser_take(parser, ')', "')'"))
            return NULL;
        return node;
    case TN__TOKEN_BAD:
        return NULL;
    default:
        tn__parser_expected(parser, "a value");
        return NULL;
    }
}

static int precedence(int sign)
{
    switch (sign) {
    case '*':
    case '/':
    case '%':
        return 10;
    case '+':
    case '-':
        return 9;
    case TN__PAIR('<', '<'):
    case TN__PAIR('>', '>'):
        return 8;
    case '<':
    case '>':
    case TN__PAIR('<', '='):
    case TN__PAIR('>', '='):
        return 7;
    case TN__PAIR('=', '='):
    case TN__PAIR('!', '='):
        return 6;
    case '&':
        return 5;
    case '^':
        return 4;
    case '|':
        return 3;
    case TN__PAIR('&', '&'):
        return 2;
    case TN__PAIR('|', '|'):
        return 1;
    default:
        return 0;
    }
}

static bool enter(tn__parser *parser)
{
    if (++parser->nesting > TN__MAX_DEPTH)
        return tn__parser_fail(parser, &parser->token,
                               "nested deeper than %d levels",
                               TN__MAX_DEPTH);
    return true;
}

static tn__node *parse_unary(tn__parser *parser)
{
    tn__token at = parser->token;
    if (at.kind != '-' && at.kind != '!' && at.kind != '~')
        return parse_primary(parser);
    if (!enter(parser) || !tn__parser_advance(parser))
        return NULL;
    tn__node *kid = tn__node_single(parser, parse_unary(parser));
    parser->nesting--;
    if (!kid)
        return NULL;
    tn__node *node = tn__node_new(parser, TN__NODE_UNARY, &at, &kid, 1);
    if (node)
        node->op = at.kind;
    return node;
}

static tn__node *parse_binary(tn__parser *parser, int least)
{
    tn__node *left = parse_unary(parser);
    for (;;) {
        tn__token at = parser->token;
        int rank = left ? precedence(at.kind) : 0;
        if (!rank || rank < least)
            return left;
        if (!tn__node_single(parser, left) || !tn__parser_advance(parser))
            return NULL;
        tn__node *kid[2] = {
            left, tn__node_single(parser, parse_binary(parser, rank + 1))};
        if (!kid[1])
            return NULL;
        left = tn__node_new(parser, TN__NODE_BINARY, &at, kid, 2);
        if (left)
            left->op = at.kind;
    }
}

static tn__node *parse_operators(tn__parser *parser)
{
    return parse_binary(parser, 1);
}

tn__node *tn__parse_expr(tn__parser *parser)
{
    if (!enter(parser))
        return NULL;
    tn__node *node = parse_block(parser, parse_operators);
    parser->nesting--;
    return node;
}

/* Parses the value of a definition, which is an expression or a list. "(a, b)"
 * and "(a) * b" begin alike. So one expression is parsed first. If "," follows,
 * the value is a list; otherwise the lexer is set back to the start. */
static tn__node *parse_outputs(tn__parser *parser)
{
    if (parser->token.kind != '(')
        return tn__parse_expr(parser);
    tn__token at = parser->token;
    tn__lexer lexer = parser->lexer;
    uint32_t slots = parser->slot_count;
    tn__nodes values = {0};
    if (!tn__parser_advance(parser) ||
        !tn__node_add(parser, &values, tn__parse_expr(parser)))
        return NULL;
    if (parser->token.kind != ',') {
        parser->lexer = lexer;
        parser->token = at;
        parser->slot_count = slots;
        return tn__parse_expr(parser);
    }
    if (!tn__node_single(parser, values.node[0]) ||
        !tn__parser_advance(parser) ||
        !parse_list(parser, &values, ')', "',' or ')'"))
        return NULL;
    if (values.count > TN__KERNEL_MAX_OUTPUTS) {
        tn__parser_fail(parser, &at, "expected at most %d outputs",
                        TN__KERNEL_MAX_OUTPUTS);
        return NULL;
    }
    return tn__node_new(parser, TN__NODE_LIST, &at, values.node, values.count);
}

tn__node *tn__parse_body(tn__parser *parser)
{
    return parse_block(parser, parse_outputs);
}
