/* parser.c: the parser's state: the current token and the names in scope. */
#include <kernel/parse.h>

#include <string.h>

void tn__parser_init(tn__parser *parser, const char *text, const char *where,
                     tn__arena *arena)
{
    memset(parser, 0, sizeof *parser);
    tn__lexer_init(&parser->lexer, text, where);
    parser->arena = arena;
}

bool tn__parser_advance(tn__parser *parser)
{
    parser->token = tn__lexer_next(&parser->lexer);
    return parser->token.kind != TN__TOKEN_BAD;
}

bool tn__parser_expected(tn__parser *parser, const char *what)
{
    char shown[80];
    return tn__parser_fail(parser, &parser->token, "expected %s, found %s",
                           what,
                           tn__token_show(&parser->token, shown, sizeof shown));
}

bool tn__parser_take(tn__parser *parser, int kind, const char *what)
{
    if (parser->token.kind != kind)
        return tn__parser_expected(parser, what);
    return tn__parser_advance(parser);
}

bool tn__parser_is_name(const tn__parser *parser, const char *name)
{
    return parser->token.kind == TN__TOKEN_NAME &&
           parser->token.length == strlen(name) &&
           !memcmp(parser->token.text, name, parser->token.length);
}

bool tn__parser_is_reserved(const tn__parser *parser)
{
    static const char *const words[] = {"let", "loop", "while",
                                        "inf", "nan",  "pi"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (tn__parser_is_name(parser, words[i]))
            return true;
    return false;
}

tn__binding *tn__parser_find(tn__parser *parser, const char *name,
                             size_t length)
{
    for (uint32_t i = 0; i < parser->binding_count; i++)
        if (strlen(parser->binding[i].name) == length &&
            !memcmp(parser->binding[i].name, name, length))
            return &parser->binding[i];
    return NULL;
}

bool tn__parser_bind(tn__parser *parser, const char *what,
                     tn__binding **out_binding)
{
    tn__token *token = &parser->token;
    if (token->kind != TN__TOKEN_NAME)
        return tn__parser_expected(parser, what);
    if (tn__parser_is_reserved(parser))
        return tn__parser_fail(parser, token, "'%.*s' is a reserved name",
                               (int)token->length, token->text);
    tn__binding *old = tn__parser_find(parser, token->text, token->length);
    if (old)
        return tn__parser_fail(parser, token, "'%s' is already named at %d:%d",
                               old->name, old->line, old->column);
    if (parser->slot_count == TN__MAX_SLOTS)
        return tn__parser_fail(parser, token, "at most %d names are allowed",
                               TN__MAX_SLOTS);
    tn__binding *binding = &parser->binding[parser->binding_count];
    *binding = (tn__binding){
        .name = tn__arena_text(parser->arena, token->text, token->length),
        .slot = parser->slot_count,
        .line = token->line,
        .column = token->column};
    if (!binding->name)
        return false;
    parser->binding_count++;
    parser->slot_count++;
    if (out_binding)
        *out_binding = binding;
    return tn__parser_advance(parser);
}
