/* layer.h: PyTorch's layers by name, as Tenon makes and calls them. */
#ifndef TN_TESTS_GOLDEN_LAYER_H
#define TN_TESTS_GOLDEN_LAYER_H

#include "golden.h"

#include <stdlib.h>

/* Most inputs and outputs of a layer. */
enum { LAYER_MOST = 8 };

typedef struct layer {
    const char *name; /* PyTorch's: "Conv2d" */
    /* NULL without an error: Tenon's has no such option. */
    tn_module *(*make)(const json_t *args);
    /* Calls it on in[] and fills out[]; returns how many. NULL: tn_forward of
     * in[0]. */
    int (*run)(tn_module *module, tn_tensor **in, tn_tensor **out);
} layer;

/* NULL if there is no such layer here. */
const layer *layer_find(const char *name);

#endif
