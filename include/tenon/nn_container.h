/* <tenon/nn_container.h>: modules that hold others. Part of <tenon/nn.h>.
 *
 *     struct net { tn_module base; tn_module *layers, *heads; };
 *
 *     net->layers = tn_module_add(&net->base, "layers", tn_nn_module_list());
 *     for (int i = 0; i < 4; i++)
 *         tn_module_append(net->layers, tn_nn_linear(8, 8));
 *     net->heads = tn_module_add(&net->base, "heads", tn_nn_module_dict());
 *     tn_module_add(net->heads, "class", tn_nn_linear(8, 10));
 *
 *     for (int i = 0; i < tn_module_child_count(net->layers); i++)
 *         x = tn_forward(tn_module_child_at(net->layers, i), x);
 *     return tn_forward(tn_module_child(net->heads, "class"), x);
 *
 * A list or dict has no forward, so tn_forward on it fails with
 * TN_ERR_UNSUPPORTED. Its name is part of the paths of the modules in it
 * ("layers.0.weight"). Each function returns a module owned by the open scope.
 * Source: torch.nn.
 *
 * Threads: As for all modules: <tenon/nn.h>. */
#ifndef TENON_NN_CONTAINER_H
#define TENON_NN_CONTAINER_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A list of modules, named "0", "1", ...: tn_nn_module_list(a, b), or
 * tn_nn_module_list() for an empty list. The macro counts the arguments. NULL
 * if a module is NULL. */
TN_API tn_module *tn_nn_module_list_with(tn_module *const *modules, int count);
/* An empty dict of modules. tn_module_add adds a module, tn_module_child
 * returns one by its name. */
TN_API tn_module *tn_nn_module_dict(void);
/* A list of parameters, named "0", "1", ... The values are made to require
 * gradients. */
TN_API tn_module *tn_nn_parameter_list_with(tn_tensor *const *values,
                                            int count);

/* Registers child, or value as a parameter, in a list, a sequential or any
 * other module. Its name is the number of children, or of parameters, that
 * module had before. Returns child, or value. Returns NULL for the reasons of
 * tn_module_add and tn_module_add_parameter. */
TN_API void *tn_module_append(tn_module *module, tn_module *child);
TN_API tn_tensor *tn_module_append_parameter(tn_module *module,
                                             tn_tensor *value);

/* Return the number of children of module itself, without the children of
 * these; child i, in the order of registration; and the name of child i
 * ("class"). A negative i counts from the end. The module owns the results.
 * If i is out of range, the result is NULL. Cannot fail. */
TN_API int tn_module_child_count(const tn_module *module);
TN_API tn_module *tn_module_child_at(const tn_module *module, int i);
TN_API const char *tn_module_child_name(const tn_module *module, int i);
/* Returns parameter i of module itself, in the order of registration. A
 * negative i counts from the end. The module owns the result. Returns NULL if i
 * is out of range. Cannot fail. */
TN_API tn_tensor *tn_module_parameter_at(const tn_module *module, int i);

/* A layer that returns its input, to replace a layer that is not wanted. */
TN_API tn_module *tn_nn_identity(void);

#ifndef __cplusplus
/* The first element is not used. It keeps the array from being empty, which C
 * does not allow, if the macro has no arguments. */
#define tn_nn_module_list(...)                                                \
    tn_nn_module_list_with(                                                   \
        (tn_module *[]){NULL, __VA_ARGS__} + 1,                             \
        (int)(sizeof((tn_module *[]){NULL, __VA_ARGS__}) /                  \
              sizeof(tn_module *)) - 1)
#define tn_nn_parameter_list(...)                                             \
    tn_nn_parameter_list_with(                                                \
        (tn_tensor *[]){NULL, __VA_ARGS__} + 1,                             \
        (int)(sizeof((tn_tensor *[]){NULL, __VA_ARGS__}) /                  \
              sizeof(tn_tensor *)) - 1)
#else
} /* extern "C" */
template <typename... Modules>
inline tn_module *tn_nn_module_list(Modules... modules)
{
    tn_module *list[] = {nullptr, modules...};
    return tn_nn_module_list_with(list + 1, (int)sizeof...(modules));
}
template <typename... Values>
inline tn_module *tn_nn_parameter_list(Values... values)
{
    tn_tensor *list[] = {nullptr, values...};
    return tn_nn_parameter_list_with(list + 1, (int)sizeof...(values));
}
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
