/* template_select.c: calls filters of chat templates by name. Those with any
 * number of arguments are here: map, select and their like, which call other
 * filters and tests, and format. */
#include <lm/template/template.h>

#include <string.h>

typedef tn__jinja_value value;

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
        const value *item = tn__jinja_attribute(j, all->item[i], a[0]);
        if (item->kind == TN__JINJA_UNDEFINED && a[1])
            item = a[1];
        tn__jinja_append(j, list, item);
    }
    return list;
}

/* The filters select(test, ...) and selectattr(attribute, test, ...). Without a
 * test they select the values that are true. */
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
            path ? tn__jinja_attribute(j, all->item[i], path) : all->item[i];
        const bool passes = test ? tn__jinja_test(j, test, item, &rest)
                                 : tn__jinja_truth(item);
        if (passes == wanted)
            tn__jinja_append(j, list, all->item[i]);
    }
    return list;
}

/* The filter format: value | format(a, b) or value | format(name=a). */
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
    const value *out = tn__jinja_fixed_filter(j, name, v, given);
    if (out)
        return out;
    if (!tn__jinja_has_filter(name))
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "the filter %.60s is not supported", name);
    tn__jinja_enter(j); /* a filter of map may be map again, so the depth is
                           limited */
    out = strcmp(name, "map") == 0      ? map(j, v, given)
          : strcmp(name, "format") == 0 ? format(j, v, given)
                                        : pick(j, name, v, given);
    tn__jinja_leave(j);
    return out;
}
