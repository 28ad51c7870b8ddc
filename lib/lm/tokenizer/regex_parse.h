/* regex_parse.h: the syntax tree of a pattern. regex_parse.c makes it, and
 * regex_compile.c compiles it to instructions. */
#ifndef TN_LIB_LM_TOKENIZER_REGEX_PARSE_H
#define TN_LIB_LM_TOKENIZER_REGEX_PARSE_H

#include <lm/tokenizer/regex.h>

typedef enum tn__regex_kind {
    TN__NODE_EMPTY,
    TN__NODE_SET,     /* a character in ranges */
    TN__NODE_CAT,     /* children, one after another */
    TN__NODE_ALT,     /* one of children */
    TN__NODE_REPEAT,  /* child, min to max times */
    TN__NODE_LOOK,    /* child before or after the position */
    TN__NODE_ATOMIC,
    TN__NODE_ASSERT   /* op: LINE_BEGIN ... WORD_BOUNDARY */
} tn__regex_kind;

typedef struct tn__regex_node {
    tn__regex_kind kind;
    uint8_t op, mode;
    bool negative, behind;
    int32_t min, max;
    const tn__range *range; /* sorted */
    size_t range_count;
    struct tn__regex_node *child, *last; /* first and last child */
    struct tn__regex_node *next;         /* next child of the same parent */
} tn__regex_node;

/* Parses a pattern. On failure returns NULL and writes a message to error,
 * except if memory ran out. */
tn__regex_node *tn__regex_parse(tn__own *arena, const char *pattern,
                                size_t bytes, char *error, size_t error_room);

/* ---- between the files of the parser ------------------------------------- */

enum { TN__REGEX_MOST_DEPTH = 100 }; /* of groups, and of classes */

/* A pattern and the position in it. */
typedef struct tn__regex_parser {
    tn__own *arena;
    const unsigned char *text;
    size_t bytes, at;
    char *error;
    size_t error_room;
    int depth;
    bool ignore_case, dot_all, extended; /* (?i) (?m) (?x) */
} tn__regex_parser;

/* Writes a message to p->error, unless there is one. Returns NULL. */
__attribute__((format(printf, 2, 3))) void *
tn__regex_fail(tn__regex_parser *p, const char *format, ...);
/* Returns whether `text` is next in the pattern. tn__regex_skip then moves
 * behind it. */
bool tn__regex_next(const tn__regex_parser *p, const char *text);
bool tn__regex_skip(tn__regex_parser *p, const char *text);
/* Reads the escape whose backslash has been read. Returns its character, or -1
 * after adding a class to *to, or -2 after a failure. */
int32_t tn__regex_escape(tn__regex_parser *p, tn__ranges *to);
/* Reads the class whose "[" is next. */
bool tn__regex_class(tn__regex_parser *p, tn__ranges *to);

/* Adds the characters with a Unicode property, whose name is written as in
 * \p{name}. Returns false if there is no such property. */
bool tn__regex_property(tn__ranges *to, const char *name, size_t bytes);

#endif
