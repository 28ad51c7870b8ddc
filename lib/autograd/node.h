/* node.h: nodes from the inside, for the files of this room alone. */
#ifndef TN_LIB_AUTOGRAD_NODE_H
#define TN_LIB_AUTOGRAD_NODE_H

#include <autograd/autograd.h>
#include <base/error.h>
#include <base/memory.h>
#include <base/platform.h>
#include <tenon/hook.h>

/* ---- plans: what is known of all calls of one row and kernel ------------ */

/* The gradient with respect to one port. */
typedef struct tn__plan_port {
    const tn__kernel *kernel; /* NULL: zero, or none (failed) */
    bool zero;
    bool failed;    /* no derivative: making it again tells why */
    int input;      /* number of the kernel's input that the port feeds */
    int used[TN__KERNEL_MAX_INPUTS]; /* as tn__kernel_gradient tells */
    int param[TN__KERNEL_MAX_PARAMS]; /* of the forward kernel's */
    uint32_t inputs, outputs; /* what it needs: a bit a port, an output */
    bool copies_cotangent; /* kernel only copies its one input, a cotangent */
    const tn__kernel *summed; /* kernel, then summed over a row: for an input
                                 that was broadcast. NULL: in two launches */
    const tn__kernel *per_row; /* kernel, once a row: all of a row's elements
                                  are equal. NULL: they are not */
} tn__plan_port;

#define TN__PLAN_PORTS 16
typedef struct tn__plan {
    struct tn__plan *next; /* in its bucket */
    const tn_op *op;
    const tn__kernel *kernel;    /* NULL where gradient is a C function */
    tn__gradient_fn gradient;
    const tn__saves *saves;      /* of gradient; NULL: needs no values */
    bool saves_layout;           /*   where input 0 lay */
    bool adds;                   /*   it adds to sums that are given to it */
    int port_count;              /* lists count as one */
    uint8_t port_arg[TN__PLAN_PORTS];   /* which argument feeds it */
    uint8_t input_port[TN__KERNEL_MAX_INPUTS]; /* kernel's input -> port */
    /* Made when first asked for; written once. */
    _Atomic(tn__plan_port *) port[TN__PLAN_PORTS];
} tn__plan;

/* Lives as long as the process. NULL with the error recorded. */
const tn__plan *tn__plan_find(const tn_op *op, const tn__kernel *kernel);
/* Of a plan without C function. NULL only if memory runs out. */
const tn__plan_port *tn__plan_port_find(const tn__plan *plan, int port);
/* Records why there is no gradient for this port. */
tn_status tn__plan_port_fail(const tn__plan *plan, int port);
/* What must be saved if the ports of this mask are wanted. */
tn_status tn__plan_saves(const tn__plan *plan, uint32_t wanted,
                         uint32_t *inputs, uint32_t *outputs);

/* ---- saved values ------------------------------------------------------- */

/* A run of a function whose saved values are made again when a gradient asks
 * for them (recompute.c). */
typedef struct tn__rerun tn__rerun;

/* A value that is needed later: kept, or number `version` of those that a
 * rerun makes again. Both NULL: none, or given back. */
typedef struct tn__saved_value {
    tn_tensor *value; /* counted: an alias without gradient data */
    tn__rerun *rerun; /* counted */
    uint32_t version; /* of value's storage when it was saved */
} tn__saved_value;

/* Saves x; inside a function that is run again later only its number. False if
 * memory runs out. */
bool tn__saved_value_set(tn__saved_value *saved, tn_tensor *x,
                         uint32_t version);
/* Lent. NULL with the error recorded if it was given back, changed in place
 * since, or cannot be made again; who: the operator that saved it. */
tn_tensor *tn__saved_value_get(const tn__saved_value *saved, const char *who);
void tn__saved_value_release(tn__saved_value *saved);

/* What a rerun does for the values that stand for a number. */
bool tn__rerun_saves(tn__saved_value *saved, tn_tensor *x, uint32_t version,
                     bool *keep);
const tn__saved_value *tn__rerun_value(tn__rerun *rerun, uint32_t number);
void tn__rerun_forget(tn__rerun *rerun, uint32_t number);

/* ---- nodes -------------------------------------------------------------- */

/* A tensor as its node remembers it: an input or an output of the call. */
typedef struct tn__port {
    tn__node *node;    /* counted: where its gradient goes, NULL: nowhere; */
    uint32_t index;    /*   to which output of it. Of outputs: unused */
    int8_t ndim;       /* -1: left out */
    int8_t output;     /* of a value that a program's forward saved: which
                          output it was, -1: none */
    uint8_t dtype;
    bool transposed;      /* its last two sizes lie as a transpose's do */
    const int64_t *shape; /* in the node's block */
    tn_device *device;
    tn__saved_value saved;
} tn__port;

/* Where a tensor lies in its storage. */
typedef struct tn__layout {
    int64_t offset, stride[TN_MAX_NDIM];
} tn__layout;

struct tn__node {
    tn__object object;
    const tn_op *op;      /* NULL: a leaf */
    uint64_t sequence;    /* greater than that of all nodes it leads to */
    /* of a call: */
    const tn_path *made_in; /* the module that made it */
    const tn__plan *plan;
    uint8_t size_class;
    bool is_view;         /* its output shares the memory of port 0 */
    uint16_t port_count, out_count, save_count, value_count;
    uint32_t row_dims;
    int32_t ndim;         /* of shape; -1: a row with a C function */
    const int64_t *shape; /* over which a kernel ran */
    const tn__layout *layout; /* of port 0, as many strides as it has; NULL:
                                 not told */
    tn_hook *hook;        /* counted: the first of those registered */
    struct tn_op_context *context; /* counted: of an operator that the program
                                      wrote in C, or NULL */
    tn__port *port;       /* port_count of them, then out_count outputs, then
                             save_count values that its forward saved */
    tn_value *value;
    tn_number *param;
    /* of a leaf: */
    tn_tensor *grad;      /* counted; guarded by tn__leaf_lock. NULL once no
                             tensor is left to ask for it: with create_graph
                             it leads back to this node */
    _Atomic uint32_t tensors; /* that this is the leaf of */
};

/* What hangs on a tensor. */
struct tn__grad_meta {
    tn__node *node;   /* counted: a leaf's, or that of the call */
    uint32_t index;   /* which of its outputs */
    uint64_t seen;    /* the change of its memory that node knows of */
    tn_hook *retained; /* counted: holds the gradient that a tensor which is
                          no leaf is to keep; NULL: none */
};

/* TN_ERR_STATE if x would hold itself were grad its gradient (grad_cycle.c). */
tn_status tn__grad_check_cycle(tn_tensor *x, tn_tensor *grad);

/* ---- memory changed in place while several tensors see it (history.c) ---- */

/* Brings x's node up to date with what was written into its memory. */
tn_status tn__tensor_refresh(tn_tensor *x);
/* x was written by the call that left node: x and all that shares its memory
 * have their gradient from there. */
tn_status tn__history_write(tn_tensor *x, tn__node *node);
/* Does another tensor than x, and than what graphs saved, use its memory? */
bool tn__tensor_is_shared(const tn_tensor *x);
/* The tensor of which x is a view, as its nodes tell: a leaf? */
bool tn__tensor_views_leaf(const tn_tensor *x);
/* Number of the last change of x's memory, 0: none. */
uint64_t tn__history_count(const tn_tensor *x);
void tn__history_release(tn__history *history);

/* ---- operators that the program wrote in C (registered.c) ------------------ */

tn_status tn__registered_gradient(const tn__node *node, tn_tensor *const *g,
                                  tn_tensor **out);
/* The node takes over what forward saved. */
tn_status tn__registered_save(tn__node *node, const tn__call *call);
/* Saved value i, lent; NULL without an error where NULL was saved. */
tn_tensor *tn__node_saved(const tn__node *node, int i);

/* ---- hooks (hooks.c) ------------------------------------------------------ */

/* Runs those of node's output `index` over *g (counted; may be replaced). */
tn_status tn__hooks_run(const tn__node *node, uint32_t index, tn_tensor **g);
/* Do hooks wait for the gradient of this leaf, or of any at all? */
bool tn__hooks_has_post_accumulate(const tn__node *leaf);
bool tn__hooks_any_post_accumulate(void);
/* Runs those of a leaf that has its gradient. */
tn_status tn__hooks_run_post_accumulate(const tn__node *leaf);
/* x is a tensor of node now: the gradient that it retains comes from there. */
void tn__hook_move(tn_hook *hook, tn__node *from, tn__node *to,
                   uint32_t index);
/* The tensor that kept its gradient there is gone. */
void tn__hook_forget_retained(tn_hook *hook);
/* The gradients that tensors keep on node: number i of them; NULL: no more. */
tn_tensor *tn__hooks_retained_grad(const tn__node *node, int i);
tn_tensor *tn__hook_retained(const tn_hook *hook);
void tn__hook_set_retained(tn_hook *hook, tn_tensor *grad);
/* Hooks that speak of the tensor with this data end. */
void tn__hooks_forget(tn__node *node, const tn__grad_meta *meta);

/* A leaf's node. NULL if memory runs out. */
tn__node *tn__node_leaf(void);
/* The node of a finished call, one reference. */
tn__node *tn__node_record(const tn__plan *plan, tn__call *call);
/* Gives back what the node saved. */
void tn__node_release(tn__node *node);

/* Makes x an output of node (takes no reference of the caller's). */
tn_status tn__tensor_set_node(tn_tensor *x, tn__node *node, uint32_t index);
void tn__grad_meta_release(tn__grad_meta *meta);

/* Serialises changes of gradients of leaves. */
void tn__leaf_lock(void);
void tn__leaf_unlock(void);

/* In anomaly mode, what node's gradient made of g; TN_OK outside of it. */
tn_status tn__anomaly_check(const tn__node *node, tn_tensor *const *g,
                            tn_tensor *const *out);
/* The walk looks at what its operators made itself: returns whether those of
 * the program are watched, which they are not until _end. */
bool tn__anomaly_begin(void);
void tn__anomaly_end(bool was_watched);

/* Runs node's gradient: out has room for port_count, and one more. */
tn_status tn__node_run(const tn__node *node, tn_tensor *const *g,
                       tn_tensor **out);

#endif
