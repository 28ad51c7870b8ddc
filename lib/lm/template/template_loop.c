/* template_loop.c: members and methods of the variable `loop` in a for loop. */
#include <lm/template/template.h>

#include <string.h>

typedef tn__jinja_value value;
typedef tn__jinja_loop loop;

const value *tn__jinja_loop_member(tn__jinja *j, const value *of,
                                   const char *name)
{
    const loop *l = of->loop;
    const int64_t at = (int64_t)l->at, count = (int64_t)l->list->count;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"index", at + 1},        {"index0", at},
                   {"revindex", count - at}, {"revindex0", count - at - 1},
                   {"length", count},        {"depth", l->depth + 1},
                   {"depth0", l->depth}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0)
            return tn__jinja_int(j, numbers[i].value);
    if (strcmp(name, "first") == 0)
        return tn__jinja_bool(at == 0);
    if (strcmp(name, "last") == 0)
        return tn__jinja_bool(at + 1 == count);
    if (strcmp(name, "previtem") == 0 && at > 0)
        return l->list->item[at - 1];
    if (strcmp(name, "nextitem") == 0 && at + 1 < count)
        return l->list->item[at + 1];
    return NULL;
}

const value *tn__jinja_loop_call(tn__jinja *j, const value *of,
                                 const char *name,
                                 const tn__jinja_arguments *given)
{
    loop *l = of->loop;
    if (given->named_count)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "loop.%s takes no named arguments",
                       name);
    if (strcmp(name, "cycle") == 0) {
        if (!given->count)
            tn__jinja_fail(j, TN_ERR_ARGUMENT,
                           "loop.cycle needs at least one argument");
        return given->item[l->at % given->count];
    }
    value *now = tn__jinja_list(j);
    for (size_t i = 0; i < given->count; i++)
        tn__jinja_append(j, now, given->item[i]);
    const bool changed = !l->changed || !tn__jinja_equal(j, l->changed, now);
    l->changed = now;
    return tn__jinja_bool(changed);
}
