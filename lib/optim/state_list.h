/* state_list.h: the state of an optimizer as a list of named tensors, for
 * saving and loading. */
#ifndef TN_LIB_OPTIM_STATE_LIST_H
#define TN_LIB_OPTIM_STATE_LIST_H

#include <optim/lbfgs.h>

/* The rates of a group that are saved: their keys, and their offsets in
 * tn__optim_rates. */
enum { TN__OPTIM_RATE_FIELDS = 4 };
extern const struct tn__optim_rate_field {
    const char *name;
    size_t at;
} tn__optim_rate_fields[TN__OPTIM_RATE_FIELDS];

/* A list of the optimizer's tensors and their names, for tn_safetensors_save. A
 * parameter that has made no step yet has no tensors in the list. */
typedef struct tn__optim_list {
    tn_object object;
    int count;
    tn_tensor **tensor; /* owned by the optimizer, or by the scope on loading */
    const char **name;
    tn_dims_list *shape; /* of the whole tensors */
    int64_t *offset;     /* of the pieces in them; 0 for a whole tensor */
    char *names; /* where the next name goes */
} tn__optim_list;

/* Makes an empty list with space for all tensors of an optimizer's state. The
 * open scope owns it. Returns NULL on failure (TN_ERR_MEMORY). */
tn__optim_list *tn__optim_list_new(const tn_optim *optim);
/* Append the name, shape and offset of slot k of parameter i, and the name of the
 * i-th tensor of the state of LBFGS. The caller sets the element of tensor[]
 * before or after the call. */
const char *tn__optim_list_slot(tn__optim_list *l, int number,
                                const tn__optim_group *group, int i, int k);
const char *tn__optim_list_history_name(tn__optim_list *l, int i);

/* Returns the state of LBFGS (lbfgs.h) if the optimizer has one that has made a
 * step. It is saved as 2 + 2 * pairs tensors with PyTorch's names, which
 * tn__optim_history_tensor returns in that order. */
tn__lbfgs *tn__optim_history_of(const tn_optim *optim);
tn_tensor **tn__optim_history_tensor(tn__lbfgs *h, int i);

/* Records that memory ran out in the public function `call`. */
tn_status tn__optim_no_memory(const char *call);
/* Checks the arguments of a call. */
tn_status tn__optim_check_file(const char *call, const tn_optim *optim,
                               const char *path);

#endif
