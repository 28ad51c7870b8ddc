/* template_parse.h: declarations that the two parts of the parser share: the
 * position in the tokens, and the rules of expressions
 * (template_expressions.c), which statements (template_parse.c) contain. */
#ifndef TN_LIB_LM_TEMPLATE_TEMPLATE_PARSE_H
#define TN_LIB_LM_TEMPLATE_TEMPLATE_PARSE_H

#include <lm/template/template.h>

#include <string.h>

typedef struct tn__jinja_parser {
    tn__jinja *j;
    const tn__jinja_token *t; /* the current token */
    int loops;                /* number of loops around the current token */
    unsigned uses;            /* TN__JINJA_USES_... of the macro that is being
                                 read */
} tn__jinja_parser;

/* ---- tokens -------------------------------------------------------------- */

static inline tn__jinja_node *make(tn__jinja_parser *p,
                                   tn__jinja_node_kind kind, size_t at)
{
    tn__jinja_node *n = tn__jinja_allocate(p->j, 1, sizeof *n);
    n->kind = kind;
    n->at = at;
    n->name = "";
    return n;
}

static inline bool is_name(const tn__jinja_parser *p, const char *name)
{
    return p->t->kind == TN__JINJA_T_NAME && strcmp(p->t->text, name) == 0;
}

static inline bool is_operator(const tn__jinja_parser *p, const char *text)
{
    return p->t->kind == TN__JINJA_T_OPERATOR && strcmp(p->t->text, text) == 0;
}

static inline bool skip_name(tn__jinja_parser *p, const char *name)
{
    const bool is = is_name(p, name);
    p->t += is;
    return is;
}

static inline bool skip_operator(tn__jinja_parser *p, const char *text)
{
    const bool is = is_operator(p, text);
    p->t += is;
    return is;
}

__attribute__((noreturn)) static inline void unexpected(tn__jinja_parser *p,
                                                        const char *wanted)
{
    p->j->at = p->t->at;
    tn__jinja_fail(p->j, TN_ERR_FORMAT, "expected %s instead of %.60s", wanted,
                   p->t->text);
}

static inline void need_operator(tn__jinja_parser *p, const char *text)
{
    if (!skip_operator(p, text))
        unexpected(p, text);
}

static inline const char *need_name(tn__jinja_parser *p)
{
    if (p->t->kind != TN__JINJA_T_NAME)
        unexpected(p, "a name");
    return (p->t++)->text;
}

static inline void need_close(tn__jinja_parser *p)
{
    if (p->t->kind != TN__JINJA_T_CLOSE)
        unexpected(p, "the end of the block");
    p->t++;
}

static inline void enter(tn__jinja_parser *p)
{
    p->j->at = p->t->at;
    tn__jinja_enter(p->j);
}

/* ---- expressions --------------------------------------------------------- */

tn__jinja_node *tn__jinja_parse_expression(tn__jinja_parser *p);
/* Parses one expression, or several separated by commas, which form a tuple.
 * With `with_if`, each may be a conditional expression, "a if b else c". */
tn__jinja_node *tn__jinja_parse_tuple(tn__jinja_parser *p, bool with_if);
/* Parses the arguments of a call, beginning at the "(". The node `of` is the
 * function that is called. */
tn__jinja_node *tn__jinja_parse_call(tn__jinja_parser *p, tn__jinja_node *of);
/* Parses a filter, beginning after the "|": its name and its arguments. The
 * node `of` is the value that is filtered. */
tn__jinja_node *tn__jinja_parse_filter(tn__jinja_parser *p, tn__jinja_node *of);

#endif
