/* ops.h: a row of the operator table, and what its function gets.
 *
 * A row is all that the library knows about an operator. A new operator is a
 * row in the file of its family, and a function if no old one fits. */
#ifndef TN_ONNX_OPS_OPS_H
#define TN_ONNX_OPS_OPS_H

#include <onnx/onnx.h>

typedef struct tn__onnx_call tn__onnx_call;

/* The opset after the last one that is supported. */
enum { TN__ONNX_FIRST_OPSET = 7, TN__ONNX_LAST_OPSET = 23 };

typedef struct tn__onnx_op {
    const char *domain, *name; /* NULL is ai.onnx */
    /* The opsets in which the operator is as this row says. until 0: up to the
     * last. */
    int since, until;
    int min_in, max_in, max_out; /* -1: any number */
    /* "axis:int=0 axes:ints mode:string=constant value:tensor! ...": type and
     * default of each attribute. Without default it may be absent; with '!' it
     * must be given. Attributes that the row does not list are refused. */
    const char *attributes;
    void (*run)(tn__onnx_call *c);
    /* What the shared functions tn__onnx_unary, tn__onnx_binary, ... call. */
    tn_tensor *(*unary)(tn_tensor *);
    tn_tensor *(*binary)(tn_tensor *, tn_tensor *);
    tn_tensor *(*reduce)(tn_tensor *, tn_dims_list, bool keepdim);
    /* Bits of inputs. host: their elements are read on the host, so that an
     * initialiser is no parameter. buffer: statistics, which are not trained. */
    unsigned host, buffer;
    /* integers of wider dtypes are reduced to their ONNX type */
    bool wraps;
    bool of_shape; /* the results depend on the shapes of inputs alone */
    bool random;   /* the results differ from run to run */
    bool by_data;  /* shapes of results depend on elements of inputs */
} tn__onnx_op;

/* One run of a node. */
struct tn__onnx_call {
    const tn__onnx_node *node;
    const tn__onnx_attr *const *attr; /* in the order of the row */
    int in_count, out_count;
    tn_tensor *const *x; /* inputs; NULL: left out. On `device` */
    const int *x_type;   /* their ONNX types */
    tn_tensor **y;       /* results; the function sets them */
    /* Types of results. 0: that of the first input if the dtype is the same,
     * else that of the dtype. */
    int *y_type;
    tn_device *device;
    bool training;       /* the mode of the module */
    /* Whether the node is computed when the model is opened. Results must then
     * be small (tn__onnx_may_make). */
    bool folds;
    bool reads;          /* the function has read elements that are not fixed */
    struct tn__onnx_run *run;
    tn__onnx_value *const *value; /* of the inputs, then of the captures */
};

/* The row for an operator in an opset, or NULL. *known: there is a row of that
 * name. */
const tn__onnx_op *tn__onnx_op_find(const char *domain, const char *name,
                                    int64_t opset, bool *known);
/* Row i of the table, or NULL if there is none. */
const tn__onnx_op *tn__onnx_op_at(int i);

/* ---- for the functions --------------------------------------------------- */

/* Refuse the call: TN_ERR_... "what". */
__attribute__((format(printf, 3, 4)))
void tn__onnx_refuse(tn__onnx_call *c, tn_status code, const char *format, ...);

/* Input i, or NULL if it is left out. */
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
/* Attribute i of the row. */
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

/* Reads integers or floats of input i on the host: at most room. Returns their
 * number, 0 if the input is left out, or -1 with an error. */
int tn__onnx_ints(tn__onnx_call *c, int i, int64_t *out, int room);
int tn__onnx_floats(tn__onnx_call *c, int i, double *out, int room);
/* Sizes or axes: attribute `attr` if it is not negative and given, else input
 * `in` if it is not negative and given. count -1 if neither is; false with an
 * error. */
bool tn__onnx_dims(tn__onnx_call *c, int attr, int in, tn_dims_list *out);
/* Makes axes non-negative and checks them. */
bool tn__onnx_axes(tn__onnx_call *c, tn_dims_list *axes, int ndim);
/* One axis of input 0, made non-negative; -1 with an error. */
int tn__onnx_axis(tn__onnx_call *c, int64_t axis, int ndim);
/* Returns whether a result of that shape may be made: not if the node is being
 * folded and the result is large. */
bool tn__onnx_may_make(tn__onnx_call *c, tn_dims_list shape);
/* The shape of x as a list. */
tn_dims_list tn__onnx_shape(const tn_tensor *x);
/* count sizes of 0, to be set. */
static inline tn_dims_list tn__onnx_blank(int count)
{
    return tn_dims_from_array((int64_t[TN_MAX_NDIM]){0}, count);
}
/* A tensor of integers on the device of the call. */
tn_tensor *tn__onnx_from_ints(tn__onnx_call *c, const int64_t *x, int count);
/* Where the arithmetic of shapes is done. */
tn_device *tn__onnx_host(const tn__onnx_call *c);
/* Converts x to the range of an ONNX type. */
tn_tensor *tn__onnx_wrap(tn_tensor *x, int type);
/* Runs a subgraph on inputs, and stores its outputs, which the open scope
 * owns. types may be NULL. False with an error. */
bool tn__onnx_subgraph(tn__onnx_call *c, const tn__onnx_attr *graph,
                       tn_tensor *const *in, const int *in_type, int in_count,
                       tn_tensor **out, int *out_type, int out_count);
/* Counts an iteration of a loop. False with an error if there are too many. */
bool tn__onnx_iterate(tn__onnx_call *c);

/* What most rows call. */
void tn__onnx_unary(tn__onnx_call *c);
void tn__onnx_binary(tn__onnx_call *c);

/* ---- the families -------------------------------------------------------- */

typedef struct tn__onnx_family {
    const tn__onnx_op *row;
    int count;
} tn__onnx_family;
#define TN__ONNX_FAMILY(rows) {rows, (int)(sizeof(rows) / sizeof *(rows))}

extern const tn__onnx_family tn__onnx_math, tn__onnx_activation,
    tn__onnx_reduce, tn__onnx_shape_ops, tn__onnx_index, tn__onnx_matrix,
    tn__onnx_conv, tn__onnx_norm, tn__onnx_create, tn__onnx_recurrent,
    tn__onnx_control, tn__onnx_quantised, tn__onnx_signal, tn__onnx_loss,
    tn__onnx_resize, tn__onnx_attention, tn__onnx_image,
    tn__onnx_regions;

#endif
