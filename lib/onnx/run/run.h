/* run.h: runs a graph. */
#ifndef TN_ONNX_RUN_RUN_H
#define TN_ONNX_RUN_RUN_H

#include <onnx/graph/build.h>

typedef struct tn__onnx_run {
    tn__onnx_model *model;
    tn_tensor *const *weight; /* parameters and buffers of the module */
    tn_device *device, *host;
    bool training;
    bool folds;               /* the model is being opened */
    int64_t iterations;       /* how many more loops may make */
    /* For the outermost graph: results for these shapes of inputs, or a record
     * that this run fills. */
    struct tn__onnx_known *known, *fresh;
    tn_onnx_observer observe;
    void *context;
} tn__onnx_run;

/* Runs g. slot has g->slot_count values; the caller has set those of inputs and
 * captures, and gives them back with tn__onnx_slots_free, also on failure. */
bool tn__onnx_run_graph(tn__onnx_run *run, const tn__onnx_graph *g,
                        tn__onnx_value *slot);
/* Memory for the slots of a run, with the constants of g. NULL with an error. */
tn__onnx_value *tn__onnx_slots_new(tn__onnx_run *run, const tn__onnx_graph *g);
void tn__onnx_slots_free(const tn__onnx_graph *g, tn__onnx_value *slot);
/* A value that lends x. */
tn__onnx_value tn__onnx_lend(const tn__onnx_run *run, tn_tensor *x, int type);
/* The tensor of a value, on the device of the run if it can be there. */
static inline tn_tensor *tn__onnx_tensor_of(const tn__onnx_value *v)
{
    return v->device ? v->device : v->host;
}

/* Computes the nodes of all graphs whose inputs are constants. */
void tn__onnx_fold(tn__onnx_model *model);

#endif
