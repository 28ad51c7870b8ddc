/* autograd.h: the recorded graph, and how to write gradients.
 *
 * A node records one call. It holds edges to the nodes that made the call's
 * inputs, and those inputs and outputs that its gradient needs. Tensors point
 * to nodes. Nodes never point to tensors that have a graph: the values they
 * save are aliases without one. So there are no reference cycles, and a graph
 * is freed with the last tensor that was computed from it.
 *
 * The gradient of a KERNEL row is a kernel, derived or written in the table.
 * The gradient of a NATIVE row, or of a row with a `rule`, is a C function
 *
 *     tn_status tn__grad_<name>(const tn__node *node, tn_tensor *const *g,
 *                               tn_tensor **out);
 *
 * which runs ordinary operators. So it works on every device and can be
 * differentiated again. */
#ifndef TN_LIB_AUTOGRAD_AUTOGRAD_H
#define TN_LIB_AUTOGRAD_AUTOGRAD_H

#include <ops/engine/ops.h>
#include <tenon/autograd.h>

typedef struct tn__node tn__node;

/* ---- gradient functions ------------------------------------------------- */

/* The gradient of a call. g[o] is the cotangent of output o, NULL if it is
 * zero; at least one is not NULL. The function sets out[p] for each port p that
 * tn__node_wants; NULL means a zero gradient. Results belong to the open scope;
 * the walk opens one around each call. A result may have the shape to which the
 * port was broadcast: the walk sums it. out[port count] is used by
 * gradients_linear.c alone.
 *
 * If the row's `saves` line says `adds`, out[p] may hold on entry the sum of
 * the gradients of other calls, of the port's shape and dtype and not shared.
 * The function then either adds to that tensor in place and leaves it in
 * out[p], or replaces it by a result that the walk adds. */
typedef tn_status (*tn__gradient_fn)(const tn__node *node, tn_tensor *const *g,
                                     tn_tensor **out);
#define TN__GRADIENT(name)                                                    \
    tn_status tn__grad_##name(const tn__node *node, tn_tensor *const *g,      \
                              tn_tensor **out)

/* The values that a gradient function needs when port 0, port 1, or any later
 * port is wanted. Bit p of inputs is input p, bit o of outputs is output o.
 * Other values are not saved. */
typedef struct tn__saves {
    uint8_t inputs, outputs;
} tn__saves;
/* Flags in by[0].inputs, in place of the bits of two inputs. LAYOUT: the
 * function needs offset and strides of input 0. ADDS: it adds to sums, as
 * described above. */
enum { TN__SAVES_LAYOUT = 0x80, TN__SAVES_ADDS = 0x40 };

/* By operator id: the gradient function of a NATIVE row or of a row with a
 * rule, and what its `saves` lines say. run is NULL for KERNEL rows whose
 * gradient is a kernel and for rows without a gradient. Generated from the
 * operator table. */
typedef struct tn__gradient_row {
    tn__gradient_fn run;
    tn__saves by[3];
} tn__gradient_row;
extern const tn__gradient_row tn__gradient_table[];
extern const int tn__gradient_table_count;

/* Ports: one for each argument that may be a tensor, in order, whether it was
 * passed or omitted. A list has one port for each of its tensors. So the port
 * number of a leading tensor argument is its argument number. */

/* Is the gradient of this port wanted? Its tensor must require a gradient and,
 * during tn_grad, lead to one of the inputs that tn_grad was given. */
bool tn__node_wants(const tn__node *node, int port);
/* A saved value, lent. NULL with TN_ERR_STATE recorded if an earlier backward
 * freed the graph or the value was changed in place since it was saved. Under
 * create_graph the value is connected to its graph. */
tn_tensor *tn__node_input(const tn__node *node, int port);
tn_tensor *tn__node_output(const tn__node *node, int out);
/* Shape, dtype and device of a port's tensor, known whether or not it was
 * saved. ndim is -1 if the argument was omitted. The list can be passed to
 * operators. */
tn_dims_list tn__node_shape(const tn__node *node, int port);
int tn__node_ndim(const tn__node *node, int port);
int64_t tn__node_size(const tn__node *node, int port, int dim);
/* Was the port's tensor a contiguous matrix transposed in its last two
 * dimensions, as a layer's weights are? If its gradient is transposed too, the
 * gradient of the matrix itself comes out contiguous. */
bool tn__node_is_transposed(const tn__node *node, int port);
tn_dtype tn__node_dtype(const tn__node *node, int port);
tn_device *tn__node_device(const tn__node *node, int port);
int tn__node_port_count(const tn__node *node);
/* The call's argument i. For a tensor argument, .of.i is its port; for a list
 * of tensors, .of.i is the first port and .count the number of them. Lists and
 * strings are the node's own copies. */
const tn_value *tn__node_value(const tn__node *node, int i);
/* Argument i as a dimension of a port, counted from the front. */
int tn__node_dim(const tn__node *node, int i, int port);
const char *tn__node_name(const tn__node *node);
/* Strides (one for each dimension) and offset of port 0 in its storage, in
 * elements. Recorded only for views and for rows whose `saves` line says
 * `layout`; not to be called for others. */
const int64_t *tn__node_strides(const tn__node *node);
int64_t tn__node_offset(const tn__node *node);

/* g summed over the dimensions along which `shape` was broadcast to g's
 * shape. */
tn_tensor *tn__sum_to_shape(tn_tensor *g, int ndim, const int64_t *shape);

/* g converted to float32 if its dtype is a 16-bit float, for a gradient that
 * sums parts of g. The walk rounds the sum once when it converts it back. */
tn_tensor *tn__widen_half(tn_tensor *g);

/* Zeros of this shape for a row that copies its input before it writes, such as
 * scatter_add. They are one element, expanded, so that only the copy allocates
 * memory. */
tn_tensor *tn__zeros_expanded(tn_dims_list shape, tn_dtype dtype,
                              tn_device *device);

#endif
