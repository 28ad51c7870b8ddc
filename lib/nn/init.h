/* init.h: initial values of parameters, as in PyTorch's reset_parameters
 * (nn_init.c), and checks of options (init.c). */
#ifndef TN_LIB_NN_INIT_H
#define TN_LIB_NN_INIT_H

#include <stdint.h>
#include <tenon/tensor.h>

/* The product of two sizes that a caller passed. On overflow it is INT64_MAX, a
 * size that no tensor can have, so making the tensor fails. */
static inline int64_t tn__nn_product(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* Uniform in [-1/sqrt(fan_in), 1/sqrt(fan_in)): equals kaiming_uniform with a =
 * sqrt(5) for weights, and PyTorch's rule for biases. Zeros if fan_in is 0.
 * float32 on the current device. */
tn_tensor *tn__nn_init_fan_in(tn_dims_list shape, int64_t fan_in);

/* A matrix (out, in), uniform in [-b, b) with b = sqrt(6 / (in + out)): Glorot
 * and Bengio, 2010. */
tn_tensor *tn__nn_init_xavier(int64_t out, int64_t in);

/* Standard normal numbers. */
tn_tensor *tn__nn_init_normal(tn_dims_list shape);

/* Copies value into a parameter without recording. False on failure. */
bool tn__nn_set(tn_tensor *parameter, tn_tensor *value);

/* Is value a probability; is it an eps of at least 0? If not, records an error
 * that names the layer and the option. */
bool tn__nn_check_probability(double value, const char *layer,
                              const char *option);
bool tn__nn_check_eps(double value, const char *layer, const char *option);

/* Are the sizes of a convolution positive, and does groups divide both channel
 * counts? If not, records an error that names the layer. */
bool tn__nn_check_channels(const char *layer, int64_t in_channels,
                           int64_t out_channels, int64_t groups);

/* Is exactly one of kernel_size and the list option kernel_sizes given? If not,
 * records an error that names the layer. */
bool tn__nn_check_kernel(int64_t kernel_size, const tn_dims_list *kernel_sizes,
                         const char *layer);

/* Has an input the dtype of the layer's weight, or any floating dtype under
 * autocast? If not, records an error of the operator op that names both. */
bool tn__nn_check_dtype(const tn_tensor *x, const char *name,
                        const tn_tensor *weight, const char *op);

/* At most TN__NN_MAX_LAYERS layers? A larger count would allocate layers until
 * memory runs out. If not, records an error that names the layer. */
enum { TN__NN_MAX_LAYERS = 1 << 16 };
bool tn__nn_check_layers(const char *layer, int64_t count);

/* An option with one number for all axes, or a list with one for each. */
typedef struct tn__nn_axes_option {
    const char *name, *list_name; /* "stride", "strides" */
    int64_t single;
    const tn_dims_list *list;     /* given if its count is 0 or more */
    int64_t least;                /* the smallest number allowed */
} tn__nn_axes_option;

/* Stores one number for each axis in *to. Returns false if the list has another
 * length or a number is less than option->least; the error names the layer and
 * the option that was given. */
bool tn__nn_take_axes(tn_dims_list *to, int axes,
                      const tn__nn_axes_option *option, const char *layer);

#endif
