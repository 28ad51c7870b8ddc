/* shape_cache.h: caches results that depend on the shapes of a model's inputs
 * alone. The first run with a set of shapes records them. Later runs with the
 * same shapes skip the nodes that made them. */
#ifndef TN_ONNX_RUN_SHAPE_CACHE_H
#define TN_ONNX_RUN_SHAPE_CACHE_H

#include <onnx/run/run.h>

enum { TN__ONNX_KEY = 128 };

typedef struct tn__onnx_shape_cache {
    int references; /* guarded by the model's lock */
    struct tn__onnx_shape_cache *next;
    tn_device *device;
    int key_count;
    int64_t key[TN__ONNX_KEY];
    tn__onnx_value *value; /* for each slot of the graph; owned (kept) */
    bool *skip;            /* for each node: whether all its results are
                              recorded */
    int64_t bytes;
} tn__onnx_shape_cache;

/* Begins a run. If results are recorded for these shapes, sets run->cached.
 * Otherwise may set run->record to a new record. Both may stay NULL. */
void tn__onnx_shape_cache_begin(tn__onnx_run *run, const tn__onnx_graph *g,
                                tn_tensor *const *in, int in_count);
/* Adds the results of node i to the record. */
void tn__onnx_shape_cache_add(tn__onnx_shape_cache *record,
                              const tn__onnx_node *node, int i,
                              const tn__onnx_value *slot);
/* Ends a run. If the run succeeded, its record is stored for later runs. */
void tn__onnx_shape_cache_end(tn__onnx_run *run, const tn__onnx_graph *g,
                              bool succeeded);

#endif
