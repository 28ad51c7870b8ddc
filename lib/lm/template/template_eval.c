/* template_eval.c: evaluates the expressions of a chat template. */
#include <lm/template/template_run.h>

#include <string.h>

typedef tn__jinja_value value;
typedef tn__jinja_node node;
typedef tn__jinja_scope scope;

/* ---- variables ----------------------------------------------------------- */

void tn__jinja_open_scope(tn__jinja *j, scope *outer)
{
    scope *s = tn__jinja_allocate(j, 1, sizeof *s);
    s->outer = outer;
    s->names = tn__jinja_dict(j);
    j->scope = s;
}

void tn__jinja_set_variable(tn__jinja *j, const char *name, const value *v)
{
    tn__jinja_set_name(j, j->scope->names, name, v);
}

const value *tn__jinja_variable(tn__jinja *j, const node *n)
{
    for (const scope *s = j->scope; s; s = s->outer) {
        tn__jinja_step(j, s->names->count + 1);
        const value *v = tn__jinja_get_name(s->names, n->name);
        if (v)
            return v;
    }
    if (!tn__jinja_has_function(n->name))
        return tn__jinja_undefined(j, n->name);
    value *v = tn__jinja_allocate(j, 1, sizeof *v);
    v->kind = TN__JINJA_FUNCTION;
    v->text = n->name;
    return v;
}

/* ---- operators ----------------------------------------------------------- */

static const value *eval_binary(tn__jinja *j, const node *n)
{
    const value *a = tn__jinja_eval(j, n->a);
    if (strcmp(n->name, "and") == 0)
        return tn__jinja_truth(a) ? tn__jinja_eval(j, n->b) : a;
    if (strcmp(n->name, "or") == 0)
        return tn__jinja_truth(a) ? a : tn__jinja_eval(j, n->b);
    const value *b = tn__jinja_eval(j, n->b);
    j->at = n->at;
    return tn__jinja_operate(j, n->name, a, b);
}

static const value *eval_unary(tn__jinja *j, const node *n)
{
    const value *a = tn__jinja_eval(j, n->a);
    j->at = n->at;
    if (*n->name == 'n')
        return tn__jinja_bool(!tn__jinja_truth(a));
    if (!tn__jinja_is_number(a))
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s%s is not defined", n->name,
                       tn__jinja_kind_name(a));
    if (a->kind == TN__JINJA_REAL)
        return tn__jinja_real(j, *n->name == '-' ? -a->real : a->real);
    return tn__jinja_integers(j, *n->name, 0, tn__jinja_whole(a));
}

static bool compares(tn__jinja *j, const char *name, const value *a,
                     const value *b)
{
    if (strcmp(name, "==") == 0)
        return tn__jinja_equal(j, a, b);
    if (strcmp(name, "!=") == 0)
        return !tn__jinja_equal(j, a, b);
    if (strcmp(name, "in") == 0)
        return tn__jinja_in(j, a, b);
    if (strcmp(name, "not in") == 0)
        return !tn__jinja_in(j, a, b);
    const int order = tn__jinja_order(j, a, b);
    return *name == '<' ? order < (name[1] == '=') : order > -(name[1] == '=');
}

static const value *eval_compare(tn__jinja *j, const node *n)
{
    const value *left = tn__jinja_eval(j, n->a);
    for (const node *c = n->b; c; c = c->next) {
        const value *right = tn__jinja_eval(j, c->a);
        j->at = c->at;
        if (!compares(j, c->name, left, right))
            return &tn__jinja_false;
        left = right;
    }
    return &tn__jinja_true;
}

/* ---- members ------------------------------------------------------------- */

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
static const value *eval_member(tn__jinja *j, const node *n)
{
    const value *of = tn__jinja_eval(j, n->a), *v = NULL;
    j->at = n->at;
    if (of->kind == TN__JINJA_UNDEFINED)
        no_member(j, of, n->name);
    if (tn__jinja_has_method(of, n->name))
        return method_of(j, of, n->name);
    if (of->kind == TN__JINJA_DICT || of->kind == TN__JINJA_NAMESPACE) {
        tn__jinja_step(j, of->count);
        v = tn__jinja_get_name(of, n->name);
    }
    if (of->kind == TN__JINJA_LOOP)
        v = tn__jinja_loop_member(j, of, n->name);
    if (of->kind == TN__JINJA_MACRO && strcmp(n->name, "name") == 0)
        v = tn__jinja_text_of(j, of->macro->name, strlen(of->macro->name));
    return v ? v : tn__jinja_undefined(j, n->name);
}

/* Returns the byte offset of character i of a text. */
static size_t place(const value *text, int64_t i)
{
    size_t at = 0;
    for (; at < text->bytes; at++)
        if (((unsigned char)text->text[at] & 0xc0) != 0x80 && i-- == 0)
            break;
    return at;
}

static const value *eval_index(tn__jinja *j, const node *n)
{
    const value *of = tn__jinja_eval(j, n->a), *i = tn__jinja_eval(j, n->b),
                *v = NULL;
    j->at = n->at;
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

static int64_t bound(tn__jinja *j, const node *n, int64_t none, int64_t count,
                     int64_t least, int64_t most)
{
    const value *v = n ? tn__jinja_eval(j, n) : &tn__jinja_none;
    if (v->kind == TN__JINJA_NONE)
        return none;
    if (v->kind != TN__JINJA_INT && v->kind != TN__JINJA_BOOL)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "a slice by %s",
                       tn__jinja_kind_name(v));
    int64_t at = tn__jinja_whole(v);
    if (at < 0)
        at = at < -count ? least : at + count;
    return at < least ? least : at > most ? most : at;
}

static const value *eval_slice(tn__jinja *j, const node *n)
{
    const value *of = tn__jinja_eval(j, n->a),
                *by = n->d ? tn__jinja_eval(j, n->d) : NULL;
    j->at = n->at;
    if (of->kind == TN__JINJA_UNDEFINED)
        no_member(j, of, "items");
    if (of->kind != TN__JINJA_LIST && of->kind != TN__JINJA_TEXT)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "a slice of %s",
                       tn__jinja_kind_name(of));
    int64_t step = 1;
    if (by && by->kind == TN__JINJA_INT)
        step = by->integer;
    else if (by && by->kind != TN__JINJA_NONE)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "a slice by steps of %s",
                       tn__jinja_kind_name(by));
    if (!step)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "a slice by steps of 0");
    const value *all = tn__jinja_items(j, of);
    const int64_t count = (int64_t)all->count;
    if (step > count)
        step = count + 1;
    if (step < -count)
        step = -count - 1;
    const bool up = step > 0;
    int64_t at = bound(j, n->b, up ? 0 : count - 1, count, up ? 0 : -1,
                       up ? count : count - 1);
    const int64_t end = bound(j, n->c, up ? count : -1, count, up ? 0 : -1,
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

/* ---- calls --------------------------------------------------------------- */

void tn__jinja_eval_arguments(tn__jinja *j, const node *n,
                              tn__jinja_arguments *to)
{
    *to = (tn__jinja_arguments){.count = 0};
    for (; n; n = n->next)
        if (*n->name) {
            to->name[to->named_count] = n->name;
            to->named[to->named_count++] = tn__jinja_eval(j, n->a);
        } else {
            to->item[to->count++] = tn__jinja_eval(j, n->a);
        }
}

/* Runs a body and returns its text. */
const value *tn__jinja_capture(tn__jinja *j, const node *body)
{
    tn__jinja_text text = {0}, *before = j->out;
    j->out = &text;
    tn__jinja_run_nodes(j, body);
    j->out = before;
    return tn__jinja_text_end(j, &text);
}

/* Defines caller, varargs and kwargs, if the body of the macro uses them. */
static void set_special(tn__jinja *j, const node *macro,
                        const tn__jinja_arguments *given, size_t parameters)
{
    if (macro->uses & TN__JINJA_USES_VARARGS) {
        value *list = tn__jinja_list(j);
        list->is_tuple = true;
        for (size_t i = parameters; i < given->count; i++)
            tn__jinja_append(j, list, given->item[i]);
        tn__jinja_set_variable(j, "varargs", list);
    }
    value *names = tn__jinja_dict(j);
    const value *caller = tn__jinja_undefined(j, "caller");
    for (size_t k = 0; k < given->named_count; k++) {
        bool is_parameter = false;
        for (const node *p = macro->d; p; p = p->next)
            is_parameter |= strcmp(p->name, given->name[k]) == 0;
        if (strcmp(given->name[k], "caller") == 0)
            caller = given->named[k];
        else if (!is_parameter)
            tn__jinja_set_name(j, names, given->name[k], given->named[k]);
    }
    if (macro->uses & TN__JINJA_USES_KWARGS)
        tn__jinja_set_variable(j, "kwargs", names);
    if (macro->uses & TN__JINJA_USES_CALLER)
        tn__jinja_set_variable(j, "caller", caller);
}

const value *tn__jinja_call_macro(tn__jinja *j, const value *of,
                               const tn__jinja_arguments *given)
{
    const node *macro = of->macro;
    scope *before = j->scope;
    size_t i = 0, used = 0;
    tn__jinja_open_scope(j, of->closure);
    scope *own = j->scope;
    for (const node *p = macro->d; p; p = p->next, i++) {
        const value *v = i < given->count ? given->item[i] : NULL;
        for (size_t k = 0; k < given->named_count; k++)
            if (strcmp(given->name[k], p->name) == 0) {
                if (v)
                    tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s gets %s twice",
                                   macro->name, p->name);
                v = given->named[k];
                used++;
            }
        if (!v)
            v = p->a ? tn__jinja_eval(j, p->a)
                     : tn__jinja_undefined(j, p->name);
        j->scope = own;
        tn__jinja_set_variable(j, p->name, v);
    }
    for (size_t k = 0; k < given->named_count; k++)
        used += strcmp(given->name[k], "caller") == 0 &&
                macro->uses & TN__JINJA_USES_CALLER &&
                !(macro->uses & TN__JINJA_USES_KWARGS);
    set_special(j, macro, given, i);
    if ((given->count > i && !(macro->uses & TN__JINJA_USES_VARARGS)) ||
        (used < given->named_count && !(macro->uses & TN__JINJA_USES_KWARGS)))
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "%s gets an argument that it does not take",
                       macro->name);
    const value *text = tn__jinja_capture(j, macro->b);
    j->scope = before;
    return text;
}

static const value *call_value(tn__jinja *j, const value *of,
                               const tn__jinja_arguments *given)
{
    if (of->kind == TN__JINJA_MACRO)
        return tn__jinja_call_macro(j, of, given);
    if (of->kind == TN__JINJA_LOOP)
        return tn__jinja_call_loop(j, of, given);
    if (of->kind == TN__JINJA_METHOD)
        return tn__jinja_method(j, of->self, of->text, given);
    if (of->kind == TN__JINJA_FUNCTION)
        return tn__jinja_function(j, of->text, given);
    if (of->kind == TN__JINJA_UNDEFINED)
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "there is no function or method %.60s", of->text);
    tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s cannot be called",
                   tn__jinja_kind_name(of));
}

static const value *eval_call(tn__jinja *j, const node *n)
{
    tn__jinja_arguments given;
    const value *of = tn__jinja_eval(j, n->a);
    tn__jinja_eval_arguments(j, n->b, &given);
    j->at = n->at;
    return call_value(j, of, &given);
}

/* ---- expressions --------------------------------------------------------- */

static const value *eval_items(tn__jinja *j, const node *n)
{
    value *v = n->kind == TN__JINJA_LIST_OF ? tn__jinja_list(j)
                                            : tn__jinja_dict(j);
    v->is_tuple = *n->name == '(';
    for (const node *item = n->a; item; item = item->next)
        if (n->kind == TN__JINJA_LIST_OF) {
            tn__jinja_append(j, v, tn__jinja_eval(j, item->a));
        } else {
            const value *key = tn__jinja_eval(j, item->a);
            tn__jinja_set(j, v, key, tn__jinja_eval(j, item->b));
        }
    return v;
}

static const value *eval_kind(tn__jinja *j, const node *n)
{
    tn__jinja_arguments given;
    const value *v;
    switch (n->kind) {
    case TN__JINJA_CONSTANT:
        return n->value;
    case TN__JINJA_NAME:
        return tn__jinja_variable(j, n);
    case TN__JINJA_LIST_OF:
    case TN__JINJA_DICT_OF:
        return eval_items(j, n);
    case TN__JINJA_UNARY:
        return eval_unary(j, n);
    case TN__JINJA_BINARY:
        return eval_binary(j, n);
    case TN__JINJA_COMPARE:
        return eval_compare(j, n);
    case TN__JINJA_CONDITION:
        if (tn__jinja_truth(tn__jinja_eval(j, n->b)))
            return tn__jinja_eval(j, n->a);
        return n->c ? tn__jinja_eval(j, n->c)
                    : tn__jinja_undefined(j, "the else");
    case TN__JINJA_MEMBER:
        return eval_member(j, n);
    case TN__JINJA_INDEX:
        return eval_index(j, n);
    case TN__JINJA_SLICE:
        return eval_slice(j, n);
    case TN__JINJA_CALL:
        return eval_call(j, n);
    case TN__JINJA_FILTER:
        v = tn__jinja_eval(j, n->a);
        tn__jinja_eval_arguments(j, n->b, &given);
        j->at = n->at;
        return tn__jinja_filter(j, n->name, v, &given);
    case TN__JINJA_TEST:
        v = tn__jinja_eval(j, n->a);
        tn__jinja_eval_arguments(j, n->b, &given);
        j->at = n->at;
        return tn__jinja_bool(tn__jinja_test(j, n->name, v, &given));
    default:
        tn__jinja_fail(j, TN_ERR_STATE, "a statement as an expression");
    }
}

const value *tn__jinja_eval(tn__jinja *j, const node *n)
{
    j->at = n->at;
    tn__jinja_step(j, 1);
    tn__jinja_enter(j);
    const value *v = eval_kind(j, n);
    tn__jinja_leave(j);
    return v;
}
