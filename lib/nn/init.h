/* init.h: initial values of parameters, as in PyTorch's reset_parameters
 * (nn_init.c), and checks of options (init.c). */
#ifndef TN_LIB_NN_INIT_H
#define TN_LIB_NN_INIT_H

#include <stdint.h>
#include <tenon/tensor.h>

/* Returns the product of two sizes that a caller passed. On overflow it is
 * INT64_MAX, a size that no tensor can have, so making the tensor fails. */
static inline int64_t tn__nn_product(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* Draws from the uniform distribution on [-1/sqrt(fan_in), 1/sqrt(fan_in)), in
 * float32 on the current device. For weights this equals kaiming_uniform with a
 * = sqrt(5); for biases it is PyTorch's rule. Returns zeros if fan_in is 0. */
tn_tensor *tn__nn_init_fan_in(tn_dims_list shape, int64_t fan_in);

/* Draws a matrix (out, in) from the uniform distribution on [-b, b) with b =
 * sqrt(6 / (in + out)): Glorot and Bengio, 2010. */
tn_tensor *tn__nn_init_xavier(int64_t out, int64_t in);

/* Draws a tensor of standard normal numbers. */
tn_tensor *tn__nn_init_normal(tn_dims_list shape);

/* Copies value into a parameter; autograd does not record it. Returns false on
 * failure. */
bool tn__nn_set(tn_tensor *parameter, tn_tensor *value);

/* Return whether value is a probability, and whether it is an eps of at least
 * 0. If not, they record an error that names the layer and the option. */
bool tn__nn_check_probability(double value, const char *layer,
                              const char *option);
bool tn__nn_check_eps(double value, const char *layer, const char *option);

/* Returns whether the channel counts of a convolution are positive and groups
 * divides both. If not, records an error that names the layer. */
bool tn__nn_check_channels(const char *layer, int64_t in_channels,
                           int64_t out_channels, int64_t groups);

/* Returns whether exactly one of kernel_size and the list option kernel_sizes
 * is given. If not, records an error that names the layer. */
bool tn__nn_check_kernel(int64_t kernel_size, const tn_dims_list *kernel_sizes,
                         const char *layer);

/* Returns whether the input x, called name, has the dtype of the layer's
 * weight, or under autocast any floating-point dtype. If not, records an error
 * of the operator op that names both dtypes. */
bool tn__nn_check_dtype(const tn_tensor *x, const char *name,
                        const tn_tensor *weight, const char *op);

/* Returns whether count is at most TN__NN_MAX_LAYERS, because a larger count
 * would allocate layers until memory runs out. If not, records an error that
 * names the layer. */
enum { TN__NN_MAX_LAYERS = 1 << 16 };
bool tn__nn_check_layers(const char *layer, int64_t count);

/* An option that is given either as one number for all axes (stride) or as a
 * list with one number for each axis (strides). */
typedef struct tn__nn_axes_option {
    const char *name, *list_name; /* "stride", "strides" */
    int64_t single;
    const tn_dims_list *list;     /* count < 0 if the list is not given */
    int64_t least;                /* the smallest number allowed */
} tn__nn_axes_option;

/* Stores one number for each axis in *to. Returns false if the list has another
 * length or a number is less than option->least; the error names the layer and
 * the option that was given. */
bool tn__nn_take_axes(tn_dims_list *to, int axes,
                      const tn__nn_axes_option *option, const char *layer);

#endif
