/* scope.h: the names that the nodes of a graph or of a function can use while
 * they are read, and the slots of the graph. */
#ifndef TN_ONNX_GRAPH_SCOPE_H
#define TN_ONNX_GRAPH_SCOPE_H

#include <onnx/graph/build.h>

/* Bits: how the nodes use a slot. */
enum {
    TN__ONNX_USED_ON_HOST = 1, TN__ONNX_USED_AS_BUFFER = 2,
    TN__ONNX_USED_AS_CONSTANT = 4,
    /* holds weights of 8 or 4 bits, or the result of row->scales applied to
     * such weights */
    TN__ONNX_QUANTISED = 8
};

/* Data about the slots of a graph while it is read. */
typedef struct tn__onnx_slots {
    struct tn__onnx_slots *parent; /* those of the enclosing graph */
    unsigned char *use; /* for each slot: TN__ONNX_USED_... */
    int *from; /* for each slot: the slot of the enclosing graph that it
                  captures, or -1 */
    int room, capture_room;
} tn__onnx_slots;

/* A graph has a scope, and so has each call of a function. The nodes of a
 * function are added to the graph of the call, so both scopes have the same
 * graph and slots. */
typedef struct tn__onnx_scope {
    tn__onnx_names names; /* must be the first member: tn__onnx_slot_find casts
                             a pointer to names to its scope */
    tn__onnx_slots *slots;
    const tn__onnx_function *function; /* NULL for a graph */
    const tn__onnx_node *call; /* the node that calls the function */
} tn__onnx_scope;

/* ---- slots --------------------------------------------------------------- */

enum { TN__ONNX_LEFT_OUT = -2 };
/* Makes a slot and returns its index, or -1 with an error. */
int tn__onnx_slot_new(tn__onnx_builder *b, tn__onnx_scope *s, const char *name);
/* Returns the slot of a name. A value of an enclosing graph gets a slot in this
 * graph. Returns TN__ONNX_LEFT_OUT for an input of a function that the call
 * leaves out. Returns -1 if nothing has this name, or with an error. */
int tn__onnx_slot_find(tn__onnx_builder *b, tn__onnx_scope *s,
                       const char *name);
/* Records how a slot is used, also for the value that it captures. */
void tn__onnx_slot_note(tn__onnx_slots *slots, int slot, unsigned char use);

/* ---- nodes --------------------------------------------------------------- */

/* Reads a NodeProto and adds the node to the graph. If it calls a function,
 * adds the nodes of the function instead. */
bool tn__onnx_node_read(tn__onnx_builder *b, tn__onnx_scope *s,
                        tn__onnx_span message, int depth);
/* Adds the nodes of a function to the graph of the scope. `node` is the call;
 * in_name has the names of its inputs. */
bool tn__onnx_function_call(tn__onnx_builder *b, tn__onnx_scope *s,
                            const tn__onnx_node *node,
                            const char *const *in_name,
                            const tn__onnx_function *f, int depth);
/* For each node, lists the slots that no later node uses. */
bool tn__onnx_lifetimes_find(tn__onnx_builder *b, tn__onnx_graph *g);

/* ---- weights ------------------------------------------------------------- */

/* Reads an initialiser: it becomes a parameter, a buffer or a constant. */
bool tn__onnx_initialiser_read(tn__onnx_builder *b, tn__onnx_scope *s,
                               const tn__onnx_tensor *t, int slot);
/* Turns Constant nodes with floating-point numbers into parameters, as some
 * exporters write weights in this way. A Constant of one element stays a
 * constant, because it is usually part of a formula. */
bool tn__onnx_constants_take(tn__onnx_builder *b, tn__onnx_scope *s);

/* ---- problems ------------------------------------------------------------ */

/* Set an error about the memory, or a node, or a value. Return false or
 * NULL. */
void *tn__onnx_no_memory(void);
bool tn__onnx_node_malformed(tn__onnx_builder *b, const tn__onnx_node *node,
                             const char *what);
bool tn__onnx_value_malformed(tn__onnx_builder *b, const char *name,
                              const char *what);

#endif
