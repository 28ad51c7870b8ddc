/* optimizer.h: creates Tenon's optimizer from the arguments of PyTorch's
 * constructor. */
#ifndef TN_TESTS_GOLDEN_OPTIMIZER_H
#define TN_TESTS_GOLDEN_OPTIMIZER_H

#include <jansson.h>
#include <tenon/tenon.h>

/* Creates the optimizer with PyTorch's name, such as "SGD", for the parameters
 * of list. args: a JSON object. Returns NULL without an error if Tenon lacks
 * the optimizer or one of the arguments. */
tn_optim *optimizer_make(const char *name, tn_parameter_list *list,
                         const json_t *args);

#endif
