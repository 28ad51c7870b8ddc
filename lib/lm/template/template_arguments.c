/* template_arguments.c: the arguments of filters, tests, functions and methods
 * in chat templates: by position or by name, and their checks. */
#include <lm/template/template.h>

#include <string.h>

typedef tn__jinja_value value;

/* Returns the index of a name in the list "a b c", or -1. */
static int place_of(const char *parameters, const char *name)
{
    const size_t bytes = strlen(name);
    int place = 0;
    for (const char *at = parameters; *at; place++) {
        const size_t length = strcspn(at, " ");
        if (length == bytes && memcmp(at, name, bytes) == 0)
            return place;
        at += length;
        at += strspn(at, " ");
    }
    return -1;
}

static size_t count_of(const char *parameters)
{
    size_t count = *parameters != '\0';
    for (const char *at = parameters; *at; at++)
        count += *at == ' ';
    return count;
}

void tn__jinja_bind(tn__jinja *j, const char *what, const char *parameters,
                    const tn__jinja_arguments *given, const value **out)
{
    const size_t most = count_of(parameters);
    if (given->count > most)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s takes %zu arguments, not %zu",
                       what, most, given->count);
    for (size_t i = 0; i < TN__JINJA_MOST_ARGUMENTS; i++)
        out[i] = i < given->count ? given->item[i] : NULL;
    for (size_t i = 0; i < given->named_count; i++) {
        const int place = place_of(parameters, given->name[i]);
        if (place < 0 || out[place])
            tn__jinja_fail(j, place < 0 ? TN_ERR_UNSUPPORTED : TN_ERR_ARGUMENT,
                           place < 0 ? "%s: the argument %.60s is not supported"
                                     : "%s gets %.60s twice",
                           what, given->name[i]);
        out[place] = given->named[i];
    }
}

int64_t tn__jinja_integer_of(tn__jinja *j, const value *v, const char *what)
{
    if (v->kind != TN__JINJA_INT && v->kind != TN__JINJA_BOOL)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s is %s, not an integer", what,
                       tn__jinja_kind_name(v));
    return v->kind == TN__JINJA_INT ? v->integer : v->truth;
}
