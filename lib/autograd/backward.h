/* backward.h: one call of tn_backward or tn_grad, for backward.c and
 * backward_walk.c. */
#ifndef TN_LIB_AUTOGRAD_BACKWARD_H
#define TN_LIB_AUTOGRAD_BACKWARD_H

#include <autograd/walk.h>

/* The state of one call of tn_backward or tn_grad. */
struct tn__job {
    bool retain, create;
    tn__walk walk;
    /* tn_grad only: */
    tn_tensor *const *input;
    int input_count;
    tn_tensor **result;  /* for each input; counted */
    tn__node_set needed; /* nodes that lead to an input */
    /* tn_backward only: leaves to update at the end */
    struct pending {
        tn__node *leaf;  /* counted */
        tn_tensor *grad; /* counted */
    } *leaf;
    size_t leaf_count, leaf_room;
};

/* Walks back from root with this cotangent (NULL: ones) and frees the job's
 * walk. tn_backward: updates the leaves. tn_grad: stores the results. */
tn_status tn__job_run(struct tn__job *job, tn_tensor *root,
                      tn_tensor *gradient);

#endif
