/* nn_compile.c: modules that tn_forward runs through compiled functions
 * (tn_module_compile).
 *
 * A form is one way to call a module: with these inputs given, in these modes, with
 * these parameters. Each form has a compiled function of its own. */
#include <nn/tree.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <tenon/autograd.h>
#include <tenon/compile.h>
#include <tenon/ops.h>

/* Forms that are kept. The one that was not used for the longest time is
 * dropped. */
enum { MAX_FORMS = 4 };

/* The way from a compiled function to its form. The program may keep the function
 * for longer than the form. */
typedef struct link {
    tn_object object;
    struct form *form; /* NULL once the form is gone */
} link;

static const tn_object_class link_class = {
    sizeof link_class, "link to a compiled form", sizeof(link), NULL};

typedef struct form {
    tn_object object;
    link *link;        /* counted reference */
    struct form *next; /* counted reference */
    tn_module *module; /* not owned: it owns its forms */
    uint32_t given;    /* bit i: input i is not NULL */
    int out_count;
    uint64_t state;    /* hash of the modules' modes and tensors */
    tn_compiled *compiled; /* counted reference */
} form;

typedef struct compiled {
    tn__nn_compiled base;
    tn_module_compile_options options;
    form *first; /* the form that ran last is the first; counted reference */
    _Atomic bool running;
} compiled;

static void form_release(void *object)
{
    form *f = object;
    if (f->link)
        f->link->form = NULL;
    tn_drop(f->link);
    tn_drop(f->next);
    tn_drop(f->compiled);
}

static const tn_object_class form_class = {sizeof form_class, "compiled form",
                                           sizeof(form), form_release};

static void compiled_release(void *object)
{
    tn_drop(((compiled *)object)->first);
}

static const tn_object_class compiled_class = {
    sizeof compiled_class, "compiled module", sizeof(compiled),
    compiled_release};

static compiled *compiled_of(const tn_module *module)
{
    return (compiled *)module->tree->compiled;
}

/* ---- what a program depends on ---------------------------------------------- */

typedef struct survey {
    uint64_t state;
    bool wants_gradient;     /* a parameter requires a gradient */
    const tn_module *hooked; /* a module with hooks, or NULL */
    const tn_module *trains; /* a module in training mode, or NULL */
} survey;

static void mix(survey *s, uint64_t number)
{
    s->state = (s->state ^ number) * 0x9e3779b97f4a7c15u;
    s->state ^= s->state >> 29;
}

static void look_at(survey *s, const tn_module *module)
{
    const struct tn_module_tree *tree = module->tree;
    mix(s, (uint64_t)(uintptr_t)module << 1 | module->training);
    mix(s, tree->bindings);
    if (tree->hook && !s->hooked)
        s->hooked = module;
    if (module->training && !s->trains)
        s->trains = module;
    for (const tn__nn_entry *e = tree->first; e; e = e->next) {
        if (e->kind == TN__NN_CHILD) {
            look_at(s, e->value);
            continue;
        }
        mix(s, (uint64_t)(uintptr_t)e->value);
        if (e->kind == TN__NN_COMPUTED) {
            const tn__nn_source *source = e->value;
            look_at(s, &source->base);
        } else if (e->kind == TN__NN_PARAMETER) {
            s->wants_gradient |= tn_tensor_requires_grad(e->value);
        }
    }
}

static bool check_modes(const tn_module *module, const survey *s, bool freeze)
{
    if (s->hooked)
        tn_error_refuse_argument(TN_ERR_STATE, "forward", NULL,
                                 "%s is compiled, but %s has a hook, which a "
                                 "replay would not call: remove the hook, or call "
                                 "tn_module_compile with .off",
                                 module->type->name, s->hooked->type->name);
    else if (s->trains && freeze)
        tn_error_refuse_argument(TN_ERR_STATE, "forward", NULL,
                                 "%s is frozen, but %s is in training mode: call "
                                 "tn_module_eval(net) first",
                                 module->type->name, s->trains->type->name);
    return !tn_error();
}

static bool check_call(const tn_module *module, tn_tensor *const *in,
                       bool freeze, survey *s)
{
    *s = (survey){0};
    look_at(s, module);
    if (!check_modes(module, s, freeze))
        return false;
    for (int i = 0; i < module->tree->inputs; i++)
        s->wants_gradient |= in[i] && tn_tensor_requires_grad(in[i]);
    if (s->wants_gradient && tn_grad_mode())
        tn_error_refuse_argument(TN_ERR_STATE, "forward", NULL,
                                 "%s is compiled, and a replay would not record "
                                 "gradients: call it within TN_NO_GRAD, or "
                                 "compile the whole step with tn_compile_step",
                                 module->type->name);
    return !tn_error();
}

/* ---- forms ------------------------------------------------------------------- */

static tn_status run_form(tn_tensor *const *in, int in_count, tn_tensor **out,
                          int out_count, void *context)
{
    const form *f = ((const link *)context)->form;
    if (!f)
        return tn_error_refuse_argument(
            TN_ERR_STATE, "compiled_run", "compiled",
            "it belongs to a module that was freed or compiled again");
    tn_tensor *all[TN_MODULE_VALUES] = {NULL};
    (void)in_count;
    for (int i = 0; i < f->module->tree->inputs; i++)
        if (f->given >> i & 1)
            all[i] = *in++;
    return tn__nn_run(f->module, all, out, out_count) ? TN_OK
                                                      : tn_error_code();
}

/* Drops the forms after the first `count`. */
static void forget(form *f, int count)
{
    for (; f && count > 1; count--)
        f = f->next;
    if (f) {
        tn_drop(f->next);
        f->next = NULL;
    }
}

/* Moves the form for this call to the front, or makes it. */
static form *form_for(compiled *c, tn_module *module, uint32_t given,
                      int out_count, uint64_t state)
{
    for (form **at = &c->first; *at; at = &(*at)->next) {
        form *f = *at;
        if (f->given == given && f->out_count == out_count &&
            f->state == state) {
            *at = f->next;
            f->next = c->first;
            return c->first = f;
        }
    }
    tn_scope *scope = tn_scope_open();
    form *f = tn_object_new(&form_class, 0);
    link *l = f ? tn_object_new(&link_class, 0) : NULL;
    if (l) {
        f->link = tn_keep(l);
        l->form = f;
        f->module = module;
        f->given = given;
        f->out_count = out_count;
        f->state = state;
        f->compiled = tn_compile(run_form, l, .keep = l, .plans = c->options.plans,
                                 .check_every = c->options.check_every,
                                 .fuse = c->options.fuse,
                                 .freeze = c->options.freeze,
                                 .name = module->type->name);
        if (f->compiled && tn_keep(f->compiled)) {
            forget(c->first, MAX_FORMS - 1);
            f->next = c->first;
            c->first = tn_keep(f);
        } else {
            f = NULL;
        }
    } else {
        f = NULL;
    }
    tn_scope_close(scope);
    return f;
}

static bool run_compiled(tn_module *module, tn_tensor *const *in,
                         tn_tensor **out, int out_count)
{
    survey s;
    compiled *c = compiled_of(module);
    if (!check_call(module, in, c->options.freeze, &s))
        return false;
    if (atomic_exchange(&c->running, true)) {
        tn_error_refuse_argument(TN_ERR_STATE, "forward", NULL,
                                 "%s is compiled, and another thread is running "
                                 "it: compile a copy for each thread "
                                 "(tn_module_clone)",
                                 module->type->name);
        return false;
    }
    tn_tensor *given[TN_MODULE_VALUES];
    uint32_t mask = 0;
    int count = 0;
    for (int i = 0; i < module->tree->inputs; i++)
        if (in[i]) {
            given[count++] = in[i];
            mask |= 1u << i;
        }
    form *f = form_for(c, module, mask, out_count, s.state);
    const bool done = f && tn_compiled_run(f->compiled, given, count, out,
                                           out_count) >= 0;
    atomic_store(&c->running, false);
    return done;
}

/* ---- public -------------------------------------------------------------------- */

TN_OPTIONS_TYPE(tn_module_compile, "module_compile", "module",
                TN_MODULE_COMPILE_OPTIONS_LIST)

tn_status tn_module_compile_with(tn_module *any,
                                 const tn_module_compile_options *options)
{
    tn_module_compile_options o;
    tn_module *module = tn__nn_module(any, "module_compile");
    if (!module)
        return tn_error_code();
    if (tn_error())
        return TN_ERR_STATE;
    if (tn_options_take(tn_module_compile_type(), &o, options) < 0)
        return TN_ERR_ARGUMENT;
    if (o.plans < 1 || o.check_every < 0)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "module_compile",
            o.plans < 1 ? "plans" : "check_every",
            "%s is %" PRId64 "; expected at least %d",
            o.plans < 1 ? "plans" : "check_every",
            o.plans < 1 ? o.plans : o.check_every, o.plans < 1);
    if (compiled_of(module) && compiled_of(module)->running)
        return tn_error_refuse_argument(TN_ERR_STATE, "module_compile",
                                        "module", "module is running; call "
                                        "this before or after its forward");
    compiled *c = NULL;
    if (!o.off) {
        tn_scope *scope = tn_scope_open();
        c = tn_object_new(&compiled_class, 0);
        if (c) {
            c->base.run = run_compiled;
            c->options = o;
        }
        c = tn_keep(c);
        tn_scope_close(scope);
        if (!c)
            return tn_error_code();
    }
    tn_drop(module->tree->compiled);
    module->tree->compiled = c ? &c->base : NULL;
    return TN_OK;
}

tn_compiled *tn_module_compiled(const tn_module *any)
{
    const tn_module *module =
        any ? tn__nn_module(any, "module_compiled") : NULL;
    const compiled *c = module ? compiled_of(module) : NULL;
    return c && c->first ? c->first->compiled : NULL;
}

/* The function of tn_freeze. Its context is the module. */
static tn_status run_frozen(tn_tensor *const *in, int in_count, tn_tensor **out,
                            int out_count, void *context)
{
    tn_module *module = context;
    survey s = {0};
    (void)in_count, (void)out_count;
    look_at(&s, module);
    if (!check_modes(module, &s, true))
        return tn_error_code();
    out[0] = tn_forward(module, in[0]);
    return out[0] ? TN_OK : tn_error_code();
}

tn_compiled *tn_freeze(tn_module *any, tn_tensor *example)
{
    tn_module *module = tn__nn_module(any, "freeze");
    if (!module || tn_error())
        return NULL;
    if (!example) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "freeze", "example",
                                 "example is NULL");
        return NULL;
    }
    if (!tn_object_check_kind(example, "tensor", "freeze", "example"))
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_compiled *frozen = tn_compile(run_frozen, module, .freeze = true,
                                     .keep = module,
                                     .name = module->type->name);
    /* The second input is another tensor, because a function that was called
     * with one tensor only could use it through its context. */
    tn_tensor *in = example, *out;
    TN_NO_GRAD
        for (int i = 0; i < 2 && frozen && !tn_error(); i++) {
            tn_compiled_run(frozen, &in, 1, &out, 1);
            in = tn_clone(example);
        }
    return tn_scope_result(scope, tn_error() ? NULL : frozen);
}
