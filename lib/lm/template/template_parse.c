/* template_parse.c: statements of chat templates: makes a tree from tokens, by
 * the grammar of Jinja 2.
 *
 * Statements, filters and tests of Jinja that Tenon does not have are errors.
 * The message has the name and the position. */
#include <lm/template/template_parse.h>

typedef tn__jinja_parser parser;
typedef tn__jinja_node node;

static node *statements(parser *p, const char *const *ends);

/* Reads names with commas, up to "in" or "=". */
static node *targets(parser *p)
{
    node *first = NULL, **last = &first;
    const bool bracket = skip_operator(p, "(");
    do {
        if (first && p->t->kind != TN__JINJA_T_NAME)
            break;
        node *n = make(p, TN__JINJA_NAME, p->t->at);
        n->name = need_name(p);
        *last = n;
        last = &n->next;
    } while (skip_operator(p, ","));
    if (bracket)
        need_operator(p, ")");
    return first;
}

static void end_with(parser *p, const char *name)
{
    if (!skip_name(p, name))
        unexpected(p, name);
    need_close(p);
}

static node *body(parser *p, const char *const *ends)
{
    need_close(p);
    return statements(p, ends);
}

static node *parse_for(parser *p, size_t at)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    node *n = make(p, TN__JINJA_FOR, at);
    n->d = targets(p);
    if (!skip_name(p, "in"))
        unexpected(p, "in");
    n->a = tn__jinja_parse_tuple(p, false);
    if (skip_name(p, "if"))
        n->c = tn__jinja_parse_expression(p);
    if (is_name(p, "recursive"))
        n->name = (p->t++)->text;
    p->loops++;
    n->b = body(p, ends);
    p->loops--;
    if (skip_name(p, "else"))
        n->e = body(p, ends + 1);
    end_with(p, "endfor");
    return n;
}

static node *parse_if(parser *p, size_t at)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    node *first = make(p, TN__JINJA_IF, at), *n = first;
    for (;;) {
        n->a = tn__jinja_parse_tuple(p, true);
        n->b = body(p, ends);
        if (!is_name(p, "elif"))
            break;
        n->c = make(p, TN__JINJA_IF, (p->t++)->at);
        n = n->c;
    }
    if (skip_name(p, "else")) {
        n->c = make(p, TN__JINJA_BODY, p->t->at);
        n->c->a = body(p, ends + 2);
    }
    end_with(p, "endif");
    return first;
}

static node *parse_set(parser *p, size_t at)
{
    static const char *const ends[] = {"endset", NULL};
    node *n = make(p, TN__JINJA_SET, at);
    n->d = targets(p);
    if (!n->d->next && skip_operator(p, "."))
        n->name = need_name(p);
    if (skip_operator(p, "=")) {
        n->a = tn__jinja_parse_tuple(p, true);
        need_close(p);
        return n;
    }
    if (n->d->next)
        unexpected(p, "=");
    n->kind = TN__JINJA_SET_BLOCK;
    n->a = make(p, TN__JINJA_CONSTANT, at); /* replaced by the text of the
                                               block */
    n->c = n->a;
    while (skip_operator(p, "|"))
        n->a = tn__jinja_parse_filter(p, n->a);
    n->b = body(p, ends);
    end_with(p, "endset");
    return n;
}

static node *parse_filter(parser *p, size_t at)
{
    static const char *const ends[] = {"endfilter", NULL};
    node *n = make(p, TN__JINJA_FILTERED, at);
    n->c = make(p, TN__JINJA_CONSTANT, at); /* replaced by the text of the
                                               block */
    n->a = tn__jinja_parse_filter(p, n->c);
    while (skip_operator(p, "|"))
        n->a = tn__jinja_parse_filter(p, n->a);
    n->b = body(p, ends);
    end_with(p, "endfilter");
    return n;
}

static node *parse_with(parser *p, size_t at)
{
    static const char *const ends[] = {"endwith", NULL};
    node *n = make(p, TN__JINJA_WITH, at), **last = &n->d;
    while (p->t->kind != TN__JINJA_T_CLOSE) {
        if (n->d)
            need_operator(p, ",");
        node *one = make(p, TN__JINJA_NAME, p->t->at);
        one->name = need_name(p);
        need_operator(p, "=");
        one->a = tn__jinja_parse_expression(p);
        *last = one;
        last = &one->next;
    }
    n->b = body(p, ends);
    end_with(p, "endwith");
    return n;
}

/* Reads the parameters of a macro after "(". */
static void parameters(parser *p, node *macro)
{
    node **last = &macro->d;
    int count = 0;
    while (!skip_operator(p, ")")) {
        if (macro->d)
            need_operator(p, ",");
        node *parameter = make(p, TN__JINJA_NAME, p->t->at);
        parameter->name = need_name(p);
        if (skip_operator(p, "="))
            parameter->a = tn__jinja_parse_expression(p);
        if (++count > TN__JINJA_MOST_ARGUMENTS)
            tn__jinja_fail(p->j, TN_ERR_UNSUPPORTED, "more than %d parameters",
                           TN__JINJA_MOST_ARGUMENTS);
        *last = parameter;
        last = &parameter->next;
    }
}

/* Reads the body of a macro. It saves the parser's loops and uses: a macro in a
 * loop cannot break it, and has its own special names. */
static void macro_body(parser *p, node *macro, const char *const *ends)
{
    const int loops = p->loops;
    const unsigned uses = p->uses;
    p->loops = 0;
    p->uses = 0;
    macro->b = body(p, ends);
    macro->uses = p->uses;
    p->loops = loops;
    p->uses = uses;
    end_with(p, *ends);
}

static node *parse_macro(parser *p, size_t at)
{
    static const char *const ends[] = {"endmacro", NULL};
    node *n = make(p, TN__JINJA_MACRO_AT, at);
    n->name = need_name(p);
    need_operator(p, "(");
    parameters(p, n);
    macro_body(p, n, ends);
    return n;
}

/* {% call(a, b) macro(c) %}: the macro calls the body as caller(a, b). */
static node *parse_call(parser *p, size_t at)
{
    static const char *const ends[] = {"endcall", NULL};
    node *n = make(p, TN__JINJA_CALLER, at);
    n->c = make(p, TN__JINJA_MACRO_AT, at);
    n->c->name = "caller";
    if (skip_operator(p, "("))
        parameters(p, n->c);
    n->a = tn__jinja_parse_expression(p);
    if (n->a->kind != TN__JINJA_CALL)
        unexpected(p, "a call");
    macro_body(p, n->c, ends);
    return n;
}

/* {% generation %} marks the text on which transformers trains. It has no
 * effect here. */
static node *parse_generation(parser *p, size_t at)
{
    static const char *const ends[] = {"endgeneration", NULL};
    node *n = make(p, TN__JINJA_BODY, at);
    n->a = body(p, ends);
    end_with(p, "endgeneration");
    return n;
}

static node *statement(parser *p)
{
    const size_t at = p->t->at;
    const char *name = need_name(p);
    node *n;
    static const struct {
        const char *name;
        node *(*parse)(parser *p, size_t at);
    } known[] = {{"for", parse_for},       {"if", parse_if},
                 {"set", parse_set},       {"macro", parse_macro},
                 {"call", parse_call},     {"filter", parse_filter},
                 {"with", parse_with},     {"generation", parse_generation}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].parse(p, at);
    const bool stops = strcmp(name, "break") == 0;
    if (stops || strcmp(name, "continue") == 0) {
        p->j->at = at;
        if (!p->loops)
            tn__jinja_fail(p->j, TN_ERR_FORMAT, "%s outside of a loop", name);
        n = make(p, stops ? TN__JINJA_BREAK : TN__JINJA_CONTINUE, at);
        need_close(p);
        return n;
    }
    p->j->at = at;
    tn__jinja_fail(p->j, TN_ERR_UNSUPPORTED,
                   "the statement %.60s is not supported, or has no beginning",
                   name);
}

/* Reads statements up to a block that begins with one of the names in `ends`.
 * It reads the "{%" of this block. Without names, reads to the end of the
 * template. */
static node *statements(parser *p, const char *const *ends)
{
    node *first = NULL, **last = &first;
    enter(p);
    for (;;) {
        node *n = NULL;
        const tn__jinja_token *t = p->t++;
        if (t->kind == TN__JINJA_T_DATA) {
            n = make(p, TN__JINJA_DATA, t->at);
            n->value = t->value;
        } else if (t->kind == TN__JINJA_T_PRINT) {
            n = make(p, TN__JINJA_PRINT, t->at);
            n->a = tn__jinja_parse_tuple(p, true);
            need_close(p);
        } else if (t->kind == TN__JINJA_T_BLOCK) {
            for (int i = 0; ends && ends[i]; i++)
                if (is_name(p, ends[i])) {
                    tn__jinja_leave(p->j);
                    return first;
                }
            n = statement(p);
        } else {
            p->t = t;
            if (ends)
                unexpected(p, ends[1] ? ends[1] : ends[0]);
            tn__jinja_leave(p->j);
            return first;
        }
        *last = n;
        last = &n->next;
    }
}

tn__jinja_node *tn__jinja_parse(tn__jinja *j)
{
    parser p = {j, tn__jinja_lex(j), 0, 0};
    return statements(&p, NULL);
}
