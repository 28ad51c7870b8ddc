/* <tenon/parameters.h>: a list of named tensors that training changes. A model
 * returns one (tn_parameters), and optimizers accept it.
 *
 * Threads: A list does not change after it is made, so any thread may read it.
 * Its tensors are shared as <tenon/tensor.h> says.
 */
#ifndef TENON_PARAMETERS_H
#define TENON_PARAMETERS_H

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_parameter_list tn_parameter_list;

/* Makes a list of your own tensors: count distinct leaves that require
 * gradients. The open scope owns the list, which holds references to the
 * tensors. Returns NULL with TN_ERR_STATE if a tensor is not a leaf that
 * requires a gradient, or with TN_ERR_ARGUMENT if a tensor is NULL or occurs
 * twice. */
TN_API tn_parameter_list *tn_parameters_from(tn_tensor *const *tensors,
                                             int count);

/* Return the number of tensors, tensor i, and its name ("conv1.weight"), or
 * NULL if i is out of range. Tensor and name are lent: valid while list lives.
 * Cannot fail. */
TN_API int tn_parameters_count(const tn_parameter_list *list);
TN_API tn_tensor *tn_parameters_at(const tn_parameter_list *list, int i);
TN_API const char *tn_parameters_name(const tn_parameter_list *list, int i);

#ifdef __cplusplus
}
#endif
#endif
