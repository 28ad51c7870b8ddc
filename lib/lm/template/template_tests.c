/* template_tests.c: tests of chat templates, `x is defined` and its like. To
 * add one, add a row to the table. */
#include <lm/template/template.h>

#include <string.h>

typedef tn__jinja_value value;

enum {
    IS_DEFINED, IS_UNDEFINED, IS_NONE, IS_STRING, IS_MAPPING, IS_ITERABLE,
    IS_SEQUENCE, IS_NUMBER, IS_INTEGER, IS_FLOAT, IS_BOOLEAN, IS_TRUE,
    IS_FALSE, IS_CALLABLE, IS_ODD, IS_EVEN, IS_EQUAL, IS_UNEQUAL, IS_LESS,
    IS_AT_MOST, IS_GREATER, IS_AT_LEAST, IS_IN, IS_DIVISIBLE, IS_FILTER,
    IS_TEST, IS_LOWER, IS_UPPER
};

static const struct {
    const char *name;
    int is;
    bool argument;
} tests[] = {
    {"boolean", IS_BOOLEAN, false},   {"callable", IS_CALLABLE, false},
    {"defined", IS_DEFINED, false},   {"divisibleby", IS_DIVISIBLE, true},
    {"eq", IS_EQUAL, true},           {"==", IS_EQUAL, true},
    {"equalto", IS_EQUAL, true},      {"even", IS_EVEN, false},
    {"false", IS_FALSE, false},       {"filter", IS_FILTER, false},
    {"float", IS_FLOAT, false},       {"lower", IS_LOWER, false},
    {"test", IS_TEST, false},         {"upper", IS_UPPER, false},
    {"ge", IS_AT_LEAST, true},        {">=", IS_AT_LEAST, true},
    {"gt", IS_GREATER, true},         {">", IS_GREATER, true},
    {"greaterthan", IS_GREATER, true}, {"in", IS_IN, true},
    {"integer", IS_INTEGER, false},   {"iterable", IS_ITERABLE, false},
    {"le", IS_AT_MOST, true},         {"<=", IS_AT_MOST, true},
    {"lessthan", IS_LESS, true},      {"lt", IS_LESS, true},
    {"<", IS_LESS, true},             {"mapping", IS_MAPPING, false},
    {"ne", IS_UNEQUAL, true},         {"!=", IS_UNEQUAL, true},
    {"none", IS_NONE, false},         {"number", IS_NUMBER, false},
    {"odd", IS_ODD, false},           {"sequence", IS_SEQUENCE, false},
    {"string", IS_STRING, false},     {"true", IS_TRUE, false},
    {"undefined", IS_UNDEFINED, false},
};
enum { TESTS = sizeof tests / sizeof *tests };

bool tn__jinja_has_test(const char *name)
{
    for (int i = 0; i < TESTS; i++)
        if (strcmp(tests[i].name, name) == 0)
            return true;
    return false;
}

static bool passes(tn__jinja *j, int is, const value *v, const value *other)
{
    const tn__jinja_kind kind = v->kind;
    const bool items = kind == TN__JINJA_TEXT || kind == TN__JINJA_LIST ||
                       kind == TN__JINJA_DICT;
    switch (is) {
    case IS_DEFINED:
        return kind != TN__JINJA_UNDEFINED;
    case IS_UNDEFINED:
        return kind == TN__JINJA_UNDEFINED;
    case IS_NONE:
        return kind == TN__JINJA_NONE;
    case IS_STRING:
        return kind == TN__JINJA_TEXT;
    case IS_MAPPING:
        return kind == TN__JINJA_DICT;
    case IS_ITERABLE:
        return items || kind == TN__JINJA_UNDEFINED;
    case IS_SEQUENCE:
        return items;
    case IS_NUMBER:
        return tn__jinja_is_number(v);
    case IS_INTEGER:
        return kind == TN__JINJA_INT;
    case IS_FLOAT:
        return kind == TN__JINJA_REAL;
    case IS_BOOLEAN:
        return kind == TN__JINJA_BOOL;
    case IS_TRUE:
        return kind == TN__JINJA_BOOL && v->truth;
    case IS_FALSE:
        return kind == TN__JINJA_BOOL && !v->truth;
    case IS_CALLABLE:
        return kind >= TN__JINJA_METHOD;
    case IS_ODD:
        return tn__jinja_integer_of(j, v, "the number") % 2 != 0;
    case IS_EVEN:
        return tn__jinja_integer_of(j, v, "the number") % 2 == 0;
    case IS_EQUAL:
        return tn__jinja_equal(j, v, other);
    case IS_UNEQUAL:
        return !tn__jinja_equal(j, v, other);
    case IS_LESS:
        return tn__jinja_order(j, v, other) < 0;
    case IS_AT_MOST:
        return tn__jinja_order(j, v, other) <= 0;
    case IS_GREATER:
        return tn__jinja_order(j, v, other) > 0;
    case IS_AT_LEAST:
        return tn__jinja_order(j, v, other) >= 0;
    case IS_IN:
        return tn__jinja_in(j, v, other);
    case IS_FILTER:
        return kind == TN__JINJA_TEXT && tn__jinja_has_filter(v->text);
    case IS_TEST:
        return kind == TN__JINJA_TEXT && tn__jinja_has_test(v->text);
    case IS_LOWER:
        return tn__jinja_truth(tn__jinja_text_method(j, "islower", v, NULL, 0));
    case IS_UPPER:
        return tn__jinja_truth(tn__jinja_text_method(j, "isupper", v, NULL, 0));
    default:
        break;
    }
    const int64_t by = tn__jinja_integer_of(j, other, "the divisor");
    if (!by)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "division by 0");
    return by == -1 || tn__jinja_integer_of(j, v, "the number") % by == 0;
}

bool tn__jinja_test(tn__jinja *j, const char *name, const value *v,
                    const tn__jinja_arguments *given)
{
    int i = 0;
    if (!tn__jinja_has_test(name))
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "the test %.60s is not supported", name);
    while (strcmp(tests[i].name, name) != 0)
        i++;
    if (given->named_count || given->count != tests[i].argument)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "the test %s takes %s", name,
                       tests[i].argument ? "one argument" : "no argument");
    return passes(j, tests[i].is, v, given->count ? given->item[0] : NULL);
}
