/* math_parse.c: parses the .def files of lib/kernel/math. They consist of
 * items: `fn` (a function), `def` (a definition that is inlined) and `d` (the
 * derivative of a function). */
#include <string.h>

#include <kernel/math/functions.h>
#include <kernel/parse.h>

static bool parse_type(tn__parser *parser, tn_dtype *type)
{
    static const struct {
        const char *name;
        tn_dtype type;
    } types[] = {{"f32", TN_F32},
                 {"f64", TN_F64},
                 {"i32", TN_I32},
                 {"i64", TN_I64},
                 {"bool", TN_BOOL}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (tn__parser_is_name(parser, types[i].name)) {
            *type = types[i].type;
            return tn__parser_advance(parser);
        }
    return tn__parser_expected(parser, "a type: f32, f64, i32, i64 or bool");
}

static bool fail_here(tn__parser *parser, const char *what)
{
    return tn__lexer_fail(&parser->lexer, parser->token.line,
                          parser->token.column, "%s", what);
}

static bool parse_args(tn__parser *parser, tn__math_item *item)
{
    if (!tn__parser_take(parser, '(', "'('"))
        return false;
    for (;;) {
        int most = item->kind == TN__MATH_DEF ? TN__MATH_MAX_ARGS : 3;
        if (item->arg_count == most)
            return fail_here(parser, "too many arguments");
        if (!tn__parser_bind(parser, "the name of an argument", NULL))
            return false;
        int i = item->arg_count++;
        if (parser->token.kind == ':' &&
            (!tn__parser_advance(parser) ||
             !parse_type(parser, &item->arg_type[i])))
            return false;
        if (parser->token.kind != ',')
            break;
        if (!tn__parser_advance(parser))
            return false;
    }
    if (item->kind == TN__MATH_D &&
        (!tn__parser_take(parser, ';', "';' and the result's name") ||
         !tn__parser_bind(parser, "the result's name", NULL)))
        return false;
    return tn__parser_take(parser, ')', "',' or ')'") &&
           tn__parser_take(parser, '=', "'='");
}

/* Parses what a `d` item says: the derivative with respect to each argument,
 * which is an expression or the word `none`. If the function has several
 * arguments, the derivatives are a list in parentheses. */
static bool parse_derivatives(tn__parser *parser, tn__math_item *item)
{
    tn__node **kid = tn__arena_take(parser->arena, 3 * sizeof(tn__node *));
    tn__node *list = tn__arena_take(parser->arena, sizeof *list);
    if (!kid || !list)
        return false;
    list->kind = TN__NODE_LIST;
    list->line = parser->token.line;
    list->column = parser->token.column;
    list->kid = kid;
    list->count = (uint32_t)item->arg_count;
    bool several = item->arg_count > 1;
    if (several && !tn__parser_take(parser, '(',
                                    "'(' and the derivative by "
                                    "each argument"))
        return false;
    for (int i = 0; i < item->arg_count; i++) {
        if (i && !tn__parser_take(parser, ',',
                                  "',' and the derivative by "
                                  "the next argument"))
            return false;
        if (tn__parser_is_name(parser, "none")) {
            kid[i] = tn__arena_take(parser->arena, sizeof *list);
            if (!kid[i] || !tn__parser_advance(parser))
                return false;
            item->none |= 1u << i;
        } else if (!(kid[i] = tn__parse_expr(parser))) {
            return false;
        } else if (tn__node_values(kid[i]) != 1) {
            return fail_here(parser, "expected one derivative");
        }
    }
    item->body = list;
    return !several || tn__parser_take(parser, ')', "')'");
}

static bool parse_item(tn__parser *parser, tn__math_item *item)
{
    parser->binding_count = parser->slot_count = 0;
    item->rare = tn__parser_is_name(parser, "rare");
    if (item->rare && !tn__parser_advance(parser))
        return false;
    if (item->rare && !tn__parser_is_name(parser, "fn"))
        return tn__parser_expected(parser, "fn");
    item->kind = tn__parser_is_name(parser, "fn")    ? TN__MATH_FN
                 : tn__parser_is_name(parser, "def") ? TN__MATH_DEF
                                                     : TN__MATH_D;
    if (item->kind == TN__MATH_D && !tn__parser_is_name(parser, "d"))
        return tn__parser_expected(parser, "fn, def or d");
    if (!tn__parser_advance(parser))
        return false;
    tn__token name = parser->token;
    item->line = name.line;
    item->column = name.column;
    if (!tn__parser_take(parser, TN__TOKEN_NAME, "a function's name") ||
        !(item->name = tn__arena_text(parser->arena, name.text, name.length)))
        return false;
    if (item->kind == TN__MATH_FN && parser->token.kind == '.' &&
        (!tn__parser_advance(parser) || !parse_type(parser, &item->type)))
        return false;
    if (!parse_args(parser, item))
        return false;
    if (item->kind == TN__MATH_D) {
        if (!parse_derivatives(parser, item))
            return false;
    } else if (!(item->body = tn__parse_expr(parser))) {
        return false;
    } else if (tn__node_values(item->body) != 1) {
        return fail_here(parser, "a function has one value");
    }
    item->slot_count = parser->slot_count;
    return true;
}

bool tn__math_parse(const char *text, const char *where, tn__arena *arena,
                    tn__math_item ***end)
{
    tn__parser parser;
    tn__parser_init(&parser, text, where, arena);
    if (!tn__parser_advance(&parser))
        return false;
    while (parser.token.kind != TN__TOKEN_END) {
        tn__math_item *item = tn__arena_take(arena, sizeof *item);
        if (!item)
            return false;
        item->where = where;
        if (!parse_item(&parser, item))
            return false;
        **end = item;
        *end = &item->next;
    }
    return true;
}
