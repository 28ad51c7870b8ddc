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

/* Adds the characters with a Unicode property, whose name is written as in
 * \p{name}. Returns false if there is no such property. */
bool tn__regex_property(tn__ranges *to, const char *name, size_t bytes);

#endif
