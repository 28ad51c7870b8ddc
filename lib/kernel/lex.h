/* lex.h: splits source in the kernel language into tokens. */
#ifndef TN_LIB_KERNEL_LEX_H
#define TN_LIB_KERNEL_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/error.h>

/* Kinds of tokens that are not operators. The kind of an operator is its
 * character, such as '+', or TN__PAIR of its two characters, such as '<' and
 * '='. */
enum {
    TN__TOKEN_END = 0x10000,
    TN__TOKEN_NAME,
    TN__TOKEN_INTEGER,
    TN__TOKEN_FLOAT,
    TN__TOKEN_BAD /* an invalid token, for which an error is recorded */
};
#define TN__PAIR(first, second) ((first) | (second) << 8)

typedef struct tn__token {
    int kind;
    const char *text; /* start of the token in the source */
    size_t length;
    int line, column; /* position in the source, both counted from 1; a column
                       * is a byte */
    int64_t integer;
    double number; /* value of the token, if it is a TN__TOKEN_FLOAT */
} tn__token;

typedef struct tn__lexer {
    const char *where; /* name of the source in error messages */
    const char *next, *line_start;
    int line;
} tn__lexer;

void tn__lexer_init(tn__lexer *lexer, const char *text, const char *where);
tn__token tn__lexer_next(tn__lexer *lexer);

/* Records the error TN_ERR_FORMAT with the message "where:line:column: ...".
 * Returns false. */
bool tn__lexer_fail(const tn__lexer *lexer, int line, int column,
                    const char *format, ...) TN__PRINTF(4, 5);
/* Writes a token as it appears in messages, "'foo'" or "the end", to `out`,
 * which has `room` bytes. Returns `out`. */
const char *tn__token_show(const tn__token *token, char *out, size_t room);

#endif
