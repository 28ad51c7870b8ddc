/* sequential.c: runs modules one after another (torch.nn.Sequential).
 *
 * Without gradients, each intermediate result is freed as soon as the next one
 * exists, so at most two exist at a time. A linear layer and the activation
 * after it run as one operator if neither has hooks. */
#include <nn/tree.h>

#include <tenon/nn.h>

/* Returns the next child in the list of entries from *at on, and sets *at to
 * the entry after it. Returns NULL if there is no further child. */
static tn_module *next_child(const tn__nn_entry **at)
{
    while (*at && (*at)->kind != TN__NN_CHILD)
        *at = (*at)->next;
    if (!*at)
        return NULL;
    tn_module *child = (*at)->value;
    *at = (*at)->next;
    return child;
}

/* Runs module on x. If module is a linear layer and the next child is an
 * activation that can be fused, runs both and sets *at to the entry after the
 * activation. */
static tn_tensor *advance(tn_module *module, const tn__nn_entry **at,
                          tn_tensor *x)
{
    const tn__nn_entry *behind = *at;
    const tn_module *other =
        tn__nn_linear_can_activate(module, x) ? next_child(&behind) : NULL;
    const char *activation = other ? tn__nn_activation_of(other) : NULL;
    if (!activation)
        return tn_forward(module, x);
    *at = behind;
    return tn__nn_linear_activate(module, x, activation);
}

static tn_tensor *forward(tn_module *self, tn_tensor *input)
{
    const tn__nn_entry *at = self->tree->first;
    tn_module *module = next_child(&at);
    if (!module)
        return input;
    tn_tensor *x = tn_keep(input);
    for (; x && module; module = next_child(&at)) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *y = tn_keep(advance(module, &at, x));
        tn_scope_close(scope);
        tn_drop(x);
        x = y;
    }
    return tn_scope_adopt(x);
}

tn_module *tn_nn_sequential_with(tn_module *const *modules, int count)
{
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "Sequential",
                                         .bytes = sizeof(tn_module),
                                         .forward = forward};
    return tn__nn_holder(&type, (void *const *)modules, count, "module",
                         "nn_sequential", "modules");
}
