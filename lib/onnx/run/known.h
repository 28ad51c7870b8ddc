/* known.h: results that depend on the shapes of a model's inputs alone. The first
 * run with some shapes records them; later runs with the same shapes skip the
 * nodes that made them. */
#ifndef TN_ONNX_RUN_KNOWN_H
#define TN_ONNX_RUN_KNOWN_H

#include <onnx/run/run.h>

enum { TN__ONNX_KEY = 128 };

typedef struct tn__onnx_known {
    int references; /* under the model's lock */
    struct tn__onnx_known *next;
    tn_device *device;
    int key_count;
    int64_t key[TN__ONNX_KEY];
    tn__onnx_value *value; /* for each slot of the graph; owned: kept */
    bool *skip;            /* for each node: all its results are known */
    int64_t bytes;
} tn__onnx_known;

/* Finds the results for these inputs, and sets run->known; or makes a record, and
 * sets run->fresh. Both may stay NULL. */
void tn__onnx_known_begin(tn__onnx_run *run, const tn__onnx_graph *g,
                          tn_tensor *const *in, int in_count);
/* Records the results of node i. */
void tn__onnx_known_add(tn__onnx_known *fresh, const tn__onnx_node *node, int i,
                        const tn__onnx_value *slot);
/* Ends a run: what it has recorded is kept for later ones if it succeeded. */
void tn__onnx_known_end(tn__onnx_run *run, const tn__onnx_graph *g,
                        bool succeeded);

#endif
