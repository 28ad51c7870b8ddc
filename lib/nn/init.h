/* init.h: initial values of parameters, as PyTorch's reset_parameters. */
#ifndef TN_LIB_NN_INIT_H
#define TN_LIB_NN_INIT_H

#include <tenon/tensor.h>

/* Uniform in [-1/sqrt(fan_in), 1/sqrt(fan_in)): what kaiming_uniform with
 * a = sqrt(5) comes to for weights, and PyTorch's rule for biases. Zeros where
 * fan_in is 0. float32 on the current device. */
tn_tensor *tn__nn_init_fan_in(tn_dims_list shape, int64_t fan_in);

/* A matrix (out, in), uniform within the root of 6 / (in + out): Glorot and
 * Bengio, 2010. */
tn_tensor *tn__nn_init_xavier(int64_t out, int64_t in);

/* Writes value into a parameter, outside of any graph. False on failure. */
bool tn__nn_set(tn_tensor *parameter, tn_tensor *value);

/* Copies what the caller's option struct holds over the defaults in own, which
 * is own_size bytes; theirs begins with its size. */
void tn__nn_take_options(void *own, size_t own_size, const void *theirs);

/* One number for each of so many axes: those of list, or single where it is
 * empty. False, and an error that names the layer and the option, where there
 * are others, or less than least. */
bool tn__nn_take_axes(tn_dims_list *to, int axes, int64_t single,
                      const tn_dims_list *list, int64_t least,
                      const char *layer, const char *option);

#endif
