/* backward.h: the state of one call of tn_backward or tn_grad, for backward.c
 * and backward_walk.c. */
#ifndef TN_LIB_AUTOGRAD_BACKWARD_H
#define TN_LIB_AUTOGRAD_BACKWARD_H

#include <autograd/walk.h>

struct tn__job {
    bool retain, create; /* options retain_graph and create_graph */
    tn__walk walk;       /* queue of nodes */
    /* The following fields are used by tn_grad only. */
    tn_tensor *const *input;
    int input_count;     /* 0 in tn_backward */
    tn_tensor **result;  /* gradient of each input; owned references */
    tn__node_set needed; /* nodes that depend on one of the inputs */
    /* tn_backward only: the gradients to add to the leaves at the end */
    struct pending {
        tn__node *leaf;  /* owned reference */
        tn_tensor *grad; /* owned reference */
    } *leaf;
    size_t leaf_count, leaf_room;
};

/* Runs the backward pass from root. `gradient` is the gradient of root; NULL
 * means ones. For tn_backward it updates the gradients of the leaves, for
 * tn_grad it stores the results in job->result. It frees job->walk. */
tn_status tn__job_run(struct tn__job *job, tn_tensor *root,
                      tn_tensor *gradient);

#endif
