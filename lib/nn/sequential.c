/* sequential.c: modules called one after another.
 *
 * Each intermediate result is freed as soon as the next one exists, unless a
 * gradient needs it: without gradients fifty layers hold two at a time. A
 * linear layer and the activation after it run as one operator if neither has
 * hooks. */
#include <nn/tree.h>

#include <stdio.h>
#include <tenon/nn.h>

typedef struct sequential {
    tn_module base;
    int count;
    tn_module *module[]; /* lent: the tree keeps them */
} sequential;

/* The output of module *i, or of it and the next one fused, for x. Advances
 * *i. */
static tn_tensor *advance(const sequential *s, int *i, tn_tensor *x)
{
    tn_module *module = s->module[(*i)++];
    const char *next = *i < s->count && tn__nn_linear_can_activate(module, x)
                           ? tn__nn_activation_of(s->module[*i])
                           : NULL;
    if (!next)
        return tn_forward(module, x);
    (*i)++;
    return tn__nn_linear_activate(module, x, next);
}

static tn_tensor *forward(tn_module *self, tn_tensor *input)
{
    sequential *s = (sequential *)self;
    if (s->count == 0)
        return input;
    tn_tensor *x = tn_keep(input);
    for (int i = 0; x && i < s->count;) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *y = tn_keep(advance(s, &i, x));
        tn_scope_close(scope);
        tn_drop(x);
        x = y;
    }
    return tn_scope_adopt(x);
}

tn_module *tn_nn_sequential_with(tn_module *const *modules, int count)
{
    if (count < 0 || (count && !modules)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "nn_sequential", "modules",
                                 "modules is NULL");
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        char argument[32];
        snprintf(argument, sizeof argument, "modules[%d]", i);
        if (!tn_object_check_kind(modules[i], "module", "nn_sequential",
                                  argument))
            return NULL;
    }
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "Sequential",
                                         .bytes = sizeof(sequential),
                                         .forward = forward};
    tn_scope *scope = tn_scope_open();
    sequential *s = tn_module_new_with(&type,
                                       (size_t)count * sizeof(tn_module *));
    bool made = s != NULL;
    for (int i = 0; made && i < count; i++) {
        char name[12];
        snprintf(name, sizeof name, "%d", i);
        s->module[s->count++] = modules[i];
        made = tn_module_add(&s->base, name, modules[i]) != NULL;
    }
    return tn_scope_result(scope, made ? &s->base : NULL);
}
