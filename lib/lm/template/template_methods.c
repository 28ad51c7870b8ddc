/* template_methods.c: the methods of lists and dictionaries in chat templates,
 * which behave as in Python, and the search for a method by its name. */
#include <lm/template/template_methods.h>

#include <string.h>

typedef tn__jinja_value value;

/* ---- lists --------------------------------------------------------------- */

static const value *m_list_count(tn__jinja *j, const value *self,
                                 const value **a)
{
    int64_t count = 0;
    if (!a[0])
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the method count needs an argument");
    for (size_t i = 0; i < self->count; i++)
        count += tn__jinja_equal(j, self->item[i], a[0]);
    return tn__jinja_int(j, count);
}

static const value *m_list_index(tn__jinja *j, const value *self,
                                 const value **a)
{
    if (!a[0])
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "the method index needs an argument");
    for (size_t i = 0; i < self->count; i++)
        if (tn__jinja_equal(j, self->item[i], a[0]))
            return tn__jinja_int(j, (int64_t)i);
    tn__jinja_fail(j, TN_ERR_ARGUMENT, "index does not find the item");
}

static const value *format_text(tn__jinja *j, const value *self,
                                const char *name,
                                const tn__jinja_arguments *given)
{
    (void)name;
    return tn__jinja_braces(j, self, given);
}

/* ---- dictionaries -------------------------------------------------------- */

static const value *m_get(tn__jinja *j, const value *self, const value **a)
{
    if (!a[0])
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "get needs a key");
    const value *v = tn__jinja_get(j, self, a[0]);
    return v ? v : a[1] ? a[1] : &tn__jinja_none;
}

static const value *m_items(tn__jinja *j, const value *self, const value **a)
{
    value *list = tn__jinja_list(j);
    (void)a;
    for (size_t i = 0; i < self->count; i++) {
        value *pair = tn__jinja_list(j);
        pair->is_tuple = true;
        tn__jinja_append(j, pair, self->key[i]);
        tn__jinja_append(j, pair, self->item[i]);
        tn__jinja_append(j, list, pair);
    }
    return list;
}

static const value *m_copy(tn__jinja *j, const value *self, const value **a)
{
    value *copy = tn__jinja_dict(j);
    (void)a;
    for (size_t i = 0; i < self->count; i++)
        tn__jinja_set(j, copy, self->key[i], self->item[i]);
    return copy;
}

static const value *m_keys(tn__jinja *j, const value *self, const value **a)
{
    (void)a;
    return tn__jinja_items(j, self);
}

static const value *m_values(tn__jinja *j, const value *self, const value **a)
{
    value *list = tn__jinja_list(j);
    (void)a;
    for (size_t i = 0; i < self->count; i++)
        tn__jinja_append(j, list, self->item[i]);
    return list;
}

/* ---- the table ----------------------------------------------------------- */

static const tn__jinja_method_row own_methods[] = {
    {TN__JINJA_LIST, "count", "value", m_list_count},
    {TN__JINJA_LIST, "index", "value", m_list_index},
    {TN__JINJA_DICT, "copy", "", m_copy},
    {TN__JINJA_DICT, "get", "key default", m_get},
    {TN__JINJA_DICT, "items", "", m_items},
    {TN__JINJA_DICT, "keys", "", m_keys},
    {TN__JINJA_DICT, "values", "", m_values},
    {0},
};

/* Methods with any number of arguments. */
static const struct {
    tn__jinja_kind of;
    const char *name;
    const value *(*call)(tn__jinja *j, const value *self, const char *name,
                         const tn__jinja_arguments *given);
} variadic[] = {
    {TN__JINJA_TEXT, "format", format_text},
    {TN__JINJA_LOOP, "changed", tn__jinja_loop_call},
    {TN__JINJA_LOOP, "cycle", tn__jinja_loop_call},
};
enum { VARIADIC = sizeof variadic / sizeof *variadic };

static const tn__jinja_method_row *find_method(const value *self,
                                               const char *name)
{
    static const tn__jinja_method_row *const tables[] = {
        tn__jinja_character_methods, tn__jinja_part_methods, own_methods};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const tn__jinja_method_row *row = tables[t]; row->name; row++)
            if (row->of == self->kind && strcmp(row->name, name) == 0)
                return row;
    return NULL;
}

static int find_variadic(const value *self, const char *name)
{
    for (int i = 0; i < VARIADIC; i++)
        if (variadic[i].of == self->kind && strcmp(variadic[i].name, name) == 0)
            return i;
    return -1;
}

bool tn__jinja_has_method(const value *self, const char *name)
{
    return find_method(self, name) || find_variadic(self, name) >= 0;
}

const value *tn__jinja_method(tn__jinja *j, const value *self, const char *name,
                              const tn__jinja_arguments *given)
{
    const value *a[TN__JINJA_MOST_ARGUMENTS];
    const tn__jinja_method_row *row = find_method(self, name);
    if (!row)
        return variadic[find_variadic(self, name)].call(j, self, name, given);
    tn__jinja_bind(j, name, row->parameters, given, a);
    return row->call(j, self, a);
}

/* Calls a method of a string on any value. First converts the value to a
 * string, as the filters of the same names do. */
const value *tn__jinja_text_method(tn__jinja *j, const char *name,
                                   const value *v, const value *const *a,
                                   size_t count)
{
    tn__jinja_arguments given = {.count = 0};
    while (given.count < count && a[given.count]) {
        given.item[given.count] = a[given.count];
        given.count++;
    }
    return tn__jinja_method(j, tn__jinja_string(j, v), name, &given);
}
