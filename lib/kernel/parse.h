/* parse.h: the parser's state, shared by what parses whole definitions
 * (def.c, math.c's files) and what parses expressions (parse.c). */
#ifndef TN_LIB_KERNEL_PARSE_H
#define TN_LIB_KERNEL_PARSE_H

#include <kernel/def.h>

typedef struct tn__binding {
    const char *name;
    uint32_t slot;
    int line, column;
    bool input, offset;
} tn__binding;

typedef struct tn__parser {
    tn__lexer lexer;
    tn__token token; /* the one looked at */
    tn__arena *arena;
    /* Looks up a function that is not built in, and its argument count. NULL:
     * unknown functions are errors when the call is typed, not here. */
    bool (*find_function)(const char *name, int *arg_count);
    bool used[TN__MAX_SLOTS];
    tn__binding binding[TN__MAX_SLOTS]; /* those in scope, in order */
    uint32_t binding_count, slot_count;
    int nesting, loops;
} tn__parser;

void tn__parser_init(tn__parser *parser, const char *text, const char *where,
                     tn__arena *arena);
/* The makers of nodes give NULL, the others false, with the error recorded. */
bool tn__parser_advance(tn__parser *parser);
/* "expected X, found Y" at the token looked at. */
bool tn__parser_expected(tn__parser *parser, const char *what);
bool tn__parser_take(tn__parser *parser, int kind, const char *what);
bool tn__parser_is_name(const tn__parser *parser, const char *name);
/* Takes a name and gives it the next slot; what: "an input's name". */
bool tn__parser_bind(tn__parser *parser, const char *what,
                     tn__binding **out_binding);
/* The binding of a name in scope, or NULL. */
tn__binding *tn__parser_find(tn__parser *parser, const char *name,
                             size_t length);
/* Whether the current token is a keyword or a constant of the language. */
bool tn__parser_is_reserved(const tn__parser *parser);
/* "where:line:column: ..." of a token or node; gives false. */
#define tn__parser_fail(parser, at, ...)                                       \
    tn__lexer_fail(&(parser)->lexer, (at)->line, (at)->column, __VA_ARGS__)

/* Nodes gathered before their count is known. */
typedef struct tn__nodes {
    tn__node **node; /* in the arena */
    uint32_t count, room;
} tn__nodes;

/* Refuses trees that are too deep. */
tn__node *tn__node_new(tn__parser *parser, enum tn__node_kind kind,
                       const tn__token *at, tn__node *const *kid,
                       uint32_t count);
/* False if node is NULL: where making it failed. */
bool tn__node_add(tn__parser *parser, tn__nodes *list, tn__node *node);
/* node, if it is one value; NULL is passed on. */
tn__node *tn__node_single(tn__parser *parser, tn__node *node);

tn__node *tn__parse_expr(tn__parser *parser);
/* {let ...;} (expr | "(" expr, expr ... ")") */
tn__node *tn__parse_body(tn__parser *parser);

#endif
