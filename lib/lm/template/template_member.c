/* template_member.c: members of values in chat templates: a.name, a[i], and
 * slices a[b:c:d] of lists and strings. */
#include <lm/template/template.h>

#include <string.h>

typedef tn__jinja_value value;

static const value *method_of(tn__jinja *j, const value *self, const char *name)
{
    value *m = tn__jinja_allocate(j, 1, sizeof *m);
    m->kind = TN__JINJA_METHOD;
    m->text = name;
    m->self = self;
    return m;
}

static __attribute__((noreturn)) void no_member(tn__jinja *j, const value *of,
                                                const char *name)
{
    tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s is not defined, so it has no %s",
                   of->text, name);
}

/* As in Python, a method hides a member of the same name. */
const value *tn__jinja_member(tn__jinja *j, const value *of, const char *name)
{
    const value *v = NULL;
    if (of->kind == TN__JINJA_UNDEFINED)
        no_member(j, of, name);
    if (tn__jinja_has_method(of, name))
        return method_of(j, of, name);
    if (of->kind == TN__JINJA_DICT || of->kind == TN__JINJA_NAMESPACE) {
        tn__jinja_step(j, of->count);
        v = tn__jinja_get_name(of, name);
    }
    if (of->kind == TN__JINJA_LOOP)
        v = tn__jinja_loop_member(j, of, name);
    if (of->kind == TN__JINJA_MACRO && strcmp(name, "name") == 0)
        v = tn__jinja_text_of(j, of->macro->name, strlen(of->macro->name));
    return v ? v : tn__jinja_undefined(j, name);
}

/* Returns the byte offset of character i of a string. */
static size_t place(const value *text, int64_t i)
{
    size_t at = 0;
    for (; at < text->bytes; at++)
        if (((unsigned char)text->text[at] & 0xc0) != 0x80 && i-- == 0)
            break;
    return at;
}

const value *tn__jinja_index(tn__jinja *j, const value *of, const value *i)
{
    const value *v = NULL;
    if (of->kind == TN__JINJA_UNDEFINED)
        no_member(j, of, "items");
    if (of->kind == TN__JINJA_DICT || of->kind == TN__JINJA_NAMESPACE)
        v = tn__jinja_get(j, of, i);
    if ((of->kind == TN__JINJA_LIST || of->kind == TN__JINJA_TEXT) &&
        (i->kind == TN__JINJA_INT || i->kind == TN__JINJA_BOOL)) {
        const int64_t count = tn__jinja_length(j, of);
        int64_t at = tn__jinja_whole(i);
        at = at < 0 ? at + count : at;
        if (at >= 0 && at < count && of->kind == TN__JINJA_LIST)
            return of->item[at];
        if (at >= 0 && at < count) {
            tn__jinja_step(j, of->bytes / 64);
            const size_t begin = place(of, at);
            return tn__jinja_text_of(j, of->text + begin,
                                     place(of, at + 1) - begin);
        }
    }
    if (of->kind == TN__JINJA_LOOP && i->kind == TN__JINJA_TEXT)
        v = tn__jinja_loop_member(j, of, i->text);
    if (!v && i->kind == TN__JINJA_TEXT && tn__jinja_has_method(of, i->text))
        return method_of(j, of, i->text);
    return v ? v : tn__jinja_undefined(j, "an item");
}

/* Returns the index that a bound of a slice stands for, or `none` if there is
 * no bound. */
static int64_t bound(tn__jinja *j, const value *v, int64_t none, int64_t count,
                     int64_t least, int64_t most)
{
    if (!v || v->kind == TN__JINJA_NONE)
        return none;
    if (v->kind != TN__JINJA_INT && v->kind != TN__JINJA_BOOL)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "a bound of a slice is %s; expected "
                       "an integer",
                       tn__jinja_kind_name(v));
    int64_t at = tn__jinja_whole(v);
    if (at < 0)
        at = at < -count ? least : at + count;
    return at < least ? least : at > most ? most : at;
}

const value *tn__jinja_slice(tn__jinja *j, const value *of,
                             const value *const limit[2], const value *by)
{
    if (of->kind == TN__JINJA_UNDEFINED)
        no_member(j, of, "items");
    if (of->kind != TN__JINJA_LIST && of->kind != TN__JINJA_TEXT)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s cannot be sliced",
                       tn__jinja_kind_name(of));
    int64_t step = 1;
    if (by && by->kind == TN__JINJA_INT)
        step = by->integer;
    else if (by && by->kind != TN__JINJA_NONE)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "the step of a slice is %s; "
                       "expected an integer",
                       tn__jinja_kind_name(by));
    if (!step)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "the step of a slice is 0; expected "
                       "any other integer");
    const value *all = tn__jinja_items(j, of);
    const int64_t count = (int64_t)all->count;
    if (step > count)
        step = count + 1;
    if (step < -count)
        step = -count - 1;
    const bool up = step > 0;
    int64_t at = bound(j, limit[0], up ? 0 : count - 1, count, up ? 0 : -1,
                       up ? count : count - 1);
    const int64_t end = bound(j, limit[1], up ? count : -1, count, up ? 0 : -1,
                              up ? count : count - 1);
    value *list = tn__jinja_list(j);
    tn__jinja_text text = {0};
    list->is_tuple = of->is_tuple;
    for (; up ? at < end : at > end; at += step)
        if (of->kind == TN__JINJA_LIST)
            tn__jinja_append(j, list, all->item[at]);
        else
            tn__jinja_add(j, &text, all->item[at]->text, all->item[at]->bytes);
    return of->kind == TN__JINJA_LIST ? list : tn__jinja_text_end(j, &text);
}
