/* template_expressions.c: expressions of chat templates: makes trees from
 * tokens, by the grammar of Jinja 2. */
#include <lm/template/template_parse.h>

typedef tn__jinja_parser parser;
typedef tn__jinja_node node;

static node *condition(parser *p, bool with_if);
static node *unary(parser *p, bool with_filter);

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
        item->a = tn__jinja_parse_expression(p);
        if (pairs) {
            need_operator(p, ":");
            item->b = tn__jinja_parse_expression(p);
        }
        *last = item;
        last = &item->next;
    }
    return first;
}

/* Reads one expression, or several with commas, which make a tuple. */
node *tn__jinja_parse_tuple(parser *p, bool with_if)
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
               p->t->value->kind == TN__JINJA_TEXT) { /* adjacent strings are
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
        n = tn__jinja_parse_tuple(p, true);
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
        n->a = tn__jinja_parse_expression(p);
        p->j->at = n->at;
        if (++count > TN__JINJA_MOST_ARGUMENTS)
            tn__jinja_fail(p->j, TN_ERR_UNSUPPORTED, "more than %d arguments",
                           TN__JINJA_MOST_ARGUMENTS);
        *last = n;
        last = &n->next;
    }
    return first;
}

node *tn__jinja_parse_call(parser *p, node *of)
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
        n->b = tn__jinja_parse_expression(p);
    if (is_operator(p, ":")) {
        n->kind = TN__JINJA_SLICE;
        p->t++;
        if (!is_operator(p, ":") && !is_operator(p, "]"))
            n->c = tn__jinja_parse_expression(p);
        if (skip_operator(p, ":") && !is_operator(p, "]"))
            n->d = tn__jinja_parse_expression(p);
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
            n = tn__jinja_parse_call(p, n);
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

node *tn__jinja_parse_filter(parser *p, node *of)
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
            n = tn__jinja_parse_filter(p, n);
        else if (skip_name(p, "is"))
            n = test(p, n);
        else if (is_operator(p, "("))
            n = tn__jinja_parse_call(p, n);
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

node *tn__jinja_parse_expression(parser *p)
{
    return condition(p, true);
}
