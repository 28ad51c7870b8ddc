/* parse.h: parses the kernel language. This file has the parser's state and the
 * functions that several files use. def.c and math/math_parse.c parse whole
 * definitions, parse.c expressions. */
#ifndef TN_LIB_KERNEL_PARSE_H
#define TN_LIB_KERNEL_PARSE_H

#include <kernel/def.h>

typedef struct tn__binding {
    const char *name;
    uint32_t slot;
    int line, column;
    bool input, offset;
    bool type; /* the name of a type parameter; slot is its number */
} tn__binding;

typedef struct tn__parser {
    tn__lexer lexer;
    tn__token token; /* the current token */
    tn__arena *arena;
    /* Looks up a function that is not built in, and sets its number of
     * arguments. If this pointer is NULL, an unknown function is reported when
     * the call is typed. */
    bool (*find_function)(const char *name, int *arg_count);
    bool used[TN__MAX_SLOTS];
    tn__binding binding[TN__MAX_SLOTS]; /* names in scope, oldest first */
    uint32_t binding_count, slot_count;
    int nesting, loops;
} tn__parser;

void tn__parser_init(tn__parser *parser, const char *text, const char *where,
                     tn__arena *arena);
/* The functions from here on record an error on failure. Those that make nodes
 * return NULL on failure, the others false. */
bool tn__parser_advance(tn__parser *parser);
/* Records the error "expected X, found Y", where Y is the current token.
 * Returns false. */
bool tn__parser_expected(tn__parser *parser, const char *what);
bool tn__parser_take(tn__parser *parser, int kind, const char *what);
bool tn__parser_is_name(const tn__parser *parser, const char *name);
/* Reads a new name and assigns it the next slot. `what` describes the name in
 * messages: "the name of an input". */
bool tn__parser_bind(tn__parser *parser, const char *what,
                     tn__binding **out_binding);
/* Returns the innermost binding of a name in scope; NULL if there is none. */
tn__binding *tn__parser_find(tn__parser *parser, const char *name,
                             size_t length);
/* Whether the current token is a keyword or a constant of the language. */
bool tn__parser_is_reserved(const tn__parser *parser);
/* Records the error "where:line:column: ..." with the position of a token or
 * node. The value is false. */
#define tn__parser_fail(parser, at, ...)                                       \
    tn__lexer_fail(&(parser)->lexer, (at)->line, (at)->column, __VA_ARGS__)

/* A list of nodes of unknown length. */
typedef struct tn__nodes {
    tn__node **node; /* array in the arena */
    uint32_t count, room;
} tn__nodes;

/* Makes a node with `count` kids. Returns NULL with the error recorded if the
 * tree becomes too deep or memory runs out. */
tn__node *tn__node_new(tn__parser *parser, enum tn__node_kind kind,
                       const tn__token *at, tn__node *const *kid,
                       uint32_t count);
/* Appends a node to a list. Returns false if node is NULL (since making the
 * node failed) or memory runs out. */
bool tn__node_add(tn__parser *parser, tn__nodes *list, tn__node *node);
/* Checks that a node has one value. Returns the node, or NULL with the error
 * recorded. node may be NULL. */
tn__node *tn__node_single(tn__parser *parser, tn__node *node);

tn__node *tn__parse_expr(tn__parser *parser);
/* Parses {let ...;} (expr | "(" expr, expr ... ")"). */
tn__node *tn__parse_body(tn__parser *parser);

#endif
