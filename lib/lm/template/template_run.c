/* template_run.c: runs the statements of a chat template. */
#include <lm/template/template_run.h>

typedef tn__jinja_value value;
typedef tn__jinja_node node;
typedef tn__jinja_scope scope;

/* ---- statements ---------------------------------------------------------- */

static void assign(tn__jinja *j, const node *target, const value *v)
{
    if (!target->next) {
        tn__jinja_set_variable(j, target->name, v);
        return;
    }
    const value *list = tn__jinja_items(j, v);
    size_t i = 0;
    for (const node *t = target; t; t = t->next, i++)
        if (i < list->count)
            tn__jinja_set_variable(j, t->name, list->item[i]);
    if (i != list->count)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%zu values for %zu names",
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
    const value *space = tn__jinja_variable(j, n->d);
    if (space->kind != TN__JINJA_NAMESPACE)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s is no namespace, so %s.%s "
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
    tn__jinja_eval_arguments(j, f->b, &given);
    j->at = f->at;
    return tn__jinja_filter(j, f->name, v, &given);
}

/* Runs a body in a new scope, and returns its text after the filters of n. */
static const value *filtered_text(tn__jinja *j, const node *n)
{
    scope *before = j->scope;
    tn__jinja_open_scope(j, before);
    const value *text = tn__jinja_capture(j, n->b);
    j->scope = before;
    return filter_text(j, n->a, n->c, text);
}

static int run_with(tn__jinja *j, const node *n)
{
    scope *before = j->scope;
    tn__jinja_open_scope(j, before);
    scope *own = j->scope;
    for (const node *one = n->d; one; one = one->next) {
        j->scope = before; /* a value cannot use the names of the same block */
        const value *v = tn__jinja_eval(j, one->a);
        j->scope = own;
        tn__jinja_set_variable(j, one->name, v);
    }
    const int then = tn__jinja_run_nodes(j, n->b);
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
            tn__jinja_open_scope(j, before);
            assign(j, n->d, all->item[i]);
            if (tn__jinja_truth(tn__jinja_eval(j, n->c)))
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
        tn__jinja_open_scope(j, before);
        j->at = n->at;
        state->at = i;
        assign(j, n->d, list->item[i]);
        tn__jinja_set_variable(j, "loop", v);
        const int then = tn__jinja_run_nodes(j, n->b);
        j->scope = before;
        if (then == TN__JINJA_BREAKS)
            break;
    }
    j->scope = before;
    return !list->count ? tn__jinja_run_nodes(j, n->e) : TN__JINJA_GOES_ON;
}

static int run_for(tn__jinja *j, const node *n)
{
    return run_loop(j, n, tn__jinja_eval(j, n->a), j->scope, 0);
}

/* Runs loop(list), a call of a recursive loop. Returns its text for the other
 * list. */
const value *tn__jinja_call_loop(tn__jinja *j, const value *of,
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
        if (tn__jinja_truth(tn__jinja_eval(j, n->a)))
            return tn__jinja_run_nodes(j, n->b);
    return n ? tn__jinja_run_nodes(j, n->a) : TN__JINJA_GOES_ON;
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
    const value *of = tn__jinja_eval(j, n->a->a);
    tn__jinja_eval_arguments(j, n->a->b, &given);
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
    return tn__jinja_call_macro(j, of, &given);
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
        print(j, tn__jinja_eval(j, n->a));
        break;
    case TN__JINJA_IF:
        return run_if(j, n);
    case TN__JINJA_BODY:
        return tn__jinja_run_nodes(j, n->a);
    case TN__JINJA_FOR:
        return run_for(j, n);
    case TN__JINJA_SET:
        set_target(j, n, tn__jinja_eval(j, n->a));
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
        tn__jinja_set_variable(j, n->name, macro_of(j, n));
        break;
    case TN__JINJA_BREAK:
        return TN__JINJA_BREAKS;
    case TN__JINJA_CONTINUE:
        return TN__JINJA_CONTINUES;
    default:
        tn__jinja_fail(j, TN_ERR_STATE, "an expression as a statement");
    }
    return TN__JINJA_GOES_ON;
}

int tn__jinja_run_nodes(tn__jinja *j, const node *n)
{
    int then = TN__JINJA_GOES_ON;
    tn__jinja_enter(j);
    for (; n && then == TN__JINJA_GOES_ON; n = n->next) {
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
    tn__jinja_run_nodes(j, body);
    return tn__jinja_text_end(j, &text);
}
