/* template_filters.c: filters of chat templates with fixed parameters. To add
 * one, add a row to the table. */
#include <lm/template/template.h>

#include <json/json.h>
#include <math.h>
#include <string.h>
#include <tenon/base.h>

typedef tn__jinja_value value;

typedef const value *(*filter_call)(tn__jinja *j, const value *v,
                                    const value **a);

static const value *f_trim(tn__jinja *j, const value *v, const value **a)
{
    return tn__jinja_text_method(j, "strip", v, a, 1);
}

static const value *f_upper(tn__jinja *j, const value *v, const value **a)
{
    return tn__jinja_text_method(j, "upper", v, a, 0);
}

static const value *f_lower(tn__jinja *j, const value *v, const value **a)
{
    return tn__jinja_text_method(j, "lower", v, a, 0);
}

static const value *f_capitalize(tn__jinja *j, const value *v, const value **a)
{
    return tn__jinja_text_method(j, "capitalize", v, a, 0);
}

static const value *f_title(tn__jinja *j, const value *v, const value **a)
{
    return tn__jinja_text_method(j, "title", v, a, 0);
}

static const value *f_replace(tn__jinja *j, const value *v, const value **a)
{
    if (!a[0] || !a[1])
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the filter replace needs two strings as arguments");
    return tn__jinja_text_method(j, "replace", v, a, 3);
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
        indent = tn__jinja_integer_of(j, a[1], "indent");
    if (a[2] && a[2]->kind != TN__JINJA_NONE)
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "separators of tojson are not supported");
    if (indent > 32)
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "the indent of tojson is %lld; at most 32 is supported",
                       (long long)indent);
    tn__jinja_add_json(j, &text, v, (int)(indent < -1 ? 0 : indent), 0,
                       a[3] && tn__jinja_truth(a[3]),
                       a[0] && tn__jinja_truth(a[0]));
    return tn__jinja_text_end(j, &text);
}

/* Returns the member of an item that a path names: "function.name", or an
 * index. */
const value *tn__jinja_attribute(tn__jinja *j, const value *v,
                                 const value *path)
{
    if (path->kind == TN__JINJA_INT) {
        const value *list = tn__jinja_items(j, v);
        return path->integer >= 0 && path->integer < (int64_t)list->count
                   ? list->item[path->integer]
                   : tn__jinja_undefined(j, "an item");
    }
    if (path->kind != TN__JINJA_TEXT || strlen(path->text) != path->bytes)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "an attribute is %s, not a string",
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
            item = tn__jinja_attribute(j, item, a[1]);
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

/* Compares as Jinja does without case_sensitive: ignores the case of
 * strings. */
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
            const int order =
                order_of(j, by ? tn__jinja_attribute(j, x, by) : x,
                         by ? tn__jinja_attribute(j, y, by) : y, exact);
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
            order_of(j, by ? tn__jinja_attribute(j, item, by) : item,
                     by ? tn__jinja_attribute(j, best, by) : best, exact);
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
                                by ? tn__jinja_attribute(j, all->item[i], by)
                                   : all->item[i]);
    return sum;
}

/* Splits a list into lists of `linecount` items. Fills the last one up. */
static const value *f_batch(tn__jinja *j, const value *v, const value **a)
{
    const value *all = tn__jinja_items(j, v);
    value *list = tn__jinja_list(j), *part = NULL;
    const int64_t count = a[0] ? tn__jinja_integer_of(j, a[0], "the count") : 0;
    if (count < 1)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the count of the filter batch is %lld; expected at "
                       "least 1", (long long)count);
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
    value *safe = tn__jinja_allocate(j, 1, sizeof *safe);
    *safe = *text;
    safe->is_safe = true;
    return safe;
}

/* Converts a value to a number. Strings are read as by Python's float(), which
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
        return tn__jinja_int(j, tn__jinja_integer_of(j, v, "a number"));
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
    const int64_t places =
        a[0] ? tn__jinja_integer_of(j, a[0], "the precision") : 0;
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
                       "the precision of round is %lld; 0 to 20 decimal places "
                       "are supported", (long long)places);
    const double x = tn__jinja_number(v), by = pow(10, (double)places);
    if (ceils || floors)
        return tn__jinja_real(j, (ceils ? ceil(x * by) : floor(x * by)) / by);
    if (v->kind != TN__JINJA_REAL)
        return tn__jinja_int(j, tn__jinja_integer_of(j, v, "a number"));
    tn_format(digits, sizeof digits, "%.*f", (int)places, x);
    return tn__jinja_real(j, tn__json_parse_real(digits, NULL));
}

static const value *f_abs(tn__jinja *j, const value *v, const value **a)
{
    (void)a;
    if (v->kind == TN__JINJA_REAL)
        return tn__jinja_real(j, fabs(v->real));
    const int64_t x = tn__jinja_integer_of(j, v, "the number of abs");
    return tn__jinja_int(j, x < 0 && x > INT64_MIN ? -x : x);
}

/* Indents lines. Indents the first line and empty lines only on request. */
static const value *f_indent(tn__jinja *j, const value *v, const value **a)
{
    const int64_t width = a[0] ? tn__jinja_integer_of(j, a[0], "the width") : 4;
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

/* Filters with any number of arguments: template_select.c. */
static const char *const selectors[] = {"format",     "map",    "reject",
                                        "rejectattr", "select", "selectattr"};
enum { SELECTORS = sizeof selectors / sizeof *selectors };

bool tn__jinja_has_filter(const char *name)
{
    for (int i = 0; i < FILTERS; i++)
        if (strcmp(filters[i].name, name) == 0)
            return true;
    for (int i = 0; i < SELECTORS; i++)
        if (strcmp(selectors[i], name) == 0)
            return true;
    return false;
}

const value *tn__jinja_fixed_filter(tn__jinja *j, const char *name,
                                    const value *v,
                                    const tn__jinja_arguments *given)
{
    const value *a[TN__JINJA_MOST_ARGUMENTS];
    for (int i = 0; i < FILTERS; i++)
        if (strcmp(filters[i].name, name) == 0) {
            tn__jinja_bind(j, name, filters[i].parameters, given, a);
            return filters[i].call(j, v, a);
        }
    return NULL;
}
