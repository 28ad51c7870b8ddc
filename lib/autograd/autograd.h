/* autograd.h: the graph that calls leave behind, and how gradients are
 * written.
 *
 * A node is one call that was recorded: edges to the nodes that made its
 * inputs, and of its inputs and outputs only what its gradient needs. Tensors
 * point to nodes, nodes never to tensors with a graph of their own (what they
 * save are aliases without one), so there are no cycles and a graph goes when
 * the last tensor that came out of it does.
 *
 * The gradient of a KERNEL row is a kernel, derived or written in the table.
 * That of a NATIVE row, or of one with a `rule`, is a C function
 *
 *     tn_status tn__grad_<name>(const tn__node *node, tn_tensor *const *g,
 *                               tn_tensor **out);
 *
 * which runs ordinary operators, so that it works on every device and can be
 * differentiated again.
 */
#ifndef TN_LIB_AUTOGRAD_AUTOGRAD_H
#define TN_LIB_AUTOGRAD_AUTOGRAD_H

#include <ops/engine/ops.h>
#include <tenon/autograd.h>

typedef struct tn__node tn__node;

/* ---- gradient functions ------------------------------------------------- */

/* The gradient of a call. g[o] is the cotangent of output o, NULL where none
 * flows (never for all of them). Sets out[p] for each port p that is wanted;
 * NULL stays where the gradient is zero. Results belong to the open scope; the
 * walk opens one around each call. A result may have the shape that the port
 * broadcasts to: the walk sums it. out[port count] is gradients_linear.c's.
 *
 * For a row whose line `saves` says `adds` out[p] may hold what came from other calls, of
 * the port's shape and dtype, to be written by nobody else: the function adds to
 * it and leaves it there, or puts in its place a result to be added. */
typedef tn_status (*tn__gradient_fn)(const tn__node *node, tn_tensor *const *g,
                                     tn_tensor **out);
#define TN__GRADIENT(name)                                                    \
    tn_status tn__grad_##name(const tn__node *node, tn_tensor *const *g,      \
                              tn_tensor **out)

/* Which values a gradient function needs where port 0, 1, or 2 or a later one, is
 * wanted: bit p is input p, bit o output o. Only they are kept. */
typedef struct tn__saves {
    uint8_t inputs, outputs;
} tn__saves;
/* In place of an input's bit, of port 0: where input 0 lay in memory; and that the
 * function adds to sums, as above. */
enum { TN__SAVES_LAYOUT = 0x80, TN__SAVES_ADDS = 0x40 };

/* By operator id: the function of a NATIVE row or of one with a rule, and what its
 * lines `saves` say; NULL for KERNEL rows whose gradient is a kernel and for what
 * has none. Generated from the operator table. */
typedef struct tn__gradient_row {
    tn__gradient_fn run;
    tn__saves by[3];
} tn__gradient_row;
extern const tn__gradient_row tn__gradient_table[];
extern const int tn__gradient_table_count;

/* Ports: one for each argument that may be a tensor, in order, left out or
 * not; a list has one for each of its tensors. So for leading tensors a port's
 * number is that of the argument. */

/* Is the gradient of this port asked for: does its tensor require one, and, in a
 * walk for some inputs alone (tn_grad), does the way to one of them lead there? */
bool tn__node_wants(const tn__node *node, int port);
/* A saved value: lent. NULL with TN_ERR_STATE recorded if the graph was freed
 * by an earlier backward or the value changed in place since. While the walk
 * records itself (create_graph) it carries its graph. */
tn_tensor *tn__node_input(const tn__node *node, int port);
tn_tensor *tn__node_output(const tn__node *node, int out);
/* What is known of a port's tensor whether or not it was saved: ndim -1 where
 * it was left out. The list can be passed to operators. */
tn_dims_list tn__node_shape(const tn__node *node, int port);
int tn__node_ndim(const tn__node *node, int port);
int64_t tn__node_size(const tn__node *node, int port, int dim);
/* Is it a transposed matrix, as weights of layers are? A gradient that lies so
 * too arrives at the matrix itself as that lies. */
bool tn__node_is_transposed(const tn__node *node, int port);
tn_dtype tn__node_dtype(const tn__node *node, int port);
tn_device *tn__node_device(const tn__node *node, int port);
int tn__node_port_count(const tn__node *node);
/* The call's argument i. In place of tensors .of.i is the port (of the first,
 * .count of them). Lists and texts are the node's own copies. */
const tn_value *tn__node_value(const tn__node *node, int i);
/* Argument i as a dimension of a port: counted from the front. */
int tn__node_dim(const tn__node *node, int i, int port);
const char *tn__node_name(const tn__node *node);
/* Where port 0 lay in its storage: of views, and of rows whose line
 * `saves` says `layout`.
 * One stride a dimension; may not be asked of others. */
const int64_t *tn__node_strides(const tn__node *node);
int64_t tn__node_offset(const tn__node *node);

/* g summed over the dimensions along which shape was broadcast to g's. */
tn_tensor *tn__sum_to_shape(tn_tensor *g, int ndim, const int64_t *shape);

/* g in float32 where it is of a half type, for a gradient that adds parts of it
 * up: they are rounded once, where the walk hands the sum on. */
tn_tensor *tn__widen_half(tn_tensor *g);

/* Zeros of this shape for a row that copies its input before it writes, as
 * scatter_add does: one element, expanded, so that only the copy takes memory
 * and time. */
tn_tensor *tn__zeros_expanded(tn_dims_list shape, tn_dtype dtype,
                              tn_device *device);

#endif
