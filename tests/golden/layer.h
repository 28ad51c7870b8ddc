/* layer.h: makes and calls Tenon's layer for PyTorch's layer of a name. */
#ifndef TN_TESTS_GOLDEN_LAYER_H
#define TN_TESTS_GOLDEN_LAYER_H

#include "golden.h"

#include <stdlib.h>

/* Most inputs and outputs of a layer. */
enum { LAYER_MOST = 8 };

typedef struct layer {
    const char *name; /* PyTorch's: "Conv2d" */
    /* Makes it. NULL without an error: Tenon's has no such option. */
    tn_module *(*make)(const json_t *args);
    /* Calls it on in[] and fills out[]. Returns how many. If NULL: tn_forward
     * of in[0]. */
    int (*run)(tn_module *module, tn_tensor **in, tn_tensor **out);
} layer;

/* NULL if Tenon has no such layer. */
const layer *layer_find(const char *name);

#endif
