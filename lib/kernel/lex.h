/* lex.h: splits text in the kernel language into tokens. */
#ifndef TN_LIB_KERNEL_LEX_H
#define TN_LIB_KERNEL_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/error.h>

/* The kind of a token that is not an operator. The kind of an operator is its
 * character, such as '+', or TN__PAIR of its two characters. */
enum {
    TN__TOKEN_END = 0x10000,
    TN__TOKEN_NAME,
    TN__TOKEN_INTEGER,
    TN__TOKEN_FLOAT,
    TN__TOKEN_BAD /* an invalid token; the error is recorded */
};
#define TN__PAIR(first, second) ((first) | (second) << 8)

typedef struct tn__token {
    int kind;
    const char *text; /* points into the source text */
    size_t length;
    int line, column; /* position in the text, from 1; columns count bytes */
    int64_t integer;
    double number; /* value of a TN__TOKEN_FLOAT */
} tn__token;

typedef struct tn__lexer {
    const char *where; /* names the source in messages */
    const char *next, *line_start;
    int line;
} tn__lexer;

void tn__lexer_init(tn__lexer *lexer, const char *text, const char *where);
tn__token tn__lexer_next(tn__lexer *lexer);

/* Records a TN_ERR_FORMAT with the message "where:line:column: ...". Returns
 * false. */
bool tn__lexer_fail(const tn__lexer *lexer, int line, int column,
                    const char *format, ...) TN__PRINTF(4, 5);
/* Formats the token for a message, as "'foo'" or "the end", and returns `out`,
 * which has `room` bytes. */
const char *tn__token_show(const tn__token *token, char *out, size_t room);

#endif
