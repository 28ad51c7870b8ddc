/* layer.h: creates and calls Tenon's layer for the name of a PyTorch layer. */
#ifndef TN_TESTS_GOLDEN_LAYER_H
#define TN_TESTS_GOLDEN_LAYER_H

#include "golden.h"

#include <stdlib.h>

/* The maximum number of inputs and of outputs of a layer. */
enum { LAYER_MOST = 8 };

typedef struct layer {
    const char *name; /* PyTorch's name, such as "Conv2d" */
    /* Creates the layer. Returns NULL without an error if Tenon's layer lacks
     * one of the options. */
    tn_module *(*make)(const json_t *args);
    /* Calls the layer on in[], fills out[] and returns the number of outputs.
     * NULL: the layer is called by tn_forward on in[0]. */
    int (*run)(tn_module *module, tn_tensor **in, tn_tensor **out);
} layer;

/* Returns the layer of this name; NULL if Tenon has none. */
const layer *layer_find(const char *name);

/* These functions make and run the layer "Parametrized" (parametrized.c). The
 * layer that was made last is run. */
tn_module *parametrized_make(const json_t *args);
int parametrized_run(tn_module *module, tn_tensor **in, tn_tensor **out);
/* Makes the parametrizations that begin after the layer's state is loaded. */
void parametrized_ready(tn_module *module);

#endif
