/* lex.c: splits source in the kernel language into tokens. The source may
 * contain any bytes; an invalid token is an error with line and column. */
#include <base/plain.h>
#include <kernel/lex.h>

#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 63
#define MAX_NUMBER 63

void tn__lexer_init(tn__lexer *lexer, const char *text, const char *where)
{
    lexer->where = where;
    lexer->next = lexer->line_start = text;
    lexer->line = 1;
}

bool tn__lexer_fail(const tn__lexer *lexer, int line, int column,
                    const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    tn__plain_vprint(text, sizeof text, format, args);
    va_end(args);
    tn__fail(TN_ERR_FORMAT, "%s:%d:%d: %s", lexer->where, line, column, text);
    return false;
}

const char *tn__token_show(const tn__token *token, char *out, size_t room)
{
    if (token->kind == TN__TOKEN_END)
        snprintf(out, room, "the end");
    else
        snprintf(out, room, "'%.*s'", (int)token->length, token->text);
    return out;
}

/* The functions below do not depend on the locale, unlike isalpha() and
 * isdigit(). */
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static void fail_token(tn__lexer *lexer, tn__token *token, const char *format,
                       const char *text)
{
    tn__lexer_fail(lexer, token->line, token->column, format, text);
    token->kind = TN__TOKEN_BAD;
}

static const char *skip_exponent(const char *p, char lower)
{
    if ((*p | 0x20) != lower)
        return p;
    const char *digits = p + 1 + (p[1] == '+' || p[1] == '-');
    if (!is_digit(*digits))
        return p;
    while (is_digit(*digits))
        digits++;
    return digits;
}

static void read_number(tn__lexer *lexer, tn__token *token)
{
    const char *p = token->text;
    bool hex = p[0] == '0' && (p[1] | 0x20) == 'x' && is_hex(p[2]);
    bool (*digit)(char) = hex ? is_hex : is_digit;
    if (hex)
        p += 2;
    while (digit(*p))
        p++;
    const char *whole_end = p;
    if (*p == '.' && digit(p[1]))
        for (p++; digit(*p); p++)
            ;
    p = skip_exponent(p, hex ? 'p' : 'e');
    token->length = (size_t)(p - token->text);
    lexer->next = p;

    char digits[MAX_NUMBER + 1];
    if (is_name_start(*p) || is_digit(*p) || token->length > MAX_NUMBER) {
        size_t length = token->length + 1;
        snprintf(digits, sizeof digits, "%.*s",
                 (int)(length > 30 ? 30 : length), token->text);
        fail_token(lexer, token, "'%s' is not a number", digits);
        return;
    }
    memcpy(digits, token->text, token->length);
    digits[token->length] = '\0';
    if (p != whole_end) {
        token->kind = TN__TOKEN_FLOAT;
        token->number = tn__read_double(digits, NULL);
        return;
    }
    token->kind = TN__TOKEN_INTEGER;
    errno = 0;
    /* A hexadecimal literal gives the bits: 0xffffffffffffffff is -1. */
    token->integer =
        hex ? (int64_t)strtoull(digits, NULL, 16) : strtoll(digits, NULL, 10);
    if (errno)
        fail_token(lexer, token, "%s does not fit in 64 bits", digits);
}

static bool is_pair(const char *p)
{
    static const char pairs[][3] = {
        "<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (p[0] == pairs[i][0] && p[1] == pairs[i][1])
            return true;
    return false;
}

tn__token tn__lexer_next(tn__lexer *lexer)
{
    const char *p = lexer->next;
    for (;; p++) {
        if (*p == '#')
            while (*p && *p != '\n')
                p++;
        if (*p == '\n') {
            lexer->line++;
            lexer->line_start = p + 1;
        } else if (*p != ' ' && *p != '\t' && *p != '\r') {
            break;
        }
    }
    tn__token token = {.text = p,
                       .length = 1,
                       .line = lexer->line,
                       .column = (int)(p - lexer->line_start) + 1};
    lexer->next = p + 1;
    if (!*p) {
        token.kind = TN__TOKEN_END;
        token.length = 0;
        lexer->next = p;
    } else if (is_name_start(*p)) {
        while (is_name_start(*p) || is_digit(*p))
            p++;
        token.kind = TN__TOKEN_NAME;
        token.length = (size_t)(p - token.text);
        lexer->next = p;
        if (token.length > MAX_NAME)
            fail_token(lexer, &token, "a name has at most 63 characters%s", "");
    } else if (is_digit(*p)) {
        read_number(lexer, &token);
    } else if (is_pair(p)) {
        token.kind = TN__PAIR(p[0], p[1]);
        token.length = 2;
        lexer->next = p + 2;
    } else if (strchr("+-*/%<>&^|!~()[]{},;:=.", *p)) {
        token.kind = *p;
    } else {
        char shown[16];
        bool print = *p > ' ' && *p < 0x7f;
        snprintf(shown, sizeof shown, print ? "'%c'" : "byte 0x%02x",
                 (unsigned char)*p);
        fail_token(lexer, &token, "%s has no meaning here", shown);
    }
    return token;
}
