/* node.h: the structure of nodes, for the files of this room alone. */
#ifndef TN_LIB_AUTOGRAD_NODE_H
#define TN_LIB_AUTOGRAD_NODE_H

#include <autograd/autograd.h>
#include <base/error.h>
#include <base/memory.h>
#include <base/platform.h>
#include <tenon/hook.h>

/* ---- plans: what all calls of one row and kernel share ------------------ */

/* The gradient with respect to one port. */
typedef struct tn__plan_port {
    const tn__kernel *kernel; /* NULL: zero or failed */
    bool zero;
    bool failed;    /* no derivative; tn__plan_port_fail reports why */
    int input;      /* the kernel's input that the port feeds */
    int used[TN__KERNEL_MAX_INPUTS]; /* operands of the gradient kernel, as
                                        tn__kernel_gradient returns them */
    int param[TN__KERNEL_MAX_PARAMS]; /* indices of the forward kernel's
                                         parameters */
    uint32_t inputs, outputs; /* saved values it needs: one bit per port, one
                                 per output */
    bool copies_cotangent; /* the kernel copies its one input, a cotangent */
    const tn__kernel *summed; /* kernel fused with a sum over a row, for an
                                 input that was broadcast. NULL: run as two
                                 launches */
    const tn__kernel *per_row; /* kernel computed once per row, if all elements
                                  of a row are equal. NULL: they are not */
} tn__plan_port;

#define TN__PLAN_PORTS 16
typedef struct tn__plan {
    struct tn__plan *next; /* in its bucket */
    const tn_op *op;
    const tn__kernel *kernel;    /* NULL if gradient is a C function */
    tn__gradient_fn gradient;
    const tn__saves *saves;      /* of gradient; NULL: it needs no values */
    bool saves_layout;           /* it needs the layout of input 0 */
    bool adds;                   /* it adds to the sums it is given */
    int port_count;              /* a list counts as one */
    uint8_t port_arg[TN__PLAN_PORTS];   /* argument that feeds the port */
    uint8_t input_port[TN__KERNEL_MAX_INPUTS]; /* kernel's input -> port */
    /* Made on first use; written once. */
    _Atomic(tn__plan_port *) port[TN__PLAN_PORTS];
} tn__plan;

/* Never freed. NULL with the error recorded. */
const tn__plan *tn__plan_find(const tn_op *op, const tn__kernel *kernel);
/* For a plan without a C function. NULL only if memory runs out. */
const tn__plan_port *tn__plan_port_find(const tn__plan *plan, int port);
/* Records the error that explains why this port has no gradient. */
tn_status tn__plan_port_fail(const tn__plan *plan, int port);
/* The values to save if the ports of this mask are wanted. */
tn_status tn__plan_saves(const tn__plan *plan, uint32_t wanted,
                         uint32_t *inputs, uint32_t *outputs);

/* ---- saved values ------------------------------------------------------- */

/* One call of tn_recompute, whose saved values are recomputed when a gradient
 * needs them (recompute.c). */
typedef struct tn__rerun tn__rerun;

/* A value that a gradient needs later: stored, or value number `version` of a
 * recomputed call. Both pointers are NULL if there is none or it was
 * released. */
typedef struct tn__saved_value {
    tn_tensor *value; /* counted: an alias without a graph */
    tn__rerun *rerun; /* counted */
    uint32_t version; /* of value's storage when it was saved */
} tn__saved_value;

/* Saves x. Inside a function that will be recomputed, it saves only a number.
 * False if memory runs out. */
bool tn__saved_value_set(tn__saved_value *saved, tn_tensor *x,
                         uint32_t version);
/* Lent. NULL with the error recorded if the value was released, was changed in
 * place since, or cannot be recomputed. who: the operator that saved it. */
tn_tensor *tn__saved_value_get(const tn__saved_value *saved, const char *who);
void tn__saved_value_release(tn__saved_value *saved);

/* ---- nodes -------------------------------------------------------------- */

/* What a node records of a tensor: an input or an output of the call. */
typedef struct tn__port {
    tn__node *node;    /* counted: the node that receives the gradient of an
                          input; NULL: none */
    uint32_t index;    /* output of that node; unused for an output port */
    int8_t ndim;       /* -1: omitted */
    int8_t output;     /* for a value that a C operator's forward saved: the
                          output that it was, or -1 */
    uint8_t dtype;
    bool transposed;      /* a contiguous matrix with its last two dimensions
                             swapped */
    const int64_t *shape; /* in the node's block */
    tn_device *device;
    tn__saved_value saved;
} tn__port;

/* A tensor's place in its storage, in elements. */
typedef struct tn__layout {
    int64_t offset, stride[TN_MAX_NDIM];
} tn__layout;

struct tn__node {
    tn__object object;
    const tn_op *op;      /* NULL: a leaf */
    uint64_t sequence;    /* greater than those of all nodes below it */
    /* a call has: */
    const tn_path *made_in; /* path of the module that ran it */
    const tn__plan *plan;
    uint8_t size_class;
    bool is_view;         /* its output shares the memory of port 0 */
    uint16_t port_count, out_count, save_count, value_count;
    uint32_t row_dims;
    int32_t ndim;         /* of shape; -1 for a row with a C function */
    const int64_t *shape; /* iteration space of the kernel */
    const tn__layout *layout; /* of port 0, with one stride per dimension; NULL:
                                 not recorded */
    tn_hook *hook;        /* counted: the first registered hook */
    struct tn_op_context *context; /* counted: for an operator that the program
                                      wrote in C, or NULL */
    tn__port *port;       /* port_count inputs, then out_count outputs, then
                             save_count values that forward saved */
    tn_value *value;
    tn_number *param;
    /* a leaf has: */
    tn_tensor *grad;      /* the gradient; counted; guarded by tn__leaf_lock.
                             Released with the last tensor of this leaf. With
                             create_graph the gradient's graph holds this node,
                             so the two would hold each other. */
    _Atomic uint32_t tensors; /* tensors whose leaf this is */
};

/* A tensor's gradient data. */
struct tn__grad_meta {
    tn__node *node;   /* counted: its leaf, or the call that made it */
    uint32_t index;   /* output of node */
    uint64_t seen;    /* the last in-place change of its memory that node
                         accounts for */
    tn_hook *retained; /* counted: hook that stores the gradient of a non-leaf
                          tensor (retain_grad), or NULL */
};

/* TN_ERR_STATE if x would own a reference to itself with grad as its gradient
 * (grad_cycle.c). */
tn_status tn__grad_check_cycle(tn_tensor *x, tn_tensor *grad);

/* ---- in-place changes of shared memory (history.c) ---------------------- */

/* Replaces x's node if x's memory was written to since the node was
 * recorded. */
tn_status tn__tensor_refresh(tn_tensor *x);
/* Call after an in-place operator: node recorded it, x was written. x and all
 * tensors that share its memory take their gradient from node from now on. */
tn_status tn__history_write(tn_tensor *x, tn__node *node);
/* Does any tensor other than x and the values that graphs saved use x's
 * memory? */
bool tn__tensor_is_shared(const tn_tensor *x);
/* According to the recorded views, is x a view of a leaf? */
bool tn__tensor_views_leaf(const tn_tensor *x);
void tn__history_release(tn__history *history);

/* ---- operators that the program wrote in C (registered.c) --------------- */

tn_status tn__registered_gradient(const tn__node *node, tn_tensor *const *g,
                                  tn_tensor **out);
/* Moves the values that forward saved into the node. */
tn_status tn__registered_save(tn__node *node, const tn__call *call);
/* Saved value i, lent. NULL without an error if NULL was saved. */
tn_tensor *tn__node_saved(const tn__node *node, int i);

/* ---- hooks (hooks.c) ---------------------------------------------------- */

/* Runs the hooks of node's output `index` on *g (counted; may be replaced). */
tn_status tn__hooks_run(const tn__node *node, uint32_t index, tn_tensor **g);
/* Has this leaf, or has any leaf, a post-accumulate hook? */
bool tn__hooks_has_post_accumulate(const tn__node *leaf);
bool tn__hooks_any_post_accumulate(void);
/* Runs the post-accumulate hooks of a leaf whose gradient is complete. */
tn_status tn__hooks_run_post_accumulate(const tn__node *leaf);
/* A tensor that retains its gradient got a new node: moves its hook there. */
void tn__hook_move(tn_hook *hook, tn__node *from, tn__node *to,
                   uint32_t index);
/* The tensor that retained its gradient was freed. */
void tn__hook_forget_retained(tn_hook *hook);
/* Retained gradient number i of node; NULL: no more. */
tn_tensor *tn__hooks_retained_grad(const tn__node *node, int i);
tn_tensor *tn__hook_retained(const tn_hook *hook);
void tn__hook_set_retained(tn_hook *hook, tn_tensor *grad);
/* Removes the hooks that refer to the tensor with this gradient data. */
void tn__hooks_forget(tn__node *node, const tn__grad_meta *meta);

/* ---- making nodes, and the node of a tensor ----------------------------- */

/* A node in a block of `bytes`, with a zeroed struct. NULL if memory runs
 * out. */
tn__node *tn__node_alloc(size_t bytes);
/* A leaf's node. NULL if memory runs out. */
tn__node *tn__node_leaf(void);
/* The node of a finished call; the caller owns one reference. */
tn__node *tn__node_record(const tn__plan *plan, tn__call *call);
/* Releases the values that the node saved. */
void tn__node_release(tn__node *node);

/* Makes x an output of node. Takes its own reference. */
tn_status tn__tensor_set_node(tn_tensor *x, tn__node *node, uint32_t index);
void tn__grad_meta_release(tn__grad_meta *meta);

/* Serialises changes of gradients of leaves. */
void tn__leaf_lock(void);
void tn__leaf_unlock(void);

/* In anomaly mode: an error if node's gradient produced a NaN from g. Else
 * TN_OK. */
tn_status tn__anomaly_check(const tn__node *node, tn_tensor *const *g,
                            tn_tensor *const *out);
/* The walk checks gradients itself, so its operators are not checked between
 * _begin and _end. Returns whether they were before. */
bool tn__anomaly_begin(void);
void tn__anomaly_end(bool was_watched);

/* Runs node's gradient. out has port_count + 1 elements. */
tn_status tn__node_run(const tn__node *node, tn_tensor *const *g,
                       tn_tensor **out);

#endif
