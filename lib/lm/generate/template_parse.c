/* template_parse.c: makes a tree from tokens, by the grammar of Jinja 2.
 *
 * Statements, filters and tests of Jinja that Tenon does not have are errors.
 * The message has the name and the place. */
#include <lm/generate/template.h>

#include <string.h>

typedef struct parser {
    tn__jinja *j;
    const tn__jinja_token *t; /* the current token */
    int loops;                /* number of loops around the current token */
    unsigned uses;            /* TN__JINJA_USES_... of the macro that is being
                                 read */
} parser;

typedef tn__jinja_node node;

static node *expression(parser *p);
static node *condition(parser *p, bool with_if);
static node *unary(parser *p, bool with_filter);
static node *statements(parser *p, const char *const *ends);

/* ---- tokens -------------------------------------------------------------- */

static node *make(parser *p, tn__jinja_node_kind kind, size_t at)
{
    node *n = tn__jinja_take(p->j, 1, sizeof *n);
    n->kind = kind;
    n->at = at;
    n->name = "";
    return n;
}

static bool is_name(const parser *p, const char *name)
{
    return p->t->kind == TN__JINJA_T_NAME && strcmp(p->t->text, name) == 0;
}

static bool is_operator(const parser *p, const char *text)
{
    return p->t->kind == TN__JINJA_T_OPERATOR && strcmp(p->t->text, text) == 0;
}

static bool skip_name(parser *p, const char *name)
{
    const bool is = is_name(p, name);
    p->t += is;
    return is;
}

static bool skip_operator(parser *p, const char *text)
{
    const bool is = is_operator(p, text);
    p->t += is;
    return is;
}

__attribute__((noreturn)) static void unexpected(parser *p, const char *wanted)
{
    p->j->at = p->t->at;
    tn__jinja_fail(p->j, TN_ERR_FORMAT, "expected %s instead of %.60s", wanted,
                   p->t->text);
}

static void need_operator(parser *p, const char *text)
{
    if (!skip_operator(p, text))
        unexpected(p, text);
}

static const char *need_name(parser *p)
{
    if (p->t->kind != TN__JINJA_T_NAME)
        unexpected(p, "a name");
    return (p->t++)->text;
}

static void need_close(parser *p)
{
    if (p->t->kind != TN__JINJA_T_CLOSE)
        unexpected(p, "the end of the block");
    p->t++;
}

static void enter(parser *p)
{
    p->j->at = p->t->at;
    tn__jinja_enter(p->j);
}

/* ---- expressions --------------------------------------------------------- */

static node *constant(parser *p, const tn__jinja_value *value)
{
    node *n = make(p, TN__JINJA_CONSTANT, p->t->at);
    n->value = value;
    return n;
}

/* Reads items up to the operator `end`. pairs: key: value pairs of a
 * dictionary. */
static node *items(parser *p, const char *end, bool pairs)
{
    node *first = NULL, **last = &first;
    while (!skip_operator(p, end)) {
        if (first) {
            need_operator(p, ",");
            if (skip_operator(p, end))
                break;
        }
        node *item = make(p, TN__JINJA_ARGUMENT, p->t->at);
        item->a = expression(p);
        if (pairs) {
            need_operator(p, ":");
            item->b = expression(p);
        }
        *last = item;
        last = &item->next;
    }
    return first;
}

/* Reads one expression, or several with commas, which make a tuple. */
static node *tuple(parser *p, bool with_if)
{
    node *first = condition(p, with_if);
    if (!is_operator(p, ","))
        return first;
    node *list = make(p, TN__JINJA_LIST_OF, first->at);
    list->name = "(";
    node **last = &list->a;
    for (node *one = first; one;) {
        node *item = make(p, TN__JINJA_ARGUMENT, one->at);
        item->a = one;
        *last = item;
        last = &item->next;
        one = NULL;
        if (skip_operator(p, ",") && p->t->kind != TN__JINJA_T_CLOSE &&
            !is_operator(p, ")"))
            one = condition(p, with_if);
    }
    return list;
}

static node *primary(parser *p)
{
    node *n;
    const size_t at = p->t->at;
    if (p->t->kind == TN__JINJA_T_CONSTANT) {
        n = constant(p, (p->t++)->value);
        while (n->value->kind == TN__JINJA_TEXT &&
               p->t->kind == TN__JINJA_T_CONSTANT &&
               p->t->value->kind == TN__JINJA_TEXT) { /* adjacent texts are
                                                         joined, as in Python */
            tn__jinja_text both = {0};
            tn__jinja_add(p->j, &both, n->value->text, n->value->bytes);
            tn__jinja_add(p->j, &both, p->t->value->text, p->t->value->bytes);
            n->value = tn__jinja_text_end(p->j, &both);
            p->t++;
        }
        return n;
    }
    if (skip_name(p, "true") || skip_name(p, "True"))
        return constant(p, &tn__jinja_true);
    if (skip_name(p, "false") || skip_name(p, "False"))
        return constant(p, &tn__jinja_false);
    if (skip_name(p, "none") || skip_name(p, "None"))
        return constant(p, &tn__jinja_none);
    if (p->t->kind == TN__JINJA_T_NAME) {
        n = make(p, TN__JINJA_NAME, at);
        n->name = (p->t++)->text;
        p->uses |= strcmp(n->name, "caller") == 0    ? TN__JINJA_USES_CALLER
                   : strcmp(n->name, "varargs") == 0 ? TN__JINJA_USES_VARARGS
                   : strcmp(n->name, "kwargs") == 0  ? TN__JINJA_USES_KWARGS
                                                     : 0;
        return n;
    }
    if (skip_operator(p, "(")) {
        if (skip_operator(p, ")")) {
            n = make(p, TN__JINJA_LIST_OF, at);
            n->name = "(";
            return n;
        }
        n = tuple(p, true);
        need_operator(p, ")");
        return n;
    }
    const bool list = is_operator(p, "[");
    if (!list && !is_operator(p, "{"))
        unexpected(p, "an expression");
    p->t++;
    n = make(p, list ? TN__JINJA_LIST_OF : TN__JINJA_DICT_OF, at);
    n->a = items(p, list ? "]" : "}", !list);
    return n;
}

/* Reads the arguments "a, b, name=c)" after a "(". */
static node *arguments(parser *p)
{
    node *first = NULL, **last = &first;
    size_t count = 0;
    bool named = false;
    while (!skip_operator(p, ")")) {
        if (first) {
            need_operator(p, ",");
            if (skip_operator(p, ")"))
                break;
        }
        if (is_operator(p, "*") || is_operator(p, "**")) {
            p->j->at = p->t->at;
            tn__jinja_fail(p->j, TN_ERR_UNSUPPORTED,
                           "%s before an argument is not supported",
                           p->t->text);
        }
        node *n = make(p, TN__JINJA_ARGUMENT, p->t->at);
        if (p->t->kind == TN__JINJA_T_NAME &&
            p->t[1].kind == TN__JINJA_T_OPERATOR &&
            strcmp(p->t[1].text, "=") == 0) {
            n->name = p->t->text;
            p->t += 2;
            named = true;
        } else if (named) {
            unexpected(p, "an argument with a name");
        }
        n->a = expression(p);
        p->j->at = n->at;
        if (++count > TN__JINJA_MOST_ARGUMENTS)
            tn__jinja_fail(p->j, TN_ERR_UNSUPPORTED, "more than %d arguments",
                           TN__JINJA_MOST_ARGUMENTS);
        *last = n;
        last = &n->next;
    }
    return first;
}

static node *call(parser *p, node *of)
{
    node *n = make(p, TN__JINJA_CALL, of->at);
    need_operator(p, "(");
    n->a = of;
    n->b = arguments(p);
    return n;
}

static node *subscript(parser *p, node *of)
{
    node *n = make(p, TN__JINJA_INDEX, p->t->at);
    n->a = of;
    if (!is_operator(p, ":"))
        n->b = expression(p);
    if (is_operator(p, ":")) {
        n->kind = TN__JINJA_SLICE;
        p->t++;
        if (!is_operator(p, ":") && !is_operator(p, "]"))
            n->c = expression(p);
        if (skip_operator(p, ":") && !is_operator(p, "]"))
            n->d = expression(p);
    }
    need_operator(p, "]");
    return n;
}

static node *postfix(parser *p, node *n)
{
    for (;;) {
        if (skip_operator(p, "[")) {
            n = subscript(p, n);
        } else if (is_operator(p, "(")) {
            n = call(p, n);
        } else if (skip_operator(p, ".")) {
            node *of = n;
            if (p->t->kind == TN__JINJA_T_CONSTANT &&
                p->t->value->kind == TN__JINJA_INT) {
                n = make(p, TN__JINJA_INDEX, p->t->at);
                n->b = constant(p, (p->t++)->value);
            } else {
                n = make(p, TN__JINJA_MEMBER, p->t->at);
                n->name = need_name(p);
            }
            n->a = of;
        } else {
            return n;
        }
    }
}

static node *filter(parser *p, node *of)
{
    node *n = make(p, TN__JINJA_FILTER, p->t->at);
    n->name = need_name(p);
    n->a = of;
    if (skip_operator(p, "("))
        n->b = arguments(p);
    return n;
}

static bool begins_argument(const parser *p)
{
    if (p->t->kind == TN__JINJA_T_CONSTANT)
        return true;
    if (p->t->kind == TN__JINJA_T_NAME)
        return !is_name(p, "else") && !is_name(p, "or") && !is_name(p, "and") &&
               !is_name(p, "is") && !is_name(p, "if") && !is_name(p, "in") &&
               !is_name(p, "not");
    return is_operator(p, "[") || is_operator(p, "{");
}

static node *test(parser *p, node *of)
{
    const size_t at = p->t->at;
    const bool negated = skip_name(p, "not");
    node *n = make(p, TN__JINJA_TEST, p->t->at);
    if (is_operator(p, "==")) /* Jinja also has tests that are named ==, < and
                                 so on */
        unexpected(p, "the name of a test");
    n->name = need_name(p);
    n->a = of;
    if (skip_operator(p, "(")) {
        n->b = arguments(p);
    } else if (begins_argument(p)) {
        n->b = make(p, TN__JINJA_ARGUMENT, p->t->at);
        n->b->a = postfix(p, primary(p));
    }
    if (!negated)
        return n;
    node *inverse = make(p, TN__JINJA_UNARY, at);
    inverse->name = "not";
    inverse->a = n;
    return inverse;
}

static node *unary(parser *p, bool with_filter)
{
    const size_t at = p->t->at;
    node *n;
    enter(p);
    if (is_operator(p, "-") || is_operator(p, "+")) {
        n = make(p, TN__JINJA_UNARY, at);
        n->name = (p->t++)->text;
        n->a = unary(p, false);
    } else {
        n = primary(p);
    }
    n = postfix(p, n);
    while (with_filter) {
        if (skip_operator(p, "|"))
            n = filter(p, n);
        else if (skip_name(p, "is"))
            n = test(p, n);
        else if (is_operator(p, "("))
            n = call(p, n);
        else
            break;
    }
    tn__jinja_leave(p->j);
    return n;
}

/* Binary operators, which associate from left to right, by increasing
 * precedence. */
static const char *const levels[][5] = {
    {"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
enum { LEVELS = sizeof levels / sizeof *levels };

static node *arithmetic(parser *p, int level)
{
    if (level == LEVELS)
        return unary(p, true);
    node *left = arithmetic(p, level + 1);
    for (int i = 0; i < 5 && levels[level][i];) {
        if (!is_operator(p, levels[level][i])) {
            i++;
            continue;
        }
        node *n = make(p, TN__JINJA_BINARY, p->t->at);
        n->name = (p->t++)->text;
        n->a = left;
        n->b = arithmetic(p, level + 1);
        left = n;
        i = 0;
    }
    return left;
}

static const char *compare_operator(parser *p)
{
    static const char *const symbols[] = {"==", "!=", "<", "<=", ">", ">="};
    for (int i = 0; i < 6; i++)
        if (skip_operator(p, symbols[i]))
            return symbols[i];
    if (skip_name(p, "in"))
        return "in";
    if (is_name(p, "not") && p->t[1].kind == TN__JINJA_T_NAME &&
        strcmp(p->t[1].text, "in") == 0) {
        p->t += 2;
        return "not in";
    }
    return NULL;
}

static node *compare(parser *p)
{
    node *left = arithmetic(p, 0), *all = NULL, **last = NULL;
    for (;;) {
        const size_t at = p->t->at;
        const char *name = compare_operator(p);
        if (!name)
            return all ? all : left;
        if (!all) {
            all = make(p, TN__JINJA_COMPARE, at);
            all->a = left;
            last = &all->b;
        }
        node *n = make(p, TN__JINJA_ARGUMENT, at);
        n->name = name;
        n->a = arithmetic(p, 0);
        *last = n;
        last = &n->next;
    }
}

static node *negation(parser *p)
{
    if (!is_name(p, "not"))
        return compare(p);
    enter(p);
    node *n = make(p, TN__JINJA_UNARY, p->t->at);
    n->name = (p->t++)->text;
    n->a = negation(p);
    tn__jinja_leave(p->j);
    return n;
}

static node *logical(parser *p, bool or)
{
    node *left = or ? logical(p, false) : negation(p);
    while (is_name(p, or ? "or" : "and")) {
        node *n = make(p, TN__JINJA_BINARY, p->t->at);
        n->name = (p->t++)->text;
        n->a = left;
        n->b = or ? logical(p, false) : negation(p);
        left = n;
    }
    return left;
}

static node *condition(parser *p, bool with_if)
{
    enter(p);
    node *n = logical(p, true);
    while (with_if && is_name(p, "if")) {
        node *c = make(p, TN__JINJA_CONDITION, (p->t++)->at);
        c->a = n;
        c->b = logical(p, true);
        if (skip_name(p, "else"))
            c->c = condition(p, true);
        n = c;
    }
    tn__jinja_leave(p->j);
    return n;
}

static node *expression(parser *p)
{
    return condition(p, true);
}

/* ---- statements ---------------------------------------------------------- */

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
    n->a = tuple(p, false);
    if (skip_name(p, "if"))
        n->c = expression(p);
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
        n->a = tuple(p, true);
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
        n->a = tuple(p, true);
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
        n->a = filter(p, n->a);
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
    n->a = filter(p, n->c);
    while (skip_operator(p, "|"))
        n->a = filter(p, n->a);
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
        one->a = expression(p);
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
            parameter->a = expression(p);
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
    n->a = expression(p);
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
            n->a = tuple(p, true);
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
