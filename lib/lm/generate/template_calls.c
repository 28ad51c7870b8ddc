/* template_calls.c: filters, tests and functions of chat templates. To add one,
 * add a row to a table. */
#include <lm/generate/template.h>

#include <json/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/base.h>
#include <time.h>

typedef tn__jinja_value value;

/* ---- arguments ----------------------------------------------------------- */

static int64_t integer_of(tn__jinja *j, const value *v, const char *what)
{
    if (v->kind != TN__JINJA_INT && v->kind != TN__JINJA_BOOL)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s is %s, not an integer", what,
                       tn__jinja_kind_name(v));
    return v->kind == TN__JINJA_INT ? v->integer : v->truth;
}

/* Calls a method of a text on any value. First converts the value to a text, as
 * the filters of the same names do. */
static const value *as_method(tn__jinja *j, const char *name, const value *v,
                              const value *const *a, size_t count)
{
    tn__jinja_arguments given = {.count = 0};
    while (given.count < count && a[given.count]) {
        given.item[given.count] = a[given.count];
        given.count++;
    }
    return tn__jinja_method(j, tn__jinja_string(j, v), name, &given);
}

/* ---- filters ------------------------------------------------------------- */

typedef const value *(*filter_call)(tn__jinja *j, const value *v,
                                    const value **a);

static const value *f_trim(tn__jinja *j, const value *v, const value **a)
{
    return as_method(j, "strip", v, a, 1);
}

static const value *f_upper(tn__jinja *j, const value *v, const value **a)
{
    return as_method(j, "upper", v, a, 0);
}

static const value *f_lower(tn__jinja *j, const value *v, const value **a)
{
    return as_method(j, "lower", v, a, 0);
}

static const value *f_capitalize(tn__jinja *j, const value *v, const value **a)
{
    return as_method(j, "capitalize", v, a, 0);
}

static const value *f_title(tn__jinja *j, const value *v, const value **a)
{
    return as_method(j, "title", v, a, 0);
}

static const value *f_replace(tn__jinja *j, const value *v, const value **a)
{
    if (!a[0] || !a[1])
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "replace needs two texts");
    return as_method(j, "replace", v, a, 3);
}

static const value *f_length(tn__jinja *j, const value *v, const value **a)
{
    (void)a;
    return tn__jinja_int(j, tn__jinja_length(j, v));
}

static const value *f_default(tn__jinja *j, const value *v, const value **a)
{
    const bool falsy = a[1] && tn__jinja_truth(a[1]) && !tn__jinja_truth(v);
    if (v->kind != TN__JINJA_UNDEFINED && !falsy)
        return v;
    return a[0] ? a[0] : tn__jinja_text_of(j, "", 0);
}

static const value *f_tojson(tn__jinja *j, const value *v, const value **a)
{
    tn__jinja_text text = {0};
    int64_t indent = -1;
    if (a[1] && a[1]->kind != TN__JINJA_NONE)
        indent = integer_of(j, a[1], "indent");
    if (a[2] && a[2]->kind != TN__JINJA_NONE)
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "separators of tojson are not supported");
    if (indent > 32)
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "tojson supports an indent of at most 32");
    tn__jinja_add_json(j, &text, v, (int)(indent < -1 ? 0 : indent), 0,
                       a[3] && tn__jinja_truth(a[3]),
                       a[0] && tn__jinja_truth(a[0]));
    return tn__jinja_text_end(j, &text);
}

/* Returns the member of an item that a path names: "function.name", or a
 * number. */
static const value *attribute(tn__jinja *j, const value *v, const value *path)
{
    if (path->kind == TN__JINJA_INT) {
        const value *list = tn__jinja_items(j, v);
        return path->integer >= 0 && path->integer < (int64_t)list->count
                   ? list->item[path->integer]
                   : tn__jinja_undefined(j, "an item");
    }
    if (path->kind != TN__JINJA_TEXT || strlen(path->text) != path->bytes)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "an attribute is %s, not a text",
                       tn__jinja_kind_name(path));
    for (const char *at = path->text;;) {
        const size_t length = strcspn(at, ".");
        const value *key = tn__jinja_text_of(j, at, length), *part = NULL;
        if (v->kind == TN__JINJA_UNDEFINED)
            tn__jinja_fail(j, TN_ERR_ARGUMENT,
                           "%s is not defined, so it has no %s", v->text,
                           key->text);
        if (v->kind == TN__JINJA_DICT || v->kind == TN__JINJA_NAMESPACE)
            part = tn__jinja_get(j, v, key);
        v = part ? part : tn__jinja_undefined(j, key->text);
        if (!at[length])
            return v;
        at += length + 1;
    }
}

static const value *f_join(tn__jinja *j, const value *v, const value **a)
{
    const value *list = tn__jinja_items(j, v);
    const value *between =
        a[0] ? tn__jinja_string(j, a[0]) : tn__jinja_text_of(j, "", 0);
    tn__jinja_text text = {0};
    for (size_t i = 0; i < list->count; i++) {
        const value *item = list->item[i];
        if (i)
            tn__jinja_add(j, &text, between->text, between->bytes);
        if (a[1] && a[1]->kind != TN__JINJA_NONE)
            item = attribute(j, item, a[1]);
        tn__jinja_add_value(j, &text, item, false);
    }
    return tn__jinja_text_end(j, &text);
}

static const value *f_list(tn__jinja *j, const value *v, const value **a)
{
    const value *all = tn__jinja_items(j, v);
    value *list = tn__jinja_list(j);
    (void)a;
    for (size_t i = 0; i < all->count; i++)
        tn__jinja_append(j, list, all->item[i]);
    return list;
}

static const value *f_items(tn__jinja *j, const value *v, const value **a)
{
    const tn__jinja_arguments none = {.count = 0};
    (void)a;
    if (v->kind == TN__JINJA_UNDEFINED)
        return tn__jinja_list(j);
    if (v->kind != TN__JINJA_DICT)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the filter items needs a dictionary, not %s",
                       tn__jinja_kind_name(v));
    return tn__jinja_method(j, v, "items", &none);
}

static const value *f_dictsort(tn__jinja *j, const value *v, const value **a)
{
    value *list = tn__jinja_list(j);
    (void)a;
    const value *pairs = f_items(j, v, a);
    for (size_t i = 0; i < pairs->count; i++) {
        tn__jinja_append(j, list, pairs->item[i]);
        for (size_t at = i; at; at--) {
            const value *x = list->item[at - 1], *y = list->item[at];
            /* ignores case, as Jinja does */
            if (tn__jinja_order(j, f_lower(j, x->item[0], a),
                                f_lower(j, y->item[0], a)) <= 0)
                break;
            list->item[at - 1] = y;
            list->item[at] = x;
        }
    }
    return list;
}

static const value *end_of(tn__jinja *j, const value *v, bool last)
{
    const value *list = tn__jinja_items(j, v);
    return list->count ? list->item[last ? list->count - 1 : 0]
                       : tn__jinja_undefined(j, "an item of an empty list");
}

static const value *f_first(tn__jinja *j, const value *v, const value **a)
{
    (void)a;
    return end_of(j, v, false);
}

static const value *f_last(tn__jinja *j, const value *v, const value **a)
{
    (void)a;
    return end_of(j, v, true);
}

/* Compares as Jinja does without case_sensitive: ignores the case of texts. */
static int order_of(tn__jinja *j, const value *a, const value *b, bool exact)
{
    const value *none = NULL;
    if (!exact && a->kind == TN__JINJA_TEXT)
        a = f_lower(j, a, &none);
    if (!exact && b->kind == TN__JINJA_TEXT)
        b = f_lower(j, b, &none);
    return tn__jinja_order(j, a, b);
}

static const value *f_sort(tn__jinja *j, const value *v, const value **a)
{
    const bool down = a[0] && tn__jinja_truth(a[0]);
    const bool exact = a[1] && tn__jinja_truth(a[1]);
    const value *by = a[2] && a[2]->kind != TN__JINJA_NONE ? a[2] : NULL;
    const value *all = tn__jinja_items(j, v);
    value *list = tn__jinja_list(j);
    for (size_t i = 0; i < all->count; i++) {
        tn__jinja_append(j, list, all->item[i]);
        for (size_t at = i; at; at--) { /* equal items keep their order */
            const value *x = list->item[at - 1], *y = list->item[at];
            const int order = order_of(j, by ? attribute(j, x, by) : x,
                                       by ? attribute(j, y, by) : y, exact);
            tn__jinja_step(j, 1);
            if (down ? order >= 0 : order <= 0)
                break;
            list->item[at - 1] = y;
            list->item[at] = x;
        }
    }
    return list;
}

static const value *end_by_order(tn__jinja *j, const value *v, const value **a,
                                 int wanted)
{
    const bool exact = a[0] && tn__jinja_truth(a[0]);
    const value *by = a[1] && a[1]->kind != TN__JINJA_NONE ? a[1] : NULL;
    const value *all = tn__jinja_items(j, v);
    if (!all->count)
        return tn__jinja_undefined(j, "an item of an empty list");
    const value *best = all->item[0];
    for (size_t i = 1; i < all->count; i++) {
        const value *item = all->item[i];
        const int order =
            order_of(j, by ? attribute(j, item, by) : item,
                     by ? attribute(j, best, by) : best, exact);
        tn__jinja_step(j, 1);
        if (order * wanted > 0)
            best = item;
    }
    return best;
}

static const value *f_min(tn__jinja *j, const value *v, const value **a)
{
    return end_by_order(j, v, a, -1);
}

static const value *f_max(tn__jinja *j, const value *v, const value **a)
{
    return end_by_order(j, v, a, 1);
}

static const value *f_sum(tn__jinja *j, const value *v, const value **a)
{
    const value *by = a[0] && a[0]->kind != TN__JINJA_NONE ? a[0] : NULL;
    const value *sum = a[1] ? a[1] : tn__jinja_int(j, 0);
    const value *all = tn__jinja_items(j, v);
    for (size_t i = 0; i < all->count; i++)
        sum = tn__jinja_operate(j, "+", sum,
                                by ? attribute(j, all->item[i], by)
                                   : all->item[i]);
    return sum;
}

/* Splits a list into lists of `linecount` items. Fills the last one up. */
static const value *f_batch(tn__jinja *j, const value *v, const value **a)
{
    const value *all = tn__jinja_items(j, v);
    value *list = tn__jinja_list(j), *part = NULL;
    const int64_t count = a[0] ? integer_of(j, a[0], "the count") : 0;
    if (count < 1)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the filter batch needs a positive count");
    for (size_t i = 0; i < all->count; i++) {
        if (i % (size_t)count == 0)
            tn__jinja_append(j, list, part = tn__jinja_list(j));
        tn__jinja_append(j, part, all->item[i]);
    }
    while (part && a[1] && a[1]->kind != TN__JINJA_NONE &&
           (int64_t)part->count < count)
        tn__jinja_append(j, part, a[1]);
    return list;
}

static const value *f_reverse(tn__jinja *j, const value *v, const value **a)
{
    const value *all = tn__jinja_items(j, v);
    value *list = tn__jinja_list(j);
    tn__jinja_text text = {0};
    (void)a;
    for (size_t i = all->count; i--;)
        if (v->kind == TN__JINJA_TEXT)
            tn__jinja_add(j, &text, all->item[i]->text, all->item[i]->bytes);
        else
            tn__jinja_append(j, list, all->item[i]);
    return v->kind == TN__JINJA_TEXT ? tn__jinja_text_end(j, &text) : list;
}

static const value *f_unique(tn__jinja *j, const value *v, const value **a)
{
    const value *all = tn__jinja_items(j, v);
    value *list = tn__jinja_list(j);
    (void)a;
    for (size_t i = 0; i < all->count; i++)
        if (!tn__jinja_in(j, all->item[i], list))
            tn__jinja_append(j, list, all->item[i]);
    return list;
}

static const value *f_string(tn__jinja *j, const value *v, const value **a)
{
    (void)a;
    return tn__jinja_string(j, v);
}

static const value *f_safe(tn__jinja *j, const value *v, const value **a)
{
    (void)a;
    const value *text = tn__jinja_string(j, v);
    value *safe = tn__jinja_take(j, 1, sizeof *safe);
    *safe = *text;
    safe->is_safe = true;
    return safe;
}

/* Converts a value to a number. Texts are read as by Python's float(), which
 * rejects hexadecimal numbers. */
static bool number_of(const value *v, double *x)
{
    char *end;
    if (v->kind == TN__JINJA_REAL || v->kind == TN__JINJA_INT ||
        v->kind == TN__JINJA_BOOL) {
        *x = tn__jinja_number(v);
        return true;
    }
    if (v->kind != TN__JINJA_TEXT || strpbrk(v->text, "xXpP("))
        return false;
    *x = tn__json_parse_real(v->text, &end);
    const bool digits = end != v->text;
    end += strspn(end, " \t\n\r\f\v");
    return digits && end == v->text + v->bytes;
}

static const value *f_int(tn__jinja *j, const value *v, const value **a)
{
    const value *otherwise = a[0] ? a[0] : tn__jinja_int(j, 0);
    double x;
    if (v->kind == TN__JINJA_INT || v->kind == TN__JINJA_BOOL)
        return tn__jinja_int(j, integer_of(j, v, "a number"));
    return number_of(v, &x) && x > -9e15 && x < 9e15
               ? tn__jinja_int(j, (int64_t)x)
               : otherwise;
}

static const value *f_float(tn__jinja *j, const value *v, const value **a)
{
    double x;
    if (number_of(v, &x))
        return tn__jinja_real(j, x);
    return a[0] ? a[0] : tn__jinja_real(j, 0);
}

/* Rounds to decimal places from the decimal digits of the number, as Python
 * does. Rounding x * 10^places would give other results. */
static const value *f_round(tn__jinja *j, const value *v, const value **a)
{
    const int64_t places = a[0] ? integer_of(j, a[0], "the precision") : 0;
    const bool ceils = a[1] && tn__jinja_is_text(a[1], "ceil");
    const bool floors = a[1] && tn__jinja_is_text(a[1], "floor");
    char digits[400];
    if (!tn__jinja_is_number(v))
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the filter round needs a number, not %s",
                       tn__jinja_kind_name(v));
    if (a[1] && !ceils && !floors && !tn__jinja_is_text(a[1], "common"))
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the method of round must be \"common\", \"ceil\" or "
                       "\"floor\"");
    if (places < 0 || places > 20)
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "round supports 0 to 20 decimal places");
    const double x = tn__jinja_number(v), by = pow(10, (double)places);
    if (ceils || floors)
        return tn__jinja_real(j, (ceils ? ceil(x * by) : floor(x * by)) / by);
    if (v->kind != TN__JINJA_REAL)
        return tn__jinja_int(j, integer_of(j, v, "a number"));
    tn_format(digits, sizeof digits, "%.*f", (int)places, x);
    return tn__jinja_real(j, tn__json_parse_real(digits, NULL));
}

static const value *f_abs(tn__jinja *j, const value *v, const value **a)
{
    (void)a;
    if (v->kind == TN__JINJA_REAL)
        return tn__jinja_real(j, fabs(v->real));
    const int64_t x = integer_of(j, v, "the number of abs");
    return tn__jinja_int(j, x < 0 && x > INT64_MIN ? -x : x);
}

/* Indents lines. Indents the first line and empty lines only on request. */
static const value *f_indent(tn__jinja *j, const value *v, const value **a)
{
    const int64_t width = a[0] ? integer_of(j, a[0], "the width") : 4;
    const bool first = a[1] && tn__jinja_truth(a[1]);
    const bool empty = a[2] && tn__jinja_truth(a[2]);
    const value *all = tn__jinja_string(j, v);
    tn__jinja_text text = {0};
    for (size_t at = 0, line = 0; at <= all->bytes; line++) {
        const char *end = memchr(all->text + at, '\n', all->bytes - at);
        const size_t length =
            end ? (size_t)(end - all->text) - at : all->bytes - at;
        if (line)
            tn__jinja_add(j, &text, "\n", 1);
        for (int64_t i = 0; i < width && (line ? length || empty : first); i++)
            tn__jinja_add(j, &text, " ", 1);
        tn__jinja_add(j, &text, all->text + at, length);
        at += length + 1;
    }
    return tn__jinja_text_end(j, &text);
}

static const struct {
    const char *name, *parameters;
    filter_call call;
} filters[] = {
    {"abs", "", f_abs},
    {"batch", "linecount fill_with", f_batch},
    {"capitalize", "", f_capitalize},
    {"count", "", f_length},
    {"d", "default_value boolean", f_default},
    {"default", "default_value boolean", f_default},
    {"dictsort", "", f_dictsort},
    {"first", "", f_first},
    {"float", "default", f_float},
    {"indent", "width first blank", f_indent},
    {"int", "default", f_int},
    {"items", "", f_items},
    {"join", "d attribute", f_join},
    {"last", "", f_last},
    {"length", "", f_length},
    {"list", "", f_list},
    {"lower", "", f_lower},
    {"max", "case_sensitive attribute", f_max},
    {"min", "case_sensitive attribute", f_min},
    {"replace", "old new count", f_replace},
    {"reverse", "", f_reverse},
    {"round", "precision method", f_round},
    {"safe", "", f_safe},
    {"sort", "reverse case_sensitive attribute", f_sort},
    {"string", "", f_string},
    {"sum", "attribute start", f_sum},
    {"title", "", f_title},
    {"tojson", "ensure_ascii indent separators sort_keys", f_tojson},
    {"trim", "chars", f_trim},
    {"unique", "", f_unique},
    {"upper", "", f_upper},
};
enum { FILTERS = sizeof filters / sizeof *filters };

/* Filters with any number of arguments. */
static const char *const pickers[] = {"format",     "map",    "reject",
                                      "rejectattr", "select", "selectattr"};
enum { PICKERS = sizeof pickers / sizeof *pickers };

bool tn__jinja_has_filter(const char *name)
{
    for (int i = 0; i < FILTERS; i++)
        if (strcmp(filters[i].name, name) == 0)
            return true;
    for (int i = 0; i < PICKERS; i++)
        if (strcmp(pickers[i], name) == 0)
            return true;
    return false;
}

/* Removes the first argument and returns it. It must be the name of a test or
 * filter. */
static const char *take_name(tn__jinja *j, tn__jinja_arguments *given,
                             bool (*has)(const char *), const char *what)
{
    const value *v = given->item[0];
    if (v->kind != TN__JINJA_TEXT)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "the %s is %s", what,
                       tn__jinja_kind_name(v));
    if (!has(v->text))
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED, "the %s %.60s is not supported",
                       what, v->text);
    given->count--;
    memmove(given->item, given->item + 1, given->count * sizeof *given->item);
    return v->text;
}

/* Returns the items that map and select visit. Jinja visits nothing if v is
 * false, even if v has no items. */
static const value *visited(tn__jinja *j, const value *v)
{
    return tn__jinja_truth(v) ? tn__jinja_items(j, v) : tn__jinja_list(j);
}

/* map(attribute="role", default=x), or map("filter", ...). */
static const value *map(tn__jinja *j, const value *v,
                        const tn__jinja_arguments *given)
{
    const value *all = visited(j, v);
    value *list = tn__jinja_list(j);
    tn__jinja_arguments rest = *given;
    if (given->count) {
        const char *name =
            take_name(j, &rest, tn__jinja_has_filter, "filter");
        for (size_t i = 0; i < all->count; i++)
            tn__jinja_append(j, list,
                             tn__jinja_filter(j, name, all->item[i], &rest));
        return list;
    }
    const value *a[TN__JINJA_MOST_ARGUMENTS];
    tn__jinja_bind(j, "map", "attribute default", given, a);
    if (!a[0])
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "map needs a filter or attribute");
    for (size_t i = 0; i < all->count; i++) {
        const value *item = attribute(j, all->item[i], a[0]);
        if (item->kind == TN__JINJA_UNDEFINED && a[1])
            item = a[1];
        tn__jinja_append(j, list, item);
    }
    return list;
}

/* select(test, ...) and selectattr(attribute, test, ...). Without a test,
 * selects what is true. */
static const value *pick(tn__jinja *j, const char *filter, const value *v,
                         const tn__jinja_arguments *given)
{
    const bool by_attribute = strstr(filter, "attr") != NULL;
    const bool wanted = *filter == 's';
    const value *all = visited(j, v), *path = NULL;
    const char *test = NULL;
    value *list = tn__jinja_list(j);
    tn__jinja_arguments rest = *given;
    if (by_attribute) {
        if (!rest.count)
            tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s needs an attribute", filter);
        path = rest.item[0];
        rest.count--;
        memmove(rest.item, rest.item + 1, rest.count * sizeof *rest.item);
    }
    if (rest.count)
        test = take_name(j, &rest, tn__jinja_has_test, "test");
    for (size_t i = 0; i < all->count; i++) {
        const value *item =
            path ? attribute(j, all->item[i], path) : all->item[i];
        const bool passes = test ? tn__jinja_test(j, test, item, &rest)
                                 : tn__jinja_truth(item);
        if (passes == wanted)
            tn__jinja_append(j, list, all->item[i]);
    }
    return list;
}

/* The filter format(a, b) or format(name=a). */
static const value *format(tn__jinja *j, const value *v,
                           const tn__jinja_arguments *given)
{
    value *values = given->named_count ? tn__jinja_dict(j) : tn__jinja_list(j);
    if (given->count && given->named_count)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the filter format takes values or names, not both");
    for (size_t i = 0; i < given->count; i++)
        tn__jinja_append(j, values, given->item[i]);
    for (size_t i = 0; i < given->named_count; i++)
        tn__jinja_set_name(j, values, given->name[i], given->named[i]);
    values->is_tuple = !given->named_count;
    return tn__jinja_percent(j, tn__jinja_string(j, v), values);
}

const value *tn__jinja_filter(tn__jinja *j, const char *name, const value *v,
                              const tn__jinja_arguments *given)
{
    const value *a[TN__JINJA_MOST_ARGUMENTS];
    for (int i = 0; i < FILTERS; i++)
        if (strcmp(filters[i].name, name) == 0) {
            tn__jinja_bind(j, name, filters[i].parameters, given, a);
            return filters[i].call(j, v, a);
        }
    if (!tn__jinja_has_filter(name))
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "the filter %.60s is not supported", name);
    tn__jinja_enter(j); /* a filter of map may be map again, so the depth is
                           limited */
    const value *out = strcmp(name, "map") == 0      ? map(j, v, given)
                       : strcmp(name, "format") == 0 ? format(j, v, given)
                                                     : pick(j, name, v, given);
    tn__jinja_leave(j);
    return out;
}

/* ---- tests --------------------------------------------------------------- */

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
        return integer_of(j, v, "the number") % 2 != 0;
    case IS_EVEN:
        return integer_of(j, v, "the number") % 2 == 0;
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
        return tn__jinja_truth(as_method(j, "islower", v, NULL, 0));
    case IS_UPPER:
        return tn__jinja_truth(as_method(j, "isupper", v, NULL, 0));
    default:
        break;
    }
    const int64_t by = integer_of(j, other, "the divisor");
    if (!by)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "division by 0");
    return by == -1 || integer_of(j, v, "the number") % by == 0;
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

/* ---- functions ----------------------------------------------------------- */

static const value *dict_of(tn__jinja *j, const char *name,
                            const tn__jinja_arguments *given)
{
    value *v = tn__jinja_dict(j);
    if (given->count > 1 ||
        (given->count && given->item[0]->kind != TN__JINJA_DICT))
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "%s takes a dictionary or names, nothing else", name);
    for (size_t i = 0; given->count && i < given->item[0]->count; i++)
        tn__jinja_set(j, v, given->item[0]->key[i], given->item[0]->item[i]);
    for (size_t i = 0; i < given->named_count; i++)
        tn__jinja_set_name(j, v, given->name[i], given->named[i]);
    if (*name == 'n')
        v->kind = TN__JINJA_NAMESPACE;
    return v;
}

static const value *range(tn__jinja *j, const tn__jinja_arguments *given)
{
    if (given->named_count || !given->count || given->count > 3)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "range takes one to three integers");
    int64_t a[3] = {0, 0, 1};
    for (size_t i = 0; i < given->count; i++)
        a[i] = integer_of(j, given->item[i], "an argument of range");
    if (given->count == 1) {
        a[1] = a[0];
        a[0] = 0;
    }
    if (!a[2])
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "the step of range must not be 0");
    value *list = tn__jinja_list(j);
    for (int64_t at = a[0]; a[2] > 0 ? at < a[1] : at > a[1];) {
        tn__jinja_append(j, list, tn__jinja_int(j, at));
        if (__builtin_add_overflow(at, a[2], &at))
            break;
    }
    return list;
}

static const value *strftime_now(tn__jinja *j, const value *format)
{
    char text[512];
    struct tm parts;
    const time_t now = (time_t)j->now;
    if (format->kind != TN__JINJA_TEXT || format->bytes > 100 ||
        strlen(format->text) != format->bytes)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "strftime_now needs a text of at most 100 bytes");
    /* accepts only conversions that Python has on every machine */
    for (const char *at = format->text; (at = strchr(at, '%'));) {
        at++;
        if (!*at || !strchr("aAwdbBmyYHIMSpjUWcxXGuVDeFTR%Z-z", *at))
            tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                           "strftime_now: %%%c is not supported",
                           *at ? *at : ' ');
        at += *at == '-';
        at += *at != '\0';
    }
    if (!localtime_r(&now, &parts))
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "strftime_now: no such time");
    /* the "x" distinguishes an empty result from one that is too long */
    char whole[128];
    snprintf(whole, sizeof whole, "%sx", format->text);
    const size_t bytes = strftime(text, sizeof text, whole, &parts);
    if (!bytes)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "strftime_now: the result is too long");
    return tn__jinja_text_of(j, text, bytes - 1);
}

static const char *const functions[] = {"dict", "namespace", "raise_exception",
                                        "range", "strftime_now"};

bool tn__jinja_has_function(const char *name)
{
    for (int i = 0; i < 5; i++)
        if (strcmp(functions[i], name) == 0)
            return true;
    return false;
}

const value *tn__jinja_function(tn__jinja *j, const char *name,
                                const tn__jinja_arguments *given)
{
    const value *a[TN__JINJA_MOST_ARGUMENTS];
    if (strcmp(name, "range") == 0)
        return range(j, given);
    if (*name != 'r' && *name != 's')
        return dict_of(j, name, given);
    tn__jinja_bind(j, name, *name == 'r' ? "message" : "format", given, a);
    if (!a[0])
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s needs an argument", name);
    if (*name == 's')
        return strftime_now(j, a[0]);
    tn__jinja_fail(j, TN_ERR_ARGUMENT, "the template refuses this chat: %.300s",
                   tn__jinja_string(j, a[0])->text);
}
