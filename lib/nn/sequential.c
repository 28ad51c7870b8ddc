/* sequential.c: modules one after another.
 *
 * Each activation goes as soon as the next one is there, unless a gradient
 * needs it: fifty layers without gradients hold two at a time. */
#include <stdio.h>
#include <tenon/nn.h>

typedef struct sequential {
    tn_module base;
    int count;
    tn_module *module[]; /* lent: the tree keeps them */
} sequential;

static tn_tensor *forward(tn_module *self, tn_tensor *input)
{
    sequential *s = (sequential *)self;
    if (s->count == 0)
        return input;
    tn_tensor *x = tn_keep(input);
    for (int i = 0; x && i + 1 < s->count; i++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *y = tn_keep(tn_forward(s->module[i], x));
        tn_scope_close(scope);
        tn_drop(x);
        x = y;
    }
    tn_tensor *y = x ? tn_forward(s->module[s->count - 1], x) : NULL;
    if (y == x) /* the last layer did nothing */
        return tn_scope_adopt(x);
    tn_drop(x);
    return y;
}

tn_module *tn_nn_sequential_with(tn_module *const *modules, int count)
{
    if (count < 0 || (count && !modules)) {
        tn_error_set(TN_ERR_ARGUMENT, "nn_sequential: modules is NULL");
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        if (!modules[i])
            return NULL;
    }
    static const tn_module_class type = {
        sizeof type, "Sequential", sizeof(sequential), forward, NULL, NULL};
    tn_scope *scope = tn_scope_open();
    sequential *s = tn_module_new_with(&type,
                                       (size_t)count * sizeof(tn_module *));
    bool made = s != NULL;
    for (int i = 0; made && i < count; i++) {
        char name[12];
        snprintf(name, sizeof name, "%d", i);
        s->module[s->count++] = modules[i];
        made = tn_module_add(s, name, modules[i]) != NULL;
    }
    return tn_scope_result(scope, made ? &s->base : NULL);
}
