/* <tenon/nn_parametrize.h>: parameters that are computed from others. Part of
 * <tenon/nn.h>. Source: torch.nn.utils.parametrize and parametrizations.
 *
 * A parametrization is a module that computes the value of a parameter or a
 * buffer of another module:
 *
 *     tn_module *net = tn_nn_linear(20, 20);
 *     tn_nn_orthogonal(net, "weight");         // net's weight is orthogonal,
 *     tn_optim *opt = tn_optim_sgd(tn_parameters(net), .lr = 0.1);
 *     tn_tensor *y = tn_forward(net, x);       // and stays so in training
 *
 * The module no longer has a parameter "weight". It has a child
 * "parametrizations" with a child "weight", a ParametrizationList, whose
 * parameter "original" is optimized and saved:
 * "parametrizations.weight.original". Several parametrizations of one parameter
 * run in the order of registration.
 *
 *   - Each forward of the module computes the value once. Gradients pass to the
 *     original.
 *   - tn_module_parameter(net, "weight") computes the value; the open scope owns
 *     the result.
 *   - Copies (tn_module_clone, tn_module_substitute), tn_module_to, files and
 *     optimizers treat the originals like all other parameters.
 *   - A function between tn_module_begin and tn_module_end reads the members of
 *     tn_module_call.self, which has the computed values. The module's own
 *     members do not have them.
 *   - A forward gets such a copy of its module as `self`. Members that it
 *     changes are changed in the module. The copy must not be used after the
 *     forward has returned.
 *
 * Threads: As for all modules: <tenon/nn.h>. The mode of
 * TN_PARAMETRIZE_CACHED is per thread. */
#ifndef TENON_NN_PARAMETRIZE_H
#define TENON_NN_PARAMETRIZE_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Registers a parametrization of module's parameter or buffer `name`. From then
 * on its value is tn_forward(parametrization, original). If it is parametrized
 * already, the new parametrization is applied to the previous value. The class
 * of the parametrization may have a right_inverse (tn_module_class); the first
 * registration calls it to compute the original from the present value. Without
 * it, the original is the present value. If the first parametrization has
 * several inputs, they are called original0, original1, ...: new parameters,
 * which an optimizer made before does not have. A single original is the same
 * tensor object as before. The parametrization gets the mode (training) of
 * module.
 *
 *   unsafe  true: the value may have another shape or dtype than the present
 *           one. false: both are checked, for which the parametrization runs
 *           once
 *
 * Returns module. On failure nothing is changed, and the result is NULL with
 * TN_ERR_ARGUMENT if there is no such parameter, it is pruned, or the numbers
 * of inputs do not fit; TN_ERR_SHAPE, TN_ERR_DTYPE or TN_ERR_DEVICE for a value
 * or original that does not fit; TN_ERR_UNSUPPORTED if the instance of module
 * does not hold the parameter in a member of its struct. */
#define TN_MODULE_REGISTER_PARAMETRIZATION_OPTIONS_LIST(X) X(bool, unsafe, false)
TN_OPTIONS_STRUCT(tn_module_register_parametrization,
                  TN_MODULE_REGISTER_PARAMETRIZATION_OPTIONS_LIST);
#define TN_MODULE_REGISTER_PARAMETRIZATION_OPTIONS                            \
    TN_OPTIONS_DEFAULTS(tn_module_register_parametrization,                   \
                        TN_MODULE_REGISTER_PARAMETRIZATION_OPTIONS_LIST)
TN_API void *tn_module_register_parametrization_with(
    tn_module *module, const char *name, tn_module *parametrization,
    const tn_module_register_parametrization_options *options);

/* Returns whether module's own parameter or buffer `name` is parametrized, or,
 * if name is NULL, whether any of its own parameters and buffers is. False for
 * NULL. Cannot fail. */
TN_API bool tn_module_is_parametrized(const tn_module *module,
                                      const char *name);

/* Makes `name` an ordinary parameter or buffer again; it becomes the last in
 * the order of registration.
 *
 *   leave_parametrized  true: it gets the value of the parametrizations, which
 *                       run once more for this. false: it gets the value of the
 *                       original; rejected if there are several originals
 *
 * A single original stays the same tensor object, so optimizers need no change.
 * Returns module, or NULL with TN_ERR_ARGUMENT if `name` is not
 * parametrized. */
#define TN_MODULE_REMOVE_PARAMETRIZATIONS_OPTIONS_LIST(X)                     \
    X(bool, leave_parametrized, true)
TN_OPTIONS_STRUCT(tn_module_remove_parametrizations,
                  TN_MODULE_REMOVE_PARAMETRIZATIONS_OPTIONS_LIST);
#define TN_MODULE_REMOVE_PARAMETRIZATIONS_OPTIONS                             \
    TN_OPTIONS_DEFAULTS(tn_module_remove_parametrizations,                    \
                        TN_MODULE_REMOVE_PARAMETRIZATIONS_OPTIONS_LIST)
TN_API void *tn_module_remove_parametrizations_with(
    tn_module *module, const char *name,
    const tn_module_remove_parametrizations_options *options);

/* Sets the originals such that the parametrized `name` has this value, by the
 * right_inverse of each parametrization, the last one first (PyTorch's
 * module.weight = value). Returns module, or NULL with TN_ERR_ARGUMENT if
 * `name` is not parametrized, TN_ERR_UNSUPPORTED if a parametrization has no
 * right_inverse, or TN_ERR_SHAPE, TN_ERR_DTYPE or TN_ERR_DEVICE if the value
 * does not fit. */
TN_API void *tn_module_set_parametrized(tn_module *module, const char *name,
                                        tn_tensor *value);

/* A region (base.h) in which the value of each parametrized parameter is
 * computed once, when it is first needed, and then reused: for a layer that
 * runs many times, such as a cell of a recurrent network. Do not change
 * parameters in the region. The values are freed at the end of the outermost
 * region. tn_parametrize_cache_set switches the mode and returns the previous
 * one. Cannot fail. Source: torch.nn.utils.parametrize.cached. */
TN_API bool tn_parametrize_cache_set(bool on);
#ifndef __cplusplus
static inline tn_region tn_parametrize_cached_begin(void)
{
    tn_region region = {tn_parametrize_cache_set(true), true};
    return region;
}
static inline void tn_parametrize_cached_end(tn_region *region)
{
    tn_parametrize_cache_set(region->was != 0);
}
#define TN_PARAMETRIZE_CACHED                                                 \
    TN__REGION(tn_cached_, tn_parametrize_cached_begin(),                     \
               tn_parametrize_cached_end)
#define TN_PARAMETRIZE_CACHED_HERE                                            \
    TN__REGION_HERE(tn_cached_, tn_parametrize_cached_begin(),                \
                    tn_parametrize_cached_end)
#else
typedef tn_region_of<bool, tn_parametrize_cache_set> tn_parametrize_cached;
#define TN_PARAMETRIZE_CACHED TN__REGION(tn_cached_, tn_parametrize_cached, true)
#define TN_PARAMETRIZE_CACHED_HERE                                            \
    TN__REGION_HERE(tn_cached_, tn_parametrize_cached, true)
#endif

/* ---- parametrizations ---------------------------------------------------- */

/* A parametrization that calls functions of yours. right_inverse may be NULL.
 * Both return NULL with an error (tn_error_set) to fail. context is lent.
 *
 *     static tn_tensor *symmetric(tn_tensor *x, void *context)
 *     {
 *         tn_tensor *upper = tn_triu(x, .diagonal = 1);
 *         return tn_add(tn_triu(x), tn_transpose(upper, 0, 1));
 *     }
 *     tn_module_register_parametrization(
 *         net, "weight", tn_nn_parametrization(symmetric, NULL, NULL));
 */
typedef tn_tensor *(*tn_parametrize_function)(tn_tensor *x, void *context);
TN_API tn_module *
tn_nn_parametrization(tn_parametrize_function forward,
                      tn_parametrize_function right_inverse, void *context);

/* The functions below register a parametrization of module's parameter `name`
 * ("weight"), and return module, or NULL for the reasons of
 * tn_module_register_parametrization. */

/* value = original0 * original1 / norm(original1): weight normalisation
 * (arXiv:1602.07868). The norm is taken over each slice along dim, or over the
 * whole tensor for dim -1. */
#define TN_NN_WEIGHT_NORM_OPTIONS_LIST(X) X(int64_t, dim, 0)
TN_OPTIONS_STRUCT(tn_nn_weight_norm, TN_NN_WEIGHT_NORM_OPTIONS_LIST);
#define TN_NN_WEIGHT_NORM_OPTIONS                                             \
    TN_OPTIONS_DEFAULTS(tn_nn_weight_norm, TN_NN_WEIGHT_NORM_OPTIONS_LIST)
TN_API void *tn_nn_weight_norm_with(tn_module *module, const char *name,
                                    const tn_nn_weight_norm_options *options);

/* Spectral normalisation (arXiv:1802.05957): divides the original by its
 * largest singular value, as a matrix with dimension dim as rows. The value is
 * estimated by the power method, whose vectors are the buffers _u and _v. In
 * training mode each computation makes n_power_iterations steps, which change
 * the buffers. A 1-d tensor is divided by its norm.
 *
 *   n_power_iterations   1 to 10000
 *   eps                  the smallest norm that a vector is divided by
 *   dim                  default: 1 for a ConvTranspose, else 0 */
#define TN_NN_SPECTRAL_NORM_OPTIONS_LIST(X)                                   \
    X(int64_t, n_power_iterations, 1)                                         \
    X(double, eps, 1e-12)                                                     \
    X(int64_t, dim, TN_NONE_INT)
TN_OPTIONS_STRUCT(tn_nn_spectral_norm, TN_NN_SPECTRAL_NORM_OPTIONS_LIST);
#define TN_NN_SPECTRAL_NORM_OPTIONS                                           \
    TN_OPTIONS_DEFAULTS(tn_nn_spectral_norm, TN_NN_SPECTRAL_NORM_OPTIONS_LIST)
TN_API void *
tn_nn_spectral_norm_with(tn_module *module, const char *name,
                         const tn_nn_spectral_norm_options *options);

/* Makes matrices (..., m, n) orthogonal: their columns are orthonormal, or
 * their rows if m < n.
 *
 *   orthogonal_map       "matrix_exp": exp(A) of a skew-symmetric A; "cayley":
 *                        (I + A/2) (I - A/2)^-1; "householder": a product of
 *                        reflections. Default: "matrix_exp" for square matrices,
 *                        else "householder"
 *   use_trivialization   true: stores the present value, made orthogonal, in a
 *                        buffer `base` and multiplies the result of the map by
 *                        it, so the original starts at a simple point
 *                        (arXiv:1909.09501). Rejected for a parameter that is
 *                        parametrized already. false: with "householder", the
 *                        first value is the present value, made orthogonal;
 *                        with the other maps, it is the map of the present
 *                        value
 *
 * Fails with TN_ERR_SHAPE for fewer than 2 dimensions. */
#define TN_NN_ORTHOGONAL_OPTIONS_LIST(X)                                      \
    X(const char *, orthogonal_map, NULL)                                     \
    X(bool, use_trivialization, true)
TN_OPTIONS_STRUCT(tn_nn_orthogonal, TN_NN_ORTHOGONAL_OPTIONS_LIST);
#define TN_NN_ORTHOGONAL_OPTIONS                                              \
    TN_OPTIONS_DEFAULTS(tn_nn_orthogonal, TN_NN_ORTHOGONAL_OPTIONS_LIST)
TN_API void *tn_nn_orthogonal_with(tn_module *module, const char *name,
                                   const tn_nn_orthogonal_options *options);

#ifndef __cplusplus
#define tn_module_register_parametrization(...)                               \
    TN_CALL_3(tn_module_register_parametrization, __VA_ARGS__, )
#define tn_module_remove_parametrizations(...)                                \
    TN_CALL_2(tn_module_remove_parametrizations, __VA_ARGS__, )
#define tn_nn_weight_norm(...) TN_CALL_2(tn_nn_weight_norm, __VA_ARGS__, )
#define tn_nn_spectral_norm(...) TN_CALL_2(tn_nn_spectral_norm, __VA_ARGS__, )
#define tn_nn_orthogonal(...) TN_CALL_2(tn_nn_orthogonal, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_3(void *, tn_module_register_parametrization, tn_module *,
              const char *, tn_module *)
TN_OVERLOAD_2(void *, tn_module_remove_parametrizations, tn_module *,
              const char *)
TN_OVERLOAD_2(void *, tn_nn_weight_norm, tn_module *, const char *)
TN_OVERLOAD_2(void *, tn_nn_spectral_norm, tn_module *, const char *)
TN_OVERLOAD_2(void *, tn_nn_orthogonal, tn_module *, const char *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
