/* autograd.h: the recorded graph, and how to write gradients.
 *
 * A node records one operator call, as a grad_fn does in PyTorch. It refers to
 * the nodes that made the call's inputs, and it saves the inputs and outputs
 * that its gradient needs. Tensors point to nodes. A node never points to a
 * tensor that has a graph: a saved value is an alias without a graph. So there
 * are no reference cycles, and a graph is freed with the last tensor that was
 * computed from it.
 *
 * A port of a node is one input tensor of the call. Each argument that may be a
 * tensor has a port, in the order of the arguments, whether it was passed or
 * omitted. An argument that is a list of tensors has one port for each of them.
 * So if the first arguments of an operator are single tensors, their port
 * numbers are their argument numbers.
 *
 * Each operator is one row of the operator table. If the table defines the
 * operator in the kernel language, its gradient is a kernel, which is derived
 * automatically or written in the table. If a C function computes the operator
 * or builds its iteration space, its gradient is a C function
 *
 *     tn_status tn__grad_<name>(const tn__node *node, tn_tensor *const *g,
 *                               tn_tensor **out);
 *
 * which calls ordinary operators. So it works on every device and can be
 * differentiated again. */
#ifndef TN_LIB_AUTOGRAD_AUTOGRAD_H
#define TN_LIB_AUTOGRAD_AUTOGRAD_H

#include <ops/engine/ops.h>
#include <tenon/autograd.h>

typedef struct tn__node tn__node;

/* ---- gradient functions ------------------------------------------------- */

/* Computes the gradients of a call's inputs. g[o] is the gradient of output o
 * (grad_output in PyTorch). NULL means zero, but at least one is not NULL. The
 * function sets out[p], the gradient of input tensor p (port p), if
 * tn__node_wants(node, p) is true. NULL means a zero gradient. The scope in
 * which the function runs owns the results. If an input was broadcast, the
 * function may return the gradient of the broadcast tensor: the backward pass
 * sums it over the broadcast dimensions. out[] has one element more than there
 * are inputs, which only gradients_linear.c uses.
 *
 * If the `saves` line of the operator says `adds`, out[p] may hold on entry the
 * sum of the gradients that other calls computed for the same tensor. The sum
 * has the input's shape and dtype, and nothing else refers to it. The function
 * either adds its gradient to the sum in place, or sets out[p] to its gradient,
 * which the backward pass then adds. */
typedef tn_status (*tn__gradient_fn)(const tn__node *node, tn_tensor *const *g,
                                     tn_tensor **out);
#define TN__GRADIENT(function)                                                \
    tn_status function(const tn__node *node, tn_tensor *const *g,             \
                       tn_tensor **out)

/* A set of values that a gradient function needs, and that the node must
 * therefore save. Bit p of inputs is for input p, bit o of outputs for output
 * o. */
typedef struct tn__saves {
    uint8_t inputs, outputs;
} tn__saves;
/* The two upper bits of by[0].inputs in tn__gradient_row are flags. LAYOUT
 * means that the function needs the offset and the strides of input 0. ADDS
 * means that it can add to the sums in out[], as described at
 * tn__gradient_fn. */
enum { TN__SAVES_LAYOUT = 0x80, TN__SAVES_ADDS = 0x40 };

/* The gradient function of an operator, and the values that the node must save
 * for it (the `saves` lines of the operator table). The table is indexed by
 * operator id and generated from the operator table. */
typedef struct tn__gradient_row {
    tn__gradient_fn run; /* NULL if the gradient is a kernel or does not
                            exist */
    tn__saves by[3]; /* values needed for the gradient of input 0, of input 1
                        and of any later input */
} tn__gradient_row;
extern const tn__gradient_row tn__gradient_table[];
extern const int tn__gradient_table_count;

/* Returns whether the gradient function must compute the gradient of input
 * `port`. The input must require a gradient. During tn_grad it must also be one
 * of the inputs given to tn_grad or depend on one. */
bool tn__node_wants(const tn__node *node, int port);
/* Return a saved input or output, which the node continues to own. They return
 * NULL and record TN_ERR_STATE if an earlier backward freed the graph or if the
 * value was changed in place since it was saved. Under create_graph the value
 * is connected to its graph, so that the gradient can be differentiated. */
tn_tensor *tn__node_input(const tn__node *node, int port);
tn_tensor *tn__node_output(const tn__node *node, int out);
/* Return shape, dtype and device of an input (port). They are available even if
 * the node did not save the tensor. ndim and the list's count are -1 if the
 * argument was omitted. */
tn_dims_list tn__node_shape(const tn__node *node, int port);
int tn__node_ndim(const tn__node *node, int port);
int64_t tn__node_size(const tn__node *node, int port, int dim);
/* Returns whether an input (port) was the transpose (in the last two
 * dimensions) of a contiguous matrix, as a layer's weights often are. The
 * gradient function then makes the gradient the transpose of a contiguous
 * matrix, too. */
bool tn__node_is_transposed(const tn__node *node, int port);
tn_dtype tn__node_dtype(const tn__node *node, int port);
tn_device *tn__node_device(const tn__node *node, int port);
int tn__node_port_count(const tn__node *node);
/* Returns argument i of the call. For a tensor argument, .of.i is its port. For
 * a list of tensors, .of.i is the first port and .count the number of tensors.
 * Lists and strings are copies that the node owns. */
const tn_value *tn__node_value(const tn__node *node, int i);
/* Returns argument i of the call, which is a dimension of input `port`, as a
 * non-negative number. */
int tn__node_dim(const tn__node *node, int i, int port);
const char *tn__node_name(const tn__node *node);
/* tn__node_strides and tn__node_offset return the strides and the storage
 * offset of input 0, in elements. A node records them only if the call returned
 * a view or the `saves` line of the operator says `layout`. */
const int64_t *tn__node_strides(const tn__node *node);
int64_t tn__node_offset(const tn__node *node);

/* Sums g over the dimensions along which `shape` was broadcast to g's shape. */
tn_tensor *tn__sum_to_shape(tn_tensor *g, int ndim, const int64_t *shape);

/* Converts g to float32 if its dtype is a 16-bit float. Gradients that sum
 * elements of g use it, so that the sum is rounded only once, when the backward
 * pass converts it back. */
tn_tensor *tn__widen_half(tn_tensor *g);

/* Makes a tensor of zeros for an operator that copies its input before it
 * writes, such as scatter_add. The tensor has one element in memory, expanded
 * to `shape`, so that only the copy allocates memory. */
tn_tensor *tn__zeros_expanded(tn_dims_list shape, tn_dtype dtype,
                              tn_device *device);

#endif
