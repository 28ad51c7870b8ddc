/* node.h: the internal structure of graph nodes. Only lib/autograd uses it.
 *
 * A node records one operator call. A port is one input tensor of that call;
 * autograd.h explains how ports are numbered. A row is one operator of the
 * operator table. "Owned reference" means that the struct holds one count of a
 * reference-counted object and releases it when it is freed. */
#ifndef TN_LIB_AUTOGRAD_NODE_H
#define TN_LIB_AUTOGRAD_NODE_H

#include <autograd/autograd.h>
#include <base/error.h>
#include <base/memory.h>
#include <base/platform.h>
#include <tenon/hook.h>

/* ---- plans: what all calls of an operator with one kernel share --------- */

/* Describes the kernel that computes the gradient of one port (input
 * tensor). */
typedef struct tn__plan_port {
    const tn__kernel *kernel; /* computes the gradient; NULL if zero or failed
                                 is set */
    bool zero;      /* the gradient of the input is always zero */
    bool failed;    /* there is no derivative; tn__plan_port_fail reports why */
    int input;      /* index of this tensor among the forward kernel's inputs */
    int used[TN__KERNEL_MAX_INPUTS]; /* the index of the value that each operand
                                        of the gradient kernel reads;
                                        tn__kernel_gradient defines these
                                        indices */
    int param[TN__KERNEL_MAX_PARAMS]; /* param[k] is the index of the forward
                                         kernel's parameter that is parameter k
                                         of the gradient kernel */
    uint32_t inputs, outputs; /* saved values that the gradient kernel needs, as
                               * two masks: one bit per input (port), one bit
                               * per output */
    bool copies_cotangent; /* the kernel only copies the
                            * gradient of an output */
    const tn__kernel *summed; /* the kernel fused with the sum over broadcast
                                 dimensions; NULL if they need two launches */
    const tn__kernel *per_row; /* a kernel that computes the gradient once for
                                  each row of a reduction; NULL if elements of a
                                  row have different gradients */
} tn__plan_port;

#define TN__PLAN_PORTS 16
/* The data that all calls of one operator with one kernel share. Either
 * `kernel` is set, and gradients are kernels derived from it, or `gradient` is
 * a C function. */
typedef struct tn__plan {
    struct tn__plan *next;       /* next plan in the same hash bucket */
    const tn_op *op;
    const tn__kernel *kernel;    /* the forward kernel, or NULL */
    tn__gradient_fn gradient;    /* the C function, or NULL */
    const tn__saves *saves;      /* values that the C function needs, or NULL
                                    if it needs none */
    bool saves_layout;           /* the C function needs the strides of input
                                    0 */
    bool adds;                   /* the C function adds to the sums passed in
                                    out[] */
    int port_count;              /* number of ports (input tensors); here a list
                                  * of tensors counts as one port */
    uint8_t port_arg[TN__PLAN_PORTS]; /* for each port (input tensor), its
                                       * argument index */
    uint8_t input_port[TN__KERNEL_MAX_INPUTS]; /* for each input of the forward
                                                * kernel, the port (input tensor
                                                * of the call) that it reads */
    /* Each entry is made on first use and then never changes. */
    _Atomic(tn__plan_port *) port[TN__PLAN_PORTS];
} tn__plan;

/* Returns the plan for an operator and a kernel, and makes it on first use.
 * Plans are never freed. Returns NULL and records an error on failure. */
const tn__plan *tn__plan_find(const tn_op *op, const tn__kernel *kernel);
/* Returns the description of the kernel that computes the gradient of an input
 * (port), and derives this kernel on first use. The plan must not have a C
 * function. Returns NULL only if memory runs out. */
const tn__plan_port *tn__plan_port_find(const tn__plan *plan, int port);
/* Records the error that explains why an input (port) has no gradient, and
 * returns its status. */
tn_status tn__plan_port_fail(const tn__plan *plan, int port);
/* Finds the values that a node must save so that the gradients of the input
 * tensors (ports) in the mask `wanted` can be computed. Sets two masks: *inputs
 * has one bit per port, *outputs one bit per output. */
tn_status tn__plan_saves(const tn__plan *plan, uint32_t wanted,
                         uint32_t *inputs, uint32_t *outputs);

/* ---- saved values ------------------------------------------------------- */

/* One call of tn_recompute, whose saved values are recomputed when a gradient
 * needs them (recompute.c). */
typedef struct tn__rerun tn__rerun;

/* A value that a gradient needs later. Either `value` holds it, or `rerun` can
 * compute it again. Both pointers are NULL if nothing was saved or the value
 * was released. */
typedef struct tn__saved_value {
    tn_tensor *value; /* owned reference: a detached alias of the tensor */
    tn__rerun *rerun; /* owned reference: the call to recompute */
    uint32_t version; /* with `value`: the version counter of its storage when
                         it was saved; with `rerun`: the index of this value
                         among all values that the call saves */
} tn__saved_value;

/* Saves x. Inside tn_recompute stores only the index of the value. Returns
 * false if memory runs out. */
bool tn__saved_value_set(tn__saved_value *saved, tn_tensor *x,
                         uint32_t version);
/* Returns the saved value, recomputing it if necessary. `saved` continues to
 * own it. Returns NULL and records an error if the value was released, was
 * changed in place since it was saved, or cannot be recomputed. who is the name
 * of the operator that saved it, for the message. */
tn_tensor *tn__saved_value_get(const tn__saved_value *saved, const char *who);
void tn__saved_value_release(tn__saved_value *saved);

/* ---- nodes -------------------------------------------------------------- */

/* What a node records of one tensor. The node has a tn__port for each input
 * (its ports), for each output, and for each value that the forward function of
 * an operator written in C saved. */
typedef struct tn__port {
    tn__node *node;    /* owned reference: the node that made this input, which
                          receives its gradient; NULL if there is none */
    uint32_t index;    /* which output of that node this input is */
    int8_t ndim;       /* number of dimensions; -1 if the argument was
                          omitted */
    int8_t output;     /* if forward saved one of its outputs, the index of that
                          output; -1 for any other value */
    uint8_t dtype;
    bool transposed;      /* the tensor is the transpose of a contiguous
                             matrix */
    const int64_t *shape; /* points into the node's own memory block */
    tn_device *device;
    tn__saved_value saved; /* the tensor, if the gradient needs it */
} tn__port;

/* Offset and strides of a tensor in its storage, in elements. */
typedef struct tn__layout {
    int64_t offset, stride[TN_MAX_NDIM];
} tn__layout;

struct tn__node {
    tn__object object;
    const tn_op *op;      /* the operator; NULL for the node of a leaf tensor */
    uint64_t sequence;    /* sequence number of the call, higher than the
                             numbers of all calls on which its inputs depend; 0
                             for a leaf */
    /* The following fields are set for a call. */
    const tn_path *made_in; /* path of the module that made the call */
    const tn__plan *plan;
    uint8_t size_class;   /* memory pool from which the node was allocated */
    bool is_view;         /* the output is a view of input 0 */
    uint16_t port_count, out_count, save_count, value_count;
    uint32_t row_dims;    /* dimensions that the kernel reduces, as a mask */
    int32_t ndim;         /* number of dimensions of shape; -1 if the gradient
                             is a C function */
    const int64_t *shape; /* iteration space of the kernel */
    const tn__layout *layout; /* strides and offset of input 0; NULL if not
                                 recorded */
    tn_hook *hook;        /* owned reference: the first registered hook */
    struct tn_op_context *context; /* owned reference: for an operator that the
                                      program wrote in C, else NULL */
    tn__port *port;       /* port_count inputs, then out_count outputs, then
                             save_count values that forward saved */
    tn_value *value;      /* arguments of the call */
    tn_number *param;     /* scalar parameters of the kernel */
    /* The following fields are set for a leaf. */
    tn_tensor *grad;      /* owned reference: the gradient. tn__leaf_lock guards
                             it. It is released with the last tensor of this
                             leaf, because with create_graph the gradient's
                             graph refers back to this node. */
    _Atomic uint32_t tensors; /* number of tensors that share this leaf */
};

/* The part of a tensor that belongs to autograd. */
struct tn__grad_meta {
    tn__node *node;   /* owned reference: its leaf node, or the node of the call
                         that made it */
    uint32_t index;   /* which output of node the tensor is */
    uint64_t seen;    /* number of the last in-place change of its memory that
                         node takes into account */
    tn_hook *retained; /* owned reference: hook that stores the gradient of a
                          non-leaf tensor (retain_grad), or NULL */
};

/* Checks that x may get grad as its gradient. Returns TN_ERR_STATE if x would
 * then own a reference to itself (grad_cycle.c). */
tn_status tn__grad_check_cycle(tn_tensor *x, tn_tensor *grad);

/* ---- in-place changes of shared memory (history.c) ---------------------- */

/* Replaces x's node if x's memory was written to since the node was
 * recorded. */
tn_status tn__tensor_refresh(tn_tensor *x);
/* Must be called after an in-place operator has written x. node is the node of
 * that call. From now on, gradients of x and of all tensors that share its
 * memory pass through node. */
tn_status tn__history_write(tn_tensor *x, tn__node *node);
/* Returns whether another tensor uses x's memory. Values that graphs have saved
 * do not count. */
bool tn__tensor_is_shared(const tn_tensor *x);
/* Returns whether the recorded view calls show that x is a view of a leaf. */
bool tn__tensor_views_leaf(const tn_tensor *x);
void tn__history_release(tn__history *history);

/* ---- operators that the program wrote in C (registered.c) --------------- */

/* Runs the gradient function of such an operator. */
tn_status tn__registered_gradient(const tn__node *node, tn_tensor *const *g,
                                  tn_tensor **out);
/* Moves the values that forward saved into the node. */
tn_status tn__registered_save(tn__node *node, const tn__call *call);
/* Returns value i that forward saved, which the node continues to own. Returns
 * NULL without an error if forward saved NULL. */
tn_tensor *tn__node_saved(const tn__node *node, int i);

/* ---- hooks (hooks.c) ---------------------------------------------------- */

/* Runs the hooks of node's output `index` on its gradient *g. A hook may
 * replace *g, which owns a reference. */
tn_status tn__hooks_run(const tn__node *node, uint32_t index, tn_tensor **g);
/* Return whether this leaf, or any leaf, has a post-accumulate hook. */
bool tn__hooks_has_post_accumulate(const tn__node *leaf);
bool tn__hooks_any_post_accumulate(void);
/* Runs the post-accumulate hooks of a leaf whose gradient is complete. */
tn_status tn__hooks_run_post_accumulate(const tn__node *leaf);
/* Moves the hook that retains a tensor's gradient to the tensor's new node. */
void tn__hook_move(tn_hook *hook, tn__node *from, tn__node *to,
                   uint32_t index);
/* Removes the hook of a tensor that retained its gradient and was freed. */
void tn__hook_forget_retained(tn_hook *hook);
/* Returns the i-th retained gradient of node, or NULL if it has fewer. */
tn_tensor *tn__hooks_retained_grad(const tn__node *node, int i);
tn_tensor *tn__hook_retained(const tn_hook *hook);
void tn__hook_set_retained(tn_hook *hook, tn_tensor *grad);
/* Removes the hooks that refer to the tensor with this gradient data. */
void tn__hooks_forget(tn__node *node, const tn__grad_meta *meta);

/* ---- making nodes, and the node of a tensor ----------------------------- */

/* Allocates `bytes` for a node and zeroes the struct tn__node at its start.
 * Returns NULL if memory runs out. */
tn__node *tn__node_alloc(size_t bytes);
/* Makes the node of a leaf. Returns NULL if memory runs out. */
tn__node *tn__node_leaf(void);
/* Makes the node of a finished call. The caller owns one reference. */
tn__node *tn__node_record(const tn__plan *plan, tn__call *call);
/* Releases the values that the node saved. */
void tn__node_release(tn__node *node);

/* Makes x the output of node with this index. x takes its own reference to
 * node. */
tn_status tn__tensor_set_node(tn_tensor *x, tn__node *node, uint32_t index);
void tn__grad_meta_release(tn__grad_meta *meta);

/* Lock and unlock the one lock that guards the gradients of all leaves. */
void tn__leaf_lock(void);
void tn__leaf_unlock(void);

/* In anomaly mode, returns an error if one of the gradients out of node
 * contains a NaN. The message says whether the output gradients g already had
 * one. Otherwise returns TN_OK. */
tn_status tn__anomaly_check(const tn__node *node, tn_tensor *const *g,
                            tn_tensor *const *out);
/* Suspend and restore the checks of single operators in anomaly mode. The
 * backward pass checks each gradient as a whole instead. _begin returns whether
 * the checks were on before; that value is passed to _end. */
bool tn__anomaly_begin(void);
void tn__anomaly_end(bool was_watched);

/* Computes the gradients of node's inputs. out has one element more than the
 * node has inputs (port_count + 1). */
tn_status tn__node_run(const tn__node *node, tn_tensor *const *g,
                       tn_tensor **out);

#endif
