/* run.h: runs a graph. */
#ifndef TN_ONNX_RUN_RUN_H
#define TN_ONNX_RUN_RUN_H

#include <onnx/graph/build.h>

typedef struct tn__onnx_run {
    tn__onnx_model *model;
    tn_tensor *const *weight; /* parameters and buffers of the module, lent */
    tn_device *device, *host;
    bool training;
    bool folds;               /* true while the model is opened and constants
                                 are folded */
    int64_t fold_bytes;       /* how many more bytes folding may compute */
    int64_t iterations;       /* how many more iterations loops may run */
    /* Of the outermost graph: recorded results for these input shapes, or a
     * record that this run fills. At most one is set. */
    struct tn__onnx_shape_cache *cached, *record;
    tn_onnx_observer observe;
    void *context;
} tn__onnx_run;

/* Runs g. `slot` has g->slot_count values. The caller sets the slots of inputs
 * and captures before, and frees all slots with tn__onnx_slots_free afterwards,
 * also on failure. */
bool tn__onnx_run_graph(tn__onnx_run *run, const tn__onnx_graph *g,
                        tn__onnx_value *slot);
/* Allocates the slots of a run and fills in the constants of g. Returns NULL
 * with an error. */
tn__onnx_value *tn__onnx_slots_new(tn__onnx_run *run, const tn__onnx_graph *g);
void tn__onnx_slots_free(const tn__onnx_graph *g, tn__onnx_value *slot);
/* Returns a value that borrows x. */
tn__onnx_value tn__onnx_lend(const tn__onnx_run *run, tn_tensor *x, int type);
/* Returns the tensor of a value, on the device of the run if the value is
 * there. */
static inline tn_tensor *tn__onnx_tensor_of(const tn__onnx_value *v)
{
    return v->device ? v->device : v->host;
}

static inline int64_t tn__onnx_bytes_of(const tn_tensor *x)
{
    return tn_tensor_numel(x) * (int64_t)tn_dtype_bytes(tn_tensor_dtype(x));
}

/* Folds constants: computes the nodes of all graphs whose inputs are
 * constants. Frees the constants that only these nodes used. */
void tn__onnx_fold(tn__onnx_model *model);

#endif
