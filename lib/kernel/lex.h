/* lex.h: the tokens of the kernel language. */
#ifndef TN_LIB_KERNEL_LEX_H
#define TN_LIB_KERNEL_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/error.h>

/* A token's kind is one of these, or the characters of an operator: '+' or
 * TN__PAIR('<', '<'). */
enum {
    TN__TOKEN_END = 0x10000,
    TN__TOKEN_NAME,
    TN__TOKEN_INTEGER,
    TN__TOKEN_FLOAT,
    TN__TOKEN_BAD /* an error is recorded */
};
#define TN__PAIR(first, second) ((first) | (second) << 8)

typedef struct tn__token {
    int kind;
    const char *text; /* points into the source text */
    size_t length;
    int line, column; /* from 1; columns count bytes */
    int64_t integer;
    double number; /* of FLOAT */
} tn__token;

typedef struct tn__lexer {
    const char *where; /* names the source in messages */
    const char *next, *line_start;
    int line;
} tn__lexer;

void tn__lexer_init(tn__lexer *lexer, const char *text, const char *where);
tn__token tn__lexer_next(tn__lexer *lexer);

/* "where:line:column: ..." with TN_ERR_FORMAT; returns false. */
bool tn__lexer_fail(const tn__lexer *lexer, int line, int column,
                    const char *format, ...) TN__PRINTF(4, 5);
/* Formats the token for a message: "'foo'" or "the end". out has `room`
 * bytes. */
const char *tn__token_show(const tn__token *token, char *out, size_t room);

#endif
