/* <tenon/parameters.h>: the tensors that training changes, as a list with
 * names. A model gives one (tn_parameters), optimizers take it.
 *
 * Threads: A list does not change once it is made, so any thread may read it;
 * its tensors are shared as <tenon/tensor.h> says.
 */
#ifndef TENON_PARAMETERS_H
#define TENON_PARAMETERS_H

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_parameter_list tn_parameter_list;

/* A list of tensors of your own: leaves that require gradients. Owned by the
 * open scope; keeps the tensors. NULL if one of them is, TN_ERR_STATE if one is
 * no such leaf, TN_ERR_ARGUMENT if one stands there twice. */
TN_API tn_parameter_list *tn_parameters_from(tn_tensor *const *tensors,
                                             int count);

/* How many; tensor i and its name ("conv1.weight"), lent by the list, NULL
 * outside. Cannot fail. */
TN_API int tn_parameters_count(const tn_parameter_list *list);
TN_API tn_tensor *tn_parameters_at(const tn_parameter_list *list, int i);
TN_API const char *tn_parameters_name(const tn_parameter_list *list, int i);

#ifdef __cplusplus
}
#endif
#endif
