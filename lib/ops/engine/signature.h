/* signature.h: parses the signature of an operator at run time. */
#ifndef TN_LIB_OPS_SIGNATURE_H
#define TN_LIB_OPS_SIGNATURE_H

#include <ops/engine/ops.h>

typedef struct tn__signature {
    char *text;  /* owned: names and defaults point into it */
    const char *name;
    int arg_count, tensor_count, out_count;
    tn_op_arg arg[TN__OP_MAX_ARGS];
    tn_value fallback[TN__OP_MAX_ARGS];
    tn_dims_list dims[TN__OP_MAX_ARGS]; /* a default of kind dims points here */
} tn__signature;

/* Parses text as lib/ops/README.md describes it, except lists of tensors and of
 * floats. *out must not move while its parts are used. */
tn_status tn__signature_parse(const char *text, tn__signature *out);

#endif
