/* <tenon/nn_prune.h>: pruning: parameters with some elements set to 0. Part of
 * <tenon/nn.h>. Source: torch.nn.utils.prune.
 *
 *     tn_prune(conv, "weight", "l1_unstructured", .amount = 0.3);
 *     train(net);                       // pruned elements stay 0
 *     tn_prune_remove(conv, "weight");  // an ordinary parameter again
 *
 * Pruning parameter NAME renames it to NAME_orig, which is still trained and
 * saved, and adds a buffer NAME_mask of ones and zeros. The module's value of
 * NAME is their product, as for a parametrized parameter (nn_parametrize.h):
 * each forward computes it, tn_module_parameter returns it. Pruning it again
 * removes some of the elements that are left: the masks are multiplied.
 *
 * Threads: As for all modules: <tenon/nn.h>. */
#ifndef TENON_NN_PRUNE_H
#define TENON_NN_PRUNE_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Prunes module's parameter `name` ("weight"). method is one of
 *
 *   "random_unstructured"  random elements
 *   "l1_unstructured"      the elements of the smallest magnitude
 *   "random_structured"    random slices along .dim
 *   "ln_structured"        the slices along .dim with the smallest .n-norm
 *   "custom_from_mask"     the elements where .mask is 0
 *
 *   amount             the fraction of the elements or slices that are left, 0
 *                      to 1, to set to 0; the result is rounded to an integer
 *   count              the number of elements or slices. Give either amount or
 *                      count
 *   dim                a negative dimension counts from the end. The parameter
 *                      has at least 2 dimensions
 *   n                  1, 2, INFINITY or another number
 *   mask               a tensor of the parameter's shape
 *   importance_scores  a tensor of the parameter's shape, whose magnitudes or
 *                      norms are compared instead of the parameter's
 *
 * Returns module. On failure nothing is changed, and the result is NULL with
 * TN_ERR_ARGUMENT if there is no such parameter, it is parametrized, or an
 * option is missing or out of range; TN_ERR_SHAPE for a mask or
 * importance_scores of another shape; TN_ERR_UNSUPPORTED if the instance of
 * module does not hold the parameter in a member of its struct. */
#define TN_PRUNE_OPTIONS_LIST(X)                                              \
    X(double, amount, TN_NONE_FLOAT)                                          \
    X(int64_t, count, TN_NONE_INT)                                            \
    X(int64_t, dim, TN_NONE_INT)                                              \
    X(double, n, TN_NONE_FLOAT)                                               \
    X(tn_tensor *, mask, NULL)                                                \
    X(tn_tensor *, importance_scores, NULL)
TN_OPTIONS_STRUCT(tn_prune, TN_PRUNE_OPTIONS_LIST);
#define TN_PRUNE_OPTIONS TN_OPTIONS_DEFAULTS(tn_prune, TN_PRUNE_OPTIONS_LIST)
TN_API void *tn_prune_with(tn_module *module, const char *name,
                           const char *method, const tn_prune_options *options);

/* Prunes several parameters together: names[i] of modules[i]. method is
 * "l1_unstructured" or "random_unstructured". amount and count refer to the
 * elements of all of them. importance_scores is an array with an element for
 * each parameter, which may be NULL. The errors are those of tn_prune.
 *
 *     tn_module *const modules[] = {net->conv, net->fc};
 *     const char *const names[] = {"weight", "weight"};
 *     tn_prune_global_unstructured(modules, names, 2, "l1_unstructured",
 *                                  .amount = 0.2); */
#define TN_PRUNE_GLOBAL_UNSTRUCTURED_OPTIONS_LIST(X)                          \
    X(double, amount, TN_NONE_FLOAT)                                          \
    X(int64_t, count, TN_NONE_INT)                                            \
    X(tn_tensor *const *, importance_scores, NULL)
TN_OPTIONS_STRUCT(tn_prune_global_unstructured,
                  TN_PRUNE_GLOBAL_UNSTRUCTURED_OPTIONS_LIST);
#define TN_PRUNE_GLOBAL_UNSTRUCTURED_OPTIONS                                  \
    TN_OPTIONS_DEFAULTS(tn_prune_global_unstructured,                         \
                        TN_PRUNE_GLOBAL_UNSTRUCTURED_OPTIONS_LIST)
TN_API tn_status tn_prune_global_unstructured_with(
    tn_module *const *modules, const char *const *names, int parameter_count,
    const char *method, const tn_prune_global_unstructured_options *options);

/* Makes `name` an ordinary parameter again, with its pruned elements 0. The
 * parameter is the tensor object that NAME_orig was, and becomes the last in
 * the order of registration. Returns module, or NULL with TN_ERR_ARGUMENT if it
 * is not pruned. */
TN_API void *tn_prune_remove(tn_module *module, const char *name);

/* Returns whether a parameter of module or of a module below it is pruned.
 * False for NULL. Cannot fail. */
TN_API bool tn_prune_is_pruned(const tn_module *module);

#ifndef __cplusplus
#define tn_prune(...) TN_CALL_3(tn_prune, __VA_ARGS__, )
#define tn_prune_global_unstructured(...)                                     \
    TN_CALL_4(tn_prune_global_unstructured, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_3(void *, tn_prune, tn_module *, const char *, const char *)
TN_OVERLOAD_4(tn_status, tn_prune_global_unstructured, tn_module *const *,
              const char *const *, int, const char *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
