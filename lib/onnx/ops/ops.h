/* ops.h: the rows of the operator table, and the argument of their functions.
 *
 * A row contains all that the library knows about an operator. A new operator
 * is a row in the file of its family, and a function if no existing one
 * fits. */
#ifndef TN_ONNX_OPS_OPS_H
#define TN_ONNX_OPS_OPS_H

#include <onnx/onnx.h>

typedef struct tn__onnx_call tn__onnx_call;

/* The first and the last opset of ai.onnx that are supported. */
enum { TN__ONNX_FIRST_OPSET = 7, TN__ONNX_LAST_OPSET = 23 };

typedef struct tn__onnx_op {
    const char *domain, *name; /* domain NULL means ai.onnx */
    /* The row describes the operator in opsets since to until. until 0 means up
     * to the last opset. */
    int since, until;
    int min_in, max_in, max_out; /* -1: any number */
    unsigned optional; /* bit i: input i may be left out, though it comes before
                          input min_in */
    /* "axis:int=0 axes:ints mode:string=constant value:tensor! ...": type and
     * default of each attribute. Without default it may be absent; with '!' it
     * must be given. Attributes that the row does not list are rejected. */
    const char *attributes;
    void (*run)(tn__onnx_call *c);
    /* The operator that tn__onnx_unary, tn__onnx_binary, ... call. */
    tn_tensor *(*unary)(tn_tensor *);
    tn_tensor *(*binary)(tn_tensor *, tn_tensor *);
    tn_tensor *(*reduce)(tn_tensor *, tn_dims_list, bool keepdim);
    /* Bit i stands for input i. host: the function reads the elements of this
     * input on the host, so an initialiser does not become a parameter. buffer:
     * an initialiser becomes a buffer, which is not trained (statistics).
     * constant: an initialiser stays a constant (scales of integers), so nodes
     * that compute with it can be folded. */
    unsigned host, buffer, constant;
    /* Makes tensors that depend on constant inputs alone. It is called when the
     * model is opened, if the inputs in `prepares` are constants or left out.
     * The open scope owns the tensors. May leave them NULL. */
    void (*prepare)(tn__onnx_call *c, tn_tensor **out);
    unsigned prepares;
    /* integers of a wider dtype are reduced to the range of their ONNX type */
    bool wraps;
    bool scales;   /* a cast, or arithmetic of a scale or a zero point: if an
                      input holds quantised weights, so does the result */
    bool of_shape; /* the results depend only on the shapes of inputs */
    bool random;   /* each run gives other results */
    bool by_data;  /* the shapes of results depend on the elements of inputs */
    /* How large the results may be. This decides whether they are computed when
     * the model is opened. By default a result has at most the product of the
     * sizes of the inputs. With `binary` it has the size to which the inputs
     * broadcast. */
    bool sums;     /* at most as large as the inputs together */
    bool grows;    /* large by attributes, or by inputs that the host reads; so
                      never computed then */
} tn__onnx_op;

/* One run of a node. */
struct tn__onnx_call {
    const tn__onnx_node *node;
    const tn__onnx_attr *const *attr; /* attributes in the order of the row */
    int in_count, out_count;
    tn_tensor *const *x; /* inputs on `device`; NULL if left out */
    const int *x_type;   /* their ONNX types */
    tn_tensor **y;       /* results, which the function sets */
    /* ONNX types of the results. 0 means the type of the first input if the
     * dtypes are equal, and otherwise the type of the result's dtype. */
    int *y_type;
    tn_device *device;
    bool training;       /* whether the module is in training mode */
    /* Whether the node runs while the model is opened. Its results must be
     * small then (tn__onnx_may_make). */
    bool folds;
    bool reads;          /* set by a function that reads elements of an input
                            that is not fixed */
    struct tn__onnx_run *run;
    tn__onnx_value *const *value; /* values of the inputs, then those that
                                     subgraphs capture */
};

/* Returns the row of an operator in an opset, or NULL. *known becomes true if
 * the table has the operator in any opset. */
const tn__onnx_op *tn__onnx_op_find(const char *domain, const char *name,
                                    int64_t opset, bool *known);
/* Returns row i of the table, or NULL after the last one. */
const tn__onnx_op *tn__onnx_op_at(int i);

/* ---- for the functions --------------------------------------------------- */

/* Set an error with the message "what", for the node of the call. */
__attribute__((format(printf, 3, 4)))
void tn__onnx_refuse(tn__onnx_call *c, tn_status code, const char *format, ...);

/* Returns input i, or NULL if it is left out. */
static inline tn_tensor *tn__onnx_x(const tn__onnx_call *c, int i)
{
    return i < c->in_count ? c->x[i] : NULL;
}
static inline bool tn__onnx_has(const tn__onnx_call *c, int i)
{
    return i < c->in_count && c->x[i];
}
static inline bool tn__onnx_wants(const tn__onnx_call *c, int i)
{
    return i < c->out_count && c->node->out[i] >= 0;
}
/* Returns tensor i that row->prepare made, or NULL. */
static inline tn_tensor *tn__onnx_prepared(const tn__onnx_call *c, int i)
{
    tn_tensor *x = c->node->prepared[i];
    return x && tn_tensor_device(x) == c->device ? x : NULL;
}
/* Return the value of attribute i of the row. */
static inline int64_t tn__onnx_int(const tn__onnx_call *c, int i)
{
    return c->attr[i]->i;
}
static inline double tn__onnx_float(const tn__onnx_call *c, int i)
{
    return (double)c->attr[i]->f;
}
static inline const char *tn__onnx_string(const tn__onnx_call *c, int i)
{
    return c->attr[i]->s;
}

/* Read the integers or floats of input i on the host, at most `room`. Return
 * the number of elements, 0 if the input is left out, or -1 with an error. */
int tn__onnx_ints(tn__onnx_call *c, int i, int64_t *out, int room);
int tn__onnx_floats(tn__onnx_call *c, int i, double *out, int room);
/* Reads sizes or axes from attribute `attr`, or from input `in` if the
 * attribute is left out. A negative `attr` or `in` is not read. Sets out->count
 * to -1 if neither is given. Returns false with an error. */
bool tn__onnx_dims(tn__onnx_call *c, int attr, int in, tn_dims_list *out);
/* Checks axes, and adds ndim to negative ones. Returns false with an error. */
bool tn__onnx_axes(tn__onnx_call *c, tn_dims_list *axes, int ndim);
/* Checks one axis of input 0, and adds ndim if it is negative. Returns -1 with
 * an error. */
int tn__onnx_axis(tn__onnx_call *c, int64_t axis, int ndim);
/* Returns whether a result of this shape may be made. It may not if the node
 * runs while the model is opened and the result is large. */
bool tn__onnx_may_make(tn__onnx_call *c, tn_dims_list shape);
/* Returns whether memory for count 64-bit numbers is available on the device of
 * the call. Functions call this before they make a list on the host, which
 * tn_memory_set_limit does not count. Otherwise sets TN_ERR_MEMORY. */
bool tn__onnx_fits(tn__onnx_call *c, int64_t count);
/* Returns the shape of x as a list. */
tn_dims_list tn__onnx_shape(const tn_tensor *x);
/* Returns a list of count zeros, which the caller fills in. */
static inline tn_dims_list tn__onnx_blank(int count)
{
    return tn_dims_from_array((int64_t[TN_MAX_NDIM]){0}, count);
}
/* Makes a tensor of integers on the device of the call. */
tn_tensor *tn__onnx_from_ints(tn__onnx_call *c, const int64_t *x, int count);
/* Returns the device on which shape arithmetic runs. */
tn_device *tn__onnx_host(const tn__onnx_call *c);
/* Reduces the integers of x to the range of an ONNX type. */
tn_tensor *tn__onnx_wrap(tn_tensor *x, int type);
/* Runs a subgraph and stores its outputs, which the open scope owns. types may
 * be NULL. Returns false with an error. */
bool tn__onnx_subgraph(tn__onnx_call *c, const tn__onnx_attr *graph,
                       tn_tensor *const *in, const int *in_type, int in_count,
                       tn_tensor **out, int *out_type, int out_count);
/* Counts an iteration of a loop. Returns false with an error if the run has had
 * too many iterations. */
bool tn__onnx_iterate(tn__onnx_call *c);

/* The functions that most rows use. */
void tn__onnx_unary(tn__onnx_call *c);
void tn__onnx_binary(tn__onnx_call *c);

/* ---- the families -------------------------------------------------------- */

typedef struct tn__onnx_family {
    const tn__onnx_op *row;
    int count;
} tn__onnx_family;
#define TN__ONNX_FAMILY(rows) {rows, (int)(sizeof(rows) / sizeof *(rows))}

extern const tn__onnx_family tn__onnx_math, tn__onnx_activation,
    tn__onnx_reduce, tn__onnx_shape_ops, tn__onnx_slice, tn__onnx_index,
    tn__onnx_matrix, tn__onnx_conv, tn__onnx_deform, tn__onnx_norm,
    tn__onnx_create, tn__onnx_recurrent, tn__onnx_control, tn__onnx_quantised,
    tn__onnx_signal, tn__onnx_loss, tn__onnx_resize, tn__onnx_attention,
    tn__onnx_image, tn__onnx_regions, tn__onnx_grams;

#endif
