/* <tenon/nn_activation.h>: activations without numeric options as layers, for
 * example in a sequential (those with options: nn_layers.h). Part of
 * <tenon/nn.h>. The operators of the same names are in <tenon/ops.h>.
 *
 * Each function returns a module owned by the open scope. The output has the
 * shape of the input. Source: torch.nn.
 *
 * Threads: As for all layers: <tenon/nn.h>. */
#ifndef TENON_NN_ACTIVATION_H
#define TENON_NN_ACTIVATION_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Layers without parameters. tn_nn_gelu computes the exact function,
 * tn_nn_gelu_tanh its approximation by tanh. */
TN_API tn_module *tn_nn_relu(void);
TN_API tn_module *tn_nn_tanh(void);
TN_API tn_module *tn_nn_sigmoid(void);
TN_API tn_module *tn_nn_gelu(void);
TN_API tn_module *tn_nn_gelu_tanh(void);
TN_API tn_module *tn_nn_silu(void);
TN_API tn_module *tn_nn_mish(void);
TN_API tn_module *tn_nn_selu(void);
TN_API tn_module *tn_nn_relu6(void);
TN_API tn_module *tn_nn_hardswish(void);
TN_API tn_module *tn_nn_hardsigmoid(void);
TN_API tn_module *tn_nn_logsigmoid(void);
TN_API tn_module *tn_nn_softsign(void);
TN_API tn_module *tn_nn_tanhshrink(void);

/* PReLU: x if x > 0, else weight * x. The slope is learned: one for all inputs
 * if num_parameters is 1, else one for each channel (dimension 1). Its initial
 * value is init [0.25]. Parameter: weight (num_parameters). */
TN_API tn_module *tn_nn_prelu(int64_t num_parameters, double init);

#ifdef __cplusplus
}
#endif
#endif
