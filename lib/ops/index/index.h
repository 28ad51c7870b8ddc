/* index.h: checks of index tensors for gathers and scatters. */
#ifndef TN_LIB_OPS_INDEX_H
#define TN_LIB_OPS_INDEX_H

#include <ops/engine/native.h>

/* Requires an integer dtype; otherwise TN_ERR_DTYPE. */
tn_status tn__index_check_dtype(const char *name, const char *argument,
                                const tn_tensor *index);
/* Requires index to be no larger than `other` in all dimensions except dim. */
tn_status tn__index_check_shape(const char *name, const tn_tensor *index,
                                const char *other_name, const tn_tensor *other,
                                int dim);
/* A 0-d tensor counts as 1-d where a dimension is named. */
tn_tensor *tn__at_least_1d(tn_tensor *x);

#endif
