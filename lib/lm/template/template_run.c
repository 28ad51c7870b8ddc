/* template_run.c: runs the tree of a chat template. */
#include <lm/template/template.h>

#include <string.h>

typedef tn__jinja_value value;
typedef tn__jinja_node node;

/* A scope of variables. Each iteration of a loop and each call of a macro has
 * one. */
typedef struct tn__jinja_scope {
    struct tn__jinja_scope *outer;
    value *names; /* a dictionary */
} scope;

enum { GOES_ON, BREAKS, CONTINUES };

static const value *eval(tn__jinja *j, const node *n);
static int run(tn__jinja *j, const node *n);

/* ---- variables ----------------------------------------------------------- */

static void open_scope(tn__jinja *j, scope *outer)
{
    scope *s = tn__jinja_allocate(j, 1, sizeof *s);
    s->outer = outer;
    s->names = tn__jinja_dict(j);
    j->scope = s;
}

static void set_name(tn__jinja *j, const char *name, const value *v)
{
    tn__jinja_set_name(j, j->scope->names, name, v);
}

static const value *eval_name(tn__jinja *j, const node *n)
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
    const value *a = eval(j, n->a);
    if (strcmp(n->name, "and") == 0)
        return tn__jinja_truth(a) ? eval(j, n->b) : a;
    if (strcmp(n->name, "or") == 0)
        return tn__jinja_truth(a) ? a : eval(j, n->b);
    const value *b = eval(j, n->b);
    j->at = n->at;
    return tn__jinja_operate(j, n->name, a, b);
}

static const value *eval_unary(tn__jinja *j, const node *n)
{
    const value *a = eval(j, n->a);
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
    const value *left = eval(j, n->a);
    for (const node *c = n->b; c; c = c->next) {
        const value *right = eval(j, c->a);
        j->at = c->at;
        if (!compares(j, c->name, left, right))
            return &tn__jinja_false;
        left = right;
    }
    return &tn__jinja_true;
}

/* ---- members ------------------------------------------------------------- */

static const value *eval_member(tn__jinja *j, const node *n)
{
    const value *of = eval(j, n->a);
    j->at = n->at;
    return tn__jinja_member(j, of, n->name);
}

static const value *eval_index(tn__jinja *j, const node *n)
{
    const value *of = eval(j, n->a), *i = eval(j, n->b);
    j->at = n->at;
    return tn__jinja_index(j, of, i);
}

static const value *eval_slice(tn__jinja *j, const node *n)
{
    const value *of = eval(j, n->a), *by = n->d ? eval(j, n->d) : NULL;
    const value *const limit[] = {n->b ? eval(j, n->b) : NULL,
                                  n->c ? eval(j, n->c) : NULL};
    j->at = n->at;
    return tn__jinja_slice(j, of, limit, by);
}

/* ---- calls --------------------------------------------------------------- */

static void eval_arguments(tn__jinja *j, const node *n, tn__jinja_arguments *to)
{
    *to = (tn__jinja_arguments){.count = 0};
    for (; n; n = n->next)
        if (*n->name) {
            to->name[to->named_count] = n->name;
            to->named[to->named_count++] = eval(j, n->a);
        } else {
            to->item[to->count++] = eval(j, n->a);
        }
}

/* Runs a body and returns its text. */
static const value *capture(tn__jinja *j, const node *body)
{
    tn__jinja_text text = {0}, *before = j->out;
    j->out = &text;
    run(j, body);
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
        set_name(j, "varargs", list);
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
        set_name(j, "kwargs", names);
    if (macro->uses & TN__JINJA_USES_CALLER)
        set_name(j, "caller", caller);
}

static const value *call_macro(tn__jinja *j, const value *of,
                               const tn__jinja_arguments *given)
{
    const node *macro = of->macro;
    scope *before = j->scope;
    size_t i = 0, used = 0;
    open_scope(j, of->closure);
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
            v = p->a ? eval(j, p->a) : tn__jinja_undefined(j, p->name);
        j->scope = own;
        set_name(j, p->name, v);
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
    const value *text = capture(j, macro->b);
    j->scope = before;
    return text;
}

static const value *call_loop(tn__jinja *j, const value *of,
                              const tn__jinja_arguments *given);

static const value *call_value(tn__jinja *j, const value *of,
                               const tn__jinja_arguments *given)
{
    if (of->kind == TN__JINJA_MACRO)
        return call_macro(j, of, given);
    if (of->kind == TN__JINJA_LOOP)
        return call_loop(j, of, given);
    if (of->kind == TN__JINJA_METHOD)
        return tn__jinja_method(j, of->self, of->text, given);
    if (of->kind == TN__JINJA_FUNCTION)
        return tn__jinja_function(j, of->text, given);
    if (of->kind == TN__JINJA_UNDEFINED)
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "no function or method is named %.60s", of->text);
    tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s cannot be called",
                   tn__jinja_kind_name(of));
}

static const value *eval_call(tn__jinja *j, const node *n)
{
    tn__jinja_arguments given;
    const value *of = eval(j, n->a);
    eval_arguments(j, n->b, &given);
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
            tn__jinja_append(j, v, eval(j, item->a));
        } else {
            const value *key = eval(j, item->a);
            tn__jinja_set(j, v, key, eval(j, item->b));
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
        return eval_name(j, n);
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
        if (tn__jinja_truth(eval(j, n->b)))
            return eval(j, n->a);
        return n->c ? eval(j, n->c) : tn__jinja_undefined(j, "the else");
    case TN__JINJA_MEMBER:
        return eval_member(j, n);
    case TN__JINJA_INDEX:
        return eval_index(j, n);
    case TN__JINJA_SLICE:
        return eval_slice(j, n);
    case TN__JINJA_CALL:
        return eval_call(j, n);
    case TN__JINJA_FILTER:
        v = eval(j, n->a);
        eval_arguments(j, n->b, &given);
        j->at = n->at;
        return tn__jinja_filter(j, n->name, v, &given);
    case TN__JINJA_TEST:
        v = eval(j, n->a);
        eval_arguments(j, n->b, &given);
        j->at = n->at;
        return tn__jinja_bool(tn__jinja_test(j, n->name, v, &given));
    default:
        tn__jinja_fail(j, TN_ERR_STATE, "a statement is used as an expression");
    }
}

static const value *eval(tn__jinja *j, const node *n)
{
    j->at = n->at;
    tn__jinja_step(j, 1);
    tn__jinja_enter(j);
    const value *v = eval_kind(j, n);
    tn__jinja_leave(j);
    return v;
}

/* ---- statements ---------------------------------------------------------- */

static void assign(tn__jinja *j, const node *target, const value *v)
{
    if (!target->next) {
        set_name(j, target->name, v);
        return;
    }
    const value *list = tn__jinja_items(j, v);
    size_t i = 0;
    for (const node *t = target; t; t = t->next, i++)
        if (i < list->count)
            set_name(j, t->name, list->item[i]);
    if (i != list->count)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%zu values are assigned to %zu "
                       "names",
                       list->count, i);
}

/* Assigns to the target of a node SET or SET_BLOCK. */
static void set_target(tn__jinja *j, const node *n, const value *v)
{
    j->at = n->at;
    if (!*n->name) {
        assign(j, n->d, v);
        return;
    }
    const value *space = eval_name(j, n->d);
    if (space->kind != TN__JINJA_NAMESPACE)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s is not a namespace, so %s.%s "
                       "cannot be set", n->d->name, n->d->name, n->name);
    tn__jinja_set_name(j, (value *)(uintptr_t)space, n->name, v);
}

/* Applies a chain of filters. The chain ends with node n->c, which gets the
 * text. */
static const value *filter_text(tn__jinja *j, const node *f, const node *hole,
                                const value *text)
{
    tn__jinja_arguments given;
    if (f == hole)
        return text;
    const value *v = filter_text(j, f->a, hole, text);
    eval_arguments(j, f->b, &given);
    j->at = f->at;
    return tn__jinja_filter(j, f->name, v, &given);
}

/* Runs a body in a new scope, and returns its text after the filters of n. */
static const value *filtered_text(tn__jinja *j, const node *n)
{
    scope *before = j->scope;
    open_scope(j, before);
    const value *text = capture(j, n->b);
    j->scope = before;
    return filter_text(j, n->a, n->c, text);
}

static int run_with(tn__jinja *j, const node *n)
{
    scope *before = j->scope;
    open_scope(j, before);
    scope *own = j->scope;
    for (const node *one = n->d; one; one = one->next) {
        j->scope = before; /* a value cannot use the names of the same block */
        const value *v = eval(j, one->a);
        j->scope = own;
        set_name(j, one->name, v);
    }
    const int then = run(j, n->b);
    j->scope = before;
    return then;
}

/* ---- loops and blocks ---------------------------------------------------- */

static int run_loop(tn__jinja *j, const node *n, const value *over,
                    scope *before, int64_t depth)
{
    const value *all = tn__jinja_items(j, over), *list = all;
    if (n->c) { /* the variable loop counts only items that pass the
                   condition */
        value *passed = tn__jinja_list(j);
        for (size_t i = 0; i < all->count; i++) {
            open_scope(j, before);
            assign(j, n->d, all->item[i]);
            if (tn__jinja_truth(eval(j, n->c)))
                tn__jinja_append(j, passed, all->item[i]);
            j->scope = before;
        }
        list = passed;
    }
    tn__jinja_loop *state = tn__jinja_allocate(j, 1, sizeof *state);
    value *v = tn__jinja_allocate(j, 1, sizeof *v);
    *state = (tn__jinja_loop){
        .of = n, .outer = before, .list = list, .depth = depth};
    v->kind = TN__JINJA_LOOP;
    v->loop = state;
    for (size_t i = 0; i < list->count; i++) {
        open_scope(j, before);
        j->at = n->at;
        state->at = i;
        assign(j, n->d, list->item[i]);
        set_name(j, "loop", v);
        const int then = run(j, n->b);
        j->scope = before;
        if (then == BREAKS)
            break;
    }
    j->scope = before;
    return !list->count ? run(j, n->e) : GOES_ON;
}

static int run_for(tn__jinja *j, const node *n)
{
    return run_loop(j, n, eval(j, n->a), j->scope, 0);
}

/* Runs loop(list), a call of a recursive loop. Returns its text for the other
 * list. */
static const value *call_loop(tn__jinja *j, const value *of,
                              const tn__jinja_arguments *given)
{
    const tn__jinja_loop *state = of->loop;
    scope *before = j->scope;
    tn__jinja_text text = {0}, *out = j->out;
    if (given->count != 1 || given->named_count)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "loop() takes one argument, a list");
    if (!*state->of->name)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "loop() needs a loop that is marked recursive");
    j->out = &text;
    run_loop(j, state->of, given->item[0], state->outer, state->depth + 1);
    j->out = out;
    j->scope = before;
    return tn__jinja_text_end(j, &text);
}

static int run_if(tn__jinja *j, const node *n)
{
    for (; n && n->kind == TN__JINJA_IF; n = n->c)
        if (tn__jinja_truth(eval(j, n->a)))
            return run(j, n->b);
    return n ? run(j, n->a) : GOES_ON;
}

static const value *macro_of(tn__jinja *j, const node *n)
{
    value *m = tn__jinja_allocate(j, 1, sizeof *m);
    m->kind = TN__JINJA_MACRO;
    m->macro = n;
    m->closure = j->scope;
    return m;
}

/* Runs a call block: calls a macro, with the body of the block as caller. */
static const value *run_caller(tn__jinja *j, const node *n)
{
    tn__jinja_arguments given;
    const value *of = eval(j, n->a->a);
    eval_arguments(j, n->a->b, &given);
    j->at = n->at;
    if (of->kind != TN__JINJA_MACRO)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "a call block calls %s, which is not a macro",
                       tn__jinja_kind_name(of));
    if (given.named_count == TN__JINJA_MOST_ARGUMENTS)
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED,
                       "a call has more than %d arguments",
                       TN__JINJA_MOST_ARGUMENTS);
    given.name[given.named_count] = "caller";
    given.named[given.named_count++] = macro_of(j, n->c);
    return call_macro(j, of, &given);
}

static void print(tn__jinja *j, const value *v)
{
    tn__jinja_add_value(j, j->out, v, false);
}

static int run_one(tn__jinja *j, const node *n)
{
    switch (n->kind) {
    case TN__JINJA_DATA:
        print(j, n->value);
        break;
    case TN__JINJA_PRINT:
        print(j, eval(j, n->a));
        break;
    case TN__JINJA_IF:
        return run_if(j, n);
    case TN__JINJA_BODY:
        return run(j, n->a);
    case TN__JINJA_FOR:
        return run_for(j, n);
    case TN__JINJA_SET:
        set_target(j, n, eval(j, n->a));
        break;
    case TN__JINJA_SET_BLOCK:
        set_target(j, n, filtered_text(j, n));
        break;
    case TN__JINJA_FILTERED:
        print(j, filtered_text(j, n));
        break;
    case TN__JINJA_WITH:
        return run_with(j, n);
    case TN__JINJA_CALLER:
        print(j, run_caller(j, n));
        break;
    case TN__JINJA_MACRO_AT:
        set_name(j, n->name, macro_of(j, n));
        break;
    case TN__JINJA_BREAK:
        return BREAKS;
    case TN__JINJA_CONTINUE:
        return CONTINUES;
    default:
        tn__jinja_fail(j, TN_ERR_STATE, "an expression is used as a statement");
    }
    return GOES_ON;
}

static int run(tn__jinja *j, const node *n)
{
    int then = GOES_ON;
    tn__jinja_enter(j);
    for (; n && then == GOES_ON; n = n->next) {
        j->at = n->at;
        tn__jinja_step(j, 1);
        then = run_one(j, n);
    }
    tn__jinja_leave(j);
    return then;
}

const value *tn__jinja_run(tn__jinja *j, const node *body,
                           const value *variables)
{
    tn__jinja_text text = {0};
    scope *s = tn__jinja_allocate(j, 1, sizeof *s);
    s->names = tn__jinja_dict(j);
    for (size_t i = 0; i < variables->count; i++)
        tn__jinja_set(j, s->names, variables->key[i], variables->item[i]);
    j->scope = j->outermost = s;
    j->out = &text;
    run(j, body);
    return tn__jinja_text_end(j, &text);
}
