/* template_operators.c: the binary operators of chat templates. They behave as
 * in Python. */
#include <lm/template/template.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef tn__jinja_value value;

static __attribute__((noreturn)) void odd_operands(tn__jinja *j,
                                                   const char *name,
                                                   const value *a,
                                                   const value *b)
{
    tn__jinja_fail(j, TN_ERR_ARGUMENT, "the operation %s %s %s is not defined",
                   tn__jinja_kind_name(a), name, tn__jinja_kind_name(b));
}

int64_t tn__jinja_whole(const value *v)
{
    return v->kind == TN__JINJA_INT ? v->integer : v->truth;
}

/* Python's // and % round down, those of C towards 0. */
static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

const value *tn__jinja_integers(tn__jinja *j, char name, int64_t a, int64_t b)
{
    int64_t out = 0;
    bool overflow = false;
    if (name == '+')
        overflow = __builtin_add_overflow(a, b, &out);
    else if (name == '-')
        overflow = __builtin_sub_overflow(a, b, &out);
    else if (name == '*')
        overflow = __builtin_mul_overflow(a, b, &out);
    else if (name == 'p')
        for (out = 1; b && !overflow; b--) {
            tn__jinja_step(j, 1);
            overflow = __builtin_mul_overflow(out, a, &out);
        }
    else if (b == 0)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "division by 0");
    else if (b == -1 && name == '%')
        out = 0;
    else if (b == -1)
        overflow = __builtin_sub_overflow(0, a, &out);
    else
        out = name == '%' ? a - b * floor_divide(a, b) : floor_divide(a, b);
    if (overflow)
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "the result is an integer of more than 64 bits");
    return tn__jinja_int(j, out);
}

static const value *numbers(tn__jinja *j, char name, const value *a,
                            const value *b)
{
    if (a->kind != TN__JINJA_REAL && b->kind != TN__JINJA_REAL && name != '/' &&
        (name != 'p' || tn__jinja_whole(b) >= 0))
        return tn__jinja_integers(j, name, tn__jinja_whole(a),
                                  tn__jinja_whole(b));
    const double x = tn__jinja_number(a), y = tn__jinja_number(b);
    if ((name == '/' || name == 'f' || name == '%') && y == 0)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "division by 0");
    return tn__jinja_real(j, name == '+'   ? x + y
                             : name == '-' ? x - y
                             : name == '*' ? x * y
                             : name == '/' ? x / y
                             : name == 'f' ? floor(x / y)
                             : name == 'p' ? pow(x, y)
                                           : x - y * floor(x / y));
}

static const value *join_lists(tn__jinja *j, const value *a, const value *b)
{
    value *list = tn__jinja_list(j);
    list->is_tuple = a->is_tuple;
    for (size_t i = 0; i < a->count; i++)
        tn__jinja_append(j, list, a->item[i]);
    for (size_t i = 0; i < b->count; i++)
        tn__jinja_append(j, list, b->item[i]);
    return list;
}

/* Appends a string, with the special characters of HTML escaped. */
static void add_escaped(tn__jinja *j, tn__jinja_text *to, const value *v)
{
    static const struct {
        char from;
        const char *to;
    } escapes[] = {{'&', "&amp;"},
                   {'<', "&lt;"},
                   {'>', "&gt;"},
                   {'\'', "&#39;"},
                   {'"', "&#34;"}};
    for (size_t i = 0; i < v->bytes; i++) {
        size_t k = 0;
        while (k < 5 && escapes[k].from != v->text[i])
            k++;
        tn__jinja_add(j, to, k < 5 ? escapes[k].to : v->text + i,
                      k < 5 ? strlen(escapes[k].to) : 1);
    }
}

/* Returns a + b (escapes is true) or a ~ b. As in Jinja, only + escapes a
 * string that is joined to a safe one. */
static const value *join_texts(tn__jinja *j, const value *a, const value *b,
                               bool escapes)
{
    tn__jinja_text text = {0};
    const value *part[] = {tn__jinja_string(j, a), tn__jinja_string(j, b)};
    const bool safe =
        escapes && (part[0]->is_safe || part[1]->is_safe);
    for (int i = 0; i < 2; i++)
        if (safe && !part[i]->is_safe)
            add_escaped(j, &text, part[i]);
        else
            tn__jinja_add(j, &text, part[i]->text, part[i]->bytes);
    value *out = (value *)(uintptr_t)tn__jinja_text_end(j, &text);
    out->is_safe = safe;
    return out;
}

static const value *repeat(tn__jinja *j, const value *v, int64_t times)
{
    tn__jinja_text text = {0};
    value *list = tn__jinja_list(j);
    list->is_tuple = v->is_tuple;
    for (int64_t i = 0; i < times; i++) {
        tn__jinja_step(j, 1);
        if (v->kind == TN__JINJA_TEXT)
            tn__jinja_add(j, &text, v->text, v->bytes);
        else
            for (size_t k = 0; k < v->count; k++)
                tn__jinja_append(j, list, v->item[k]);
    }
    return v->kind == TN__JINJA_TEXT ? tn__jinja_text_end(j, &text) : list;
}

static bool repeats(const value *a, const value *b)
{
    return (a->kind == TN__JINJA_TEXT || a->kind == TN__JINJA_LIST) &&
           (b->kind == TN__JINJA_INT || b->kind == TN__JINJA_BOOL);
}

const value *tn__jinja_operate(tn__jinja *j, const char *as, const value *a,
                            const value *b)
{
    const char name = strcmp(as, "//") == 0   ? 'f'
                      : strcmp(as, "**") == 0 ? 'p'
                                              : *as;
    if (name == '~')
        return join_texts(j, a, b, false);
    if (tn__jinja_is_number(a) && tn__jinja_is_number(b))
        return numbers(j, name, a, b);
    if (name == '+' && a->kind == TN__JINJA_TEXT && b->kind == TN__JINJA_TEXT)
        return join_texts(j, a, b, true);
    if (name == '+' && a->kind == TN__JINJA_LIST &&
        b->kind == TN__JINJA_LIST && a->is_tuple == b->is_tuple)
        return join_lists(j, a, b);
    if (name == '*' && repeats(a, b))
        return repeat(j, a, tn__jinja_whole(b));
    if (name == '*' && repeats(b, a))
        return repeat(j, b, tn__jinja_whole(a));
    if (name == '%' && a->kind == TN__JINJA_TEXT)
        return tn__jinja_percent(j, a, b);
    odd_operands(j, as, a, b);
}
