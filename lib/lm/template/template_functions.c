/* template_functions.c: functions of chat templates: dict, namespace, range,
 * raise_exception, strftime_now. */
#include <lm/template/template.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef tn__jinja_value value;

static const value *dict_of(tn__jinja *j, const char *name,
                            const tn__jinja_arguments *given)
{
    value *v = tn__jinja_dict(j);
    if (given->count > 1 ||
        (given->count && given->item[0]->kind != TN__JINJA_DICT))
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "the arguments of %s must be one dictionary or named "
                       "arguments", name);
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
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "range gets %zu arguments, %zu of them named; expected "
                       "one to three integers without names",
                       given->count + given->named_count, given->named_count);
    int64_t a[3] = {0, 0, 1};
    for (size_t i = 0; i < given->count; i++)
        a[i] = tn__jinja_integer_of(j, given->item[i], "an argument of range");
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
                       "the format of strftime_now must be a string of at most "
                       "100 bytes");
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
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "strftime_now: the time %lld is outside the range of the "
                       "calendar", (long long)now);
    /* the "x" distinguishes an empty result from one that is too long */
    char whole[128];
    snprintf(whole, sizeof whole, "%sx", format->text);
    const size_t bytes = strftime(text, sizeof text, whole, &parts);
    if (!bytes)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "strftime_now: the result has more than 510 bytes");
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
    tn__jinja_fail(j, TN_ERR_ARGUMENT, "the template rejects this chat: %.300s",
                   tn__jinja_string(j, a[0])->text);
}
