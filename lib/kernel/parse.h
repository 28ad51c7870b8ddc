/* parse.h: the state of the parser of the kernel language, and the functions
 * that its files share. def.c and math/math_parse.c parse whole definitions,
 * parse.c parses expressions. */
#ifndef TN_LIB_KERNEL_PARSE_H
#define TN_LIB_KERNEL_PARSE_H

#include <kernel/def.h>

typedef struct tn__binding {
    const char *name;
    uint32_t slot;
    int line, column;
    bool input, offset;
    bool type; /* true for the name of a type parameter, whose index is in
                * `slot` */
} tn__binding;

typedef struct tn__parser {
    tn__lexer lexer;
    tn__token token; /* the current token */
    tn__arena *arena;
    /* Finds a function that is not built in, and sets *arg_count to its number
     * of arguments. If this pointer is NULL, an unknown function is reported
     * only when the call is typed. */
    bool (*find_function)(const char *name, int *arg_count);
    bool used[TN__MAX_SLOTS];
    tn__binding binding[TN__MAX_SLOTS]; /* names in scope, the oldest first */
    uint32_t binding_count, slot_count;
    int nesting, loops;
} tn__parser;

void tn__parser_init(tn__parser *parser, const char *text, const char *where,
                     tn__arena *arena);
/* On failure, all functions below record an error. Functions that return a node
 * then return NULL, and functions that return bool return false. */
bool tn__parser_advance(tn__parser *parser);
/* Records the error "expected X, found Y", where Y is the current token.
 * Returns false. */
bool tn__parser_expected(tn__parser *parser, const char *what);
bool tn__parser_take(tn__parser *parser, int kind, const char *what);
bool tn__parser_is_name(const tn__parser *parser, const char *name);
/* Parses a new name and gives it the next slot (index). `what` says in messages
 * what the name is, such as "the name of an input". */
bool tn__parser_bind(tn__parser *parser, const char *what,
                     tn__binding **out_binding);
/* Returns the innermost binding of a name that is in scope; NULL if there is
 * none. */
tn__binding *tn__parser_find(tn__parser *parser, const char *name,
                             size_t length);
/* Returns whether the current token is a keyword or a constant of the
 * language. */
bool tn__parser_is_reserved(const tn__parser *parser);
/* Records the error "where:line:column: ..." with the position of `at`, a token
 * or a node. Its value is false. */
#define tn__parser_fail(parser, at, ...)                                       \
    tn__lexer_fail(&(parser)->lexer, (at)->line, (at)->column, __VA_ARGS__)

/* A growing array of nodes. */
typedef struct tn__nodes {
    tn__node **node; /* the array, in the parser's arena */
    uint32_t count, room;
} tn__nodes;

/* Makes a node with `count` kids. Records an error and returns NULL if the tree
 * becomes too deep or memory runs out. */
tn__node *tn__node_new(tn__parser *parser, enum tn__node_kind kind,
                       const tn__token *at, tn__node *const *kid,
                       uint32_t count);
/* Appends a node to a list. Returns false if memory runs out, or if `node` is
 * NULL because it could not be made. */
bool tn__node_add(tn__parser *parser, tn__nodes *list, tn__node *node);
/* Checks that a node has exactly one value. Returns the node; records an error
 * and returns NULL if it has several. Returns NULL if `node` is NULL. */
tn__node *tn__node_single(tn__parser *parser, tn__node *node);

tn__node *tn__parse_expr(tn__parser *parser);
/* Parses {let ...;} (expr | "(" expr, expr ... ")"). */
tn__node *tn__parse_body(tn__parser *parser);

#endif
