/* <tenon/nn_init.h>: initial values of parameters. Part of <tenon/nn.h>.
 *
 *     tn_module *net = tn_nn_sequential(tn_nn_conv2d(3, 16, 3), tn_nn_relu());
 *     tn_init_kaiming_normal(tn_module_parameter(net, "0.weight"),
 *                            .mode = "fan_out", .nonlinearity = "relu");
 *     tn_init_zeros(tn_module_parameter(net, "0.bias"));
 *
 * Each call fills x in place and returns x. The change is not recorded, so x
 * may be a leaf that requires a gradient. A backward pass that needs the old
 * value reports an error. Random numbers come from the calling thread's
 * generator (tn_manual_seed) and are drawn in float64 if x is float64, else in
 * float32. On failure x is unchanged and the result is NULL, with
 * TN_ERR_ARGUMENT for an option that is not allowed, TN_ERR_SHAPE if x has too
 * few or too many dimensions, TN_ERR_DTYPE if x is not floating-point
 * (tn_init_constant, _zeros and _ones accept any dtype), or TN_ERR_MEMORY if
 * memory runs out. Source: torch.nn.init.
 *
 * For x of shape (out, in, ...), fan_in is in * r and fan_out is out * r, where
 * r is the product of the sizes after the first two. The calls that use them
 * need 2 dimensions or more.
 *
 * Threads: x is changed, so no other thread may use it meanwhile. */
#ifndef TENON_NN_INIT_H
#define TENON_NN_INIT_H

#include <tenon/options.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- constants ---------------------------------------------------------- */

/* Set all elements to value, to 0 and to 1. */
TN_API tn_tensor *tn_init_constant(tn_tensor *x, double value);
TN_API tn_tensor *tn_init_zeros(tn_tensor *x);
TN_API tn_tensor *tn_init_ones(tn_tensor *x);
/* Sets x (n, m) to the identity matrix: ones on the diagonal, zeros
 * elsewhere. */
TN_API tn_tensor *tn_init_eye(tn_tensor *x);

/* Sets the weight x of a convolution, (out, in, kernel ...) with 3 to 5
 * dimensions, so that the convolution copies input channels to output channels,
 * as many as possible: x[g out/groups + i, i, centre] = 1 for each group g, and
 * 0 elsewhere. groups divides out. */
#define TN_INIT_DIRAC_OPTIONS_LIST(X) X(int64_t, groups, 1)
TN_OPTIONS_STRUCT(tn_init_dirac, TN_INIT_DIRAC_OPTIONS_LIST);
#define TN_INIT_DIRAC_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_init_dirac, TN_INIT_DIRAC_OPTIONS_LIST)
TN_API tn_tensor *tn_init_dirac_with(tn_tensor *x,
                                     const tn_init_dirac_options *options);

/* ---- distributions ------------------------------------------------------ */

/* Draws from the uniform distribution on [a, b). a is at most b. */
#define TN_INIT_UNIFORM_OPTIONS_LIST(X) X(double, a, 0) X(double, b, 1)
TN_OPTIONS_STRUCT(tn_init_uniform, TN_INIT_UNIFORM_OPTIONS_LIST);
#define TN_INIT_UNIFORM_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_init_uniform, TN_INIT_UNIFORM_OPTIONS_LIST)
TN_API tn_tensor *tn_init_uniform_with(tn_tensor *x,
                                       const tn_init_uniform_options *options);

/* Draws from the normal distribution. std is 0 or more. */
#define TN_INIT_NORMAL_OPTIONS_LIST(X) X(double, mean, 0) X(double, std, 1)
TN_OPTIONS_STRUCT(tn_init_normal, TN_INIT_NORMAL_OPTIONS_LIST);
#define TN_INIT_NORMAL_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_init_normal, TN_INIT_NORMAL_OPTIONS_LIST)
TN_API tn_tensor *tn_init_normal_with(tn_tensor *x,
                                      const tn_init_normal_options *options);

/* Draws from the normal distribution, truncated to the interval [a, b]. std is
 * above 0, and a is below b. */
#define TN_INIT_TRUNC_NORMAL_OPTIONS_LIST(X)                                  \
    X(double, mean, 0)                                                        \
    X(double, std, 1)                                                         \
    X(double, a, -2)                                                          \
    X(double, b, 2)
TN_OPTIONS_STRUCT(tn_init_trunc_normal, TN_INIT_TRUNC_NORMAL_OPTIONS_LIST);
#define TN_INIT_TRUNC_NORMAL_OPTIONS                                          \
    TN_OPTIONS_DEFAULTS(tn_init_trunc_normal,                                 \
                        TN_INIT_TRUNC_NORMAL_OPTIONS_LIST)
TN_API tn_tensor *
tn_init_trunc_normal_with(tn_tensor *x,
                          const tn_init_trunc_normal_options *options);

/* Draws with standard deviation std = gain sqrt(2 / (fan_in + fan_out)),
 * uniform in [-sqrt(3) std, sqrt(3) std) or normal (Glorot and Bengio,
 * 2010). */
#define TN_INIT_XAVIER_OPTIONS_LIST(X) X(double, gain, 1)
TN_OPTIONS_STRUCT(tn_init_xavier_uniform, TN_INIT_XAVIER_OPTIONS_LIST);
#define TN_INIT_XAVIER_UNIFORM_OPTIONS                                        \
    TN_OPTIONS_DEFAULTS(tn_init_xavier_uniform, TN_INIT_XAVIER_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_init_xavier_normal, TN_INIT_XAVIER_OPTIONS_LIST);
#define TN_INIT_XAVIER_NORMAL_OPTIONS                                         \
    TN_OPTIONS_DEFAULTS(tn_init_xavier_normal, TN_INIT_XAVIER_OPTIONS_LIST)
TN_API tn_tensor *
tn_init_xavier_uniform_with(tn_tensor *x,
                            const tn_init_xavier_uniform_options *options);
TN_API tn_tensor *
tn_init_xavier_normal_with(tn_tensor *x,
                           const tn_init_xavier_normal_options *options);

/* Draws with standard deviation std = gain / sqrt(fan), uniform in
 * [-sqrt(3) std, sqrt(3) std) or normal (He et al., 2015, arXiv:1502.01852).
 *
 *   a             negative slope of "leaky_relu"; rejected with another
 *                 nonlinearity
 *   mode          "fan_in" or "fan_out": which of the two fan is
 *   nonlinearity  determines gain; a name of tn_init_calculate_gain */
#define TN_INIT_KAIMING_OPTIONS_LIST(X)                                       \
    X(double, a, 0)                                                           \
    X(const char *, mode, "fan_in")                                           \
    X(const char *, nonlinearity, "leaky_relu")
TN_OPTIONS_STRUCT(tn_init_kaiming_uniform, TN_INIT_KAIMING_OPTIONS_LIST);
#define TN_INIT_KAIMING_UNIFORM_OPTIONS                                       \
    TN_OPTIONS_DEFAULTS(tn_init_kaiming_uniform, TN_INIT_KAIMING_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_init_kaiming_normal, TN_INIT_KAIMING_OPTIONS_LIST);
#define TN_INIT_KAIMING_NORMAL_OPTIONS                                        \
    TN_OPTIONS_DEFAULTS(tn_init_kaiming_normal, TN_INIT_KAIMING_OPTIONS_LIST)
TN_API tn_tensor *
tn_init_kaiming_uniform_with(tn_tensor *x,
                             const tn_init_kaiming_uniform_options *options);
TN_API tn_tensor *
tn_init_kaiming_normal_with(tn_tensor *x,
                            const tn_init_kaiming_normal_options *options);

/* Sets x to gain times a random matrix (size 0, product of the other sizes)
 * with orthonormal rows, or orthonormal columns if it has more rows than
 * columns. The distribution is uniform over such matrices (arXiv:1312.6120).
 * Needs 2 dimensions or more. */
#define TN_INIT_ORTHOGONAL_OPTIONS_LIST(X) X(double, gain, 1)
TN_OPTIONS_STRUCT(tn_init_orthogonal, TN_INIT_ORTHOGONAL_OPTIONS_LIST);
#define TN_INIT_ORTHOGONAL_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_init_orthogonal, TN_INIT_ORTHOGONAL_OPTIONS_LIST)
TN_API tn_tensor *
tn_init_orthogonal_with(tn_tensor *x,
                        const tn_init_orthogonal_options *options);

/* Sets x (n, m) to normally distributed numbers, and in each column
 * ceil(sparsity n) elements at random positions to 0 (Martens, 2010). sparsity
 * is in [0, 1], std 0 or more. */
#define TN_INIT_SPARSE_OPTIONS_LIST(X) X(double, std, 0.01)
TN_OPTIONS_STRUCT(tn_init_sparse, TN_INIT_SPARSE_OPTIONS_LIST);
#define TN_INIT_SPARSE_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_init_sparse, TN_INIT_SPARSE_OPTIONS_LIST)
TN_API tn_tensor *tn_init_sparse_with(tn_tensor *x, double sparsity,
                                      const tn_init_sparse_options *options);

/* Returns the gain of a nonlinearity: the factor by which weights are scaled to
 * make up for the change of scale in the nonlinearity:
 *
 *   "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
 *   "conv_transpose2d", "conv_transpose3d", "sigmoid"   1
 *   "tanh"                                              5 / 3
 *   "relu"                                              sqrt(2)
 *   "leaky_relu"                                        sqrt(2 / (1 + a^2))
 *   "selu"                                              3 / 4
 *
 * a is the negative slope of "leaky_relu", and rejected with another name.
 * Returns NAN with TN_ERR_ARGUMENT for a name that is not listed. */
#define TN_INIT_CALCULATE_GAIN_OPTIONS_LIST(X) X(double, a, 0.01)
TN_OPTIONS_STRUCT(tn_init_calculate_gain, TN_INIT_CALCULATE_GAIN_OPTIONS_LIST);
#define TN_INIT_CALCULATE_GAIN_OPTIONS                                        \
    TN_OPTIONS_DEFAULTS(tn_init_calculate_gain,                               \
                        TN_INIT_CALCULATE_GAIN_OPTIONS_LIST)
TN_API double
tn_init_calculate_gain_with(const char *nonlinearity,
                            const tn_init_calculate_gain_options *options);

#ifndef __cplusplus
#define tn_init_dirac(...) TN_CALL_1(tn_init_dirac, __VA_ARGS__, )
#define tn_init_uniform(...) TN_CALL_1(tn_init_uniform, __VA_ARGS__, )
#define tn_init_normal(...) TN_CALL_1(tn_init_normal, __VA_ARGS__, )
#define tn_init_trunc_normal(...) TN_CALL_1(tn_init_trunc_normal, __VA_ARGS__, )
#define tn_init_xavier_uniform(...)                                           \
    TN_CALL_1(tn_init_xavier_uniform, __VA_ARGS__, )
#define tn_init_xavier_normal(...)                                            \
    TN_CALL_1(tn_init_xavier_normal, __VA_ARGS__, )
#define tn_init_kaiming_uniform(...)                                          \
    TN_CALL_1(tn_init_kaiming_uniform, __VA_ARGS__, )
#define tn_init_kaiming_normal(...)                                           \
    TN_CALL_1(tn_init_kaiming_normal, __VA_ARGS__, )
#define tn_init_orthogonal(...) TN_CALL_1(tn_init_orthogonal, __VA_ARGS__, )
#define tn_init_sparse(...) TN_CALL_2(tn_init_sparse, __VA_ARGS__, )
#define tn_init_calculate_gain(...)                                           \
    TN_CALL_1(tn_init_calculate_gain, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_1(tn_tensor *, tn_init_dirac, tn_tensor *)
TN_OVERLOAD_1(tn_tensor *, tn_init_uniform, tn_tensor *)
TN_OVERLOAD_1(tn_tensor *, tn_init_normal, tn_tensor *)
TN_OVERLOAD_1(tn_tensor *, tn_init_trunc_normal, tn_tensor *)
TN_OVERLOAD_1(tn_tensor *, tn_init_xavier_uniform, tn_tensor *)
TN_OVERLOAD_1(tn_tensor *, tn_init_xavier_normal, tn_tensor *)
TN_OVERLOAD_1(tn_tensor *, tn_init_kaiming_uniform, tn_tensor *)
TN_OVERLOAD_1(tn_tensor *, tn_init_kaiming_normal, tn_tensor *)
TN_OVERLOAD_1(tn_tensor *, tn_init_orthogonal, tn_tensor *)
TN_OVERLOAD_2(tn_tensor *, tn_init_sparse, tn_tensor *, double)
TN_OVERLOAD_1(double, tn_init_calculate_gain, const char *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
