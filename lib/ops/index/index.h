/* index.h: checks of index tensors for operators that read or write elements by
 * index. */
#ifndef TN_LIB_OPS_INDEX_H
#define TN_LIB_OPS_INDEX_H

#include <ops/engine/native.h>

/* Checks that index has an integer dtype. Fails with TN_ERR_DTYPE otherwise. */
tn_status tn__index_check_dtype(const char *name, const char *argument,
                                const tn_tensor *index);
/* Checks that index has as many dimensions as `other` and is no larger in any
 * dimension except dim. */
tn_status tn__index_check_shape(const char *name, const tn_tensor *index,
                                const char *other_name, const tn_tensor *other,
                                int dim);
/* Returns x, or a view of shape (1) if x is 0-d. Operators with an argument dim
 * treat a 0-d tensor like this. */
tn_tensor *tn__at_least_1d(tn_tensor *x);

#endif
